/* conv.c: convolutions on a GPU: how they are cut into what blocks do. */
#include "plan/conv.h"

#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "cuda/cudnn_conv.h"
#include "cuda/gpu.h"
#include "cuda/kernels/conv.h"
#include "cuda/kernels/product.h"
#include "plan/product.h"

/* ---- geometry */

/* Places along an axis, of x and of those that positions and taps would have outside of it, are numbers of 32 bits, and
 * so are those of the positions of an image, or of all that are summed up, and of the weights of a channel. */
enum { MOST = 1 << 30 };

static int64_t times(int64_t a, int64_t b) { return a == 0 || b <= MOST / a ? a * b : (int64_t)MOST + 1; }

static bool is_within(const struct conv_plan *p, bool of_weights)
{
    int64_t positions = of_weights ? p->images : 1, weights = p->in;
    for (int i = 0; i < 3; i++) {
        const struct conv_whole *w = &p->axis[i];
        if (w->low > MOST || w->low < -MOST || w->spread > MOST || times(w->stride, w->out) > MOST ||
            times(w->dilation, w->taps) > MOST)
            return false;
        positions = times(positions, w->out);
        weights = times(weights, w->taps);
    }
    return positions <= MOST && weights <= MOST;
}

/* The plan of a node; for conv_weight y is an operand, and w the result. */
static void plan_of(struct conv_plan *p, const struct conv_args *a, const mx x[], mx y, bool of_weights)
{
    conv_plan_of(p, a, x[0], of_weights ? y : x[1], of_weights ? x[1] : y);
}

bool gpu_takes_conv(const struct node *n)
{
    struct conv_plan p;
    if (!n->out[0])
        return true;
    bool of_weights = n->op->id == OP_conv_weight;
    plan_of(&p, n->args, n->in, n->out[0], of_weights);
    return is_within(&p, of_weights);
}

/* All but what the kernels' blocks do, and the phases of the axes. */
static void describe_call(struct conv_call *c, const struct conv_plan *p)
{
    int64_t x = p->channels, y = p->out * p->groups, w = p->in;
    for (int i = 2; i >= 0; i--) {
        struct conv_along *a = &c->axis[i];
        struct conv_axis any = conv_phase(&p->axis[i], 0);
        *a = (struct conv_along){ .in = (int32_t)p->axis[i].in,
                                  .stride = (int32_t)any.stride,
                                  .dilation = (int32_t)any.dilation,
                                  .step = (int32_t)any.step,
                                  .apart = (int32_t)any.apart,
                                  .x = x,
                                  .y = y,
                                  .w = w };
        x *= p->axis[i].in;
        y *= p->axis[i].out;
        w *= p->axis[i].taps;
    }
    c->x_image = x;
    c->y_image = y;
    c->w_line = w;
    c->images = (int32_t)p->images;
    c->in = (int32_t)p->in;
    c->out = (int32_t)p->out;
    c->groups = (int32_t)(c->direct ? 1 : p->groups);
    c->channels = (int32_t)(p->out * p->groups);
    c->slides = c->axis[2].stride == 1 && c->axis[2].dilation == 1;
}

/* How many phases of an axis there are positions for. */
static int64_t phases_of(const struct conv_whole *w) { return least(w->period, w->out); }

/* As many phases of each axis as a launch takes, from these on; `first` becomes those of the next launch, false: this
 * is the last. */
static bool take_phases(struct conv_call *c, const struct conv_plan *p, int64_t first[3])
{
    for (int i = 0; i < 3; i++) {
        struct conv_along *a = &c->axis[i];
        a->phases = (int32_t)least(CONV_PHASES, phases_of(&p->axis[i]) - first[i]);
        for (int k = 0; k < a->phases; k++) {
            struct conv_axis q = conv_phase(&p->axis[i], first[i] + k);
            a->phase[k] =
                (struct conv_phase){ (int32_t)q.out, (int32_t)q.first, (int32_t)q.taps, (int32_t)q.tap, (int32_t)q.at };
        }
    }
    for (int i = 2; i >= 0; i--) {
        first[i] += CONV_PHASES;
        if (first[i] < phases_of(&p->axis[i]))
            return true;
        first[i] = 0;
    }
    return false;
}

/* ---- what blocks do */

enum kernel {
    SMALL,
    LARGE,
    DIRECT,
    SPLIT,
    SPLIT_GROUPS_64,
    SPLIT_GROUPS_128,
    CELLS,
    CELL_WEIGHTS,
    THIN_WEIGHTS,
    WEIGHT_SMALL,
    WEIGHT_LARGE,
    WEIGHT_DIRECT,
    MERGE,
    KERNELS
};

