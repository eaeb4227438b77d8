/* py_sort.c: orders, running folds and results whose shape depends on elements. */
#include <string.h>

#include "py.h"

/* axis None: of all elements, flattened; left out: the last. */
static bool whole(const struct py_call *c, int i) { return c->v[i].o == Py_None; }
static int axis_or_last(const struct py_call *c, int i) { return GIVEN(i) ? INT(i) : -1; }

#define ORDER(name)                                      \
    (whole(c, 1) ? mlx_##name(&c->res, ARRAY(0), STREAM) \
                 : mlx_##name##_axis(&c->res, ARRAY(0), axis_or_last(c, 1), STREAM))

/* What is in the opposite order but for NaN, which stays last, and becomes the same again. */
static int opposite(mlx_array *res, mlx_array a, mlx_stream s)
{
    switch (dtype_kind(mlx_array_dtype(a))) {
    case 'b': return mlx_logical_not(res, a, s);
    case 'i':
    case 'u': return mlx_bitwise_invert(res, a, s);
    default: return mlx_negative(res, a, s);
    }
}

static int descending(struct py_call *c)
{
    mlx_array key = mlx_array_new();
    return opposite(&key, ARRAY(0), STREAM) ? raise_last() : call_keep(c, key, &ARRAY(0));
}

PyObject *fn_sort(struct py_call *c)
{
    if (!BOOL(2))
        return give(c, ORDER(sort));
    return descending(c) ? NULL : give(c, ORDER(sort) || opposite(&c->res, c->res, STREAM));
}

PyObject *fn_argsort(struct py_call *c) { return BOOL(2) && descending(c) ? NULL : give(c, ORDER(argsort)); }

#define PARTIAL_ORDER(name)                                                                                     \
    PyObject *fn_##name(struct py_call *c)                                                                      \
    {                                                                                                           \
        return give(c, whole(c, 2) ? mlx_##name(&c->res, ARRAY(0), INT(1), STREAM)                              \
                                   : mlx_##name##_axis(&c->res, ARRAY(0), INT(1), axis_or_last(c, 2), STREAM)); \
    }
PARTIAL_ORDER(partition)
PARTIAL_ORDER(argpartition)
PARTIAL_ORDER(topk)

PyObject *fn_median(struct py_call *c)
{
    int axes[MAX_NDIM], n = 0;
    if (GIVEN(1))
        return give(c, mlx_median(&c->res, ARRAY(0), INTS(1), BOOL(2), STREAM));
    for (; n < (int)mlx_array_ndim(ARRAY(0)); n++) axes[n] = n;
    return give(c, mlx_median(&c->res, ARRAY(0), axes, (size_t)n, BOOL(2), STREAM));
}

PyObject *fn_searchsorted(struct py_call *c)
{
    const char *side = TEXT(2);
    bool right = side && !strcmp(side, "right");
    if (side && !right && strcmp(side, "left"))
        return PyErr_Format(exc_value, "[searchsorted] expected side to be 'left' or 'right', got '%s'", side);
    if (call_operand_like(c, 1, mlx_array_dtype(ARRAY(0))))
        return NULL;
    if (GIVEN(3)) {
        mlx_array sorted = mlx_array_new();
        if (mlx_take_axis(&sorted, ARRAY(0), ARRAY(3), 0, STREAM))
            return raise_last(), NULL;
        if (call_keep(c, sorted, &ARRAY(0)))
            return NULL;
    }
    return give(c, mlx_searchsorted(&c->res, ARRAY(0), ARRAY(1), right, STREAM));
}

/* ---- running folds: axis None is all elements, flattened */

static int flattened_operand(struct py_call *c)
{
    mlx_array flat = mlx_array_new();
    if (GIVEN(1))
        return 0;
    if (mlx_flatten(&flat, ARRAY(0), 0, -1, STREAM))
        return raise_last();
    return call_keep(c, flat, &ARRAY(0));
}

#define SCAN(name)                                                                                      \
    PyObject *fn_##name(struct py_call *c)                                                              \
    {                                                                                                   \
        if (flattened_operand(c))                                                                       \
            return NULL;                                                                                \
        return give(c, mlx_##name(&c->res, ARRAY(0), GIVEN(1) ? INT(1) : 0, BOOL(2), BOOL(3), STREAM)); \
    }
SCAN(cummax)
SCAN(cummin)
SCAN(logcumsumexp)

#define SCAN_METHOD(name) SCAN(name##_method)
#define mlx_cumsum_method mlx_cumsum
#define mlx_cumprod_method mlx_cumprod
SCAN_METHOD(cumsum)
SCAN_METHOD(cumprod)

PyObject *fn_cumsum(struct py_call *c) { return call_as_dtype(c, 4) ? NULL : fn_cumsum_method(c); }
PyObject *fn_cumprod(struct py_call *c) { return call_as_dtype(c, 4) ? NULL : fn_cumprod_method(c); }

/* With the sum or product of no element before the others: behind them where it goes backwards. */
static PyObject *with_initial(struct py_call *c, function_body *fold, int initial)
{
    int axis = GIVEN(1) ? INT(1) : 0, before = !BOOL(2), after = BOOL(2);
    if (GIVEN(5) && BOOL(5) && !BOOL(3))
        return PyErr_Format(exc_value, "[%s] expected one of include_initial and inclusive=False, got both",
                            c->sig->name);
    PyObject *folded = fold(c);
    if (!folded || !GIVEN(5) || !BOOL(5))
        return folded;
    mlx_array a = handle_of(folded), v = mlx_array_new();
    int failed = mlx_scalar_int(&v, initial, mlx_array_dtype(a)) ||
                 mlx_pad(&c->res, a, &axis, 1, &before, 1, &after, 1, v, "constant", STREAM);
    PyObject *result = give(c, failed);
    mlx_array_free(v);
    Py_DECREF(folded);
    return result;
}

PyObject *fn_cumulative_sum(struct py_call *c) { return with_initial(c, fn_cumsum, 0); }
PyObject *fn_cumulative_prod(struct py_call *c) { return with_initial(c, fn_cumprod, 1); }

/* ---- shapes that depend on elements */

static int sort_places(struct py_call *c, mlx_array *out)
{
    if (array_known(ARRAY(0)))
        return -1;
    return mlx_nonzero(out, ARRAY(0), STREAM) ? raise_last() : 0;
}

PyObject *fn_nonzero(struct py_call *c)
{
    mlx_array all = mlx_array_new();
    mlx_vector_array rows = mlx_vector_array_new();
    PyObject *result = NULL;
    size_t n = mlx_array_ndim(ARRAY(0));
    if (n == 0) {
        PyErr_SetString(exc_value, "[nonzero] expected at least one dimension, got a scalar");
    } else if (!sort_places(c, &all)) {
        int failed = 0;
        for (size_t i = 0; i < n && !failed; i++) {
            mlx_array row = mlx_array_new();
            mlx_index at = { .kind = MLX_INDEX_INT, .start = (int64_t)i };
            failed = mlx_getitem(&row, all, &at, 1, STREAM) || mlx_vector_array_append_value(rows, row);
            mlx_array_free(row);
        }
        result = failed ? (raise_last(), NULL) : vector_items(rows);
    }
    mlx_array_free(all);
    mlx_vector_array_free(rows);
    return result;
}

PyObject *fn_argwhere(struct py_call *c)
{
    mlx_array all = mlx_array_new();
    PyObject *result = sort_places(c, &all) ? NULL : give(c, mlx_transpose(&c->res, all, STREAM));
    mlx_array_free(all);
    return result;
}

PyObject *fn_flatnonzero(struct py_call *c)
{
    mlx_array flat = mlx_array_new(), all = mlx_array_new();
    mlx_index first = { .kind = MLX_INDEX_INT };
    PyObject *result = NULL;
    if (array_known(ARRAY(0))) {
    } else if (mlx_flatten(&flat, ARRAY(0), 0, -1, STREAM) || mlx_nonzero(&all, flat, STREAM)) {
        raise_last();
    } else {
        result = give(c, mlx_getitem(&c->res, all, &first, 1, STREAM));
    }
    mlx_array_free(flat);
    mlx_array_free(all);
    return result;
}

struct distinct {
    mlx_vector_array *all;
    mlx_array a, fill;
    mlx_optional_int size;
    mlx_stream stream;
};

static int find_distinct(void *ctx)
{
    struct distinct *d = ctx;
    return mlx_unique(d->all, d->a, d->size, d->fill, d->stream);
}

/* Without a size it evaluates, on a handle of its own for the time without the GIL. */
static int unique_of_size(struct py_call *c, mlx_vector_array *all, mlx_optional_int size)
{
    if (size.has_value)
        return mlx_unique(all, ARRAY(0), size, ARRAY(5), STREAM) ? raise_last() : 0;
    struct distinct d = { all, mlx_array_new(), mlx_array_new(), size, STREAM };
    int failed = mlx_array_set(&d.a, ARRAY(0)) ? raise_last() : evaluate_with(find_distinct, &d);
    mlx_array_free(d.a);
    return failed;
}

PyObject *fn_unique(struct py_call *c)
{
    mlx_optional_int size = { .has_value = GIVEN(1), .value = GIVEN(1) ? INT(1) : 0 };
    mlx_vector_array all = mlx_vector_array_new(), some = mlx_vector_array_new();
    PyObject *result = NULL;
    if (GIVEN(5) && call_operand_like(c, 5, mlx_array_dtype(ARRAY(0))))
        goto end;
    if (unique_of_size(c, &all, size))
        goto end;
    for (int i = 0; i < 4; i++) {
        mlx_array one = mlx_array_new();
        int failed = i > 0 && !BOOL(1 + i)
                         ? 0
                         : mlx_vector_array_get(&one, all, (size_t)i) || mlx_vector_array_append_value(some, one);
        mlx_array_free(one);
        if (failed) {
            raise_last();
            goto end;
        }
    }
    if (BOOL(2) || BOOL(3) || BOOL(4)) {
        result = vector_items(some);
    } else if (!mlx_vector_array_get(&c->res, some, 0)) {
        result = give(c, 0);
    }
end:
    mlx_vector_array_free(all);
    mlx_vector_array_free(some);
    return result;
}
