/* Matrix products: every type, level, layout and way of cutting them up against sums in long
 * double; bit for bit the same whatever the layout, alignment and number of threads.  With --bench,
 * the speed beside OpenBLAS called directly. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/error.h"
#include "core/pool.h"
#include "cpu/kernels.h"
#include "cpu/kernels/gemm.h"
#include "cpu/product.h"
#include "support/effort.h"
#include "support/emulated_tiles.h"
#include "support/levels.h"

/* ---- numbers ---- */

static uint64_t state;
static uint64_t bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 29;
}
static int64_t between(int64_t low, int64_t high) { return low + (int64_t)(bits() % (uint64_t)(high - low + 1)); }

/* A number without surprises: floats of modest size, integers of all bits. */
static void put(enum dtype t, char *to)
{
    uint64_t r = bits();
    double d = (double)((int64_t)(r % 4096) - 2048) / 512;
    switch (t) {
    case DT_bool_: *to = (char)(r % 8 == 0); break;
    case DT_float16: *(uint16_t *)to = (uint16_t)((r & 0x83ff) | (10 + r / 65536 % 8) << 10); break;
    case DT_bfloat16: *(uint16_t *)to = (uint16_t)((r & 0x807f) | (122 + r / 65536 % 8) << 7); break;
    case DT_float32: *(float *)to = (float)d; break;
    case DT_float64: *(double *)to = d + (double)(bits() % 1000) * 1e-12; break;
    case DT_complex64: ((float *)to)[0] = (float)d, ((float *)to)[1] = (float)(bits() % 1000) / 300 - 1.5f; break;
    default: r ^= bits() << 32; memcpy(to, &r, dtype_size(t));
    }
}

struct number {
    long double re, im;
    uint64_t u;
};

static struct number get(enum dtype t, const char *p)
{
    struct number x = { 0 };
    uint16_t h;
    switch (t) {
    case DT_float32: x.re = *(const float *)p; break;
    case DT_float64: x.re = *(const double *)p; break;
    case DT_complex64: x.re = ((const float *)p)[0], x.im = ((const float *)p)[1]; break;
    case DT_bfloat16:
        memcpy(&h, p, 2);
        x.re = (long double)ldexp((h & 0x7f) | (h >> 7 & 0xff ? 0x80 : 0), (h >> 7 & 0xff ? h >> 7 & 0xff : 1) - 134);
        if ((h >> 7 & 0xff) == 0xff)
            x.re = h & 0x7f ? (long double)NAN : (long double)INFINITY;
        x.re = h >> 15 ? -x.re : x.re;
        break;
    case DT_float16:
        memcpy(&h, p, 2);
        x.re = (long double)ldexp((h & 0x3ff) | (h >> 10 & 31 ? 0x400 : 0), (h >> 10 & 31 ? h >> 10 & 31 : 1) - 25);
        if ((h >> 10 & 31) == 31)
            x.re = h & 0x3ff ? (long double)NAN : (long double)INFINITY;
        x.re = h >> 15 ? -x.re : x.re;
        break;
    case DT_int8: x.u = (uint64_t)(int64_t) * (const int8_t *)p; break;
    case DT_int16: x.u = (uint64_t)(int64_t) * (const int16_t *)p; break;
    case DT_int32: x.u = (uint64_t)(int64_t) * (const int32_t *)p; break;
    default: memcpy(&x.u, p, dtype_size(t));
    }
    return x;
}

static long double epsilon(enum dtype t) { return t == DT_float64 ? 0x1p-53L : 0x1p-24L; /* of the sum */ }
static long double rounding(enum dtype t) { return t == DT_float16 ? 0x1p-11L : t == DT_bfloat16 ? 0x1p-8L : 0; }

/* ---- operands ---- */

enum layout { ROWS, COLUMNS, GAPS, BACKWARD, BACKWARD_COLUMNS, SAME_ROW, SAME_COLUMN, LAYOUTS };

struct operand {
    char *memory;
    size_t bytes;
    struct matrix x;
    int64_t batch; /* stride */
};

