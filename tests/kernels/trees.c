/* Trees of sums, products and quotients give what their operations give one after the other, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/kernels/trees.h"
#include "support/levels.h"

enum { MOST = 150 };

static float joined(int op, float a, float b)
{
    volatile float y = op == TREE_ADD        ? a + b
                       : op == TREE_SUBTRACT ? a - b
                       : op == TREE_MULTIPLY ? a * b
                       : op == TREE_DIVIDE   ? a / b
                                             : a;
    return y;
}

/* From 2^-40 to 2^40 and zeros, of either sign. */
static float number(void)
{
    float x = (float)(rand() % 20011 - 10005) / 977.0f;
    int e = rand() % 81 - 40;
    for (; e > 0; e--) x *= 2;
    for (; e < 0; e++) x /= 2;
    return rand() % 16 ? x : x < 0 ? -0.0f : 0.0f;
}

/* `same` operands are each one number for all elements; y is operand `over`, -1: none. */
static void check(tree_fn *f, int op, int l, int r, int n, unsigned same, int over)
{
    static float x[TREE_LEAVES][MOST], y[MOST], truth[MOST];
    const float *from[TREE_LEAVES];
    int stride[TREE_LEAVES];
    for (int k = 0; k < TREE_LEAVES; k++) {
        for (int i = 0; i < MOST; i++) x[k][i] = number();
        from[k] = x[k];
        stride[k] = !(same >> k & 1);
    }
    for (int i = 0; i < n; i++) {
        float v[TREE_LEAVES];
        for (int k = 0; k < TREE_LEAVES; k++) v[k] = x[k][i * stride[k]];
        truth[i] = joined(op, joined(l, v[0], v[1]), joined(r, v[2], v[3]));
    }
    float *to = over < 0 ? y : x[over];
    memset(y, 0x55, sizeof y);
    float next = to[n];
    f(to, from, stride, (size_t)n);
    for (int i = 0; i < n; i++)
        if (memcmp(&to[i], &truth[i], sizeof *to) && !(to[i] != to[i] && truth[i] != truth[i]))
            fail_msg("op %d of %d and %d, element %d of %d, same %u: %a, not %a", op, l, r, i, n, same, to[i],
                     truth[i]);
    assert_memory_equal(&to[n], &next, sizeof next);
}

static void every_tree(const struct cpu_kernels *kernels)
{
    static const int sizes[] = { 0, 1, 15, 16, 17, 31, 32, 64, 100, MOST - 1 };
    for (int op = TREE_ADD; op < TREE_OUTER; op++)
        for (int l = 0; l < TREE_INNER; l++)
            for (int r = 0; r < TREE_INNER; r++)
                for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                    tree_fn *f = kernels->tree->f32[op][l][r];
                    assert_non_null(f);
                    for (unsigned same = 0; same < 1u << TREE_LEAVES; same++) check(f, op, l, r, sizes[i], same, -1);
                    check(f, op, l, r, sizes[i], 0, 0);
                    check(f, op, l, r, sizes[i], 1, 2);
                }
}

static void trees(void **state)
{
    (void)state;
    on_every_level(every_tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(trees) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
