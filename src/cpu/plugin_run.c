/* plugin_run.c: operations registered at run time, on the CPU. */
#include "cpu/run.h"

struct cpu_run {
    struct plugin_run plugin;
    const struct run *r;
};

static int fresh(const struct plugin_run *p, int k) { return out_new(((const struct cpu_run *)p)->r, k); }

static int over(const struct plugin_run *p, int k, int i) { return out_over(((const struct cpu_run *)p)->r, k, i); }

int run_plugin(const struct run *r, struct stream *s, enum device_type on)
{
    const struct plugin *p = plugin_of(r->node->op);
    struct cpu_run c = { { .on = on,
                           .stream = s,
                           .args = r->args,
                           .nin = r->nin,
                           .nout = r->nout,
                           .x = r->x,
                           .y = r->y,
                           .fresh = fresh,
                           .over = over },
                         r };
    return p->run(p, &c.plugin);
}
