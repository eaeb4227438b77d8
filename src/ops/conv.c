/* conv.c: convolution, with the layout (N, spatial..., C) and weights (O, spatial..., C / groups).
 *
 *     y[n, o, f] = sum over k, c of x[n, (o stride - low + k dilation) / input_dilation, c] w[f, k, c]
 *
 * where the quotient is a whole number inside of x.  Together with
 *
 *     w[f, k, c] = sum over n, o of x[n, (o stride - low + k dilation) / input_dilation, c] y[n, o, f]
 *
 * it is closed under derivatives: both are linear in each operand, and the derivative of either with
 * respect to x is a convolution whose strides and input dilations have changed places. */
#include "ops/conv.h"

#include <string.h>

#include "ops/rules.h"

static const struct field conv_args_fields[] = { FIELD(conv_args, stride),   FIELD(conv_args, low),
                                                 FIELD(conv_args, dilation), FIELD(conv_args, input_dilation),
                                                 SIZES(conv_args, size),     FIELD(conv_args, high),
                                                 FIELD(conv_args, groups),   { 0 } };

/* ---- nodes */

/* How many positions there are along spatial axis i; -1 after a failure. */
static int window_positions(const char *op, const struct conv_args *a, mx x, mx w, int i)
{
    int64_t in = dim(x, 1 + i), k = dim(w, 1 + i);
    int64_t whole = in ? 1 + (in - 1) * a->input_dilation.v[i] : 0;
    int64_t seen = 1 + (k - 1) * a->dilation.v[i];
    int64_t room = whole + a->low.v[i] + a->high.v[i] - seen;
    if (k && room >= 0)
        return dim_of(op, room / a->stride.v[i] + 1);
    if (!k) {
        mx_fail("[%s] expected weights of at least one position along spatial axis %d, got shape %s", op, i,
                shape_of(w));
        return -1;
    }
    mx_fail("[%s] expected weights no larger than the input with its padding, got %lld positions and a padded size of "
            "%lld along spatial axis %d (input %s, weights %s)",
            op, (long long)seen, (long long)whole + a->low.v[i] + a->high.v[i], i, shape_of(x), shape_of(w));
    return -1;
}

static int sizes_to(const struct call *c, struct spec *out, int first, int last)
{
    const struct conv_args *a = c->args;
    int n = a->size.n, shape[MX_MAX_NDIM] = { first };
    for (int i = 0; i < n; i++) {
        int64_t size = size_in(c, a->size.v[i]);
        shape[1 + i] = size < 0 ? window_positions(c->op->name, a, c->x[0], c->x[1], i) : (int)size;
        if (shape[1 + i] < 0)
            return 1;
    }
    shape[1 + n] = last;
    return spec_set(out, c->x[0]->dtype, n + 2, shape);
}

/* Shapes that go together?  For op_conv_weight w is the result of the convolution. */
static bool nodes_fit(const struct call *c, bool weight)
{
    const struct conv_args *a = c->args;
    mx x = c->x[0], w = c->x[1];
    int n = a->size.n, in = dim(x, -1), out = weight ? dim(w, -1) : dim(w, 0);
    bool fits = x->ndim == n + 2 && w->ndim == n + 2 && in % a->groups == 0 && out % a->groups == 0 &&
                (weight ? dim(x, 0) == dim(w, 0) : in / a->groups == dim(w, -1) || (in == 0 && dim(w, 0) == 0));
    if (!fits)
        mx_fail("[%s] expected an input and weights, or an input and a result, of %d groups, got shapes %s and %s",
                c->op->name, a->groups, shape_of(x), shape_of(w));
    return fits;
}

static int conv_shapes(const struct call *c, struct spec out[])
{
    return !nodes_fit(c, false) || sizes_to(c, out, dim(c->x[0], 0), dim(c->x[1], 0));
}

static int conv_weight_shapes(const struct call *c, struct spec out[])
{
    const struct conv_args *a = c->args;
    return !nodes_fit(c, true) || sizes_to(c, out, dim(c->x[1], -1), dim(c->x[0], -1) / a->groups);
}

static mx node(const struct op *op, const struct conv_args *a, mx x, mx w)
{
    mx in[2] = { x, w };
    return mx_infer(op, a, 2, in);
}

