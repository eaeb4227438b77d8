/* factor.c: factors of small matrices at one instruction-set level, each matrix in a lane of its own.
 *
 * There are no sums over lanes and the same steps for every lane, so a matrix has the same bits wherever in a batch it
 * is.  Rows are exchanged by selection, where a lane asks for it. */
#include "cpu/kernels/factor.h"

#include <math.h>

#include "cpu/kernels/lanes.h"
#include "ops/linalg.h"

#define LANES(T) (REGISTER / (int)sizeof(T))

#define T float
#define S f32
#define INTEGER int32_t
#define TURN LEVEL(transpose_4)
#define ROOT sqrtf
#include "cpu/kernels/factor.inc"

#define T double
#define S f64
#define INTEGER int64_t
#define TURN LEVEL(transpose_8)
#define ROOT sqrt
#include "cpu/kernels/factor.inc"

extern const struct factor_kernels LEVEL(factor_kernels);
const struct factor_kernels LEVEL(factor_kernels) = {
    .bytes = REGISTER,
    .f32 = { inverse_f32, solve_f32, cholesky_f32, lu_f32 },
    .f64 = { inverse_f64, solve_f64, cholesky_f64, lu_f64 },
};
