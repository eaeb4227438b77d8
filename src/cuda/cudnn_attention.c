/* cudnn_attention.c: attention by cuDNN.
 *
 * It is a graph of products, reductions and element-wise operations there, in the order and with the types that
 * engines know it by; scores are virtual, and so never in memory.  Of each row it keeps the logarithm of the sum of its
 * weights, which is our top, with a sum of 1.
 *
 * A key that a query does not see has a weight of 0 there, which times infinity is no number.  So under a causal mask a
 * kernel of ours looks for what is not finite, and if there is anything our kernels, which leave out what is not seen,
 * do all again; else their blocks end at once.  It need not look at much: the last query sees all keys, so the last row
 * of a result has anything of V that is not finite, and its gradient anything of K and V; the first key is seen by all
 * queries, so in that of K is anything of Q and the cotangent. */
#include "cuda/cudnn_attention.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/settings.h"
#include "core/shape.h"
#include "cuda/cudnn_graph.h"
#include "cuda/kernels/attention.h"
#include "plan/attention.h"

/* Multiply-adds, and queries and keys, from which on it is used: our kernels take some 10 us for fewer, which is what
 * waiting for any operation takes.  Tests have less. */
#ifndef CUDNN_LEAST_ATTENTION
#define CUDNN_LEAST_ATTENTION (1 << 27)
#define CUDNN_LEAST_QUERIES 128
#endif
/* Our kernels do a shape until they have made so many multiply-adds of it, which takes a tenth of a second.  Then cuDNN
 * is asked, which takes half of that, the first time of a size of heads up to a second, and saves a third of what they
 * take. */
#ifndef CUDNN_ATTENTION_PATIENCE
#define CUDNN_ATTENTION_PATIENCE 15e12
#endif
enum { MOST_ELEMENTS = INT32_MAX }; /* of a tensor: not all engines count in 64 bits */

/* Tensors in memory by name, those by value first; others have numbers behind. */
enum { SCALE = 1, HIDDEN, ONE, Q, K, V, Y, CT, WEIGHT, DELTA, DQ, DK, DV, DQ_SUM, VIRTUAL };
enum { BATCH, HEAD, ROW, COLUMN, AXES };

/* All that the choice of a plan depends on: equal bytes are equal calls. */
struct dnn_attention {
    int gpu, type, back, causal, same_bits, unused; /* unused: bytes between members are compared, too */
    int64_t batch, heads, kv, length, keys, width;
    struct lying {
        int64_t step[COLUMN]; /* from one to the next; of columns 1 */
    } q, k, v, ct;
};

/* ---- graphs */

struct graph {
    struct dnn_made *m;
    const struct dnn_attention *a;
    void **operation;
    int n;
    int64_t names;
};

/* A tensor of the batch, and where it lies: row by row, if `at` does not say else. */
static struct dnn_tensor shaped(int type, const struct dnn_attention *a, int64_t heads, int64_t rows, int64_t columns,
                                const struct lying *at)
{
    struct dnn_tensor t = { 0, 16, type, AXES, false, false, { a->batch, heads, rows, columns }, { 0 } };
    t.step[COLUMN] = 1;
    for (int i = ROW; i >= 0; i--) t.step[i] = at ? at->step[i] : t.step[i + 1] * t.size[i + 1];
    return t;
}

/* The same with rows for columns. */
static struct dnn_tensor turned(struct dnn_tensor t)
{
    int64_t size = t.size[ROW], step = t.step[ROW];
    t.size[ROW] = t.size[COLUMN];
    t.step[ROW] = t.step[COLUMN];
    t.size[COLUMN] = size;
    t.step[COLUMN] = step;
    return t;
}

static void *named(struct graph *g, int64_t id, struct dnn_tensor t)
{
    t.id = id;
    return dnn_tensor(g->m, &t);
}

static void *number(struct graph *g, int64_t id)
{
    struct dnn_tensor t = { id, 16, CUDNN_FLOAT, AXES, false, true, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } };
    return dnn_tensor(g->m, &t);
}

static void *passing(struct graph *g, struct dnn_tensor t)
{
    t.is_virtual = true;
    return named(g, g->names++, t);
}