/* An m by n matrix (and `count` of them) of its own memory, gaps poisoned; every element by
 * put(). */
static struct operand operand(enum dtype t, enum layout l, int64_t m, int64_t n, int64_t count, int offset)
{
    struct operand o = { 0 };
    int64_t size = (int64_t)dtype_size(t), rs, cs;
    switch (l) {
    case COLUMNS: rs = 1, cs = m; break;
    case GAPS: rs = 3 * n + 5, cs = 3; break;
    case BACKWARD: rs = -n, cs = 1; break;
    case BACKWARD_COLUMNS: rs = 1, cs = -(m + 1); break;
    case SAME_ROW: rs = 0, cs = 1; break;
    case SAME_COLUMN: rs = 1, cs = 0; break;
    default: rs = n, cs = 1;
    }
    int64_t reach_m = (m ? m - 1 : 0) * rs, reach_n = (n ? n - 1 : 0) * cs;
    int64_t low = (reach_m < 0 ? reach_m : 0) + (reach_n < 0 ? reach_n : 0);
    int64_t span = llabs(reach_m) + llabs(reach_n) + 1;
    o.batch = span + 2;
    /* Exactly as long as needed: a sanitizer sees every step too far. */
    int64_t total = offset + count * o.batch - 2;
    total = total > 0 ? total : 1;
    o.bytes = (size_t)(total * size);
    o.memory = malloc(o.bytes);
    assert_non_null(o.memory);
    memset(o.memory, dtype_kind(t) == 'b' ? 1 : 0xff, o.bytes); /* NaN, or a number that would show */
    o.x = (struct matrix){ o.memory + (offset - low) * size, rs, cs };
    for (int64_t b = 0; b < count; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) put(t, (char *)o.x.p + (b * o.batch + i * rs + j * cs) * size);
    return o;
}

static const char *element(enum dtype t, struct operand o, int64_t b, int64_t i, int64_t j)
{
    return (const char *)o.x.p + (b * o.batch + i * o.x.rs + j * o.x.cs) * (int64_t)dtype_size(t);
}

/* ---- one case ---- */

struct problem {
    enum dtype t;
    int64_t m, n, k, count;
    enum layout a, b, c;
    bool plus;
    double alpha, beta;
    bool spread_a, spread_b; /* the same operand in each product of the batch */
    int offset;
};

/* How many cases of a kind; instrumented code is slow. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { EFFORT = 1 };
#else
enum { EFFORT = 4 };
#endif
enum { GUARD = 64 };

static struct product make(const struct problem *p, struct operand a, struct operand b, struct operand c, char *y,
                           int *shape, int64_t strides[3])
{
    *shape = (int)p->count;
    strides[0] = p->spread_a ? 0 : a.batch;
    strides[1] = p->spread_b ? 0 : b.batch;
    strides[2] = c.batch;
    struct product q = { .t = p->t,
                         .m = p->m,
                         .n = p->n,
                         .k = p->k,
                         .a = a.x,
                         .b = b.x,
                         .y = y,
                         .alpha = p->alpha,
                         .beta = p->beta,
                         .ndim = p->count == 1 ? 0 : 1,
                         .shape = shape,
                         .sa = strides,
                         .sb = strides + 1,
                         .sc = strides + 2 };
    if (p->plus)
        q.c = c.x;
    return q;
}

static bool close_to(const struct problem *p, long double want, long double got, long double scale)
{
    if (isnan((double)got))
        return false;
    long double error = fabsl(got - want);
    /* Sums of up to kc terms in sequence: far below their bound of k eps, as roundings cancel,
     * unless all the terms are equal. */
    long double terms = p->a == SAME_COLUMN && p->b == SAME_ROW ? p->k : 0.5L * sqrtl((long double)p->k);
    long double sum_error = epsilon(p->t) * (8 + terms) * scale;
    long double tiny = p->t == DT_float16 ? 0x1p-25L : 0;
    return error <= sum_error + rounding(p->t) * (fabsl(want) + sum_error) * 1.001L + tiny;
}

