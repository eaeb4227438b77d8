/* product.c: matrix products on a GPU: how they are cut into what blocks do. */
#include "plan/product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"
#include "core/shape.h"
#include "cuda/blas.h"
#include "cuda/kernels/product.h"
#include "cuda/vector.h"
#include "ops/matmul.h"

enum kernel {
    SMALL,
    LARGE,
    TALL,
    WARP_GROUPS,
    SMALL_TF32,
    SPLIT,
    SPLIT_GROUPS,
    LINES,
    ALONG,
    ACROSS,
    MERGE,
    OUTER,
    KERNELS
};

/* Integers wrap, and so do without their sign. */
static enum dtype kernels_of(enum dtype t)
{
    switch (t) {
    case DT_int8: return DT_uint8;
    case DT_int16: return DT_uint16;
    case DT_int32: return DT_uint32;
    case DT_int64: return DT_uint64;
    default: return t;
    }
}

/* An operand of so many lines: from line to line, and along k; any: the steps along the batch. */
static struct product_operand operand_at(const void *p, enum dtype t, int64_t lines, int64_t k, int64_t line,
                                         int64_t depth, int64_t any)
{
    /* A step along which there is but one says nothing. */
    struct product_operand o = { .p = p, .line = lines == 1 ? 0 : line, .depth = k == 1 ? 0 : depth };
    o.across = lines > 1 && o.depth != 1 && (o.line == 1 || llabs(o.line) < llabs(o.depth));
    any |= o.across ? lines | o.depth : k | o.line;
    o.vectors = (o.across ? o.line : o.depth) == 1 && any % gpu_lanes(t) == 0 && (uintptr_t)p % 16 == 0;
    return o;
}

static struct product_operand product_operand_of(const struct run *r, const struct product_plan *p, mx x, int which)
{
    struct product_steps s = p->steps[which];
    int64_t any = 0;
    for (int d = 0; d < p->ndim; d++) any |= p->shape[d] > 1 ? p->batch[which][d] : 0;
    return operand_at(gpu_pointer(r, x), (enum dtype)x->dtype, which ? p->n : p->m, p->k, which ? s.column : s.row,
                      which ? s.row : s.column, any);
}

/* ---- what blocks do */

/* k in pieces, each of which is worth `least_piece`, where there are too few blocks. */
static void cut_depth(struct product_args *a, int64_t least_piece, int64_t enough)
{
    int64_t blocks = a->down * a->across * a->batches, most = greatest(a->k / least_piece, 1);
    a->pieces = blocks < enough ? least(most, ceil_div(enough, blocks)) : 1;
    a->piece = ceil_div(ceil_div(a->k, a->pieces), PRODUCT_STEP) * PRODUCT_STEP;
    a->pieces = a->k ? ceil_div(a->k, a->piece) : 1;
}

static bool has_tf32(struct gpu *g)
{
    static struct gpu_known slot;
    return gpu_has(g, &slot, "product", "product_split", DT_float32);
}

/* Are large tiles of float32 made by kernels that multiply by TF32, in one or three products? */
static bool is_split(struct gpu *g, const struct product_args *a)
{
    bool reads = a->a.vectors && a->b.vectors && !a->order && !a->bounds;
    return reads && (a->rounded || (gpu_splits(g) && has_tf32(g)));
}

/* Do four warps multiply them together, by three products? */
static bool has_split_groups(struct gpu *g)
{
    static struct gpu_known slot;
    return gpu_has(g, &slot, "product_split_groups", "product_split_groups", DT_float32);
}

static bool has_large_tiles(struct gpu *g, const struct product_args *a, enum dtype t)
{
    return (t == DT_float32 && (!a->rounded || is_split(g, a))) || dtype_is_half(t);
}

