/* shape.c: the same elements under another shape.
 *
 * Everything here shares its operand's memory where strides can say it; a reshape, view or
 * as_strided of memory that lies otherwise is a row-major copy first.  A builder that would change
 * nothing gives its operand back. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "ops/rules.h"
#include "ops/shape.h"

static const struct field shape_args_fields[] = { SIZES(shape_args, shape), FIELD(shape_args, given), { 0 } };

struct axes_args {
    struct ints axes;
};
static const struct field axes_args_fields[] = { FIELD(axes_args, axes), { 0 } };

/* ---- sizes of graphs for any shape */

struct size size_is(int n) { return (struct size){ .now = n }; }

struct size size_of(mx x, int axis)
{
    axis += axis < 0 ? x->ndim : 0;
    bool lent = x->tracer && shapeless() && !is_nil(x);
    return (struct size){ lent ? x : NULL, dim(x, axis), axis };
}

int sizes_like(mx x, struct size out[])
{
    for (int i = 0; i < x->ndim; i++) out[i] = size_of(x, i);
    return x->ndim;
}

/* The sizes as numbers; do arrays lend some? */
static bool known_numbers(int n, const struct size sizes[], int *out)
{
    bool lent = false;
    for (int i = 0; i < n; i++) {
        out[i] = sizes[i].now;
        lent |= sizes[i].of != NULL;
    }
    return lent;
}

/* The node with operand 0 replaced. */
static mx with_first_operand(const struct call *c, const void *args, mx first)
{
    mx *x = mx_malloc((size_t)c->nin * sizeof *x), y = MX_NIL;
    if (!x)
        return y;
    memcpy(x, c->x, (size_t)c->nin * sizeof *x);
    x[0] = first;
    y = mx_infer(c->op, args, c->nin, x);
    free(x);
    return y;
}

/* ---- broadcast
 *
 * One operand takes the shape of the arguments.  Further operands only lend their shapes.  Without a
 * shape in the arguments the result has the one that all of them broadcast to together, but for `axes`,
 * counted from the end, where operand 0 keeps its own size and the others' is not looked at.  Where they
 * are to be `alike`, there is nothing to broadcast: a shape that differs is an error. */

static const struct field broadcast_args_fields[] = {
    SIZES(broadcast_args, shape), FIELD(broadcast_args, axes), FIELD(broadcast_args, alike), { 0 }
};

static bool by_operands(const struct call *c)
{
    return c->nin > 1 && ((const struct broadcast_args *)c->args)->shape.n == 0;
}

static bool keeps_axis(const struct broadcast_args *a, int from_end)
{
    for (int i = 0; i < a->axes.n; i++)
        if (a->axes.v[i] == from_end)
            return true;
    return false;
}

static int lent_shapes(const struct call *c, struct spec out[])
{
    const struct broadcast_args *a = c->args;
    mx x = c->x[0];
    int ndim = 0;
    for (int k = 0; k < c->nin; k++) ndim = c->x[k]->ndim > ndim ? c->x[k]->ndim : ndim;
    for (int k = 1; k < c->nin && a->alike; k++)
        if (!same_shape(x, c->x[k]))
            return failed(mx_fail("[broadcast] expected shape %s, got %s", shape_of(c->x[k]), shape_of(x)));
    for (int i = -ndim; i < 0; i++) {
        int size = 1, *at = &out->shape[ndim + i];
        bool kept = keeps_axis(a, i);
        for (int k = 0; k < (kept ? 1 : c->nin); k++) {
            mx y = c->x[k];
            int here = -i > y->ndim ? 1 : dim(y, i);
            if (here != 1 && size != 1 && here != size)
                return failed(mx_fail("[broadcast] shapes %s and %s cannot be broadcast: axis %d is %d there, %d here",
                                      shape_of(x), shape_of(y), i, size, here));
            size = here == 1 ? size : here;
        }
        *at = size;
    }
    out->dtype = x->dtype;
    out->ndim = ndim;
    return 0;
}

static int broadcast_shapes(const struct call *c, struct spec out[])
{
    const struct broadcast_args *a = c->args;
    mx x = c->x[0];
    int lead = a->shape.n - x->ndim, shape[MX_MAX_NDIM];
    if (by_operands(c))
        return lent_shapes(c, out);
    if (a->shape.n > MX_MAX_NDIM)
        return failed(mx_fail("[broadcast_to] expected at most 64 dimensions, got %d", a->shape.n));
    for (int i = 0; i < a->shape.n; i++) shape[i] = (int)size_in(c, a->shape.v[i]);
    bool fits = lead >= 0;
    for (int i = 0; i < x->ndim && fits; i++) fits = x->shape[i] == 1 || x->shape[i] == shape[lead + i];
    if (!fits)
        return failed(mx_fail("[broadcast_to] expected a shape that %s broadcasts to, got %s", shape_of(x),
                              shape_text(a->shape.n, shape)));
    return spec_set(out, x->dtype, a->shape.n, shape);
}

