/* group_norm.c: normalization of groups of channels over places, which that of one channel, or of a batch, is too.
 *
 * x is (items, places..., channels).  y = (x - mean) / sqrt(var + eps) w + b, where mean and var are those of a group
 * of channels in one item, or in all items: the second and the third result, of shape (items or 1, groups), in float32
 * for half types.  They are differentiated through as y is, so rules use them. */
#include "ops/group_norm.h"

#include "core/scope.h"
#include "core/stream.h"
#include "ops/rules.h"

static const struct field group_norm_args_fields[] = { FIELD(group_norm_args, groups),
                                                       FIELD(group_norm_args, neighbours),
                                                       FIELD(group_norm_args, whole),
                                                       FIELD(group_norm_args, weight),
                                                       FIELD(group_norm_args, bias),
                                                       FIELD(group_norm_args, eps),
                                                       { 0 } };

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

static void group_norm_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct group_norm_args *a = c->args;
    mx x = mx_astype(c->x[0], wide_of(c->x[0])), sum = NULL;
    struct normed n = normed(a, x, c->y[1], c->y[2]);
    if (ct[0]) {
        mx t = mx_astype(ct[0], x->dtype);
        sum = want[0] ? through(a, &n, a->weight ? mx_multiply(t, weight_of(c)) : t) : NULL;
        for (int i = 1; i < c->nin; i++)
            if (want[i])
                dx[i] =
                    mx_astype(mx_sum_to_like(i == 1 && a->weight ? mx_multiply(t, n.z) : t, c->x[i]), c->x[i]->dtype);
    }
    for (int k = 1; k < 3 && want[0]; k++)
        if (ct[k]) {
            mx t = spread_over(a, ct[k], x);
            if (k == 2)
                t = mx_multiply(t, mx_multiply(n.centred, mx_scalar_like(2, t)));
            sum = mx_broadcast_like(sum ? mx_add(sum, t) : t, x);
        }
    if (sum)
        dx[0] = mx_astype(sum, c->x[0]->dtype);
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
