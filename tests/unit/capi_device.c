/* Devices, streams and memory, as C programs see them. */
#include "support/heard.h"

static void expect_text(mlx_string *s, const char *expected)
{
    assert_string_equal(mlx_string_data(*s), expected);
    mlx_string_free(*s);
    *s = mlx_string_new();
}

static void devices(void **state)
{
    (void)state;
    int absent = gpus_here() + 3;
    mlx_device cpu = mlx_device_new_type(MLX_CPU, 0), gpu = mlx_device_new_type(MLX_GPU, absent);
    mlx_device none = mlx_device_new(), dev = mlx_device_new();
    mlx_string s = mlx_string_new();
    OK(mlx_device_tostring(&s, cpu));
    expect_text(&s, "Device(cpu, 0)");
    OK(mlx_device_tostring(&s, gpu));
    char text[32];
    snprintf(text, sizeof text, "Device(gpu, %d)", absent);
    expect_text(&s, text);
    assert_false(mlx_device_equal(cpu, gpu));
    assert_false(mlx_device_equal(cpu, none));
    assert_true(mlx_device_equal(none, none));
    OK(mlx_device_set(&dev, gpu));
    assert_true(mlx_device_equal(dev, gpu));
    int i = -1;
    mlx_device_type type = MLX_CPU;
    OK(mlx_device_get_index(&i, dev));
    OK(mlx_device_get_type(&type, dev));
    assert_int_equal(i, absent);
    assert_int_equal(type, MLX_GPU);
    OK(mlx_get_default_device(&dev));
    assert_int_equal(mlx_device_equal(dev, cpu), !gpus_here());
    OK(mlx_set_default_device(cpu));
    bool yes = false;
    OK(mlx_device_is_available(&yes, cpu));
    assert_true(yes);
    OK(mlx_device_is_available(&yes, gpu));
    assert_false(yes);
    OK(mlx_device_count(&i, MLX_CPU));
    assert_int_equal(i, 1);
    OK(mlx_device_count(&i, MLX_GPU));
    assert_int_equal(i, gpus_here());
    FAILS(mlx_set_default_device(none), "a device");
    FAILS(mlx_device_set(&dev, none), "`src`");
    FAILS(mlx_device_new_type((mlx_device_type)5, 0).ctx == NULL, "MLX_CPU or MLX_GPU, got 5");
    FAILS(mlx_device_new_type(MLX_CPU, -1).ctx == NULL, "got -1");
    FAILS(mlx_device_get_index(NULL, cpu), "place for the result");
    FAILS(mlx_device_count(&i, (mlx_device_type)5), "got 5");
    FAILS(mlx_set_default_device(gpu), "gpu");
    mlx_device_free(cpu);
    mlx_device_free(gpu);
    mlx_device_free(dev);
    OK(mlx_device_free(none));
}

static void of_a_thread(void **state)
{
    (void)state;
    mlx_device cpu = mlx_device_new_type(MLX_CPU, 0), gpu = mlx_device_new_type(MLX_GPU, gpus_here());
    mlx_device own = mlx_device_new();
    OK(mlx_get_thread_device(&own));
    assert_null(own.ctx);
    OK(mlx_set_thread_device(cpu));
    OK(mlx_get_thread_device(&own));
    assert_true(mlx_device_equal(own, cpu));
    OK(mlx_set_default_device(cpu));
    FAILS(mlx_set_thread_device(gpu), "there is no Device(gpu, ");
    OK(mlx_set_thread_device((mlx_device){ NULL }));
    OK(mlx_get_thread_device(&own));
    assert_null(own.ctx);
    FAILS(mlx_get_thread_device(NULL), "place for the result");
    mlx_device_free(cpu);
    mlx_device_free(gpu);
}

