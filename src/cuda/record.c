/* record.c: launches that reach the driver together.
 *
 * A launch by itself costs the driver 4 to 5 microseconds of a thread, longer than many kernels take; one that is
 * captured and updates a graph which has been launched before costs less than 2.  From the FIRST launch on, of a batch
 * or since something else was queued, launches are captured on a stream of its own, `recorder`, MOST at a time, and
 * queued on the stream as a graph.  Capturing, updating and launching take longer than two or three launches do, which
 * is all that there is between two products of a library.  A chain of kernels can be updated to any other of as many,
 * so graphs are kept by that number: the first time there is none yet, and its launches are queued one by one.
 *
 * They are launches of our kernels alone.  Those of cuBLASLt may begin before what is ahead of them has ended, and an
 * update leaves a graph's edges as they were: a kernel of ours in the place of such a one would not wait either.
 *
 * Invariant: what is recorded is queued before anything else is on the stream (gpu_direct), whichever thread
 * does that: captures are relaxed, and all of this is under the stream's lock. */
#include "cuda/gpu.h"

#include "core/settings.h"

enum { FIRST = 8, MOST = RECORDED_MOST, REFUSED = 4 };

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

static int queue_graph(struct gpu_stream *q, void *graph)
{
    void *node[2 * MOST];
    size_t n = 0;
    int e = cu.graph_nodes(graph, NULL, &n);
    if (e || n == 0)
        return e;
    struct recorded_graph *kept = n <= MOST ? &q->graph[n - 1] : NULL;
    if (kept && keep_graph(kept, graph) && (e = cu.graph_launch(kept->exec, q->stream)) != CUDA_OUT_OF_MEMORY)
        return e;
    if (kept && kept->exec)
        give_up_graph(q, kept);
    if (n > 2 * MOST)
        return CUDA_INVALID_VALUE;
    e = cu.graph_nodes(graph, node, &n);
    for (size_t i = 0; i < n && !e; i++) e = queue_one(q, node[i]);
    return e;
}

int gpu_flush(struct gpu_stream *q)
{
    void *graph = NULL;
    if (!q->recorded)
        return 0;
    q->recorded = 0;
    int e = cu.capture_end(q->recorder, &graph);
    if (!e)
        e = queue_graph(q, graph);
    if (graph)
        cu.graph_destroy(graph);
    if (e) /* launches of operations that have been reported as queued are not */
        atomic_store(&q->gpu->lost, e);
    return e;
}

void *gpu_direct(struct gpu_stream *q)
{
    lock_take(&q->lock);
    gpu_flush(q);
    q->launches = 0;
    lock_give(&q->lock);
    return q->stream;
}

static bool begin_recording(struct gpu_stream *q)
{
    if (!may_record() || q->launches < FIRST)
        return false;
    if (!q->recorder && cu.stream_create(&q->recorder, CUDA_STREAM_NON_BLOCKING)) {
        q->recorder = NULL;
        return false;
    }
    return !cu.capture_begin(q->recorder, CAPTURE_RELAXED);
}

void *gpu_launches_begin(struct gpu_stream *q)
{
    lock_take(&q->lock);
    if (!q->recorded)
        q->records = begin_recording(q);
    q->recorded += q->records;
    q->launches++;
    return q->records ? q->recorder : q->stream;
}

void gpu_launches_end(struct gpu_stream *q, bool failed)
{
    if (q->recorded >= MOST || failed)
        gpu_flush(q);
    lock_give(&q->lock);
}
