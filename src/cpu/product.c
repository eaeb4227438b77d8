/* product.c: how a matrix product is cut up and who computes which part.
 *
 * The general way: blocks of C, and for each stretch of K both operands copied into panels by all threads, then tiles
 * of C computed by all threads; or, where these are many, a cell of C by each, from panels of its own.  Panels settle
 * strides, transposition and type at once.  Around it: small products straight from the operands, one to four rows or
 * columns as matrix times vector, a C too small to share cut along K instead, and batches of products one per thread.
 * Which way is taken may depend on the number of threads and on layout, but the order of summation does not
 * (kernels/gemm.h). */
#include "cpu/product.h"

#include <stdbool.h>
#include <string.h>

#include "core/buffer.h"
#include "core/error.h"
#include "core/pool.h"
#include "core/sizes.h"
#include "cpu/bf16.h"
#include "cpu/crew.h"
#include "cpu/kernels.h"
#include "cpu/kernels/gemm.h"
#include "cpu/worth.h"

enum {
    BLOCK = 2048, /* rows and columns of C that panels are made for at once */
    TILE_M = 192, /* what one thread computes at a time: its panels of B fit the L2 cache */
    TILE_N = 256,
    FEW = GEMV_VECTORS, /* rows or columns that are treated as vectors */
    RUN = 512,          /* elements converted at a time */
    WIDEST = 64,        /* panel there is */
    ALIGN = 64,
};

/* What holds for every product of a batch. */
struct batch_plan {
    const struct product *q;
    const struct gemm_kernel *g;
    gemv_fn *gemv;
    enum dtype ct;     /* computed in */
    size_t item, size; /* bytes of an element, and of one computed in */
    bool convert;      /* the two types differ */
    bool finish;       /* sums are not the result yet */
    int64_t stretch, stretches;
    enum way { ZERO, DIRECT, VECTORS, PANELS } way;
    bool turned; /* VECTORS: b's columns are the rows of the matrix, a's rows the vectors */
};

/* One product. */
struct one {
    const struct batch_plan *p;
    struct matrix a, b, c;
    char *y;
    char *space; /* workspace() bytes */
    bool parallel;
};

static size_t aligned(int64_t bytes) { return (size_t)(ceil_div(bytes, ALIGN) * ALIGN); }
static struct matrix transposed(struct matrix x) { return (struct matrix){ x.p, x.cs, x.rs }; }

static int64_t steps_of(const struct batch_plan *p, int64_t depth) { return gemm_steps(p->g, depth); }

static struct matrix at(const struct batch_plan *p, struct matrix x, int64_t i, int64_t j)
{
    x.p = (const char *)x.p + (i * x.rs + j * x.cs) * (int64_t)p->item;
    return x;
}

static void share_product(bool parallel, int64_t n, int64_t grain, void (*fn)(void *, int64_t, int64_t), void *ctx)
{
    if (parallel)
        pool_for(n, grain, fn, ctx);
    else if (n > 0)
        fn(ctx, 0, n);
}

/* ---- one type into another ---- */

/* n <= RUN elements, `stride` apart, in the type computed in and without gaps: where they are, or
 * in `to`. */
static const void *load_run(const struct batch_plan *p, void *to, const void *x, int64_t stride, int64_t n)
{
    static const uint8_t log2[] = { [1] = 0, [2] = 1, [4] = 2, [8] = 3 };
    if (!p->convert && stride == 1)
        return x;
    uint64_t gathered[RUN];
    if (stride != 1) {
        void *side_by_side = p->convert ? gathered : to;
        cpu->move[log2[p->item]](side_by_side, 1, x, stride, (size_t)n);
        x = side_by_side;
    }
    if (p->convert)
        cpu->cast[p->q->t][p->ct](to, x, (size_t)n);
    return to;
}

static void load_into(const struct batch_plan *p, void *to, const void *x, int64_t stride, int64_t n)
{
    for (int64_t i = 0; i < n; i += RUN) {
        int64_t some = least(n - i, RUN);
        char *part = (char *)to + (size_t)i * p->size;
        const void *from = load_run(p, part, (const char *)x + i * stride * (int64_t)p->item, stride, some);
        if (from != part)
            memcpy(part, from, (size_t)some * p->size);
    }
}

/* As gemm_kernel.pack, from rows of x, A's or else B's columns, that may need conversion. */
static void pack_converted(const struct batch_plan *p, bool of_a, char *panels, int64_t stride, struct matrix x,
                           int64_t n, int64_t k)
{
    const int width = of_a ? p->g->mr : p->g->nr;
    enum { STEPS = 16, LONG = STEPS * RUN / WIDEST };
    uint32_t part[STEPS * RUN];          /* types that need conversion are computed in 4 bytes */
    if (!p->convert || p->g->pace > 1) { /* pairs are taken as they are stored */
        gemm_pack(p->g, of_a, panels, stride, x.p, x.rs, x.cs, n, k);
        return;
    }
    char *to = (char *)part;
    if (x.rs == 1) { /* convert along the vectors' starts, several panels at once */
        int64_t wide = RUN / width * width;
        for (int64_t i = 0; i < n; i += wide)
            for (int64_t s = 0; s < k; s += STEPS) {
                int64_t ni = least(n - i, wide), ns = least(k - s, STEPS);
                for (int64_t r = 0; r < ns; r++)
                    load_into(p, to + (size_t)(r * RUN) * p->size, at(p, x, i, s + r).p, 1, ni);
                p->g->pack(panels + (size_t)(i / width * stride + s * width) * p->size, stride, width, to, 1, RUN, ni,
                           ns);
            }
        return;
    }
    for (int64_t i = 0; i < n; i += width, panels += (size_t)stride * p->size)
        for (int64_t s = 0; s < k; s += LONG) {
            int64_t ni = least(n - i, width), ns = least(k - s, LONG);
            for (int64_t r = 0; r < ni; r++)
                load_into(p, to + (size_t)(r * LONG) * p->size, at(p, x, i + r, s).p, x.cs, ns);
            p->g->pack(panels + (size_t)(s * width) * p->size, stride, width, to, LONG, 1, ni, ns);
        }
}

