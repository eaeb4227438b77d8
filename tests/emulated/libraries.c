/* libraries.c: NVIDIA's libraries as src/cuda knows them, in one file, for the emulated driver: the versions that they
 * tell, products of matrices by cuBLASLt, and what cuSOLVER does, by LAPACK; cuFFT is in cufft.c.  PRETEND in the
 * environment says how it fails: no_handle, wrong (results), no_algorithm, unsupported, fails (products, and matrices,
 * of more than the trial's size), no_eig (cuSOLVER is an older one), slow (matrices of more than the trial's size do
 * not converge), no_rotations (its rotations do not). */
#include <stdint.h>

#include "core/dtype.h"
#include "core/hash.h"
#include "emulated/pretended.h"
#include "shared/scalar.h"

#include "cuda/cublaslt.h"
#include "cuda/cusolver.h"

#define LT(name, symbol, args) EXPORTED int name args __asm__(symbol);
#include "cuda/cublaslt.def"
#define SOLVER(name, symbol, args) EXPORTED int solver_##name args __asm__(symbol);
#define SOLVER_LATER(name, symbol, args) EXPORTED int solver_##name args __asm__(symbol);
#define SOLVER_TYPES(name, of_float32, of_float64, of_complex64, args) \
    EXPORTED int solver_##name##_s args __asm__(of_float32);           \
    EXPORTED int solver_##name##_d args __asm__(of_float64);           \
    EXPORTED int solver_##name##_c args __asm__(of_complex64);
#include "cuda/cusolver.def"

EXPORTED size_t cublasLtGetVersion(void);
EXPORTED int cufftGetVersion(int *v);
EXPORTED int cusolverGetVersion(int *v);
EXPORTED int nvrtcVersion(int *major, int *minor);
EXPORTED int ncclGetVersion(int *v);
size_t cublasLtGetVersion(void) { return 120805; }
int cufftGetVersion(int *v) { return *v = 11303, 0; }
int cusolverGetVersion(int *v) { return *v = 11703, 0; }
int nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 8, 0; }
int ncclGetVersion(int *v) { return *v = 22703, 0; }

/* Products so far, of which so many with a bias, with TF32, asked about, with relu, of what is aligned to 16 bytes; for
 * tests. */
extern EXPORTED int emulated_products[6];
int emulated_products[6];

struct product {
    int compute, turned[2], epilogue;
    const void *bias;
};
struct layout {
    int type, batches;
    uint64_t rows, columns;
    int64_t step, batch;
};
struct preference {
    uint64_t workspace;
    uint32_t reductions, alignment[4];
};
static const size_t WORKSPACE = 1 << 16;

