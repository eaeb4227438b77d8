/* eval.c: from a lazy graph to data.
 *
 * One small operation on what the host has is made at once, under the graph lock (make_at_once).  Any other graph is
 * turned, under that lock, into a tape: a list of batches, one for each stretch on one stream, of entries, one for each
 * node, operands before users.  An array that enters a tape leaves its node to the entry: no other walk can reach the
 * operands through it any more, so a count of one on an operand means that nobody but this entry will ever look at it,
 * and its buffer may be reused in place.
 *
 * When an entry fails its outputs get their nodes back and are LAZY again, as is everything after
 * it that needed them; nothing is lost, and a later eval may succeed.  Only an operand that a program's
 * rule took over before it failed is (mx_lose). */
#include "run/eval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/lock.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/op.h"
#include "ops/plugin.h"
#include "run/backends.h"
#include "run/check.h"
#include "run/control.h"
#include "run/evaluation.h"
#include "run/fuse.h"
#include "run/order.h"
#include "run/queue.h"
#include "run/stop.h"
#include "transform/compile.h"
#include "transform/walk.h"

/* ---- building the tape */

struct frame {
    mx x;
    int next;
};

struct tape {
    struct batch *first, *last;
    int n_batches, n_entries;
    struct frame *stack, *few; /* where the stack is at first */
    int depth, stack_cap;
    uint32_t epoch;
    struct stream *stream; /* of `last` */
    bool now;
    bool failed;
};

static bool push_frame(struct tape *t, mx x)
{
    struct frame *s = mx_grown_from(t->few, t->stack, t->depth, &t->stack_cap, sizeof *s);
    if (!s)
        return false;
    t->stack = s;
    s[t->depth++] = (struct frame){ x, 0 };
    return true;
}

static const size_t batch_bytes = sizeof(struct batch) + BATCH_FEW * sizeof(struct entry);

static struct batch *batch_for(struct tape *t, struct stream *s)
{
    if (t->last && t->stream == s)
        return t->last;
    struct batch *b = mx_slab(batch_bytes);
    if (!b)
        return NULL;
    *b = (struct batch){ .stream = s, .first = t->n_entries, .now = t->now, .done = event_new(s), .cap = BATCH_FEW };
    b->entries = b->few;
    if (!b->done) {
        slab_free(b, batch_bytes);
        return NULL;
    }
    if (t->last)
        t->last->next = b;
    else
        t->first = b;
    t->last = b;
    t->stream = s;
    t->n_batches++;
    return b;
}

static bool batch_waits(struct batch *b, struct event *e)
{
    if (e == b->done || atomic_load_explicit(&e->done, memory_order_acquire))
        return true;
    for (int i = b->nwait; i-- > 0;)
        if (b->wait[i] == e)
            return true;
    struct event **w = mx_grown(b->wait, b->nwait, &b->wait_cap, sizeof *w);
    if (!w)
        return false;
    b->wait = w;
    event_retain(e);
    w[b->nwait++] = e;
    return true;
}

static void set_event(mx x, struct event *e)
{
    if (e)
        event_retain(e);
    if (x->event)
        event_release(x->event);
    x->event = e;
}

/* No trace will follow y back.  Its reference to the node passes to the caller. */
static struct node *leave_node(mx y)
{
    struct node *n = y->node;
    if (n->nout > 1)
        node_forget_output(n, y);
    y->node = NULL;
    atomic_store_explicit(&y->tracer, 0, memory_order_relaxed);
    return n;
}

/* Until the graph lock is given back nobody else knows of the event. */
static struct event *event_shared(struct event *e)
{
    int refs = atomic_load_explicit(&e->refs, memory_order_relaxed);
    atomic_store_explicit(&e->refs, refs + 1, memory_order_relaxed);
    return e;
}

static void schedule(mx y, struct batch *b, uint32_t epoch)
{
    if (y->event)
        event_release(y->event);
    y->event = event_shared(b->done);
    y->mark = epoch;
    y->slot = b->first + b->n;
    atomic_store_explicit(&y->status, SCHEDULED, memory_order_relaxed);
}