/* From sums to results, for the m by n part of y that begins at (i, j): alpha, c and beta, and the
 * type.  Without conversion the sums are in y already. */
static void finish_part(const struct one *o, const char *sums, int64_t ld, int64_t i, int64_t j, int64_t m, int64_t n)
{
    const struct batch_plan *p = o->p;
    const struct product *q = p->q;
    bool scale = q->alpha != 1 || q->c.p;
    uint64_t c_here[RUN], y_here[RUN];
    if (!p->finish)
        return;
    for (int64_t r = 0; r < m; r++)
        for (int64_t s = 0; s < n; s += RUN) {
            int64_t some = least(n - s, RUN);
            void *y = o->y + (size_t)((i + r) * q->n + j + s) * p->item;
            const void *x = sums + (size_t)(r * ld + s) * p->size;
            if (scale) {
                const void *c = NULL;
                if (q->c.p)
                    c = load_run(p, c_here, at(p, o->c, i + r, j + s).p, o->c.cs, some);
                void *to = p->convert ? y_here : y;
                p->g->axpby(to, x, q->alpha, c, q->beta, some);
                x = to;
            }
            if (p->convert)
                cpu->cast[p->ct][q->t](y, x, (size_t)some);
        }
}

/* ---- panels ---- */

/* A block of C and the stretch of K at hand. */
struct block {
    const struct one *o;
    int64_t i, j, m, n;      /* the block */
    int64_t k, depth, steps; /* the stretch */
    int64_t pa, pb;          /* numbers of panels */
    int64_t tm, tn, across;  /* size of tiles; tiles down a column of them */
    char *a, *b;             /* panels */
    char *sums;
    int64_t ld;
    bool last;
};

static void pack_panels(void *ctx, int64_t begin, int64_t end)
{
    const struct block *k = ctx;
    const struct batch_plan *p = k->o->p;
    int mr = p->g->mr, nr = p->g->nr;
    int64_t b0 = begin, b1 = least(end, k->pb);
    if (b0 < b1)
        pack_converted(p, false, k->b + (size_t)(b0 * nr * k->steps) * p->size, nr * k->steps,
                       transposed(at(p, k->o->b, k->k, k->j + b0 * nr)), least(b1 * nr, k->n) - b0 * nr, k->depth);
    int64_t a0 = begin > k->pb ? begin - k->pb : 0, a1 = end - k->pb;
    if (a0 < a1)
        pack_converted(p, true, k->a + (size_t)(a0 * mr * k->steps) * p->size, mr * k->steps,
                       at(p, k->o->a, k->i + a0 * mr, k->k), least(a1 * mr, k->m) - a0 * mr, k->depth);
}

static void compute_tiles(void *ctx, int64_t begin, int64_t end)
{
    const struct block *k = ctx;
    const struct batch_plan *p = k->o->p;
    const struct gemm_kernel *g = p->g;
    for (int64_t t = begin; t < end; t++) {
        int64_t i = t % k->across * k->tm, j = t / k->across * k->tn;
        int64_t m = least(k->tm, k->m - i), n = least(k->tn, k->n - j);
        char *sums = k->sums + (size_t)(i * k->ld + j) * p->size;
        g->tile(sums, k->ld, k->a + (size_t)(i * k->steps) * p->size, g->mr * k->steps,
                k->b + (size_t)(j * k->steps) * p->size, g->nr * k->steps, m, n, k->steps, k->k > 0);
        if (k->last)
            finish_part(k->o, sums, k->ld, k->i + i, k->j + j, m, n);
    }
}

/* Tiles small enough for every thread to get several, multiples of the register tile. */
static void choose_tiles(struct block *k, const struct gemm_kernel *g, int threads)
{
    k->tm = ceil_div(TILE_M, g->mr) * g->mr;
    k->tn = ceil_div(TILE_N, g->nr) * g->nr;
    while (threads > 1 && ceil_div(k->m, k->tm) * ceil_div(k->n, k->tn) < 6 * threads) {
        if (k->tn >= 2 * k->tm && k->tn > g->nr)
            k->tn = ceil_div(k->tn / 2, g->nr) * g->nr;
        else if (k->tm > 2 * g->mr)
            k->tm = ceil_div(k->tm / 2, g->mr) * g->mr;
        else
            break;
    }
    k->across = ceil_div(k->m, k->tm);
}

/* Bytes of panels for `rows` rows or columns of an operand. */
static size_t product_panel_bytes(const struct batch_plan *p, int64_t rows, int width)
{
    return aligned(ceil_div(least(rows, BLOCK + width), width) * width * steps_of(p, p->stretch) * (int64_t)p->size);
}

