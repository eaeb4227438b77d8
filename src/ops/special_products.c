/* special_products.c: products of matrices that are picked by index, masked by blocks, or cut into
 * segments.
 *
 * gather_mm multiplies pairs of matrices, whose flat numbers in the batches are given.  Its
 * derivative to the second operand is scatter_mm, which adds up products of the same pairs; likewise
 * segmented_mm and segmented_outer.  Each is linear in both of its operands, and their derivatives
 * are made of themselves. */
#include "ops/special_products.h"

#include <limits.h>
#include <string.h>

#include "ops/index.h"
#include "ops/matmul.h"

static mx turned_matrix(mx x) { return mx_swapaxes(x, -1, -2); }
static mx adjoint(mx x) { return conjugated(turned_matrix(x)); }
static mx sum_of(mx a, mx b) { return !a ? b : !b ? a : mx_add(a, b); }

/* ---- indices of matrices ---- */

mx mx_flat_places(mx x, int n)
{
    struct size sizes[MX_MAX_NDIM];
    sizes_like(x, sizes);
    return mx_reshape_by(mx_arange_by(n, sizes, DT_int64), n, sizes);
}

static bool is_index(const char *op, const char *which, mx x)
{
    if (is_nil(x))
        return false;
    if (dtype_is_integer(x->dtype))
        return true;
    mx_fail("[%s] expected integers as %s, got %s", op, which, dtype_name(x->dtype));
    return false;
}

bool mx_gather_indices(const char *op, mx a, mx b, mx *lhs, mx *rhs)
{
    mx x[2] = { *lhs ? *lhs : mx_flat_places(a, a->ndim - 2), *rhs ? *rhs : mx_flat_places(b, b->ndim - 2) };
    if (!is_index(op, "lhs_indices", x[0]) || !is_index(op, "rhs_indices", x[1]))
        return false;
    int shape[MX_MAX_NDIM], ndim;
    if (!broadcast_shape(op, 2, x, &ndim, shape) || !mx_broadcast(2, x))
        return false;
    *lhs = x[0];
    *rhs = x[1];
    return true;
}

/* An index out of range stands for the nearest of its own example, so it is looked up among those first. */
static mx places_among(mx index, int axis, struct size n, int m, const struct size each[])
{
    index = batch_all(index, axis, n);
    if (is_nil(index))
        return index;
    int ones[MX_MAX_NDIM];
    for (int i = 1; i < index->ndim; i++) ones[i - 1] = i;
    mx numbers = mx_arange_by(m, each, DT_int64), example = mx_arange_by(1, &n, DT_int64);
    if (is_nil(numbers))
        return numbers;
    mx first = mx_multiply(mx_expand_dims(example, ones, index->ndim - 1), mx_count(numbers, 0, 1, DT_int64));
    return mx_add(mx_take(numbers, index, 0), first);
}

mx mx_batched_places(mx index, int axis, struct size n, mx x)
{
    struct size sizes[MX_MAX_NDIM];
    if (!x || is_nil(x))
        return x ? x : batch_all(index, axis, n);
    sizes_like(x, sizes);
    return places_among(index, axis, n, x->ndim - 3, sizes + 1);
}

/* x (..., m, n) as (k, m, n). */
static mx in_a_row(mx x) { return x->ndim == 2 ? mx_expand_dims(x, (int[]){ 0 }, 1) : mx_flatten(x, 0, -3); }

mx mx_add_matrices(mx y, mx index, mx like)
{
    int axis = 0;
    mx flat = mx_flatten(index, 0, -1);
    if (is_nil(y) || is_nil(flat))
        return MX_NIL;
    mx rows = mx_expand_dims(in_a_row(y), (int[]){ 1 }, 1);
    mx zeros = in_a_row(mx_broadcast_like(array_of_int(0, y->dtype), like));
    mx sum = mx_scatter_as((struct asked){ ITSELF, OUTSIDE_NEAREST }, zeros, &flat, &axis, 1, rows, SCATTER_ADD);
    return mx_reshape_like(sum, like);
}

