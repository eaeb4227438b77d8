/* compile.c: functions traced once and called again as graphs.
 *
 * A trace is found by a key: the constants, and the dtype and shape of every array, as numbers.  Keys
 * sit in a hash table and in a list by last use, from whose end they leave.  Tracing calls user code
 * and so happens outside the lock; whoever comes second with the same key uses what the first left. */
#include "transform/compile.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/buffer.h"
#include "core/lock.h"
#include "core/print.h"
#include "core/scope.h"
#include "core/settings.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "transform/body.h"
#include "transform/control.h"
#include "transform/graph.h"

/* ---- modes */

static atomic_int mode = COMPILE_ENABLED;

__attribute__((constructor)) static void mode_from_environment(void)
{
    if (setting_given("MLX_DISABLE_COMPILE"))
        mode = COMPILE_DISABLED;
}

void compile_set_mode(enum compile_mode m) { atomic_store(&mode, m); }
enum compile_mode compile_mode(void) { return (enum compile_mode)atomic_load(&mode); }

/* ---- what is kept */

struct attached {
    struct attached *older;
    void *payload;
    void (*drop)(void *);
};

struct compiled_trace {
    struct object object;
    struct graph *g;
    int64_t number;
    bool small;                /* called as one operation where nobody follows what it does (transform/compiled.c) */
    atomic_bool settled;       /* and its constants have values */
    struct attached *attached; /* the last one; who has an older one may still be at work with it */
};

struct key {
    uint64_t hash;
    int n;
    const int64_t *v;
};

struct slot {
    struct key key; /* v is behind the slot */
    struct compiled_trace *trace;
    struct slot *next;          /* of the same bucket */
    struct slot *newer, *older; /* by last use */
};

enum { BUCKETS = 256, REMEMBERED = 64 };

LOCK(tables, LOCK_LEAF); /* of all compiled functions: held for looking up and filing alone */

struct compiled {
    atomic_int refs;
    bool shapeless;
    char *name;
    struct slot *bucket[BUCKETS];
    struct slot *newest, *oldest;
    int n, limit;
    int64_t traces;
    char *said[REMEMBERED]; /* by number of the trace, the last ones */
    char **names;           /* of the arguments, for the trace in hand */
    int n_names;
    char *why;
};

static void trace_destroy(struct object *o)
{
    struct compiled_trace *t = (struct compiled_trace *)o;
    for (struct attached *a = t->attached, *older; a; a = older) {
        older = a->older;
        mx_let_go(a->drop, a->payload);
        free(a);
    }
    object_release(&t->g->object);
    free(t);
}

struct compiled *compiled_new(const char *name, bool shapeless)
{
    struct compiled *c = mx_malloc(sizeof *c);
    if (!c)
        return NULL;
    int limit = (int)setting_number("MLX_COMPILE_CACHE", 1, INT_MAX, 64);
    *c = (struct compiled){ .refs = 1, .shapeless = shapeless, .limit = limit };
    if (!(c->name = mx_strdup(name ? name : "a function"))) {
        compiled_release(c);
        return NULL;
    }
    return c;
}

void compiled_retain(struct compiled *c) { atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed); }

static void forget_names(struct compiled *c)
{
    for (int i = 0; i < c->n_names; i++) free(c->names[i]);
    free(c->names);
    free(c->why);
    c->names = NULL;
    c->why = NULL;
    c->n_names = 0;
}

void compiled_release(struct compiled *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    compiled_clear(c);
    forget_names(c);
    for (int i = 0; i < REMEMBERED; i++) free(c->said[i]);
    free(c->name);
    free(c);
}

/* ---- the table; under the lock */

static void unlist(struct compiled *c, struct slot *s)
{
    *(s->newer ? &s->newer->older : &c->newest) = s->older;
    *(s->older ? &s->older->newer : &c->oldest) = s->newer;
}

static void list_first(struct compiled *c, struct slot *s)
{
    s->newer = NULL;
    s->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = s;
    c->newest = s;
}

static struct slot **bucket_of(struct compiled *c, const struct key *k) { return &c->bucket[k->hash % BUCKETS]; }

