/* staging.c: large copies between the host and a GPU, through memory that stays where it is.
 *
 * A device reads and writes pinned memory by itself. What lies elsewhere the driver copies on one thread, and waits. So
 * there is a ring of pinned pieces for each direction, made when it is first of use: all threads copy to or from one
 * piece while others are on the bus. A piece is written again, or read, once its event says that its copy is done.
 * Where no pinned memory is to be had, and for small copies, the driver does it. */
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "cuda/gpu.h"

enum {
    PIECE = 4 << 20,
    LEAST = 1 << 20,   /* what is below is done before threads are awake */
    GRAIN = 256 << 10, /* bytes that one thread copies at a time */
};

static size_t piece_of(size_t left) { return left < PIECE ? left : PIECE; }

/* Under the lock: is there a ring?  Of pinned memory, else of other, which the driver reads before a call returns. */
static int open_ring(struct gpu_ring *r)
{
    int e = 0;
    for (int i = 0; i < GPU_PIECES && !e; i++)
        if (!r->event[i])
            e = cu.event_create(&r->event[i], CUDA_EVENT_NO_TIMING | CUDA_EVENT_BLOCKING);
    if (e || r->memory)
        return e;
    void *p = NULL;
    r->pinned = !r->ended && !cu.host_alloc(&p, (size_t)GPU_PIECES * PIECE);
    r->memory = r->pinned ? p : mx_try_malloc((size_t)GPU_PIECES * PIECE);
    return r->memory ? 0 : CUDA_OUT_OF_MEMORY;
}

void gpu_end_rings(struct gpu *g)
{
    struct gpu_ring *of[] = { &g->in, &g->out };
    for (int i = 0; i < 2; i++) {
        lock_take(&of[i]->lock);
        if (of[i]->pinned)
            of[i]->memory = NULL;
        of[i]->pinned = false;
        of[i]->ended = true;
        lock_give(&of[i]->lock);
    }
}

/* Is a copy of so many bytes worth pieces? */
static bool goes_in_pieces(struct gpu_ring *r, size_t bytes)
{
    if (bytes < LEAST)
        return false;
    lock_take(&r->lock);
    bool pinned = !open_ring(r) && r->pinned;
    lock_give(&r->lock);
    return pinned;
}

/* ---- to the device */

/* Other threads may have their turn between two pieces. */
static int send_piece(struct gpu_stream *q, uint64_t to, size_t at, size_t n, gpu_fill_fn *fill, void *ctx)
{
    struct gpu_ring *r = &q->gpu->in;
    int e = open_ring(r), i = r->next;
    if (!e)
        e = gpu_await_event(r->event[i]);
    if (gpu_check(q->gpu, "copy", e) || fill(ctx, r->memory + (size_t)i * PIECE, at, n))
        return 1;
    e = cu.copy_to_device(to + at, r->memory + (size_t)i * PIECE, n, q->stream);
    if (!e)
        e = cu.event_record(r->event[i], q->stream);
    r->next = (i + 1) % GPU_PIECES;
    return gpu_check(q->gpu, "copy", e);
}

int gpu_send_filled(struct gpu_stream *q, uint64_t to, size_t bytes, gpu_fill_fn *fill, void *ctx)
{
    int failed = 0;
    gpu_direct(q); /* before locks are taken; nothing is recorded meanwhile */
    for (size_t at = 0; at < bytes && !failed; at += PIECE) {
        lock_take(&q->gpu->in.lock);
        failed = send_piece(q, to, at, piece_of(bytes - at), fill, ctx);
        lock_give(&q->gpu->in.lock);
    }
    return failed;
}

struct spread {
    char *to;
    const char *from;
};

static void copy_range(void *ctx, int64_t begin, int64_t end)
{
    const struct spread *s = ctx;
    memcpy(s->to + begin, s->from + begin, (size_t)(end - begin));
}

/* memcpy by all threads */
static void copy_spread(void *to, const void *from, size_t n)
{
    struct spread s = { to, from };
    pool_for((int64_t)n, GRAIN, copy_range, &s);
}

static int fill_from_memory(void *ctx, void *piece, size_t at, size_t n)
{
    copy_spread(piece, (const char *)ctx + at, n);
    return 0;
}

int gpu_send(struct gpu_stream *q, uint64_t to, const void *from, size_t bytes)
{
    if (goes_in_pieces(&q->gpu->in, bytes))
        return gpu_send_filled(q, to, bytes, fill_from_memory, (void *)(uintptr_t)from);
    return gpu_check(q->gpu, "copy", bytes ? cu.copy_to_device(to, from, bytes, gpu_direct(q)) : 0);
}

/* ---- to the host */

/* Under the lock, on the stream for copies: all pieces are on their way, or as many as there are, while the first is
 * copied on. */
static int fetch_pieces(struct gpu *g, char *to, uint64_t from, size_t bytes)
{
    struct gpu_ring *r = &g->out;
    int e = open_ring(r);
    size_t asked = 0;
    for (size_t got = 0; got < bytes && !e; got += PIECE) {
        for (; asked < bytes && asked < got + (size_t)GPU_PIECES * PIECE && !e; asked += PIECE) {
            size_t i = asked / PIECE % GPU_PIECES;
            e = cu.copy_to_host(r->memory + i * PIECE, from + asked, piece_of(bytes - asked), g->copies);
            if (!e)
                e = cu.event_record(r->event[i], g->copies);
        }
        size_t i = got / PIECE % GPU_PIECES;
        if (!e)
            e = gpu_await_event(r->event[i]);
        if (!e)
            copy_spread(to + got, r->memory + i * PIECE, piece_of(bytes - got));
    }
    return e;
}

int gpu_fetch(struct gpu *g, void *to, uint64_t from, size_t bytes)
{
    int e = 0;
    if (goes_in_pieces(&g->out, bytes)) {
        lock_take(&g->out.lock);
        e = fetch_pieces(g, to, from, bytes);
        lock_give(&g->out.lock);
        return e;
    }
    if (bytes)
        e = cu.copy_to_host(to, from, bytes, g->copies);
    return e ? e : cu.stream_wait(g->copies);
}
