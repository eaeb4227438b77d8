/* index.c: reading and writing through arrays of indices.
 *
 * Negative indices count from the end.  One outside of its axis is known when the array is evaluated: a read gives
 * the nearest element and a write changes nothing, or it is an error (core/outside.h).  Where several updates meet
 * in one element the last one stays (SCATTER_SET) or they fold in the order they come in, whatever the number of
 * threads.
 *
 * gather and scatter index several axes at once; gather_axis and scatter_axis one, with an index
 * for each place along the others, which NumPy calls take_along_axis.  mx_take is a gather_axis
 * whose indices are the same everywhere. */
#include "ops/index.h"

#include <string.h>

#include "ops/slice.h"

static const struct field gather_args_fields[] = { FIELD(gather_args, axes),
                                                   SIZES(gather_args, sizes),
                                                   ENUM(gather_args, outside, OUTSIDE_FOR_MASK),
                                                   ENUM(gather_args, asker, PUT_ALONG_AXIS),
                                                   { 0 } };
static const struct field scatter_args_fields[] = { FIELD(scatter_args, axes),
                                                    ENUM(scatter_args, fold, SCATTER_MIN),
                                                    ENUM(scatter_args, outside, OUTSIDE_FOR_MASK),
                                                    ENUM(scatter_args, asker, PUT_ALONG_AXIS),
                                                    { 0 } };
static const struct field gather_axis_args_fields[] = { FIELD(gather_axis_args, axis),
                                                        ENUM(gather_axis_args, outside, OUTSIDE_FOR_MASK),
                                                        ENUM(gather_axis_args, asker, PUT_ALONG_AXIS),
                                                        FIELD(gather_axis_args, whole),
                                                        { 0 } };
static const struct field scatter_axis_args_fields[] = { FIELD(scatter_axis_args, axis),
                                                         ENUM(scatter_axis_args, fold, SCATTER_MIN),
                                                         ENUM(scatter_axis_args, outside, OUTSIDE_FOR_MASK),
                                                         ENUM(scatter_axis_args, asker, PUT_ALONG_AXIS),
                                                         FIELD(scatter_axis_args, whole),
                                                         { 0 } };

static bool bad_index_type(const char *op, mx index)
{
    if (index->dtype == DT_bool_)
        mx_fail_as(MX_TYPE, "[%s] expected integer indices, got bool; where() selects by a mask", op);
    else if (!dtype_is_integer(index->dtype))
        mx_fail_as(MX_TYPE, "[%s] expected integer indices, got %s", op, dtype_name(index->dtype));
    return !dtype_is_integer(index->dtype);
}

/* ---- gather */

static mx gather_node(const struct gather_args *a, mx x, const mx indices[])
{
    mx in[MX_MAX_NDIM + 1] = { x };
    memcpy(in + 1, indices, (size_t)a->axes.n * sizeof *in);
    return mx_infer(&op_gather, a, 1 + a->axes.n, in);
}

/* The most that a slice may take of an axis.  One index for an axis without elements is out of range as any other
 * is, which is seen when there is an index. */
static int most_of_axis(mx x, struct ints indexed, int axis)
{
    for (int k = 0; k < indexed.n; k++)
        if (indexed.v[k] == axis && x->shape[axis] == 0)
            return 1;
    return dim(x, axis);
}

static int gather_shapes(const struct call *c, struct spec out[])
{
    const struct gather_args *a = c->args;
    mx x = c->x[0], index = c->x[1];
    if (index->ndim + a->sizes.n > MX_MAX_NDIM)
        return failed(mx_fail("[gather] expected at most %d dimensions in the result, got %d", MX_MAX_NDIM,
                              index->ndim + a->sizes.n));
    spec_set(out, x->dtype, index->ndim, index->shape);
    for (int i = 0; i < a->sizes.n; i++) {
        int most = most_of_axis(x, a->axes, i);
        int64_t size = size_in(c, a->sizes.v[i]);
        if (size < 0 || size > most)
            return failed(
                mx_fail("[gather] expected a slice size from 0 to %d for axis %d, got %lld", most, i, (long long)size));
        out->shape[out->ndim++] = (int)size;
    }
    return 0;
}

/* By whom a derivative asks, which is another operation than `itself`. */
static struct asked asked_for(enum index_asker itself, unsigned asker, unsigned outside)
{
    return (struct asked){ asker == ITSELF ? itself : asker, outside };
}

