/* scope.h: who frees temporaries, and on which stream operations run.
 *
 * Each thread keeps one stack of the arrays it has lent out.  A scope is a mark on that stack, and
 * closing it releases everything above the mark.  Invariant: with no scope open the stack is
 * empty. */
#ifndef MX_CORE_SCOPE_H
#define MX_CORE_SCOPE_H

#include "core/array.h"
#include "core/stream.h"
#include "core/thread.h"

bool scopes_grow(void);
void scope_empty(struct scopes *here);

struct scope {
    size_t outer_mark;
    struct stream *outer; /* the stream to go back to */
};

/* NULL: keep the enclosing scope's stream. */
static inline struct scope scope_open(struct stream *s)
{
    struct scopes *here = &this_thread()->scopes;
    struct scope sc = { here->mark, here->stream };
    here->mark = here->n;
    if (s)
        here->stream = s;
    return sc;
}

static inline void scope_close(struct scope *sc)
{
    struct scopes *here = &this_thread()->scopes;
    if (here->n > here->mark) /* else all of it changed hands */
        scope_empty(here);
    here->mark = sc->outer_mark;
    here->stream = sc->outer;
}

/* Opens a scope until the end of the block. */
#define MX_SCOPE(s) __attribute__((cleanup(scope_close), unused)) struct scope scope_here_ = scope_open(s)

/* Code of the caller need not come back in the order it was entered in: coroutines on one thread take turns.
 * While it runs, what the thread has lent is kept aside, and the stack is empty.  False after mx_fail. */
bool scopes_aside(struct scopes *aside);
void scopes_back(struct scopes *aside);

/* Puts an array whose one reference the caller holds on the stack: it becomes borrowed. */
static inline mx scope_lend(mx x)
{
    struct scopes *here = &this_thread()->scopes;
    if (is_nil(x))
        return x;
    if (__builtin_expect(here->n == here->cap, 0) && !scopes_grow()) {
        mx_release(x);
        return MX_NIL;
    }
    return here->lent[here->n++] = x;
}

/* As mx_keep, of what the innermost scope may have lent last and is not to be used through it any more: then its
 * reference changes hands. */
static inline void scope_keep(mx_own *slot, mx x)
{
    struct scopes *here = &this_thread()->scopes;
    if (here->n == here->mark || here->lent[here->n - 1] != x) {
        mx_keep(slot, x);
        return;
    }
    here->n--;
    mx old = slot->it;
    slot->it = x;
    if (old)
        mx_release(old);
}

/* The stream of the innermost scope; the thread's default stream outside of any. */
static inline struct stream *scope_stream(void)
{
    struct stream *s = this_thread()->scopes.stream;
    return s ? s : thread_stream();
}
/* How many arrays this thread has on loan; 0 outside of any scope. */
size_t scope_depth(void);

#endif
