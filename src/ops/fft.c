/* fft.c: discrete Fourier transforms.
 *
 * A node is a transform along one axis; those of several axes are chains.  Transforms are linear:
 * forward derivatives are the same transform, and the adjoint of the complex one is the one in the
 * other direction.  Between real sequences and half of their transform, the adjoint goes the other
 * way with the numbers weighed by how often the whole transform has them, once or twice. */
#include "ops/fft.h"

#include <math.h>
#include <string.h>

#include "core/scope.h"
#include "ops/rules.h"

static const struct field fft_args_fields[] = { ENUM(fft_args, kind, FFT_HERMITIAN),
                                                FIELD(fft_args, axis),
                                                FIELD(fft_args, n),
                                                FIELD(fft_args, inverse),
                                                FIELD(fft_args, scale),
                                                { 0 } };

static int fft_shapes(const struct call *c, struct spec out[])
{
    const struct fft_args *a = c->args;
    spec_like(out, c->x[0]);
    out->dtype = a->kind == FFT_HERMITIAN ? DT_float32 : DT_complex64;
    out->shape[a->axis] = a->kind == FFT_REAL ? a->n / 2 + 1 : a->n;
    return 0;
}

/* x along the axis times 1 at the ends that stand for themselves, else `inside`. */
static mx weighed(mx x, const struct fft_args *a, double inside)
{
    int64_t half = a->n / 2 + 1;
    mx k = mx_arange(0, (double)half, 1, DT_int32), zero = array_of_int(0, DT_int32);
    mx end = mx_equal(k, zero);
    if (a->n % 2 == 0)
        end = mx_logical_or(end, mx_equal(k, array_of_int(a->n / 2, DT_int32)));
    mx w = mx_where(end, array_of_double(1, DT_float32), array_of_double(inside, DT_float32));
    int shape[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++) shape[i] = 1;
    shape[a->axis] = a->n / 2 + 1;
    return mx_multiply(x, mx_reshape(w, x->ndim, shape));
}

static void fft_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    struct fft_args back = *(const struct fft_args *)c->args;
    mx d = ct[0];
    back.inverse = !back.inverse;
    if (back.kind == FFT_REAL) {
        d = weighed(d, &back, 0.5);
        back.kind = FFT_HERMITIAN;
        dx[0] = mx_infer(&op_fft, &back, 1, &d);
    } else if (back.kind == FFT_HERMITIAN) {
        back.kind = FFT_REAL;
        dx[0] = weighed(mx_infer(&op_fft, &back, 1, &d), &back, 2);
    } else {
        dx[0] = mx_infer(&op_fft, &back, 1, &d);
    }
}

static void fft_jvp(const struct call *c, const mx t[], mx dy[]) { dy[0] = mx_infer(c->op, c->args, 1, t); }

static void fft_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct fft_args a = *(const struct fft_args *)c->args;
    mx x = batch_first(c->x[0], axis[0]);
    a.axis++;
    y[0] = mx_infer(c->op, &a, 1, &x);
    yaxis[0] = 0;
}

const struct op op_fft = {
    OP_ROW(fft), ARGS(fft_args), .shapes = fft_shapes, .vjp = fft_vjp, .jvp = fft_jvp, .vmap = fft_vmap,
};

/* ---- builders */

static const char *name_of_fft(enum fft_kind kind, bool inverse)
{
    return kind == FFT_REAL ? "rfft" : kind == FFT_HERMITIAN ? "irfft" : inverse ? "ifft" : "fft";
}

/* Cut or filled up with zeros to n along the axis. */
static mx resized(mx x, int axis, int n)
{
    int have = dim(x, axis), low = 0, high = n - have;
    if (have < n)
        return mx_pad(x, &axis, 1, &low, &high, array_of_int(0, x->dtype), PAD_CONSTANT);
    return have == n ? x : mx_slice_axis(x, axis, 0, n, 1);
}

