/* nvrtc.c: programs compiled by NVIDIA's compiler, and kept.
 *
 * The library is opened when the first program is to be compiled.  An image is kept in a folder of the user's own
 * (core/kept.h), under all that it depends on: the compiler's version, target and options, program and headers. */
#define _GNU_SOURCE /* secure_getenv */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/kept.h"
#include "core/pool.h"
#include "cuda/custom_kernel.h"
#include "cuda/libraries.h"
#include "cuda/modules.h"
#include "cuda/specialize.h"
#include "cuda/unpack.h"

static struct {
#define NVRTC(name, symbol, args) int(*name) args;
#include "cuda/nvrtc.def"
} nvrtc;

static const struct cuda_function functions[] = {
#define NVRTC(name, symbol, args) { symbol, (void **)&nvrtc.name, false },
#include "cuda/nvrtc.def"
};
static struct cuda_functions library = { CUDA_nvrtc, functions, sizeof functions / sizeof *functions, CUDA_UNKNOWN };

static const struct cuda_library *compiler(void) { return cuda_library(CUDA_nvrtc); }

/* Is there a compiler?  False after mx_fail. */
static bool has_nvrtc(const char *op, const char *name)
{
    bool has = cuda_find(&library);
    if (!has)
        mx_fail_as(MX_NO_COMPILER,
                   "[%s] cannot compile %s without NVRTC, NVIDIA's compiler: pip install "
                   "nvidia-cuda-nvrtc-cu12, or name the folder of libnvrtc.so in MLX_CUDA_LIBRARIES",
                   op, name);
    return has;
}

/* ---- what for */

/* The latest target that the compiler knows and the device runs: machine code where it is of the device's own major
 * version, text for the driver to compile else. */
static bool find_target(const struct gpu *g, const char *op, const char *name, char *option, size_t size, bool *ptx)
{
    int n = 0, best = -1, have = g->major * 10 + g->minor;
    int *all = nvrtc.target_count(&n) ? NULL : mx_malloc((size_t)n * sizeof *all);
    for (int i = 0; all && !nvrtc.targets(all) && i < n; i++)
        if (all[i] <= have && all[i] > best)
            best = all[i];
    free(all);
    *ptx = best / 10 != g->major;
    snprintf(option, size, "-arch=%s_%d", *ptx ? "compute" : "sm", best);
    if (best < 0)
        mx_fail_as(MX_NO_COMPILER, "[%s] cannot compile %s: NVRTC %s (%s) knows no target that sm_%d runs", op, name,
                   compiler()->version, compiler()->path, have);
    return best >= 0;
}

/* ---- CUDA's headers */

/* Are there headers in the folder, of the compiler's own generation?  cuda.h tells theirs. */
static bool has_headers(const char *folder)
{
    char file[PATH_MAX], line[256];
    int version = 0;
    if (snprintf(file, sizeof file, "%s/cuda_fp16.h", folder) >= (int)sizeof file || access(file, R_OK))
        return false;
    snprintf(file, sizeof file, "%s/cuda.h", folder);
    FILE *f = fopen(file, "re");
    while (f && !version && fgets(line, sizeof line, f)) sscanf(line, "#define CUDA_VERSION %d", &version);
    if (f)
        fclose(f);
    return version / 1000 == atoi(compiler()->version);
}

/* The folder of CUDA's headers: of the toolkit that CUDA_HOME names, beside the compiler, of the package beside the
 * compiler's, of a toolkit in its usual place. */
static bool find_headers(char *folder, size_t size)
{
    const char *home = secure_getenv("CUDA_HOME"), *lib = compiler()->path;
    int n = (int)(strrchr(lib, '/') ? strrchr(lib, '/') - lib : 0);
    if (home && *home && snprintf(folder, size, "%s/include", home) < (int)size && has_headers(folder))
        return true;
    if (n && snprintf(folder, size, "%.*s/../include", n, lib) < (int)size && has_headers(folder))
        return true;
    if (n && snprintf(folder, size, "%.*s/../../cuda_runtime/include", n, lib) < (int)size && has_headers(folder))
        return true;
    return snprintf(folder, size, "/usr/local/cuda/include") < (int)size && has_headers(folder);
}