/* Are there tiles of twice the height for most of the device, and a kernel for them? */
static bool is_tall(struct gpu *g, struct product_args *a, enum dtype t)
{
    static struct gpu_known slots[DT_COUNT];
    int64_t tiles = ceil_div(a->m, PRODUCT_TALL) * ceil_div(a->n, PRODUCT_LARGE) * a->batches;
    bool fits = dtype_is_half(t) && a->a.vectors && a->b.vectors && a->m > PRODUCT_LARGE && a->n > PRODUCT_SMALL;
    return fits && tiles * 4 >= (int64_t)g->multiprocessors * 3 && gpu_has(g, &slots[t], "product", "product_tall", t);
}

/* Do four warps multiply together, where their tiles are enough for most of the device?  Groups of rows have one more
 * tile each than they fill, half of which is theirs. */
static bool is_for_warp_groups(struct gpu *g, const struct product_args *a, enum dtype t)
{
    static struct gpu_known slots[DT_COUNT];
    int64_t down = a->order ? a->m / PRODUCT_GROUP_ROWS + ceil_div(a->groups, 2) : ceil_div(a->m, PRODUCT_GROUP_ROWS);
    int64_t tiles = down * ceil_div(a->n, PRODUCT_GROUP_COLUMNS) * a->batches;
    bool is_large = a->order ? a->m <= INT32_MAX : a->m > PRODUCT_SMALL && !a->bounds;
    is_large &= a->n > PRODUCT_SMALL && tiles * 4 >= (int64_t)g->multiprocessors * 3;
    bool reads = dtype_is_half(t) && a->a.vectors && !a->a.across && a->b.vectors;
    bool writes = (a->n | a->y_row | a->y_matrix) % gpu_lanes(t) == 0 && (uintptr_t)a->y % 16 == 0 && !a->scaled;
    return is_large && reads && writes && gpu_has(g, &slots[t], "product_groups", "product_groups", t);
}
static enum kernel cut_for_warp_groups(struct product_args *a)
{
    a->down = a->order ? a->m / PRODUCT_GROUP_ROWS + a->groups : ceil_div(a->m, PRODUCT_GROUP_ROWS);
    a->across = ceil_div(a->n, PRODUCT_GROUP_COLUMNS);
    a->piece = a->k;
    a->pieces = 1;
    return WARP_GROUPS;
}

/* Of rows in groups: tiles that most groups fill. */
static enum kernel cut_groups(struct gpu *g, struct product_args *a, enum dtype t)
{
    int64_t each = a->m / a->groups; /* on average */
    bool is_large = has_large_tiles(g, a, t) && a->n > PRODUCT_SMALL && each >= PRODUCT_LARGE;
    bool tall = is_large && each >= PRODUCT_TALL && is_tall(g, a, t);
    int tile = tall ? PRODUCT_TALL : is_large ? PRODUCT_LARGE : PRODUCT_SMALL;
    a->down = a->m / tile + a->groups;
    a->across = ceil_div(a->n, tall ? PRODUCT_LARGE : tile);
    a->piece = a->k;
    a->pieces = 1;
    return tall ? TALL : is_large ? LARGE : SMALL;
}

/* Tiles as large as there are enough of. */
static enum kernel cut_tiles(struct gpu *g, struct product_args *a, enum dtype t)
{
    enum { MANY = 128, LEAST_PIECE = 256 };
    if (is_for_warp_groups(g, a, t))
        return cut_for_warp_groups(a);
    if (a->order)
        return cut_groups(g, a, t);
    if (is_tall(g, a, t)) {
        a->down = ceil_div(a->m, PRODUCT_TALL);
        a->across = ceil_div(a->n, PRODUCT_LARGE);
        cut_depth(a, LEAST_PIECE, 1);
        return TALL;
    }
    int64_t large = ceil_div(a->m, PRODUCT_LARGE) * ceil_div(a->n, PRODUCT_LARGE) * a->batches;
    bool is_large = has_large_tiles(g, a, t) && least(a->m, a->n) > PRODUCT_SMALL &&
                    large * greatest(a->k / LEAST_PIECE, 1) >= MANY;
    int tile = is_large ? PRODUCT_LARGE : PRODUCT_SMALL;
    a->down = ceil_div(a->m, tile);
    a->across = ceil_div(a->n, tile);
    cut_depth(a, LEAST_PIECE, a->down * a->across * a->batches <= MANY ? 2 * MANY : 1);
    return is_large ? LARGE : SMALL;
}