int create(void **handle)
{
    return *handle = emulated_products, pretends("no_handle") ? CUBLAS_STATUS_NOT_INITIALIZED : 0;
}
int product_create(void **product, int compute, int scale)
{
    struct product *p = *product = calloc(1, sizeof *p);
    expect(scale == CUDA_R_32F && (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32),
           "sums in float32");
    *p = (struct product){ .compute = compute, .epilogue = CUBLASLT_EPILOGUE_NONE };
    return 0;
}
int product_destroy(void *product) { return free(product), 0; }
int product_set(void *product, int what, const void *v, size_t bytes)
{
    struct product *p = product;
    switch (what) {
    case CUBLASLT_PRODUCT_TURN_A:
    case CUBLASLT_PRODUCT_TURN_B: memcpy(&p->turned[what - CUBLASLT_PRODUCT_TURN_A], v, sizeof(int)); break;
    case CUBLASLT_PRODUCT_EPILOGUE: memcpy(&p->epilogue, v, sizeof(int)); break;
    case CUBLASLT_PRODUCT_BIAS: memcpy(&p->bias, v, sizeof(void *)); break;
    default: expect(false, "an attribute of products that is known");
    }
    expect(bytes == (what == CUBLASLT_PRODUCT_BIAS ? 8 : 4), "an attribute of its size");
    return 0;
}
int layout_create(void **layout, int type, uint64_t rows, uint64_t columns, int64_t step)
{
    struct layout *l = *layout = calloc(1, sizeof *l);
    expect(rows && columns && step >= (int64_t)rows, "columns that do not overlap");
    *l = (struct layout){ type, 1, rows, columns, step, 0 };
    return 0;
}
int layout_destroy(void *layout) { return free(layout), 0; }
int layout_set(void *layout, int what, const void *v, size_t bytes)
{
    struct layout *l = layout;
    expect(what == CUBLASLT_LAYOUT_BATCH_COUNT ? bytes == 4 : what == CUBLASLT_LAYOUT_BATCH_STEP && bytes == 8,
           "an attribute of layouts that is known");
    if (what == CUBLASLT_LAYOUT_BATCH_COUNT)
        memcpy(&l->batches, v, bytes);
    else
        memcpy(&l->batch, v, bytes);
    return 0;
}
int preference_create(void **preference)
{
    struct preference *p = *preference = calloc(1, sizeof *p);
    for (int i = 0; i < 4; i++) p->alignment[i] = 256;
    return 0;
}
int preference_destroy(void *preference) { return free(preference), 0; }
int preference_set(void *preference, int what, const void *v, size_t bytes)
{
    struct preference *p = preference;
    int i = what - CUBLASLT_PREFER_ALIGNMENT;
    expect(bytes == (what == CUBLASLT_PREFER_WORKSPACE ? 8 : 4), "a preference of its size");
    if (what == CUBLASLT_PREFER_WORKSPACE)
        memcpy(&p->workspace, v, bytes);
    else if (what == CUBLASLT_PREFER_REDUCTIONS)
        memcpy(&p->reductions, v, bytes);
    else
        memcpy(&p->alignment[i >= 0 && i < 4 ? i : (abort(), 0)], v, bytes);
    return 0;
}

/* The algorithm remembers what it relies on: alignments, sizes. */
int heuristic(void *handle, void *product, void *a, void *b, void *c, void *d, void *preference, int asked,
              struct cublaslt_choice *choices, int *found)
{
    const struct product *p = product;
    const struct preference *q = preference;
    const struct layout *x = a, *y = b, *z = d, *plus = c;
    uint64_t m = p->turned[0] ? x->columns : x->rows, k = p->turned[0] ? x->rows : x->columns;
    uint64_t n = p->turned[1] ? y->rows : y->columns;
    bool small = m * n * k <= 4096;
    expect(handle == emulated_products && asked == 1 && (p->turned[1] ? y->columns : y->rows) == k,
           "operands that fit");
    expect(z->rows == m && z->columns == n && plus->rows == m && plus->columns == n, "a result that fits");
    expect(x->batches == z->batches && y->batches == z->batches && plus->batches == z->batches, "batches that fit");
    expect(small || q->reductions == CUBLASLT_REDUCE_IN_COMPUTE_TYPE, "sums in float32");
    __atomic_fetch_add(&emulated_products[3], 1, __ATOMIC_RELAXED);
    *found = !pretends("no_algorithm") || small;
    memset(choices, 0, sizeof *choices);
    for (int i = 0; i < 4; i++) choices->algorithm.data[i] = q->alignment[i];
    uint64_t bias = (uint64_t)p->bias | 256;
    choices->algorithm.data[4] = m * n * k;
    choices->algorithm.data[5] = bias & -bias;
    choices->workspace = small || q->workspace < WORKSPACE ? 0 : WORKSPACE;
    return *found ? 0 : CUBLAS_STATUS_NOT_SUPPORTED;
}

