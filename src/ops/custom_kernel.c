/* custom_kernel.c: kernels given as text: what is checked, and the operation that those in C are.
 *
 * Nothing is known of what a kernel computes, so there are no rules for derivatives and batches:
 * mx_custom_function gives it some. */
#include "ops/custom_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/words.h"
#include "ops/rules.h"

const char *kernel_word(enum kernel_language language)
{
    static const char *const words[] = { "metal_kernel", "cuda_kernel", "cpu_kernel" };
    return words[language];
}

/* ---- names */

/* Compilers need not tell apart names that differ further behind. */
enum { NAME_LENGTH = 255 };

/* Words of C, and those that what is around a kernel in C is written with. */
static bool is_taken(const char *s)
{
    static const char *const keywords[] = {
        /* clang-format off */
        "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
        "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
        "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "asm",
        "typeof", "bool", "true", "false", "complex", "NULL",
    /* clang-format on */
#define X(name, ...) #name,
        MX_DTYPES(X)
#undef X
        /* clang-format off */
        "uint", "uint3", "load", "store", "fetch_add", "elem_to_loc", "thread_position_in_grid", "threads_per_grid",
        "thread_position_in_threadgroup", "threads_per_threadgroup", "threadgroup_position_in_grid",
        "thread_index_in_threadgroup",
        /* clang-format on */
    };
    return AMONG(s, keywords) || (s[0] == '_' && (s[1] == '_' || isupper((unsigned char)s[1])));
}

/* Fails where a parameter of a kernel cannot be called so; `what` is "the name of an input". */
static bool good_name(enum kernel_language language, const char *what, const char *name)
{
    const char *word = kernel_word(language);
    if (!is_identifier(name, NAME_LENGTH))
        mx_fail("[%s] expected %s to be an identifier (at most %d letters, digits and underscores), got \"%.200s\"",
                word, what, NAME_LENGTH, name);
    else if (language == KERNEL_C && is_taken(name))
        mx_fail("[%s] expected %s to mean nothing in C or in kernels, got \"%s\"", word, what, name);
    return !mx_failed();
}

/* Are the n names of a list ones that parameters can have, and each another? */
static bool good_names(const struct kernel *k)
{
    int n = k->nin + k->nout;
    for (int i = 0; i < n; i++) {
        if (!good_name(k->language, i < k->nin ? "the name of an input" : "the name of an output", k->names[i]))
            return false;
        for (int j = 0; j < i; j++)
            if (!strcmp(k->names[i], k->names[j]))
                return mx_fail("[%s] expected inputs and outputs of different names, got \"%s\" twice",
                               kernel_word(k->language), k->names[i]),
                       false;
    }
    return true;
}

/* ---- kernels */

static void kernel_destroy(struct object *o)
{
    struct kernel *k = (struct kernel *)o;
    if (k->variants)
        k->forget(k->variants);
    for (int i = 0; i < k->nin + k->nout; i++) free((void *)(uintptr_t)k->names[i]);
    free(k->names);
    free((void *)(uintptr_t)k->name);
    free((void *)(uintptr_t)k->source);
    free((void *)(uintptr_t)k->header);
    free(k);
}

