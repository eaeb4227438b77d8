/* c_library.c: libraries of primitives and of device code, by name, until the process ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capi/capi.h"
#include "capi/primitive_run.h"
#include "core/buffer.h"
#include "core/lock.h"

struct library {
    struct library *next;
    mlx_library_kind kind;
    char *path;
    void *bytes; /* of device code */
    size_t size;
    char name[];
};

LOCK(lock, LOCK_LEAF); /* of the list, which only grows */
static struct library *first;

static const struct library *named(const char *name)
{
    lock_take(&lock);
    const struct library *l = first;
    while (l && strcmp(l->name, name)) l = l->next;
    lock_give(&lock);
    return l;
}

static void library_free(struct library *l)
{
    if (l) {
        free(l->path);
        free(l->bytes);
    }
    free(l);
}

/* Takes l over. */
static void add_library(struct library *l)
{
    lock_take(&lock);
    l->next = first;
    first = l;
    lock_give(&lock);
}

/* ---- shared libraries */

/* The file of another copy of this library that a shared library has among its dependencies, or NULL. */
static const char *other_copy(void *so)
{
    Dl_info info = { 0 };
    void *theirs = dlsym(so, "mlx_primitive_register");
    if (!theirs || theirs == (void *)(uintptr_t)mlx_primitive_register)
        return NULL;
    return dladdr(theirs, &info) && info.dli_fname ? info.dli_fname : "unknown file";
}

/* The files whose `load` is running, the innermost first. */
struct loading {
    const struct loading *outer;
    const char *path;
};
static _Thread_local const struct loading *loading;

static bool is_loading(const char *path)
{
    const struct loading *l = loading;
    while (l && strcmp(l->path, path)) l = l->outer;
    return l;
}

/* A pipe would keep the loader waiting for somebody to write, a device for good perhaps; what is not there is the
 * loader's to look for, or to tell of. */
static bool loadable(const char *path)
{
    struct stat st;
    if (!strchr(path, '/') || stat(path, &st) || S_ISREG(st.st_mode))
        return true;
    mx_fail_as(MX_RUNTIME, "[register_library] expected a regular file, got %s", path);
    return false;
}

static void load_shared(const char *name, const char *path)
{
    if (!loadable(path))
        return;
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        mx_fail_as(MX_RUNTIME, "[register_library] could not load '%s': %s", name, dlerror());
        return;
    }
    const struct mlx_plugin *p = dlsym(so, "mlx_plugin");
    if (!p) {
        mx_fail_as(MX_RUNTIME, "[register_library] expected the symbol mlx_plugin (MLX_PLUGIN) in %s, got none", path);
    } else if (p->abi != MLX_PRIMITIVE_ABI) {
        mx_fail_as(MX_RUNTIME,
                   "[register_library] expected %s to be compiled for interface %d of primitives, which "
                   "mlx %s has, got interface %d of mlx %s",
                   path, MLX_PRIMITIVE_ABI, MLX_VERSION, p->abi, p->version ? p->version : "?");
    } else if (p->struct_size < sizeof *p || !p->load) {
        mx_fail("[register_library] expected the size of its struct and a function to load in mlx_plugin of %s", path);
    } else if (is_loading(path)) {
        mx_fail("[register_library] expected %s not to load itself", path);
    } else if (other_copy(so)) {
        mx_fail_as(MX_RUNTIME,
                   "[register_library] expected %s to use the mlx library of this process, got one linked "
                   "to another, %s",
                   path, other_copy(so));
    } else {
        unsigned long before = capi_reports();
        struct loading here = { loading, path };
        loading = &here;
        int status = p->load();
        loading = here.outer;
        if (status && capi_reports() != before)
            mx_fail_as(MX_USER, "loading failed");
        else if (status)
            mx_fail_as(MX_RUNTIME, "[register_library] loading %s gave %d", path, status);
    }
    if (mx_failed() && (!p || p->abi != MLX_PRIMITIVE_ABI))
        dlclose(so); /* else it may have registered classes */
}

/* ---- device code */