static mx fft_along(mx x, enum fft_kind kind, int axis, int n, bool inverse, double scale)
{
    x = resized(x, axis, kind == FFT_HERMITIAN ? n / 2 + 1 : n);
    return mx_infer(&op_fft, &(struct fft_args){ kind, axis, n, inverse, scale }, 1, &x);
}

/* The axes asked for; how many, or -1 after a failure. */
static int fft_axes(const char *name, mx x, const int *axes, int n_axes, int n_sizes, int *out)
{
    bool seen[MX_MAX_NDIM] = { false };
    int n = axes ? n_axes : n_sizes >= 0 ? n_sizes : x->ndim;
    if (n > x->ndim) {
        mx_fail_as(MX_AXIS, "[%s] expected at most %d axes of an array of shape %s, got %d", name, x->ndim, shape_of(x),
                   n);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        out[i] = axes ? axis_of(name, axes[i], x->ndim) : x->ndim - n + i;
        if (out[i] < 0)
            return -1;
        if (seen[out[i]]) {
            mx_fail("[%s] expected every axis once, got axis %d twice", name, out[i]);
            return -1;
        }
        seen[out[i]] = true;
    }
    return n;
}

mx mx_fftn(mx x, enum fft_kind kind, bool inverse, const int *sizes, int n_sizes, const int *axes, int n_axes,
           enum fft_norm norm)
{
    const char *name = name_of_fft(kind, inverse);
    int axis[MX_MAX_NDIM], size[MX_MAX_NDIM];
    if (is_nil(x))
        return x;
    int n = fft_axes(name, x, axes, n_axes, sizes ? n_sizes : -1, axis);
    if (n < 0)
        return MX_NIL;
    if (sizes && n_sizes != n)
        return mx_fail("[%s] expected one size for each of the %d axes, got %d", name, n, n_sizes);
    if (kind == FFT_REAL && dtype_is_complex(x->dtype))
        return mx_fail("[%s] expected real numbers, got %s", name, dtype_name(x->dtype));
    if (n == 0 && kind != FFT_COMPLEX)
        return mx_fail("[%s] expected at least one axis, got none", name);
    for (int i = 0; i < n; i++) /* plans and scales are made for the size */
        x = mx_size_checked(x, axis[i]);
    double total = 1;
    for (int i = 0; i < n; i++) {
        bool half = kind == FFT_HERMITIAN && i == n - 1;
        int64_t whole = half ? 2 * ((int64_t)x->shape[axis[i]] - 1) : x->shape[axis[i]];
        if (!sizes && (size[i] = dim_of(name, whole < 0 ? 0 : whole)) < 0)
            return MX_NIL;
        size[i] = sizes ? sizes[i] : size[i];
        if (size[i] < 1)
            return mx_fail("[%s] expected a size of at least 1 along axis %d, got %d", name, axis[i], size[i]);
        total *= size[i];
    }
    bool scaled = norm == (inverse ? FFT_BACKWARD : FFT_FORWARD);
    double scale = norm == FFT_ORTHO ? 1 / sqrt(total) : scaled ? 1 / total : 1;
    x = mx_astype(x, kind == FFT_REAL ? DT_float32 : DT_complex64);
    /* The last axis first, as new memory is best written row by row, and for irfft last.  What comes after stays
     * near. */
    if (kind == FFT_REAL)
        x = fft_along(x, FFT_REAL, axis[n - 1], size[n - 1], false, n == 1 ? scale : 1);
    for (int i = kind == FFT_COMPLEX ? n - 1 : n - 2; i >= 0; i--)
        x = fft_along(x, FFT_COMPLEX, axis[i], size[i], inverse, kind != FFT_HERMITIAN && i == 0 ? scale : 1);
    if (kind == FFT_HERMITIAN)
        x = fft_along(x, FFT_HERMITIAN, axis[n - 1], size[n - 1], true, scale);
    return x;
}

