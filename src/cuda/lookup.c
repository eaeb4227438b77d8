/* lookup.c: reading and writing through arrays of indices on a GPU (plan/lookup.h). */
#include "cuda/kernels/lookup.h"

#include <string.h>

#include "core/sizes.h"
#include "cuda/gpu.h"
#include "cuda/kernels/order.h"
#include "ops/index.h"
#include "ops/ops.h"
#include "ops/slice.h"
#include "plan/lookup.h"

/* Index arrays and dimensions that kernels know. */
bool gpu_takes_lookup(const struct node *n) { return n->in[0]->ndim <= LOOKUP_DIMS && n->nin - 1 <= NOTE_INDICES; }

/* In how many pieces a slice of these sizes lies in x, row-major: neighbouring axes are one where all of the inner one
 * is taken. */
static int slice_pieces(mx x, const int *sizes)
{
    int pieces = 0;
    bool whole = false; /* what is taken of the axes so far is all of them */
    for (int i = x->ndim; i-- > 0;) {
        pieces += sizes[i] != 1 && !whole;
        whole = sizes[i] == x->shape[i] && (whole || sizes[i] != 1);
    }
    return pieces;
}

static bool is_deep(mx x) { return x->ndim > LOOKUP_DIMS; }

static bool takes_slices(const struct node *n, int indices, mx near)
{
    return indices <= NOTE_INDICES &&
           (!is_deep(n->in[0]) || (near && slice_pieces(n->in[0], near->shape + n->in[1]->ndim) <= LOOKUP_DIMS));
}

bool gpu_takes_gather(const struct node *n) { return takes_slices(n, n->nin - 1, n->out[0]); }

/* Neighbouring axes are one where the index has all of them, or is broadcast along all of them. */
bool gpu_takes_gather_axis(const struct node *n)
{
    mx x = n->in[0], index = n->in[1];
    int axis = n->op->id == OP_gather_axis ? ((const struct gather_axis_args *)n->args)->axis
                                           : ((const struct scatter_axis_args *)n->args)->axis;
    int pieces = 1, last = -1;
    for (int i = 0; i < x->ndim; i++) {
        int has = index->shape[i] == x->shape[i];
        pieces += i != axis && x->shape[i] != 1 && has != last;
        if (i == axis || x->shape[i] != 1)
            last = i == axis ? -1 : has;
    }
    return !is_deep(x) || pieces <= LOOKUP_DIMS;
}

/* ---- what kernels are told */

/* What is said of an index out of range. */
static void fill_note_about(struct note_about *a, const char *op, enum outside_use use, const struct lookup_plan *p,
                            mx near)
{
    gpu_note_about(a, op, p->corner ? NOTE_CORNER : NOTE_PLACE, use, p->count, p->n, p->index);
    a->ndim = p->corner ? 0 : p->index[0].array->ndim;
    for (int i = 0; i < a->ndim; i++) {
        a->shape[i] = i < p->grid ? near->shape[i] : 1;
        a->shown |= (uint64_t)(p->index[0].array->shape[i] > 1) << i;
    }
}

static void share_out(struct lookup_call *c, int64_t slice)
{
    c->team = gpu_power_of_two(slice, LOOKUP_THREADS);
    c->width = LOOKUP_THREADS / c->team;
    bool several = slice <= c->team;
    c->next_lookup = several ? c->width : 0;
    c->next_element = several ? 0 : c->team;
    c->block_lookups = several ? LOOKUP_EACH * (int64_t)c->width : c->width;
    c->block_elements = several ? c->team : LOOKUP_EACH * (int64_t)c->team;
    c->pieces = ceil_div(slice, c->block_elements);
}

