/* compile.h: functions traced once and called again as graphs.
 *
 * A compiled function keeps the graphs it was traced to, the most recently used first, and finds the
 * one for a call by the constants and by the dtypes and shapes of the arrays.  Constants are numbers
 * that stand for whatever else the caller's function depends on. */
#ifndef MX_TRANSFORM_COMPILE_H
#define MX_TRANSFORM_COMPILE_H

#include "transform/transform.h"

/* What compiling does: nothing; traces; traces, merged and pruned; all that and fusion at evaluation. */
enum compile_mode { COMPILE_DISABLED, COMPILE_NO_SIMPLIFY, COMPILE_NO_FUSE, COMPILE_ENABLED };
void compile_set_mode(enum compile_mode m);
enum compile_mode compile_mode(void);

struct compiled; /* shared by reference; all of it may be called from several threads */

/* A function without traces; `name` says which in messages (copied; NULL: none).  NULL after mx_fail. */
struct compiled *compiled_new(const char *name, bool shapeless);
void compiled_retain(struct compiled *c);
void compiled_release(struct compiled *c);

/* Pushes f(x), by a trace that fits or by a new one, for which f is called on placeholders.  f must be
 * the same function in every call.  *trace gets the number of the trace, counted from 0, or -1 where f
 * was called as it is (compiling is off, or what f reads belongs to a transform around the call).  0,
 * or non-zero after mx_fail. */
int compiled_call(struct compiled *c, struct closure *f, int n_constants, const uint64_t constants[], int n,
                  const mx x[], struct mx_list *y, int64_t *trace);

/* Something of the caller's for a trace, let go of together with it. */
void compiled_attach(struct compiled *c, int64_t trace, void *payload, void (*drop)(void *));
void *compiled_payload(struct compiled *c, int64_t trace);
/* visit(payload, arg) for all that is attached, until one gives what is not 0, which is the result.  It is called under
 * a lock. */
int compiled_visit(struct compiled *c, int (*visit)(void *payload, void *arg), void *arg);

/* For what compiled_text says of the trace in hand; called from inside f.  names[i] is argument i;
 * why, NULL or a reason for tracing that the caller knows.  Both copied.  Non-zero after mx_fail: nothing is known. */
int compiled_describe(struct compiled *c, int n, const char *const names[], const char *why);
/* Every trace and why it was made, a line each; the caller frees it.  NULL after mx_fail. */
char *compiled_text(struct compiled *c);
int64_t compiled_traces(struct compiled *c); /* how many there were so far */
/* How many are kept; at least 1.  The limit of new functions is MLX_COMPILE_CACHE, else 64. */
void compiled_set_limit(struct compiled *c, int limit);
int compiled_limit(struct compiled *c);
void compiled_clear(struct compiled *c);

#endif
