/* create.c: arrays out of nothing. */
#include "ops/create.h"

#include <math.h>
#include <string.h>

#include "core/shape.h"

/* ---- one value everywhere */

/* Every new array shows the shape it was asked for, and errors name what was called. */
static mx filled_array(const char *op, int ndim, const int *shape, mx value, enum dtype t)
{
    if (shape_size(op, ndim, shape) < 0)
        return MX_NIL;
    mx x = mx_broadcast_to(mx_astype(value, t), ndim, shape);
    return mx_node(&op_full, NULL, 1, &x, ndim, shape, t);
}

mx mx_full(int ndim, const int *shape, mx value, enum dtype t) { return filled_array("full", ndim, shape, value, t); }
mx mx_zeros(int ndim, const int *shape, enum dtype t)
{
    return filled_array("zeros", ndim, shape, array_of_int(0, t), t);
}
mx mx_ones(int ndim, const int *shape, enum dtype t)
{
    return filled_array("ones", ndim, shape, array_of_int(1, t), t);
}

mx mx_full_like(mx x, mx value, enum dtype t)
{
    if (is_nil(x) || is_nil(value))
        return MX_NIL;
    if (!shapeless() && value->ndim == 0)
        return mx_full(x->ndim, x->shape, value, t);
    mx v = mx_broadcast_with(2, (mx[]){ mx_astype(value, t), x }, NULL, 0);
    return mx_infer(&op_full, NULL, 1, &v);
}

mx mx_zeros_like(mx x) { return mx_full_like(x, array_of_int(0, x->dtype), x->dtype); }
mx mx_ones_like(mx x) { return mx_full_like(x, array_of_int(1, x->dtype), x->dtype); }

/* ---- arange */

static const struct field arange_args_fields[] = { FIELD(arange_args, start), FIELD(arange_args, stop),
                                                   FIELD(arange_args, step),  ENUM(arange_args, dtype, DT_COUNT - 1),
                                                   SIZES(arange_args, count), { 0 } };

static int arange_shapes(const struct call *c, struct spec out[])
{
    const struct arange_args *a = c->args;
    double n = ceil((a->stop - a->start) / a->step);
    for (int i = 0; i < a->count.n; i++) n = (i ? n : 1) * (double)size_in(c, a->count.v[i]);
    int count = n < 0 ? 0 : n > INT32_MAX ? dim_of("arange", n < 1e18 ? (int64_t)n : INT64_MAX) : (int)n;
    return count < 0 || spec_set(out, a->dtype, 1, &count);
}

mx mx_arange(double start, double stop, double step, enum dtype t)
{
    double span = stop - start;
    if (!isfinite(span) || isnan(step))
        return mx_fail("[arange] expected finite numbers, got start %g, stop %g and step %g", start, stop, step);
    if (isinf(step)) /* the first number, or none */
        step = span == 0 ? 1 : (span > 0) == (step > 0) ? span : -span;
    struct arange_args a = { start, stop, step, t, { 0 } };
    if (step == 0)
        return mx_fail("[arange] expected a step other than 0, got 0");
    if (t == DT_bool_)
        return mx_fail("[arange] expected a numeric type, got bool");
    return mx_infer(&op_arange, &a, 0, NULL);
}

mx mx_arange_by(int n, const struct size sizes[], enum dtype t)
{
    mx in[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM];
    double count = 1;
    for (int i = 0; i < n; i++) count *= sizes[i].now;
    int m = size_operands(0, in, n, sizes, v);
    struct arange_args a = { 0, count, 1, t, { m ? n : 0, v } };
    return mx_infer(&op_arange, &a, m, in);
}

static mx arange_settled(const struct call *c)
{
    const struct arange_args *a = c->args;
    struct spec s;
    return arange_shapes(c, &s) ? MX_NIL : mx_arange(a->start, a->start + a->step * s.shape[0], a->step, a->dtype);
}

/* No numbers but their count depend on operands. */
static void arange_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct arange_args a = *(const struct arange_args *)c->args;
    int64_t v[MX_MAX_NDIM];
    a.count = sizes_batched(a.count, 0, axis, 0, v);
    y[0] = mx_infer(&op_arange, &a, c->nin, c->x);
    yaxis[0] = -1;
}

static bool arange_fits(const struct call *c)
{
    const struct arange_args *a = c->args;
    return c->nout == 1 && numbers_are_sizes(a->count, 0, c) && isfinite(a->start) && isfinite(a->stop) &&
           isfinite(a->step) && a->step != 0 && a->dtype != DT_bool_;
}

const struct op op_arange = {
    OP_ROW(arange), ARGS(arange_args), .shapes = arange_shapes, .settled = arange_settled,
    .vjp = no_vjp,  .jvp = no_jvp,     .vmap = arange_vmap,     .fits = arange_fits,
};

/* ---- linspace */

static const struct field linspace_args_fields[] = { FIELD(linspace_args, start),
                                                     FIELD(linspace_args, stop),
                                                     FIELD(linspace_args, num),
                                                     FIELD(linspace_args, endpoint),
                                                     ENUM(linspace_args, dtype, DT_COUNT - 1),
                                                     { 0 } };

static int linspace_shapes(const struct call *c, struct spec out[])
{
    const struct linspace_args *a = c->args;
    return spec_set(out, a->dtype, 1, &a->num);
}

mx mx_linspace(double start, double stop, int num, bool endpoint, enum dtype t)
{
    struct linspace_args a = { start, stop, num, endpoint, t };
    if (num < 0)
        return mx_fail("[linspace] expected a number of samples of 0 or more, got %d", num);
    return mx_infer(&op_linspace, &a, 0, NULL);
}

