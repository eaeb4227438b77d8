/* conv.c: convolutions on the CPU.
 *
 * Output channels fall into panels as wide as the register tile, whose weights are packed once, or by each of many
 * threads for itself; a strip of the input is multiplied by one panel after the other, each tile a few pixels, of one
 * row or of several.  Every number is summed over the taps in order, the channels of a tap innermost, in stretches of
 * weights that fit the cache; so it depends on shapes and values alone. */
#include "cpu/conv.h"

#include <string.h>

#include "core/buffer.h"
#include "core/pool.h"
#include "core/scope.h"
#include "cpu/crew.h"
#include "cpu/product.h"
#include "cpu/worth.h"

enum {
    STRIP = 192 << 10, /* bytes of the input: half of a small L2 cache, with the weights */
    STRETCH = 2048,    /* steps of one tile */
    PIECE = 1024,      /* the longest run */
    OWN = 768 << 10,   /* bytes of weights that a thread packs for itself, at most, if there are so many parts */
};

static int log2_of(size_t size) { return size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0; }

/* ---- weights that channels share */

struct forward {
    const struct plain *p;
    int64_t panels, each; /* in all, and of a group */
    int64_t parts;        /* that the panels of a strip are dealt out in */
    size_t panel;         /* bytes of one: `depth` steps of nr channels */
    size_t own;           /* bytes for the number of the part that a thread is at, and its panels; or 0: all have */
    char *weights;        /* the same panels */
    struct gemm_run *runs;
    int64_t n_runs;
    int64_t pixels; /* of a strip, at most, */
    size_t lists;   /* and bytes of what says where they are */
    bool convert;
};

/* Panel i. */
static void pack_panel(const struct forward *f, char *to, int64_t i)
{
    const struct plain *p = f->p;
    const struct conv_axis *a = p->axis;
    int nr = p->g->nr;
    int64_t taps = a[0].taps * a[1].taps * a[2].taps, n = p->in;
    /* Taps that lie next to each other are one. */
    bool row = p->w.s[4] == 1 && p->w.s[3] * a[2].apart == n;
    int64_t some = row ? a[2].taps : 1;
    int64_t channel = i % f->each * nr, first = i / f->each * p->out + channel;
    for (int64_t t = 0; t < taps; t += some, to += (size_t)(some * n * nr) * p->size)
        p->g->pack(to, 0, nr, p->w.p + (first * p->w.s[0] + conv_tap(p, t)) * (int64_t)p->size, p->w.s[0], p->w.s[4],
                   least(nr, p->out - channel), some * n);
}

static void pack_weights(void *ctx, int64_t begin, int64_t end)
{
    const struct forward *f = ctx;
    for (int64_t i = begin; i < end; i++) pack_panel(f, f->weights + (size_t)i * f->panel, i);
}

static int64_t first_panel(const struct forward *f, int64_t part) { return part * f->panels / f->parts; }

static const char *weights_of(const struct forward *f, int64_t part, char *space)
{
    const int64_t first = first_panel(f, part);
    int64_t *kept = (int64_t *)space;
    if (!f->own)
        return f->weights + (size_t)first * f->panel;
    space += to_lines(sizeof *kept);
    for (int64_t i = first; *kept != part && i < first_panel(f, part + 1); i++)
        pack_panel(f, space + (size_t)(i - first) * f->panel, i);
    *kept = part;
    return space;
}

/* Where the pixels of a strip are: in what the kernels read, and where their results go, in elements. */
struct places {
    int64_t n;
    int64_t *from, *to;
};

/* Of all rows as one sequence: tiles go over their ends. */
static void list_pixels(const struct forward *f, const struct strip *s, struct places *at)
{
    const struct plain *p = f->p;
    int64_t pitch = p->axis[2].stride * p->s[3], ldy = p->axis[2].step * p->y.s[3];
    int64_t rows = s->images * s->count[0] * s->count[1];
    int64_t *from = at->from, *to = at->to, n = s->count[2];
    at->n = rows * n;
    for (int64_t r = 0; r < rows; r++, from += n, to += n) {
        struct pixels row = conv_row(p, s, r);
        int64_t x = (row.x - s->p) / (int64_t)p->size, y = f->convert ? r * n * p->g->nr : row.y;
        int64_t step = f->convert ? p->g->nr : ldy;
        for (int64_t i = 0; i < n; i++) {
            from[i] = x + i * pitch;
            to[i] = y + i * step;
        }
    }
    for (int i = 0; i < PIXELS_BEHIND; i++) from[i] = from[-1];
}

