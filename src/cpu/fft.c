/* fft.c: Fourier transforms on the CPU.
 *
 * The kernels transform several sequences side by side, one in each lane of their vectors.  Lanes
 * are rows of a batch, or else the columns and rows of one sequence of n1 n2 elements: columns
 * are transformed, multiplied by e^(-2 pi i j k / n), then rows.  Where n1 is the number of lanes,
 * which then hold the rows, that takes little more room than the sequence, in the cache next to the
 * processor; of a long one, n1 is about n2, and of many long sequences each thread takes whole ones.
 * Real sequences in lanes become complex ones, and half transforms, in the buffers.  Lengths with a
 * large prime factor become convolutions of a length without (Bluestein):
 * with jk = (j^2 + k^2 - (k - j)^2) / 2,
 *     X_k = c_k sum_j (x_j c_j) conj(c_(k - j)),    c_j = e^(-pi i j^2 / n).
 *
 * Factors are computed in double and rounded once.  They are a plan's, and plans are kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "core/scope.h"
#include "core/sizes.h"
#include "cpu/crew.h"
#include "cpu/kernels/fft.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/fft.h"
#include "plan/fourier.h"
#include "shared/scalar.h"

#include "shared/fourier.h"

enum {
    WHOLE = 4096,   /* longest sequence that lanes hold as a whole, for its buffers to stay in L2 */
    TALL = 16384,   /* of columns, whose elements lie apart in memory: they come by the line */
    FEW = 4,        /* rows that are rather split than put into lanes, */
    NOT_MANY = 128, /* and those whose elements are neighbours: lanes leave nothing for most of many threads */
    SHORT = 64,     /* but for short ones */
    BY_ROW = 16384, /* longest sequence, of neighbours, that goes through the cache by itself */
    UNFOLDED = 256, /* the shortest real one of which its half does */
    TEAM = 4,       /* such rows at once, at most */
    ASKED = 256,    /* the longest of those that are asked for before their turn */
    BLOCK = 8,      /* sequences whose elements are neighbours, taken at once; a line of memory */
    LINE = 16,      /* floats of one */
    NEAR = 1 << 20, /* longest sequence whose columns are read by their first stage, from so many places at once */
};

static void root(double *re, double *im, int64_t j, int64_t n)
{
    struct root w = root_of_one(j, n);
    *re = w.re;
    *im = w.im;
}

/* e^(-2 pi i j / n) for any j < n, as the product of two: coarse[j >> bits] fine[the rest]. */
struct root_table {
    int64_t n;
    double *coarse, *fine;
    int bits;
};

static int table_make(struct root_table *t, int64_t n)
{
    t->n = n;
    while ((int64_t)1 << 2 * t->bits < n) t->bits++;
    int64_t step = (int64_t)1 << t->bits, count = n / step + 1;
    t->coarse = mx_malloc((size_t)(2 * (count + step)) * sizeof(double));
    if (!t->coarse)
        return 1;
    t->fine = t->coarse + 2 * count;
    for (int64_t i = 0; i < count; i++) root(&t->coarse[2 * i], &t->coarse[2 * i + 1], i * step % n, n);
    for (int64_t i = 0; i < step; i++) root(&t->fine[2 * i], &t->fine[2 * i + 1], i % n, n);
    return 0;
}

static inline void table_get(const struct root_table *t, int64_t j, float *re, float *im)
{
    const double *u = t->coarse + 2 * (j >> t->bits), *v = t->fine + 2 * (j & (((int64_t)1 << t->bits) - 1));
    *re = (float)(u[0] * v[0] - u[1] * v[1]);
    *im = (float)(u[0] * v[1] + u[1] * v[0]);
}

/* Those of j, or of the squares of j, for all j below some number. */
struct roots {
    float *w;
    const struct root_table *t;
    bool squares;
};
static void some_roots(void *ctx, int64_t begin, int64_t end)
{
    const struct roots *r = ctx;
    int64_t n = r->t->n, at = r->squares ? (int64_t)((uint64_t)begin * (uint64_t)begin % (uint64_t)n) : begin;
    for (int64_t j = begin; j < end; j++) {
        table_get(r->t, at, &r->w[2 * j], &r->w[2 * j + 1]);
        at += r->squares ? 2 * j + 1 : 1; /* 2 j < n */
        at -= at >= n ? n : 0;
    }
}

static int roots_make(float *w, int64_t count, int64_t n, bool squares)
{
    struct root_table t = { 0 };
    int failed = table_make(&t, n);
    if (!failed)
        pool_for(count, WORTH_TURNED, some_roots, &(struct roots){ w, &t, squares });
    free(t.coarse);
    return failed;
}

struct fft_plan {
    struct fft_plan_of {
        int64_t n;
        int64_t whole; /* longest length that lanes hold as a whole */
        bool pairs;    /* real sequences of length 2 n */
        int team;      /* rows that may be taken at once, each by itself; or 0 */
    } of;
    int64_t n;
    enum way { LANES, ROWS, SPLIT, CHIRP } way;
    struct fft_smooth a, b; /* LANES: a; SPLIT: columns of length a.n, rows of length b.n; */
    int ways;               /* ROWS: columns of this length, rows of length a.n */
    float *turns, *mirror;  /* ROWS: for load_rows and, with pairs, fold_rows */
    float *twiddles;        /* SPLIT: for every vector of columns, two tables for f->twiddle */
    struct fft_plan *conv;  /* CHIRP: of the convolution */
    float *chirp;           /* c_j */
    float *filter;          /* transform of conj(c), over its length */
    float *ends;            /* pairs: e^(-2 pi i k / (2 n)) for k up to n */
    size_t bytes;
    int users;
    uint64_t used; /* when last */
};

