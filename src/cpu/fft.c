/* fft.c: Fourier transforms on the CPU.
 *
 * The kernels transform several sequences side by side, one in each lane of their vectors.  Lanes
 * are rows of a batch, or else the columns and rows of one long sequence of n1 n2 elements: columns
 * are transformed, multiplied by e^(-2 pi i j k / n), then rows.  Lengths with a large prime factor
 * become convolutions of a length without (Bluestein): with jk = (j^2 + k^2 - (k - j)^2) / 2,
 *     X_k = c_k sum_j (x_j c_j) conj(c_(k - j)),    c_j = e^(-pi i j^2 / n).
 *
 * Factors are computed in double and rounded once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/sizes.h"
#include "cpu/crew.h"
#include "cpu/kernels/fft.h"
#include "cpu/run.h"
#include "ops/fft.h"
#include "plan/fourier.h"
#include "shared/scalar.h"

#include "shared/fourier.h"

enum {
    WHOLE = 4096, /* longest sequence that lanes hold as a whole, for its buffers to stay in L2 */
    FEW = 4,      /* rows that are rather split than put into lanes */
    SHORT = 64,   /* but for short ones */
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
        pool_for(count, 4096, some_roots, &(struct roots){ w, &t, squares });
    free(t.coarse);
    return failed;
}

struct fft_plan {
    int64_t n;
    enum way { LANES, SPLIT, CHIRP } way;
    struct fft_smooth a, b; /* LANES: a; SPLIT: columns of length a.n, rows of length b.n */
    struct root_table t;    /* SPLIT */
    struct fft_plan *conv;  /* CHIRP: of the convolution */
    float *chirp;           /* c_j */
    float *filter;          /* transform of conj(c), over its length */
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
    free(p->t.coarse);
    free(p->chirp);
    free(p->filter);
    free(p);
}

