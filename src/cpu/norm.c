/* norm.c: normalization and rotation of rows.
 *
 * Some rows at a time are read for their means, for their squares and for the result while they are in the cache.
 * Half types are converted to float32, whole where rows fit a tile, else a tile at a time.  What goes back to weights
 * and biases is summed on the way: over fixed pieces of rows, whose sums are added in order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cpu/kernels/norm.h"
#include "cpu/kernels/reduce.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/fast.h"

enum { TILE = 4096, ROWS = REDUCE_ROWS };

struct norm_job {
    enum dtype t, work;
    bool centered;
    double eps;
    const char *x, *v; /* v: what goes through the derivative, or NULL */
    const void *w, *b; /* of type `work` */
    char *y;
    int64_t n;
    size_t size;
};

/* Elements at .. at + m of a row, or whole rows, in the type computed in; `tile` keeps what *kept says. */
static const char *row_part(const struct norm_job *j, const char *row, int64_t at, size_t m, float *tile,
                            const char **kept)
{
    const char *p = row + at * (int64_t)j->size;
    if (j->work == j->t)
        return p;
    if (*kept != p)
        cpu->cast[j->t][DT_float32](tile, p, m);
    *kept = p;
    return (const char *)tile;
}

/* The sum of (v w - l) (x - m); without w where it is NULL, of v w - l where x is. */
static double add_in_double(enum dtype t, const void *v, const void *w, double l, const void *x, double m, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (t == DT_float64)
            sum +=
                (((const double *)v)[i] * (w ? ((const double *)w)[i] : 1) - l) * (x ? ((const double *)x)[i] - m : 1);
        else if (w)
            sum += (double)((const float *)v)[i] * (double)((const float *)w)[i] *
                   (x ? (double)(((const float *)x)[i] - (float)m) : 1);
        else
            sum += (double)(((const float *)v)[i] - (float)l) * (x ? (double)(((const float *)x)[i] - (float)m) : 1);
    return sum;
}