static double element(const void *p, int type, int64_t i, bool tf32)
{
    if (type != CUDA_R_32F) {
        uint16_t h = ((const uint16_t *)p)[i];
        return type == CUDA_R_16F ? f32_from_f16(h) : f32_from_bf16(h);
    }
    uint32_t bits;
    memcpy(&bits, (const float *)p + i, sizeof bits);
    if (tf32 && (bits & 0x7f800000) != 0x7f800000)
        bits = (bits + 0x1000) & ~0x1fffu;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

struct multiplication {
    struct product product;
    struct layout layout[4];
    float by, add;
    const void *a, *b, *c;
    void *d;
};

static void multiply(const void *args)
{
    const struct multiplication *m = args;
    const struct product *p = &m->product;
    const struct layout *x = &m->layout[0], *y = &m->layout[1], *plus = &m->layout[2], *z = &m->layout[3];
    int64_t k = (int64_t)(p->turned[0] ? x->rows : x->columns);
    bool tf32 = p->compute == CUBLAS_COMPUTE_32F_FAST_TF32, biased = p->epilogue & CUBLASLT_EPILOGUE_BIAS;
    for (int64_t n = 0; n < z->batches; n++)
        for (int64_t j = 0; j < (int64_t)z->columns; j++)
            for (int64_t i = 0; i < (int64_t)z->rows; i++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum +=
                        element(m->a, x->type, n * x->batch + (p->turned[0] ? l + i * x->step : i + l * x->step),
                                tf32) *
                        element(m->b, y->type, n * y->batch + (p->turned[1] ? j + l * y->step : l + j * y->step), tf32);
                sum *= m->by;
                if (m->add != 0)
                    sum += m->add * element(m->c, plus->type, n * plus->batch + i + j * plus->step, false);
                if (biased)
                    sum += element(p->bias, z->type, i, false);
                if (p->epilogue & CUBLASLT_EPILOGUE_RELU && sum < 0)
                    sum = 0;
                if (pretends("wrong"))
                    sum += 1;
                int64_t to = n * z->batch + i + j * z->step;
                if (z->type == CUDA_R_32F)
                    ((float *)m->d)[to] = (float)sum;
                else
                    ((uint16_t *)m->d)[to] =
                        z->type == CUDA_R_16F ? f16_from_f32((float)sum) : bf16_from_f32((float)sum);
            }
}

/* What decides which kernels multiply, addresses apart. */
static uint64_t kernels_of(const struct multiplication *m, const struct cublaslt_algorithm *algorithm)
{
    struct multiplication of = *m;
    of.product.bias = of.a = of.b = of.c = of.d = NULL;
    of.by = 0;
    of.add = m->add != 0;
    return hash_bytes(hash_bytes(HASH_START, &of, sizeof of), algorithm, sizeof *algorithm);
}

int matmul(void *handle, void *product, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
           const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
           const struct cublaslt_algorithm *algorithm, void *workspace, size_t bytes, void *stream)
{
    const struct layout *of[] = { a_layout, b_layout, c_layout, d_layout }, *x = of[0], *z = of[3];
    struct multiplication m;
    const void *at[] = { a, b, c, d };
    int (*capture)(void *, void (*)(const void *), void *, size_t, uint64_t) =
        (int (*)(void *, void (*)(const void *), void *, size_t, uint64_t))of_driver("emulated_capture");
    memset(&m, 0, sizeof m);
    m.product = *(const struct product *)product;
    for (int i = 0; i < 4; i++) m.layout[i] = *of[i];
    m.by = *(const float *)alpha, m.add = *(const float *)beta;
    m.a = a, m.b = b, m.c = c, m.d = d;
    const struct product *p = &m.product;
    int64_t k = (int64_t)(p->turned[0] ? x->rows : x->columns);
    bool small = z->rows * z->columns * (uint64_t)k <= 4096;
    expect(handle && stream && algorithm->data[4] == z->rows * z->columns * (uint64_t)k, "the algorithm asked for");
    for (int i = 0; i < 4; i++) expect((uintptr_t)at[i] % algorithm->data[i] == 0, "the alignment asked for");
    if (!small && pretends("fails"))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!small && pretends("unsupported"))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    expect(small || bytes >= WORKSPACE, "the workspace asked for");
    bool biased = p->epilogue & CUBLASLT_EPILOGUE_BIAS, relu = p->epilogue & CUBLASLT_EPILOGUE_RELU, aligned = true;
    for (int i = 0; i < 4; i++) aligned &= algorithm->data[i] >= 16;
    expect(p->epilogue == CUBLASLT_EPILOGUE_NONE || !(p->epilogue & ~(CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_RELU)),
           "an epilogue that is known");
    expect(!biased || (p->bias && (uintptr_t)p->bias % algorithm->data[5] == 0), "a bias");
    int captured = capture(stream, multiply, &m, sizeof m, kernels_of(&m, algorithm));
    expect(captured == 0 || captured == 1, "a stream");
    if (captured == 1) {
        await_copies(stream);
        if (workspace)
            memset(workspace, 0xff, bytes);
        if (small || !getenv("PRETEND_IDLE"))
            multiply(&m);
    }
    int *done = emulated_products;
    __atomic_fetch_add(&done[0], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&done[1], biased, __ATOMIC_RELAXED);
    __atomic_fetch_add(&done[2], p->compute == CUBLAS_COMPUTE_32F_FAST_TF32, __ATOMIC_RELAXED);
    __atomic_fetch_add(&done[4], relu, __ATOMIC_RELAXED);
    __atomic_fetch_add(&done[5], aligned, __ATOMIC_RELAXED);
    return 0;
}

