/* norm.c: normalization and rotation of rows.
 *
 * A row is read for its mean, for its squares and for the result while it is in the cache.  Half
 * types are converted to float32, whole where a row fits a tile, else a tile at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cpu/kernels/norm.h"
#include "cpu/kernels/reduce.h"
#include "cpu/run.h"
#include "ops/fast.h"

enum { TILE = 4096, WORK = 1 << 14 };

struct norm_job {
    enum dtype t, work;
    bool centered;
    double eps;
    const char *x, *v; /* v: of norm_tangent */
    const void *w, *b; /* of type `work` */
    char *y;
    int64_t n;
    size_t size;
};

/* Part `at` of a row, m elements, in the type computed in; `tile` keeps what *kept says. */
static const void *row_part(const struct norm_job *j, const char *row, int64_t at, size_t m, float *tile,
                            const char **kept)
{
    const char *p = row + at * (int64_t)j->size;
    if (j->work == j->t)
        return p;
    if (*kept != p)
        cpu->cast[j->t][DT_float32](tile, p, m);
    *kept = p;
    return tile;
}

/* The sum of (v - l) (x - m); of v - l where x is NULL. */
static double add_in_double(enum dtype t, const void *v, double l, const void *x, double m, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (t == DT_float64)
            sum += (((const double *)v)[i] - l) * (x ? ((const double *)x)[i] - m : 1);
        else
            sum += (double)(((const float *)v)[i] - (float)l) * (x ? (double)(((const float *)x)[i] - (float)m) : 1);
    return sum;
}

static void norm_row(const struct norm_job *j, char *y, const char *x, const char *v)
{
    float tile[TILE], other[TILE];
    const char *kept = NULL, *kept_v = NULL;
    int64_t step = j->work == j->t ? j->n : TILE;
    double mean = 0, squares = 0, dots[2] = { 0, 0 };
#define EACH_PART for (int64_t at = 0, m; m = j->n - at < step ? j->n - at : step, at < j->n; at += step)
#define PART_OF_X row_part(j, x, at, (size_t)m, tile, &kept)
#define PART_OF_V row_part(j, v, at, (size_t)m, other, &kept_v)
/* Floats that overflow when they are added together, or multiplied, do not in double. */
#define ONCE_MORE(sum, v, l, x, mean)                                      \
    if (sum - sum != 0) {                                                  \
        sum = 0;                                                           \
        EACH_PART sum += add_in_double(j->work, v, l, x, mean, (size_t)m); \
    }
    if (j->centered) {
        union fold_acc sum = { .f = 0 };
        EACH_PART cpu->reduce->row[REDUCE_SUM][j->work](&sum, PART_OF_X, (size_t)m);
        ONCE_MORE(sum.f, PART_OF_X, 0, NULL, 0);
        mean = sum.f / (double)j->n;
    }
    EACH_PART squares += cpu->norm->squares[j->work](PART_OF_X, mean, (size_t)m);
    ONCE_MORE(squares, PART_OF_X, mean, PART_OF_X, mean);
    double rstd = 1 / sqrt(squares / (double)j->n + j->eps);
    if (v) {
        EACH_PART cpu->norm->dots[j->work](dots, PART_OF_V, PART_OF_X, mean, (size_t)m);
        ONCE_MORE(dots[0], PART_OF_V, 0, NULL, 0);
        ONCE_MORE(dots[1], PART_OF_V, 0, PART_OF_X, mean);
    }
    EACH_PART
    {
        char *to = y + at * (int64_t)j->size;
        const void *from = PART_OF_X;
        void *out = j->work == j->t ? (void *)to : v ? (void *)other : (void *)tile;
        int64_t off = at * (int64_t)dtype_size(j->work);
        if (v)
            cpu->norm->project[j->work](out, PART_OF_V, from, mean, rstd, j->centered ? dots[0] / (double)j->n : 0,
                                        dots[1] / (double)j->n * rstd * rstd, (size_t)m);
        else
            cpu->norm->normalize[j->work](out, from, mean, rstd, j->w ? (const char *)j->w + off : NULL,
                                          j->b ? (const char *)j->b + off : NULL, (size_t)m);
        if (j->work != j->t)
            cpu->cast[DT_float32][j->t](to, out, (size_t)m);
    }
#undef EACH_PART
#undef PART_OF_X
#undef PART_OF_V
#undef ONCE_MORE
}

static void norm_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct norm_job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * j->n * (int64_t)j->size;
        norm_row(j, j->y + at, j->x + at, j->v ? j->v + at : NULL);
    }
}

/* x without gaps and in the type computed in. */
static mx row_major_as(mx x, enum dtype work, mx_own *hold)
{
    mx z = row_major(x, hold);
    if (is_nil(z) || z->dtype == work)
        return z;
    mx_own wide = { NULL };
    mx_keep(&wide, array_new(work, z->ndim, z->shape));
    struct buffer *b = is_nil(wide.it) ? NULL : buffer_new((size_t)nbytes(wide.it));
    if (b) {
        mx_keep(&wide, array_of_buffer(work, z->ndim, z->shape, b));
        cpu->cast[z->dtype][work](host(wide.it), host(z), (size_t)z->size);
    } else {
        mx_keep(&wide, MX_NIL);
    }
    mx_keep(hold, wide.it);
    mx_drop(&wide);
    return hold->it;
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
        pool_for(x->size / j.n, WORK / j.n + 1, norm_rows, &j);
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
        pool_for(x->size / j.n, WORK / j.n + 1, norm_rows, &j);
    }
    mx_drop(&hold[0]);
    mx_drop(&hold[1]);
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
        pool_for(j.groups * ceil_div(j.length, POSITIONS), WORK / each + 1, rope_rows, &j);
    }
    free(turns);
    mx_drop(&hold[0]);
    mx_drop(&hold[1]);
    return failed;
}
