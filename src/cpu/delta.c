/* delta.c: gated delta networks on the CPU: a head at a time through its steps.
 *
 * The state is kept turned, with the columns of V side by side, so that every loop runs along a row. */
#include "ops/delta.h"

#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "cpu/kernels/norm.h"
#include "cpu/run.h"

struct delta_job {
    enum dtype t;
    const char *q, *k, *v, *gamma, *beta, *state;
    const uint8_t *mask;
    char *y, *last, *space; /* space: for each head a turned state, one row, and gamma for each column */
    int64_t steps, heads, kv, d, e;
    bool wide; /* gamma has one for each column */
};

static void delta_heads(void *ctx, int64_t begin, int64_t end)
{
    const struct delta_job *j = ctx;
    size_t w = dtype_size(j->t);
    transpose_fn *turn = cpu->transpose[w == 8 ? 3 : 2];
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / j->heads, h = i % j->heads, kv = h / (j->heads / j->kv);
        char *s = j->space + (size_t)(i * ((j->d + 1) * j->e + j->d)) * w, *row = s + (size_t)(j->d * j->e) * w;
        char *same = row + (size_t)j->e * w;
        size_t state = (size_t)(i * j->d * j->e) * w, d = (size_t)j->d, e = (size_t)j->e;
        turn(s, j->e, j->state + state, j->d, d, e);
        for (int64_t t = 0; t < j->steps; t++) {
            size_t at = (size_t)((b * j->steps + t) * j->heads + h);
            size_t from = (size_t)((b * j->steps + t) * j->kv + kv) * d * w;
            for (size_t c = 0; !j->wide && c < d; c++) memcpy(same + c * w, j->gamma + at * w, w);
            if (j->mask && !j->mask[b * j->steps + t])
                memset(j->y + at * e * w, 0, e * w);
            else
                cpu->norm->delta_step[j->t](j->y + at * e * w, s, row, j->q + from, j->k + from, j->v + at * e * w,
                                            j->wide ? j->gamma + at * d * w : same, j->beta + at * w, d, e);
        }
        turn(j->last + state, j->d, s, j->e, e, d);
    }
}

int run_gated_delta(const struct run *r)
{
    MX_SCOPE(NULL);
    mx_own hold[7] = { { NULL } };
    mx x[7] = { NULL };
    bool failed = out_new(r, 0) || out_new(r, 1);
    for (int i = 0; i < r->nin && !failed; i++) failed = is_nil(x[i] = row_major(r->x[i], &hold[i]));
    if (!failed && r->y[1]->size == 0) {
        memset(host(r->y[0]), 0, (size_t)nbytes(r->y[0]));
    } else if (!failed) {
        struct delta_job j = { .t = r->y[1]->dtype,
                               .q = host(x[0]),
                               .k = host(x[1]),
                               .v = host(x[2]),
                               .gamma = host(x[3]),
                               .beta = host(x[4]),
                               .state = host(x[5]),
                               .mask = x[6] ? host(x[6]) : NULL,
                               .y = host(r->y[0]),
                               .last = host(r->y[1]),
                               .steps = dim(x[2], 1),
                               .heads = dim(x[2], 2),
                               .kv = dim(x[1], 2),
                               .d = dim(x[1], 3),
                               .e = dim(x[2], 3),
                               .wide = dim(x[3], 3) == dim(x[1], 3) };
        int64_t count = dim(x[2], 0) * j.heads;
        j.space = mx_malloc((size_t)(count * ((j.d + 1) * j.e + j.d)) * dtype_size(j.t));
        failed = !j.space;
        if (!failed)
            pool_for(count, 1, delta_heads, &j);
        free(j.space);
    }
    for (int i = 0; i < 7; i++) mx_drop(&hold[i]);
    return failed;
}
