/* recurrent.c: recurrent layers: states that follow each other, as one operation.
 *
 * x, which holds what the gates get from inputs and biases at every step, is there before the first state.  With
 * s = W h of the state before, gates one below the other in x and in s:
 *
 *     RNN     h = tanh(x + s)
 *     GRU     r, z = sigmoid(x + s)   n = tanh(x_n + r (s_n + b))   h' = (1 - z) n + z h
 *     LSTM    i, f, o = sigmoid(x + s)   g = tanh(x_g + s_g)   c' = f c + i g   h' = o tanh(c')
 *
 * A further result, which is not computed if nobody holds it, is what the gates' functions take, and s_n + b of a GRU.
 * Going back, it and all states are known, so whatever does not depend on cotangents is computed for all steps at once.
 * What is left is linear, and an operation of its own (recurrent_back): with u the cotangent of h, v that of c, and
 * d that of the gates before their functions,
 *
 *     u = ct + W^T d' (+ keep' u' of a GRU)   v = ct_c + seen u + keep' v'   d = slope u, or slope v for i, f, g
 *
 * where ' is the step behind.  A LSTM has seen = o (1 - tanh(c)^2) and keep = f, a GRU keep = z. */
#include "ops/recurrent.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/scope.h"
#include "core/stream.h"
#include "ops/composed.h"
#include "ops/rules.h"

static const struct field recurrent_args_fields[] = { ENUM(recurrent_args, kind, RECURRENT_LSTM),
                                                      FIELD(recurrent_args, bias),
                                                      FIELD(recurrent_args, hidden),
                                                      FIELD(recurrent_args, cell),
                                                      { 0 } };
static const struct field recurrent_back_args_fields[] = { ENUM(recurrent_back_args, kind, RECURRENT_LSTM), { 0 } };

enum { GATES = 4, OPERANDS = 6 };

static enum dtype wide_of(mx x) { return x->dtype == DT_float64 ? DT_float64 : DT_float32; }
static enum dtype wide_if_float(mx x) { return dtype_is_float(x->dtype) ? wide_of(x) : (enum dtype)x->dtype; }
static mx one_minus(mx x) { return mx_subtract(mx_scalar_like(1, x), x); }
/* The derivative of tanh at x, which is small where tanh(x)^2 is 1 but for rounding. */
static mx tanh_slope(mx x)
{
    return mx_multiply(mx_scalar_like(4, x), mx_sigmoid_slope(mx_multiply(mx_scalar_like(2, x), x)));
}
static mx turned(mx x) { return mx_swapaxes(x, -1, -2); }
static mx with_axis(mx x, int axis) { return mx_expand_dims(x, &axis, 1); }

/* The operands of a call by what they are; NULL: there is none.  Axes in front of their own, of all of them, are of a
 * batch of calls. */
struct layer {
    mx x, w, bias, hidden, cell;
};
static struct layer layer_of(const struct recurrent_args *a, const mx in[])
{
    struct layer l = { in[0], in[1], NULL, NULL, NULL };
    int i = 2;
    l.bias = a->bias ? in[i++] : NULL;
    l.hidden = a->hidden ? in[i++] : NULL;
    l.cell = a->cell ? in[i++] : NULL;
    return l;
}

/* The steps of x, whose last axis but one they are; false after a failure. */
static bool steps_of(mx x, int steps, mx out[])
{
    if (mx_split(x, steps, -2, out) < 0)
        return false;
    for (int t = 0; t < steps; t++) out[t] = mx_squeeze(out[t], (int[]){ -2 }, 1);
    return true;
}