/* A number for each score, and for each row of them. */
static struct dnn_tensor scores(const struct graph *g, int type)
{
    return shaped(type, g->a, g->a->heads, g->a->length, g->a->keys, NULL);
}
static struct dnn_tensor of_rows(const struct graph *g)
{
    return shaped(CUDNN_FLOAT, g->a, g->a->heads, g->a->length, 1, NULL);
}
static struct dnn_tensor of_queries(const struct graph *g, int type, const struct lying *at)
{
    return shaped(type, g->a, g->a->heads, g->a->length, g->a->width, at);
}
static struct dnn_tensor of_keys(const struct graph *g, int type, int64_t heads, const struct lying *at)
{
    return shaped(type, g->a, heads, g->a->keys, g->a->width, at);
}

static void add_operation(struct graph *g, void *d)
{
    dnn_finish(g->m, d);
    g->operation[g->n++] = d;
}

static void *multiply(struct graph *g, void *a, void *b, void *y)
{
    const int type = CUDNN_FLOAT;
    void *how = dnn_begin(g->m, CUDNN_PRODUCT);
    dnn_set(g->m, how, CUDNN_PRODUCT_TYPE, CUDNN_IS_TYPE, 1, &type);
    dnn_finish(g->m, how);
    void *d = dnn_begin(g->m, CUDNN_DO_PRODUCT);
    dnn_set_part(g->m, d, CUDNN_PRODUCT_A, a);
    dnn_set_part(g->m, d, CUDNN_PRODUCT_B, b);
    dnn_set_part(g->m, d, CUDNN_PRODUCT_Y, y);
    dnn_set_part(g->m, d, CUDNN_PRODUCT_HOW, how);
    add_operation(g, d);
    return y;
}

/* Of one operand or two; axis: of places. */
static void *elementwise(struct graph *g, int mode, void *x, void *b, void *y, void *select, int axis)
{
    const int type = mode == CUDNN_NOT_BELOW ? CUDNN_BOOLEAN : CUDNN_FLOAT;
    void *how = dnn_begin(g->m, CUDNN_ELEMENTWISE);
    dnn_set(g->m, how, CUDNN_ELEMENTWISE_MODE, CUDNN_IS_ELEMENTWISE, 1, &mode);
    dnn_set(g->m, how, CUDNN_ELEMENTWISE_TYPE, CUDNN_IS_TYPE, 1, &type);
    if (mode == CUDNN_PLACE)
        dnn_set_number(g->m, how, CUDNN_ELEMENTWISE_AXIS, axis);
    dnn_finish(g->m, how);
    void *d = dnn_begin(g->m, CUDNN_DO_ELEMENTWISE);
    dnn_set_part(g->m, d, CUDNN_ELEMENTWISE_HOW, how);
    dnn_set_part(g->m, d, CUDNN_ELEMENTWISE_X, x);
    if (b)
        dnn_set_part(g->m, d, CUDNN_ELEMENTWISE_B, b);
    if (select)
        dnn_set_part(g->m, d, CUDNN_ELEMENTWISE_T, select);
    dnn_set_part(g->m, d, CUDNN_ELEMENTWISE_Y, y);
    add_operation(g, d);
    return y;
}
static void *combine(struct graph *g, int mode, void *a, void *b, void *y)
{
    return elementwise(g, mode, a, b, y, NULL, 0);
}
static void *apply(struct graph *g, int mode, void *x, void *y) { return elementwise(g, mode, x, NULL, y, NULL, 0); }

static void *reduce(struct graph *g, int mode, void *x, void *y)
{
    const int type = CUDNN_FLOAT;
    void *how = dnn_begin(g->m, CUDNN_REDUCTION);
    dnn_set(g->m, how, CUDNN_REDUCTION_TYPE, CUDNN_IS_TYPE, 1, &type);
    dnn_set(g->m, how, CUDNN_REDUCTION_MODE, CUDNN_IS_REDUCTION, 1, &mode);
    dnn_finish(g->m, how);
    void *d = dnn_begin(g->m, CUDNN_DO_REDUCTION);
    dnn_set_part(g->m, d, CUDNN_REDUCTION_X, x);
    dnn_set_part(g->m, d, CUDNN_REDUCTION_Y, y);
    dnn_set_part(g->m, d, CUDNN_REDUCTION_HOW, how);
    add_operation(g, d);
    return y;
}

