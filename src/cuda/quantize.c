/* quantize.c: packed weights on a GPU. */
#include "cuda/kernels/quantize.h"

#include <string.h>

#include <stdio.h>

#include "core/scope.h"
#include "core/shape.h"
#include "cuda/blas.h"
#include "cuda/gpu.h"
#include "cuda/vector.h"
#include "ops/quantize.h"
#include "plan/lookup.h"

static enum gpu_quant_format gpu_format_of(const struct quant_args *a)
{
    switch (a->mode) {
    case MODE_MXFP4: return FORMAT_mxfp4;
    case MODE_MXFP8: return FORMAT_mxfp8;
    case MODE_NVFP4: return FORMAT_nvfp4;
    default: return a->bits == 8 ? FORMAT_u8 : (enum gpu_quant_format)(FORMAT_u1 + a->bits - 1);
    }
}

/* The kernel of a name in a module, for elements of type t; of kernels for each format that of the format. */
static void *kernel_of(const struct run *r, const char *module, struct gpu_found *slots, const char *name, int format,
                       enum dtype t)
{
    static const char *const names[] = {
#define X(name, bits) #name,
        QUANT_FORMATS(X)
#undef X
    };
    char text[32];
    if (format >= 0)
        snprintf(text, sizeof text, "%s_%s", name, names[format]);
    return gpu_find(gpu_of(r), &slots[t], module, format < 0 ? name : text, t);
}
static void *quant_kernel(const struct run *r, struct gpu_found *slots, const char *name, int format, enum dtype t)
{
    return kernel_of(r, "quantize", slots, name, format, t);
}

static int launch_quantized(const struct run *r, void *kernel, int64_t threads, void *args)
{
    return gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(threads, QUANT_THREADS), QUANT_THREADS,
                      (void *[]){ args });
}

/* ---- making */

static int launch_packing(const struct run *r, bool back)
{
    static struct gpu_found found[DT_COUNT];
    const struct quant_args *q = r->args;
    mx x = r->x[0];
    mx_own hold = { 0 };
    void *kernel = quant_kernel(r, found, "quantize", -1, (enum dtype)x->dtype);
    int failed = !kernel;
    for (int k = 0; k < r->nout && !failed; k++) failed = gpu_out_new(r, k);
    if (failed || x->size == 0)
        return failed;
    if (!gpu_all_row_major(r, 1, &x, &hold))
        return 1;
    struct pack_args a = { .x = gpu_pointer(r, x),
                           .global = r->nin > 1 ? gpu_pointer(r, r->x[1]) : NULL,
                           .n = x->size,
                           .group = q->group_size,
                           .bits = q->bits,
                           .format = gpu_format_of(q) };
    if (back) {
        a.y = gpu_pointer(r, r->y[0]);
    } else {
        a.w = gpu_pointer(r, r->y[0]);
        a.scales = gpu_pointer(r, r->y[1]);
        a.biases = r->nout > 2 ? gpu_pointer(r, r->y[2]) : NULL;
    }
    failed = launch_quantized(r, kernel, a.n / QUANT_EACH, &a);
    mx_drop(&hold);
    return failed;
}

int gpu_run_quantize(const struct run *r) { return launch_packing(r, false); }
int gpu_run_round_trip(const struct run *r) { return launch_packing(r, true); }

/* ---- e4m3 by itself */

static int launch_conversion(const struct run *r, struct gpu_found *slots, const char *name, enum dtype t)
{
    mx x = r->x[0];
    mx_own hold = { 0 };
    void *kernel = quant_kernel(r, slots, name, -1, t);
    if (!kernel || gpu_out_new(r, 0) || !gpu_all_row_major(r, 1, &x, &hold))
        return 1;
    struct pack_args a = { .x = gpu_pointer(r, x), .y = gpu_pointer(r, r->y[0]), .n = x->size };
    int failed = launch_quantized(r, kernel, a.n, &a);
    mx_drop(&hold);
    return failed;
}

int gpu_run_to_fp8(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    return launch_conversion(r, found, "to_fp8", (enum dtype)r->x[0]->dtype);
}
int gpu_run_from_fp8(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    return launch_conversion(r, found, "from_fp8", (enum dtype)r->y[0]->dtype);
}

