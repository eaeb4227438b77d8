/* array.h: dtypes, and the handle of an array.
 *
 * Ownership, here and in every other header.  A handle (mlx_array, mlx_stream, ...) is a struct
 * with one pointer.  Whoever makes a handle, with a function whose name has `new` in it, frees it
 * once with the matching `free`; copies of the struct are the same handle, and an empty handle (ctx
 * NULL) may be freed as well.  Functions never take over the handles passed to them: they keep
 * references of their own to what they need later.
 *
 * Results are written through a first argument such as `mlx_array *res`.  It points at a handle
 * that is empty or already holds something, which is then let go; so one handle can be used over
 * and over, also for a result computed from its old content: mlx_add(&x, x, y, s).  When a function
 * fails, `*res` is as it was.
 *
 * Functions that return int return 0 for success and something else after an error.  The message
 * goes to the error handler (error.h), which by default prints it; nothing ends the process.  A
 * function with another result type returns 0, NULL or an empty handle after an error.
 *
 * Arrays are lazy: operations only note what is to be computed, and mlx_array_eval, mlx_eval or the
 * first look at the elements computes it.  Shape and dtype are known without computing anything. */
#ifndef MLX_C_ARRAY_H
#define MLX_C_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx/c/api.h"
#include "mlx/c/half.h"
#include "mlx/c/string.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An element of dtype complex64: two floats, the real part first. */
#ifdef __GNUC__
__extension__ /* _Complex is an extension in C++ */
#endif
    typedef float _Complex mlx_complex64_t;

/* A handle of an array. */
typedef struct mlx_array_ {
    void *ctx;
} mlx_array;

/* The empty handle: what mlx_array_new returns, and how an optional argument is left out. */
static const mlx_array mlx_array_empty = { NULL };

/* The types that elements can have. */
typedef enum mlx_dtype_ {
    MLX_BOOL,      /* a byte, 0 or 1 */
    MLX_UINT8,     /* unsigned, of 8 bits */
    MLX_UINT16,    /* unsigned, of 16 bits */
    MLX_UINT32,    /* unsigned, of 32 bits */
    MLX_UINT64,    /* unsigned, of 64 bits */
    MLX_INT8,      /* signed, of 8 bits */
    MLX_INT16,     /* signed, of 16 bits */
    MLX_INT32,     /* signed, of 32 bits */
    MLX_INT64,     /* signed, of 64 bits */
    MLX_FLOAT16,   /* IEEE half precision: 11 bits of precision, up to 65504 */
    MLX_FLOAT32,   /* IEEE single precision: 24 bits */
    MLX_FLOAT64,   /* IEEE double precision: 53 bits; on the CPU alone */
    MLX_BFLOAT16,  /* the upper half of a float32: 8 bits of precision, its range */
    MLX_COMPLEX64, /* two float32: real part, imaginary part */
} mlx_dtype;

/* Bytes of one element. */
MLX_API size_t mlx_dtype_size(mlx_dtype dtype);

/* Writes the array as Python's repr does, "array([1, 2], dtype=int32)"; evaluates it. */
MLX_API int mlx_array_tostring(mlx_string *str, const mlx_array arr);

/* Making and freeing */

/* An empty handle, to be filled by the functions that take a mlx_array *. */
MLX_API mlx_array mlx_array_new(void);

/* Releases the handle; what it holds is freed when nothing else needs it. */
MLX_API int mlx_array_free(mlx_array arr);

/* A 0-d array of dtype bool. */
MLX_API mlx_array mlx_array_new_bool(bool val);

/* A 0-d array of dtype int32. */
MLX_API mlx_array mlx_array_new_int(int val);

/* A 0-d array of dtype float32. */
MLX_API mlx_array mlx_array_new_float32(float val);

/* The same as mlx_array_new_float32. */
MLX_API mlx_array mlx_array_new_float(float val);

/* A 0-d array of dtype float64. */
MLX_API mlx_array mlx_array_new_float64(double val);

