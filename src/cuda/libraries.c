/* libraries.c: where NVIDIA's libraries are looked for.
 *
 * One that the program has loaded already comes first, so that there are not two of it.  Else a library for the newest
 * CUDA that the driver knows, then the one before: in the folders that MLX_CUDA_LIBRARIES names, as the loader finds
 * it, in packages beside this one (site-packages/nvidia), in CUDA toolkits.
 *
 * One that lacks a function that is called is as one that is not found, and one that fails its user's first trial of it
 * is left alone. */
#define _GNU_SOURCE /* dladdr, dlinfo */
#include "cuda/libraries.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/lock.h"
#include "core/pool.h"
#include "core/settings.h"
#include "cuda/blas.h"
#include "cuda/cudnn.h"
#include "cuda/cufft.h"
#include "cuda/driver.h"
#include "cuda/solver.h"

static int end_so_far(struct cuda_work *w)
{
    int e = w->event ? 0 : cu.event_create(&w->event, CUDA_EVENT_NO_TIMING | CUDA_EVENT_BLOCKING);
    return e ? e : cu.event_record(w->event, w->stream);
}

int cuda_work_goes_on(struct cuda_work *w, void *stream)
{
    int e = 0;
    if (w->stream && w->stream != stream) {
        e = w->several ? 0 : end_so_far(w);
        w->several = true;
        if (!e)
            e = cu.stream_wait_event(stream, w->event, 0);
    }
    if (!e)
        w->stream = stream;
    return e;
}

int cuda_work_ends(struct cuda_work *w) { return w->several ? end_so_far(w) : 0; }

void cuda_work_await(struct cuda_work *w)
{
    if (w->stream && !end_so_far(w))
        cu.event_wait(w->event);
}

void cuda_work_close(struct cuda_work *w)
{
    cuda_work_await(w);
    if (w->event)
        cu.event_destroy(w->event);
    *w = (struct cuda_work){ 0 };
}

enum how { VERSION_RETURNED, VERSION_STORED, VERSION_IN_PARTS };
enum { GENERATIONS = 2 };
static const int cuda_of[GENERATIONS] = { 13, 12 };
static const struct row {
    const char *name;
    int number[GENERATIONS];
    const char *version;
    enum how how;
    int major;
    const char *used_for;
} rows[] = {
#define LIBRARY(name, for_13, for_12, ...) { #name, { for_13, for_12 }, __VA_ARGS__ },
#include "cuda/libraries.def"
};

/* ---- looking */

static void *open_path(const char *path, int flags)
{
    struct stat st;
    if (strchr(path, '/') && (stat(path, &st) || !S_ISREG(st.st_mode))) /* a pipe would keep the loader waiting */
        return NULL;
    sigset_t before = signals_block();
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | flags);
    signals_restore(before);
    return handle;
}

/* The first file that matches which can be opened. */
static void *open_pattern(const char *pattern)
{
    glob_t found;
    void *handle = NULL;
    if (!glob(pattern, 0, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc && !handle; i++) handle = open_path(found.gl_pathv[i], 0);
    globfree(&found);
    return handle;
}

/* In each folder of a list with colons. */
static void *open_listed(const char *folders, const char *file)
{
    char path[PATH_MAX];
    void *handle = NULL;
    while (*folders && !handle) {
        size_t n = strcspn(folders, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)n, folders, file);
        handle = n ? open_path(path, 0) : NULL;
        folders += n + (folders[n] == ':');
    }
    return handle;
}

/* libmlx is in site-packages/mlx/lib, the packages are in site-packages/nvidia. */
static void *open_beside_us(const char *file)
{
    char path[PATH_MAX];
    Dl_info us;
    const char *name = dladdr(rows, &us) ? us.dli_fname : "";
    size_t n = strlen(name);
    for (int up = 0; up < 3 && n; up++)
        while (n && name[--n] != '/') continue;
    if (!n)
        return NULL;
    snprintf(path, sizeof path, "%.*s/nvidia/*/lib/%s", (int)n, name, file);
    return open_pattern(path);
}

static void *open_of_toolkit(const char *file)
{
    char path[PATH_MAX];
    const char *home = secure_getenv("CUDA_HOME");
    void *handle = NULL;
    if (home && snprintf(path, sizeof path, "%s/lib64/%s", home, file) < PATH_MAX)
        handle = open_path(path, 0);
    snprintf(path, sizeof path, "/usr/local/cuda*/lib64/%s", file);
    return handle ? handle : open_pattern(path);
}

