/* load.c: arrays whose bytes lie in memory that somebody else owns. */
#include "ops/load.h"

#include <string.h>

#include "core/buffer.h"
#include "ops/rules.h"

static const struct field load_args_fields[] = {
    FIELD(load_args, from), FIELD(load_args, offset), FIELD(load_args, shape), FIELD(load_args, dtype), { 0 }
};

static int load_shapes(const struct call *c, struct spec out[])
{
    const struct load_args *a = c->args;
    int shape[MX_MAX_NDIM];
    for (int i = 0; i < a->shape.n; i++) shape[i] = (int)a->shape.v[i];
    return spec_set(out, a->dtype, a->shape.n, shape);
}

const struct op op_load = { OP_ROW(load), ARGS(load_args), .shapes = load_shapes };

static void let_go(void *source) { object_release(source); }

/* An array in the source's own memory. */
static mx mapped(struct source *from, const uint8_t *bytes, size_t n, int ndim, const int *shape, enum dtype t)
{
    /* Foreign memory that is not writable is never written to. */
    struct buffer *b = buffer_wrap((void *)(uintptr_t)bytes, n, false, let_go, from);
    if (!b)
        return MX_NIL;
    object_retain(&from->object);
    return array_of_buffer(t, ndim, shape, b);
}

mx mx_load(struct source *from, uint64_t offset, int ndim, const int *shape, enum dtype t)
{
    enum { FEW = 256 };
    int64_t size = shape_size("load", ndim, shape), v[MX_MAX_NDIM];
    if (size < 0)
        return MX_NIL;
    uint64_t n = (uint64_t)size * dtype_size(t);
    if (offset > from->size || n > from->size - offset)
        return mx_fail("[load] expected %llu bytes at offset %llu of %llu", (unsigned long long)n,
                       (unsigned long long)offset, (unsigned long long)from->size);
    const uint8_t *bytes = from->bytes + offset;
    if (t != DT_bool_ && n <= FEW)
        return array_of_data(t, ndim, shape, bytes);
    size_t align = t == DT_complex64 ? sizeof(float) : dtype_size(t);
    if (t != DT_bool_ && (uintptr_t)bytes % align == 0)
        return mapped(from, bytes, n, ndim, shape, t);
    struct load_args a = { &from->object, (int64_t)offset, ints_of(ndim, shape, v), t };
    return mx_infer(&op_load, &a, 0, NULL);
}