/* ---- cuSOLVER */

/* Matrices so far, of each kind of enum solver_kind; for tests. */
extern EXPORTED int emulated_solved[7];
int emulated_solved[7];

enum { ROOM = 1 << 12 };
static void *solver_stream;
static int repeatable;

static bool is_small(int64_t n) { return n <= 2; }

/* A function of LAPACK, of the type. */
static void *lapack(int type, const char *name)
{
    char symbol[64];
    void *library = dlopen("libscipy_openblas.so", RTLD_NOW | RTLD_LOCAL);
    char letter = type == CUSOLVER_R_32F ? 's' : type == CUSOLVER_R_64F ? 'd' : 'c';
    snprintf(symbol, sizeof symbol, "scipy_%c%s_", letter, name);
    void *f = library ? dlsym(library, symbol) : NULL;
    expect(f, "LAPACK");
    return f;
}

static int begun(void *handle, void *params, int64_t n, const void *room, size_t bytes, const int *info)
{
    expect(handle == emulated_solved && params == emulated_products && room && bytes == ROOM && info,
           "what was made, and the workspace asked for");
    expect(repeatable, "the mode that gives the same bits each time");
    await_copies(solver_stream);
    return !is_small(n) && pretends("fails") ? CUSOLVER_STATUS_EXECUTION_FAILED : 0;
}

int solver_create(void **handle)
{
    return *handle = emulated_solved, pretends("no_handle") ? CUSOLVER_STATUS_NOT_INITIALIZED : 0;
}
int solver_set_stream(void *handle, void *stream)
{
    return solver_stream = stream, handle && stream ? 0 : CUSOLVER_STATUS_INVALID_VALUE;
}
int solver_set_repeatable(void *handle, int mode)
{
    repeatable = mode == CUSOLVER_REPEATABLE;
    return handle ? 0 : CUSOLVER_STATUS_INVALID_VALUE;
}
int solver_params_create(void **params) { return *params = emulated_products, 0; }

int solver_eigh_room(void *handle, void *params, int vectors, int triangle, int64_t n, int a_type, const void *a,
                     int64_t lda, int w_type, const void *w, int type, size_t *bytes, size_t *host_bytes)
{
    expect(handle && params && (vectors & ~1) == 0 && (triangle & ~1) == 0 && a && w && lda >= n, "a matrix");
    expect(a_type == type && w_type == (type == CUSOLVER_R_64F ? CUSOLVER_R_64F : CUSOLVER_R_32F), "types that fit");
    return *bytes = ROOM, *host_bytes = 0, 0;
}

int solver_eigh(void *handle, void *params, int vectors, int triangle, int64_t n, int a_type, void *a, int64_t lda,
                int w_type, void *w, int type, void *room, size_t bytes, void *host_room, size_t host_bytes, int *info)
{
    int e = begun(handle, params, n, room, bytes, info), size = (int)n, step = (int)lda, most = 64 * (size + 1);
    double *work = malloc((size_t)most * 2 * sizeof *work), *real = malloc((size_t)most * sizeof *real);
    const char *job = vectors ? "V" : "N", *part = triangle == CUSOLVER_UPPER ? "U" : "L";
    (void)w_type, (void)type, (void)host_room, (void)host_bytes;
    if (!e && a_type == CUSOLVER_C_32F) {
        void (*f)(const char *, const char *, int *, void *, int *, void *, void *, int *, void *, int *, size_t,
                  size_t) = NULL;
        *(void **)&f = lapack(a_type, "heev");
        f(job, part, &size, a, &step, w, work, &most, real, info, 1, 1);
    } else if (!e) {
        void (*f)(const char *, const char *, int *, void *, int *, void *, void *, int *, int *, size_t, size_t) =
            NULL;
        *(void **)&f = lapack(a_type, "syev");
        f(job, part, &size, a, &step, w, work, &most, info, 1, 1);
    }
    free(work);
    free(real);
    if (pretends("wrong"))
        memset(w, 0, sizeof(double));
    *info = !is_small(n) && pretends("slow") ? 3 : *info;
    return emulated_solved[0]++, e;
}