/* The sums of a panel, rounded. */
static void store_sums(const struct forward *f, const struct strip *s, const char *sums, int64_t first, int64_t n)
{
    const struct plain *p = f->p;
    int64_t ldy = p->axis[2].step * p->y.s[3], rows = s->images * s->count[0] * s->count[1];
    for (int64_t r = 0; r < rows; r++) {
        char *y = p->y.p + (conv_row(p, s, r).y + first) * (int64_t)p->item;
        for (int64_t i = 0; i < s->count[2]; i++, sums += p->g->nr * (int64_t)p->size, y += ldy * (int64_t)p->item)
            cpu->cast[p->ct][p->t](y, sums, (size_t)n);
    }
}

/* One panel of output channels, over one stretch of the taps, of every pixel of a strip. */
static void multiply_panel(const struct forward *f, const struct strip *s, const struct places *at, int64_t panel,
                           int64_t from, int64_t to, const char *weights, char *sums)
{
    const struct plain *p = f->p;
    int64_t group = panel / f->each, channel = panel % f->each * p->g->nr;
    int64_t n = least(p->g->nr, p->out - channel), first = group * p->out + channel;
    const char *x = s->p + group * p->in * (int64_t)p->size;
    char *c = f->convert ? sums : p->y.p + first * (int64_t)p->item;
    p->g->pixels(c, at->to, x, at->from, f->runs + from, to - from, weights, at->n, n, from > 0);
    if (f->convert && to == f->n_runs)
        store_sums(f, s, sums, first, n);
}

static void one_piece(void *ctx, int64_t i, char *space)
{
    const struct forward *f = ctx;
    const struct plain *p = f->p;
    const int64_t part = i / p->strips;
    const char *w = weights_of(f, part, space);
    space += f->own;
    struct strip s = conv_strip(p, i % p->strips, 0, p->channels, space);
    struct places at = { .from = (int64_t *)(space + p->strip_bytes) };
    at.to = at.from + f->pixels + PIXELS_BEHIND;
    char *sums = space + p->strip_bytes + f->lists;
    list_pixels(f, &s, &at);
    for (int64_t panel = first_panel(f, part); panel < first_panel(f, part + 1); panel++)
        for (int64_t from = 0, to, depth; from < f->n_runs; from = to) {
            for (to = from, depth = 0; to < f->n_runs && (to == from || depth + f->runs[to].n <= STRETCH); to++)
                depth += f->runs[to].n;
            multiply_panel(f, &s, &at, panel, from, to, w, sums);
            w += (size_t)(depth * p->g->nr) * p->size;
        }
}

/* The taps in pieces that are not too long. */
static void cut_runs(struct forward *f)
{
    const struct plain *p = f->p;
    for (int64_t i = 0; i < p->n_runs; i++)
        for (int64_t from = 0; from < p->runs[i].n; from += PIECE)
            f->runs[f->n_runs++] = (struct gemm_run){ p->runs[i].at + from, least(PIECE, p->runs[i].n - from) };
}

static bool pack_for_self(const struct forward *f, int threads) { return threads >= PACK_FOR_SELF && f->panel <= OWN; }

/* Parts of the panels: enough pieces for all threads; where these pack for themselves no more weights than a cache
 * holds, and each part for as many threads. */
static int64_t parts_of(const struct forward *f, int threads)
{
    int64_t parts = 1;
    if (f->p->strips < 4 * threads && threads > 1)
        parts = least(f->panels, ceil_div(4 * threads, f->p->strips));
    if (!pack_for_self(f, threads))
        return parts;
    while (parts < f->panels && ((size_t)ceil_div(f->panels, parts) * f->panel > OWN || threads % parts)) parts++;
    return parts;
}

