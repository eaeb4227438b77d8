/* The library as a host of plugins has it: opened and closed while threads are about. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "mlx/c/mlx.h"

static void *library;
static pthread_barrier_t both;

#define CALL(name) ((__typeof__(&name))dlsym(library, #name))

/* Computes, waits until the library is closed, and ends. */
static void *use(void *unused)
{
    (void)unused;
    mlx_stream s = CALL(mlx_default_cpu_stream_new)();
    mlx_array a = CALL(mlx_array_new_int)(3);
    int failed = CALL(mlx_add)(&a, a, a, s) || CALL(mlx_array_eval)(a);
    CALL(mlx_array_free)(a);
    CALL(mlx_stream_free)(s);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return (void *)(intptr_t)failed;
}

static void threads_outlive_it(void **state)
{
    (void)state;
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++) {
        pthread_t t;
        void *failed;
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            fail_msg("%s", dlerror());
        assert_int_equal(pthread_create(&t, NULL, use, NULL), 0);
        pthread_barrier_wait(&both);
        mlx_stream s = CALL(mlx_default_cpu_stream_new)();
        mlx_array a = CALL(mlx_array_new)();
        assert_int_equal(CALL(mlx_zeros)(&a, (int[]){ 1 << 20 }, 1, MLX_FLOAT32, s), 0);
        for (int k = 0; k < 10; k++) assert_int_equal(CALL(mlx_sin)(&a, a, s), 0);
        mlx_vector_array all = CALL(mlx_vector_array_new_value)(a);
        assert_int_equal(CALL(mlx_async_eval)(all), 0);
        CALL(mlx_vector_array_free)(all);
        CALL(mlx_array_free)(a);
        CALL(mlx_stream_free)(s);
        assert_int_equal(dlclose(library), 0); /* while a worker computes */
        pthread_barrier_wait(&both);
        assert_int_equal(pthread_join(t, &failed), 0);
        assert_null(failed);
    }
    usleep(100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(threads_outlive_it) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
