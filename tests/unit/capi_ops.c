/* Every operation of ops.h once, with arguments that tell its parameters apart: what is tested is
 * the entry point, not the operation, so results are compared as text. */
#include <math.h>

#include "support/heard.h"

static mlx_stream s;
static mlx_array r; /* the result of the call under test */
static mlx_vector_array rs;
static mlx_array m;  /* [[1, 2, 3], [4, 5, 6]], int32 */
static mlx_array f;  /* the same as float32 */
static mlx_array h;  /* [0.5, -1.5, 2], float32 */
static mlx_array b;  /* [true, false, true] */
static mlx_array i3; /* [7, -7, 3], int32 */
static mlx_array z;  /* [3+4j], complex64 */
static const mlx_array none = { NULL };

/* As GIVES, for the element number i of a vector. */
#define ELEMENT(i, text)                     \
    do {                                     \
        OK(mlx_vector_array_get(&r, rs, i)); \
        expect_array(r, text);               \
    } while (0)

#define INTS(...) (const int[]){ __VA_ARGS__ }, sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)
#define F32 ", dtype=float32"
#define I32 ", dtype=int32"
#define BOOL ", dtype=bool"

static mlx_array float_array(int n, const float *v) { return mlx_array_new_data(v, &n, 1, MLX_FLOAT32); }

static int make(void **state)
{
    start_listening(state);
    const int v[] = { 1, 2, 3, 4, 5, 6 }, w[] = { 7, -7, 3 }, shape[] = { 2, 3 }, three = 3, one = 1;
    const float u[] = { 1, 2, 3, 4, 5, 6 }, x[] = { 0.5f, -1.5f, 2 }, c[] = { 3, 4 };
    const bool t[] = { true, false, true };
    s = mlx_default_cpu_stream_new();
    r = mlx_array_new();
    rs = mlx_vector_array_new();
    m = mlx_array_new_data(v, shape, 2, MLX_INT32);
    f = mlx_array_new_data(u, shape, 2, MLX_FLOAT32);
    h = float_array(3, x);
    b = mlx_array_new_data(t, &three, 1, MLX_BOOL);
    i3 = mlx_array_new_data(w, &three, 1, MLX_INT32);
    z = mlx_array_new_data(c, &one, 1, MLX_COMPLEX64);
    return 0;
}

static int unmake(void **state)
{
    mlx_array all[] = { r, m, f, h, b, i3, z };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) mlx_array_free(all[k]);
    mlx_vector_array_free(rs);
    mlx_stream_free(s);
    return all_gone(state);
}

static void arithmetic(void **state)
{
    (void)state;
    GIVES(mlx_abs(&r, i3, s), "[7, 7, 3]" I32);
    GIVES(mlx_abs(&r, z, s), "[5]" F32);
    GIVES(mlx_add(&r, m, i3, s), "[[8, -5, 6],\n       [11, -2, 9]]" I32);
    GIVES(mlx_divide(&r, m, i3, s), "[[0.142857, -0.285714, 1],\n       [0.571429, -0.714286, 2]]" F32);
    GIVES(mlx_floor_divide(&r, i3, m, s), "[[7, -4, 1],\n       [1, -2, 0]]" I32);
    GIVES(mlx_maximum(&r, h, i3, s), "[7, -1.5, 3]" F32);
    GIVES(mlx_minimum(&r, h, i3, s), "[0.5, -7, 2]" F32);
    GIVES(mlx_multiply(&r, h, i3, s), "[3.5, 10.5, 6]" F32);
    GIVES(mlx_negative(&r, i3, s), "[-7, 7, -3]" I32);
    GIVES(mlx_power(&r, i3, b, s), "[7, 1, 3]" I32);
    GIVES(mlx_reciprocal(&r, i3, s), "[0.142857, -0.142857, 0.333333]" F32);
    GIVES(mlx_remainder(&r, i3, m, s), "[[0, 1, 0],\n       [3, 3, 3]]" I32);
    GIVES(mlx_sign(&r, h, s), "[1, -1, 1]" F32);
    GIVES(mlx_square(&r, i3, s), "[49, 49, 9]" I32);
    GIVES(mlx_subtract(&r, h, i3, s), "[-6.5, 5.5, -1]" F32);
    OK(mlx_divmod(&rs, i3, m, s));
    ELEMENT(0, "[[7, -4, 1],\n       [1, -2, 0]]" I32);
    ELEMENT(1, "[[0, 1, 0],\n       [3, 3, 3]]" I32);
    GIVES(mlx_ceil(&r, h, s), "[1, -1, 2]" F32);
    GIVES(mlx_floor(&r, h, s), "[0, -2, 2]" F32);
    GIVES(mlx_trunc(&r, h, s), "[0, -1, 2]" F32);
    GIVES(mlx_rint(&r, h, s), "[0, -2, 2]" F32);
    GIVES(mlx_round(&r, h, 0, s), "[0, -2, 2]" F32);
    OK(mlx_divide(&r, h, i3, s));
    GIVES(mlx_round(&r, r, 2, s), "[0.07, 0.21, 0.67]" F32);
}

