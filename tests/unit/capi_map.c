/* Maps from names to arrays and to strings. */
#include "support/heard.h"

static void arrays(void **state)
{
    (void)state;
    mlx_map_string_to_array map = mlx_map_string_to_array_new();
    mlx_array a = mlx_array_new_int(1), res = mlx_array_new();
    assert_int_equal(mlx_map_string_to_array_get(&res, map, "x"), 2);
    expect_heard(0, "");
    assert_null(res.ctx);
    char key[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "layers.%d.weight", i);
        OK(mlx_array_set_int(&a, i));
        OK(mlx_map_string_to_array_insert(map, key, a));
    }
    OK(mlx_array_set_int(&a, -7));
    OK(mlx_map_string_to_array_insert(map, "layers.3.weight", a));
    mlx_map_string_to_array copy = { NULL };
    OK(mlx_map_string_to_array_set(&copy, map));
    OK(mlx_map_string_to_array_set(&copy, copy));
    mlx_map_string_to_array_free(map);

    int v;
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "layers.%d.weight", i);
        OK(mlx_map_string_to_array_get(&res, copy, key));
        OK(mlx_array_item_int32(&v, res));
        assert_int_equal(v, i == 3 ? -7 : i);
    }
    assert_int_equal(mlx_map_string_to_array_get(&res, copy, "layers.1000.weight"), 2);

    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(copy);
    const char *name;
    int n = 0;
    while (!mlx_map_string_to_array_iterator_next(&name, &res, it)) {
        snprintf(key, sizeof key, "layers.%d.weight", n++);
        assert_string_equal(name, key);
    }
    assert_int_equal(n, 1000);
    assert_int_equal(mlx_map_string_to_array_iterator_next(&name, &res, it), 2);
    expect_heard(0, "");
    mlx_map_string_to_array_iterator_free(it);
    mlx_map_string_to_array_free(copy);
    mlx_array_free(a);
    mlx_array_free(res);
}

static void strings(void **state)
{
    (void)state;
    mlx_map_string_to_string map = mlx_map_string_to_string_new(), copy = mlx_map_string_to_string_new();
    const char *value = NULL, *key;
    OK(mlx_map_string_to_string_insert(map, "format", "mlx"));
    OK(mlx_map_string_to_string_insert(map, "", "nothing"));
    OK(mlx_map_string_to_string_insert(map, "format", "pt"));
    OK(mlx_map_string_to_string_set(&copy, map));
    OK(mlx_map_string_to_string_insert(map, "format", "np"));
    OK(mlx_map_string_to_string_get(&value, copy, "format"));
    assert_string_equal(value, "pt");
    OK(mlx_map_string_to_string_get(&value, map, ""));
    assert_string_equal(value, "nothing");
    assert_int_equal(mlx_map_string_to_string_get(&value, map, "none"), 2);
    mlx_map_string_to_string_iterator it = mlx_map_string_to_string_iterator_new(copy);
    OK(mlx_map_string_to_string_iterator_next(&key, &value, it));
    assert_string_equal(key, "format");
    OK(mlx_map_string_to_string_iterator_next(&key, &value, it));
    assert_string_equal(key, "");
    assert_int_equal(mlx_map_string_to_string_iterator_next(&key, &value, it), 2);
    mlx_map_string_to_string_iterator_free(it);
    mlx_map_string_to_string_free(map);
    mlx_map_string_to_string_free(copy);
}

static void bad_arguments(void **state)
{
    (void)state;
    mlx_map_string_to_array map = mlx_map_string_to_array_new(), none = { NULL };
    mlx_map_string_to_string texts = mlx_map_string_to_string_new();
    mlx_array a = mlx_array_new_int(1);
    const char *s;
    FAILS(mlx_map_string_to_array_insert(none, "x", a), "an empty handle");
    FAILS(mlx_map_string_to_array_insert(map, NULL, a), "`key`");
    FAILS(mlx_map_string_to_array_insert(map, "x", mlx_array_empty), "`value`");
    FAILS(mlx_map_string_to_array_get(&a, map, NULL) == 1, "`key`");
    FAILS(mlx_map_string_to_array_get(&a, none, "x") == 1, "a map");
    FAILS(mlx_map_string_to_array_get(NULL, map, "x") == 1, "place for the result");
    FAILS(mlx_map_string_to_array_set(&map, none), "`src`");
    FAILS(mlx_map_string_to_string_insert(texts, "x", NULL), "`value`");
    FAILS(mlx_map_string_to_string_get(&s, texts, NULL) == 1, "`key`");
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(none);
    expect_heard(1, "a map");
    FAILS(mlx_map_string_to_array_iterator_next(&s, &a, it) == 1, "an iterator");
    OK(mlx_map_string_to_array_iterator_free(it));
    OK(mlx_map_string_to_array_free(none));
    mlx_map_string_to_array_free(map);
    mlx_map_string_to_string_free(texts);
    mlx_array_free(a);
}

/* An array whose owner, told that it is not needed any more, looks at the map that it was in and adds to it. */
static mlx_map_string_to_array its_map;
static float found;

static void look_and_add(void *payload)
{
    mlx_array y = mlx_array_new();
    (void)payload;
    OK(mlx_map_string_to_array_get(&y, its_map, "k"));
    OK(mlx_array_item_float32(&found, y));
    for (char key[2] = "a"; *key <= 'z'; ++*key)
        if (*key != 'k')
            OK(mlx_map_string_to_array_insert(its_map, key, y));
    mlx_array_free(y);
}

static void owners_of_what_is_replaced(void **state)
{
    (void)state;
    static float one = 1;
    its_map = mlx_map_string_to_array_new();
    mlx_array x = mlx_array_new_data_managed_payload(&one, NULL, 0, MLX_FLOAT32, NULL, look_and_add);
    mlx_array two = mlx_array_new_float(2);
    OK(mlx_map_string_to_array_insert(its_map, "k", x));
    mlx_array_free(x);
    OK(mlx_map_string_to_array_insert(its_map, "k", two));
    assert_float_equal(found, 2, 0);
    x = mlx_array_new();
    for (char key[2] = "a"; *key <= 'z'; ++*key) {
        OK(mlx_map_string_to_array_get(&x, its_map, key));
        OK(mlx_array_item_float32(&found, x));
        assert_float_equal(found, 2, 0);
    }
    mlx_map_string_to_array_free(its_map);
    mlx_array_free(x);
    mlx_array_free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays),
        cmocka_unit_test(strings),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(owners_of_what_is_replaced),
    };
    return cmocka_run_group_tests_name("C API: maps", tests, start_listening, all_gone);
}
