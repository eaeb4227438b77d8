/* load.c: copying elements that are not aligned in the memory they come from. */
#include "ops/load.h"

#include <string.h>

#include "cpu/run.h"

int run_load(const struct run *r)
{
    const struct load_args *a = r->args;
    mx y = r->y[0];
    if (out_new(r, 0))
        return 1;
    const uint8_t *from = ((const struct source *)a->from)->bytes + a->offset;
    if (y->dtype == DT_bool_)
        for (int64_t i = 0; i < y->size; i++) ((uint8_t *)host(y))[i] = from[i] != 0;
    else
        memcpy(host(y), from, (size_t)nbytes(y));
    return 0;
}
