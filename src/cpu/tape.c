/* tape.c: element-wise entries run as one.
 *
 * The members of a fused entry become a short program of kernel calls, run for one tile of elements
 * after the other, so that what one call leaves for the next stays in L1.  The kernels are those
 * that run single entries, and every value is kept in its own type: half types are widened for a
 * call and rounded after it, as anywhere else.  So fused results equal unfused ones bit for bit.
 *
 * Calls read and write slots.  A slot is the memory of an operand or an output, and moves on with
 * the tile; or a register, a tile that stays; or one value for all elements.  What follows from such
 * constants alone is computed once, while the program is made.  A sum, difference or product of float32
 * that only one other such member reads is computed with that in one call (kernels/trees.h) and needs no
 * memory.  Operands of other strides are handed over as runs (cpu/runs.h).  The last member may be a
 * reduction (cpu/made.h): it asks for its operand's elements block by block and folds them while they are
 * in L1; those of a sum of products may be the factors. */
#include <math.h>
#include <stdlib.h>

#include "core/sizes.h"
#include "cpu/kernels/trees.h"
#include "cpu/made.h"
#include "cpu/run.h"
#include "cpu/runs.h"
#include "cpu/worth.h"
#include "plan/result.h"

enum {
    OPERANDS = 3,
    VALUES = FUSE_MOST * (1 + OPERANDS), /* results of members, then operands from outside */
    SLOTS = 4 * VALUES,
    STEPS = 6 * FUSE_MOST, /* of a member: three operands widened, the call, rounding, spreading */
    LEAST = 16,            /* elements of a tile */
    FRAME = 32 << 10,      /* bytes of registers: LEAST elements of as many as there may be fit in */
    L1 = 32 << 10,         /* bytes for what a tile and the next one touch */
    FAR = 1 << 20,         /* bytes of operands and outputs that no cache near the processor holds */
    LINE = 64,             /* bytes of a cache's line */
    AHEAD = 256,           /* elements of the shortest tile that is worth fetching the next for */
    STREAMS = 12,          /* slots that are fetched ahead */
    FARTHER = 32 << 20,    /* and no cache at all */
    AT_ONCE = 36,          /* lines that a step fetches from there without waiting */
};

enum step_kind { STEP_UNARY, STEP_BINARY, STEP_SELECT, STEP_SPREAD, STEP_TREE, STEP_BELL };
union kernel {
    unary_fn *unary; /* and casts */
    binary_fn *binary;
    select_fn *select;
    move_fn *spread;
    tree_fn *tree;
    bell_fn *bell;
};
struct tape_step {
    union kernel fn;
    int16_t kind, y, x[TREE_LEAVES];
};

/* Element i is at base + i * step; the base of a register counts from the thread's frame. */
struct tape_slot {
    uintptr_t base;
    int32_t step;
    int16_t stride;
    bool frame;
};

/* Memory that is fetched a tile ahead in as many parts as there are steps. */
struct tape_stream {
    int slot, bytes, share; /* of a tile, of a step */
};

struct tape_program {
    int n_steps, n_slots, n_walked, n_moving, n_ahead;
    int64_t tile; /* elements */
    struct tape_stream ahead[STREAMS];
    struct tape_step step[STEPS];
    struct tape_slot slot[SLOTS];
    int walked[RUN_OPERANDS]; /* slots of the operands that come as runs */
    int moving[VALUES];       /* slots in memory that move on with the tile */
    int read[2];              /* slots of what a reduction reads, two where they are factors */
    int made;                 /* the one of them that nobody else keeps; -1: none */
    size_t made_size;
};

/* Where this thread's elements for a reduction go, and the number of the first. */
static _Thread_local struct {
    char *y;
    int64_t at;
} making;

/* ---- running */

/* Where a thread's slots are. */
struct thread_slots {
    void *p[SLOTS];
    int stride[SLOTS];
};

static inline void frame_go_to(const struct tape_program *t, struct thread_slots *w, char *frame, int64_t at)
{
    for (int i = 0; i < t->n_slots; i++) {
        const struct tape_slot *o = &t->slot[i];
        w->p[i] = (void *)(o->base + (uintptr_t)(at * o->step) + (o->frame ? (uintptr_t)frame : 0));
        w->stride[i] = o->stride;
    }
    if (t->made >= 0)
        w->p[t->made] = making.y + (at - making.at) * (int64_t)t->made_size;
}

/* A step's part of each stream of the next tile.  A processor foresees one stream within a page, not many
 * short stretches; all at once would make the first step wait.  (Chain of 8 additions and products of
 * five operands: 1.7 times as fast as without; in cache it costs a quarter.)  Inlined, or GCC finds that it
 * does nothing. */
