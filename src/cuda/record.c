/* record.c: launches that reach the driver together.
 *
 * A launch by itself costs the driver 4 to 5 microseconds of a thread, longer than many kernels take; one that is
 * captured and updates a graph which has been launched before costs less than 2.  From the ninth launch on, of a batch
 * or since something else was queued, launches are captured on a stream of its own, `recorder`, MOST at a time, and
 * queued on the stream as a graph.  Capturing, updating and launching take longer than two or three launches do, which
 * is all that there is between two products of a library.  A chain of kernels can be updated to any other of as many,
 * so graphs are kept by that number: the first time there is none yet, and its launches are queued one by one.
 *
 * Kernels of a library are another matter: they may look at memory before what is ahead of them has ended, which ours
 * that begin early do not, and updates leave a graph's edges as they were, so that a kernel of ours in the place of
 * such a one would not be kept back either.  A graph with some of them is kept by what they are and where they are in
 * it, and updated to nothing else; the one that was used longest ago makes room for a new one.  A stream whose graphs
 * are mostly new ones stops recording libraries.
 *
 * Invariant: what is recorded is queued before anything else is on the stream (gpu_direct), whichever thread
 * does that: captures are relaxed, and all of this is under the stream's lock. */
#include "cuda/gpu.h"

#include "core/hash.h"
#include "core/settings.h"

enum {
    ALONE = 8, /* launches in a row, after which the next are captured */
    MOST = RECORDED_MOST,
    REFUSED = 4,
    MADE = 128, /* graphs with kernels of libraries, after which a third at least must have been there */
};

/* As the driver has them. */
enum { CAPTURE_RELAXED = 2 };
struct update_result {
    int result;
    void *node, *from;
};
struct kernel_node {
    void *function;
    unsigned grid[3], block[3], shared;
    void **args, **extra;
    void *kernel, *context;
};

static bool may_record(void)
{
    static atomic_int kept;
    return setting_switch_kept(&kept, "MLX_CUDA_GRAPHS", true) && cu.capture_begin && cu.capture_end &&
           cu.graph_instantiate && cu.graph_update && cu.graph_launch && cu.graph_destroy && cu.graph_exec_destroy &&
           cu.graph_nodes && cu.kernel_node_params;
}

static int queue_one(struct gpu_stream *q, void *node)
{
    struct kernel_node k = { NULL };
    int e = cu.kernel_node_params(node, &k);
    return e ? e
             : cu.launch(k.function ? k.function : k.kernel, k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1],
                         k.block[2], k.shared, q->stream, k.args, k.extra);
}

/* Makes the one that is kept for so many launches this graph; false: there is none. */
static bool keep_graph(struct recorded_graph *kept, void *graph)
{
    struct update_result r = { 0 };
    if (kept->exec)
        return !cu.graph_update(kept->exec, graph, &r);
    if (!kept->seen || kept->refused >= REFUSED) {
        kept->seen = true;
        return false;
    }
    if (!cu.graph_instantiate(&kept->exec, graph, 0))
        return true;
    kept->exec = NULL;
    kept->refused++;
    return false;
}

static void give_up_graph(struct gpu_stream *q, struct recorded_graph *kept)
{
    cu.stream_wait(q->stream); /* it may be under way */
    cu.graph_exec_destroy(kept->exec);
    kept->exec = NULL;
    kept->refused++;
}

/* The place of the one that is kept for that key, or of the one that goes for it. */
static struct kept_graph *place_kept(struct gpu_stream *q, uint64_t key)
{
    struct kept_graph *oldest = q->kept;
    for (int i = 0; i < KEPT_GRAPHS; i++) {
        if (q->kept[i].exec && q->kept[i].key == key)
            return &q->kept[i];
        if (q->kept[i].used < oldest->used)
            oldest = &q->kept[i];
    }
    return oldest;
}

static void drop_kept(struct gpu_stream *q, struct kept_graph *k)
{
    if (!k->exec)
        return;
    cu.stream_wait(q->stream); /* it may be under way */
    cu.graph_exec_destroy(k->exec);
    *k = (struct kept_graph){ 0 };
}

static int queue_kept(struct gpu_stream *q, void *graph, uint64_t key)
{
    struct kept_graph *k = place_kept(q, key);
    struct update_result r = { 0 };
    int e = CUDA_OUT_OF_MEMORY;
    q->kept_used++;
    q->kept_made += !k->exec || k->key != key;
    if (k->exec && (k->key != key || cu.graph_update(k->exec, graph, &r)))
        drop_kept(q, k);
    for (int tries = 0; tries < 2 && e == CUDA_OUT_OF_MEMORY; tries++) {
        for (int i = 0; i < KEPT_GRAPHS && tries; i++) drop_kept(q, &q->kept[i]);
        e = k->exec ? 0 : cu.graph_instantiate(&k->exec, graph, 0);
        if (e) {
            k->exec = NULL;
            continue;
        }
        k->key = key;
        k->used = q->kept_used;
        e = cu.graph_launch(k->exec, q->stream);
    }
    return e;
}

static int queue_graph(struct gpu_stream *q, void *graph, uint64_t key)
{
    void *node[MOST];
    size_t n = 0;
    int e = cu.graph_nodes(graph, NULL, &n);
    if (e || n == 0)
        return e;
    if (key)
        return queue_kept(q, graph, hash_bytes(key, &n, sizeof n));
    if (n > MOST) /* a node for each launch */
        return CUDA_INVALID_VALUE;
    struct recorded_graph *kept = &q->graph[n - 1];
    if (keep_graph(kept, graph) && (e = cu.graph_launch(kept->exec, q->stream)) != CUDA_OUT_OF_MEMORY)
        return e;
    if (kept->exec)
        give_up_graph(q, kept);
    e = cu.graph_nodes(graph, node, &n);
    for (size_t i = 0; i < n && !e; i++) e = queue_one(q, node[i]);
    return e;
}

