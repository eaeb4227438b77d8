/* queue.c: see queue.h. */
#include "run/queue.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/pool.h"
#include "ops/load.h"
#include "run/eval.h"
#include "run/stop.h"

static void forget_failures(struct batch_queue *q)
{
    while (q->nfailed) failure_release(q->failed[--q->nfailed]);
}

static void keep_failure(struct batch_queue *q, struct run_failure *why)
{
    int n = 0;
    for (int i = 0; i < q->nfailed; i++)
        if (q->failed[i]->told)
            failure_release(q->failed[i]);
        else
            q->failed[n++] = q->failed[i];
    if (n < QUEUE_FAILURES)
        failure_retain(q->failed[n++] = why);
    q->nfailed = n;
}

static void finish_batch(struct batch_queue *q, const struct batch *b)
{
    struct run_failure *why = b->done->why;
    pthread_mutex_lock(&q->lock);
    /* Who gave up knows. */
    if (!b->now && why && why->kind != MX_INTERRUPTED)
        keep_failure(q, why);
    q->busy = false;
    q->done++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static void run_queued(struct batch_queue *q, struct batch *b)
{
    run_batch(b);
    finish_batch(q, b);
    batch_free(b);
}

static _Thread_local bool works; /* is this thread a worker? */

/* A worker that was sent away finds another in its place, or none. */
static bool employed(const struct batch_queue *q) { return q->started && pthread_equal(q->worker, pthread_self()); }

static void *work_on_queue(void *arg)
{
    struct batch_queue *q = arg;
    works = true;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (employed(q) && (q->busy || !q->first || q->first->turn != q->done + 1))
            pthread_cond_wait(&q->changed, &q->lock);
        if (!employed(q))
            break;
        struct batch *b = q->first;
        q->first = b->next;
        q->busy = true;
        pthread_mutex_unlock(&q->lock);
        run_queued(q, b);
        pthread_mutex_lock(&q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

void queue_init(struct batch_queue *q)
{
    memset(q, 0, sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
}

void *queue_open(struct stream *s)
{
    (void)s;
    struct batch_queue *q = mx_malloc(sizeof *q);
    if (q)
        queue_init(q);
    return q;
}

/* The child has the queue but not its worker, and the lock may have been held. */
void queue_forked(struct stream *s) { queue_init(s->queue); }

/* Waits for what came before this call, but for the last `left` batches, however much comes meanwhile; 1 if it was
 * interrupted. */
static int wait_for_given(struct batch_queue *q, uint64_t left)
{
    int64_t asked = 0;
    for (uint64_t given = q->given; q->done + left < given;)
        if (mx_wait_interruptible(&q->changed, &q->lock, &asked))
            return 1;
    return 0;
}

/* A worker that more work has come for is needed, and stays. */
int queue_rest(struct stream *s)
{
    struct batch_queue *q = s->queue;
    pthread_mutex_lock(&q->lock);
    if (wait_for_given(q, 0)) {
        pthread_mutex_unlock(&q->lock);
        return 1;
    }
    forget_failures(q);
    bool idle = q->started && !q->busy && !q->first;
    pthread_t worker = q->worker;
    if (idle) {
        q->started = false;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    if (idle)
        pthread_join(worker, NULL);
    return 0;
}

int queue_submit(struct stream *s, struct batch *b, bool here)
{
    struct batch_queue *q = s->queue;
    b->next = NULL;
    pthread_mutex_lock(&q->lock);
    b->turn = ++q->given;
    bool idle = q->done + 1 == b->turn;
    if (!q->started && !(here && idle))
        q->started = thread_start(&q->worker, work_on_queue, q);
    here = (here && idle) || !q->started; /* where no thread is to be had every thread runs what it submits */
    b->reserved = here && idle;
    if (b->reserved) {
        q->busy = true;
    } else if (!here) {
        if (q->first)
            q->last->next = b;
        else
            q->first = b;
        q->last = b;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return here;
}

/* Running b queues work for the device of s, and does no work itself, nor waits for any. */
static bool only_launches(struct stream *s, const struct batch *b)
{
    for (int i = 0; i < b->nwait; i++)
        if (!atomic_load(&b->wait[i]->done))
            return false;
    for (int i = 0; i < b->n; i++) {
        const struct node *n = b->entries[i].node;
        bool reads = n->op == &op_load; /* from a file, which may take long */
        if (reads || (!(n->op->traits & VIEW) && !backend_of(s)->supports(n)))
            return false;
    }
    return true;
}

int queue_submit_launches(struct stream *s, struct batch *b)
{
    return queue_submit(s, b, b->now || only_launches(s, b));
}

/* Batches are submitted in an order in which they can run, and threads run theirs in that order: the first of all that
 * are left need not wait for any other. */
void queue_run_now(struct stream *s, struct batch *b)
{
    struct batch_queue *q = s->queue;
    if (!b->reserved) {
        pthread_mutex_lock(&q->lock);
        while (q->busy || q->done + 1 != b->turn) pthread_cond_wait(&q->changed, &q->lock);
        q->busy = true;
        pthread_mutex_unlock(&q->lock);
    }
    run_queued(q, b);
}

int queue_hold_back(struct stream *s)
{
    enum { AHEAD = 16 }; /* batches: enough to keep a stream busy, and what they hold is bounded */
    struct batch_queue *q = s->queue;
    if (works)
        return 0;
    pthread_mutex_lock(&q->lock);
    int stopped = wait_for_given(q, AHEAD);
    pthread_mutex_unlock(&q->lock);
    return stopped;
}

int queue_synchronize(struct stream *s)
{
    struct batch_queue *q = s->queue;
    pthread_mutex_lock(&q->lock);
    if (wait_for_given(q, 0)) {
        pthread_mutex_unlock(&q->lock);
        return 1;
    }
    int failed = 0;
    for (int i = 0; i < q->nfailed && !failed; i++) {
        failed = !q->failed[i]->told;
        if (failed)
            failure_tell(q->failed[i]);
    }
    forget_failures(q);
    pthread_mutex_unlock(&q->lock);
    return failed;
}
