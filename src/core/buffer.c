/* buffer.c: reference-counted memory.
 *
 * Small blocks (header and data in one) come from the slab, without a lock; larger ones from the host's cache. */
#include "core/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/refs.h"
#include "core/slab.h"
#include "core/stream.h"

enum {
    HEADER = 128, /* struct buffer, padded so that data behind it is 64-byte aligned */
    SMALL = 1024, /* bytes of data of the largest block that shares one piece with its header */
};

_Static_assert(sizeof(struct buffer) <= HEADER, "the header holds the struct");

/* ---- errors that are found late */

static void outlook_release(struct outlook *o)
{
    if (!o || !last_goes(&o->refs))
        return;
    for (int i = 0; i < o->n; i++) event_release(o->of[i]);
    free(o);
}

static bool turned_out_well(struct event *e) { return atomic_load_explicit(&e->done, memory_order_acquire) && !e->why; }

static bool expects(const struct outlook *o, const struct event *e)
{
    for (int i = 0; o && i < o->n; i++)
        if (o->of[i] == e)
            return true;
    return false;
}

/* b's becomes what is left of its own and of these. */
static int expect(struct buffer *b, int n, struct event *const more[])
{
    struct outlook *old = b->outlook, *o;
    int kept = old ? old->n : 0;
    if (!(o = mx_malloc(sizeof *o + (size_t)(kept + n) * sizeof *o->of)))
        return 1;
    *o = (struct outlook){ .refs = 1 };
    for (int i = 0; i < kept + n; i++) {
        struct event *e = i < kept ? old->of[i] : more[i - kept];
        if (turned_out_well(e) || expects(o, e))
            continue;
        event_retain(e);
        o->of[o->n++] = e;
    }
    outlook_release(old);
    b->outlook = o;
    return 0;
}

int buffer_may_fail(struct buffer *b, struct event *e) { return expect(b, 1, &e); }

int buffer_made_of(struct buffer *b, const struct buffer *x)
{
    struct outlook *o = x->outlook;
    bool news = false;
    for (int i = 0; o && i < o->n; i++) news |= !turned_out_well(o->of[i]) && !expects(b->outlook, o->of[i]);
    if (!news)
        return 0;
    if (b->outlook)
        return expect(b, o->n, o->of);
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    b->outlook = o;
    return 0;
}

/* Once the work is done. */
static int raise_late(const struct buffer *b)
{
    for (int i = 0; b->outlook && i < b->outlook->n; i++) {
        const struct event *e = b->outlook->of[i];
        if (!event_is_failed(e))
            continue;
        failure_tell(e->why);
        return 1;
    }
    return 0;
}

static struct buffer *header_new(void)
{
    struct buffer *b = mx_malloc(sizeof *b);
    if (b)
        *b = (struct buffer){ .refs = 1, .writable = true };
    return b;
}

/* Header and data in one piece. */
static struct buffer *small_new(size_t bytes)
{
    size_t capacity = bytes ? (bytes + 63) / 64 * 64 : 64;
    struct buffer *b = memory_allows(capacity) ? slab_new(HEADER + capacity) : NULL;
    if (!b)
        return NULL;
    *b = (struct buffer){
        .refs = 1,
        .writable = true,
        .inside = true,
        .capacity = capacity,
        .host = (char *)b + HEADER,
    };
    memory_count((int64_t)capacity);
    return b;
}

static void *host_block(size_t bytes, size_t *capacity)
{
    struct stream *last;
    return memory_take(&host_memory, bytes, NULL, capacity, &last);
}

static struct buffer *large_new(size_t bytes)
{
    size_t capacity;
    void *p = host_block(bytes, &capacity);
    if (!p)
        return NULL;
    struct buffer *b = header_new();
    if (!b) {
        memory_give(&host_memory, p, capacity, NULL);
        return NULL;
    }
    b->capacity = capacity;
    b->host = p;
    return b;
}

struct buffer *buffer_new(size_t bytes)
{
    struct buffer *b = mx_test_should_fail() ? NULL : bytes <= SMALL ? small_new(bytes) : large_new(bytes);
    if (!b) {
        mx_fail_memory(bytes);
        return NULL;
    }
    b->state = ON_HOST;
    b->bytes = bytes;
    return b;
}

/* ---- sides on devices */

static bool same_device(const struct stream *a, const struct stream *b)
{
    return a->on == b->on && a->device.index == b->device.index;
}

