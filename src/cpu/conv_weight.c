/* conv_weight.c: the derivative of convolutions with respect to their weights.
 *
 * For each tap it is a matrix product, of the cotangent's channels by the input's, summed over
 * pixels.  Strips are dealt out to blocks, whose number follows from shapes; each block has sums
 * of its own, and these are added in order.  Where pixels are so few that blocks would be shallow, there are fewer,
 * and columns of the product are dealt out too. */
#include <string.h>

#include "core/buffer.h"
#include "core/pool.h"
#include "cpu/conv.h"
#include "cpu/crew.h"
#include "cpu/worth.h"

enum {
    STRIP = 320 << 10,
    DEPTH = 256,  /* pixels of one product */
    TILE_M = 512, /* output channels of one, */
    TILE_N = 512, /* and columns: input channels of taps */
    BLOCKS = 32,
    JOBS = 16,       /* at least, where there are as many */
    ROOM = 64 << 20, /* bytes for the sums of all blocks */
};

struct backward {
    const struct plain *p;
    mx w;
    bool own;                     /* weights of each channel's own: sums are taps by channels, else channels by taps */
    int64_t blocks, parts, tiles; /* parts of some tiles of `tile_n` columns */
    int64_t tile_n;
    char *sums;
    int64_t whole; /* numbers of one block */
};

/* Neighbouring pixels that are summed over together. */
struct stretch {
    int n;
    int64_t depth;
    struct {
        const char *x, *y;
        int64_t n;
    } v[DEPTH];
};

static char *pack_stretch(const struct backward *f, char *to, int width, const struct stretch *s, bool of_x,
                          int64_t offset, int64_t n)
{
    const struct plain *p = f->p;
    int64_t step = of_x ? p->axis[2].stride * p->s[3] : p->axis[2].step * p->y.s[3], k = 0;
    for (int i = 0; i < s->n; k += s->v[i++].n)
        p->g->pack(to + (size_t)(k * width) * p->size, s->depth * width, width,
                   (of_x ? s->v[i].x : s->v[i].y) + offset * (int64_t)p->size, 1, step, n, s->v[i].n);
    return to;
}

static size_t cotangent_bytes(const struct plain *p)
{
    return to_lines((least(p->out, TILE_M) + p->g->mr) * DEPTH * (int64_t)p->size);
}

/* What a stretch gives to m output channels from `at` on, in a part of the columns of a group. */
static void add_channels(const struct backward *f, const struct stretch *s, int64_t group, int64_t at, int64_t m,
                         int64_t part, char *sums, char *space, bool add)
{
    const struct plain *p = f->p;
    const struct gemm_kernel *g = p->g;
    int64_t begin = part * f->tiles / f->parts, end = (part + 1) * f->tiles / f->parts, tile = 0, column = 0;
    char *b = space + cotangent_bytes(p), *to = sums + (size_t)((group * p->out + at) * p->depth) * p->size;
    pack_stretch(f, space, g->mr, s, false, group * p->out + at, m);
    for (int64_t r = 0; r < p->n_runs; column += p->runs[r++].n)
        for (int64_t j = 0; j < p->runs[r].n; j += f->tile_n, tile++) {
            int64_t n = least(p->runs[r].n - j, f->tile_n);
            if (tile < begin || tile >= end)
                continue;
            pack_stretch(f, b, g->nr, s, true, p->runs[r].at + group * p->in + j, n);
            g->tile(to + (size_t)(column + j) * p->size, p->depth, space, s->depth * g->mr, b, s->depth * g->nr, m, n,
                    s->depth, add);
        }
}

