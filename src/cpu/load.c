/* load.c: bytes of a source into memory, by several threads, or as the source's own pages. */
#include "plan/load.h"

#include "cpu/run.h"
#include "plan/result.h"

int run_load(const struct run *r)
{
    const struct load_args *a = r->args;
    struct source *from = (struct source *)a->from;
    mx y = r->y[0];
    uint64_t n = (uint64_t)nbytes(y), offset = (uint64_t)a->offset;
    size_t align = y->dtype == DT_complex64 ? sizeof(float) : itemsize(y);
    if (!load_inside(from, offset, n, y->ndim, y->shape, y->dtype, MX_RUNTIME))
        return 1;
    if (from->map && n && !a->swap && y->dtype != DT_bool_ && (from->base + offset) % align == 0) {
        struct buffer *b = from->map(from, offset, n);
        if (b)
            return result_in(y, b), 0;
        if (mx_failed())
            return 1;
    }
    return out_new(r, 0) || load_read(from, host(y), n, offset, y->dtype, a->swap);
}