/* The same as mlx_array_new_float64. */
MLX_API mlx_array mlx_array_new_double(double val);

/* A 0-d array of dtype complex64. */
MLX_API mlx_array mlx_array_new_complex(float real_val, float imag_val);

/* An array with a copy of `data`: elements of `dtype` in row-major order, `dim` sizes in
 * `shape`. */
MLX_API mlx_array mlx_array_new_data(const void *data, const int *shape, int dim, mlx_dtype dtype);

/* An array on the caller's memory, without a copy: `data` must stay as it is until the library
 * calls dtor(data), from any thread, once nothing uses it any more.  After an error it stays the
 * caller's. */
MLX_API mlx_array mlx_array_new_data_managed(void *data, const int *shape, int dim, mlx_dtype dtype,
                                             void (*dtor)(void *));

/* As mlx_array_new_data_managed, but at the end dtor(payload) is called. */
MLX_API mlx_array mlx_array_new_data_managed_payload(void *data, const int *shape, int dim, mlx_dtype dtype,
                                                     void *payload, void (*dtor)(void *));

/* Makes `arr` hold the array of `src`. */
MLX_API int mlx_array_set(mlx_array *arr, const mlx_array src);

/* Makes `arr` hold a 0-d array of dtype bool. */
MLX_API int mlx_array_set_bool(mlx_array *arr, bool val);

/* Makes `arr` hold a 0-d array of dtype int32. */
MLX_API int mlx_array_set_int(mlx_array *arr, int val);

/* Makes `arr` hold a 0-d array of dtype float32. */
MLX_API int mlx_array_set_float32(mlx_array *arr, float val);

/* The same as mlx_array_set_float32. */
MLX_API int mlx_array_set_float(mlx_array *arr, float val);

/* Makes `arr` hold a 0-d array of dtype float64. */
MLX_API int mlx_array_set_float64(mlx_array *arr, double val);

/* The same as mlx_array_set_float64. */
MLX_API int mlx_array_set_double(mlx_array *arr, double val);

/* Makes `arr` hold a 0-d array of dtype complex64. */
MLX_API int mlx_array_set_complex(mlx_array *arr, float real_val, float imag_val);

/* Makes `arr` hold a copy of `data`, as mlx_array_new_data does. */
MLX_API int mlx_array_set_data(mlx_array *arr, const void *data, const int *shape, int dim, mlx_dtype dtype);

/* Layout */

/* Bytes of one element. */
MLX_API size_t mlx_array_itemsize(const mlx_array arr);

/* Number of elements. */
MLX_API size_t mlx_array_size(const mlx_array arr);

/* Bytes of all elements: size times itemsize. */
MLX_API size_t mlx_array_nbytes(const mlx_array arr);

/* Number of dimensions, 0 for a scalar. */
MLX_API size_t mlx_array_ndim(const mlx_array arr);

/* The sizes of the dimensions; they belong to the array and are good as long as the handle holds
 * it. A 0-d array has none, and the pointer may then be NULL without an error. */
MLX_API const int *mlx_array_shape(const mlx_array arr);

/* The distance in elements from one index of a dimension to the next, as laid out in memory;
 * evaluates the array.  A view may have steps of 0, or negative ones wrapped around. */
MLX_API const size_t *mlx_array_strides(const mlx_array arr);

/* The size of one dimension; a negative `dim` counts from the last. */
MLX_API int mlx_array_dim(const mlx_array arr, int dim);

/* The type of the elements. */
MLX_API mlx_dtype mlx_array_dtype(const mlx_array arr);

/* Computes the array and everything it needs, and waits for it.  Much of that happens on the calling thread, which
 * needs 512 KB of stack, and more for derivatives of loops in many others. */
MLX_API int mlx_array_eval(mlx_array arr);

/* Reading one element.  The array must have exactly one element, of whatever dimensions; it is
 * evaluated, and the element converted to the type asked for as mlx_astype does. */

