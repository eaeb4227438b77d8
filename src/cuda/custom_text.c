/* custom_text.c: the program in CUDA C++ around the body of a kernel.
 *
 * The body becomes that of a function with a parameter for each input and output, in a block of its own.  Dtypes have
 * their names as types; NVRTC comes without headers, so what most kernels need of CUDA's is here, under the same names,
 * for those that include nothing and for machines without CUDA's.  What the program adds is named __mlx_*. */
#include <string.h>

#include "cuda/custom_kernel.h"
#include "ops/kernel_writer.h"

/* ---- for CUDA's headers */

/* Both half types are made of the same; each operation is that of float, rounded. */
static const char fp16[] =
    "#pragma once\n"
    "#define __MLX_NUMBERS(X) X(bool) X(char) X(signed char) X(unsigned char) X(short) X(unsigned short) X(int) \\\n"
    "    X(unsigned) X(long) X(unsigned long) X(long long) X(unsigned long long) X(float) X(double)\n"
    "#define __MLX_FROM(T) __device__ __MLX_HALF(T v) : __x(__mlx_bits((float)v)) {}\n"
    "#define __MLX_WITH(op) \\\n"
    "    template <typename T> __device__ __MLX_HALF &operator op##=(T v) { return *this = __MLX_HALF((float)*this op "
    "(float)v); }\n"
    "#define __MLX_MEMBERS \\\n"
    "    unsigned short __x; \\\n"
    "    __MLX_HALF() = default; \\\n"
    "    __MLX_NUMBERS(__MLX_FROM) \\\n"
    "    __device__ operator float() const { return __mlx_value(__x); } \\\n"
    "    __MLX_WITH(+) __MLX_WITH(-) __MLX_WITH(*) __MLX_WITH(/)\n"
    "/* Of two halves one comes out, of a half and a number a float. */\n"
    "#define __MLX_OPERATOR(H, op) \\\n"
    "    __device__ inline H operator op(H a, H b) { return H((float)a op (float)b); } \\\n"
    "    template <typename T> __device__ inline float operator op(H a, T b) { return (float)a op (float)b; } \\\n"
    "    template <typename T> __device__ inline float operator op(T a, H b) { return (float)a op (float)b; }\n"
    "#define __MLX_OPERATORS(H) \\\n"
    "    __MLX_OPERATOR(H, +) __MLX_OPERATOR(H, -) __MLX_OPERATOR(H, *) __MLX_OPERATOR(H, /) \\\n"
    "    __device__ inline H operator-(H a) { return H(-(float)a); }\n"
    "/* Adds by comparing and swapping the two bytes. */\n"
    "#define __MLX_ATOMIC_ADD(H) \\\n"
    "    __device__ inline H atomicAdd(H *p, H v) \\\n"
    "    { \\\n"
    "        unsigned short old = *(volatile unsigned short *)p, seen; \\\n"
    "        do { \\\n"
    "            seen = old; \\\n"
    "            H h; \\\n"
    "            h.__x = seen; \\\n"
    "            old = atomicCAS((unsigned short *)p, seen, H((float)h + (float)v).__x); \\\n"
    "        } while (old != seen); \\\n"
    "        H before; \\\n"
    "        before.__x = old; \\\n"
    "        return before; \\\n"
    "    }\n"
    "#define __MLX_HALF __half\n"
    "struct __align__(2) __half {\n"
    "    static __device__ float __mlx_value(unsigned short h)\n"
    "    {\n"
    "        float f;\n"
    "        asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h));\n"
    "        return f;\n"
    "    }\n"
    "    static __device__ unsigned short __mlx_bits(float f)\n"
    "    {\n"
    "        unsigned short h;\n"
    "        asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f));\n"
    "        return h;\n"
    "    }\n"
    "    __MLX_MEMBERS\n"
    "};\n"
    "#undef __MLX_HALF\n"
    "typedef __half half;\n"
    "__device__ inline float __half2float(__half h) { return h; }\n"
    "__device__ inline __half __float2half(float f) { return f; }\n"
    "__device__ inline __half __float2half_rn(float f) { return f; }\n"
    "__device__ inline unsigned short __half_as_ushort(__half h) { return h.__x; }\n"
    "__device__ inline __half __ushort_as_half(unsigned short u)\n"
    "{\n"
    "    __half h;\n"
    "    h.__x = u;\n"
    "    return h;\n"
    "}\n"
    "__MLX_OPERATORS(__half)\n"
    "__MLX_ATOMIC_ADD(__half)\n";