/* The rows by columns of an operand, as numbers. */
static struct number *numbers(enum dtype t, struct operand o, int64_t b, int64_t m, int64_t n)
{
    struct number *v = malloc((size_t)(m * n + 1) * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) v[i * n + j] = get(t, element(t, o, b, i, j));
    return v;
}

static void check(const struct problem *p)
{
    enum dtype t = p->t;
    int64_t size = (int64_t)dtype_size(t), whole = p->m * p->n * p->count;
    struct operand a = operand(t, p->a, p->m, p->k, p->count, p->offset);
    struct operand b = operand(t, p->b, p->k, p->n, p->count, p->offset);
    struct operand c = operand(t, p->c, p->m, p->n, p->count, p->offset);
    char *memory = malloc((size_t)(whole * size) + 2 * GUARD + 16), *y = memory + GUARD + p->offset % 2 * size;
    memset(memory, 0xa5, (size_t)(whole * size) + 2 * GUARD + 16);
    int shape;
    int64_t strides[3];
    struct product q = make(p, a, b, c, y, &shape, strides);
    assert_int_equal(product_run(&q), 0);
    for (char *g = memory; g < y; g++) assert_int_equal((uint8_t)*g, 0xa5);
    for (char *g = y + whole * size; g < memory + whole * size + 2 * GUARD + 16; g++)
        assert_int_equal((uint8_t)*g, 0xa5);

    for (int64_t e = 0; e < p->count; e++) {
        struct number *as = numbers(t, a, p->spread_a ? 0 : e, p->m, p->k);
        struct operand turned = b; /* for columns side by side */
        turned.x = (struct matrix){ b.x.p, b.x.cs, b.x.rs };
        struct number *bs = numbers(t, turned, p->spread_b ? 0 : e, p->n, p->k);
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                long double re = 0, im = 0, scale = 0;
                uint64_t u = 0;
                const struct number *v = as + i * p->k, *w = bs + j * p->k;
                for (int64_t s = 0; s < p->k; s++, v++, w++) {
                    if (!dtype_is_inexact(t)) {
                        u = t == DT_bool_ ? u | (v->u & w->u) : u + v->u * w->u;
                        continue;
                    }
                    re += v->re * w->re;
                    scale += fabsl(v->re * w->re);
                    if (!dtype_is_complex(t))
                        continue;
                    re -= v->im * w->im;
                    im += v->re * w->im + v->im * w->re;
                    scale += fabsl(v->im * w->im) + fabsl(v->re * w->im) + fabsl(v->im * w->re);
                }
                re *= p->alpha, im *= p->alpha, scale *= fabs(p->alpha);
                if (p->plus) {
                    struct number v = get(t, element(t, c, e, i, j));
                    re += p->beta * v.re, im += p->beta * v.im;
                    scale += fabs(p->beta) * (fabsl(v.re) + fabsl(v.im));
                }
                const char *at = y + ((e * p->m + i) * p->n + j) * size;
                struct number got = get(t, at);
                bool right;
                if (dtype_is_inexact(t))
                    right = close_to(p, re, got.re, scale) && close_to(p, im, got.im, scale);
                else
                    right = !memcmp(at, &u, (size_t)size);
                if (!right)
                    fail_msg("%s %s: %ld x %ld x %ld, layouts %d %d %d, element (%ld, %ld, %ld): "
                             "want %.9Lg %+.9Lgi "
                             "or %lu, got %.9Lg %+.9Lgi or %lu",
                             cpu->isa, dtype_name(t), (long)p->m, (long)p->n, (long)p->k, p->a, p->b, p->c, (long)e,
                             (long)i, (long)j, re, im, (unsigned long)u, got.re, got.im, (unsigned long)got.u);
            }
        free(as), free(bs);
    }
    free(memory), free(a.memory), free(b.memory), free(c.memory);
}

static struct problem problem(enum dtype t, int64_t m, int64_t n, int64_t k)
{
    return (struct problem){
        .t = t, .m = m, .n = n, .k = k, .count = 1, .alpha = 1, .beta = 1, .offset = (int)between(0, 3)
    };
}