/* ---- gather_mm: a, b, and an index array for each ---- */

static int gather_mm_shapes(const struct call *c, struct spec out[])
{
    mx index = c->x[2];
    if (dim(c->x[0], -1) != dim(c->x[1], -2) || !same_shape(index, c->x[3]))
        return failed(mx_fail("[gather_mm] expected matrices that can be multiplied and indices of one shape, got "
                              "shapes %s, %s, %s and %s",
                              shape_of(c->x[0]), shape_of(c->x[1]), shape_of(index), shape_of(c->x[3])));
    if (index->ndim + 2 > MX_MAX_NDIM)
        return failed(
            mx_fail("[gather_mm] expected at most %d dimensions of indices, got %d", MX_MAX_NDIM - 2, index->ndim));
    spec_set(out, c->x[0]->dtype, index->ndim, index->shape);
    out->shape[out->ndim++] = dim(c->x[0], -2);
    out->shape[out->ndim++] = dim(c->x[1], -1);
    return 0;
}

static const struct field gather_mm_args_fields[] = { FIELD(gather_mm_args, quantized), { 0 } };

static mx gather_for(bool quantized, mx a, mx b, mx lhs, mx rhs)
{
    return mx_infer(&op_gather_mm, &(struct gather_mm_args){ quantized }, 4, (mx[]){ a, b, lhs, rhs });
}

static mx gather_mm_node(mx a, mx b, mx lhs, mx rhs) { return gather_for(false, a, b, lhs, rhs); }

static void gather_mm_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    mx a = c->x[0], b = c->x[1], lhs = c->x[2], rhs = c->x[3];
    if (!dtype_is_inexact(a->dtype))
        return;
    mx places = mx_flat_places(lhs, lhs->ndim);
    if (want[0])
        dx[0] = mx_add_matrices(gather_mm_node(ct[0], adjoint(b), places, rhs), lhs, a);
    if (want[1])
        dx[1] = mx_scatter_mm(conjugated(a), ct[0], lhs, places, rhs, b);
}

static void gather_mm_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (dtype_is_inexact(c->x[0]->dtype))
        dy[0] = sum_of(t[0] ? gather_mm_node(t[0], c->x[1], c->x[2], c->x[3]) : NULL,
                       t[1] ? gather_mm_node(c->x[0], t[1], c->x[2], c->x[3]) : NULL);
}

static void gather_mm_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct size n = batch_size(c, axis);
    mx x[4];
    for (int i = 0; i < 2; i++) {
        x[i] = batch_first(c->x[i], axis[i]);
        x[2 + i] = mx_batched_places(c->x[2 + i], axis[2 + i], n, axis[i] >= 0 ? x[i] : NULL);
    }
    y[0] = mx_infer(c->op, c->args, 4, x);
    yaxis[0] = 0;
}

const struct op op_gather_mm = {
    OP_ROW(gather_mm),    ARGS(gather_mm_args), .shapes = gather_mm_shapes,
    .vjp = gather_mm_vjp, .jvp = gather_mm_jvp, .vmap = gather_mm_vmap,
};

mx mx_gather_mm(mx a, mx b, mx lhs, mx rhs) { return mx_gather_mm_for(false, a, b, lhs, rhs); }

mx mx_gather_mm_for(bool quantized, mx a, mx b, mx lhs, mx rhs)
{
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    if (a->ndim == 0 || b->ndim == 0)
        return mx_fail("[gather_mm] expected operands of at least one dimension, got shapes %s and %s", shape_of(a),
                       shape_of(b));
    bool row = a->ndim == 1, column = b->ndim == 1;
    enum dtype t = promote(a->dtype, b->dtype);
    a = mx_astype(row ? mx_expand_dims(a, (int[]){ 0 }, 1) : a, t);
    b = mx_astype(column ? mx_expand_dims(b, (int[]){ 1 }, 1) : b, t);
    if (dim(a, -1) != dim(b, -2))
        return mx_fail("[gather_mm] expected the last dimension of the first operand to equal the second "
                       "to last of the second, got shapes %s and %s",
                       shape_of(a), shape_of(b));
    if (is_nil(a) || is_nil(b) || !mx_gather_indices("gather_mm", a, b, &lhs, &rhs))
        return MX_NIL;
    mx y = gather_for(quantized, a, b, lhs, rhs);
    int gone[2], n = vector_axes(row, column, gone);
    return n ? mx_squeeze(y, gone, n) : y;
}