const struct op op_linspace = { OP_ROW(linspace), ARGS(linspace_args), .shapes = linspace_shapes };

/* ---- eye and triangles */

static const struct field eye_args_fields[] = {
    FIELD(eye_args, n), FIELD(eye_args, m), FIELD(eye_args, k), ENUM(eye_args, dtype, DT_COUNT - 1), { 0 }
};

static int eye_shapes(const struct call *c, struct spec out[])
{
    const struct eye_args *a = c->args;
    return spec_set(out, a->dtype, 2, (const int[]){ a->n, a->m });
}

mx mx_eye(int n, int m, int k, enum dtype t)
{
    struct eye_args a = { n, m, k, t };
    if (n < 0 || m < 0)
        return mx_fail("[eye] expected sizes of 0 or more, got %d and %d", n, m);
    if (shape_size("eye", 2, (const int[]){ n, m }) < 0)
        return MX_NIL;
    return mx_infer(&op_eye, &a, 0, NULL);
}

const struct op op_eye = { OP_ROW(eye), ARGS(eye_args), .shapes = eye_shapes };

/* The numbers of rows, as a column, plus k, and of columns. */
static void number_diagonal(struct size n, struct size m, int64_t k, mx *i, mx *j)
{
    *i = n.of ? mx_add(mx_arange_by(1, &n, DT_int64), array_of_int(k, DT_int64))
              : mx_arange((double)k, (double)k + n.now, 1, DT_int64);
    *i = mx_expand_dims(*i, (const int[]){ 1 }, 1);
    *j = mx_arange_by(1, &m, DT_int64);
}

mx mx_eye_by(struct size n, struct size m, int k, enum dtype t)
{
    mx i, j;
    if (!n.of && !m.of)
        return mx_eye(n.now, m.now, k, t);
    number_diagonal(n, m, k, &i, &j);
    return mx_astype(mx_equal(i, j), t);
}

/* Is column j at most row i + k?  n rows, m columns. */
static mx triangle(struct size n, struct size m, int64_t k)
{
    mx i, j;
    number_diagonal(n, m, k, &i, &j);
    return mx_less_equal(j, i);
}

mx mx_tri(int n, int m, int k, enum dtype t)
{
    const int shape[] = { n < 0 ? 0 : n, m < 0 ? 0 : m }; /* as NumPy */
    if (!shape[0] || !shape[1])                           /* the other may be large */
        return mx_zeros(2, shape, t);
    return mx_astype(triangle(size_is(n), size_is(m), k), t);
}

static mx part_of_matrix(const char *op, mx x, int k, bool lower)
{
    if (is_nil(x))
        return x;
    if (x->ndim < 2)
        return mx_fail("[%s] expected an array of at least two dimensions, got shape %s", op, shape_of(x));
    struct size n = size_of(x, -2), m = size_of(x, -1);
    if (!x->size && !n.of && !m.of) /* its matrices may be large */
        return x;
    mx keep = triangle(n, m, lower ? k : k - (int64_t)1), zero = array_of_int(0, x->dtype);
    return lower ? mx_where(keep, x, zero) : mx_where(keep, zero, x);
}

mx mx_tril(mx x, int k) { return part_of_matrix("tril", x, k, true); }
mx mx_triu(mx x, int k) { return part_of_matrix("triu", x, k, false); }

/* ---- the number of elements along some axes, as an array: known once the operand's shape is */

static const struct field number_args_fields[] = {
    FIELD(number_args, axes), FIELD(number_args, inverted), ENUM(number_args, dtype, DT_COUNT - 1), { 0 }
};

static int number_of_elements_shapes(const struct call *c, struct spec out[])
{
    const struct number_args *a = c->args;
    return spec_set(out, a->dtype, 0, c->x[0]->shape);
}

static void number_of_elements_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct number_args *a = c->args;
    int64_t v[MX_MAX_NDIM];
    for (int i = 0; i < a->axes.n; i++) v[i] = a->axes.v[i] + 1;
    struct number_args batched = { { a->axes.n, v }, a->inverted, a->dtype };
    mx x = batch_first(c->x[0], axis[0]);
    y[0] = mx_infer(&op_number_of_elements, &batched, 1, &x);
    yaxis[0] = -1;
}

mx number_of_elements(mx x, const struct number_args *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->axes.n; i++) n *= dim(x, (int)a->axes.v[i]);
    return a->inverted ? array_of_double(1.0 / (double)n, a->dtype) : array_of_int(n, a->dtype);
}

/* Where x's shape is settled this is a constant, and x need not be computed for it. */
mx mx_number_of_elements(mx x, const int *axes, int n, bool inverted, enum dtype t)
{
    int sorted[MX_MAX_NDIM];
    int64_t v[MX_MAX_NDIM];
    if (is_nil(x))
        return x;
    n = axes_of("number_of_elements", axes, n, x->ndim, sorted);
    if (n < 0)
        return MX_NIL;
    struct number_args a = { ints_of(n, sorted, v), inverted, t };
    if (!is_traced(x))
        return number_of_elements(x, &a);
    return mx_infer(&op_number_of_elements, &a, 1, &x);
}

static mx number_of_elements_settled(const struct call *c) { return number_of_elements(c->x[0], c->args); }

const struct op op_number_of_elements = {
    OP_ROW(number_of_elements),
    ARGS(number_args),
    .shapes = number_of_elements_shapes,
    .settled = number_of_elements_settled,
    .vjp = no_vjp,
    .jvp = no_jvp,
    .vmap = number_of_elements_vmap,
};
