/* c_error.c: the handlers of errors and of warnings, and how messages reach them.
 *
 * A handler in force is reference counted, so that its data outlives every call under way on
 * other threads when a new one takes its place. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/lock.h"
#include "core/outside.h"
#include "run/check.h"

_Static_assert((int)MLX_CHECK_NAN == CHECK_NAN && (int)MLX_CHECK_INF == CHECK_INF, "checks are one list");

struct handler {
    atomic_int refs;
    mlx_error_handler_func call;
    void *data;
    void (*dtor)(void *);
};

static void print_error(const char *msg, void *data)
{
    (void)data;
    fprintf(stderr, "MLX error: %s\n", msg);
}

static void print_warning(const char *msg, void *data)
{
    (void)data;
    fprintf(stderr, "MLX warning: %s\n", msg);
}

enum use { ERRORS, WARNINGS };
static struct handler printing[] = { { 1, print_error, NULL, NULL }, { 1, print_warning, NULL, NULL } };
static struct handler *current[] = { &printing[ERRORS], &printing[WARNINGS] };
LOCK(lock, LOCK_LEAF);
static _Thread_local unsigned long reports;
static _Thread_local struct {
    mlx_error_kind kind;
    bool of_call;
    char message[4096];
} last;

static void release_handler(struct handler *h)
{
    if (h == &printing[ERRORS] || h == &printing[WARNINGS] || atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    mx_let_go(h->dtor, h->data);
    free(h);
}

static void hand_over(enum use use, const char *msg)
{
    lock_take(&lock);
    struct handler *h = current[use];
    if (h != &printing[use])
        atomic_fetch_add(&h->refs, 1);
    lock_give(&lock);
    h->call(msg, h->data);
    release_handler(h);
}

static void report_error(mlx_error_kind kind, bool of_call, const char *msg)
{
    last.kind = kind;
    last.of_call = of_call;
    snprintf(last.message, sizeof last.message, "%s", msg);
    reports++;
    hand_over(ERRORS, msg);
}

void capi_warn(const char *msg) { hand_over(WARNINGS, msg); }

void capi_tell_outside(void)
{
    char msg[1024];
    if (outside_take(msg, sizeof msg))
        capi_warn(msg);
}

static void set_handler(enum use use, mlx_error_handler_func handler, void *data, void (*dtor)(void *))
{
    struct handler *h = &printing[use];
    if (handler) {
        h = mx_malloc(sizeof *h);
        if (!h) {
            capi_report();
            return;
        }
        *h = (struct handler){ 1, handler, data, dtor };
    }
    lock_take(&lock);
    struct handler *former = current[use];
    current[use] = h;
    lock_give(&lock);
    release_handler(former);
}

void mlx_set_error_handler(mlx_error_handler_func handler, void *data, void (*dtor)(void *))
{
    set_handler(ERRORS, handler, data, dtor);
}

void mlx_set_warning_handler(mlx_error_handler_func handler, void *data, void (*dtor)(void *))
{
    set_handler(WARNINGS, handler, data, dtor);
}

int mlx_set_index_errors(bool *res, bool errors)
{
    if (!capi_out(res))
        return capi_report();
    *res = outside_set_fails(errors);
    return 0;
}

int mlx_set_checks(mlx_checks *res, mlx_checks checks)
{
    if (!capi_out(res))
        return capi_report();
    if ((unsigned)checks > MLX_CHECK_INF) {
        mx_fail("[set_checks] expected checks from 0 to %d, got %d", MLX_CHECK_INF, (int)checks);
        return capi_report();
    }
    *res = (mlx_checks)checks_set((enum checks)checks);
    return 0;
}

void mlx_index_warn_again(void) { outside_again(); }

void _mlx_error(const char *file, const int line, const char *fmt, ...)
{
    char msg[4096];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    if (n >= 0 && n < (int)sizeof msg)
        snprintf(msg + n, sizeof msg - (size_t)n, " at %s:%d", file, line);
    report_error(MLX_ERROR_RUNTIME, false, msg);
}

/* A failure of kind MX_USER stands for one that a callback has reported already. */
int capi_report(void)
{
    shapes_matter("an operation that fails on them"); /* the function may go on */
    enum mx_error kind = mx_error_kind();
    bool of_call = mx_error_of_call();
    if (kind == MX_USER) {
        mx_error_clear();
        return 1;
    }
    /* The handler may call the library, and fail there, so the message is taken off the thread. */
    char msg[4096];
    snprintf(msg, sizeof msg, "%s", mx_error_message());
    mx_error_clear();
    report_error((mlx_error_kind)mx_error_told_as(kind), of_call, msg);
    return 1;
}

mlx_error_kind mlx_last_error(const char **message)
{
    if (message)
        *message = last.message;
    return last.kind;
}

/* mlx_linalg_norm is "linalg.norm", mlx_fft_fft2 "fft2": as in Python, where names outside of linalg say
 * enough, but for random's split.  A function of our own that publishes for others leaves the name that is there. */
int capi_report_call(const char *func)
{
    static const char *const parts[] = { "fast_", "fft_", "random_" };
    char op[80];
    func += *func == '_';
    if (strncmp(func, "mlx_", 4))
        return capi_report();
    func += 4;
    snprintf(op, sizeof op, "%s", func);
    if (!strncmp(func, "linalg_", 7) || !strncmp(func, "random_split", 12))
        op[6] = '.';
    else
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (!strncmp(func, parts[i], strlen(parts[i])))
                snprintf(op, sizeof op, "%s", func + strlen(parts[i]));
    mx_error_called(op);
    return capi_report();
}

bool mlx_last_error_of_call(void) { return last.of_call; }

int capi_end_call(const char *func)
{
    capi_waited();
    return mx_failed() ? capi_report_call(func) : 0;
}

unsigned long capi_reports(void) { return reports; }

void capi_refuse(const char *func, const char *what, const char *arg, const char *found)
{
    if (!strncmp(func, "_mlx_", 5))
        func += 5;
    else if (!strncmp(func, "mlx_", 4))
        func += 4;
    mx_fail_as(MX_TYPE, "[%s] expected %s for `%s`, got %s", func, what, arg, found);
}

void capi_callback_failed(int status, unsigned long before)
{
    if (reports != before)
        mx_fail_as(MX_USER, "a callback failed");
    else
        mx_fail_as(MX_RUNTIME, "[closure] expected the function to return 0, got %d", status);
}