/* Output k, as an owned reference, for a run of n.  A node that a trace has kept may run a second time, for outputs
 * that nobody held the first time; what is made already, or on its way, stays as it is, and a new array that nobody
 * else knows takes what this run makes of it. */
static mx output_to_make(struct node *n, int k)
{
    mx y = node_output(n, k);
    if (is_nil(y) || y->status == LAZY)
        return y;
    mx_release(y);
    MX_SCOPE(NULL);
    y = array_new(n->specs[k].dtype, n->specs[k].ndim, n->specs[k].shape);
    if (!is_nil(y)) {
        mx_retain(y);
        y->out = k;
        y->several = true;
    }
    return y;
}

/* All operands of x are in the tape: now x and its siblings are. */
static bool emit(struct tape *t, mx x)
{
    struct node *n = x->node;
    struct batch *b = batch_for(t, n->stream);
    if (!b)
        return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i]->status == SCHEDULED && !batch_waits(b, n->in[i]->event))
            return false;
    struct entry *all = mx_grown_from(b->few, b->entries, b->n, &b->cap, sizeof *all);
    if (!all)
        return false;
    b->entries = all;
    /* Written where it stays: copying one costs more than the rest of this. */
    struct entry *e = &all[b->n];
    e->node = n;
    e->one = x;
    e->several = NULL;
    bool keep = e->keep = is_traced(x);
    e->waits = false;
    e->before = -1;
    if (n->nout == 1) {
        mx_retain(x);
        schedule(x, b, t->epoch);
        if (keep)
            node_retain(n);
        else /* x's reference passes to the entry */
            leave_node(x);
    } else {
        e->several = mx_malloc((size_t)n->nout * sizeof(mx));
        if (!e->several)
            return false;
        mx_retain(x);
        for (int k = 0; k < n->nout; k++) {
            mx y = e->several[k] = k == x->out ? x : output_to_make(n, k);
            if (is_nil(y)) {
                for (int i = 0; i < k; i++)
                    if (i != x->out)
                        mx_release(e->several[i]);
                mx_release(x);
                free(e->several);
                return false;
            }
        }
        node_retain(n);
        for (int k = 0; k < n->nout; k++) {
            mx y = e->several[k];
            schedule(y, b, t->epoch);
            if (!keep && y->node)
                node_release(leave_node(y));
        }
        /* Where arrays of an earlier run have the node still, it may run again. */
        e->keep |= atomic_load_explicit(&n->refs, memory_order_acquire) != 1;
    }
    b->n++;
    if (++t->n_entries == BRIEF_ENTRIES + 1) /* the walk alone may take long */
        takes_long();
    return true;
}

/* Why x could not be made when that was last tried; NULL: nothing went wrong.  Under the graph lock. */
static struct run_failure *failure_of(mx x) { return x->event && event_is_failed(x->event) ? x->event->why : NULL; }

/* The error in hand is reported by whoever asked now; to those who ask later it is one of computing. */
void mx_lose(mx x)
{
    enum mx_error kind = mx_error_kind();
    char words[1024];
    snprintf(words, sizeof words, "%.900s (it wrote over its operand, which is lost)", mx_error_message());
    kind = kind == MX_USER || kind == MX_INTERRUPTED ? MX_RUNTIME : kind;
    struct event *e = event_failed(failure_new(kind, words));
    set_event(x, e);
    event_release(e);
    buffer_release(x->buf);
    x->buf = NULL;
    atomic_store_explicit(&x->status, LAZY, memory_order_release);
}

/* Whoever asks for an array hears what went wrong with it.  When somebody has been told, or gave it up, it is simply
 * tried again, as it is on the way to another one, unless it is lost. */
static bool raise_kept(mx x, bool asked_for)
{
    struct run_failure *why = failure_of(x);
    bool again = x->node && (!asked_for || !why || why->kind == MX_INTERRUPTED || why->told);
    if (why && !again)
        failure_tell(why);
    return why && !again;
}