/* Those of half types only where warps multiply matrices. */
static bool has_large_tiles(struct gpu *g, enum dtype t)
{
    static struct gpu_known slots[DT_COUNT];
    return dtype_is_half(t) ? gpu_has(g, &slots[t], "conv", "conv_large", t) : t == DT_float32;
}

/* `count` products of so many rows and columns: tiles as large as there are enough of, and of what is summed up,
 * `depth`, pieces where there are too few, if there may be any. */
static enum kernel cut_tiles(struct conv_call *c, struct gpu *g, enum dtype t, int64_t rows, int64_t columns,
                             int64_t depth, int64_t count, bool may_cut)
{
    enum { MANY = 128, LEAST_PIECE = 256, ROOM = 256 << 20 };
    int64_t large = ceil_div(rows, PRODUCT_LARGE) * ceil_div(columns, PRODUCT_LARGE) * count;
    int64_t most = may_cut ? greatest(depth / LEAST_PIECE, 1) : 1;
    most = least(most, greatest(ROOM / (c->size * (int64_t)gpu_sum_size(t)), 1));
    bool is_large = has_large_tiles(g, t) && least(rows, columns) > PRODUCT_SMALL && large * most >= MANY;
    int tile = is_large ? PRODUCT_LARGE : PRODUCT_SMALL;
    c->down = (int32_t)ceil_div(rows, tile);
    c->across = (int32_t)ceil_div(columns, tile);
    int64_t blocks = (int64_t)c->down * c->across * count;
    int64_t pieces = blocks <= MANY ? least(most, ceil_div(2 * MANY, blocks)) : 1;
    c->piece = (int32_t)(ceil_div(ceil_div(depth, pieces), PRODUCT_STEP) * PRODUCT_STEP);
    c->pieces = (int32_t)(depth ? ceil_div(depth, c->piece) : 1);
    return !is_large ? SMALL : t == DT_float32 && c->vectors && gpu_splits(g) ? SPLIT : LARGE;
}

_Static_assert(WEIGHT_LARGE - WEIGHT_SMALL == LARGE && WEIGHT_DIRECT - WEIGHT_SMALL == DIRECT && !SMALL,
               "those of weights are in the same order (cut)");

static bool is_of_groups(enum kernel k) { return k == SPLIT_GROUPS_64 || k == SPLIT_GROUPS_128; }

static void *kernel_of(const struct run *r, enum kernel k)
{
    static struct gpu_found found[KERNELS][DT_COUNT];
    static const char *const names[KERNELS] = {
        [SMALL] = "conv_small",
        [LARGE] = "conv_large",
        [SPLIT] = "conv_split",
        [SPLIT_GROUPS_64] = "conv_split_groups_64",
        [SPLIT_GROUPS_128] = "conv_split_groups_128",
        [DIRECT] = "conv_direct",
        [CELLS] = "conv_cells",
        [CELL_WEIGHTS] = "conv_cell_weights",
        [THIN_WEIGHTS] = "conv_thin_weights",
        [WEIGHT_SMALL] = "conv_weight_small",
        [WEIGHT_LARGE] = "conv_weight_large",
        [WEIGHT_DIRECT] = "conv_weight_direct",
        [MERGE] = "conv_merge",
    };
    enum dtype t = (enum dtype)r->y[0]->dtype;
    return gpu_find(gpu_of(r), &found[k][t], is_of_groups(k) ? "conv_split_groups" : "conv", names[k], t);
}

/* The pieces' sums, in order; zeros where there are no pieces. */
static int merge_pieces(const struct run *r, struct conv_call *c)
{
    enum { MOST_EACH = 16, LARGEST_TEAM = 16 };
    void *kernel = kernel_of(r, MERGE);
    c->team = (int32_t)gpu_power_of_two(ceil_div(c->pieces, MOST_EACH), LARGEST_TEAM);
    return !kernel || gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(c->size * c->team, PRODUCT_THREADS),
                                 PRODUCT_THREADS, (void *[]){ c });
}

static int make_zeros(const struct run *r)
{
    struct conv_call c = { .result = gpu_pointer(r, r->y[0]), .size = r->y[0]->size };
    return merge_pieces(r, &c);
}

