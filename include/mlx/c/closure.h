/* closure.h: functions as values, to be handed to the transforms.
 *
 * A closure wraps a C function, with or without a pointer of the caller's (the payload).  The
 * function gets its inputs borrowed: it reads them, and frees none.  It gets each result as a
 * handle that is empty (a vector: without elements) and fills it, as by mlx_add(res, ...) or
 * mlx_vector_array_append_value(*res, y).  It returns 0 for success; anything else fails the call
 * that needed it, with the error the function reported or else with one that tells the number.
 *
 * A closure is a handle: whoever makes one frees it, copies of the struct are the same closure.
 * With a payload, dtor(payload) is called (if `dtor` is not NULL) when the last handle and the last
 * graph that use the closure are gone; when making the closure fails, the payload stays the
 * caller's. Functions that return int return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_CLOSURE_H
#define MLX_C_CLOSURE_H

#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/map.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arrays in, arrays out. */
typedef struct mlx_closure_ {
    void *ctx;
} mlx_closure;

/* An empty handle, to be filled by the functions that take a mlx_closure *. */
MLX_API mlx_closure mlx_closure_new(void);

/* Releases the handle. */
MLX_API int mlx_closure_free(mlx_closure cls);

/* The closure of fun(results, inputs). */
MLX_API mlx_closure mlx_closure_new_func(int (*fun)(mlx_vector_array *, const mlx_vector_array));

/* The same with a payload, given to `fun` as its last argument. */
MLX_API mlx_closure mlx_closure_new_func_payload(int (*fun)(mlx_vector_array *, const mlx_vector_array, void *),
                                                 void *payload, void (*dtor)(void *));

/* Makes `cls` the closure of `src`. */
MLX_API int mlx_closure_set(mlx_closure *cls, const mlx_closure src);

/* Calls the function; `res` gets its results, in place of what it had. */
MLX_API int mlx_closure_apply(mlx_vector_array *res, mlx_closure cls, const mlx_vector_array input);

/* The closure of a function of one array with one result. */
MLX_API mlx_closure mlx_closure_new_unary(int (*fun)(mlx_array *, const mlx_array));

/* Arrays in, some of them by name, and arrays out. */
typedef struct mlx_closure_kwargs_ {
    void *ctx;
} mlx_closure_kwargs;

/* An empty handle, to be filled by the functions that take a mlx_closure_kwargs *. */
MLX_API mlx_closure_kwargs mlx_closure_kwargs_new(void);

/* Releases the handle. */
MLX_API int mlx_closure_kwargs_free(mlx_closure_kwargs cls);

/* The closure of fun(results, inputs, named inputs). */
MLX_API mlx_closure_kwargs mlx_closure_kwargs_new_func(int (*fun)(mlx_vector_array *, const mlx_vector_array,
                                                                  const mlx_map_string_to_array));

/* The same with a payload, given to `fun` as its last argument. */
MLX_API mlx_closure_kwargs mlx_closure_kwargs_new_func_payload(int (*fun)(mlx_vector_array *, const mlx_vector_array,
                                                                          const mlx_map_string_to_array, void *),
                                                               void *payload, void (*dtor)(void *));

/* Makes `cls` the closure of `src`. */
MLX_API int mlx_closure_kwargs_set(mlx_closure_kwargs *cls, const mlx_closure_kwargs src);

/* Calls the function with arrays by place and by name; `res` gets its results. */
MLX_API int mlx_closure_kwargs_apply(mlx_vector_array *res, mlx_closure_kwargs cls, const mlx_vector_array input_0,
                                     const mlx_map_string_to_array input_1);

/* What mlx_value_and_grad makes: arrays in, values and gradients out. */
typedef struct mlx_closure_value_and_grad_ {
    void *ctx;
} mlx_closure_value_and_grad;

/* An empty handle, to be filled by the functions that take a mlx_closure_value_and_grad *. */
MLX_API mlx_closure_value_and_grad mlx_closure_value_and_grad_new(void);

/* Releases the handle. */
MLX_API int mlx_closure_value_and_grad_free(mlx_closure_value_and_grad cls);

/* The closure of fun(values, gradients, inputs). */
MLX_API mlx_closure_value_and_grad mlx_closure_value_and_grad_new_func(int (*fun)(mlx_vector_array *,
                                                                                  mlx_vector_array *,
                                                                                  const mlx_vector_array));

/* The same with a payload, given to `fun` as its last argument. */
MLX_API mlx_closure_value_and_grad mlx_closure_value_and_grad_new_func_payload(
    int (*fun)(mlx_vector_array *, mlx_vector_array *, const mlx_vector_array, void *), void *payload,
    void (*dtor)(void *));

/* Makes `cls` the closure of `src`. */
MLX_API int mlx_closure_value_and_grad_set(mlx_closure_value_and_grad *cls, const mlx_closure_value_and_grad src);

/* Calls the function; `res_0` gets the values and `res_1` the gradients. */
MLX_API int mlx_closure_value_and_grad_apply(mlx_vector_array *res_0, mlx_vector_array *res_1,
                                             mlx_closure_value_and_grad cls, const mlx_vector_array input);

