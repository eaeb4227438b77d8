/* random.c: random numbers on a GPU: bits, and the element-wise operations that ops/random.c makes numbers of them
 * with, as one kernel that has no bits in memory. */
#include "cuda/kernels/random.h"

#include "cuda/gpu.h"

static struct bits_args bits_args_of(const struct run *r, mx key, mx y, int64_t bytes)
{
    struct bits_args a = { .y = gpu_pointer(r, y), .keys = gpu_pointer(r, key), .n_keys = key->size / 2 };
    a.bytes = bytes / a.n_keys;
    a.words = ceil_div(a.bytes, 4);
    a.pairs = ceil_div(a.words, 2);
    a.quads = ceil_div(a.pairs, 4);
    return a;
}

static int launch_draws(const struct run *r, void *kernel, const struct bits_args *b, void *args)
{
    return gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(b->n_keys * b->quads, RANDOM_THREADS),
                      RANDOM_THREADS, (void *[]){ args });
}

int gpu_run_random_bits(const struct run *r)
{
    static struct gpu_found found;
    mx y = r->y[0], key;
    mx_own hold = { 0 };
    if (gpu_out_new(r, 0))
        return 1;
    if (y->size == 0)
        return 0;
    if (is_nil(key = gpu_row_major(r, r->x[0], &hold)))
        return 1;
    void *kernel = gpu_find(gpu_of(r), &found, "random", "random_bits", DT_COUNT);
    struct bits_args a = bits_args_of(r, key, y, nbytes(y));
    int failed = !kernel || launch_draws(r, kernel, &a, &a);
    mx_drop(&hold);
    return failed;
}

/* ---- numbers */

bool gpu_draws(const struct node *n) { return n->op->id == OP_random_bits; }

/* What members from one that draws bits on come to. */
struct drawing {
    int n;
    struct entry *const *m;
    const bool *wanted;
    int at;          /* the member that has been understood last */
    uint32_t passed; /* all that have been, as bits */
};
struct draw {
    enum { DRAW_BITS, DRAW_UNIFORM, DRAW_NORMAL, DRAW_BERNOULLI } kind;
    int first, last; /* member */
    uint32_t members;
    mx most, range, low, factor, loc, bound;
};

static bool is_one_number(mx x)
{
    for (int d = 0; d < x->ndim; d++)
        if (x->shape[d] != 1 && x->strides[d] != 0)
            return false;
    return true;
}

/* If nobody but one member, once, looks at the last one's result, and it is `op` of that and perhaps of one number for
 * all elements, the `other` (which may come first where the order does not matter), the drawing goes on there. */
static bool goes_on(struct drawing *d, int op, enum dtype to, mx *other)
{
    int reader = -1, operand = 0;
    for (int i = d->at + 1; i < d->n; i++)
        for (int k = 0; k < d->m[i]->node->nin; k++)
            if (d->m[i]->from[k] == d->at) {
                if (reader >= 0)
                    return false;
                reader = i;
                operand = k;
            }
    if (reader < 0 || d->wanted[d->at])
        return false;
    const struct entry *e = d->m[reader];
    const struct node *n = e->node;
    if ((int)n->op->id != op || e->one->dtype != to || n->nin != 1 + !!other)
        return false;
    if (other) {
        if (e->from[!operand] != OUTSIDE || !is_one_number(n->in[!operand]) ||
            (operand && op != OP_multiply && op != OP_add))
            return false;
        *other = n->in[!operand];
    }
    d->at = reader;
    d->passed |= 1u << reader;
    return true;
}

/* A result of type t stays what it is or becomes half as long; its type. */
static enum dtype rounded(struct drawing *d, enum dtype t)
{
    return goes_on(d, OP_astype, DT_float16, NULL)    ? DT_float16
           : goes_on(d, OP_astype, DT_bfloat16, NULL) ? DT_bfloat16
                                                      : t;
}

static struct draw *drawn(struct draw *r, const struct drawing *d, int kind)
{
    r->kind = kind;
    r->last = d->at;
    r->members = d->passed;
    return r;
}

