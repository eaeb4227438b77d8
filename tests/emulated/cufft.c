/* cufft.c: cuFFT as src/cuda knows it, in double, by the sums that define the transform, of the prime factors of a
 * length one after the other.  PRETEND in the environment says how it fails: no_handle, wrong_transform, or the name of
 * one of its functions, which gives an error for plans that come after those of the trial. */
#include <math.h>
#include <stdint.h>

#include "cuda/cufft.h"
#include "emulated/pretended.h"

#define FFT(name, symbol, args) EXPORTED int fft_##name args __asm__(symbol);
#include "cuda/cufft.def"

/* Transforms so far, complex ones, of real numbers and back to them, the plans that there are, and how many of the
 * transforms were of two axes; for tests. */
extern EXPORTED int emulated_transforms[5];
int emulated_transforms[5];

enum { MOST = 512, TRIALS = 3, AREA = 1 << 10 };
static struct fft_plan {
    bool there, made, ours; /* ours: the area is given to it */
    int type;
    int64_t lines, n, rows;
    struct cufft_side from, to;
    void *stream, *area;
} plans[MOST];
static int created;

static struct fft_plan *plan_of(int plan)
{
    expect(plan >= 1 && plan < MOST && plans[plan].there, "a plan");
    return &plans[plan];
}
static bool fails(int plan, const char *symbol) { return plan > TRIALS && pretends(symbol); }

int fft_create(int *plan)
{
    *plan = __atomic_add_fetch(&created, 1, __ATOMIC_RELAXED);
    expect(*plan < MOST, "fewer plans");
    if (fails(*plan, "cufftCreate") || pretends("no_handle"))
        return CUFFT_INTERNAL_ERROR;
    plans[*plan] = (struct fft_plan){ .there = true };
    __atomic_fetch_add(&emulated_transforms[3], 1, __ATOMIC_RELAXED);
    return 0;
}
int fft_destroy(int plan)
{
    plan_of(plan)->there = false;
    __atomic_fetch_sub(&emulated_transforms[3], 1, __ATOMIC_RELAXED);
    return 0;
}
int fft_allocates(int plan, int yes)
{
    struct fft_plan *p = plan_of(plan);
    expect(!p->made && !yes, "a plan whose area is given to it");
    p->ours = true;
    return fails(plan, "cufftSetAutoAllocation") ? CUFFT_INTERNAL_ERROR : 0;
}

/* Rows behind each other, or columns side by side. */
static int apart(const struct cufft_side *s, int64_t lines, int64_t length, int64_t rows)
{
    int64_t all = ((lines - 1) * s->line + length) * s->apart;
    return rows == 1 || s->row >= all - s->apart + 1 || (lines == 1 && s->row > 0 && s->row * rows <= s->apart);
}

int fft_make(int plan, int rank, long long *n, long long *x_sizes, long long x_step, long long x_row,
             long long *y_sizes, long long y_step, long long y_row, int type, long long rows, size_t *bytes)
{
    struct fft_plan *p = plan_of(plan);
    expect(!p->made && p->ours && (rank == 1 || rank == 2) && rows > 0, "rows, or two axes");
    int64_t lines = rank == 2 ? n[0] : 1, length = n[rank - 1], half = length / 2 + 1;
    int64_t x_length = type == CUFFT_C2R ? half : length, y_length = type == CUFFT_R2C ? half : length;
    struct cufft_side from = { x_step, x_sizes[rank - 1], x_row }, to = { y_step, y_sizes[rank - 1], y_row };
    expect(lines > 0 && length > 0, "lengths");
    expect(type == CUFFT_C2C || type == CUFFT_R2C || (type == CUFFT_C2R && rank == 1), "a type that is known");
    expect(from.apart > 0 && to.apart > 0 && from.line >= x_length && to.line >= y_length, "lines as long as they are");
    expect(apart(&from, lines, x_length, rows) && apart(&to, lines, y_length, rows), "rows that do not overlap");
    *p = (struct fft_plan){ true, true, true, type, lines, length, rows, from, to, NULL, NULL };
    *bytes = length % 2 ? AREA : 0;
    return fails(plan, "cufftMakePlanMany64") ? CUFFT_INTERNAL_ERROR : 0;
}
int fft_set_stream(int plan, void *stream)
{
    plan_of(plan)->stream = stream;
    return fails(plan, "cufftSetStream") ? CUFFT_INTERNAL_ERROR : 0;
}
int fft_set_area(int plan, void *area)
{
    plan_of(plan)->area = area;
    return fails(plan, "cufftSetWorkArea") ? CUFFT_INTERNAL_ERROR : 0;
}