/* The largest phases: positions and taps along each axis. */
struct largest {
    int64_t out[3], taps[3], count; /* count: of phases */
};
static struct largest largest_of(const struct conv_call *c)
{
    struct largest l = { .count = 1 };
    for (int i = 0; i < 3; i++) {
        l.count *= c->axis[i].phases;
        for (int k = 0; k < c->axis[i].phases; k++) {
            l.out[i] = greatest(l.out[i], c->axis[i].phase[k].out);
            l.taps[i] = greatest(l.taps[i], c->axis[i].phase[k].taps);
        }
    }
    return l;
}

static int64_t product3(const int64_t v[3]) { return v[0] * v[1] * v[2]; }

/* Without tiles: a thread for each few positions of a channel; or for each few weights, with stretches of positions in
 * pieces, if there may be any. */
static void cut_directly(struct conv_call *c, const struct largest *l, bool of_weights, bool may_cut)
{
    enum { BLOCKS = 1024, LEAST_PIECE = 8, ROOM = 256 << 20 };
    int64_t rows = c->images * l->out[0] * l->out[1], pieces = 1;
    int64_t n = rows * ceil_div(l->out[2], CONV_SOME), stretches = rows * ceil_div(l->out[2], CONV_STRETCH);
    if (of_weights)
        n = l->taps[0] * l->taps[1] * ceil_div(l->taps[2], c->slides ? CONV_TAPS : 1) * c->in;
    c->down = (int32_t)ceil_div(n * c->channels, CONV_THREADS);
    c->across = 1;
    if (of_weights && may_cut)
        pieces = least(stretches / LEAST_PIECE, least(ceil_div(BLOCKS, c->down), ROOM / (c->size * 8)));
    c->piece = (int32_t)ceil_div(stretches, greatest(pieces, 1));
    c->pieces = (int32_t)(of_weights ? ceil_div(stretches, c->piece) : 1);
}

/* Do four warps multiply float32 together, what is read 16 bytes at a time? */
static bool has_split_groups(struct gpu *g, const struct conv_call *c, enum dtype t)
{
    static struct gpu_known slot;
    return t == DT_float32 && c->vectors && gpu_has(g, &slot, "conv_split_groups", "conv_split_groups_64", t);
}

/* Tiles of half the width, for most of the device. */
static bool cut_narrowly(struct conv_call *c, struct gpu *g, int64_t positions, int64_t depth, int64_t count)
{
    enum { MANY = 128 };
    int64_t down = ceil_div(positions, SPLIT_GROUP_ROWS);
    if (c->out > PRODUCT_SMALL || c->out <= PRODUCT_SMALL / 2 || down * count < MANY ||
        !has_split_groups(g, c, DT_float32))
        return false;
    c->down = (int32_t)down;
    c->across = c->pieces = 1;
    c->piece = (int32_t)(ceil_div(depth, PRODUCT_STEP) * PRODUCT_STEP);
    return true;
}

static enum kernel cut(const struct run *r, struct conv_call *c, const struct largest *l, bool of_weights, bool whole)
{
    enum dtype t = (enum dtype)r->y[0]->dtype;
    int64_t positions = c->images * product3(l->out), columns = product3(l->taps) * c->in, count = l->count * c->groups;
    enum kernel k = DIRECT;
    if (c->direct)
        cut_directly(c, l, of_weights, whole);
    else if (of_weights)
        k = cut_tiles(c, gpu_of(r), t, c->out, columns, positions, count, whole);
    else if (t == DT_float32 && cut_narrowly(c, gpu_of(r), positions, columns, count))
        k = SPLIT_GROUPS_64;
    else
        k = cut_tiles(c, gpu_of(r), t, positions, c->out, columns, count, whole);
    c->plain = (of_weights ? c->in : c->out) % 4 == 0 && c->pieces == 1;
    if (of_weights)
        return (k == SPLIT ? LARGE : k) + WEIGHT_SMALL; /* libraries make those faster */
    return k == SPLIT && has_split_groups(gpu_of(r), c, t) ? SPLIT_GROUPS_128 : k;
}

