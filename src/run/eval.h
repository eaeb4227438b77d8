/* eval.h: running graphs. */
#ifndef MX_RUN_EVAL_H
#define MX_RUN_EVAL_H

#include "core/array.h"
#include "run/backend.h"

/* Until it is given NULL, evaluations of this thread fail, for the sake of the operation `why`, which is
 * being computed on it: what it would wait for may be behind it.  Gives what was there. */
const char *eval_forbid(const char *why);
/* Fails where that is so. */
int eval_refused(void);
/* Evaluates; returns when all are READY, which are kept while functions of the program run.  Non-zero
 * after mx_fail; what could not be made is LAZY again, with its graph, so that a later call may succeed. */
int mx_eval(int n, const mx x[]);
/* Starts the work and returns.  Errors reach whoever waits for the arrays. */
int mx_async_eval(int n, const mx x[]);
/* x, READY, which nobody but a node under way will look at, was perhaps written over by what failed just now
 * (mx_failed): it has no value from now on, and what is made of it fails with these words. */
void mx_lose(mx x);
/* Makes x READY and its bytes current on the host. */
int mx_wait_host(mx x);

/* For backends: runs a batch's entries in order through backend->run, makes operands present on
 * the right side, releases what is no longer needed, and sets statuses and the batch's event. */
void run_batch(struct batch *b);
void batch_free(struct batch *b);
/* For operations that run others: runs an entry whose operands are READY.  Non-zero after mx_fail. */
int mx_run_entry(struct stream *s, struct entry *e);
/* The same for several as one, as struct backend has it. */
int mx_run_fused(struct stream *s, int n, struct entry *const m[], const bool wanted[]);

#endif