static inline __attribute__((always_inline)) void fetch(const struct tape_program *t, int step, void *const p[])
{
    for (int k = 0; k < t->n_ahead; k++) {
        const struct tape_stream *s = &t->ahead[k];
        int from = step * s->share, to = from + s->share < s->bytes ? from + s->share : s->bytes;
        const char *x = (const char *)p[s->slot] + s->bytes;
        for (; from < to; from += LINE) __builtin_prefetch(x + from);
    }
}

static void run_tree(const struct tape_step *c, const struct thread_slots *w, int64_t n)
{
    const float *x[TREE_LEAVES];
    int s[TREE_LEAVES];
    for (int k = 0; k < TREE_LEAVES; k++) x[k] = w->p[c->x[k]], s[k] = w->stride[c->x[k]];
    c->fn.tree(w->p[c->y], x, s, (size_t)n);
}

static inline void run_steps(const struct tape_program *t, const struct thread_slots *w, int64_t n)
{
    void *const *p = w->p;
    const int *stride = w->stride;
    for (int i = 0; i < t->n_steps; i++) {
        const struct tape_step *c = &t->step[i];
        int y = c->y, a = c->x[0], b = c->x[1], d = c->x[2];
        if (n == t->tile)
            fetch(t, i, p);
        switch (c->kind) {
        case STEP_UNARY: c->fn.unary(p[y], p[a], (size_t)n); break;
        case STEP_BINARY: c->fn.binary(p[y], p[a], stride[a], p[b], stride[b], (size_t)n); break;
        case STEP_SELECT: c->fn.select(p[y], p[a], stride[a], p[b], stride[b], p[d], stride[d], (size_t)n); break;
        case STEP_SPREAD: c->fn.spread(p[y], 1, p[a], 0, (size_t)n); break;
        case STEP_TREE: run_tree(c, w, n); break;
        case STEP_BELL: c->fn.bell(p[y], p[a], *(float *)p[b], *(float *)p[d], *(float *)p[c->x[3]], (size_t)n); break;
        }
    }
}

/* Where some operands come as runs. */
static void run_tile(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n)
{
    const struct tape_program *t = r->fn.tape;
    _Alignas(64) char frame[FRAME];
    struct thread_slots w;
    frame_go_to(t, &w, frame, at);
    for (int k = 0; k < t->n_walked; k++) {
        w.p[t->walked[k]] = (void *)x[k];
        w.stride[t->walked[k]] = s[k];
    }
    run_steps(t, &w, n);
}

static void run_tape_range(void *ctx, int64_t begin, int64_t end)
{
    const struct runs *r = ctx;
    const struct tape_program *t = r->fn.tape;
    _Alignas(64) char frame[FRAME];
    struct thread_slots w;
    frame_go_to(t, &w, frame, begin);
    for (int64_t n; begin < end; begin += n) {
        n = end - begin < r->most ? end - begin : r->most;
        run_steps(t, &w, n);
        for (int k = 0; k < t->n_moving; k++) {
            int i = t->moving[k];
            w.p[i] = (char *)w.p[i] + n * t->slot[i].step;
        }
        if (t->made >= 0)
            w.p[t->made] = (char *)w.p[t->made] + n * (int64_t)t->made_size;
    }
}

/* ---- making the program */

struct fused_value {
    mx array;
    int16_t slot, wide; /* -1: none; `wide` has a half type's values as float32 */
    int16_t walk;       /* which of the runs; -1: none */
    int16_t last;       /* the last member that reads it; -1: none */
    int16_t uses;       /* operands of members that it is */
    int16_t within;     /* the member in whose call it is computed; -1: in its own */
    bool constant;      /* one for all elements */
    bool taken;         /* its memory is an output's now */
};

/* The values of x (one + erf(x c)) h. */
struct bell {
    int16_t x, c, one, h; /* x: -1 for none */
};

struct tape_maker {
    struct tape_program *t;
    struct bell bell[FUSE_MOST];
    int n_members, n_values;
    struct fused_value value[VALUES];
    uint8_t arg[FUSE_MOST][OPERANDS]; /* values */
    int n_free, free[SLOTS];          /* registers */
    int registers;
    size_t unit;   /* bytes of the largest element in a register */
    size_t stream; /* bytes that an element of each operand and output takes */
    int64_t cost;  /* of an element, in elements moved */
    size_t run_bytes;
    uint32_t repeats;
    mx walked[RUN_OPERANDS];
    const void *data[RUN_OPERANDS];
    int n_constants, n_held;
    double constant[3 * VALUES];
    mx_own held[VALUES]; /* copies of operands */
};

