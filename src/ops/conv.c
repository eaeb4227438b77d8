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

static const struct field conv_args_fields[] = {
    FIELD(conv_args, stride),         FIELD(conv_args, low),  FIELD(conv_args, dilation),
    FIELD(conv_args, input_dilation), FIELD(conv_args, size), FIELD(conv_args, groups),
    { 0 }
};

/* ---- nodes */

static int sizes_to(struct spec *out, enum dtype t, int first, struct ints size, int last)
{
    int shape[MX_MAX_NDIM];
    with_first(first, size, 0, shape);
    shape[1 + size.n] = last;
    return spec_set(out, t, size.n + 2, shape);
}

static int conv_shapes(const struct call *c, struct spec out[])
{
    const struct conv_args *a = c->args;
    return sizes_to(out, c->x[0]->dtype, dim(c->x[0], 0), a->size, dim(c->x[1], 0));
}

static int conv_weight_shapes(const struct call *c, struct spec out[])
{
    const struct conv_args *a = c->args;
    return sizes_to(out, c->x[0]->dtype, dim(c->x[1], -1), a->size, dim(c->x[0], -1) / a->groups);
}

static mx node(const struct op *op, const struct conv_args *a, mx x, mx w)
{
    mx in[2] = { x, w };
    return mx_infer(op, a, 2, in);
}

/* The same geometry with the sizes of `like`. */
static mx node_like(const struct op *op, const struct conv_args *a, mx x, mx w, mx like)
{
    int64_t size[MX_MAX_NDIM];
    struct conv_args b = *a;
    b.size = ints_of(a->size.n, like->shape + 1, size);
    return node(op, &b, x, w);
}

/* ---- derivatives */

/* Weights with the channels of each group exchanged, and turned round in space. */
static mx turned(mx w, int groups)
{
    int n = w->ndim, shape[MX_MAX_NDIM], start[MX_MAX_NDIM], stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    for (int i = 0; i < n; i++) {
        bool spatial = i > 0 && i < n - 1;
        start[i] = spatial ? dim(w, i) - 1 : 0;
        stop[i] = spatial ? -dim(w, i) - 1 : dim(w, i);
        step[i] = spatial ? -1 : 1;
    }
    w = mx_slice(w, start, stop, step);
    if (groups == 1)
        return mx_swapaxes(w, 0, -1);
    w = mx_swapaxes(mx_unflatten(w, 0, 2, (int[]){ groups, dim(w, 0) / groups }), 1, -1);
    memcpy(shape, w->shape + 1, (size_t)n * sizeof *shape);
    shape[0] *= groups;
    return mx_reshape(w, n, shape);
}

/* The adjoint with respect to an input like x: position o of y meets s of x in tap k where
 * o stride = s input_dilation + low - k dilation; with the taps counted from the other end that is
 * a convolution again. */
static mx input_of(const struct conv_args *a, mx y, mx w, mx x)
{
    int64_t low[MX_MAX_NDIM], size[MX_MAX_NDIM];
    int n = a->size.n;
    if (is_nil(y) || is_nil(w) || is_nil(x))
        return MX_NIL;
    for (int i = 0; i < n; i++)
        low[i] = (dim(w, 1 + i) - 1) * a->dilation.v[i] - a->low.v[i];
    struct conv_args b = { .stride = a->input_dilation, .low = { n, low }, .dilation = a->dilation,
                           .input_dilation = a->stride,
                           .size = ints_of(n, x->shape + 1, size), .groups = a->groups };
    return node(&op_conv, &b, y, turned(w, a->groups));
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
    dy[0] = sum_of(t[0] ? node(c->op, c->args, t[0], c->x[1]) : NULL,
                   t[1] ? node(c->op, c->args, c->x[0], t[1]) : NULL);
}

/* ---- batches: they become images where that is possible, else channels */