static void shared_strip(const struct backward *f, const struct strip *s, int64_t part, char *sums, char *space,
                         bool add)
{
    const struct plain *p = f->p;
    int64_t rows = s->images * s->count[0] * s->count[1], size = (int64_t)p->size;
    int64_t pitch = p->axis[2].stride * p->s[3], ldy = p->axis[2].step * p->y.s[3];
    int64_t all = rows * s->count[2], deep = ceil_div(all, ceil_div(all, DEPTH)); /* stretches of equal length */
    struct stretch q = { 0, 0, { { 0 } } };
    for (int64_t r = 0; r < rows; r++) {
        struct pixels at = conv_row(p, s, r);
        for (int64_t i = 0, n; i < s->count[2]; i += n) {
            n = least(s->count[2] - i, deep - q.depth);
            q.v[q.n].x = at.x + i * pitch * size;
            q.v[q.n].y = p->y.p + (at.y + i * ldy) * size;
            q.v[q.n++].n = n;
            q.depth += n;
            if (q.depth < deep && (r + 1 < rows || i + n < s->count[2]))
                continue;
            for (int64_t g = 0; g < p->groups; g++)
                for (int64_t m = 0; m < p->out; m += TILE_M)
                    add_channels(f, &q, g, m, least(p->out - m, TILE_M), part, sums, space, add);
            add = true;
            q.n = 0;
            q.depth = 0;
        }
    }
}

static void weight_strip(const struct backward *f, int64_t i, char *sums, char *space)
{
    const struct plain *p = f->p;
    struct gemm_row *row = (struct gemm_row *)(space + p->strip_bytes);
    for (int64_t first = 0, n; first < p->channels; first += n) {
        n = conv_of_block(p, first);
        struct strip s = conv_strip(p, i, first, n, space);
        if (first == 0)
            conv_rows(p, &s, row);
        p->g->channels_weight(p->y.p + first * (int64_t)p->size, p->axis[2].step * p->y.s[3], row,
                              s.images * s.count[0] * s.count[1], s.p, p->axis[2].stride * p->s[3], p->runs, p->n_runs,
                              conv_side(p), sums + first * (int64_t)p->size, p->channels, s.count[2], n);
    }
}

static void one_job(void *ctx, int64_t i, char *space)
{
    const struct backward *f = ctx;
    const struct plain *p = f->p;
    int64_t block = i / f->parts;
    char *sums = f->sums + (size_t)(block * f->whole) * p->size;
    const int64_t first = block * p->strips / f->blocks;
    if (f->own)
        memset(sums, 0, (size_t)f->whole * p->size);
    for (int64_t k = first; k < (block + 1) * p->strips / f->blocks; k++)
        if (f->own) {
            weight_strip(f, k, sums, space);
        } else {
            struct strip s = conv_strip(p, k, 0, p->channels, space);
            shared_strip(f, &s, i % f->parts, sums, space + p->strip_bytes, k > first);
        }
}

/* All sums of output channels begin to end, into the result. */
static void finish_channels(void *ctx, int64_t begin, int64_t end)
{
    const struct backward *f = ctx;
    const struct plain *p = f->p;
    int64_t taps = p->depth / p->in, size = (int64_t)p->size;
    char *sums = f->sums + begin * p->depth * size;
    for (int64_t b = 1; b < f->blocks; b++) p->g->add(sums, sums + b * f->whole * size, (end - begin) * p->depth);
    for (int64_t o = begin; o < end; o++)
        for (int64_t t = 0; t < taps; t++, sums += p->in * size)
            cpu->cast[p->ct][f->w->dtype](
                (char *)host(f->w) + (o * p->w.s[0] + conv_tap(p, t)) * (int64_t)itemsize(f->w), sums, (size_t)p->in);
}

/* The same of taps begin to end, where each channel has weights of its own. */
static void finish_taps(void *ctx, int64_t begin, int64_t end)
{
    const struct backward *f = ctx;
    const struct plain *p = f->p;
    int64_t line = p->channels * (int64_t)p->size, item = (int64_t)itemsize(f->w);
    char *sums = f->sums + begin * line;
    for (int64_t b = 1; b < f->blocks; b++)
        p->g->add(sums, sums + b * f->whole * (int64_t)p->size, (end - begin) * p->channels);
    for (int64_t t = begin; t < end; t++, sums += line) {
        char *to = (char *)host(f->w) + conv_tap(p, t) * item;
        if (p->ct == f->w->dtype)
            cpu->move[__builtin_ctzl(p->size)](to, p->w.s[0], sums, 1, (size_t)p->channels);
        else
            for (int64_t c = 0; c < p->channels; c++)
                cpu->cast[p->ct][f->w->dtype](to + c * p->w.s[0] * item, sums + c * (int64_t)p->size, 1);
    }
}

