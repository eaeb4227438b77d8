/* fft.h: Fourier transforms of several sequences side by side.
 *
 * A buffer has for every element of the sequences `lanes` real parts, then as many imaginary ones, so
 * that every step of a transform is arithmetic on whole vectors.  Transforms are forward; with the
 * parts of the numbers swapped on their way in and out they are inverse ones. */
#ifndef MX_CPU_KERNELS_FFT_H
#define MX_CPU_KERNELS_FFT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/fourier.h"

enum {
    FFT_STEP = 32,  /* elements of fft_twiddle's fine table */
    FFT_RADIX = 31, /* the largest prime factor that a transform of this kind takes */
};

/* A length whose prime factors are small, as a product of radices, and the factors e^(-2 pi i p j /
 * length) between them: for each stage, for each p, radix - 1 numbers. */
struct fft_smooth {
    int64_t n;
    int stages;
    int radix[FOURIER_STAGES];
    float *factors;
    float *roots; /* for every stage, its radix's roots of unity */
};

struct fft_kernels {
    int lanes;
    /* Strides in floats: element j of lane l at x[j * sj + at[l]].  Lanes that are not there become zero. */
    void (*load)(float *buf, const float *x, int64_t sj, const int64_t *at, int64_t n, int lanes, bool swap);
    void (*store)(float *y, int64_t sj, const int64_t *at, const float *buf, int64_t n, int lanes, bool swap,
                  float scale);
    /* n real numbers, as n / 2 complex ones where n is even; what is stored has its parts swapped. */
    void (*load_reals)(float *buf, const float *x, int64_t sj, const int64_t *at, int64_t n, int lanes);
    void (*store_reals)(float *y, int64_t sj, const int64_t *at, const float *buf, int64_t n, int lanes, float scale);
    /* The transform of load_reals' numbers to the first n / 2 + 1 of that of the real ones, and back with parts
     * swapped; w[k] = e^(-2 pi i k / n) for k up to n / 2, where n is even. */
    void (*fold)(float *buf, int64_t n, const float *w);
    void (*unfold)(float *buf, int64_t n, const float *w);
    /* Results first .. end of the same for one sequence: of m numbers of x m + 1 of y, and back.  y is not x. */
    void (*fold_row)(float *y, const float *x, const float *w, int64_t m, int64_t first, int64_t end);
    void (*unfold_row)(float *y, const float *x, const float *w, int64_t m, int64_t first, int64_t end);
    /* Transforms buf with the help of another of its size; returns the one with the result. */
    float *(*run)(const struct fft_smooth *p, float *buf, float *other);
    /* Element e times coarse[e / FFT_STEP] fine[e % FFT_STEP], which are buffers like buf. */
    void (*twiddle)(float *buf, int64_t n, const float *coarse, const float *fine);
    /* Element e times the complex number c[e], with the parts of either swapped. */
    void (*multiply)(float *buf, int64_t n, const float *c, bool swap_in, bool swap_out);
    /* The same by numbers of a buffer like buf. */
    void (*multiply_each)(float *buf, int64_t n, const float *by, bool swap);
};

#endif
