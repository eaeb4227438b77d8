/* warp.h: what a warp does with matrices, all threads of it taking part, on sm_80 and later and the emulator, which
 * HAS_WARP_PRODUCTS says; and what these have instructions for and others can do as well: pairs of halves, and copies
 * into shared memory that nobody waits for.
 *
 * Include cuda/kernels/gpu.h and lanes.h before. */
#ifndef MX_CUDA_KERNELS_WARP_H
#define MX_CUDA_KERNELS_WARP_H

#include "cuda/kernels/pairs.h"

#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
#define HAS_WARP_PRODUCTS 1
#else
#define HAS_WARP_PRODUCTS 0
#endif
#else
#define HAS_WARP_PRODUCTS 1
#endif

#ifdef __CUDACC__
/* A place in shared memory, to which bytes are added: of several that are so far apart, an instruction knows one.  What
 * is put and read by these alone is not known to the compiler to be memory. */
typedef uint32_t shared_at;
FN shared_at place_in_shared(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
FN uint32_t word_at(shared_at p)
{
    uint32_t x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(p));
    return x;
}
FN struct words4 words4_at(shared_at p)
{
    struct words4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3])
                 : "r"(p));
    return x;
}
FN struct words2 words2_at(shared_at p)
{
    struct words2 x;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x.w[0]), "=r"(x.w[1]) : "r"(p));
    return x;
}
FN void put_words4(shared_at p, uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(p), "r"(x), "r"(y), "r"(z), "r"(w));
}
FN void put_words2(shared_at p, uint32_t x, uint32_t y)
{
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(p), "r"(x), "r"(y));
}
#else
typedef char *shared_at;
FN shared_at place_in_shared(void *p) { return p; }
FN uint32_t word_at(shared_at p) { return *(const uint32_t *)p; }
FN struct words4 words4_at(shared_at p) { return *(const struct words4 *)p; }
FN struct words2 words2_at(shared_at p) { return *(const struct words2 *)p; }
FN void put_words4(shared_at p, uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    struct words4 all = { { x, y, z, w } };
    *(struct words4 *)p = all;
}
FN void put_words2(shared_at p, uint32_t x, uint32_t y)
{
    struct words2 both = { { x, y } };
    *(struct words2 *)p = both;
}
#endif

#if !HAS_WARP_PRODUCTS

FN void copy_later_at(shared_at to, const void *from, int there)
{
    struct words4 zeros = { { 0 } }, x = there ? *(const struct words4 *)from : zeros;
    put_words4(to, x.w[0], x.w[1], x.w[2], x.w[3]);
}
FN void copy_few_later_at(shared_at to, const void *from)
{
    struct words2 x = *(const struct words2 *)from;
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(x.w[0]), "r"(x.w[1]));
}
FN void close_group(void) {}
#define WAIT_GROUPS(n) ((void)(n))

#elif defined __CUDACC__

/* Four 8 by 8 matrices of 16-bit elements in shared memory, whose row r of the q-th is where thread 8 q + r says, at a
 * multiple of 16 bytes.  A thread gets elements 2 t and 2 t + 1 of row g of each, where t is its number's remainder by
 * four and g the quotient; `turned`: of column g. */
FN void load_matrices_at(uint32_t r[4], shared_at row, const int turned)
{
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(row));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(row));
}

/* c += a b of 16 by 16 and 16 by 8 elements: a is four matrices as loaded, (0, 0), (8, 0), (0, 8), (8, 8); b the two
 * of its transpose, (0, 0), (0, 8); c has rows g and g + 8, of each elements 2 t and 2 t + 1. */
#define WARP_PRODUCT(suffix, type)                                                                    \
    FN void warp_product_##suffix(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)          \
    {                                                                                                 \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, " \
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                  \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                 \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                 \
    }
WARP_PRODUCT(f16, "f16")
WARP_PRODUCT(bf16, "bf16")

/* a b + c, rounded once. */
#define ON_THREE_PAIRS(suffix)                                                          \
    FN uint32_t fused_pair_##suffix(uint32_t a, uint32_t b, uint32_t c)                 \
    {                                                                                   \
        uint32_t r;                                                                     \
        asm("fma.rn." #suffix "x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); \
        return r;                                                                       \
    }
ON_THREE_PAIRS(f16)
ON_THREE_PAIRS(bf16)

/* 2^x, 2^-22 of it away, 0 below the normal numbers: for what is rounded to half types. */
FN float near_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The nearest number that has ten bits behind the point. */
FN float f32_as_tf32(float x)
{
    uint32_t u;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(u) : "f"(x));
    return f32_bits(u);
}
/* c += a b of 16 by 8 and 8 by 8 of those, or of others, whose further bits do not count: a thread has of a rows g and
 * g + 8 of column t, then of t + 4; of b rows t and t + 4 of column g; of c as above. */
FN void warp_product_tf32(float c[4], const float a[4], const float b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(bits_f32(a[0])), "r"(bits_f32(a[1])), "r"(bits_f32(a[2])), "r"(bits_f32(a[3])),
                   "r"(bits_f32(b[0])), "r"(bits_f32(b[1])));
}

