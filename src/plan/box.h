/* box.h: elements of one array laid into another of the same shape, each with strides of its own. */
#ifndef MX_PLAN_BOX_H
#define MX_PLAN_BOX_H

#include "core/array.h"

struct box {
    size_t item; /* bytes of an element */
    int ndim, shape[MX_MAX_NDIM];
    int64_t to[MX_MAX_NDIM], from[MX_MAX_NDIM]; /* strides in elements */
};

/* With the dimensions made few: those of size 1 go, neighbours that lie as one on both sides are one. */
struct box box_of(size_t item, int ndim, const int *shape, const int64_t *to, const int64_t *from);
int64_t box_size(const struct box *b);
/* Neighbours are moved as one element of up to 16 bytes, where shape and strides, these addresses, or'ed, and n strides
 * of places that both sides may begin at allow it. */
void box_widen(struct box *b, uint64_t addresses, int n, int64_t also[]);

#endif
