/* cpu_kernel.c: runs a kernel given as text over its grid.
 *
 * The points are split over the threads, a threadgroup's number of them at least at a time. */
#include "cpu/cpu_kernel.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/lock.h"
#include "core/scope.h"
#include "cpu/kernels/reduce.h"
#include "cpu/run.h"
#include "run/stop.h"

/* ---- compiling */

/* The flags for the level of instructions that all kernels here use, and for the mode.  The fast one is not
 * -ffast-math, with which a library changes how its whole process takes denormal numbers. */
static const char *flags_of(enum kernel_math math)
{
    static const char *const modes[] = {
#define RELAXED "-ffp-contract=fast -fassociative-math -freciprocal-math -fno-signed-zeros"
        [MATH_SAFE] = "-ffp-contract=off",
        [MATH_RELAXED] = RELAXED,
        [MATH_FAST] = RELAXED " -ffinite-math-only -D__FAST_MATH__=1",
    };
    static _Thread_local char flags[256];
    const char *level = "";
#ifdef __x86_64__
    level = !strcmp(cpu->isa, "avx512") ? "-march=x86-64-v4 -mprefer-vector-width=512"
            : !strcmp(cpu->isa, "avx2") ? "-march=x86-64-v3"
                                        : "-march=x86-64-v2";
#endif
    snprintf(flags, sizeof flags, "%s %s", level, modes[math]);
    return flags;
}

static kernel_fn *compiled(const struct kernel *k, const struct custom_kernel_args *a, const enum dtype types[])
{
    char *text = kernel_text(k, a->template.s, types);
    if (!text)
        return NULL;
    const char *flags = flags_of((enum kernel_math)a->math);
    if (a->verbose)
        printf("%s/* flags: %s */\n", text, flags);
    kernel_fn *run = kernel_load(k->name, text, flags, a->verbose);
    if (a->verbose)
        fflush(stdout);
    free(text);
    return run;
}

/* The kernel compiled for the types of this call; NULL after mx_fail. */
static kernel_fn *function_of(const struct run *r)
{
    const struct custom_kernel_args *a = r->args;
    struct kernel *k = (struct kernel *)a->kernel;
    size_t n = (size_t)r->nin + (size_t)r->nout, text = strlen(a->template.s) + 1, level = strlen(cpu->isa) + 1;
    size_t size = 1 + n + level + text; /* mode, types, level, template */
    enum dtype *types = mx_malloc(n * sizeof *types);
    char *key = types ? mx_malloc(size) : NULL;
    void *symbol = NULL;
    kernel_fn *run = NULL;
    if (key) {
        for (size_t i = 0; i < n; i++) {
            types[i] = (enum dtype)(i < (size_t)r->nin ? r->x[i] : r->y[i - (size_t)r->nin])->dtype;
            key[1 + i] = (char)types[i];
        }
        key[0] = (char)a->math;
        memcpy(key + 1 + n, cpu->isa, level);
        memcpy(key + 1 + n + level, a->template.s, text);
        symbol = kernel_variant(k, key, size);
        if (!symbol || a->verbose) {
            run = compiled(k, a, types);
            memcpy(&symbol, &run, sizeof symbol);
            symbol = run ? kernel_remember(k, key, size, symbol) : NULL;
        }
        memcpy(&run, &symbol, sizeof run);
    }
    free(key);
    free(types);
    return run;
}

/* ---- running */

struct kernel_job {
    struct kernel_call call;
    kernel_fn *run;
    int64_t piece; /* between two looks at whether to go on */
    atomic_bool stop;
};

static void run_points(void *ctx, int64_t begin, int64_t end)
{
    struct kernel_job *j = ctx;
    int64_t asked = 0;
    while (begin < end && !atomic_load_explicit(&j->stop, memory_order_relaxed)) {
        int64_t next = end - begin > j->piece ? begin + j->piece : end;
        j->run(&j->call, begin, next);
        begin = next;
        if (begin < end && mx_interrupted(&asked))
            atomic_store_explicit(&j->stop, true, memory_order_relaxed);
    }
}

static int run_grid(struct kernel_job *j, const int64_t grid[6])
{
    enum { PIECE = 2048 }; /* points: smaller ones cost where bodies are short */
    int64_t points = 1, group = 1;
    for (int i = 0; i < 3; i++) {
        j->call.grid[i] = (uint32_t)grid[i];
        j->call.group[i] = (uint32_t)(grid[3 + i] < grid[i] ? grid[3 + i] : grid[i]);
        points *= grid[i];
    }
    for (int i = 0; points && i < 3; i++) group *= j->call.group[i];
    j->piece = group >= PIECE ? group : PIECE / group * group;
    pool_for(points, group, run_points, j);
    return mx_failed();
}

