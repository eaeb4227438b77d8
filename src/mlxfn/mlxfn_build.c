/* mlxfn_build.c: what the primitives of exported functions compute, in our builders, which check what a
 * file asks for.
 *
 * Where shapes are declared (`like`) they count, not what the state says of them. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "mlxfn/mlxfn.h"
#include "ops/fast.h"
#include "ops/random.h"
#include "ops/rules.h"

#define BUILD(name) void build_##name(const struct building *b, mx y[])
#define ONE(name, expression) \
    BUILD(name)               \
    {                         \
        const mx *x = b->x;   \
        y[0] = expression;    \
    }

static const int last[] = { -1 };

/* Field k of the state. */
static int32_t number_field(const struct building *b, int k) { return b->s->v[k].i; }
static bool flag(const struct building *b, int k) { return b->s->v[k].b; }
static double real_of(const struct building *b, int k) { return b->s->v[k].f; }
static bool absent(const struct building *b, int k) { return b->s->v[k].kind == '-'; }

/* A list of at most MX_MAX_NDIM numbers: how many, -1 after a failure. */
static int list(const struct building *b, int k, int out[])
{
    const struct wire_value *v = &b->s->v[k];
    if (v->n > MX_MAX_NDIM) {
        mx_fail("[%s] expected at most %d numbers in a list, got %llu", b->p->name, MX_MAX_NDIM,
                (unsigned long long)v->n);
        return -1;
    }
    for (uint64_t i = 0; i < v->n; i++) {
        if (v->v[i] < INT32_MIN || v->v[i] > INT32_MAX) {
            mx_fail("[%s] the number %lld is too large", b->p->name, (long long)v->v[i]);
            return -1;
        }
        out[i] = (int)v->v[i];
    }
    return (int)v->n;
}

/* The same with one number for each dimension of x. */
static bool list_for(const struct building *b, int k, mx x, int out[])
{
    int n = list(b, k, out);
    if (n >= 0 && n != x->ndim)
        mx_fail("[%s] expected a number for each of %d dimensions, got %d", b->p->name, x->ndim, n);
    return n == x->ndim;
}

/* An enumeration, of which `names` are given; -1 after a failure. */
static int choice(const struct building *b, int k, int n)
{
    int v = number_field(b, k);
    if (v >= 0 && v < n)
        return v;
    mx_fail("[%s] expected a number from 0 to %d, got %d", b->p->name, n - 1, v);
    return -1;
}

static bool build_operands(const struct building *b, int least, int most)
{
    if (b->nin >= least && b->nin <= most)
        return true;
    mx_fail("[%s] expected %d to %d operands, got %d", b->p->name, least, most, b->nin);
    return false;
}

static bool results(const struct building *b, int n)
{
    if (b->nout != n)
        mx_fail("[%s] expected %d results, got %d", b->p->name, n, b->nout);
    return b->nout == n;
}

/* ---- element by element */

