/* product_split_groups.cu: large products of float32 by products of matrices that four warps make together:
 * cu_product_split_groups_f32.  Devices of 9.0 alone; others have the tiles of product_split.inc, whose operands and
 * results these have (LARGE, as those of product.cu). */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/product_at.h"
#include "cuda/kernels/signal.h"
#include "cuda/kernels/warpgroup.h"

#include "cuda/kernels/product_results.h"

#define COLUMNS 128
#define N(name) name##_128
#include "cuda/kernels/split_groups.inc"

enum {
    STEP = N(STEP),
    EACH = SPLIT_GROUP_ROWS / N(AT_ONCE),
    ALIKE = 1 / (COLUMNS == SPLIT_GROUP_ROWS), /* are both operands */
    SQUARE = 1 / (EACH == 4),                  /* is what a thread turns */
};

/* What a thread fetches of an operand: four neighbours of each of some lines; or, across, a square of four lines and
 * four depths, which it turns.  A warp has squares of 32 neighbouring lines and 16 depths: it reads whole sectors, and
 * what it writes at once is in different banks. */
struct way {
    const float *from;
    int64_t step, on; /* step: between those lines, or from depth to depth; on: to the next step */
    int line, depth;
};
FN struct way way_of(const struct product_operand *o, const int across, const float *x)
{
    struct way w;
    int thread = (int)threadIdx.x, lane = thread % 32;
    w.line = across ? (thread / 32 % 4 * 8 + lane % 2 + lane / 8 * 2) * 4 : thread / (STEP / 4);
    w.depth = across ? (thread / 128 * 4 + lane / 2 % 4) * 4 : thread % (STEP / 4) * 4;
    w.from = x + w.line * o->line + w.depth * o->depth;
    w.step = across ? o->depth : N(AT_ONCE) * o->line;
    w.on = STEP * o->depth;
    return w;
}

/* The next step, of which there are so many lines and so much depth; zeros behind. */
FN void fetch(float v[EACH][4], struct way *w, const int across, int lines, int depth)
{
    UNROLLED
    for (int n = 0; n < EACH; n++) {
        int line = across ? w->line : w->line + n * N(AT_ONCE), d = across ? w->depth + n : w->depth;
        N(read_four)(v[n], w->from + n * w->step, line < lines && d < depth);
    }
    w->from += w->on;
}

FN void put(unsigned char *to, float v[EACH][4], const struct way *w, const int across)
{
    UNROLLED
    for (int n = 0; n < EACH; n++) {
        if (across) {
            const float x[4] = { v[0][n], v[1][n], v[2][n], v[3][n] };
            N(put_parts)(to + in_panel(w->line + n, w->depth / 4), N(ROW_BYTES), x);
        } else {
            N(put_parts)(to + in_panel(w->line + n * N(AT_ONCE), w->depth / 4), N(ROW_BYTES), v[n]);
        }
    }
}

FN void fetch_all(const struct product_args *a, const struct spot *s, unsigned char *memory, struct N(signals) * g,
                  const int a_across, const int b_across)
{
    struct way x =
        way_of(&a->a, a_across, (const float *)a->a.p + s->at.at[0] + s->row * a->a.line + s->from * a->a.depth);
    struct way y =
        way_of(&a->b, b_across, (const float *)a->b.p + s->at.at[1] + s->column * a->b.line + s->from * a->b.depth);
    int tall = at_most(s->bottom - s->row, SPLIT_GROUP_ROWS), wide = at_most(a->n - s->column, COLUMNS);
    struct N(ring) r = { memory, 0, 0 };
    float u[EACH][4], v[EACH][4];
    int left = (int)(s->end - s->from);
    fetch(u, &x, a_across, tall, left);
    fetch(v, &y, b_across, wide, left);
    ROLLED
    for (; left > 0; left -= STEP) {
        unsigned char *to = memory + r.now * N(STAGE);
        signal_wait(&g->read[r.now], ~(uint32_t)r.turn & 1);
        put(to, u, &x, a_across);
        fetch(u, &x, a_across, tall, left - STEP);
        put(to + 2 * N(ROW_BYTES), v, &y, b_across);
        fetch(v, &y, b_across, wide, left - STEP);
        show_to_products();
        signal_arrive(&g->full[r.now]);
        N(next)(&r);
    }
}

FN void multiply_all(const struct product_args *a, const struct spot *s, unsigned char *memory, struct N(signals) * g,
                     int mine)
{
    float sum[COLUMNS / 8][4];
    int64_t row = s->row + N(row_of_group)(mine);
    N(multiply_parts)(sum, g, memory, (int)(s->end - s->from), mine);
    if (N(is_missing)(sum)) {
        struct spot at = *s; /* what has an address is not in registers */
        int g8 = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4 * 2;
        UNROLLED
        for (int j = 0; j < COLUMNS / 8; j++) UNROLLED
        for (int e = 0; e < 4; e++)
            if (sum[j][e] != sum[j][e])
                sum[j][e] = sum_at(a, &at, row + g8 + e / 2 * 8, s->column + 8 * j + t + e % 2);
    }
    UNROLLED
    for (int j = 0; j < COLUMNS / 8; j++) put_of_warp(a, s, row, s->column + 8 * j, sum[j]);
}

BOUNDED_KERNEL(K(cu_product_split_groups), struct product_args, SPLIT_GROUP_THREADS, 1)
{
    SHARED_BYTES(bytes, SPLIT_GROUP_BYTES);
    SHARED struct N(signals) signals;
    unsigned char *memory = first_panel(bytes);
    struct spot s = spot_of(&a, SPLIT_GROUP_ROWS, COLUMNS);
    int mine = N(group)();
    if (threadIdx.x == 0)
        N(new_signals)(&signals);
    BARRIER();
    if (mine >= 0) {
        MORE_REGISTERS(168);
        multiply_all(&a, &s, memory, &signals, mine);
    } else {
        FEWER_REGISTERS(88);
        if (a.a.across && a.b.across)
            fetch_all(&a, &s, memory, &signals, 1, 1);
        else if (a.a.across)
            fetch_all(&a, &s, memory, &signals, 1, 0);
        else if (a.b.across)
            fetch_all(&a, &s, memory, &signals, 0, 1);
        else
            fetch_all(&a, &s, memory, &signals, 0, 0);
    }
}
