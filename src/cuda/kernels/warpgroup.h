/* warpgroup.h: what four warps do with matrices together, on devices of 9.0 and the emulator.  Such machine code runs
 * on no later devices: a module that includes this has no image for others, which gpu_has tells.
 *
 * A matrix in shared memory is panels of 64 half types a row, 128 bytes, one panel behind the other.  The eight groups
 * of eight elements of a row lie where their number, xor the last three bits of the row's, says, so that eight rows of
 * a group are in different banks.  A panel begins at a multiple of 1,024 bytes.
 *
 * A product is begun and goes on by itself: group_begin() after registers or shared memory have been written, products,
 * group_close(), and GROUP_WAIT_*(n, c) before c, the sums, are looked at, which waits until no more than the last n
 * groups that were closed are under way.  Registers that it reads stay as they are until then.
 *
 * Include cuda/kernels/gpu.h, lanes.h and warp.h before. */
#ifndef MX_CUDA_KERNELS_WARPGROUP_H
#define MX_CUDA_KERNELS_WARPGROUP_H

enum { PANEL = 64, PANEL_ROW = 128 }; /* elements, bytes */
enum { GROUP_THREADS = 128 };

/* Bytes from the beginning of a panel to the eight elements of a row that begin at eight times `eight`. */
FN int in_panel(int row, int eight) { return row * PANEL_ROW + ((eight ^ row % 8) << 4); }

/* Where the first panel may begin. */
FN unsigned char *first_panel(unsigned char *memory) { return memory + (-(uint64_t)memory & (8 * PANEL_ROW - 1)); }

#ifdef __CUDACC__
/* What the unit is told of a matrix: where it begins, from a panel to the next, from eight rows to the next eight, and
 * how its rows lie. */
