/* quantize.c: weights packed into a few bits each, and products with them.
 *
 * Groups of elements of a row share a scale.  In affine mode codes are integers and an element is
 * scale * code + bias; in the others codes are small floating-point numbers (e2m1 or e4m3) and
 * scales one byte (e8m0, a power of two; in nvfp4 e4m3).  Codes follow each other as a stream of
 * bits in words of 32, lowest bits first.
 *
 * Scales and biases of affine mode have derivatives; codes have none. */
#include "ops/quantize.h"
#include "ops/special_products.h"

#include <string.h>

static const struct field quant_args_fields[] = { FIELD(quant_args, group_size),
                                                  FIELD(quant_args, bits),
                                                  ENUM(quant_args, mode, MODE_NVFP4),
                                                  ENUM(quant_args, dtype, DT_COUNT - 1),
                                                  FIELD(quant_args, transpose),
                                                  FIELD(quant_args, both),
                                                  { 0 } };

/* ---- what is asked for ---- */

static const struct {
    const char *name;
    int group_size, bits;
} modes[] = { { "affine", 64, 4 }, { "mxfp4", 32, 4 }, { "mxfp8", 32, 8 }, { "nvfp4", 16, 4 } };
enum { MODES = sizeof modes / sizeof *modes };

/* Does the mode have groups of that size, of codes of that many bits? */
static bool mode_fits(const char *op, const struct quant_args *a)
{
    int size = a->group_size, bits = a->bits;
    if (a->mode != MODE_AFFINE && (size != modes[a->mode].group_size || bits != modes[a->mode].bits)) {
        mx_fail("[%s] expected what %s has, a group size of %d and %d bits, got %d and %d", op, modes[a->mode].name,
                modes[a->mode].group_size, modes[a->mode].bits, size, bits);
        return false;
    }
    if (a->mode == MODE_AFFINE && size != 32 && size != 64 && size != 128) {
        mx_fail("[%s] expected a group size of 32, 64 or 128, got %d", op, size);
        return false;
    }
    if (bits < 1 || bits > 8 || bits == 7) {
        mx_fail("[%s] expected 1, 2, 3, 4, 5, 6 or 8 bits, got %d", op, bits);
        return false;
    }
    return true;
}

static bool settle_mode(const char *op, int group_size, int bits, const char *mode, struct quant_args *a)
{
    unsigned m = 0;
    while (m < MODES && strcmp(modes[m].name, mode) != 0) m++;
    if (m == MODES) {
        mx_fail("[%s] expected the mode 'affine', 'mxfp4', 'mxfp8' or 'nvfp4', got '%s'", op, mode);
        return false;
    }
    *a = (struct quant_args){ .group_size = group_size == QUANT_USUAL ? modes[m].group_size : group_size,
                              .bits = bits == QUANT_USUAL ? modes[m].bits : bits,
                              .mode = m,
                              .dtype = DT_float32 };
    return mode_fits(op, a);
}

static bool is_real_float(const char *op, const char *what, enum dtype t)
{
    if (dtype_is_float(t))
        return true;
    mx_fail("[%s] expected %s of a floating-point type, got %s", op, what, dtype_name(t));
    return false;
}

/* Is `global` left out, or a scale that this mode may have? */
static bool global_fits(const char *op, mx global, const struct quant_args *a)
{
    if (!global)
        return true;
    if (a->mode != MODE_NVFP4)
        mx_fail("[%s] expected the mode nvfp4 for a global scale, got %s", op, modes[a->mode].name);
    else if (global->size != 1 || global->dtype != DT_float32)
        mx_fail("[%s] expected one float32 as the global scale, got shape %s of %s", op, shape_of(global),
                dtype_name(global->dtype));
    else
        return true;
    return false;
}

/* Do packed matrix, scales and biases belong together? */
static bool parts_fit(const char *op, mx w, mx *scales, mx *biases, const struct quant_args *a, int least)
{
    const char *mode = modes[a->mode].name;
    if (is_nil(w) || is_nil(*scales) || (*biases && is_nil(*biases)))
        return false;
    if (a->mode == MODE_AFFINE ? !*biases : !!*biases) {
        mx_fail("[%s] expected %s in mode %s, got %s", op, *biases ? "no biases" : "biases", mode,
                *biases ? "some" : "none");
        return false;
    }
    if (w->dtype != DT_uint32) {
        mx_fail("[%s] expected packed weights of uint32, got %s", op, dtype_name(w->dtype));
        return false;
    }
    if (a->mode != MODE_AFFINE && (*scales)->dtype != DT_uint8) {
        mx_fail("[%s] expected scales of uint8 in mode %s, got %s", op, mode, dtype_name((*scales)->dtype));
        return false;
    }
    bool fits = w->ndim >= least && w->ndim == (*scales)->ndim &&
                (int64_t)dim(w, -1) * 32 == (int64_t)dim(*scales, -1) * a->group_size * a->bits;
    for (int i = 0; fits && i < w->ndim - 1; i++) fits = w->shape[i] == (*scales)->shape[i];
    if (!fits || (*biases && !same_shape(*scales, *biases))) {
        mx_fail("[%s] expected packed weights of at least %d dimensions and scales (and biases) for "
                "groups of %d elements of %d bits, got shapes %s, %s and %s",
                op, least, a->group_size, a->bits, shape_of(w), shape_of(*scales),
                *biases ? shape_of(*biases) : "none");
        return false;
    }
    if (a->mode == MODE_AFFINE) {
        enum dtype t = promote((*scales)->dtype, (*biases)->dtype);
        if (!is_real_float(op, "scales and biases", t))
            return false;
        *scales = mx_astype(*scales, t);
        *biases = mx_astype(*biases, t);
    }
    return true;
}

