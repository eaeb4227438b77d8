/* cudnn.c: convolutions by cuDNN.
 *
 * Each is a graph of one operation: a convolution, or its derivative by the input or by the weights.  One whose input
 * is dilated is the derivative by the input of another, which is ours turned round: our result is its input, our input
 * its result, and of its weights the channels are exchanged and the taps count from the other end.  Our own derivatives
 * by the input are made of weights that lie so: they are read where they are.
 *
 * Which engine does it is asked once for each convolution of a kind, and kept as a plan.  cuDNN takes long to open and
 * to ask, and small convolutions gain nothing: they stay with our kernels, and so does what it does not do, or fails
 * at. */
#include "cuda/cudnn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/settings.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cuda/libraries.h"
#include "plan/conv.h"

/* Multiply-adds from which on it is used.  Our kernels do fewer in some 10 us of float32, half types in less, which is
 * what waiting for any operation takes (docs/cuda.md): there is not enough to gain for opening it.  Tests have less. */
#ifndef CUDNN_LEAST_WORK
#define CUDNN_LEAST_WORK (1 << 27)
#endif
enum {
    MOST_ELEMENTS = INT32_MAX, /* of a tensor: not all engines count in 64 bits */
    PLANS = 256,               /* that are kept: more than a large network has in a step of training */
    CONFIGS = 64,              /* that are tried for one */
};
/* More memory than that is not given for speed. */
static const int64_t MOST_WORKSPACE = (int64_t)1 << 30;

static struct cudnn dnn;

/* ---- a convolution, as cuDNN has it */

enum { X, W, Y, PARTS };
enum { UNUSED = -1 };                                                        /* beside its status */
enum { MOST_AXES = 3, FIRST_AXIS = 2, DIMENSIONS = FIRST_AXIS + MOST_AXES }; /* images, channels, axes */
enum kind { FORWARD, BY_INPUT, BY_WEIGHTS };

/* All that the choice of a plan depends on: equal bytes are equal convolutions. */
struct dnn_conv {
    int gpu, type, kind, axes;
    int64_t stride[MOST_AXES], dilation[MOST_AXES], before[MOST_AXES], behind[MOST_AXES];
    struct dnn_part {
        int64_t size[DIMENSIONS], step[DIMENSIONS], alignment;
    } part[PARTS];
};

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

struct plan {
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

static void tell(const struct plan *p, const struct engine *e, double since)
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
static bool try_config(struct plan *p, void *handle, void *config)
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
static void ask_heuristic(struct plan *p, void *handle, void *graph, int mode, struct engine *e)
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

static struct plan *make_plan(const struct dnn_conv *c, void *handle)
{
    struct engine e = { 0 };
    double since = now();
    struct plan *p = mx_try_malloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (struct plan){ .of = *c, .users = 1 };
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

static void release_plan(struct plan *p)
{
    if (--p->users)
        return;
    destroy_all(&p->made);
    free(p);
}

LOCK(using, LOCK_DEVICE); /* of plans and handles, each of which is one thread's at a time */

/* The plans so far; the one that was used longest ago goes. */
static struct {
    struct plan *plan;
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

/* A user more of the plan, under the lock; NULL: no memory. */
static struct plan *plan_of(const struct dnn_conv *c, void *handle)
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
        struct plan *p = make_plan(c, handle);
        if (!p)
            return NULL;
        i = oldest;
        if (plans[i].plan)
            release_plan(plans[i].plan);
        plans[i].plan = p;
        plans[i].hash = hash;
    }
    plans[i].used = ++plans_used;
    plans[i].plan->users++;
    return plans[i].plan;
}

/* Under the lock. */
static int queue_plan(const struct plan *p, void *handle, void *stream, void *const at[PARTS], void *workspace)
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
        m.status = p->it ? dnn.execute(handle, p->it, d) : UNUSED;
    destroy_all(&m);
    return m.status;
}

/* ---- opening, once for each GPU */

static struct cudnn_on {
    void *handle;
    bool tried, works;
} on[MAX_GPUS];

static const struct cuda_function functions[] = {
#define DNN(returned, name, symbol, args) { symbol, (void **)&dnn.name, false },
#include "cuda/cudnn.def"
};
static struct cuda_functions library = { CUDA_cudnn, functions, sizeof functions / sizeof *functions, CUDA_UNKNOWN };

/* Some of its engines are cuBLASLt's, of the same CUDA: where it does not find that, it ends the process. */
static bool finds_blas(void)
{
    const struct cuda_library *l = cuda_library(CUDA_cublasLt);
    return l && (size_t)atoi(l->version) == dnn.cuda_version() / 1000;
}