ONE(Abs, mx_abs(x[0]))
ONE(Add, mx_add(x[0], x[1]))
ONE(ArcCos, mx_arccos(x[0]))
ONE(ArcCosh, mx_arccosh(x[0]))
ONE(ArcSin, mx_arcsin(x[0]))
ONE(ArcSinh, mx_arcsinh(x[0]))
ONE(ArcTan, mx_arctan(x[0]))
ONE(ArcTan2, mx_arctan2(x[0], x[1]))
ONE(ArcTanh, mx_arctanh(x[0]))
ONE(AsType, mx_astype(x[0], (enum dtype)number_field(b, 0)))
ONE(Ceil, mx_ceil(x[0]))
ONE(Conjugate, mx_conjugate(x[0]))
ONE(Copy, mx_copy(x[0]))
ONE(Cos, mx_cos(x[0]))
ONE(Cosh, mx_cosh(x[0]))
ONE(Divide, mx_divide(x[0], x[1]))
ONE(Erf, mx_erf(x[0]))
ONE(ErfInv, mx_erfinv(x[0]))
ONE(Exp, mx_exp(x[0]))
ONE(Expm1, mx_expm1(x[0]))
ONE(Floor, mx_floor(x[0]))
ONE(FloorDivide, mx_floor_divide(x[0], x[1]))
ONE(Full, mx_full_like(x[0], x[0], b->declared->dtype))
ONE(Greater, mx_greater(x[0], x[1]))
ONE(GreaterEqual, mx_greater_equal(x[0], x[1]))
ONE(Imag, mx_imag(x[0]))
ONE(Less, mx_less(x[0], x[1]))
ONE(LessEqual, mx_less_equal(x[0], x[1]))
ONE(Log1p, mx_log1p(x[0]))
ONE(LogAddExp, mx_logaddexp(x[0], x[1]))
ONE(LogicalAnd, mx_logical_and(x[0], x[1]))
ONE(LogicalNot, mx_logical_not(x[0]))
ONE(LogicalOr, mx_logical_or(x[0], x[1]))
ONE(Maximum, mx_maximum(x[0], x[1]))
ONE(Minimum, mx_minimum(x[0], x[1]))
ONE(Multiply, mx_multiply(x[0], x[1]))
ONE(Negative, mx_negative(x[0]))
ONE(NotEqual, mx_not_equal(x[0], x[1]))
ONE(Power, mx_power(x[0], x[1]))
ONE(Real, mx_real(x[0]))
ONE(Remainder, mx_remainder(x[0], x[1]))
ONE(Round, mx_rint(x[0]))
ONE(Select, mx_where(x[0], x[1], x[2]))
ONE(Sigmoid, mx_sigmoid(x[0]))
ONE(Sign, mx_sign(x[0]))
ONE(Sin, mx_sin(x[0]))
ONE(Sinh, mx_sinh(x[0]))
ONE(Sqrt, flag(b, 0) ? mx_rsqrt(x[0]) : mx_sqrt(x[0]))
ONE(Square, mx_square(x[0]))
ONE(StopGradient, mx_stop_gradient(x[0]))
ONE(Subtract, mx_subtract(x[0], x[1]))
ONE(Tan, mx_tan(x[0]))
ONE(Tanh, mx_tanh(x[0]))
ONE(View, mx_view(x[0], (enum dtype)number_field(b, 0)))

BUILD(Log)
{
    static mx (*const by_base[])(mx) = { mx_log2, mx_log10, mx_log };
    int base = choice(b, 0, 3);
    y[0] = base < 0 ? MX_NIL : by_base[base](b->x[0]);
}

BUILD(BitwiseBinary)
{
    static mx (*const by_kind[])(mx, mx) = { mx_bitwise_and, mx_bitwise_or, mx_bitwise_xor, mx_left_shift,
                                             mx_right_shift };
    int kind = choice(b, 0, 5);
    y[0] = kind < 0 ? MX_NIL : by_kind[kind](b->x[0], b->x[1]);
}

BUILD(Equal)
{
    mx u = b->x[0], v = b->x[1];
    y[0] = mx_equal(u, v);
    if (flag(b, 0))
        y[0] = mx_logical_or(y[0], mx_logical_and(mx_not_equal(u, u), mx_not_equal(v, v)));
}

BUILD(DivMod) { mx_divmod(b->x[0], b->x[1], y); }

/* Elements of the source, in order, where the mask is true. */
BUILD(MaskedScatter)
{
    mx x = b->x[0], mask = mx_astype(b->x[1], DT_bool_), from = b->x[2];
    y[0] = x;
    if (is_nil(x) || is_nil(mask) || is_nil(from) || from->size == 0 || x->size == 0)
        return;
    if (x->ndim == 0 || from->ndim == 0 || dim(x, 0) != dim(from, 0) || !same_shape(x, mask)) {
        y[0] = mx_fail("[MaskedScatter] expected an array and a mask of one shape and a source of as many examples, "
                       "got shapes %s, %s and %s",
                       shape_of(x), shape_of(mask), shape_of(from));
        return;
    }
    int rows[2] = { dim(x, 0), -1 };
    mx flat = mx_reshape(mx_astype(from, x->dtype), 2, rows);
    mx place = mx_mask_order(mx_reshape(mask, 2, rows), 1);
    place = mx_minimum(place, array_of_int(dim(flat, 1) - 1, DT_int32));
    y[0] = mx_where(mask, mx_reshape(mx_take_along_axis(flat, place, 1), x->ndim, x->shape), x);
}

