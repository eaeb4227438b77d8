/* sort.c: sorting rows, and one long row on several threads.
 *
 * Values are turned into integers that order alike.  An order of indices is that of 64-bit pairs, the
 * key above and the index below, which makes it stable and unique: so the result does not depend on
 * how the work is split.  Keys of 64 bits leave no room for an index: pairs of their upper halves are
 * sorted first, then runs of equal ones by the lower halves.
 *
 * A long row is cut into chunks, each is split by the same pivots, and parts of all chunks between
 * two pivots are brought together and sorted. */
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/sizes.h"
#include "cpu/kernels/sort.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/sort.h"

enum {
    MAX_PARTS = 64,
    PIECE = 1 << 16,
};

/* ---- one long row of keys */

struct long_sort {
    char *from, *to;
    size_t width; /* of a key: 4 or 8 */
    int64_t n, chunk;
    int parts, chunks;
    union {
        int32_t v32[MAX_PARTS];
        int64_t v64[MAX_PARTS];
    } pivot;
    int64_t bound[MAX_PARTS][MAX_PARTS + 1]; /* of the parts in each chunk */
    int64_t start[MAX_PARTS + 1];            /* of the parts in the result */
};

static size_t pivot_split(const struct long_sort *s, int64_t at, int64_t n, int part)
{
    return s->width == 4 ? cpu->sort->split_i32((int32_t *)s->from + at, (size_t)n, s->pivot.v32[part])
                         : cpu->sort->split_i64((int64_t *)s->from + at, (size_t)n, s->pivot.v64[part]);
}

/* Places the bounds between parts a and b of a chunk whose parts begin at bound[a] and end at bound[b]. */
static void split_parts(const struct long_sort *s, int64_t *bound, int a, int b)
{
    if (b - a < 2)
        return;
    int m = (a + b) / 2;
    bound[m] = bound[a] + (int64_t)pivot_split(s, bound[a], bound[b] - bound[a], m);
    split_parts(s, bound, a, m);
    split_parts(s, bound, m, b);
}

static void split_chunks(void *ctx, int64_t begin, int64_t end)
{
    struct long_sort *s = ctx;
    for (int64_t c = begin; c < end; c++) {
        int64_t *bound = s->bound[c], stop = (c + 1) * s->chunk;
        bound[0] = c * s->chunk;
        bound[s->parts] = stop < s->n ? stop : s->n;
        split_parts(s, bound, 0, s->parts);
    }
}

static void sort_any(void *p, size_t width, int64_t n)
{
    if (width == 4)
        cpu->sort->sort_i32(p, (size_t)n);
    else
        cpu->sort->sort_i64(p, (size_t)n);
}

static void sort_parts(void *ctx, int64_t begin, int64_t end)
{
    const struct long_sort *s = ctx;
    for (int64_t p = begin; p < end; p++) {
        int64_t at = s->start[p];
        for (int c = 0; c < s->chunks; c++) {
            int64_t b = s->bound[c][p], n = s->bound[c][p + 1] - b;
            memcpy(s->to + (size_t)at * s->width, s->from + (size_t)b * s->width, (size_t)n * s->width);
            at += n;
        }
        sort_any(s->to + (size_t)s->start[p] * s->width, s->width, at - s->start[p]);
    }
}

/* The pivots: quantiles of a sample. */
static void choose(struct long_sort *s)
{
    enum { EACH = 32 };
    union {
        int32_t v32[EACH * MAX_PARTS];
        int64_t v64[EACH * MAX_PARTS];
    } sample;
    int n = EACH * s->parts;
    int64_t step = s->n / n;
    uint32_t random = 1;
    for (int i = 0; i < n; i++) {
        random = random * 1664525 + 1013904223;
        int64_t at = i * step + (int64_t)((uint64_t)random * (uint64_t)step >> 32);
        if (s->width == 4)
            sample.v32[i] = ((int32_t *)s->from)[at];
        else
            sample.v64[i] = ((int64_t *)s->from)[at];
    }
    sort_any(&sample, s->width, n);
    for (int p = 1; p < s->parts; p++) {
        if (s->width == 4)
            s->pivot.v32[p] = sample.v32[p * EACH];
        else
            s->pivot.v64[p] = sample.v64[p * EACH];
    }
}

