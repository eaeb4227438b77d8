/* move.c: elements moved as they are: copies of every layout, parts put together, selection. */
#include "cuda/kernels/move.h"
#include "core/scope.h"
#include "core/shape.h"
#include "cuda/gpu.h"
#include "ops/create.h"
#include "ops/slice.h"
#include "plan/layout.h"

static const char *name_of(const struct run *r) { return r->node->op->name; }

/* ---- boxes */

static bool is_row(const struct box *b, const int64_t *strides)
{
    int64_t s = 1;
    for (int i = b->ndim; i-- > 0; s *= b->shape[i])
        if (strides[i] != s)
            return false;
    return true;
}

static bool is_one(const struct box *b)
{
    for (int i = 0; i < b->ndim; i++)
        if (b->from[i])
            return false;
    return true;
}

static int fill_box(const struct run *r, const struct box *b, uint64_t to, uint64_t from)
{
    static struct gpu_found found[5];
    void *f = gpu_find_sized(gpu_of(r), found, "move", "fill", b->item);
    struct fill_args a = { (void *)to, (const void *)from, box_size(b) };
    void *args[] = { &a };
    return !f || gpu_launch(r->stream, name_of(r), f, ceil_div(a.n, MOVE_THREADS * (16 / (int64_t)b->item)),
                            MOVE_THREADS, args);
}

/* The dimension along which `from` steps by 1 while `to` steps along the last one: both long enough for squares.
 * -1: there is none. */
static int turned_axis(const struct box *b)
{
    int last = b->ndim - 1;
    if (last < 1 || b->item > 8 || b->to[last] != 1 || b->from[last] == 1 || b->from[last] == 0 ||
        b->shape[last] < TURN_SIDE / 2)
        return -1;
    for (int i = 0; i < last; i++)
        if (b->from[i] == 1 && b->shape[i] >= TURN_SIDE / 2)
            return i;
    return -1;
}

static void box_add_axis(struct move_walk *w, const struct box *b, int i)
{
    w->shape[w->ndim] = (uint32_t)b->shape[i];
    w->stride[0][w->ndim] = b->to[i];
    w->stride[1][w->ndim++] = b->from[i];
}

/* Do all rows begin at a multiple of a piece, on both sides, and end with one? */
static bool is_in_pieces(const struct box *b, uint64_t addresses, int row)
{
    int64_t piece = TURN_PIECE(b->item), last = b->ndim - 1;
    bool whole =
        addresses % ((uint64_t)piece * b->item) == 0 && b->shape[row] % piece == 0 && b->shape[last] % piece == 0;
    for (int i = 0; i < b->ndim && whole; i++)
        whole = (i == row || b->from[i] % piece == 0) && (i == last || b->to[i] % piece == 0);
    return whole;
}

static int turn_box(const struct run *r, const struct box *b, uint64_t to, uint64_t from, int row)
{
    static struct gpu_found found[2][5];
    bool pieces = is_in_pieces(b, to | from, row);
    void *f = gpu_find_sized(gpu_of(r), found[pieces], "move", pieces ? "turn_pieces" : "turn", b->item);
    int last = b->ndim - 1, piece = TURN_PIECE(b->item);
    struct turn_args a = { .to = (void *)to,
                           .from = (const void *)from,
                           .rows = b->shape[row],
                           .columns = b->shape[last],
                           .to_row = b->to[row],
                           .from_column = b->from[last] };
    a.tall = (uint32_t)ceil_div(a.rows, pieces ? TURN_TALL * piece : TURN_SIDE);
    a.wide = (uint32_t)ceil_div(a.columns, pieces ? TURN_WIDE * piece : TURN_SIDE);
    int64_t blocks = (int64_t)a.tall * a.wide;
    for (int i = 0; i < last; i++)
        if (i != row) {
            box_add_axis(&a.w, b, i);
            blocks *= b->shape[i];
        }
    void *args[] = { &a };
    return !f ||
           gpu_launch(r->stream, name_of(r), f, blocks, pieces ? TURN_TALL * TURN_WIDE : TURN_SIDE * TURN_ROWS, args);
}

/* A copy by itself, or one of two that are one launch. */
struct copied {
    struct box box;
    uint64_t to, from;
};

static int copy_boxes(const struct run *r, int n, const struct copied *of)
{
    static struct gpu_found found[5];
    void *f = gpu_find_sized(gpu_of(r), found, "move", "copy", of->box.item);
    struct move_args a = { .boxes = n };
    int64_t blocks = 0;
    for (int k = 0; k < n; k++) {
        const struct box *b = &of[k].box;
        a.of[k] = (struct move_box){ (void *)of[k].to, (const void *)of[k].from, box_size(b), blocks, { 0 } };
        for (int i = 0; i < b->ndim; i++) box_add_axis(&a.of[k].w, b, i);
        blocks += ceil_div(a.of[k].n, MOVE_THREADS * MOVE_EACH);
    }
    void *args[] = { &a };
    return !f || gpu_launch(r->stream, name_of(r), f, blocks, MOVE_THREADS, args);
}

