/* backends.h: operations without a kernel on the stream's device. */
#ifndef MX_RUN_BACKENDS_H
#define MX_RUN_BACKENDS_H

#include "ops/plugin.h"
#include "run/backend.h"

/* The stream of the CPU that runs n instead; the first time for each operation the log says so.  NULL after mx_fail. */
struct stream *stream_instead(struct stream *s, const struct node *n);
/* Is it not known yet whether kernels of an operation from outside, which the CPU could run, can be compiled? */
struct plugin *first_trial(struct stream *s, const struct node *n);

#endif