static void functions(void **state)
{
    (void)state;
    GIVES(mlx_exp(&r, h, s), "[1.64872, 0.22313, 7.38906]" F32);
    GIVES(mlx_expm1(&r, h, s), "[0.648721, -0.77687, 6.38906]" F32);
    GIVES(mlx_log(&r, h, s), "[-0.693147, nan, 0.693147]" F32);
    GIVES(mlx_log10(&r, h, s), "[-0.30103, nan, 0.30103]" F32);
    GIVES(mlx_log1p(&r, h, s), "[0.405465, nan, 1.09861]" F32);
    GIVES(mlx_log2(&r, h, s), "[-1, nan, 1]" F32);
    GIVES(mlx_logaddexp(&r, h, i3, s), "[7.0015, -1.49592, 3.31326]" F32);
    GIVES(mlx_sqrt(&r, h, s), "[0.707107, nan, 1.41421]" F32);
    GIVES(mlx_rsqrt(&r, h, s), "[1.41421, nan, 0.707107]" F32);
    GIVES(mlx_sigmoid(&r, h, s), "[0.622459, 0.182426, 0.880797]" F32);
    GIVES(mlx_arccos(&r, h, s), "[1.0472, nan, nan]" F32);
    GIVES(mlx_arccosh(&r, h, s), "[nan, nan, 1.31696]" F32);
    GIVES(mlx_arcsin(&r, h, s), "[0.523599, nan, nan]" F32);
    GIVES(mlx_arcsinh(&r, h, s), "[0.481212, -1.19476, 1.44364]" F32);
    GIVES(mlx_arctan(&r, h, s), "[0.463648, -0.982794, 1.10715]" F32);
    GIVES(mlx_arctan2(&r, h, i3, s), "[0.0713075, -2.9305, 0.588003]" F32);
    GIVES(mlx_arctanh(&r, h, s), "[0.549306, nan, nan]" F32);
    GIVES(mlx_cos(&r, h, s), "[0.877583, 0.0707372, -0.416147]" F32);
    GIVES(mlx_cosh(&r, h, s), "[1.12763, 2.35241, 3.7622]" F32);
    GIVES(mlx_degrees(&r, h, s), "[28.6479, -85.9437, 114.592]" F32);
    GIVES(mlx_radians(&r, h, s), "[0.00872665, -0.0261799, 0.0349066]" F32);
    GIVES(mlx_sin(&r, h, s), "[0.479426, -0.997495, 0.909297]" F32);
    GIVES(mlx_sinh(&r, h, s), "[0.521095, -2.12928, 3.62686]" F32);
    GIVES(mlx_tan(&r, h, s), "[0.546302, -14.1014, -2.18504]" F32);
    GIVES(mlx_tanh(&r, h, s), "[0.462117, -0.905148, 0.964028]" F32);
    GIVES(mlx_erf(&r, h, s), "[0.5205, -0.966105, 0.995322]" F32);
    GIVES(mlx_erfinv(&r, h, s), "[0.476936, nan, nan]" F32);
    GIVES(mlx_conjugate(&r, z, s), "[3-4j], dtype=complex64");
    GIVES(mlx_imag(&r, z, s), "[4]" F32);
    GIVES(mlx_real(&r, z, s), "[3]" F32);
}

