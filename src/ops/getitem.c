/* getitem.c: indexing as NumPy does it, in terms of slice, take, gather and scatter.
 *
 * The items are first laid out over the dimensions of the array: a `plan` has one span for each
 * dimension and knows where the new axes go.  An int is a span of length one that disappears from
 * the result.  Where there are index arrays, the dimensions they make by broadcasting (B below)
 * take the place of the first of them if all arrays and ints stand side by side, else they come
 * first; ints count as arrays there.
 *
 * Reading slices the spans and gathers along the indexed axes.  Writing is its mirror image: the
 * spans are sliced, the value is scattered into them, and they are written back; so no span ever
 * has to become an index array.
 *
 * A mask alone between the brackets may be written through, with one value for all its elements:
 * then the shape of the result does not depend on the mask's elements. */
#include "ops/getitem.h"

#include <stddef.h>
#include <string.h>

#include "core/shape.h"
#include "ops/index.h"

struct span {
    bool is_int, is_array;
    int64_t start, step;
    int length;
    int from, to, by; /* the bounds as they were given, for an axis of any size */
};

struct getitem_plan {
    int ndim;
    bool whole; /* every span is its dimension as it is */
    int narray;
    int nb; /* dimensions that the index arrays broadcast to */
    int at; /* number of kept dimensions in front of B */
    int nfinal, nnew, ngone;
    /* Below is defined up to the counts above. */
    struct span span[MX_MAX_NDIM];
    int axis[MX_MAX_NDIM]; /* the axes that have index arrays */
    mx array[MX_MAX_NDIM];
    int b[MX_MAX_NDIM];
    int final[MX_MAX_NDIM];   /* the result: new axes and kept dimensions, with B in its place */
    int newaxis[MX_MAX_NDIM]; /* places of the new axes in the result */
    int gone[MX_MAX_NDIM];    /* axes of ints and arrays: not kept */
};

static void plan_start(struct getitem_plan *p) { memset(p, 0, offsetof(struct getitem_plan, span)); }

/* Python's rules for the bounds of a slice, over a dimension of size n. */
static struct span slice_span(const struct item *it, int64_t n)
{
    int64_t step = it->step, low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    int64_t start = step < 0 ? high : low, stop = step < 0 ? low : high;
    if (it->has_start) {
        start = it->start < 0 ? it->start + n : it->start;
        start = start < low ? low : start > high ? high : start;
    }
    if (it->has_stop) {
        stop = it->stop < 0 ? it->stop + n : it->stop;
        stop = stop < low ? low : stop > high ? high : stop;
    }
    int64_t length = step < 0 ? (start - stop - 1) / step * -1 + 1 : (stop - start - 1) / step + 1;
    if (step < 0 ? start <= stop : stop <= start)
        length = 0;
    if (length == 0)
        start = 0;
    if (length <= 1)
        step = 1;
    return (struct span){ .start = start, .step = step, .length = (int)length };
}

/* What the item says of a slice of any array, in mx_slice's terms. */
static void note_bounds(struct span *s, const struct item *it)
{
    bool back = it->kind == ITEM_SLICE && it->step < 0;
    int64_t from = back ? TO_END : 0, to = back ? TO_START : TO_END, most = INT32_MAX;
    if (it->kind == ITEM_INT || (it->kind == ITEM_SLICE && it->has_start))
        from = it->start;
    if (it->kind == ITEM_SLICE && it->has_stop)
        to = it->stop;
    if (it->kind == ITEM_INT)
        to = it->start == -1 ? TO_END : it->start + 1;
    s->from = (int)(from < -most ? -most : from > most ? most : from);
    s->to = (int)(to < -most ? TO_START : to > most ? most : to);
    s->by = it->kind == ITEM_SLICE ? (int)(it->step < -most ? -most : it->step > most ? most : it->step) : 1;
}

/* Is x of a graph for any shape?  Then its axes are cut as the items say, whatever their sizes. */
static bool of_any_size(mx x) { return x->tracer && shapeless(); }

static bool check_array(const char *op, mx index)
{
    if (index->dtype == DT_bool_)
        mx_fail_as(MX_INDEX,
                   "[%s] expected integer index arrays, got a mask (boolean arrays cannot "
                   "be used as an index yet; mx.where chooses by mask)",
                   op);
    else if (!dtype_is_integer(index->dtype))
        mx_fail_as(MX_INDEX, "[%s] expected integer index arrays, got one of dtype %s", op, dtype_name(index->dtype));
    return !mx_failed();
}

