/* The index kernels of every level against plain loops: odd lengths, steps and offsets, all index
 * types and element widths, nothing written behind the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/kernels.h"
#include "cpu/kernels/index.h"
#include "support/levels.h"
#include "support/sample.h"

enum { MOST = 2200, STEP = 3, GUARD = 16 };

static const enum dtype types[] = { DT_uint8, DT_uint16, DT_uint32, DT_uint64, DT_int8, DT_int16, DT_int32, DT_int64 };
enum { TYPES = sizeof types / sizeof *types };

static void store(void *p, enum dtype t, int64_t i, int64_t v)
{
    memcpy((char *)p + i * (int64_t)dtype_size(t), &v, dtype_size(t)); /* little-endian */
}

/* n indices a step apart, some of them negative where the type has a sign. */
struct draw {
    _Alignas(64) char data[(MOST * STEP + 8) * 8];
    const char *first;
    int64_t value[MOST], size, step, n;
};

static void draw_indices(struct draw *d, enum dtype t, bool negative)
{
    int64_t most = dtype_size(t) == 1 ? 100 : 30000;
    d->n = draw(4) ? 1 + draw(70) : 1 + draw(MOST);
    d->step = draw(2) ? 1 : draw(STEP + 1);
    d->size = 1 + draw(most);
    int64_t skip = draw(8);
    d->first = d->data + skip * (int64_t)dtype_size(t);
    memset(d->data, 0x7f, sizeof d->data);
    for (int64_t i = 0; i < d->n; i++) {
        int64_t v = draw(d->size);
        d->value[i] = d->step || i == 0 ? v : d->value[0];
        if (negative && dtype_kind(t) == 'i' && draw(3) == 0 && (d->step || i == 0))
            v -= d->size;
        if (d->step || i == 0)
            store(d->data, t, skip + i * d->step, v);
    }
}

static void offsets(const struct cpu_kernels *k)
{
    static struct draw d;
    static int64_t far[MOST + GUARD];
    for (int trial = 0; trial < 400; trial++) {
        enum dtype t = types[draw(TYPES)];
        int64_t stride = draw(3) ? draw(2000) - 1000 : 1, base = draw(1000);
        draw_indices(&d, t, true);
        for (int64_t i = 0; i < MOST + GUARD; i++) far[i] = base + i;
        bool add = draw(2);
        assert_true(k->index->offsets[t](far, add, base, d.first, d.step, d.n, d.size, d.size - 1, stride));
        for (int64_t i = 0; i < MOST + GUARD; i++)
            assert_int_equal(far[i], base + (add || i >= d.n ? i : 0) + (i < d.n ? d.value[i] * stride : 0));
    }
}

static void picks(const struct cpu_kernels *k)
{
    static _Alignas(64) unsigned char x[1000 * 8], y[(MOST * STEP + GUARD) * 8];
    static int64_t far[MOST];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (unsigned char)draw(256);
    for (int trial = 0; trial < 200; trial++) {
        int64_t width = draw(4), size = 1 << width, n = draw(MOST), step = 1 + draw(STEP);
        memset(y, 0xcc, sizeof y);
        for (int64_t i = 0; i < n; i++) far[i] = draw(1000);
        k->index->pick[width](y, step, x, far, n);
        for (int64_t i = 0; i < MOST * STEP + GUARD; i++)
            for (int64_t b = 0; b < size; b++) {
                bool written = i % step == 0 && i / step < n;
                assert_int_equal(y[i * size + b], written ? x[far[i / step] * size + b] : 0xcc);
            }
    }
}

static void takes(const struct cpu_kernels *k)
{
    static struct draw d;
    static _Alignas(64) unsigned char x[30000 * 2 * 8], y[(MOST + GUARD) * 8];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (unsigned char)draw(256);
    for (int trial = 0; trial < 400; trial++) {
        enum dtype t = types[draw(TYPES)];
        int64_t width = draw(4), size = 1 << width, stride = 1 + draw(2);
        index_take_fn *take = k->index->take[t][width];
        if (!take)
            continue;
        do draw_indices(&d, t, draw(2));
        while (d.step != 1);
        memset(y, 0xcc, sizeof y);
        assert_true(take(y, x, stride, d.first, d.n, d.size));
        for (int64_t i = 0; i < MOST + GUARD; i++)
            for (int64_t b = 0; b < size; b++)
                assert_int_equal(y[i * size + b], i < d.n ? x[d.value[i] * stride * size + b] : 0xcc);
    }
}

