/* attention.c: attention and its derivative on a GPU: how they are cut into what blocks do. */
#include "plan/attention.h"

#include "core/shape.h"
#include "cuda/cudnn_attention.h"
#include "cuda/gpu.h"
#include "cuda/kernels/attention.h"

enum { OPERANDS = 6 }; /* queries, keys, values, the result's cotangent, a mask, sinks */

/* The plan's operands, `ct` among them, and what the kernels know of them; NULL: none. */
struct operands {
    mx *x[OPERANDS];
    struct attention_operand *as[OPERANDS];
    mx_own hold[OPERANDS];
};

/* What the call knows of operand x, whose last `axes` axes are the heads and what is in them. */
static void describe_operand(const struct run *r, struct attention_operand *o, mx x, int axes)
{
    int64_t lanes = gpu_lanes((enum dtype)x->dtype), any;
    o->p = gpu_pointer(r, x);
    o->head = dim(x, -axes) > 1 ? x->strides[x->ndim - axes] : 0;
    o->row = axes > 1 && dim(x, 1 - axes) > 1 ? x->strides[x->ndim + 1 - axes] : 0;
    any = dim(x, -1) | o->head | o->row;
    for (int d = 0; d < ATTENTION_DIMS; d++) any |= o->batch[d];
    o->vectors = any % lanes == 0 && (uintptr_t)o->p % 16 == 0;
}

/* False: the batch has more dimensions than kernels know. */
static bool describe_attention(const struct run *r, const struct attention_plan *p, const struct operands *o,
                               struct attention_call *c)
{
    int64_t strides[OPERANDS][MX_MAX_NDIM], *each[OPERANDS];
    int shape[MX_MAX_NDIM], ndim = p->q->ndim - 3;
    for (int d = 0; d < ndim; d++) shape[d] = p->q->shape[d];
    for (int i = 0; i < OPERANDS; i++) {
        each[i] = strides[i];
        for (int d = 0; d < ndim; d++) strides[i][d] = *o->x[i] ? (*o->x[i])->strides[d] : 0;
    }
    c->ndim = p->batch > 1 ? collapse(ndim, shape, OPERANDS, each) : 0;
    if (c->ndim > ATTENTION_DIMS)
        return false;
    for (int d = 0; d < c->ndim; d++) {
        c->shape[d] = (uint32_t)shape[d];
        for (int i = 0; i < OPERANDS; i++) o->as[i]->batch[d] = strides[i][d];
    }
    for (int i = 0; i < OPERANDS; i++)
        if (*o->x[i])
            describe_operand(r, o->as[i], *o->x[i], i < OPERANDS - 1 ? 3 : 1);
    c->mask_key = p->mask ? p->mask->strides[p->mask->ndim - 1] : 0;
    c->mask_is_bool = p->mask && p->mask->dtype == DT_bool_;
    c->causal = p->a->causal;
    c->scale = p->a->scale;
    c->units = p->batch * p->kv;
    c->kv = p->kv;
    c->group = p->group;
    c->length = p->length;
    c->keys = p->keys;
    c->rows = p->group * p->length;
    c->d = p->d;
    c->e = p->e;
    c->fours = p->e % 4 == 0;
    return true;
}

/* ---- what blocks do */

/* A kernel for heads of up to `width` elements, in tiles of so many rows; its blocks. */
struct cut {
    const char *module, *name;
    int width, rows, threads;
    size_t bytes;
    struct gpu_found *found;
};