typedef uint64_t shared_matrix;
FN shared_matrix matrix_in_shared(shared_at p, uint32_t panel)
{
    return (uint64_t)(p >> 4) | (uint64_t)(panel >> 4) << 16 | (uint64_t)(8 * PANEL_ROW >> 4) << 32 | (uint64_t)1 << 62;
}
/* The same so many bytes on. */
FN shared_matrix matrix_at(shared_matrix m, int bytes) { return m + (uint32_t)(bytes >> 4); }
/* What this thread has written into shared memory is there for products, after the next barrier. */
FN void show_to_products(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

FN void group_begin(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FN void group_close(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

#define FOUR_SUMS(c, i) "+f"((c)[i][0]), "+f"((c)[i][1]), "+f"((c)[i][2]), "+f"((c)[i][3])
#define SIXTEEN_SUMS(c, i) FOUR_SUMS(c, i), FOUR_SUMS(c, (i) + 1), FOUR_SUMS(c, (i) + 2), FOUR_SUMS(c, (i) + 3)
#define SUMS_64(c) SIXTEEN_SUMS(c, 0), SIXTEEN_SUMS(c, 4)
#define SUMS_128(c) SUMS_64(c), SIXTEEN_SUMS(c, 8), SIXTEEN_SUMS(c, 12)
#define SUMS_256(c) SUMS_128(c), SIXTEEN_SUMS(c, 16), SIXTEEN_SUMS(c, 20), SIXTEEN_SUMS(c, 24), SIXTEEN_SUMS(c, 28)
/* Of sums that go on: operands of groups before the last n may be written over. */
FN void group_wait_but_one(void) { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }
#define GROUP_WAIT_64(n, c) asm volatile("wgmma.wait_group.sync.aligned %32;" : SUMS_64(c) : "n"(n) : "memory")
#define GROUP_WAIT_128(n, c) asm volatile("wgmma.wait_group.sync.aligned %64;" : SUMS_128(c) : "n"(n) : "memory")

#define GROUP_WAIT_256(n, c) asm volatile("wgmma.wait_group.sync.aligned %128;" : SUMS_256(c) : "n"(n) : "memory")

#define NUMBERS_32                                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define NUMBERS_64                                                                                                 \
    NUMBERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
               "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NUMBERS_128                                                                                           \
    NUMBERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/* Sums of 64 rows, 16 for each warp, laid out as those of warp_product: c (+)= a b^T of a and b, whose rows run along
 * what is summed, 16 elements of it from where they begin on; `add`: to what c has. */
#define GROUP_PRODUCT(n, suffix, type, numbers, A, B, ADD)                                                            \
    FN void group_product_##n##_##suffix(float c[n / 8][4], shared_matrix a, shared_matrix b, const int add)          \
    {                                                                                                                 \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " ADD ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
                     "." type " {" numbers "}, " A ", " B ", p, 1, 1, 0, 0;}"                                         \
                     : SUMS_##n(c)                                                                                    \
                     : "l"(a), "l"(b), "r"(add));                                                                     \
    }
/* c += a b, of b whose rows are what is summed: 16 of them. */
#define GROUP_PRODUCT_TURNED(n, suffix, type, numbers, A, B)                                                    \
    FN void group_product_turned_##n##_##suffix(float c[n / 8][4], shared_matrix a, shared_matrix b)            \
    {                                                                                                           \
        asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
                     "." type " {" numbers "}, " A ", " B ", p, 1, 1, 0, 1;}"                                   \
                     : SUMS_##n(c)                                                                              \
                     : "l"(a), "l"(b));                                                                         \
    }
/* The same with a in registers, 16 of its elements a row as a warp's product takes them, and b, whose rows are what is
 * summed: 16 of them. */
#define GROUP_PRODUCT_OF(n, suffix, type, numbers, A, B)                                                        \
    FN void group_product_of_##n##_##suffix(float c[n / 8][4], const uint32_t a[4], shared_matrix b)            \
    {                                                                                                           \
        asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
                     "." type " {" numbers "}, " A ", " B ", p, 1, 1, 1;}"                                      \
                     : SUMS_##n(c)                                                                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
    }
/* The same with b whose rows run along what is summed. */
#define GROUP_PRODUCT_BY(n, suffix, type, numbers, A, B)                                                        \
    FN void group_product_by_##n##_##suffix(float c[n / 8][4], const uint32_t a[4], shared_matrix b)            \
    {                                                                                                           \
        asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
                     "." type " {" numbers "}, " A ", " B ", p, 1, 1, 0;}"                                      \
                     : SUMS_##n(c)                                                                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
    }
#define GROUP_PRODUCTS(suffix, type)                                                     \
    GROUP_PRODUCT(64, suffix, type, NUMBERS_32, "%32", "%33", "%34")                     \
    GROUP_PRODUCT(128, suffix, type, NUMBERS_64, "%64", "%65", "%66")                    \
    GROUP_PRODUCT(256, suffix, type, NUMBERS_128, "%128", "%129", "%130")                \
    GROUP_PRODUCT_TURNED(256, suffix, type, NUMBERS_128, "%128", "%129")                 \
    GROUP_PRODUCT_BY(64, suffix, type, NUMBERS_32, "{%32, %33, %34, %35}", "%36")        \
    GROUP_PRODUCT_BY(128, suffix, type, NUMBERS_64, "{%64, %65, %66, %67}", "%68")       \
    GROUP_PRODUCT_BY(256, suffix, type, NUMBERS_128, "{%128, %129, %130, %131}", "%132") \
    GROUP_PRODUCT_OF(64, suffix, type, NUMBERS_32, "{%32, %33, %34, %35}", "%36")        \
    GROUP_PRODUCT_OF(128, suffix, type, NUMBERS_64, "{%64, %65, %66, %67}", "%68")       \
    GROUP_PRODUCT_OF(256, suffix, type, NUMBERS_128, "{%128, %129, %130, %131}", "%132")
GROUP_PRODUCTS(f16, "f16")
GROUP_PRODUCTS(bf16, "bf16")

/* The same of float32 as TF32, of which bits that it has not do not count: eight elements of each row. */
#define GROUP_PRODUCT_TF32(n, numbers, A, B, ADD)                                                                   \
    FN void group_product_##n##_tf32(float c[n / 8][4], shared_matrix a, shared_matrix b, const int add)            \
    {                                                                                                               \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " ADD ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32" \
                     ".tf32 {" numbers "}, " A ", " B ", p, 1, 1;}"                                                 \
                     : SUMS_##n(c)                                                                                  \
                     : "l"(a), "l"(b), "r"(add));                                                                   \
    }
