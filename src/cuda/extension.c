/* extension.c: operations from outside on a GPU: memory for their results, and kernels of the libraries that a program
 * has registered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/custom_kernel.h"
#include "ops/plugin.h"
#include "run/backend.h"

/* ---- operations */

static int over(const struct run *r, int k, int i) { return gpu_out_in(r, k, i) ? 0 : gpu_out_new(r, k); }

bool gpu_takes_plugin(const struct plugin *p)
{
    return p->supports(p, DEVICE_GPU) && atomic_load_explicit(&p->on_gpu, memory_order_relaxed) != NEEDS_COMPILER;
}

int gpu_run_plugin(const struct run *r) { return run_plugin(r, DEVICE_GPU, gpu_out_new, over); }

/* ---- libraries of kernels */

/* The text of a source, whose lines are named after it. */
static char *named_source(const struct launch *l)
{
    size_t room = strlen(l->library) + l->size + 32;
    char *text = mx_malloc(room);
    if (text)
        snprintf(text, room, "#line 1 \"%s.cu\"\n%.*s\n", l->library, (int)l->size, (const char *)l->code);
    return text;
}

/* NULL after mx_fail. */
static void *load_library(const struct gpu *g, const struct launch *l)
{
    char *text = l->is_source ? named_source(l) : NULL, *image = NULL;
    size_t size;
    if (text)
        image = custom_image(g, "launch", l->library, text, strstr(text, "include"), false, &size);
    void *module = NULL;
    int e = 0;
    if (image || !l->is_source)
        module =
            custom_module_new(g->number, CUSTOM_LIBRARY, l->library, strlen(l->library), image ? image : l->code, &e);
    if (e)
        mx_fail_as(MX_RUNTIME, "[launch] the driver cannot load the library '%s' for sm_%d%d: %s", l->library, g->major,
                   g->minor, cuda_error_text(e));
    free(image);
    free(text);
    return module;
}

int gpu_launch_library(struct stream *s, const struct launch *l)
{
    struct gpu *g = gpu_use_stream(s);
    void *module = g ? custom_module(g->number, CUSTOM_LIBRARY, l->library, strlen(l->library)) : NULL, *f = NULL;
    if (g && !module)
        module = load_library(g, l);
    if (!module)
        return 1;
    int e = cu.module_function(&f, module, l->kernel);
    if (e) {
        mx_fail_as(MX_RUNTIME, "[launch] expected a kernel of the library '%s', declared extern \"C\", got %s: %s",
                   l->library, l->kernel, cuda_error_text(e));
        return 1;
    }
    unsigned blocks[3], threads[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = (unsigned)l->blocks[i];
        threads[i] = (unsigned)l->threads[i];
    }
    return !custom_takes("launch", l->kernel, f, l->nargs, NULL) ||
           custom_launch(s, "launch", l->kernel, f, blocks, threads, 0, (void **)(uintptr_t)l->args);
}
