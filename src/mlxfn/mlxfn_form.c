/* mlxfn_form.c: how operations of ours are written.
 *
 * Each operation states its form: a primitive with its state, the same results of other operations
 * (mlxfn_compose.c, mlxfn_follow.c), an extension that this library alone reads, or nothing.  An operation
 * whose form depends on its operands may have several; the first that fits is taken.
 *
 * In a file for any shape (`shapeless` of a form) no number of a state may be one that other shapes would
 * change: sizes that arrays lend, what counts from the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "mlxfn/mlxfn.h"
#include "mlxfn/mlxfn_compose.h"
#include "ops/create.h"
#include "ops/fft.h"
#include "ops/index.h"
#include "ops/plugin.h"
#include "ops/rules.h"
#include "ops/slice.h"
#include "ops/special_products.h"

/* ---- arguments by name */

const void *wire_field(const struct call *c, const char *name)
{
    for (const struct field *f = c->op->fields; f && f->kind; f++)
        if (!strcmp(f->name, name))
            return (const char *)c->args + f->offset;
    return NULL; /* a row below that names no field of its operation: found by the first test of it */
}

static struct ints ints_at(const struct call *c, const char *name) { return *(const struct ints *)wire_field(c, name); }
static int int_at(const struct call *c, const char *name) { return *(const int *)wire_field(c, name); }
static unsigned enum_at(const struct call *c, const char *name) { return *(const unsigned *)wire_field(c, name); }
static bool bool_at(const struct call *c, const char *name) { return *(const bool *)wire_field(c, name); }
static double real_at(const struct call *c, const char *name) { return *(const double *)wire_field(c, name); }

/* ---- states */

/* For any shapes in the mlx package too, where some primitives have one shape. */
static bool elsewhere(const struct wire_form *f) { return f->shapeless && f->portable; }

static struct wire_value *next_value(struct wire_form *f, char kind)
{
    struct wire_value *v = &f->s.v[f->s.n++];
    *v = (struct wire_value){ .kind = kind };
    return v;
}

static void add_bool(struct wire_form *f, bool b) { next_value(f, 'b')->b = b; }
static void add_int(struct wire_form *f, int i) { next_value(f, 'i')->i = i; }
static void add_float(struct wire_form *f, double d) { next_value(f, 'f')->f = (float)d; }
static void add_double(struct wire_form *f, double d) { next_value(f, 'd')->d = d; }
static void add_dtype(struct wire_form *f, enum dtype t) { next_value(f, 't')->i = (int32_t)t; }

static void add_list(struct wire_form *f, struct ints v)
{
    struct wire_value *w = next_value(f, 'I');
    w->n = (uint64_t)v.n;
    w->v = v.v;
}

/* Room for a list of n numbers to be filled in. */
static int64_t *add_new_list(struct wire_form *f, int n)
{
    int k = f->s.n;
    add_list(f, (struct ints){ n, f->store[k < 6 ? k : 5] });
    return f->store[k < 6 ? k : 5];
}

static void add_shape(struct wire_form *f, mx x)
{
    int64_t *v = add_new_list(f, x->ndim);
    for (int i = 0; i < x->ndim; i++) v[i] = x->shape[i];
}

/* 0, 1, ... */
static void add_all_axes(struct wire_form *f, int n)
{
    int64_t *v = add_new_list(f, n);
    for (int i = 0; i < n; i++) v[i] = i;
}

/* ---- forms: each is true where the call can be written so */

#define FORM(name) static bool name(__attribute__((unused)) const struct call *c, struct wire_form *f)

FORM(as_it_is)
{
    f->name = c->op->label;
    return true;
}

FORM(not_by_one)
{
    (void)f;
    return false;
}

FORM(of_its_type)
{
    f->name = c->op->label;
    return c->y[0]->dtype == c->x[0]->dtype;
}

FORM(real_only)
{
    f->name = c->op->label;
    return !dtype_is_complex(c->x[0]->dtype);
}

FORM(complex_only)
{
    f->name = c->op->label;
    return dtype_is_complex(c->x[0]->dtype);
}

FORM(inexact_only)
{
    f->name = c->op->label;
    return dtype_is_inexact(c->x[0]->dtype);
}