static bool broadcast_view(const struct call *c, mx y)
{
    mx x = c->x[0];
    int lead = y->ndim - x->ndim;
    for (int i = 0; i < y->ndim; i++)
        y->strides[i] = i < lead || (x->shape[i - lead] == 1 && y->shape[i] != 1) ? 0 : x->strides[i - lead];
    y->offset = x->offset;
    return true;
}

static void broadcast_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = mx_sum_to_like(ct[0], c->x[0]);
}

static void broadcast_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (t[0])
        dy[0] = mx_broadcast_like(t[0], c->y[0]);
}

/* Every operand with the batch, or 1, in front and as many dimensions behind it as the result. */
static void lent_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    int ndim = 0, ones[MX_MAX_NDIM];
    mx *x = mx_malloc((size_t)c->nin * sizeof *x);
    y[0] = MX_NIL;
    yaxis[0] = 0;
    if (!x)
        return;
    for (int k = 0; k < c->nin; k++) {
        int own = c->x[k]->ndim - (axis[k] >= 0);
        ndim = own > ndim ? own : ndim;
    }
    for (int k = 0; k < c->nin; k++) {
        int batched = axis[k] >= 0, missing = ndim - (c->x[k]->ndim - batched) + !batched;
        for (int i = 0; i < missing && i < MX_MAX_NDIM; i++) ones[i] = batched + i;
        x[k] = mx_expand_dims(batch_first(c->x[k], axis[k]), ones, missing);
    }
    y[0] = mx_infer(&op_broadcast, c->args, c->nin, x);
    free(x);
}

/* (B, d...) gets ones between, so that the batch stays in front: (B, 1..., d...) */
static void broadcast_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct broadcast_args *a = c->args;
    if (a->alike) {
        struct size n = batch_size(c, axis);
        y[0] = mx_shape_checked(batch_all(c->x[0], axis[0], n), batch_all(c->x[1], axis[1], n));
        yaxis[0] = 0;
        return;
    }
    if (by_operands(c)) {
        lent_vmap(c, axis, y, yaxis);
        return;
    }
    bool batched = axis[0] >= 0;
    int ones = a->shape.n - (c->x[0]->ndim - batched), between[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM + 1];
    for (int i = 0; i < ones && i < MX_MAX_NDIM; i++) between[i] = 1 + i;
    mx x = batched ? mx_expand_dims(batch_first(c->x[0], axis[0]), between, ones) : c->x[0];
    y[0] = with_first_operand(c, &(struct broadcast_args){ .shape = sizes_batched(a->shape, 1, axis, 1 + ones, v) }, x);
    yaxis[0] = batched ? 0 : -1;
}

static mx broadcast_settled(const struct call *c)
{
    struct spec s;
    return broadcast_shapes(c, &s) ? MX_NIL : mx_broadcast_to(c->x[0], s.ndim, s.shape);
}

mx mx_broadcast_to(mx x, int ndim, const int *shape)
{
    if (is_nil(x) || (shape_is(x, ndim, shape) && !(shapeless() && x->tracer)))
        return x;
    if (shape_size("broadcast_to", ndim, shape) < 0)
        return MX_NIL;
    int64_t v[MX_MAX_NDIM];
    struct broadcast_args a = { .shape = ints_of(ndim, shape, v) };
    return mx_infer(&op_broadcast, &a, 1, &x);
}

mx mx_broadcast_with(int n, const mx x[], const int *axes, int n_axes)
{
    int64_t v[MX_MAX_NDIM];
    bool tracer = false;
    if (n_axes > MX_MAX_NDIM)
        return mx_fail("[broadcast] expected at most %d axes to keep, got %d", MX_MAX_NDIM, n_axes);
    for (int i = 0; i < n_axes; i++)
        if (axes[i] >= 0)
            return mx_fail("[broadcast] expected axes to keep that count from the end, got %d", axes[i]);
    for (int k = 0; k < n; k++) {
        if (is_nil(x[k]))
            return MX_NIL;
        tracer |= x[k]->tracer;
    }
    if (n == 1)
        return x[0];
    struct broadcast_args a = { .axes = ints_of(n_axes, axes, v) };
    if (tracer && shapeless())
        return mx_infer(&op_broadcast, &a, n, x);
    struct spec s;
    struct call c = { .op = &op_broadcast, .args = &a, .nin = n, .nout = 1, .x = x };
    return lent_shapes(&c, &s) ? MX_NIL : mx_broadcast_to(x[0], s.ndim, s.shape);
}

mx mx_broadcast_by(mx x, int n, const struct size sizes[])
{
    int shape[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM];
    mx in[1 + MX_MAX_NDIM] = { x };
    if (is_nil(x))
        return x;
    if (!known_numbers(n, sizes, shape))
        return mx_broadcast_to(x, n, shape);
    int m = size_operands(1, in, n, sizes, v);
    return mx_infer(&op_broadcast, &(struct broadcast_args){ .shape = { n, v } }, m, in);
}

mx mx_broadcast_like(mx x, mx like)
{
    struct size sizes[MX_MAX_NDIM];
    return mx_broadcast_by(x, sizes_like(like, sizes), sizes);
}