/* The node of a call with other operands. */
static mx node_of(const struct call *c, const struct conv_args *a, mx x, mx w)
{
    mx in[2 + MX_MAX_NDIM];
    memcpy(in, c->x, (size_t)c->nin * sizeof *in);
    in[0] = x;
    in[1] = w;
    return mx_infer(c->op, a, c->nin, in);
}

/* The same geometry with the sizes of `like`. */
static mx node_like(const struct op *op, const struct conv_args *a, mx x, mx w, mx like)
{
    int64_t v[MX_MAX_NDIM];
    struct size sizes[MX_MAX_NDIM];
    struct conv_args b = *a;
    mx in[2 + MX_MAX_NDIM] = { x, w };
    if (is_nil(like))
        return MX_NIL;
    sizes_like(like, sizes);
    int n = size_operands(2, in, a->size.n, sizes + 1, v);
    b.size = (struct ints){ a->size.n, v };
    return mx_infer(op, &b, n, in);
}

/* ---- derivatives */

/* Turned round in space. */
static mx flipped_weight(mx w)
{
    int start[MX_MAX_NDIM], stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    for (int i = 0; i < w->ndim; i++) {
        bool spatial = i > 0 && i < w->ndim - 1;
        start[i] = spatial ? TO_END : 0;
        stop[i] = spatial ? TO_START : TO_END;
        step[i] = spatial ? -1 : 1;
    }
    return mx_slice(w, start, stop, step);
}

static mx in_groups(mx x, int axis, int groups)
{
    return mx_unflatten_by(x, axis, 2, (struct size[]){ size_is(groups), size_is(-1) });
}

/* Weights with the channels of each group exchanged, and turned round in space. */
static mx turned_weights(mx w, int groups)
{
    w = flipped_weight(w);
    if (groups == 1)
        return mx_swapaxes(w, 0, -1);
    return mx_flatten(mx_swapaxes(in_groups(w, 0, groups), 1, -1), 0, 1);
}

/* The adjoint with respect to an input like x: position o of y meets s of x in tap k where
 * o stride = s input_dilation + low - k dilation; with the taps counted from the other end that is
 * a convolution again.  Where the stride is 1 nothing of x is left out, and the padding says how large
 * the result is. */
static mx input_of(const struct conv_args *a, mx y, mx w, mx x)
{
    int64_t low[MX_MAX_NDIM], high[MX_MAX_NDIM], by_padding[MX_MAX_NDIM];
    int n = a->size.n;
    bool plain = a->high.n > 0;
    for (int i = 0; i < n; i++) w = mx_size_checked(w, 1 + i);
    if (is_nil(y) || is_nil(w) || is_nil(x))
        return MX_NIL;
    for (int i = 0; i < n; i++) {
        int64_t behind = (dim(w, 1 + i) - 1) * a->dilation.v[i];
        low[i] = behind - a->low.v[i];
        high[i] = a->high.n ? behind - a->high.v[i] : 0;
        by_padding[i] = -1;
        plain = plain && a->stride.v[i] == 1 && dim(x, 1 + i) > 0;
    }
    struct conv_args b = { .stride = a->input_dilation,
                           .low = { n, low },
                           .dilation = a->dilation,
                           .input_dilation = a->stride,
                           .size = { n, by_padding },
                           .high = { plain ? n : 0, high },
                           .groups = a->groups };
    w = turned_weights(w, a->groups);
    return plain && shapeless() ? node(&op_conv, &b, y, w) : node_like(&op_conv, &b, y, w, x);
}

static mx sum_of(mx a, mx b) { return !a ? b : !b ? a : mx_add(a, b); }

static void conv_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = input_of(c->args, ct[0], c->x[1], c->x[0]);
    if (want[1])
        dx[1] = node_like(&op_conv_weight, c->args, c->x[0], ct[0], c->x[1]);
}

static void conv_weight_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = input_of(c->args, c->x[1], ct[0], c->x[0]);
    if (want[1])
        dx[1] = node_like(&op_conv, c->args, c->x[0], ct[0], c->x[1]);
}

static void conv_jvp(const struct call *c, const mx t[], mx dy[])
{
    dy[0] = sum_of(t[0] ? node_of(c, c->args, t[0], c->x[1]) : NULL, t[1] ? node_of(c, c->args, c->x[0], t[1]) : NULL);
}

/* ---- batches: they become images where that is possible, else channels */

