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
#define TALL 12 /* rows of a tile, two vectors wide: its sums fill most of the registers */
#elif defined(__AVX__)
#define LANES 8
#define TALL 6
#else
#define LANES 4
#define TALL 6
#endif
#define WIDE (2 * LANES)
#define SHORT 4   /* rows of the tiles of a rest */
#define DEPTH 256 /* rows of a panel that are used at a time, so that they stay in the cache */

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t Order __attribute__((vector_size(16)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Order){__VA_ARGS__})
#endif

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
            const float *panel = b + j * b_depth + start * WIDE, *from = a + start * a_step;
            float *to = c + j;
            int64_t i = 0;
            for (; rows - i >= TALL; i += TALL)
                tile(TALL, part, from + i * a_row, a_row, a_step, panel, to + i * c_row, c_row, add);
            for (; rows - i >= SHORT; i += SHORT)
                tile(SHORT, part, from + i * a_row, a_row, a_step, panel, to + i * c_row, c_row, add);
            for (; i < rows; i++) tile(1, part, from + i * a_row, a_row, a_step, panel, to + i * c_row, c_row, add);
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

/* The transpose of four times four numbers, times a factor. */
static inline void transpose(const float *from, int64_t stride, float factor, float *to, int64_t to_stride) {
    const Four a = *(const Four *)from, b = *(const Four *)(from + stride);
    const Four c = *(const Four *)(from + 2 * stride), d = *(const Four *)(from + 3 * stride);
    const Four ab = SHUFFLE(a, b, 0, 4, 1, 5), ab_high = SHUFFLE(a, b, 2, 6, 3, 7);
    const Four cd = SHUFFLE(c, d, 0, 4, 1, 5), cd_high = SHUFFLE(c, d, 2, 6, 3, 7);
    *(Four *)to = factor * SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(Four *)(to + to_stride) = factor * SHUFFLE(ab, cd, 2, 3, 6, 7);
    *(Four *)(to + 2 * to_stride) = factor * SHUFFLE(ab_high, cd_high, 0, 1, 4, 5);
    *(Four *)(to + 3 * to_stride) = factor * SHUFFLE(ab_high, cd_high, 2, 3, 6, 7);
}

/* Panels of the transpose of a (rows, columns) matrix, times a factor: whole(rows) * columns numbers. */
static void pack_transposed(const float *from, int64_t stride, int64_t rows, int64_t columns, float factor, float *to) {
    for (int64_t i = 0; i < rows; i += WIDE, from += WIDE * stride, to += WIDE * columns) {
        const int64_t wide = rows - i < WIDE ? rows - i : WIDE, whole_wide = wide / 4 * 4, whole_columns = columns / 4 * 4;
        if (wide < WIDE) memset(to, 0, sizeof(float) * (size_t)(WIDE * columns));
        for (int64_t v = 0; v < whole_wide; v += 4)
            for (int64_t j = 0; j < whole_columns; j += 4)
                transpose(from + v * stride + j, stride, factor, to + j * WIDE + v, WIDE);
        for (int64_t v = 0; v < wide; v++)
            for (int64_t j = v < whole_wide ? whole_columns : 0; j < columns; j++)
                to[j * WIDE + v] = factor * from[v * stride + j];
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
