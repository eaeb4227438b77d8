/* recurrent.c: recurrent layers on the CPU: a product and the gates' functions, step after step.
 *
 * A step is cut into parts, some sequences by some units, in which everything happens that the units need: the product
 * of all that came before with their gates' weights, and the functions, by the kernels of single operations.  The
 * weights are packed once for all steps, and so is what a step makes for the product of the next.  Up to four
 * sequences are vectors, which the weights are read for as they lie.
 *
 * Back through the steps it is the same with the weights turned: there what follows is multiplied, gates of a unit
 * side by side, for the units alone.
 *
 * Parts follow from shapes and the number of threads, but no sum does. */
#include "ops/recurrent.h"

#include <string.h>

#include "core/scope.h"
#include "core/sizes.h"
#include "cpu/kernels/gemm.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "plan/result.h"

enum {
    ROWS = 24,  /* sequences of a part, a multiple of every register tile's */
    UNITS = 64, /* of a part, at most */
    GATES = 4,
    FEW = GEMV_VECTORS,
};

struct series;
/* Some sequences and units of step t, from the products to the results. */
struct part {
    const struct series *j;
    int64_t t, row, unit; /* the first */
    int64_t rows, units;
    char *sums; /* for each group of outputs rows x units, in the type computed in */
    bool begun; /* products are added to x's gates already */
};
typedef void finish_fn(const struct part *p);

/* A state, or what goes back: of a sequence `inputs` numbers, which are multiplied for `groups` times `width`. */
struct series {
    enum dtype t, ct; /* stored and computed in */
    unsigned kind;
    size_t item, size; /* bytes of a number, likewise */
    int64_t sequences, steps, width, inputs, groups;
    const struct gemm_kernel *g;
    gemv_fn *gemv;        /* not NULL where sequences are vectors */
    const char *w;        /* a row for each output */
    int64_t w_row, w_col; /* from row to row and from input to input */
    char *panels;         /* else the same packed, group after group */
    char *next[2];        /* what steps make for a product: panels, or vectors that are not among the results */
    int64_t panel_units;  /* width, filled up */
    int64_t rows, units;  /* of a part */
    int64_t now;          /* the step at hand */
    bool first;           /* there is nothing before it */
    int begins;           /* groups that may begin with x's gates: to these nothing else is added in between */
    bool back;            /* steps go from the last to the first */
    finish_fn *finish;
    const char *wide_start; /* start[0] in the type computed in */
    /* Operands and results by what they are, as the kind has them. */
    const char *x, *bias, *start[2], *slope, *ct_of[2], *seen, *keep;
    char *y[2], *pre; /* pre: NULL where nobody will look at it; in the type computed in */
};

static size_t aligned(int64_t bytes) { return (size_t)(ceil_div(bytes, 64) * 64); }

/* ---- the parts' runs */

static void unary(const struct series *j, enum unary_id f, char *x, int64_t n)
{
    cpu->unary[f][j->ct](x, x, (size_t)n);
}

/* a = f(a, b) */
static void binary(const struct series *j, enum binary_id f, char *a, const void *b, int64_t n)
{
    cpu->binary[f][j->ct](a, a, 1, b, 1, (size_t)n);
}

static char *group(const struct part *p, int i) { return p->sums + (size_t)(i * p->rows * p->units) * p->j->size; }
static char *row_of(const struct part *p, int i, int64_t r)
{
    return group(p, i) + (size_t)(r * p->units) * p->j->size;
}

/* Numbers of an operand of shape (sequences, steps, count * width): gate i of row r at step t. */
static const char *at_step(const struct part *p, const char *x, int64_t t, int64_t r, int i, int count)
{
    const struct series *j = p->j;
    return x + (size_t)((((p->row + r) * j->steps + t) * count + i) * j->width + p->unit) * j->item;
}

/* The same in the type computed in, in `room` where that is another. */
static const void *load_units(const struct part *p, void *room, const void *x)
{
    const struct series *j = p->j;
    if (j->t == j->ct)
        return x;
    cpu->cast[j->t][j->ct](room, x, (size_t)p->units);
    return room;
}

