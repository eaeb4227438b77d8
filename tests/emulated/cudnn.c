/* cudnn.c: cuDNN as src/cuda knows it, for the emulated driver, in one file with the other libraries (libraries.c).
 *
 * A descriptor keeps the attributes that it is given, with their types and numbers; what is finished with them checks
 * those that it needs, and that all it is made of is there still.  One loop makes convolutions and both derivatives;
 * graphs of other operations are done one by one (cudnn_nodes.inc).
 * PRETEND in the environment says how it fails: no_handle; no_blas (it is for another CUDA); wrong; dnn_make, dnn_set,
 * dnn_finish, dnn_get, dnn_stream, dnn_execute (once something has been executed, which the trial does; dnn_trial_make
 * and the like: before); no_engines (the heuristic names none, the one for what only has to work does);
 * no_engines_at_all; no_forward and no_back (none for attention, and for its derivative); dnn_9_10_0 and dnn_9_10_2 (it
 * is an older one). */
#include <math.h>
#include <stdint.h>

#include "core/dtype.h"
#include "shared/scalar.h"

#include "cuda/cudnn.h"
#include "emulated/pretended.h"

#define DNN(returned, name, symbol, args) EXPORTED returned dnn_##name args __asm__(symbol);
#include "cuda/cudnn.def"

/* Executed so far: convolutions, by the input, by the weights, with rounded float32; heuristics asked; descriptors that
 * are there; attention, and its derivative; for tests. */
extern EXPORTED int emulated_convolutions[8];
int emulated_convolutions[8];
enum { ROUNDED = 3, ASKED = 4, THERE = 5, ATTENTION = 6 };