/* x (B, ..., G C) as (..., G B C): each group has the batch in it. */
static mx into_channels(mx x, int groups)
{
    int n = x->ndim, shape[MX_MAX_NDIM];
    x = mx_unflatten(x, -1, 2, (int[]){ groups, dim(x, -1) / groups });
    x = mx_moveaxis(x, 0, -2);
    memcpy(shape, x->shape, (size_t)(n - 2) * sizeof *shape);
    shape[n - 2] = dim(x, -3) * dim(x, -2) * dim(x, -1);
    return mx_reshape(x, n - 1, shape);
}

/* The same for x (B, G F, ...) as (G B F, ...). */
static mx into_rows(mx x, int groups)
{
    x = mx_unflatten(x, 1, 2, (int[]){ groups, dim(x, 1) / groups });
    return mx_flatten(mx_moveaxis(x, 0, 1), 0, 2);
}

/* The reverse: an axis of G B F becomes B, in front, and G F, where F is `size`. */
static mx out_of(mx y, int axis, int groups, int batch, int size)
{
    y = mx_unflatten(y, axis, 3, (int[]){ groups, batch, size });
    y = mx_moveaxis(y, axis < 0 ? axis - 1 : axis + 1, 0);
    return axis < 0 ? mx_flatten(y, axis - 1, axis) : mx_flatten(y, axis + 1, axis + 2);
}

static void conv_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct conv_args *a = c->args;
    int batch = batch_size(c, axis);
    mx x = c->x[0], w = c->x[1];
    yaxis[0] = 0;
    if (axis[1] < 0) {
        x = batch_first(x, axis[0]);
        int images = dim(x, 1);
        y[0] = mx_unflatten(node(c->op, a, mx_flatten(x, 0, 1), w), 0, 2, (int[]){ batch, images });
        return;
    }
    struct conv_args b = *a;
    int groups = a->groups;
    w = batch_first(w, axis[1]);
    if (axis[0] >= 0) { /* a batch of groups */
        b.groups = batch ? groups * batch : 1;
        x = into_channels(batch_first(x, axis[0]), 1);
        groups = 1;
    }
    y[0] = out_of(node(c->op, &b, x, into_rows(w, groups)), -1, groups, batch, dim(w, 1) / groups);
}

static void conv_weight_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct conv_args *a = c->args;
    struct conv_args b = *a;
    int batch = batch_size(c, axis), groups = a->groups;
    mx x = batch_first(c->x[0], axis[0]), ct = batch_first(c->x[1], axis[1]);
    int in = dim(x, -1) / groups, out = dim(ct, -1);
    yaxis[0] = 0;
    if (axis[1] < 0) { /* further channels of each group: (F, ..., B C) */
        y[0] = out_of(node(c->op, a, into_channels(x, groups), ct), -1, 1, batch, in);
    } else if (axis[0] < 0) {
        y[0] = out_of(node(c->op, a, x, into_channels(ct, groups)), 0, groups, batch, out / groups);
    } else {
        b.groups = batch ? groups * batch : 1;
        y[0] = out_of(node(c->op, &b, into_channels(x, 1), into_channels(ct, 1)), 0, 1, batch, out);
    }
}

const struct op op_conv = {
    OP_ROW(conv), ARGS(conv_args), .shapes = conv_shapes, .vjp = conv_vjp, .jvp = conv_jvp,
    .vmap = conv_vmap,
};

const struct op op_conv_weight = {
    OP_ROW(conv_weight), ARGS(conv_args), .shapes = conv_weight_shapes, .vjp = conv_weight_vjp,
    .jvp = conv_jvp, .vmap = conv_weight_vmap,
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
static bool matches(const char *op, mx x, mx w, int n, int groups)
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
    mx re = mx_subtract(node(&op_conv, a, mx_real(x), mx_real(w)),
                        node(&op_conv, a, mx_imag(x), mx_imag(w)));
    mx im = mx_add(node(&op_conv, a, mx_real(x), mx_imag(w)),
                   node(&op_conv, a, mx_imag(x), mx_real(w)));
    mx i = array_of_complex(0, 1, DT_complex64);
    return mx_add(mx_astype(re, DT_complex64), mx_multiply(mx_astype(im, DT_complex64), i));
}