/* The same elements, with rows for columns and of another type perhaps. */
static void *reshape(struct graph *g, void *x, void *y)
{
    void *d = dnn_begin(g->m, CUDNN_DO_RESHAPE);
    dnn_set_part(g->m, d, CUDNN_RESHAPE_X, x);
    dnn_set_part(g->m, d, CUDNN_RESHAPE_Y, y);
    add_operation(g, d);
    return y;
}

/* Scores where a query sees the key, HIDDEN elsewhere. */
static void *hide(struct graph *g, void *s)
{
    if (!g->a->causal)
        return s;
    void *hidden = number(g, HIDDEN), *place[2];
    for (int i = 0; i < 2; i++)
        place[i] = elementwise(g, CUDNN_PLACE, s, NULL, passing(g, scores(g, CUDNN_INT32)), NULL, ROW + i);
    void *seen = combine(g, CUDNN_NOT_BELOW, place[0], place[1], passing(g, scores(g, CUDNN_BOOLEAN)));
    return elementwise(g, CUDNN_SELECT, s, hidden, passing(g, scores(g, CUDNN_FLOAT)), seen, 0);
}

/* Of queries and keys, times the scale. */
static void *scaled_scores(struct graph *g, void *q, void *turned_k, void *scale)
{
    void *s = multiply(g, q, turned_k, passing(g, scores(g, CUDNN_FLOAT)));
    return combine(g, CUDNN_MULTIPLY, s, scale, passing(g, scores(g, CUDNN_FLOAT)));
}

static void describe_forward(struct graph *g)
{
    const struct dnn_attention *a = g->a;
    void *q = named(g, Q, of_queries(g, a->type, &a->q)), *scale = number(g, SCALE);
    void *k = named(g, K, turned(of_keys(g, a->type, a->kv, &a->k)));
    void *v = named(g, V, of_keys(g, a->type, a->kv, &a->v));
    void *y = named(g, Y, of_queries(g, a->type, NULL)), *weight = named(g, WEIGHT, of_rows(g));
    void *s = hide(g, scaled_scores(g, q, k, scale));
    void *top = reduce(g, CUDNN_LARGEST, s, passing(g, of_rows(g)));
    void *less = combine(g, CUDNN_SUBTRACT, s, top, passing(g, scores(g, CUDNN_FLOAT)));
    void *e = apply(g, CUDNN_EXP, less, passing(g, scores(g, CUDNN_FLOAT)));
    void *sum = reduce(g, CUDNN_SUM, e, passing(g, of_rows(g)));
    void *log = apply(g, CUDNN_LOG, sum, passing(g, of_rows(g)));
    combine(g, CUDNN_ADD, top, log, weight);
    void *p = combine(g, CUDNN_DIVIDE, e, sum, passing(g, scores(g, a->type)));
    multiply(g, p, v, y);
}

/* A gradient of K or V: x^T b, of all heads of queries that share one. */
static void to_keys(struct graph *g, void *x, void *b, int64_t id)
{
    const struct dnn_attention *a = g->a;
    struct dnn_tensor t = turned(shaped(a->type, a, a->heads, a->length, a->keys, NULL));
    void *y = named(g, id, of_keys(g, a->type, a->kv, NULL));
    x = reshape(g, x, passing(g, t));
    if (a->heads == a->kv)
        multiply(g, x, b, y);
    else
        reduce(g, CUDNN_SUM, multiply(g, x, b, passing(g, of_keys(g, a->type, a->heads, NULL))), y);
}

/* Of queries the gradient is added up by blocks of keys in whatever order, in DQ_SUM, where the same bits are not asked
 * for. */
