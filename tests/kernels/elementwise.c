/* Every element-wise kernel of every instruction set this machine can run, through its table: an
 * element's result depends on its operands alone, nothing is written past the end, results may
 * lie over operands, and all levels agree with `base`; casts and moves against plain loops here.
 *
 * With --bench: nanoseconds per element, by row, type and level. */
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

#include "cpu/kernels.h"
#include "ops/op.h"
#include "support/levels.h"
#include "support/numbers.h"

enum { MOST = 300, ROOM = 64, MISFIT = 8 };

struct row {
    const char *name;
    uint32_t traits;
};
static const struct row unary_rows[] = {
#define UNARY(name, label, set, traits, ...) { #name, traits },
#include "ops/ops.def"
};
static const struct row binary_rows[] = {
#define BINARY(name, label, set, traits, ...) { #name, traits },
#include "ops/ops.def"
};

/* Odd lengths, and each remainder of the vectors of every level. */
static const size_t lengths[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 63, 64, 65, 100, 127, 129, 255 };
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* ---- comparison */

static int64_t ordered_f32(float x)
{
    int32_t i;
    memcpy(&i, &x, 4);
    return i < 0 ? (int64_t)INT32_MIN - i : i;
}
static int64_t ordered_f64(double x)
{
    int64_t i;
    memcpy(&i, &x, 8);
    return i < 0 ? INT64_MIN - i : i;
}

/* Equal, both NaN, or `ulp` units in the last place apart. */
static bool near_f32(float a, float b, int ulp)
{
    return (isnan(a) && isnan(b)) || llabs(ordered_f32(a) - ordered_f32(b)) <= ulp;
}
static bool near_f64(double a, double b, int ulp)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    return llabs(ordered_f64(a) / 2 - ordered_f64(b) / 2) <= ulp / 2 &&
           (ulp || a == b || ordered_f64(a) == ordered_f64(b));
}

static bool near(enum dtype t, const void *a, const void *b, int ulp)
{
    const float *p = a, *q = b;
    switch (t) {
    case DT_float32: return near_f32(*p, *q, ulp);
    case DT_float64: return near_f64(*(const double *)a, *(const double *)b, ulp);
    case DT_complex64: return near_f32(p[0], q[0], ulp) && near_f32(p[1], q[1], ulp);
    default: return !memcmp(a, b, dtype_size(t));
    }
}

static const char *show(enum dtype t, const void *p)
{
    static char ring[8][64];
    static int turn;
    char *s = ring[turn++ % 8];
    switch (t) {
    case DT_float32: snprintf(s, 64, "%.9g", (double)*(const float *)p); break;
    case DT_float64: snprintf(s, 64, "%.17g", *(const double *)p); break;
    case DT_complex64:
        snprintf(s, 64, "%.9g%+.9gi", (double)((const float *)p)[0], (double)((const float *)p)[1]);
        break;
    default: {
        uint64_t u = 0;
        memcpy(&u, p, dtype_size(t));
        snprintf(s, 64, "0x%llx", (unsigned long long)u);
    }
    }
    return s;
}

static int complaints;
#define COMPLAIN(...)                   \
    do {                                \
        if (complaints++ < 40)          \
            print_message(__VA_ARGS__); \
    } while (0)

/* ---- outputs between guards */

static _Alignas(64) uint8_t arena[ROOM + MISFIT * 8 + MOST * 8 + ROOM];
static uint8_t *guarded(size_t misfit)
{
    memset(arena, 0xA5, sizeof arena);
    return arena + ROOM + misfit;
}
static bool guards_intact(const uint8_t *y, size_t bytes)
{
    for (const uint8_t *p = arena; p < arena + sizeof arena; p++)
        if ((p < y || p >= y + bytes) && *p != 0xA5)
            return false;
    return true;
}

static enum dtype result_dtype(const struct row *r, enum dtype t)
{
    return r->traits & GIVES_BOOL ? DT_bool_ : r->traits & GIVES_REAL && t == DT_complex64 ? DT_float32 : t;
}

