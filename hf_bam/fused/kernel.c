/* Rows of stochastic attention: from scores to weights, and from gradients of weights to gradients of scores.
 *
 * The products with queries, keys and values are torch's. Here is what lies between them, for a block of rows of some
 * heads, in place: noise, the two softmaxes (with and without noise), dropout, the KL of every row, and their
 * gradients. Loops run over contiguous keys and are written so that a compiler turns them into vector code.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(x) #x
#define PRAGMA(x) _Pragma(TEXT(x))
#define REDUCE(...) PRAGMA(omp simd reduction(__VA_ARGS__))

/* Score of a hidden key: its weight is 0 beside any visible one. */
static const float HIDDEN = -1e30f;
static const float EULER = 0.5772156649f;

enum { WEIBULL = 0, LOGNORMAL = 1 };

/* One call; the Python side has the same fields in the same order (native.py). Strides are in elements. */
typedef struct {
    int64_t heads, rows, keys;   /* of this block */
    int64_t first_row, all_rows; /* the block's place among the rows of its heads */
    int64_t chunk;               /* rows of a head that are one job */
    int64_t causal;              /* row i sees keys 0..i */
    const uint8_t *visible;      /* null: all */
    int64_t visible_head, visible_row;
    const float *bias; /* null: none */
    int64_t bias_head, bias_row;
    const uint32_t *row_keys; /* (heads, all_rows, 2) of the generator; all_rows here and below: from first_row on */
    const float *noise;       /* (heads, keys) noise per key, instead of generated noise; or null */
    int64_t family;
    float spread, offset; /* noise = spread * standard noise + offset */
    float dropout;
    const float *logits; /* (heads, keys) of the prior; null: no KL of rows */
    float shape_slope, shape_offset, beta, k, sigma, sigma_prior;
    const float *counted;   /* (rows) 1 for a query that counts in the attention keys receive; null: not wanted */
    const float *mean_grad; /* (heads, keys) gradient of the sums of attention over queries */
    const float *kl_grad;   /* (heads, all_rows) */
    float *scores;          /* (heads, rows, keys): scores in, weights out */
    float *weight_grad;     /* (heads, rows, keys): gradient of weights in, of scores out; null: forward */
    float *lse, *noisy_lse; /* (heads, all_rows) */
    float *kl;              /* (heads, all_rows) */
    float *columns;         /* (heads, chunks, keys): sums of attention, or gradient of the prior's logits */
} Call;

/* ---- elementary functions: float, a few units in the last place, no branches ---- */

static inline float from_bits(int32_t i) { float f; memcpy(&f, &i, 4); return f; }
static inline int32_t to_bits(float f) { int32_t i; memcpy(&i, &f, 4); return i; }

static inline float exp_(float x) {
    float safe = x < -87.0f ? -87.0f : x;
    float n = (safe * 1.44269504f + 12582912.0f) - 12582912.0f; /* nearest integer */
    float r = safe - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 0.00139411f;
    p = p * r + 0.00836318f;
    p = p * r + 0.04166638f;
    p = p * r + 0.16666577f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    float y = from_bits(to_bits(p) + (int32_t)n * (1 << 23));
    return x < -87.0f ? 0.0f : y;
}

/* log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1] */
static inline float log1p_core(float f) {
    float p = -0.07859547f;
    p = p * f + 0.12881623f;
    p = p * f - 0.13128767f;
    p = p * f + 0.14181196f;
    p = p * f - 0.16624553f;
    p = p * f + 0.20002286f;
    p = p * f - 0.2500081f;
    p = p * f + 0.33333317f;
    return f + f * f * (p * f - 0.5f);
}

/* log(x), given x - 1, which may be known better than x */
static inline float log_given(float x, float x_minus_1) {
    int32_t bits = to_bits(x);
    int32_t e = (bits - 0x3f3504f3) >> 23; /* x = m * 2^e, m in [sqrt(1/2), sqrt(2)) */
    float f = e == 0 ? x_minus_1 : from_bits(bits - e * (1 << 23)) - 1.0f;
    return (float)e * 0.693147181f + log1p_core(f);
}

static inline float log_(float x) { return log_given(x, x - 1.0f); }