/* Where elements of channels, axes and images lie: channels are neighbours. */
static void set_steps(struct dnn_conv *c)
{
    for (int i = 0; i < PARTS; i++) {
        struct dnn_part *p = &c->part[i];
        int64_t step = p->size[1];
        p->step[1] = 1;
        for (int k = FIRST_AXIS + c->axes - 1; k >= FIRST_AXIS; step *= p->size[k--]) p->step[k] = step;
        p->step[0] = step;
    }
}

/* An image of ones of 4 by 4, four channels, and weights of twos, 3 by 3: whoever is at an edge sees less. */
enum { SIDE = 4, CHANNELS = 4, TAPS = 3, PIXELS = SIDE * SIDE, ALL = PIXELS * CHANNELS, WEIGHTS = 9 * 16 };

static int convolve_ones(const struct cudnn_on *s, int gpu, void *stream, uint64_t memory, float result[ALL])
{
    struct dnn_conv c;
    float ones[ALL + WEIGHTS], *at = (float *)memory;
    uint64_t workspace = 0;
    for (int i = 0; i < ALL + WEIGHTS; i++) ones[i] = i < ALL ? 1 : 2;
    memset(&c, 0, sizeof c);
    c.gpu = gpu;
    c.type = CUDNN_FLOAT;
    c.kind = FORWARD;
    c.axes = 2;
    for (int i = 0; i < 2; i++) c.stride[i] = c.dilation[i] = c.before[i] = c.behind[i] = 1;
    for (int i = 0; i < PARTS; i++)
        c.part[i] = (struct dnn_part){ { i == W ? CHANNELS : 1, CHANNELS, i == W ? TAPS : SIDE, i == W ? TAPS : SIDE },
                                       { 0 },
                                       16 };
    set_steps(&c);
    struct plan *p = plan_of(&c, s->handle);
    if (!p || !p->it || (p->workspace && cu.memory_alloc(&workspace, (size_t)p->workspace)) ||
        cu.copy_to_device(memory, ones, sizeof ones, stream)) {
        if (p)
            release_plan(p);
        return UNUSED;
    }
    void *const parts[PARTS] = { [X] = at, [W] = at + ALL, [Y] = at + ALL + WEIGHTS };
    int e = queue_plan(p, s->handle, stream, parts, (void *)workspace);
    if (!e && cu.copy_to_host(result, memory + sizeof ones, ALL * sizeof *result, stream))
        e = UNUSED;
    if (cu.stream_wait(stream) && !e)
        e = UNUSED;
    if (workspace)
        cu.memory_free(workspace);
    release_plan(p);
    return e;
}

static bool is_right(const float result[ALL])
{
    for (int i = 0; i < ALL; i++) {
        int row = i / CHANNELS / SIDE, column = i / CHANNELS % SIDE;
        int rows = row % (SIDE - 1) ? TAPS : TAPS - 1, columns = column % (SIDE - 1) ? TAPS : TAPS - 1;
        float want = (float)(2 * CHANNELS * rows * columns);
        if (!(fabsf(result[i] - want) < 1e-4f * want))
            return false;
    }
    return true;
}

/* NULL: this version of it works with this driver. */
static const char *trial(struct cudnn_on *s, int gpu, bool blas)
{
    void *stream = NULL;
    uint64_t memory = 0;
    float result[ALL] = { 0 };
    if (!blas)
        return "no cuBLASLt of its CUDA";
    int e = dnn.create(&s->handle);
    if (e)
        return dnn.status_text(e);
    e = UNUSED;
    if (!cu.stream_create(&stream, CUDA_STREAM_NON_BLOCKING) &&
        !cu.memory_alloc(&memory, (2 * ALL + WEIGHTS) * sizeof *result))
        e = convolve_ones(s, gpu, stream, memory, result);
    if (memory)
        cu.memory_free(memory);
    if (stream)
        cu.stream_destroy(stream);
    if (e)
        return e == UNUSED ? "no convolution" : dnn.status_text(e);
    return is_right(result) ? NULL : "a wrong convolution";
}

bool cudnn_works(int gpu)
{
    struct cudnn_on *s = &on[gpu];
    if (!cuda_find(&library))
        return false;
    bool blas = finds_blas();
    lock_take(&using);
    if (!s->tried) {
        s->works = cuda_tried(CUDA_cudnn, NULL, gpu, trial(s, gpu, blas));
        s->tried = true;
    }
    lock_give(&using);
    return s->works;
}

/* ---- ours */

enum weights { AS_THEY_ARE, IN_ROWS, TURNED }; /* of an operand: copied so; of a result: copied from there */
struct dnn_work {
    struct dnn_conv conv;
    struct conv_plan plan;
    enum weights weights;
    void *at[PARTS];
};

