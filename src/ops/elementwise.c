/* elementwise.c: operations that work element by element, and what is composed of them.
 *
 * An op states once how its result moves as an operand does, as a partial: dy/dx_i times t.  The family
 * turns it into vjp (with t the cotangent), jvp (the sum over operands, with t their tangents) and vmap;
 * broadcasting is an op of its own, so operands of a node always have the shape of its result. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "ops/rules.h"

/* ---- partials */

#define PARTIAL(name)                                                                       \
    static mx d_##name(int i __attribute__((unused)), const mx x[] __attribute__((unused)), \
                       mx y __attribute__((unused)), mx t)

static mx scalar(double v, mx like) { return mx_scalar_like(v, like); }
static mx one_minus(mx x) { return mx_subtract(scalar(1, x), x); }
static mx one_plus(mx x) { return mx_add(scalar(1, x), x); }
static mx times(double v, mx x) { return mx_multiply(scalar(v, x), x); }
static mx turned(mx z) { return mx_multiply(array_of_complex(0, 1, DT_complex64), z); } /* i z */
/* Half types in float32, where a formula would lose too much between its steps; what is made of it is
 * rounded once, at its end. */
static mx wide(mx x) { return dtype_is_half(x->dtype) ? mx_astype(x, DT_float32) : x; }

/* t / sqrt(a b) */
static mx over_roots(mx t, mx a, mx b) { return mx_multiply(mx_multiply(t, mx_rsqrt(a)), mx_rsqrt(b)); }

/* t / (1 + x^2), where neither the square overflows nor, of complex numbers, the sum cancels. */
static mx over_one_plus_square(mx t, mx x)
{
    if (dtype_is_complex(x->dtype))
        return mx_divide(mx_divide(t, one_plus(turned(x))), one_minus(turned(x)));
    mx h = mx_hypot(scalar(1, x), x);
    return mx_divide(mx_divide(t, h), h);
}

/* t s(x) s(-x) with the sigmoid s, which 1 - s(x) for the second would lose right of zero. */
static mx times_sigmoid_slope(mx t, mx x)
{
    return dtype_is_complex(x->dtype) ? mx_multiply(mx_multiply(t, mx_sigmoid(x)), mx_sigmoid(mx_negative(x)))
                                      : mx_multiply(t, mx_sigmoid_slope(x));
}

/* t (1 - tanh(x)^2) */
static mx times_tanh_slope(mx t, mx x) { return times(4, times_sigmoid_slope(t, times(2, x))); }

/* A slope that may be far too large or small for its type meets t before it is whole: t is divided by each
 * factor in turn, where a reciprocal or a square alone would overflow. */
