/* gguf files through the C API: content by name, errors, every allocation failing once. */
#include <unistd.h>

#include "support/heard.h"

#include "core/buffer.h"

static mlx_array three(void)
{
    float v[3] = { 1, 2, 3 };
    return mlx_array_new_data(v, (int[]){ 3 }, 1, MLX_FLOAT32);
}

static mlx_io_gguf content(void)
{
    mlx_io_gguf g = mlx_io_gguf_new();
    mlx_array x = three();
    const char *words[] = { "a", "bc" };
    mlx_vector_string v = mlx_vector_string_new_data(words, 2);
    int failed = !g.ctx || mlx_io_gguf_set_array(g, "x", x) || mlx_io_gguf_set_array(g, "x", x) ||
                 mlx_io_gguf_set_metadata_array(g, "numbers", x) || mlx_io_gguf_set_metadata_string(g, "text", "one") ||
                 mlx_io_gguf_set_metadata_string(g, "text", "two") ||
                 mlx_io_gguf_set_metadata_vector_string(g, "words", v);
    mlx_array_free(x);
    mlx_vector_string_free(v);
    if (!failed)
        return g;
    mlx_io_gguf_free(g);
    return (mlx_io_gguf){ NULL };
}

static int round_trip(const char *path, mlx_io_gguf *back)
{
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_io_gguf g = content();
    int failed = !g.ctx || mlx_save_gguf(path, g) || mlx_load_gguf(back, path, s);
    mlx_io_gguf_free(g);
    mlx_stream_free(s);
    return failed;
}

static char *path_of(char *path)
{
    snprintf(path, 64, "/tmp/mlx_gguf_%ld.gguf", (long)getpid());
    return path;
}

static void by_name(void **state)
{
    (void)state;
    char path[64];
    mlx_io_gguf g = { NULL };
    OK(round_trip(path_of(path), &g));
    mlx_vector_string keys = mlx_vector_string_new();
    OK(mlx_io_gguf_get_keys(&keys, g));
    assert_int_equal(mlx_vector_string_size(keys), 1);
    OK(mlx_io_gguf_get_metadata_keys(&keys, g));
    assert_int_equal(mlx_vector_string_size(keys), 3);
    mlx_array x = mlx_array_new();
    OK(mlx_io_gguf_get_array(&x, g, "x"));
    OK(mlx_array_eval(x));
    assert_true(mlx_array_data_float32(x)[2] == 3);
    OK(mlx_io_gguf_get_metadata_array(&x, g, "numbers"));
    assert_int_equal(mlx_array_size(x), 3);
    mlx_string s = mlx_string_new();
    OK(mlx_io_gguf_get_metadata_string(&s, g, "text"));
    assert_string_equal(mlx_string_data(s), "two");
    OK(mlx_io_gguf_get_metadata_vector_string(&keys, g, "words"));
    char *word = NULL;
    OK(mlx_vector_string_get(&word, keys, 1));
    assert_string_equal(word, "bc");
    bool is = false;
    OK(mlx_io_gguf_has_metadata_string(&is, g, "text"));
    assert_true(is);
    OK(mlx_io_gguf_has_metadata_array(&is, g, "text"));
    assert_false(is);
    OK(mlx_io_gguf_has_metadata_vector_string(&is, g, "none"));
    assert_false(is);
    mlx_string_free(s);
    mlx_array_free(x);
    mlx_vector_string_free(keys);
    mlx_io_gguf_free(g);
    unlink(path);
}

