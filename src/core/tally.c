/* tally.c: see tally.h.
 *
 * All tallies are in a list; what a thread has counted when it ends goes to one that many may add to. */
#include "core/tally.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/lock.h"
#include "core/memory.h"

LOCK(tallies, LOCK_LEAF);
static struct tally *first;
static atomic_long others[TALLIES];
static pthread_key_t key;
static _Thread_local bool ended;

static void thread_ends(void *its)
{
    struct tally *t = its;
    lock_take(&tallies);
    for (int i = 0; i < TALLIES; i++) atomic_fetch_add(&others[i], atomic_load(&t->n[i]));
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    lock_give(&tallies);
    this_thread()->tally = NULL;
    ended = true;
    free(t);
}

__attribute__((constructor)) static void make_key(void) { pthread_key_create(&key, thread_ends); }

static struct tally *tally_new(void)
{
    struct tally *t = calloc(1, sizeof *t);
    if (!t || pthread_setspecific(key, t)) {
        free(t);
        return NULL;
    }
    lock_take(&tallies);
    t->next = first;
    t->link = &first;
    if (first)
        first->link = &t->next;
    first = t;
    lock_give(&tallies);
    return t;
}

void tally_first(int which, long by)
{
    struct tally *t = ended ? NULL : tally_new();
    this_thread()->tally = t;
    atomic_fetch_add(t ? &t->n[which] : &others[which], by);
}

long tally_sum(int which)
{
    lock_take(&tallies);
    long n = atomic_load(&others[which]);
    for (struct tally *t = first; t; t = t->next) n += atomic_load_explicit(&t->n[which], memory_order_relaxed);
    lock_give(&tallies);
    return n;
}
