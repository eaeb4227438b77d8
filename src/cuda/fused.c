/* fused.c: element-wise entries that run as one (run/fuse.h) become a program for one kernel, which goes through any,
 * until there is one of the program's own (specialize.h).
 *
 * Each member is a step.  What the next step alone reads stays where it is; other results, and operands, are kept in
 * slots, which are few and used again.  A group that is too large, or holds types of 64 bits or arithmetic of narrow
 * integers, is divided, until members run by themselves. */
#include "cuda/kernels/fused.h"

#include <stdlib.h>
#include <string.h>

#include "core/shape.h"
#include "cuda/gpu.h"
#include "cuda/producer.h"
#include "cuda/specialize.h"
#include "plan/layout.h"

enum { VALUES = FUSE_MOST };
_Static_assert(FUSED_OPS <= 256, "a step has a byte for what it does");

/* The class of a type's values; negative: of none. */
static int class_of(enum dtype t)
{
    switch (t) {
    case DT_float32:
    case DT_float16:
    case DT_bfloat16: return CLASS_F;
    case DT_int8:
    case DT_int16:
    case DT_int32: return CLASS_I;
    case DT_uint8:
    case DT_uint16:
    case DT_uint32: return CLASS_U;
    case DT_bool_: return CLASS_B;
    default: return -1;
    }
}

static bool is_wide(enum dtype t) { return dtype_size(t) == 4; }
/* Is what a step reads one value? */
static bool is_one(int from) { return from >= FUSED_ONES && from < FUSED_LAST; }

static int cast_of(enum dtype from, enum dtype to)
{
    int f = class_of(from), t = class_of(to);
    bool half = dtype_is_half(to);
    if (t == CLASS_B)
        return f == CLASS_F ? FUSED_B_OF_F : from == DT_bool_ ? FUSED_COPY : FUSED_B_OF_I;
    if (f == CLASS_B)
        return t == CLASS_F ? FUSED_F_OF_B : FUSED_B_OF_I;
    if (f == CLASS_F)
        return t == CLASS_F ? FUSED_COPY : to == DT_uint32 ? FUSED_U_OF_F : FUSED_I_OF_F;
    if (t != CLASS_F)
        return FUSED_COPY;
    return f == CLASS_I ? half ? FUSED_ODD_OF_I : FUSED_F_OF_I : half ? FUSED_ODD_OF_U : FUSED_F_OF_U;
}

/* What a step for the node does; negative: nothing that it could. */
static int operation_of(const struct node *n, enum dtype to)
{
    static const uint16_t rows[OP_COUNT][CLASSES] = {
#define KIND f
#define UNARY(name, label, set, ...) ROW(set, [OP_##name][CLASS_F] = FUSED_##name##_F, )
#define BINARY(name, label, set, ...) ROW(set, [OP_##name][CLASS_F] = FUSED_##name##_F, )
#include "ops/ops.def"
#undef KIND
#define KIND i
#define PAIR(name) [OP_##name][CLASS_I] = FUSED_##name##_I, [OP_##name][CLASS_U] = FUSED_##name##_U
#define UNARY(name, label, set, ...) ROW(set, PAIR(name), )
#define BINARY(name, label, set, ...) ROW(set, PAIR(name), )
#include "ops/ops.def"
#undef KIND
#define KIND b
#define UNARY(name, label, set, ...) ROW(set, [OP_##name][CLASS_B] = FUSED_##name##_B, )
#define BINARY(name, label, set, ...) ROW(set, [OP_##name][CLASS_B] = FUSED_##name##_B, )
#include "ops/ops.def"
#undef KIND
    };
    static const uint16_t halves[OP_COUNT] = {
#define X(name) [OP_##name] = FUSED_##name##_H,
        FUSED_OF_HALF(X) FUSED_OF_HALVES(X)
#undef X
    };
    enum dtype t = (enum dtype)n->in[0]->dtype;
    if (class_of(t) < 0 || class_of(to) < 0)
        return -1;
    if (n->op->id == OP_where)
        return FUSED_SELECT;
    if (n->op->id == OP_astype)
        return cast_of(t, to);
    if (dtype_is_half(t) && n->op->id < OP_COUNT && halves[n->op->id])
        return halves[n->op->id];
    int op = n->op->id < OP_COUNT ? rows[n->op->id][class_of(t)] : 0;
    return op && (is_wide(t) || class_of(t) == CLASS_F || t == DT_bool_) ? op : -1;
}

