/* c_handles.c: scopes of handles, and the report on those that are live.
 *
 * Counting is all that happens as long as nobody watches and no scope is open.  Otherwise new handles
 * have an entry in one table, found by address, and those made in a scope are on that scope's list too.
 * Invariants: an entry is there from when the handle is made until just before it is freed, so no address
 * is entered twice; `handles_entered` is the number of entries.  The lock is never held while something is freed. */
#if defined(__has_include)
#if __has_include(<execinfo.h>)
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <execinfo.h>
#define HAS_BACKTRACE
#endif
#endif
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/lock.h"
#include "core/settings.h"
#include "core/tally.h"

struct handle_scope;
struct handle_note {
    const void *ctx;
    enum handle_kind kind;
    const char *func;
    void *caller; /* where the program called func, if watched and known */
    bool watched;
    unsigned long number;
    struct handle_note *next; /* in its chain of the table */
    struct handle_scope *scope;
    struct handle_note *older, *newer; /* in the scope */
};
struct handle_scope {
    struct handle_scope *outer;
    struct handle_note *last;
};

static const char *const names[] = {
#define NAME(name) "mlx_" #name,
    HANDLE_KINDS(NAME)
};

_Static_assert(TALLY_HANDLES + HANDLE_COUNT <= TALLIES, "each kind of handle has its tally");
static long live_of(int kind) { return tally_sum(TALLY_HANDLES + kind); }
atomic_bool handles_watched;
atomic_ulong handles_entered;
LOCK(lock, LOCK_LEAF);
static struct handle_note **table; /* chains */
static size_t chains;              /* 0 or a power of two, at least `entered` */
static unsigned long numbers;

/* ---- the table; the caller holds the lock */

static struct handle_note **chain_of(const void *ctx)
{
    return &table[(size_t)(((uintptr_t)ctx >> 4) * 0x9E3779B97F4A7C15u >> 20) & (chains - 1)];
}

static int notes_make_room(void)
{
    if (handles_entered < chains)
        return 0;
    size_t n = chains ? 2 * chains : 256, before = chains;
    struct handle_note **old = table, **larger = mx_malloc(n * sizeof *larger);
    if (!larger)
        return 1;
    memset(larger, 0, n * sizeof *larger);
    table = larger;
    chains = n;
    for (size_t i = 0; i < before; i++)
        for (struct handle_note *e = old[i], *next; e; e = next) {
            struct handle_note **chain = chain_of(e->ctx);
            next = e->next;
            e->next = *chain;
            *chain = e;
        }
    free(old);
    return 0;
}

static struct handle_note *find_note(const void *ctx)
{
    struct handle_note *e = chains ? *chain_of(ctx) : NULL;
    while (e && e->ctx != ctx) e = e->next;
    return e;
}

static void put_into(struct handle_note *e, struct handle_scope *s)
{
    e->scope = s;
    e->newer = NULL;
    e->older = s ? s->last : NULL;
    if (e->older)
        e->older->newer = e;
    if (s)
        s->last = e;
}

static void take_note_out(struct handle_note *e)
{
    if (!e->scope)
        return;
    if (e->newer)
        e->newer->older = e->older;
    else
        e->scope->last = e->older;
    if (e->older)
        e->older->newer = e->newer;
    e->scope = NULL;
}

static void strike_off(const void *ctx)
{
    struct handle_note **at = chain_of(ctx);
    while ((*at)->ctx != ctx) at = &(*at)->next;
    struct handle_note *e = *at;
    take_note_out(e);
    *at = e->next;
    handles_entered--;
    free(e);
}

/* ---- handles that come and go */

/* The first place on the call stack that is not in the same file as this function; NULL where the
 * system does not tell, or the library is part of the program. */
static void *calling_place(void)
{
#ifdef HAS_BACKTRACE
    void *frames[24];
    Dl_info here, there;
    int n = backtrace(frames, 24);
    if (n < 1 || !dladdr(frames[0], &here))
        return NULL;
    for (int i = 1; i < n; i++)
        if (dladdr(frames[i], &there) && there.dli_fbase != here.dli_fbase)
            return frames[i];
#endif
    return NULL;
}

