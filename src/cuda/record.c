/* record.c: launches that reach the driver together.
 *
 * A launch by itself costs the driver 4 to 5 microseconds of a thread, longer than many kernels take; one of a graph
 * that has been launched before costs less than 2.  From the ninth launch on, of a batch or since something else was
 * queued, launches are recorded: they go on the stream's tape (tape.h), which has as many as have been queued before,
 * up to TAPE_MOST, and is then queued on the stream as one graph.
 *
 * What a library does is on tapes too, once it is known, and a tape that comes again has a graph of its own, which is
 * kept, and whose kernels get the arguments that differ.  A library's may look at memory before what is ahead of them
 * has ended, which ours that begin early do not, so such a graph is nobody else's; nor can a library's be updated, so
 * that it is another tape where its addresses differ.  The graph that was used longest ago makes room for a new one.  A
 * stream whose graphs are mostly new ones makes no more for a while.
 *
 * Of other tapes, of kernels of ours alone, the graph is a chain: the one that is kept for as many launches, updated to
 * these from a capture of them.  The first time there is none yet, and they are queued one by one, as few are, since
 * capturing, updating and launching take longer than two or three launches do.  MLX_CUDA_GRAPH_PRODUCTS=0 has chains
 * alone.
 *
 * Invariant: what is held (held.h) is recorded, and what is on the tape queued, before anything else is on the stream
 * (gpu_direct), whichever thread does that: captures are relaxed, and all of this is under the stream's lock. */
#include "cuda/record.h"

#include <string.h>

#include "core/settings.h"
#include "cuda/gpu.h"

enum {
    ALONE = 8,    /* launches in a row, after which the next are recorded */
    FEW = 3,      /* that are queued one by one */
    REFUSED = 4,  /* graphs of a length that could not be made, after which no more are tried */
    KEPT = 64,    /* graphs of tapes */
    SEEN = 256,   /* sets of tapes that are known to have come before, */
    WAYS = 4,     /* which have so many: two of one place would hide each other again and again */
    MADE = 256,   /* graphs of tapes, after which a third at least must have been there, */
    TRIED = 1024, /* or so many are not made */
    MOST = 4096,
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
           cu.graph_nodes && cu.kernel_node_params && cu.kernel_node_set && cu.parameter;
}

static bool may_replay(void)
{
    static atomic_int kept;
    return setting_switch_kept(&kept, "MLX_CUDA_GRAPH_PRODUCTS", true);
}

static int put_each(struct gpu_stream *q)
{
    int e = 0;
    for (int i = 0; i < q->tape.n && !e; i++) e = tape_put(q->gpu, &q->tape, i, q->stream);
    return e;
}

/* What is on the tape, as a graph that has not been queued; NULL: it cannot be. */
static void *capture(struct gpu_stream *q)
{
    void *graph = NULL;
    int e = 0;
    if (!q->recorder && cu.stream_create(&q->recorder, CUDA_STREAM_NON_BLOCKING)) {
        q->recorder = NULL;
        return NULL;
    }
    if (cu.capture_begin(q->recorder, CAPTURE_RELAXED))
        return NULL;
    for (int i = 0; i < q->tape.n && !e; i++) e = tape_put(q->gpu, &q->tape, i, q->recorder);
    if (cu.capture_end(q->recorder, &graph))
        return NULL;
    if (e && graph)
        cu.graph_destroy(graph);
    return e ? NULL : graph;
}

static void drop_exec(struct gpu_stream *q, void **exec)
{
    cu.stream_wait(q->stream); /* it may be under way */
    cu.graph_exec_destroy(*exec);
    *exec = NULL;
}

/* ---- chains of kernels of ours */

/* Makes the one that is kept for so many launches this graph; false: it cannot be. */
static bool keep_chain(struct recorded_graph *kept, void *graph)
{
    struct update_result r = { 0 };
    if (kept->exec)
        return !cu.graph_update(kept->exec, graph, &r);
    if (!cu.graph_instantiate(&kept->exec, graph, 0))
        return true;
    kept->exec = NULL;
    kept->refused++;
    return false;
}

static int queue_chain(struct gpu_stream *q)
{
    struct recorded_graph *kept = &q->graph[q->tape.n - 1];
    void *graph = kept->seen && kept->refused < REFUSED ? capture(q) : NULL;
    int e = CUDA_OUT_OF_MEMORY;
    kept->refused += kept->seen && !graph && kept->refused < REFUSED;
    kept->seen = true;
    if (graph && keep_chain(kept, graph))
        e = cu.graph_launch(kept->exec, q->stream);
    if (graph)
        cu.graph_destroy(graph);
    if (e != CUDA_OUT_OF_MEMORY)
        return e;
    if (kept->exec) {
        drop_exec(q, &kept->exec);
        kept->refused++;
    }
    return put_each(q);
}

