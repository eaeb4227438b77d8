/* fuzz_archive.c: readers of arrays on bytes that may be anything, in each way there is to read. */
#include "support/fuzz.h"

#include "ops/ops.h"

enum { MOST = 1 << 22 }; /* bytes of arrays that are worth evaluating */

int fuzz_way = -1;
long fuzz_loaded, fuzz_evaluated;

static int64_t bytes_of(const struct archive *a)
{
    int64_t n = 0;
    for (int i = 0; i < a->n && n < MOST; i++) {
        int64_t more = nbytes(a->arrays[i].array.it);
        n += more < MOST ? more : MOST;
    }
    return n;
}

/* The last row, which of a lazy array is read alone, then all of it. */
static void evaluate(mx x)
{
    int from[MX_MAX_NDIM] = { 0 }, to[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++) to[i] = x->shape[i];
    if (x->ndim && x->shape[0] > 1) {
        MX_SCOPE(NULL);
        from[0] = to[0] - 1;
        mx row = mx_slice(x, from, to, NULL);
        if (is_nil(row) || mx_wait_host(row))
            mx_error_clear();
    }
    if (mx_wait_host(x))
        mx_error_clear();
}

static bool callback(struct source *s, void *data, uint64_t n, uint64_t offset)
{
    memcpy(data, *(const uint8_t *const *)(s + 1) + offset, n);
    return true;
}

static void kept(struct object *o) { (void)o; }

int fuzz_archive(const uint8_t *data, size_t n, int (*read)(struct source *s, int way, struct archive *a))
{
    long live = array_live_count();
    int way = fuzz_way < 0 ? (int)(n & 7) : fuzz_way;
    /* From memory or through a function, now or when an array is evaluated. */
    struct {
        struct source s;
        const uint8_t *data;
    } in = { { .object = { 1, kept },
               .label = "fuzz",
               .size = n,
               .bytes = way & 1 ? NULL : data,
               .eager = way & 2,
               .read = callback },
             data };
    {
        MX_SCOPE(NULL);
        struct archive a = { 0 };
        int failed = read(&in.s, way, &a);
        if (!failed != !mx_failed())
            abort(); /* a failure says why */
        mx_error_clear();
        fuzz_loaded += !failed;
        if (!failed && bytes_of(&a) < MOST) {
            fuzz_evaluated++;
            for (int i = 0; i < a.n; i++) evaluate(a.arrays[i].array.it);
        }
        archive_free(&a);
    }
    if (atomic_load(&in.s.object.refs) != 1 || array_live_count() != live)
        abort();
    return 0;
}
