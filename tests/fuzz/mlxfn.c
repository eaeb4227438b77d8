/* Exported functions that are cut off, changed and put together wrongly: an error each, or a function
 * that can be called; never a crash.
 *
 * As a test it changes files of its own in a fixed way.  With arguments, `mlxfn SECONDS [FILE...]`, it goes
 * on for that long, from a seed it prints; built with -DLIBFUZZER it is a target of that fuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "ops/ops.h"
#include "ops/random.h"
#include "transform/control.h"
#include "transform/eval.h"
#include "transform/export.h"
#include "transform/walk.h"

/* Is the graph small enough to be computed for the fun of it? */
static bool is_small(int n, const mx y[])
{
    struct recording r;
    int64_t all = 0;
    if (record(&r, n, y, 0, NULL, false)) {
        mx_error_clear();
        return false;
    }
    for (int i = 0; i < r.n_values; i++)
        all += r.values[i].it->size < 1 << 20 ? r.values[i].it->size : 1 << 24;
    bool small = all < 1 << 22 && r.n < 4096;
    for (int i = 0; i < r.n; i++) { /* which may go on for ever */
        enum op_id id = r.entries[i].node->op->id;
        small = small && id != OP_scan_loop && id != OP_while_loop;
    }
    recording_free(&r);
    return small;
}

static long called, imported_well;

static void call(struct imported *f)
{
    /* Arguments of the files below. */
    struct mx_list in = { 0 }, y = { 0 };
    const char *const keys[] = { "scale" };
    {
        MX_SCOPE(NULL);
        mx x = mx_reshape(mx_arange(0, 12, 1, DT_float32), 2, (int[]){ 3, 4 });
        list_push(&in, x);
        list_push(&in, array_of_double(2, DT_float32));
    }
    for (int named = 0; named < 2; named++) {
        if (!imported_call(f, 1, named, keys, (mx *)in.v, &y) && is_small(y.n, (mx *)y.v)) {
            called++;
            for (int k = 0; k < y.n; k++)
                if (mx_wait_host(y.v[k].it))
                    mx_error_clear();
        }
        mx_error_clear();
        list_clear(&y);
    }
    list_clear(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct imported *f = imported_of_bytes(data, n, "fuzz");
    if (f) {
        imported_well++;
        call(f);
    } else if (!mx_failed()) {
        abort(); /* a failure says why */
    }
    mx_error_clear();
    imported_release(f);
    return 0;
}

#ifndef LIBFUZZER

/* ---- files to begin with */

enum { FUNCTIONS = 8 };
static int which;

static int loop_body(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    (void)self;
    MX_SCOPE(NULL);
    mx y = mx_add(mx_sin(x[0]), x[n - 1]);
    return list_push(out, y) || (n > 1 && list_push(out, mx_sum(y, NULL, 0, false)));
}

/* A loop over the rows of x, then one of two ways. */
static int loops(mx x, struct mx_list *out)
{
    struct closure f = { { .refs = 1 }, loop_body };
    mx row = mx_squeeze(mx_slice(x, (int[]){ 0, 0 }, (int[]){ 1, 4 }, NULL), (int[]){ 0 }, 1);
    struct mx_list y = { 0 };
    int bad = mx_scan_loop(&f, 1, &row, 1, &x, -1, false, &y) ||
              mx_cond(mx_less(mx_sum(x, NULL, 0, false), array_of_int(3, DT_float32)), &f, &f, 1, &row, &y);
    for (int k = 0; k < y.n && !bad; k++)
        bad = list_push(out, y.v[k].it);
    list_clear(&y);
    return bad;
}

static int function(struct named_function *self, int n_pos, int n_keys, const char *const keys[], const mx a[],
                    struct mx_list *out)
{
    (void)self, (void)n_pos, (void)keys;
    MX_SCOPE(NULL);
    mx x = n_keys ? mx_multiply(a[0], a[1]) : a[0], y[4] = { x };
    int n = 1;
    if (which == 7)
        return loops(x, out);
    switch (which) {
    case 0:
        y[0] = mx_softmax(mx_matmul(x, mx_transpose(x, NULL, 0)), (int[]){ -1 }, 1, true);
        y[n++] = mx_sum(x, (int[]){ 0 }, 1, false);
        break;
    case 1:
        n = mx_split(x, 2, 1, y);
        y[1] = mx_slice(y[1], (int[]){ 2, 0 }, (int[]){ -4, 2 }, (int[]){ -1, 1 });
        y[n++] = mx_sort(mx_pad(x, (int[]){ 1 }, 1, (int[]){ 1 }, (int[]){ 2 }, NULL, PAD_CONSTANT), 0);
        break;
    case 2: {
        mx at = array_of_data(DT_int32, 1, (int[]){ 2 }, (int32_t[]){ 2, 0 });
        y[0] = mx_gather(x, &at, (int[]){ 0 }, 1, (int[]){ 1, 4 });
        y[n++] = mx_scatter(x, &at, (int[]){ 0 }, 1, mx_negative(y[0]), SCATTER_ADD);
        y[n++] = mx_take_along_axis(x, mx_argsort(x, 1), 1);
        break;
    }
    case 3: {
        mx z = mx_reshape(x, 3, (int[]){ 1, 6, 2 }), w = mx_ones(3, (int[]){ 2, 3, 2 }, DT_float32);
        struct conv g = { 1, (int[]){ 1 }, (int[]){ 1 }, (int[]){ 1 }, (int[]){ 1 }, (int[]){ 1 }, 1, false };
        y[0] = mx_conv("conv", z, w, &g);
        y[n++] = mx_as_strided(x, 2, (int[]){ 3, 3 }, (int64_t[]){ 2, 1 }, 1);
        y[n++] = mx_view(x, DT_int16);
        y[n++] = mx_real(mx_fftn(x, FFT_REAL, false, NULL, 0, (int[]){ 1 }, 1, FFT_BACKWARD));
        break;
    }
    case 4: {
        mx q[3];
        mx_qr(x, q);
        y[0] = q[1];
        y[n++] = mx_solve(mx_add(mx_matmul(x, mx_transpose(x, NULL, 0)), mx_eye(3, 3, 0, DT_float32)), x);
        y[n++] = mx_to_fp8(x);
        y[n++] = mx_cumsum(x, 1, true, false);
        break;
    }
    case 5: {
        mx row = mx_ones(1, (int[]){ 4 }, DT_float32), q = mx_reshape(x, 4, (int[]){ 1, 1, 3, 4 });
        y[0] = mx_layer_norm(mx_rms_norm(x, row, 1e-5), row, row, 1e-5);
        y[n++] = mx_rope(q, 4, false, &(double){ 100 }, 1, array_of_int(2, DT_int32), NULL);
        y[n++] = mx_attention(y[1], q, q, 0.5, true, mx_ones(2, (int[]){ 3, 3 }, DT_bool_),
                              mx_ones(1, (int[]){ 1 }, DT_float32));
        break;
    }
    default: {
        mx w[3], big = mx_ones(2, (int[]){ 32, 64 }, DT_float32);
        int parts = mx_quantize(big, 32, 4, "affine", NULL, w);
        mx left = parts < 0 ? MX_NIL : mx_ones(2, (int[]){ 3, 64 }, DT_float32);
        y[0] = mx_quantized_matmul(left, w[0], w[1], w[2], true, 32, 4, "affine");
        y[0] = mx_add(mx_sum(y[0], (int[]){ 1 }, 1, true), x);
        y[n++] = mx_random_bits(1, (int[]){ 5 }, 4, mx_random_key(3));
    }
    }
    for (int k = 0; k < n; k++)
        if (is_nil(y[k]) || list_push(out, y[k]))
            return 1;
    return 0;
}

static void nothing(struct object *o) { (void)o; }

static uint8_t *file_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        exit((perror(path), 2));
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*n + 1);
    if (!bytes || fread(bytes, 1, *n, f) != *n)
        exit((perror(path), 2));
    fclose(f);
    return bytes;
}

