/* node.c: nodes, and the argument descriptions that copying, comparing and printing share. */
#include "core/node.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/hash.h"
#include "core/lock.h"
#include "core/print.h"
#include "core/refs.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/slab.h"

/* ---- locks */

LOCK(graph, LOCK_GRAPH);
/* Guards the weak pointers of nodes with several outputs; taken after the graph lock where both are. */
LOCK(siblings, LOCK_LEAF);

void graph_lock(void) { lock_take(&graph); }
bool graph_try_lock(void) { return lock_try(&graph); }
void graph_unlock(void) { lock_give(&graph); }

uint32_t walk_begin(void)
{
    static uint32_t epoch;
    if (++epoch == 0) /* the mark of fresh arrays */
        ++epoch;
    return epoch;
}

/* ---- traces */

/* A number is a place in `open_at`, in its lower bits, and a count. */
enum { PLACES = 255, PLACE = 255 };
static _Atomic uint32_t open_at[PLACES]; /* the number that is open there, or 0 */
static atomic_int n_open;                /* threads that trace, with a place or without */

uint32_t trace_number(void)
{
    const struct thread *mine = this_thread();
    return mine->traces ? mine->trace : (uint32_t)TRACE_ANY;
}

bool trace_any_open(void) { return atomic_load_explicit(&n_open, memory_order_acquire) > 0; }

bool trace_is_open(uint32_t n)
{
    if (n == (uint32_t)TRACE_ANY)
        return trace_any_open();
    return atomic_load_explicit(&open_at[n & PLACE], memory_order_acquire) == n;
}

uint32_t trace_of_both(uint32_t a, uint32_t b)
{
    if (a == b || !a || !b)
        return a | b;
    bool of_a = trace_is_open(a), of_b = trace_is_open(b);
    return of_a && of_b ? (uint32_t)TRACE_ANY : of_a ? a : b;
}

/* At the place that this thread had before, where that is free. */
static uint32_t open_number(uint32_t last)
{
    static _Atomic uint32_t count;
    uint32_t above = (atomic_fetch_add(&count, 1) % (UINT32_MAX >> 8) + 1) << 8;
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t place = ((last & PLACE) + i) % PLACES, none = 0;
        if (atomic_compare_exchange_strong(&open_at[place], &none, above | place))
            return above | place;
    }
    return (uint32_t)TRACE_ANY;
}

void trace_begin(void)
{
    struct thread *mine = this_thread();
    if (mine->traces++)
        return;
    atomic_fetch_add(&n_open, 1);
    mine->trace = open_number(mine->trace);
}

void trace_end(void)
{
    struct thread *mine = this_thread();
    if (--mine->traces)
        return;
    if (mine->trace != (uint32_t)TRACE_ANY)
        atomic_store(&open_at[mine->trace & PLACE], 0);
    atomic_fetch_sub(&n_open, 1);
}

/* The other threads do not go on in a child. */
static void forget_traces(void)
{
    const struct thread *mine = this_thread();
    for (uint32_t i = 0; i < PLACES; i++)
        if (!mine->traces || i != (mine->trace & PLACE))
            atomic_store(&open_at[i], 0);
    atomic_store(&n_open, mine->traces > 0);
}

__attribute__((constructor)) static void survive_fork(void) { pthread_atfork(NULL, NULL, forget_traces); }

/* ---- objects that arguments own */

void object_retain(struct object *o) { atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed); }

void object_release(struct object *o)
{
    if (o && last_goes(&o->refs))
        o->destroy(o);
}

/* ---- arguments */

#define AT(type, args, f) (*(type *)((char *)(args) + (f)->offset))

static const struct field *op_fields(const struct op *op)
{
    static const struct field none[1];
    return op->fields ? op->fields : none;
}

static size_t round8(size_t n) { return (n + 7) & ~(size_t)7; }

