/* jacobian.h: all derivatives of a function at once. */
#ifndef MX_TRANSFORM_JACOBIAN_H
#define MX_TRANSFORM_JACOBIAN_H

#include "transform/transform.h"

/* The function that gives, for each result y of f and each operand x numbered in argnums (which it is
 * called with), dy/dx in the shape of y followed by that of x: by columns, in forward mode, or by rows, in
 * reverse.  The caller gets the only reference, NULL after mx_fail. */
struct closure *mx_jacfwd(struct closure *f, const int *argnums, int n);
struct closure *mx_jacrev(struct closure *f, const int *argnums, int n);

#endif