static void gather_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct gather_args *a = c->args;
    int axes[MX_MAX_NDIM];
    for (int i = 0; i < a->axes.n; i++) axes[i] = (int)a->axes.v[i];
    if (want[0])
        dx[0] = mx_scatter_as(asked_for(GATHER, a->asker, a->outside), zeros_of(c->x[0]), c->x + 1, axes, a->axes.n,
                              ct[0], SCATTER_ADD);
}

static void gather_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (t[0])
        dy[0] = gather_node(c->args, t[0], c->x + 1);
}

/* The n index operands of a vmapped gather or scatter, ready to broadcast against each other; where
 * x is batched as well, the first index is the example's number. */
static int batched_indices(const mx indices[], const int axis[], int n, struct size batch, bool x_too, mx out[])
{
    int ndim = 0, k = 0, ones[MX_MAX_NDIM];
    for (int i = 0; i < n; i++)
        ndim = indices[i]->ndim - (axis[i] >= 0) > ndim ? indices[i]->ndim - (axis[i] >= 0) : ndim;
    for (int i = 0; i < ndim; i++) ones[i] = 1 + i;
    if (x_too)
        out[k++] = mx_expand_dims(mx_arange_by(1, &batch, DT_int32), ones, ndim);
    for (int i = 0; i < n; i++) out[k++] = batch_first(indices[i], axis[i]);
    return k;
}

static bool any_batched(const int axis[], int n)
{
    for (int i = 0; i < n; i++)
        if (axis[i] >= 0)
            return true;
    return false;
}

static void gather_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct gather_args *a = c->args;
    int n = a->axes.n, axes[MX_MAX_NDIM + 1] = { 0 };
    struct size batch = batch_size(c, axis), sizes[MX_MAX_NDIM + 1];
    bool index_too = any_batched(axis + 1, n), x_too = axis[0] >= 0;
    mx x = batch_first(c->x[0], axis[0]), at[MX_MAX_NDIM + 1];
    int by_example = x_too && index_too;
    sizes[0] = index_too ? size_is(1) : size_of(x, 0);
    for (int i = 0; i < n; i++) axes[by_example + i] = (int)a->axes.v[i] + x_too;
    for (int i = 0; i < a->sizes.n; i++)
        sizes[x_too + i] = a->sizes.v[i] < 0 ? size_of(x, x_too + i) : size_is((int)a->sizes.v[i]);
    int m = batched_indices(c->x + 1, axis + 1, n, batch, by_example, at);
    y[0] = mx_gather_as((struct asked){ a->asker, a->outside }, x, at, axes, m, sizes);
    yaxis[0] = index_too ? 0 : c->x[1]->ndim;
    if (by_example) {
        int slice = y[0]->ndim - 1 - a->sizes.n;
        y[0] = mx_squeeze(y[0], &slice, 1);
    }
}

/* Axes in range and distinct, index types right; the broadcast index arrays in `at`. */
static bool check_indices(const char *op, mx x, const mx indices[], const int *axes, int n, int64_t *v, mx at[])
{
    if (n > x->ndim)
        return !failed(mx_fail("[%s] expected at most %d index arrays for an array of shape %s, got %d", op, x->ndim,
                               shape_of(x), n));
    for (int i = 0; i < n; i++) {
        if (is_nil(indices[i]) || bad_index_type(op, indices[i]))
            return false;
        int a = axis_of(op, axes[i], x->ndim);
        if (a < 0)
            return false;
        for (int k = 0; k < i; k++)
            if (v[k] == a)
                return !failed(mx_fail("[%s] expected distinct axes, got axis %d twice", op, axes[i]));
        v[i] = a;
        at[i] = indices[i];
    }
    return mx_broadcast(n, at);
}

mx mx_gather(mx x, const mx indices[], const int *axes, int n, const int *slice_sizes)
{
    struct size sizes[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim && !is_nil(x); i++) {
        if (slice_sizes[i] < 0)
            return mx_fail("[gather] expected a slice size from 0 to %d for axis %d, got %d", x->shape[i], i,
                           slice_sizes[i]);
        sizes[i] = size_is(slice_sizes[i]);
    }
    return mx_gather_by(ITSELF, x, indices, axes, n, sizes);
}

mx mx_gather_by(enum index_asker asker, mx x, const mx indices[], const int *axes, int n, const struct size sizes[])
{
    return mx_gather_as((struct asked){ asker, OUTSIDE_NEAREST }, x, indices, axes, n, sizes);
}

