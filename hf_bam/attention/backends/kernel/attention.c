/* Stochastic attention, forward and backward, without a matrix of weights.
 *
 * A job is a head of an example, or a part of its rows. It packs keys and values and goes through its rows in blocks that
 * stay in the cache: scores, weights in place of them (row.h), output. Backwards it computes them again.
 */
#include <stdlib.h>

#include "product.h"
#include "row.h"

/* A block has about so many entries, and a number of rows in between. To pack keys and values is not worth it for FEW. */
enum { ENTRIES = 1 << 15, FEWEST = 24, MOST = 96, FEW = 4 }; /* multiples of TALL */

/* What a job works on: some rows of a head, with memory of its own. */
typedef struct {
    int64_t part, batch, head, first, last;     /* the head within its example */
    int64_t block;                              /* rows that are worked on at a time */
    int64_t keys, width, value_width;           /* padded */
    int64_t stride;                             /* of the rows of scores */
    float *keys_transposed, *values_transposed; /* panels; the keys times the scale */
    float *keys_packed, *values_packed;
    float *queries_packed, *grads_packed;       /* panels of a block: queries times the scale, gradient of the output */
    float *scores, *score_grads;                /* (block, stride) */
    float *key_grad, *value_grad;               /* sums over the rows of the job */
    float *result;                              /* (block, columns): output, or gradient of the queries */
    float *scratch;                             /* SCRATCH rows */
    float *columns;                             /* one row, or null */
    Keys allowed;                               /* for the row that was worked on last, */
    Row before;                                 /* which is this one */
} Job;

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

static Job describe(const Call *c, int64_t number) {
    const int64_t head = number / c->parts, part = number % c->parts;
    return (Job){
        .part = part,
        .batch = head / c->heads,
        .head = head % c->heads,
        .first = c->rows * part / c->parts,
        .last = c->rows * (part + 1) / c->parts,
        .block = lesser(c->rows, lesser(MOST, greater(FEWEST, ENTRIES / c->keys / TALL * TALL))),
        .keys = whole(c->keys),
        .stride = whole(c->keys) + LANES, /* rows at multiples of a power of two would share a few lines of the cache */
        .width = whole(c->width),
        .value_width = whole(c->value_width),
        .columns = c->columns ? c->columns + number * c->keys : NULL,
    };
}

static int is_few(const Call *c) { return c->rows <= FEW * c->parts; }

static float *take(float **memory, int64_t count) {
    float *taken = *memory;
    *memory += count;
    return taken;
}

/* Divides some memory; returns how much of it is needed. */
static int64_t lay_out(const Call *c, Job *j, float *memory) {
    float *end = memory;
    j->allowed.flags = take(&end, c->keys);
    j->allowed.psi = take(&end, c->keys);
    j->allowed.target = take(&end, c->keys);
    j->allowed.slope = take(&end, c->keys);
    j->scratch = take(&end, SCRATCH * c->keys);
    j->scores = take(&end, j->block * j->stride);
    j->result = take(&end, j->block * greater(j->width, j->value_width));
    if (c->output_grad.data || !is_few(c)) j->keys_transposed = take(&end, j->keys * c->width);
    if (c->output_grad.data) {
        j->values_transposed = take(&end, j->keys * c->value_width);
        j->keys_packed = take(&end, c->keys * j->width);
        j->queries_packed = take(&end, j->block * j->width);
        j->grads_packed = take(&end, j->block * j->value_width);
        j->score_grads = take(&end, j->block * j->stride);
        j->key_grad = take(&end, c->keys * j->width);
        j->value_grad = take(&end, c->keys * j->value_width);
    } else if (!is_few(c)) {
        j->values_packed = take(&end, c->keys * j->value_width);
    }
    return end - memory;
}

static float *row_of(const View *v, const Job *j, int64_t row) {
    return (float *)v->data + j->part * v->part + j->batch * v->batch + j->head * v->head + row * v->row;
}

static void copy_out(const float *from, int64_t stride, int64_t rows, int64_t columns, const View *to, float *target) {
    for (int64_t i = 0; i < rows; i++) memcpy(target + i * to->row, from + i * stride, sizeof(float) * (size_t)columns);
}

/* Scores of a block of rows in, weights out; likewise for the gradients, if there are any. */
static void run_rows(const Call *c, Job *j, int64_t start, int64_t rows, int64_t keys) {
    for (int64_t i = 0; i < rows; i++) {
        Row r = locate(c, j->batch * c->heads + j->head, start + i);
        if (start + i == j->first || !same_keys(&r, &j->before)) prepare_keys(c, &r, &j->allowed);
        run_row(c, &r, &j->allowed, keys, j->scores + i * j->stride,
                j->score_grads ? j->score_grads + i * j->stride : NULL,
                j->scratch, j->columns);
        j->before = r;
    }
}