/* y, a row, is the column that b's transpose makes of a's. */
static void swap_operands(struct product_args *a)
{
    struct product_operand o = a->a;
    a->a = a->b;
    a->b = o;
    a->m = a->n;
    a->n = 1;
    a->y_row = 1;
    a->c_row = a->c_column;
    int64_t batch[PRODUCT_DIMS];
    const uint32_t *number = a->number[0];
    memcpy(batch, a->batch[0], sizeof batch);
    a->number[0] = a->number[1];
    a->number[1] = number;
    memcpy(a->batch[0], a->batch[1], sizeof batch);
    memcpy(a->batch[1], batch, sizeof batch);
}

/* Lines of one matrix, 16 bytes at a time, where half of a block's threads or more have some, and blocks are many or
 * have little to do: lines are not cut into pieces. */
static bool is_read_by_lines(const struct product_args *a, enum dtype t)
{
    enum { MANY = 512, FEW_STEPS = 4 };
    bool has = dtype_is_half(t) || t == DT_float32;
    int64_t each = PRODUCT_LINE_THREADS * gpu_lanes(t);
    return has && a->batches == 1 && !a->number[0] && !a->number[1] && !a->bounds && !a->a.across && a->a.vectors &&
           a->b.vectors && a->k >= each / 2 && a->m >= PRODUCT_LINES && (a->m >= MANY || a->k <= FEW_STEPS * each);
}

/* As many threads to a line as it is long, if lines are few; or as many side by side as there are lines. */
static enum kernel cut_vector(struct product_args *a, enum dtype t)
{
    enum { MANY = 512, LEAST_PIECE = 128 };
    int64_t lanes = gpu_lanes(t);
    bool across = a->a.across;
    if (is_read_by_lines(a, t))
        return LINES;
    if (across)
        a->team = gpu_power_of_two(ceil_div(a->m, lanes), 32);
    else
        a->team = gpu_power_of_two(ceil_div(a->k, 4 * lanes), a->m * a->batches < MANY ? PRODUCT_THREADS : 32);
    a->width = PRODUCT_THREADS / a->team;
    a->down = ceil_div(a->m, across ? a->team * lanes : a->width);
    a->across = 1;
    cut_depth(a, across ? LEAST_PIECE : a->team * 4 * lanes, MANY);
    return across ? ACROSS : ALONG;
}

static enum kernel cut_elements(struct product_args *a)
{
    a->down = ceil_div(a->m * a->n, PRODUCT_THREADS);
    a->across = a->pieces = 1;
    return OUTER;
}

/* One more matrix whose lines meet the vector. */
static void add_matrix(struct product_lines_args *l, void *y, const void *x, const void *c, int64_t m, int64_t line)
{
    l->of[l->n++] = (struct product_lines){ y, x, c, m, line, 1, 1, l->groups };
    l->groups += ceil_div(m, PRODUCT_LINES);
}

/* Blocks of lines; of a norm that each makes no more than run at a time, with as many groups each. */
static int64_t line_blocks(const struct gpu *g, const struct product_lines_args *l)
{
    return l->norm.y ? gpu_even_blocks(g, l->groups, PRODUCT_LINE_BLOCKS) : l->groups;
}

/* See gpu_join_fn. */
static int64_t join_lines(const struct gpu *g, void *args, const void *more)
{
    struct product_lines_args *l = args;
    const struct product_lines_args *m = more;
    bool alike = m->v == (l->norm.y ? l->norm.y : l->v) && m->k == l->k && m->rounded == l->rounded &&
                 memcmp(&m->alpha, &l->alpha, sizeof l->alpha) == 0 && memcmp(&m->beta, &l->beta, sizeof l->beta) == 0;
    if (!alike || m->norm.y || l->n + m->n > PRODUCT_MATRICES || l->groups + m->groups > INT32_MAX)
        return 0;
    for (int i = 0; i < m->n; i++) {
        l->of[l->n] = m->of[i];
        l->of[l->n++].first += l->groups;
    }
    l->groups += m->groups;
    l->early = l->early && m->early;
    return line_blocks(g, l);
}

