/* c_binding.c: what the bindings of other languages need beyond the operations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/print.h"
#include "core/shape.h"
#include "ops/einsum.h"
#include "ops/getitem.h"
#include "ops/random.h"
#include "run/dynamic.h"
#include "run/eval.h"

static bool binding_dtype(const char *op, mlx_dtype dtype)
{
    if ((unsigned)dtype < DT_COUNT)
        return true;
    mx_fail_as(MX_TYPE, "[%s] expected a dtype, got %d", op, (int)dtype);
    return false;
}

const char *mlx_dtype_name(mlx_dtype dtype)
{
    return binding_dtype("dtype_name", dtype) ? dtype_name((enum dtype)dtype) : (capi_report(), "");
}

mlx_dtype mlx_dtype_promote(mlx_dtype a, mlx_dtype b)
{
    if (!binding_dtype("dtype_promote", a) || !binding_dtype("dtype_promote", b))
        return capi_report(), (mlx_dtype)0;
    return (mlx_dtype)promote((enum dtype)a, (enum dtype)b);
}

mlx_dtype mlx_dtype_promote_scalar(mlx_dtype a, char kind)
{
    if (binding_dtype("dtype_promote_scalar", a) && (!kind || !strchr("bifc", kind)))
        mx_fail("[dtype_promote_scalar] expected 'b', 'i', 'f' or 'c' for `kind`, got %d", kind);
    if (mx_failed())
        return capi_report(), (mlx_dtype)0;
    return (mlx_dtype)promote_weak((enum dtype)a, kind);
}

#define SCALAR(name, op, value, ...)                                    \
    int mlx_scalar_##name(mlx_array *res, __VA_ARGS__, mlx_dtype dtype) \
    {                                                                   \
        MX_SCOPE(NULL);                                                 \
        if (!binding_dtype(op, dtype))                                  \
            return capi_report();                                       \
        return capi_publish(res, value);                                \
    }

SCALAR(int, "scalar_int", array_of_int(val, (enum dtype)dtype), int64_t val)
SCALAR(double, "scalar_double", array_of_double(val, (enum dtype)dtype), double val)
SCALAR(complex, "scalar_complex", array_of_complex(real_val, imag_val, (enum dtype)dtype), double real_val,
       double imag_val)

int mlx_clear_streams(void)
{
    if (eval_refused())
        return capi_report();
    return streams_clear() ? capi_report() : capi_end();
}

uintptr_t mlx_array_id(const mlx_array arr) { return (uintptr_t)(void *)capi_opt(arr); }

/* Has each element a place of its own? */
static bool is_spread(mx x)
{
    bool is = true;
    for (int i = 0; i < x->ndim; i++) is &= x->shape[i] <= 1 || x->strides[i] != 0;
    return is;
}

int mlx_array_is_writable(bool *res, const mlx_array arr)
{
    if (!capi_out(res))
        return capi_report();
    mx_own hold = { NULL };
    mx x = capi_elements(arr, &hold);
    if (x)
        /* Where the bytes are lent on a device, those there count. */
        *res = x->buf->writable && !atomic_load(&x->buf->lent_on) && is_spread(x);
    mx_drop(&hold);
    return !x;
}

int mlx_array_lend(const mlx_array arr)
{
    mx_own hold = { NULL };
    mx x = capi_elements(arr, &hold);
    if (x)
        buffer_lend(x->buf);
    mx_drop(&hold);
    return !x;
}

int mlx_array_take_back(const mlx_array arr)
{
    mx x = capi_in(arr);
    if (!is_nil(x) && (!x->buf || !buffer_take_back(x->buf)))
        mx_fail("[array_take_back] expected an array that is lent, got one that is not");
    return mx_failed() ? capi_report() : 0;
}

int mlx_array_device(int *gpu, const mlx_array arr)
{
    mx_own hold = { NULL };
    if (!capi_out(gpu))
        return capi_report();
    mx x = capi_array(__func__, "arr", arr);
    capi_hold(&hold, x);
    int failed = is_nil(x) || mx_eval(1, &x);
    const struct side *d = failed ? NULL : buffer_side_alone(x->buf);
    *gpu = d ? d->stream->device.index : -1;
    mx_drop(&hold);
    return failed ? capi_report() : 0;
}