static int smooth_make(struct fft_smooth *s, int64_t n)
{
    int64_t left = n, numbers = 0, roots = 0;
    s->n = n;
    s->stages = fourier_radices(n, FFT_RADIX, s->radix);
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

static int split_make(struct fft_plan *p)
{
    int64_t n2 = fourier_divisor(p->n, p->n), n1 = p->n / n2;
    if (smooth_make(&p->a, n1) || smooth_make(&p->b, n2))
        return 1;
    return table_make(&p->t, p->n);
}

static int one(const struct fft_plan *p, const float *x, int64_t sx, float *y, int64_t sy, bool swap, float scale);

static struct fft_plan *plan_make(int64_t n, bool many);

static int chirp_make(struct fft_plan *p, bool many)
{
    int64_t n = p->n, m = fourier_length_above(2 * n - 1);
    p->conv = plan_make(m, many);
    p->chirp = mx_malloc((size_t)(2 * n) * sizeof(float));
    p->filter = mx_malloc((size_t)(2 * m) * sizeof(float));
    float *c = mx_malloc((size_t)(2 * m) * sizeof(float));
    bool failed = !p->conv || !p->chirp || !p->filter || !c;
    if (!failed) {
        memset(c, 0, (size_t)(2 * m) * sizeof(float));
        failed = roots_make(p->chirp, n, 2 * n, true);
        for (int64_t j = 0; j < n; j++) {
            float re = p->chirp[2 * j], im = p->chirp[2 * j + 1];
            float *at[] = { c + 2 * j, c + 2 * (j ? m - j : 0) };
            for (int k = 0; k < 2; k++) {
                at[k][0] = re;
                at[k][1] = -im;
            }
        }
        failed = failed || one(p->conv, c, 1, p->filter, 1, false, 1 / (float)m);
    }
    free(c);
    return failed;
}

/* NULL after a failure. */
static struct fft_plan *plan_make(int64_t n, bool many)
{
    struct fft_plan *p = mx_malloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (struct fft_plan){ .n = n };
    int failed, radix[FOURIER_STAGES];
    if (fourier_radices(n, FFT_RADIX, radix) < 0) {
        p->way = CHIRP;
        failed = chirp_make(p, many);
    } else if (n <= SHORT || (many && n <= WHOLE)) {
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

/* Is everything done in lanes? */
static bool in_lanes(const struct fft_plan *p) { return p->way == LANES || (p->way == CHIRP && p->conv->way == LANES); }

/* ---- threads that need room to work in */

/* fn for 0..n, each thread with so many buffers for sequences of length `length`; a little work
 * stays here. */
static int share_lines(int64_t n, int64_t length, int buffers, void (*fn)(void *, int64_t, char *), const void *ctx)
{
    int threads = n * length * cpu->fft->lanes < 8192 ? 1 : pool_threads();
    threads = n < threads ? (int)n : threads;
    size_t bytes = (size_t)buffers * (size_t)(length * 2 * cpu->fft->lanes) * sizeof(float);
    char *all = mx_malloc(bytes * (size_t)threads + 64);
    if (!all)
        return 1;
    crew_for(n, threads, (char *)(((uintptr_t)all + 63) / 64 * 64), bytes, fn, (void *)ctx);
    free(all);
    return 0;
}

/* ---- lanes */

/* `rows` sequences: element j of row (o, i) at o * outer + j * step + i * inner. */
struct fft_rows {
    const struct fft_plan *p;
    const float *x;
    float *y;
    int64_t n_outer, n_inner;
    int64_t outer, step, inner;
    bool swap;
    float scale;
};

static void lanes_job(void *ctx, int64_t i, char *space)
{
    float *buf = (float *)space;
    const struct fft_rows *r = ctx;
    const struct fft_kernels *f = cpu->fft;
    const struct fft_plan *p = r->p;
    int64_t groups = ceil_div(r->n_inner, f->lanes), first = i % groups * f->lanes;
    int64_t at = 2 * (i / groups * r->outer + first * r->inner);
    int lanes = (int)(r->n_inner - first < f->lanes ? r->n_inner - first : f->lanes);
    int64_t n = p->n, m = p->way == CHIRP ? p->conv->n : n;
    float *other = buf + m * 2 * f->lanes;
    f->load(buf, r->x + at, r->step, r->inner, n, lanes, r->swap);
    if (p->way == LANES) {
        buf = f->run(&p->a, buf, other);
    } else {
        const struct fft_smooth *s = &p->conv->a;
        f->multiply(buf, n, p->chirp, false, false);
        memset(buf + n * 2 * f->lanes, 0, (size_t)((m - n) * 2 * f->lanes) * sizeof *buf);
        float *there = f->run(s, buf, other);
        f->multiply(there, m, p->filter, false, true);
        buf = f->run(s, there, there == buf ? other : buf);
        f->multiply(buf, n, p->chirp, true, false);
    }
    f->store(r->y + at, r->step, r->inner, buf, n, lanes, r->swap, r->scale);
}

static int all_lanes(const struct fft_rows *r)
{
    int64_t groups = ceil_div(r->n_inner, cpu->fft->lanes);
    int64_t m = r->p->way == CHIRP ? r->p->conv->n : r->p->n;
    return share_lines(r->n_outer * groups, m, 2, lanes_job, r);
}

/* ---- one long sequence */

struct split {
    const struct fft_plan *p;
    const float *x;
    float *y, *between; /* [a.n][b.n] */
    int64_t sx, sy;
    bool swap;
    float scale;
};

/* e^(-2 pi i j k / n) for k < count, w apart; the imaginary parts follow after half of that. */
static void powers(const struct fft_plan *p, float *to, int64_t w, int64_t count, int64_t j)
{
    for (int64_t k = 0, at = 0; k < count; k++, to += w) {
        table_get(&p->t, at, to, to + w / 2);
        at += j;
        at -= at >= p->n ? p->n : 0;
    }
}

/* Columns from c on: element k of their transforms times e^(-2 pi i k c / n). */
static void columns_job(void *ctx, int64_t i, char *space)
{
    float *buf = (float *)space;
    const struct split *s = ctx;
    const struct fft_plan *p = s->p;
    const struct fft_kernels *f = cpu->fft;
    int64_t n1 = p->a.n, n2 = p->b.n, c = i * f->lanes, w = 2 * f->lanes;
    int64_t blocks = ceil_div(n1, FFT_STEP);
    int lanes = (int)(n2 - c < f->lanes ? n2 - c : f->lanes);
    float *other = buf + n1 * w, *coarse = other + n1 * w, *fine = coarse + blocks * w;
    f->load(buf, s->x + 2 * c * s->sx, n2 * s->sx, s->sx, n1, lanes, s->swap);
    buf = f->run(&p->a, buf, other);
    for (int64_t l = 0; l < f->lanes; l++) {
        powers(p, coarse + l, w, blocks, FFT_STEP * (c + l) % p->n);
        powers(p, fine + l, w, FFT_STEP, (c + l) % p->n);
    }
    f->twiddle(buf, n1, coarse, fine);
    f->store(s->between + 2 * c, n2, 1, buf, n1, lanes, false, 1);
}

static void rows_job(void *ctx, int64_t i, char *space)
{
    float *buf = (float *)space;
    const struct split *s = ctx;
    const struct fft_plan *p = s->p;
    const struct fft_kernels *f = cpu->fft;
    int64_t n1 = p->a.n, n2 = p->b.n, r = i * f->lanes;
    int lanes = (int)(n1 - r < f->lanes ? n1 - r : f->lanes);
    f->load(buf, s->between + 2 * r * n2, 1, n2, n2, lanes, false);
    buf = f->run(&p->b, buf, buf + n2 * 2 * f->lanes);
    f->store(s->y + 2 * r * s->sy, n1 * s->sy, s->sy, buf, n2, lanes, s->swap, s->scale);
}

static int one_split(const struct fft_plan *p, const float *x, int64_t sx, float *y, int64_t sy, bool swap, float scale)
{
    int64_t n1 = p->a.n, n2 = p->b.n, lanes = cpu->fft->lanes;
    struct buffer *between = buffer_new((size_t)(2 * p->n) * sizeof(float));
    if (!between)
        return 1;
    struct split s = { p, x, y, between->host, sx, sy, swap, scale };
    int64_t longest = n1 > n2 ? n1 : n2;
    int failed = share_lines(ceil_div(n2, lanes), longest + 2 * FFT_STEP, 3, columns_job, &s) ||
                 share_lines(ceil_div(n1, lanes), longest, 2, rows_job, &s);
    buffer_release(between);
    return failed;
}

/* y = a b of numbers sa and sy apart; swap changes the parts of a, turn those of y. */
struct products {
    float *y;
    int64_t sy;
    const float *a;
    int64_t sa;
    const float *b;
    bool swap, turn;
    float scale;
};
static void multiply_some(void *ctx, int64_t begin, int64_t end)
{
    const struct products *p = ctx;
    for (int64_t j = begin; j < end; j++) {
        const float *a = p->a + 2 * j * p->sa, *b = p->b + 2 * j;
        float *y = p->y + 2 * j * p->sy, re = a[p->swap], im = a[!p->swap];
        float u = re * b[0] - im * b[1], v = re * b[1] + im * b[0];
        y[p->turn] = u * p->scale;
        y[!p->turn] = v * p->scale;
    }
}

/* As lanes_job does it, in memory. */
static int one_chirp(const struct fft_plan *p, const float *x, int64_t sx, float *y, int64_t sy, bool swap, float scale)
{
    int64_t m = p->conv->n, grain = 8192;
    size_t bytes = (size_t)(2 * m) * sizeof(float);
    struct buffer *all = buffer_new(2 * bytes);
    if (!all)
        return 1;
    float *a = all->host, *b = a + 2 * m;
    pool_for(p->n, grain, multiply_some, &(struct products){ a, 1, x, sx, p->chirp, swap, false, 1 });
    memset(a + 2 * p->n, 0, bytes - (size_t)(2 * p->n) * sizeof(float));
    int failed = one(p->conv, a, 1, b, 1, false, 1);
    pool_for(m, grain, multiply_some, &(struct products){ b, 1, b, 1, p->filter, false, true, 1 });
    failed = failed || one(p->conv, b, 1, a, 1, false, 1);
    pool_for(p->n, grain, multiply_some, &(struct products){ y, sy, a, 1, p->chirp, true, swap, scale });
    buffer_release(all);
    return failed;
}

static int one(const struct fft_plan *p, const float *x, int64_t sx, float *y, int64_t sy, bool swap, float scale)
{
    if (p->way == SPLIT)
        return one_split(p, x, sx, y, sy, swap, scale);
    if (!in_lanes(p))
        return one_chirp(p, x, sx, y, sy, swap, scale);
    struct fft_rows r = { p, x, y, 1, 1, 0, sx, 0, swap, scale };
    return all_lanes(&r);
}

/* ---- nodes */

/* The complex sequences of x, of any layout of rows. */
static int transform(const float *x, float *y, int64_t outer, int64_t n, int64_t inner, bool inverse, float scale)
{
    int64_t rows = inner == 1 ? outer : inner;
    struct fft_plan *p = plan_make(n, rows > FEW);
    int failed = !p;
    if (p && in_lanes(p)) {
        struct fft_rows r = { p, x, y, outer, inner, n * inner, inner, 1, inverse, scale };
        if (inner == 1)
            r = (struct fft_rows){ p, x, y, 1, outer, 0, 1, n, inverse, scale };
        failed = all_lanes(&r);
    } else {
        for (int64_t i = 0; i < outer * inner && !failed; i++) {
            int64_t at = 2 * (i / inner * n * inner + i % inner);
            failed = one(p, x + at, inner, y + at, inner, inverse, scale);
        }
    }
    plan_free(p);
    return failed;
}

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

/* Real sequences of even length n = 2 m, whose rows lie without gaps: taken as m complex numbers (shared/fourier.h). */
struct even {
    const float *x, *w;
    float *y;
    int64_t m;
};
enum { PART = 1024 };

static complex64 number(const float *x, int64_t k) { return (complex64){ x[2 * k], x[2 * k + 1] }; }
static void put_number(float *y, int64_t k, complex64 v)
{
    y[2 * k] = v.re;
    y[2 * k + 1] = v.im;
}

static void fold_real(void *ctx, int64_t begin, int64_t end)
{
    const struct even *f = ctx;
    int64_t m = f->m, parts = m / PART + 1;
    for (int64_t r = begin; r < end; r++) {
        const float *x = f->x + r / parts * m * 2;
        float *y = f->y + r / parts * (m + 1) * 2;
        int64_t first = r % parts * PART, last = first + PART < m + 1 ? first + PART : m + 1;
        for (int64_t k = first; k < last; k++) {
            complex64 a = number(x, k < m ? k : 0), b = number(x, k ? m - k : 0);
            put_number(y, k, fourier_fold(a, b, number(f->w, k)));
        }
    }
}

static void unfold_real(void *ctx, int64_t begin, int64_t end)
{
    const struct even *f = ctx;
    int64_t m = f->m, parts = m / PART + 1;
    for (int64_t r = begin; r < end; r++) {
        const float *x = f->x + r / parts * (m + 1) * 2;
        float *y = f->y + r / parts * m * 2;
        int64_t first = r % parts * PART, last = first + PART < m ? first + PART : m;
        for (int64_t k = first; k < last; k++) {
            complex64 a = number(x, k), b = number(x, m - k);
            a.im = k ? a.im : 0; /* the ends are real */
            b.im = k ? b.im : 0;
            put_number(y, k, fourier_unfold(a, b, number(f->w, k)));
        }
    }
}

static int transform_even(enum fft_kind kind, const float *x, float *y, int64_t rows, int64_t n, float scale)
{
    int64_t m = n / 2, parts = rows * (m / PART + 1), grain = 4096 / (m < PART ? m : PART) + 1;
    struct buffer *z = buffer_new((size_t)(rows * m) * 8), *w = z ? buffer_new((size_t)(m + 1) * 8) : NULL;
    int failed = !w;
    if (!failed) {
        failed = roots_make(w->host, m + 1, n, false);
        if (failed) {
            /* nothing to do */
        } else if (kind == FFT_REAL) {
            failed = transform(x, z->host, rows, m, 1, false, scale);
            pool_for(parts, grain, fold_real, &(struct even){ z->host, w->host, y, m });
        } else {
            pool_for(parts, grain, unfold_real, &(struct even){ x, w->host, z->host, m });
            failed = transform(z->host, y, rows, m, 1, true, scale);
        }
    }
    if (z)
        buffer_release(z);
    if (w)
        buffer_release(w);
    return failed;
}

int run_fft(const struct run *r)
{
    const struct fft_args *a = r->args;
    mx x = r->x[0], y = r->y[0];
    MX_SCOPE(NULL);
    mx_own hold = { NULL };
    mx z = row_major(x, &hold);
    int failed = is_nil(z) || out_new(r, 0);
    if (!failed && y->size) {
        int64_t outer = 1, inner = 1, n = a->n, half = n / 2 + 1;
        for (int i = 0; i < a->axis; i++) outer *= x->shape[i];
        for (int i = a->axis + 1; i < x->ndim; i++) inner *= x->shape[i];
        struct buffer *wide = NULL;
        if (a->kind == FFT_COMPLEX) {
            failed = transform(host(z), host(y), outer, n, inner, a->inverse, (float)a->scale);
        } else if (inner == 1 && n % 2 == 0 && (uintptr_t)host(z) % 8 == 0) { /* pairs are read as complex numbers */
            failed = transform_even(a->kind, host(z), host(y), outer, n, (float)a->scale);
        } else if (!(wide = buffer_new((size_t)(outer * n * inner) * 8))) {
            failed = 1;
        } else {
            bool real = a->kind == FFT_REAL;
            int64_t grain = 4096 / inner + 1;
            struct whole in = { host(z), wide->host, n, real ? n : half, inner, real };
            struct whole out = { wide->host, host(y), n, real ? half : n, inner, !real };
            pool_for(outer * n, grain, fill_conjugates, &in);
            failed = transform(wide->host, wide->host, outer, n, inner, a->inverse, (float)a->scale);
            if (!failed)
                pool_for(outer * out.m, grain, take_part, &out);
        }
        if (wide)
            buffer_release(wide);
    }
    mx_drop(&hold);
    return failed;
}