_Static_assert(PRODUCT_LINES == 4, "line_after (kernels/vector_results.h) counts four");
_Static_assert(offsetof(struct product_turned_args, t) == sizeof(struct product_lines_args) &&
                   sizeof(struct product_turned_args) <= GPU_VECTORS_BYTES,
               "what a launch that is held has room for");

static int launch_lines(const struct run *r, enum dtype t, struct product_lines_args *l)
{
    static struct gpu_found found[2][DT_COUNT], turning[DT_COUNT];
    struct gpu *g = gpu_of(r);
    const char *op = r->node->op->name;
    const void *others[2 * PRODUCT_MATRICES];
    for (int i = 0; i < l->n; i++) {
        others[2 * i] = l->of[i].x;
        others[2 * i + 1] = l->of[i].c;
    }
    bool normed = gpu_norm_of_vector(r, t, l->v, l->k, 2 * l->n, others, &l->norm);
    const char *name = normed ? "product_lines_normed" : "product_lines";
    void *kernel = gpu_find(g, &found[normed][t], "product", name, t), *args[] = { l };
    int64_t blocks = line_blocks(g, l);
    if (!kernel)
        return 1;
    void **y = normed ? &l->norm.y : NULL;
    if (l->gated || l->of[0].y_row != 1 || blocks > INT32_MAX)
        return gpu_launch_with_norm(r->stream, op, kernel, blocks, PRODUCT_LINE_THREADS, args, y);
    struct gpu_vectors v = { .join = join_lines,
                             .kernel = kernel,
                             .turning = gpu_find(g, &turning[t], "product", "product_lines_turned", t),
                             .blocks = (unsigned)blocks,
                             .threads = PRODUCT_LINE_THREADS,
                             .type = t,
                             .n = l->n,
                             .reads = { l->v, l->norm.x, l->norm.weight, l->norm.bias },
                             .bytes = sizeof *l };
    for (int i = 0; i < l->n; i++) {
        v.y[i] = l->of[i].y;
        v.m[i] = l->of[i].m;
    }
    memcpy(v.reads + 4, others, (size_t)l->n * 2 * sizeof *others);
    return !v.turning || gpu_launch_vectors(r->stream, op, &v, l, y);
}