int mlx_array_lend_on(void **address, int *gpu, int64_t *strides, bool *writable, const mlx_array arr, void *stream)
{
    mx_own hold = { NULL };
    struct device where = { DEVICE_CPU, -1 };
    if (!capi_out(address) || !capi_out(gpu) || !capi_out(strides) || !capi_out(writable))
        return capi_report();
    mx x = capi_array(__func__, "arr", arr);
    capi_hold(&hold, x);
    int failed = is_nil(x) || mx_eval(1, &x);
    char *p = failed ? NULL : buffer_lend_on(x->buf, &where, stream);
    *address = p ? p + (size_t)x->offset * itemsize(x) : NULL;
    *gpu = where.index;
    *writable = !failed && x->buf->writable && is_spread(x);
    for (int i = 0; !failed && i < x->ndim; i++) strides[i] = x->strides[i];
    mx_drop(&hold);
    return failed || mx_failed() ? capi_report() : 0;
}

int mlx_array_take_back_on(const mlx_array arr)
{
    mx x = capi_in(arr);
    if (!is_nil(x) && (!x->buf || !buffer_take_back_on(x->buf)))
        mx_fail("[array_take_back_on] expected an array that is lent on a GPU, got one that is not");
    return mx_failed() ? capi_report() : 0;
}

int mlx_gpu_of_address(int *gpu, const void *address)
{
    if (!capi_out(gpu))
        return capi_report();
    const struct device_class *c = device_count(DEVICE_GPU) ? devices_of(DEVICE_GPU) : NULL;
    *gpu = c && c->owner ? c->owner(address) : -1;
    return capi_end();
}

int mlx_stream_native(void **res, const mlx_stream stream)
{
    if (!capi_out(res))
        return capi_report();
    struct stream *s = capi_stream(stream);
    *res = s && s->on->native ? s->on->native(s) : NULL;
    return capi_end();
}

int mlx_stream_follow(const mlx_stream stream, void *theirs)
{
    struct stream *s = capi_stream(stream);
    if (s && s->on->trail && theirs != (void *)-1)
        s->on->trail(s, theirs);
    return capi_end();
}

/* On the device that alone has the elements, if there is one. */
int mlx_array_duplicate(mlx_array *res, const mlx_array arr)
{
    mx x = capi_opt(arr);
    bool there = x && atomic_load_explicit(&x->status, memory_order_acquire) == READY && x->buf;
    const struct side *d = there && atomic_load(&x->buf->state) == ON_DEVICE ? atomic_load(&x->buf->sides) : NULL;
    MX_SCOPE(d ? d->stream : NULL);
    return capi_publish(res, mx_duplicate(capi_in(arr)));
}

/* Indexing */

/* The items as the core has them, in memory to be freed by the caller; NULL after a failure. */
static struct item *index_items(const char *func, const mlx_index *items, size_t n)
{
    if (n > 0 && !capi_need(func, "a list of items", "items", items))
        return NULL;
    if (n > 4 * MX_MAX_NDIM) {
        mx_fail_as(MX_INDEX, "[%s] too many indices: got %zu", func + 4, n);
        return NULL;
    }
    struct item *out = mx_malloc((n + 1) * sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const mlx_index *it = &items[i];
        out[i] = (struct item){
            .kind = (enum item_kind)it->kind,
            .has_start = it->has_start,
            .has_stop = it->has_stop,
            .start = it->start,
            .stop = it->stop,
            .step = it->step,
        };
        if ((unsigned)it->kind > MLX_INDEX_ARRAY)
            mx_fail_as(MX_TYPE, "[%s] expected the kind of an index item, got %d", func + 4, (int)it->kind);
        if (it->kind == MLX_INDEX_ARRAY)
            out[i].array = capi_array(func, "items", it->array);
    }
    if (mx_failed()) {
        free(out);
        out = NULL;
    }
    return out;
}

int mlx_getitem(mlx_array *res, const mlx_array a, const mlx_index *items, size_t items_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a);
    struct item *it = index_items(__func__, items, items_num);
    mx y = it ? mx_getitem_masked(x, (int)items_num, it) : MX_NIL;
    free(it);
    return capi_publish(res, y);
}

int mlx_setitem(mlx_array *res, const mlx_array a, const mlx_index *items, size_t items_num, const mlx_array value,
                mlx_fold fold, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a), v = capi_in(value);
    if ((unsigned)fold > MLX_FOLD_MIN)
        mx_fail_as(MX_TYPE, "[setitem] expected a fold, got %d", (int)fold);
    struct item *it = index_items(__func__, items, items_num);
    mx y = it ? mx_setitem_masked(x, (int)items_num, it, v, (enum scatter_fold)fold) : MX_NIL;
    free(it);
    return capi_publish(res, y);
}

/* Variants of operations */

