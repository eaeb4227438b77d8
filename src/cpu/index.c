/* index.c: reading and writing through arrays of indices (plan/lookup.h).
 *
 * Every element receives its updates in the order of the grid, however the work is split, so
 * results do not depend on the number of threads: threads share out what never meets. */
#include <stdatomic.h>
#include <string.h>

#include "core/outside.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cpu/fold.h"
#include "cpu/kernels/index.h"
#include "cpu/worth.h"
#include "ops/index.h"
#include "plan/lookup.h"

enum { BLOCK = 512 /* lookups at a time; their offsets stay in L1 */ };

/* Which lookups are handled. */
enum which { EVERY, IN_RANGE, OUT_OF_RANGE };

struct lookup {
    struct lookup_plan grid;
    const char *data[MX_MAX_NDIM]; /* of the index arrays */
    char *far_data, *near_data;
    enum dtype type;
    int64_t item;
    struct folder fold;
    /* Handles n lookups, whose slices begin at far[i] and near + i * step. */
    void (*block)(const struct lookup *l, const int *sshape, const int64_t *far, int64_t near, int64_t step, int64_t n);
    index_take_fn *take; /* does a row of them in its place, or NULL */
    bool by_index;       /* elements are folded by the numbers of a row of indices, where none is negative */
    enum which which;    /* by whether all their indices are in range */
    atomic_bool out_of_range;
};

/* ---- walking */

static const char *index_at(const struct lookup *l, int k, int64_t place)
{
    return l->data[k] + place * (int64_t)itemsize(l->grid.index[k].array);
}

/* The offsets of n lookups that lie in a row of the grid, from places at[] of the index arrays on;
 * false if an index is out of range, for which the nearest is taken. */
static bool row_offsets(const struct lookup *l, int64_t base, const int64_t *at, int64_t n, int64_t *far)
{
    int last = l->grid.ndim - 1;
    bool fine = true, begun = l->grid.far[last] || l->grid.n == 0;
    for (int64_t i = 0; i < n && begun; i++) far[i] = base + i * l->grid.far[last];
    for (int k = 0; k < l->grid.n; k++, begun = true) {
        const struct lookup_index *o = &l->grid.index[k];
        fine &= cpu->index->offsets[o->array->dtype](far, begun, base, index_at(l, k, at[k]), o->steps[last], n,
                                                     o->size, o->room, o->stride);
    }
    return fine;
}

/* Those of n lookups in a row that are to be handled. */
static void some_of_row(const struct lookup *l, const int *sshape, const int64_t *far, int64_t near, const int64_t *at,
                        int64_t n)
{
    int last = l->grid.ndim - 1;
    bool in[BLOCK];
    memset(in, true, (size_t)n);
    for (int k = 0; k < l->grid.n; k++) {
        const struct lookup_index *o = &l->grid.index[k];
        cpu->index->inside[o->array->dtype](in, index_at(l, k, at[k]), o->steps[last], n, o->size, o->room);
    }
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && in[end] == in[i];) end++;
        if (in[i] == (l->which == IN_RANGE))
            l->block(l, sshape, far + i, near + i * l->grid.near[last], l->grid.near[last], end - i);
    }
}

/* Updates n elements without a list of their offsets; false, and nothing is done, where some indices are no places. */
static bool fold_by_index(const struct lookup *l, int64_t far, int64_t near, int64_t at, int64_t n)
{
    const uint32_t *index = (const uint32_t *)index_at(l, 0, at);
    if (!cpu->index->are_places(index, n, l->grid.index[0].size))
        return false;
    l->fold.by(l->far_data + far * l->item, index, l->near_data + near * l->item, l->grid.near[l->grid.ndim - 1], n);
    return true;
}

