/* c_version.c: the version, and which kinds of GPU this build drives. */
#include "capi/capi.h"

int mlx_version(mlx_string *str_) { return capi_publish_text(str_, capi_text_copy(MLX_VERSION)); }

static int no(const char *func, bool *res)
{
    if (!capi_need(func, "a place for the result", "res", res))
        return capi_report();
    *res = false;
    return 0;
}

int mlx_cuda_is_available(bool *res) { return no(__func__, res); }
int mlx_metal_is_available(bool *res) { return no(__func__, res); }

int mlx_metal_start_capture(const char *path)
{
    (void)path;
    mx_fail_as(MX_RUNTIME,
               "[metal_start_capture] expected a Metal device, got a build without Metal");
    return capi_report();
}

int mlx_metal_stop_capture(void)
{
    mx_fail_as(MX_RUNTIME,
               "[metal_stop_capture] expected a Metal device, got a build without Metal");
    return capi_report();
}
