/* fast.c: normalization of rows, rotary positions, cross entropy.
 *
 * Both norms are y = (x - mean) rstd w + b over the last axis, rms_norm with 0 for the mean.  The
 * derivative of (x - mean) rstd is symmetric: norm_tangent applies it, forward to changes of x and
 * backward to cotangents; norm_vjp does so to cotangents times the weight, and sums what goes to weight and bias on the
 * way.  A rotation's adjoint is the rotation back. */
#include "ops/fast.h"

#include <math.h>

#include "core/scope.h"
#include "core/stream.h"
#include "ops/composed.h"
#include "ops/index.h"
#include "ops/rules.h"

static const int last[] = { -1 };

static const struct field norm_args_fields[] = {
    FIELD(norm_args, weight), FIELD(norm_args, bias), FIELD(norm_args, eps), { 0 }
};
static const struct field norm_vjp_args_fields[] = { FIELD(norm_vjp_args, centered),  FIELD(norm_vjp_args, weight),
                                                     FIELD(norm_vjp_args, to_weight), FIELD(norm_vjp_args, to_bias),
                                                     FIELD(norm_vjp_args, eps),       { 0 } };
static const struct field norm_tangent_args_fields[] = { FIELD(norm_tangent_args, centered),
                                                         FIELD(norm_tangent_args, eps),
                                                         { 0 } };

static int shapes_like(const struct call *c, struct spec out[]) { return spec_like(out, c->x[0]); }

/* ---- norms */

/* What stands at the operand `i` of a norm: 0 x, 1 weight, 2 bias; NULL where there is none. */
static int norm_place(const struct norm_args *a, int i) { return i == 1 && !a->weight ? 2 : i; }

static mx norm_node(const struct op *op, mx x, mx weight, mx bias, double eps)
{
    mx in[3] = { x };
    int n = 1;
    if (weight)
        in[n++] = weight;
    if (bias)
        in[n++] = bias;
    return mx_infer(op, &(struct norm_args){ weight, bias, eps }, n, in);
}

static mx norm_tangent(const struct call *c, mx v)
{
    const struct norm_args *a = c->args;
    mx in[] = { c->x[0], v };
    return mx_infer(&op_norm_tangent, &(struct norm_tangent_args){ c->op == &op_layer_norm, a->eps }, 2, in);
}

static mx normalized_rows(const struct call *c)
{
    return norm_node(c->op, c->x[0], NULL, NULL, ((const struct norm_args *)c->args)->eps);
}

/* What norm_vjp makes of x, the cotangent and the weight, which the former broadcast with, by other operations; sums
 * are over all axes but the last and the first `batch`. */
static void gone_back(const struct norm_vjp_args *a, const mx in[], int batch, bool to_x, mx y[])
{
    const struct op *op = a->centered ? &op_layer_norm : &op_rms_norm;
    mx x = in[0], ct = in[1];
    int axes[MX_MAX_NDIM], n = 0;
    for (int i = batch; i < x->ndim - 1; i++) axes[n++] = i;
    if (to_x) {
        mx v[] = { x, a->weight ? mx_multiply(ct, in[2]) : ct };
        y[0] = mx_infer(&op_norm_tangent, &(struct norm_tangent_args){ a->centered, a->eps }, 2, v);
    }
    if (a->to_weight)
        y[1] = mx_sum(mx_multiply(ct, norm_node(op, x, NULL, NULL, a->eps)), axes, n, false);
    if (a->to_bias)
        y[1 + a->to_weight] = mx_sum(ct, axes, n, false);
}