/* One box for each place along the outermost dimension, while there are more than kernels know. */
static int copy_parts(const struct run *r, const struct box *b, uint64_t to, uint64_t from)
{
    struct box part = { .item = b->item, .ndim = b->ndim - 1 };
    int failed = 0;
    for (int i = 1; i < b->ndim; i++) {
        part.shape[i - 1] = b->shape[i];
        part.to[i - 1] = b->to[i];
        part.from[i - 1] = b->from[i];
    }
    for (int i = 0; i < b->shape[0] && !failed; i++)
        failed = gpu_copy_box(r, &part, to + (uint64_t)(i * b->to[0]) * b->item,
                              from + (uint64_t)(i * b->from[0]) * b->item);
    return failed;
}

/* How it is copied: element by element, if nothing else is faster. */
enum box_way { BOX_NONE, BOX_ROW, BOX_FILLED, BOX_IN_PARTS, BOX_TURNED, BOX_PLAIN };
static enum box_way box_way(const struct box *b, uint64_t to)
{
    return box_size(b) == 0                                ? BOX_NONE
           : is_row(b, b->to) && is_row(b, b->from)        ? BOX_ROW
           : is_row(b, b->to) && is_one(b) && to % 16 == 0 ? BOX_FILLED
           : b->ndim > MOVE_DIMS                           ? BOX_IN_PARTS
           : turned_axis(b) >= 0                           ? BOX_TURNED
                                                           : BOX_PLAIN;
}

static struct copied in_widest_units(const struct box *b, uint64_t to, uint64_t from)
{
    struct copied c = { *b, to, from };
    box_widen(&c.box, to | from, 0, NULL);
    return c;
}

int gpu_copy_box(const struct run *r, const struct box *b, uint64_t to, uint64_t from)
{
    struct copied c;
    switch (box_way(b, to)) {
    case BOX_NONE: return 0;
    case BOX_ROW:
        return gpu_check(gpu_of(r), name_of(r),
                         cu.copy_on_device(to, from, (size_t)box_size(b) * b->item, gpu_direct(gpu_stream(r->stream))));
    case BOX_FILLED: return fill_box(r, b, to, from);
    case BOX_IN_PARTS: return copy_parts(r, b, to, from);
    case BOX_TURNED: return turn_box(r, b, to, from, turned_axis(b));
    default: c = in_widest_units(b, to, from); return copy_boxes(r, 1, &c);
    }
}

int gpu_copy_to(const struct run *r, uint64_t to, mx x)
{
    int64_t strides[MX_MAX_NDIM];
    row_strides(x->ndim, x->shape, strides);
    struct box b = box_of(itemsize(x), x->ndim, x->shape, strides, x->strides);
    return gpu_copy_box(r, &b, to, gpu_address(r, x));
}

mx gpu_row_major(const struct run *r, mx x, mx_own *hold)
{
    if (x->row)
        return x;
    struct buffer *b = buffer_new_on(r->stream, (size_t)nbytes(x));
    if (!b)
        return MX_NIL;
    MX_SCOPE(NULL);
    mx_keep(hold, array_of_buffer((enum dtype)x->dtype, x->ndim, x->shape, b));
    if (is_nil(hold->it) || gpu_copy_to(r, gpu_address(r, hold->it), x))
        return MX_NIL;
    return hold->it;
}

bool gpu_all_row_major(const struct run *r, int n, mx x[], mx_own hold[])
{
    for (int i = 0; i < n; i++)
        if (is_nil(x[i] = gpu_row_major(r, x[i], &hold[i])))
            return false;
    return true;
}

bool gpu_out_at(const struct run *r, int k, mx x)
{
    if (!buffer_claim_on(x->buf, r->stream))
        return false;
    buffer_retain(x->buf);
    result_in(r->y[k], x->buf);
    return true;
}

bool gpu_reads_last(const struct run *r, int i)
{
    gpu_claim_from_held(gpu_stream(r->stream), r->x[i]->buf);
    return operand_is_last(r->node, r->keep, r->x[i]) && buffer_claim_on(r->x[i]->buf, r->stream);
}