/* The same where the second operand is one value; negative: there is none. */
static int operation_with_one(int op)
{
    switch (op) {
#define X(name) \
    case FUSED_##name##_F: return FUSED_##name##_ONE;
        FUSED_WITH_ONE(X)
#undef X
    }
    return -1;
}

/* The same of halves that are packed; negative: there is none. */
static int operation_on_pairs(int op, enum dtype t, bool with_one)
{
    int of_type = t == DT_bfloat16 ? 0 : t == DT_float16 ? 1 : -1;
    if (of_type < 0)
        return -1;
    switch (op) {
#define X(name) \
    case FUSED_##name##_F: return (with_one ? FUSED_##name##_BF16_ONE : FUSED_##name##_BF16) + of_type;
        FUSED_ON_PAIRS(X)
#undef X
    }
    return -1;
}

/* ---- the program */

/* Operands are read before the first step as long as they take no more of the slots than this, which blocks that are
 * under way at once can have; earlier devices have less shared memory in all. */
enum { AHEAD = 24, UNITS_BEFORE_8 = 30 };

struct fused_maker {
    const struct run *r;
    struct fused_args *a;
    bool few; /* elements of a thread */
    int n, n_x, n_y;
    mx x[FUSED_OPERANDS];
    int x_last[FUSED_OPERANDS], x_slot[FUSED_OPERANDS]; /* of each operand, as of members */
    int x_uses[FUSED_OPERANDS];                         /* operands of members that it is, none of which run again */
    int last[VALUES], slot[VALUES]; /* of each member: who reads it last; where it is kept, negative: nowhere */
    bool third[VALUES];             /* is it the third operand of a step? */
    int step[VALUES];
    uint64_t taken; /* units of slots */
    int units, most;
};

/* Operand x from outside; negative: there are too many. */
static int kernel_operand(struct fused_maker *k, mx x)
{
    for (int i = 0; i < k->n_x; i++)
        if (k->x[i] == x)
            return i;
    if (k->n_x == FUSED_OPERANDS || class_of((enum dtype)x->dtype) < 0)
        return -1;
    bool one = is_one_value(x);
    struct fused_operand *o = &k->a->x[k->n_x];
    o->x = gpu_pointer(k->r, x);
    o->type = x->dtype;
    o->lies = one ? FUSED_ONE : x->row && (uint64_t)o->x % 16 == 0 ? FUSED_ROW : FUSED_STRIDED;
    k->x[k->n_x] = x;
    k->x_slot[k->n_x] = -1;
    k->x_uses[k->n_x] = 0;
    return k->n_x++;
}

/* ---- how operands lie */

/* i / shape is i * factor >> shift, rounded down, for i below 2^31. */
static void divide_by_factor(uint32_t shape, uint32_t *factor, uint32_t *shift)
{
    uint32_t bits = 0;
    while ((uint64_t)1 << bits < shape) bits++;
    *shift = 31 + bits;
    *factor = (uint32_t)((((uint64_t)1 << *shift) + shape - 1) / shape);
}

/* Do lanes of the operand lie side by side, at multiples of their size? */
static bool has_rows(const struct fused_args *a, const struct fused_operand *o)
{
    bool is = a->whole && o->stride[a->ndim - 1] == 1 &&
              (uint64_t)o->x % ((size_t)a->lanes * dtype_size((enum dtype)o->type)) == 0;
    for (int d = 0; d < a->ndim - 1; d++) is &= o->stride[d] % a->lanes == 0;
    return is;
}

/* The dimensions that operands of strides of their own are walked along; false: too many. */
static bool walk_fused(struct fused_maker *k, mx y)
{
    struct fused_args *a = k->a;
    int shape[MX_MAX_NDIM], n = 0, which[FUSED_OPERANDS];
    int64_t strides[FUSED_OPERANDS][MX_MAX_NDIM], *all[FUSED_OPERANDS];
    memcpy(shape, y->shape, (size_t)y->ndim * sizeof *shape);
    for (int i = 0; i < k->n_x; i++)
        if (a->x[i].lies == FUSED_STRIDED) {
            which[n] = i;
            memcpy(all[n] = strides[n], k->x[i]->strides, (size_t)y->ndim * sizeof **strides);
            n++;
        }
    if (!n)
        return true;
    a->ndim = collapse(y->ndim, shape, n, all);
    if (a->ndim > FUSED_DIMS)
        return false;
    a->whole = shape[a->ndim - 1] % a->lanes == 0;
    a->near = a->n <= INT32_MAX;
    for (int d = 0; d < a->ndim; d++) {
        a->shape[d] = (uint32_t)shape[d];
        divide_by_factor(a->shape[d], &a->factor[d], &a->shift[d]);
    }
    for (int i = 0; i < n; i++) {
        struct fused_operand *o = &a->x[which[i]];
        int64_t far = 0;
        for (int d = 0; d < a->ndim; d++) {
            o->stride[d] = strides[i][d];
            far += llabs(o->stride[d]) * (shape[d] - 1);
        }
        a->near &= far <= INT32_MAX;
        if (has_rows(a, o))
            o->lies = FUSED_ROWS;
    }
    return true;
}