/* ---- unary and binary rows */

static _Alignas(64) uint8_t data_a[(MOST + MISFIT) * 8], data_b[(MOST + MISFIT) * 8];

static void unary_of_level(const struct cpu_kernels *k, int row, enum dtype t)
{
    unary_fn *f = k->unary[row][t];
    enum dtype out = result_dtype(&unary_rows[row], t);
    size_t size = dtype_size(t), osize = dtype_size(out);
    uint8_t one[8];
    for (int l = 0; l < LENGTHS; l++) {
        size_t n = lengths[l], skip = (size_t)l % MISFIT;
        uint8_t *x = data_a + skip * size, *y = guarded((size_t)(l * 3) % MISFIT * osize);
        fill_random(t, data_a, MOST);
        f(y, x, n);
        if (!guards_intact(y, n * osize))
            COMPLAIN("%s %s %s: %zu elements: wrote outside\n", k->isa, unary_rows[row].name, dtype_name(t), n);
        for (size_t i = 0; i < n; i++) {
            f(one, x + i * size, 1);
            if (!near(out, y + i * osize, one, 0))
                COMPLAIN("%s %s %s(%s): alone %s, element %zu of %zu %s\n", k->isa, unary_rows[row].name, dtype_name(t),
                         show(t, x + i * size), show(out, one), i, n, show(out, y + i * osize));
        }
        if (size != osize)
            continue;
        uint8_t *over = guarded((size_t)l % MISFIT * size), expected[MOST * 8];
        memcpy(expected, x, n * size);
        f(expected, x, n);
        memcpy(over, x, n * size);
        f(over, over, n);
        for (size_t i = 0; i < n; i++)
            if (!near(out, over + i * size, expected + i * size, 0))
                COMPLAIN("%s %s %s: in place element %zu of %zu differs\n", k->isa, unary_rows[row].name, dtype_name(t),
                         i, n);
    }
}

static void binary_of_level(const struct cpu_kernels *k, int row, enum dtype t)
{
    binary_fn *f = k->binary[row][t];
    const char *name = binary_rows[row].name;
    enum dtype out = result_dtype(&binary_rows[row], t);
    size_t size = dtype_size(t), osize = dtype_size(out);
    uint8_t one[8];
    for (int l = 0; l < LENGTHS * 4; l++) {
        size_t n = lengths[l / 4], skip = (size_t)l % MISFIT;
        int sa = l & 1, sb = l >> 1 & 1;
        uint8_t *a = data_a + skip * size, *b = data_b + (size_t)(l * 5) % MISFIT * size;
        uint8_t *y = guarded((size_t)(l * 3) % MISFIT * osize);
        fill_random(t, data_a, MOST);
        fill_random(t, data_b, MOST);
        f(y, a, sa, b, sb, n);
        if (!guards_intact(y, n * osize))
            COMPLAIN("%s %s %s: %zu elements: wrote outside\n", k->isa, name, dtype_name(t), n);
        for (size_t i = 0; i < n; i++) {
            const uint8_t *ai = a + i * (size_t)sa * size, *bi = b + i * (size_t)sb * size;
            f(one, ai, 1, bi, 1, 1);
            if (!near(out, y + i * osize, one, 0))
                COMPLAIN("%s %s %s(%s, %s): alone %s, element %zu of %zu (strides %d %d) %s\n", k->isa, name,
                         dtype_name(t), show(t, ai), show(t, bi), show(out, one), i, n, sa, sb,
                         show(out, y + i * osize));
        }
        if (size != osize)
            continue;
        for (int which = 0; which < 2; which++) {
            if (!(which ? sb : sa))
                continue;
            uint8_t *over = guarded(skip * size), expected[MOST * 8];
            memcpy(over, which ? b : a, n * size);
            f(expected, a, sa, b, sb, n);
            f(over, which ? a : over, sa, which ? over : b, sb, n);
            for (size_t i = 0; i < n; i++)
                if (!near(out, over + i * size, expected + i * size, 0))
                    COMPLAIN("%s %s %s: over operand %d, element %zu of %zu differs\n", k->isa, name, dtype_name(t),
                             which, i, n);
        }
    }
}