static void errors(void **state)
{
    (void)state;
    mlx_io_gguf g = content(), none = { NULL };
    mlx_array x = mlx_array_new(), empty = mlx_array_new();
    mlx_string s = mlx_string_new();
    bool is;
    FAILS(mlx_io_gguf_get_array(&x, g, "y"), "expected the name of an array, got 'y'");
    FAILS(mlx_io_gguf_get_array(&x, none, "y"), "an empty handle");
    FAILS(mlx_io_gguf_get_metadata_string(&s, g, "words"), "expected the name of a string, got 'words'");
    FAILS(mlx_io_gguf_get_metadata_string(&s, g, NULL), "NULL");
    FAILS(mlx_io_gguf_has_metadata_array(NULL, g, "x"), "NULL");
    FAILS(mlx_io_gguf_has_metadata_array(&is, none, "x"), "an empty handle");
    FAILS(mlx_io_gguf_set_array(g, "x", empty), "empty");
    FAILS(mlx_io_gguf_set_metadata_string(g, "x", NULL), "NULL");
    FAILS(mlx_save_gguf(NULL, g), "NULL");
    FAILS(mlx_save_gguf("/tmp/x.gguf", none), "an empty handle");
    FAILS(mlx_save_gguf("/nowhere/x.gguf", g), "/nowhere/x.gguf");
    FAILS(mlx_load_gguf(&none, "/nowhere/x.gguf", mlx_stream_new()), "/nowhere/x.gguf");
    FAILS(mlx_load_gguf(NULL, "/etc/passwd", mlx_stream_new()), "not a gguf file");
    mlx_io_gguf_free(none);
    mlx_io_gguf_free(g);
    mlx_array_free(x);
    mlx_string_free(s);
}

/* Every allocation fails once: one error, and nothing is left behind. */
static void without_memory(void **state)
{
    (void)state;
    char path[64];
    mlx_io_gguf warm = { NULL };
    OK(round_trip(path_of(path), &warm));
    mlx_io_gguf_free(warm);
    long live = array_live_count();
    int failed = 1;
    for (long n = 1; failed && n < 1000; n++) {
        mlx_io_gguf g = { NULL };
        mx_test_fail_at(n);
        failed = round_trip(path, &g);
        mx_test_fail_at(0);
        assert_true(heard.n >= failed);
        heard.n = 0;
        mlx_io_gguf_free(g);
        assert_int_equal(array_live_count(), live);
    }
    assert_int_equal(failed, 0);
    unlink(path);
}

/* An array whose owner, told that it is not needed any more, looks at what it was in and adds to it. */
static mlx_io_gguf its_place;
static int found;

static void look_and_add(void *payload)
{
    mlx_array y = mlx_array_new();
    mlx_string text = mlx_string_new();
    bool is_array;
    (void)payload;
    OK(mlx_io_gguf_has_metadata_array(&is_array, its_place, "k"));
    if (is_array) {
        OK(mlx_io_gguf_get_metadata_array(&y, its_place, "k"));
        OK(mlx_array_item_int32(&found, y));
    } else {
        OK(mlx_io_gguf_get_metadata_string(&text, its_place, "k"));
        found = mlx_string_data(text)[0] - '0';
    }
    for (char key[2] = "a"; *key < 'k'; ++*key) OK(mlx_io_gguf_set_metadata_string(its_place, key, "1"));
    mlx_array_free(y);
    mlx_string_free(text);
}

static void owners_of_what_is_replaced(void **state)
{
    (void)state;
    static int32_t one = 1;
    mlx_array two = mlx_array_new_int(2);
    for (int way = 0; way < 3; way++) {
        its_place = mlx_io_gguf_new();
        found = 0;
        mlx_array x = mlx_array_new_data_managed_payload(&one, NULL, 0, MLX_INT32, NULL, look_and_add);
        OK(mlx_io_gguf_set_metadata_array(its_place, "k", x));
        mlx_array_free(x);
        switch (way) {
        case 0: OK(mlx_io_gguf_set_metadata_array(its_place, "k", two)); break;
        case 1: OK(mlx_io_gguf_set_metadata_string(its_place, "k", "2")); break;
        case 2: {
            mlx_io_gguf other = content();
            char path[64];
            mlx_stream s = mlx_default_cpu_stream_new();
            OK(mlx_io_gguf_set_metadata_array(other, "k", two));
            OK(mlx_save_gguf(path_of(path), other));
            OK(mlx_load_gguf(&its_place, path, s));
            unlink(path);
            mlx_stream_free(s);
            mlx_io_gguf_free(other);
        }
        }
        assert_int_equal(found, 2);
        mlx_string text = mlx_string_new();
        OK(mlx_io_gguf_get_metadata_string(&text, its_place, "j"));
        assert_string_equal(mlx_string_data(text), "1");
        mlx_string_free(text);
        mlx_io_gguf_free(its_place);
    }
    mlx_array_free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_name),
        cmocka_unit_test(errors),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(owners_of_what_is_replaced),
    };
    return cmocka_run_group_tests(tests, start_listening, all_gone);
}
