/* Division of narrow integers goes through floating point (shared/scalar_integer.h): here every
 * pair of 8 bits, and of 16 and 32 bits the quotients that lie next to whole numbers, against
 * C's division, for every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cpu/kernels.h"
#include "support/levels.h"
#include "support/reference.h"

enum { COUNT = 1 << 16 };
static int32_t a[COUNT], b[COUNT], y[COUNT];

static int64_t load(enum dtype t, const void *x, size_t i)
{
    switch (t) {
    case DT_int8: return ((const int8_t *)x)[i];
    case DT_uint8: return ((const uint8_t *)x)[i];
    case DT_int16: return ((const int16_t *)x)[i];
    case DT_uint16: return ((const uint16_t *)x)[i];
    case DT_int32: return ((const int32_t *)x)[i];
    default: return ((const uint32_t *)x)[i];
    }
}

/* The low bits of v. */
static void store(enum dtype t, void *x, size_t i, int64_t v)
{
    if (dtype_size(t) == 1)
        ((uint8_t *)x)[i] = (uint8_t)v;
    else if (dtype_size(t) == 2)
        ((uint16_t *)x)[i] = (uint16_t)v;
    else
        ((uint32_t *)x)[i] = (uint32_t)v;
}

/* What remains of v in type t. */
static int64_t wrap(enum dtype t, whole v)
{
    uint32_t cell;
    store(t, &cell, 0, (int64_t)v);
    return load(t, &cell, 0);
}

static void check(enum dtype t)
{
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        if (!k)
            continue;
        for (int row = 0; row < 2; row++) {
            k->binary[row ? BINARY_remainder : BINARY_floor_divide][t](y, a, 1, b, 1, COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                int64_t p = load(t, a, i), q = load(t, b, i);
                whole truth = row ? i_remainder(p, q, 0) : i_floor_divide(p, q, 0);
                if (load(t, y, i) != wrap(t, truth))
                    fail_msg("%s %s: %lld %s %lld = %lld, not %lld", levels[l], dtype_name(t), (long long)p,
                             row ? "%" : "//", (long long)q, (long long)load(t, y, i), (long long)truth);
            }
        }
    }
}

static void every_pair(void **state)
{
    (void)state;
    for (int s = 0; s < 2; s++) {
        enum dtype t = s ? DT_int8 : DT_uint8;
        for (size_t i = 0; i < COUNT; i++) {
            store(t, a, i, (int64_t)i);
            store(t, b, i, (int64_t)(i >> 8));
        }
        check(t);
    }
}

/* a = q b + (-1, 0 or 1) with b of every length, as far as a fits. */
static void next_to_whole(void **state)
{
    (void)state;
    static const enum dtype types[] = { DT_int16, DT_uint16, DT_int32, DT_uint32 };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        enum dtype t = types[k];
        int bits = (int)dtype_size(t) * 8;
        for (int round = 0; round < 16; round++) {
            for (size_t i = 0; i < COUNT; i++) {
                int length = (int)(bits64() % (unsigned)(bits + 1));
                int64_t divisor = (int64_t)(bits64() & ((1ull << length) - 1));
                int64_t quotient = (int64_t)(bits64() & ((1ull << (bits - length)) - 1));
                divisor = bits64() & 1 ? -divisor : divisor;
                store(t, b, i, divisor);
                store(t, a, i, quotient * divisor + (int64_t)(bits64() % 3) - 1);
            }
            check(t);
        }
    }
}

/* The ends of each type by each other, by 0 and by what is next to it. */
static void ends(void **state)
{
    (void)state;
    static const enum dtype types[] = { DT_int16, DT_uint16, DT_int32, DT_uint32 };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        int64_t top = INT64_C(1) << (8 * dtype_size(types[k]) - 1);
        int64_t values[] = { -top, 1 - top, -2, -1, 0, 1, 2, top - 1 };
        for (size_t i = 0; i < COUNT; i++) {
            store(types[k], a, i, values[i % 8]);
            store(types[k], b, i, values[i / 8 % 8]);
        }
        check(types[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair),
        cmocka_unit_test(next_to_whole),
        cmocka_unit_test(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
