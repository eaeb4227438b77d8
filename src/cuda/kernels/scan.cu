/* scan.cu: running folds: cu_scan_rows_f32.  The build compiles it as it does reduce.cu.
 *
 * Floats are folded as double, integers as 64 bits.  Which elements are folded in which order follows from the
 * shape. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/scan.h"

#define K(name) PASTE(name, SUFFIX)

enum { FOLD_SUM, FOLD_PROD, FOLD_MIN, FOLD_MAX, FOLD_LOGSUMEXP, FOLD_RECURRENCE }; /* as enum scan_fold */

/* ---- folds: what is known of some elements */

#define CODE_b 0
#define CODE_i 1
#define CODE_f 2
#define CODE_c 3
#define CODE PASTE(CODE, KIND)

#if CODE == CODE_c /* a number; or a sum of exponentials about the largest real part; or z -> more z + it */
struct scan_fold {
    double a, b, most, last;
};
FN struct scan_fold fold_of(double a, double b)
{
    struct scan_fold f;
    f.a = a;
    f.b = b;
    f.most = -INFINITY;
    f.last = 0;
    return f;
}
FN struct scan_fold shuffled(int kind, struct scan_fold f, int bits)
{
    struct scan_fold r = fold_of(SHUFFLE_XOR(f.a, bits), SHUFFLE_XOR(f.b, bits));
    if (kind >= FOLD_LOGSUMEXP) {
        r.most = SHUFFLE_XOR(f.most, bits);
        r.last = SHUFFLE_XOR(f.last, bits);
    }
    return r;
}
#elif CODE == CODE_f /* two numbers: the largest, and the sum of exponentials about it; z -> b z + a; or one alone */
struct scan_fold {
    double a, b;
};
FN struct scan_fold fold_of(double a, double b)
{
    struct scan_fold f;
    f.a = a;
    f.b = b;
    return f;
}
FN struct scan_fold shuffled(int kind, struct scan_fold f, int bits)
{
    return fold_of(SHUFFLE_XOR(f.a, bits), kind >= FOLD_LOGSUMEXP ? SHUFFLE_XOR(f.b, bits) : 0);
}
#else
struct scan_fold {
    int64_t a;
};
FN struct scan_fold fold_of(int64_t a)
{
    struct scan_fold f;
    f.a = a;
    return f;
}
FN struct scan_fold shuffled(int kind, struct scan_fold f, int bits)
{
    return (void)kind, fold_of(SHUFFLE_XOR(f.a, bits));
}
#endif

