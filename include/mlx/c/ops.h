/* ops.h: operations on arrays.
 *
 * Every operation only adds to the graph: it checks shapes and dtypes, makes `res` hold the array
 * to be computed, and returns 0 for success.  The work runs on the stream `s`; an empty handle
 * stands for the default stream.  Ownership, results and errors are as in array.h.
 *
 * Throughout: several operands broadcast as in NumPy (sizes agree from the last dimension on, or
 * are 1) and meet in their common dtype; a negative axis counts from the last; functions that only
 * make sense on floating-point numbers take integers as float32; an array argument that may be left
 * out is an empty handle. */
#ifndef MLX_C_OPS_H
#define MLX_C_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/optional.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arithmetic */

/* |a|, for a complex number its modulus as float32. */
MLX_API int mlx_abs(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a + b. */
MLX_API int mlx_add(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* The magnitude of a with the sign of b. */
MLX_API int mlx_copysign(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a / b; integers are divided as float32. */
MLX_API int mlx_divide(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* The vector of floor_divide(a, b) and remainder(a, b). */
MLX_API int mlx_divmod(mlx_vector_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a / b rounded down; x / 0 is 0 for integers, and complex numbers are divided without rounding. */
MLX_API int mlx_floor_divide(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* The larger of a and b, or NaN where one is NaN. */
MLX_API int mlx_maximum(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* The smaller of a and b, or NaN where one is NaN. */
MLX_API int mlx_minimum(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a * b. */
MLX_API int mlx_multiply(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* -a; not for bool. */
MLX_API int mlx_negative(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a to the power b. */
MLX_API int mlx_power(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* 1 / a. */
MLX_API int mlx_reciprocal(mlx_array *res, const mlx_array a, const mlx_stream s);

/* What floor_divide leaves, with the sign of b; x for integers where b is 0; not for complex
 * numbers. */
MLX_API int mlx_remainder(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* -1, 0 or 1 by the sign of a, 0 for NaN; for complex numbers a / |a|. */
MLX_API int mlx_sign(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a * a. */
MLX_API int mlx_square(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a - b. */
MLX_API int mlx_subtract(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Rounding */

/* The next integer upwards, in the dtype of a; not for complex numbers. */
MLX_API int mlx_ceil(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The next integer downwards, in the dtype of a; not for complex numbers. */
MLX_API int mlx_floor(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The nearest integer, halves to even, in the dtype of a; complex numbers by parts. */
MLX_API int mlx_rint(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The nearest multiple of 10^-decimals, halves to even. */
MLX_API int mlx_round(mlx_array *res, const mlx_array a, int decimals, const mlx_stream s);

/* The next integer towards 0, in the dtype of a; not for complex numbers. */
MLX_API int mlx_trunc(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Roots, exponentials and logarithms */

/* e^a. */
MLX_API int mlx_exp(mlx_array *res, const mlx_array a, const mlx_stream s);

/* e^a - 1, accurate near 0. */
MLX_API int mlx_expm1(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The natural logarithm. */
MLX_API int mlx_log(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The logarithm to base 10. */
MLX_API int mlx_log10(mlx_array *res, const mlx_array a, const mlx_stream s);

/* log(1 + a), accurate near 0. */
MLX_API int mlx_log1p(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The logarithm to base 2. */
MLX_API int mlx_log2(mlx_array *res, const mlx_array a, const mlx_stream s);

/* log(e^a + e^b) without overflow. */
MLX_API int mlx_logaddexp(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* 1 / sqrt(a). */
MLX_API int mlx_rsqrt(mlx_array *res, const mlx_array a, const mlx_stream s);

/* 1 / (1 + e^-a). */
MLX_API int mlx_sigmoid(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The derivative of the sigmoid, e^-a / (1 + e^-a)^2, accurate at both ends; real numbers only. */
MLX_API int mlx_sigmoid_slope(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a / (1 + e^-a); real numbers only. */
MLX_API int mlx_silu(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The derivative of silu. */
MLX_API int mlx_silu_slope(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The square root. */
MLX_API int mlx_sqrt(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Trigonometric and hyperbolic functions, angles in radians */

/* The arc cosine. */
MLX_API int mlx_arccos(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The inverse of cosh. */
MLX_API int mlx_arccosh(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The arc sine. */
MLX_API int mlx_arcsin(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The inverse of sinh. */
MLX_API int mlx_arcsinh(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The arc tangent. */
MLX_API int mlx_arctan(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The angle of the point (b, a), in all four quadrants. */
MLX_API int mlx_arctan2(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* sqrt(a * a + b * b), without overflow on the way. */
MLX_API int mlx_hypot(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* The inverse of tanh. */
MLX_API int mlx_arctanh(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The cosine. */
MLX_API int mlx_cos(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The hyperbolic cosine. */
MLX_API int mlx_cosh(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Radians to degrees. */
MLX_API int mlx_degrees(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Degrees to radians. */
MLX_API int mlx_radians(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The sine. */
MLX_API int mlx_sin(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The hyperbolic sine. */
MLX_API int mlx_sinh(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The tangent. */
MLX_API int mlx_tan(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The hyperbolic tangent. */
MLX_API int mlx_tanh(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The error function and its inverse */

/* 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to a. */
MLX_API int mlx_erf(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The inverse of erf on (-1, 1). */
MLX_API int mlx_erfinv(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Complex numbers */

/* The complex conjugate; a itself where a is real. */
MLX_API int mlx_conjugate(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The imaginary part. */
MLX_API int mlx_imag(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The real part. */
MLX_API int mlx_real(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Comparisons; the result is bool, and complex numbers compare by their real, then imaginary
 * parts */

/* a == b. */
MLX_API int mlx_equal(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a > b. */
MLX_API int mlx_greater(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a >= b. */
MLX_API int mlx_greater_equal(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a < b. */
MLX_API int mlx_less(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a <= b. */
MLX_API int mlx_less_equal(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a != b. */
MLX_API int mlx_not_equal(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* One bool: whether all elements are close in the sense of mlx_isclose. */
MLX_API int mlx_allclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol, double atol, bool equal_nan,
                         const mlx_stream s);

/* One bool: whether shapes and all elements are equal, with equal_nan also NaN to NaN. */
MLX_API int mlx_array_equal(mlx_array *res, const mlx_array a, const mlx_array b, bool equal_nan, const mlx_stream s);

/* |a - b| <= atol + rtol |b| for each element; infinities are close to themselves, and NaN to NaN
 * with equal_nan. */
MLX_API int mlx_isclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol, double atol, bool equal_nan,
                        const mlx_stream s);

/* Whether neither infinite nor NaN. */
MLX_API int mlx_isfinite(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Whether infinite. */
MLX_API int mlx_isinf(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Whether NaN. */
MLX_API int mlx_isnan(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Whether minus infinity; of complex numbers, with an imaginary part of 0. */
MLX_API int mlx_isneginf(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Whether plus infinity; of complex numbers, with an imaginary part of 0. */
MLX_API int mlx_isposinf(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Logic and bits */

/* a & b, for integers and bool. */
MLX_API int mlx_bitwise_and(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* ~a, for integers and bool. */
MLX_API int mlx_bitwise_invert(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a | b, for integers and bool. */
MLX_API int mlx_bitwise_or(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a ^ b, for integers and bool. */
MLX_API int mlx_bitwise_xor(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a << b, for integers. */
MLX_API int mlx_left_shift(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* a >> b, for integers; the sign is kept. */
MLX_API int mlx_right_shift(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Whether both are not 0. */
MLX_API int mlx_logical_and(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Whether a is 0. */
MLX_API int mlx_logical_not(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Whether one is not 0. */
MLX_API int mlx_logical_or(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Whether exactly one is not 0. */
MLX_API int mlx_logical_xor(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Choosing and limiting */

/* a limited to [a_min, a_max], of which one may be left out. */
MLX_API int mlx_clip(mlx_array *res, const mlx_array a, const mlx_array a_min, const mlx_array a_max,
                     const mlx_stream s);

/* a with NaN replaced by `nan` and the infinities by `posinf` and `neginf`, or, where left out, by
 * the largest and smallest finite number of the dtype. */
MLX_API int mlx_nan_to_num(mlx_array *res, const mlx_array a, float nan, mlx_optional_float posinf,
                           mlx_optional_float neginf, const mlx_stream s);

/* x where the condition holds, else y. */
MLX_API int mlx_where(mlx_array *res, const mlx_array condition, const mlx_array x, const mlx_array y,
                      const mlx_stream s);

/* Dtypes and memory */

/* The elements converted: floats to integers towards 0, to bool by "is not 0". */
MLX_API int mlx_astype(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s);

/* a itself, or a copy in row-major order without gaps; with allow_col_major the order may also be
 * that of columns. */
MLX_API int mlx_contiguous(mlx_array *res, const mlx_array a, bool allow_col_major, const mlx_stream s);

/* An array of equal elements with memory of its own. */
MLX_API int mlx_copy(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The bytes of a read as another dtype; the last dimension grows or shrinks by the ratio of
 * sizes. */
MLX_API int mlx_view(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s);

/* a, through which no derivative passes. */
MLX_API int mlx_stop_gradient(mlx_array *res, const mlx_array a, const mlx_stream s);

/* How many elements a has along the axes together, as a 0-d array; with `inverted` one divided by
 * it. */
MLX_API int mlx_number_of_elements(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool inverted,
                                   mlx_dtype dtype, const mlx_stream s);

/* Making arrays */

/* start, start + step, ... up to but without stop; with an infinite step start alone, or nothing. */
MLX_API int mlx_arange(mlx_array *res, double start, double stop, double step, mlx_dtype dtype, const mlx_stream s);

/* An n by m matrix of zeros with ones on diagonal k (0 the main one, above it positive). */
MLX_API int mlx_eye(mlx_array *res, int n, int m, int k, mlx_dtype dtype, const mlx_stream s);

/* An array of the shape filled with `vals`, which broadcasts to it. */
MLX_API int mlx_full(mlx_array *res, const int *shape, size_t shape_num, const mlx_array vals, mlx_dtype dtype,
                     const mlx_stream s);

/* The same with the shape of a, or what that broadcasts to with vals. */
MLX_API int mlx_full_like(mlx_array *res, const mlx_array a, const mlx_array vals, mlx_dtype dtype, const mlx_stream s);

/* The n by n identity matrix. */
MLX_API int mlx_identity(mlx_array *res, int n, mlx_dtype dtype, const mlx_stream s);

/* `num` numbers evenly spaced from start to stop, both included. */
MLX_API int mlx_linspace(mlx_array *res, double start, double stop, int num, mlx_dtype dtype, const mlx_stream s);

/* Ones. */
MLX_API int mlx_ones(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, const mlx_stream s);

/* Ones, in the shape and dtype of a. */
MLX_API int mlx_ones_like(mlx_array *res, const mlx_array a, const mlx_stream s);

/* An n by m matrix with ones on and below diagonal k, else zeros. */
MLX_API int mlx_tri(mlx_array *res, int n, int m, int k, mlx_dtype type, const mlx_stream s);

/* x with zeros above diagonal k of its last two dimensions. */
MLX_API int mlx_tril(mlx_array *res, const mlx_array x, int k, const mlx_stream s);

/* x with zeros below diagonal k of its last two dimensions. */
MLX_API int mlx_triu(mlx_array *res, const mlx_array x, int k, const mlx_stream s);

/* Zeros. */
MLX_API int mlx_zeros(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, const mlx_stream s);

/* Zeros, in the shape and dtype of a. */
MLX_API int mlx_zeros_like(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Shapes */

/* a with dimensions of size 1 put before, so that it has at least one. */
MLX_API int mlx_atleast_1d(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a with dimensions of size 1 put before, so that it has at least two. */
MLX_API int mlx_atleast_2d(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a with dimensions of size 1 put around, so that it has at least three: (n) becomes (1, n, 1) and
 * (n, m) becomes (n, m, 1). */
MLX_API int mlx_atleast_3d(mlx_array *res, const mlx_array a, const mlx_stream s);

/* All inputs broadcast to their common shape. */
MLX_API int mlx_broadcast_arrays(mlx_vector_array *res, const mlx_vector_array inputs, const mlx_stream s);

/* a repeated along dimensions of size 1, or new ones in front, to fill the shape. */
MLX_API int mlx_broadcast_to(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num, const mlx_stream s);

/* a with new dimensions of size 1, at these places of the result. */
MLX_API int mlx_expand_dims_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                                 const mlx_stream s);

/* a with a new dimension of size 1, at this place of the result. */
MLX_API int mlx_expand_dims(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);

/* a with the dimensions start_axis to end_axis joined into one. */
MLX_API int mlx_flatten(mlx_array *res, const mlx_array a, int start_axis, int end_axis, const mlx_stream s);

/* a with dimension `source` moved to be number `destination`. */
MLX_API int mlx_moveaxis(mlx_array *res, const mlx_array a, int source, int destination, const mlx_stream s);

/* The elements of a in row-major order in a new shape; one size may be -1, to be worked out. */
MLX_API int mlx_reshape(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num, const mlx_stream s);

/* a without these dimensions, which must be of size 1. */
MLX_API int mlx_squeeze_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s);

/* a without this dimension, which must be of size 1. */
MLX_API int mlx_squeeze_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);

/* a without its dimensions of size 1. */
MLX_API int mlx_squeeze(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a with two dimensions exchanged. */
MLX_API int mlx_swapaxes(mlx_array *res, const mlx_array a, int axis1, int axis2, const mlx_stream s);

/* a with dimension axes[i] as number i; every dimension must be named. */
MLX_API int mlx_transpose_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s);

/* a with the order of its dimensions reversed. */
MLX_API int mlx_transpose(mlx_array *res, const mlx_array a, const mlx_stream s);

/* a with one dimension split into several; one of the sizes may be -1. */
MLX_API int mlx_unflatten(mlx_array *res, const mlx_array a, int axis, const int *shape, size_t shape_num,
                          const mlx_stream s);

/* Joining, splitting, padding */

/* The arrays one after the other along an axis; their other sizes must agree. */
MLX_API int mlx_concatenate_axis(mlx_array *res, const mlx_vector_array arrays, int axis, const mlx_stream s);

/* The elements of the arrays, of whatever shapes, one after the other. */
MLX_API int mlx_concatenate(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s);

/* a with low_pad_size[i] elements before and high_pad_size[i] after it along axes[i]: `pad_value`
 * (0 if left out) in mode "constant", the nearest element in mode "edge", elements mirrored at the
 * edge in "reflect", which leaves out the edge itself, and in "symmetric". */
MLX_API int mlx_pad(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const int *low_pad_size,
                    size_t low_pad_size_num, const int *high_pad_size, size_t high_pad_size_num,
                    const mlx_array pad_value, const char *mode, const mlx_stream s);

/* a with pad_width elements before and after it along every axis. */
MLX_API int mlx_pad_symmetric(mlx_array *res, const mlx_array a, int pad_width, const mlx_array pad_value,
                              const char *mode, const mlx_stream s);

/* a cut into num_splits equal parts along the axis. */
MLX_API int mlx_split(mlx_vector_array *res, const mlx_array a, int num_splits, int axis, const mlx_stream s);

/* a cut before each of the indices along the axis. */
MLX_API int mlx_split_sections(mlx_vector_array *res, const mlx_array a, const int *indices, size_t indices_num,
                               int axis, const mlx_stream s);

/* Arrays of one shape side by side along a new axis. */
MLX_API int mlx_stack_axis(mlx_array *res, const mlx_vector_array arrays, int axis, const mlx_stream s);

/* Arrays of one shape side by side along a new axis 0. */
MLX_API int mlx_stack(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s);

/* Slices.  start, stop and strides have one number for each dimension; negative starts and stops
 * count from the end, and numbers past an end are cut off there, as in Python. */

/* a[start:stop:strides]. */
MLX_API int mlx_slice(mlx_array *res, const mlx_array a, const int *start, size_t start_num, const int *stop,
                      size_t stop_num, const int *strides, size_t strides_num, const mlx_stream s);

/* The slice of slice_size elements (one number for each dimension) that begins at `start`, an array
 * with one integer for each of the axes; it is moved to fit inside a. */
MLX_API int mlx_slice_dynamic(mlx_array *res, const mlx_array a, const mlx_array start, const int *axes,
                              size_t axes_num, const int *slice_size, size_t slice_size_num, const mlx_stream s);

/* src with the slice replaced by `update`, which broadcasts to it. */
MLX_API int mlx_slice_update(mlx_array *res, const mlx_array src, const mlx_array update, const int *start,
                             size_t start_num, const int *stop, size_t stop_num, const int *strides, size_t strides_num,
                             const mlx_stream s);

/* src with `update` in place of the slice of its size that begins at `start`, as for
 * mlx_slice_dynamic.  Leading axes that it lacks have size 1 where they are among `axes`, else that of src. */
MLX_API int mlx_slice_update_dynamic(mlx_array *res, const mlx_array src, const mlx_array update, const mlx_array start,
                                     const int *axes, size_t axes_num, const mlx_stream s);

/* src with `update` added to the slice. */
MLX_API int mlx_slice_update_add(mlx_array *res, const mlx_array src, const mlx_array update, const int *start,
                                 size_t start_num, const int *stop, size_t stop_num, const int *strides,
                                 size_t strides_num, const mlx_stream s);

/* src with the larger of the slice and `update`. */
MLX_API int mlx_slice_update_max(mlx_array *res, const mlx_array src, const mlx_array update, const int *start,
                                 size_t start_num, const int *stop, size_t stop_num, const int *strides,
                                 size_t strides_num, const mlx_stream s);

/* src with the smaller of the slice and `update`. */
MLX_API int mlx_slice_update_min(mlx_array *res, const mlx_array src, const mlx_array update, const int *start,
                                 size_t start_num, const int *stop, size_t stop_num, const int *strides,
                                 size_t strides_num, const mlx_stream s);

/* src with the slice multiplied by `update`. */
MLX_API int mlx_slice_update_prod(mlx_array *res, const mlx_array src, const mlx_array update, const int *start,
                                  size_t start_num, const int *stop, size_t stop_num, const int *strides,
                                  size_t strides_num, const mlx_stream s);

/* Reductions.  One form combines all elements, one those along `axis`, one those along several axes
 * (of which no two may be the same; none at all leaves the elements as they are).  With keepdims
 * the reduced dimensions stay with size 1. */

/* Whether all elements are not 0. */
MLX_API int mlx_all(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_all_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);
MLX_API int mlx_all_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                         const mlx_stream s);

/* Whether any element is not 0. */
MLX_API int mlx_any(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_any_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);
MLX_API int mlx_any_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                         const mlx_stream s);

/* The index of the largest element, the first of equals and NaN before any number, as uint32; over
 * all elements it counts in row-major order. */
MLX_API int mlx_argmax(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_argmax_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);

/* The index of the smallest element, the first of equals and NaN before any number, as uint32. */
MLX_API int mlx_argmin(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_argmin_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);

/* log(sum(e^a)) without overflow. */
MLX_API int mlx_logsumexp(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_logsumexp_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);
MLX_API int mlx_logsumexp_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                               const mlx_stream s);

/* The largest element, or NaN where there is one; there must be an element. */
MLX_API int mlx_max(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_max_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);
MLX_API int mlx_max_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                         const mlx_stream s);

/* The mean, of integers as float32. */
MLX_API int mlx_mean(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_mean_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);
MLX_API int mlx_mean_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                          const mlx_stream s);

/* The smallest element, or NaN where there is one; there must be an element. */
MLX_API int mlx_min(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_min_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);
MLX_API int mlx_min_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                         const mlx_stream s);

/* The product; bool and small integers give 32 bits. */
MLX_API int mlx_prod(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_prod_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);
MLX_API int mlx_prod_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                          const mlx_stream s);

/* e^a divided by its sum along the axes, without overflow; with `precise` half types are computed
 * in float32. */
MLX_API int mlx_softmax(mlx_array *res, const mlx_array a, bool precise, const mlx_stream s);
MLX_API int mlx_softmax_axis(mlx_array *res, const mlx_array a, int axis, bool precise, const mlx_stream s);
MLX_API int mlx_softmax_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool precise,
                             const mlx_stream s);

/* The standard deviation: the square root of the variance. */
MLX_API int mlx_std(mlx_array *res, const mlx_array a, bool keepdims, int ddof, const mlx_stream s);
MLX_API int mlx_std_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, int ddof, const mlx_stream s);
MLX_API int mlx_std_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims, int ddof,
                         const mlx_stream s);

/* The sum; bool and small integers give 32 bits. */
MLX_API int mlx_sum(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);
MLX_API int mlx_sum_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s);
MLX_API int mlx_sum_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                         const mlx_stream s);

/* The variance: squared distances from the mean, summed and divided by their number less ddof. */
MLX_API int mlx_var(mlx_array *res, const mlx_array a, bool keepdims, int ddof, const mlx_stream s);
MLX_API int mlx_var_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, int ddof, const mlx_stream s);
MLX_API int mlx_var_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims, int ddof,
                         const mlx_stream s);

/* Matrix products */

/* The matrix product over the last two dimensions, the others broadcast; a 1-d operand is a row on
 * the left, a column on the right, and that dimension is dropped from the result.  Of
 * floating-point dtype. */
MLX_API int mlx_matmul(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* beta * c + alpha * (a @ b), with c broadcast to the product. */
MLX_API int mlx_addmm(mlx_array *res, const mlx_array c, const mlx_array a, const mlx_array b, float alpha, float beta,
                      const mlx_stream s);

/* Elements by index.  Indices are integers; a negative one counts from the end.  An index out of
 * range reads the nearest element, and a write there is left out, unless that is made an error (error.h). */

/* The elements of a, in row-major order, at the indices, in their shape. */
MLX_API int mlx_take(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_stream s);

/* a with dimension `axis` replaced by those of the indices: the slices at the indices. */
MLX_API int mlx_take_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis, const mlx_stream s);

/* For each position of `indices` the element of a at that position, but along `axis` at the index;
 * the other sizes broadcast. */
MLX_API int mlx_take_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                                const mlx_stream s);

/* a with `values` written to the positions that mlx_take_along_axis would read. */
MLX_API int mlx_put_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array values,
                               int axis, const mlx_stream s);

/* a with the elements of `src`, row by row, in place of those where `mask` is true.  The mask has the
 * shape of a, or of its first dimensions, and stands for all of the others.  Where there are fewer
 * elements than places the last one is repeated, as an index out of range reads the nearest element (see
 * error.h); any more are left out. */
MLX_API int mlx_masked_scatter(mlx_array *res, const mlx_array a, const mlx_array mask, const mlx_array src,
                               const mlx_stream s);

/* a with `values` added at the positions that mlx_take_along_axis would read; repeated ones add
 * up. */
MLX_API int mlx_scatter_add_axis(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array values,
                                 int axis, const mlx_stream s);

/* For each position of the broadcast indices, a block of slice_sizes (one number for each dimension
 * of a) that begins at indices[k] along axes[k] and at 0 along the other axes; the shape is that of
 * the indices followed by slice_sizes. */
MLX_API int mlx_gather(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const int *axes,
                       size_t axes_num, const int *slice_sizes, size_t slice_sizes_num, const mlx_stream s);

/* mlx_gather with one array of indices. */
MLX_API int mlx_gather_single(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                              const int *slice_sizes, size_t slice_sizes_num, const mlx_stream s);

/* a with blocks of `updates` written where mlx_gather would read them; updates has the shape that
 * it would give.  Which of several writes to one element stays is not defined. */
MLX_API int mlx_scatter(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const mlx_array updates,
                        const int *axes, size_t axes_num, const mlx_stream s);
MLX_API int mlx_scatter_single(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array updates,
                               int axis, const mlx_stream s);

/* mlx_scatter that adds the updates; repeated positions add up. */
MLX_API int mlx_scatter_add(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const mlx_array updates,
                            const int *axes, size_t axes_num, const mlx_stream s);
MLX_API int mlx_scatter_add_single(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array updates,
                                   int axis, const mlx_stream s);

/* mlx_scatter that keeps the larger. */
MLX_API int mlx_scatter_max(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const mlx_array updates,
                            const int *axes, size_t axes_num, const mlx_stream s);
MLX_API int mlx_scatter_max_single(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array updates,
                                   int axis, const mlx_stream s);

/* mlx_scatter that keeps the smaller. */
MLX_API int mlx_scatter_min(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const mlx_array updates,
                            const int *axes, size_t axes_num, const mlx_stream s);
MLX_API int mlx_scatter_min_single(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array updates,
                                   int axis, const mlx_stream s);

/* mlx_scatter that multiplies. */
MLX_API int mlx_scatter_prod(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const mlx_array updates,
                             const int *axes, size_t axes_num, const mlx_stream s);
MLX_API int mlx_scatter_prod_single(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array updates,
                                    int axis, const mlx_stream s);

/* Windows, diagonals, products, grids, repetition */

/* The Bartlett window of M points, float32: a triangle from 0 to 1 and back. */
MLX_API int mlx_bartlett(mlx_array *res, int M, const mlx_stream s);

/* The Blackman window of M points, float32: 0.42 - 0.5 cos(x) + 0.08 cos(2 x), x from 0 to 2 pi. */
MLX_API int mlx_blackman(mlx_array *res, int M, const mlx_stream s);

/* The Hamming window of M points, float32: 0.54 - 0.46 cos(x), x from 0 to 2 pi. */
MLX_API int mlx_hamming(mlx_array *res, int M, const mlx_stream s);

/* The Hann window of M points, float32: (1 - cos(x)) / 2, x from 0 to 2 pi. */
MLX_API int mlx_hanning(mlx_array *res, int M, const mlx_stream s);

/* A matrix with the vector `a` on diagonal k, or the k-th diagonal of a matrix. */
MLX_API int mlx_diag(mlx_array *res, const mlx_array a, int k, const mlx_stream s);

/* The elements a[i, i + offset] of axes axis1 and axis2, as a new last axis. */
MLX_API int mlx_diagonal(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2, const mlx_stream s);

/* The sum of products over the last axes. */
MLX_API int mlx_inner(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* The Kronecker product: each element of a times all of b. */
MLX_API int mlx_kron(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Coordinates of a grid from those of its axes; indexing "xy" puts the second axis first, "ij" does
 * not.  A sparse grid has size 1 where it does not vary. */
MLX_API int mlx_meshgrid(mlx_vector_array *res, const mlx_vector_array arrays, bool sparse, const char *indexing,
                         const mlx_stream s);

/* Every product of an element of a and one of b: (size of a, size of b). */
MLX_API int mlx_outer(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);

/* Each element `repeats` times, along an axis or of the flattened array. */
MLX_API int mlx_repeat_axis(mlx_array *res, const mlx_array arr, int repeats, int axis, const mlx_stream s);
MLX_API int mlx_repeat(mlx_array *res, const mlx_array arr, int repeats, const mlx_stream s);

/* Elements moved on by `shift` places, those past the end to the front: of the flattened array, along
 * one axis (by the sum of the shifts), or along each of several. */
MLX_API int mlx_roll(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num, const mlx_stream s);
MLX_API int mlx_roll_axis(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num, int axis,
                          const mlx_stream s);
MLX_API int mlx_roll_axes(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num, const int *axes,
                          size_t axes_num, const mlx_stream s);

/* Sums of products of operands whose dimensions are named by letters, as in "ij,jk->ik". */
MLX_API int mlx_einsum(mlx_array *res, const char *subscripts, const mlx_vector_array operands, const mlx_stream s);

/* The sum of products over pairs of axes; of the last `axis` axes of a and the first of b. */
MLX_API int mlx_tensordot(mlx_array *res, const mlx_array a, const mlx_array b, const int *axes_a, size_t axes_a_num,
                          const int *axes_b, size_t axes_b_num, const mlx_stream s);
MLX_API int mlx_tensordot_axis(mlx_array *res, const mlx_array a, const mlx_array b, int axis, const mlx_stream s);

/* The whole array reps[i] times along axis i; fewer numbers than axes belong to the last ones. */
MLX_API int mlx_tile(mlx_array *res, const mlx_array arr, const int *reps, size_t reps_num, const mlx_stream s);

/* The sum of a diagonal, computed in `dtype`. */
MLX_API int mlx_trace(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2, mlx_dtype dtype,
                      const mlx_stream s);

/* Views and order of computation */

/* A view of the elements of a, taken in row-major order, with a shape and strides of its own, in
 * elements: element i is number offset + sum of i[d] * strides[d].  What lies outside of a is an
 * error. */
MLX_API int mlx_as_strided(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num,
                           const int64_t *strides, size_t strides_num, size_t offset, const mlx_stream s);

/* The inputs, which are not computed before the dependencies are. */
MLX_API int mlx_depends(mlx_vector_array *res, const mlx_vector_array inputs, const mlx_vector_array dependencies);

/* Convolutions */

/* Convolution in one, two or three dimensions.  The input is (N, spatial..., C), the weights
 * (O, spatial..., C / groups), the result (N, spatial..., O); element (n, o, f) is the sum over
 * taps k and channels c of
 *
 *     input[n, o * stride - padding + k * dilation, c] * weight[f, k, c]
 *
 * where the input is zero outside of its shape.  Of floating-point or complex dtype; half types are
 * summed in float32.  With groups the channels of input and result fall into as many equal parts,
 * and each part of the result sees its part of the input alone.  Functions of one spatial axis take up
 * to three, with the same stride, padding and dilation for each. */
MLX_API int mlx_conv1d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride, int padding,
                       int dilation, int groups, const mlx_stream s);
MLX_API int mlx_conv2d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0, int stride_1,
                       int padding_0, int padding_1, int dilation_0, int dilation_1, int groups, const mlx_stream s);
MLX_API int mlx_conv3d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0, int stride_1,
                       int stride_2, int padding_0, int padding_1, int padding_2, int dilation_0, int dilation_1,
                       int dilation_2, int groups, const mlx_stream s);

/* The same with padding before and after, which may be negative, the input spread out to every
 * input_dilation-th place, and with `flip` the taps in reverse.  A list holds a number for each
 * spatial dimension, one for all of them, or none for the default. */
MLX_API int mlx_conv_general(mlx_array *res, const mlx_array input, const mlx_array weight, const int *stride,
                             size_t stride_num, const int *padding_lo, size_t padding_lo_num, const int *padding_hi,
                             size_t padding_hi_num, const int *kernel_dilation, size_t kernel_dilation_num,
                             const int *input_dilation, size_t input_dilation_num, int groups, bool flip,
                             const mlx_stream s);

/* The adjoint of a convolution with these strides, paddings and dilations, with weights
 * (O, spatial..., C / groups) where C are the channels of this input: each element of the input is
 * added, times the weights, to where it lies after spreading by the stride.  output_padding makes
 * the result larger at its end. */
MLX_API int mlx_conv_transpose1d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride, int padding,
                                 int dilation, int output_padding, int groups, const mlx_stream s);
MLX_API int mlx_conv_transpose2d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0,
                                 int stride_1, int padding_0, int padding_1, int dilation_0, int dilation_1,
                                 int output_padding_0, int output_padding_1, int groups, const mlx_stream s);
MLX_API int mlx_conv_transpose3d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0,
                                 int stride_1, int stride_2, int padding_0, int padding_1, int padding_2,
                                 int dilation_0, int dilation_1, int dilation_2, int output_padding_0,
                                 int output_padding_1, int output_padding_2, int groups, const mlx_stream s);

/* Order.  Stable, NaN after every number; without an axis all elements, flattened. */

/* The elements in ascending order; complex numbers by real, then imaginary part. */
MLX_API int mlx_sort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
MLX_API int mlx_sort(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The indices that sort, as uint32. */
MLX_API int mlx_argsort_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);
MLX_API int mlx_argsort(mlx_array *res, const mlx_array a, const mlx_stream s);

/* The element that sorting puts in place kth, there, with none larger before it and none smaller
 * after it; a negative kth counts from the end. */
MLX_API int mlx_partition_axis(mlx_array *res, const mlx_array a, int kth, int axis, const mlx_stream s);
MLX_API int mlx_partition(mlx_array *res, const mlx_array a, int kth, const mlx_stream s);

/* The indices that do so, as uint32. */
MLX_API int mlx_argpartition_axis(mlx_array *res, const mlx_array a, int kth, int axis, const mlx_stream s);
MLX_API int mlx_argpartition(mlx_array *res, const mlx_array a, int kth, const mlx_stream s);

/* The k largest elements, in ascending order. */
MLX_API int mlx_topk_axis(mlx_array *res, const mlx_array a, int k, int axis, const mlx_stream s);
MLX_API int mlx_topk(mlx_array *res, const mlx_array a, int k, const mlx_stream s);

/* The element in the middle of the order over the axes, or the mean of the two there; NaN where
 * there is one. */
MLX_API int mlx_median(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                       const mlx_stream s);

/* Running folds along an axis: element i is that of a[0..i], with `reverse` of a[i..], and without
 * `inclusive` a[i] is left out. */

/* Running sums, in the dtype of a; of bool as int32. */
MLX_API int mlx_cumsum(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive, const mlx_stream s);

/* Running products, in the dtype of a. */
MLX_API int mlx_cumprod(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive, const mlx_stream s);

/* The largest so far, or NaN once there was one. */
MLX_API int mlx_cummax(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive, const mlx_stream s);

/* The smallest so far, or NaN once there was one. */
MLX_API int mlx_cummin(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive, const mlx_stream s);

/* log(sum(e^a)) of the elements so far, without overflow. */
MLX_API int mlx_logcumsumexp(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive,
                             const mlx_stream s);

/* Products of some matrices */

/* The products of pairs of matrices: lhs_indices and rhs_indices, integers that broadcast to the
 * shape of the result's batch, are flat numbers of matrices in the batches of a and b (all but the
 * last two dimensions); an empty handle takes all of them in order.  An index out of range is as
 * error.h says. */
MLX_API int mlx_gather_mm(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_array lhs_indices,
                          const mlx_array rhs_indices, bool sorted_indices, const mlx_stream s);

/* For each of the segments (..., 2), which hold begin and end, the product of those columns of a
 * (M, K) and rows of b (K, N): of shape (..., M, N). */
MLX_API int mlx_segmented_mm(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_array segments,
                             const mlx_stream s);

/* The matrix product of operands of which blocks of block_size rows and columns are multiplied with
 * the elements of a mask, which broadcasts to one for each block, or left out where that is false; likewise the
 * result.  Masks may be empty handles. */
MLX_API int mlx_block_masked_mm(mlx_array *res, const mlx_array a, const mlx_array b, int block_size,
                                const mlx_array mask_out, const mlx_array mask_lhs, const mlx_array mask_rhs,
                                const mlx_stream s);

/* The Walsh-Hadamard transform along the last dimension, of size m * 2^k with m one of 1, 12, 20,
 * 28, times scale, by default 1 / sqrt(size). */
MLX_API int mlx_hadamard_transform(mlx_array *res, const mlx_array a, mlx_optional_float scale, const mlx_stream s);

/* Packed weights
 *
 * Groups of group_size elements of a row share a scale, and codes of a few bits each are packed into
 * uint32, lowest bits first.  The modes, with default group size and bits first: "affine" (64, 32 or
 * 128; 4 or 1, 2, 3, 5, 6, 8), where an element is scale * code + bias; "mxfp4" (32; 4), "mxfp8"
 * (32; 8) and "nvfp4" (16; 4), whose codes are e2m1 or e4m3 and whose scales are one byte, and which
 * have no biases (an empty handle).  nvfp4 may have a global scale, a float32. */

/* w, of shape (..., rows, K), as packed codes (..., rows, K * bits / 32), scales (..., rows,
 * K / group_size), and in mode "affine" biases like the scales. */
MLX_API int mlx_quantize(mlx_vector_array *res, const mlx_array w, mlx_optional_int group_size, mlx_optional_int bits,
                         const char *mode, const mlx_array global_scale, const mlx_stream s);

/* The numbers that packed codes stand for, by default of the dtype of the scales, or bfloat16. */
MLX_API int mlx_dequantize(mlx_array *res, const mlx_array w, const mlx_array scales, const mlx_array biases,
                           mlx_optional_int group_size, mlx_optional_int bits, const char *mode,
                           const mlx_array global_scale, mlx_optional_dtype dtype, const mlx_stream s);

/* The matrix product of x and the packed matrix, or with `transpose` its transposed one. */
MLX_API int mlx_quantized_matmul(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array scales,
                                 const mlx_array biases, bool transpose, mlx_optional_int group_size,
                                 mlx_optional_int bits, const char *mode, const mlx_stream s);

/* mlx_quantized_matmul of the pairs of matrices that indices say, as in mlx_gather_mm. */
MLX_API int mlx_gather_qmm(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array scales,
                           const mlx_array biases, const mlx_array lhs_indices, const mlx_array rhs_indices,
                           bool transpose, mlx_optional_int group_size, mlx_optional_int bits, const char *mode,
                           bool sorted_indices, const mlx_stream s);

/* The product of x and the transposed w, both quantized; w may be packed already, which it is where
 * w_scales is no empty handle.  Not in mode "affine".  Derivatives are those of the numbers that
 * quantizing leaves. */
MLX_API int mlx_qqmm(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array w_scales,
                     mlx_optional_int group_size, mlx_optional_int bits, const char *mode,
                     const mlx_array global_scale_x, const mlx_array global_scale_w, const mlx_stream s);

/* The nearest number of 8 bits (e4m3), at most 448, as uint8. */
MLX_API int mlx_to_fp8(mlx_array *res, const mlx_array x, const mlx_stream s);

/* What numbers of 8 bits (e4m3, as uint8) stand for, in `dtype`. */
MLX_API int mlx_from_fp8(mlx_array *res, const mlx_array x, mlx_dtype dtype, const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