static bool tape_visit(struct tape *t, mx root)
{
    if (!push_frame(t, root))
        return false;
    while (t->depth) {
        struct frame *f = &t->stack[t->depth - 1];
        mx x = f->x;
        if (x->status != LAZY) { /* a sibling brought it in */
            t->depth--;
            continue;
        }
        if (f->next == 0) {
            if (raise_kept(x, x == root))
                return false;
            if (!x->node) {
                const char *f = traced_name();
                mx_fail_as(MX_NO_VALUE,
                           "[eval] Not allowed inside a graph transformation: array of shape %s and type %s has no "
                           "value, it is a placeholder of %s%s",
                           shape_of(x), dtype_name(x->dtype),
                           f ? f
                             : "a function that is or was transformed or "
                               "compiled (what such a function stores elsewhere is not there; return it, or name it in "
                               "outputs= of compile)",
                           f ? ", which is being compiled" : "");
                return false;
            }
        }
        struct node *n = x->node;
        mx down = NULL;
        while (f->next < n->nin && !down) {
            mx in = n->in[f->next++];
            if (in->status == LAZY)
                down = in;
        }
        if (down) {
            if (!push_frame(t, down))
                return false;
            continue;
        }
        if (f->next < n->nin)
            continue;
        if (!emit(t, x))
            return false;
        t->depth--;
    }
    return true;
}

/* ---- running */

static void restore_entry(struct entry *e)
{
    struct node *n = e->node;
    for (int k = 0; k < n->nout; k++) {
        mx y = entry_out(e)[k];
        if (!y->node) {
            node_retain(n);
            y->node = n;
            if (n->nout > 1)
                node_remember_output(n, y);
        }
        if (y->buf) {
            buffer_release(y->buf);
            y->buf = NULL;
        }
        atomic_store_explicit(&y->status, LAZY, memory_order_release);
    }
}

/* While it runs: others may be looking at these arrays' nodes.  `why` is that of this entry, or NULL: an operand's,
 * where that is known, else the batch's. */
static void give_back(struct entry *e, struct event *why)
{
    const struct node *n = e->node;
    graph_lock();
    for (int i = 0; i < n->nin && !why; i++) {
        struct event *of = n->in[i]->status == READY ? NULL : n->in[i]->event;
        if (of && event_is_failed(of))
            why = of;
    }
    for (int k = 0; k < n->nout && why; k++) set_event(entry_out(e)[k], why);
    restore_entry(e);
    graph_unlock();
}

static void entry_release(struct entry *e)
{
    struct node *n = e->node;
    for (int k = 0, m = n->nout; k < m; k++) mx_release(entry_out(e)[k]);
    free(e->several);
    node_release(n);
}

void batch_free(struct batch *b)
{
    for (int i = 0; i < b->nwait; i++) event_release(b->wait[i]);
    free(b->wait);
    if (b->entries != b->few)
        free(b->entries);
    event_release(b->done);
    slab_free(b, batch_bytes);
}

/* Undoes a tape that could not be finished; under the graph lock. */
static void roll_back(struct tape *t)
{
    for (struct batch *b = t->first, *next; b; b = next) {
        next = b->next;
        for (int i = 0; i < b->n; i++) {
            for (int k = 0; k < b->entries[i].node->nout; k++) set_event(entry_out(&b->entries[i])[k], NULL);
            restore_entry(&b->entries[i]);
        }
    }
}

static void tape_discard(struct tape *t)
{
    for (struct batch *b = t->first, *next; b; b = next) {
        next = b->next;
        for (int i = 0; i < b->n; i++) entry_release(&b->entries[i]);
        batch_free(b);
    }
}

static bool make_view(struct node *n, mx y)
{
    mx x = n->in[node_viewed(n, y->out)];
    struct call c = { .op = n->op, .args = n->args, .nin = n->nin, .nout = n->nout, .x = n->in };
    if (!n->op->view || !n->op->view(&c, y))
        return false;
    y->buf = x->buf;
    buffer_retain(y->buf);
    array_note_layout(y);
    return true;
}

