/* error.h: where messages about errors go, and warnings.
 *
 * A function that fails reports one message, through the handler, on the thread that called it, and
 * returns its error value.  The first handler in force prints the message to stderr and returns.
 * mlx_last_error (binding.h) has the last message of the calling thread, and what kind of error it was. */
#ifndef MLX_C_ERROR_H
#define MLX_C_ERROR_H

#include <stdbool.h>

#include "mlx/c/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `msg` is good during the call; `data` is what was given with the handler. */
typedef void (*mlx_error_handler_func)(const char *msg, void *data);

/* Makes `handler` the one for all threads, or with NULL the one that prints.  When it is replaced,
 * dtor(data) is called if `dtor` is not NULL.  The handler may be called by several threads at
 * once. */
MLX_API void mlx_set_error_handler(mlx_error_handler_func handler, void *data, void (*dtor)(void *));

/* The same for warnings, about what a program may go on after.  The first one in force prints them to stderr. */
MLX_API void mlx_set_warning_handler(mlx_error_handler_func handler, void *data, void (*dtor)(void *));

/* Whether an index out of range in an index array is an error of the evaluation that reads it; `res` becomes what
 * was so before.  At first it is one if the environment variable MLX_INDEX is "error".  Otherwise reading gives the
 * nearest element, writing leaves everything as it is, and the first time there is a warning, on a thread that
 * waits for results; after a call of this function there may be another one. */
MLX_API int mlx_set_index_errors(bool *res, bool errors);

/* What is an error in the results of operations. */
typedef enum mlx_checks_ {
    MLX_CHECK_NOTHING, /* no number is */
    MLX_CHECK_NAN,     /* NaN made of operands that have none */
    MLX_CHECK_INF,     /* that, and infinities made of finite operands */
} mlx_checks;

/* Has the results of every operation looked at when they are computed, on a GPU too, for the evaluation to fail and
 * name the first operation that made what `checks` says; `res` becomes what was so before.  At first it is what the
 * environment variable MLX_CHECK says: "nan" or "inf".  For debugging: operations run one by one meanwhile, and a GPU
 * is waited for after each. */
MLX_API int mlx_set_checks(mlx_checks *res, mlx_checks checks);

/* Reports an error of the caller's own, such as one found inside a closure: a format as for printf
 * and its arguments.  The message ends with the place in the source. */
#define mlx_error(...) _mlx_error(__FILE__, __LINE__, __VA_ARGS__)

/* What mlx_error calls. */
#ifdef __GNUC__
__attribute__((format(printf, 3, 4)))
#endif
MLX_API void
_mlx_error(const char *file, const int line, const char *fmt, ...);

#ifdef __cplusplus
}
#endif

#endif