/* ---- tapes that come again */

/* A tape's graph, with the node of each kernel of ours. */
struct kept_tape {
    uint64_t key, used; /* when it was last; 0: there is none */
    void *graph, *exec;
    void *node[TAPE_MOST];
    struct tape tape;
};

struct kept_tapes {
    struct kept_tape kept[KEPT];
    uint64_t seen[SEEN][WAYS]; /* the last first */
    uint64_t now;              /* tapes that were looked for */
    int made, again, refused;  /* graphs, or so it was tried; launches of what was there; ones that were not made */
};

static void drop_kept(struct gpu_stream *q, struct kept_tape *k)
{
    if (k->exec)
        drop_exec(q, &k->exec);
    if (k->graph)
        cu.graph_destroy(k->graph);
    tape_close(&k->tape);
    *k = (struct kept_tape){ 0 };
}

static struct kept_tapes *tapes_of(struct gpu_stream *q)
{
    if (!q->tapes && (q->tapes = mx_try_malloc(sizeof *q->tapes)))
        memset(q->tapes, 0, sizeof *q->tapes);
    return q->tapes;
}

/* The one of that tape, or the one that goes for it; NULL: there is another of its key. */
static struct kept_tape *place_kept(struct kept_tapes *all, const struct tape *t, uint64_t key)
{
    struct kept_tape *oldest = all->kept;
    for (struct kept_tape *k = all->kept; k < all->kept + KEPT; k++) {
        if (k->used && k->key == key)
            return tape_alike(&k->tape, t) ? k : NULL;
        if (k->used < oldest->used)
            oldest = k;
    }
    return oldest;
}

static bool is_node_of(void *node, const struct tape *t, int i)
{
    const struct tape_entry *e = &t->entry[i];
    struct kernel_node k = { NULL };
    void *args[TAPE_ARGUMENTS];
    bool is = !cu.kernel_node_params(node, &k) && k.function == e->kernel && k.args && k.grid[0] == e->blocks &&
              k.block[0] == e->threads && k.shared == e->shared;
    tape_arguments(t, i, args);
    for (int n = 0; n < e->n && is; n++) is = !memcmp(k.args[n], args[n], e->size[n]);
    return is;
}

/* Finds the node of each kernel of ours, among which those of libraries are, of any number. */
static bool find_nodes(struct kept_tape *k)
{
    enum { NODES = 4 * TAPE_MOST };
    void *node[NODES];
    size_t n = 0, at = 0;
    if (cu.graph_nodes(k->graph, NULL, &n) || n > NODES || cu.graph_nodes(k->graph, node, &n))
        return false;
    for (int i = 0; i < k->tape.n; i++) {
        if (!k->tape.entry[i].kernel)
            continue;
        while (at < n && !is_node_of(node[at], &k->tape, i)) at++;
        if (at == n)
            return false;
        k->node[i] = node[at++];
    }
    return true;
}

/* Where it cannot be made, the one that was there stays. */
static bool make_kept(struct gpu_stream *q, struct kept_tape *k, uint64_t key)
{
    struct kept_tape made = { .key = key, .graph = capture(q) };
    if (made.graph && tape_copy(&made.tape, &q->tape) && find_nodes(&made) &&
        !cu.graph_instantiate(&made.exec, made.graph, 0)) {
        drop_kept(q, k);
        *k = made;
        return true;
    }
    made.exec = NULL;
    drop_kept(q, &made);
    return false;
}

static bool update_kept(struct kept_tape *k, const struct tape *t)
{
    void *args[TAPE_ARGUMENTS];
    for (int i = 0; i < t->n; i++) {
        const struct tape_entry *e = &t->entry[i];
        if (!e->kernel || tape_same(&k->tape, t, i))
            continue;
        tape_arguments(t, i, args);
        struct kernel_node to = { e->kernel, { e->blocks, 1, 1 }, { e->threads, 1, 1 }, e->shared, args, NULL, NULL,
                                  NULL };
        if (cu.kernel_node_set(k->exec, k->node[i], &to))
            return false;
        tape_update(&k->tape, t, i);
    }
    return true;
}

/* Have graphs mostly been launched again? */
static bool is_worth_it(struct kept_tapes *all)
{
    if (all->made < MADE || all->again >= all->made / 2)
        return true;
    if (++all->refused == TRIED)
        all->made = all->again = all->refused = 0;
    return false;
}

