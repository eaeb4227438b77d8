/* custom_kernel.c: kernels given as text or compiled, launched on a GPU.
 *
 * What was compiled for operands of certain types stays with the kernel; modules stay loaded while the process lives,
 * and a kernel that is made anew finds its own by the bytes of the image. */
#include "cuda/custom_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "core/sizes.h"

/* ---- functions */

struct module {
    struct module *next;
    int gpu, variant;
    void *it;
    size_t size;
    char key[];
};
LOCK(lock, LOCK_LEAF); /* of the list, which only grows */
static struct module *modules;

void *custom_module(int gpu, int variant, const void *key, size_t size)
{
    lock_take(&lock);
    const struct module *m = modules;
    while (m && (m->gpu != gpu || m->variant != variant || m->size != size || memcmp(m->key, key, size))) m = m->next;
    lock_give(&lock);
    return m ? m->it : NULL;
}

void *custom_module_new(int gpu, int variant, const void *key, size_t size, const void *image, int *error)
{
    struct module *new = mx_malloc(sizeof *new + size);
    *error = 0;
    if (!new)
        return NULL;
    *new = (struct module){ .gpu = gpu, .variant = variant, .size = size };
    memcpy(new->key, key, size);
    *error = cu.module_load(&new->it, image);
    if (*error) {
        free(new);
        return NULL;
    }
    lock_take(&lock);
    new->next = modules;
    modules = new;
    lock_give(&lock);
    return new->it;
}

/* The function of this name in an image; NULL after mx_fail. */
static void *load_custom(const struct gpu *g, const struct kernel *k, const void *image, size_t size,
                         const char *function)
{
    /* How much shared memory they may have is set on functions: those of another size are others. */
    const int variant = k->shared_memory;
    const char *word = kernel_word(k->language);
    void *f = NULL, *module = custom_module(g->number, variant, image, size);
    int e = 0;
    if (!module)
        module = custom_module_new(g->number, variant, image, size, image, &e);
    if (e)
        mx_fail_as(MX_RUNTIME, "[%s] the driver cannot load %s: %s", word, k->name, cuda_error_text(e));
    else if (module && (e = cu.module_function(&f, module, function)))
        mx_fail_as(MX_RUNTIME, "[%s] expected an image with the kernel %s: %s", word, function, cuda_error_text(e));
    return e ? NULL : f;
}

/* Stands for arrays of few dimensions, or any. */
static int dims_of(const struct run *r, const struct kernel *k)
{
    enum { FEW = 8 };
    int most = 0;
    for (int i = 0; i < k->nin; i++) most = r->x[i]->ndim > most ? r->x[i]->ndim : most;
    return most <= FEW ? FEW : MX_MAX_NDIM;
}

static void *compile_custom(const struct run *r, const struct kernel *k, const enum dtype types[], int dims)
{
    const struct custom_kernel_args *a = r->args;
    char *text = custom_text(k, a->template.s, types, dims), entry[512];
    if (!text)
        return NULL;
    if (a->verbose)
        printf("%s", text);
    size_t size;
    bool includes = strstr(k->source, "include") || strstr(k->header, "include"); /* "#  include" too */
    char *image = custom_image(gpu_of(r), kernel_word(k->language), k->name, text, includes, a->verbose, &size);
    if (a->verbose)
        fflush(stdout);
    snprintf(entry, sizeof entry, CUSTOM_ENTRY "%s", k->name);
    void *f = image ? load_custom(gpu_of(r), k, image, size, entry) : NULL;
    free(image);
    free(text);
    return f;
}

