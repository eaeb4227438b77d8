/* evaluation.c: evaluations that are over at once, and others. */
#include "run/evaluation.h"

void mx_leave_with(void (*leave)(void *), void *payload)
{
    this_thread()->leave = leave;
    this_thread()->left = payload;
}

void takes_long(void)
{
    struct thread *mine = this_thread();
    struct evaluation *e = mine->evaluation;
    if (e && !e->is_long) {
        e->is_long = true;
        for (int i = 0; i < e->n; i++) mx_retain(e->x[i]);
    }
    void (*leave)(void *) = mine->leave;
    mine->leave = NULL;
    if (leave)
        leave(mine->left);
}

enum { BRIEF_ELEMENTS = 4096 /* a microsecond or so */ };

bool is_brief(const struct batch *b)
{
    int64_t elements = 0;
    bool brief = b->reserved && !b->nwait && b->n <= BRIEF_ENTRIES && !b->stream->on->alloc;
    for (int i = 0; i < b->n && brief; i++) {
        const struct entry *e = &b->entries[i];
        brief = !e->several && (e->node->op->traits & (FUSE | VIEW)) && (elements += e->one->size) <= BRIEF_ELEMENTS;
    }
    return brief;
}