PARTIAL(abs)
{
    mx s = mx_sign(x[0]);
    return mx_multiply(t, dtype_is_complex(s->dtype) ? mx_conjugate(s) : s);
}
/* clang-format off */
PARTIAL(negative)   { return mx_negative(t); }
PARTIAL(square)     { return times(2, mx_multiply(t, x[0])); }
PARTIAL(sqrt)       { return mx_divide(t, times(2, y)); }
PARTIAL(rsqrt)      { return mx_divide(mx_multiply(times(-0.5, t), y), x[0]); }
PARTIAL(exp)        { return mx_multiply(t, y); }
PARTIAL(expm1)      { return mx_multiply(t, mx_exp(x[0])); }
PARTIAL(log)        { return mx_divide(t, x[0]); }
PARTIAL(log2)       { return mx_divide(times(M_LOG2E, t), x[0]); }
PARTIAL(log10)      { return mx_divide(times(M_LOG10E, t), x[0]); }
PARTIAL(log1p)      { return mx_divide(t, one_plus(x[0])); }
PARTIAL(sin)        { return mx_multiply(t, mx_cos(x[0])); }
PARTIAL(cos)        { return mx_negative(mx_multiply(t, mx_sin(x[0]))); }
PARTIAL(tan)
{
    return dtype_is_complex(y->dtype) ? times_tanh_slope(t, turned(x[0]))
                                      : mx_add(t, mx_multiply(mx_multiply(t, y), y));
}
PARTIAL(arcsin)     { return over_roots(t, one_minus(x[0]), one_plus(x[0])); }
PARTIAL(arccos)     { return mx_negative(over_roots(t, one_minus(x[0]), one_plus(x[0]))); }
PARTIAL(arctan)     { return over_one_plus_square(t, x[0]); }
PARTIAL(sinh)       { return mx_multiply(t, mx_cosh(x[0])); }
PARTIAL(cosh)       { return mx_multiply(t, mx_sinh(x[0])); }
PARTIAL(tanh)       { return times_tanh_slope(t, x[0]); }
PARTIAL(arcsinh)
{
    return dtype_is_complex(y->dtype) ? over_roots(t, one_plus(turned(x[0])), one_minus(turned(x[0])))
                                      : mx_divide(t, mx_hypot(scalar(1, y), x[0]));
}
PARTIAL(arccosh)    { return over_roots(t, mx_subtract(x[0], scalar(1, y)), one_plus(x[0])); }
PARTIAL(arctanh)    { return mx_divide(mx_divide(t, one_minus(x[0])), one_plus(x[0])); }
PARTIAL(erf)        { return mx_multiply(times(M_2_SQRTPI, wide(t)), mx_exp(mx_negative(mx_square(wide(x[0]))))); }
PARTIAL(erfinv)     { return mx_multiply(times(1 / M_2_SQRTPI, wide(t)), mx_exp(mx_square(wide(y)))); }
PARTIAL(sigmoid)    { return times_sigmoid_slope(t, x[0]); }
PARTIAL(sigmoid_slope) { return mx_negative(mx_multiply(mx_multiply(t, y), mx_tanh(times(0.5, x[0])))); }
PARTIAL(silu)       { return mx_multiply(t, mx_silu_slope(x[0])); }
PARTIAL(silu_slope) /* s'(x) (2 - x tanh(x / 2)) */
{
    mx turn = mx_multiply(x[0], mx_tanh(times(0.5, x[0])));
    return mx_multiply(mx_multiply(t, mx_sigmoid_slope(x[0])), mx_subtract(scalar(2, turn), turn));
}
PARTIAL(real)       { return t; }
PARTIAL(imag)
{
    return dtype_is_complex(x[0]->dtype) ? mx_multiply(array_of_complex(0, -1, DT_complex64), t) : zeros_of(t);
}

PARTIAL(add)        { return t; }
PARTIAL(subtract)   { return i ? mx_negative(t) : t; }
PARTIAL(multiply)   { return mx_multiply(t, x[!i]); }
PARTIAL(divide)     { return i ? mx_negative(mx_divide(mx_multiply(t, y), x[1])) : mx_divide(t, x[1]); }
PARTIAL(remainder)  { return i ? mx_negative(mx_multiply(t, mx_floor_divide(x[0], x[1]))) : t; }
/* b a^(b-1) and a^b log a, with an exponent or base of 0 out of the way: 0 times infinity would be
 * NaN here or in the next derivative. */
PARTIAL(power)
{
    mx one = scalar(1, y), safe = mx_where(mx_equal(x[!i], scalar(0, y)), one, x[!i]);
    if (i)
        return mx_multiply(mx_multiply(t, y), mx_log(safe));
    return mx_multiply(x[1], mx_multiply(t, mx_power(wide(x[0]), mx_subtract(wide(safe), one))));
}
PARTIAL(maximum)    { return mx_where(i ? mx_less_equal(x[0], x[1]) : mx_greater(x[0], x[1]), t, scalar(0, t)); }
PARTIAL(minimum)    { return mx_where(i ? mx_greater_equal(x[0], x[1]) : mx_less(x[0], x[1]), t, scalar(0, t)); }
PARTIAL(logaddexp)  { return mx_multiply(t, mx_sigmoid(mx_subtract(wide(x[i]), wide(x[!i])))); }

/* y, or 1 at the origin, a corner with derivatives of 0 */
static mx radius(mx y) { return mx_where(mx_equal(y, scalar(0, y)), scalar(1, y), y); }
PARTIAL(arctan2)
{
    mx r = radius(mx_hypot(wide(x[0]), wide(x[1]))), d = mx_multiply(mx_divide(t, r), mx_divide(x[!i], r));
    return i ? mx_negative(d) : d;
}
PARTIAL(hypot)      { return mx_multiply(t, mx_divide(x[i], radius(y))); }
/* clang-format on */
PARTIAL(copysign)
{
    mx one = scalar(1, y);
    return i ? zeros_of(t) : mx_multiply(t, mx_multiply(mx_copysign(one, x[0]), mx_copysign(one, x[1])));
}