/* ---- tests; each runs at every level ---- */

static int at_level(const struct cpu_kernels *k, void (*f)(void))
{
    if (!k)
        return 0;
    cpu = k;
    state = 42;
    f();
    return 1;
}

static void at_each_level(void (*f)(void))
{
    const struct cpu_kernels *before = cpu, *pairs = cpu_kernels_named("avx512_bf16");
    int ran = 0;
    bf16_begin(BF16_WIDENED, false);
    for (int i = 0; i < LEVELS; i++) ran += at_level(cpu_kernels_named(levels[i]), f);
    bf16_begin(BF16_PAIRS, true);
    ran += at_level(pairs, f);
    ran += at_level(use_emulated_tiles(), f);
    cpu = before;
    assert_true(ran > 1);
}

/* Random sizes up to 70, layouts, scale and sum. */
static void small_sizes(void)
{
    for (enum dtype t = 0; t < DT_COUNT; t++)
        for (int i = 0; i < EFFORT * 20; i++) {
            struct problem p = problem(t, between(1, 70), between(1, 70), between(1, 70));
            if (i % 3 == 1)
                p.m = between(1, 5);
            if (i % 3 == 2)
                p.n = between(1, 5);
            p.a = (enum layout)between(0, LAYOUTS - 1);
            p.b = i % 2 ? ROWS : (enum layout)between(0, LAYOUTS - 1);
            p.c = (enum layout)between(0, LAYOUTS - 1);
            if (dtype_is_inexact(t)) {
                p.plus = i % 4 == 0;
                p.alpha = i % 5 ? 1 : -1.75;
                p.beta = i % 3 ? 1 : 0.625;
            }
            pool_set_threads(1 + i % 3);
            check(&p);
        }
}

/* Around the edges of register tiles, panels, blocks and stretches. */
static void edges(void)
{
    /* clang-format off */
    static const int mn[] = {
        1, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 24, 25, 31, 32, 33, 48, 49, 65
    };
    static const int ks[] = { 1, 2, 15, 16, 17, 31, 33, 255, 256, 257, 511, 512, 513, 1025 };
    /* clang-format on */
    static const enum dtype types[] = {
        DT_float32, DT_float64, DT_complex64, DT_float16, DT_bfloat16, DT_int8, DT_int64
    };
    int at = 0;
    for (size_t s = 0; s < sizeof types / sizeof *types; s++)
        for (size_t i = 0; i < sizeof mn / sizeof *mn; i++)
            for (size_t j = 0; j < (EFFORT + 1) / 2; j++, at++) {
                struct problem p = problem(types[s], mn[i], mn[(i + 7 * j + s) % 19], ks[at % 14]);
                p.a = at % 3 ? ROWS : COLUMNS;
                p.b = at % 2 ? ROWS : COLUMNS;
                pool_set_threads(1 + at % 4);
                check(&p);
            }
}

static void large_edges(void)
{
    static const struct {
        int m, n, k;
    } sizes[] = {
        { 193, 257, 40 }, { 2049, 33, 9 },   { 17, 2051, 11 },  { 5, 4100, 7 },   { 60, 70, 600 },
        { 20, 13, 3000 }, { 1, 1, 30000 },   { 1, 500, 2100 },  { 500, 1, 2100 }, { 3, 400, 1500 },
        { 400, 2, 1100 }, { 2, 3, 20000 },   { 4, 4, 4 },       { 300, 300, 3 },  { 30, 700, 530 },
        { 700, 30, 530 }, { 2060, 2100, 2 }, { 200, 210, 520 }, { 270, 520, 90 }, { 310, 290, 700 },
    };
    static const enum dtype types[] = { DT_float32,  DT_float64, DT_complex64, DT_float16,
                                        DT_bfloat16, DT_uint8,   DT_uint64,    DT_bool_ };
    for (size_t s = 0; s < (size_t)times(sizeof types / sizeof *types); s++)
        for (size_t i = s % 2; i < sizeof sizes / sizeof *sizes; i += s ? 2 : 1) {
            struct problem p = problem(types[s], sizes[i].m, sizes[i].n, sizes[i].k);
            p.a = (enum layout)((i + s) % 3);
            p.b = (enum layout)((i + s / 2) % 3);
            p.plus = dtype_is_inexact(p.t) && i % 2;
            pool_set_threads(1 + (int)(i % 5));
            check(&p);
        }
}

