/* group_norm.c: normalization of groups of channels over places.
 *
 * An item is a matrix of places by channels.  Its places are cut into pieces, by the shape alone; in one pass through a
 * piece the mean of each channel and its squares about that are found, a block of places at a time that stays in
 * the cache, and put together for groups.  In another, when small items are in a cache still, the piece is scaled by
 * what all pieces of the item have come to.  Half types are converted to float32 a tile at a time. */
#include <math.h>
#include <stdlib.h>

#include "core/scope.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cpu/kernels/norm.h"
#include "cpu/run.h"
#include "ops/group_norm.h"

enum {
    ROWS = 64, /* places that are summed in the type computed in */
    COLS = 512,
    TILE = 16 * COLS,
    PIECE = 1 << 15, /* elements */
    LARGE = 1 << 17, /* items of more are not in a cache any more */
};

/* Of n numbers: their mean, and the sum of squares about it. */
struct moments {
    double n, mean, squares;
};

struct group_job {
    const struct group_norm_args *a;
    enum dtype t, work;
    const char *x;
    char *y;
    const void *w, *b; /* of type `work`, or NULL */
    char *mean, *var;  /* of type `work` */
    size_t size;
    int64_t groups, items, places, channels, each, pieces; /* `each` places to a piece, so many pieces to an item */
    struct moments *part;                                  /* of each piece of each item: those of the groups */
};

static void put_together(struct moments *to, const struct moments *m)
{
    double n = to->n + m->n, d = m->mean - to->mean;
    to->mean += d * (m->n / n);
    to->squares += m->squares + d * d * (to->n * m->n / n);
    to->n = n;
}

static int64_t group_of(const struct group_job *j, int64_t channel)
{
    return j->a->neighbours ? channel / (j->channels / j->groups) : channel % j->groups;
}

/* The places of piece k, from `first` to *last. */
static int64_t places_of(const struct group_job *j, int64_t k, int64_t *last)
{
    int64_t first = k % j->pieces * j->each;
    *last = first + j->each < j->places ? first + j->each : j->places;
    return first;
}

/* So many places of some channels as float32, rows of m without gaps. */
static void widen(const struct group_job *j, float *tile, const char *x, int64_t rows, int64_t m)
{
    for (int64_t r = 0; r < rows; r++)
        cpu->cast[j->t][DT_float32](tile + r * m, x + r * j->channels * (int64_t)j->size, (size_t)m);
}

static void moments_of_piece(const struct group_job *j, int64_t k)
{
    struct moments *group = j->part + k * j->groups;
    const char *item = j->x + k / j->pieces * j->places * j->channels * (int64_t)j->size;
    int64_t last, first = places_of(j, k, &last);
    bool same = j->work == j->t;
    float tile[TILE];
    double mean[COLS], squares[COLS];
    for (int64_t g = 0; g < j->groups; g++) group[g] = (struct moments){ 0, 0, 0 };
    for (int64_t c = 0, m; c < j->channels; c += m) {
        m = j->channels - c < COLS ? j->channels - c : COLS;
        for (int64_t i = 0; i < m; i++) mean[i] = squares[i] = 0;
        int64_t most = same || TILE / m > ROWS ? ROWS : TILE / m;
        for (int64_t p = first, rows; p < last; p += rows) {
            const char *x = item + (p * j->channels + c) * (int64_t)j->size;
            rows = last - p < most ? last - p : most;
            if (!same)
                widen(j, tile, x, rows, m);
            cpu->norm->moments[j->work](mean, squares, same ? (const void *)x : tile, same ? j->channels : m,
                                        (size_t)rows, (size_t)m, p - first);
        }
        for (int64_t i = 0; i < m; i++)
            put_together(&group[group_of(j, c + i)], &(struct moments){ (double)(last - first), mean[i], squares[i] });
    }
}

/* The moments of the pieces of an item become, in the first of them, those of the item. */
static void finish_item(const struct group_job *j, int64_t item)
{
    struct moments *all = j->part + item * j->pieces * j->groups;
    for (int64_t g = 0; g < j->groups; g++) {
        for (int64_t p = 1; p < j->pieces; p++) put_together(&all[g], &all[p * j->groups + g]);
        double var = all[g].squares / all[g].n;
        int64_t at = (item * j->groups + g) * (int64_t)dtype_size(j->work);
        cpu->cast[DT_float64][j->work](j->mean + at, &all[g].mean, 1);
        cpu->cast[DT_float64][j->work](j->var + at, &var, 1);
    }
}

