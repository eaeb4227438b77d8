/* error.c: each thread's first failure.
 *
 * mx_fail is one function, so that one breakpoint shows every error being born. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/array.h"
#include "core/buffer.h"

static _Thread_local struct {
    enum mx_error kind;
    char message[4096];
} failure;

static struct mx_array *fail(enum mx_error kind, const char *fmt, va_list args)
{
    if (failure.kind == MX_OK) {
        failure.kind = kind;
        vsnprintf(failure.message, sizeof failure.message, fmt, args);
    }
    return MX_NIL;
}

struct mx_array *mx_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail(MX_VALUE, fmt, args);
    va_end(args);
    return MX_NIL;
}

struct mx_array *mx_fail_as(enum mx_error kind, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail(kind, fmt, args);
    va_end(args);
    return MX_NIL;
}

struct mx_array *mx_fail_memory(unsigned long bytes)
{
    return mx_fail_as(MX_MEMORY,
                      "[malloc] could not allocate %lu bytes: %zu bytes are active, the memory limit is %zu bytes",
                      bytes, memory_active(), memory_limit());
}

bool mx_failed(void) { return failure.kind != MX_OK; }
enum mx_error mx_error_kind(void) { return failure.kind; }
const char *mx_error_message(void) { return failure.kind == MX_OK ? "" : failure.message; }
void mx_error_clear(void) { failure.kind = MX_OK; }
