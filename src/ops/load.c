/* load.c: arrays whose bytes are somewhere else until they are evaluated.
 *
 * A loaded array has no operands: to every transform it is a constant.  A slice of one that was not
 * evaluated loads its own rows alone. */
#include "ops/load.h"

#include <string.h>

#include "core/buffer.h"
#include "core/node.h"
#include "ops/rules.h"

static const struct field load_args_fields[] = { FIELD(load_args, from),  FIELD(load_args, offset),
                                                 FIELD(load_args, shape), ENUM(load_args, dtype, DT_COUNT - 1),
                                                 FIELD(load_args, swap),  { 0 } };

static int load_shapes(const struct call *c, struct spec out[])
{
    const struct load_args *a = c->args;
    int shape[MX_MAX_NDIM];
    for (int i = 0; i < a->shape.n; i++) shape[i] = (int)a->shape.v[i];
    return spec_set(out, a->dtype, a->shape.n, shape);
}

const struct op op_load = { OP_ROW(load), ARGS(load_args), .shapes = load_shapes };

static void swap_bytes(uint8_t *p, size_t bytes, size_t item)
{
#define SWAP(bits)                                 \
    for (size_t i = 0; i < bytes; i += bits / 8) { \
        uint##bits##_t v;                          \
        memcpy(&v, p + i, sizeof v);               \
        v = __builtin_bswap##bits(v);              \
        memcpy(p + i, &v, sizeof v);               \
    }
    switch (item) {
    case 2: SWAP(16) break;
    case 4: SWAP(32) break;
    case 8: SWAP(64) break;
    default: break;
    }
}

void load_finish(void *data, size_t bytes, enum dtype t, bool swap)
{
    uint8_t *p = data;
    if (t == DT_bool_)
        for (size_t i = 0; i < bytes; i++) p[i] = p[i] != 0;
    if (swap)
        swap_bytes(p, bytes, t == DT_complex64 ? 4 : dtype_size(t));
}

int64_t load_bytes(const struct source *from, uint64_t offset, int ndim, const int *shape, enum dtype t)
{
    int64_t n = (int64_t)dtype_size(t);
    bool none = false;
    for (int i = 0; i < ndim; i++) {
        none |= shape[i] == 0;
        if (shape[i] && __builtin_mul_overflow(n, (int64_t)shape[i], &n)) {
            mx_fail("[load] %s: offset %llu: shape %s of %s is larger than any memory", from->label,
                    (unsigned long long)offset, shape_text(ndim, shape), dtype_name(t));
            return -1;
        }
    }
    return none ? 0 : n;
}

bool source_read(struct source *s, void *data, uint64_t n, uint64_t offset)
{
    if (!s->bytes)
        return s->read(s, data, n, offset);
    memcpy(data, s->bytes + offset, n);
    return true;
}

static void let_go(void *source) { object_release(source); }

/* An array in the source's own memory, which is never written to. */
static mx load_in_place(struct source *from, const uint8_t *bytes, size_t n, int ndim, const int *shape, enum dtype t)
{
    struct buffer *b = buffer_wrap((void *)(uintptr_t)bytes, n, false, let_go, from);
    if (!b)
        return MX_NIL;
    object_retain(&from->object);
    return array_of_buffer(t, ndim, shape, b);
}

static mx load_now(struct source *from, uint64_t offset, size_t n, int ndim, const int *shape, enum dtype t, bool swap)
{
    struct buffer *b = buffer_new(n);
    if (!b)
        return MX_NIL;
    if (n && !source_read(from, b->host, n, offset)) {
        buffer_release(b);
        return MX_NIL;
    }
    load_finish(b->host, n, t, swap);
    return array_of_buffer(t, ndim, shape, b);
}

bool load_inside(const struct source *from, uint64_t offset, uint64_t n, int ndim, const int *shape, enum dtype t,
                 enum mx_error kind)
{
    if (offset <= from->size && n <= from->size - offset)
        return true;
    mx_fail_as(kind, "[load] %s: shape %s of %s needs %llu bytes at offset %llu, where there are %llu", from->label,
               shape_text(ndim, shape), dtype_name(t), (unsigned long long)n, (unsigned long long)offset,
               (unsigned long long)(offset < from->size ? from->size - offset : 0));
    return false;
}

mx mx_load_late(struct source *from, uint64_t offset, int ndim, const int *shape, enum dtype t, bool swap)
{
    enum { FEW = 256 };
    int64_t bytes = load_bytes(from, offset, ndim, shape, t), v[MX_MAX_NDIM];
    uint64_t n = (uint64_t)bytes;
    if (bytes < 0 || ((from->eager || from->bytes) && !load_inside(from, offset, n, ndim, shape, t, MX_VALUE)))
        return MX_NIL;
    size_t align = t == DT_complex64 ? sizeof(float) : dtype_size(t);
    if (from->bytes && !swap && t != DT_bool_ && n > FEW && (uintptr_t)(from->bytes + offset) % align == 0)
        return load_in_place(from, from->bytes + offset, n, ndim, shape, t);
    if (from->eager || (from->bytes && n <= FEW))
        return load_now(from, offset, n, ndim, shape, t, swap);
    struct load_args a = { &from->object, (int64_t)offset, ints_of(ndim, shape, v), t, swap };
    return mx_infer(&op_load, &a, 0, NULL);
}

mx mx_load(struct source *from, uint64_t offset, int ndim, const int *shape, enum dtype t)
{
    int64_t bytes = load_bytes(from, offset, ndim, shape, t);
    return bytes >= 0 && load_inside(from, offset, (uint64_t)bytes, ndim, shape, t, MX_VALUE)
               ? mx_load_late(from, offset, ndim, shape, t, false)
               : MX_NIL;
}

mx load_rows(mx x, int axis, const int *first, int count)
{
    struct load_args a;
    graph_lock();
    bool is = x->status == LAZY && x->node && x->node->op == &op_load;
    if (is) {
        a = *(const struct load_args *)x->node->args;
        object_retain(a.from);
    }
    graph_unlock();
    if (!is)
        return NULL;
    int shape[MX_MAX_NDIM];
    int64_t inner = 1, at = 0;
    for (int i = x->ndim; i-- > 0;) {
        at += i <= axis ? first[i] * inner : 0;
        inner *= x->shape[i];
        shape[i] = i < axis ? 1 : i == axis ? count : x->shape[i];
    }
    mx y = mx_load_late((struct source *)a.from, (uint64_t)(a.offset + at * (int64_t)itemsize(x)), x->ndim, shape,
                        a.dtype, a.swap);
    object_release(a.from);
    return y;
}
