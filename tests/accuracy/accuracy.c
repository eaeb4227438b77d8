/* The largest error of each element-wise function, as docs/accuracy.md shows it: every float16 and
 * bfloat16 number, and 10^8 float32 numbers spread evenly over all of them; random pairs for functions of
 * two.  Errors are in units in the last place of the true result, which long double gives.
 *
 * Without arguments it prints the table; an argument divides the number of operands, for a quick look. */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "cpu/kernels.h"
#include "support/numbers.h"
#include "support/reference.h"

enum { RUN = 4096, RUNS_EACH = 64 };

struct row {
    const char *name;
    int n;
    enum dtype_set set;
    unary_fn *const *one;
    binary_fn *const *two;
    real (*r1)(real);
    real (*r2)(real, real);
};

struct worst {
    real error;
    double a, b;
};

struct job {
    const struct row *row;
    enum dtype t;
    int64_t step;        /* between the bit patterns of neighbouring operands */
    struct worst *worst; /* one for each RUNS_EACH runs */
    int64_t total;
};

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The number of type t (float32 or a half type) with these bits, as float32. */
static float number(enum dtype t, uint64_t bits)
{
    if (t != DT_float32)
        return (float)half_value(t, (uint16_t)bits);
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, 4);
    return f;
}

static void one_run(const struct job *j, int64_t at, int64_t m, struct worst *w)
{
    float a[RUN], b[RUN], y[RUN];
    for (int64_t i = 0; i < m; i++) {
        uint64_t k = (uint64_t)(at + i);
        a[i] = number(j->t, j->row->n == 1 ? k * (uint64_t)j->step : mixed(k));
        b[i] = j->row->n == 1 ? 0 : number(j->t, mixed(~k) >> 7);
        if (j->row->n == 2 && k % 2) { /* as often numbers of ordinary size */
            a[i] = (float)((double)(mixed(k) >> 11) * 0x1p-53 * 40 - 20);
            b[i] = (float)((double)(mixed(~k) >> 11) * 0x1p-53 * 40 - 20);
            if (j->t != DT_float32)
                a[i] = (float)half_value(j->t, half_of(j->t, a[i])),
                b[i] = (float)half_value(j->t, half_of(j->t, b[i]));
        }
    }
    if (j->row->n == 1)
        j->row->one[DT_float32](y, a, (size_t)m);
    else
        j->row->two[DT_float32](y, a, 1, b, 1, (size_t)m);
    for (int64_t i = 0; i < m; i++) {
        real truth = j->row->n == 1 ? j->row->r1(a[i]) : j->row->r2(a[i], b[i]);
        real got = j->t == DT_float32 ? (real)y[i] : half_value(j->t, half_of(j->t, y[i]));
        real e = isnan(truth) && isnan(got) ? 0 : error_in_ulp(j->t, got, truth);
        if (!(e <= w->error))
            *w = (struct worst){ e, (double)a[i], (double)b[i] };
    }
}

static void runs(void *ctx, int64_t begin, int64_t end)
{
    const struct job *j = ctx;
    for (int64_t k = begin; k < end; k++)
        for (int64_t r = k * RUNS_EACH; r < (k + 1) * RUNS_EACH && r * RUN < j->total; r++)
            one_run(j, r * RUN, j->total - r * RUN < RUN ? j->total - r * RUN : RUN, &j->worst[k]);
}

static struct worst worst_of(const struct row *row, enum dtype t, int64_t total, int64_t step)
{
    int64_t pieces = (total + RUN * RUNS_EACH - 1) / (RUN * RUNS_EACH);
    struct job j = { row, t, step, calloc((size_t)pieces, sizeof(struct worst)), total };
    struct worst all = { 0 };
    if (!j.worst)
        abort();
    pool_for(pieces, 1, runs, &j);
    for (int64_t k = 0; k < pieces; k++)
        if (!(j.worst[k].error <= all.error))
            all = j.worst[k];
    free(j.worst);
    return all;
}

int main(int argc, char **argv)
{
    const struct row rows[] = {
#define UNARY(name, label, set, ...) { #name, 1, set, cpu->unary[UNARY_##name], NULL, r_##name, NULL },
#define BINARY(name, label, set, ...) { #name, 2, set, NULL, cpu->binary[BINARY_##name], NULL, r_##name },
#include "ops/ops.def"
    };
    int64_t fewer = argc > 1 ? atoll(argv[1]) : 1;
    printf(
        "| function | float16 | bfloat16 | float32 | float32 operands of the largest error |\n|---|---|---|---|---|\n");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const struct row *r = &rows[k];
        if ((r->set != INEXACT && r->set != FLOAT) || (!r->r1 && !r->r2))
            continue;
        /* The reference of erfinv is an iteration. */
        int64_t n = 100000000 / (!strcmp(r->name, "erfinv") ? 100 : r->n == 2 ? 10 : 1) / fewer;
        int64_t halves = r->n == 1 ? 65536 : n / 10;
        struct worst f16 = worst_of(r, DT_float16, halves, 1), bf16 = worst_of(r, DT_bfloat16, halves, 1);
        struct worst f32 = worst_of(r, DT_float32, n, (INT64_C(1) << 32) / n | 1);
        printf("| `%s` | %.3Lf | %.3Lf | %.3Lf | %.9g", r->name, f16.error, bf16.error, f32.error, f32.a);
        printf(r->n == 2 ? ", %.9g |\n" : " |\n", f32.b);
        fflush(stdout);
    }
    return 0;
}
