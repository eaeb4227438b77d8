/* c_version.c: the version, which kinds of GPU this build drives, and by which libraries. */
#include <stdlib.h>
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

/* ---- libraries */

struct asked {
    const char *name;
    struct list *names;
    char *told[3]; /* of the one with that name: path, version, what it is used for */
    bool found;
};

static void hear_name(void *ctx, const char *name, const char *path, const char *version, const char *used_for)
{
    struct asked *a = ctx;
    (void)path, (void)version, (void)used_for;
    if (a->names && capi_list_add(a->names, (union slot){ .text = (char *)name })) {
        capi_list_free(a->names);
        a->names = NULL;
    }
}

static void hear_one(void *ctx, const char *name, const char *path, const char *version, const char *used_for)
{
    const char *told[] = { path, version, used_for };
    struct asked *a = ctx;
    if (strcmp(name, a->name))
        return;
    a->found = true;
    for (int i = 0; i < 3; i++) a->told[i] = capi_text_copy(told[i] ? told[i] : "");
}

static void ask_libraries(struct asked *a, void (*hear)(void *, const char *, const char *, const char *, const char *))
{
    const struct device_class *gpus = devices_of(DEVICE_GPU);
    if (gpus && gpus->libraries)
        gpus->libraries(hear, a);
}

int mlx_cuda_libraries(mlx_vector_string *names)
{
    struct asked a = { .names = capi_out(names) ? capi_list_new(TEXTS) : NULL };
    if (a.names)
        ask_libraries(&a, hear_name);
    return a.names ? capi_publish_list(names, a.names) : capi_report();
}

int mlx_cuda_library(mlx_string *path, mlx_string *version, mlx_string *used_for, const char *name)
{
    struct asked a = { .name = name };
    if (!capi_out(path) || !capi_out(version) || !capi_out(used_for) || !capi_given(name, "the name of a library"))
        return capi_report();
    ask_libraries(&a, hear_one);
    if (!a.found)
        mx_fail("[cuda_library] expected the name of a library that is looked for, got \"%s\"", name);
    mlx_string *to[] = { path, version, used_for };
    int failed = mx_failed() ? capi_report() : 0;
    for (int i = 0; i < 3; i++)
        if (failed)
            free(a.told[i]);
        else
            failed = capi_publish_text(to[i], a.told[i]);
    return failed;
}
