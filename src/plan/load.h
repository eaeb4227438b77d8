/* load.h: elements of a source into memory. */
#ifndef MX_PLAN_LOAD_H
#define MX_PLAN_LOAD_H

#include "ops/load.h"

/* n bytes from an offset inside of the source, as elements of the type, of which they are a whole number; by several
 * threads where the source allows it.  Non-zero after mx_fail. */
int load_read(struct source *from, void *to, uint64_t n, uint64_t offset, enum dtype t, bool swap);
static inline bool load_in_parts(const struct source *from) { return from->in_parts || from->bytes; }

#endif