FORM(root)
{
    f->name = "Sqrt";
    add_bool(f, c->op->id == OP_rsqrt);
    return true;
}

FORM(logarithm)
{
    f->name = "Log";
    add_int(f, c->op->id == OP_log2 ? 0 : c->op->id == OP_log10 ? 1 : 2);
    return true;
}

FORM(bitwise)
{
    f->name = "BitwiseBinary";
    add_int(f, (int)c->op->id - (int)OP_bitwise_and);
    return true;
}
_Static_assert(OP_bitwise_or == OP_bitwise_and + 1 && OP_bitwise_xor == OP_bitwise_and + 2 &&
                   OP_left_shift == OP_bitwise_and + 3 && OP_right_shift == OP_bitwise_and + 4,
               "the order of BitwiseBinary");

FORM(equality)
{
    f->name = "Equal";
    add_bool(f, false);
    return true;
}

FORM(to_dtype)
{
    f->name = c->op->label;
    add_dtype(f, c->y[0]->dtype);
    return true;
}

static bool lends(struct ints sizes)
{
    for (int i = 0; i < sizes.n; i++)
        if (size_is_lent(sizes.v[i]))
            return true;
    return false;
}

/* Are the sizes those of operand 1, all of them in their order? */
static bool are_those_of_other(const struct call *c, struct ints sizes)
{
    bool same = c->nin == 2 && sizes.n == c->x[1]->ndim;
    for (int i = 0; i < sizes.n && same; i++) same = sizes.v[i] == SIZE_OF(1, i);
    return same;
}

/* Without axes, of two arrays: theirs gives the first as it is, ours looks whether both have one shape.  For any
 * shape, sizes of its own could be larger than those that are lent: only a scalar has none. */
FORM(broadcast)
{
    struct ints axes = ints_at(c, "axes"), sizes = ints_at(c, "shape");
    if (axes.n || bool_at(c, "alike")) {
        f->name = "BroadcastAxes";
        add_list(f, axes);
    } else {
        f->name = "Broadcast";
        add_shape(f, c->y[0]);
    }
    bool fits = !f->shapeless || c->x[0]->ndim == 0;
    return sizes.n == 0 || !lends(sizes) || (fits && are_those_of_other(c, sizes));
}

/* Axes that stay as they are, in front and behind, and one axis for several between them, or the other way
 * round; else a shape, in which one size may be -1. */
FORM(reshape)
{
    struct ints v = ints_at(c, "shape");
    mx x = c->x[0], y = c->y[0];
    int front = 0, back = 0;
    while (front < v.n && v.v[front] == SIZE_OF(0, front)) front++;
    while (back < v.n - front && v.v[v.n - 1 - back] == SIZE_OF(0, x->ndim - 1 - back)) back++;
    int from = x->ndim - front - back, to = v.n - front - back;
    bool numbers = true;
    for (int i = 0; i < to; i++) numbers = numbers && !size_is_lent(v.v[front + i]);
    if (to == 1 && from > 1 && v.v[front] == -1) {
        f->name = "Flatten";
        add_int(f, front);
        add_int(f, front + from - 1);
        return true;
    }
    bool unknown = false; /* which theirs does not say, so that it is of one size */
    for (int i = 0; i < to; i++) unknown = unknown || v.v[front + i] == -1;
    if (from == 1 && to > 0 && numbers && x->ndim > 1 && !(unknown && f->shapeless && !f->portable)) {
        f->name = "Unflatten";
        add_int(f, front);
        int64_t *shape = add_new_list(f, to);
        for (int i = 0; i < to; i++) shape[i] = y->shape[front + i];
        return true;
    }
    f->name = "Reshape";
    add_shape(f, y);
    for (int i = 0; i < v.n; i++) /* as far as the operand's shape is not in it */
        if (v.v[i] == -1)
            f->store[0][i] = -1;
    return !f->shapeless || (numbers && front + back == 0);
}

FORM(axes)
{
    f->name = c->op->label;
    add_list(f, ints_at(c, "axes"));
    return true;
}