/* exact: whatever MLX_ENABLE_TF32 says. */
static int launch_product(const struct run *r, enum dtype t, struct product_args *a, bool exact)
{
    static struct gpu_found found[KERNELS][DT_COUNT];
    static const char *const names[KERNELS] = { [SMALL] = "product_small",
                                                [LARGE] = "product_large",
                                                [TALL] = "product_tall",
                                                [SMALL_TF32] = "product_small_tf32",
                                                [SPLIT] = "product_split",
                                                [ALONG] = "product_along",
                                                [ACROSS] = "product_across",
                                                [MERGE] = "product_merge",
                                                [OUTER] = "product_outer",
                                                [WARP_GROUPS] = "product_groups",
                                                [SPLIT_GROUPS] = "product_split_groups" };
    struct gpu *g = gpu_of(r);
    const char *op = r->node->op->name;
    a->rounded = t == DT_float32 && !exact && gpu_tf32() && has_tf32(g);
    bool is_vector = least(a->m, a->n) == 1 && !a->order && !a->outer;
    if (is_vector && a->n > 1)
        swap_operands(a);
    enum kernel k = is_vector ? cut_vector(a, t) : a->outer ? cut_elements(a) : cut_tiles(g, a, t);
    if (k == LINES) {
        struct product_lines_args l = { .v = a->b.p, .k = a->k, .rounded = !a->scaled, .alpha = a->alpha };
        l.beta = a->beta;
        add_matrix(&l, a->y, a->a.p, a->c, a->m, a->a.line);
        l.of[0].y_row = a->y_row;
        l.of[0].c_row = a->c_row;
        l.early = gpu_was_there(r, a->a.p);
        return launch_lines(r, t, &l);
    }
    int threads = dtype_is_half(t) && k <= LARGE ? PRODUCT_THREADS_HALF : PRODUCT_THREADS;
    _Static_assert((int)PRODUCT_THREADS == (int)PRODUCT_THREADS_TALL, "tall tiles' threads");
    size_t bytes = k == TALL ? PRODUCT_TALL_BYTES : 0;
    if (k == WARP_GROUPS) {
        threads = PRODUCT_GROUP_THREADS;
        bytes = PRODUCT_GROUP_BYTES;
    }
    int64_t sums = a->batches * a->m * a->n;
    a->plain = a->fours && !a->scaled && a->pieces == 1 && !a->order;
    if (t == DT_float32 && k == LARGE && is_split(g, a)) {
        bool groups = !a->rounded && has_split_groups(g);
        k = groups ? SPLIT_GROUPS : SPLIT;
        threads = groups ? SPLIT_GROUP_THREADS : threads;
        bytes = groups ? SPLIT_GROUP_BYTES : PRODUCT_SPLIT_BYTES;
    } else if (a->rounded && k == SMALL) {
        k = SMALL_TF32;
    }
    t = kernels_of(t);
    bool apart = k == WARP_GROUPS || k == SPLIT_GROUPS; /* a module of that name */
    void *kernel = gpu_find(g, &found[k][t], apart ? names[k] : "product", names[k], t);
    struct buffer *b = NULL;
    int failed = !kernel;
    if (!failed && a->pieces > 1) {
        failed = !(b = buffer_new_on(r->stream, (size_t)(sums * a->pieces) * gpu_sum_size(t)));
        a->partial = failed ? NULL : buffer_on(b, r->stream);
        if (k == ACROSS && (dtype_is_half(t) || t == DT_float32))
            a->arrived = gpu_arrived(gpu_stream(r->stream), a->down * a->batches);
    }
    if (!failed)
        failed = gpu_launch_shared(r->stream, op, kernel, a->down * a->across * a->pieces * a->batches, threads, bytes,
                                   (void *[]){ a });
    if (!failed && a->pieces > 1 && !a->arrived) {
        kernel = gpu_find(g, &found[MERGE][t], "product", names[MERGE], t);
        failed = !kernel ||
                 gpu_launch(r->stream, op, kernel, ceil_div(sums, PRODUCT_THREADS), PRODUCT_THREADS, (void *[]){ a });
    }
    if (b)
        buffer_release(b);
    return failed;
}

static int launch_rows(const struct run *r, enum dtype t, struct product_row_args *p)
{
    static struct gpu_found found[DT_COUNT];
    void *kernel = gpu_find(gpu_of(r), &found[t], "product", "product_rows", t);
    int64_t vectors = p->batches * p->rows * p->step / gpu_lanes(t);
    return !kernel || gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(vectors, PRODUCT_THREADS),
                                 PRODUCT_THREADS, (void *[]){ p });
}

/* Is a product so large that copies of its operands are worth it? */
static bool is_worth_rows(const struct product_args *a, enum dtype t)
{
    const int64_t least_work = 1 << 26, most = 1 << 28; /* elements */
    bool plain = !a->number[0] && !a->order && !a->bounds && !a->outer && least(a->m, a->n) >= PRODUCT_SMALL && a->k;
    int64_t larger = greatest(a->m, a->n) * a->batches;
    return dtype_is_half(t) && plain && larger * least(a->m, a->n) >= least_work / a->k && larger * a->k <= most;
}

