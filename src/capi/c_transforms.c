/* c_transforms.c: evaluation and derivatives of closures.
 *
 * The arrays of the arguments are kept for the length of a call and no scope is open meanwhile, so
 * that the caller's function may evaluate, and may let go of its handles. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "run/eval.h"
#include "run/evaluation.h"
#include "run/stop.h"

int mlx_eval(const mlx_vector_array outputs)
{
    int n = 0;
    mx *x = capi_in_arrays(outputs, &n);
    if (x)
        mx_eval(n, x);
    capi_arrays_free(n, x);
    return capi_end();
}

int mlx_stop_when(bool (*stop)(void))
{
    mx_stop_when(stop);
    return 0;
}

int mlx_leave_with(void (*leave)(void *payload), void *payload)
{
    mx_leave_with(leave, payload);
    return 0;
}

int mlx_traces_take_turns_by(bool (*inside)(void *outer, void **site))
{
    traces_take_turns_by(inside);
    return 0;
}

int mlx_async_eval(const mlx_vector_array outputs)
{
    int n = 0;
    mx *x = capi_in_arrays(outputs, &n);
    if (x)
        mx_async_eval(n, x);
    capi_arrays_free(n, x);
    return capi_end();
}

typedef int derivative(struct closure *f, int n, const mx x[], int n_t, const mx t[], struct mx_list *y,
                       struct mx_list *dy);

static int publish_derivatives(const char *func, derivative *transform, mlx_vector_array *res_0,
                               mlx_vector_array *res_1, mlx_closure fun, mlx_vector_array primals,
                               mlx_vector_array directions, const char *directions_name)
{
    struct mx_list y = { 0 }, dy = { 0 };
    int n = 0, n_t = 0;
    struct closure *f = capi_closure(func, "fun", fun);
    mx *x = f ? capi_arrays(func, "primals", primals, &n) : NULL;
    mx *t = x ? capi_arrays(func, directions_name, directions, &n_t) : NULL;
    if (t) {
        object_retain(&f->object);
        transform(f, n, x, n_t, t, &y, &dy);
        object_release(&f->object);
    }
    capi_arrays_free(n, x);
    capi_arrays_free(n_t, t);
    return capi_results_end(func, res_0, &y, res_1, &dy);
}

int mlx_vjp(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun, const mlx_vector_array primals,
            const mlx_vector_array cotangents)
{
    return publish_derivatives(__func__, mx_vjp, res_0, res_1, fun, primals, cotangents, "cotangents");
}

int mlx_jvp(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun, const mlx_vector_array primals,
            const mlx_vector_array tangents)
{
    return publish_derivatives(__func__, mx_jvp, res_0, res_1, fun, primals, tangents, "tangents");
}

/* What mlx_value_and_grad makes. */
struct gradient_of {
    struct value_and_grad base;
    struct closure *f;
    int n;
    int argnums[];
};

static int call_gradient(struct value_and_grad *self, int n, const mx x[], struct mx_list *y, struct mx_list *dx)
{
    const struct gradient_of *g = (struct gradient_of *)self;
    return mx_value_and_grad(g->f, n, x, g->argnums, g->n, y, dx);
}

static void destroy_gradient(struct object *o)
{
    struct gradient_of *g = (struct gradient_of *)o;
    object_release(&g->f->object);
    free(g);
}

int mlx_value_and_grad(mlx_closure_value_and_grad *res, const mlx_closure fun, const int *argnums, size_t argnums_num)
{
    struct closure *f = capi_in_closure(fun);
    if (!f || !capi_given(argnums, "the numbers of arguments"))
        return capi_report();
    if (argnums_num == 0 || argnums_num > 1u << 24) {
        mx_fail("[value_and_grad] expected the number of one argument at least, got %zu", argnums_num);
        return capi_report();
    }
    struct gradient_of *g = mx_malloc(sizeof *g + argnums_num * sizeof *argnums);
    if (!g)
        return capi_report();
    atomic_init(&g->base.object.refs, 1);
    g->base.object.destroy = destroy_gradient;
    g->base.call = call_gradient;
    object_retain(&f->object);
    g->f = f;
    g->n = (int)argnums_num;
    memcpy(g->argnums, argnums, argnums_num * sizeof *argnums);
    return capi_value_and_grad_end(__func__, res, &g->base);
}

int mlx_custom_vjp(mlx_closure *res, const mlx_closure fun, const mlx_closure_custom fun_vjp)
{
    struct closure *f = capi_in_closure(fun);
    struct vjp_rule *rule = f ? capi_vjp_rule(__func__, "fun_vjp", fun_vjp) : NULL;
    return capi_publish_closure(res, rule ? mx_custom_function(f, rule, NULL, NULL) : NULL);
}

