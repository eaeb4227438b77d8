/* buffer.h: reference-counted memory.
 *
 * A buffer has a host side, device sides, or both; `state` says which of them hold the current bytes. */
#ifndef MX_CORE_BUFFER_H
#define MX_CORE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/memory.h"

struct device;
struct event;
struct stream;

enum where { ON_HOST = 1, ON_DEVICE = 2 };

/* A buffer's memory on one device; kept until the buffer goes, since queued work may read it. */
struct side {
    struct side *next;
    void *p;
    struct stream *stream; /* which it was taken for, and goes back to */
    uint64_t mark;         /* of that stream: its bytes are there */
    struct stream *reader; /* another one of the device that reads it, up to its mark `read`; or NULL */
    uint64_t read;
    bool foreign; /* memory of somebody else, which is not given back */
};

/* What may still go wrong with bytes that are on their way: events that a device sets, with an error or none, before
 * the marks of what they stand for pass.  Shared, never changed. */
struct outlook {
    atomic_int refs;
    int n;
    struct event *of[];
};

struct buffer {
    atomic_int refs;
    _Atomic uint8_t state;          /* set of enum where: where the current bytes are */
    bool writable;                  /* foreign memory may be read-only: never written in place */
    bool mapped;                    /* pages of a file: may be written, but each is copied then */
    bool inside;                    /* the host's bytes are one piece with this header */
    atomic_bool touched;            /* lent since they were last copied to a device */
    atomic_int lent;                /* how many there are outside who may write the host's bytes */
    atomic_int lent_on;             /* the same of those on the device, which alone had them then */
    size_t bytes;                   /* as asked for */
    size_t capacity;                /* as got */
    void *host;                     /* may be NULL while only the device has it */
    struct side *_Atomic sides;     /* with ON_DEVICE, all of them have the current bytes */
    struct outlook *outlook;        /* NULL: nothing; set by who makes the bytes, before others know of them */
    void (*release)(void *payload); /* foreign memory: called once, never on a worker or under a lock */
    void *payload;
};

/* Uninitialized host memory, 64-byte aligned; NULL after mx_fail.  The new buffer has one reference. */
struct buffer *buffer_new(size_t bytes);
/* A buffer with a side on the device of s alone, for work that is queued there. */
struct buffer *buffer_new_on(struct stream *s, size_t bytes);
/* Makes the bytes current where s computes: copies what is not there yet, and has work that is queued on s
 * from now on come after what makes them.  Non-zero after mx_fail. */
int buffer_bring(struct buffer *b, struct stream *s);
/* Makes them current on the host, and waits for that. */
int buffer_bring_host(struct buffer *b);
/* Copies some of them, from number `at` on, and waits for that; the host does not get the others. */
int buffer_read(struct buffer *b, size_t at, void *to, size_t bytes);
/* The calling thread waits until they are there, wherever that is; or asks whether they are. */
int buffer_wait(struct buffer *b);
bool buffer_is_there(struct buffer *b);
/* Address on the device of s, after buffer_bring; NULL: it has no side there. */
void *buffer_on(const struct buffer *b, const struct stream *s);
const struct side *buffer_side_on(const struct buffer *b, const struct stream *s); /* that memory */
/* Work queued on s is about to change the bytes of this buffer, which nobody else looks at: they are current there
 * alone from now on.  False, and nothing happens, where its memory is not of s alone. */
bool buffer_claim_on(struct buffer *b, struct stream *s);
/* What is queued on s by now makes its bytes there: of a side that nobody else knows of yet.  And what is queued by now
 * reads them: the memory is not used for anything else before.  Both are said after the work was queued, since a mark
 * taken before may have passed by then: anybody may ask for it meanwhile.  Nothing happens where s computes on the
 * host. */
void buffer_made(struct buffer *b, struct stream *s);
void buffer_was_read(struct buffer *b, struct stream *s);
/* An error that is found while they are made, long after the work was queued, stays with the bytes and with all that is
 * made of them, and is raised to who reads them on the host.  Before others know of b: e is of its own work, or it is
 * made of what x has.  Non-zero after mx_fail. */
int buffer_may_fail(struct buffer *b, struct event *e);
int buffer_made_of(struct buffer *b, const struct buffer *x);
/* The host's bytes are about to change: other sides go. */
void buffer_leave_devices(struct buffer *b);
/* Between the two somebody outside may write the host's bytes, which devices copy anew for every reader. */
void buffer_lend(struct buffer *b);
bool buffer_take_back(struct buffer *b); /* false: it is not lent */
/* The side of a device that alone has the bytes; NULL where the host has them as well, or no device that others use. */
const struct side *buffer_side_alone(struct buffer *b);
/* The same of bytes that a device alone has: their address there, or NULL; work queued on `theirs` from now on finds
 * them (struct device_class).  The host's are copied anew for every reader.  Memory that is taken back is used for what
 * comes after what is queued by then. */
void *buffer_lend_on(struct buffer *b, struct device *where, void *theirs);
bool buffer_take_back_on(struct buffer *b); /* false: it is not lent */
/* Memory of somebody else on the device of s, whose bytes are there for what is queued on s from now on; `release` is
 * called when what was queued here has read it.  On failure as below. */
struct buffer *buffer_wrap_on(struct stream *s, void *p, size_t bytes, void (*release)(void *), void *payload);
/* Lets go of memory of others that was released while queued work still used it, where that is done. */
void buffer_release_unused(void);
bool buffer_has_unused(void); /* is there any, perhaps? */
/* Memory of somebody else.  On failure NULL, and `release` was not called. */
struct buffer *buffer_wrap(void *host, size_t bytes, bool writable, void (*release)(void *), void *payload);
void buffer_retain(struct buffer *b);
void buffer_release(struct buffer *b);
/* Makes sure that the host side exists (allocates it, contents undefined). */
int buffer_need_host(struct buffer *b);

#endif
