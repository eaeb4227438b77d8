/* backends.c: the backends of this build, and the CPU in place of another. */
#include "run/backends.h"

#include <stdatomic.h>
#include <stdio.h>

#include "core/error.h"
#include "core/settings.h"
#include "ops/op.h"

/* The backends of this build. */
__attribute__((constructor)) static void add_backends(void)
{
    devices_register(&cpu_backend.devices);
#ifdef MLX_CUDA
    devices_register(&cuda_backend.devices);
#endif
}

static bool fallback_is_error(void)
{
    static const char *const words[] = { "error", NULL };
    static atomic_int kept;
    return setting_word_kept(&kept, "MLX_FALLBACK", words, -1) == 0;
}

struct stream *stream_instead(struct stream *s, const struct node *n)
{
    static atomic_bool told[OP_COUNT];
    struct plugin *p = plugin_learnt(n->op);
    struct stream *cpu = default_stream((struct device){ DEVICE_CPU, 0 });
    if (s->on == cpu->on || fallback_is_error() || !backend_of(cpu)->supports(n)) {
        mx_fail_as(MX_RUNTIME, "[%s] has no kernel for %s", n->op->name, device_text(s->device));
        return NULL;
    }
    if (is_logged(LOG_FALLBACK) && !atomic_exchange(p ? &p->told : &told[n->op->id], true))
        fprintf(stderr, "mlx: %s has no kernel on %s and runs on the CPU\n", n->op->name, device_text(s->device));
    return cpu;
}

struct plugin *first_trial(struct stream *s, const struct node *n)
{
    struct plugin *p = s->on->alloc ? plugin_learnt(n->op) : NULL;
    bool may = p && atomic_load_explicit(&p->on_gpu, memory_order_relaxed) == UNTRIED && !fallback_is_error();
    return may && p->supports(p, DEVICE_CPU) ? p : NULL;
}