/* A size of x's own axis goes into the arguments as that; one of another array does not. */
mx mx_gather_as(struct asked q, mx x, const mx indices[], const int *axes, int n, const struct size sizes[])
{
    static const int zeros[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM], w[MX_MAX_NDIM];
    int stop[MX_MAX_NDIM];
    mx at[MX_MAX_NDIM];
    if (is_nil(x) || !check_indices("gather", x, indices, axes, n, v, at))
        return MX_NIL;
    for (int i = 0; i < x->ndim; i++) {
        bool whole = sizes[i].of == x && sizes[i].axis == i;
        if (sizes[i].of && !whole)
            shapes_matter("gather");
        w[i] = whole ? SIZE_OF(0, i) : sizes[i].now;
        stop[i] = whole ? TO_END : sizes[i].now;
    }
    if (n == 0)
        return mx_slice(x, zeros, stop, NULL);
    struct gather_args a = { { n, v }, { x->ndim, w }, q.outside, q.asker };
    return gather_node(&a, x, at);
}

static bool gather_fits(const struct call *c)
{
    const struct gather_args *a = c->args;
    return a->axes.n >= 1 && call_has(c, 1 + a->axes.n, 1) && numbers_are_axes(a->axes, c->x[0]) &&
           a->sizes.n == c->x[0]->ndim && numbers_are_sizes(a->sizes, 0, c) && are_indices(a->axes.n, c->x + 1);
}

const struct op op_gather = {
    OP_ROW(gather),    ARGS(gather_args), .own = ALL_OWN,      .shapes = gather_shapes,
    .vjp = gather_vjp, .jvp = gather_jvp, .vmap = gather_vmap, .fits = gather_fits,
};

/* ---- gather_axis */

static bool along_axis_fits(mx x, mx index, int axis)
{
    bool fits = index->ndim == x->ndim;
    for (int i = 0; i < x->ndim && fits; i++)
        fits = i == axis || index->shape[i] == 1 || index->shape[i] == x->shape[i];
    return fits;
}

static int gather_axis_shapes(const struct call *c, struct spec out[])
{
    const struct gather_axis_args *a = c->args;
    mx x = c->x[0], index = c->x[1];
    if (!along_axis_fits(x, index, a->axis))
        return failed(mx_fail("[gather_axis] expected indices of shape %s but for axis %d, got %s", shape_of(x),
                              a->axis, shape_of(index)));
    spec_like(out, x);
    out->shape[a->axis] = index->shape[a->axis];
    return 0;
}

#define NOT_GIVEN ((struct index_given){ 0 })
/* The program gave these. */
static struct index_given given(mx indices)
{
    struct index_given g = { .is = indices->ndim <= INDEX_GIVEN && !shapeless() };
    if (g.is) {
        g.ndim = indices->ndim;
        memcpy(g.shape, indices->shape, (size_t)indices->ndim * sizeof *indices->shape);
    }
    return g;
}

/* By an index whose elements are those of what was given, in their order, where that is known. */
static mx gather_axis(struct asked q, mx x, mx index, int axis, struct index_given g)
{
    struct gather_axis_args a = { axis, q.outside, q.asker, false, g };
    mx in[2] = { x, index };
    return mx_infer(&op_gather_axis, &a, 2, in);
}

static mx scatter_axis(struct asked q, mx x, mx index, mx updates, int axis, enum scatter_fold f, struct index_given g)
{
    struct scatter_axis_args a = { axis, f, q.outside, q.asker, false, g };
    mx in[3] = { x, index, updates };
    return mx_infer(&op_scatter_axis, &a, 3, in);
}

static struct asked asked_by(const struct gather_axis_args *a) { return (struct asked){ a->asker, a->outside }; }

static void gather_axis_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct gather_axis_args *a = c->args;
    if (want[0])
        dx[0] = scatter_axis(asked_for(TAKE_ALONG_AXIS, a->asker, a->outside), zeros_of(c->x[0]), c->x[1], ct[0],
                             a->axis, SCATTER_ADD, a->given);
}

static void gather_axis_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct gather_axis_args *a = c->args;
    if (t[0])
        dy[0] = gather_axis(asked_by(a), t[0], c->x[1], a->axis, a->given);
}

/* Index operands may keep a batch of one. */
static mx batch_or_one(mx index, int axis)
{
    return axis < 0 ? mx_expand_dims(index, (const int[]){ 0 }, 1) : batch_first(index, axis);
}

static void gather_axis_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct gather_axis_args *a = c->args;
    mx x = batch_all(c->x[0], axis[0], batch_size(c, axis));
    y[0] = gather_axis(asked_by(a), x, batch_or_one(c->x[1], axis[1]), a->axis + 1, NOT_GIVEN);
    yaxis[0] = 0;
}

/* Operands x, indices and perhaps updates, of which there are `nin` together? */
static bool axis_fits(const struct call *c, int nin, int axis)
{
    return call_has(c, nin, 1) && axis >= 0 && axis < c->x[0]->ndim && are_indices(1, c->x + 1);
}