mx mx_conv(const char *op, mx x, mx w, const struct conv *g)
{
    int64_t v[5][MX_MAX_NDIM];
    int n = g->n, size[MX_MAX_NDIM], start[MX_MAX_NDIM], stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    if (is_nil(x) || is_nil(w))
        return MX_NIL;
    if (n < 1 || n > 3)
        return mx_fail("[%s] expected an input with 1 to 3 spatial axes, got shape %s", op,
                       shape_of(x));
    if (!matches(op, x, w, n, g->groups) || !positive(op, "strides", n, g->stride) ||
        !positive(op, "dilations", n, g->dilation) ||
        !positive(op, "input dilations", n, g->input_dilation))
        return MX_NIL;
    enum dtype t = promote(x->dtype, w->dtype);
    if (!dtype_is_inexact(t))
        return mx_fail_as(MX_VALUE, "[%s] expected operands of a floating-point type, got %s and %s",
                          op, dtype_name(x->dtype), dtype_name(w->dtype));
    for (int i = 0; i < n; i++) {
        int64_t in = dim(x, 1 + i), k = dim(w, 1 + i);
        int64_t whole = in ? 1 + (in - 1) * g->input_dilation[i] : 0;
        int64_t seen = k ? 1 + (k - 1) * g->dilation[i] : 0;
        int64_t room = whole + g->low[i] + g->high[i] - seen;
        if (k == 0 || room < 0)
            return mx_fail("[%s] expected weights no larger than the input with its padding, got "
                           "%lld positions and a padded size of %lld along spatial axis %d "
                           "(input %s, weights %s)",
                           op, (long long)seen, (long long)whole + g->low[i] + g->high[i], i,
                           shape_of(x), shape_of(w));
        if ((size[i] = dim_of(op, room / g->stride[i] + 1)) < 0)
            return MX_NIL;
    }
    struct conv_args a = { .stride = ints_of(n, g->stride, v[0]), .low = ints_of(n, g->low, v[1]),
                           .dilation = ints_of(n, g->dilation, v[2]),
                           .input_dilation = ints_of(n, g->input_dilation, v[3]),
                           .size = ints_of(n, size, v[4]), .groups = g->groups };
    x = mx_astype(x, t);
    w = mx_astype(w, t);
    if (g->flip) {
        for (int i = 0; i < n + 2; i++) {
            bool spatial = i > 0 && i <= n;
            start[i] = spatial ? dim(w, i) - 1 : 0;
            stop[i] = spatial ? -dim(w, i) - 1 : dim(w, i);
            step[i] = spatial ? -1 : 1;
        }
        w = mx_slice(w, start, stop, step);
    }
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
        return matches(op, x, w, g->n, 1), MX_NIL;
    if (!positive(op, "strides", g->n, g->stride) || !positive(op, "dilations", g->n, g->dilation))
        return MX_NIL;
    for (int i = 0; i < g->n; i++) {
        if (output_padding[i] < 0)
            return mx_fail("[%s] expected an output padding of 0 or more, got %d", op,
                           output_padding[i]);
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
    struct conv turned_round = { .n = g->n, .stride = ones, .low = low, .high = high,
                                 .dilation = g->dilation, .input_dilation = g->stride,
                                 .groups = g->groups, .flip = true };
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
    if (a->size < v->size) {
        mx t = a;
        a = v;
        v = t;
    }
    int n = dim(v, 0), one = 1;
    int low = mode == CONV_VALID ? 0 : mode == CONV_SAME ? n / 2 : n - 1;
    int high = mode == CONV_SAME ? n - 1 - low : low;
    struct conv g = { .n = 1, .stride = &one, .low = &low, .high = &high, .dilation = &one,
                      .input_dilation = &one, .groups = 1, .flip = true };
    mx y = mx_conv("convolve", mx_reshape(a, 3, (int[]){ 1, -1, 1 }),
                   mx_reshape(v, 3, (int[]){ 1, -1, 1 }), &g);
    return mx_reshape(y, 1, (int[]){ -1 });
}
