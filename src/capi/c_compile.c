/* c_compile.c: compiled functions. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/lock.h"
#include "transform/compile.h"

_Static_assert((int)MLX_COMPILE_MODE_ENABLED == COMPILE_ENABLED, "modes are one list");

/* ---- closures */

struct compiled_closure {
    struct closure closure;
    struct closure *f;
    struct compiled *c;
    int n;
    uint64_t constants[];
};

enum { MANY_TRACES = 33 };

static int call_compiled(struct closure *self, int n, const mx x[], struct mx_list *y)
{
    struct compiled_closure *f = (struct compiled_closure *)self;
    int64_t trace, before = compiled_traces(f->c);
    int failed = compiled_call(f->c, f->f, f->n, f->constants, n, x, y, &trace);
    if (!failed && before < MANY_TRACES && compiled_traces(f->c) >= MANY_TRACES) {
        char msg[128];
        snprintf(msg, sizeof msg, "[compile] a function was traced more than %d times; MLX_LOG=compile tells why",
                 MANY_TRACES - 1);
        capi_warn(msg);
    }
    return failed;
}

static void compiled_destroy(struct object *o)
{
    struct compiled_closure *f = (struct compiled_closure *)o;
    object_release(&f->f->object);
    compiled_release(f->c);
    free(f);
}

/* Takes over the reference to c. */
static int publish_compiled(const char *func, mlx_closure *res, struct closure *f, struct compiled *c, size_t n,
                            const uint64_t *constants)
{
    struct compiled_closure *g = f && c && n < INT_MAX ? mx_malloc(sizeof *g + n * sizeof *constants) : NULL;
    if (!g) {
        compiled_release(c);
        return capi_closure_end(func, res, NULL);
    }
    object_retain(&f->object);
    *g = (struct compiled_closure){
        .closure = { { .refs = 1, .destroy = compiled_destroy }, call_compiled }, .f = f, .c = c, .n = (int)n
    };
    if (n)
        memcpy(g->constants, constants, n * sizeof *constants);
    return capi_closure_end(func, res, &g->closure);
}

int mlx_compile(mlx_closure *res, const mlx_closure fun, bool shapeless)
{
    struct closure *f = capi_in_closure(fun);
    return publish_compiled(__func__, res, f, f ? compiled_new(NULL, shapeless) : NULL, 0, NULL);
}

/* ---- functions by number */

LOCK(lock, LOCK_LEAF);
static struct known {
    struct known *next;
    uintptr_t id;
    bool shapeless;
    struct compiled *c;
} * all_known;

static struct compiled *known_compiled(uintptr_t id, bool shapeless)
{
    lock_take(&lock);
    struct known *k = all_known;
    while (k && (k->id != id || k->shapeless != shapeless)) k = k->next;
    if (!k && (k = mx_malloc(sizeof *k))) {
        *k = (struct known){ all_known, id, shapeless, compiled_new(NULL, shapeless) };
        all_known = k;
    }
    struct compiled *c = k ? k->c : NULL;
    if (c)
        compiled_retain(c);
    lock_give(&lock);
    return c;
}

static void forget_compiled(bool all, uintptr_t id)
{
    struct known *gone = NULL;
    lock_take(&lock);
    for (struct known **p = &all_known, *k; (k = *p);) {
        if (!all && k->id != id) {
            p = &k->next;
            continue;
        }
        *p = k->next;
        k->next = gone;
        gone = k;
    }
    lock_give(&lock);
    for (struct known *next; gone; gone = next) {
        next = gone->next;
        if (gone->c)
            compiled_clear(gone->c);
        compiled_release(gone->c);
        free(gone);
    }
}

int mlx_detail_compile(mlx_closure *res, const mlx_closure fun, uintptr_t fun_id, bool shapeless,
                       const uint64_t *constants, size_t constants_num)
{
    struct closure *f = capi_in_closure(fun);
    if (!f || (constants_num && !capi_given(constants, "numbers")))
        return capi_report();
    return publish_compiled(__func__, res, f, known_compiled(fun_id, shapeless), constants_num, constants);
}

int mlx_detail_compile_clear_cache(void)
{
    forget_compiled(true, 0);
    return capi_end();
}

int mlx_detail_compile_erase(uintptr_t fun_id)
{
    forget_compiled(false, fun_id);
    return capi_end();
}

/* ---- modes */