/* Sorts n keys at `from`, which are lost, to `to`. */
static int sort_long_row(char *to, char *from, size_t width, int64_t n)
{
    struct long_sort *s = mx_malloc(sizeof *s);
    if (!s)
        return 1;
    s->from = from;
    s->to = to;
    s->width = width;
    s->n = n;
    for (s->parts = 16; s->parts < MAX_PARTS && s->parts < 4 * pool_threads();) s->parts *= 2;
    s->chunk = ceil_div(n, s->parts);
    s->chunks = (int)ceil_div(n, s->chunk);
    choose(s);
    pool_for(s->chunks, 1, split_chunks, s);
    s->start[0] = 0;
    for (int p = 0; p < s->parts; p++) {
        s->start[p + 1] = s->start[p];
        for (int c = 0; c < s->chunks; c++) s->start[p + 1] += s->bound[c][p + 1] - s->bound[c][p];
    }
    pool_for(s->parts, 1, sort_parts, s);
    free(s);
    return 0;
}

/* ---- rows */

struct sort_rows {
    enum dtype t;
    size_t size, width; /* of an element and of its key */
    const char *x;
    char *y;
    int64_t n, rows, kth; /* kth -1: sort */
    bool places;          /* indices instead of values */
    atomic_bool failed;
};

static size_t key_width(enum dtype t) { return dtype_size(t) == 8 ? 8 : 4; }

static void order_rows(const struct sort_rows *r, void *p, size_t width)
{
    if (r->kth < 0)
        sort_any(p, width, r->n);
    else if (width == 4)
        cpu->sort->select_i32(p, (size_t)r->n, (size_t)r->kth);
    else
        cpu->sort->select_i64(p, (size_t)r->n, (size_t)r->kth);
}

/* One byte each: how many of each there are says it all.  Of a bool every byte but 0 is true. */
static void count_sort(const struct sort_rows *r, const uint8_t *x, uint8_t *y)
{
    uint32_t count[4][256] = { 0 };
    uint8_t flip = r->t == DT_int8 ? 128 : 0;
    int64_t i = 0;
    for (; i + 4 <= r->n; i += 4)
        for (int k = 0; k < 4; k++) count[k][x[i + k]]++;
    for (; i < r->n; i++) count[0][x[i]]++;
    for (int v = 2; v < 256 && r->t == DT_bool_; v++)
        for (int k = 0; k < 4; k++) {
            count[k][1] += count[k][v];
            count[k][v] = 0;
        }
    for (int v = 0; v < 256; v++) {
        uint8_t b = (uint8_t)v ^ flip;
        size_t n = count[0][b] + count[1][b] + count[2][b] + count[3][b];
        memset(y, b, n);
        y += n;
    }
}

static void value_rows(void *ctx, int64_t begin, int64_t end)
{
    struct sort_rows *r = ctx;
    size_t n = (size_t)r->n;
    void *room = r->size < 4 && r->size > 1 ? mx_try_malloc(n * 4) : NULL;
    if (r->size == 2 && !room) {
        r->failed = true;
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const char *x = r->x + (size_t)i * n * r->size;
        char *y = r->y + (size_t)i * n * r->size;
        if (r->size == 1) {
            count_sort(r, (const uint8_t *)x, (uint8_t *)y);
            continue;
        }
        void *key = room ? room : y;
        cpu->sort->keys[r->t](key, x, n, false);
        order_rows(r, key, r->width);
        cpu->sort->values[r->t](y, key, n);
    }
    free(room);
}

static void indices_of(uint32_t *y, const int64_t *pair, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (uint32_t)pair[i];
}

static int64_t upper(int64_t key) { return key >> 32; }
static int64_t paired(int64_t key_half, uint32_t index) { return (int64_t)((uint64_t)key_half << 32 | index); }

/* Runs of equal upper halves, sorted by the lower ones. */
static void settle_ties(int64_t *pair, const int64_t *key, int64_t begin, int64_t end)
{
    for (int64_t i = begin, k; i < end; i = k) {
        int64_t high = upper(pair[i]);
        for (k = i + 1; k < end && upper(pair[k]) == high;) k++;
        if (k - i > 1) {
            for (int64_t m = i; m < k; m++) {
                uint32_t index = (uint32_t)pair[m];
                pair[m] = paired((int64_t)(uint32_t)key[index] - INT64_C(0x80000000), index);
            }
            cpu->sort->sort_i64(pair + i, (size_t)(k - i));
            for (int64_t m = i; m < k; m++) pair[m] = paired(high, (uint32_t)pair[m]);
        }
    }
}

