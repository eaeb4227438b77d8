/* rope.c: rotary position embeddings on a GPU. */
#include "cuda/kernels/rope.h"

#include <math.h>
#include <string.h>

#include "core/shape.h"
#include "cuda/gpu.h"
#include "ops/fast.h"
#include "shared/scalar.h"

/* The rows of x (all axes but the last two) as the kernel walks them; false: too many dimensions. */
static bool walk_rows(struct rope_rows *c, mx x)
{
    int shape[MX_MAX_NDIM], ndim = x->ndim - 2;
    int64_t strides[MX_MAX_NDIM], *all[] = { strides };
    for (int d = 0; d < ndim; d++) {
        shape[d] = x->shape[d];
        strides[d] = x->strides[d];
    }
    ndim = collapse(ndim, shape, 1, all);
    if (ndim > ROPE_DIMS)
        return false;
    c->ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        c->shape[d] = (uint32_t)shape[d];
        c->stride[d] = strides[d];
    }
    c->position = x->strides[x->ndim - 2];
    return true;
}

/* Are all vectors that a thread reads and writes aligned to 16 bytes, or half that between halves of a row? */
static bool whole_vectors(const struct rope_call *c, const struct rope_rows *o, size_t item)
{
    uint64_t low = (uint64_t)o->x | (uint64_t)o->y | (uint64_t)c->width * item | (uint64_t)o->position * item;
    for (int d = 0; d < o->ndim; d++) low |= (uint64_t)o->stride[d] * item;
    return low % 16 == 0 && c->half % ROPE_PAIRS == 0;
}

/* Is it what was asked for last?  It is now.  Calls of a model ask for the same one after the other. */
static bool is_last(void *last, const void *key, size_t bytes)
{
    bool is = memcmp(last, key, bytes) == 0;
    memcpy(last, key, bytes);
    return is;
}

/* By how much pairs turn from one position to the next. */
static void find_turns(struct rope_call *c, double base)
{
    struct key {
        double base, sign;
        int64_t half, first, pairs;
    } key = { base, c->sign, c->half, c->first, c->pairs };
    static _Thread_local struct key last;
    static _Thread_local double turns[ROPE_TURNS];
    if (!is_last(&last, &key, sizeof key))
        for (int64_t i = 0; i < c->pairs; i++)
            turns[i] = c->sign * pow(base, -(double)(c->first + i) / (double)c->half);
    memcpy(c->turns, turns, (size_t)c->pairs * sizeof *turns);
}

/* How many positions a block has the sines of: as many as its threads make one each of, or two where that is all. */
static void share_sines(struct rope_call *c)
{
    int64_t span = least(c->length * c->pairs <= ROPE_SHARED ? c->length : ROPE_THREADS / c->pairs, c->length);
    c->span = c->groups == 1 ? (uint32_t)greatest(span, 1) : 0;
    c->spans = c->span ? (uint32_t)ceil_div(c->length, c->span) : 0;
}

/* Rows of a block: no more than it takes to have blocks for all of the device, and a unit for each thread at least. */
static void cut_together(const struct run *r, const struct rope_call *c, struct rope_rows *o)
{
    enum { BLOCKS = 4, MOST = 4096 }; /* BLOCKS: of a multiprocessor */
    int64_t blocks = (int64_t)gpu_of(r)->multiprocessors * BLOCKS;
    int64_t chunks = greatest(blocks / c->spans, 1), some = ceil_div(ROPE_THREADS, (int64_t)c->span * c->units);
    o->each = least(least(greatest(ceil_div(o->rows, chunks), some), MOST), o->rows);
}

/* Rows of a thread: several have the same sines where there are threads enough. */
static void cut_apart(const struct run *r, const struct rope_call *c, struct rope_rows *o)
{
    int64_t threads = c->groups * o->rows * c->length * c->width / (2 * ROPE_PAIRS);
    int64_t enough = (int64_t)gpu_of(r)->multiprocessors * 1024;
    o->each = least(greatest(threads / enough, 1), o->rows);
    o->chunks = (uint32_t)ceil_div(o->rows, o->each);
    o->n = c->groups * o->chunks * c->length * c->units;
}