mx mx_shape_checked(mx x, mx like)
{
    if (is_nil(x) || is_nil(like))
        return MX_NIL;
    if (!shapeless() || x == like || !(x->tracer || like->tracer) || x->ndim == 0)
        return x;
    return shapeless_check(mx_infer(&op_broadcast, &(struct broadcast_args){ .alike = true }, 2, (mx[]){ x, like }));
}

mx mx_sizes_checked(mx x, int n, const struct size sizes[])
{
    return shapeless() && !is_nil(x) ? mx_shape_checked(x, mx_broadcast_by(array_of_int(0, DT_bool_), n, sizes)) : x;
}

/* In a graph for any shape each operand follows all that may grow: what is 0-d and known never does. */
static bool follow_dynamic(int n, mx x[])
{
    mx *lending = mx_malloc((size_t)n * 2 * sizeof *lending), *y = lending + n;
    for (int i = 0; i < n && lending; i++) {
        int m = 0;
        lending[m++] = x[i];
        for (int k = 0; k < n; k++)
            if (k != i && x[k] != x[i] && (x[k]->ndim > 0 || x[k]->tracer))
                lending[m++] = x[k];
        y[i] = mx_broadcast_with(m, lending, NULL, 0);
    }
    for (int i = 0; i < n; i++) x[i] = lending ? y[i] : MX_NIL;
    free(lending);
    return !mx_failed();
}

bool mx_broadcast(int n, mx x[])
{
    int ndim, shape[MX_MAX_NDIM];
    bool same = true, nil = false;
    for (int i = 0; i < n; i++) {
        nil |= is_nil(x[i]);
        same &= same_shape(x[i], x[0]);
    }
    if (shapeless() && !nil)
        return follow_dynamic(n, x);
    if (same && !nil)
        return true;
    bool ok = !nil && broadcast_shape("broadcast", n, x, &ndim, shape);
    for (int i = 0; i < n; i++) {
        x[i] = ok ? mx_broadcast_to(x[i], ndim, shape) : MX_NIL;
        ok &= !is_nil(x[i]);
    }
    return ok;
}

static bool broadcast_fits(const struct call *c)
{
    const struct broadcast_args *a = c->args;
    return c->nin >= 1 && c->nout == 1 && (!a->alike || (c->nin == 2 && a->shape.n == 0)) &&
           numbers_are_sizes(a->shape, 0, c) && numbers_within(a->axes, a->axes.n, -MX_MAX_NDIM, -1);
}

const struct op op_broadcast = {
    OP_ROW(broadcast),          ARGS(broadcast_args),   .own = 1,
    .shapes = broadcast_shapes, .view = broadcast_view, .settled = broadcast_settled,
    .vjp = broadcast_vjp,       .jvp = broadcast_jvp,   .vmap = broadcast_vmap,
    .fits = broadcast_fits,
};

/* ---- reshape
 *
 * In the arguments one size may be -1: it follows from the others.  Flatten and unflatten take the axes
 * that they leave alone as sizes of the operand, so they mean what they say for operands of other shapes
 * too, and -1 is settled among the other axes, which empty arrays need. */

enum { INFERRED = -1 };

static int64_t saturating_product(int64_t a, int64_t b)
{
    int64_t p;
    return __builtin_mul_overflow(a, b, &p) ? INT64_MAX : p;
}

static int reshape_shapes(const struct call *c, struct spec out[])
{
    const struct shape_args *a = c->args;
    mx x = c->x[0];
    int n = a->shape.n, infer = -1, shape[MX_MAX_NDIM];
    bool copied[MX_MAX_NDIM] = { 0 };
    int64_t have = 1, given = 1;
    if (n > MX_MAX_NDIM)
        return failed(mx_fail("[reshape] expected at most %d dimensions, got %d", MX_MAX_NDIM, n));
    for (int i = 0; i < n; i++) {
        int64_t v = a->shape.v[i];
        shape[i] = (int)size_in(c, v);
        if (v <= SIZE_OF(0, 0) && v > SIZE_OF(1, 0))
            copied[SIZE_OF(0, 0) - v] = true;
        else if (v == INFERRED)
            infer = i;
        else
            given = saturating_product(given, shape[i]);
    }
    for (int i = 0; i < x->ndim; i++) have *= copied[i] ? 1 : x->shape[i];
    if (infer >= 0 && given == 0)
        return failed(mx_fail("[reshape] expected other sizes than 0 beside -1, got %s", shape_text(n, shape)));
    if (infer >= 0 ? have % given != 0 : have != given)
        return failed(mx_fail("[reshape] expected a shape for the %lld elements of shape %s, got %s",
                              (long long)x->size, shape_of(x), shape_text(n, shape)));
    if (infer >= 0 && (shape[infer] = dim_of("reshape", have / given)) < 0)
        return 1;
    return spec_set(out, x->dtype, n, shape);
}

/* Both shapes are walked from the back.  Each stretch of x's axes that lies evenly in memory must
 * be used up exactly by a stretch of y's. */