static void put_step(struct tape_maker *k, union kernel fn, enum step_kind kind, int y, const int x[])
{
    struct tape_step *s = &k->t->step[k->t->n_steps++];
    s->fn = fn;
    s->kind = (int16_t)kind;
    s->y = (int16_t)y;
    for (int a = 0; a < TREE_LEAVES; a++) s->x[a] = (int16_t)x[a];
}

static void put_cast(struct tape_maker *k, cast_fn *f, int y, int x)
{
    put_step(k, (union kernel){ .unary = f }, STEP_UNARY, y, (int[TREE_LEAVES]){ x });
}

static int new_slot(struct tape_maker *k, const void *base, size_t step, int stride)
{
    struct tape_slot *s = &k->t->slot[k->t->n_slots];
    s->base = (uintptr_t)base;
    s->step = (int32_t)step;
    s->stride = (int16_t)stride;
    s->frame = false;
    return k->t->n_slots++;
}

static int take_register(struct tape_maker *k, size_t size)
{
    k->unit = k->unit > size ? k->unit : size;
    if (k->n_free)
        return k->free[--k->n_free];
    int s = new_slot(k, NULL, 0, 1);
    k->t->slot[s].frame = true;
    k->t->slot[s].base = (uintptr_t)k->registers++; /* until `lay_out` */
    return s;
}

static int new_constant(struct tape_maker *k) { return new_slot(k, &k->constant[k->n_constants++], 0, 0); }

static void *address(struct tape_maker *k, int slot) { return (void *)k->t->slot[slot].base; }

/* The slot that has v's values as the kernels of its type take them. */
static int operand_slot(struct tape_maker *k, struct fused_value *v, bool widened)
{
    enum dtype t = v->array->dtype;
    if (!widened || !dtype_is_half(t))
        return v->slot;
    if (v->wide >= 0)
        return v->wide;
    cast_fn *widen = cpu->cast[t][DT_float32];
    if (v->constant) {
        v->wide = (int16_t)new_constant(k);
        widen(address(k, v->wide), address(k, v->slot), 1);
    } else {
        if (v->walk >= 0)
            k->repeats &= ~(1u << v->walk);
        v->wide = (int16_t)take_register(k, sizeof(float));
        put_cast(k, widen, v->wide, v->slot);
    }
    return v->wide;
}

static struct fused_value *argument(struct tape_maker *k, int i, int a) { return &k->value[k->arg[i][a]]; }

/* Registers that member i is the last to read, of n values that it reads: a result of elements of `size` bytes may be
 * written over one of them, which is returned (-1: there is none); the others are `gone` after the call. */
static int last_reads(struct tape_maker *k, int i, int n, struct fused_value *const from[], size_t size, int gone[],
                      int *n_gone)
{
    int over = -1;
    *n_gone = 0;
    for (int a = 0; a < n; a++) {
        struct fused_value *v = from[a];
        if (v->last != i)
            continue;
        for (int wide = 0; wide < 2; wide++) {
            int s = wide ? v->wide : v->slot;
            if (s < 0 || !k->t->slot[s].frame)
                continue;
            if (over < 0 && size == (wide ? sizeof(float) : itemsize(v->array)))
                over = s;
            else
                gone[(*n_gone)++] = s;
        }
        v->slot = v->wide = -1;
    }
    return over;
}

static void give_registers(struct tape_maker *k, int n, const int s[])
{
    for (int i = 0; i < n; i++) k->free[k->n_free++] = s[i];
}

static bool computes(const struct node *n) { return n->op != &op_where && n->op != &op_astype; }

/* The kernel of member i; NULL after mx_fail. */
static union kernel step_kernel(const struct node *n, enum dtype to, enum step_kind *kind)
{
    *kind = n->op == &op_where ? STEP_SELECT : n->nin == 1 ? STEP_UNARY : STEP_BINARY;
    if (n->op == &op_where)
        return (union kernel){ .select = select_kernel(n) };
    if (n->op == &op_astype)
        return (union kernel){ .unary = cpu->cast[n->in[0]->dtype][to] };
    if (n->nin == 1)
        return (union kernel){ .unary = unary_kernel(n) };
    return (union kernel){ .binary = binary_kernel(n) };
}

/* A call on constants, made at once; returns the slot of its value. */
static int compute_constant(struct tape_maker *k, union kernel fn, enum step_kind kind, const int from[],
                            cast_fn *narrow)
{
    int s = new_constant(k);
    float rounded;
    void *y = address(k, s), *to = narrow ? (void *)&rounded : y, *x[OPERANDS];
    for (int a = 0; a < OPERANDS; a++) x[a] = address(k, from[a]);
    switch (kind) {
    case STEP_UNARY: fn.unary(to, x[0], 1); break;
    case STEP_BINARY: fn.binary(to, x[0], 1, x[1], 1, 1); break;
    default: fn.select(to, x[0], 1, x[1], 1, x[2], 1, 1); break;
    }
    if (narrow)
        narrow(y, to, 1);
    return s;
}