static struct side *side_on(const struct buffer *b, const struct stream *s)
{
    struct side *d = atomic_load_explicit(&b->sides, memory_order_acquire);
    while (d && !same_device(d->stream, s)) d = d->next;
    return d;
}

const struct side *buffer_side_on(const struct buffer *b, const struct stream *s) { return side_on(b, s); }

void *buffer_on(const struct buffer *b, const struct stream *s)
{
    const struct side *d = side_on(b, s);
    return d ? d->p : NULL;
}

void buffer_made(struct buffer *b, struct stream *s)
{
    struct side *d = s->on->alloc ? side_on(b, s) : NULL;
    if (d)
        d->mark = s->on->mark(s);
}

/* Memory whose bytes work queued on s is about to make. */
static struct side *side_new(struct buffer *b, struct stream *s)
{
    struct side *d = mx_malloc(sizeof *d);
    void *p = d ? s->on->alloc(s, b->bytes ? b->bytes : 1) : NULL;
    if (!p) {
        free(d);
        return NULL;
    }
    *d = (struct side){ .p = p, .stream = s, .mark = s->on->mark(s) };
    return d;
}

static void side_free(struct side *d, size_t bytes)
{
    if (d->reader)
        d->stream->on->follow(d->stream, d->reader, d->read);
    if (!d->foreign)
        d->stream->on->free(d->stream, d->p, bytes ? bytes : 1);
    free(d);
}

/* Found by other threads from now on. */
static void side_add(struct buffer *b, struct side *d)
{
    d->next = atomic_load_explicit(&b->sides, memory_order_relaxed);
    atomic_store_explicit(&b->sides, d, memory_order_release);
}

struct buffer *buffer_new_on(struct stream *s, size_t bytes)
{
    struct buffer *b = mx_test_should_fail() ? mx_fail_memory(bytes), NULL : header_new();
    if (!b)
        return NULL;
    b->bytes = bytes;
    struct side *d = side_new(b, s);
    if (!d) {
        free(b);
        return NULL;
    }
    side_add(b, d);
    b->state = ON_DEVICE;
    return b;
}

/* Under the lock: another stream than the side's own has queued what reads it. */
static void note_reader(struct side *d, struct stream *s)
{
    if (d->stream == s)
        return;
    if (d->reader && d->reader != s && d->stream->on->follow(d->stream, d->reader, d->read))
        mx_error_clear(); /* of a lost device, on which nothing runs any more */
    d->reader = s;
    d->read = s->on->mark(s);
}

/* What s queues from now on comes after the bytes are there. */
static int follow_side(struct side *d, struct stream *s)
{
    return d->stream == s ? 0 : s->on->follow(s, d->stream, d->mark);
}

LOCK(moving, LOCK_MOVING);

static int side_from_peer(struct buffer *b, struct side *d, struct stream *s)
{
    struct side *from = atomic_load(&b->sides);
    while (from->stream->on != s->on) from = from->next;
    int failed = follow_side(from, s) || s->on->from_peer(s, d->p, from->stream, from->p, b->bytes);
    note_reader(from, s);
    return failed;
}

static int side_to_device(struct buffer *b, struct stream *s)
{
    struct side *d = side_new(b, s);
    if (!d)
        return 1;
    if (atomic_load(&b->state) & ON_HOST ? s->on->to_device(s, d->p, b->host, b->bytes) : side_from_peer(b, d, s)) {
        side_free(d, b->bytes);
        return 1;
    }
    d->mark = s->on->mark(s);
    side_add(b, d);
    atomic_fetch_or(&b->state, ON_DEVICE);
    return 0;
}

void buffer_lend(struct buffer *b)
{
    atomic_fetch_add(&b->lent, 1);
    atomic_store(&b->touched, true);
}

bool buffer_take_back(struct buffer *b)
{
    int n = atomic_load(&b->lent);
    while (n > 0 && !atomic_compare_exchange_weak(&b->lent, &n, n - 1)) {}
    return n > 0;
}

/* On the side's own stream, behind whoever reads the former bytes.  What another device has is copied there when it
 * is next needed. */
static int copy_again(struct buffer *b, struct side *d, struct stream *s)
{
    struct stream *own = d->stream;
    if (!atomic_load(&b->lent))
        atomic_store(&b->touched, false);
    for (struct side *other = atomic_load(&b->sides); other; other = other->next)
        if (other != d)
            atomic_store(&b->touched, true);
    if (d->reader && own->on->follow(own, d->reader, d->read))
        return 1;
    d->reader = NULL;
    if (own->on->to_device(own, d->p, b->host, b->bytes))
        return 1;
    d->mark = own->on->mark(own);
    return follow_side(d, s);
}

