/* dynamic.c: results whose shape depends on the elements of an operand. */
#include "run/dynamic.h"

#include "core/scope.h"
#include "core/shape.h"
#include "ops/index.h"
#include "run/eval.h"

/* Functions of the program that run while something is waited for may let go of what the operands come from. */
static void hold(mx x)
{
    if (is_nil(x))
        return;
    mx_retain(x);
    scope_lend(x);
}

/* Evaluates x, made of `of`, for `op`; what a placeholder says of itself is put in terms of the operation. */
static bool check_known(const char *op, mx x, mx of, const char *instead)
{
    if (is_nil(x) || !mx_wait_host(x))
        return !is_nil(x);
    if (mx_error_kind() == MX_NO_VALUE) {
        mx_error_clear();
        mx_fail("[%s] the shape of the result depends on the elements of an array of shape %s, which have no values "
                "while a function is being transformed or compiled; use %s",
                op, shape_of(of), instead);
    }
    return false;
}

mx mx_places(const char *op, mx x, const char *instead)
{
    hold(x);
    mx truth = mx_contiguous(mx_astype(x, DT_bool_), false);
    if (!check_known(op, truth, x, instead))
        return MX_NIL;
    const uint8_t *p = array_host(truth);
    int64_t count = 0;
    for (int64_t i = 0; i < truth->size; i++) count += p[i] != 0;
    return mx_nonzero(truth, count);
}

void mx_unique_all(mx x, mx out[4])
{
    hold(x);
    mx count = mx_unique_count(x);
    out[0] = out[1] = out[2] = out[3] = MX_NIL;
    if (check_known("unique", count, x, "the argument size, which settles the shape"))
        mx_unique(x, *(const int32_t *)array_host(count), NULL, out);
}

/* ---- indexing */

static const char where[] = "where(mask, a, 0), which keeps the shape";

static bool is_mask(const struct item *it)
{
    return it->kind == ITEM_ARRAY && !is_nil(it->array) && it->array->dtype == DT_bool_;
}

/* Does a mask have the dimensions of x from `at` on? */
static bool mask_covers(const char *op, mx x, int at, mx mask)
{
    bool fits = at + mask->ndim <= x->ndim;
    for (int i = 0; fits && i < mask->ndim; i++) fits = mask->shape[i] == x->shape[at + i];
    if (!fits)
        mx_fail_as(MX_INDEX, "[%s] expected a mask with the dimensions of %s from axis %d on, got one of shape %s", op,
                   shape_of(x), at, shape_of(mask));
    return fits;
}

static mx row_of(mx x, int i) { return mx_squeeze(mx_slice_axis(x, 0, i, i + 1, 1), (int[]){ 0 }, 1); }

/* How many dimensions an item stands for, an ellipsis apart. */
static int dims_of(const struct item *it)
{
    return is_mask(it) ? it->array->ndim : it->kind != ITEM_NEWAXIS && it->kind != ITEM_ELLIPSIS;
}

enum { MAX_ITEMS = 5 * MX_MAX_NDIM };

/* An index in terms of arrays of places: x[item]. */
struct placed_masks {
    mx x; /* with a dimension of size 1 for each mask that has none: its places are [0] or [] */
    int n;
    struct item item[MAX_ITEMS];
};

/* Each mask replaced by an index array for each of its dimensions; masks without dimensions are not looked at but
 * taken as true where assume_true.  False after a failure. */
static bool without_masks(const char *op, mx x, int n, const struct item items[], bool assume_true,
                          struct placed_masks *p)
{
    int used = 0, at = 0, made = 0;
    for (int i = 0; i < n; i++) used += dims_of(&items[i]);
    *p = (struct placed_masks){ .x = x };
    for (int i = 0; i < n && !mx_failed(); i++) {
        if (!is_mask(&items[i])) {
            p->item[p->n++] = items[i];
            at += items[i].kind == ITEM_ELLIPSIS ? x->ndim - used : dims_of(&items[i]);
            continue;
        }
        mx mask = items[i].array;
        if (mask->ndim == 0) {
            mx place = assume_true ? mx_zeros(1, (int[]){ 1 }, DT_int32)
                                   : row_of(mx_places(op, mx_reshape(mask, 1, (int[]){ 1 }), where), 0);
            p->item[p->n++] = (struct item){ .kind = ITEM_ARRAY, .array = place };
            p->x = mx_expand_dims(p->x, (int[]){ at + made++ }, 1);
        } else if (mask_covers(op, x, at, mask)) {
            mx places = mx_places(op, mask, where);
            for (int d = 0; d < mask->ndim; d++)
                p->item[p->n++] = (struct item){ .kind = ITEM_ARRAY, .array = row_of(places, d) };
            at += mask->ndim;
        }
    }
    return !mx_failed();
}

