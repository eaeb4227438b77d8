/* nvrtc.c: NVIDIA's compiler as src/cuda knows it, for the emulated driver: the text behind the prelude, C where a test
 * keeps to what both languages have, goes to the system's compiler, and the image is a shared object.  The library's
 * own programs are C with their headers as they are, but for that of the emulator (support/emulator.h), in whose place
 * is one for shared objects.  What it is asked for is counted. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define NVRTC(name, symbol, args) EXPORTED int name args __asm__(symbol);
#include "cuda/nvrtc.def"
EXPORTED int nvrtcVersion(int *major, int *minor);
/* Another one whenever images change, of which those of before are kept in files. */
int nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 9, 0; }

/* Programs so far; for tests. */
extern EXPORTED int emulated_compiled;
int emulated_compiled;

struct program {
    char *text, *log, *code;
    size_t log_size, code_size;
    int n; /* headers of the library's own */
    char *names[64], *headers[64];
};

static const char prelude[] =
    "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n"
    "#define __device__\n#define __shared__ static\n"
    "#define constexpr const\n"
    "typedef uint8_t uint8; typedef uint16_t uint16; typedef uint32_t uint32; typedef uint64_t uint64;\n"
    "typedef int8_t int8; typedef int16_t int16; typedef int32_t int32; typedef int64_t int64;\n"
    "typedef uint16_t float16, bfloat16; typedef float float32; typedef double float64;\n"
    "typedef float _Complex complex64;\n"
    "struct __mlx_shape8 { int v[8]; }; struct __mlx_strides8 { int64_t v[8]; };\n"
    "struct __mlx_shape64 { int v[64]; }; struct __mlx_strides64 { int64_t v[64]; };\n"
    "#define __MLX_SHAPE(n) const struct __mlx_shape##n\n"
    "#define __MLX_STRIDES(n) const struct __mlx_strides##n\n"
    "#define __MLX_VIEW(T, name) const T *const name = __mlx_##name.v\n"
    "static int64_t elem_to_loc(int64_t i, const int *shape, const int64_t *strides, int ndim)\n"
    "{\n"
    "    int64_t at = 0;\n"
    "    for (int d = ndim; d-- > 0; i /= shape[d]) at += i % shape[d] * strides[d];\n"
    "    return at;\n"
    "}\n"
    "struct place { unsigned x, y, z; };\n"
    "struct place *emulated_places[4];\n"
    "void (*emulated_barrier)(const char *, int);\n"
    "#define threadIdx (*emulated_places[0])\n#define blockIdx (*emulated_places[1])\n"
    "#define blockDim (*emulated_places[2])\n#define gridDim (*emulated_places[3])\n"
    "#define __syncthreads() emulated_barrier(__FILE__, __LINE__)\n";

static const char emulator[] = "#include <stddef.h>\n#include <stdint.h>\n"
                               "struct emulated_place { unsigned x, y, z; };\n"
                               "struct emulated_place *emulated_places[4];\n"
                               "void (*emulated_barrier)(const char *, int);\n"
                               "void emulated_shuffle_xor(void *, size_t, unsigned, const char *, int);\n"
                               "const void *emulated_gather(const void *, size_t, const char *, int);\n"
                               "#define threadIdx (*emulated_places[0])\n#define blockIdx (*emulated_places[1])\n"
                               "#define blockDim (*emulated_places[2])\n#define gridDim (*emulated_places[3])\n"
                               "#define EMULATED_KERNEL(name, type) EMULATED_KERNEL_(name, type)\n"
                               "#define EMULATED_KERNEL_(name, type) static void name(const type a); \\\n"
                               "    void launched_##name(void **args) { name(*(const type *)args[0]); } \\\n"
                               "    const size_t sizes_##name[] = { sizeof(type), 0 }; \\\n"
                               "    static void name(const type a)\n";

int create(void **program, const char *text, const char *name, int n, const char *const *headers,
           const char *const *names)
{
    struct program *p = *program = calloc(1, sizeof *p);
    (void)name;
    for (int i = 0; i < n; i++)
        if (!headers[i] || !names[i])
            return 1;
    p->text = strdup(text);
    if (!strstr(text, "#include \"cuda/kernels/"))
        return 0;
    for (; p->n < n && p->n < 64; p->n++) {
        p->names[p->n] = strdup(names[p->n]);
        p->headers[p->n] = strdup(headers[p->n]);
    }
    return p->n < n;
}

int destroy(void **program)
{
    struct program *p = *program;
    for (int i = 0; i < p->n; i++) {
        free(p->names[i]);
        free(p->headers[i]);
    }
    free(p->text);
    free(p->log);
    free(p->code);
    free(p);
    return *program = NULL, 0;
}

/* The bytes of a file and one more. */
static char *contents(const char *path, size_t *n)
{
    char *data = NULL;
    FILE *in = fopen(path, "rb"), *out = open_memstream(&data, n);
    for (int c; in && (c = getc(in)) != EOF;) putc(c, out);
    if (in)
        fclose(in);
    fclose(out);
    return data;
}

/* For a kernel a function `launched_<kernel>` of the addresses of its arguments, and `sizes_<kernel>` of these, up to a
 * 0. */