/* Do all keys fit into 32 bits once the smallest is taken away?  Then they are made so. */
static bool narrow(int64_t *key, int64_t n)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t i = 0; i < n; i++) {
        least = key[i] < least ? key[i] : least;
        most = key[i] > most ? key[i] : most;
    }
    if ((uint64_t)most - (uint64_t)least > UINT32_MAX)
        return false;
    for (int64_t i = 0; i < n; i++) key[i] = (int64_t)((uint64_t)key[i] - (uint64_t)least) - INT64_C(0x80000000);
    return true;
}

static void pair_wide(int64_t *pair, const int64_t *key, int64_t n, bool is_narrow)
{
    for (int64_t i = 0; i < n; i++) pair[i] = paired(is_narrow ? key[i] : upper(key[i]), (uint32_t)i);
}

static void place_rows(void *ctx, int64_t begin, int64_t end)
{
    struct sort_rows *r = ctx;
    size_t n = (size_t)r->n;
    int64_t *pair = mx_try_malloc(n * sizeof *pair * (r->width == 8 ? 2 : 1)), *wide = pair + n;
    int32_t key[1024];
    if (!pair) {
        r->failed = true;
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const char *x = r->x + (size_t)i * n * r->size;
        bool is_narrow = false;
        if (r->width == 4) {
            for (size_t at = 0; at < n; at += 1024) {
                size_t m = n - at < 1024 ? n - at : 1024;
                cpu->sort->keys[r->t](key, x + at * r->size, m, true);
                cpu->sort->pair(pair + at, key, m, (uint32_t)at);
            }
            order_rows(r, pair, 8);
        } else {
            cpu->sort->keys[r->t](wide, x, n, true);
            is_narrow = narrow(wide, r->n);
            pair_wide(pair, wide, r->n, is_narrow);
            sort_any(pair, 8, r->n);
            if (!is_narrow)
                settle_ties(pair, wide, 0, r->n);
        }
        indices_of((uint32_t *)r->y + (size_t)i * n, pair, r->n);
    }
    free(pair);
}

/* ---- long rows */

struct pieces {
    const struct sort_rows *r;
    const char *x;
    char *y;
    int64_t *pair;
    char *key; /* and where they are sorted from */
    int64_t *start;
    bool is_narrow;
};

static void key_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct pieces *p = ctx;
    const struct sort_rows *r = p->r;
    size_t n = (size_t)(end - begin);
    const char *x = p->x + (size_t)begin * r->size;
    cpu->sort->keys[r->t](p->key + (size_t)begin * r->width, x, n, r->places);
}

static void value_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct pieces *p = ctx;
    const struct sort_rows *r = p->r;
    cpu->sort->values[r->t](p->y + (size_t)begin * r->size, (char *)p->pair + (size_t)begin * r->width,
                            (size_t)(end - begin));
}

static void pair_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct pieces *p = ctx;
    int32_t key[1024];
    for (int64_t at = begin; at < end; at += 1024) {
        size_t m = (size_t)(end - at < 1024 ? end - at : 1024);
        cpu->sort->keys[p->r->t](key, p->x + (size_t)at * p->r->size, m, true);
        cpu->sort->pair(p->pair + at, key, m, (uint32_t)at);
    }
}

static void index_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct pieces *p = ctx;
    indices_of((uint32_t *)p->y + begin, p->pair + begin, end - begin);
}

static void settle_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct pieces *p = ctx;
    settle_ties(p->pair, (const int64_t *)p->key, p->start[begin], p->start[end]);
}

/* In pieces that end where a run does. */
static int settle_long(struct pieces *p)
{
    int64_t n = p->r->n, pieces = ceil_div(n, PIECE);
    p->start = mx_malloc((size_t)(pieces + 1) * sizeof *p->start);
    if (!p->start)
        return 1;
    p->start[0] = 0;
    for (int64_t k = 1; k <= pieces; k++) {
        int64_t i = k * PIECE < n ? k * PIECE : n;
        i = i > p->start[k - 1] ? i : p->start[k - 1];
        while (i < n && upper(p->pair[i]) == upper(p->pair[i - 1])) i++;
        p->start[k] = i;
    }
    pool_for(pieces, 1, settle_pieces, p);
    free(p->start);
    return 0;
}