/* A vjp rule of the caller's own, for mlx_custom_vjp. */
typedef struct mlx_closure_custom_ {
    void *ctx;
} mlx_closure_custom;

/* An empty handle, to be filled by the functions that take a mlx_closure_custom *. */
MLX_API mlx_closure_custom mlx_closure_custom_new(void);

/* Releases the handle. */
MLX_API int mlx_closure_custom_free(mlx_closure_custom cls);

/* The closure of fun(vjps, inputs, cotangents, outputs): one vjp for each input. */
MLX_API mlx_closure_custom mlx_closure_custom_new_func(int (*fun)(mlx_vector_array *, const mlx_vector_array,
                                                                  const mlx_vector_array, const mlx_vector_array));

/* The same with a payload, given to `fun` as its last argument. */
MLX_API mlx_closure_custom mlx_closure_custom_new_func_payload(int (*fun)(mlx_vector_array *, const mlx_vector_array,
                                                                          const mlx_vector_array,
                                                                          const mlx_vector_array, void *),
                                                               void *payload, void (*dtor)(void *));

/* Makes `cls` the closure of `src`. */
MLX_API int mlx_closure_custom_set(mlx_closure_custom *cls, const mlx_closure_custom src);

/* Calls the rule with inputs, cotangents and outputs; `res` gets the vjps. */
MLX_API int mlx_closure_custom_apply(mlx_vector_array *res, mlx_closure_custom cls, const mlx_vector_array input_0,
                                     const mlx_vector_array input_1, const mlx_vector_array input_2);

/* A jvp rule of the caller's own. */
typedef struct mlx_closure_custom_jvp_ {
    void *ctx;
} mlx_closure_custom_jvp;

/* An empty handle, to be filled by the functions that take a mlx_closure_custom_jvp *. */
MLX_API mlx_closure_custom_jvp mlx_closure_custom_jvp_new(void);

/* Releases the handle. */
MLX_API int mlx_closure_custom_jvp_free(mlx_closure_custom_jvp cls);

/* The closure of fun(jvps, inputs, tangents, argnums, count): one tangent for each of the `count`
 * inputs numbered in argnums, one jvp for each output. */
MLX_API mlx_closure_custom_jvp mlx_closure_custom_jvp_new_func(int (*fun)(mlx_vector_array *, const mlx_vector_array,
                                                                          const mlx_vector_array, const int *, size_t));

/* The same with a payload, given to `fun` as its last argument. */
MLX_API mlx_closure_custom_jvp mlx_closure_custom_jvp_new_func_payload(
    int (*fun)(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const int *, size_t, void *),
    void *payload, void (*dtor)(void *));

/* Makes `cls` the closure of `src`. */
MLX_API int mlx_closure_custom_jvp_set(mlx_closure_custom_jvp *cls, const mlx_closure_custom_jvp src);

/* Calls the rule with inputs, tangents and argnums; `res` gets the jvps. */
MLX_API int mlx_closure_custom_jvp_apply(mlx_vector_array *res, mlx_closure_custom_jvp cls,
                                         const mlx_vector_array input_0, const mlx_vector_array input_1,
                                         const int *input_2, size_t input_2_num);

/* A vmap rule of the caller's own. */
typedef struct mlx_closure_custom_vmap_ {
    void *ctx;
} mlx_closure_custom_vmap;

/* An empty handle, to be filled by the functions that take a mlx_closure_custom_vmap *. */
MLX_API mlx_closure_custom_vmap mlx_closure_custom_vmap_new(void);

/* Releases the handle. */
MLX_API int mlx_closure_custom_vmap_free(mlx_closure_custom_vmap cls);

/* The closure of fun(outputs, output axes, inputs, axes, count): the axis along which each input is
 * to be mapped, -1 for one that is not, and the same for each output. */
MLX_API mlx_closure_custom_vmap mlx_closure_custom_vmap_new_func(int (*fun)(mlx_vector_array *, mlx_vector_int *,
                                                                            const mlx_vector_array, const int *,
                                                                            size_t));

/* The same with a payload, given to `fun` as its last argument. */
MLX_API mlx_closure_custom_vmap mlx_closure_custom_vmap_new_func_payload(
    int (*fun)(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array, const int *, size_t, void *),
    void *payload, void (*dtor)(void *));

/* Makes `cls` the closure of `src`. */
MLX_API int mlx_closure_custom_vmap_set(mlx_closure_custom_vmap *cls, const mlx_closure_custom_vmap src);

/* Calls the rule with inputs and axes; `res_0` gets the outputs, `res_1` their axes. */
MLX_API int mlx_closure_custom_vmap_apply(mlx_vector_array *res_0, mlx_vector_int *res_1, mlx_closure_custom_vmap cls,
                                          const mlx_vector_array input_0, const int *input_1, size_t input_1_num);

#ifdef __cplusplus
}
#endif

#endif
