/* order.h: which of several arrays are made first. */
#ifndef MX_RUN_ORDER_H
#define MX_RUN_ORDER_H

#include "core/array.h"

/* The places 0 .. n - 1 of x in the order in which to make them, to be freed; NULL: in this one.  Under the graph lock;
 * takes a walk's number. */
int *order_to_make(int n, const mx x[]);

#endif
