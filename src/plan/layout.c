/* layout.c: see layout.h. */
#include "plan/layout.h"

#include <string.h>

bool is_one_value(mx x)
{
    for (int d = 0; d < x->ndim; d++)
        if (x->shape[d] != 1 && x->strides[d] != 0)
            return false;
    return true;
}

/* Is every operand one value (0) or row-major (1)?  Fills `step` with which. */
static bool is_plain(struct walk *w, int n, const mx x[])
{
    for (int o = 0; o < n; o++) {
        bool one = is_one_value(x[o]);
        if (!one && !x[o]->row)
            return false;
        w->step[o] = !one;
    }
    return true;
}

/* Does dimension d of the array continue the last one of the walk? */
static bool continues(const struct walk *w, int n, const mx x[], int d)
{
    for (int o = 0; o < n; o++)
        if (w->stride[o][w->ndim - 1] != x[o]->strides[d] * x[o]->shape[d])
            return false;
    return true;
}

bool layout_walk(struct walk *w, mx y, int n, const mx x[])
{
    memset(w, 0, sizeof *w);
    w->n = y->size;
    if (is_plain(w, n, x))
        return true;
    for (int d = 0; d < y->ndim; d++) {
        if (y->shape[d] == 1)
            continue;
        if (w->ndim && (int64_t)w->shape[w->ndim - 1] * y->shape[d] <= UINT32_MAX && continues(w, n, x, d)) {
            w->shape[w->ndim - 1] *= (uint32_t)y->shape[d];
        } else {
            if (w->ndim == WALK_DIMS)
                return false;
            w->shape[w->ndim++] = (uint32_t)y->shape[d];
        }
        for (int o = 0; o < n; o++) w->stride[o][w->ndim - 1] = x[o]->strides[d];
    }
    return true;
}
