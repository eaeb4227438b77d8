/* modules.c: loading kernels when they are first used. */
#include "cuda/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "cuda/gpu.h"
#include "cuda/unpack.h"

/* Machine code runs on devices of its major version whose minor is no less; PTX on any later one. */
static bool fits(const struct gpu_image *m, int have)
{
    return m->target <= have && (m->ptx || m->target / 10 == have / 10);
}

bool modules_fit(int capability)
{
    for (int i = 0; i < gpu_n_images; i++)
        if (fits(&gpu_images[i], capability))
            return true;
    return false;
}

static int best_image(const struct gpu *g, const char *module)
{
    int best = -1;
    for (int i = 0; i < gpu_n_images; i++) {
        const struct gpu_image *m = &gpu_images[i];
        if (!fits(m, g->major * 10 + g->minor) || strcmp(m->module, module))
            continue;
        if (best < 0 || m->ptx < gpu_images[best].ptx ||
            (m->ptx == gpu_images[best].ptx && m->target > gpu_images[best].target))
            best = i;
    }
    return best;
}

bool modules_overlap(const struct gpu *g)
{
    enum { EMULATED = 0, LEAST = 90 };
    for (int i = 0; i < gpu_n_images; i++) {
        int best = best_image(g, gpu_images[i].module), target = best < 0 ? LEAST : gpu_images[best].target;
        if (target < LEAST && target != EMULATED)
            return false;
    }
    return true;
}

static void *load_image(int image)
{
    const struct gpu_image *m = &gpu_images[image];
    void *module = NULL;
    unsigned char *code = mx_malloc(m->size);
    if (!code)
        return NULL;
    if (!unpack(m->ptx ? UNPACK_TEXT : UNPACK_CODE, code, m->size, m->packed, m->packed_size)) {
        mx_fail_as(MX_RUNTIME, "[cuda] the kernels %s of this library are damaged", m->module);
    } else {
        int e = cu.module_load(&module, code + m->at);
        if (e) {
            cuda_fail("cuda", e);
            module = NULL;
        }
    }
    free(code);
    return module;
}

LOCK(loading, LOCK_DEVICE);

/* A module, loaded; NULL after mx_fail. */
static void *module_of(struct gpu *g, const char *module)
{
    int i = best_image(g, module);
    if (i < 0 || i >= MODULES) {
        mx_fail_as(MX_RUNTIME, "[cuda] this build has no kernels %s for devices of compute capability %d.%d", module,
                   g->major, g->minor);
        return NULL;
    }
    lock_take(&loading);
    void *m = atomic_load(&g->module[i]);
    if (!m)
        atomic_store(&g->module[i], m = load_image(i));
    lock_give(&loading);
    return m;
}

void *gpu_kernel(struct gpu *g, const char *module, const char *kernel)
{
    void *m = module_of(g, module), *f = NULL;
    int e = m ? cu.module_function(&f, m, kernel) : 0;
    if (e)
        mx_fail_as(MX_RUNTIME, "[cuda] kernel %s of %s: %s", kernel, module, cuda_error_text(e));
    return e ? NULL : f;
}

static const char *const suffix[DT_COUNT + 1] = {
#define X(name, suffix, type, size, kind) [DT_##name] = "_" #suffix,
    MX_DTYPES(X)
#undef X
        [DT_COUNT] = "",
};

struct kernel_name {
    char module[64], kernel[64];
};
static struct kernel_name kernel_name(const char *module, const char *kernel, const char *end)
{
    struct kernel_name n;
    snprintf(n.module, sizeof n.module, "%s%s", module, end);
    snprintf(n.kernel, sizeof n.kernel, "cu_%s%s", kernel, end);
    return n;
}

bool gpu_has(struct gpu *g, struct gpu_known *slot, const char *module, const char *kernel, enum dtype t)
{
    signed char known = atomic_load_explicit(&slot->on[g->number], memory_order_relaxed);
    if (!known) {
        struct kernel_name n = kernel_name(module, kernel, suffix[t]);
        void *m = best_image(g, n.module) < 0 ? NULL : module_of(g, n.module), *f = NULL;
        atomic_store(&slot->on[g->number], known = m && !cu.module_function(&f, m, n.kernel) ? 1 : -1);
    }
    return known > 0;
}

static void *find_kernel(struct gpu *g, struct gpu_found *slot, const char *module, const char *kernel, const char *end)
{
    struct kernel_name n = kernel_name(module, kernel, end);
    void *f = gpu_kernel(g, n.module, n.kernel);
    atomic_store_explicit(&slot->on[g->number], f, memory_order_release);
    return f;
}

void *gpu_find(struct gpu *g, struct gpu_found *slot, const char *module, const char *kernel, enum dtype t)
{
    void *f = atomic_load_explicit(&slot->on[g->number], memory_order_acquire);
    return f ? f : find_kernel(g, slot, module, kernel, suffix[t]);
}

void *gpu_find_sized(struct gpu *g, struct gpu_found slots[5], const char *module, const char *kernel, size_t size)
{
    static const char *const sizes[] = { "_1", "_2", "_4", "_8", "_16" };
    int k = __builtin_ctzl(size);
    void *f = atomic_load_explicit(&slots[k].on[g->number], memory_order_acquire);
    return f ? f : find_kernel(g, &slots[k], module, kernel, sizes[k]);
}
