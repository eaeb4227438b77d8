/* dynamic.h: results whose shape depends on the elements of an operand.
 *
 * That operand is evaluated, as for reading a number.  Inside a transform whose placeholders it
 * depends on these fail, and say what to use instead. */
#ifndef MX_RUN_DYNAMIC_H
#define MX_RUN_DYNAMIC_H

#include "ops/getitem.h"

/* (ndim, count) int32: where the elements are that are not zero. */
mx mx_places(const char *op, mx x, const char *instead);
/* mx_unique of as many elements as there are distinct ones. */
void mx_unique_all(mx x, mx out[4]);
/* mx_getitem and mx_setitem where masks may be among the items.  One mask alone that is written
 * through with one value for all its elements is not evaluated. */
mx mx_getitem_masked(mx x, int n, const struct item items[]);
mx mx_setitem_masked(mx x, int n, const struct item items[], mx value, enum scatter_fold f);

#endif
