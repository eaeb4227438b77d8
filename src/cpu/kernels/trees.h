/* trees.h: sums, products and quotients of two operands that may be made of two themselves. */
#ifndef MX_CPU_KERNELS_TREES_H
#define MX_CPU_KERNELS_TREES_H

#include <stddef.h>

/* How two operands are joined; the first, TREE_LEAF, takes one as it is. */
enum tree_op { TREE_LEAF, TREE_ADD, TREE_SUBTRACT, TREE_MULTIPLY, TREE_DIVIDE };
enum { TREE_INNER = TREE_MULTIPLY + 1, TREE_OUTER = TREE_DIVIDE + 1, TREE_LEAVES = 4 };

/* y[i] = (x[0][i] l x[1][i]) op (x[2][i] r x[3][i]), each operation rounded by itself.  s[k] is the stride of x[k], 0
 * or 1; y may be any x[k] of stride 1.  An operand that is a leaf is x[0] or x[2]. */
typedef void tree_fn(float *y, const float *const x[TREE_LEAVES], const int s[TREE_LEAVES], size_t n);

/* y[i] = (x[i] (one + erf(x[i] c))) h, each operation rounded by itself; y may be x. */
typedef void bell_fn(float *y, const float *x, float c, float one, float h, size_t n);

struct tree_kernels {
    bell_fn *bell;                                    /* gelu's */
    tree_fn *f32[TREE_OUTER][TREE_INNER][TREE_INNER]; /* [op][l][r]; NULL for op = TREE_LEAF */
};

#endif