static double number(enum dtype t, const void *x, int64_t i)
{
    return t == DT_float64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void scale_piece(const struct group_job *j, int64_t k)
{
    const struct moments *group = j->part + k / j->pieces * j->pieces * j->groups;
    int64_t start = k / j->pieces * j->places * j->channels, last, first = places_of(j, k, &last);
    bool same = j->work == j->t;
    float tile[TILE];
    double of[3][COLS], by[3][COLS]; /* mean, scale and shift; in the type computed in */
    for (int64_t c = 0, m; c < j->channels; c += m) {
        m = j->channels - c < COLS ? j->channels - c : COLS;
        for (int64_t i = 0; i < m; i++) {
            const struct moments *g = &group[group_of(j, c + i)];
            of[0][i] = g->mean;
            of[1][i] = 1 / sqrt(g->squares / g->n + j->a->eps) * (j->w ? number(j->work, j->w, c + i) : 1);
            of[2][i] = j->b ? number(j->work, j->b, c + i) : 0;
        }
        for (int i = 0; i < 3; i++) cpu->cast[DT_float64][j->work](by[i], of[i], (size_t)m);
        int64_t most = same ? last - first : TILE / m;
        for (int64_t p = first, rows; p < last; p += rows) {
            int64_t at = (start + p * j->channels + c) * (int64_t)j->size;
            rows = last - p < most ? last - p : most;
            if (!same)
                widen(j, tile, j->x + at, rows, m);
            cpu->norm->channel_scale[j->work](same ? (void *)(j->y + at) : tile,
                                              same ? (const void *)(j->x + at) : tile, same ? j->channels : m,
                                              (size_t)rows, (size_t)m, by[0], by[1], by[2]);
            for (int64_t r = 0; r < rows && !same; r++)
                cpu->cast[DT_float32][j->t](j->y + at + r * j->channels * (int64_t)j->size, tile + r * m, (size_t)m);
        }
    }
}

static void find_moments(void *ctx, int64_t begin, int64_t end)
{
    for (int64_t k = begin; k < end; k++) moments_of_piece(ctx, k);
}

static void scale_pieces(void *ctx, int64_t begin, int64_t end)
{
    for (int64_t k = begin; k < end; k++) scale_piece(ctx, k);
}

static void whole_items(void *ctx, int64_t begin, int64_t end)
{
    const struct group_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        find_moments(ctx, i * j->pieces, (i + 1) * j->pieces);
        finish_item(j, i);
        scale_pieces(ctx, i * j->pieces, (i + 1) * j->pieces);
    }
}

static void normalize_groups(struct group_job *j)
{
    enum { ENOUGH = 4 }; /* items for all threads to have one */
    int64_t item = j->places * j->channels;
    if (j->pieces == 1 || (j->items >= ENOUGH && item <= LARGE)) {
        pool_for(j->items, PIECE / 2 / item + 1, whole_items, j);
        return;
    }
    pool_for(j->items * j->pieces, 1, find_moments, j);
    for (int64_t i = 0; i < j->items; i++) finish_item(j, i);
    pool_for(j->items * j->pieces, 1, scale_pieces, j);
}

/* The means of nothing. */
static void fill_with_nan(mx y)
{
    double nan = NAN;
    for (int64_t i = 0; i < y->size; i++)
        cpu->cast[DT_float64][y->dtype]((char *)host(y) + i * (int64_t)itemsize(y), &nan, 1);
}

int run_group_norm(const struct run *r)
{
    const struct group_norm_args *a = r->args;
    mx x = r->x[0];
    MX_SCOPE(NULL);
    mx_own hold[3] = { { NULL } };
    enum dtype work = dtype_is_half(x->dtype) ? DT_float32 : x->dtype;
    struct group_job j = { .a = a, .t = x->dtype, .work = work, .size = itemsize(x), .channels = dim(x, -1) };
    mx part[3] = { row_major(x, &hold[0]), NULL, NULL };
    bool failed = is_nil(part[0]);
    for (int i = 1; i < r->nin && !failed; i++) failed = is_nil(part[i] = row_major_as(r->x[i], work, &hold[i]));
    if (!failed && x->size) {
        j.groups = a->groups ? a->groups : j.channels;
        j.items = a->whole ? 1 : dim(x, 0);
        j.places = x->size / j.items / j.channels;
        j.each = ceil_div(ceil_div(PIECE, j.channels), ROWS) * ROWS;
        j.pieces = ceil_div(j.places, j.each);
        j.part = mx_malloc((size_t)(j.items * j.pieces * j.groups) * sizeof *j.part);
        failed = !j.part;
    }
    failed = failed || out_new(r, 1) || out_new(r, 2) || out_over(r, 0, 0);
    if (!failed && x->size) {
        j.x = host(part[0]);
        j.y = host(r->y[0]);
        j.w = a->weight ? host(part[1]) : NULL;
        j.b = a->bias ? host(part[1 + a->weight]) : NULL;
        j.mean = host(r->y[1]);
        j.var = host(r->y[2]);
        normalize_groups(&j);
    } else if (!failed) {
        fill_with_nan(r->y[1]);
        fill_with_nan(r->y[2]);
    }
    free(j.part);
    for (int i = 0; i < 3; i++) mx_drop(&hold[i]);
    return failed;
}
