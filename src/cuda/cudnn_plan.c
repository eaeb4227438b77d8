/* cudnn_plan.c: see cudnn_plan.h.
 *
 * A convolution is a graph of one operation: itself, or its derivative by the input or by the weights.  The engines
 * that cuDNN names for it are asked in their order, and the first that will do is its plan. */
#include "cuda/cudnn_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/memory.h"
#include "core/settings.h"
#include "core/sizes.h"
#include "cuda/gpu.h"

enum {
    PLANS = 256,  /* that are kept: more than a large network has in a step of training */
    CONFIGS = 64, /* that are tried for one */
};
/* More memory than that is not given for speed. */
static const int64_t MOST_WORKSPACE = (int64_t)1 << 30;

void dnn_set_steps(struct dnn_conv *c)
{
    for (int i = 0; i < PARTS; i++) {
        struct dnn_part *p = &c->part[i];
        int64_t step = p->size[1];
        p->step[1] = 1;
        for (int k = FIRST_AXIS + c->axes - 1; k >= FIRST_AXIS; step *= p->size[k--]) p->step[k] = step;
        p->step[0] = step;
    }
}

/* ---- descriptors */

/* Descriptors, those that others are made of too; after the first failure nothing more is done. */
struct made {
    void *it[8];
    int n, status;
};

static void *begin(struct made *m, int kind)
{
    void *d = NULL;
    if (!m->status)
        m->status = dnn.make(kind, &d);
    return m->status ? NULL : (m->it[m->n++] = d);
}

static void set(struct made *m, void *d, int what, int type, int64_t n, const void *v)
{
    if (!m->status)
        m->status = dnn.set(d, what, type, n, v);
}

static void set_number(struct made *m, void *d, int what, int64_t v) { set(m, d, what, CUDNN_IS_INT64, 1, &v); }

static void finish(struct made *m, void *d)
{
    if (!m->status)
        m->status = dnn.finish(d);
}

static void destroy_all(struct made *m)
{
    while (m->n > 0) dnn.destroy(m->it[--m->n]);
}

/* Names of tensors in a graph. */
static int64_t id_of(int part) { return part + 1; }

static void *describe_tensor(struct made *m, const struct dnn_conv *c, int part)
{
    const struct dnn_part *p = &c->part[part];
    int n = FIRST_AXIS + c->axes;
    void *d = begin(m, CUDNN_TENSOR);
    set_number(m, d, CUDNN_TENSOR_ID, id_of(part));
    set_number(m, d, CUDNN_TENSOR_ALIGNMENT, p->alignment);
    set(m, d, CUDNN_TENSOR_TYPE, CUDNN_IS_TYPE, 1, &c->type);
    set(m, d, CUDNN_TENSOR_SIZES, CUDNN_IS_INT64, n, p->size);
    set(m, d, CUDNN_TENSOR_STRIDES, CUDNN_IS_INT64, n, p->step);
    finish(m, d);
    return d;
}

static void *describe_geometry(struct made *m, const struct dnn_conv *c)
{
    const int mode = CUDNN_CROSS_CORRELATION, sums = CUDNN_FLOAT;
    void *d = begin(m, CUDNN_CONV);
    set_number(m, d, CUDNN_CONV_AXES, c->axes);
    set(m, d, CUDNN_CONV_TYPE, CUDNN_IS_TYPE, 1, &sums);
    set(m, d, CUDNN_CONV_MODE, CUDNN_IS_CONV_MODE, 1, &mode);
    set(m, d, CUDNN_CONV_DILATIONS, CUDNN_IS_INT64, c->axes, c->dilation);
    set(m, d, CUDNN_CONV_STRIDES, CUDNN_IS_INT64, c->axes, c->stride);
    set(m, d, CUDNN_CONV_BEFORE, CUDNN_IS_INT64, c->axes, c->before);
    set(m, d, CUDNN_CONV_BEHIND, CUDNN_IS_INT64, c->axes, c->behind);
    finish(m, d);
    return d;
}

static void *describe_operation(struct made *m, const struct dnn_conv *c)
{
    static const int kinds[] = { CUDNN_FORWARD, CUDNN_BY_INPUT, CUDNN_BY_WEIGHTS };
    static const int first[] = { CUDNN_OF_FORWARD, CUDNN_OF_BY_INPUT, CUDNN_OF_BY_WEIGHTS };
    static const int which[PARTS] = { [X] = CUDNN_X, [W] = CUDNN_W, [Y] = CUDNN_Y };
    const float one = 1, zero = 0;
    int at = first[c->kind];
    void *parts[PARTS], *geometry = describe_geometry(m, c);
    for (int i = 0; i < PARTS; i++) parts[i] = describe_tensor(m, c, i);
    void *d = begin(m, kinds[c->kind]);
    set(m, d, at + CUDNN_GEOMETRY, CUDNN_IS_DESCRIPTOR, 1, &geometry);
    for (int i = 0; i < PARTS; i++) set(m, d, at + which[i], CUDNN_IS_DESCRIPTOR, 1, &parts[i]);
    set(m, d, at + CUDNN_ALPHA, CUDNN_IS_FLOAT, 1, &one);
    set(m, d, at + CUDNN_BETA, CUDNN_IS_FLOAT, 1, &zero);
    finish(m, d);
    return d;
}