/* Constant between jumps, or not differentiable in the first place. */
#define d_sign NULL
#define d_floor NULL
#define d_ceil NULL
#define d_trunc NULL
#define d_rint NULL
#define d_logical_not NULL
#define d_bitwise_invert NULL
#define d_floor_divide NULL
#define d_equal NULL
#define d_not_equal NULL
#define d_less NULL
#define d_less_equal NULL
#define d_greater NULL
#define d_greater_equal NULL
#define d_logical_and NULL
#define d_logical_or NULL
#define d_logical_xor NULL
#define d_bitwise_and NULL
#define d_bitwise_or NULL
#define d_bitwise_xor NULL
#define d_left_shift NULL
#define d_right_shift NULL
#define d_conjugate NULL /* not holomorphic: settled by the rules below */

/* ---- the family's rules */

static int elementwise_shapes(const struct call *c, struct spec out[])
{
    for (int i = 1; i < c->nin; i++)
        if (!same_shape(c->x[i], c->x[0]))
            return mx_fail("[%s] expected operands of one shape, got %s and %s", c->op->name, shape_of(c->x[0]),
                           shape_of(c->x[i])),
                   1;
    out->dtype = op_result_dtype(c->op, c->x[0]->dtype);
    out->ndim = c->x[0]->ndim;
    memcpy(out->shape, c->x[0]->shape, (size_t)out->ndim * sizeof(int));
    return 0;
}

/* Of a type that the operation computes in? */
static bool unary_fits(const struct call *c)
{
    return call_has(c, 1, 1) && op_compute_dtype(c->op, c->x[0]->dtype) == c->x[0]->dtype;
}

static bool binary_fits(const struct call *c)
{
    return call_has(c, 2, 1) && one_dtype(c, 2) && op_compute_dtype(c->op, c->x[0]->dtype) == c->x[0]->dtype;
}

/* How z / |z|, which turns with z and does not grow, changes along t; as a map of real and imaginary
 * parts it is its own adjoint. */
static mx complex_sign_along(mx z, mx y, mx t)
{
    mx across = mx_subtract(t, mx_multiply(y, mx_astype(mx_real(mx_multiply(mx_conjugate(y), t)), z->dtype)));
    mx size = mx_abs(z), nowhere = mx_equal(size, mx_scalar_like(0, size));
    across = mx_divide(across, mx_astype(mx_where(nowhere, mx_scalar_like(1, size), size), z->dtype));
    return mx_where(nowhere, mx_scalar_like(0, across), across);
}

static void elementwise_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (c->op == &op_conjugate) {
        dx[0] = mx_conjugate(ct[0]);
        return;
    }
    if (c->op == &op_sign && dtype_is_complex(c->x[0]->dtype)) {
        dx[0] = complex_sign_along(c->x[0], c->y[0], ct[0]);
        return;
    }
    if (!c->op->partial || c->x[0]->dtype == DT_bool_)
        return;
    for (int i = 0; i < c->nin; i++) {
        if (!want[i])
            continue;
        /* The adjoint of t -> d t is t -> conj(d) t = conj(d conj(t)). */
        mx d = conjugated(c->op->partial(i, c->x, c->y[0], conjugated(ct[0])));
        dx[i] = mx_astype(d, c->x[i]->dtype);
    }
}

static void elementwise_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (c->op == &op_conjugate) {
        dy[0] = mx_conjugate(t[0]);
        return;
    }
    if (c->op == &op_sign && dtype_is_complex(c->x[0]->dtype)) {
        dy[0] = complex_sign_along(c->x[0], c->y[0], t[0]);
        return;
    }
    if (!c->op->partial || c->x[0]->dtype == DT_bool_)
        return;
    bool to_real = (c->op->traits & GIVES_REAL) && dtype_is_complex(c->x[0]->dtype);
    for (int i = 0; i < c->nin; i++) {
        if (!t[i])
            continue;
        mx d = c->op->partial(i, c->x, c->y[0], t[i]);
        d = mx_astype(to_real ? mx_real(d) : d, c->y[0]->dtype);
        dy[0] = dy[0] ? mx_add(dy[0], d) : d;
    }
}