/* Rows of K and V are read by teams; pieces are so many that all of the device has some. */
static struct cut cut_few(struct attention_call *c, enum dtype t)
{
    static struct gpu_found found[4][DT_COUNT];
    static const char *const names[] = { "attention_few_1", "attention_few_2", "attention_few_4", "attention_few_8" };
    enum { BLOCKS = 1024, LEAST_PIECE = 64 };
    int64_t lanes = gpu_lanes(t);
    int k = __builtin_ctz((unsigned)gpu_power_of_two(c->rows, ATTENTION_FEW));
    c->key_team = gpu_power_of_two(ceil_div(c->d, lanes), 32);
    c->value_team = gpu_power_of_two(ceil_div(c->e, lanes), 32);
    c->tiles = c->chunks = 1;
    c->piece = ceil_div(ceil_div(c->keys * c->units, BLOCKS), 32) * 32;
    c->piece = least(greatest(c->piece, LEAST_PIECE), ATTENTION_PIECE);
    return (struct cut){ "attention", names[k], .threads = ATTENTION_FEW_THREADS, .found = &found[k][t] };
}

/* The same on the units that multiply matrices, of heads of up to 128 elements.  Pieces fill the device once, twice or
 * three times, whichever takes the fewest steps of keys one after the other; to begin and to end takes some, too. */
static struct cut cut_split(const struct run *r, struct attention_call *c, enum dtype t)
{
    static struct gpu_found found[2][DT_COUNT];
    enum { FILLED = 3, AROUND = 2, CACHED = 16 << 20 }; /* CACHED: bytes that the cache surely keeps a moment */
    const struct gpu *g = gpu_of(r);
    const int width = greatest(c->d, c->e) > 64 ? 128 : 64;
    c->stages = g->major == 9 || g->major == 10 ? 3 : 2; /* others have less shared memory */
    int64_t at_once = (int64_t)g->multiprocessors * (width > 64 && c->stages > 2 ? 2 : ATTENTION_SPLIT_BLOCKS);
    int64_t steps = ceil_div(c->keys, ATTENTION_SPLIT_KEYS), least_time = INT64_MAX;
    for (int times = 1; times <= FILLED; times++) {
        int64_t each = ceil_div(steps, greatest(times * at_once / c->units, 1));
        int64_t time = ceil_div(ceil_div(steps, each) * c->units, at_once) * (each + AROUND);
        if (time < least_time) {
            least_time = time;
            c->piece = each * ATTENTION_SPLIT_KEYS;
        }
    }
    int64_t pieces = ceil_div(c->keys, c->piece), row = (c->d + c->e) * (int64_t)dtype_size(t);
    int64_t most = CACHED / greatest(least(pieces * c->units, at_once) * row, 1);
    c->ahead = (int32_t)least(greatest(most, ATTENTION_SPLIT_KEYS), 4 * ATTENTION_SPLIT_KEYS);
    bool few = c->rows * c->e <= ATTENTION_WARP_THREADS && pieces <= 2 * ATTENTION_MERGED_AT_ONCE;
    if (pieces > 1 && few && !c->only_if) /* more of them are a launch of many blocks */
        c->arrived = gpu_arrived(gpu_stream(r->stream), c->units);
    c->tiles = c->chunks = 1;
    return (struct cut){ "attention", width > 64 ? "attention_split_128" : "attention_split_64",
                         .threads = ATTENTION_WARP_THREADS, .bytes = ATTENTION_SPLIT_BYTES(width, c->stages),
                         .found = &found[width > 64][t] };
}

/* Its tiles; keys in pieces where tiles are few. */
static struct cut cut_tiles(struct attention_call *c, struct cut cut, struct gpu_found *found)
{
    enum { BLOCKS = 256, LEAST_PIECE = 256 };
    c->tiles = ceil_div(c->rows, cut.rows);
    c->chunks = greatest(ceil_div(c->e, cut.width), 1);
    int64_t blocks = c->units * c->tiles * c->chunks, pieces = blocks < BLOCKS ? ceil_div(BLOCKS, blocks) : 1;
    pieces = least(pieces, greatest(c->keys / LEAST_PIECE, 1));
    c->piece = ceil_div(ceil_div(c->keys, pieces), ATTENTION_KEYS) * ATTENTION_KEYS;
    cut.found = found;
    return cut;
}

