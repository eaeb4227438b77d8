/* The vjp, jvp and vmap rules of shapes, slices and indices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/scope.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "support/rules.h"

#define F(...)                         \
    {                                  \
        DT_float64, __VA_ARGS__, -2, 2 \
    }
#define INDEX(low, high, ...)            \
    {                                    \
        DT_int32, __VA_ARGS__, low, high \
    }

#define A(...) \
    (const int[]) { __VA_ARGS__ }
#define BUILD(name) static int name(const mx x[], mx y[])
#define ONE(name, expression) \
    BUILD(name)               \
    {                         \
        y[0] = expression;    \
        return 1;             \
    }

ONE(broadcast, mx_broadcast_to(x[0], 4, A(2, 3, 4, 3)))
ONE(broadcast_wide, mx_broadcast_to(x[0], 2, A(5, 3)))
ONE(broadcast_like, mx_broadcast_with(2, x, NULL, 0))
ONE(broadcast_but, mx_broadcast_with(2, x, A(-2, -1), 2))
ONE(reshape, mx_reshape(x[0], 3, A(2, -1, 3)))
ONE(reshape_scalar, mx_reshape(x[0], 2, A(1, 1)))
ONE(flatten, mx_flatten(x[0], 1, 2))
ONE(unflatten, mx_unflatten(x[0], 1, 2, A(2, -1)))
ONE(transpose, mx_transpose(x[0], A(2, 0, 1), 3))
ONE(expand, mx_expand_dims(x[0], A(0, 2), 2))
ONE(squeeze, mx_squeeze(x[0], A(1), 1))
ONE(slice, mx_slice(x[0], A(3, 0, 1), A(-5, 3, 2), A(-2, 2, 1)))
ONE(slice_set, mx_slice_update(x[0], x[1], A(3, 0), A(-5, 3), A(-2, 2)))
ONE(slice_add, mx_slice_update_fold(x[0], x[1], A(3, 0), A(-5, 3), A(-2, 2), SCATTER_ADD))
ONE(slice_prod, mx_slice_update_fold(x[0], x[1], A(3, 0), A(-5, 3), A(-2, 2), SCATTER_PROD))
ONE(slice_max, mx_slice_update_fold(x[0], x[1], A(3, 0), A(-5, 3), A(-2, 2), SCATTER_MAX))
ONE(slice_min, mx_slice_update_fold(x[0], x[1], A(3, 0), A(-5, 3), A(-2, 2), SCATTER_MIN))
ONE(dynamic_slice, mx_slice_dynamic(x[0], x[1], A(2, 0), 2, A(3, 2, 1)))
ONE(dynamic_update, mx_slice_update_dynamic(x[0], x[1], x[2], A(2, 0), 2))
ONE(concatenate, mx_concatenate(3, x, 1))
ONE(concatenate_self, mx_concatenate(2, (mx[]){ x[0], x[0] }, 0))
ONE(stack, mx_stack(2, x, -1))
ONE(pad, mx_pad(x[0], A(1, 0), 2, A(1, 2), A(3, 0), x[1], PAD_CONSTANT))
ONE(pad_edge, mx_pad(x[0], A(1, 0), 2, A(1, 2), A(3, 0), NULL, PAD_EDGE))
ONE(pad_reflect, mx_pad(x[0], A(1, 0), 2, A(1, 2), A(6, 0), NULL, PAD_REFLECT))
ONE(as_strided, mx_as_strided(x[0], 3, A(2, 3, 2), (const int64_t[]){ 3, -1, 1 }, 3))
ONE(diagonal, mx_diagonal(x[0], 1, 2, 0))
ONE(diagonal_below, mx_diagonal(x[0], -1, 0, 1))
ONE(diagonal_outside, mx_diagonal(x[0], 5, 0, 1))
ONE(tril, mx_tril(x[0], -1))
ONE(triu, mx_triu(x[0], 1))
ONE(viewed, mx_view(mx_view(x[0], DT_int32), DT_int64))
ONE(elements, mx_number_of_elements(x[0], A(1), 1, false, DT_float64))

BUILD(split) { return mx_split(x[0], 3, 1, y); }
BUILD(split_uneven)
{
    mx parts[4];
    mx_split_at(x[0], A(1, 1, 4), 3, 1, parts);
    y[0] = parts[3]; /* the others have no cotangent */
    y[1] = mx_multiply(parts[0], parts[0]);
    return 2;
}

