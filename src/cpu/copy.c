/* copy.c: strided arrays made row-major. */
#include <string.h>

#include "core/scope.h"
#include "cpu/run.h"
#include "cpu/runs.h"
#include "cpu/worth.h"

static void copy_runs(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n)
{
    (void)s;
    memcpy(runs_y(r, at), x[0], (size_t)n * r->y_size);
}

int copy_to_row_major(void *y, mx x)
{
    struct runs runs;
    const void *data = host(x);
    runs.kernel = copy_runs;
    runs.repeats = 0;
    runs.most = 0;
    runs.grain = WORTH_MOVED;
    runs_over(&runs, y, itemsize(x), 1, &x, &data);
    return 0;
}

mx row_major(mx x, mx_own *hold)
{
    if (x->row)
        return x;
    struct buffer *b = buffer_new((size_t)nbytes(x));
    if (!b)
        return MX_NIL;
    MX_SCOPE(NULL);
    mx_keep(hold, array_of_buffer(x->dtype, x->ndim, x->shape, b));
    if (!is_nil(hold->it))
        copy_to_row_major(host(hold->it), x);
    return hold->it;
}

mx row_major_as(mx x, enum dtype t, mx_own *hold)
{
    mx z = row_major(x, hold);
    if (is_nil(z) || z->dtype == t)
        return z;
    struct buffer *b = buffer_new((size_t)z->size * dtype_size(t));
    if (!b)
        return MX_NIL;
    MX_SCOPE(NULL);
    mx wide = array_of_buffer(t, z->ndim, z->shape, b);
    if (!is_nil(wide))
        cpu->cast[z->dtype][t](host(wide), host(z), (size_t)z->size);
    mx_keep(hold, wide); /* z, if it was a copy, goes */
    return hold->it;
}

/* ---- operations that come to a copy */

/* Views whose operand's strides did not allow one: the same elements in the same order. */
static int copied(const struct run *r) { return out_new(r, 0) || copy_to_row_major(host(r->y[0]), r->x[0]); }

int run_stop_gradient(const struct run *r) { return copied(r); }
int run_copy(const struct run *r) { return copied(r); }
int run_full(const struct run *r) { return copied(r); }
int run_broadcast(const struct run *r) { return copied(r); }
int run_reshape(const struct run *r) { return copied(r); }
int run_transpose(const struct run *r) { return copied(r); }
int run_expand_dims(const struct run *r) { return copied(r); }
int run_squeeze(const struct run *r) { return copied(r); }
int run_view(const struct run *r) { return copied(r); }
int run_contiguous(const struct run *r) { return copied(r); }