static struct cut cut_numbers(struct attention_call *c, enum dtype t)
{
    static struct gpu_found found[2][DT_COUNT];
    bool wide = t == DT_float64, large = !wide && c->e > 64;
    struct cut cut = { "attention", "attention_tile_64", 64, wide ? 32 : 64, ATTENTION_THREADS, 0, NULL };
    if (large) {
        cut.name = "attention_tile_128";
        cut.width = 128;
    }
    return cut_tiles(c, cut, &found[large][t]);
}

/* The first of those kernels, from the smallest on, that holds a head; n: none does. */
static int smallest_cut(const struct attention_call *c, int n, const struct cut *kernels)
{
    int k = 0;
    while (k < n && greatest(c->d, c->e) > kernels[k].width) k++;
    return k;
}

/* Of half types, by warps, or on devices that have them by groups of warps; no name: none holds a head. */
static struct cut cut_halves(struct attention_call *c, enum dtype t, bool groups)
{
#define X(width, tall, keys)                                                            \
    { "attention", "attention_warps_" #width, width,                                    \
      64 * (tall), ATTENTION_WARP_THREADS,    ATTENTION_WARPS_BYTES(width, tall, keys), \
      NULL },
    static const struct cut of_warps[] = { ATTENTION_WARPS(X) };
#undef X
#define X(width, keys)                                                                           \
    { "attention_groups",      "attention_groups_" #width,          width, ATTENTION_GROUP_ROWS, \
      ATTENTION_GROUP_THREADS, ATTENTION_GROUPS_BYTES(width, keys), NULL },
    static const struct cut of_groups[] = { ATTENTION_GROUPS(X) };
#undef X
    enum { WARPS = sizeof of_warps / sizeof *of_warps, GROUPS = sizeof of_groups / sizeof *of_groups };
    static struct gpu_found found_warps[WARPS][DT_COUNT], found_groups[GROUPS][DT_COUNT];
    int n = groups ? GROUPS : WARPS, k = smallest_cut(c, n, groups ? of_groups : of_warps);
    if (k == n)
        return (struct cut){ NULL };
    return groups ? cut_tiles(c, of_groups[k], &found_groups[k][t]) : cut_tiles(c, of_warps[k], &found_warps[k][t]);
}

/* Of float32: the smallest of those kernels that holds a head, or for larger ones that of 128; that of 256, whose
 * tiles are taller, where there are as many queries. */
static struct cut cut_parts(struct gpu *g, struct attention_call *c)
{
#define X(width, warps, tall, keys)                                  \
    { "attention",  "attention_parts_" #width,                       \
      width,        16 * (warps) * (tall),                           \
      32 * (warps), ATTENTION_PARTS_BYTES(width, warps, tall, keys), \
      NULL },
    static const struct cut kernels[] = { ATTENTION_PARTS(X) };
#undef X
    enum { USUAL = 1, LARGE, SIZES = sizeof kernels / sizeof *kernels };
    static struct gpu_found found[SIZES];
    static struct gpu_known known;
    int k = (int)least(smallest_cut(c, SIZES, kernels), USUAL);
    if (greatest(c->d, c->e) > kernels[USUAL].width && c->d <= kernels[LARGE].width && c->rows > kernels[USUAL].rows &&
        gpu_has(g, &known, "attention", kernels[LARGE].name, DT_float32))
        k = LARGE;
    return cut_tiles(c, kernels[k], &found[k]);
}

static struct cut cut_attention(const struct run *r, struct attention_call *c, enum dtype t)
{
    struct gpu *g = gpu_of(r);
    static struct gpu_known warps[DT_COUNT], groups[DT_COUNT], parts;
    bool units = dtype_is_half(t) && gpu_has(g, &warps[t], "attention", "attention_warps_64", t);
    bool small = greatest(c->d, c->e) <= 128;
    if (units && small && c->rows <= ATTENTION_SPLIT && c->keys)
        return cut_split(r, c, t);
    if (c->rows <= ATTENTION_FEW && c->keys)
        return cut_few(c, t);
    if (t == DT_float32 && gpu_has(g, &parts, "attention", "attention_parts_64", t))
        return cut_parts(g, c);
    bool many = units && c->rows > ATTENTION_GROUP_ROWS / 2 && !c->only_if && /* of others more blocks end at once */
                gpu_has(g, &groups[t], "attention_groups", "attention_groups_64", t);
    struct cut cut = units ? cut_halves(c, t, many) : (struct cut){ NULL };
    return cut.name ? cut : cut_numbers(c, t);
}