/* Of float64 version 9.19 gave other numbers where the padding before and behind an axis differ. */
static int type_of(enum dtype t)
{
    switch (t) {
    case DT_float32: return CUDNN_FLOAT;
    case DT_float16: return CUDNN_HALF;
    case DT_bfloat16: return CUDNN_BFLOAT16;
    default: return -1;
    }
}

/* Is it one that our kernels are faster at?  Measured on an H100 with cuDNN 9.19 and bench/gpu/bench_conv.py, our time
 * over cuDNN's, of float32: 9 taps of one axis 0.83, by the input 0.76; 3 x 3 x 3 by the weights 0.51; groups of few
 * channels took 0.08 to 1.4 of PyTorch's.  Half types were slower in all. */
static bool is_ours(const struct conv_plan *p, enum dtype t, int axes, bool of_weights)
{
    enum { FEW = 256 }; /* weights of a tap of a group */
    bool few = p->groups > 1 && p->in * p->out <= FEW;
    return !dtype_is_half(t) && (few || axes == 1 || (axes == 3 && of_weights));
}

/* How far an axis is padded behind its end for so many positions: as before it, if that will do, for which there are
 * more engines.  Negative: not at all. */
static int64_t pad_behind(int64_t in, int64_t before, int64_t seen, int64_t stride, int64_t out)
{
    int64_t fewest = (out - 1) * stride + seen - in - before, most = fewest + stride - 1;
    return before >= fewest && before <= most ? before : most < 0 ? -1 : greatest(fewest, 0);
}

static bool describe_axes(struct dnn_conv *c, const struct conv_plan *p, bool turned)
{
    for (int i = 0; i < c->axes; i++) {
        const struct conv_whole *a = &p->axis[MOST_AXES - c->axes + i];
        int64_t in = turned ? a->out : a->in, out = turned ? a->in : a->out;
        int64_t seen = (a->taps - 1) * a->dilation + 1;
        if ((turned ? a->stride : a->spread) != 1 || seen > MOST_ELEMENTS)
            return false;
        c->stride[i] = turned ? a->spread : a->stride;
        c->dilation[i] = a->dilation;
        c->before[i] = turned ? seen - 1 - a->low : a->low;
        c->behind[i] = pad_behind(in, c->before[i], seen, c->stride[i], out);
        if (c->before[i] < 0 || c->behind[i] < 0)
            return false;
        c->part[X].size[FIRST_AXIS + i] = in;
        c->part[W].size[FIRST_AXIS + i] = a->taps;
        c->part[Y].size[FIRST_AXIS + i] = out;
    }
    return true;
}

static bool describe_parts(struct dnn_conv *c, const struct conv_plan *p, bool turned)
{
    int64_t in = turned ? p->out : p->in, out = turned ? p->in : p->out, work;
    c->part[X].size[0] = c->part[Y].size[0] = p->images;
    c->part[X].size[1] = in * p->groups;
    c->part[Y].size[1] = c->part[W].size[0] = out * p->groups;
    c->part[W].size[1] = in;
    if (!describe_axes(c, p, turned))
        return false;
    set_steps(c);
    for (int i = 0; i < PARTS; i++)
        if (c->part[i].step[0] > MOST_ELEMENTS / c->part[i].size[0])
            return false;
    work = c->part[Y].size[0] * c->part[Y].step[0] * c->part[W].step[0];
    return work >= CUDNN_LEAST_WORK;
}

/* Do the weights lie as those of the convolution that this one is the derivative of?  Then `at` becomes their first. */
static bool lie_turned(const struct conv_plan *p, mx w, uint64_t *at)
{
    int64_t strides[5], step = p->out, offset = 0;
    conv_strides(w, strides);
    bool yes = p->groups == 1 && (p->out == 1 || strides[0] == 1);
    for (int i = 2; i >= 0; i--) {
        yes = yes && (p->axis[i].taps == 1 || strides[1 + i] == -step);
        offset += (p->axis[i].taps - 1) * strides[1 + i];
        step *= p->axis[i].taps;
    }
    yes = yes && (p->in == 1 || strides[4] == step);
    *at += yes ? (uint64_t)offset * itemsize(w) : 0;
    return yes;
}

static int64_t alignment_of(const void *p, size_t item) { return (uintptr_t)p % 16 ? (int64_t)item : 16; }

