/* plugin.c: the list of operations registered at run time. */
#include "ops/plugin.h"
#include "core/lock.h"

#include <string.h>

LOCK(lock, LOCK_LEAF);
static _Atomic(struct plugin *) first; /* links are written before it, and never again */

const struct plugin *plugin_named(const char *name, size_t length)
{
    for (const struct plugin *p = atomic_load(&first); p; p = p->next)
        if (strlen(p->op.name) == length && !memcmp(p->op.name, name, length))
            return p;
    return NULL;
}

const struct plugin *plugin_add(struct plugin *p)
{
    lock_take(&lock);
    const struct plugin *there = plugin_named(p->op.name, strlen(p->op.name));
    if (!there) {
        p->next = atomic_load(&first);
        atomic_store(&first, p);
    }
    lock_give(&lock);
    return there ? there : p;
}
