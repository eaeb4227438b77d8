/* check.c: see check.h.
 *
 * Numbers are looked at by operations that run where the entry did, so any device can. */
#include "run/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/settings.h"
#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "run/control.h"
#include "run/eval.h"

atomic_int checks_asked = -1;

enum checks checks_first(void)
{
    static const char *const words[] = { "nan", "inf", NULL };
    static const enum checks meant[] = { CHECK_NAN, CHECK_INF };
    int unknown = -1, word = setting_word("MLX_CHECK", words, -1);
    enum checks first = word < 0 ? CHECK_NOTHING : meant[word];
    atomic_compare_exchange_strong(&checks_asked, &unknown, first);
    return (enum checks)atomic_load(&checks_asked);
}

enum checks checks_set(enum checks c)
{
    enum checks was = checks_now();
    atomic_store(&checks_asked, c);
    return was;
}

/* ---- looking */

static _Thread_local bool looking; /* at what an entry made: what runs for that is not looked at */

/* Runs what makes y, each operation by itself; y is READY after it. */
static int make(struct stream *s, mx y)
{
    struct node *n = y->node;
    if (is_nil(y))
        return 1;
    if (atomic_load_explicit(&y->status, memory_order_relaxed) == READY)
        return 0;
    for (int i = 0; i < n->nin; i++)
        if (make(s, n->in[i]))
            return 1;
    struct entry e = { .node = n, .one = y, .keep = true, .before = -1 };
    if (mx_run_entry(s, &e))
        return 1;
    atomic_store_explicit(&y->status, READY, memory_order_relaxed);
    return 0;
}

/* The one number that y is. */
static int number(struct stream *s, mx y, void *to)
{
    return make(s, y) || buffer_read(y->buf, (size_t)y->offset * itemsize(y), to, itemsize(y));
}

/* How many there are of a kind, and the first of them. */
struct found {
    int64_t count;
    uint32_t first;
};

static int count_true(struct stream *s, mx is, struct found *f)
{
    uint8_t any = 0;
    if (number(s, mx_any(is, NULL, 0, false), &any))
        return 1;
    return any && (number(s, mx_sum(mx_astype(is, DT_int64), NULL, 0, false), &f->count) ||
                   number(s, mx_arg_reduce_all(is, ARG_MAX, false), &f->first));
}

struct special {
    struct found nan, inf;
};

/* Adds what x has of them; `inf`: of infinities too. */
static int look(struct stream *s, mx x, bool inf, struct special *all)
{
    struct special of = { 0 };
    if (!x->buf || !x->size || !dtype_is_inexact(x->dtype))
        return 0;
    MX_SCOPE(s);
    mx y = array_alias(x); /* x itself may not be READY to others yet */
    if (count_true(s, mx_isnan(y), &of.nan) || (inf && count_true(s, mx_isinf(y), &of.inf)))
        return 1;
    all->nan.count += of.nan.count;
    all->inf.count += of.inf.count;
    all->nan.first = of.nan.first;
    all->inf.first = of.inf.first;
    return 0;
}

/* ---- telling */

/* "(2, 5)": where element number `at` is. */
static const char *place_of(mx x, uint32_t at)
{
    int place[MX_MAX_NDIM];
    for (int i = x->ndim; i-- > 0; at /= (uint32_t)x->shape[i]) place[i] = (int)(at % (uint32_t)x->shape[i]);
    return shape_text(x->ndim, place);
}

static void tell(const struct node *n, mx y, const struct found *f, const char *what, const char *from)
{
    char first[512] = "";
    if (y->ndim && y->size <= UINT32_MAX)
        snprintf(first, sizeof first, ", first at %s", place_of(y, f->first));
    mx_fail_as(MX_RUNTIME, "[%s] made %lld %s of %lld element%s from %s: output %s %s%s", op_called(n),
               (long long)f->count, what, (long long)y->size, y->size == 1 ? "" : "s", from, dtype_name(y->dtype),
               shape_of(y), first);
}

static int check_result(struct stream *s, struct entry *e, mx y, bool inf)
{
    const struct node *n = e->node;
    struct special made = { 0 }, given = { 0 };
    if (look(s, y, inf, &made))
        return 1;
    if (!made.nan.count && !made.inf.count)
        return 0;
    for (int i = 0; i < n->nin; i++)
        if (look(s, n->in[i], true, &given))
            return 1;
    bool finite = !given.nan.count && !given.inf.count;
    const char *from = !n->nin ? "no operands" : finite ? "finite operands" : "operands with infinities";
    if (made.nan.count && !given.nan.count)
        tell(n, y, &made.nan, "NaN", from);
    else if (made.inf.count && finite)
        tell(n, y, &made.inf, made.inf.count == 1 ? "infinity" : "infinities", from);
    return mx_failed();
}

/* What only moves numbers makes none, nor does a file; in loops and branches the body's operations are looked at. */
static bool makes_numbers(const struct op *op) { return !(op->traits & VIEW) && op->id != OP_load && !control_is(op); }

int check_results(struct stream *s, struct entry *e)
{
    if (looking || !makes_numbers(e->node->op))
        return 0;
    int failed = 0;
    looking = true;
    for (int k = 0; k < e->node->nout && !failed; k++)
        failed = check_result(s, e, entry_out(e)[k], checks_now() == CHECK_INF);
    looking = false;
    return failed;
}