/* Formulas are the same text at every level; base has no fused multiply-add, which moves
 * polynomials by an ulp or two. */
static int tolerance(enum dtype t) { return t == DT_float32 || t == DT_float64 || t == DT_complex64 ? 2 : 0; }

static void against_base(const struct cpu_kernels *k, const struct cpu_kernels *base, bool two, int row, enum dtype t)
{
    static _Alignas(64) uint8_t y[MOST * 8], z[MOST * 8];
    const struct row *r = two ? &binary_rows[row] : &unary_rows[row];
    enum dtype out = result_dtype(r, t);
    size_t size = dtype_size(t), osize = dtype_size(out);
    /* The terms of one cancel near zero, the other rounds three times after its exponential;
     * tests/property/elementwise_accuracy.c holds every level to the scale of that. */
    if (!strcmp(r->name, "logaddexp") || !strcmp(r->name, "sigmoid_slope") || !strcmp(r->name, "silu") ||
        !strcmp(r->name, "silu_slope"))
        return;
    for (int round = 0; round < 20; round++) {
        fill_random(t, data_a, MOST);
        fill_random(t, data_b, MOST);
        if (two) {
            k->binary[row][t](y, data_a, 1, data_b, 1, MOST);
            base->binary[row][t](z, data_a, 1, data_b, 1, MOST);
        } else {
            k->unary[row][t](y, data_a, MOST);
            base->unary[row][t](z, data_a, MOST);
        }
        for (size_t i = 0; i < MOST; i++)
            if (!near(out, y + i * osize, z + i * osize, tolerance(out)))
                COMPLAIN("%s %s %s(%s%s%s): %s, base %s\n", k->isa, r->name, dtype_name(t), show(t, data_a + i * size),
                         two ? ", " : "", two ? show(t, data_b + i * size) : "", show(out, y + i * osize),
                         show(out, z + i * osize));
    }
}

/* Where nothing is far, shorter formulas run: one number that is must be found wherever it lies. */
static void one_far(void **unused)
{
    (void)unused;
    static const size_t places[] = { 0, 1, 127, 128, 255, 511, 512, 640, 1023, 1100 };
    static float x[1101], y[1101];
    static double u[1101], v[1101];
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        for (int r = 0; k && r < UNARY_COUNT; r++)
            for (size_t p = 0; k->unary[r][DT_float32] && p < sizeof places / sizeof *places; p++) {
                float one;
                double other;
                for (int i = 0; i < 1101; i++) u[i] = x[i] = (float)i / 2048 - 0.25f;
                u[places[p]] = x[places[p]] = 3e6f;
                k->unary[r][DT_float32](y, x, 1101);
                k->unary[r][DT_float32](&one, x + places[p], 1);
                k->unary[r][DT_float64](v, u, 1101);
                k->unary[r][DT_float64](&other, u + places[p], 1);
                if (!near_f32(y[places[p]], one, 0) || !near_f64(v[places[p]], other, 0))
                    COMPLAIN("%s %s: the far one at %zu was taken for near\n", k->isa, unary_rows[r].name, places[p]);
            }
    }
    assert_int_equal(complaints, 0);
}

static void rows(void **unused)
{
    (void)unused;
    const struct cpu_kernels *base = cpu_kernels_named("base");
    assert_non_null(base);
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        if (!k)
            continue;
        assert_string_equal(k->isa, levels[l]);
        for (int t = 0; t < DT_COUNT; t++) {
            for (int r = 0; r < UNARY_COUNT; r++) {
                assert_int_equal(!k->unary[r][t], !base->unary[r][t]);
                if (!k->unary[r][t])
                    continue;
                unary_of_level(k, r, t);
                against_base(k, base, false, r, t);
            }
            for (int r = 0; r < BINARY_COUNT; r++) {
                assert_int_equal(!k->binary[r][t], !base->binary[r][t]);
                if (!k->binary[r][t])
                    continue;
                binary_of_level(k, r, t);
                against_base(k, base, true, r, t);
            }
        }
    }
    assert_int_equal(complaints, 0);
}