/* At most ROWS rows, from number `first` on; dw and db are added to where they are not NULL. */
static void norm_block(const struct norm_job *j, int64_t first, size_t rows, char *dw, char *db)
{
    float tile[TILE], other[TILE];
    struct norm_row row[ROWS];
    const char *x = j->x + first * j->n * (int64_t)j->size, *kept = NULL, *kept_v = NULL;
    const char *v = j->v ? j->v + first * j->n * (int64_t)j->size : NULL;
    char *y = j->y + first * j->n * (int64_t)j->size;
    const size_t wide = dtype_size(j->work);
    const double n = (double)j->n;
    int64_t step = j->work == j->t || j->n < TILE ? j->n : TILE;
    memset(row, 0, rows * sizeof *row);
#define EACH_PART for (int64_t at = 0, m; m = j->n - at < step ? j->n - at : step, at < j->n; at += step)
#define PART_OF_X row_part(j, x, at, rows *(size_t)m, tile, &kept)
#define PART_OF_V row_part(j, v, at, rows *(size_t)m, other, &kept_v)
#define OF_ROW(part) ((part) + i * (size_t)m * wide)
#define OF_WEIGHT (j->w ? (const char *)j->w + (size_t)at * wide : NULL)
#define EACH_ROW for (size_t i = 0; i < rows; i++)
/* Floats that overflow when they are added together, or multiplied, do not in double. */
#define ONCE_MORE(sum, v, w, l, x, mean)                                      \
    if (sum - sum != 0) {                                                     \
        sum = 0;                                                              \
        EACH_PART sum += add_in_double(j->work, v, w, l, x, mean, (size_t)m); \
    }
    if (j->centered) {
        union fold_acc sum[ROWS];
        EACH_ROW sum[i].f = 0;
        EACH_PART
        {
            const char *part = PART_OF_X;
            EACH_ROW cpu->reduce->row[REDUCE_SUM][j->work](&sum[i], OF_ROW(part), (size_t)m);
        }
        EACH_ROW
        {
            ONCE_MORE(sum[i].f, OF_ROW(PART_OF_X), NULL, 0, NULL, 0);
            row[i].mean = sum[i].f / n;
        }
    }
    EACH_PART cpu->norm->squares[j->work](row, PART_OF_X, rows, (size_t)m);
    EACH_ROW
    {
        ONCE_MORE(row[i].squares, OF_ROW(PART_OF_X), NULL, row[i].mean, OF_ROW(PART_OF_X), row[i].mean);
        row[i].scale = 1 / sqrt(row[i].squares / n + j->eps);
    }
    if (v)
        EACH_PART cpu->norm->dots[j->work](row, PART_OF_V, PART_OF_X, OF_WEIGHT, rows, (size_t)m);
    for (size_t i = 0; i < rows && v; i++) {
        ONCE_MORE(row[i].sum, OF_ROW(PART_OF_V), OF_WEIGHT, 0, NULL, 0);
        ONCE_MORE(row[i].dot, OF_ROW(PART_OF_V), OF_WEIGHT, 0, OF_ROW(PART_OF_X), row[i].mean);
        row[i].shift = j->centered ? row[i].sum / n : 0;
        row[i].along = row[i].dot / n * row[i].scale * row[i].scale;
    }
    EACH_PART
    {
        char *to = y + at * (int64_t)j->size;
        const char *from = PART_OF_X;
        void *out = j->work == j->t ? (void *)to : v ? (void *)other : (void *)tile;
        size_t off = (size_t)at * wide;
        if (v)
            cpu->norm->project[j->work](out, PART_OF_V, from, row, OF_WEIGHT, dw ? dw + off : NULL,
                                        db ? db + off : NULL, rows, (size_t)m);
        else
            cpu->norm->normalize[j->work](out, from, row, OF_WEIGHT, j->b ? (const char *)j->b + off : NULL, rows,
                                          (size_t)m);
        if (j->work != j->t)
            cpu->cast[DT_float32][j->t](to, out, rows * (size_t)m);
    }
#undef EACH_PART
#undef EACH_ROW
#undef PART_OF_X
#undef PART_OF_V
#undef OF_ROW
#undef OF_WEIGHT
#undef ONCE_MORE
}

/* How many rows of n elements go together. */
static int64_t rows_together(int64_t n) { return n >= TILE ? 1 : TILE / n < ROWS ? TILE / n : ROWS; }

static void norm_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct norm_job *j = ctx;
    int64_t most = rows_together(j->n);
    for (int64_t i = begin; i < end; i += most) norm_block(j, i, (size_t)(end - i < most ? end - i : most), NULL, NULL);
}

static enum dtype work_type(enum dtype t) { return dtype_is_half(t) ? DT_float32 : t; }

static int run_norm(const struct run *r, bool centered)
{
    const struct norm_args *a = r->args;
    mx x = r->x[0];
    enum dtype work = work_type(x->dtype);
    MX_SCOPE(NULL);
    mx_own hold[3] = { { NULL } };
    mx part[3] = { row_major(x, &hold[0]), NULL, NULL };
    bool failed = is_nil(part[0]);
    for (int i = 1; i < r->nin && !failed; i++) failed = is_nil(part[i] = row_major_as(r->x[i], work, &hold[i]));
    failed = failed || (x->row ? out_over(r, 0, 0) : out_new(r, 0));
    if (!failed && x->size) {
        struct norm_job j = { .t = x->dtype,
                              .work = work,
                              .centered = centered,
                              .eps = a->eps,
                              .x = host(part[0]),
                              .y = host(r->y[0]),
                              .n = dim(x, -1),
                              .size = itemsize(x) };
        j.w = a->weight ? host(part[1]) : NULL;
        j.b = a->bias ? host(part[a->weight ? 2 : 1]) : NULL;
        pool_for(x->size / j.n, WORTH_NORMED / j.n + 1, norm_rows, &j);
    }
    for (int i = 0; i < 3; i++) mx_drop(&hold[i]);
    return failed;
}

int run_rms_norm(const struct run *r) { return run_norm(r, false); }
int run_layer_norm(const struct run *r) { return run_norm(r, true); }