static double constant_of(const struct tape_maker *k, int slot, bool wide)
{
    const void *c = (const void *)k->t->slot[slot].base;
    return wide ? *(const double *)c : *(const float *)c;
}

/* Is that what n divides by, all over? */
static bool is_power_of_two(const struct tape_maker *k, const struct node *n, int divisor)
{
    const struct tape_slot *s = &k->t->slot[divisor];
    enum dtype t = n->in[0]->dtype;
    int e;
    if (n->op != &op_divide || s->stride || s->step || s->frame || !dtype_is_float(t))
        return false;
    return fabs(frexp(constant_of(k, divisor, t == DT_float64), &e)) == 0.5 && abs(e) <= 100;
}

/* Dividing by a power of two is multiplying by its inverse, which is exact too: its slot, -1 for other divisions. */
static int inverse_slot(struct tape_maker *k, const struct node *n, int divisor)
{
    bool wide = n->in[0]->dtype == DT_float64;
    if (!is_power_of_two(k, n, divisor))
        return -1;
    double c = constant_of(k, divisor, wide);
    int inverse = new_constant(k);
    if (wide)
        *(double *)address(k, inverse) = 1 / c;
    else
        *(float *)address(k, inverse) = (float)(1 / c);
    return inverse;
}

/* The step that makes the value of member i, of `size` bytes an element, of n others: in `output`, if that is not
 * negative, or over one that nobody reads afterwards, or in a register of its own.  Where it is. */
static int put_over(struct tape_maker *k, int i, union kernel fn, enum step_kind kind, const int x[], int n,
                    struct fused_value *const from[], size_t size, int output)
{
    int gone[2 * TREE_LEAVES] = { 0 }, n_gone, over = last_reads(k, i, n, from, size, gone, &n_gone);
    int to = output >= 0 ? output : over >= 0 ? over : take_register(k, size);
    put_step(k, fn, kind, to, x);
    give_registers(k, n_gone, gone);
    if (over >= 0 && over != to)
        give_registers(k, 1, &over);
    k->value[i].slot = (int16_t)to;
    return to;
}

/* The steps of member i; `output` is the slot of its memory, -1 where it has none. */
static int add_member(struct tape_maker *k, int i, const struct node *n, int output)
{
    struct fused_value *v = &k->value[i];
    enum dtype t = v->array->dtype;
    enum step_kind kind;
    union kernel fn = step_kernel(n, t, &kind);
    int x[TREE_LEAVES] = { 0 };
    struct fused_value *from[OPERANDS];
    if (!fn.unary)
        return 1;
    v->constant = true;
    for (int a = 0; a < n->nin; a++) {
        from[a] = argument(k, i, a);
        v->constant &= from[a]->constant;
        if (kind == STEP_UNARY && from[a]->walk >= 0)
            k->repeats &= ~(1u << from[a]->walk);
        x[a] = operand_slot(k, from[a], computes(n));
    }
    size_t size = dtype_size(t);
    cast_fn *narrow = computes(n) && dtype_is_half(t) ? cpu->cast[DT_float32][t] : NULL;
    if (v->constant) {
        v->slot = (int16_t)compute_constant(k, fn, kind, x, narrow);
        fn.spread = cpu->move[__builtin_ctzl(size)];
        if (output >= 0)
            put_step(k, fn, STEP_SPREAD, output, (int[TREE_LEAVES]){ v->slot });
        return 0;
    }
    int inverse = kind == STEP_BINARY ? inverse_slot(k, n, x[1]) : -1;
    if (inverse >= 0) {
        x[1] = inverse;
        fn.binary = cpu->binary[BINARY_multiply][t == DT_float64 ? DT_float64 : DT_float32];
    }
    k->cost += computes(n) ? kernel_cost(n->op) : 1;
    int to = put_over(k, i, fn, kind, x, n->nin, from, narrow ? sizeof(float) : size, narrow ? -1 : output);
    if (narrow) {
        v->slot = (int16_t)(output >= 0 ? output : take_register(k, size));
        put_cast(k, narrow, v->slot, to);
        give_registers(k, 1, &to);
    }
    return 0;
}

/* How a member joins its operands, where trees can. */
static enum tree_op joins(const struct node *n)
{
    if (n->nin == 0 || n->in[0]->dtype != DT_float32)
        return TREE_LEAF;
    return n->op == &op_add        ? TREE_ADD
           : n->op == &op_subtract ? TREE_SUBTRACT
           : n->op == &op_multiply ? TREE_MULTIPLY
           : n->op == &op_square   ? TREE_MULTIPLY
           : n->op == &op_divide   ? TREE_DIVIDE
                                   : TREE_LEAF;
}