enum { NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum { ATTRIBUTES = 12, MOST = 24, MOST_AXES = 5, ROOM = 4096 };
enum { ENGINE_ORDER, ENGINE_ROUNDED, ENGINE_HALF_SUMS, ENGINE_LARGE, ENGINE_NONE, ENGINE_GOOD, ENGINE_SLOW };

struct descriptor {
    int kind, n;
    bool finished, destroyed;
    int64_t engine; /* of an engine and a configuration */
    struct attribute {
        int what, type;
        int64_t n;
        union {
            int64_t number[MOST];
            int code[MOST];
            float f;
            bool yes;
            void *pointer[MOST];
            struct descriptor *descriptor[MOST];
        } v;
    } attribute[ATTRIBUTES];
};

static int handle_of_all;
static void *stream_of_all;
static bool executed;

static bool fails(const char *call)
{
    const char *asked = getenv("PRETEND"), *prefix = executed ? "dnn_" : "dnn_trial_";
    size_t n = strlen(prefix);
    return asked && !strncmp(asked, prefix, n) && !strcmp(asked + n, call);
}

/* ---- attributes */

static size_t size_of_type(int type)
{
    switch (type) {
    case CUDNN_IS_BOOL: return sizeof(bool);
    case CUDNN_IS_ELEMENTWISE:
    case CUDNN_IS_REDUCTION:
    case CUDNN_IS_TYPE:
    case CUDNN_IS_CONV_MODE:
    case CUDNN_IS_HEURISTIC:
    case CUDNN_IS_FLOAT: return 4;
    case CUDNN_IS_HANDLE:
    case CUDNN_IS_INT64:
    case CUDNN_IS_POINTER:
    case CUDNN_IS_DESCRIPTOR: return 8;
    default: expect(false, "a type of attributes that is known"); return 0;
    }
}

/* The kind of descriptors that an attribute is of. */
static int kind_of(int what)
{
    switch (what / 100) {
    case 0: return CUDNN_ELEMENTWISE;
    case 1: return CUDNN_CONV;
    case 2: return CUDNN_HEURISTIC;
    case 4: return CUDNN_PLAN;
    case 7:
        return what < CUDNN_OF_BY_INPUT       ? CUDNN_FORWARD
               : what < CUDNN_OF_BY_WEIGHTS   ? CUDNN_BY_INPUT
               : what < CUDNN_ELEMENTWISE_HOW ? CUDNN_BY_WEIGHTS
                                              : CUDNN_DO_ELEMENTWISE;
    case 8: return CUDNN_GRAPH;
    case 9: return CUDNN_TENSOR;
    case 10: return CUDNN_PACK;
    case 15: return what < CUDNN_PRODUCT_A ? CUDNN_PRODUCT : CUDNN_DO_PRODUCT;
    case 16: return what < CUDNN_REDUCTION_X ? CUDNN_REDUCTION : CUDNN_DO_REDUCTION;
    case 22: return CUDNN_DO_RESHAPE;
    default: expect(false, "an attribute that is known"); return 0;
    }
}

static bool has(const struct descriptor *d, int what)
{
    for (int i = 0; i < d->n; i++)
        if (d->attribute[i].what == what)
            return true;
    return false;
}

static const struct attribute *any(const struct descriptor *d, int what)
{
    for (int i = 0; i < d->n; i++)
        if (d->attribute[i].what == what)
            return &d->attribute[i];
    fprintf(stderr, "emulated cuDNN: expected attribute %d of a descriptor of kind %d\n", what, d->kind);
    abort();
}

static const struct attribute *find(const struct descriptor *d, int what, int type, int64_t n)
{
    const struct attribute *a = any(d, what);
    expect(a->type == type && a->n == n, "an attribute of its type and number");
    return a;
}

static bool says(const struct descriptor *d, int what)
{
    return has(d, what) && find(d, what, CUDNN_IS_BOOL, 1)->v.yes;
}
static int64_t number(const struct descriptor *d, int what) { return find(d, what, CUDNN_IS_INT64, 1)->v.number[0]; }
static const int64_t *numbers(const struct descriptor *d, int what, int64_t n)
{
    return find(d, what, CUDNN_IS_INT64, n)->v.number;
}
static int code(const struct descriptor *d, int what, int type) { return find(d, what, type, 1)->v.code[0]; }

static const struct descriptor *part(const struct descriptor *d, int what, int kind)
{
    const struct descriptor *p = find(d, what, CUDNN_IS_DESCRIPTOR, 1)->v.descriptor[0];
    expect(p->kind == kind && p->finished && !p->destroyed, "a finished descriptor that is there");
    return p;
}

/* ---- an operation */

struct tensor {
    int type;
    int64_t n, id, alignment, size[MOST_AXES], step[MOST_AXES];
};

static struct tensor tensor_of(const struct descriptor *d)
{
    struct tensor t = { .type = code(d, CUDNN_TENSOR_TYPE, CUDNN_IS_TYPE), .id = number(d, CUDNN_TENSOR_ID) };
    t.n = any(d, CUDNN_TENSOR_SIZES)->n;
    t.alignment = number(d, CUDNN_TENSOR_ALIGNMENT);
    memcpy(t.size, numbers(d, CUDNN_TENSOR_SIZES, t.n), (size_t)t.n * sizeof(int64_t));
    memcpy(t.step, numbers(d, CUDNN_TENSOR_STRIDES, t.n), (size_t)t.n * sizeof(int64_t));
    return t;
}

static int64_t item_of(int type)
{
    return type == CUDNN_FLOAT || type == CUDNN_INT32 ? 4 : type == CUDNN_BOOLEAN ? 1 : 2;
}

enum { X, W, Y, PARTS };
struct operation {
    int which, axes; /* which: 0, by the input 1, by the weights 2 */
    struct tensor of[PARTS];
    const int64_t *stride, *dilation, *before, *behind;
};

static struct operation operation_of(const struct descriptor *d)
{
    struct operation o = { .which = d->kind == CUDNN_FORWARD ? 0 : d->kind == CUDNN_BY_INPUT ? 1 : 2 };
    int first = CUDNN_OF_FORWARD + 6 * o.which;
    const struct descriptor *g = part(d, first + CUDNN_GEOMETRY, CUDNN_CONV);
    o.of[X] = tensor_of(part(d, first + CUDNN_X, CUDNN_TENSOR));
    o.of[W] = tensor_of(part(d, first + CUDNN_W, CUDNN_TENSOR));
    o.of[Y] = tensor_of(part(d, first + CUDNN_Y, CUDNN_TENSOR));
    o.axes = (int)number(g, CUDNN_CONV_AXES);
    o.stride = numbers(g, CUDNN_CONV_STRIDES, o.axes);
    o.dilation = numbers(g, CUDNN_CONV_DILATIONS, o.axes);
    o.before = numbers(g, CUDNN_CONV_BEFORE, o.axes);
    o.behind = numbers(g, CUDNN_CONV_BEHIND, o.axes);
    return o;
}

static void check_tensor(const struct descriptor *d)
{
    struct tensor t = tensor_of(d);
    expect(t.n >= 4 && t.n <= 5 && t.alignment % item_of(t.type) == 0, "a tensor of two or three axes, aligned");
    for (int i = 0; i < t.n; i++) expect(t.size[i] > 0 && t.step[i] > 0, "sizes and steps");
}

static void check_operation(const struct descriptor *d)
{
    struct operation o = operation_of(d);
    const struct tensor *x = &o.of[X], *w = &o.of[W], *y = &o.of[Y];
    const struct descriptor *g = part(d, CUDNN_OF_FORWARD + 6 * o.which + CUDNN_GEOMETRY, CUDNN_CONV);
    int at = CUDNN_OF_FORWARD + 6 * o.which, type = CUDNN_IS_FLOAT;
    expect(x->type == w->type && x->type == y->type && x->n == o.axes + 2 && w->n == x->n && y->n == x->n,
           "tensors that go together");
    expect(x->step[1] == 1 && w->step[1] == 1 && y->step[1] == 1, "channels that are neighbours");
    expect(x->id != y->id && x->id != w->id && y->id != w->id, "names of their own");
    expect(code(g, CUDNN_CONV_TYPE, CUDNN_IS_TYPE) == CUDNN_FLOAT, "sums that are wide enough");
    expect(code(g, CUDNN_CONV_MODE, CUDNN_IS_CONV_MODE) == CUDNN_CROSS_CORRELATION, "taps in their order");
    expect(find(d, at + CUDNN_ALPHA, type, 1)->v.f == 1 && find(d, at + CUDNN_BETA, type, 1)->v.f == 0, "1 and 0");
    expect(x->size[0] == y->size[0] && w->size[0] == y->size[1] && x->size[1] % w->size[1] == 0 &&
               w->size[0] % (x->size[1] / w->size[1]) == 0,
           "images and channels that go together");
    for (int i = 0; i < o.axes; i++) {
        int64_t seen = (w->size[2 + i] - 1) * o.dilation[i] + 1;
        int64_t room = x->size[2 + i] + o.before[i] + o.behind[i] - seen;
        expect(o.stride[i] > 0 && o.dilation[i] > 0 && o.before[i] >= 0 && o.behind[i] >= 0, "a geometry");
        expect(room >= 0 && y->size[2 + i] == room / o.stride[i] + 1, "as many positions as there are");
    }
}

/* ---- descriptors */

size_t dnn_version(void) { return pretends("dnn_9_10_0") ? 91000 : pretends("dnn_9_10_2") ? 91002 : 91900; }
size_t dnn_cuda_version(void) { return pretends("no_blas") ? 13000 : 12080; }
int dnn_create(void **handle) { return *handle = &handle_of_all, pretends("no_handle") ? NOT_INITIALIZED : 0; }
int dnn_set_stream(void *handle, void *stream)
{
    expect(handle == &handle_of_all && stream, "a stream");
    return stream_of_all = stream, fails("stream") ? BAD_PARAM : 0;
}
const char *dnn_status_text(int status)
{
    switch (status) {
    case NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_STATUS_EXECUTION_FAILED";
    }
}

int dnn_make(int kind, void **descriptor)
{
    if (fails("make"))
        return BAD_PARAM;
    struct descriptor *d = *descriptor = calloc(1, sizeof *d);
    d->kind = kind;
    __atomic_fetch_add(&emulated_convolutions[THERE], 1, __ATOMIC_RELAXED);
    return 0;
}

/* Its memory stays, to see that nobody reads it: tests are short. */
int dnn_destroy(void *descriptor)
{
    struct descriptor *d = descriptor;
    expect(d && !d->destroyed, "a descriptor");
    d->destroyed = true;
    __atomic_fetch_sub(&emulated_convolutions[THERE], 1, __ATOMIC_RELAXED);
    return 0;
}

int dnn_set(void *descriptor, int what, int type, int64_t n, const void *v)
{
    struct descriptor *d = descriptor;
    expect(d && !d->finished && !d->destroyed && d->kind == kind_of(what), "an attribute of the descriptor");
    expect(n > 0 && n <= MOST && d->n < ATTRIBUTES, "not so many");
    if (fails("set"))
        return BAD_PARAM;
    struct attribute *a = &d->attribute[d->n++];
    *a = (struct attribute){ .what = what, .type = type, .n = n };
    memcpy(&a->v, v, (size_t)n * size_of_type(type));
    return 0;
}

int dnn_finish(void *descriptor)
{
    struct descriptor *d = descriptor;
    expect(d && !d->finished && !d->destroyed, "a descriptor");
    if (fails("finish"))
        return NOT_SUPPORTED;
    d->finished = true;
    switch (d->kind) {
    case CUDNN_TENSOR: check_tensor(d); break;
    case CUDNN_CONV: number(d, CUDNN_CONV_AXES); break;
    case CUDNN_FORWARD:
    case CUDNN_BY_INPUT:
    case CUDNN_BY_WEIGHTS: check_operation(d); break;
    case CUDNN_ELEMENTWISE:
    case CUDNN_PRODUCT:
    case CUDNN_REDUCTION:
    case CUDNN_DO_ELEMENTWISE:
    case CUDNN_DO_PRODUCT:
    case CUDNN_DO_REDUCTION:
    case CUDNN_DO_RESHAPE: /* which are looked at when they are done */
    case CUDNN_GRAPH:
    case CUDNN_HEURISTIC: break;
    case CUDNN_PACK: find(d, CUDNN_PACK_WORKSPACE, CUDNN_IS_POINTER, 1); break;
    case CUDNN_PLAN:
        if (part(d, CUDNN_PLAN_CONFIG, CUDNN_CONFIG)->engine == ENGINE_NONE)
            return NOT_SUPPORTED;
        break;
    default: expect(false, "a kind of descriptors that is known");
    }
    return 0;
}

/* The first, which is the only one of a convolution. */
static const struct descriptor *operation_in(const struct descriptor *graph)
{
    const struct descriptor *o = any(graph, CUDNN_GRAPH_OPERATIONS)->v.descriptor[0];
    expect(find(graph, CUDNN_GRAPH_HANDLE, CUDNN_IS_HANDLE, 1)->v.pointer[0] == &handle_of_all, "the handle");
    expect(o->finished && !o->destroyed, "an operation that is there");
    return o;
}

static bool is_convolution(const struct descriptor *o)
{
    return o->kind == CUDNN_FORWARD || o->kind == CUDNN_BY_INPUT || o->kind == CUDNN_BY_WEIGHTS;
}

/* A derivative of attention has a reshape. */
static bool is_back(const struct descriptor *graph)
{
    const struct attribute *all = any(graph, CUDNN_GRAPH_OPERATIONS);
    bool back = false;
    for (int64_t i = 0; i < all->n; i++) back |= all->v.descriptor[i]->kind == CUDNN_DO_RESHAPE;
    return back;
}

static int name_engines(const struct descriptor *d, int64_t n, int64_t *found, void **configs)
{
    bool fallback = code(d, CUDNN_HEURISTIC_MODE, CUDNN_IS_HEURISTIC) == CUDNN_HEURISTIC_FALLBACK;
    const struct descriptor *graph = part(d, CUDNN_HEURISTIC_GRAPH, CUDNN_GRAPH);
    int64_t first = fallback ? ENGINE_SLOW : ENGINE_ORDER, all = fallback ? 1 : ENGINE_SLOW;
    if (pretends("no_engines_at_all") || (pretends("no_engines") && !fallback))
        all = 0;
    if (!is_convolution(operation_in(graph)) && pretends(is_back(graph) ? "no_back" : "no_forward"))
        all = 0;
    if (n == 0)
        __atomic_fetch_add(&emulated_convolutions[ASKED], 1, __ATOMIC_RELAXED);
    *found = all;
    for (int64_t i = 0; i < n && i < all; i++) {
        struct descriptor *c = configs[i];
        expect(c->kind == CUDNN_CONFIG && !c->finished && !c->destroyed, "an empty configuration");
        c->finished = true;
        c->engine = first + i;
        c->attribute[0].v.descriptor[0] = (struct descriptor *)graph;
    }
    return 0;
}

static int64_t notes_of(const struct descriptor *engine, int notes[CUDNN_NOTES])
{
    const struct descriptor *graph = engine->attribute[0].v.descriptor[0], *o = operation_in(graph);
    int type = is_convolution(o) ? operation_of(o).of[X].type : CUDNN_HALF;
    switch (engine->engine) {
    case ENGINE_ORDER: return notes[0] = CUDNN_NOTE_TENSOR_CORE, notes[1] = CUDNN_NOTE_NONDETERMINISTIC, 2;
    case ENGINE_ROUNDED:
        notes[0] = CUDNN_NOTE_TENSOR_CORE, notes[1] = CUDNN_NOTE_DOWN_CONVERTED;
        return type == CUDNN_FLOAT ? 2 : 1;
    case ENGINE_HALF_SUMS: return notes[0] = CUDNN_NOTE_REDUCED_SUMS, notes[1] = CUDNN_NOTE_WINOGRAD + 2, 2;
    default: return 0;
    }
}

int dnn_get(void *descriptor, int what, int type, int64_t n, int64_t *found, void *v)
{
    const struct descriptor *d = descriptor;
    expect(d && d->finished && !d->destroyed && found, "a finished descriptor");
    if (fails("get"))
        return NOT_SUPPORTED;
    *found = 1;
    if (what == CUDNN_HEURISTIC_RESULTS && type == CUDNN_IS_DESCRIPTOR && d->kind == CUDNN_HEURISTIC)
        return name_engines(d, n, found, v);
    if (what == CUDNN_CONFIG_ENGINE && type == CUDNN_IS_DESCRIPTOR && d->kind == CUDNN_CONFIG) {
        struct descriptor *e = *(void **)v;
        expect(n == 1 && e->kind == CUDNN_ENGINE && !e->finished, "an empty engine");
        e->finished = true;
        e->engine = d->engine;
        e->attribute[0] = d->attribute[0];
    } else if (what == CUDNN_ENGINE_NUMBER && type == CUDNN_IS_INT64 && d->kind == CUDNN_ENGINE && n == 1) {
        memcpy(v, &d->engine, sizeof d->engine);
    } else if (what == CUDNN_ENGINE_NOTES && type == CUDNN_IS_NOTE && d->kind == CUDNN_ENGINE && n == CUDNN_NOTES) {
        *found = notes_of(d, v);
    } else {
        expect(what == CUDNN_PLAN_WORKSPACE && type == CUDNN_IS_INT64 && d->kind == CUDNN_PLAN && n == 1,
               "something that is known");
        int64_t engine = part(d, CUDNN_PLAN_CONFIG, CUDNN_CONFIG)->engine;
        int64_t bytes = engine == ENGINE_LARGE ? (int64_t)1 << 40 : engine == ENGINE_SLOW ? 0 : ROOM;
        memcpy(v, &bytes, sizeof bytes);
    }
    return 0;
}

/* ---- execution */

static int64_t extent(const struct tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < t->n; i++) last += (t->size[i] - 1) * t->step[i];
    return last + 1;
}