/* ---- scatter_mm: y[rhs[p]] += a[la[p]]^T c[lc[p]] ---- */

static const struct field scatter_mm_args_fields[] = { SIZES(scatter_mm_args, batch), { 0 } };

static int scatter_mm_shapes(const struct call *c, struct spec out[])
{
    struct ints batch = ((const struct scatter_mm_args *)c->args)->batch;
    out->dtype = c->x[0]->dtype;
    out->ndim = batch.n + 2;
    for (int i = 0; i < batch.n; i++) out->shape[i] = (int)size_in(c, batch.v[i]);
    if (dim(c->x[0], -2) != dim(c->x[1], -2) || !same_shape(c->x[2], c->x[3]) || !same_shape(c->x[2], c->x[4]))
        return failed(mx_fail("[scatter_mm] expected matrices of as many rows and indices of one shape, got shapes %s, "
                              "%s, %s, %s and %s",
                              shape_of(c->x[0]), shape_of(c->x[1]), shape_of(c->x[2]), shape_of(c->x[3]),
                              shape_of(c->x[4])));
    out->shape[batch.n] = dim(c->x[0], -1);
    out->shape[batch.n + 1] = dim(c->x[1], -1);
    return 0;
}

static void scatter_mm_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    mx a = c->x[0], d = c->x[1], la = c->x[2], lc = c->x[3], rhs = c->x[4];
    if (want[0])
        dx[0] = mx_add_matrices(gather_mm_node(conjugated(d), turned_matrix(ct[0]), lc, rhs), la, a);
    if (want[1])
        dx[1] = mx_add_matrices(gather_mm_node(conjugated(a), ct[0], la, rhs), lc, d);
}

static void scatter_mm_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx terms[2] = { NULL, NULL };
    for (int i = 0; i < 2; i++)
        if (t[i]) {
            mx x[5 + MX_MAX_NDIM];
            memcpy(x, c->x, (size_t)c->nin * sizeof *x);
            x[i] = t[i];
            terms[i] = mx_infer(c->op, c->args, c->nin, x);
        }
    dy[0] = sum_of(terms[0], terms[1]);
}

static void scatter_mm_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct ints batch = ((const struct scatter_mm_args *)c->args)->batch;
    struct size n = batch_size(c, axis), sizes[MX_MAX_NDIM] = { n };
    int64_t v[MX_MAX_NDIM];
    mx x[5 + MX_MAX_NDIM];
    for (int i = 0; i < 2; i++) {
        x[i] = batch_first(c->x[i], axis[i]);
        x[2 + i] = mx_batched_places(c->x[2 + i], axis[2 + i], n, axis[i] >= 0 ? x[i] : NULL);
    }
    for (int i = 0; i < batch.n; i++) {
        int k = size_lender(batch.v[i]), d = size_axis(batch.v[i]);
        bool lent = size_is_lent(batch.v[i]);
        d += lent && axis[k] >= 0 && d >= axis[k];
        sizes[1 + i] = lent ? size_of(c->x[k], d) : size_is((int)batch.v[i]);
    }
    x[4] = places_among(c->x[4], axis[4], n, batch.n, sizes + 1);
    int m = size_operands(5, x, 1 + batch.n, sizes, v);
    y[0] = mx_infer(c->op, &(struct scatter_mm_args){ { 1 + batch.n, v } }, m, x);
    yaxis[0] = 0;
}