static int launch_attention(const struct run *r, enum dtype t, struct attention_call *c)
{
    static struct gpu_found merges[DT_COUNT];
    enum { LARGEST_TEAM = 16 };
    struct gpu *g = gpu_of(r);
    const char *op = r->node->op->name;
    struct cut cut = cut_attention(r, c, t);
    c->pieces = c->keys ? ceil_div(c->keys, c->piece) : 1;
    void *kernel = gpu_find(g, cut.found, cut.module, cut.name, t);
    int64_t rows = c->units * c->rows, blocks = c->units * c->tiles * c->chunks * c->pieces;
    struct buffer *b = NULL;
    int failed = !kernel;
    int most = c->arrived ? ATTENTION_WARP_THREADS / (int)gpu_power_of_two(c->rows * c->e, ATTENTION_WARP_THREADS)
                          : LARGEST_TEAM; /* one block has a thread for each element, and more of them if there are */
    c->merge_team = (int32_t)gpu_power_of_two(ceil_div(c->pieces, ATTENTION_MERGED_AT_ONCE), most);
    if (!failed && c->pieces > 1) {
        size_t size = t == DT_float64 ? 8 : 4;
        failed = !(b = buffer_new_on(r->stream, (size_t)(rows * c->pieces * (c->e + 2)) * size));
        c->partial = failed ? NULL : buffer_on(b, r->stream);
    }
    if (!failed)
        failed = gpu_launch_shared(r->stream, op, kernel, blocks, cut.threads, cut.bytes, (void *[]){ c });
    if (!failed && c->pieces > 1 && !c->arrived) {
        kernel = gpu_find(g, &merges[t], "attention", "attention_merge", t);
        blocks = ceil_div(rows * greatest(c->e, 1), ATTENTION_MERGE_THREADS / c->merge_team);
        failed = !kernel || gpu_launch(r->stream, op, kernel, blocks, ATTENTION_MERGE_THREADS, (void *[]){ c });
    }
    if (b)
        buffer_release(b);
    return failed;
}

/* By cuDNN, where it does that, after which our kernels are there for what is not finite; else by those alone. */
static int attend(const struct run *r, const struct attention_plan *p, struct attention_call *c)
{
    struct buffer *wild = NULL;
    if (gpu_cudnn_attention(r, p, c, &wild) && !wild)
        return 0;
    c->only_if = wild ? buffer_on(wild, r->stream) : NULL;
    int failed = launch_attention(r, (enum dtype)p->q->dtype, c);
    if (wild)
        buffer_release(wild);
    return failed;
}

/* Operands as they are where their rows have no gaps; all of them row by row where their batches are too odd. */
static int prepare_attention(const struct run *r, struct attention_plan *p, struct operands *o,
                             struct attention_call *c)
{
    bool failed = false;
    for (int i = 0; i < 4 && !failed; i++)
        if (*o->x[i] && !attention_gapless(*o->x[i]))
            failed = is_nil(*o->x[i] = gpu_row_major(r, *o->x[i], &o->hold[i]));
    if (failed || describe_attention(r, p, o, c))
        return failed;
    for (int i = 0; i < OPERANDS && !failed; i++)
        if (*o->x[i] && !o->hold[i].it)
            failed = is_nil(*o->x[i] = gpu_row_major(r, *o->x[i], &o->hold[i]));
    return failed || !describe_attention(r, p, o, c);
}