/* ---- compiling */

enum { OPTIONS = 8 };
struct request {
    const char *op, *name, *text, *options[OPTIONS];
    int n;
    bool ptx;
    int from;                     /* of the small headers, the first that stands for one of CUDA's or C's */
    bool of_formulas;             /* the headers are those of the library's own kernels */
    void (*before)(struct gpu *); /* NULL, or called before it is compiled */
    struct gpu *gpu;
};

/* The names and texts of gpu_headers, and all bytes of them, to be freed; NULL after mx_fail. */
static char *unpack_headers(const char **names, const char **texts)
{
    char *all = mx_malloc(gpu_headers.size), *at = all;
    if (all &&
        !unpack(UNPACK_TEXT, (unsigned char *)all, gpu_headers.size, gpu_headers.packed, gpu_headers.packed_size)) {
        mx_fail_as(MX_RUNTIME, "[cuda] the headers of kernels in this library are damaged");
        free(all);
        return NULL;
    }
    for (int i = 0; all && i < gpu_headers.n; i++) {
        names[i] = at;
        texts[i] = at += strlen(at) + 1;
        at += strlen(at) + 1;
    }
    return all;
}

/* A program with its headers; the compiler's status, negative after mx_fail. */
static int create_program(void **program, const struct request *q)
{
    enum { MOST = 64 };
    char file[300], *all = NULL;
    const char *names[MOST], *texts[MOST];
    int e = -1;
    snprintf(file, sizeof file, "<%s, generated>", q->name);
    if (!q->of_formulas)
        return nvrtc.create(program, q->text, file, custom_n_headers - q->from, custom_headers + q->from,
                            custom_header_names + q->from);
    if (gpu_headers.n <= MOST && (all = unpack_headers(names, texts)))
        e = nvrtc.create(program, q->text, file, gpu_headers.n, texts, names);
    free(all);
    return e;
}

/* What the compiler says, the first of it. */
static void refused_by_nvrtc(void *program, const struct request *q)
{
    enum { MOST = 3000 };
    size_t n = 0;
    char *log = nvrtc.log_size(program, &n) || !n ? NULL : mx_malloc(n + 1);
    if (log && !nvrtc.log(program, log)) {
        log[n] = 0;
        for (n = strlen(log); n && log[n - 1] == '\n'; n--) log[n - 1] = 0;
    }
    mx_fail_as(MX_RUNTIME, "[%s] %s: NVRTC %s refused the kernel:\n%.*s", q->op, q->name, compiler()->version, MOST,
               log && *log ? log : "it said nothing");
    free(log);
}

static char *compile_program(const struct request *q, size_t *size)
{
    char *image = NULL;
    void *program = NULL;
    sigset_t before = signals_block();
    int e = create_program(&program, q);
    bool good = !e && !nvrtc.compile(program, q->n, q->options);
    signals_restore(before);
    if (!e && !good)
        refused_by_nvrtc(program, q);
    else if (!e && !(q->ptx ? nvrtc.ptx_size : nvrtc.code_size)(program, size) && (image = mx_malloc(*size + 1)) &&
             (q->ptx ? nvrtc.ptx : nvrtc.code)(program, image)) {
        free(image);
        image = NULL;
    }
    if (image)
        image[*size] = 0;
    else if (!mx_failed())
        mx_fail_as(MX_RUNTIME, "[%s] %s: NVRTC %s (%s) failed", q->op, q->name, compiler()->version, compiler()->path);
    if (program)
        nvrtc.destroy(&program);
    return image;
}

/* All that an image depends on, as one text; NULL after mx_fail. */
static char *key_of(const struct request *q, size_t *size)
{
    char *key = NULL;
    FILE *f = open_memstream(&key, size);
    if (!f)
        return mx_fail_memory(strlen(q->text)), NULL;
    fprintf(f, "nvrtc %s\n", compiler()->version);
    for (int i = 0; i < q->n; i++) fprintf(f, "%s\n", q->options[i]);
    if (q->of_formulas)
        fputs(gpu_headers.digest, f);
    for (int i = q->from; i < custom_n_headers && !q->of_formulas; i++) fputs(custom_headers[i], f);
    fprintf(f, "\n%s", q->text);
    bool cut = ferror(f); /* it would be another's key */
    if (fclose(f) || cut || !key) {
        free(key);
        return mx_fail_memory(*size), NULL;
    }
    return key;
}