static bool scatter_mm_fits(const struct call *c)
{
    struct ints batch = ((const struct scatter_mm_args *)c->args)->batch;
    return c->nin >= 5 && c->nout == 1 && c->x[0]->ndim >= 2 && c->x[1]->ndim >= 2 && one_dtype(c, 2) &&
           dtype_is_inexact(c->x[0]->dtype) && are_indices(3, c->x + 2) && batch.n <= MX_MAX_NDIM - 2 &&
           numbers_are_sizes(batch, 0, c);
}

const struct op op_scatter_mm = {
    OP_ROW(scatter_mm),          ARGS(scatter_mm_args),   .own = 5,
    .shapes = scatter_mm_shapes, .vjp = scatter_mm_vjp,   .jvp = scatter_mm_jvp,
    .vmap = scatter_mm_vmap,     .fits = scatter_mm_fits,
};

mx mx_scatter_mm(mx a, mx c, mx la, mx lc, mx rhs, mx like)
{
    mx x[5 + MX_MAX_NDIM] = { a, c, la, lc, rhs };
    struct size sizes[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM];
    int n = sizes_like(like, sizes) - 2, m = size_operands(5, x, n, sizes, v);
    return mx_infer(&op_scatter_mm, &(struct scatter_mm_args){ { n, v } }, m, x);
}

/* ---- segmented_mm: y[s] = a[:, begin:end] b[begin:end]; and what undoes it ---- */

static int segmented_mm_shapes(const struct call *c, struct spec out[])
{
    mx segments = c->x[2];
    if (dim(c->x[0], 1) != dim(c->x[1], 0) || dim(segments, -1) != 2)
        return failed(mx_fail("[segmented_mm] expected matrices that can be multiplied and segments of shape (..., 2), "
                              "got %s, %s and %s",
                              shape_of(c->x[0]), shape_of(c->x[1]), shape_of(segments)));
    spec_set(out, c->x[0]->dtype, segments->ndim - 1, segments->shape);
    if (segments->ndim + 1 > MX_MAX_NDIM)
        return failed(mx_fail("[segmented_mm] expected at most %d dimensions of segments, got %d", MX_MAX_NDIM - 1,
                              segments->ndim));
    out->shape[out->ndim++] = dim(c->x[0], 0);
    out->shape[out->ndim++] = dim(c->x[1], 1);
    return 0;
}

static mx segmented(const struct op *op, mx a, mx b, mx segments)
{
    return mx_infer(op, NULL, 3, (mx[]){ a, b, segments });
}

static void segmented_mm_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (!dtype_is_inexact(c->x[0]->dtype))
        return;
    if (want[0])
        dx[0] = turned_matrix(segmented(&op_segmented_outer, adjoint(c->x[1]), turned_matrix(ct[0]), c->x[2]));
    if (want[1])
        dx[1] = segmented(&op_segmented_outer, conjugated(c->x[0]), ct[0], c->x[2]);
}

static void segmented_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (dtype_is_inexact(c->x[0]->dtype))
        dy[0] = sum_of(t[0] ? segmented(c->op, t[0], c->x[1], c->x[2]) : NULL,
                       t[1] ? segmented(c->op, c->x[0], t[1], c->x[2]) : NULL);
}

/* One example after the other: operands of a batch are matrices of their own. */
static void segmented_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    int n = batch_size(c, axis).now;
    mx x[3], all = NULL;
    shapes_matter("segmented_mm");
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++) x[k] = axis[k] < 0 ? c->x[k] : mx_take(c->x[k], array_of_int(i, DT_int32), axis[k]);
        mx one = mx_expand_dims(mx_infer(c->op, NULL, 3, x), (int[]){ 0 }, 1);
        all = all ? mx_concatenate(2, (mx[]){ all, one }, 0) : one;
    }
    y[0] = all ? all : MX_NIL;
    yaxis[0] = 0;
}

