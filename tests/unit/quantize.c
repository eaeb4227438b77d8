/* Packed weights and products of some matrices: every instruction-set level and number of threads
 * against long double and each other, and allocations that fail. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/pool.h"
#include "core/scope.h"
#include "cpu/kernels.h"
#include "cpu/kernels/quantize.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/emulated_tiles.h"
#include "support/levels.h"
#include "support/rules.h"

static uint64_t seed = 1;
static float number(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)((seed >> 33) % 2001) / 500 - 2);
}

static void fill(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = number();
}

static const struct {
    const char *mode;
    int bits, group;
} kinds[] = { { "affine", 1, 32 }, { "affine", 2, 128 }, { "affine", 3, 64 }, { "affine", 4, 64 }, { "affine", 5, 32 },
              { "affine", 6, 64 }, { "affine", 8, 128 }, { "mxfp4", 4, 32 },  { "mxfp8", 8, 32 },  { "nvfp4", 4, 16 } };
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The bytes of what is evaluated, in memory to be freed. */
static void *bytes_of(mx_own *x, size_t *n)
{
    if (mx_eval(1, &x->it))
        fail_msg("%s", mx_error_message());
    assert_true(x->it->row);
    *n = (size_t)nbytes(x->it);
    void *copy = malloc(*n + 1);
    memcpy(copy, array_host(x->it), *n);
    return copy;
}

struct got {
    void *v[4];
    size_t n[4];
};

/* Packed words, scales, the numbers, and x times them one way or the other. */
static struct got compute(int kind, int rows, int n, int k, const float *w, const float *x, bool transpose,
                          enum dtype t)
{
    mx_own y[4] = { { NULL } };
    struct got got;
    {
        MX_SCOPE(NULL);
        mx part[3] = { NULL, NULL, NULL };
        mx packed = mx_astype(array_of_data(DT_float32, 2, (int[]){ n, k }, w), t);
        int group = kinds[kind].group, bits = kinds[kind].bits, in = transpose ? k : n;
        const char *mode = kinds[kind].mode;
        if (mx_quantize(packed, group, bits, mode, NULL, part) < 0)
            fail_msg("%s", mx_error_message());
        mx left = mx_astype(array_of_data(DT_float32, 2, (int[]){ rows, in }, x), t);
        mx_keep(&y[0], part[0]);
        mx_keep(&y[1], part[1]);
        mx_keep(&y[2], mx_dequantize(part[0], part[1], part[2], group, bits, mode, NULL, &(enum dtype){ DT_float32 }));
        mx_keep(&y[3], mx_quantized_matmul(left, part[0], part[1], part[2], transpose, group, bits, mode));
    }
    for (int i = 0; i < 4; i++) {
        got.v[i] = bytes_of(&y[i], &got.n[i]);
        mx_drop(&y[i]);
    }
    return got;
}

static void forget(struct got *g)
{
    for (int i = 0; i < 4; i++) free(g->v[i]);
}

/* Of bfloat16, y is rounded once, and so are the numbers that codes stand for where rows are many. */
static void check_product(const struct got *g, int rows, int n, int k, const float *x, bool transpose, bool halves)
{
    const float *w = g->v[2];
    int out = transpose ? n : k, in = transpose ? k : n;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < out; j++) {
            long double sum = 0, size = 0;
            for (int p = 0; p < in; p++) {
                long double term = (long double)x[i * in + p] * w[transpose ? j * k + p : p * k + j];
                sum += term;
                size += fabsl(term);
            }
            float y = ((const float *)g->v[3])[halves ? 0 : i * out + j];
            if (halves) {
                uint32_t wide = (uint32_t)((const uint16_t *)g->v[3])[i * out + j] << 16;
                memcpy(&y, &wide, sizeof y);
            }
            if (!(fabsl(sum - y) <= (halves ? 0x1.02p-8L * (size + fabsl(sum)) : 2e-6L * size) + 1e-30L))
                fail_msg("%d,%d of %d x %d x %d: %.9g, expected %.9Lg", i, j, rows, n, k, (double)y, sum);
        }
}

/* Codes, scales and numbers are the same everywhere, products within one level. */
static void agree(void **state)
{
    (void)state;
    static const int sizes[][3] = { { 1, 37, 1 }, { 5, 12, 3 }, { 33, 70, 4 }, { 2, 260, 9 } };
    const struct cpu_kernels *chosen = cpu;
    int threads = pool_threads();
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int rows = sizes[s][0], n = sizes[s][1], k = sizes[s][2] * kinds[kind].group;
            float *w = malloc(sizeof *w * (size_t)(n * k)), *x = malloc(sizeof *x * (size_t)(rows * (n + k)));
            fill(w, n * k);
            fill(x, rows * (n + k));
            for (int turn = 0; turn < 2; turn++) {
                struct got first = { { NULL }, { 0 } };
                for (int l = 0; l < LEVELS; l++) {
                    if (!cpu_kernels_named(levels[l]))
                        continue;
                    cpu = cpu_kernels_named(levels[l]);
                    pool_set_threads(1);
                    struct got one = compute(kind, rows, n, k, w, x, turn, DT_float32);
                    pool_set_threads(3);
                    struct got three = compute(kind, rows, n, k, w, x, turn, DT_float32);
                    for (int i = 0; i < 4; i++) assert_memory_equal(one.v[i], three.v[i], one.n[i]);
                    check_product(&one, rows, n, k, x, turn, false);
                    forget(&three);
                    if (!first.v[0]) {
                        first = one;
                        continue;
                    }
                    for (int i = 0; i < 2; i++) assert_memory_equal(one.v[i], first.v[i], one.n[i]);
                    forget(&one);
                }
                forget(&first);
            }
            free(w);
            free(x);
        }
    cpu = chosen;
    pool_set_threads(threads);
}