static bool read_whole(struct library *l, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = fd >= 0 && !fstat(fd, &st);
    if (ok && !S_ISREG(st.st_mode)) {
        mx_fail_as(MX_RUNTIME, "[register_library] expected a regular file, got %s", path);
    } else if (ok && (l->bytes = mx_malloc((size_t)st.st_size + 1))) {
        l->size = (size_t)st.st_size;
        size_t at = 0;
        ssize_t n = 1;
        while (at < l->size && (n = read(fd, (char *)l->bytes + at, l->size - at)) > 0) at += (size_t)n;
        ok = n >= 0;
        l->size = at;
        ((char *)l->bytes)[at] = 0;
    }
    if (!ok)
        mx_fail_as(MX_RUNTIME, "[register_library] could not read %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return !mx_failed();
}

/* clang-format off */
static const struct { const char *suffix; mlx_library_kind kind; } kinds[] = {
    { ".so", MLX_LIBRARY_SHARED },           { ".cu", MLX_LIBRARY_CUDA_SOURCE },
    { ".ptx", MLX_LIBRARY_CUDA_PTX },        { ".cubin", MLX_LIBRARY_CUDA_CUBIN },
    { ".fatbin", MLX_LIBRARY_CUDA_FATBIN },
};
/* clang-format on */

/* By the ending of the file's name, before a version (".so.1"). */
static int kind_of_library(const char *path)
{
    const char *file = strrchr(path, '/');
    file = file ? file + 1 : path;
    if (strstr(file, ".so."))
        return MLX_LIBRARY_SHARED;
    const char *dot = strrchr(file, '.');
    for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(dot, kinds[i].suffix))
            return (int)kinds[i].kind;
    mx_fail("[register_library] expected a name that ends with .so, .cu, .ptx, .cubin or .fatbin, got '%s'", path);
    return -1;
}

/* What the bytes of a binary begin with. */
static bool good_contents(const struct library *l)
{
    static const uint32_t fatbin = 0xba55ed50;
    static const char *const expected[] = { "", "text", "text", "an ELF file", "a fatbin" };
    bool good = l->size > 0 && (l->kind != MLX_LIBRARY_CUDA_CUBIN || !memcmp(l->bytes, "\177ELF", 4)) &&
                (l->kind != MLX_LIBRARY_CUDA_FATBIN || (l->size > 4 && !memcmp(l->bytes, &fatbin, 4)));
    if (!good)
        mx_fail("[register_library] expected %s in %s, got other bytes", expected[l->kind], l->path);
    return good;
}

/* ---- the two functions */

static void register_library(const char *name, const char *path)
{
    char *full = path ? realpath(path, NULL) : NULL, by_name[320];
    if (path && !full) {
        mx_fail_as(mx_error_of_system(errno), "[register_library] could not open '%s': %s", path, strerror(errno));
        return;
    }
    snprintf(by_name, sizeof by_name, "lib%.300s.so", name);
    const char *file = full ? full : by_name;
    const struct library *there = named(name);
    int kind = there ? -1 : kind_of_library(file);
    if (there && strcmp(there->path, file))
        mx_fail("[register_library] expected one library of the name '%s', which is %s, got %s", name, there->path,
                file);
    struct library *l = kind < 0 ? NULL : mx_malloc(sizeof *l + strlen(name) + 1);
    if (l) {
        *l = (struct library){ .kind = (mlx_library_kind)kind, .path = mx_strdup(file) };
        strcpy(l->name, name);
        if (l->path && kind == MLX_LIBRARY_SHARED)
            load_shared(name, file);
        else if (l->path && read_whole(l, file))
            good_contents(l);
        if (mx_failed())
            library_free(l);
        else
            add_library(l);
    }
    free(full);
}

int mlx_register_library(const char *name, const char *path)
{
    if (!capi_given(name, "a name"))
        return capi_report();
    if (!*name)
        mx_fail("[register_library] expected a name, got an empty one");
    else
        register_library(name, path);
    return capi_end();
}

bool library_find(const char *name, mlx_library_kind *kind, const void **bytes, size_t *size)
{
    const struct library *l = named(name);
    if (l) {
        *kind = l->kind;
        *bytes = l->bytes;
        *size = l->size;
    }
    return l;
}

int mlx_library_contents(mlx_library_kind *kind, const void **bytes, size_t *size, const char *name)
{
    if (!capi_out(kind) || !capi_out(bytes) || !capi_out(size) || !capi_given(name, "a name"))
        return capi_report();
    if (library_find(name, kind, bytes, size))
        return 0;
    mx_fail("[library_contents] there is no library '%s'", name);
    return capi_report();
}