/* x (B, ..., G C) as (..., G B C): each group has the batch in it. */
static mx into_channels(mx x, int groups) { return mx_flatten(mx_moveaxis(in_groups(x, -1, groups), 0, -2), -3, -1); }

/* The same for x (B, G F, ...) as (G B F, ...). */
static mx into_rows(mx x, int groups) { return mx_flatten(mx_moveaxis(in_groups(x, 1, groups), 0, 1), 0, 2); }

/* The reverse: an axis of G B F becomes B, in front, and G F, where F is `size`. */
static mx batch_unfolded(mx y, int axis, int groups, struct size batch, int size)
{
    y = mx_unflatten_by(y, axis, 3, (struct size[]){ size_is(groups), batch, size_is(batch.of ? -1 : size) });
    y = mx_moveaxis(y, axis < 0 ? axis - 1 : axis + 1, 0);
    return axis < 0 ? mx_flatten(y, axis - 1, axis) : mx_flatten(y, axis + 1, axis + 2);
}

/* Both operands have a batch, which becomes groups. */
static struct conv_args grouped_by(const struct conv_args *a, struct size batch, mx *x)
{
    struct conv_args b = *a;
    b.groups = batch.now ? a->groups * batch.now : 1;
    *x = mx_size_checked(*x, 0);
    return b;
}

/* The operands that only lend sizes, of one example. */
static struct call lent_by_one(const struct call *c, const int axis[], mx in[])
{
    struct call one = *c;
    one.x = in;
    for (int i = 0; i < c->nin; i++)
        in[i] = i < 2 || axis[i] < 0 ? c->x[i] : mx_squeeze(mx_slice_axis(c->x[i], axis[i], 0, 1, 1), &axis[i], 1);
    return one;
}

static void conv_vmap(const struct call *mapped, const int axis[], mx y[], int yaxis[])
{
    mx v[2 + MX_MAX_NDIM];
    const struct call one = lent_by_one(mapped, axis, v), *c = &one;
    const struct conv_args *a = c->args;
    struct size batch = batch_size(mapped, axis);
    mx x = c->x[0], w = c->x[1];
    yaxis[0] = 0;
    if (axis[1] < 0) {
        x = batch_first(x, axis[0]);
        struct size rows[2] = { size_of(x, 0), size_of(x, 1) };
        y[0] = mx_unflatten_by(node_of(c, a, mx_flatten(x, 0, 1), w), 0, 2, rows);
        return;
    }
    struct conv_args b = *a;
    int groups = a->groups;
    w = batch_first(w, axis[1]);
    if (axis[0] >= 0) { /* a batch of groups */
        b = grouped_by(a, batch, &w);
        x = into_channels(batch_first(x, axis[0]), 1);
        groups = 1;
    }
    y[0] = batch_unfolded(node_of(c, &b, x, into_rows(w, groups)), -1, groups, batch, dim(w, 1) / groups);
}

static void conv_weight_vmap(const struct call *mapped, const int axis[], mx y[], int yaxis[])
{
    mx v[2 + MX_MAX_NDIM];
    const struct call one = lent_by_one(mapped, axis, v), *c = &one;
    const struct conv_args *a = c->args;
    struct size batch = batch_size(mapped, axis);
    int groups = a->groups;
    mx x = batch_first(c->x[0], axis[0]), ct = batch_first(c->x[1], axis[1]);
    int in = dim(x, -1) / groups, out = dim(ct, -1);
    yaxis[0] = 0;
    if (axis[1] < 0) { /* further channels of each group: (F, ..., B C) */
        y[0] = batch_unfolded(node_of(c, a, into_channels(x, groups), ct), -1, 1, batch, in);
    } else if (axis[0] < 0) {
        y[0] = batch_unfolded(node_of(c, a, x, into_channels(ct, groups)), 0, groups, batch, out / groups);
    } else {
        struct conv_args b = grouped_by(a, batch, &ct);
        y[0] = batch_unfolded(node_of(c, &b, into_channels(x, 1), into_channels(ct, 1)), 0, 1, batch, out);
    }
}