MLX_API int mlx_array_item_bool(bool *res, const mlx_array arr);
MLX_API int mlx_array_item_uint8(uint8_t *res, const mlx_array arr);
MLX_API int mlx_array_item_uint16(uint16_t *res, const mlx_array arr);
MLX_API int mlx_array_item_uint32(uint32_t *res, const mlx_array arr);
MLX_API int mlx_array_item_uint64(uint64_t *res, const mlx_array arr);
MLX_API int mlx_array_item_int8(int8_t *res, const mlx_array arr);
MLX_API int mlx_array_item_int16(int16_t *res, const mlx_array arr);
MLX_API int mlx_array_item_int32(int32_t *res, const mlx_array arr);
MLX_API int mlx_array_item_int64(int64_t *res, const mlx_array arr);
MLX_API int mlx_array_item_float32(float *res, const mlx_array arr);
MLX_API int mlx_array_item_float64(double *res, const mlx_array arr);
MLX_API int mlx_array_item_complex64(mlx_complex64_t *res, const mlx_array arr);

/* Reading all elements.  The array is evaluated, and the result points at its first element; the
 * others are where mlx_array_strides says (for row-major order pass the array through
 * mlx_contiguous first).  The memory is good as long as the handle holds this array.  The dtype
 * must be the one in the name, except that the unsigned integer functions give the raw bits of any
 * dtype with elements of their size.  A bool is true where its byte is not 0: bytes that came from outside or
 * from mlx_view are as they came, so read those as uint8, or after mlx_logical_not twice.  NULL after an error. */

MLX_API const bool *mlx_array_data_bool(const mlx_array arr);
MLX_API const uint8_t *mlx_array_data_uint8(const mlx_array arr);
MLX_API const uint16_t *mlx_array_data_uint16(const mlx_array arr);
MLX_API const uint32_t *mlx_array_data_uint32(const mlx_array arr);
MLX_API const uint64_t *mlx_array_data_uint64(const mlx_array arr);
MLX_API const int8_t *mlx_array_data_int8(const mlx_array arr);
MLX_API const int16_t *mlx_array_data_int16(const mlx_array arr);
MLX_API const int32_t *mlx_array_data_int32(const mlx_array arr);
MLX_API const int64_t *mlx_array_data_int64(const mlx_array arr);
MLX_API const float *mlx_array_data_float32(const mlx_array arr);
MLX_API const double *mlx_array_data_float64(const mlx_array arr);
MLX_API const mlx_complex64_t *mlx_array_data_complex64(const mlx_array arr);

#ifdef HAS_FLOAT16
/* Reading one element, as the functions above. */
MLX_API int mlx_array_item_float16(float16_t *res, const mlx_array arr);

/* Reading all elements, as the functions above. */
MLX_API const float16_t *mlx_array_data_float16(const mlx_array arr);
#endif

#ifdef HAS_BFLOAT16
/* Reading one element, as the functions above. */
MLX_API int mlx_array_item_bfloat16(bfloat16_t *res, const mlx_array arr);

/* Reading all elements, as the functions above. */
MLX_API const bfloat16_t *mlx_array_data_bfloat16(const mlx_array arr);
#endif

/* A look inside, for tests and tools */

/* Whether the elements are computed already, so that reading them does not wait. */
MLX_API int _mlx_array_is_available(bool *res, const mlx_array arr);

/* Waits until an array under evaluation (mlx_async_eval) is computed. */
MLX_API int _mlx_array_wait(const mlx_array arr);

/* Whether the elements fill a block of memory without gaps, in whatever order of dimensions;
 * evaluates the array, as do the next two. */
MLX_API int _mlx_array_is_contiguous(bool *res, const mlx_array arr);

/* Whether they do so with the last dimension running fastest. */
MLX_API int _mlx_array_is_row_contiguous(bool *res, const mlx_array arr);

/* Whether they do so with the first dimension running fastest. */
MLX_API int _mlx_array_is_col_contiguous(bool *res, const mlx_array arr);

#ifdef __cplusplus
}
#endif

#endif