int solver_svd_room(void *handle, void *params, signed char u_job, signed char vt_job, int64_t m, int64_t n, int a_type,
                    const void *a, int64_t lda, int s_type, const void *s, int u_type, const void *u, int64_t ldu,
                    int vt_type, const void *vt, int64_t ldvt, int type, size_t *bytes, size_t *host_bytes)
{
    expect(handle && params && a && s && lda >= m && m >= n, "a tall matrix");
    expect(strchr("ASN", u_job) && strchr("ASN", vt_job), "jobs that are known");
    expect((u_job == 'N' || (u && ldu >= m)) && (vt_job == 'N' || (vt && ldvt >= n)), "places for vectors");
    expect(a_type == type && u_type == type && vt_type == type, "types that fit");
    expect(s_type == (type == CUSOLVER_R_64F ? CUSOLVER_R_64F : CUSOLVER_R_32F), "real values");
    return *bytes = ROOM, *host_bytes = 100, 0;
}

int solver_svd(void *handle, void *params, signed char u_job, signed char vt_job, int64_t m, int64_t n, int a_type,
               void *a, int64_t lda, int s_type, void *s, int u_type, void *u, int64_t ldu, int vt_type, void *vt,
               int64_t ldvt, int type, void *room, size_t bytes, void *host_room, size_t host_bytes, int *info)
{
    int e = begun(handle, params, n, room, bytes, info), rows = (int)m, columns = (int)n, most = 64 * (rows + 1);
    int steps[] = { (int)lda, (int)ldu, (int)ldvt };
    double *work = malloc((size_t)most * 2 * sizeof *work), *real = malloc((size_t)most * sizeof *real);
    const char left[] = { (char)u_job, 0 }, right[] = { (char)vt_job, 0 };
    expect(host_room && host_bytes == 100, "the workspace asked for");
    (void)s_type, (void)u_type, (void)vt_type, (void)type;
    if (!e && a_type == CUSOLVER_C_32F) {
        void (*f)(const char *, const char *, int *, int *, void *, int *, void *, void *, int *, void *, int *, void *,
                  int *, void *, int *, size_t, size_t) = NULL;
        *(void **)&f = lapack(a_type, "gesvd");
        f(left, right, &rows, &columns, a, steps, s, u, steps + 1, vt, steps + 2, work, &most, real, info, 1, 1);
    } else if (!e) {
        void (*f)(const char *, const char *, int *, int *, void *, int *, void *, void *, int *, void *, int *, void *,
                  int *, int *, size_t, size_t) = NULL;
        *(void **)&f = lapack(a_type, "gesvd");
        f(left, right, &rows, &columns, a, steps, s, u, steps + 1, vt, steps + 2, work, &most, info, 1, 1);
    }
    free(work);
    free(real);
    *info = !is_small(n) && pretends("slow") ? 3 : *info;
    return emulated_solved[1]++, e;
}

static size_t size_of_type(int type) { return type == CUSOLVER_R_32F ? 4 : type == CUSOLVER_C_64F ? 16 : 8; }

int solver_eig_room(void *handle, void *params, int left, int right, int64_t n, int a_type, const void *a, int64_t lda,
                    int w_type, const void *w, int vl_type, const void *vl, int64_t ldvl, int vr_type, const void *vr,
                    int64_t ldvr, int type, size_t *bytes, size_t *host_bytes)
{
    expect(handle && params && a && w && lda >= n && !left && !vl && ldvl >= 1, "a matrix");
    expect(!right || (vr && ldvr >= n), "a place for vectors");
    expect(a_type == type && vl_type == type && vr_type == type, "types that fit");
    expect(w_type == (type == CUSOLVER_R_64F ? CUSOLVER_C_64F : CUSOLVER_C_32F), "complex values");
    await_copies(solver_stream); /* which it looks at: one that is gone ends the program */
    *bytes = ROOM;
    *host_bytes = 100;
    return pretends("no_eig") ? CUSOLVER_STATUS_NOT_SUPPORTED : 0;
}