/* Who reads a member, and may it be computed within that? */
struct reading {
    int reader[FUSE_MOST]; /* NOBODY or SEVERAL or a member */
    bool constant[FUSE_MOST], hidden[FUSE_MOST];
};
enum { NOBODY = -1, SEVERAL = -2 };

static void find_readers(const struct tape_maker *k, struct reading *of, int n, struct entry *const m[],
                         const bool wanted[], const int reads[2])
{
    for (int i = 0; i < n; i++) of->reader[i] = NOBODY;
    for (int i = 0; i < n; i++) {
        of->constant[i] = true;
        for (int a = 0; a < m[i]->node->nin; a++) {
            int v = k->arg[i][a];
            of->constant[i] &= v < n ? of->constant[v] : k->value[v].constant;
            if (v < n)
                of->reader[v] = of->reader[v] == NOBODY || of->reader[v] == i ? i : SEVERAL;
        }
    }
    for (int i = 0; i < n; i++)
        of->hidden[i] = of->reader[i] >= 0 && !wanted[i] && !of->constant[i] && i != reads[0] && i != reads[1];
}

/* Member i is computed within member j, where it reads its own operands. */
static void put_within(struct tape_maker *k, const struct node *n, int i, int j)
{
    k->value[i].within = (int16_t)j;
    for (int a = 0; a < n->nin; a++) {
        struct fused_value *v = argument(k, i, a);
        v->last = (int16_t)(v->last > j ? v->last : j);
    }
}

/* Of a sum or product of float32 one operand, beside the other, which is a constant and goes to *c; -1: it is none. */
static int beside_constant(const struct tape_maker *k, const struct reading *of, int n, struct entry *const m[], int i,
                           const struct op *op, int16_t *c)
{
    if (i < 0 || i >= n || m[i]->node->op != op || m[i]->node->in[0]->dtype != DT_float32)
        return -1;
    for (int a = 0; a < 2; a++) {
        int v = k->arg[i][a];
        *c = (int16_t)v;
        if (v < n ? of->constant[v] : k->value[v].constant)
            return k->arg[i][1 - a];
    }
    return -1;
}

/* gelu: x (1 + erf(x c)) h, whatever the constants. */
static void plan_bells(struct tape_maker *k, const struct reading *of, int n, struct entry *const m[])
{
    for (int i = 0; i < n; i++) {
        struct bell b = { -1, -1, -1, -1 };
        const struct op *last = m[i]->node->op;
        int product = last == &op_divide && k->arg[i][1] >= n ? k->arg[i][0]
                                                              : beside_constant(k, of, n, m, i, &op_multiply, &b.h);
        k->bell[i].x = -1;
        if (last == &op_divide)
            b.h = k->arg[i][1];
        if (product < 0 || product >= n || !of->hidden[product] || m[product]->node->op != &op_multiply)
            continue;
        for (int a = 0; a < 2; a++) {
            int x = k->arg[product][a], sum = k->arg[product][1 - a];
            int erf = beside_constant(k, of, n, m, sum, &op_add, &b.one);
            if (erf < 0 || erf >= n || m[erf]->node->op != &op_erf || !of->hidden[sum] || !of->hidden[erf])
                continue;
            int scaled = k->arg[erf][0];
            if (beside_constant(k, of, n, m, scaled, &op_multiply, &b.c) != x || !of->hidden[scaled] ||
                of->reader[scaled] != erf)
                continue;
            if (last == &op_divide && !(k->value[b.h].constant && is_power_of_two(k, m[i]->node, k->value[b.h].slot)))
                continue;
            b.x = (int16_t)x;
            k->bell[i] = b;
            put_within(k, m[product]->node, product, i);
            put_within(k, m[sum]->node, sum, i);
            put_within(k, m[erf]->node, erf, i);
            put_within(k, m[scaled]->node, scaled, i);
            break;
        }
    }
}

static bool add_bell(struct tape_maker *k, int i, const struct node *n, int output)
{
    struct bell b = k->bell[i];
    if (b.x < 0)
        return false;
    struct fused_value *from[] = { &k->value[b.x] };
    int inverse = inverse_slot(k, n, k->value[b.h].slot);
    int x[TREE_LEAVES] = { from[0]->slot, k->value[b.c].slot, k->value[b.one].slot,
                           inverse < 0 ? k->value[b.h].slot : inverse };
    if (from[0]->walk >= 0)
        k->repeats &= ~(1u << from[0]->walk);
    k->value[i].constant = false;
    k->cost += 3 + kernel_cost(&op_erf);
    put_over(k, i, (union kernel){ .bell = cpu->tree->bell }, STEP_BELL, x, 1, from, sizeof(float), output);
    return true;
}