static int shared_weights(struct plain *p)
{
    struct forward f = { .p = p, .convert = p->t != p->ct };
    int threads = conv_threads(p);
    if (conv_strips(p, STRIP, threads > 1 ? 6 * threads : 1, p->channels))
        return 1;
    f.each = ceil_div(p->out, p->g->nr);
    f.panels = f.each * p->groups;
    f.panel = (size_t)(p->depth * p->g->nr) * p->size;
    f.parts = parts_of(&f, threads);
    int64_t pieces = p->n_runs * ceil_div(p->runs[0].n, PIECE);
    f.pixels = p->some * p->axis[0].out * p->axis[1].out * p->axis[2].out;
    if (p->some == 1)
        f.pixels = f.pixels / p->axis[p->split].out * p->wide;
    f.lists = to_lines((2 * f.pixels + PIXELS_BEHIND) * (int64_t)sizeof(int64_t));
    size_t list = to_lines(pieces * (int64_t)sizeof *f.runs);
    if (pack_for_self(&f, threads))
        f.own = to_lines(sizeof(int64_t)) + (size_t)ceil_div(f.panels, f.parts) * f.panel;
    size_t weights = f.own ? 0 : to_lines(f.panels * (int64_t)f.panel);
    size_t sums = f.convert ? to_lines(f.pixels * p->g->nr * (int64_t)p->size) : 0;
    int64_t n = p->strips * f.parts;
    threads = (int)least(threads, n);
    size_t each = f.own + p->strip_bytes + f.lists + sums;
    struct buffer *b = buffer_new(list + weights + (size_t)threads * each);
    if (!b)
        return 1;
    f.runs = b->host;
    f.weights = (char *)b->host + list;
    char *space = f.weights + weights;
    cut_runs(&f);
    if (!f.own)
        pool_for(f.panels, 1 + WORTH_MOVED / (p->depth * p->g->nr), pack_weights, &f);
    for (int w = 0; w < threads && f.own; w++) *(int64_t *)(space + (size_t)w * each) = -1;
    crew_for(n, threads, space, each, one_piece, &f);
    buffer_release(b);
    return 0;
}

/* ---- weights of each channel's own */

enum {
    TILE = 16, /* pixels whose sums are rounded */
    FEW_CHANNELS = 48,
    LANES_MOST = 16, /* of a register */
};

struct own {
    const struct plain *p;
    char *weights;  /* taps by channels, `beside` times beside each other */
    int64_t beside; /* pixels taken for one of as many times the channels, where these leave a register empty */
    size_t lists;   /* bytes of what says where the rows of a strip are */
};

/* All channels of rows of m pixels, which lie beside each other. */
static void multiply_beside(const struct own *o, char *c, const struct gemm_row *row, int64_t rows, const char *x,
                            int64_t m)
{
    const struct plain *p = o->p;
    int64_t n = p->channels, wide = o->beside * n, whole = m / o->beside, rest = m % o->beside;
    size_t done = (size_t)(whole * wide) * p->size;
    if (whole)
        p->g->channels(c, wide, row, rows, x, wide, p->runs, p->n_runs, 1, o->weights, wide, whole, wide);
    if (rest)
        p->g->channels(c + done, wide, row, rows, x + done, wide, p->runs, p->n_runs, 1, o->weights, wide, 1, rest * n);
}

/* n channels of rows of m pixels. */
static void multiply_rows(const struct own *o, char *c, int64_t ldc, const struct gemm_row *row, int64_t rows,
                          const char *x, int64_t first, int64_t m, int64_t n)
{
    const struct plain *p = o->p;
    int64_t rs = p->axis[2].stride * p->s[3];
    if (o->beside > 1 && n == p->channels && ldc == n && rs == n)
        multiply_beside(o, c, row, rows, x, m);
    else
        p->g->channels(c, ldc, row, rows, x, rs, p->runs, p->n_runs, conv_side(p),
                       o->weights + first * (int64_t)p->size, o->beside * p->channels, m, n);
}

static void round_rows(const struct own *o, const struct strip *s, const struct gemm_row *row, int64_t rows, char *sums)
{
    const struct plain *p = o->p;
    const struct gemm_row here = { 0, 0 };
    int64_t pitch = p->axis[2].stride * p->s[3], ldy = p->axis[2].step * p->y.s[3], n = p->channels;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0, m; k < s->count[2]; k += m) {
            char *y = p->y.p + (row[r].to + k * ldy) * (int64_t)p->item;
            m = least(TILE, s->count[2] - k);
            multiply_rows(o, sums, n, &here, 1, s->p + (row[r].from + k * pitch) * (int64_t)p->size, 0, m, n);
            for (int64_t q = 0; q < m; q++)
                cpu->cast[p->ct][p->t](y + q * ldy * (int64_t)p->item, sums + q * n * (int64_t)p->size, (size_t)n);
        }
}