/* ---- reading */

int gpu_run_dequantize(const struct run *r)
{
    static struct gpu_found found[FORMATS][DT_COUNT];
    const struct quant_args *q = r->args;
    int plain = q->mode == MODE_AFFINE ? 3 : 2, f = gpu_format_of(q);
    mx x[3] = { r->x[0], r->x[1], plain == 3 ? r->x[2] : NULL }, y = r->y[0];
    mx_own hold[3] = { 0 };
    void *kernel = quant_kernel(r, found[f], "dequantize", f, (enum dtype)y->dtype);
    int failed = !kernel || gpu_out_new(r, 0);
    if (failed || y->size == 0)
        return failed;
    failed = !gpu_all_row_major(r, plain, x, hold);
    if (!failed) {
        struct unpack_args a = { .y = gpu_pointer(r, y),
                                 .w = gpu_pointer(r, x[0]),
                                 .scales = gpu_pointer(r, x[1]),
                                 .biases = plain == 3 ? gpu_pointer(r, x[2]) : NULL,
                                 .global = r->nin > plain ? gpu_pointer(r, r->x[plain]) : NULL,
                                 .n = y->size,
                                 .log_group = __builtin_ctz((unsigned)q->group_size),
                                 .format = f,
                                 .t = x[1]->dtype };
        int each = (int)QUANT_PIECE(q->bits, itemsize(y)) * QUANT_PIECES(q->bits);
        failed = launch_quantized(r, kernel, ceil_div(a.n, each), &a);
    }
    gpu_drop(3, hold);
    return failed;
}

/* ---- products */

/* Rows of x that meet codes as they are read; of half types, from which warps multiply matrices where they can, and
 * from which numbers are worth writing out, for our kernels and for cuBLASLt; of those that each picked matrix meets,
 * of half types, too.
 *
 * On an H100 our kernels make 123 TFLOP/s of 4 bits and 256 rows, 0.27 us a row of a matrix of 4096 by 4096; its
 * numbers take 12 us to be written out, and cuBLASLt some 20 us to read and multiply them, up to 256 rows: 32 us are
 * 119 rows.  On an H200 groups of warps take 13 us of it with 64 rows, 23 with 256 and 109 with 2,048, cuBLASLt with
 * the numbers 26, 27 and 110; a step of 256 rows takes 0.4 times as long again of 8 bits. */
enum {
    FEW = 16,
    WARPS_FROM = 2,
    GROUPS_FROM = 17,
    NUMBERS_FROM = 1024,
    NUMBERS_FROM_BLAS = 160,
    NUMBERS_FROM_GROUPS = 2048,
    NUMBERS_FROM_GROUPS_BLAS = 1536,
    NUMBERS_FROM_GROUPS_BLAS_WIDE = 769, /* of codes of 8 bits */
    PICKED_FEW = 7
};

static bool few_dimensions(const struct node *n)
{
    return n->in[0]->ndim <= QMM_DIMS + 2 && n->in[1]->ndim <= QMM_DIMS + 2;
}
bool gpu_takes_quantized(const struct node *n) { return n->in[0]->dtype != DT_float64 && few_dimensions(n); }

/* Scales or biases as elements of x's type, which holds them exactly. */
static mx as_type(const struct run *r, mx x, enum dtype t, mx_own *hold)
{
    if (x->dtype == t || x->dtype == DT_uint8)
        return x;
    mx_keep(hold, array_new(t, x->ndim, x->shape));
    struct run cast = { .stream = r->stream, .node = r->node, .nin = 1, .nout = 1, .x = &x, .y = &hold->it };
    return is_nil(hold->it) || gpu_run_astype(&cast) ? MX_NIL : hold->it;
}