static void smooth_free(struct fft_smooth *s)
{
    free(s->factors);
    free(s->roots);
}

static void plan_free(struct fft_plan *p)
{
    if (!p)
        return;
    smooth_free(&p->a);
    smooth_free(&p->b);
    plan_free(p->conv);
    free(p->twiddles);
    free(p->turns);
    free(p->chirp);
    free(p->filter);
    free(p->ends);
    free(p);
}

static int smooth_make(struct fft_smooth *s, int64_t n)
{
    int64_t left = n, numbers = 0, roots = 0;
    s->n = n;
    s->stages = fourier_radices(n, cpu->fft->power, FFT_RADIX, s->radix);
    for (int i = 0; i < s->stages; i++) {
        left /= s->radix[i];
        numbers += left * (s->radix[i] - 1);
        roots += s->radix[i];
    }
    s->factors = mx_malloc((size_t)(numbers * 2 + 1) * sizeof(float));
    s->roots = mx_malloc((size_t)(roots * 2 + 1) * sizeof(float));
    if (!s->factors || !s->roots)
        return 1;
    float *w = s->factors, *u = s->roots;
    left = n;
    double re, im;
    for (int i = 0; i < s->stages; i++) {
        int r = s->radix[i];
        for (int64_t p = 0; p < left / r; p++)
            for (int k = 1; k < r; k++, w += 2) {
                root(&re, &im, p * k, left);
                w[0] = (float)re;
                w[1] = (float)im;
            }
        for (int k = 0; k < r; k++, u += 2) {
            root(&re, &im, k, r);
            u[0] = (float)re;
            u[1] = (float)im;
        }
        left /= r;
    }
    return 0;
}

/* Floats of the two tables of one vector of columns of length n1. */
static int64_t twiddles_of(int64_t n1) { return (ceil_div(n1, FFT_STEP) + FFT_STEP) * 2 * cpu->fft->lanes; }

struct twiddling {
    const struct fft_plan *p;
    const struct root_table *t;
};

/* e^(-2 pi i j k / n) for k < count, w apart; the imaginary parts follow after half of that. */
static void powers(const struct root_table *t, float *to, int64_t w, int64_t count, int64_t j)
{
    for (int64_t k = 0, at = 0; k < count; k++, to += w) {
        table_get(t, at, to, to + w / 2);
        at += j;
        at -= at >= t->n ? t->n : 0;
    }
}

static void some_twiddles(void *ctx, int64_t begin, int64_t end)
{
    const struct twiddling *s = ctx;
    const struct root_table *t = s->t;
    int64_t lanes = cpu->fft->lanes, w = 2 * lanes, blocks = ceil_div(s->p->a.n, FFT_STEP);
    for (int64_t i = begin; i < end; i++) {
        float *coarse = s->p->twiddles + i * twiddles_of(s->p->a.n), *fine = coarse + blocks * w;
        for (int64_t l = 0; l < lanes; l++) {
            int64_t c = i * lanes + l;
            powers(t, coarse + l, w, blocks, FFT_STEP * c % t->n);
            powers(t, fine + l, w, FFT_STEP, c % t->n);
        }
    }
}

static int split_make(struct fft_plan *p)
{
    int64_t n2 = fourier_divisor(p->n, p->n), n1 = p->n / n2, groups = ceil_div(n2, cpu->fft->lanes);
    struct root_table t = { 0 };
    size_t bytes = (size_t)(groups * twiddles_of(n1)) * sizeof(float);
    p->twiddles = mx_malloc(bytes);
    p->bytes += bytes;
    int failed = !p->twiddles || smooth_make(&p->a, n1) || smooth_make(&p->b, n2) || table_make(&t, p->n);
    if (!failed)
        pool_for(groups, 4, some_twiddles, &(struct twiddling){ p, &t });
    free(t.coarse);
    return failed;
}

/* How many of one row's numbers are lanes, which are of one row, two or four, but no more than `team`; 0 where there is
 * no way. */
static int ways_of(int64_t n, int team)
{
    int lanes = cpu->fft->lanes;
    for (int ways = lanes; ways > 1 && ways >= lanes / team; ways /= 2)
        if (n % ways == 0 && n / ways >= lanes)
            return ways;
    return 0;
}

static int by_row_make(struct fft_plan *p)
{
    int64_t n = p->n, ways = p->ways, m = n / ways, lanes = cpu->fft->lanes, blocks = ceil_div(m, lanes);
    int64_t turns = blocks * (ways - 1) * 2 * lanes, mirror = p->of.pairs ? m * 2 * lanes : 0;
    size_t bytes = (size_t)(turns + mirror) * sizeof(float);
    double re, im;
    p->bytes += bytes;
    p->turns = mx_try_aligned(bytes);
    if (!p->turns)
        mx_fail_memory(bytes);
    if (!p->turns || smooth_make(&p->a, m))
        return 1;
    float *w = p->turns;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t k = 1; k < ways; k++, w += 2 * lanes)
            for (int64_t l = 0; l < lanes; l++) {
                root(&re, &im, k * (least(b * lanes, m - lanes) + l) % n, n);
                w[l] = (float)re;
                w[lanes + l] = (float)im;
            }
    p->mirror = w;
    for (int64_t e = 0; mirror && e < m; e++, w += 2 * lanes)
        for (int64_t l = 0; l < lanes; l++) {
            root(&re, &im, e * ways + l % ways, 2 * n);
            w[l] = (float)re;
            w[lanes + l] = (float)im;
        }
    return 0;
}