/* One launch, of those phases that the call has; whole: all of the result is made of them. */
static int launch_phases(const struct run *r, struct conv_call *c, bool of_weights, bool whole)
{
    enum dtype t = (enum dtype)r->y[0]->dtype;
    struct largest l = largest_of(c);
    if (of_weights && product3(l.taps) == 0)
        return 0; /* the zeros that were made */
    enum kernel k = cut(r, c, &l, of_weights, whole);
    int threads = is_of_groups(k)    ? SPLIT_GROUP_THREADS
                  : c->direct        ? CONV_THREADS
                  : dtype_is_half(t) ? PRODUCT_THREADS_HALF
                                     : PRODUCT_THREADS;
    size_t bytes = is_of_groups(k) ? SPLIT_GROUP_BYTES : k == SPLIT ? PRODUCT_SPLIT_BYTES : 0;
    void *kernel = kernel_of(r, k);
    struct buffer *b = NULL;
    int failed = !kernel;
    if (!failed && c->pieces > 1) {
        failed = !(b = buffer_new_on(r->stream, (size_t)(c->size * c->pieces) * gpu_sum_size(t)));
        c->partial = failed ? NULL : buffer_on(b, r->stream);
    }
    int64_t blocks = (int64_t)c->down * c->across * c->pieces * c->groups * l.count;
    failed = failed || gpu_launch_shared(r->stream, r->node->op->name, kernel, blocks, threads, bytes, (void *[]){ c });
    failed = failed || (c->pieces > 1 && merge_pieces(r, c));
    if (b)
        buffer_release(b);
    return failed;
}

/* Are there taps of an axis that no position sees? */
static bool misses_taps(const struct conv_plan *p)
{
    for (int i = 0; i < 3; i++) {
        int64_t taps = 0;
        for (int64_t k = 0; k < phases_of(&p->axis[i]); k++) taps += conv_phase(&p->axis[i], k).taps;
        if (taps < p->axis[i].taps)
            return true;
    }
    return false;
}

static int launch_all(const struct run *r, const struct conv_plan *p, struct conv_call *c, bool of_weights)
{
    int64_t first[3] = { 0 };
    bool misses = of_weights && misses_taps(p), more = take_phases(c, p, first), whole = !more && !misses;
    int failed = (misses && make_zeros(r)) || launch_phases(r, c, of_weights, whole);
    while (more && !failed) {
        more = take_phases(c, p, first);
        failed = launch_phases(r, c, of_weights, whole);
    }
    return failed;
}

/* As many images at once as have numbers for their positions. */
static int launch_images(const struct run *r, const struct conv_plan *p, struct conv_call *c)
{
    int64_t positions = p->axis[0].out * p->axis[1].out * p->axis[2].out, some = MOST / positions;
    int64_t item = (int64_t)itemsize(r->y[0]);
    const char *x = c->x;
    char *y = c->result;
    int failed = 0;
    for (int64_t i = 0; i < p->images && !failed; i += some) {
        c->images = (int32_t)least(some, p->images - i);
        c->size = c->images * c->y_image;
        c->x = x + i * c->x_image * item;
        c->result = y + i * c->y_image * item;
        failed = launch_all(r, p, c, false);
    }
    return failed;
}

static int too_wide(const struct run *r)
{
    mx_fail_as(MX_RUNTIME,
               "[%s] expected less than 2^30 positions and weights of a channel on a GPU, got an input of shape %s",
               r->node->op->name, shape_of(r->x[0]));
    return 1;
}

/* So few channels, of a group above all, that tiles would be all but empty; and not so few positions that threads would
 * be, too. */
static bool is_direct(const struct conv_plan *p, enum dtype t)
{
    int64_t positions = p->images * p->axis[0].out * p->axis[1].out * p->axis[2].out;
    return p->in * p->out <= (p->groups == 1 ? 4 : dtype_is_half(t) ? 16 : 256) && p->taps <= positions * p->groups;
}

/* The weights with output channels side by side: taps, input channels, those. */
static struct buffer *turned_weights(const struct run *r, struct conv_call *c, mx w)
{
    int64_t to[MX_MAX_NDIM], step = c->channels;
    struct buffer *b = buffer_new_on(r->stream, (size_t)nbytes(w));
    for (int i = w->ndim - 1; i > 0; step *= w->shape[i--]) to[i] = step;
    to[0] = 1;
    struct box box = box_of(itemsize(w), w->ndim, w->shape, to, w->strides);
    if (!b || gpu_copy_box(r, &box, (uint64_t)buffer_on(b, r->stream), gpu_address(r, w))) {
        if (b)
            buffer_release(b);
        return NULL;
    }
    for (int i = 0; i < 3; i++) c->axis[i].w *= c->channels;
    c->other = buffer_on(b, r->stream);
    return b;
}

