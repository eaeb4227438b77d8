/* group_norm.c: normalization of groups of channels over places, which that of one channel, or of a batch, is too.
 *
 * x is (items, places..., channels).  y = (x - mean) / sqrt(var + eps) w + b, where mean and var are those of a group
 * of channels in one item, or in all items: the second and the third result, of shape (items or 1, groups), in float32
 * for half types.  They are differentiated through as y is, so rules use them.  group_norm_vjp takes a cotangent of y
 * back to x, and sums what goes to weight and bias on the way. */
#include "ops/group_norm.h"

#include "core/scope.h"
#include "core/stream.h"
#include "ops/composed.h"
#include "ops/rules.h"

static const struct field group_norm_args_fields[] = { FIELD(group_norm_args, groups),
                                                       FIELD(group_norm_args, neighbours),
                                                       FIELD(group_norm_args, whole),
                                                       FIELD(group_norm_args, weight),
                                                       FIELD(group_norm_args, bias),
                                                       FIELD(group_norm_args, eps),
                                                       { 0 } };
static const struct field group_norm_vjp_args_fields[] = {
    FIELD(group_norm_vjp_args, groups),    FIELD(group_norm_vjp_args, neighbours),
    FIELD(group_norm_vjp_args, whole),     FIELD(group_norm_vjp_args, weight),
    FIELD(group_norm_vjp_args, to_weight), FIELD(group_norm_vjp_args, to_bias),
    FIELD(group_norm_vjp_args, eps),       { 0 }
};

static enum dtype wide_of(mx x) { return x->dtype == DT_float64 ? DT_float64 : DT_float32; }

static int groups_of(const struct group_norm_args *a, mx x) { return a->groups ? a->groups : dim(x, -1); }

/* The axis of a group's members, where channels are those and the groups. */
static int members(const struct group_norm_args *a) { return a->neighbours ? -1 : -2; }

/* The means of groups, of v like x. */
static mx means(const struct group_norm_args *a, mx v)
{
    int axes[MX_MAX_NDIM], n = 0, of = members(a);
    for (int i = !a->whole; i < v->ndim - 1; i++) axes[n++] = i;
    mx m = mx_flatten(n ? mx_mean(v, axes, n, true) : v, 0, -2);
    if (!a->groups)
        return m;
    int size = dim(v, -1) / a->groups;
    m = mx_unflatten(m, -1, 2, a->neighbours ? (int[]){ a->groups, size } : (int[]){ size, a->groups });
    return mx_mean(m, &of, 1, false);
}

/* What groups have, for each channel: to broadcast with x. */
static mx to_channels(const struct group_norm_args *a, mx m, mx x)
{
    int axes[MX_MAX_NDIM], of = members(a);
    for (int i = 0; i < x->ndim - 2; i++) axes[i] = i + 1;
    if (a->groups)
        m = mx_flatten(mx_repeat(mx_expand_dims(m, &of, 1), dim(x, -1) / a->groups, of), -2, -1);
    return mx_expand_dims(m, axes, x->ndim - 2);
}

static mx rstd(const struct group_norm_args *a, mx var) { return mx_rsqrt(mx_add(var, mx_scalar_like(a->eps, var))); }

/* z = (x - mean) rstd, in a wide type. */
struct normed {
    mx centred, rstd, z;
};
static struct normed normed(const struct group_norm_args *a, mx x, mx mean, mx var)
{
    struct normed n = { mx_subtract(x, to_channels(a, mean, x)), to_channels(a, rstd(a, var), x), NULL };
    n.z = mx_multiply(n.centred, n.rstd);
    return n;
}

static mx weight_of(const struct call *c) { return mx_astype(c->x[1], wide_of(c->x[0])); }

