/* backend.c: the CPU as a backend: queues of batches, and the table of runners. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "core/error.h"
#include "cpu/made.h"
#include "cpu/run.h"
#include "plan/result.h"
#include "run/queue.h"

/* ---- running one operation */

static run_fn *const runners[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = run_unary,
#define BINARY(name, ...) [OP_##name] = run_binary,
#define OTHER(name, ...) [OP_##name] = run_##name,
#define BODIES(...)
#include "ops/ops.def"
};

static bool cpu_supports(const struct node *n)
{
    const struct plugin *p = plugin_of(n->op);
    return p ? p->supports(p, DEVICE_CPU) : runners[n->op->id] != NULL;
}

static int cpu_run(struct stream *s, struct entry *e)
{
    const struct op *op = e->node->op;
    struct run r = run_of(s, e);
    return plugin_of(op) ? run_plugin(&r, DEVICE_CPU, out_new, out_over) : runners[op->id](&r);
}

static int cpu_run_fused(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    (void)s;
    return run_tape(n, m, wanted);
}

static bool ends_made(const struct node *n, const struct node *from)
{
    (void)from;
    return reduces_made(n);
}

static int cpu_put(struct stream *s, mx y, int64_t at, mx x)
{
    (void)s;
    char *to = (char *)host(y) + (size_t)at * itemsize(y);
    if (!x->row)
        return copy_to_row_major(to, x);
    memcpy(to, host(x), (size_t)nbytes(x));
    return 0;
}

int out_new(const struct run *r, int k) { return result_new(r->stream, r->y[k]); }

/* y is where x is, whose reference it is left. */
static void take_over(mx y, mx x)
{
    if (atomic_load_explicit(&x->buf->sides, memory_order_relaxed))
        buffer_leave_devices(x->buf);
    result_in(y, x->buf);
}

void out_take(mx y, mx x)
{
    buffer_retain(x->buf);
    take_over(y, x);
}

/* The operand whose memory y[k] may have; NULL: there is none. */
static mx operand_for(const struct run *r, int k)
{
    for (int i = 0; i < r->nin; i++)
        if (result_fits_operand(r->node, r->keep, r->y[k], r->x[i]))
            return r->x[i];
    return NULL;
}

int out_over(const struct run *r, int k, int i)
{
    if (!result_fits_operand(r->node, r->keep, r->y[k], r->x[i]))
        return out_new(r, k);
    out_take(r->y[k], r->x[i]);
    return 0;
}

int out_from_any(const struct run *r, int k)
{
    mx x = operand_for(r, k);
    if (!x)
        return out_new(r, k);
    take_over(r->y[k], x);
    x->buf = NULL;
    return 0;
}

int out_over_any(const struct run *r, int k)
{
    mx x = operand_for(r, k);
    if (!x)
        return out_new(r, k);
    out_take(r->y[k], x);
    return 0;
}

/* ---- facts */

static int cpu_count(void) { return 1; }

/* Of the processor, as it calls itself. */
static const char *processor(void)
{
    static _Thread_local char name[49];
#ifdef __x86_64__
    unsigned r[12] = { 0 };
    bool known = true;
    for (unsigned i = 0; i < 3; i++)
        known = known && __get_cpuid(0x80000002 + i, r + 4 * i, r + 4 * i + 1, r + 4 * i + 2, r + 4 * i + 3);
    memcpy(name, r, 48);
    size_t from = strspn(name, " "), n = strlen(name);
    while (n > from && name[n - 1] == ' ') name[--n] = 0;
    if (known && n > from)
        return name + from;
#endif
    return cpu->isa;
}

static void cpu_info(int device, void (*add)(void *, const char *, const char *, size_t), void *ctx)
{
    (void)device;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    add(ctx, "architecture",
#if defined(__x86_64__)
        "x86_64",
#elif defined(__aarch64__)
        "arm64",
#else
        "unknown",
#endif
        0);
    add(ctx, "device_name", processor(), 0);
    add(ctx, "instruction_set", cpu->isa, 0);
    add(ctx, "memory_size", NULL, (size_t)sysconf(_SC_PHYS_PAGES) * page);
    add(ctx, "max_recommended_working_set_size", NULL, (size_t)sysconf(_SC_PHYS_PAGES) * page / 4 * 3);
    add(ctx, "threads", NULL, (size_t)pool_threads());
}

static int cpu_submit(struct stream *s, struct batch *b) { return queue_submit(s, b, b->now); }

const struct backend cpu_backend = {
    .devices = { .name = "cpu",
                 .type = DEVICE_CPU,
                 .count = cpu_count,
                 .open = queue_open,
                 .rest = queue_rest,
                 .forked = queue_forked,
                 .synchronize = queue_synchronize,
                 .info = cpu_info },
    .submit = cpu_submit,
    .run_now = queue_run_now,
    .supports = cpu_supports,
    .run = cpu_run,
    .run_fused = cpu_run_fused,
    .ends = ends_made,
    .put = cpu_put,
};
