/* mlxfn_compose.c: operations put in terms of others, for exported files.
 *
 * Each gives what its operation gives: exactly where it can, else within the rounding of the type. */
#include "mlxfn/mlxfn_compose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/rules.h"
#include "ops/scan.h"
#include "ops/special_products.h"

#define COMPOSE(name) void compose_##name(const struct call *c, mx y[])

static const int last[] = { -1 };

static mx wide(mx x) { return dtype_is_half(x->dtype) ? mx_astype(x, DT_float32) : x; }

/* ---- element by element */

COMPOSE(floor) { y[0] = c->x[0]; } /* of integers */
COMPOSE(ceil) { y[0] = c->x[0]; }
COMPOSE(rint) { y[0] = c->x[0]; }
COMPOSE(conjugate) { y[0] = c->x[0]; } /* of real numbers */
COMPOSE(real) { y[0] = c->x[0]; }
COMPOSE(imag) { y[0] = mx_zeros_like(c->x[0]); }
COMPOSE(contiguous) { y[0] = c->x[0]; }

/* Of complex numbers.  The primitive of abs gives complex ones, that of the others is not for them. */
COMPOSE(abs)
{
    mx x = c->x[0];
    y[0] = mx_astype(mx_node(&op_abs, NULL, 1, &x, x->ndim, x->shape, DT_complex64), DT_float32);
}
COMPOSE(sigmoid) { y[0] = mx_reciprocal(mx_add(mx_scalar_like(1, c->x[0]), mx_exp(mx_negative(c->x[0])))); }
COMPOSE(sigmoid_slope) { y[0] = mx_multiply(mx_sigmoid(c->x[0]), mx_sigmoid(mx_negative(c->x[0]))); }

static mx complex_of(mx re, mx im)
{
    mx i = mx_multiply(mx_astype(im, DT_complex64), array_of_complex(0, 1, DT_complex64));
    return mx_add(mx_astype(re, DT_complex64), i);
}

/* e^(a + bi) - 1 = (e^a - 1) cos b - 2 sin(b / 2)^2 + i e^a sin b */
COMPOSE(expm1)
{
    mx a = mx_real(c->x[0]), b = mx_imag(c->x[0]);
    mx half = mx_square(mx_sin(mx_multiply(b, mx_scalar_like(0.5, b))));
    mx re = mx_subtract(mx_multiply(mx_expm1(a), mx_cos(b)), mx_add(half, half));
    y[0] = complex_of(re, mx_multiply(mx_exp(a), mx_sin(b)));
}

COMPOSE(logsumexp_parts)
{
    const int last = -1;
    y[0] = mx_max(wide(c->x[0]), &last, 1, true);
    y[1] = mx_logsumexp(mx_subtract(wide(c->x[0]), y[0]), &last, 1, true);
}

COMPOSE(trunc)
{
    mx x = c->x[0];
    y[0] = dtype_is_inexact(x->dtype) ? mx_where(mx_less(x, mx_scalar_like(0, x)), mx_ceil(x), mx_floor(x)) : x;
}

COMPOSE(bitwise_invert)
{
    mx x = c->x[0];
    y[0] = x->dtype == DT_bool_ ? mx_logical_not(x) : mx_bitwise_xor(x, array_of_int(-1, x->dtype));
}

COMPOSE(logical_xor) { y[0] = mx_not_equal(mx_astype(c->x[0], DT_bool_), mx_astype(c->x[1], DT_bool_)); }

COMPOSE(floor_divide) { y[0] = mx_divide(c->x[0], c->x[1]); } /* of complex numbers */

/* The larger times sqrt(1 + ratio^2). */
COMPOSE(hypot)
{
    mx a = mx_abs(wide(c->x[0])), b = mx_abs(wide(c->x[1])), zero = mx_scalar_like(0, a);
    mx most = mx_maximum(a, b), ratio = mx_divide(mx_minimum(a, b), most);
    mx h = mx_multiply(most, mx_sqrt(mx_add(mx_square(ratio), mx_scalar_like(1, a))));
    mx infinite = mx_logical_or(mx_isinf(a), mx_isinf(b));
    h = mx_where(mx_equal(most, zero), zero, mx_where(infinite, mx_scalar_like(INFINITY, a), h));
    y[0] = mx_astype(h, c->y[0]->dtype);
}

COMPOSE(copysign)
{
    mx a = mx_abs(c->x[0]), b = c->x[1];
    enum dtype t = itemsize(b) == 2 ? DT_int16 : itemsize(b) == 4 ? DT_int32 : DT_int64;
    y[0] = mx_where(mx_less(mx_view(b, t), array_of_int(0, t)), mx_negative(a), a);
}

