/* copy.c: strided arrays made row-major.
 *
 * After collapsing, the last dimension is the one written along.  Where x walks another one in
 * smaller steps (a transposition), the two span a plane that is copied in square blocks, so that
 * the cache lines that a block touches on either side are all in cache. */
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "cpu/run.h"

enum {
    GRAIN_BYTES = 1 << 17, /* worth a thread of their own */
    BLOCK = 64,            /* elements along a side */
};

struct copy {
    char *y;
    const char *x;
    size_t size;
    move_fn *move;
    int ndim;
    int shape[MX_MAX_NDIM];
    int64_t from[MX_MAX_NDIM], to[MX_MAX_NDIM]; /* strides of x and y, in elements */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* rows x cols elements of a plane, in the order with the longer inner loop. */
static void plane(const struct copy *c, char *y, int64_t ydown, int64_t yacross, const char *x,
                  int64_t xdown, int64_t xacross, int64_t rows, int64_t cols)
{
    int64_t size = (int64_t)c->size;
    if (cols < rows) {
        plane(c, y, yacross, ydown, x, xacross, xdown, cols, rows);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        c->move(y + i * ydown * size, yacross, x + i * xdown * size, xacross, (size_t)cols);
}

/* Elements begin..end in the order of y: whole rows, of which short ones are taken together. */
static void copy_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct copy *c = ctx;
    int last = c->ndim - 1, above = last > 0 ? last - 1 : 0;
    int64_t size = (int64_t)c->size, at[MX_MAX_NDIM];
    while (begin < end) {
        int64_t rest = begin;
        const char *x = c->x;
        for (int i = last; i >= 0; i--) {
            at[i] = rest % c->shape[i];
            rest /= c->shape[i];
            x += at[i] * c->from[i] * size;
        }
        char *y = c->y + begin * size;
        int64_t cols = least(c->shape[last] - at[last], end - begin), rows = 1;
        if (last > 0 && cols == c->shape[last])
            rows = least(c->shape[above] - at[above], (end - begin) / cols);
        plane(c, y, cols, 1, x, c->from[above], c->from[last], rows, cols);
        begin += rows * cols;
    }
}

/* Blocks begin..end of the planes spanned by the last two dimensions, x's small steps being along
 * the last but one. */
static void copy_blocks(void *ctx, int64_t begin, int64_t end)
{
    const struct copy *c = ctx;
    int across = c->ndim - 1, down = c->ndim - 2;
    int64_t size = (int64_t)c->size;
    int64_t n_across = (c->shape[across] + BLOCK - 1) / BLOCK,
            n_down = (c->shape[down] + BLOCK - 1) / BLOCK;
    for (; begin < end; begin++) {
        int64_t j = begin % n_across * BLOCK, i = begin / n_across % n_down * BLOCK;
        int64_t rest = begin / n_across / n_down;
        int64_t x = i * c->from[down] + j * c->from[across], y = i * c->to[down] + j;
        for (int k = down; k-- > 0;) {
            x += rest % c->shape[k] * c->from[k];
            y += rest % c->shape[k] * c->to[k];
            rest /= c->shape[k];
        }
        plane(c, c->y + y * size, c->to[down], 1, c->x + x * size, c->from[down], c->from[across],
              least(c->shape[down] - i, BLOCK), least(c->shape[across] - j, BLOCK));
    }
}

/* The dimension that x walks in smaller steps than the last one, if that pays; else -1. */
static int closest(const struct copy *c)
{
    int last = c->ndim - 1, best = -1;
    int64_t step = llabs(c->from[last]);
    if (step * (int64_t)c->size < 16)
        return -1;
    for (int i = 0; i < last; i++)
        if (c->from[i] != 0 && llabs(c->from[i]) < step && c->shape[i] > 1) {
            step = llabs(c->from[i]);
            best = i;
        }
    return best;
}

static void to_last_but_one(struct copy *c, int i)
{
    int shape = c->shape[i];
    int64_t from = c->from[i], to = c->to[i];
    for (; i < c->ndim - 2; i++) {
        c->shape[i] = c->shape[i + 1];
        c->from[i] = c->from[i + 1];
        c->to[i] = c->to[i + 1];
    }
    c->shape[i] = shape;
    c->from[i] = from;
    c->to[i] = to;
}

struct bytes {
    char *y;
    const char *x;
};

static void copy_bytes(void *ctx, int64_t begin, int64_t end)
{
    const struct bytes *b = ctx;
    memcpy(b->y + begin, b->x + begin, (size_t)(end - begin));
}

int copy_to_row_major(void *y, mx x)
{
    if (x->size == 0)
        return 0;
    if (x->row) {
        struct bytes b = { y, host(x) };
        pool_for(nbytes(x), GRAIN_BYTES, copy_bytes, &b);
        return 0;
    }
    struct copy c = {
        .y = y, .x = host(x), .size = itemsize(x), .move = cpu->move[__builtin_ctzl(itemsize(x))]
    };
    int64_t *from = c.from;
    memcpy(c.shape, x->shape, (size_t)x->ndim * sizeof *c.shape);
    memcpy(c.from, x->strides, (size_t)x->ndim * sizeof *c.from);
    c.ndim = collapse(x->ndim, c.shape, 1, &from);
    row_strides(c.ndim, c.shape, c.to);
    int64_t grain = GRAIN_BYTES / (int64_t)c.size;
    int i = closest(&c);
    if (i < 0) {
        pool_for(x->size, grain, copy_rows, &c);
        return 0;
    }
    to_last_but_one(&c, i);
    int64_t blocks = 1;
    for (int k = 0; k < c.ndim; k++)
        blocks *= k < c.ndim - 2 ? c.shape[k] : (c.shape[k] + BLOCK - 1) / BLOCK;
    int64_t block_size = least(c.shape[c.ndim - 2], BLOCK) * least(c.shape[c.ndim - 1], BLOCK);
    pool_for(blocks, (grain + block_size - 1) / block_size, copy_blocks, &c);
    return 0;
}

mx row_major(mx x, mx_own *hold)
{
    if (x->row)
        return x;
    struct buffer *b = buffer_new((size_t)nbytes(x));
    if (!b)
        return MX_NIL;
    MX_SCOPE(NULL);
    mx_keep(hold, array_of_buffer(x->dtype, x->ndim, x->shape, b));
    if (!is_nil(hold->it))
        copy_to_row_major(host(hold->it), x);
    return hold->it;
}

/* ---- operations that come to a copy */

/* Views whose operand's strides did not allow one: the same elements in the same order. */
static int copied(const struct run *r)
{
    return out_new(r, 0) || copy_to_row_major(host(r->y[0]), r->x[0]);
}

int run_stop_gradient(const struct run *r) { return copied(r); }
int run_copy(const struct run *r) { return copied(r); }
int run_full(const struct run *r) { return copied(r); }
int run_broadcast(const struct run *r) { return copied(r); }
int run_reshape(const struct run *r) { return copied(r); }
int run_transpose(const struct run *r) { return copied(r); }
int run_expand_dims(const struct run *r) { return copied(r); }
int run_squeeze(const struct run *r) { return copied(r); }
int run_view(const struct run *r) { return copied(r); }
int run_contiguous(const struct run *r) { return copied(r); }