static bool segmented_fits(const struct call *c)
{
    return call_has(c, 3, 1) && one_dtype(c, 2) && are_indices(1, c->x + 2) && c->x[0]->ndim == 2 && c->x[2]->ndim >= 1;
}

static bool segmented_mm_fits(const struct call *c) { return segmented_fits(c) && c->x[1]->ndim == 2; }

const struct op op_segmented_mm = {
    OP_ROW(segmented_mm), .shapes = segmented_mm_shapes, .vjp = segmented_mm_vjp,
    .jvp = segmented_jvp, .vmap = segmented_vmap,        .fits = segmented_mm_fits,
};

/* segmented_outer: y[begin:end] += a[:, begin:end]^T c[s] */
static int segmented_outer_shapes(const struct call *c, struct spec out[])
{
    return spec_set(out, c->x[0]->dtype, 2, (int[]){ dim(c->x[0], 1), dim(c->x[1], -1) });
}

static void segmented_outer_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = turned_matrix(segmented(&op_segmented_outer, adjoint(ct[0]), adjoint(c->x[1]), c->x[2]));
    if (want[0] && dtype_is_complex(ct[0]->dtype))
        dx[0] = conjugated(dx[0]);
    if (want[1])
        dx[1] = segmented(&op_segmented_mm, conjugated(c->x[0]), ct[0], c->x[2]);
}

/* One matrix for each segment. */
static bool segmented_outer_fits(const struct call *c)
{
    if (!segmented_fits(c))
        return false;
    mx x = c->x[0], y = c->x[1], s = c->x[2];
    bool fits = dim(s, -1) == 2 && y->ndim == s->ndim + 1 && dim(y, -2) == dim(x, 0);
    for (int i = 0; fits && i < s->ndim - 1; i++) fits = y->shape[i] == s->shape[i];
    return fits;
}

const struct op op_segmented_outer = {
    OP_ROW(segmented_outer), .shapes = segmented_outer_shapes, .vjp = segmented_outer_vjp,
    .jvp = segmented_jvp,    .vmap = segmented_vmap,           .fits = segmented_outer_fits,
};

mx mx_segmented_mm(mx a, mx b, mx segments)
{
    if (is_nil(a) || is_nil(b) || !is_index("segmented_mm", "segments", segments))
        return MX_NIL;
    if (a->ndim != 2 || b->ndim != 2 || dim(a, 1) != dim(b, 0))
        return mx_fail("[segmented_mm] expected two matrices that can be multiplied, got shapes %s and %s", shape_of(a),
                       shape_of(b));
    if (segments->ndim < 1 || dim(segments, -1) != 2)
        return mx_fail("[segmented_mm] expected segments of shape (..., 2), got %s", shape_of(segments));
    enum dtype t = promote(a->dtype, b->dtype);
    return segmented(&op_segmented_mm, mx_astype(a, t), mx_astype(b, t), segments);
}

/* ---- block_masked_mm ---- */

/* Elements of axis `axis` of a mask as one for each of `n` elements, `size` in a block. */
static mx spread_mask(mx mask, int axis, int n, int size)
{
    int shape[MX_MAX_NDIM], blocks = dim(mask, axis), whole = dim_of("block_masked_mm", (int64_t)blocks * size);
    if (is_nil(mask) || whole < 0)
        return MX_NIL;
    axis += mask->ndim;
    mx y = mx_expand_dims(mask, (int[]){ axis + 1 }, 1);
    memcpy(shape, y->shape, (size_t)y->ndim * sizeof *shape);
    shape[axis + 1] = size;
    y = mx_broadcast_to(y, mask->ndim + 1, shape);
    return mx_slice_axis(mx_flatten(y, axis, axis + 1), axis, 0, n, 1);
}