static void comparisons(void **state)
{
    (void)state;
    GIVES(mlx_equal(&r, i3, m, s), "[[False, False, True],\n       [False, False, False]]" BOOL);
    GIVES(mlx_not_equal(&r, i3, h, s), "[True, True, True]" BOOL);
    GIVES(mlx_less(&r, h, i3, s), "[True, False, True]" BOOL);
    GIVES(mlx_less_equal(&r, h, h, s), "[True, True, True]" BOOL);
    GIVES(mlx_greater(&r, h, i3, s), "[False, True, False]" BOOL);
    GIVES(mlx_greater_equal(&r, h, i3, s), "[False, True, False]" BOOL);
    GIVES(mlx_bitwise_and(&r, i3, b, s), "[1, 0, 1]" I32);
    GIVES(mlx_bitwise_or(&r, i3, b, s), "[7, -7, 3]" I32);
    GIVES(mlx_bitwise_xor(&r, i3, b, s), "[6, -7, 2]" I32);
    GIVES(mlx_bitwise_invert(&r, i3, s), "[-8, 6, -4]" I32);
    GIVES(mlx_left_shift(&r, i3, b, s), "[14, -7, 6]" I32);
    GIVES(mlx_right_shift(&r, i3, b, s), "[3, -7, 1]" I32);
    GIVES(mlx_logical_and(&r, h, b, s), "[True, False, True]" BOOL);
    GIVES(mlx_logical_or(&r, h, b, s), "[True, True, True]" BOOL);
    GIVES(mlx_logical_xor(&r, h, b, s), "[False, True, False]" BOOL);
    GIVES(mlx_logical_not(&r, b, s), "[False, True, False]" BOOL);

    const float odd[] = { NAN, INFINITY, -INFINITY };
    mlx_array o = float_array(3, odd);
    GIVES(mlx_isnan(&r, o, s), "[True, False, False]" BOOL);
    GIVES(mlx_isinf(&r, o, s), "[False, True, True]" BOOL);
    GIVES(mlx_isposinf(&r, o, s), "[False, True, False]" BOOL);
    GIVES(mlx_isneginf(&r, o, s), "[False, False, True]" BOOL);
    GIVES(mlx_isfinite(&r, h, s), "[True, True, True]" BOOL);
    GIVES(mlx_isclose(&r, o, o, 1e-5, 1e-8, true, s), "[True, True, True]" BOOL);
    GIVES(mlx_isclose(&r, o, o, 1e-5, 1e-8, false, s), "[False, True, True]" BOOL);
    GIVES(mlx_isclose(&r, h, i3, 1, 0, false, s), "[True, True, True]" BOOL);
    GIVES(mlx_isclose(&r, h, i3, 0, 1, false, s), "[False, False, True]" BOOL);
    GIVES(mlx_allclose(&r, o, o, 1e-5, 1e-8, true, s), "True" BOOL);
    GIVES(mlx_allclose(&r, h, i3, 0, 1, false, s), "False" BOOL);
    GIVES(mlx_array_equal(&r, o, o, true, s), "True" BOOL);
    GIVES(mlx_array_equal(&r, o, o, false, s), "False" BOOL);
    const mlx_optional_float no = { 0 }, nine = { 9, true }, eight = { 8, true };
    GIVES(mlx_nan_to_num(&r, o, 5, no, no, s), "[5, 3.40282e+38, -3.40282e+38]" F32);
    GIVES(mlx_nan_to_num(&r, o, 5, nine, no, s), "[5, 9, -3.40282e+38]" F32);
    GIVES(mlx_nan_to_num(&r, o, 5, nine, eight, s), "[5, 9, 8]" F32);
    mlx_array_free(o);
}

static void choosing(void **state)
{
    (void)state;
    mlx_array low = mlx_array_new_float(-1), high = mlx_array_new_float(1);
    GIVES(mlx_clip(&r, h, low, high, s), "[0.5, -1, 1]" F32);
    GIVES(mlx_clip(&r, h, low, none, s), "[0.5, -1, 2]" F32);
    GIVES(mlx_clip(&r, h, none, high, s), "[0.5, -1.5, 1]" F32);
    GIVES(mlx_where(&r, b, h, low, s), "[0.5, -1, 2]" F32);
    GIVES(mlx_astype(&r, h, MLX_INT8, s), "[0, -1, 2], dtype=int8");
    GIVES(mlx_view(&r, h, MLX_UINT32, s), "[1056964608, 3217031168, 1073741824], dtype=uint32");
    GIVES(mlx_copy(&r, h, s), "[0.5, -1.5, 2]" F32);
    GIVES(mlx_stop_gradient(&r, h, s), "[0.5, -1.5, 2]" F32);
    GIVES(mlx_transpose(&r, m, s), "[[1, 4],\n       [2, 5],\n       [3, 6]]" I32);
    bool yes;
    mlx_array c = mlx_array_new();
    OK(mlx_contiguous(&c, r, true, s));
    OK(_mlx_array_is_row_contiguous(&yes, c));
    assert_false(yes);
    OK(mlx_contiguous(&c, r, false, s));
    OK(_mlx_array_is_row_contiguous(&yes, c));
    assert_true(yes);
    mlx_array_free(c);
    mlx_array_free(low);
    mlx_array_free(high);
}