static bool geometry_fits(const struct call *c)
{
    const struct conv_args *a = c->args;
    int n = a->stride.n;
    bool known = a->high.n == n;
    return c->nin >= 2 && c->nout == 1 && n >= 1 && n <= 3 && numbers_within(a->stride, n, 1, INT32_MAX) &&
           numbers_within(a->low, n, INT32_MIN, INT32_MAX) && numbers_within(a->dilation, n, 1, INT32_MAX) &&
           numbers_within(a->input_dilation, n, 1, INT32_MAX) && a->size.n == n &&
           numbers_are_sizes(a->size, known ? -1 : 0, c) &&
           numbers_within(a->high, known ? n : 0, INT32_MIN, INT32_MAX) && a->groups >= 1 && c->x[0]->ndim == n + 2 &&
           c->x[1]->ndim == n + 2 && one_dtype(c, 2) && dtype_is_float(c->x[0]->dtype);
}

const struct op op_conv = {
    OP_ROW(conv),    ARGS(conv_args), .own = 2,          .shapes = conv_shapes,
    .vjp = conv_vjp, .jvp = conv_jvp, .vmap = conv_vmap, .fits = geometry_fits,
};

const struct op op_conv_weight = {
    OP_ROW(conv_weight),          ARGS(conv_args),        .own = 2,
    .shapes = conv_weight_shapes, .vjp = conv_weight_vjp, .jvp = conv_jvp,
    .vmap = conv_weight_vmap,     .fits = geometry_fits,
};

/* ---- builders */

static bool positive(const char *op, const char *what, int n, const int *v)
{
    for (int i = 0; i < n; i++)
        if (v[i] < 1) {
            mx_fail("[%s] expected positive numbers as %s, got %s", op, what, shape_text(n, v));
            return false;
        }
    return true;
}

/* Shapes that go together? */
static bool weight_matches(const char *op, mx x, mx w, int n, int groups)
{
    if (x->ndim != n + 2 || w->ndim != n + 2) {
        mx_fail("[%s] expected an input (N, %d spatial axes, C) and weights (O, %d spatial axes, "
                "C / groups), got shapes %s and %s",
                op, n, n, shape_of(x), shape_of(w));
        return false;
    }
    if (groups < 1 || dim(x, -1) % groups || dim(w, 0) % groups) {
        mx_fail("[%s] expected a positive number of groups that divides the %d channels of the "
                "input and the %d of the result, got %d",
                op, dim(x, -1), dim(w, 0), groups);
        return false;
    }
    if (dim(x, -1) / groups != dim(w, -1)) {
        mx_fail("[%s] expected weights for %d input channels (in each of %d groups), got an input "
                "of shape %s and weights of shape %s",
                op, dim(x, -1) / groups, groups, shape_of(x), shape_of(w));
        return false;
    }
    return true;
}

/* a b of complex numbers, by parts. */
static mx by_parts(const struct conv_args *a, mx x, mx w)
{
    mx re = mx_subtract(node(&op_conv, a, mx_real(x), mx_real(w)), node(&op_conv, a, mx_imag(x), mx_imag(w)));
    mx im = mx_add(node(&op_conv, a, mx_real(x), mx_imag(w)), node(&op_conv, a, mx_imag(x), mx_real(w)));
    mx i = array_of_complex(0, 1, DT_complex64);
    return mx_add(mx_astype(re, DT_complex64), mx_multiply(mx_astype(im, DT_complex64), i));
}

mx mx_conv(const char *op, mx x, mx w, const struct conv *g)
{
    int64_t v[6][MX_MAX_NDIM];
    int n = g->n;
    if (is_nil(x) || is_nil(w))
        return MX_NIL;
    if (n < 1 || n > 3)
        return mx_fail("[%s] expected an input with 1 to 3 spatial axes, got shape %s", op, shape_of(x));
    if (!weight_matches(op, x, w, n, g->groups) || !positive(op, "strides", n, g->stride) ||
        !positive(op, "dilations", n, g->dilation) || !positive(op, "input dilations", n, g->input_dilation))
        return MX_NIL;
    enum dtype t = promote(x->dtype, w->dtype);
    if (!dtype_is_inexact(t))
        return mx_fail_as(MX_VALUE, "[%s] expected operands of a floating-point type, got %s and %s", op,
                          dtype_name(x->dtype), dtype_name(w->dtype));
    struct conv_args a = { .stride = ints_of(n, g->stride, v[0]),
                           .low = ints_of(n, g->low, v[1]),
                           .dilation = ints_of(n, g->dilation, v[2]),
                           .input_dilation = ints_of(n, g->input_dilation, v[3]),
                           .size = { n, v[4] },
                           .high = ints_of(n, g->high, v[5]),
                           .groups = g->groups };
    for (int i = 0; i < n; i++) {
        v[4][i] = window_positions(op, &a, x, w, i);
        if (v[4][i] < 0)
            return MX_NIL;
        if (shapeless() && (x->tracer || w->tracer))
            v[4][i] = -1;
    }
    x = mx_astype(x, t);
    w = mx_astype(w, t);
    if (g->flip)
        w = flipped_weight(w);
    return dtype_is_complex(t) ? by_parts(&a, x, w) : node(&op_conv, &a, x, w);
}

