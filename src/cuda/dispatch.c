/* dispatch.c: which operation runs how on a GPU. */
#include "cuda/gpu.h"
#include "ops/plugin.h"

bool gpu_takes_all(const struct node *n) { return (void)n, true; }

run_fn *gpu_runner(const struct node *n)
{
    static const struct {
        run_fn *run;
        gpu_takes_fn *takes;
    } runners[OP_COUNT] = {
#define RUNNER(op, run, takes) [OP_##op] = { run, takes },
#include "cuda/runners.def"
    };
    const struct plugin *p = plugin_of(n->op);
    if (p)
        return gpu_takes_plugin(p) ? gpu_run_plugin : NULL;
    bool fits = n->op->id < OP_COUNT && runners[n->op->id].run && runners[n->op->id].takes(n);
    return fits ? runners[n->op->id].run : NULL;
}