/* Rows of a decoder that has its keys in a cache, for instance. */
static void forward_few(const Call *c, Job *j) {
    for (int64_t row = j->first; row < j->last; row++) {
        const float *query = row_of(&c->query, j, row);
        const int64_t keys = c->causal ? lesser(row + 1, c->keys) : c->keys;
        for (int64_t k = 0; k < keys; k++) j->scores[k] = c->scale * dot(query, row_of(&c->key, j, k), c->width);
        run_rows(c, j, row, 1, keys);
        memset(j->result, 0, sizeof(float) * (size_t)c->value_width);
        for (int64_t k = 0; k < keys; k++) add_row(j->scores[k], row_of(&c->value, j, k), j->result, c->value_width);
        copy_out(j->result, 0, 1, c->value_width, &c->output, row_of(&c->output, j, row));
    }
}

static void forward(const Call *c, Job *j) {
    if (is_few(c)) {
        forward_few(c, j);
        return;
    }
    const float *key = row_of(&c->key, j, 0), *value = row_of(&c->value, j, 0);
    pack_transposed(key, c->key.row, c->keys, c->width, c->scale, j->keys_transposed);
    pack(value, c->value.row, c->keys, c->value_width, 1.0f, j->values_packed);
    for (int64_t start = j->first; start < j->last; start += j->block) {
        const int64_t rows = lesser(j->block, j->last - start), keys = c->causal ? lesser(start + rows, c->keys) : c->keys;
        multiply(rows, keys, c->width, row_of(&c->query, j, start), c->query.row, 1, j->keys_transposed, c->width,
                 j->scores, j->stride, 0);
        run_rows(c, j, start, rows, keys);
        multiply(rows, c->value_width, keys, j->scores, j->stride, 1, j->values_packed, c->keys, j->result,
                 j->value_width, 0);
        copy_out(j->result, j->value_width, rows, c->value_width, &c->output, row_of(&c->output, j, start));
    }
}

static void backward(const Call *c, Job *j) {
    const float *key = row_of(&c->key, j, 0), *value = row_of(&c->value, j, 0);
    pack_transposed(key, c->key.row, c->keys, c->width, c->scale, j->keys_transposed);
    pack_transposed(value, c->value.row, c->keys, c->value_width, 1.0f, j->values_transposed);
    pack(key, c->key.row, c->keys, c->width, c->scale, j->keys_packed);
    memset(j->key_grad, 0, sizeof(float) * (size_t)(c->keys * j->width));
    memset(j->value_grad, 0, sizeof(float) * (size_t)(c->keys * j->value_width));
    for (int64_t start = j->first; start < j->last; start += j->block) {
        const int64_t rows = lesser(j->block, j->last - start), keys = c->causal ? lesser(start + rows, c->keys) : c->keys;
        const float *query = row_of(&c->query, j, start), *grad = row_of(&c->output_grad, j, start);
        multiply(rows, keys, c->width, query, c->query.row, 1, j->keys_transposed, c->width, j->scores, j->stride, 0);
        multiply(rows, keys, c->value_width, grad, c->output_grad.row, 1, j->values_transposed, c->value_width,
                 j->score_grads, j->stride, 0);
        run_rows(c, j, start, rows, keys);
        multiply(rows, c->width, keys, j->score_grads, j->stride, 1, j->keys_packed, c->keys, j->result, j->width, 0);
        copy_out(j->result, j->width, rows, c->width, &c->query_grad, row_of(&c->query_grad, j, start));
        pack(query, c->query.row, rows, c->width, c->scale, j->queries_packed);
        multiply(keys, c->width, rows, j->score_grads, 1, j->stride, j->queries_packed, rows, j->key_grad, j->width, 1);
        pack(grad, c->output_grad.row, rows, c->value_width, 1.0f, j->grads_packed);
        multiply(keys, c->value_width, rows, j->scores, 1, j->stride, j->grads_packed, rows, j->value_grad,
                 j->value_width, 1);
    }
    copy_out(j->key_grad, j->width, c->keys, c->width, &c->key_grad, row_of(&c->key_grad, j, 0));
    copy_out(j->value_grad, j->value_width, c->keys, c->value_width, &c->value_grad, row_of(&c->value_grad, j, 0));
}

/* Forward, or backward with `output_grad` given. Returns 0, or 1 out of memory. */
__attribute__((visibility("default"))) int hf_bam_attend(const Call *c) {
    int failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        Job j = describe(c, 0);
        float *memory = malloc(sizeof(float) * (size_t)lay_out(c, &j, NULL)); /* of a thread: it stays in its cache */
        failed = !memory;
#pragma omp for schedule(dynamic)
        for (int64_t number = 0; number < c->batch * c->heads * c->parts; number++) {
            if (!memory) continue;
            j = describe(c, number);
            lay_out(c, &j, memory);
            if (j.columns) memset(j.columns, 0, sizeof(float) * (size_t)c->keys);
            (c->output_grad.data ? backward : forward)(c, &j);
        }
        free(memory);
    }
    return failed;
}