/* The image that is asked for, and where it is kept, "" if nowhere; *found: it was compiled before. */
static char *image_of(const struct request *q, size_t *size, char kept[], size_t kept_size, bool *found)
{
    char cache[PATH_MAX];
    struct kept_key key = { .size = 0 };
    char *bytes = key_of(q, &key.size), *image = NULL;
    if (!bytes)
        return NULL;
    key.bytes = bytes;
    bool keeps = kept_folder("cuda_kernels", cache, sizeof cache) && kept_path(cache, key, ".image", kept, kept_size);
    image = keeps ? (char *)kept_read(kept, key, size) : NULL;
    *found = image;
    if (image)
        image[*size] = 0; /* the key was behind it */
    if (!image && q->before)
        q->before(q->gpu);
    if (!image && (image = compile_program(q, size)))
        keeps = keeps && kept_write(cache, kept, key, image, *size);
    if (!keeps)
        *kept = 0;
    free(bytes);
    return image;
}

char *custom_image(const struct gpu *g, const char *op, const char *name, const char *text, bool cuda_headers,
                   bool verbose, size_t *size)
{
    char target[32], folder[PATH_MAX], include[PATH_MAX + 16], more[PATH_MAX + 32], kept[PATH_MAX + 64];
    struct request q = { .op = op, .name = name, .text = text };
    bool found;
    if (!has_nvrtc(op, name) || !find_target(g, op, name, target, sizeof target, &q.ptx))
        return NULL;
    q.options[q.n++] = target;
    q.options[q.n++] = "-std=c++17";
    q.options[q.n++] = "-default-device"; /* functions of a header need not say what they are for */
    if (cuda_headers && find_headers(folder, sizeof folder)) {
        snprintf(include, sizeof include, "-I%s", folder);
        snprintf(more, sizeof more, "-I%s/cccl", folder);
        q.options[q.n++] = include;
        q.options[q.n++] = more;
        q.from = custom_of_cuda; /* C's headers are not among CUDA's */
    }
    char *image = image_of(&q, size, kept, sizeof kept, &found);
    if (image && verbose)
        printf("/* %s: %s%s%s */\n", name, found ? "loaded from" : "compiled", !found && *kept ? ", kept in " : " ",
               kept);
    return image;
}

/* ---- programs of the library's own formulas */

bool specialized_compiler(void) { return cuda_find(&library); }

static bool own_request(struct request *q, const struct gpu *g, char *target, size_t size)
{
    if (!has_nvrtc(q->op, q->name) || !find_target(g, q->op, q->name, target, size, &q->ptx))
        return false;
    q->options[q->n++] = target;
    q->options[q->n++] = "-std=c++17";
    q->options[q->n++] = "-default-device";
    q->options[q->n++] = "--device-int128";
    q->options[q->n++] = "-fmad=false"; /* as tools/cuda_kernels.py: one rounding, unless it is written so */
    return true;
}

char *specialized_image(struct gpu *g, const char *text, void (*before)(struct gpu *), size_t *size)
{
    char target[32], kept[PATH_MAX + 64];
    struct request q = { .op = "cuda", .name = "specialized", .text = text, .of_formulas = true };
    bool found;
    if (!own_request(&q, g, target, sizeof target))
        return NULL;
    q.before = before;
    q.gpu = g;
    return image_of(&q, size, kept, sizeof kept, &found);
}

void specialized_warm_up(const struct gpu *g)
{
    char target[32];
    struct request q = { .op = "cuda", .name = "first", .text = "__global__ void f(float *x) { *x = sqrtf(*x); }" };
    size_t size;
    if (own_request(&q, g, target, sizeof target))
        free(compile_program(&q, &size));
    mx_error_clear();
}
