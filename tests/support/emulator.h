/* emulator.h: what kernels of GPUs find when they are compiled for the host.
 *
 * A block's threads are coroutines: each runs until it comes to a barrier or a shuffle, where the others catch up; odd
 * blocks go through their threads backwards, so that one which relies on the order shows.  Threads that wait at
 * different places, or for some that have left, end the program with a message.  Shared memory is static, so that the
 * address sanitizer knows its bounds. */
#ifndef TESTS_EMULATOR_H
#define TESTS_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

struct emulated_place {
    unsigned x, y, z;
};
extern struct emulated_place threadIdx, blockIdx, blockDim, gridDim;

/* Runs the statement that follows for each thread of a grid in one dimension: for kernels without barriers. */
#define EMULATED_GRID(blocks, threads)                                                                             \
    for (gridDim.x = (unsigned)(blocks), blockDim.x = (unsigned)(threads), blockIdx.x = 0; blockIdx.x < gridDim.x; \
         blockIdx.x++)                                                                                             \
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)

/* One thread of a kernel, whose arguments are where args points, as the driver gets them. */
typedef void emulated_fn(void **args);
/* Runs every thread of a grid; one launch at a time. */
void emulated_launch(emulated_fn *f, void **args, struct emulated_place grid, struct emulated_place block);

/* What kernels call, through the macros of cuda/kernels/gpu.h. */
void emulated_barrier(const char *file, int line);
/* A counter in shared memory: its phase changes each time so many have arrived; who waits goes on when it is no longer
 * the one with that parity. */
struct emulated_signal {
    uint16_t count, arrived;
    uint32_t phase;
};
void emulated_arrive(struct emulated_signal *s);
void emulated_wait(const struct emulated_signal *s, unsigned parity, const char *file, int line);
/* All 32 values of the warp, of `size` bytes each, 64 at most: there until this thread's next exchange. */
const void *emulated_gather(const void *value, size_t size, const char *file, int line);
/* Puts the value that the thread of the warp has whose lane differs in these bits into *value. */
void emulated_shuffle_xor(void *value, size_t size, unsigned bits, const char *file, int line);

/* The kernels of a module by name, for the emulated driver (emulated/cuda.c); an empty name ends them. */
struct emulated_kernel {
    const char *name;
    emulated_fn *run;
    const size_t *sizes; /* of its arguments, up to a 0 */
};
struct emulated_kernels {
    const struct emulated_kernel *list;
    struct emulated_kernels *next;
};
void emulated_add(struct emulated_kernels *k);
/* NULL: there is none. */
emulated_fn *emulated_find(const char *name);
const struct emulated_kernel *emulated_kernel_of(emulated_fn *run);

/* In the file of a module: its table, which the driver finds once the program has started. */
#define EMULATED_KERNELS(table)                                \
    __attribute__((constructor)) static void add_kernels(void) \
    {                                                          \
        static struct emulated_kernels k = { table, NULL };    \
        emulated_add(&k);                                      \
    }

/* KERNEL of cuda/kernels/gpu.h: a function of one struct, which the driver finds by itself. */
#define EMULATED_KERNEL(name, type) EMULATED_KERNEL_(name, type)
#define EMULATED_KERNEL_(name, type)                                                                      \
    static void name(const type a);                                                                       \
    static void launched_##name(void **args) { name(*(const type *)args[0]); }                            \
    static const size_t sizes_##name[] = { sizeof(type), 0 };                                             \
    __attribute__((constructor)) static void add_##name(void)                                             \
    {                                                                                                     \
        static const struct emulated_kernel list[] = { { #name, launched_##name, sizes_##name }, { 0 } }; \
        static struct emulated_kernels k = { list, NULL };                                                \
        emulated_add(&k);                                                                                 \
    }                                                                                                     \
    static void name(const type a)

#endif