int buffer_bring(struct buffer *b, struct stream *s)
{
    if (!s->on->alloc)
        return buffer_bring_host(b);
    struct side *d = side_on(b, s);
    bool touched = atomic_load_explicit(&b->touched, memory_order_relaxed);
    if (d && d->stream == s && !touched)
        return 0;
    lock_take(&moving);
    d = side_on(b, s);
    int failed = !d ? side_to_device(b, s) : touched ? copy_again(b, d, s) : follow_side(d, s);
    lock_give(&moving);
    return failed;
}

void buffer_was_read(struct buffer *b, struct stream *s)
{
    struct side *d = s->on->alloc ? side_on(b, s) : NULL;
    if (!d || d->stream == s)
        return;
    lock_take(&moving);
    note_reader(d, s);
    lock_give(&moving);
}

int buffer_bring_host(struct buffer *b)
{
    if (atomic_load_explicit(&b->state, memory_order_acquire) & ON_HOST)
        return 0;
    if (buffer_wait(b)) /* not with the lock, which others need to queue work */
        return 1;
    int failed = 0;
    lock_take(&moving);
    if (!(atomic_load(&b->state) & ON_HOST)) {
        const struct side *d = atomic_load(&b->sides);
        failed = buffer_need_host(b) || d->stream->on->to_host(d->stream, d->mark, b->host, d->p, b->bytes);
        if (!failed && !atomic_load(&b->lent_on))
            atomic_fetch_or(&b->state, ON_HOST);
    }
    lock_give(&moving);
    return failed;
}

int buffer_read(struct buffer *b, size_t at, void *to, size_t bytes)
{
    if (buffer_wait(b))
        return 1;
    int failed = 0;
    lock_take(&moving);
    if (atomic_load(&b->state) & ON_HOST) {
        memcpy(to, (const char *)b->host + at, bytes);
    } else {
        const struct side *d = atomic_load(&b->sides);
        failed = d->stream->on->to_host(d->stream, d->mark, to, (const char *)d->p + at, bytes);
    }
    lock_give(&moving);
    return failed;
}

/* The side that has to be waited for; NULL: the bytes are on the host. */
static const struct side *only_on_device(const struct buffer *b)
{
    const struct side *d = atomic_load_explicit(&b->sides, memory_order_acquire);
    return atomic_load_explicit(&b->state, memory_order_acquire) & ON_HOST ? NULL : d;
}

int buffer_wait(struct buffer *b)
{
    const struct side *d = only_on_device(b);
    return d && (d->stream->on->wait(d->stream, d->mark) || raise_late(b));
}

bool buffer_is_there(struct buffer *b)
{
    const struct side *d = only_on_device(b);
    return !d || d->stream->on->passed(d->stream, d->mark);
}

void buffer_leave_devices(struct buffer *b)
{
    struct side *d = atomic_exchange(&b->sides, NULL);
    for (struct side *next; d; d = next) {
        next = d->next;
        side_free(d, b->bytes);
    }
    atomic_store(&b->state, ON_HOST);
}

bool buffer_claim_on(struct buffer *b, struct stream *s)
{
    struct side *d = atomic_load_explicit(&b->sides, memory_order_acquire);
    if (!d || d->next || d->stream != s || b->release || atomic_load(&b->lent) || atomic_load(&b->touched) ||
        atomic_load(&b->lent_on))
        return false;
    if (d->reader && s->on->follow(s, d->reader, d->read)) {
        mx_error_clear();
        return false;
    }
    d->reader = NULL;
    atomic_store(&b->state, ON_DEVICE);
    return true;
}

/* ---- memory on devices that others know of */

const struct side *buffer_side_alone(struct buffer *b)
{
    const struct side *d = atomic_load(&b->sides);
    return d && !d->next && d->stream->on->lead && atomic_load(&b->state) == ON_DEVICE ? d : NULL;
}

void *buffer_lend_on(struct buffer *b, struct device *where, void *theirs)
{
    lock_take(&moving);
    const struct side *d = buffer_side_alone(b);
    void *p = d && !d->stream->on->lead(d->stream, d->mark, theirs) ? d->p : NULL;
    if (p) {
        *where = d->stream->device;
        atomic_fetch_add(&b->lent_on, 1);
    }
    lock_give(&moving);
    return p;
}