/* 16 bytes into shared memory, zeros where there are none to be read. */
FN void copy_later_at(shared_at to, const void *from, int there)
{
    uint32_t bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
/* The same of 8 bytes, which are there. */
FN void copy_few_later_at(shared_at to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}
/* Those so far are one group; waits until no more than the last n groups are under way. */
FN void close_group(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define WAIT_GROUPS(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

#else

FN void load_matrices_at(uint32_t r[4], shared_at row, const int turned)
{
    const uint16_t *const *rows = emulated_gather(&row, sizeof row, __FILE__, __LINE__);
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4 * 2;
    for (int q = 0; q < 4; q++) {
        const uint16_t *const *of = rows + 8 * q;
        r[q] = turned ? of[t][g] | (uint32_t)of[t + 1][g] << 16 : of[g][t] | (uint32_t)of[g][t + 1] << 16;
    }
}

/* Made numbers before they are exchanged: each is a factor of several sums. */
#define WARP_PRODUCT(suffix)                                                                               \
    FN void warp_product_##suffix(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)               \
    {                                                                                                      \
        struct {                                                                                           \
            float a[2][4], b[4];                                                                           \
        } mine;                                                                                            \
        for (int i = 0; i < 4; i++) {                                                                      \
            mine.a[0][i] = f32_from_##suffix((uint16_t)(a[i / 2 * 2] >> i % 2 * 16));                      \
            mine.a[1][i] = f32_from_##suffix((uint16_t)(a[i / 2 * 2 + 1] >> i % 2 * 16));                  \
            mine.b[i] = f32_from_##suffix((uint16_t)((i < 2 ? b0 : b1) >> i % 2 * 16));                    \
        }                                                                                                  \
        const TYPE_OF(mine) *all = emulated_gather(&mine, sizeof mine, __FILE__, __LINE__);                \
        const TYPE_OF(mine) *x = all + (int)threadIdx.x % 32 / 4 * 4, *y = all + (int)threadIdx.x % 4 * 8; \
        for (int k = 0; k < 16; k++) {                                                                     \
            int of = k % 8 / 2, i = k / 8 * 2 + k % 2;                                                     \
            for (int e = 0; e < 4; e++) c[e] += x[of].a[e / 2][i] * y[of + e % 2 * 4].b[i];                \
        }                                                                                                  \
    }
WARP_PRODUCT(f16)
WARP_PRODUCT(bf16)

FN float near_exp2(float x) { return exp_f32(x * 0.693147180559945309417f); }

FN float f32_as_tf32(float x)
{
    uint32_t u = bits_f32(x);
    return (u & 0x7f800000) == 0x7f800000 ? x : f32_bits((u + 0x1000) & ~0x1fffu);
}
/* As the units do it, which do not look at further bits, and cut off what does not fit into a sum. */
FN float seen_as_tf32(float x) { return f32_bits(bits_f32(x) & ~0x1fffu); }
FN float cut_to_f32(double x)
{
    float y = (float)x;
    return (x > 0 ? (double)y > x : (double)y < x) ? f32_bits(bits_f32(y) - 1) : y;
}
FN void warp_product_tf32(float c[4], const float a[4], const float b[2])
{
    struct {
        float a[4], b[2];
    } mine = { { seen_as_tf32(a[0]), seen_as_tf32(a[1]), seen_as_tf32(a[2]), seen_as_tf32(a[3]) },
               { seen_as_tf32(b[0]), seen_as_tf32(b[1]) } };
    const TYPE_OF(mine) *all = emulated_gather(&mine, sizeof mine, __FILE__, __LINE__);
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    for (int e = 0; e < 4; e++) {
        double sum = (double)c[e];
        for (int k = 0; k < 8; k++)
            sum += (double)all[4 * g + k % 4].a[k / 4 * 2 + e / 2] * (double)all[4 * (2 * t + e % 2) + k % 4].b[k / 4];
        c[e] = cut_to_f32(sum);
    }
}

FN void copy_later_at(shared_at to, const void *from, int there)
{
    struct words4 zeros = { { 0 } };
    *(struct words4 *)to = there ? *(const struct words4 *)WIDE_AT(from, 16) : zeros;
}
FN void copy_few_later_at(shared_at to, const void *from)
{
    *(struct words2 *)to = *(const struct words2 *)WIDE_AT(from, 8);
}
FN void close_group(void) {}
#define WAIT_GROUPS(n) ((void)(n))

#endif

#if HAS_WARP_PRODUCTS
/* x as a number that has ten bits behind the point, and what is left.  ROUNDED it is the nearest one, which of the
 * largest numbers is an infinity, so that what is left is none; CUT it is less, and more is left.  Of what is not
 * finite, what is left is no number. */
enum { CUT = 0, ROUNDED = 0x1000 };
FN void split_in_parts(float x, uint32_t how, float *large, float *rest)
{
    *large = f32_bits((bits_f32(x) + how) & ~0x1fffu);
    *rest = x - *large;
}

/* Of a number and NaN the number. */
FN float larger(float x, float y) { return __builtin_fmaxf(x, y); }
/* e^x, some 2^-21 of it away and more for large x. */
FN float near_exp(float x) { return near_exp2(x * LOG2_E); }
#endif

#if !(HAS_WARP_PRODUCTS && defined __CUDACC__)
#define ON_THREE_PAIRS(suffix)                                                                              \
    FN uint32_t fused_pair_##suffix(uint32_t a, uint32_t b, uint32_t c)                                     \
    {                                                                                                       \
        return pair_##suffix(__builtin_fmaf(f32_from_##suffix((uint16_t)a), f32_from_##suffix((uint16_t)b), \
                                            f32_from_##suffix((uint16_t)c)),                                \
                             __builtin_fmaf(f32_from_##suffix((uint16_t)(a >> 16)),                         \
                                            f32_from_##suffix((uint16_t)(b >> 16)),                         \
                                            f32_from_##suffix((uint16_t)(c >> 16))));                       \
    }
ON_THREE_PAIRS(f16)
ON_THREE_PAIRS(bf16)
#endif

#ifdef __CUDACC__
/* Four of the eight bytes of a and b, by their numbers in four bits each. */
FN uint32_t bytes_of(uint32_t a, uint32_t b, const uint32_t numbers) { return __byte_perm(a, b, numbers); }
/* x & mask | more, at once. */
FN uint32_t masked_or(uint32_t x, uint32_t mask, uint32_t more)
{
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(x), "r"(mask), "r"(more));
    return r;
}
#else
FN uint32_t bytes_of(uint32_t a, uint32_t b, const uint32_t numbers)
{
    uint64_t both = a | (uint64_t)b << 32;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) r |= (uint32_t)(both >> (numbers >> 4 * i & 7) * 8 & 255) << 8 * i;
    return r;
}
FN uint32_t masked_or(uint32_t x, uint32_t mask, uint32_t more) { return (x & mask) | more; }
#endif

#if HAS_WARP_PRODUCTS
FN void load_matrices(uint32_t r[4], const void *row, const int turned)
{
    load_matrices_at(r, place_in_shared((void *)row), turned);
}
/* Of the sums of a warp product two threads exchange halves of their two rows, so that each has four elements of one,
 * whose number is returned, from element t / 2 * 4 on. */
FN int four_of_warp(float four[4], const float c[4])
{
    int odd = (int)threadIdx.x % 2;
    float p = SHUFFLE_XOR(odd ? c[0] : c[2], 1), q = SHUFFLE_XOR(odd ? c[1] : c[3], 1);
    four[0] = odd ? p : c[0];
    four[1] = odd ? q : c[1];
    four[2] = odd ? c[2] : p;
    four[3] = odd ? c[3] : q;
    return (int)threadIdx.x % 32 / 4 + 8 * odd;
}
#endif
FN void copy_later(void *to, const void *from, int there) { copy_later_at(place_in_shared(to), from, there); }
#endif