static bool gather_axis_fits(const struct call *c)
{
    return axis_fits(c, 2, ((const struct gather_axis_args *)c->args)->axis);
}

const struct op op_gather_axis = {
    OP_ROW(gather_axis),    ARGS(gather_axis_args),   .shapes = gather_axis_shapes, .vjp = gather_axis_vjp,
    .jvp = gather_axis_jvp, .vmap = gather_axis_vmap, .fits = gather_axis_fits,
};

/* Rows of a table, by indices of any shape. */
static mx rows_asked(struct asked q, mx x, mx indices)
{
    struct size sizes[MX_MAX_NDIM];
    int axis = 0, gone = indices->ndim;
    sizes_like(x, sizes);
    sizes[0] = size_is(1);
    return mx_squeeze(mx_gather_as(q, x, &indices, &axis, 1, sizes), &gone, 1);
}

/* Result: x.shape[:axis] + indices.shape + x.shape[axis + 1:] */
mx mx_take_as(struct asked q, mx x, mx indices, int axis)
{
    if (is_nil(x) || is_nil(indices) || bad_index_type("take", indices))
        return MX_NIL;
    int a = axis_of("take", axis, x->ndim), n = x->ndim - 1, m = indices->ndim;
    int others[MX_MAX_NDIM];
    struct size sizes[MX_MAX_NDIM];
    if (a < 0)
        return MX_NIL;
    if (n + m > MX_MAX_NDIM)
        return mx_fail("[take] expected at most %d dimensions in the result, got %d", MX_MAX_NDIM, n + m);
    for (int i = 0; i < n; i++) others[i] = i < a ? i : i + 1;
    if (shapeless() && indices->tracer && !x->tracer && a == 0) /* as exported files say it */
        return rows_asked(q, x, indices);
    mx index = m ? mx_flatten(indices, 0, -1) : mx_expand_dims(indices, (const int[]){ 0 }, 1);
    mx y = gather_axis(q, x, mx_expand_dims(index, others, n), a, given(indices));
    if (m == 1)
        return y;
    if (m == 0)
        return mx_squeeze(y, &a, 1);
    sizes_like(indices, sizes);
    return mx_unflatten_by(y, a, m, sizes);
}

mx mx_take_for(enum index_asker asker, mx x, mx indices, int axis)
{
    return mx_take_as((struct asked){ asker, OUTSIDE_NEAREST }, x, indices, axis);
}

mx mx_take(mx x, mx indices, int axis) { return mx_take_for(TAKE, x, indices, axis); }

mx mx_take_flat(mx x, mx indices)
{
    if (is_nil(x) || is_nil(indices) || bad_index_type("take", indices))
        return MX_NIL;
    return mx_take(mx_flatten(x, 0, -1), indices, 0);
}

/* The operands of an operation along an axis: the same number of dimensions, x as wide as NumPy's
 * broadcasting makes it where x may grow. */
static bool check_along_axis(const char *op, mx *x, mx index, int *axis, bool grows)
{
    if (is_nil(*x) || is_nil(index) || bad_index_type(op, index))
        return false;
    if (index->ndim != (*x)->ndim)
        return !failed(mx_fail("[%s] expected indices with as many dimensions as the array, got shapes %s and %s", op,
                               shape_of(index), shape_of(*x)));
    int a = *axis = axis_of(op, *axis, index->ndim), shape[MX_MAX_NDIM];
    if (a < 0)
        return false;
    for (int i = 0; i < index->ndim; i++) {
        int from = (*x)->shape[i], to = index->shape[i];
        shape[i] = i != a && grows && from == 1 ? to : from;
        if (i != a && to != 1 && to != shape[i])
            return !failed(mx_fail("[%s] expected indices of shape %s but for axis %d, or 1 elsewhere, got %s", op,
                                   shape_of(*x), a, shape_of(index)));
    }
    if (!(shapeless() && ((*x)->tracer || index->tracer)))
        *x = mx_broadcast_to(*x, index->ndim, shape);
    else if (grows)
        *x = mx_broadcast_with(2, (mx[]){ *x, index }, (int[]){ a - index->ndim }, 1);
    return !is_nil(*x);
}

mx mx_take_along_axis_for(enum index_asker asker, mx x, mx indices, int axis)
{
    if (!check_along_axis(index_asker("take_along_axis", asker), &x, indices, &axis, true))
        return MX_NIL;
    struct asked q = { asker, OUTSIDE_NEAREST };
    return gather_axis(q, x, indices, axis, asker == ITSELF ? given(indices) : NOT_GIVEN);
}