static bool is_affine(const struct call *c) { return ((const struct quant_args *)c->args)->mode == MODE_AFFINE; }

/* ---- rules of quantize ---- */

static int quantize_shapes(const struct call *c, struct spec out[])
{
    const struct quant_args *a = c->args;
    if (dim(c->x[0], -1) % a->group_size)
        return failed(mx_fail("[quantize] expected a last dimension that is a multiple of the group size %d, got shape "
                              "%s",
                              a->group_size, shape_of(c->x[0])));
    for (int k = 0; k < c->nout; k++) spec_like(&out[k], c->x[0]);
    int *last = &out[0].shape[out[0].ndim - 1], columns = *last;
    out[0].dtype = DT_uint32;
    *last = (int)((int64_t)columns * a->bits / 32);
    for (int k = 1; k < c->nout; k++) {
        out[k].shape[out[k].ndim - 1] = columns / a->group_size;
        if (a->mode != MODE_AFFINE)
            out[k].dtype = DT_uint8;
    }
    return 0;
}

/* (..., groups * size) as (..., groups, size). */
static mx by_group(mx x, int size) { return mx_unflatten(x, -1, 2, (int[]){ -1, size }); }

static const int last[] = { -1 };

static mx hits(mx x, mx edge)
{
    mx hit = mx_astype(mx_equal(x, edge), x->dtype); /* ties share */
    return mx_divide(hit, mx_sum(hit, last, 1, true));
}

/* As the kernel sees it, which computes in float32. */
static mx narrowed(mx x) { return x->dtype == DT_float64 ? mx_astype(x, DT_float32) : x; }

/* How scales and biases vary with each element of the groups of w.  The bias is the end of the range
 * that is farther from zero, the scale a fixed fraction of it; with one bit the scale is the width of
 * the range and the bias its lower end. */
static void affine_partials(const struct call *c, mx *ds, mx *db)
{
    const struct quant_args *a = c->args;
    mx x = by_group(c->x[0], a->group_size);
    mx scale = mx_expand_dims(c->y[1], last, 1), bias = mx_expand_dims(c->y[2], last, 1);
    if (a->bits == 1) {
        *db = hits(x, mx_min(x, last, 1, true));
        *ds = mx_subtract(hits(x, mx_max(x, last, 1, true)), *db);
        return;
    }
    mx zero = mx_scalar_like(0, x), flat = mx_equal(bias, zero);
    *db = mx_where(flat, zero, hits(narrowed(x), narrowed(bias)));
    mx steps = mx_where(flat, mx_scalar_like(1, x), mx_round(mx_divide(bias, scale), 0));
    *ds = mx_divide(*db, steps);
}

static void quantize_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    if (!is_affine(c) || !want[0] || (!ct[1] && !ct[2]))
        return;
    mx ds, db, sum = NULL;
    affine_partials(c, &ds, &db);
    if (ct[1])
        sum = mx_multiply(mx_expand_dims(ct[1], last, 1), ds);
    if (ct[2]) {
        mx term = mx_multiply(mx_expand_dims(ct[2], last, 1), db);
        sum = sum ? mx_add(sum, term) : term;
    }
    dx[0] = mx_flatten(sum, -2, -1);
}

static void quantize_jvp(const struct call *c, const mx t[], mx dy[])
{
    if (!is_affine(c) || !t[0])
        return;
    mx ds, db, tx = by_group(t[0], ((const struct quant_args *)c->args)->group_size);
    affine_partials(c, &ds, &db);
    dy[1] = mx_sum(mx_multiply(tx, ds), last, 1, false);
    dy[2] = mx_sum(mx_multiply(tx, db), last, 1, false);
}

static bool shared_global(const struct call *c, const int axis[])
{
    if (c->nin == 1 || axis[1] < 0)
        return true;
    mx_fail("[vmap] expected one global scale for the whole batch, got one for each example");
    return false;
}