/* y of n from x, `apart` from each other; roots: of the whole length, whose number is n `apart`. */
static void transform(double (*y)[2], const double (*x)[2], int64_t n, int64_t apart, const double (*roots)[2],
                      double (*room)[2])
{
    int64_t p = 2, m;
    if (n == 1) {
        memcpy(y, x, sizeof *y);
        return;
    }
    while (n % p) p++;
    m = n / p;
    for (int64_t j = 0; j < p; j++) transform(room + j * m, x + j * apart, m, apart * p, roots, y + j * m);
    for (int64_t k = 0; k < n; k++) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < p; j++) {
            const double *w = roots[j * k % n * apart], *u = room[j * m + k % m];
            re += w[0] * u[0] - w[1] * u[1];
            im += w[0] * u[1] + w[1] * u[0];
        }
        y[k][0] = re;
        y[k][1] = im;
    }
}

/* n numbers `apart` from each other, where they are. */
static void along(double (*x)[2], int64_t n, int64_t apart, int direction)
{
    double(*roots)[2] = malloc((size_t)n * 4 * sizeof *roots), (*in)[2] = roots + n, (*out)[2] = in + n;
    for (int64_t k = 0; k < n; k++) {
        roots[k][0] = cos(2 * 3.14159265358979323846 * (double)k / (double)n);
        roots[k][1] = direction * sin(2 * 3.14159265358979323846 * (double)k / (double)n);
        memcpy(in[k], x[k * apart], sizeof *in);
    }
    transform(out, (const double(*)[2])in, n, 1, (const double(*)[2])roots, out + n);
    for (int64_t k = 0; k < n; k++) memcpy(x[k * apart], out[k], sizeof *out);
    free(roots);
}

static int run(int plan, const char *symbol, int type, void *x, void *y, int direction)
{
    struct fft_plan *p = plan_of(plan);
    int64_t n = p->n, half = n / 2 + 1, x_length = type == CUFFT_C2R ? half : n,
            y_length = type == CUFFT_R2C ? half : n;
    expect(p->made && p->type == type && p->stream, "a plan that is made for it, and a stream");
    expect(x && y && x != y && (uintptr_t)x % 8 == 0 && (uintptr_t)y % 8 == 0, "memory for complex numbers");
    expect(n % 2 == 0 || p->area, "the work area asked for");
    await_copies(p->stream);
    if (p->area)
        memset(p->area, 0xff, AREA);
    p->area = NULL;
    if (fails(plan, symbol))
        return CUFFT_EXEC_FAILED;
    double(*all)[2] = malloc((size_t)(p->lines * n) * sizeof *all);
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t i = 0; i < p->lines; i++)
            for (int64_t k = 0; k < n; k++) {
                bool other = k >= x_length;
                int64_t at = r * p->from.row + (i * p->from.line + (other ? n - k : k)) * p->from.apart;
                const float *from = (const float *)x + (type == CUFFT_R2C ? 1 : 2) * at;
                all[i * n + k][0] = from[0];
                all[i * n + k][1] = type == CUFFT_R2C ? 0 : other ? -from[1] : from[1];
            }
        expect(type != CUFFT_C2R || (all[0][1] == 0 && (n % 2 || all[n / 2][1] == 0)), "real numbers at the ends");
        for (int64_t k = 0; type == CUFFT_C2R && k < half; k++) /* it may */
            memset((float *)x + 2 * (r * p->from.row + k * p->from.apart), 0xff, 8);
        for (int64_t i = 0; i < p->lines; i++) along(all + i * n, n, 1, direction);
        for (int64_t k = 0; k < n && p->lines > 1; k++) along(all + k, p->lines, n, direction);
        if (pretends("wrong_transform"))
            all[1][0] += 1;
        for (int64_t i = 0; i < p->lines; i++)
            for (int64_t k = 0; k < y_length; k++) {
                int64_t at = r * p->to.row + (i * p->to.line + k) * p->to.apart;
                float *to = (float *)y + (type == CUFFT_C2R ? 1 : 2) * at;
                to[0] = (float)all[i * n + k][0];
                if (type != CUFFT_C2R)
                    to[1] = (float)all[i * n + k][1];
            }
    }
    free(all);
    __atomic_fetch_add(&emulated_transforms[type == CUFFT_C2C ? 0 : type == CUFFT_R2C ? 1 : 2], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&emulated_transforms[4], p->lines > 1, __ATOMIC_RELAXED);
    return 0;
}

int fft_complex(int plan, void *x, void *y, int direction)
{
    expect(direction == CUFFT_FORWARD || direction == CUFFT_INVERSE, "a direction");
    return run(plan, "cufftExecC2C", CUFFT_C2C, x, y, direction);
}
int fft_from_real(int plan, void *x, void *y) { return run(plan, "cufftExecR2C", CUFFT_R2C, x, y, CUFFT_FORWARD); }
int fft_to_real(int plan, void *x, void *y) { return run(plan, "cufftExecC2R", CUFFT_C2R, x, y, CUFFT_INVERSE); }
