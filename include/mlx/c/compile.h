/* compile.h: functions traced once and called again as graphs.
 *
 * A compiled function calls the function it was made from with placeholders, keeps the graph, and
 * from then on builds that graph, simplified, for every call with arrays of the same number, dtypes
 * and shapes; others are traced anew.  The function must not look at values.  Functions return 0 for
 * success; ownership, results and errors as in closure.h. */
#ifndef MLX_C_COMPILE_H
#define MLX_C_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx/c/api.h"
#include "mlx/c/closure.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What compiling does. */
typedef enum mlx_compile_mode_ {
    MLX_COMPILE_MODE_DISABLED,    /* nothing: functions are called as they are */
    MLX_COMPILE_MODE_NO_SIMPLIFY, /* keeps graphs as traced */
    MLX_COMPILE_MODE_NO_FUSE,     /* merges equal operations and drops unused ones */
    MLX_COMPILE_MODE_ENABLED,     /* and runs chains of element-wise operations as one */
} mlx_compile_mode;

/* A compiled version of `fun`.  With `shapeless` a trace also serves other shapes than its own. */
MLX_API int mlx_compile(mlx_closure *res, const mlx_closure fun, bool shapeless);

/* The same with traces shared between all that pass one fun_id, and kept apart by `constants`:
 * numbers that stand for what else the function depends on. */
MLX_API int mlx_detail_compile(mlx_closure *res, const mlx_closure fun, uintptr_t fun_id, bool shapeless,
                               const uint64_t *constants, size_t constants_num);

/* Forgets the traces of all functions with a fun_id. */
MLX_API int mlx_detail_compile_clear_cache(void);

/* Forgets the traces of one. */
MLX_API int mlx_detail_compile_erase(uintptr_t fun_id);

/* From now on compiled functions are called as they are.  So they are from the start where the
 * environment variable MLX_DISABLE_COMPILE is set, but not to 0. */
MLX_API int mlx_disable_compile(void);

/* From now on functions are compiled again. */
MLX_API int mlx_enable_compile(void);

/* What compiling does from now on, on all threads. */
MLX_API int mlx_set_compile_mode(mlx_compile_mode mode);

/* Whether functions are compiled. */
MLX_API bool mlx_compile_is_enabled(void);

/* The traces of one function, for bindings. */
typedef struct mlx_compiled_ {
    void *ctx;
} mlx_compiled;

/* No traces yet; `name` is what messages and mlx_compiled_text call the function. */
MLX_API mlx_compiled mlx_compiled_new(const char *name, bool shapeless);

/* Forgets the traces and releases the handle. */
MLX_API int mlx_compiled_free(mlx_compiled c);

/* fun(input), by a trace that fits or by a new one.  `fun` stands for the same function in every
 * call, and is called only to be traced.  *trace (unless NULL) gets the number of the trace, or -1
 * where `fun` was called as it is. */
MLX_API int mlx_compiled_apply(mlx_vector_array *res, int64_t *trace, mlx_compiled c, const mlx_closure fun,
                               const uint64_t *constants, size_t constants_num, const mlx_vector_array input);

/* Keeps something of the caller's with a trace; dtor(payload) is called when the trace goes, or at
 * once where it is not kept. */
MLX_API int mlx_compiled_attach(mlx_compiled c, int64_t trace, void *payload, void (*dtor)(void *));

/* What was attached last; NULL where nothing is. */
MLX_API void *mlx_compiled_payload(mlx_compiled c, int64_t trace);

/* visit(payload, arg) for everything that was attached and is kept, until an answer is not 0, which is returned: for
 * languages that look for cycles. It must not call the library. */
MLX_API int mlx_compiled_visit(mlx_compiled c, int (*visit)(void *payload, void *arg), void *arg);

/* Forgets the traces, and what is attached to them. */
MLX_API int mlx_compiled_forget(mlx_compiled c);

/* To be called by the function that is being traced: what its arguments are called in
 * mlx_compiled_text, and why it is traced where that is known (else NULL). */
MLX_API int mlx_compiled_describe(mlx_compiled c, const char *const *names, size_t names_num, const char *why);

/* Each trace, why it was made and what came of it, a line each.  With the environment variable
 * MLX_LOG=compile the lines go to the standard error as well. */
MLX_API int mlx_compiled_text(mlx_string *res, mlx_compiled c);

/* How many traces there have been. */
MLX_API int64_t mlx_compiled_count(mlx_compiled c);

/* How many traces are kept at most; the least recently used goes.  64 at the start, or what the
 * environment variable MLX_COMPILE_CACHE says. */
MLX_API int mlx_compiled_limit(mlx_compiled c);
MLX_API int mlx_compiled_set_limit(mlx_compiled c, int limit);

#ifdef __cplusplus
}
#endif

#endif