static void quantize_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    bool fine = shared_global(c, axis);
    mx x[2] = { fine ? batch_first(c->x[0], axis[0]) : MX_NIL, c->nin > 1 ? c->x[1] : NULL };
    mx_infer_n(c->op, c->args, c->nin, x, c->nout, y);
    for (int k = 0; k < c->nout; k++) yaxis[k] = 0;
}

/* Numbers to be put into groups, perhaps with a global scale, for results of which there are so many? */
static bool groups_of(const struct call *c, int least, int nout)
{
    const struct quant_args *a = c->args;
    return c->nin >= 1 && call_has(c, c->nin > 1 ? 2 : 1, nout) && c->x[0]->ndim >= least &&
           is_real_float(c->op->name, "an array", c->x[0]->dtype) && mode_fits(c->op->name, a) &&
           global_fits(c->op->name, c->nin > 1 ? c->x[1] : NULL, a);
}

static bool quantize_fits(const struct call *c) { return groups_of(c, 2, is_affine(c) ? 3 : 2); }

const struct op op_quantize = {
    OP_ROW(quantize),    ARGS(quant_args),      .shapes = quantize_shapes, .vjp = quantize_vjp,
    .jvp = quantize_jvp, .vmap = quantize_vmap, .fits = quantize_fits,
};

/* ---- rules of round_trip: what quantizing leaves of x.  Derivatives pass as if it left all. ---- */

static int round_trip_shapes(const struct call *c, struct spec out[])
{
    int size = ((const struct quant_args *)c->args)->group_size;
    if (dim(c->x[0], -1) % size)
        return failed(mx_fail("[quantize] expected a last dimension that is a multiple of the group size %d, got shape "
                              "%s",
                              size, shape_of(c->x[0])));
    return spec_like(out, c->x[0]);
}

static void round_trip_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)c;
    if (want[0])
        dx[0] = ct[0];
}

static void round_trip_jvp(const struct call *c, const mx t[], mx dy[])
{
    (void)c;
    dy[0] = t[0];
}

static bool round_trip_fits(const struct call *c) { return groups_of(c, 1, 1); }

const struct op op_round_trip = {
    OP_ROW(round_trip),    ARGS(quant_args),      .shapes = round_trip_shapes, .vjp = round_trip_vjp,
    .jvp = round_trip_jvp, .vmap = quantize_vmap, .fits = round_trip_fits,
};

/* ---- rules of dequantize ---- */

/* Scales, and biases if there are any, for the groups of a packed matrix, operand i? */
static bool groups_fit(const struct call *c, int i)
{
    const struct quant_args *a = c->args;
    mx w = c->x[i];
    bool fits = true;
    for (int k = i + 1; k <= i + 1 + (a->mode == MODE_AFFINE); k++) {
        mx s = c->x[k];
        fits = fits && s->ndim == w->ndim && (int64_t)dim(w, -1) * 32 == (int64_t)dim(s, -1) * a->group_size * a->bits;
        for (int d = 0; fits && d < w->ndim - 1; d++) fits = w->shape[d] == s->shape[d];
    }
    if (!fits)
        mx_fail("[%s] expected scales for groups of %d elements of %d bits, got packed weights of shape %s and scales "
                "of shape %s",
                c->op->name, a->group_size, a->bits, shape_of(w), shape_of(c->x[i + 1]));
    return fits;
}

static int dequantize_shapes(const struct call *c, struct spec out[])
{
    const struct quant_args *a = c->args;
    if (!groups_fit(c, 0))
        return 1;
    spec_like(out, c->x[0]);
    out->dtype = a->dtype;
    int *columns = &out->shape[out->ndim - 1];
    return (*columns = dim_of("dequantize", (int64_t)*columns * 32 / a->bits)) < 0;
}

/* The codes of a packed matrix as numbers. */
static mx codes_as_numbers(const struct quant_args *a, mx w, mx scales, enum dtype t)
{
    struct quant_args as = *a;
    as.dtype = t;
    mx x[3] = { w, ones_of(scales), zeros_of(scales) };
    return mx_infer(&op_dequantize, &as, 3, x);
}

/* From the derivative of the numbers that a packed matrix stands for to those of scales and biases. */
static void affine_gradients(const struct quant_args *a, mx d, mx w, mx scales, const bool want[2], mx out[2])
{
    if (want[0])
        out[0] = mx_astype(
            mx_sum(by_group(mx_multiply(d, codes_as_numbers(a, w, scales, d->dtype)), a->group_size), last, 1, false),
            scales->dtype);
    if (want[1])
        out[1] = mx_astype(mx_sum(by_group(d, a->group_size), last, 1, false), scales->dtype);
}

