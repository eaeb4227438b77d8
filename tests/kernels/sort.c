/* The sorting kernels of every instruction-set level, called directly: against qsort and single searches, with ties,
 * runs and the largest key among the elements, at odd lengths and places, and with guards on both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/kernels.h"
#include "cpu/kernels/sort.h"
#include "support/levels.h"

enum { MOST = 5000, GUARD = 64 };

static uint64_t seed = 1;
static uint64_t draw(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 20) % n;
}

/* Numbers of one of several kinds: many equal, few equal, in order, backwards, with the extremes. */
static int64_t number(int kind, size_t i, size_t n, int64_t least, int64_t most)
{
    switch (kind) {
    case 0: return (int64_t)draw(3) - 1;
    case 1: return (int64_t)draw(1 << 30) - (1 << 29);
    case 2: return (int64_t)i;
    case 3: return (int64_t)(n - i);
    case 4: return 7;
    case 5: return draw(3) == 0 ? most : draw(3) == 0 ? least : (int64_t)draw(100);
    case 6: return (int64_t)(i % 17);
    default: return i < n / 2 ? (int64_t)i : (int64_t)(n - i);
    }
}

#define T int32_t
#define S i32
#include "kernels/sort.inc"
#define T int64_t
#define S i64
#include "kernels/sort.inc"

/* Bits that are small, random, infinite and not numbers; the order of keys is that of the values. */
static void keys(const struct cpu_kernels *k)
{
    enum { N = 37 };
    float x[N] = { 0, -0.0f, 1, -1, __builtin_inff(), -__builtin_inff(), __builtin_nanf(""), -__builtin_nanf("") };
    float back[N];
    int32_t key[N], rank[N];
    for (int i = 8; i < N; i++) x[i] = (float)((double)draw(1 << 20) - (1 << 19)) / 1000;
    k->sort->keys[DT_float32](key, x, N, false);
    k->sort->keys[DT_float32](rank, x, N, true);
    k->sort->values[DT_float32](back, key, N);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] != x[i] ? back[i] != back[i] : memcmp(&x[i], &back[i], sizeof x[i]) == 0);
        for (int j = 0; j < N; j++) {
            bool before = x[i] < x[j] || (x[i] == x[i] && x[j] != x[j]);
            assert_int_equal(rank[i] < rank[j], before);
            assert_true(!before || key[i] < key[j]);
        }
    }
}

static void both(const struct cpu_kernels *k)
{
    sorts_i32(k, INT32_MIN, INT32_MAX);
    sorts_i64(k, INT64_MIN, INT64_MAX);
}

static void search(const struct cpu_kernels *k)
{
    searches_i32(k, INT32_MIN, INT32_MAX);
    searches_i64(k, INT64_MIN, INT64_MAX);
}

static void test_sorts(void **state) { (void)state, on_every_level(both); }
static void test_keys(void **state) { (void)state, on_every_level(keys); }
static void test_searches(void **state) { (void)state, on_every_level(search); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sorts), cmocka_unit_test(test_keys),
                                        cmocka_unit_test(test_searches) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