/* The sets of ops.def decide which types a row has kernels for. */
static bool in_set(enum dtype_set set, enum dtype t)
{
    char kind = dtype_kind(t);
    if (dtype_is_half(t))
        return false;
    switch (set) {
    case ANY: return true;
    case NUMERIC: return kind != 'b';
    case REAL: return kind != 'c';
    case INEXACT: return kind == 'f' || kind == 'c';
    case FLOAT: return kind == 'f';
    case INTEGER: return kind != 'f' && kind != 'c';
    case SHIFTED: return kind == 'i' || kind == 'u';
    case BOOL: return kind == 'b';
    }
    return false;
}

static void table_is_full(void **unused)
{
    (void)unused;
    static const enum dtype_set unary_sets[] = {
#define UNARY(name, label, set, ...) set,
#include "ops/ops.def"
    };
    static const enum dtype_set binary_sets[] = {
#define BINARY(name, label, set, ...) set,
#include "ops/ops.def"
    };
    for (int t = 0; t < DT_COUNT; t++) {
        for (int r = 0; r < UNARY_COUNT; r++) assert_int_equal(cpu->unary[r][t] != NULL, in_set(unary_sets[r], t));
        for (int r = 0; r < BINARY_COUNT; r++) assert_int_equal(cpu->binary[r][t] != NULL, in_set(binary_sets[r], t));
        for (int to = 0; to < DT_COUNT; to++) assert_non_null(cpu->cast[t][to]);
    }
}

/* ---- casts: against exact arithmetic in long double, which holds every value of every type */

/* x cut to an integer of `bits` bits; what it does not hold becomes its least one. */
static int64_t integer_of(real x, int bits)
{
    real limit = ldexpl(1, bits - 1), whole = truncl(x);
    return whole >= -limit && whole < limit ? (int64_t)whole : bits == 64 ? INT64_MIN : INT32_MIN;
}

static void expected_cast(enum dtype from, enum dtype to, const void *x, void *y)
{
    real v = value_of(from, x);
    bool from_integer = dtype_kind(from) != 'f' && dtype_kind(from) != 'c';
    size_t size = dtype_size(to);
    float f = (float)v;
    double d = (double)v;
    switch (to) {
    case DT_bool_: *(uint8_t *)y = v != 0 || (from == DT_complex64 && ((const float *)x)[1] != 0); return;
    case DT_float32: memcpy(y, &f, 4); return;
    case DT_float64: memcpy(y, &d, 8); return;
    case DT_float16:
    case DT_bfloat16: *(uint16_t *)y = half_of(to, v); return;
    case DT_complex64:
        ((float *)y)[0] = f;
        ((float *)y)[1] = from == DT_complex64 ? ((const float *)x)[1] : 0;
        return;
    default: break;
    }
    uint64_t u;
    if (from_integer)
        u = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
    else if (dtype_kind(to) == 'u' && size >= 4 && v >= ldexpl(1, (int)size * 8 - 1))
        u = v < ldexpl(1, (int)size * 8) ? (uint64_t)v : 0;
    else
        u = (uint64_t)integer_of(v, size == 8 ? 64 : 32);
    memcpy(y, &u, size);
}

static bool same_number(enum dtype t, const void *a, const void *b)
{
    real u = value_of(t, a), v = value_of(t, b);
    if (isnan(u) || isnan(v))
        return isnan(u) && isnan(v);
    return !memcmp(a, b, dtype_size(t));
}