/* Batched operands get their axis moved to the front; the others broadcast against it. */
static int front_all(const struct call *c, const int axis[], mx x[])
{
    for (int i = 0; i < c->nin; i++)
        if (axis[i] >= 0)
            x[i] = mx_moveaxis(c->x[i], axis[i], 0);
        else
            x[i] = mx_expand_dims(c->x[i], (int[]){ 0 }, 1);
    return mx_broadcast(c->nin, x);
}

static void elementwise_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx x[3];
    front_all(c, axis, x);
    y[0] = mx_infer(c->op, c->args, c->nin, x);
    yaxis[0] = 0;
}

#define ELEMENTWISE(name_, label_, dtypes_, traits_, fits_) \
    const struct op op_##name_ = {                          \
        .id = OP_##name_,                                   \
        .name = #name_,                                     \
        .label = label_,                                    \
        .dtypes = dtypes_,                                  \
        .traits = traits_,                                  \
        .shapes = elementwise_shapes,                       \
        .vjp = elementwise_vjp,                             \
        .jvp = elementwise_jvp,                             \
        .vmap = elementwise_vmap,                           \
        .partial = d_##name_,                               \
        .fits = fits_,                                      \
    };
#define UNARY(name, label, dtypes, traits, form, doc) ELEMENTWISE(name, label, dtypes, traits, unary_fits)
#define BINARY(name, label, dtypes, traits, form, doc) ELEMENTWISE(name, label, dtypes, traits, binary_fits)
#include "ops/ops.def"

/* ---- builders */

static mx unary_node(const struct op *op, mx a)
{
    if (is_nil(a))
        return a;
    enum dtype t = op_compute_dtype(op, a->dtype);
    mx x = mx_astype(a, t);
    return mx_node(op, NULL, 1, &x, x->ndim, x->shape, op_result_dtype(op, t));
}

/* Every binary builder: agree on a dtype, broadcast, make one node. */
static mx binary_node(const struct op *op, mx a, mx b)
{
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    enum dtype t = op_compute_dtype(op, promote(a->dtype, b->dtype));
    mx x[2] = { mx_astype(a, t), mx_astype(b, t) };
    if (shapeless()) {
        mx_broadcast(2, x);
    } else if (!same_shape(x[0], x[1])) {
        int ndim, shape[MX_MAX_NDIM];
        if (!broadcast_shape(op->name, 2, x, &ndim, shape))
            return MX_NIL;
        x[0] = mx_broadcast_to(x[0], ndim, shape);
        x[1] = mx_broadcast_to(x[1], ndim, shape);
    }
    return mx_node(op, NULL, 2, x, x[0]->ndim, x[0]->shape, op_result_dtype(op, t));
}

#define UNARY(name, ...) \
    mx mx_##name(mx a) { return unary_node(&op_##name, a); }
#define BINARY(name, ...) \
    mx mx_##name(mx a, mx b) { return binary_node(&op_##name, a, b); }
#include "ops/ops.def"

/* ---- select */

static void select_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    mx zero = mx_scalar_like(0, ct[0]);
    if (want[1])
        dx[1] = mx_where(c->x[0], ct[0], zero);
    if (want[2])
        dx[2] = mx_where(c->x[0], zero, ct[0]);
}

static void select_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx zero = mx_scalar_like(0, c->y[0]);
    if (t[1] || t[2])
        dy[0] = mx_where(c->x[0], t[1] ? t[1] : zero, t[2] ? t[2] : zero);
}

static int select_shapes(const struct call *c, struct spec out[])
{
    elementwise_shapes(c, out);
    out->dtype = c->x[1]->dtype;
    return 0;
}

const struct op op_where = {
    OP_ROW(where), .shapes = select_shapes, .vjp = select_vjp, .jvp = select_jvp, .vmap = elementwise_vmap,
};