/* Elements are as wide as layout and addresses allow, if they may be: how wide is returned. */
static size_t describe_lookup(struct lookup_call *c, const struct run *r, const struct lookup_plan *p, mx far, mx near,
                              bool wide)
{
    struct box slice = { .item = itemsize(far), .ndim = p->sdim };
    int64_t others[2 * MX_MAX_NDIM + NOTE_INDICES];
    size_t bytes = sizeof(int64_t);
    int n = 0;
    c->far = (void *)(gpu_address(r, far) + (uint64_t)p->begin * itemsize(far));
    c->near = gpu_pointer(r, near);
    memcpy(slice.shape, p->sshape, (size_t)p->sdim * sizeof *p->sshape);
    memcpy(slice.to, p->snear, (size_t)p->sdim * bytes);
    memcpy(slice.from, p->sfar, (size_t)p->sdim * bytes);
    for (int i = 0; i < p->ndim; i++) {
        others[n++] = p->far[i];
        others[n++] = p->near[i];
    }
    for (int k = 0; k < p->n; k++) others[n++] = p->index[k].stride;
    if (wide)
        box_widen(&slice, (uint64_t)c->far | (uint64_t)c->near, n, others);
    c->n = p->n;
    c->ndim = p->ndim;
    c->sdim = p->sdim;
    c->count = p->count;
    c->slice = box_size(&slice);
    for (int i = 0; i < p->ndim; i++) {
        c->shape[i] = (uint32_t)p->shape[i];
        c->stride[LOOKUP_FAR][i] = others[2 * i];
        c->stride[LOOKUP_NEAR][i] = others[2 * i + 1];
        for (int k = 0; k < p->n; k++) c->stride[LOOKUP_INDEX + k][i] = p->index[k].steps[i];
    }
    for (int i = 0; i < p->sdim; i++) {
        c->sshape[i] = (uint32_t)slice.shape[i];
        c->sstride[LOOKUP_FAR][i] = slice.from[i];
        c->sstride[LOOKUP_NEAR][i] = slice.to[i];
    }
    for (int k = 0; k < p->n; k++) {
        const struct lookup_index *o = &p->index[k];
        c->index[k].data = (void *)(gpu_address(r, o->array) + (uint64_t)o->begin * itemsize(o->array));
        c->index[k].type = o->array->dtype;
        c->index[k].size = o->size;
        c->index[k].room = o->room;
        c->index[k].step = others[2 * p->ndim + k];
    }
    share_out(c, c->slice);
    return slice.item;
}

/* Arrays that have more dimensions than kernels know become row-major. */
struct arrays {
    mx index[NOTE_INDICES], updates;
    mx_own hold[NOTE_INDICES + 1];
};

static int simplify_arrays(const struct run *r, struct arrays *o, int n, mx updates)
{
    int ndim = r->x[1]->ndim;
    *o = (struct arrays){ .updates = updates };
    for (int k = 0; k < n; k++) o->index[k] = r->x[1 + k];
    if (ndim > LOOKUP_DIMS && !gpu_all_row_major(r, n, o->index, o->hold))
        return 1;
    return updates && is_deep(updates) && is_nil(o->updates = gpu_row_major(r, updates, &o->hold[n]));
}

static void drop(struct arrays *o) { gpu_drop(NOTE_INDICES + 1, o->hold); }

/* For so many lookups. */
static int64_t blocks_of(const struct lookup_call *c, int64_t n) { return ceil_div(n, c->block_lookups) * c->pieces; }

/* ---- gather */

/* Along an axis without elements no index is in range and none is the nearest. */
static bool indexes_nothing(const struct lookup_plan *p)
{
    for (int k = 0; k < p->n; k++)
        if (p->index[k].room < 0)
            return true;
    return false;
}

/* Single elements by one index, in rows that are worth a block, without gaps in what is beside them? */
static bool in_rows(const struct lookup_call *c)
{
    enum { SHORT = 256 };
    int last = c->ndim - 1;
    return c->n == 1 && c->slice == 1 && c->ndim <= 2 && c->shape[last] >= SHORT && c->stride[LOOKUP_NEAR][last] == 1 &&
           c->stride[LOOKUP_INDEX][last] == 1;
}

/* Whole rows by one index, of 32 bits or more, into rows one behind the other? */
static bool takes_rows(const struct lookup_call *c)
{
    size_t index = dtype_size((enum dtype)c->index[0].type);
    return c->n == 1 && c->slice > 1 && c->ndim == 1 && c->sdim == 1 && index >= sizeof(int32_t) &&
           c->stride[LOOKUP_FAR][0] == 0 && c->stride[LOOKUP_NEAR][0] == c->slice && c->sstride[LOOKUP_FAR][0] == 1 &&
           c->sstride[LOOKUP_NEAR][0] == 1;
}

