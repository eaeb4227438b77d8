/* result.h: memory for results, and when it may be a dead operand's. */
#ifndef MX_PLAN_RESULT_H
#define MX_PLAN_RESULT_H

#include "core/node.h"

/* y lies row-major in b, whose one reference it gets. */
void result_in(mx y, struct buffer *b);
/* The same in fresh memory where s, the host's if NULL, computes.  Non-zero after mx_fail. */
int result_new(struct stream *s, mx y);
/* Nobody will look at result y of n, which with `keep` may run again: it needs no memory. */
bool result_unwanted(const struct node *n, bool keep, mx y);
/* x has so many references, and lies whole in memory that no other array has, that may be written and suits y:
 * row-major, of its item size and size. */
bool result_fits(mx y, mx x, int uses);
/* The same where n, whose operands must not be written over with `keep`, is the only one who will ever look at operand
 * x again. */
bool result_fits_operand(const struct node *n, bool keep, mx y, mx x);
/* Is it so of x, which n has once, and may its memory, which no other array has, be left without what x is? */
bool operand_is_last(const struct node *n, bool keep, mx x);

#endif