static void describe_back(struct graph *g)
{
    const struct dnn_attention *a = g->a;
    void *q = named(g, Q, of_queries(g, a->type, &a->q)), *scale = number(g, SCALE), *one = number(g, ONE);
    void *k = named(g, K, turned(of_keys(g, a->type, a->kv, &a->k)));
    void *v = named(g, V, turned(of_keys(g, a->type, a->kv, &a->v)));
    void *y = named(g, Y, of_queries(g, a->type, NULL)), *ct = named(g, CT, of_queries(g, a->type, &a->ct));
    void *weight = named(g, WEIGHT, of_rows(g)), *delta = named(g, DELTA, of_rows(g));
    void *dq = named(g, DQ, of_queries(g, a->type, NULL));
    struct dnn_tensor each = of_queries(g, CUDNN_FLOAT, NULL);
    each.step[ROW] = a->heads * a->width; /* of no consequence, and what engines have been tried with */
    void *products = combine(g, CUDNN_MULTIPLY, ct, y, passing(g, each));
    combine(g, CUDNN_MULTIPLY, reduce(g, CUDNN_SUM, products, passing(g, of_rows(g))), one, delta);
    void *s = scaled_scores(g, q, k, scale);
    void *less = hide(g, combine(g, CUDNN_SUBTRACT, s, weight, passing(g, scores(g, CUDNN_FLOAT))));
    void *p = apply(g, CUDNN_EXP, less, passing(g, scores(g, CUDNN_FLOAT)));
    to_keys(g, p, ct, DV);
    void *dp = multiply(g, ct, v, passing(g, scores(g, CUDNN_FLOAT)));
    dp = combine(g, CUDNN_SUBTRACT, dp, delta, passing(g, scores(g, CUDNN_FLOAT)));
    dp = combine(g, CUDNN_MULTIPLY, dp, p, passing(g, scores(g, CUDNN_FLOAT)));
    dp = combine(g, CUDNN_MULTIPLY, dp, scale, passing(g, scores(g, CUDNN_FLOAT)));
    to_keys(g, dp, q, DK);
    k = reshape(g, k, passing(g, of_keys(g, CUDNN_FLOAT, a->kv, &a->k)));
    if (a->same_bits)
        multiply(g, dp, k, dq);
    else
        apply(g, CUDNN_IDENTITY, multiply(g, dp, k, named(g, DQ_SUM, of_queries(g, CUDNN_FLOAT, NULL))), dq);
}

static int describe(struct dnn_made *m, const void *of, void *operations[DNN_OPERATIONS])
{
    struct graph g = { m, of, operations, 0, VIRTUAL };
    if (g.a->back)
        describe_back(&g);
    else
        describe_forward(&g);
    return g.n;
}

static uint32_t never(const void *of)
{
    const struct dnn_attention *a = of;
    return 1 << CUDNN_NOTE_REDUCED_SUMS | (a->same_bits ? 1 << CUDNN_NOTE_NONDETERMINISTIC : 0);
}

static void name(const void *of, FILE *to)
{
    const struct dnn_attention *a = of;
    fprintf(to, "%s of %s, (%lld, %lld, %lld, %lld) and (%lld, %lld)%s",
            a->back ? "attention's derivative" : "attention", cudnn_type_name(a->type), (long long)a->batch,
            (long long)a->heads, (long long)a->length, (long long)a->width, (long long)a->kv, (long long)a->keys,
            a->causal ? ", causal" : "");
}

static double work_of(const struct dnn_attention *a)
{
    return 2 * (double)(a->batch * a->heads * a->length) * (double)a->keys * (double)a->width;
}

static int64_t patience(const void *of)
{
    const struct dnn_attention *a = of;
    double work = work_of(a) * (a->back ? 2.5 : 1) / (a->causal ? 2 : 1);
    return a->same_bits ? 0 : (int64_t)(CUDNN_ATTENTION_PATIENCE / work);
}

/* 9.10.0 and 9.10.1 are said to be, and so is the derivative of keys that are no whole tiles before 9.15.1. */
static bool is_wrong(const void *of)
{
    enum { WRONG = 91000, WRONG_AS_WELL = 91001, WRONG_IN_PART = 91500, TILE = 128 };
    const struct dnn_attention *a = of;
    size_t version = dnn.version();
    return version == WRONG || version == WRONG_AS_WELL || (a->back && a->keys % TILE && version <= WRONG_IN_PART);
}

static const struct dnn_kind attentions = { sizeof(struct dnn_attention), describe, never, name, patience, is_wrong };

/* ---- which calls */

/* False: an engine may not read it so. */
static bool lies(struct lying *l, const struct attention_operand *o, int64_t batch, int64_t heads, int64_t rows,
                 int64_t width)
{
    const int64_t size[] = { batch, heads, rows }, step[] = { o->batch[0], o->head, o->row };
    int64_t alone = width, last = width; /* alone: where there is but one */
    for (int i = ROW; i >= 0; i--) {
        l->step[i] = size[i] > 1 ? step[i] : alone;
        if (l->step[i] <= 0 || l->step[i] > MOST_ELEMENTS)
            return false;
        last += (size[i] - 1) * l->step[i];
        alone *= size[i];
    }
    return o->vectors && last <= MOST_ELEMENTS;
}

