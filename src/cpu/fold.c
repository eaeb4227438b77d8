/* fold.c: elements written into others: set, or added, multiplied, or the larger or smaller kept.
 *
 * Half types fold in float32 and are rounded after each step, here as in the vector kernels, so it
 * does not matter which of them an element meets. */
#include "cpu/fold.h"

#include <stdlib.h>

#include "core/pool.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cpu/kernels.h"
#include "cpu/worth.h"
#include "shared/scalar.h"

#define TEMPLATE static inline __attribute__((always_inline))

/* Arithmetic that scalar.h does not have: of the half types, and what stays of two values. */
#define HALF(op, suffix)                                                                \
    FN uint16_t op##_##suffix(uint16_t a, uint16_t b)                                   \
    {                                                                                   \
        return suffix##_from_f32(op##_f32(f32_from_##suffix(a), f32_from_##suffix(b))); \
    }
#define HALVES(op) HALF(op, f16) HALF(op, bf16)
HALVES(add)
HALVES(multiply)
HALVES(maximum)
HALVES(minimum)

#define LATEST(suffix, type) \
    FN type latest_##suffix(type a, type b) { return (void)a, b; }
LATEST(b8, uint8_t)
LATEST(u8, uint8_t)
LATEST(u16, uint16_t)
LATEST(u32, uint32_t)
LATEST(u64, uint64_t)
LATEST(i8, int8_t)
LATEST(i16, int16_t)
LATEST(i32, int32_t)
LATEST(i64, int64_t)
LATEST(f16, uint16_t)
LATEST(f32, float)
LATEST(f64, double)
LATEST(bf16, uint16_t)
LATEST(c64, complex64)

#define T uint8_t
#define K(op) op##_b8
#include "cpu/fold.inc"

#define T uint8_t
#define K(op) op##_u8
#include "cpu/fold.inc"

#define T uint16_t
#define K(op) op##_u16
#include "cpu/fold.inc"

#define T uint32_t
#define K(op) op##_u32
#include "cpu/fold.inc"

#define T uint64_t
#define K(op) op##_u64
#include "cpu/fold.inc"

#define T int8_t
#define K(op) op##_i8
#include "cpu/fold.inc"

#define T int16_t
#define K(op) op##_i16
#include "cpu/fold.inc"

#define T int32_t
#define K(op) op##_i32
#include "cpu/fold.inc"

#define T int64_t
#define K(op) op##_i64
#include "cpu/fold.inc"

#define T uint16_t
#define K(op) op##_f16
#include "cpu/fold.inc"

#define T float
#define K(op) op##_f32
#include "cpu/fold.inc"

#define T double
#define K(op) op##_f64
#include "cpu/fold.inc"

#define T uint16_t
#define K(op) op##_bf16
#include "cpu/fold.inc"

#define T complex64
#define K(op) op##_c64
#include "cpu/fold.inc"

struct folder folder_of(enum scatter_fold f, enum dtype t)
{
#define FOLD(op, suffix)                                            \
    {                                                               \
        op##_run_##suffix, op##_at_##suffix, op##_by_##suffix, 0, 0 \
    }
#define X(name, suffix, type, size, kind)                                                                   \
    [DT_##name] = { FOLD(latest, suffix), FOLD(add, suffix), FOLD(multiply, suffix), FOLD(maximum, suffix), \
                    FOLD(minimum, suffix) },
    static const struct folder folders[DT_COUNT][SCATTER_MIN + 1] = { MX_DTYPES(X) };
#undef X
    struct folder out = folders[t][f];
    out.fold = f;
    out.dtype = t;
    return out;
}

/* ---- runs */

static const enum binary_id kernel_of[] = {
    [SCATTER_ADD] = BINARY_add,
    [SCATTER_PROD] = BINARY_multiply,
    [SCATTER_MAX] = BINARY_maximum,
    [SCATTER_MIN] = BINARY_minimum,
};