/* Rows of queries are counted in 32 bits. */
bool gpu_takes_attention(const struct node *n)
{
    mx q = n->in[ATTENTION_Q];
    int64_t rows = 1;
    for (int d = 0; d < q->ndim - 1; d++) rows = least(rows * q->shape[d], (int64_t)1 << 32);
    return rows <= INT32_MAX;
}

int gpu_run_attention(const struct run *r)
{
    struct attention_plan p;
    struct attention_call c = { 0 };
    struct attention_operand none = { 0 };
    mx ct = NULL;
    struct operands o = { { &p.q, &p.k, &p.v, &ct, &p.mask, &p.sinks },
                          { &c.q, &c.k, &c.v, &none, &c.mask, &c.sinks },
                          { { NULL } } };
    attention_plan_of(&p, r->args, r->x);
    int failed = gpu_out_new(r, 0) || gpu_out_new(r, 1) || gpu_out_new(r, 2);
    if (!failed && r->y[1]->size && !(failed = prepare_attention(r, &p, &o, &c))) {
        c.y = gpu_pointer(r, r->y[0]);
        c.top = gpu_pointer(r, r->y[1]);
        c.sum = gpu_pointer(r, r->y[2]);
        failed = attend(r, &p, &c);
    }
    gpu_drop(OPERANDS, o.hold);
    return failed;
}

/* ---- the derivative */

/* What makes slopes, tiles of how many rows, and of how many columns they take; no name: none does. */
struct slopes {
    const char *module, *name;
    struct gpu_found *found;
    int64_t tile, width;
    int threads;
    size_t bytes;
};
enum { TO_QUERIES, TO_KEYS, SLOPES };

static struct slopes numbers_to(int to, const struct attention_call *c, enum dtype t)
{
    static const char *const names[][SLOPES] = { { "attention_to_queries_64", "attention_to_keys_64" },
                                                 { "attention_to_queries_128", "attention_to_keys_128" } };
    static struct gpu_found found[2][SLOPES][DT_COUNT];
    int64_t widest = greatest(c->d, c->e);
    bool large = t != DT_float64 && ((to == TO_KEYS ? widest : c->d) > 64 || widest > 128);
    return (struct slopes){ "attention_vjp",
                            names[large][to],
                            &found[large][to][t],
                            t == DT_float64 ? 32 : 64,
                            large ? 128 : 64,
                            ATTENTION_THREADS,
                            0 };
}

/* The smallest of those kernels that hold a head. */
static struct slopes smallest(int n, const struct slopes *kernels, struct gpu_found found[][SLOPES][DT_COUNT], int to,
                              const struct attention_call *c, enum dtype t)
{
    for (int k = 0; k < n; k++)
        if (greatest(c->d, c->e) <= kernels[k].width) {
            struct slopes s = kernels[k];
            s.found = &found[k][to][t];
            return s;
        }
    return (struct slopes){ NULL };
}

static struct slopes warps_to(int to, const struct attention_call *c, enum dtype t)
{
#define X(w, tall, step)                                                                      \
    { "attention_vjp",        "attention_warps_to_queries_" #w,         NULL, 64 * (tall), w, \
      ATTENTION_WARP_THREADS, ATTENTION_TO_QUERIES_BYTES(w, tall, step) },
    static const struct slopes to_queries[] = { ATTENTION_TO_QUERIES(X) };
#undef X
#define X(w, tall, step)                                                                   \
    { "attention_vjp",        "attention_warps_to_keys_" #w,         NULL, 32 * (tall), w, \
      ATTENTION_WARP_THREADS, ATTENTION_TO_KEYS_BYTES(w, tall, step) },
    static const struct slopes to_keys[] = { ATTENTION_TO_KEYS(X) };
#undef X
    enum { SIZES = sizeof to_keys / sizeof *to_keys };
    _Static_assert(sizeof to_queries == sizeof to_keys, "the same sizes");
    static struct gpu_found found[SIZES][SLOPES][DT_COUNT];
    return smallest(SIZES, to == TO_KEYS ? to_keys : to_queries, found, to, c, t);
}

