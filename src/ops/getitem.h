/* getitem.h: indexing as NumPy does it, for every language that binds the library. */
#ifndef MX_OPS_GETITEM_H
#define MX_OPS_GETITEM_H

#include "core/array.h"
#include "ops/ops.h"

enum item_kind { ITEM_INT, ITEM_SLICE, ITEM_NEWAXIS, ITEM_ELLIPSIS, ITEM_ARRAY };

/* One of the things between the brackets.  An int is in `start`.  The bounds of a slice count only
 * where has_start and has_stop say so; its step is not 0. */
struct item {
    enum item_kind kind;
    bool has_start, has_stop;
    int64_t start, stop, step;
    mx array;
};

/* x[items] */
mx mx_getitem(mx x, int n, const struct item items[]);
/* x after x[items] = value, or after folding the value into what is there.  value broadcasts to the
 * indexed part and is converted to x's dtype. */
mx mx_setitem(mx x, int n, const struct item items[], mx value, enum scatter_fold f);
/* The same where a mask of x's first dimensions is true, with v, which broadcasts to x, in x's own places. */
mx mx_set_where(mx x, mx mask, mx v, enum scatter_fold f);

#endif