static bool make_views(struct node *n, mx *y)
{
    if (n->nout == 1)
        return make_view(n, y[0]);
    for (int k = 0; k < n->nout; k++) {
        if (make_view(n, y[k]))
            continue;
        while (k-- > 0) {
            buffer_release(y[k]->buf);
            y[k]->buf = NULL;
        }
        return false;
    }
    return true;
}

/* What became of entries: they ran; they failed, and the error is in hand; or an operand is not there, since an entry
 * before has failed, so they did not run. */
enum outcome { RAN, FAILED, SPOILED };

static inline int bring(struct buffer *b, struct stream *s)
{
    if (!s->on->alloc && (atomic_load_explicit(&b->state, memory_order_acquire) & ON_HOST))
        return 0;
    takes_long();
    return buffer_bring(b, s);
}

/* The same of operand k, unless its bytes are read where they are. */
static int bring_operand(const struct node *n, int k, struct stream *s)
{
    const struct backend *on = backend_of(s);
    return !(on->reads_host && on->reads_host(n, k)) && bring(n->in[k]->buf, s);
}

/* For devices, once the work of entries that run as one is queued: whoever asks for their results or frees their
 * operands goes by it. */
static int note_queued(struct stream *s, int n, struct entry *const m[], int failed)
{
    if (!s->on->alloc)
        return failed;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m[i]->node->nin; k++)
            if (m[i]->node->in[k]->buf)
                buffer_was_read(m[i]->node->in[k]->buf, s);
    for (int j = 0; j < n && !failed; j++)
        for (int l = 0; l < m[j]->node->nout && !failed; l++) {
            struct buffer *made = entry_out(m[j])[l]->buf, *x;
            if (!made)
                continue;
            for (int i = 0; i < n; i++)
                for (int k = 0; k < m[i]->node->nin && !failed; k++)
                    failed = (x = m[i]->node->in[k]->buf) && buffer_made_of(made, x);
            buffer_made(made, s);
        }
    return failed;
}

/* Its operands, which are to be looked at, are not written over. */
static enum outcome run_checked(struct stream *s, struct entry *e)
{
    struct entry kept = *e;
    kept.keep = true;
    return note_queued(s, 1, &e, backend_of(s)->run(s, &kept)) || check_results(s, e) ? FAILED : RAN;
}

static enum outcome run_there(struct stream *s, struct entry *e)
{
    if (checks_now() != CHECK_NOTHING)
        return run_checked(s, e);
    return note_queued(s, 1, &e, backend_of(s)->run(s, e)) ? FAILED : RAN;
}

static bool is_ready(const struct node *n)
{
    bool ready = true;
    for (int i = 0; i < n->nin; i++) ready &= atomic_load_explicit(&n->in[i]->status, memory_order_acquire) == READY;
    return ready;
}

static enum outcome run_entry_on(struct stream *s, struct entry *e)
{
    struct node *n = e->node;
    if (!is_ready(n))
        return SPOILED;
    if ((n->op->traits & VIEW) && n->nin && make_views(n, entry_out(e)))
        return RAN;
    if (!backend_of(s)->supports(n)) {
        if (control_is(n->op))
            return control_run(s, e) ? FAILED : RAN;
        if (!(s = stream_instead(s, n)))
            return FAILED;
    }
    for (int i = 0; i < n->nin; i++)
        if (bring_operand(n, i, s))
            return FAILED;
    struct plugin *p = first_trial(s, n);
    if (!p)
        return run_there(s, e);
    struct entry kept = *e;
    kept.keep = true; /* operands are there for the CPU then */
    enum outcome how = run_there(s, &kept);
    if (how == FAILED && mx_error_kind() == MX_NO_COMPILER) {
        mx_error_clear();
        atomic_store(&p->on_gpu, NEEDS_COMPILER);
        return run_entry_on(s, e);
    }
    if (how == RAN)
        atomic_store(&p->on_gpu, COMPILES);
    return how;
}

