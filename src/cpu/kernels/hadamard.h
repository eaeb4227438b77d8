/* hadamard.h: sums and differences, for one thread. */
#ifndef MX_CPU_KERNELS_HADAMARD_H
#define MX_CPU_KERNELS_HADAMARD_H

#include <stdint.h>

struct hadamard_kernels {
    /* x = H x for each of `rows` runs of n elements, n a power of two; H[i][j] is the sign
     * (-1)^popcount(i & j). */
    void (*f32)(float *x, int64_t n, int64_t rows);
    void (*f64)(double *x, int64_t n, int64_t rows);
    /* y = x or y = y +- x, times a factor of 1 or -1 */
    void (*add_f32)(float *y, const float *x, float sign, int64_t n);
    void (*add_f64)(double *y, const double *x, double sign, int64_t n);
};

#endif
