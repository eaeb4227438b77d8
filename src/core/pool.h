/* pool.h: the threads that kernels share. */
#ifndef MX_CORE_POOL_H
#define MX_CORE_POOL_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Calls fn(ctx, begin, end) over disjoint ranges that cover 0..n, on several threads where n is at
 * least two grains, and returns when all are done.  Ranges begin at multiples of grain.  The
 * calling thread works too.  A call from inside fn, or while another thread uses the pool, runs
 * serially on its caller: nobody waits for anybody. */
void pool_for(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t begin, int64_t end), void *ctx);
enum { POOL_MOST = 256 }; /* threads */
int pool_threads(void);
void pool_set_threads(int n); /* also MLX_NUM_THREADS; at least 1, at most POOL_MOST */

/* Signals go to the threads of the program, whose handlers expect them; faults stay where they happen.  So threads are
 * started by thread_start, and other libraries that start some are opened between these two. */
sigset_t signals_block(void);
void signals_restore(sigset_t before);
bool thread_start(pthread_t *t, void *(*f)(void *), void *arg);

#endif
