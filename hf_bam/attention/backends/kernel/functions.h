#pragma once
/* Elementary functions and random numbers in single precision, without branches: loops over them become vector code. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TEXT(x) #x
#define PRAGMA(x) _Pragma(TEXT(x))
#define REDUCE(...) PRAGMA(omp simd reduction(__VA_ARGS__))

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
    float low = (a + 1.0f) * (a + 2.0f), high = (a + 3.0f) * (a + 4.0f);
    float sum = ((2.0f * a + 3.0f) * high + (2.0f * a + 7.0f) * low) / (low * high); /* of 1/(1+a) to 1/(4+a) */
    return log_(x) - 0.5f * r - series - sum;
}

/* ---- random numbers: a function of seed, row and key (noise.py has the same) ---- */

/* The finaliser of SplitMix64 */
static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static const uint32_t KEY_STEP = 0x9E3779B9u;

static inline uint64_t row_key(uint64_t seed, uint64_t head, uint64_t row) {
    const uint64_t golden = 0x9E3779B97F4A7C15u;
    return mix(mix(mix(seed) + (head + 1) * golden) + (row + 1) * golden);
}

static inline uint32_t random_bits(uint32_t first, uint32_t second, uint32_t j) {
    uint32_t x = first + j * KEY_STEP;
    x ^= x >> 17;
    x *= 0xED5AD4BBu;
    x ^= x >> 11;
    x += second;
    x *= 0xAC4C1B51u;
    x ^= x >> 15;
    x *= 0x31848BABu;
    return x ^ (x >> 14);
}

/* Bits for dropout at the same position: another round. */
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

static inline float exponential(float u) { return -log_given(1.0f - u, -u); }

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