/* State k before the step at hand; NULL: there is none, it is 0. */
static const void *state_before(const struct part *p, int k, int64_t r, void *room)
{
    const struct series *j = p->j;
    if (p->t > 0)
        return load_units(p, room, at_step(p, j->y[k], p->t - 1, r, 0, 1));
    if (!j->start[k])
        return NULL;
    return load_units(p, room, j->start[k] + (size_t)((p->row + r) * j->width + p->unit) * j->item);
}

/* Group i is done: rounded as it is stored, it goes to result k. */
static void store_state(const struct part *p, int i, int k)
{
    const struct series *j = p->j;
    uint16_t half[UNITS];
    for (int64_t r = 0; r < p->rows; r++) {
        char *from = row_of(p, i, r), *to = (char *)at_step(p, j->y[k], p->t, r, 0, 1);
        if (j->t == j->ct) {
            memcpy(to, from, (size_t)p->units * j->size);
        } else {
            cpu->cast[j->ct][j->t](half, from, (size_t)p->units);
            memcpy(to, half, (size_t)p->units * j->item);
            cpu->cast[j->t][j->ct](from, half, (size_t)p->units);
        }
    }
}

/* What the next product multiplies: group i, which is `at` numbers into a sequence's. */
static void hand_on(const struct part *p, int i, int64_t at)
{
    const struct series *j = p->j;
    char *next = j->next[!(p->t & 1)];
    int mr = j->g->mr;
    at += p->unit;
    if (!j->gemv) {
        j->g->pack(next + (size_t)(p->row * j->inputs + at * mr) * j->size, mr * j->inputs, mr, group(p, i), p->units,
                   1, p->rows, p->units);
    } else if (next) {
        for (int64_t r = 0; r < p->rows; r++)
            memcpy(next + (size_t)((p->row + r) * j->inputs + at) * j->size, row_of(p, i, r),
                   (size_t)p->units * j->size);
    }
}

/* Gate i of x, one of `count`, onto group k. */
static void add_gate(const struct part *p, int k, int i, int count)
{
    double room[UNITS];
    for (int64_t r = 0; r < p->rows && !(p->begun && k < p->j->begins); r++)
        binary(p->j, BINARY_add, row_of(p, k, r), load_units(p, room, at_step(p, p->j->x, p->t, r, i, count)),
               p->units);
}

/* x's gates to the groups that they are added to: one sum onto them is what they are onto it. */
static void begin_with_gates(const struct part *p)
{
    const struct series *j = p->j;
    for (int i = 0; i < j->begins; i++)
        for (int64_t r = 0; r < p->rows; r++) {
            const char *x = at_step(p, j->x, p->t, r, i, (int)j->groups);
            if (j->t == j->ct)
                memcpy(row_of(p, i, r), x, (size_t)p->units * j->size);
            else
                cpu->cast[j->t][j->ct](row_of(p, i, r), x, (size_t)p->units);
        }
}

/* What the gates' functions take, of `count` groups. */
static void keep_gates(const struct part *p, int first, int count)
{
    const struct series *j = p->j;
    for (int i = first; i < first + count && j->pre; i++)
        for (int64_t r = 0; r < p->rows; r++) {
            int64_t at = (((p->row + r) * j->steps + p->t) * j->groups + i) * j->width + p->unit;
            memcpy(j->pre + (size_t)at * j->size, row_of(p, i, r), (size_t)p->units * j->size);
        }
}

/* ---- steps */

/* Group `to` plus group `by`, of which nothing is left, times state k before the step at hand. */
static void fold_before(const struct part *p, int to, int by, int k)
{
    double room[UNITS];
    for (int64_t r = 0; r < p->rows; r++) {
        const void *before = state_before(p, k, r, room);
        if (before) {
            binary(p->j, BINARY_multiply, row_of(p, by, r), before, p->units);
            binary(p->j, BINARY_add, row_of(p, to, r), row_of(p, by, r), p->units);
        }
    }
}