static int global_of(const struct call *c)
{
    int plain = is_affine(c) ? 3 : 2;
    return c->nin > plain ? plain : -1;
}

static void dequantize_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    int g = global_of(c);
    if (is_affine(c) && (want[1] || want[2]))
        affine_gradients(c->args, ct[0], c->x[0], c->x[1], want + 1, dx + 1);
    if (g >= 0 && want[g]) {
        mx y = mx_multiply(mx_astype(ct[0], DT_float32), mx_astype(c->y[0], DT_float32));
        dx[g] = mx_divide(mx_reshape_like(mx_sum(y, NULL, 0, false), c->x[g]), c->x[g]);
    }
}

static void dequantize_jvp(const struct call *c, const mx t[], mx dy[])
{
    int g = global_of(c);
    if (is_affine(c) && (t[1] || t[2])) {
        mx x[3] = { c->x[0], or_zeros(t[1], c->x[1]), or_zeros(t[2], c->x[2]) };
        dy[0] = mx_infer(c->op, c->args, 3, x);
    }
    if (g >= 0 && t[g]) {
        mx ratio = mx_reshape(mx_divide(t[g], c->x[g]), 0, NULL);
        dy[0] = mx_multiply(c->y[0], mx_astype(ratio, c->y[0]->dtype));
    }
}

static void dequantize_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct quant_args a = *(const struct quant_args *)c->args;
    struct size n = batch_size(c, axis);
    int g = global_of(c), nin = c->nin;
    mx x[4] = { NULL }, global = NULL;
    for (int i = 0; i < nin; i++) x[i] = i == g ? c->x[i] : batch_all(c->x[i], axis[i], n);
    if (g >= 0 && axis[g] >= 0) { /* one for each example: multiplied afterwards */
        global = mx_multiply(batch_first(c->x[g], axis[g]), array_of_double(1 / NVFP4_LARGEST, DT_float32));
        a.dtype = DT_float32;
        nin--;
    }
    y[0] = mx_infer(c->op, &a, nin, x);
    if (global) {
        int ones[MX_MAX_NDIM];
        for (int i = 1; i < y[0]->ndim; i++) ones[i - 1] = i;
        y[0] = mx_multiply(y[0], mx_expand_dims(mx_flatten(global, 0, -1), ones, y[0]->ndim - 1));
        y[0] = mx_astype(y[0], (enum dtype)((const struct quant_args *)c->args)->dtype);
    }
    yaxis[0] = 0;
}

const struct op op_dequantize = {
    OP_ROW(dequantize),    ARGS(quant_args),      .shapes = dequantize_shapes,
    .vjp = dequantize_vjp, .jvp = dequantize_jvp, .vmap = dequantize_vmap,
};

/* ---- rules of products ---- */

/* Columns of the numbers that a packed matrix stands for, and of the product. */
static int64_t unpacked(const struct quant_args *a, mx w) { return (int64_t)dim(w, -1) * 32 / a->bits; }
static int64_t product_columns(const struct quant_args *a, mx w) { return a->transpose ? dim(w, -2) : unpacked(a, w); }

static bool inner_fits(const char *op, mx x, mx w, const struct quant_args *a)
{
    int64_t k = a->transpose ? unpacked(a, w) : dim(w, -2);
    if (dim(x, -1) == k)
        return true;
    mx_fail("[%s] expected a last dimension of %lld to multiply with packed weights of shape %s "
            "(groups of %d elements of %d bits, transpose=%s), got shape %s",
            op, (long long)k, shape_of(w), a->group_size, a->bits, a->transpose ? "True" : "False", shape_of(x));
    return false;
}

static int quantized_matmul_shapes(const struct call *c, struct spec out[])
{
    const struct quant_args *a = c->args;
    mx x = c->x[0], w = c->x[1];
    int nx = x->ndim - 2, nw = w->ndim - 2, n = nx > nw ? nx : nw;
    if (!groups_fit(c, 1) || !inner_fits(c->op->name, x, w, a))
        return 1;
    out->dtype = x->dtype;
    out->ndim = n + 2;
    for (int i = 0; i < n; i++) {
        int dx = i < n - nx ? 1 : x->shape[i - (n - nx)], dw = i < n - nw ? 1 : w->shape[i - (n - nw)];
        if (dx != dw && dx != 1 && dw != 1)
            return failed(mx_fail("[quantized_matmul] expected batch dimensions that broadcast, got "
                                  "shapes %s and %s",
                                  shape_of(x), shape_of(w)));
        out->shape[i] = dx == 1 ? dw : dx;
    }
    out->shape[n] = dim(x, -2);
    return (out->shape[n + 1] = dim_of("quantized_matmul", product_columns(a, w))) < 0;
}

