/* jacobian.h: functions that give all derivatives of a function, or apply it to a batch.
 *
 * Beside value_and_grad, jvp, vjp, linearize and pullback (transforms.h).  Each takes a closure and makes
 * another, which takes the same inputs.  `argnums` are the numbers of the inputs to differentiate by,
 * counted from 0, each once.  Inputs and outputs have real floating-point dtypes.  Functions return 0 for
 * success; ownership, results and errors as in closure.h. */
#ifndef MLX_C_JACOBIAN_H
#define MLX_C_JACOBIAN_H

#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/closure.h"
#include "mlx/c/transforms_impl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The function that gives, for each output y of `fun` and each chosen input x, the derivatives dy/dx in
 * an array of the shape of y followed by that of x.  Those of the first output come first.  Forward
 * mode: for functions with fewer numbers in the inputs than in the outputs. */
MLX_API int mlx_jacfwd(mlx_closure *res, const mlx_closure fun, const int *argnums, size_t argnums_num);

/* The same in reverse mode: for functions with fewer numbers in the outputs. */
MLX_API int mlx_jacrev(mlx_closure *res, const mlx_closure fun, const int *argnums, size_t argnums_num);

/* The function that gives the second derivatives, for each output y and chosen inputs a and b, the last
 * running fastest, in an array of the shapes of y, a and b one behind the other. */
MLX_API int mlx_hessian(mlx_closure *res, const mlx_closure fun, const int *argnums, size_t argnums_num);

/* `fun` for a batch: in_axes[i] is the axis of input i along which the batch lies, or -1 for an input that
 * is the same for all of it; out_axes[k] is where the batch is to lie in output k, negative ones counted
 * from the end, and MLX_VMAP_NONE says that the output does not depend on it.  With out_axes_num 0 the
 * batch is in front of all outputs. */
MLX_API int mlx_vmap(mlx_closure *res, const mlx_closure fun, const int *in_axes, size_t in_axes_num,
                     const int *out_axes, size_t out_axes_num);

#ifdef __cplusplus
}
#endif

#endif