int run_norm_tangent(const struct run *r)
{
    const struct norm_tangent_args *a = r->args;
    mx x = r->x[0];
    MX_SCOPE(NULL);
    mx_own hold[2] = { { NULL } };
    mx z = row_major(x, &hold[0]), v = row_major(r->x[1], &hold[1]);
    bool failed = is_nil(z) || is_nil(v) || out_over_any(r, 0);
    if (!failed && x->size) {
        struct norm_job j = { .t = x->dtype,
                              .work = work_type(x->dtype),
                              .centered = a->centered,
                              .eps = a->eps,
                              .x = host(z),
                              .v = host(v),
                              .y = host(r->y[0]),
                              .n = dim(x, -1),
                              .size = itemsize(x) };
        pool_for(x->size / j.n, WORTH_NORMED / j.n + 1, norm_rows, &j);
    }
    mx_drop(&hold[0]);
    mx_drop(&hold[1]);
    return failed;
}

/* Sums over rows, of dw and db where they are wanted, and of a piece of the rows each; `sums` has those of each piece
 * one after the other, in double, `parts` those of some rows that are still in the type computed in. */
struct slopes_job {
    struct norm_job norm;
    int64_t rows, each; /* of a piece */
    int64_t pieces, width;
    double *sums;
    char *parts;
    bool to_weight, to_bias;
};

static void slopes_of_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct slopes_job *s = ctx;
    const struct norm_job *j = &s->norm;
    size_t size = dtype_size(j->work);
    int64_t most = rows_together(j->n);
    for (int64_t p = begin; p < end; p++) {
        double *sum = s->sums + p * s->width;
        char *part = s->parts + (size_t)(p * s->width) * size;
        char *dw = s->to_weight ? part : NULL;
        char *db = s->to_bias ? part + (s->to_weight ? (size_t)j->n * size : 0) : NULL;
        int64_t last = (p + 1) * s->each < s->rows ? (p + 1) * s->each : s->rows, some = 0;
        memset(sum, 0, (size_t)s->width * sizeof *sum);
        memset(part, 0, (size_t)s->width * size);
        for (int64_t i = p * s->each, m; i < last; i += m) {
            m = last - i < most ? last - i : most;
            norm_block(j, i, (size_t)m, dw, db);
            some += m;
            if (some + most > ROWS || i + m == last) {
                cpu->norm->move_sums[j->work](sum, part, (size_t)s->width);
                some = 0;
            }
        }
    }
}

/* Adds what the pieces have, in their order, to the first. */
static void add_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct slopes_job *s = ctx;
    for (int64_t p = 1; p < s->pieces; p++)
        for (int64_t i = begin; i < end; i++) s->sums[i] += s->sums[p * s->width + i];
}

/* Pieces by the shape alone, and room for their sums. */
static int cut_rows(struct slopes_job *s)
{
    enum { PIECES = 32, LEAST = 4 /* rows of a piece, for which sums take no more memory than they do */ };
    const struct norm_job *j = &s->norm;
    int64_t wanted = s->rows * j->n / WORTH_NORMED, most = ceil_div(s->rows, LEAST);
    most = most < PIECES ? most : PIECES;
    s->each = ceil_div(s->rows, wanted < 1 ? 1 : wanted < most ? wanted : most);
    s->pieces = ceil_div(s->rows, s->each);
    s->width = j->n * (s->to_weight + s->to_bias);
    s->sums = mx_malloc((size_t)(s->pieces * s->width) * (sizeof(double) + dtype_size(j->work)));
    s->parts = s->sums ? (char *)(s->sums + s->pieces * s->width) : NULL;
    return !s->sums;
}

static void slopes_over_rows(struct slopes_job *s, const struct run *r)
{
    pool_for(s->pieces, 1, slopes_of_pieces, s);
    pool_for(s->width, WORTH_NORMED / s->pieces + 1, add_pieces, s);
    for (int k = 1; k < r->nout; k++)
        cpu->cast[DT_float64][s->norm.t](host(r->y[k]), s->sums + (k - 1) * s->norm.n, (size_t)s->norm.n);
}

