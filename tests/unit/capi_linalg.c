/* The entry points of linalg.h and einsum: values of small matrices, and arguments refused. */
#include "support/heard.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static mlx_stream s;
static mlx_array a, lower, r, q;
static const mlx_array none = { NULL };

#define F32 ", dtype=float32"
#define C64 ", dtype=complex64"

static mlx_array matrix(int m, int n, const float *v)
{
    return mlx_array_new_data(v, (const int[]){ m, n }, 2, MLX_FLOAT32);
}

static void norms(void **state)
{
    (void)state;
    const int both[] = { 0, 1 }, first = 0;
    GIVES(mlx_linalg_norm(&r, a, 1, &first, 1, false, s), "[6, 5]" F32);
    GIVES(mlx_linalg_norm(&r, a, INFINITY, both, 2, false, s), "6" F32);
    GIVES(mlx_linalg_norm(&r, a, 1, NULL, 0, true, s), "[[6]]" F32);
    GIVES(mlx_linalg_norm_l2(&r, a, NULL, 0, false, s), "5.74456" F32);
    GIVES(mlx_linalg_norm_matrix(&r, a, "fro", both, 2, false, s), "5.74456" F32);
    GIVES(mlx_linalg_norm_matrix(&r, a, "nuc", NULL, 0, false, s), "7" F32);
    FAILS(mlx_linalg_norm(&r, a, 1, NULL, 1, false, s), "`axis`, got NULL");
    FAILS(mlx_linalg_norm_matrix(&r, a, NULL, both, 2, false, s), "`ord`, got NULL");
    FAILS(mlx_linalg_norm_matrix(&r, a, "one", both, 2, false, s), "'one'");
    FAILS(mlx_linalg_norm_l2(&r, none, NULL, 0, false, s), "`a`");
}

static void inverses(void **state)
{
    (void)state;
    GIVES(mlx_linalg_inv(&r, lower, s), "[[1, 0],\n       [-2, 1]]" F32);
    GIVES(mlx_linalg_tri_inv(&r, a, true, s), "[[0.25, -0.166667],\n       [0, 0.333333]]" F32);
    mlx_array zero = matrix(2, 2, (const float[4]){ 0 }), column = matrix(2, 1, (const float[]){ 3, 4 });
    GIVES(mlx_linalg_pinv(&r, column, s), "[[0.12, 0.16]]" F32);
    GIVES(mlx_linalg_solve(&r, lower, a, s), "[[4, 2],\n       [-6, -1]]" F32);
    GIVES(mlx_linalg_solve_triangular(&r, lower, a, true, s), "[[4, 2],\n       [2, 3]]" F32);
    GIVES(mlx_linalg_cholesky(&r, a, false, s), "[[2, 0],\n       [1, 1.41421]]" F32);
    GIVES(mlx_linalg_cholesky_inv(&r, lower, false, s), "[[5, -2],\n       [-2, 1]]" F32);
    GIVES(mlx_linalg_det(&r, a, s), "8" F32);
    OK(mlx_linalg_slogdet(&q, &r, a, s));
    GIVES(mlx_array_set(&r, r), "2.07944" F32);
    FAILS(mlx_linalg_inv(&r, none, s), "`a`");
    FAILS(mlx_linalg_slogdet(&r, NULL, a, s), "place for the result");
    OK(mlx_linalg_inv(&q, zero, s)); /* evaluating it is what fails */
    FAILS(mlx_array_eval(q), "[linalg.inv] expected an invertible matrix");
    mlx_array_free(zero);
    mlx_array_free(column);
}

static void factors(void **state)
{
    (void)state;
    OK(mlx_linalg_qr(&q, &r, a, s));
    GIVES(mlx_matmul(&r, q, r, s), "[[4, 2],\n       [2, 3]]" F32);
    OK(mlx_linalg_eigh(&r, &q, lower, "L", s));
    GIVES(mlx_linalg_eigvalsh(&r, lower, "L", s), "[-1, 3]" F32);
    GIVES(mlx_linalg_eigvals(&r, lower, s), "[1+0j, 1+0j]" C64);
    OK(mlx_linalg_eig(&r, &q, lower, s));
    OK(mlx_linalg_lu_factor(&q, &r, lower, s));
    GIVES(mlx_array_set(&r, r), "[1, 1], dtype=uint32");
    mlx_vector_array three = mlx_vector_array_new();
    OK(mlx_linalg_lu(&three, lower, s));
    assert_int_equal(mlx_vector_array_size(three), 3);
    OK(mlx_vector_array_get(&r, three, 2));
    GIVES(mlx_array_set(&r, r), "[[2, 1],\n       [0, -0.5]]" F32);
    OK(mlx_linalg_svd(&three, a, true, s));
    assert_int_equal(mlx_vector_array_size(three), 3);
    OK(mlx_linalg_svd(&three, a, false, s));
    assert_int_equal(mlx_vector_array_size(three), 1);
    mlx_vector_array_free(three);
    FAILS(mlx_linalg_eigh(&q, &r, a, NULL, s), "`UPLO`, got NULL");
    FAILS(mlx_linalg_eigvalsh(&r, a, "LU", s), "'LU'");
    FAILS(mlx_linalg_qr(NULL, &r, a, s), "`res_0`");
    FAILS(mlx_linalg_svd(NULL, a, true, s), "place for the result");
}