mx mx_take_along_axis(mx x, mx indices, int axis) { return mx_take_along_axis_for(ITSELF, x, indices, axis); }

/* ---- scatter and scatter_axis
 *
 * Their rules are the same but for how one reads and writes through the node's indices. */

static int scatter_shapes(const struct call *c, struct spec out[])
{
    const struct scatter_args *a = c->args;
    mx x = c->x[0], index = c->x[1], u = c->x[c->nin - 1];
    bool fits = u->dtype == x->dtype && u->ndim == index->ndim + x->ndim;
    for (int i = 0; i < index->ndim && fits; i++) fits = u->shape[i] == index->shape[i];
    for (int i = 0; i < x->ndim && fits; i++) fits = u->shape[index->ndim + i] <= most_of_axis(x, a->axes, i);
    if (!fits)
        return failed(mx_fail("[scatter] expected updates of the shape of the indices, %s, then "
                              "that of a slice of %s, of type %s, got %s of %s",
                              shape_of(index), shape_of(x), dtype_name(x->dtype), shape_of(u), dtype_name(u->dtype)));
    return spec_like(out, x);
}

static int scatter_axis_shapes(const struct call *c, struct spec out[])
{
    const struct scatter_axis_args *a = c->args;
    mx x = c->x[0], index = c->x[1], u = c->x[2];
    bool fits = along_axis_fits(x, index, a->axis) && u->ndim == x->ndim && u->dtype == x->dtype;
    for (int i = 0; i < x->ndim && fits; i++) fits = u->shape[i] == (i == a->axis ? index->shape[i] : x->shape[i]);
    if (!fits)
        return failed(mx_fail("[scatter_axis] expected indices and updates of shape %s but for axis %d, and updates "
                              "of type %s, got %s and %s of %s",
                              shape_of(x), a->axis, dtype_name(x->dtype), shape_of(index), shape_of(u),
                              dtype_name(u->dtype)));
    return spec_like(out, x);
}

static enum scatter_fold fold_of(const struct call *c)
{
    if (c->op->id == OP_scatter)
        return ((const struct scatter_args *)c->args)->fold;
    return ((const struct scatter_axis_args *)c->args)->fold;
}

static bool indexes(struct ints axes, int axis)
{
    for (int k = 0; k < axes.n; k++)
        if (axes.v[k] == axis)
            return true;
    return false;
}

/* What the updates' places hold in `from`, which has x's shape. */
static mx read_through(const struct call *c, mx from)
{
    mx u = c->x[c->nin - 1];
    if (c->op->id == OP_scatter_axis) {
        const struct scatter_axis_args *s = c->args;
        return gather_axis(asked_for(PUT_ALONG_AXIS, s->asker, s->outside), from, c->x[1], s->axis, s->given);
    }
    const struct scatter_args *s = c->args;
    int64_t v[MX_MAX_NDIM];
    int lead = c->x[1]->ndim;
    bool follows = shapeless() && (u->tracer || from->tracer);
    unsigned asker = asked_for(SCATTER, s->asker, s->outside).asker;
    struct gather_args a = { s->axes, ints_of(u->ndim - lead, u->shape + lead, v), s->outside, asker };
    for (int i = 0; i < a.sizes.n && follows; i++)
        if (v[i] == from->shape[i] && !indexes(a.axes, i))
            v[i] = SIZE_OF(0, i);
    mx y = gather_node(&a, from, c->x + 1);
    return follows ? mx_shape_checked(y, u) : y;
}

static mx write_through(const struct call *c, mx to, mx updates, enum scatter_fold f)
{
    mx in[MX_MAX_NDIM + 2];
    memcpy(in, c->x, (size_t)c->nin * sizeof *in);
    in[0] = to;
    in[c->nin - 1] = updates;
    if (c->op->id == OP_scatter_axis) {
        struct scatter_axis_args a = *(const struct scatter_axis_args *)c->args;
        a.fold = f;
        return mx_infer(&op_scatter_axis, &a, c->nin, in);
    }
    struct scatter_args a = *(const struct scatter_args *)c->args;
    a.fold = f;
    return mx_infer(&op_scatter, &a, c->nin, in);
}

/* Which updates stay when the last one of each place does: their numbers are set in order, and who
 * reads back the own one has won (who is out of range reads 0).  Axes along which updates never meet
 * need no numbers of their own, so they are left out here and broadcast. */
