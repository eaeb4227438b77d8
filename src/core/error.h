/* error.h: how a failure travels (docs/architecture.md, Errors).
 *
 * A thread keeps the first message it is told until the public boundary takes it.  Functions that
 * return arrays answer with MX_NIL, others with non-zero. */
#ifndef MX_CORE_ERROR_H
#define MX_CORE_ERROR_H

#include <stdbool.h>

#include "core/thread.h"

enum mx_error {
    MX_OK,
    MX_VALUE,       /* a bad argument: shape, dtype, range of a value  */
    MX_INDEX,       /* an index outside its axis */
    MX_AXIS,        /* an axis outside the array: both a value and an index error */
    MX_TYPE,        /* an argument of the wrong kind */
    MX_MEMORY,      /* could not allocate */
    MX_NO_FILE,     /* a file, or the folder of a new one, that is not there */
    MX_RUNTIME,     /* everything else: no kernel, a failing file or device */
    MX_INTERRUPTED, /* given up because the caller asked to */
    MX_USER,        /* a callback failed; its own error is kept by whoever owns the callback */
    /* To the program these are MX_RUNTIME. */
    MX_NO_VALUE,    /* what was to be computed is made of a placeholder of a transform */
    MX_NO_COMPILER, /* a kernel's text, where there is no compiler for the device */
};

#define MX_PRINTF(f, a) __attribute__((format(printf, f, a)))

struct mx_array;

/* Keep a message (the first one wins) and return MX_NIL. */
struct mx_array *mx_fail(const char *fmt, ...) MX_PRINTF(1, 2);
struct mx_array *mx_fail_as(enum mx_error kind, const char *fmt, ...) MX_PRINTF(2, 3);
/* The same for what failed while an array was being computed: mx_error_called leaves its name. */
struct mx_array *mx_fail_computing(enum mx_error kind, const char *message);
/* Puts that behind the message, if there is one. */
void mx_error_add(const char *fmt, ...) MX_PRINTF(1, 2);
/* Who is told called `op`, which may be made of others: it takes the place of the name in front of
 * the message, unless that is about computing or memory. */
void mx_error_called(const char *op);
/* The kind of what the system refused with this errno. */
enum mx_error mx_error_of_system(int why);
/* Failure of an allocation of `bytes` bytes of host memory. */
struct mx_array *mx_fail_memory(unsigned long bytes);

static inline bool mx_failed(void) { return this_thread()->error != MX_OK; }
bool mx_error_of_call(void); /* is it about the arguments of a call? */
enum mx_error mx_error_kind(void);
enum mx_error mx_error_told_as(enum mx_error kind);
const char *mx_error_message(void);
void mx_error_clear(void);

/* Calls what the program gave to let go of `payload`, if anything: it may call the library, also while a failure is
 * on its way. */
void mx_let_go(void (*dtor)(void *), void *payload);
/* While on, this thread puts that off until somebody runs what is put off. */
static inline void mx_defer_releases(bool on) { this_thread()->defers = on; }
void mx_run_releases(void);
bool mx_releases_wait(void); /* is there one to run? */

#endif
