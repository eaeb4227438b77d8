/* c_random.c: random numbers; an empty key stands for one of the thread's own. */
#include "capi/capi.h"
#include "ops/ops.h"

/* A shape or a dtype that is none fails. */
static const int *sizes_of(const char *func, const int *shape, size_t n)
{
    static const int none[1];
    if (n == 0)
        return none;
    if (!capi_need(func, "a list of sizes", "shape", shape))
        return NULL;
    if (n <= MX_MAX_NDIM)
        return shape;
    mx_fail("[%s] expected at most %d dimensions, got %zu", func + 4, MX_MAX_NDIM, n);
    return NULL;
}

static bool check_drawn(const char *func, const int **shape, size_t n, mlx_dtype t)
{
    *shape = sizes_of(func, *shape, n);
    if (*shape && (unsigned)t >= DT_COUNT)
        mx_fail_as(MX_TYPE, "[%s] expected a dtype, got %d", func + 4, (int)t);
    return !mx_failed();
}
#define CHECK(dtype) check_drawn(__func__, &shape, shape_num, dtype)

int mlx_random_key(mlx_array *res, uint64_t seed)
{
    MX_SCOPE(NULL);
    return capi_publish(res, mx_random_key(seed));
}

int mlx_random_seed(uint64_t seed)
{
    MX_SCOPE(NULL);
    mx_random_seed(seed);
    return capi_end();
}

int mlx_random_split_num(mlx_array *res, const mlx_array key, int num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx k = capi_in(key);
    return capi_publish(res, is_nil(k) ? k : mx_random_split(k, num));
}

int mlx_random_split(mlx_array *res_0, mlx_array *res_1, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx k = capi_in(key);
    mx pair[2] = { k, k };
    if (!is_nil(k))
        mx_random_split_pair(k, pair);
    return capi_publish_both(CAPI_HALF(array, res_0, pair[0]), CAPI_HALF(array, res_1, pair[1]));
}

int mlx_random_bits(mlx_array *res, const int *shape, size_t shape_num, int width, const mlx_array key,
                    const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(MLX_UINT32))
        return capi_report();
    return capi_publish(res, mx_random_bits((int)shape_num, shape, width, capi_opt(key)));
}

int mlx_random_uniform(mlx_array *res, const mlx_array low, const mlx_array high, const int *shape, size_t shape_num,
                       mlx_dtype dtype, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(dtype))
        return capi_report();
    return capi_publish(
        res, mx_random_uniform(capi_in(low), capi_in(high), (int)shape_num, shape, (enum dtype)dtype, capi_opt(key)));
}

int mlx_random_randint(mlx_array *res, const mlx_array low, const mlx_array high, const int *shape, size_t shape_num,
                       mlx_dtype dtype, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(dtype))
        return capi_report();
    return capi_publish(
        res, mx_random_randint(capi_in(low), capi_in(high), (int)shape_num, shape, (enum dtype)dtype, capi_opt(key)));
}

int mlx_random_bernoulli(mlx_array *res, const mlx_array p, const int *shape, size_t shape_num, const mlx_array key,
                         const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(MLX_BOOL))
        return capi_report();
    return capi_publish(res, mx_random_bernoulli(capi_in(p), (int)shape_num, shape, capi_opt(key)));
}

int mlx_random_normal_broadcast(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                                const mlx_array loc, const mlx_array scale, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(dtype))
        return capi_report();
    return capi_publish(
        res, mx_random_normal((int)shape_num, shape, (enum dtype)dtype, capi_opt(loc), capi_opt(scale), capi_opt(key)));
}

int mlx_random_normal(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, float loc, float scale,
                      const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(dtype))
        return capi_report();
    enum dtype t = (enum dtype)dtype;
    mx mean = loc == 0 ? NULL : array_of_double(loc, t);
    mx deviation = scale == 1 ? NULL : array_of_double(scale, t);
    return capi_publish(res, mx_random_normal((int)shape_num, shape, t, mean, deviation, capi_opt(key)));
}

int mlx_random_truncated_normal(mlx_array *res, const mlx_array lower, const mlx_array upper, const int *shape,
                                size_t shape_num, mlx_dtype dtype, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(dtype))
        return capi_report();
    return capi_publish(res, mx_random_truncated_normal(capi_in(lower), capi_in(upper), (int)shape_num, shape,
                                                        (enum dtype)dtype, capi_opt(key)));
}

int mlx_random_gumbel(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, const mlx_array key,
                      const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(dtype))
        return capi_report();
    return capi_publish(res, mx_random_gumbel((int)shape_num, shape, (enum dtype)dtype, capi_opt(key)));
}

int mlx_random_multivariate_normal(mlx_array *res, const mlx_array mean, const mlx_array cov, const int *shape,
                                   size_t shape_num, mlx_dtype dtype, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(dtype))
        return capi_report();
    return capi_publish(res, mx_random_multivariate_normal(capi_in(mean), capi_in(cov), (int)shape_num, shape,
                                                           (enum dtype)dtype, capi_opt(key)));
}

int mlx_random_laplace(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, float loc, float scale,
                       const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(dtype))
        return capi_report();
    return capi_publish(res, mx_random_laplace((int)shape_num, shape, (enum dtype)dtype, loc, scale, capi_opt(key)));
}

int mlx_random_categorical(mlx_array *res, const mlx_array logits, int axis, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_random_categorical(capi_in(logits), axis, -1, NULL, capi_opt(key)));
}

int mlx_random_categorical_num_samples(mlx_array *res, const mlx_array logits_, int axis, int num_samples,
                                       const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_random_categorical_n(capi_in(logits_), axis, num_samples, capi_opt(key)));
}

int mlx_random_categorical_shape(mlx_array *res, const mlx_array logits, int axis, const int *shape, size_t shape_num,
                                 const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!CHECK(MLX_UINT32))
        return capi_report();
    return capi_publish(res, mx_random_categorical(capi_in(logits), axis, (int)shape_num, shape, capi_opt(key)));
}

int mlx_random_permutation(mlx_array *res, const mlx_array x, int axis, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_random_permutation(capi_in(x), axis, capi_opt(key)));
}

int mlx_random_permutation_arange(mlx_array *res, int x, const mlx_array key, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_random_permutation_arange(x, capi_opt(key)));
}
