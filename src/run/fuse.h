/* fuse.h: which entries of a tape run as one.
 *
 * Element-wise entries that read each other's results form groups, and a group is computed in one
 * pass over its operands: what lies between two members never reaches memory unless somebody still
 * holds it.  A group runs at the place of its last member, so no entry in between may read what a
 * member makes. */
#ifndef MX_RUN_FUSE_H
#define MX_RUN_FUSE_H

#include "run/backend.h"
#include "transform/walk.h"

/* On unless the environment says MLX_FUSE=0, compiling is set to leave fusing out, or results are looked at one by one
 * (run/check.h). */
bool mx_fuse_enabled(void);
void mx_fuse_enable(bool on);

/* Arrays of fewer elements are not fused: a pass over them stays in the nearest cache and costs less
 * than planning one for several, but on devices (fuses_small).  Returns the former number; tests want 1. */
int64_t mx_fuse_least(int64_t elements);

/* Fills `from` and, where they are not as for entries that run alone, `waits` and `before` of n
 * entries in order.  Their outputs carry the mark of `walk`, and as slot the number of their entry,
 * `first` and up.  Under the graph lock.  Non-zero after mx_fail. */
int fuse_plan(int n, struct entry *e, uint32_t walk, int first);

#endif
