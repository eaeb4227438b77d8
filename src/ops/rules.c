/* rules.c: small things that the rules of several families of operations share. */
#include "ops/rules.h"

#include <string.h>

struct ints ints_of(int n, const int *v, int64_t *out)
{
    for (int i = 0; i < n; i++) out[i] = v[i];
    return (struct ints){ n, out };
}

int size_operands(int m, mx x[], int n, const struct size sizes[], int64_t *out)
{
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < m && x[k] != sizes[i].of) k++;
        if (sizes[i].of && k == m)
            x[m++] = sizes[i].of;
        out[i] = sizes[i].of ? SIZE_OF(k, sizes[i].axis) : sizes[i].now;
    }
    return m;
}

struct ints sizes_batched(struct ints v, int own, const int axis[], int front, int64_t *out)
{
    bool batch = own && axis[0] >= 0;
    if (batch)
        out[0] = SIZE_OF(0, 0);
    for (int i = 0; i < v.n; i++) {
        int k = size_lender(v.v[i]), a = size_axis(v.v[i]);
        if (!size_is_lent(v.v[i]))
            out[batch + i] = v.v[i];
        else if (k < own)
            out[batch + i] = SIZE_OF(k, a + (batch ? front : 0));
        else
            out[batch + i] = SIZE_OF(k, a + (axis[k] >= 0 && a >= axis[k]));
    }
    return (struct ints){ batch + v.n, out };
}

bool one_dtype(const struct call *c, int n)
{
    for (int i = 1; i < n; i++)
        if (c->x[i]->dtype != c->x[0]->dtype)
            return false;
    return true;
}

bool numbers_within(struct ints v, int n, int64_t low, int64_t high)
{
    bool fits = v.n == n;
    for (int i = 0; i < v.n && fits; i++) fits = v.v[i] >= low && v.v[i] <= high;
    return fits;
}

bool numbers_are_axes(struct ints v, mx x)
{
    bool fits = v.n <= x->ndim && numbers_within(v, v.n, 0, x->ndim - 1);
    for (int i = 1; i < v.n && fits; i++)
        for (int k = 0; k < i; k++) fits = fits && v.v[k] != v.v[i];
    return fits;
}

bool numbers_are_sizes(struct ints v, int least, const struct call *c)
{
    bool fits = true;
    for (int i = 0; i < v.n && fits; i++)
        fits = v.v[i] > SIZE_OF(0, 0) ? v.v[i] >= least && v.v[i] <= INT32_MAX : size_in(c, v.v[i]) >= 0;
    return fits;
}

bool are_indices(int n, const mx x[])
{
    bool fits = true;
    for (int i = 0; i < n && fits; i++) fits = dtype_is_integer(x[i]->dtype) && same_shape(x[i], x[0]);
    return fits;
}

int dim_of(const char *op, int64_t size)
{
    if (size >= 0 && size <= INT32_MAX)
        return (int)size;
    mx_fail("[%s] expected dimensions up to 2147483647 of the result, got %lld", op, (long long)size);
    return -1;
}

int spec_set(struct spec *out, enum dtype t, int ndim, const int *shape)
{
    out->dtype = t;
    out->ndim = ndim;
    for (int i = 0; i < ndim; i++) out->shape[i] = shape[i];
    return 0;
}

int spec_like(struct spec *out, mx x) { return spec_set(out, x->dtype, x->ndim, x->shape); }

mx zeros_shaped(enum dtype t, int ndim, const int *shape) { return mx_broadcast_to(array_of_int(0, t), ndim, shape); }

mx zeros_of(mx x) { return mx_broadcast_like(array_of_int(0, x->dtype), x); }
mx ones_of(mx x) { return mx_broadcast_like(array_of_int(1, x->dtype), x); }
mx or_zeros(mx t, mx x) { return t ? t : zeros_of(x); }

mx mx_count(mx x, int first, int n, enum dtype t)
{
    int axes[MX_MAX_NDIM];
    int64_t count = 1;
    for (int i = 0; i < n; i++) {
        axes[i] = first + i;
        count *= dim(x, first + i);
    }
    return x->tracer && shapeless() ? mx_number_of_elements(x, axes, n, false, t) : array_of_int(count, t);
}

mx conjugated(mx x) { return dtype_is_complex(x->dtype) ? mx_conjugate(x) : x; }

struct size batch_size(const struct call *c, const int axis[])
{
    for (int i = 0; i < c->nin; i++)
        if (axis[i] >= 0)
            return size_of(c->x[i], axis[i]);
    return size_is(1);
}

mx batch_first(mx x, int axis) { return axis > 0 ? mx_moveaxis(x, axis, 0) : x; }

mx batch_all(mx x, int axis, struct size n)
{
    if (axis >= 0)
        return batch_first(x, axis);
    struct size sizes[MX_MAX_NDIM + 1] = { n };
    return mx_broadcast_by(x, 1 + sizes_like(x, sizes + 1), sizes);
}
