/* export.h: functions written to files, and files called as functions.
 *
 * An exported function is the graph that it was traced to, for arguments of the shapes and dtypes of
 * the examples; one file holds any number of such traces, which share their constants.  The format
 * (.mlxfn) is that of the mlx package.
 *
 * Exporters and imported functions are handles that their maker frees.  Functions that return int
 * return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_EXPORT_H
#define MLX_C_EXPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/closure.h"
#include "mlx/c/map.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes `fun`, traced on arrays like `args`, to a file, which takes the place of an older one when all
 * is written.  With `shapeless` it can be called with arrays of any shapes of the same ranks. */
MLX_API int mlx_export_function(const char *file, const mlx_closure fun, const mlx_vector_array args, bool shapeless);

/* The same for a function of which some arguments have names. */
MLX_API int mlx_export_function_kwargs(const char *file, const mlx_closure_kwargs fun, const mlx_vector_array args,
                                       const mlx_map_string_to_array kwargs, bool shapeless);

/* A writer of several traces of one function. */
typedef struct mlx_function_exporter_ {
    void *ctx;
} mlx_function_exporter;

/* An exporter to a file.  Every trace is in the file when it has been applied.  The first replaces an older file;
 * where another file does that to this one, further traces are errors. */
MLX_API mlx_function_exporter mlx_function_exporter_new(const char *file, const mlx_closure fun, bool shapeless);

/* Closes and releases the exporter.  Where it has written no trace, an older file stays. */
MLX_API int mlx_function_exporter_free(mlx_function_exporter xfunc);

/* Adds a trace for arguments like these, whose shapes and dtypes no earlier trace has. */
MLX_API int mlx_function_exporter_apply(const mlx_function_exporter xfunc, const mlx_vector_array args);

/* The same with named arguments. */
MLX_API int mlx_function_exporter_apply_kwargs(const mlx_function_exporter xfunc, const mlx_vector_array args,
                                               const mlx_map_string_to_array kwargs);

/* Whether the function, when it was last traced for any shape, looked at sizes: what it did with them
 * stays as it was, whatever the shapes of later calls. */
MLX_API bool mlx_function_exporter_sizes_read(const mlx_function_exporter xfunc);

/* A function read from a file. */
typedef struct mlx_imported_function_ {
    void *ctx;
} mlx_imported_function;

/* Reads a file.  Its constants are mapped, and loaded as they are used; the file may be replaced or
 * removed afterwards, but not be truncated in place. */
MLX_API mlx_imported_function mlx_imported_function_new(const char *file);

/* Releases the handle. */
MLX_API int mlx_imported_function_free(mlx_imported_function xfunc);

/* Calls the trace that takes arguments of these shapes and dtypes; an error lists the traces where
 * there is none. */
MLX_API int mlx_imported_function_apply(mlx_vector_array *res, const mlx_imported_function xfunc,
                                        const mlx_vector_array args);

/* The same with named arguments. */
MLX_API int mlx_imported_function_apply_kwargs(mlx_vector_array *res, const mlx_imported_function xfunc,
                                               const mlx_vector_array args, const mlx_map_string_to_array kwargs);

/* What the mlx package has in Python alone, and what is ours */

/* An exporter with all that there is to choose.  With `portable`, an operation that only this library
 * knows is an error; without, it is written for this library to read.  Primitives of registered
 * libraries (primitive.h) are written either way, for programs that register them too.  `metadata` is
 * text of that many bytes, kept in the file. */
MLX_API mlx_function_exporter mlx_function_exporter_new_kwargs(const char *file, const mlx_closure_kwargs fun,
                                                               bool shapeless, bool portable, const char *metadata,
                                                               size_t metadata_length);

/* An exporter that writes no file but calls `callback` with what would be in it: one JSON object after
 * the other, whose member "type" is "inputs", "keyword_inputs", "outputs", "constants" or "primitive".
 * With "constants" come the arrays that are named there.  dtor(payload) is called, if `dtor` is not
 * NULL, when the exporter is freed. */
MLX_API mlx_function_exporter mlx_function_exporter_new_callback(
    int (*callback)(const char *event, const mlx_vector_array constants, void *payload), void *payload,
    void (*dtor)(void *), const mlx_closure_kwargs fun, bool shapeless, bool portable);

/* Closes the file; nothing can be applied any more.  With `keep` it takes the place of an older file, which has
 * stayed until now, also where nothing was applied.  Without, an older file stays, and one that has been begun
 * is dropped unless it has its place already.  Freeing an exporter closes it, with `keep` where something was
 * applied and the last application did not fail, but for a child made by fork: what it frees it drops. */
MLX_API int mlx_function_exporter_close(const mlx_function_exporter xfunc, bool keep);

/* The metadata of the file, which stays the function's. */
MLX_API int mlx_imported_function_metadata(const char **text, size_t *length, const mlx_imported_function xfunc);

/* What is in a file, as JSON: traces with their inputs, outputs and operations, constants with their
 * sizes.  No constant is read. */
MLX_API int mlx_inspect_function(mlx_string *res, const char *file);

#ifdef __cplusplus
}
#endif

#endif
