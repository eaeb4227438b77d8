/* hadamard.cu: Hadamard transforms of rows: cu_hadamard_f32.  The build compiles it as it does rows.cu.
 *
 * A block has a row in shared memory: its m runs are combined, then each is transformed. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/computed.h"
#include "cuda/kernels/hadamard.h"

#define K(name) PASTE(name, SUFFIX)

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
    for (int apart = 1; apart < a.run; apart *= 2) {
        BARRIER();
        for (int k = me; k < a.n / 2; k += threads) {
            int i = (k & -apart) * 2 + (k & (apart - 1));
            T p = row[i], q = row[i + apart];
            row[i] = p + q;
            row[i + apart] = p - q;
        }
    }
    BARRIER();
    for (int i = me; i < a.n; i += threads) y[i] = OUT(row[i] * (T)a.scale);
}
