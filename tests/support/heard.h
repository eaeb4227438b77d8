/* heard.h: for tests of the C API: cmocka with what it needs, and an error handler that listens.
 *
 * OK(call) expects 0 and no error; FAILS(call, part) expects an error value and exactly one message
 * with `part` in it; GIVES(call, text) expects 0 and that the file's array r then prints so. */
#ifndef MX_TESTS_SUPPORT_HEARD_H
#define MX_TESTS_SUPPORT_HEARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/array.h"
#include "mlx/c/mlx.h"

static _Thread_local struct {
    int n;
    char last[4096];
} heard; /* by this thread */

static inline void listen(const char *msg, void *data)
{
    (void)data;
    heard.n++;
    snprintf(heard.last, sizeof heard.last, "%s", msg);
}

static inline void expect_heard(int n, const char *part)
{
    int got = heard.n;
    heard.n = 0;
    if (got != n || (n && !strstr(heard.last, part)))
        fail_msg("%d errors, last \"%s\", expected %d with \"%s\"", got, heard.last, n, part);
    heard.last[0] = 0;
}

#define OK(call)                                   \
    do {                                           \
        int failed_ = call;                        \
        expect_heard(0, "");                       \
        if (failed_)                               \
            fail_msg("%s failed silently", #call); \
    } while (0)
#define FAILS(call, part)      \
    do {                       \
        assert_true(call);     \
        expect_heard(1, part); \
    } while (0)

/* How many GPUs there are: the next one is not there. */
static inline int gpus_here(void)
{
    int n = 0;
    OK(mlx_device_count(&n, MLX_GPU));
    return n;
}

/* array(expected) is how the array prints. */
static inline void expect_array(mlx_array a, const char *expected)
{
    mlx_string text = mlx_string_new();
    OK(mlx_array_tostring(&text, a));
    char whole[1024];
    snprintf(whole, sizeof whole, "array(%s)", expected);
    assert_string_equal(mlx_string_data(text), whole);
    mlx_string_free(text);
}
#define GIVES(call, text)      \
    do {                       \
        OK(call);              \
        expect_array(r, text); \
    } while (0)

/* Group set-up and tear-down: all arrays made by a group must be gone in the end. */
static long live_before;

static inline int start_listening(void **state)
{
    (void)state;
    mlx_set_error_handler(listen, NULL, NULL);
    live_before = array_live_count();
    return 0;
}

static inline int all_gone(void **state)
{
    (void)state;
    mlx_set_error_handler(NULL, NULL, NULL);
    long left = array_live_count() - live_before;
    if (left)
        print_error("%ld arrays are left\n", left);
    return left != 0;
}

static inline mlx_array ints(int n, const int *v) { return mlx_array_new_data(v, &n, 1, MLX_INT32); }

static inline mlx_array floats(int n, const float *v) { return mlx_array_new_data(v, &n, 1, MLX_FLOAT32); }

#endif
