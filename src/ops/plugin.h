/* plugin.h: operations registered at run time, as the rest of the system sees them.
 *
 * The nodes of a plugin have its `op`, whose id is OP_PLUGIN and whose arguments are a struct
 * plugin_args.  What a plugin is made of is told by who adds it (capi/c_primitive.c). */
#ifndef MX_OPS_PLUGIN_H
#define MX_OPS_PLUGIN_H

#include <stdatomic.h>

#include "core/stream.h"
#include "ops/op.h"

struct plugin_args {
    struct object *state;
};

struct run; /* run/backend.h */

/* An evaluation: operands that have data where the device reads it, results that have none yet. */
struct plugin_run {
    enum device_type on;
    struct stream *stream;
    const struct plugin_args *args;
    int nin, nout;
    const mx *x, *y;
    /* The backend's: row-major memory for y[k]; the same over operand i, if it is not needed any more. */
    const struct run *of;
    int (*fresh)(const struct run *of, int k);
    int (*over)(const struct run *of, int k, int i);
};

/* What is known of a plugin's rule for a GPU: its kernels may be texts that nobody there can compile. */
enum plugin_on_gpu { UNTRIED, COMPILES, NEEDS_COMPILER };

struct plugin {
    struct op op;
    bool infers; /* op.shapes works */
    bool (*supports)(const struct plugin *p, enum device_type on);
    int (*run)(const struct plugin *p, const struct plugin_run *r); /* non-zero after mx_fail */
    /* A state as bytes for a file, mx_malloc'ed, and back; NULL after mx_fail. */
    char *(*encode)(const struct plugin *p, struct object *state, uint64_t *length);
    struct object *(*decode)(const struct plugin *p, const char *bytes, uint64_t length);
    struct plugin *next;
    _Atomic(enum plugin_on_gpu) on_gpu; /* whoever runs it keeps this */
    atomic_bool told;                   /* that it runs on the CPU */
};

static inline const struct plugin *plugin_of(const struct op *op)
{
    return op->id == OP_PLUGIN ? (const struct plugin *)op : NULL;
}
/* For what is learnt of it. */
static inline struct plugin *plugin_learnt(const struct op *op) { return (struct plugin *)(uintptr_t)plugin_of(op); }

/* Plugins stay until the process ends.  The name is not terminated; NULL: there is none. */
const struct plugin *plugin_named(const char *name, size_t length);
/* Adds p, unless there is one of its name, which is given back then. */
const struct plugin *plugin_add(struct plugin *p);

#endif