/* The same product with other numbers in place of operand i (and those at i + 1, if given). */
static mx with_operand(const struct call *c, const struct quant_args *a, int i, mx v, mx next)
{
    mx x[6];
    memcpy(x, c->x, (size_t)c->nin * sizeof *x);
    x[i] = v;
    if (next)
        x[i + 1] = next;
    return mx_infer(c->op, a, c->nin, x);
}

static struct quant_args turned_args(const struct call *c)
{
    struct quant_args a = *(const struct quant_args *)c->args;
    a.transpose = !a.transpose;
    return a;
}

static mx as_rows(mx x) { return mx_flatten(x, 0, -2); }

static void quantized_matmul_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct quant_args *a = c->args;
    mx x = c->x[0], w = c->x[1], d = ct[0];
    if (want[0]) {
        struct quant_args back = turned_args(c);
        dx[0] = mx_sum_to_like(with_operand(c, &back, 0, d, NULL), x);
    }
    if (is_affine(c) && (want[2] || want[3])) {
        if (w->ndim == 2)
            x = as_rows(x), d = as_rows(d);
        mx whole = a->transpose ? mx_matmul(mx_swapaxes(d, -1, -2), x) : mx_matmul(mx_swapaxes(x, -1, -2), d);
        if (w->ndim > 2) /* the sum over what they were broadcast to */
            whole = mx_sum_to_like(whole, mx_infer(&op_dequantize, a, 3, c->x + 1));
        affine_gradients(a, whole, w, c->x[2], want + 2, dx + 2);
    }
}

/* Linear in x, and in scales and biases together. */
static void packed_product_jvp(const struct call *c, const mx t[], mx dy[])
{
    mx sum = NULL;
    if (t[0])
        sum = with_operand(c, c->args, 0, t[0], NULL);
    if (is_affine(c) && (t[2] || t[3])) {
        mx term = with_operand(c, c->args, 2, or_zeros(t[2], c->x[2]), or_zeros(t[3], c->x[3]));
        sum = sum ? mx_add(sum, term) : term;
    }
    if (sum)
        dy[0] = sum;
}

/* The packed matrix with all that belongs to it, batched first if one of them is batched. */
static bool batch_parts(const struct call *c, const int axis[], mx x[])
{
    struct size n = batch_size(c, axis);
    int parts = is_affine(c) ? 3 : 2;
    bool any = false;
    for (int i = 1; i <= parts; i++) any = any || axis[i] >= 0;
    for (int i = 1; i <= parts; i++) x[i] = any ? batch_all(c->x[i], axis[i], n) : c->x[i];
    return any;
}

/* x, whose batch comes first, with `n` dimensions between that and the last two. */
static mx with_middle(mx x, int n)
{
    int ones[MX_MAX_NDIM], missing = n - (x->ndim - 3);
    for (int i = 0; i < missing; i++) ones[i] = 1 + i;
    return missing > 0 ? mx_expand_dims(x, ones, missing) : x;
}

static void quantized_matmul_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx x[4] = { batch_first(c->x[0], axis[0]) };
    bool parts = batch_parts(c, axis, x);
    int nx = c->x[0]->ndim - (axis[0] >= 0) - 2, nw = x[1]->ndim - parts - 2, n = nx > nw ? nx : nw;
    if (axis[0] >= 0)
        x[0] = with_middle(x[0], n);
    for (int i = 1; parts && i < c->nin; i++) x[i] = with_middle(x[i], n);
    y[0] = mx_infer(c->op, c->args, c->nin, x);
    yaxis[0] = 0;
}

const struct op op_quantized_matmul = {
    OP_ROW(quantized_matmul),    ARGS(quant_args),          .shapes = quantized_matmul_shapes,
    .vjp = quantized_matmul_vjp, .jvp = packed_product_jvp, .vmap = quantized_matmul_vmap,
};

/* ---- rules of gather_qmm: the two arrays of indices are last ---- */

static int gather_qmm_shapes(const struct call *c, struct spec out[])
{
    mx index = c->x[c->nin - 1];
    if (!groups_fit(c, 1) || !inner_fits(c->op->name, c->x[0], c->x[1], c->args))
        return 1;
    if (!same_shape(index, c->x[c->nin - 2]))
        return failed(mx_fail("[gather_qmm] expected indices of one shape, got %s and %s", shape_of(c->x[c->nin - 2]),
                              shape_of(index)));
    spec_set(out, c->x[0]->dtype, index->ndim, index->shape);
    if (index->ndim + 2 > MX_MAX_NDIM)
        return failed(
            mx_fail("[gather_qmm] expected at most %d dimensions of indices, got %d", MX_MAX_NDIM - 2, index->ndim));
    out->shape[out->ndim++] = dim(c->x[0], -2);
    int n = dim_of("gather_qmm", product_columns(c->args, c->x[1]));
    out->shape[out->ndim++] = n;
    return n < 0;
}