/* Finds the members that are computed within the one that reads them, no deeper than that. */
static void plan_trees(struct tape_maker *k, const struct reading *of, int n, struct entry *const m[])
{
    bool holds[FUSE_MOST] = { false };
    for (int i = 0; i < n; i++) {
        enum tree_op op = joins(m[i]->node);
        int j = of->reader[i];
        if (op == TREE_LEAF || op > TREE_MULTIPLY || !of->hidden[i] || joins(m[j]->node) == TREE_LEAF || holds[i] ||
            k->bell[i].x >= 0 || k->bell[j].x >= 0 || k->value[i].within >= 0 || k->value[j].within >= 0)
            continue;
        holds[j] = true;
        put_within(k, m[i]->node, i, j);
    }
}

/* Member i with those within it, in one step; `output` as above.  False: there are none. */
static bool add_tree(struct tape_maker *k, int i, struct entry *const m[], int output)
{
    enum tree_op op[2] = { TREE_LEAF, TREE_LEAF }, join = joins(m[i]->node);
    struct fused_value *from[TREE_LEAVES], *v = &k->value[i];
    int x[TREE_LEAVES], last = m[i]->node->nin - 1; /* a square has one operand for both */
    if (join == TREE_LEAF || (argument(k, i, 0)->within != i && argument(k, i, last)->within != i))
        return false;
    for (int a = 0; a < 2; a++) {
        int side = k->arg[i][a ? last : 0];
        from[2 * a] = from[2 * a + 1] = &k->value[side];
        if (k->value[side].within == i) {
            op[a] = joins(m[side]->node);
            for (int b = 0; b < 2; b++) from[2 * a + b] = argument(k, side, b % m[side]->node->nin);
        }
    }
    for (int a = 0; a < TREE_LEAVES; a++) x[a] = from[a]->slot;
    int inverse = op[1] == TREE_LEAF ? inverse_slot(k, m[i]->node, x[2]) : -1;
    if (inverse >= 0) {
        x[2] = x[3] = inverse;
        join = TREE_MULTIPLY;
    }
    v->constant = false;
    k->cost += 2 + (op[0] && op[1]);
    put_over(k, i, (union kernel){ .tree = cpu->tree->f32[join][op[0]][op[1]] }, STEP_TREE, x, TREE_LEAVES, from,
             sizeof(float), output);
    return true;
}

/* ---- operands and outputs */

/* The value that operand x from outside is, a new one where it was not met before. */
static int outside(struct tape_maker *k, mx x)
{
    for (int i = k->n_members; i < k->n_values; i++)
        if (k->value[i].array == x)
            return i;
    k->value[k->n_values] =
        (struct fused_value){ .array = x, .slot = -1, .wide = -1, .walk = -1, .last = -1, .within = -1 };
    return k->n_values++;
}

static int place_operand(struct tape_maker *k, struct fused_value *v)
{
    mx x = v->array;
    int stride = run_stride(x);
    size_t size = itemsize(x);
    v->constant = stride == 0;
    if (stride == 0) {
        v->slot = (int16_t)new_slot(k, host(x), 0, 0);
        return 0;
    }
    k->stream += size;
    if (stride < 0 && k->t->n_walked < RUN_OPERANDS && k->run_bytes + size <= RUN_BYTES) {
        v->walk = (int16_t)k->t->n_walked++;
        v->slot = (int16_t)(k->t->walked[v->walk] = new_slot(k, NULL, 0, 1));
        k->walked[v->walk] = x;
        k->data[v->walk] = host(x);
        k->run_bytes += size;
        return 0;
    }
    mx_own *hold = &k->held[k->n_held];
    hold->it = NULL;
    if (is_nil(x = row_major(x, hold)))
        return 1;
    k->n_held += hold->it != NULL;
    v->slot = (int16_t)new_slot(k, host(x), size, 1);
    return 0;
}

/* Nobody but the members will ever look at x again, the last of them being member i. */
static bool last_read_after(const struct fused_value *v, int i, mx y)
{
    return v->last <= i && !v->taken && result_fits(y, v->array, v->uses);
}

/* Memory for member i's output; returns its slot, or -1 after mx_fail. */
static int place_output(struct tape_maker *k, int i)
{
    mx y = k->value[i].array;
    struct fused_value *over = NULL;
    for (int j = k->n_members; j < k->n_values && !over; j++)
        if (last_read_after(&k->value[j], i, y))
            over = &k->value[j];
    if (over) {
        over->taken = true;
        out_take(y, over->array);
    } else if (result_new(NULL, y)) {
        return -1;
    }
    k->stream += over ? 0 : itemsize(y);
    return new_slot(k, host(y), itemsize(y), 1);
}