static void batches(void)
{
    for (enum dtype t = 0; t < DT_COUNT; t++)
        for (int i = 0; i < 6 * EFFORT; i++) {
            struct problem p = problem(t, between(1, 20), between(1, 20), between(0, 20));
            p.count = between(1, 30);
            if (i % 8 == 0)
                p.m = 70, p.n = 80, p.k = 90, p.count = 3;
            p.a = (enum layout)between(0, LAYOUTS - 1);
            p.b = (enum layout)between(0, LAYOUTS - 1);
            p.spread_a = i % 3 == 1;
            p.spread_b = i % 3 == 2;
            p.plus = dtype_is_inexact(t) && i % 2;
            pool_set_threads(1 + i % 4);
            check(&p);
        }
}

static void empty(void)
{
    for (enum dtype t = 0; t < DT_COUNT; t++)
        for (int i = 0; i < 8; i++) {
            struct problem p = problem(t, i & 1 ? 3 : 0, i & 2 ? 700 : 0, i & 4 ? 5 : 0);
            check(&p); /* K = 0 gives zeros */
            p.count = 0;
            check(&p);
            p.count = 2;
            p.plus = dtype_is_inexact(t);
            p.beta = 0.5;
            check(&p);
        }
}

/* The same numbers in other places give the same bits. */
static void copy_operand(enum dtype t, struct operand to, struct operand from, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            memcpy((char *)element(t, to, 0, i, j), element(t, from, 0, i, j), dtype_size(t));
}

static void same_bits(void)
{
    static const struct {
        int m, n, k;
    } sizes[] = {
        /* clang-format off */
        { 4, 4, 4 },      { 32, 32, 32 },   { 70, 50, 60 },    { 13, 300, 700 },
        { 40, 40, 3000 }, { 1, 900, 1500 }, { 900, 1, 1500 },  { 3, 5, 9000 },
        { 1, 1, 20000 },  { 2, 300, 1100 }, { 250, 260, 530 }, { 4, 600, 77 },
        { 310, 290, 700 },
        /* clang-format on */
    };
    static const enum dtype types[] = { DT_float32, DT_float64, DT_complex64, DT_float16, DT_bfloat16 };
    for (size_t s = 0; s < sizeof types / sizeof *types; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            enum dtype t = types[s];
            struct problem p = problem(t, sizes[i].m, sizes[i].n, sizes[i].k);
            size_t bytes = (size_t)(p.m * p.n) * dtype_size(t);
            char *first = malloc(bytes), *y = malloc(bytes + 8);
            p.offset = 0;
            struct operand a = operand(t, ROWS, p.m, p.k, 1, 0), b = operand(t, ROWS, p.k, p.n, 1, 0);
            int shape;
            int64_t strides[3];
            struct product q = make(&p, a, b, a, first, &shape, strides);
            pool_set_threads(1);
            assert_int_equal(product_run(&q), 0);
            for (int v = 0; v < 2 * EFFORT; v++) {
                enum layout la = v % 4 == 3 ? BACKWARD_COLUMNS : (enum layout)(v % 4),
                            lb = (enum layout)((v + v / 4) % 3);
                struct operand a2 = operand(t, la, p.m, p.k, 1, v % 5), b2 = operand(t, lb, p.k, p.n, 1, v % 3);
                copy_operand(t, a2, a, p.m, p.k);
                copy_operand(t, b2, b, p.k, p.n);
                q = make(&p, a2, b2, a, y + v % 2 * 4, &shape, strides);
                if (t == DT_float64)
                    q.y = y;
                pool_set_threads(v % 7 + 1);
                assert_int_equal(product_run(&q), 0);
                if (memcmp(q.y, first, bytes))
                    fail_msg("%s %s: %ld x %ld x %ld with layouts %d %d on %d threads gives other bits", cpu->isa,
                             dtype_name(t), (long)p.m, (long)p.n, (long)p.k, la, lb, pool_threads());
                free(a2.memory), free(b2.memory);
            }
            free(a.memory), free(b.memory), free(first), free(y);
        }
}

