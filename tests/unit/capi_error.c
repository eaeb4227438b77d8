/* Errors: one report each, on the right thread, through the handler in force. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/heard.h"

static void own_errors(void **state)
{
    (void)state;
    int line = __LINE__ + 1;
    mlx_error("the %s is %d", "answer", 42);
    char expected[256];
    snprintf(expected, sizeof expected, "the answer is 42 at %s:%d", __FILE__, line);
    assert_string_equal(heard.last, expected);
    expect_heard(1, "answer");
}

static int dropped;
static void drop(void *data)
{
    dropped++;
    free(data);
}

static void count(const char *msg, void *data)
{
    (void)msg;
    ++*(int *)data;
}

static void handlers(void **state)
{
    (void)state;
    int *n = calloc(1, sizeof *n);
    mlx_set_error_handler(count, n, drop);
    mlx_array_size(mlx_array_empty);
    mlx_array_size(mlx_array_empty);
    assert_int_equal(*n, 2);
    assert_int_equal(dropped, 0);
    mlx_set_error_handler(listen, NULL, NULL);
    assert_int_equal(dropped, 1);
    mlx_array_size(mlx_array_empty);
    expect_heard(1, "array_size");
}

/* A handler may itself call the library, and fail there. */
static int depth;
static void fail_again(const char *msg, void *data)
{
    (void)data;
    char before[256];
    snprintf(before, sizeof before, "%s", msg);
    if (depth++ == 0)
        mlx_array_dim(mlx_array_empty, 0);
    assert_string_equal(msg, before);
}

static void failing_handler(void **state)
{
    (void)state;
    mlx_set_error_handler(fail_again, NULL, NULL);
    mlx_array_size(mlx_array_empty);
    assert_int_equal(depth, 2);
    mlx_set_error_handler(listen, NULL, NULL);
    mlx_array a = mlx_array_new_int(1);
    assert_int_equal(mlx_array_size(a), 1);
    expect_heard(0, "");
    mlx_array_free(a);
}

/* The default handler writes to stderr, and the process goes on. */
static void printing(void **state)
{
    (void)state;
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    fflush(stderr);
    int saved = dup(2);
    dup2(pipe_ends[1], 2);
    mlx_set_error_handler(NULL, NULL, NULL);
    size_t n = mlx_array_size(mlx_array_empty);
    mlx_set_error_handler(listen, NULL, NULL);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    close(pipe_ends[1]);
    char text[256] = "";
    assert_true(read(pipe_ends[0], text, sizeof text - 1) > 0);
    close(pipe_ends[0]);
    assert_int_equal(n, 0);
    assert_non_null(strstr(text, "[array_size]"));
}

static void *fail_on_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2000; i++) mlx_array_size(mlx_array_empty);
    return NULL;
}

static void quiet(const char *msg, void *data)
{
    __atomic_fetch_add((int *)data, 1, __ATOMIC_RELAXED);
    assert_non_null(strstr(msg, "array_size"));
}

/* Handlers replaced while other threads report: each report reaches one whose data is alive. */
static void threads(void **state)
{
    (void)state;
    pthread_t t[4];
    mlx_set_error_handler(quiet, calloc(1, sizeof(int)), free);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, fail_on_thread, NULL), 0);
    for (int i = 0; i < 200; i++) mlx_set_error_handler(quiet, calloc(1, sizeof(int)), free);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    mlx_set_error_handler(listen, NULL, NULL);
}

static void absent_devices(void **state)
{
    (void)state;
    bool yes = true;
    OK(mlx_metal_is_available(&yes));
    assert_false(yes);
    yes = true;
    OK(mlx_cuda_is_available(&yes));
    assert_int_equal(yes, gpus_here() > 0);
    OK(mlx_metal_start_capture("x"));
    OK(mlx_metal_stop_capture());
    FAILS(mlx_metal_is_available(NULL), "place for the result");
}

static struct {
    int n;
    pthread_t thread;
    char last[1024];
} warned;

static void note(const char *msg, void *data)
{
    *(int *)data = ++warned.n;
    warned.thread = pthread_self();
    snprintf(warned.last, sizeof warned.last, "%s", msg);
}