/* Where many threads work on one block each packs for itself: panels that others have read cost who writes them anew
 * more than packing several times over does.  C falls into as many cells as there are threads, about as wide as
 * they are high, and each of those into tiles, whose panels a thread keeps until it needs the place for others. */
enum { KEPT = 8, TILE = 64 }; /* tiles whose panels are kept of an operand; rows of one, about */
struct kept {
    int64_t a[KEPT], b[KEPT]; /* numbers of those tiles, before their panels; -1: none */
};
_Static_assert(sizeof(struct kept) % ALIGN == 0, "panels are aligned");
struct edge {
    int64_t panels, cells, each; /* of the block; across it; tiles in a cell */
    int width;
    size_t bytes; /* of the panels of a tile */
};
struct cells {
    struct block *k;
    struct edge a, b;
};

static struct edge edge_of(const struct batch_plan *p, int64_t n, int width, int64_t cells)
{
    struct edge s = { .panels = ceil_div(n, width), .width = width };
    s.cells = least(cells, s.panels);
    s.each = least(KEPT, greatest(1, least(s.panels / s.cells, ceil_div(ceil_div(n, s.cells), TILE))));
    s.bytes = aligned(ceil_div(s.panels, s.cells * s.each) * width * steps_of(p, p->stretch) * (int64_t)p->size);
    return s;
}

static struct cells choose_cells(const struct batch_plan *p, int64_t m, int64_t n, int threads)
{
    const struct gemm_kernel *g = p->g;
    int64_t across = 1;
    while (across < threads && across * across * m < threads * n) across++;
    if (across > 1 && threads % across && threads % (across - 1) == 0)
        across--;
    struct cells c = { .a = edge_of(p, m, g->mr, ceil_div(threads, across)) };
    c.b = edge_of(p, n, g->nr, across);
    return c;
}

static size_t cell_space(const struct cells *c)
{
    return sizeof(struct kept) + (size_t)c->a.each * c->a.bytes + (size_t)c->b.each * c->b.bytes;
}

static bool has_cells(const struct product *q, int threads)
{
    return threads >= PACK_FOR_SELF &&
           least(q->m, BLOCK) * least(q->n, BLOCK) * least(q->k, 256) / threads >= 4 * WORTH_MULTIPLIED;
}

/* The panels of tile i, and how many rows or columns they are from which one on. */
static char *kept_panels(const struct cells *c, const struct edge *s, int64_t i, int64_t *kept, char *space,
                         int64_t *first, int64_t *n)
{
    const struct block *k = c->k;
    const struct batch_plan *p = k->o->p;
    const bool of_a = s == &c->a;
    const int64_t tiles = s->cells * s->each, begin = s->panels * i / tiles, end = s->panels * (i + 1) / tiles;
    *first = begin * s->width;
    *n = least(end * s->width, of_a ? k->m : k->n) - *first;
    space += (size_t)(i % s->each) * s->bytes;
    if (kept[i % s->each] != i) {
        kept[i % s->each] = i;
        pack_converted(p, of_a, space, s->width * k->steps,
                       of_a ? at(p, k->o->a, k->i + *first, k->k) : transposed(at(p, k->o->b, k->k, k->j + *first)), *n,
                       k->depth);
    }
    return space;
}

static void one_tile(void *ctx, int64_t t, char *space)
{
    const struct cells *c = ctx;
    const struct block *k = c->k;
    const struct gemm_kernel *g = k->o->p->g;
    const int64_t cell = t / (c->a.each * c->b.each), in = t % (c->a.each * c->b.each);
    struct kept *kept = (struct kept *)space;
    int64_t i, j, m, n;
    char *a = space + sizeof *kept, *b = a + (size_t)c->a.each * c->a.bytes;
    b = kept_panels(c, &c->b, cell / c->a.cells * c->b.each + in / c->a.each, kept->b, b, &j, &n);
    a = kept_panels(c, &c->a, cell % c->a.cells * c->a.each + in % c->a.each, kept->a, a, &i, &m);
    char *sums = k->sums + (size_t)(i * k->ld + j) * k->o->p->size;
    g->tile(sums, k->ld, a, g->mr * k->steps, b, g->nr * k->steps, m, n, k->steps, k->k > 0);
    if (k->last)
        finish_part(k->o, sums, k->ld, k->i + i, k->j + j, m, n);
}

static void by_cells(struct block *k, int threads)
{
    struct cells c = choose_cells(k->o->p, k->m, k->n, threads);
    const size_t each = cell_space(&c);
    c.k = k;
    for (int w = 0; w < threads; w++) memset(k->a + (size_t)w * each, 0xff, sizeof(struct kept));
    crew_for(c.a.cells * c.a.each * c.b.cells * c.b.each, threads, k->a, each, one_tile, &c);
}

/* Sums are behind panels. */
static size_t panels_space(const struct batch_plan *p, int threads)
{
    const struct product *q = p->q;
    if (has_cells(q, threads)) { /* blocks at the ends may have other cells than those before */
        size_t most = 0;
        for (int i = 0; i < 4; i++) {
            int64_t m = i & 1 ? least(q->m, BLOCK) : 1 + (q->m - 1) % BLOCK;
            int64_t n = i & 2 ? least(q->n, BLOCK) : 1 + (q->n - 1) % BLOCK;
            struct cells c = choose_cells(p, m, n, threads);
            most = (size_t)greatest((int64_t)most, (int64_t)cell_space(&c));
        }
        return (size_t)threads * most;
    }
    return product_panel_bytes(p, q->m, p->g->mr) + product_panel_bytes(p, q->n, p->g->nr);
}

