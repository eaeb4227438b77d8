/* mlxfn_extension.c: operations that have no primitive, in files that this library alone reads.
 *
 * The state is text: for each field of the arguments its name, a byte for its kind and its value, in the
 * order of their description.  What is read is not trusted: builders check it, or checks stand here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "mlxfn/export.h"
#include "mlxfn/mlxfn.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/fast.h"
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/plugin.h"
#include "ops/quantize.h"
#include "ops/rules.h"
#include "ops/shape.h"
#include "ops/slice.h"
#include "ops/sort.h"
#include "ops/special_products.h"
#include "transform/control.h"

#define AT(type, args, f) (*(type *)((char *)(uintptr_t)(args) + (f)->offset))

/* Bodies in bodies, each of some 4 KB of stack when they are read. */
enum { DEPTH = 100 };
static _Thread_local int depth;

static bool enter(const char *func)
{
    if (depth == DEPTH)
        return mx_fail("[%s] loops in loops more than %d deep", func, DEPTH), false;
    return ++depth;
}

static char *body_encode(struct object *body, const char *op, const char *field, uint64_t *n)
{
    struct graph *g = graph_of_object(body);
    *n = 0;
    if (!g) {
        mx_fail("[export_function] the argument %s of %s cannot be written", field, op);
        return NULL;
    }
    if (!enter("export_function"))
        return NULL;
    char *bytes = export_graph(g, n);
    depth--;
    return bytes;
}

char *extension_encode(const struct op *op, const void *args, uint64_t *length)
{
    struct bytes b = { 0 };
    for (const struct field *f = op->fields; f && f->kind; f++) {
        put_text(&b, f->name, strlen(f->name));
        put_u8(&b, f->kind);
        switch (f->kind) {
        case F_BOOL: put_u8(&b, AT(bool, args, f)); break;
        case F_INT:
        case F_ENUM: put_i32(&b, AT(int, args, f)); break;
        case F_I64: put_u64(&b, (uint64_t)AT(int64_t, args, f)); break;
        case F_F64: {
            uint64_t bits;
            memcpy(&bits, &AT(double, args, f), sizeof bits);
            put_u64(&b, bits);
            break;
        }
        case F_INTS:
        case F_SIZES: {
            struct ints v = AT(struct ints, args, f);
            put_u64(&b, (uint64_t)v.n);
            for (int i = 0; i < v.n; i++) put_u64(&b, (uint64_t)v.v[i]);
            break;
        }
        case F_TEXT: {
            const char *s = AT(struct text, args, f).s;
            put_text(&b, s ? s : "", s ? strlen(s) : 0);
            break;
        }
        case F_OBJECT: {
            uint64_t n;
            char *bytes = body_encode(AT(struct object *, args, f), op->label, f->name, &n);
            put_text(&b, bytes, n);
            free(bytes);
            break;
        }
        }
    }
    put_u8(&b, 0); /* so that there is something */
    *length = b.n;
    if (!b.failed && !mx_failed())
        return (char *)b.v;
    free(b.v);
    return NULL;
}

/* ---- fields that are read */

struct fields {
    const uint8_t *at, *end;
};

static bool take(struct fields *s, size_t n, uint64_t *v)
{
    *v = 0;
    if ((size_t)(s->end - s->at) < n)
        return false;
    for (size_t i = n; i-- > 0;) *v = *v << 8 | s->at[i];
    s->at += n;
    return true;
}

/* The field of this name and kind: its bytes from the value on. */
static bool find(const char *state, uint64_t length, const char *name, int kind, struct fields *out)
{
    struct fields s = { (const uint8_t *)state, (const uint8_t *)state + length };
    uint64_t n, k, v;
    while (take(&s, 8, &n) && n <= (uint64_t)(s.end - s.at)) {
        const uint8_t *text = s.at;
        s.at += n;
        if (!take(&s, 1, &k))
            return false;
        if (n == strlen(name) && !memcmp(text, name, n) && (int)k == kind) {
            *out = s;
            return true;
        }
        size_t size = k == F_BOOL ? 1 : k == F_INT || k == F_ENUM ? 4 : 8;
        if (!take(&s, size, &v))
            return false;
        if (k == F_INTS || k == F_SIZES || k == F_TEXT || k == F_OBJECT) {
            uint64_t each = k == F_INTS || k == F_SIZES ? 8 : 1;
            if (v > (uint64_t)(s.end - s.at) / each)
                return false;
            s.at += v * each;
        }
    }
    return false;
}

