/* layout.h: shapes and strides of operands, made simple. */
#ifndef MX_PLAN_LAYOUT_H
#define MX_PLAN_LAYOUT_H

#include "core/array.h"
#include "plan/walk.h"

/* How n operands of y's shape are walked; `aligned` is left to who knows the addresses.  False where more than
 * WALK_DIMS dimensions are left when those that lie as one are one. */
bool layout_walk(struct walk *w, mx y, int n, const mx x[]);

/* Are all elements one in memory? */
bool is_one_value(mx x);

#endif