int solver_eig(void *handle, void *params, int left, int right, int64_t n, int a_type, void *a, int64_t lda, int w_type,
               void *w, int vl_type, void *vl, int64_t ldvl, int vr_type, void *vr, int64_t ldvr, int type, void *room,
               size_t bytes, void *host_room, size_t host_bytes, int *info)
{
    int e = begun(handle, params, n, room, bytes, info), size = (int)n, step = (int)lda, one = 1,
        most = 64 * (size + 1);
    int step_of_vectors = right ? (int)ldvr : 1;
    char *work = malloc((size_t)most * 16), *real = malloc((size_t)most * 8), *imaginary = malloc((size_t)most * 8);
    const char *job = right ? "V" : "N";
    expect(host_room && host_bytes == 100, "the workspace asked for");
    (void)left, (void)w_type, (void)vl_type, (void)ldvl, (void)vr_type, (void)type;
    if (!e && a_type == CUSOLVER_C_32F) {
        void (*f)(const char *, const char *, int *, void *, int *, void *, void *, int *, void *, int *, void *, int *,
                  void *, int *, size_t, size_t) = NULL;
        *(void **)&f = lapack(a_type, "geev");
        f("N", job, &size, a, &step, w, vl, &one, vr, &step_of_vectors, work, &most, real, info, 1, 1);
    } else if (!e) {
        size_t each = size_of_type(a_type);
        void (*f)(const char *, const char *, int *, void *, int *, void *, void *, void *, int *, void *, int *,
                  void *, int *, int *, size_t, size_t) = NULL;
        *(void **)&f = lapack(a_type, "geev");
        f("N", job, &size, a, &step, real, imaginary, vl, &one, vr, &step_of_vectors, work, &most, info, 1, 1);
        for (int64_t i = 0; i < n; i++) {
            memcpy((char *)w + 2 * (size_t)i * each, real + (size_t)i * each, each);
            memcpy((char *)w + (2 * (size_t)i + 1) * each, imaginary + (size_t)i * each, each);
        }
    }
    free(work);
    free(real);
    free(imaginary);
    *info = !is_small(n) && pretends("slow") ? 3 : *info;
    return emulated_solved[2]++, e;
}

/* ---- factors, as LAPACK's */

int solver_cholesky_room(void *handle, void *params, int triangle, int64_t n, int a_type, const void *a, int64_t lda,
                         int type, size_t *bytes, size_t *host_bytes)
{
    expect(handle && params && (triangle & ~1) == 0 && a && lda >= n && a_type == type, "a matrix");
    return *bytes = ROOM, *host_bytes = 0, 0;
}

int solver_cholesky(void *handle, void *params, int triangle, int64_t n, int a_type, void *a, int64_t lda, int type,
                    void *room, size_t bytes, void *host_room, size_t host_bytes, int *info)
{
    int e = begun(handle, params, n, room, bytes, info), size = (int)n, step = (int)lda;
    void (*f)(const char *, int *, void *, int *, int *, size_t) = NULL;
    (void)type, (void)host_room, (void)host_bytes;
    *(void **)&f = lapack(a_type, "potrf");
    f(triangle == CUSOLVER_UPPER ? "U" : "L", &size, a, &step, info, 1);
    return emulated_solved[3]++, e;
}

/* What a function of a type begins with: it has no parameters, and is told of elements of its workspace. */
static int begun_with(void *handle, int n, const void *room, int elements, const int *info)
{
    return begun(handle, emulated_products, n, room, elements == ROOM / 8 ? ROOM : 0, info);
}

static int lu_room(void *handle, int m, int n, void *a, int lda, int *elements)
{
    expect(handle && a && m > 0 && n > 0 && lda >= m, "a matrix");
    return *elements = ROOM / 8, 0;
}

static int lu(int type, void *handle, int m, int n, void *a, int lda, void *room, int *pivots, int *info)
{
    int e = begun_with(handle, m > n ? m : n, room, ROOM / 8, info);
    void (*f)(int *, int *, void *, int *, int *, int *) = NULL;
    *(void **)&f = lapack(type, "getrf");
    f(&m, &n, a, &lda, pivots, info);
    return emulated_solved[4]++, e;
}

