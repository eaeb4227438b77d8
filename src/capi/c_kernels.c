/* c_kernels.c: kernels given as text (fast.h), in three languages that differ in name. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "ops/custom_kernel.h"

/* ---- configs */

static void free_config(void *ctx)
{
    launch_clear(ctx);
    free(ctx);
}

static void *config_new(const char *func, enum handle_kind kind, enum kernel_language language)
{
    struct kernel_launch *l = mx_malloc(sizeof *l);
    if (l)
        *l = (struct kernel_launch){ .language = language };
    else
        capi_report();
    return capi_made_or(kind, l, func, free_config);
}

static void config_free(enum handle_kind kind, void *ctx)
{
    capi_gone(kind, ctx);
    if (ctx)
        free_config(ctx);
}

/* Is there a config to be changed? */
static bool config(const char *func, void *ctx) { return capi_need(func, "a config", "cls", ctx); }

static int add_output(const char *func, void *ctx, const int *shape, size_t n, mlx_dtype t)
{
    if (config(func, ctx) && (!n || capi_need(func, "a shape", "shape", shape)))
        launch_output(ctx, n, shape, (enum dtype)t);
    return capi_end();
}

static int set_grid(const char *func, void *ctx, int x, int y, int z)
{
    if (config(func, ctx))
        launch_grid(ctx, x, y, z);
    return capi_end();
}

static int set_group(const char *func, void *ctx, int x, int y, int z)
{
    if (config(func, ctx))
        launch_group(ctx, x, y, z);
    return capi_end();
}

static int set_init(const char *func, void *ctx, double value)
{
    struct kernel_launch *l = ctx;
    if (config(func, ctx)) {
        l->init = true;
        l->init_value = value;
    }
    return capi_end();
}

static int set_verbose(const char *func, void *ctx, bool verbose)
{
    if (config(func, ctx))
        ((struct kernel_launch *)ctx)->verbose = verbose;
    return capi_end();
}

static int add_template(const char *func, void *ctx, const char *name, enum template_kind kind, int value)
{
    if (config(func, ctx) && capi_need(func, "a name", "name", name))
        launch_template(ctx, name, kind, value);
    return capi_end();
}

int mlx_fast_cpu_kernel_config_set_math_mode(mlx_fast_cpu_kernel_config cls, const char *mode)
{
    if (config(__func__, cls.ctx) && capi_given(mode, "the name of a mode"))
        launch_math(cls.ctx, mode);
    return capi_end();
}

static int add_scalar(const char *func, void *ctx, enum scalar_kind kind, int64_t bits)
{
    if (config(func, ctx))
        launch_scalar(ctx, kind, bits);
    return capi_end();
}

int mlx_fast_cuda_kernel_config_add_scalar_int(mlx_fast_cuda_kernel_config cls, int value)
{
    return add_scalar(__func__, cls.ctx, SCALAR_INT, value);
}

int mlx_fast_cuda_kernel_config_add_scalar_float(mlx_fast_cuda_kernel_config cls, float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return add_scalar(__func__, cls.ctx, SCALAR_FLOAT, bits);
}

int mlx_fast_cuda_kernel_config_add_scalar_bool(mlx_fast_cuda_kernel_config cls, bool value)
{
    return add_scalar(__func__, cls.ctx, SCALAR_BOOL, value);
}

/* ---- kernels */

static void free_kernel(void *ctx) { object_release(ctx); }

/* The strings of `inputs` and then those of `outputs`, which keep them; NULL after mx_fail. */
static const char **names_of(const struct list *inputs, const struct list *outputs)
{
    const char **names = mx_malloc((inputs->n + outputs->n + 1) * sizeof *names);
    for (size_t i = 0; names && i < inputs->n; i++) names[i] = inputs->v[i].text;
    for (size_t i = 0; names && i < outputs->n; i++) names[inputs->n + i] = outputs->v[i].text;
    return names;
}

static void *kernel(const char *func, enum handle_kind kind, struct kernel like, mlx_vector_string input_names,
                    mlx_vector_string output_names)
{
    struct kernel *k = NULL;
    const struct list *in = input_names.ctx, *out = output_names.ctx;
    if (capi_need(func, "a name", "name", like.name) && capi_need(func, "a vector", "input_names", in) &&
        capi_need(func, "a vector", "output_names", out) && capi_need(func, "a text", "source", like.source)) {
        const char **names = names_of(in, out);
        like.header = like.header ? like.header : "";
        like.nin = (int)in->n;
        like.nout = (int)out->n;
        like.names = names;
        k = names ? kernel_new(&like) : NULL;
        free(names);
    }
    if (!k)
        capi_report();
    return capi_made_or(kind, k, func, free_kernel);
}

static void kernel_free(enum handle_kind kind, void *ctx)
{
    capi_gone(kind, ctx);
    object_release(ctx);
}

static int apply_kernel(const char *func, mlx_vector_array *outputs, struct kernel *k, mlx_vector_array inputs,
                        const struct kernel_launch *l, mlx_stream stream)
{
    MX_SCOPE(capi_stream(stream));
    struct list *results = NULL;
    int n;
    mx *x = capi_need(func, "a kernel", "cls", k) && capi_need(func, "a config", "config", l)
                ? capi_arrays(func, "inputs", inputs, &n)
                : NULL;
    mx *y = x ? mx_malloc((size_t)k->nout * sizeof *y) : NULL;
    if (y) {
        mx_custom_kernel(k, l, n, x, y);
        results = mx_failed() ? NULL : capi_list_of(k->nout, y);
    }
    if (x)
        capi_arrays_free(n, x);
    free(y);
    return capi_list_end(func, outputs ? &outputs->ctx : NULL, results);
}

/* ---- the functions of each language */

