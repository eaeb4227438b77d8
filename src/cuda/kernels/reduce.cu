/* reduce.cu: folds of one type: cu_sum_f32, cu_argmax_u8.  The build compiles it as it does elementwise.cu.
 *
 * Results do not depend on who runs when: a thread's elements, the tree in which a block's threads are merged and the
 * pieces that several blocks take depend on the layout alone.  Floats are added sixteen at a time, and those sums in
 * double, as on the CPU. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"
#include "cuda/kernels/reduce.h"

#define K(name) PASTE(name, SUFFIX)
#define IS_b 1
#define IS_i 2
#define IS_f 3
#define IS_c 4
#define IS PASTE(IS, KIND)

enum { BLOCK = 16, REDUCE_AHEAD = 4 };
/* Vectors of a line that a thread has on their way while it folds as many. */
enum { LINE_AHEAD = sizeof(S) > 4 ? 2 : 4, LINE_BLOCKS = 4, ROW_BLOCKS = sizeof(S) > 4 ? 2 : 4 };

/* ---- W: the type that elements are compared in; WIDE: the one that they are added in */

#if IS == IS_c
typedef complex64 W;
typedef struct {
    double re, im;
} WIDE;
FN int is_nan(W v) { return v.re != v.re || v.im != v.im; }
/* By the real part, then the imaginary one. */
FN int less(W a, W b) { return a.re < b.re || (a.re == b.re && a.im < b.im); }
FN W extreme(float v)
{
    W w = { v, v };
    return w;
}
FN W in_of(S x) { return x; }
FN WIDE widen(W v)
{
    WIDE w = { (double)v.re, (double)v.im };
    return w;
}
FN WIDE number(double v)
{
    WIDE w = { v, 0 };
    return w;
}
FN WIDE total(WIDE a, WIDE b)
{
    WIDE w = { a.re + b.re, a.im + b.im };
    return w;
}
/* 1 leaves all as they are, infinite ones too. */
FN WIDE product(WIDE a, WIDE b)
{
    if (a.re == 1 && a.im == 0)
        return b;
    if (b.re == 1 && b.im == 0)
        return a;
    WIDE w = { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
    return w;
}
FN WIDE counted(WIDE a, int64_t times)
{
    WIDE w = { a.re * (double)times, a.im * (double)times };
    return w;
}
typedef WIDE PART;
FN WIDE whole(PART p) { return p; }
#define MOST extreme(INFINITY)
#define LEAST extreme(-INFINITY)
#define QUIET extreme(NAN)
#else
#if IS == IS_f
#ifdef HALF
typedef float W;
FN W in_of(S x) { return PASTE(f32_from, SUFFIX)(x); }
#else
typedef S W;
FN W in_of(S x) { return x; }
#endif
typedef double WIDE;
typedef W PART;
#define MOST ((W)INFINITY)
#define LEAST ((W)-INFINITY)
#define QUIET ((W)NAN)
FN int is_nan(W v) { return v != v; }
#else
typedef S W;
typedef uint64_t WIDE; /* wraps */
typedef uint64_t PART;
#if IS == IS_b
FN W in_of(S x) { return x != 0; }
#define MOST ((W)1)
#define LEAST ((W)0)
#else
FN W in_of(S x) { return x; }
#define SIGNED ((S)-1 < (S)1)
#define ALL_ONES (~(uint64_t)0 >> (64 - 8 * sizeof(S)))
#define MOST ((W)(SIGNED ? ALL_ONES >> 1 : ALL_ONES))
#define LEAST ((W)(SIGNED ? (ALL_ONES >> 1) + 1 : 0))
#endif
#define QUIET ((W)0)
FN int is_nan(W v) { return (void)v, 0; }
#endif
FN int less(W a, W b) { return a < b; }
FN WIDE whole(PART p) { return (WIDE)p; }
FN WIDE widen(W v) { return (WIDE)v; }
FN WIDE number(int v) { return (WIDE)v; }
FN WIDE total(WIDE a, WIDE b) { return a + b; }
FN WIDE product(WIDE a, WIDE b) { return a * b; }
FN WIDE counted(WIDE a, int64_t times) { return a * (WIDE)times; }
#endif

/* ---- storing */

FN void put_wide(void *y, int64_t i, WIDE v, int out)
{
#if IS == IS_c
    complex64 w = { (float)v.re, (float)v.im };
    (void)out;
    ((complex64 *)y)[i] = w;
#elif IS == IS_f
    if (out == OUT_F32)
        ((float *)y)[i] = (float)v;
    else if (out == OUT_F64)
        ((double *)y)[i] = v;
    else
        ((uint16_t *)y)[i] = out == OUT_F16 ? f16_from_f64(v) : bf16_from_f64(v);
#else
    if (out == OUT_8)
        ((uint8_t *)y)[i] = (uint8_t)v;
    else if (out == OUT_16)
        ((uint16_t *)y)[i] = (uint16_t)v;
    else if (out == OUT_32)
        ((uint32_t *)y)[i] = (uint32_t)v;
    else
        ((uint64_t *)y)[i] = v;
#endif
}

/* Exact: the type is that of the elements. */
FN void put_same(void *y, int64_t i, W v)
{
#ifdef HALF
    ((S *)y)[i] = PASTE(SUFFIX, from_f32)(v);
#else
    ((S *)y)[i] = v;
#endif
}

/* ---- the folds: what a thread carries, with nothing yet; one more element, of number i; after BLOCK of them; and two
 * of them as one */

typedef struct {
    WIDE all;
    PART part;
} sum_acc;
FN void sum_begin(sum_acc *a)
{
    sum_acc none;
    none.all = number(0);
#if IS == IS_c
    none.part = number(0);
#else
    none.part = 0;
#endif
    *a = none;
}
FN void sum_take(sum_acc *a, W v, int64_t i)
{
    (void)i;
#if IS == IS_c
    a->part = total(a->part, widen(v));
#else
    a->part += (PART)v;
#endif
}
enum { sum_SETTLED = sizeof(WIDE) }; /* bytes of what there is after settling */
FN void sum_settle(sum_acc *a)
{
    sum_acc next;
    sum_begin(&next);
    next.all = total(a->all, whole(a->part));
    *a = next;
}
FN void sum_merge(sum_acc *a, const sum_acc *b) { a->all = total(a->all, b->all); }
FN void sum_put(const struct reduce_call *c, int64_t i, const sum_acc *a)
{
    put_wide(c->y, i, counted(a->all, c->times), c->out);
}

typedef struct {
    WIDE all;
} prod_acc;
FN void prod_begin(prod_acc *a) { a->all = number(1); }
FN void prod_take(prod_acc *a, W v, int64_t i) { a->all = product(a->all, widen(v)), (void)i; }
enum { prod_SETTLED = sizeof(prod_acc) };
FN void prod_settle(prod_acc *a) { (void)a; }
FN void prod_merge(prod_acc *a, const prod_acc *b) { a->all = product(a->all, b->all); }
FN void prod_put(const struct reduce_call *c, int64_t i, const prod_acc *a)
{
    WIDE power = a->all, all = number(1);
    ROLLED
    for (int64_t n = c->times; n; n /= 2, power = product(power, power))
        if (n % 2)
            all = product(all, power);
    put_wide(c->y, i, all, c->out);
}

/* Elements that a thread meets by rising number may take less work than those in any order: `first` is told the number
 * of the first of them, and nothing where there is none, `next` an element. */
#define IN_ANY_ORDER(fold)                                               \
    FN void fold##_first(fold##_acc *a, int64_t i) { (void)a, (void)i; } \
    FN void fold##_next(fold##_acc *a, W v, int64_t i) { fold##_take(a, v, i); }
IN_ANY_ORDER(sum)
IN_ANY_ORDER(prod)

/* The first of equal elements, a NaN before all others; `put` stores what is asked for.  Places are numbers of 32 bits,
 * as results are. */
#define PLACE(fold, first, beats, put)                                                                   \
    typedef struct {                                                                                     \
        W v;                                                                                             \
        uint32_t at;                                                                                     \
    } fold##_acc;                                                                                        \
    FN void fold##_begin(fold##_acc *a) { a->v = first, a->at = ~(uint32_t)0; }                          \
    FN void fold##_take(fold##_acc *a, W v, int64_t i)                                                   \
    {                                                                                                    \
        int old = is_nan(a->v), bad = is_nan(v);                                                         \
        int worse = less(a->v, v) || less(v, a->v);                                                      \
        int before = (!old && (bad || beats)) || (old == bad && (bad || !worse) && (uint32_t)i < a->at); \
        a->v = before ? v : a->v;                                                                        \
        a->at = before ? (uint32_t)i : a->at;                                                            \
    }                                                                                                    \
    enum { fold##_SETTLED = sizeof(fold##_acc) };                                                        \
    FN void fold##_settle(fold##_acc *a) { (void)a; }                                                    \
    FN void fold##_merge(fold##_acc *a, const fold##_acc *b) { fold##_take(a, b->v, b->at); }            \
    FN void fold##_put(const struct reduce_call *c, int64_t i, const fold##_acc *a) { put; }
#define PUT_PLACE ((uint32_t *)c->y)[i] = a->at
PLACE(argmin, MOST, less(v, a->v), PUT_PLACE)
PLACE(argmax, LEAST, less(a->v, v), PUT_PLACE)
#if IS == IS_c
IN_ANY_ORDER(argmin)
IN_ANY_ORDER(argmax)
#else
/* Of elements in order a later one is only before the first of the others where it is more, or the first NaN. */
#define IN_ORDER(fold, leaves)                                              \
    FN void fold##_first(fold##_acc *a, int64_t i) { a->at = (uint32_t)i; } \
    FN void fold##_next(fold##_acc *a, W v, int64_t i)                      \
    {                                                                       \
        int before = !(leaves) && !is_nan(a->v);                            \
        a->v = before ? v : a->v;                                           \
        a->at = before ? (uint32_t)i : a->at;                               \
    }
IN_ORDER(argmin, v >= a->v)
IN_ORDER(argmax, v <= a->v)
#endif

#if IS == IS_c /* whose NaN are many */
PLACE(min, MOST, less(v, a->v), put_same(c->y, i, a->v))
PLACE(max, LEAST, less(a->v, v), put_same(c->y, i, a->v))
#else
/* A NaN wins, and stays. */
#define EXTREME(fold, first, beats)                                                                       \
    typedef struct {                                                                                      \
        W v;                                                                                              \
    } fold##_acc;                                                                                         \
    FN void fold##_begin(fold##_acc *a) { a->v = first; }                                                 \
    FN void fold##_take(fold##_acc *a, W v, int64_t i) { a->v = beats || is_nan(v) ? v : a->v, (void)i; } \
    enum { fold##_SETTLED = sizeof(fold##_acc) };                                                         \
    FN void fold##_settle(fold##_acc *a) { (void)a; }                                                     \
    FN void fold##_merge(fold##_acc *a, const fold##_acc *b) { fold##_take(a, b->v, 0); }                 \
    FN void fold##_put(const struct reduce_call *c, int64_t i, const fold##_acc *a)                       \
    {                                                                                                     \
        put_same(c->y, i, is_nan(a->v) ? QUIET : a->v);                                                   \
    }
EXTREME(min, MOST, less(v, a->v))
EXTREME(max, LEAST, less(a->v, v))
#endif
IN_ANY_ORDER(min)
IN_ANY_ORDER(max)

/* ---- the kernels */

FN_APART int64_t place_in_several(const struct reduce_axes *w, int64_t i)
{
    return places_of(i, w->n, w->ndim, w->shape, 1, w->stride, 0).at[0];
}
FN int64_t place_of(const struct reduce_axes *w, int64_t i)
{
    return w->ndim > 1 ? place_in_several(w, i) : i * w->stride[0];
}

#define N(name) PASTE(FOLD, name)

#define FOLD sum
#include "cuda/kernels/reduce_fold.inc"
#define FOLD prod
#include "cuda/kernels/reduce_fold.inc"
#define FOLD min
#include "cuda/kernels/reduce_fold.inc"
#define FOLD max
#include "cuda/kernels/reduce_fold.inc"
#define FOLD argmin
#include "cuda/kernels/reduce_fold.inc"
#define FOLD argmax
#include "cuda/kernels/reduce_fold.inc"
