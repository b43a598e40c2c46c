#pragma once
/* Products of small matrices, by one thread: C = A B or C += A B.
 *
 * B is packed in panels of WIDE columns, padded with zeros, and the rows of C have room for whole panels. A may have any
 * strides, and so may be the transpose of something.
 */
#include <stdint.h>
#include <string.h>

#include "functions.h"

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define WIDE (2 * LANES)
#define TALL 6    /* rows of a tile: 12 sums fill the registers */
#define DEPTH 256 /* rows of a panel that are used at a time, so that they stay in the cache */

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline int64_t whole(int64_t n) { return (n + WIDE - 1) / WIDE * WIDE; }

/* A tile of C: `rows`, a constant where this is inlined, times WIDE. */
static inline __attribute__((always_inline)) void tile(int rows, int64_t depth, const float *a, int64_t a_row,
                                                       int64_t a_step, const float *b, float *c, int64_t c_row, int add) {
    Vector sums[TALL][2];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < 2; v++) sums[i][v] = add ? *(const Vector *)(c + i * c_row + v * LANES) : (Vector){0};
    for (int64_t k = 0; k < depth; k++, a += a_step, b += WIDE) {
        const Vector left = *(const Vector *)b, right = *(const Vector *)(b + LANES);
        for (int i = 0; i < rows; i++) {
            sums[i][0] += a[i * a_row] * left;
            sums[i][1] += a[i * a_row] * right;
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < 2; v++) *(Vector *)(c + i * c_row + v * LANES) = sums[i][v];
}

/* A: (rows, depth), B: (panels, b_depth, WIDE) of which the first `depth` are used, C: (rows, columns) padded. */
static void multiply(int64_t rows, int64_t columns, int64_t depth, const float *a, int64_t a_row, int64_t a_step,
                     const float *b, int64_t b_depth, float *c, int64_t c_row, int add) {
    for (int64_t start = 0; start < depth; start += DEPTH, add = 1) {
        const int64_t part = depth - start < DEPTH ? depth - start : DEPTH;
        for (int64_t j = 0; j < columns; j += WIDE) {
            const float *panel = b + j * b_depth + start * WIDE;
            for (int64_t i = 0; i < rows; i += TALL) {
                const float *from = a + i * a_row + start * a_step;
                float *to = c + i * c_row + j;
                switch (rows - i) {
                case 1: tile(1, part, from, a_row, a_step, panel, to, c_row, add); break;
                case 2: tile(2, part, from, a_row, a_step, panel, to, c_row, add); break;
                case 3: tile(3, part, from, a_row, a_step, panel, to, c_row, add); break;
                case 4: tile(4, part, from, a_row, a_step, panel, to, c_row, add); break;
                case 5: tile(5, part, from, a_row, a_step, panel, to, c_row, add); break;
                default: tile(TALL, part, from, a_row, a_step, panel, to, c_row, add);
                }
            }
        }
    }
}

/* Panels of a (rows, columns) matrix, times a factor: whole(columns) * rows numbers. */
static void pack(const float *from, int64_t stride, int64_t rows, int64_t columns, float factor, float *to) {
    for (int64_t j = 0; j < columns; j += WIDE) {
        const int64_t wide = columns - j < WIDE ? columns - j : WIDE;
        for (int64_t i = 0; i < rows; i++, to += WIDE) {
            for (int64_t v = 0; v < wide; v++) to[v] = factor * from[i * stride + j + v];
            for (int64_t v = wide; v < WIDE; v++) to[v] = 0.0f;
        }
    }
}

/* Panels of the transpose of a (rows, columns) matrix, times a factor: whole(rows) * columns numbers. */
static void pack_transposed(const float *from, int64_t stride, int64_t rows, int64_t columns, float factor, float *to) {
    for (int64_t i = 0; i < rows; i += WIDE, to += WIDE * columns) {
        const int64_t wide = rows - i < WIDE ? rows - i : WIDE;
        if (wide < WIDE) memset(to, 0, sizeof(float) * (size_t)(WIDE * columns));
        for (int64_t v = 0; v < wide; v++)
            for (int64_t j = 0; j < columns; j++) to[j * WIDE + v] = factor * from[(i + v) * stride + j];
    }
}

/* Products of single rows, for which nothing is packed. */
static inline float dot(const float *a, const float *b, int64_t n) {
    float sum = 0.0f;
    REDUCE(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static inline void add_row(float factor, const float *restrict from, float *restrict to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] += factor * from[i];
}
