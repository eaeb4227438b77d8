/* scope.h: who frees temporaries, and on which stream operations run.
 *
 * Each thread keeps one stack of the arrays it has lent out.  A scope is a mark on that stack, and
 * closing it releases everything above the mark.  Invariant: with no scope open the stack is
 * empty. */
#ifndef MX_CORE_SCOPE_H
#define MX_CORE_SCOPE_H

#include "core/array.h"

struct stream;

struct scope {
    size_t mark;
    struct stream *outer; /* the stream to go back to */
};

struct scope scope_open(struct stream *s); /* NULL: keep the enclosing scope's stream */
void scope_close(struct scope *sc);

/* Opens a scope until the end of the block. */
#define MX_SCOPE(s) __attribute__((cleanup(scope_close), unused)) struct scope scope_here_ = scope_open(s)

/* Code of the caller need not come back in the order it was entered in: coroutines on one thread take turns.
 * While it runs, what the thread has lent is kept aside, and the stack is empty.  False after mx_fail. */
struct scopes_aside {
    mx *lent;
    size_t n, cap;
    struct stream *stream;
};
bool scopes_aside(struct scopes_aside *a);
void scopes_back(struct scopes_aside *a);

/* Puts an array whose one reference the caller holds on the stack: it becomes borrowed. */
mx scope_lend(mx x);
/* The stream of the innermost scope; the thread's default stream outside of any. */
struct stream *scope_stream(void);
/* How many arrays this thread has on loan; 0 outside of any scope. */
size_t scope_depth(void);

#endif