static const char bf16[] =
    "#pragma once\n"
    "#include <cuda_fp16.h>\n"
    "#define __MLX_HALF __nv_bfloat16\n"
    "struct __align__(2) __nv_bfloat16 {\n"
    "    static __device__ float __mlx_value(unsigned short h) { return __uint_as_float((unsigned)h << 16); }\n"
    "    static __device__ unsigned short __mlx_bits(float f)\n"
    "    {\n"
    "        unsigned u = __float_as_uint(f);\n"
    "        return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;\n"
    "    }\n"
    "    __MLX_MEMBERS\n"
    "};\n"
    "#undef __MLX_HALF\n"
    "typedef __nv_bfloat16 nv_bfloat16;\n"
    "__device__ inline float __bfloat162float(__nv_bfloat16 h) { return h; }\n"
    "__device__ inline __nv_bfloat16 __float2bfloat16(float f) { return f; }\n"
    "__device__ inline __nv_bfloat16 __float2bfloat16_rn(float f) { return f; }\n"
    "__device__ inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.__x; }\n"
    "__device__ inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short u)\n"
    "{\n"
    "    __nv_bfloat16 h;\n"
    "    h.__x = u;\n"
    "    return h;\n"
    "}\n"
    "__MLX_OPERATORS(__nv_bfloat16)\n"
    "__MLX_ATOMIC_ADD(__nv_bfloat16)\n";
static const char groups[] =
    "#pragma once\n"
    "namespace cooperative_groups {\n"
    "struct thread_block {\n"
    "    static __device__ void sync() { __syncthreads(); }\n"
    "    static __device__ unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * "
    "threadIdx.z); }\n"
    "    static __device__ unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }\n"
    "    static __device__ unsigned size() { return num_threads(); }\n"
    "    static __device__ dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }\n"
    "    static __device__ dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }\n"
    "    static __device__ dim3 dim_threads() { return dim3(blockDim.x, blockDim.y, blockDim.z); }\n"
    "    static __device__ dim3 group_dim() { return dim_threads(); }\n"
    "};\n"
    "struct grid_group {\n"
    "    static __device__ unsigned long long block_rank()\n"
    "    {\n"
    "        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * "
    "blockIdx.z);\n"
    "    }\n"
    "    static __device__ unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * "
    "gridDim.z; }\n"
    "    static __device__ unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }\n"
    "    static __device__ unsigned long long size() { return num_threads(); }\n"
    "    static __device__ unsigned long long thread_rank()\n"
    "    {\n"
    "        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();\n"
    "    }\n"
    "    static __device__ dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }\n"
    "    static __device__ dim3 dim_blocks() { return dim3(gridDim.x, gridDim.y, gridDim.z); }\n"
    "    static __device__ dim3 group_dim() { return dim_blocks(); }\n"
    "};\n"
    "__device__ inline thread_block this_thread_block() { return thread_block(); }\n"
    "__device__ inline grid_group this_grid() { return grid_group(); }\n"
    "template <unsigned N, typename Parent = thread_block> struct thread_block_tile {\n"
    "    static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0, \"a tile has 1, 2, 4, 8, 16 or 32 threads\");\n"
    "    static __device__ unsigned thread_rank() { return thread_block::thread_rank() % N; }\n"
    "    static __device__ unsigned num_threads() { return N; }\n"
    "    static __device__ unsigned size() { return N; }\n"
    "    static __device__ unsigned meta_group_rank() { return thread_block::thread_rank() / N; }\n"
    "    static __device__ unsigned meta_group_size() { return (thread_block::num_threads() + N - 1) / N; }\n"
    "    static __device__ unsigned mask()\n"
    "    {\n"
    "        return N == 32 ? 0xffffffffu : ((1u << N % 32) - 1) << thread_block::thread_rank() % 32 / N * N;\n"
    "    }\n"
    "    static __device__ void sync() { __syncwarp(mask()); }\n"
    "    template <typename T> static __device__ T shfl(T v, int from) { return __shfl_sync(mask(), v, from, N); }\n"
    "    template <typename T> static __device__ T shfl_up(T v, int by) { return __shfl_up_sync(mask(), v, by, N); }\n"
    "    template <typename T> static __device__ T shfl_down(T v, int by) { return __shfl_down_sync(mask(), v, by, N); "
    "}\n"
    "    template <typename T> static __device__ T shfl_xor(T v, int bits) { return __shfl_xor_sync(mask(), v, bits, "
    "N); }\n"
    "    static __device__ int any(int v) { return __any_sync(mask(), v); }\n"
    "    static __device__ int all(int v) { return __all_sync(mask(), v); }\n"
    "    static __device__ unsigned ballot(int v)\n"
    "    {\n"
    "        return (__ballot_sync(mask(), v) & mask()) >> thread_block::thread_rank() % 32 / N * N;\n"
    "    }\n"
    "};\n"
    "template <unsigned N, typename Parent> __device__ inline thread_block_tile<N, Parent> tiled_partition(const "
    "Parent &)\n"
    "{\n"
    "    return thread_block_tile<N, Parent>();\n"
    "}\n"
    "template <typename Group> __device__ inline void sync(const Group &) { Group::sync(); }\n"
    "}\n";