FORM(strided)
{
    f->name = "AsStrided";
    add_list(f, ints_at(c, "shape"));
    add_list(f, ints_at(c, "strides"));
    next_value(f, 'u')->u = (uint64_t) * (const int64_t *)wire_field(c, "offset");
    return c->x[0]->ndim == 1;
}

/* A stop below zero would count from the end once more. */
static void add_bounds(struct wire_form *f, const struct call *c)
{
    mx x = c->x[0];
    struct ints start = ints_at(c, "start"), stop = ints_at(c, "stop"), step = ints_at(c, "step");
    int64_t *v[3];
    for (int k = 0; k < 3; k++) v[k] = add_new_list(f, x->ndim);
    for (int i = 0; i < x->ndim; i++) {
        struct range r = range_of(x->shape[i], start.v[i], stop.v[i], step.v[i]);
        int64_t end = r.first + r.count * r.step;
        v[0][i] = r.count ? r.first : 0;
        v[1][i] = !r.count ? 0 : end < 0 ? -(int64_t)x->shape[i] - 1 : end > x->shape[i] ? x->shape[i] : end;
        v[2][i] = r.count ? r.step : 1;
    }
}

FORM(slice)
{
    f->name = "Slice";
    add_bounds(f, c);
    return !f->shapeless;
}

static const int fold_codes[] = {
    [SCATTER_SET] = 4, [SCATTER_ADD] = 2, [SCATTER_PROD] = 3, [SCATTER_MAX] = 0, [SCATTER_MIN] = 1
};

FORM(slice_update)
{
    struct ints start = ints_at(c, "start"), step = ints_at(c, "step");
    bool from_front = true; /* where it ends is told by the size of the update, and where it begins if that is not 0 */
    for (int i = 0; i < start.n; i++) {
        bool whole = start.v[i] == 0 && step.v[i] == 1;
        from_front = from_front && start.v[i] >= 0 && step.v[i] > 0 && (whole || c->x[1]->shape[i] > 0);
    }
    f->name = "SliceUpdate";
    add_int(f, fold_codes[enum_at(c, "fold")]);
    add_bounds(f, c);
    return !f->shapeless || from_front;
}

FORM(split)
{
    f->name = "Split";
    add_list(f, ints_at(c, "cuts"));
    add_int(f, int_at(c, "axis"));
    return !elsewhere(f) && ints_at(c, "sizes").n == 0;
}

FORM(depends)
{
    f->name = "Depends";
    f->rotate = c->nin - c->nout;
    return !elsewhere(f);
}

FORM(one_axis)
{
    f->name = c->op->label;
    add_int(f, int_at(c, "axis"));
    return true;
}

FORM(pad)
{
    f->name = "Pad";
    add_all_axes(f, c->x[0]->ndim);
    add_list(f, ints_at(c, "low"));
    add_list(f, ints_at(c, "high"));
    return !elsewhere(f);
}

FORM(arange)
{
    f->name = "Arange";
    add_double(f, real_at(c, "start"));
    add_double(f, real_at(c, "stop"));
    add_double(f, real_at(c, "step"));
    return ints_at(c, "count").n == 0;
}

FORM(elements)
{
    f->name = "NumberOfElements";
    add_list(f, ints_at(c, "axes"));
    add_bool(f, bool_at(c, "inverted"));
    add_dtype(f, c->y[0]->dtype);
    return f->shapeless;
}

static bool of_one_dtype(int n, const mx x[])
{
    for (int i = 1; i < n; i++)
        if (x[i]->dtype != x[0]->dtype)
            return false;
    return true;
}

/* The primitives do not say what an index out of range stands for: in files that hold it, an extension does. */
static bool outside_is(const struct call *c, const struct wire_form *f, enum outside usual)
{
    return f->portable || enum_at(c, "outside") == usual;
}

FORM(gather)
{
    f->name = "Gather";
    add_list(f, ints_at(c, "axes"));
    add_list(f, ints_at(c, "sizes"));
    return outside_is(c, f, OUTSIDE_NEAREST) && !lends(ints_at(c, "sizes")) && of_one_dtype(c->nin - 1, c->x + 1);
}