static int queue_held(struct gpu_stream *q);

int gpu_flush(struct gpu_stream *q)
{
    void *graph = NULL;
    int held = queue_held(q);
    if (!q->recorded)
        return held;
    uint64_t key = q->key;
    q->recorded = 0;
    q->key = 0;
    int e = cu.capture_end(q->recorder, &graph);
    if (!e)
        e = queue_graph(q, graph, key);
    if (graph)
        cu.graph_destroy(graph);
    if (e) /* launches of operations that have been reported as queued are not */
        atomic_store(&q->gpu->lost, e);
    return e ? e : held;
}

/* Under the lock. */
static void *go_direct(struct gpu_stream *q)
{
    gpu_flush(q);
    q->launches = 0;
    return q->stream;
}

void *gpu_direct(struct gpu_stream *q)
{
    lock_take(&q->lock);
    void *stream = go_direct(q);
    lock_give(&q->lock);
    return stream;
}

static bool begin_recording(struct gpu_stream *q)
{
    if (!may_record() || q->launches < ALONE)
        return false;
    if (!q->recorder && cu.stream_create(&q->recorder, CUDA_STREAM_NON_BLOCKING)) {
        q->recorder = NULL;
        return false;
    }
    return !cu.capture_begin(q->recorder, CAPTURE_RELAXED);
}

/* Where the next launch goes, but for one that is held; under the lock. */
static void *place_launch(struct gpu_stream *q)
{
    if (!q->recorded)
        q->records = begin_recording(q);
    q->recorded += q->records;
    q->launches++;
    return q->records ? q->recorder : q->stream;
}

static int queue_held(struct gpu_stream *q)
{
    struct gpu_held *h = &q->held;
    void *args[] = { &h->args };
    if (h->state != HELD_WAITS)
        return 0;
    h->state = HELD_NONE;
    int e = gpu_put_launch(q->gpu, h->kernel, (unsigned)h->blocks, ROWS_THREADS, 0, place_launch(q), args);
    if (e) /* as of a graph */
        atomic_store(&q->gpu->lost, e);
    return e;
}

static void go_on(struct gpu_stream *q)
{
    queue_held(q);
    if (q->recorded >= MOST)
        gpu_flush(q);
}

static void *next_launch(struct gpu_stream *q)
{
    go_on(q);
    return place_launch(q);
}

void *gpu_launches_begin(struct gpu_stream *q, void **y)
{
    lock_take(&q->lock);
    if (y && q->held.state == HELD_WAITS && q->held.args.y == *y)
        q->held.state = HELD_TAKEN;
    else if (y)
        *y = NULL;
    return next_launch(q);
}

/* One that waits is queued, and let go of. */
static void end_held(struct gpu_stream *q)
{
    lock_take(&q->lock);
    go_on(q);
    lock_give(&q->lock);
    gpu_drop_held(q);
}

void gpu_hold_norm(struct gpu_stream *q, const struct gpu_held *h)
{
    end_held(q);
    lock_take(&q->lock);
    q->held = *h;
    q->held.state = HELD_WAITS;
    lock_give(&q->lock);
}

bool gpu_holds_norm(struct gpu_stream *q, const void *y, enum dtype t, struct rows_args *a)
{
    lock_take(&q->lock);
    bool holds = q->held.state == HELD_WAITS && q->held.args.y == y && q->held.type == t;
    if (holds)
        *a = q->held.args;
    lock_give(&q->lock);
    return holds;
}

void gpu_drop_held(struct gpu_stream *q)
{
    if (!q->held.of[0])
        return;
    lock_take(&q->lock);
    bool waits = q->held.state != HELD_NONE;
    lock_give(&q->lock);
    for (size_t i = 0; i < sizeof q->held.of / sizeof *q->held.of && !waits; i++) {
        if (q->held.of[i])
            buffer_release(q->held.of[i]);
        q->held.of[i] = NULL;
    }
}

void gpu_claim_from_held(struct gpu_stream *q, const struct buffer *b)
{
    bool has = false;
    for (size_t i = 0; i < sizeof q->held.of / sizeof *q->held.of; i++) has |= q->held.of[i] == b;
    if (has)
        end_held(q);
}

bool gpu_records_libraries(void)
{
    static atomic_int kept;
    return setting_switch_kept(&kept, "MLX_CUDA_GRAPH_PRODUCTS", false) && may_record();
}

/* It is worth it where graphs are mostly ones that were made before. */
static bool comes_back(const struct gpu_stream *q)
{
    return q->kept_made < MADE || q->kept_used / 3 * 2 >= q->kept_made;
}

void *gpu_library_begin(struct gpu_stream *q, uint64_t what)
{
    lock_take(&q->lock);
    if (!gpu_records_libraries() || !comes_back(q))
        return go_direct(q);
    void *to = next_launch(q);
    if (q->records)
        q->key = hash_bytes(q->key ? q->key : HASH_START, (uint64_t[]){ (uint64_t)q->recorded, what }, 2 * sizeof what);
    return to;
}

void gpu_launches_end(struct gpu_stream *q, bool failed)
{
    if (q->held.state == HELD_TAKEN)
        q->held.state = failed ? HELD_WAITS : HELD_NONE;
    if (q->recorded >= MOST || failed)
        gpu_flush(q);
    lock_give(&q->lock);
}