int run_norm_vjp(const struct run *r)
{
    const struct norm_vjp_args *a = r->args;
    mx x = r->x[0];
    enum dtype work = work_type(x->dtype);
    MX_SCOPE(NULL);
    mx_own hold[3] = { { NULL } };
    mx z = row_major(x, &hold[0]), v = row_major(r->x[1], &hold[1]), w = NULL;
    bool failed = is_nil(z) || is_nil(v) || (a->weight && is_nil(w = row_major_as(r->x[2], work, &hold[2])));
    struct slopes_job s = { .to_weight = a->to_weight, .to_bias = a->to_bias };
    if (!failed && x->size) {
        s.norm = (struct norm_job){ .t = x->dtype,
                                    .work = work,
                                    .centered = a->centered,
                                    .eps = a->eps,
                                    .x = host(z),
                                    .v = host(v),
                                    .w = w ? host(w) : NULL,
                                    .n = dim(x, -1),
                                    .size = itemsize(x) };
        s.rows = x->size / s.norm.n;
        failed = r->nout > 1 && cut_rows(&s);
    }
    for (int k = 1; k < r->nout && !failed; k++) failed = out_new(r, k);
    failed = failed || out_over_any(r, 0);
    s.norm.y = failed ? NULL : host(r->y[0]);
    if (!failed && x->size && r->nout == 1)
        pool_for(s.rows, WORTH_NORMED / s.norm.n + 1, norm_rows, &s.norm);
    else if (!failed && x->size)
        slopes_over_rows(&s, r);
    else if (!failed)
        for (int k = 1; k < r->nout; k++) memset(host(r->y[k]), 0, (size_t)nbytes(r->y[k]));
    free(s.sums);
    for (int i = 0; i < 3; i++) mx_drop(&hold[i]);
    return failed;
}

/* ---- rope: the sines of a few positions, then every row at them */

enum { ANGLES = 256, POSITIONS = 16 };

struct rope_job {
    const struct rope_args *a;
    enum dtype t, work;
    mx x; /* its last axis without gaps */
    char *y;
    const int64_t *offset;
    int64_t groups, rows, length, width; /* rows of one offset; positions; elements of a row */
    const double *turns;                 /* angles of position 1 */
};

/* Row r (all axes but the last two) of x. */
static const char *rope_row(const struct rope_job *j, int64_t r)
{
    mx x = j->x;
    int64_t at = 0;
    for (int d = x->ndim - 2; d-- > 0; r /= x->shape[d]) at += r % x->shape[d] * x->strides[d];
    return (const char *)host(x) + at * (int64_t)itemsize(x);
}

/* The points i to i + n of one row. */
static void rope_piece(const struct rope_job *j, char *y, const char *x, int64_t i, int64_t n, const void *c,
                       const void *s)
{
    const bool pairs = j->a->traditional;
    size_t size = itemsize(j->x), step = pairs ? 2 : 1, m = (size_t)n;
    int64_t half = j->a->dims / 2, first = pairs ? 2 * i : i, second = pairs ? first + 1 : half + i;
    const char *x1 = x + first * (int64_t)size, *x2 = x + second * (int64_t)size;
    char *y1 = y + first * (int64_t)size, *y2 = y + second * (int64_t)size;
    if (j->work == j->t) {
        cpu->norm->rotate[j->t](y1, y2, x1, x2, step, c, s, m);
        return;
    }
    float tile[2 * ANGLES], *u = tile, *v = pairs ? tile + 1 : tile + ANGLES;
    size_t run = pairs ? 2 * m : m;
    cpu->cast[j->t][DT_float32](u, x1, run);
    if (!pairs)
        cpu->cast[j->t][DT_float32](v, x2, run);
    cpu->norm->rotate[DT_float32](u, v, u, v, step, c, s, m);
    cpu->cast[DT_float32][j->t](y1, u, run);
    if (!pairs)
        cpu->cast[DT_float32][j->t](y2, v, run);
}