/* The rows of an operand, as they lie or as they follow k, where 16 bytes are read at once: `room` is theirs. */
static int put_in_rows(const struct run *r, enum dtype t, struct product_args *a, int which, struct buffer **room)
{
    struct product_operand *o = which ? &a->b : &a->a;
    int64_t lines = which ? a->n : a->m, lanes = gpu_lanes(t);
    struct product_row_args p = { .from = o->p,
                                  .rows = o->across ? a->k : lines,
                                  .columns = o->across ? lines : a->k,
                                  .row = o->across ? o->depth : o->line,
                                  .column = o->across ? o->line : o->depth,
                                  .batches = 1,
                                  .ndim = a->ndim };
    p.step = ceil_div(p.columns, lanes) * lanes;
    for (int d = 0; d < a->ndim; d++)
        if (a->batch[which][d])
            p.batches = a->batches;
    memcpy(p.shape, a->shape, sizeof p.shape);
    memcpy(p.batch, a->batch[which], sizeof p.batch);
    int64_t each = p.rows * p.step;
    if (!(*room = buffer_new_on(r->stream, (size_t)(p.batches * each) * dtype_size(t))))
        return 1;
    o->p = p.to = buffer_on(*room, r->stream);
    o->line = o->across ? 1 : p.step;
    o->depth = o->across ? p.step : 1;
    o->vectors = 1;
    for (int d = a->ndim; d-- > 0; each *= a->shape[d]) a->batch[which][d] = p.batches > 1 ? each : 0;
    return launch_rows(r, t, &p);
}

int gpu_lengthen(const struct run *r, mx x, mx y)
{
    struct product_row_args p = { .to = gpu_pointer(r, y),
                                  .from = gpu_pointer(r, x),
                                  .rows = x->size / dim(x, -1),
                                  .columns = dim(x, -1),
                                  .step = dim(y, -1),
                                  .row = dim(x, -1),
                                  .column = 1,
                                  .batches = 1 };
    return launch_rows(r, (enum dtype)x->dtype, &p);
}

/* What is multiplied, into y, which has elements, and has memory by the time that it is launched. */
static void describe(const struct run *r, const struct product_plan *p, int n, const mx x[], mx y,
                     struct product_args *a)
{
    a->y = y->buf ? gpu_pointer(r, y) : NULL;
    a->m = p->m;
    a->n = p->n;
    a->k = p->k;
    a->batches = y->size / (p->m * p->n);
    a->y_row = p->n;
    a->y_matrix = p->m * p->n;
    a->together = 1;
    a->ndim = p->ndim;
    a->fours = p->n % 4 == 0;
    a->a = product_operand_of(r, p, x[0], 0);
    a->b = product_operand_of(r, p, x[1], 1);
    if (a->bounds && !a->order) { /* at which no vector need begin */
        a->a.vectors &= a->a.across;
        a->b.vectors &= a->b.across;
    }
    for (int d = 0; d < p->ndim; d++) a->shape[d] = (uint32_t)p->shape[d];
    for (int i = 0; i < n; i++) memcpy(a->batch[i], p->batch[i], (size_t)p->ndim * sizeof *p->batch[i]);
    if (n > 2) {
        a->c = gpu_pointer(r, x[2]);
        a->c_row = p->steps[2].row;
        a->c_column = p->steps[2].column;
    }
}

bool gpu_multiplies_in_order(const struct run *r, const struct product_plan *p, const mx x[2], mx y,
                             const struct product_args *args)
{
    struct product_args a = *args;
    describe(r, p, 2, x, y, &a);
    return is_for_warp_groups(gpu_of(r), &a, (enum dtype)y->dtype);
}

int gpu_multiply(const struct run *r, const struct product_plan *p, int n, const mx x[], mx y, struct product_args *a)
{
    if (y->size == 0)
        return 0;
    describe(r, p, n, x, y, a);
    enum dtype t = (enum dtype)y->dtype;
    struct buffer *room[2] = { NULL };
    int failed = 0;
    for (int i = 0; i < 2 && !failed && is_worth_rows(a, t); i++)
        if (!(i ? a->b : a->a).vectors)
            failed = put_in_rows(r, t, a, i, &room[i]);
    failed = failed || launch_product(r, t, a, false);
    for (int i = 0; i < 2; i++)
        if (room[i])
            buffer_release(room[i]);
    return failed;
}