/* May a reduction read the factors of member `read` instead of its result?  Not if somebody else reads that too, and no
 * more than one factor can be made for it. */
static bool reads_factors(const struct tape_maker *k, int read, struct entry *const m[], const bool wanted[])
{
    const struct node *n = m[read]->node;
    if (wanted[read] || k->value[read].last >= 0 || (n->op != &op_square && n->op != &op_multiply) ||
        !reduces_product(m[k->n_members]->node))
        return false;
    int made = -1;
    for (int a = 0; a < n->nin; a++) {
        int v = k->arg[read][a];
        if (v >= k->n_members ? !k->value[v].array->row : !wanted[v] && made >= 0 && made != v)
            return false;
        made = v < k->n_members && !wanted[v] ? v : made;
    }
    return true;
}

/* The program of n members; `read` is the one whose result a reduction reads, -1 without one.  Whether that is as
 * factors goes to *product. */
static int make_program(struct tape_maker *k, int n, struct entry *const m[], const bool wanted[], int read,
                        bool *product)
{
    k->n_members = k->n_values = n;
    for (int i = 0; i < n; i++)
        k->value[i] =
            (struct fused_value){ .array = m[i]->one, .slot = -1, .wide = -1, .walk = -1, .last = -1, .within = -1 };
    for (int i = 0; i < n; i++) {
        bool alone = atomic_load_explicit(&m[i]->node->refs, memory_order_acquire) == 1;
        for (int a = 0; a < m[i]->node->nin; a++) {
            int v = m[i]->from[a] == OUTSIDE ? outside(k, m[i]->node->in[a]) : m[i]->from[a];
            k->arg[i][a] = (uint8_t)v;
            k->value[v].last = (int16_t)i;
            k->value[v].uses = (int16_t)(k->value[v].uses + alone);
        }
    }
    for (int i = n; i < k->n_values; i++)
        if (place_operand(k, &k->value[i]))
            return 1;
    int reads[2] = { read, read };
    *product = read >= 0 && reads_factors(k, read, m, wanted);
    if (*product)
        for (int a = 0; a < 2; a++) {
            reads[a] = k->arg[read][a % m[read]->node->nin];
            k->value[reads[a]].last = (int16_t)n; /* after all members */
        }
    for (int a = 0; a < 2 && read >= 0; a++) k->t->read[a] = k->value[reads[a]].slot;
    struct reading of;
    find_readers(k, &of, n, m, wanted, reads);
    plan_bells(k, &of, n, m);
    plan_trees(k, &of, n, m);
    for (int i = 0; i < n; i++) {
        int output = wanted[i] ? place_output(k, i) : -1;
        if (wanted[i] && output < 0)
            return 1;
        if (*product && i == read)
            continue;
        if (!wanted[i] && (i == reads[0] || i == reads[1])) {
            output = k->t->made = new_slot(k, NULL, 0, 1);
            k->t->made_size = itemsize(m[i]->one);
        }
        for (int a = 0; a < 2; a++)
            if (i == reads[a])
                k->t->read[a] = output;
        if (k->value[i].within >= 0 || (output < 0 && k->value[i].last < 0) || add_bell(k, i, m[i]->node, output) ||
            add_tree(k, i, m, output))
            continue;
        if (add_member(k, i, m[i]->node, output))
            return 1;
    }
    return 0;
}

/* Another slot before this one walks the same memory: an output over an operand. */
static bool is_double(const struct tape_program *t, int i)
{
    for (int k = 0; k < i; k++)
        if (t->slot[t->moving[k]].base == t->slot[t->moving[i]].base)
            return true;
    return false;
}

static void plan_ahead(struct tape_program *t)
{
    for (int i = 0; i < t->n_moving && t->n_ahead < STREAMS; i++)
        if (!is_double(t, i)) {
            int slot = t->moving[i], bytes = (int)t->tile * t->slot[slot].step, lines = bytes / LINE;
            t->ahead[t->n_ahead++] = (struct tape_stream){ slot, bytes, (int)ceil_div(lines, t->n_steps) * LINE };
        }
}