/* The function for the types of this call, on its device; NULL after mx_fail. */
static void *function_of_custom(const struct run *r, struct kernel *k)
{
    const struct custom_kernel_args *a = r->args;
    size_t n = (size_t)k->nin + (size_t)k->nout, text = strlen(a->template.s) + 1, size = 2 + n + text;
    int dims = dims_of(r, k);
    enum dtype *types = mx_malloc(n * sizeof *types);
    char *key = types ? mx_malloc(size) : NULL;
    void *f = NULL;
    if (key) {
        for (int i = 0; i < k->nin + k->nout; i++) {
            types[i] = (enum dtype)(i < k->nin ? r->x[i] : r->y[i - k->nin])->dtype;
            key[2 + i] = (char)types[i];
        }
        key[0] = (char)gpu_of(r)->number;
        key[1] = (char)dims;
        memcpy(key + 2 + n, a->template.s, text);
        f = kernel_variant(k, key, size);
        if (!f || (a->verbose && !k->image)) {
            f = k->image ? load_custom(gpu_of(r), k, k->image, k->image_size, k->name)
                         : compile_custom(r, k, types, dims);
            f = f ? kernel_remember(k, key, size, f) : NULL;
        }
    }
    free(key);
    free(types);
    return f;
}

/* ---- arguments */

/* Arguments of a launch: where each is, in memory of their own. */
struct arguments {
    void **at;
    char *next;
    size_t *size;
    int n;
};

static void add_argument(struct arguments *a, const void *v, size_t size)
{
    memcpy(a->next, v, size);
    a->size[a->n] = size;
    a->at[a->n++] = a->next;
    a->next += (size + 7) / 8 * 8;
}

static void add_facts(struct arguments *a, const struct kernel *k, int input, mx x, size_t dims)
{
    int shape[MX_MAX_NDIM] = { 0 };
    int64_t strides[MX_MAX_NDIM] = { 0 };
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    memcpy(strides, x->strides, (size_t)x->ndim * sizeof *strides);
    if (custom_asks(k, input, FACT_SHAPE))
        add_argument(a, shape, dims * sizeof *shape);
    if (custom_asks(k, input, FACT_STRIDES))
        add_argument(a, strides, dims * sizeof *strides);
    if (custom_asks(k, input, FACT_NDIM))
        add_argument(a, &(int){ x->ndim }, sizeof(int));
}

static void add_scalars(struct arguments *a, const struct ints *s)
{
    for (int i = 0; i < s->n; i += 2) switch (s->v[i]) {
        case SCALAR_INT: add_argument(a, &(int32_t){ (int32_t)s->v[i + 1] }, sizeof(int32_t)); break;
        case SCALAR_FLOAT: add_argument(a, &(int32_t){ (int32_t)s->v[i + 1] }, sizeof(float)); break;
        case SCALAR_BOOL: add_argument(a, &(bool){ s->v[i + 1] }, sizeof(bool)); break;
        }
}

/* Every element of y becomes the one of x. */
static int fill_with_one(const struct run *r, mx y, mx x)
{
    const int64_t none[MX_MAX_NDIM] = { 0 };
    struct box b = box_of(itemsize(y), y->ndim, y->shape, y->strides, none);
    return gpu_copy_box(r, &b, gpu_address(r, y), gpu_address(r, x));
}

/* Behind the inputs there is an operand for each output where those are made of one value first. */
static int place_arguments(const struct run *r, const struct kernel *k, struct arguments *a, mx_own hold[])
{
    const struct custom_kernel_args *c = r->args;
    size_t dims = (size_t)dims_of(r, k);
    for (int i = 0; i < k->nin; i++) {
        mx x = k->row_major ? gpu_row_major(r, r->x[i], &hold[i]) : r->x[i];
        if (is_nil(x))
            return 1;
        add_argument(a, &(uint64_t){ gpu_address(r, x) }, sizeof(uint64_t));
        if (!k->image)
            add_facts(a, k, i, x, dims);
    }
    for (int i = 0; i < k->nout; i++) {
        if (gpu_out_new(r, i) || (c->init && fill_with_one(r, r->y[i], r->x[k->nin + i])))
            return 1;
        add_argument(a, &(uint64_t){ gpu_address(r, r->y[i]) }, sizeof(uint64_t));
    }
    add_scalars(a, &c->scalars);
    return 0;
}

bool custom_takes(const char *op, const char *name, void *f, size_t n, const size_t *sizes)
{
    enum { MOST = 4096 };
    size_t offset, size, count = 0, small = MOST, needed = 0;
    int e = 0;
    for (; cu.parameter && count < MOST && !(e = cu.parameter(f, count, &offset, &size)); count++)
        if (sizes && count < n && size > sizes[count] && small == MOST) {
            small = count;
            needed = size;
        }
    if (!cu.parameter || e != CUDA_INVALID_VALUE)
        return true;
    if (count != n)
        mx_fail_as(MX_RUNTIME, "[%s] expected %zu arguments for %s, got %zu", op, count, name, n);
    else if (small != MOST)
        mx_fail_as(MX_RUNTIME, "[%s] expected %zu bytes for argument %zu of %s, got %zu", op, needed, small, name,
                   sizes[small]);
    return count == n && small == MOST;
}