static bool describe_call(struct dnn_attention *a, const struct run *r, const struct attention_plan *p,
                          const struct attention_call *c, const struct attention_operand *ct)
{
    enum { USUAL = 128, LARGE = 256, LANES = 8 };
    const struct gpu *g = gpu_of(r);
    enum dtype t = (enum dtype)p->q->dtype;
    int64_t rows = p->batch * p->heads * p->length;
    bool fits = dtype_is_half(t) && !p->mask && !p->sinks && (!p->a->causal || p->length == p->keys) && g->major >= 8 &&
                c->ndim <= 1 && p->length >= CUDNN_LEAST_QUERIES && p->keys >= CUDNN_LEAST_QUERIES && p->d == p->e &&
                p->d > 0 && p->d % LANES == 0 && p->d <= (g->major == 9 ? LARGE : USUAL) &&
                rows <= MOST_ELEMENTS / p->d;
    memset(a, 0, sizeof *a);
    *a = (struct dnn_attention){ .gpu = g->number, .type = cudnn_type_of(t), .back = ct != NULL };
    a->causal = p->a->causal;
    a->same_bits = gpu_deterministic();
    a->batch = p->batch;
    a->heads = p->heads;
    a->kv = p->kv;
    a->length = p->length;
    a->keys = p->keys;
    a->width = p->d;
    return fits && work_of(a) >= CUDNN_LEAST_ATTENTION && lies(&a->q, &c->q, p->batch, p->heads, p->length, p->d) &&
           lies(&a->k, &c->k, p->batch, p->kv, p->keys, p->d) && lies(&a->v, &c->v, p->batch, p->kv, p->keys, p->d) &&
           (!ct || lies(&a->ct, ct, p->batch, p->heads, p->length, p->d));
}

/* ---- calls */

/* What a graph is given by name. */
struct given {
    int n;
    int64_t id[VIRTUAL];
    void *at[VIRTUAL];
};
static void give(struct given *g, int64_t id, const void *at)
{
    g->id[g->n] = id;
    g->at[g->n++] = (void *)(uintptr_t)at;
}

/* Numbers by value, which are read when the graph is queued. */
struct numbers {
    float scale, hidden, one;
};
static struct numbers numbers_of(const struct attention_plan *p)
{
    enum { FIRST_WITH_INFINITY = 91000 }; /* before, engines want the lowest finite number */
    return (struct numbers){ (float)p->a->scale, dnn.version() < FIRST_WITH_INFINITY ? -FLT_MAX : -INFINITY, 1 };
}
static void give_numbers(struct given *g, const struct dnn_attention *a, const struct numbers *n)
{
    give(g, SCALE, &n->scale);
    if (a->causal)
        give(g, HIDDEN, &n->hidden);
    if (a->back)
        give(g, ONE, &n->one);
}

static int launch_look(const struct run *r, const struct attention_plan *p, struct attention_look_call *look)
{
    static struct gpu_found found[DT_COUNT];
    enum { BLOCKS = 8 }; /* of a multiprocessor */
    enum dtype t = (enum dtype)p->q->dtype;
    struct gpu *g = gpu_of(r);
    void *kernel = gpu_find(g, &found[t], "attention", "attention_look", t);
    int64_t blocks = greatest(ceil_div(look->queries, ATTENTION_LOOK_THREADS), 1);
    return !kernel || gpu_launch(r->stream, "attention", kernel, least(blocks, g->multiprocessors * BLOCKS),
                                 ATTENTION_LOOK_THREADS, (void *[]){ look });
}

/* For sums, which versions before 9.6 add to what is there. */
static int zero(const struct run *r, float *p, int64_t n)
{
    enum { FIRST_THAT_DOES = 90600 };
    if (dnn.version() >= FIRST_THAT_DOES)
        return 0;
    void *stream = gpu_direct(gpu_stream(r->stream));
    return gpu_check(gpu_of(r), "attention", cu.words_set((uint64_t)p, 0, (size_t)n, stream));
}