/* Bytes of the argument struct and of what its fields point at. */
static size_t args_bytes(const struct op *op, const void *args)
{
    size_t n = round8(op->args_size);
    for (const struct field *f = op_fields(op); f->kind; f++) {
        if (f->kind == F_INTS || f->kind == F_SIZES)
            n += (size_t)AT(struct ints, args, f).n * sizeof(int64_t);
        else if (f->kind == F_TEXT && AT(struct text, args, f).s)
            n += round8(strlen(AT(struct text, args, f).s) + 1);
    }
    return n;
}

static void args_copy(const struct op *op, char *to, const void *args)
{
    if (!op->args_size)
        return;
    memcpy(to, args, op->args_size);
    char *tail = to + round8(op->args_size);
    for (const struct field *f = op_fields(op); f->kind; f++) {
        if (f->kind == F_INTS || f->kind == F_SIZES) {
            struct ints *v = &AT(struct ints, to, f);
            size_t n = (size_t)v->n * sizeof(int64_t);
            if (n)
                memcpy(tail, v->v, n);
            v->v = (int64_t *)tail;
            tail += n;
        } else if (f->kind == F_TEXT && AT(struct text, to, f).s) {
            struct text *t = &AT(struct text, to, f);
            size_t n = strlen(t->s) + 1;
            t->s = memcpy(tail, t->s, n);
            tail += round8(n);
        } else if (f->kind == F_OBJECT && AT(struct object *, to, f)) {
            object_retain(AT(struct object *, to, f));
        }
    }
}

/* Lets go of what a copy owns. */
static void args_release(const struct op *op, const void *args)
{
    for (const struct field *f = op_fields(op); f->kind; f++)
        if (f->kind == F_OBJECT)
            object_release(AT(struct object *, args, f));
}

static bool args_equal(const struct op *op, const void *a, const void *b)
{
    if (op->args_equal)
        return op->args_equal(op, a, b);
    for (const struct field *f = op_fields(op); f->kind; f++) {
        bool same = true;
        switch (f->kind) {
        case F_BOOL: same = AT(bool, a, f) == AT(bool, b, f); break;
        case F_INT:
        case F_ENUM: same = AT(int, a, f) == AT(int, b, f); break;
        case F_I64: same = AT(int64_t, a, f) == AT(int64_t, b, f); break;
        case F_F64: same = !memcmp(&AT(double, a, f), &AT(double, b, f), sizeof(double)); break;
        case F_OBJECT: same = AT(struct object *, a, f) == AT(struct object *, b, f); break;
        case F_INTS:
        case F_SIZES: {
            struct ints u = AT(struct ints, a, f), v = AT(struct ints, b, f);
            same = u.n == v.n && (!u.n || !memcmp(u.v, v.v, (size_t)u.n * sizeof *u.v));
            break;
        }
        case F_TEXT: {
            const char *u = AT(struct text, a, f).s, *v = AT(struct text, b, f).s;
            same = u == v || (u && v && !strcmp(u, v));
            break;
        }
        }
        if (!same)
            return false;
    }
    return true;
}

uint64_t node_hash(const struct node *n)
{
    uint64_t h = hash_bytes(HASH_START, &n->op, sizeof n->op);
    if (n->op->args_equal) /* what is equal is not known here */
        return h;
    for (const struct field *f = op_fields(n->op); f->kind; f++) {
        switch (f->kind) {
        case F_BOOL: h = hash_bytes(h, &AT(bool, n->args, f), sizeof(bool)); break;
        case F_INT:
        case F_ENUM: h = hash_bytes(h, &AT(int, n->args, f), sizeof(int)); break;
        case F_I64: h = hash_bytes(h, &AT(int64_t, n->args, f), sizeof(int64_t)); break;
        case F_F64: h = hash_bytes(h, &AT(double, n->args, f), sizeof(double)); break;
        case F_OBJECT: h = hash_bytes(h, &AT(struct object *, n->args, f), sizeof(void *)); break;
        case F_INTS:
        case F_SIZES: {
            struct ints v = AT(struct ints, n->args, f);
            h = hash_bytes(h, v.v, (size_t)v.n * sizeof *v.v);
            break;
        }
        case F_TEXT: {
            const char *s = AT(struct text, n->args, f).s;
            h = s ? hash_bytes(h, s, strlen(s)) : h;
            break;
        }
        }
    }
    return h;
}