static void half_run(const struct folder *f, uint16_t *y, const uint16_t *x, int64_t n)
{
    enum { PIECE = 512 };
    _Alignas(64) float a[PIECE], b[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        size_t m = (size_t)(n - i < PIECE ? n - i : PIECE);
        cpu->cast[f->dtype][DT_float32](a, y + i, m);
        cpu->cast[f->dtype][DT_float32](b, x + i, m);
        cpu->binary[kernel_of[f->fold]][DT_float32](a, a, 1, b, 1, m);
        cpu->cast[DT_float32][f->dtype](y + i, a, m);
    }
}

void fold_run(const struct folder *f, void *y, int64_t sy, const void *x, int64_t sx, int64_t n)
{
    enum { FEW = 8 }; /* not worth a vector kernel */
    if (f->fold == SCATTER_SET)
        cpu->move[__builtin_ctzl(dtype_size(f->dtype))](y, sy, x, sx, (size_t)n);
    else if (sy != 1 || sx != 1 || n < FEW)
        f->run(y, sy, x, sx, n);
    else if (dtype_is_half(f->dtype))
        half_run(f, y, x, n);
    else
        cpu->binary[kernel_of[f->fold]][f->dtype](y, y, 1, x, 1, (size_t)n);
}

/* ---- boxes */

enum { SIDE = 64 /* of a square, in elements */ };

struct fold_box {
    const struct folder *f;
    int ndim;
    const int *shape;
    char *y;
    const char *x;
    const int64_t *sy, *sx;
    int64_t piece, pieces; /* rows of the last dimension are cut into pieces of so many elements */
};

/* Pieces begin..end, numbered along the rows. */
static void fold_by_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct fold_box *b = ctx;
    int last = b->ndim - 1;
    int64_t size = (int64_t)dtype_size(b->f->dtype), at[MX_MAX_NDIM], y = 0, x = 0, row = begin / b->pieces;
    for (int i = last; i-- > 0; row /= b->shape[i]) {
        at[i] = row % b->shape[i];
        y += at[i] * b->sy[i];
        x += at[i] * b->sx[i];
    }
    for (int64_t k = begin % b->pieces; begin < end; begin++) {
        int64_t from = k * b->piece, n = b->shape[last] - from < b->piece ? b->shape[last] - from : b->piece;
        fold_run(b->f, b->y + (y + from * b->sy[last]) * size, b->sy[last], b->x + (x + from * b->sx[last]) * size,
                 b->sx[last], n);
        if (++k < b->pieces)
            continue;
        k = 0;
        for (int i = last; i-- > 0;) {
            y += b->sy[i];
            x += b->sx[i];
            if (++at[i] < b->shape[i])
                break;
            at[i] = 0;
            y -= b->sy[i] * b->shape[i];
            x -= b->sx[i] * b->shape[i];
        }
    }
}

static int64_t count_rows(int ndim, const int *shape)
{
    int64_t rows = 1;
    for (int i = 0; i < ndim - 1; i++) rows *= shape[i];
    return rows;
}

void fold_box_here(const struct folder *f, int ndim, const int *shape, void *y, const int64_t *sy, const void *x,
                   const int64_t *sx)
{
    if (ndim == 1) {
        fold_run(f, y, sy[0], x, sx[0], shape[0]);
        return;
    }
    struct fold_box b = { f, ndim, shape, y, x, sy, sx, shape[ndim - 1], 1 };
    if (b.piece)
        fold_by_pieces(&b, 0, count_rows(ndim, shape));
}

/* The order of the dimensions is free: y's smallest step goes last, so that it is written along. */
static void smallest_step_last(int ndim, int *shape, int64_t *sy, int64_t *sx)
{
    int best = ndim - 1;
    for (int i = 0; i < ndim; i++)
        if (llabs(sy[i]) < llabs(sy[best]))
            best = i;
    for (int i = best; i < ndim - 1; i++) {
        int n = shape[i];
        int64_t s = sy[i], t = sx[i];
        shape[i] = shape[i + 1], sy[i] = sy[i + 1], sx[i] = sx[i + 1];
        shape[i + 1] = n, sy[i + 1] = s, sx[i + 1] = t;
    }
}