static void making(void **state)
{
    (void)state;
    mlx_array five = mlx_array_new_int(5);
    GIVES(mlx_arange(&r, 1, 6, 2, MLX_INT32, s), "[1, 3, 5]" I32);
    GIVES(mlx_linspace(&r, 1, 2, 3, MLX_FLOAT32, s), "[1, 1.5, 2]" F32);
    GIVES(mlx_eye(&r, 2, 3, 1, MLX_INT32, s), "[[0, 1, 0],\n       [0, 0, 1]]" I32);
    GIVES(mlx_identity(&r, 2, MLX_FLOAT32, s), "[[1, 0],\n       [0, 1]]" F32);
    GIVES(mlx_full(&r, INTS(2, 1), five, MLX_FLOAT32, s), "[[5],\n       [5]]" F32);
    GIVES(mlx_full_like(&r, h, five, MLX_INT32, s), "[5, 5, 5]" I32);
    GIVES(mlx_ones(&r, INTS(1, 2), MLX_BOOL, s), "[[True, True]]" BOOL);
    GIVES(mlx_ones_like(&r, h, s), "[1, 1, 1]" F32);
    GIVES(mlx_zeros(&r, INTS(3), MLX_INT32, s), "[0, 0, 0]" I32);
    GIVES(mlx_zeros(&r, NULL, 0, MLX_INT32, s), "0" I32);
    GIVES(mlx_zeros_like(&r, i3, s), "[0, 0, 0]" I32);
    GIVES(mlx_tri(&r, 2, 3, 1, MLX_INT32, s), "[[1, 1, 0],\n       [1, 1, 1]]" I32);
    GIVES(mlx_tril(&r, m, -1, s), "[[0, 0, 0],\n       [4, 0, 0]]" I32);
    GIVES(mlx_triu(&r, m, 1, s), "[[0, 2, 3],\n       [0, 0, 6]]" I32);
    mlx_array_free(five);
}

static void shapes(void **state)
{
    (void)state;
    GIVES(mlx_reshape(&r, m, INTS(3, -1), s), "[[1, 2],\n       [3, 4],\n       [5, 6]]" I32);
    GIVES(mlx_flatten(&r, m, 0, -1, s), "[1, 2, 3, 4, 5, 6]" I32);
    GIVES(mlx_unflatten(&r, i3, 0, INTS(3, 1), s), "[[7],\n       [-7],\n       [3]]" I32);
    GIVES(mlx_swapaxes(&r, m, 0, 1, s), "[[1, 4],\n       [2, 5],\n       [3, 6]]" I32);
    GIVES(mlx_moveaxis(&r, m, 0, -1, s), "[[1, 4],\n       [2, 5],\n       [3, 6]]" I32);
    GIVES(mlx_transpose_axes(&r, m, INTS(1, 0), s), "[[1, 4],\n       [2, 5],\n       [3, 6]]" I32);
    GIVES(mlx_expand_dims(&r, i3, 1, s), "[[7],\n       [-7],\n       [3]]" I32);
    GIVES(mlx_squeeze_axis(&r, r, 1, s), "[7, -7, 3]" I32);
    GIVES(mlx_expand_dims_axes(&r, i3, INTS(0, 2), s), "[[[7],\n        [-7],\n        [3]]]" I32);
    mlx_array c = mlx_array_new();
    OK(mlx_array_set(&c, r));
    GIVES(mlx_squeeze_axes(&r, c, INTS(0), s), "[[7],\n       [-7],\n       [3]]" I32);
    GIVES(mlx_squeeze_axes(&r, c, INTS(0, 2), s), "[7, -7, 3]" I32);
    GIVES(mlx_squeeze(&r, c, s), "[7, -7, 3]" I32);
    OK(mlx_array_set_int(&c, 2));
    GIVES(mlx_atleast_1d(&r, c, s), "[2]" I32);
    GIVES(mlx_atleast_2d(&r, c, s), "[[2]]" I32);
    GIVES(mlx_atleast_3d(&r, c, s), "[[[2]]]" I32);
    GIVES(mlx_atleast_1d(&r, m, s), "[[1, 2, 3],\n       [4, 5, 6]]" I32);
    GIVES(mlx_atleast_2d(&r, i3, s), "[[7, -7, 3]]" I32);
    GIVES(mlx_atleast_3d(&r, i3, s), "[[[7],\n        [-7],\n        [3]]]" I32);
    OK(mlx_atleast_3d(&r, m, s));
    assert_int_equal(mlx_array_dim(r, 1), 3);
    GIVES(mlx_broadcast_to(&r, i3, INTS(2, 3), s), "[[7, -7, 3],\n       [7, -7, 3]]" I32);
    mlx_vector_array in = mlx_vector_array_new_value(m);
    OK(mlx_vector_array_append_value(in, i3));
    OK(mlx_broadcast_arrays(&rs, in, s));
    ELEMENT(0, "[[1, 2, 3],\n       [4, 5, 6]]" I32);
    ELEMENT(1, "[[7, -7, 3],\n       [7, -7, 3]]" I32);
    GIVES(mlx_number_of_elements(&r, m, INTS(1), false, MLX_INT32, s), "3" I32);
    GIVES(mlx_number_of_elements(&r, m, INTS(0, 1), true, MLX_FLOAT32, s), "0.166667" F32);
    mlx_vector_array_free(in);
    mlx_array_free(c);
}