bool buffer_take_back_on(struct buffer *b)
{
    lock_take(&moving);
    struct side *d = atomic_load(&b->sides);
    while (d && d->next) d = d->next;                            /* the one that was alone when it was lent */
    bool is_lent = atomic_load(&b->lent_on) > (d && d->foreign); /* what is foreign is lent for good */
    if (!is_lent)
        d = NULL;
    if (d && d->stream->on->trail(d->stream, NULL))
        mx_error_clear(); /* of a lost device, on which nothing runs any more */
    else if (d)
        d->mark = d->stream->on->mark(d->stream); /* who reads comes after what they wrote */
    atomic_fetch_sub(&b->lent_on, is_lent);
    lock_give(&moving);
    return is_lent;
}

struct foreign {
    struct foreign *next;
    struct stream *stream;
    uint64_t mark; /* of the last work that may use it */
    void (*release)(void *payload);
    void *payload;
};
static struct foreign *_Atomic in_use; /* nobody's any more but for queued work */

static bool let_go_of(struct foreign *f)
{
    if (!f->stream->on->passed(f->stream, f->mark))
        return false;
    mx_let_go(f->release, f->payload);
    free(f);
    return true;
}

static void keep_in_use(struct foreign *f)
{
    f->next = atomic_load(&in_use);
    while (!atomic_compare_exchange_weak(&in_use, &f->next, f))
        ;
}

/* Nobody waits for that work here: the thread may have a lock of its language's. */
static void release_foreign(void *ctx)
{
    struct foreign *f = ctx;
    f->mark = f->stream->on->mark(f->stream);
    if (!let_go_of(f))
        keep_in_use(f);
}

bool buffer_has_unused(void) { return atomic_load_explicit(&in_use, memory_order_relaxed); }

void buffer_release_unused(void)
{
    if (!atomic_load_explicit(&in_use, memory_order_relaxed) || mx_failed()) /* asking clears an error in hand */
        return;
    for (struct foreign *f = atomic_exchange(&in_use, NULL), *next; f; f = next) {
        next = f->next;
        if (!let_go_of(f))
            keep_in_use(f);
    }
}

struct buffer *buffer_wrap_on(struct stream *s, void *p, size_t bytes, void (*release)(void *), void *payload)
{
    struct foreign *f = mx_malloc(sizeof *f);
    struct side *d = f ? mx_malloc(sizeof *d) : NULL;
    struct buffer *b = d ? buffer_wrap(NULL, bytes, false, release_foreign, f) : NULL;
    if (!b) {
        free(d);
        free(f);
        return NULL;
    }
    *f = (struct foreign){ .stream = s, .release = release, .payload = payload };
    *d = (struct side){ .p = p, .stream = s, .mark = s->on->mark(s), .foreign = true };
    side_add(b, d);
    b->state = ON_DEVICE;
    b->lent_on = 1; /* for good: its owner may write at any time */
    return b;
}

struct buffer *buffer_wrap(void *memory, size_t bytes, bool writable, void (*release)(void *), void *payload)
{
    struct buffer *b = header_new();
    if (!b)
        return NULL;
    b->state = ON_HOST;
    b->writable = writable;
    b->bytes = bytes;
    b->host = memory;
    b->release = release;
    b->payload = payload;
    return b;
}

int buffer_need_host(struct buffer *b)
{
    if (b->host)
        return 0;
    b->host = host_block(b->bytes ? b->bytes : 1, &b->capacity);
    if (!b->host) {
        b->capacity = 0;
        mx_fail_memory(b->bytes);
        return 1;
    }
    return 0;
}

void buffer_retain(struct buffer *b) { atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); }

void buffer_release(struct buffer *b)
{
    if (!b || !last_goes(&b->refs))
        return;
    if (atomic_load_explicit(&b->sides, memory_order_relaxed))
        buffer_leave_devices(b);
    outlook_release(b->outlook);
    if (b->release) {
        if (b->capacity) /* the host's bytes of what a device has */
            memory_give(&host_memory, b->host, b->capacity, NULL);
        mx_let_go(b->release, b->payload);
        free(b);
        return;
    }
    if (b->inside) {
        memory_count(-(int64_t)b->capacity);
        slab_free(b, HEADER + b->capacity);
        return;
    }
    if (b->host)
        memory_give(&host_memory, b->host, b->capacity, NULL);
    free(b);
}
