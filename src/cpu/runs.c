/* runs.c: operands of any strides, handed to a kernel as runs of stride 0 or 1.
 *
 * The output is row-major, so its elements are numbered; threads take ranges of the numbers.  A
 * range is walked in pieces: a stretch of one row of the collapsed shape, or several whole rows
 * where rows are short.  An operand that is no run over its piece is gathered into a tile.
 *
 * An operand that walks another dimension in smaller steps than the last one (a transposed matrix)
 * would touch a cache line for each element.  Then that dimension and the last one span planes that
 * are done in blocks, and the operand's part of a block is transposed into a tile.
 *
 * Outputs of any size are written through the caches: writing large ones past them measured 5 %
 * faster at best (sums, 256-bit vectors), no faster for 512-bit ones, and 15 % slower for exp. */
#include "cpu/runs.h"

#include <stdlib.h>

#include "core/pool.h"
#include "core/shape.h"
#include "core/sizes.h"

enum {
    SHORT_ROW = 128, /* shorter rows are taken several at a time */
    SMALL = 128,     /* planes of fewer elements are not worth blocks */
    BLOCK = 64,      /* elements along the side of a block: full cache lines on both sides */
};

int run_stride(mx x)
{
    if (x->row)
        return 1;
    for (int i = 0; i < x->ndim; i++)
        if (x->strides[i] != 0 && x->shape[i] != 1)
            return -1;
    return 0;
}

static void move_run(void *y, int64_t sy, const void *x, int64_t sx, int64_t n, size_t size)
{
    cpu->move[__builtin_ctzl(size)](y, sy, x, sx, (size_t)n);
}

static int64_t bytes(const struct runs *r, int k, int axis) { return r->strides[k][axis] * (int64_t)r->x_size[k]; }

/* Is a run of stride s something the kernel takes? */
static bool is_run(const struct runs *r, int k, int64_t s) { return s == 1 || (s == 0 && r->repeats >> k & 1); }

/* Cuts room for `count` elements of each operand. */
static void room_for_tiles(const struct runs *r, char *space, int count, char *tile[])
{
    for (int k = 0; k < r->n; k++) {
        tile[k] = space;
        space += (size_t)count * r->x_size[k];
    }
}

/* ---- ranges */

/* Where a range has got to. */
struct progress {
    int64_t at[MX_MAX_NDIM];
    const char *x[RUN_OPERANDS];
};

static int64_t extent(const struct runs *r, int axis) { return axis == r->ndim - 1 ? r->row : r->shape[axis]; }

static void runs_go_to(const struct runs *r, struct progress *p, int64_t number)
{
    for (int k = 0; k < r->n; k++) p->x[k] = r->x[k];
    for (int i = r->ndim; i-- > 0;) {
        p->at[i] = number % extent(r, i);
        number /= extent(r, i);
        for (int k = 0; k < r->n; k++) p->x[k] += p->at[i] * bytes(r, k, i);
    }
}

/* On by `n` along axis i, which ends at the latest there; then to the next row. */
static void advance(const struct runs *r, struct progress *p, int i, int64_t n)
{
    for (;;) {
        for (int k = 0; k < r->n; k++) p->x[k] += n * bytes(r, k, i);
        p->at[i] += n;
        if (p->at[i] < extent(r, i) || i == 0)
            return;
        for (int k = 0; k < r->n; k++) p->x[k] -= extent(r, i) * bytes(r, k, i);
        p->at[i--] = 0;
        n = 1;
    }
}

/* Operand k over rows x cols elements from x on: itself if it is a run, else gathered. */
static const void *fetch(const struct runs *r, int k, const char *x, int64_t rows, int64_t cols, char *tile, int *s)
{
    int64_t across = r->strides[k][r->ndim - 1];
    int64_t down = rows > 1 ? r->strides[k][r->ndim - 2] : 0;
    bool even = rows == 1 || down == across * cols;
    size_t size = r->x_size[k];
    *s = even && is_run(r, k, across) ? (int)across : 1;
    if (even && is_run(r, k, across))
        return x;
    if (even)
        move_run(tile, 1, x, across, rows * cols, size);
    else if (cols > rows)
        for (int64_t i = 0; i < rows; i++)
            move_run(tile + (size_t)(i * cols) * size, 1, x + i * bytes(r, k, r->ndim - 2), across, cols, size);
    else if (down == 1)
        cpu->transpose[__builtin_ctzl(size)](tile, cols, x, across, (size_t)rows, (size_t)cols);
    else
        for (int64_t j = 0; j < cols; j++)
            move_run(tile + (size_t)j * size, cols, x + j * bytes(r, k, r->ndim - 1), down, rows, size);
    return tile;
}

