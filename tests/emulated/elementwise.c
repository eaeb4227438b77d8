/* elementwise.c: src/cuda/kernels/elementwise.cu for one type, as modules.def has it, on the host. */
#include "cuda/kernels/elementwise.cu"

#include "emulated/kernels.h"
#include "emulated/rows.h"

#define RUN_1(name)                                                                                            \
    static void K(go_##name)(void *y, const void *a, const void *b, struct walk w, int rounds, int64_t blocks, \
                             int threads)                                                                      \
    {                                                                                                          \
        (void)b;                                                                                               \
        EMULATED_GRID(blocks, threads) K(cu_##name)(y, a, w, rounds);                                          \
    }
#define RUN_2(name)                                                                                            \
    static void K(go_##name)(void *y, const void *a, const void *b, struct walk w, int rounds, int64_t blocks, \
                             int threads)                                                                      \
    {                                                                                                          \
        EMULATED_GRID(blocks, threads) K(cu_##name)(y, a, b, w, rounds);                                       \
    }
#define UNARY(name, label, set, ...) ROW(set, RUN_1(name))
#define BINARY(name, label, set, ...) ROW(set, RUN_2(name))
#include "ops/ops.def"

extern const struct emulated_row K(emulated)[];
const struct emulated_row K(emulated)[] = {
#define UNARY(name, label, set, ...) ROW(set, { #name, 1, K(go_##name) }, )
#define BINARY(name, label, set, ...) ROW(set, { #name, 2, K(go_##name) }, )
#include "ops/ops.def"
    { 0 },
};

/* The same for the emulated driver. */
/* clang-format off */
#define UNARY(name, label, set, ...) \
    ROW(set, static void K(launched_##name)(void **a) \
    { K(cu_##name)(*(void **)a[0], *(void **)a[1], *(struct walk *)a[2], *(int32_t *)a[3]); })
#define BINARY(name, label, set, ...) \
    ROW(set, static void K(launched_##name)(void **a) \
    { K(cu_##name)(*(void **)a[0], *(void **)a[1], *(void **)a[2], *(struct walk *)a[3], *(int32_t *)a[4]); })
#include "ops/ops.def"
/* clang-format on */

static const size_t of_one[] = { sizeof(void *), sizeof(void *), sizeof(struct walk), sizeof(int32_t), 0 };
static const size_t of_two[] = {
    sizeof(void *), sizeof(void *), sizeof(void *), sizeof(struct walk), sizeof(int32_t), 0
};
static const struct emulated_kernel kernels[] = {
#define UNARY(name, label, set, ...) ROW(set, { "cu_" #name "_" TEXT(SUFFIX), K(launched_##name), of_one }, )
#define BINARY(name, label, set, ...) ROW(set, { "cu_" #name "_" TEXT(SUFFIX), K(launched_##name), of_two }, )
#include "ops/ops.def"
    { 0 },
};
EMULATED_KERNELS(kernels)