static void gather_qmm_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct quant_args *a = c->args;
    mx lhs = c->x[c->nin - 2], rhs = c->x[c->nin - 1], x = c->x[0], w = c->x[1];
    if (want[0]) {
        struct quant_args back = turned_args(c);
        mx v[6];
        memcpy(v, c->x, (size_t)c->nin * sizeof *v);
        v[0] = ct[0];
        v[c->nin - 2] = mx_flat_places(lhs, lhs->ndim);
        dx[0] = mx_add_matrices(mx_infer(c->op, &back, c->nin, v), lhs, x);
    }
    if (is_affine(c) && (want[2] || want[3])) {
        mx places = mx_flat_places(lhs, lhs->ndim);
        mx whole =
            a->transpose ? mx_scatter_mm(ct[0], x, places, lhs, rhs, w) : mx_scatter_mm(x, ct[0], lhs, places, rhs, w);
        affine_gradients(a, whole, w, c->x[2], want + 2, dx + 2);
    }
}

static void gather_qmm_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct size n = batch_size(c, axis);
    int l = c->nin - 2;
    mx x[6] = { batch_first(c->x[0], axis[0]) };
    bool parts = batch_parts(c, axis, x);
    x[l] = mx_batched_places(c->x[l], axis[l], n, axis[0] >= 0 ? x[0] : NULL);
    x[l + 1] = mx_batched_places(c->x[l + 1], axis[l + 1], n, parts ? x[1] : NULL);
    y[0] = mx_infer(c->op, c->args, c->nin, x);
    yaxis[0] = 0;
}

const struct op op_gather_qmm = {
    OP_ROW(gather_qmm),    ARGS(quant_args),          .shapes = gather_qmm_shapes,
    .vjp = gather_qmm_vjp, .jvp = packed_product_jvp, .vmap = gather_qmm_vmap,
};

/* ---- builders ---- */

int mx_quantize(mx w, int group_size, int bits, const char *mode, mx global, mx out[3])
{
    struct quant_args a;
    const char *name = "quantize";
    if (is_nil(w) || (global && is_nil(global)) || !settle_mode(name, group_size, bits, mode, &a) ||
        !is_real_float(name, "an array", w->dtype) || !global_fits(name, global, &a))
        return -1;
    if (w->ndim < 2 || dim(w, -1) % a.group_size) {
        mx_fail("[quantize] expected at least two dimensions, the last a multiple of the group size %d, "
                "got shape %s",
                a.group_size, shape_of(w));
        return -1;
    }
    mx x[2] = { w, global };
    int n = a.mode == MODE_AFFINE ? 3 : 2;
    mx_infer_n(&op_quantize, &a, global ? 2 : 1, x, n, out);
    return is_nil(out[0]) ? -1 : n;
}

/* What quantizing leaves of x, in its own type. */
static mx round_trip(const char *op, mx x, const struct quant_args *a, mx global)
{
    if (dim(x, -1) % a->group_size)
        return mx_fail("[%s] expected a last dimension that is a multiple of the group size %d, got shape %s", op,
                       a->group_size, shape_of(x));
    return mx_infer(&op_round_trip, a, global ? 2 : 1, (mx[]){ x, global });
}

mx mx_dequantize(mx w, mx scales, mx biases, int group_size, int bits, const char *mode, mx global, const enum dtype *t)
{
    struct quant_args a;
    const char *name = "dequantize";
    if ((global && is_nil(global)) || !settle_mode(name, group_size, bits, mode, &a) ||
        !parts_fit(name, w, &scales, &biases, &a, 1) || !global_fits(name, global, &a))
        return MX_NIL;
    a.dtype = t ? *t : a.mode == MODE_AFFINE ? scales->dtype : DT_bfloat16;
    if (!is_real_float(name, "a result", (enum dtype)a.dtype))
        return MX_NIL;
    if (scales->dtype == DT_float64) { /* which kernels do not read */
        mx code = by_group(codes_as_numbers(&a, w, mx_astype(scales, DT_float32), DT_float64), a.group_size);
        mx y = mx_add(mx_multiply(code, mx_expand_dims(scales, last, 1)), mx_expand_dims(biases, last, 1));
        return mx_astype(mx_flatten(y, -2, -1), (enum dtype)a.dtype);
    }
    mx x[4] = { w, scales };
    int n = 2;
    if (biases)
        x[n++] = biases;
    if (global)
        x[n++] = global;
    return mx_infer(&op_dequantize, &a, n, x);
}