/* A half result is the float32 sum rounded once; pairs are summed in an order of their own. */
static void halves_round_once(void)
{
    enum { M = 37, N = 41, DEPTH = 600 };
    for (int h = 0; h < (bf16_gemm() == GEMM_f32 ? 2 : 1); h++) {
        enum dtype t = h ? DT_bfloat16 : DT_float16;
        struct operand a = operand(t, ROWS, M, DEPTH, 1, 0), b = operand(t, ROWS, DEPTH, N, 1, 0);
        struct operand wide_a = operand(DT_float32, ROWS, M, DEPTH, 1, 0),
                       wide_b = operand(DT_float32, ROWS, DEPTH, N, 1, 0);
        for (int64_t i = 0; i < M * DEPTH; i++) ((float *)wide_a.memory)[i] = (float)get(t, a.memory + 2 * i).re;
        for (int64_t i = 0; i < DEPTH * N; i++) ((float *)wide_b.memory)[i] = (float)get(t, b.memory + 2 * i).re;
        uint16_t y[M * N], rounded[M * N];
        float wide_y[M * N];
        struct product q = { .t = t, .m = M, .n = N, .k = DEPTH, .a = a.x, .b = b.x, .y = y, .alpha = 1 };
        struct product wide = {
            .t = DT_float32, .m = M, .n = N, .k = DEPTH, .a = wide_a.x, .b = wide_b.x, .y = wide_y, .alpha = 1
        };
        assert_int_equal(product_run(&q), 0);
        assert_int_equal(product_run(&wide), 0);
        cpu->cast[DT_float32][t](rounded, wide_y, M * N);
        assert_memory_equal(y, rounded, sizeof y);
        free(a.memory), free(b.memory), free(wide_a.memory), free(wide_b.memory);
    }
}

static void put_four(enum dtype t, char *to)
{
    if (t == DT_float64)
        *(double *)to = 4;
    else
        *(float *)to = 4; /* and some imaginary part */
}

/* Triangles: L X is what X was, but for errors of rounding; rows and columns apart from each other, also backwards. */
static void triangles(void)
{
    static const struct {
        enum dtype t;
        enum gemm_type type;
        double epsilon;
    } types[] = { { DT_float32, GEMM_f32, 6e-8 }, { DT_float64, GEMM_f64, 1.2e-16 }, { DT_complex64, GEMM_c64, 6e-8 } };
    enum { ROOM = SOLVE_ROWS * 100 };
    for (size_t s = 0; s < sizeof types / sizeof *types; s++)
        for (int round = 0; round < 40 * EFFORT; round++) {
            enum dtype t = types[s].t;
            size_t size = dtype_size(t);
            int64_t m = between(1, SOLVE_ROWS), n = between(1, 90), ldx = n + between(0, 5);
            int64_t rs = round % 3 ? SOLVE_ROWS + 1 : 1, cs = round % 3 ? 1 : SOLVE_ROWS + 1;
            bool unit = round % 2, back = round % 5 == 0;
            char *l = malloc(ROOM * size), *x = malloc(ROOM * size), *before = malloc(ROOM * size);
            for (int64_t i = 0; i < ROOM; i++) put(t, l + (size_t)i * size), put(t, x + (size_t)i * size);
            memcpy(before, x, ROOM * size);
            for (int64_t r = 0; r < m; r++) put_four(t, l + (size_t)(r * (rs + cs)) * size);
            int64_t first = back ? m - 1 : 0, step = back ? -1 : 1;
            cpu->gemm->type[types[s].type].solve(x + (size_t)(first * ldx) * size, step * ldx,
                                                 l + (size_t)(first * (rs + cs)) * size, step * rs, step * cs, m, n,
                                                 unit);
            for (int64_t r = 0; r < m; r++)
                for (int64_t j = 0; j < ldx; j++) {
                    struct number want = get(t, before + (size_t)(r * ldx + j) * size), sum = { 0 };
                    long double bound = 0;
                    for (int64_t p = back ? r : 0; p <= (back ? m - 1 : r) && j < n; p++) {
                        struct number a = get(t, l + (size_t)(r * rs + p * cs) * size),
                                      b = get(t, x + (size_t)(p * ldx + j) * size);
                        if (p == r && unit)
                            a = (struct number){ .re = 1 };
                        sum.re += a.re * b.re - a.im * b.im;
                        sum.im += a.re * b.im + a.im * b.re;
                        bound += (fabsl(a.re) + fabsl(a.im)) * (fabsl(b.re) + fabsl(b.im));
                    }
                    if (j >= n) /* between the rows */
                        assert_memory_equal(x + (size_t)(r * ldx + j) * size, before + (size_t)(r * ldx + j) * size,
                                            size);
                    else if (bound < 1e30L && !(fabsl(sum.re - want.re) + fabsl(sum.im - want.im) <=
                                                4 * (double)m * types[s].epsilon * bound))
                        fail_msg("%s %s: %ld rows, row %ld column %ld of %ld", cpu->isa, dtype_name(t), (long)m,
                                 (long)r, (long)j, (long)n);
                }
            free(l), free(x), free(before);
        }
}

