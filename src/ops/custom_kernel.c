/* custom_kernel.c: kernels given as text: what is checked, and the operations that those in C and for CUDA are.
 *
 * Nothing is known of what a kernel computes, so there are no rules for derivatives and batches:
 * mx_custom_function gives it some. */
#include "ops/custom_kernel.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/lock.h"
#include "core/scope.h"
#include "core/stream.h"
#include "core/words.h"
#include "ops/rules.h"

const char *kernel_word(enum kernel_language language)
{
    static const char *const words[] = { "metal_kernel", "cuda_kernel", "cpu_kernel", "precompiled_cuda_kernel" };
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

struct variant {
    struct variant *next;
    void *compiled;
    size_t size;
    char key[];
};
LOCK(variants, LOCK_LEAF); /* of all kernels */

/* Under the lock. */
static void *find_variant(const struct kernel *k, const void *key, size_t size)
{
    for (const struct variant *v = k->variants; v; v = v->next)
        if (v->size == size && !memcmp(v->key, key, size))
            return v->compiled;
    return NULL;
}

void *kernel_variant(struct kernel *k, const void *key, size_t size)
{
    lock_take(&variants);
    void *found = find_variant(k, key, size);
    lock_give(&variants);
    return found;
}

void *kernel_remember(struct kernel *k, const void *key, size_t size, void *compiled)
{
    struct variant *v = mx_malloc(sizeof *v + size);
    if (!v)
        return NULL;
    *v = (struct variant){ .compiled = compiled, .size = size };
    memcpy(v->key, key, size);
    lock_take(&variants);
    void *found = find_variant(k, key, size);
    if (!found) {
        v->next = k->variants;
        k->variants = v;
    }
    lock_give(&variants);
    if (found)
        free(v);
    return found ? found : compiled;
}

static bool word_in(const char *text, const char *word, size_t n)
{
    for (const char *s = text; (s = strstr(s, word)); s += n) {
        bool before = s > text && (isalnum((unsigned char)s[-1]) || s[-1] == '_');
        if (!before && !isalnum((unsigned char)s[n]) && s[n] != '_')
            return true;
    }
    return false;
}

bool kernel_says(const struct kernel *k, const char *name, const char *suffix, bool header)
{
    char word[512];
    size_t n = (size_t)snprintf(word, sizeof word, "%s%s", name, suffix);
    return n >= sizeof word || word_in(k->source, word, n) || (header && word_in(k->header, word, n));
}

static void kernel_destroy(struct object *o)
{
    struct kernel *k = (struct kernel *)o;
    for (struct variant *v = k->variants; v;) {
        struct variant *next = v->next;
        free(v);
        v = next;
    }
    for (int i = 0; k->names && i < k->nin + k->nout; i++) free((void *)(uintptr_t)k->names[i]);
    free(k->names);
    free((void *)(uintptr_t)k->image);
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

static bool keep_names(struct kernel *new, const struct kernel *k)
{
    size_t n = (size_t)k->nin + (size_t)k->nout;
    bool good = (new->names = mx_malloc(n * sizeof *new->names));
    for (; good && new->nin < k->nin; new->nin += good) good = (new->names[new->nin] = copied_text(k->names[new->nin]));
    for (size_t i = (size_t)k->nin; good && i < n; i++, new->nout += good)
        good = (new->names[i] = copied_text(k->names[i]));
    return good;
}

/* An image, with the byte that ends one that is text. */
static bool keep_image(struct kernel *new, const struct kernel *k)
{
    char *copy = mx_malloc(k->image_size + 1);
    if (!copy)
        return false;
    memcpy(copy, k->image, k->image_size);
    copy[k->image_size] = 0;
    new->image = copy;
    new->image_size = k->image_size;
    new->nin = k->nin;
    new->nout = k->nout;
    return true;
}

struct kernel *kernel_new(const struct kernel *k)
{
    const char *word = kernel_word(k->language);
    if (k->image ? !*k->name : !is_identifier(k->name, NAME_LENGTH)) /* of C++, where it is compiled */
        return mx_fail("[%s] expected the name of a kernel to be an identifier (at most %d letters, digits and "
                       "underscores), got \"%.200s\"",
                       word, NAME_LENGTH, k->name),
               NULL;
    if (k->nout == 0)
        return mx_fail("[%s] expected at least one output, got none", word), NULL;
    if (k->shared_memory < 0)
        return mx_fail("[%s] expected shared memory of 0 bytes or more, got %d", word, k->shared_memory), NULL;
    if (k->names && !good_names(k))
        return NULL;
    struct kernel *new = mx_malloc(sizeof *new);
    if (!new)
        return NULL;
    *new = (struct kernel){ { .refs = 1, .destroy = kernel_destroy },
                            .language = k->language,
                            .row_major = k->row_major,
                            .atomic = k->atomic,
                            .shared_memory = k->shared_memory };
    bool good = (new->name = copied_text(k->name)) && (new->source = copied_text(k->source)) &&
                (new->header = copied_text(k->header));
    if (good && (k->image ? keep_image(new, k) : keep_names(new, k)))
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

int launch_scalar(struct kernel_launch *l, enum scalar_kind kind, int64_t bits)
{
    int64_t *v = mx_grown(l->scalars, l->nscalar + 1, &l->scalar_cap, sizeof *v);
    if (!v)
        return 1;
    l->scalars = v;
    v[l->nscalar++] = kind;
    v[l->nscalar++] = bits;
    return 0;
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
    free(l->scalars);
    free(l->out);
    *l = (struct kernel_launch){ .language = l->language };
}

/* ---- the operations */

static const struct field custom_kernel_args_fields[] = {
    FIELD(custom_kernel_args, kernel),     FIELD(custom_kernel_args, template),
    FIELD(custom_kernel_args, grid),       FIELD(custom_kernel_args, outputs),
    FIELD(custom_kernel_args, scalars),    ENUM(custom_kernel_args, math, MATH_FAST),
    FIELD(custom_kernel_args, init),       FIELD(custom_kernel_args, verbose),
    FIELD(custom_kernel_args, init_value), { 0 }
};

static int custom_kernel_shapes(const struct call *c, struct spec out[])
{
    const int64_t *v = ((const struct custom_kernel_args *)c->args)->outputs.v;
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
    const struct kernel *k = (struct kernel *)((const struct custom_kernel_args *)c->args)->kernel;
    mx_fail("[%s] %s has no derivative: a custom_function around the call may give it one", kernel_word(k->language),
            k->name);
}

static void custom_kernel_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)ct, (void)want, (void)dx;
    no_derivative(c);
}

static void custom_kernel_jvp(const struct call *c, const mx t[], mx dy[])
{
    (void)t, (void)dy;
    no_derivative(c);
}

#define CUSTOM_KERNEL(name)                                                                               \
    const struct op op_##name = { OP_ROW(name), ARGS(custom_kernel_args), .shapes = custom_kernel_shapes, \
                                  .vjp = custom_kernel_vjp, .jvp = custom_kernel_jvp }
