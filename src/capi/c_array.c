/* c_array.c: array handles.
 *
 * The box is made when the handle first gets an array.  Looking at elements evaluates, and no scope
 * is open while that goes on, so that use counts are exact. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/print.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "transform/graph.h"

mx capi_array_noted(const char *func, const char *arg, mlx_array a)
{
    if (!a.ctx) {
        capi_refuse(func, "an array", arg, "an empty handle");
        return MX_NIL;
    }
    mx x = ((struct array_box *)a.ctx)->own.it;
    if (shapeless())
        capi_note(func, x);
    return x;
}

int capi_publish_array(const char *func, mlx_array *res, mx x)
{
    if (__builtin_expect(!capi_need(func, "a place for the result", "res", res) || is_nil(x) || mx_failed(), 0))
        return capi_report_call(func);
    struct array_box *b = res->ctx;
    if (!b) {
        b = mx_slab(sizeof *b);
        if (!b)
            return capi_report();
        if (capi_made(HANDLE_array, b, func)) {
            slab_free(b, sizeof *b);
            return capi_report();
        }
        b->own.it = NULL;
        res->ctx = b;
    }
    scope_keep(&b->own, x);
    return 0;
}

static mlx_array made_by(const char *func, mx x)
{
    mlx_array a = { NULL };
    capi_publish_array(func, &a, x);
    return a;
}
#define made(x) made_by(__func__, x)

size_t mlx_dtype_size(mlx_dtype dtype)
{
    if ((unsigned)dtype >= DT_COUNT) {
        mx_fail_as(MX_TYPE, "[dtype_size] expected a dtype, got %d", (int)dtype);
        capi_report();
        return 0;
    }
    return dtype_size((enum dtype)dtype);
}

mlx_array mlx_array_new(void) { return (mlx_array){ NULL }; }

int mlx_array_free(mlx_array arr)
{
    struct array_box *b = arr.ctx;
    if (!b)
        return 0;
    capi_gone(HANDLE_array, b);
    mx_drop(&b->own);
    slab_free(b, sizeof *b);
    return 0;
}

int mlx_array_set(mlx_array *arr, const mlx_array src) { return capi_publish(arr, capi_in(src)); }

#define SCALAR(name, type, value)                      \
    mlx_array mlx_array_new_##name(type val)           \
    {                                                  \
        MX_SCOPE(NULL);                                \
        return made(value);                            \
    }                                                  \
    int mlx_array_set_##name(mlx_array *arr, type val) \
    {                                                  \
        MX_SCOPE(NULL);                                \
        return capi_publish(arr, value);               \
    }

SCALAR(bool, bool, array_of_int(val, DT_bool_))
SCALAR(int, int, array_of_int(val, DT_int32))
SCALAR(float32, float, array_of_double(val, DT_float32))
SCALAR(float, float, array_of_double(val, DT_float32))
SCALAR(float64, double, array_of_double(val, DT_float64))
SCALAR(double, double, array_of_double(val, DT_float64))

mlx_array mlx_array_new_complex(float real_val, float imag_val)
{
    MX_SCOPE(NULL);
    return made(array_of_complex(real_val, imag_val, DT_complex64));
}

int mlx_array_set_complex(mlx_array *arr, float real_val, float imag_val)
{
    MX_SCOPE(NULL);
    return capi_publish(arr, array_of_complex(real_val, imag_val, DT_complex64));
}

/* Number of elements that the caller's memory must hold; -1 after a failure. */
static int64_t check_data(const char *op, const void *data, const int *shape, int dim, mlx_dtype dtype)
{
    if ((unsigned)dtype >= DT_COUNT) {
        mx_fail_as(MX_TYPE, "[%s] expected a dtype, got %d", op, (int)dtype);
        return -1;
    }
    if (dim < 0 || dim > MX_MAX_NDIM) {
        mx_fail("[%s] expected 0 to %d dimensions, got %d", op, MX_MAX_NDIM, dim);
        return -1;
    }
    if (dim > 0 && !shape) {
        mx_fail_as(MX_TYPE, "[%s] expected %d sizes in `shape`, got NULL", op, dim);
        return -1;
    }
    int64_t size = shape_size(op, dim, shape);
    if (size > 0 && !data) {
        mx_fail_as(MX_TYPE, "[%s] expected elements at `data`, got NULL", op);
        return -1;
    }
    return size;
}

