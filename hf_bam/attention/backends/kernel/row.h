#pragma once
/* One row of stochastic attention, in place: from scores to weights, and from the gradient of the weights to that of
 * the scores. Noise, the two softmaxes (with and without noise), dropout, the KL of the row, and their gradients.
 */
#include "call.h"
#include "functions.h"

/* Score of a hidden key: its weight is 0 beside any allowed one. */
static const float HIDDEN = -1e30f;
static const float EULER = 0.5772156649f;

typedef struct {
    int64_t batch, head, row;   /* its position; the head counts through the batch */
    int64_t n;                  /* keys n.. are hidden by causality */
    const uint8_t *allowed;
    const float *bias;
    uint32_t first, second;     /* of the generator */
} Row;

static Row locate(const Call *c, int64_t head, int64_t row) {
    const int64_t b = head / c->heads, h = head % c->heads;
    const uint64_t seed = c->seed + (c->row_seeds ? c->row_seeds[b] : 0);
    const uint64_t query = (uint64_t)row + (c->first_query ? (uint64_t)c->first_query[b] : 0);
    const uint64_t bits = row_key(seed, (uint64_t)(c->row_seeds ? h : head), query);
    return (Row){
        .batch = b,
        .head = head,
        .row = row,
        .n = c->causal && row + 1 < c->keys ? row + 1 : c->keys,
        .allowed = (const uint8_t *)at(&c->allowed, 1, b, h, row),
        .bias = (const float *)at(&c->bias, sizeof(float), b, h, row),
        .first = (uint32_t)bits + (c->first_key ? (uint32_t)c->first_key[b] * KEY_STEP : 0),
        .second = (uint32_t)(bits >> 32),
    };
}

static void mask_scores(const Row *r, const float *restrict flags, float *restrict s) {
    if (r->bias)
        for (int64_t j = 0; j < r->n; j++) s[j] += r->bias[j];
    if (r->allowed)
        for (int64_t j = 0; j < r->n; j++) s[j] = flags[j] > 0.0f ? s[j] : HIDDEN;
}

/* Weibull noise with k = 1, the default, is an exponential number that multiplies the exponential of a score: no logarithm
 * is needed, and a constant factor of a row has no effect.
 */
static int multiplies(const Call *c) { return c->family == WEIBULL && c->spread == 1.0f && !c->noise; }

/* The loops are apart, with results in `t`: one loop of everything would wait for itself most of the time. */
static void standard_noise(const Call *c, const Row *r, float *restrict t) {
    const uint32_t first = r->first, second = r->second;
    for (int64_t j = 0; j < r->n; j++) t[j] = uniform(random_bits(first, second, (uint32_t)j));
    if (c->family == WEIBULL)
        for (int64_t j = 0; j < r->n; j++) t[j] = exponential(t[j]);
}

static void add_noise(const Call *c, const Row *r, float *restrict s, float *restrict t) {
    const float spread = c->spread, offset = c->offset;
    if (c->noise) {
        const float *noise = c->noise + r->head * c->keys;
        for (int64_t j = 0; j < r->n; j++) s[j] += noise[j];
        return;
    }
    standard_noise(c, r, t);
    if (c->family == LOGNORMAL)
        for (int64_t j = 0; j < r->n; j++) s[j] += offset + spread * normal(t[j]);
    else
        for (int64_t j = 0; j < r->n; j++) s[j] += offset + spread * log_(t[j]);
}

/* Writes exp(x - base) to `e`, which may be `x`; returns the sum. */
static float exponentials(const float *x, int64_t n, float base, float *e) {
    float sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        e[j] = exp_(x[j] - base);
        sum += e[j];
    }
    return sum;
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

/* ---- what the keys that a row sees have in common for all rows that see the same ---- */

typedef struct {
    int64_t count;
    float *flags;   /* 1 for a key that the mask allows, else 0 */
    float *psi;     /* prior attention, 0 where hidden */
    float *target;  /* Weibull: alpha, 0 where hidden; Lognormal: log Psi, shifted by the difference of the means */
    float *slope;   /* Weibull: digamma(1 + alpha), for the gradient */
    float total;    /* Weibull: sum of alpha */
    float linear;   /* Weibull: factor of alpha in the KL, beside the log-probability */
    float constant; /* of the KL of a row */
} Keys;

static void prepare_gamma(const Call *c, const Row *r, Keys *k, const float *logits, float log_sum) {
    const float slope = c->shape_slope, offset = c->shape_offset - slope * log_sum;
    const float *restrict flags = k->flags;
    float *restrict alpha = k->target, *restrict digamma = k->slope;
    float total = 0.0f, constant = 0.0f;
    for (int64_t j = 0; j < r->n; j++) alpha[j] = flags[j] * exp_(offset + slope * logits[j]);
    REDUCE(+ : total, constant)
    for (int64_t j = 0; j < r->n; j++) {
        total += alpha[j];
        constant += flags[j] * (lgamma1p(alpha[j]) - offset - slope * logits[j]);
    }
    k->total = total;
    k->linear = EULER / c->k - c->offset - logf(c->beta);
    k->constant = constant + c->beta + (float)k->count * (logf(c->k) - EULER - 1.0f);
    if (c->kl_grad)
        for (int64_t j = 0; j < r->n; j++) digamma[j] = digamma1p(alpha[j]);
}