/* log Gamma(1 + a) and digamma(1 + a) for a >= 0: recurrence to 5 + a, then Stirling's series */
static inline float lgamma1p(float a) {
    float x = a + 5.0f, r = 1.0f / x, r2 = r * r;
    float series = r * (0.0833333333f - r2 * (0.00277777778f - r2 * 0.000793650794f));
    float product = (a + 1.0f) * (a + 2.0f) * (a + 3.0f) * (a + 4.0f);
    return (x - 0.5f) * log_(x) - x + 0.918938533f + series - log_(product);
}

static inline float digamma1p(float a) {
    float x = a + 5.0f, r = 1.0f / x, r2 = r * r;
    float series = r2 * (0.0833333333f - r2 * (0.00833333333f - r2 * 0.00396825397f));
    float low = (2.0f * a + 3.0f) / ((a + 1.0f) * (a + 2.0f)), high = (2.0f * a + 7.0f) / ((a + 3.0f) * (a + 4.0f));
    return log_(x) - 0.5f * r - series - low - high;
}

/* ---- random numbers: a function of row and key (noise.py has the same) ---- */

static inline uint32_t random_bits(uint32_t first, uint32_t second, uint32_t j) {
    uint32_t x = first + j * 0x9E3779B9u;
    x ^= x >> 17;
    x *= 0xED5AD4BBu;
    x ^= x >> 11;
    x += second;
    x *= 0xAC4C1B51u;
    x ^= x >> 15;
    x *= 0x31848BABu;
    return x ^ (x >> 14);
}

/* Bits for dropout at the same place: another round. */
static inline uint32_t more_bits(uint32_t x) {
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    return x ^ (x >> 16);
}

static inline float uniform(uint32_t bits) {
    float u = ((float)(int32_t)(bits >> 1) + 0.5f) * 4.65661287e-10f; /* 2^-31 */
    return u < 0.99999994f ? u : 0.99999994f;
}

static inline float log_exponential(float u) { return log_(-log_given(1.0f - u, -u)); }

static inline float normal(float u) {
    float x = 2.0f * u - 1.0f, w = -log_(4.0f * u * (1.0f - u));
    float c = w - 2.5f, t = sqrtf(w > 0.0f ? w : 0.0f) - 3.40932184f;
    float center = 3.384933e-08f, tail = -2.57927279e-05f;
    center = center * c + 4.84906352e-07f;
    center = center * c - 4.90944256e-06f;
    center = center * c - 6.20489057e-06f;
    center = center * c + 3.08834377e-04f;
    center = center * c - 1.77305112e-03f;
    center = center * c - 5.90777818e-03f;
    center = center * c + 3.48802692e-01f;
    center = center * c + 2.12331349f;
    tail = tail * t - 2.62283105e-04f;
    tail = tail * t + 1.01459534e-03f;
    tail = tail * t - 1.51762808e-03f;
    tail = tail * t + 1.96835064e-03f;
    tail = tail * t - 3.50110962e-03f;
    tail = tail * t + 5.53153878e-03f;
    tail = tail * t + 1.42371031f;
    tail = tail * t + 4.58794563f;
    return x * (w < 5.0f ? center : tail);
}

/* ---- one row ---- */

typedef struct {
    int64_t head, row, n; /* keys n.. are hidden by causality */
    const uint8_t *visible;
    const float *bias;
    uint32_t first, second;
} Row;

static Row locate(const Call *c, int64_t head, int64_t row) {
    const uint32_t *row_keys = c->row_keys + 2 * (head * c->all_rows + row);
    int64_t end = c->first_row + row + 1;
    return (Row){
        .head = head,
        .row = row,
        .n = c->causal && end < c->keys ? end : c->keys,
        .visible = c->visible ? c->visible + head * c->visible_head + row * c->visible_row : NULL,
        .bias = c->bias ? c->bias + head * c->bias_head + row * c->bias_row : NULL,
        .first = row_keys[0],
        .second = row_keys[1],
    };
}

static void mask_scores(const Row *r, const float *restrict seen, float *restrict s) {
    if (r->bias)
        for (int64_t j = 0; j < r->n; j++) s[j] += r->bias[j];
    if (r->visible)
        for (int64_t j = 0; j < r->n; j++) s[j] = seen[j] > 0.0f ? s[j] : HIDDEN;
}

