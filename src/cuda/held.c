/* held.c: see held.h.
 *
 * Products are ahead of the norm, since a launch of products either makes the norm that is held, or has it recorded
 * first (takes_norm).  All of this is under the stream's lock, but for the memory of a norm, which is the thread's that
 * runs the stream's batches. */
#include "cuda/held.h"

#include <string.h>

#include "core/lock.h"
#include "cuda/gpu.h"
#include "cuda/record.h"

/* It has been reported as queued: if it fails now, the device is lost. */
static int record_or_lose(struct gpu_stream *q, void *kernel, unsigned blocks, unsigned threads, void *args)
{
    int e = record_kernel(q, kernel, blocks, threads, 0, (void *[]){ args });
    if (e)
        atomic_store(&q->gpu->lost, e);
    return e;
}

static int record_vectors(struct gpu_stream *q)
{
    struct gpu_vectors *v = &q->vectors;
    if (!v->waits)
        return 0;
    v->waits = false;
    return record_or_lose(q, v->turns ? v->turning : v->kernel, v->blocks, v->threads, v->args);
}

/* If there is one, behind the products. */
static int record_norm(struct gpu_stream *q)
{
    struct gpu_held_norm *h = &q->norm;
    if (!h->waits)
        return 0;
    h->waits = false;
    int e = record_vectors(q);
    return e ? e : record_or_lose(q, h->kernel, (unsigned)h->blocks, ROWS_THREADS, &h->args);
}

int record_held(struct gpu_stream *q)
{
    int vectors = record_vectors(q), norm = record_norm(q);
    return norm ? norm : vectors;
}

/* Does the launch that comes make the norm that is held, whose result goes to *y?  Else *y is NULL, and the norm
 * recorded. */
static bool takes_norm(struct gpu_stream *q, void **y)
{
    bool takes = y && q->norm.waits && q->norm.args.y == *y;
    if (takes)
        return true;
    if (y)
        *y = NULL;
    record_norm(q);
    return false;
}

int gpu_queue_launch(struct gpu_stream *q, void *kernel, unsigned blocks, unsigned threads, unsigned shared,
                     void *args[], void **y)
{
    lock_take(&q->lock);
    gpu_count_work(q, 1);
    bool takes = takes_norm(q, y);
    int e = record_vectors(q);
    e = e ? e : record_kernel(q, kernel, blocks, threads, shared, args);
    if (takes && !e)
        q->norm.waits = false;
    lock_give(&q->lock);
    return e;
}

/* ---- products of one vector */

static struct vector_turns *turns_of(struct gpu_vectors *v)
{
    return (struct vector_turns *)(void *)(v->args + v->bytes);
}

static bool lies_among(const void *p, const struct gpu_vectors *of)
{
    bool is = false;
    for (int i = 0; i < of->n; i++)
        is |= of->into[i] ? (uintptr_t)p - (uintptr_t)of->into[i] < of->into_bytes[i]
                          : (uintptr_t)p - (uintptr_t)of->y[i] < (uintptr_t)of->m[i] * dtype_size(of->type);
    return is;
}

/* Does each of two launches read and write nothing that the other writes? */
static bool are_apart(const struct gpu_vectors *v, const struct gpu_vectors *w)
{
    bool are = true;
    for (int i = 0; i < GPU_VECTORS_READ; i++) are &= !lies_among(v->reads[i], w) && !lies_among(w->reads[i], v);
    for (int i = 0; i < v->n; i++) are &= !lies_among(v->y[i], w);
    for (int i = 0; i < w->n; i++) are &= !lies_among(w->y[i], v);
    return are;
}

/* Has the launch that is held taken in this one, of the same vector? */
static bool joins(struct gpu_stream *q, const struct gpu_vectors *v, const void *args)
{
    struct gpu_vectors *w = &q->vectors;
    if (!w->waits || w->turning != v->turning || w->n + v->n > VECTOR_TURNED || !are_apart(v, w))
        return false;
    int64_t blocks = w->join(q->gpu, w->args, args);
    if (!blocks)
        return false;
    w->blocks = (unsigned)blocks;
    for (int i = 0, at = 0; i < GPU_VECTORS_READ; i++) {
        while (v->reads[i] && w->reads[at]) at++;
        if (v->reads[i])
            w->reads[at] = v->reads[i];
    }
    for (int i = 0; i < v->n; i++, w->n++) {
        w->y[w->n] = v->y[i];
        w->m[w->n] = v->m[i];
        w->into[w->n] = NULL;
        if (w->turns)
            turns_of(w)->y[w->n] = v->y[i];
    }
    return true;
}

int gpu_hold_vectors(struct gpu_stream *q, const struct gpu_vectors *v, const void *args, void **y)
{
    lock_take(&q->lock);
    gpu_count_work(q, 1);
    bool takes = takes_norm(q, y), joined = !takes && joins(q, v, args);
    int e = joined ? 0 : record_vectors(q);
    if (!e && !joined) {
        q->vectors = *v;
        q->vectors.waits = true;
        q->vectors.turns = false;
        memcpy(q->vectors.args, args, v->bytes);
        if (takes)
            q->norm.waits = false;
    }
    lock_give(&q->lock);
    return e;
}

