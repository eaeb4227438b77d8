/* When the n-th allocation fails, for every n: a call reports one error, leaves its result as it
 * was, and nothing leaks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buffer.h"
#include "support/heard.h"

static mlx_stream s;

/* Texts that are streams: glibc's first allocation for one that fails leaves NULL, and no error. */
static long stream_to_fail;
static void fail_stream_at(long n) { stream_to_fail = n; }
__attribute__((visibility("default"))) FILE *open_memstream(char **text, size_t *size)
{
    if (!stream_to_fail || --stream_to_fail)
        return ((FILE * (*)(char **, size_t *)) dlsym(RTLD_NEXT, "open_memstream"))(text, size);
    *text = NULL;
    *size = 0;
    return fopen("/dev/null", "w");
}

/* Runs a sequence of calls for each n until it gets by without failing.  It returns 0 or, after a
 * failure, non-zero, and frees everything either way. */
static void sweep(int (*calls)(void), void (*fail_at)(long), long least)
{
    OK(calls()); /* what is made once, such as workers, is there now */
    for (long n = 1;; n++) {
        long live = array_live_count();
        fail_at(n);
        int failed = calls();
        fail_at(0);
        if (!failed) {
            expect_heard(0, "");
            assert_true(n > least); /* at least that many allocations */
            return;
        }
        expect_heard(1, " allocate"); /* could not, or the system cannot */
        assert_int_equal(array_live_count(), live);
        assert_true(n < 10000);
    }
}

/* Fails without an array where there should be one. */
static int made(const void *ctx) { return ctx == NULL; }

static int arrays(void)
{
    const float v[] = { 1, 2, 3 };
    const int n = 3;
    mlx_array a = mlx_array_new_data(v, &n, 1, MLX_FLOAT32), b = mlx_array_new();
    int failed = made(a.ctx) || mlx_array_set(&b, a) || mlx_array_set_int(&a, 4) || mlx_exp(&b, b, s) ||
                 mlx_array_eval(b) || mlx_add(&b, a, b, s) || mlx_array_set_float(&b, 2);
    mlx_array_free(a);
    mlx_array_free(b);
    return failed;
}

static void end(void *payload) { ++*(int *)payload; }

static int foreign(void)
{
    static float v[] = { 1, 2, 3 };
    const int n = 3;
    int ended = 0;
    mlx_array a = mlx_array_new_data_managed_payload(v, &n, 1, MLX_FLOAT32, &ended, end);
    int failed = made(a.ctx);
    mlx_array_free(a);
    assert_int_equal(ended, failed ? 0 : 1);
    return failed;
}

static int vectors(void)
{
    const char *words[] = { "one", "two" };
    char *word;
    mlx_array a = mlx_array_new_int(1);
    if (made(a.ctx))
        return 1;
    mlx_vector_array vec = mlx_vector_array_new_value(a), copy = { NULL };
    mlx_vector_vector_array outer = { NULL };
    mlx_vector_string texts = { NULL };
    int failed = made(vec.ctx);
    for (int i = 0; i < 20 && !failed; i++) failed = mlx_vector_array_append_value(vec, a);
    failed = failed || mlx_vector_array_set(&copy, vec);
    if (!failed)
        failed = made((outer = mlx_vector_vector_array_new_value(vec)).ctx);
    failed = failed || mlx_vector_vector_array_get(&copy, outer, 0);
    if (!failed)
        failed = made((texts = mlx_vector_string_new_data(words, 2)).ctx);
    failed = failed || mlx_vector_string_append_data(texts, words, 2) || mlx_vector_string_get(&word, texts, 3);
    mlx_array_free(a);
    mlx_vector_array_free(vec);
    mlx_vector_array_free(copy);
    mlx_vector_vector_array_free(outer);
    mlx_vector_string_free(texts);
    return failed;
}