int mx_run_entry(struct stream *s, struct entry *e) { return run_entry_on(s, e) != RAN; }

/* The first failure of a batch, its own or of one it had to wait for. */
static void note_failure(struct run_failure **first, struct run_failure *f)
{
    if (*first || !f)
        return;
    failure_retain(f);
    *first = f;
}

/* The error in hand, for the arrays that it concerns, and for the batch's. */
static struct event *take_failure(struct run_failure **own)
{
    struct event *why = event_failed(failure_new(mx_error_kind(), mx_error_message()));
    note_failure(own, why->why);
    mx_error_clear();
    return why;
}

/* Whoever hears that there is no memory is told for what. */
static void name_operations(int n, struct entry *const m[])
{
    const struct node *first = m[0]->node, *last = m[n - 1]->node;
    mx y = entry_out(m[0])[0];
    if (n > 1)
        mx_error_add(", while computing %s to %s, which run as one", first->op->name, last->op->name);
    else if (first->nout > 1)
        mx_error_add(", while computing %s", first->op->name);
    else
        mx_error_add(", while computing %s, whose result has shape %s and type %s", first->op->name, shape_of(y),
                     dtype_name(y->dtype));
}

/* What became of entries that ran as one; their outputs are READY or LAZY after this, unless nobody can look at
 * them (`wanted`; NULL: somebody may). */
static void settle_entries(int n, struct entry *const m[], const bool wanted[], enum outcome how,
                           struct run_failure **own, struct run_failure *before)
{
    if (how == FAILED && mx_error_kind() == MX_MEMORY)
        name_operations(n, m);
    struct event *why = how == FAILED ? take_failure(own) : NULL;
    if (how == SPOILED)
        note_failure(own, before);
    for (int i = 0; i < n; i++)
        if (how != RAN)
            give_back(m[i], why);
        else
            for (int k = 0; (!wanted || wanted[i]) && k < m[i]->node->nout; k++)
                atomic_store_explicit(&entry_out(m[i])[k]->status, READY, memory_order_release);
    if (why)
        event_release(why);
}

/* ---- several entries as one */

/* The members of the fused entry whose last is number i, in order; returns how many. */
static int members(struct batch *b, int i, struct entry *m[])
{
    int n = 0;
    for (int k = i; k >= 0; k = b->entries[k].before) n++;
    for (int k = i, at = n; k >= 0; k = b->entries[k].before) m[--at] = &b->entries[k];
    return n;
}

int mx_run_fused(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    for (int i = 0; i < n; i++) {
        const struct node *node = m[i]->node;
        for (int k = 0; k < node->nin; k++)
            if (m[i]->from[k] == OUTSIDE && bring_operand(node, k, s))
                return 1;
    }
    return note_queued(s, n, m, backend_of(s)->run_fused(s, n, m, wanted));
}

/* Runs the members of a group as one, and finds which of their outputs are `wanted`: somebody may look at them later.
 * Nobody will where all references to an output are its entry's and those of members that it is an operand of, which
 * are let go of behind the group.  But where somebody else has a member's node as well, the member's output is wanted,
 * and so are its operands, since that node may run again. */
static enum outcome run_members(struct stream *s, int n, struct entry *const m[], bool wanted[])
{
    int uses[FUSE_MOST];
    for (int i = 0; i < n; i++) {
        const struct node *node = m[i]->node;
        wanted[i] = atomic_load_explicit(&node->refs, memory_order_acquire) != 1;
        uses[i] = 0;
        for (int k = 0; k < node->nin; k++)
            if (m[i]->from[k] != OUTSIDE)
                uses[m[i]->from[k]] += !wanted[i];
            else if (atomic_load_explicit(&node->in[k]->status, memory_order_acquire) != READY)
                return SPOILED;
    }
    for (int i = 0; i < n; i++)
        wanted[i] |= atomic_load_explicit(&m[i]->one->refs, memory_order_acquire) != 1 + uses[i];
    return mx_run_fused(s, n, m, wanted) ? FAILED : RAN;
}

