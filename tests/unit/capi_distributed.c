/* The entry points of distributed.h and distributed_group.h: the group of one, and what it refuses. */
#include <stdlib.h>

#include "core/buffer.h"
#include "support/heard.h"

static mlx_stream s;
static mlx_array a, r;
static const mlx_array none = { NULL };
static const mlx_distributed_group world = { NULL };

static void one_process(void **state)
{
    (void)state;
    static const char *const names[] = { NULL, "any", "ring", "mpi", "nccl", "jaccl" };
    mlx_distributed_group g = mlx_distributed_group_new(), part = mlx_distributed_group_new();
    assert_null(g.ctx);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        OK(mlx_distributed_init(&g, false, names[i]));
        assert_int_equal(mlx_distributed_group_rank(g), 0);
        assert_int_equal(mlx_distributed_group_size(g), 1);
        assert_false(mlx_distributed_is_available(names[i]));
        FAILS(mlx_distributed_init(&g, true, names[i]), "[distributed_init] expected a backend");
    }
    assert_int_equal(mlx_distributed_group_size(world), 1);
    FAILS(mlx_distributed_init(&g, false, "pigeons"), "got 'pigeons'");
    FAILS(mlx_distributed_init(NULL, false, "any"), "place for the result");
    FAILS(mlx_distributed_group_split(&part, g, 0, -1), "[distributed_group_split] expected a group of several");
    FAILS(mlx_distributed_group_split(NULL, g, 0, -1), "place for the result");
    assert_null(part.ctx);
    OK(mlx_distributed_group_free(g));
}

static void launched(void **state)
{
    (void)state;
    mlx_distributed_group g = mlx_distributed_group_new();
    setenv("MLX_RANK", "1", 1);
    FAILS(mlx_distributed_init(&g, false, NULL), "got one of several");
    assert_null(g.ctx);
    setenv("MLX_WORLD_SIZE", "1", 1);
    OK(mlx_distributed_init(&g, false, NULL));
    unsetenv("MLX_RANK");
    unsetenv("MLX_WORLD_SIZE");
}

static void collectives(void **state)
{
    (void)state;
    typedef int collective(mlx_array *, const mlx_array, const mlx_distributed_group, const mlx_stream);
    collective *const all[] = { mlx_distributed_all_sum, mlx_distributed_all_max, mlx_distributed_all_min,
                                mlx_distributed_all_gather, mlx_distributed_sum_scatter };
    mlx_distributed_group g = mlx_distributed_group_new();
    OK(mlx_distributed_init(&g, false, NULL));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        GIVES(all[i](&r, a, g, s), "[1, 2, 3], dtype=float32");
        GIVES(all[i](&r, a, world, s), "[1, 2, 3], dtype=float32");
        FAILS(all[i](&r, none, g, s), "`x`");
        FAILS(all[i](NULL, a, g, s), "place for the result");
    }
}

static void nobody_else(void **state)
{
    (void)state;
    const int shape[] = { 3 };
    FAILS(mlx_distributed_send(&r, a, 1, world, s), "[distributed_send] expected a group of several processes");
    FAILS(mlx_distributed_recv(&r, shape, 1, MLX_FLOAT32, 1, world, s), "got one of 1 and src = 1");
    FAILS(mlx_distributed_recv_like(&r, a, 0, world, s), "got one of 1 and src = 0");
    FAILS(mlx_distributed_send(&r, none, 1, world, s), "`x`");
    FAILS(mlx_distributed_recv_like(&r, none, 1, world, s), "`x`");
}

static int set_up(void **state)
{
    const float v[] = { 1, 2, 3 };
    const int n = 3;
    unsetenv("MLX_RANK");
    unsetenv("MLX_HOSTFILE");
    unsetenv("MLX_WORLD_SIZE");
    start_listening(state);
    s = mlx_default_cpu_stream_new();
    a = mlx_array_new_data(v, &n, 1, MLX_FLOAT32);
    r = mlx_array_new();
    return 0;
}

static int tear_down(void **state)
{
    mlx_array_free(a);
    mlx_array_free(r);
    return all_gone(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process),
        cmocka_unit_test(launched),
        cmocka_unit_test(collectives),
        cmocka_unit_test(nobody_else),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
