/* The four kinds of vectors, and strings. */
#include <stdlib.h>

#include "support/heard.h"

static int item(mlx_array a)
{
    int v = -1;
    OK(mlx_array_item_int32(&v, a));
    return v;
}

static int element(mlx_vector_array vec, size_t i)
{
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, vec, i));
    int v = item(a);
    mlx_array_free(a);
    return v;
}

static void arrays(void **state)
{
    (void)state;
    mlx_array a[] = { mlx_array_new_int(10), mlx_array_new_int(11), mlx_array_new_int(12) };
    mlx_vector_array vec = mlx_vector_array_new();
    assert_non_null(vec.ctx);
    assert_int_equal(mlx_vector_array_size(vec), 0);
    OK(mlx_vector_array_append_value(vec, a[2]));
    OK(mlx_vector_array_append_data(vec, a, 3));
    assert_int_equal(mlx_vector_array_size(vec), 4);
    /* The vector keeps the arrays themselves. */
    OK(mlx_array_set_int(&a[0], 99));
    assert_int_equal(element(vec, 0), 12);
    assert_int_equal(element(vec, 1), 10);
    assert_int_equal(element(vec, 3), 12);

    mlx_vector_array other = mlx_vector_array_new_data(a, 2), same = other;
    OK(mlx_vector_array_set(&other, vec));
    assert_int_equal(mlx_vector_array_size(same), 4);
    OK(mlx_vector_array_append_value(vec, a[1]));
    assert_int_equal(mlx_vector_array_size(other), 4);
    OK(mlx_vector_array_set(&other, other));
    assert_int_equal(mlx_vector_array_size(other), 4);
    OK(mlx_vector_array_set_data(&other, a, 2));
    assert_int_equal(element(other, 0), 99);
    OK(mlx_vector_array_set_value(&other, a[1]));
    assert_int_equal(mlx_vector_array_size(same), 1);
    OK(mlx_vector_array_set_data(&other, NULL, 0));
    assert_int_equal(mlx_vector_array_size(other), 0);
    mlx_vector_array one = mlx_vector_array_new_value(a[1]), filled = { NULL };
    assert_int_equal(element(one, 0), 11);
    OK(mlx_vector_array_set(&filled, one));
    assert_int_equal(element(filled, 0), 11);

    for (int i = 0; i < 3; i++) mlx_array_free(a[i]);
    mlx_vector_array_free(vec);
    mlx_vector_array_free(other);
    mlx_vector_array_free(one);
    mlx_vector_array_free(filled);
}

/* A failed call leaves the vector as it was. */
static void bad_arrays(void **state)
{
    (void)state;
    mlx_array a[] = { mlx_array_new_int(1), mlx_array_new() }, res = mlx_array_new_int(5);
    mlx_vector_array vec = mlx_vector_array_new_value(a[0]), none = { NULL };
    FAILS(mlx_vector_array_append_data(vec, a, 2), "vector_array_append_data");
    FAILS(mlx_vector_array_append_value(vec, a[1]), "an empty handle");
    FAILS(mlx_vector_array_set_data(&vec, a, 2), "vector_array_set_data");
    FAILS(mlx_vector_array_set_data(&vec, NULL, 2), "got NULL");
    FAILS(mlx_vector_array_set_data(NULL, a, 1), "place for the result");
    FAILS(mlx_vector_array_set(&vec, none), "vector_array_set");
    FAILS(mlx_vector_array_new_data(a, 2).ctx == NULL, "vector_array_new_data");
    FAILS(mlx_vector_array_new_value(a[1]).ctx == NULL, "vector_array_new_value");
    FAILS(mlx_vector_array_get(&res, vec, 1), "below the vector's size 1, got 1");
    FAILS(mlx_vector_array_get(NULL, vec, 0), "place for the result");
    FAILS(mlx_vector_array_get(&res, none, 0), "an empty handle");
    FAILS(mlx_vector_array_size(none) == 0, "vector_array_size");
    FAILS(mlx_vector_array_append_value(none, a[0]), "vector_array_append_value");
    assert_int_equal(item(res), 5);
    assert_int_equal(mlx_vector_array_size(vec), 1);
    OK(mlx_vector_array_free(none));
    mlx_vector_array_free(vec);
    mlx_array_free(a[0]);
    mlx_array_free(res);
}

