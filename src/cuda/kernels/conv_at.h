/* conv_at.h: where a block of a convolution works, what its positions and taps meet, and what becomes of sums.
 *
 * Include cuda/kernels/gpu.h, conv.h, lanes.h and warp.h before. */
#ifndef MX_CUDA_KERNELS_CONV_AT_H
#define MX_CUDA_KERNELS_CONV_AT_H

#define K(name) PASTE(name, SUFFIX)
typedef SUM T;
#ifdef HALF
#define IN(x) PASTE(f32_from, SUFFIX)(x)
#define OUT(x) PASTE(SUFFIX, from_f32)(x)
#define FUSED m_fma_f32
#else
#define IN(x) (x)
#define OUT(x) (x)
#define FUSED PASTE(m_fma, SUFFIX)
#endif

FN S zero_element(void) { return 0; }
FN T plus_product(T sum, T x, T y) { return FUSED(x, y, sum); }

/* ---- where things are */

/* A number by its digits, of which each has so many values; of the first there may be more.  Positions, columns and
 * blocks are less than 2^31. */
struct digits {
    int v[4];
};
FN struct digits digits_of(int n, const struct digits *size)
{
    struct digits d;
    unsigned rest = (unsigned)n;
    UNROLLED
    for (int i = 3; i > 0; i--) {
        unsigned up = rest / (unsigned)size->v[i];
        d.v[i] = (int)(rest - up * (unsigned)size->v[i]);
        rest = up;
    }
    d.v[0] = (int)rest;
    return d;
}
FN void add_digits(struct digits *d, const struct digits *by, const struct digits *size)
{
    int carry = 0;
    UNROLLED
    for (int i = 3; i > 0; i--) {
        d->v[i] += by->v[i] + carry;
        carry = d->v[i] >= size->v[i];
        d->v[i] -= carry ? size->v[i] : 0;
    }
    d->v[0] += by->v[0] + carry;
}

/* Where a block works: the tile's first row and column, from where to where it sums up, which phase of each axis; and
 * how many positions and columns there are in that phase. */
struct spot {
    int row, column, from, end, piece, group;
    struct conv_phase phase[3];
    int n_positions, n_columns;
    struct digits positions, columns;
    struct digits step; /* what kernels count by */
};
enum { TILES_DOWN = 8 }; /* neighbours in time are squares of tiles, whose operands are in the cache */

FN unsigned remainder_of(unsigned *n, int by)
{
    unsigned up = *n / (unsigned)by, rest = *n - up * (unsigned)by;
    *n = up;
    return rest;
}

FN struct spot spot_of(const struct conv_call *a, int tall_tile, int wide_tile, const int of_weights)
{
    struct spot s;
    unsigned rest = blockIdx.x, t = remainder_of(&rest, a->down * a->across);
    unsigned within = remainder_of(&t, TILES_DOWN * a->across), first = t * TILES_DOWN;
    int tall = a->down - (int)first < TILES_DOWN ? a->down - (int)first : TILES_DOWN;
    s.row = (int)(first + remainder_of(&within, tall)) * tall_tile;
    s.column = (int)within * wide_tile;
    s.piece = (int)remainder_of(&rest, a->pieces);
    s.group = (int)remainder_of(&rest, a->groups);
    s.positions.v[0] = a->images;
    s.n_positions = a->images;
    s.n_columns = a->in;
    UNROLLED
    for (int i = 2; i >= 0; i--) {
        s.phase[i] = a->axis[i].phase[remainder_of(&rest, a->axis[i].phases)];
        s.n_positions *= s.phase[i].out;
        s.n_columns *= s.phase[i].taps;
        s.positions.v[i + 1] = s.phase[i].out;
        s.columns.v[i] = s.phase[i].taps > 0 ? s.phase[i].taps : 1; /* none at all: nobody counts through them */
    }
    s.columns.v[3] = a->in;
    s.from = s.piece * a->piece;
    s.end = of_weights ? s.n_positions : s.n_columns;
    s.end = s.end - s.from < a->piece ? s.end : s.from + a->piece;
    s.end = s.end < s.from ? s.from : s.end; /* a phase that has fewer pieces than others */
    return s;
}

/* A position: where what it meets first is in x, along each axis and in memory, and where it is itself in y. */
struct line {
    int64_t x, y;
    int at[3], unused;
};
FN struct line line_of(const struct conv_call *a, const struct spot *s, const struct digits *d)
{
    struct line l;
    l.x = d->v[0] * a->x_image;
    l.y = d->v[0] * a->y_image;
    UNROLLED
    for (int i = 0; i < 3; i++) {
        l.at[i] = s->phase[i].at + d->v[i + 1] * a->axis[i].stride;
        l.x += l.at[i] * a->axis[i].x;
        l.y += (s->phase[i].first + d->v[i + 1] * a->axis[i].step) * a->axis[i].y;
    }
    return l;
}