CUSTOM_KERNEL(cpu_kernel);
CUSTOM_KERNEL(cuda_kernel);

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
    else if (k->image && l->ntemplate)
        mx_fail("[%s] expected no template arguments for %s, which is compiled, got %d", word, k->name, l->ntemplate);
    else if (!k->image && l->nscalar)
        mx_fail("[%s] expected no scalars for %s, which is not compiled; its inputs may be numbers", word, k->name);
    for (int i = 0; i < l->ntemplate && !mx_failed(); i++)
        for (int j = 0; j < k->nin + k->nout; j++)
            if (!strcmp(l->template[i].name, k->names[j])) {
                mx_fail("[%s] expected a template argument of another name than an input or output of %s, got \"%s\"",
                        word, k->name, k->names[j]);
                break;
            }
    return !mx_failed();
}

/* The template arguments as declarations, in C or for a body in C++; NULL after mx_fail. */
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
        else if (l->language == KERNEL_C)
            end += snprintf(end, left, "#define %s (%d)\n", t->name, t->value);
        else
            end += snprintf(end, left, "constexpr %s %s = %d;\n", t->kind == TEMPLATE_INT ? "int" : "bool", t->name,
                            t->value);
    }
    return text;
}

static void run_later(const struct op *op, struct kernel *k, const struct kernel_launch *l, int n, const mx x[], mx y[])
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
        struct custom_kernel_args a = {
            .kernel = &k->object,
            .template = { template },
            .outputs = { (int)room, outputs },
            .scalars = { l->nscalar, l->scalars },
            .math = l->math,
            .grid = { 6, (const int64_t[]){ g[0], g[1], g[2], t[0], t[1], t[2] } },
            .init = l->init,
            .verbose = l->verbose,
            .init_value = l->init_value,
        };
        mx_infer_n(op, &a, n, x, l->nout, y);
    }
    free(template);
    free(outputs);
}

