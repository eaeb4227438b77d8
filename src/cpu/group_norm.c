/* group_norm.c: normalization of groups of channels over places.
 *
 * An item is a matrix of places by channels.  Its places are cut into pieces, by the shape alone; in one pass through a
 * piece the mean of each channel and its squares about that are found, a block of places at a time that stays in
 * the cache, and put together for groups.  In another, when small items are in a cache still, the piece is scaled by
 * what all pieces of the item have come to.  Half types are converted to float32 a tile at a time.
 *
 * What goes back takes two passes likewise: one for the sums of each channel, of which those of groups and what goes to
 * weights and biases are made, another for what goes to x. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Of each group of a piece: how many numbers were seen, their mean, and the sum of squares about it; of the first piece
 * of an item, when all have been seen, what they are multiplied by. */
enum moment { SEEN, MEAN, SQUARES, SCALE, MOMENTS };

struct group_job {
    const struct group_norm_args *a;
    enum dtype t, work;
    const char *x;
    char *y;
    const void *w, *b; /* of type `work`, or NULL */
    char *mean, *var;  /* of type `work` */
    size_t size;
    bool side_by_side;                                     /* are the channels of a group */
    int64_t of_group;                                      /* so many channels are */
    int64_t groups, items, places, channels, each, pieces; /* `each` places to a piece, so many pieces to an item */
    double *part;                                          /* of each piece of each item: moments of the groups */
    double *weight;                                        /* of each channel; 1 where there is none */
    int32_t *group;                                        /* that each channel is of */
};

static double *moment_at(const struct group_job *j, int64_t piece, enum moment which)
{
    return j->part + (piece * MOMENTS + which) * j->groups;
}

/* To the moments of groups, of n numbers each, those of m more numbers each. */
static void put_together(double *mean, double *squares, double n, const double *more, const double *more_squares,
                         double m, int64_t groups)
{
    const double to = m / (n + m), apart = n * m / (n + m);
    for (int64_t g = 0; g < groups; g++) {
        double d = more[g] - mean[g];
        mean[g] += d * to;
        squares[g] += more_squares[g] + d * d * apart;
    }
}

/* Of some channels those of one group: the first, and how many, so far apart. */
struct members {
    int64_t first, n, step;
};

/* The groups that channels c to c + m are of, and of those channels, counted from c, the members of group g. */
static void groups_of(const struct group_job *j, int64_t c, int64_t m, int64_t *first, int64_t *end)
{
    *first = j->side_by_side ? c / j->of_group : 0;
    *end = j->side_by_side ? (c + m - 1) / j->of_group + 1 : j->groups;
}

static struct members members_of(const struct group_job *j, int64_t g, int64_t c, int64_t m)
{
    if (j->side_by_side) {
        int64_t first = greatest(g * j->of_group - c, 0);
        return (struct members){ first, least((g + 1) * j->of_group - c, m) - first, 1 };
    }
    if (m == j->channels)
        return (struct members){ g, j->of_group, j->groups };
    int64_t first = (g + j->groups - c % j->groups) % j->groups;
    return (struct members){ first, first < m ? ceil_div(m - first, j->groups) : 0, j->groups };
}

#define EACH_MEMBER(i, of) for (int64_t i = (of).first; i < (of).first + (of).n * (of).step; i += (of).step)

/* Piece k tile by tile: places from `place` on, of channels c to c + m, in the type computed in. */
struct walk {
    const struct group_job *j;
    const char *other;         /* laid out as j->x; NULL: nothing is read beside it */
    int64_t item, first, last; /* the item's first element, and the places of the piece */
    int64_t most;              /* places at once */
    int64_t c, m, place, rows, apart;
    const void *x, *v; /* rows of m numbers, `apart` numbers from each other; v: of `other` */
    void *y;           /* where to put what becomes of x: at its place in j->y, or on x, for store_tile */
    char *to;          /* the place in j->y */
    float tile[TILE], beside[TILE];
};

static void begin_walk(struct walk *w, const struct group_job *j, const char *other, int64_t k, int64_t most)
{
    w->j = j;
    w->other = other;
    w->item = k / j->pieces * j->places * j->channels;
    w->first = k % j->pieces * j->each;
    w->last = w->first + j->each < j->places ? w->first + j->each : j->places;
    w->most = most;
    w->c = w->m = 0;
}