static void compose_group_norm(const struct call *c, mx y[])
{
    const struct group_norm_args *a = c->args;
    mx x = mx_astype(c->x[0], wide_of(c->x[0]));
    x = a->groups ? mx_size_checked(x, -1) : x;
    y[1] = means(a, x);
    y[2] = means(a, mx_square(mx_subtract(x, to_channels(a, y[1], x))));
    mx z = normed(a, x, y[1], y[2]).z;
    if (a->weight)
        z = mx_multiply(z, weight_of(c));
    if (a->bias)
        z = mx_add(z, mx_astype(c->x[1 + a->weight], z->dtype));
    y[0] = mx_astype(z, c->x[0]->dtype);
}

/* rstd (v - mean(v) - z mean(z v)): what a change v of x makes of z, and a cotangent of z of x. */
static mx through(const struct group_norm_args *a, const struct normed *n, mx v)
{
    mx along = mx_multiply(n->z, to_channels(a, means(a, mx_multiply(n->z, v)), v));
    return mx_multiply(n->rstd, mx_subtract(mx_subtract(v, to_channels(a, means(a, v), v)), along));
}

/* The cotangent t of means of groups, of what is like x. */
static mx spread_over(const struct group_norm_args *a, mx t, mx x)
{
    int first = !a->whole, size = a->groups ? dim(x, -1) / a->groups : 1;
    mx n = mx_multiply(mx_count(x, first, x->ndim - 1 - first, t->dtype), mx_scalar_like(size, t));
    return to_channels(a, mx_divide(t, n), x);
}

static struct group_norm_args forward_of(const struct group_norm_vjp_args *a)
{
    return (struct group_norm_args){ a->groups, a->neighbours, a->whole, a->weight, false, a->eps };
}

/* A sum over all axes but the last, in x's type. */
static mx over_places(mx v, mx x)
{
    int axes[MX_MAX_NDIM], n = 0;
    for (; n < x->ndim - 1; n++) axes[n] = n;
    return mx_astype(mx_sum(v, axes, n, false), x->dtype);
}

/* x and the cotangent in a wide type, and what they have in common. */
static struct normed wide_operands(const struct group_norm_args *a, const mx in[], mx *x, mx *t)
{
    const mx *stats = in + 2 + a->weight;
    *x = mx_astype(in[0], wide_of(in[0]));
    *t = in[1] ? mx_astype(in[1], (*x)->dtype) : NULL;
    return normed(a, *x, stats[0], stats[1]);
}

/* What group_norm_vjp makes of its operands, by others; of x in a wide type. */
static void gone_back(const struct group_norm_vjp_args *back, const mx in[], const struct normed *n, mx t, bool to_x,
                      mx y[])
{
    struct group_norm_args a = forward_of(back);
    if (to_x)
        y[0] = through(&a, n, a.weight ? mx_multiply(t, mx_astype(in[2], t->dtype)) : t);
    if (back->to_weight)
        y[1] = mx_astype(mx_sum_to_like(mx_multiply(t, n->z), in[2]), in[2]->dtype);
    if (back->to_bias)
        y[1 + back->to_weight] = a.weight ? mx_astype(mx_sum_to_like(t, in[2]), in[2]->dtype) : over_places(t, in[0]);
}

/* On a GPU it is made of others, as the norm itself is, and where means and variances go on to something. */
static void group_norm_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct group_norm_args *a = c->args;
    bool to_weight = ct[0] && a->weight && want[1], to_bias = ct[0] && a->bias && want[1 + a->weight];
    struct group_norm_vjp_args back = { a->groups, a->neighbours, a->whole, a->weight, to_weight, to_bias, a->eps };
    mx in[5] = { c->x[0], ct[0] }, out[3] = { NULL };
    int n = 2;
    if (a->weight)
        in[n++] = c->x[1];
    for (int k = 1; k < 3; k++) in[n++] = c->y[k];
    if (want[0] && !ct[1] && !ct[2] && scope_stream()->device.type != DEVICE_GPU) {
        mx_infer_n(&op_group_norm_vjp, &back, n, in, 1 + to_weight + to_bias, out);
    } else {
        mx x, t;
        struct normed of = wide_operands(a, in, &x, &t);
        if (ct[0])
            gone_back(&back, in, &of, t, want[0], out);
        for (int k = 1; k < 3 && want[0]; k++)
            if (ct[k]) {
                t = spread_over(a, ct[k], x);
                if (k == 2)
                    t = mx_multiply(t, mx_multiply(of.centred, mx_scalar_like(2, t)));
                out[0] = mx_broadcast_like(out[0] ? mx_add(out[0], t) : t, x);
            }
    }
    if (want[0])
        dx[0] = mx_astype(out[0], c->x[0]->dtype);
    if (to_weight)
        dx[1] = out[1];
    if (to_bias)
        dx[1 + a->weight] = out[1 + to_weight];
}