static mx winners(const struct call *c)
{
    mx x = c->x[0], index = c->x[1], u = c->x[c->nin - 1];
    struct size shape[MX_MAX_NDIM], ushape[MX_MAX_NDIM];
    struct call small = *c;
    mx in[MX_MAX_NDIM + 2];
    memcpy(in, c->x, (size_t)c->nin * sizeof *in);
    int ndim = u->ndim;
    if (c->op->id == OP_scatter_axis) {
        int axis = ((const struct scatter_axis_args *)c->args)->axis;
        sizes_like(index, shape);
        sizes_like(index, ushape);
        shape[axis] = size_of(x, axis);
    } else {
        struct ints axes = ((const struct scatter_args *)c->args)->axes;
        sizes_like(u, ushape);
        for (int i = 0; i < x->ndim; i++) {
            shape[i] = indexes(axes, i) ? size_of(x, i) : size_is(1);
            if (!indexes(axes, i))
                ushape[index->ndim + i] = size_is(1);
        }
    }
    mx number = mx_reshape_by(mx_arange_by(ndim, ushape, DT_int32), ndim, ushape);
    in[0] = mx_broadcast_by(array_of_int(0, DT_int32), x->ndim, shape);
    in[c->nin - 1] = number;
    small.x = in;
    return mx_equal(read_through(&small, write_through(&small, in[0], number, SCATTER_SET)), number);
}

/* Of one type: integers stay integers. */
static mx quotient(mx a, mx b) { return is_nil(a) ? a : mx_astype(mx_divide(a, b), (enum dtype)a->dtype); }

/* The derivative of the product at each place by each of its factors u_j: x times the other
 * factors, p / u_j.  Zeros are counted and left out of p: with one zero only its own derivative is
 * not zero, with two or more none is. */
static mx factor_slopes(const struct call *c)
{
    mx x = c->x[0], u = c->x[c->nin - 1], zero = array_of_int(0, u->dtype), one = array_of_int(1, u->dtype);
    mx is_zero = mx_equal(u, zero), rest = mx_where(is_zero, one, u);
    mx count =
        write_through(c, mx_broadcast_like(array_of_int(0, DT_int32), x), mx_astype(is_zero, DT_int32), SCATTER_ADD);
    mx zeros = read_through(c, count), others = read_through(c, write_through(c, x, rest, SCATTER_PROD));
    mx slope = mx_where(is_zero, others, quotient(others, rest));
    return mx_where(mx_equal(zeros, mx_astype(is_zero, DT_int32)), slope, zero);
}

/* Of a maximum or minimum: which elements and updates equal it, and how many of both there are; they share its
 * derivative. */
struct share {
    mx x, u, of;
};

static struct share shares(const struct call *c, enum dtype t)
{
    struct share s = { .x = mx_equal(c->x[0], c->y[0]), .u = mx_equal(c->x[c->nin - 1], read_through(c, c->y[0])) };
    mx n = write_through(c, mx_astype(s.x, t), mx_astype(s.u, t), SCATTER_ADD);
    s.of = mx_maximum(n, array_of_int(1, t)); /* none equals NaN */
    return s;
}

static void scatter_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    int last = c->nin - 1;
    mx u = c->x[last], zero = array_of_int(0, ct[0]->dtype);
    switch (fold_of(c)) {
    case SCATTER_SET:
        if (want[0])
            dx[0] = write_through(c, ct[0], zeros_of(u), SCATTER_SET);
        if (want[last])
            dx[last] = mx_where(winners(c), read_through(c, ct[0]), zero);
        break;
    case SCATTER_ADD:
        dx[0] = ct[0];
        if (want[last])
            dx[last] = read_through(c, ct[0]);
        break;
    case SCATTER_PROD:
        if (want[0])
            dx[0] = write_through(c, ct[0], conjugated(u), SCATTER_PROD);
        if (want[last])
            dx[last] = mx_multiply(read_through(c, ct[0]), conjugated(factor_slopes(c)));
        break;
    case SCATTER_MAX:
    case SCATTER_MIN: {
        struct share s = shares(c, ct[0]->dtype);
        mx part = quotient(ct[0], s.of);
        if (want[0])
            dx[0] = mx_where(s.x, part, zero);
        if (want[last])
            dx[last] = mx_where(s.u, read_through(c, part), zero);
        break;
    }
    }
}

