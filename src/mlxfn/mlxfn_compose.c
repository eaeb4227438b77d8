/* mlxfn_compose.c: operations put in terms of others, for exported files.
 *
 * Each gives what its operation gives: exactly where it can, else within the rounding of the type.  What is
 * there for the sake of graphs for any shape is in mlxfn_follow.c. */
#include "mlxfn/mlxfn_compose.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/rules.h"
#include "ops/scan.h"
#include "ops/slice.h"
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
COMPOSE(silu) { y[0] = mx_multiply(c->x[0], mx_sigmoid(c->x[0])); }

/* x as a factor of what is 0 where x is infinite. */
static mx bounded(mx x)
{
    double most = x->dtype == DT_float64 ? DBL_MAX : FLT_MAX;
    if (dtype_is_complex(x->dtype))
        return x;
    return mx_minimum(mx_maximum(x, mx_scalar_like(-most, x)), mx_scalar_like(most, x));
}

/* Its parts cancel: half types are computed in float32. */
COMPOSE(silu_slope)
{
    mx x = wide(c->x[0]), s = mx_sigmoid(x);
    mx slope = mx_add(s, mx_multiply(mx_multiply(s, bounded(x)), mx_sigmoid(mx_negative(x))));
    y[0] = mx_astype(slope, c->x[0]->dtype);
}

COMPOSE(sigmoid_slope)
{
    mx x = wide(c->x[0]);
    y[0] = mx_astype(mx_multiply(mx_sigmoid(x), mx_sigmoid(mx_negative(x))), c->x[0]->dtype);
}

static mx complex_of(mx re, mx im)
{
    mx i = mx_multiply(mx_astype(im, DT_complex64), array_of_complex(0, 1, DT_complex64));
    return mx_add(mx_astype(re, DT_complex64), i);
}

/* e^(a + bi) - 1 = (e^a - 1) cos b - 2 sin(b / 2)^2 + i e^a sin b, as far as the 1 matters: exp knows infinities. */
COMPOSE(expm1)
{
    mx x = c->x[0], b = mx_imag(x), most = array_of_double(20, b->dtype), a = mx_minimum(mx_real(x), most);
    mx half = mx_square(mx_sin(mx_multiply(b, mx_scalar_like(0.5, b))));
    mx re = mx_subtract(mx_multiply(mx_expm1(a), mx_cos(b)), mx_add(half, half));
    mx near = complex_of(re, mx_multiply(mx_exp(a), mx_sin(b)));
    y[0] = mx_where(mx_greater(mx_abs(mx_real(x)), most), mx_subtract(mx_exp(x), mx_scalar_like(1, x)), near);
}

COMPOSE(logsumexp_parts)
{
    mx x = wide(c->x[0]);
    y[0] = dim(x, -1) ? mx_max(x, last, 1, true) : mx_full_like(c->y[0], mx_scalar_like(-INFINITY, x), x->dtype);
    y[1] = mx_add(mx_logsumexp(mx_subtract(x, y[0]), last, 1, true), mx_subtract(y[0], y[0]));
}