/* Zero steps of `width` numbers, in place of those of x. */
static mx no_steps(mx x, int width)
{
    int shape[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
    shape[x->ndim - 1] = width;
    return mx_zeros(x->ndim, shape, x->dtype);
}

/* ---- step by step, in other operations */

/* Each gives what the gates' functions take, too, in *pre: of a GRU's candidate what r is multiplied with. */
static void step_of_tanh(mx x, mx wt, mx *hidden, mx *pre)
{
    *pre = *hidden ? mx_add(x, mx_matmul(*hidden, wt)) : x;
    *hidden = mx_tanh(*pre);
}

static void step_of_gru(const struct layer *l, mx x, mx wt, mx *hidden, mx *pre)
{
    mx of_x[GATES], of_h[GATES] = { NULL }, at_r, at_z, n;
    if (mx_split(x, 3, -1, of_x) < 0 || (*hidden && mx_split(mx_matmul(*hidden, wt), 3, -1, of_h) < 0)) {
        *hidden = *pre = MX_NIL;
        return;
    }
    if (l->bias) {
        mx b = l->bias->ndim > 1 ? with_axis(l->bias, -2) : l->bias;
        of_h[2] = mx_broadcast_like(of_h[2] ? mx_add(of_h[2], b) : b, of_x[2]);
    }
    at_r = of_h[0] ? mx_add(of_x[0], of_h[0]) : of_x[0];
    at_z = of_h[1] ? mx_add(of_x[1], of_h[1]) : of_x[1];
    *pre = mx_concatenate(3, (mx[]){ at_r, at_z, of_h[2] ? of_h[2] : zeros_of(of_x[2]) }, -1);
    n = mx_tanh(of_h[2] ? mx_add(of_x[2], mx_multiply(mx_sigmoid(at_r), of_h[2])) : of_x[2]);
    mx z = mx_sigmoid(at_z);
    n = mx_multiply(one_minus(z), n);
    *hidden = *hidden ? mx_add(n, mx_multiply(z, *hidden)) : n;
}

static void step_of_lstm(mx x, mx wt, mx *hidden, mx *cell, mx *pre)
{
    mx g[GATES];
    *pre = *hidden ? mx_addmm(x, *hidden, wt, 1, 1) : x;
    if (mx_split(*pre, 4, -1, g) < 0) {
        *hidden = *cell = MX_NIL;
        return;
    }
    mx written = mx_multiply(mx_sigmoid(g[0]), mx_tanh(g[2]));
    *cell = *cell ? mx_add(mx_multiply(mx_sigmoid(g[1]), *cell), written) : written;
    *hidden = mx_multiply(mx_sigmoid(g[3]), mx_tanh(*cell));
}

/* How many states a unit has; as a result, what the gates take comes behind them. */
static int states_of(unsigned kind) { return 1 + (kind == RECURRENT_LSTM); }

static void by_steps(unsigned kind, const struct layer *l, mx y[3])
{
    int steps = dim(l->x, -2), states = states_of(kind);
    shapes_matter("recurrent layers, which are one step after the other");
    for (int k = 0; k <= states; k++)
        y[k] = steps ? MX_NIL : no_steps(l->x, k < states ? dim(l->w, -1) : dim(l->x, -1));
    mx *x = steps ? mx_malloc(4 * (size_t)steps * sizeof *x) : NULL;
    if (x && steps_of(l->x, steps, x)) {
        mx *all[] = { x + steps, x + 2 * steps, x + 3 * steps }, hidden = l->hidden, cell = l->cell, pre = NULL;
        mx wt = turned(l->w);
        for (int t = 0; t < steps; t++) {
            switch (kind) {
            case RECURRENT_TANH: step_of_tanh(x[t], wt, &hidden, &pre); break;
            case RECURRENT_GRU: step_of_gru(l, x[t], wt, &hidden, &pre); break;
            default: step_of_lstm(x[t], wt, &hidden, &cell, &pre);
            }
            all[0][t] = hidden;
            all[states - 1][t] = states > 1 ? cell : hidden;
            all[states][t] = pre;
        }
        for (int k = 0; k <= states; k++) y[k] = mx_stack(steps, all[k], -2);
    }
    y[states] = mx_astype(y[states], wide_if_float(y[states]));
    free(x);
}

static void compose_recurrent(const struct call *c, mx y[])
{
    const struct recurrent_args *a = c->args;
    struct layer l = layer_of(a, c->x);
    by_steps(a->kind, &l, y);
}

/* ---- back through the steps */

struct back {
    mx w, ct, slope, ct_cell, seen, keep;
};
static struct back back_of(unsigned kind, const mx in[])
{
    struct back b = { in[0], in[1], in[2], NULL, NULL, NULL };
    if (kind == RECURRENT_GRU)
        b.keep = in[3];
    if (kind == RECURRENT_LSTM)
        b.ct_cell = in[3], b.seen = in[4], b.keep = in[5];
    return b;
}
static int back_operands(unsigned kind) { return kind == RECURRENT_LSTM ? 6 : kind == RECURRENT_GRU ? 4 : 3; }
static int back_results(unsigned kind) { return 1 + (kind != RECURRENT_TANH); }

static void back_by_steps(unsigned kind, const struct back *b, mx y[])
{
    int steps = dim(b->ct, -2), nout = back_results(kind);
    shapes_matter("recurrent layers, which are one step after the other");
    for (int k = 0; k < nout; k++) y[k] = steps ? MX_NIL : mx_zeros_like(k ? b->ct : b->slope);
    mx of[OPERANDS] = { b->ct, b->slope, b->ct_cell, b->seen, b->keep }, *part[OPERANDS] = { NULL };
    mx *room = steps ? mx_malloc(7 * (size_t)steps * sizeof *room) : NULL;
    bool good = room != NULL;
    for (int i = 0; i < 5 && good; i++)
        if (of[i])
            good = steps_of(of[i], steps, part[i] = room + i * steps);
    if (good) {
        mx *d = room + 5 * steps, *kept = d + steps;
        for (int t = steps - 1; t >= 0; t--) {
            bool last = t == steps - 1;
            mx u = last ? part[0][t] : mx_add(part[0][t], mx_matmul(d[t + 1], b->w)), v = u;
            if (kind == RECURRENT_LSTM)
                v = mx_add(part[2][t], mx_multiply(u, part[3][t]));
            if (kind != RECURRENT_TANH && !last)
                v = mx_add(v, mx_multiply(part[4][t + 1], kept[t + 1]));
            mx all[GATES] = { v, v, v, u };
            kept[t] = v;
            d[t] = kind == RECURRENT_TANH ? u : mx_concatenate(recurrent_gates(kind), all, -1);
            d[t] = mx_multiply(d[t], part[1][t]);
        }
        y[0] = mx_stack(steps, d, -2);
        if (nout > 1)
            y[1] = mx_stack(steps, kept, -2);
    }
    free(room);
}

static void compose_recurrent_back(const struct call *c, mx y[])
{
    const struct recurrent_back_args *a = c->args;
    struct back b = back_of(a->kind, c->x);
    back_by_steps(a->kind, &b, y);
}

/* The states before each step: the first, or 0, and all but the last. */
static mx states_before(mx first, mx states)
{
    mx start = first ? with_axis(first, 1) : zeros_of(mx_slice_axis(states, 1, 0, 1, 1));
    return mx_concatenate(2, (mx[]){ start, mx_slice_axis(states, 1, 0, dim(states, 1) - 1, 1) }, 1);
}

static mx first_step(mx x) { return mx_squeeze(mx_slice_axis(x, 1, 0, 1, 1), (int[]){ 1 }, 1); }

/* All steps at once: what recurrent_back needs but for cotangents, from states before each step and after it; of a GRU
 * also the derivative of a state by its candidate's argument. */
static mx slopes_of(unsigned kind, const struct layer *l, const mx before[], const mx y[], struct back *b)
{
    mx pre = y[states_of(kind)], at[GATES], of_x[GATES];
    int gates = recurrent_gates(kind);
    if (kind == RECURRENT_TANH) {
        b->slope = tanh_slope(pre);
        return NULL;
    }
    if (mx_split(pre, gates, -1, at) < 0)
        return NULL;
    if (kind == RECURRENT_LSTM) {
        b->seen = mx_multiply(mx_sigmoid(at[3]), tanh_slope(y[1]));
        b->keep = mx_sigmoid(at[1]);
        mx slopes[] = { mx_multiply(mx_tanh(at[2]), mx_sigmoid_slope(at[0])),
                        mx_multiply(before[1], mx_sigmoid_slope(at[1])),
                        mx_multiply(mx_sigmoid(at[0]), tanh_slope(at[2])),
                        mx_multiply(mx_tanh(y[1]), mx_sigmoid_slope(at[3])) };
        b->slope = mx_concatenate(gates, slopes, -1);
        return NULL;
    }
    if (mx_split(l->x, gates, -1, of_x) < 0)
        return NULL;
    mx r = mx_sigmoid(at[0]), at_n = mx_add(of_x[2], mx_multiply(r, at[2]));
    b->keep = mx_sigmoid(at[1]);
    mx by_n = mx_multiply(one_minus(b->keep), tanh_slope(at_n));
    mx slopes[] = { mx_multiply(mx_multiply(by_n, at[2]), mx_sigmoid_slope(at[0])),
                    mx_multiply(mx_subtract(before[0], mx_tanh(at_n)), mx_sigmoid_slope(at[1])), mx_multiply(by_n, r) };
    b->slope = mx_concatenate(gates, slopes, -1);
    return by_n;
}

static void recurrent_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct recurrent_args *a = c->args;
    enum dtype t = wide_of(c->x[0]), own = c->x[0]->dtype;
    bool lstm = a->kind == RECURRENT_LSTM, gru = a->kind == RECURRENT_GRU;
    int states = states_of(a->kind);
    mx in[OPERANDS], y[3], before[2] = { NULL }, out[2], of_d[GATES];
    if (dim(c->x[0], 1) == 0)
        return;
    if (ct[states]) { /* of a derivative, which has looked at what the gates take */
        composed_vjp(compose_recurrent, c, ct, want, dx);
        return;
    }
    for (int i = 0; i < c->nin; i++) in[i] = mx_astype(c->x[i], t);
    struct layer l = layer_of(a, in);
    struct back b = { .w = l.w, .ct = mx_astype(or_zeros(ct[0], c->y[0]), t) };
    for (int k = 0; k <= states; k++) y[k] = mx_astype(c->y[k], t);
    for (int k = 0; k < states; k++) before[k] = states_before(k ? l.cell : l.hidden, y[k]);
    b.ct_cell = lstm ? mx_astype(or_zeros(ct[1], c->y[1]), t) : NULL;
    mx by_n = slopes_of(a->kind, &l, before, y, &b), all[] = { b.w, b.ct, b.slope, b.ct_cell, b.seen, b.keep };
    int n = 0, at = 2;
    for (int i = 0; i < OPERANDS; i++)
        if (all[i])
            in[n++] = all[i];
    mx_infer_n(&op_recurrent_back, &(struct recurrent_back_args){ a->kind }, n, in, back_results(a->kind), out);

    mx d = out[0];
    if (gru && mx_split(d, 3, -1, of_d) < 0)
        return;
    if (want[0])
        dx[0] = gru ? mx_concatenate(3, (mx[]){ of_d[0], of_d[1], mx_multiply(out[1], by_n) }, -1) : d;
    if (want[1])
        dx[1] = mx_matmul(turned(mx_flatten(d, 0, 1)), mx_flatten(before[0], 0, 1));
    if (a->bias && want[at])
        dx[at] = mx_sum(of_d[2], (int[]){ 0, 1 }, 2, false);
    at += a->bias;
    mx kept = a->kind != RECURRENT_TANH ? mx_multiply(first_step(b.keep), first_step(out[1])) : NULL;
    if (a->hidden && want[at]) {
        dx[at] = mx_matmul(first_step(d), l.w);
        dx[at] = gru ? mx_add(dx[at], kept) : dx[at];
    }
    at += a->hidden;
    if (a->cell && want[at])
        dx[at] = kept;
    for (int i = 0; i < c->nin; i++)
        if (want[i])
            dx[i] = mx_astype(dx[i], own);
}