/* An axis that is named twice is shifted twice. */
mx mx_fftshift(mx x, const int *axes, int n, bool back)
{
    if (is_nil(x))
        return x;
    for (int i = 0; i < (axes ? n : x->ndim); i++) {
        int d = axes ? axis_of(back ? "ifftshift" : "fftshift", axes[i], x->ndim) : i;
        if (d < 0)
            return MX_NIL;
        int by = back ? -(x->shape[d] / 2) : x->shape[d] / 2;
        if (size_of(x, d).of) {
            mx half = mx_floor_divide(mx_number_of_elements(x, &d, 1, false, DT_int64), array_of_int(2, DT_int64));
            x = mx_roll_by(x, back ? mx_negative(half) : half, d);
        } else {
            x = mx_roll(x, &by, 1, &d, 1);
        }
    }
    return x;
}

mx mx_fftfreq(int n, double d, bool half, enum dtype t)
{
    const char *name = half ? "rfftfreq" : "fftfreq";
    if (n < 1)
        return mx_fail("[%s] expected n of at least 1, got %d", name, n);
    if (d == 0)
        return mx_fail("[%s] expected a spacing d other than 0, got 0", name);
    mx k = mx_arange(0, half ? n / 2 + 1 : n, 1, DT_float64), whole = array_of_double(n, DT_float64);
    if (!half)
        k = mx_where(mx_less(k, array_of_int(n / 2 + n % 2, DT_float64)), k, mx_subtract(k, whole));
    return mx_astype(mx_divide(k, array_of_double(n * d, DT_float64)), t);
}

/* ---- short-time transforms */

/* The window in the middle of n_fft zeros; ones where none is given. */
static mx centred_window(const char *name, mx window, int win_length, int n_fft)
{
    if (window && window->ndim != 1)
        return mx_fail("[%s] expected a window of one dimension, got shape %s", name, shape_of(window));
    if (!window) {
        if (win_length < 1)
            return mx_fail("[%s] expected a win_length of at least 1, got %d", name, win_length);
        window = mx_ones(1, &win_length, DT_float32);
    }
    int have = dim(window, 0), low = (n_fft - have) / 2, high = n_fft - have - low, axis = 0;
    if (have > n_fft)
        return mx_fail("[%s] expected a window of at most n_fft = %d elements, got %d", name, n_fft, have);
    return have == n_fft ? window : mx_pad(window, &axis, 1, &low, &high, array_of_int(0, window->dtype), PAD_CONSTANT);
}

/* Places of the elements of every frame, of shape (frames * n_fft). */
static mx frame_places(int frames, int n_fft, int hop)
{
    mx first = mx_multiply(mx_arange(0, frames, 1, DT_int32), array_of_int(hop, DT_int32));
    mx at = mx_add(mx_reshape(first, 2, (int[]){ frames, 1 }), mx_arange(0, n_fft, 1, DT_int32));
    return mx_reshape(at, 1, (int[]){ -1 });
}

static bool sizes_good(const char *name, int n_fft, int hop)
{
    if (n_fft < 1 || hop < 1)
        mx_fail("[%s] expected an n_fft and a hop_length of at least 1, got %d and %d", name, n_fft, hop);
    return n_fft >= 1 && hop >= 1;
}

