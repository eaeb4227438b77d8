/* blas.c: products of matrices by cuBLASLt.
 *
 * Its matrices run along columns, ours along rows: it makes y's transpose, of b's and a's, without a copy.  Which
 * algorithm it takes is asked once for each product of a kind.  Small products, and matrices times vectors, stay with
 * our kernels: it is not opened for them either. */
#include "cuda/blas.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "cuda/cublaslt.h"
#include "cuda/libraries.h"
#include "ops/matmul.h"

static struct cublaslt lt;

static const char *status_text(int status)
{
    switch (status) {
#define X(name, number) \
    case number: return "CUBLAS_STATUS_" #name;
        CUBLAS_STATUSES(X)
#undef X
    }
    return "an error of unknown name";
}

/* ---- a product, as cuBLASLt has it */

enum { FIRST, SECOND, PLUS, RESULT, PARTS }; /* b, a, c and y: it calls them A, B, C and D */

/* All that the choice of an algorithm depends on: equal bytes are equal products. */
struct blas_product {
    int gpu, type, compute, epilogue;
    int64_t m, n, k;       /* ours */
    int64_t batches, bias; /* of which it is the alignment; 0: none */
    struct blas_part {
        int64_t step, batch; /* from column to column, from matrix to matrix */
        int32_t turned;
        uint32_t alignment;
    } part[PARTS];
};

struct blas_handles {
    void *product, *layout[PARTS];
};

static void close_product(struct blas_handles *h)
{
    for (int i = 0; i < PARTS; i++)
        if (h->layout[i])
            lt.layout_destroy(h->layout[i]);
    if (h->product)
        lt.product_destroy(h->product);
}