static void call_of(const struct run *r, struct conv_call *c, const struct conv_plan *p, mx x, mx other,
                    bool of_weights)
{
    enum dtype t = (enum dtype)x->dtype;
    c->direct = is_direct(p, t);
    describe_call(c, p);
    c->x = gpu_pointer(r, x);
    c->other = gpu_pointer(r, other);
    c->result = gpu_pointer(r, r->y[0]);
    c->size = r->y[0]->size;
    c->vectors =
        (p->in | (of_weights ? p->out : 0)) % gpu_lanes(t) == 0 && ((uintptr_t)c->x | (uintptr_t)c->other) % 16 == 0;
}

/* Is it a convolution of large tiles of float32?  A library has them multiplied number by number. */
static bool is_split(const struct run *r, mx x, mx w, mx y)
{
    struct conv_plan p;
    struct conv_call c = { 0 };
    int64_t first[3] = { 0 };
    if (x->dtype != DT_float32 || gpu_tf32())
        return false;
    conv_plan_of(&p, r->args, x, w, y);
    if (!is_within(&p, false))
        return false;
    call_of(r, &c, &p, x, w, false);
    take_phases(&c, &p, first);
    struct largest l = largest_of(&c);
    enum kernel k = cut(r, &c, &l, false, true);
    return k == SPLIT || is_of_groups(k);
}

/* ---- few channels of the result */

/* Blocks from which on cells are worth their weights: one for each multiprocessor.  Tests have less. */
#ifndef CONV_CELL_BLOCKS
#define CONV_CELL_BLOCKS 128
#endif
/* Rows of blocks from which on few weights are worth their pieces: some for each block of a device. */
#ifndef CONV_THIN_LEAST_ROWS
#define CONV_THIN_LEAST_ROWS 2048
#endif

/* Neighbouring places of the input for neighbouring taps, and for neighbouring positions of a phase. */
static bool has_cells(const struct conv_plan *p)
{
    bool yes = true;
    for (int i = 0; i < 3; i++) {
        struct conv_axis any = conv_phase(&p->axis[i], 0);
        yes = yes && any.stride == 1 && (any.dilation == 1 || p->axis[i].taps == 1) &&
              phases_of(&p->axis[i]) <= CONV_PHASES && p->axis[i].period == phases_of(&p->axis[i]);
    }
    return yes;
}

/* What a cell sees along the last axis. */
static void describe_cell(struct conv_cells *c)
{
    const struct conv_along *a = &c->of.axis[2];
    int64_t low = INT32_MAX, end = INT32_MIN;
    for (int i = 0; i < a->phases; i++)
        if (a->phase[i].taps) {
            low = least(low, a->phase[i].at);
            end = greatest(end, a->phase[i].at + a->phase[i].taps);
        }
    c->low = (int32_t)(low < end ? low : 0);
    c->window = (int32_t)(ceil_div(low < end ? end - low : 1, CONV_CELL_TAPS) * CONV_CELL_TAPS);
    c->cells = a->phase[0].out; /* no other has more */
    c->width = a->phases * c->of.out;
    c->of.pieces = (int32_t)ceil_div(c->width, CONV_CELL);
}

/* Fours of channels from a row to the next: one more for each eight places, and threads of the next row go on in the
 * banks where this row's end. */
static int64_t line_of_cells(int64_t wide, int64_t window)
{
    int64_t last = wide * CONV_CELLS + window - 2, line = last + last / 8 + 1;
    return line + (wide - line % 8 + 8) % 8;
}

/* Tiles as large as threads and shared memory are, of rows of one size as far as may be. */
static bool cut_cells(struct conv_cells *c, const struct largest *l, int64_t fours)
{
    enum { MOST_THREADS = CONV_CELL_THREADS, FEW_ROWS = 8, LEAST_THREADS = 64 };
    int64_t threads = ceil_div(c->cells, CONV_CELLS), rows = l->out[1];
    int64_t across = ceil_div(threads, MOST_THREADS / least(rows, FEW_ROWS)), wide = ceil_div(threads, across),
            line = line_of_cells(wide, c->window);
    int64_t weights = fours * c->taps[1] * (c->window / CONV_CELL_TAPS) * CONV_CELL_WEIGHTS * (int64_t)sizeof(float);
    int64_t room = (CONV_CELL_BYTES - weights) / (fours * line * 16) - (c->taps[1] - 1);
    int64_t most = least(least(MOST_THREADS / wide, room), rows), down = most > 0 ? ceil_div(rows, most) : 0;
    if (!down)
        return false;
    c->tall = (int32_t)ceil_div(rows, down);
    c->wide = (int32_t)wide;
    c->line = (int32_t)line;
    c->fours = (int32_t)fours;
    c->steps = (int32_t)ceil_div(c->of.in, 4 * fours);
    c->of.down = (int32_t)ceil_div(rows, c->tall);
    c->of.across = (int32_t)across;
    return c->tall * c->wide >= LEAST_THREADS;
}

