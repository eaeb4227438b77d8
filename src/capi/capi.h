/* capi.h: what the files of the C API share: handles, errors, lists.
 *
 * A public handle is a pointer to a box of ours.  An entry point takes the boxes' content out with
 * the capi_in functions, calls the core, and puts the result into the box of `res` with a
 * capi_publish function, which also is where a failure is reported, once, to the error handler.
 *
 * Invariant: between two public calls no failure is kept on the thread. */
#ifndef MX_CAPI_CAPI_H
#define MX_CAPI_CAPI_H

#include <stddef.h>

#include "capi/handles.h"
#include "core/array.h"
#include "core/outside.h"
#include "core/scope.h"
#include "core/stream.h"
#include "mlx/c/mlx.h"
#include "ops/op.h"
#include "transform/custom.h"

/* Errors (capi/c_error.c).  Both report what is kept on the thread, forget it and return 1. */
int capi_report(void);
/* What failed is a call of the public function `func`, whose name the message then has. */
int capi_report_call(const char *func);
/* The same, of a call of the public function `func`. */
int capi_end_call(const char *func);
/* Fails with "[op] expected <what> for <argument>, got <found>"; func is the public function's
 * name. */
void capi_refuse(const char *func, const char *what, const char *arg, const char *found);
/* How many errors this thread has reported: tells whether a callback has had its say. */
unsigned long capi_reports(void);
/* Keeps the failure of a callback that returned `status`; `before` is capi_reports() from
 * before. */
void capi_callback_failed(int status, unsigned long before);

/* To the warning handler. */
void capi_warn(const char *msg);
/* Where a public function has waited for results, even if they were there: what is kept about indices out of range
 * goes to the warning handler. */
void capi_tell_outside(void);
static inline void capi_waited(void)
{
    if (atomic_load_explicit(&outside_kept, memory_order_relaxed))
        capi_tell_outside();
}

/* 0 if nothing failed; what is kept about indices out of range is told. */
static inline int capi_end(void)
{
    capi_waited();
    return mx_failed() ? capi_report() : 0;
}

/* Evaluates to p; fails where it is NULL. */
#define capi_out(p) capi_need(__func__, "a place for the result", #p, p)
#define capi_given(p, what) capi_need(__func__, what, #p, p)
static inline const void *capi_need(const char *func, const char *what, const char *arg, const void *p)
{
    if (!p)
        capi_refuse(func, what, arg, "NULL");
    return p;
}

/* The ctx of a handle; fails where it is empty. */
static inline void *capi_held(const char *func, const char *what, const char *arg, void *ctx)
{
    if (!ctx)
        capi_refuse(func, what, arg, "an empty handle");
    return ctx;
}

/* Arrays (capi/c_array.c) */
struct array_box {
    mx_own own;
};
/* A public function gets x: while a graph for any shape is traced, that may tie it to these shapes
 * (capi/c_shapes.c). */
void capi_note(const char *func, mx x);
mx capi_array_noted(const char *func, const char *arg, mlx_array a);
static inline mx capi_array(const char *func, const char *arg, mlx_array a)
{
    return __builtin_expect(a.ctx && !shapeless(), 1) ? ((struct array_box *)a.ctx)->own.it
                                                      : capi_array_noted(func, arg, a);
}
/* Keeps x until mx_drop(hold) where it is to be waited for: meanwhile functions of the program run (mlx_stop_when,
 * handlers), and may let go of the handle. */
static inline void capi_hold(mx_own *hold, mx x)
{
    if (!is_nil(x) && !array_readable(x))
        mx_keep(hold, x);
}
/* The array of a handle with its elements on the host; NULL after a report.  Whoever looked drops `hold`, in any case,
 * and then tells of capi_waited(): handlers may give the handle another array. */
mx capi_elements_of(const char *func, mlx_array arr, mx_own *hold);
#define capi_elements(arr, hold) capi_elements_of(__func__, arr, hold)
/* The array of a handle; fails where the handle is empty. */
#define capi_in(a) capi_array(__func__, #a, a)
/* The same for an argument that may be left out: NULL for an empty handle. */
static inline mx capi_opt(mlx_array a) { return a.ctx ? ((struct array_box *)a.ctx)->own.it : NULL; }
/* The handle's content becomes x, or a failure is reported: 0 or 1. */
int capi_publish_array(const char *func, mlx_array *res, mx x);
#define capi_publish(res, x) capi_publish_array(__func__, res, x)

/* Streams (capi/c_stream.c): NULL for an empty handle, which MX_SCOPE takes for the default, and, after
 * mx_fail, for that of a GPU that is not there. */
extern const char capi_no_stream[];
struct stream *capi_stream_refused(void);
static inline struct stream *capi_stream(mlx_stream s)
{
    return s.ctx == (const void *)capi_no_stream ? capi_stream_refused() : s.ctx;
}

/* Devices (capi/c_device.c) */
int capi_device(const char *func, const char *arg, mlx_device dev, struct device *d);
int capi_device_end(const char *func, mlx_device *res, struct device d);
#define capi_publish_device(res, d) capi_device_end(__func__, res, d)

/* Lists (capi/c_vector.c): what the ctx of the vectors points at. */
enum list_kind { ARRAYS, LISTS, NUMBERS, TEXTS };
struct list;
union slot {
    mx_own array;
    struct list *list;
    int number;
    char *text;
};
struct list {
    enum list_kind kind;
    bool lent; /* to a callback: freeing the handle does nothing, whoever lent it frees it */
    size_t n, cap;
    union slot *v;
};
/* What the handle, number or string at `value` stands for, borrowed; fails where it is empty. */
int slot_of(const char *func, const char *arg, enum list_kind kind, const void *value, union slot *out);
/* A copy to be dropped: arrays are kept, lists and texts copied.  Non-zero after a failure. */
int slot_copy(enum list_kind kind, union slot *to, union slot from);
void slot_drop(enum list_kind kind, union slot *s);

