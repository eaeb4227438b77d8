/* fold.h: elements written into others, one at a time or a box of them. */
#ifndef MX_CPU_FOLD_H
#define MX_CPU_FOLD_H

#include "core/array.h"
#include "cpu/run.h"
#include "ops/ops.h"

/* y[i * sy] = f(y[i * sy], x[i * sx]); strides in elements, any sign, sy not 0. */
typedef void fold_fn(void *y, int64_t sy, const void *x, int64_t sx, int64_t n);
/* y[at[i]] = f(y[at[i]], x[i * sx]), in order. */
typedef void fold_at_fn(void *y, const int64_t *at, const void *x, int64_t sx, int64_t n);
/* The same by places of 32 bits. */
typedef void fold_by_fn(void *y, const uint32_t *by, const void *x, int64_t sx, int64_t n);

struct folder {
    fold_fn *run;
    fold_at_fn *at;
    fold_by_fn *by;
    enum scatter_fold fold;
    enum dtype dtype;
};
struct folder folder_of(enum scatter_fold f, enum dtype t);

/* One run, by vector kernels where both sides are contiguous. */
void fold_run(const struct folder *f, void *y, int64_t sy, const void *x, int64_t sx, int64_t n);

/* Folds all of x into a box of y, each walked with strides of its own; `size` elements in all.  On
 * several threads if the box is large. */
void fold_box(const struct folder *f, int ndim, const int *shape, void *y, const int64_t *sy, const void *x,
              const int64_t *sx);
/* The same on this thread, for shapes that are collapsed already. */
void fold_box_here(const struct folder *f, int ndim, const int *shape, void *y, const int64_t *sy, const void *x,
                   const int64_t *sx);

/* y[0] becomes x[0] with room to be changed, in place where nobody else looks at it. */
int start_from_first(const struct run *r);

#endif