static void recurrent_jvp(const struct call *c, const mx t[], mx dy[]) { composed_jvp(compose_recurrent, c, t, dy); }

static void recurrent_back_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    composed_vjp(compose_recurrent_back, c, ct, want, dx);
}

static void recurrent_back_jvp(const struct call *c, const mx t[], mx dy[])
{
    composed_jvp(compose_recurrent_back, c, t, dy);
}

/* Calls that have the same of what is `shared`, weights and biases, are one call of more sequences. */
static void more_sequences(const struct call *c, const int axis[], const bool shared[], mx y[], int yaxis[])
{
    int of = shared[0] ? 1 : 0; /* an operand that has sequences */
    struct size n = batch_size(c, axis), two[] = { n, size_of(c->x[of], axis[of] == 0) };
    mx in[OPERANDS];
    for (int i = 0; i < c->nin; i++) in[i] = shared[i] ? c->x[i] : mx_flatten(batch_all(c->x[i], axis[i], n), 0, 1);
    mx_infer_n(c->op, c->args, c->nin, in, c->nout, y);
    for (int k = 0; k < c->nout; k++) {
        y[k] = mx_unflatten_by(y[k], 0, 2, two);
        yaxis[k] = 0;
    }
}

/* Else they go step by step. */
static void each_by_itself(const struct call *c, const int axis[], compose_fn *compose, mx y[], int yaxis[])
{
    struct size n = batch_size(c, axis);
    mx in[OPERANDS];
    for (int i = 0; i < c->nin; i++) in[i] = batch_all(c->x[i], axis[i], n);
    struct call all = *c;
    all.x = in;
    compose(&all, y);
    for (int k = 0; k < c->nout; k++) yaxis[k] = 0;
}