static void run_fused(struct batch *b, int i, bool stopped, struct run_failure **own, struct run_failure *before)
{
    struct entry *m[FUSE_MOST];
    bool wanted[FUSE_MOST];
    int n = members(b, i, m);
    enum outcome how = stopped ? FAILED : run_members(b->stream, n, m, wanted);
    if (how != SPOILED)
        settle_entries(n, m, wanted, how, own, before);
    for (int k = 0; k < n && how == SPOILED; k++) /* not all of them, perhaps */
        settle_entries(1, &m[k], NULL, run_entry_on(b->stream, m[k]), own, before);
    for (int k = 0; k < n; k++) entry_release(m[k]);
}

/* ---- entries that are alike, as one */

static bool runs_alone(const struct entry *e) { return !e->waits && e->before < 0; }

static void end_turn(struct entry *e)
{
    e->waits = true;
    entry_release(e);
}

/* Is x there, or a view of what is, or a view of such a one, of entries from number `begin` to `end`?  Those are made
 * now, before their turn: who reads what they show has it until then in any case. */
static bool make_early(struct batch *b, int begin, int end, mx x, int depth)
{
    if (atomic_load_explicit(&x->status, memory_order_acquire) == READY)
        return true;
    for (int i = begin; i < end && depth > 0; i++) {
        struct entry *e = &b->entries[i];
        if (!runs_alone(e) || e->node->nout != 1 || e->one != x)
            continue;
        if (!(e->node->op->traits & VIEW) || e->node->nin != 1 || !make_early(b, begin, i, e->node->in[0], depth - 1) ||
            !make_view(e->node, x))
            return false;
        atomic_store_explicit(&x->status, READY, memory_order_release);
        end_turn(e);
        return true;
    }
    return false;
}

static bool make_operands(struct batch *b, int begin, int end)
{
    const struct node *n = b->entries[end].node;
    bool made = true;
    for (int k = 0; k < n->nin && made; k++) made = make_early(b, begin, end, n->in[k], 2);
    return made;
}

static void join(struct batch *b, int last, int next)
{
    struct entry *m[] = { &b->entries[last], &b->entries[next] };
    for (int i = 0; i < 2; i++) memset(m[i]->from, OUTSIDE, sizeof m[i]->from);
    m[0]->waits = true;
    m[1]->before = last;
}

/* Makes entry i, which runs by itself, and those soon after it that may run with it a group, since a launch takes
 * longer than many of them do; returns its last. */
static int join_alike(struct batch *b, int i)
{
    enum { NEAR = FUSE_MOST - 1 };
    const struct backend *on = backend_of(b->stream);
    const struct node *first = b->entries[i].node;
    int last = i;
    if (!on->alike || !is_ready(first) || !on->alike(first, first) || checks_now() != CHECK_NOTHING)
        return i;
    for (int k = i + 1; k < b->n && k <= i + NEAR; k++) {
        struct entry *e = &b->entries[k];
        if (!runs_alone(e) || e->node->op != first->op || !make_operands(b, i + 1, k) || !on->alike(e->node, first))
            continue;
        join(b, last, k);
        last = k;
    }
    return last;
}

