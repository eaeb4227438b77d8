/* error.c: each thread's first failure.
 *
 * mx_fail is one function, so that one breakpoint shows every error being born. */
#include "core/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/buffer.h"

struct failure {
    bool computing;
    char message[4096];
};
static _Thread_local struct failure failure;

static struct mx_array *fail_with(enum mx_error kind, const char *fmt, va_list args)
{
    if (this_thread()->error == MX_OK) {
        this_thread()->error = kind;
        failure.computing = false;
        vsnprintf(failure.message, sizeof failure.message, fmt, args);
    }
    return MX_NIL;
}

struct mx_array *mx_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_with(MX_VALUE, fmt, args);
    va_end(args);
    return MX_NIL;
}

struct mx_array *mx_fail_as(enum mx_error kind, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail_with(kind, fmt, args);
    va_end(args);
    return MX_NIL;
}

struct mx_array *mx_fail_computing(enum mx_error kind, const char *message)
{
    if (this_thread()->error == MX_OK) {
        mx_fail_as(kind, "%s", message);
        failure.computing = true;
    }
    return MX_NIL;
}

bool mx_error_of_call(void)
{
    enum mx_error kind = mx_error_told_as(this_thread()->error);
    return !failure.computing && kind >= MX_VALUE && kind <= MX_RUNTIME && kind != MX_MEMORY;
}

void mx_error_called(const char *op)
{
    char *end = failure.message[0] == '[' ? strchr(failure.message, ']') : NULL;
    size_t n = strlen(op), was = end ? (size_t)(end - failure.message - 1) : 0, rest = end ? strlen(end) + 1 : 0;
    if (!end || !mx_error_of_call() || 1 + n + rest > sizeof failure.message)
        return;
    memmove(end + n - was, end, rest);
    memcpy(failure.message + 1, op, n);
}

void mx_error_add(const char *fmt, ...)
{
    size_t n = strlen(failure.message);
    va_list args;
    va_start(args, fmt);
    if (this_thread()->error != MX_OK)
        vsnprintf(failure.message + n, sizeof failure.message - n, fmt, args);
    va_end(args);
}

enum mx_error mx_error_of_system(int why)
{
    return why == ENOENT ? MX_NO_FILE : why == ENOMEM ? MX_MEMORY : MX_RUNTIME;
}

struct mx_array *mx_fail_memory(unsigned long bytes)
{
    char largest[MEMORY_LARGEST];
    memory_largest(&host_memory, largest);
    return mx_fail_as(MX_MEMORY,
                      "[malloc] could not allocate %lu bytes: %zu bytes are active, the memory limit is %zu bytes%s",
                      bytes, memory_active(), memory_limit(), largest);
}

enum mx_error mx_error_kind(void) { return this_thread()->error; }
enum mx_error mx_error_told_as(enum mx_error kind) { return kind > MX_USER ? MX_RUNTIME : kind; }
const char *mx_error_message(void) { return this_thread()->error == MX_OK ? "" : failure.message; }
void mx_error_clear(void) { this_thread()->error = MX_OK; }

static void copy_failure(struct failure *to, const struct failure *from)
{
    to->computing = from->computing;
    memcpy(to->message, from->message, strlen(from->message) + 1);
}

/* Owners are told on a thread of the user's and between batches: an evaluation of theirs would wait for that which is
 * running. */
struct owner {
    void (*dtor)(void *);
    void *payload;
    struct owner *next;
};
static struct owner *_Atomic pending;

static bool deferred(void (*dtor)(void *), void *payload)
{
    struct owner *o = this_thread()->defers ? mx_try_malloc(sizeof *o) : NULL;
    if (!o)
        return false;
    *o = (struct owner){ dtor, payload, atomic_load(&pending) };
    while (!atomic_compare_exchange_weak(&pending, &o->next, o))
        ;
    return true;
}

void mx_let_go(void (*dtor)(void *), void *payload)
{
    struct failure kept;
    if (!dtor || deferred(dtor, payload))
        return;
    enum mx_error error = this_thread()->error;
    if (error != MX_OK)
        copy_failure(&kept, &failure);
    mx_error_clear();
    dtor(payload);
    if (error != MX_OK)
        copy_failure(&failure, &kept);
    this_thread()->error = error;
}

bool mx_releases_wait(void) { return atomic_load_explicit(&pending, memory_order_relaxed) || buffer_has_unused(); }

void mx_run_releases(void)
{
    buffer_release_unused();
    if (!atomic_load_explicit(&pending, memory_order_relaxed))
        return;
    for (struct owner *o = atomic_exchange(&pending, NULL), *next; o; o = next) {
        next = o->next;
        mx_let_go(o->dtor, o->payload);
        free(o);
    }
}
