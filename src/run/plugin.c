/* plugin.c: operations registered at run time, on whatever device. */
#include "ops/plugin.h"

#include "run/backend.h"

int run_plugin(const struct run *r, enum device_type on, int (*fresh)(const struct run *r, int k),
               int (*over)(const struct run *r, int k, int i))
{
    const struct plugin *p = plugin_of(r->node->op);
    struct plugin_run c = { .on = on,
                            .stream = r->stream,
                            .args = r->args,
                            .nin = r->nin,
                            .nout = r->nout,
                            .x = r->x,
                            .y = r->y,
                            .of = r,
                            .fresh = fresh,
                            .over = over };
    return p->run(p, &c);
}