static void products(void **state)
{
    (void)state;
    const float u[] = { 1, 0, 0 }, v[] = { 0, 1, 0 };
    const int three = 3;
    mlx_array x = mlx_array_new_data(u, &three, 1, MLX_FLOAT32), y = mlx_array_new_data(v, &three, 1, MLX_FLOAT32);
    GIVES(mlx_linalg_cross(&r, x, y, -1, s), "[0, 0, 1]" F32);
    mlx_vector_array both = mlx_vector_array_new_data((mlx_array[]){ a, lower }, 2);
    GIVES(mlx_einsum(&r, "ij,jk->ik", both, s), "[[8, 2],\n       [8, 3]]" F32);
    FAILS(mlx_einsum(&r, NULL, both, s), "`subscripts`, got NULL");
    FAILS(mlx_einsum(&r, "ij", both, s), "as many operands");
    mlx_vector_int path = mlx_vector_int_new();
    mlx_string text = mlx_string_new();
    OK(mlx_einsum_path(&path, &text, "ij,jk->ik", both));
    assert_int_equal(mlx_vector_int_size(path), 2);
    assert_non_null(strstr(mlx_string_data(text), "Naive FLOP count:  16\n"));
    FAILS(mlx_einsum_path(&path, &text, "ij", both), "as many operands");
    mlx_vector_int_free(path);
    mlx_string_free(text);
    mlx_vector_array_free(both);
    mlx_array_free(x);
    mlx_array_free(y);
}

/* ---- little memory */

enum { THREADS = 6, SIZE = 300 };
static pthread_barrier_t barrier;

static void *factor(void *unused)
{
    (void)unused;
    mlx_stream own = mlx_stream_new_device(mlx_device_new_type(MLX_CPU, 0));
    mlx_array x = mlx_array_new();
    int failed = mlx_random_normal(&x, (int[]){ SIZE, SIZE }, 2, MLX_FLOAT32, 0, 1, none, own) || mlx_array_eval(x);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 6 && !failed; i++) {
        mlx_vector_array v = mlx_vector_array_new();
        mlx_array y = mlx_array_new();
        int refused =
            i % 2 ? mlx_linalg_inv(&y, x, own) : mlx_linalg_svd(&v, x, true, own) || mlx_vector_array_get(&y, v, 1);
        refused = refused || mlx_array_eval(y);
        failed = refused && mlx_last_error(NULL) != MLX_ERROR_MEMORY;
        mlx_array_free(y);
        mlx_vector_array_free(v);
    }
    mlx_array_free(x);
    return (void *)(intptr_t)failed;
}

/* In a process of its own, which may use so many more bytes than it has: the number of threads that failed otherwise
 * than for memory. */
static int factor_within(size_t bytes)
{
    pthread_t threads[THREADS];
    long pages = 0;
    int failed = 0;
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, factor, NULL))
            return THREADS;
    pthread_barrier_wait(&barrier);
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1)
        return THREADS;
    fclose(f);
    size_t limit = (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
    setrlimit(RLIMIT_AS, &(struct rlimit){ limit, limit });
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        failed += bad != NULL;
    }
    return failed;
}

static void ignore(const char *message, void *data) { (void)message, (void)data; }

static void without_memory(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    for (size_t mb = 0; mb <= 70; mb += 10) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            mlx_set_error_handler(ignore, NULL, NULL);
            _exit(factor_within(mb << 20));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static int make(void **state)
{
    start_listening(state);
    s = mlx_default_cpu_stream_new();
    r = mlx_array_new();
    q = mlx_array_new();
    a = matrix(2, 2, (const float[]){ 4, 2, 2, 3 });
    lower = matrix(2, 2, (const float[]){ 1, 0, 2, 1 });
    return 0;
}

static int unmake(void **state)
{
    mlx_array all[] = { r, q, a, lower };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mlx_array_free(all[i]);
    return all_gone(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),    cmocka_unit_test(inverses),       cmocka_unit_test(factors),
        cmocka_unit_test(products), cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
