/* sort.c: rows in order, on a GPU. */
#include "cuda/kernels/sort.h"
#include "cuda/gpu.h"

/* All steps of the network over rows of more than a tile. */
static int launch_long_sort(const struct run *r, struct sort_call *c, void *tiles, void *step)
{
    const char *op = r->node->op->name;
    void *args[] = { c };
    int64_t blocks = c->rows * (c->width / c->tile);
    struct buffer *room = buffer_new_on(r->stream, (size_t)(c->rows * c->width) * 12);
    if (!room)
        return 1;
    c->keys = buffer_on(room, r->stream);
    c->places = (uint32_t *)(c->keys + c->rows * c->width);
    c->begins = true;
    int failed = gpu_launch(r->stream, op, tiles, blocks, SORT_THREADS, args);
    c->begins = false;
    for (c->stage = 2 * c->tile; c->stage <= c->width && !failed; c->stage *= 2) {
        for (c->apart = c->stage / 2; c->apart >= c->tile && !failed; c->apart /= 2)
            failed =
                gpu_launch(r->stream, op, step, ceil_div(c->rows * c->width / 2, SORT_THREADS), SORT_THREADS, args);
        c->ends = c->stage == c->width;
        failed = failed || gpu_launch(r->stream, op, tiles, blocks, SORT_THREADS, args);
    }
    buffer_release(room);
    return failed;
}

static int launch_order(const struct run *r, bool ranks)
{
    static struct gpu_found found[2];
    struct gpu *g = gpu_of(r);
    mx x = r->x[0];
    mx_own hold = { 0 };
    void *tiles = gpu_find(g, &found[0], "sort", "sort_tiles", DT_COUNT);
    void *step = gpu_find(g, &found[1], "sort", "sort_step", DT_COUNT);
    if (!tiles || !step || gpu_out_new(r, 0))
        return 1;
    if (x->size == 0)
        return 0;
    if (is_nil(x = gpu_row_major(r, x, &hold)))
        return 1;
    struct sort_call c = { .y = gpu_pointer(r, r->y[0]), .x = gpu_pointer(r, x), .n = dim(x, -1), .width = 2 };
    c.rows = x->size / c.n;
    c.type = x->dtype;
    c.ranks = ranks;
    while (c.width < c.n) c.width *= 2;
    c.tile = c.width < SORT_TILE ? c.width : SORT_TILE;
    int failed;
    if (c.width == c.tile) {
        c.begins = c.ends = true;
        failed = gpu_launch(r->stream, r->node->op->name, tiles, c.rows,
                            (int)(c.tile / 2 < 32 ? 32 : gpu_power_of_two(c.tile / 2, SORT_THREADS)), (void *[]){ &c });
    } else {
        failed = launch_long_sort(r, &c, tiles, step);
    }
    mx_drop(&hold);
    return failed;
}

/* A whole order is a partition, too. */
int gpu_run_sort(const struct run *r) { return launch_order(r, false); }
int gpu_run_argsort(const struct run *r) { return launch_order(r, true); }
