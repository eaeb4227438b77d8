/* evaluation.h: evaluations that are over at once, and others.
 *
 * Most are of a few small operations, on an idle stream: nothing else happens on the thread meanwhile.  Where one is
 * found to wait, to work for longer, or to have functions of the program run, which may let go of what is evaluated, it
 * is made ready for that first. */
#ifndef MX_RUN_EVALUATION_H
#define MX_RUN_EVALUATION_H

#include "core/error.h"
#include "core/lock.h"
#include "core/thread.h"
#include "run/backend.h"

/* Evaluations of this thread call it, once, before they wait or work for long.  NULL: nothing. */
void mx_leave_with(void (*leave)(void *payload), void *payload);

/* One that this thread waits for. */
struct evaluation {
    int n;
    const mx *x; /* kept if it takes long */
    bool is_long;
    int cancelled_before;
    struct evaluation *outer;
};
/* Before this thread waits, or works for long. */
void takes_long(void);

/* In line, as small evaluations pass here. */
static inline void evaluation_begin(struct evaluation *e)
{
    e->cancelled_before = cancel_later();
    e->outer = this_thread()->evaluation;
    this_thread()->evaluation = e;
}
static inline void evaluation_end(struct evaluation *e)
{
    this_thread()->evaluation = e->outer;
    for (int i = 0; i < e->n && e->is_long; i++) mx_release(e->x[i]);
    cancel_again(&e->cancelled_before);
}
/* What others let go of meanwhile, which may be the program's. */
static inline void run_releases(void)
{
    if (!mx_releases_wait())
        return;
    takes_long();
    mx_run_releases();
}

enum { BRIEF_ENTRIES = 16 };
/* Is it done before anybody else could begin anything? */
bool is_brief(const struct batch *b);

#endif