static int64_t cell_blocks(const struct conv_cells *c, const struct largest *l)
{
    const struct conv_along *a = c->of.axis;
    return l->out[0] * a[0].phases * a[1].phases * c->of.images * c->of.down * c->of.across * c->of.pieces;
}

/* Is it one of few channels of the result, and large?  Tiles, of libraries too, would be all but empty. */
static bool is_of_cells(const struct run *r, struct conv_cells *c, mx x, mx w, mx y)
{
    enum { MOST_WEIGHTS = 1 << 24 };
    struct conv_plan p;
    int64_t first[3] = { 0 };
    conv_plan_of(&p, r->args, x, w, y);
    *c = (struct conv_cells){ 0 };
    if (x->dtype != DT_float32 || p.groups != 1 || p.out > CONV_CELL || p.in % 4 || !is_within(&p, false) ||
        is_direct(&p, DT_float32) || !has_cells(&p))
        return false;
    describe_call(&c->of, &p);
    take_phases(&c->of, &p, first);
    struct largest l = largest_of(&c->of);
    describe_cell(c);
    for (int i = 0; i < 2; i++) c->taps[i] = (int32_t)greatest(l.taps[i], 1);
    if (!cut_cells(c, &l, CONV_CELL_DEPTH / 4) && !cut_cells(c, &l, 1))
        return false;
    int64_t blocks = cell_blocks(c, &l), weights = c->of.axis[0].phases * c->of.axis[1].phases * c->of.pieces;
    for (int i = 0; i < 2; i++) weights = times(weights, c->taps[i]);
    weights = times(times(weights, (int64_t)c->steps * c->fours), c->window / CONV_CELL_TAPS * CONV_CELL_WEIGHTS);
    c->size = weights;
    return blocks >= CONV_CELL_BLOCKS && blocks <= MOST && weights <= MOST_WEIGHTS && gpu_address(r, x) % 16 == 0;
}

static int run_cells(const struct run *r, struct conv_cells *c, mx x, mx w)
{
    struct largest l = largest_of(&c->of);
    void *kernel = kernel_of(r, CELLS), *turn = kernel_of(r, CELL_WEIGHTS);
    struct buffer *b = kernel && turn ? buffer_new_on(r->stream, (size_t)c->size * sizeof(float)) : NULL;
    if (!b)
        return 1;
    const char *op = r->node->op->name;
    c->of.x = gpu_pointer(r, x);
    c->of.other = gpu_pointer(r, w);
    c->of.result = gpu_pointer(r, r->y[0]);
    c->weights = buffer_on(b, r->stream);
    conv_strides(w, c->w);
    int64_t places = (int64_t)c->fours * (c->tall + c->taps[1] - 1) * c->line * 4;
    int64_t weights = (int64_t)c->fours * c->taps[1] * (c->window / CONV_CELL_TAPS) * CONV_CELL_WEIGHTS;
    int64_t threads = (int64_t)c->tall * c->wide,
            numbers = greatest(places + weights, threads * CONV_CELLS * CONV_CELL);
    int failed = gpu_launch(r->stream, op, turn, ceil_div(c->size, CONV_THREADS), CONV_THREADS, (void *[]){ c }) ||
                 gpu_launch_shared(r->stream, op, kernel, cell_blocks(c, &l), (int)ceil_div(threads, 32) * 32,
                                   (size_t)numbers * sizeof(float), (void *[]){ c });
    buffer_release(b);
    return failed;
}

/* Of what a convolution gives: what is computed, or, for its weights, the operand y. */
static int run_windows(const struct run *r, mx x, mx w, mx y, bool of_weights)
{
    struct conv_plan p;
    struct conv_call c = { 0 };
    struct buffer *turned = NULL;
    conv_plan_of(&p, r->args, x, w, y);
    if (!is_within(&p, of_weights))
        return too_wide(r);
    call_of(r, &c, &p, x, of_weights ? y : w, of_weights);
    if (c.direct && !of_weights && !(turned = turned_weights(r, &c, w)))
        return 1;
    int failed = of_weights ? launch_all(r, &p, &c, true) : launch_images(r, &p, &c);
    if (turned)
        buffer_release(turned);
    return failed;
}