static mx of_data(const char *op, const void *data, const int *shape, int dim, mlx_dtype dtype)
{
    if (check_data(op, data, shape, dim, dtype) < 0)
        return MX_NIL;
    return array_of_data((enum dtype)dtype, dim, shape, data);
}

mlx_array mlx_array_new_data(const void *data, const int *shape, int dim, mlx_dtype dtype)
{
    MX_SCOPE(NULL);
    return made(of_data("array_new_data", data, shape, dim, dtype));
}

int mlx_array_set_data(mlx_array *arr, const void *data, const int *shape, int dim, mlx_dtype dtype)
{
    MX_SCOPE(NULL);
    return capi_publish(arr, of_data("array_set_data", data, shape, dim, dtype));
}

/* What is to be done with the caller's memory in the end; nothing while the array is not made
 * yet. */
struct managed {
    void (*dtor)(void *);
    void *payload;
};

static void end_managed(void *payload)
{
    struct managed *m = payload;
    mx_let_go(m->dtor, m->payload);
    free(m);
}

/* The lowest and the highest place of an element, counted in elements from the first: false past 2^62. */
static bool strides_reach(int dim, const int *shape, const int64_t *strides, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int i = 0; i < dim; i++) {
        int64_t far, *end = strides[i] < 0 ? low : high;
        if (__builtin_mul_overflow(shape[i] - 1, strides[i], &far) || __builtin_add_overflow(*end, far, end) ||
            *end > INT64_MAX / 2 || *end < INT64_MIN / 2)
            return false;
    }
    return true;
}

/* An array on the caller's memory, of the device of s where it is given; strides NULL: row-major. */
static mlx_array borrow(const char *func, struct stream *s, const void *data, const int *shape, const int64_t *strides,
                        int dim, mlx_dtype dtype, void *payload, void (*dtor)(void *))
{
    MX_SCOPE(NULL);
    mlx_array none = { NULL };
    int64_t size = check_data(func + 4, data, shape, dim, dtype), low = 0, high = size - 1;
    size_t align = size < 0 ? 1 : dtype == MLX_COMPLEX64 && !s ? sizeof(float) : dtype_size((enum dtype)dtype);
    if ((uintptr_t)data % align) {
        mx_fail("[%s] expected `data` at a multiple of %zu bytes for %s, got %p", func + 4, align,
                dtype_name((enum dtype)dtype), data);
        size = -1;
    }
    if (size > 0 && strides && !strides_reach(dim, shape, strides, &low, &high)) {
        mx_fail("[%s] expected strides that stay inside of memory, got some that leave it", func + 4);
        size = -1;
    }
    int64_t item = size < 0 ? 0 : (int64_t)dtype_size((enum dtype)dtype), span = 0, before = 0;
    uintptr_t end;
    if (size > 0 && (__builtin_mul_overflow(high - low + 1, item, &span) ||
                     __builtin_mul_overflow(low, item, &before) || (uintptr_t)data < (uintptr_t)-before ||
                     __builtin_add_overflow((uintptr_t)data + (uintptr_t)before, (uintptr_t)span, &end))) {
        mx_fail("[%s] expected strides that stay inside of memory, got some that leave it", func + 4);
        size = -1;
    }
    struct managed *m = size < 0 ? NULL : mx_malloc(sizeof *m);
    if (!m)
        return capi_report(), none;
    *m = (struct managed){ NULL, payload };
    size_t bytes = (size_t)span;
    void *begin = size ? (char *)(uintptr_t)data + low * item : (void *)(uintptr_t)data;
    struct buffer *buf =
        s ? buffer_wrap_on(s, begin, bytes, end_managed, m) : buffer_wrap(begin, bytes, false, end_managed, m);
    if (!buf) {
        free(m);
        return capi_report(), none;
    }
    buffer_retain(buf); /* so that a failure does not end m before its dtor is known to be wanted */
    mx x = array_of_buffer((enum dtype)dtype, dim, shape, buf);
    if (!is_nil(x) && strides && size) {
        memcpy(x->strides, strides, (size_t)dim * sizeof *strides);
        x->offset = -low;
        array_note_layout(x);
    }
    mlx_array made_array = made_by(func, x);
    if (made_array.ctx)
        m->dtor = dtor;
    buffer_release(buf);
    return made_array;
}

mlx_array mlx_array_new_borrowed(const void *data, const int *shape, const int64_t *strides, int dim, mlx_dtype dtype,
                                 void *payload, void (*dtor)(void *))
{
    return borrow(__func__, NULL, data, shape, strides, dim, dtype, payload, dtor);
}