/* Two rows of 64-bit pairs, of which the second is the one to sort from. */
static int long_places(struct pieces *p)
{
    const struct sort_rows *r = p->r;
    int64_t *from = p->pair + r->n;
    struct pieces source = *p;
    source.pair = from;
    if (r->width == 4) {
        pool_for(r->n, PIECE, pair_pieces, &source);
    } else {
        pool_for(r->n, PIECE, key_pieces, p);
        p->is_narrow = narrow((int64_t *)p->key, r->n);
        pair_wide(from, (int64_t *)p->key, r->n, p->is_narrow);
    }
    if (sort_long_row((char *)p->pair, (char *)from, 8, r->n))
        return 1;
    if (r->width == 8 && !p->is_narrow && settle_long(p))
        return 1;
    pool_for(r->n, PIECE, index_pieces, p);
    return 0;
}

static int long_values(struct pieces *p)
{
    const struct sort_rows *r = p->r;
    bool through = r->size == r->width; /* the result is large enough to sort in */
    p->pair = (int64_t *)(void *)(through ? p->y : p->key + (size_t)r->n * r->width);
    pool_for(r->n, PIECE, key_pieces, p);
    if (sort_long_row((char *)p->pair, p->key, r->width, r->n))
        return 1;
    pool_for(r->n, PIECE, value_pieces, p);
    return 0;
}

static int long_rows(struct sort_rows *r)
{
    size_t words = r->places ? (r->width == 8 ? 3 : 2) : 2;
    struct buffer *b = buffer_new((size_t)r->n * 8 * words);
    int failed = !b;
    for (int64_t i = 0; i < r->rows && !failed; i++) {
        struct pieces p = { .r = r, .x = r->x + (size_t)(i * r->n) * r->size };
        p.y = r->y + (size_t)(i * r->n) * (r->places ? 4 : r->size);
        if (r->places) {
            p.pair = b->host;
            p.key = (char *)(p.pair + 2 * r->n);
            failed = long_places(&p);
        } else {
            p.key = b->host;
            failed = long_values(&p);
        }
    }
    if (b)
        buffer_release(b);
    return failed;
}

static int sort_all_rows(struct sort_rows *r)
{
    if (r->n == 0 || r->rows == 0)
        return 0;
    if (r->kth < 0 && r->n >= LONG_ROW && r->rows < 2 * pool_threads() && (r->places || r->size > 1))
        return long_rows(r);
    int64_t grain = WORTH_SORTED / r->n;
    pool_for(r->rows, grain ? grain : 1, r->places ? place_rows : value_rows, r);
    if (r->failed)
        mx_fail_memory((size_t)r->n * 16);
    return r->failed;
}

/* ---- runners */

/* Complex numbers by the order of their indices, so that they keep the signs of their zeros. */
static int take_sorted(const struct run *r, mx z)
{
    mx y = r->y[0];
    struct buffer *b = buffer_new((size_t)z->size * 4);
    if (!b)
        return 1;
    int64_t n = dim(z, -1);
    struct sort_rows rows = { .t = DT_complex64,
                              .size = 8,
                              .width = 8,
                              .x = host(z),
                              .y = b->host,
                              .n = n,
                              .rows = n ? z->size / n : 0,
                              .kth = -1,
                              .places = true };
    int failed = sort_all_rows(&rows);
    const uint32_t *place = b->host;
    const uint64_t *from = host(z);
    uint64_t *to = host(y);
    for (int64_t i = 0; i < y->size && !failed; i++) to[i] = from[i - i % n + place[i]];
    buffer_release(b);
    return failed;
}

static int run_order(const struct run *r, bool places, int64_t kth)
{
    mx x = r->x[0];
    mx_own hold = { NULL };
    MX_SCOPE(NULL);
    if (out_new(r, 0))
        return 1;
    mx z = row_major(x, &hold);
    if (is_nil(z))
        return 1;
    int64_t n = dim(z, -1);
    struct sort_rows rows = { .t = x->dtype,
                              .size = itemsize(x),
                              .width = key_width(x->dtype),
                              .x = host(z),
                              .y = host(r->y[0]),
                              .n = n,
                              .rows = n ? z->size / n : 0,
                              .kth = kth,
                              .places = places };
    if (places && rows.width == 8)
        rows.kth = -1; /* a whole order is a partition too */
    int failed = !places && dtype_is_complex(x->dtype) ? take_sorted(r, z) : sort_all_rows(&rows);
    mx_drop(&hold);
    return failed;
}