/* ---- out of nothing */

COMPOSE(linspace)
{
    const struct linspace_args *a = c->args;
    int parts = a->num - a->endpoint;
    mx i = mx_arange(0, a->num, 1, DT_float64);
    double step = parts > 0 ? (a->stop - a->start) / parts : 0;
    mx v = mx_add(mx_multiply(i, array_of_double(step, DT_float64)), array_of_double(a->start, DT_float64));
    if (a->endpoint && a->num > 1)
        v = mx_where(mx_equal(i, array_of_double(a->num - 1, DT_float64)), array_of_double(a->stop, DT_float64), v);
    y[0] = mx_astype(v, (enum dtype)a->dtype);
}

COMPOSE(eye)
{
    const struct eye_args *a = c->args;
    mx i = mx_arange(0, a->n, 1, DT_int64), j = mx_arange(0, a->m, 1, DT_int64);
    i = mx_add(i, array_of_int(a->k, DT_int64));
    y[0] = mx_astype(mx_equal(mx_expand_dims(i, (int[]){ 1 }, 1), j), (enum dtype)a->dtype);
}

COMPOSE(number_of_elements) { y[0] = number_of_elements(c->x[0], c->args); }

/* ---- shapes and indices */

COMPOSE(as_strided)
{
    mx flat = mx_reshape(c->x[0], 1, last);
    y[0] = mx_infer(c->op, c->args, 1, &flat);
}

static mx with_operands(const struct call *c, mx x[]) { return mx_infer(c->op, c->args, c->nin, x); }

/* Index arrays of one type: operands 1 to n. */
static void same_index_type(const struct call *c, int n, mx y[])
{
    mx x[MX_MAX_NDIM + 2];
    memcpy(x, c->x, (size_t)c->nin * sizeof *x);
    for (int i = 1; i <= n; i++) x[i] = mx_astype(x[i], DT_int64);
    y[0] = with_operands(c, x);
}

COMPOSE(gather) { same_index_type(c, c->nin - 1, y); }
COMPOSE(scatter) { same_index_type(c, c->nin - 2, y); }

/* The index array with x's shape but for the axis. */
static mx whole_index(mx x, mx index, int axis)
{
    int shape[MX_MAX_NDIM];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[axis] = index->shape[axis];
    return mx_broadcast_to(index, x->ndim, shape);
}

COMPOSE(gather_axis)
{
    int axis = ((const struct gather_axis_args *)c->args)->axis;
    y[0] = with_operands(c, (mx[]){ c->x[0], whole_index(c->x[0], c->x[1], axis) });
}

/* Sums and assignments have a primitive; other folds index every axis. */
COMPOSE(scatter_axis)
{
    const struct scatter_axis_args *a = c->args;
    mx x = c->x[0], index = whole_index(x, c->x[1], a->axis), at[MX_MAX_NDIM];
    int n = x->ndim, axes[MX_MAX_NDIM], ones[MX_MAX_NDIM];
    if (a->fold == SCATTER_SET || a->fold == SCATTER_ADD) {
        y[0] = with_operands(c, (mx[]){ x, index, c->x[2] });
        return;
    }
    for (int i = 0; i < n; i++) {
        int shape[MX_MAX_NDIM];
        for (int k = 0; k < n; k++) shape[k] = k == i ? dim(index, k) : 1;
        mx places = mx_reshape(mx_arange(0, dim(index, i), 1, DT_int64), n, shape);
        at[i] = i == a->axis ? mx_astype(index, DT_int64) : mx_broadcast_to(places, n, index->shape);
        axes[i] = i;
        ones[i] = n + i;
    }
    y[0] = mx_scatter(x, at, axes, n, mx_expand_dims(c->x[2], ones, n), (enum scatter_fold)a->fold);
}

/* ---- reductions and products */

enum dtype composed_reduce_dtype(const struct call *c)
{
    const struct reduce_args *a = c->args;
    enum dtype t = c->x[0]->dtype;
    if (a->fold != FOLD_SUM && a->fold != FOLD_PROD)
        return t;
    if (t == DT_uint8 || t == DT_uint16)
        return DT_uint32;
    return t == DT_bool_ || t == DT_int8 || t == DT_int16 ? DT_int32 : t;
}

