/* delta.h: arguments of the linear attention of gated delta networks, for its runner. */
#ifndef MX_OPS_DELTA_H
#define MX_OPS_DELTA_H

#include <stdbool.h>

/* q, k (B, T, H, D), v (B, T, N, E), gamma (B, T, N, D) or (B, T, N, 1), beta (B, T, N), state (B, N, E, D), and where
 * there is one a mask (B, T) of bool: all but the mask float32 or float64.  Results: outputs
 * (B, T, N, E) and the last state. */
struct gated_delta_args {
    bool mask;
};

#endif