/* Every element becomes the value, made one of its type: copies of what is there twice as long each time. */
static int fill_with(mx y, double value)
{
    enum { MOST = 1 << 16 }; /* bytes that stay near */
    MX_SCOPE(NULL);
    mx v = array_of_double(value, (enum dtype)y->dtype);
    if (is_nil(v))
        return 1;
    size_t n = (size_t)nbytes(y), done = n ? itemsize(y) : 0;
    char *to = host(y);
    memcpy(to, host(v), done);
    while (done < n) {
        size_t more = done < MOST ? done : MOST;
        more = more < n - done ? more : n - done;
        memcpy(to + done, to, more);
        done += more;
    }
    return 0;
}

/* Where operands and results are, in memory of the runner's. */
struct kernel_places {
    const void **in;
    void **out;
    const int **shape;
    const int64_t **strides;
    int *ndim;
    mx_own *hold;
};

/* Bools as C has them, whose compilers count on 0 and 1: x, or a row-major copy in `hold` where another byte stands
 * for true. */
static mx plain_bools(mx x, mx_own *hold)
{
    union fold_acc most = { .u = 0 };
    mx rows = row_major(x, hold);
    if (is_nil(rows))
        return rows;
    cpu->reduce->row[REDUCE_MAX][DT_uint8](&most, host(rows), (size_t)rows->size);
    if (most.u <= 1)
        return x;
    if (rows == x) {
        struct buffer *b = buffer_new((size_t)x->size);
        if (!b)
            return MX_NIL;
        MX_SCOPE(NULL);
        mx_keep(hold, array_of_buffer(DT_bool_, x->ndim, x->shape, b));
        if (is_nil(hold->it))
            return MX_NIL;
    }
    cpu->cast[DT_bool_][DT_bool_](host(hold->it), host(rows), (size_t)x->size);
    return hold->it;
}

static int place_operands(const struct run *r, struct kernel_job *j, struct kernel_places *p)
{
    const struct custom_kernel_args *a = r->args;
    bool copies = ((struct kernel *)a->kernel)->row_major;
    for (int i = 0; i < r->nin; i++) {
        mx x = copies ? row_major(r->x[i], &p->hold[i]) : r->x[i];
        if (!is_nil(x) && x->dtype == DT_bool_)
            x = plain_bools(x, &p->hold[i]);
        if (is_nil(x))
            return 1;
        p->in[i] = host(x);
        p->shape[i] = x->shape;
        p->strides[i] = x->strides;
        p->ndim[i] = x->ndim;
    }
    for (int k = 0; k < r->nout; k++) {
        if (out_new(r, k) || (a->init && fill_with(r->y[k], a->init_value)))
            return 1;
        p->out[k] = host(r->y[k]);
    }
    j->call = (struct kernel_call){ p->in, p->out, p->shape, p->strides, p->ndim, { 0 }, { 0 } };
    return 0;
}

int run_cpu_kernel(const struct run *r)
{
    const struct custom_kernel_args *a = r->args;
    struct kernel_job j = { .run = function_of(r) };
    size_t n = (size_t)r->nin, pointers = n * (3 * sizeof(void *) + sizeof(mx_own)) + (size_t)r->nout * sizeof(void *);
    char *memory = j.run ? mx_malloc(pointers + n * sizeof(int)) : NULL;
    if (!memory)
        return 1;
    struct kernel_places p;
    p.in = (const void **)memory;
    p.shape = (const int **)(p.in + n);
    p.strides = (const int64_t **)(p.shape + n);
    p.hold = (mx_own *)(p.strides + n);
    p.out = (void **)(p.hold + n);
    p.ndim = (int *)(p.out + r->nout);
    memset(p.hold, 0, n * sizeof *p.hold);
    int failed = place_operands(r, &j, &p) || run_grid(&j, a->grid.v);
    for (size_t i = 0; i < n; i++) mx_drop(&p.hold[i]);
    free(memory);
    return failed;
}

/* One whose stream is of a GPU that the CPU stands for. */
int run_cuda_kernel(const struct run *r)
{
    const struct kernel *k = (struct kernel *)((const struct custom_kernel_args *)r->args)->kernel;
    mx_fail_as(MX_RUNTIME, "[%s] cannot run %s on the CPU", kernel_word(k->language), k->name);
    return 1;
}