static void joining(void **state)
{
    (void)state;
    mlx_vector_array in = mlx_vector_array_new_value(m);
    OK(mlx_vector_array_append_value(in, m));
    GIVES(mlx_concatenate_axis(&r, in, 1, s), "[[1, 2, 3, 1, 2, 3],\n       [4, 5, 6, 4, 5, 6]]" I32);
    OK(mlx_vector_array_set_value(&in, m));
    OK(mlx_vector_array_append_value(in, h));
    OK(mlx_concatenate(&r, in, s));
    assert_int_equal(mlx_array_size(r), 9);
    OK(mlx_vector_array_set_value(&in, i3));
    OK(mlx_vector_array_append_value(in, i3));
    GIVES(mlx_stack_axis(&r, in, 1, s), "[[7, 7],\n       [-7, -7],\n       [3, 3]]" I32);
    GIVES(mlx_stack(&r, in, s), "[[7, -7, 3],\n       [7, -7, 3]]" I32);
    mlx_vector_array_free(in);

    OK(mlx_split(&rs, m, 3, 1, s));
    assert_int_equal(mlx_vector_array_size(rs), 3);
    ELEMENT(1, "[[2],\n       [5]]" I32);
    OK(mlx_split_sections(&rs, i3, INTS(1, 1), 0, s));
    assert_int_equal(mlx_vector_array_size(rs), 3);
    ELEMENT(0, "[7]" I32);
    ELEMENT(1, "[]" I32);
    ELEMENT(2, "[-7, 3]" I32);

    mlx_array nine = mlx_array_new_int(9);
    GIVES(mlx_pad(&r, i3, INTS(0), INTS(2), INTS(1), nine, "constant", s), "[9, 9, 7, -7, 3, 9]" I32);
    GIVES(mlx_pad(&r, i3, INTS(0), INTS(2), INTS(1), none, "constant", s), "[0, 0, 7, -7, 3, 0]" I32);
    GIVES(mlx_pad(&r, i3, INTS(0), INTS(1), INTS(2), none, "edge", s), "[7, 7, -7, 3, 3, 3]" I32);
    OK(mlx_pad_symmetric(&r, m, 1, nine, "constant", s));
    assert_int_equal(mlx_array_dim(r, 0), 4);
    assert_int_equal(mlx_array_dim(r, 1), 5);
    GIVES(mlx_pad_symmetric(&r, i3, 1, nine, "constant", s), "[9, 7, -7, 3, 9]" I32);
    mlx_array_free(nine);
}

static void slices(void **state)
{
    (void)state;
    const int one = 1, ten[] = { 10, 20 };
    mlx_array at = mlx_array_new_data(&one, &one, 1, MLX_INT32), up = ints(2, ten);
    GIVES(mlx_slice(&r, m, INTS(0, 2), INTS(2, 0), INTS(1, -1), s), "[[3, 2],\n       [6, 5]]" I32);
    GIVES(mlx_slice_dynamic(&r, m, at, INTS(1), INTS(2, 2), s), "[[2, 3],\n       [5, 6]]" I32);
    GIVES(mlx_slice_update(&r, i3, up, INTS(0), INTS(3), INTS(2), s), "[10, -7, 20]" I32);
    GIVES(mlx_slice_update_add(&r, i3, up, INTS(1), INTS(3), INTS(1), s), "[7, 3, 23]" I32);
    GIVES(mlx_slice_update_prod(&r, i3, up, INTS(1), INTS(3), INTS(1), s), "[7, -70, 60]" I32);
    GIVES(mlx_slice_update_max(&r, i3, up, INTS(0), INTS(2), INTS(1), s), "[10, 20, 3]" I32);
    GIVES(mlx_slice_update_min(&r, i3, up, INTS(0), INTS(2), INTS(1), s), "[7, -7, 3]" I32);
    GIVES(mlx_slice_update_dynamic(&r, i3, up, at, INTS(0), s), "[7, 10, 20]" I32);
    mlx_array_free(at);
    mlx_array_free(up);
}