/* The batch of a product; rows of x follow each other where all of them meet one matrix. */
static void walk_batch(struct qmm_args *a, mx y, mx x, mx w)
{
    int shape[MX_MAX_NDIM], ndim = y->ndim - 2;
    int64_t strides[2][MX_MAX_NDIM], *all[] = { strides[0], strides[1] };
    a->m = dim(x, -2);
    a->batch = y->size / (a->m * a->n);
    if (w->size == (int64_t)dim(w, -1) * dim(w, -2)) {
        a->m *= a->batch;
        a->batch = 1;
        return;
    }
    for (int o = 0; o < 2; o++) {
        mx z = o ? w : x;
        int64_t step = 1;
        for (int d = ndim; d-- > 0;) {
            int k = d - (ndim - (z->ndim - 2)), size = k < 0 ? 1 : z->shape[k];
            strides[o][d] = size == 1 ? 0 : step;
            step *= size;
        }
    }
    for (int d = 0; d < ndim; d++) shape[d] = y->shape[d];
    a->ndim = collapse(ndim, shape, 2, all);
    for (int d = 0; d < a->ndim; d++) {
        a->shape[d] = (uint32_t)shape[d];
        for (int o = 0; o < 2; o++) a->stride[o][d] = strides[o][d];
    }
}

/* Do warps multiply matrices of such a product?  They read 16 bytes at once. */
static bool has_warps(const struct run *r, const struct qmm_args *a, int bits, enum dtype t)
{
    static struct gpu_known slots[DT_COUNT];
    bool fits = a->transpose && dtype_is_half(t) && a->m >= WARPS_FROM && a->k > 0 && a->k % 32 == 0 &&
                a->k / 32 * bits % 4 == 0;
    return fits && a->aligned && (uint64_t)a->w % 16 == 0 && gpu_has(gpu_of(r), &slots[t], "quantize", "qmm_merge", t);
}

/* Blocks with a tile each, as many as a->tall, a->wide and the batch are, and a piece of k; where there are several
 * pieces, then one that adds up their sums. */
static int launch_tiles(const struct run *r, struct qmm_args *a, void *kernel, int threads, int bytes, enum dtype t)
{
    static struct gpu_found merge[DT_COUNT];
    struct buffer *sums = NULL;
    int64_t blocks = a->tall * a->wide * a->batch, size = a->batch * a->m * a->n;
    int failed = !kernel;
    a->pieces = (uint32_t)ceil_div(a->k, a->piece);
    if (!failed && a->pieces > 1) {
        failed = !(sums = buffer_new_on(r->stream, (size_t)(size * a->pieces) * sizeof *a->partial));
        a->partial = failed ? NULL : buffer_on(sums, r->stream);
    }
    if (!failed)
        failed = gpu_launch_shared(r->stream, r->node->op->name, kernel, blocks * a->pieces, threads, (size_t)bytes,
                                   (void *[]){ a });
    if (!failed && a->pieces > 1)
        failed =
            !(kernel = quant_kernel(r, merge, "qmm_merge", -1, t)) || launch_quantized(r, kernel, ceil_div(size, 4), a);
    if (sums)
        buffer_release(sums);
    return failed;
}

static int launch_warps(const struct run *r, struct qmm_args *a, int f, int bits, enum dtype t)
{
    enum { SIZES = 3 };
    static struct gpu_found found[SIZES][FORMATS][DT_COUNT];
    static const struct {
        int tall;
        const char *name;
    } sizes[SIZES] = { { 16, "qmm_16" }, { 64, "qmm_64" }, { 128, "qmm_128" } };
    int i = a->m <= 16 ? 0 : a->m <= 64 ? 1 : 2;
    int64_t steps = ceil_div(a->k, QMM_STEP), enough = 2 * (int64_t)gpu_of(r)->multiprocessors;
    a->tall = (uint32_t)ceil_div(a->m, sizes[i].tall);
    a->wide = (uint32_t)ceil_div(a->n, QMM_WIDE);
    int64_t tiles = a->tall * a->wide * a->batch;
    a->piece = ceil_div(steps, greatest(1, least(enough / tiles, steps / 2))) * QMM_STEP;
    return launch_tiles(r, a, quant_kernel(r, found[i][f], sizes[i].name, f, t), QMM_WARP_THREADS,
                        QMM_BYTES(sizes[i].tall, bits), t);
}

