/* product_groups.cu: products of half types by products of matrices that four warps make together:
 * cu_product_groups_bf16.  Devices of 9.0 alone; others have the tiles of product.cu, which do what this does not: rows
 * of a run along k here, and y has the sums as they are.
 *
 * A block makes a tile of y, half of its rows in each of two groups of four warps.  A third group fetches: steps of
 * both operands go to PRODUCT_GROUP_STAGES places by turns, and signals tell when one is full and when it has been
 * read.  Rows in the order of the matrix of b that they meet are read where they are in a. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/product_at.h"
#include "cuda/kernels/signal.h"
#include "cuda/kernels/warpgroup.h"

#define K(name) PASTE(name, SUFFIX)

enum {
    ROWS = PRODUCT_GROUP_ROWS,
    COLUMNS = PRODUCT_GROUP_COLUMNS,
    STEP = PANEL,
    STAGES = PRODUCT_GROUP_STAGES,
    PART = ROWS * PANEL_ROW, /* bytes of a in a step, behind which are those of b */
    STAGE = PART + COLUMNS * PANEL_ROW,
    LINES = GROUP_THREADS / (PANEL / 8), /* that the group fetches a panel's part of at once */
    DEPTHS = STEP / (GROUP_THREADS / 32) /* of b that a warp fetches where its lines are neighbours */
};

struct signals {
    signal_t full[STAGES], read[STAGES];
};

/* ---- what fetches */

/* Where a thread fetches: of lines LINES apart the same eight, or, of b across, of DEPTHS neighbours. */
struct source {
    const S *rows[ROWS / LINES], *columns;
    int64_t next, on; /* from one of the columns' eights to the next, and to the next step */
    int eight, line;  /* of a panel's row; of those at once */
};

/* Row i of groups is a row of a matrix of this pair. */
FN uint32_t find_pair(const struct product_args *a, int64_t i, uint32_t *row)
{
    uint32_t each = (uint32_t)a->each, place = (uint32_t)i / each;
    *row = (uint32_t)i - place * each;
    return a->order[place];
}

FN const S *row_of(const struct product_args *a, const struct spot *s, int64_t i)
{
    const S *p = (const S *)a->a.p + s->at.at[0];
    if (!a->order || !a->number[0])
        return p + i * a->a.line;
    uint32_t row, pair = find_pair(a, i, &row);
    return p + a->number[0][pair] * a->batch[0][0] + row * a->a.line;
}

FN struct source source_of(const struct product_args *a, const struct spot *s, const int b_across)
{
    struct source f;
    int thread = (int)threadIdx.x, lane = thread % 32;
    f.eight = thread % (PANEL / 8);
    f.line = thread / (PANEL / 8);
    UNROLLED
    for (int n = 0; n < ROWS / LINES; n++) {
        int64_t row = s->row + f.line + n * LINES;
        f.rows[n] = row_of(a, s, row < s->bottom ? row : s->row) + f.eight * 8;
    }
    f.columns = (const S *)a->b.p + s->at.at[1];
    f.columns += b_across ? s->column + lane * 8 + thread / 32 * DEPTHS * a->b.depth
                          : (s->column + f.line) * a->b.line + f.eight * 8;
    f.next = b_across ? a->b.depth : LINES * a->b.line;
    f.on = STEP * (b_across ? a->b.depth : 1);
    return f;
}

/* The step from k on, of which so much is left; zeros behind, and behind the last row and column. */
FN void fetch(struct source *f, shared_at to, const int b_across, int k, int left, int tall, int wide)
{
    int here = f->eight * 8 < left, lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 * DEPTHS;
    shared_at rows = to + in_panel(f->line, f->eight);
    UNROLLED
    for (int n = 0; n < ROWS / LINES; n++)
        copy_later_at(rows + n * LINES * PANEL_ROW, f->rows[n] + k, here && f->line + n * LINES < tall);
    if (b_across) {
        shared_at panel = to + PART + lane / 8 * STEP * PANEL_ROW + first * PANEL_ROW;
        UNROLLED
        for (int n = 0; n < DEPTHS; n++)
            copy_later_at(panel + in_panel(n, lane % 8), f->columns + n * f->next, lane * 8 < wide && first + n < left);
    } else {
        UNROLLED
        for (int n = 0; n < COLUMNS / LINES; n++)
            copy_later_at(rows + PART + n * LINES * PANEL_ROW, f->columns + n * f->next,
                          here && f->line + n * LINES < wide);
    }
    f->columns += f->on;
}

FN void fetch_all(const struct product_args *a, const struct spot *s, shared_at shared, struct signals *g,
                  const int b_across)
{
    struct source f = source_of(a, s, b_across);
    int tall = at_most(s->bottom - s->row, ROWS), wide = at_most(a->n - s->column, COLUMNS);
    int depth = (int)(s->end - s->from), to = 0, turn = 0;
    ROLLED
    for (int k = 0; k < depth; k += STEP) {
        signal_wait(&g->read[to], ~(uint32_t)turn & 1);
        fetch(&f, shared + to * STAGE, b_across, k, depth - k, tall, wide);
        signal_arrive_copied(&g->full[to]);
        turn += to == STAGES - 1;
        to = to == STAGES - 1 ? 0 : to + 1;
    }
    close_group();
    WAIT_GROUPS(0); /* none is under way when these threads end */
}