static void recurrent_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct recurrent_args *a = c->args;
    bool shared[OPERANDS] = { false, true, a->bias };
    if (axis[1] < 0 && (!a->bias || axis[2] < 0))
        more_sequences(c, axis, shared, y, yaxis);
    else
        each_by_itself(c, axis, compose_recurrent, y, yaxis);
}

static void recurrent_back_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    bool shared[OPERANDS] = { true };
    if (axis[0] < 0)
        more_sequences(c, axis, shared, y, yaxis);
    else
        each_by_itself(c, axis, compose_recurrent_back, y, yaxis);
}

/* Has x these sizes? */
static bool has_sizes(mx x, int ndim, int a, int b, int last)
{
    return shape_is(x, ndim, ndim == 3 ? (int[]){ a, b, last } : ndim == 2 ? (int[]){ a, last } : (int[]){ last });
}

static bool has_weights(unsigned kind, mx w)
{
    return w->ndim == 2 && dim(w, 0) == (int64_t)recurrent_gates(kind) * dim(w, 1);
}

static int recurrent_shapes(const struct call *c, struct spec out[])
{
    const struct recurrent_args *a = c->args;
    struct layer l = layer_of(a, c->x);
    int gates = recurrent_gates(a->kind), b = dim(l.x, 0), width = dim(l.w, -1), state[] = { b, dim(l.x, -2), width };
    int states = states_of(a->kind);
    if (l.x->ndim != 3 || !has_weights(a->kind, l.w) || dim(l.x, 2) != dim(l.w, 0))
        return failed(mx_fail("[recurrent] expected x (sequences, steps, %d units) and weights (%d units, units), got "
                              "shapes %s and %s",
                              gates, gates, shape_of(l.x), shape_of(l.w)));
    mx rest[] = { l.bias, l.hidden, l.cell };
    for (int i = 0; i < 3; i++)
        if (rest[i] && !has_sizes(rest[i], i ? 2 : 1, b, 0, width))
            return failed(
                mx_fail("[recurrent] expected a bias (units) and states (sequences, units) for x of shape %s, "
                        "got shape %s",
                        shape_of(l.x), shape_of(rest[i])));
    for (int k = 0; k < states; k++) spec_set(&out[k], l.x->dtype, 3, state);
    return spec_set(&out[states], wide_of(l.x), 3, l.x->shape);
}