int mlx_custom_function(mlx_closure *res, const mlx_closure fun, const mlx_closure_custom fun_vjp,
                        const mlx_closure_custom_jvp fun_jvp, const mlx_closure_custom_vmap fun_vmap)
{
    struct closure *f = capi_in_closure(fun);
    return capi_publish_closure(
        res, f ? mx_custom_function(f, capi_opt_vjp(fun_vjp), capi_opt_jvp(fun_jvp), capi_opt_vmap(fun_vmap)) : NULL);
}

int mlx_checkpoint(mlx_closure *res, const mlx_closure fun)
{
    struct closure *f = capi_in_closure(fun);
    return capi_publish_closure(res, f ? mx_checkpoint(f) : NULL);
}

/* Results, and the derivative at the arguments as a closure. */
static int publish_derivative_at(const char *func, mlx_vector_array *res_0, mlx_closure *res_1, mlx_closure fun,
                                 mlx_vector_array primals,
                                 struct closure *transform(struct closure *, int, const mx[], struct mx_list *))
{
    struct mx_list y = { 0 };
    int n = 0;
    struct closure *f = capi_closure(func, "fun", fun), *derivative = NULL;
    mx *x = f && capi_need(func, "a place for the result", "res_0", res_0) &&
                    capi_need(func, "a place for the result", "res_1", res_1)
                ? capi_arrays(func, "primals", primals, &n)
                : NULL;
    if (x) {
        object_retain(&f->object);
        derivative = transform(f, n, x, &y);
        object_release(&f->object);
    }
    capi_arrays_free(n, x);
    if (!derivative) {
        list_clear(&y);
        return capi_report();
    }
    struct list *l = capi_list_of_results(&y);
    return capi_both_end(func, CAPI_HALF(vector_array, res_0, l), CAPI_HALF(closure, res_1, derivative));
}

int mlx_linearize(mlx_vector_array *res_0, mlx_closure *res_1, const mlx_closure fun, const mlx_vector_array primals)
{
    return publish_derivative_at(__func__, res_0, res_1, fun, primals, mx_linearize);
}

int mlx_pullback(mlx_vector_array *res_0, mlx_closure *res_1, const mlx_closure fun, const mlx_vector_array primals)
{
    return publish_derivative_at(__func__, res_0, res_1, fun, primals, mx_pullback);
}

int mlx_detail_vmap_trace(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
                          const mlx_vector_array inputs, const int *in_axes, size_t in_axes_num)
{
    struct mx_list in = { 0 }, out = { 0 };
    int n = 0;
    struct closure *f = capi_in_closure(fun);
    mx *x = f && (!in_axes_num || capi_given(in_axes, "axes")) ? capi_in_arrays(inputs, &n) : NULL;
    if (x && (size_t)n != in_axes_num)
        mx_fail("[vmap] expected an axis for each of the %d inputs, got %zu", n, in_axes_num);
    if (x && !mx_failed()) {
        object_retain(&f->object);
        mx_vmap_trace(f, n, x, in_axes, &in, &out);
        object_release(&f->object);
    }
    capi_arrays_free(n, x);
    return capi_results_end(__func__, res_0, &in, res_1, &out);
}

int mlx_detail_vmap_replace(mlx_vector_array *res, const mlx_vector_array inputs, const mlx_vector_array s_inputs,
                            const mlx_vector_array s_outputs, const int *in_axes, size_t in_axes_num,
                            const int *out_axes, size_t out_axes_num)
{
    struct mx_list y = { 0 };
    int n = 0, n_in = 0, n_out = 0;
    bool given = (!in_axes_num || capi_given(in_axes, "axes")) && (!out_axes_num || capi_given(out_axes, "axes"));
    mx *x = given ? capi_in_arrays(inputs, &n) : NULL;
    mx *in = x ? capi_in_arrays(s_inputs, &n_in) : NULL;
    mx *out = in ? capi_in_arrays(s_outputs, &n_out) : NULL;
    if (out && (n != n_in || (size_t)n != in_axes_num || (size_t)n_out != out_axes_num))
        mx_fail("[vmap] expected an axis for each of %d inputs and %d results, got %zu and %zu", n, n_out, in_axes_num,
                out_axes_num);
    if (out && !mx_failed())
        mx_vmap_replace(n, x, in, in_axes, n_out, out, out_axes, &y);
    capi_arrays_free(n, x);
    capi_arrays_free(n_in, in);
    capi_arrays_free(n_out, out);
    return capi_results_end(__func__, res, &y, NULL, NULL);
}