static void vectors(void **state)
{
    (void)state;
    mlx_array a = mlx_array_new_int(7);
    mlx_vector_array inner = mlx_vector_array_new_value(a), out = mlx_vector_array_new();
    mlx_vector_vector_array vec = mlx_vector_vector_array_new();
    OK(mlx_vector_vector_array_append_value(vec, inner));
    OK(mlx_vector_vector_array_append_data(vec, &inner, 1));
    OK(mlx_vector_array_append_value(inner, a));
    assert_int_equal(mlx_vector_vector_array_size(vec), 2);
    OK(mlx_vector_vector_array_get(&out, vec, 1));
    assert_int_equal(mlx_vector_array_size(out), 1);
    assert_int_equal(element(out, 0), 7);
    mlx_vector_vector_array two = mlx_vector_vector_array_new_data(&inner, 1);
    mlx_vector_vector_array three = mlx_vector_vector_array_new_value(out);
    OK(mlx_vector_vector_array_set(&three, two));
    OK(mlx_vector_vector_array_get(&out, three, 0));
    assert_int_equal(mlx_vector_array_size(out), 2);
    OK(mlx_vector_vector_array_set_value(&three, inner));
    OK(mlx_vector_vector_array_set_data(&three, &inner, 1));
    FAILS(mlx_vector_vector_array_get(&out, three, 5), "size 1, got 5");
    FAILS(mlx_vector_vector_array_append_value(three, (mlx_vector_array){ NULL }), "a vector");
    mlx_vector_vector_array_free(vec);
    mlx_vector_vector_array_free(two);
    mlx_vector_vector_array_free(three);
    mlx_vector_array_free(inner);
    mlx_vector_array_free(out);
    mlx_array_free(a);
}

static void numbers(void **state)
{
    (void)state;
    int data[] = { 3, 1, 4 }, v = 0;
    mlx_vector_int vec = mlx_vector_int_new_data(data, 3), copy = mlx_vector_int_new();
    OK(mlx_vector_int_append_value(vec, 1));
    OK(mlx_vector_int_append_data(vec, data, 3));
    OK(mlx_vector_int_set(&copy, vec));
    OK(mlx_vector_int_set_value(&vec, 9));
    OK(mlx_vector_int_get(&v, vec, 0));
    assert_int_equal(v, 9);
    assert_int_equal(mlx_vector_int_size(copy), 7);
    OK(mlx_vector_int_get(&v, copy, 6));
    assert_int_equal(v, 4);
    OK(mlx_vector_int_set_data(&vec, data, 2));
    assert_int_equal(mlx_vector_int_size(vec), 2);
    FAILS(mlx_vector_int_get(&v, vec, 2), "vector_int_get");
    mlx_vector_int one = mlx_vector_int_new_value(5);
    OK(mlx_vector_int_get(&v, one, 0));
    assert_int_equal(v, 5);
    mlx_vector_int_free(vec);
    mlx_vector_int_free(copy);
    mlx_vector_int_free(one);
}

static void texts(void **state)
{
    (void)state;
    char word[] = "alpha";
    const char *data[] = { "one", "two" }, *with_null[] = { "one", NULL };
    mlx_vector_string vec = mlx_vector_string_new_value(word), copy = mlx_vector_string_new();
    word[0] = 'X';
    OK(mlx_vector_string_append_data(vec, data, 2));
    OK(mlx_vector_string_append_value(vec, ""));
    OK(mlx_vector_string_set(&copy, vec));
    OK(mlx_vector_string_set_data(&vec, data, 1));
    char *s;
    OK(mlx_vector_string_get(&s, copy, 0));
    assert_string_equal(s, "alpha");
    OK(mlx_vector_string_get(&s, copy, 2));
    assert_string_equal(s, "two");
    OK(mlx_vector_string_get(&s, copy, 3));
    assert_string_equal(s, "");
    FAILS(mlx_vector_string_append_value(vec, NULL), "a string");
    FAILS(mlx_vector_string_append_data(vec, with_null, 2), "a string");
    assert_int_equal(mlx_vector_string_size(vec), 1);
    OK(mlx_vector_string_set_value(&vec, "z"));
    mlx_vector_string other = mlx_vector_string_new_data(data, 2);
    assert_int_equal(mlx_vector_string_size(other), 2);
    mlx_vector_string_free(vec);
    mlx_vector_string_free(copy);
    mlx_vector_string_free(other);
}

static void strings(void **state)
{
    (void)state;
    mlx_string none = mlx_string_new(), a = mlx_string_new_data("abc"), b = none;
    assert_string_equal(mlx_string_data(a), "abc");
    OK(mlx_string_set(&b, a));
    OK(mlx_string_set(&a, a));
    assert_string_equal(mlx_string_data(b), "abc");
    assert_ptr_not_equal(mlx_string_data(b), mlx_string_data(a));
    FAILS(mlx_string_data(none) == NULL, "string_data");
    FAILS(mlx_string_set(&a, none), "string_set");
    FAILS(mlx_string_set(NULL, a), "place for the result");
    FAILS(mlx_string_new_data(NULL).ctx == NULL, "a string");
    assert_string_equal(mlx_string_data(a), "abc");
    mlx_string version = mlx_string_new();
    OK(mlx_version(&version));
    assert_int_equal(strncmp(mlx_string_data(version), "0.32.4", 6), 0);
    OK(mlx_string_free(none));
    mlx_string_free(a);
    mlx_string_free(b);
    mlx_string_free(version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays),  cmocka_unit_test(bad_arrays), cmocka_unit_test(vectors),
        cmocka_unit_test(numbers), cmocka_unit_test(texts),      cmocka_unit_test(strings),
    };
    return cmocka_run_group_tests_name("C API: vectors", tests, start_listening, all_gone);
}
