/* Fused results equal unfused ones bit for bit: random graphs over every type and layout, evaluated
 * both ways at every instruction-set level.  One NaN is as good as another: which of two an addition
 * hands on, compilers decide differently for the rest of a vector. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/run.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "run/fuse.h"
#include "support/effort.h"
#include "support/levels.h"
#include "support/numbers.h"
#include "support/sample.h"

enum { POOL = 80 };

typedef mx unary_builder(mx);
typedef mx binary_builder(mx, mx);
static unary_builder *const unaries[] = {
#define UNARY(name, ...) mx_##name,
#include "ops/ops.def"
};
static binary_builder *const binaries[] = {
#define BINARY(name, ...) mx_##name,
#include "ops/ops.def"
};
enum { UNARIES = sizeof unaries / sizeof *unaries, BINARIES = sizeof binaries / sizeof *binaries };

/* ---- graphs */

struct graph {
    int n;
    mx_own value[POOL];
    int ndim, shape[4];
};

static const struct {
    int ndim, shape[4];
} shapes[] = {
    { 0, { 0 } },          { 1, { 1 } },    { 1, { 7 } },        { 2, { 3, 5 } },
    { 3, { 4, 1, 9 } },    { 2, { 0, 4 } }, { 2, { 33, 65 } },   { 3, { 5, 129, 10 } },
    { 4, { 2, 3, 4, 5 } }, { 1, { 5000 } }, { 2, { 70, 1100 } },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static mx numbers(enum dtype t, int ndim, const int *shape)
{
    size_t n = 1;
    for (int i = 0; i < ndim; i++) n *= (size_t)shape[i];
    char *v = malloc(n * dtype_size(t) + 1);
    number_state = (uint64_t)draw(INT64_MAX) | 1;
    fill_random(t, v, n);
    mx x = array_of_data(t, ndim, shape, v);
    free(v);
    return x;
}

/* A leaf of the graph's shape: whole, in another order, with gaps, or broadcast. */
static mx leaf(const struct graph *g, enum dtype t)
{
    int shape[4], ndim = g->ndim;
    memcpy(shape, g->shape, sizeof shape);
    switch (draw(5)) {
    case 0: return sample(t, ndim, shape);
    case 1: /* a part of the dimensions, the others repeated */
        for (int i = 0; i < ndim; i++)
            if (shape[i] && draw(2))
                shape[i] = 1;
        return mx_broadcast_to(numbers(t, ndim, shape), ndim, g->shape);
    case 2: return mx_broadcast_to(numbers(t, 0, NULL), ndim, g->shape);
    case 3: /* reversed */
        for (int i = 0; i < ndim; i++) shape[i] = g->shape[ndim - 1 - i];
        return mx_transpose(numbers(t, ndim, shape), NULL, 0);
    default: return numbers(t, ndim, shape);
    }
}

static mx any(const struct graph *g) { return g->value[draw(g->n)].it; }

static mx binary_value(mx x, mx y)
{
    binary_builder *f = binaries[draw(BINARIES)];
    /* The sign of a NaN is nobody's. */
    return f(x, f == mx_copysign ? mx_where(mx_isnan(y), mx_scalar_like(1, y), y) : y);
}

static mx next_value(const struct graph *g)
{
    mx x = any(g);
    switch (draw(16)) {
    case 0: return leaf(g, draw_dtype());
    case 1:
    case 2: return mx_astype(x, draw_dtype());
    case 3: return mx_where(any(g), x, any(g));
    case 4: { /* a reduction, back to the shape */
        int axis = g->ndim ? (int)draw(g->ndim) : 0;
        enum fold f = draw(2) ? FOLD_SUM : (enum fold)draw(FOLD_ANY + 1);
        if (f >= FOLD_ALL)
            x = mx_astype(x, DT_bool_);
        else if (draw(2)) /* whose factors may be read */
            x = draw(2) ? mx_square(x) : mx_multiply(x, any(g));
        return mx_broadcast_to(mx_reduce(x, f, &axis, g->ndim && draw(3) ? 1 : 0, true), g->ndim, g->shape);
    }
    case 5: return mx_contiguous(x, false);
    case 6: return mx_stop_gradient(x);
    case 7:
    case 8:
    case 9: return unaries[draw(UNARIES)](x);
    default: return binary_value(x, any(g));
    }
}

/* Grows the graph that the seed stands for, and lets go of most of what is in it. */
static void grow(struct graph *g, uint64_t seed)
{
    draw_seed(seed);
    int s = (int)draw(SHAPES), leaves = 1 + (int)draw(5), nodes = 1 + (int)draw(POOL - 6);
    bool mixed = draw(2) != 0;
    enum dtype t = draw_dtype();
    g->n = 0;
    g->ndim = shapes[s].ndim;
    memcpy(g->shape, shapes[s].shape, sizeof g->shape);
    memset(g->value, 0, sizeof g->value);
    while (g->n < leaves + nodes) {
        MX_SCOPE(NULL);
        mx y = g->n < leaves ? leaf(g, mixed ? draw_dtype() : t) : next_value(g);
        if (mx_failed())
            mx_error_clear(); /* this type is not for that operation */
        else
            mx_keep(&g->value[g->n++], y);
    }
    for (int i = 0; i < g->n - 1; i++)
        if (draw(4))
            mx_drop(&g->value[i]);
}

static void evaluate(struct graph *g, bool fused)
{
    mx x[POOL];
    int n = 0;
    mx_fuse_enable(fused);
    for (int i = 0; i < g->n; i++)
        if (g->value[i].it)
            x[n++] = g->value[i].it;
    /* The last alone, where some of the others come out on the way; then all. */
    if (n > 1 && draw(2))
        assert_int_equal(mx_eval(1, &x[n - 1]), 0);
    assert_int_equal(mx_eval(n, x), 0);
    mx_fuse_enable(true);
}

static void drop_all(struct graph *g)
{
    for (int i = 0; i < g->n; i++) mx_drop(&g->value[i]);
}

static bool same_number(enum dtype t, const void *a, const void *b)
{
    if (t == DT_complex64)
        return same_number(DT_float32, a, b) && same_number(DT_float32, (const float *)a + 1, (const float *)b + 1);
    return !memcmp(a, b, dtype_size(t)) || (dtype_is_float(t) && isnan(value_of(t, a)) && isnan(value_of(t, b)));
}

static void assert_same_bits(mx a, mx b, uint64_t seed, int number)
{
    size_t bytes = (size_t)nbytes(a), size = itemsize(a);
    char *u = malloc(bytes + 1), *v = malloc(bytes + 1);
    assert_int_equal(a->dtype, b->dtype);
    copy_to_row_major(u, a);
    copy_to_row_major(v, b);
    for (size_t i = 0; i < bytes; i += size)
        if (!same_number(a->dtype, u + i, v + i))
            fail_msg("%s, graph %llu: element %zu of value %d, a %s, is %Lg fused and %Lg alone", cpu->isa,
                     (unsigned long long)seed, i / size, number, dtype_name(a->dtype), value_of(a->dtype, u + i),
                     value_of(a->dtype, v + i));
    free(u);
    free(v);
}

static void compare(uint64_t seed)
{
    struct graph fused, alone;
    grow(&fused, seed);
    evaluate(&fused, true);
    grow(&alone, seed);
    evaluate(&alone, false);
    for (int i = 0; i < fused.n; i++)
        if (fused.value[i].it)
            assert_same_bits(fused.value[i].it, alone.value[i].it, seed, i);
    drop_all(&fused);
    drop_all(&alone);
}

static void on_level(const struct cpu_kernels *level)
{
    const struct cpu_kernels *before = cpu;
    const char *graphs = getenv("MLX_TEST_GRAPHS");
    uint64_t n = graphs ? strtoull(graphs, NULL, 10) : (uint64_t)times(1000);
    cpu = level;
    mx_fuse_least(1);
    for (uint64_t seed = 0; seed < n; seed++) compare(seed);
    cpu = before;
    assert_int_equal(array_live_count(), 0);
}

static void random_graphs(void **state)
{
    (void)state;
    on_every_level(on_level);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_graphs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