/* Do groups of warps multiply matrices of a product that warps would? */
static bool has_groups(const struct run *r, const struct qmm_args *a, enum dtype t)
{
    static struct gpu_known slots[DT_COUNT];
    return a->m >= GROUPS_FROM && gpu_has(gpu_of(r), &slots[t], "quantize_groups", "qmm_groups_64_u4", t);
}

/* How groups multiply: tiles of which height, k in how many pieces.  What that takes is in units of 0.1 us of an H200,
 * where a multiprocessor has one block at a time: a step, what a block does before its first step and after its last;
 * what adds up the pieces' sums. */
static const struct group_tile {
    int tall, step, wide_step, around; /* wide_step: of codes of 8 bits */
    const char *name;
} group_tiles[] = { { 64, 5, 7, 35, "qmm_groups_64" },
                    { 128, 7, 8, 45, "qmm_groups_128" },
                    { 256, 10, 14, 70, "qmm_groups_256" } };
enum { GROUP_TILES = sizeof group_tiles / sizeof *group_tiles };
struct group_cut {
    int tile;
    int64_t pieces;
};
static struct group_cut cut_for_groups(const struct qmm_args *a, int bits, int64_t multiprocessors)
{
    enum { MOST = 8, MERGE = 15, MERGE_MILLION = 7 };
    struct group_cut best = { 0, 1 };
    int64_t steps = ceil_div(a->k, QMM_STEP), least_time = INT64_MAX;
    for (int i = 0; i < GROUP_TILES; i++) {
        const struct group_tile *t = &group_tiles[i];
        int64_t tiles = ceil_div(a->m, t->tall) * ceil_div(a->n, QMM_WIDE) * a->batch;
        for (int64_t pieces = 1; pieces <= least(MOST, greatest(1, steps / 2)); pieces++) {
            int64_t block = ceil_div(steps, pieces) * (bits == 8 ? t->wide_step : t->step) + t->around;
            int64_t time = ceil_div(tiles * pieces, multiprocessors) * block;
            if (pieces > 1)
                time += MERGE + pieces * a->batch * a->m * a->n * MERGE_MILLION / 1000000;
            if (time < least_time) {
                least_time = time;
                best = (struct group_cut){ i, pieces };
            }
        }
    }
    return best;
}

static int launch_groups(const struct run *r, struct qmm_args *a, int f, int bits, enum dtype t)
{
    static struct gpu_found found[GROUP_TILES][FORMATS][DT_COUNT], arrange[DT_COUNT];
    struct group_cut cut = cut_for_groups(a, bits, gpu_of(r)->multiprocessors);
    const struct group_tile *tile = &group_tiles[cut.tile];
    int64_t steps = ceil_div(a->k, QMM_STEP);
    a->height = tile->tall;
    a->tall = (uint32_t)ceil_div(a->m, a->height);
    a->wide = (uint32_t)ceil_div(a->n, QMM_WIDE);
    a->piece = ceil_div(steps, cut.pieces) * QMM_STEP;
    int64_t threads = a->batch * a->tall * a->height * steps * 4;
    struct buffer *arranged = buffer_new_on(r->stream, (size_t)threads * (QMM_STEP / 4 * 2));
    void *kernel = kernel_of(r, "quantize_groups", arrange, "qmm_arrange", -1, t);
    int failed = !arranged || !kernel;
    if (!failed) {
        a->arranged = buffer_on(arranged, r->stream);
        failed = launch_quantized(r, kernel, threads, a) ||
                 launch_tiles(r, a, kernel_of(r, "quantize_groups", found[cut.tile][f], tile->name, f, t),
                              QMM_GROUP_THREADS, QMM_GROUP_BYTES(a->height, bits), t);
    }
    if (arranged)
        buffer_release(arranged);
    return failed;
}

/* One row of x, with as many groups of rows as a.wide says: as many warps for each as have 16 bytes of them for each
 * thread. */
static void count_turns(struct qmv_lines_args *l)
{
    const int64_t warps = QMV_THREADS / 32;
    l->turns = ceil_div((int64_t)l->a.wide * l->a.batch << l->team_bits, warps);
}