FORM(scatter)
{
    unsigned fold = enum_at(c, "fold");
    f->name = "Scatter";
    add_int(f, fold_codes[fold]);
    add_list(f, ints_at(c, "axes"));
    bool other = elsewhere(f) && (fold == SCATTER_SET || fold == SCATTER_ADD);
    return outside_is(c, f, OUTSIDE_NOTHING) && !other && of_one_dtype(c->nin - 2, c->x + 1);
}

/* The index array may be 1 where it is the same everywhere; theirs is whole. */
static bool form_whole_index(const struct call *c, const struct wire_form *f)
{
    int axis = int_at(c, "axis");
    if (f->shapeless || bool_at(c, "whole"))
        return bool_at(c, "whole");
    for (int i = 0; i < c->x[1]->ndim; i++)
        if (i != axis && c->x[1]->shape[i] != c->x[0]->shape[i])
            return false;
    return true;
}

FORM(gather_axis) { return one_axis(c, f) && outside_is(c, f, OUTSIDE_NEAREST) && form_whole_index(c, f); }

FORM(scatter_axis)
{
    unsigned fold = enum_at(c, "fold");
    f->name = "ScatterAxis";
    add_int(f, fold == SCATTER_SET);
    add_int(f, int_at(c, "axis"));
    return outside_is(c, f, OUTSIDE_NOTHING) && (fold == SCATTER_SET || fold == SCATTER_ADD) && form_whole_index(c, f);
}

FORM(dynamic_slice)
{
    f->name = "DynamicSlice";
    add_list(f, ints_at(c, "axes"));
    add_list(f, ints_at(c, "sizes"));
    return outside_is(c, f, OUTSIDE_NEAREST) && !lends(ints_at(c, "sizes"));
}

FORM(dynamic_slice_update)
{
    f->name = "DynamicSliceUpdate";
    add_list(f, ints_at(c, "axes"));
    return outside_is(c, f, OUTSIDE_NOTHING);
}

/* Where the shape stays, the package's kernels end its process: its own functions make no Reduce of that. */
FORM(reduction)
{
    static const int codes[] = {
        [FOLD_ALL] = 0, [FOLD_ANY] = 1, [FOLD_SUM] = 2, [FOLD_PROD] = 3, [FOLD_MIN] = 4, [FOLD_MAX] = 5
    };
    f->name = "Reduce";
    add_int(f, codes[enum_at(c, "fold")]);
    add_list(f, ints_at(c, "axes"));
    return c->y[0]->dtype == composed_reduce_dtype(c) && (f->shapeless || !same_shape(c->x[0], c->y[0]));
}

FORM(arg_reduction)
{
    f->name = "ArgReduce";
    add_int(f, enum_at(c, "fold") == ARG_MAX);
    add_int(f, int_at(c, "axis"));
    return true;
}

FORM(softmax)
{
    f->name = "Softmax";
    add_bool(f, true);
    return true;
}

FORM(addmm)
{
    f->name = "AddMM";
    double alpha = real_at(c, "alpha"), beta = real_at(c, "beta");
    enum dtype t = c->y[0]->dtype;
    add_float(f, alpha);
    add_float(f, beta);
    return composed_scalar_fits(alpha, t) && composed_scalar_fits(beta, t);
}

FORM(convolution)
{
    struct ints stride = ints_at(c, "stride"), low = ints_at(c, "low"), size = ints_at(c, "size"),
                dilation = ints_at(c, "dilation"), input = ints_at(c, "input_dilation"), behind = ints_at(c, "high");
    mx x = c->x[0], w = c->x[1];
    f->name = "Convolution";
    add_list(f, stride);
    add_list(f, low);
    int64_t *high = add_new_list(f, size.n);
    bool cuts = false; /* by negative padding, which ends the package's process */
    for (int i = 0; i < size.n; i++) {
        int64_t whole = 1 + (dim(x, 1 + i) - (int64_t)1) * input.v[i];
        int64_t seen = 1 + (dim(w, 1 + i) - (int64_t)1) * dilation.v[i];
        int64_t read = (dim(c->y[0], 1 + i) - (int64_t)1) * stride.v[i] + seen;
        bool any = size.v[i] == -1;
        high[i] = any ? behind.v[i] : read - whole - low.v[i];
        if (!any && high[i] < 0 && high[i] + stride.v[i] > 0) /* What a stride leaves out need not be cut off. */
            high[i] = 0;
        cuts |= low.v[i] < 0 || high[i] < 0;
    }
    add_list(f, dilation);
    add_list(f, input);
    add_int(f, int_at(c, "groups"));
    add_bool(f, false);
    return !lends(size) && !cuts && !(f->portable && composed_conv_by_group(c));
}

