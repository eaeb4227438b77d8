/* driver.c: see driver.h. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/pool.h"

struct cuda_driver cu;
static int count;

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
        count = n;
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
