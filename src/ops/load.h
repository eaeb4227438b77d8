/* load.h: arrays whose bytes lie in memory that somebody else owns, such as a file that is mapped. */
#ifndef MX_OPS_LOAD_H
#define MX_OPS_LOAD_H

#include "ops/op.h"

/* Readable bytes for as long as somebody holds the object. */
struct source {
    struct object object;
    const uint8_t *bytes;
    uint64_t size;
};

struct load_args {
    struct object *from; /* struct source */
    int64_t offset;      /* in bytes; the whole array lies inside of the source */
    struct ints shape;
    unsigned dtype;
};

/* The array whose row-major elements start at an offset, which together the source must have.  Its
 * memory is the source's where elements are aligned; else, and for bool, whose bytes may be any, they
 * are copied when the array is first evaluated.  A few bytes are copied at once. */
mx mx_load(struct source *from, uint64_t offset, int ndim, const int *shape, enum dtype t);

#endif
