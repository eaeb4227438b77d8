/* delta.c: the linear attention of gated delta networks.
 *
 * The kernel runs through the steps with the state in the cache.  Derivatives come from the formula,
 * a graph of a few operations for each step. */
#include "ops/delta.h"

#include "core/scope.h"
#include "ops/composed.h"
#include "ops/rules.h"

static const struct field gated_delta_args_fields[] = { FIELD(gated_delta_args, mask), { 0 } };

enum { Q, K, V, GAMMA, BETA, STATE, MASK };

/* x of this shape; fails otherwise. */
static bool check_shape(const char *what, mx x, int n, const int *shape)
{
    bool fits = x->ndim == n;
    for (int i = 0; fits && i < n; i++) fits = x->shape[i] == shape[i];
    if (!fits)
        mx_fail("[gated_delta_update] expected %s of shape %s, got %s", what, shape_text(n, shape), shape_of(x));
    return fits;
}

/* Are these what goes with k and v?  gamma has one number for each head, or n 4 for each of its columns;
 * state and mask may be NULL. */
static bool delta_fits(const mx x[], int n, mx state, mx mask)
{
    mx k = x[K], v = x[V];
    if (k->ndim != 4 || v->ndim != 4 || !k->shape[2] || v->shape[2] % k->shape[2]) {
        mx_fail("[gated_delta_update] expected k of shape (B, T, H, D) and v of shape (B, T, N, E) with N a multiple "
                "of H, got %s and %s",
                shape_of(k), shape_of(v));
        return false;
    }
    int b = k->shape[0], t = k->shape[1], d = k->shape[3], heads = v->shape[2], e = v->shape[3];
    return check_shape("q", x[Q], 4, k->shape) && check_shape("v", v, 4, (int[]){ b, t, heads, e }) &&
           check_shape("gamma", x[GAMMA], n, (int[]){ b, t, heads, d }) &&
           check_shape("beta", x[BETA], 3, (int[]){ b, t, heads }) &&
           (!state || check_shape("initial_state", state, 4, (int[]){ b, heads, e, d })) &&
           (!mask || check_shape("mask", mask, 2, (int[]){ b, t }));
}

static int delta_shapes(const struct call *c, struct spec out[])
{
    const struct gated_delta_args *a = c->args;
    if (!delta_fits(c->x, 4, c->x[STATE], a->mask ? c->x[MASK] : NULL))
        return 1;
    spec_like(&out[0], c->x[V]);
    spec_like(&out[1], c->x[STATE]);
    return 0;
}

/* Step t of x (B, T, ...): (B, ...). */
static mx step_of(mx x, int t) { return mx_take(x, array_of_int(t, DT_int32), 1); }

static mx last_axis(mx x) { return mx_expand_dims(x, (int[]){ -1 }, 1); }

static void compose_delta(const struct call *c, mx y[])
{
    const struct gated_delta_args *a = c->args;
    shapes_matter("gated_delta_update");
    int steps = dim(c->x[V], 1), each = dim(c->x[V], 2) / dim(c->x[K], 2);
    mx s = c->x[STATE], q = mx_repeat(c->x[Q], each, 2), k = mx_repeat(c->x[K], each, 2);
    mx out = mx_zeros_like(c->x[V]);
    for (int t = 0; t < steps; t++) {
        mx kt = step_of(k, t), gamma = mx_expand_dims(step_of(c->x[GAMMA], t), (int[]){ -2 }, 1);
        mx faded = mx_multiply(s, gamma), read = mx_squeeze(mx_matmul(faded, last_axis(kt)), (int[]){ -1 }, 1);
        mx d = mx_multiply(mx_subtract(step_of(c->x[V], t), read), last_axis(step_of(c->x[BETA], t)));
        mx next = mx_add(faded, mx_multiply(last_axis(d), mx_expand_dims(kt, (int[]){ -2 }, 1)));
        mx o = mx_squeeze(mx_matmul(next, last_axis(step_of(q, t))), (int[]){ -1 }, 1);
        if (a->mask) {
            mx m = mx_reshape(step_of(c->x[MASK], t), 4, (int[]){ dim(s, 0), 1, 1, 1 });
            next = mx_where(m, next, s);
            o = mx_where(mx_squeeze(m, (int[]){ -1 }, 1), o, zeros_of(o));
        }
        s = next;
        o = mx_expand_dims(o, (int[]){ 1 }, 1);
        out = t ? mx_concatenate(2, (mx[]){ out, o }, 1) : o;
    }
    y[0] = out;
    y[1] = s;
}