/* Has a tape of that key come lately?  It has now. */
static bool was_seen(struct kept_tapes *all, uint64_t key)
{
    uint64_t *seen = all->seen[key % SEEN];
    int at = 0;
    while (at < WAYS - 1 && seen[at] != key) at++;
    bool was = seen[at] == key;
    memmove(seen + 1, seen, (size_t)at * sizeof *seen);
    seen[0] = key;
    return was;
}

/* false: nothing is queued. */
static bool replay(struct gpu_stream *q, int *e)
{
    struct kept_tapes *all = tapes_of(q);
    if (!all)
        return false;
    uint64_t key = tape_key(&q->tape);
    struct kept_tape *k = place_kept(all, &q->tape, key);
    if (!k) /* two of one key */
        return false;
    bool there = k->used && k->key == key; /* else it is the oldest, or a free one */
    all->now++;
    if (!there) {
        bool comes_again = was_seen(all, key) && is_worth_it(all);
        all->made += comes_again;
        if (!comes_again || !make_kept(q, k, key))
            return false;
    } else if (!update_kept(k, &q->tape)) {
        drop_kept(q, k);
        return false;
    }
    all->again += there;
    if (all->again == MOST) { /* what was long ago counts for less */
        all->again /= 2;
        all->made /= 2;
    }
    k->used = all->now;
    *e = cu.graph_launch(k->exec, q->stream);
    if (*e == CUDA_OUT_OF_MEMORY)
        for (int i = 0; i < KEPT; i++) drop_kept(q, &all->kept[i]);
    return *e != CUDA_OUT_OF_MEMORY;
}

/* ---- */

static int queue_tape(struct gpu_stream *q)
{
    int e = 0;
    if (q->tape.n > FEW && may_replay() && replay(q, &e))
        return e;
    return q->tape.n > FEW && !q->tape.libraries ? queue_chain(q) : put_each(q);
}

static int flush_tape(struct gpu_stream *q)
{
    int e = q->tape.n ? queue_tape(q) : 0;
    tape_clear(&q->tape);
    if (e) /* launches of operations that have been reported as queued are not */
        atomic_store(&q->gpu->lost, e);
    return e;
}

int gpu_flush(struct gpu_stream *q)
{
    int held = record_held(q), e = flush_tape(q);
    return e ? e : held;
}

/* Under the lock. */
static void *go_direct(struct gpu_stream *q)
{
    gpu_count_work(q, 1);
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

/* Does the next launch go on the tape?  Under the lock, as what follows. */
static bool records_next(struct gpu_stream *q)
{
    bool records = q->launches >= ALONE && may_record();
    q->launches++;
    return records;
}

/* Has work that was queued before the last event not passed? */
static bool is_busy(struct gpu_stream *q)
{
    return q->now && atomic_load(&q->passed) < q->now &&
           cu.event_query(q->event[(q->now - 1) % RING]) == CUDA_NOT_READY;
}

/* A tape is as long as all that was queued ahead of it: the device begins early, and there are few tapes.  While it is
 * busy a tape waits for more, since between two graphs it rests for 3 us. */
static void after_entry(struct gpu_stream *q)
{
    enum { ASKED = 8 };
    int n = q->tape.n;
    if (n == TAPE_MOST || (2 * n >= q->launches && n % ASKED == 0 && !is_busy(q)))
        flush_tape(q);
}

int record_kernel(struct gpu_stream *q, void *kernel, unsigned blocks, unsigned threads, unsigned shared, void *args[])
{
    if (records_next(q) && tape_add_kernel(&q->tape, kernel, blocks, threads, shared, args)) {
        after_entry(q);
        return 0;
    }
    flush_tape(q);
    return gpu_put_launch(q->gpu, kernel, blocks, threads, shared, q->stream, args);
}

bool gpu_queue_library(struct gpu_stream *q, gpu_library_fn *f, const void *what, size_t bytes)
{
    lock_take(&q->lock);
    bool queued = may_replay();
    if (queued) {
        gpu_count_work(q, 1);
        record_held(q);
        queued = records_next(q) && tape_add_library(&q->tape, f, what, bytes);
        after_entry(q);
    }
    lock_give(&q->lock);
    return queued;
}

void *gpu_library_begin(struct gpu_stream *q)
{
    lock_take(&q->lock);
    int launches = q->launches;
    void *stream = go_direct(q);
    q->launches = may_replay() ? launches : 0;
    return stream;
}

void gpu_library_end(struct gpu_stream *q) { lock_give(&q->lock); }