ONE(take, mx_take(x[0], x[1], 1))
ONE(take_scalar, mx_take(x[0], x[1], 0))
ONE(take_flat, mx_take_flat(x[0], x[1]))
ONE(take_along, mx_take_along_axis(x[0], x[1], 1))
ONE(put_along, mx_put_along_axis(x[0], x[1], x[2], 1))
ONE(add_along, mx_scatter_add_axis(x[0], x[1], x[2], 0))
ONE(gather_one, mx_gather(x[0], x + 1, A(1), 1, A(3, 1, 2)))
ONE(gather_two, mx_gather(x[0], x + 1, A(2, 0), 2, A(1, 2, 1)))
ONE(gather_wide, mx_gather(x[0], x + 1, A(0), 1, A(2, 2, 2)))
ONE(scatter_set, mx_scatter(x[0], x + 1, A(1), 1, x[2], SCATTER_SET))
ONE(scatter_add, mx_scatter(x[0], x + 1, A(1), 1, x[2], SCATTER_ADD))
ONE(scatter_prod, mx_scatter(x[0], x + 1, A(1), 1, x[2], SCATTER_PROD))
ONE(scatter_max, mx_scatter(x[0], x + 1, A(1), 1, x[2], SCATTER_MAX))
ONE(scatter_min, mx_scatter(x[0], x + 1, A(1), 1, x[2], SCATTER_MIN))
ONE(scatter_two, mx_scatter(x[0], x + 1, A(2, 0), 2, x[3], SCATTER_ADD))
ONE(scatter_wide, mx_scatter(x[0], x + 1, A(0), 1, x[2], SCATTER_SET))
/* Zeros among the factors: none, one or several in a place. */
BUILD(scatter_zeros)
{
    mx kept = array_of_data(DT_float64, 3, A(5, 1, 2), (const double[]){ 1, 1, 0, 1, 1, 0, 0, 1, 1, 1 });
    y[0] = mx_scatter(x[0], x + 1, A(0), 1, mx_multiply(x[2], kept), SCATTER_PROD);
    return 1;
}