static void add_noise(const Call *c, const Row *r, float *restrict s) {
    const float spread = c->spread, offset = c->offset;
    const uint32_t first = r->first, second = r->second;
    if (c->noise) {
        const float *noise = c->noise + r->head * c->keys;
        for (int64_t j = 0; j < r->n; j++) s[j] += noise[j];
    } else if (c->family == WEIBULL) {
        for (int64_t j = 0; j < r->n; j++)
            s[j] += offset + spread * log_exponential(uniform(random_bits(first, second, (uint32_t)j)));
    } else {
        for (int64_t j = 0; j < r->n; j++)
            s[j] += offset + spread * normal(uniform(random_bits(first, second, (uint32_t)j)));
    }
}

/* Multiplies by 0 with probability p, else by 1 / (1 - p). */
static void drop(const Call *c, const Row *r, float *restrict x) {
    const float p = c->dropout, scale = 1.0f / (1.0f - p);
    const uint32_t first = r->first, second = r->second;
    for (int64_t j = 0; j < r->n; j++)
        x[j] *= uniform(more_bits(random_bits(first, second, (uint32_t)j))) < p ? 0.0f : scale;
}

static float maximum(const float *x, int64_t n) {
    float top = HIDDEN;
    REDUCE(max : top)
    for (int64_t j = 0; j < n; j++) top = x[j] > top ? x[j] : top;
    return top;
}

static float log_sum_exp(const float *x, int64_t n) {
    float top = maximum(x, n), sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += exp_(x[j] - top);
    return top + log_(sum);
}

/* ---- what the keys that a row sees have in common for all rows that see the same ---- */

typedef struct {
    int64_t count;
    float *seen;    /* 1 or 0 */
    float *psi;     /* prior attention, 0 where hidden */
    float *target;  /* Weibull: alpha, 0 where hidden; Lognormal: log Psi, shifted by the difference of the means */
    float *slope;   /* Weibull: digamma(1 + alpha), for the gradient */
    float total;    /* Weibull: sum of alpha */
    float constant; /* Weibull: sum of log Gamma(alpha) */
} Keys;

static void prepare_gamma(const Call *c, const Row *r, Keys *k, const float *logits, float log_sum) {
    const float slope = c->shape_slope, offset = c->shape_offset - slope * log_sum;
    const float *restrict seen = k->seen;
    float *restrict alpha = k->target, *restrict digamma = k->slope;
    float total = 0.0f, constant = 0.0f;
    for (int64_t j = 0; j < r->n; j++) alpha[j] = seen[j] * exp_(offset + slope * logits[j]);
    REDUCE(+ : total, constant)
    for (int64_t j = 0; j < r->n; j++) {
        total += alpha[j];
        constant += seen[j] * (lgamma1p(alpha[j]) - offset - slope * logits[j]);
    }
    k->total = total;
    k->constant = constant;
    if (c->kl_grad)
        for (int64_t j = 0; j < r->n; j++) digamma[j] = digamma1p(alpha[j]);
}

static void prepare_prior(const Call *c, const Row *r, Keys *k) {
    const float *restrict logits = c->logits + r->head * c->keys, *restrict seen = k->seen;
    float *restrict psi = k->psi, *restrict target = k->target;
    float sum = 0.0f, top = HIDDEN;
    REDUCE(max : top)
    for (int64_t j = 0; j < r->n; j++) {
        float logit = seen[j] > 0.0f ? logits[j] : HIDDEN;
        top = logit > top ? logit : top;
    }
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        psi[j] = seen[j] * exp_(logits[j] - top);
        sum += psi[j];
    }
    const float log_sum = top + log_(sum), inverse = 1.0f / sum;
    for (int64_t j = 0; j < r->n; j++) psi[j] *= inverse;
    if (c->family == WEIBULL) {
        prepare_gamma(c, r, k, logits, log_sum);
    } else {
        float shift = 0.5f * (c->sigma * c->sigma - c->sigma_prior * c->sigma_prior) - log_sum;
        for (int64_t j = 0; j < r->n; j++) target[j] = logits[j] + shift;
    }
}