/* What a transform works in: floats for the sequence that is under way, and for the lanes of each thread. */
struct room {
    float *line, *lanes;
    int threads;
};

static void one(const struct fft_plan *p, const float *x, float *y, bool swap, float scale, struct room room);
static size_t line_floats(const struct fft_plan *p);
static size_t lane_floats(const struct fft_plan *p);
static struct buffer *room_make(const struct fft_plan *p, int threads, struct room *room);

static struct fft_plan *plan_make(struct fft_plan_of of);

static int chirp_make(struct fft_plan *p)
{
    int64_t n = p->n, m = fourier_length_above(2 * n - 1);
    size_t bytes = (size_t)(2 * m) * sizeof(float);
    struct room room = { 0 };
    p->conv = plan_make((struct fft_plan_of){ m, p->of.whole, false, 0 });
    p->chirp = mx_malloc((size_t)(2 * n) * sizeof(float));
    p->filter = mx_malloc(bytes);
    float *c = mx_malloc(bytes);
    struct buffer *space = p->conv ? room_make(p->conv, pool_threads(), &room) : NULL;
    bool failed = !space || !p->chirp || !p->filter || !c;
    if (!failed) {
        p->bytes += p->conv->bytes + 2 * bytes;
        memset(c, 0, bytes);
        failed = roots_make(p->chirp, n, 2 * n, true);
        for (int64_t j = 0; j < n; j++) {
            float re = p->chirp[2 * j], im = p->chirp[2 * j + 1];
            float *at[] = { c + 2 * j, c + 2 * (j ? m - j : 0) };
            for (int k = 0; k < 2; k++) {
                at[k][0] = re;
                at[k][1] = -im;
            }
        }
        if (!failed)
            one(p->conv, c, p->filter, false, 1 / (float)m, room);
    }
    if (space)
        buffer_release(space);
    free(c);
    return failed;
}

/* NULL after a failure. */
static struct fft_plan *plan_make(struct fft_plan_of of)
{
    struct fft_plan *p = mx_malloc(sizeof *p);
    if (!p)
        return NULL;
    int64_t n = of.n;
    *p = (struct fft_plan){ .of = of, .n = n, .bytes = (size_t)n * 8 };
    int failed = 0, radix[FOURIER_STAGES];
    if (of.pairs) {
        p->ends = mx_malloc((size_t)(n + 1) * 8);
        failed = !p->ends || roots_make(p->ends, n + 1, 2 * n, false);
    }
    if (failed) {
        /* nothing more */
    } else if (fourier_radices(n, cpu->fft->power, FFT_RADIX, radix) < 0) {
        p->way = CHIRP;
        failed = chirp_make(p);
    } else if (of.team && (p->ways = ways_of(n, of.team))) {
        p->way = ROWS;
        failed = by_row_make(p);
    } else if (n <= of.whole) {
        failed = smooth_make(&p->a, n);
    } else {
        p->way = SPLIT;
        failed = split_make(p);
    }
    if (failed) {
        plan_free(p);
        p = NULL;
    }
    return p;
}

/* ---- plans that are kept: those used last, and no large ones */

enum { PLANS = 16, LARGE = 1 << 22 };
LOCK(keeping, LOCK_LEAF);
static struct fft_plan *plans[PLANS]; /* who uses one is counted, and those in use stay */
static uint64_t uses;

static struct fft_plan *kept_plan(struct fft_plan_of of)
{
    for (int i = 0; i < PLANS; i++) {
        struct fft_plan *p = plans[i];
        if (p && p->of.n == of.n && p->of.whole == of.whole && p->of.pairs == of.pairs && p->of.team == of.team)
            return p;
    }
    return NULL;
}

/* NULL after a failure. */
static struct fft_plan *plan_take(struct fft_plan_of of)
{
    lock_take(&keeping);
    struct fft_plan *p = kept_plan(of);
    if (p) {
        p->users++;
        p->used = ++uses;
    }
    lock_give(&keeping);
    return p ? p : plan_make(of);
}

static void plan_give(struct fft_plan *p)
{
    struct fft_plan *gone = p;
    if (!p)
        return;
    lock_take(&keeping);
    if (p->users) { /* it is one of those */
        p->users--;
        gone = NULL;
    } else if (p->bytes <= LARGE && !kept_plan(p->of)) {
        int at = -1;
        for (int i = 0; i < PLANS; i++)
            if (!plans[i] || (!plans[i]->users && (at < 0 || (plans[at] && plans[i]->used < plans[at]->used))))
                at = i;
        if (at >= 0) {
            gone = plans[at];
            plans[at] = p;
            p->used = ++uses;
        }
    }
    lock_give(&keeping);
    plan_free(gone);
}

/* Is everything done in lanes? */
static bool in_lanes(const struct fft_plan *p) { return p->way == LANES || (p->way == CHIRP && p->conv->way == LANES); }

/* ---- room to work in */

static size_t longest(const struct fft_plan *p)
{
    int64_t n = p->way == SPLIT && p->a.n > p->b.n ? p->a.n : p->way == SPLIT ? p->b.n : p->n;
    return (size_t)n;
}

/* Two buffers of lanes: of numbers of a sequence and, of real ones, one more. */
static size_t lane_floats(const struct fft_plan *p)
{
    return p->way == CHIRP ? lane_floats(p->conv) : 2 * (longest(p) + 1) * 2 * (size_t)cpu->fft->lanes;
}
static size_t line_floats(const struct fft_plan *p)
{
    size_t own = in_lanes(p) ? 0 : ((size_t)(p->way == CHIRP ? 2 * p->conv->n : 2 * p->n) + 15) / 16 * 16;
    return own + (p->way == CHIRP ? line_floats(p->conv) : 0);
}