int run_sort(const struct run *r) { return run_order(r, false, -1); }
int run_argsort(const struct run *r) { return run_order(r, true, -1); }
int run_partition(const struct run *r) { return run_order(r, false, partition_kth(r->args, r->x[0])); }
int run_argpartition(const struct run *r) { return run_order(r, true, partition_kth(r->args, r->x[0])); }

/* ---- searchsorted */

struct search {
    enum dtype t;
    size_t size, width;    /* of an element and of its key */
    const char *x, *value; /* the sequences and what is looked for in them */
    char *key;             /* of the sequences */
    uint32_t *y;
    int64_t n, each; /* values of one sequence */
    bool right;
};

static void search_range(void *ctx, int64_t begin, int64_t end)
{
    const struct search *s = ctx;
    enum { TILE = 512 };
    int64_t room[TILE];
    void *key = room;
    for (int64_t i = begin, some; i < end; i += some) {
        some = least(least(end - i, TILE), s->each - i % s->each);
        const char *sequence = s->key + (size_t)(i / s->each * s->n) * s->width;
        cpu->sort->keys[s->t](key, s->value + (size_t)i * s->size, (size_t)some, true);
        if (s->width == 4)
            cpu->sort->search_i32(s->y + i, (const int32_t *)sequence, (size_t)s->n, key, (size_t)some, s->right);
        else
            cpu->sort->search_i64(s->y + i, (const int64_t *)sequence, (size_t)s->n, key, (size_t)some, s->right);
    }
}

static int64_t key_at(const struct search *s, const char *p)
{
    union {
        int32_t v32;
        int64_t v64;
    } key;
    cpu->sort->keys[s->t](&key, p, 1, true);
    return s->width == 4 ? key.v32 : key.v64;
}

/* The same steps for few values, for which no keys are made but of the elements that they meet. */
static void search_few(void *ctx, int64_t begin, int64_t end)
{
    const struct search *s = ctx;
    for (int64_t i = begin; i < end; i++) {
        const char *sequence = s->x + (size_t)(i / s->each * s->n) * s->size;
        int64_t low = 0, high = s->n, value = key_at(s, s->value + (size_t)i * s->size);
        while (low < high) {
            int64_t middle = (low + high) / 2, key = key_at(s, sequence + (size_t)middle * s->size);
            if (s->right ? key <= value : key < value)
                low = middle + 1;
            else
                high = middle;
        }
        s->y[i] = (uint32_t)low;
    }
}

static void sequence_keys(void *ctx, int64_t begin, int64_t end)
{
    const struct search *s = ctx;
    cpu->sort->keys[s->t](s->key + (size_t)begin * s->width, s->x + (size_t)begin * s->size, (size_t)(end - begin),
                          true);
}

int run_searchsorted(const struct run *r)
{
    mx x = r->x[0], v = r->x[1];
    mx_own hold_x = { NULL }, hold_v = { NULL };
    MX_SCOPE(NULL);
    if (out_new(r, 0))
        return 1;
    mx zx = row_major(x, &hold_x), zv = row_major(v, &hold_v);
    enum { FEW = 2048 }; /* elements of sequences for each value: beyond that, keys of all take longer */
    size_t width = key_width(x->dtype);
    bool few = v->size < x->size / FEW;
    struct buffer *b = is_nil(zx) || is_nil(zv) ? NULL : buffer_new(few ? 0 : (size_t)x->size * width);
    if (b) {
        int64_t n = dim(x, -1), sequences = 1;
        for (int i = 0; i < x->ndim - 1; i++) sequences *= x->shape[i];
        struct search s = { .t = x->dtype,
                            .size = itemsize(x),
                            .width = width,
                            .x = host(zx),
                            .value = host(zv),
                            .key = b->host,
                            .y = host(r->y[0]),
                            .n = n,
                            .each = sequences ? v->size / sequences : 1,
                            .right = ((const struct searchsorted_args *)r->args)->right };
        if (!few)
            pool_for(x->size, WORTH_MOVED, sequence_keys, &s);
        pool_for(v->size, WORTH_SEARCHED, few ? search_few : search_range, &s);
        buffer_release(b);
    }
    mx_drop(&hold_x);
    mx_drop(&hold_v);
    return !b;
}