/* ---- slots and steps */

/* One for a value of this type, by its name; negative: there is no room. */
static int take_slot(struct fused_maker *k, enum dtype t)
{
    int size = dtype_is_half(t) ? 2 : 4;
    uint64_t mask = (1u << size) - 1;
    for (int at = 0; at + size <= k->most; at += size)
        if (!(k->taken >> at & mask)) {
            k->taken |= mask << at;
            k->units = at + size > k->units ? at + size : k->units;
            return at / 2 | (t == DT_bfloat16 ? FUSED_KEPT_BF16 : t == DT_float16 ? FUSED_KEPT_F16 : 0);
        }
    return -1;
}

static void leave_slot(struct fused_maker *k, int slot)
{
    uint64_t mask = slot > FUSED_SLOT ? 3 : 15;
    k->taken &= ~(mask << 2 * (slot & FUSED_SLOT));
}

static struct fused_step *next_step(struct fused_maker *k, int op)
{
    struct fused_step *s = &k->a->step[k->a->steps++];
    *s = (struct fused_step){
        .op = (uint8_t)op, .x = { FUSED_LAST, FUSED_NOTHING, FUSED_NOTHING }, .to = FUSED_NOTHING, .out = FUSED_NOTHING
    };
    return s;
}

/* An enum fused_copies. */
static int copies_of(const struct fused_args *a, const struct fused_operand *o)
{
    if (o->lies != FUSED_ROW && o->lies != FUSED_ROWS)
        return FUSED_UNCOPIED;
    if (dtype_is_half((enum dtype)o->type))
        return a->lanes == FUSED_LANES ? FUSED_FOURS : FUSED_EIGHTS;
    return is_wide((enum dtype)o->type) ? FUSED_WORDS : FUSED_UNCOPIED;
}

/* Has operand x read, if it has to be and is not yet; false: there is no room. */
static bool read_operand(struct fused_maker *k, int x, bool *reads)
{
    if (k->a->x[x].lies == FUSED_ONE || k->x_slot[x] >= 0)
        return true;
    if ((k->x_slot[x] = take_slot(k, (enum dtype)k->x[x]->dtype)) < 0)
        return false;
    struct fused_step *s = next_step(k, FUSED_READ);
    s->x[1] = (uint8_t)x;
    s->x[2] = (uint8_t)copies_of(k->a, &k->a->x[x]);
    s->to = (uint8_t)k->x_slot[x];
    *reads = true;
    return true;
}

/* The operands that there is room for. */
static void read_ahead(struct fused_maker *k)
{
    bool reads, room = true;
    for (int x = 0; x < k->n_x && room; x++) {
        int size = dtype_is_half((enum dtype)k->x[x]->dtype) ? 2 : 4;
        room = k->units + size <= AHEAD && read_operand(k, x, &reads);
    }
}