static void plain_strip(void *ctx, int64_t i, char *space)
{
    const struct own *o = ctx;
    const struct plain *p = o->p;
    struct gemm_row *row = (struct gemm_row *)(space + p->strip_bytes);
    for (int64_t first = 0, n; first < p->channels; first += n) {
        n = conv_of_block(p, first);
        struct strip s = conv_strip(p, i, first, n, space);
        int64_t rows = s.images * s.count[0] * s.count[1];
        if (first == 0)
            conv_rows(p, &s, row);
        if (p->t == p->ct)
            multiply_rows(o, p->y.p + first * (int64_t)p->size, p->axis[2].step * p->y.s[3], row, rows, s.p, first,
                          s.count[2], n);
        else
            round_rows(o, &s, row, rows, (char *)row + o->lists);
    }
}

static int own_weights(struct plain *p)
{
    const struct conv_axis *a = p->axis;
    int64_t taps = a[0].taps * a[1].taps * a[2].taps;
    int threads = conv_threads(p);
    /* What strips have in common is copied for each, and there are few weights beside them. */
    int64_t strip = STRIP * ceil_div(greatest(a[0].taps, a[1].taps), 3);
    if (conv_strips(p, strip, threads > 1 ? 6 * threads : 1, conv_held(p)))
        return 1;
    struct own o = { .p = p, .lists = to_lines(conv_most_rows(p) * (int64_t)sizeof(struct gemm_row)) };
    for (o.beside = 1; p->channels < FEW_CHANNELS && o.beside * p->channels % LANES_MOST;) o.beside *= 2;
    size_t weights = to_lines(taps * o.beside * p->channels * (int64_t)p->size);
    size_t each = p->strip_bytes + o.lists + to_lines(TILE * p->channels * (int64_t)p->size);
    threads = (int)least(threads, p->strips);
    struct buffer *b = buffer_new(weights + (size_t)threads * each);
    if (!b)
        return 1;
    o.weights = b->host;
    for (int64_t t = 0; t < taps * o.beside; t++)
        cpu->move[log2_of(p->size)](o.weights + t * p->channels * (int64_t)p->size, 1,
                                    p->w.p + conv_tap(p, t / o.beside) * (int64_t)p->size, p->w.s[0],
                                    (size_t)p->channels);
    crew_for(p->strips, threads, (char *)b->host + weights, each, plain_strip, &o);
    buffer_release(b);
    return 0;
}

/* ---- the whole */

static int run_plain_part(struct plain *p, void *ctx)
{
    (void)ctx;
    return p->in == 1 && p->out == 1 && p->groups > 1 ? own_weights(p) : shared_weights(p);
}

static int as_product(mx x, mx w, mx y)
{
    mx_own hold = { NULL };
    x = row_major(x, &hold);
    if (is_nil(x))
        return 1;
    int n = w->ndim;
    struct product q = { .t = (enum dtype)x->dtype,
                         .m = y->size / dim(y, -1),
                         .n = dim(y, -1),
                         .k = dim(x, -1),
                         .a = { host(x), dim(x, -1), 1 },
                         .b = { host(w), w->strides[n - 1], w->strides[0] },
                         .y = host(y),
                         .alpha = 1 };
    int status = product_run(&q);
    mx_drop(&hold);
    return status;
}

int run_conv(const struct run *r)
{
    const struct conv_args *a = r->args;
    mx x = r->x[0], w = r->x[1], y = r->y[0];
    if (out_new(r, 0))
        return 1;
    if (y->size == 0)
        return 0;
    if (w->size == 0 || x->size == 0) {
        memset(host(y), 0, (size_t)nbytes(y));
        return 0;
    }
    if (conv_is_product(a, x, w, y))
        return as_product(x, w, y);
    mx_own hold[2] = { { NULL }, { NULL } };
    bool missed = false;
    x = conv_operand(x, false, &hold[0]);
    w = dtype_is_half(w->dtype) ? conv_operand(w, true, &hold[1]) : w;
    int status = is_nil(x) || is_nil(w) || conv_parts(a, x, w, y, NULL, NULL, &missed);
    if (!status && missed)
        memset(host(y), 0, (size_t)nbytes(y));
    status = status || conv_parts(a, x, w, y, run_plain_part, NULL, &missed);
    mx_drop(&hold[0]);
    mx_drop(&hold[1]);
    return status;
}
