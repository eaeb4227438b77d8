/* Children of fork() while other threads are at work: no lock stays taken, whatever the child does. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lock.h"
#include "support/heard.h"

static mlx_stream s;
static mlx_closure compiled;

static int plus_one(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), one = mlx_array_new_float(1);
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_add(&x, x, one, s) || mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    mlx_array_free(one);
    return failed;
}

static void ignore(const char *message, void *data) { (void)message, (void)data; }

static int calls_compiled(void)
{
    mlx_array x = mlx_array_new_float(2);
    mlx_vector_array in = mlx_vector_array_new_value(x), out = mlx_vector_array_new();
    int failed = mlx_closure_apply(&out, compiled, in);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(x);
    return failed;
}

static int opens_scopes(void)
{
    int failed = mlx_scope_begin();
    for (int i = 0; i < 4; i++) mlx_array_new_float(1);
    return failed || mlx_scope_end();
}

static int looks_up(void)
{
    mlx_library_kind kind;
    const void *bytes;
    size_t size;
    bool is;
    return !mlx_library_contents(&kind, &bytes, &size, "none") || mlx_detail_compile_erase(7) ||
           mlx_primitive_is_registered(&is, "none") || is;
}

static int sets_handlers(void)
{
    mlx_set_warning_handler(ignore, NULL, NULL);
    mlx_set_warning_handler(NULL, NULL, NULL);
    return 0;
}

static int draws(void)
{
    mlx_array x = mlx_array_new(), none = { NULL };
    int failed = mlx_random_bits(&x, (int[]){ 30 }, 1, 4, none, s);
    mlx_array_free(x);
    return failed;
}

static int evaluates(void)
{
    mlx_array x = mlx_array_new();
    int failed = mlx_arange(&x, 0, 3000, 1, MLX_FLOAT32, s) || mlx_sin(&x, x, s) || mlx_array_eval(x);
    mlx_array_free(x);
    return failed;
}

static int (*const all[])(void) = { calls_compiled, opens_scopes, looks_up, sets_handlers, draws, evaluates };
enum { KINDS = sizeof all / sizeof *all, FORKS = 60 };

static atomic_bool over;
static void *work(void *arg)
{
    int (*f)(void) = *(int (*const *)(void))arg;
    while (!atomic_load(&over)) f();
    return NULL;
}

/* A child that does f and ends well. */
static void fork_to(int (*f)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(10); /* it hangs */
        _exit(f() != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void children_find_locks_free(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own locks may be taken in the child */
#endif
    mlx_set_error_handler(ignore, NULL, NULL);
    mlx_closure f = mlx_closure_new_func(plus_one);
    compiled = mlx_closure_new();
    assert_int_equal(mlx_compile(&compiled, f, false), 0);
    s = mlx_default_cpu_stream_new();
    for (int k = 0; k < KINDS; k++) {
        pthread_t threads[2];
        atomic_store(&over, false);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)&all[k]), 0);
        for (int i = 0; i < FORKS; i++) fork_to(all[k]);
        atomic_store(&over, true);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    }
    mlx_closure_free(f);
    mlx_closure_free(compiled);
    mlx_set_error_handler(listen, NULL, NULL);
    heard.n = 0;
}

/* A lock that is taken when another thread forks is waited for; in the child it is free. */
static struct lock opened;
LOCK(of_file, LOCK_DEVICE);
static atomic_bool held, done;

static void *hold_both(void *unused)
{
    (void)unused;
    lock_take(&of_file);
    lock_take(&opened);
    atomic_store(&held, true);
    usleep(50000);
    atomic_store(&done, true);
    lock_give(&opened);
    lock_give(&of_file);
    return NULL;
}

static int takes_both(void)
{
    lock_take(&of_file);
    lock_take(&opened);
    return !atomic_load(&done);
}

static void forks_wait_for_locks(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* a child has no thread to join, which its sanitizer finds missing */
#endif
    pthread_t t;
    lock_open(&opened, LOCK_LEAF);
    assert_int_equal(pthread_create(&t, NULL, hold_both, NULL), 0);
    while (!atomic_load(&held)) usleep(100);
    fork_to(takes_both);
    pthread_join(t, NULL);
}

/* The owner of the key that another one replaces may draw. */
static bool drew;
static void draw(void *payload)
{
    (void)payload;
    drew = draws() == 0;
}

static void keys_are_let_go_without_the_lock(void **state)
{
    (void)state;
    static uint32_t words[] = { 1, 2 };
    for (int seeded = 0; seeded < 2; seeded++) {
        drew = false;
        alarm(10);
        mlx_array key = mlx_array_new_data_managed_payload(words, (int[]){ 2 }, 1, MLX_UINT32, NULL, draw);
        OK(mlx_random_set_state(key));
        mlx_array_free(key);
        if (seeded)
            OK(mlx_random_seed(3));
        else
            assert_int_equal(draws(), 0);
        assert_true(drew);
        alarm(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_wait_for_locks),
        cmocka_unit_test(children_find_locks_free),
        cmocka_unit_test(keys_are_let_go_without_the_lock),
    };
    return cmocka_run_group_tests(tests, start_listening, NULL);
}
