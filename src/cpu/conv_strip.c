/* conv_strip.c: convolutions cut into plain ones, and those into strips. */
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "cpu/conv.h"
#include "cpu/worth.h"

/* ---- plain parts */

static struct strided strided_of(mx x)
{
    struct strided r = { .p = host(x) };
    conv_strides(x, r.s);
    return r;
}

static void list_taps(struct plain *p)
{
    const struct conv_axis *a = p->axis;
    struct gemm_run *r = p->runs;
    p->joined = a[2].dilation == 1 && p->groups == 1;
    int64_t last = p->joined ? 1 : a[2].taps;
    for (int64_t i = 0; i < a[0].taps; i++)
        for (int64_t j = 0; j < a[1].taps; j++)
            for (int64_t k = 0; k < last; k++)
                *r++ = (struct gemm_run){ i * a[0].dilation * p->s[1] + j * a[1].dilation * p->s[2] +
                                              k * a[2].dilation * p->s[3],
                                          p->joined ? a[2].taps * p->in : p->in };
    p->n_runs = r - p->runs;
    p->depth = a[0].taps * a[1].taps * a[2].taps * p->in;
}

static enum gemm_type computed_in(enum dtype t, enum dtype *ct)
{
    *ct = t == DT_float64 ? DT_float64 : DT_float32;
    return t == DT_float64 ? GEMM_f64 : GEMM_f32;
}

int conv_parts(const struct conv_args *args, mx x, mx w, mx y, int (*fn)(struct plain *p, void *ctx), void *ctx,
               bool *missed)
{
    struct conv_plan g;
    conv_plan_of(&g, args, x, w, y);
    struct plain p = { .t = (enum dtype)x->dtype,
                       .images = g.images,
                       .channels = g.channels,
                       .groups = g.groups,
                       .in = g.in,
                       .out = g.out,
                       .x = strided_of(x),
                       .w = strided_of(w),
                       .y = strided_of(y) };
    p.g = &cpu->gemm->type[computed_in(p.t, &p.ct)];
    p.item = dtype_size(p.t);
    p.size = dtype_size(p.ct);
    if (!(p.runs = mx_malloc((size_t)g.taps * sizeof *p.runs)))
        return 1;
    int status = 0;
    int64_t met = 0;
    for (int64_t i = 0; i < g.parts && !status; i++) {
        int64_t taps = conv_part(&g, i, p.axis);
        met += taps;
        *missed = *missed || taps == 0;
        if (taps && fn)
            status = fn(&p, ctx);
    }
    *missed = *missed || met < g.taps;
    free(p.runs);
    return status;
}

/* ---- strips */

static int64_t span(const struct conv_axis *a, int64_t positions)
{
    return (positions - 1) * a->stride + (a->taps - 1) * a->dilation + 1;
}

/* Can all be read where it lies, and as if copied? */
static bool strip_in_place(const struct plain *p)
{
    if (p->t != p->ct || p->x.s[4] != 1)
        return false;
    for (int i = 0; i < 3; i++) {
        const struct conv_axis *a = &p->axis[i];
        if (a->at < 0 || a->at + span(a, a->out) > a->in)
            return false;
    }
    return p->axis[2].in == 1 || p->x.s[3] == p->channels;
}

int conv_threads(const struct plain *p)
{
    double work = (double)p->images * (double)p->in * (double)(p->out * p->groups);
    for (int i = 0; i < 3; i++) work *= (double)(p->axis[i].out * p->axis[i].taps);
    return work < 2 * WORTH_MULTIPLIED ? 1 : pool_threads();
}

/* a b, or the most there is: strides and dilations of any size spread a strip over more than memory. */
static int64_t times_bounded(int64_t a, int64_t b)
{
    int64_t c;
    return __builtin_mul_overflow(a, b, &c) ? INT64_MAX : c;
}

int conv_strips(struct plain *p, int64_t bytes, int64_t strips, int64_t held)
{
    enum { MOST_BITS = 48 }; /* of a strip's bytes: sizes made of it stay in range */
    struct conv_axis *a = p->axis;
    for (p->split = 0; p->split < 2 && a[p->split].out == 1;) p->split++;
    int s = p->split;
    int64_t inner = p->channels * (int64_t)p->size;
    for (int i = 0; i < 3; i++)
        if (i != s)
            inner = times_bounded(inner, span(&a[i], a[i].out));
    int64_t total = p->images * a[s].out, wanted = greatest(1, total / strips);
    p->some = 1;
    p->wide = a[s].out;
    if (times_bounded(inner, span(&a[s], p->wide)) > bytes || p->wide > wanted) {
        int64_t fit = (bytes / inner - span(&a[s], 1)) / a[s].stride + 1;
        int64_t unit = s == 2 ? 4 * p->g->mr : 1; /* whole tiles, where the cut is across them */
        p->wide = greatest(1, least(p->wide, least(fit, wanted)));
        p->wide = least(ceil_div(p->wide, unit) * unit, a[s].out);
    } else {
        p->some = greatest(1, least(bytes / (inner * span(&a[s], p->wide)), wanted / p->wide));
        p->some = least(p->some, p->images);
    }
    p->strips = ceil_div(p->images, p->some) * ceil_div(a[s].out, p->wide);
    for (int i = 0; i < 3; i++) p->seen[i] = span(&a[i], i == s ? p->wide : a[i].out);
    p->direct = strip_in_place(p);
    int64_t strip = times_bounded(times_bounded(inner, p->seen[s]), p->some);
    if (!p->direct && strip >> MOST_BITS) {
        mx_fail_memory((unsigned long)strip);
        return 1;
    }
    p->held = p->direct ? p->channels : held;
    p->s[3] = p->held;
    p->s[2] = p->s[3] * p->seen[2];
    p->s[1] = p->s[2] * p->seen[1];
    p->s[0] = p->s[1] * p->seen[0];
    p->strip_bytes = p->direct ? 0 : to_lines(p->some * p->s[0] * (int64_t)p->size);
    if (p->direct)
        for (int i = 0; i < 3; i++) p->s[i] = p->x.s[i];
    list_taps(p);
    return 0;
}