static void prepare_prior(const Call *c, const Row *r, Keys *k) {
    const float *restrict logits = c->logits + r->head * c->keys, *restrict flags = k->flags;
    float *restrict psi = k->psi, *restrict target = k->target;
    float sum = 0.0f, top = HIDDEN;
    REDUCE(max : top)
    for (int64_t j = 0; j < r->n; j++) {
        float logit = flags[j] > 0.0f ? logits[j] : HIDDEN;
        top = logit > top ? logit : top;
    }
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        psi[j] = flags[j] * exp_(logits[j] - top);
        sum += psi[j];
    }
    const float log_sum = top + log_(sum), inverse = 1.0f / sum;
    for (int64_t j = 0; j < r->n; j++) psi[j] *= inverse;
    if (c->family == WEIBULL) {
        prepare_gamma(c, r, k, logits, log_sum);
    } else {
        const float variance = c->sigma * c->sigma, of_prior = c->sigma_prior * c->sigma_prior;
        const float shift = 0.5f * (variance - of_prior) - log_sum;
        for (int64_t j = 0; j < r->n; j++) target[j] = logits[j] + shift;
        k->constant = (float)k->count * (logf(c->sigma_prior / c->sigma) - 0.5f + 0.5f * variance / of_prior);
    }
}

static int same_keys(const Row *r, const Row *before) {
    return r->n == before->n && (r->allowed == before->allowed || !memcmp(r->allowed, before->allowed, (size_t)r->n));
}

static void prepare_keys(const Call *c, const Row *r, Keys *k) {
    const uint8_t *allowed = r->allowed;
    float *restrict flags = k->flags;
    int64_t count = 0;
    for (int64_t j = 0; j < r->n; j++) flags[j] = !allowed || allowed[j] ? 1.0f : 0.0f;
    for (int64_t j = 0; j < r->n; j++) count += flags[j] > 0.0f;
    k->count = count;
    if (k->count && c->logits && (c->kl || c->kl_grad)) prepare_prior(c, r, k);
}

/* ---- KL of a row, and its gradient ---- */

static float row_kl(const Call *c, const Row *r, const Keys *k, const float *s, float lse) {
    const float *restrict target = k->target, *restrict flags = k->flags;
    float sum = 0.0f;
    if (c->family == WEIBULL) {
        const float linear = k->linear + lse;
        REDUCE(+ : sum)
        for (int64_t j = 0; j < r->n; j++) sum += target[j] * (linear - s[j]);
        return sum + k->constant;
    }
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        float d = flags[j] > 0.0f ? s[j] - lse - target[j] : 0.0f;
        sum += d * d;
    }
    return sum * 0.5f / (c->sigma_prior * c->sigma_prior) + k->constant;
}

/* Soft attention of a row. */
typedef struct {
    float *log_p, *p;
} Soft;

/* Adds to the gradients of the row's scores and of the prior's logits. */
static void weibull_grad(const Call *c, const Row *r, const Keys *k, const Soft *soft, float grad,
                         float *restrict score_grad, float *restrict t, float *restrict columns) {
    const float *restrict log_p = soft->log_p, *restrict p = soft->p;
    const float linear = k->linear, total = k->total, slope = c->shape_slope * grad;
    const float *restrict alpha = k->target, *restrict digamma = k->slope, *restrict flags = k->flags;
    const float *restrict psi = k->psi;
    float sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        score_grad[j] += grad * (total * p[j] - alpha[j]);
        t[j] = slope * (alpha[j] * (linear - log_p[j] + digamma[j]) - flags[j]);
        sum += t[j];
    }
    for (int64_t j = 0; j < r->n; j++) columns[j] += t[j] - psi[j] * sum;
}

static void lognormal_grad(const Call *c, const Row *r, const Keys *k, const Soft *soft, float grad,
                           float *restrict score_grad, float *restrict t, float *restrict columns) {
    const float *restrict log_p = soft->log_p, *restrict p = soft->p;
    const float weight = grad / (c->sigma_prior * c->sigma_prior);
    const float *restrict target = k->target, *restrict flags = k->flags, *restrict psi = k->psi;
    float sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) {
        t[j] = flags[j] > 0.0f ? weight * (log_p[j] - target[j]) : 0.0f;
        sum += t[j];
    }
    for (int64_t j = 0; j < r->n; j++) {
        score_grad[j] += t[j] - sum * p[j];
        columns[j] += psi[j] * sum - t[j];
    }
}