static char *copied_text(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = mx_malloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

struct kernel *kernel_new(const struct kernel *k)
{
    const char *word = kernel_word(k->language);
    if (!is_identifier(k->name, NAME_LENGTH))
        return mx_fail("[%s] expected the name of a kernel to be an identifier (at most %d letters, digits and "
                       "underscores), got \"%.200s\"",
                       word, NAME_LENGTH, k->name),
               NULL;
    if (k->nout == 0)
        return mx_fail("[%s] expected at least one output, got none", word), NULL;
    if (k->shared_memory < 0)
        return mx_fail("[%s] expected shared memory of 0 bytes or more, got %d", word, k->shared_memory), NULL;
    if (!good_names(k))
        return NULL;
    struct kernel *new = mx_malloc(sizeof *new);
    if (!new)
        return NULL;
    size_t n = (size_t)k->nin + (size_t)k->nout;
    *new = (struct kernel){ { .refs = 1, .destroy = kernel_destroy },
                            .language = k->language,
                            .row_major = k->row_major,
                            .atomic = k->atomic,
                            .shared_memory = k->shared_memory };
    bool good = (new->name = copied_text(k->name)) && (new->source = copied_text(k->source)) &&
                (new->header = copied_text(k->header)) && (new->names = mx_malloc(n * sizeof *new->names));
    for (; good && new->nin < k->nin; new->nin += good) good = (new->names[new->nin] = copied_text(k->names[new->nin]));
    for (size_t i = (size_t)k->nin; good && i < n; i++, new->nout += good)
        good = (new->names[i] = copied_text(k->names[i]));
    if (good)
        return new;
    kernel_destroy(&new->object);
    return NULL;
}

/* ---- launches */

int launch_output(struct kernel_launch *l, size_t ndim, const int *shape, enum dtype t)
{
    const char *word = kernel_word(l->language);
    if ((unsigned)t >= DT_COUNT)
        return failed(mx_fail("[%s] expected a dtype for an output, got %d", word, (int)t));
    if (ndim > MX_MAX_NDIM)
        return failed(mx_fail("[%s] expected at most %d dimensions of an output, got %zu", word, MX_MAX_NDIM, ndim));
    if (shape_size(word, (int)ndim, shape) < 0)
        return 1;
    struct spec *out = mx_grown(l->out, l->nout, &l->out_cap, sizeof *out);
    if (!out)
        return 1;
    l->out = out;
    return spec_set(&out[l->nout++], t, (int)ndim, shape);
}

int launch_grid(struct kernel_launch *l, int x, int y, int z)
{
    int64_t n = (int64_t)x * y;
    if (x < 0 || y < 0 || z < 0)
        return failed(
            mx_fail("[%s] expected a grid without negative sizes, got (%d,%d,%d)", kernel_word(l->language), x, y, z));
    if (__builtin_mul_overflow(n, (int64_t)z, &n))
        return failed(mx_fail("[%s] expected a grid of less than 2^63 points, got (%d,%d,%d)", kernel_word(l->language),
                              x, y, z));
    memcpy(l->grid, (int[]){ x, y, z }, sizeof l->grid);
    l->has_grid = true;
    return 0;
}

int launch_group(struct kernel_launch *l, int x, int y, int z)
{
    if (x < 1 || y < 1 || z < 1)
        return failed(mx_fail("[%s] expected a threadgroup of positive sizes, got (%d,%d,%d)", kernel_word(l->language),
                              x, y, z));
    memcpy(l->group, (int[]){ x, y, z }, sizeof l->group);
    return 0;
}

int launch_template(struct kernel_launch *l, const char *name, enum template_kind kind, int value)
{
    const char *word = kernel_word(l->language);
    if (!good_name(l->language, "the name of a template argument", name))
        return 1;
    for (int i = 0; i < l->ntemplate; i++)
        if (!strcmp(l->template[i].name, name))
            return failed(mx_fail("[%s] expected template arguments of different names, got \"%s\" twice", word, name));
    if (kind == TEMPLATE_DTYPE && (value < 0 || value >= DT_COUNT))
        return failed(mx_fail("[%s] expected a dtype for the template argument \"%s\", got %d", word, name, value));
    struct template_value *v = mx_grown(l->template, l->ntemplate, &l->template_cap, sizeof *v);
    if (!v)
        return 1;
    l->template = v;
    v[l->ntemplate] = (struct template_value){ copied_text(name), kind, value };
    l->ntemplate += v[l->ntemplate].name != NULL;
    return mx_failed();
}

int launch_math(struct kernel_launch *l, const char *mode)
{
    static const char *const modes[] = { "safe", "relaxed", "fast" };
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(mode, modes[i])) {
            l->math = (enum kernel_math)i;
            return 0;
        }
    return failed(mx_fail("[%s] expected math_mode to be \"safe\", \"relaxed\" or \"fast\", got \"%.200s\"",
                          kernel_word(l->language), mode));
}

void launch_clear(struct kernel_launch *l)
{
    for (int i = 0; i < l->ntemplate; i++) free(l->template[i].name);
    free(l->template);
    free(l->out);
    *l = (struct kernel_launch){ .language = l->language };
}

/* ---- the operation */

static const struct field cpu_kernel_args_fields[] = {
    FIELD(cpu_kernel_args, kernel),  FIELD(cpu_kernel_args, template),       FIELD(cpu_kernel_args, grid),
    FIELD(cpu_kernel_args, outputs), ENUM(cpu_kernel_args, math, MATH_FAST), FIELD(cpu_kernel_args, init),
    FIELD(cpu_kernel_args, verbose), FIELD(cpu_kernel_args, init_value),     { 0 }
};

static int cpu_kernel_shapes(const struct call *c, struct spec out[])
{
    const int64_t *v = ((const struct cpu_kernel_args *)c->args)->outputs.v;
    for (int k = 0; k < c->nout; k++) {
        int shape[MX_MAX_NDIM], ndim = (int)v[1];
        for (int i = 0; i < ndim; i++) shape[i] = (int)v[2 + i];
        spec_set(&out[k], (enum dtype)v[0], ndim, shape);
        v += 2 + ndim;
    }
    return 0;
}