/* Moves what is looked up in one way or the other. */
static int launch_move(const struct run *r, struct lookup_call *c, const struct lookup_plan *p, mx far, mx near,
                       enum gpu_note when)
{
    enum { LOOKUP, TAKE, ROWS };
    static const char *const names[] = { [LOOKUP] = "lookup", [TAKE] = "take", [ROWS] = "rows" };
    static struct gpu_found found[sizeof names / sizeof *names][5];
    size_t size = describe_lookup(c, r, p, far, near, true);
    int64_t blocks = blocks_of(c, c->count);
    int kind = c->writes ? LOOKUP : in_rows(c) ? TAKE : takes_rows(c) ? ROWS : LOOKUP;
    if (kind == TAKE) {
        c->pieces = ceil_div(c->shape[c->ndim - 1], LOOKUP_THREADS * LOOKUP_EACH);
        blocks = c->count / c->shape[c->ndim - 1] * c->pieces;
    }
    void *f = gpu_find_sized(gpu_of(r), found[kind], "lookup", names[kind], size);
    return !f || gpu_noting(r, &c->noting, when) ||
           gpu_launch(r->stream, r->node->op->name, f, blocks, LOOKUP_THREADS, (void *[]){ c });
}

static int launch_gather(const struct run *r, const struct lookup_plan *p, mx x, const char *op, unsigned outside)
{
    mx y = r->y[0];
    struct lookup_call c = { .nothing = outside == OUTSIDE_NOTHING };
    bool empty = indexes_nothing(p), for_mask = outside == OUTSIDE_FOR_MASK && !empty, any = false;
    bool fails = empty && !c.nothing, now = fails || for_mask || outside_fails();
    c.nothing |= empty;
    fill_note_about(&c.noting.about, op, fails ? OUTSIDE_NOWHERE : OUTSIDE_READ, p, y);
    if (launch_move(r, &c, p, x, y, now ? NOTE_NOW : NOTE_LATER))
        return 1;
    if (now && gpu_noted(r, &any, !for_mask))
        return 1;
    if (any && for_mask)
        mx_fail("[%s] expected a value for each element where the mask is true, got %lld for more than that", op,
                (long long)p->index[0].size);
    return any && for_mask;
}

int gpu_run_gather(const struct run *r)
{
    const struct gather_args *a = r->args;
    struct lookup_plan p;
    struct arrays o;
    mx x = r->x[0];
    mx_own hold = { 0 };
    if (gpu_out_new(r, 0) || r->y[0]->size == 0)
        return mx_failed();
    int failed = simplify_arrays(r, &o, a->axes.n, NULL) || (is_deep(x) && is_nil(x = gpu_row_major(r, x, &hold)));
    if (!failed) {
        lookup_several(&p, x, r->y[0], a->axes.n, o.index, a->axes);
        failed = launch_gather(r, &p, x, index_asker("gather", a->asker), a->outside);
    }
    drop(&o);
    mx_drop(&hold);
    return failed;
}

int gpu_run_gather_axis(const struct run *r)
{
    const struct gather_axis_args *a = r->args;
    struct lookup_plan p;
    mx x[] = { r->x[0], r->x[1] };
    mx_own hold[2] = { 0 };
    if (gpu_out_new(r, 0) || r->y[0]->size == 0)
        return mx_failed();
    int failed = is_deep(x[0]) && !gpu_all_row_major(r, 2, x, hold);
    if (!failed) {
        lookup_axis(&p, x[0], r->y[0], x[1], a->axis);
        failed = launch_gather(r, &p, x[0], index_asker("take_along_axis", a->asker), a->outside);
    }
    gpu_drop(2, hold);
    return failed;
}

int gpu_take(const struct run *r, mx y, mx x, mx index)
{
    struct lookup_plan p;
    struct lookup_call c = { 0 };
    lookup_several(&p, x, y, 1, &index, (struct ints){ 1, (int64_t[]){ 0 } });
    return launch_move(r, &c, &p, x, y, NOTE_LATER);
}

/* ---- scatter */

_Static_assert((int)UPDATE_ADD == SCATTER_ADD && (int)UPDATE_PROD == SCATTER_PROD && (int)UPDATE_MAX == SCATTER_MAX &&
                   (int)UPDATE_MIN == SCATTER_MIN,
               "as builders have them");

