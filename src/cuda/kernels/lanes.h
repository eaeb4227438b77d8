/* lanes.h: a thread's neighbouring elements, read and written at once.
 *
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_LANES_H
#define MX_CUDA_KERNELS_LANES_H

/* Elements as the piece of memory that they are, which is read and written at once. */
struct ALIGNED(16) words4 {
    uint32_t w[4];
};
struct ALIGNED(8) words2 {
    uint32_t w[2];
};

#define COPY_LANES(to, from, size)                                                        \
    if ((size) % 16 == 0)                                                                 \
        for (int c_ = 0; c_ < (int)(size) / 16; c_++)                                     \
            ((struct words4 *)(to))[c_] = ((const struct words4 *)WIDE_AT(from, 16))[c_]; \
    else if ((size) == 8)                                                                 \
        *(struct words2 *)(to) = *(const struct words2 *)WIDE_AT(from, 8);                \
    else                                                                                  \
        *(uint32_t *)(to) = *(const uint32_t *)WIDE_AT(from, 4)

/* The same to global memory that this kernel does not read: of an assignment compilers make four stores, or eight. */
#ifdef __CUDACC__
FN void put16(void *to, const void *from)
{
    struct words4 v = *(const struct words4 *)from;
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(v.w[0]),
                 "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]));
}
FN void put8(void *to, const void *from)
{
    struct words2 v = *(const struct words2 *)from;
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(v.w[0]), "r"(v.w[1]));
}
/* 16 bytes that nobody reads again soon; several are on their way in this order.  Not by ld.global.nc, although the
 * kernel does not write them: those may be moved ahead of AFTER_LAUNCH, where the kernel ahead still writes. */
FN void read16_once(void *to, const void *from)
{
    struct words4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                 : "l"(__cvta_generic_to_global(from)));
    *(struct words4 *)to = v;
}
#else
FN void read16_once(void *to, const void *from) { *(struct words4 *)to = *(const struct words4 *)WIDE_AT(from, 16); }
FN void put16(void *to, const void *from) { *(struct words4 *)WIDE_AT(to, 16) = *(const struct words4 *)from; }
FN void put8(void *to, const void *from) { *(struct words2 *)WIDE_AT(to, 8) = *(const struct words2 *)from; }
#endif
#define PUT_LANES(to, from, size)                                                                                    \
    if ((size) % 16 == 0)                                                                                            \
        for (int c_ = 0; c_ < (int)(size) / 16; c_++) put16((char *)(to) + 16 * c_, (const char *)(from) + 16 * c_); \
    else if ((size) == 8)                                                                                            \
        put8(to, from);                                                                                              \
    else                                                                                                             \
        *(uint32_t *)(to) = *(const uint32_t *)(from)

#ifdef S
/* How many a thread takes at once; gpu_lanes (cuda/gpu.h) says the same to who launches. */
enum { LANES = sizeof(S) <= 2 ? 8 : 4 };
union lanes {
    S v[LANES];
    struct words4 align;
};
#endif

#endif
