/* shape.c: arithmetic on shapes, axes and strides. */
#include "core/shape.h"

#include <stdio.h>
#include <string.h>

int axis_of(const char *op, int i, int n)
{
    if (i < -n || i >= n) {
        mx_fail_as(MX_AXIS, "[%s] axis %d is out of range for an array with %d dimensions", op, i, n);
        return -1;
    }
    return i < 0 ? i + n : i;
}

int axes_of(const char *op, const int *axes, int n, int ndim, int *out)
{
    bool seen[MX_MAX_NDIM] = { 0 };
    if (!axes) {
        for (int i = 0; i < ndim; i++) out[i] = i;
        return ndim;
    }
    for (int i = 0; i < n; i++) {
        int a = axis_of(op, axes[i], ndim);
        if (a < 0)
            return -1;
        if (seen[a]) {
            mx_fail("[%s] expected distinct axes, got axis %d twice", op, axes[i]);
            return -1;
        }
        seen[a] = true;
    }
    int m = 0;
    for (int a = 0; a < ndim; a++)
        if (seen[a])
            out[m++] = a;
    return m;
}

/* The number of elements where the bits of the largest size say that it fits, as they mostly do; else -1. */
static int64_t plain_size(int ndim, const int *shape)
{
    int all = 0;
    uint64_t size = 1;
    for (int i = 0; i < ndim; i++) {
        all |= shape[i];
        size *= (uint64_t)shape[i];
    }
    return all >= 0 && ndim * (32 - __builtin_clz((unsigned)all | 1)) < 60 ? (int64_t)size : -1;
}

int64_t shape_size(const char *op, int ndim, const int *shape)
{
    int64_t size = plain_size(ndim, shape);
    bool empty = false;
    if (size >= 0)
        return size;
    size = 1;
    if (ndim > MX_MAX_NDIM) {
        mx_fail("[%s] expected at most %d dimensions, got %d", op, MX_MAX_NDIM, ndim);
        return -1;
    }
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) {
            mx_fail("[%s] expected sizes of 0 or more, got %d in shape %s", op, shape[i], shape_text(ndim, shape));
            return -1;
        }
        if (shape[i] == 0) {
            empty = true;
            continue;
        }
        /* 16 bytes are the most an element may take, so byte counts fit as well. */
        if (__builtin_mul_overflow(size, (int64_t)shape[i], &size) || size > INT64_MAX / 16) {
            mx_fail("[%s] expected sizes whose product fits 63 bits in bytes, 16 for each element, got shape %s", op,
                    shape_text(ndim, shape));
            return -1;
        }
    }
    return empty ? 0 : size;
}

bool shape_is(mx x, int ndim, const int *shape)
{
    return x->ndim == ndim && (ndim == 0 || !memcmp(x->shape, shape, (size_t)ndim * sizeof *shape));
}

bool broadcast_shape(const char *op, int n, const mx x[], int *ndim, int *shape)
{
    int most = 0;
    for (int k = 0; k < n; k++) most = x[k]->ndim > most ? x[k]->ndim : most;
    for (int i = 0; i < most; i++) {
        int size = 1;
        for (int k = 0; k < n; k++) {
            int j = i - (most - x[k]->ndim);
            if (j < 0 || x[k]->shape[j] == 1 || x[k]->shape[j] == size)
                continue;
            if (size != 1) {
                if (n == 2)
                    mx_fail("[%s] shapes %s and %s cannot be broadcast", op, shape_of(x[0]), shape_of(x[1]));
                else
                    mx_fail(
                        "[%s] shape %s of operand %d cannot be broadcast with the others: axis %d is %d there, %d here",
                        op, shape_of(x[k]), k, i - most, size, x[k]->shape[j]);
                return false;
            }
            size = x[k]->shape[j];
        }
        shape[i] = size;
    }
    *ndim = most;
    return true;
}

void row_strides(int ndim, const int *shape, int64_t *strides)
{
    int64_t s = 1;
    for (int i = ndim; i-- > 0;) {
        strides[i] = s;
        s *= shape[i];
    }
}

const char *shape_text(int ndim, const int *shape)
{
    static _Thread_local char ring[4][512];
    static _Thread_local unsigned turn;
    char *out = ring[turn++ % 4];
    size_t n = 0, cap = sizeof ring[0];
    n += (size_t)snprintf(out, cap, "(");
    for (int i = 0; i < ndim && n < cap - 16; i++) n += (size_t)snprintf(out + n, cap - n, i ? ",%d" : "%d", shape[i]);
    snprintf(out + n, cap - n, ndim == 1 ? ",)" : ")");
    return out;
}

int collapse(int ndim, int *shape, int n, int64_t *strides[])
{
    int m = 0; /* dimensions kept so far */
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1)
            continue;
        bool joins = m > 0;
        for (int k = 0; k < n && joins; k++) joins = strides[k][m - 1] == strides[k][i] * shape[i];
        if (joins && (int64_t)shape[m - 1] * shape[i] <= INT32_MAX) {
            shape[m - 1] *= shape[i];
            m--;
        } else {
            shape[m] = shape[i];
        }
        for (int k = 0; k < n; k++) strides[k][m] = strides[k][i];
        m++;
    }
    if (m == 0) {
        shape[0] = 1;
        for (int k = 0; k < n; k++) strides[k][0] = 1;
        m = 1;
    }
    return m;
}