static const struct rule_case shape_cases[] = {
    { "broadcast", broadcast, 1, { F(3, { 3, 1, 3 }) } },
    { "broadcast to more", broadcast_wide, 1, { F(1, { 3 }) } },
    { "broadcast a scalar", broadcast_wide, 1, { F(0, { 0 }) } },
    { "broadcast like another", broadcast_like, 2, { F(2, { 3, 1 }), F(3, { 2, 1, 4 }) } },
    { "broadcast but for axes", broadcast_but, 2, { F(2, { 3, 5 }), F(3, { 2, 1, 4 }) } },
    { "reshape", reshape, 1, { F(2, { 4, 3 }) } },
    { "reshape a scalar", reshape_scalar, 1, { F(0, { 0 }) } },
    { "flatten", flatten, 1, { F(4, { 2, 2, 3, 2 }) } },
    { "unflatten", unflatten, 1, { F(3, { 2, 4, 2 }) } },
    { "transpose", transpose, 1, { F(3, { 2, 3, 4 }) } },
    { "expand_dims", expand, 1, { F(2, { 2, 3 }) } },
    { "squeeze", squeeze, 1, { F(3, { 2, 1, 3 }) } },
    { "slice", slice, 1, { F(3, { 4, 3, 2 }) } },
    { "slice_update set", slice_set, 2, { F(2, { 4, 3 }), F(2, { 2, 2 }) } },
    { "slice_update set, broadcast", slice_set, 2, { F(2, { 4, 3 }), F(1, { 1 }) } },
    { "slice_update add", slice_add, 2, { F(2, { 4, 3 }), F(2, { 2, 2 }) } },
    { "slice_update prod", slice_prod, 2, { F(2, { 4, 3 }), F(2, { 2, 2 }) } },
    { "slice_update max", slice_max, 2, { F(2, { 4, 3 }), F(2, { 2, 2 }) } },
    { "slice_update min", slice_min, 2, { F(2, { 4, 3 }), F(2, { 2, 2 }) } },
    { "dynamic slice", dynamic_slice, 2, { F(3, { 4, 2, 3 }), INDEX(0, 2, 1, { 2 }) } },
    { "dynamic slice from the end", dynamic_slice, 2, { F(3, { 4, 2, 3 }), INDEX(-3, -2, 1, { 2 }) } },
    { "dynamic update", dynamic_update, 3, { F(3, { 4, 2, 3 }), F(3, { 3, 2, 1 }), INDEX(0, 2, 1, { 2 }) } },
    { "concatenate", concatenate, 3, { F(2, { 2, 3 }), F(2, { 2, 1 }), F(2, { 2, 0 }) } },
    { "concatenate with itself", concatenate_self, 1, { F(2, { 2, 3 }) } },
    { "stack", stack, 2, { F(2, { 2, 3 }), F(2, { 2, 3 }) } },
    { "split", split, 1, { F(2, { 2, 6 }) } },
    { "split unevenly", split_uneven, 1, { F(2, { 2, 6 }) } },
    { "pad", pad, 2, { F(2, { 2, 3 }), F(0, { 0 }) } },
    { "pad edge", pad_edge, 1, { F(2, { 2, 3 }) } },
    { "pad reflect", pad_reflect, 1, { F(2, { 2, 3 }) } },
    { "as_strided", as_strided, 1, { F(2, { 3, 3 }) } },
    { "diagonal", diagonal, 1, { F(3, { 4, 2, 3 }) } },
    { "diagonal below", diagonal_below, 1, { F(3, { 4, 3, 2 }) } },
    { "diagonal outside", diagonal_outside, 1, { F(3, { 3, 4, 2 }) } },
    { "tril", tril, 1, { F(3, { 2, 3, 3 }) } },
    { "triu", triu, 1, { F(3, { 2, 3, 3 }) } },
};