/* A row of lookups, from these places on; false if an index is out of range. */
static bool walk_row(const struct lookup *l, const int *sshape, int64_t far, int64_t near, const int64_t *at, int64_t n)
{
    int last = l->grid.ndim - 1;
    int64_t offsets[BLOCK], here[MX_MAX_NDIM];
    bool fine = true;
    if (l->take) {
        const struct lookup_index *o = &l->grid.index[0];
        return l->take(l->near_data + near * l->item, l->far_data + far * l->item, o->stride, index_at(l, 0, at[0]), n,
                       o->size);
    }
    for (int64_t i = 0, m; i < n; i += m) {
        m = n - i < BLOCK ? n - i : BLOCK;
        for (int k = 0; k < l->grid.n; k++) here[k] = at[k] + i * l->grid.index[k].steps[last];
        if (l->by_index && fold_by_index(l, far, near + i * l->grid.near[last], here[0], m))
            continue;
        fine &= row_offsets(l, far + i * l->grid.far[last], here, m, offsets);
        if (l->which == EVERY)
            l->block(l, sshape, offsets, near + i * l->grid.near[last], l->grid.near[last], m);
        else
            some_of_row(l, sshape, offsets, near + i * l->grid.near[last], here, m);
    }
    return fine;
}

/* All lookups of a part of the work: dimension `cut`, of the grid or behind those of the slice, is
 * narrowed to begin..end. */
static void walk_lookups(struct lookup *l, int cut, int64_t begin, int64_t end)
{
    int shape[MX_MAX_NDIM], sshape[MX_MAX_NDIM], place[MX_MAX_NDIM] = { 0 }, last = l->grid.ndim - 1;
    int64_t at[MX_MAX_NDIM] = { 0 }, far = 0, near = 0, rows = 1;
    memcpy(shape, l->grid.shape, (size_t)l->grid.ndim * sizeof *shape);
    memcpy(sshape, l->grid.sshape, (size_t)l->grid.sdim * sizeof *sshape);
    if (cut < l->grid.ndim) {
        shape[cut] = (int)(end - begin);
        far += begin * l->grid.far[cut];
        near += begin * l->grid.near[cut];
        for (int k = 0; k < l->grid.n; k++) at[k] += begin * l->grid.index[k].steps[cut];
    } else {
        sshape[cut - l->grid.ndim] = (int)(end - begin);
        far += begin * l->grid.sfar[cut - l->grid.ndim];
        near += begin * l->grid.snear[cut - l->grid.ndim];
    }
    for (int i = 0; i < last; i++) rows *= shape[i];
    while (rows-- > 0) {
        if (!walk_row(l, sshape, far, near, at, shape[last]))
            atomic_store_explicit(&l->out_of_range, true, memory_order_relaxed);
        for (int i = last; i-- > 0;) {
            int64_t by = ++place[i] < shape[i] ? 1 : 1 - shape[i];
            far += by * l->grid.far[i];
            near += by * l->grid.near[i];
            for (int k = 0; k < l->grid.n; k++) at[k] += by * l->grid.index[k].steps[i];
            if (by == 1)
                break;
            place[i] = 0;
        }
    }
}

struct lookup_part {
    struct lookup *l;
    int cut;
};

static void walk_part(void *ctx, int64_t begin, int64_t end)
{
    const struct lookup_part *p = ctx;
    walk_lookups(p->l, p->cut, begin, end);
}

static int lookup_extent(const struct lookup *l, int i)
{
    return i < l->grid.ndim ? l->grid.shape[i] : l->grid.sshape[i - l->grid.ndim];
}

/* Shares the work out along one dimension.  Along the slice there is one part for each thread, as
 * each goes through all indices. */
static void walk_along(struct lookup *l, int cut)
{
    struct lookup_part p = { l, cut };
    int64_t n = lookup_extent(l, cut), work = l->grid.count * l->grid.slice / n, grain = ceil_div(WORTH_MOVED, work);
    int64_t share = (n + pool_threads() - 1) / pool_threads();
    pool_for(n, cut >= l->grid.ndim && grain < share ? share : grain, walk_part, &p);
}

/* ---- indices out of range */

static int64_t index_value(mx a, const char *p, bool *huge)
{
    int64_t v;
    cpu->cast[a->dtype][DT_int64](&v, p, 1);
    *huge = a->dtype == DT_uint64 && v < 0;
    return v;
}

/* Element `place` of an array of the shape that the program gave. */
static int report_given(const struct lookup_outside *o, const struct index_given *g, int64_t place)
{
    int at[INDEX_GIVEN], shown[INDEX_GIVEN];
    for (int i = g->ndim; i-- > 0; place /= g->shape[i]) {
        at[i] = (int)(place % g->shape[i]);
        shown[i] = 2; /* each of them */
    }
    return lookup_report(o, g->ndim, shown, at);
}