static void group_norm_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct group_norm_args *a = c->args;
    mx x = mx_astype(c->x[0], wide_of(c->x[0])), sum = NULL;
    struct normed n = normed(a, x, c->y[1], c->y[2]);
    if (t[0]) {
        mx v = mx_astype(t[0], x->dtype);
        sum = through(a, &n, v);
        sum = a->weight ? mx_multiply(sum, weight_of(c)) : sum;
        dy[1] = means(a, v);
        dy[2] = mx_multiply(means(a, mx_multiply(n.centred, v)), mx_scalar_like(2, v));
    }
    for (int i = 1; i < c->nin; i++)
        if (t[i]) {
            mx v = mx_astype(t[i], x->dtype);
            v = i == 1 && a->weight ? mx_multiply(n.z, v) : v;
            sum = sum ? mx_add(sum, v) : v;
        }
    dy[0] = mx_astype(mx_broadcast_like(sum, x), c->x[0]->dtype);
}

/* Examples are more items, or where all are one the items. */
static void group_norm_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct group_norm_args a = *(const struct group_norm_args *)c->args;
    struct size n = batch_size(c, axis);
    mx x = batch_all(c->x[0], axis[0], n);
    struct size two[] = { size_of(x, 0), size_of(x, 1) };
    mx in[3] = { a.whole ? x : mx_flatten(x, 0, 1) };
    int nin = 1;
    bool shared = true, whole = a.whole;
    for (int i = 1; i < c->nin; i++) shared = shared && axis[i] < 0;
    for (int i = 1; i < c->nin && shared; i++) in[nin++] = c->x[i];
    a.whole = false;
    if (!shared)
        a.weight = a.bias = false;
    mx_infer_n(c->op, &a, nin, in, 3, y);
    for (int k = 0; k < 3; k++) {
        if (!whole)
            y[k] = mx_unflatten_by(y[k], 0, 2, two);
        else if (k)
            y[k] = mx_expand_dims(y[k], (int[]){ 1 }, 1);
        yaxis[k] = 0;
    }
    for (int i = 1; i < c->nin && !shared; i++) {
        mx w = batch_first(c->x[i], axis[i]);
        for (int k = 2; axis[i] >= 0 && k < x->ndim; k++) w = mx_expand_dims(w, (int[]){ 1 }, 1);
        bool scales = i == 1 && ((const struct group_norm_args *)c->args)->weight;
        y[0] = scales ? mx_multiply(y[0], w) : mx_add(y[0], w);
    }
}

static int group_norm_shapes(const struct call *c, struct spec out[])
{
    const struct group_norm_args *a = c->args;
    mx x = c->x[0];
    if (x->ndim < 2 || (a->groups && (dim(x, -1) % a->groups || dim(x, -1) < a->groups)))
        return failed(mx_fail("[group_norm] expected x (items, ..., channels), the channels a multiple of %d groups, "
                              "got shape %s",
                              a->groups, shape_of(x)));
    int sizes[] = { a->whole ? 1 : dim(x, 0), groups_of(a, x) };
    for (int i = 1; i < c->nin; i++)
        if (c->x[i]->ndim != 1 || dim(c->x[i], 0) != dim(x, -1))
            return failed(mx_fail("[group_norm] expected a weight and a bias of shape (%d,), the last axis of x, got "
                                  "shape %s",
                                  dim(x, -1), shape_of(c->x[i])));
    for (int k = 1; k < 3; k++) spec_set(&out[k], wide_of(x), 2, sizes);
    return spec_like(out, x);
}