/* One item that stands for a dimension of size n. */
static bool place_item(const char *op, struct getitem_plan *p, mx x, const struct item *it)
{
    int d = p->ndim++, n = x->shape[d];
    struct span *s = &p->span[d];
    *s = (struct span){ .step = 1, .length = n };
    if (it->kind == ITEM_SLICE) {
        if (it->step == 0) {
            mx_fail("[%s] expected a slice step other than 0, got 0", op);
            return false;
        }
        *s = slice_span(it, n);
    } else if (it->kind == ITEM_INT) {
        if (it->start < -n || it->start >= n) {
            mx_fail_as(MX_INDEX, "[%s] index %lld is out of bounds for axis %d with size %d", op, (long long)it->start,
                       d, n);
            return false;
        }
        s->is_int = true;
        s->start = it->start < 0 ? it->start + n : it->start;
        s->length = 1;
    } else {
        if (!check_array(op, it->array))
            return false;
        s->is_array = true;
        p->axis[p->narray] = d;
        p->array[p->narray++] = it->array;
    }
    if (s->is_int || s->is_array)
        p->gone[p->ngone++] = d;
    note_bounds(s, it);
    bool all = of_any_size(x) ? s->from == 0 && s->to == TO_END && s->by == 1
                              : s->start == 0 && s->step == 1 && s->length == n;
    p->whole = p->whole && all;
    return true;
}

/* Dimensions that the items name, or -1 after a failure. */
static int count_items(const char *op, mx x, int n, const struct item items[])
{
    int used = 0, ellipses = 0, extra = 0;
    for (int i = 0; i < n; i++) {
        used += items[i].kind != ITEM_NEWAXIS && items[i].kind != ITEM_ELLIPSIS;
        ellipses += items[i].kind == ITEM_ELLIPSIS;
        extra += items[i].kind == ITEM_NEWAXIS;
    }
    if (ellipses > 1)
        mx_fail_as(MX_INDEX, "[%s] expected at most one ellipsis, got %d", op, ellipses);
    else if (used > x->ndim)
        mx_fail_as(MX_INDEX, "[%s] too many indices: expected one for each of %d dimensions at most, got %d", op,
                   x->ndim, used);
    else if (x->ndim + extra > MX_MAX_NDIM)
        mx_fail_as(MX_INDEX, "[%s] expected a result of at most %d dimensions", op, MX_MAX_NDIM);
    return mx_failed() ? -1 : used;
}

/* Index arrays have to broadcast against each other. */
static bool check_together(const char *op, const struct getitem_plan *p)
{
    for (int k = 1; k < p->narray; k++)
        for (int j = 0; j < k; j++) {
            mx a = p->array[j], b = p->array[k];
            for (int i = a->ndim, l = b->ndim; i-- > 0 && l-- > 0;)
                if (a->shape[i] != b->shape[l] && a->shape[i] != 1 && b->shape[l] != 1) {
                    mx_fail_as(MX_INDEX, "[%s] index arrays of shapes %s and %s cannot be broadcast", op, shape_of(a),
                               shape_of(b));
                    return false;
                }
        }
    return true;
}

static void keep_dim(struct getitem_plan *p, bool advanced)
{
    p->final[p->nfinal++] = p->span[p->ndim - 1].length;
    p->at += !advanced;
}

static bool getitem_layout(const char *op, struct getitem_plan *p, mx x, int n, const struct item items[])
{
    static const struct item all = { .kind = ITEM_SLICE, .step = 1 };
    int used = count_items(op, x, n, items);
    if (used < 0)
        return false;
    bool has_arrays = false;
    for (int i = 0; i < n; i++) has_arrays |= items[i].kind == ITEM_ARRAY;

    /* B stands where the first array or int stood, which is final position `b_at`; if something
     * else comes between two of them it moves to the front. */
    enum { NONE, IN, AFTER } run = NONE;
    int b_at = 0;
    bool apart = false;
    p->whole = true;
    for (int i = 0; i <= n; i++) {
        int fill = i == n || items[i].kind == ITEM_ELLIPSIS ? x->ndim - used : 0;
        bool advanced = i < n && has_arrays && (items[i].kind == ITEM_INT || items[i].kind == ITEM_ARRAY);
        if (advanced) {
            if (run == NONE)
                b_at = p->nfinal;
            apart |= run == AFTER;
            run = IN;
        } else if (run == IN) {
            run = AFTER;
        }
        if (fill) {
            used = x->ndim;
            while (fill-- > 0) {
                place_item(op, p, x, &all);
                keep_dim(p, run != NONE);
            }
        }
        if (i == n || items[i].kind == ITEM_ELLIPSIS)
            continue;
        if (items[i].kind == ITEM_NEWAXIS) {
            p->newaxis[p->nnew++] = p->nfinal;
            p->final[p->nfinal++] = 1;
            continue;
        }
        if (!place_item(op, p, x, &items[i]))
            return false;
        if (items[i].kind == ITEM_SLICE)
            keep_dim(p, run != NONE);
    }
    if (!has_arrays)
        return true;
    if (!check_together(op, p) || !broadcast_shape(op, p->narray, p->array, &p->nb, p->b))
        return false;
    if (apart)
        b_at = p->at = 0;
    if (p->nfinal + p->nb > MX_MAX_NDIM || p->ndim + p->nb > MX_MAX_NDIM) {
        mx_fail_as(MX_INDEX, "[%s] expected a result of at most %d dimensions", op, MX_MAX_NDIM);
        return false;
    }
    for (int i = p->nfinal - 1; i >= b_at; i--) p->final[i + p->nb] = p->final[i];
    for (int i = 0; i < p->nb; i++) p->final[b_at + i] = p->b[i];
    p->nfinal += p->nb;
    for (int i = 0; i < p->nnew; i++)
        if (p->newaxis[i] >= b_at)
            p->newaxis[i] += p->nb;
    return true;
}

