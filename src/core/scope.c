/* scope.c: the thread's stack of borrowed arrays.
 *
 * Invariant: with no scope open the stack is empty.  Outside of any scope lent arrays would never
 * be released, so the public boundary always opens one. */
#include "core/scope.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/stream.h"

static _Thread_local struct {
    mx *lent;
    size_t n, cap;
    struct stream *stream;
    mx first[64];
} here;

static bool grow_scope(void)
{
    size_t cap = here.cap ? here.cap * 2 : 64;
    mx *lent = here.cap ? mx_try_malloc(cap * sizeof *lent) : here.first;
    if (!lent)
        return false;
    if (here.n)
        memcpy(lent, here.lent, here.n * sizeof *lent);
    if (here.lent != here.first)
        free(here.lent);
    here.lent = lent;
    here.cap = cap;
    return true;
}

struct scope scope_open(struct stream *s)
{
    struct scope sc = { here.n, here.stream };
    if (s)
        here.stream = s;
    return sc;
}

void scope_close(struct scope *sc)
{
    while (here.n > sc->mark) {
        mx x = here.lent[--here.n];
        mx_release(x);
    }
    here.stream = sc->outer;
    if (here.n == 0 && here.cap > 64) {
        free(here.lent);
        here.lent = NULL;
        here.cap = 0;
    }
}

bool scopes_aside(struct scopes_aside *a)
{
    *a = (struct scopes_aside){ .stream = here.stream };
    if (here.n == 0)
        return true;
    if (here.lent == here.first) { /* the room inside goes to whoever is next */
        size_t cap = 2 * sizeof here.first / sizeof *here.first;
        mx *lent = mx_malloc(cap * sizeof *lent);
        if (!lent)
            return false;
        here.lent = memcpy(lent, here.first, here.n * sizeof *lent);
        here.cap = cap;
    }
    a->lent = here.lent;
    a->n = here.n;
    a->cap = here.cap;
    here.lent = NULL;
    here.n = here.cap = 0;
    return true;
}

void scopes_back(struct scopes_aside *a)
{
    here.stream = a->stream;
    if (!a->lent)
        return;
    if (here.lent != here.first)
        free(here.lent);
    here.lent = a->lent;
    here.n = a->n;
    here.cap = a->cap;
}

mx scope_lend(mx x)
{
    if (is_nil(x))
        return x;
    if (here.n == here.cap && !grow_scope()) {
        mx_release(x);
        return mx_fail_memory(here.cap * 2 * sizeof(mx));
    }
    return here.lent[here.n++] = x;
}

struct stream *scope_stream(void) { return here.stream ? here.stream : default_stream(default_device()); }

size_t scope_depth(void) { return here.n; }