FORM(fourier)
{
    const struct fft_args *a = c->args;
    f->name = "FFT";
    add_new_list(f, 1)[0] = a->axis;
    f->s.v[0].kind = 'U';
    add_bool(f, a->inverse);
    add_bool(f, a->kind != FFT_COMPLEX);
    add_bool(f, a->kind == FFT_HERMITIAN && a->n % 2);
    return composed_fft_is_plain(a);
}

FORM(hadamard)
{
    f->name = "Hadamard";
    double scale = real_at(c, "scale");
    add_float(f, scale);
    bool turned = bool_at(c, "transposed") && hadamard_odd(dim(c->x[0], -1)) != 1;
    return !turned && composed_scalar_fits(scale, c->x[0]->dtype);
}

FORM(quantize)
{
    f->name = "Quantize";
    next_value(f, 'n');
    add_int(f, int_at(c, "group_size"));
    add_int(f, int_at(c, "bits"));
    add_int(f, (int)enum_at(c, "mode"));
    add_bool(f, false);
    return enum_at(c, "mode") == 0;
}

static void add_packing(struct wire_form *f, const struct call *c)
{
    add_int(f, int_at(c, "group_size"));
    add_int(f, int_at(c, "bits"));
    add_int(f, (int)enum_at(c, "mode"));
    add_bool(f, bool_at(c, "transpose"));
}

FORM(packed_product)
{
    f->name = "QuantizedMatmul";
    add_packing(f, c);
    return composed_packed_fits(c);
}

FORM(packed_products)
{
    f->name = "GatherQMM";
    add_packing(f, c);
    add_bool(f, false);
    add_bool(f, false);
    return composed_packed_fits(c) && c->x[c->nin - 1]->dtype == DT_uint32 && c->x[c->nin - 2]->dtype == DT_uint32;
}

FORM(picked_products)
{
    f->name = "GatherMM";
    add_bool(f, false);
    add_bool(f, false);
    return c->x[2]->dtype == DT_uint32 && c->x[3]->dtype == DT_uint32 && c->x[0]->dtype == DT_float32;
}

FORM(random_bits)
{
    f->name = "RandomBits";
    add_shape(f, c->y[0]);
    add_int(f, int_at(c, "width"));
    return true;
}

FORM(inverse)
{
    unsigned part = enum_at(c, "part");
    f->name = "Inverse";
    add_bool(f, part != 0);
    add_bool(f, part != 1);
    return true;
}

FORM(cholesky)
{
    f->name = "Cholesky";
    add_bool(f, enum_at(c, "part") == 2);
    return true;
}

FORM(singular_values)
{
    f->name = "SVD";
    add_bool(f, enum_at(c, "mode") != SVD_VALUES);
    return enum_at(c, "mode") != SVD_THIN;
}

FORM(eigh)
{
    f->name = "Eigh";
    struct wire_value *v = next_value(f, 's');
    v->s = enum_at(c, "part") == 2 ? "U" : "L";
    v->n = 1;
    add_bool(f, bool_at(c, "vectors"));
    return true;
}

FORM(eig)
{
    f->name = "Eig";
    add_bool(f, bool_at(c, "vectors"));
    return true;
}

/* Along the last axis, as ours are. */
FORM(sorting)
{
    f->name = c->op->label;
    if (c->op->id == OP_partition || c->op->id == OP_argpartition)
        add_int(f, int_at(c, "kth"));
    add_int(f, c->x[0]->ndim - 1);
    return f->s.n == 1 || int_at(c, "kth") >= 0;
}

FORM(search)
{
    f->name = "SearchSorted";
    add_bool(f, bool_at(c, "right"));
    return c->x[0]->ndim == 1;
}