/* The input spread out by the stride; padding is what the convolution, of which this is the
 * adjoint, has. */
mx mx_conv_transpose(const char *op, mx x, mx w, const struct conv *g, const int *output_padding)
{
    int low[3], high[3];
    const int ones[3] = { 1, 1, 1 };
    if (is_nil(x) || is_nil(w))
        return MX_NIL;
    if (g->n < 1 || g->n > 3 || w->ndim != g->n + 2 || x->ndim != g->n + 2)
        return weight_matches(op, x, w, g->n, 1), MX_NIL;
    if (!positive(op, "strides", g->n, g->stride) || !positive(op, "dilations", g->n, g->dilation))
        return MX_NIL;
    for (int i = 0; i < g->n; i++) w = mx_size_checked(w, 1 + i);
    for (int i = 0; i < g->n; i++) {
        if (output_padding[i] < 0)
            return mx_fail("[%s] expected an output padding of 0 or more, got %d", op, output_padding[i]);
        int64_t before = (int64_t)g->dilation[i] * (dim(w, 1 + i) - 1) - g->low[i];
        if (before != (int)before || before + output_padding[i] > INT32_MAX)
            return mx_fail("[%s] expected a result of at most 2147483647 elements along spatial axis %d, got dilation "
                           "%d, padding %d and output padding %d (input %s, weights %s)",
                           op, i, g->dilation[i], g->low[i], output_padding[i], shape_of(x), shape_of(w));
        int64_t in = (dim(x, 1 + i) - 1) * (int64_t)g->stride[i];
        int64_t size = in + 2 * before + output_padding[i] + 1 - (int64_t)g->dilation[i] * (dim(w, 1 + i) - 1);
        if (dim(x, 1 + i) && dim(w, 1 + i) && size < 1)
            return mx_fail("[%s] expected a padding that leaves some of the result, got %d and a size of %lld along "
                           "spatial axis %d (input %s, weights %s)",
                           op, g->low[i], (long long)size, i, shape_of(x), shape_of(w));
        low[i] = (int)before;
        high[i] = low[i] + output_padding[i];
    }
    struct conv turned_round = { .n = g->n,
                                 .stride = ones,
                                 .low = low,
                                 .high = high,
                                 .dilation = g->dilation,
                                 .input_dilation = g->stride,
                                 .groups = g->groups,
                                 .flip = true };
    return mx_conv(op, x, w, &turned_round);
}

mx mx_convolve(mx a, mx v, enum conv_mode mode)
{
    if (is_nil(a) || is_nil(v))
        return MX_NIL;
    if (a->ndim != 1 || v->ndim != 1 || a->size == 0 || v->size == 0)
        return mx_fail("[convolve] expected two vectors of at least one element, got shapes %s and "
                       "%s",
                       shape_of(a), shape_of(v));
    if (a->tracer || v->tracer)
        shapes_matter("convolve");
    if (a->size < v->size) {
        mx t = a;
        a = v;
        v = t;
    }
    int n = dim(v, 0), one = 1;
    int low = mode == CONV_VALID ? 0 : mode == CONV_SAME ? n / 2 : n - 1;
    int high = mode == CONV_SAME ? n - 1 - low : low;
    struct conv g = { .n = 1,
                      .stride = &one,
                      .low = &low,
                      .high = &high,
                      .dilation = &one,
                      .input_dilation = &one,
                      .groups = 1,
                      .flip = true };
    mx y = mx_conv("convolve", mx_reshape(a, 3, (int[]){ 1, -1, 1 }), mx_reshape(v, 3, (int[]){ 1, -1, 1 }), &g);
    return mx_reshape(y, 1, (int[]){ -1 });
}
