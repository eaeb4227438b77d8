/* custom_kernel.h: kernels given as text, and how one is called.
 *
 * A kernel is written for Metal, for CUDA or in C.  All three are defined, called and checked in the same way; those in
 * C run on the CPU, those for CUDA on an NVIDIA GPU where there is one (ops/custom_kernel.c). */
#ifndef MX_OPS_CUSTOM_KERNEL_H
#define MX_OPS_CUSTOM_KERNEL_H

#include "ops/op.h"

enum kernel_language { KERNEL_METAL, KERNEL_CUDA, KERNEL_C, KERNEL_IMAGE }; /* the last: for CUDA, compiled */
const char *kernel_word(enum kernel_language language);                     /* "metal_kernel", as messages begin */

struct kernel {
    struct object object;
    enum kernel_language language;
    const char *name, *source, *header;
    int nin, nout;
    const char **names; /* of the inputs, then of the outputs; none where there is an image */
    bool row_major;     /* inputs are copied where they are not */
    bool atomic;        /* outputs are added to by several threads */
    int shared_memory;  /* of a kernel in CUDA, in bytes */
    const void *image;  /* of a kernel in CUDA, compiled: instead of a source */
    size_t image_size;
    struct variant *variants;
};

/* What was compiled of a kernel for one key (types, template, device), which stays with it; NULL: nothing so far. */
void *kernel_variant(struct kernel *k, const void *key, size_t size);
/* Of two that are remembered for a key, the first one counts: it is what comes back.  NULL after mx_fail. */
void *kernel_remember(struct kernel *k, const void *key, size_t size, void *compiled);
/* Do source or header, where it is given, say this word: the name with what follows it? */
bool kernel_says(const struct kernel *k, const char *name, const char *suffix, bool header);

/* A copy of `k`, whose names are checked; NULL after mx_fail. */
struct kernel *kernel_new(const struct kernel *k);

/* How far the compiler may go with floating-point numbers: not at all, as if sums could be taken in any
 * order, as if there were neither infinities nor NaN as well. */
enum kernel_math { MATH_SAFE, MATH_RELAXED, MATH_FAST };

/* An int of 32 bits, a float, a bool, as a kernel for CUDA gets them. */
enum scalar_kind { SCALAR_INT, SCALAR_FLOAT, SCALAR_BOOL };

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
    int nscalar, scalar_cap;
    int64_t *scalars;      /* as in the arguments */
    int grid[3], group[3]; /* 0 in group[0]: not set */
    bool has_grid, init, verbose;
    double init_value;
    enum kernel_math math;
};
int launch_output(struct kernel_launch *l, size_t ndim, const int *shape, enum dtype t);
int launch_grid(struct kernel_launch *l, int x, int y, int z);
int launch_group(struct kernel_launch *l, int x, int y, int z);
int launch_template(struct kernel_launch *l, const char *name, enum template_kind kind, int value);
/* One more number for a kernel that is an image, behind its inputs and outputs. */
int launch_scalar(struct kernel_launch *l, enum scalar_kind kind, int64_t bits);
int launch_math(struct kernel_launch *l, const char *mode);
void launch_clear(struct kernel_launch *l);

/* The results of kernel k, into y: as many as it has outputs.  All are MX_NIL after mx_fail. */
void mx_custom_kernel(struct kernel *k, const struct kernel_launch *l, int n, const mx x[], mx y[]);

/* Operands are those of the kernel. */
struct custom_kernel_args {
    struct object *kernel;
    struct text template; /* declarations in the kernel's language, a line each */
    struct ints grid;     /* x, y, z of the grid, then of a threadgroup */
    struct ints outputs;  /* of each: dtype, number of dimensions, sizes */
    struct ints scalars;  /* of each: kind, bits */
    unsigned math;
    bool init, verbose;
    double init_value;
};

#endif
