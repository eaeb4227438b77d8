/* sizes.h: arithmetic on sizes. */
#ifndef MX_CORE_SIZES_H
#define MX_CORE_SIZES_H

#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
/* How many pieces of `each` it takes for n, which is not negative. */
static inline int64_t ceil_div(int64_t n, int64_t each) { return (n + each - 1) / each; }

#endif
