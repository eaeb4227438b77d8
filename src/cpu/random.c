/* random.c: laying random bits out.
 *
 * A draw of n words is the cipher of the counters 0..n-1 in pairs (i, i + half): first all first
 * halves, then all second ones.  If n is odd the last pair has 0 in place of its missing counter,
 * and its second half is dropped. */
#include <string.h>

#include "core/scope.h"
#include "core/sizes.h"
#include "cpu/kernels/random.h"
#include "cpu/run.h"
#include "cpu/worth.h"

struct draw {
    const uint32_t *key;
    char *y;
    size_t bytes; /* of one key's output */
    int64_t pairs, words;
};

static void put_bits(const struct draw *d, int64_t word, const uint32_t *v, int64_t n)
{
    int64_t at = word * 4, left = (int64_t)d->bytes - at;
    if (left > 0)
        memcpy(d->y + at, v, (size_t)(left < n * 4 ? left : n * 4));
}

static void draw_range(void *ctx, int64_t begin, int64_t end)
{
    const struct draw *d = ctx;
    enum { TILE = 1024 };
    uint32_t a[TILE], b[TILE];
    /* Whole words on both sides are made where they belong; numbers that are narrower may begin within a word. */
    int64_t whole = (uintptr_t)d->y % sizeof *a == 0 ? least(end, (int64_t)(d->bytes / sizeof *a) - d->pairs) : 0;
    if (whole > begin) {
        uint32_t *first = (uint32_t *)d->y + begin;
        cpu->random->threefry(first, first + d->pairs, d->key[0], d->key[1], (uint32_t)begin,
                              (uint32_t)(begin + d->pairs), (size_t)(whole - begin));
        begin = whole;
    }
    for (int64_t at = begin; at < end; at += TILE) {
        int64_t n = end - at < TILE ? end - at : TILE, second = at + d->pairs;
        cpu->random->threefry(a, b, d->key[0], d->key[1], (uint32_t)at, (uint32_t)second, (size_t)n);
        if (second + n > d->words) /* the odd one out */
            cpu->random->threefry(a + n - 1, b + n - 1, d->key[0], d->key[1], (uint32_t)(at + n - 1), 0, 1);
        put_bits(d, at, a, n);
        put_bits(d, second, b, n);
    }
}

int run_random_bits(const struct run *r)
{
    mx key = r->x[0], y = r->y[0];
    mx_own hold = { NULL };
    MX_SCOPE(NULL);
    if (out_new(r, 0))
        return 1;
    mx k = row_major(key, &hold);
    if (is_nil(k))
        return 1;
    int64_t keys = key->size / 2;
    for (int64_t i = 0; i < keys && y->size; i++) {
        struct draw d = { .key = (const uint32_t *)host(k) + 2 * i, .bytes = (size_t)(nbytes(y) / keys) };
        d.y = (char *)host(y) + (size_t)i * d.bytes;
        d.words = (int64_t)(d.bytes + 3) / 4;
        d.pairs = (d.words + 1) / 2;
        pool_for(d.pairs, WORTH_DRAWN, draw_range, &d);
    }
    mx_drop(&hold);
    return 0;
}