/* Places and updates are counted in 32 bits. */
static bool few_updates(const struct node *n)
{
    return n->in[0]->size <= UINT32_MAX && n->in[n->nin - 1]->size <= UINT32_MAX;
}

bool gpu_takes_scatter(const struct node *n)
{
    return takes_slices(n, n->nin - 2, n->in[n->nin - 1]) && few_updates(n);
}

bool gpu_takes_scatter_axis(const struct node *n) { return gpu_takes_gather_axis(n) && few_updates(n); }

struct scatter {
    const struct run *r;
    const char *op;
    unsigned fold, outside;
    int axis; /* of scatter_axis; -1: those of `axes` */
    struct ints axes;
    struct arrays arrays;
    struct lookup_plan p;
};

static void plan(struct scatter *s, mx far)
{
    if (s->axis < 0)
        lookup_several(&s->p, far, s->arrays.updates, s->axes.n, s->arrays.index, s->axes);
    else
        lookup_axis(&s->p, far, s->arrays.updates, s->arrays.index[0], s->axis);
}

/* The lowest bits that are 0 in every place that a slice begins at. */
static int free_bits(const struct lookup_plan *p)
{
    uint64_t any = (uint64_t)1 << 31;
    for (int i = 0; i < p->ndim; i++) any |= (uint64_t)p->far[i];
    for (int k = 0; k < p->n; k++) any |= (uint64_t)p->index[k].stride;
    return __builtin_ctzll(any);
}

/* Looks at the indices, and if there is room for them finds the keys. */
static int look_at_keys(const struct run *r, struct keys_call *c, enum gpu_note when)
{
    static struct gpu_found found;
    if (gpu_noting(r, &c->lookup.noting, when))
        return 1;
    void *f = gpu_find(gpu_of(r), &found, "order", "keys", DT_COUNT);
    return !f ||
           gpu_launch(r->stream, r->node->op->name, f, ceil_div(c->n, ORDER_THREADS), ORDER_THREADS, (void *[]){ c });
}

static void describe_keys(const struct scatter *s, struct keys_call *c, mx far)
{
    bool reads = s->outside == OUTSIDE_NEAREST;
    struct note_about *about = &c->lookup.noting.about;
    describe_lookup(&c->lookup, s->r, &s->p, far, s->arrays.updates, false);
    c->drops = !reads || indexes_nothing(&s->p);
    fill_note_about(about, s->op, reads ? OUTSIDE_READ : OUTSIDE_WRITTEN, &s->p, s->arrays.updates);
}

static int find_keys(const struct scatter *s, struct keys_call *c, mx far, enum gpu_note when)
{
    describe_keys(s, c, far);
    return look_at_keys(s->r, c, when);
}

/* What updates are folded as: set ones as what has their size. */
static enum dtype folded_as(const struct scatter *s, mx y)
{
    static const enum dtype plain[] = { [1] = DT_uint8, [2] = DT_uint16, [4] = DT_uint32, [8] = DT_uint64 };
    return s->fold == SCATTER_SET ? plain[itemsize(y)] : (enum dtype)y->dtype;
}

static int fold(const struct scatter *s, const struct keys_call *keys, mx y, const uint32_t *key,
                const uint32_t *number)
{
    static struct gpu_found found[DT_COUNT], singles[DT_COUNT];
    enum dtype t = folded_as(s, y);
    struct fold_call c = { .key = key,
                           .number = number,
                           .n = keys->n,
                           .shift = keys->shift,
                           .elements = keys->elements,
                           .fold = (int32_t)s->fold,
                           .lanes = 1 };
    if (!c.elements && describe_lookup(&c.lookup, s->r, &s->p, y, s->arrays.updates, true) == 16)
        c.lanes = (int32_t)(16 / itemsize(y));
    else
        describe_lookup(&c.lookup, s->r, &s->p, y, s->arrays.updates, false);
    if (number && c.lanes == 1 && (c.elements || c.lookup.slice == 1)) {
        void *one = gpu_find(gpu_of(s->r), &singles[t], "scatter", "scatter_singles", t);
        return !one || gpu_launch(s->r->stream, s->r->node->op->name, one, ceil_div(c.n, LOOKUP_THREADS * LOOKUP_EACH),
                                  LOOKUP_THREADS, (void *[]){ &c });
    }
    if (c.elements)
        share_out(&c.lookup, 1);
    void *f = gpu_find(gpu_of(s->r), &found[t], "scatter", "scatter", t);
    return !f || gpu_launch(s->r->stream, s->r->node->op->name, f, blocks_of(&c.lookup, c.n), LOOKUP_THREADS,
                            (void *[]){ &c });
}

