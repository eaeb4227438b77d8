/* custom_kernel.h: kernels given as text, and how one is called.
 *
 * A kernel is written for Metal, for CUDA or in C.  All three are defined, called and checked in the
 * same way; here only those in C can run (ops/custom_kernel.c). */
#ifndef MX_OPS_CUSTOM_KERNEL_H
#define MX_OPS_CUSTOM_KERNEL_H

#include "ops/op.h"

enum kernel_language { KERNEL_METAL, KERNEL_CUDA, KERNEL_C };
const char *kernel_word(enum kernel_language language); /* "metal_kernel", as messages begin */

struct variant; /* what was compiled for operands of certain types (cpu/cpu_kernel.c) */

struct kernel {
    struct object object;
    enum kernel_language language;
    const char *name, *source, *header;
    int nin, nout;
    const char **names;       /* of the inputs, then of the outputs */
    bool row_major;           /* inputs are copied where they are not */
    bool atomic;              /* outputs are added to by several threads */
    int shared_memory;        /* of a kernel in CUDA, in bytes */
    struct variant *variants; /* under a lock there */
    void (*forget)(struct variant *all);
};

/* A copy of `k`, whose names are checked; NULL after mx_fail. */
struct kernel *kernel_new(const struct kernel *k);

/* How far the compiler may go with floating-point numbers: not at all, as if sums could be taken in any
 * order, as if there were neither infinities nor NaN as well. */
enum kernel_math { MATH_SAFE, MATH_RELAXED, MATH_FAST };

enum template_kind { TEMPLATE_DTYPE, TEMPLATE_INT, TEMPLATE_BOOL };
struct template_value {
    char *name;
    enum template_kind kind;
    int value;
};

/* A call.  The functions give 0, or non-zero after mx_fail with the launch as it was. */
struct kernel_launch {
    enum kernel_language language;
    int nout, out_cap;
    struct spec *out;
    int ntemplate, template_cap;
    struct template_value *template;
    int grid[3], group[3]; /* 0 in group[0]: not set */
    bool has_grid, init, verbose;
    double init_value;
    enum kernel_math math;
};
int launch_output(struct kernel_launch *l, size_t ndim, const int *shape, enum dtype t);
int launch_grid(struct kernel_launch *l, int x, int y, int z);
int launch_group(struct kernel_launch *l, int x, int y, int z);
int launch_template(struct kernel_launch *l, const char *name, enum template_kind kind, int value);
int launch_math(struct kernel_launch *l, const char *mode);
void launch_clear(struct kernel_launch *l);

/* The results of kernel k, into y: as many as it has outputs.  All are MX_NIL after mx_fail. */
void mx_custom_kernel(struct kernel *k, const struct kernel_launch *l, int n, const mx x[], mx y[]);

/* Operands are those of the kernel. */
struct cpu_kernel_args {
    struct object *kernel;
    struct text template; /* declarations in C, a line each */
    struct ints grid;     /* x, y, z of the grid, then of a threadgroup */
    struct ints outputs;  /* of each: dtype, number of dimensions, sizes */
    unsigned math;
    bool init, verbose;
    double init_value;
};

#endif
