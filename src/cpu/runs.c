/* runs.c: operands of any strides, handed to a kernel as runs of stride 0 or 1.
 *
 * The output is row-major, so its elements are numbered; threads take ranges of the numbers.  A
 * range is walked in pieces: a stretch of one row of the collapsed shape, or several whole rows
 * where rows are short.  An operand that is no run over its piece is gathered into a tile. */
#include "cpu/runs.h"

#include "core/shape.h"
#include "cpu/pool.h"

enum {
    GRAIN = 16384,   /* elements worth a thread of their own: some microseconds of work */
    SHORT_ROW = 128, /* shorter rows are taken several at a time */
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

/* Where a range has got to. */
struct place {
    int64_t at[MX_MAX_NDIM];
    const char *x[RUN_OPERANDS];
};

static void go_to(const struct runs *r, struct place *p, int64_t number)
{
    for (int k = 0; k < r->n; k++) p->x[k] = r->x[k];
    for (int i = r->ndim; i-- > 0;) {
        int64_t size = i == r->ndim - 1 ? r->row : r->shape[i];
        p->at[i] = number % size;
        number /= size;
        for (int k = 0; k < r->n; k++)
            p->x[k] += p->at[i] * r->strides[k][i] * (int64_t)r->x_size[k];
    }
}

/* On by `n` along axis i, which ends at the latest there; then to the next row. */
static void advance(const struct runs *r, struct place *p, int i, int64_t n)
{
    for (;;) {
        for (int k = 0; k < r->n; k++) p->x[k] += n * r->strides[k][i] * (int64_t)r->x_size[k];
        p->at[i] += n;
        int64_t size = i == r->ndim - 1 ? r->row : r->shape[i];
        if (p->at[i] < size || i == 0)
            return;
        for (int k = 0; k < r->n; k++) p->x[k] -= size * r->strides[k][i] * (int64_t)r->x_size[k];
        p->at[i--] = 0;
        n = 1;
    }
}

static void move(void *y, int64_t sy, const void *x, int64_t sx, int64_t n, size_t size)
{
    cpu->move[__builtin_ctzl(size)](y, sy, x, sx, (size_t)n);
}

/* Operand k over rows x cols elements from x on: itself if it is a run, else gathered. */
static const void *fetch(const struct runs *r, int k, const char *x, int64_t rows, int64_t cols,
                         char *tile, int *s)
{
    int64_t across = r->strides[k][r->ndim - 1];
    int64_t down = rows > 1 ? r->strides[k][r->ndim - 2] : 0;
    bool even = rows == 1 || down == across * cols;
    size_t size = r->x_size[k];
    *s = 1;
    if (even && (across == 1 || (across == 0 && r->repeats))) {
        *s = (int)across;
        return x;
    }
    if (even)
        move(tile, 1, x, across, rows * cols, size);
    else if (cols > rows)
        for (int64_t i = 0; i < rows; i++)
            move(tile + (size_t)(i * cols) * size, 1, x + i * down * (int64_t)size, across, cols,
                 size);
    else
        for (int64_t j = 0; j < cols; j++)
            move(tile + (size_t)j * size, cols, x + j * across * (int64_t)size, down, rows, size);
    return tile;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void range(void *ctx, int64_t begin, int64_t end)
{
    const struct runs *r = ctx;
    _Alignas(64) char tiles[RUN_OPERANDS][TILE * 8];
    int last = r->ndim - 1;
    struct place p;
    go_to(r, &p, begin);
    while (begin < end) {
        int64_t rows = 1, cols = least(least(r->row - p.at[last], end - begin), r->most);
        if (r->row < SHORT_ROW && cols == r->row && last > 0) {
            rows = least(r->shape[last - 1] - p.at[last - 1], (end - begin) / cols);
            rows = least(rows, TILE / cols);
        }
        const void *x[RUN_OPERANDS];
        int s[RUN_OPERANDS];
        for (int k = 0; k < r->n; k++) x[k] = fetch(r, k, p.x[k], rows, cols, tiles[k], &s[k]);
        r->kernel(r, r->y + (size_t)begin * r->y_size, x, s, rows * cols);
        begin += rows * cols;
        if (rows > 1)
            advance(r, &p, last - 1, rows);
        else
            advance(r, &p, last, cols);
    }
}

/* Pieces that must be gathered are of a tile's size. */
static bool gathers(const struct runs *r)
{
    for (int k = 0; k < r->n; k++) {
        int64_t s = r->strides[k][r->ndim - 1];
        if (s != 1 && !(s == 0 && r->repeats))
            return true;
    }
    return false;
}

void runs_over(struct runs *r, mx y, int n, const mx x[], const void *const data[])
{
    int64_t *strides[RUN_OPERANDS];
    bool flat = true;
    r->n = n;
    r->y = array_host(y);
    r->y_size = itemsize(y);
    for (int k = 0; k < n; k++) {
        int s = run_stride(x[k]);
        r->x[k] = data[k];
        r->x_size[k] = itemsize(x[k]);
        r->strides[k][0] = s;
        flat &= s >= 0;
    }
    if (flat) {
        r->ndim = 1;
        r->row = y->size;
    } else {
        for (int k = 0; k < n; k++) {
            strides[k] = r->strides[k];
            for (int i = 0; i < y->ndim; i++) r->strides[k][i] = x[k]->strides[i];
        }
        for (int i = 0; i < y->ndim; i++) r->shape[i] = y->shape[i];
        r->ndim = collapse(y->ndim, r->shape, n, strides);
        r->row = r->shape[r->ndim - 1];
    }
    if (!r->most)
        r->most = INT64_MAX;
    if (gathers(r))
        r->most = least(r->most, TILE);
    pool_for(y->size, GRAIN, range, r);
}