static void write_launched(FILE *f, const char *kernel)
{
    size_t n = strcspn(kernel, "(");
    int depth = 0, count = 0;
    char *sizes = NULL;
    size_t length;
    FILE *of = open_memstream(&sizes, &length);
    fprintf(f, "\nvoid launched_%.*s(void **a) { %.*s(", (int)n, kernel, (int)n, kernel);
    for (const char *from = kernel + n + 1, *at = from; depth >= 0; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth > 0 || (depth == 0 && *at != ','))
            continue;
        const char *end = at; /* of a type and a name */
        while (isspace((unsigned char)end[-1])) end--;
        while (end[-1] == '_' || isalnum((unsigned char)end[-1])) end--;
        fprintf(f, "%s*(__typeof__(%.*s) *)a[%d]", count ? ", " : "", (int)(end - from), from, count);
        fprintf(of, "sizeof(__typeof__(%.*s)), ", (int)(end - from), from);
        count++;
        from = at + 1;
    }
    fclose(of);
    fprintf(f, "); }\nconst size_t sizes_%.*s[] = { %s0 };\n", (int)n, kernel, sizes);
    free(sizes);
}

/* Behind the program, of each kernel that its preprocessed text has. */
static void write_all_launched(const char *program, const char *preprocessed)
{
    static const char word[] = "__global__ void ";
    size_t n;
    char *text = contents(preprocessed, &n);
    FILE *f = fopen(program, "a");
    for (const char *at = text; at && (at = strstr(at, word)); at += strlen(word)) write_launched(f, at + strlen(word));
    fclose(f);
    free(text);
}

/* The program in C: what stands behind our prelude, or a library's source as it is. */
static void write_program(const char *path, const char *text)
{
    static const char in_cuda[] = "extern \"C\" __global__ ";
    const char *ours = strstr(text, "/* ---- the kernel */"), *function = ours ? strstr(ours, in_cuda) : NULL;
    FILE *f = fopen(path, "w");
    fputs(prelude, f);
    if (function)
        fprintf(f, "%.*s__global__ %s", (int)(function - ours), ours, function + strlen(in_cuda));
    else
        fputs(text, f);
    fclose(f);
}

#define CC "${CC:-cc} -std=gnu17 -O1 -w -fPIC -fno-strict-aliasing "

/* A file in a folder, whose own folders are made. */
static void write_file(const char *folder, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *end = path + strlen(folder); (end = strchr(end + 1, '/')); *end = '/') {
        *end = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

/* Those of the library as they are; the command that compiles them. */
static const char *write_own(const struct program *p, const char *folder)
{
    for (int i = 0; i < p->n; i++) write_file(folder, p->names[i], p->headers[i]);
    write_file(folder, "support/emulator.h", emulator);
    write_file(folder, "kernel.c", p->text);
    return CC "-ffp-contract=off -I.";
}

/* Kernels given as text, in C. */
static const char *write_given(const struct program *p, const char *folder)
{
    char command[400], path[100], other[100];
    snprintf(path, sizeof path, "%s/kernel.c", folder);
    snprintf(other, sizeof other, "%s/kernel.i", folder);
    write_program(path, p->text);
    snprintf(command, sizeof command, "cd %s && " CC "-D__CUDACC__ -E -P kernel.c -o kernel.i 2>/dev/null", folder);
    if (!system(command))
        write_all_launched(path, other);
    return CC "-D__CUDACC__ -D__global__=";
}

/* What the compiler needs is gone once exit() has come to what it registered, which it does while it works. */
static bool ended;
static void end(void) { __atomic_store_n(&ended, true, __ATOMIC_RELEASE); }

/* PRETEND_NVRTC=refuses in the environment: it compiles nothing. */
int compile(void *program, int n, const char *const *options)
{
    struct program *p = program;
    char folder[] = "/tmp/mlx-emulated-XXXXXX", command[400], path[100];
    if (n < 1 || strcmp(options[0], "-arch=sm_90") || getenv("PRETEND_NVRTC") || !mkdtemp(folder))
        return 1;
    __atomic_fetch_add(&emulated_compiled, 1, __ATOMIC_RELAXED);
    (void)atexit(end);
    const char *compiler = (p->n ? write_own : write_given)(p, folder);
    snprintf(command, sizeof command, "cd %s && %s -shared kernel.c -o kernel.so -lm >kernel.log 2>&1", folder,
             compiler);
    int failed = system(command) != 0;
    snprintf(path, sizeof path, "%s/kernel.log", folder);
    p->log = contents(path, &p->log_size);
    snprintf(path, sizeof path, "%s/kernel.so", folder);
    p->code = contents(path, &p->code_size);
    snprintf(command, sizeof command, "rm -r %s", folder);
    failed |= system(command) != 0;
    if (__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
        abort();
    return failed;
}

int log_size(void *program, size_t *bytes) { return *bytes = ((struct program *)program)->log_size + 1, 0; }
int log(void *program, char *to)
{
    const struct program *p = program;
    return memcpy(to, p->log ? p->log : "", p->log_size + 1), 0;
}
int code_size(void *program, size_t *bytes) { return *bytes = ((struct program *)program)->code_size, 0; }
int code(void *program, char *to)
{
    const struct program *p = program;
    return memcpy(to, p->code, p->code_size), 0;
}
int ptx_size(void *program, size_t *bytes) { return *bytes = 0, !program; }
int ptx(void *program, char *to) { return *to = 0, !program; }
int target_count(int *n) { return *n = 3, 0; }
int targets(int *all) { return all[0] = 75, all[1] = 90, all[2] = 120, 0; }