mlx_array mlx_array_new_data_managed_payload(void *data, const int *shape, int dim, mlx_dtype dtype, void *payload,
                                             void (*dtor)(void *))
{
    return borrow(__func__, NULL, data, shape, NULL, dim, dtype, payload, dtor);
}

mlx_array mlx_array_new_data_managed(void *data, const int *shape, int dim, mlx_dtype dtype, void (*dtor)(void *))
{
    return borrow(__func__, NULL, data, shape, NULL, dim, dtype, data, dtor);
}

mlx_array mlx_array_new_borrowed_on(const mlx_stream stream, const void *data, const int *shape, const int64_t *strides,
                                    int dim, mlx_dtype dtype, void *payload, void (*dtor)(void *))
{
    struct stream *s = capi_stream(stream);
    if (!s || !s->on->trail) {
        mx_fail("[array_new_borrowed_on] expected a stream of a GPU, got one of %s",
                s ? device_text(s->device) : "no device");
        return capi_report(), (mlx_array){ NULL };
    }
    return borrow(__func__, s, data, shape, strides, dim, dtype, payload, dtor);
}

/* Layout.  GET is the value of a getter, or 0 after a report where the handle is empty. */

#define GET(type, name, value, looks)          \
    type mlx_array_##name(const mlx_array arr) \
    {                                          \
        mx x = capi_in(arr);                   \
        if (is_nil(x))                         \
            return capi_report(), (type)0;     \
        looks;                                 \
        return value;                          \
    }
#define LOOKS() (shapeless() ? sizes_are_read(x) : (void)0)

GET(size_t, itemsize, itemsize(x), (void)0)
GET(size_t, size, (size_t)x->size, LOOKS())
GET(size_t, nbytes, (size_t)nbytes(x), LOOKS())
GET(size_t, ndim, (size_t)x->ndim, x->tracer ? ranks_matter() : (void)0)
GET(const int *, shape, x->shape, LOOKS())
GET(mlx_dtype, dtype, (mlx_dtype)x->dtype, (void)0)

int mlx_array_dim(const mlx_array arr, int dim)
{
    mx x = capi_in(arr);
    int i = is_nil(x) ? -1 : axis_of("array_dim", dim, x->ndim);
    if (i < 0)
        return capi_report(), 0;
    LOOKS();
    return x->shape[i];
}

mx capi_elements_of(const char *func, mlx_array arr, mx_own *hold)
{
    mx x = capi_array(func, "arr", arr);
    capi_hold(hold, x);
    return is_nil(x) || mx_wait_host(x) ? (capi_report(), NULL) : x;
}

const size_t *mlx_array_strides(const mlx_array arr)
{
    mx_own hold = { NULL };
    mx x = capi_elements(arr, &hold);
    const size_t *strides = x ? (const size_t *)x->strides : NULL;
    mx_drop(&hold);
    capi_waited();
    return strides;
}

static int array_eval(const char *func, mlx_array arr)
{
    mx x = capi_array(func, "arr", arr);
    int failed = is_nil(x) || mx_eval(1, &x);
    return failed ? capi_report() : capi_end();
}

int mlx_array_eval(mlx_array arr) { return array_eval(__func__, arr); }

static int publish_text(const char *func, mlx_string *str, mlx_array arr, int precision)
{
    mx_own hold = { NULL };
    mx x = capi_elements_of(func, arr, &hold);
    char *text = x ? array_text(x, precision) : NULL;
    mx_drop(&hold);
    if (!x)
        return 1;
    capi_waited();
    return capi_text_end(func, str, text);
}

int mlx_array_tostring(mlx_string *str, const mlx_array arr) { return publish_text(__func__, str, arr, -1); }

int mlx_array_text(mlx_string *str, const mlx_array arr, int precision)
{
    return publish_text(__func__, str, arr, precision);
}

/* Elements */

static int item(const char *func, void *res, mlx_array arr, enum dtype t)
{
    mx x = capi_array(func, "arr", arr);
    if (!capi_need(func, "a place for the result", "res", res) || is_nil(x))
        return capi_report();
    if (x->size != 1) {
        mx_fail("[array_item_%s] expected an array with one element, got one of shape %s", dtype_name(t), shape_of(x));
        return capi_report();
    }
    mx_own converted = { NULL };
    {
        MX_SCOPE(NULL);
        mx_keep(&converted, mx_astype(x, t));
    }
    if (!is_nil(converted.it) && !mx_wait_host(converted.it)) {
        if (t == DT_bool_)
            *(bool *)res = *(const uint8_t *)array_host(converted.it) != 0;
        else
            memcpy(res, array_host(converted.it), dtype_size(t));
    }
    mx_drop(&converted);
    return capi_end();
}