static int by_lu(int type, void *handle, int turned, int n, int columns, const void *a, int lda, const int *pivots,
                 void *b, int ldb, int *info)
{
    void (*f)(const char *, int *, int *, const void *, int *, const int *, void *, int *, int *, size_t) = NULL;
    expect(handle && !turned && ldb >= n && columns > 0, "a right side");
    *(void **)&f = lapack(type, "getrs");
    f("N", &n, &columns, a, &lda, pivots, b, &ldb, info, 1);
    return 0;
}

int solver_qr_room(void *handle, void *params, int64_t m, int64_t n, int a_type, const void *a, int64_t lda,
                   int tau_type, const void *tau, int type, size_t *bytes, size_t *host_bytes)
{
    expect(handle && params && a && tau && m > 0 && n > 0 && lda >= m && a_type == type && tau_type == type,
           "a matrix");
    return *bytes = ROOM, *host_bytes = 100, 0;
}

int solver_qr(void *handle, void *params, int64_t m, int64_t n, int a_type, void *a, int64_t lda, int tau_type,
              void *tau, int type, void *room, size_t bytes, void *host_room, size_t host_bytes, int *info)
{
    int e = begun(handle, params, n, room, bytes, info), rows = (int)m, columns = (int)n, step = (int)lda;
    int most = 64 * (columns + 1);
    void *work = malloc((size_t)most * 8);
    void (*f)(int *, int *, void *, int *, void *, void *, int *, int *) = NULL;
    (void)tau_type, (void)type;
    expect(host_room && host_bytes == 100, "the workspace asked for");
    *(void **)&f = lapack(a_type, "geqrf");
    f(&rows, &columns, a, &step, tau, work, &most, info);
    free(work);
    return emulated_solved[5]++, e;
}

static int q_room(void *handle, int m, int n, int k, const void *a, int lda, const void *tau, int *elements)
{
    expect(handle && a && tau && m >= n && n >= k && k > 0 && lda >= m, "reflections");
    return *elements = ROOM / 8, 0;
}

static int q(int type, void *handle, int m, int n, int k, void *a, int lda, const void *tau, void *room, int elements,
             int *info)
{
    int most = 64 * (n + 1);
    void *work = malloc((size_t)most * 8);
    void (*f)(int *, int *, int *, void *, int *, const void *, void *, int *, int *) = NULL;
    expect(handle && room && elements == ROOM / 8, "the workspace asked for");
    await_copies(solver_stream);
    *(void **)&f = lapack(type, type == CUSOLVER_C_32F ? "ungqr" : "orgqr");
    f(&m, &n, &k, a, &lda, tau, work, &most, info);
    free(work);
    return 0;
}

/* ---- singular values by rotations, which give V and not its adjoint */

int solver_jacobi_create(void **jacobi) { return *jacobi = calloc(1, sizeof(double)), 0; }
int solver_jacobi_tolerance(void *jacobi, double tolerance) { return *(double *)jacobi = tolerance, 0; }

static int jacobi_room(void *handle, int vectors, int thin, int m, int n, const void *a, int lda, const void *s,
                       const void *u, int ldu, const void *v, int ldv, int *elements, void *jacobi)
{
    expect(handle && a && s && lda >= m && m >= n && (vectors & ~1) == 0 && (thin & ~1) == 0, "a tall matrix");
    expect(u && v && ldu >= m && ldv >= n, "places for vectors, also where they are not asked for");
    expect(*(double *)jacobi > 0, "a tolerance");
    return *elements = ROOM / 8, 0;
}

