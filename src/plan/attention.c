/* attention.c: see attention.h. */
#include "plan/attention.h"

void attention_plan_of(struct attention_plan *p, const struct attention_args *a, const mx x[])
{
    mx q = x[ATTENTION_Q], k = x[ATTENTION_K], v = x[ATTENTION_V];
    *p = (struct attention_plan){ .a = a,
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .mask = a->mask ? x[3] : NULL,
                                  .sinks = a->sinks ? x[3 + a->mask] : NULL,
                                  .batch = 1,
                                  .heads = dim(q, -3),
                                  .kv = dim(k, -3),
                                  .group = dim(q, -3) / dim(k, -3),
                                  .length = dim(q, -2),
                                  .keys = dim(k, -2),
                                  .d = dim(q, -1),
                                  .e = dim(v, -1) };
    for (int i = 0; i < q->ndim - 3; i++) p->batch *= q->shape[i];
}

bool attention_gapless(mx x) { return x->strides[x->ndim - 1] == 1 || dim(x, -1) == 1; }
