/* test_axpby.c: axpby from C: values of every dtype and layout, derivatives, batches, errors, and the library
 * loaded by its file (the first argument), as a program does that reads exported functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "axpby/axpby.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static mlx_stream s;

/* Whether all elements are equal; frees `expected`. */
static bool equal(mlx_array a, mlx_array expected)
{
    mlx_array same = mlx_array_new();
    bool result = false;
    CHECK(!mlx_array_equal(&same, a, expected, false, s) && !mlx_array_item_bool(&result, same));
    mlx_array_free(same);
    mlx_array_free(expected);
    return result;
}

static mlx_array floats(int rows, int columns, const float *v)
{
    return mlx_array_new_data(v, (int[]){ rows, columns }, 2, MLX_FLOAT32);
}

static void values(void)
{
    static const mlx_dtype dtypes[] = { MLX_FLOAT32, MLX_FLOAT64, MLX_FLOAT16, MLX_BFLOAT16, MLX_COMPLEX64, MLX_INT8 };
    mlx_array a = floats(2, 3, (float[]){ 1, 2, 3, 4, 5, 6 }), b = floats(2, 3, (float[]){ 1, 1, 2, 2, 3, 3 });
    mlx_array x = mlx_array_new(), y = mlx_array_new(), z = mlx_array_new();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        CHECK(!mlx_astype(&x, a, dtypes[i], s) && !mlx_astype(&y, b, dtypes[i], s));
        CHECK(!axpby(&z, x, y, 4, 2, s));
        CHECK(mlx_array_dtype(z) == (dtypes[i] == MLX_INT8 ? MLX_FLOAT32 : dtypes[i]));
        CHECK(equal(z, floats(2, 3, (float[]){ 6, 10, 16, 20, 26, 30 })));
        /* Columns: BLAS too. */
        CHECK(!mlx_transpose(&x, x, s) && !mlx_transpose(&y, y, s) && !axpby(&z, x, y, 4, 2, s));
        CHECK(equal(z, floats(3, 2, (float[]){ 6, 20, 10, 26, 16, 30 })));
        /* A column and a row, broadcast. */
        CHECK(!mlx_slice(&x, x, (int[]){ 0, 0 }, 2, (int[]){ 3, 1 }, 2, (int[]){ 1, 1 }, 2, s));
        CHECK(!mlx_slice(&y, y, (int[]){ 1, 0 }, 2, (int[]){ 2, 2 }, 2, (int[]){ 1, 1 }, 2, s));
        CHECK(!axpby(&z, x, y, 4, 2, s));
        CHECK(equal(z, floats(3, 2, (float[]){ 6, 10, 10, 14, 14, 18 })));
    }
    /* A factor of 0 does not hide what is not a number. */
    CHECK(!mlx_divide(&x, a, a, s) && !mlx_subtract(&y, x, x, s) && !mlx_divide(&y, y, y, s));
    CHECK(!axpby(&z, x, y, 1, 0, s) && !mlx_isnan(&z, z, s) && !mlx_all(&z, z, false, s));
    CHECK(equal(z, mlx_array_new_bool(true)));
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(z);
}

static int apply(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1) || axpby(&x, x, y, 4, 2, s) ||
                 mlx_vector_array_set_value(res, x);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

static void derivatives(void)
{
    mlx_array v[2] = { floats(1, 2, (float[]){ 1, 2 }), floats(1, 2, (float[]){ 3, 4 }) };
    mlx_vector_array in = mlx_vector_array_new_data(v, 2), out = mlx_vector_array_new(), d = mlx_vector_array_new();
    mlx_vector_array ct = mlx_vector_array_new_value(v[1]);
    mlx_closure f = mlx_closure_new_func(apply);
    mlx_array g = mlx_array_new();
    CHECK(!mlx_vjp(&out, &d, f, in, ct) && mlx_vector_array_size(d) == 2);
    CHECK(!mlx_vector_array_get(&g, d, 0) && equal(g, floats(1, 2, (float[]){ 12, 16 })));
    CHECK(!mlx_vector_array_get(&g, d, 1) && equal(g, floats(1, 2, (float[]){ 6, 8 })));
    CHECK(!mlx_jvp(&out, &d, f, in, in) && mlx_vector_array_size(d) == 1);
    CHECK(!mlx_vector_array_get(&g, d, 0) && equal(g, floats(1, 2, (float[]){ 10, 16 })));
    mlx_array_free(g);
    mlx_closure_free(f);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(d);
    mlx_vector_array_free(out);
    mlx_vector_array_free(in);
    mlx_array_free(v[0]);
    mlx_array_free(v[1]);
}

static char last[1024];
static void listen(const char *message, void *data)
{
    (void)data;
    snprintf(last, sizeof last, "%s", message);
}

static void errors(void)
{
    mlx_array x = floats(1, 2, (float[]){ 1, 2 }), y = floats(1, 3, (float[]){ 1, 2, 3 }), z = mlx_array_new();
    mlx_set_error_handler(listen, NULL, NULL);
    CHECK(axpby(&z, x, y, 1, 1, s) && strstr(last, "(1,2)") && strstr(last, "(1,3)"));
    CHECK(axpby(&z, x, mlx_array_empty, 1, 1, s));
    mlx_set_error_handler(NULL, NULL, NULL);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(z);
}

int main(int argc, char **argv)
{
    bool known = false;
    s = mlx_default_cpu_stream_new();
    if (argc > 1) {
        CHECK(!mlx_register_library("mlx_ext", argv[1]));
        CHECK(!mlx_primitive_is_registered(&known, "Axpby") && known);
    }
    values();
    derivatives();
    errors();
    puts("axpby: ok");
    return 0;
}