/* The most that one kernel can do of what member `first` begins. */
static struct draw draw_of(int n, struct entry *const m[], const bool wanted[], int first)
{
    struct drawing d = { n, m, wanted, first, 1u << first };
    struct draw r = { .first = first };
    mx by = NULL;
    drawn(&r, &d, DRAW_BITS);
    if (m[first]->one->dtype != DT_uint32 || !goes_on(&d, OP_astype, DT_float32, NULL))
        return r;
    if (goes_on(&d, OP_less, DT_bool_, &r.bound))
        return *drawn(&r, &d, DRAW_BERNOULLI);
    if (!goes_on(&d, OP_divide, DT_float32, &by) || !array_readable(by) ||
        float_at(DT_float32, array_host(by)) != 0x1p32 || !goes_on(&d, OP_minimum, DT_float32, &r.most))
        return r;
    enum dtype t = rounded(&d, DT_float32);
    if (!goes_on(&d, OP_multiply, t, &r.range) || !goes_on(&d, OP_add, t, &r.low))
        return r;
    drawn(&r, &d, DRAW_UNIFORM);
    if (t != DT_float32 || !goes_on(&d, OP_erfinv, t, NULL))
        return r;
    t = rounded(&d, t);
    drawn(&r, &d, DRAW_NORMAL);
    if (goes_on(&d, OP_multiply, t, &r.factor)) {
        drawn(&r, &d, DRAW_NORMAL);
        if (goes_on(&d, OP_add, t, &r.loc))
            drawn(&r, &d, DRAW_NORMAL);
    }
    return r;
}

static const void *number_at(const struct run *r, mx x) { return x ? gpu_pointer(r, x) : NULL; }

static int run_draw(struct stream *s, struct entry *const m[], const struct draw *d)
{
    static struct gpu_found found[DRAW_BERNOULLI + 1][DT_COUNT];
    static const char *const names[DRAW_BERNOULLI + 1][DT_COUNT] = {
        [DRAW_UNIFORM] = { [DT_float32] = "uniform_f32", [DT_float16] = "uniform_f16", [DT_bfloat16] = "uniform_bf16" },
        [DRAW_NORMAL] = { [DT_float32] = "normal_f32", [DT_float16] = "normal_f16", [DT_bfloat16] = "normal_bf16" },
        [DRAW_BERNOULLI] = { [DT_bool_] = "bernoulli" },
    };
    if (d->kind == DRAW_BITS)
        return cuda_backend.run(s, m[d->last]);
    struct run r = run_of(s, m[d->last]);
    mx y = r.y[0], key = m[d->first]->node->in[0];
    void *kernel = gpu_find(gpu_of(&r), &found[d->kind][y->dtype], "random", names[d->kind][y->dtype], DT_COUNT);
    mx_own hold = { 0 };
    if (!kernel || gpu_out_new(&r, 0) || is_nil(key = gpu_row_major(&r, key, &hold)))
        return 1;
    struct draw_args a = { .bits = bits_args_of(&r, key, y, 4 * y->size),
                           .most = number_at(&r, d->most),
                           .range = number_at(&r, d->range),
                           .low = number_at(&r, d->low),
                           .factor = number_at(&r, d->factor),
                           .loc = number_at(&r, d->loc),
                           .bound = number_at(&r, d->bound) };
    int failed = launch_draws(&r, kernel, &a.bits, &a);
    mx_drop(&hold);
    return failed;
}

int gpu_run_drawn(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    struct entry rest[FUSE_MOST], *left[FUSE_MOST];
    bool needed[FUSE_MOST];
    uint8_t number[FUSE_MOST];
    uint32_t gone = 0, made = 0; /* members that draws do; those whose results they have in memory */
    int n_left = 0, failed = 0;
    for (int i = 0; i < n && !failed; i++) {
        if (!gpu_draws(m[i]->node))
            continue;
        struct draw d = draw_of(n, m, wanted, i);
        gone |= d.members;
        made |= 1u << d.last;
        failed = run_draw(s, m, &d);
    }
    for (int i = 0; i < n && !failed; i++) {
        number[i] = gone >> i & 1 ? OUTSIDE : (uint8_t)n_left;
        if (number[i] == OUTSIDE)
            continue;
        needed[n_left] = wanted[i];
        left[n_left] = &rest[n_left];
        rest[n_left] = *m[i];
        for (int k = 0; k < m[i]->node->nin; k++)
            rest[n_left].from[k] = m[i]->from[k] == OUTSIDE ? OUTSIDE : number[m[i]->from[k]];
        n_left++;
    }
    if (!failed && n_left)
        failed = n_left > 1 ? gpu_run_fused(s, n_left, left, needed) : cuda_backend.run(s, left[0]);
    for (int i = 0; i < n; i++)
        if (made >> i & 1 && !wanted[i] && m[i]->one->buf) {
            buffer_release(m[i]->one->buf);
            m[i]->one->buf = NULL;
        }
    return failed;
}