static void lets_go(const char *msg, void *data)
{
    (void)msg;
    mlx_array_free(*(mlx_array *)data);
    *(mlx_array *)data = mlx_array_new();
}

/* An index out of range that a worker meets is told once, to who waits, and every time as an error where it is one. */
static void warnings(void **state)
{
    (void)state;
    int *n = calloc(1, sizeof *n), i = 7, one = 1;
    bool was = true;
    mlx_set_warning_handler(note, n, drop);
    mlx_device cpu = mlx_device_new_type(MLX_CPU, 0);
    mlx_stream s = mlx_default_cpu_stream_new(), other = mlx_stream_new_device(cpu);
    mlx_device_free(cpu);
    mlx_array index = mlx_array_new_data(&i, &one, 1, MLX_INT32), x = mlx_array_new(), y = mlx_array_new();
    mlx_set_index_errors(&was, false);
    assert_false(was);
    mlx_arange(&x, 0, 5, 1, MLX_INT32, s);
    for (int again = 0; again < 2; again++) {
        mlx_take(&y, x, index, other);
        mlx_vector_array all = mlx_vector_array_new_value(y);
        assert_int_equal(mlx_async_eval(all), 0);
        assert_int_equal(mlx_synchronize(other), 0);
        assert_int_equal(mlx_array_data_int32(y)[0], 4);
        mlx_vector_array_free(all);
        assert_int_equal(*n, 1);
        assert_true(pthread_equal(warned.thread, pthread_self()));
        assert_string_equal(warned.last,
                            "[take] index 7 at position (0,) is out of range for axis 0 of size 5; the nearest element "
                            "is read. This is said once; MLX_INDEX=error makes it an error");
    }

    /* What a handler does with the array that is being looked at is not looked at. */
    mlx_string text = mlx_string_new();
    dropped = 0;
    mlx_set_warning_handler(lets_go, &y, NULL);
    assert_int_equal(dropped, 1);
    for (int way = 0; way < 3; way++) {
        mlx_set_index_errors(&was, false);
        mlx_take(&y, x, index, other);
        if (way == 0) {
            assert_int_equal(mlx_array_tostring(&text, y), 0);
            assert_string_equal(mlx_string_data(text), "array([4], dtype=int32)");
        } else if (way == 1) {
            assert_non_null(mlx_array_data_int32(y));
        } else {
            assert_non_null(mlx_array_strides(y));
        }
        assert_null(y.ctx);
    }
    mlx_string_free(text);
    mlx_set_index_errors(&was, true);
    for (int again = 0; again < 2; again++) {
        mlx_take(&y, x, index, other);
        assert_int_equal(mlx_array_eval(y), 1);
        assert_null(strstr(heard.last, "nearest"));
        expect_heard(1, "[take] index 7 at position (0,)");
    }
    mlx_set_index_errors(&was, false);
    mlx_set_warning_handler(NULL, NULL, NULL);
    mlx_array_free(index);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_stream_free(s);
    mlx_stream_free(other);
}

/* What lets go of memory may call the library while a failure is on its way, and fail there itself. */
static int let_go;
static void call_and_fail(void *payload)
{
    (void)payload;
    mlx_array one = mlx_array_new_int(3);
    mlx_array_free(one);
    if (let_go++ % 2)
        mlx_array_dim(mlx_array_empty, 0);
}

static int given_up(mlx_vector_array *res, const mlx_vector_array in)
{
    static float memory[4];
    int n = 4;
    (void)in;
    mlx_array m = mlx_array_new_data_managed_payload(memory, &n, 1, MLX_FLOAT32, NULL, call_and_fail);
    mlx_vector_array_append_value(*res, m);
    mlx_array_free(m);
    return 5;
}

