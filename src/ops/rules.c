/* rules.c: small things that the rules of several families of operations share. */
#include "ops/rules.h"

#include <string.h>

struct ints ints_of(int n, const int *v, int64_t *out)
{
    for (int i = 0; i < n; i++)
        out[i] = v[i];
    return (struct ints){ n, out };
}

int dim_of(const char *op, int64_t size)
{
    if (size >= 0 && size <= INT32_MAX)
        return (int)size;
    mx_fail("[%s] expected dimensions up to 2147483647 of the result, got %lld", op,
            (long long)size);
    return -1;
}

int spec_set(struct spec *out, enum dtype t, int ndim, const int *shape)
{
    out->dtype = t;
    out->ndim = ndim;
    for (int i = 0; i < ndim; i++)
        out->shape[i] = shape[i];
    return 0;
}

int spec_like(struct spec *out, mx x) { return spec_set(out, x->dtype, x->ndim, x->shape); }

mx zeros_shaped(enum dtype t, int ndim, const int *shape)
{
    return mx_broadcast_to(array_of_int(0, t), ndim, shape);
}

mx zeros_of(mx x) { return zeros_shaped(x->dtype, x->ndim, x->shape); }
mx ones_of(mx x) { return mx_broadcast_to(array_of_int(1, x->dtype), x->ndim, x->shape); }
mx or_zeros(mx t, mx x) { return t ? t : zeros_of(x); }
mx conjugated(mx x) { return dtype_is_complex(x->dtype) ? mx_conjugate(x) : x; }

int batch_size(const struct call *c, const int axis[])
{
    for (int i = 0; i < c->nin; i++)
        if (axis[i] >= 0)
            return dim(c->x[i], axis[i]);
    return 1;
}

mx batch_first(mx x, int axis) { return axis > 0 ? mx_moveaxis(x, axis, 0) : x; }

mx batch_all(mx x, int axis, int n)
{
    if (axis >= 0)
        return batch_first(x, axis);
    int shape[MX_MAX_NDIM + 1] = { n };
    memcpy(shape + 1, x->shape, (size_t)x->ndim * sizeof *shape);
    return mx_broadcast_to(x, x->ndim + 1, shape);
}

void with_first(int first, struct ints v, int shift, int *out)
{
    out[0] = first;
    for (int i = 0; i < v.n; i++)
        out[1 + i] = (int)v.v[i] + shift;
}