static bool reshape_view(const struct call *c, mx y)
{
    mx x = c->x[0];
    int shape[MX_MAX_NDIM + 1];
    int64_t strides[MX_MAX_NDIM + 1], *walk[] = { strides };
    y->offset = x->offset;
    if (x->row || x->size == 0) {
        row_strides(y->ndim, y->shape, y->strides);
        return true;
    }
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    memcpy(strides, x->strides, (size_t)x->ndim * sizeof *strides);
    int j = collapse(x->ndim, shape, 1, walk) - 1;
    int64_t left = shape[j], stride = strides[j];
    for (int i = y->ndim; i-- > 0;) {
        if (y->shape[i] == 1) {
            y->strides[i] = 1;
            continue;
        }
        if (left == 1 && j > 0) {
            left = shape[--j];
            stride = strides[j];
        }
        while (left % y->shape[i] && j > 0 && strides[j - 1] == stride * left) left *= shape[--j];
        if (left % y->shape[i])
            return false;
        y->strides[i] = stride;
        stride *= y->shape[i];
        left /= y->shape[i];
    }
    return true;
}

static void reshape_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = mx_reshape_like(ct[0], c->x[0]);
}

static void reshape_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (t[0])
        dy[0] = with_first_operand(c, c->args, t[0]);
}

static void reshape_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct shape_args *a = c->args;
    int64_t v[MX_MAX_NDIM + 1];
    y[0] = with_first_operand(c, &(struct shape_args){ sizes_batched(a->shape, 1, axis, 1, v), a->given },
                              batch_first(c->x[0], axis[0]));
    yaxis[0] = axis[0] < 0 ? -1 : 0;
}

static mx reshape_settled(const struct call *c)
{
    struct spec s;
    return reshape_shapes(c, &s) ? MX_NIL : mx_reshape(c->x[0], s.ndim, s.shape);
}

bool sizes_were_given(const struct node *n)
{
    return n->op == &op_reshape && ((const struct shape_args *)n->args)->given;
}

static mx reshape(mx x, int ndim, const int *shape, bool given)
{
    bool settled = !(x->tracer && shapeless());
    if (is_nil(x) || (settled && shape_is(x, ndim, shape)))
        return x;
    if (ndim > MX_MAX_NDIM)
        return mx_fail("[reshape] expected at most %d dimensions, got %d", MX_MAX_NDIM, ndim);
    int64_t v[MX_MAX_NDIM];
    struct shape_args a = { ints_of(ndim, shape, v), given };
    int unknown = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < INFERRED)
            return mx_fail("[reshape] expected sizes of 0 or more, or -1, got %d in shape %s", shape[i],
                           shape_text(ndim, shape));
        if (shape[i] == INFERRED && unknown++)
            return mx_fail("[reshape] expected at most one size of -1, got shape %s", shape_text(ndim, shape));
    }
    struct spec s;
    struct call c = { .op = &op_reshape, .args = &a, .nin = 1, .nout = 1, .x = &x };
    if (reshape_shapes(&c, &s))
        return MX_NIL;
    if (shape_is(x, s.ndim, s.shape) && (settled || (given && shape_was_read(s.ndim, s.shape))))
        return x; /* x.reshape(x.shape) at any size */
    a.given = given && !shape_was_read(s.ndim, s.shape);
    return mx_node(&op_reshape, &a, 1, &x, s.ndim, s.shape, s.dtype);
}

mx mx_reshape(mx x, int ndim, const int *shape) { return reshape(x, ndim, shape, true); }

/* Replaces axes start..end of x by the n sizes given. */
static mx regroup(mx x, int start, int end, int n, const int *sizes, bool given)
{
    int64_t v[2 * MX_MAX_NDIM];
    int m = 0;
    for (int i = 0; i < start; i++) v[m++] = SIZE_OF(0, i);
    for (int i = 0; i < n; i++) v[m++] = sizes[i];
    for (int i = end + 1; i < x->ndim; i++) v[m++] = SIZE_OF(0, i);
    struct shape_args a = { { m, v }, given };
    return mx_infer(&op_reshape, &a, 1, &x);
}

/* Axes beyond the first or last mean the first or last. */
mx mx_flatten(mx x, int start, int end)
{
    static const int one = 1, inferred = INFERRED;
    if (is_nil(x))
        return x;
    if (x->ndim == 0)
        return mx_reshape(x, 1, &one);
    int s = start < 0 ? start + x->ndim : start, e = end < 0 ? end + x->ndim : end;
    s = s < 0 ? 0 : s;
    e = e >= x->ndim ? x->ndim - 1 : e;
    if (s >= x->ndim || e < 0)
        return mx_fail_as(MX_AXIS, "[flatten] axes %d to %d are outside of an array with %d dimensions", start, end,
                          x->ndim);
    if (s > e)
        return mx_fail("[flatten] expected the first axis not to be behind the last, got %d and %d", start, end);
    return s == e ? x : regroup(x, s, e, 1, &inferred, true);
}

