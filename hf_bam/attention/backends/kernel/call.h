#pragma once
/* The arguments of a call; native.py has the same fields in the same order. */
#include <stdint.h>

enum { WEIBULL = 0, LOGNORMAL = 1 };

/* A tensor with strides in elements; its last dimension is contiguous. Null for one that is not given. */
typedef struct {
    void *data;
    int64_t part, batch, head, row;
} View;

static inline void *at(const View *v, int64_t size, int64_t batch, int64_t head, int64_t row) {
    return v->data ? (char *)v->data + size * (batch * v->batch + head * v->head + row * v->row) : 0;
}

typedef struct {
    int64_t batch, heads, rows, keys, width, value_width;
    int64_t parts;  /* into which the rows of a head are cut, one job each */
    int64_t causal; /* row i attends to keys 0..i */
    uint64_t seed;
    int64_t family;
    float scale;          /* of the scores */
    float spread, offset; /* noise = spread * standard noise + offset */
    float dropout;
    float shape_slope, shape_offset, beta, k, sigma, sigma_prior;
    View query, key, value, output;
    View allowed, bias; /* uint8 and float */
    View output_grad, query_grad, key_grad, value_grad;
    /* contiguous; the heads count through the batch */
    const float *noise;     /* (heads, keys) noise per key, instead of generated noise; or null */
    const float *logits;    /* (heads, keys) of the prior; null: no KL of rows */
    const float *query_mask; /* (batch, rows) 1 for a query whose attention is summed for each key; null: not wanted */
    const float *mean_grad; /* (heads, keys) gradient of the sums of attention over queries */
    const float *kl_grad;   /* (heads, rows) */
    float *lse, *noisy_lse; /* (heads, rows) */
    float *kl;              /* (heads, rows) */
    float *columns;         /* (heads, parts, keys): sums of attention; backwards, gradient of the prior's logits */
    /* (batch), or null */
    const uint64_t *row_seeds;               /* of the examples; null: their index in the batch */
    const int64_t *first_query, *first_key;  /* positions; null: 0 */
} Call;
