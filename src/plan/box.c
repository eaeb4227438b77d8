/* box.c: see box.h. */
#include "plan/box.h"

#include <string.h>

#include "core/shape.h"

struct box box_of(size_t item, int ndim, const int *shape, const int64_t *to, const int64_t *from)
{
    struct box b;
    int64_t *strides[2] = { b.to, b.from };
    b.item = item;
    memcpy(b.shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(b.to, to, (size_t)ndim * sizeof *to);
    memcpy(b.from, from, (size_t)ndim * sizeof *from);
    b.ndim = collapse(ndim, b.shape, 2, strides);
    return b;
}

int64_t box_size(const struct box *b)
{
    int64_t n = 1;
    for (int i = 0; i < b->ndim; i++) n *= b->shape[i];
    return n;
}

static bool all_even(int n, const int64_t *v)
{
    int64_t any = 0;
    for (int i = 0; i < n; i++) any |= v[i];
    return any % 2 == 0;
}

static void halve(int n, int64_t *v)
{
    for (int i = 0; i < n; i++) v[i] /= 2;
}

void box_widen(struct box *b, uint64_t addresses, int n, int64_t also[])
{
    int last = b->ndim - 1;
    while (b->item < 16 && b->to[last] == 1 && b->from[last] == 1 && b->shape[last] % 2 == 0 &&
           addresses % (2 * b->item) == 0 && all_even(last, b->to) && all_even(last, b->from) && all_even(n, also)) {
        b->item *= 2;
        b->shape[last] /= 2;
        halve(last, b->to);
        halve(last, b->from);
        halve(n, also);
    }
}