mx mx_unflatten(mx x, int axis, int ndim, const int *shape)
{
    if (is_nil(x))
        return x;
    int a = axis_of("unflatten", axis, x->ndim), unknown = 0;
    int64_t product = 1;
    if (a < 0)
        return MX_NIL;
    if (ndim == 0)
        return mx_fail("[unflatten] expected at least one size, got none");
    if (ndim + x->ndim - 1 > MX_MAX_NDIM)
        return mx_fail("[unflatten] expected at most %d dimensions, got %d", MX_MAX_NDIM, ndim + x->ndim - 1);
    for (int i = 0; i < ndim; i++) {
        unknown += shape[i] == INFERRED;
        if (shape[i] < INFERRED || unknown > 1)
            return mx_fail("[unflatten] expected sizes, at most one of them -1, got %s", shape_text(ndim, shape));
        product = saturating_product(product, shape[i] < 0 ? 1 : shape[i]);
    }
    int size = x->shape[a];
    if (unknown ? product == 0 || size % product : product != size)
        return mx_fail("[unflatten] expected sizes that multiply to %d, the size of axis %d, got %s", size, axis,
                       shape_text(ndim, shape));
    bool same = ndim == 1 && (unknown || !(shapeless() && x->tracer));
    return same ? x : regroup(x, a, a, ndim, shape, true);
}

mx mx_reshape_by(mx x, int n, const struct size sizes[])
{
    int shape[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM];
    mx in[1 + MX_MAX_NDIM] = { x };
    if (is_nil(x))
        return x;
    if (n > MX_MAX_NDIM)
        return mx_fail("[reshape] expected at most %d dimensions, got %d", MX_MAX_NDIM, n);
    if (!known_numbers(n, sizes, shape))
        return reshape(x, n, shape, false);
    int m = size_operands(1, in, n, sizes, v);
    return mx_infer(&op_reshape, &(struct shape_args){ { n, v }, false }, m, in);
}

mx mx_reshape_like(mx x, mx like)
{
    struct size sizes[MX_MAX_NDIM];
    return mx_reshape_by(x, sizes_like(like, sizes), sizes);
}

mx mx_size_checked(mx x, int axis)
{
    int n = dim(x, axis), a = axis < 0 ? axis + x->ndim : axis;
    return is_nil(x) || !(x->tracer && shapeless()) ? x : shapeless_check(regroup(x, a, a, 1, &n, false));
}

mx mx_unflatten_by(mx x, int axis, int n, const struct size sizes[])
{
    struct size all[2 * MX_MAX_NDIM];
    int numbers[MX_MAX_NDIM], m = 0, a = is_nil(x) ? -1 : axis_of("unflatten", axis, x->ndim);
    if (a < 0)
        return MX_NIL;
    if (!known_numbers(n, sizes, numbers))
        return regroup(x, a, a, n, numbers, false);
    for (int i = 0; i < x->ndim; i++) {
        if (i != a)
            all[m++] = size_of(x, i);
        for (int k = 0; i == a && k < n; k++) all[m++] = sizes[k];
    }
    return mx_reshape_by(x, m, all);
}

static bool reshape_fits(const struct call *c)
{
    struct ints shape = ((const struct shape_args *)c->args)->shape;
    int unknown = 0;
    for (int i = 0; i < shape.n; i++) unknown += shape.v[i] == INFERRED;
    return c->nin >= 1 && c->nout == 1 && unknown <= 1 && numbers_are_sizes(shape, INFERRED, c);
}

const struct op op_reshape = {
    OP_ROW(reshape),      ARGS(shape_args),           .own = 1,           .shapes = reshape_shapes,
    .view = reshape_view, .settled = reshape_settled, .vjp = reshape_vjp, .jvp = reshape_jvp,
    .vmap = reshape_vmap, .fits = reshape_fits,
};

/* ---- transpose: axis i of the result is axis axes[i] of the operand */

static int transpose_shapes(const struct call *c, struct spec out[])
{
    const struct axes_args *a = c->args;
    int shape[MX_MAX_NDIM];
    for (int i = 0; i < a->axes.n; i++) shape[i] = dim(c->x[0], (int)a->axes.v[i]);
    return spec_set(out, c->x[0]->dtype, a->axes.n, shape);
}

static bool transpose_view(const struct call *c, mx y)
{
    const struct axes_args *a = c->args;
    for (int i = 0; i < y->ndim; i++) y->strides[i] = c->x[0]->strides[a->axes.v[i]];
    y->offset = c->x[0]->offset;
    return true;
}

static void transpose_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct axes_args *a = c->args;
    int inverse[MX_MAX_NDIM];
    for (int i = 0; i < a->axes.n; i++) inverse[a->axes.v[i]] = i;
    if (want[0])
        dx[0] = mx_transpose(ct[0], inverse, a->axes.n);
}

static void transpose_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = mx_infer(&op_transpose, c->args, 1, t);
}

/* The batch's own axis is stepped over in place: nothing needs to move first. */
static void transpose_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct axes_args *a = c->args;
    int axes[MX_MAX_NDIM + 1] = { axis[0] };
    for (int i = 0; i < a->axes.n; i++) axes[1 + i] = (int)a->axes.v[i] + (a->axes.v[i] >= axis[0]);
    y[0] = mx_transpose(c->x[0], axes, 1 + a->axes.n);
    yaxis[0] = 0;
}