#if CODE == CODE_c
FN double middle(double most) { return most - most == 0 ? most : 0; }
FN_APART struct scan_fold power_of(S x)
{
    double re = (double)x.re, most = re != re ? -INFINITY : re;
    pair p = pair_exp_c64(pair_make(re - middle(most), (double)x.im));
    struct scan_fold f = re == -INFINITY ? fold_of(0, 0) : fold_of(p.re, p.im);
    f.most = most;
    return f;
}
FN_APART struct scan_fold log_of(struct scan_fold f)
{
    pair p = pair_log(pair_make(f.a, f.b));
    return f.a == 0 && f.b == 0 ? fold_of(-INFINITY, 0) : fold_of(middle(f.most) + p.re, p.im);
}
FN struct scan_fold lift(int kind, S x)
{
    return kind == FOLD_LOGSUMEXP ? power_of(x) : fold_of((double)x.re, (double)x.im);
}
FN struct scan_fold lift_two(S x, S more)
{
    struct scan_fold f = fold_of((double)more.re, (double)more.im);
    f.most = (double)x.re;
    f.last = (double)x.im;
    return f;
}
FN S lower(int kind, struct scan_fold f)
{
    S x;
    f = kind == FOLD_LOGSUMEXP ? log_of(f) : f;
    x.re = (float)f.a;
    x.im = (float)f.b;
    return x;
}
FN struct scan_fold identity(int kind)
{
    double edge = kind == FOLD_MIN ? INFINITY : -INFINITY;
    if (kind == FOLD_RECURRENCE) {
        struct scan_fold f = fold_of(0, 0);
        f.most = 1;
        return f;
    }
    return kind == FOLD_SUM || kind == FOLD_LOGSUMEXP ? fold_of(0, 0)
           : kind == FOLD_PROD                        ? fold_of(1, 0)
                                                      : fold_of(edge, edge);
}
FN_APART struct scan_fold sum_of_powers(struct scan_fold p, struct scan_fold q)
{
    double most = p.most > q.most ? p.most : q.most, about = middle(most);
    double s = p.most == -INFINITY ? 0 : exp_f64(middle(p.most) - about);
    double t = q.most == -INFINITY ? 0 : exp_f64(middle(q.most) - about);
    struct scan_fold f = fold_of(p.a * s + q.a * t, p.b * s + q.b * t);
    f.most = most;
    return f;
}
FN struct scan_fold one_after_the_other(struct scan_fold p, struct scan_fold q)
{
    struct scan_fold f = fold_of(q.most * p.a - q.last * p.b + q.a, q.most * p.b + q.last * p.a + q.b);
    f.most = q.most * p.most - q.last * p.last;
    f.last = q.most * p.last + q.last * p.most;
    return f;
}
/* By real part, then by imaginary; NaN wins and stays. */
FN struct scan_fold merge(int kind, struct scan_fold p, struct scan_fold q)
{
    if (kind == FOLD_SUM)
        return fold_of(p.a + q.a, p.b + q.b);
    if (kind == FOLD_PROD && (p.a == 1 && p.b == 0)) /* leaves all as they are, infinite ones too */
        return q;
    if (kind == FOLD_PROD && (q.a == 1 && q.b == 0))
        return p;
    if (kind == FOLD_PROD)
        return fold_of(p.a * q.a - p.b * q.b, p.a * q.b + p.b * q.a);
    if (kind == FOLD_LOGSUMEXP)
        return sum_of_powers(p, q);
    if (kind == FOLD_RECURRENCE)
        return one_after_the_other(p, q);
    double sign = kind == FOLD_MIN ? -1 : 1;
    if (p.a != p.a || p.b != p.b)
        return p;
    int wins = q.a != q.a || q.b != q.b || sign * q.a > sign * p.a || (q.a == p.a && sign * q.b > sign * p.b);
    return wins ? q : p;
}
#elif CODE == CODE_f
#ifdef HALF
#define IN(x) ((double)PASTE(f32_from, SUFFIX)(x))
#define OUT(x) PASTE(SUFFIX, from_f32)((float)(x))
#else
#define IN(x) ((double)(x))
#define OUT(x) ((S)(x))
#endif
FN struct scan_fold lift(int kind, S x)
{
    double v = IN(x);
    return kind == FOLD_LOGSUMEXP ? fold_of(v, v - v == 0 ? 1 : v == -INFINITY ? 0 : v) : fold_of(v, 0);
}
FN struct scan_fold lift_two(S x, S more) { return fold_of(IN(more), IN(x)); }
FN_APART double log_of(struct scan_fold f) { return (f.a - f.a == 0 ? f.a : 0) + log_f64(f.b); }
FN S lower(int kind, struct scan_fold f) { return OUT(kind == FOLD_LOGSUMEXP ? log_of(f) : f.a); }
FN struct scan_fold identity(int kind)
{
    if (kind == FOLD_RECURRENCE)
        return fold_of(0, 1);
    return fold_of(kind == FOLD_SUM ? 0 : kind == FOLD_PROD ? 1 : kind == FOLD_MIN ? INFINITY : -INFINITY, 0);
}
FN_APART struct scan_fold sum_of_powers(struct scan_fold p, struct scan_fold q)
{
    if (q.a != q.a || p.a == -INFINITY)
        return q;
    if (p.a - p.a != 0 || q.a == -INFINITY)
        return p;
    double most = p.a > q.a ? p.a : q.a;
    if (most == INFINITY)
        return q;
    return fold_of(most, p.b * exp_f64(p.a - most) + q.b * exp_f64(q.a - most));
}
FN struct scan_fold merge(int kind, struct scan_fold p, struct scan_fold q)
{
    switch (kind) {
    case FOLD_SUM: return fold_of(p.a + q.a, 0);
    case FOLD_PROD: return fold_of(p.a * q.a, 0);
    case FOLD_MIN: return p.a != p.a || !(q.a < p.a || q.a != q.a) ? p : q;
    case FOLD_MAX: return p.a != p.a || !(q.a > p.a || q.a != q.a) ? p : q;
    case FOLD_RECURRENCE: return fold_of(q.b * p.a + q.a, q.b * p.b);
    }
    return sum_of_powers(p, q);
}
#else
/* Unsigned numbers of 64 bits are compared as such. */
FN int less(int64_t p, int64_t q) { return sizeof(S) == 8 && (S)-1 > (S)0 ? (uint64_t)p < (uint64_t)q : p < q; }
FN struct scan_fold lift(int kind, S x) { return (void)kind, fold_of(CODE == CODE_b ? x != 0 : (int64_t)x); }
FN struct scan_fold lift_two(S x, S more) { return (void)more, lift(FOLD_SUM, x); }
FN S lower(int kind, struct scan_fold f) { return (void)kind, (S)f.a; }
FN struct scan_fold identity(int kind)
{
    const int is_signed = !((S)-1 > (S)1), bits = 8 * (int)sizeof(S);
    int64_t high = (int64_t)(~(uint64_t)0 >> (64 - bits + is_signed)), low = is_signed ? -high - 1 : 0;
    return fold_of(kind == FOLD_SUM ? 0 : kind == FOLD_PROD ? 1 : kind == FOLD_MIN ? high : low);
}
FN struct scan_fold merge(int kind, struct scan_fold p, struct scan_fold q)
{
    switch (kind) {
    case FOLD_SUM: return fold_of((int64_t)((uint64_t)p.a + (uint64_t)q.a));
    case FOLD_PROD: return fold_of((int64_t)((uint64_t)p.a * (uint64_t)q.a));
    case FOLD_MIN: return less(q.a, p.a) ? q : p;
    }
    return less(p.a, q.a) ? q : p;
}
#endif