int mlx_linspace_endpoint(mlx_array *res, double start, double stop, int num, bool endpoint, mlx_dtype dtype,
                          const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!binding_dtype("linspace", dtype))
        return capi_report();
    return capi_publish(res, mx_linspace(start, stop, num, endpoint, (enum dtype)dtype));
}

int mlx_addmm_double(mlx_array *res, const mlx_array c, const mlx_array a, const mlx_array b, double alpha, double beta,
                     const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_addmm(capi_in(c), capi_in(a), capi_in(b), alpha, beta));
}

int mlx_nan_to_num_double(mlx_array *res, const mlx_array a, double nan, const double *posinf, const double *neginf,
                          const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_nan_to_num(capi_in(a), nan, posinf, neginf));
}

#define SPREAD(name)                                                                                            \
    int mlx_##name##_double(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims, \
                            double ddof, const mlx_stream s)                                                    \
    {                                                                                                           \
        MX_SCOPE(capi_stream(s));                                                                               \
        return capi_publish(res, mx_##name(capi_in(a), axes, (int)axes_num, keepdims, ddof));                   \
    }
SPREAD(std)
SPREAD(var)

#define FREQUENCIES(name, half)                                                                      \
    int mlx_fft_##name##_dtype(mlx_array *res, int n, double d, mlx_dtype dtype, const mlx_stream s) \
    {                                                                                                \
        MX_SCOPE(capi_stream(s));                                                                    \
        if (!binding_dtype(#name, dtype))                                                            \
            return capi_report();                                                                    \
        return capi_publish(res, mx_fftfreq(n, d, half, (enum dtype)dtype));                         \
    }
FREQUENCIES(fftfreq, false)
FREQUENCIES(rfftfreq, true)

int mlx_linalg_svd_thin(mlx_vector_array *res, const mlx_array a, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx y[3];
    mx_svd(capi_in(a), SVD_THIN, y);
    return capi_publish_list(res, capi_list_of(3, y));
}

/* Random numbers */

int mlx_random_state(mlx_array *res)
{
    MX_SCOPE(NULL);
    return capi_publish(res, mx_random_state());
}

int mlx_random_set_state(const mlx_array key)
{
    MX_SCOPE(NULL);
    mx x = capi_in(key);
    if (!is_nil(x) && (x->dtype != DT_uint32 || x->ndim != 1 || x->shape[0] != 2))
        mx_fail("[random_set_state] expected a key, an array of two uint32, got %s of shape %s", dtype_name(x->dtype),
                shape_of(x));
    if (!mx_failed())
        mx_random_set_state(x);
    return capi_end();
}

/* The path as a list, the text about it in `text`. */
static struct list *path_list(const char *subscripts, const struct einsum_path *p, char **text)
{
    char lines[256];
    snprintf(lines, sizeof lines,
             "\n         Naive scaling:  %d\n     Optimized scaling:  %d\n      Naive FLOP count:  %.0f\n"
             "  Optimized FLOP count:  %.0f\n",
             p->naive_scaling, p->scaling, p->naive_flops, p->flops);
    struct list *l = capi_list_new(NUMBERS);
    int failed = !l || (p->n == 0 && capi_list_add(l, (union slot){ .number = 0 }));
    for (int i = 0; i < p->n && !failed; i++)
        failed = capi_list_add(l, (union slot){ .number = p->pair[i][0] }) ||
                 capi_list_add(l, (union slot){ .number = p->pair[i][1] });
    const char title[] = "  Complete contraction:  ";
    size_t size = strlen(title) + strlen(subscripts) + strlen(lines) + 1;
    *text = failed ? NULL : mx_malloc(size);
    if (*text) {
        snprintf(*text, size, "%s%s%s", title, subscripts, lines);
        return l;
    }
    if (l)
        capi_list_free(l);
    return NULL;
}

int mlx_einsum_path(mlx_vector_int *res_0, mlx_string *res_1, const char *subscripts, const mlx_vector_array operands)
{
    MX_SCOPE(NULL);
    int n = 0;
    bool given = capi_out(res_0) && capi_out(res_1) && capi_given(subscripts, "subscripts");
    mx *x = given ? capi_in_arrays(operands, &n) : NULL;
    char *text = NULL;
    struct einsum_path path = { .pair = NULL };
    struct list *l = x && mx_einsum_path(subscripts, n, x, &path) ? path_list(subscripts, &path, &text) : NULL;
    free(path.pair);
    capi_arrays_free(n, x);
    return l ? capi_publish_both(CAPI_HALF(vector_int, res_0, l), CAPI_HALF(string, res_1, text)) : capi_report();
}