static void no_derivative(const struct call *c)
{
    const struct kernel *k = (struct kernel *)((const struct cpu_kernel_args *)c->args)->kernel;
    mx_fail("[cpu_kernel] %s has no derivative: a custom_function around the call may give it one", k->name);
}

static void cpu_kernel_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)ct, (void)want, (void)dx;
    no_derivative(c);
}

static void cpu_kernel_jvp(const struct call *c, const mx t[], mx dy[])
{
    (void)t, (void)dy;
    no_derivative(c);
}

const struct op op_cpu_kernel = {
    OP_ROW(cpu_kernel),    ARGS(cpu_kernel_args), .shapes = cpu_kernel_shapes,
    .vjp = cpu_kernel_vjp, .jvp = cpu_kernel_jvp,
};

/* Does the launch fit the kernel, with n inputs? */
static bool launch_fits(const struct kernel *k, const struct kernel_launch *l, int n)
{
    const char *word = kernel_word(k->language);
    if (n != k->nin)
        mx_fail("[%s] expected %d input%s for %s, got %d", word, k->nin, k->nin == 1 ? "" : "s", k->name, n);
    else if (l->nout != k->nout)
        mx_fail("[%s] expected the shape and dtype of %d output%s for %s, got %d", word, k->nout,
                k->nout == 1 ? "" : "s", k->name, l->nout);
    else if (!l->has_grid)
        mx_fail("[%s] expected a grid for %s, got none", word, k->name);
    else if (!l->group[0])
        mx_fail("[%s] expected a threadgroup for %s, got none", word, k->name);
    for (int i = 0; i < l->ntemplate && !mx_failed(); i++)
        for (int j = 0; j < k->nin + k->nout; j++)
            if (!strcmp(l->template[i].name, k->names[j])) {
                mx_fail("[%s] expected a template argument of another name than an input or output of %s, got \"%s\"",
                        word, k->name, k->names[j]);
                break;
            }
    return !mx_failed();
}

/* The template arguments as declarations in C; NULL after mx_fail. */
static char *declarations(const struct kernel_launch *l)
{
    size_t size = 1;
    for (int i = 0; i < l->ntemplate; i++) size += strlen(l->template[i].name) + 64;
    char *text = mx_malloc(size), *end = text;
    if (!text)
        return NULL;
    *end = 0;
    for (int i = 0; i < l->ntemplate; i++) {
        const struct template_value *t = &l->template[i];
        size_t left = size - (size_t)(end - text);
        if (t->kind == TEMPLATE_DTYPE)
            end += snprintf(end, left, "typedef %s %s;\n", dtype_name((enum dtype)t->value), t->name);
        else
            end += snprintf(end, left, "#define %s (%d)\n", t->name, t->value);
    }
    return text;
}

static void cpu_kernel(struct kernel *k, const struct kernel_launch *l, int n, const mx x[], mx y[])
{
    size_t room = 0;
    for (int i = 0; i < l->nout; i++) room += 2 + (size_t)l->out[i].ndim;
    int64_t *outputs = mx_malloc(room * sizeof *outputs), *v = outputs;
    char *template = outputs ? declarations(l) : NULL;
    if (template) {
        for (int i = 0; i < l->nout; i++) {
            const struct spec *s = &l->out[i];
            *v++ = s->dtype;
            *v++ = s->ndim;
            for (int j = 0; j < s->ndim; j++) *v++ = s->shape[j];
        }
        const int *g = l->grid, *t = l->group;
        struct cpu_kernel_args a = {
            .kernel = &k->object,
            .template = { template },
            .outputs = { (int)room, outputs },
            .math = l->math,
            .grid = { 6, (const int64_t[]){ g[0], g[1], g[2], t[0], t[1], t[2] } },
            .init = l->init,
            .verbose = l->verbose,
            .init_value = l->init_value,
        };
        mx_infer_n(&op_cpu_kernel, &a, n, x, l->nout, y);
    }
    free(template);
    free(outputs);
}

void mx_custom_kernel(struct kernel *k, const struct kernel_launch *l, int n, const mx x[], mx y[])
{
    for (int i = 0; i < k->nout; i++) y[i] = MX_NIL;
    for (int i = 0; i < n; i++)
        if (is_nil(x[i]))
            return;
    if (!launch_fits(k, l, n))
        return;
    if (k->language == KERNEL_METAL)
        mx_fail_as(MX_RUNTIME, "[metal_kernel] cannot run %s: there is no Metal in this build", k->name);
    else if (k->language == KERNEL_CUDA)
        mx_fail_as(MX_RUNTIME, "[cuda_kernel] cannot run %s: kernels for CUDA are not run", k->name);
    else
        cpu_kernel(k, l, n, x, y);
}