static int maps(void)
{
    mlx_array a = mlx_array_new_int(1), r = mlx_array_new();
    mlx_map_string_to_array map = { NULL }, copy = { NULL };
    mlx_map_string_to_array_iterator it = { NULL, NULL };
    int failed = made(a.ctx);
    if (!failed)
        failed = made((map = mlx_map_string_to_array_new()).ctx);
    char key[16];
    for (int i = 0; i < 20 && !failed; i++) {
        snprintf(key, sizeof key, "k%d", i);
        failed = mlx_map_string_to_array_insert(map, key, a);
    }
    failed = failed || mlx_map_string_to_array_set(&copy, map) || mlx_map_string_to_array_get(&r, copy, "k19");
    if (!failed)
        failed = made((it = mlx_map_string_to_array_iterator_new(copy)).ctx);
    mlx_map_string_to_array_iterator_free(it);
    mlx_map_string_to_array_free(map);
    mlx_map_string_to_array_free(copy);
    mlx_array_free(a);
    mlx_array_free(r);
    return failed;
}

static int texts(void)
{
    mlx_string a = mlx_string_new_data("x"), b = mlx_string_new();
    if (made(a.ctx))
        return 1;
    mlx_device_info info = mlx_device_info_new();
    mlx_device dev = { NULL };
    mlx_vector_string keys = { NULL };
    int failed = mlx_string_set(&b, a) || mlx_version(&b) || mlx_get_default_device(&dev) ||
                 mlx_device_tostring(&b, dev) || mlx_device_info_get(&info, dev) ||
                 mlx_device_info_get_keys(&keys, info);
    mlx_string_free(a);
    mlx_string_free(b);
    mlx_device_free(dev);
    mlx_device_info_free(info);
    mlx_vector_string_free(keys);
    return failed;
}

