/* cuda.c: libcuda.so.1 as src/cuda knows it, for a machine without a GPU: a device, or as many as PRETEND_DEVICES in
 * the environment says, whose memory is the host's and whose kernels run under the emulator, at once, when they are
 * launched.  An image is the name of its module, or a shared object that emulated/nvrtc.c made of a kernel given as
 * text. */
#define _GNU_SOURCE /* memfd_create */
#include <dlfcn.h>
#include <elf.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/kernels/quantize.h"
#include "support/emulator.h"

#define EXPORTED __attribute__((visibility("default")))
#define CU(name, symbol, args) EXPORTED int name args __asm__(symbol);
#include "cuda/driver.def"

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, INVALID_IMAGE = 200, NOT_FOUND = 500, NOT_READY = 600 };
static const size_t MEMORY = (size_t)4 << 30;

static pid_t process; /* that called it */
int init(unsigned flags) { return process = getpid(), (int)flags; }
int error_name(int error, const char **text) { return *text = error == NOT_FOUND ? "NOT_FOUND" : "FAILED", SUCCESS; }
int error_text(int error, const char **text) { return *text = "of the emulated driver", (void)error, SUCCESS; }
/* NVRTC asks the driver for a cache of its own. */
EXPORTED int cuGetExportTable(const void **table, const void *id);
int cuGetExportTable(const void **table, const void *id) { return *table = NULL, id ? NOT_FOUND : INVALID_VALUE; }

int driver_version(int *version)
{
    const char *pretended = getenv("PRETEND_DRIVER");
    return *version = pretended ? atoi(pretended) : 12000, SUCCESS;
}
enum { MOST_DEVICES = 16 };
int device_count(int *count)
{
    const char *pretended = getenv("PRETEND_DEVICES");
    return *count = pretended ? atoi(pretended) : 1, SUCCESS;
}
int device_get(int *device, int number) { return *device = number, number < MOST_DEVICES ? SUCCESS : INVALID_VALUE; }
int device_name(char *name, int size, int device)
{
    (void)device;
    strncpy(name, "emulated", (size_t)size);
    return SUCCESS;
}
/* A device that has every instruction that kernels use. */
/* Of the compute capability; 9 unless the environment says. */
static int major_version(void)
{
    const char *text = getenv("PRETEND_MAJOR");
    return text ? atoi(text) : 9;
}

int device_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75 ? major_version() : attribute == 76 ? 0 : 4;
    return SUCCESS;
}
int device_memory(size_t *bytes, int device) { return *bytes = MEMORY, (void)device, SUCCESS; }
/* PRETEND_FORKED in the environment: it does not work in children of the process. */
/* Work is of the thread's current context, its stream's. */
static struct context {
    char any;
} contexts[MOST_DEVICES];
static _Thread_local void *current;

/* One that is captured keeps what is launched on it; until that is launched as a graph on another stream nothing else
 * may be put there. */
struct stream {
    void *context;
    bool captured;
    struct node *nodes;
    struct stream *recorder; /* that graphs which were launched on it are of */
};
static bool takes(void *stream)
{
    struct stream *s = stream;
    if (s && s->recorder && s->recorder->nodes) {
        fprintf(stderr, "the emulated driver: work is put on a stream before what has been recorded of it\n");
        abort();
    }
    return s && s->context == current && !s->captured;
}

int context_retain(void **context, int device)
{
    *context = &contexts[device];
    return getenv("PRETEND_FORKED") && process != getpid() ? NOT_INITIALIZED : SUCCESS;
}
int context_use(void *context) { return context ? (current = context, SUCCESS) : INVALID_VALUE; }
static atomic_size_t taken; /* as the host counts it, a little more than was asked for */
int memory_info(size_t *available, size_t *total)
{
    size_t n = atomic_load(&taken);
    return *available = n < MEMORY ? MEMORY - n : 0, *total = MEMORY, SUCCESS;
}
/* PRETEND_SHORT=n in the environment: of eight n times in a row the first eight find none. */
int memory_alloc(uint64_t *address, size_t bytes)
{
    static atomic_uint_fast64_t times;
    const char *pretended = getenv("PRETEND_SHORT");
    if (pretended && (atomic_fetch_add(&times, 1) + 99) / 8 % strtoull(pretended, NULL, 10) == 0)
        return OUT_OF_MEMORY;
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    atomic_fetch_add(&taken, malloc_usable_size(p));
    return *address = (uint64_t)p, p ? SUCCESS : OUT_OF_MEMORY;
}
static void catch_up_all(void);
int memory_free(uint64_t address)
{
    catch_up_all();
    atomic_fetch_sub(&taken, malloc_usable_size((void *)address));
    return free((void *)address), SUCCESS;
}