/* Are the channels of a group so few less than what is read at once, and is there so much to do, that they are worth
 * more channels of zeros? */
static bool is_worth_channels(const struct run *r, mx x, mx w, mx y, bool of_weights)
{
    const int64_t least_work = 1 << 22, most = 1 << 29; /* elements */
    struct conv_plan p;
    enum dtype t = (enum dtype)x->dtype;
    int64_t lanes = gpu_lanes(t), more = ceil_div(dim(w, -1), lanes) * lanes;
    conv_plan_of(&p, r->args, x, w, y);
    bool fits = t != DT_float64 && p.groups == 1 && !is_direct(&p, t) && (!of_weights || p.out % lanes == 0);
    return fits && p.in % lanes && 3 * p.in >= more && x->size / p.in * more <= most &&
           y->size * p.taps * p.in >= least_work;
}

/* x with so many channels, which have memory; zeros behind its own.  MX_NIL after mx_fail. */
static mx more_channels(const struct run *r, mx x, int64_t channels, bool filled)
{
    int shape[MX_MAX_NDIM];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[x->ndim - 1] = (int)channels;
    mx y = array_new((enum dtype)x->dtype, x->ndim, shape);
    struct run make = *r;
    make.y = &y;
    return is_nil(y) || gpu_out_new(&make, 0) || (filled && gpu_lengthen(r, x, y)) ? MX_NIL : y;
}

static int run_with_more_channels(const struct run *r, mx x, mx w, mx y, bool of_weights)
{
    int64_t lanes = gpu_lanes((enum dtype)x->dtype), channels = ceil_div(dim(w, -1), lanes) * lanes;
    MX_SCOPE(NULL);
    mx wide = more_channels(r, x, channels, true), weights = more_channels(r, w, channels, !of_weights);
    if (is_nil(wide) || is_nil(weights))
        return 1;
    if (!of_weights)
        return run_windows(r, wide, weights, y, false);
    struct run inner = *r;
    inner.y = &weights;
    struct box b = box_of(itemsize(w), w->ndim, w->shape, w->strides, weights->strides);
    return run_windows(&inner, wide, weights, y, true) ||
           gpu_copy_box(r, &b, gpu_address(r, w), gpu_address(r, weights));
}

/* So many rows are worked on at once. */
static int64_t thin_blocks(const struct run *r)
{
    enum { EACH = 2 }; /* of a multiprocessor */
    return EACH * (int64_t)gpu_of(r)->multiprocessors;
}

/* Is it a gradient by few weights, and large?  Tiles of libraries would be all but empty. */
static bool is_thin(const struct run *r, struct conv_thin *c, mx x, mx w, mx y)
{
    struct conv_plan p;
    conv_plan_of(&p, r->args, x, w, y);
    enum dtype t = (enum dtype)x->dtype;
    bool is = (t == DT_float32 ? !gpu_tf32() : dtype_is_half(t)) && p.groups == 1 && p.out <= CONV_THIN_OUT &&
              p.in % gpu_lanes(t) == 0 && p.in >= CONV_THIN_LEAST_CHANNELS && is_within(&p, true) &&
              p.axis[0].in == 1 && p.axis[0].taps == 1 && p.axis[0].out == 1;
    *c = (struct conv_thin){ .x = gpu_pointer(r, x),
                             .y = gpu_pointer(r, y),
                             .images = (int32_t)p.images,
                             .in = (int32_t)p.in,
                             .out = (int32_t)p.out,
                             .size = w->size };
    for (int i = 0; i < 2; i++) {
        const struct conv_whole *a = &p.axis[1 + i];
        is = is && a->stride == 1 && a->spread == 1 && (a->dilation == 1 || a->taps == 1) &&
             a->taps <= CONV_THIN_TAPS && a->low >= -INT32_MAX / 2 && a->low <= INT32_MAX / 2;
        c->taps[i] = (int32_t)a->taps;
        c->low[i] = (int32_t)a->low;
    }
    int64_t rows = p.axis[1].out + p.axis[1].taps - 1, columns = p.axis[2].out + p.axis[2].taps - 1;
    if (!is || columns > INT32_MAX || columns <= 0 || rows <= 0 || p.images > INT32_MAX / rows)
        return false;
    c->rows = (int32_t)rows;
    c->columns = (int32_t)columns;
    c->x_rows = (int32_t)p.axis[1].in;
    c->x_columns = (int32_t)p.axis[2].in;
    c->y_rows = (int32_t)p.axis[1].out;
    c->y_columns = (int32_t)p.axis[2].out;
    c->tiles = (int32_t)ceil_div(c->columns, CONV_THIN_TILE);
    c->tile = (int32_t)ceil_div(c->columns, c->tiles);
    c->chunks = (int32_t)ceil_div(c->in, CONV_THIN_CHANNELS);
    int64_t blocks = p.images * rows * c->tiles * c->chunks;
    return (uintptr_t)c->x % 16 == 0 && blocks >= CONV_THIN_LEAST_ROWS && c->tiles <= thin_blocks(r);
}