mx mx_where(mx condition, mx a, mx b)
{
    if (is_nil(condition) || is_nil(a) || is_nil(b))
        return MX_NIL;
    enum dtype t = promote(a->dtype, b->dtype);
    mx x[3] = { mx_astype(condition, DT_bool_), mx_astype(a, t), mx_astype(b, t) };
    int ndim, shape[MX_MAX_NDIM];
    if (!broadcast_shape("where", 3, x, &ndim, shape))
        return MX_NIL;
    if (shapeless())
        mx_broadcast(3, x);
    else
        for (int i = 0; i < 3; i++) x[i] = mx_broadcast_to(x[i], ndim, shape);
    return mx_node(&op_where, NULL, 3, x, ndim, shape, t);
}

/* ---- astype */

struct astype_args {
    unsigned dtype;
};
static const struct field astype_args_fields[] = { ENUM(astype_args, dtype, DT_COUNT - 1), { 0 } };

static int astype_shapes(const struct call *c, struct spec out[])
{
    elementwise_shapes(c, out);
    out->dtype = ((const struct astype_args *)c->args)->dtype;
    return 0;
}

/* Steps have no slope: of real numbers made integers, and of what is made a bool. */
static bool makes_steps(const struct call *c)
{
    enum dtype from = c->x[0]->dtype, to = c->y[0]->dtype;
    return to == DT_bool_ || (dtype_is_inexact(from) && !dtype_is_inexact(to));
}

static void astype_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    if (!makes_steps(c))
        dx[0] = mx_astype(ct[0], c->x[0]->dtype);
}

static void astype_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (!makes_steps(c))
        dy[0] = mx_astype(t[0], c->y[0]->dtype);
}

const struct op op_astype = {
    OP_ROW(astype),    ARGS(astype_args), .shapes = astype_shapes,
    .vjp = astype_vjp, .jvp = astype_jvp, .vmap = elementwise_vmap,
};

mx mx_astype(mx x, enum dtype t)
{
    if (x->dtype == t)
        return x;
    return mx_node(&op_astype, &(struct astype_args){ t }, 1, &x, x->ndim, x->shape, t);
}

/* ---- ops that hand their operand on */

static bool same_view(const struct call *c, mx y)
{
    mx x = c->x[0];
    memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
    y->offset = x->offset;
    return true;
}

static void identity_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)c, (void)want;
    dx[0] = ct[0];
}

static void identity_jvp(const struct call *c, const mx t[], mx dy[])
{
    (void)c;
    dy[0] = t[0];
}

static void identity_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    y[0] = mx_infer(c->op, c->args, 1, c->x);
    yaxis[0] = axis[0];
}

const struct op op_copy = {
    OP_ROW(copy),        .view = same_view,   .shapes = elementwise_shapes,
    .vjp = identity_vjp, .jvp = identity_jvp, .vmap = identity_vmap,
};
const struct op op_stop_gradient = {
    OP_ROW(stop_gradient), .view = same_view, .shapes = elementwise_shapes,
    .vjp = no_vjp,         .jvp = no_jvp,     .vmap = identity_vmap,
};
const struct op op_full = {
    OP_ROW(full), .shapes = elementwise_shapes, .vjp = identity_vjp, .jvp = identity_jvp, .vmap = identity_vmap,
};

static mx identity(const struct op *op, mx x) { return mx_node(op, NULL, 1, &x, x->ndim, x->shape, x->dtype); }

mx mx_copy(mx x) { return identity(&op_copy, x); }
mx mx_stop_gradient(mx x) { return identity(&op_stop_gradient, x); }

struct contiguous_args {
    bool allow_col_major;
    bool anew; /* never shared */
};
static const struct field contiguous_args_fields[] = { FIELD(contiguous_args, allow_col_major),
                                                       FIELD(contiguous_args, anew),
                                                       { 0 } };

/* Data that already lies as asked for is shared. */
static bool contiguous_view(const struct call *c, mx y)
{
    mx x = c->x[0];
    int64_t s = 1;
    const struct contiguous_args *a = c->args;
    bool column = a->allow_col_major;
    for (int i = 0; i < x->ndim && column; i++) {
        column = x->shape[i] == 1 || x->strides[i] == s;
        s *= x->shape[i];
    }
    return !a->anew && (x->row || column) && same_view(c, y);
}

const struct op op_contiguous = {
    OP_ROW(contiguous),  ARGS(contiguous_args), .view = contiguous_view, .shapes = elementwise_shapes,
    .vjp = identity_vjp, .jvp = identity_jvp,   .vmap = identity_vmap,
};