/* All that goes back to the operands; on a GPU what has kernels there. */
static void norm_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct norm_args *a = c->args;
    bool to_weight = a->weight && want[1], to_bias = a->bias && want[1 + a->weight];
    struct norm_vjp_args back = { c->op == &op_layer_norm, a->weight, to_weight, to_bias, a->eps };
    mx in[] = { c->x[0], ct[0], a->weight ? c->x[1] : NULL }, out[3];
    if (want[0] && scope_stream()->device.type != DEVICE_GPU) {
        mx_infer_n(&op_norm_vjp, &back, 2 + a->weight, in, 1 + to_weight + to_bias, out);
        dx[0] = out[0];
    } else {
        gone_back(&back, in, 0, want[0], out);
        if (want[0])
            dx[0] = out[0];
    }
    if (to_weight)
        dx[1] = out[1];
    if (to_bias)
        dx[1 + a->weight] = out[1 + to_weight];
}

static void norm_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct norm_args *a = c->args;
    mx sum = NULL;
    for (int i = 0; i < c->nin; i++) {
        if (!t[i])
            continue;
        mx d = t[i];
        if (i == 0) {
            d = norm_tangent(c, d);
            d = a->weight ? mx_multiply(d, c->x[1]) : d;
        } else if (norm_place(a, i) == 1) {
            d = mx_multiply(normalized_rows(c), d);
        }
        sum = sum ? mx_add(sum, d) : d;
    }
    dy[0] = mx_broadcast_like(sum, c->x[0]);
}

/* One row for each example, with axes in between for its rows to broadcast over. */
static mx per_example(mx w, int axis, int ndim)
{
    mx y = batch_first(w, axis);
    for (int i = 2; axis >= 0 && i < ndim; i++) y = mx_expand_dims(y, (int[]){ 1 }, 1);
    return y;
}

static void norm_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct norm_args *a = c->args;
    mx x = batch_all(c->x[0], axis[0], batch_size(c, axis));
    yaxis[0] = 0;
    bool shared = true;
    for (int i = 1; i < c->nin; i++) shared = shared && axis[i] < 0;
    if (shared) {
        mx in[3] = { x, c->nin > 1 ? c->x[1] : NULL, c->nin > 2 ? c->x[2] : NULL };
        y[0] = mx_infer(c->op, a, c->nin, in);
        return;
    }
    y[0] = norm_node(c->op, x, NULL, NULL, a->eps);
    for (int i = 1; i < c->nin; i++) {
        mx w = per_example(c->x[i], axis[i], x->ndim);
        y[0] = norm_place(a, i) == 1 ? mx_multiply(y[0], w) : mx_add(y[0], w);
    }
}

static enum dtype wide_of(mx x) { return x->dtype == DT_float64 ? DT_float64 : DT_float32; }

static void compose_norm(const struct call *c, mx y[])
{
    const struct norm_args *a = c->args;
    mx x = mx_astype(c->x[0], wide_of(c->x[0]));
    if (c->op == &op_layer_norm)
        x = mx_subtract(x, mx_mean(x, last, 1, true));
    x = mx_multiply(x, mx_rsqrt(mx_add(mx_mean(mx_square(x), last, 1, true), mx_scalar_like(a->eps, x))));
    struct size row = size_of(x, -1);
    if (a->weight)
        x = mx_multiply(x, mx_sizes_checked(mx_astype(c->x[1], x->dtype), 1, &row));
    if (a->bias)
        x = mx_add(x, mx_sizes_checked(mx_astype(c->x[1 + a->weight], x->dtype), 1, &row));
    y[0] = mx_astype(x, c->x[0]->dtype);
}

static int norm_shapes(const struct call *c, struct spec out[])
{
    for (int i = 1; i < c->nin; i++)
        if (c->x[i]->ndim != 1 || c->x[i]->shape[0] != dim(c->x[0], -1))
            return mx_fail("[%s] expected weights of shape (%d,), the last axis of x, got shape %s", c->op->name,
                           dim(c->x[0], -1), shape_of(c->x[i])),
                   1;
    return shapes_like(c, out);
}

