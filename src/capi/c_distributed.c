/* c_distributed.c: groups of processes, of which there is one, of one process.
 *
 * All handles that are not empty point at it.  No backend is here yet: where a launcher has told this
 * process that it is one of several, pretending to be alone would train as many models as there are
 * processes, so that is an error. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "ops/ops.h"

struct group {
    int rank, size;
};
static struct group alone = { 0, 1 };

mlx_distributed_group mlx_distributed_group_new(void) { return (mlx_distributed_group){ NULL }; }

int mlx_distributed_group_free(mlx_distributed_group group)
{
    (void)group;
    return 0;
}

static bool any(const char *bk) { return !bk || !strcmp(bk, "any"); }

static bool known_backend(const char *bk)
{
    static const char *const names[] = { "any", "ring", "mpi", "nccl", "jaccl" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!bk || !strcmp(bk, names[i]))
            return true;
    return false;
}

bool mlx_distributed_is_available(const char *bk)
{
    (void)bk;
    return false;
}

/* Whether the environment says, as launchers do, that there are other processes. */
static bool launched(void)
{
    const char *rank = getenv("MLX_RANK"), *hosts = getenv("MLX_HOSTFILE"), *size = getenv("MLX_WORLD_SIZE");
    if (size && atoi(size) == 1)
        return false;
    return (rank && *rank) || (hosts && *hosts) || (size && *size);
}

int mlx_distributed_init(mlx_distributed_group *res, bool strict, const char *bk)
{
    if (!capi_out(res))
        return capi_report();
    if (!known_backend(bk))
        mx_fail("[distributed_init] expected the backend 'any', 'ring', 'mpi', 'nccl' or 'jaccl', got '%s'", bk);
    else if (strict)
        mx_fail_as(MX_RUNTIME, "[distributed_init] expected a backend that finds other processes, got %s%s%s",
                   any(bk) ? "" : "'", any(bk) ? "none" : bk, any(bk) ? "" : "', which is not part of this build");
    else if (launched())
        mx_fail_as(MX_RUNTIME, "[distributed_init] expected a process by itself, got one of several (MLX_RANK, "
                               "MLX_HOSTFILE or MLX_WORLD_SIZE is set): no backend is part of this build");
    else
        return res->ctx = &alone, 0;
    return capi_report();
}

static const struct group *group_in(mlx_distributed_group group) { return group.ctx ? group.ctx : &alone; }

int mlx_distributed_group_rank(mlx_distributed_group group) { return group_in(group)->rank; }
int mlx_distributed_group_size(mlx_distributed_group group) { return group_in(group)->size; }

int mlx_distributed_group_split(mlx_distributed_group *res, mlx_distributed_group group, int color, int key)
{
    (void)color;
    (void)key;
    if (capi_out(res))
        mx_fail_as(MX_RUNTIME, "[distributed_group_split] expected a group of several processes, got one of %d",
                   group_in(group)->size);
    return capi_report();
}

/* The sum, the maximum, ... of one array is itself. */
#define COLLECTIVE(name)                                                                             \
    int mlx_distributed_##name(mlx_array *res, const mlx_array x, const mlx_distributed_group group, \
                               const mlx_stream s)                                                   \
    {                                                                                                \
        (void)group;                                                                                 \
        MX_SCOPE(capi_stream(s));                                                                    \
        return capi_publish(res, capi_in(x));                                                        \
    }
COLLECTIVE(all_sum)
COLLECTIVE(all_max)
COLLECTIVE(all_min)
COLLECTIVE(all_gather)
COLLECTIVE(sum_scatter)

static mx nobody(const char *op, const char *end, int rank, mlx_distributed_group group)
{
    return mx_fail("[distributed_%s] expected a group of several processes, got one of %d and %s = %d", op,
                   group_in(group)->size, end, rank);
}

int mlx_distributed_send(mlx_array *res, const mlx_array x, int dst, const mlx_distributed_group group,
                         const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, capi_in(x) == MX_NIL ? MX_NIL : nobody("send", "dst", dst, group));
}

int mlx_distributed_recv(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, int src,
                         const mlx_distributed_group group, const mlx_stream s)
{
    (void)shape;
    (void)shape_num;
    (void)dtype;
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, nobody("recv", "src", src, group));
}

int mlx_distributed_recv_like(mlx_array *res, const mlx_array x, int src, const mlx_distributed_group group,
                              const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, capi_in(x) == MX_NIL ? MX_NIL : nobody("recv_like", "src", src, group));
}
