/* op.c: the table of operations, the types they compute in, and whether this thread traces. */
#include "ops/op.h"

#include <stdlib.h>

#include "core/buffer.h"
#include "core/shape.h"
#include "ops/reduce.h"
#include "ops/scan.h"

const struct op *const op_table[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = &op_##name,
#define BINARY(name, ...) [OP_##name] = &op_##name,
#define OTHER(name, ...) [OP_##name] = &op_##name,
#include "ops/ops.def"
};

const char *op_called(const struct node *n)
{
    switch (n->op->id) {
    case OP_reduce: return fold_name((enum fold)((const struct reduce_args *)n->args)->fold);
    case OP_scan: return scan_fold_name((enum scan_fold)((const struct scan_args *)n->args)->fold);
    default: return n->op->name;
    }
}

void no_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)c, (void)ct, (void)want, (void)dx;
}

void no_jvp(const struct call *c, const mx t[], mx dy[]) { (void)c, (void)t, (void)dy; }

/* ---- dtypes */

enum dtype op_compute_dtype(const struct op *op, enum dtype t)
{
    static const char *const taken[] = { [REAL] = "real numbers",
                                         [FLOAT] = "real numbers",
                                         [INTEGER] = "integers or bool",
                                         [SHIFTED] = "integers or bool" };
    bool bad = false;
    switch (op->dtypes) {
    case ANY: return t;
    case NUMERIC: return t == DT_bool_ ? DT_int32 : t;
    case REAL: bad = dtype_is_complex(t); break;
    case INEXACT: return dtype_is_inexact(t) ? t : DT_float32;
    case FLOAT:
        if (!dtype_is_inexact(t))
            return DT_float32;
        bad = dtype_is_complex(t);
        break;
    case INTEGER: bad = dtype_is_inexact(t); break;
    case SHIFTED:
        if (t == DT_bool_)
            return DT_uint8;
        bad = dtype_is_inexact(t);
        break;
    case BOOL: return DT_bool_;
    }
    if (bad)
        mx_fail("[%s] expected %s, got %s", op->name, taken[op->dtypes], dtype_name(t));
    return t;
}

enum dtype op_result_dtype(const struct op *op, enum dtype t)
{
    if (op->traits & GIVES_BOOL)
        return DT_bool_;
    if ((op->traits & GIVES_REAL) && dtype_is_complex(t))
        return DT_float32;
    return t;
}

/* ---- traces for any shape */

/* None of them lies on the stack, which coroutines move. */
static bool (*inside)(void *outer, void **site);

struct mx_list *shapeless_checks(void) { return shapeless() ? &this_thread()->innermost->checks : NULL; }

mx shapeless_check(mx y) { return shapeless() && list_push(&this_thread()->innermost->checks, y) ? MX_NIL : y; }

void sizes_are_read(mx x)
{
    if (!shapeless() || !x->tracer)
        return;
    struct mx_list *reads = &this_thread()->innermost->reads;
    for (int i = reads->n; i-- > 0;)
        if (reads->v[i].it == x)
            return;
    list_push(reads, x);
}

bool shape_was_read(int ndim, const int *shape)
{
    for (int i = shapeless() ? this_thread()->innermost->reads.n : 0; i-- > 0;)
        if (shape_is(this_thread()->innermost->reads.v[i].it, ndim, shape))
            return true;
    return false;
}

void shapes_matter(const char *why)
{
    if (shapeless() && !this_thread()->innermost->why)
        this_thread()->innermost->why = why;
}

void ranks_matter(void)
{
    if (this_thread()->innermost)
        this_thread()->innermost->ranks = true;
}

void traces_take_turns_by(bool (*f)(void *outer, void **site)) { inside = f; }

struct shapeless_trace *shapeless_begin(bool any)
{
    struct shapeless_trace *t = mx_malloc(sizeof *t);
    if (!t)
        return NULL;
    *t = (struct shapeless_trace){ .any = any, .outer = this_thread()->innermost };
    if (inside && !inside(this_thread()->innermost ? this_thread()->innermost->site : NULL, &t->site))
        for (struct shapeless_trace *o = t; o; o = o->outer) o->why = "traces that took turns";
    return this_thread()->innermost = t;
}

void shapeless_end(struct shapeless_trace *t)
{
    struct shapeless_trace **link = &this_thread()->innermost;
    while (*link && *link != t) link = &(*link)->outer;
    if (*link)
        *link = t->outer;
}

void shapeless_free(struct shapeless_trace *t)
{
    if (!t)
        return;
    shapeless_end(t);
    list_clear(&t->checks);
    list_clear(&t->reads);
    free(t);
}

const char *traced_name(void)
{
    const struct shapeless_trace *t = this_thread()->innermost;
    while (t && !t->name) t = t->outer;
    return t ? t->name : NULL;
}