static const char group_reductions[] =
    "#pragma once\n"
    "#include <cooperative_groups.h>\n"
    "namespace cooperative_groups {\n"
    "template <typename T = void> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };\n"
    "template <typename T = void> struct less { __device__ T operator()(T a, T b) const { return b < a ? b : a; } };\n"
    "template <typename T = void> struct greater { __device__ T operator()(T a, T b) const { return a < b ? b : a; } "
    "};\n"
    "/* Every thread of the tile gets what all values come to. */\n"
    "template <unsigned N, typename P, typename T, typename F>\n"
    "__device__ inline T reduce(const thread_block_tile<N, P> &tile, T v, F f)\n"
    "{\n"
    "    for (int bits = N / 2; bits; bits /= 2) v = f(v, tile.shfl_xor(v, bits));\n"
    "    return v;\n"
    "}\n"
    "}\n";
static const char nothing[] = "#pragma once\n";

#define HEADERS(X)                                     \
    X("cuda_fp16.h", fp16)                             \
    X("cuda_bf16.h", bf16)                             \
    X("cooperative_groups.h", groups)                  \
    X("cooperative_groups/reduce.h", group_reductions) \
    X("cuda_runtime.h", nothing)                       \
    X("math.h", nothing)                               \
    X("cmath", nothing)                                \
    X("stddef.h", nothing)                             \
    X("stdint.h", nothing)                             \
    X("cstdint", nothing)
#define X(name, text) text,
const char *const custom_headers[] = { HEADERS(X) };
#undef X
#define X(name, text) name,
const char *const custom_header_names[] = { HEADERS(X) };
#undef X
const int custom_of_cuda = 5; /* the first; the others are C's */
const int custom_n_headers = sizeof custom_headers / sizeof *custom_headers;

/* ---- the program */

static const char prelude[] =
    "#include <cuda_fp16.h>\n"
    "#include <cuda_bf16.h>\n"
    "#include <cooperative_groups.h>\n"
    "typedef signed char int8_t;\n"
    "typedef short int16_t;\n"
    "typedef int int32_t;\n"
    "typedef long long int64_t;\n"
    "typedef unsigned char uint8_t;\n"
    "typedef unsigned short uint16_t;\n"
    "typedef unsigned int uint32_t;\n"
    "typedef unsigned long long uint64_t;\n"
    "typedef unsigned int uint;\n"
    "typedef int8_t int8;\n"
    "typedef int16_t int16;\n"
    "typedef int32_t int32;\n"
    "typedef int64_t int64;\n"
    "typedef uint8_t uint8;\n"
    "typedef uint16_t uint16;\n"
    "typedef uint32_t uint32;\n"
    "typedef uint64_t uint64;\n"
    "typedef __half float16, float16_t;\n"
    "typedef __nv_bfloat16 bfloat16, bfloat16_t;\n"
    "typedef float float32;\n"
    "typedef double float64;\n"
    "#ifndef INFINITY\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#endif\n"
    "#ifndef NAN\n"
    "#define NAN __int_as_float(0x7fffffff)\n"
    "#endif\n"
    "\n"
    "struct __align__(8) complex64 {\n"
    "    float x, y;\n"
    "    complex64() = default;\n"
    "    __device__ complex64(float re, float im = 0) : x(re), y(im) {}\n"
    "    __device__ float real() const { return x; }\n"
    "    __device__ float imag() const { return y; }\n"
    "    __device__ complex64 &operator+=(complex64 b) { return *this = complex64(x + b.x, y + b.y); }\n"
    "    __device__ complex64 &operator-=(complex64 b) { return *this = complex64(x - b.x, y - b.y); }\n"
    "    __device__ complex64 &operator*=(complex64 b) { return *this = complex64(x * b.x - y * b.y, x * b.y + y * "
    "b.x); }\n"
    "};\n"
    "typedef complex64 complex64_t;\n"
    "__device__ inline complex64 operator+(complex64 a, complex64 b) { return a += b; }\n"
    "__device__ inline complex64 operator-(complex64 a, complex64 b) { return a -= b; }\n"
    "__device__ inline complex64 operator*(complex64 a, complex64 b) { return a *= b; }\n"
    "__device__ inline complex64 operator-(complex64 a) { return complex64(-a.x, -a.y); }\n"
    "__device__ inline bool operator==(complex64 a, complex64 b) { return a.x == b.x && a.y == b.y; }\n"
    "__device__ inline bool operator!=(complex64 a, complex64 b) { return !(a == b); }\n"
    "__device__ inline complex64 conj(complex64 a) { return complex64(a.x, -a.y); }\n"
    "__device__ inline float abs(complex64 a) { return hypotf(a.x, a.y); }\n"
    "\n"
    "/* The shape and strides of an input: what a kernel is passed, and what its body sees. */\n"
    "template <typename T, int N> struct __mlx_facts { T v[N]; };\n"
    "template <typename T> struct __mlx_view {\n"
    "    const T *v;\n"
    "    __device__ operator const T *() const { return v; }\n"
    "    __device__ const T *data() const { return v; }\n"
    "};\n"
    "#define __MLX_SHAPE(n) const __grid_constant__ __mlx_facts<int, n>\n"
    "#define __MLX_STRIDES(n) const __grid_constant__ __mlx_facts<int64_t, n>\n"
    "#define __MLX_VIEW(T, name) const __mlx_view<T> name = { __mlx_##name.v }\n"
    "\n"
    "/* Where element number i, row-major, of an array with these strides is. */\n"
    "__device__ inline int64_t elem_to_loc(int64_t i, const int *shape, const int64_t *strides, int ndim)\n"
    "{\n"
    "    int64_t at = 0;\n"
    "    for (int d = ndim; d-- > 0; i /= shape[d]) at += i % shape[d] * strides[d];\n"
    "    return at;\n"
    "}\n";