static struct buffer *room_make(const struct fft_plan *p, int threads, struct room *room)
{
    size_t line = line_floats(p);
    struct buffer *b = buffer_new((line + lane_floats(p) * (size_t)threads) * sizeof(float));
    if (b)
        *room = (struct room){ b->host, (float *)b->host + line, threads };
    return b;
}

/* fn for 0..n, each thread with lanes of its own; a little work stays here. */
static void share_lanes(int64_t n, const struct fft_plan *p, struct room room, void (*fn)(void *, int64_t, char *),
                        const void *ctx)
{
    size_t each = lane_floats(p);
    int threads = n * (int64_t)each < 32768 ? 1 : room.threads;
    crew_for(n, n < threads ? (int)n : threads, (char *)room.lanes, each * sizeof(float), fn, (void *)ctx);
}

enum { LANES_MOST = 16 };

/* Lanes `step` floats apart. */
static void lanes_from(int64_t at[LANES_MOST], int64_t first, int64_t step)
{
    for (int l = 0; l < cpu->fft->lanes; l++) at[l] = first + l * step;
}

/* ---- lanes */

/* Sequences of kind's x to its y; element j of sequence (o, i) at (o * length + j) * inner + i, of numbers of whichever
 * type. */
struct fft_rows {
    const struct fft_plan *p;
    enum fft_kind kind;
    const float *x;
    float *y;
    int64_t outer, inner, n;
    bool swap;
    float scale;
};

/* Lanes that are neighbours all. */
static struct fft_place place_of(const float *x, int64_t step, bool swap, float scale)
{
    return (struct fft_place){ { (float *)x, (float *)x + cpu->fft->lanes }, 2, step, swap, scale };
}

/* Sequences that are shared out among lanes, `each` at a time by so many groups of lanes. */
struct sharing {
    struct fft_rows r;
    int64_t each, groups;
};

static void lanes_job(void *ctx, int64_t g, char *space)
{
    float *buf = (float *)space;
    const struct sharing *s = ctx;
    const struct fft_rows *r = &s->r;
    const struct fft_kernels *f = cpu->fft;
    const struct fft_plan *p = r->p;
    int64_t n = p->n, m = p->way == CHIRP ? p->conv->n : n, half = r->n / 2 + 1, w = 2 * f->lanes;
    int64_t ux = r->kind == FFT_REAL ? 1 : 2, uy = r->kind == FFT_HERMITIAN ? 1 : 2;
    int64_t nx = r->kind == FFT_HERMITIAN ? half : r->n, ny = r->kind == FFT_REAL ? half : r->n;
    int64_t done = g % s->groups * f->lanes, first = g / s->groups * s->each + done;
    int64_t o = first / r->inner, i = first % r->inner, from[LANES_MOST], to[LANES_MOST];
    int lanes = (int)least(s->each - done, f->lanes);
    if (r->kind == FFT_COMPLEX && p->way == LANES && lanes == f->lanes && i + lanes <= r->inner) {
        int64_t at = 2 * (o * n * r->inner + i);
        struct fft_place in = place_of(r->x + at, 2 * r->inner, r->swap, 1);
        struct fft_place out = place_of(r->y + at, 2 * r->inner, r->swap, r->scale);
        f->run(&p->a, buf, buf + (n + 1) * w, &in, &out);
        return;
    }
    for (int l = 0; l < lanes; l++) {
        from[l] = ux * (o * nx * r->inner + i);
        to[l] = uy * (o * ny * r->inner + i);
        if (++i == r->inner)
            o++, i = 0;
    }
    float *other = buf + (m + 1) * w;
    if (r->kind == FFT_REAL)
        f->load_reals(buf, r->x, r->inner, from, nx, lanes);
    else
        f->load(buf, r->x, 2 * r->inner, from, nx, lanes, r->kind == FFT_COMPLEX && r->swap);
    if (r->kind == FFT_HERMITIAN)
        f->unfold(buf, r->n, p->ends);
    if (p->way == LANES) {
        buf = f->run(&p->a, buf, other, NULL, NULL);
    } else {
        const struct fft_smooth *a = &p->conv->a;
        f->multiply(buf, n, p->chirp, false, false);
        memset(buf + n * w, 0, (size_t)((m - n) * w) * sizeof *buf);
        float *there = f->run(a, buf, other, NULL, NULL);
        f->multiply(there, m, p->filter, false, true);
        buf = f->run(a, there, there == buf ? other : buf, NULL, NULL);
        f->multiply(buf, n, p->chirp, true, false);
    }
    if (r->kind == FFT_REAL)
        f->fold(buf, r->n, p->ends);
    if (r->kind == FFT_HERMITIAN)
        f->store_reals(r->y, r->inner, to, buf, ny, lanes, r->scale);
    else
        f->store(r->y, 2 * r->inner, to, buf, ny, lanes, r->kind == FFT_COMPLEX && r->swap, r->scale);
}

static void all_lanes(const struct fft_rows *r, struct room room)
{
    int64_t lanes = cpu->fft->lanes, all = r->outer * r->inner, groups = ceil_div(r->inner, lanes);
    bool aligned = groups * lanes <= r->inner + r->inner / 8; /* few lanes are left without */
    struct sharing s = { *r, aligned ? r->inner : all, aligned ? groups : ceil_div(all, lanes) };
    share_lanes(all / s.each * s.groups, r->p, room, lanes_job, &s);
}

/* ---- one row after the other, or a few at once */

struct by_row {
    struct fft_rows r;
    int64_t each; /* rows of a job */
};

