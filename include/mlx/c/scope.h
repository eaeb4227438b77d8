/* scope.h: handles that are freed together.
 *
 * Between mlx_scope_begin and mlx_scope_end the library notes every handle that it makes for the
 * calling thread, of whatever kind (mlx_array, mlx_vector_array, mlx_string, mlx_closure, ...), and
 * mlx_scope_end frees those that are left, the last one first:
 *
 *     mlx_scope_begin();
 *     mlx_array t = mlx_array_new(), y = mlx_array_new();
 *     mlx_exp(&t, x, s);
 *     mlx_add(&y, t, t, s);
 *     mlx_scope_keep(y.ctx);
 *     mlx_scope_end();        frees t, but not y
 *
 * A handle is made when it first holds something, so one that is empty when the scope begins and is
 * filled inside belongs to the scope as well; one that was filled before is only changed.  Freeing a
 * handle by hand inside a scope is fine, at any time and on any thread.  Scopes nest.  They may span
 * anything: evaluations, calls of closures, transforms.  Callbacks may open scopes of their own and
 * close them before they return.  Then they keep the result that they leave in a handle which was empty
 * (as that of mlx_closure_new_unary is); results put into vectors are copies, and need not be kept.
 *
 * A callback closes the scopes that it opened, and no others; a thread closes its scopes before it ends,
 * or what they hold stays.
 *
 * Streams and groups of processes live as long as the process and are in no scope.  Functions return
 * 0 for success; errors as in array.h. */
#ifndef MLX_C_SCOPE_H
#define MLX_C_SCOPE_H

#include "mlx/c/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a scope on this thread. */
MLX_API int mlx_scope_begin(void);

/* Closes the thread's innermost scope and frees the handles that were made in it and are left. */
MLX_API int mlx_scope_end(void);

/* Takes a handle, given by its ctx, out of the thread's innermost scope: it belongs to the scope around
 * that one or, where there is none, to the caller.  A handle that is not in that scope stays as it is. */
MLX_API int mlx_scope_keep(const void *ctx);

#ifdef __cplusplus
}
#endif

#endif
