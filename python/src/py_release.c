/* py_release.c: Python objects that the library holds, let go of safely.
 *
 * The library drops its last reference to a closure or to foreign memory on whatever thread that
 * happens, perhaps with a lock of its own, and a thread that waited for the GIL there could wait
 * for ever.  So what is dropped goes to a list, which any later call empties that has the GIL
 * anyway; Python is asked to make such a call soon. */
#include "py.h"

#include <stdatomic.h>

static struct released *_Atomic list;

static int empty_list(void *unused)
{
    (void)unused;
    struct released *all = atomic_exchange(&list, NULL);
    if (!all)
        return 0;
    PyObject *error = error_take();
    while (all) {
        struct released *next = all->next;
        all->end(all);
        all = next;
    }
    error_put(error);
    return 0;
}

void release_soon(struct released *r)
{
    r->next = atomic_load(&list);
    while (!atomic_compare_exchange_weak(&list, &r->next, r))
        ;
    if (!r->next && Py_IsInitialized())
        Py_AddPendingCall(empty_list, NULL);
}

void release_now(void)
{
    if (atomic_load_explicit(&list, memory_order_relaxed))
        empty_list(NULL);
}