/* One index out of range among many that are not, which stands for the nearest. */
static void ranges(const struct cpu_kernels *k)
{
    static struct draw d;
    static int64_t far[MOST];
    static bool in[MOST];
    static uint16_t x[30000], y[MOST];
    for (int i = 0; i < 30000; i++) x[i] = (uint16_t)i;
    for (int trial = 0; trial < 1000; trial++) {
        enum dtype t = types[draw(TYPES)];
        draw_indices(&d, t, draw(4));
        int64_t slice = draw(2) ? 1 : 1 + draw(d.size), room = d.size - slice;
        bool fits = true, whole = slice == 1;
        bool wrong = draw(2);
        if (wrong) {
            int64_t choices[] = { d.size, -d.size - 1, INT64_MIN, INT64_MAX, -1, d.size + 1 };
            int64_t v = choices[draw(6)], at = d.step ? draw(d.n) : 0, back;
            char *p = (char *)d.first + at * d.step * (int64_t)dtype_size(t);
            store(p, t, 0, v);
            /* As the type reads it. */
            uint64_t bits = 0;
            memcpy(&bits, p, dtype_size(t));
            int shift = 64 - 8 * (int)dtype_size(t);
            back = dtype_kind(t) == 'i' ? (int64_t)(bits << shift) >> shift : (int64_t)bits;
            bool huge = t == DT_uint64 && back < 0;
            for (int64_t i = 0; i < d.n; i++)
                if (i == at || d.step == 0)
                    d.value[i] = huge ? INT64_MAX : back < 0 ? back + d.size : back;
        }
        memset(far, 0, sizeof far);
        memset(in, true, sizeof in);
        in[d.n - 1] = false;
        k->index->inside[t](in, d.first, d.step, d.n, d.size, room);
        for (int64_t i = 0; i < d.n; i++) {
            bool inside = d.value[i] >= 0 && d.value[i] <= room;
            fits &= inside;
            assert_int_equal(in[i], inside && i < d.n - 1);
        }
        assert_int_equal(k->index->check[t](d.first, d.step, d.n, d.size, room), fits);
        assert_int_equal(k->index->offsets[t](far, draw(2), 0, d.first, d.step, d.n, d.size, room, 3), fits);
        if (dtype_size(t) == 4 && d.step == 1) {
            const uint32_t *index = (const uint32_t *)(const void *)d.first;
            bool places = true;
            for (int64_t i = 0; i < d.n; i++) places &= (int64_t)index[i] < d.size;
            assert_int_equal(k->index->are_places(index, d.n, d.size), places);
        }
        for (int64_t i = 0; i < d.n; i++) {
            d.value[i] = d.value[i] < 0 ? 0 : d.value[i] > room ? room : d.value[i];
            assert_int_equal(far[i], 3 * d.value[i]);
        }
        if (k->index->take[t][1] && whole && d.step == 1) {
            assert_int_equal(k->index->take[t][1](y, x, 1, d.first, d.n, d.size), fits);
            for (int64_t i = 0; i < d.n; i++) assert_int_equal(y[i], d.value[i]);
        }
    }
    /* Nothing is in range of an axis that is empty. */
    for (int i = 0; i < TYPES; i++) {
        int64_t zero[4] = { 0 };
        assert_false(k->index->check[types[i]](zero, 1, 4, 0, -1));
    }
}

static void test_offsets(void **state) { (void)state, on_every_level(offsets); }
static void test_picks(void **state) { (void)state, on_every_level(picks); }
static void test_takes(void **state) { (void)state, on_every_level(takes); }
static void test_ranges(void **state) { (void)state, on_every_level(ranges); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_picks),
        cmocka_unit_test(test_takes),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
