/* c_memory.c: statistics and limits of memory, as core/buffer.h has them. */
#include "capi/capi.h"
#include "core/buffer.h"

int mlx_clear_cache(void)
{
    memory_clear_cache();
    return 0;
}

int mlx_reset_peak_memory(void)
{
    memory_reset_peak();
    return 0;
}

#define GET(name, value)          \
    int mlx_##name(size_t *res)   \
    {                             \
        if (!capi_out(res))       \
            return capi_report(); \
        *res = value();           \
        return 0;                 \
    }

GET(get_active_memory, memory_active)
GET(get_cache_memory, memory_cached)
GET(get_memory_limit, memory_limit)
GET(get_peak_memory, memory_peak)

#define SET(name, set)                        \
    int mlx_##name(size_t *res, size_t limit) \
    {                                         \
        if (!capi_out(res))                   \
            return capi_report();             \
        *res = set(limit);                    \
        return 0;                             \
    }

SET(set_cache_limit, memory_set_cache_limit)
SET(set_memory_limit, memory_set_limit)
SET(set_wired_limit, memory_set_wired_limit)
