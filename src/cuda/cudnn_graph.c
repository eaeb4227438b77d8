/* cudnn_graph.c: see cudnn_graph.h.  The engines that cuDNN names for a graph are asked in their order, and the first
 * that will do is its plan. */
#include "cuda/cudnn_graph.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/settings.h"
#include "core/sizes.h"
#include "cuda/gpu.h"
#include "cuda/libraries.h"

enum {
    PLANS = 256,  /* that are kept: more than a large network has in a step of training */
    CONFIGS = 64, /* that are tried for one */
};
/* More memory than that is not given for speed. */
static const int64_t MOST_WORKSPACE = (int64_t)1 << 30;

/* ---- descriptors */

void *dnn_begin(struct dnn_made *m, int kind)
{
    void *d = NULL;
    if (!m->status && m->n == DNN_DESCRIPTORS)
        m->status = DNN_UNUSED;
    if (!m->status)
        m->status = dnn.make(kind, &d);
    return m->status ? NULL : (m->it[m->n++] = d);
}

void dnn_set(struct dnn_made *m, void *d, int what, int type, int64_t n, const void *v)
{
    if (!m->status)
        m->status = dnn.set(d, what, type, n, v);
}

void dnn_set_number(struct dnn_made *m, void *d, int what, int64_t v) { dnn_set(m, d, what, CUDNN_IS_INT64, 1, &v); }
void dnn_set_part(struct dnn_made *m, void *d, int what, void *p) { dnn_set(m, d, what, CUDNN_IS_DESCRIPTOR, 1, &p); }

void dnn_finish(struct dnn_made *m, void *d)
{
    if (!m->status)
        m->status = dnn.finish(d);
}

static void destroy_all(struct dnn_made *m)
{
    while (m->n > 0) dnn.destroy(m->it[--m->n]);
}

void *dnn_tensor(struct dnn_made *m, const struct dnn_tensor *t)
{
    const bool yes = true;
    void *d = dnn_begin(m, CUDNN_TENSOR);
    dnn_set_number(m, d, CUDNN_TENSOR_ID, t->id);
    dnn_set_number(m, d, CUDNN_TENSOR_ALIGNMENT, t->alignment);
    dnn_set(m, d, CUDNN_TENSOR_TYPE, CUDNN_IS_TYPE, 1, &t->type);
    dnn_set(m, d, CUDNN_TENSOR_SIZES, CUDNN_IS_INT64, t->n, t->size);
    dnn_set(m, d, CUDNN_TENSOR_STRIDES, CUDNN_IS_INT64, t->n, t->step);
    if (t->is_virtual)
        dnn_set(m, d, CUDNN_TENSOR_VIRTUAL, CUDNN_IS_BOOL, 1, &yes);
    if (t->by_value)
        dnn_set(m, d, CUDNN_TENSOR_BY_VALUE, CUDNN_IS_BOOL, 1, &yes);
    dnn_finish(m, d);
    return d;
}

static void *describe_graph(struct dnn_made *m, const struct dnn_kind *kind, const void *of, void *handle)
{
    void *operations[DNN_OPERATIONS];
    int n = kind->describe(m, of, operations);
    void *d = dnn_begin(m, CUDNN_GRAPH);
    dnn_set(m, d, CUDNN_GRAPH_HANDLE, CUDNN_IS_HANDLE, 1, &handle);
    dnn_set(m, d, CUDNN_GRAPH_OPERATIONS, CUDNN_IS_DESCRIPTOR, n, operations);
    dnn_finish(m, d);
    return d;
}

/* ---- plans */

/* An engine's number, and what its numbers are like, a bit for each note. */
struct engine {
    int64_t number;
    uint32_t notes;
};

struct dnn_plan {
    const struct dnn_kind *kind;
    struct dnn_made made;
    void *it; /* NULL: our kernels do it */
    int64_t workspace;
    int users; /* the table is one */
    struct cuda_work work;
    int64_t patience;
    bool asked;
    int named; /* engines that were asked, the last of them: */
    struct engine engine;
    unsigned char of[];
};