/* Rows of floating-point numbers, all operands of one type? */
static bool norm_rows_fit(const struct call *c)
{
    return c->nout == 1 && c->x[0]->ndim > 0 && dtype_is_float(c->x[0]->dtype) && one_dtype(c, c->nin);
}

static bool norm_fits(const struct call *c)
{
    const struct norm_args *a = c->args;
    return c->nin == 1 + a->weight + a->bias && !(a->bias && c->op == &op_rms_norm) && norm_rows_fit(c);
}

const struct op op_rms_norm = {
    OP_ROW(rms_norm), ARGS(norm_args),   .shapes = norm_shapes,   .vjp = norm_vjp,
    .jvp = norm_jvp,  .vmap = norm_vmap, .compose = compose_norm, .fits = norm_fits,
};
const struct op op_layer_norm = {
    OP_ROW(layer_norm), ARGS(norm_args),   .shapes = norm_shapes,   .vjp = norm_vjp,
    .jvp = norm_jvp,    .vmap = norm_vmap, .compose = compose_norm, .fits = norm_fits,
};

/* rstd (v - mean(v) - z mean(z v)) for the normalized row z; without mean(v) for rms_norm. */
static void compose_tangent(const struct call *c, mx y[])
{
    const struct norm_tangent_args *a = c->args;
    enum dtype t = wide_of(c->x[0]);
    mx x = mx_astype(c->x[0], t), v = mx_astype(c->x[1], t);
    if (a->centered)
        x = mx_subtract(x, mx_mean(x, last, 1, true));
    mx rstd = mx_rsqrt(mx_add(mx_mean(mx_square(x), last, 1, true), mx_scalar_like(a->eps, x)));
    mx z = mx_multiply(x, rstd), d = mx_subtract(v, mx_multiply(z, mx_mean(mx_multiply(z, v), last, 1, true)));
    if (a->centered)
        d = mx_subtract(d, mx_mean(v, last, 1, true));
    y[0] = mx_astype(mx_multiply(d, rstd), c->x[0]->dtype);
}

static mx tangent_node(const struct call *c, mx x, mx v) { return mx_infer(c->op, c->args, 2, (mx[]){ x, v }); }

static void tangent_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        composed_vjp(compose_tangent, c, ct, (bool[]){ true, false }, dx);
    if (want[1])
        dx[1] = tangent_node(c, c->x[0], ct[0]);
}

static void tangent_jvp(const struct call *c, const mx t[], mx dy[]) { composed_jvp(compose_tangent, c, t, dy); }

static void tangent_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct size n = batch_size(c, axis);
    y[0] = tangent_node(c, batch_all(c->x[0], axis[0], n), batch_all(c->x[1], axis[1], n));
    yaxis[0] = 0;
}

static bool tangent_fits(const struct call *c)
{
    return c->nin == 2 && same_shape(c->x[0], c->x[1]) && norm_rows_fit(c);
}

const struct op op_norm_tangent = {
    OP_ROW(norm_tangent), ARGS(norm_tangent_args), .shapes = shapes_like,      .vjp = tangent_vjp,
    .jvp = tangent_jvp,   .vmap = tangent_vmap,    .compose = compose_tangent, .fits = tangent_fits,
};

/* ---- what goes back through a norm, in one pass */

static void compose_norm_vjp(const struct call *c, mx y[]) { gone_back(c->args, c->x, 0, true, y); }

static void norm_vjp_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    composed_vjp(compose_norm_vjp, c, ct, want, dx);
}

static void norm_vjp_jvp(const struct call *c, const mx t[], mx dy[]) { composed_jvp(compose_norm_vjp, c, t, dy); }

static void norm_vjp_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct size n = batch_size(c, axis);
    mx x = batch_all(c->x[0], axis[0], n);
    mx in[] = { x, batch_all(c->x[1], axis[1], n), c->nin > 2 ? per_example(c->x[2], axis[2], x->ndim) : NULL };
    gone_back(c->args, in, 1, true, y);
    for (int k = 0; k < c->nout; k++) yaxis[k] = 0;
}