bool gpu_out_in(const struct run *r, int k, int i)
{
    mx x = r->x[i];
    gpu_claim_from_held(gpu_stream(r->stream), x->buf);
    return result_fits_operand(r->node, r->keep, r->y[k], x) && gpu_out_at(r, k, x);
}

int gpu_out_over(const struct run *r, int k)
{
    for (int i = 0; i < r->nin; i++)
        if (gpu_out_in(r, k, i))
            return 0;
    return gpu_out_new(r, k);
}

int gpu_out_from(const struct run *r, int k, int i)
{
    bool again = false; /* what is read from must not change under the hand */
    for (int j = 0; j < r->nin; j++) again |= j != i && r->x[j] == r->x[i];
    if (!again && gpu_out_in(r, k, i))
        return 0;
    return gpu_out_new(r, k) || gpu_copy_to(r, gpu_address(r, r->y[k]), r->x[i]);
}

/* ---- operations that come to a copy */

/* Views whose operand's strides did not allow one are copied, too. */
int gpu_run_copy(const struct run *r) { return gpu_out_new(r, 0) || gpu_copy_to(r, gpu_address(r, r->y[0]), r->x[0]); }

/* Is the copy what the products that are held may do, whose results are what is copied?  They have been told then. */
static bool put_by_products(const struct run *r, const struct copied *c, mx x)
{
    const struct box *b = &c->box;
    if (x->size == 0 || x->size > INT32_MAX || b->ndim < 1 || b->ndim > 2 || b->to[b->ndim - 1] != 1 ||
        b->from[b->ndim - 1] != 1 || (b->ndim == 2 && b->from[0] != b->shape[1]))
        return false;
    struct gpu_heads t = { .x = (const void *)c->from,
                           .size = x->size,
                           .type = (enum dtype)x->dtype,
                           .width = b->shape[b->ndim - 1],
                           .y = (void *)c->to,
                           .step = b->to[0],
                           .into = buffer_on(r->y[0]->buf, r->stream),
                           .into_bytes = r->y[0]->buf->bytes };
    struct gpu_stream *q = gpu_stream(r->stream);
    return gpu_vectors_may(q, &t) && gpu_reads_last(r, 1) && gpu_vectors_take(q, &t);
}

/* x into the place of y that begins `offset` elements behind its first and has these strides. */
static struct copied putting(const struct run *r, mx y, int64_t offset, const int64_t *strides, mx x)
{
    return (struct copied){ box_of(itemsize(x), x->ndim, x->shape, strides, x->strides),
                            gpu_address(r, y) + (uint64_t)offset * itemsize(y), gpu_address(r, x) };
}
static int gpu_put(const struct run *r, mx y, int64_t offset, const int64_t *strides, mx x)
{
    struct copied c = putting(r, y, offset, strides, x);
    return gpu_copy_box(r, &c.box, c.to, c.from);
}

int gpu_run_concatenate(const struct run *r)
{
    const struct axis_args *a = r->args;
    mx y = r->y[0];
    int64_t at = 0;
    int failed = gpu_out_new(r, 0);
    for (int k = 0; k < r->nin && !failed; k++) {
        failed = gpu_put(r, y, at * y->strides[a->axis], y->strides, r->x[k]);
        at += r->x[k]->shape[a->axis];
    }
    return failed;
}

/* All of y becomes the value, then x is put where it belongs. */
int gpu_run_pad(const struct run *r)
{
    const struct pad_args *a = r->args;
    mx y = r->y[0];
    int64_t none[MX_MAX_NDIM] = { 0 }, offset = 0;
    if (gpu_out_new(r, 0))
        return 1;
    struct box b = box_of(itemsize(y), y->ndim, y->shape, y->strides, none);
    for (int i = 0; i < y->ndim; i++) offset += a->low.v[i] * y->strides[i];
    return gpu_copy_box(r, &b, gpu_address(r, y), gpu_address(r, r->x[1])) ||
           gpu_put(r, y, offset, y->strides, r->x[0]);
}

/* Those that do more than set elements are for so many dimensions (lookup.c). */
bool gpu_takes_slice_update(const struct node *n)
{
    return ((const struct slice_update_args *)n->args)->fold == SCATTER_SET || gpu_takes_lookup(n);
}

/* The part of y that is updated: where it begins, behind y's first, and its strides. */
static int64_t updated_part(const struct run *r, int64_t strides[MX_MAX_NDIM])
{
    const struct slice_update_args *a = r->args;
    mx y = r->y[0];
    int64_t offset = 0;
    for (int i = 0; i < y->ndim; i++) {
        struct range s = range_of(y->shape[i], a->start.v[i], a->stop.v[i], a->step.v[i]);
        offset += s.first * y->strides[i];
        strides[i] = s.step * y->strides[i];
    }
    return offset;
}