static void failures_survive_what_lets_go(void **state)
{
    (void)state;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_closure f = mlx_closure_new_func(given_up), compiled = mlx_closure_new();
    mlx_array x = mlx_array_new_float(2);
    mlx_vector_array in = mlx_vector_array_new_value(x), y = mlx_vector_array_new(), dx = mlx_vector_array_new();
    OK(mlx_compile(&compiled, f, false));
    for (int odd = 0; odd < 2; odd++) {
        let_go = odd;
        assert_int_equal(mlx_closure_apply(&y, f, in), 1);
        expect_heard(1 + odd, "expected the function to return 0, got 5");
        let_go = odd;
        assert_int_equal(mlx_closure_apply(&y, compiled, in), 1);
        expect_heard(1 + odd, "expected the function to return 0, got 5");
        let_go = odd;
        assert_int_equal(mlx_vjp(&y, &dx, f, in, in), 1);
        expect_heard(1 + odd, "expected the function to return 0, got 5");
        let_go = odd;
        assert_int_equal(mlx_while_loop(&y, f, f, in, s), 1);
        expect_heard(1 + odd, "expected the function to return 0, got 5");
    }
    mlx_array_free(x);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    mlx_closure_free(f);
    mlx_closure_free(compiled);
    mlx_stream_free(s);
}

/* Asked whether to stop, a program may look, but not evaluate: its stream is at work. */
static int asked;
static bool evaluate_meanwhile(void)
{
    mlx_array a = mlx_array_new_int(3), b = mlx_array_new();
    mlx_stream s = mlx_default_cpu_stream_new();
    int failed = mlx_add(&b, a, a, s) || mlx_array_eval(b);
    mlx_stream_free(s);
    mlx_array_free(a);
    mlx_array_free(b);
    return ++asked > 3 || !failed;
}

static void asking_does_not_evaluate(void **state)
{
    (void)state;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array a = mlx_array_new(), half = mlx_array_new_float(0.5f);
    OK(mlx_full(&a, (int[]){ 1 << 20 }, 1, half, MLX_FLOAT32, s));
    mlx_array_free(half);
    for (int i = 0; i < 20000; i++) mlx_sin(&a, a, s);
    mlx_stop_when(evaluate_meanwhile);
    assert_int_equal(mlx_array_eval(a), 1);
    mlx_stop_when(NULL);
    assert_int_equal(asked, 4);
    assert_int_equal(mlx_last_error(NULL), MLX_ERROR_INTERRUPTED);
    expect_heard(5, "interrupted");
    mlx_array_free(a);
    mlx_stream_free(s);
}

/* Ones that take longer than it takes until a program is asked. */
enum { COUNT = 1000 };
static int slow_ones(const void *state, mlx_run run)
{
    (void)state;
    if (mlx_run_alloc(run, 0))
        return 1;
    usleep(90000);
    for (int i = 0; i < COUNT; i++) ((float *)mlx_run_output(run, 0)->data)[i] = 1;
    return 0;
}

static const struct mlx_primitive_class slow_class = {
    .struct_size = sizeof slow_class,
    .abi = MLX_PRIMITIVE_ABI,
    .name = "SlowOnes",
    .eval_cpu = slow_ones,
};

/* Their sines, of which there is one handle. */
static mlx_array sines(mlx_stream s)
{
    const mlx_output ones = { MLX_FLOAT32, 1, { COUNT } };
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    mlx_array a = mlx_array_new();
    OK(mlx_primitive_apply(&out, &slow_class, NULL, in, &ones, 1, s));
    OK(mlx_vector_array_get(&a, out, 0));
    OK(mlx_sin(&a, a, s));
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    return a;
}

static void count_leave(void *left) { ++*(int *)left; }

/* How often a sum of so many ones with themselves has its thread leave. */
static int times_left(int elements, bool waits)
{
    int left = 0;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array a = mlx_array_new(), one = mlx_array_new_float(1);
    mlx_vector_array all = mlx_vector_array_new();
    OK(mlx_full(&a, &elements, 1, one, MLX_FLOAT32, s));
    OK(mlx_array_eval(a));
    OK(mlx_add(&a, a, a, s));
    OK(mlx_vector_array_append_value(all, a));
    mlx_leave_with(count_leave, &left);
    OK(waits ? mlx_array_eval(a) : mlx_async_eval(all));
    mlx_leave_with(NULL, NULL);
    OK(mlx_array_eval(a));
    mlx_vector_array_free(all);
    mlx_array_free(one);
    mlx_array_free(a);
    mlx_stream_free(s);
    return left;
}