/* Reports the first index of an array that is out of range: 1 if there is one and it is a failure. */
static int report_first(const char *op, enum outside_use use, const struct lookup_index *o, const struct index_given *g)
{
    mx a = o->array;
    const char *data = host(a);
    int at[MX_MAX_NDIM] = { 0 };
    int64_t offset = 0;
    for (int64_t left = a->size; left-- > 0;) {
        bool huge;
        int64_t v = index_value(a, data + offset * (int64_t)itemsize(a), &huge);
        int64_t from = v < 0 && !huge ? v + o->size : v;
        if (from < 0 || from > o->room) {
            struct lookup_outside out = { op, use, o->axis, o->size, o->room, v, huge };
            return g && g->is ? report_given(&out, g, a->size - left - 1) : lookup_report(&out, a->ndim, a->shape, at);
        }
        for (int i = a->ndim; i-- > 0;) {
            offset += a->strides[i];
            if (++at[i] < a->shape[i])
                break;
            offset -= a->strides[i] * a->shape[i];
            at[i] = 0;
        }
    }
    return 0;
}

/* The check before anything is written: every element of every index array once. */
struct check {
    const struct lookup_index *o;
    const char *data;
    int ndim, shape[MX_MAX_NDIM];
    int64_t strides[MX_MAX_NDIM];
    atomic_bool bad;
};

static bool run_in_range(const struct check *c, int64_t offset, int64_t step, int64_t n)
{
    mx a = c->o->array;
    return cpu->index->check[a->dtype](c->data + offset * (int64_t)itemsize(a), step, n, c->o->size, c->o->room);
}

static void check_part(void *ctx, int64_t begin, int64_t end)
{
    struct check *c = ctx;
    int64_t rows = 1, offset = 0;
    int last = c->ndim - 1, place[MX_MAX_NDIM] = { 0 };
    bool fine = true;
    if (last == 0) {
        fine = run_in_range(c, begin * c->strides[0], c->strides[0], end - begin);
    } else {
        for (int i = 1; i < last; i++) rows *= c->shape[i];
        rows *= end - begin;
        offset = begin * c->strides[0];
        while (rows-- > 0) {
            fine &= run_in_range(c, offset, c->strides[last], c->shape[last]);
            for (int i = last; i-- > 0;) {
                offset += c->strides[i];
                if (i == 0 || ++place[i] < c->shape[i])
                    break;
                offset -= c->strides[i] * c->shape[i];
                place[i] = 0;
            }
        }
    }
    if (!fine)
        atomic_store(&c->bad, true);
}

static bool in_range(const struct lookup_index *o)
{
    struct check c = { .o = o, .data = host(o->array) };
    int64_t *strides = c.strides;
    mx a = o->array;
    for (int i = 0; i < a->ndim; i++) {
        c.shape[i] = a->strides[i] ? a->shape[i] : 1; /* repeats are looked at once */
        c.strides[i] = a->strides[i];
    }
    c.ndim = collapse(a->ndim, c.shape, 1, &strides);
    int64_t work = 1;
    for (int i = 1; i < c.ndim; i++) work *= c.shape[i];
    pool_for(c.shape[0], ceil_div(4 * WORTH_MOVED, work), check_part, &c);
    return !atomic_load(&c.bad);
}

/* ---- what is done at a block of lookups */

/* Asks for the slice that is jumped to a few lookups from here, as no processor can guess it. */
static inline void fetch_rows_ahead(const struct lookup *l, const int64_t *far, int64_t i, int64_t n)
{
    enum { AHEAD = 4, LINE = 64, MOST = 512 };
    const char *p = l->far_data + far[i + AHEAD < n ? i + AHEAD : n - 1] * l->item;
    int64_t bytes = l->grid.slice * l->item < MOST ? l->grid.slice * l->item : MOST;
    for (int64_t k = 0; k < bytes; k += LINE) __builtin_prefetch(p + k);
}