/* Copies that are to be one launch. */
struct copies {
    int n;
    struct copied of[MOVE_BOXES];
};

static int launch_copies(const struct run *r, struct copies *all)
{
    int failed = all->n && copy_boxes(r, all->n, all->of);
    all->n = 0;
    return failed;
}

/* Sets the part of y that is updated, or has the copy that does so among those that are to be launched. */
static int set_part(const struct run *r, struct copies *all)
{
    int64_t strides[MX_MAX_NDIM], offset;
    if (gpu_out_from(r, 0, 0))
        return 1;
    offset = updated_part(r, strides);
    struct copied c = putting(r, r->y[0], offset, strides, r->x[1]);
    if (put_by_products(r, &c, r->x[1]))
        return 0;
    if (box_way(&c.box, c.to) != BOX_PLAIN)
        return gpu_copy_box(r, &c.box, c.to, c.from);
    c = in_widest_units(&c.box, c.to, c.from);
    bool ends = all->n == MOVE_BOXES || (all->n && all->of->box.item != c.box.item);
    if (ends && launch_copies(r, all))
        return 1;
    all->of[all->n++] = c;
    return 0;
}

static int fold_part(const struct run *r)
{
    const struct slice_update_args *a = r->args;
    int64_t strides[MX_MAX_NDIM], offset;
    if (gpu_out_from(r, 0, 0))
        return 1;
    offset = updated_part(r, strides);
    return gpu_fold_box(r, a->fold, r->y[0], offset, strides, r->x[1]);
}

int gpu_run_slice_update(const struct run *r)
{
    const struct slice_update_args *a = r->args;
    struct copies one;
    if (a->fold != SCATTER_SET)
        return fold_part(r);
    one.n = 0;
    return set_part(r, &one) || launch_copies(r, &one);
}

/* Keys and values of a word go where those before are: two that set elements, of arrays that are not one. */
bool gpu_updates_are_alike(const struct node *n, const struct node *first)
{
    const struct slice_update_args *a = n->args, *b = first->args;
    return a->fold == SCATTER_SET && b->fold == SCATTER_SET && (n == first || n->in[0]->buf != first->in[0]->buf);
}

int gpu_run_updates(struct stream *s, int n, struct entry *const m[])
{
    struct copies all;
    struct run r = run_of(s, m[0]);
    int failed = 0;
    all.n = 0;
    for (int i = 0; i < n && !failed; i++) {
        r = run_of(s, m[i]);
        failed = set_part(&r, &all);
    }
    return failed || launch_copies(&r, &all);
}

/* Of an operand that is not row-major; the others are views. */
int gpu_run_as_strided(const struct run *r)
{
    mx y = r->y[0], x;
    mx_own hold = { 0 };
    if (is_nil(x = gpu_row_major(r, r->x[0], &hold)))
        return 1;
    struct call c = { .op = r->node->op, .args = r->args, .nin = 1, .nout = 1, .x = &x };
    int64_t strides[MX_MAX_NDIM];
    c.op->view(&c, y);
    int64_t offset = y->offset - x->offset;
    for (int i = 0; i < y->ndim; i++) strides[i] = y->strides[i];
    int failed = gpu_out_new(r, 0);
    if (!failed) {
        struct box b = box_of(itemsize(y), y->ndim, y->shape, y->strides, strides);
        failed = gpu_copy_box(r, &b, gpu_address(r, y), gpu_address(r, x) + (uint64_t)offset * itemsize(x));
    }
    mx_drop(&hold);
    return failed;
}

/* ---- selection */

int gpu_run_where(const struct run *r)
{
    static struct gpu_found found[5];
    mx y = r->y[0];
    mx_own hold[3] = { 0 };
    mx x[3] = { r->x[0], r->x[1], r->x[2] };
    struct select_args a;
    void *f = gpu_find_sized(gpu_of(r), found, "move", "select", itemsize(y));
    int failed = !f || gpu_out_new(r, 0);
    if (!failed && !layout_walk(&a.w, y, 3, x)) {
        failed = !gpu_all_row_major(r, 3, x, hold);
        layout_walk(&a.w, y, 3, x);
    }
    if (!failed) {
        a.y = gpu_pointer(r, y);
        a.c = gpu_pointer(r, x[0]);
        a.p = gpu_pointer(r, x[1]);
        a.q = gpu_pointer(r, x[2]);
        void *args[] = { &a };
        failed = gpu_launch(r->stream, name_of(r), f, ceil_div(a.w.n, MOVE_THREADS * MOVE_EACH), MOVE_THREADS, args);
    }
    gpu_drop(3, hold);
    return failed;
}
