/* attention.h: arguments of attention, for its runner. */
#ifndef MX_OPS_ATTENTION_H
#define MX_OPS_ATTENTION_H

#include <stdbool.h>

/* attention: q (..., H, Tq, D), k (..., Hkv, Tk, D), v (..., Hkv, Tk, Dv), then, where there are
 * any, a mask (..., H, Tq, Tk) and sinks (..., H).  Results: y (..., H, Tq, Dv), and for its
 * derivative `top` and `sum` (..., H, Tq), float32 or float64: weights are exp(score - top) / sum.
 * attention_vjp: the same, then a cotangent of y, y, top and sum.
 * Results: cotangents of q, k, v and the sinks. */
struct attention_args {
    double scale;
    bool causal, mask, sinks;
};
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V };

#endif