GROUP_PRODUCT_TF32(64, NUMBERS_32, "%32", "%33", "%34")
GROUP_PRODUCT_TF32(128, NUMBERS_64, "%64", "%65", "%66")

#else

typedef struct {
    const char *p;
    uint32_t panel;
} shared_matrix;
FN shared_matrix matrix_in_shared(shared_at p, uint32_t panel) { return (shared_matrix){ p, panel }; }
FN shared_matrix matrix_at(shared_matrix m, int bytes) { return (shared_matrix){ m.p + bytes, m.panel }; }
FN void show_to_products(void) {}
FN void group_begin(void) {}
FN void group_close(void) {}
FN void group_wait_but_one(void) {}
#define GROUP_WAIT_64(n, c) ((void)(n))
#define GROUP_WAIT_128(n, c) ((void)(n))
#define GROUP_WAIT_256(n, c) ((void)(n))

/* As the unit finds it: bits of the place itself say how a row lies. */
FN uint16_t element_of(shared_matrix m, int row, int column)
{
    uintptr_t at =
        (uintptr_t)m.p + (uint32_t)(column / PANEL) * m.panel + (uint32_t)(row * PANEL_ROW + column % PANEL * 2);
    return *(const uint16_t *)(at ^ (at >> 7 & 7) << 4);
}

/* c[0] to c[3] of eight columns: x has two rows; the others' sixteen elements are made numbers once for both. */
#define SUMS_OF_EIGHT(suffix, c, x, ELEMENT)      \
    for (int k = 0; k < 16; k++)                  \
        for (int o = 0; o < 2; o++) {             \
            float y = f32_from_##suffix(ELEMENT); \
            (c)[o] += x[0][k] * y;                \
            (c)[2 + o] += x[1][k] * y;            \
        }
/* A thread's two rows of what a group has in registers. */
#define ROWS_OF_REGISTERS(suffix)                                                                               \
    FN void rows_of_registers_##suffix(float x[2][16], const uint32_t a[4])                                     \
    {                                                                                                           \
        struct {                                                                                                \
            uint32_t a[4];                                                                                      \
        } mine = { { a[0], a[1], a[2], a[3] } };                                                                \
        const TYPE_OF(mine) *all = emulated_gather(&mine, sizeof mine, __FILE__, __LINE__);                     \
        int g = (int)threadIdx.x % 32 / 4;                                                                      \
        for (int i = 0; i < 2; i++)                                                                             \
            for (int k = 0; k < 16; k++)                                                                        \
                x[i][k] = f32_from_##suffix((uint16_t)(all[4 * g + k % 8 / 2].a[k / 8 * 2 + i] >> k % 2 * 16)); \
    }
ROWS_OF_REGISTERS(f16)
ROWS_OF_REGISTERS(bf16)
/* The same of what is in shared memory. */
#define ROWS_OF_SHARED(suffix)                                                                                       \
    FN void rows_of_shared_##suffix(float x[2][16], shared_matrix a)                                                 \
    {                                                                                                                \
        int row = (int)threadIdx.x % 128 / 32 * 16 + (int)threadIdx.x % 32 / 4;                                      \
        for (int i = 0; i < 32; i++) x[i / 16][i % 16] = f32_from_##suffix(element_of(a, row + i / 16 * 8, i % 16)); \
    }