/* Takes the slot out of the table; it is the caller's to free. */
static void unlink_slot(struct compiled *c, struct slot *s)
{
    struct slot **p = bucket_of(c, &s->key);
    while (*p != s) p = &(*p)->next;
    *p = s->next;
    unlist(c, s);
    c->n--;
}

static struct slot *find_slot(struct compiled *c, const struct key *k)
{
    for (struct slot *s = *bucket_of(c, k); s; s = s->next)
        if (s->key.hash == k->hash && s->key.n == k->n && !memcmp(s->key.v, k->v, (size_t)k->n * sizeof *k->v))
            return s;
    return NULL;
}

/* What goes is returned, to be let go of outside the lock: traces own arrays and things of the caller's. */
static struct slot *evict(struct compiled *c, int limit)
{
    struct slot *gone = NULL;
    while (c->n > limit) {
        struct slot *s = c->oldest;
        unlink_slot(c, s);
        s->next = gone;
        gone = s;
    }
    return gone;
}

static void free_slots(struct slot *s)
{
    for (struct slot *next; s; s = next) {
        next = s->next;
        object_release(&s->trace->object);
        free(s);
    }
}

void compiled_clear(struct compiled *c)
{
    lock_take(&tables);
    struct slot *gone = evict(c, 0);
    lock_give(&tables);
    free_slots(gone);
}

void compiled_set_limit(struct compiled *c, int limit)
{
    lock_take(&tables);
    c->limit = limit < 1 ? 1 : limit;
    struct slot *gone = evict(c, c->limit);
    lock_give(&tables);
    free_slots(gone);
}

int compiled_limit(struct compiled *c)
{
    lock_take(&tables);
    int limit = c->limit;
    lock_give(&tables);
    return limit;
}

int64_t compiled_traces(struct compiled *c)
{
    lock_take(&tables);
    int64_t n = c->traces;
    lock_give(&tables);
    return n;
}

/* Files t under the key; without memory it is simply not kept. */
static void file_under(struct compiled *c, const struct key *k, struct compiled_trace *t)
{
    struct slot *s = malloc(sizeof *s + (size_t)k->n * sizeof *k->v);
    if (!s)
        return;
    int64_t *v = (int64_t *)(s + 1);
    memcpy(v, k->v, (size_t)k->n * sizeof *v);
    *s = (struct slot){ .key = { k->hash, k->n, v }, .trace = t };
    object_retain(&t->object);
    lock_take(&tables);
    struct slot *old = find_slot(c, k), *gone;
    if (old) {
        unlink_slot(c, old);
        old->next = NULL;
    }
    s->next = *bucket_of(c, k);
    *bucket_of(c, k) = s;
    list_first(c, s);
    c->n++;
    gone = evict(c, c->limit);
    lock_give(&tables);
    free_slots(old);
    free_slots(gone);
}

/* ---- keys */