/* ---- many updates of single elements: in buckets of places, with their values
 *
 * They are put in the order of the higher bits of their places, and a warp goes through all that share these: a pass
 * less, and no value is fetched from where it was. */

enum { BUCKET_PLACES = 1024 }; /* from which there are enough warps */

/* How many places there are that updates may go to. */
static int64_t places_in_all(const struct scatter *s, const struct keys_call *c, mx y)
{
    return ((y->size - 1 - s->p.begin) >> c->shift) + 1;
}

static bool are_many_singles(const struct scatter *s, const struct keys_call *c, int64_t places)
{
    return (c->elements || s->p.slice == 1) && c->n > GPU_KEYS_FEW && places >= BUCKET_PLACES;
}

static bool has_buckets(const struct scatter *s, const struct keys_call *c, mx y)
{
    int64_t places = places_in_all(s, c, y);
    return are_many_singles(s, c, places) && itemsize(y) <= sizeof(uint32_t) && places <= c->n;
}

/* Are updates words, one behind the other?  Then they are where values are first. */
static bool are_in_order(const struct scatter *s, const struct keys_call *c, mx y)
{
    return itemsize(y) == sizeof(uint32_t) && !c->elements && s->p.ndim == 1 && s->p.near[0] == 1;
}

static int fold_buckets(const struct scatter *s, struct keys_call *c, mx y, struct gpu_keys *keys)
{
    static struct gpu_found found[DT_COUNT];
    const struct run *r = s->r;
    enum { LANE_BITS = 5 };
    uint64_t most = (uint64_t)places_in_all(s, c, y); /* one more than the last, for those that are left out */
    bool ready = are_in_order(s, c, y);
    c->value = ready ? NULL : keys->number[0];
    c->size = (int32_t)itemsize(y);
    keys->instead = ready ? gpu_pointer(r, s->arrays.updates) : c->value;
    /* Warps go through twice as many where that is a pass less. */
    keys->low = LANE_BITS + (gpu_keys_bits(LANE_BITS + 1, most) < gpu_keys_bits(LANE_BITS, most));
    int now = find_keys(s, c, y, NOTE_LATER) ? -1 : gpu_keys_sort(r, keys, most), bits = gpu_keys_bits(keys->low, most);
    if (now < 0)
        return 1;
    struct bucket_call b = { .far = c->lookup.far,
                             .key = keys->key[now],
                             .value = keys->number[now],
                             .n = c->n,
                             .places = (int64_t)most,
                             .shift = c->shift,
                             .low = keys->low,
                             .mask = (uint32_t)(((uint64_t)1 << bits) - 1),
                             .fold = (int32_t)s->fold };
    enum dtype t = folded_as(s, y);
    void *f = gpu_find(gpu_of(r), &found[t], "scatter", "scatter_buckets", t);
    return !f || gpu_launch(r->stream, r->node->op->name, f, ceil_div(b.places, BUCKET_THREADS / 32 * BUCKET_LANES),
                            BUCKET_THREADS, (void *[]){ &b });
}

/* ---- many updates of single elements that need not be put in order
 *
 * Of those that are set the last one to go to a place is found, integers have the same sum in any order, and floats
 * one of several, unless the same bits are asked for. */

enum { KEPT = 4 }; /* words of places for each update, at most */

static int launch_updates(const struct run *r, void *kernel, const struct keys_call *c)
{
    return !kernel || gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(c->n, ORDER_THREADS), ORDER_THREADS,
                                 (void *[]){ (void *)c });
}

/* Words for all places, of zeros. */
static struct buffer *words_of_places(const struct run *r, int64_t places)
{
    struct buffer *b = buffer_new_on(r->stream, (size_t)places * sizeof(uint32_t));
    if (b && gpu_check(gpu_of(r), r->node->op->name,
                       cu.words_set((uint64_t)buffer_on(b, r->stream), 0, (size_t)places,
                                    gpu_direct(gpu_stream(r->stream))))) {
        buffer_release(b);
        return NULL;
    }
    return b;
}