/* ---- nonzero: counted in pieces, then written
 *
 * There are as many places as whoever made the node has counted.  Memory that others share may have changed
 * since: what is then too much is left out, what is missing is place 0. */

struct nonzero_places {
    const uint8_t *x;
    int64_t n, count;
    int ndim;
    const int *shape;
    int64_t *before; /* how many places are before each piece, and at last in all */
    int32_t *y;
};

static void count_pieces(void *ctx, int64_t begin, int64_t end)
{
    struct nonzero_places *p = ctx;
    for (int64_t k = begin; k < end; k++) {
        int64_t stop = (k + 1) * PIECE < p->n ? (k + 1) * PIECE : p->n, m = 0;
        for (int64_t i = k * PIECE; i < stop; i++) m += p->x[i] != 0;
        p->before[k] = m;
    }
}

/* The indices of the elements that are not zero, of n from p on, the first of which is number first. */
static int64_t gather_places(int32_t *at, const uint8_t *p, int64_t n, int64_t first)
{
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        at[m] = (int32_t)(first + i);
        m += p[i] != 0;
    }
    return m;
}

/* Rows are numbered by all axes but the last. */
static void write_row(const struct nonzero_places *p, int64_t at, int64_t row, const int32_t *last, int64_t m)
{
    for (int d = p->ndim - 1; d-- > 0 && m > 0; row /= p->shape[d])
        for (int64_t i = 0; i < m; i++) p->y[d * p->count + at + i] = (int32_t)(row % p->shape[d]);
    if (p->ndim)
        memcpy(p->y + (p->ndim - 1) * p->count + at, last, (size_t)m * sizeof *last);
}

static void write_none(const struct nonzero_places *p, int64_t at, int64_t m)
{
    for (int d = 0; d < p->ndim && m > 0; d++) memset(p->y + d * p->count + at, 0, (size_t)m * sizeof *p->y);
}

static void write_pieces(void *ctx, int64_t begin, int64_t end)
{
    enum { TILE = 1024 };
    const struct nonzero_places *p = ctx;
    int64_t row = p->ndim ? p->shape[p->ndim - 1] : 1;
    int32_t last[TILE + 1];
    for (int64_t k = begin; k < end; k++) {
        int64_t stop = (k + 1) * PIECE < p->n ? (k + 1) * PIECE : p->n, at = p->before[k], room = p->before[k + 1];
        for (int64_t i = k * PIECE, n; i < stop; i += n) {
            int64_t in_row = i % row;
            n = row - in_row < stop - i ? row - in_row : stop - i;
            n = n < TILE ? n : TILE;
            int64_t m = gather_places(last, p->x + i, n, in_row);
            m = m < room - at ? m : room - at;
            write_row(p, at, i / row, last, m);
            at += m;
        }
        write_none(p, at, room - at);
    }
}

int run_nonzero(const struct run *r)
{
    mx x = r->x[0];
    mx_own hold = { NULL };
    MX_SCOPE(NULL);
    if (out_new(r, 0))
        return 1;
    mx z = row_major(x, &hold);
    int64_t pieces = ceil_div(x->size, PIECE);
    int64_t *before = is_nil(z) ? NULL : mx_malloc((size_t)(pieces + 1) * sizeof *before);
    if (before) {
        struct nonzero_places p = { .x = host(z),
                                    .n = x->size,
                                    .count = dim(r->y[0], -1),
                                    .ndim = x->ndim,
                                    .shape = x->shape,
                                    .before = before,
                                    .y = host(r->y[0]) };
        pool_for(pieces, 1, count_pieces, &p);
        int64_t sum = 0;
        for (int64_t k = 0; k < pieces; k++) {
            int64_t m = before[k];
            before[k] = sum;
            sum = m < p.count - sum ? sum + m : p.count;
        }
        before[pieces] = sum;
        pool_for(pieces, 1, write_pieces, &p);
        write_none(&p, sum, p.count - sum);
        free(before);
    }
    mx_drop(&hold);
    return !before;
}
