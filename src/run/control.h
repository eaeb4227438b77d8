/* control.h: loops and branches on any backend: their bodies' operations run where the loop does. */
#ifndef MX_RUN_CONTROL_H
#define MX_RUN_CONTROL_H

#include "run/backend.h"

/* scan, while_loop or cond? */
bool control_is(const struct op *op);
/* Runs n, one of them, for results y on the thread that runs batches of s.  With `keep`, operands must not be written
 * over.  Non-zero after mx_fail. */
int control_run(struct stream *s, const struct node *n, const mx y[], bool keep);

#endif