/* Not all devices have the largest of them. */
static struct slopes parts_to(struct gpu *g, int to, const struct attention_call *c)
{
#define X(w, warps, tall, step)                                                                \
    { { "attention_vjp", "attention_parts_to_queries_" #w, NULL, 64 * (tall), w, 32 * (warps), \
        ATTENTION_PARTS_VJP_BYTES(w, warps, tall, step) },                                     \
      { "attention_vjp", "attention_parts_to_keys_" #w, NULL, 64 * (tall), w, 32 * (warps),    \
        ATTENTION_PARTS_VJP_BYTES(w, warps, tall, step) } },
    static const struct slopes kernels[][SLOPES] = { ATTENTION_PARTS_VJP(X) };
#undef X
    enum { SIZES = sizeof kernels / sizeof *kernels };
    static struct gpu_found found[SIZES][SLOPES];
    static struct gpu_known known[SIZES][SLOPES];
    for (int k = 0; k < SIZES; k++)
        if (greatest(c->d, c->e) <= kernels[k][to].width &&
            gpu_has(g, &known[k][to], "attention_vjp", kernels[k][to].name, DT_float32)) {
            struct slopes s = kernels[k][to];
            s.found = &found[k][to];
            return s;
        }
    return (struct slopes){ NULL };
}

/* Of the same sizes. */
static struct slopes groups_to(int to, const struct attention_call *c, enum dtype t)
{
#define X(w, step)                                                                                \
    { "attention_groups_vjp",  "attention_groups_to_queries_" #w,  NULL, ATTENTION_GROUP_ROWS, w, \
      ATTENTION_GROUP_THREADS, ATTENTION_GROUPS_VJP_BYTES(w, step) },
    static const struct slopes to_queries[] = { ATTENTION_GROUPS_TO_QUERIES(X) };
#undef X
#define X(w, step)                                                                                \
    { "attention_groups_vjp",  "attention_groups_to_keys_" #w,     NULL, ATTENTION_GROUP_ROWS, w, \
      ATTENTION_GROUP_THREADS, ATTENTION_GROUPS_VJP_BYTES(w, step) },
    static const struct slopes to_keys[] = { ATTENTION_GROUPS_TO_KEYS(X) };
#undef X
    enum { SIZES = sizeof to_keys / sizeof *to_keys };
    _Static_assert(sizeof to_queries == sizeof to_keys, "the same sizes");
    static struct gpu_found found[SIZES][SLOPES][DT_COUNT];
    return smallest(SIZES, to == TO_KEYS ? to_keys : to_queries, found, to, c, t);
}

static struct slopes slopes_to(struct gpu *g, int to, const struct attention_call *c, enum dtype t)
{
    static struct gpu_known warps[DT_COUNT], groups[DT_COUNT];
    struct slopes s = { NULL };
    bool half = dtype_is_half(t), tall = least(c->rows, c->keys) > ATTENTION_GROUP_ROWS / 2;
    if (half && tall && !c->only_if && gpu_has(g, &groups[t], "attention_groups_vjp", "attention_groups_to_keys_64", t))
        s = groups_to(to, c, t);
    if (half && !s.name && gpu_has(g, &warps[t], "attention_vjp", "attention_warps_to_keys_64", t))
        s = warps_to(to, c, t);
    if (t == DT_float32)
        s = parts_to(g, to, c);
    return s.name ? s : numbers_to(to, c, t);
}

/* What is taken off slopes, one for each row. */
static int launch_delta(const struct run *r, enum dtype t, struct attention_vjp_call *a)
{
    static struct gpu_found found[DT_COUNT];
    const struct attention_call *c = &a->c;
    void *kernel = gpu_find(gpu_of(r), &found[t], "attention_vjp", "attention_delta", t);
    a->delta_team = gpu_power_of_two(ceil_div(c->e, gpu_lanes(t)), 32);
    int64_t blocks = ceil_div(c->units * c->rows, ATTENTION_DELTA_THREADS / a->delta_team);
    return !kernel || gpu_launch(r->stream, "attention_vjp", kernel, blocks, ATTENTION_DELTA_THREADS, (void *[]){ a });
}

