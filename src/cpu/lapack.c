/* lapack.c: the factorizations of cpu/linalg.h, by LAPACK, for each type. */
#include <complex.h>
#include <dlfcn.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/pool.h"
#include "core/sizes.h"
#include "cpu/kernels.h"
#include "cpu/kernels/factor.h"
#include "cpu/kernels/gemm.h"
#include "cpu/linalg.h"
#include "ops/linalg.h"

#ifndef CMPLXF /* glibc has it for GCC alone */
#define CMPLXF(re, im) __builtin_complex((float)(re), (float)(im))
#endif

enum {
    LARGE = 128,        /* rows and columns from which on a matrix is cut up */
    MANY = 16,          /* right sides that are worth products */
    PANEL = SOLVE_ROWS, /* columns; this and STRIP are multiples of what products hold in registers */
    STRIP = 96,
    MOST_ROWS = 12, /* of those */
    MOST_COLUMNS = 64,
    NARROW = 32, /* right sides that a thread solves for, at least; STRIP where those are MANY_STRIPS */
    MANY_STRIPS = 32,
    CHUNK = 64, /* rows or columns of a pass through a matrix that one thread takes */
};

/* Are matrices so large that they are cut up?  The job gets to know it with its sizes. */
static bool cut_up(struct linalg_job *j, const struct scratch *s)
{
    bool large = j->m >= LARGE && j->n >= LARGE;
    if (!s->p)
        j->shares = large;
    return large;
}

/* Right of a panel: strips, the first of which is the next panel. */
struct columns_part {
    int at, wide;
};

static int64_t strips_right_of(int first, int n)
{
    return (n > first) + ceil_div(greatest(n - first - PANEL, 0), STRIP);
}

static struct columns_part strip_right_of(int first, int n, int64_t i)
{
    int at = first + (int)(i ? PANEL + (i - 1) * STRIP : 0);
    return (struct columns_part){ at, (int)least(i ? STRIP : PANEL, n - at) };
}

/* Tile t of a triangle of tiles, whose far side is not before its near one; the first is at the tip. */
struct tile_place {
    int64_t far, near;
};

static struct tile_place tile_in_triangle(int64_t t)
{
    int64_t far = (int64_t)((sqrt(8.0 * (double)t + 1) - 1) / 2);
    far += (far + 1) * (far + 2) / 2 <= t; /* the root may be rounded */
    far -= far * (far + 1) / 2 > t;
    return (struct tile_place){ far, t - far * (far + 1) / 2 };
}

/* Block i of a triangle: its rows, and the columns beside its part of the diagonal. */
struct block_rows {
    int at, rows, from, depth;
};

static struct block_rows triangle_block(int n, bool upper, int i)
{
    struct block_rows b = { .at = i * PANEL, .rows = (int)least(PANEL, n - i * PANEL) };
    b.from = upper ? b.at + b.rows : 0;
    b.depth = upper ? n - b.from : b.at;
    return b;
}

/* n bytes of scratch. */
static void *take_scratch(struct scratch *s, int64_t n)
{
    void *at = s->p ? s->p + s->used : NULL;
    s->used += (size_t)(n + 63) / 64 * 64;
    return at;
}

/* The same, where no register is across two lines of a cache. */
static void *take_aligned(struct scratch *s, int64_t n)
{
    char *p = take_scratch(s, n + 64);
    return p ? p + (64 - (uintptr_t)p % 64) % 64 : NULL;
}

/* From one column to the next of a matrix in whole registers, none at the same place of a cache as the one before. */
static int64_t band_stride(int rows) { return (ceil_div(rows, CHUNK) | 1) * CHUNK; }

/* Chunk i of rows or columns `first` to `end`: chunks begin at multiples of CHUNK. */
struct chunk {
    int at, from, to;
};

static struct chunk chunk_of(int first, int end, int64_t i)
{
    int at = first / CHUNK * CHUNK + (int)i * CHUNK;
    return (struct chunk){ at, (int)greatest(at, first), (int)least(end, at + CHUNK) };
}

static int64_t chunks_of(int first, int end) { return first < end ? ceil_div(end, CHUNK) - first / CHUNK : 0; }

static int64_t product(int64_t a, int64_t b) { return a * b; }
static int at_least_one(int n) { return n > 1 ? n : 1; }

/* A workspace that LAPACK asked for, as a number of its type, which may have been rounded down. */
static int asked(double n)
{
    n *= 1 + FLT_EPSILON;
    return n < 1 ? 1 : n < INT_MAX ? (int)n : INT_MAX;
}

/* Triangles are the other ones for LAPACK, since rows are its columns. */
static const char *uplo_of(unsigned part) { return part == PART_UPPER ? "L" : "U"; }

#define T float
#define R float
#define K(f) f##_f32
#define REAL(f) f##_f32
#define LETTER "s"
#define L(f) K(blas).f
#define LC(real, complex) K(blas).real
#define CONJ(x) (x)
#define MODULUS(x) fabs((double)(x))
#define EPSILON FLT_EPSILON
#define SMALLEST FLT_MIN
#define KERNELS cpu->factor->f32
#define IS_COMPLEX 0
#include "cpu/lapack.inc"

#define T double
#define R double
#define K(f) f##_f64
#define REAL(f) f##_f64
#define LETTER "d"
#define L(f) K(blas).f
#define LC(real, complex) K(blas).real
#define CONJ(x) (x)
#define MODULUS(x) fabs((double)(x))
#define EPSILON DBL_EPSILON
#define SMALLEST DBL_MIN
#define KERNELS cpu->factor->f64
#define IS_COMPLEX 0
#include "cpu/lapack.inc"

#define T float _Complex
#define R float
#define K(f) f##_c64
#define REAL(f) f##_f32
#define LETTER "c"
#define L(f) K(blas).f
#define LC(real, complex) K(blas).complex
#define CONJ(x) conjf(x)
#define MODULUS(x) cabs(x)
#define EPSILON FLT_EPSILON
#define SMALLEST FLT_MIN
#define IS_COMPLEX 1
#include "cpu/lapack.inc"

bool lapack_open(void *library)
{
    if (!open_f32(library) || !open_f64(library) || !open_c64(library))
        return false;
    float one = 1;
    const int n = 1;
    int info;
    blas_f32.potrf("L", &n, &one, &n, &info, 1); /* which has a buffer made */
    return true;
}