static void gather_block(const struct lookup *l, const int *sshape, const int64_t *far, int64_t near, int64_t step,
                         int64_t n)
{
    char *y = l->near_data + near * l->item;
    const char *x = l->far_data;
    if (l->grid.slice == 1) {
        cpu->index->pick[__builtin_ctzl((size_t)l->item)](y, step, x, far, n);
    } else if (l->grid.sdim == 1 && l->grid.sfar[0] == 1 && l->grid.snear[0] == 1) {
        for (int64_t i = 0; i < n; i++) {
            fetch_rows_ahead(l, far, i, n);
            memcpy(y + i * step * l->item, x + far[i] * l->item, (size_t)(sshape[0] * l->item));
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            fold_box_here(&l->fold, l->grid.sdim, sshape, y + i * step * l->item, l->grid.snear, x + far[i] * l->item,
                          l->grid.sfar);
    }
}

static void clear_block(const struct lookup *l, const int *sshape, const int64_t *far, int64_t near, int64_t step,
                        int64_t n)
{
    static const int64_t still[MX_MAX_NDIM], zero[2];
    (void)far;
    for (int64_t i = 0; i < n; i++)
        fold_box_here(&l->fold, l->grid.sdim, sshape, l->near_data + (near + i * step) * l->item, l->grid.snear,
                      (const char *)zero, still);
}

static void scatter_block(const struct lookup *l, const int *sshape, const int64_t *far, int64_t near, int64_t step,
                          int64_t n)
{
    const char *u = l->near_data + near * l->item;
    if (l->grid.slice == 1)
        l->fold.at(l->far_data, far, u, step, n);
    else
        for (int64_t i = 0; i < n; i++) {
            fetch_rows_ahead(l, far, i, n);
            fold_box_here(&l->fold, l->grid.sdim, sshape, l->far_data + far[i] * l->item, l->grid.sfar,
                          u + i * step * l->item, l->grid.snear);
        }
}

/* ---- sorting updates by where they go
 *
 * Updates of single elements or short rows are dealt out to stretches of the destination, in order,
 * and each stretch is one thread's.  A chunk of updates is dealt at a time, small enough to be in
 * cache still when it is read out of order. */

enum { STRETCHES = 256, BATCHES = 16, CHUNK = 1 << 16 /* at most */, CHUNK_BYTES = 1 << 18 };

struct update {
    uint32_t far, number;
}; /* in its stretch, and of the chunk */

struct deal {
    struct lookup *l;
    int shift;            /* stretch = far >> shift */
    int64_t start, count; /* of the chunk */
    int64_t far[CHUNK];
    struct update updates[CHUNK];
    /* How many of a batch go to the stretch; then where the next one of them goes. */
    uint32_t places[BATCHES][STRETCHES];
    uint32_t begin[STRETCHES + 1];
};

static int64_t batch_begin(const struct deal *d, int64_t b) { return d->count * b / BATCHES; }

static void count_batches(void *ctx, int64_t first, int64_t end)
{
    struct deal *d = ctx;
    struct lookup *l = d->l;
    for (int64_t b = first; b < end; b++) {
        int64_t i = batch_begin(d, b), stop = batch_begin(d, b + 1), at[MX_MAX_NDIM];
        for (int k = 0; k < l->grid.n; k++) at[k] = (d->start + i) * l->grid.index[k].steps[0];
        row_offsets(l, (d->start + i) * l->grid.far[0], at, stop - i, d->far + i);
        memset(d->places[b], 0, sizeof d->places[b]);
        for (; i < stop; i++) d->places[b][d->far[i] >> d->shift]++;
    }
}

static void place_batches(void *ctx, int64_t first, int64_t end)
{
    struct deal *d = ctx;
    uint32_t in_stretch = (uint32_t)(((uint64_t)1 << d->shift) - 1);
    for (int64_t b = first; b < end; b++)
        for (int64_t i = batch_begin(d, b), stop = batch_begin(d, b + 1); i < stop; i++)
            d->updates[d->places[b][d->far[i] >> d->shift]++] =
                (struct update){ (uint32_t)d->far[i] & in_stretch, (uint32_t)i };
}

static void fold_stretches(void *ctx, int64_t first, int64_t end)
{
    const struct deal *d = ctx;
    const struct lookup *l = d->l;
    index_pick_fn *pick = cpu->index->pick[__builtin_ctzl((size_t)l->item)];
    int64_t far[BLOCK], from[BLOCK];
    _Alignas(8) char values[BLOCK * 8];
    for (int64_t s = first; s < end; s++)
        for (int64_t i = d->begin[s], n; i < d->begin[s + 1]; i += n) {
            const struct update *u = d->updates + i;
            n = d->begin[s + 1] - i < BLOCK ? d->begin[s + 1] - i : BLOCK;
            for (int64_t j = 0; j < n; j++) {
                far[j] = (s << d->shift) + u[j].far;
                from[j] = (d->start + u[j].number) * l->grid.near[0];
            }
            if (l->grid.slice == 1) {
                pick(values, 1, l->near_data, from, n);
                l->fold.at(l->far_data, far, values, 1, n);
            } else {
                for (int64_t j = 0; j < n; j++) scatter_block(l, l->grid.sshape, far + j, from[j], 0, 1);
            }
        }
}

static int scatter_dealt(struct lookup *l, int64_t size)
{
    struct buffer *b = buffer_new(sizeof(struct deal));
    if (!b)
        return 1;
    struct deal *d = b->host;
    d->l = l;
    d->shift = 0;
    while ((size - 1) >> d->shift >= STRETCHES) d->shift++;
    int64_t chunk = CHUNK_BYTES / (l->grid.slice * l->item);
    chunk = chunk > CHUNK ? CHUNK : chunk < STRETCHES ? STRETCHES : chunk;
    for (d->start = 0; d->start < l->grid.count; d->start += chunk) {
        uint32_t sum = 0;
        d->count = l->grid.count - d->start < chunk ? l->grid.count - d->start : chunk;
        pool_for(BATCHES, 1, count_batches, d);
        for (int s = 0; s < STRETCHES; s++) {
            d->begin[s] = sum;
            for (int k = 0; k < BATCHES; k++) {
                uint32_t n = d->places[k][s];
                d->places[k][s] = sum;
                sum += n;
            }
        }
        d->begin[STRETCHES] = sum;
        pool_for(BATCHES, 1, place_batches, d);
        pool_for(STRETCHES, 1, fold_stretches, d);
    }
    buffer_release(b);
    return 0;
}

/* ---- updates of rows by who owns the destination
 *
 * Each thread goes through all indices and folds the rows that go to its part of the destination.
 * Sharing the rows themselves out would have neighbouring threads write neighbouring cache lines,
 * which prefetching then carries to and fro: three times slower than one thread on rows of 1 KiB. */

struct owners {
    struct lookup *l;
    int64_t size, parts;
};

static void fold_owned(void *ctx, int64_t first, int64_t end)
{
    const struct owners *o = ctx;
    const struct lookup *l = o->l;
    int64_t low = o->size * first / o->parts, high = o->size * end / o->parts, at[MX_MAX_NDIM];
    int64_t far[BLOCK], near[BLOCK];
    for (int64_t i = 0, m; i < l->grid.count; i += m) {
        m = l->grid.count - i < BLOCK ? l->grid.count - i : BLOCK;
        for (int k = 0; k < l->grid.n; k++) at[k] = i * l->grid.index[k].steps[0];
        row_offsets(l, i * l->grid.far[0], at, m, far);
        int64_t mine = 0;
        for (int64_t j = 0; j < m; j++) {
            int64_t f = far[j];
            far[mine] = f;
            near[mine] = (i + j) * l->grid.near[0];
            mine += f >= low && f < high;
        }
        for (int64_t j = 0; j < mine; j++) {
            fetch_rows_ahead(l, far, j, mine);
            fold_box_here(&l->fold, l->grid.sdim, l->grid.sshape, l->far_data + far[j] * l->item, l->grid.sfar,
                          l->near_data + near[j] * l->item, l->grid.snear);
        }
    }
}

/* Rows long enough for the look at every index to cost little beside them. */
static bool owned(const struct lookup *l, int64_t size)
{
    enum { ROW = 256 /* bytes */, PAGE = 4096 };
    int64_t row = l->grid.slice * l->item;
    return l->grid.ndim == 1 && !l->grid.overlaps && size >> 40 == 0 && row >= ROW &&
           row < PAGE * (int64_t)pool_threads();
}

/* ---- gathering and scattering */

/* Says where everything is, once the grid is known. */
static void locate(struct lookup *l, mx far, mx near)
{
    for (int k = 0; k < l->grid.n; k++) l->data[k] = host(l->grid.index[k].array);
    l->far_data = host(far);
    l->near_data = host(near);
    l->item = (int64_t)itemsize(far);
    l->type = far->dtype;
}

/* Single elements along rows without gaps, by one index. */
static index_take_fn *take_kernel(const struct lookup *l)
{
    int last = l->grid.ndim - 1;
    bool fits = l->grid.n == 1 && l->grid.slice == 1 && l->grid.far[last] == 0 && l->grid.near[last] == 1 &&
                l->grid.index[0].steps[last] == 1;
    return fits ? cpu->index->take[l->grid.index[0].array->dtype][__builtin_ctzl((size_t)l->item)] : NULL;
}

/* Elements updated where one index of 32 bits says, along rows without gaps. */
static bool updates_by_index(const struct lookup *l)
{
    int last = l->grid.ndim - 1;
    const struct lookup_index *o = &l->grid.index[0];
    return l->grid.n == 1 && l->grid.slice == 1 && l->grid.far[last] == 0 && o->steps[last] == 1 && o->stride == 1 &&
           itemsize(o->array) == sizeof(uint32_t);
}

/* What is gathered becomes 0. */
static void clear_gathered(struct lookup *l, enum which which)
{
    l->block = clear_block;
    l->which = which;
    l->take = NULL;
    l->by_index = false;
    walk_lookups(l, 0, 0, l->grid.shape[0]);
}

/* Gathers along an axis that has no element, so that no index of it is in range and none is the nearest. */
static int gather_nowhere(struct lookup *l, const char *op, unsigned outside, const struct lookup_index *o,
                          const struct index_given *g)
{
    if (outside != OUTSIDE_NOTHING)
        return report_first(op, OUTSIDE_NOWHERE, o, g);
    clear_gathered(l, EVERY);
    return outside_counts() && report_first(op, OUTSIDE_READ, o, g);
}

static int gather_lookups(struct lookup *l, const char *op, unsigned outside, const struct index_given *g)
{
    int want = 2 * pool_threads(), cut = 0;
    l->fold = folder_of(SCATTER_SET, l->type);
    for (int k = 0; k < l->grid.n; k++)
        if (l->grid.index[k].room < 0)
            return gather_nowhere(l, op, outside, &l->grid.index[k], g);
    l->block = gather_block;
    l->which = EVERY;
    atomic_init(&l->out_of_range, false);
    l->take = take_kernel(l);
    l->by_index = false;
    for (int i = 1; i < l->grid.ndim + l->grid.sdim && lookup_extent(l, cut) < want; i++)
        if (lookup_extent(l, i) > lookup_extent(l, cut))
            cut = i;
    walk_along(l, cut);
    if (!atomic_load(&l->out_of_range))
        return 0;
    if (outside == OUTSIDE_FOR_MASK) {
        mx_fail("[%s] expected a value for each element where the mask is true, got %lld for more than that", op,
                (long long)l->grid.index[0].size);
        return 1;
    }
    for (int k = 0; k < l->grid.n && outside_counts(); k++)
        if (report_first(op, OUTSIDE_READ, &l->grid.index[k], g))
            return 1;
    if (outside == OUTSIDE_NOTHING)
        clear_gathered(l, OUT_OF_RANGE);
    return 0;
}

/* Along which dimension, if any, updates never meet and threads get enough to do each. */
static int independent(const struct lookup *l)
{
    enum { RUN_BYTES = 256 }; /* of a row that is shared out, for each thread */
    int threads = pool_threads(), best = -1;
    for (int i = 0; i < l->grid.ndim; i++)
        if (l->grid.far[i] && l->grid.shape[i] >= threads && (best < 0 || l->grid.shape[i] > l->grid.shape[best]))
            best = i;
    for (int i = l->grid.ndim; i < l->grid.ndim + l->grid.sdim && best < 0 && !l->grid.overlaps; i++)
        if (lookup_extent(l, i) * l->item >= (int64_t)threads * RUN_BYTES)
            best = i;
    return best;
}

/* For single elements dealing costs more than folding does, so it takes some threads to pay. */
static bool deals(const struct lookup *l, int64_t size)
{
    enum { MANY = 1 << 14, FEW_THREADS = 4, LONG_ROW = 64 /* bytes */ };
    int threads = pool_threads();
    return l->grid.ndim == 1 && !l->grid.overlaps && l->grid.count >= MANY && size >> 40 == 0 &&
           (threads >= FEW_THREADS || (threads > 1 && l->grid.slice * l->item >= LONG_ROW));
}

static int scatter_updates(struct lookup *l, struct folder fold, int64_t size, enum which which)
{
    l->block = scatter_block;
    l->take = NULL;
    l->fold = fold;
    l->which = which;
    l->by_index = which == EVERY && updates_by_index(l);
    atomic_init(&l->out_of_range, false);
    int cut = independent(l);
    if (which == EVERY && (cut < 0 || cut >= l->grid.ndim) && owned(l, size)) {
        struct owners o = { l, size, pool_threads() };
        int64_t least =
            (WORTH_MOVED * o.parts + l->grid.count * l->grid.slice - 1) / (l->grid.count * l->grid.slice + 1);
        pool_for(o.parts, least, fold_owned, &o);
    } else if (cut >= 0)
        walk_along(l, cut);
    else if (which == EVERY && deals(l, size))
        return scatter_dealt(l, size);
    else
        walk_lookups(l, 0, 0, l->grid.shape[0]);
    return 0;
}

int run_gather(const struct run *r)
{
    const struct gather_args *a = r->args;
    struct lookup l;
    if (out_new(r, 0))
        return 1;
    if (r->y[0]->size == 0)
        return 0;
    lookup_several(&l.grid, r->x[0], r->y[0], a->axes.n, r->x + 1, a->axes);
    locate(&l, r->x[0], r->y[0]);
    return gather_lookups(&l, index_asker("gather", a->asker), a->outside, NULL);
}

int run_gather_axis(const struct run *r)
{
    const struct gather_axis_args *a = r->args;
    struct lookup l;
    if (out_new(r, 0))
        return 1;
    if (r->y[0]->size == 0)
        return 0;
    lookup_axis(&l.grid, r->x[0], r->y[0], r->x[1], a->axis);
    locate(&l, r->x[0], r->y[0]);
    return gather_lookups(&l, index_asker("take_along_axis", a->asker), a->outside, &a->given);
}

/* Which updates of a scatter are to be handled, known before it writes over its operand.  Non-zero after a failure. */
static int check_index(const struct run *r, const char *op, unsigned outside, mx index, int axis, int slice,
                       const struct index_given *g, enum which *which)
{
    enum outside_use use = outside == OUTSIDE_NEAREST ? OUTSIDE_READ : OUTSIDE_WRITTEN;
    struct lookup_index o = lookup_index_of(index, axis, r->x[0], slice);
    if (index->size == 0 || in_range(&o))
        return 0;
    if (use == OUTSIDE_WRITTEN || o.room < 0)
        *which = IN_RANGE;
    return outside_counts() && report_first(op, use, &o, g);
}

int run_scatter(const struct run *r)
{
    const struct scatter_args *a = r->args;
    mx u = r->x[r->nin - 1];
    const char *op = index_asker("scatter", a->asker);
    enum which which = EVERY;
    struct lookup l;
    for (int k = 0; k < a->axes.n && u->size; k++)
        if (check_index(r, op, a->outside, r->x[1 + k], (int)a->axes.v[k], u->shape[r->x[1]->ndim + a->axes.v[k]], NULL,
                        &which))
            return 1;
    if (start_from_first(r))
        return 1;
    if (u->size == 0)
        return 0;
    lookup_several(&l.grid, r->y[0], u, a->axes.n, r->x + 1, a->axes);
    locate(&l, r->y[0], u);
    return scatter_updates(&l, folder_of(a->fold, u->dtype), r->y[0]->size, which);
}

int run_scatter_axis(const struct run *r)
{
    const struct scatter_axis_args *a = r->args;
    mx u = r->x[2];
    enum which which = EVERY;
    struct lookup l;
    if ((u->size &&
         check_index(r, index_asker("put_along_axis", a->asker), a->outside, r->x[1], a->axis, 1, &a->given, &which)) ||
        start_from_first(r))
        return 1;
    if (u->size == 0)
        return 0;
    lookup_axis(&l.grid, r->y[0], u, r->x[1], a->axis);
    locate(&l, r->y[0], u);
    return scatter_updates(&l, folder_of(a->fold, u->dtype), r->y[0]->size, which);
}