static void no_memory(void)
{
    enum { N = 500 }; /* one of up to 384 by several threads takes none */
    static float a[N * N], y[N * N];
    struct product q = {
        .t = DT_float32, .m = N, .n = N, .k = N, .a = { a, N, 1 }, .b = { a, N, 1 }, .y = y, .alpha = 1
    };
    memset(y, 0x11, sizeof y);
    memory_clear_cache();
    mx_test_fail_at(1);
    assert_int_not_equal(product_run(&q), 0);
    mx_test_fail_at(0);
    assert_true(mx_failed());
    assert_int_equal(mx_error_kind(), MX_MEMORY);
    mx_error_clear();
    for (size_t i = 0; i < sizeof y; i++) assert_int_equal(((char *)y)[i], 0x11);
    assert_int_equal(product_run(&q), 0);
}

#define TEST(name)                    \
    static void test_##name(void **s) \
    {                                 \
        (void)s;                      \
        at_each_level(name);          \
    }
TEST(small_sizes)
TEST(edges)
TEST(large_edges)
TEST(batches)
TEST(empty)
TEST(same_bits)
TEST(halves_round_once)
TEST(triangles)
TEST(no_memory)

/* ---- speed ---- */

void scipy_cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                       const float *b, int ldb, float beta, float *c, int ldc);
void scipy_openblas_set_num_threads(int n);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const struct product *bench_q;
static void own(void) { product_run(bench_q); }
static void blas(void)
{
    const struct product *q = bench_q;
    int count = q->ndim ? q->shape[0] : 1, m = (int)q->m, n = (int)q->n, k = (int)q->k;
    for (int i = 0; i < count; i++)
        scipy_cblas_sgemm(101, q->a.cs == 1 ? 111 : 112, q->b.cs == 1 ? 111 : 112, m, n, k, 1,
                          (const float *)q->a.p + (size_t)i * q->m * q->k, (int)(q->a.cs == 1 ? q->a.rs : q->a.cs),
                          (const float *)q->b.p + (size_t)i * q->k * q->n, (int)(q->b.cs == 1 ? q->b.rs : q->b.cs), 0,
                          (float *)q->y + (size_t)i * q->m * q->n, n);
}

/* The best time of each, taking turns, for about 0.6 seconds: other programs disturb both alike. */
static void best_times(void (*const f[2])(void), double times[2])
{
    double stop = now() + 0.6;
    times[0] = times[1] = 1e9;
    for (int round = 0, n = f[1] ? 2 : 1; round < 2 || now() < stop; round++)
        for (int i = 0; i < n; i++) {
            double t = now();
            f[i]();
            t = now() - t;
            times[i] = t < times[i] ? t : times[i];
        }
}