static bool recurrent_fits(const struct call *c)
{
    const struct recurrent_args *a = c->args;
    return call_has(c, 2 + a->bias + a->hidden + a->cell, states_of(a->kind) + 1) &&
           (!a->bias || a->kind == RECURRENT_GRU) && (!a->cell || a->kind == RECURRENT_LSTM) &&
           dtype_is_float(c->x[0]->dtype) && one_dtype(c, c->nin);
}

const struct op op_recurrent = {
    OP_ROW(recurrent),    ARGS(recurrent_args),   .shapes = recurrent_shapes,   .vjp = recurrent_vjp,
    .jvp = recurrent_jvp, .vmap = recurrent_vmap, .compose = compose_recurrent, .fits = recurrent_fits,
};

static int recurrent_back_shapes(const struct call *c, struct spec out[])
{
    const struct recurrent_back_args *a = c->args;
    mx w = c->x[0], ct = c->x[1];
    int gates = recurrent_gates(a->kind), b = dim(ct, 0), steps = dim(ct, -2), width = dim(w, -1);
    bool good = has_weights(a->kind, w) && ct->ndim == 3;
    for (int i = 1; i < c->nin && good; i++) good = has_sizes(c->x[i], 3, b, steps, i == 2 ? gates * width : width);
    if (!good)
        return failed(mx_fail("[recurrent_back] expected weights (%d units, units) and cotangents (sequences, steps, "
                              "units), got shapes %s and %s",
                              gates, shape_of(w), shape_of(ct)));
    spec_like(&out[0], c->x[2]);
    return c->nout > 1 ? spec_like(&out[1], ct) : 0;
}