static int norm_vjp_shapes(const struct call *c, struct spec out[])
{
    const struct norm_vjp_args *a = c->args;
    int n = dim(c->x[0], -1);
    if (!same_shape(c->x[0], c->x[1]) || (a->weight && (c->x[2]->ndim != 1 || dim(c->x[2], 0) != n)))
        return failed(mx_fail("[norm_vjp] expected a cotangent of shape %s and a weight of shape (%d,), got %s and %s",
                              shape_of(c->x[0]), n, shape_of(c->x[1]), a->weight ? shape_of(c->x[2]) : "none"));
    for (int k = 1; k < c->nout; k++) spec_set(&out[k], c->x[0]->dtype, 1, &n);
    return shapes_like(c, out);
}

static bool norm_vjp_fits(const struct call *c)
{
    const struct norm_vjp_args *a = c->args;
    return call_has(c, 2 + a->weight, 1 + a->to_weight + a->to_bias) && (a->weight || !a->to_weight) &&
           (a->centered || !a->to_bias) && c->x[0]->ndim > 0 && dtype_is_float(c->x[0]->dtype) && one_dtype(c, c->nin);
}

const struct op op_norm_vjp = {
    OP_ROW(norm_vjp),    ARGS(norm_vjp_args),   .shapes = norm_vjp_shapes,   .vjp = norm_vjp_vjp,
    .jvp = norm_vjp_jvp, .vmap = norm_vjp_vmap, .compose = compose_norm_vjp, .fits = norm_vjp_fits,
};

static bool fits_rows(const char *name, const char *what, mx w, mx x)
{
    if (!w || is_nil(w) || (w->ndim == 1 && dim(w, 0) == dim(x, -1)))
        return true;
    mx_fail("[%s] expected a %s of shape (%d), as the last axis of x of shape %s, got shape %s", name, what, dim(x, -1),
            shape_of(x), shape_of(w));
    return false;
}

static mx norm(const struct op *op, mx x, mx weight, mx bias, double eps)
{
    if (is_nil(x) || (weight && is_nil(weight)) || (bias && is_nil(bias)))
        return MX_NIL;
    if (x->ndim == 0)
        return mx_fail("[%s] expected an array of at least one dimension, got a scalar", op->name);
    if (!fits_rows(op->name, "weight", weight, x) || !fits_rows(op->name, "bias", bias, x))
        return MX_NIL;
    enum dtype t = x->dtype;
    t = weight ? promote(t, weight->dtype) : t;
    t = bias ? promote(t, bias->dtype) : t;
    if (dtype_is_complex(t))
        return mx_fail_as(MX_VALUE, "[%s] expected real numbers, got complex64", op->name);
    t = dtype_is_float(t) ? t : DT_float32;
    return norm_node(op, mx_astype(x, t), weight ? mx_astype(weight, t) : NULL, bias ? mx_astype(bias, t) : NULL, eps);
}

mx mx_rms_norm(mx x, mx weight, double eps) { return norm(&op_rms_norm, x, weight, NULL, eps); }
mx mx_layer_norm(mx x, mx weight, mx bias, double eps) { return norm(&op_layer_norm, x, weight, bias, eps); }

/* ---- rope */

static const struct field rope_args_fields[] = { FIELD(rope_args, dims),
                                                 FIELD(rope_args, traditional),
                                                 FIELD(rope_args, freqs),
                                                 FIELD(rope_args, inverse),
                                                 FIELD(rope_args, base),
                                                 FIELD(rope_args, scale),
                                                 { 0 } };

/* Offsets: one, or one for each example. */
static bool offsets_fit(mx x, mx offset)
{
    return offset->ndim == 0 || (offset->ndim == 1 && (dim(offset, 0) == 1 || dim(offset, 0) == dim(x, 0)));
}