mx mx_stft(mx x, int n_fft, int hop, int win_length, mx window, bool center, enum pad_mode mode, enum fft_norm norm,
           int onesided)
{
    if (is_nil(x) || (window && is_nil(window)) || !sizes_good("stft", n_fft, hop))
        return MX_NIL;
    if (x->ndim == 0)
        return mx_fail("[stft] expected an array of at least one dimension, got a scalar");
    bool complex = dtype_is_complex(x->dtype);
    if (complex && onesided == 1)
        return mx_fail("[stft] expected real numbers for one side of the frequencies, got complex64");
    x = mx_size_checked(mx_astype(x, complex ? DT_complex64 : DT_float32), -1);
    window = centred_window("stft", window, win_length, n_fft);
    if (center)
        x = mx_pad(x, (int[]){ x->ndim - 1 }, 1, (int[]){ n_fft / 2 }, (int[]){ n_fft / 2 }, array_of_int(0, x->dtype),
                   mode);
    if (is_nil(x) || is_nil(window))
        return MX_NIL;
    if (dim(x, -1) < n_fft)
        return mx_fail("[stft] expected at least n_fft = %d elements along the last axis, got %d", n_fft, dim(x, -1));
    int frames = 1 + (dim(x, -1) - n_fft) / hop;
    x = mx_take(x, frame_places(frames, n_fft, hop), -1);
    x = mx_multiply(mx_unflatten(x, -1, 2, (int[]){ frames, n_fft }), window);
    enum fft_kind kind = complex || onesided == 0 ? FFT_COMPLEX : FFT_REAL;
    return mx_swapaxes(mx_fftn(x, kind, false, NULL, 0, (int[]){ -1 }, 1, norm), -1, -2);
}

/* Frames (..., frames, n_fft) added where they overlap: (..., length). */
static mx overlapped(mx x, mx at, int length)
{
    struct size sizes[MX_MAX_NDIM];
    mx flat = mx_flatten(x, -2, -1);
    if (is_nil(flat))
        return flat;
    int n = sizes_like(flat, sizes);
    mx places = mx_broadcast_by(at, n, sizes);
    sizes[n - 1] = size_is(length);
    return mx_scatter_add_axis(mx_broadcast_by(array_of_int(0, x->dtype), n, sizes), places, flat, n - 1);
}

mx mx_istft(mx x, int n_fft, int hop, int win_length, mx window, bool center, enum fft_norm norm, bool onesided,
            int length)
{
    if (is_nil(x) || (window && is_nil(window)) || !sizes_good("istft", n_fft, hop))
        return MX_NIL;
    if (x->ndim < 2 || dim(x, -1) < 1 || dim(x, -2) < 1)
        return mx_fail("[istft] expected frequencies and frames along the last two axes, got shape %s", shape_of(x));
    if (onesided ? dim(x, -2) != n_fft / 2 + 1 : dim(x, -2) != n_fft)
        return mx_fail("[istft] expected %d frequencies for n_fft = %d, got shape %s", onesided ? n_fft / 2 + 1 : n_fft,
                       n_fft, shape_of(x));
    x = mx_size_checked(mx_size_checked(x, -1), -2);
    window = centred_window("istft", window, win_length, n_fft);
    mx y = mx_fftn(mx_swapaxes(x, -1, -2), onesided ? FFT_HERMITIAN : FFT_COMPLEX, true, &n_fft, 1, (int[]){ -1 }, 1,
                   norm);
    if (is_nil(y) || is_nil(window))
        return MX_NIL;
    int frames = dim(y, -2), total = dim_of("istft", n_fft + (int64_t)hop * (frames - 1));
    if (total < 0)
        return MX_NIL;
    mx at = frame_places(frames, n_fft, hop);
    if (dtype_is_complex(y->dtype)) /* of a real array, as far as the transform was one */
        y = mx_real(y);
    mx sum = overlapped(mx_multiply(y, window), at, total);
    mx squares = mx_broadcast_to(mx_square(window), 2, (int[]){ frames, n_fft });
    mx weight = overlapped(squares, at, total);
    mx none = mx_less(mx_abs(weight), array_of_double(1e-11, DT_float32));
    y = mx_divide(sum, mx_where(none, mx_scalar_like(1, weight), weight));
    int from = center ? n_fft / 2 : 0;
    int64_t to = length >= 0 ? from + (int64_t)length : total - from;
    y = mx_slice_axis(y, -1, from < total ? from : total, (int)(to < total ? to > from ? to : from : total), 1);
    return length >= 0 ? resized(y, y->ndim - 1, length) : y;
}