static int same_keys(const Row *r, const Row *before) {
    return r->n == before->n && (r->visible == before->visible || !memcmp(r->visible, before->visible, (size_t)r->n));
}

static void prepare_keys(const Call *c, const Row *r, Keys *k) {
    const uint8_t *visible = r->visible;
    float *restrict seen = k->seen;
    int64_t count = 0;
    for (int64_t j = 0; j < r->n; j++) seen[j] = !visible || visible[j] ? 1.0f : 0.0f;
    for (int64_t j = 0; j < r->n; j++) count += seen[j] > 0.0f;
    k->count = count;
    if (k->count && c->logits && (c->kl || c->kl_grad)) prepare_prior(c, r, k);
}

/* ---- KL of a row, and its gradient ---- */

static float row_kl(const Call *c, const Row *r, const Keys *k, const float *s, float lse) {
    const float *restrict target = k->target, *restrict seen = k->seen;
    float sum = 0.0f;
    if (c->family == WEIBULL) {
        const float linear = EULER / c->k - c->offset - logf(c->beta) + lse;
        REDUCE(+ : sum)
        for (int64_t j = 0; j < r->n; j++) sum += target[j] * (linear - s[j]);
        return sum + c->beta + k->constant + (float)k->count * (logf(c->k) - EULER - 1.0f);
    }
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        float d = seen[j] > 0.0f ? s[j] - lse - target[j] : 0.0f;
        sum += d * d;
    }
    const float precision = 0.5f / (c->sigma_prior * c->sigma_prior);
    float constant = logf(c->sigma_prior / c->sigma) - 0.5f + precision * c->sigma * c->sigma;
    return sum * precision + (float)k->count * constant;
}

/* Adds to the gradients of the row's scores and of the prior's logits. */
static void weibull_grad(const Call *c, const Row *r, const Keys *k, const float *restrict log_p, float grad,
                         float *restrict score_grad, float *restrict t, float *restrict columns) {
    const float linear = EULER / c->k - c->offset - logf(c->beta), total = k->total, slope = c->shape_slope * grad;
    const float *restrict alpha = k->target, *restrict digamma = k->slope, *restrict seen = k->seen;
    const float *restrict psi = k->psi;
    float sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        score_grad[j] += grad * (total * exp_(log_p[j]) - alpha[j]);
        t[j] = slope * (alpha[j] * (linear - log_p[j] + digamma[j]) - seen[j]);
        sum += t[j];
    }
    for (int64_t j = 0; j < r->n; j++) columns[j] += t[j] - psi[j] * sum;
}

static void lognormal_grad(const Call *c, const Row *r, const Keys *k, const float *restrict log_p, float grad,
                           float *restrict score_grad, float *restrict t, float *restrict columns) {
    const float weight = grad / (c->sigma_prior * c->sigma_prior);
    const float *restrict target = k->target, *restrict seen = k->seen, *restrict psi = k->psi;
    float sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        t[j] = seen[j] > 0.0f ? weight * (log_p[j] - target[j]) : 0.0f;
        sum += t[j];
    }
    for (int64_t j = 0; j < r->n; j++) {
        score_grad[j] += t[j] - sum * exp_(log_p[j]);
        columns[j] += psi[j] * sum - t[j];
    }
}

/* Gradient through the sums of attention over queries. */
static void mean_grad(const Call *c, const Row *r, const float *restrict log_p, float *restrict score_grad) {
    const float *grad = c->mean_grad + r->head * c->keys;
    const float weight = c->counted[r->row];
    float sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) sum += exp_(log_p[j]) * grad[j];
    for (int64_t j = 0; j < r->n; j++) score_grad[j] += weight * exp_(log_p[j]) * (grad[j] - sum);
}

/* ---- a row forward and backward ---- */

