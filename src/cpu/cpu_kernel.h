/* cpu_kernel.h: from the text of a kernel to a function: what the files that make it share.
 *
 * kernel_text.c puts a program in C around the body, kernel_load.c has it compiled and keeps what came
 * out, cpu_kernel.c runs it. */
#ifndef MX_CPU_CPU_KERNEL_H
#define MX_CPU_CPU_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/custom_kernel.h"

/* What a compiled kernel is called with.  The fields are a text as well, the one that it is compiled with. */
#define KERNEL_CALL_FIELDS                                                \
    const void *const *in; /* first element of each input */              \
    void *const *out;                                                     \
    const int *const *shape; /* of each input, as are strides and ndim */ \
    const int64_t *const *strides;                                        \
    const int *ndim;                                                      \
    uint32_t grid[3], group[3];
struct kernel_call {
    KERNEL_CALL_FIELDS
};

/* Runs points begin to end of the grid, numbered with x fastest. */
typedef void kernel_fn(const struct kernel_call *call, int64_t begin, int64_t end);

#define KERNEL_ENTRY "__mlx_kernel_" /* in front of the kernel's name */

/* The program for inputs and outputs of these types; NULL after mx_fail.  Free it. */
char *kernel_text(const struct kernel *k, const char *template, const enum dtype types[]);

/* The entry of a program, compiled with these further flags (words with blanks between) or found where it
 * was compiled before; NULL after mx_fail.  `verbose` says on stdout where it is. */
kernel_fn *kernel_load(const char *name, const char *text, const char *flags, bool verbose);

#endif