/* Pairs `first` on, as many as a launch has. */
static int launch_rope(const struct run *r, void *kernel, struct rope_call *c, int64_t first)
{
    const struct rope_args *a = r->args;
    int64_t left = c->half - first, rest = c->width - 2 * c->half, blocks = 0;
    c->first = first;
    c->pairs = left < ROPE_TURNS ? left : ROPE_TURNS;
    c->quads = (uint32_t)ceil_div(c->pairs, ROPE_PAIRS);
    c->units = c->quads + (uint32_t)(first ? 0 : ceil_div(rest, 2 * ROPE_PAIRS));
    if (!c->freqs)
        find_turns(c, a->base);
    share_sines(c);
    for (int i = 0; i < c->arrays; i++) {
        struct rope_rows *o = &c->of[i];
        o->begin = blocks;
        if (c->span) {
            cut_together(r, c, o);
            blocks += c->spans * ceil_div(o->rows, o->each);
        } else {
            cut_apart(r, c, o);
            blocks += ceil_div(o->n, ROPE_THREADS);
        }
    }
    return gpu_launch(r->stream, "rope", kernel, blocks, ROPE_THREADS, (void *[]){ c });
}

/* A number of the host's, as the position of what is written is, goes with the launch. */
bool gpu_reads_host(const struct node *n, int k)
{
    return n->op->id == OP_rope && k == 1 && n->in[k]->size == 1 &&
           atomic_load_explicit(&n->in[k]->buf->state, memory_order_acquire) & ON_HOST;
}

/* What r rotates and where it goes is one more of the call's arrays. */
static int add_rows(const struct run *r, struct rope_call *c, mx_own *hold)
{
    struct rope_rows *o = &c->of[c->arrays++];
    mx x = r->x[0];
    if (x->strides[x->ndim - 1] != 1 || !walk_rows(o, x))
        if (is_nil(x = gpu_row_major(r, x, hold)) || !walk_rows(o, x))
            return 1;
    o->x = gpu_pointer(r, x);
    o->y = gpu_pointer(r, r->y[0]);
    o->rows = x->size / (c->length * c->width) / c->groups;
    o->whole = whole_vectors(c, o, itemsize(x));
    return 0;
}

/* The cosines and sines of pairs of one position. */
static void find_points(const struct run *r, struct gpu_heads *t)
{
    const struct rope_args *a = r->args;
    struct key {
        double base, scale, sign;
        int64_t at, pairs;
    } key = { a->base, a->scale, a->inverse ? -1 : 1, 0, t->pairs };
    static _Thread_local struct key last;
    static _Thread_local float cosine[VECTOR_PAIRS], sine[VECTOR_PAIRS];
    memcpy(&key.at, array_host(r->x[1]), sizeof key.at);
    if (!is_last(&last, &key, sizeof key)) {
        struct rope_call c = { .half = t->pairs, .pairs = t->pairs, .sign = key.sign };
        find_turns(&c, key.base);
        for (int i = 0; i < t->pairs; i++) {
            double angle = (double)key.at * key.scale * c.turns[i]; /* angle_of of kernels/rope.cu, to the bit */
            cosine[i] = (float)cos_f64(angle);
            sine[i] = (float)sin_f64(angle);
        }
    }
    memcpy(t->cosine, cosine, sizeof t->cosine);
    memcpy(t->sine, sine, sizeof t->sine);
}

/* Is it done by the launch of products that is held, whose results are what is rotated?  Nobody else looks at those. */
static bool turn_by_products(const struct run *r)
{
    const struct rope_args *a = r->args;
    mx x = r->x[0];
    const int width = dim(x, -1), half = width / 2;
    if (a->dims != width || width % 4 || half > VECTOR_PAIRS || dim(x, -2) != 1 || a->freqs || !x->row ||
        x->size > INT32_MAX || !gpu_reads_host(r->node, 1))
        return false;
    struct gpu_heads t = { .x = gpu_pointer(r, x),
                           .size = x->size,
                           .type = (enum dtype)x->dtype,
                           .width = width,
                           .pairs = half,
                           .apart = a->traditional ? 1 : half };
    struct gpu_stream *q = gpu_stream(r->stream);
    find_points(r, &t);
    return gpu_vectors_may(q, &t) && gpu_out_in(r, 0, 0) && gpu_vectors_take(q, &t);
}