static const struct rule_case index_cases[] = {
    { "take", take, 2, { F(3, { 2, 3, 2 }), INDEX(-3, 3, 2, { 2, 3 }) } },
    { "take one", take_scalar, 2, { F(2, { 4, 3 }), INDEX(-4, 4, 0, { 0 }) } },
    { "take flat", take_flat, 2, { F(2, { 2, 3 }), INDEX(0, 6, 1, { 5 }) } },
    { "take_along_axis", take_along, 2, { F(3, { 2, 3, 2 }), INDEX(0, 3, 3, { 2, 4, 2 }) } },
    { "take_along_axis, indices broadcast", take_along, 2, { F(3, { 2, 3, 2 }), INDEX(0, 3, 3, { 1, 4, 2 }) } },
    { "take_along_axis, array broadcast", take_along, 2, { F(3, { 1, 3, 2 }), INDEX(0, 3, 3, { 3, 4, 1 }) } },
    { "put_along_axis", put_along, 3, { F(3, { 2, 3, 2 }), INDEX(0, 3, 3, { 2, 5, 2 }), F(3, { 2, 5, 2 }) } },
    { "put_along_axis, broadcast", put_along, 3, { F(3, { 2, 3, 2 }), INDEX(0, 3, 3, { 1, 5, 2 }), F(1, { 2 }) } },
    { "scatter_add_axis", add_along, 3, { F(2, { 3, 2 }), INDEX(-3, 3, 2, { 4, 1 }), F(2, { 4, 2 }) } },
    { "gather", gather_one, 2, { F(3, { 3, 4, 2 }), INDEX(-4, 4, 2, { 2, 2 }) } },
    { "gather by two", gather_two, 3, { F(3, { 3, 2, 4 }), INDEX(0, 4, 2, { 3, 1 }), INDEX(0, 3, 1, { 2 }) } },
    { "gather overlapping slices", gather_wide, 2, { F(3, { 4, 3, 2 }), INDEX(0, 3, 1, { 4 }) } },
    { "scatter set", scatter_set, 3, { F(3, { 2, 3, 2 }), INDEX(0, 3, 1, { 5 }), F(4, { 5, 2, 1, 2 }) } },
    { "scatter add", scatter_add, 3, { F(3, { 2, 3, 2 }), INDEX(0, 3, 1, { 5 }), F(4, { 5, 2, 1, 2 }) } },
    { "scatter prod", scatter_prod, 3, { F(3, { 2, 3, 2 }), INDEX(0, 3, 1, { 5 }), F(4, { 5, 2, 1, 2 }) } },
    { "scatter prod, zeros", scatter_zeros, 3, { F(2, { 3, 2 }), INDEX(0, 3, 1, { 5 }), F(3, { 5, 1, 2 }) } },
    { "scatter max", scatter_max, 3, { F(3, { 2, 3, 2 }), INDEX(0, 3, 1, { 5 }), F(4, { 5, 2, 1, 2 }) } },
    { "scatter min", scatter_min, 3, { F(3, { 2, 3, 2 }), INDEX(0, 3, 1, { 5 }), F(4, { 5, 2, 1, 2 }) } },
    { "scatter parts of rows", scatter_set, 3, { F(3, { 2, 3, 2 }), INDEX(0, 3, 1, { 5 }), F(4, { 5, 1, 1, 2 }) } },
    { "scatter by two",
      scatter_two,
      4,
      { F(3, { 3, 2, 4 }), INDEX(0, 4, 1, { 3 }), INDEX(0, 3, 1, { 3 }), F(4, { 3, 1, 2, 1 }) } },
    { "scatter overlapping slices", scatter_wide, 3, { F(2, { 4, 3 }), INDEX(0, 3, 1, { 4 }), F(3, { 4, 2, 3 }) } },
};

static void derivatives(const struct rule_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int again = 0; again < 3; again++) check_derivatives(&c[i]);
}

static void batches(const struct rule_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++) check_batching(&c[i]);
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void shape_derivatives(void **state)
{
    (void)state;
    derivatives(shape_cases, COUNT(shape_cases));
}

static void index_derivatives(void **state)
{
    (void)state;
    derivatives(index_cases, COUNT(index_cases));
}

/* Rules are written in builders, so they have rules in turn. */
static void second_derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shape_cases); i++) check_second_derivatives(&shape_cases[i]);
    for (size_t i = 0; i < COUNT(index_cases); i++)
        if (index_cases[i].n < RULE_OPERANDS)
            check_second_derivatives(&index_cases[i]);
}

static void allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shape_cases); i++) check_allocations(&shape_cases[i]);
    for (size_t i = 0; i < COUNT(index_cases); i++) check_allocations(&index_cases[i]);
}

static void shape_batches(void **state)
{
    static const struct rule_case more[] = {
        { "view", viewed, 1, { { DT_int16, 2, { 2, 4 }, 0, 9 } } },
        { "number_of_elements", elements, 1, { F(2, { 2, 5 }) } },
    };
    (void)state;
    batches(shape_cases, COUNT(shape_cases));
    batches(more, COUNT(more));
}

static void index_batches(void **state)
{
    (void)state;
    batches(index_cases, COUNT(index_cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shape_derivatives), cmocka_unit_test(index_derivatives), cmocka_unit_test(second_derivatives),
        cmocka_unit_test(allocations),       cmocka_unit_test(shape_batches),     cmocka_unit_test(index_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
