/* sort.c: rows in order, and keys with their numbers, on a GPU. */
#include "cuda/kernels/sort.h"

#include "cuda/gpu.h"
#include "ops/sort.h"

/* So many keys of a row in one launch, which counts them in fewer than 32 bits. */
#ifndef SORT_PORTION
#define SORT_PORTION (1 << 29)
#endif

/* What is put in order; of keys of `size` bytes.  Pass p of long rows writes key[(p + 1) % 2] and, where there are
 * places, place[(p + 1) % 2], the last one what the call has. */
struct order {
    struct sort_call c;
    size_t size;
    void *key[2];
    uint32_t *place[2];
};

static bool has_places(const struct order *o) { return o->c.to_places || o->c.picked; }

static int launch(const struct run *r, const struct order *o, struct gpu_found slots[5], const char *name,
                  int64_t blocks, int threads)
{
    struct sort_call c = o->c;
    void *f = gpu_find_sized(gpu_of(r), slots, "sort", name, o->size);
    return !f || gpu_launch(r->stream, r->node->op->name, f, blocks, threads, (void *[]){ &c });
}

/* ---- rows that a block or some threads have */

static int order_short(const struct run *r, struct order *o)
{
    static struct gpu_found few[2][3][5];
    static const char *const names[2][3] = { { "sort_values_1", "sort_values_4", "sort_values_16" },
                                             { "sort_places_1", "sort_places_4", "sort_places_16" } };
    int placed = has_places(o), kind = o->c.n <= 32 ? 0 : o->c.n <= 128 ? 1 : 2, items = 1 << 2 * kind;
    o->c.width = gpu_power_of_two(o->c.n, SORT_WARP);
    int64_t rows = SORT_WARP_THREADS / (o->c.width / items);
    return launch(r, o, few[placed][kind], names[placed][kind], ceil_div(o->c.rows, rows), SORT_WARP_THREADS);
}

static int order_tile(const struct run *r, struct order *o)
{
    static struct gpu_found row[5];
    int each = 32 * SORT_EACH((int)o->size);
    return launch(r, o, row, "sort_row", o->c.rows, (int)ceil_div(o->c.n, each) * 32);
}

/* ---- long rows */

/* Counts all digits, and finds where each of them begins. */
static int count_digits(const struct run *r, struct order *o)
{
    static struct gpu_found zero[5], count[5], begin[5];
    struct sort_call *c = &o->c;
    int64_t tile = SORT_TILE((int)o->size), blocks = (int64_t)gpu_of(r)->multiprocessors * 8;
    c->piece = ceil_div(ceil_div(c->n, ceil_div(blocks, c->rows)), tile) * tile;
    c->pieces = ceil_div(c->n, c->piece);
    return launch(r, o, zero, "sort_zero", ceil_div(c->n_zeros, SORT_THREADS), SORT_THREADS) ||
           launch(r, o, count, "sort_count", c->rows * c->pieces, SORT_THREADS) ||
           launch(r, o, begin, "sort_begin", c->rows * c->passes, 32);
}

static int run_passes(const struct run *r, const struct order *whole, uint32_t *const counts[2],
                      uint32_t *const known[2], uint32_t *counter)
{
    static struct gpu_found pass[5];
    const struct sort_call *all = &whole->c;
    int64_t tile = SORT_TILE((int)whole->size), tiles = ceil_div(all->n, tile);
    int launches = 0;
    for (int p = 0; p < all->passes; p++) {
        struct order o = *whole;
        struct sort_call *c = &o.c;
        c->pass = p;
        if (p) {
            c->from = whole->key[p % 2];
            c->places = has_places(whole) ? whole->place[p % 2] : NULL;
            c->reads = SORT_UNSIGNED;
        }
        if (p < all->passes - 1) {
            c->to = whole->key[(p + 1) % 2];
            c->to_places = has_places(whole) ? whole->place[(p + 1) % 2] : NULL;
            c->picked = NULL;
            c->writes = SORT_UNSIGNED;
        }
        int k = 0;
        for (int64_t done = 0; done < tiles; done += c->tiles, launches++, k = !k) {
            c->first = done * tile;
            c->tiles = least(tiles - done, c->room);
            c->counts = counts[k];
            c->next = done + c->tiles < tiles ? counts[!k] : NULL;
            c->known = known[launches % 2];
            c->known_next = known[!(launches % 2)];
            c->counter = counter + launches;
            if (launch(r, &o, pass, "sort_pass", c->rows * c->tiles, SORT_THREADS))
                return 1;
        }
    }
    return 0;
}

static int order_long(const struct run *r, struct order *o)
{
    struct sort_call *c = &o->c;
    int64_t tile = SORT_TILE((int)o->size), tiles = ceil_div(c->n, tile);
    c->room = least(tiles, SORT_PORTION / tile);
    int64_t portions = ceil_div(tiles, c->room), launches = c->passes * portions;
    int64_t counts = c->rows * c->passes * SORT_DIGITS, known = c->rows * c->room * SORT_DIGITS;
    int64_t words = 2 * known + (portions > 1 ? 2 : 1) * counts + launches;
    struct buffer *b = buffer_new_on(r->stream, (size_t)words * sizeof(uint32_t));
    if (!b)
        return 1;
    uint32_t *room = buffer_on(b, r->stream), *counter = room + known + counts, *behind = counter + launches;
    c->zeros = room;
    c->n_zeros = known + counts + launches;
    c->counts = room + known;
    int failed = count_digits(r, o) ||
                 run_passes(r, o, (uint32_t *[]){ c->counts, behind + known }, (uint32_t *[]){ room, behind }, counter);
    buffer_release(b);
    return failed;
}

/* ---- keys with their numbers */

static int64_t keys_each(int64_t n) { return ceil_div(n, 64) * 64; }