static int ask_engine(void *config, struct engine *e)
{
    struct dnn_made m = { 0 };
    int notes[CUDNN_NOTES];
    int64_t n = 0;
    void *d = dnn_begin(&m, CUDNN_ENGINE);
    *e = (struct engine){ 0 };
    if (!m.status)
        m.status = dnn.get(config, CUDNN_CONFIG_ENGINE, CUDNN_IS_DESCRIPTOR, 1, &n, &d);
    if (!m.status)
        m.status = dnn.get(d, CUDNN_ENGINE_NUMBER, CUDNN_IS_INT64, 1, &n, &e->number);
    if (!m.status)
        m.status = dnn.get(d, CUDNN_ENGINE_NOTES, CUDNN_IS_NOTE, CUDNN_NOTES, &n, notes);
    for (int i = 0; i < n && i < CUDNN_NOTES && !m.status; i++) e->notes |= (uint32_t)1 << (notes[i] & 31);
    destroy_all(&m);
    return m.status;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void tell(const struct dnn_plan *p, int status, double since)
{
    const struct engine *e = &p->engine;
    fprintf(stderr, "mlx: cudnn %s ", p->it ? "does" : "does not do");
    p->kind->name(p->of, stderr);
    if (p->it)
        fprintf(stderr, ", with engine %lld, notes %#x, workspace %lld", (long long)e->number, (unsigned)e->notes,
                (long long)p->workspace);
    else if (status)
        fprintf(stderr, ", which is no graph of its: %s",
                status == DNN_UNUSED  ? "too large"
                : status == DNN_WRONG ? "this version is said to do it wrongly"
                                      : dnn.status_text(status));
    else
        fprintf(stderr, ", %d engines named, the last %lld, notes %#x, workspace asked for %lld", p->named,
                (long long)e->number, (unsigned)e->notes, (long long)p->workspace);
    fprintf(stderr, "; asked for %.1f ms\n", now() - since);
}

/* Is there a plan of this configuration?  It is p's, then. */
static bool try_config(struct dnn_plan *p, void *handle, void *config)
{
    struct dnn_made m = { 0 };
    int64_t n = 0, bytes = 0;
    void *d = dnn_begin(&m, CUDNN_PLAN);
    dnn_set(&m, d, CUDNN_PLAN_HANDLE, CUDNN_IS_HANDLE, 1, &handle);
    dnn_set_part(&m, d, CUDNN_PLAN_CONFIG, config);
    dnn_finish(&m, d);
    if (!m.status)
        m.status = dnn.get(d, CUDNN_PLAN_WORKSPACE, CUDNN_IS_INT64, 1, &n, &bytes);
    p->workspace = bytes;
    if (m.status || bytes > MOST_WORKSPACE) {
        destroy_all(&m);
        return false;
    }
    p->it = d;
    return true;
}

/* Is an engine one that will do, by its notes? */
static bool is_welcome(struct dnn_plan *p, void *config)
{
    if (ask_engine(config, &p->engine))
        return false;
    p->named++;
    return !(p->engine.notes & p->kind->never(p->of));
}

/* The first of those that a heuristic names that will do; it stays, behind what it was made of. */
static void ask_heuristic(struct dnn_plan *p, void *handle, void *graph, int mode)
{
    struct dnn_made m = { 0 };
    void *configs[CONFIGS], *d = dnn_begin(&m, CUDNN_HEURISTIC);
    int64_t n = 0, ready = 0;
    dnn_set_part(&m, d, CUDNN_HEURISTIC_GRAPH, graph);
    dnn_set(&m, d, CUDNN_HEURISTIC_MODE, CUDNN_IS_HEURISTIC, 1, &mode);
    dnn_finish(&m, d);
    if (!m.status)
        m.status = dnn.get(d, CUDNN_HEURISTIC_RESULTS, CUDNN_IS_DESCRIPTOR, 0, &n, NULL);
    n = least(n, CONFIGS);
    while (!m.status && ready < n)
        if (!(m.status = dnn.make(CUDNN_CONFIG, &configs[ready])))
            ready++;
    if (!m.status && n > 0)
        m.status = dnn.get(d, CUDNN_HEURISTIC_RESULTS, CUDNN_IS_DESCRIPTOR, n, &n, configs);
    for (int64_t i = 0; i < least(n, ready) && !m.status && !p->it; i++)
        if (is_welcome(p, configs[i]) && try_config(p, handle, configs[i])) {
            p->made.it[p->made.n++] = configs[i];
            p->made.it[p->made.n++] = p->it;
            configs[i] = NULL;
        }
    for (int64_t i = 0; i < ready; i++)
        if (configs[i])
            dnn.destroy(configs[i]);
    destroy_all(&m);
}

static struct dnn_plan *make_plan(const struct dnn_kind *kind, const void *of)
{
    struct dnn_plan *p = mx_try_malloc(sizeof *p + kind->bytes);
    if (!p)
        return NULL;
    *p = (struct dnn_plan){ .kind = kind, .users = 1, .patience = kind->patience ? kind->patience(of) : 0 };
    memcpy(p->of, of, kind->bytes);
    return p;
}

static void ask(struct dnn_plan *p, void *handle)
{
    double since = now();
    p->asked = true;
    if (p->kind->is_wrong && p->kind->is_wrong(p->of))
        p->made.status = DNN_WRONG;
    void *graph = describe_graph(&p->made, p->kind, p->of, handle);
    int status = p->made.status;
    if (!status && p->made.n > DNN_DESCRIPTORS - 2) /* a configuration and a plan are to follow */
        status = DNN_UNUSED;
    if (!status)
        ask_heuristic(p, handle, graph, CUDNN_HEURISTIC_A);
    if (!status && !p->it)
        ask_heuristic(p, handle, graph, CUDNN_HEURISTIC_FALLBACK);
    if (!p->it)
        destroy_all(&p->made);
    if (is_logged(LOG_LIBRARIES))
        tell(p, status, since);
}

void dnn_release(struct dnn_plan *p)
{
    if (--p->users)
        return;
    cuda_work_close(&p->work); /* a kernel that was compiled for it goes with it */
    destroy_all(&p->made);
    free(p);
}

/* The plans so far. */
static struct {
    struct dnn_plan *plan;
    uint64_t hash, used;
} plans[PLANS];
static uint64_t plans_used;

/* Those that were never asked for go first: what they have is a count. */
static bool is_older(int i, int than)
{
    bool asked = plans[i].plan && plans[i].plan->asked, others = plans[than].plan && plans[than].plan->asked;
    return asked != others ? others : plans[i].used < plans[than].used;
}

/* What is kept of it, which is made now if nothing is; NULL: no memory. */
static struct dnn_plan *find_plan(const struct dnn_kind *kind, const void *of)
{
    uint64_t hash = hash_bytes(HASH_START, of, kind->bytes);
    int oldest = 0, i = 0;
    for (; i < PLANS; i++) {
        const struct dnn_plan *p = plans[i].plan;
        if (p && plans[i].hash == hash && p->kind == kind && !memcmp(p->of, of, kind->bytes))
            break;
        if (is_older(i, oldest))
            oldest = i;
    }
    if (i == PLANS) {
        struct dnn_plan *p = make_plan(kind, of);
        if (!p)
            return NULL;
        i = oldest;
        if (plans[i].plan)
            dnn_release(plans[i].plan);
        plans[i].plan = p;
        plans[i].hash = hash;
    }
    plans[i].used = ++plans_used;
    return plans[i].plan;
}

struct dnn_plan *dnn_plan_of(const struct dnn_kind *kind, const void *of, void *handle)
{
    struct dnn_plan *p = find_plan(kind, of);
    if (!p)
        return NULL;
    if (!p->asked)
        ask(p, handle);
    p->users++;
    return p;
}

int dnn_queue(struct dnn_plan *p, void *handle, void *stream, int n, const int64_t ids[], void *const at[],
              void *workspace)
{
    struct dnn_made m = { 0 };
    void *d = dnn_begin(&m, CUDNN_PACK);
    dnn_set(&m, d, CUDNN_PACK_POINTERS, CUDNN_IS_POINTER, n, at);
    dnn_set(&m, d, CUDNN_PACK_IDS, CUDNN_IS_INT64, n, ids);
    dnn_set(&m, d, CUDNN_PACK_WORKSPACE, CUDNN_IS_POINTER, 1, &workspace);
    dnn_finish(&m, d);
    if (!m.status && !p->it)
        m.status = DNN_UNUSED;
    if (!m.status)
        m.status = dnn.set_stream(handle, stream);
    if (!m.status)
        m.status = dnn.execute(handle, p->it, d);
    destroy_all(&m);
    return m.status;
}

bool dnn_does(const struct dnn_plan *p, int64_t *workspace)
{
    *workspace = p->workspace;
    return p->it != NULL;
}

/* ---- for who has not taken cuDNN */

/* Do our kernels do it once more? */
static bool is_early(int gpu, const struct dnn_kind *kind, const void *of)
{
    if (!kind->patience)
        return false;
    cudnn_take(gpu);
    struct dnn_plan *p = find_plan(kind, of);
    bool early = !p || (!p->asked && p->patience > 0);
    if (early && p)
        p->patience--;
    cudnn_give();
    return early;
}

struct dnn_plan *dnn_plan_on(int gpu, const struct dnn_kind *kind, const void *of)
{
    if (is_early(gpu, kind, of) || !cudnn_works(gpu))
        return NULL;
    struct dnn_plan *p = dnn_plan_of(kind, of, cudnn_take(gpu));
    if (p && !p->it) {
        dnn_release(p);
        p = NULL;
    }
    cudnn_give();
    return p;
}

int dnn_run(const struct run *r, struct dnn_plan *p, int n, const int64_t ids[], void *const at[])
{
    struct gpu_stream *q = gpu_stream(r->stream);
    struct buffer *workspace = NULL;
    if (p->workspace && !(workspace = buffer_new_on(r->stream, (size_t)p->workspace)))
        return DNN_UNUSED;
    void *room = workspace ? buffer_on(workspace, r->stream) : NULL;
    void *stream = gpu_direct(q);
    void *handle = cudnn_take(q->gpu->number);
    int e = cuda_work_goes_on(&p->work, stream) ? DNN_UNUSED : dnn_queue(p, handle, stream, n, ids, at, room);
    if (cuda_work_ends(&p->work) && !e)
        e = DNN_UNUSED;
    cudnn_give();
    if (workspace)
        buffer_release(workspace);
    return e;
}

void dnn_let_go(int gpu, struct dnn_plan *p, bool failed)
{
    cudnn_take(gpu);
    if (failed)
        p->it = NULL; /* it goes with what it was made of */
    dnn_release(p);
    cudnn_give();
}
