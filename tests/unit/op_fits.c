/* Arguments and operands drawn at random, as a file might hold them, for every operation whose arguments are read
 * from files: its .fits and its rule of shapes refuse them, or it gives what the rule says, and its other rules hold
 * too.  Never a crash. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/memory.h"
#include "core/shape.h"
#include "mlxfn/mlxfn.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/effort.h"
#include "support/sample.h"
#include "transform/graph.h"

enum { OPERANDS = 9, RESULTS = 4, ROOM = 1 << 12, SMALL = 1 << 16 };

/* A number that may be a size, an axis or a flag, near one of those that `like` has; seldom one that is far off. */
static int64_t number(mx like)
{
    static const int64_t far[] = { INT32_MAX,        INT32_MIN,     INT64_MAX,    INT64_MIN,
                                   (int64_t)1 << 40, SIZE_OF(0, 0), SIZE_OF(9, 9) };
    if (draw(12) == 0)
        return far[draw(sizeof far / sizeof *far)];
    return like && like->ndim && draw(3) == 0 ? like->shape[draw(like->ndim)] : (int64_t)draw(5) - 1;
}

static double real(void)
{
    static const double far[] = { 0, -1, 1e-300, 1e300, (double)INFINITY, (double)NAN };
    return draw(6) ? (double)draw(5) + 0.5 : far[draw(sizeof far / sizeof *far)];
}

/* The state of an extension, at random. */
static uint64_t state_of(const struct op *op, mx like, char **bytes)
{
    struct bytes b = { 0 };
    int length = draw(5); /* of most lists */
    for (const struct field *f = op->fields; f && f->kind; f++) {
        put_text(&b, f->name, strlen(f->name));
        put_u8(&b, f->kind);
        double d = real();
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        int n = draw(4) ? like && draw(2) ? like->ndim : length : (int)draw(6);
        switch (f->kind) {
        case F_BOOL: put_u8(&b, draw(2)); break;
        case F_INT: put_i32(&b, (int)number(like)); break;
        case F_ENUM: put_i32(&b, (int)draw(f->last + 2u)); break;
        case F_I64: put_u64(&b, (uint64_t)number(like)); break;
        case F_F64: put_u64(&b, bits); break;
        case F_INTS:
        case F_SIZES:
            put_u64(&b, (uint64_t)n);
            for (int i = 0; i < n; i++) put_u64(&b, (uint64_t)number(like));
            break;
        default: put_text(&b, "text", 4);
        }
    }
    put_u8(&b, 0);
    *bytes = (char *)b.v;
    return b.n;
}

/* An operand: often of the type and shape of the one before. */
static mx operand(mx before)
{
    int shape[4], n = before && draw(3) ? before->ndim : (int)draw(5);
    enum dtype t = before && draw(4) ? before->dtype : draw(2) ? DT_float32 : (enum dtype)draw(DT_COUNT);
    n = n > 4 ? 4 : n;
    for (int i = 0; i < n; i++) shape[i] = before && i < before->ndim && draw(5) ? before->shape[i] : (int)draw(5);
    return sample_between(t, n, shape, 0, 3);
}

static int small(int n, const mx y[])
{
    for (int k = 0; k < n; k++)
        if (y[k]->size > SMALL)
            return 0;
    return 1;
}

/* The operation in a file, as a function. */
struct said {
    struct closure closure;
    const struct op *op;
    const char *state;
    uint64_t length;
    int nout;
};

static int call_said(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct said *s = (struct said *)self;
    mx y[RESULTS];
    MX_SCOPE(NULL);
    extension_build(s->op, s->state, s->length, n, x, s->nout, y);
    for (int k = 0; k < s->nout && !mx_failed(); k++) list_push(out, y[k]);
    return mx_failed();
}

static void evaluated(struct mx_list *y)
{
    if (!mx_failed() && small(y->n, (mx *)y->v))
        mx_eval(y->n, (mx *)y->v);
    mx_error_clear();
    list_clear(y);
}

/* Derivatives, a batch and a graph for any shape: numbers or errors. */
static void transformed(struct said *s, int n, const mx x[], const mx y[])
{
    struct mx_list a = { 0 }, b = { 0 };
    mx both[OPERANDS];
    int axes[OPERANDS];
    mx_vjp(&s->closure, n, x, s->nout, y, &a, &b);
    list_clear(&a);
    evaluated(&b);
    mx_jvp(&s->closure, n, x, n, x, &a, &b);
    list_clear(&a);
    evaluated(&b);
    for (int i = 0; i < n; i++) {
        axes[i] = draw(3) ? 0 : VMAP_NONE;
        both[i] = axes[i] ? x[i] : mx_stack(2, (mx[]){ x[i], x[i] }, 0);
    }
    mx_vmap(&s->closure, n, both, axes, &a);
    evaluated(&a);
    struct graph *g = graph_trace_shapeless(&s->closure, n, x, NULL);
    bool fits = false;
    if (g) {
        graph_call_fitting(g, n, both, &a, &fits);
        object_release(&g->object);
    }
    evaluated(&a);
}

/* Non-zero where it was taken. */
static int taken(const struct op *op)
{
    MX_SCOPE(NULL);
    mx x[OPERANDS] = { 0 }, y[RESULTS];
    char *state;
    int nin = 1 + (int)draw(draw(3) ? 3 : OPERANDS), nout = draw(3) ? 1 : 1 + (int)draw(RESULTS);
    nin -= draw(20) == 0;
    for (int i = 0; i < nin; i++) x[i] = operand(i ? x[i - 1] : NULL);
    uint64_t n = state_of(op, nin ? x[0] : NULL, &state);
    extension_build(op, state, n, nin, x, nout, y);
    bool good = !mx_failed();
    for (int k = 0; k < nout; k++)
        if (is_nil(y[k]) == good)
            fail_msg("%s: %s", op->name, good ? "neither a result nor an error" : "a result and an error");
    if (good && small(nout, y) && mx_eval(nout, y) && !mx_error_message()[0])
        fail_msg("%s: an error without a message", op->name);
    mx_error_clear();
    if (good && small(nout, y))
        transformed(&(struct said){ { { .refs = 1 }, call_said }, op, state, n, nout }, nin, x, y);
    free(state);
    return good;
}

static void what_is_said_at_random(void **unused)
{
    (void)unused;
    for (int id = 0; id < OP_COUNT; id++) {
        const struct op *op = op_table[id];
        if (!op->fits || op->rebuild) /* graphs are files of their own: tests/fuzz */
            continue;
        long live = array_live_count();
        int n = 0, most = times(op->fields ? 20000 : 1000);
        for (int i = 0; i < most; i++) n += taken(op);
        print_message("%-24s %6d of %d\n", op->name, n, most);
        if (array_live_count() != live)
            fail_msg("%s: %ld arrays left", op->name, array_live_count() - live);
    }
}

int main(void)
{
    /* Batches of matrices without elements may be of any number, and places in them are counted. */
    memory_set_limit((size_t)1 << 30);
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_said_at_random) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