/* Values at which the rounding to a half type turns, and their neighbours. */
static void fill_for_casts(enum dtype t, void *p, size_t n)
{
    fill_random(t, p, n);
    for (size_t i = 0; i < n; i += 2) {
        uint64_t u = bits64();
        enum dtype h = u & 1 ? DT_float16 : DT_bfloat16;
        real a = half_value(h, (uint16_t)(u >> 8)), b = half_value(h, (uint16_t)((u >> 8) + 1));
        real middle = (a + b) / 2;
        int nudge = (int)(u >> 1 & 3) - 1;
        float f = (float)middle;
        if (t == DT_float32 && isfinite(middle))
            ((float *)p)[i] = nudge ? nextafterf(f, nudge > 0 ? INFINITY : -INFINITY) : f;
        if (t == DT_float64 && isfinite(middle))
            ((double *)p)[i] = nudge ? nextafter((double)middle, nudge > 0 ? INFINITY : -INFINITY) : (double)middle;
        if (t == DT_int64 && fabsl(middle) < 0x1p62L)
            ((int64_t *)p)[i] = (int64_t)middle + nudge;
        if (t == DT_uint64 && middle >= 1 && middle < 0x1p63L)
            ((uint64_t *)p)[i] = (uint64_t)middle + (uint64_t)(int64_t)nudge;
        if (t == DT_int32 && fabsl(middle) < 0x1p30L)
            ((int32_t *)p)[i] = (int32_t)middle + nudge;
        if (t == DT_uint32 && middle >= 1 && middle < 0x1p31L)
            ((uint32_t *)p)[i] = (uint32_t)((int64_t)middle + nudge);
    }
}

static void cast_of_level(const struct cpu_kernels *k, enum dtype from, enum dtype to)
{
    size_t size = dtype_size(from), osize = dtype_size(to);
    for (int l = 0; l < LENGTHS * 3; l++) {
        size_t n = lengths[l / 3], skip = (size_t)l % MISFIT;
        uint8_t *x = data_a + skip * size, *y = guarded((size_t)(l * 3) % MISFIT * osize), expected[8];
        fill_for_casts(from, data_a, MOST);
        k->cast[from][to](y, x, n);
        if (!guards_intact(y, n * osize))
            COMPLAIN("%s %s to %s: %zu elements: wrote outside\n", k->isa, dtype_name(from), dtype_name(to), n);
        for (size_t i = 0; i < n; i++) {
            expected_cast(from, to, x + i * size, expected);
            if (!same_number(to, y + i * osize, expected))
                COMPLAIN("%s %s to %s: %s gives %s, not %s\n", k->isa, dtype_name(from), dtype_name(to),
                         show(from, x + i * size), show(to, y + i * osize), show(to, expected));
        }
        if (size != osize)
            continue;
        uint8_t *over = guarded(0), apart[MOST * 8];
        memcpy(over, x, n * size);
        k->cast[from][to](over, over, n);
        k->cast[from][to](apart, x, n);
        if (memcmp(over, apart, n * size))
            COMPLAIN("%s %s to %s: in place differs\n", k->isa, dtype_name(from), dtype_name(to));
    }
}

static void casts(void **unused)
{
    (void)unused;
    complaints = 0;
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        for (int from = 0; k && from < DT_COUNT; from++)
            for (int to = 0; to < DT_COUNT; to++) cast_of_level(k, from, to);
    }
    assert_int_equal(complaints, 0);
}

/* All 65,536 numbers of a half type go to float32 and come back. */
static void half_round_trip(void **unused)
{
    (void)unused;
    static uint16_t h[65536], back[65536];
    static float f[65536];
    for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        for (int t = 0; k && t < DT_COUNT; t++) {
            if (!dtype_is_half(t))
                continue;
            k->cast[t][DT_float32](f, h, 65536);
            k->cast[DT_float32][t](back, f, 65536);
            for (int i = 0; i < 65536; i++) {
                real v = half_value(t, h[i]);
                if (isnan(v))
                    assert_true(isnan(f[i]) && isnan(half_value(t, back[i])));
                else
                    assert_true(f[i] == v && back[i] == h[i]);
            }
        }
    }
}