static int launch_slopes(const struct run *r, enum dtype t, struct attention_vjp_call *a)
{
    static struct gpu_found sinks[DT_COUNT];
    struct attention_call *c = &a->c;
    struct gpu *g = gpu_of(r);
    size_t size = t == DT_float64 ? 8 : 4;
    struct buffer *delta = buffer_new_on(r->stream, (size_t)(c->units * c->rows) * size);
    a->delta = delta ? buffer_on(delta, r->stream) : NULL;
    int failed = !delta || launch_delta(r, t, a);
    for (int to = 0; to < SLOPES && !failed; to++) {
        struct slopes s = slopes_to(g, to, c, t);
        void *kernel = gpu_find(g, s.found, s.module, s.name, t);
        c->tiles = ceil_div(to == TO_KEYS ? c->keys : c->rows, s.tile);
        c->chunks = ceil_div(to == TO_KEYS ? greatest(c->d, c->e) : c->d, s.width);
        failed = !kernel || gpu_launch_shared(r->stream, "attention_vjp", kernel, c->units * c->tiles * c->chunks,
                                              s.threads, s.bytes, (void *[]){ a });
    }
    if (a->dsinks && !failed) {
        void *kernel = gpu_find(g, &sinks[t], "attention_vjp", "attention_to_sinks", t);
        failed = !kernel || gpu_launch(r->stream, "attention_vjp", kernel, c->units * c->group, 32, (void *[]){ a });
    }
    if (delta)
        buffer_release(delta);
    return failed;
}

static int attend_vjp(const struct run *r, const struct attention_plan *p, struct attention_vjp_call *a)
{
    struct buffer *wild = NULL;
    if (gpu_cudnn_attention_vjp(r, p, a, &wild) && !wild)
        return 0;
    a->c.only_if = wild ? buffer_on(wild, r->stream) : NULL;
    int failed = launch_slopes(r, (enum dtype)p->q->dtype, a);
    if (wild)
        buffer_release(wild);
    return failed;
}

int gpu_run_attention_vjp(const struct run *r)
{
    struct attention_plan p;
    struct attention_vjp_call a = { 0 };
    struct attention_call *c = &a.c;
    attention_plan_of(&p, r->args, r->x);
    const mx *more = r->x + 3 + p.a->mask + p.a->sinks;
    mx ct = more[0], kept[3];
    struct operands o = { { &p.q, &p.k, &p.v, &ct, &p.mask, &p.sinks },
                          { &c->q, &c->k, &c->v, &a.ct, &c->mask, &c->sinks },
                          { { NULL } } };
    mx_own hold[3] = { 0 };
    int failed = 0;
    for (int i = 0; i < r->nout && !failed; i++) failed = gpu_out_new(r, i);
    for (int i = 0; i < 3 && !failed; i++) failed = is_nil(kept[i] = gpu_row_major(r, more[1 + i], &hold[i]));
    if (!failed && !(failed = prepare_attention(r, &p, &o, c))) {
        c->y = gpu_pointer(r, r->y[0]);
        a.result = gpu_pointer(r, kept[0]);
        a.result_vectors = a.ct.vectors && p.e % gpu_lanes((enum dtype)ct->dtype) == 0 && (uintptr_t)a.result % 16 == 0;
        c->top = gpu_pointer(r, kept[1]);
        c->sum = gpu_pointer(r, kept[2]);
        a.dk = gpu_pointer(r, r->y[1]);
        a.dv = gpu_pointer(r, r->y[2]);
        a.dsinks = p.sinks ? gpu_pointer(r, r->y[3]) : NULL;
        c->pieces = 1;
        c->piece = c->keys;
        failed = attend_vjp(r, &p, &a);
    }
    gpu_drop(OPERANDS, o.hold);
    gpu_drop(3, hold);
    return failed;
}