ROWS_OF_SHARED(f16)
ROWS_OF_SHARED(bf16)
#define GROUP_PRODUCTS(n, suffix)                                                                            \
    FN void group_product_##n##_##suffix(float c[n / 8][4], shared_matrix a, shared_matrix b, const int add) \
    {                                                                                                        \
        int t = (int)threadIdx.x % 4 * 2;                                                                    \
        float x[2][16];                                                                                      \
        rows_of_shared_##suffix(x, a);                                                                       \
        for (int j = 0; j < n / 8; j++) {                                                                    \
            for (int e = 0; e < 4; e++) c[j][e] = add ? c[j][e] : 0;                                         \
            SUMS_OF_EIGHT(suffix, c[j], x, element_of(b, 8 * j + t + o, k))                                  \
        }                                                                                                    \
    }                                                                                                        \
    FN void group_product_turned_##n##_##suffix(float c[n / 8][4], shared_matrix a, shared_matrix b)         \
    {                                                                                                        \
        int t = (int)threadIdx.x % 4 * 2;                                                                    \
        float x[2][16];                                                                                      \
        rows_of_shared_##suffix(x, a);                                                                       \
        for (int j = 0; j < n / 8; j++) SUMS_OF_EIGHT(suffix, c[j], x, element_of(b, k, 8 * j + t + o))      \
    }                                                                                                        \
    FN void group_product_of_##n##_##suffix(float c[n / 8][4], const uint32_t a[4], shared_matrix b)         \
    {                                                                                                        \
        int t = (int)threadIdx.x % 4 * 2;                                                                    \
        float x[2][16];                                                                                      \
        rows_of_registers_##suffix(x, a);                                                                    \
        for (int j = 0; j < n / 8; j++) SUMS_OF_EIGHT(suffix, c[j], x, element_of(b, k, 8 * j + t + o))      \
    }                                                                                                        \
    FN void group_product_by_##n##_##suffix(float c[n / 8][4], const uint32_t a[4], shared_matrix b)         \
    {                                                                                                        \
        int t = (int)threadIdx.x % 4 * 2;                                                                    \
        float x[2][16];                                                                                      \
        rows_of_registers_##suffix(x, a);                                                                    \
        for (int j = 0; j < n / 8; j++) SUMS_OF_EIGHT(suffix, c[j], x, element_of(b, 8 * j + t + o, k))      \
    }
GROUP_PRODUCTS(64, f16)
GROUP_PRODUCTS(128, f16)
GROUP_PRODUCTS(64, bf16)
GROUP_PRODUCTS(128, bf16)
GROUP_PRODUCTS(256, f16)
GROUP_PRODUCTS(256, bf16)

FN float tf32_of(shared_matrix m, int row, int column)
{
    uintptr_t at = (uintptr_t)m.p + (uint32_t)(row * PANEL_ROW + column * 4);
    return seen_as_tf32(*(const float *)(at ^ (at >> 7 & 7) << 4));
}
#define GROUP_PRODUCT_TF32(n)                                                                                      \
    FN void group_product_##n##_tf32(float c[n / 8][4], shared_matrix a, shared_matrix b, const int add)           \
    {                                                                                                              \
        int row = (int)threadIdx.x % 128 / 32 * 16 + (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4 * 2;      \
        float x[2][8];                                                                                             \
        for (int i = 0; i < 16; i++) x[i / 8][i % 8] = tf32_of(a, row + i / 8 * 8, i % 8);                         \
        for (int j = 0; j < n / 8; j++)                                                                            \
            for (int e = 0; e < 4; e++) {                                                                          \
                double sum = add ? (double)c[j][e] : 0;                                                            \
                for (int k = 0; k < 8; k++) sum += (double)x[e / 2][k] * (double)tf32_of(b, 8 * j + t + e % 2, k); \
                c[j][e] = cut_to_f32(sum);                                                                         \
            }                                                                                                      \
    }
GROUP_PRODUCT_TF32(64)
GROUP_PRODUCT_TF32(128)

#endif
#endif