static void reductions(void **state)
{
    (void)state;
    GIVES(mlx_all(&r, b, false, s), "False" BOOL);
    GIVES(mlx_all_axis(&r, m, 0, false, s), "[True, True, True]" BOOL);
    GIVES(mlx_all_axes(&r, m, INTS(0, 1), true, s), "[[True]]" BOOL);
    GIVES(mlx_any(&r, b, true, s), "[True]" BOOL);
    GIVES(mlx_any_axis(&r, b, 0, false, s), "True" BOOL);
    GIVES(mlx_any_axes(&r, b, NULL, 0, false, s), "[True, False, True]" BOOL);
    GIVES(mlx_sum(&r, m, false, s), "21" I32);
    GIVES(mlx_sum_axis(&r, m, 0, false, s), "[5, 7, 9]" I32);
    GIVES(mlx_sum_axes(&r, m, INTS(1), true, s), "[[6],\n       [15]]" I32);
    GIVES(mlx_prod(&r, m, true, s), "[[720]]" I32);
    GIVES(mlx_prod_axis(&r, m, -1, false, s), "[6, 120]" I32);
    GIVES(mlx_prod_axes(&r, m, INTS(0), false, s), "[4, 10, 18]" I32);
    GIVES(mlx_max(&r, m, false, s), "6" I32);
    GIVES(mlx_max_axis(&r, m, 0, false, s), "[4, 5, 6]" I32);
    GIVES(mlx_max_axes(&r, m, INTS(1), false, s), "[3, 6]" I32);
    GIVES(mlx_min(&r, m, false, s), "1" I32);
    GIVES(mlx_min_axis(&r, m, 0, false, s), "[1, 2, 3]" I32);
    GIVES(mlx_min_axes(&r, m, INTS(1), false, s), "[1, 4]" I32);
    GIVES(mlx_mean(&r, m, false, s), "3.5" F32);
    GIVES(mlx_mean_axis(&r, m, 0, true, s), "[[2.5, 3.5, 4.5]]" F32);
    GIVES(mlx_mean_axes(&r, m, INTS(1), false, s), "[2, 5]" F32);
    GIVES(mlx_var(&r, m, false, 0, s), "2.91667" F32);
    GIVES(mlx_var_axis(&r, m, 1, false, 1, s), "[1, 1]" F32);
    GIVES(mlx_var_axes(&r, m, INTS(1), true, 0, s), "[[0.666667],\n       [0.666667]]" F32);
    GIVES(mlx_std(&r, m, true, 1, s), "[[1.87083]]" F32);
    GIVES(mlx_std_axis(&r, m, 0, false, 0, s), "[1.5, 1.5, 1.5]" F32);
    GIVES(mlx_std_axes(&r, m, INTS(0), false, 1, s), "[2.12132, 2.12132, 2.12132]" F32);
    GIVES(mlx_logsumexp(&r, f, false, s), "6.45619" F32);
    GIVES(mlx_logsumexp_axis(&r, f, 1, false, s), "[3.40761, 6.40761]" F32);
    GIVES(mlx_logsumexp_axes(&r, f, INTS(1), true, s), "[[3.40761],\n       [6.40761]]" F32);
    GIVES(mlx_softmax(&r, h, true, s), "[0.17803, 0.0240938, 0.797876]" F32);
    GIVES(mlx_softmax_axis(&r, f, 0, false, s),
          "[[0.0474259, 0.0474259, 0.0474259],\n       [0.952574, 0.952574, 0.952574]]" F32);
    GIVES(mlx_softmax_axes(&r, h, INTS(0), false, s), "[0.17803, 0.0240938, 0.797876]" F32);
    GIVES(mlx_argmax(&r, m, false, s), "5, dtype=uint32");
    GIVES(mlx_argmax_axis(&r, m, 0, true, s), "[[1, 1, 1]], dtype=uint32");
    GIVES(mlx_argmin(&r, i3, true, s), "[1], dtype=uint32");
    GIVES(mlx_argmin_axis(&r, m, 1, false, s), "[0, 0], dtype=uint32");
}