static size_t sums_space(const struct batch_plan *p)
{
    return p->convert ? aligned(least(p->q->m, BLOCK) * least(p->q->n, BLOCK) * (int64_t)p->size) : 0;
}

static void by_panels(const struct one *o, int threads)
{
    const struct batch_plan *p = o->p;
    const struct product *q = p->q;
    const struct gemm_kernel *g = p->g;
    const bool cells = has_cells(q, threads);
    struct block k = { .o = o, .a = o->space };
    k.b = k.a + product_panel_bytes(p, q->m, g->mr);
    char *sums = k.a + panels_space(p, threads);
    for (k.j = 0; k.j < q->n; k.j += BLOCK)
        for (k.i = 0; k.i < q->m; k.i += BLOCK) {
            k.m = least(q->m - k.i, BLOCK);
            k.n = least(q->n - k.j, BLOCK);
            k.pa = ceil_div(k.m, g->mr);
            k.pb = ceil_div(k.n, g->nr);
            k.ld = p->convert ? k.n : q->n;
            k.sums = p->convert ? sums : o->y + (size_t)(k.i * q->n + k.j) * p->size;
            choose_tiles(&k, g, threads);
            for (k.k = 0; k.k < q->k; k.k += k.depth) {
                k.depth = least(q->k - k.k, p->stretch);
                k.steps = steps_of(p, k.depth);
                k.last = k.k + k.depth == q->k;
                if (cells) {
                    by_cells(&k, threads);
                    continue;
                }
                bool large = o->parallel && k.m * k.n * k.depth >= 2 * WORTH_MULTIPLIED;
                share_product(large, k.pb + k.pa, 1 + WORTH_MULTIPLIED / 4 / (g->nr * k.depth), pack_panels, &k);
                share_product(large, k.across * ceil_div(k.n, k.tn), 1, compute_tiles, &k);
            }
        }
}

/* ---- C narrow one way: the small operand is packed once for all, and each thread takes strips of
 * the other for itself, so that its panels are used while they are in its cache */

struct strips {
    const struct one *o;
    bool columns; /* strips of b, for a is the small one; else strips of a */
    int64_t wide; /* a strip */
    char *small;  /* panels of the small operand, stretch after stretch */
    int64_t rows; /* of those panels, together */
};

static struct matrix small_part(const struct strips *w, int64_t k)
{
    const struct batch_plan *p = w->o->p;
    return w->columns ? at(p, w->o->a, 0, k) : transposed(at(p, w->o->b, k, 0));
}

/* Where the panels of stretches from k on begin, in bytes. */
static size_t small_at(const struct strips *w, int64_t k)
{
    return (size_t)(w->rows * steps_of(w->o->p, k)) * w->o->p->size;
}

/* Some panels of one stretch at a time, so that all threads may take part. */
enum { SOME_PANELS = 4 };
static int64_t small_width(const struct strips *w) { return w->columns ? w->o->p->g->mr : w->o->p->g->nr; }
static int64_t small_pieces(const struct strips *w) { return ceil_div(w->rows, SOME_PANELS * small_width(w)); }

static void pack_small(void *ctx, int64_t begin, int64_t end)
{
    const struct strips *w = ctx;
    const struct batch_plan *p = w->o->p;
    const struct product *q = p->q;
    int64_t width = small_width(w), rows = w->columns ? q->m : q->n;
    for (int64_t s = begin; s < end; s++) {
        int64_t k = s / small_pieces(w) * p->stretch, depth = least(q->k - k, p->stretch);
        int64_t row = s % small_pieces(w) * SOME_PANELS * width;
        char *to = w->small + small_at(w, k) + (size_t)(row * steps_of(p, depth)) * p->size;
        pack_converted(p, w->columns, to, width * steps_of(p, depth), at(p, small_part(w, k), row, 0),
                       least(rows - row, SOME_PANELS * width), depth);
    }
}

static void one_strip(void *ctx, int64_t part, char *space)
{
    const struct strips *w = ctx;
    const struct batch_plan *p = w->o->p;
    const struct product *q = p->q;
    const struct gemm_kernel *g = p->g;
    int64_t i = w->columns ? 0 : part * w->wide, j = w->columns ? part * w->wide : 0;
    int64_t m = least(q->m - i, w->columns ? q->m : w->wide), n = least(q->n - j, w->columns ? w->wide : q->n);
    char *sums = w->o->y + (size_t)(i * q->n + j) * p->size;
    int64_t ld = q->n;
    if (p->convert) {
        ld = n;
        sums = space;
        space += aligned((w->columns ? q->m * w->wide : w->wide * q->n) * (int64_t)p->size);
    }
    for (int64_t k = 0, depth; k < q->k; k += depth) {
        depth = least(q->k - k, p->stretch);
        const char *small = w->small + small_at(w, k);
        int64_t steps = steps_of(p, depth), sa = g->mr * steps, sb = g->nr * steps;
        if (w->columns) {
            pack_converted(p, false, space, sb, transposed(at(p, w->o->b, k, j)), n, depth);
            g->tile(sums, ld, small, sa, space, sb, m, n, steps, k > 0);
        } else {
            pack_converted(p, true, space, sa, at(p, w->o->a, i, k), m, depth);
            g->tile(sums, ld, space, sa, small, sb, m, n, steps, k > 0);
        }
    }
    finish_part(w->o, sums, ld, i, j, m, n);
}

