/* lookup.c: reading and writing through arrays of indices on a GPU (plan/lookup.h). */
#include "cuda/kernels/lookup.h"

#include <string.h>

#include "core/sizes.h"
#include "cuda/gpu.h"
#include "ops/index.h"
#include "plan/lookup.h"

static struct gpu *gpu_of(const struct run *r) { return gpu_stream(r->stream)->gpu; }

/* Index arrays and dimensions that kernels know. */
bool gpu_takes_lookup(const struct node *n) { return n->in[0]->ndim <= LOOKUP_DIMS && n->nin - 1 <= NOTE_INDICES; }

/* ---- what kernels are told */

/* What is said of an index out of range. */
static void tell(struct note_about *a, const char *op, enum outside_use use, const struct lookup_plan *p, mx near)
{
    *a = (struct note_about){ .op = op, .use = (int32_t)use, .count = p->count, .ndim = p->index[0].array->ndim };
    for (int i = 0; i < a->ndim; i++) {
        a->shape[i] = i < p->grid ? near->shape[i] : 1;
        a->shown |= (uint64_t)(p->index[0].array->shape[i] > 1) << i;
    }
    for (int k = 0; k < p->n; k++) {
        const struct lookup_index *o = &p->index[k];
        a->index[k].axis = o->axis;
        a->index[k].huge = o->array->dtype == DT_uint64;
        a->index[k].size = o->size;
        a->index[k].room = o->room;
    }
}

static void share_out(struct lookup_call *c)
{
    c->team = gpu_power_of_two(c->slice, LOOKUP_THREADS);
    c->width = LOOKUP_THREADS / c->team;
    bool several = c->slice <= c->team;
    c->next_lookup = several ? c->width : 0;
    c->next_element = several ? 0 : c->team;
    c->block_lookups = several ? LOOKUP_EACH * (int64_t)c->width : c->width;
    c->block_elements = several ? c->team : LOOKUP_EACH * (int64_t)c->team;
    c->pieces = ceil_div(c->slice, c->block_elements);
}

/* Elements are as wide as layout and addresses allow, if they may be: how wide is returned. */
static size_t describe(struct lookup_call *c, const struct run *r, const struct lookup_plan *p, mx far, mx near,
                       bool wide)
{
    struct box slice = { .item = itemsize(far), .ndim = p->sdim };
    int64_t others[2 * MX_MAX_NDIM + NOTE_INDICES];
    size_t bytes = sizeof(int64_t);
    int n = 0;
    c->far = gpu_pointer(r, far);
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
        c->index[k].data = gpu_pointer(r, o->array);
        c->index[k].type = o->array->dtype;
        c->index[k].size = o->size;
        c->index[k].room = o->room;
        c->index[k].step = others[2 * p->ndim + k];
    }
    share_out(c);
    return slice.item;
}

/* gather and scatter: index arrays whose grid has more dimensions than kernels know become row-major. */
static int plan_several(const struct run *r, struct lookup_plan *p, mx far, mx near, struct ints axes,
                        mx_own hold[NOTE_INDICES])
{
    lookup_several(p, far, near, (int)axes.n, r->x + 1, axes);
    if (p->ndim <= LOOKUP_DIMS)
        return 0;
    mx index[NOTE_INDICES];
    for (int k = 0; k < axes.n; k++)
        if (is_nil(index[k] = gpu_row_major(r, r->x[1 + k], &hold[k])))
            return 1;
    lookup_several(p, far, near, (int)axes.n, index, axes);
    return 0;
}

static int64_t blocks_of(const struct lookup_call *c) { return ceil_div(c->count, c->block_lookups) * c->pieces; }

/* ---- gather */

/* Along an axis without elements no index is in range and none is the nearest. */
static bool nowhere(const struct lookup_plan *p)
{
    for (int k = 0; k < p->n; k++)
        if (p->index[k].room < 0)
            return true;
    return false;
}

static int gather(const struct run *r, const struct lookup_plan *p, const char *op, unsigned outside)
{
    static struct gpu_found found[5];
    mx y = r->y[0];
    struct lookup_call c = { .nothing = outside == OUTSIDE_NOTHING };
    bool empty = nowhere(p), for_mask = outside == OUTSIDE_FOR_MASK && !empty, any = false;
    bool fails = empty && !c.nothing, now = fails || for_mask || outside_fails();
    c.nothing |= empty;
    tell(&c.noting.about, op, fails ? OUTSIDE_NOWHERE : OUTSIDE_READ, p, y);
    size_t size = describe(&c, r, p, r->x[0], y, true);
    void *f = gpu_find_sized(gpu_of(r), found, "lookup", "gather", size);
    if (!f || gpu_noting(r, &c.noting, now ? NOTE_NOW : NOTE_LATER) ||
        gpu_launch(r->stream, r->node->op->name, f, blocks_of(&c), LOOKUP_THREADS, (void *[]){ &c }))
        return 1;
    gpu_launched_noting(r, &c.noting);
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
    mx_own hold[NOTE_INDICES] = { 0 };
    int failed = gpu_out_new(r, 0);
    if (!failed && r->y[0]->size)
        failed = plan_several(r, &p, r->x[0], r->y[0], a->axes, hold) ||
                 gather(r, &p, index_asker("gather", a->asker), a->outside);
    for (int k = 0; k < NOTE_INDICES; k++) mx_drop(&hold[k]);
    return failed;
}

int gpu_run_gather_axis(const struct run *r)
{
    const struct gather_axis_args *a = r->args;
    struct lookup_plan p;
    if (gpu_out_new(r, 0) || r->y[0]->size == 0)
        return mx_failed();
    lookup_axis(&p, r->x[0], r->y[0], r->x[1], a->axis);
    return gather(r, &p, index_asker("take_along_axis", a->asker), a->outside);
}
