/* vector_norm.h: the norm of a row that blocks make which multiply it with lines of matrices, each for itself, not a
 * launch ahead of theirs.
 *
 * Include cuda/kernels/gpu.h and lanes.h before, with S, T, IN and OUT. */
#ifndef MX_CUDA_KERNELS_VECTOR_NORM_H
#define MX_CUDA_KERNELS_VECTOR_NORM_H

#include "cuda/kernels/norm_sums.h"
#include "cuda/kernels/rows.h"

/* It is made as cu_norm_held makes it, bit for bit: double sums of LANES elements each, as many for a thread of a team
 * as it holds, then of the team's.  It stays in shared memory. */
enum { NORM_MOST = VECTOR_NORM_BYTES / (int)sizeof(S) };
union normed {
    double some[NORM_MOST / LANES];
    S v[NORM_MOST];
    struct words4 align;
};
FN double norm_sum(const struct vector_norm *a, int64_t k, double *some, int squares, T mean)
{
    SHARED double of_warp[ROWS_THREADS / 32];
    const int chunks = (int)(k / LANES), team = a->team, threads = (int)blockDim.x;
    BARRIER();
    for (int c = (int)threadIdx.x; c < chunks; c += threads) {
        union lanes u;
        T v[LANES];
        COPY_LANES(u.v, (const S *)a->x + c * LANES, sizeof u.v);
        for (int j = 0; j < LANES; j++) v[j] = IN(u.v[j]) - mean;
        some[c] = squares ? dot_of(v, v) : sum_of(v);
    }
    BARRIER();
    for (int t = (int)threadIdx.x; t < team; t += threads) {
        double sum = 0;
        for (int c = t; c < chunks; c += team) sum += some[c];
        for (int bits = 16; bits > 0; bits /= 2) sum += SHUFFLE_XOR(sum, bits);
        of_warp[t / 32] = sum;
    }
    BARRIER();
    double sum = of_warp[0];
    for (int w = 1; w < team / 32; w++) sum += of_warp[w];
    return sum;
}
FN void make_norm(const struct vector_norm *a, int64_t n, union normed *to)
{
    const int64_t step = (int64_t)blockDim.x * LANES;
    T mean = a->centered ? (T)(norm_sum(a, n, to->some, 0, 0) / (double)n) : (T)0;
    T scale = (T)(1 / sqrt_f64(norm_sum(a, n, to->some, 1, mean) / (double)n + a->eps));
    for (int64_t k = (int64_t)threadIdx.x * LANES; k < n; k += step) {
        union lanes v, by, more;
        COPY_LANES(v.v, (const S *)a->x + k, sizeof v.v);
        if (a->weight) {
            COPY_LANES(by.v, (const S *)a->weight + k, sizeof by.v);
        }
        if (a->bias) {
            COPY_LANES(more.v, (const S *)a->bias + k, sizeof more.v);
        }
        for (int j = 0; j < LANES; j++) {
            T x = (IN(v.v[j]) - mean) * scale;
            x = a->weight ? x * IN(by.v[j]) : x;
            v.v[j] = OUT(a->bias ? x + IN(more.v[j]) : x);
        }
        COPY_LANES(to->v + k, v.v, sizeof v.v);
        if (blockIdx.x == 0) {
            PUT_LANES((S *)a->y + k, v.v, sizeof v.v);
        }
    }
    BARRIER();
}

#endif