/* The name says the dtype; unsigned integers also stand for the bits of any dtype of their size. */
static const void *data(const char *func, mlx_array arr, enum dtype t)
{
    mx x = capi_array(func, "arr", arr);
    if (is_nil(x))
        return capi_report(), NULL;
    if (x->dtype != t && !(dtype_kind(t) == 'u' && itemsize(x) == dtype_size(t))) {
        mx_fail_as(MX_TYPE, "[array_data_%s] expected an array of dtype %s, got one of %s", dtype_name(t),
                   dtype_name(t), dtype_name(x->dtype));
        return capi_report(), NULL;
    }
    mx_own hold = { NULL };
    capi_hold(&hold, x);
    const void *host = mx_wait_host(x) ? NULL : array_host(x);
    mx_drop(&hold);
    if (mx_failed())
        return capi_report(), NULL;
    capi_waited();
    return host;
}

#define ELEMENT(name, type, dtype)                                                                        \
    int mlx_array_item_##name(type *res, const mlx_array arr) { return item(__func__, res, arr, dtype); } \
    const type *mlx_array_data_##name(const mlx_array arr) { return data(__func__, arr, dtype); }

ELEMENT(bool, bool, DT_bool_)
ELEMENT(uint8, uint8_t, DT_uint8)
ELEMENT(uint16, uint16_t, DT_uint16)
ELEMENT(uint32, uint32_t, DT_uint32)
ELEMENT(uint64, uint64_t, DT_uint64)
ELEMENT(int8, int8_t, DT_int8)
ELEMENT(int16, int16_t, DT_int16)
ELEMENT(int32, int32_t, DT_int32)
ELEMENT(int64, int64_t, DT_int64)
ELEMENT(float32, float, DT_float32)
ELEMENT(float64, double, DT_float64)
ELEMENT(complex64, mlx_complex64_t, DT_complex64)
#ifdef HAS_FLOAT16
ELEMENT(float16, float16_t, DT_float16)
#endif
#ifdef HAS_BFLOAT16
ELEMENT(bfloat16, bfloat16_t, DT_bfloat16)
#endif

/* Inside */

int _mlx_array_is_available(bool *res, const mlx_array arr)
{
    mx x = capi_in(arr);
    if (!capi_out(res) || is_nil(x))
        return capi_report();
    *res = atomic_load(&x->status) == READY && buffer_is_there(x->buf);
    return 0;
}

int _mlx_array_wait(const mlx_array arr) { return array_eval(__func__, arr); }

/* Do the dimensions, taken in some order, each step over exactly what those before it fill? */
static bool without_gaps(mx x)
{
    int64_t filled = 1;
    for (int left = x->ndim; left > 0; left--)
        for (int i = 0; i < x->ndim; i++)
            if (x->shape[i] > 1 && x->strides[i] == filled) {
                filled *= x->shape[i];
                break;
            }
    return filled == x->size;
}

static bool columns_without_gaps(mx x)
{
    int64_t filled = 1;
    for (int i = 0; i < x->ndim; filled *= x->shape[i++])
        if (x->shape[i] > 1 && x->strides[i] != filled)
            return false;
    return true;
}

static int layout(const char *func, bool *res, mlx_array arr, bool (*is)(mx))
{
    if (!capi_need(func, "a place for the result", "res", res))
        return capi_report();
    mx_own hold = { NULL };
    mx x = capi_elements_of(func, arr, &hold);
    if (x)
        *res = x->size == 0 || is(x);
    mx_drop(&hold);
    if (!x)
        return 1;
    capi_waited();
    return 0;
}

static bool rows_without_gaps(mx x) { return x->row; }

int _mlx_array_is_contiguous(bool *res, const mlx_array arr) { return layout(__func__, res, arr, without_gaps); }

int _mlx_array_is_row_contiguous(bool *res, const mlx_array arr)
{
    return layout(__func__, res, arr, rows_without_gaps);
}

int _mlx_array_is_col_contiguous(bool *res, const mlx_array arr)
{
    return layout(__func__, res, arr, columns_without_gaps);
}
