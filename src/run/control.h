/* control.h: loops and branches on any backend: their bodies' operations run where the loop does. */
#ifndef MX_RUN_CONTROL_H
#define MX_RUN_CONTROL_H

#include "run/backend.h"

/* scan, while_loop, cond or the operations of a compiled function? */
bool control_is(const struct op *op);
/* Runs one of them on the thread that runs batches of s.  Non-zero after mx_fail. */
int control_run(struct stream *s, struct entry *e);

#endif