static const char *const fact_words[FACTS] = { "_shape", "_strides", "_ndim" };

bool custom_asks(const struct kernel *k, int input, enum custom_fact fact)
{
    return kernel_says(k, k->names[input], fact_words[fact], false);
}

/* A parameter a line. */
static void put_parameters(struct kernel_writer *w, const enum dtype types[], int dims)
{
    const struct kernel *k = w->k;
    for (int i = 0; i < k->nin + k->nout; i++) {
        bool input = i < k->nin;
        kernel_put(w, "%s\n    %s%s *__restrict__ %s", i ? "," : "", input ? "const " : "", dtype_name(types[i]),
                   k->names[i]);
        if (input && custom_asks(k, i, FACT_SHAPE))
            kernel_put(w, ",\n    __MLX_SHAPE(%d) __mlx_%s_shape", dims, k->names[i]);
        if (input && custom_asks(k, i, FACT_STRIDES))
            kernel_put(w, ",\n    __MLX_STRIDES(%d) __mlx_%s_strides", dims, k->names[i]);
        if (input && custom_asks(k, i, FACT_NDIM))
            kernel_put(w, ",\n    const int %s_ndim", k->names[i]);
    }
}

char *custom_text(const struct kernel *k, const char *template, const enum dtype types[], int dims)
{
    struct kernel_writer w;
    if (kernel_writer_open(&w, k))
        return NULL;
    kernel_put(&w, "%s\n/* ---- the kernel */\n\n", prelude);
    if (*k->header)
        kernel_put_theirs(&w, "header", k->header);
    kernel_put(&w, "extern \"C\" __global__ void " CUSTOM_ENTRY "%s(", k->name);
    put_parameters(&w, types, dims);
    kernel_put(&w, ")\n{\n");
    for (int i = 0; i < k->nin; i++) {
        if (custom_asks(k, i, FACT_SHAPE))
            kernel_put(&w, "    __MLX_VIEW(int, %s_shape);\n", k->names[i]);
        if (custom_asks(k, i, FACT_STRIDES))
            kernel_put(&w, "    __MLX_VIEW(int64_t, %s_strides);\n", k->names[i]);
    }
    for (const char *line = template; *line; line = strchr(line, '\n') + 1)
        kernel_put(&w, "    %.*s\n", (int)(strchr(line, '\n') - line), line);
    kernel_put(&w, "    {\n");
    kernel_put_theirs(&w, "source", k->source);
    kernel_put(&w, "    }\n}\n");
    return kernel_writer_close(&w);
}