/* Gradient through the sums of attention over queries. */
static void mean_grad(const Call *c, const Row *r, const float *restrict p, float *restrict score_grad) {
    const float *grad = c->mean_grad + r->head * c->keys;
    const float weight = c->query_mask[r->batch * c->rows + r->row];
    float sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t j = 0; j < r->n; j++) sum += p[j] * grad[j];
    for (int64_t j = 0; j < r->n; j++) score_grad[j] += weight * p[j] * (grad[j] - sum);
}

/* ---- a row forward and backward ---- */

/* Rows of memory for a row to work in. */
enum { SCRATCH = 3 };

/* Whether the weights without noise are needed: for the KL, for their sums, or to be multiplied. */
static int needs_soft(const Call *c) { return c->kl || c->query_mask || c->kl_grad || c->mean_grad || multiplies(c); }

static void forward_row(const Call *c, const Row *r, const Keys *k, float *restrict s, float *scratch,
                        float *restrict columns) {
    const int64_t index = r->head * c->rows + r->row;
    float *restrict t = scratch, *restrict e = scratch + c->keys;
    float top = 0.0f, sum = 0.0f;
    mask_scores(r, k->flags, s);
    if (needs_soft(c)) {
        top = maximum(s, r->n);
        sum = exponentials(s, r->n, top, e);
        const float lse = c->lse[index] = top + log_(sum);
        if (c->kl) c->kl[index] = row_kl(c, r, k, s, lse);
        if (c->query_mask) {
            const float weight = c->query_mask[r->batch * c->rows + r->row] / sum;
            for (int64_t j = 0; j < r->n; j++) columns[j] += weight * e[j];
        }
    }
    if (multiplies(c)) {
        standard_noise(c, r, t);
        sum = 0.0f;
        REDUCE(+ : sum)
        for (int64_t j = 0; j < r->n; j++) {
            s[j] = t[j] * e[j];
            sum += s[j];
        }
    } else {
        add_noise(c, r, s, t);
        top = maximum(s, r->n);
        sum = exponentials(s, r->n, top, s);
    }
    c->noisy_lse[index] = top + log_(sum);
    const float inverse = 1.0f / sum;
    for (int64_t j = 0; j < r->n; j++) s[j] *= inverse;
    if (c->dropout > 0.0f) drop(c, r, s);
}

static void backward_row(const Call *c, const Row *r, const Keys *k, float *restrict s, float *restrict g,
                         float *scratch, float *restrict columns) {
    const int64_t index = r->head * c->rows + r->row;
    const float lse = c->lse[index], noisy_lse = c->noisy_lse[index];
    float *restrict t = scratch;
    const Soft soft = {.log_p = scratch + c->keys, .p = scratch + 2 * c->keys};
    mask_scores(r, k->flags, s);
    if (needs_soft(c)) {
        for (int64_t j = 0; j < r->n; j++) soft.log_p[j] = s[j] - lse;
        exponentials(soft.log_p, r->n, 0.0f, soft.p);
    }
    if (multiplies(c)) {
        const float factor = exp_(lse - noisy_lse);
        standard_noise(c, r, t);
        for (int64_t j = 0; j < r->n; j++) s[j] = factor * t[j] * soft.p[j];
    } else {
        add_noise(c, r, s, t);
        exponentials(s, r->n, noisy_lse, s);
    }
    if (c->dropout > 0.0f) drop(c, r, g);
    float delta = 0.0f;
    REDUCE(+ : delta)
    for (int64_t j = 0; j < r->n; j++) delta += s[j] * g[j];
    for (int64_t j = 0; j < r->n; j++) g[j] = s[j] * (g[j] - delta);
    if (c->dropout > 0.0f) drop(c, r, s);
    if (c->kl_grad)
        (c->family == WEIBULL ? weibull_grad : lognormal_grad)(c, r, k, &soft, c->kl_grad[index], g, t, columns);
    if (c->mean_grad) mean_grad(c, r, soft.p, g);
}

/* Scores in, weights out; with the gradient `g` of the weights given, that of the scores out. The memory of both goes on
 * to the end of the block, `keys`, where the row sees nothing.
 */
static void run_row(const Call *c, const Row *r, const Keys *k, int64_t keys, float *s, float *g, float *scratch,
                    float *columns) {
    const int64_t index = r->head * c->rows + r->row, used = k->count ? r->n : 0;
    if (!used) {
        if (!g) c->lse[index] = c->noisy_lse[index] = 0.0f;
        if (c->kl) c->kl[index] = 0.0f;
    } else if (g) {
        backward_row(c, r, k, s, g, scratch, columns);
    } else {
        forward_row(c, r, k, s, scratch, columns);
    }
    memset(s + used, 0, sizeof(float) * (size_t)(keys - used));
    if (g) memset(g + used, 0, sizeof(float) * (size_t)(keys - used));
}
