/* room.c: see room.h.
 *
 * A thread asks for the bounds of its stack once.  Who runs elsewhere (coroutines bring stacks of their own) is not
 * told anything. */
#define _GNU_SOURCE /* pthread_getattr_np */
#include "core/room.h"

#include <pthread.h>
#include <stdint.h>

#include "core/error.h"

/* Left for what a call needs besides those inside it: evaluation and errors take some tens of kilobytes. */
static const uintptr_t MOST_LEFT = 256 << 10;

static _Thread_local struct {
    bool known;
    uintptr_t low, high, least; /* bounds, and the address below which there is no room */
} stack;

static void find_stack(void)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size = 0;
    stack.known = true;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return;
    if (!pthread_attr_getstack(&attributes, &low, &size)) {
        stack.low = (uintptr_t)low;
        stack.high = stack.low + size;
        stack.least = stack.low + (size / 4 < MOST_LEFT ? size / 4 : MOST_LEFT);
    }
    pthread_attr_destroy(&attributes);
}

int mx_need_room(const char *op)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!stack.known)
        find_stack();
    if (here >= stack.least || here < stack.low || here >= stack.high)
        return 0;
    mx_fail_as(MX_RUNTIME,
               "[%s] expected functions inside functions that the stack of %zu bytes has room for, got more", op,
               (size_t)(stack.high - stack.low));
    return 1;
}
