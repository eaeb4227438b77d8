/* cufft.c: cuFFT as src/cuda knows it, in double, by the sums that define the transform, of the prime factors of a
 * length one after the other.  PRETEND in the environment says how it fails: no_handle, wrong_transform, or the name of
 * one of its functions, which gives an error for plans that come after those of the trial. */
#include <math.h>
#include <stdint.h>

#include "cuda/cufft.h"
#include "emulated/pretended.h"

#define FFT(name, symbol, args) EXPORTED int fft_##name args __asm__(symbol);
#include "cuda/cufft.def"

/* Transforms so far, complex ones, of real numbers and back to them, and the plans that there are; for tests. */
extern EXPORTED int emulated_transforms[4];
int emulated_transforms[4];

enum { MOST = 512, TRIALS = 3, AREA = 1 << 10 };
static struct fft_plan {
    bool there, made, ours; /* ours: the area is given to it */
    int type;
    int64_t n, rows, step;
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

int fft_make(int plan, int rank, long long *n, long long *x_sizes, long long x_step, long long x_row,
             long long *y_sizes, long long y_step, long long y_row, int type, long long rows, size_t *bytes)
{
    struct fft_plan *p = plan_of(plan);
    long long half = n[0] / 2 + 1, x_length = type == CUFFT_C2R ? half : n[0],
              y_length = type == CUFFT_R2C ? half : n[0];
    expect(!p->made && p->ours && rank == 1 && n[0] > 0 && rows > 0, "rows");
    expect(type == CUFFT_C2C || type == CUFFT_R2C || type == CUFFT_C2R, "a type that is known");
    expect(x_step == 1 && y_step == 1 && x_sizes[0] == x_length && y_sizes[0] == y_length, "numbers beside each other");
    expect(x_row >= x_length && y_row == y_length, "rows that do not overlap");
    *p = (struct fft_plan){ true, true, true, type, n[0], rows, x_row, NULL, NULL };
    *bytes = n[0] % 2 ? AREA : 0;
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

static int run(int plan, const char *symbol, int type, void *x, void *y, int direction)
{
    struct fft_plan *p = plan_of(plan);
    int64_t n = p->n, half = n / 2 + 1, x_length = type == CUFFT_C2R ? half : n;
    expect(p->made && p->type == type && p->stream, "a plan that is made for it, and a stream");
    expect(x && y && x != y && (uintptr_t)x % 8 == 0 && (uintptr_t)y % 8 == 0, "memory for complex numbers");
    expect(n % 2 == 0 || p->area, "the work area asked for");
    await_copies(p->stream);
    if (p->area)
        memset(p->area, 0xff, AREA);
    p->area = NULL;
    if (fails(plan, symbol))
        return CUFFT_EXEC_FAILED;
    double(*roots)[2] = malloc((size_t)n * 3 * sizeof *roots), (*in)[2] = roots + n, (*out)[2] = in + n;
    double(*room)[2] = malloc((size_t)n * sizeof *room);
    for (int64_t k = 0; k < n; k++) {
        roots[k][0] = cos(2 * 3.14159265358979323846 * (double)k / (double)n);
        roots[k][1] = direction * sin(2 * 3.14159265358979323846 * (double)k / (double)n);
    }
    for (int64_t r = 0; r < p->rows; r++) {
        float *from = (float *)x + r * p->step * (type == CUFFT_R2C ? 1 : 2);
        float *to = (float *)y + r * (type == CUFFT_C2R ? n : type == CUFFT_R2C ? 2 * half : 2 * n);
        for (int64_t k = 0; k < n; k++) {
            bool other = k >= x_length;
            int64_t at = other ? n - k : k;
            in[k][0] = type == CUFFT_R2C ? from[at] : from[2 * at];
            in[k][1] = type == CUFFT_R2C ? 0 : other ? -from[2 * at + 1] : from[2 * at + 1];
        }
        expect(type != CUFFT_C2R || (in[0][1] == 0 && (n % 2 || in[n / 2][1] == 0)), "real numbers at the ends");
        if (type == CUFFT_C2R) /* it may */
            memset(from, 0xff, (size_t)half * 8);
        transform(out, (const double(*)[2])in, n, 1, (const double(*)[2])roots, room);
        if (pretends("wrong_transform"))
            out[1][0] += 1;
        for (int64_t k = 0; k < (type == CUFFT_R2C ? half : n); k++) {
            if (type == CUFFT_C2R) {
                to[k] = (float)out[k][0];
                continue;
            }
            to[2 * k] = (float)out[k][0];
            to[2 * k + 1] = (float)out[k][1];
        }
    }
    free(roots);
    free(room);
    __atomic_fetch_add(&emulated_transforms[type == CUFFT_C2C ? 0 : type == CUFFT_R2C ? 1 : 2], 1, __ATOMIC_RELAXED);
    return 0;
}

int fft_complex(int plan, void *x, void *y, int direction)
{
    expect(direction == CUFFT_FORWARD || direction == CUFFT_INVERSE, "a direction");
    return run(plan, "cufftExecC2C", CUFFT_C2C, x, y, direction);
}
int fft_from_real(int plan, void *x, void *y) { return run(plan, "cufftExecR2C", CUFFT_R2C, x, y, CUFFT_FORWARD); }
int fft_to_real(int plan, void *x, void *y) { return run(plan, "cufftExecC2R", CUFFT_C2R, x, y, CUFFT_INVERSE); }