/* ---- pinned memory, and copies that are not yet made */

static struct pinned {
    char *p;
    size_t bytes;
} pinned[64];
static struct copy {
    void *to;
    const void *from;
    size_t bytes;
} later[64];
static uint64_t pins, copied, queued; /* copies: how many are done, how many there were */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* PRETEND_UNPINNED in the environment: there is little of it. */
int host_alloc(void **p, size_t bytes)
{
    if (pins == sizeof pinned / sizeof *pinned || (bytes > 1 << 20 && getenv("PRETEND_UNPINNED")))
        return OUT_OF_MEMORY;
    *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*p == MAP_FAILED)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    pinned[pins++] = (struct pinned){ *p, bytes };
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

/* Under the lock. */
static bool is_pinned(const void *p)
{
    bool is = false;
    for (uint64_t i = 0; i < pins; i++)
        is |= (const char *)p >= pinned[i].p && (const char *)p < pinned[i].p + pinned[i].bytes;
    return is;
}

/* Under the lock: makes the first copies, up to that number. */
static void catch_up(uint64_t number)
{
    for (; copied < number; copied++) {
        struct copy *c = &later[copied % (sizeof later / sizeof *later)];
        memcpy(c->to, c->from, c->bytes);
    }
}

static void catch_up_all(void)
{
    pthread_mutex_lock(&lock);
    catch_up(queued);
    pthread_mutex_unlock(&lock);
}

