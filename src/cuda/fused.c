/* fused.c: element-wise entries that run as one (run/fuse.h) become a program for one kernel.
 *
 * Each member is a step.  What the next step alone reads stays where it is; other results are kept in slots, which are
 * few and used again.  A group that holds types of 64 bits or arithmetic of narrow integers, or is too large, runs
 * member by member. */
#include "cuda/kernels/fused.h"

#include <string.h>

#include "core/shape.h"
#include "cuda/gpu.h"

enum { VALUES = FUSE_MOST };

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
    enum dtype t = (enum dtype)n->in[0]->dtype;
    if (class_of(t) < 0 || class_of(to) < 0)
        return -1;
    if (n->op->id == OP_where)
        return FUSED_SELECT;
    if (n->op->id == OP_astype)
        return cast_of(t, to);
    int op = n->op->id < OP_COUNT ? rows[n->op->id][class_of(t)] : 0;
    return op && (is_wide(t) || class_of(t) == CLASS_F || t == DT_bool_) ? op : -1;
}

/* ---- the program */

struct fused_maker {
    const struct run *r;
    struct fused_args *a;
    int n, n_x, n_y, n_strided;
    mx x[FUSED_OPERANDS];
    int x_last[FUSED_OPERANDS], x_slot[FUSED_OPERANDS]; /* of each operand, as of members */
    int last[VALUES], slot[VALUES]; /* of each member: who reads it last; where it is kept, negative: nowhere */
    int step[VALUES];
    uint32_t taken; /* slots */
    int strided[FUSED_OPERANDS];
};

/* Operand x from outside; negative: there are too many. */
static int kernel_operand(struct fused_maker *k, mx x)
{
    for (int i = 0; i < k->n_x; i++)
        if (k->x[i] == x)
            return i;
    if (k->n_x == FUSED_OPERANDS || class_of((enum dtype)x->dtype) < 0)
        return -1;
    bool one = true;
    for (int d = 0; d < x->ndim; d++) one &= x->shape[d] == 1 || x->strides[d] == 0;
    struct fused_operand *o = &k->a->x[k->n_x];
    o->x = gpu_pointer(k->r, x);
    o->type = x->dtype;
    o->lies = one ? FUSED_ONE : x->row && (uint64_t)o->x % 16 == 0 ? FUSED_ROW : FUSED_STRIDED;
    if (o->lies == FUSED_STRIDED)
        k->strided[k->n_strided++] = k->n_x;
    k->x[k->n_x] = x;
    k->x_slot[k->n_x] = -1;
    return k->n_x++;
}

static int take_slot(struct fused_maker *k)
{
    int slot = __builtin_ctz(~k->taken);
    if (slot >= FUSED_SLOTS)
        return -1;
    k->taken |= 1u << slot;
    return slot;
}

/* Where an operand is: it is read where it is first asked for.  Negative: there is no room. */
static int slot_of_operand(struct fused_maker *k, int x)
{
    if (k->x_slot[x] < 0 && (k->x_slot[x] = take_slot(k)) >= 0)
        k->a->step[k->a->steps++] = (struct fused_step){
            .op = FUSED_READ, .x = { (uint8_t)x }, .to = (uint8_t)k->x_slot[x], .out = FUSED_NOTHING
        };
    return k->x_slot[x];
}

/* The dimensions that operands of strides of their own are walked along; false: too many. */
static bool walk_fused(struct fused_maker *k, mx y)
{
    int shape[MX_MAX_NDIM], ndim;
    int64_t strides[FUSED_OPERANDS][MX_MAX_NDIM], *all[FUSED_OPERANDS];
    memcpy(shape, y->shape, (size_t)y->ndim * sizeof *shape);
    for (int i = 0; i < k->n_strided; i++) {
        mx x = k->x[k->strided[i]];
        memcpy(all[i] = strides[i], x->strides, (size_t)y->ndim * sizeof **strides);
    }
    ndim = collapse(y->ndim, shape, k->n_strided, all);
    if (ndim > FUSED_DIMS)
        return false;
    k->a->ndim = ndim;
    k->a->whole = shape[ndim - 1] % FUSED_LANES == 0;
    for (int d = 0; d < ndim; d++) {
        k->a->shape[d] = (uint32_t)shape[d];
        for (int i = 0; i < k->n_strided; i++) k->a->x[k->strided[i]].stride[d] = strides[i][d];
    }
    return true;
}