/* ---- out of nothing */

BUILD(Arange)
{
    const struct wire_value *v = b->s->v;
    double start = v[0].d, stop = v[1].d, step = v[2].d;
    enum dtype t = b->declared->dtype;
    y[0] = mx_arange(start, stop, step, t);
    if (b->like && b->like->ndim == 1 && !mx_failed() && dim(y[0], 0) != b->like->shape[0])
        y[0] = mx_arange(start, start + step * (b->like->shape[0] - 0.5), step, t);
}

BUILD(NumberOfElements)
{
    int axes[MX_MAX_NDIM], n = list(b, 0, axes);
    y[0] = n < 0 ? MX_NIL : mx_number_of_elements(b->x[0], axes, n, flag(b, 1), (enum dtype)number_field(b, 2));
}

/* The shape begins with the leading axes of the keys. */
BUILD(RandomBits)
{
    mx key = b->x[0];
    int shape[MX_MAX_NDIM], n = list(b, 0, shape), width = number_field(b, 1), lead = key->ndim - 1;
    int64_t v[MX_MAX_NDIM];
    y[0] = MX_NIL;
    if (n < 0)
        return;
    if (b->like) {
        n = b->like->ndim;
        memcpy(shape, b->like->shape, (size_t)n * sizeof *shape);
    }
    if (key->dtype != DT_uint32 || key->ndim == 0 || dim(key, -1) != 2)
        y[0] = mx_fail("[RandomBits] expected keys of two uint32, got %s of shape %s", dtype_name(key->dtype),
                       shape_of(key));
    else if (width != 1 && width != 2 && width != 4)
        y[0] = mx_fail("[RandomBits] expected a width of 1, 2 or 4 bytes, got %d", width);
    else if (n < lead || memcmp(shape, key->shape, (size_t)lead * sizeof *shape))
        y[0] = mx_fail("[RandomBits] expected a shape that begins as that of the keys, %s, got %s", shape_of(key),
                       shape_text(n, shape));
    else if (shape_size("RandomBits", n, shape) >= 0)
        y[0] =
            mx_infer(&op_random_bits, &(struct random_bits_args){ ints_of(n - lead, shape + lead, v), width }, 1, &key);
}

/* ---- shapes */

BUILD(Broadcast)
{
    int shape[MX_MAX_NDIM], n = list(b, 0, shape);
    y[0] = MX_NIL;
    if (n < 0 || !build_operands(b, 1, INT32_MAX))
        return;
    if (b->like)
        y[0] = mx_broadcast_to(b->x[0], b->like->ndim, b->like->shape);
    else if (b->nin == 1)
        y[0] = mx_broadcast_to(b->x[0], n, shape);
    else
        y[0] = mx_broadcast_with(b->nin, b->x, NULL, 0);
}

/* Without axes, and of two arrays, it is in our files for both to have one shape. */
BUILD(BroadcastAxes)
{
    int axes[MX_MAX_NDIM], n = list(b, 0, axes);
    const mx *x = b->x;
    bool alike = n == 0 && b->nin == 2 && !is_nil(x[0]) && !is_nil(x[1]);
    if (n < 0 || !build_operands(b, 1, INT32_MAX))
        y[0] = MX_NIL;
    else if (alike && !same_shape(x[0], x[1]))
        y[0] = mx_fail("[BroadcastAxes] expected shape %s, got %s", shape_of(x[1]), shape_of(x[0]));
    else
        y[0] = alike ? mx_shape_checked(x[0], x[1]) : mx_broadcast_with(b->nin, x, axes, n);
}

ONE(Flatten, mx_flatten(x[0], number_field(b, 0), number_field(b, 1)))
ONE(Concatenate, mx_concatenate(b->nin, x, number_field(b, 0)))
ONE(Sort, mx_sort(x[0], number_field(b, 0)))
ONE(ArgSort, mx_argsort(x[0], number_field(b, 0)))
ONE(Partition, mx_partition(x[0], number_field(b, 0), number_field(b, 1)))
ONE(ArgPartition, mx_argpartition(x[0], number_field(b, 0), number_field(b, 1)))
ONE(SearchSorted, mx_searchsorted(x[0], x[1], flag(b, 0)))