static void check_halves(int kind, int rows, int n, int k, bool transpose)
{
    float *w = malloc(sizeof *w * (size_t)(n * k)), *x = malloc(sizeof *x * (size_t)(rows * (n + k)));
    int in = transpose ? k : n;
    fill(w, n * k);
    fill(x, rows * (n + k));
    for (int i = 0; i < rows * in; i++) x[i] = rintf(x[i] * 64) / 64;
    pool_set_threads(1);
    struct got one = compute(kind, rows, n, k, w, x, transpose, DT_bfloat16);
    pool_set_threads(3);
    struct got three = compute(kind, rows, n, k, w, x, transpose, DT_bfloat16);
    assert_memory_equal(one.v[3], three.v[3], one.n[3]);
    check_product(&one, rows, n, k, x, transpose, true);
    forget(&one);
    forget(&three);
    free(w);
    free(x);
}

static void products_of_halves(void **state)
{
    (void)state;
    static const int sizes[][3] = { { 3, 40, 2 }, { 33, 70, 4 }, { 50, 260, 9 }, { 26, 1, 1 }, { 26, 1030, 1 } };
    const struct cpu_kernels *chosen = cpu;
    int threads = pool_threads();
    for (int tiles = 0; tiles < 2; tiles++) {
        if (tiles)
            use_emulated_tiles();
        for (int kind = 0; kind < KINDS; kind++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int turn = 0; turn < 2; turn++)
                    check_halves(kind, sizes[s][0], sizes[s][1], sizes[s][2] * kinds[kind].group, turn);
    }
    cpu = chosen;
    pool_set_threads(threads);
}

/* ---- allocations that fail ---- */

static int pack_and_multiply(const mx x[], mx y[])
{
    mx part[3] = { MX_NIL, MX_NIL, MX_NIL };
    mx_quantize(x[0], 32, 4, "affine", NULL, part);
    y[0] = mx_quantized_matmul(x[1], part[0], part[1], part[2], true, 32, 4, "affine");
    return 1;
}

static int pack_and_gather(const mx x[], mx y[])
{
    mx part[3] = { MX_NIL, MX_NIL, MX_NIL };
    mx_quantize(x[0], 32, 4, "mxfp4", NULL, part);
    y[0] = mx_gather_qmm(x[1], part[0], part[1], NULL, x[2], x[3], true, 32, 4, "mxfp4", NULL);
    return 1;
}

static int gather(const mx x[], mx y[])
{
    y[0] = mx_gather_mm(x[0], x[1], x[2], x[3]);
    return 1;
}

static int segment(const mx x[], mx y[])
{
    y[0] = mx_segmented_mm(x[0], x[1], x[2]);
    return 1;
}

static int transform(const mx x[], mx y[])
{
    y[0] = mx_hadamard_transform(x[0], NULL);
    return 1;
}

static const struct rule_case cases[] = {
    { "quantized_matmul",
      pack_and_multiply,
      2,
      { { DT_float32, 2, { 5, 64 }, -1, 1 }, { DT_float32, 2, { 3, 64 }, -1, 1 } } },
    { "gather_qmm",
      pack_and_gather,
      4,
      { { DT_float32, 3, { 2, 5, 64 }, -1, 1 },
        { DT_float32, 3, { 2, 3, 64 }, -1, 1 },
        { DT_int32, 1, { 3 }, 0, 1.9 },
        { DT_int32, 1, { 3 }, 0, 1.9 } } },
    { "gather_mm",
      gather,
      4,
      { { DT_float64, 3, { 2, 2, 3 }, -1, 1 },
        { DT_float64, 3, { 2, 3, 2 }, -1, 1 },
        { DT_int32, 1, { 3 }, 0, 1.9 },
        { DT_int32, 1, { 3 }, 0, 1.9 } } },
    { "segmented_mm",
      segment,
      3,
      { { DT_float64, 2, { 2, 5 }, -1, 1 }, { DT_float64, 2, { 5, 3 }, -1, 1 }, { DT_int32, 2, { 3, 2 }, 4, 4.5 } } },
    { "hadamard", transform, 1, { { DT_float64, 2, { 2, 12 }, -1, 1 } } },
};

/* Derivatives and batches of those in float64. */
static void rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rule_case *c = &cases[i];
        if (c->x[0].dtype != DT_float64)
            continue;
        check_derivatives(c);
        check_batching(c);
        if (c->n < RULE_OPERANDS)
            check_second_derivatives(c);
    }
}

static void allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_allocations(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agree),
        cmocka_unit_test(products_of_halves),
        cmocka_unit_test(rules),
        cmocka_unit_test(allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