static struct strips plan_strips(const struct batch_plan *p, int threads)
{
    const struct product *q = p->q;
    struct strips w = { .columns = q->m <= q->n };
    int width = w.columns ? p->g->nr : p->g->mr, other = w.columns ? p->g->mr : p->g->nr;
    int64_t all = w.columns ? q->n : q->m;
    w.rows = ceil_div(least(q->m, q->n), other) * other;
    w.wide = ceil_div(w.columns ? TILE_N : TILE_M, width) * width;
    while (ceil_div(all, w.wide) < 6 * threads && w.wide > 2 * width) w.wide = ceil_div(w.wide / 2, width) * width;
    return w;
}

static bool is_narrow(const struct batch_plan *p)
{
    const struct product *q = p->q;
    return least(q->m, q->n) <= TILE_N && least(q->m, q->n) * steps_of(p, q->k) * (int64_t)p->size <= 4 << 20;
}

static size_t strip_space(const struct batch_plan *p, const struct strips *w)
{
    int64_t sums = p->convert ? least(p->q->m, p->q->n) * w->wide : 0;
    return aligned(sums * (int64_t)p->size) + aligned(w->wide * steps_of(p, p->stretch) * (int64_t)p->size);
}

static size_t narrow_space(const struct batch_plan *p, int threads)
{
    struct strips w = plan_strips(p, threads);
    return aligned(w.rows * steps_of(p, p->q->k) * (int64_t)p->size) + (size_t)threads * strip_space(p, &w);
}

static void by_strips(const struct one *o, int threads)
{
    const struct batch_plan *p = o->p;
    struct strips w = plan_strips(p, threads);
    w.o = o;
    w.small = o->space;
    share_product(o->parallel, p->stretches * small_pieces(&w),
                  1 + WORTH_MULTIPLIED / 4 / (SOME_PANELS * small_width(&w) * p->stretch), pack_small, &w);
    int64_t parts = ceil_div(w.columns ? p->q->n : p->q->m, w.wide);
    crew_for(parts, (int)least(threads, parts), o->space + aligned((int64_t)small_at(&w, p->q->k)), strip_space(p, &w),
             one_strip, &w);
}

/* ---- a small C and a long K: the stretches are computed side by side, then added in order ---- */

struct deep {
    const struct one *o;
    int64_t first; /* stretch of this round */
    char *sums;    /* of all stretches of this round, each m by n */
    int64_t count;
};

static void one_stretch(void *ctx, int64_t i, char *space)
{
    const struct deep *d = ctx;
    const struct batch_plan *p = d->o->p;
    const struct product *q = p->q;
    struct one part = *d->o;
    struct block k = { .o = &part, .m = q->m, .n = q->n, .a = space, .ld = q->n };
    k.b = k.a + product_panel_bytes(p, q->m, p->g->mr);
    k.pa = ceil_div(k.m, p->g->mr);
    k.pb = ceil_div(k.n, p->g->nr);
    k.k = (d->first + i) * p->stretch;
    k.depth = least(q->k - k.k, p->stretch);
    k.steps = steps_of(p, k.depth);
    part.a = at(p, part.a, 0, k.k);
    part.b = at(p, part.b, k.k, 0);
    k.k = 0;
    k.sums = d->sums + (size_t)(i * q->m * q->n) * p->size;
    choose_tiles(&k, p->g, 1);
    pack_panels(&k, 0, k.pa + k.pb);
    compute_tiles(&k, 0, k.across * ceil_div(k.n, k.tn));
}

/* Adds the sums of a round up, the first of all into place. */
static void add_stretches(void *ctx, int64_t begin, int64_t end)
{
    const struct deep *d = ctx;
    const struct batch_plan *p = d->o->p;
    int64_t whole = p->q->m * p->q->n;
    for (int64_t i = 1; i < d->count; i++)
        p->g->add(d->sums + (size_t)begin * p->size, d->sums + (size_t)(i * whole + begin) * p->size, end - begin);
}

static bool is_deep(const struct batch_plan *p, int threads)
{
    const struct product *q = p->q;
    return p->way == PANELS && threads > 1 && p->stretches > 1 && q->m <= BLOCK && q->n <= BLOCK &&
           q->m * q->n * p->stretch / threads < 32 * WORTH_MULTIPLIED;
}

static int64_t deep_round(const struct batch_plan *p, int threads)
{
    int64_t most = (1 << 22) / (p->q->m * p->q->n); /* so many numbers are kept */
    return least(p->stretches, least(4 * threads, most < 2 ? 2 : most));
}

static size_t deep_space(const struct batch_plan *p, int threads)
{
    const struct product *q = p->q;
    return (size_t)threads * (product_panel_bytes(p, q->m, p->g->mr) + product_panel_bytes(p, q->n, p->g->nr)) +
           aligned((1 + deep_round(p, threads)) * q->m * q->n * (int64_t)p->size);
}