/* n of them, which have the same arguments, offset and frequencies, and positions as many. */
static int run_ropes(int n, const struct run r[])
{
    static struct gpu_found found[DT_COUNT];
    const struct rope_args *a = r->args;
    mx x = r->x[0], offset = r->x[1], freqs = NULL;
    bool known = gpu_reads_host(r->node, 1);
    mx_own hold[2 + ROPE_ARRAYS] = { 0 };
    void *kernel = gpu_find(gpu_of(r), &found[x->dtype], "rope", "rope", (enum dtype)x->dtype);
    bool failed = !kernel;
    for (int i = 0; i < n && !failed; i++) failed = !r[i].y[0]->buf && gpu_out_new(&r[i], 0);
    if (failed || x->size == 0)
        return failed;
    struct rope_call c = { .pairwise = a->traditional,
                           .half = a->dims / 2,
                           .width = dim(x, -1),
                           .length = (uint32_t)dim(x, -2),
                           .groups = offset->size,
                           .scale = a->scale,
                           .sign = a->inverse ? -1 : 1 };
    failed = !known && is_nil(offset = gpu_row_major(r, offset, &hold[0]));
    if (a->freqs && !failed)
        failed = is_nil(freqs = gpu_row_major(r, r->x[2], &hold[1]));
    for (int i = 0; i < n && !failed; i++) failed = add_rows(&r[i], &c, &hold[2 + i]);
    if (!failed) {
        if (known)
            memcpy(&c.only, array_host(offset), sizeof c.only);
        else
            c.offset = gpu_pointer(r, offset);
        c.freqs = freqs ? gpu_pointer(r, freqs) : NULL;
        for (int64_t first = 0; first < c.half && !failed; first += ROPE_TURNS)
            failed = launch_rope(r, kernel, &c, first);
    }
    gpu_drop(2 + ROPE_ARRAYS, hold);
    return failed;
}

int gpu_run_rope(const struct run *r) { return turn_by_products(r) ? 0 : run_ropes(1, r); }

int gpu_run_ropes(struct stream *s, int n, struct entry *const m[])
{
    struct run r[ROPE_ARRAYS];
    int some = 0, failed = 0;
    for (int i = 0; i < n && !failed; i++) {
        r[some] = run_of(s, m[i]);
        some += !turn_by_products(&r[some]);
        if (some == ROPE_ARRAYS) {
            failed = run_ropes(some, r);
            some = 0;
        }
    }
    return failed || (some && run_ropes(some, r));
}

/* The same angles of one array as of the other: queries and keys. */
bool gpu_ropes_are_alike(const struct node *n, const struct node *first)
{
    const struct rope_args *a = n->args, *b = first->args;
    mx x = n->in[0], y = first->in[0];
    if (x->dtype != y->dtype || x->size == 0 || y->size == 0 || dim(x, -1) != dim(y, -1) || dim(x, -2) != dim(y, -2) ||
        a->dims != b->dims || a->traditional != b->traditional || a->inverse != b->inverse || a->freqs != b->freqs ||
        memcmp(&a->base, &b->base, sizeof a->base) != 0 || memcmp(&a->scale, &b->scale, sizeof a->scale) != 0)
        return false;
    mx p = n->in[1], q = first->in[1];
    bool known =
        gpu_reads_host(n, 1) && gpu_reads_host(first, 1) && memcmp(array_host(p), array_host(q), sizeof(int64_t)) == 0;
    return (known || gpu_same_elements(p, q)) && (!a->freqs || gpu_same_elements(n->in[2], first->in[2]));
}