static uint8_t *seed_file(int i, size_t *n)
{
    char path[] = "/tmp/mlxfn.XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        exit((perror(path), 2));
    close(fd);
    which = i;
    struct named_function f = { { .refs = 1, .destroy = nothing }, function };
    struct exporter *e = exporter_new(path, &f, i == 0, false, "fuzz", 4);
    const char *const keys[] = { "scale" };
    int failed = !e;
    {
        MX_SCOPE(NULL);
        mx x[2] = { mx_zeros(2, (int[]){ 3, 4 }, DT_float32), array_of_double(1, DT_float32) };
        failed = failed || exporter_trace(e, 1, 0, keys, x) || exporter_trace(e, 1, 1, keys, x);
    }
    if (failed || exporter_close(e, true)) {
        fprintf(stderr, "function %d: %s\n", i, mx_error_message());
        exit(2);
    }
    exporter_free(e);
    uint8_t *bytes = file_bytes(path, n);
    unlink(path);
    return bytes;
}

/* ---- changes */

static uint64_t state = 88172645463325252u;

static uint32_t draw(uint32_t n) /* xorshift64 */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % n;
}

static void every_byte(const uint8_t *data, size_t n)
{
    static const uint8_t other[] = { 0xff, 0x80, 1, 0x7f };
    uint8_t *copy = malloc(n);
    memcpy(copy, data, n);
    for (size_t i = 0; i < n; i++) {
        LLVMFuzzerTestOneInput(data, i); /* cut off */
        for (size_t k = 0; k < sizeof other; k++) {
            copy[i] = data[i] ^ other[k];
            LLVMFuzzerTestOneInput(copy, n);
        }
        copy[i] = data[i];
    }
    free(copy);
}

/* Numbers of interest at some places, parts moved. */
static void mutate(const uint8_t *data, size_t n)
{
    static const int64_t odd[] = { 0, 1, -1, 2, 64, 65, 127, 255, 4096, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 3 };
    uint8_t *copy = malloc(n);
    memcpy(copy, data, n);
    for (uint32_t k = 1 + draw(4); k > 0; k--) {
        size_t at = draw((uint32_t)n), size = (size_t[]){ 1, 4, 8 }[draw(3)];
        if (size > n - at)
            continue;
        int64_t v = odd[draw(sizeof odd / sizeof *odd)];
        if (draw(4))
            memcpy(copy + at, &v, size);
        else
            memmove(copy + at, copy + draw((uint32_t)(n - size)), size);
    }
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    int n_files = argc > 2 ? argc - 2 : FUNCTIONS;
    if (seconds > 0)
        state ^= (uint64_t)time(NULL) << 20;
    printf("from %llu\n", (unsigned long long)state);
    clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    do {
        for (int i = 0; i < n_files; i++) {
            size_t n;
            uint8_t *bytes = argc > 2 ? file_bytes(argv[2 + i], &n) : seed_file(i, &n);
            long before = called;
            LLVMFuzzerTestOneInput(bytes, n);
            if (argc <= 2 && i < 7 && called != before + 2) {
                fprintf(stderr, "function %d cannot be called\n", i);
                return 1;
            }
            if (seconds == 0)
                every_byte(bytes, n);
            for (int k = 0; k < 2000; k++)
                mutate(bytes, n);
            free(bytes);
        }
    } while (clock() < end);
    printf("%ld changed files could be imported, %ld calls be made\n", imported_well, called);
    return array_live_count() != 0;
}
#endif
