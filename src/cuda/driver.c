/* driver.c: see driver.h. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/pool.h"
#include "core/settings.h"
#include "cuda/modules.h"

struct cuda_driver cu;
static int count;

/* Of n devices those before the first that this build has no kernels for, an old one: the CPU works instead. */
static int with_kernels(int n)
{
    for (int i = 0, device, major, minor; i < n; i++) {
        if (cu.device_get(&device, i) || cu.device_attribute(&major, CUDA_ATTRIBUTE_MAJOR, device) ||
            cu.device_attribute(&minor, CUDA_ATTRIBUTE_MINOR, device))
            return i;
        if (modules_fit(major * 10 + minor))
            continue;
        if (is_logged(LOG_LIBRARIES))
            fprintf(stderr,
                    "mlx: no GPU from number %d on is used: this build has no kernels for compute capability %d.%d\n",
                    i, major, minor);
        return i;
    }
    return n;
}

static void open_driver(void)
{
    const char *off = getenv("CUDA_VISIBLE_DEVICES");
    if (off && !*off)
        return;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return;
#define CU(name, symbol, args)                      \
    if (!(*(void **)&cu.name = dlsym(lib, symbol))) \
        return;
#define CU_LATER(name, symbol, args) *(void **)&cu.name = dlsym(lib, symbol);
#include "cuda/driver.def"
    int n = 0;
    sigset_t before = signals_block();
    if (cu.init(0) == CUDA_SUCCESS && cu.device_count(&n) == CUDA_SUCCESS)
        count = with_kernels(n);
    signals_restore(before);
}

int cuda_devices(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_driver);
    return count;
}

const char *cuda_error_text(int error)
{
    static _Thread_local char text[256];
    const char *name = NULL, *words = NULL;
    cu.error_name(error, &name);
    cu.error_text(error, &words);
    snprintf(text, sizeof text, "%s: %s", name ? name : "an error unknown to the driver", words ? words : "");
    return text;
}

int cuda_fail(const char *op, int error)
{
    mx_fail_as(error == CUDA_OUT_OF_MEMORY ? MX_MEMORY : MX_RUNTIME, "[%s] %s", op, cuda_error_text(error));
    return 1;
}