static void run_range(void *ctx, int64_t begin, int64_t end)
{
    const struct runs *r = ctx;
    _Alignas(64) char space[TILE * RUN_BYTES];
    char *tiles[RUN_OPERANDS];
    int last = r->ndim - 1;
    struct progress p;
    int64_t repeated[RUN_OPERANDS] = { 0 }; /* elements of a tile that holds one short row over and over */
    room_for_tiles(r, space, TILE, tiles);
    runs_go_to(r, &p, begin);
    while (begin < end) {
        int64_t rows = 1, cols = least(least(r->row - p.at[last], end - begin), r->most);
        if (r->row < SHORT_ROW && cols == r->row && last > 0) {
            rows = least(r->shape[last - 1] - p.at[last - 1], (end - begin) / cols);
            rows = least(rows, least(TILE, r->most) / cols);
        }
        const void *x[RUN_OPERANDS];
        int s[RUN_OPERANDS];
        for (int k = 0; k < r->n; k++) {
            bool same = rows > 1 && r->ndim == 2 && r->strides[k][0] == 0;
            x[k] = tiles[k], s[k] = 1;
            if (!same || rows * cols > repeated[k]) {
                x[k] = fetch(r, k, p.x[k], rows, cols, tiles[k], &s[k]);
                repeated[k] = same && x[k] == tiles[k] ? rows * cols : 0;
            }
        }
        r->kernel(r, begin, x, s, rows * cols);
        begin += rows * cols;
        advance(r, &p, rows > 1 ? last - 1 : last, rows > 1 ? rows : cols);
    }
}

/* ---- blocks of the planes that the last two dimensions span */

struct block {
    int64_t y, rows, cols;
    const char *x[RUN_OPERANDS];
};

static struct block block_at(const struct runs *r, int64_t number)
{
    int last = r->ndim - 1, down = last - 1;
    int64_t at[MX_MAX_NDIM], across_n = ceil_div(r->row, r->block_cols);
    int64_t down_n = ceil_div(r->shape[down], r->block_rows);
    struct block b = { 0 };
    at[last] = number % across_n * r->block_cols;
    at[down] = number / across_n % down_n * r->block_rows;
    number /= across_n * down_n;
    for (int i = down; i-- > 0; number /= r->shape[i]) at[i] = number % r->shape[i];
    for (int k = 0; k < r->n; k++) b.x[k] = r->x[k];
    for (int i = 0; i < r->ndim; i++) {
        b.y += at[i] * r->y_strides[i];
        for (int k = 0; k < r->n; k++) b.x[k] += at[i] * bytes(r, k, i);
    }
    b.rows = least(r->shape[down] - at[down], r->block_rows);
    b.cols = least(r->row - at[last], r->block_cols);
    return b;
}

/* So many elements of what the next block will read or write, into the second cache: lines that are a power of two
 * apart throw each other out of the first.  Each row is too short a stretch for processors to foresee it.  Where each
 * is in a line of its own there are too many. */
static void prefetch(const char *x, int64_t step, int64_t n)
{
    enum { LINE = 64 };
    if (llabs(step) > LINE)
        return;
    x += step < 0 ? (n - 1) * step : 0;
    for (int64_t i = 0, bytes = n * llabs(step); i < bytes; i += LINE) __builtin_prefetch(x + i, 0, 2);
}

static bool leans(const struct runs *r, int k)
{
    int64_t across = r->strides[k][r->ndim - 1], down = r->strides[k][r->ndim - 2];
    return !is_run(r, k, across) && down != 0 && llabs(down) < llabs(across);
}

/* A block of operand k, transposed into rows of a tile. */
static void transpose(const struct runs *r, int k, char *tile, const struct block *b, const struct block *next)
{
    int64_t across = r->strides[k][r->ndim - 1], down = r->strides[k][r->ndim - 2];
    size_t size = r->x_size[k];
    for (int64_t j = 0; j < next->cols; j++)
        prefetch(next->x[k] + j * bytes(r, k, r->ndim - 1), bytes(r, k, r->ndim - 2), next->rows);
    if (down == 1)
        cpu->transpose[__builtin_ctzl(size)](tile, b->cols, b->x[k], across, (size_t)b->rows, (size_t)b->cols);
    else
        for (int64_t j = 0; j < b->cols; j++)
            move_run(tile + (size_t)j * size, b->cols, b->x[k] + j * bytes(r, k, r->ndim - 1), down, b->rows, size);
}

/* Rows that follow each other in the output are one run of it. */
static int64_t rows_at_once(const struct runs *r)
{
    bool joined = r->block_cols == r->row && r->y_strides[r->ndim - 2] == r->row;
    return joined ? greatest(least(r->most, TILE) / r->row, 1) : 1;
}