static bool group_norm_fits(const struct call *c)
{
    const struct group_norm_args *a = c->args;
    return call_has(c, 1 + a->weight + a->bias, 3) && a->groups >= 0 && dtype_is_float(c->x[0]->dtype) &&
           one_dtype(c, c->nin);
}

const struct op op_group_norm = {
    OP_ROW(group_norm),    ARGS(group_norm_args),   .shapes = group_norm_shapes,   .vjp = group_norm_vjp,
    .jvp = group_norm_jvp, .vmap = group_norm_vmap, .compose = compose_group_norm, .fits = group_norm_fits,
};

/* ---- what goes back, in two passes */

static void compose_group_norm_vjp(const struct call *c, mx y[])
{
    struct group_norm_args of = forward_of(c->args);
    mx x, t;
    struct normed n = wide_operands(&of, c->x, &x, &t);
    gone_back(c->args, c->x, &n, t, true, y);
    y[0] = mx_astype(y[0], c->x[0]->dtype);
}

static void group_norm_vjp_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    composed_vjp(compose_group_norm_vjp, c, ct, want, dx);
}

static void group_norm_vjp_jvp(const struct call *c, const mx t[], mx dy[])
{
    composed_jvp(compose_group_norm_vjp, c, t, dy);
}

/* Examples are more items, or where all are one the items; each has sums of its own. */
static void group_norm_vjp_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct group_norm_vjp_args a = *(const struct group_norm_vjp_args *)c->args;
    struct group_norm_args of = forward_of(&a);
    struct size n = batch_size(c, axis);
    mx x = batch_all(c->x[0], axis[0], n), t = batch_all(c->x[1], axis[1], n), v = t;
    struct size two[] = { size_of(x, 0), size_of(x, 1) };
    if (a.weight) {
        mx w = batch_first(c->x[2], axis[2]);
        for (int i = 2; axis[2] >= 0 && i < x->ndim; i++) w = mx_expand_dims(w, (int[]){ 1 }, 1);
        v = mx_multiply(t, w);
    }
    mx in[4] = { x, v };
    for (int k = 2; k < 4; k++) {
        int i = k + a.weight;
        in[k] = mx_flatten(batch_all(c->x[i], axis[i], n), 0, 1);
    }
    for (int k = 0; k < 2 && !a.whole; k++) in[k] = mx_flatten(in[k], 0, 1);
    t = a.whole ? t : mx_flatten(t, 0, 1);
    struct group_norm_vjp_args each = { a.groups, a.neighbours, false, false, false, false, a.eps };
    y[0] = mx_infer(&op_group_norm_vjp, &each, 4, in);
    of.whole = false;
    mx wide = mx_astype(in[0], wide_of(x));
    t = mx_astype(t, wide->dtype);
    for (int k = 0; k < a.to_weight + a.to_bias; k++) {
        mx sum = k == 0 && a.to_weight ? mx_multiply(t, normed(&of, wide, in[2], in[3]).z) : t;
        int axes[MX_MAX_NDIM], places = 0;
        for (int i = 1; i < sum->ndim - 1; i++) axes[places++] = i;
        sum = mx_sum(sum, axes, places, false);
        y[1 + k] = a.whole ? sum : mx_sum(mx_unflatten_by(sum, 0, 2, two), (int[]){ 1 }, 1, false);
        y[1 + k] = mx_astype(y[1 + k], x->dtype);
    }
    if (!a.whole)
        y[0] = mx_unflatten_by(y[0], 0, 2, two);
    for (int k = 0; k < c->nout; k++) yaxis[k] = 0;
}