static void compare(const char *label, enum dtype t, int count, int m, int n, int k, bool ta, bool tb)
{
    size_t size = dtype_size(t);
    char *a = aligned_alloc(64, (size_t)count * m * k * size + 64),
         *b = aligned_alloc(64, (size_t)count * k * n * size + 64);
    char *y = aligned_alloc(64, (size_t)count * m * n * size + 64);
    for (size_t i = 0; i < (size_t)count * m * k; i++) put(t, a + i * size);
    for (size_t i = 0; i < (size_t)count * k * n; i++) put(t, b + i * size);
    int64_t strides[] = { (int64_t)m * k, (int64_t)k * n };
    struct product q = { .t = t,
                         .m = m,
                         .n = n,
                         .k = k,
                         .a = { a, ta ? 1 : k, ta ? m : 1 },
                         .b = { b, tb ? 1 : n, tb ? k : 1 },
                         .y = y,
                         .alpha = 1,
                         .ndim = 1,
                         .shape = &count,
                         .sa = strides,
                         .sb = strides + 1 };
    bench_q = &q;
    double flop = 2. * count * m * n * k * (t == DT_complex64 ? 4 : 1) * 1e-9;
    double times[2];
    best_times((void (*const[2])(void)){ own, t == DT_float32 ? blas : NULL }, times);
    printf("%-22s %-9s %c%c %8.1f GFLOP/s", label, dtype_name(t), ta ? 't' : 'n', tb ? 't' : 'n', flop / times[0]);
    if (t == DT_float32)
        printf(", OpenBLAS %8.1f, ratio %.2f", flop / times[1], times[1] / times[0]);
    printf("\n");
    free(a), free(b), free(y);
}

static int bench(void)
{
    printf("%s, %d threads\n", cpu->isa, pool_threads());
    scipy_openblas_set_num_threads(pool_threads());
    char label[64];
    for (int n = 4; n <= 2048; n *= 2) {
        snprintf(label, sizeof label, "%d cubed", n);
        compare(label, DT_float32, 1, n, n, n, false, false);
    }
    compare("512 cubed", DT_float32, 1, 512, 512, 512, false, true);
    compare("512 cubed", DT_float32, 1, 512, 512, 512, true, false);
    compare("2048 cubed", DT_float32, 1, 2048, 2048, 2048, false, true);
    compare("64 times 256 cubed", DT_float32, 64, 256, 256, 256, false, false);
    compare("64 times 256 cubed", DT_float32, 64, 256, 256, 256, false, true);
    compare("1000 times 4 cubed", DT_float32, 1000, 4, 4, 4, false, false);
    compare("100 times 32 cubed", DT_float32, 100, 32, 32, 32, false, false);
    compare("64 x 64 x 100000", DT_float32, 1, 64, 64, 100000, true, false);
    compare("128 x 10 x 784", DT_float32, 1, 128, 10, 784, false, true);
    compare("256 x 128 x 64", DT_float32, 1, 256, 128, 64, false, true);
    compare("8 x 4096 x 4096", DT_float32, 1, 8, 4096, 4096, false, true);
    compare("1 x 4096 x 4096", DT_float32, 1, 1, 4096, 4096, false, false);
    compare("1 x 4096 x 4096", DT_float32, 1, 1, 4096, 4096, false, true);
    compare("4096 x 1 x 4096", DT_float32, 1, 4096, 1, 4096, false, false);
    compare("1 x 1 x 1000000", DT_float32, 1, 1, 1, 1000000, false, false);
    compare("1 x 4096 x 4096", DT_bfloat16, 1, 1, 4096, 4096, false, true);
    for (enum dtype t = DT_int8; t < DT_COUNT; t++) compare("1024 cubed", t, 1, 1024, 1024, 1024, false, false);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench"))
        return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_sizes),       cmocka_unit_test(test_edges),     cmocka_unit_test(test_large_edges),
        cmocka_unit_test(test_batches),           cmocka_unit_test(test_empty),     cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_halves_round_once), cmocka_unit_test(test_triangles), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