/* What element i is to the fold. */
FN struct scan_fold lift_at(const struct scan_call *a, S x, int64_t i)
{
    return a->more ? lift_two(x, ((const S *)a->more)[i]) : lift(a->fold, x);
}

/* ---- rows: all of a block's threads have a stretch of LANES elements each, again and again */

/* What the threads before this one have, and what all of them have. */
struct around {
    struct scan_fold before, all;
};
FN struct around around_in_warp(int kind, struct scan_fold mine)
{
    struct around r = { identity(kind), mine };
    UNROLLED
    for (int bits = 1; bits < 32; bits *= 2) {
        struct scan_fold other = shuffled(kind, r.all, bits);
        int behind = (int)threadIdx.x & bits;
        if (behind)
            r.before = merge(kind, other, r.before);
        r.all = behind ? merge(kind, other, r.all) : merge(kind, r.all, other);
    }
    return r;
}
FN struct around around_thread(int kind, struct scan_fold mine)
{
    enum { WARPS = SCAN_THREADS / 32 };
    SHARED struct scan_fold of_warp[WARPS];
    struct around r = around_in_warp(kind, mine);
    int warp = (int)threadIdx.x / 32;
    BARRIER(); /* what was there before has been read */
    if (threadIdx.x % 32 == 0)
        of_warp[warp] = r.all;
    BARRIER();
    struct scan_fold warps = identity(kind);
    for (int w = 0; w < WARPS; w++) {
        if (w == warp)
            r.before = merge(kind, warps, r.before);
        warps = merge(kind, warps, of_warp[w]);
    }
    r.all = warps;
    return r;
}

/* Where element i in the direction of the scan is, and LANES of them from there on. */
FN int64_t place(const struct scan_call *a, int64_t i) { return a->reverse ? a->n - 1 - i : i; }
FN int64_t lanes_at(const struct scan_call *a, int64_t i) { return a->reverse ? a->n - i - LANES : i; }

/* The folds of a stretch's elements up to each. */
FN void fold_lanes(struct scan_fold f[LANES], const struct scan_call *a, int kind, const union lanes *u)
{
    for (int k = 0; k < LANES; k++) {
        struct scan_fold mine = lift(kind, a->reverse ? u->v[LANES - 1 - k] : u->v[k]);
        f[k] = k ? merge(kind, f[k - 1], mine) : mine;
    }
}
FN void put_folds(const struct scan_call *a, int kind, S *y, struct scan_fold before, const struct scan_fold f[LANES])
{
    S v[LANES];
    union lanes u;
    for (int k = 0; k < LANES; k++) v[k] = lower(kind, merge(kind, before, f[k]));
    for (int k = 0; k < LANES; k++) u.v[k] = a->reverse ? v[LANES - 1 - k] : v[k];
    PUT_LANES(y, u.v, sizeof u.v);
}