static int jacobi(int type, void *handle, int vectors, int thin, int m, int n, void *a, int lda, void *s, void *u,
                  int ldu, void *v, int ldv, void *room, int elements, int *info, void *parameters)
{
    double least = type == CUSOLVER_R_64F ? 0x1p-52 : 0x1p-23;
    signed char left = (signed char)(vectors ? thin ? 'S' : 'A' : 'N'), right = (signed char)(vectors ? 'A' : 'N');
    char host_room[100];
    expect(*(double *)parameters == least, "the type's tolerance");
    expect(elements == ROOM / 8, "the workspace asked for");
    emulated_solved[1]--;
    if (!vectors) { /* as cuSOLVER 12 does */
        memset(u, 0xff, (size_t)ldu * (size_t)m * (type == CUSOLVER_R_32F ? 4 : 8));
        memset(v, 0xff, (size_t)ldv * (size_t)n * (type == CUSOLVER_R_32F ? 4 : 8));
    }
    int e = solver_svd(handle, emulated_products, left, right, m, n, type, a, lda, 0, s, type, u, ldu, type, v, ldv,
                       type, room, ROOM, host_room, sizeof host_room, info);
    for (int i = 0; i < n && vectors; i++)
        for (int j = 0; j <= i; j++)
            if (type == CUSOLVER_C_32F) {
                float *x = (float *)v + 2 * (i + (int64_t)j * ldv), *y = (float *)v + 2 * (j + (int64_t)i * ldv);
                float re = x[0], im = x[1];
                x[0] = y[0];
                x[1] = -y[1];
                y[0] = re;
                y[1] = -im;
            } else if (type == CUSOLVER_R_64F) {
                double *x = (double *)v + i + (int64_t)j * ldv, *y = (double *)v + j + (int64_t)i * ldv, z = *x;
                *x = *y;
                *y = z;
            } else {
                float *x = (float *)v + i + (int64_t)j * ldv, *y = (float *)v + j + (int64_t)i * ldv, z = *x;
                *x = *y;
                *y = z;
            }
    if (!is_small(n) && pretends("no_rotations")) {
        memset(s, 0, sizeof(float));
        *info = n + 1;
    }
    return emulated_solved[6]++, e;
}

/* The functions of one type, which have its letter. */
#define OF_TYPE(t, type)                                                                                               \
    int solver_lu_room_##t(void *handle, int m, int n, void *a, int lda, int *elements)                                \
    {                                                                                                                  \
        return lu_room(handle, m, n, a, lda, elements);                                                                \
    }                                                                                                                  \
    int solver_lu_##t(void *handle, int m, int n, void *a, int lda, void *room, int *pivots, int *info)                \
    {                                                                                                                  \
        return lu(type, handle, m, n, a, lda, room, pivots, info);                                                     \
    }                                                                                                                  \
    int solver_by_lu_##t(void *handle, int turned, int n, int columns, const void *a, int lda, const int *pivots,      \
                         void *b, int ldb, int *info)                                                                  \
    {                                                                                                                  \
        return by_lu(type, handle, turned, n, columns, a, lda, pivots, b, ldb, info);                                  \
    }                                                                                                                  \
    int solver_q_room_##t(void *handle, int m, int n, int k, const void *a, int lda, const void *tau, int *elements)   \
    {                                                                                                                  \
        return q_room(handle, m, n, k, a, lda, tau, elements);                                                         \
    }                                                                                                                  \
    int solver_q_##t(void *handle, int m, int n, int k, void *a, int lda, const void *tau, void *room, int elements,   \
                     int *info)                                                                                        \
    {                                                                                                                  \
        return q(type, handle, m, n, k, a, lda, tau, room, elements, info);                                            \
    }                                                                                                                  \
    int solver_jacobi_room_##t(void *handle, int vectors, int thin, int m, int n, const void *a, int lda,              \
                               const void *s, const void *u, int ldu, const void *v, int ldv, int *elements,           \
                               void *parameters)                                                                       \
    {                                                                                                                  \
        return jacobi_room(handle, vectors, thin, m, n, a, lda, s, u, ldu, v, ldv, elements, parameters);              \
    }                                                                                                                  \
    int solver_jacobi_##t(void *handle, int vectors, int thin, int m, int n, void *a, int lda, void *s, void *u,       \
                          int ldu, void *v, int ldv, void *room, int elements, int *info, void *parameters)            \
    {                                                                                                                  \
        return jacobi(type, handle, vectors, thin, m, n, a, lda, s, u, ldu, v, ldv, room, elements, info, parameters); \
    }
OF_TYPE(s, CUSOLVER_R_32F)
OF_TYPE(d, CUSOLVER_R_64F)
OF_TYPE(c, CUSOLVER_C_32F)