static bool next_channels(struct walk *w)
{
    int64_t left = w->j->channels - (w->c += w->m);
    w->m = left < COLS ? left : COLS;
    w->place = w->first;
    w->rows = 0;
    return left > 0;
}

/* So many places of some channels as float32, rows of m without gaps. */
static const float *widen(const struct walk *w, float *tile, const char *x)
{
    for (int64_t r = 0; r < w->rows; r++)
        cpu->cast[w->j->t][DT_float32](tile + r * w->m, x + r * w->j->channels * (int64_t)w->j->size, (size_t)w->m);
    return tile;
}

static bool next_places(struct walk *w)
{
    const struct group_job *j = w->j;
    bool same = j->work == j->t;
    int64_t left = w->last - (w->place += w->rows), most = same || TILE / w->m > w->most ? w->most : TILE / w->m;
    int64_t at = (w->item + w->place * j->channels + w->c) * (int64_t)j->size;
    w->rows = left < most ? left : most;
    if (left <= 0)
        return false;
    w->apart = same ? j->channels : w->m;
    w->x = same ? (const void *)(j->x + at) : widen(w, w->tile, j->x + at);
    if (w->other)
        w->v = same ? (const void *)(w->other + at) : widen(w, w->beside, w->other + at);
    w->to = j->y ? j->y + at : NULL;
    w->y = same ? (void *)w->to : w->tile;
    return true;
}

/* What is in y becomes what is stored. */
static void store_tile(const struct walk *w)
{
    const struct group_job *j = w->j;
    for (int64_t r = 0; r < w->rows && j->work != j->t; r++)
        cpu->cast[DT_float32][j->t](w->to + r * j->channels * (int64_t)j->size, w->tile + r * w->m, (size_t)w->m);
}

/* Adds to those of the groups of a piece the moments of m channels from c on, each of n numbers. */
static void add_channels(const struct group_job *j, int64_t piece, int64_t c, int64_t m, double n, const double *mean,
                         const double *squares)
{
    double *seen = moment_at(j, piece, SEEN), *to = moment_at(j, piece, MEAN), *about = moment_at(j, piece, SQUARES);
    int64_t g, end;
    if (j->of_group == 1) {
        seen[c] = n; /* of the first as of all */
        memcpy(to + c, mean, (size_t)m * sizeof *to);
        memcpy(about + c, squares, (size_t)m * sizeof *about);
        return;
    }
    for (groups_of(j, c, m, &g, &end); g < end; g++) {
        struct members of = members_of(j, g, c, m);
        double count = (double)of.n, middle = 0, sum = 0;
        if (of.n == 0)
            continue;
        EACH_MEMBER(i, of) middle += mean[i];
        middle /= count;
        EACH_MEMBER(i, of) sum += squares[i] + n * (mean[i] - middle) * (mean[i] - middle);
        put_together(to + g, about + g, seen[g], &middle, &sum, n * count, 1);
        seen[g] += n * count;
    }
}

static void moments_of_piece(const struct group_job *j, int64_t k)
{
    struct walk w;
    double mean[COLS], squares[COLS];
    memset(moment_at(j, k, SEEN), 0, (size_t)(SCALE * j->groups) * sizeof(double));
    begin_walk(&w, j, NULL, k, ROWS);
    while (next_channels(&w)) {
        for (int64_t i = 0; i < w.m; i++) mean[i] = squares[i] = 0;
        while (next_places(&w))
            cpu->norm->moments[j->work](mean, squares, w.x, w.apart, (size_t)w.rows, (size_t)w.m, w.place - w.first);
        add_channels(j, k, w.c, w.m, (double)(w.last - w.first), mean, squares);
    }
}