static void rope_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct rope_job *j = ctx;
    int64_t chunks = ceil_div(j->length, POSITIONS), half = j->a->dims / 2;
    size_t size = itemsize(j->x), wsize = dtype_size(j->work), rest = (size_t)(j->width - 2 * half) * size;
    double angle[ANGLES], value[ANGLES], table[2][ANGLES * POSITIONS];
    for (int64_t k = begin; k < end; k++) {
        int64_t g = k / chunks, t0 = k % chunks * POSITIONS;
        int64_t count = j->length - t0 < POSITIONS ? j->length - t0 : POSITIONS;
        for (int64_t i = 0; i < half; i += ANGLES) {
            int64_t n = half - i < ANGLES ? half - i : ANGLES;
            for (int64_t t = 0; t < count; t++) {
                double p = ((double)j->offset[g] + (double)(t0 + t)) * j->a->scale;
                for (int64_t l = 0; l < n; l++) angle[l] = p * j->turns[i + l];
                for (int f = 0; f < 2; f++) {
                    cpu->unary[f ? UNARY_sin : UNARY_cos][DT_float64](value, angle, (size_t)n);
                    cpu->cast[DT_float64][j->work]((char *)table[f] + (size_t)(t * n) * wsize, value, (size_t)n);
                }
            }
            for (int64_t r = 0; r < j->rows; r++) {
                const char *x = rope_row(j, g * j->rows + r) + t0 * j->x->strides[j->x->ndim - 2] * (int64_t)size;
                char *y = j->y + ((g * j->rows + r) * j->length + t0) * j->width * (int64_t)size;
                for (int64_t t = 0; t < count; t++) {
                    const char *row = x + t * j->x->strides[j->x->ndim - 2] * (int64_t)size;
                    char *to = y + t * j->width * (int64_t)size;
                    size_t at = (size_t)(t * n) * wsize;
                    rope_piece(j, to, row, i, n, (char *)table[0] + at, (char *)table[1] + at);
                    if (i == 0 && rest)
                        memcpy(to + (size_t)(2 * half) * size, row + (size_t)(2 * half) * size, rest);
                }
            }
        }
    }
}

/* Angles per position, in double: base^(-i / half), or 1 / freqs. */
static double *turns_of(const struct rope_args *a, mx freqs)
{
    int half = a->dims / 2;
    double *turns = mx_malloc((size_t)half * sizeof *turns), sign = a->inverse ? -1 : 1;
    for (int i = 0; turns && i < half; i++) {
        double f = 0;
        if (freqs && freqs->dtype == DT_float64)
            f = ((const double *)host(freqs))[i * freqs->strides[0]];
        else if (freqs)
            f = (double)((const float *)host(freqs))[i * freqs->strides[0]];
        turns[i] = sign * (freqs ? 1 / f : pow(a->base, -(double)i / half));
    }
    return turns;
}

int run_rope(const struct run *r)
{
    const struct rope_args *a = r->args;
    mx x = r->x[0];
    if (out_new(r, 0))
        return 1;
    if (x->size == 0)
        return 0;
    MX_SCOPE(NULL);
    mx_own hold[2] = { { NULL } };
    double *turns = turns_of(a, a->freqs ? r->x[2] : NULL);
    mx z = x->strides[x->ndim - 1] == 1 ? x : row_major(x, &hold[0]), offset = row_major(r->x[1], &hold[1]);
    bool failed = !turns || is_nil(z) || is_nil(offset);
    if (!failed) {
        struct rope_job j = { .a = a,
                              .t = x->dtype,
                              .work = work_type(x->dtype),
                              .x = z,
                              .y = host(r->y[0]),
                              .offset = host(offset),
                              .groups = offset->size,
                              .length = dim(x, -2),
                              .width = dim(x, -1),
                              .turns = turns };
        j.rows = x->size / (j.length * j.width) / j.groups;
        int64_t each = j.rows * POSITIONS * j.width;
        pool_for(j.groups * ceil_div(j.length, POSITIONS), WORTH_NORMED / each + 1, rope_rows, &j);
    }
    free(turns);
    mx_drop(&hold[0]);
    mx_drop(&hold[1]);
    return failed;
}