static void products(void **state)
{
    (void)state;
    mlx_array t = mlx_array_new();
    OK(mlx_transpose(&t, f, s));
    GIVES(mlx_matmul(&r, f, t, s), "[[14, 32],\n       [32, 77]]" F32);
    GIVES(mlx_matmul(&r, f, h, s), "[3.5, 6.5]" F32);
    GIVES(mlx_addmm(&r, h, t, f, 2, 10, s), "[[39, 29, 74],\n       [49, 43, 92],\n       [59, 57, 110]]" F32);
    mlx_array_free(t);
}

static void by_index(void **state)
{
    (void)state;
    const int idx[] = { 2, -1, 0 }, pairs[] = { 2, 0 }, one = 1, two[] = { 2, 1 };
    mlx_array k = ints(3, idx), rows = mlx_array_new_data(pairs, two, 2, MLX_INT32);
    mlx_array first = mlx_array_new_data(&one, &one, 1, MLX_INT32);
    GIVES(mlx_take(&r, m, k, s), "[3, 6, 1]" I32);
    GIVES(mlx_take_axis(&r, m, k, 1, s), "[[3, 3, 1],\n       [6, 6, 4]]" I32);
    GIVES(mlx_take_along_axis(&r, m, rows, 1, s), "[[3],\n       [4]]" I32);
    mlx_array v = mlx_array_new_data((const int[]){ 50, 60 }, two, 2, MLX_INT32);
    mlx_array odd = mlx_array_new(), step = mlx_array_new_int(2);
    OK(mlx_remainder(&odd, m, step, s));
    GIVES(mlx_masked_scatter(&r, m, odd, m, s), "[[1, 2, 2],\n       [4, 3, 6]]" I32);
    FAILS(mlx_masked_scatter(&r, m, v, m, s), "[masked_scatter] expected a mask");
    OK(mlx_masked_scatter(&odd, m, odd, k, s)); /* three places, three elements */
    OK(mlx_masked_scatter(&odd, m, m, k, s));   /* six places */
    bool was;
    OK(mlx_set_index_errors(&was, true));
    assert_false(was);
    FAILS(mlx_array_eval(odd), "index 3 at position (3,) is out of range");
    OK(mlx_set_index_errors(&was, false));
    assert_true(was);
    FAILS(mlx_set_index_errors(NULL, true), "place for the result");
    OK(mlx_array_eval(odd));
    mlx_array_free(odd);
    mlx_array_free(step);
    GIVES(mlx_put_along_axis(&r, m, rows, v, 1, s), "[[1, 2, 50],\n       [60, 5, 6]]" I32);
    GIVES(mlx_scatter_add_axis(&r, m, rows, v, 1, s), "[[1, 2, 53],\n       [64, 5, 6]]" I32);
    GIVES(mlx_gather_single(&r, m, first, 0, INTS(1, 3), s), "[[[4, 5, 6]]]" I32);
    mlx_vector_array in = mlx_vector_array_new_value(first);
    GIVES(mlx_gather(&r, m, in, INTS(0), INTS(1, 2), s), "[[[4, 5]]]" I32);
    OK(mlx_vector_array_append_value(in, k));
    GIVES(mlx_gather(&r, m, in, INTS(0, 1), INTS(1, 1), s), "[[[6]],\n       [[6]],\n       [[4]]]" I32);

    const int shape[] = { 1, 1, 3 };
    mlx_array u = mlx_array_new_data((const int[]){ 10, 1, -5 }, shape, 3, MLX_INT32);
    GIVES(mlx_scatter_single(&r, m, first, u, 0, s), "[[1, 2, 3],\n       [10, 1, -5]]" I32);
    GIVES(mlx_scatter_add_single(&r, m, first, u, 0, s), "[[1, 2, 3],\n       [14, 6, 1]]" I32);
    GIVES(mlx_scatter_prod_single(&r, m, first, u, 0, s), "[[1, 2, 3],\n       [40, 5, -30]]" I32);
    GIVES(mlx_scatter_max_single(&r, m, first, u, 0, s), "[[1, 2, 3],\n       [10, 5, 6]]" I32);
    GIVES(mlx_scatter_min_single(&r, m, first, u, 0, s), "[[1, 2, 3],\n       [4, 1, -5]]" I32);
    OK(mlx_vector_array_set_value(&in, first));
    GIVES(mlx_scatter(&r, m, in, u, INTS(0), s), "[[1, 2, 3],\n       [10, 1, -5]]" I32);
    GIVES(mlx_scatter_add(&r, m, in, u, INTS(0), s), "[[1, 2, 3],\n       [14, 6, 1]]" I32);
    GIVES(mlx_scatter_prod(&r, m, in, u, INTS(0), s), "[[1, 2, 3],\n       [40, 5, -30]]" I32);
    GIVES(mlx_scatter_max(&r, m, in, u, INTS(0), s), "[[1, 2, 3],\n       [10, 5, 6]]" I32);
    GIVES(mlx_scatter_min(&r, m, in, u, INTS(0), s), "[[1, 2, 3],\n       [4, 1, -5]]" I32);
    FAILS(mlx_scatter(&r, m, in, u, INTS(0, 1), s), "each of the 2 axes, got 1");
    FAILS(mlx_gather(&r, m, in, INTS(0), INTS(1), s), "each of the 2 dimensions, got 1");
    mlx_array_free(k);
    mlx_array_free(rows);
    mlx_array_free(first);
    mlx_array_free(v);
    mlx_array_free(u);
    mlx_vector_array_free(in);
}

