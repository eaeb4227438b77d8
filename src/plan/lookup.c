/* lookup.c: see lookup.h. */
#include "plan/lookup.h"

#include <stdio.h>
#include <string.h>

#include "core/shape.h"

static void finish_plan(struct lookup_plan *p)
{
    int64_t *strides[MX_MAX_NDIM + 2] = { p->far, p->near }, *sstrides[2] = { p->sfar, p->snear };
    for (int k = 0; k < p->n; k++) strides[2 + k] = p->index[k].steps;
    p->ndim = collapse(p->ndim, p->shape, 2 + p->n, strides);
    p->sdim = collapse(p->sdim, p->sshape, 2, sstrides);
    p->count = p->slice = 1;
    for (int i = 0; i < p->ndim; i++) p->count *= p->shape[i];
    for (int i = 0; i < p->sdim; i++) p->slice *= p->sshape[i];
}

struct lookup_index lookup_index_of(mx array, int axis, mx far, int slice)
{
    return (struct lookup_index){ .array = array,
                                  .axis = axis,
                                  .size = far->shape[axis],
                                  .room = far->shape[axis] - slice,
                                  .stride = far->strides[axis] };
}

struct lookup_index lookup_matrix_of(mx array, int operand, mx x)
{
    int64_t n = matrix_count(x);
    return (struct lookup_index){ .array = array, .axis = operand, .size = n, .room = n - 1 };
}

void lookup_several(struct lookup_plan *p, mx far, mx near, int n, const mx indices[], struct ints axes)
{
    int grid = indices[0]->ndim;
    p->n = n;
    p->ndim = p->grid = grid;
    p->sdim = far->ndim;
    p->overlaps = p->corner = false;
    p->begin = 0;
    memset(p->far, 0, sizeof p->far);
    for (int i = 0; i < grid; i++) {
        p->shape[i] = near->shape[i];
        p->near[i] = near->strides[i];
    }
    for (int i = 0; i < far->ndim; i++) {
        p->sshape[i] = near->shape[grid + i];
        p->snear[i] = near->strides[grid + i];
        p->sfar[i] = far->strides[i];
    }
    for (int k = 0; k < n; k++) {
        int axis = (int)axes.v[k], slice = near->shape[grid + axis];
        p->index[k] = lookup_index_of(indices[k], axis, far, slice);
        p->overlaps |= slice > 1;
        memcpy(p->index[k].steps, indices[k]->strides, (size_t)grid * sizeof(int64_t));
    }
    finish_plan(p);
}

void lookup_axis(struct lookup_plan *p, mx far, mx near, mx index, int axis)
{
    int grid = near->ndim;
    while (grid > axis + 1 && (index->shape[grid - 1] == 1 || index->strides[grid - 1] == 0)) grid--;
    p->n = 1;
    p->overlaps = p->corner = false;
    p->begin = 0;
    p->ndim = p->grid = grid;
    p->sdim = near->ndim - grid;
    p->index[0] = lookup_index_of(index, axis, far, 1);
    for (int i = 0; i < grid; i++) {
        p->shape[i] = near->shape[i];
        p->near[i] = near->strides[i];
        p->far[i] = i == axis ? 0 : far->strides[i];
        p->index[0].steps[i] = index->shape[i] == 1 ? 0 : index->strides[i];
    }
    for (int i = grid; i < near->ndim; i++) {
        p->sshape[i - grid] = near->shape[i];
        p->snear[i - grid] = near->strides[i];
        p->sfar[i - grid] = far->strides[i];
    }
    finish_plan(p);
}

void lookup_box(struct lookup_plan *p, int64_t begin, const int64_t *far, mx near)
{
    p->n = p->ndim = p->grid = 0;
    p->overlaps = p->corner = false;
    p->begin = begin;
    p->sdim = near->ndim;
    for (int i = 0; i < near->ndim; i++) {
        p->sshape[i] = near->shape[i];
        p->snear[i] = near->strides[i];
        p->sfar[i] = far[i];
    }
    finish_plan(p);
}

void lookup_corner(struct lookup_plan *p, mx far, mx near, mx start, struct ints axes)
{
    lookup_box(p, 0, far->strides, near);
    p->n = axes.n;
    p->corner = true;
    for (int k = 0; k < axes.n; k++) {
        p->index[k] = lookup_index_of(start, (int)axes.v[k], far, near->shape[axes.v[k]]);
        p->index[k].begin = k * start->strides[0];
    }
}

/* "(0, 2)"; where all axes but one are of size 1 they are left out, as who called take has not seen
 * them. */
static void index_text(int ndim, const int *shape, const int *at, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "(");
    int wide = 0, shown = 0;
    for (int i = 0; i < ndim; i++) wide += shape[i] > 1;
    for (int i = 0; i < ndim && n + 16 < size; i++)
        if (wide != 1 || shape[i] > 1)
            n += (size_t)snprintf(out + n, size - n, shown++ ? ", %d" : "%d", at[i]);
    snprintf(out + n, size - n, shown == 1 ? ",)" : ")");
}

static void value_text(const struct lookup_outside *o, int64_t v, char value[24])
{
    snprintf(value, 24, o->huge ? "%llu" : "%lld", (long long)v);
}

int lookup_report(const struct lookup_outside *o, int ndim, const int *shape, const int *at)
{
    char place[256], value[24];
    index_text(ndim, shape, at, place, sizeof place);
    value_text(o, o->value, value);
    if (o->room == o->size - 1)
        return outside_report(o->use, "[%s] index %s at position %s is out of range for axis %d of size %lld", o->op,
                              value, place, o->axis, (long long)o->size);
    return outside_report(o->use,
                          "[%s] a slice of %lld from index %s at position %s is out of range for axis %d of size %lld",
                          o->op, (long long)(o->size - o->room), value, place, o->axis, (long long)o->size);
}

int lookup_report_corner(const struct lookup_outside *o)
{
    return outside_report(o->use, "[%s] start %lld is out of range for a slice of %lld along axis %d of size %lld",
                          o->op, (long long)o->value, (long long)(o->size - o->room), o->axis, (long long)o->size);
}

int lookup_report_matrix(const struct lookup_outside *o, int64_t at)
{
    const char *which = o->axis ? "rhs" : "lhs";
    char value[24];
    value_text(o, o->value, value);
    if (o->size == 0)
        return outside_report(OUTSIDE_NOWHERE,
                              "[%s] expected no %s_indices as there are no matrices, got %s at position %lld", o->op,
                              which, value, (long long)at);
    return outside_report(
        o->use, "[%s] expected %s_indices from %lld to %lld for %lld matrices, got %s at position %lld", o->op, which,
        (long long)-o->size, (long long)o->size - 1, (long long)o->size, value, (long long)at);
}

int lookup_report_segment(const struct lookup_outside *o, int64_t end, int64_t at)
{
    char from[24], to[24];
    value_text(o, o->value, from);
    value_text(o, end, to);
    return outside_report(o->use, "[%s] expected segments 0 <= begin <= end <= %lld, got (%s, %s) at position %lld",
                          o->op, (long long)o->size, from, to, (long long)at);
}