static void scatter_jvp(const struct call *c, const mx t[], mx dy[])
{
    int last = c->nin - 1;
    if (!t[0] && !t[last])
        return;
    mx x = c->x[0], u = c->x[last], tx = or_zeros(t[0], x), tu = or_zeros(t[last], u),
       zero = array_of_int(0, tx->dtype);
    struct share share;
    switch (fold_of(c)) {
    case SCATTER_SET:
    case SCATTER_ADD: dy[0] = write_through(c, tx, tu, fold_of(c)); break;
    case SCATTER_PROD:
        dy[0] = write_through(c, tx, u, SCATTER_PROD);
        if (t[last])
            dy[0] = write_through(c, dy[0], mx_multiply(tu, factor_slopes(c)), SCATTER_ADD);
        break;
    case SCATTER_MAX:
    case SCATTER_MIN:
        share = shares(c, tx->dtype);
        dy[0] = mx_where(share.x, tx, zero);
        if (t[last])
            dy[0] = write_through(c, dy[0], mx_where(share.u, tu, zero), SCATTER_ADD);
        dy[0] = quotient(dy[0], share.of);
        break;
    }
}

/* Updates are batched in front of the indices' axes where those are batched, else in front of the
 * slice, as one more axis of it. */
static void scatter_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct scatter_args *a = c->args;
    int n = a->axes.n, last = c->nin - 1, axes[MX_MAX_NDIM + 1] = { 0 };
    struct size batch = batch_size(c, axis);
    bool by_example = any_batched(axis + 1, n);
    mx x = batch_all(c->x[0], axis[0], batch), u = batch_all(c->x[last], axis[last], batch), at[MX_MAX_NDIM + 1];
    /* Where the slice begins in the batched updates. */
    int slice = u->ndim - (c->x[0]->ndim - (axis[0] >= 0));
    for (int i = 0; i < n; i++) axes[by_example + i] = (int)a->axes.v[i] + 1;
    int m = batched_indices(c->x + 1, axis + 1, n, batch, by_example, at);
    u = by_example ? mx_expand_dims(u, &slice, 1) : mx_moveaxis(u, 0, slice - 1);
    y[0] = mx_scatter_as((struct asked){ a->asker, a->outside }, x, at, axes, m, u, a->fold);
    yaxis[0] = 0;
}

mx mx_scatter(mx x, const mx indices[], const int *axes, int n, mx updates, enum scatter_fold f)
{
    return mx_scatter_for(ITSELF, x, indices, axes, n, updates, f);
}

mx mx_scatter_for(enum index_asker asker, mx x, const mx indices[], const int *axes, int n, mx updates,
                  enum scatter_fold f)
{
    return mx_scatter_as((struct asked){ asker, OUTSIDE_NOTHING }, x, indices, axes, n, updates, f);
}

mx mx_scatter_as(struct asked q, mx x, const mx indices[], const int *axes, int n, mx updates, enum scatter_fold f)
{
    static const int zeros[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM];
    mx at[MX_MAX_NDIM], in[MX_MAX_NDIM + 2];
    if (is_nil(x) || is_nil(updates) || !check_indices("scatter", x, indices, axes, n, v, at))
        return MX_NIL;
    int lead = n ? at[0]->ndim : 0;
    if (updates->ndim != lead + x->ndim)
        return mx_fail("[scatter] expected updates with %d dimensions, those of the indices and "
                       "then those of the array, got shape %s",
                       lead + x->ndim, shape_of(updates));
    mx u = mx_astype(updates, x->dtype);
    if (n == 0)
        return mx_slice_update_fold(x, u, zeros, u->shape, NULL, f);
    struct size sizes[2 * MX_MAX_NDIM];
    sizes_like(u, sizes);
    sizes_like(at[0], sizes);
    struct scatter_args a = { { n, v }, f, q.outside, q.asker };
    in[0] = x;
    memcpy(in + 1, at, (size_t)n * sizeof *in);
    in[n + 1] = mx_broadcast_by(u, updates->ndim, sizes);
    return mx_infer(&op_scatter, &a, n + 2, in);
}

static bool scatter_fits(const struct call *c)
{
    const struct scatter_args *a = c->args;
    return a->axes.n >= 1 && call_has(c, 2 + a->axes.n, 1) && numbers_are_axes(a->axes, c->x[0]) &&
           are_indices(a->axes.n, c->x + 1);
}

const struct op op_scatter = {
    OP_ROW(scatter),    ARGS(scatter_args),   .shapes = scatter_shapes, .vjp = scatter_vjp,
    .jvp = scatter_jvp, .vmap = scatter_vmap, .fits = scatter_fits,
};

static void scatter_axis_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct scatter_axis_args *a = c->args;
    struct size n = batch_size(c, axis);
    y[0] =
        scatter_axis((struct asked){ a->asker, a->outside }, batch_all(c->x[0], axis[0], n),
                     batch_or_one(c->x[1], axis[1]), batch_all(c->x[2], axis[2], n), a->axis + 1, a->fold, NOT_GIVEN);
    yaxis[0] = 0;
}

