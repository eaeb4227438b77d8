/* hadamard.cu: Hadamard transforms of rows: cu_hadamard_f32.  The build compiles it for each type.
 *
 * A block has a row in shared memory: its m runs are combined, then each is transformed.  Longer rows are transformed
 * piece by piece, then across the pieces, then across the runs, with what is not ready in memory. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/computed.h"
#include "cuda/kernels/hadamard.h"

#define K(name) PASTE(name, SUFFIX)

/* Runs of n numbers in shared memory. */
FN void transform(T *row, int n, int run)
{
    for (int apart = 1; apart < run; apart *= 2) {
        BARRIER();
        for (int k = (int)threadIdx.x; k < n / 2; k += (int)blockDim.x) {
            int i = (k & -apart) * 2 + (k & (apart - 1));
            T p = row[i], q = row[i + apart];
            row[i] = p + q;
            row[i + apart] = p - q;
        }
    }
    BARRIER();
}

KERNEL(K(cu_hadamard), struct hadamard_call)
{
    SHARED T row[HADAMARD_BYTES / sizeof(T)];
    const S *x = (const S *)a.x + (int64_t)blockIdx.x * a.n;
    S *y = (S *)a.y + (int64_t)blockIdx.x * a.n;
    int me = (int)threadIdx.x, threads = (int)blockDim.x;
    for (int i = me; i < a.n; i += threads) row[i] = IN(x[i]);
    BARRIER();
    for (int c = me; c < a.run && a.m > 1; c += threads) {
        T v[HADAMARD_ODD];
        for (int j = 0; j < a.m; j++) v[j] = row[j * a.run + c];
        for (int i = 0; i < a.m; i++) {
            T sum = 0;
            for (int j = 0; j < a.m; j++) sum += a.sign[i] >> j & 1 ? v[j] : -v[j];
            row[i * a.run + c] = sum;
        }
    }
    transform(row, a.n, a.run);
    for (int i = me; i < a.n; i += threads) y[i] = OUT(row[i] * (T)a.scale);
}

/* ---- of long rows */

KERNEL(K(cu_hadamard_pieces), struct hadamard_step)
{
    SHARED T piece[HADAMARD_BYTES / sizeof(T)];
    int64_t at = (int64_t)blockIdx.x * a.piece;
    const S *x = (const S *)a.x + at;
    T *y = (T *)a.y + at;
    for (int i = (int)threadIdx.x; i < a.piece; i += (int)blockDim.x) piece[i] = IN(x[i]);
    transform(piece, a.piece, a.piece);
    for (int i = (int)threadIdx.x; i < a.piece; i += (int)blockDim.x) y[i] = piece[i];
}

FN void across(T *y, int shift, const int radix)
{
    T v[HADAMARD_RADIX];
    UNROLLED for (int i = 0; i < radix; i++) v[i] = y[(int64_t)i << shift];
    UNROLLED for (int apart = 1; apart < radix; apart *= 2)
    {
        UNROLLED for (int k = 0; k < radix / 2; k++)
        {
            int i = (k & -apart) * 2 + (k & (apart - 1));
            T p = v[i], q = v[i + apart];
            v[i] = p + q;
            v[i + apart] = p - q;
        }
    }
    UNROLLED for (int i = 0; i < radix; i++) y[(int64_t)i << shift] = v[i];
}

KERNEL(K(cu_hadamard_across), struct hadamard_step)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n)
        return;
    T *y = (T *)a.y + (i >> a.shift) * ((int64_t)a.radix << a.shift) + (i & (((int64_t)1 << a.shift) - 1));
    if (a.radix == 16)
        across(y, a.shift, 16);
    else if (a.radix == 8)
        across(y, a.shift, 8);
    else if (a.radix == 4)
        across(y, a.shift, 4);
    else
        across(y, a.shift, 2);
}

KERNEL(K(cu_hadamard_runs), struct hadamard_step)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n)
        return;
    int64_t at = (i >> a.shift) * ((int64_t)a.m << a.shift) + (i & (((int64_t)1 << a.shift) - 1));
    const T *x = (const T *)a.x + at;
    S *y = (S *)a.y + at;
    T v[HADAMARD_ODD];
    for (int j = 0; j < a.m; j++) v[j] = x[(int64_t)j << a.shift];
    for (int k = 0; k < a.m; k++) {
        T sum = 0;
        for (int j = 0; j < a.m; j++) sum += a.sign[k] >> j & 1 ? v[j] : -v[j];
        y[(int64_t)k << a.shift] = OUT(sum * (T)a.scale);
    }
}