/* May a GPU run blocks of that size? */
static bool group_fits(const struct kernel *k, const struct kernel_launch *l)
{
    enum { THREADS = 1024, DEEP = 64 };
    int64_t n = 1;
    for (int i = 0; i < 3; i++) n *= l->group[i] < l->grid[i] ? l->group[i] : l->grid[i];
    if (n > THREADS || (l->group[2] > DEEP && l->grid[2] > DEEP))
        mx_fail("[%s] expected a threadgroup of at most %d threads, %d along z, for %s, got (%d,%d,%d)",
                kernel_word(k->language), THREADS, DEEP, k->name, l->group[0], l->group[1], l->group[2]);
    return !mx_failed();
}

/* Behind the inputs goes what the elements of each output are first. */
static void run_on_gpu(struct kernel *k, const struct kernel_launch *l, int n, const mx x[], mx y[])
{
    mx *all = mx_malloc(((size_t)n + (size_t)l->nout) * sizeof *all);
    bool good = all;
    /* Compilers count on bools of 0 and 1. */
    for (int i = 0; good && i < n; i++)
        good = !is_nil(all[i] = x[i]->dtype == DT_bool_ && !k->image ? mx_not_equal(x[i], array_of_double(0, DT_bool_))
                                                                     : x[i]);
    for (int i = 0; good && l->init && i < l->nout; i++, n++)
        good = !is_nil(all[n] = array_of_double(l->init_value, l->out[i].dtype));
    if (good)
        run_later(&op_cuda_kernel, k, l, n, all, y);
    free(all);
}

void mx_custom_kernel(struct kernel *k, const struct kernel_launch *l, int n, const mx x[], mx y[])
{
    for (int i = 0; i < k->nout; i++) y[i] = MX_NIL;
    for (int i = 0; i < n; i++)
        if (is_nil(x[i]))
            return;
    if (!launch_fits(k, l, n))
        return;
    const char *word = kernel_word(k->language);
    struct device here = scope_stream()->device;
    if (k->language == KERNEL_METAL)
        mx_fail_as(MX_RUNTIME, "[%s] cannot run %s: there is no Metal in this build", word, k->name);
    else if (k->language == KERNEL_C)
        run_later(&op_cpu_kernel, k, l, n, x, y);
    else if (!device_count(DEVICE_GPU) || strcmp(devices_of(DEVICE_GPU)->name, "cuda"))
        mx_fail_as(MX_RUNTIME, "[%s] cannot run %s: kernels for CUDA are not run without an NVIDIA GPU", word, k->name);
    else if (here.type != DEVICE_GPU)
        mx_fail_as(MX_RUNTIME, "[%s] expected a stream of a GPU for %s, got one of %s", word, k->name,
                   device_text(here));
    else if (group_fits(k, l))
        run_on_gpu(k, l, n, x, y);
}