static void run_block(const struct runs *r, const struct block *b, const struct block *next)
{
    _Alignas(64) char space[BLOCK * BLOCK * RUN_BYTES];
    char *tiles[RUN_OPERANDS];
    int last = r->ndim - 1;
    int64_t step[RUN_OPERANDS]; /* from one row to the next */
    bool turned[RUN_OPERANDS];
    room_for_tiles(r, space, BLOCK * BLOCK, tiles);
    for (int k = 0; k < r->n; k++) {
        turned[k] = leans(r, k);
        step[k] = turned[k] ? b->cols * (int64_t)r->x_size[k] : bytes(r, k, last - 1);
        if (turned[k])
            transpose(r, k, tiles[k], b, next);
    }
    for (int64_t i = 0, n, at_once = rows_at_once(r); i < b->rows; i += n) {
        const void *x[RUN_OPERANDS];
        int s[RUN_OPERANDS];
        n = least(at_once, b->rows - i);
        for (int k = 0; k < r->n; k++) {
            s[k] = 1;
            x[k] = (turned[k] ? tiles[k] : b->x[k]) + i * step[k];
            if (!turned[k]) {
                for (int64_t m = i; m < i + n; m++) prefetch(next->x[k] + m * step[k], bytes(r, k, last), next->cols);
                x[k] = fetch(r, k, x[k], n, b->cols, tiles[k], &s[k]);
            }
        }
        int64_t y = i * r->y_strides[last - 1];
        if (r->y)
            prefetch((const char *)runs_y(r, next->y + y), (int64_t)r->y_size, n * next->cols);
        r->kernel(r, b->y + y, x, s, n * b->cols);
    }
}

static void run_blocks(void *ctx, int64_t begin, int64_t end)
{
    const struct runs *r = ctx;
    struct block b = block_at(r, begin);
    for (; begin < end; begin++) {
        struct block next = begin + 1 < end ? block_at(r, begin + 1) : b;
        run_block(r, &b, &next);
        b = next;
    }
}

/* The dimension that an operand walks in smaller steps than the last, if it steps far there. */
static int leaning(const struct runs *r)
{
    int last = r->ndim - 1, best = -1;
    for (int k = 0; k < r->n && best < 0; k++) {
        int64_t step = llabs(r->strides[k][last]);
        if (step * (int64_t)r->x_size[k] < 16)
            continue;
        for (int i = 0; i < last; i++)
            if (r->strides[k][i] != 0 && llabs(r->strides[k][i]) < step) {
                step = llabs(r->strides[k][i]);
                best = i;
            }
    }
    return best;
}

static void rotate(int64_t *v, int from, int to)
{
    int64_t moved = v[from];
    for (int i = from; i < to; i++) v[i] = v[i + 1];
    v[to] = moved;
}

/* Cuts the planes of dimension i and the last into blocks; returns how many there are. */
static int64_t into_blocks(struct runs *r, int i)
{
    int down = r->ndim - 2, extent = r->shape[i];
    row_strides(r->ndim, r->shape, r->y_strides);
    rotate(r->y_strides, i, down);
    for (int k = 0; k < r->n; k++) rotate(r->strides[k], i, down);
    for (; i < down; i++) r->shape[i] = r->shape[i + 1];
    r->shape[down] = extent;
    r->block_rows = (int)least(extent, r->row < BLOCK ? BLOCK * BLOCK / r->row / BLOCK * BLOCK : BLOCK);
    r->block_cols = (int)least(least(r->row, least(TILE, r->most)), BLOCK * BLOCK / r->block_rows);
    int64_t n = ceil_div(extent, r->block_rows) * ceil_div(r->row, r->block_cols);
    for (int k = 0; k < down; k++) n *= r->shape[k];
    return n;
}

/* ---- the plan */

static bool gathers(const struct runs *r)
{
    for (int k = 0; k < r->n; k++)
        if (!is_run(r, k, r->strides[k][r->ndim - 1]))
            return true;
    return false;
}

void runs_range(const struct runs *r, int64_t begin, int64_t end) { run_range((void *)r, begin, end); }

void runs_prepare(struct runs *r, int n, const mx x[], const void *const data[])
{
    int64_t *strides[RUN_OPERANDS], size = x[0]->size;
    bool flat = true;
    r->n = n;
    r->most = r->most ? r->most : INT64_MAX;
    for (int k = 0; k < n; k++) {
        r->x[k] = data[k];
        r->x_size[k] = itemsize(x[k]);
        r->strides[k][0] = run_stride(x[k]);
        flat &= r->strides[k][0] >= 0;
    }
    r->ndim = 1;
    r->row = size;
    if (!flat && size > 0) {
        for (int i = 0; i < x[0]->ndim; i++) r->shape[i] = x[0]->shape[i];
        for (int k = 0; k < n; k++) {
            strides[k] = r->strides[k];
            for (int i = 0; i < x[k]->ndim; i++) r->strides[k][i] = x[k]->strides[i];
        }
        r->ndim = collapse(x[0]->ndim, r->shape, n, strides);
        r->row = r->shape[r->ndim - 1];
    }
    if (gathers(r))
        r->most = least(r->most, TILE);
}

void runs_over(struct runs *r, void *y, size_t y_size, int n, const mx x[], const void *const data[])
{
    r->y = y;
    r->y_size = y_size;
    runs_prepare(r, n, x, data);
    int i = leaning(r);
    if (i < 0 || (int64_t)r->shape[i] * r->row < SMALL) {
        pool_for(x[0]->size, r->grain, run_range, r);
    } else {
        int64_t count = into_blocks(r, i), each = (int64_t)r->block_rows * r->block_cols;
        pool_for(count, ceil_div(r->grain, each), run_blocks, r);
    }
}
