/* Exported functions that are cut off, changed and put together wrongly: an error each, or a function
 * that can be called; never a crash. */
#include "support/fuzz.h"

#include "mlxfn/export.h"
#include "ops/ops.h"
#include "transform/walk.h"

const char fuzz_format[] = "mlxfn";

/* Is the graph small enough to be computed for the fun of it? */
static bool is_small(int n, const mx y[])
{
    struct recording r;
    int64_t all = 0;
    if (record(&r, n, y, 0, NULL, false)) {
        mx_error_clear();
        return false;
    }
    for (int i = 0; i < r.n_values; i++) all += r.values[i].it->size < 1 << 20 ? r.values[i].it->size : 1 << 24;
    bool small = all < 1 << 22 && r.n < 4096;
    for (int i = 0; i < r.n; i++) { /* which may go on for ever */
        enum op_id id = r.entries[i].node->op->id;
        small = small && id != OP_scan_loop && id != OP_while_loop;
    }
    recording_free(&r);
    return small;
}

static void call(struct imported *f)
{
    /* What the seeds take. */
    struct mx_list in = { 0 }, y = { 0 };
    const char *const keys[] = { "scale" };
    {
        MX_SCOPE(NULL);
        mx x = mx_reshape(mx_arange(0, 12, 1, DT_float32), 2, (int[]){ 3, 4 });
        list_push(&in, x);
        list_push(&in, array_of_double(2, DT_float32));
    }
    for (int named = 0; named < 2; named++) {
        bool called = !imported_call(f, 1, named, keys, (mx *)in.v, &y);
        fuzz_evaluated += called;
        if (called && is_small(y.n, (mx *)y.v))
            for (int k = 0; k < y.n; k++)
                if (mx_wait_host(y.v[k].it))
                    mx_error_clear();
        mx_error_clear();
        list_clear(&y);
    }
    list_clear(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    long live = array_live_count();
    struct imported *f = imported_of_bytes(data, n, "fuzz");
    if (f) {
        fuzz_loaded++;
        call(f);
    } else if (!mx_failed()) {
        abort(); /* a failure says why */
    }
    mx_error_clear();
    imported_release(f);
    if (array_live_count() != live)
        abort();
    return 0;
}