/* The type that x is multiplied in: float32 or a half type. */
static mx quantized_operand(const char *op, mx x, mx scales, const struct quant_args *a)
{
    enum dtype t = a->mode == MODE_AFFINE ? promote(x->dtype, scales->dtype) : (enum dtype)x->dtype;
    if (!is_real_float(op, "a first operand", t))
        return MX_NIL;
    if (t == DT_float64)
        return mx_fail("[%s] expected float32, float16 or bfloat16, got float64: packed weights are "
                       "multiplied in float32",
                       op);
    return mx_astype(x, t);
}

mx mx_quantized_matmul(mx x, mx w, mx scales, mx biases, bool transpose, int group_size, int bits, const char *mode)
{
    struct quant_args a;
    const char *name = "quantized_matmul";
    if (is_nil(x) || !settle_mode(name, group_size, bits, mode, &a) || !parts_fit(name, w, &scales, &biases, &a, 2))
        return MX_NIL;
    a.transpose = transpose;
    x = quantized_operand(name, x, scales, &a);
    if (x->ndim == 0)
        return is_nil(x) ? x : mx_fail("[%s] expected a first operand of at least one dimension, got a scalar", name);
    if (is_nil(x) || !inner_fits(name, x, w, &a))
        return MX_NIL;
    bool row = x->ndim == 1;
    mx in[4] = { row ? mx_expand_dims(x, (int[]){ 0 }, 1) : x, w, scales, biases };
    mx y = mx_infer(&op_quantized_matmul, &a, biases ? 4 : 3, in);
    return row ? mx_squeeze(y, (int[]){ -2 }, 1) : y;
}

/* A global scale for each of the matrices of w, or for all of them. */
static mx scaled_by(const char *op, mx y, mx w, mx global, mx rhs, const struct quant_args *a)
{
    if (!global || is_nil(global) || is_nil(y))
        return global && is_nil(global) ? global : y;
    if (a->mode != MODE_NVFP4 || global->dtype != DT_float32)
        return mx_fail("[%s] expected a global scale of float32 and mode nvfp4, got %s and %s", op,
                       dtype_name(global->dtype), modes[a->mode].name);
    int64_t matrices = matrix_count(w);
    if (global->tracer)
        shapes_matter(op);
    if (global->size != 1 && (!rhs || global->size != matrices))
        return mx_fail("[%s] expected one global scale or one for each of %lld matrices, got shape %s", op,
                       (long long)matrices, shape_of(global));
    mx s = mx_divide(mx_reshape(global, 1, (int[]){ -1 }), array_of_double(NVFP4_LARGEST, DT_float32));
    if (global->size != 1)
        s = mx_expand_dims(mx_take(s, rhs, 0), (int[]){ -1, -2 }, 2);
    return mx_astype(mx_multiply(mx_astype(y, DT_float32), s), y->dtype);
}

static mx gather_qmm(bool both, mx x, mx w, mx scales, mx biases, mx lhs, mx rhs, bool transpose, int group_size,
                     int bits, const char *mode, mx global)
{
    struct quant_args a;
    const char *name = "gather_qmm";
    if (is_nil(x) || !settle_mode(name, group_size, bits, mode, &a) || !parts_fit(name, w, &scales, &biases, &a, 2))
        return MX_NIL;
    a.transpose = transpose;
    a.both = both;
    x = quantized_operand(name, x, scales, &a);
    if (is_nil(x))
        return x;
    bool row = x->ndim == 1;
    if (row)
        x = mx_expand_dims(x, (int[]){ 0 }, 1);
    if (x->ndim < 2)
        return mx_fail("[%s] expected a first operand of at least one dimension, got a scalar", name);
    if (!inner_fits(name, x, w, &a) || !mx_gather_indices(name, x, w, &lhs, &rhs))
        return MX_NIL;
    mx in[6] = { x, w, scales };
    int n = 3;
    if (biases)
        in[n++] = biases;
    in[n++] = lhs, in[n++] = rhs;
    mx y = scaled_by(name, mx_infer(&op_gather_qmm, &a, n, in), w, global, rhs, &a);
    return row ? mx_squeeze(y, (int[]){ -2 }, 1) : y;
}

mx mx_gather_qmm(mx x, mx w, mx scales, mx biases, mx lhs, mx rhs, bool transpose, int group_size, int bits,
                 const char *mode, mx global)
{
    return gather_qmm(false, x, w, scales, biases, lhs, rhs, transpose, group_size, bits, mode, global);
}

/* What qqmm and gather_qqmm check; *x becomes what quantizing leaves of it, and *w too where it is
 * not packed. */