static void finish_tanh(const struct part *p)
{
    add_gate(p, 0, 0, 1);
    keep_gates(p, 0, 1);
    unary(p->j, UNARY_tanh, p->sums, p->rows * p->units);
    store_state(p, 0, 0);
    hand_on(p, 0, 0);
}

static void finish_gru(const struct part *p)
{
    const struct series *j = p->j;
    int64_t n = p->rows * p->units;
    char *r = group(p, 0), *z = group(p, 1), *c = group(p, 2);
    double room[UNITS], one_wide = 1;
    float one = 1;
    add_gate(p, 0, 0, 3);
    add_gate(p, 1, 1, 3);
    keep_gates(p, 0, 2);
    unary(j, UNARY_sigmoid, r, 2 * n);
    for (int64_t i = 0; i < p->rows && j->bias; i++)
        binary(j, BINARY_add, row_of(p, 2, i), load_units(p, room, j->bias + (size_t)p->unit * j->item), p->units);
    keep_gates(p, 2, 1);
    binary(j, BINARY_multiply, c, r, n);
    add_gate(p, 2, 2, 3);
    unary(j, UNARY_tanh, c, n);
    cpu->binary[BINARY_subtract][j->ct](r, j->ct == DT_float64 ? (void *)&one_wide : &one, 0, z, 1, (size_t)n);
    binary(j, BINARY_multiply, c, r, n);
    fold_before(p, 2, 1, 0);
    store_state(p, 2, 0);
    hand_on(p, 2, 0);
}

static void finish_lstm(const struct part *p)
{
    const struct series *j = p->j;
    int64_t n = p->rows * p->units;
    char *i = group(p, 0), *g = group(p, 2), *o = group(p, 3);
    for (int k = 0; k < GATES; k++) add_gate(p, k, k, GATES);
    keep_gates(p, 0, GATES);
    unary(j, UNARY_sigmoid, i, 2 * n);
    unary(j, UNARY_tanh, g, n);
    unary(j, UNARY_sigmoid, o, n);
    binary(j, BINARY_multiply, i, g, n);
    fold_before(p, 0, 1, 1);
    store_state(p, 0, 1);
    unary(j, UNARY_tanh, i, n);
    binary(j, BINARY_multiply, o, i, n);
    store_state(p, 3, 0);
    hand_on(p, 3, 0);
}

/* ---- steps back; result 0 has the gates side by side */

/* Gate i is `from`, times its slope. */
static void finish_gate(const struct part *p, const char *from, int i, int count)
{
    const struct series *j = p->j;
    for (int64_t r = 0; r < p->rows; r++) {
        char *d = row_of(p, 2, r);
        cpu->binary[BINARY_multiply][j->ct](d, from + (size_t)(r * p->units) * j->size, 1,
                                            at_step(p, j->slope, p->t, r, i, count), 1, (size_t)p->units);
        memcpy((char *)at_step(p, j->y[0], p->t, r, i, count), d, (size_t)p->units * j->size);
    }
    hand_on(p, 2, i * j->width);
}

static void finish_back(const struct part *p)
{
    const struct series *j = p->j;
    bool lstm = j->kind == RECURRENT_LSTM, last = p->t == j->steps - 1;
    int count = recurrent_gates(j->kind);
    double room[UNITS];
    for (int64_t r = 0; r < p->rows; r++) {
        char *u = row_of(p, 0, r), *v = row_of(p, lstm, r);
        binary(j, BINARY_add, u, at_step(p, j->ct_of[0], p->t, r, 0, 1), p->units);
        if (lstm) {
            cpu->binary[BINARY_multiply][j->ct](v, u, 1, at_step(p, j->seen, p->t, r, 0, 1), 1, (size_t)p->units);
            binary(j, BINARY_add, v, at_step(p, j->ct_of[1], p->t, r, 0, 1), p->units);
        }
        if (j->keep && !last) {
            cpu->binary[BINARY_multiply][j->ct](room, at_step(p, j->keep, p->t + 1, r, 0, 1), 1,
                                                at_step(p, j->y[1], p->t + 1, r, 0, 1), 1, (size_t)p->units);
            binary(j, BINARY_add, v, room, p->units);
        }
        if (j->y[1])
            memcpy((char *)at_step(p, j->y[1], p->t, r, 0, 1), v, (size_t)p->units * j->size);
    }
    for (int i = 0; i < count; i++) finish_gate(p, group(p, lstm && i < GATES - 1), i, count);
}

