/* Arrays that are still in files: what fails on the way leaves nothing behind; parts; sources of sources. */
#include <fcntl.h>
#include <unistd.h>

#include "support/heard.h"

#include "core/buffer.h"
#include "core/scope.h"
#include "io/gguf.h"
#include "io/io.h"
#include "ops/ops.h"
#include "run/eval.h"

static int open_files(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Loads a file and evaluates every array and a part of it. */
static int read_whole(const char *path)
{
    struct archive a = { 0 };
    struct gguf g = { 0 };
    bool npy = strstr(path, ".npy"), gguf = strstr(path, ".gguf");
    int failed;
    {
        MX_SCOPE(NULL);
        failed = npy                    ? archive_add(&a, "x", npy_load_file(path))
                 : gguf                 ? gguf_load_file(path, false, &g)
                 : strstr(path, ".npz") ? npz_load_file(path, &a)
                                        : safetensors_load_file(path, &a);
    }
    struct archive *all = gguf ? &g.tensors : &a;
    for (int i = 0; i < all->n && !failed; i++) {
        MX_SCOPE(NULL);
        mx x = all->arrays[i].array.it, part = x;
        if (x->ndim && x->shape[0]) {
            int from[MX_MAX_NDIM] = { 0 }, to[MX_MAX_NDIM];
            memcpy(to, x->shape, (size_t)x->ndim * sizeof *to);
            from[0] = to[0] - 1;
            part = mx_slice(x, from, to, NULL);
        }
        failed = is_nil(part) || mx_wait_host(part) || mx_wait_host(x);
    }
    archive_free(&a);
    gguf_free(&g);
    return failed;
}

static void without_memory(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "tests/fuzz/seeds/two.npy",      "tests/fuzz/seeds/two.safetensors", "tests/fuzz/seeds/stored.npz",
        "tests/fuzz/seeds/deflated.npz", "tests/fuzz/seeds/all.gguf",
    };
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
        assert_int_equal(read_whole(paths[k]), 0);
        long live = array_live_count(), n = 1;
        int files = open_files(), failed = 1;
        for (; failed && n < 5000; n++) {
            mx_test_fail_at(n);
            failed = read_whole(paths[k]);
            mx_test_fail_at(0);
            if (failed != mx_failed())
                fail_msg("%s, allocation %ld: failed %d, said %d", paths[k], n, failed, mx_failed());
            mx_error_clear();
            assert_int_equal(array_live_count(), live);
            assert_int_equal(open_files(), files);
        }
        assert_int_equal(failed, 0);
        assert_true(n > 5);
    }
}

/* Bytes that count from 0, and say how many of them were asked for. */
struct counting {
    struct source source;
    uint64_t asked;
};

static bool count_read(struct source *self, void *data, uint64_t n, uint64_t offset)
{
    struct counting *c = (struct counting *)self;
    c->asked += n;
    for (uint64_t i = 0; i < n; i++) ((uint8_t *)data)[i] = (uint8_t)(offset + i);
    return true;
}

static void kept(struct object *o) { (void)o; }

static void parts(void **state)
{
    (void)state;
    struct counting c = { { .object = { 1, kept }, .label = "numbers", .size = 240, .read = count_read }, 0 };
    {
        MX_SCOPE(NULL);
        mx x = mx_load(&c.source, 40, 3, (int[]){ 10, 4, 5 }, DT_uint8);
        assert_int_equal(c.asked, 0);
        mx y = mx_slice(x, (int[]){ 7, 3, 4 }, (int[]){ 8, 0, 0 }, (int[]){ 1, -2, -3 });
        assert_int_equal(mx_wait_host(y), 0);
        assert_int_equal(c.asked, 15); /* rows 1 to 3 of the one that it needs */
        assert_int_equal(y->size, 4);
        y = mx_contiguous(y, false);
        assert_int_equal(mx_wait_host(y), 0);
        const uint8_t *v = array_host(y);
        for (int i = 0; i < 4; i++) assert_int_equal(v[i], 40 + 7 * 20 + (i < 2 ? 3 : 1) * 5 + (i % 2 ? 1 : 4));
        struct source *part = source_part(&c.source, "part", 200, 40);
        mx z = mx_load_late(part, 8, 1, (int[]){ 8 }, DT_uint32, true);
        assert_true(is_nil(mx_load(part, 9, 1, (int[]){ 8 }, DT_uint32)));
        assert_non_null(strstr(mx_error_message(), "numbers: part"));
        mx_error_clear();
        source_release(part);
        assert_int_equal(mx_wait_host(z), 0);
        assert_int_equal(((const uint32_t *)array_host(z))[1], 212u << 24 | 213 << 16 | 214 << 8 | 215);
    }
    assert_int_equal(atomic_load(&c.source.object.refs), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory),
        cmocka_unit_test(parts),
    };
    return cmocka_run_group_tests(tests, start_listening, all_gone);
}