/* Along an axis in rows that are enough for all multiprocessors, none of which meets another? */
static bool are_rows(const struct scatter *s, const struct keys_call *c)
{
    const struct lookup_call *l = &c->lookup;
    return s->axis >= 0 && !c->elements && l->n == 1 && l->ndim == 2 && l->stride[LOOKUP_FAR][0] != 0 &&
           l->stride[LOOKUP_FAR][1] == 0 && l->index[0].room < ORDER_ROW &&
           l->shape[0] >= (uint32_t)gpu_of(s->r)->multiprocessors;
}

static int set_rows(const struct scatter *s, struct keys_call *c)
{
    static struct gpu_found found;
    const struct run *r = s->r;
    void *f = gpu_find(gpu_of(r), &found, "order", "last_of_rows", DT_COUNT);
    c->size = (int32_t)itemsize(r->y[0]);
    return !f || gpu_noting(r, &c->lookup.noting, NOTE_LATER) ||
           gpu_launch_shared(r->stream, r->node->op->name, f, c->lookup.shape[0], ORDER_THREADS,
                             (size_t)(c->lookup.index[0].room + 1) * sizeof(uint32_t), (void *[]){ c });
}

static int set_last(const struct scatter *s, struct keys_call *c, mx y, int64_t places)
{
    static struct gpu_found last, found[DT_COUNT];
    const struct run *r = s->r;
    describe_keys(s, c, y);
    if (are_rows(s, c))
        return set_rows(s, c);
    struct buffer *b = words_of_places(r, places);
    if (!b)
        return 1;
    enum dtype t = folded_as(s, y);
    c->last = buffer_on(b, r->stream);
    int failed = gpu_noting(r, &c->lookup.noting, NOTE_LATER) ||
                 launch_updates(r, gpu_find(gpu_of(r), &last, "order", "last", DT_COUNT), c);
    c->lookup.noting.note = NULL; /* it has been told */
    failed = failed || launch_updates(r, gpu_find(gpu_of(r), &found[t], "scatter", "scatter_last", t), c);
    buffer_release(b);
    return failed;
}

/* Half types are rounded once, after all of a place are added up. */
static int add_up(const struct scatter *s, struct keys_call *c, mx y, int64_t places)
{
    static struct gpu_found found[DT_COUNT], sums[DT_COUNT];
    const struct run *r = s->r;
    enum dtype t = y->dtype == DT_int32 ? DT_uint32 : (enum dtype)y->dtype;
    struct buffer *b = NULL;
    if (dtype_is_half(t) && !(b = words_of_places(r, places)))
        return 1;
    describe_keys(s, c, y);
    c->sums = b ? buffer_on(b, r->stream) : NULL;
    int failed = gpu_noting(r, &c->lookup.noting, NOTE_LATER) ||
                 launch_updates(r, gpu_find(gpu_of(r), &found[t], "scatter", "scatter_sum", t), c);
    if (b && !failed) {
        struct sums_call call = { .far = c->lookup.far, .sums = c->sums, .places = places, .shift = c->shift };
        void *f = gpu_find(gpu_of(r), &sums[t], "scatter", "scatter_sums", t);
        failed = !f || gpu_launch(r->stream, r->node->op->name, f, ceil_div(places, ORDER_THREADS), ORDER_THREADS,
                                  (void *[]){ &call });
    }
    if (b)
        buffer_release(b);
    return failed;
}

static bool is_set_last(const struct scatter *s, const struct keys_call *c, mx y, int64_t places)
{
    return s->fold == SCATTER_SET && itemsize(y) <= sizeof(uint64_t) && places <= KEPT * c->n;
}

static bool is_added_up(const struct scatter *s, const struct keys_call *c, mx y, int64_t places)
{
    switch (y->dtype) {
    case DT_int32:
    case DT_uint32: return s->fold == SCATTER_ADD;
    case DT_float32: return s->fold == SCATTER_ADD && !gpu_deterministic();
    case DT_float16:
    case DT_bfloat16: return s->fold == SCATTER_ADD && places <= KEPT * c->n && !gpu_deterministic();
    default: return false;
    }
}

/* ---- many updates of single elements that are added to few places
 *
 * They are put in no order: tables of all places are in shared memory (kernels/scatter_tables.inc), and how many there
 * are follows from how many updates. */