BUILD(Reshape)
{
    int shape[MX_MAX_NDIM], n = list(b, 0, shape);
    if (n < 0)
        y[0] = MX_NIL;
    else if (b->like)
        y[0] = mx_reshape(b->x[0], b->like->ndim, b->like->shape);
    else
        y[0] = mx_reshape(b->x[0], n, shape);
}

BUILD(Unflatten)
{
    int shape[MX_MAX_NDIM], n = list(b, 1, shape);
    y[0] = n < 0 ? MX_NIL : mx_unflatten(b->x[0], number_field(b, 0), n, shape);
}

BUILD(ExpandDims)
{
    int axes[MX_MAX_NDIM], n = list(b, 0, axes);
    y[0] = n < 0 ? MX_NIL : mx_expand_dims(b->x[0], axes, n);
}

BUILD(Squeeze)
{
    int axes[MX_MAX_NDIM], n = list(b, 0, axes);
    y[0] = n < 0 ? MX_NIL : mx_squeeze(b->x[0], axes, n);
}

BUILD(Transpose)
{
    int axes[MX_MAX_NDIM], n = list(b, 0, axes);
    y[0] = n < 0 ? MX_NIL : mx_transpose(b->x[0], axes, n);
}

BUILD(AsStrided)
{
    const struct wire_value *v = b->s->v;
    int shape[MX_MAX_NDIM], n = list(b, 0, shape);
    y[0] = MX_NIL;
    if (n < 0)
        return;
    if (v[1].n != (uint64_t)n || v[2].u > INT64_MAX)
        mx_fail("[AsStrided] expected a stride for each of %d dimensions and an offset that fits, got %llu and %llu", n,
                (unsigned long long)v[1].n, (unsigned long long)v[2].u);
    else
        y[0] = mx_as_strided(b->x[0], n, shape, v[1].v, (int64_t)v[2].u);
}

BUILD(Pad)
{
    int axes[MX_MAX_NDIM], low[MX_MAX_NDIM], high[MX_MAX_NDIM], n = list(b, 0, axes);
    y[0] = MX_NIL;
    if (n < 0 || list(b, 1, low) != n || list(b, 2, high) != n)
        mx_fail("[Pad] expected padding before and behind for each of %d axes", n);
    else
        y[0] = mx_pad(b->x[0], axes, n, low, high, b->x[1], PAD_CONSTANT);
}

BUILD(Split)
{
    const struct wire_value *v = &b->s->v[0];
    for (int k = 0; k < b->nout; k++) y[k] = MX_NIL;
    if (!results(b, (int)v->n + 1))
        return;
    int *at = mx_malloc((v->n + 1) * sizeof *at);
    if (!at)
        return;
    for (uint64_t i = 0; i < v->n; i++) at[i] = (int)v->v[i];
    mx_split_at(b->x[0], at, (int)v->n, number_field(b, 1), y);
    free(at);
}

/* Where a slice of x lies that has `count` elements along each axis. */
static bool slice_bounds(const struct building *b, int k, mx x, const int *count, int start[], int stop[], int step[])
{
    if (is_nil(x) || !list_for(b, k, x, start) || !list_for(b, k + 1, x, stop) || !list_for(b, k + 2, x, step))
        return false;
    for (int i = 0; i < x->ndim; i++) {
        int64_t n = x->shape[i], first = start[i], end = first + (count[i] - (int64_t)1) * step[i];
        if (count[i] <= 0) {
            start[i] = stop[i] = 0;
            step[i] = 1;
            continue;
        }
        if (first < 0 || first >= n || end < 0 || end >= n || (step[i] == 0 && count[i] > 1)) {
            mx_fail("[%s] %d elements from %d in steps of %d are not within axis %d of an array of shape %s",
                    b->p->name, count[i], start[i], step[i], i, shape_of(x));
            return false;
        }
        if (count[i] == 1)
            step[i] = 1;
        int64_t behind = end + (step[i] < 0 ? -1 : 1);
        stop[i] = behind < 0 ? (int)(-n - 1) : (int)behind;
    }
    return true;
}