int gpu_multiply_at(const struct run *r, enum dtype t, const struct gpu_product_at *p)
{
    const struct gpu_matrices *y = &p->y, *x[2] = { &p->a, &p->b };
    struct product_args a = { .y = y->p, .y_row = y->row, .y_matrix = y->matrix, .alpha = p->alpha, .beta = p->beta };
    if (p->m <= 0 || p->n <= 0 || p->k <= 0 || p->count <= 0)
        return 0;
    a.m = p->m;
    a.n = p->n;
    a.k = p->k;
    a.batches = p->count;
    a.ndim = 1;
    a.shape[0] = (uint32_t)p->count;
    a.scaled = p->alpha != 1 || p->beta != 0;
    a.fours = (p->n | y->row | y->matrix) % 4 == 0 && (uintptr_t)y->p % (4 * dtype_size(t)) == 0;
    a.a = operand_at(x[0]->p, t, p->m, p->k, x[0]->row, x[0]->column, x[0]->matrix);
    a.b = operand_at(x[1]->p, t, p->n, p->k, x[1]->column, x[1]->row, x[1]->matrix);
    for (int i = 0; i < 2; i++) a.batch[i][0] = x[i]->matrix;
    if (p->beta != 0) {
        a.c = y->p;
        a.c_row = y->row;
        a.c_column = 1;
        a.batch[2][0] = y->matrix;
    }
    return launch_product(r, t, &a, true);
}

/* Is it of large tiles of float32 with all bits, and deep?  A library has them multiplied number by number. */
static bool is_split_product(const struct run *r, const struct product_plan *p, int n, const mx x[], mx y)
{
    enum { LEAST_DEPTH = 2048, LEAST_OF_GROUPS = 512, LEAST_SIZE = 1 << 20 }; /* measured, beside cuBLASLt on an H200 */
    struct product_args a = { 0 };
    struct gpu *g = gpu_of(r);
    if (y->dtype != DT_float32 || gpu_tf32() || p->m * p->n < LEAST_SIZE ||
        p->k < (has_split_groups(g) ? LEAST_OF_GROUPS : LEAST_DEPTH))
        return false;
    describe(r, p, n, x, y, &a);
    return is_split(g, &a) && cut_tiles(g, &a, DT_float32) == LARGE;
}

/* By a library, if there is one that does it as fast, else by our kernels. */
static int multiply_or_have_multiplied(const struct run *r, const struct product_plan *p, int n, const mx x[],
                                       double alpha, double beta, struct product_args *a)
{
    struct blas_terms terms = { alpha, beta, false };
    bool ours = n != r->nin || is_split_product(r, p, n, x, r->y[0]);
    enum blas_outcome by_blas = ours ? BLAS_DECLINED : gpu_blas_product(r, p, x, &terms);
    return by_blas == BLAS_FAILED || (by_blas == BLAS_DECLINED && gpu_multiply(r, p, n, x, r->y[0], a));
}

int gpu_product(const struct run *r, const struct product_plan *p, const mx x[2])
{
    struct product_args a = { .alpha = 1 };
    return multiply_or_have_multiplied(r, p, 2, x, 1, 0, &a);
}

static int run_products(const struct run *r, double alpha, double beta)
{
    struct product_plan p;
    struct product_args a = { .alpha = alpha, .beta = beta, .scaled = r->nin > 2 || alpha != 1 };
    mx x[3];
    mx_own hold[3] = { 0 };
    int failed = gpu_out_new(r, 0);
    for (int i = 0; i < r->nin; i++) x[i] = r->x[i];
    product_plan_of(&p, r->nin, x);
    if (!failed && p.ndim > PRODUCT_DIMS) { /* more than kernels know: as one, if the matrices follow one another */
        failed = !gpu_all_row_major(r, r->nin, x, hold);
        if (!failed)
            product_plan_of(&p, r->nin, x);
    }
    failed = failed || (r->y[0]->size && multiply_or_have_multiplied(r, &p, r->nin, x, alpha, beta, &a));
    gpu_drop(3, hold);
    return failed;
}

