/* lock.h: locks that a child of fork() finds free, with what they guard whole.
 *
 * fork() copies memory as it is: with the locks that other threads hold, and what they were in the middle of.  So all
 * locks of the library are known here and taken before a fork, level by level.  Invariant: a thread that has a lock
 * takes none but those of higher levels, and runs no functions of the program. */
#ifndef MX_CORE_LOCK_H
#define MX_CORE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

enum lock_level {
    LOCK_GRAPH,  /* of graphs, under which batches go to queues */
    LOCK_MOVING, /* of bytes on their way between host and devices */
    LOCK_DEVICE, /* of a device's driver */
    LOCK_LEAF,   /* all others: whoever has one takes no more */
    LOCK_LEVELS
};

struct lock {
    pthread_mutex_t mutex;
    struct lock *next; /* of its level */
};

/* Defines a lock of a file. */
#define LOCK(name, level)                                                                                \
    static struct lock name;                                                                             \
    __attribute__((constructor)) static void name##_survives_fork(void) { lock_survives(&name, level); } \
    static struct lock name = { PTHREAD_MUTEX_INITIALIZER, NULL }

/* From now on l, which lives until the process ends, is as above. */
void lock_survives(struct lock *l, enum lock_level level);
/* The same of one that is new. */
void lock_open(struct lock *l, enum lock_level level);

static inline void lock_take(struct lock *l) { pthread_mutex_lock(&l->mutex); }
static inline bool lock_try(struct lock *l) { return pthread_mutex_trylock(&l->mutex) == 0; }
static inline void lock_give(struct lock *l) { pthread_mutex_unlock(&l->mutex); }

/* Until the end of the block this thread is not cancelled (pthread_cancel): what it has taken, queues' turns too,
 * nobody would give back. */
#define MX_UNCANCELLED __attribute__((cleanup(cancel_again), unused)) int cancelled_before_ = cancel_later()
static inline int cancel_later(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}
static inline void cancel_again(const int *before) { pthread_setcancelstate(*before, NULL); }

#endif
