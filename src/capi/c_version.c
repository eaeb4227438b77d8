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

/* Without a device there is nothing to record: a program that records all it does runs. */
int mlx_metal_start_capture(const char *path) { return (void)path, 0; }
int mlx_metal_stop_capture(void) { return 0; }
