/* libraries.c: NVIDIA's libraries as src/cuda knows them, in one file, for the emulated driver: the versions that they
 * tell, and products of matrices by cuBLASLt.  PRETEND in the environment says how it fails: no_handle, wrong
 * (results), no_algorithm, unsupported, fails (products of more than the trial's size). */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "shared/scalar.h"

#include "cuda/cublaslt.h"

#define EXPORTED __attribute__((visibility("default")))
#define LT(name, symbol, args) EXPORTED int name args __asm__(symbol);
#include "cuda/cublaslt.def"

EXPORTED size_t cublasLtGetVersion(void);
EXPORTED size_t cudnnGetVersion(void);
EXPORTED int cufftGetVersion(int *v);
EXPORTED int cusolverGetVersion(int *v);
EXPORTED int nvrtcVersion(int *major, int *minor);
EXPORTED int ncclGetVersion(int *v);
size_t cublasLtGetVersion(void) { return 120805; }
size_t cudnnGetVersion(void) { return 91002; }
int cufftGetVersion(int *v) { return *v = 11303, 0; }
int cusolverGetVersion(int *v) { return *v = 11703, 0; }
int nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 8, 0; }
int ncclGetVersion(int *v) { return *v = 22703, 0; }

/* Products so far, of which so many with a bias, with TF32, asked about; for tests. */
extern EXPORTED int emulated_products[4];
int emulated_products[4];

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

static bool pretends(const char *what)
{
    const char *asked = getenv("PRETEND");
    return asked && !strcmp(asked, what);
}

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "emulated cuBLASLt: expected %s\n", what);
    abort();
}

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

/* The driver makes copies of pinned memory late. */
static void await_copies(void *stream)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*wait)(void *) = driver ? (int (*)(void *))dlsym(driver, "cuStreamSynchronize") : NULL;
    expect(wait && !wait(stream), "the driver");
    if (driver)
        dlclose(driver);
}

int matmul(void *handle, void *product, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
           const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
           const struct cublaslt_algorithm *algorithm, void *workspace, size_t bytes, void *stream)
{
    const struct product *p = product;
    const struct layout *x = a_layout, *y = b_layout, *plus = c_layout, *z = d_layout;
    float by = *(const float *)alpha, add = *(const float *)beta;
    const void *at[] = { a, b, c, d };
    int64_t k = (int64_t)(p->turned[0] ? x->rows : x->columns);
    bool small = z->rows * z->columns * (uint64_t)k <= 4096, tf32 = p->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    await_copies(stream);
    expect(handle && stream && algorithm->data[4] == z->rows * z->columns * (uint64_t)k, "the algorithm asked for");
    for (int i = 0; i < 4; i++) expect((uintptr_t)at[i] % algorithm->data[i] == 0, "the alignment asked for");
    if (!small && pretends("fails"))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!small && pretends("unsupported"))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    expect(small || bytes >= WORKSPACE, "the workspace asked for");
    if (workspace)
        memset(workspace, 0xff, bytes);
    expect(p->epilogue == CUBLASLT_EPILOGUE_NONE || (p->bias && (uintptr_t)p->bias % algorithm->data[5] == 0),
           "a bias");
    for (int64_t n = 0; n < z->batches; n++)
        for (int64_t j = 0; j < (int64_t)z->columns; j++)
            for (int64_t i = 0; i < (int64_t)z->rows; i++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum +=
                        element(a, x->type, n * x->batch + (p->turned[0] ? l + i * x->step : i + l * x->step), tf32) *
                        element(b, y->type, n * y->batch + (p->turned[1] ? j + l * y->step : l + j * y->step), tf32);
                sum *= by;
                if (add != 0)
                    sum += add * element(c, plus->type, n * plus->batch + i + j * plus->step, false);
                if (p->epilogue == CUBLASLT_EPILOGUE_BIAS)
                    sum += element(p->bias, z->type, i, false);
                if (pretends("wrong"))
                    sum += 1;
                int64_t to = n * z->batch + i + j * z->step;
                if (z->type == CUDA_R_32F)
                    ((float *)d)[to] = (float)sum;
                else
                    ((uint16_t *)d)[to] = z->type == CUDA_R_16F ? f16_from_f32((float)sum) : bf16_from_f32((float)sum);
            }
    int *done = emulated_products;
    __atomic_fetch_add(&done[0], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&done[1], p->epilogue == CUBLASLT_EPILOGUE_BIAS, __ATOMIC_RELAXED);
    __atomic_fetch_add(&done[2], tf32, __ATOMIC_RELAXED);
    return 0;
}
