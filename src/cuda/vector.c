/* vector.c: see vector.h. */
#include "cuda/vector.h"

#include "core/shape.h"
#include "cuda/kernels/rows.h"
#include "ops/quantize.h"

/* matmul's, or packed weights of 4 or 8 bits, which lie along their lines. */
bool gpu_has_vector(const struct node *n)
{
    const struct quant_args *q = n->args;
    mx x = n->nin > 1 ? n->in[0] : NULL, w = n->nin > 1 ? n->in[1] : NULL;
    switch (n->op->id) {
    case OP_matmul:
        return x->ndim >= 2 && w->ndim >= 2 && dim(x, -2) == 1 && matrix_count(x) == 1 && matrix_count(w) == 1;
    case OP_quantized_matmul:
        return n->nin == 4 && q->transpose && q->mode == MODE_AFFINE && (q->bits == 4 || q->bits == 8) && x->size > 0 &&
               x->size == dim(x, -1) && matrix_count(w) == 1;
    default: return false;
    }
}

bool gpu_share_a_vector(const struct node *n, const struct node *first)
{
    if (!gpu_has_vector(n) || !gpu_has_vector(first))
        return false;
    mx x = n->in[0], y = first->in[0];
    return x->buf == y->buf && x->offset == y->offset && x->dtype == y->dtype && dim(x, -1) == dim(y, -1) &&
           x->strides[x->ndim - 1] == y->strides[y->ndim - 1];
}

static bool lies_in(const void *p, const void *from, int64_t bytes)
{
    return (uintptr_t)p - (uintptr_t)from < (uintptr_t)bytes;
}

/* What is a view of the norm begins within it: it has memory of its own. */
bool gpu_norm_of_vector(const struct run *r, enum dtype t, const void *v, int64_t k, int n, const void *const others[],
                        struct vector_norm *norm)
{
    struct rows_args a;
    int64_t bytes = k * (int64_t)dtype_size(t);
    if (!gpu_holds_norm(gpu_stream(r->stream), v, t, &a) || a.n != k || bytes > VECTOR_NORM_BYTES)
        return false;
    for (int i = 0; i < n; i++)
        if (lies_in(others[i], a.y, bytes))
            return false;
    *norm = (struct vector_norm){ a.y, a.x, a.weight, a.bias, a.eps, a.centered, a.team, a.early };
    return true;
}

static bool describe(struct stream *s, struct entry *const m[], int i, struct vector_matrix *v)
{
    struct run r = run_of(s, m[i]);
    *v = (struct vector_matrix){ 0 };
    return gpu_has_vector(r.node) && m[i]->one->size > 0 &&
           (r.node->op->id == OP_matmul ? gpu_vector_product : gpu_vector_packed)(&r, m[i]->one, v);
}

static bool is_like(const struct vector_matrix *v, const struct vector_matrix *other)
{
    return v->kind == other->kind && v->vector == other->vector && v->k == other->k;
}

bool gpu_vectors_there(const struct vector_matrices *all)
{
    bool there = true;
    for (int i = 0; i < all->n; i++) there = there && all->of[i].there;
    return there;
}

static int launch(const struct run *r, const struct vector_matrices *all)
{
    return all->of[0].kind ? gpu_launch_packed(r, all) : gpu_launch_products(r, all);
}

/* That of a producer is one more matrix, with what its result is added to; y becomes the sum. */
static int take(struct stream *s, struct epilogue *c, const struct vector_matrix *v, struct vector_matrices *all,
                struct produced *b)
{
    struct vector_matrix *to = &all->of[all->n++];
    mx other = NULL;
    *to = *v;
    if (epilogue_takes_sum(c, &other)) {
        struct run r = run_of(s, c->m[c->at]);
        to->c = gpu_pointer(&r, other);
    }
    struct run into = run_of(s, c->m[c->at]);
    if (gpu_out_new(&into, 0))
        return 1;
    to->y = gpu_pointer(&into, into.y[0]);
    b->made |= 1u << c->at;
    b->members |= c->passed;
    return 0;
}

/* Is what becomes of the first silu of one product times another of the same vector, or the other way round?  Nobody
 * else looks at those. */
static bool find_gated(struct stream *s, struct epilogue *c, uint32_t gone, int first, const struct vector_matrix *v,
                       struct vector_matrices *pair)
{
    const enum dtype t = (enum dtype)c->m[first]->one->dtype;
    for (int gate = first, up; gate < c->n; gate++) {
        struct vector_matrix *of = pair->of;
        c->at = gate;
        c->passed = 1u << gate;
        if (gone >> gate & 1 || !epilogue_takes(c, OP_silu, t, NULL) || (up = epilogue_takes_product(c)) < 0 ||
            (gate != first && up != first) || !describe(s, c->m, gate, &of[0]) || !is_like(&of[0], v))
            continue;
        return describe(s, c->m, up, &of[1]) && is_like(&of[1], v) && of[0].m == of[1].m;
    }
    return false;
}

bool gpu_produce_vectors(struct stream *s, int n, struct entry *const m[], const bool wanted[], int first,
                         struct produced *b, int *failed)
{
    struct vector_matrices all = { .n = 2, .gated = true };
    struct vector_matrix v, next;
    struct epilogue gated = { n, m, wanted, first, 0 };
    if (!describe(s, m, first, &v))
        return false;
    if (find_gated(s, &gated, b->gone, first, &v, &all)) {
        struct run into = run_of(s, m[gated.at]);
        b->made = 1u << gated.at;
        b->members = gated.passed;
        *failed = gpu_out_new(&into, 0);
        all.of[0].y = all.of[1].y = *failed ? NULL : gpu_pointer(&into, into.y[0]);
        *failed = *failed || launch(&into, &all);
        return true;
    }
    const enum dtype t = (enum dtype)m[first]->one->dtype;
    const struct run whole = run_of(s, m[first]);
    all = (struct vector_matrices){ 0 };
    *failed = 0;
    for (int i = first; i < n && all.n < VECTOR_MATRICES && !*failed; i++) {
        struct epilogue c = { n, m, wanted, i, 1u << i }, pair = c;
        struct vector_matrices both;
        if (b->gone >> i & 1 || (enum dtype)m[i]->one->dtype != t || !describe(s, m, i, &next) || !is_like(&next, &v) ||
            (i > first && find_gated(s, &pair, b->gone, i, &next, &both)))
            continue;
        *failed = take(s, &c, &next, &all, b);
    }
    *failed = *failed || launch(&whole, &all);
    return true;
}