/* The same for the last two dimensions of x, whatever their sizes: as many blocks as there are of x. */
static mx taken_mask(mx mask, mx x, int size)
{
    mx zero = array_of_int(0, DT_int32);
    for (int axis = -2; axis < 0; axis++) {
        struct size n = size_of(x, axis), blocks = size_of(mask, axis);
        mx place = mx_arange_by(1, &n, DT_int32), firsts = mx_slice_axis(place, 0, 0, TO_END, size);
        mx fits = mx_sum(mx_shape_checked(mx_broadcast_by(zero, 1, &blocks), firsts), NULL, 0, false);
        mask = mx_take(mask, mx_add(mx_floor_divide(place, array_of_int(size, DT_int32)), fits), axis);
    }
    return mask;
}

static bool mask_broadcasts(mx mask, int down, int across)
{
    int n = mask->ndim;
    return (n < 1 || dim(mask, -1) == 1 || dim(mask, -1) == across) &&
           (n < 2 || dim(mask, -2) == 1 || dim(mask, -2) == down);
}

/* x with each of its blocks multiplied by an element of the mask, or kept where that is true. */
static mx masked_blocks(const char *which, mx x, mx mask, int size)
{
    if (!mask || is_nil(x))
        return x;
    int m = dim(x, -2), n = dim(x, -1), down = m / size + (m % size != 0), across = n / size + (n % size != 0);
    if (is_nil(mask))
        return mask;
    bool whole = mask->ndim >= 2 && dim(mask, -2) == down && dim(mask, -1) == across;
    bool follows = x->tracer && shapeless() && (whole || mask->ndim == 0);
    if (!whole && !follows && mask_broadcasts(mask, down, across)) {
        if (x->tracer && shapeless())
            shapes_matter("block_masked_mm");
        int shape[MX_MAX_NDIM] = { 0 }, ndim = mask->ndim < 2 ? 2 : mask->ndim;
        memcpy(shape, mask->shape, (size_t)mask->ndim * sizeof *shape);
        shape[ndim - 2] = down;
        shape[ndim - 1] = across;
        mask = mx_broadcast_to(mask, ndim, shape);
    }
    if (mask->ndim > 0 &&
        (mask->ndim < 2 || mask->ndim + 2 > MX_MAX_NDIM || dim(mask, -2) != down || dim(mask, -1) != across))
        return mx_fail("[block_masked_mm] expected %s of shape (..., %d, %d) for blocks of %d of an array "
                       "of shape %s, got %s",
                       which, down, across, size, shape_of(x), shape_of(mask));
    mx each = mask->ndim == 0 ? mask
              : follows       ? taken_mask(mask, x, size)
                              : spread_mask(spread_mask(mask, -2, m, size < m ? size : m), -1, n, size < n ? size : n);
    if (mask->dtype == DT_bool_)
        return mx_where(each, x, mx_scalar_like(0, x));
    return mx_multiply(x, mx_astype(each, x->dtype));
}

mx mx_block_masked_mm(mx a, mx b, int size, mx out, mx lhs, mx rhs)
{
    if (is_nil(a) || is_nil(b))
        return MX_NIL;
    if (size < 1)
        return mx_fail("[block_masked_mm] expected a positive block size, got %d", size);
    if (a->ndim == 0 || b->ndim == 0)
        return mx_fail("[block_masked_mm] expected operands of at least one dimension, got shapes %s and %s",
                       shape_of(a), shape_of(b));
    enum dtype t = promote(a->dtype, b->dtype);
    if (!dtype_is_inexact(t))
        return mx_fail("[block_masked_mm] expected floating-point or complex numbers, got %s and %s",
                       dtype_name(a->dtype), dtype_name(b->dtype));
    bool row = a->ndim == 1, column = b->ndim == 1;
    a = mx_astype(row ? mx_expand_dims(a, (int[]){ 0 }, 1) : a, t);
    b = mx_astype(column ? mx_expand_dims(b, (int[]){ 1 }, 1) : b, t);
    mx y = mx_matmul(masked_blocks("mask_lhs", a, lhs, size), masked_blocks("mask_rhs", b, rhs, size));
    y = masked_blocks("mask_out", y, out, size);
    int gone[2], n = vector_axes(row, column, gone);
    return n ? mx_squeeze(y, gone, n) : y;
}