mx mx_transpose(mx x, const int *axes, int n)
{
    if (is_nil(x))
        return x;
    int64_t v[MX_MAX_NDIM];
    int sorted[MX_MAX_NDIM];
    bool moves = false;
    if (axes && n != x->ndim)
        return mx_fail("[transpose] expected %d axes, one for each dimension, got %d", x->ndim, n);
    if (axes && axes_of("transpose", axes, n, x->ndim, sorted) < 0)
        return MX_NIL;
    for (int i = 0; i < x->ndim; i++) {
        int a = axes ? axes[i] : x->ndim - 1 - i;
        v[i] = a < 0 ? a + x->ndim : a;
        moves |= v[i] != i;
    }
    struct axes_args a = { { x->ndim, v } };
    return moves ? mx_infer(&op_transpose, &a, 1, &x) : x;
}

mx mx_swapaxes(mx x, int a, int b)
{
    if (is_nil(x))
        return x;
    int i = axis_of("swapaxes", a, x->ndim), j = axis_of("swapaxes", b, x->ndim), axes[MX_MAX_NDIM];
    if (i < 0 || j < 0)
        return MX_NIL;
    for (int k = 0; k < x->ndim; k++) axes[k] = k == i ? j : k == j ? i : k;
    return mx_transpose(x, axes, x->ndim);
}

mx mx_moveaxis(mx x, int from, int to)
{
    if (is_nil(x))
        return x;
    int f = axis_of("moveaxis", from, x->ndim), t = axis_of("moveaxis", to, x->ndim), axes[MX_MAX_NDIM], next = 0;
    if (f < 0 || t < 0)
        return MX_NIL;
    for (int i = 0; i < x->ndim; i++) {
        next += next == f;
        axes[i] = i == t ? f : next++;
    }
    return mx_transpose(x, axes, x->ndim);
}

bool is_matrix_transpose(mx x)
{
    int n = x->ndim;
    if (n < 2)
        return false;
    if (x->status == READY)
        return x->strides[n - 2] == 1 && x->strides[n - 1] > 1;
    if (!x->node || x->node->op != &op_transpose)
        return false;
    const struct axes_args *a = x->node->args;
    return a->axes.v[n - 1] == n - 2 && a->axes.v[n - 2] == n - 1;
}

const struct op op_transpose = {
    OP_ROW(transpose),    ARGS(axes_args),      .shapes = transpose_shapes, .view = transpose_view,
    .vjp = transpose_vjp, .jvp = transpose_jvp, .vmap = transpose_vmap,
};

/* ---- expand_dims and squeeze: axes, ascending, count in the larger of the two shapes */

static int expand_dims_shapes(const struct call *c, struct spec out[])
{
    const struct axes_args *a = c->args;
    mx x = c->x[0];
    int n = x->ndim + a->axes.n, shape[2 * MX_MAX_NDIM];
    for (int i = 0, k = 0, from = 0; i < n; i++)
        if (k < a->axes.n && a->axes.v[k] == i) {
            shape[i] = 1;
            k++;
        } else {
            shape[i] = x->shape[from++];
        }
    return spec_set(out, x->dtype, n, shape);
}

static bool expand_dims_view(const struct call *c, mx y)
{
    const struct axes_args *a = c->args;
    mx x = c->x[0];
    for (int i = 0, k = 0, from = 0; i < y->ndim; i++)
        if (k < a->axes.n && a->axes.v[k] == i) {
            y->strides[i] = 1;
            k++;
        } else {
            y->strides[i] = x->strides[from++];
        }
    y->offset = x->offset;
    return true;
}

static void expand_dims_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = mx_infer(&op_squeeze, c->args, 1, ct);
}

static void expand_dims_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = mx_infer(&op_expand_dims, c->args, 1, t);
}

/* Both ways the other axes keep their order behind the batch's. */
static void shifted_axes_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct axes_args *a = c->args;
    int64_t v[MX_MAX_NDIM];
    for (int i = 0; i < a->axes.n; i++) v[i] = a->axes.v[i] + 1;
    struct axes_args batched = { { a->axes.n, v } };
    mx x = batch_first(c->x[0], axis[0]);
    y[0] = mx_infer(c->op, &batched, 1, &x);
    yaxis[0] = 0;
}

mx mx_expand_dims(mx x, const int *axes, int n)
{
    int64_t v[MX_MAX_NDIM];
    int sorted[MX_MAX_NDIM];
    if (is_nil(x) || n == 0)
        return x;
    if (x->ndim + n > MX_MAX_NDIM)
        return mx_fail("[expand_dims] expected at most %d dimensions, got %d", MX_MAX_NDIM, x->ndim + n);
    if (axes_of("expand_dims", axes, n, x->ndim + n, sorted) < 0)
        return MX_NIL;
    struct axes_args a = { ints_of(n, sorted, v) };
    return mx_infer(&op_expand_dims, &a, 1, &x);
}