static int note_handle(enum handle_kind kind, void *ctx, const char *func, bool watched)
{
    struct handle_note *e = mx_malloc(sizeof *e);
    if (!e)
        return 1;
    *e = (struct handle_note){
        .ctx = ctx, .kind = kind, .func = func, .watched = watched, .caller = watched ? calling_place() : NULL
    };
    lock_take(&lock);
    int failed = notes_make_room();
    if (failed) {
        free(e);
    } else {
        struct handle_note **chain = chain_of(ctx);
        e->number = ++numbers;
        e->next = *chain;
        *chain = e;
        handles_entered++;
        put_into(e, this_thread()->handles);
    }
    lock_give(&lock);
    return failed;
}

int handle_enter(enum handle_kind kind, void *ctx, const char *func)
{
    return note_handle(kind, ctx, func, atomic_load_explicit(&handles_watched, memory_order_relaxed));
}

void *capi_made_or(enum handle_kind kind, void *ctx, const char *func, void (*drop)(void *))
{
    if (!ctx || !capi_made(kind, ctx, func))
        return ctx;
    drop(ctx);
    capi_report();
    return NULL;
}

void handle_leave(const void *ctx)
{
    lock_take(&lock);
    if (find_note(ctx))
        strike_off(ctx);
    lock_give(&lock);
}

/* Frees what a handle of the kind points at, as mlx_<kind>_free does. */
static void free_held(enum handle_kind kind, void *ctx)
{
    switch (kind) {
#define FREE(name) \
    case HANDLE_##name: mlx_##name##_free((mlx_##name){ .ctx = ctx }); break;
        HANDLE_KINDS(FREE)
    case HANDLE_COUNT: break;
    }
}

/* ---- two results */

static int publish_half(const char *func, struct capi_half r)
{
    switch (r.kind) {
    case HANDLE_array: return capi_publish_array(func, (mlx_array *)r.ctx, r.value);
    case HANDLE_closure: return capi_closure_end(func, (mlx_closure *)r.ctx, r.value);
    case HANDLE_string: return capi_text_end(func, (mlx_string *)r.ctx, r.value);
    case HANDLE_map_string_to_array:
    case HANDLE_map_string_to_string: return capi_map_end(func, r.ctx, r.value);
    default: return capi_list_end(func, r.ctx, r.value);
    }
}

static void drop_half(struct capi_half r)
{
    switch (r.kind) {
    case HANDLE_array: break;
    case HANDLE_closure:
        if (r.value)
            object_release(&((struct closure *)r.value)->object);
        break;
    case HANDLE_string: free(r.value); break;
    case HANDLE_map_string_to_array:
    case HANDLE_map_string_to_string: capi_map_free(r.value); break;
    default: capi_list_free(r.value);
    }
}

/* Only an empty handle can fail to take a value, and it may be emptied again: one that is not takes its value last. */
int capi_both_end(const char *func, struct capi_half res_0, struct capi_half res_1)
{
    bool places = capi_need(func, "a place for the result", "res_0", res_0.ctx) &&
                  capi_need(func, "a place for the result", "res_1", res_1.ctx);
    if (!places || mx_failed() || !res_0.value || !res_1.value) {
        drop_half(res_0);
        drop_half(res_1);
        return capi_report_call(func);
    }
    struct capi_half first = *res_0.ctx ? res_1 : res_0, last = *res_0.ctx ? res_0 : res_1;
    bool empty = !*first.ctx;
    if (publish_half(func, first)) {
        drop_half(last);
        return 1;
    }
    if (!publish_half(func, last))
        return 0;
    if (empty) {
        free_held(first.kind, *first.ctx);
        *first.ctx = NULL;
    }
    return 1;
}

/* ---- scopes */

int mlx_scope_begin(void)
{
    struct handle_scope *s = mx_malloc(sizeof *s);
    if (!s)
        return capi_report();
    *s = (struct handle_scope){ this_thread()->handles, NULL };
    this_thread()->handles = s;
    return 0;
}

int mlx_scope_end(void)
{
    struct handle_scope *s = this_thread()->handles;
    if (!s) {
        mx_fail_as(MX_RUNTIME, "[scope_end] expected a scope begun on this thread, got none");
        return capi_report();
    }
    this_thread()->handles = s->outer; /* what freeing calls back makes is not of this scope */
    for (;;) {
        lock_take(&lock);
        struct handle_note *e = s->last;
        enum handle_kind kind = e ? e->kind : HANDLE_COUNT;
        void *ctx = e ? (void *)(uintptr_t)e->ctx : NULL;
        if (e)
            take_note_out(e);
        lock_give(&lock);
        if (!e)
            break;
        free_held(kind, ctx);
    }
    free(s);
    return 0;
}