/* Bounds for mx_slice, where a negative stop counts from the end: -n - 1 is "past the first". */
static void item_bounds(const struct getitem_plan *p, mx x, int *start, int *stop, int *step)
{
    for (int d = 0; d < p->ndim; d++) {
        const struct span *s = &p->span[d];
        int64_t end = s->start + s->length * s->step;
        if (of_any_size(x)) {
            start[d] = s->from, stop[d] = s->to, step[d] = s->by;
            continue;
        }
        start[d] = (int)s->start;
        stop[d] = (int)(end < 0             ? -(int64_t)x->shape[d] - 1
                        : s->length == 0    ? s->start
                        : s->length == 1    ? s->start + 1
                        : end > x->shape[d] ? x->shape[d]
                                            : end);
        step[d] = (int)s->step;
    }
}

static mx slice_spans(const struct getitem_plan *p, mx x)
{
    if (p->whole)
        return x;
    int start[MX_MAX_NDIM], stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    item_bounds(p, x, start, stop, step);
    return mx_slice(x, start, stop, step);
}

/* Moves n dimensions that start at `from` so that they start at `to`. */
static mx move_block(mx x, int from, int n, int to)
{
    if (n == 0 || from == to)
        return x;
    int axes[MX_MAX_NDIM], k = 0;
    for (int i = 0, rest = 0; i < x->ndim; i++) {
        if (i >= to && i < to + n) {
            axes[i] = from + i - to;
            continue;
        }
        k = rest++;
        axes[i] = k < from ? k : k + n;
    }
    return mx_transpose(x, axes, x->ndim);
}

mx mx_getitem(mx x, int n, const struct item items[])
{
    struct getitem_plan p;
    plan_start(&p);
    for (int i = 0; i < n; i++)
        if (items[i].kind == ITEM_ARRAY && is_nil(items[i].array))
            return MX_NIL;
    if (is_nil(x) || !getitem_layout("getitem", &p, x, n, items))
        return MX_NIL;
    mx y = slice_spans(&p, x);
    if (p.narray == 1) {
        /* take puts B where the array's axis was; the ints in front of it go away. */
        int axis = p.axis[0], from = axis, others[MX_MAX_NDIM], k = 0;
        y = mx_take_for(GETITEM, y, p.array[0], axis);
        for (int i = 0; i < p.ngone; i++)
            if (p.gone[i] != axis) {
                others[k++] = p.gone[i] < axis ? p.gone[i] : p.gone[i] - 1 + p.nb;
                from -= p.gone[i] < axis;
            }
        if (k)
            y = mx_squeeze(y, others, k);
        y = is_nil(y) ? y : move_block(y, from, p.nb, p.at);
    } else if (p.narray) {
        int axes[MX_MAX_NDIM];
        struct size sizes[MX_MAX_NDIM];
        for (int d = 0; d < p.ndim; d++) sizes[d] = p.span[d].is_array ? size_is(1) : size_of(y, d);
        y = mx_gather_by(GETITEM, y, p.array, p.axis, p.narray, sizes);
        for (int i = 0; i < p.ngone; i++) axes[i] = p.nb + p.gone[i];
        y = mx_squeeze(y, axes, p.ngone);
        y = is_nil(y) ? y : move_block(y, 0, p.nb, p.at);
    } else if (p.ngone) {
        y = mx_squeeze(y, p.gone, p.ngone);
    }
    return p.nnew ? mx_expand_dims(y, p.newaxis, p.nnew) : y;
}