enum { TABLES_FEW = 1024, TABLES_ALONE = 2048, TABLES_BLOCKS = 512 }; /* ALONE: updates that are worth one block */

static bool is_added_in_tables(const struct scatter *s, const struct keys_call *c, mx y, int64_t places)
{
    enum dtype t = (enum dtype)y->dtype;
    bool summed = dtype_is_half(t) || t == DT_float32 || t == DT_int32 || t == DT_uint32;
    return summed && s->fold == SCATTER_ADD && (c->elements || s->p.slice == 1) && c->n > TABLES_FEW &&
           places <= TABLES_PLACES;
}

static int add_in_tables(const struct scatter *s, struct keys_call *keys, mx y, int64_t places)
{
    static struct gpu_found found[DT_COUNT], add[DT_COUNT];
    const struct run *r = s->r;
    const char *op = r->node->op->name;
    enum dtype t = y->dtype == DT_int32 ? DT_uint32 : (enum dtype)y->dtype;
    int64_t blocks = keys->n <= TABLES_ALONE ? 1 : least(ceil_div(keys->n, TABLES_FEW), TABLES_BLOCKS);
    struct tables_call c = { .places = (int32_t)places,
                             .bits = __builtin_ctz((unsigned)gpu_power_of_two(places, 1 << 30)),
                             .piece = 32 * ceil_div(ceil_div(keys->n, 32), blocks * TABLES_WARPS) };
    size_t table = (size_t)places * sizeof(uint32_t);
    struct buffer *b = blocks > 1 ? buffer_new_on(r->stream, (size_t)blocks * table) : NULL;
    if (blocks > 1 && !b)
        return 1;
    c.sums = b ? buffer_on(b, r->stream) : NULL;
    describe_keys(s, keys, y);
    int failed = gpu_noting(r, &keys->lookup.noting, NOTE_LATER);
    c.keys = *keys;
    void *f = failed ? NULL : gpu_find(gpu_of(r), &found[t], "scatter", "scatter_tables", t);
    failed =
        !f || gpu_launch_shared(r->stream, op, f, blocks, 32 * TABLES_WARPS, TABLES_WARPS * table, (void *[]){ &c });
    if (b && !failed) {
        struct tables_add_call call = { .far = keys->lookup.far,
                                        .sums = c.sums,
                                        .blocks = (int32_t)blocks,
                                        .places = (int32_t)places,
                                        .shift = keys->shift };
        f = gpu_find(gpu_of(r), &add[t], "scatter", "scatter_tables_add", t);
        failed = !f || gpu_launch(r->stream, op, f, ceil_div(places, 32), 32 * TABLES_ROWS, (void *[]){ &call });
    }
    if (b)
        buffer_release(b);
    return failed;
}

/* Slices that may overlap without being the same are updated element by element. */
static int run_update(struct scatter *s, mx y)
{
    const struct lookup_plan *p = &s->p;
    struct keys_call c = { .elements = p->overlaps && p->count > 1 };
    c.shift = c.elements ? 0 : free_bits(p);
    c.n = c.elements ? p->count * p->slice : p->count;
    int64_t places = places_in_all(s, &c, y);
    bool many = are_many_singles(s, &c, places);
    if (is_added_in_tables(s, &c, y, places))
        return add_in_tables(s, &c, y, places);
    if (many && is_set_last(s, &c, y, places))
        return set_last(s, &c, y, places);
    if (many && is_added_up(s, &c, y, places))
        return add_up(s, &c, y, places);
    int now = 0;
    struct buffer *b = buffer_new_on(s->r->stream, gpu_keys_room(c.n) * sizeof(uint32_t));
    if (!b)
        return 1;
    struct gpu_keys keys = gpu_keys_at(buffer_on(b, s->r->stream), c.n);
    c.key = keys.key[0];
    int failed;
    if (has_buckets(s, &c, y)) {
        failed = fold_buckets(s, &c, y, &keys);
    } else {
        failed = find_keys(s, &c, y, NOTE_LATER);
        if (!failed && c.n > 1) /* and one more than the last place, for those that are left out */
            now = gpu_keys_sort(s->r, &keys, (uint64_t)((y->size - 1) >> c.shift) + 1);
        failed = failed || now < 0 || fold(s, &c, y, keys.key[now], c.n > 1 ? keys.number[now] : NULL);
    }
    buffer_release(b);
    return failed;
}