void run_batch(struct batch *b)
{
    struct stream *s = b->stream;
    struct run_failure *own = NULL, *before = NULL;
    bool stopped = false;
    mx_defer_releases(true);
    for (int i = 0; i < b->nwait && !stopped; i++) { /* not on a worker of its own, perhaps */
        stopped = wait_or_stop(b->wait[i]);
        if (!stopped)
            note_failure(&before, b->wait[i]->why);
    }
    this_thread()->running = b->done;
    int64_t next = b->n > 1 ? stop_first() : INT64_MAX;
    if (backend_of(s)->begin)
        backend_of(s)->begin(s);
    for (int i = 0; i < b->n; i++) {
        struct entry *e = &b->entries[i];
        if (e->waits)
            continue;
        if (next != INT64_MAX && !stopped)
            stopped = stop_asked(&next);
        if (stopped)
            mx_fail_as(MX_INTERRUPTED, "[eval] interrupted");
        int last = stopped || e->before >= 0 ? i : join_alike(b, i);
        if (b->entries[last].before >= 0) {
            run_fused(b, last, stopped, &own, before);
            b->entries[last].waits = true; /* its turn is over, and may be to come */
        } else {
            settle_entries(1, &e, NULL, stopped ? FAILED : run_entry_on(s, e), &own, before);
            entry_release(e);
        }
    }
    this_thread()->running = NULL;
    if (backend_of(s)->end && backend_of(s)->end(s))
        event_release(take_failure(&own));
    event_set(b->done, own);
    if (before)
        failure_release(before);
    mx_defer_releases(false);
}

/* ---- the public ways in */

/* The streams that a call gave work to, the first of them. */
struct given {
    int n;
    struct stream *to[8];
};

static void note_given(struct given *g, struct stream *s)
{
    for (int i = 0; i < g->n; i++)
        if (g->to[i] == s)
            return;
    if (g->n < (int)(sizeof g->to / sizeof *g->to))
        g->to[g->n++] = s;
}

enum { AT_ONCE = 1024 /* elements: others wait for the graph lock no longer than for a walk */ };

/* Makes x if that is one operation on a few elements that the host has: under the graph lock, where nobody sees what is
 * between LAZY and READY, that needs no batch, event or turn of a queue.  Returns the node, which x has left; NULL: it
 * is another, or has failed, and nothing has happened. */
static struct node *make_at_once(mx x)
{
    struct node *n = x->status == LAZY ? x->node : NULL;
    if (!n || n->nout != 1 || !(n->op->traits & FUSE) || x->size > AT_ONCE || x->event || n->stream->on->alloc ||
        is_traced(x) || checks_now() != CHECK_NOTHING || !backend_of(n->stream)->supports(n))
        return NULL;
    for (int i = 0; i < n->nin; i++)
        if (!array_readable(n->in[i]))
            return NULL;
    struct entry e = { .node = n, .one = x, .before = -1 };
    leave_node(x);
    mx_defer_releases(true);
    int failed = backend_of(n->stream)->run(n->stream, &e);
    mx_defer_releases(false);
    if (failed) { /* in a batch it fails again, and is told of */
        mx_error_clear();
        x->node = n;
        return NULL;
    }
    atomic_store_explicit(&x->status, READY, memory_order_release);
    return n;
}

/* given: where the streams are told, if nobody waits for the results; else NULL. */
static int evaluate_graph(int n, const mx x[], struct given *given)
{
    if (mx_failed())
        return 1;
    run_releases();
    if (!graph_try_lock()) { /* who has it may walk a large graph */
        takes_long();
        graph_lock();
    }
    struct node *made = n == 1 && !given ? make_at_once(x[0]) : NULL;
    if (made) {
        graph_unlock();
        mx_defer_releases(true);
        node_release(made);
        mx_defer_releases(false);
        return 0;
    }
    struct frame few[16];
    struct tape t = { .now = !given, .stack = few, .few = few, .stack_cap = sizeof few / sizeof *few };
    struct node *left[8]; /* by arrays with data, which kept them for a trace that is over by now */
    int n_left = 0;
    int *order = order_to_make(n, x);
    t.epoch = walk_begin();
    for (int k = 0; k < n && !t.failed; k++) {
        mx root = x[order ? order[k] : k];
        if (root->status == LAZY)
            t.failed = !tape_visit(&t, root);
        else if (root->status == READY && root->node && !is_traced(root) && n_left < 8) /* others another time */
            left[n_left++] = leave_node(root);
    }
    free(order);
    for (struct batch *b = t.first; b && !t.failed && mx_fuse_enabled(); b = b->next)
        t.failed = b->n > 1 && backend_of(b->stream)->run_fused && fuse_plan(b->n, b->entries, t.epoch, b->first);
    struct batch *mine = NULL, **end = &mine; /* those that this thread is to run */
    if (t.failed)
        roll_back(&t);
    for (struct batch *b = t.failed ? NULL : t.first, *next; b; b = next) {
        next = b->next;
        b->next = NULL;
        if (given)
            note_given(given, b->stream);
        if (backend_of(b->stream)->submit(b->stream, b)) {
            *end = b;
            end = &b->next;
        }
    }
    graph_unlock();
    if (t.stack != few)
        free(t.stack);
    if (t.failed)
        tape_discard(&t);
    for (struct batch *b = mine, *next; b; b = next) {
        next = b->next;
        if (!is_brief(b))
            takes_long();
        backend_of(b->stream)->run_now(b->stream, b);
    }
    /* Only now: what is freed with a node may be the program's, whose code may evaluate, and that would wait for a
     * queue in which a batch of ours has yet to run. */
    if (n_left)
        takes_long();
    for (int i = 0; i < n_left; i++) node_release(left[i]);
    return t.failed;
}