BUILD(Slice)
{
    int start[MX_MAX_NDIM], stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    mx x = b->x[0];
    y[0] = MX_NIL;
    if (!b->like || b->like->ndim != x->ndim)
        mx_fail("[Slice] expected as many dimensions as the %d of the operand", x->ndim);
    else if (slice_bounds(b, 0, x, b->like->shape, start, stop, step))
        y[0] = mx_slice(x, start, stop, step);
}

static const enum scatter_fold folds[] = { SCATTER_MAX, SCATTER_MIN, SCATTER_ADD, SCATTER_PROD, SCATTER_SET };

BUILD(SliceUpdate)
{
    int start[MX_MAX_NDIM], stop[MX_MAX_NDIM], step[MX_MAX_NDIM], mode = absent(b, 0) ? 4 : choice(b, 0, 5);
    mx x = b->x[0], u = b->x[1];
    y[0] = MX_NIL;
    if (is_nil(u) || mode < 0)
        return;
    if (u->ndim != x->ndim)
        mx_fail("[SliceUpdate] expected an update of %d dimensions, got shape %s", x->ndim, shape_of(u));
    else if (slice_bounds(b, 1, x, u->shape, start, stop, step))
        y[0] = mx_slice_update_fold(x, u, start, stop, step, folds[mode]);
}

BUILD(DynamicSlice)
{
    int axes[MX_MAX_NDIM], sizes[MX_MAX_NDIM], n = list(b, 0, axes);
    y[0] = n < 0 || !list_for(b, 1, b->x[0], sizes) ? MX_NIL : mx_slice_dynamic(b->x[0], b->x[1], axes, n, sizes);
}

BUILD(DynamicSliceUpdate)
{
    int axes[MX_MAX_NDIM], n = list(b, 0, axes);
    y[0] = n < 0 ? MX_NIL : mx_slice_update_dynamic(b->x[0], b->x[1], b->x[2], axes, n);
}

/* ---- indices */

BUILD(Gather)
{
    int axes[MX_MAX_NDIM], sizes[MX_MAX_NDIM], n = list(b, 0, axes);
    y[0] = MX_NIL;
    if (n >= 0 && build_operands(b, n + 1, n + 1) && list_for(b, 1, b->x[0], sizes))
        y[0] = mx_gather(b->x[0], b->x + 1, axes, n, sizes);
}

BUILD(Scatter)
{
    int axes[MX_MAX_NDIM], n = list(b, 1, axes), mode = choice(b, 0, 5);
    y[0] = MX_NIL;
    if (n >= 0 && mode >= 0 && build_operands(b, n + 2, n + 2))
        y[0] = mx_scatter(b->x[0], b->x + 1, axes, n, b->x[n + 1], folds[mode]);
}

ONE(GatherAxis, mx_take_along_axis(x[0], x[1], number_field(b, 0)))

BUILD(ScatterAxis)
{
    int mode = choice(b, 0, 2);
    if (mode < 0)
        y[0] = MX_NIL;
    else if (mode == 0)
        y[0] = mx_scatter_add_axis(b->x[0], b->x[1], b->x[2], number_field(b, 1));
    else
        y[0] = mx_put_along_axis(b->x[0], b->x[1], b->x[2], number_field(b, 1));
}

/* ---- reductions and scans */

BUILD(Reduce)
{
    static const enum fold by_kind[] = { FOLD_ALL, FOLD_ANY, FOLD_SUM, FOLD_PROD, FOLD_MIN, FOLD_MAX };
    int axes[MX_MAX_NDIM], n = list(b, 1, axes), kind = choice(b, 0, 6);
    y[0] = n < 0 || kind < 0 ? MX_NIL : mx_reduce(b->x[0], by_kind[kind], axes, n, true);
}

BUILD(ArgReduce)
{
    int kind = choice(b, 0, 2);
    y[0] = kind < 0 ? MX_NIL : mx_arg_reduce(b->x[0], kind ? ARG_MAX : ARG_MIN, number_field(b, 1), true);
}

BUILD(Scan)
{
    static const enum scan_fold by_kind[] = { SCAN_MAX, SCAN_MIN, SCAN_SUM, SCAN_PROD, SCAN_LOGSUMEXP };
    int kind = choice(b, 0, 5);
    y[0] = kind < 0 ? MX_NIL : mx_scan(b->x[0], by_kind[kind], number_field(b, 1), flag(b, 2), flag(b, 3));
}

