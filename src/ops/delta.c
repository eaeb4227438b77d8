/* delta.c: the linear attention of gated delta networks.
 *
 * The kernel runs through the steps with the state in the cache.  Derivatives come from the formula,
 * a graph of a few operations for each step. */
#include "ops/delta.h"

#include "core/scope.h"
#include "ops/rules.h"
#include "ops/composed.h"

static const struct field gated_delta_args_fields[] = { FIELD(gated_delta_args, mask), { 0 } };

enum { Q, K, V, GAMMA, BETA, STATE, MASK };

static int delta_shapes(const struct call *c, struct spec out[])
{
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
    int n = batch_size(c, axis), b = c->x[V]->shape[0];
    mx in[7];
    if (axis[V] == 0)
        b = c->x[V]->shape[1];
    for (int i = 0; i < c->nin; i++) in[i] = mx_flatten(batch_all(c->x[i], axis[i], n), 0, 1);
    mx_infer_n(c->op, c->args, c->nin, in, 2, y);
    for (int k = 0; k < 2; k++) {
        y[k] = mx_unflatten(y[k], 0, 2, (int[]){ n, b });
        yaxis[k] = 0;
    }
}

const struct op op_gated_delta = {
    OP_ROW(gated_delta), ARGS(gated_delta_args), .shapes = delta_shapes,
    .vjp = delta_vjp,    .jvp = delta_jvp,       .vmap = delta_vmap,
    .compose = compose_delta,
};

/* x of this shape, 0 for any size; fails otherwise. */
static bool has_shape(const char *what, mx x, int n, const int *shape)
{
    bool fits = x->ndim == n;
    for (int i = 0; fits && i < n; i++) fits = x->shape[i] == shape[i];
    if (!fits)
        mx_fail("[gated_delta_update] expected %s of shape %s, got %s", what, shape_text(n, shape), shape_of(x));
    return fits;
}

static bool delta_fits(mx q, mx k, mx v, mx gamma, mx beta, mx state, mx mask)
{
    if (k->ndim != 4 || v->ndim != 4 || !k->shape[2] || v->shape[2] % k->shape[2]) {
        mx_fail("[gated_delta_update] expected k of shape (B, T, H, D) and v of shape (B, T, N, E) with N a multiple "
                "of H, got %s and %s", shape_of(k), shape_of(v));
        return false;
    }
    int b = k->shape[0], t = k->shape[1], d = k->shape[3], heads = v->shape[2], e = v->shape[3];
    int n = gamma->ndim == 4 ? 4 : 3;
    return has_shape("q", q, 4, k->shape) && has_shape("v", v, 4, (int[]){ b, t, heads, e }) &&
           has_shape("gamma", gamma, n, (int[]){ b, t, heads, d }) &&
           has_shape("beta", beta, 3, (int[]){ b, t, heads }) &&
           (!state || has_shape("initial_state", state, 4, (int[]){ b, heads, e, d })) &&
           (!mask || has_shape("mask", mask, 2, (int[]){ b, t }));
}

void mx_gated_delta(mx q, mx k, mx v, mx gamma, mx beta, mx state, mx mask, mx y[2])
{
    mx all[] = { q, k, v, gamma, beta, state, mask };
    enum dtype t = promote(promote(q->dtype, k->dtype), v->dtype), wide;
    y[0] = y[1] = MX_NIL;
    for (int i = 0; i < 7; i++)
        if (all[i] && is_nil(all[i]))
            return;
    if (!delta_fits(q, k, v, gamma, beta, state, mask))
        return;
    for (int i = 0; i < 6; i++)
        if (all[i] && !dtype_is_float(all[i]->dtype)) {
            mx_fail("[gated_delta_update] expected floating-point arrays, got %s", dtype_name(all[i]->dtype));
            return;
        }
    wide = t == DT_float64 ? DT_float64 : DT_float32;
    int b = k->shape[0], d = k->shape[3], heads = v->shape[2], e = v->shape[3];
    for (int i = 0; i < 6; i++)
        if (all[i])
            all[i] = mx_astype(all[i], wide);
    if (gamma->ndim == 3)
        all[GAMMA] = last_axis(all[GAMMA]);
    all[GAMMA] = mx_broadcast_to(all[GAMMA], 4, (int[]){ b, k->shape[1], heads, d });
    if (!state)
        all[STATE] = mx_zeros(4, (int[]){ b, heads, e, d }, wide);
    if (mask)
        all[MASK] = mx_astype(mask, DT_bool_);
    mx_infer_n(&op_gated_delta, &(struct gated_delta_args){ mask }, mask ? 7 : 6, all, 2, y);
    y[0] = mx_astype(y[0], t);
}
