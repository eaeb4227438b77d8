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

/* Of a row that is not longer a thread keeps what it has in registers; its weights may be read ahead. */
enum { NORM_HELD = 2 };
FN int64_t norm_at(int i) { return ((int64_t)i * blockDim.x + threadIdx.x) * LANES; }
FN int norm_is_held(int64_t n) { return n <= (int64_t)NORM_HELD * blockDim.x * LANES; }
FN void norm_read(union lanes to[NORM_HELD], const void *from, int64_t n)
{
    UNROLLED
    for (int i = 0; i < NORM_HELD; i++)
        if (norm_at(i) < n) {
            COPY_LANES(to[i].v, (const S *)from + norm_at(i), sizeof to[i].v);
        }
}
/* Ahead of the launch: is it done? */
FN int norm_read_weights(const struct vector_norm *a, int64_t n, union lanes weight[NORM_HELD])
{
    if (!a->y || !a->weight || !a->early || !norm_is_held(n))
        return 0;
    norm_read(weight, a->weight, n);
    return 1;
}

FN double norm_of_lanes(const union lanes *u, int squares, T mean)
{
    T v[LANES];
    for (int j = 0; j < LANES; j++) v[j] = IN(u->v[j]) - mean;
    return squares ? dot_of(v, v) : sum_of(v);
}

/* x: what the thread has of it, or NULL. */
FN double norm_sum(const struct vector_norm *a, int64_t n, const union lanes *x, double *some, int squares, T mean)
{
    SHARED double of_warp[ROWS_THREADS / 32];
    const int chunks = (int)(n / LANES), team = a->team, threads = (int)blockDim.x;
    BARRIER();
    if (x) {
        UNROLLED
        for (int i = 0; i < NORM_HELD; i++)
            if (norm_at(i) < n)
                some[norm_at(i) / LANES] = norm_of_lanes(&x[i], squares, mean);
    } else {
        for (int c = (int)threadIdx.x; c < chunks; c += threads) {
            union lanes u;
            COPY_LANES(u.v, (const S *)a->x + c * LANES, sizeof u.v);
            some[c] = norm_of_lanes(&u, squares, mean);
        }
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

/* Elements k, k + 1, ... of the norm, which the first block writes as well. */
FN void put_norm(const struct vector_norm *a, int64_t k, union normed *to, const union lanes *x,
                 const union lanes *weight, T mean, T scale)
{
    union lanes v, more;
    if (a->bias) {
        COPY_LANES(more.v, (const S *)a->bias + k, sizeof more.v);
    }
    for (int j = 0; j < LANES; j++) {
        T u = (IN(x->v[j]) - mean) * scale;
        u = a->weight ? u * IN(weight->v[j]) : u;
        v.v[j] = OUT(a->bias ? u + IN(more.v[j]) : u);
    }
    COPY_LANES(to->v + k, v.v, sizeof v.v);
    if (blockIdx.x == 0) {
        PUT_LANES((S *)a->y + k, v.v, sizeof v.v);
    }
}

FN T norm_mean(const struct vector_norm *a, int64_t n, const union lanes *x, double *some)
{
    return a->centered ? (T)(norm_sum(a, n, x, some, 0, 0) / (double)n) : (T)0;
}
FN T norm_scale(const struct vector_norm *a, int64_t n, const union lanes *x, double *some, T mean)
{
    return (T)(1 / sqrt_f64(norm_sum(a, n, x, some, 1, mean) / (double)n + a->eps));
}

/* weight: read ahead, if `has`. */
FN void make_norm(const struct vector_norm *a, int64_t n, union normed *to, union lanes weight[NORM_HELD], int has)
{
    if (norm_is_held(n)) {
        union lanes x[NORM_HELD];
        norm_read(x, a->x, n);
        if (!has && a->weight)
            norm_read(weight, a->weight, n);
        T mean = norm_mean(a, n, x, to->some), scale = norm_scale(a, n, x, to->some, mean);
        UNROLLED
        for (int i = 0; i < NORM_HELD; i++)
            if (norm_at(i) < n)
                put_norm(a, norm_at(i), to, &x[i], &weight[i], mean, scale);
    } else {
        T mean = norm_mean(a, n, NULL, to->some), scale = norm_scale(a, n, NULL, to->some, mean);
        for (int64_t k = norm_at(0); k < n; k += (int64_t)blockDim.x * LANES) {
            union lanes x, by;
            COPY_LANES(x.v, (const S *)a->x + k, sizeof x.v);
            if (a->weight) {
                COPY_LANES(by.v, (const S *)a->weight + k, sizeof by.v);
            }
            put_norm(a, k, to, &x, &by, mean, scale);
        }
    }
    BARRIER();
}

#endif