/* x[mask]: rows of x with the mask's dimensions joined into one. */
static mx masked_out(mx x, mx mask)
{
    if (!mask_covers("getitem", x, 0, mask))
        return MX_NIL;
    mx places = mx_places("getitem", mask->ndim == 1 ? mask : mx_reshape(mask, 1, (int[]){ -1 }), where);
    if (mask->ndim == 0)
        return mx_take(mx_expand_dims(x, (int[]){ 0 }, 1), row_of(places, 0), 0);
    return mx_take(mask->ndim == 1 ? x : mx_flatten(x, 0, mask->ndim - 1), row_of(places, 0), 0);
}

/* If there is one all operands are held. */
static bool any_mask(mx x, int n, const struct item items[])
{
    bool any = false;
    for (int i = 0; i < n && !is_nil(x); i++) any |= is_mask(&items[i]);
    if (any)
        hold(x);
    for (int i = 0; i < n && any; i++)
        if (items[i].kind == ITEM_ARRAY)
            hold(items[i].array);
    return any;
}

mx mx_getitem_masked(mx x, int n, const struct item items[])
{
    if (!any_mask(x, n, items))
        return mx_getitem(x, n, items);
    if (n == 1)
        return masked_out(x, items[0].array);
    struct placed_masks p;
    return without_masks("getitem", x, n, items, false, &p) ? mx_getitem(p.x, p.n, p.item) : MX_NIL;
}

/* Is v, but for sizes of 1 in front, one value for all elements of a mask of m dimensions? */
static bool one_for_all(mx x, int m, mx v)
{
    int extra = v->ndim - (x->ndim - m);
    for (int i = 0; i < extra; i++)
        if (v->shape[i] != 1)
            return false;
    return true;
}

/* Values for the places where the mask is true, in order, of which there may be more than places: those of each place,
 * in x's shape, without a look at the mask. */
static mx in_places(mx x, mx mask, mx v)
{
    int rest = x->ndim - mask->ndim, extra = v->ndim - rest, gone[MX_MAX_NDIM], shape[MX_MAX_NDIM] = { 0 };
    for (int i = 0; i < extra - 1; i++) gone[i] = i;
    if (extra > 1)
        v = mx_squeeze(v, gone, extra - 1);
    if (is_nil(v))
        return v;
    shape[0] = dim(v, 0);
    for (int i = 0; i < rest; i++) shape[1 + i] = x->shape[mask->ndim + i];
    mx order = mx_mask_order(mx_reshape(mask, 1, (int[]){ (int)mask->size }), 0);
    mx each = mx_take_as((struct asked){ SETITEM, OUTSIDE_FOR_MASK }, mx_broadcast_to(v, 1 + rest, shape), order, 0);
    return mx_reshape(each, x->ndim, x->shape);
}

/* Values for the true places of one mask, of which those that are too many are left out.  A mask that is not evaluated
 * yet stays so where there are any. */
static mx set_in_order(mx x, struct item item, mx v, enum scatter_fold f)
{
    mx mask = item.array;
    if (!mask_covers("setitem", x, 0, mask))
        return MX_NIL;
    if (mask->status == LAZY && v->size)
        return x->size ? mx_set_where(x, mask, in_places(x, mask, v), f) : x;
    struct placed_masks p;
    if (!without_masks("setitem", x, 1, &item, false, &p))
        return MX_NIL;
    int at = v->ndim - (x->ndim - mask->ndim) - 1;
    if (at >= 0 && dim(v, at) > p.item[0].array->size)
        v = mx_slice_axis(v, at, 0, (int)p.item[0].array->size, 1);
    return mx_setitem(x, p.n, p.item, v, f);
}

/* Whether all masks, which have no dimensions, are true; nil where others are there or all are known already. */
static mx all_true(int n, const struct item items[])
{
    mx all = MX_NIL;
    bool lazy = false;
    for (int i = 0; i < n; i++) {
        if (!is_mask(&items[i]))
            continue;
        if (items[i].array->ndim)
            return MX_NIL;
        lazy |= items[i].array->status == LAZY;
        all = is_nil(all) ? items[i].array : mx_logical_and(all, items[i].array);
    }
    return lazy ? all : MX_NIL;
}

mx mx_setitem_masked(mx x, int n, const struct item items[], mx value, enum scatter_fold f)
{
    bool any = !is_nil(value) && any_mask(x, n, items), alone = any && n == 1;
    if (!any || (alone && one_for_all(x, items[0].array->ndim, value)))
        return mx_setitem(x, n, items, value, f);
    hold(value);
    if (alone && items[0].array->ndim)
        return set_in_order(x, items[0], value, f);
    struct placed_masks p;
    mx written = value->size ? all_true(n, items) : MX_NIL;
    if (!without_masks("setitem", x, n, items, !is_nil(written), &p))
        return MX_NIL;
    mx y = mx_setitem(p.x, p.n, p.item, value, f);
    y = p.x == x ? y : mx_reshape_like(y, x);
    return is_nil(written) ? y : mx_where(written, y, x);
}
