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

/* Numbers as they are stored: those of element e begin at at[0] + e * step for the first half of the lanes, and at
 * at[1] + e * step for the others, in floats; or for the quarters of the lanes, where results have four parts.  Results
 * are multiplied by the scale. */
struct fft_place {
    float *at[4];
    int parts;
    int64_t step;
    bool swap;
    float scale;
};

struct fft_kernels {
    int lanes, power; /* the largest radix that is a power of two */
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
    /* Sequences of n = ways m numbers: one, where `ways` is the number of lanes, two or four, where it is half or a
     * quarter of that. Numbers j, j + m, j + 2 m ... are transformed; number k of these, times e^(-2 pi i j k / n), is
     * element j of the buffer in lane k of the sequence's.  To run it then is what remains: number k of the whole is
     * in lane k % ways of element k / ways.  turns: these factors, for each j / lanes and k > 0, as in a buffer, the
     * last up to j = m. */
    void (*load_rows)(float *buf, const float *const x[], int ways, int64_t m, const float *turns, bool swap);
    /* What fold does, for such sequences; w: e^(-pi i k / n) where number k is. */
    void (*fold_rows)(const struct fft_place *y, const float *buf, int64_t m, int ways, const float *w);
    /* Results first .. end of the same for one sequence: of m numbers of x m + 1 of y, and back.  y is not x. */
    void (*fold_row)(float *y, const float *x, const float *w, int64_t m, int64_t first, int64_t end);
    void (*unfold_row)(float *y, const float *x, const float *w, int64_t m, int64_t first, int64_t end);
    /* Transforms buf with the help of another of its size; returns the one with the result.  Elements come from `in`
     * where that is not NULL, and results go to `out`, which may be where they came from. */
    float *(*run)(const struct fft_smooth *p, float *buf, float *other, const struct fft_place *in,
                  const struct fft_place *out);
    /* Element e times coarse[e / FFT_STEP] fine[e % FFT_STEP], which are buffers like buf. */
    void (*twiddle)(float *buf, int64_t n, const float *coarse, const float *fine);
    /* Element e times the complex number c[e], with the parts of either swapped. */
    void (*multiply)(float *buf, int64_t n, const float *c, bool swap_in, bool swap_out);
    /* The same by numbers of a buffer like buf. */
    void (*multiply_each)(float *buf, int64_t n, const float *by, bool swap);
};

#endif
