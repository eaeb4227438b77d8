/* c_version.c: the version, and which kinds of GPU this build drives. */
#include <string.h>

#include "capi/capi.h"
#include "core/stream.h"

int mlx_version(mlx_string *str_) { return capi_publish_text(str_, capi_text_copy(MLX_VERSION)); }

/* Is there a GPU that this backend drives? */
static int has_backend(const char *func, bool *res, const char *backend)
{
    if (!capi_need(func, "a place for the result", "res", res))
        return capi_report();
    *res = device_count(DEVICE_GPU) > 0 && !strcmp(devices_of(DEVICE_GPU)->name, backend);
    return 0;
}

int mlx_cuda_is_available(bool *res) { return has_backend(__func__, res, "cuda"); }
int mlx_metal_is_available(bool *res) { return has_backend(__func__, res, "metal"); }

/* Without a device there is nothing to record: a program that records all it does runs. */
int mlx_metal_start_capture(const char *path) { return (void)path, 0; }
int mlx_metal_stop_capture(void) { return 0; }