/* Where an index out of range is a failure, it is one before anything is written over the operand. */
static int launch_scatter(struct scatter *s)
{
    const struct run *r = s->r;
    mx x = r->x[0], u = r->x[r->nin - 1], y = r->y[0];
    struct keys_call look = { 0 };
    mx_own hold = { 0 };
    bool any;
    int failed = 0;
    if (u->size && (outside_fails() || x->size == 0)) {
        failed = is_deep(x) && is_nil(x = gpu_row_major(r, x, &hold));
        if (!failed)
            plan(s, x);
        look.n = s->p.count;
        failed = failed || find_keys(s, &look, x, NOTE_NOW) || gpu_noted(r, &any, true);
        mx_drop(&hold);
    }
    if (failed || gpu_out_from(r, 0, 0))
        return 1;
    if (u->size == 0 || x->size == 0)
        return 0;
    plan(s, y);
    return run_update(s, y);
}

int gpu_run_scatter(const struct run *r)
{
    const struct scatter_args *a = r->args;
    struct scatter s = { .r = r,
                         .op = index_asker("scatter", a->asker),
                         .fold = a->fold,
                         .outside = a->outside,
                         .axis = -1,
                         .axes = a->axes };
    int failed = simplify_arrays(r, &s.arrays, a->axes.n, r->x[r->nin - 1]) || launch_scatter(&s);
    drop(&s.arrays);
    return failed;
}

int gpu_run_scatter_axis(const struct run *r)
{
    const struct scatter_axis_args *a = r->args;
    struct scatter s = {
        .r = r, .op = index_asker("put_along_axis", a->asker), .fold = a->fold, .outside = a->outside, .axis = a->axis
    };
    int failed = simplify_arrays(r, &s.arrays, 1, r->x[2]) || launch_scatter(&s);
    drop(&s.arrays);
    return failed;
}

/* ---- slices */

/* Into a box of y that begins `offset` elements behind its first and has these strides. */
int gpu_fold_box(const struct run *r, unsigned kind, mx y, int64_t offset, const int64_t *strides, mx updates)
{
    struct scatter s = { .r = r, .fold = kind, .arrays = { .updates = updates } };
    if (updates->size == 0)
        return 0;
    lookup_box(&s.p, offset, strides, updates);
    return fold(&s, &(struct keys_call){ .n = 1 }, y, NULL, NULL);
}

/* The part of far that near is, or becomes.  Where an index out of range is a failure or nothing is moved, the corner
 * is looked at first. */
static int move_slice(const struct run *r, const char *op, mx far, mx near, mx start, bool writes, bool look_only)
{
    const struct dynamic_args *a = r->args;
    struct lookup_plan p;
    struct keys_call c = { .n = 1 };
    lookup_corner(&p, far, near, start, a->axes);
    c.lookup.writes = writes;
    c.lookup.nothing = a->outside == OUTSIDE_NOTHING;
    fill_note_about(&c.lookup.noting.about, op, writes ? OUTSIDE_WRITTEN : OUTSIDE_READ, &p, near);
    if (!look_only)
        return launch_move(r, &c.lookup, &p, far, near, NOTE_LATER);
    bool any, now = outside_fails();
    describe_lookup(&c.lookup, r, &p, far, near, false);
    return look_at_keys(r, &c, now ? NOTE_NOW : NOTE_LATER) || (now && gpu_noted(r, &any, true));
}

static bool looks_first(mx near) { return outside_fails() || near->size == 0; }

int gpu_run_dynamic_slice(const struct run *r)
{
    mx x = r->x[0], y = r->y[0];
    if (gpu_out_new(r, 0) || (looks_first(y) && move_slice(r, "slice", x, y, r->x[1], false, true)))
        return 1;
    return y->size && move_slice(r, "slice", x, y, r->x[1], false, false);
}

int gpu_run_dynamic_slice_update(const struct run *r)
{
    mx x = r->x[0], u = r->x[1], y = r->y[0];
    if ((looks_first(u) && move_slice(r, "slice_update", x, u, r->x[2], true, true)) || gpu_out_from(r, 0, 0))
        return 1;
    return u->size && move_slice(r, "slice_update", y, u, r->x[2], true, false);
}