static int group_norm_vjp_shapes(const struct call *c, struct spec out[])
{
    const struct group_norm_vjp_args *a = c->args;
    struct group_norm_args of = forward_of(a);
    struct call forward = { &op_group_norm, &of, 1 + a->weight, 3, (mx[]){ c->x[0], c->x[2] }, NULL };
    struct spec stats[3];
    if (group_norm_shapes(&forward, stats))
        return 1;
    const mx *given = c->x + 2 + a->weight;
    bool same = same_shape(c->x[0], c->x[1]);
    for (int k = 0; k < 2; k++)
        same = same && given[k]->ndim == 2 && dim(given[k], 0) == stats[1].shape[0] &&
               dim(given[k], 1) == stats[1].shape[1];
    if (!same)
        return failed(mx_fail("[group_norm_vjp] expected a cotangent of shape %s, and means and variances of shape "
                              "(%d, %d), got %s, %s and %s",
                              shape_of(c->x[0]), stats[1].shape[0], stats[1].shape[1], shape_of(c->x[1]),
                              shape_of(given[0]), shape_of(given[1])));
    for (int k = 1; k < c->nout; k++) spec_set(&out[k], c->x[0]->dtype, 1, (int[]){ dim(c->x[0], -1) });
    return spec_like(out, c->x[0]);
}

static bool group_norm_vjp_fits(const struct call *c)
{
    const struct group_norm_vjp_args *a = c->args;
    int n = 2 + a->weight;
    return call_has(c, n + 2, 1 + a->to_weight + a->to_bias) && a->groups >= 0 && (a->weight || !a->to_weight) &&
           dtype_is_float(c->x[0]->dtype) && one_dtype(c, n) && c->x[n]->dtype == wide_of(c->x[0]) &&
           c->x[n + 1]->dtype == wide_of(c->x[0]);
}

const struct op op_group_norm_vjp = {
    OP_ROW(group_norm_vjp),
    ARGS(group_norm_vjp_args),
    .shapes = group_norm_vjp_shapes,
    .vjp = group_norm_vjp_vjp,
    .jvp = group_norm_vjp_jvp,
    .vmap = group_norm_vjp_vmap,
    .compose = compose_group_norm_vjp,
    .fits = group_norm_vjp_fits,
};

/* On a GPU it is made of others, which have kernels there. */
void mx_group_norm(mx x, mx weight, mx bias, int groups, bool neighbours, bool whole, double eps, mx y[3])
{
    for (int k = 0; k < 3; k++) y[k] = MX_NIL;
    if (is_nil(x) || (weight && is_nil(weight)) || (bias && is_nil(bias)))
        return;
    enum dtype t = x->dtype;
    t = weight ? promote(t, weight->dtype) : t;
    t = bias ? promote(t, bias->dtype) : t;
    if (groups < 0) {
        mx_fail("[group_norm] expected a number of groups, or 0 for one of each channel, got %d", groups);
        return;
    }
    if (dtype_is_complex(t)) {
        mx_fail_as(MX_VALUE, "[group_norm] expected real numbers, got complex64");
        return;
    }
    t = dtype_is_float(t) ? t : DT_float32;
    struct group_norm_args a = { groups, neighbours, whole, weight, bias, eps };
    mx in[3] = { mx_astype(x, t) };
    int n = 1;
    if (weight)
        in[n++] = mx_astype(weight, t);
    if (bias)
        in[n++] = mx_astype(bias, t);
    struct call c = { &op_group_norm, &a, n, 3, in, NULL };
    struct spec out[3];
    if (scope_stream()->device.type != DEVICE_GPU)
        mx_infer_n(&op_group_norm, &a, n, in, 3, y);
    else if (!group_norm_shapes(&c, out))
        compose_group_norm(&c, y);
}