static int rope_shapes(const struct call *c, struct spec out[])
{
    const struct rope_args *a = c->args;
    mx x = c->x[0];
    if (a->dims > dim(x, -1) || !offsets_fit(x, c->x[1]) || (c->nin > 2 && dim(c->x[2], 0) != a->dims / 2))
        return failed(mx_fail("[rope] expected up to %d dims, one offset or %d of them, and freqs for %d dims, got "
                              "%d dims and offsets of shape %s",
                              dim(x, -1), dim(x, 0), a->dims, a->dims, shape_of(c->x[1])));
    return spec_like(out, x);
}

static mx rotated(const struct call *c, mx x, bool back)
{
    struct rope_args a = *(const struct rope_args *)c->args;
    a.inverse = a.inverse != back;
    mx in[] = { x, c->x[1], c->nin > 2 ? c->x[2] : NULL };
    return mx_infer(&op_rope, &a, c->nin, in);
}

/* The two coordinates of every rotated point. */
static mx rope_coordinate(const struct rope_args *a, mx x, int i)
{
    int half = a->dims / 2;
    return a->traditional ? mx_slice_axis(x, -1, i, a->dims, 2) : mx_slice_axis(x, -1, i * half, (i + 1) * half, 1);
}

/* scale (offset + t), of shape (B or 1, 1..., T, 1), like x. */
static mx rope_positions(const struct call *c)
{
    const struct rope_args *a = c->args;
    mx x = c->x[0], offset = mx_astype(c->x[1], wide_of(x));
    struct size length = size_of(x, -2);
    mx t = mx_expand_dims(mx_arange_by(1, &length, wide_of(x)), (int[]){ 1 }, 1);
    if (offset->ndim == 1) {
        int ones[MX_MAX_NDIM];
        for (int i = 1; i < x->ndim; i++) ones[i - 1] = i;
        offset = mx_expand_dims(offset, ones, x->ndim - 1);
    }
    return mx_multiply(mx_add(t, offset), mx_scalar_like(a->scale, t));
}

/* How far y moves as its angles do: half a turn of a right angle, (-y2, y1). */
static mx turned_by(const struct call *c, mx y, mx angle)
{
    const struct rope_args *a = c->args;
    mx u = mx_multiply(mx_negative(rope_coordinate(a, y, 1)), angle), v = mx_multiply(rope_coordinate(a, y, 0), angle);
    if (!a->traditional)
        return mx_concatenate(2, (mx[]){ u, v }, -1);
    mx both = mx_stack(2, (mx[]){ u, v }, u->ndim);
    return mx_flatten(both, -2, -1);
}

/* The angle is position / frequency; of the adjoint, its negative. */
static mx angle_slope(const struct call *c)
{
    mx slope = mx_divide(rope_positions(c), mx_square(mx_astype(c->x[2], wide_of(c->x[0]))));
    return ((const struct rope_args *)c->args)->inverse ? slope : mx_negative(slope);
}

static void rope_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct rope_args *a = c->args;
    if (want[0])
        dx[0] = rotated(c, ct[0], true);
    if (c->nin > 2 && want[2]) {
        mx y = c->y[0], g = ct[0];
        mx angle = mx_subtract(mx_multiply(rope_coordinate(a, g, 1), rope_coordinate(a, y, 0)),
                               mx_multiply(rope_coordinate(a, g, 0), rope_coordinate(a, y, 1)));
        dx[2] = mx_astype(mx_sum_to_like(mx_multiply(angle, angle_slope(c)), c->x[2]), c->x[2]->dtype);
    }
}