/* Does the launch read anything in the memory that results are to go to, or put others there?  Of two that go to one
 * place the last stays. */
static bool uses(const struct gpu_vectors *v, const struct gpu_heads *t)
{
    bool does = false;
    for (int i = 0; i < GPU_VECTORS_READ; i++)
        does |= v->reads[i] && (uintptr_t)v->reads[i] - (uintptr_t)t->into < t->into_bytes;
    for (int i = 0; i < v->n; i++) does |= (uintptr_t)v->y[i] - (uintptr_t)t->into < t->into_bytes;
    return does;
}

/* The matrix whose results are what t begins with; negative: none of the launch that is held. */
static int find_matrix(const struct gpu_vectors *v, const struct gpu_heads *t)
{
    for (int i = 0; v->waits && v->type == t->type && i < v->n; i++)
        if (v->y[i] == t->x && v->m[i] == t->size && t->size % t->width == 0)
            return i;
    return -1;
}

/* Heads are turned before they are put elsewhere, and all of a launch by the same angles. */
static bool may_turn(struct gpu_vectors *v, int i, const struct gpu_heads *t)
{
    const struct vector_turns *had = turns_of(v);
    if (!v->turns)
        return true;
    return !had->width[i] &&
           (!had->turned || (had->apart == t->apart && memcmp(had->cosine, t->cosine, sizeof t->cosine) == 0 &&
                             memcmp(had->sine, t->sine, sizeof t->sine) == 0));
}

/* Heads that have been turned are put as they are. */
static bool may_put(struct gpu_vectors *v, int i, const struct gpu_heads *t)
{
    const struct vector_turns *had = turns_of(v);
    return !uses(v, t) && (!v->turns || !had->width[i] || had->width[i] == t->width);
}

/* The matrix that the launch may do that with; negative: none. */
static int find_heads(struct gpu_vectors *v, const struct gpu_heads *t)
{
    int i = find_matrix(v, t);
    bool may = i >= 0 && (t->pairs ? may_turn(v, i, t) : may_put(v, i, t));
    return may ? i : -1;
}

static void turn(struct gpu_vectors *v, int i, const struct gpu_heads *t)
{
    struct vector_turns *to = turns_of(v);
    to->turned |= 1 << i;
    to->apart = t->apart;
    to->width[i] = t->width;
    to->step[i] = t->width;
    memcpy(to->cosine, t->cosine, sizeof to->cosine);
    memcpy(to->sine, t->sine, sizeof to->sine);
}

static void put(struct gpu_vectors *v, int i, const struct gpu_heads *t)
{
    struct vector_turns *to = turns_of(v);
    to->width[i] = t->width;
    to->step[i] = t->step;
    to->y[i] = v->y[i] = t->y;
    v->into[i] = t->into;
    v->into_bytes[i] = t->into_bytes;
}

bool gpu_vectors_may(struct gpu_stream *q, const struct gpu_heads *t)
{
    lock_take(&q->lock);
    bool may = find_heads(&q->vectors, t) >= 0;
    lock_give(&q->lock);
    return may;
}

bool gpu_vectors_take(struct gpu_stream *q, const struct gpu_heads *t)
{
    lock_take(&q->lock);
    struct gpu_vectors *v = &q->vectors;
    struct vector_turns *to = turns_of(v);
    int i = find_heads(v, t);
    if (i >= 0 && !v->turns) {
        memset(to, 0, sizeof *to);
        for (int k = 0; k < v->n; k++) to->y[k] = v->y[k];
        v->turns = true;
    }
    if (i >= 0 && t->pairs)
        turn(v, i, t);
    else if (i >= 0)
        put(v, i, t);
    lock_give(&q->lock);
    return i >= 0;
}

/* ---- the norm of one row */

/* One that is held is recorded, and its memory let go of. */
static void end_norm(struct gpu_stream *q)
{
    lock_take(&q->lock);
    record_norm(q);
    lock_give(&q->lock);
    gpu_drop_held(q);
}

void gpu_hold_norm(struct gpu_stream *q, const struct gpu_held_norm *h)
{
    end_norm(q);
    lock_take(&q->lock);
    q->norm = *h;
    q->norm.waits = true;
    lock_give(&q->lock);
}

bool gpu_holds_norm(struct gpu_stream *q, const void *y, enum dtype t, struct rows_args *a)
{
    lock_take(&q->lock);
    bool holds = q->norm.waits && q->norm.args.y == y && q->norm.type == t;
    if (holds)
        *a = q->norm.args;
    lock_give(&q->lock);
    return holds;
}

void gpu_drop_held(struct gpu_stream *q)
{
    if (!q->norm.of[0])
        return;
    lock_take(&q->lock);
    bool waits = q->norm.waits;
    lock_give(&q->lock);
    for (size_t i = 0; i < sizeof q->norm.of / sizeof *q->norm.of && !waits; i++) {
        if (q->norm.of[i])
            buffer_release(q->norm.of[i]);
        q->norm.of[i] = NULL;
    }
}

void gpu_claim_from_held(struct gpu_stream *q, const struct buffer *b)
{
    bool has = false;
    for (size_t i = 0; i < sizeof q->norm.of / sizeof *q->norm.of; i++) has |= q->norm.of[i] == b;
    if (has)
        end_norm(q);
}
