/* scope.c: the thread's stack of borrowed arrays.
 *
 * Invariant: with no scope open the stack is empty.  Outside of any scope lent arrays would never
 * be released, so the public boundary always opens one. */
#include "core/scope.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"

enum { FIRST = 64 };
static _Thread_local mx first[FIRST];

bool scopes_grow(void)
{
    struct scopes *here = &this_thread()->scopes;
    size_t cap = here->cap ? here->cap * 2 : FIRST;
    mx *lent = here->cap ? mx_try_malloc(cap * sizeof *lent) : first;
    if (!lent) {
        mx_fail_memory(cap * sizeof *lent);
        return false;
    }
    if (here->n)
        memcpy(lent, here->lent, here->n * sizeof *lent);
    if (here->lent != first)
        free(here->lent);
    here->lent = lent;
    here->cap = cap;
    return true;
}

void scope_empty(struct scopes *here)
{
    while (here->n > here->mark) mx_release(here->lent[--here->n]);
    if (here->n || here->cap <= FIRST)
        return;
    if (here->lent != first)
        free(here->lent);
    here->lent = NULL;
    here->cap = 0;
}

bool scopes_aside(struct scopes *aside)
{
    struct scopes *here = &this_thread()->scopes;
    if (here->n && here->lent == first) { /* the room inside goes to whoever is next */
        size_t cap = 2 * FIRST;
        mx *lent = mx_malloc(cap * sizeof *lent);
        if (!lent)
            return false;
        here->lent = memcpy(lent, first, here->n * sizeof *lent);
        here->cap = cap;
    }
    *aside = *here;
    *here = (struct scopes){ .stream = here->stream };
    if (!aside->n) { /* and so it does where there is nothing in it */
        here->lent = aside->lent;
        here->cap = aside->cap;
        aside->lent = NULL;
    }
    return true;
}

void scopes_back(struct scopes *aside)
{
    struct scopes *here = &this_thread()->scopes;
    here->stream = aside->stream;
    here->mark = aside->mark;
    if (!aside->lent)
        return;
    if (here->lent != first)
        free(here->lent);
    *here = *aside;
}

size_t scope_depth(void) { return this_thread()->scopes.n; }