/* ---- products */

/* The vectors that step t multiplies; *apart: from one to the next. */
static const char *vectors_of(const struct part *p, int64_t *apart)
{
    const struct series *j = p->j;
    *apart = j->inputs;
    if (j->next[0])
        return j->next[p->t & 1];
    if (p->t == 0 && !j->back)
        return j->start[0];
    *apart = j->steps * j->inputs;
    return j->y[0] + (size_t)((p->t + (j->back ? 1 : -1)) * j->inputs) * j->item;
}

static void multiply_part(const struct part *p)
{
    const struct series *j = p->j;
    const struct gemm_kernel *g = j->g;
    if (j->first) {
        memset(p->sums, 0, (size_t)(j->groups * p->rows * p->units) * j->size);
        return;
    }
    if (j->gemv) {
        int64_t apart;
        const char *before = vectors_of(p, &apart);
        for (int i = 0; i < j->groups; i++)
            j->gemv(group(p, i), 1, p->units, j->w + (size_t)((i * j->width + p->unit) * j->w_row) * j->item, j->w_row,
                    j->w_col, before, apart, (int)p->rows, p->units, j->inputs, p->begun && i < j->begins);
        return;
    }
    int64_t stretch = ceil_div(j->inputs, ceil_div(j->inputs, g->kc));
    const char *a = j->next[p->t & 1] + (size_t)(p->row * j->inputs) * j->size;
    for (int i = 0; i < j->groups; i++) {
        const char *w = j->panels + (size_t)((i * j->panel_units + p->unit) * j->inputs) * j->size;
        for (int64_t k = 0, depth; k < j->inputs; k += depth) {
            depth = least(stretch, j->inputs - k);
            g->tile(group(p, i), p->units, a + (size_t)(k * g->mr) * j->size, g->mr * j->inputs,
                    w + (size_t)(k * g->nr) * j->size, g->nr * j->inputs, p->rows, p->units, depth,
                    k > 0 || (p->begun && i < j->begins));
        }
    }
}

static void some_parts(void *ctx, int64_t begin, int64_t end)
{
    const struct series *j = ctx;
    int64_t down = ceil_div(j->sequences, j->rows);
    double sums[GATES * ROWS * UNITS];
    for (int64_t i = begin; i < end; i++) {
        struct part p = { .j = j, .t = j->now, .row = i % down * j->rows, .unit = i / down * j->units };
        p.rows = least(j->rows, j->sequences - p.row);
        p.units = least(j->units, j->width - p.unit);
        p.sums = (char *)sums;
        p.begun = j->begins && !j->first && j->inputs <= (j->gemv ? GEMV_BLOCK : j->g->kc);
        if (p.begun)
            begin_with_gates(&p);
        multiply_part(&p);
        j->finish(&p);
    }
}

static void pack_weights(void *ctx, int64_t begin, int64_t end)
{
    const struct series *j = ctx;
    int64_t across = j->panel_units / j->g->nr;
    for (int64_t i = begin; i < end; i++) {
        int64_t of = i / across, unit = i % across * j->g->nr;
        j->g->pack(j->panels + (size_t)((of * j->panel_units + unit) * j->inputs) * j->size, j->g->nr * j->inputs,
                   j->g->nr, j->w + (size_t)((of * j->width + unit) * j->w_row) * j->size, j->w_row, j->w_col,
                   least(j->g->nr, j->width - unit), j->inputs);
    }
}