const struct op op_expand_dims = {
    OP_ROW(expand_dims),    ARGS(axes_args),        .shapes = expand_dims_shapes, .view = expand_dims_view,
    .vjp = expand_dims_vjp, .jvp = expand_dims_jvp, .vmap = shifted_axes_vmap,
};

static int squeeze_shapes(const struct call *c, struct spec out[])
{
    const struct axes_args *a = c->args;
    mx x = c->x[0];
    int shape[MX_MAX_NDIM], n = 0;
    for (int i = 0, k = 0; i < x->ndim; i++) {
        if (k == a->axes.n || a->axes.v[k] != i) {
            shape[n++] = x->shape[i];
            continue;
        }
        k++;
        if (x->shape[i] != 1)
            return failed(mx_fail("[squeeze] expected an axis of size 1, got axis %d of size %d of shape %s", i,
                                  x->shape[i], shape_of(x)));
    }
    return spec_set(out, x->dtype, n, shape);
}

static bool squeeze_view(const struct call *c, mx y)
{
    const struct axes_args *a = c->args;
    mx x = c->x[0];
    for (int i = 0, k = 0, to = 0; i < x->ndim; i++)
        if (k < a->axes.n && a->axes.v[k] == i)
            k++;
        else
            y->strides[to++] = x->strides[i];
    y->offset = x->offset;
    return true;
}

static void squeeze_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = mx_infer(&op_expand_dims, c->args, 1, ct);
}

static void squeeze_jvp(const struct call *c, const mx t[], mx dy[]) { dy[0] = mx_infer(&op_squeeze, c->args, 1, t); }

mx mx_squeeze(mx x, const int *axes, int n)
{
    int64_t v[MX_MAX_NDIM];
    int sorted[MX_MAX_NDIM];
    if (is_nil(x))
        return x;
    if (axes) {
        n = axes_of("squeeze", axes, n, x->ndim, sorted);
    } else {
        n = 0;
        if (x->tracer)
            shapes_matter("squeeze");
        for (int i = 0; i < x->ndim; i++)
            if (x->shape[i] == 1)
                sorted[n++] = i;
    }
    if (n <= 0)
        return n < 0 ? MX_NIL : x;
    struct axes_args a = { ints_of(n, sorted, v) };
    return mx_infer(&op_squeeze, &a, 1, &x);
}

const struct op op_squeeze = {
    OP_ROW(squeeze),    ARGS(axes_args),    .shapes = squeeze_shapes,  .view = squeeze_view,
    .vjp = squeeze_vjp, .jvp = squeeze_jvp, .vmap = shifted_axes_vmap,
};

/* ---- view: the same bytes as another type; between sizes the last axis stretches or shrinks */

struct view_args {
    unsigned dtype;
};
static const struct field view_args_fields[] = { ENUM(view_args, dtype, DT_COUNT - 1), { 0 } };

static int view_shapes(const struct call *c, struct spec out[])
{
    const struct view_args *a = c->args;
    mx x = c->x[0];
    int64_t from = (int64_t)itemsize(x), to = (int64_t)dtype_size(a->dtype);
    spec_set(out, a->dtype, x->ndim, x->shape);
    if (from == to)
        return 0;
    if (x->ndim == 0)
        return failed(mx_fail("[view] expected a type of the same size for a scalar, got %s to %s",
                              dtype_name(x->dtype), dtype_name(a->dtype)));
    int64_t bytes = dim(x, -1) * from;
    if (bytes % to)
        return failed(mx_fail("[view] expected a last axis of a multiple of %lld bytes to view as %s, got %lld bytes",
                              (long long)to, dtype_name(a->dtype), (long long)bytes));
    return (out->shape[x->ndim - 1] = dim_of("view", bytes / to)) < 0;
}

/* Elements of another size need a last axis without gaps, and steps of whole ones elsewhere. */
static bool view_view(const struct call *c, mx y)
{
    mx x = c->x[0];
    int64_t from = (int64_t)itemsize(x), to = (int64_t)itemsize(y);
    int last = y->ndim - 1;
    if (from == to) {
        memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
        y->offset = x->offset;
        return true;
    }
    if (x->offset * from % to || (x->shape[last] != 1 && x->strides[last] != 1))
        return false;
    for (int i = 0; i < last; i++) {
        if (x->shape[i] != 1 && x->strides[i] * from % to)
            return false;
        y->strides[i] = x->strides[i] * from / to;
    }
    y->strides[last] = 1;
    y->offset = x->offset * from / to;
    return true;
}

static void view_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct view_args *a = c->args;
    mx x = batch_first(c->x[0], axis[0]);
    if (x->ndim == 1 && itemsize(x) != dtype_size(a->dtype))
        y[0] = mx_fail("[view] expected a type of the same size for a scalar, got %s to %s", dtype_name(x->dtype),
                       dtype_name(a->dtype));
    else
        y[0] = mx_view(x, a->dtype);
    yaxis[0] = 0;
}

mx mx_view(mx x, enum dtype t)
{
    struct view_args a = { t };
    return is_nil(x) || x->dtype == t ? x : mx_infer(&op_view, &a, 1, &x);
}