/* ---- hadamard_transform ---- */

static const struct field hadamard_args_fields[] = { FIELD(hadamard_args, scale),
                                                     FIELD(hadamard_args, transposed),
                                                     { 0 } };

int hadamard_odd(int64_t n)
{
    int64_t odd = n;
    while (odd > 1 && odd % 2 == 0) odd /= 2;
    if (odd == 1)
        return 1;
    return (odd == 3 || odd == 5 || odd == 7) && n % 4 == 0 ? (int)odd * 4 : 0;
}

/* Paley's of size 12. */
static const char *const twelve[] = {
    "+-++++++++++", "--+-+-+-+-+-", "+++-++----++", "+---+--+-++-", "+++++-++----", "+-+---+--+-+",
    "++--+++-++--", "+--++---+--+", "++----+++-++", "+--+-++---+-", "++++----+++-", "+-+--+-++---",
};
/* Williamson's: four by four blocks, in each of which a row is the one above moved on by one place.
 * These are the first rows of the blocks. */
static const char *const twenty[] = {
    "+----+----++--++-++-",
    "-+++++-----+--+++--+",
    "--++-+-++-+-----++++",
    "-+--+--++-+----+----",
};
static const char *const twenty_eight[] = {
    "+------++----++-+--+-+--++--",
    "--++++-+-------++--+++-+--+-",
    "-+-++-++--++--+--------++++-",
    "-++--++-+-++-+++----++------",
};

int hadamard_sign(int m, int i, int j)
{
    if (m == 1)
        return 1;
    int size = m == 12 ? 1 : m / 4, first = j / size * size, shift = (j - first - i % size + size) % size;
    const char *row = m == 12 ? twelve[i] : (m == 20 ? twenty : twenty_eight)[i / size];
    return row[first + shift] == '+' ? 1 : -1;
}

static int hadamard_shapes(const struct call *c, struct spec out[])
{
    int n = dim(c->x[0], -1);
    if (n && hadamard_odd(n))
        return spec_like(out, c->x[0]);
    return failed(mx_fail("[hadamard_transform] expected a last dimension of m * 2**k with m one of 1, 12, 20, 28, got "
                          "shape %s",
                          shape_of(c->x[0])));
}

static mx hadamard(const struct call *c, mx x, bool turn)
{
    struct hadamard_args a = *(const struct hadamard_args *)c->args;
    a.transposed = a.transposed != turn;
    return mx_infer(&op_hadamard, &a, 1, &x);
}

static void hadamard_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (want[0])
        dx[0] = hadamard(c, ct[0], true);
}

static void hadamard_jvp(const struct call *c, const mx t[], mx dy[]) { dy[0] = hadamard(c, t[0], false); }

static void hadamard_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    y[0] = hadamard(c, batch_first(c->x[0], axis[0]), false);
    yaxis[0] = 0;
}

const struct op op_hadamard = {
    OP_ROW(hadamard),    ARGS(hadamard_args), .shapes = hadamard_shapes,
    .vjp = hadamard_vjp, .jvp = hadamard_jvp, .vmap = hadamard_vmap,
};

mx mx_hadamard_transform(mx x, const double *scale)
{
    if (is_nil(x))
        return x;
    if (dtype_is_complex(x->dtype))
        return mx_fail("[hadamard_transform] expected real numbers, got %s", dtype_name(x->dtype));
    if (!dtype_is_float(x->dtype))
        x = mx_astype(x, DT_float32);
    bool scalar = x->ndim == 0;
    if (scalar)
        x = mx_expand_dims(x, (int[]){ 0 }, 1);
    if (!scale) /* which is that of the size */
        x = mx_size_checked(x, -1);
    struct hadamard_args a = { scale ? *scale : 1 / __builtin_sqrt((double)dim(x, -1)), false };
    mx y = mx_infer(&op_hadamard, &a, 1, &x);
    return scalar ? mx_squeeze(y, (int[]){ 0 }, 1) : y;
}