static void by_stretches(const struct one *o, int threads)
{
    const struct batch_plan *p = o->p;
    const struct product *q = p->q;
    int64_t round = deep_round(p, threads), whole = q->m * q->n;
    size_t each = product_panel_bytes(p, q->m, p->g->mr) + product_panel_bytes(p, q->n, p->g->nr);
    struct deep d = { .o = o };
    char *total = o->space + (size_t)threads * each;
    for (; d.first < p->stretches; d.first += round) {
        /* Sums so far stand in front of those of the round. */
        d.sums = total + (size_t)whole * p->size;
        d.count = least(round, p->stretches - d.first);
        crew_for(d.count, threads, o->space, each, one_stretch, &d);
        if (d.first) {
            d.sums = total;
            d.count++;
        }
        pool_for(whole, WORTH_MULTIPLIED / 4, add_stretches, &d);
        if (!d.first)
            memcpy(total, d.sums, (size_t)whole * p->size);
    }
    if (!p->convert)
        memcpy(o->y, total, (size_t)whole * p->size);
    finish_part(o, p->convert ? total : o->y, q->n, 0, 0, q->m, q->n);
}

/* ---- few rows or columns: matrix times vectors ---- */

struct vectors {
    const struct one *o;
    struct matrix x; /* the matrix, `rows` by k */
    int64_t rows;
    int count;     /* of vectors */
    const char *v; /* in the type computed in, without gaps, `apart` elements from each other */
    int64_t apart;
    char *sums;
    int64_t sy, next; /* from row to row, and from vector to vector, in sums */
    char *partial;    /* K cut up: sums of every block */
};

/* `rows` rows from row i on, `depth` of K from k on; row i's sum goes to `sums`. */
static void multiply_rows(const struct vectors *w, char *sums, int64_t i, int64_t rows, int64_t k, int64_t depth)
{
    const struct batch_plan *p = w->o->p;
    p->gemv(sums, w->sy, w->next, at(p, w->x, i, k).p, w->x.rs, w->x.cs, w->v + (size_t)k * p->size, w->apart, w->count,
            rows, depth, false);
}

static void product_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct vectors *w = ctx;
    const struct batch_plan *p = w->o->p;
    char *sums = w->sums + (size_t)(begin * w->sy) * p->size;
    multiply_rows(w, sums, begin, end - begin, 0, p->q->k);
    if (p->turned)
        finish_part(w->o, sums, p->q->n, 0, begin, w->count, end - begin);
    else
        finish_part(w->o, sums, p->q->n, begin, 0, end - begin, w->count);
}

static void some_blocks(void *ctx, int64_t begin, int64_t end)
{
    const struct vectors *w = ctx;
    const struct batch_plan *p = w->o->p;
    for (int64_t b = begin; b < end; b++)
        multiply_rows(w, w->partial + (size_t)(b * w->rows * w->count) * p->size, 0, w->rows, b * GEMV_BLOCK,
                      least(GEMV_BLOCK, p->q->k - b * GEMV_BLOCK));
}

static int64_t matrix_rows(const struct batch_plan *p) { return p->turned ? p->q->n : p->q->m; }
static int64_t vector_count(const struct batch_plan *p) { return p->turned ? p->q->m : p->q->n; }

/* Too few rows to share them out? */
static bool cut_k(const struct batch_plan *p, int threads)
{
    return threads > 1 && matrix_rows(p) < 16 * threads && ceil_div(p->q->k, GEMV_BLOCK) >= 4 * threads;
}

/* Vectors; sums where they are not the result; sums of blocks. */
static size_t vectors_space(const struct batch_plan *p, int threads)
{
    const struct product *q = p->q;
    return (size_t)vector_count(p) * aligned(q->k * (int64_t)p->size) +
           (p->convert ? aligned(q->m * q->n * (int64_t)p->size) : 0) +
           (cut_k(p, threads) ? aligned(ceil_div(q->k, GEMV_BLOCK) * q->m * q->n * (int64_t)p->size) : 0);
}

static void by_vectors(const struct one *o, int threads)
{
    const struct batch_plan *p = o->p;
    const struct product *q = p->q;
    struct vectors w = { .o = o, .rows = matrix_rows(p), .count = (int)vector_count(p) };
    w.x = p->turned ? transposed(o->b) : o->a;
    struct matrix v = p->turned ? o->a : transposed(o->b);
    char *space = o->space;
    w.v = v.p;
    w.apart = v.rs;
    if (p->convert || v.cs != 1) {
        w.v = space;
        w.apart = (int64_t)(aligned(q->k * (int64_t)p->size) / p->size);
        for (int64_t i = 0; i < w.count; i++, space += (size_t)w.apart * p->size)
            load_into(p, space, at(p, v, i, 0).p, v.cs, q->k);
    }
    w.sums = o->y;
    if (p->convert) {
        w.sums = space;
        space += aligned(q->m * q->n * (int64_t)p->size);
    }
    w.sy = p->turned ? 1 : w.count;
    w.next = p->turned ? w.rows : 1;
    if (cut_k(p, threads)) {
        int64_t blocks = ceil_div(q->k, GEMV_BLOCK), whole = q->m * q->n;
        w.partial = space;
        pool_for(blocks, 1 + WORTH_MULTIPLIED / (GEMV_BLOCK * w.rows * w.count), some_blocks, &w);
        memcpy(w.sums, w.partial, (size_t)whole * p->size);
        for (int64_t b = 1; b < blocks; b++) p->g->add(w.sums, w.partial + (size_t)(b * whole) * p->size, whole);
        finish_part(o, w.sums, q->n, 0, 0, q->m, q->n);
        return;
    }
    /* Whole groups of rows; a column-major matrix is read in longer runs, of half a thread's rows. */
    int64_t half = w.rows / (2 * threads) / 128 * 128;
    int64_t group = w.x.rs == 1 ? greatest(half, 128) / w.count : 4;
    share_product(o->parallel, w.rows, ceil_div(1 + WORTH_MULTIPLIED / (q->k * w.count), group) * group, product_rows,
                  &w);
}

