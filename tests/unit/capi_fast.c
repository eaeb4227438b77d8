/* The entry points of fast.h and fft.h: values of small arrays, and arguments refused. */
#include "core/buffer.h"
#include "mlx/c/binding.h"
#include "support/effort.h"
#include "support/heard.h"

static mlx_stream s;
static mlx_array a, r;
static const mlx_array none = { NULL };

#define F32 ", dtype=float32"
#define C64 ", dtype=complex64"

static mlx_array shaped(const float *v, int n, const int *shape)
{
    return mlx_array_new_data(v, shape, n, MLX_FLOAT32);
}

static void norms(void **state)
{
    (void)state;
    const float v[] = { 2, 4 };
    const int two = 2;
    mlx_array w = shaped(v, 1, &two);
    GIVES(mlx_fast_rms_norm(&r, a, none, 0, s), "[[0.848528, 1.13137],\n       [-1, 1]]" F32);
    GIVES(mlx_fast_rms_norm(&r, a, w, 0, s), "[[1.69706, 4.52548],\n       [-2, 4]]" F32);
    GIVES(mlx_fast_layer_norm(&r, a, none, none, 0, s), "[[-1, 1],\n       [-1, 1]]" F32);
    GIVES(mlx_fast_layer_norm(&r, a, w, w, 0, s), "[[0, 8],\n       [0, 8]]" F32);
    FAILS(mlx_fast_rms_norm(&r, none, w, 0, s), "`x`");
    FAILS(mlx_fast_layer_norm(&r, a, a, none, 0, s), "[layer_norm] expected a weight of shape (2)");
    FAILS(mlx_fast_rms_norm(NULL, a, none, 0, s), "place for the result");
    mlx_array_free(w);
}

static void rotations(void **state)
{
    (void)state;
    const float v[] = { 1, 0, 1, 0 }, one[] = { 1 };
    mlx_array x = shaped(v, 3, (const int[]){ 1, 2, 2 }), freqs = shaped(one, 1, (const int[]){ 1 });
    mlx_array offset = mlx_array_new_int(1), half = mlx_array_new_float(0.5F);
    mlx_optional_float base = { 10, true }, left_out = { 0, false };
    GIVES(mlx_fast_rope(&r, x, 2, false, base, 1, 0, none, s), "[[[1, 0],\n        [0.540302, 0.841471]]]" F32);
    GIVES(mlx_fast_rope(&r, x, 2, true, left_out, 1, 0, freqs, s), "[[[1, 0],\n        [0.540302, 0.841471]]]" F32);
    GIVES(mlx_fast_rope_dynamic(&r, x, 2, true, base, 0, offset, none, s), "[[[1, 0],\n        [1, 0]]]" F32);
    FAILS(mlx_fast_rope(&r, x, 2, false, left_out, 1, 0, none, s), "either base or freqs, got neither");
    FAILS(mlx_fast_rope(&r, x, 2, false, base, 1, 0, freqs, s), "either base or freqs, got both");
    FAILS(mlx_fast_rope(&r, a, 2, false, base, 1, 0, none, s), "at least 3 dimensions");
    FAILS(mlx_fast_rope_dynamic(&r, x, 2, false, base, 1, none, none, s), "`offset`");
    FAILS(mlx_fast_rope_dynamic(&r, x, 2, false, base, 1, half, none, s), "integer offset");
    mlx_array_free(x);
    mlx_array_free(freqs);
    mlx_array_free(offset);
    mlx_array_free(half);
}

