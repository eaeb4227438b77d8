/* attention.h: the operands and sizes of attention. */
#ifndef MX_PLAN_ATTENTION_H
#define MX_PLAN_ATTENTION_H

#include "core/array.h"
#include "ops/attention.h"

struct attention_plan {
    const struct attention_args *a;
    mx q, k, v, mask, sinks; /* those of the node; NULL: none */
    int64_t batch, heads, kv,
        group;                  /* all before the heads; heads of queries and of keys; of queries for one of keys */
    int64_t length, keys, d, e; /* queries; columns of K and of V */
};

/* x: the operands of attention or of its derivative. */
void attention_plan_of(struct attention_plan *p, const struct attention_args *a, const mx x[]);

/* May x be read by rows without gaps? */
bool attention_gapless(mx x);

#endif
