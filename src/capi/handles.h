/* handles.h: the books on public handles (capi/c_handles.c).
 *
 * Whatever a handle's ctx points at is entered when the handle gets it and struck off before it is
 * freed.  Only objects that a public handle owns are entered: a list inside another is not. */
#ifndef MX_CAPI_HANDLES_H
#define MX_CAPI_HANDLES_H

#include <stdatomic.h>

#include "core/tally.h"

/* The types of handles, mlx_<name>, that own something.  Vectors and maps stand in the order of their
 * enum list_kind. */
#define HANDLE_KINDS(KIND)              \
    KIND(array)                         \
    KIND(vector_array)                  \
    KIND(vector_vector_array)           \
    KIND(vector_int)                    \
    KIND(vector_string)                 \
    KIND(map_string_to_array)           \
    KIND(map_string_to_string)          \
    KIND(map_string_to_array_iterator)  \
    KIND(map_string_to_string_iterator) \
    KIND(string)                        \
    KIND(closure)                       \
    KIND(closure_kwargs)                \
    KIND(closure_value_and_grad)        \
    KIND(closure_custom)                \
    KIND(closure_custom_jvp)            \
    KIND(closure_custom_vmap)           \
    KIND(compiled)                      \
    KIND(device)                        \
    KIND(device_info)                   \
    KIND(function_exporter)             \
    KIND(imported_function)             \
    KIND(io_reader)                     \
    KIND(io_writer)                     \
    KIND(io_gguf)                       \
    KIND(node_namer)                    \
    KIND(fast_cpu_kernel)               \
    KIND(fast_cpu_kernel_config)        \
    KIND(fast_cuda_kernel)              \
    KIND(fast_cuda_kernel_config)       \
    KIND(fast_metal_kernel)             \
    KIND(fast_metal_kernel_config)

#define NUMBERED(name) HANDLE_##name,
enum handle_kind { HANDLE_KINDS(NUMBERED) HANDLE_COUNT };
#undef NUMBERED

/* Enters what a handle of the kind points at from now on, made by the public function `func`.
 * Non-zero after mx_fail, and then it is not entered. */
extern atomic_bool handles_watched;
int handle_enter(enum handle_kind kind, void *ctx, const char *func);
static inline int capi_made(enum handle_kind kind, void *ctx, const char *func)
{
    if (__builtin_expect(this_thread()->handles || atomic_load_explicit(&handles_watched, memory_order_relaxed), 0) &&
        handle_enter(kind, ctx, func))
        return 1;
    tally_add(TALLY_HANDLES + (int)kind, 1);
    return 0;
}
/* The same for an entry point that returns the pointer: gives it back.  NULL is not entered; what cannot
 * be is freed by `drop`, and NULL is given after a report. */
void *capi_made_or(enum handle_kind kind, void *ctx, const char *func, void (*drop)(void *));
/* Strikes it off.  NULL is not there. */
extern atomic_ulong handles_entered;
void handle_leave(const void *ctx);
static inline void capi_gone(enum handle_kind kind, void *ctx)
{
    if (!ctx)
        return;
    tally_add(TALLY_HANDLES + (int)kind, -1);
    if (__builtin_expect(atomic_load_explicit(&handles_entered, memory_order_relaxed) != 0, 0))
        handle_leave(ctx);
}
/* Takes it out of every scope: the library keeps it for itself. */
void capi_scope_leave(const void *ctx);

#endif