/* The value with as many dimensions as the indexed part, each of its size or 1. */
static mx align(const struct getitem_plan *p, mx v)
{
    if (v->ndim > p->nfinal) {
        int extra[MX_MAX_NDIM], k = 0; /* NumPy lets sizes of 1 in front pass */
        while (k < v->ndim - p->nfinal && v->shape[k] == 1) {
            extra[k] = k;
            k++;
        }
        if (k == v->ndim - p->nfinal)
            v = mx_squeeze(v, extra, k);
    } else if (v->ndim < p->nfinal) {
        int front[MX_MAX_NDIM];
        for (int i = 0; i < p->nfinal - v->ndim; i++) front[i] = i;
        v = mx_expand_dims(v, front, p->nfinal - v->ndim);
    }
    if (is_nil(v))
        return v;
    bool fits = v->ndim == p->nfinal;
    for (int i = 0; fits && i < v->ndim; i++) fits = v->shape[i] == p->final[i] || v->shape[i] == 1;
    if (!fits)
        return mx_fail("[setitem] cannot broadcast a value of shape %s to the indexed part of shape %s", shape_of(v),
                       shape_text(p->nfinal, p->final));
    return v;
}

mx mx_set_where(mx x, mx mask, mx v, enum scatter_fold f)
{
    int axes[MX_MAX_NDIM], rest = x->ndim - mask->ndim;
    for (int i = 0; i < rest; i++) axes[i] = mask->ndim + i;
    if (rest)
        mask = mx_expand_dims(mask, axes, rest);
    v = mx_astype(v, (enum dtype)x->dtype);
    mx y = f == SCATTER_ADD    ? mx_add(x, v)
           : f == SCATTER_PROD ? mx_multiply(x, v)
           : f == SCATTER_MAX  ? mx_maximum(x, v)
           : f == SCATTER_MIN  ? mx_minimum(x, v)
                               : v;
    return mx_where(mask, y, x);
}

/* x[mask] = v where v is the same for every element of the mask. */
static mx set_by_mask(mx x, mx mask, mx v, enum scatter_fold f)
{
    int rest = x->ndim - mask->ndim;
    bool fits = rest >= 0;
    for (int i = 0; fits && i < mask->ndim; i++) fits = mask->shape[i] == x->shape[i];
    if (!fits)
        return mx_fail_as(MX_INDEX,
                          "[setitem] expected a mask with the first dimensions of %s, got one "
                          "of shape %s",
                          shape_of(x), shape_of(mask));
    while (v->ndim > rest && v->ndim > 0 && v->shape[0] == 1) v = mx_squeeze(v, (int[]){ 0 }, 1);
    if (v->ndim > rest)
        return mx_fail("[setitem] expected one value for all elements of a mask, that is a shape that "
                       "broadcasts to %s, got %s",
                       shape_text(rest, x->shape + mask->ndim), shape_of(v));
    return mx_set_where(x, mask, v, f);
}

mx mx_setitem(mx x, int n, const struct item items[], mx value, enum scatter_fold f)
{
    if (n == 1 && items[0].kind == ITEM_ARRAY && items[0].array->dtype == DT_bool_ && !is_nil(x) &&
        !is_nil(items[0].array) && !is_nil(value))
        return set_by_mask(x, items[0].array, value, f);
    struct getitem_plan p;
    plan_start(&p);
    for (int i = 0; i < n; i++)
        if (items[i].kind == ITEM_ARRAY && is_nil(items[i].array))
            return MX_NIL;
    if (is_nil(x) || is_nil(value) || !getitem_layout("setitem", &p, x, n, items))
        return MX_NIL;
    mx v = align(&p, value);
    if (is_nil(v))
        return v;
    for (int i = 0; i < p.nfinal && !of_any_size(x); i++)
        if (p.final[i] == 0)
            return x;
    v = mx_astype(v, (enum dtype)x->dtype);

    /* From the result's layout to B, then the array's own dimensions with 1 for those not kept. */
    if (p.nnew)
        v = mx_squeeze(v, p.newaxis, p.nnew);
    v = is_nil(v) ? v : move_block(v, p.at, p.nb, 0);
    int axes[MX_MAX_NDIM], start[MX_MAX_NDIM], stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    struct size sizes[2 * MX_MAX_NDIM];
    for (int i = 0; i < p.ngone; i++) axes[i] = p.nb + p.gone[i];
    if (p.ngone)
        v = mx_expand_dims(v, axes, p.ngone);
    item_bounds(&p, x, start, stop, step);
    if ((p.narray && !mx_broadcast(p.narray, p.array)) || !mx_slice_sizes(x, start, stop, step, sizes + p.nb))
        return MX_NIL;
    for (int i = 0; i < p.nb; i++) sizes[i] = size_of(p.array[0], i);
    for (int i = 0; i < p.narray; i++) sizes[p.nb + p.axis[i]] = size_is(1);
    v = mx_broadcast_by(v, p.nb + p.ndim, sizes);

    if (!p.narray)
        return p.whole && f == SCATTER_SET ? v : mx_slice_update_fold(x, v, start, stop, step, f);
    mx part = mx_scatter_for(SETITEM, slice_spans(&p, x), p.array, p.axis, p.narray, v, f);
    return p.whole ? part : mx_slice_update(x, part, start, stop, step);
}