/* `each` channels of n pixels of row-by-row input to where they are computed with. */
static void copy_pixels(const struct plain *p, char *to, const char *from, int64_t each, int64_t n)
{
    int64_t bytes = each * (int64_t)p->size, pitch = p->held * (int64_t)p->size, step = p->x.s[3] * (int64_t)p->item;
    if (p->x.s[3] == each && p->held == each) {
        each *= n;
        bytes *= n;
        n = 1;
    }
    for (; n > 0; n--, to += pitch, from += step)
        if (p->t != p->ct)
            cpu->cast[p->t][p->ct](to, from, (size_t)each);
        else
            memcpy(to, from, (size_t)bytes);
}

struct strip conv_strip(const struct plain *p, int64_t i, int64_t first, int64_t n, char *space)
{
    const struct conv_axis *a = p->axis;
    struct strip r = { .p = space };
    int64_t across = ceil_div(a[p->split].out, p->wide), at[3];
    r.image = i / across * p->some;
    r.images = least(p->some, p->images - r.image);
    for (int d = 0; d < 3; d++) {
        r.begin[d] = d == p->split ? i % across * p->wide : 0;
        r.count[d] = d == p->split ? least(p->wide, a[d].out - r.begin[d]) : a[d].out;
        at[d] = a[d].at + r.begin[d] * a[d].stride;
    }
    const char *x = p->x.p + (r.image * p->x.s[0] + first * p->x.s[4]) * (int64_t)p->item;
    if (p->direct) {
        for (int d = 0; d < 3; d++) x += at[d] * p->x.s[1 + d] * (int64_t)p->item;
        r.p = x;
        return r;
    }
    int64_t pixel = p->held * (int64_t)p->size, row = p->seen[2];
    int64_t begin = least(greatest(0, -at[2]), row);
    int64_t end = greatest(begin, least(row, a[2].in - at[2]));
    for (int64_t image = 0; image < r.images; image++)
        for (int64_t j = 0; j < p->seen[0]; j++)
            for (int64_t k = 0; k < p->seen[1]; k++, space += row * pixel) {
                int64_t d = at[0] + j, h = at[1] + k;
                if (d < 0 || d >= a[0].in || h < 0 || h >= a[1].in || begin == end) {
                    memset(space, 0, (size_t)(row * pixel));
                    continue;
                }
                memset(space, 0, (size_t)(begin * pixel));
                copy_pixels(p, space + begin * pixel,
                            x + (image * p->x.s[0] + d * p->x.s[1] + h * p->x.s[2] + (at[2] + begin) * p->x.s[3]) *
                                    (int64_t)p->item,
                            n, end - begin);
                memset(space + end * pixel, 0, (size_t)((row - end) * pixel));
            }
    return r;
}

int64_t conv_tap(const struct plain *p, int64_t t)
{
    const struct conv_axis *a = p->axis;
    int64_t k = t % a[2].taps, j = t / a[2].taps % a[1].taps, i = t / a[2].taps / a[1].taps;
    return (a[0].tap + i * a[0].apart) * p->w.s[1] + (a[1].tap + j * a[1].apart) * p->w.s[2] +
           (a[2].tap + k * a[2].apart) * p->w.s[3];
}

struct pixels conv_row(const struct plain *p, const struct strip *s, int64_t r)
{
    const struct conv_axis *a = p->axis;
    int64_t j = r % s->count[1], i = r / s->count[1] % s->count[0];
    int64_t n = r / s->count[1] / s->count[0];
    return (struct pixels){
        s->p + (n * p->s[0] + i * a[0].stride * p->s[1] + j * a[1].stride * p->s[2]) * (int64_t)p->size,
        (s->image + n) * p->y.s[0] + (a[0].first + (s->begin[0] + i) * a[0].step) * p->y.s[1] +
            (a[1].first + (s->begin[1] + j) * a[1].step) * p->y.s[2] +
            (a[2].first + s->begin[2] * a[2].step) * p->y.s[3],
    };
}

void conv_rows(const struct plain *p, const struct strip *s, struct gemm_row *row)
{
    int64_t rows = s->images * s->count[0] * s->count[1];
    for (int64_t r = 0; r < rows; r++) {
        struct pixels at = conv_row(p, s, r);
        row[r] = (struct gemm_row){ (at.x - s->p) / (int64_t)p->size, at.y };
    }
}

int64_t conv_most_rows(const struct plain *p)
{
    const struct conv_axis *a = p->axis;
    return p->some * (p->split == 0 ? p->wide : a[0].out) * (p->split == 1 ? p->wide : a[1].out);
}

mx conv_operand(mx x, bool convert, mx_own *hold)
{
    MX_SCOPE(NULL);
    if (!convert && x->strides[x->ndim - 1] == 1)
        return x;
    mx whole = row_major(x, hold);
    if (!convert || is_nil(whole) || x->dtype == DT_float32 || x->dtype == DT_float64)
        return whole;
    struct buffer *b = buffer_new((size_t)x->size * sizeof(float));
    if (!b)
        return MX_NIL;
    mx y = array_of_buffer(DT_float32, x->ndim, x->shape, b);
    if (!is_nil(y))
        cpu->cast[x->dtype][DT_float32](host(y), host(whole), (size_t)x->size);
    mx_keep(hold, y);
    return hold->it;
}
