/* control.h: loops and branches as operations.
 *
 * The closures are called once, with arrays that stand for their inputs, and what they do becomes the
 * body of one operation; how often it runs costs nothing when the graph is built.  Arrays that a
 * closure uses besides its inputs are inputs of the operation too, so derivatives and batches pass
 * through.  Functions return 0 for success; ownership, results and errors as in array.h. */
#ifndef MLX_C_CONTROL_H
#define MLX_C_CONTROL_H

#include <stdbool.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/closure.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The outputs of `true_fun` for the operands where `pred`, a scalar, holds, else those of
 * `false_fun`, which must have the same shapes and dtypes.  One of them is computed, going back too; where vmap
 * gives each example its own `pred`, both are, and one is chosen by element (mlx_where): a derivative that is
 * infinite or NaN in the branch not taken then makes that of the operands NaN. */
MLX_API int mlx_cond(mlx_vector_array *res, const mlx_array pred, const mlx_closure true_fun,
                     const mlx_closure false_fun, const mlx_vector_array operands, const mlx_stream s);

/* `fun` takes the arrays of a carry and a slice of each of `xs` along the first axis, and gives the
 * next carry, of the same shapes and dtypes, and any other arrays, ys.  `res_0` gets the last carry
 * and `res_1` the ys of all steps, stacked.  With `reverse` the steps go from the last slice to the
 * first.  Without xs there are `length` steps; with them `length` may be -1. */
MLX_API int mlx_scan(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
                     const mlx_vector_array init, const mlx_vector_array xs, int length, bool reverse,
                     const mlx_stream s);

/* The carry after `body_fun` took it from `init` on for as long as `cond_fun`, which gives a scalar,
 * held.  It has derivatives in forward mode alone. */
MLX_API int mlx_while_loop(mlx_vector_array *res, const mlx_closure cond_fun, const mlx_closure body_fun,
                           const mlx_vector_array init, const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