mx mx_contiguous(mx x, bool allow_col_major)
{
    return mx_node(&op_contiguous, &(struct contiguous_args){ .allow_col_major = allow_col_major }, 1, &x, x->ndim,
                   x->shape, x->dtype);
}

mx mx_duplicate(mx x)
{
    enum { SMALL = 4096 }; /* bytes, which are copied sooner than a node is made */
    if (x->row && !x->tracer && nbytes(x) <= SMALL && array_readable(x))
        return array_of_data(x->dtype, x->ndim, x->shape, array_host(x));
    return mx_node(&op_contiguous, &(struct contiguous_args){ .anew = true }, 1, &x, x->ndim, x->shape, x->dtype);
}

/* ---- compositions */

mx mx_scalar_like(double v, mx like) { return array_of_double(v, like->dtype); }

mx mx_clip(mx x, mx low, mx high)
{
    if (!low && !high)
        return mx_fail("[clip] expected at least one of a_min and a_max, got neither");
    mx all[3] = { x, low ? low : x, high ? high : x };
    int ndim, shape[MX_MAX_NDIM];
    if (is_nil(x) || is_nil(all[1]) || is_nil(all[2]) || !broadcast_shape("clip", 3, all, &ndim, shape))
        return MX_NIL;
    if (low)
        x = mx_maximum(x, low);
    return high ? mx_minimum(x, high) : x;
}

mx mx_round(mx x, int decimals)
{
    if (is_nil(x) || decimals == 0)
        return mx_rint(x);
    double power = pow(10, fabs((double)decimals));
    if (!dtype_is_inexact(x->dtype)) {
        if (decimals > 0)
            return mx_copy(x);
        if (power > 0x1p65)
            return mx_zeros_like(x);
        mx scale = array_of_double(power, DT_float64);
        return mx_astype(mx_multiply(mx_rint(mx_divide(mx_astype(x, DT_float64), scale)), scale), x->dtype);
    }
    if (dtype_is_half(x->dtype)) /* the product with the power is rounded before it is cut off */
        return mx_astype(mx_round(mx_astype(x, DT_float32), decimals), x->dtype);
    if (power > (x->dtype == DT_float64 ? DBL_MAX : FLT_MAX)) /* no number has so many digits */
        return decimals > 0 ? mx_copy(x) : mx_where(mx_isfinite(x), mx_multiply(x, mx_scalar_like(0, x)), x);
    /* A power of ten is exact where 10^-d is not, so multiply or divide by it as d's sign says. */
    mx scale = mx_scalar_like(power, x);
    if (decimals < 0)
        return mx_multiply(mx_rint(mx_divide(x, scale)), scale);
    mx product = mx_multiply(x, scale);
    return mx_where(mx_isinf(product), x, mx_divide(mx_rint(product), scale)); /* so large numbers are whole */
}

/* A bool array of x's shape for types that are never NaN or infinite. */
static mx bool_like(mx x, bool v)
{
    if (shapeless())
        return v ? mx_equal(x, x) : mx_not_equal(x, x);
    return mx_full(x->ndim, x->shape, array_of_int(v, DT_bool_), DT_bool_);
}

mx mx_isnan(mx x) { return dtype_is_inexact(x->dtype) ? mx_not_equal(x, x) : bool_like(x, false); }

static mx infinity(mx like, double sign) { return mx_scalar_like(sign * INFINITY, like); }

/* Of complex numbers: infinite, with an imaginary part of 0. */
mx mx_isposinf(mx x) { return dtype_is_inexact(x->dtype) ? mx_equal(x, infinity(x, 1)) : bool_like(x, false); }

mx mx_isneginf(mx x) { return dtype_is_inexact(x->dtype) ? mx_equal(x, infinity(x, -1)) : bool_like(x, false); }

mx mx_isinf(mx x)
{
    if (dtype_is_complex(x->dtype))
        return mx_logical_or(mx_isinf(mx_real(x)), mx_isinf(mx_imag(x)));
    return dtype_is_float(x->dtype) ? mx_equal(mx_abs(x), infinity(x, 1)) : bool_like(x, false);
}

