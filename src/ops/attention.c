/* attention.c: scaled dot product attention.
 *
 * The kernels walk blocks of keys and never hold all scores; what they keep for the derivative are
 * the maximum and the sum of each row of weights.  Second derivatives, forward ones and those of
 * additive masks come from the formula, which does hold them. */
#include "ops/attention.h"

#include <float.h>

#include "core/scope.h"
#include "ops/composed.h"
#include "ops/rules.h"

static const struct field attention_args_fields[] = { FIELD(attention_args, scale),
                                                      FIELD(attention_args, causal),
                                                      FIELD(attention_args, mask),
                                                      FIELD(attention_args, sinks),
                                                      { 0 } };

static enum dtype wide_of(mx x) { return x->dtype == DT_float64 ? DT_float64 : DT_float32; }
static mx mask_of(const struct call *c) { return ((const struct attention_args *)c->args)->mask ? c->x[3] : NULL; }
static mx sinks_of(const struct call *c)
{
    const struct attention_args *a = c->args;
    return a->sinks ? c->x[a->mask ? 4 : 3] : NULL;
}
/* How many operands attention has; those of attention_vjp follow. */
static int operands(const struct attention_args *a) { return 3 + a->mask + a->sinks; }

/* Does x have the first n sizes of `like`, and then these two (the second -1: none)? */
static bool is_like(mx x, mx like, int n, int a, int b)
{
    bool fits = x->ndim == n + 1 + (b >= 0);
    for (int i = 0; fits && i < n; i++) fits = x->shape[i] == like->shape[i];
    return fits && x->shape[n] == a && (b < 0 || x->shape[n + 1] == b);
}

/* q (..., N, T, D), k (..., M, S, D), v (..., M, S, E), a mask (..., N, T, S), sinks (..., N). */
static bool operands_fit(const struct call *c)
{
    mx q = c->x[ATTENTION_Q], k = c->x[ATTENTION_K], v = c->x[ATTENTION_V], mask = mask_of(c), sinks = sinks_of(c);
    enum dtype t = q->dtype;
    int lead = q->ndim - 3; /* before the heads */
    bool fits = dtype_is_float(t) && k->dtype == t && v->dtype == t && lead >= 0 && k->ndim == q->ndim && dim(k, -3) &&
                dim(q, -3) % dim(k, -3) == 0 && is_like(v, k, lead + 1, dim(k, -2), dim(v, -1));
    for (int i = 0; fits && i < lead; i++) fits = q->shape[i] == k->shape[i];
    fits = fits && dim(q, -1) == dim(k, -1);
    if (fits && mask)
        fits = is_like(mask, q, lead + 1, dim(q, -2), dim(k, -2)) && (mask->dtype == t || mask->dtype == DT_bool_);
    if (fits && sinks)
        fits = is_like(sinks, q, lead, dim(q, -3), -1) && sinks->dtype == t;
    if (!fits)
        mx_fail("[%s] expected queries, keys, values and what belongs to them, got shapes %s, %s and %s", c->op->name,
                shape_of(q), shape_of(k), shape_of(v));
    return fits;
}

static int attention_shapes(const struct call *c, struct spec out[])
{
    mx q = c->x[ATTENTION_Q];
    if (!operands_fit(c))
        return 1;
    spec_like(&out[0], q);
    out[0].shape[q->ndim - 1] = dim(c->x[ATTENTION_V], -1);
    for (int i = 1; i < 3; i++) spec_set(&out[i], wide_of(q), q->ndim - 1, q->shape);
    return 0;
}