/* ---- what multiplies */

/* Of each four threads that have rows of a square of four words thread t gets column t. */
FN void turn_words(uint32_t v[4])
{
    UNROLLED
    for (int bits = 1; bits < 4; bits *= 2) {
        int odd = (int)threadIdx.x & bits;
        UNROLLED
        for (int i = 0; i < 4; i++) {
            if (i & bits)
                continue;
            uint32_t other = SHUFFLE_XOR(odd ? v[i] : v[i + bits], bits);
            v[i] = odd ? other : v[i];
            v[i + bits] = odd ? v[i + bits] : other;
        }
    }
}

/* Where row i belongs in y. */
FN int64_t line_of(const struct product_args *a, int64_t i)
{
    if (!a->order)
        return i;
    uint32_t row, pair = find_pair(a, i, &row);
    return pair * a->each + row;
}

/* Results, those of rows 8 apart by turns; row: a thread's first.  Of 32 neighbours each of four threads has eight in
 * the end. */
FN void put_results(const struct product_args *a, const struct spot *s, int64_t row, float sum[COLUMNS / 8][4])
{
    int64_t column = s->column + (int)threadIdx.x % 4 * 8;
    UNROLLED
    for (int r = 0; r < 2; r++) {
        int64_t i = row + 8 * r;
        int there = i < s->bottom;
        S *y = (S *)a->y + s->batch * a->y_matrix + line_of(a, there ? i : s->row) * a->y_row + column;
        UNROLLED
        for (int j = 0; j < COLUMNS; j += 32) {
            struct words4 x;
            UNROLLED
            for (int n = 0; n < 4; n++) x.w[n] = K(pair)(sum[j / 8 + n][2 * r], sum[j / 8 + n][2 * r + 1]);
            turn_words(x.w);
            if (there && column + j < a->n)
                *(struct words4 *)WIDE_AT(y + j, 16) = x;
        }
    }
}

/* Half of the tile's rows, those of group `mine`. */
FN void multiply_all(const struct product_args *a, const struct spot *s, shared_at shared, struct signals *g, int mine,
                     const int b_across)
{
    shared_matrix x = matrix_in_shared(shared + mine * (PART / 2), PART);
    shared_matrix y = matrix_in_shared(shared + PART, (b_across ? STEP : COLUMNS) * PANEL_ROW);
    float sum[COLUMNS / 8][4];
    int depth = (int)(s->end - s->from), now = 0, turn = 0;
    UNROLLED
    for (int j = 0; j < COLUMNS / 8; j++)
        for (int e = 0; e < 4; e++) sum[j][e] = 0;
    ROLLED
    for (int k = 0; k < depth; k += STEP) {
        int before = now == 0 ? STAGES - 1 : now - 1;
        signal_wait(&g->full[now], (uint32_t)turn & 1);
        show_to_products();
        group_begin();
        UNROLLED
        for (int d = 0; d < STEP; d += 16) {
            shared_matrix rows = matrix_at(x, now * STAGE + d * 2);
            shared_matrix columns = matrix_at(y, now * STAGE + d * (b_across ? PANEL_ROW : 2));
            if (b_across)
                PASTE(group_product_turned_256, SUFFIX)(sum, rows, columns);
            else
                PASTE(group_product_256, SUFFIX)(sum, rows, columns, 1);
        }
        group_close();
        group_wait_but_one();
        if (k > 0)
            signal_arrive(&g->read[before]);
        turn += now == STAGES - 1;
        now = now == STAGES - 1 ? 0 : now + 1;
    }
    GROUP_WAIT_256(0, sum);
    int64_t row = s->row + mine * (ROWS / 2) + (int)threadIdx.x % GROUP_THREADS / 32 * 16 + (int)threadIdx.x % 32 / 4;
    put_results(a, s, row, sum);
}

BOUNDED_KERNEL(K(cu_product_groups), struct product_args, PRODUCT_GROUP_THREADS, 1)
{
    SHARED_BYTES(memory, PRODUCT_GROUP_BYTES);
    SHARED struct signals signals;
    shared_at shared = place_in_shared(first_panel(memory));
    struct spot s = spot_of(&a, ROWS, COLUMNS);
    if (s.row >= s.bottom)
        return;
    int groups = s.bottom - s.row > ROWS / 2 ? 2 : 1, mine = (int)threadIdx.x / GROUP_THREADS - 1; /* that have rows */
    if (threadIdx.x == 0)
        for (int i = 0; i < STAGES; i++) {
            signal_new_of(&signals.full[i], GROUP_THREADS);
            signal_new(&signals.read[i], groups * GROUP_THREADS / 32);
        }
    BARRIER();
    if (mine < 0) {
        if (a.b.across)
            fetch_all(&a, &s, shared, &signals, 1);
        else
            fetch_all(&a, &s, shared, &signals, 0);
    } else if (mine < groups) {
        if (a.b.across)
            multiply_all(&a, &s, shared, &signals, mine, 1);
        else
            multiply_all(&a, &s, shared, &signals, mine, 0);
    }
}
