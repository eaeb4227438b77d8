/* lock.c: see lock.h. */
#include "core/lock.h"

#include <stdatomic.h>
#include <stddef.h>

static struct lock *_Atomic known[LOCK_LEVELS];
static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;
static struct lock *taken[LOCK_LEVELS]; /* by the thread that forks: those from here on */

void lock_survives(struct lock *l, enum lock_level level)
{
    l->next = atomic_load(&known[level]);
    while (!atomic_compare_exchange_weak(&known[level], &l->next, l))
        ;
}

void lock_open(struct lock *l, enum lock_level level)
{
    pthread_mutex_init(&l->mutex, NULL);
    lock_survives(l, level);
}

static void take_all(void)
{
    pthread_mutex_lock(&forking);
    for (int i = 0; i < LOCK_LEVELS; i++) {
        taken[i] = atomic_load(&known[i]);
        for (struct lock *l = taken[i]; l; l = l->next) lock_take(l);
    }
}

static void give_all(void)
{
    for (int i = LOCK_LEVELS; i-- > 0;)
        for (struct lock *l = taken[i]; l; l = l->next) lock_give(l);
    pthread_mutex_unlock(&forking);
}

/* Told first, done last: who has to wait for other threads before a fork does while they can go on. */
__attribute__((constructor(101))) static void survive_fork(void) { pthread_atfork(take_all, give_all, give_all); }