/* The dimension along which x's elements are neighbours, where those of the last one lie apart: a
 * transposition.  -1 if there is none. */
static int across(int ndim, const int *shape, const int64_t *sx, size_t item)
{
    int last = ndim - 1, best = -1;
    int64_t step = llabs(sx[last]);
    for (int i = 0; i < last && step * (int64_t)item >= 16; i++)
        if (sx[i] && llabs(sx[i]) < step && shape[i] >= SIDE) {
            step = llabs(sx[i]);
            best = i;
        }
    return shape[last] >= SIDE && ndim + 2 <= MX_MAX_NDIM ? best : -1;
}

static void shared_out(const struct folder *f, int ndim, const int *shape, char *y, const int64_t *sy, const char *x,
                       const int64_t *sx)
{
    enum { PIECE = 1 << 14 };
    int row = shape[ndim - 1], piece = row < PIECE ? row : PIECE;
    struct fold_box b = { f, ndim, shape, y, x, sy, sx, piece, piece ? ceil_div(row, piece) : 0 };
    if (row)
        pool_for(count_rows(ndim, shape) * b.pieces, ceil_div(WORTH_FOLDED, b.piece), fold_by_pieces, &b);
}

/* Dimension i and the last one in squares, whose lines of cache on either side stay while they are
 * worked on: four dimensions instead of two.  What is left over at the edges goes the plain way. */
static void fold_squares(const struct folder *f, int ndim, int *shape, char *y, int64_t *sy, const char *x, int64_t *sx,
                         int i)
{
    int last = ndim - 1, wide = shape[last], high = shape[i], m = 0, n[MX_MAX_NDIM];
    int64_t item = (int64_t)dtype_size(f->dtype), ty[MX_MAX_NDIM], tx[MX_MAX_NDIM];
    int columns = wide / SIDE, rows = high / SIDE;
    shape[last] = wide - columns * SIDE;
    shared_out(f, ndim, shape, y + columns * SIDE * sy[last] * item, sy, x + columns * SIDE * sx[last] * item, sx);
    shape[last] = columns * SIDE;
    shape[i] = high - rows * SIDE;
    if (shape[i])
        shared_out(f, ndim, shape, y + rows * SIDE * sy[i] * item, sy, x + rows * SIDE * sx[i] * item, sx);
    for (int k = 0; k < last; k++)
        if (k != i)
            n[m] = shape[k], ty[m] = sy[k], tx[m++] = sx[k];
    n[m] = rows, ty[m] = sy[i] * SIDE, tx[m++] = sx[i] * SIDE;
    n[m] = columns, ty[m] = sy[last] * SIDE, tx[m++] = sx[last] * SIDE;
    n[m] = SIDE, ty[m] = sy[i], tx[m++] = sx[i];
    n[m] = SIDE, ty[m] = sy[last], tx[m++] = sx[last];
    shared_out(f, m, n, y, ty, x, tx);
}

void fold_box(const struct folder *f, int ndim, const int *shape, void *y, const int64_t *sy, const void *x,
              const int64_t *sx)
{
    int n[MX_MAX_NDIM];
    int64_t ty[MX_MAX_NDIM], tx[MX_MAX_NDIM], *strides[2] = { ty, tx };
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 0)
            return;
        n[i] = shape[i];
        ty[i] = sy[i];
        tx[i] = sx[i];
    }
    ndim = collapse(ndim, n, 2, strides);
    smallest_step_last(ndim, n, ty, tx);
    int i = across(ndim, n, tx, dtype_size(f->dtype));
    if (i < 0)
        shared_out(f, ndim, n, y, ty, x, tx);
    else
        fold_squares(f, ndim, n, y, ty, x, tx, i);
}
