/* run.h: how the CPU backend runs one operation.
 *
 * A runner gets operands that are READY on the host and outputs whose shape and dtype are set; it
 * takes memory for them with out_new or out_over, fills it and returns 0, or non-zero after
 * mx_fail.  What can fail is checked before anything is written over an operand. */
#ifndef MX_CPU_RUN_H
#define MX_CPU_RUN_H

#include "core/array.h"
#include "core/buffer.h"
#include "core/pool.h"
#include "cpu/kernels.h"
#include "ops/plugin.h"
#include "run/backend.h"

/* Fresh row-major memory for y[k]. */
int out_new(const struct run *r, int k);
/* The memory of operand i, if this is its last use, it is row-major, whole and of y[k]'s item size and
 * size; else fresh memory.  y[k] is row-major either way. */
int out_over(const struct run *r, int k, int i);
/* Tries operands in order. */
int out_over_any(const struct run *r, int k);
/* The same for who has the operands' addresses already: one that gives its memory has none afterwards (its `buf` is
 * NULL), which spares counting who has it. */
int out_from_any(const struct run *r, int k);

/* y takes over the memory of x, of its size and type size, which nobody will look at again. */
void out_take(mx y, mx x);

/* As array_host. */
static inline void *host(mx x) { return (char *)x->buf->host + x->offset * (int64_t)itemsize(x); }

/* Copies x, of any strides, into row-major y of the same dtype and shape (cpu/copy.c). */
int copy_to_row_major(void *y, mx x);
/* A row-major version of x: x itself where it is one, else a copy in `hold` (drop it afterwards). */
mx row_major(mx x, mx_own *hold);
/* The same as another dtype. */
mx row_major_as(mx x, enum dtype t, mx_own *hold);

/* Entries that run as one (cpu/tape.c). */
int run_tape(int n, struct entry *const m[], const bool wanted[]);
/* The kernels of an element-wise node, of float32 for half types; NULL after mx_fail. */
unary_fn *unary_kernel(const struct node *n);
binary_fn *binary_kernel(const struct node *n);
select_fn *select_kernel(const struct node *n);
int kernel_cost(const struct op *op); /* of an element, in elements moved */

/* One runner per op, NULL where the op has no CPU kernel; stamped by name from ops.def:
 * run_unary, run_binary for the element-wise rows and run_<name> for the others (cpu/backend.c). */
run_fn run_unary, run_binary;
#define OTHER(name, ...) run_fn run_##name;
#define BODIES(...)
#include "ops/ops.def"

#endif