/* Of short rows processors do not foresee the next soon enough: they are asked for it, line by line from where it lies
 * and where it goes, between what is read of a row and what is written. */
static void ask_for(const float *x, int64_t nx, const float *y, int64_t ny)
{
    for (int64_t i = 0; i < nx || i < ny; i += LINE) {
        if (i < nx)
            __builtin_prefetch(x + i);
        if (i < ny)
            __builtin_prefetch(y + i);
    }
}

static void by_row_job(void *ctx, int64_t i, char *space)
{
    const struct by_row *b = ctx;
    const struct fft_rows *r = &b->r;
    const struct fft_kernels *f = cpu->fft;
    const struct fft_plan *p = r->p;
    int64_t n = p->n, m = p->a.n, team = f->lanes / p->ways, end = least((i + 1) * b->each, r->outer);
    int64_t nx = r->kind == FFT_REAL ? r->n : 2 * (r->kind == FFT_HERMITIAN ? n + 1 : n);
    int64_t ny = r->kind == FFT_HERMITIAN ? r->n : 2 * (r->kind == FFT_REAL ? n + 1 : n);
    bool swap = r->kind == FFT_HERMITIAN || r->swap;
    float *buf = (float *)space, *other = buf + m * 2 * f->lanes, *z = other + m * 2 * f->lanes;
    for (int64_t row = i * b->each; row < end; row += team) {
        const float *x[TEAM];
        struct fft_place out = { .parts = team > 2 ? 4 : 2, .step = 2 * p->ways, .swap = swap, .scale = r->scale };
        for (int64_t k = 0; k < team; k++) {
            int64_t at = least(row + k, end - 1); /* where rows are missing the last is taken again */
            x[k] = r->x + at * nx;
            out.at[k] = r->y + at * ny;
            if (r->kind == FFT_HERMITIAN) {
                f->unfold_row(z + 2 * n * k, x[k], p->ends, n, 0, n);
                x[k] = z + 2 * n * k;
            }
        }
        if (team == 1)
            out.at[1] = out.at[0] + f->lanes;
        f->load_rows(buf, x, p->ways, m, p->turns, swap);
        if (n <= ASKED && row + 2 * team <= r->outer)
            ask_for(r->x + (row + team) * nx, team * nx, out.at[0] + team * ny, team * ny);
        if (r->kind == FFT_REAL)
            f->fold_rows(&out, f->run(&p->a, buf, other, NULL, NULL), m, p->ways, p->mirror);
        else
            f->run(&p->a, buf, other, NULL, &out);
    }
}

static int by_row(const struct fft_rows *r)
{
    enum { AT_ONCE = 2048, FOR_ONE = 8192 }; /* numbers of a job, and that one thread takes */
    int64_t n = r->p->n, each = (AT_ONCE / n + TEAM) / TEAM * TEAM, jobs = ceil_div(r->outer, each);
    int threads = r->outer * n < FOR_ONE ? 1 : (int)least(jobs, pool_threads());
    size_t bytes = (size_t)(4 * r->p->a.n * cpu->fft->lanes + TEAM * 2 * n) * sizeof(float);
    struct buffer *space = buffer_new(bytes * (size_t)threads);
    if (!space)
        return 1;
    crew_for(jobs, threads, space->host, bytes, by_row_job, &(struct by_row){ *r, each });
    buffer_release(space);
    return 0;
}

/* ---- one long sequence */

struct split {
    const struct fft_plan *p;
    const float *x;
    float *y, *between; /* [a.n][b.n] */
    bool swap_in, swap_out;
    float scale;
    /* Of convolutions: there are so many elements, all others being 0, and results that are asked for; and numbers by
     * which elements, and results with their parts swapped or not, are multiplied. */
    int64_t elements, results;
    const float *by_in, *by_out;
    bool swap;
};

/* A sequence of `count` numbers, and zeros after them, as a matrix of so many rows and columns: lanes are those columns
 * from c on.  Rows that are whole in these, and in *rest the lanes of one more. */
static int64_t whole_rows(int64_t count, int64_t rows, int64_t cols, int64_t c, int64_t *lanes, int64_t *rest)
{
    *lanes = cols - c < cpu->fft->lanes ? cols - c : cpu->fft->lanes;
    int64_t whole = count >= c + *lanes ? (count - c - *lanes) / cols + 1 : 0;
    whole = whole < rows ? whole : rows;
    *rest = whole < rows ? count - whole * cols - c : 0;
    return whole;
}

static void load_columns(float *buf, const float *x, int64_t count, int64_t rows, int64_t cols, int64_t c, bool swap)
{
    const struct fft_kernels *f = cpu->fft;
    int64_t at[LANES_MOST] = { 0 }, lanes, rest, w = 2 * f->lanes;
    int64_t whole = whole_rows(count, rows, cols, c, &lanes, &rest);
    lanes_from(at, 2 * c, 2);
    f->load(buf, x, 2 * cols, at, whole, (int)lanes, swap);
    if (rest > 0) {
        f->load(buf + whole * w, x + 2 * whole * cols, 2 * cols, at, 1, (int)rest, swap);
        whole++;
    }
    memset(buf + whole * w, 0, (size_t)((rows - whole) * w) * sizeof *buf);
}

static void store_columns(float *y, int64_t count, const float *buf, int64_t rows, int64_t cols, int64_t c, bool swap,
                          float scale)
{
    const struct fft_kernels *f = cpu->fft;
    int64_t at[LANES_MOST] = { 0 }, lanes, rest;
    int64_t whole = whole_rows(count, rows, cols, c, &lanes, &rest);
    lanes_from(at, 2 * c, 2);
    f->store(y, 2 * cols, at, buf, whole, (int)lanes, swap, scale);
    if (rest > 0)
        f->store(y + 2 * whole * cols, 2 * cols, at, buf + whole * 2 * f->lanes, 1, (int)rest, swap, scale);
}

