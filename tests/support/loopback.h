/* loopback.h: two pretended gpus.
 *
 * Memory of their own, which the host cannot touch: pages are protected except while a device works on
 * them, so a forgotten copy faults.  Work is queued and done later, by another thread, with the CPU's kernels;
 * memory that nothing has been written to yet is poisoned, so a premature read shows. */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include <stdbool.h>
#include <stddef.h>

struct stream;

void loopback_register(void);
void loopback_set_delay(unsigned microseconds); /* before each operation */
void loopback_set_memory(size_t bytes);         /* the device's size; 0: unlimited */
void loopback_fail_op(const char *name);        /* running this op fails; NULL: none */
void loopback_fail_late(const char *name);      /* the same, when the device comes to it */
void loopback_forget_op(const char *name);      /* there is no kernel for this op; NULL: all are there */
void loopback_fail_open(int after);             /* streams, after so many that open; -1: none fails */
void loopback_hold(struct stream *s);           /* which does nothing until another is held, or NULL */
/* Called between taking memory for an operation and queueing it, when other threads may do anything. */
void loopback_before_queueing(void (*f)(struct stream *s));
/* Runs kernels of libraries; a kernel that it does not know is an error where it returns false. */
void loopback_set_kernels(bool (*run)(const char *kernel, const int blocks[3], const int threads[3],
                                      const void *const *args));
size_t loopback_in_use(void);
long loopback_copies(void); /* to and from the device so far */
size_t loopback_read(void); /* bytes that went to the host so far */
/* How many batches were new, and how many were started from what was kept of one. */
long loopback_recordings(void);
long loopback_replays(void);

#endif