COMPOSE(reduce)
{
    const struct reduce_args *a = c->args;
    enum dtype t = a->dtype, have = c->x[0]->dtype;
    bool widens = dtype_size(t) > dtype_size(have) || (dtype_is_inexact(t) && !dtype_is_inexact(have));
    int axes[MX_MAX_NDIM];
    for (int i = 0; i < a->axes.n; i++) axes[i] = (int)a->axes.v[i];
    mx x = widens ? mx_astype(c->x[0], t) : c->x[0];
    y[0] = mx_astype(mx_reduce(x, (enum fold)a->fold, axes, a->axes.n, true), t);
}

/* Of integers, whose products have no primitive. */
COMPOSE(matmul)
{
    mx a = mx_expand_dims(c->x[0], last, 1), b = mx_expand_dims(c->x[1], (int[]){ -3 }, 1);
    enum fold f = a->dtype == DT_bool_ ? FOLD_ANY : FOLD_SUM;
    mx product = a->dtype == DT_bool_ ? mx_logical_and(a, b) : mx_multiply(a, b);
    y[0] = mx_astype(mx_reduce(product, f, (int[]){ -2 }, 1, false), c->y[0]->dtype);
}

/* Numbers of matrices as they are written: uint32, from the first on. */
static mx plain_places(mx index, mx of)
{
    int64_t n = 1;
    for (int i = 0; i < of->ndim - 2; i++) n *= of->shape[i];
    if (dtype_kind(index->dtype) == 'i') {
        mx i = mx_astype(index, DT_int64);
        index = mx_where(mx_less(i, array_of_int(0, DT_int64)), mx_add(i, array_of_int(n, DT_int64)), i);
    }
    return mx_astype(index, DT_uint32);
}

/* The matrices of a batch by their flat numbers. */
static mx picked(mx x, mx index)
{
    return mx_take(mx_reshape(x, 3, (int[]){ -1, dim(x, -2), dim(x, -1) }), index, 0);
}

COMPOSE(gather_mm)
{
    mx x[4] = { c->x[0], c->x[1], plain_places(c->x[2], c->x[0]), plain_places(c->x[3], c->x[1]) };
    if (dtype_is_half(x[0]->dtype)) {
        y[0] = mx_astype(mx_gather_mm(wide(x[0]), wide(x[1]), x[2], x[3]), x[0]->dtype);
        return;
    }
    if (x[0]->dtype != DT_float32) { /* pick, then multiply */
        y[0] = mx_matmul(picked(x[0], x[2]), picked(x[1], x[3]));
        return;
    }
    y[0] = with_operands(c, x);
}

/* y[rhs[p]] += a[la[p]]^T c[lc[p]] */
COMPOSE(scatter_mm)
{
    mx a = picked(c->x[0], c->x[2]), b = picked(c->x[1], c->x[3]);
    y[0] = mx_add_matrices(mx_matmul(mx_swapaxes(a, -1, -2), b), c->x[4], c->y[0]);
}

/* dw[f, k, c] = sum over n, o of x[n, o stride - low + k dilation, c] y[n, o, f]: a convolution of the
 * channels of x, as images, with those of y, in which stride and dilation have changed places. */
COMPOSE(conv_weight)
{
    const struct conv_args *a = c->args;
    int n = a->size.n, g = a->groups, v[5][MX_MAX_NDIM];
    mx x = c->x[0], w = mx_moveaxis(c->x[1], -1, 0); /* (F, o, N) */
    w = mx_moveaxis(w, 1, -1);
    x = mx_unflatten(x, -1, 2, (int[]){ g, dim(x, -1) / g });       /* (N, s, G, C) */
    x = mx_moveaxis(mx_moveaxis(x, -1, 0), 1, -1);                  /* (C, s, G, N) */
    x = mx_flatten(x, -2, -1);
    if (is_nil(x) || is_nil(w))
        return;
    for (int i = 0; i < n; i++) {
        v[0][i] = (int)a->dilation.v[i];
        v[1][i] = (int)a->low.v[i];
        v[3][i] = (int)a->stride.v[i];
        v[4][i] = (int)a->input_dilation.v[i];
        int64_t whole = 1 + (dim(x, 1 + i) - (int64_t)1) * v[4][i], seen = 1 + (dim(w, 1 + i) - (int64_t)1) * v[3][i];
        v[2][i] = (int)((a->size.v[i] - 1) * v[0][i] + seen - whole - v[1][i]);
    }
    struct conv geometry = { .n = n, .stride = v[0], .low = v[1], .high = v[2], .dilation = v[3],
                             .input_dilation = v[4], .groups = g };
    y[0] = mx_moveaxis(mx_conv("conv_weight", x, w, &geometry), 0, -1); /* (C, k, F) to (k, F, C) */
    y[0] = mx_moveaxis(y[0], -2, 0);
}

