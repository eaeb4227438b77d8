/* transforms.h: evaluating, and derivatives of functions.
 *
 * The transforms call the closure with arrays that stand for its inputs and record what it does
 * with them, so it may do anything that is built from this library's operations; their results are
 * lazy arrays and can be differentiated again.  Functions return 0 for success; ownership, results
 * and errors as in array.h. */
#ifndef MLX_C_TRANSFORMS_H
#define MLX_C_TRANSFORMS_H

#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/closure.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts computing the arrays and returns; whoever reads them waits. */
MLX_API int mlx_async_eval(const mlx_vector_array outputs);

/* The function `fun`, computed anew for its gradient: what it computes on the way to its results is
 * not kept meanwhile. */
MLX_API int mlx_checkpoint(mlx_closure *res, const mlx_closure fun);

/* The function `fun` with rules of its own in place of those that follow from its operations; a
 * rule may be an empty handle. */
MLX_API int mlx_custom_function(mlx_closure *res, const mlx_closure fun, const mlx_closure_custom fun_vjp,
                                const mlx_closure_custom_jvp fun_jvp, const mlx_closure_custom_vmap fun_vmap);

/* The function `fun` with a vjp rule of its own in place of the one that follows from its
 * operations. */
MLX_API int mlx_custom_vjp(mlx_closure *res, const mlx_closure fun, const mlx_closure_custom fun_vjp);

/* Computes the arrays and waits for them. */
MLX_API int mlx_eval(const mlx_vector_array outputs);

/* Forward mode: `res_0` gets the outputs of `fun` at `primals`, `res_1` the Jacobian times
 * `tangents`, one for each output; each tangent has the shape of its primal, and becomes of its dtype,
 * which holds imaginary parts and fractions where the tangent may have some. */
MLX_API int mlx_jvp(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
                    const mlx_vector_array primals, const mlx_vector_array tangents);

/* `res_0` gets the outputs of `fun` at `primals`, `res_1` its derivative there: the function that
 * gives the Jacobian times tangents, one for each primal, without calling `fun` again. */
MLX_API int mlx_linearize(mlx_vector_array *res_0, mlx_closure *res_1, const mlx_closure fun,
                          const mlx_vector_array primals);

/* The same in reverse: `res_1` gets the function that gives cotangents, one for each output, times
 * the Jacobian. */
MLX_API int mlx_pullback(mlx_vector_array *res_0, mlx_closure *res_1, const mlx_closure fun,
                         const mlx_vector_array primals);

/* The function whose call gives the outputs of `fun` and the gradients of the first of them, a
 * scalar, with respect to the inputs numbered in `argnums`, in that order. */
MLX_API int mlx_value_and_grad(mlx_closure_value_and_grad *res, const mlx_closure fun, const int *argnums,
                               size_t argnums_num);

/* Reverse mode: `res_0` gets the outputs of `fun` at `primals`, `res_1` `cotangents` times the
 * Jacobian, one for each primal; each cotangent has the shape of its output, and a dtype as above. */
MLX_API int mlx_vjp(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
                    const mlx_vector_array primals, const mlx_vector_array cotangents);

#ifdef __cplusplus
}
#endif

#endif