/* A channel of a tap: how far behind the first tap it is along each axis, in x and in the weights. */
struct tap {
    int64_t x, w;
    int behind[3];
};
FN struct tap tap_of(const struct conv_call *a, const struct digits *d)
{
    struct tap t;
    t.x = t.w = d->v[3];
    UNROLLED
    for (int i = 0; i < 3; i++) {
        t.behind[i] = d->v[i] * a->axis[i].dilation;
        t.x += t.behind[i] * a->axis[i].x;
        t.w += d->v[i] * a->axis[i].apart * a->axis[i].w;
    }
    return t;
}
/* The first tap of a phase, in the weights of a line. */
FN int64_t first_tap(const struct conv_call *a, const struct spot *s)
{
    int64_t w = 0;
    for (int i = 0; i < 3; i++) w += s->phase[i].tap * a->axis[i].w;
    return w;
}

/* Do they meet inside of x? */
FN int is_inside(const struct conv_call *a, const int at[3], const int behind[3])
{
    int is = 1;
    UNROLLED
    for (int i = 0; i < 3; i++) is &= (unsigned)(at[i] + behind[i]) < (unsigned)a->axis[i].in;
    return is;
}

/* A position by its number; one that is not there meets nothing, and is nowhere. */
FN struct line line_at(const struct conv_call *a, const struct spot *s, int row)
{
    struct digits d = digits_of(row, &s->positions);
    struct line l = line_of(a, s, &d);
    if (row >= s->n_positions) {
        l.at[0] = INT32_MIN;
        l.y = -1;
    }
    return l;
}

/* The positions of a tile. */
FN void find_lines(struct line *lines, const struct conv_call *a, const struct spot *s, int tile)
{
    for (int i = (int)threadIdx.x; i < tile; i += (int)blockDim.x) lines[i] = line_at(a, s, s->row + i);
}

/* Where the columns of a tile are among the weights of an output channel; below 0 those that are not there. */
FN void find_columns(int64_t *places, const struct conv_call *a, const struct spot *s, int tile)
{
    for (int i = (int)threadIdx.x; i < tile; i += (int)blockDim.x) {
        struct digits d = digits_of(s->column + i, &s->columns);
        struct tap t = tap_of(a, &d);
        places[i] = s->column + i < s->n_columns ? first_tap(a, s) + t.w : INT64_MIN;
    }
}

/* Those of a position and a channel of the group, number by number. */
FN_APART T sum_at(const struct conv_call *a, const struct spot *s, int row, int channel)
{
    T sum = 0;
    struct digits d = digits_of(row, &s->positions);
    struct line l = line_of(a, s, &d);
    const S *x = (const S *)a->x + (int64_t)s->group * a->in;
    const S *w = (const S *)a->other + ((int64_t)s->group * a->out + channel) * a->w_line + first_tap(a, s);
    if (row >= s->n_positions || channel >= a->out)
        return 0;
    for (int k = s->from; k < s->end; k++) {
        struct digits of = digits_of(k, &s->columns);
        struct tap t = tap_of(a, &of);
        sum = plus_product(sum, is_inside(a, l.at, t.behind) ? IN(x[l.x + t.x]) : 0, IN(w[t.w]));
    }
    return sum;
}

/* ---- results */

/* Sums, or partial ones, from element `first` of the result on, or from there at the columns' places, if these are not
 * below 0: n of four. */
FN_APART void put_some(const struct conv_call *a, int64_t piece, int64_t first, const int64_t *columns, int n, T s0,
                       T s1, T s2, T s3)
{
    T sum[4] = { s0, s1, s2, s3 };
    UNROLLED
    for (int k = 0; k < 4; k++) {
        int64_t place = columns ? first + columns[k] : first + k;
        if (k >= n || place < 0)
            continue;
        if (a->pieces > 1)
            ((T *)a->partial)[piece * a->size + place] = sum[k];
        else
            ((S *)a->result)[place] = OUT(sum[k]);
    }
}

/* Four that are results, next to each other. */
FN void put_four(const struct conv_call *a, int64_t place, const T sum[4])
{
    union {
        S v[4];
        struct words4 align;
    } u;
    for (int k = 0; k < 4; k++) u.v[k] = OUT(sum[k]);
    COPY_LANES((S *)a->result + place, u.v, sizeof u.v);
}

/* Of a convolution's tile: of one of its positions, from this channel of the group on. */
FN void put_channels(const struct conv_call *a, const struct spot *s, const struct line *l, int channel, const T sum[4])
{
    int64_t first = l->y + (int64_t)s->group * a->out + channel;
    if (l->y < 0 || channel >= a->out)
        return;
    if (a->plain)
        put_four(a, first, sum);
    else
        put_some(a, s->piece, first, 0, a->out - channel, sum[0], sum[1], sum[2], sum[3]);
}

/* Of a tile of weights: of one output channel, for these columns. */
FN void put_columns(const struct conv_call *a, const struct spot *s, int channel, const int64_t *columns,
                    const T sum[4])
{
    int64_t first = ((int64_t)s->group * a->out + channel) * a->w_line;
    if (channel >= a->out || columns[0] < 0)
        return;
    if (a->plain)
        put_four(a, first + columns[0], sum);
    else
        put_some(a, s->piece, first, columns, 4, sum[0], sum[1], sum[2], sum[3]);
}

#endif