bool node_equivalent(const struct node *a, const struct node *b)
{
    return a->op == b->op && a->nin == b->nin && a->nout == b->nout && args_equal(a->op, a->args, b->args);
}

bool node_has_lists(const struct node *n)
{
    bool has = false;
    for (const struct field *f = op_fields(n->op); f->kind; f++)
        has |= (f->kind == F_INTS || f->kind == F_SIZES) && AT(struct ints, n->args, f).n;
    return has;
}

void node_args_text(const struct node *n, char *out, size_t size)
{
    size_t at = 0;
    if (size)
        out[0] = 0;
    if (n->op->args_text) {
        n->op->args_text(n->op, n->args, out, size);
        if (size)
            out[size - 1] = 0;
        return;
    }
#define PUT(...)                                                      \
    do {                                                              \
        if (at < size)                                                \
            at += (size_t)snprintf(out + at, size - at, __VA_ARGS__); \
    } while (0)
    for (const struct field *f = op_fields(n->op); f->kind; f++) {
        PUT("%s%s=", at ? ", " : "", f->name);
        switch (f->kind) {
        case F_BOOL: PUT("%s", AT(bool, n->args, f) ? "True" : "False"); break;
        case F_INT:
        case F_ENUM: PUT("%d", AT(int, n->args, f)); break;
        case F_I64: PUT("%lld", (long long)AT(int64_t, n->args, f)); break;
        case F_F64: {
            char number[32];
            number_text(number, sizeof number, -1, AT(double, n->args, f));
            PUT("%s", number);
            break;
        }
        case F_OBJECT: PUT("<object>"); break;
        case F_TEXT: PUT("'%s'", AT(struct text, n->args, f).s ? AT(struct text, n->args, f).s : ""); break;
        case F_INTS:
        case F_SIZES: {
            struct ints v = AT(struct ints, n->args, f);
            PUT("(");
            for (int i = 0; i < v.n; i++) PUT(i ? ", %lld" : "%lld", (long long)v.v[i]);
            PUT(v.n == 1 ? ",)" : ")");
            break;
        }
        }
    }
#undef PUT
}

/* ---- nodes */

static size_t node_bytes(const struct op *op, const void *args, int nin, int nout)
{
    return sizeof(struct node) + (size_t)(nin + nout) * sizeof(mx) + args_bytes(op, args) +
           (nout > 1 ? (size_t)nout * sizeof(struct spec) : 0);
}

static atomic_uint clock_now;

uint32_t node_clock(void) { return atomic_fetch_add(&clock_now, 1) + 1; }

static struct node *node_new(const struct op *op, const void *args, int nin, const mx x[], int nout)
{
    struct stream *stream = scope_stream();
    if (!stream) /* the default device's could not be opened */
        return NULL;
    struct node *n = mx_slab(node_bytes(op, args, nin, nout));
    if (!n)
        return NULL;
    *n = (struct node){ .refs = 1,
                        .nin = nin,
                        .nout = nout,
                        .op = op,
                        .stream = stream,
                        .born = atomic_load_explicit(&clock_now, memory_order_relaxed) };
    n->in = (mx *)(n + 1);
    n->out = n->in + nin;
    char *tail = (char *)(n->out + nout);
    n->args = tail;
    args_copy(op, tail, args);
    if (nout > 1)
        n->specs = (struct spec *)(tail + args_bytes(op, args));
    for (int i = 0; i < nin; i++) {
        mx_retain(x[i]);
        n->in[i] = x[i];
    }
    return n;
}

