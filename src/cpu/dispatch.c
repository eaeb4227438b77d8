/* dispatch.c: which instruction-set level the kernels in use were built for.
 *
 * The best one that both the processor and the operating system support, found when the library is
 * loaded; MLX_CPU names a lower one to use instead. */
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "core/settings.h"
#include "cpu/bf16.h"
#include "cpu/kernels.h"

extern const struct cpu_kernels cpu_kernels_base;

static bool always(void) { return true; }

#ifdef __x86_64__
extern const struct cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512;

/* What x86-64-v3 has and the compilers' own test knows no name for. */
static bool has_f16c_lzcnt_movbe(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C) || !(c & bit_MOVBE))
        return false;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & bit_LZCNT);
}

/* The compilers' test asks CPUID for the instructions and XCR0 whether the system saves their
 * registers.  All that x86-64-v3 and v4 add is asked for, as a hypervisor may hide any of it. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && has_f16c_lzcnt_movbe();
}
static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
static bool has_avx512_bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

/* The processor says that it multiplies tiles of bfloat16, and the system that it saves them.  Whether they work is
 * found out when they are first wanted (bf16.c). */
static bool says_amx(void)
{
    enum { TILE_BITS = 3 << 17, BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned a, b, c, d, low, high;
    if (!has_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & BF16) || !(d & TILE))
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILE_BITS) == TILE_BITS;
}
#ifdef WITHOUT_avx2
#define AVX2 NULL
#else
#define AVX2 &cpu_kernels_avx2
#endif
#ifdef WITHOUT_avx512
#define AVX512 NULL
#else
#define AVX512 &cpu_kernels_avx512
#endif
#endif

/* Best last. */
static const struct level {
    const char *isa;
    const struct cpu_kernels *kernels; /* NULL: this build is without */
    bool (*has)(void);
    enum bf16_products bf16;
} levels[] = {
    { "base", &cpu_kernels_base, always, BF16_WIDENED },
#ifdef __x86_64__
    { "avx2", AVX2, has_avx2, BF16_WIDENED },
    { "avx512", AVX512, has_avx512, BF16_WIDENED },
    { "avx512_bf16", AVX512, has_avx512_bf16, BF16_PAIRS },
    { "amx", AVX512, says_amx, BF16_TILES },
#endif
};
enum { LEVELS = sizeof levels / sizeof *levels };

const struct cpu_kernels *cpu = &cpu_kernels_base;

static bool usable(const struct level *l) { return l->kernels && l->has(); }

static const struct level *find_level(const char *isa)
{
    for (int i = 0; i < LEVELS; i++)
        if (!strcmp(levels[i].isa, isa))
            return &levels[i];
    return NULL;
}

const struct cpu_kernels *cpu_kernels_named(const char *isa)
{
    const struct level *l = find_level(isa);
    return l && usable(l) ? l->kernels : NULL;
}

/* Intel's processors add products of pairs no faster than they widen them: 1024 x 1024 took 11.0 ms, widened 7.5. */
static bool pairs_pay(void)
{
#ifdef __x86_64__
    return __builtin_cpu_is("amd");
#else
    return true;
#endif
}

__attribute__((constructor)) static void choose(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    const char *isas[LEVELS + 1] = { NULL };
    for (int i = 0; i < LEVELS; i++) isas[i] = levels[i].isa;
    const struct level *most = &levels[setting_word("MLX_CPU", isas, LEVELS - 1)];
    while (!usable(most)) most--;
    cpu = most->kernels;
    bf16_begin(most->bf16, cpu_kernels_named("avx512_bf16") && (pairs_pay() || setting_given("MLX_CPU")));
}
