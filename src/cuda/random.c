/* random.c: random numbers on a GPU: bits, and the element-wise operations that ops/random.c makes numbers of them
 * with, as one kernel that has no bits in memory. */
#include "cuda/kernels/random.h"

#include "cuda/gpu.h"
#include "cuda/producer.h"

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
    int64_t pieces = ceil_div(b->n_keys * b->quads, RANDOM_THREADS);
    return gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(pieces, gpu_rounds(gpu_of(r), pieces)),
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
struct draw {
    enum { DRAW_BITS, DRAW_UNIFORM, DRAW_NORMAL, DRAW_BERNOULLI } kind;
    int first, last; /* member */
    uint32_t members;
    mx most, range, low, factor, loc, bound;
};

/* A result of type t stays what it is or becomes half as long; its type. */
static enum dtype rounded(struct epilogue *d, enum dtype t)
{
    return epilogue_takes(d, OP_astype, DT_float16, NULL)    ? DT_float16
           : epilogue_takes(d, OP_astype, DT_bfloat16, NULL) ? DT_bfloat16
                                                             : t;
}

static struct draw *drawn(struct draw *r, const struct epilogue *d, int kind)
{
    r->kind = kind;
    r->last = d->at;
    r->members = d->passed;
    return r;
}

/* The most that one kernel can do of what member `first` produces. */
static struct draw draw_of(int n, struct entry *const m[], const bool wanted[], int first)
{
    struct epilogue d = { n, m, wanted, first, 1u << first };
    struct draw r = { .first = first };
    mx by = NULL;
    drawn(&r, &d, DRAW_BITS);
    if (m[first]->one->dtype != DT_uint32 || !epilogue_takes(&d, OP_astype, DT_float32, NULL))
        return r;
    if (epilogue_takes(&d, OP_less, DT_bool_, &r.bound))
        return *drawn(&r, &d, DRAW_BERNOULLI);
    if (!epilogue_takes(&d, OP_divide, DT_float32, &by) || !array_readable(by) ||
        float_at(DT_float32, array_host(by)) != 0x1p32 || !epilogue_takes(&d, OP_minimum, DT_float32, &r.most))
        return r;
    enum dtype t = rounded(&d, DT_float32);
    if (!epilogue_takes(&d, OP_multiply, t, &r.range) || !epilogue_takes(&d, OP_add, t, &r.low))
        return r;
    drawn(&r, &d, DRAW_UNIFORM);
    if (t != DT_float32 || !epilogue_takes(&d, OP_erfinv, t, NULL))
        return r;
    t = rounded(&d, t);
    drawn(&r, &d, DRAW_NORMAL);
    if (epilogue_takes(&d, OP_multiply, t, &r.factor)) {
        drawn(&r, &d, DRAW_NORMAL);
        if (epilogue_takes(&d, OP_add, t, &r.loc))
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

int gpu_produce_draws(struct stream *s, int n, struct entry *const m[], const bool wanted[], int first,
                      struct produced *b)
{
    struct draw d = draw_of(n, m, wanted, first);
    b->made = 1u << d.last;
    b->members = d.members;
    return run_draw(s, m, &d);
}
