/* levels.h: the instruction sets that kernels are compiled for; each machine has some of them. */
#ifndef MX_TESTS_LEVELS_H
#define MX_TESTS_LEVELS_H

#include "cpu/kernels.h"

static const char *const levels[] = { "base", "avx2", "avx512" };
enum { LEVELS = sizeof levels / sizeof *levels };

static inline void on_every_level(void (*test)(const struct cpu_kernels *))
{
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        if (k)
            test(k);
    }
}

/* test_<name>: the functions of float32 and float64, at every level. */
#define TEST_BOTH(name)                   \
    static void test_##name(void **state) \
    {                                     \
        (void)state;                      \
        on_every_level(name##_f32);       \
        on_every_level(name##_f64);       \
    }

/* Names with the suffix of a type. */
#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

#endif