/* Member i as a step. */
static bool add_step(struct fused_maker *k, int i, const struct entry *e)
{
    const struct node *n = e->node;
    enum dtype to = (enum dtype)e->one->dtype;
    int op = operation_of(n, to), x[3], better;
    bool reads = i == 0, with_one;
    if (op < 0)
        return false;
    for (int a = 0; a < n->nin; a++) {
        int m = e->from[a];
        x[a] = m == OUTSIDE ? kernel_operand(k, n->in[a]) : -1;
        if (x[a] >= 0 && !read_operand(k, x[a], &reads))
            return false;
    }
    k->step[i] = k->a->steps;
    struct fused_step *s = next_step(k, op);
    s->needs = reads ? FUSED_AWAIT : 0;
    s->as = (uint8_t)to;
    for (int a = 0; a < n->nin; a++) {
        int m = e->from[a];
        if (m == OUTSIDE)
            s->x[a] = (uint8_t)(k->a->x[x[a]].lies == FUSED_ONE ? FUSED_ONES + x[a] : k->x_slot[x[a]]);
        else
            s->x[a] = (uint8_t)(a < 2 && m == i - 1 ? FUSED_LAST : k->slot[m]);
    }
    if ((op == FUSED_add_F || op == FUSED_multiply_F) && (is_one(s->x[0]) || s->x[1] == FUSED_LAST)) {
        uint8_t one = s->x[0];
        s->x[0] = s->x[1];
        s->x[1] = one;
    }
    with_one = is_one(s->x[1]) && operation_with_one(op) >= 0;
    if (with_one) {
        s->op = (uint8_t)operation_with_one(op);
        s->x[2] = s->x[1];
        s->x[1] = FUSED_NOTHING;
    }
    better = operation_on_pairs(op, to, with_one);
    if (better >= 0) {
        s->op = (uint8_t)better;
        s->needs |= FUSED_PAIRS;
    }
    for (int a = 0; a < n->nin; a++) {
        int m = e->from[a], last = m == OUTSIDE ? k->x_last[x[a]] : k->last[m];
        int slot = m == OUTSIDE ? k->x_slot[x[a]] : k->slot[m];
        if (last == i && slot >= 0)
            leave_slot(k, slot);
    }
    if (k->last[i] > i + 1 || k->third[i]) {
        if ((k->slot[i] = take_slot(k, (enum dtype)e->one->dtype)) < 0)
            return false;
        s->to = (uint8_t)k->slot[i];
    }
    return true;
}

/* Are all results and operands there is room for, of types that there are?  Fills who reads them last. */
static bool look_at_members(struct fused_maker *k, struct entry *const m[], const bool wanted[])
{
    int n_y = 0;
    k->a->lanes = k->few ? FUSED_LANES : 2 * FUSED_LANES;
    for (int i = 0; i < k->n; i++) {
        k->last[i] = k->slot[i] = -1;
        bool once = !m[i]->keep && atomic_load_explicit(&m[i]->node->refs, memory_order_acquire) == 1;
        for (int a = 0; a < m[i]->node->nin; a++) {
            int from = m[i]->from[a], x = from == OUTSIDE ? kernel_operand(k, m[i]->node->in[a]) : 0;
            if (x < 0)
                return false;
            *(from == OUTSIDE ? &k->x_last[x] : &k->last[from]) = i;
            k->x_uses[x] += from == OUTSIDE && once;
            if (from != OUTSIDE && a == 2)
                k->third[from] = true;
        }
        if (wanted[i] && (++n_y > FUSED_OUTPUTS || is_wide((enum dtype)m[i]->one->dtype)))
            k->a->lanes = FUSED_LANES;
    }
    for (int x = 0; x < k->n_x; x++)
        if (k->a->x[x].lies != FUSED_ONE && is_wide((enum dtype)k->x[x]->dtype))
            k->a->lanes = FUSED_LANES;
    k->a->operands = k->n_x;
    return n_y <= FUSED_OUTPUTS;
}

/* What there is to be done at each step.  A result of halves stays packed if the next step wants it so, or does not
 * read it. */
static void note_needs(struct fused_maker *k)
{
    for (int i = 0; i < k->n; i++) {
        struct fused_step *s = &k->a->step[k->step[i]], *next = i + 1 < k->n ? &k->a->step[k->step[i + 1]] : NULL;
        bool is_read = next && (next->x[0] == FUSED_LAST || next->x[1] == FUSED_LAST);
        bool as_it_is = s->as == DT_float32;
        if (dtype_is_half((enum dtype)s->as)) {
            s->needs |= !is_read || next->needs & FUSED_PAIRS ? FUSED_AS_PAIRS : 0;
            as_it_is = s->needs & FUSED_PAIRS && s->needs & FUSED_AS_PAIRS;
        }
        if (s->x[0] != FUSED_LAST || s->x[1] != FUSED_NOTHING)
            s->needs |= FUSED_OPERAND;
        if (s->out != FUSED_NOTHING || s->to != FUSED_NOTHING || !as_it_is)
            s->needs |= FUSED_END;
    }
}

static bool make_kernel(struct fused_maker *k, struct entry *const m[], const bool wanted[])
{
    if (k->n > FUSED_MEMBERS || !look_at_members(k, m, wanted) || !walk_fused(k, m[0]->one))
        return false;
    read_ahead(k);
    for (int i = 0; i < k->n; i++) {
        if (!add_step(k, i, m[i]))
            return false;
        if (wanted[i])
            k->a->step[k->step[i]].out = (uint8_t)k->n_y++;
    }
    note_needs(k);
    return true;
}