static bool scatter_axis_fits(const struct call *c)
{
    return axis_fits(c, 3, ((const struct scatter_axis_args *)c->args)->axis);
}

const struct op op_scatter_axis = {
    OP_ROW(scatter_axis), ARGS(scatter_axis_args),   .shapes = scatter_axis_shapes, .vjp = scatter_vjp,
    .jvp = scatter_jvp,   .vmap = scatter_axis_vmap, .fits = scatter_axis_fits,
};

/* ---- sums of cotangents */

/* As zeros_of makes it, which in a trace is still to be computed.  Under the graph lock. */
static bool is_zero(mx x)
{
    if (x->status == LAZY && x->node && x->node->op == &op_broadcast && x->node->nin == 1)
        x = x->node->in[0];
    bool is = x->size && array_readable(x);
    for (int i = 0; i < x->ndim && is; i++) is = x->strides[i] == 0 || x->shape[i] == 1;
    return is && float_at(x->dtype, array_host(x)) == 0;
}

/* Does an operation of this node put into zeros what may be added to something else: a place at most for each index, or
 * a small part? */
static bool puts_into_zeros(const struct node *n)
{
    if (n->op == &op_scatter_axis) {
        const struct scatter_axis_args *a = n->args;
        return a->fold == SCATTER_ADD && n->in[1]->shape[a->axis] == 1 && is_zero(n->in[0]);
    }
    return n->op == &op_slice_update && n->in[1]->size <= n->in[0]->size / 2 && is_zero(n->in[0]);
}

/* `to` with what `by` puts into zeros; NULL where `by` is something else. */
static mx added_at(mx by, mx to)
{
    graph_lock();
    struct node *n = by->status == LAZY && by->node && puts_into_zeros(by->node) ? by->node : NULL;
    if (n)
        node_retain(n);
    graph_unlock();
    if (!n)
        return NULL;
    mx in[3] = { to, n->in[1], n->nin > 2 ? n->in[2] : NULL }, y;
    if (n->op == &op_slice_update) {
        struct slice_update_args a = *(const struct slice_update_args *)n->args;
        a.fold = SCATTER_ADD;
        y = mx_infer(n->op, &a, n->nin, in);
    } else {
        y = mx_infer(n->op, n->args, n->nin, in);
    }
    node_release(n);
    return y;
}

/* Of what was read at few places the derivative is zeros with a few additions: these are made to the other one, which
 * comes to the same but for the sign of a zero, and takes neither zeros nor a sum: the gradient of a loop over the rows
 * of x takes as long as the loop.  Not where places may meet, whose additions would be rounded in another order, as
 * they may in a graph for any shape. */
mx mx_add_cotangents(mx a, mx b)
{
    mx y = NULL;
    if (!shapeless() && !is_nil(a) && !is_nil(b))
        y = (y = added_at(a, b)) ? y : added_at(b, a);
    return y ? y : mx_add(a, b);
}

/* Values broadcast to the shape of the indices, those to x's but for the axis. */
static mx put_along_axis(enum index_asker asker, mx x, mx indices, mx values, int axis, enum scatter_fold f)
{
    if (is_nil(values) || !check_along_axis(index_asker("put_along_axis", asker), &x, indices, &axis, true))
        return MX_NIL;
    int shape[MX_MAX_NDIM];
    struct size sizes[MX_MAX_NDIM];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[axis] = indices->shape[axis];
    sizes_like(x, sizes);
    sizes[axis] = size_of(indices, axis);
    bool fits = values->ndim <= x->ndim;
    for (int i = 0; i < values->ndim && fits; i++) {
        int size = values->shape[i];
        fits = size == 1 || size == shape[x->ndim - values->ndim + i];
    }
    if (!fits)
        return mx_fail("[%s] expected values that broadcast to shape %s, got %s", index_asker("put_along_axis", asker),
                       shape_text(x->ndim, shape), shape_of(values));
    return scatter_axis((struct asked){ asker, OUTSIDE_NOTHING }, x, indices,
                        mx_broadcast_by(mx_astype(values, x->dtype), x->ndim, sizes), axis, f, given(indices));
}

mx mx_put_along_axis(mx x, mx indices, mx values, int axis)
{
    return put_along_axis(ITSELF, x, indices, values, axis, SCATTER_SET);
}

mx mx_scatter_add_axis(mx x, mx indices, mx values, int axis)
{
    return put_along_axis(SCATTER_ADD_AXIS, x, indices, values, axis, SCATTER_ADD);
}