/* The first state becomes what a product takes. */
static void hand_on_start(const struct series *j)
{
    if (!j->wide_start || !j->next[0])
        return;
    if (j->gemv)
        memcpy(j->next[0], j->wide_start, (size_t)(j->sequences * j->inputs) * j->size);
    else
        j->g->pack(j->next[0], j->g->mr * j->inputs, j->g->mr, j->wide_start, j->inputs, 1, j->sequences, j->inputs);
}

/* The weights are in the type computed in, but where sequences are vectors. */
static int run_series(struct series *j)
{
    int64_t nr = j->g->nr, mr = j->g->mr, threads = pool_threads();
    j->panel_units = ceil_div(j->width, nr) * nr;
    j->rows = ROWS;
    j->units = j->gemv ? UNITS : UNITS / nr * nr;
    int64_t down = ceil_div(j->sequences, j->rows), least_units = j->gemv ? 16 : nr;
    while (j->units / 2 >= least_units && down * ceil_div(j->width, j->units) < 4 * threads)
        j->units = ceil_div(j->units / 2, least_units) * least_units;
    int64_t parts = down * ceil_div(j->width, j->units);
    int64_t work = least(j->rows, j->sequences) * j->units * j->inputs * j->groups;
    size_t packed = j->gemv ? 0 : aligned(j->groups * j->panel_units * j->inputs * (int64_t)j->size);
    bool vectors = j->gemv && j->t != j->ct;
    size_t each = !j->gemv || vectors ? aligned(ceil_div(j->sequences, mr) * mr * j->inputs * (int64_t)j->size) : 0;
    struct buffer *space = NULL;
    if (packed + each && !(space = buffer_new(packed + 2 * each)))
        return 1;
    if (space) {
        j->panels = space->host;
        for (int i = 0; i < 2 && each; i++) j->next[i] = j->panels + packed + (size_t)i * each;
    }
    if (packed)
        pool_for(j->groups * j->panel_units / nr, 1 + WORTH_MULTIPLIED / (4 * nr * j->inputs), pack_weights, j);
    hand_on_start(j);
    for (int64_t i = 0; i < j->steps; i++) {
        j->now = j->back ? j->steps - 1 - i : i;
        j->first = i == 0 && !j->start[0];
        pool_for(parts, 1 + WORTH_MULTIPLIED / work, some_parts, j);
    }
    if (space)
        buffer_release(space);
    return 0;
}

static void set_types(struct series *j, enum dtype t)
{
    j->t = t;
    j->ct = t == DT_float64 ? DT_float64 : DT_float32;
    j->item = dtype_size(t);
    j->size = dtype_size(j->ct);
    j->g = &cpu->gemm->type[t == DT_float64 ? GEMM_f64 : GEMM_f32];
    j->gemv = j->sequences <= FEW ? cpu->gemm->gemv[t] : NULL;
}

