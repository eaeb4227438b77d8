/* op.c: the table of operations, the types they compute in, and whether this thread traces. */
#include "ops/op.h"

#include "core/shape.h"

const struct op *const op_table[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = &op_##name,
#define BINARY(name, ...) [OP_##name] = &op_##name,
#define OTHER(name, ...) [OP_##name] = &op_##name,
#include "ops/ops.def"
};

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

static _Thread_local struct shapeless_trace any_shape;

bool shapeless(void) { return any_shape.checks; }
struct mx_list *shapeless_checks(void) { return any_shape.checks; }

mx shapeless_check(mx y) { return any_shape.checks && list_push(any_shape.checks, y) ? MX_NIL : y; }

void shapes_matter(const char *why)
{
    if (any_shape.checks && !any_shape.why)
        any_shape.why = why;
}

void ranks_matter(void) { any_shape.ranks = true; }

void sizes_are_read(mx x)
{
    struct mx_list *reads = any_shape.reads;
    if (!reads || !x->tracer)
        return;
    for (int i = reads->n; i-- > 0;)
        if (reads->v[i].it == x)
            return;
    list_push(reads, x);
}

bool shape_was_read(int ndim, const int *shape)
{
    const struct mx_list *reads = any_shape.reads;
    for (int i = reads ? reads->n : 0; i-- > 0;)
        if (shape_is(reads->v[i].it, ndim, shape))
            return true;
    return false;
}

struct shapeless_trace shapeless_begin(struct mx_list *checks, struct mx_list *reads)
{
    struct shapeless_trace outer = any_shape;
    any_shape = (struct shapeless_trace){ .checks = checks, .reads = reads };
    return outer;
}

struct shapeless_trace shapeless_end(struct shapeless_trace outer)
{
    struct shapeless_trace inner = any_shape;
    any_shape = outer;
    return inner;
}