const struct op op_view = {
    OP_ROW(view),  ARGS(view_args), .shapes = view_shapes, .view = view_view,
    .vjp = no_vjp, .jvp = no_jvp,   .vmap = view_vmap,
};

/* ---- as_strided: any walk over the elements of x, as if it lay row-major */

struct as_strided_args {
    struct ints shape, strides;
    int64_t offset;
};
static const struct field as_strided_args_fields[] = {
    FIELD(as_strided_args, shape), FIELD(as_strided_args, strides), FIELD(as_strided_args, offset), { 0 }
};

/* The first and the last element that the walk touches; false if a number overflows. */
static bool as_strided_reach(const struct as_strided_args *a, int64_t *low, int64_t *high)
{
    *low = *high = a->offset;
    for (int i = 0; i < a->shape.n; i++) {
        int64_t far;
        int64_t *end = a->strides.v[i] < 0 ? low : high;
        if (__builtin_mul_overflow(a->shape.v[i] - 1, a->strides.v[i], &far) || __builtin_add_overflow(*end, far, end))
            return false;
    }
    return true;
}

static int as_strided_shapes(const struct call *c, struct spec out[])
{
    const struct as_strided_args *a = c->args;
    mx x = c->x[0];
    int shape[MX_MAX_NDIM];
    int64_t low, high;
    for (int i = 0; i < a->shape.n; i++) shape[i] = (int)a->shape.v[i];
    int64_t size = shape_size("as_strided", a->shape.n, shape);
    if (size < 0)
        return 1;
    if (size > 0 && (!as_strided_reach(a, &low, &high) || low < 0 || high >= x->size))
        return failed(mx_fail_as(
            MX_INDEX,
            "[as_strided] expected to stay inside of %lld elements, got shape %s at offset %lld and strides that "
            "leave it",
            (long long)x->size, shape_text(a->shape.n, shape), (long long)a->offset));
    return spec_set(out, x->dtype, a->shape.n, shape);
}

static bool as_strided_view(const struct call *c, mx y)
{
    const struct as_strided_args *a = c->args;
    if (!c->x[0]->row)
        return false;
    /* What nobody walks may have been given as any number. */
    for (int i = 0; i < y->ndim; i++) y->strides[i] = y->size && y->shape[i] > 1 ? a->strides.v[i] : 0;
    y->offset = c->x[0]->offset + (y->size ? a->offset : 0);
    return true;
}

/* Where each element of the result comes from, in the flattened operand. */
static mx origins(const struct as_strided_args *a)
{
    mx at = array_of_int(a->offset, DT_int64);
    for (int i = 0; i < a->shape.n; i++) {
        int behind[MX_MAX_NDIM];
        for (int k = i + 1; k < a->shape.n; k++) behind[k - i - 1] = 1 + k - i - 1;
        mx along =
            mx_multiply(mx_arange(0, (double)a->shape.v[i], 1, DT_int64), array_of_int(a->strides.v[i], DT_int64));
        at = mx_add(at, mx_expand_dims(along, behind, a->shape.n - 1 - i));
    }
    return mx_flatten(at, 0, -1);
}

/* Elements that several places of the result share collect from all of them. */
static void as_strided_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    mx x = c->x[0];
    if (!want[0])
        return;
    mx flat = mx_flatten(zeros_of(x), 0, -1);
    dx[0] = mx_reshape_like(mx_scatter_add_axis(flat, origins(c->args), mx_flatten(ct[0], 0, -1), 0), x);
}

static void as_strided_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = mx_infer(&op_as_strided, c->args, 1, t);
}

static void as_strided_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct as_strided_args *a = c->args;
    mx x = batch_first(c->x[0], axis[0]);
    int n = dim(x, 0);
    shapes_matter("as_strided");
    int64_t shape[MX_MAX_NDIM + 1] = { n }, strides[MX_MAX_NDIM + 1] = { n ? x->size / n : 0 };
    for (int i = 0; i < a->shape.n; i++) {
        shape[1 + i] = a->shape.v[i];
        strides[1 + i] = a->strides.v[i];
    }
    struct as_strided_args batched = { { 1 + a->shape.n, shape }, { 1 + a->shape.n, strides }, a->offset };
    y[0] = mx_infer(&op_as_strided, &batched, 1, &x);
    yaxis[0] = 0;
}

mx mx_as_strided(mx x, int ndim, const int *shape, const int64_t *strides, int64_t offset)
{
    int64_t v[MX_MAX_NDIM];
    if (is_nil(x) || shape_size("as_strided", ndim, shape) < 0)
        return MX_NIL;
    struct as_strided_args a = { ints_of(ndim, shape, v), { ndim, strides }, offset };
    return mx_infer(&op_as_strided, &a, 1, &x);
}

const struct op op_as_strided = {
    OP_ROW(as_strided),    ARGS(as_strided_args), .shapes = as_strided_shapes, .view = as_strided_view,
    .vjp = as_strided_vjp, .jvp = as_strided_jvp, .vmap = as_strided_vmap,
};