mx mx_isfinite(mx x)
{
    if (dtype_is_complex(x->dtype))
        return mx_logical_and(mx_isfinite(mx_real(x)), mx_isfinite(mx_imag(x)));
    return dtype_is_float(x->dtype) ? mx_less(mx_abs(x), infinity(x, 1)) : bool_like(x, true);
}

mx mx_root(mx x)
{
    mx zero = mx_scalar_like(0, x), none = mx_equal(x, zero);
    return mx_where(none, zero, mx_sqrt(mx_where(none, mx_scalar_like(1, x), x)));
}

mx mx_reciprocal(mx x)
{
    enum dtype t = dtype_is_inexact(x->dtype) ? x->dtype : DT_float32;
    return mx_divide(array_of_double(1, t), x);
}

static mx angle_scaled(mx x, double by)
{
    enum dtype t = dtype_is_inexact(x->dtype) ? x->dtype : DT_float32;
    return mx_multiply(mx_astype(x, t), array_of_double(by, t));
}

mx mx_degrees(mx x) { return angle_scaled(x, 180 / M_PI); }
mx mx_radians(mx x) { return angle_scaled(x, M_PI / 180); }

/* |a - b| <= atol + rtol |b|, equal infinities close, unequal ones not. */
static mx is_close(const char *op, mx a, mx b, double rtol, double atol, bool equal_nan)
{
    int ndim, shape[MX_MAX_NDIM];
    if (is_nil(a) || is_nil(b) || !broadcast_shape(op, 2, (mx[]){ a, b }, &ndim, shape))
        return MX_NIL;
    enum dtype t = promote(a->dtype, b->dtype);
    if (!dtype_is_inexact(t))
        t = DT_float32;
    a = mx_astype(a, t);
    b = mx_astype(b, t);
    mx size = mx_abs(b);
    mx bound = mx_add(mx_scalar_like(atol, size), mx_multiply(mx_scalar_like(rtol, size), size));
    mx close = mx_less_equal(mx_abs(mx_subtract(a, b)), bound);
    mx any_inf = mx_logical_or(mx_isinf(a), mx_isinf(b));
    close = mx_where(any_inf, mx_equal(a, b), close);
    return equal_nan ? mx_logical_or(close, mx_logical_and(mx_isnan(a), mx_isnan(b))) : close;
}

mx mx_isclose(mx a, mx b, double rtol, double atol, bool equal_nan)
{
    return is_close("isclose", a, b, rtol, atol, equal_nan);
}

mx mx_allclose(mx a, mx b, double rtol, double atol, bool equal_nan)
{
    return mx_all(is_close("allclose", a, b, rtol, atol, equal_nan), NULL, 0, false);
}

mx mx_array_equal(mx a, mx b, bool equal_nan)
{
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    if (!same_shape(a, b)) {
        if (a->tracer || b->tracer)
            shapes_matter("array_equal");
        return array_of_int(0, DT_bool_);
    }
    mx same = mx_equal(a, mx_shape_checked(b, a));
    if (equal_nan)
        same = mx_logical_or(same, mx_logical_and(mx_isnan(a), mx_isnan(b)));
    return mx_all(same, NULL, 0, false);
}

mx mx_nan_to_num(mx x, double nan, const double *posinf, const double *neginf)
{
    if (is_nil(x) || !dtype_is_inexact(x->dtype))
        return x;
    if (dtype_is_complex(x->dtype)) {
        mx re = mx_nan_to_num(mx_real(x), nan, posinf, neginf), im = mx_nan_to_num(mx_imag(x), nan, posinf, neginf);
        return mx_add(mx_astype(re, DT_complex64), mx_multiply(im, array_of_complex(0, 1, DT_complex64)));
    }
    double most = dtype_largest(x->dtype);
    x = mx_where(mx_isnan(x), mx_scalar_like(nan, x), x);
    x = mx_where(mx_isposinf(x), mx_scalar_like(posinf ? *posinf : most, x), x);
    return mx_where(mx_isneginf(x), mx_scalar_like(neginf ? *neginf : -most, x), x);
}

void mx_divmod(mx a, mx b, mx out[2])
{
    out[0] = mx_floor_divide(a, b);
    out[1] = mx_remainder(a, b);
}
