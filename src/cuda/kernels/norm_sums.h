/* norm_sums.h: what a thread adds up of a norm's row.
 *
 * Include cuda/kernels/gpu.h and lanes.h before, with T, what elements are computed in, defined by the first use. */
#ifndef MX_CUDA_KERNELS_NORM_SUMS_H
#define MX_CUDA_KERNELS_NORM_SUMS_H

/* Sums of LANES elements and of their products, in double where one in T has overflowed. */
FN double sum_of(const T v[LANES])
{
    T some = 0;
    for (int k = 0; k < LANES; k++) some += v[k];
    double sum = (double)some;
    if (some - some != 0) {
        sum = 0;
        for (int k = 0; k < LANES; k++) sum += (double)v[k];
    }
    return sum;
}
FN double dot_of(const T u[LANES], const T v[LANES])
{
    T some = 0;
    for (int k = 0; k < LANES; k++) some += u[k] * v[k];
    double sum = (double)some;
    if (some - some != 0) {
        sum = 0;
        for (int k = 0; k < LANES; k++) sum += (double)u[k] * (double)v[k];
    }
    return sum;
}

#endif