/* ---- running */

/* Nobody will look at operand j again after member i, and a thread has the same elements of it as of that one's result,
 * which fits into its memory. */
static bool may_be_written_over(const struct fused_maker *k, int j, int i, mx y)
{
    return k->a->x[j].lies == FUSED_ROW && k->x_last[j] <= i && result_fits(y, k->x[j], k->x_uses[j]);
}

/* The one of these that is read the fewest times, and of such ones last: what a program keeps from step to step, as
 * optimizers do, is read once, soon before what takes its place is made, which then has its memory again.  -1: none. */
static int operand_to_write_over(const struct fused_maker *k, int i, mx y)
{
    int best = -1;
    for (int j = 0; j < k->n_x; j++) {
        int more = best < 0 ? -1 : k->x_uses[j] - k->x_uses[best];
        if (may_be_written_over(k, j, i, y) && (more < 0 || (more == 0 && k->x_last[j] > k->x_last[best])))
            best = j;
    }
    return best;
}

/* Memory for member i's result: an operand's, or new. */
static int place_result(const struct fused_maker *k, int i, const struct run *r)
{
    int j = operand_to_write_over(k, i, r->y[0]);
    return j >= 0 && gpu_out_at(r, 0, k->x[j]) ? 0 : gpu_out_new(r, 0);
}

/* Both halves of a group, each by itself.  The entries stay as they were: a loop runs them again. */
static int run_in_two(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    int half = n / 2, failed = 0;
    bool first[FUSE_MOST];
    uint8_t was[FUSE_MOST][sizeof m[0]->from];
    memcpy(first, wanted, (size_t)half * sizeof *first);
    for (int i = half; i < n; i++) {
        memcpy(was[i], m[i]->from, sizeof was[i]);
        for (int a = 0; a < m[i]->node->nin; a++) {
            uint8_t *from = &m[i]->from[a];
            if (*from != OUTSIDE && *from < half)
                first[*from] = true;
            *from = *from == OUTSIDE || *from < half ? OUTSIDE : (uint8_t)(*from - half);
        }
    }
    failed = gpu_run_fused(s, half, m, first) || gpu_run_fused(s, n - half, m + half, wanted + half);
    for (int i = half; i < n; i++) memcpy(m[i]->from, was[i], sizeof was[i]);
    for (int i = 0; i < half; i++)
        if (!wanted[i] && m[i]->one->buf) {
            buffer_release(m[i]->one->buf);
            m[i]->one->buf = NULL;
        }
    return failed;
}

int gpu_run_fused(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    static struct gpu_found found[2];
    struct gpu *g = gpu_use_stream(s);
    struct fused_args a = { .n = m[0]->one->size };
    if (!g)
        return 1;
    for (int i = 0; i < n; i++)
        if (gpu_is_producer(m[i]->node))
            return gpu_run_producers(s, n, m, wanted);
    struct fused_maker k = { .r = &(struct run){ .stream = s, .node = m[0]->node }, .a = &a, .n = n };
    k.few = a.n <= (int64_t)g->multiprocessors * FUSED_THREADS * FUSED_EACH;
    k.most = g->major < 8 ? UNITS_BEFORE_8 : FUSED_UNITS;
    if (n == 1)
        return cuda_backend.run(s, m[0]);
    if (!make_kernel(&k, m, wanted))
        return run_in_two(s, n, m, wanted);
    const char *name = k.few ? "fused_few" : "fused";
    int64_t each = FUSED_THREADS * (k.few ? FUSED_FEW : FUSED_EACH);
    void *own = gpu_specialized(g, &a, k.few, &each);
    void *kernel = own ? own : gpu_find(g, &found[k.few], name, name, DT_COUNT);
    int failed = !kernel;
    for (int i = 0; i < n && !failed; i++)
        if (wanted[i]) {
            struct run r = run_of(s, m[i]);
            failed = place_result(&k, i, &r);
            if (!failed)
                a.y[a.step[k.step[i]].out] = gpu_pointer(&r, m[i]->one);
        }
    size_t slot = (size_t)FUSED_THREADS * (k.few ? FUSED_FEW_SLOT_BYTES : FUSED_SLOT_BYTES);
    size_t shared = own ? 0 : FUSED_BEFORE + (size_t)k.units / 2 * slot;
    return failed ||
           gpu_launch_shared(s, "fused", kernel, ceil_div(a.n, each), FUSED_THREADS, shared, (void *[]){ &a });
}