/* ---- small products: A is read where it lies, and so is B if its rows have no gaps; else who needs some of its
 * columns turns those ---- */

enum { PART_ROWS = 4, PART_COLUMNS = 32 };
struct parts {
    const struct one *o;
    int64_t tm, tn, down, all; /* size of a part of C; how many are below each other, and in all */
    size_t each;               /* bytes for columns of B that a part turns */
};

/* A part for each thread, but of work that is worth one: of rows first, which can be shared out more evenly, unless
 * each thread would turn all of B. */
static struct parts plan_parts(const struct batch_plan *p, int threads)
{
    const struct product *q = p->q;
    bool turned = q->b.cs != 1;
    struct parts w = { .each = turned ? aligned(PART_COLUMNS * q->k * (int64_t)p->size) : 0 };
    int64_t worth = q->m * q->n * q->k / (4 * WORTH_MULTIPLIED), wanted = worth < 3 ? 1 : least(threads, worth);
    int64_t across = turned ? least(wanted, ceil_div(q->n, PART_COLUMNS)) : 1;
    int64_t rows = least(ceil_div(wanted, across), ceil_div(q->m, 2 * PART_ROWS));
    w.tm = ceil_div(ceil_div(q->m, rows), PART_ROWS) * PART_ROWS;
    w.down = ceil_div(q->m, w.tm);
    w.tn = ceil_div(ceil_div(q->n, ceil_div(wanted, w.down)), PART_COLUMNS) * PART_COLUMNS;
    w.all = w.down * ceil_div(q->n, w.tn);
    return w;
}

/* Columns of A whose beginnings share places of the cache. */
static bool collides(const struct batch_plan *p)
{
    enum { PLACES = 512 };
    return p->q->m > 4 * PART_ROWS && p->q->a.cs != 1 && p->q->a.cs * (int64_t)p->size % PLACES == 0;
}

static void some_parts(void *ctx, int64_t begin, int64_t end)
{
    const struct parts *w = ctx;
    const struct one *o = w->o;
    const struct batch_plan *p = o->p;
    const struct product *q = p->q;
    for (int64_t t = begin; t < end; t++) {
        int64_t i = t % w->down * w->tm, m = least(w->tm, q->m - i);
        int64_t first = t / w->down * w->tn, stop = least(q->n, first + w->tn), step = w->each ? PART_COLUMNS : w->tn;
        char *space = o->space + (size_t)t * w->each;
        for (int64_t j = first, n; j < stop; j += n) {
            struct matrix b = at(p, o->b, 0, j);
            char *y = o->y + (size_t)(i * q->n + j) * p->item;
            n = least(step, stop - j);
            if (w->each) {
                p->g->pack(space, 0, PART_COLUMNS, b.p, b.cs, b.rs, n, q->k);
                b = (struct matrix){ .p = space, .rs = PART_COLUMNS };
            }
            p->g->direct(y, q->n, at(p, o->a, i, 0).p, o->a.rs, o->a.cs, b.p, b.rs, m, n, q->k);
            finish_part(o, y, q->n, i, j, m, n);
        }
    }
}

static void by_parts(const struct one *o, int threads)
{
    struct parts w = plan_parts(o->p, threads);
    w.o = o;
    share_product(o->parallel, w.all, 1, some_parts, &w);
}

static size_t parts_space(const struct batch_plan *p, int threads)
{
    if (p->q->b.cs == 1)
        return 0;
    struct parts w = plan_parts(p, threads);
    return (size_t)w.all * w.each;
}

/* ---- the whole ---- */

static int threads_for(const struct product *q)
{
    return q->m * q->n * q->k < 2 * WORTH_MULTIPLIED ? 1 : pool_threads();
}

static size_t workspace(const struct batch_plan *p, int threads)
{
    switch (p->way) {
    case PANELS:
        return is_deep(p, threads) ? deep_space(p, threads)
               : is_narrow(p)      ? narrow_space(p, threads)
                                   : panels_space(p, threads) + sums_space(p);
    case VECTORS: return vectors_space(p, threads);
    case DIRECT: return parts_space(p, threads);
    default: return 0;
    }
}

/* An empty sum, and c. */
static void zero_plus(const struct one *o)
{
    const struct product *q = o->p->q;
    const uint64_t zeros[RUN] = { 0 };
    for (int64_t i = 0; i < q->m; i++)
        for (int64_t j = 0; j < q->n; j += RUN) finish_part(o, (const char *)zeros, 0, i, j, 1, least(RUN, q->n - j));
}

static void run_one_product(const struct one *o, int threads)
{
    const struct batch_plan *p = o->p;
    const struct product *q = p->q;
    switch (p->way) {
    case ZERO:
        memset(o->y, 0, (size_t)(q->m * q->n) * p->item);
        if (q->c.p)
            zero_plus(o);
        break;
    case DIRECT: by_parts(o, threads); break;
    case VECTORS: by_vectors(o, threads); break;
    case PANELS:
        if (is_deep(p, threads))
            by_stretches(o, threads);
        else if (is_narrow(p))
            by_strips(o, threads);
        else
            by_panels(o, threads);
        break;
    }
}