/* Member i as a step. */
static bool add_step(struct fused_maker *k, int i, const struct entry *e)
{
    const struct node *n = e->node;
    int op = operation_of(n, (enum dtype)e->one->dtype);
    struct fused_step s = {
        .op = (uint16_t)op, .to = FUSED_NOTHING, .out = FUSED_NOTHING, .as = (uint8_t)e->one->dtype
    };
    if (op < 0)
        return false;
    memset(s.x, FUSED_NOTHING, sizeof s.x);
    for (int a = 0; a < n->nin; a++) {
        int m = e->from[a], from = m == OUTSIDE      ? slot_of_operand(k, kernel_operand(k, n->in[a]))
                                   : k->slot[m] >= 0 ? k->slot[m]
                                                     : FUSED_LAST;
        if (from < 0)
            return false;
        s.x[a] = (uint8_t)from;
    }
    for (int a = 0; a < n->nin; a++) {
        int m = e->from[a], x = m == OUTSIDE ? kernel_operand(k, n->in[a]) : 0;
        int last = m == OUTSIDE ? k->x_last[x] : k->last[m], slot = m == OUTSIDE ? k->x_slot[x] : k->slot[m];
        if (last == i && slot >= 0)
            k->taken &= ~(1u << slot);
    }
    if (k->last[i] > i + 1) {
        if ((k->slot[i] = take_slot(k)) < 0)
            return false;
        s.to = (uint8_t)k->slot[i];
    }
    k->step[i] = k->a->steps++;
    k->a->step[k->step[i]] = s;
    return true;
}

static bool make_kernel(struct fused_maker *k, struct entry *const m[], const bool wanted[])
{
    if (k->n > FUSED_MEMBERS)
        return false;
    for (int i = 0; i < k->n; i++) {
        k->last[i] = k->slot[i] = -1;
        for (int a = 0; a < m[i]->node->nin; a++) {
            int from = m[i]->from[a], x = from == OUTSIDE ? kernel_operand(k, m[i]->node->in[a]) : 0;
            if (x < 0)
                return false;
            *(from == OUTSIDE ? &k->x_last[x] : &k->last[from]) = i;
        }
    }
    for (int i = 0; i < k->n; i++) {
        if (!add_step(k, i, m[i]))
            return false;
        if (wanted[i] && k->n_y == FUSED_OUTPUTS)
            return false;
        if (wanted[i])
            k->a->step[k->step[i]].out = (uint8_t)k->n_y++;
    }
    return !k->n_strided || walk_fused(k, m[0]->one);
}

/* ---- running */

static int one_by_one(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    int failed = 0;
    for (int i = 0; i < n && !failed; i++) failed = cuda_backend.run(s, m[i]);
    for (int i = 0; i < n; i++)
        if (!wanted[i] && m[i]->one->buf) {
            buffer_release(m[i]->one->buf);
            m[i]->one->buf = NULL;
        }
    return failed;
}

int gpu_run_fused(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    static struct gpu_found found;
    struct gpu *g = gpu_use(s->device.index);
    struct fused_args a = { .n = m[0]->one->size };
    if (!g)
        return 1;
    struct fused_maker k = { .r = &(struct run){ .stream = s, .node = m[0]->node }, .a = &a, .n = n };
    if (!make_kernel(&k, m, wanted))
        return one_by_one(s, n, m, wanted);
    void *kernel = gpu_find(g, &found, "fused", "fused", DT_COUNT);
    int failed = !kernel;
    for (int i = 0; i < n && !failed; i++)
        if (wanted[i]) {
            struct run r = run_of(s, m[i]);
            failed = gpu_out_new(&r, 0);
            if (!failed)
                a.y[a.step[k.step[i]].out] = gpu_pointer(&r, m[i]->one);
        }
    int64_t each = FUSED_THREADS * FUSED_EACH;
    return failed || gpu_launch(s, "fused", kernel, ceil_div(a.n, each), FUSED_THREADS, (void *[]){ &a });
}