/* Then the result's cotangent, the result, and two numbers for each of its rows. */
static int attention_vjp_shapes(const struct call *c, struct spec out[])
{
    mx q = c->x[ATTENTION_Q];
    const mx *more = c->x + operands(c->args);
    if (!operands_fit(c))
        return 1;
    bool fits = true;
    for (int i = 0; i < 2; i++)
        fits = fits && more[i]->dtype == q->dtype && is_like(more[i], q, q->ndim - 1, dim(c->x[ATTENTION_V], -1), -1);
    for (int i = 2; i < 4; i++)
        fits = fits && more[i]->dtype == wide_of(q) && is_like(more[i], q, q->ndim - 2, dim(q, -2), -1);
    if (!fits)
        return failed(mx_fail("[%s] expected a cotangent, the result and two numbers of each of its rows for queries "
                              "of shape %s, got a cotangent of shape %s and a result of shape %s",
                              c->op->name, shape_of(q), shape_of(more[0]), shape_of(more[1])));
    for (int i = 0; i < 3; i++) spec_like(&out[i], c->x[i]);
    if (sinks_of(c))
        spec_like(&out[3], sinks_of(c));
    return 0;
}

/* ---- the formula */

/* x (..., N, T, D) as (..., M, N / M, T, D), where a group of heads shares one of the M keys. */
static mx grouped_heads(mx x, mx k, int group)
{
    struct size of_keys = group ? size_is(-1) : size_is(dim(k, -3)); /* without heads nothing says how many */
    return mx_unflatten_by(x, -3, 2, (struct size[]){ of_keys, size_is(group) });
}

/* In a graph for any shape an error where the axes but the last `kept` of x are not those of y: a product would
 * broadcast them. */
static void check_batch(mx x, mx y, int kept)
{
    static const int axes[] = { -3, -2, -1 };
    if (shapeless())
        mx_shape_checked(x, mx_broadcast_with(2, (mx[]){ x, y }, axes + 3 - kept, kept));
}

/* q k of the heads, and those together again. */
static mx by_heads(mx q, mx k, int group)
{
    check_batch(q, k, group == 1 ? 2 : 3);
    check_batch(k, q, group == 1 ? 2 : 3);
    if (group == 1)
        return mx_matmul(q, k);
    return mx_flatten(mx_matmul(grouped_heads(q, k, group), mx_expand_dims(k, (int[]){ -3 }, 1)), -4, -3);
}

/* May query i look at key j?  The last ones of both are at the same place. */
static mx not_ahead(mx q, mx k)
{
    struct size t = size_of(q, -2), s = size_of(k, -2);
    if (!t.of && !s.of)
        return mx_tri(t.now, s.now, s.now - t.now, DT_bool_);
    mx behind = mx_subtract(mx_count(k, k->ndim - 2, 1, DT_int64), mx_count(q, q->ndim - 2, 1, DT_int64));
    mx i = mx_expand_dims(mx_arange_by(1, &t, DT_int64), (int[]){ 1 }, 1);
    return mx_less_equal(mx_arange_by(1, &s, DT_int64), mx_add(i, behind));
}

static mx lowest(mx like) { return mx_scalar_like(like->dtype == DT_float64 ? -DBL_MAX : (double)-FLT_MAX, like); }

static void compose_attention(const struct call *c, mx y[])
{
    const struct attention_args *a = c->args;
    mx mask = mask_of(c), sinks = sinks_of(c), q = c->x[0];
    enum dtype wide = wide_of(q);
    mx k = mx_astype(c->x[1], wide), v = mx_astype(c->x[2], wide);
    int group = dim(q, -3) / dim(k, -3);
    if (group != 1) { /* which another number of heads would change */
        q = mx_size_checked(q, -3);
        k = mx_size_checked(k, -3);
        v = mx_size_checked(v, -3);
    }
    mx scaled = mx_multiply(mx_astype(q, wide), array_of_double(a->scale, wide));
    mx s = by_heads(scaled, mx_swapaxes(k, -1, -2), group);
    if (a->causal)
        s = mx_where(not_ahead(q, k), s, lowest(s));
    if (mask && mask->dtype == DT_bool_)
        s = mx_where(mask, s, lowest(s));
    else if (mask)
        s = mx_add(s, mx_astype(mask, wide));
    if (sinks) {
        struct size sizes[MX_MAX_NDIM];
        sizes[sizes_like(s, sizes) - 1] = size_is(1);
        mx first = mx_expand_dims(mx_astype(sinks, wide), (int[]){ -1, -2 }, 2);
        s = mx_concatenate(2, (mx[]){ mx_broadcast_by(first, s->ndim, sizes), s }, -1);
    }
    mx p = mx_softmax(s, (int[]){ -1 }, 1, true);
    if (sinks) {
        mx parts[2];
        if (mx_split_at(p, (int[]){ 1 }, 1, -1, parts) < 0)
            parts[1] = MX_NIL;
        p = parts[1];
    }
    y[0] = mx_astype(by_heads(p, v, group), q->dtype);
    struct size sizes[MX_MAX_NDIM];
    for (int i = 1, n = sizes_like(q, sizes) - 1; i < 3; i++) /* which nothing differentiates */
        y[i] = mx_broadcast_by(array_of_int(0, wide), n, sizes);
}