static void *look_for(const struct row *row)
{
    const char *folders = secure_getenv("MLX_CUDA_LIBRARIES");
    int driver = INT_MAX;
    void *handle = NULL;
    if (folders && !strcmp(folders, "0"))
        return NULL;
    if (cuda_devices() > 0)
        cu.driver_version(&driver);
    for (int loaded = 1; loaded >= 0; loaded--)
        for (int g = 0; g < GENERATIONS && !handle; g++) {
            char file[64];
            snprintf(file, sizeof file, "lib%s.so.%d", row->name, row->number[g]);
            if (cuda_of[g] > driver / 1000)
                continue;
            if (loaded) {
                handle = open_path(file, RTLD_NOLOAD);
                continue;
            }
            if (folders)
                handle = open_listed(folders, file);
            if (!handle)
                handle = open_path(file, 0);
            if (!handle)
                handle = open_beside_us(file);
            if (!handle)
                handle = open_of_toolkit(file);
        }
    return handle;
}

/* ---- what was found */

static void read_version(const struct row *row, struct cuda_library *l)
{
    union {
        void *symbol;
        size_t (*returns)(void);
        int (*stores)(int *);
        int (*in_parts)(int *, int *);
    } f = { dlsym(l->handle, row->version) };
    int v = 0, minor = 0;
    strcpy(l->version, "unknown");
    if (!f.symbol)
        return;
    if (row->how == VERSION_RETURNED)
        v = (int)f.returns();
    else if (row->how == VERSION_STORED ? f.stores(&v) : f.in_parts(&v, &minor))
        return;
    if (row->how == VERSION_IN_PARTS)
        snprintf(l->version, sizeof l->version, "%d.%d", v, minor);
    else
        snprintf(l->version, sizeof l->version, "%d.%d.%d", v / row->major, v % row->major / 100, v % 100);
}

LOCK(looking, LOCK_DEVICE);

const struct cuda_library *cuda_library(enum cuda_library_name which)
{
    static struct cuda_library libraries[CUDA_LIBRARIES];
    static bool looked[CUDA_LIBRARIES];
    struct cuda_library *l = &libraries[which];
    struct link_map *file = NULL;
    lock_take(&looking);
    if (!looked[which]) {
        looked[which] = true;
        l->handle = look_for(&rows[which]);
        if (l->handle) {
            l->path = !dlinfo(l->handle, RTLD_DI_LINKMAP, &file) && file ? file->l_name : rows[which].name;
            read_version(&rows[which], l);
        }
    }
    lock_give(&looking);
    return l->handle ? l : NULL;
}

/* ---- whether it can be used */

bool cuda_find(struct cuda_functions *f)
{
    enum cuda_functions_state state = atomic_load_explicit(&f->state, memory_order_acquire);
    if (state != CUDA_UNKNOWN)
        return state == CUDA_FOUND;
    const struct cuda_library *l = cuda_library(f->of);
    lock_take(&looking);
    state = atomic_load(&f->state); /* another thread may have looked */
    if (state == CUDA_UNKNOWN) {
        state = l ? CUDA_FOUND : CUDA_MISSING;
        for (int i = 0; i < f->n && l; i++) {
            *f->all[i].at = dlsym(l->handle, f->all[i].symbol);
            if (!*f->all[i].at && !f->all[i].later)
                state = CUDA_MISSING;
        }
        atomic_store_explicit(&f->state, state, memory_order_release);
    }
    lock_give(&looking);
    return state == CUDA_FOUND;
}

bool cuda_tried(enum cuda_library_name which, const char *what, int gpu, const char *why)
{
    if (is_logged(LOG_LIBRARIES))
        fprintf(stderr, "mlx: %s is %s%s%s on GPU %d%s%s\n", rows[which].name, why ? "not used" : "used",
                what ? " for " : "", what ? what : "", gpu, why ? ": " : "", why ? why : "");
    return !why;
}

/* Some are tried before they are used, here on the first GPU. */
static bool works(enum cuda_library_name which)
{
    struct gpu *g = cuda_devices() > 0 ? gpu_use(0) : NULL;
    mx_error_clear();
    switch (which) {
    case CUDA_cublasLt: return g && blas_works(g);
    case CUDA_cudnn: return g && cudnn_works(0);
    case CUDA_cufft: return g && cufft_works(0);
    case CUDA_cusolver: return g && solver_works(SOLVER_EIGH, 0);
    default: return g;
    }
}

void cuda_tell_libraries(void (*add)(void *, const char *, const char *, const char *, const char *), void *ctx)
{
    for (int i = 0; i < CUDA_LIBRARIES; i++) {
        const struct cuda_library *l = cuda_library((enum cuda_library_name)i);
        bool used = l && rows[i].used_for && works((enum cuda_library_name)i);
        add(ctx, rows[i].name, l ? l->path : NULL, l ? l->version : NULL, used ? rows[i].used_for : NULL);
    }
}