/* Columns from c on: element k of their transforms times e^(-2 pi i k c / n). */
static void columns_job(void *ctx, int64_t i, char *space)
{
    float *buf = (float *)space;
    const struct split *s = ctx;
    const struct fft_plan *p = s->p;
    const struct fft_kernels *f = cpu->fft;
    int64_t n1 = p->a.n, n2 = p->b.n, c = i * f->lanes, w = 2 * f->lanes;
    float *other = buf + n1 * w;
    const float *coarse = p->twiddles + i * twiddles_of(n1);
    if (p->n <= NEAR && c + f->lanes <= n2 && s->elements == p->n && !s->by_in) {
        struct fft_place in = place_of(s->x + 2 * c, 2 * n2, s->swap_in, 1);
        buf = f->run(&p->a, buf, other, &in, NULL);
    } else {
        load_columns(buf, s->x, s->elements, n1, n2, c, s->swap_in);
        if (s->by_in) {
            load_columns(other, s->by_in, s->elements, n1, n2, c, false);
            f->multiply_each(buf, n1, other, false);
        }
        buf = f->run(&p->a, buf, other, NULL, NULL);
    }
    f->twiddle(buf, n1, coarse, coarse + ceil_div(n1, FFT_STEP) * w);
    store_columns(s->between, p->n, buf, n1, n2, c, false, 1);
}

static void rows_job(void *ctx, int64_t i, char *space)
{
    float *buf = (float *)space;
    const struct split *s = ctx;
    const struct fft_plan *p = s->p;
    const struct fft_kernels *f = cpu->fft;
    int64_t n1 = p->a.n, n2 = p->b.n, r = i * f->lanes, at[LANES_MOST];
    int lanes = (int)(n1 - r < f->lanes ? n1 - r : f->lanes);
    float *other = buf + n2 * 2 * f->lanes;
    lanes_from(at, 2 * r * n2, 2 * n2);
    f->load(buf, s->between, 2, at, n2, lanes, false);
    if (lanes == f->lanes && s->results == p->n && !s->by_out) {
        struct fft_place out = place_of(s->y + 2 * r, 2 * n1, s->swap_out, s->scale);
        f->run(&p->b, buf, other, NULL, &out);
        return;
    }
    float *done = f->run(&p->b, buf, other, NULL, NULL);
    if (s->by_out) {
        float *by = done == buf ? other : buf;
        load_columns(by, s->by_out, s->results, n2, n1, r, false);
        f->multiply_each(done, n2, by, s->swap);
    }
    store_columns(s->y, s->results, done, n2, n1, r, s->swap_out, s->scale);
}

static void both_passes(const struct split *s, struct room room)
{
    share_lanes(ceil_div(s->p->b.n, cpu->fft->lanes), s->p, room, columns_job, s);
    share_lanes(ceil_div(s->p->a.n, cpu->fft->lanes), s->p, room, rows_job, s);
}

static void one_split(const struct fft_plan *p, const float *x, float *y, bool swap, float scale, struct room room)
{
    struct split s = { p, x, y, room.line, swap, swap, scale, p->n, p->n, NULL, NULL, false };
    both_passes(&s, room);
}

/* As lanes_job does it: y_k = c_k times the inverse transform of the filter's and x c's product. */
static void one_chirp(const struct fft_plan *p, const float *x, float *y, bool swap, float scale, struct room room)
{
    int64_t n = p->n, m = p->conv->n;
    float *z = room.line, *between = z + (2 * m + 15) / 16 * 16;
    struct split there = { p->conv, x, z, between, swap, true, 1, n, m, p->chirp, p->filter, false };
    struct split back = { p->conv, z, y, between, false, swap, scale, m, n, NULL, p->chirp, true };
    both_passes(&there, room);
    both_passes(&back, room);
}

static void one(const struct fft_plan *p, const float *x, float *y, bool swap, float scale, struct room room)
{
    if (p->way == SPLIT)
        one_split(p, x, y, swap, scale, room);
    else if (!in_lanes(p))
        one_chirp(p, x, y, swap, scale, room);
    else
        all_lanes(&(struct fft_rows){ p, FFT_COMPLEX, x, y, 1, 1, p->n, swap, scale }, room);
}

/* ---- nodes */

/* Element (o, k, i) of a sequence n long from one m long: itself, or the conjugate of n - k. */
struct whole {
    const float *x;
    float *y;
    int64_t n, m, inner;
    bool real;
};

static void fill_conjugates(void *ctx, int64_t begin, int64_t end)
{
    const struct whole *w = ctx;
    for (int64_t r = begin; r < end; r++) {
        int64_t k = r % w->n, o = r / w->n, from = k < w->m ? k : w->n - k;
        bool end_of_half = k == 0 || 2 * k == w->n;
        const float *x = w->x + (o * w->m + from) * w->inner * (w->real ? 1 : 2);
        float *y = w->y + r * w->inner * 2, sign = k < w->m ? 1.0f : -1.0f;
        for (int64_t i = 0; i < w->inner; i++) {
            y[2 * i] = w->real ? x[i] : x[2 * i];
            y[2 * i + 1] = w->real || end_of_half ? 0 : sign * x[2 * i + 1];
        }
    }
}

