/* delta.c: the linear attention of gated delta networks.
 *
 * The kernel runs through the steps with the state in the cache.  Derivatives come from a formula, a graph of a few
 * operations for some steps together. */
#include "ops/delta.h"

#include <stdlib.h>

#include "core/memory.h"
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

/* Are these what goes with k and v?  gamma has one number for each head, with n 4 along an axis of its own, or as many
 * as there are columns; state and mask may be NULL. */
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
           check_shape("gamma", x[GAMMA], n, (int[]){ b, t, heads, dim(x[GAMMA], 3) == 1 ? 1 : d }) &&
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

/* ---- the formula
 *
 * Steps come in chunks of c, within which what each writes into the state, d, follows from the state S before the
 * chunk.  With b_i what is left of S after step i, and l_ij what is left of step j's,
 *
 *     d_i = beta_i (v_i - S (b_i k_i) - sum over j < i of d_j (k_j l_ij k_i))
 *     y_i = S (b_i q_i) + sum over j <= i of d_j (k_j l_ij q_i)
 *
 * so with A_ij = beta_i (k_j l_ij k_i) and X = (1 + A)^-1, which all chunks have of their own,
 * d = X (beta v) - X (beta b k) S^T.  The chunks follow each other in products of matrices. */

enum { CHUNK = 32, WIDE_CHUNK = 8 }; /* WIDE: l has a number for each column, not one for all */

/* Step numbers i and j of a chunk for which `holds`, (c, c) bools. */
static mx pairs(int c, bool (*holds)(int i, int j, int size), int size)
{
    bool is[CHUNK * CHUNK];
    for (int i = 0; i < c; i++)
        for (int j = 0; j < c; j++) is[i * c + j] = holds(i, j, size);
    return array_of_data(DT_bool_, 2, (int[]){ c, c }, is);
}
static bool is_later(int i, int j, int size) { return (void)size, i > j; }
static bool is_not_earlier(int i, int j, int size) { return (void)size, i >= j; }
/* In the lower left quarter of a block of 2 size. */
static bool is_quarter(int i, int j, int size) { return i / (2 * size) == j / (2 * size) && i / size > j / size; }

static mx only_where(mx is, mx x) { return mx_where(is, x, zeros_of(x)); }
static mx turned(mx x) { return mx_swapaxes(x, -1, -2); }
static mx with_axis(mx x, int axis) { return mx_expand_dims(x, &axis, 1); }
static mx last_axis(mx x) { return with_axis(x, -1); }

/* (1 + A)^-1 of A below the diagonal: of blocks of one, then of two each. */
static mx inverse_of_unit(mx a, int c)
{
    mx x = mx_eye(c, c, 0, a->dtype);
    for (int size = 1; size < c; size *= 2)
        x = mx_subtract(x, mx_matmul(mx_matmul(x, only_where(pairs(c, is_quarter, size), a)), x));
    return x;
}

/* x (B, T, N, ...) as (chunks, B, N, c, ...), filled up with `value`. */
static mx in_chunks(mx x, int chunks, int c, double value)
{
    int high = chunks * c - dim(x, 1), axis = 1, low = 0, order[] = { 1, 0, 3, 2, 4 };
    if (high)
        x = mx_pad(x, &axis, 1, &low, &high, array_of_double(value, x->dtype), PAD_CONSTANT);
    return mx_transpose(mx_unflatten(x, 1, 2, (int[]){ chunks, c }), order, 5);
}

/* What goes through the chunks: of each X (beta v), X (beta b k), k as it is left at its end, and what is left of the
 * state; then d and the state before it. */
struct chunks {
    mx of[4], d, before;
};

/* Returns the last state. */
static mx run_chunks(struct chunks *all, int n, mx state)
{
    mx *room = mx_malloc(6 * (size_t)n * sizeof *room), *part[4] = { room }, s = with_axis(state, 0);
    if (!room)
        return all->d = all->before = MX_NIL;
    mx *d = room + 4 * n, *before = d + n;
    bool failed = false;
    for (int i = 0; i < 4 && !failed; i++) failed = mx_split(all->of[i], n, 0, part[i] = room + i * n) < 0;
    for (int m = 0; m < n && !failed; m++) {
        before[m] = s;
        d[m] = mx_subtract(part[0][m], mx_matmul(part[1][m], turned(s)));
        s = mx_add(mx_multiply(s, part[3][m]), mx_matmul(turned(d[m]), part[2][m]));
    }
    all->d = failed ? MX_NIL : mx_concatenate(n, d, 0);
    all->before = failed ? MX_NIL : mx_concatenate(n, before, 0);
    free(room);
    return failed ? MX_NIL : mx_squeeze(s, (int[]){ 0 }, 1);
}