/* What is refused: an empty handle by its name, a wrong list, an unknown dtype or mode. */
static void bad_arguments(void **state)
{
    (void)state;
    OK(mlx_array_set_int(&r, 77));
    OK(mlx_vector_array_set_value(&rs, r));
    int many[65] = { 0 };
    FAILS(mlx_add(&r, none, m, s), "[add] expected an array for `a`, got an empty handle");
    FAILS(mlx_add(&r, m, none, s), "`b`");
    FAILS(mlx_add(NULL, m, m, s), "[add] expected a place for the result");
    FAILS(mlx_where(&r, m, m, none, s), "`y`");
    FAILS(mlx_astype(&r, m, (mlx_dtype)20, s), "[astype] expected a dtype, got 20");
    FAILS(mlx_zeros(&r, INTS(2), (mlx_dtype)-3, s), "[zeros] expected a dtype");
    FAILS(mlx_full(&r, NULL, 2, m, MLX_INT32, s), "`shape`, got NULL");
    FAILS(mlx_full(&r, INTS(2), none, MLX_INT32, s), "`vals`");
    FAILS(mlx_full_like(&r, none, m, MLX_INT32, s), "`a`");
    FAILS(mlx_reshape(&r, m, many, 65, s), "at most 64 numbers in `shape`, got 65");
    FAILS(mlx_reshape(&r, m, INTS(4, 2), s), "reshape");
    FAILS(mlx_sum_axes(&r, m, NULL, 1, false, s), "`axes`, got NULL");
    FAILS(mlx_sum_axis(&r, m, 2, false, s), "[sum_axis]");
    FAILS(mlx_slice(&r, m, INTS(0), INTS(2, 2), INTS(1, 1), s), "`start` for each of the 2");
    FAILS(mlx_slice(&r, none, INTS(0), INTS(2), INTS(1), s), "`a`");
    FAILS(mlx_split(&rs, m, 2, 1, s), "split");
    FAILS(mlx_split(&rs, m, -1, 1, s), "split");
    FAILS(mlx_split_sections(&rs, m, NULL, 2, 1, s), "`indices`");
    FAILS(mlx_divmod(&rs, none, m, s), "`a`");
    FAILS(mlx_pad(&r, m, INTS(0), INTS(1, 2), INTS(1), none, "constant", s), "got 2 before and 1 after");
    FAILS(mlx_pad(&r, m, INTS(0), INTS(1), INTS(1), none, "sideways", s), "got \"sideways\"");
    FAILS(mlx_pad(&r, m, INTS(0), INTS(1), INTS(1), none, NULL, s), "`mode`");
    FAILS(mlx_concatenate(&r, (mlx_vector_array){ NULL }, s), "`arrays`");
    mlx_vector_array no_arrays = mlx_vector_array_new();
    FAILS(mlx_stack(&r, no_arrays, s), "stack");
    mlx_vector_array_free(no_arrays);
    FAILS(mlx_broadcast_arrays(&rs, (mlx_vector_array){ NULL }, s), "`inputs`");
    expect_array(r, "77" I32);
    ELEMENT(0, "77" I32);
    assert_int_equal(mlx_vector_array_size(rs), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic), cmocka_unit_test(functions), cmocka_unit_test(comparisons),
        cmocka_unit_test(choosing),   cmocka_unit_test(making),    cmocka_unit_test(shapes),
        cmocka_unit_test(joining),    cmocka_unit_test(slices),    cmocka_unit_test(reductions),
        cmocka_unit_test(products),   cmocka_unit_test(by_index),  cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests_name("C API: operations", tests, make, unmake);
}