static int cube(mlx_vector_array *res, const mlx_vector_array in, void *payload)
{
    (void)payload;
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_multiply(&y, x, x, s) || mlx_multiply(&y, y, x, s) ||
                 mlx_vector_array_append_value(*res, y);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

static int closures(void)
{
    const int first = 0;
    int ended = 0;
    mlx_array x = mlx_array_new_float(2);
    if (made(x.ctx))
        return 1;
    mlx_vector_array in = mlx_vector_array_new_value(x), y = { NULL }, dx = { NULL };
    mlx_closure f = { NULL };
    mlx_closure_value_and_grad g = { NULL };
    int failed = made(in.ctx);
    if (!failed)
        failed = made((f = mlx_closure_new_func_payload(cube, &ended, end)).ctx);
    bool has_payload = f.ctx != NULL;
    failed = failed || mlx_value_and_grad(&g, f, &first, 1) || mlx_closure_value_and_grad_apply(&y, &dx, g, in) ||
             mlx_eval(dx) || mlx_closure_apply(&y, f, in) || mlx_jvp(&y, &dx, f, in, in);
    mlx_array_free(x);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    mlx_closure_free(f);
    mlx_closure_value_and_grad_free(g);
    assert_int_equal(ended, has_payload ? 1 : 0);
    return failed;
}

static int rule(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array ct, const mlx_vector_array out)
{
    (void)x;
    (void)out;
    return mlx_vector_array_set(res, ct);
}

static int custom(void)
{
    mlx_array x = mlx_array_new_float(2);
    if (made(x.ctx))
        return 1;
    mlx_vector_array in = mlx_vector_array_new_value(x), y = { NULL }, dx = { NULL };
    mlx_closure f = { NULL }, g = { NULL };
    mlx_closure_custom r = { NULL };
    int failed = made(in.ctx);
    if (!failed)
        failed = made((f = mlx_closure_new_func_payload(cube, NULL, NULL)).ctx);
    if (!failed)
        failed = made((r = mlx_closure_custom_new_func(rule)).ctx);
    failed = failed || mlx_custom_vjp(&g, f, r) || mlx_vjp(&y, &dx, g, in, in);
    mlx_array_free(x);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_closure_custom_free(r);
    return failed;
}

static int jvp_rule(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array t, const int *argnums,
                    size_t n)
{
    (void)x, (void)argnums, (void)n;
    return mlx_vector_array_set(res, t);
}

static int vmap_rule(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array x, const int *in_axes,
                     size_t n)
{
    (void)n;
    return mlx_vector_array_set(res, x) || mlx_vector_int_append_value(*axes, in_axes[0]);
}

/* f under vmap, and derivatives of that. */
static int mapped(mlx_vector_array *res, const mlx_vector_array in, void *f)
{
    const int zero = 0;
    mlx_vector_array x = { NULL }, y = { NULL };
    int failed = mlx_detail_vmap_trace(&x, &y, *(mlx_closure *)f, in, &zero, 1) ||
                 mlx_detail_vmap_replace(res, in, x, y, &zero, 1, &zero, 1);
    mlx_vector_array_free(x);
    mlx_vector_array_free(y);
    return failed;
}

static int under_every_transform(mlx_closure f, mlx_vector_array in)
{
    mlx_vector_array y = { NULL }, dx = { NULL };
    mlx_closure v = { NULL }, push = { NULL }, pull = { NULL };
    int failed = made((v = mlx_closure_new_func_payload(mapped, &f, NULL)).ctx);
    failed = failed || mlx_vjp(&y, &dx, f, in, in) || mlx_jvp(&y, &dx, f, in, in) || mlx_closure_apply(&y, v, in) ||
             mlx_vjp(&y, &dx, v, in, in) || mlx_jvp(&y, &dx, v, in, in) || mlx_linearize(&y, &push, v, in) ||
             mlx_closure_apply(&y, push, in) || mlx_pullback(&y, &pull, v, in) || mlx_closure_apply(&dx, pull, in) ||
             mlx_eval(dx);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    mlx_closure_free(v);
    mlx_closure_free(push);
    mlx_closure_free(pull);
    return failed;
}

/* Functions with two results: those of arrays, and one of each other pair of types. */
enum { ARRAYS = 6, JVP = ARRAYS, LINEARIZE, VMAP_RULE, PATH, MAPS, PAIRS };

static struct {
    mlx_array matrix, key;
    mlx_vector_array in, two;
    mlx_closure f;
    mlx_closure_custom_vmap rule;
} given;

static int call(int pair, void **r0, void **r1)
{
    mlx_array *a = (mlx_array *)r0, *b = (mlx_array *)r1;
    mlx_vector_array *v = (mlx_vector_array *)r0;
    switch (pair) {
    case 0: return mlx_random_split(a, b, given.key, s);
    case 1: return mlx_linalg_qr(a, b, given.matrix, s);
    case 2: return mlx_linalg_eigh(a, b, given.matrix, "L", s);
    case 3: return mlx_linalg_lu_factor(a, b, given.matrix, s);
    case 4: return mlx_linalg_slogdet(a, b, given.matrix, s);
    case 5: return mlx_linalg_eig(a, b, given.matrix, s);
    case JVP: return mlx_jvp(v, (mlx_vector_array *)r1, given.f, given.in, given.in);
    case LINEARIZE: return mlx_linearize(v, (mlx_closure *)r1, given.f, given.in);
    case VMAP_RULE:
        return mlx_closure_custom_vmap_apply(v, (mlx_vector_int *)r1, given.rule, given.in, (int[]){ 0 }, 1);
    case PATH: return mlx_einsum_path((mlx_vector_int *)r0, (mlx_string *)r1, "ij,jk->ik", given.two);
    case MAPS:
        return mlx_load_safetensors((mlx_map_string_to_array *)r0, (mlx_map_string_to_string *)r1,
                                    "capi_alloc_two.safetensors", s);
    }
    return 1;
}

static void free_results(int pair, void *r0, void *r1)
{
    if (pair < ARRAYS)
        mlx_array_free((mlx_array){ r0 }), mlx_array_free((mlx_array){ r1 });
    else if (pair == JVP)
        mlx_vector_array_free((mlx_vector_array){ r0 }), mlx_vector_array_free((mlx_vector_array){ r1 });
    else if (pair == LINEARIZE)
        mlx_vector_array_free((mlx_vector_array){ r0 }), mlx_closure_free((mlx_closure){ r1 });
    else if (pair == VMAP_RULE)
        mlx_vector_array_free((mlx_vector_array){ r0 }), mlx_vector_int_free((mlx_vector_int){ r1 });
    else if (pair == PATH)
        mlx_vector_int_free((mlx_vector_int){ r0 }), mlx_string_free((mlx_string){ r1 });
    else
        mlx_map_string_to_array_free((mlx_map_string_to_array){ r0 }),
            mlx_map_string_to_string_free((mlx_map_string_to_string){ r1 });
}

static int pair;

/* Both handles take their results or neither does: not the empty ones, nor one that has something. */
static int both_or_neither(void)
{
    int failed = 0;
    for (int full = 0; full <= (pair < ARRAYS ? 2 : 0) && !failed; full++) {
        mlx_array old = mlx_array_new();
        if (full && mlx_array_set(&old, given.matrix))
            return 1;
        void *r[2] = { full == 1 ? old.ctx : NULL, full == 2 ? old.ctx : NULL };
        failed = call(pair, &r[0], &r[1]);
        for (int i = 0; i < 2; i++) assert_true(failed ? r[i] == (full == i + 1 ? old.ctx : NULL) : r[i] != NULL);
        if (failed && full)
            assert_ptr_equal(mlx_array_data_float32(old), mlx_array_data_float32(given.matrix));
        free_results(pair, r[0], r[1]);
    }
    return failed;
}

static void two_results(void **state)
{
    (void)state;
    const char *file = "capi_alloc_two.safetensors";
    const float v[] = { 2, 1, 1, 3 };
    given.matrix = mlx_array_new_data(v, (int[]){ 2, 2 }, 2, MLX_FLOAT32);
    OK(mlx_random_key(&given.key, 1));
    given.in = mlx_vector_array_new_value(given.matrix);
    given.two = mlx_vector_array_new_data((mlx_array[]){ given.matrix, given.matrix }, 2);
    given.f = mlx_closure_new_func_payload(cube, NULL, NULL);
    given.rule = mlx_closure_custom_vmap_new_func(vmap_rule);
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    OK(mlx_map_string_to_array_insert(arrays, "x", given.matrix));
    OK(mlx_save_safetensors(file, arrays, (mlx_map_string_to_string){ NULL }));
    for (pair = 0; pair < PAIRS; pair++) sweep(both_or_neither, mx_test_fail_at, 1);
    OK(unlink(file));
    mlx_array_free(given.matrix);
    mlx_array_free(given.key);
    mlx_vector_array_free(given.in);
    mlx_vector_array_free(given.two);
    mlx_closure_free(given.f);
    mlx_closure_custom_vmap_free(given.rule);
    mlx_map_string_to_array_free(arrays);
}

static int rules(void)
{
    const float v[] = { 1, 2, 3 };
    const int n = 3;
    mlx_array x = mlx_array_new_data(v, &n, 1, MLX_FLOAT32);
    if (made(x.ctx))
        return 1;
    mlx_vector_array in = mlx_vector_array_new_value(x);
    mlx_closure f = { NULL }, g = { NULL };
    mlx_closure_custom r = { NULL };
    mlx_closure_custom_jvp j = { NULL };
    mlx_closure_custom_vmap m = { NULL };
    int failed = made(in.ctx);
    if (!failed)
        failed = made((f = mlx_closure_new_func_payload(cube, NULL, NULL)).ctx);
    if (!failed)
        failed = made((r = mlx_closure_custom_new_func(rule)).ctx);
    if (!failed)
        failed = made((j = mlx_closure_custom_jvp_new_func(jvp_rule)).ctx);
    if (!failed)
        failed = made((m = mlx_closure_custom_vmap_new_func(vmap_rule)).ctx);
    failed = failed || mlx_custom_function(&g, f, r, j, mlx_closure_custom_vmap_new()) ||
             under_every_transform(g, in) || mlx_custom_function(&g, f, r, j, m) || under_every_transform(g, in) ||
             mlx_checkpoint(&g, f) || under_every_transform(g, in);
    mlx_array_free(x);
    mlx_vector_array_free(in);
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_closure_custom_free(r);
    mlx_closure_custom_jvp_free(j);
    mlx_closure_custom_vmap_free(m);
    return failed;
}

static int files(void)
{
    char exported[64], saved[64], packed[64];
    snprintf(exported, sizeof exported, "/tmp/capi_alloc.%ld.mlxfn", (long)getpid());
    snprintf(saved, sizeof saved, "/tmp/capi_alloc.%ld.safetensors", (long)getpid());
    snprintf(packed, sizeof packed, "/tmp/capi_alloc.%ld.gguf", (long)getpid());
    mlx_array x = mlx_array_new_float(2);
    if (made(x.ctx))
        return 1;
    mlx_vector_array in = mlx_vector_array_new_value(x), y = mlx_vector_array_new();
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new(), read = mlx_map_string_to_array_new();
    mlx_map_string_to_string texts = mlx_map_string_to_string_new(), read_texts = mlx_map_string_to_string_new();
    mlx_io_gguf gguf = mlx_io_gguf_new(), read_gguf = mlx_io_gguf_new();
    mlx_closure f = { NULL }, g = mlx_closure_new();
    mlx_imported_function again = { NULL };
    int failed = made(in.ctx) || made(y.ctx) || made(arrays.ctx) || made(read.ctx) || made(texts.ctx) ||
                 made(read_texts.ctx) || made(gguf.ctx) || made(read_gguf.ctx);
    if (!failed)
        failed = made((f = mlx_closure_new_func_payload(cube, NULL, NULL)).ctx);
    failed = failed || mlx_compile(&g, f, false) || mlx_closure_apply(&y, g, in) ||
             mlx_export_function(exported, f, in, false);
    if (!failed)
        failed = made((again = mlx_imported_function_new(exported)).ctx);
    failed = failed || mlx_imported_function_apply(&y, again, in) || mlx_map_string_to_array_insert(arrays, "x", x) ||
             mlx_map_string_to_string_insert(texts, "k", "v") || mlx_save_safetensors(saved, arrays, texts) ||
             mlx_load_safetensors(&read, &read_texts, saved, s) || mlx_io_gguf_set_array(gguf, "x", x) ||
             mlx_io_gguf_set_metadata_string(gguf, "k", "v") || mlx_save_gguf(packed, gguf) ||
             mlx_load_gguf(&read_gguf, packed, s);
    mlx_array_free(x);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_array_free(read);
    mlx_map_string_to_string_free(texts);
    mlx_map_string_to_string_free(read_texts);
    mlx_io_gguf_free(gguf);
    mlx_io_gguf_free(read_gguf);
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_imported_function_free(again);
    unlink(exported);
    unlink(saved);
    unlink(packed);
    return failed;
}

/* Reads and writes what is not small: each of the two that JSON is made in grows. */
static int named(void)
{
    char saved[64], name[32];
    snprintf(saved, sizeof saved, "/tmp/capi_alloc.%ld.named.safetensors", (long)getpid());
    mlx_array x = mlx_array_new_float(2);
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new(), read = mlx_map_string_to_array_new();
    mlx_map_string_to_string texts = mlx_map_string_to_string_new(), read_texts = mlx_map_string_to_string_new();
    int failed = made(x.ctx) || made(arrays.ctx) || made(read.ctx) || made(texts.ctx) || made(read_texts.ctx) ||
                 mlx_map_string_to_string_insert(texts, "k", "v");
    for (int i = 0; !failed && i < 100; i++) {
        snprintf(name, sizeof name, "the array numbered %d", i);
        failed = mlx_map_string_to_array_insert(arrays, name, x);
    }
    if (!failed) {
        failed = mlx_save_safetensors(saved, arrays, texts);
        assert_true(!failed || access(saved, F_OK)); /* not half of one */
    }
    failed = failed || mlx_load_safetensors(&read, &read_texts, saved, s);
    unlink(saved);
    if (failed)
        assert_int_equal(mlx_last_error(NULL), MLX_ERROR_MEMORY);
    mlx_array_free(x);
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_array_free(read);
    mlx_map_string_to_string_free(texts);
    mlx_map_string_to_string_free(read_texts);
    return failed;
}

/* With a function of one array, one with names too, a file, and a listener. */
static int hears(const char *event, const mlx_vector_array constants, void *payload)
{
    (void)constants;
    (*(int *)payload)++;
    return !event;
}

static int of_names(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array named)
{
    (void)named;
    return cube(res, in, NULL);
}

static int of_one(mlx_array *res, const mlx_array x) { return mlx_square(res, x, s); }

static int exports(void)
{
    const char *file = "capi_alloc.mlxfn";
    int heard_of = 0;
    mlx_array x = mlx_array_new_float(2);
    mlx_closure f = mlx_closure_new_unary(of_one);
    mlx_closure_kwargs g = mlx_closure_kwargs_new_func(of_names);
    mlx_vector_array in = mlx_vector_array_new(), y = mlx_vector_array_new();
    mlx_map_string_to_array named = mlx_map_string_to_array_new();
    int failed = made(x.ctx) || made(f.ctx) || made(g.ctx) || made(in.ctx) || made(y.ctx) || made(named.ctx);
    failed = failed || mlx_vector_array_append_value(in, x) || mlx_closure_apply(&y, f, in) ||
             mlx_export_function(file, f, in, false) || mlx_export_function_kwargs(file, g, in, named, false);
    if (!failed) {
        mlx_function_exporter e = mlx_function_exporter_new_callback(hears, &heard_of, NULL, g, false, true);
        failed = made(e.ctx) || mlx_function_exporter_apply(e, in);
        if (e.ctx)
            failed = mlx_function_exporter_free(e) || failed;
        if (!failed)
            assert_true(heard_of > 0);
    }
    unlink(file);
    mlx_map_string_to_array_free(named);
    mlx_vector_array_free(y);
    mlx_vector_array_free(in);
    mlx_closure_kwargs_free(g);
    mlx_closure_free(f);
    mlx_array_free(x);
    return failed;
}

static int printed(void)
{
    mlx_array x = mlx_array_new_float(2);
    mlx_string text = mlx_string_new();
    int failed = mlx_array_tostring(&text, x) || mlx_handles_report(&text);
    if (failed)
        assert_int_equal(mlx_last_error(NULL), MLX_ERROR_MEMORY);
    mlx_array_free(x);
    mlx_string_free(text);
    return failed;
}

static void texts_that_are_streams(void **state)
{
    (void)state;
    sweep(printed, fail_stream_at, 2);
}

static void all(void **state)
{
    (void)state;
    int (*const sequences[])(void) = {
        arrays, foreign, vectors, maps, texts, closures, custom, rules, named, files, exports,
    };
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) sweep(sequences[i], mx_test_fail_at, 3);
}

static int make(void **state)
{
    s = mlx_default_cpu_stream_new();
    return start_listening(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all), cmocka_unit_test(two_results),
                                        cmocka_unit_test(texts_that_are_streams) };
    return cmocka_run_group_tests_name("C API: allocations that fail", tests, make, all_gone);
}