static int run_thin(const struct run *r, struct conv_thin *c)
{
    int64_t rows = (int64_t)c->images * c->rows;
    int64_t stretches = greatest(thin_blocks(r) / (c->tiles * (int64_t)c->chunks), 1);
    c->each = (int32_t)ceil_div(rows, least(stretches, rows));
    stretches = ceil_div(rows, c->each);
    struct conv_call merged = { .result = gpu_pointer(r, r->y[0]),
                                .size = c->size,
                                .pieces = (int32_t)(stretches * c->tiles) };
    void *kernel = kernel_of(r, THIN_WEIGHTS);
    struct buffer *b = kernel ? buffer_new_on(r->stream, (size_t)(merged.size * merged.pieces) * sizeof(float)) : NULL;
    if (!b)
        return 1;
    merged.partial = c->partial = buffer_on(b, r->stream);
    int failed = gpu_launch(r->stream, r->node->op->name, kernel, stretches * c->tiles * c->chunks, CONV_THIN_THREADS,
                            (void *[]){ c }) ||
                 merge_pieces(r, &merged);
    buffer_release(b);
    return failed;
}

/* One tap: of each position, or the sum over all of them. */
static int run_as_product(const struct run *r, mx x, mx other, bool of_weights)
{
    int n = other->ndim, in = dim(x, -1), out = of_weights ? dim(other, -1) : dim(other, 0);
    int64_t positions = x->size / in;
    struct product_plan p = { .n = in, .m = out, .k = positions, .steps = { { 1, out }, { in, 1 } } };
    if (!of_weights)
        p = (struct product_plan){
            .m = positions, .n = out, .k = in, .steps = { { in, 1 }, { other->strides[n - 1], other->strides[0] } }
        };
    return gpu_product(r, &p, of_weights ? (mx[]){ other, x } : (mx[]){ x, other });
}

/* By a library where there is one that does it, unless ours are faster: the weights are given to it as they lie. */
static int run_taps(const struct run *r, mx x[2], mx_own hold[2], bool of_weights)
{
    const mx *w = of_weights ? &r->y[0] : &x[1], *y = of_weights ? &x[1] : &r->y[0];
    struct conv_cells c;
    bool cells = !of_weights && is_of_cells(r, &c, x[0], *w, *y);
    bool ours = cells ? !gpu_tf32() : !of_weights && is_split(r, x[0], *w, *y);
    struct conv_thin thin;
    if (of_weights && is_thin(r, &thin, x[0], *w, *y))
        return run_thin(r, &thin);
    if (!ours && gpu_cudnn_conv(r, x[0], *w, *y, of_weights))
        return 0;
    if (cells)
        return run_cells(r, &c, x[0], *w);
    return !gpu_all_row_major(r, 2, x, hold) ||
           (is_worth_channels(r, x[0], *w, *y, of_weights) ? run_with_more_channels : run_windows)(r, x[0], *w, *y,
                                                                                                   of_weights);
}

static int run_any(const struct run *r, bool of_weights)
{
    mx x[2] = { r->x[0], r->x[1] };
    mx_own hold[2] = { 0 };
    if (gpu_out_new(r, 0))
        return 1;
    if (r->y[0]->size == 0)
        return 0;
    if (x[0]->size == 0 || x[1]->size == 0)
        return make_zeros(r);
    bool product = conv_is_product(r->args, x[0], of_weights ? r->y[0] : x[1], of_weights ? x[1] : r->y[0]);
    int failed = !gpu_all_row_major(r, of_weights ? 2 : 1, x, hold);
    if (!failed)
        failed = product ? run_as_product(r, x[0], x[1], of_weights) : run_taps(r, x, hold, of_weights);
    gpu_drop(2, hold);
    return failed;
}

int gpu_run_conv(const struct run *r) { return run_any(r, false); }
int gpu_run_conv_weight(const struct run *r) { return run_any(r, true); }
