/* note.c: indices out of range, which a device notes and the host finds when the work ends (core/outside.h).
 *
 * A stream has a note that kernels write to and that stays until it is read, and a word of the host's memory beside
 * it, which they write to as well, so that looking costs nothing.  Where an index out of range is a failure, or what
 * follows depends on it, the runner waits and looks at another one at once. */
#include "cuda/kernels/note.h"

#include <string.h>

#include "cuda/gpu.h"
#include "ops/index.h"
#include "plan/factor.h"
#include "plan/lookup.h"

static const struct note empty = { .first = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                              UINT64_MAX } };

static uint64_t note_at(const struct gpu_stream *q, enum gpu_note when)
{
    return q->notes.on_device + (when == NOTE_NOW ? sizeof empty : 0);
}

static int clear_note(const struct gpu_stream *q, enum gpu_note when)
{
    return cu.copy_to_device(note_at(q, when), &empty, sizeof empty, q->stream);
}

static int open_notes(struct gpu_stream *q)
{
    uint64_t p = 0;
    int e = cu.host_alloc((void **)&q->notes.heard, 2 * sizeof(uint64_t));
    if (!e)
        e = cu.memory_alloc(&p, 2 * sizeof empty);
    if (!e)
        e = gpu_flush(q);
    if (e)
        return e;
    q->notes.on_device = p;
    q->notes.heard[NOTE_LATER] = q->notes.heard[NOTE_NOW] = 0;
    e = clear_note(q, NOTE_LATER);
    return e ? e : clear_note(q, NOTE_NOW);
}

/* Under the stream's lock, or where nobody else looks: takes the note away, if there is one. */
static int read_note(struct gpu_stream *q, enum gpu_note when, struct note *n)
{
    n->launch = 0;
    if (!q->notes.on_device || gpu_process_ends() || !*(volatile uint64_t *)&q->notes.heard[when])
        return 0;
    int e = gpu_flush(q);
    if (!e)
        e = cu.copy_to_host(n, note_at(q, when), sizeof *n, q->stream);
    if (!e)
        e = cu.stream_wait(q->stream); /* others may be noting still */
    q->notes.heard[when] = 0;          /* before the note is cleared, until when nobody writes to either */
    return e ? e : clear_note(q, when);
}

_Static_assert((int)NOTE_GIVEN == (int)INDEX_GIVEN, "a message tells of as many dimensions");

static const struct index_given *given_to(const struct run *r)
{
    if (r->node->op->id == OP_gather_axis)
        return &((const struct gather_axis_args *)r->args)->given;
    return r->node->op->id == OP_scatter_axis ? &((const struct scatter_axis_args *)r->args)->given : NULL;
}

/* Of what is indexed along an axis, where the program may have given another shape. */
static void note_given(const struct run *r, struct note_about *a)
{
    const struct index_given *g = given_to(r);
    if (!g || !g->is || a->kind != NOTE_PLACE)
        return;
    a->given.each = 1;
    for (int i = 0; i < a->ndim; i++) /* behind the grid, where the index is the same for all */
        if (a->shown >> i & 1 && a->shape[i] == 1)
            a->given.each *= r->x[1]->shape[i];
    a->given.ndim = g->ndim;
    for (int i = 0; i < g->ndim; i++) a->given.shape[i] = g->shape[i];
}

int gpu_noting(const struct run *r, struct noting *t, enum gpu_note when)
{
    struct gpu_stream *q = gpu_stream(r->stream);
    t->note = NULL;
    if (when == NOTE_LATER && !outside_counts())
        return 0;
    lock_take(&q->lock);
    int e = q->notes.on_device ? 0 : open_notes(q);
    lock_give(&q->lock);
    if (gpu_check(q->gpu, r->node->op->name, e))
        return 1;
    t->note = (struct note *)note_at(q, when);
    t->heard = &q->notes.heard[when];
    t->launch = ++q->notes.launches;
    note_given(r, &t->about);
    return 0;
}

void gpu_note_about(struct note_about *a, const char *op, int kind, enum outside_use use, int64_t count, int n,
                    const struct lookup_index *index)
{
    *a = (struct note_about){ .op = op, .kind = kind, .use = (int32_t)use, .count = count };
    for (int k = 0; k < n; k++) {
        const struct lookup_index *o = &index[k];
        a->index[k].axis = o->axis;
        a->index[k].huge = o->array->dtype == DT_uint64;
        a->index[k].size = o->size;
        a->index[k].room = o->room;
    }
}

static int64_t noted_value(const uint64_t words[NOTE_WORDS])
{
    uint64_t value = 0;
    for (int i = NOTE_WORDS; i-- > 0;) value = value << NOTE_BITS | (words[i] & ((1u << NOTE_BITS) - 1));
    return (int64_t)value;
}

static int report_note(const struct note *n)
{
    const struct note_about *a = &n->about;
    int at[NOTE_DIMS] = { 0 }, shape[NOTE_DIMS];
    int64_t place = (int64_t)(n->first[0] >> NOTE_BITS), k = place / a->count;
    place -= k * a->count;
    struct lookup_outside o = { a->op,
                                (enum outside_use)a->use,
                                a->index[k].axis,
                                a->index[k].size,
                                a->index[k].room,
                                noted_value(n->first),
                                a->index[k].huge };
    if (a->kind == NOTE_FACTOR)
        return factor_report(a->op, (enum factor_fault)a->use, a->ndim, a->shape, place);
    if (a->kind == NOTE_SEGMENT)
        return lookup_report_segment(&o, noted_value(n->first + NOTE_WORDS), place);
    if (a->kind == NOTE_MATRIX)
        return lookup_report_matrix(&o, place);
    int64_t given = 0, step = a->given.each; /* the element of the array that the program gave */
    for (int i = a->ndim; i-- > 0; place /= a->shape[i]) {
        bool shown = a->shown >> i & 1;
        shape[i] = shown ? 2 : 1;
        at[i] = shown ? (int)(place % a->shape[i]) : 0;
        given += at[i] * step;
        step *= shown ? a->shape[i] : 1;
    }
    for (int i = a->given.ndim; i-- > 0 && a->given.each; given /= a->given.shape[i]) {
        shape[i] = 2;
        at[i] = (int)(given % a->given.shape[i]);
    }
    if (a->given.each)
        return lookup_report(&o, a->given.ndim, shape, at);
    return a->kind == NOTE_CORNER ? lookup_report_corner(&o) : lookup_report(&o, a->ndim, shape, at);
}

int gpu_noted(const struct run *r, bool *any, bool reported)
{
    struct gpu_stream *q = gpu_stream(r->stream);
    struct note n = { 0 };
    int e = cu.stream_wait(gpu_direct(q));
    if (!e)
        e = read_note(q, NOTE_NOW, &n);
    *any = !e && n.launch;
    return gpu_check(q->gpu, r->node->op->name, e) || (*any && reported && report_note(&n));
}

int gpu_notes_look(struct gpu_stream *q)
{
    struct note n;
    lock_take(&q->lock);
    int e = read_note(q, NOTE_LATER, &n);
    lock_give(&q->lock);
    return gpu_check(q->gpu, "eval", e) || (n.launch && report_note(&n));
}