/* Of a norm that each block makes there are no more than run at a time. */
static int64_t line_blocks(const struct gpu *g, const struct qmv_lines_args *l)
{
    return l->norm.y ? gpu_even_blocks(g, l->turns, QMV_BLOCKS) : l->turns;
}

/* See gpu_join_fn. */
static int64_t join_lines(const struct gpu *g, void *args, const void *more)
{
    struct qmv_lines_args *l = args;
    const struct qmv_lines_args *m = more;
    bool alike = m->a.x == (l->norm.y ? l->norm.y : l->a.x) && m->a.k == l->a.k && m->a.log_group == l->a.log_group;
    if (!alike || m->norm.y || l->matrices + m->matrices > QMV_MATRICES)
        return 0;
    for (int i = 0; i < m->matrices; i++) {
        l->of[l->matrices] = m->of[i];
        l->of[l->matrices++].first += l->a.wide;
    }
    l->a.wide += m->a.wide;
    count_turns(l);
    return line_blocks(g, l);
}

_Static_assert(QMV_ROWS == 4, "line_after (kernels/vector_results.h) counts four");
_Static_assert(offsetof(struct qmv_turned_args, t) == sizeof(struct qmv_lines_args) &&
                   sizeof(struct qmv_turned_args) <= GPU_VECTORS_BYTES,
               "what a launch that is held has room for");

static int launch_lines(const struct run *r, struct qmv_lines_args *l, int f, enum dtype t, bool holds)
{
    static struct gpu_found found[2][FORMATS][DT_COUNT], turning[FORMATS][DT_COUNT];
    struct qmm_args *a = &l->a;
    const char *op = r->node->op->name;
    const void *others[4 * QMV_MATRICES];
    int n = 0;
    for (int i = 0; i < l->matrices; i++) {
        const struct qmv_lines *of = &l->of[i];
        others[n++] = of->w;
        others[n++] = of->scales;
        others[n++] = of->biases;
        others[n++] = of->c;
    }
    bool normed = a->batch == 1 && gpu_norm_of_vector(r, t, a->x, a->k, n, others, &l->norm);
    void *kernel = quant_kernel(r, found[normed][f], normed ? "qmv_lines_normed" : "qmv_lines", f, t), *args[] = { l };
    const int32_t team = gpu_power_of_two(ceil_div(a->k * (f == FORMAT_u8 ? 8 : 4) / 128, 32), QMV_THREADS / 32);
    l->team_bits = __builtin_ctz((unsigned)team);
    count_turns(l);
    int64_t blocks = line_blocks(gpu_of(r), l);
    if (!kernel)
        return 1;
    void **y = normed ? &l->norm.y : NULL;
    if (!holds || blocks > INT32_MAX)
        return gpu_launch_with_norm(r->stream, op, kernel, blocks, QMV_THREADS, args, y);
    struct gpu_vectors v = { .join = join_lines,
                             .kernel = kernel,
                             .turning = quant_kernel(r, turning[f], "qmv_lines_turned", f, t),
                             .blocks = (unsigned)blocks,
                             .threads = QMV_THREADS,
                             .type = t,
                             .n = l->matrices,
                             .reads = { a->x, l->norm.x, l->norm.weight, l->norm.bias },
                             .bytes = sizeof *l };
    for (int i = 0; i < l->matrices; i++) {
        v.y[i] = l->of[i].y;
        v.m[i] = l->of[i].n;
    }
    memcpy(v.reads + 4, others, (size_t)n * sizeof *others);
    return !v.turning || gpu_launch_vectors(r->stream, op, &v, l, y);
}

/* Does its kernel read the matrix, whose rows begin at multiples of 16 bytes, as x does? */
static bool is_read_by_lines(const struct qmm_args *a, int f)
{
    return a->transpose && a->m == 1 && (f == FORMAT_u4 || f == FORMAT_u8) && a->aligned && (uint64_t)a->w % 16 == 0;
}