static bool both_quantized(const char *op, mx *x, mx *w, mx scales, int group_size, int bits, const char *mode, mx gx,
                           mx gw, struct quant_args *a)
{
    if (is_nil(*x) || is_nil(*w) || (scales && is_nil(scales)) || (gx && is_nil(gx)) || (gw && is_nil(gw)) ||
        !settle_mode(op, group_size, bits, mode, a))
        return false;
    bool both = !gx == !gw;
    if (a->mode == MODE_AFFINE)
        mx_fail("[%s] expected the mode nvfp4, mxfp8 or mxfp4, got affine", op);
    else if (!both)
        mx_fail("[%s] expected both global scales or neither", op);
    else if ((*w)->dtype == DT_uint32 && !scales)
        mx_fail("[%s] expected scales with packed weights", op);
    else if ((*w)->dtype != DT_uint32 && scales)
        mx_fail("[%s] expected packed weights of uint32 with scales, got %s", op, dtype_name((*w)->dtype));
    else if ((*x)->ndim < 1 || (*w)->ndim < 2)
        mx_fail("[%s] expected operands of at least one and two dimensions, got shapes %s and %s", op, shape_of(*x),
                shape_of(*w));
    else if (is_real_float(op, "a first operand", (*x)->dtype) && global_fits(op, gx, a)) {
        if (!scales) {
            enum dtype t = promote((*x)->dtype, (*w)->dtype);
            if (!is_real_float(op, "a second operand", t) || !global_fits(op, gw, a))
                return false;
            if (dim(*x, -1) != dim(*w, -1)) {
                mx_fail("[%s] expected last dimensions of one size, got shapes %s and %s", op, shape_of(*x),
                        shape_of(*w));
                return false;
            }
            *x = mx_astype(*x, t);
            *w = round_trip(op, mx_astype(*w, t), a, gw);
        }
        *x = round_trip(op, *x, a, gx);
        return !is_nil(*x) && !is_nil(*w);
    }
    return false;
}

mx mx_qqmm(mx x, mx w, mx scales, int group_size, int bits, const char *mode, mx gx, mx gw)
{
    struct quant_args a;
    if (!both_quantized("qqmm", &x, &w, scales, group_size, bits, mode, gx, gw, &a))
        return MX_NIL;
    if (!scales)
        return mx_matmul(x, mx_swapaxes(w, -1, -2));
    mx y = mx_quantized_matmul(x, w, scales, NULL, true, group_size, bits, mode);
    return scaled_by("qqmm", y, w, gw, NULL, &a);
}

mx mx_gather_qqmm(mx x, mx w, mx scales, mx lhs, mx rhs, int group_size, int bits, const char *mode, mx gx, mx gw)
{
    struct quant_args a;
    mx one = gw && !scales ? gw : NULL;
    if (!both_quantized("gather_qqmm", &x, &w, scales, group_size, bits, mode, gx, gx ? gw : one, &a))
        return MX_NIL;
    if (!scales)
        return mx_gather_mm_for(true, x, mx_swapaxes(w, -1, -2), lhs, rhs);
    return gather_qmm(true, x, w, scales, NULL, lhs, rhs, true, group_size, bits, mode, gw);
}

/* ---- e4m3 by itself: numbers of eight bits ---- */

static int to_fp8_shapes(const struct call *c, struct spec out[])
{
    return spec_set(out, DT_uint8, c->x[0]->ndim, c->x[0]->shape);
}

static int from_fp8_shapes(const struct call *c, struct spec out[])
{
    return spec_set(out, (enum dtype)((const struct quant_args *)c->args)->dtype, c->x[0]->ndim, c->x[0]->shape);
}

static void quantized_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    y[0] = mx_infer(c->op, c->args, 1, c->x);
    yaxis[0] = axis[0];
}

static bool to_fp8_fits(const struct call *c)
{
    return call_has(c, 1, 1) && is_real_float("to_fp8", "an array", c->x[0]->dtype);
}

const struct op op_to_fp8 = {
    OP_ROW(to_fp8), .shapes = to_fp8_shapes, .vjp = no_vjp, .jvp = no_jvp, .vmap = quantized_vmap, .fits = to_fp8_fits,
};

const struct op op_from_fp8 = {
    OP_ROW(from_fp8), ARGS(quant_args), .shapes = from_fp8_shapes, .vjp = no_vjp, .jvp = no_jvp, .vmap = quantized_vmap,
};

mx mx_to_fp8(mx x)
{
    if (is_nil(x) || !is_real_float("to_fp8", "an array", x->dtype))
        return MX_NIL;
    return mx_infer(&op_to_fp8, NULL, 1, &x);
}

mx mx_from_fp8(mx x, enum dtype t)
{
    if (is_nil(x) || !is_real_float("from_fp8", "a result", t))
        return MX_NIL;
    if (x->dtype != DT_uint8)
        return mx_fail("[from_fp8] expected an array of uint8, got %s", dtype_name(x->dtype));
    return mx_infer(&op_from_fp8, &(struct quant_args){ .dtype = t }, 1, &x);
}
