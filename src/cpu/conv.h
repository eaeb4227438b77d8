/* conv.h: what the runners of convolutions share.
 *
 * A plain one (plan/conv.h) is computed strip by strip, a strip being some images, or some positions
 * along one axis of an image, and what it sees of the input is first copied to where there are zeros
 * around it. */
#ifndef MX_CPU_CONV_H
#define MX_CPU_CONV_H

#include <stdbool.h>

#include "core/sizes.h"
#include "cpu/kernels/gemm.h"
#include "cpu/run.h"
#include "plan/conv.h"

struct strided {
    char *p;
    int64_t s[5]; /* image, three axes, channel; in elements */
};

struct plain {
    enum dtype t, ct; /* stored and computed in */
    size_t item, size;
    const struct gemm_kernel *g;
    int64_t images, channels, groups;
    int64_t in, out; /* channels of one group */
    struct conv_axis axis[3];
    struct strided x, y, w; /* w: output channel, three axes, input channel */
    struct gemm_run *runs;  /* the taps, in order, neighbours joined where they touch */
    int64_t n_runs, depth;  /* depth: sum of their lengths */
    bool joined;            /* taps along the last axis are */

    /* Strips */
    int split;    /* the axis they are cut along */
    int64_t wide; /* positions of a strip along it */
    int64_t some; /* images of a strip, of which more than one are whole */
    int64_t strips;
    int64_t seen[3];    /* of the input by a strip */
    bool direct;        /* the input is read where it lies */
    int64_t s[4];       /* strides of what strips see */
    int64_t held;       /* channels that a copy has room for, */
    size_t strip_bytes; /* and its bytes; 0 if direct */
};

/* What a strip covers, and where its part of the input lies. */
struct strip {
    int64_t image, images, begin[3], count[3];
    const char *p;
};

/* Calls fn, unless it is NULL, for every plain part; x and w have the layout of the node, y is the result of a
 * convolution (in both directions).  In conv_weight w is what is computed.  Sets *missed where
 * there are positions without taps, or taps without positions. */
int conv_parts(const struct conv_args *a, mx x, mx w, mx y, int (*fn)(struct plain *p, void *ctx), void *ctx,
               bool *missed);
/* How many threads it is worth. */
int conv_threads(const struct plain *p);
/* Chooses strips with at most so many bytes of the input, and at least `strips` of them if there
 * are as many positions; at most `held` channels are copied at a time.  Fails where a strip would not fit into any
 * memory. */
int conv_strips(struct plain *p, int64_t bytes, int64_t strips, int64_t held);
/* n channels of strip i, copied into `space` unless they are read where they lie. */
struct strip conv_strip(const struct plain *p, int64_t i, int64_t first, int64_t n, char *space);
/* Offset of tap t in w. */
int64_t conv_tap(const struct plain *p, int64_t t);
/* Row r of neighbouring pixels of a strip, s->count[2] of them: where they lie in it and in the result. */
struct pixels {
    const char *x;
    int64_t y;
};
struct pixels conv_row(const struct plain *p, const struct strip *s, int64_t r);
/* All rows of a strip: at s->p and in the result, in elements. */
void conv_rows(const struct plain *p, const struct strip *s, struct gemm_row *row);
/* How many a strip has at most. */
int64_t conv_most_rows(const struct plain *p);
/* x with channels next to each other, in the type computed in if `convert`. */
mx conv_operand(mx x, bool convert, mx_own *hold);

/* So many taps in a row meet neighbouring pixels. */
static inline int64_t conv_side(const struct plain *p)
{
    return p->axis[2].stride == p->axis[2].dilation ? p->axis[2].taps : 1;
}

/* Where each channel has weights of its own: the channels that are copied at a time, or from `first` on, as the last
 * block may be almost twice as long.  What a row of pixels sees of so few stays in the first cache while rows pass
 * by. */
static inline int64_t conv_block(const struct plain *p)
{
    int64_t lines = 128 / (int64_t)p->size; /* two of the cache, which are fetched together */
    return p->t != p->ct || conv_side(p) == 1 || p->channels < 2 * lines ? p->channels : lines;
}
static inline int64_t conv_of_block(const struct plain *p, int64_t first)
{
    return p->channels - first < 2 * conv_block(p) ? p->channels - first : conv_block(p);
}
static inline int64_t conv_held(const struct plain *p) { return (p->channels % conv_block(p) ? 2 : 1) * conv_block(p); }

static inline size_t to_lines(int64_t bytes) { return (size_t)(ceil_div(bytes, 64) * 64); }

#endif