static void *describe_graph(struct made *m, const struct dnn_conv *c, void *handle)
{
    void *operation = describe_operation(m, c), *d = begin(m, CUDNN_GRAPH);
    set(m, d, CUDNN_GRAPH_HANDLE, CUDNN_IS_HANDLE, 1, &handle);
    set(m, d, CUDNN_GRAPH_OPERATIONS, CUDNN_IS_DESCRIPTOR, 1, &operation);
    finish(m, d);
    return d;
}

/* ---- plans */

/* ---- plans */

struct dnn_plan {
    struct dnn_conv of;
    struct made made;
    void *it; /* NULL: our kernels do it */
    int64_t workspace;
    int users; /* the table is one */
};

/* An engine's number, and what its numbers are like, a bit for each note. */
struct engine {
    int64_t number;
    uint32_t notes;
};

static int ask_engine(void *config, struct engine *e)
{
    struct made m = { 0 };
    int notes[CUDNN_NOTES];
    int64_t n = 0;
    void *d = begin(&m, CUDNN_ENGINE);
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

/* The same bits each time; sums of half types in float32; of float32 all bits, unless it is said that they need not
 * be; and products as they are: what transforms tiles, as Winograd's algorithm does, has ten times the error, and makes
 * neighbours of what is not finite NaN. */
static bool is_welcome(const struct engine *e, int type)
{
    const uint32_t rounded = 1 << CUDNN_NOTE_TENSOR_CORE | 1 << CUDNN_NOTE_DOWN_CONVERTED;
    uint32_t never = 1 << CUDNN_NOTE_NONDETERMINISTIC | 1 << CUDNN_NOTE_REDUCED_SUMS | CUDNN_NOTES_OF_TRANSFORMS;
    if (type == CUDNN_FLOAT && !gpu_tf32())
        never |= rounded;
    return !(e->notes & never);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void tell(const struct dnn_plan *p, const struct engine *e, double since)
{
    static const char *const kinds[] = { "a convolution", "one's derivative by the input",
                                         "one's derivative by the weights" };
    static const char *const types[] = {
        [CUDNN_FLOAT] = "float32", [CUDNN_HALF] = "float16", [CUDNN_BFLOAT16] = "bfloat16"
    };
    char shapes[2][96];
    for (int i = 0; i < 2; i++) {
        int n = 0;
        for (int k = 0; k < FIRST_AXIS + p->of.axes; k++)
            n += snprintf(shapes[i] + n, sizeof shapes[i] - (size_t)n, "%s%lld", k ? ", " : "",
                          (long long)p->of.part[i].size[k]);
    }
    fprintf(stderr, "mlx: cudnn %s %s of %s, (%s) and (%s)", p->it ? "does" : "does not do", kinds[p->of.kind],
            types[p->of.type], shapes[X], shapes[W]);
    if (p->it)
        fprintf(stderr, ", with engine %lld, notes %#x, workspace %lld", (long long)e->number, (unsigned)e->notes,
                (long long)p->workspace);
    fprintf(stderr, "; asked for %.1f ms\n", now() - since);
}

/* Is there a plan of this configuration?  It is p's, then. */
static bool try_config(struct dnn_plan *p, void *handle, void *config)
{
    struct made m = { 0 };
    int64_t n = 0, bytes = 0;
    void *d = begin(&m, CUDNN_PLAN);
    set(&m, d, CUDNN_PLAN_HANDLE, CUDNN_IS_HANDLE, 1, &handle);
    set(&m, d, CUDNN_PLAN_CONFIG, CUDNN_IS_DESCRIPTOR, 1, &config);
    finish(&m, d);
    if (!m.status)
        m.status = dnn.get(d, CUDNN_PLAN_WORKSPACE, CUDNN_IS_INT64, 1, &n, &bytes);
    if (m.status || bytes > MOST_WORKSPACE) {
        destroy_all(&m);
        return false;
    }
    p->it = d;
    p->workspace = bytes;
    return true;
}

/* The first of those that a heuristic names that will do; it stays, behind what it was made of. */
static void ask_heuristic(struct dnn_plan *p, void *handle, void *graph, int mode, struct engine *e)
{
    struct made m = { 0 };
    void *configs[CONFIGS], *d = begin(&m, CUDNN_HEURISTIC);
    int64_t n = 0, ready = 0;
    set(&m, d, CUDNN_HEURISTIC_GRAPH, CUDNN_IS_DESCRIPTOR, 1, &graph);
    set(&m, d, CUDNN_HEURISTIC_MODE, CUDNN_IS_HEURISTIC, 1, &mode);
    finish(&m, d);
    if (!m.status)
        m.status = dnn.get(d, CUDNN_HEURISTIC_RESULTS, CUDNN_IS_DESCRIPTOR, 0, &n, NULL);
    n = least(n, CONFIGS);
    while (!m.status && ready < n)
        if (!(m.status = dnn.make(CUDNN_CONFIG, &configs[ready])))
            ready++;
    if (!m.status && n > 0)
        m.status = dnn.get(d, CUDNN_HEURISTIC_RESULTS, CUDNN_IS_DESCRIPTOR, n, &n, configs);
    for (int64_t i = 0; i < least(n, ready) && !m.status && !p->it; i++)
        if (!ask_engine(configs[i], e) && is_welcome(e, p->of.type) && try_config(p, handle, configs[i])) {
            p->made.it[p->made.n++] = configs[i];
            p->made.it[p->made.n++] = p->it;
            configs[i] = NULL;
        }
    for (int64_t i = 0; i < ready; i++)
        if (configs[i])
            dnn.destroy(configs[i]);
    destroy_all(&m);
}

static struct dnn_plan *make_plan(const struct dnn_conv *c, void *handle)
{
    struct engine e = { 0 };
    double since = now();
    struct dnn_plan *p = mx_try_malloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (struct dnn_plan){ .of = *c, .users = 1 };
    struct made graph = { 0 };
    void *d = describe_graph(&graph, c, handle);
    p->made = graph;
    if (!graph.status)
        ask_heuristic(p, handle, d, CUDNN_HEURISTIC_A, &e);
    if (!graph.status && !p->it)
        ask_heuristic(p, handle, d, CUDNN_HEURISTIC_FALLBACK, &e);
    if (!p->it)
        destroy_all(&p->made);
    if (is_logged(LOG_LIBRARIES))
        tell(p, &e, since);
    return p;
}

void dnn_release(struct dnn_plan *p)
{
    if (--p->users)
        return;
    destroy_all(&p->made);
    free(p);
}

/* The plans so far; the one that was used longest ago goes. */
static struct {
    struct dnn_plan *plan;
    uint64_t hash, used;
} plans[PLANS];
static uint64_t plans_used;

static uint64_t hash_of(const struct dnn_conv *c)
{
    const unsigned char *bytes = (const void *)c;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *c; i++) h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

struct dnn_plan *dnn_plan_of(const struct dnn_conv *c, void *handle)
{
    uint64_t hash = hash_of(c);
    int oldest = 0, i = 0;
    for (; i < PLANS; i++) {
        if (plans[i].plan && plans[i].hash == hash && !memcmp(&plans[i].plan->of, c, sizeof *c))
            break;
        if (plans[i].used < plans[oldest].used)
            oldest = i;
    }
    if (i == PLANS) {
        struct dnn_plan *p = make_plan(c, handle);
        if (!p)
            return NULL;
        i = oldest;
        if (plans[i].plan)
            dnn_release(plans[i].plan);
        plans[i].plan = p;
        plans[i].hash = hash;
    }
    plans[i].used = ++plans_used;
    plans[i].plan->users++;
    return plans[i].plan;
}

int dnn_queue(const struct dnn_plan *p, void *handle, void *stream, void *const at[PARTS], void *workspace)
{
    struct made m = { 0 };
    const int64_t ids[PARTS] = { id_of(X), id_of(W), id_of(Y) };
    void *d = begin(&m, CUDNN_PACK);
    set(&m, d, CUDNN_PACK_POINTERS, CUDNN_IS_POINTER, PARTS, at);
    set(&m, d, CUDNN_PACK_IDS, CUDNN_IS_INT64, PARTS, ids);
    set(&m, d, CUDNN_PACK_WORKSPACE, CUDNN_IS_POINTER, 1, &workspace);
    finish(&m, d);
    if (!m.status)
        m.status = dnn.set_stream(handle, stream);
    if (!m.status)
        m.status = p->it ? dnn.execute(handle, p->it, d) : DNN_UNUSED;
    destroy_all(&m);
    return m.status;
}

bool dnn_does(const struct dnn_plan *p, int64_t *workspace)
{
    *workspace = p->workspace;
    return p->it != NULL;
}

void dnn_give_up(struct dnn_plan *p) { p->it = NULL; }