#define LANGUAGES(X) X(cpu, KERNEL_C) X(cuda, KERNEL_CUDA) X(metal, KERNEL_METAL)
#define KERNEL(word) mlx_fast_##word##_kernel
#define CONFIG(word) mlx_fast_##word##_kernel_config
#define CONFIG_FUNCTION(word, name, ...) int mlx_fast_##word##_kernel_config_##name(CONFIG(word) cls, __VA_ARGS__)

#define NEW(word, language)                                                                          \
    CONFIG(word) mlx_fast_##word##_kernel_config_new(void)                                           \
    {                                                                                                \
        return (CONFIG(word)){ config_new(__func__, HANDLE_fast_##word##_kernel_config, language) }; \
    }
LANGUAGES(NEW)

#define FREE(word, language)                                      \
    void mlx_fast_##word##_kernel_config_free(CONFIG(word) cls)   \
    {                                                             \
        config_free(HANDLE_fast_##word##_kernel_config, cls.ctx); \
    }                                                             \
    void mlx_fast_##word##_kernel_free(KERNEL(word) cls) { kernel_free(HANDLE_fast_##word##_kernel, cls.ctx); }
LANGUAGES(FREE)

#define OUTPUT(word, language)                                                            \
    CONFIG_FUNCTION(word, add_output_arg, const int *shape, size_t size, mlx_dtype dtype) \
    {                                                                                     \
        return add_output(__func__, cls.ctx, shape, size, dtype);                         \
    }
LANGUAGES(OUTPUT)

#define GRID(word, language)                                                       \
    CONFIG_FUNCTION(word, set_grid, int grid1, int grid2, int grid3)               \
    {                                                                              \
        return set_grid(__func__, cls.ctx, grid1, grid2, grid3);                   \
    }                                                                              \
    CONFIG_FUNCTION(word, set_thread_group, int thread1, int thread2, int thread3) \
    {                                                                              \
        return set_group(__func__, cls.ctx, thread1, thread2, thread3);            \
    }
LANGUAGES(GRID)

#define SETTINGS(word, language)                                                                              \
    CONFIG_FUNCTION(word, set_init_value, float value) { return set_init(__func__, cls.ctx, (double)value); } \
    CONFIG_FUNCTION(word, set_verbose, bool verbose) { return set_verbose(__func__, cls.ctx, verbose); }
LANGUAGES(SETTINGS)

#define TEMPLATE(word, type, parameter, TYPE)                                             \
    CONFIG_FUNCTION(word, add_template_arg_##type, const char *name, parameter)           \
    {                                                                                     \
        return add_template(__func__, cls.ctx, name, TEMPLATE_##TYPE, (int)type##_given); \
    }
#define TEMPLATES(word, language)                       \
    TEMPLATE(word, dtype, mlx_dtype dtype_given, DTYPE) \
    TEMPLATE(word, int, int int_given, INT)             \
    TEMPLATE(word, bool, bool bool_given, BOOL)
LANGUAGES(TEMPLATES)

#define MAKE(word, language_, parameter, member, given)                                                        \
    KERNEL(word)                                                                                               \
    mlx_fast_##word##_kernel_new(const char *name, const mlx_vector_string input_names,                        \
                                 const mlx_vector_string output_names, const char *source, const char *header, \
                                 bool ensure_row_contiguous, parameter)                                        \
    {                                                                                                          \
        struct kernel like = { .language = language_,                                                          \
                               .name = name,                                                                   \
                               .source = source,                                                               \
                               .header = header,                                                               \
                               .row_major = ensure_row_contiguous,                                             \
                               .member = given };                                                              \
        void *k = kernel(__func__, HANDLE_fast_##word##_kernel, like, input_names, output_names);              \
        return (KERNEL(word)){ k };                                                                            \
    }
MAKE(cpu, KERNEL_C, bool atomic_outputs, atomic, atomic_outputs)
MAKE(cuda, KERNEL_CUDA, int shared_memory, shared_memory, shared_memory)
MAKE(metal, KERNEL_METAL, bool atomic_outputs, atomic, atomic_outputs)

mlx_fast_cuda_kernel mlx_fast_cuda_kernel_new_precompiled(const char *name, size_t num_inputs, size_t num_outputs,
                                                          const void *image, size_t size, bool ensure_row_contiguous,
                                                          int shared_memory)
{
    enum { MOST = 4095 }; /* pointers that a launch can pass */
    bool few = num_inputs <= MOST && num_outputs <= MOST;
    struct kernel *k = NULL;
    struct kernel like = { .language = KERNEL_IMAGE,
                           .name = name,
                           .source = "",
                           .header = "",
                           .nin = few ? (int)num_inputs : 0,
                           .nout = few ? (int)num_outputs : 0,
                           .row_major = ensure_row_contiguous,
                           .shared_memory = shared_memory,
                           .image = image,
                           .image_size = size };
    if (!few)
        mx_fail("[cuda_kernel] expected at most %d inputs and as many outputs, got %zu and %zu", MOST, num_inputs,
                num_outputs);
    else if (capi_need(__func__, "a name", "name", name) && capi_need(__func__, "an image", "image", image))
        k = kernel_new(&like);
    if (!k)
        capi_report();
    return (mlx_fast_cuda_kernel){ capi_made_or(HANDLE_fast_cuda_kernel, k, __func__, free_kernel) };
}

#define APPLY(word, language)                                                                                      \
    int mlx_fast_##word##_kernel_apply(mlx_vector_array *outputs, KERNEL(word) cls, const mlx_vector_array inputs, \
                                       const CONFIG(word) config, const mlx_stream stream)                         \
    {                                                                                                              \
        return apply_kernel(__func__, outputs, cls.ctx, inputs, config.ctx, stream);                               \
    }
LANGUAGES(APPLY)