void node_release(struct node *n)
{
    if (!last_goes(&n->refs))
        return;
    size_t bytes = node_bytes(n->op, n->args, n->nin, n->nout);
    for (int i = 0; i < n->nin; i++) mx_release(n->in[i]);
    args_release(n->op, n->args);
    slab_free(n, bytes);
}

void node_forget_output(struct node *n, mx y)
{
    lock_take(&siblings);
    if (n->out[y->out] == y)
        n->out[y->out] = NULL;
    lock_give(&siblings);
}

void node_remember_output(struct node *n, mx y)
{
    lock_take(&siblings);
    if (!n->out[y->out])
        n->out[y->out] = y;
    lock_give(&siblings);
}

/* What arrays have from the operands of their node. */
struct origin {
    uint32_t tracer, depth;
};

static inline void add_operand(struct origin *from, mx x)
{
    uint32_t tracer = atomic_load_explicit(&x->tracer, memory_order_relaxed);
    if (tracer != from->tracer)
        from->tracer = trace_of_both(from->tracer, tracer);
    if (x->depth >= from->depth && x->status == LAZY)
        from->depth = x->depth + 1;
}

/* Binds y, a new array, to its node; the node's reference passes to y. */
static void bind(struct node *n, int k, mx y, struct origin from)
{
    y->node = n;
    y->out = k;
    y->several = n->nout > 1;
    y->depth = from.depth;
    atomic_store_explicit(&y->tracer, from.tracer, memory_order_relaxed);
    n->out[k] = y;
}

mx node_output(struct node *n, int k)
{
    lock_take(&siblings);
    mx y = n->out[k];
    if (y && !mx_try_retain(y))
        y = NULL;
    lock_give(&siblings);
    if (y)
        return y;
    MX_SCOPE(NULL);
    y = array_new(n->specs[k].dtype, n->specs[k].ndim, n->specs[k].shape);
    if (is_nil(y))
        return y;
    struct origin from = { 0 };
    for (int i = 0; i < n->nin; i++) add_operand(&from, n->in[i]);
    mx_retain(y);
    node_retain(n);
    lock_take(&siblings);
    bind(n, k, y, from);
    lock_give(&siblings);
    return y;
}

static bool any_nil(int n, const mx x[], struct origin *from)
{
    *from = (struct origin){ 0 };
    for (int i = 0; i < n; i++) {
        if (is_nil(x[i]))
            return true;
        add_operand(from, x[i]);
    }
    return false;
}

/* Outside of traces a view of data at hand is made at once: nothing to remember, nothing to run. */
static bool view_now(const struct op *op, const void *args, int nin, const mx x[], uint32_t tracer, mx y)
{
    if ((op->traits & (VIEW | FORWARDS)) != VIEW || tracing() || x[0]->status != READY || !x[0]->buf ||
        (tracer && trace_is_open(tracer)))
        return false;
    struct call c = { .op = op, .args = args, .nin = nin, .nout = 1, .x = x };
    if (!op->view || !op->view(&c, y))
        return false;
    y->buf = x[0]->buf;
    buffer_retain(y->buf);
    array_note_layout(y);
    y->status = READY;
    return true;
}

mx mx_node(const struct op *op, const void *args, int nin, const mx x[], int ndim, const int *shape, enum dtype t)
{
    struct origin from;
    if (any_nil(nin, x, &from) || mx_failed())
        return MX_NIL;
    bool same = nin && shape == x[0]->shape && ndim == x[0]->ndim; /* which was checked when that was made */
    mx y = same ? array_like(t, x[0]) : array_new(t, ndim, shape);
    if (is_nil(y) || (nin && view_now(op, args, nin, x, from.tracer, y)))
        return y;
    struct node *n = node_new(op, args, nin, x, 1);
    if (!n)
        return MX_NIL;
    bind(n, 0, y, from);
    return y;
}

