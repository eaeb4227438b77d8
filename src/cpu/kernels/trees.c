/* trees.c: two or three operations on float32 by one pass over their operands, for tapes (cpu/tape.c).
 *
 * A tape's tiles are in L1, where a step of one operation is bound by loads and stores. */
#include "cpu/kernels/trees.h"

#include "cpu/kernels/lanes.h"
#include "shared/scalar.h"

#define T float
#define K(name) PASTE(name, f32)
#include "cpu/kernels/lanes.inc"

/* Of single elements and of registers of them. */
#define JOIN(op, a, b)                   \
    ((op) == TREE_ADD        ? (a) + (b) \
     : (op) == TREE_SUBTRACT ? (a) - (b) \
     : (op) == TREE_MULTIPLY ? (a) * (b) \
     : (op) == TREE_DIVIDE   ? (a) / (b) \
                             : (a))

enum { TURN = 2 * LANES_f32 /* elements that a turn of the loop makes */ };

/* What no turn makes, element by element: once for all trees. */
static __attribute__((noinline)) void rest(float *y, const float *const x[], const int s[], size_t i, size_t n, int op,
                                           int l, int r)
{
    for (; i < n; i++) {
        float a = x[0][i * s[0]], b = x[2][i * s[2]];
        a = l ? JOIN(l, a, x[1][i * s[1]]) : a;
        b = r ? JOIN(r, b, x[3][i * s[3]]) : b;
        y[i] = JOIN(op, a, b);
    }
}

/* One value for all elements is put into a register in memory, over which the walk does not move. */
TEMPLATE void tree(float *y, const float *const x[], const int s[], size_t n, int op, int l, int r)
{
    const int from[TREE_LEAVES] = { 0, l ? 1 : 0, 2, r ? 3 : 2 };
    size_t turns = n / TURN * TURN, step[TREE_LEAVES];
    vec_f32 one[TREE_LEAVES];
    const float *p[TREE_LEAVES];
    UNROLL
    for (int k = 0; k < TREE_LEAVES; k++) {
        one[k] = *x[from[k]] - (vec_f32){ 0 }; /* the same number: -0 + 0 would be 0 */
        p[k] = s[from[k]] ? x[from[k]] : (const float *)&one[k];
        step[k] = (size_t)s[from[k]] * LANES_f32;
    }
    for (size_t i = 0; i < turns; i += TURN) {
        vec_f32 made[2];
        UNROLL
        for (int j = 0; j < 2; j++) {
            vec_f32 v[TREE_LEAVES];
            UNROLL
            for (int k = 0; k < TREE_LEAVES; k++)
                if (from[k] == k) {
                    v[k] = *(const loose_f32 *)p[k];
                    p[k] += step[k];
                } else { /* it does not count */
                    v[k] = v[from[k]];
                }
            vec_f32 a = JOIN(l, v[0], v[1]), b = JOIN(r, v[2], v[3]);
            made[j] = JOIN(op, a, b);
        }
        *(loose_f32 *)(y + i) = made[0];
        *(loose_f32 *)(y + i + LANES_f32) = made[1];
    }
    if (turns < n)
        rest(y, x, s, turns, n, op, l, r);
}

#define TREE(op, l, r)                                                                           \
    static void tree_##op##_##l##_##r(float *y, const float *const x[], const int s[], size_t n) \
    {                                                                                            \
        tree(y, x, s, n, op, l, r);                                                              \
    }
#define RIGHT(X, op, l) X(op, l, TREE_LEAF) X(op, l, TREE_ADD) X(op, l, TREE_SUBTRACT) X(op, l, TREE_MULTIPLY)
#define SIDES(X, op)        \
    RIGHT(X, op, TREE_LEAF) \
    RIGHT(X, op, TREE_ADD)  \
    RIGHT(X, op, TREE_SUBTRACT) RIGHT(X, op, TREE_MULTIPLY)
#define TREES(X)       \
    SIDES(X, TREE_ADD) \
    SIDES(X, TREE_SUBTRACT) SIDES(X, TREE_MULTIPLY) SIDES(X, TREE_DIVIDE)
TREES(TREE)

static void bell(float *y, const float *x, float c, float one, float h, size_t n)
{
    IVDEP
    for (size_t i = 0; i < n; i++) y[i] = (x[i] * (one + erf_f32(x[i] * c))) * h;
}

#define ENTRY(op, l, r) [op][l][r] = tree_##op##_##l##_##r,
extern const struct tree_kernels LEVEL(tree_kernels);
const struct tree_kernels LEVEL(tree_kernels) = { .bell = bell, .f32 = { TREES(ENTRY) } };