/* ---- launches */

/* Errors of a launch after which the device is as it was. */
static bool is_refusal(int e)
{
    enum { NO_BINARY = 209, INVALID_PTX = 218, OUT_OF_RESOURCES = 701, NOT_SUPPORTED = 801 };
    enum { COOPERATIVE_TOO_LARGE = 720, INVALID_CLUSTER_SIZE = 912 };
    return e == CUDA_INVALID_VALUE || e == NO_BINARY || e == INVALID_PTX || e == OUT_OF_RESOURCES ||
           e == NOT_SUPPORTED || e == COOPERATIVE_TOO_LARGE || e == INVALID_CLUSTER_SIZE;
}

int custom_launch(struct stream *s, const char *op, const char *name, void *f, const unsigned blocks[3],
                  const unsigned threads[3], int shared_memory, void *args[])
{
    /* Without asking there are 48 KiB, less what the kernel has besides. */
    int e = shared_memory ? cu.function_set(f, CUDA_FUNCTION_SHARED_BYTES, shared_memory) : 0;
    if (!e)
        e = cu.launch(f, blocks[0], blocks[1], blocks[2], threads[0], threads[1], threads[2], (unsigned)shared_memory,
                      gpu_direct(gpu_stream(s)), args, NULL);
    if (!is_refusal(e))
        return gpu_check(gpu_stream(s)->gpu, op, e);
    mx_fail_as(
        MX_RUNTIME,
        "[%s] the GPU cannot run %s in blocks of (%u,%u,%u) threads, (%u,%u,%u) of them, with %d bytes of shared "
        "memory: %s",
        op, name, threads[0], threads[1], threads[2], blocks[0], blocks[1], blocks[2], shared_memory,
        cuda_error_text(e));
    return 1;
}

static int launch_custom(const struct run *r, const struct kernel *k, void *f, void *args[])
{
    const struct custom_kernel_args *a = r->args;
    unsigned blocks[3], threads[3];
    for (int i = 0; i < 3; i++) {
        int64_t points = a->grid.v[i], group = a->grid.v[3 + i];
        if (!points)
            return 0;
        threads[i] = (unsigned)(group < points ? group : points);
        blocks[i] = (unsigned)ceil_div(points, threads[i]);
    }
    return custom_launch(r->stream, kernel_word(k->language), k->name, f, blocks, threads, k->shared_memory, args);
}

/* Who has compiled a kernel knows alone what it takes. */
static bool takes(const struct kernel *k, void *f, const struct arguments *a)
{
    return !k->image || custom_takes(kernel_word(k->language), k->name, f, (size_t)a->n, a->size);
}

int gpu_run_cuda_kernel(const struct run *r)
{
    const struct custom_kernel_args *c = r->args;
    struct kernel *k = (struct kernel *)c->kernel;
    size_t n = (size_t)k->nin, all = n * (FACTS + 1) + (size_t)k->nout + (size_t)c->scalars.n;
    size_t facts = MX_MAX_NDIM * (sizeof(int) + sizeof(int64_t));
    void *f = function_of_custom(r, k);
    char *memory = f ? mx_malloc(all * (sizeof(void *) + sizeof(size_t) + 8) + n * (facts + sizeof(mx_own))) : NULL;
    if (!memory)
        return 1;
    mx_own *hold = (mx_own *)memory;
    struct arguments a = { .at = (void **)(hold + n) };
    a.size = (size_t *)(a.at + all);
    a.next = (char *)(a.size + all);
    memset(hold, 0, n * sizeof *hold);
    int failed = place_arguments(r, k, &a, hold) || !takes(k, f, &a) || launch_custom(r, k, f, a.at);
    gpu_drop(k->nin, hold);
    free(memory);
    return failed;
}