struct list *capi_list_new(enum list_kind kind); /* NULL after a failure */
void capi_list_free(struct list *l);
int capi_list_add(struct list *l, union slot value); /* a copy of it */
/* The content of the handle becomes the list, which is taken over, or a failure is reported. */
int capi_list_end(const char *func, void **ctx, struct list *l);
#define capi_publish_list(res, l) capi_list_end(__func__, (res) ? &(res)->ctx : NULL, l)
/* The arrays of a vector, kept until capi_arrays_free; NULL after a failure. */
mx *capi_arrays(const char *func, const char *arg, mlx_vector_array vec, int *n);
#define capi_in_arrays(vec, n) capi_arrays(__func__, #vec, vec, n)
void capi_arrays_free(int n, mx *x);
/* NULL after a failure: of the arrays, of the results, which are cleared, and a copy. */
struct list *capi_list_of(int n, const mx x[]);
struct list *capi_list_of_results(struct mx_list *y);
struct list *capi_list_copy(const char *func, const char *arg, const struct list *l);
/* The same, and an empty list, for the handles that a callback is given. */
struct list *capi_lend(int n, const mx x[]);
struct list *capi_lend_empty(enum list_kind kind);
/* The content of the results becomes the lists, which are cleared; dy may be NULL. */
int capi_results_end(const char *func, mlx_vector_array *res_0, struct mx_list *y, mlx_vector_array *res_1,
                     struct mx_list *dy);

/* Maps (capi/c_map.c) */
struct map;
struct map *capi_map_new(enum list_kind kind);
void capi_map_free(struct map *m);
struct map *capi_map_lend(
    const struct map *m); /* a copy for the handle that a callback is given; NULL after a failure */
int capi_map_put(struct map *m, const char *key, union slot value);
int capi_map_end(const char *func, void **ctx, struct map *m);
/* The map of a handle; NULL after a failure. */
const struct map *capi_map(const char *func, const char *arg, const void *ctx);
#define capi_in_map(m) capi_map(__func__, #m, (m).ctx)
/* Walks the entries in order of insertion: false past the last. */
bool capi_map_entry(const struct map *m, size_t i, const char **key, union slot *value);

/* Strings (capi/c_string.c): the content of `str` becomes `text`, which is taken over. */
int capi_text_end(const char *func, mlx_string *str, char *text);
char *capi_text_copy(const char *s); /* NULL after a failure */
#define capi_publish_text(str, text) capi_text_end(__func__, str, text)

/* Closures (capi/c_closure.c); NULL after a failure. */
struct closure *capi_closure(const char *func, const char *arg, mlx_closure cls);
#define capi_in_closure(cls) capi_closure(__func__, #cls, cls)
/* One more handle of the function: 0, or non-zero after mx_fail. */
int capi_closure_kwargs_keep(const char *func, const char *arg, mlx_closure_kwargs *res, mlx_closure_kwargs cls);
struct vjp_rule *capi_vjp_rule(const char *func, const char *arg, mlx_closure_custom cls);
struct vjp_rule *capi_opt_vjp(mlx_closure_custom cls); /* NULL for an empty handle */
struct jvp_rule *capi_opt_jvp(mlx_closure_custom_jvp cls);
struct vmap_rule *capi_opt_vmap(mlx_closure_custom_vmap cls);
/* The handle's content becomes f, whose reference is taken over, or a failure is reported. */
int capi_closure_end(const char *func, mlx_closure *res, struct closure *f);
#define capi_publish_closure(res, f) capi_closure_end(__func__, res, f)

/* Of a function with two results (capi/c_handles.c): what goes into the handle at `ctx`, an array, or a list, map, text
 * or closure, which is taken over. */
struct capi_half {
    enum handle_kind kind;
    void **ctx;
    void *value;
};
#define CAPI_HALF(kind, res, value) ((struct capi_half){ HANDLE_##kind, (res) ? &(res)->ctx : NULL, value })
/* The content of both handles becomes the values, or a failure is reported and both are as they were. */
int capi_both_end(const char *func, struct capi_half res_0, struct capi_half res_1);
#define capi_publish_both(res_0, res_1) capi_both_end(__func__, res_0, res_1)

/* What a callback leaves in a vector that it is given: it may fill that or replace the handle. */
struct capi_result {
    struct list *made; /* lent to the callback */
    mlx_vector_array vec;
};
bool capi_result_open(struct capi_result *r); /* false after a failure; close it in any case */
void capi_result_push(const struct capi_result *r, struct mx_list *out);
void capi_result_close(struct capi_result *r);
/* The same of the axes that a vmap rule leaves. */
struct capi_axes {
    struct list *made;
    mlx_vector_int vec;
};
bool capi_axes_open(struct capi_axes *a); /* false after a failure; close it in any case */
void capi_axes_close(struct capi_axes *a);

/* What a mlx_closure_value_and_grad holds. */
struct value_and_grad {
    struct object object;
    int (*call)(struct value_and_grad *self, int n, const mx x[], struct mx_list *y, struct mx_list *dx);
};
int capi_value_and_grad_end(const char *func, mlx_closure_value_and_grad *res, struct value_and_grad *f);

#endif