static int launch_qmm(const struct run *r, struct qmm_args *a, int f, int bits, enum dtype t)
{
    static struct gpu_found one[FORMATS][DT_COUNT], four[FORMATS][DT_COUNT], many[FORMATS][DT_COUNT];
    struct gpu *g = gpu_of(r);
    if (has_warps(r, a, bits, t))
        return has_groups(r, a, t) ? launch_groups(r, a, f, bits, t) : launch_warps(r, a, f, bits, t);
    bool few = a->transpose && a->m <= FEW;
    if (is_read_by_lines(a, f)) {
        struct qmv_lines_args l = { .a = *a, .matrices = 1 };
        l.of[0] = (struct qmv_lines){ a->y, a->w, a->scales, a->biases, NULL, a->n, 0 };
        l.a.wide = (uint32_t)ceil_div(a->n, QMV_ROWS);
        return launch_lines(r, &l, f, t, false);
    }
    void *kernel = !few        ? quant_kernel(r, many[f], "qmm", f, t)
                   : a->m == 1 ? quant_kernel(r, one[f], "qmv", f, t)
                               : quant_kernel(r, four[f], "qmv4", f, t);
    if (!kernel)
        return 1;
    a->tall = (uint32_t)ceil_div(a->m, !few ? QMM_SIDE : a->m == 1 ? 1 : QMV_VECTORS);
    a->wide = (uint32_t)ceil_div(a->n, few ? QMV_ROWS : QMM_SIDE);
    int64_t teams = (int64_t)a->tall * a->wide * a->batch, warps = QMV_THREADS / 32;
    if (few) /* more warps for each row where rows are too few to keep memory busy */
        a->team = gpu_power_of_two(ceil_div((int64_t)g->multiprocessors * 16, teams), (int32_t)warps);
    return gpu_launch(r->stream, r->node->op->name, kernel, few ? ceil_div(teams * a->team, warps) : teams,
                      few ? QMV_THREADS : QMM_THREADS, (void *[]){ a });
}

bool gpu_takes_gathered(const struct node *n) { return n->in[0]->dtype != DT_float64; }

static int run_packed_product(const struct run *r, bool gather)
{
    const struct quant_args *q = r->args;
    bool affine = q->mode == MODE_AFFINE;
    int n = affine ? 4 : 3;
    mx y = r->y[0], x[4] = { r->x[0], r->x[1], r->x[2], affine ? r->x[3] : NULL }, index[2];
    mx_own hold[4] = { 0 }, cast[2] = { 0 }, hold_index[2] = { 0 };
    struct buffer *room = NULL;
    if (gpu_out_new(r, 0))
        return 1;
    if (gather ? r->x[n]->size == 0 : y->size == 0)
        return 0;
    MX_SCOPE(NULL);
    enum dtype t = (enum dtype)x[0]->dtype;
    bool failed = false;
    for (int i = 2; i < n && !failed; i++) failed = is_nil(x[i] = as_type(r, x[i], t, &cast[i - 2]));
    failed = failed || !gpu_all_row_major(r, n, x, hold);
    if (gather && !failed) {
        index[0] = r->x[n];
        index[1] = r->x[n + 1];
        failed = !gpu_all_row_major(r, 2, index, hold_index) ||
                 !(room = buffer_new_on(r->stream, (size_t)index[0]->size * 2 * sizeof(uint32_t)));
        uint32_t *to = room ? buffer_on(room, r->stream) : NULL;
        const struct lookup_index what[] = { lookup_matrix_of(index[0], 0, x[0]), lookup_matrix_of(index[1], 1, x[1]) };
        failed = failed || gpu_pick(r, q->both ? "gather_qqmm" : "gather_qmm", 2, what,
                                    (uint32_t *[]){ to, to + index[0]->size });
    }
    if (!failed && y->size) {
        struct qmm_args a = { .y = gpu_pointer(r, y),
                              .x = gpu_pointer(r, x[0]),
                              .w = gpu_pointer(r, x[1]),
                              .scales = gpu_pointer(r, x[2]),
                              .biases = affine ? gpu_pointer(r, x[3]) : NULL,
                              .n = dim(y, -1),
                              .k = dim(x[0], -1),
                              .log_group = __builtin_ctz((unsigned)q->group_size),
                              .transpose = q->transpose,
                              .words = (int64_t)dim(x[1], -2) * dim(x[1], -1),
                              .groups = (int64_t)dim(x[2], -2) * dim(x[2], -1) };
        a.aligned = (uint64_t)a.x % 16 == 0;
        if (gather) {
            a.m = dim(x[0], -2);
            a.batch = index[0]->size;
            a.lhs = buffer_on(room, r->stream);
            a.rhs = a.lhs + a.batch;
        } else {
            walk_batch(&a, y, x[0], x[1]);
        }
        failed = launch_qmm(r, &a, gpu_format_of(q), q->bits, t);
    }
    if (room)
        buffer_release(room);
    gpu_drop(4, hold);
    gpu_drop(2, cast);
    gpu_drop(2, hold_index);
    return failed;
}