static bool recurrent_back_fits(const struct call *c)
{
    const struct recurrent_back_args *a = c->args;
    return call_has(c, back_operands(a->kind), back_results(a->kind)) && one_dtype(c, c->nin) &&
           (c->x[0]->dtype == DT_float32 || c->x[0]->dtype == DT_float64);
}

const struct op op_recurrent_back = {
    OP_ROW(recurrent_back),
    ARGS(recurrent_back_args),
    .shapes = recurrent_back_shapes,
    .vjp = recurrent_back_vjp,
    .jvp = recurrent_back_jvp,
    .vmap = recurrent_back_vmap,
    .compose = compose_recurrent_back,
    .fits = recurrent_back_fits,
};

/* ---- the builder */

static int kind_named(const char *name)
{
    static const char *const names[] = { [RECURRENT_TANH] = "rnn", [RECURRENT_GRU] = "gru", [RECURRENT_LSTM] = "lstm" };
    for (int i = 0; i <= RECURRENT_LSTM; i++)
        if (!strcmp(name, names[i]))
            return i;
    mx_fail("[recurrent] expected a kind 'rnn', 'gru' or 'lstm', got '%s'", name);
    return -1;
}

/* The axes of sequences: those of x but for two and of each state but for one, broadcast; their number or -1. */
static int sequence_axes(const struct layer *l, int shape[])
{
    mx of[] = { l->x, l->hidden, l->cell };
    int n = l->x->ndim - 2;
    for (int i = 1; i < 3; i++)
        if (of[i])
            n = of[i]->ndim - 1 > n ? of[i]->ndim - 1 : n;
    for (int d = 0; d < n; d++) {
        shape[d] = 1;
        for (int i = 0; i < 3; i++) {
            int at = of[i] ? d - n + of[i]->ndim - (i ? 1 : 2) : -1, size = at < 0 ? 1 : of[i]->shape[at];
            if (size != 1 && shape[d] != 1 && size != shape[d]) {
                mx_fail("[recurrent] expected states whose shape goes with x of shape %s, got shape %s", shape_of(l->x),
                        shape_of(of[i]));
                return -1;
            }
            shape[d] = size == 1 ? shape[d] : size;
        }
    }
    return n;
}

static bool layer_fits(unsigned kind, const struct layer *l)
{
    int gates = recurrent_gates(kind), width = dim(l->w, -1);
    if (l->x->ndim < 2 || !has_weights(kind, l->w) || dim(l->x, -1) != dim(l->w, 0)) {
        mx_fail("[recurrent] expected x (..., steps, %d units) and weights (%d units, units), got shapes %s and %s",
                gates, gates, shape_of(l->x), shape_of(l->w));
        return false;
    }
    if ((l->bias && kind != RECURRENT_GRU) || (l->cell && kind != RECURRENT_LSTM)) {
        mx_fail("[recurrent] expected a bias for 'gru' and a cell for 'lstm' alone");
        return false;
    }
    if (l->bias && !has_sizes(l->bias, 1, 0, 0, width)) {
        mx_fail("[recurrent] expected a bias of shape (%d,), got shape %s", width, shape_of(l->bias));
        return false;
    }
    mx states[] = { l->hidden, l->cell };
    for (int i = 0; i < 2; i++)
        if (states[i] && (states[i]->ndim == 0 || dim(states[i], -1) != width)) {
            mx_fail("[recurrent] expected states of shape (..., %d), got shape %s", width, shape_of(states[i]));
            return false;
        }
    return true;
}