static void delta_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    composed_vjp(compose_delta, c, ct, want, dx);
}

static void delta_jvp(const struct call *c, const mx t[], mx dy[]) { composed_jvp(compose_delta, c, t, dy); }

/* The batch becomes a part of B. */
static void delta_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct size n = batch_size(c, axis), b = size_of(c->x[V], axis[V] == 0);
    mx in[7];
    for (int i = 0; i < c->nin; i++) in[i] = mx_flatten(batch_all(c->x[i], axis[i], n), 0, 1);
    mx_infer_n(c->op, c->args, c->nin, in, 2, y);
    for (int k = 0; k < 2; k++) {
        y[k] = mx_unflatten_by(y[k], 0, 2, (struct size[]){ n, b });
        yaxis[k] = 0;
    }
}

static bool types_fit(const struct call *c)
{
    const struct gated_delta_args *a = c->args;
    enum dtype t = c->nin ? c->x[Q]->dtype : DT_bool_;
    return call_has(c, STATE + 1 + a->mask, 2) && (t == DT_float32 || t == DT_float64) && one_dtype(c, STATE + 1) &&
           (!a->mask || c->x[MASK]->dtype == DT_bool_);
}

const struct op op_gated_delta = {
    OP_ROW(gated_delta), ARGS(gated_delta_args), .shapes = delta_shapes,   .vjp = delta_vjp,
    .jvp = delta_jvp,    .vmap = delta_vmap,     .compose = compose_delta, .fits = types_fit,
};

void mx_gated_delta(mx q, mx k, mx v, mx gamma, mx beta, mx state, mx mask, mx y[2])
{
    mx all[] = { q, k, v, gamma, beta, state, mask };
    enum dtype t = promote(promote(q->dtype, k->dtype), v->dtype), wide;
    y[0] = y[1] = MX_NIL;
    for (int i = 0; i < 7; i++)
        if (all[i] && is_nil(all[i]))
            return;
    if (!delta_fits(all, gamma->ndim == 4 ? 4 : 3, state, mask))
        return;
    for (int i = 0; i < 6; i++)
        if (all[i] && !dtype_is_float(all[i]->dtype)) {
            mx_fail("[gated_delta_update] expected floating-point arrays, got %s", dtype_name(all[i]->dtype));
            return;
        }
    wide = t == DT_float64 ? DT_float64 : DT_float32;
    struct size b = size_of(k, 0), d = size_of(k, 3), heads = size_of(v, 2), e = size_of(v, 3);
    for (int i = 0; i < 6; i++)
        if (all[i])
            all[i] = mx_astype(all[i], wide);
    if (gamma->ndim == 3)
        all[GAMMA] = last_axis(all[GAMMA]);
    all[GAMMA] = mx_broadcast_by(all[GAMMA], 4, (struct size[]){ b, size_of(k, 1), heads, d });
    if (!state)
        all[STATE] = mx_broadcast_by(array_of_int(0, wide), 4, (struct size[]){ b, heads, e, d });
    if (mask)
        all[MASK] = mx_astype(mask, DT_bool_);
    mx_infer_n(&op_gated_delta, &(struct gated_delta_args){ mask }, mask ? 7 : 6, all, 2, y);
    y[0] = mx_astype(y[0], t);
}