COMPOSE(log_softmax)
{
    mx parts[2];
    mx_logsumexp_parts(c->x[0], last, 1, true, parts);
    y[0] = mx_astype(mx_subtract(mx_subtract(c->x[0], parts[0]), parts[1]), c->x[0]->dtype);
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

/* ---- shapes */

COMPOSE(as_strided)
{
    mx flat = mx_reshape(c->x[0], 1, last);
    y[0] = mx_infer(c->op, c->args, 1, &flat);
}

/* Every so-and-so-many elements of rows one after the other. */
COMPOSE(diagonal)
{
    const struct diagonal_args *a = c->args;
    mx x = c->x[0];
    struct line l = line_of(a, x);
    int perm[MX_MAX_NDIM], n = 0, columns = x->shape[a->axis2];
    if (!l.count)
        x = mx_size_checked(mx_size_checked(x, a->axis1), a->axis2);
    for (int i = 0; i < x->ndim; i++)
        if (i != a->axis1 && i != a->axis2)
            perm[n++] = i;
    perm[n] = a->axis1;
    perm[n + 1] = a->axis2;
    int64_t first = l.count ? l.down * columns + l.right : 0, last = first + (l.count - 1) * ((int64_t)columns + 1);
    x = mx_transpose(x, perm, x->ndim);
    if (l.count && size_of(x, -1).of) {
        y[0] = composed_diagonal(x, (int)l.down, (int)l.right);
        return;
    }
    y[0] = mx_flatten(x, n, n + 1);
    y[0] = l.count ? mx_slice_axis(y[0], n, (int)first, (int)(last + 1), columns + 1) : mx_slice_axis(y[0], n, 0, 0, 1);
}

static mx with_operands(const struct call *c, mx x[]) { return mx_infer(c->op, c->args, c->nin, x); }

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

/* Into a type of its own, or of axes of size 1, which leave each element as it is. */
COMPOSE(reduce)
{
    const struct reduce_args *a = c->args;
    if (a->dtype == composed_reduce_dtype(c)) {
        y[0] = mx_astype(c->x[0], a->dtype);
        return;
    }
    enum dtype t = a->dtype, have = c->x[0]->dtype;
    bool widens = dtype_size(t) > dtype_size(have) || (dtype_is_inexact(t) && !dtype_is_inexact(have));
    int axes[MX_MAX_NDIM];
    for (int i = 0; i < a->axes.n; i++) axes[i] = (int)a->axes.v[i];
    mx x = widens ? mx_astype(c->x[0], t) : c->x[0];
    y[0] = mx_astype(mx_reduce(x, (enum fold)a->fold, axes, a->axes.n, true), t);
}

/* Byte i of integers without a sign. */
static mx byte_of(mx x, int i)
{
    x = i ? mx_right_shift(x, array_of_int(8 * i, x->dtype)) : x;
    return mx_astype(mx_bitwise_and(x, array_of_int(255, x->dtype)), DT_float32);
}

/* The product of integers without a sign by those of their bytes, as many at a time as float32 is exact for. */
static mx product_of_bytes(mx a, mx b)
{
    enum { AT_ONCE = 256 };
    mx sum = NULL;
    for (int k = 0, n = dim(a, -1), bytes = (int)itemsize(a); k < n; k += AT_ONCE) {
        int end = k + AT_ONCE < n ? k + AT_ONCE : n;
        mx u = mx_slice_axis(a, -1, k, end, 1), v = mx_slice_axis(b, -2, k, end, 1);
        for (int i = 0; i < bytes; i++)
            for (int j = 0; i + j < bytes && !mx_failed(); j++) {
                mx part = mx_matmul(byte_of(u, i), byte_of(v, j));
                part = mx_astype(mx_astype(part, DT_uint32), a->dtype);
                part = i + j ? mx_left_shift(part, array_of_int(8 * (i + j), a->dtype)) : part;
                sum = sum ? mx_add(sum, part) : part;
            }
    }
    return sum;
}

/* Of integers, whose products have no primitive: as a sum of all products where these are few. */
COMPOSE(matmul)
{
    static const enum dtype of_size[] = { [1] = DT_uint8, [2] = DT_uint16, [4] = DT_uint32, [8] = DT_uint64 };
    mx a = c->x[0], b = c->x[1];
    if (a->dtype == DT_bool_) {
        mx count = mx_matmul(mx_astype(a, DT_float32), mx_astype(b, DT_float32));
        y[0] = mx_greater(count, mx_scalar_like(0, count));
    } else if (shapeless() || c->y[0]->size * dim(a, -1) <= 1 << 16) {
        mx product = mx_multiply(mx_expand_dims(a, last, 1), mx_expand_dims(b, (int[]){ -3 }, 1));
        y[0] = mx_sum(product, (int[]){ -2 }, 1, false);
    } else {
        enum dtype t = of_size[itemsize(a)];
        y[0] = product_of_bytes(mx_astype(a, t), mx_astype(b, t));
    }
    y[0] = mx_astype(y[0], c->y[0]->dtype);
}

/* Numbers of matrices as they are written: uint32, from the first on. */
static mx plain_places(mx index, mx of)
{
    if (dtype_kind(index->dtype) == 'i') {
        mx i = mx_astype(index, DT_int64), n = mx_count(of, 0, of->ndim - 2, DT_int64);
        index = mx_where(mx_less(i, array_of_int(0, DT_int64)), mx_add(i, n), i);
    }
    return mx_astype(index, DT_uint32);
}

/* The matrices of a batch by their flat numbers. */
static mx matrices_picked(mx x, mx index)
{
    return mx_take(x->ndim == 2 ? mx_expand_dims(x, (int[]){ 0 }, 1) : mx_flatten(x, 0, -3), index, 0);
}

COMPOSE(gather_mm)
{
    mx x[4] = { c->x[0], c->x[1], plain_places(c->x[2], c->x[0]), plain_places(c->x[3], c->x[1]) };
    if (dtype_is_half(x[0]->dtype)) {
        y[0] = mx_astype(mx_gather_mm(wide(x[0]), wide(x[1]), x[2], x[3]), x[0]->dtype);
        return;
    }
    if (x[0]->dtype != DT_float32) { /* pick, then multiply */
        y[0] = mx_matmul(matrices_picked(x[0], x[2]), matrices_picked(x[1], x[3]));
        return;
    }
    y[0] = with_operands(c, x);
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

/* The scalars of primitives are of float32, which is not all that float64 needs. */
bool composed_scalar_fits(double scalar, enum dtype t) { return t != DT_float64 || (float)scalar == scalar; }

COMPOSE(addmm)
{
    const struct addmm_args *a = c->args;
    mx product = mx_matmul(c->x[0], c->x[1]), plus = c->x[2];
    product = mx_multiply(mx_scalar_like(a->alpha, product), product);
    y[0] = mx_add(product, mx_multiply(mx_scalar_like(a->beta, plus), plus));
}

/* x H is H x for sizes that are a power of two; else by the matrix. */
COMPOSE(hadamard)
{
    const struct hadamard_args *a = c->args;
    mx x = c->x[0];
    int n = dim(x, -1);
    if (!composed_scalar_fits(a->scale, x->dtype)) {
        mx sums = mx_infer(c->op, &(struct hadamard_args){ 1, a->transposed }, 1, &x);
        y[0] = mx_multiply(sums, mx_scalar_like(a->scale, sums));
        return;
    }
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
static mx unpacked_codes(mx w, int bits)
{
    bool whole = 32 % bits == 0;
    int wide_bits = whole ? bits : 1, each = 32 / wide_bits;
    mx place = mx_multiply(mx_arange(0, each, 1, DT_uint32), array_of_int(wide_bits, DT_uint32));
    mx mask = array_of_int(wide_bits == 32 ? -1 : (1 << wide_bits) - 1, DT_uint32);
    mx parts = mx_bitwise_and(mx_right_shift(mx_expand_dims(w, last, 1), place), mask);
    parts = mx_flatten(parts, -2, -1);
    if (whole)
        return parts;
    parts = mx_unflatten(parts, -1, 2, (int[]){ -1, bits });
    mx digit = mx_left_shift(parts, mx_arange(0, bits, 1, DT_uint32));
    return mx_sum(digit, last, 1, false);
}

COMPOSE(dequantize)
{
    const struct quant_args *a = c->args;
    bool affine = a->mode == MODE_AFFINE;
    mx codes = unpacked_codes(c->x[0], a->bits), scales = c->x[1];
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
    v = mx_unflatten(v, -1, 2, (int[]){ -1, a->group_size });
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
    for (int i = 0; i < c->nin && c->x[1]->ndim > 2; i++) { /* one batch */
        mx all[3] = { x[i], c->x[0], c->x[1] };
        x[i] = mx_broadcast_with(3, all, (int[]){ -2, -1 }, 2);
    }
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

/* ---- linear algebra */

/* As many columns of the full one as there are values. */
COMPOSE(svd)
{
    mx out[3];
    mx_svd(c->x[0], SVD_FULL, out);
    if (is_nil(out[0]))
        return;
    y[0] = composed_first(out[0], -1, size_of(out[1], -1));
    y[1] = out[1];
    y[2] = composed_first(out[2], -2, size_of(out[1], -1));
}

/* By the inverse, which says which matrices are singular; what that loses is solved for once more. */
COMPOSE(solve)
{
    const struct part_args *p = c->args;
    mx a = c->x[0], b = c->x[1];
    struct size square[MX_MAX_NDIM];
    int n = sizes_like(a, square);
    square[n - 1] = square[n - 2];
    a = mx_sizes_checked(a, n, square);
    mx inverse = p->part == PART_ALL ? mx_inv(a) : mx_tri_inv(a, p->part != PART_LOWER);
    y[0] = mx_matmul(inverse, b);
    if (p->part == PART_ALL)
        y[0] = mx_add(y[0], mx_matmul(inverse, mx_subtract(b, mx_matmul(a, y[0]))));
}

COMPOSE(pinv)
{
    mx x = c->x[0], usv[3];
    mx_svd(x, SVD_THIN, usv);
    mx s = usv[1];
    if (is_nil(s))
        return;
    mx rows = mx_count(x, x->ndim - 2, 1, s->dtype), columns = mx_count(x, x->ndim - 1, 1, s->dtype);
    mx eps = mx_scalar_like(s->dtype == DT_float64 ? DBL_EPSILON : FLT_EPSILON, s);
    mx least = mx_multiply(mx_slice_axis(s, -1, 0, 1, 1), mx_multiply(eps, mx_maximum(rows, columns)));
    s = mx_where(mx_less_equal(s, least), mx_scalar_like(0, s), mx_reciprocal(s));
    y[0] = mx_matmul(linalg_columns(linalg_adjoint(usv[2]), s), linalg_adjoint(usv[0]));
}

/* x[..., i, j] */
static mx entry(mx x, int i, int j) { return mx_squeeze(linalg_block(x, i, i + 1, j, j + 1), (int[]){ -2, -1 }, 2); }

/* Of rows i and i + 1, columns j and k. */
static mx minor_of(mx x, int i, int j, int k)
{
    return mx_subtract(mx_multiply(entry(x, i, j), entry(x, i + 1, k)),
                       mx_multiply(entry(x, i, k), entry(x, i + 1, j)));
}

static mx small_determinant(mx x)
{
    int n = dim(x, -1);
    if (n < 3)
        return n == 1 ? entry(x, 0, 0) : minor_of(x, 0, 0, 1);
    mx sum = mx_multiply(entry(x, 0, 0), minor_of(x, 1, 1, 2));
    sum = mx_add(sum, mx_multiply(entry(x, 0, 1), minor_of(x, 1, 2, 0)));
    return mx_add(sum, mx_multiply(entry(x, 0, 2), minor_of(x, 1, 0, 1)));
}

/* The sign, or direction, of a determinant, and numbers of which its modulus is the product.  The moduli are on the
 * diagonal of R in A = Q R; which way Q turns is in the eigenvalues. */
static mx determinant_parts(mx x, mx *moduli)
{
    mx qr[2], values = mx_eigvals(x);
    mx_qr(x, qr);
    struct size n = size_of(x, -1);
    mx r = mx_where(mx_eye_by(n, n, 0, DT_bool_), qr[1], mx_scalar_like(0, x));
    *moduli = mx_abs(mx_sum(r, last, 1, false));
    mx zero = mx_scalar_like(0, values), size = mx_astype(mx_abs(values), values->dtype);
    mx sign = mx_prod(mx_where(mx_equal(values, zero), zero, mx_divide(values, size)), last, 1, false);
    return mx_astype(dtype_is_complex(x->dtype) ? sign : mx_rint(mx_real(sign)), x->dtype);
}

static bool is_small(mx x) { return !shapeless() && dim(x, -1) >= 1 && dim(x, -1) <= 3; }

COMPOSE(det)
{
    mx moduli, x = c->x[0];
    if (is_small(x)) {
        y[0] = small_determinant(x);
        return;
    }
    mx sign = determinant_parts(x, &moduli);
    y[0] = mx_multiply(sign, mx_prod(moduli, last, 1, false));
}

COMPOSE(slogdet)
{
    mx moduli, x = c->x[0];
    if (is_small(x)) {
        mx det = small_determinant(x);
        y[0] = mx_where(mx_isnan(det), det, mx_sign(det));
        y[1] = mx_log(mx_abs(det));
        return;
    }
    y[0] = determinant_parts(x, &moduli);
    mx sum = mx_sum(mx_log(moduli), last, 1, false), none = mx_scalar_like(0, y[0]);
    y[1] = mx_where(mx_equal(y[0], none), mx_scalar_like(-INFINITY, sum), sum);
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
    shapes_matter("recurrence"); /* as many steps as its axis is long need */
    for (int by = 1; by < dim(b, r->axis); by *= 2) {
        b = mx_add(b, mx_multiply(a, moved_on(b, r->axis, by, r->reverse, 0)));
        a = mx_multiply(a, moved_on(a, r->axis, by, r->reverse, 1));
    }
    y[0] = b;
}

COMPOSE(compiled) { op_compiled.compose(c, y); }

/* What a function with rules of its own computed. */
COMPOSE(custom)
{
    for (int k = 0; k < c->nout; k++) y[k] = c->x[c->nin - c->nout + k];
}