/* A bool made from other bytes counts as true wherever it is not zero. */
static void odd_bools(void **unused)
{
    (void)unused;
    const uint8_t x[4] = { 0, 1, 2, 255 };
    float f[4];
    uint8_t b[4];
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        if (!k)
            continue;
        k->cast[DT_bool_][DT_float32](f, x, 4);
        k->cast[DT_bool_][DT_bool_](b, x, 4);
        for (int i = 0; i < 4; i++) assert_true(f[i] == (x[i] != 0) && b[i] == (x[i] != 0));
    }
}

/* ---- moves and selection */

static void moves(void **unused)
{
    (void)unused;
    enum { AREA = 4096 };
    static const int64_t strides[] = { 1, 0, -1, 2, 3, -2, 7, -13 };
    static _Alignas(64) uint8_t from[AREA * 8], to[AREA * 8], expected[AREA * 8];
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        for (size_t w = 0; k && w < 4; w++)
            for (size_t i = 0; i < 8 * LENGTHS * 8; i++) {
                size_t size = (size_t)1 << w, n = lengths[i % LENGTHS];
                int64_t sy = strides[i / LENGTHS % 8], sx = strides[i / LENGTHS / 8];
                if (sy == 0) /* every element on one place: no answer */
                    continue;
                fill_random(DT_uint8, from, sizeof from);
                memset(to, 0xA5, sizeof to);
                memset(expected, 0xA5, sizeof expected);
                int64_t x0 = sx < 0 ? AREA - 1 : 1, y0 = sy < 0 ? AREA - 2 : 2;
                for (size_t j = 0; j < n; j++)
                    memcpy(expected + (y0 + (int64_t)j * sy) * (int64_t)size,
                           from + (x0 + (int64_t)j * sx) * (int64_t)size, size);
                k->move[w](to + y0 * (int64_t)size, sy, from + x0 * (int64_t)size, sx, n);
                assert_memory_equal(to, expected, sizeof to);
            }
    }
}

static void transpositions(void **unused)
{
    (void)unused;
    enum { P = 67, Q = 70, SY = 71, SX = 69 };
    static _Alignas(64) uint8_t from[Q * SX * 8], to[P * SY * 8], expected[P * SY * 8];
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        for (size_t w = 0; k && w < 4; w++)
            for (size_t n = 0; n < 200; n++) {
                size_t size = (size_t)1 << w, rows = bits64() % (P + 1), cols = bits64() % (Q + 1);
                fill_random(DT_uint8, from, sizeof from);
                memset(to, 0xA5, sizeof to);
                memset(expected, 0xA5, sizeof expected);
                for (size_t i = 0; i < rows; i++)
                    for (size_t j = 0; j < cols; j++)
                        memcpy(expected + (i * SY + j) * size, from + (j * SX + i) * size, size);
                k->transpose[w](to, SY, from, SX, rows, cols);
                assert_memory_equal(to, expected, sizeof to);
            }
    }
}

static void selection(void **unused)
{
    (void)unused;
    uint8_t c[MOST];
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        for (size_t w = 0; k && w < 4; w++)
            for (size_t i = 0; i < LENGTHS * 8; i++) {
                size_t size = (size_t)1 << w, n = lengths[i / 8], sc = i & 1, sa = i >> 1 & 1, sb = i >> 2 & 1;
                uint8_t *y = guarded(i % MISFIT * size);
                fill_random(DT_uint8, data_a, sizeof data_a);
                fill_random(DT_uint8, data_b, sizeof data_b);
                fill_random(DT_bool_, c, MOST);
                k->select[w](y, c, (int)sc, data_a, (int)sa, data_b, (int)sb, n);
                assert_true(guards_intact(y, n * size));
                for (size_t j = 0; j < n; j++)
                    assert_memory_equal(y + j * size, c[j * sc] ? data_a + j * sa * size : data_b + j * sb * size,
                                        size);
                if (sa) {
                    memmove(y, data_a, n * size); /* over an operand */
                    k->select[w](y, c, (int)sc, y, 1, data_b, (int)sb, n);
                    for (size_t j = 0; j < n; j++)
                        assert_memory_equal(y + j * size, c[j * sc] ? data_a + j * size : data_b + j * sb * size, size);
                }
            }
    }
}

