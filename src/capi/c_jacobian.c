/* c_jacobian.c: Jacobians and batches of closures. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "transform/jacobian.h"

typedef struct closure *jacobian(struct closure *f, const int *argnums, int n);

/* `outer` of `inner` of the closure; `inner` may be NULL. */
static int derive(const char *func, jacobian *outer, jacobian *inner, mlx_closure *res, mlx_closure fun,
                  const int *argnums, size_t n)
{
    struct closure *f = capi_closure(func, "fun", fun), *g = NULL, *h = NULL;
    if (f && capi_need(func, "the numbers of arguments", "argnums", argnums)) {
        if (n > INT_MAX)
            mx_fail("[%s] expected less than 2^31 numbers of arguments, got %zu", func + 4, n);
        else
            h = outer(inner && (g = inner(f, argnums, (int)n)) ? g : f, argnums, (int)n);
    }
    if (g)
        object_release(&g->object);
    return capi_closure_end(func, res, h);
}

int mlx_jacfwd(mlx_closure *res, const mlx_closure fun, const int *argnums, size_t argnums_num)
{
    return derive(__func__, mx_jacfwd, NULL, res, fun, argnums, argnums_num);
}

int mlx_jacrev(mlx_closure *res, const mlx_closure fun, const int *argnums, size_t argnums_num)
{
    return derive(__func__, mx_jacrev, NULL, res, fun, argnums, argnums_num);
}

int mlx_hessian(mlx_closure *res, const mlx_closure fun, const int *argnums, size_t argnums_num)
{
    return derive(__func__, mx_jacfwd, mx_jacrev, res, fun, argnums, argnums_num);
}

/* ---- batches */

struct mapped_closure {
    struct closure closure;
    struct closure *f;
    int n_in, n_out;
    int axes[]; /* of the inputs, then of the outputs */
};

static int call_mapped(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct mapped_closure *m = (struct mapped_closure *)self;
    if (n != m->n_in) {
        mx_fail("[vmap] expected %d inputs, as many as axes, got %d", m->n_in, n);
        return 1;
    }
    if (!m->n_out)
        return mx_vmap(m->f, n, x, m->axes, out);
    struct mx_list in = { 0 }, y = { 0 };
    int failed = mx_vmap_trace(m->f, n, x, m->axes, &in, &y);
    if (!failed && y.n != m->n_out) {
        mx_fail("[vmap] expected %d outputs, as many as axes, got %d", m->n_out, y.n);
        failed = 1;
    }
    failed = failed || mx_vmap_replace(n, x, (mx *)in.v, m->axes, y.n, (mx *)y.v, m->axes + n, out);
    list_clear(&in);
    list_clear(&y);
    return failed;
}

static void jacobian_closure_destroy(struct object *o)
{
    object_release(&((struct mapped_closure *)o)->f->object);
    free(o);
}

int mlx_vmap(mlx_closure *res, const mlx_closure fun, const int *in_axes, size_t in_axes_num, const int *out_axes,
             size_t out_axes_num)
{
    struct closure *f = capi_in_closure(fun);
    if (!f || (in_axes_num && !capi_given(in_axes, "axes")) || (out_axes_num && !capi_given(out_axes, "axes")))
        return capi_report();
    if (in_axes_num > INT_MAX / 4 || out_axes_num > INT_MAX / 4) {
        mx_fail("[vmap] expected axes of arrays, got %zu and %zu", in_axes_num, out_axes_num);
        return capi_report();
    }
    struct mapped_closure *m = mx_malloc(sizeof *m + (in_axes_num + out_axes_num) * sizeof *in_axes);
    if (!m)
        return capi_report();
    *m = (struct mapped_closure){
        { { .refs = 1, .destroy = jacobian_closure_destroy }, call_mapped }, f, (int)in_axes_num, (int)out_axes_num
    };
    if (in_axes_num)
        memcpy(m->axes, in_axes, in_axes_num * sizeof *in_axes);
    if (out_axes_num)
        memcpy(m->axes + in_axes_num, out_axes, out_axes_num * sizeof *out_axes);
    object_retain(&f->object);
    return capi_closure_end(__func__, res, &m->closure);
}