void mx_nodes(const struct op *op, const void *args, int nin, const mx x[], int nout, const struct spec out[], mx y[])
{
    struct origin from;
    bool bad = any_nil(nin, x, &from) || mx_failed();
    for (int k = 0; k < nout; k++) {
        y[k] = bad ? MX_NIL : array_new(out[k].dtype, out[k].ndim, out[k].shape);
        bad |= is_nil(y[k]);
    }
    struct node *n = bad ? NULL : node_new(op, args, nin, x, nout);
    for (int k = 0; k < nout; k++) {
        if (!n) {
            y[k] = MX_NIL;
            continue;
        }
        if (nout > 1)
            n->specs[k] = out[k];
        if (k)
            node_retain(n);
        bind(n, k, y[k], from);
    }
}

mx mx_infer(const struct op *op, const void *args, int nin, const mx x[])
{
    mx y;
    mx_infer_n(op, args, nin, x, 1, &y);
    return y;
}

void mx_infer_n(const struct op *op, const void *args, int nin, const mx x[], int nout, mx y[])
{
    struct spec specs[4], *out = nout <= 4 ? specs : mx_malloc((size_t)nout * sizeof *out);
    struct call c = { .op = op, .args = args, .nin = nin, .nout = nout, .x = x };
    struct origin from;
    bool bad = !out || any_nil(nin, x, &from) || mx_failed() || op->shapes(&c, out);
    if (bad)
        for (int k = 0; k < nout; k++) y[k] = MX_NIL;
    else if (nout == 1)
        y[0] = mx_node(op, args, nin, x, out->ndim, out->shape, out->dtype);
    else
        mx_nodes(op, args, nin, x, nout, out, y);
    if (out != specs)
        free(out);
}

/* ---- sizes that operands lend */

int64_t size_in(const struct call *c, int64_t v)
{
    int64_t at = v < -INT32_MAX ? INT32_MAX : SIZE_OF(0, 0) - v, k = at / MX_MAX_NDIM, axis = at % MX_MAX_NDIM;
    if (v > SIZE_OF(0, 0))
        return v;
    return k < c->nin && axis < c->x[k]->ndim ? dim(c->x[k], (int)axis) : -1;
}

/* Numbers for the sizes in a copy of arguments. */
static void settle_sizes(const struct call *c, void *args)
{
    for (const struct field *f = op_fields(c->op); f->kind; f++) {
        if (f->kind != F_SIZES)
            continue;
        struct ints *v = &AT(struct ints, args, f);
        int64_t *numbers = (int64_t *)(uintptr_t)v->v; /* of the copy */
        for (int i = 0; i < v->n; i++) numbers[i] = size_in(c, numbers[i]);
    }
}

/* A node with the operands that it computes with, and numbers for sizes. */
static void node_settled(const struct op *op, const void *args, int nin, const mx x[], int nout, mx y[])
{
    size_t bytes = args_bytes(op, args);
    _Alignas(8) char few[512];
    char *copy = bytes <= sizeof few ? few : mx_malloc(bytes);
    if (!copy)
        return;
    args_copy(op, copy, args);
    struct call c = { .op = op, .args = copy, .nin = nin, .nout = nout, .x = x };
    settle_sizes(&c, copy);
    mx_infer_n(op, copy, op->traits & LENDS && op->own != ALL_OWN ? op->own : nin, x, nout, y);
    args_release(op, copy);
    if (copy != few)
        free(copy);
}

void mx_settle_n(const struct op *op, const void *args, int nin, const mx x[], int nout, mx y[])
{
    struct origin from;
    for (int k = 0; k < nout; k++) y[k] = MX_NIL;
    if (any_nil(nin, x, &from) || mx_failed())
        return;
    if (op->settled)
        y[0] = op->settled(&(struct call){ .op = op, .args = args, .nin = nin, .nout = nout, .x = x });
    else
        node_settled(op, args, nin, x, nout, y);
}