/* Each product has so many threads.  Both ways give the same bits. */
static bool is_small(const struct batch_plan *p, int threads)
{
    const struct product *q = p->q;
    bool floats = q->t == DT_float32 || q->t == DT_float64;
    bool shared = threads > 1 && floats && q->n * q->k * (int64_t)p->size <= SMALL_RIGHT;
    return q->m * q->n * q->k <= (shared ? SMALL_FOR_ALL : SMALL_PRODUCT);
}

static struct batch_plan make_plan(const struct product *q, int threads)
{
    struct batch_plan p = { .q = q, .item = dtype_size(q->t) };
    enum gemm_type type;
    switch (q->t) {
    case DT_bfloat16: type = bf16_gemm(), p.ct = DT_float32; break;
    case DT_float16:
    case DT_float32: type = GEMM_f32, p.ct = DT_float32; break;
    case DT_float64: type = GEMM_f64, p.ct = DT_float64; break;
    case DT_complex64: type = GEMM_c64, p.ct = DT_complex64; break;
    case DT_int64:
    case DT_uint64: type = GEMM_u64, p.ct = q->t; break;
    case DT_int32: type = GEMM_u32, p.ct = q->t; break;
    default: type = GEMM_u32, p.ct = DT_uint32; break;
    }
    p.g = &cpu->gemm->type[type];
    p.gemv = cpu->gemm->gemv[q->t];
    p.size = dtype_size(p.ct);
    p.convert = p.ct != q->t;
    p.finish = p.convert || q->c.p || q->alpha != 1;
    p.stretch = q->k; /* of equal length, but for the last */
    if (q->k > p.g->kc)
        p.stretch = steps_of(&p, ceil_div(q->k, ceil_div(q->k, p.g->kc))) * p.g->pace;
    p.stretches = q->k ? ceil_div(q->k, p.stretch) : 1;
    /* The order of summation differs between VECTORS and the others, so this looks at shapes
     * alone. */
    int64_t less = least(q->m, q->n), more = q->m + q->n - less;
    if (q->k == 0)
        p.way = ZERO;
    else if (p.gemv && less <= FEW && (less == 1 || more * q->k >= 4096))
        p.way = VECTORS, p.turned = q->m < q->n;
    else if (p.g->direct && !p.convert && q->k <= p.g->kc && is_small(&p, threads) && !collides(&p))
        p.way = DIRECT;
    else
        p.way = PANELS;
    return p;
}

/* Product i of the batch. */
static struct one nth(const struct batch_plan *p, int64_t i)
{
    const struct product *q = p->q;
    struct one o = { .p = p, .a = q->a, .b = q->b, .c = q->c };
    o.y = (char *)q->y + (size_t)(i * q->m * q->n) * p->item;
    int64_t a = 0, b = 0, c = 0;
    for (int d = q->ndim - 1; d >= 0; d--) {
        int64_t at_d = d ? i % q->shape[d] : i;
        i = d ? i / q->shape[d] : 0;
        a += at_d * q->sa[d];
        b += at_d * q->sb[d];
        c += q->c.p ? at_d * q->sc[d] : 0;
    }
    int64_t item = (int64_t)p->item;
    o.a.p = (const char *)o.a.p + a * item;
    o.b.p = (const char *)o.b.p + b * item;
    o.c.p = q->c.p ? (const char *)o.c.p + c * item : NULL;
    return o;
}

struct batches {
    const struct batch_plan *p;
    int64_t count, grain;
};

static void some_products(void *ctx, int64_t part, char *space)
{
    const struct batches *b = ctx;
    for (int64_t i = part * b->grain; i < (part + 1) * b->grain && i < b->count; i++) {
        struct one o = nth(b->p, i);
        o.space = space;
        run_one_product(&o, 1);
    }
}

int product_run(const struct product *q)
{
    struct batch_plan p;
    struct batches all = { .p = &p, .count = 1, .grain = 1 };
    for (int d = 0; d < q->ndim; d++) all.count *= q->shape[d];
    if (all.count == 0 || q->m == 0 || q->n == 0)
        return 0;

    int64_t work = q->m * q->n * (q->k ? q->k : 1);
    int threads = pool_threads();
    bool apart = all.count >= 4 * threads || (all.count > 1 && work < 64 * WORTH_MULTIPLIED);
    int within = apart ? 1 : threads_for(q);
    p = make_plan(q, within);
    if (apart) {
        all.grain = 1 + WORTH_MULTIPLIED / work;
        threads = (int)least(threads, ceil_div(all.count, all.grain));
    } else {
        threads = 1;
    }

    size_t each = workspace(&p, within);
    struct buffer *space = NULL;
    if (each && !(space = buffer_new((size_t)threads * each)))
        return 1;
    char *room = space ? space->host : NULL;
    if (apart) {
        crew_for(ceil_div(all.count, all.grain), threads, room, each, some_products, &all);
    } else {
        for (int64_t i = 0; i < all.count; i++) {
            struct one o = nth(&p, i);
            o.space = room;
            o.parallel = within > 1;
            run_one_product(&o, within);
        }
    }
    if (space)
        buffer_release(space);
    return 0;
}