/* The first m of n, or the real parts. */
static void take_part(void *ctx, int64_t begin, int64_t end)
{
    const struct whole *w = ctx;
    for (int64_t r = begin; r < end; r++) {
        const float *x = w->x + (r / w->m * w->n + r % w->m) * w->inner * 2;
        if (w->real)
            for (int64_t i = 0; i < w->inner; i++) w->y[r * w->inner + i] = x[2 * i];
        else
            memcpy(w->y + r * w->inner * 2, x, (size_t)w->inner * 8);
    }
}

/* Real sequences of even length n = 2 m, whose rows lie without gaps: taken as m complex numbers (shared/fourier.h),
 * from which come m + 1 of the transform, or the other way round. */
struct even {
    const float *x, *w;
    float *y;
    int64_t m;
    bool real; /* is x, before it was transformed */
};
enum { PART = 1024 };

static void fold_parts(void *ctx, int64_t begin, int64_t end)
{
    const struct even *f = ctx;
    int64_t m = f->m, parts = m / PART + 1, nx = m + !f->real, ny = m + f->real;
    for (int64_t r = begin; r < end; r++) {
        int64_t first = r % parts * PART, last = least(first + PART, ny);
        const float *x = f->x + r / parts * nx * 2;
        float *y = f->y + r / parts * ny * 2;
        (f->real ? cpu->fft->fold_row : cpu->fft->unfold_row)(y, x, f->w, m, first, last);
    }
}

/* Long sequences, of which each thread takes whole ones.  Those whose elements lie apart are taken in blocks of
 * neighbours, transposed: a line of memory is then read once for all of them. */
struct long_rows {
    struct fft_rows r;
    int64_t block; /* sequences; 1 where inner is */
    size_t line;   /* floats of line_floats */
};

/* Row g, real or half of a transform, by way of complex numbers behind the lanes. */
static void real_row(const struct fft_rows *r, int64_t g, struct room room)
{
    const struct fft_plan *p = r->p;
    int64_t n = r->n, half = n / 2 + 1, parts = p->n / PART + 1;
    bool real = r->kind == FFT_REAL;
    float *z = room.lanes + lane_floats(p);
    const float *x = r->x + g * (real ? n : 2 * half);
    float *y = r->y + g * (real ? 2 * half : n);
    if (!p->of.pairs) {
        fill_conjugates(&(struct whole){ x, z, n, real ? n : half, 1, real }, 0, n);
        one(p, z, z, !real, r->scale, room);
        take_part(&(struct whole){ z, y, n, real ? half : n, 1, !real }, 0, real ? half : n);
    } else if (real) {
        one(p, x, z, false, r->scale, room);
        fold_parts(&(struct even){ z, p->ends, y, p->n, true }, 0, parts);
    } else {
        fold_parts(&(struct even){ x, p->ends, z, p->n, false }, 0, parts);
        one(p, z, y, true, r->scale, room);
    }
}

static void long_job(void *ctx, int64_t g, char *space)
{
    const struct long_rows *t = ctx;
    const struct fft_rows *r = &t->r;
    int64_t n = r->p->n, blocks = ceil_div(r->inner, t->block), first = g % blocks * t->block;
    int64_t at = 2 * (g / blocks * n * r->inner + first);
    size_t count = (size_t)(r->inner - first < t->block ? r->inner - first : t->block);
    struct room room = { (float *)space, (float *)space + t->line, 1 };
    if (r->kind != FFT_COMPLEX) {
        real_row(r, g, room);
        return;
    }
    if (r->inner == 1) {
        one(r->p, r->x + at, r->y + at, r->swap, r->scale, room);
        return;
    }
    float *z = room.lanes + lane_floats(r->p);
    transpose_fn *transpose = cpu->transpose[3];
    transpose(z, n, r->x + at, r->inner, count, (size_t)n);
    for (size_t i = 0; i < count; i++) {
        float *row = z + 2 * n * (int64_t)i;
        one(r->p, row, row, r->swap, r->scale, room);
    }
    transpose(r->y + at, r->inner, z, n, (size_t)n, count);
}

static int long_rows(const struct fft_rows *r)
{
    struct long_rows t = { *r, r->inner < BLOCK ? r->inner : BLOCK, line_floats(r->p) };
    int64_t jobs = r->outer * ceil_div(r->inner, t.block);
    bool between = r->inner > 1 || r->kind != FFT_COMPLEX;
    size_t each = t.line + lane_floats(r->p) + (between ? (size_t)(2 * r->p->n * t.block) : 0);
    int threads = jobs < pool_threads() ? (int)jobs : pool_threads();
    each = (each + 15) / 16 * 16;
    struct buffer *space = buffer_new(each * (size_t)threads * sizeof(float));
    if (!space)
        return 1;
    crew_for(jobs, threads, space->host, each * sizeof(float), long_job, &t);
    buffer_release(space);
    return 0;
}

/* Does each thread get whole ones?  Sequences that are not very long are shared out badly: threads meet four times. */
static bool enough_rows(int64_t rows, int64_t n)
{
    enum { VERY_LONG = 1 << 16 };
    int threads = pool_threads();
    return rows >= 2 * threads || (rows > 1 && 2 * rows >= threads && n <= VERY_LONG);
}

/* The complex sequences of x, of any layout of rows; y may be x.  Non-zero after a failure, before anything is
 * written. */
