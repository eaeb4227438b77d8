/* c_control.c: loops and branches whose bodies are closures. */
#include "transform/control.h"

#include "capi/capi.h"

/* A closure kept for the length of a call; NULL after a failure. */
static struct closure *kept_closure(const char *func, const char *arg, mlx_closure cls)
{
    struct closure *f = capi_closure(func, arg, cls);
    if (f)
        object_retain(&f->object);
    return f;
}

static void release_closure(struct closure *f)
{
    if (f)
        object_release(&f->object);
}

int mlx_cond(mlx_vector_array *res, const mlx_array pred, const mlx_closure true_fun, const mlx_closure false_fun,
             const mlx_vector_array operands, const mlx_stream s)
{
    struct mx_list y = { 0 };
    int n = 0;
    mx *x = capi_in_arrays(operands, &n);
    mx_own p = { 0 };
    mx_keep(&p, capi_in(pred));
    struct closure *yes = kept_closure(__func__, "true_fun", true_fun);
    struct closure *no = yes ? kept_closure(__func__, "false_fun", false_fun) : NULL;
    if (x && no) {
        MX_SCOPE(capi_stream(s));
        mx_cond(p.it, yes, no, n, x, &y);
    }
    release_closure(yes);
    release_closure(no);
    mx_drop(&p);
    capi_arrays_free(n, x);
    return capi_results_end(__func__, res, &y, NULL, NULL);
}

int mlx_scan(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun, const mlx_vector_array init,
             const mlx_vector_array xs, int length, bool reverse, const mlx_stream s)
{
    struct mx_list y = { 0 }, carry = { 0 }, ys = { 0 };
    int n = 0, n_xs = 0, failed = 0;
    mx *x = capi_in_arrays(init, &n);
    mx *slices = x ? capi_in_arrays(xs, &n_xs) : NULL;
    struct closure *f = slices ? kept_closure(__func__, "fun", fun) : NULL;
    if (f) {
        MX_SCOPE(capi_stream(s));
        failed = mx_scan_loop(f, n, x, n_xs, slices, length, reverse, &y);
    }
    for (int k = 0; k < y.n && !failed; k++) failed = list_push(k < n ? &carry : &ys, y.v[k].it);
    release_closure(f);
    list_clear(&y);
    capi_arrays_free(n, x);
    capi_arrays_free(n_xs, slices);
    return capi_results_end(__func__, res_0, &carry, res_1, &ys);
}

int mlx_while_loop(mlx_vector_array *res, const mlx_closure cond_fun, const mlx_closure body_fun,
                   const mlx_vector_array init, const mlx_stream s)
{
    struct mx_list y = { 0 };
    int n = 0;
    mx *x = capi_in_arrays(init, &n);
    struct closure *test = x ? kept_closure(__func__, "cond_fun", cond_fun) : NULL;
    struct closure *body = test ? kept_closure(__func__, "body_fun", body_fun) : NULL;
    if (body) {
        MX_SCOPE(capi_stream(s));
        mx_while_loop(test, body, n, x, &y);
    }
    release_closure(test);
    release_closure(body);
    capi_arrays_free(n, x);
    return capi_results_end(__func__, res, &y, NULL, NULL);
}
