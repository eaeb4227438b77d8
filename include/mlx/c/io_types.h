/* io_types.h: readers and writers of the caller's own, for loading from and saving to anything.
 *
 * A reader or writer is a table of functions and the pointer `desc` that is given to each of them.
 * It is a handle: whoever makes one frees it, copies of the struct are the same handle.  Functions
 * that return int return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_IO_TYPES_H
#define MLX_C_IO_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a reader. */
typedef struct mlx_io_reader_ {
    void *ctx;
} mlx_io_reader;

/* A handle of a writer. */
typedef struct mlx_io_writer_ {
    void *ctx;
} mlx_io_writer;

/* What a reader or writer can do.  The first argument of every function is `desc`; sizes and offsets
 * are in bytes.  A reader needs `seek`, `tell` and one of `read` and `read_at_offset`, a writer needs
 * `write`; the others may be NULL. */
typedef struct mlx_io_vtable_ {
    bool (*is_open)(void *);                       /* Is it usable?  Asked before reading or writing. */
    bool (*good)(void *);                          /* Did all go well so far?  Asked before and after. */
    size_t (*tell)(void *);                        /* The position. */
    void (*seek)(void *, int64_t off, int whence); /* Moves it; SEEK_SET, SEEK_CUR or SEEK_END. */
    void (*read)(void *, char *data, size_t n);    /* Reads from the position and moves it on. */
    void (*read_at_offset)(void *, char *data, size_t n, size_t off); /* Reads; need not move it. */
    void (*write)(void *, const char *data, size_t n);                /* Writes at the position and moves it on. */
    const char *(*label)(void *);                                     /* What it is called in messages. */
    void (*free)(void *);                                             /* Called when the handle is freed. */
} mlx_io_vtable;

/* A reader on `desc`; the table is copied. */
MLX_API mlx_io_reader mlx_io_reader_new(void *desc, mlx_io_vtable vtable);

/* The `desc` of the reader. */
MLX_API int mlx_io_reader_descriptor(void **desc_, mlx_io_reader io);

/* Writes the reader's label. */
MLX_API int mlx_io_reader_tostring(mlx_string *str_, mlx_io_reader io);

/* Releases the handle; not from within a call that reads by it. */
MLX_API int mlx_io_reader_free(mlx_io_reader io);

/* A writer on `desc`; the table is copied. */
MLX_API mlx_io_writer mlx_io_writer_new(void *desc, mlx_io_vtable vtable);

/* The `desc` of the writer. */
MLX_API int mlx_io_writer_descriptor(void **desc_, mlx_io_writer io);

/* Writes the writer's label. */
MLX_API int mlx_io_writer_tostring(mlx_string *str_, mlx_io_writer io);

/* Releases the handle; not from within a call that writes by it. */
MLX_API int mlx_io_writer_free(mlx_io_writer io);

/* What is in a gguf file, or goes into one: arrays by name, and by key values about them, each an array
 * of none or one dimension, a string or a list of strings. */
typedef struct mlx_io_gguf_ {
    void *ctx;
} mlx_io_gguf;

/* A file's worth of nothing: without arrays or values. */
MLX_API mlx_io_gguf mlx_io_gguf_new(void);

/* Releases the handle. */
MLX_API int mlx_io_gguf_free(mlx_io_gguf io);

/* Writes the names of the arrays. */
MLX_API int mlx_io_gguf_get_keys(mlx_vector_string *keys, mlx_io_gguf io);

/* Writes the array of that name. */
MLX_API int mlx_io_gguf_get_array(mlx_array *arr, mlx_io_gguf io, const char *key);

/* Writes the value of that key, which must be an array. */
MLX_API int mlx_io_gguf_get_metadata_array(mlx_array *arr, mlx_io_gguf io, const char *key);

/* Writes the value of that key, which must be a string. */
MLX_API int mlx_io_gguf_get_metadata_string(mlx_string *str, mlx_io_gguf io, const char *key);

/* Writes the value of that key, which must be a list of strings. */
MLX_API int mlx_io_gguf_get_metadata_vector_string(mlx_vector_string *vstr, mlx_io_gguf io, const char *key);

/* Is there a value of that key that is an array? */
MLX_API int mlx_io_gguf_has_metadata_array(bool *flag, mlx_io_gguf io, const char *key);

/* Is there a value of that key that is a string? */
MLX_API int mlx_io_gguf_has_metadata_string(bool *flag, mlx_io_gguf io, const char *key);

/* Is there a value of that key that is a list of strings? */
MLX_API int mlx_io_gguf_has_metadata_vector_string(bool *flag, mlx_io_gguf io, const char *key);

/* Adds an array or puts it in the place of the one of that name. */
MLX_API int mlx_io_gguf_set_array(mlx_io_gguf io, const char *key, const mlx_array arr);

/* Adds a value or puts it in the place of the one of that key. */
MLX_API int mlx_io_gguf_set_metadata_array(mlx_io_gguf io, const char *key, const mlx_array marr);

/* The same for a string, which is copied. */
MLX_API int mlx_io_gguf_set_metadata_string(mlx_io_gguf io, const char *key, const char *mstr);

/* The same for a list of strings. */
MLX_API int mlx_io_gguf_set_metadata_vector_string(mlx_io_gguf io, const char *key, const mlx_vector_string mvstr);

#ifdef __cplusplus
}
#endif

#endif