int mlx_set_compile_mode(mlx_compile_mode mode)
{
    if ((int)mode < 0 || mode > MLX_COMPILE_MODE_ENABLED) {
        mx_fail("[set_compile_mode] expected a mode from 0 to %d, got %d", MLX_COMPILE_MODE_ENABLED, (int)mode);
        return capi_report();
    }
    compile_set_mode((enum compile_mode)mode);
    return 0;
}

int mlx_disable_compile(void) { return mlx_set_compile_mode(MLX_COMPILE_MODE_DISABLED); }
int mlx_enable_compile(void) { return mlx_set_compile_mode(MLX_COMPILE_MODE_ENABLED); }

bool mlx_compile_is_enabled(void) { return compile_mode() != COMPILE_DISABLED; }

/* ---- for bindings */

static void release(void *c) { compiled_release(c); }

mlx_compiled mlx_compiled_new(const char *name, bool shapeless)
{
    struct compiled *c = compiled_new(name, shapeless);
    if (!c)
        capi_report();
    return (mlx_compiled){ capi_made_or(HANDLE_compiled, c, __func__, release) };
}

int mlx_compiled_free(mlx_compiled c)
{
    capi_gone(HANDLE_compiled, c.ctx);
    compiled_release(c.ctx);
    return 0;
}

int mlx_compiled_apply(mlx_vector_array *res, int64_t *trace, mlx_compiled c, const mlx_closure fun,
                       const uint64_t *constants, size_t constants_num, const mlx_vector_array input)
{
    struct mx_list y = { 0 };
    int64_t number = -1;
    int n = 0;
    struct closure *f = capi_in_closure(fun);
    bool given = f && capi_held(__func__, "a compiled function", "c", c.ctx) &&
                 (!constants_num || capi_given(constants, "numbers"));
    mx *x = given ? capi_in_arrays(input, &n) : NULL;
    if (x && constants_num < INT_MAX) {
        object_retain(&f->object);
        compiled_retain(c.ctx);
        compiled_call(c.ctx, f, (int)constants_num, constants, n, x, &y, &number);
        compiled_release(c.ctx);
        object_release(&f->object);
    }
    if (trace)
        *trace = number;
    capi_arrays_free(n, x);
    return capi_results_end(__func__, res, &y, NULL, NULL);
}

int mlx_compiled_attach(mlx_compiled c, int64_t trace, void *payload, void (*dtor)(void *))
{
    if (!capi_held(__func__, "a compiled function", "c", c.ctx))
        return capi_report();
    compiled_attach(c.ctx, trace, payload, dtor);
    return 0;
}

void *mlx_compiled_payload(mlx_compiled c, int64_t trace) { return c.ctx ? compiled_payload(c.ctx, trace) : NULL; }

int mlx_compiled_visit(mlx_compiled c, int (*visit)(void *payload, void *arg), void *arg)
{
    if (!capi_held(__func__, "a compiled function", "c", c.ctx) ||
        !capi_need(__func__, "a function", "visit", (const void *)(uintptr_t)visit))
        return capi_report();
    return compiled_visit(c.ctx, visit, arg);
}

int mlx_compiled_forget(mlx_compiled c)
{
    if (!capi_held(__func__, "a compiled function", "c", c.ctx))
        return capi_report();
    compiled_clear(c.ctx);
    return 0;
}

int mlx_compiled_describe(mlx_compiled c, const char *const *names, size_t names_num, const char *why)
{
    if (!capi_held(__func__, "a compiled function", "c", c.ctx))
        return capi_report();
    for (size_t i = 0; names && i < names_num; i++)
        if (!capi_need(__func__, "names", "names", names[i]))
            return capi_report();
    return compiled_describe(c.ctx, names ? (int)names_num : 0, names, why) ? capi_report() : 0;
}

int mlx_compiled_text(mlx_string *res, mlx_compiled c)
{
    if (!capi_held(__func__, "a compiled function", "c", c.ctx))
        return capi_report();
    return capi_publish_text(res, compiled_text(c.ctx));
}

int64_t mlx_compiled_count(mlx_compiled c) { return c.ctx ? compiled_traces(c.ctx) : 0; }
int mlx_compiled_limit(mlx_compiled c) { return c.ctx ? compiled_limit(c.ctx) : 0; }

int mlx_compiled_set_limit(mlx_compiled c, int limit)
{
    if (!capi_held(__func__, "a compiled function", "c", c.ctx))
        return capi_report();
    if (limit < 1) {
        mx_fail("[compile] expected room for one trace at least, got %d", limit);
        return capi_report();
    }
    compiled_set_limit(c.ctx, limit);
    return 0;
}