ONE(LogSumExp, mx_logsumexp(x[0], last, 1, true))
ONE(Softmax, mx_softmax(x[0], last, 1, flag(b, 0)))

/* ---- products and transforms */

ONE(Matmul, mx_matmul(x[0], x[1]))
/* The mlx package writes the summand broadcast to the product of the traced operands, in files for any shape too
 * (and reads beyond it there). */
ONE(AddMM, mx_addmm(b->like ? x[2] : b->narrow[2], x[0], x[1], real_of(b, 0), real_of(b, 1)))
ONE(GatherMM, mx_gather_mm(x[0], x[1], x[2], x[3]))

BUILD(Hadamard)
{
    double scale = real_of(b, 0);
    y[0] = mx_hadamard_transform(b->x[0], &scale);
}

BUILD(BlockMaskedMM)
{
    const mx *x = b->x;
    int n = b->nin;
    y[0] = MX_NIL;
    if (build_operands(b, 2, 5))
        y[0] = mx_block_masked_mm(x[0], x[1], number_field(b, 0), n % 2 ? x[2] : NULL, n > 3 ? x[n - 2] : NULL,
                                  n > 3 ? x[n - 1] : NULL);
}

/* The order of the numbers has changed: padding was first, and before that one for both ends. */
BUILD(Convolution)
{
    int at[5] = { 0, 1, 2, 3, 4 }, v[5][MX_MAX_NDIM], n = -1;
    if (b->version < 26002)
        memcpy(at, absent(b, 1) ? (int[]){ 2, 0, 0, 3, 4 } : (int[]){ 2, 0, 1, 3, 4 }, sizeof at);
    y[0] = MX_NIL;
    for (int k = 0; k < 5; k++) {
        int m = list(b, at[k], v[k]);
        if (m < 0 || (k && m != n)) {
            mx_fail("[Convolution] expected numbers for every spatial axis alike");
            return;
        }
        n = m;
    }
    struct conv g = { .n = n,
                      .stride = v[0],
                      .low = v[1],
                      .high = v[2],
                      .dilation = v[3],
                      .input_dilation = v[4],
                      .groups = number_field(b, 5),
                      .flip = flag(b, 6) };
    if (b->x[0]->ndim != n + 2)
        mx_fail("[Convolution] expected an input with %d spatial axes, got shape %s", n, shape_of(b->x[0]));
    else
        y[0] = mx_conv("Convolution", b->x[0], b->x[1], &g);
}

BUILD(FFT)
{
    mx x = b->x[0];
    int axes[MX_MAX_NDIM], sizes[MX_MAX_NDIM], n = list(b, 0, axes);
    bool inverse = flag(b, 1), real = flag(b, 2), odd = flag(b, 3);
    y[0] = MX_NIL;
    if (n < 0)
        return;
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0 || axes[i] >= x->ndim) {
            mx_fail_as(MX_AXIS, "[FFT] axis %d is out of range for an array with %d dimensions", axes[i], x->ndim);
            return;
        }
        sizes[i] = x->shape[axes[i]];
    }
    if (real && inverse && n) {
        int end = axes[n - 1];
        if (absent(b, 3) && b->like && b->like->ndim == x->ndim)
            odd = b->like->shape[end] % 2;
        int64_t size = 2 * ((int64_t)x->shape[end] - 1) + odd;
        if ((sizes[n - 1] = dim_of("FFT", size < 0 ? 0 : size)) < 0)
            return;
    }
    enum fft_kind kind = !real ? FFT_COMPLEX : inverse ? FFT_HERMITIAN : FFT_REAL;
    y[0] = mx_fftn(x, kind, inverse, sizes, n, axes, n, FFT_BACKWARD);
}

/* ---- packed weights */

static const char *mode_of(const struct building *b, int k)
{
    static const char *const names[] = { "affine", "mxfp4", "mxfp8", "nvfp4" };
    int mode = absent(b, k) ? 0 : choice(b, k, 4);
    return mode < 0 ? NULL : names[mode];
}

