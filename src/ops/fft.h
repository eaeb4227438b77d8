/* fft.h: arguments of a Fourier transform along one axis, for its runner. */
#ifndef MX_OPS_FFT_H
#define MX_OPS_FFT_H

#include <stdbool.h>

#include "ops/ops.h"

/* FFT_COMPLEX: complex64, in either direction.  FFT_REAL: float32 of length n to the first
 * n / 2 + 1 of its complex transform.  FFT_HERMITIAN: those back to n real numbers, which takes
 * each but the first (and for even n the last) for itself and the conjugate it stands for. */
struct fft_args {
    enum fft_kind kind;
    int axis, n; /* n: of the real or complex sequence */
    bool inverse;
    double scale; /* of the result */
};

#endif