int gpu_run_matmul(const struct run *r) { return run_products(r, 1, 0); }

int gpu_run_addmm(const struct run *r)
{
    const struct addmm_args *args = r->args;
    return run_products(r, args->alpha, args->beta);
}

/* ---- a vector with several matrices (vector.h), and what follows */

bool gpu_vector_product(const struct run *r, mx y, struct vector_matrix *v)
{
    struct product_args a = { .alpha = 1 };
    struct product_plan p;
    product_plan_of(&p, 2, r->x);
    describe(r, &p, 2, r->x, y, &a);
    if (a.n > 1)
        swap_operands(&a);
    *v = (struct vector_matrix){ .vector = a.b.p, .x = a.a.p, .k = a.k, .m = a.m, .line = a.a.line };
    v->there = gpu_was_there(r, v->x);
    return a.n == 1 && is_read_by_lines(&a, (enum dtype)y->dtype);
}

int gpu_launch_products(const struct run *r, const struct vector_matrices *all)
{
    struct product_lines_args l = { .v = all->of[0].vector, .k = all->of[0].k, .rounded = 1, .gated = all->gated };
    for (int i = 0; i < all->n; i++) {
        const struct vector_matrix *v = &all->of[i];
        add_matrix(&l, v->y, v->x, v->c, v->m, v->line);
    }
    l.early = gpu_vectors_there(all);
    if (all->gated) /* of both */
        l.groups = ceil_div(all->of[0].m, PRODUCT_LINES / 2);
    return launch_lines(r, (enum dtype)r->y[0]->dtype, &l);
}
_Static_assert((int)PRODUCT_MATRICES == (int)VECTOR_MATRICES, "a launch has as many");

bool gpu_multiplies(const struct node *n)
{
    return gpu_has_vector(n) || ((n->op->id == OP_matmul || n->op->id == OP_addmm) && gpu_blas_multiplies());
}

/* maximum(r's product, 0) into y, by a library. */
static enum blas_outcome multiply_with_relu(const struct run *r, mx y)
{
    const struct addmm_args *args = r->node->op->id == OP_addmm ? r->args : NULL;
    struct blas_terms terms = { args ? args->alpha : 1, args ? args->beta : 0, true };
    struct product_plan p;
    struct run into = *r;
    into.y = &y;
    if (gpu_out_new(&into, 0))
        return BLAS_FAILED;
    product_plan_of(&p, r->nin, r->x);
    bool ours = is_split_product(&into, &p, r->nin, r->x, y);
    enum blas_outcome o = ours ? BLAS_DECLINED : gpu_blas_product(&into, &p, r->x, &terms);
    if (o == BLAS_DECLINED) {
        buffer_release(y->buf);
        y->buf = NULL;
    }
    return o;
}

static bool is_zero(mx x)
{
    double v = array_readable(x) ? float_at((enum dtype)x->dtype, array_host(x)) : 1;
    return v == 0 && !signbit(v);
}

int gpu_produce_product(struct stream *s, int n, struct entry *const m[], const bool wanted[], int first,
                        struct produced *b)
{
    struct epilogue c = { n, m, wanted, first, 1u << first };
    struct run r = run_of(s, m[first]);
    mx zero = NULL;
    int failed;
    if (gpu_produce_vectors(s, n, m, wanted, first, b, &failed))
        return failed;
    if (r.node->op->id != OP_quantized_matmul &&
        epilogue_takes(&c, OP_maximum, (enum dtype)m[first]->one->dtype, &zero) && is_zero(zero)) {
        enum blas_outcome o = multiply_with_relu(&r, m[c.at]->one);
        b->made = 1u << c.at;
        b->members = c.passed;
        if (o != BLAS_DECLINED)
            return o == BLAS_FAILED;
    }
    b->made = 1u << first;
    b->members = 1u << first;
    return cuda_backend.run(s, m[first]);
}
