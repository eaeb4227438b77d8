/* c_closure.c: the caller's functions as closures.
 *
 * A handle's box points at a reference-counted object, which graphs and other closures may hold
 * too. For all six kinds of closure it is a `struct user`: what the transforms call, if they do,
 * and the caller's C function under a general type, cast back to its own where it is called.
 *
 * A callback gets handles made for the call; it may replace a result handle as well as fill it. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/room.h"
#include "core/scope.h"

struct handle {
    struct object *it;
};

typedef void any_function(void);

struct user {
    union {
        struct object object;
        struct closure closure;
        struct vjp_rule vjp;
        struct jvp_rule jvp;
        struct vmap_rule vmap;
        struct value_and_grad value_and_grad;
    } as;
    any_function *fun;
    bool with_payload;
    void *payload;
    void (*dtor)(void *);
};

/* Calls u's function, of this type or, with a payload behind the arguments, of type_payload.  What the thread has
 * lent (by the rule of an operation that is derived) is aside meanwhile. */
#define CALL(type, u, ...)                                                                              \
    (!scopes_aside(&aside) ? 1                                                                          \
     : (u)->with_payload   ? came_back(&aside, ((type##_payload *)(u)->fun)(__VA_ARGS__, (u)->payload)) \
                           : came_back(&aside, ((type *)(u)->fun)(__VA_ARGS__)))

static int came_back(struct scopes *aside, int status)
{
    scopes_back(aside);
    return status;
}

typedef int unary(mlx_array *, const mlx_array);
typedef int plain(mlx_vector_array *, const mlx_vector_array);
typedef int plain_payload(mlx_vector_array *, const mlx_vector_array, void *);
typedef int kwargs(mlx_vector_array *, const mlx_vector_array, const mlx_map_string_to_array);
typedef int kwargs_payload(mlx_vector_array *, const mlx_vector_array, const mlx_map_string_to_array, void *);
typedef int grads(mlx_vector_array *, mlx_vector_array *, const mlx_vector_array);
typedef int grads_payload(mlx_vector_array *, mlx_vector_array *, const mlx_vector_array, void *);
typedef int custom(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const mlx_vector_array);
typedef int custom_payload(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const mlx_vector_array,
                           void *);
typedef int custom_jvp(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const int *, size_t);
typedef int custom_jvp_payload(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const int *, size_t,
                               void *);
typedef int custom_vmap(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array, const int *, size_t);
typedef int custom_vmap_payload(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array, const int *, size_t,
                                void *);

/* Handles */

/* The content of the handle becomes o, or a failure is kept: 0 or 1. */
static int keep(const char *func, const char *arg, enum handle_kind kind, void **ctx, struct object *o)
{
    if (!capi_need(func, "a place for the result", arg, ctx) || !o || mx_failed())
        return 1;
    struct handle *h = *ctx;
    if (!h) {
        h = mx_malloc(sizeof *h);
        if (!h || capi_made(kind, h, func))
            return free(h), 1;
        h->it = NULL;
        *ctx = h;
    }
    struct object *old = h->it;
    object_retain(o);
    h->it = o;
    if (old)
        object_release(old);
    return 0;
}

/* The same, a failure being reported. */
static int publish(const char *func, const char *arg, enum handle_kind kind, void **ctx, struct object *o)
{
    return keep(func, arg, kind, ctx, o) ? capi_report() : 0;
}

static void *object_of(const char *func, const char *arg, void *ctx)
{
    if (ctx)
        return ((struct handle *)ctx)->it;
    capi_refuse(func, "a closure", arg, "an empty handle");
    return NULL;
}

static int free_argument(enum handle_kind kind, struct handle *h)
{
    capi_gone(kind, h);
    if (h && h->it)
        object_release(h->it);
    free(h);
    return 0;
}

/* Who asks for it is about to call it, most likely. */
struct closure *capi_closure(const char *func, const char *arg, mlx_closure cls)
{
    return mx_need_room(func + strlen("mlx_")) ? NULL : object_of(func, arg, cls.ctx);
}

int capi_closure_kwargs_keep(const char *func, const char *arg, mlx_closure_kwargs *res, mlx_closure_kwargs cls)
{
    return keep(func, arg, HANDLE_closure_kwargs, &res->ctx, object_of(func, arg, cls.ctx));
}

struct vjp_rule *capi_vjp_rule(const char *func, const char *arg, mlx_closure_custom cls)
{
    return object_of(func, arg, cls.ctx);
}

/* Rules that may be left out. */

static void *opt(void *ctx) { return ctx ? ((struct handle *)ctx)->it : NULL; }

struct vjp_rule *capi_opt_vjp(mlx_closure_custom cls) { return opt(cls.ctx); }
struct jvp_rule *capi_opt_jvp(mlx_closure_custom_jvp cls) { return opt(cls.ctx); }
struct vmap_rule *capi_opt_vmap(mlx_closure_custom_vmap cls) { return opt(cls.ctx); }

/* What a transform made, around functions that were made so too perhaps, any number of them: a call that the stack has
 * no room for is an error, and what goes is freed one after the other. */
struct nested {
    struct closure closure;
    struct closure *f;
    struct nested *next;
};
static _Thread_local struct nested *going;

static int call_nested(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct closure *f = ((struct nested *)self)->f;
    return mx_need_room("closure") || f->call(f, n, x, out);
}

static void nested_destroy(struct object *o)
{
    struct nested *g = (struct nested *)o, *outermost = going ? NULL : g;
    g->next = going;
    going = g;
    while (outermost) { /* the others come to the list in front of it while it is there */
        g = going;
        struct closure *f = g->f;
        if (f) {
            g->f = NULL;
            object_release(&f->object);
            continue;
        }
        going = g->next;
        if (g == outermost)
            outermost = NULL;
        free(g);
    }
}

/* Takes f over. */
static struct closure *nested_new(struct closure *f)
{
    struct nested *g = f ? mx_malloc(sizeof *g) : NULL;
    if (!g) {
        object_release(f ? &f->object : NULL);
        return NULL;
    }
    *g = (struct nested){ { { .refs = 1, .destroy = nested_destroy }, call_nested }, f, NULL };
    return &g->closure;
}

int capi_closure_end(const char *func, mlx_closure *res, struct closure *f)
{
    f = nested_new(f);
    int failed = publish(func, "res", HANDLE_closure, res ? &res->ctx : NULL, f ? &f->object : NULL);
    if (f)
        object_release(&f->object);
    return failed;
}

int capi_value_and_grad_end(const char *func, mlx_closure_value_and_grad *res, struct value_and_grad *f)
{
    int failed = publish(func, "res", HANDLE_closure_value_and_grad, res ? &res->ctx : NULL, f ? &f->object : NULL);
    if (f)
        object_release(&f->object);
    return failed;
}

static void user_destroy(struct object *o)
{
    struct user *u = (struct user *)o;
    mx_let_go(u->dtor, u->payload);
    free(u);
}

/* The ctx of a new handle of such a closure; NULL after a report. */
static void *user_new(const char *func, enum handle_kind kind, struct user given)
{
    struct user *u = capi_need(func, "a function", "fun", (void *)given.fun) ? mx_malloc(sizeof *u) : NULL;
    void *ctx = NULL;
    if (!u)
        return capi_report(), NULL;
    *u = given;
    u->as.object.destroy = user_destroy;
    atomic_init(&u->as.object.refs, 1);
    if (publish(func, "res", kind, &ctx, &u->as.object))
        u->dtor = NULL; /* the payload stays the caller's */
    object_release(&u->as.object);
    return ctx;
}

/* Results of callbacks */

bool capi_result_open(struct capi_result *r)
{
    r->made = r->vec.ctx = capi_lend_empty(ARRAYS);
    return r->made;
}

void capi_result_close(struct capi_result *r)
{
    if (r->vec.ctx != r->made)
        mlx_vector_array_free(r->vec);
    capi_list_free(r->made);
}

bool capi_axes_open(struct capi_axes *a)
{
    a->made = a->vec.ctx = capi_lend_empty(NUMBERS);
    return a->made;
}

void capi_axes_close(struct capi_axes *a)
{
    if (a->vec.ctx != a->made)
        mlx_vector_int_free(a->vec);
    capi_list_free(a->made);
}

void capi_result_push(const struct capi_result *r, struct mx_list *out)
{
    const struct list *l = r->vec.ctx;
    if (!l)
        mx_fail_as(MX_RUNTIME, "[closure] expected the function to leave a vector in its result, got an empty handle");
    for (size_t i = 0; l && i < l->n; i++) list_push(out, l->v[i].array.it);
}

/* A call of a handle's function at once.  It may let go of any handle: what is called is held, and what it is given
 * was made for the call. */
struct direct_call {
    struct user *u;
    struct capi_result res;
    mlx_vector_array in[3];
    unsigned long before; /* of capi_reports() */
};

static void call_close(struct direct_call *c)
{
    capi_result_close(&c->res);
    for (int i = 0; i < 3; i++) capi_list_free(c->in[i].ctx);
    if (c->u)
        object_release(&c->u->as.object);
}

/* Of a closure's ctx, with the content of n vectors; false after a report. */
static bool call_open(struct direct_call *c, const char *func, void *cls, const void *res, int n,
                      const mlx_vector_array in[])
{
    static const char *const args[] = { "input_0", "input_1", "input_2" };
    *c = (struct direct_call){ .before = capi_reports() };
    c->u = mx_need_room("closure_apply") ? NULL : object_of(func, "cls", cls);
    if (c->u)
        object_retain(&c->u->as.object);
    bool good = c->u && capi_need(func, "a place for the result", "res", res);
    for (int i = 0; i < n && good; i++) {
        int size = 0;
        mx *x = capi_arrays(func, args[i], in[i], &size);
        good = x && (c->in[i].ctx = capi_lend(size, x));
        capi_arrays_free(size, x);
    }
    if (good && capi_result_open(&c->res))
        return true;
    call_close(c);
    return capi_report(), false;
}

/* The function returned `status`: what it left, or NULL after a failure. */
static struct list *call_result(struct direct_call *c, int status)
{
    struct mx_list y = { 0 };
    if (status)
        capi_callback_failed(status, c->before);
    else
        capi_result_push(&c->res, &y);
    call_close(c);
    return capi_list_of_results(&y);
}

/* The content of `res` becomes that, or a failure is reported. */
static int call_end(const char *func, mlx_vector_array *res, struct direct_call *c, int status)
{
    struct list *l = call_result(c, status);
    return l ? capi_list_end(func, &res->ctx, l) : capi_report();
}

/* mlx_closure: arrays in, arrays out */

static int call_program(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct user *u = (struct user *)self;
    struct capi_result res;
    mlx_vector_array in = { capi_lend(n, x) };
    if (capi_result_open(&res) && in.ctx) {
        unsigned long before = capi_reports();
        struct scopes aside;
        int status = CALL(plain, u, &res.vec, in);
        if (status)
            capi_callback_failed(status, before);
        else
            capi_result_push(&res, out);
    }
    capi_result_close(&res);
    capi_list_free(in.ctx);
    return mx_failed();
}

static int call_unary(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct user *u = (struct user *)self;
    if (n != 1) {
        mx_fail("[closure] expected one array for a function of one, got %d", n);
        return 1;
    }
    mlx_array in = { NULL }, res = { NULL };
    unsigned long before = capi_reports();
    MX_SCOPE(NULL); /* x[0] may be on loan of the one around, and stays so */
    if (capi_publish(&in, x[0])) {
        capi_callback_failed(1, before); /* and is reported */
    } else {
        struct scopes aside;
        int status = !scopes_aside(&aside) ? 1 : came_back(&aside, ((unary *)u->fun)(&res, in));
        if (status)
            capi_callback_failed(status, before);
        else if (res.ctx == in.ctx)
            mx_fail("[closure] expected the function to set its result, got the handle of its argument");
        else if (res.ctx)
            list_push(out, capi_opt(res));
        else
            mx_fail("[closure] expected the function to set its result, got an empty handle");
    }
    if (res.ctx == in.ctx)
        res.ctx = NULL;
    mlx_array_free(in);
    mlx_array_free(res);
    return mx_failed();
}

mlx_closure mlx_closure_new_unary(int (*fun)(mlx_array *, const mlx_array))
{
    struct user u = { .as.closure.call = call_unary, .fun = (any_function *)fun };
    return (mlx_closure){ user_new(__func__, HANDLE_closure, u) };
}

int mlx_closure_apply(mlx_vector_array *res, mlx_closure cls, const mlx_vector_array input)
{
    struct closure *f = capi_in_closure(cls);
    struct mx_list y = { 0 };
    int n = 0;
    mx *x = f ? capi_in_arrays(input, &n) : NULL;
    if (x) {
        object_retain(&f->object);
        f->call(f, n, x, &y);
        object_release(&f->object);
    }
    capi_arrays_free(n, x);
    return capi_results_end(__func__, res, &y, NULL, NULL);
}

/* mlx_closure_kwargs: some of the arrays have names */

int mlx_closure_kwargs_apply(mlx_vector_array *res, mlx_closure_kwargs cls, const mlx_vector_array input_0,
                             const mlx_map_string_to_array input_1)
{
    struct direct_call c;
    struct scopes aside;
    if (!call_open(&c, __func__, cls.ctx, res, 1, &input_0))
        return 1;
    const struct map *m = capi_in_map(input_1);
    mlx_map_string_to_array named = { m ? capi_map_lend(m) : NULL };
    int status = named.ctx ? CALL(kwargs, c.u, &c.res.vec, c.in[0], named) : 1;
    capi_map_free(named.ctx);
    return call_end(__func__, res, &c, status);
}

/* mlx_closure_value_and_grad: values and gradients out */

static int call_grads(struct value_and_grad *self, int n, const mx x[], struct mx_list *y, struct mx_list *dx)
{
    struct user *u = (struct user *)self;
    struct capi_result values, gradients;
    mlx_vector_array in = { capi_lend(n, x) };
    bool opened = capi_result_open(&values);
    if (capi_result_open(&gradients) && opened && in.ctx) {
        unsigned long before = capi_reports();
        struct scopes aside;
        int status = CALL(grads, u, &values.vec, &gradients.vec, in);
        if (status) {
            capi_callback_failed(status, before);
        } else {
            capi_result_push(&values, y);
            capi_result_push(&gradients, dx);
        }
    }
    capi_result_close(&values);
    capi_result_close(&gradients);
    capi_list_free(in.ctx);
    return mx_failed();
}

int mlx_closure_value_and_grad_apply(mlx_vector_array *res_0, mlx_vector_array *res_1, mlx_closure_value_and_grad cls,
                                     const mlx_vector_array input)
{
    struct value_and_grad *f = mx_need_room("closure_apply") ? NULL : object_of(__func__, "cls", cls.ctx);
    struct mx_list y = { 0 }, dx = { 0 };
    int n = 0;
    mx *x = f ? capi_in_arrays(input, &n) : NULL;
    if (x) {
        object_retain(&f->object);
        f->call(f, n, x, &y, &dx);
        object_release(&f->object);
    }
    capi_arrays_free(n, x);
    return capi_results_end(__func__, res_0, &y, res_1, &dx);
}

/* mlx_closure_custom: a vjp rule */

static int call_custom(struct vjp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx ct[],
                       struct mx_list *dx)
{
    struct user *u = (struct user *)self;
    struct capi_result res;
    mlx_vector_array in = { capi_lend(nx, x) }, cts = { capi_lend(ny, ct) };
    mlx_vector_array out = { capi_lend(ny, y) };
    if (capi_result_open(&res) && in.ctx && cts.ctx && out.ctx) {
        unsigned long before = capi_reports();
        struct scopes aside;
        int status = CALL(custom, u, &res.vec, in, cts, out);
        if (status)
            capi_callback_failed(status, before);
        else
            capi_result_push(&res, dx);
    }
    capi_result_close(&res);
    capi_list_free(in.ctx);
    capi_list_free(cts.ctx);
    capi_list_free(out.ctx);
    return mx_failed();
}

int mlx_closure_custom_apply(mlx_vector_array *res, mlx_closure_custom cls, const mlx_vector_array input_0,
                             const mlx_vector_array input_1, const mlx_vector_array input_2)
{
    struct direct_call c;
    struct scopes aside;
    if (!call_open(&c, __func__, cls.ctx, res, 3, (mlx_vector_array[]){ input_0, input_1, input_2 }))
        return 1;
    return call_end(__func__, res, &c, CALL(custom, c.u, &c.res.vec, c.in[0], c.in[1], c.in[2]));
}

/* mlx_closure_custom_jvp: a jvp rule, given the tangents that there are and their numbers */

static int call_custom_jvp(struct jvp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx t[],
                           struct mx_list *dy)
{
    struct user *u = (struct user *)self;
    struct capi_result res;
    int n = 0, *argnums = mx_malloc((size_t)nx * sizeof *argnums);
    mx *given = mx_malloc((size_t)nx * sizeof *given);
    (void)ny, (void)y;
    for (int i = 0; argnums && given && i < nx; i++)
        if (t[i]) {
            argnums[n] = i;
            given[n++] = t[i];
        }
    mlx_vector_array in = { capi_lend(nx, x) }, ts = { given ? capi_lend(n, given) : NULL };
    if (capi_result_open(&res) && in.ctx && ts.ctx && argnums) {
        unsigned long before = capi_reports();
        struct scopes aside;
        int status = CALL(custom_jvp, u, &res.vec, in, ts, argnums, (size_t)n);
        if (status)
            capi_callback_failed(status, before);
        else
            capi_result_push(&res, dy);
    }
    capi_result_close(&res);
    capi_list_free(in.ctx);
    capi_list_free(ts.ctx);
    free(given);
    free(argnums);
    return mx_failed();
}

/* mlx_closure_custom_vmap: a vmap rule */

static int call_custom_vmap(struct vmap_rule *self, int nx, const mx x[], const int axis[], int ny, struct mx_list *y,
                            int yaxis[])
{
    struct user *u = (struct user *)self;
    struct capi_result res;
    struct capi_axes axes;
    bool opened = capi_axes_open(&axes);
    mlx_vector_array in = { capi_lend(nx, x) };
    if (capi_result_open(&res) && opened && in.ctx) {
        unsigned long before = capi_reports();
        struct scopes aside;
        int status = CALL(custom_vmap, u, &res.vec, &axes.vec, in, axis, (size_t)nx);
        const struct list *l = axes.vec.ctx;
        if (status)
            capi_callback_failed(status, before);
        else if (!l || l->n != (size_t)ny)
            mx_fail("[custom_function] expected %d axes from the vmap rule, one for each result, got %zu", ny,
                    l ? l->n : 0);
        else
            capi_result_push(&res, y);
        for (int k = 0; k < ny && !mx_failed(); k++) yaxis[k] = l->v[k].number;
    }
    capi_result_close(&res);
    capi_axes_close(&axes);
    capi_list_free(in.ctx);
    return mx_failed();
}

int mlx_closure_custom_jvp_apply(mlx_vector_array *res, mlx_closure_custom_jvp cls, const mlx_vector_array input_0,
                                 const mlx_vector_array input_1, const int *input_2, size_t input_2_num)
{
    struct direct_call c;
    struct scopes aside;
    if (input_2_num && !capi_given(input_2, "numbers"))
        return capi_report();
    if (!call_open(&c, __func__, cls.ctx, res, 2, (mlx_vector_array[]){ input_0, input_1 }))
        return 1;
    return call_end(__func__, res, &c, CALL(custom_jvp, c.u, &c.res.vec, c.in[0], c.in[1], input_2, input_2_num));
}

int mlx_closure_custom_vmap_apply(mlx_vector_array *res_0, mlx_vector_int *res_1, mlx_closure_custom_vmap cls,
                                  const mlx_vector_array input_0, const int *input_1, size_t input_1_num)
{
    struct direct_call c;
    struct scopes aside;
    if (!capi_out(res_1) || (input_1_num && !capi_given(input_1, "axes")))
        return capi_report();
    if (!call_open(&c, __func__, cls.ctx, res_0, 1, &input_0))
        return 1;
    struct capi_axes axes;
    bool opened = capi_axes_open(&axes);
    int status = opened ? CALL(custom_vmap, c.u, &c.res.vec, &axes.vec, c.in[0], input_1, input_1_num) : 1;
    struct list *y = call_result(&c, status), *of = y ? capi_list_copy(__func__, "axes", axes.vec.ctx) : NULL;
    int failed =
        y ? capi_publish_both(CAPI_HALF(vector_array, res_0, y), CAPI_HALF(vector_int, res_1, of)) : capi_report();
    capi_axes_close(&axes);
    return failed;
}

/* What every kind has.  `member` is what its transforms call. */

#define HANDLE(name)                                                                        \
    mlx_##name mlx_##name##_new(void) { return (mlx_##name){ NULL }; }                      \
    int mlx_##name##_free(mlx_##name cls) { return free_argument(HANDLE_##name, cls.ctx); } \
    int mlx_##name##_set(mlx_##name *cls, const mlx_##name src)                             \
    {                                                                                       \
        struct object *o = object_of(__func__, "src", src.ctx);                             \
        return publish(__func__, "cls", HANDLE_##name, cls ? &cls->ctx : NULL, o);          \
    }

#define FUNC(name, type, member)                                                                        \
    HANDLE(name)                                                                                        \
    mlx_##name mlx_##name##_new_func(type *fun)                                                         \
    {                                                                                                   \
        struct user u = { member, .fun = (any_function *)fun };                                         \
        return (mlx_##name){ user_new(__func__, HANDLE_##name, u) };                                    \
    }                                                                                                   \
    mlx_##name mlx_##name##_new_func_payload(type##_payload *fun, void *payload, void (*dtor)(void *))  \
    {                                                                                                   \
        struct user u = { member, .fun = (any_function *)fun, .with_payload = true, .payload = payload, \
                          .dtor = dtor };                                                               \
        return (mlx_##name){ user_new(__func__, HANDLE_##name, u) };                                    \
    }

FUNC(closure, plain, .as.closure.call = call_program)
FUNC(closure_kwargs, kwargs, .as.closure.call = NULL)
FUNC(closure_value_and_grad, grads, .as.value_and_grad.call = call_grads)
FUNC(closure_custom, custom, .as.vjp.call = call_custom)
FUNC(closure_custom_jvp, custom_jvp, .as.jvp.call = call_custom_jvp)
FUNC(closure_custom_vmap, custom_vmap, .as.vmap.call = call_custom_vmap)