/* What is asked about the algorithm looks at the address of the bias as well. */
static int open_product(struct blas_handles *h, const struct blas_product *p, const void *bias)
{
    const uint64_t rows[PARTS] = { (uint64_t)p->n, (uint64_t)p->k, (uint64_t)p->n, (uint64_t)p->n };
    const uint64_t columns[PARTS] = { (uint64_t)p->k, (uint64_t)p->m, (uint64_t)p->m, (uint64_t)p->m };
    int batches = (int)p->batches, e = lt.product_create(&h->product, p->compute, CUDA_R_32F);
    for (int i = 0; i < PARTS && !e; i++) {
        const struct blas_part *o = &p->part[i];
        e = lt.layout_create(&h->layout[i], p->type, o->turned ? columns[i] : rows[i], o->turned ? rows[i] : columns[i],
                             o->step);
        if (!e && batches > 1)
            e = lt.layout_set(h->layout[i], CUBLASLT_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
        if (!e && batches > 1)
            e = lt.layout_set(h->layout[i], CUBLASLT_LAYOUT_BATCH_STEP, &o->batch, sizeof o->batch);
    }
    for (int i = FIRST; i <= SECOND && !e; i++)
        e = lt.product_set(h->product, CUBLASLT_PRODUCT_TURN_A + i, &p->part[i].turned, sizeof p->part[i].turned);
    if (!e && bias)
        e = lt.product_set(h->product, CUBLASLT_PRODUCT_BIAS, &bias, sizeof bias);
    return e ? e : lt.product_set(h->product, CUBLASLT_PRODUCT_EPILOGUE, &p->epilogue, sizeof p->epilogue);
}

/* ---- algorithms */

/* Not the ones that add up parts of a sum in half types. */
static int ask_heuristic(void *handle, const struct blas_product *p, const struct blas_handles *h,
                         struct cublaslt_choice *c)
{
    uint64_t most = (uint64_t)32 << 20;
    uint32_t reductions = CUBLASLT_REDUCE_IN_COMPUTE_TYPE;
    void *preference = NULL;
    int found = 0, e = lt.preference_create(&preference);
    if (!e)
        e = lt.preference_set(preference, CUBLASLT_PREFER_WORKSPACE, &most, sizeof most);
    if (!e)
        e = lt.preference_set(preference, CUBLASLT_PREFER_REDUCTIONS, &reductions, sizeof reductions);
    for (int i = 0; i < PARTS && !e; i++)
        e = lt.preference_set(preference, CUBLASLT_PREFER_ALIGNMENT + i, &p->part[i].alignment,
                              sizeof p->part[i].alignment);
    if (!e)
        e = lt.heuristic(handle, h->product, h->layout[FIRST], h->layout[SECOND], h->layout[PLUS], h->layout[RESULT],
                         preference, 1, c, &found);
    if (preference)
        lt.preference_destroy(preference);
    return e ? e : found < 1 ? CUBLAS_STATUS_NOT_SUPPORTED : c->status;
}

/* Choices so far, each at a place that follows from the product: a newer one takes that of an older one. */
enum { CHOICES = 512 };
static struct choice {
    struct blas_product of;
    struct cublaslt_choice it;
    bool works; /* it has been queued */
} choices[CHOICES];
LOCK(choosing, LOCK_LEAF);

static size_t place_of(const struct blas_product *p)
{
    return (size_t)(hash_bytes(HASH_START, p, sizeof *p) >> 32) % CHOICES;
}

/* false, with the product and nothing else: none is there. */
static bool find_choice(const struct blas_product *p, struct choice *c)
{
    size_t i = place_of(p);
    lock_take(&choosing);
    bool there = !memcmp(&choices[i].of, p, sizeof *p);
    if (there)
        *c = choices[i];
    lock_give(&choosing);
    if (!there)
        *c = (struct choice){ .of = *p };
    return there;
}

/* Of one that there is no algorithm for, the status says so. */
static void keep_choice(const struct choice *c)
{
    size_t i = place_of(&c->of);
    lock_take(&choosing);
    choices[i] = *c;
    lock_give(&choosing);
}

/* Is it one that our kernels do instead? */
static bool is_declined(int status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH || status == CUBLAS_STATUS_ALLOC_FAILED;
}

/* ---- opening, once for each GPU */

enum state { UNKNOWN, WORKS, UNUSED };
static struct blas {
    void *handle;
    enum state state;
} blas[MAX_GPUS];

static const struct cuda_function functions[] = {
#define LT(name, symbol, args) { symbol, (void **)&lt.name, false },
#include "cuda/cublaslt.def"
};
static struct cuda_functions library = { CUDA_cublasLt, functions, sizeof functions / sizeof *functions, CUDA_UNKNOWN };

enum { SIDE = 16, AREA = SIDE * SIDE };

/* A product of ones and twos, to see whether this version of it works with this driver. */
static int multiply_twos(struct blas *b, const struct gpu *g, void *stream, uint64_t at, float result[AREA])
{
    struct blas_product p;
    struct blas_handles h = { 0 };
    struct cublaslt_choice c = { 0 };
    float ones[2 * AREA], one = 1, zero = 0;
    const void *x = (const void *)at, *y = (const float *)at + AREA;
    void *z = (float *)at + 2 * AREA;
    for (int i = 0; i < 2 * AREA; i++) ones[i] = i < AREA ? 1 : 2;
    memset(&p, 0, sizeof p);
    p.gpu = g->number;
    p.type = CUDA_R_32F;
    p.compute = CUBLAS_COMPUTE_32F;
    p.epilogue = CUBLASLT_EPILOGUE_NONE;
    p.m = p.n = p.k = SIDE;
    p.batches = 1;
    for (int i = 0; i < PARTS; i++) p.part[i] = (struct blas_part){ SIDE, 0, 0, 256 };
    int e = cu.copy_to_device(at, ones, sizeof ones, stream) ? CUBLAS_STATUS_MAPPING_ERROR : open_product(&h, &p, NULL);
    if (!e)
        e = ask_heuristic(b->handle, &p, &h, &c);
    if (!e && c.workspace)
        e = CUBLAS_STATUS_NOT_SUPPORTED; /* so small a product needs none */
    if (!e)
        e = lt.matmul(b->handle, h.product, &one, x, h.layout[FIRST], y, h.layout[SECOND], &zero, z, h.layout[PLUS], z,
                      h.layout[RESULT], &c.algorithm, NULL, 0, stream);
    close_product(&h);
    bool read = !e && !cu.copy_to_host(result, at + sizeof ones, AREA * sizeof *result, stream);
    return e ? e : read && !cu.stream_wait(stream) ? 0 : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* NULL: it works. */
static const char *trial(struct blas *b, const struct gpu *g)
{
    void *stream = NULL;
    uint64_t at = 0;
    float result[AREA] = { 0 };
    int e = lt.create(&b->handle);
    if (e)
        return status_text(e);
    e = CUBLAS_STATUS_ALLOC_FAILED;
    if (!cu.stream_create(&stream, CUDA_STREAM_NON_BLOCKING) && !cu.memory_alloc(&at, 3 * AREA * sizeof(float)))
        e = multiply_twos(b, g, stream, at, result);
    if (at)
        cu.memory_free(at);
    if (stream)
        cu.stream_destroy(stream);
    for (int i = 0; i < AREA && !e; i++)
        if (result[i] != 2 * SIDE)
            return "a wrong product";
    return e ? status_text(e) : NULL;
}

LOCK(trying, LOCK_DEVICE);

/* NULL: our kernels do all. */
static struct blas *blas_of(const struct gpu *g)
{
    struct blas *b = &blas[g->number];
    if (!cuda_find(&library))
        return NULL;
    lock_take(&trying);
    if (b->state == UNKNOWN)
        b->state = cuda_tried(CUDA_cublasLt, NULL, g->number, trial(b, g)) ? WORKS : UNUSED;
    lock_give(&trying);
    return b->state == WORKS ? b : NULL;
}

bool blas_works(const struct gpu *g) { return blas_of(g); }

/* ---- ours */

/* The largest power of two that divides address and steps in bytes, 256 at most. */
static uint32_t alignment_of(const void *p, int64_t steps, size_t size)
{
    uint64_t any = (uint64_t)p | (uint64_t)steps * size | 256;
    return (uint32_t)(any & -any);
}

/* Does it have such rows, or such columns?  Of c, which it does not turn, rows. */
static bool fits(struct blas_part *o, struct product_steps s, int64_t rows, int64_t columns, bool turns)
{
    bool by_rows = s.column == 1 && s.row >= columns;
    o->turned = !by_rows;
    o->step = by_rows ? s.row : s.column;
    return by_rows || (turns && s.row == 1 && s.column >= rows);
}

static int type_of(enum dtype t)
{
    switch (t) {
    case DT_float32: return CUDA_R_32F;
    case DT_float16: return CUDA_R_16F;
    case DT_bfloat16: return CUDA_R_16BF;
    default: return -1;
    }
}

/* c is one row for all, to be added as it is. */
static bool is_bias(const struct product_plan *p, double beta)
{
    bool one = beta == 1 && p->steps[2].row == 0 && p->steps[2].column == 1;
    for (int d = 0; d < p->ndim; d++) one &= p->batch[2][d] == 0;
    return one;
}

/* What is queued: matrices of the longest axis of the batch at once, those of the others one after the other. */
struct blas_work {
    struct blas_product product;
    const void *part[PARTS], *bias;
    int axis; /* -1: one */
    int64_t times;
};
enum { MOST_TIMES = 64, LEAST_WORK = 1 << 16 };

static bool plan_work(struct blas_work *w, const struct run *r, const struct product_plan *p, const mx x[],
                      const struct blas_terms *terms)
{
    mx y = r->y[0];
    struct blas_product *o = &w->product;
    const mx operand[PARTS] = { x[1], x[0], r->nin > 2 ? x[2] : NULL, y };
    const int which[PARTS] = { 1, 0, 2, -1 };
    size_t size = itemsize(y);
    int type = type_of((enum dtype)y->dtype);
    memset(w, 0, sizeof *w);
    if (type < 0 || least(p->m, p->n) < 2 || p->k < 2 || y->size * p->k < LEAST_WORK ||
        (operand[PLUS] && terms->beta == 0))
        return false;
    w->axis = -1;
    for (int d = 0; d < p->ndim; d++)
        if (p->shape[d] > 1 && (w->axis < 0 || p->shape[d] > p->shape[w->axis]))
            w->axis = d;
    o->gpu = gpu_of(r)->number;
    o->type = type;
    o->compute = type == CUDA_R_32F && gpu_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    o->epilogue = terms->relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_NONE;
    o->m = p->m;
    o->n = p->n;
    o->k = p->k;
    o->batches = w->axis < 0 ? 1 : p->shape[w->axis];
    w->times = y->size / (p->m * p->n * o->batches);
    if (w->times > MOST_TIMES || !fits(&o->part[FIRST], p->steps[1], p->k, p->n, true) ||
        !fits(&o->part[SECOND], p->steps[0], p->m, p->k, true))
        return false;
    o->part[RESULT].step = p->n;
    if (operand[PLUS] && is_bias(p, terms->beta)) {
        o->epilogue = terms->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
        w->bias = gpu_pointer(r, operand[PLUS]);
        o->bias = alignment_of(w->bias, 0, size);
    } else if (operand[PLUS] && !fits(&o->part[PLUS], p->steps[2], p->m, p->n, false)) {
        return false;
    }
    int64_t inside = p->m * p->n; /* of y: from matrix to matrix of the axis */
    for (int d = w->axis + 1; d < p->ndim && w->axis >= 0; d++) inside *= p->shape[d];
    for (int i = 0; i < PARTS; i++) {
        struct blas_part *q = &o->part[i];
        int64_t any = q->step;
        if (!operand[i] || (i == PLUS && w->bias))
            continue;
        w->part[i] = gpu_pointer(r, operand[i]);
        q->batch = w->axis < 0 ? 0 : which[i] < 0 ? inside : p->batch[which[i]][w->axis];
        for (int d = 0; d < p->ndim; d++)
            if (p->shape[d] > 1) /* others have any step */
                any |= which[i] < 0 ? p->m * p->n : p->batch[which[i]][d];
        if (q->batch < 0)
            return false;
        q->alignment = alignment_of(w->part[i], any, size);
    }
    if (!w->part[PLUS]) { /* y itself, times nothing */
        o->part[PLUS] = o->part[RESULT];
        w->part[PLUS] = w->part[RESULT];
    }
    return true;
}

/* Elements from the first matrix of an operand to those of the n-th time. */
static int64_t offset_of(const struct product_plan *p, const struct blas_work *w, int64_t n, const int64_t *steps)
{
    int64_t offset = 0;
    for (int d = p->ndim - 1; d >= 0; d--)
        if (d != w->axis) {
            offset += n % p->shape[d] * steps[d];
            n /= p->shape[d];
        }
    return offset;
}

static const void *part_at(const struct product_plan *p, const struct blas_work *w, int64_t n, int i, mx of, int which)
{
    int64_t steps[MX_MAX_NDIM], step = p->m * p->n;
    for (int d = p->ndim - 1; d >= 0; step *= p->shape[d], d--) steps[d] = step;
    return (const char *)w->part[i] + offset_of(p, w, n, which < 0 ? steps : p->batch[which]) * (int64_t)itemsize(of);
}

/* One call of the library, and all that it depends on. */
struct blas_call {
    struct blas_product product;
    struct cublaslt_algorithm algorithm;
    const void *first, *second, *plus, *bias;
    void *result, *workspace;
    size_t workspace_bytes;
    float by, times_plus;
};

static int call(struct blas *b, const struct blas_handles *h, const struct blas_call *c, void *stream)
{
    return lt.matmul(b->handle, h->product, &c->by, c->first, h->layout[FIRST], c->second, h->layout[SECOND],
                     &c->times_plus, c->plus, h->layout[PLUS], c->result, h->layout[RESULT], &c->algorithm,
                     c->workspace, c->workspace_bytes, stream);
}

static int call_later(struct gpu *g, const void *what, void *stream)
{
    const struct blas_call *c = what;
    struct blas_handles h = { 0 };
    int e = open_product(&h, &c->product, c->bias);
    if (!e)
        e = call(&blas[g->number], &h, c, stream);
    close_product(&h);
    return e ? CUDA_OTHER_ERROR : 0;
}

static int call_now(struct gpu_stream *q, struct blas *b, struct blas_handles *h, const struct blas_call *c)
{
    int e = h->product ? 0 : open_product(h, &c->product, c->bias);
    if (e)
        return e;
    void *stream = gpu_library_begin(q);
    e = call(b, h, c, stream);
    gpu_library_end(q);
    return e;
}

static int queue_work(const struct run *r, const struct product_plan *p, const struct blas_work *w, struct blas *b,
                      struct blas_handles *h, const struct choice *known, void *workspace,
                      const struct blas_terms *terms)
{
    struct gpu_stream *q = gpu_stream(r->stream);
    struct blas_call c;
    mx y = r->y[0];
    int e = 0;
    memset(&c, 0, sizeof c); /* between its members too */
    c.product = w->product;
    c.algorithm = known->it.algorithm;
    c.bias = w->bias;
    c.workspace = workspace;
    c.workspace_bytes = known->it.workspace;
    c.by = (float)terms->alpha;
    c.times_plus = r->nin > 2 && !w->bias ? (float)terms->beta : 0;
    for (int64_t n = 0; n < w->times && !e; n++) {
        c.first = part_at(p, w, n, FIRST, y, 1);
        c.second = part_at(p, w, n, SECOND, y, 0);
        c.result = (void *)part_at(p, w, n, RESULT, y, -1);
        c.plus = c.times_plus != 0 ? part_at(p, w, n, PLUS, y, 2) : c.result;
        if (!known->works || !gpu_queue_library(q, call_later, &c, sizeof c))
            e = call_now(q, b, h, &c);
        if (e && n > 0 && is_declined(e))
            e = CUBLAS_STATUS_INTERNAL_ERROR; /* a part of it is queued */
    }
    return e;
}

static atomic_bool multiplies;
bool gpu_blas_multiplies(void) { return atomic_load_explicit(&multiplies, memory_order_relaxed); }

enum blas_outcome gpu_blas_product(const struct run *r, const struct product_plan *p, const mx x[],
                                   const struct blas_terms *terms)
{
    struct blas_work w;
    struct blas *b = NULL;
    struct blas_handles h = { 0 };
    struct choice c;
    struct buffer *workspace = NULL;
    if (!plan_work(&w, r, p, x, terms) || !(b = blas_of(gpu_of(r))))
        return BLAS_DECLINED;
    bool known = find_choice(&w.product, &c);
    int e = known ? c.it.status : open_product(&h, &w.product, w.bias);
    if (!e && !known) {
        e = c.it.status = ask_heuristic(b->handle, &w.product, &h, &c.it);
        keep_choice(&c);
    }
    if (!e && c.it.workspace) {
        workspace = buffer_new_on(r->stream, c.it.workspace);
        if (!workspace) {
            mx_error_clear();
            e = CUBLAS_STATUS_ALLOC_FAILED;
        }
    }
    if (!e)
        e = queue_work(r, p, &w, b, &h, &c, workspace ? buffer_on(workspace, r->stream) : NULL, terms);
    if (workspace)
        buffer_release(workspace);
    close_product(&h);
    if (!e) {
        if (!c.works) {
            c.works = true;
            keep_choice(&c);
        }
        atomic_store_explicit(&multiplies, true, memory_order_relaxed);
        return BLAS_DONE;
    }
    if (is_declined(e)) {
        if (e != CUBLAS_STATUS_ALLOC_FAILED && !c.it.status) { /* not again */
            c.it.status = e;
            keep_choice(&c);
        }
        return BLAS_DECLINED;
    }
    mx_fail_as(MX_RUNTIME, "[%s] cuBLASLt failed with %s; MLX_CUDA_LIBRARIES=0 in the environment does without it",
               r->node->op->name, status_text(e));
    return BLAS_FAILED;
}