/* The moments of the pieces of an item become, in the first of them, those of the item. */
static void finish_item(const struct group_job *j, int64_t item)
{
    int64_t first = item * j->pieces, at = item * j->groups * (int64_t)dtype_size(j->work);
    double *mean = moment_at(j, first, MEAN), *squares = moment_at(j, first, SQUARES),
           *scale = moment_at(j, first, SCALE);
    double n = moment_at(j, first, SEEN)[0]; /* as many of each group */
    for (int64_t k = first + 1; k < first + j->pieces; k++) {
        double m = moment_at(j, k, SEEN)[0];
        put_together(mean, squares, n, moment_at(j, k, MEAN), moment_at(j, k, SQUARES), m, j->groups);
        n += m;
    }
    for (int64_t g = 0; g < j->groups; g++) {
        squares[g] /= n; /* the variance */
        scale[g] = 1 / sqrt(squares[g] + j->a->eps);
    }
    cpu->cast[DT_float64][j->work](j->mean + at, mean, (size_t)j->groups);
    cpu->cast[DT_float64][j->work](j->var + at, squares, (size_t)j->groups);
}

static void scale_piece(const struct group_job *j, int64_t k)
{
    int64_t first = k / j->pieces * j->pieces;
    const double *mean = moment_at(j, first, MEAN), *scale = moment_at(j, first, SCALE);
    struct walk w;
    static const double none[COLS];
    double of[2][COLS], by[2][COLS]; /* mean and scale; in the type computed in */
    begin_walk(&w, j, NULL, k, j->places);
    while (next_channels(&w)) {
        for (int64_t i = 0; i < w.m; i++) {
            of[0][i] = mean[j->group[w.c + i]];
            of[1][i] = scale[j->group[w.c + i]] * j->weight[w.c + i];
        }
        for (int i = 0; i < 2; i++) cpu->cast[DT_float64][j->work](by[i], of[i], (size_t)w.m);
        const void *shift = j->b ? (const char *)j->b + (size_t)w.c * dtype_size(j->work) : (const void *)none;
        while (next_places(&w)) {
            cpu->norm->channel_scale[j->work](w.y, w.x, w.apart, (size_t)w.rows, (size_t)w.m, by[0], by[1], shift);
            store_tile(&w);
        }
    }
}

static void find_moments(void *ctx, int64_t begin, int64_t end)
{
    for (int64_t k = begin; k < end; k++) moments_of_piece(ctx, k);
}