static void rope_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct rope_args *a = c->args;
    mx x = c->x[0], y = t[0] ? rotated(c, t[0], false) : zeros_of(x);
    if (c->nin > 2 && t[2]) {
        mx d = turned_by(c, c->y[0], mx_multiply(angle_slope(c), t[2]));
        if (a->dims == dim(x, -1)) {
            y = mx_size_checked(y, -1);
        } else {
            mx rest = mx_slice_axis(x, -1, a->dims, TO_END, 1);
            d = mx_concatenate(2, (mx[]){ d, mx_astype(mx_zeros_like(rest), d->dtype) }, -1);
        }
        y = mx_add(y, mx_astype(d, x->dtype));
    }
    dy[0] = y;
}

/* Offsets of the examples become offsets of the batch x B of them; frequencies of their own are
 * taken one by one. */
static void rope_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct size n = batch_size(c, axis);
    mx x = batch_all(c->x[0], axis[0], n), offset = c->x[1];
    yaxis[0] = 0;
    if (c->nin > 2 && axis[2] >= 0) {
        shapes_matter("rope");
        mx parts = MX_NIL, freqs = batch_first(c->x[2], axis[2]);
        mx offsets = batch_all(offset, axis[1], n);
        for (int i = 0; i < n.now; i++) {
            mx at = array_of_int(i, DT_int32);
            mx in[] = { mx_take(x, at, 0), mx_take(offsets, at, 0), mx_take(freqs, at, 0) };
            mx one = mx_expand_dims(mx_infer(c->op, c->args, 3, in), (int[]){ 0 }, 1);
            parts = i ? mx_concatenate(2, (mx[]){ parts, one }, 0) : one;
        }
        y[0] = parts;
        return;
    }
    if (axis[1] < 0 && offset->ndim == 0) {
        y[0] = mx_infer(c->op, c->args, c->nin, (mx[]){ x, offset, c->nin > 2 ? c->x[2] : NULL });
        return;
    }
    offset = batch_all(offset, axis[1], n);
    if (offset->ndim == 1)
        offset = mx_expand_dims(offset, (int[]){ 1 }, 1);
    offset = mx_broadcast_by(offset, 2, (struct size[]){ n, size_of(x, 1) });
    mx in[] = { mx_flatten(x, 0, 1), mx_flatten(offset, 0, 1), c->nin > 2 ? c->x[2] : NULL };
    y[0] = mx_reshape_like(mx_infer(c->op, c->args, c->nin, in), x);
}

static void compose_rope(const struct call *c, mx y[])
{
    const struct rope_args *a = c->args;
    enum dtype wide = wide_of(c->x[0]);
    bool all = a->dims == dim(c->x[0], -1);
    mx x = mx_astype(all ? mx_size_checked(c->x[0], -1) : c->x[0], wide), angle = rope_positions(c);
    if (a->freqs) {
        angle = mx_divide(angle, mx_astype(c->x[2], wide));
    } else {
        const int pairs = a->dims / 2;
        mx i = mx_arange(0, pairs, 1, DT_float64);
        mx turns = mx_exp(mx_multiply(i, array_of_double(-2 * log(a->base) / a->dims, DT_float64)));
        angle = mx_multiply(angle, mx_astype(turns, wide));
    }
    mx cosine = mx_cos(angle), sine = mx_sin(a->inverse ? mx_negative(angle) : angle);
    mx x0 = rope_coordinate(a, x, 0), x1 = rope_coordinate(a, x, 1);
    mx parts[2] = { mx_subtract(mx_multiply(x0, cosine), mx_multiply(x1, sine)),
                    mx_add(mx_multiply(x0, sine), mx_multiply(x1, cosine)) };
    mx turned = MX_NIL;
    if (a->traditional) {
        mx both = mx_stack(2, parts, parts[0]->ndim);
        turned = mx_flatten(both, -2, -1);
    } else {
        turned = mx_concatenate(2, parts, -1);
    }
    if (!all)
        turned = mx_concatenate(2, (mx[]){ turned, mx_slice_axis(x, -1, a->dims, TO_END, 1) }, -1);
    y[0] = mx_astype(turned, c->x[0]->dtype);
}