/* ---- Fourier transforms: forward unscaled, backward divided by the size */

bool composed_fft_is_plain(const struct fft_args *a)
{
    bool direction = a->kind == FFT_REAL ? !a->inverse : a->kind == FFT_HERMITIAN ? a->inverse : true;
    return direction && a->scale == (a->inverse ? 1.0 / a->n : 1.0);
}

/* The other direction of a real transform is that of the conjugate. */
COMPOSE(fft)
{
    struct fft_args a = *(const struct fft_args *)c->args;
    mx x = c->x[0];
    double scale = a.scale;
    bool turned = a.kind == FFT_REAL ? a.inverse : a.kind == FFT_HERMITIAN ? !a.inverse : false;
    a.inverse = a.inverse != turned;
    a.scale = a.inverse ? 1.0 / a.n : 1.0;
    scale /= a.scale;
    if (turned && a.kind == FFT_HERMITIAN)
        x = mx_conjugate(x);
    x = mx_infer(&op_fft, &a, 1, &x);
    if (turned && a.kind == FFT_REAL)
        x = mx_conjugate(x);
    y[0] = scale == 1 ? x : mx_multiply(x, mx_scalar_like(scale, x));
}

/* x H is H x for sizes that are a power of two; else by the matrix. */
COMPOSE(hadamard)
{
    const struct hadamard_args *a = c->args;
    mx x = c->x[0];
    int n = dim(x, -1);
    mx h = mx_hadamard_transform(mx_eye(n, n, 0, DT_float32), &a->scale);
    y[0] = mx_astype(mx_matmul(wide(x), mx_swapaxes(h, 0, 1)), x->dtype);
}

/* ---- packed weights */

/* The numbers that `n` codes stand for, in their order. */
static mx looked_up(mx codes, int n, float (*value)(int code))
{
    float table[256];
    for (int i = 0; i < n; i++) table[i] = value(i);
    return mx_take(array_of_data(DT_float32, 1, &n, table), codes, 0);
}

/* A sign, bits of exponent, bits of fraction. */
static float small_float(int code, int exponent, int fraction, int bias)
{
    int sign = code >> (exponent + fraction) & 1, e = code >> fraction & ((1 << exponent) - 1);
    double f = code & ((1 << fraction) - 1);
    f = e ? ldexp(1 + ldexp(f, -fraction), e - bias) : ldexp(f, 1 - bias - fraction);
    return (float)(sign ? -f : f);
}

static float e2m1(int code) { return small_float(code, 2, 1, 1); }
static float e4m3(int code) { return (code & 127) == 127 ? (float)NAN : small_float(code, 4, 3, 7); }
static float e8m0(int code) { return code == 255 ? (float)NAN : (float)ldexp(1, code - 127); }

COMPOSE(from_fp8) { y[0] = mx_astype(looked_up(c->x[0], 256, e4m3), c->y[0]->dtype); }

/* The codes of packed words (..., n), of so many bits each, as uint32: (..., 32 n / bits). */
static mx codes_of(mx w, int bits)
{
    bool whole = 32 % bits == 0;
    int wide_bits = whole ? bits : 1, each = 32 / wide_bits;
    mx place = mx_multiply(mx_arange(0, each, 1, DT_uint32), array_of_int(wide_bits, DT_uint32));
    mx mask = array_of_int(wide_bits == 32 ? -1 : (1 << wide_bits) - 1, DT_uint32);
    mx parts = mx_bitwise_and(mx_right_shift(mx_expand_dims(w, last, 1), place), mask);
    parts = mx_flatten(parts, -2, -1);
    if (whole)
        return parts;
    parts = mx_unflatten(parts, -1, 2, (int[]){ dim(parts, -1) / bits, bits });
    mx digit = mx_left_shift(parts, mx_arange(0, bits, 1, DT_uint32));
    return mx_sum(digit, last, 1, false);
}

