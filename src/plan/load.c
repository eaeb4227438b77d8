/* load.c: see load.h. */
#include "plan/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/pool.h"

enum { GRAIN = 256 << 10 }; /* bytes that are worth a thread; of any type whole elements */

struct reading {
    struct source *from;
    uint8_t *to;
    uint64_t n, offset;
    enum dtype dtype;
    bool swap;
    pthread_mutex_t lock;
    enum mx_error error; /* the first one, of whichever thread */
    char *message;
};

static void read_range(void *ctx, int64_t begin, int64_t end)
{
    struct reading *r = ctx;
    uint64_t from = (uint64_t)begin, n = (uint64_t)(end - begin);
    if (source_read(r->from, r->to + from, n, r->offset + from)) {
        load_finish(r->to + from, n, r->dtype, r->swap);
        return;
    }
    pthread_mutex_lock(&r->lock);
    if (r->error == MX_OK) {
        r->error = mx_error_kind();
        r->message = mx_try_strdup(mx_error_message());
    }
    pthread_mutex_unlock(&r->lock);
    mx_error_clear();
}

int load_read(struct source *from, void *to, uint64_t n, uint64_t offset, enum dtype t, bool swap)
{
    if (n == 0)
        return 0;
    struct reading r = { from, to, n, offset, t, swap, .error = MX_OK };
    pthread_mutex_init(&r.lock, NULL);
    if (load_in_parts(from))
        pool_for((int64_t)n, GRAIN, read_range, &r);
    else
        read_range(&r, 0, (int64_t)n);
    pthread_mutex_destroy(&r.lock);
    if (r.error != MX_OK)
        mx_fail_as(r.error, "%s", r.message ? r.message : "[load] out of memory");
    free(r.message);
    return r.error != MX_OK;
}