/* Backwards, as below: what was seen last for the sums is in the cache still. */
static void scale_pieces(void *ctx, int64_t begin, int64_t end)
{
    for (int64_t k = end; k-- > begin;) scale_piece(ctx, k);
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

/* Is an item one thread's, with both passes one after the other?  `most`: elements of such a one. */
static bool item_by_item(const struct group_job *j, int64_t most)
{
    enum { ENOUGH = 4 }; /* items for all threads to have one */
    return j->pieces == 1 || (j->items >= ENOUGH && j->places * j->channels <= most);
}

static void normalize_groups(struct group_job *j)
{
    int64_t item = j->places * j->channels;
    bool fewer = j->pieces > 1 && 2 * j->items <= pool_threads(); /* than threads; the bits are the same */
    if (item_by_item(j, LARGE) && !fewer) {
        pool_for(j->items, ceil_div(PIECE / 2, item), whole_items, j);
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

/* Items of x, which is not empty, and their pieces. */
static void cut(struct group_job *j, mx x)
{
    const struct group_norm_args *a = j->a;
    j->t = x->dtype;
    j->work = dtype_is_half(x->dtype) ? DT_float32 : x->dtype;
    j->size = itemsize(x);
    j->channels = dim(x, -1);
    j->groups = a->groups ? a->groups : j->channels;
    j->of_group = j->channels / j->groups;
    j->side_by_side = a->neighbours || j->of_group == 1;
    j->items = a->whole ? 1 : dim(x, 0);
    j->places = x->size / j->items / j->channels;
    j->each = ceil_div(ceil_div(PIECE, j->channels), ROWS) * ROWS;
    j->pieces = ceil_div(j->places, j->each);
}

/* Room for so many doubles more, and what is known of each channel. */
static int know_channels(struct group_job *j, int64_t doubles)
{
    j->part = mx_malloc((size_t)(doubles + j->channels) * sizeof(double) + (size_t)j->channels * sizeof *j->group);
    if (!j->part)
        return 1;
    j->weight = j->part + doubles;
    j->group = (int32_t *)(j->weight + j->channels);
    for (int64_t g = 0; g < j->groups; g++) {
        struct members of = members_of(j, g, 0, j->channels);
        EACH_MEMBER(c, of) j->group[c] = (int32_t)g;
    }
    if (j->w)
        cpu->cast[j->work][DT_float64](j->weight, j->w, (size_t)j->channels);
    for (int64_t c = 0; c < j->channels && !j->w; c++) j->weight[c] = 1;
    return 0;
}

int run_group_norm(const struct run *r)
{
    const struct group_norm_args *a = r->args;
    mx x = r->x[0];
    MX_SCOPE(NULL);
    mx_own hold[3] = { { NULL } };
    enum dtype work = dtype_is_half(x->dtype) ? DT_float32 : x->dtype;
    struct group_job j = { .a = a };
    mx part[3] = { row_major(x, &hold[0]), NULL, NULL };
    bool failed = is_nil(part[0]);
    for (int i = 1; i < r->nin && !failed; i++) failed = is_nil(part[i] = row_major_as(r->x[i], work, &hold[i]));
    if (!failed && x->size) {
        cut(&j, x);
        j.w = a->weight ? host(part[1]) : NULL;
        failed = know_channels(&j, j.items * j.pieces * j.groups * MOMENTS);
    }
    failed = failed || out_new(r, 1) || out_new(r, 2) || out_over(r, 0, 0);
    if (!failed && x->size) {
        j.x = host(part[0]);
        j.y = host(r->y[0]);
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

/* ---- what goes back */

enum { OF_COLUMN = 5 };

/* Items that one thread takes one after the other share a slot, else each has its own. */
struct slopes_job {
    struct group_job of; /* y: what goes to x */
    const char *v;       /* the cotangent */
    int64_t slots, each; /* items of a slot */
    double *sums;        /* of v and of v (x - mean) by channel: of each slot, or of each piece of each item */
    double *totals;      /* of each slot: sums of v and of v (x - mean) scale over items */
    double *groups;      /* of each slot: scale, shift, along */
    char *columns;       /* of each slot: what norm_columns has, of type `work` */
};

static double *sums_at(const struct slopes_job *s, int64_t i) { return s->sums + i * 2 * s->of.channels; }
static double *totals_at(const struct slopes_job *s, int64_t slot) { return s->totals + slot * 2 * s->of.channels; }
static char *column_at(const struct slopes_job *s, int64_t slot, int i)
{
    return s->columns + (size_t)((slot * OF_COLUMN + i) * s->of.channels) * dtype_size(s->of.work);
}

/* What each group has becomes a column of its channels'. */
static void set_column(const struct slopes_job *s, int64_t slot, int i, const double *v)
{
    const struct group_job *j = &s->of;
    double by[COLS];
    for (int64_t c = 0, m; c < j->channels; c += m) {
        m = least(COLS, j->channels - c);
        for (int64_t k = 0; k < m; k++) by[k] = v[j->group[c + k]];
        cpu->cast[DT_float64][j->work](column_at(s, slot, i) + (size_t)c * dtype_size(j->work), by, (size_t)m);
    }
}

static double number(enum dtype t, const void *x, int64_t i)
{
    return t == DT_float64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void begin_slopes(const struct slopes_job *s, int64_t item, int64_t slot)
{
    const struct group_job *j = &s->of;
    double *mean = s->groups + slot * 3 * j->groups;
    for (int64_t g = 0; g < j->groups; g++) mean[g] = number(j->work, j->mean, item * j->groups + g);
    set_column(s, slot, 0, mean);
}

/* Adds to the sums of an item those of one of its pieces. */
static void slopes_of_piece(const struct slopes_job *s, int64_t k, int64_t slot, double *sum)
{
    const struct group_job *j = &s->of;
    struct walk w;
    begin_walk(&w, j, s->v, k, ROWS);
    while (next_channels(&w)) {
        const char *mean = column_at(s, slot, 0) + (size_t)w.c * dtype_size(j->work);
        while (next_places(&w))
            cpu->norm->channel_slopes[j->work](sum + w.c, sum + j->channels + w.c, w.v, w.x, w.apart, (size_t)w.rows,
                                               (size_t)w.m, mean);
    }
}

/* The sums of an item's channels become what its columns have; those with x - mean are scaled. */
static void finish_slopes(const struct slopes_job *s, int64_t item, int64_t slot, double *sum)
{
    const struct group_job *j = &s->of;
    double *dot = sum + j->channels, *scale = s->groups + slot * 3 * j->groups, *shift = scale + j->groups,
           *along = shift + j->groups, n = (double)(j->places * j->channels) / (double)j->groups;
    for (int64_t g = 0; g < j->groups; g++) {
        struct members of = members_of(j, g, 0, j->channels);
        shift[g] = along[g] = 0;
        EACH_MEMBER(c, of)
        {
            shift[g] += j->weight[c] * sum[c];
            along[g] += j->weight[c] * dot[c];
        }
        scale[g] = 1 / sqrt(number(j->work, j->var, item * j->groups + g) + j->a->eps);
        shift[g] /= n;
        along[g] *= scale[g] * scale[g] / n;
        EACH_MEMBER(c, of) dot[c] *= scale[g];
    }
    set_column(s, slot, 1, scale);
    set_column(s, slot, 3, shift);
    set_column(s, slot, 4, along);
    cpu->cast[DT_float64][j->work](column_at(s, slot, 2), j->weight, (size_t)j->channels);
}

static void project_piece(const struct slopes_job *s, int64_t k, int64_t slot)
{
    const struct group_job *j = &s->of;
    struct walk w;
    begin_walk(&w, j, s->v, k, j->places);
    while (next_channels(&w)) {
        const char *of[OF_COLUMN];
        for (int i = 0; i < OF_COLUMN; i++) of[i] = column_at(s, slot, i) + (size_t)w.c * dtype_size(j->work);
        struct norm_columns by = { of[0], of[1], of[2], of[3], of[4] };
        while (next_places(&w)) {
            cpu->norm->channel_project[j->work](w.y, w.v, w.x, w.apart, (size_t)w.rows, (size_t)w.m, &by);
            store_tile(&w);
        }
    }
}

static void slopes_of_slots(void *ctx, int64_t begin, int64_t end)
{
    const struct slopes_job *s = ctx;
    const struct group_job *j = &s->of;
    for (int64_t slot = begin; slot < end; slot++) {
        double *total = totals_at(s, slot), *sum = sums_at(s, slot);
        int64_t last = (slot + 1) * s->each < j->items ? (slot + 1) * s->each : j->items;
        memset(total, 0, (size_t)(2 * j->channels) * sizeof *total);
        for (int64_t i = slot * s->each; i < last; i++) {
            begin_slopes(s, i, slot);
            memset(sum, 0, (size_t)(2 * j->channels) * sizeof *sum);
            for (int64_t k = i * j->pieces; k < (i + 1) * j->pieces; k++) slopes_of_piece(s, k, slot, sum);
            finish_slopes(s, i, slot, sum);
            for (int64_t k = i * j->pieces; k < (i + 1) * j->pieces; k++) project_piece(s, k, slot);
            for (int64_t c = 0; c < 2 * j->channels; c++) total[c] += sum[c];
        }
    }
}

static void slopes_of_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct slopes_job *s = ctx;
    for (int64_t k = begin; k < end; k++) {
        memset(sums_at(s, k), 0, (size_t)(2 * s->of.channels) * sizeof(double));
        slopes_of_piece(s, k, k / s->of.pieces, sums_at(s, k));
    }
}

static void project_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct slopes_job *s = ctx;
    for (int64_t k = end; k-- > begin;) project_piece(s, k, k / s->of.pieces);
}

/* Those of each item's pieces, in their order, are added to the first. */
static void add_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct slopes_job *s = ctx;
    for (int64_t i = 0; i < s->of.items; i++) {
        double *sum = sums_at(s, i * s->of.pieces);
        for (int64_t p = 1; p < s->of.pieces; p++)
            for (int64_t c = begin; c < end; c++) sum[c] += sum[p * 2 * s->of.channels + c];
    }
}

/* Slots, by the shape alone, and room for them. */
static int cut_items(struct slopes_job *s, bool by_item)
{
    enum { SLOTS = 64, LEAST = 16 /* places of a slot, for which sums take no more memory than they do */ };
    const struct group_job *j = &s->of;
    int64_t wanted = 2 * j->items * j->places * j->channels / PIECE, most = ceil_div(j->items * j->places, LEAST);
    most = most < SLOTS ? most : SLOTS;
    s->each = by_item ? ceil_div(j->items, wanted < 1 ? 1 : wanted < most ? wanted : most) : 1;
    s->slots = ceil_div(j->items, s->each);
    int64_t sums = by_item ? s->slots : j->items * j->pieces;
    int64_t doubles = 2 * j->channels * (sums + s->slots) + 3 * j->groups * s->slots;
    s->sums = mx_malloc((size_t)doubles * sizeof(double) +
                        (size_t)(s->slots * OF_COLUMN * j->channels) * dtype_size(j->work));
    if (!s->sums)
        return 1;
    s->totals = sums_at(s, sums);
    s->groups = totals_at(s, s->slots);
    s->columns = (char *)(s->sums + doubles);
    return 0;
}

static void slopes_of_groups(struct slopes_job *s, bool by_item)
{
    const struct group_job *j = &s->of;
    if (by_item) {
        pool_for(s->slots, 1, slopes_of_slots, s);
    } else {
        for (int64_t i = 0; i < j->items; i++) begin_slopes(s, i, i);
        pool_for(j->items * j->pieces, 1, slopes_of_pieces, s);
        pool_for(2 * j->channels, PIECE / (j->items * j->pieces) + 1, add_pieces, s);
        for (int64_t i = 0; i < j->items; i++) {
            double *sum = sums_at(s, i * j->pieces);
            finish_slopes(s, i, i, sum);
            memcpy(totals_at(s, i), sum, (size_t)(2 * j->channels) * sizeof *sum);
        }
        pool_for(j->items * j->pieces, 1, project_pieces, s);
    }
    for (int64_t i = 1; i < s->slots; i++)
        for (int64_t c = 0; c < 2 * j->channels; c++) s->totals[c] += totals_at(s, i)[c];
}

/* What goes to x may be written over any operand: an item's means are read before, as are the weights. */
int run_group_norm_vjp(const struct run *r)
{
    const struct group_norm_vjp_args *a = r->args;
    const struct group_norm_args of = { a->groups, a->neighbours, a->whole, a->weight, false, a->eps };
    mx x = r->x[0];
    MX_SCOPE(NULL);
    mx_own hold[5] = { { NULL } };
    mx part[5];
    struct slopes_job s = { .of = { .a = &of } };
    bool failed = false, by_item = false;
    if (x->size)
        cut(&s.of, x);
    for (int i = 0; i < r->nin && x->size && !failed; i++)
        failed = is_nil(part[i] = i < 2 ? row_major(r->x[i], &hold[i]) : row_major_as(r->x[i], s.of.work, &hold[i]));
    if (!failed && x->size) {
        by_item = item_by_item(&s.of, LARGE / 2);
        s.of.w = a->weight ? host(part[2]) : NULL;
        failed = know_channels(&s.of, 0) || cut_items(&s, by_item);
    }
    for (int k = 1; k < r->nout && !failed; k++) failed = out_new(r, k);
    failed = failed || out_over_any(r, 0);
    if (!failed && x->size) {
        s.of.x = host(part[0]);
        s.v = host(part[1]);
        s.of.mean = host(part[2 + a->weight]);
        s.of.var = host(part[3 + a->weight]);
        s.of.y = host(r->y[0]);
        slopes_of_groups(&s, by_item);
        if (a->to_weight)
            cpu->cast[DT_float64][s.of.t](host(r->y[1]), s.totals + s.of.channels, (size_t)s.of.channels);
        if (a->to_bias)
            cpu->cast[DT_float64][s.of.t](host(r->y[1 + a->to_weight]), s.totals, (size_t)s.of.channels);
    } else if (!failed) {
        for (int k = 1; k < r->nout; k++) memset(host(r->y[k]), 0, (size_t)nbytes(r->y[k]));
    }
    free(s.sums);
    free(s.of.part);
    for (int i = 0; i < 5; i++) mx_drop(&hold[i]);
    return failed;
}