/* What attention_vjp does, without looking at what attention has kept for it. */
static void compose_attention_vjp(const struct call *c, mx y[])
{
    const struct attention_args *a = c->args;
    int n = operands(a);
    mx ct[] = { c->x[n], NULL, NULL }, dx[5] = { NULL };
    mx results[] = { c->x[n + 1], c->x[n + 2], c->x[n + 3] };
    struct call forward = { &op_attention, a, n, 3, c->x, results };
    composed_vjp(compose_attention, &forward, ct, (bool[]){ true, true, true, true, true }, dx);
    for (int i = 0; i < 3; i++) y[i] = dx[i] ? dx[i] : MX_NIL;
    if (a->sinks)
        y[3] = dx[n - 1] ? dx[n - 1] : MX_NIL;
}

/* ---- rules */

static void attention_node_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct attention_args *a = c->args;
    int n = operands(a);
    if (!ct[0])
        return;
    if (a->mask && want[3]) {
        composed_vjp(compose_attention, c, (mx[]){ ct[0], NULL, NULL }, want, dx);
        return;
    }
    mx in[9], out[4] = { NULL };
    for (int i = 0; i < n; i++) in[i] = c->x[i];
    in[n] = ct[0];
    for (int i = 0; i < 3; i++) in[n + 1 + i] = c->y[i];
    mx_infer_n(&op_attention_vjp, a, n + 4, in, 3 + a->sinks, out);
    for (int i = 0; i < 3; i++)
        if (want[i])
            dx[i] = out[i];
    if (a->sinks && want[n - 1])
        dx[n - 1] = out[3];
}

static void attention_node_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx all[3] = { NULL };
    composed_jvp(compose_attention, c, t, all);
    dy[0] = all[0];
}

static void attention_vjp_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    composed_vjp(compose_attention_vjp, c, ct, want, dx);
}

static void attention_vjp_jvp(const struct call *c, const mx t[], mx dy[])
{
    composed_jvp(compose_attention_vjp, c, t, dy);
}

/* One more axis in front of every operand. */
static void attention_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct size n = batch_size(c, axis);
    mx in[9];
    for (int i = 0; i < c->nin; i++) in[i] = batch_all(c->x[i], axis[i], n);
    mx_infer_n(c->op, c->args, c->nin, in, c->nout, y);
    for (int k = 0; k < c->nout; k++) yaxis[k] = 0;
}

static bool attention_fits(const struct call *c)
{
    const struct attention_args *a = c->args;
    return c->op == &op_attention ? call_has(c, operands(a), 3) : call_has(c, operands(a) + 4, 3 + a->sinks);
}

const struct op op_attention = {
    OP_ROW(attention),         ARGS(attention_args),   .shapes = attention_shapes,   .vjp = attention_node_vjp,
    .jvp = attention_node_jvp, .vmap = attention_vmap, .compose = compose_attention, .fits = attention_fits,
};
const struct op op_attention_vjp = {
    OP_ROW(attention_vjp),    ARGS(attention_args),   .shapes = attention_vjp_shapes,   .vjp = attention_vjp_vjp,
    .jvp = attention_vjp_jvp, .vmap = attention_vmap, .compose = compose_attention_vjp, .fits = attention_fits,
};