/* Chooses the tile of `size` elements in all, and gives registers their places. */
static void tape_layout(struct tape_maker *k, struct runs *r, int64_t size)
{
    struct tape_program *t = k->t;
    /* One step reads as a kernel alone does, which needs no fetching: all of it at once would make that step wait. */
    bool far = size * (int64_t)k->stream >= FAR && t->n_steps > 1;
    int64_t worth = WORTH_MOVED / (k->cost ? k->cost : 1); /* a thread of their own: elements */
    int64_t tile = L1 / (int64_t)((far ? 2 : 1) * k->stream + (size_t)k->registers * k->unit + 1);
    int64_t most = AT_ONCE * LINE * (int64_t)t->n_steps / (int64_t)(k->stream + 1);
    if (far && size * (int64_t)k->stream >= FARTHER && tile > most)
        tile = most > AHEAD ? most : AHEAD;
    tile = tile > TILE ? TILE : tile < 64 ? LEAST : tile / 64 * 64;
    if (t->n_steps == 1 && k->registers == 0 && t->n_walked == 0 && t->made < 0 && worth >= 64)
        tile = worth / 64 * 64; /* nothing stays in L1, and processors foresee longer stretches better */
    for (int i = 0; i < t->n_slots; i++)
        if (t->slot[i].frame)
            t->slot[i].base *= k->unit * (size_t)tile;
        else if (t->slot[i].step)
            t->moving[t->n_moving++] = i;
    t->tile = tile;
    if (far && tile >= AHEAD)
        plan_ahead(t);
    r->kernel = run_tile;
    r->fn.tape = t;
    r->repeats = k->repeats;
    r->most = tile;
    r->grain = worth / tile * tile;
    r->grain = r->grain > tile ? r->grain : tile;
}

static void make_elements(void *ctx, char *space, int64_t at, int64_t n, const void *x[2])
{
    const struct runs *r = ctx;
    const struct tape_program *t = r->fn.tape;
    making.y = space;
    making.at = at;
    if (t->n_walked)
        runs_range(r, at, at + n);
    else if (t->n_steps)
        run_tape_range(ctx, at, at + n);
    for (int a = 0; a < 2; a++) {
        const struct tape_slot *from = &t->slot[t->read[a]];
        x[a] = t->read[a] == t->made ? space : (const char *)from->base + at * from->step;
    }
}

/* Variances: are the factors what is left of an operand in memory without a number for each result, and is that all
 * that the program makes? */
static void find_center(struct made *made, const struct tape_maker *k, struct entry *const m[], int read)
{
    const struct tape_program *t = k->t;
    int n = k->n_members, left = k->arg[read][0];
    if (t->n_steps != 1 || t->made < 0 || t->read[0] != t->made || t->read[1] != t->made || left >= n ||
        m[left]->node->op != &op_subtract || k->arg[left][0] < n || k->arg[left][1] < n)
        return;
    const struct fused_value *from = &k->value[k->arg[left][0]], *center = &k->value[k->arg[left][1]];
    if (!from->array->row || !one_for_each_result(m[n]->node, center->array))
        return;
    made->from = host(from->array);
    made->center = host(center->array);
}

/* Runs the program on behalf of a reduction of the result of member `read`. */
static int reduce_tape(struct runs *r, const struct tape_maker *k, struct entry *const m[], int read, bool product)
{
    struct entry *e = m[k->n_members];
    const struct node *n = e->node;
    mx operand = m[read]->one;
    struct run reduce = { .node = n, .args = n->args, .nin = 1, .nout = 1, .x = &operand, .y = &e->one };
    struct made made = { .make = make_elements, .ctx = r, .product = product };
    if (product)
        find_center(&made, k, m, read);
    return reduce_made(&reduce, &made);
}

int run_tape(int n, struct entry *const m[], const bool wanted[])
{
    struct tape_program t;
    struct tape_maker k;
    struct runs r;
    struct entry *last = m[n - 1];
    int read = last->node->op->traits & FUSE ? -1 : last->from[0];
    t.n_steps = t.n_slots = t.n_walked = t.n_moving = t.n_ahead = 0;
    t.made = -1;
    k.t = &t;
    k.n_free = k.registers = k.n_constants = k.n_held = 0;
    k.unit = k.stream = k.run_bytes = 0;
    k.cost = 0;
    k.repeats = ~0u;
    bool product;
    int failed = make_program(&k, read < 0 ? n : n - 1, m, wanted, read, &product);
    if (!failed) {
        tape_layout(&k, &r, m[0]->one->size);
        if (read >= 0 && t.n_walked)
            runs_prepare(&r, t.n_walked, k.walked, k.data);
        if (read >= 0)
            failed = reduce_tape(&r, &k, m, read, product);
        else if (t.n_walked)
            runs_over(&r, NULL, 0, t.n_walked, k.walked, k.data);
        else
            pool_for(m[0]->one->size, r.grain, run_tape_range, &r);
    }
    for (int i = 0; i < k.n_held; i++) mx_drop(&k.held[i]);
    return failed;
}