/* A block scans a piece, or folds it, of stretches alone: the next ones are on their way while these are folded. */
FN void scan_piece(const struct scan_call *a, int kind)
{
    enum { ALL = SCAN_THREADS * LANES };
    int64_t row = a->pieces == 1 ? blockIdx.x : blockIdx.x / a->pieces,
            first = (blockIdx.x - row * a->pieces) * a->piece;
    int64_t end = first + a->piece < a->n ? first + a->piece : a->n, i = first + (int64_t)threadIdx.x * LANES;
    const S *x = (const S *)a->x + row * a->n;
    S *y = (S *)a->y + row * a->n;
    struct scan_fold *part = (struct scan_fold *)a->parts + blockIdx.x, f[LANES], none = identity(kind);
    struct scan_fold carry = a->parts && !a->folding ? *part : none;
    union lanes u, next;
    if (a->folding) { /* in which order does not matter */
        FOURS
        for (; i < end; i += ALL) {
            COPY_LANES(u.v, x + lanes_at(a, i), sizeof u.v);
            fold_lanes(f, a, kind, &u);
            carry = merge(kind, carry, f[LANES - 1]);
        }
        carry = around_thread(kind, carry).all;
        if (threadIdx.x == 0)
            *part = carry;
        return;
    }
    COPY_LANES(next.v, x + lanes_at(a, i < end ? i : first), sizeof next.v);
    ROLLED
    for (int64_t at = first; at < end; at += ALL, i += ALL) {
        u = next;
        COPY_LANES(next.v, x + lanes_at(a, i + ALL < end ? i + ALL : first), sizeof next.v);
        fold_lanes(f, a, kind, &u);
        struct around r = around_thread(kind, i < end ? f[LANES - 1] : none);
        if (i < end)
            put_folds(a, kind, y + lanes_at(a, i), merge(kind, carry, r.before), f);
        carry = merge(kind, carry, r.all);
    }
}

/* A warp scans a row of stretches alone, SCAN_AHEAD of each thread at a time. */
FN void scan_row(const struct scan_call *a, int kind)
{
    int64_t row = (int64_t)blockIdx.x * (SCAN_THREADS / 32) + threadIdx.x / 32, i = (int64_t)(threadIdx.x % 32) * LANES;
    if (row >= a->outer)
        return;
    const S *x = (const S *)a->x + row * a->n;
    S *y = (S *)a->y + row * a->n;
    struct scan_fold none = identity(kind), carry = none;
    ROLLED
    for (int64_t at = 0; at < a->n; at += SCAN_AHEAD * 32 * LANES) {
        union lanes u[SCAN_AHEAD];
        UNROLLED
        for (int h = 0; h < SCAN_AHEAD; h++) {
            int64_t here = at + h * 32 * LANES + i;
            COPY_LANES(u[h].v, x + lanes_at(a, here < a->n ? here : 0), sizeof u->v);
        }
        UNROLLED
        for (int h = 0; h < SCAN_AHEAD; h++) {
            int64_t here = at + h * 32 * LANES + i;
            struct scan_fold f[LANES];
            fold_lanes(f, a, kind, &u[h]);
            struct around r = around_in_warp(kind, here < a->n ? f[LANES - 1] : none);
            if (here < a->n)
                put_folds(a, kind, y + lanes_at(a, here), merge(kind, carry, r.before), f);
            carry = merge(kind, carry, r.all);
        }
    }
}