static void only_long_evaluations_leave(void **state)
{
    (void)state;
    assert_int_equal(times_left(4, true), 0);
    assert_int_equal(times_left(1 << 20, true), 1);
    assert_int_equal(times_left(4, false), 1); /* which may wait for the batches before */
    int left = 0;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array slow = sines(s);
    mlx_leave_with(count_leave, &left);
    OK(mlx_array_eval(slow)); /* an operation that may do anything */
    mlx_leave_with(NULL, NULL);
    assert_int_equal(left, 1);
    mlx_array_free(slow);
    mlx_stream_free(s);
}

static pthread_t asker;

static bool ask_no_more(void)
{
    asked++;
    mlx_stop_when(NULL);
    return false;
}

static void who_is_asked_may_take_itself_off(void **state)
{
    (void)state;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array a = sines(s);
    asked = 0;
    mlx_stop_when(ask_no_more);
    OK(mlx_array_eval(a));
    assert_int_equal(asked, 1);
    mlx_array_free(a);
    mlx_stream_free(s);
}

static bool of_this_thread(void)
{
    asked += pthread_equal(asker, pthread_self()) ? 1 : 1000000;
    usleep(10000); /* evaluations end meanwhile */
    return false;
}

static void *evaluate_elsewhere(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        mlx_stream s = mlx_default_cpu_stream_new();
        mlx_array a = sines(s);
        OK(mlx_array_eval(a));
        mlx_array_free(a);
        mlx_stream_free(s);
    }
    return NULL;
}

/* Not by other threads that evaluate, and by this one not after it was taken off, whatever waits or runs still. */
static void only_its_thread_asks(void **state)
{
    (void)state;
    pthread_t other;
    mlx_stream s = mlx_default_cpu_stream_new();
    asked = 0;
    asker = pthread_self();
    assert_int_equal(pthread_create(&other, NULL, evaluate_elsewhere, NULL), 0);
    for (int i = 0; i < 3; i++) {
        mlx_array a = sines(s), b = sines(s);
        mlx_vector_array first = mlx_vector_array_new_value(a), all = mlx_vector_array_new_value(b);
        OK(mlx_async_eval(first));
        mlx_stop_when(of_this_thread);
        OK(mlx_eval(all));
        mlx_stop_when(NULL);
        int before = asked;
        OK(mlx_eval(first));
        assert_int_equal(asked, before);
        mlx_array_free(a);
        mlx_array_free(b);
        mlx_vector_array_free(first);
        mlx_vector_array_free(all);
    }
    pthread_join(other, NULL);
    assert_in_range(asked, 1, 999999);
    mlx_stream_free(s);
}

static mlx_array waited_for;
static mlx_io_gguf saved;
static bool let_go_of_it(void)
{
    if (asked++)
        return false;
    mlx_array other = mlx_array_new_float(2);
    if (saved.ctx) {
        mlx_io_gguf_set_metadata_array(saved, "x", other);
        for (char key[2] = "a"; *key <= 'w'; ++*key) mlx_io_gguf_set_metadata_array(saved, key, other);
    }
    mlx_array_set(&waited_for, other);
    mlx_array_free(other);
    return false;
}