/* [how many constants, the stream that operations go to, the caller's; for each array: dtype and rank, sizes] */
static int key_make(struct key *k, int64_t **space, int room, int n_constants, const uint64_t constants[], int n,
                    const mx x[])
{
    int need = 2 + n_constants + n;
    for (int i = 0; i < n; i++) need += x[i]->ndim;
    if (need > room && !(*space = mx_malloc((size_t)need * sizeof **space)))
        return 1;
    int64_t *v = *space;
    int at = 0;
    v[at++] = n_constants + 1;
    v[at++] = (int64_t)(intptr_t)scope_stream();
    for (int i = 0; i < n_constants; i++) v[at++] = (int64_t)constants[i];
    for (int i = 0; i < n; i++) {
        v[at++] = x[i]->dtype * (MX_MAX_NDIM + 1) + x[i]->ndim;
        for (int d = 0; d < x[i]->ndim; d++) v[at++] = x[i]->shape[d];
    }
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < at; i++) {
        h = (h ^ (uint64_t)v[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    *k = (struct key){ h, at, v };
    return 0;
}

/* ---- what is said about traces */

struct say {
    char *s;
    size_t n, cap;
};

__attribute__((format(printf, 2, 3))) static void say(struct say *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->s ? t->s + t->n : NULL, t->cap - t->n, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    if (t->n + (size_t)n >= t->cap) {
        size_t cap = 2 * (t->n + (size_t)n) + 64;
        char *s = realloc(t->s, cap);
        if (!s)
            return;
        t->s = s;
        t->cap = cap;
        va_start(args, fmt);
        vsnprintf(t->s + t->n, t->cap - t->n, fmt, args);
        va_end(args);
    }
    t->n += (size_t)n;
}

static void say_shape(struct say *t, int ndim, const int64_t *shape)
{
    say(t, "(");
    for (int d = 0; d < ndim; d++) say(t, d ? ", %lld" : "%lld", (long long)shape[d]);
    say(t, ndim == 1 ? ",)" : ")");
}

static void say_name(struct say *t, const struct compiled *c, int i)
{
    if (i < c->n_names)
        say(t, "%s", c->names[i]);
    else
        say(t, "argument %d", i);
}

static void say_array(struct say *t, const int64_t *v)
{
    say(t, "%s ", dtype_name((enum dtype)(v[0] / (MX_MAX_NDIM + 1))));
    say_shape(t, (int)(v[0] % (MX_MAX_NDIM + 1)), v + 1);
}

static int arrays_in_key(const struct key *k)
{
    int n = 0;
    for (int at = 1 + (int)k->v[0]; at < k->n; at += 1 + (int)(k->v[at] % (MX_MAX_NDIM + 1))) n++;
    return n;
}

/* What differs between two keys; at most a few arguments are named. */
static void say_difference(struct say *t, const struct compiled *c, const struct key *old, const struct key *new)
{
    int named = 0;
    if (old->v[1] != new->v[1]) {
        say(t, "operations go to another stream");
        named++;
    } else if (c->why) { /* arrays may have moved: there is nothing to compare them by */
        say(t, "%s", c->why);
        if (arrays_in_key(old) != arrays_in_key(new))
            return;
        named++;
    } else if (old->v[0] != new->v[0] || memcmp(old->v + 1, new->v + 1, (size_t)old->v[0] * sizeof *old->v)) {
        say(t, "a constant or the structure of the arguments changed");
        named++;
    }
    int a = 1 + (int)old->v[0], b = 1 + (int)new->v[0];
    for (int i = 0; a < old->n && b < new->n; i++) {
        int na = 1 + (int)(old->v[a] % (MX_MAX_NDIM + 1)), nb = 1 + (int)(new->v[b] % (MX_MAX_NDIM + 1));
        if ((na != nb || memcmp(old->v + a, new->v + b, (size_t)na * sizeof *old->v)) && named++ < 4) {
            say(t, named > 1 ? "; " : "");
            say_name(t, c, i);
            say(t, ": ");
            say_array(t, old->v + a);
            say(t, " -> ");
            say_array(t, new->v + b);
        }
        a += na;
        b += nb;
    }
    if ((a < old->n) != (b < new->n))
        say(t, "%sthe number of arrays changed", named++ ? "; " : "");
    if (!named)
        say(t, "its trace was let go of (%d are kept)", c->limit);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* Notes a new trace: why, and what came of it. */
static void tell_recompiling(struct compiled *c, const struct key *k, const struct compiled_trace *t, int gone,
                             double ms)
{
    struct say s = { 0 };
    int kernels = -1, fused = 0;
    if (recording_kernels(&t->g->r, &kernels, &fused)) { /* a line without numbers, then */
        mx_error_clear();
        kernels = -1;
    }
    lock_take(&tables);
    say(&s, "%s, trace %lld: ", c->name, (long long)t->number);
    if (c->newest)
        say_difference(&s, c, &c->newest->key, k);
    else
        say(&s, "first call");
    if (c->newest && c->shapeless && c->newest->trace->g->fixed)
        say(&s, " (shapes matter to %s)", c->newest->trace->g->fixed);
    else if (c->newest && c->shapeless && c->newest->trace->g->n_read)
        say(&s, " (the function looks at a shape)");
    say(&s, "; %d operation%s", t->g->r.n, plural(t->g->r.n));
    if (gone)
        say(&s, " (%d merged or dropped)", gone);
    if (kernels >= 0)
        say(&s, " in %d kernel%s", kernels, plural(kernels));
    if (fused)
        say(&s, " (%d fused)", fused);
    char time[32];
    number_text(time, sizeof time, 2, ms);
    say(&s, ", traced in %s ms", time);
    forget_names(c);
    lock_give(&tables);
    if (s.s && is_logged(LOG_COMPILE))
        fprintf(stderr, "[compile] %s\n", s.s);
    lock_take(&tables);
    free(c->said[t->number % REMEMBERED]);
    c->said[t->number % REMEMBERED] = s.s;
    lock_give(&tables);
}

/* A trace may be under several keys: is this the first that has it? */
static bool is_first(const struct compiled *c, const struct slot *s)
{
    const struct slot *t = c->newest;
    while (t->trace != s->trace) t = t->older;
    return t == s;
}

/* How many traces there are under all the keys. */
static int count_traces(const struct compiled *c)
{
    int n = 0;
    for (const struct slot *s = c->newest; s; s = s->older) n += is_first(c, s);
    return n;
}

char *compiled_text(struct compiled *c)
{
    struct say s = { 0 };
    lock_take(&tables);
    int64_t first = c->traces > REMEMBERED ? c->traces - REMEMBERED : 0;
    say(&s, "%s: %lld trace%s, %d kept (at most %d)", c->name, (long long)c->traces, plural(c->traces), count_traces(c),
        c->limit);
    for (int64_t i = first; i < c->traces; i++)
        if (c->said[i % REMEMBERED])
            say(&s, "\n%s", c->said[i % REMEMBERED]);
    lock_give(&tables);
    if (!s.s)
        mx_fail_memory(64);
    return s.s;
}

int compiled_describe(struct compiled *c, int n, const char *const names[], const char *why)
{
    lock_take(&tables);
    forget_names(c);
    c->names = mx_malloc(((size_t)n + 1) * sizeof *c->names);
    for (c->n_names = 0; c->names && c->n_names < n; c->n_names++)
        if (!(c->names[c->n_names] = mx_strdup(names[c->n_names])))
            break;
    bool bad = !c->names || c->n_names < n || (why && !(c->why = mx_strdup(why)));
    if (bad)
        forget_names(c);
    lock_give(&tables);
    return bad;
}

/* ---- things attached */

static struct compiled_trace *trace_numbered(struct compiled *c, int64_t number)
{
    for (struct slot *s = c->newest; s; s = s->older)
        if (s->trace->number == number)
            return s->trace;
    return NULL;
}

void compiled_attach(struct compiled *c, int64_t number, void *payload, void (*drop)(void *))
{
    struct attached *a = malloc(sizeof *a); /* without memory it is simply not kept */
    lock_take(&tables);
    struct compiled_trace *t = a ? trace_numbered(c, number) : NULL;
    if (t) {
        *a = (struct attached){ t->attached, payload, drop };
        t->attached = a;
    }
    lock_give(&tables);
    if (t)
        return;
    free(a);
    mx_let_go(drop, payload);
}

void *compiled_payload(struct compiled *c, int64_t number)
{
    lock_take(&tables);
    struct compiled_trace *t = trace_numbered(c, number);
    void *payload = t && t->attached ? t->attached->payload : NULL;
    lock_give(&tables);
    return payload;
}

int compiled_visit(struct compiled *c, int (*visit)(void *payload, void *arg), void *arg)
{
    int status = 0;
    lock_take(&tables);
    for (const struct slot *s = c->newest; s && !status; s = s->older)
        for (const struct attached *a = is_first(c, s) ? s->trace->attached : NULL; a && !status; a = a->older)
            status = visit(a->payload, arg);
    lock_give(&tables);
    return status;
}

/* ---- calling */

/* Is a value made by the graph, of all of its inputs?  `needed`: room for a mark by value. */
static bool needs_all(const struct graph *g, int value, bool *needed)
{
    bool all = false;
    memset(needed, 0, (size_t)g->r.n_values * sizeof *needed);
    needed[value] = true;
    for (int i = g->r.n; i-- > 0;) {
        const struct node *n = g->r.entries[i].node;
        bool used = false;
        for (int k = 0; k < n->nout; k++) {
            used |= needed[graph_makes(g, i)[k]];
            all |= graph_makes(g, i)[k] == value;
        }
        for (int k = 0; k < n->nin && used; k++) needed[graph_reads(g, i)[k]] = true;
    }
    for (int i = 0; i < g->n_in; i++) all &= needed[i];
    return all;
}

/* Is one node for all of it worth it, and does whoever asks for one of its results need all of its operands? */
static bool is_small(const struct graph *g)
{
    enum { WORTH_IT = 3, MOST = 16 }; /* operations: measured; results: each is looked at */
    bool small = !g->open && !g->any_shape && !g->copied && g->r.n >= WORTH_IT && g->n_out && g->n_out <= MOST &&
                 recording_is_small(&g->r);
    bool *needed = small ? malloc((size_t)g->r.n_values * sizeof *needed) : NULL;
    small = needed != NULL;
    for (int k = 0; k < g->n_out && small; k++) small = needs_all(g, g->r.roots[k], needed);
    free(needed);
    return small;
}

/* Numbers of another shape or type are constants as well, which the first evaluation of a call makes. */
static bool has_constants(struct compiled_trace *t)
{
    const struct graph *g = t->g;
    bool all = atomic_load_explicit(&t->settled, memory_order_acquire);
    if (all)
        return true;
    bool *made = mx_zeroed(g->r.n_values, sizeof *made);
    for (int i = 0; i < g->r.n && made; i++)
        for (int m = 0; m < g->r.entries[i].node->nout; m++) made[graph_makes(g, i)[m]] = true;
    all = made != NULL;
    for (int i = g->n_in; i < g->r.n_values && all; i++)
        all = made[i] || !g->r.values[i].it ||
              atomic_load_explicit(&g->r.values[i].it->status, memory_order_acquire) == READY;
    free(made);
    atomic_store_explicit(&t->settled, all, memory_order_release);
    return all;
}

/* The results by one node. */
static int call_small(const struct compiled_trace *t, int n, const mx x[], struct mx_list *y)
{
    struct graph *g = t->g;
    struct stream *s = g->r.entries[0].node->stream;
    struct compiled_args args = { &g->object };
    mx *made = mx_zeroed(g->n_out, sizeof *made);
    struct spec *specs = made && g->n_out > 1 ? mx_zeroed(g->n_out, sizeof *specs) : NULL;
    if (!made || (g->n_out > 1 && !specs)) {
        free(made);
        return 1;
    }
    MX_SCOPE(s);
    mx like = g->r.values[g->r.roots[0]].it;
    for (int k = 0; k < g->n_out && specs; k++) spec_like(&specs[k], g->r.values[g->r.roots[k]].it);
    if (specs)
        mx_nodes(&op_compiled, &args, n, x, g->n_out, specs, made);
    else
        made[0] = mx_node(&op_compiled, &args, n, x, like->ndim, like->shape, like->dtype);
    int failed = mx_failed();
    for (int k = 0; k < g->n_out && !failed; k++) failed = list_push(y, made[k]);
    free(specs);
    free(made);
    return failed;
}

/* What is made of arrays of a trace may be followed back to them, for which its operations have to be there. */
static int call_trace(struct compiled_trace *t, int n, const mx x[], struct mx_list *y)
{
    bool followed = !t->small || compile_mode() != COMPILE_ENABLED || tracing() ||
                    (t->g->n_out > 1 && results_are_checked()); /* those that are asked for, alone */
    for (int i = 0; i < n && !followed; i++) followed = atomic_load_explicit(&x[i]->tracer, memory_order_relaxed) != 0;
    return followed || !has_constants(t) ? graph_call(t->g, n, x, y) : call_small(t, n, x, y);
}

/* A new trace; NULL after mx_fail. */
static struct compiled_trace *trace_new(struct compiled *c, struct closure *f, const struct key *k, int n, const mx x[])
{
    double start = now_ms();
    struct graph *g = c->shapeless ? graph_trace_shapeless(f, n, x, c->name) : graph_trace(f, n, x, c->name);
    if (!g)
        return NULL;
    int gone = compile_mode() == COMPILE_NO_SIMPLIFY ? 0 : graph_simplify(g);
    struct compiled_trace *t = graph_hand_out(g) ? NULL : mx_malloc(sizeof *t);
    if (!t) {
        object_release(&g->object);
        return NULL;
    }
    *t = (struct compiled_trace){ .object = { .refs = 1, .destroy = trace_destroy }, .g = g, .small = is_small(g) };
    lock_take(&tables);
    t->number = c->traces++;
    lock_give(&tables);
    tell_recompiling(c, k, t, gone, now_ms() - start);
    if (!g->open)
        file_under(c, k, t);
    return t;
}

static struct compiled_trace *kept_trace(struct compiled *c, const struct key *k)
{
    lock_take(&tables);
    struct slot *s = find_slot(c, k);
    struct compiled_trace *t = s ? s->trace : NULL;
    if (s && c->newest != s) {
        unlist(c, s);
        list_first(c, s);
    }
    if (t)
        object_retain(&t->object);
    lock_give(&tables);
    return t;
}

/* The traces that other shapes than k's left under the same constants, each once, the last used first. */
static struct compiled_trace **candidates(struct compiled *c, const struct key *k, int *count)
{
    *count = 0;
    lock_take(&tables);
    struct compiled_trace **all = malloc(((size_t)c->n + 1) * sizeof(struct compiled_trace *));
    for (struct slot *s = c->newest; s && all; s = s->older) {
        bool seen = s->key.v[0] != k->v[0] || memcmp(s->key.v + 1, k->v + 1, (size_t)k->v[0] * sizeof *k->v);
        for (int i = 0; i < *count && !seen; i++) seen = all[i] == s->trace;
        if (seen)
            continue;
        object_retain(&s->trace->object);
        all[(*count)++] = s->trace;
    }
    lock_give(&tables);
    return all;
}

/* A trace made for other shapes that suits these, its results pushed; NULL: none, or *failed.  One in
 * which an operation fails on these shapes (a number was computed from the traced ones) makes the call
 * fail, unless another one suits. */
static struct compiled_trace *fitting(struct compiled *c, const struct key *k, int n, const mx x[], struct mx_list *y,
                                      int *failed)
{
    int count;
    struct compiled_trace **all = candidates(c, k, &count), *found = NULL;
    enum mx_error kind = MX_OK;
    char *message = NULL;
    for (int i = 0; i < count; i++) {
        bool fits = false;
        if (!found && graph_call_fitting(all[i]->g, n, x, y, &fits)) {
            if (kind == MX_OK) {
                kind = mx_error_kind();
                message = mx_error_message() ? strdup(mx_error_message()) : NULL;
            }
            mx_error_clear();
            fits = false;
        }
        if (fits) {
            found = all[i];
            file_under(c, k, found);
        } else {
            object_release(&all[i]->object);
        }
    }
    free(all);
    if (!found && kind != MX_OK) {
        mx_fail_as(kind,
                   "%s (in %s, compiled for any shape: the sizes are those of another call; flatten, "
                   "unflatten and -1 follow the shape)",
                   message ? message : "out of memory", c->name);
        *failed = 1;
    }
    free(message);
    return found;
}

int compiled_call(struct compiled *c, struct closure *f, int n_constants, const uint64_t constants[], int n,
                  const mx x[], struct mx_list *y, int64_t *number)
{
    enum { ROOM = 128 };
    *number = -1;
    if (compile_mode() == COMPILE_DISABLED)
        return f->call(f, n, x, y);
    if (shapeless()) /* the graph for one shape is of no use in one for any */
        return f->call(f, n, x, y);
    int64_t few[ROOM], *space = few;
    struct key k;
    if (key_make(&k, &space, ROOM, n_constants, constants, n, x))
        return 1;
    struct compiled_trace *t = kept_trace(c, &k);
    int failed = 0;
    if (t) {
        failed = call_trace(t, n, x, y);
    } else {
        if (c->shapeless)
            t = fitting(c, &k, n, x, y, &failed);
        if (!t && !failed) {
            t = trace_new(c, f, &k, n, x);
            failed = !t || call_trace(t, n, x, y);
        }
    }
    if (t) {
        *number = t->g->open ? -1 : t->number;
        object_release(&t->object);
    }
    if (space != few)
        free(space);
    return failed;
}