static int copy(void *to, const void *from, size_t bytes)
{
    pthread_mutex_lock(&lock);
    if (queued - copied == sizeof later / sizeof *later)
        catch_up(copied + 1);
    bool waits = is_pinned(to) || is_pinned(from);
    later[queued++ % (sizeof later / sizeof *later)] = (struct copy){ to, from, bytes };
    if (!waits)
        catch_up(queued);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

/* With the driver its memory goes, and other threads have a moment to notice. */
__attribute__((destructor)) static void unpin(void)
{
    catch_up_all();
    for (uint64_t i = 0; i < pins; i++) munmap(pinned[i].p, pinned[i].bytes);
    usleep(pins ? 20000 : 0);
}

int copy_to_device(uint64_t to, const void *from, size_t bytes, void *stream)
{
    return takes(stream) ? copy((void *)to, from, bytes) : INVALID_VALUE;
}
int copy_to_host(void *to, uint64_t from, size_t bytes, void *stream)
{
    return takes(stream) ? copy(to, (const void *)from, bytes) : INVALID_VALUE;
}
int copy_on_device(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return copy_to_host((void *)to, from, bytes, stream);
}
int copy_from_peer(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes, void *stream)
{
    return to_context && from_context ? copy_on_device(to, from, bytes, stream) : INVALID_VALUE;
}

int words_set(uint64_t p, unsigned word, size_t count, void *stream)
{
    if (!takes(stream))
        return INVALID_VALUE;
    catch_up_all();
    for (size_t i = 0; i < count; i++) ((unsigned *)p)[i] = word;
    return SUCCESS;
}

/* ---- streams and events: but for such copies, what is queued is done; all of it in the order in which it came,
 * whatever the stream */

int stream_create(void **stream, unsigned flags)
{
    struct stream *s = calloc(1, sizeof *s);
    (void)flags;
    if (s)
        s->context = current;
    return (*stream = s) ? SUCCESS : OUT_OF_MEMORY;
}
int stream_destroy(void *stream) { return stream ? (free(stream), SUCCESS) : INVALID_VALUE; }
int stream_wait_event(void *stream, void *event, unsigned flags)
{
    bool others = (uintptr_t)stream < 8; /* those that programs have without asking for one */
    return event && stream && (others || takes(stream)) ? (int)flags : INVALID_VALUE;
}
int stream_wait(void *stream) { return takes(stream) ? (catch_up_all(), SUCCESS) : INVALID_VALUE; }

struct event {
    void *context;
    uint64_t copies; /* that came before it */
};
int event_create(void **event, unsigned flags)
{
    struct event *e = calloc(1, sizeof *e);
    (void)flags;
    if (e)
        e->context = current;
    return (*event = e) ? SUCCESS : OUT_OF_MEMORY;
}
int event_destroy(void *event) { return event ? (free(event), SUCCESS) : INVALID_VALUE; }
extern EXPORTED int emulated_events; /* recorded so far */
int emulated_events;
int event_record(void *event, void *stream)
{
    struct event *e = event;
    __atomic_fetch_add(&emulated_events, 1, __ATOMIC_RELAXED);
    bool others = (uintptr_t)stream < 8;
    if (!e || !stream || !(others || (takes(stream) && ((struct stream *)stream)->context == e->context)))
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    e->copies = queued;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
int event_wait(void *event)
{
    if (!event)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    catch_up(((struct event *)event)->copies);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
/* Who asks finds it passed the next time. */
int event_query(void *event)
{
    if (!event)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    bool passed = copied >= ((struct event *)event)->copies && !getenv("PRETEND_BUSY");
    pthread_mutex_unlock(&lock);
    return event_wait(event), passed ? SUCCESS : NOT_READY;
}

/* A shared object is loaded through a file in memory, which stays open: dlopen takes those of one name for the same.
 * Sections are the last thing in it, which says its size. */
static void *load_object(const char *image)
{
    Elf64_Ehdr head;
    char path[64];
    memcpy(&head, image, sizeof head);
    size_t size = head.e_shoff + (size_t)head.e_shentsize * head.e_shnum;
    int fd = head.e_machine == EM_CUDA ? -1 : memfd_create("kernel", MFD_CLOEXEC);
    bool good = fd >= 0 && write(fd, image, size) == (ssize_t)size;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *object = good ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    struct emulated_place **places = object ? dlsym(object, "emulated_places") : NULL;
    void (**barrier)(const char *, int) = object ? dlsym(object, "emulated_barrier") : NULL;
    if (!places || !barrier)
        return NULL;
    places[0] = &threadIdx;
    places[1] = &blockIdx;
    places[2] = &blockDim;
    places[3] = &gridDim;
    *barrier = emulated_barrier;
    return object;
}

int module_load(void **module, const void *image)
{
    if (!image || !*(const char *)image)
        return INVALID_IMAGE;
    *module = memcmp(image, ELFMAG, SELFMAG) ? (void *)&MEMORY : load_object(image);
    return *module ? SUCCESS : INVALID_IMAGE;
}
/* The sizes of the parameters of kernels that are not built in; for the last that was asked for. */
static struct {
    void *function;
    const size_t *size;
} parameters[1024];

static const size_t *sizes_of(emulated_fn *f)
{
    const struct emulated_kernel *k = emulated_kernel_of(f);
    int i = 0;
    if (k)
        return k->sizes;
    void *function;
    memcpy(&function, &f, sizeof f);
    while (parameters[i].function && parameters[i].function != function) i++;
    return parameters[i].size;
}

int parameter(void *function, size_t index, size_t *offset, size_t *bytes)
{
    const int NOT_SUPPORTED = 801;
    emulated_fn *f;
    memcpy(&f, &function, sizeof f);
    const size_t *size = getenv("PRETEND_DRIVER") ? NULL : sizes_of(f);
    if (!size)
        return NOT_SUPPORTED;
    *offset = 0;
    for (size_t k = 0; k < index; k++) {
        if (!size[k])
            return INVALID_VALUE;
        *offset += (size[k] + 7) / 8 * 8;
    }
    return (*bytes = size[index]) ? SUCCESS : INVALID_VALUE;
}

static void note_parameters(void *function, void *module, const char *name)
{
    char sizes[600];
    int i = 0;
    snprintf(sizes, sizeof sizes, "sizes_%s", name);
    const size_t *size = dlsym(module, sizes);
    while (parameters[i].function && parameters[i].function != function) i++;
    if (function && size && i < 1023) {
        parameters[i].size = size;
        parameters[i].function = function;
    }
}

/* Memory that a test says is on another device than 0: PRETEND_DEVICE=address:number. */
int pointer_attribute(void *value, int attribute, uint64_t address)
{
    const char *pretended = getenv("PRETEND_DEVICE"), *number = pretended ? strchr(pretended, ':') : NULL;
    if (attribute != 9 || !address)
        return INVALID_VALUE;
    *(int *)value = number && strtoull(pretended, NULL, 0) == address ? atoi(number + 1) : 0;
    return SUCCESS;
}

int module_function(void **function, void *module, const char *name)
{
    char launched[600];
    emulated_fn *f = emulated_find(name);
    snprintf(launched, sizeof launched, "launched_%s", name);
    memcpy(function, &f, sizeof f);
    if (module != (void *)&MEMORY) {
        *function = dlsym(module, launched);
        note_parameters(*function, module, name);
    }
    return module && *function ? SUCCESS : NOT_FOUND;
}
/* A kernel that is launched with more shared memory must have been set to that.  GPUs allow 48 KiB of it together with
 * what the kernel has of its own, which is not known here. */
enum { SHARED_UNASKED = 40 << 10 };
static struct {
    void *function;
    int bytes;
} allowed[1024];

/* Its entry, or the free one that it would have. */
static int allowed_to(void *function)
{
    int i = 0;
    while (i < 1023 && allowed[i].function && allowed[i].function != function) i++;
    return i;
}

int function_get(int *value, int attribute, void *function)
{
    if (!function || attribute != 8)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    *value = allowed[allowed_to(function)].bytes;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int function_set(void *function, int attribute, int value)
{
    if (!function || attribute != 8 || value <= 0)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int i = allowed_to(function);
    allowed[i].function = function;
    allowed[i].bytes = value;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static bool is_named(void *function, const char *name)
{
    emulated_fn *f = emulated_find(name);
    return f && !memcmp(&f, &function, sizeof f);
}

/* Kernels that only devices of 9.0 have, or of 10.0 as well, and those that ask for as much there alone, have what
 * those have, others what every device since 8.6 has. */
static unsigned most_shared(void *function)
{
#define OF_GROUPS(what)                                                          \
    "cu_attention_groups" what "_64_f16", "cu_attention_groups" what "_64_bf16", \
        "cu_attention_groups" what "_128_f16", "cu_attention_groups" what "_128_bf16"
    static const char *const names[] = { OF_GROUPS(""),
                                         OF_GROUPS("_to_queries"),
                                         OF_GROUPS("_to_keys"),
                                         "cu_attention_groups_256_f16",
                                         "cu_attention_groups_256_bf16",
                                         "cu_attention_parts_256_f32",
                                         "cu_attention_parts_to_queries_256_f32",
                                         "cu_attention_parts_to_keys_256_f32",
                                         "cu_product_groups_f16",
                                         "cu_product_groups_bf16",
                                         "cu_product_split_groups_f32",
                                         "cu_conv_split_groups_64_f32",
                                         "cu_conv_split_groups_128_f32",
#define X(f, bits)                                                                                 \
    "cu_qmm_groups_64_" #f "_f16", "cu_qmm_groups_64_" #f "_bf16", "cu_qmm_groups_128_" #f "_f16", \
        "cu_qmm_groups_128_" #f "_bf16", "cu_qmm_groups_256_" #f "_f16", "cu_qmm_groups_256_" #f "_bf16",
                                         QUANT_FORMATS(X)
#undef X
    };
    static const char *const there[] = { "cu_attention_split_128_f16", "cu_attention_split_128_bf16" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_named(function, names[i]))
            return 227u << 10;
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if ((major_version() == 9 || major_version() == 10) && is_named(function, there[i]))
            return 227u << 10;
    return 99u << 10;
}

static bool may_share(void *function, unsigned bytes)
{
    int set = 0;
    return bytes <= SHARED_UNASKED ||
           (!function_get(&set, 8, function) && bytes <= (unsigned)set && bytes <= most_shared(function));
}

/* A launch that is captured, and the copies of its arguments behind it; or a call of a library, of one argument. */
struct node {
    emulated_fn *f;
    struct emulated_place grid, block;
    unsigned shared;
    void **args;
    struct node *next;
    void (*call)(const void *);
    size_t bytes;
    uint64_t what;
};

static int add_node(struct node **list, const struct node *n)
{
    const size_t of_call[] = { n->bytes, 0 }, *size = n->call ? of_call : sizes_of(n->f);
    size_t count = 0, bytes = 0;
    for (; size && size[count]; count++) bytes += (size[count] + 15) / 16 * 16;
    size_t head = (sizeof *n + count * sizeof(void *) + 15) / 16 * 16;
    struct node *copy = count ? malloc(head + bytes) : NULL;
    if (!copy)
        return INVALID_VALUE;
    *copy = *n;
    copy->args = (void **)(copy + 1);
    char *at = (char *)copy + head;
    for (size_t i = 0; i < count; at += (size[i++] + 15) / 16 * 16) copy->args[i] = memcpy(at, n->args[i], size[i]);
    copy->next = NULL;
    while (*list) list = &(*list)->next;
    *list = copy;
    return SUCCESS;
}

/* Kernels that ran; for tests. */
extern EXPORTED int emulated_launched;
int emulated_launched;

/* PRETEND_IDLE in the environment: kernels do nothing, so that a profile shows what the host does. */
static void run_node(const struct node *n, void **args)
{
    static atomic_int kept; /* 1: they do; 2: they don't */
    int how = atomic_load(&kept);
    if (!how)
        atomic_store(&kept, how = getenv("PRETEND_IDLE") ? 2 : 1);
    if (how == 1 && n->call)
        n->call(args[0]);
    else if (how == 1)
        emulated_launch(n->f, args, n->grid, n->block);
    __atomic_fetch_add(&emulated_launched, 1, __ATOMIC_RELAXED);
}

int launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
           unsigned shared, void *stream, void **args, void **extra)
{
    emulated_fn *f;
    memcpy(&f, &function, sizeof f);
    const char *pretended = getenv("PRETEND_LAUNCH"); /* the error that launches end with */
    if (pretended)
        return atoi(pretended);
    struct stream *s = stream;
    if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || bx * by * bz > 1024 || !may_share(function, shared) || !s ||
        s->context != current || extra || !(s->captured || takes(s)))
        return INVALID_VALUE;
    struct node n = { f, { gx, gy, gz }, { bx, by, bz }, shared, args, NULL, NULL, 0, 0 };
    if (s->captured)
        return add_node(&s->nodes, &n);
    catch_up_all();
    run_node(&n, args);
    return SUCCESS;
}

/* What it is allowed to do ahead of time, it does not. */
int launch_with(const void *config, void *function, void **args, void **extra)
{
    const struct {
        unsigned grid[3], block[3], shared;
        void *stream;
        const struct {
            int id, unused, allowed;
            char rest[60];
        } * attributes;
        unsigned n_attributes;
    } *c = config;
    const int PROGRAMMATIC_SERIALIZATION = 6;
    for (unsigned i = 0; i < c->n_attributes; i++)
        if (c->attributes[i].id != PROGRAMMATIC_SERIALIZATION || c->attributes[i].allowed != 1)
            return INVALID_VALUE;
    return launch(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared,
                  c->stream, args, extra);
}

/* ---- graphs: chains of launches */

struct graph {
    struct stream *recorder;
    struct node *first;
    const struct graph *of; /* what it was made of, if it may be launched */
};

int capture_begin(void *stream, int mode)
{
    struct stream *s = stream;
    const int RELAXED = 2;
    if (!takes(s) || mode != RELAXED)
        return INVALID_VALUE;
    s->captured = true;
    return SUCCESS;
}
int capture_end(void *stream, void **graph)
{
    struct stream *s = stream;
    struct graph *g = calloc(1, sizeof *g);
    if (!s->captured || !g)
        return free(g), INVALID_VALUE;
    *g = (struct graph){ .recorder = s, .first = s->nodes };
    s->captured = false;
    s->nodes = NULL;
    *graph = g;
    return SUCCESS;
}

static size_t nodes_of(const struct graph *g)
{
    size_t n = 0;
    for (const struct node *x = g->first; x; x = x->next) n++;
    return n;
}

static void drop_nodes(struct graph *g)
{
    for (struct node *n = g->first, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    g->first = NULL;
}
int graph_destroy(void *graph) { return drop_nodes(graph), free(graph), SUCCESS; }
int graph_exec_destroy(void *exec) { return graph_destroy(exec); }

static void copy_nodes(struct graph *to, const struct graph *from)
{
    drop_nodes(to);
    to->recorder = from->recorder;
    for (const struct node *n = from->first; n; n = n->next) add_node(&to->first, n);
}
/* Graphs that were made, and updated, calls of libraries in graphs that were launched, and kernels of graphs that got
 * other arguments; for tests. */
extern EXPORTED int emulated_graphs[4];
int emulated_graphs[4];

int graph_instantiate(void **exec, void *graph, unsigned long long flags)
{
    struct graph *e = calloc(1, sizeof *e);
    const char *pretended = getenv("PRETEND_NO_GRAPHS"); /* or, "launch": they are made and cannot be launched */
    if (!e || flags || (pretended && strcmp(pretended, "launch") != 0))
        return free(e), OUT_OF_MEMORY;
    copy_nodes(e, graph);
    e->of = graph;
    __atomic_fetch_add(&emulated_graphs[0], 1, __ATOMIC_RELAXED);
    *exec = e;
    return SUCCESS;
}
int graph_update(void *exec, void *graph, void *result)
{
    if (!result || nodes_of(exec) != nodes_of(graph))
        return INVALID_VALUE;
    const struct node *old = ((struct graph *)exec)->first, *new = ((struct graph *)graph)->first;
    for (; new; old = old->next, new = new->next)
        if (old->what != new->what) {
            fputs("emulated driver: an update puts another kernel in the place of a library's, whose edges stay\n",
                  stderr);
            abort();
        }
    copy_nodes(exec, graph);
    __atomic_fetch_add(&emulated_graphs[1], 1, __ATOMIC_RELAXED);
    return SUCCESS;
}
int graph_launch(void *exec, void *stream)
{
    struct graph *g = exec;
    struct stream *s = stream;
    if (!takes(s))
        return INVALID_VALUE;
    if (getenv("PRETEND_NO_GRAPHS"))
        return OUT_OF_MEMORY;
    s->recorder = g->recorder;
    catch_up_all();
    for (struct node *n = g->first; n; n = n->next) {
        run_node(n, n->args);
        __atomic_fetch_add(&emulated_graphs[2], n->call != NULL, __ATOMIC_RELAXED);
    }
    return SUCCESS;
}
int graph_nodes(void *graph, void **nodes, size_t *count)
{
    struct node *n = ((struct graph *)graph)->first;
    size_t room = nodes ? *count : 0;
    for (*count = 0; n; n = n->next, ++*count)
        if (*count < room)
            nodes[*count] = n;
    return SUCCESS;
}
struct kernel_params {
    void *function;
    unsigned grid[3], block[3], shared;
    void **args, **extra;
    void *kernel, *context;
};
int kernel_node_params(void *node, void *params)
{
    const struct node *n = node;
    if (n->call)
        return INVALID_VALUE; /* it would lose what else it was launched with */
    struct kernel_params one = { NULL,
                                 { n->grid.x, n->grid.y, n->grid.z },
                                 { n->block.x, n->block.y, n->block.z },
                                 n->shared,
                                 n->args,
                                 NULL,
                                 NULL,
                                 NULL };
    memcpy(&one.function, &n->f, sizeof n->f);
    memcpy(params, &one, sizeof one);
    return SUCCESS;
}

/* Those of the graph that it was made of stand for its own. */
int kernel_node_set(void *exec, void *node, const void *params)
{
    const struct kernel_params *p = params;
    struct graph *g = exec;
    struct node **at = &g->first, *own;
    const struct node *n = g->of->first;
    for (; n && n != node; n = n->next) at = &(*at)->next;
    own = *at;
    if (!n || n->call || !may_share(p->function, p->shared) || memcmp(&p->function, &own->f, sizeof own->f))
        return INVALID_VALUE;
    struct node changed = { own->f,
                            { p->grid[0], p->grid[1], p->grid[2] },
                            { p->block[0], p->block[1], p->block[2] },
                            p->shared,
                            p->args,
                            NULL,
                            NULL,
                            0,
                            0 };
    struct node *copy = NULL;
    if (add_node(&copy, &changed))
        return OUT_OF_MEMORY;
    copy->next = own->next;
    *at = copy;
    free(own);
    __atomic_fetch_add(&emulated_graphs[3], 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

/* What a library computes at once, beside its kernels. */
EXPORTED int emulated_call(void *stream);
int emulated_call(void *stream) { return stream_wait(stream); }

/* What a library has on a stream that is captured: f of a copy of args, one of the kernels that `what` stands for.
 * 0: it is captured; 1: the stream is none that is; else an error. */
EXPORTED int emulated_capture(void *stream, void (*f)(const void *), void *args, size_t bytes, uint64_t what);
int emulated_capture(void *stream, void (*f)(const void *), void *args, size_t bytes, uint64_t what)
{
    struct stream *s = stream;
    struct node n = { .args = &args, .call = f, .bytes = bytes, .what = what };
    return s && s->captured ? add_node(&s->nodes, &n) : 1;
}