static void attention(void **state)
{
    (void)state;
    const float v[] = { 1, 2, 3, 4 }, first[] = { 0, -1e9F };
    const int shape[] = { 1, 1, 2, 2 };
    mlx_array wrong = shaped((const float[3]){ 0 }, 1, (const int[]){ 3 });
    mlx_array zero = shaped((const float[4]){ 0 }, 4, shape), x = shaped(v, 4, shape);
    mlx_array mask = shaped(first, 1, (const int[]){ 2 }),
              sink = shaped((const float[]){ 1e9F }, 1, (const int[]){ 1 });
#define ATTEND(...) mlx_fast_scaled_dot_product_attention(&r, zero, zero, x, 1, __VA_ARGS__, s)
    GIVES(ATTEND("", none, none), "[[[[2, 3],\n         [2, 3]]]]" F32);
    GIVES(ATTEND(NULL, none, none), "[[[[2, 3],\n         [2, 3]]]]" F32);
    GIVES(ATTEND("causal", none, none), "[[[[1, 2],\n         [2, 3]]]]" F32);
    GIVES(ATTEND("array", mask, none), "[[[[1, 2],\n         [1, 2]]]]" F32);
    GIVES(ATTEND("", none, sink), "[[[[0, 0],\n         [0, 0]]]]" F32);
    FAILS(ATTEND("diagonal", none, none), "got \"diagonal\"");
    FAILS(ATTEND("", wrong, none), "mask that broadcasts");
    FAILS(ATTEND("", none, x), "one sink for each");
    FAILS(mlx_fast_scaled_dot_product_attention(&r, a, zero, x, 1, "", none, none, s), "of 4 dimensions");
    FAILS(mlx_fast_scaled_dot_product_attention(&r, none, zero, x, 1, "", none, none, s), "`queries`");
    mlx_array_free(zero);
    mlx_array_free(x);
    mlx_array_free(mask);
    mlx_array_free(sink);
    mlx_array_free(wrong);
}

static void along_one_axis(void **state)
{
    (void)state;
    GIVES(mlx_fft_fft(&r, a, 2, -1, MLX_FFT_NORM_BACKWARD, s), "[[7+0j, -1+0j],\n       [0+0j, -2+0j]]" C64);
    GIVES(mlx_fft_ifft(&r, a, 2, 0, MLX_FFT_NORM_BACKWARD, s), "[[1+0j, 2.5+0j],\n       [2+0j, 1.5+0j]]" C64);
    GIVES(mlx_fft_fft(&r, a, 1, -1, MLX_FFT_NORM_FORWARD, s), "[[3+0j],\n       [-1+0j]]" C64);
    GIVES(mlx_fft_rfft(&r, a, 3, 1, MLX_FFT_NORM_BACKWARD, s),
          "[[7+0j, 1-3.4641j],\n       [0+0j, -1.5-0.866025j]]" C64);
    GIVES(mlx_fft_irfft(&r, a, 2, 1, MLX_FFT_NORM_BACKWARD, s), "[[3.5, -0.5],\n       [0, -1]]" F32);
    FAILS(mlx_fft_fft(&r, a, 0, -1, MLX_FFT_NORM_BACKWARD, s), "size of at least 1");
    FAILS(mlx_fft_fft(&r, a, 2, 2, MLX_FFT_NORM_BACKWARD, s), "[fft]");
    FAILS(mlx_fft_fft(&r, a, 2, 1, (mlx_fft_norm)3, s), "expected a norm, got 3");
    FAILS(mlx_fft_rfft(&r, none, 2, 1, MLX_FFT_NORM_ORTHO, s), "`a`");
}

/* Numbers that stand for none of what they choose from. */
static void choices(void **state)
{
    (void)state;
    mlx_array line = mlx_array_new_data((const float[]){ 1, 2, 3, 4 }, (const int[]){ 4 }, 1, MLX_FLOAT32);
    for (int mode = -1; mode <= 3; mode += 4) {
        FAILS(mlx_convolve(&r, line, line, (mlx_convolve_mode)mode, s), "[convolve] expected a mode, got ");
        FAILS(mlx_fft_stft(&r, line, 2, 1, 2, none, true, mode, MLX_FFT_NORM_BACKWARD, -1, s),
              "[stft] expected a pad_mode of 0, 1 or 2, got ");
    }
    for (int mode = 0; mode <= 2; mode++) {
        OK(mlx_convolve(&r, line, line, (mlx_convolve_mode)mode, s));
        OK(mlx_fft_stft(&r, line, 2, 1, 2, none, true, mode, MLX_FFT_NORM_BACKWARD, -1, s));
    }
    for (int bad = -1; bad <= 99; bad += 100) {
        assert_int_equal(mlx_dtype_promote((mlx_dtype)bad, MLX_INT8), 0);
        expect_heard(1, "[dtype_promote] expected a dtype, got ");
        assert_int_equal(mlx_dtype_promote_scalar((mlx_dtype)bad, 'f'), 0);
        expect_heard(1, "[dtype_promote_scalar] expected a dtype, got ");
    }
    for (int kind = 0; kind <= 7; kind += 7) {
        assert_int_equal(mlx_dtype_promote_scalar(MLX_INT8, (char)kind), 0);
        expect_heard(1, "expected 'b', 'i', 'f' or 'c' for `kind`");
    }
    assert_int_equal(mlx_dtype_promote_scalar(MLX_INT8, 'b'), MLX_INT8);
    assert_int_equal(mlx_dtype_promote_scalar(MLX_INT8, 'f'), MLX_FLOAT32);
    expect_heard(0, "");
    mlx_array_free(line);
}

