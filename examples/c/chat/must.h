/* must.h: what goes wrong ends the program, with a message. */
#ifndef MUST_H
#define MUST_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlx/c/mlx.h"

static inline _Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

/* Every call of the library returns 0, or has printed to stderr what went wrong. */
static inline void must(int status)
{
    if (status)
        exit(2);
}

/* Memory; `p` as for realloc. */
static inline void *grow(void *p, size_t bytes)
{
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        die("no memory for %zu bytes", bytes);
    return p;
}

/* A number of the file's metadata. */
static inline double number(mlx_io_gguf file, const char *key)
{
    double value;
    mlx_array a = mlx_array_new();
    must(mlx_io_gguf_get_metadata_array(&a, file, key));
    must(mlx_array_item_float64(&value, a));
    mlx_array_free(a);
    return value;
}

/* Is a string of the metadata this one? */
static inline bool is(mlx_io_gguf file, const char *key, const char *value)
{
    bool there;
    must(mlx_io_gguf_has_metadata_string(&there, file, key));
    if (!there)
        return false;
    mlx_string s = mlx_string_new();
    must(mlx_io_gguf_get_metadata_string(&s, file, key));
    bool same = !strcmp(mlx_string_data(s), value);
    mlx_string_free(s);
    return same;
}

#endif
