/* load.c: bytes of a source into memory, by several threads, or as the source's own pages. */
#include "ops/load.h"
#include "plan/result.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/run.h"

struct reading {
    struct source *from;
    uint8_t *to;
    uint64_t n, offset, grain;
    pthread_mutex_t lock;
    enum mx_error error; /* the first one, of whichever thread */
    char *message;
};

static void read_pieces(void *ctx, int64_t begin, int64_t end)
{
    struct reading *r = ctx;
    uint64_t from = (uint64_t)begin * r->grain, to = (uint64_t)end * r->grain;
    to = to < r->n ? to : r->n;
    if (source_read(r->from, r->to + from, to - from, r->offset + from))
        return;
    pthread_mutex_lock(&r->lock);
    if (r->error == MX_OK) {
        r->error = mx_error_kind();
        r->message = strdup(mx_error_message());
    }
    pthread_mutex_unlock(&r->lock);
    mx_error_clear();
}

static int read_source(struct source *from, void *to, uint64_t n, uint64_t offset)
{
    if (n == 0)
        return 0;
    if (from->grain == 0 || n < 2 * from->grain)
        return !source_read(from, to, n, offset);
    struct reading r = { from, to, n, offset, from->grain, .error = MX_OK };
    pthread_mutex_init(&r.lock, NULL);
    pool_for((int64_t)((n + r.grain - 1) / r.grain), 1, read_pieces, &r);
    pthread_mutex_destroy(&r.lock);
    if (r.error != MX_OK)
        mx_fail_as(r.error, "%s", r.message ? r.message : "");
    free(r.message);
    return r.error != MX_OK;
}

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
    if (out_new(r, 0) || read_source(from, host(y), n, offset))
        return 1;
    load_finish(host(y), n, y->dtype, a->swap);
    return 0;
}
