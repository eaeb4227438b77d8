/* stop.h: evaluations that are given up. */
#ifndef MX_RUN_STOP_H
#define MX_RUN_STOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/stream.h"

/* Evaluations of this thread ask now and then whether to give up (MX_INTERRUPTED).  NULL: never. */
void mx_stop_when(bool (*stop)(void));
/* For operations that run for long: fails where this thread's evaluations are to stop.  *next is 0 at
 * first, and kept by the caller. */
int mx_interrupted(int64_t *next);
/* As pthread_cond_wait, for a moment at most; then as mx_interrupted, without the lock. */
int mx_wait_interruptible(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t *next);

/* Waits for it; true: the program wants to stop, and it is given up. */
bool wait_or_stop(struct event *e);
/* When this thread is to ask first, for stop_asked between entries of a batch; INT64_MAX: never. */
int64_t stop_first(void);
/* Asks if it is time to. */
bool stop_asked(int64_t *next);

#endif