static int64_t number(const char *state, uint64_t length, const char *name, int kind)
{
    struct fields s;
    uint64_t v = 0;
    if (!find(state, length, name, kind, &s) || !take(&s, kind == F_BOOL ? 1 : kind == F_I64 ? 8 : 4, &v))
        mx_fail("[import_function] expected an argument '%s'", name);
    return kind == F_I64 ? (int64_t)v : kind == F_BOOL ? v != 0 : (int32_t)(uint32_t)v;
}

static double real_of(const char *state, uint64_t length, const char *name)
{
    struct fields s;
    uint64_t bits = 0;
    double d;
    if (!find(state, length, name, F_F64, &s) || !take(&s, 8, &bits))
        mx_fail("[import_function] expected an argument '%s'", name);
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* ---- loops and branches: their bodies are files in the file */

struct body_function {
    struct closure closure;
    struct imported *f;
    int n;
    const mx *captured; /* come after the arguments */
};

static int call_body(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct body_function *b = (struct body_function *)self;
    mx *all = mx_malloc(((size_t)n + (size_t)b->n + 1) * sizeof *all);
    if (!all)
        return 1;
    if (n)
        memcpy(all, x, (size_t)n * sizeof *all);
    if (b->n)
        memcpy(all + n, b->captured, (size_t)b->n * sizeof *all);
    int bad = imported_call(b->f, n + b->n, 0, NULL, all, out);
    free(all);
    return bad;
}

/* The body in a field; its function must be let go of.  False after a failure. */
static bool body_of(const char *state, uint64_t length, const char *name, int n, const mx captured[],
                    struct body_function *b)
{
    struct fields s;
    uint64_t size = 0;
    *b = (struct body_function){ { { .refs = 1 }, call_body }, NULL, n, captured };
    if (!find(state, length, name, F_OBJECT, &s) || !take(&s, 8, &size) || size > (uint64_t)(s.end - s.at))
        mx_fail("[import_function] expected a graph '%s'", name);
    else if (enter("import_function")) {
        b->f = imported_of_bytes(s.at, size, name);
        depth--;
    }
    return b->f;
}

/* The results that a builder pushed, and those of its node beyond them. */
static void results_of(const struct op *op, struct mx_list *out, int nout, mx y[])
{
    struct node *n = out->n ? out->v[0].it->node : NULL;
    for (int k = 0; k < nout && !mx_failed(); k++) {
        if (k < out->n) {
            mx_retain(out->v[k].it);
            y[k] = scope_lend(out->v[k].it);
        } else if (n && n->op == op && n->nout >= nout) {
            y[k] = scope_lend(node_output(n, k));
        } else {
            mx_fail("[%s] expected %d results, got %d", op->name, out->n, nout);
        }
    }
    list_clear(out);
}

static void build_scan(const struct op *op, const char *s, uint64_t size, int nin, const mx x[], int nout, mx y[])
{
    int64_t nc = number(s, size, "n_carry", F_INT), nx = number(s, size, "n_xs", F_INT),
            length = number(s, size, "length", F_INT), reverse = number(s, size, "reverse", F_BOOL);
    struct body_function b = { .f = NULL };
    struct mx_list out = { 0 };
    if (mx_failed() || nc < 0 || nx < 0 || nc + nx > nin || length < 0)
        mx_fail("[scan] expected carries and xs among %d operands, got %lld and %lld", nin, (long long)nc,
                (long long)nx);
    else if (body_of(s, size, "body", (int)(nin - nc - nx), x + nc + nx, &b) &&
             !mx_scan_loop(&b.closure, (int)nc, x, (int)nx, x + nc, nx ? -1 : (int)length, reverse, &out))
        results_of(op, &out, nout, y);
    list_clear(&out);
    imported_release(b.f);
}

static void build_while(const struct op *op, const char *s, uint64_t size, int nin, const mx x[], int nout, mx y[])
{
    int64_t nc = number(s, size, "n_carry", F_INT), nt = number(s, size, "n_test", F_INT);
    struct body_function test = { .f = NULL }, b = { .f = NULL };
    struct mx_list out = { 0 };
    if (mx_failed() || nc < 0 || nt < 0 || nc + nt > nin)
        mx_fail("[while_loop] expected carries among %d operands, got %lld", nin, (long long)nc);
    else if (body_of(s, size, "test", (int)nt, x + nc, &test) &&
             body_of(s, size, "body", (int)(nin - nc - nt), x + nc + nt, &b) &&
             !mx_while_loop(&test.closure, &b.closure, (int)nc, x, &out))
        results_of(op, &out, nout, y);
    list_clear(&out);
    imported_release(test.f);
    imported_release(b.f);
}

static void build_cond(const struct op *op, const char *s, uint64_t size, int nin, const mx x[], int nout, mx y[])
{
    int64_t n = number(s, size, "n", F_INT), ny = number(s, size, "n_yes", F_INT);
    struct body_function yes = { .f = NULL }, no = { .f = NULL };
    struct mx_list out = { 0 };
    if (mx_failed() || n < 0 || ny < 0 || 1 + n + ny > nin)
        mx_fail("[cond] expected a predicate and %lld operands, got %d", (long long)n, nin);
    else if (body_of(s, size, "yes", (int)ny, x + 1 + n, &yes) &&
             body_of(s, size, "no", (int)(nin - 1 - n - ny), x + 1 + n + ny, &no) &&
             !mx_cond(x[0], &yes.closure, &no.closure, (int)n, x + 1, &out))
        results_of(op, &out, nout, y);
    list_clear(&out);
    imported_release(yes.f);
    imported_release(no.f);
}

/* ---- what they compute */

static const char *const modes[] = { "affine", "mxfp4", "mxfp8", "nvfp4" };

static bool counts(const struct op *op, int nin, int nout, int in, int out)
{
    if (nin == in && nout == out)
        return true;
    mx_fail("[%s] expected %d operands and %d results, got %d and %d", op->name, in, out, nin, nout);
    return false;
}

static bool integers(const struct op *op, int n, const mx x[])
{
    for (int i = 0; i < n; i++)
        if (!dtype_is_integer(x[i]->dtype)) {
            mx_fail("[%s] expected integer indices, got %s", op->name, dtype_name(x[i]->dtype));
            return false;
        }
    return true;
}

static mx segmented_outer(const struct op *op, const mx x[])
{
    mx s = x[2];
    if (!integers(op, 1, &s))
        return MX_NIL;
    bool fits = x[0]->ndim == 2 && s->ndim >= 1 && dim(s, -1) == 2 && x[1]->ndim == s->ndim + 1 &&
                x[0]->dtype == x[1]->dtype && dim(x[1], -2) == dim(x[0], 0);
    for (int i = 0; fits && i < s->ndim - 1; i++) fits = x[1]->shape[i] == s->shape[i];
    if (!fits)
        return mx_fail("[segmented_outer] expected a matrix, one for each segment and segments, got shapes %s, %s and "
                       "%s",
                       shape_of(x[0]), shape_of(x[1]), shape_of(s));
    return mx_infer(op, NULL, 3, x);
}

static mx round_trip(const struct op *op, const char *s, uint64_t n, int nin, const mx x[])
{
    int64_t mode = number(s, n, "mode", F_ENUM), size = number(s, n, "group_size", F_INT),
            bits = number(s, n, "bits", F_INT);
    if (mx_failed())
        return MX_NIL;
    if (mode < 0 || mode > 3)
        return mx_fail("[round_trip] expected a mode from 0 to 3, got %lld", (long long)mode);
    mx checked[3], w = x[0]->ndim == 1 ? mx_expand_dims(x[0], (int[]){ 0 }, 1) : x[0];
    /* Quantizing checks all that there is to check. */
    if (mx_quantize(w, (int)size, (int)bits, modes[mode], nin > 1 ? x[1] : NULL, checked) < 0)
        return MX_NIL;
    struct quant_args a = *(const struct quant_args *)checked[0]->node->args;
    return mx_infer(op, &a, nin, x);
}

static void lu_parts(const struct op *op, mx x, int nout, mx y[])
{
    mx out[2];
    mx_lu_factor(x, out);
    if (is_nil(out[0]) || out[0]->node->nout != nout)
        mx_fail("[%s] expected 3 results, got %d", op->name, nout);
    else
        for (int k = 0; k < nout; k++) y[k] = scope_lend(node_output(out[0]->node, k));
}

static mx quantized_search(const struct op *op, const char *s, uint64_t n, const mx x[])
{
    int64_t right = number(s, n, "right", F_BOOL);
    bool fits = !mx_failed() && x[0]->ndim >= 1 && x[0]->ndim <= x[1]->ndim && x[0]->dtype == x[1]->dtype;
    for (int i = 0; fits && i < x[0]->ndim - 1; i++) fits = x[0]->shape[i] == x[1]->shape[i];
    if (!fits)
        return mx_fail("[searchsorted] expected sorted sequences and values of their batch, got shapes %s and %s",
                       shape_of(x[0]), shape_of(x[1]));
    return x[0]->ndim == 1 ? mx_searchsorted(x[0], x[1], right != 0)
                           : mx_infer(op, &(struct searchsorted_args){ right != 0 }, 2, x);
}

/* Matrices of a type that the kernels know. */
static bool matrix_of(const struct op *op, mx x, bool square)
{
    enum dtype t = x->dtype;
    bool fits = x->ndim >= 2 && (!square || dim(x, -1) == dim(x, -2)) &&
                (t == DT_float32 || t == DT_float64 || t == DT_complex64);
    if (!fits)
        mx_fail("[%s] expected %s matrices of float32, float64 or complex64, got %s of shape %s", op->name,
                square ? "square" : "", dtype_name(t), shape_of(x));
    return fits;
}

static mx solve(const char *s, uint64_t n, const mx x[])
{
    int64_t part = number(s, n, "part", F_ENUM);
    if (mx_failed())
        return MX_NIL;
    if (part == PART_ALL)
        return mx_solve(x[0], x[1]);
    return mx_solve_triangular(x[0], x[1], part == PART_UPPER);
}

/* ---- operations whose arguments are numbers and lists of them, which their rules of shapes do not check */

/* Arguments as the description of them says; lists are in what is returned, which the caller frees.  NULL
 * after a failure. */
static int64_t *arguments(const struct op *op, const char *s, uint64_t n, void *args)
{
    int64_t *lists = mx_malloc(n + 8), *list = lists;
    for (const struct field *f = op->fields; lists && f && f->kind && !mx_failed(); f++) {
        struct fields v;
        uint64_t count, bits;
        switch (f->kind) {
        case F_BOOL: AT(bool, args, f) = number(s, n, f->name, F_BOOL); break;
        case F_INT:
        case F_ENUM: AT(int, args, f) = (int)number(s, n, f->name, f->kind); break;
        case F_F64: AT(double, args, f) = real_of(s, n, f->name); break;
        default:
            if (!find(s, n, f->name, f->kind, &v) || !take(&v, 8, &count) || count > (uint64_t)(v.end - v.at) / 8) {
                mx_fail("[import_function] expected an argument '%s'", f->name);
                break;
            }
            AT(struct ints, args, f) = (struct ints){ (int)count, list };
            for (uint64_t i = 0; i < count && take(&v, 8, &bits); i++) *list++ = (int64_t)bits;
        }
    }
    if (!mx_failed())
        return lists;
    free(lists);
    return NULL;
}

/* As many numbers as said, within bounds? */
static bool within(struct ints v, int n, int64_t low, int64_t high)
{
    bool fits = v.n == n;
    for (int i = 0; i < v.n && fits; i++) fits = v.v[i] >= low && v.v[i] <= high;
    return fits;
}

/* Sizes: numbers from `least` on, or those of operands that there are. */
static bool are_sizes(struct ints v, int least, int nin, const mx x[])
{
    bool fits = true;
    for (int i = 0; i < v.n && fits; i++) {
        int64_t at = SIZE_OF(0, 0) - v.v[i], k = at / MX_MAX_NDIM;
        fits = at < 0 ? v.v[i] >= least && v.v[i] <= INT32_MAX : k < nin && at % MX_MAX_NDIM < x[k]->ndim;
    }
    return fits;
}

static bool are_axes(struct ints v, int ndim)
{
    bool fits = within(v, v.n, 0, ndim - 1);
    for (int i = 1; i < v.n && fits; i++)
        for (int k = 0; k < i; k++) fits = fits && v.v[k] != v.v[i];
    return fits;
}

static bool is_slice(mx x, struct ints start, struct ints stop, struct ints step)
{
    bool fits = within(start, x->ndim, INT32_MIN, INT32_MAX) && within(stop, x->ndim, INT32_MIN, INT32_MAX) &&
                within(step, x->ndim, INT32_MIN, INT32_MAX);
    for (int i = 0; i < x->ndim && fits; i++) fits = step.v[i] != 0;
    return fits;
}

static bool are_indices(int n, const mx index[])
{
    bool fits = true;
    for (int i = 0; i < n && fits; i++) fits = dtype_is_integer(index[i]->dtype) && same_shape(index[i], index[0]);
    return fits;
}

union arguments {
    struct shape_args reshape;
    struct broadcast_args broadcast;
    struct arange_args arange;
    struct slice_args slice;
    struct slice_update_args update;
    struct split_args split;
    struct gather_args gather;
    struct scatter_args scatter;
    struct gather_axis_args gather_axis;
    struct scatter_axis_args scatter_axis;
    struct dynamic_args dynamic;
    struct conv_args conv;
    struct scatter_mm_args scatter_mm;
    struct partition_args partition;
};

static bool is_geometry(const struct conv_args *a, int nin, const mx x[])
{
    int n = a->stride.n;
    bool known = a->high.n == n;
    return n >= 1 && n <= 3 && within(a->stride, n, 1, INT32_MAX) && within(a->low, n, INT32_MIN, INT32_MAX) &&
           within(a->dilation, n, 1, INT32_MAX) && within(a->input_dilation, n, 1, INT32_MAX) && a->size.n == n &&
           are_sizes(a->size, known ? -1 : 0, nin, x) && within(a->high, known ? n : 0, INT32_MIN, INT32_MAX) &&
           a->groups >= 1 && x[0]->ndim == n + 2 && x[1]->ndim == n + 2 && x[0]->dtype == x[1]->dtype &&
           dtype_is_float(x[0]->dtype);
}

/* Do arguments and operands mean something to the operation's rules? */
static bool makes_sense(const struct op *op, const union arguments *a, int nin, const mx x[], int nout)
{
    mx first = nin ? x[0] : NULL;
    int unknown = 0;
    switch (op->id) {
    case OP_reshape:
        for (int i = 0; i < a->reshape.shape.n; i++) unknown += a->reshape.shape.v[i] == -1;
        return nin >= 1 && unknown <= 1 && are_sizes(a->reshape.shape, -1, nin, x);
    case OP_broadcast:
        return nin >= 1 && are_sizes(a->broadcast.shape, 0, nin, x) &&
               within(a->broadcast.axes, a->broadcast.axes.n, -MX_MAX_NDIM, -1);
    case OP_arange:
        return are_sizes(a->arange.count, 0, nin, x) && isfinite(a->arange.start) && isfinite(a->arange.stop) &&
               isfinite(a->arange.step) && a->arange.step != 0 && a->arange.dtype != DT_bool_ &&
               a->arange.dtype < DT_COUNT;
    case OP_slice: return nin == 1 && is_slice(first, a->slice.start, a->slice.stop, a->slice.step);
    case OP_slice_update:
        return nin == 2 && is_slice(first, a->update.start, a->update.stop, a->update.step) &&
               a->update.fold <= SCATTER_MIN && x[1]->dtype == first->dtype;
    case OP_split:
        for (int i = 1; i < a->split.cuts.n; i++) unknown |= a->split.cuts.v[i] < a->split.cuts.v[i - 1];
        return nin >= 1 && a->split.axis >= 0 && a->split.axis < first->ndim && !unknown &&
               (a->split.sizes.n ? a->split.sizes.n == nout : a->split.cuts.n + 1 == nout) &&
               within(a->split.cuts, a->split.cuts.n, 0, INT32_MAX) && are_sizes(a->split.sizes, 0, nin, x);
    case OP_gather:
        return a->gather.axes.n >= 1 && nin == 1 + a->gather.axes.n && a->gather.sizes.n == first->ndim &&
               are_axes(a->gather.axes, first->ndim) && are_sizes(a->gather.sizes, 0, nin, x) &&
               are_indices(nin - 1, x + 1) && a->gather.asker <= SCATTER_ADD_AXIS &&
               a->gather.outside <= OUTSIDE_NOTHING;
    case OP_scatter:
        return a->scatter.axes.n >= 1 && nin == 2 + a->scatter.axes.n && are_axes(a->scatter.axes, first->ndim) &&
               are_indices(nin - 2, x + 1) && a->scatter.fold <= SCATTER_MIN && a->scatter.asker <= SCATTER_ADD_AXIS &&
               a->scatter.outside <= OUTSIDE_NOTHING;
    case OP_gather_axis:
        return nin == 2 && a->gather_axis.axis >= 0 && a->gather_axis.axis < first->ndim && are_indices(1, x + 1) &&
               a->gather_axis.asker <= SCATTER_ADD_AXIS && a->gather_axis.outside <= OUTSIDE_NOTHING;
    case OP_scatter_axis:
        return nin == 3 && a->scatter_axis.axis >= 0 && a->scatter_axis.axis < first->ndim && are_indices(1, x + 1) &&
               a->scatter_axis.fold <= SCATTER_MIN && a->scatter_axis.asker <= SCATTER_ADD_AXIS &&
               a->scatter_axis.outside <= OUTSIDE_NOTHING;
    case OP_dynamic_slice:
        return nin >= 2 && a->dynamic.sizes.n == first->ndim && are_axes(a->dynamic.axes, first->ndim) &&
               are_sizes(a->dynamic.sizes, 0, nin, x) && are_indices(1, x + 1) && a->dynamic.outside <= OUTSIDE_NOTHING;
    case OP_dynamic_slice_update:
        return nin == 3 && a->dynamic.sizes.n == 0 && are_axes(a->dynamic.axes, first->ndim) && are_indices(1, x + 2) &&
               a->dynamic.outside <= OUTSIDE_NOTHING;
    case OP_conv:
    case OP_conv_weight: return nin >= 2 && is_geometry(&a->conv, nin, x);
    case OP_scatter_mm:
        return nin >= 5 && first->ndim >= 2 && x[1]->ndim >= 2 && first->dtype == x[1]->dtype &&
               dtype_is_inexact(first->dtype) && are_indices(3, x + 2) && a->scatter_mm.batch.n <= MX_MAX_NDIM - 2 &&
               are_sizes(a->scatter_mm.batch, 0, nin, x);
    default: return nin == 1 && first->ndim >= 1; /* partitions */
    }
}

static void by_arguments(const struct op *op, const char *s, uint64_t n, int nin, const mx x[], int nout, mx y[])
{
    union arguments a;
    memset(&a, 0, sizeof a);
    int64_t *lists = arguments(op, s, n, &a);
    if (!lists)
        return;
    if ((nout != 1 && op->id != OP_split) || !makes_sense(op, &a, nin, x, nout))
        mx_fail("[%s] the arguments in the file do not go with %d operands%s%s and %d results", op->name, nin,
                nin ? ", the first of shape " : "", nin ? shape_of(x[0]) : "", nout);
    else if (shapeless())
        mx_infer_n(op, &a, nin, x, nout, y);
    else
        mx_settle_n(op, &a, nin, x, nout, y);
    free(lists);
}

/* ---- fused operations */

static mx norm(const struct op *op, const char *s, uint64_t n, int nin, const mx x[])
{
    bool weight = number(s, n, "weight", F_BOOL), bias = number(s, n, "bias", F_BOOL);
    double eps = real_of(s, n, "eps");
    if (mx_failed())
        return MX_NIL;
    if (nin != 1 + weight + bias || (bias && op->id == OP_rms_norm))
        return mx_fail("[%s] expected %d operands, got %d", op->name, 1 + weight + bias, nin);
    mx w = weight ? x[1] : NULL;
    return op->id == OP_rms_norm ? mx_rms_norm(x[0], w, eps) : mx_layer_norm(x[0], w, bias ? x[nin - 1] : NULL, eps);
}

static mx norm_tangent(const struct op *op, const char *s, uint64_t n, const mx x[])
{
    struct norm_tangent_args a = { number(s, n, "centered", F_BOOL), real_of(s, n, "eps") };
    if (mx_failed())
        return MX_NIL;
    if (!same_shape(x[0], x[1]) || x[0]->dtype != x[1]->dtype || !dtype_is_float(x[0]->dtype) || x[0]->ndim == 0)
        return mx_fail("[norm_tangent] expected two floating-point arrays of one shape, got %s and %s", shape_of(x[0]),
                       shape_of(x[1]));
    return mx_infer(op, &a, 2, x);
}

static mx rope(const struct op *op, const char *s, uint64_t n, int nin, const mx x[])
{
    bool traditional = number(s, n, "traditional", F_BOOL), inverse = number(s, n, "inverse", F_BOOL);
    int dims = (int)number(s, n, "dims", F_INT);
    double base = real_of(s, n, "base"), scale = real_of(s, n, "scale");
    if (mx_failed() || nin < 2 || nin > 3)
        return mx_fail("[rope] expected 2 or 3 operands, got %d", nin);
    mx y = mx_rope(x[0], dims, traditional, nin > 2 ? NULL : &base, scale, x[1], nin > 2 ? x[2] : NULL);
    if (is_nil(y) || !inverse)
        return y;
    struct rope_args a = *(const struct rope_args *)y->node->args;
    a.inverse = true;
    return mx_infer(op, &a, y->node->nin, y->node->in);
}

static void attention(const struct op *op, const char *s, uint64_t n, int nin, const mx x[], int nout, mx y[])
{
    struct attention_args a = { real_of(s, n, "scale"), number(s, n, "causal", F_BOOL), number(s, n, "mask", F_BOOL),
                                number(s, n, "sinks", F_BOOL) };
    bool back = op->id == OP_attention_vjp;
    int operands = 3 + a.mask + a.sinks;
    if (!mx_failed() && counts(op, nin, nout, operands + 4 * back, back ? 3 + a.sinks : 3))
        mx_infer_n(op, &a, nin, x, nout, y);
}

/* Element-wise operations that are younger than the format. */
static mx element_wise(const struct op *op, int nin, const mx x[])
{
    static mx (*const unary[OP_COUNT])(mx) = {
#define UNARY(name, ...) [OP_##name] = mx_##name,
#include "ops/ops.def"
    };
    static mx (*const binary[OP_COUNT])(mx, mx) = {
#define BINARY(name, ...) [OP_##name] = mx_##name,
#include "ops/ops.def"
    };
    if (nin == 1 && unary[op->id])
        return unary[op->id](x[0]);
    if (nin == 2 && binary[op->id])
        return binary[op->id](x[0], x[1]);
    return mx_fail("[%s] cannot be read from a file with %d operands", op->name, nin);
}

/* An operation registered at run time, whose rule of shapes checks its operands. */
static void registered(const struct plugin *p, const char *s, uint64_t n, int nin, const mx x[], int nout, mx y[])
{
    struct object *state = p->decode(p, s, n);
    struct plugin_args args = { state };
    if (!state)
        return;
    mx_infer_n(&p->op, &args, nin, x, nout, y);
    object_release(state);
}

void extension_build(const struct op *op, const char *s, uint64_t n, int nin, const mx x[], int nout, mx y[])
{
    mx out[3];
    for (int k = 0; k < nout; k++) y[k] = MX_NIL;
    if (plugin_of(op)) {
        registered(plugin_of(op), s, n, nin, x, nout, y);
        return;
    }
#define ONE(operands, expression)           \
    if (counts(op, nin, nout, operands, 1)) \
        y[0] = expression;                  \
    break
    switch (op->id) {
    case OP_segmented_mm: ONE(3, mx_segmented_mm(x[0], x[1], x[2]));
    case OP_segmented_outer: ONE(3, segmented_outer(op, x));
    case OP_round_trip: ONE(nin == 2 ? 2 : 1, round_trip(op, s, n, nin, x));
    case OP_to_fp8: ONE(1, mx_to_fp8(x[0]));
    case OP_solve: ONE(2, solve(s, n, x));
    case OP_det: ONE(1, mx_det(x[0]));
    case OP_cofactor: ONE(1, matrix_of(op, x[0], true) ? mx_infer(op, NULL, 1, x) : MX_NIL);
    case OP_pinv: ONE(1, mx_pinv(x[0]));
    case OP_searchsorted: ONE(2, quantized_search(op, s, n, x));
    case OP_slogdet:
        if (counts(op, nin, nout, 1, 2))
            mx_slogdet(x[0], y);
        break;
    case OP_lu:
        if (counts(op, nin, nout, 1, 3) && matrix_of(op, x[0], false))
            lu_parts(op, x[0], nout, y);
        break;
    case OP_quantize: {
        int64_t mode = number(s, n, "mode", F_ENUM), size = number(s, n, "group_size", F_INT),
                bits = number(s, n, "bits", F_INT);
        if (mode < 0 || mode > 3 || nin < 1 || nin > 2 || nout != (mode ? 2 : 3))
            mx_fail("[quantize] expected a mode from 0 to 3 and the results that belong to it");
        else if (mx_quantize(x[0], (int)size, (int)bits, modes[mode], nin > 1 ? x[1] : NULL, out) == nout)
            memcpy(y, out, (size_t)nout * sizeof *y);
        break;
    }
    case OP_rms_norm:
    case OP_layer_norm: ONE(nin, norm(op, s, n, nin, x));
    case OP_norm_tangent: ONE(2, norm_tangent(op, s, n, x));
    case OP_rope: ONE(nin, rope(op, s, n, nin, x));
    case OP_attention:
    case OP_attention_vjp: attention(op, s, n, nin, x, nout, y); break;
    case OP_gated_delta:
        if (counts(op, nin, nout, nin == 7 ? 7 : 6, 2))
            mx_gated_delta(x[0], x[1], x[2], x[3], x[4], x[5], nin == 7 ? x[6] : NULL, y);
        break;
    case OP_reshape:
    case OP_broadcast:
    case OP_arange:
    case OP_slice:
    case OP_slice_update:
    case OP_split:
    case OP_gather:
    case OP_scatter:
    case OP_gather_axis:
    case OP_scatter_axis:
    case OP_dynamic_slice:
    case OP_dynamic_slice_update:
    case OP_conv:
    case OP_conv_weight:
    case OP_scatter_mm:
    case OP_partition:
    case OP_argpartition: by_arguments(op, s, n, nin, x, nout, y); break;
    case OP_scan_loop: build_scan(op, s, n, nin, x, nout, y); break;
    case OP_while_loop: build_while(op, s, n, nin, x, nout, y); break;
    case OP_cond: build_cond(op, s, n, nin, x, nout, y); break;
    default:
        if (counts(op, nin, nout, nin, 1))
            y[0] = element_wise(op, nin, x);
    }
#undef ONE
}