static void along_several(void **state)
{
    (void)state;
    const int axes[] = { 0, 1 }, n[] = { 2, 2 };
    const char *const both = "array([[27, 22],\n       [2, -2]], dtype=float32)";
    typedef int transform(mlx_array *, const mlx_array, const int *, size_t, const int *, size_t, mlx_fft_norm,
                          const mlx_stream);
    transform *const forward[] = { mlx_fft_fft2, mlx_fft_fftn, mlx_fft_rfft2, mlx_fft_rfftn };
    transform *const back[] = { mlx_fft_ifft2, mlx_fft_ifftn, mlx_fft_irfft2, mlx_fft_irfftn };
    for (int i = 0; i < 4; i++)
        for (int given = 0; given < 4; given++) {
            size_t sizes = given & 1 ? 2 : 0, places = given & 2 ? 2 : 0;
            OK(forward[i](&r, a, sizes ? n : NULL, sizes, places ? axes : NULL, places, MLX_FFT_NORM_ORTHO, s));
            OK(mlx_multiply(&r, r, r, s));
            OK(back[i](&r, r, n, 2, places ? axes : NULL, places, MLX_FFT_NORM_FORWARD, s));
            OK(mlx_astype(&r, r, MLX_FLOAT32, s)); /* the real part */
            mlx_string text = mlx_string_new();
            OK(mlx_array_tostring(&text, r));
            assert_string_equal(mlx_string_data(text), both);
            mlx_string_free(text);
            FAILS(forward[i](&r, a, NULL, 2, axes, 2, MLX_FFT_NORM_ORTHO, s), "`n`, got NULL");
            FAILS(forward[i](&r, a, n, 2, NULL, 2, MLX_FFT_NORM_ORTHO, s), "`axes`, got NULL");
            FAILS(back[i](&r, a, n, 1, axes, 2, MLX_FFT_NORM_ORTHO, s), "one size for each");
            FAILS(back[i](&r, a, n, 65, axes, 2, MLX_FFT_NORM_ORTHO, s), "at most 64");
        }
}

static void frequencies(void **state)
{
    (void)state;
    const int last = 1;
    GIVES(mlx_fft_fftfreq(&r, 4, 0.5, s), "[0, 0.5, -1, -0.5]" F32);
    GIVES(mlx_fft_rfftfreq(&r, 5, 1, s), "[0, 0.2, 0.4]" F32);
    GIVES(mlx_fft_fftshift(&r, a, &last, 1, s), "[[4, 3],\n       [1, -1]]" F32);
    GIVES(mlx_fft_ifftshift(&r, a, NULL, 0, s), "[[1, -1],\n       [4, 3]]" F32);
    FAILS(mlx_fft_fftfreq(&r, 0, 1, s), "n of at least 1");
    FAILS(mlx_fft_rfftfreq(&r, 1, 0, s), "other than 0");
    FAILS(mlx_fft_fftshift(&r, none, NULL, 0, s), "`a`");
}

/* ---- when the n-th allocation fails, for every n: one error, and nothing leaks */

