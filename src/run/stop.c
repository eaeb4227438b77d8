/* stop.c: asking now and then whether to stop. */
#include "run/stop.h"

#include <stdatomic.h>
#include <time.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/thread.h"
#include "run/eval.h"

enum { ASK_MS = 50 };

void mx_stop_when(bool (*asked)(void)) { this_thread()->stop = asked; }

static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* It may be asked in the middle of a batch, behind which the stream would put what it evaluates. */
static bool asked_to_stop(void)
{
    bool (*asked)(void) = this_thread()->stop; /* it may take itself off */
    const char *was = eval_forbid("the answer whether to stop");
    bool answer = asked && asked();
    eval_forbid(was);
    return answer;
}

bool wait_or_stop(struct event *e)
{
    bool stopped = false;
    while (this_thread()->stop && !stopped && !event_wait_for(e, ASK_MS)) stopped = asked_to_stop();
    if (stopped)
        atomic_store(&e->given_up, true);
    else
        event_wait(e);
    return stopped;
}

int64_t stop_first(void) { return this_thread()->stop ? milliseconds() + ASK_MS : INT64_MAX; }

bool stop_asked(int64_t *next)
{
    if (milliseconds() < *next)
        return false;
    bool stopped = asked_to_stop();
    *next = milliseconds() + ASK_MS;
    return stopped;
}

int mx_interrupted(int64_t *next)
{
    const struct event *running = this_thread()->running; /* what the batch that this thread runs is known by */
    bool given_up = running && atomic_load_explicit(&running->given_up, memory_order_relaxed);
    if (this_thread()->stop && !given_up) {
        if (*next)
            given_up = stop_asked(next);
        else
            *next = stop_first();
    }
    if (given_up)
        mx_fail_as(MX_INTERRUPTED, "[eval] interrupted");
    return given_up;
}

int mx_wait_interruptible(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t *next)
{
    struct timespec end = time_after(ASK_MS);
    pthread_cond_timedwait(changed, lock, &end);
    pthread_mutex_unlock(lock);
    int interrupted = mx_interrupted(next);
    pthread_mutex_lock(lock);
    return interrupted;
}
