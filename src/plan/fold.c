/* fold.c: see fold.h. */
#include "plan/fold.h"

#include "core/buffer.h"

static int64_t distance(mx x, int axis) { return x->strides[axis] < 0 ? -x->strides[axis] : x->strides[axis]; }

static bool repeats(mx x, const bool *folds, int axis) { return folds[axis] && x->strides[axis] == 0; }

/* Does axis b, of the same kind, come next to a: are they neighbours in the result if they are kept? */
static bool follows(mx x, const bool *folds, int a, int b)
{
    if (folds[a] || folds[b])
        return folds[a] && folds[b];
    while (++a < b)
        if (!folds[a] && x->shape[a] != 1)
            return false;
    return a == b;
}

void fold_plan_of(struct fold_plan *p, mx x, const bool *folds)
{
    int order[MX_MAX_NDIM], n = 0;
    p->results = p->folded = p->times = 1;
    for (int i = 0; i < x->ndim; i++) {
        *(repeats(x, folds, i) ? &p->times : folds[i] ? &p->folded : &p->results) *= x->shape[i];
        if (x->shape[i] == 1 || repeats(x, folds, i))
            continue;
        int k = n++;
        for (; k > 0 && distance(x, order[k - 1]) < distance(x, i); k--) order[k] = order[k - 1];
        order[k] = i;
    }
    p->in_order = true;
    p->n = 0;
    for (int i = 0, kept = -1; i < n; i++) {
        int d = order[i];
        p->in_order &= x->strides[d] > 0 && (folds[d] || kept < d);
        kept = folds[d] ? kept : d;
        struct fold_group *g = &p->group[p->n ? p->n - 1 : 0];
        if (i > 0 && follows(x, folds, order[i - 1], d) && g->stride == x->strides[d] * x->shape[d]) {
            g->size *= x->shape[d];
            g->stride = x->strides[d];
        } else {
            p->group[p->n++] = (struct fold_group){ x->shape[d], x->strides[d], d, folds[d] };
        }
    }
}

mx fold_last(mx x, const bool *folds)
{
    mx y = array_new(x->dtype, x->ndim, x->shape);
    if (is_nil(y))
        return y;
    int n = 0;
    y->size = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->ndim; i++)
            if (folds[i] == pass) {
                y->shape[n] = repeats(x, folds, i) ? 1 : x->shape[i];
                y->size *= y->shape[n];
                y->strides[n++] = x->strides[i];
            }
    y->offset = x->offset;
    y->buf = x->buf;
    buffer_retain(y->buf);
    y->status = READY;
    array_note_layout(y);
    return y;
}
