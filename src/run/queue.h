/* queue.h: the batches of a stream, one after the other.
 *
 * A batch that somebody waits for runs on that thread when the queue is idle: handing it to the
 * worker would cost more than most small graphs do.  Invariant: one batch of a queue runs at a
 * time, in the order of submission.  A backend whose streams have more than that begins its own struct with
 * this one. */
#ifndef MX_RUN_QUEUE_H
#define MX_RUN_QUEUE_H

#include <pthread.h>

#include "run/backend.h"

enum { QUEUE_FAILURES = 8 };

struct batch_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct batch *first, *last;
    uint64_t given, done; /* how many batches came, how many have run */
    bool busy;            /* a batch runs, here or on a waiting thread */
    bool started;         /* there is a worker */
    pthread_t worker;
    int nfailed; /* of work nobody waited for: the first few, until somebody synchronizes */
    struct run_failure *failed[QUEUE_FAILURES];
};

void queue_init(struct batch_queue *q);
/* As struct device_class and struct backend have them. */
void *queue_open(struct stream *s);
int queue_rest(struct stream *s);
void queue_forked(struct stream *s);
int queue_synchronize(struct stream *s);
/* Waits until no more is left of what was given than keeps the stream busy.  1 after an interruption. */
int queue_hold_back(struct stream *s);
void queue_run_now(struct stream *s, struct batch *b);
/* Takes b over; 1 if the caller is to run it, which it is where that is wanted (`here`) and the queue is idle. */
int queue_submit(struct stream *s, struct batch *b, bool here);
/* The same for a backend that queues its work.  The caller is to run what does not keep it (no loop, nothing that the
 * CPU does in its place, nothing that waits for a batch that is not even queued), or what it waits for anyway. */
int queue_submit_launches(struct stream *s, struct batch *b);

#endif
