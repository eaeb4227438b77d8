/* random.h: arguments of random_bits, and the process-wide state. */
#ifndef MX_OPS_RANDOM_H
#define MX_OPS_RANDOM_H

#include "ops/op.h"

struct random_bits_args {
    struct ints shape;
    int width; /* bytes */
};

/* The key that draws without one are split from. */
mx mx_random_state(void);
void mx_random_set_state(mx key);

#endif