/* Looks at row `row` of each of so many heads of a result, whose rows are `rows`. */
static void look_at(struct attention_look_call *look, int k, const struct attention_plan *p, const void *x,
                    int64_t heads, int64_t rows, int64_t row)
{
    look->x[k] = (const uint16_t *)x + row * p->d;
    look->step[k] = rows * p->d;
    look->rows[k] = (uint32_t)(p->batch * heads);
    look->vectors = (uint32_t)(p->d / gpu_lanes(DT_float16));
}

/* A word on the device that says whether there was anything; NULL: it failed. */
static struct buffer *look_now(const struct run *r, const struct attention_plan *p, struct attention_look_call *look)
{
    struct buffer *wild = buffer_new_on(r->stream, sizeof(uint32_t));
    look->wild = wild ? buffer_on(wild, r->stream) : NULL;
    if (wild && launch_look(r, p, look)) {
        buffer_release(wild);
        return NULL;
    }
    return wild;
}

/* Whatever failed is done by our kernels. */
static bool done(bool yes)
{
    if (!yes)
        mx_error_clear();
    return yes;
}

bool gpu_cudnn_attention(const struct run *r, const struct attention_plan *p, const struct attention_call *c,
                         struct buffer **wild)
{
    struct dnn_attention a;
    struct given g = { 0 };
    struct dnn_plan *plan = describe_call(&a, r, p, c, NULL) ? dnn_plan_on(a.gpu, &attentions, &a) : NULL;
    if (!plan)
        return false;
    struct numbers n = numbers_of(p);
    give_numbers(&g, &a, &n);
    give(&g, Q, c->q.p);
    give(&g, K, c->k.p);
    give(&g, V, c->v.p);
    give(&g, Y, c->y);
    give(&g, WEIGHT, c->top);
    int e = dnn_run(r, plan, g.n, g.id, g.at);
    dnn_let_go(a.gpu, plan, e > 0);
    if (e)
        return done(false);
    struct attention_look_call look = { .sum = c->sum, .queries = p->batch * p->heads * p->length };
    if (!a.causal)
        return done(!launch_look(r, p, &look));
    look_at(&look, 0, p, c->y, p->heads, p->length, p->length - 1);
    return done((*wild = look_now(r, p, &look)) != NULL);
}

bool gpu_cudnn_attention_vjp(const struct run *r, const struct attention_plan *p, const struct attention_vjp_call *a,
                             struct buffer **wild)
{
    const struct attention_call *c = &a->c;
    struct dnn_attention key;
    struct given g = { 0 };
    bool fits = a->result_vectors && describe_call(&key, r, p, c, &a->ct);
    struct dnn_plan *plan = fits ? dnn_plan_on(key.gpu, &attentions, &key) : NULL;
    if (!plan)
        return false;
    int64_t rows = p->batch * p->heads * p->length, sums = key.same_bits ? 0 : rows * p->d;
    int64_t each = ceil_div(rows, 4) * 4; /* to multiples of 16 bytes */
    struct buffer *room = buffer_new_on(r->stream, (size_t)(2 * each + sums) * sizeof(float));
    if (!room) {
        dnn_let_go(key.gpu, plan, false);
        return done(false);
    }
    float *weight = buffer_on(room, r->stream);
    struct numbers n = numbers_of(p);
    give_numbers(&g, &key, &n);
    give(&g, Q, c->q.p);
    give(&g, K, c->k.p);
    give(&g, V, c->v.p);
    give(&g, Y, a->result);
    give(&g, CT, a->ct.p);
    give(&g, WEIGHT, weight);
    give(&g, DELTA, weight + each);
    give(&g, DQ, c->y);
    give(&g, DK, a->dk);
    give(&g, DV, a->dv);
    if (sums)
        give(&g, DQ_SUM, weight + 2 * each);
    struct attention_look_call before = { .top = c->top, .sum = c->sum, .weight = weight, .queries = rows },
                               after = { 0 };
    bool fine = !launch_look(r, p, &before) && (!sums || !zero(r, weight + 2 * each, sums));
    int e = fine ? dnn_run(r, plan, g.n, g.id, g.at) : DNN_UNUSED;
    dnn_let_go(key.gpu, plan, e > 0);
    buffer_release(room);
    if (e || !key.causal)
        return done(!e);
    look_at(&after, 0, p, c->y, p->heads, p->length, p->length - 1);
    look_at(&after, 1, p, a->dk, p->kv, p->keys, 0);
    return done((*wild = look_now(r, p, &after)) != NULL);
}