static void compose_delta(const struct call *call, mx y[])
{
    const struct gated_delta_args *a = call->args;
    shapes_matter("gated_delta_update");
    mx v = call->x[V], gamma = call->x[GAMMA], beta = last_axis(call->x[BETA]), on = NULL;
    int steps = dim(v, 1), heads = dim(v, 2), each = heads / dim(call->x[K], 2);
    mx q = mx_repeat(call->x[Q], each, 2), k = mx_repeat(call->x[K], each, 2);
    bool wide = dim(gamma, 3) != 1;
    int most = wide ? WIDE_CHUNK : CHUNK, c = steps < most ? steps : most, chunks = c ? (steps + c - 1) / c : 0;
    y[0] = mx_zeros_like(v);
    y[1] = call->x[STATE];
    if (!chunks)
        return;
    if (a->mask) { /* a step that is left out keeps all and writes nothing, whatever its operands are */
        on = mx_reshape(call->x[MASK], 4, (int[]){ dim(v, 0), steps, 1, 1 });
        mx *all[] = { &q, &k, &v, &beta };
        for (int i = 0; i < 4; i++) *all[i] = only_where(on, *all[i]);
        gamma = mx_where(on, gamma, mx_scalar_like(1, gamma));
    }
    q = in_chunks(q, chunks, c, 0);
    k = in_chunks(k, chunks, c, 0);
    v = in_chunks(v, chunks, c, 0);
    beta = in_chunks(beta, chunks, c, 0);
    gamma = in_chunks(gamma, chunks, c, 1);
    /* What is left after step i of what step j wrote, and of the state before. */
    mx later = pairs(c, is_later, 0);
    mx one = mx_scalar_like(1, gamma), kk, qk, to_end;
    mx left = mx_scan(gamma, SCAN_PROD, -2, false, true);
    if (wide) {
        mx l = mx_scan(mx_where(last_axis(later), with_axis(gamma, -2), one), SCAN_PROD, -3, false, true);
        mx of_k = mx_multiply(l, with_axis(k, -3)); /* (..., i, j, D) */
        kk = mx_squeeze(mx_matmul(of_k, last_axis(k)), (int[]){ -1 }, 1);
        qk = mx_squeeze(mx_matmul(of_k, last_axis(q)), (int[]){ -1 }, 1);
        to_end = mx_squeeze(mx_slice_axis(of_k, -3, c - 1, c, 1), (int[]){ -3 }, 1);
    } else {
        mx l = mx_scan(mx_where(later, gamma, one), SCAN_PROD, -2, false, true);
        kk = mx_multiply(mx_matmul(k, turned(k)), l);
        qk = mx_multiply(mx_matmul(q, turned(k)), l);
        to_end = mx_multiply(turned(mx_slice_axis(l, -2, c - 1, c, 1)), k);
    }
    mx x = inverse_of_unit(mx_multiply(beta, only_where(later, kk)), c);
    mx from_v = mx_matmul(x, mx_multiply(beta, v)), from_k = mx_matmul(x, mx_multiply(beta, mx_multiply(left, k)));
    mx fade = mx_slice_axis(left, -2, c - 1, c, 1);
    struct chunks all = { .of = { from_v, from_k, to_end, fade } };
    y[1] = run_chunks(&all, chunks, call->x[STATE]);
    mx read = mx_matmul(mx_multiply(left, q), turned(all.before));
    mx out = mx_add(read, mx_matmul(only_where(pairs(c, is_not_earlier, 0), qk), all.d));
    out = mx_flatten(mx_transpose(out, (int[]){ 1, 0, 3, 2, 4 }, 5), 1, 2);
    out = mx_slice_axis(out, 1, 0, steps, 1);
    y[0] = on ? only_where(on, out) : out;
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
    if (!state)
        all[STATE] = mx_broadcast_by(array_of_int(0, wide), 4, (struct size[]){ b, heads, e, d });
    if (mask)
        all[MASK] = mx_astype(mask, DT_bool_);
    mx_infer_n(&op_gated_delta, &(struct gated_delta_args){ mask }, mask ? 7 : 6, all, 2, y);
    y[0] = mx_astype(y[0], t);
}