static bool rope_fits(const struct call *c)
{
    const struct rope_args *a = c->args;
    mx x = c->x[0];
    return call_has(c, 2 + a->freqs, 1) && x->ndim >= 3 && dtype_is_float(x->dtype) && a->dims > 0 &&
           a->dims % 2 == 0 && c->x[1]->dtype == DT_int64 &&
           (!a->freqs || (c->x[2]->ndim == 1 && c->x[2]->dtype == wide_of(x)));
}

const struct op op_rope = {
    OP_ROW(rope),    ARGS(rope_args),   .shapes = rope_shapes,   .vjp = rope_vjp,
    .jvp = rope_jvp, .vmap = rope_vmap, .compose = compose_rope, .fits = rope_fits,
};

mx mx_rope(mx x, int dims, bool traditional, const double *base, double scale, mx offset, mx freqs)
{
    if (is_nil(x) || is_nil(offset) || (freqs && is_nil(freqs)))
        return MX_NIL;
    if (x->ndim < 3)
        return mx_fail("[rope] expected an array of at least 3 dimensions, got shape %s", shape_of(x));
    if (!dtype_is_float(x->dtype))
        return mx_fail("[rope] expected a floating-point array, got %s", dtype_name(x->dtype));
    if (dims <= 0 || dims % 2 || dims > dim(x, -1))
        return mx_fail("[rope] expected an even number of dims from 2 to the size %d of the last axis, got %d",
                       dim(x, -1), dims);
    if (!base == !freqs)
        return mx_fail("[rope] expected either base or freqs, got %s", base ? "both" : "neither");
    if (freqs && (freqs->ndim != 1 || dim(freqs, 0) != dims / 2))
        return mx_fail("[rope] expected freqs of shape (%d), got %s", dims / 2, shape_of(freqs));
    if (freqs && dtype_is_complex(freqs->dtype))
        return mx_fail("[rope] expected real freqs, got complex64");
    if (!dtype_is_integer(offset->dtype))
        return mx_fail("[rope] expected an integer offset, got %s", dtype_name(offset->dtype));
    if (!offsets_fit(x, offset))
        return mx_fail("[rope] expected one offset or %d of them, got shape %s", x->shape[0], shape_of(offset));
    struct rope_args a = { dims, traditional, freqs, false, base ? *base : 0, scale };
    enum dtype wide = x->dtype == DT_float64 ? DT_float64 : DT_float32;
    mx in[] = { x, mx_astype(offset, DT_int64), freqs ? mx_astype(freqs, wide) : NULL };
    return mx_infer(&op_rope, &a, freqs ? 3 : 2, in);
}

/* ---- cross entropy */

mx mx_cross_entropy(mx logits, mx targets)
{
    if (is_nil(logits) || is_nil(targets))
        return MX_NIL;
    if (!dtype_is_float(logits->dtype))
        return mx_fail("[cross_entropy] expected floating-point logits, got %s", dtype_name(logits->dtype));
    if (!dtype_is_integer(targets->dtype))
        return mx_fail("[cross_entropy] expected integer targets, got %s", dtype_name(targets->dtype));
    bool fits = logits->ndim == targets->ndim + 1;
    for (int i = 0; fits && i < targets->ndim; i++) fits = logits->shape[i] == targets->shape[i];
    if (!fits)
        return mx_fail("[cross_entropy] expected targets of the shape of the logits without its "
                       "last axis, got logits %s "
                       "and targets %s",
                       shape_of(logits), shape_of(targets));
    mx at = mx_expand_dims(targets, last, 1), parts[2];
    mx picked = mx_squeeze(mx_take_along_axis_for(CROSS_ENTROPY, logits, at, -1), last, 1);
    mx_logsumexp_parts(logits, last, 1, false, parts);
    mx sum = mx_shape_checked(parts[1], targets);
    return mx_astype(mx_subtract(sum, mx_subtract(picked, parts[0])), DT_float32);
}