int run_recurrent(const struct run *r)
{
    static finish_fn *const finish[] = { finish_tanh, finish_gru, finish_lstm };
    const struct recurrent_args *a = r->args;
    MX_SCOPE(NULL);
    enum { OPERANDS = 4, WIDE = OPERANDS };
    mx_own hold[OPERANDS + 1] = { { NULL } };
    mx x[OPERANDS + 1] = { NULL };
    struct series j = { .kind = a->kind, .finish = finish[a->kind], .groups = recurrent_gates(a->kind) };
    j.begins = a->kind == RECURRENT_GRU ? 2 : (int)j.groups; /* of a GRU's third, what is multiplied goes first */
    j.sequences = dim(r->y[0], 0);
    j.steps = dim(r->y[0], 1);
    j.width = j.inputs = dim(r->y[0], 2);
    set_types(&j, r->y[0]->dtype);
    int states = r->nout - 1;
    bool wanted = !result_unwanted(r->node, r->keep, r->y[states]),
         failed = out_new(r, 0) || (states > 1 && out_new(r, 1)), empty = r->y[0]->size == 0;
    failed = failed || (wanted && out_new(r, states));
    int hidden = 2 + a->bias, cell = hidden + a->hidden;
    for (int i = 0; i < r->nin && !failed && !empty; i++) {
        x[i] = i == 1 && !j.gemv ? row_major_as(r->x[i], j.ct, &hold[i]) : row_major(r->x[i], &hold[i]);
        failed = is_nil(x[i]);
    }
    if (a->hidden && !failed && !empty)
        failed = is_nil(x[WIDE] = row_major_as(x[hidden], j.ct, &hold[WIDE]));
    if (!failed && !empty) {
        j.x = host(x[0]);
        j.w = host(x[1]);
        j.w_row = j.inputs;
        j.w_col = 1;
        j.bias = a->bias ? host(x[2]) : NULL;
        j.start[0] = a->hidden ? host(x[hidden]) : NULL;
        j.wide_start = a->hidden ? host(x[WIDE]) : NULL;
        j.start[1] = a->cell ? host(x[cell]) : NULL;
        for (int k = 0; k < states; k++) j.y[k] = host(r->y[k]);
        j.pre = wanted ? host(r->y[states]) : NULL;
        failed = run_series(&j);
    }
    for (int i = 0; i <= OPERANDS; i++) mx_drop(&hold[i]);
    return failed;
}

static void turn_weights(void *ctx, int64_t begin, int64_t end)
{
    const struct series *j = ctx;
    cpu->transpose[j->size == 8 ? 3 : 2](j->panels + (size_t)(begin * j->inputs) * j->size, j->inputs,
                                         j->w + (size_t)begin * j->size, j->w_col, (size_t)(end - begin),
                                         (size_t)j->inputs);
}

/* Vectors are multiplied by rows, once these are worth a copy. */
static int run_back(struct series *j)
{
    struct buffer *rows = NULL;
    if (j->gemv && j->steps > 4) {
        if (!(rows = buffer_new((size_t)(j->inputs * j->width) * j->size)))
            return 1;
        j->panels = rows->host;
        pool_for(j->width, 16, turn_weights, j);
        j->w = j->panels;
        j->w_row = j->inputs;
        j->w_col = 1;
    }
    int failed = run_series(j);
    if (rows)
        buffer_release(rows);
    return failed;
}

int run_recurrent_back(const struct run *r)
{
    const struct recurrent_back_args *a = r->args;
    MX_SCOPE(NULL);
    enum { W, CT, SLOPE, MORE, SEEN, KEEP, OPERANDS };
    mx_own hold[OPERANDS] = { { NULL } };
    mx x[OPERANDS] = { NULL };
    struct series j = { .kind = a->kind, .finish = finish_back, .groups = 1, .back = true };
    j.sequences = dim(r->x[CT], 0);
    j.steps = dim(r->x[CT], 1);
    j.width = dim(r->x[CT], 2);
    j.inputs = recurrent_gates(a->kind) * j.width;
    set_types(&j, r->y[0]->dtype);
    bool failed = out_new(r, 0) || (r->nout > 1 && out_new(r, 1)), empty = r->y[0]->size == 0;
    for (int i = 0; i < r->nin && !failed && !empty; i++) failed = is_nil(x[i] = row_major(r->x[i], &hold[i]));
    if (!failed && !empty) {
        bool lstm = a->kind == RECURRENT_LSTM;
        j.w = host(x[W]);
        j.w_row = 1;
        j.w_col = j.width;
        j.ct_of[0] = host(x[CT]);
        j.slope = host(x[SLOPE]);
        j.ct_of[1] = lstm ? host(x[MORE]) : NULL;
        j.seen = lstm ? host(x[SEEN]) : NULL;
        j.keep = a->kind != RECURRENT_TANH ? host(x[lstm ? KEEP : MORE]) : NULL;
        for (int k = 0; k < r->nout; k++) j.y[k] = host(r->y[k]);
        failed = run_back(&j);
    }
    for (int i = 0; i < OPERANDS; i++) mx_drop(&hold[i]);
    return failed;
}