static int waits(int way)
{
    mlx_string text = mlx_string_new();
    mlx_array r = mlx_array_new();
    mlx_stream s = mlx_default_cpu_stream_new();
    bool flag = false;
    int failed = 1;
    switch (way) {
    case 0: failed = mlx_array_eval(waited_for); break;
    case 1: failed = !mlx_array_data_float32(waited_for); break;
    case 2: failed = !mlx_array_strides(waited_for); break;
    case 3: failed = _mlx_array_is_row_contiguous(&flag, waited_for) || !flag; break;
    case 4: failed = mlx_array_is_writable(&flag, waited_for) || !flag; break;
    case 5: failed = mlx_array_lend(waited_for); break;
    case 6: failed = mlx_array_tostring(&text, waited_for) || strncmp(mlx_string_data(text), "array([", 7); break;
    case 7: failed = mlx_array_text(&text, waited_for, 4) || strncmp(mlx_string_data(text), "array([", 7); break;
    case 8: failed = mlx_nonzero(&r, waited_for, s) || mlx_array_size(r) != COUNT; break;
    case 9: {
        mlx_array mask = mlx_array_new(), zero = mlx_array_new_float(0);
        failed = mlx_greater(&mask, waited_for, zero, s);
        mlx_array_set(&waited_for, mask);
        mlx_index item = { .kind = MLX_INDEX_ARRAY, .array = waited_for };
        failed = failed || mlx_getitem(&r, waited_for, &item, 1, s) || mlx_array_size(r) != COUNT;
        mlx_array_free(mask);
        mlx_array_free(zero);
        break;
    }
    case 10: {
        char name[64];
        snprintf(name, sizeof name, P_tmpdir "/capi_error.%ld.gguf", (long)getpid());
        saved = mlx_io_gguf_new();
        failed = mlx_io_gguf_set_metadata_array(saved, "x", waited_for) || mlx_save_gguf(name, saved) || unlink(name);
        mlx_io_gguf_free(saved);
        saved.ctx = NULL;
        break;
    }
    }
    mlx_stream_free(s);
    mlx_array_free(r);
    mlx_string_free(text);
    return failed;
}

/* Who waits holds what it waits for: on a worker, whose batch does so until it is done, and here. */
static void who_is_asked_may_let_go(void **state)
{
    (void)state;
    mlx_stream s = mlx_default_cpu_stream_new();
    for (int way = 0; way <= 10; way++)
        for (int worker = 0; worker <= (way != 9); worker++) {
            waited_for = sines(s);
            asked = 0;
            if (worker) {
                mlx_vector_array all = mlx_vector_array_new_value(waited_for);
                OK(mlx_async_eval(all));
                mlx_vector_array_free(all);
            }
            mlx_stop_when(let_go_of_it);
            OK(waits(way));
            mlx_stop_when(NULL);
            assert_true(asked > 0);
            mlx_array_free(waited_for);
        }
    mlx_stream_free(s);
}

static void checks(void **state)
{
    (void)state;
    mlx_checks was = MLX_CHECK_INF;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array x = mlx_array_new_float(-1), y = mlx_array_new();
    OK(mlx_set_checks(&was, MLX_CHECK_NAN));
    assert_int_equal(was, MLX_CHECK_NOTHING);
    OK(mlx_sqrt(&y, x, s));
    assert_int_equal(mlx_array_eval(y), 1);
    expect_heard(1, "[sqrt] made 1 NaN of 1 element from finite operands: output float32 ()");
    assert_int_equal(mlx_set_checks(&was, (mlx_checks)3), 1);
    expect_heard(1, "[set_checks] expected checks from 0 to 2, got 3");
    assert_int_equal(mlx_set_checks(NULL, MLX_CHECK_INF), 1);
    expect_heard(1, "place for the result");
    OK(mlx_set_checks(&was, MLX_CHECK_NOTHING));
    assert_int_equal(was, MLX_CHECK_NAN);
    OK(mlx_array_eval(y));
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_stream_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_errors),
        cmocka_unit_test(handlers),
        cmocka_unit_test(failing_handler),
        cmocka_unit_test(printing),
        cmocka_unit_test(threads),
        cmocka_unit_test(absent_devices),
        cmocka_unit_test(warnings),
        cmocka_unit_test(checks),
        cmocka_unit_test(failures_survive_what_lets_go),
        cmocka_unit_test(asking_does_not_evaluate),
        cmocka_unit_test(only_long_evaluations_leave),
        cmocka_unit_test(who_is_asked_may_take_itself_off),
        cmocka_unit_test(who_is_asked_may_let_go),
        cmocka_unit_test(only_its_thread_asks),
    };
    return cmocka_run_group_tests_name("C API: errors", tests, start_listening, all_gone);
}
