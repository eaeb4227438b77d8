/* What a tile of a GPU's radix sort learns from the tiles before it.  The emulator runs one block after the other, so
 * there each knows the sum of all by the time that the next begins; here some know what they have alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/emulator.h"

#define SIZE 4
#define UNIT uint32_t
#include "cuda/kernels/sort.cu"

enum { TILES = 11, DIGIT = 200 };

static void test_look_back(void **state)
{
    (void)state;
    static uint32_t known[TILES][SORT_DIGITS];
    /* Tiles up to `last` know the sum of all before, those behind it only what they have. */
    for (int last = 0; last < TILES; last++) {
        uint32_t sum[TILES + 1] = { 0 };
        for (int t = 0; t < TILES; t++) {
            uint32_t mine = t % 3 ? (uint32_t)(1000 * t + last) : 0;
            sum[t + 1] = sum[t] + mine;
            known[t][DIGIT] =
                t <= last ? (uint32_t)KNOWN_SUM << KNOWN_BITS | sum[t + 1] : (uint32_t)KNOWN_OWN << KNOWN_BITS | mine;
        }
        for (int t = 0; t < TILES; t++) assert_int_equal(look_back(&known[t][DIGIT], t), sum[t]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_look_back) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
