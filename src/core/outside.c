/* outside.c: what is said of indices out of range, and how often. */
#include "core/outside.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/settings.h"

enum { UNKNOWN = -1 };
enum stage { NONE_YET, BUSY, KEPT, TOLD };

static atomic_int fails = UNKNOWN;
static atomic_int stage = NONE_YET;
static char message[1024]; /* whoever made the stage BUSY owns it */
atomic_bool outside_kept;

bool outside_fails(void)
{
    int now = atomic_load_explicit(&fails, memory_order_relaxed);
    if (now != UNKNOWN)
        return now;
    static const char *const words[] = { "error", "warn", NULL };
    atomic_compare_exchange_strong(&fails, &now, !setting_word("MLX_INDEX", words, 1));
    return atomic_load(&fails);
}

bool outside_set_fails(bool on)
{
    bool was = outside_fails();
    atomic_store(&fails, on);
    outside_again();
    return was;
}

bool outside_counts(void) { return outside_fails() || atomic_load_explicit(&stage, memory_order_relaxed) == NONE_YET; }

/* The stage, if it is `from`, becomes BUSY. */
static bool enter(int from) { return atomic_compare_exchange_strong(&stage, &from, BUSY); }

int outside_report(enum outside_use use, const char *fmt, ...)
{
    char text[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (use == OUTSIDE_NOWHERE || outside_fails()) {
        mx_fail_as(MX_INDEX, "%s", text);
        return 1;
    }
    if (enter(NONE_YET)) {
        snprintf(message, sizeof message, "%s; %s. This is said once; MLX_INDEX=error makes it an error", text,
                 use == OUTSIDE_READ ? "the nearest element is read" : "nothing is written there");
        atomic_store(&stage, KEPT);
        atomic_store(&outside_kept, true);
    }
    return 0;
}

bool outside_take(char *text, size_t size)
{
    if (!enter(KEPT))
        return false;
    snprintf(text, size, "%s", message);
    atomic_store(&outside_kept, false);
    atomic_store(&stage, TOLD);
    return true;
}

void outside_again(void)
{
    int told = TOLD;
    atomic_compare_exchange_strong(&stage, &told, NONE_YET);
}