static int attend(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x[3] = { mlx_array_new(), mlx_array_new(), mlx_array_new() }, y = mlx_array_new();
    int failed = 0;
    for (size_t i = 0; i < 3 && !failed; i++) failed = mlx_vector_array_get(&x[i], in, i);
    failed = failed || mlx_fast_scaled_dot_product_attention(&y, x[0], x[1], x[2], 1, "causal", none, none, s) ||
             mlx_fast_layer_norm(&y, y, none, none, 1, s) || mlx_vector_array_append_value(*res, y);
    for (int i = 0; i < 3; i++) mlx_array_free(x[i]);
    mlx_array_free(y);
    return failed;
}

static mlx_array ones_of(int ndim, const int *shape)
{
    mlx_array x = mlx_array_new();
    if (mlx_ones(&x, shape, (size_t)ndim, MLX_FLOAT32, s)) {
        mlx_array_free(x);
        x.ctx = NULL;
    }
    return x;
}

/* Attention of so many queries, its derivative, and what a gated delta network makes of them. */
static int attention_of(int queries)
{
    mlx_array q = ones_of(4, (const int[]){ 1, 2, queries, 8 }), k = ones_of(4, (const int[]){ 1, 2, 20, 8 });
    mlx_vector_array in = { NULL }, y = { NULL }, dx = { NULL }, ct = { NULL }, delta = { NULL };
    mlx_closure f = { NULL };
    mlx_array beta = ones_of(3, (const int[]){ 1, 2, 20 });
    int failed = !q.ctx || !k.ctx || !beta.ctx;
    if (!failed)
        failed = !(in = mlx_vector_array_new_data((mlx_array[]){ q, k, k }, 3)).ctx;
    if (!failed)
        failed = !(ct = mlx_vector_array_new_value(q)).ctx;
    if (!failed)
        failed = !(f = mlx_closure_new_func(attend)).ctx;
    failed = failed || mlx_vjp(&y, &dx, f, in, ct) || mlx_eval(y) || mlx_eval(dx) ||
             mlx_fast_gated_delta_update(&delta, k, k, k, beta, beta, none, none, s) || mlx_eval(delta);
    mlx_array_free(q);
    mlx_array_free(k);
    mlx_array_free(beta);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(delta);
    mlx_closure_free(f);
    return failed;
}
static int few_queries(void) { return attention_of(2); }
static int many_queries(void) { return attention_of(40); }

static int length, rows;
static int transforms(void)
{
    mlx_array x = ones_of(2, (const int[]){ rows, length }), y = mlx_array_new();
    int failed = !x.ctx || mlx_fft_fft(&y, x, length, 1, MLX_FFT_NORM_ORTHO, s) || mlx_array_eval(y) ||
                 mlx_fft_rfft(&y, x, length, 1, MLX_FFT_NORM_ORTHO, s) ||
                 mlx_fft_irfft(&y, y, length, 1, MLX_FFT_NORM_ORTHO, s) || mlx_array_eval(y);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

static void sweep(int (*calls)(void))
{
    OK(calls());
    for (long n = 1;; n++) {
        long live = array_live_count();
        mx_test_fail_at(n);
        int failed = calls();
        mx_test_fail_at(0);
        if (!failed)
            break;
        expect_heard(1, "could not allocate");
        assert_int_equal(array_live_count(), live);
        assert_true(n < 10000);
    }
    expect_heard(0, "");
}

static void allocations_that_fail(void **state)
{
    (void)state;
    sweep(few_queries);
    sweep(many_queries);
    const int lengths[] = { 10, 300, 331, 9001 };
    for (int i = 0; i < times(4); i++)
        for (rows = 1; rows < 10; rows += 8) {
            length = lengths[i];
            sweep(transforms);
        }
}

static int set_up(void **state)
{
    const float v[] = { 3, 4, -1, 1 };
    start_listening(state);
    s = mlx_default_cpu_stream_new();
    a = shaped(v, 2, (const int[]){ 2, 2 });
    r = mlx_array_new();
    return 0;
}

static int tear_down(void **state)
{
    mlx_array_free(a);
    mlx_array_free(r);
    return all_gone(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),       cmocka_unit_test(rotations),
        cmocka_unit_test(attention),   cmocka_unit_test(along_one_axis),
        cmocka_unit_test(choices),     cmocka_unit_test(along_several),
        cmocka_unit_test(frequencies), cmocka_unit_test(allocations_that_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