/* x's memory as row-major matrices, or as those turned. */
static mx quant_matrices(mx x, int64_t matrices, int64_t rows, int64_t columns, bool turned)
{
    int shape[3] = { (int)matrices, (int)(turned ? columns : rows), (int)(turned ? rows : columns) };
    buffer_retain(x->buf);
    mx y = array_of_buffer((enum dtype)x->dtype, 3, shape, x->buf);
    if (is_nil(y))
        return y;
    y->offset = x->offset;
    if (turned) {
        y->strides[1] = 1;
        y->strides[2] = columns;
        array_note_layout(y);
    }
    return y;
}

/* The numbers of packed matrices, written out; MX_NIL after mx_fail. */
static mx written_out(const struct run *r, const mx packed[], enum dtype t)
{
    const struct quant_args *q = r->args;
    mx w = packed[0];
    int64_t lines = dim(w, -2), columns = (int64_t)dim(w, -1) * 32 / q->bits, matrices = matrix_count(w);
    mx numbers = array_new(t, 3, (int[]){ (int)matrices, (int)lines, (int)columns });
    struct run back = { r->stream, r->node, q, q->mode == MODE_AFFINE ? 3 : 2, 1, packed, &numbers, false };
    return is_nil(numbers) || gpu_run_dequantize(&back)
               ? MX_NIL
               : quant_matrices(numbers, matrices, lines, columns, q->transpose);
}

/* Many rows of x with one matrix: its numbers are written out, since products of matrices are worth that. */
static int through_numbers(const struct run *r)
{
    mx x = r->x[0], y = r->y[0];
    mx_own hold = { 0 };
    int64_t depth = dim(x, -1);
    MX_SCOPE(NULL);
    mx in[2], product = array_new((enum dtype)x->dtype, 3, (int[]){ 1, (int)(x->size / depth), dim(y, -1) });
    struct run multiply = { r->stream, r->node, NULL, 2, 1, in, &product, false };
    int failed = is_nil(product) || is_nil(in[1] = written_out(r, r->x + 1, (enum dtype)x->dtype)) ||
                 is_nil(x = gpu_row_major(r, x, &hold)) ||
                 is_nil(in[0] = quant_matrices(x, 1, x->size / depth, depth, false)) || gpu_run_matmul(&multiply);
    if (!failed) {
        buffer_retain(product->buf);
        result_in(y, product->buf);
    }
    mx_drop(&hold);
    return failed;
}

/* Are so many rows of x worth the numbers of one matrix, written out? */
static bool are_worth_numbers(const struct run *r, int64_t rows)
{
    const struct quant_args *q = r->args;
    mx x = r->x[0];
    struct qmm_args a = { .w = gpu_pointer(r, r->x[1]), .m = rows, .k = dim(x, -1), .transpose = q->transpose };
    if (rows <= FEW)
        return false;
    a.aligned = gpu_address(r, x) % 16 == 0;
    if (!has_warps(r, &a, q->bits, (enum dtype)x->dtype))
        return true;
    if (!has_groups(r, &a, (enum dtype)x->dtype))
        return rows >= NUMBERS_FROM || (rows >= NUMBERS_FROM_BLAS && blas_works(gpu_of(r)));
    int from_blas = q->bits == 8 ? NUMBERS_FROM_GROUPS_BLAS_WIDE : NUMBERS_FROM_GROUPS_BLAS;
    return rows >= NUMBERS_FROM_GROUPS || (rows >= from_blas && blas_works(gpu_of(r)));
}