/* Waits for x if it is on its way; raises what went wrong with it. */
static int await(mx x)
{
    if (atomic_load_explicit(&x->status, memory_order_acquire) == READY)
        return 0;
    takes_long();
    graph_lock();
    struct event *e = x->event;
    if (e)
        event_retain(e);
    graph_unlock();
    bool stopped = e && wait_or_stop(e);
    bool made = !stopped && atomic_load_explicit(&x->status, memory_order_acquire) == READY;
    if (stopped) {
        mx_fail_as(MX_INTERRUPTED, "[eval] interrupted");
    } else if (!made) {
        graph_lock();
        struct run_failure *why = failure_of(x);
        why = why || !e ? why : e->why; /* another thread tries it again */
        if (why)                        /* whether or not others who wait have been told */
            failure_tell(why);
        else
            mx_fail_as(MX_RUNTIME, "[eval] the array could not be computed");
        graph_unlock();
    }
    if (e)
        event_release(e);
    return !made;
}

static int wait_for_bytes(struct buffer *b)
{
    if (!buffer_is_there(b))
        takes_long();
    return buffer_wait(b);
}

const char *eval_forbid(const char *why)
{
    const char *was = this_thread()->forbidden;
    this_thread()->forbidden = why;
    return was;
}

int eval_refused(void)
{
    const char *why = this_thread()->forbidden;
    if (why)
        mx_fail_as(MX_RUNTIME, "[eval] expected no evaluation while %s is computed, got one", why);
    return why != NULL;
}

int mx_eval(int n, const mx x[])
{
    struct evaluation e = { .n = n, .x = x };
    if (eval_refused())
        return 1;
    evaluation_begin(&e);
    int failed = evaluate_graph(n, x, NULL);
    if (!failed) {
        for (int i = 0; i < n; i++) failed |= await(x[i]) || wait_for_bytes(x[i]->buf);
        run_releases();
    }
    evaluation_end(&e);
    return failed;
}

int mx_async_eval(int n, const mx x[])
{
    MX_UNCANCELLED;
    struct given given = { 0 };
    if (evaluate_graph(n, x, &given))
        return 1;
    takes_long();
    for (int i = 0; i < given.n && !this_thread()->running && !this_thread()->forbidden; i++)
        if (queue_hold_back(given.to[i]))
            return 1;
    return 0;
}

int mx_wait_host(mx x)
{
    if (is_nil(x))
        return 1;
    if (atomic_load_explicit(&x->status, memory_order_acquire) != READY && mx_eval(1, &x))
        return 1;
    if (atomic_load_explicit(&x->buf->state, memory_order_acquire) & ON_HOST)
        return 0;
    MX_UNCANCELLED;
    return buffer_bring_host(x->buf);
}