COMPOSE(dequantize)
{
    const struct quant_args *a = c->args;
    bool affine = a->mode == MODE_AFFINE;
    mx codes = codes_of(c->x[0], a->bits), scales = c->x[1];
    mx v, global = c->nin > 2 + affine ? c->x[2 + affine] : NULL;
    if (affine) {
        scales = mx_astype(scales, DT_float32);
        v = mx_astype(codes, DT_float32);
    } else {
        scales = looked_up(scales, 256, a->mode == MODE_NVFP4 ? e4m3 : e8m0);
        v = looked_up(codes, 1 << a->bits, a->bits == 4 ? e2m1 : e4m3);
    }
    if (is_nil(v))
        return;
    v = mx_unflatten(v, -1, 2, (int[]){ dim(v, -1) / a->group_size, a->group_size });
    v = mx_multiply(v, mx_expand_dims(scales, last, 1));
    if (affine)
        v = mx_add(v, mx_expand_dims(mx_astype(c->x[2], DT_float32), last, 1));
    v = mx_flatten(v, -2, -1);
    if (global)
        v = mx_multiply(v, mx_multiply(mx_reshape(global, 0, NULL), array_of_double(1 / NVFP4_LARGEST, DT_float32)));
    y[0] = mx_astype(v, c->y[0]->dtype);
}

bool composed_packed_fits(const struct call *c)
{
    const struct quant_args *a = c->args;
    bool fits = true;
    for (int i = 2; i < 4 && a->mode == MODE_AFFINE; i++) fits = fits && c->x[i]->dtype == c->x[0]->dtype;
    if (c->op->id == OP_quantized_matmul && c->x[1]->ndim > 2)
        for (int i = 0, n = c->y[0]->ndim - 2; i < n; i++)
            fits = fits && c->x[0]->ndim == n + 2 && c->x[1]->ndim == n + 2 && c->x[0]->shape[i] == c->x[1]->shape[i];
    return fits;
}

/* x with the leading axes of y. */
static mx with_batch(mx x, mx y)
{
    int shape[MX_MAX_NDIM], n = y->ndim;
    memcpy(shape, y->shape, (size_t)n * sizeof *shape);
    shape[n - 2] = dim(x, -2);
    shape[n - 1] = dim(x, -1);
    return mx_broadcast_to(x, n, shape);
}

static void packed(const struct call *c, mx x[])
{
    const struct quant_args *a = c->args;
    memcpy(x, c->x, (size_t)c->nin * sizeof *x);
    for (int i = 2; i < 4 && a->mode == MODE_AFFINE; i++) x[i] = mx_astype(x[i], x[0]->dtype);
}

COMPOSE(quantized_matmul)
{
    mx x[4];
    packed(c, x);
    for (int i = 0; i < c->nin && c->x[1]->ndim > 2; i++) x[i] = with_batch(x[i], c->y[0]);
    y[0] = with_operands(c, x);
}

COMPOSE(gather_qmm)
{
    mx x[6];
    packed(c, x);
    x[c->nin - 2] = plain_places(x[c->nin - 2], x[0]);
    x[c->nin - 1] = plain_places(x[c->nin - 1], x[1]);
    y[0] = with_operands(c, x);
}

/* ---- the rest */

/* x moved on by `by` places, with `first` in those that become free. */
static mx moved_on(mx x, int axis, int by, bool reverse, double first)
{
    int low = reverse ? 0 : by, high = reverse ? by : 0;
    mx kept = mx_slice_axis(x, axis, high, dim(x, axis) - low, 1);
    return mx_pad(kept, &axis, 1, &low, &high, mx_scalar_like(first, x), PAD_CONSTANT);
}

/* y_i = a_i y_(i-1) + b_i: two steps are one, with a_i a_(i-1) and a_i b_(i-1) + b_i, and so on. */
COMPOSE(recurrence)
{
    const struct recurrence_args *r = c->args;
    mx a = c->x[0], b = c->x[1];
    for (int by = 1; by < dim(b, r->axis); by *= 2) {
        b = mx_add(b, mx_multiply(a, moved_on(b, r->axis, by, r->reverse, 0)));
        a = mx_multiply(a, moved_on(a, r->axis, by, r->reverse, 1));
    }
    y[0] = b;
}

/* The first columns of the full one. */
COMPOSE(svd)
{
    mx x = c->x[0], out[3];
    int m = dim(x, -2), n = dim(x, -1), k = m < n ? m : n;
    mx_svd(x, SVD_FULL, out);
    if (is_nil(out[0]))
        return;
    y[0] = mx_slice_axis(out[0], -1, 0, k, 1);
    y[1] = out[1];
    y[2] = mx_slice_axis(out[2], -2, 0, k, 1);
}

/* What a function with rules of its own computed. */
COMPOSE(custom)
{
    for (int k = 0; k < c->nout; k++) y[k] = c->x[c->nin - c->nout + k];
}