FORM(scan)
{
    static const int codes[] = {
        [SCAN_MAX] = 0, [SCAN_MIN] = 1, [SCAN_SUM] = 2, [SCAN_PROD] = 3, [SCAN_LOGSUMEXP] = 4
    };
    f->name = "Scan";
    add_int(f, codes[enum_at(c, "fold")]);
    add_int(f, int_at(c, "axis"));
    add_bool(f, bool_at(c, "reverse"));
    add_bool(f, true);
    return true;
}

FORM(matmul)
{
    f->name = "Matmul";
    return dtype_is_inexact(c->x[0]->dtype);
}

/* ---- the rows */

static const struct row {
    bool (*form)(const struct call *c, struct wire_form *f);
    void (*compose)(const struct call *c, mx y[]);
    bool stated, extension;
} rows[OP_COUNT] = {
#define SAME(op) [OP_##op] = { as_it_is, NULL, true, false },
#define AS(op, form) [OP_##op] = { form, NULL, true, false },
#define COMPOSED(op) [OP_##op] = { NULL, compose_##op, true, false },
#define OR_COMPOSED(op, form) [OP_##op] = { form, compose_##op, true, false },
#define OR_FOLLOWED(op, form) [OP_##op] = { form, compose_##op, true, true },
#define OR_OURS(op, form) [OP_##op] = { form, NULL, true, true },
#define CONSTANT(op) [OP_##op] = { NULL, NULL, true, false }, /* exporting evaluates it */
#include "mlxfn/forms.def"
};

static const struct row *row_of_form(const struct op *op)
{
    static const struct row none = { NULL, NULL, false, false }, by_itself = { NULL, NULL, true, true };
    const struct row *r = op->id < OP_COUNT ? &rows[op->id] : &none;
    return !r->stated && op->fits ? &by_itself : r;
}

bool wire_stated(const struct op *op)
{
    const struct row *r = row_of_form(op);
    return r->stated && (op->fits || !r->extension);
}

bool wire_form(const struct call *c, bool shapeless, bool portable, struct wire_form *f)
{
    const struct row *r = row_of_form(c->op);
    f->name = NULL;
    f->s.n = 0;
    f->rotate = 0;
    f->text = NULL;
    f->shapeless = shapeless;
    f->portable = portable;
    if (!r->form || !r->form(c, f))
        return false;
    const struct primitive *p = primitive_named(f->name, strlen(f->name));
    f->format = p->state;
    f->follows_there = p->follows_there;
    return true;
}

bool wire_composable(const struct op *op)
{
    return row_of_form(op)->stated && (op->compose || row_of_form(op)->compose);
}

void wire_compose(const struct call *c, mx y[])
{
    const struct row *r = row_of_form(c->op);
    for (int k = 0; k < c->nout; k++) y[k] = MX_NIL;
    if (r->compose)
        r->compose(c, y);
    else
        c->op->compose(c, y);
}

/* ---- extensions: the fields of the arguments one after another, as their description says */

bool wire_has_extension(const struct op *op) { return plugin_of(op) || row_of_form(op)->extension; }

bool wire_extension(const struct call *c, struct wire_form *f)
{
    const struct plugin *p = plugin_of(c->op);
    snprintf(f->label, sizeof f->label, EXTENSION "%s%s", p ? PLUGIN : "", c->op->name);
    f->name = f->label;
    f->format = "s";
    f->s.n = 0;
    f->rotate = 0;
    struct wire_value *v = next_value(f, 's');
    f->text =
        p ? p->encode(p, ((const struct plugin_args *)c->args)->state, &v->n) : extension_encode(c->op, c->args, &v->n);
    v->s = f->text;
    return f->text;
}

const struct op *extension_named(const char *name, size_t length)
{
    const size_t prefix = sizeof PLUGIN - 1;
    if (length > prefix && !memcmp(name, PLUGIN, prefix)) {
        const struct plugin *p = plugin_named(name + prefix, length - prefix);
        return p ? &p->op : NULL;
    }
    for (int id = 0; id < OP_COUNT; id++) {
        const struct op *op = op_table[id];
        if (row_of_form(op)->extension && strlen(op->name) == length && !memcmp(op->name, name, length))
            return op;
    }
    return NULL;
}