/* Folds that are short, each by its own code; rows are of whole stretches. */
#define BY_KIND(name, each)                         \
    KERNEL(K(cu_##name), struct scan_call)          \
    {                                               \
        switch (a.fold) {                           \
        case FOLD_SUM: each(&a, FOLD_SUM); break;   \
        case FOLD_PROD: each(&a, FOLD_PROD); break; \
        case FOLD_MIN: each(&a, FOLD_MIN); break;   \
        default: each(&a, FOLD_MAX); break;         \
        }                                           \
    }
BY_KIND(scan_pieces, scan_piece)
BY_KIND(scan_warps, scan_row)

/* Any others. */
KERNEL(K(cu_scan_rows), struct scan_call)
{
    int64_t row = blockIdx.x / a.pieces, first = blockIdx.x % a.pieces * a.piece;
    int64_t end = first + a.piece < a.n ? first + a.piece : a.n;
    const S *x = (const S *)a.x + row * a.n;
    S *y = (S *)a.y + row * a.n;
    struct scan_fold *part = (struct scan_fold *)a.parts + blockIdx.x;
    struct scan_fold carry = a.parts && !a.folding ? *part : identity(a.fold);
    for (int64_t at = first; at < end; at += SCAN_THREADS * LANES) {
        int64_t i = at + (int64_t)threadIdx.x * LANES;
        struct scan_fold f[LANES];
        for (int k = 0; k < LANES; k++) {
            int64_t here = i + k < end ? place(&a, i + k) : 0;
            struct scan_fold mine = i + k < end ? lift_at(&a, x[here], row * a.n + here) : identity(a.fold);
            f[k] = k ? merge(a.fold, f[k - 1], mine) : mine;
        }
        struct around r = around_thread(a.fold, f[LANES - 1]);
        struct scan_fold before = merge(a.fold, carry, r.before);
        carry = merge(a.fold, carry, r.all);
        for (int k = 0; k < LANES && !a.folding; k++)
            if (i + k < end)
                y[place(&a, i + k)] = lower(a.fold, merge(a.fold, before, f[k]));
    }
    if (a.folding && threadIdx.x == 0)
        *part = carry;
}

/* ---- columns */

/* A thread has a piece of one, and several elements of it on their way at once. */
FN void scan_column(const struct scan_call *a, int kind)
{
    enum { AHEAD = 8 };
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a->outer * a->pieces * a->inner)
        return;
    int64_t column = i % a->inner, piece = i / a->inner % a->pieces, o = i / a->inner / a->pieces;
    int64_t first = piece * a->piece, end = first + a->piece < a->n ? first + a->piece : a->n;
    int64_t at = (o * a->n + place(a, first)) * a->inner + column, step = a->reverse ? -a->inner : a->inner;
    struct scan_fold *part = (struct scan_fold *)a->parts + ((o * a->inner + column) * a->pieces + piece);
    struct scan_fold f = a->parts && !a->folding ? *part : identity(kind);
    ROLLED
    for (int64_t k = first; k < end; k += AHEAD, at += AHEAD * step) {
        S v[AHEAD];
        UNROLLED
        for (int j = 0; j < AHEAD; j++) v[j] = ((const S *)a->x)[k + j < end ? at + j * step : at];
        UNROLLED
        for (int j = 0; j < AHEAD; j++)
            if (k + j < end) {
                f = merge(kind, f, lift(kind, v[j]));
                if (!a->folding)
                    ((S *)a->y)[at + j * step] = lower(kind, f);
            }
    }
    if (a->folding)
        *part = f;
}
BY_KIND(scan_columns, scan_column)

/* Of any fold. */
KERNEL(K(cu_scan_any_columns), struct scan_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.outer * a.pieces * a.inner)
        return;
    int64_t column = i % a.inner, piece = i / a.inner % a.pieces, o = i / a.inner / a.pieces;
    int64_t first = piece * a.piece, end = first + a.piece < a.n ? first + a.piece : a.n;
    struct scan_fold *part = (struct scan_fold *)a.parts + ((o * a.inner + column) * a.pieces + piece);
    struct scan_fold f = a.parts && !a.folding ? *part : identity(a.fold);
    for (int64_t k = first; k < end; k++) {
        int64_t at = (o * a.n + place(&a, k)) * a.inner + column;
        f = merge(a.fold, f, lift_at(&a, ((const S *)a.x)[at], at));
        if (!a.folding)
            ((S *)a.y)[at] = lower(a.fold, f);
    }
    if (a.folding)
        *part = f;
}

/* The folds of pieces become those of all before: of columns, by a thread for each; of rows, by a block. */
KERNEL(K(cu_scan_parts), struct scan_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.outer * a.inner)
        return;
    struct scan_fold *part = (struct scan_fold *)a.parts + i * a.pieces, f = identity(a.fold);
    for (int64_t k = 0; k < a.pieces; k++) {
        struct scan_fold next = merge(a.fold, f, part[k]);
        part[k] = f;
        f = next;
    }
}
KERNEL(K(cu_scan_parts_of_rows), struct scan_call)
{
    struct scan_fold *part = (struct scan_fold *)a.parts + blockIdx.x * a.pieces, carry = identity(a.fold);
    ROLLED
    for (int64_t at = 0; at < a.pieces; at += SCAN_THREADS) {
        int64_t i = at + threadIdx.x;
        struct around r = around_thread(a.fold, i < a.pieces ? part[i] : identity(a.fold));
        if (i < a.pieces)
            part[i] = merge(a.fold, carry, r.before);
        carry = merge(a.fold, carry, r.all);
    }
}
