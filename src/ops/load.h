/* load.h: arrays whose bytes are somewhere else until they are evaluated, as in a file. */
#ifndef MX_OPS_LOAD_H
#define MX_OPS_LOAD_H

#include "ops/op.h"

/* Where bytes come from.  Files are sources, and so are decoders that read another source; io/source.h
 * makes them. */
struct source {
    struct object object;
    const char *label;    /* what messages call it */
    uint64_t size;        /* in bytes */
    const uint8_t *bytes; /* all of it, where it is in memory already: then nothing below is needed */
    bool in_parts;        /* parts of it may be read in any order, by several threads at once */
    bool eager;           /* it may be gone later: arrays are read when they are made */
    /* All n bytes at an offset inside of it, or false after mx_fail. */
    bool (*read)(struct source *self, void *data, uint64_t n, uint64_t offset);
    uint64_t base; /* where it begins in what map() maps, for alignment */
    /* The same bytes as memory that shares the source's pages.  NULL, the function or its result: they
     * must be read, or, where mx_failed(), cannot be. */
    struct buffer *(*map)(struct source *self, uint64_t offset, uint64_t n);
};

struct load_args {
    struct object *from; /* struct source */
    int64_t offset;      /* in bytes; the runner looks whether the array lies inside of the source */
    struct ints shape;
    unsigned dtype;
    bool swap; /* numbers are in the other byte order */
};

/* The array whose row-major elements are at an offset of the source.  They are read, or mapped where
 * they are aligned there, when the array is evaluated; an eager source is read now.  Of a source in
 * memory, aligned elements are used where they are and a few of them copied at once. */
mx mx_load(struct source *from, uint64_t offset, int ndim, const int *shape, enum dtype t);
/* The same of a source that may have been cut: that bytes are missing is an error of evaluating the array,
 * unless they are looked at now. */
mx mx_load_late(struct source *from, uint64_t offset, int ndim, const int *shape, enum dtype t, bool swap);

/* Does the array of n bytes lie inside of the source?  Otherwise a failure of that kind says so. */
bool load_inside(const struct source *from, uint64_t offset, uint64_t n, int ndim, const int *shape, enum dtype t,
                 enum mx_error kind);

/* How many bytes an array has; -1 after mx_fail, which names the offset, where they are too many. */
int64_t load_bytes(const struct source *from, uint64_t offset, int ndim, const int *shape, enum dtype t);

/* All n bytes at an offset, or false after mx_fail. */
bool source_read(struct source *s, void *data, uint64_t n, uint64_t offset);

/* Where x is loaded and not evaluated yet: the rows first .. first + count of its axis, and of those
 * before it the one element that they have, as an array of their own; else NULL. */
mx load_rows(mx x, int axis, const int *first, int count);

/* Makes elements of the bytes that were read: swapped if need be, and bool from bytes that may be any. */
void load_finish(void *data, size_t bytes, enum dtype t, bool swap);

#endif