static double element(const void *p, int type, int64_t i, bool rounded)
{
    if (type != CUDNN_FLOAT) {
        uint16_t h = ((const uint16_t *)p)[i];
        return type == CUDNN_HALF ? f32_from_f16(h) : f32_from_bf16(h);
    }
    uint32_t bits;
    memcpy(&bits, (const float *)p + i, sizeof bits);
    if (rounded && (bits & 0x7f800000) != 0x7f800000)
        bits = (bits + 0x1000) & ~0x1fffu;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void put(void *p, int type, int64_t i, double v)
{
    if (type == CUDNN_FLOAT)
        ((float *)p)[i] = (float)v;
    else
        ((uint16_t *)p)[i] = type == CUDNN_HALF ? f16_from_f32((float)v) : bf16_from_f32((float)v);
}

/* What is read of two of them, and what is summed up of the third: wider than any type, as the CPU's sums of float64
 * are made of many short ones. */
struct sums {
    const struct operation *of;
    double *read[PARTS];
    long double *sum;
};

/* Of one image, position and tap: where they are in x, w and y, all channels of which meet. */
static void meet(const struct sums *s, int64_t x, int64_t w, int64_t y)
{
    const struct operation *o = s->of;
    int64_t in = o->of[W].size[1], groups = o->of[X].size[1] / in, out = o->of[W].size[0] / groups;
    for (int64_t g = 0; g < groups; g++)
        for (int64_t k = g * out; k < (g + 1) * out; k++) {
            int64_t a = x + g * in, b = w + k * o->of[W].step[0], c = y + k;
            for (int64_t i = 0; i < in; i++)
                if (o->which == 0)
                    s->sum[c] += s->read[X][a + i] * s->read[W][b + i];
                else if (o->which == 1)
                    s->sum[a + i] += s->read[Y][c] * s->read[W][b + i];
                else
                    s->sum[b + i] += s->read[X][a + i] * s->read[Y][c];
        }
}

/* Positions and taps of axis d and those behind it. */
static void along(const struct sums *s, int d, int64_t x, int64_t w, int64_t y)
{
    const struct operation *o = s->of;
    if (d >= o->axes || d >= MOST_AXES - 2) {
        meet(s, x, w, y);
        return;
    }
    for (int64_t j = 0; j < o->of[Y].size[2 + d]; j++)
        for (int64_t k = 0; k < o->of[W].size[2 + d]; k++) {
            int64_t i = j * o->stride[d] - o->before[d] + k * o->dilation[d];
            if (i >= 0 && i < o->of[X].size[2 + d])
                along(s, d + 1, x + i * o->of[X].step[2 + d], w + k * o->of[W].step[2 + d],
                      y + j * o->of[Y].step[2 + d]);
        }
}

static void compute(const struct operation *o, void *const at[PARTS], bool rounded)
{
    static const int result[] = { Y, X, W };
    int made = result[o->which];
    int64_t size = extent(&o->of[made]);
    struct sums s = { .of = o, .sum = calloc((size_t)size, sizeof(long double)) };
    for (int i = 0; i < PARTS; i++) {
        int64_t n = i == made ? 0 : extent(&o->of[i]);
        s.read[i] = malloc((size_t)n * sizeof(double) + 1);
        for (int64_t k = 0; k < n; k++) s.read[i][k] = element(at[i], o->of[i].type, k, rounded);
    }
    for (int64_t n = 0; n < o->of[X].size[0]; n++) along(&s, 0, n * o->of[X].step[0], 0, n * o->of[Y].step[0]);
    for (int64_t k = 0; k < size; k++) put(at[made], o->of[made].type, k, (double)(s.sum[k] + pretends("wrong")));
    for (int i = 0; i < PARTS; i++) free(s.read[i]);
    free(s.sum);
}

#include "emulated/cudnn_nodes.inc"

static void do_convolution(const struct descriptor *operation, int64_t engine, const int64_t *ids,
                           void *const *pointers, int64_t given)
{
    struct operation o = operation_of(operation);
    void *at[PARTS] = { NULL };
    bool rounded = engine == ENGINE_ROUNDED && o.of[X].type == CUDNN_FLOAT;
    for (int i = 0; i < PARTS; i++)
        for (int k = 0; k < given; k++)
            if (ids[k] == o.of[i].id)
                at[i] = pointers[k];
    for (int i = 0; i < PARTS; i++)
        expect(at[i] && (uintptr_t)at[i] % (uintptr_t)o.of[i].alignment == 0, "tensors, aligned as was said");
    compute(&o, at, rounded);
    __atomic_fetch_add(&emulated_convolutions[o.which], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&emulated_convolutions[ROUNDED], rounded, __ATOMIC_RELAXED);
}

int dnn_execute(void *handle, void *plan, void *pack)
{
    const struct descriptor *p = plan, *v = pack;
    expect(handle == &handle_of_all && stream_of_all && p->kind == CUDNN_PLAN && p->finished && !p->destroyed,
           "a plan");
    expect(find(p, CUDNN_PLAN_HANDLE, CUDNN_IS_HANDLE, 1)->v.pointer[0] == handle, "its handle");
    expect(v->kind == CUDNN_PACK && v->finished && !v->destroyed, "a finished pack");
    const struct descriptor *config = part(p, CUDNN_PLAN_CONFIG, CUDNN_CONFIG);
    const struct descriptor *graph = config->attribute[0].v.descriptor[0], *operation = operation_in(graph);
    int64_t given = any(v, CUDNN_PACK_IDS)->n;
    const int64_t *ids = numbers(v, CUDNN_PACK_IDS, given);
    void *const *pointers = find(v, CUDNN_PACK_POINTERS, CUDNN_IS_POINTER, given)->v.pointer;
    void *workspace = find(v, CUDNN_PACK_WORKSPACE, CUDNN_IS_POINTER, 1)->v.pointer[0];
    bool failed = fails("execute");
    expect(!workspace == (config->engine == ENGINE_SLOW), "the workspace asked for");
    executed = true;
    if (failed)
        return EXECUTION_FAILED;
    await_copies(stream_of_all);
    if (workspace)
        memset(workspace, 0xff, ROOM);
    if (is_convolution(operation)) {
        do_convolution(operation, config->engine, ids, pointers, given);
    } else {
        do_nodes(graph, ids, pointers, given);
        __atomic_fetch_add(&emulated_convolutions[ATTENTION + is_back(graph)], 1, __ATOMIC_RELAXED);
    }
    return 0;
}