/* Moves a handle out of its scope: out of all, or of this thread's innermost into the one around it. */
static void leave(const void *ctx, bool all)
{
    lock_take(&lock);
    struct handle_note *e = find_note(ctx);
    struct handle_scope *outer = e && e->scope && !all ? e->scope->outer : NULL;
    if (e && (all || (e->scope && e->scope == this_thread()->handles))) {
        take_note_out(e);
        put_into(e, outer);
    }
    lock_give(&lock);
}

int mlx_scope_keep(const void *ctx)
{
    if (!capi_need(__func__, "what a handle points at", "ctx", ctx))
        return capi_report();
    leave(ctx, false);
    return 0;
}

void capi_scope_leave(const void *ctx) { leave(ctx, true); }

/* ---- the report */

int mlx_handles_count(size_t *res, const char *kind)
{
    long n = 0;
    bool known = !kind;
    if (!capi_out(res))
        return capi_report();
    for (int k = 0; k < HANDLE_COUNT; k++)
        if (!kind || !strcmp(kind, names[k])) {
            n += live_of(k);
            known = true;
        }
    if (!known) {
        mx_fail("[handles_count] expected the name of a type of handles, such as \"mlx_array\", got \"%s\"", kind);
        return capi_report();
    }
    *res = (size_t)n;
    return 0;
}

int mlx_handles_watch(bool on)
{
    handles_watched = on;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    unsigned long x = ((const struct handle_note *)a)->number, y = ((const struct handle_note *)b)->number;
    return (x > y) - (x < y);
}

static void print_place(FILE *out, const struct handle_note *e)
{
    fprintf(out, "%s made by %s, handle %lu", names[e->kind], e->func, e->number);
#ifdef HAS_BACKTRACE
    Dl_info there;
    if (e->caller && dladdr(e->caller, &there)) {
        fprintf(out, ", called at %s+0x%zx", there.dli_fname,
                (size_t)((const char *)e->caller - (const char *)there.dli_fbase));
        if (there.dli_sname)
            fprintf(out, " (in %s)", there.dli_sname);
    }
#endif
    fputc('\n', out);
}

/* Copies of the watched entries, in order; NULL after a failure. */
static struct handle_note *watched_entries(size_t *n)
{
    lock_take(&lock);
    struct handle_note *all = mx_malloc((handles_entered + 1) * sizeof *all);
    *n = 0;
    for (size_t i = 0; all && i < chains; i++)
        for (const struct handle_note *e = table[i]; e; e = e->next)
            if (e->watched)
                all[(*n)++] = *e;
    lock_give(&lock);
    if (all)
        qsort(all, *n, sizeof *all, by_number);
    return all;
}

static int print_report(FILE *out)
{
    size_t n, total = 0;
    struct handle_note *all = watched_entries(&n);
    if (!all)
        return 1;
    mlx_handles_count(&total, NULL);
    fprintf(out, "%zu handle%s live\n", total, total == 1 ? " is" : "s are");
    for (int k = 0; k < HANDLE_COUNT; k++)
        if (live_of(k))
            fprintf(out, "%8ld %s\n", live_of(k), names[k]);
    for (size_t i = 0; i < n; i++) print_place(out, &all[i]);
    free(all);
    return 0;
}

int mlx_handles_report(mlx_string *str)
{
    char *text = NULL;
    size_t length = 0;
    if (!capi_need(__func__, "a place for the result", "str", str))
        return capi_report();
    FILE *out = open_memstream(&text, &length);
    if (!out) {
        mx_fail_as(MX_MEMORY, "[handles_report] could not allocate memory for the text");
        return capi_report();
    }
    int failed = print_report(out);
    if (fclose(out) || failed || !text) {
        free(text);
        if (!mx_failed())
            mx_fail_memory(length);
        return capi_report();
    }
    return capi_publish_text(str, text);
}

__attribute__((constructor)) static void begin(void) { handles_watched = setting_given("MLX_HANDLES"); }

__attribute__((destructor)) static void end(void)
{
    size_t left = 0;
    if (setting_given("MLX_HANDLES") && !mlx_handles_count(&left, NULL) && left)
        print_report(stderr);
}