/* ---- builder */

#define NAME "scaled_dot_product_attention"

static bool shapes_fit(mx q, mx k, mx v)
{
    mx all[] = { q, k, v };
    for (int i = 0; i < 3; i++)
        if (all[i]->ndim != 4) {
            mx_fail("[" NAME "] expected queries, keys and values of 4 dimensions, got shape %s", shape_of(all[i]));
            return false;
        }
    bool fits = q->shape[0] == k->shape[0] && q->shape[0] == v->shape[0] && k->shape[1] == v->shape[1] &&
                k->shape[2] == v->shape[2] && q->shape[3] == k->shape[3] && k->shape[1] &&
                q->shape[1] % k->shape[1] == 0;
    if (!fits)
        mx_fail("[" NAME "] expected queries (B, N, T, D), keys (B, M, S, D) and values (B, M, S, "
                "E) with N a multiple of M, got shapes %s, %s and %s",
                shape_of(q), shape_of(k), shape_of(v));
    return fits;
}

/* The mask for every score. */
static mx whole_mask(mx mask, enum dtype t, const struct size *sizes)
{
    int scores[4];
    for (int i = 0; i < 4; i++) scores[i] = sizes[i].now;
    if (mask->ndim > 4)
        return mx_fail("[" NAME "] expected a mask of at most 4 dimensions, got shape %s", shape_of(mask));
    if (mask->dtype != DT_bool_ && promote(mask->dtype, t) != t)
        return mx_fail("[" NAME "] expected a mask of bool or of a type that %s holds, got %s", dtype_name(t),
                       dtype_name(mask->dtype));
    for (int i = 0; i < mask->ndim; i++) {
        int have = mask->shape[mask->ndim - 1 - i], need = scores[3 - i];
        if (have != need && have != 1)
            return mx_fail("[" NAME "] expected a mask that broadcasts to the scores of shape %s, "
                           "got shape %s",
                           shape_text(4, scores), shape_of(mask));
    }
    return mx_broadcast_by(mask->dtype == DT_bool_ ? mask : mx_astype(mask, t), 4, sizes);
}

mx mx_attention(mx q, mx k, mx v, double scale, bool causal, mx mask, mx sinks)
{
    if (is_nil(q) || is_nil(k) || is_nil(v) || (mask && is_nil(mask)) || (sinks && is_nil(sinks)))
        return MX_NIL;
    if (!shapes_fit(q, k, v))
        return MX_NIL;
    enum dtype t = promote(promote(q->dtype, k->dtype), v->dtype);
    if (!dtype_is_float(t))
        return mx_fail("[" NAME "] expected floating-point arrays, got %s", dtype_name(t));
    struct size scores[] = { size_of(q, 0), size_of(q, 1), size_of(q, 2), size_of(k, 2) };
    mx in[5] = { mx_astype(q, t), mx_astype(k, t), mx_astype(v, t) };
    int n = 3;
    if (mask && is_nil(in[n++] = whole_mask(mask, t, scores)))
        return MX_NIL;
    if (sinks) {
        if (sinks->ndim != 1 || dim(sinks, 0) != q->shape[1])
            return mx_fail("[" NAME "] expected one sink for each of the %d heads, got shape %s", q->shape[1],
                           shape_of(sinks));
        if (promote(sinks->dtype, t) != t)
            return mx_fail("[" NAME "] expected sinks of a type that %s holds, got %s", dtype_name(t),
                           dtype_name(sinks->dtype));
        in[n++] = mx_broadcast_by(mx_astype(sinks, t), 2, scores);
    }
    mx y[3];
    mx_infer_n(&op_attention, &(struct attention_args){ scale, causal, mask, sinks }, n, in, 3, y);
    return y[0];
}
