/* loopback.h: a pretended gpu.
 *
 * Memory of its own, which the host cannot touch: pages are protected except while the device
 * works on them, so a forgotten copy faults.  Work is queued, delayed, and done by the CPU kernels
 * on the device's copies. */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include <stddef.h>

void loopback_register(void);
void loopback_set_delay(unsigned microseconds); /* before each batch */
void loopback_set_memory(size_t bytes);         /* the device's size; 0: unlimited */
void loopback_fail_op(const char *name);        /* running this op fails; NULL: none */
void loopback_forget_op(const char *name);      /* there is no kernel for this op; NULL: all are there */
size_t loopback_in_use(void);
long loopback_copies(void); /* to and from the device so far */

#endif