static void facts(void **state)
{
    (void)state;
    mlx_device cpu = mlx_device_new_type(MLX_CPU, 0), gpu = mlx_device_new_type(MLX_GPU, gpus_here());
    mlx_device_info info = mlx_device_info_new(), none = mlx_device_info_new();
    OK(mlx_device_info_get(&info, cpu));
    OK(mlx_device_info_get(&info, cpu));
    bool yes = false;
    OK(mlx_device_info_has_key(&yes, info, "architecture"));
    assert_true(yes);
    OK(mlx_device_info_has_key(&yes, info, "nonsense"));
    assert_false(yes);
    OK(mlx_device_info_is_string(&yes, info, "device_name"));
    assert_true(yes);
    const char *text = NULL;
    size_t number;
    OK(mlx_device_info_get_string(&text, info, "device_name"));
    assert_true(strlen(text) > 0);
    FAILS(mlx_device_info_get_size(&number, info, "device_name"), "expected a fact that is a number");
    FAILS(mlx_device_info_get_string(&text, info, "nonsense"), "got \"nonsense\"");
    mlx_vector_string keys = { NULL };
    OK(mlx_device_info_get_keys(&keys, info));
    assert_true(mlx_vector_string_size(keys) >= 2);
    for (size_t i = 0; i < mlx_vector_string_size(keys); i++) {
        char *key;
        OK(mlx_vector_string_get(&key, keys, i));
        OK(mlx_device_info_is_string(&yes, info, key));
        OK(yes ? mlx_device_info_get_string(&text, info, key) : mlx_device_info_get_size(&number, info, key));
    }
    OK(mlx_device_info_get(&info, gpu)); /* of what is not there nothing is known */
    OK(mlx_device_info_get_keys(&keys, info));
    assert_int_equal(mlx_vector_string_size(keys), 0);
    FAILS(mlx_device_info_has_key(&yes, none, "x"), "facts about a device");
    FAILS(mlx_device_info_get_keys(&keys, none), "facts about a device");
    mlx_vector_string_free(keys);
    mlx_device_info_free(info);
    OK(mlx_device_info_free(none));
    mlx_device_free(cpu);
    mlx_device_free(gpu);
}

static void streams(void **state)
{
    (void)state;
    mlx_device cpu = mlx_device_new_type(MLX_CPU, 0), gpu = mlx_device_new_type(MLX_GPU, gpus_here());
    mlx_device dev = mlx_device_new(), no_device = mlx_device_new();
    mlx_stream first = mlx_default_cpu_stream_new(), s = mlx_stream_new_device(cpu);
    mlx_stream none = mlx_stream_new(), t = mlx_stream_new();
    assert_non_null(s.ctx);
    assert_false(mlx_stream_equal(first, s));
    assert_true(mlx_stream_equal(none, t));
    OK(mlx_stream_set(&t, s));
    assert_true(mlx_stream_equal(s, t));
    int i = -1, j = -1;
    OK(mlx_stream_get_index(&i, first));
    OK(mlx_stream_get_index(&j, s));
    assert_int_not_equal(i, j);
    OK(mlx_stream_get_device(&dev, s));
    assert_true(mlx_device_equal(dev, cpu));
    mlx_string text = mlx_string_new();
    char expected[64];
    OK(mlx_stream_tostring(&text, s));
    snprintf(expected, sizeof expected, "Stream(Device(cpu, 0), %d)", j);
    expect_text(&text, expected);

    OK(mlx_get_default_stream(&t, cpu));
    assert_true(mlx_stream_equal(first, t));
    OK(mlx_set_default_stream(s));
    OK(mlx_get_default_stream(&t, cpu));
    assert_true(mlx_stream_equal(s, t));
    OK(mlx_set_default_stream(first));

    mlx_array a = mlx_array_new_float(1);
    OK(mlx_exp(&a, a, s));
    mlx_vector_array all = mlx_vector_array_new_value(a);
    OK(mlx_async_eval(all));
    OK(mlx_synchronize(s));
    bool yes = false;
    OK(_mlx_array_is_available(&yes, a));
    assert_true(yes);
    OK(mlx_synchronize(none));
    mlx_vector_array_free(all);
    mlx_array_free(a);

    mlx_stream made = first;
    FAILS(mlx_stream_make(&made, gpu), "[device] there is no Device(gpu, ");
    FAILS(mlx_stream_make(NULL, cpu), "place for the result");
    assert_true(mlx_stream_equal(made, first));
    OK(mlx_stream_make(&made, cpu));
    assert_false(mlx_stream_equal(made, first) || mlx_stream_equal(made, s));
    mlx_stream unmade = mlx_stream_new_device(gpu);
    expect_heard(1, "gpu");
    mlx_stream no_gpu = gpus_here() ? mlx_stream_new_device(gpu) : mlx_default_gpu_stream_new();
    expect_heard(1, "gpu");
    assert_false(mlx_stream_equal(unmade, mlx_stream_new()));
    mlx_array two = mlx_array_new_int(2), sum = mlx_array_new_int(7);
    mlx_vector_array parts = mlx_vector_array_new();
    FAILS(mlx_add(&sum, two, two, no_gpu), "[add] expected a stream, got the handle of one that could not be made");
    FAILS(mlx_zeros(&sum, (int[]){ 2 }, 1, MLX_INT32, no_gpu), "could not be made");
    FAILS(mlx_split(&parts, two, 1, 0, no_gpu), "could not be made");
    FAILS(mlx_load(&sum, "no file", no_gpu), "could not be made");
    FAILS(mlx_synchronize(no_gpu), "could not be made");
    FAILS(mlx_set_default_stream(no_gpu), "could not be made");
    FAILS(mlx_add(&sum, two, two, unmade), "[add] expected a stream, got the handle of one that could not be made");
    FAILS(mlx_stream_set(&made, unmade), "could not be made");
    OK(mlx_stream_free(unmade));
    OK(mlx_stream_free(no_gpu));
    expect_array(sum, "7, dtype=int32");
    assert_int_equal(mlx_vector_array_size(parts), 0);
    mlx_array_free(two);
    mlx_array_free(sum);
    mlx_vector_array_free(parts);
    unmade = mlx_stream_new_device(no_device);
    expect_heard(1, "a device");
    FAILS(mlx_synchronize(unmade), "could not be made");
    FAILS(mlx_get_default_stream(&t, no_device), "a device");
    FAILS(mlx_stream_set(&t, none), "a stream");
    FAILS(mlx_set_default_stream(none), "a stream");
    FAILS(mlx_stream_get_index(&i, none), "a stream");
    FAILS(mlx_stream_get_index(NULL, s), "place for the result");
    FAILS(mlx_stream_get_device(&dev, none), "a stream");
    FAILS(mlx_stream_tostring(&text, none), "a stream");
    OK(mlx_stream_free(s));
    OK(mlx_stream_free(first));
    OK(mlx_stream_free(none));
    mlx_device_free(cpu);
    mlx_device_free(gpu);
    mlx_device_free(dev);
}