/* ---- the benchmark */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

enum { BENCH = 4096 };
static _Alignas(64) uint8_t bench_a[BENCH * 8], bench_b[BENCH * 8], bench_y[BENCH * 8];

struct job {
    const struct cpu_kernels *k;
    int row;
    enum dtype from, to;
};
static void bench_unary(const struct job *j) { j->k->unary[j->row][j->from](bench_y, bench_a, BENCH); }
static void bench_binary(const struct job *j) { j->k->binary[j->row][j->from](bench_y, bench_a, 1, bench_b, 1, BENCH); }
static void bench_cast(const struct job *j) { j->k->cast[j->from][j->to](bench_y, bench_a, BENCH); }

static double measure(void (*run)(const struct job *), const struct job *j)
{
    double best = 1e30;
    for (int round = 0; round < 5; round++) {
        double begin = now();
        int n = 0;
        do run(j), n++;
        while (now() - begin < 2e5);
        double each = (now() - begin) / n / BENCH;
        best = each < best ? each : best;
    }
    return best;
}

static void bench_rows(const char *only)
{
    for (int i = 0; i < UNARY_COUNT + BINARY_COUNT; i++) {
        int row = i < UNARY_COUNT ? i : i - UNARY_COUNT;
        const char *name = i < UNARY_COUNT ? unary_rows[row].name : binary_rows[row].name;
        if (only && strcmp(only, name))
            continue;
        for (int t = 0; t < DT_COUNT; t++) {
            if (i < UNARY_COUNT ? !cpu->unary[row][t] : !cpu->binary[row][t])
                continue;
            printf("%-16s %-10s", name, dtype_name(t));
            for (int l = 0; l < LEVELS; l++) {
                struct job j = { cpu_kernels_named(levels[l]), row, t, t };
                for (size_t e = 0; e < BENCH; e++) { /* ordinary numbers */
                    float f[2] = { (float)uniform(0.1, 3), (float)uniform(0.1, 3) };
                    double d = uniform(0.1, 3);
                    uint64_t u = 1 + bits64() % 5;
                    const void *v = t == DT_float64 ? (void *)&d : dtype_is_inexact(t) ? (void *)f : (void *)&u;
                    memcpy(bench_a + e * dtype_size(t), v, dtype_size(t));
                    memcpy(bench_b + (BENCH - 1 - e) * dtype_size(t), v, dtype_size(t));
                }
                if (j.k)
                    printf("  %s %7.3f", levels[l], measure(i < UNARY_COUNT ? bench_unary : bench_binary, &j));
            }
            printf("\n");
        }
    }
}

static void bench_casts(void)
{
    memset(bench_a, 0, sizeof bench_a);
    for (int from = 0; from < DT_COUNT; from++)
        for (int to = 0; to < DT_COUNT; to++) {
            printf("%-10s to %-10s", dtype_name(from), dtype_name(to));
            for (int l = 0; l < LEVELS; l++) {
                struct job j = { cpu_kernels_named(levels[l]), 0, from, to };
                if (j.k)
                    printf("  %s %7.3f", levels[l], measure(bench_cast, &j));
            }
            printf("\n");
        }
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        printf("nanoseconds per element, %d elements\n", BENCH);
        bench_rows(argc > 2 ? argv[2] : NULL);
        if (argc == 2 || !strcmp(argv[2], "casts"))
            bench_casts();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_full),   cmocka_unit_test(rows),      cmocka_unit_test(casts),
        cmocka_unit_test(half_round_trip), cmocka_unit_test(odd_bools), cmocka_unit_test(moves),
        cmocka_unit_test(transpositions),  cmocka_unit_test(selection), cmocka_unit_test(one_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