BUILD(Quantize)
{
    const mx *x = b->x;
    const char *mode = mode_of(b, 3);
    for (int k = 0; k < b->nout; k++) y[k] = MX_NIL;
    if (!mode)
        return;
    bool affine = mode[0] == 'a';
    int parts = affine ? 3 : 2, size = number_field(b, 1), bits = number_field(b, 2);
    if (flag(b, 4)) {
        if (!build_operands(b, parts, parts + !affine) || !results(b, 1))
            return;
        enum dtype t = b->declared->dtype;
        y[0] = mx_dequantize(x[0], x[1], affine ? x[2] : NULL, size, bits, mode, b->nin > parts ? x[parts] : NULL, &t);
        return;
    }
    mx out[3];
    if (!build_operands(b, 1, 2) || !results(b, parts))
        return;
    if (mx_quantize(x[0], size, bits, mode, b->nin > 1 ? x[1] : NULL, out) == parts)
        memcpy(y, out, (size_t)parts * sizeof *y);
}

BUILD(QuantizedMatmul)
{
    const mx *x = b->x;
    const char *mode = mode_of(b, 2);
    bool affine = mode && mode[0] == 'a';
    y[0] = MX_NIL;
    if (mode && build_operands(b, 3 + affine, 3 + affine))
        y[0] = mx_quantized_matmul(x[0], x[1], x[2], affine ? x[3] : NULL, flag(b, 3), number_field(b, 0),
                                   number_field(b, 1), mode);
}

BUILD(GatherQMM)
{
    const mx *x = b->x;
    const char *mode = mode_of(b, 2);
    bool affine = mode && mode[0] == 'a';
    y[0] = MX_NIL;
    if (mode && build_operands(b, 5 + affine, 5 + affine))
        y[0] = mx_gather_qmm(x[0], x[1], x[2], affine ? x[3] : NULL, x[b->nin - 2], x[b->nin - 1], flag(b, 3),
                             number_field(b, 0), number_field(b, 1), mode, NULL);
}

/* ---- linear algebra */

ONE(Cholesky, mx_cholesky(x[0], flag(b, 0)))
ONE(Inverse, flag(b, 0) ? mx_tri_inv(x[0], flag(b, 1)) : mx_inv(x[0]))

BUILD(QRF) { mx_qr(b->x[0], y); }

BUILD(SVD)
{
    mx x = b->x[0], out[3] = { MX_NIL, MX_NIL, MX_NIL };
    bool vectors = absent(b, 0) ? b->nout > 1 : flag(b, 0);
    if (results(b, vectors ? 3 : 1)) {
        bool thin = b->like && b->like->ndim >= 2 && x->ndim >= 2 && b->like->ndim == x->ndim && vectors &&
                    b->like[2].ndim == x->ndim &&
                    (b->like[0].shape[x->ndim - 1] != dim(x, -2) || b->like[2].shape[x->ndim - 2] != dim(x, -1));
        mx_svd(x, !vectors ? SVD_VALUES : thin ? SVD_THIN : SVD_FULL, out);
    }
    for (int k = 0; k < b->nout; k++) y[k] = k < 3 ? out[k] : MX_NIL;
}

BUILD(Eig)
{
    mx out[2] = { MX_NIL, MX_NIL };
    bool vectors = flag(b, 0);
    if (results(b, 1 + vectors)) {
        if (vectors)
            mx_eig(b->x[0], out);
        else
            out[0] = mx_eigvals(b->x[0]);
    }
    for (int k = 0; k < b->nout; k++) y[k] = k < 2 ? out[k] : MX_NIL;
}

BUILD(Eigh)
{
    mx out[2] = { MX_NIL, MX_NIL };
    const struct wire_value *v = b->s->v;
    bool vectors = flag(b, 1);
    char uplo[2] = { v[0].n == 1 ? v[0].s[0] : '?', 0 };
    if (results(b, 1 + vectors)) {
        if (vectors)
            mx_eigh(b->x[0], uplo, out);
        else
            out[0] = mx_eigvalsh(b->x[0], uplo);
    }
    for (int k = 0; k < b->nout; k++) y[k] = k < 2 ? out[k] : MX_NIL;
}

/* ---- fused operations: an array of rank 0 stands for one that is left out */

static mx unless_scalar(mx x) { return x->ndim ? x : NULL; }