static int transform(const struct fft_plan *p, const float *x, float *y, int64_t outer, int64_t inner, bool inverse,
                     float scale)
{
    int64_t n = p->n, rows = outer * inner;
    int threads = pool_threads();
    struct fft_rows r = { p, FFT_COMPLEX, x, y, outer, inner, n, inverse, scale };
    struct room room;
    if (p->way == ROWS)
        return by_row(&r);
    if (!in_lanes(p) && (enough_rows(rows, n) || inner > 1))
        return long_rows(&r);
    struct buffer *space = room_make(p, threads, &room);
    if (!space)
        return 1;
    if (in_lanes(p))
        all_lanes(&r, room);
    else
        for (int64_t i = 0; i < rows; i++) one(p, x + 2 * i * n, y + 2 * i * n, inverse, scale, room);
    buffer_release(space);
    return 0;
}

static int transform_even(const struct fft_plan *p, enum fft_kind kind, const float *x, float *y, int64_t rows,
                          float scale)
{
    int64_t m = p->n, parts = rows * (m / PART + 1), grain = WORTH_TURNED / (m < PART ? m : PART) + 1;
    struct buffer *z = buffer_new((size_t)(rows * m) * 8);
    int failed = !z;
    if (failed) {
        /* nothing to do */
    } else if (kind == FFT_REAL) {
        failed = transform(p, x, z->host, rows, 1, false, scale);
        pool_for(parts, grain, fold_parts, &(struct even){ z->host, p->ends, y, m, true });
    } else {
        pool_for(parts, grain, fold_parts, &(struct even){ x, p->ends, z->host, m, false });
        failed = transform(p, z->host, y, rows, 1, true, scale);
    }
    if (z)
        buffer_release(z);
    return failed;
}

static int64_t longest_whole(int64_t outer, int64_t inner)
{
    bool few = outer * inner <= FEW || (inner == 1 && outer <= NOT_MANY);
    return few ? SHORT : inner < FEW ? WHOLE : TALL;
}

/* How many may be taken at once, each by itself.  Of a few, the longer ones are rather shared out among threads. */
static int team_of(int64_t n, int64_t outer, int64_t inner)
{
    bool fits = inner == 1 && n <= (outer > FEW ? BY_ROW : WHOLE);
    return !fits ? 0 : outer < TEAM ? TEAM / 2 : TEAM;
}

/* Real sequences, whole ones or halves of transforms. */
static int transform_real(const struct fft_args *a, const float *x, float *y, int64_t outer, int64_t inner)
{
    int64_t n = a->n, half = n / 2 + 1;
    int64_t whole = longest_whole(outer, inner);
    bool pairs = n % 2 == 0;
    int64_t length = pairs ? n / 2 : n;
    int team = a->kind == FFT_REAL || n >= UNFOLDED ? team_of(length, outer, inner) : 0;
    struct fft_plan *p = plan_take((struct fft_plan_of){ length, whole, pairs, team });
    int failed = !p;
    struct room room;
    struct buffer *space = NULL;
    if (failed) {
        /* nothing to do */
    } else if (p->way == ROWS) {
        failed = by_row(&(struct fft_rows){ p, a->kind, x, y, outer, 1, n, false, (float)a->scale });
    } else if (in_lanes(p)) {
        space = room_make(p, pool_threads(), &room);
        failed = !space;
        if (!failed)
            all_lanes(&(struct fft_rows){ p, a->kind, x, y, outer, inner, n, false, (float)a->scale }, room);
    } else if (inner == 1 && enough_rows(outer, n)) {
        failed = long_rows(&(struct fft_rows){ p, a->kind, x, y, outer, 1, n, false, (float)a->scale });
    } else if (inner == 1 && pairs) {
        failed = transform_even(p, a->kind, x, y, outer, (float)a->scale);
    } else {
        bool real = a->kind == FFT_REAL;
        int64_t grain = WORTH_TURNED / inner + 1;
        plan_give(p);
        p = plan_take((struct fft_plan_of){ n, whole, false, team_of(n, outer, inner) });
        space = p ? buffer_new((size_t)(outer * n * inner) * 8) : NULL;
        failed = !space;
        if (!failed) {
            struct whole in = { x, space->host, n, real ? n : half, inner, real };
            struct whole out = { space->host, y, n, real ? half : n, inner, !real };
            pool_for(outer * n, grain, fill_conjugates, &in);
            failed = transform(p, space->host, space->host, outer, inner, a->inverse, (float)a->scale);
            if (!failed)
                pool_for(outer * out.m, grain, take_part, &out);
        }
    }
    if (space)
        buffer_release(space);
    plan_give(p);
    return failed;
}

static int transform_complex(const struct fft_args *a, const float *x, float *y, int64_t outer, int64_t inner)
{
    int team = team_of(a->n, outer, inner);
    struct fft_plan *p = plan_take((struct fft_plan_of){ a->n, longest_whole(outer, inner), false, team });
    int failed = !p || transform(p, x, y, outer, inner, a->inverse, (float)a->scale);
    plan_give(p);
    return failed;
}

int run_fft(const struct run *r)
{
    const struct fft_args *a = r->args;
    mx x = r->x[0], y = r->y[0];
    MX_SCOPE(NULL);
    mx_own hold = { NULL };
    mx z = row_major(x, &hold);
    bool complex = a->kind == FFT_COMPLEX;
    int failed = is_nil(z);
    if (!failed && complex && hold.it) /* of the copy, which is ours */
        out_take(y, z);
    else
        failed = failed || (complex ? out_over(r, 0, 0) : out_new(r, 0));
    if (!failed && y->size) {
        int64_t outer = 1, inner = 1;
        for (int i = 0; i < a->axis; i++) outer *= x->shape[i];
        for (int i = a->axis + 1; i < x->ndim; i++) inner *= x->shape[i];
        failed = (complex ? transform_complex : transform_real)(a, host(z), host(y), outer, inner);
    }
    mx_drop(&hold);
    return failed;
}