static void memory(void **state)
{
    (void)state;
    size_t before, active, peak, cached, limit, was;
    OK(mlx_get_active_memory(&before));
    const int n = 1 << 20;
    float *data = test_calloc((size_t)n, sizeof *data);
    mlx_array a = mlx_array_new_data(data, &n, 1, MLX_FLOAT32);
    test_free(data);
    OK(mlx_get_active_memory(&active));
    assert_true(active >= before + (4u << 20) && active < before + (6u << 20));
    OK(mlx_reset_peak_memory());
    OK(mlx_get_peak_memory(&peak));
    assert_int_equal(peak, 0);
    mlx_array one = mlx_array_new_float(1);
    mlx_array_free(a);
    mlx_array_free(one);
    OK(mlx_get_peak_memory(&peak));
    assert_true(peak >= active);
    OK(mlx_get_cache_memory(&cached));
    assert_true(cached >= 4u << 20);
    OK(mlx_clear_cache());
    OK(mlx_get_cache_memory(&cached));
    assert_true(cached < 4u << 20);

    OK(mlx_get_memory_limit(&limit));
    OK(mlx_set_memory_limit(&was, 1 << 20));
    assert_true(was == limit);
    static float big[1 << 20];
    FAILS(mlx_array_new_data(big, &n, 1, MLX_FLOAT32).ctx == NULL, "4194304 bytes");
    OK(mlx_set_memory_limit(&was, limit));
    assert_true(was == 1 << 20);
    OK(mlx_set_cache_limit(&was, 12345));
    OK(mlx_set_cache_limit(&was, was));
    assert_true(was == 12345);
    OK(mlx_set_wired_limit(&was, 7));
    OK(mlx_set_wired_limit(&was, was));
    assert_true(was == 7);
    FAILS(mlx_get_active_memory(NULL), "place for the result");
    FAILS(mlx_set_memory_limit(NULL, 0), "place for the result");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices), cmocka_unit_test(of_a_thread), cmocka_unit_test(facts),
        cmocka_unit_test(streams), cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests_name("C API: devices", tests, start_listening, all_gone);
}