/* x, its own axes being the last `own`, with n axes of these sizes as one in front. */
static mx one_axis_in_front(mx x, int own, int n, const int *shape, int all)
{
    int full[MX_MAX_NDIM], flat[3] = { all };
    for (int i = 0; i < n; i++) full[i] = shape[i];
    for (int i = 0; i < own; i++) full[n + i] = flat[1 + i] = dim(x, i - own);
    if (!shape_is(x, n + own, full))
        x = mx_broadcast_to(x, n + own, full);
    return n == 1 ? x : mx_reshape(x, 1 + own, flat);
}

/* Is it better made of other operations?  Complex numbers have no kernel, and on a GPU products of so much work a step
 * are faster than those of the kernel for few sequences. */
static bool is_composed(const struct layer *l)
{
    static const int64_t most = 1 << 27; /* multiplications */
    if (dtype_is_complex(l->x->dtype))
        return true;
    return scope_stream()->device.type == DEVICE_GPU && (double)dim(l->x, 0) * (double)l->w->size > (double)most;
}

void mx_recurrent(const char *name, mx x, mx w, mx bias, mx hidden, mx cell, mx y[2])
{
    mx *all[] = { &x, &w, &bias, &hidden, &cell };
    enum dtype t = promote(x->dtype, w->dtype);
    y[0] = y[1] = MX_NIL;
    for (int i = 0; i < 5; i++) {
        if (*all[i] && is_nil(*all[i]))
            return;
        t = *all[i] ? promote(t, (*all[i])->dtype) : t;
    }
    mx out[3] = { MX_NIL, MX_NIL };
    int kind = kind_named(name), shape[MX_MAX_NDIM + 3], n;
    struct layer l = { x, w, bias, hidden, cell };
    if (kind < 0 || !layer_fits((unsigned)kind, &l) || (n = sequence_axes(&l, shape)) < 0)
        return;
    if (n > MX_MAX_NDIM - 2) {
        mx_fail("[recurrent] expected at most %d dimensions, got %d", MX_MAX_NDIM, n + 2);
        return;
    }
    shapes_matter("recurrent layers, which are one step after the other");
    t = dtype_is_float(t) || dtype_is_complex(t) ? t : DT_float32;
    int64_t sequences = shape_size("recurrent", n, shape);
    int steps = dim(x, -2), width = dim(w, 1), count = sequences < 0 ? -1 : dim_of("recurrent", sequences), nin = 2;
    if (count < 0)
        return;
    for (int i = 0; i < 5; i++)
        if (*all[i])
            *all[i] = mx_astype(*all[i], t);
    l = (struct layer){ one_axis_in_front(x, 2, n, shape, count), w, bias, NULL, NULL };
    l.hidden = hidden ? one_axis_in_front(hidden, 1, n, shape, count) : NULL;
    l.cell = cell ? one_axis_in_front(cell, 1, n, shape, count) : NULL;
    mx in[OPERANDS] = { l.x, l.w }, rest[] = { l.bias, l.hidden, l.cell };
    for (int i = 0; i < 3; i++)
        if (rest[i])
            in[nin++] = rest[i];
    struct recurrent_args a = { (unsigned)kind, bias, hidden, cell };
    if (is_composed(&l))
        by_steps((unsigned)kind, &l, out);
    else
        mx_infer_n(&op_recurrent, &a, nin, in, states_of((unsigned)kind) + 1, out);
    shape[n] = steps;
    shape[n + 1] = width;
    for (int k = 0; k < states_of((unsigned)kind); k++) y[k] = n == 1 ? out[k] : mx_reshape(out[k], n + 2, shape);
}
