/* gradients.c: a program as they are written for mlx-c: closures with and without a payload, value_and_grad,
 * compile, a rule of its own, evaluation of several arrays.  tests/python/test_install.py builds and runs it. */
#include "mlx/c/mlx.h"

struct scale {
    float by;
    mlx_stream stream;
};

static int loss(mlx_vector_array *res, const mlx_vector_array in, void *payload)
{
    const struct scale *scale = payload;
    mlx_array x = mlx_array_new(), y = mlx_array_new(), by = mlx_array_new_float(scale->by);
    mlx_vector_array_get(&x, in, 0);
    mlx_multiply(&y, x, x, scale->stream);
    mlx_multiply(&y, y, by, scale->stream);
    mlx_sum(&y, y, false, scale->stream);
    int failed = mlx_vector_array_append_value(*res, y);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(by);
    return failed;
}

static int inc(mlx_array *res, const mlx_array x)
{
    mlx_stream stream = mlx_default_cpu_stream_new();
    mlx_array one = mlx_array_new_float(1.0f);
    int failed = mlx_add(res, x, one, stream);
    mlx_array_free(one);
    mlx_stream_free(stream);
    return failed;
}

static void done(void *payload) { free(payload); }

int main(void)
{
    mlx_stream stream = mlx_default_cpu_stream_new();
    struct scale *scale = malloc(sizeof(struct scale));
    scale->by = 0.5f;
    scale->stream = stream;
    mlx_closure f = mlx_closure_new_func_payload(loss, scale, done);
    mlx_closure_value_and_grad vg = mlx_closure_value_and_grad_new();
    int argnums[] = { 0 };
    mlx_value_and_grad(&vg, f, argnums, 1);

    float data[] = { 1, 2, 3 };
    int shape[] = { 3 };
    mlx_array x = mlx_array_new_data(data, shape, 1, MLX_FLOAT32);
    mlx_vector_array in = mlx_vector_array_new_value(x);
    mlx_vector_array values = mlx_vector_array_new(), grads = mlx_vector_array_new();
    mlx_closure_value_and_grad_apply(&values, &grads, vg, in);
    mlx_array value = mlx_array_new(), grad = mlx_array_new();
    mlx_vector_array_get(&value, values, 0);
    mlx_vector_array_get(&grad, grads, 0);
    mlx_vector_array both = mlx_vector_array_new();
    mlx_vector_array_append_value(both, value);
    mlx_vector_array_append_value(both, grad);
    mlx_eval(both);
    float v;
    mlx_array_item_float32(&v, value);
    const float *g = mlx_array_data_float32(grad);
    printf("%.1f: %.1f %.1f %.1f\n", v, g[0], g[1], g[2]);

    mlx_closure plain = mlx_closure_new_unary(inc), compiled = mlx_closure_new();
    mlx_compile(&compiled, plain, false);
    mlx_vector_array out = mlx_vector_array_new();
    mlx_closure_apply(&out, compiled, in);
    mlx_array y = mlx_array_new();
    mlx_vector_array_get(&y, out, 0);
    mlx_string str = mlx_string_new();
    mlx_array_tostring(&str, y);
    printf("%s\n", mlx_string_data(str));

    mlx_string_free(str);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(value);
    mlx_array_free(grad);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_vector_array_free(both);
    mlx_vector_array_free(values);
    mlx_vector_array_free(grads);
    mlx_closure_free(f);
    mlx_closure_free(plain);
    mlx_closure_free(compiled);
    mlx_closure_value_and_grad_free(vg);
    mlx_stream_free(stream);
    return 0;
}
