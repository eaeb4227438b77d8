/* hadamard.c: the Walsh-Hadamard transform at one instruction-set level. */
#include "cpu/kernels/hadamard.h"

#include "cpu/kernels/level.h"

/* Three stages on 8 neighbours, then one at a time; two more stages together where there are, so that
 * memory is gone through half as often. */
#define TRANSFORM(T, suffix)                                                                      \
    static void first_##suffix(T *x, int64_t n)                                                   \
    {                                                                                             \
        for (int64_t i = 0; i < n; i += 8, x += 8) {                                              \
            T a[8], b[8];                                                                         \
            for (int j = 0; j < 4; j++) a[j] = x[j] + x[j + 4], a[j + 4] = x[j] - x[j + 4];       \
            for (int j = 0; j < 8; j += 4) {                                                      \
                b[j] = a[j] + a[j + 2], b[j + 2] = a[j] - a[j + 2];                               \
                b[j + 1] = a[j + 1] + a[j + 3], b[j + 3] = a[j + 1] - a[j + 3];                   \
            }                                                                                     \
            for (int j = 0; j < 8; j += 2) x[j] = b[j] + b[j + 1], x[j + 1] = b[j] - b[j + 1];    \
        }                                                                                         \
    }                                                                                             \
    static void stage_##suffix(T *x, int64_t n, int64_t h)                                        \
    {                                                                                             \
        for (int64_t i = 0; i < n; i += 2 * h) {                                                  \
            T *restrict a = x + i, *restrict b = x + i + h;                                       \
            for (int64_t j = 0; j < h; j++) {                                                     \
                T sum = a[j] + b[j], difference = a[j] - b[j];                                    \
                a[j] = sum, b[j] = difference;                                                    \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    static void stages_##suffix(T *x, int64_t n, int64_t h)                                       \
    {                                                                                             \
        for (int64_t i = 0; i < n; i += 4 * h) {                                                  \
            T *restrict a = x + i, *restrict b = a + h, *restrict c = b + h, *restrict d = c + h; \
            for (int64_t j = 0; j < h; j++) {                                                     \
                T p = a[j] + b[j], q = a[j] - b[j], r = c[j] + d[j], s = c[j] - d[j];             \
                a[j] = p + r, b[j] = q + s, c[j] = p - r, d[j] = q - s;                           \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    static void transform_##suffix(T *x, int64_t n, int64_t rows)                                 \
    {                                                                                             \
        for (int64_t i = 0; i < rows; i++, x += n) {                                              \
            int64_t h = 1;                                                                        \
            if (n >= 8)                                                                           \
                first_##suffix(x, n), h = 8;                                                      \
            for (; 4 * h <= n; h *= 4) stages_##suffix(x, n, h);                                  \
            for (; h < n; h *= 2) stage_##suffix(x, n, h);                                        \
        }                                                                                         \
    }                                                                                             \
    static void add_##suffix(T *restrict y, const T *restrict x, T sign, int64_t n)               \
    {                                                                                             \
        for (int64_t i = 0; i < n; i++) y[i] += sign * x[i];                                      \
    }
TRANSFORM(float, f32)
TRANSFORM(double, f64)

extern const struct hadamard_kernels LEVEL(hadamard_kernels);
const struct hadamard_kernels LEVEL(hadamard_kernels) = { transform_f32, transform_f64, add_f32, add_f64 };