static bool plan_work(struct dnn_work *k, const struct run *r, mx x, mx w, mx y, bool of_weights)
{
    struct dnn_conv *c = &k->conv;
    const struct conv_plan *p = &k->plan;
    enum dtype t = (enum dtype)x->dtype;
    int type = type_of(t);
    uint64_t weights = gpu_address(r, w);
    memset(k, 0, sizeof *k);
    conv_plan_of(&k->plan, r->args, x, w, y);
    bool dilated = false, strides = false;
    for (int i = 0; i < MOST_AXES; i++) {
        dilated |= p->axis[i].spread != 1;
        strides |= p->axis[i].stride != 1;
    }
    bool lies = !of_weights && !w->row && !strides && lie_turned(p, w, &weights), turned = dilated || lies;
    if (type < 0 || is_ours(p, t, x->ndim - 2, of_weights))
        return false;
    c->gpu = gpu_of(r)->number;
    c->type = type;
    c->kind = of_weights ? BY_WEIGHTS : turned ? BY_INPUT : FORWARD;
    c->axes = (int)greatest(x->ndim - 2, 2);
    k->weights = turned ? lies ? AS_THEY_ARE : TURNED : of_weights || w->row ? AS_THEY_ARE : IN_ROWS;
    k->at[X] = gpu_pointer(r, turned ? y : x);
    k->at[Y] = gpu_pointer(r, turned ? x : y);
    k->at[W] = k->weights == AS_THEY_ARE ? (void *)weights : NULL;
    for (int i = 0; i < PARTS; i++) c->part[i].alignment = alignment_of(k->at[i], dtype_size(t));
    return describe_parts(c, p, turned);
}

/* Between our weights, w, and those of the convolution turned round: to the latter, or back. */
static int copy_turned(const struct run *r, const struct conv_plan *p, mx w, uint64_t turned, bool back)
{
    int64_t ours[5], taps[3] = { p->axis[0].taps, p->axis[1].taps, p->axis[2].taps };
    int64_t line = p->out * taps[2], plane = line * taps[1], channel = plane * taps[0];
    const int shape[] = { (int)p->groups, (int)p->out, (int)taps[0], (int)taps[1], (int)taps[2], (int)p->in };
    enum { N = sizeof shape / sizeof *shape, FIRST_TAP = 2 };
    conv_strides(w, ours);
    int64_t here[N] = { p->out * ours[0], ours[0], ours[1], ours[2], ours[3], ours[4] };
    int64_t there[N] = { p->in * channel, 1, plane, line, p->out, channel };
    int64_t *from = back ? there : here, offset = 0; /* which is read from the last tap on */
    for (int i = 0; i < 3; i++) {
        offset += (taps[i] - 1) * from[FIRST_TAP + i];
        from[FIRST_TAP + i] = -from[FIRST_TAP + i];
    }
    uint64_t weights = gpu_address(r, w), bytes = (uint64_t)offset * itemsize(w);
    struct box b = box_of(itemsize(w), N, shape, back ? here : there, from);
    return gpu_copy_box(r, &b, back ? weights : turned, (back ? turned : weights) + bytes);
}

/* In a copy of the weights where they need one. */
static bool queue_work(const struct run *r, const struct plan *p, struct dnn_work *k, mx w, bool of_weights, int *e)
{
    struct gpu_stream *q = gpu_stream(r->stream);
    struct buffer *workspace = NULL, *copy = NULL;
    bool fine = !p->workspace || (workspace = buffer_new_on(r->stream, (size_t)p->workspace));
    if (fine && k->weights != AS_THEY_ARE) {
        fine = (copy = buffer_new_on(r->stream, (size_t)w->size * itemsize(w)));
        k->at[W] = fine ? buffer_on(copy, r->stream) : NULL;
    }
    uint64_t weights = (uint64_t)k->at[W];
    if (fine && k->weights == IN_ROWS)
        fine = !gpu_copy_to(r, weights, w);
    if (fine && k->weights == TURNED && !of_weights)
        fine = !copy_turned(r, &k->plan, w, weights, false);
    if (fine) {
        lock_take(&using);
        *e = queue_plan(p, on[q->gpu->number].handle, q->stream, k->at,
                        workspace ? buffer_on(workspace, r->stream) : NULL);
        lock_give(&using);
        fine = !*e;
    }
    if (fine && k->weights == TURNED && of_weights)
        fine = !copy_turned(r, &k->plan, w, weights, true);
    if (workspace)
        buffer_release(workspace);
    if (copy)
        buffer_release(copy);
    return fine;
}

bool gpu_cudnn_conv(const struct run *r, mx x, mx w, mx y, bool of_weights)
{
    struct dnn_work k;
    int gpu = gpu_of(r)->number, e = 0;
    if (!plan_work(&k, r, x, w, y, of_weights) || !cudnn_works(gpu))
        return false;
    lock_take(&using);
    struct plan *p = plan_of(&k.conv, on[gpu].handle);
    bool done = p && p->it;
    lock_give(&using);
    done = done && queue_work(r, p, &k, w, of_weights, &e);
    lock_take(&using);
    if (p && e)
        p->it = NULL; /* not again; it goes with what it was made of */
    if (p)
        release_plan(p);
    lock_give(&using);
    if (!done)
        mx_error_clear();
    return done;
}