/* Tiles of columns, as many as there are to be parts if none gets too narrow. */
static void cut_columns(struct backward *f, int64_t nr)
{
    for (int64_t wide = ceil_div(TILE_N, nr); f->tiles < f->parts && wide > 0; wide = wide > 4 ? wide / 2 : 0) {
        f->tile_n = wide * nr;
        f->tiles = 0;
        for (int64_t r = 0; r < f->p->n_runs; r++) f->tiles += ceil_div(f->p->runs[r].n, f->tile_n);
    }
}

static int run_weight_part(struct plain *p, void *ctx)
{
    struct backward f = { .p = p, .w = ctx, .own = p->in == 1 && p->out == 1 && p->groups > 1 };
    int64_t pixels = p->images * p->axis[0].out * p->axis[1].out * p->axis[2].out, nr = p->g->nr;
    int64_t blocks = f.own ? BLOCKS : least(BLOCKS, ceil_div(pixels, DEPTH));
    if (conv_strips(p, STRIP, blocks, f.own ? conv_held(p) : p->channels))
        return 1;
    f.whole = p->out * p->groups * p->depth;
    f.blocks = greatest(1, least(ROOM / (f.whole * (int64_t)p->size), least(blocks, p->strips)));
    int threads = conv_threads(p);
    f.parts = f.own ? 1 : ceil_div(greatest(JOBS, threads > JOBS / 2 ? 3 * threads : 0), f.blocks);
    cut_columns(&f, nr);
    f.parts = 2 * f.parts > f.tiles ? f.tiles : f.parts; /* none of two tiles beside those of one */
    int64_t n = f.blocks * f.parts;
    threads = (int)least(n, threads);
    size_t panels = cotangent_bytes(p) + to_lines((f.tile_n + nr) * DEPTH * (int64_t)p->size);
    size_t rows = to_lines(conv_most_rows(p) * (int64_t)sizeof(struct gemm_row));
    size_t each = p->strip_bytes + (f.own ? rows : panels);
    size_t sums = to_lines(f.blocks * f.whole * (int64_t)p->size);
    struct buffer *b = buffer_new(sums + (size_t)threads * each);
    if (!b)
        return 1;
    f.sums = b->host;
    crew_for(n, threads, f.sums + sums, each, one_job, &f);
    if (f.own)
        pool_for(p->depth, 1 + WORTH_FOLDED / (f.blocks * p->channels), finish_taps, &f);
    else
        pool_for(p->out * p->groups, 1 + WORTH_FOLDED / (f.blocks * p->depth), finish_channels, &f);
    buffer_release(b);
    return 0;
}

int run_conv_weight(const struct run *r)
{
    const struct conv_args *a = r->args;
    mx x = r->x[0], ct = r->x[1], w = r->y[0];
    bool missed = false;
    if (out_new(r, 0))
        return 1;
    if (w->size == 0)
        return 0;
    if (x->size == 0 || ct->size == 0) {
        memset(host(w), 0, (size_t)nbytes(w));
        return 0;
    }
    mx_own hold[2] = { { NULL }, { NULL } };
    bool half = dtype_is_half(x->dtype);
    x = conv_operand(x, half, &hold[0]);
    ct = conv_operand(ct, half, &hold[1]);
    int status = is_nil(x) || is_nil(ct) || conv_parts(a, x, w, ct, NULL, NULL, &missed);
    if (!status && missed)
        memset(host(w), 0, (size_t)nbytes(w));
    status = status || conv_parts(a, x, w, ct, run_weight_part, w, &missed);
    mx_drop(&hold[0]);
    mx_drop(&hold[1]);
    return status;
}