static void forward_row(const Call *c, const Row *r, const Keys *k, float *restrict s, float *restrict columns) {
    const int64_t place = r->head * c->all_rows + r->row;
    mask_scores(r, k->seen, s);
    if (c->kl || c->counted) {
        const float lse = log_sum_exp(s, r->n), counted = c->counted ? c->counted[r->row] : 0.0f;
        c->lse[place] = lse;
        if (c->kl) c->kl[place] = row_kl(c, r, k, s, lse);
        if (c->counted)
            for (int64_t j = 0; j < r->n; j++) columns[j] += counted * exp_(s[j] - lse);
    }
    add_noise(c, r, s);
    float top = maximum(s, r->n), sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        s[j] = exp_(s[j] - top);
        sum += s[j];
    }
    c->noisy_lse[place] = top + log_(sum);
    const float inverse = 1.0f / sum;
    for (int64_t j = 0; j < r->n; j++) s[j] *= inverse;
    if (c->dropout > 0.0f) drop(c, r, s);
}

static void backward_row(const Call *c, const Row *r, const Keys *k, float *restrict s, float *restrict g,
                         float *restrict log_p, float *restrict t, float *restrict columns) {
    const int64_t place = r->head * c->all_rows + r->row;
    const float lse = c->lse[place], noisy_lse = c->noisy_lse[place];
    mask_scores(r, k->seen, s);
    if (c->kl_grad || c->mean_grad)
        for (int64_t j = 0; j < r->n; j++) log_p[j] = s[j] - lse;
    add_noise(c, r, s);
    if (c->dropout > 0.0f) drop(c, r, g);
    float delta = 0.0f;
    REDUCE(+ : delta)
    for (int64_t j = 0; j < r->n; j++) {
        s[j] = exp_(s[j] - noisy_lse);
        delta += s[j] * g[j];
    }
    for (int64_t j = 0; j < r->n; j++) g[j] = s[j] * (g[j] - delta);
    if (c->dropout > 0.0f) drop(c, r, s);
    if (c->kl_grad)
        (c->family == WEIBULL ? weibull_grad : lognormal_grad)(c, r, k, log_p, c->kl_grad[place], g, t, columns);
    if (c->mean_grad) mean_grad(c, r, log_p, g);
}

static void run_row(const Call *c, const Row *r, const Keys *k, float *scratch, float *columns) {
    const int64_t place = r->head * c->all_rows + r->row;
    const int64_t entry = (r->head * c->rows + r->row) * c->keys;
    float *s = c->scores + entry, *g = c->weight_grad ? c->weight_grad + entry : NULL;
    int64_t used = k->count ? r->n : 0;
    if (!used) {
        if (!g) c->lse[place] = c->noisy_lse[place] = 0.0f;
        if (c->kl) c->kl[place] = 0.0f;
    } else if (g) {
        backward_row(c, r, k, s, g, scratch, scratch + c->keys, columns);
    } else {
        forward_row(c, r, k, s, columns);
    }
    memset(s + used, 0, sizeof(float) * (size_t)(c->keys - used));
    if (g) memset(g + used, 0, sizeof(float) * (size_t)(c->keys - used));
}

/* Rows in place: weights from scores, or with weight_grad given, its gradient as well. Returns 0, or 1 out of memory. */
__attribute__((visibility("default"))) int hf_bam_rows(const Call *c) {
    const int64_t chunks = (c->rows + c->chunk - 1) / c->chunk;
    int failed = 0;
#pragma omp parallel for schedule(dynamic) reduction(| : failed)
    for (int64_t job = 0; job < c->heads * chunks; job++) {
        const int64_t head = job / chunks, start = job % chunks * c->chunk;
        const int64_t end = start + c->chunk < c->rows ? start + c->chunk : c->rows;
        float *space = malloc(sizeof(float) * 6 * (size_t)c->keys);
        float *columns = c->columns ? c->columns + job * c->keys : NULL;
        if (!space) {
            failed = 1;
            continue;
        }
        Keys k = {.seen = space, .psi = space + c->keys, .target = space + 2 * c->keys, .slope = space + 3 * c->keys};
        if (columns) memset(columns, 0, sizeof(float) * (size_t)c->keys);
        Row before = {0};
        for (int64_t row = start; row < end; row++) {
            Row r = locate(c, head, row);
            if (row == start || !same_keys(&r, &before)) prepare_keys(c, &r, &k);
            run_row(c, &r, &k, space + 4 * c->keys, columns);
            before = r;
        }
        free(space);
    }
    return failed;
}
