/* Whether tiles of bfloat16 work is found out in a child, whatever becomes of it.  The program holds that file itself,
 * and takes the library's place for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/bf16.c"
#include "support/emulated_tiles.h"

static struct cpu_kernels kernels;
static struct gemm_kernels products;

static void with_tiles(const struct gemm_kernel *tiles)
{
    kernels = *cpu_kernels_named("base");
    products = gemm_kernels_emulated;
    products.type[GEMM_tiles] = *tiles;
    kernels.gemm = &products;
    cpu = &kernels;
}

static void wrong_tile(void *c, int64_t ldc, const void *a, int64_t stride_a, const void *b, int64_t stride_b,
                       int64_t m, int64_t n, int64_t steps, bool add)
{
    gemm_kernels_emulated.type[GEMM_tiles].tile(c, ldc, a, stride_a, b, stride_b, m, n, steps, add);
    ((float *)c)[ldc + 1] += 1;
}

static void no_tile(void *c, int64_t ldc, const void *a, int64_t stride_a, const void *b, int64_t stride_b, int64_t m,
                    int64_t n, int64_t steps, bool add)
{
    (void)c, (void)ldc, (void)a, (void)stride_a, (void)b, (void)stride_b, (void)m, (void)n, (void)steps, (void)add;
    raise(SIGILL);
}

static void what_works_is_used(void **state)
{
    (void)state;
    with_tiles(&gemm_kernels_emulated.type[GEMM_tiles]);
    assert_true(child_succeeds());
}

static void wrong_numbers_are_seen(void **state)
{
    (void)state;
    struct gemm_kernel g = gemm_kernels_emulated.type[GEMM_tiles];
    g.tile = wrong_tile;
    with_tiles(&g);
    assert_false(child_succeeds());
}

/* A program's own handler, faulthandler's for one, hears nothing of it. */
static void heard(int signal) { _exit(signal ? 0 : 1); }

static void an_instruction_that_is_missing_ends_the_child_alone(void **state)
{
    (void)state;
    struct gemm_kernel g = gemm_kernels_emulated.type[GEMM_tiles];
    g.tile = no_tile;
    with_tiles(&g);
    signal(SIGILL, heard);
    signal(SIGCHLD, heard);
    assert_false(child_succeeds());
    signal(SIGILL, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
}

/* Without the permission that is asked for first, the real ones do not work anywhere. */
static void real_tiles_are_tried(void **state)
{
    (void)state;
    const struct cpu_kernels *k = cpu_kernels_named("avx512");
    if (!k || !k->gemm->type[GEMM_tiles].tile)
        skip();
    with_tiles(&k->gemm->type[GEMM_tiles]);
    assert_false(child_succeeds());
}

static void what_is_allowed_decides(void **state)
{
    (void)state;
    with_tiles(&gemm_kernels_emulated.type[GEMM_tiles]);
    products.type[GEMM_pairs].tile = wrong_tile;
    bf16_begin(BF16_WIDENED, true);
    assert_int_equal(bf16_gemm(), GEMM_f32);
    bf16_begin(BF16_PAIRS, true);
    assert_int_equal(bf16_gemm(), GEMM_pairs);
    bf16_begin(BF16_PAIRS, false);
    assert_int_equal(bf16_gemm(), GEMM_f32);
    bf16_trust_tiles();
    assert_int_equal(bf16_gemm(), GEMM_tiles);
    products.type[GEMM_tiles].tile = NULL; /* as at a level without */
    bf16_begin(BF16_TILES, true);
    assert_int_equal(bf16_gemm(), GEMM_pairs);
    products.type[GEMM_pairs].tile = NULL;
    assert_int_equal(bf16_gemm(), GEMM_f32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_tiles_are_tried),
        cmocka_unit_test(what_works_is_used),
        cmocka_unit_test(wrong_numbers_are_seen),
        cmocka_unit_test(an_instruction_that_is_missing_ends_the_child_alone),
        cmocka_unit_test(what_is_allowed_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