ONE(RMSNorm, mx_rms_norm(x[0], unless_scalar(x[1]), real_of(b, 1)))
ONE(LayerNorm, mx_layer_norm(x[0], unless_scalar(x[1]), unless_scalar(x[2]), real_of(b, 1)))

/* The gradients of a norm: of x and of the n - 1 operands behind it, zero for those left out. */
static void norm_gradients(mx y, int n, const mx x[], mx ct, mx out[])
{
    mx dx[3] = { NULL }, ct1[1] = { ct };
    for (int i = 0; i < n; i++) out[i] = MX_NIL;
    if (is_nil(y) || is_nil(ct) || !y->node)
        return;
    if (!same_shape(y, ct)) {
        mx_fail("[vjp] expected a cotangent of shape %s, got %s", shape_of(y), shape_of(ct));
        return;
    }
    struct node *e = y->node;
    struct call c = { e->op, e->args, e->nin, 1, e->in, &y };
    ct1[0] = mx_astype(ct, y->dtype);
    e->op->vjp(&c, ct1, (bool[]){ true, true, true }, dx);
    for (int i = 0, k = 0; i < n; i++) out[i] = i && x[i]->ndim == 0 ? zeros_of(x[i]) : mx_astype(dx[k++], x[i]->dtype);
}

BUILD(RMSNormVJP)
{
    const mx *x = b->x;
    norm_gradients(mx_rms_norm(x[0], unless_scalar(x[1]), real_of(b, 1)), 2, x, x[2], y);
}

BUILD(LayerNormVJP)
{
    const mx *x = b->x;
    norm_gradients(mx_layer_norm(x[0], unless_scalar(x[1]), unless_scalar(x[2]), real_of(b, 1)), 3, x, x[3], y);
}

BUILD(RoPE)
{
    y[0] = MX_NIL;
    if (!build_operands(b, 2, 3))
        return;
    mx freqs = b->nin > 2 ? b->x[2] : NULL;
    double base = real_of(b, 3), scale = real_of(b, 4);
    y[0] = mx_rope(b->x[0], number_field(b, 1), flag(b, 2), freqs ? NULL : &base, scale, b->x[1], freqs);
    if (is_nil(y[0]) || flag(b, 5))
        return;
    struct rope_args a = *(const struct rope_args *)y[0]->node->args; /* and back */
    a.inverse = true;
    y[0] = mx_infer(&op_rope, &a, y[0]->node->nin, y[0]->node->in);
}

/* Attention keeps of every row its largest score and the sum of exp(score - largest). */
BUILD(ScaledDotProductAttention)
{
    const mx *x = b->x;
    bool sinks = flag(b, 3), sum = flag(b, 4);
    for (int k = 0; k < b->nout; k++) y[k] = MX_NIL;
    if (!build_operands(b, 3 + sinks, 4 + sinks) || !results(b, 1 + sum))
        return;
    y[0] = mx_attention(x[0], x[1], x[2], real_of(b, 1), flag(b, 2), b->nin > 3 + sinks ? x[3] : NULL,
                        sinks ? x[b->nin - 1] : NULL);
    if (!sum || is_nil(y[0]))
        return;
    mx top = scope_lend(node_output(y[0]->node, 1)), rest = scope_lend(node_output(y[0]->node, 2));
    y[1] = mx_astype(mx_add(top, mx_log(rest)), DT_float32);
    if (b->like)
        y[1] = mx_reshape(y[1], b->like[1].ndim, b->like[1].shape);
}

BUILD(CustomKernel)
{
    for (int k = 0; k < b->nout; k++) y[k] = MX_NIL;
    mx_fail_as(MX_RUNTIME, "[CustomKernel] the kernel '%.*s' is written for a GPU, and there is none here",
               b->s->v[0].n < 60 ? (int)b->s->v[0].n : 60, b->s->v[0].s);
}

/* ---- order of evaluation */

BUILD(Depends)
{
    for (int k = 0; k < b->nout; k++) y[k] = MX_NIL;
    if (b->nout < 1 || b->nout > b->nin)
        mx_fail("[Depends] expected 1 to %d results, got %d", b->nin, b->nout);
    else
        mx_depends(b->nout, b->x, b->nin - b->nout, b->x + b->nout, y);
}