_Static_assert((int)GPU_KEYS_FEW == SORT_TILE(4), "the keys of a tile get numbers");

size_t gpu_keys_room(int64_t n) { return (size_t)(4 * keys_each(n)); }

struct gpu_keys gpu_keys_at(uint32_t *room, int64_t n)
{
    int64_t each = keys_each(n);
    return (struct gpu_keys){ { room, room + each }, { room + 2 * each, room + 3 * each }, n, 0, NULL };
}

int gpu_keys_bits(int low, uint64_t most)
{
    int passes = 1;
    while (most >> (low + passes * SORT_BITS)) passes++;
    return passes * SORT_BITS;
}

int gpu_keys_sort(const struct run *r, const struct gpu_keys *k, uint64_t most)
{
    struct order o = { .c = { .from = k->key[0],
                              .places = k->instead,
                              .n = k->n,
                              .rows = 1,
                              .passes = gpu_keys_bits(k->low, most) / SORT_BITS,
                              .low = k->low },
                       .size = sizeof(uint32_t),
                       .key = { k->key[0], k->key[1] },
                       .place = { k->number[0], k->number[1] } };
    int now = o.c.passes % 2;
    o.c.to = k->key[now];
    o.c.to_places = k->number[now];
    return (k->n <= SORT_TILE(4) ? order_tile(r, &o) : order_long(r, &o)) ? -1 : now;
}

/* ---- elements */

static int32_t kind_of(enum dtype t)
{
    if (t == DT_bool_ || t == DT_complex64)
        return t == DT_bool_ ? SORT_BOOL : SORT_COMPLEX;
    if (dtype_is_float(t))
        return t == DT_bfloat16 ? SORT_BFLOAT16 : SORT_FLOAT;
    return dtype_kind(t) == 'i' ? SORT_SIGNED : SORT_UNSIGNED;
}

/* Memory for what passes have in between, y being some of it: the last pass, which writes y, reads of the others. */
static int order_in_passes(const struct run *r, struct order *o)
{
    struct sort_call *c = &o->c;
    void *y = c->to ? c->to : c->picked ? c->picked : c->to_places;
    int read = (c->passes - 1) % 2; /* by the last */
    size_t part[4] = { 0 }, n = (size_t)(c->n * c->rows), all = 0;
    if (c->passes > 1) {
        part[0] = n * o->size;
        part[1] = c->to_places ? n * o->size : 0;
        part[2] = has_places(o) ? n * sizeof(uint32_t) : 0;
        part[3] = c->picked ? n * sizeof(uint32_t) : 0;
    }
    for (int i = 0; i < 4; i++) all += part[i] = (part[i] + 255) / 256 * 256;
    struct buffer *b = all ? buffer_new_on(r->stream, all) : NULL;
    if (all && !b)
        return 1;
    if (b) {
        char *room = buffer_on(b, r->stream);
        o->key[read] = room;
        o->key[!read] = c->to_places ? room + part[0] : y;
        o->place[read] = (uint32_t *)(room + part[0] + part[1]);
        o->place[!read] = c->to_places ? y : (uint32_t *)(room + part[0] + part[1] + part[2]);
    }
    int failed = order_long(r, o);
    if (b)
        buffer_release(b);
    return failed;
}

/* ---- rows that are split */

static int split(const struct run *r, const struct order *o)
{
    static struct gpu_found found[5];
    return launch(r, o, found, "sort_split", o->c.rows, SORT_THREADS);
}

/* A block has a row, so that few long ones are in order sooner: on an H200 44 us of one row, whatever its length up to
 * 2^17, where a block takes 25 us of 8,200 numbers and 55 of 32,000. */
static bool is_split(const struct run *r, const struct order *o)
{
    enum { SOON = 1 << 14 };
    return o->c.n > SORT_TILE((int)o->size) && (o->c.n <= SOON || o->c.rows >= gpu_of(r)->multiprocessors / 2);
}

/* ---- */

/* kth: -1 for a whole order, which is a partition, too. */
static int launch_order(const struct run *r, bool ranks, int64_t kth)
{
    mx x = r->x[0];
    mx_own hold = { 0 };
    enum dtype t = (enum dtype)x->dtype;
    if (gpu_out_new(r, 0))
        return 1;
    if (x->size == 0)
        return 0;
    if (is_nil(x = gpu_row_major(r, x, &hold)))
        return 1;
    void *y = gpu_pointer(r, r->y[0]), *from = gpu_pointer(r, x);
    struct order o = { .c = { .from = from, .x = from, .n = dim(x, -1), .reads = kind_of(t), .writes = kind_of(t) },
                       .size = dtype_size(t) };
    o.c.rows = x->size / o.c.n;
    o.c.passes = (int32_t)o.size;
    o.c.ranks = ranks;
    o.c.kth = kth;
    bool splits = kth >= 0 && is_split(r, &o);
    if (ranks)
        o.c.to_places = y;
    else
        *(dtype_is_complex(t) && !splits ? &o.c.picked : &o.c.to) = y;
    int failed = splits                            ? split(r, &o)
                 : o.c.n <= SORT_WARP              ? order_short(r, &o)
                 : o.c.n <= SORT_TILE((int)o.size) ? order_tile(r, &o)
                                                   : order_in_passes(r, &o);
    mx_drop(&hold);
    return failed;
}

int gpu_run_sort(const struct run *r) { return launch_order(r, false, -1); }
int gpu_run_argsort(const struct run *r) { return launch_order(r, true, -1); }

int gpu_run_partition(const struct run *r) { return launch_order(r, false, partition_kth(r->args, r->x[0])); }
int gpu_run_argpartition(const struct run *r) { return launch_order(r, true, partition_kth(r->args, r->x[0])); }