int gpu_run_quantized_matmul(const struct run *r)
{
    mx x = r->x[0], w = r->x[1];
    bool one = matrix_count(w) == 1;
    bool many = one && r->y[0]->size > 0 && dim(x, -1) > 0 && are_worth_numbers(r, x->size / dim(x, -1));
    return many ? through_numbers(r) : run_packed_product(r, false);
}

/* So many rows meet each matrix that it is worth its numbers, and those are not too many. */
static bool is_worth_numbers(const struct run *r, mx index)
{
    const struct quant_args *q = r->args;
    mx x = r->x[0], w = r->x[1];
    int64_t matrices = matrix_count(w), most = (int64_t)1 << 32;
    int few = dtype_is_half((enum dtype)x->dtype) && dim(x, -2) == 1 ? PICKED_FEW : FEW;
    return index->size * dim(x, -2) > few * matrices && w->size * 32 / q->bits * (int64_t)itemsize(x) <= most &&
           matrices > 0 && matrix_count(x) > 0;
}

int gpu_run_gather_qmm(const struct run *r)
{
    const struct quant_args *q = r->args;
    int n = q->mode == MODE_AFFINE ? 4 : 3;
    mx x = r->x[0];
    if (!is_worth_numbers(r, r->x[n]))
        return run_packed_product(r, true);
    MX_SCOPE(NULL);
    mx numbers = written_out(r, r->x + 1, (enum dtype)x->dtype);
    return is_nil(numbers) ||
           gpu_gather_products(r, q->both ? "gather_qqmm" : "gather_qmm", (mx[]){ x, numbers, r->x[n], r->x[n + 1] });
}

/* ---- one row of x with several matrices (vector.h) */

bool gpu_vector_packed(const struct run *r, mx y, struct vector_matrix *v)
{
    const struct quant_args *q = r->args;
    mx x = r->x[0], w = r->x[1];
    struct qmm_args a = { .w = gpu_pointer(r, w), .transpose = 1, .m = 1, .k = dim(x, -1) };
    int f = gpu_format_of(q);
    a.aligned = gpu_address(r, x) % 16 == 0;
    for (int i = 0; i < 4; i++)
        if (!r->x[i]->row || (i != 1 && r->x[i]->dtype != x->dtype))
            return false;
    *v = (struct vector_matrix){ 1 + f * 64 + __builtin_ctz((unsigned)q->group_size), .vector = gpu_pointer(r, x) };
    v->x = a.w;
    v->scales = gpu_pointer(r, r->x[2]);
    v->biases = gpu_pointer(r, r->x[3]);
    v->k = a.k;
    v->m = dim(y, -1);
    return is_read_by_lines(&a, f);
}

int gpu_launch_packed(const struct run *r, const struct vector_matrices *all)
{
    struct qmv_lines_args l = { .matrices = all->n, .gated = all->gated };
    int f = (all->of[0].kind - 1) / 64;
    l.a = (struct qmm_args){ .x = all->of[0].vector, .m = 1, .k = all->of[0].k, .batch = 1, .aligned = 1 };
    l.a.w = all->of[0].x;
    l.a.log_group = (all->of[0].kind - 1) % 64;
    for (int i = 0; i < all->n; i++) {
        const struct vector_matrix *v = &all->of[i];
        l.of[i] = (struct qmv_lines){ v->y, v->x, v->scales, v->biases, v->c, v->m, l.a.wide };
        l.a.wide += (uint32_t)ceil_div(v->m, QMV_ROWS);
    }
    if (all->gated) /* of both */
        l.a.wide = (uint32_t)ceil_div(all->of[0].m, QMV_ROWS / 2);
    return launch_lines(r, &l, f, (enum dtype)r->y[0]->dtype, !all->gated);
}
_Static_assert((int)QMV_MATRICES == (int)VECTOR_MATRICES, "a launch has as many");
