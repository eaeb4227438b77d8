/* rope.c: rotary position embeddings on a GPU. */
#include "cuda/kernels/rope.h"

#include <math.h>
#include <string.h>

#include "core/shape.h"
#include "cuda/gpu.h"
#include "ops/fast.h"

/* The rows of x (all axes but the last two) as the kernel walks them; false: too many dimensions. */
static bool walk_rows(struct rope_call *c, mx x)
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
static bool whole_vectors(const struct rope_call *c, size_t item)
{
    uint64_t low = (uint64_t)c->x | (uint64_t)c->y | (uint64_t)c->width * item | (uint64_t)c->position * item;
    for (int d = 0; d < c->ndim; d++) low |= (uint64_t)c->stride[d] * item;
    return low % 16 == 0 && c->half % ROPE_PAIRS == 0;
}

/* By how much pairs turn from one position to the next.  The last are kept: a model asks for the same all the time. */
static void find_turns(struct rope_call *c, double base)
{
    static _Thread_local struct {
        double base, sign;
        int64_t half, first, pairs;
        double turns[ROPE_TURNS];
    } last;
    if (last.pairs != c->pairs || last.half != c->half || last.first != c->first ||
        memcmp(&last.base, &base, sizeof base) != 0 || memcmp(&last.sign, &c->sign, sizeof c->sign) != 0) {
        last.base = base;
        last.sign = c->sign;
        last.half = c->half;
        last.first = c->first;
        last.pairs = c->pairs;
        for (int64_t i = 0; i < c->pairs; i++)
            last.turns[i] = c->sign * pow(base, -(double)(c->first + i) / (double)c->half);
    }
    memcpy(c->turns, last.turns, (size_t)c->pairs * sizeof *c->turns);
}

/* Pairs `first` on, as many as a launch has. */
static int launch_rope(const struct run *r, void *kernel, struct rope_call *c, int64_t first)
{
    const struct rope_args *a = r->args;
    int64_t left = c->half - first, rest = c->width - 2 * c->half;
    c->first = first;
    c->pairs = left < ROPE_TURNS ? left : ROPE_TURNS;
    c->quads = (uint32_t)ceil_div(c->pairs, ROPE_PAIRS);
    c->units = c->quads + (uint32_t)(first ? 0 : ceil_div(rest, 2 * ROPE_PAIRS));
    if (!c->freqs)
        find_turns(c, a->base);
    c->together = c->groups == 1 && c->length * c->pairs <= ROPE_SHARED;
    c->n = c->groups * c->chunks * c->length * c->units;
    return gpu_launch(r->stream, "rope", kernel, ceil_div(c->n, ROPE_THREADS), ROPE_THREADS, (void *[]){ c });
}

/* A number of the host's, as the position of what is written is, goes with the launch. */
bool gpu_reads_host(const struct node *n, int k)
{
    return n->op->id == OP_rope && k == 1 && n->in[k]->size == 1 &&
           atomic_load_explicit(&n->in[k]->buf->state, memory_order_acquire) & ON_HOST;
}

int gpu_run_rope(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    const struct rope_args *a = r->args;
    struct gpu *g = gpu_of(r);
    mx x = r->x[0], offset = r->x[1], freqs = NULL, y = r->y[0];
    bool known = gpu_reads_host(r->node, 1);
    mx_own hold[3] = { 0 };
    void *kernel = gpu_find(g, &found[x->dtype], "rope", "rope", (enum dtype)x->dtype);
    if (!kernel || gpu_out_new(r, 0))
        return 1;
    if (x->size == 0)
        return 0;
    struct rope_call c = { .pairwise = a->traditional,
                           .half = a->dims / 2,
                           .width = dim(x, -1),
                           .length = (uint32_t)dim(x, -2),
                           .scale = a->scale,
                           .sign = a->inverse ? -1 : 1 };
    bool failed = !known && is_nil(offset = gpu_row_major(r, offset, &hold[1]));
    if (a->freqs && !failed)
        failed = is_nil(freqs = gpu_row_major(r, r->x[2], &hold[2]));
    if (!failed && (x->strides[x->ndim - 1] != 1 || !walk_rows(&c, x)))
        failed = is_nil(x = gpu_row_major(r, x, &hold[0])) || !walk_rows(&c, x);
    if (!failed) {
        c.x = gpu_pointer(r, x);
        c.y = gpu_pointer(r, y);
        if (known)
            memcpy(&c.only, array_host(offset), sizeof c.only);
        else
            c.offset = gpu_pointer(r, offset);
        c.freqs = freqs ? gpu_pointer(r, freqs) : NULL;
        c.groups = offset->size;
        c.rows = x->size / (c.length * c.width) / c.groups;
        c.whole = whole_vectors(&c, itemsize(x));
        /* Several rows share sines where there are threads enough. */
        int64_t threads = x->size / (2 * ROPE_PAIRS), enough = (int64_t)g->multiprocessors * 1024;
        c.each = threads / enough < 1 ? 1 : threads / enough < c.rows ? threads / enough : c.rows;
        c.chunks = (uint32_t)ceil_div(c.rows, c.each);
        for (int64_t first = 0; first < c.half && !failed; first += ROPE_TURNS)
            failed = launch_rope(r, kernel, &c, first);
    }
    gpu_drop(3, hold);
    return failed;
}
