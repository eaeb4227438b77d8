/* The reductions of rows of every instruction-set level, and of columns of a few, called directly, against plain loops:
 * each row is as it is alone bit for bit, whatever is beside it, nothing is read behind the last one, nothing written
 * behind the results. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpu/kernels.h"
#include "cpu/kernels/reduce.h"
#include "support/levels.h"
#include "support/sample.h"

enum { MOST_ROWS = 35, BYTES = 1 << 20, GUARD = 8 };

static char *end; /* of memory, behind which nothing may be read */

static int before_all(void **state)
{
    (void)state;
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, (size_t)(BYTES + page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + BYTES, (size_t)page, PROT_NONE))
        return 1;
    end = memory + BYTES;
    return 0;
}

/* Those around the widths of registers, of blocks and of what is summed in one go. */
static const int lengths[] = { 1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  12,   13,   15,   16,   17,  20,
                               23,  24,  25,  31,  32,  33,  40,  47,  48,  49,  63,   64,   65,   96,   127, 128,
                               129, 130, 255, 256, 257, 300, 511, 512, 513, 700, 1023, 1024, 1025, 1500, 3000 };
enum { LENGTHS = sizeof lengths / sizeof *lengths };
static const int some_rows[] = { 1, 2, 7, 8, 9, 15, 16, 17, 33, MOST_ROWS };
enum { SOME_ROWS = sizeof some_rows / sizeof *some_rows };

#define T float
#define S f32
#define DTYPE DT_float32
#include "kernels/reduce.inc"
#define T double
#define S f64
#define DTYPE DT_float64
#include "kernels/reduce.inc"

TEST_BOTH(sums)
TEST_BOTH(products)
TEST_BOTH(extremes)
TEST_BOTH(few)
TEST_BOTH(absent)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums), cmocka_unit_test(test_products), cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_few),  cmocka_unit_test(test_absent),
    };
    return cmocka_run_group_tests(tests, before_all, NULL);
}
