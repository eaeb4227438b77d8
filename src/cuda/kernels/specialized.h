/* specialized.h: what the text of one element-wise program is made of (cuda/specialize.c writes it).
 *
 * The text says LANES, how many neighbours a thread has at once, UNITS, how many times that it has in all, DIMS, WHOLE
 * and NEAR, as struct fused_args does, and BLOCKS, of how many registers are to be; then come this file and the kernel,
 * a line for each step, in the macros below.  All operands are on their way before the first step, units go through the
 * steps one after the other, in registers.  Formulas and roundings are the interpreter's (fused.cu). */
#ifndef MX_CUDA_KERNELS_SPECIALIZED_H
#define MX_CUDA_KERNELS_SPECIALIZED_H

#include "cuda/kernels/gpu.h"

#include "cuda/kernels/fused.h"
#include "cuda/kernels/places.h"

#include "cuda/kernels/fused_values.h"
#include "cuda/kernels/lanes.h"

#define EVERY(n) UNROLLED for (int k = 0; k < (n); k++)

/* What a thread's lanes hold; of half types, as floats and as pairs. */
struct value {
    uint32_t w[LANES], p[LANES / 2];
};
/* Elements as they lie in memory, LANES of them. */
struct raw {
    uint32_t w[LANES];
};

FN bool is_half(int type) { return type == DT_float16 || type == DT_bfloat16; }

/* ---- operands
 *
 * They lie as enum fused_lies says. */

#ifdef __CUDACC__
/* Asked for where it is said, and not where it is first used. */
FN void get16(uint32_t w[4], const void *from)
{
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "l"(__cvta_generic_to_global(from)));
}
FN void get8(uint32_t w[2], const void *from)
{
    asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(__cvta_generic_to_global(from)));
}
#else
FN void get16(uint32_t w[4], const void *from) { *(struct words4 *)w = *(const struct words4 *)from; }
FN void get8(uint32_t w[2], const void *from) { *(struct words2 *)w = *(const struct words2 *)from; }
#endif

/* Where element i is in an operand with strides. */
FN int64_t place_of(const struct fused_args *a, const struct fused_operand *o, int64_t i)
{
    if (!NEAR)
        return place_in(a, o, i);
    uint32_t left = (uint32_t)i, here = 0;
    UNROLLED
    for (int d = DIMS; --d > 0;) {
        uint32_t up = (uint32_t)((uint64_t)left * a->factor[d] >> a->shift[d]);
        here += (left - up * a->shape[d]) * (uint32_t)o->stride[d];
        left = up;
    }
    return (int32_t)(here + left * (uint32_t)o->stride[0]);
}

FN struct raw raw_neighbours(const void *x, int size, int64_t i)
{
    struct raw r;
    const char *from = (const char *)x + i * size;
    if (LANES * size == 16)
        get16(r.w, from);
    else if (LANES * size == 8)
        get8(r.w, from);
    else
        r.w[0] = *(const uint32_t *)from;
    return r;
}

FN void put_raw(struct raw *r, int size, int k, uint32_t bits)
{
    int shift = k * size % 4 * 8;
    r->w[k * size / 4] = shift ? r->w[k * size / 4] | bits << shift : bits;
}

/* Those from element i on: all of them there, or as far as there are any. */
FN struct raw raw_of(const struct fused_args *a, int x, int type, int lies, int64_t i, bool full)
{
    const struct fused_operand *o = &a->x[x];
    const int size = size_of(type);
    struct raw r;
    if (full && lies == FUSED_ROW)
        return raw_neighbours(o->x, size, i);
    if (full && lies == FUSED_ROWS)
        return raw_neighbours(o->x, size, place_of(a, o, i));
    if (full && lies == FUSED_SAME) {
        uint32_t bits = raw_at(o->x, size, place_of(a, o, i));
        EVERY(LANES) put_raw(&r, size, k, bits);
    } else if (full && WHOLE) {
        int64_t at = place_of(a, o, i), step = o->stride[DIMS - 1];
        EVERY(LANES) put_raw(&r, size, k, raw_at(o->x, size, at + k * step));
    } else {
        EVERY(LANES)
        {
            int64_t e = i + k;
            put_raw(&r, size, k, e < a->n ? raw_at(o->x, size, lies == FUSED_ROW ? e : place_of(a, o, e)) : 0);
        }
    }
    return r;
}

FN struct value value_of_pairs(const uint32_t p[LANES / 2], int type)
{
    struct value v;
    EVERY(LANES / 2)
    {
        v.p[k] = p[k];
        unpack_pair(v.w + 2 * k, p[k], type == DT_bfloat16);
    }
    return v;
}

FN struct value value_of(struct raw r, int type)
{
    struct value v;
    if (is_half(type))
        return value_of_pairs(r.w, type);
    if (size_of(type) == 4)
        EVERY(LANES) v.w[k] = r.w[k];
    else if (size_of(type) == 2)
        EVERY(LANES) v.w[k] = widened(r.w[k / 2] >> k % 2 * 16 & 0xffff, type);
    else
        EVERY(LANES) v.w[k] = widened(r.w[k / 4] >> k % 4 * 8 & 0xff, type);
    return v;
}

FN struct value one_value(const struct fused_args *a, int x, int type)
{
    struct value v;
    uint32_t bits = raw_at(a->x[x].x, size_of(type), 0);
    EVERY(LANES) v.w[k] = widened(bits, type);
    if (is_half(type))
        EVERY(LANES / 2) v.p[k] = bits | bits << 16;
    return v;
}

/* ---- results */

/* As elements of a type would have it. */
FN struct value rounded(struct value v, int type)
{
    if (is_half(type)) {
        EVERY(LANES / 2) v.p[k] = pack_pair(v.w + 2 * k, type == DT_bfloat16);
        return value_of_pairs(v.p, type);
    }
    EVERY(LANES) v.w[k] = size_of(type) == 4 ? v.w[k] : widened(v.w[k] & (size_of(type) == 2 ? 0xffff : 0xff), type);
    return v;
}

FN struct raw raw_of_value(struct value v, int type)
{
    const int size = size_of(type);
    struct raw r;
    if (is_half(type))
        EVERY(LANES / 2) r.w[k] = v.p[k];
    else
        EVERY(LANES) put_raw(&r, size, k, size == 4 ? v.w[k] : v.w[k] & (size == 2 ? 0xffff : 0xff));
    return r;
}

FN void write_value(const struct fused_args *a, int y, int type, int64_t i, struct value v, bool full)
{
    const int size = size_of(type);
    struct raw r = raw_of_value(v, type);
    char *to = (char *)a->y[y] + i * size;
    if (full) {
        PUT_LANES(to, r.w, LANES * size);
        return;
    }
    EVERY(LANES)
    {
        uint32_t bits = r.w[k * size / 4] >> k * size % 4 * 8;
        if (i + k >= a->n)
            continue;
        if (size == 4)
            ((uint32_t *)to)[k] = bits;
        else if (size == 2)
            ((uint16_t *)to)[k] = (uint16_t)bits;
        else
            ((uint8_t *)to)[k] = (uint8_t)bits;
    }
}

/* ---- quotients by one value */

/* b, and its inverse, rounded right; is each quotient the product with that, as by powers of two, and is b far from the
 * ends of what there is? */
struct divisor {
    float b, inverse;
    bool is_power, is_near;
};

FN bool is_near_one(uint32_t bits) /* within 2^60 */
{
    float x = m_fabs_f32(f32_bits(bits));
    return x > 0x1p-60f && x < 0x1p60f;
}

FN struct divisor divisor_of(struct value o)
{
    struct divisor d;
    d.b = f32_bits(o.w[0]);
    d.inverse = 1 / d.b;
    d.is_near = is_near_one(o.w[0]);
    d.is_power = d.is_near && !(o.w[0] & 0x7fffff);
    return d;
}

/* The same bits as a division: a quotient that is within an ulp of the right one becomes that by what remains times the
 * inverse (P. Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, 1990), the first by
 * the same step.  Where products could leave the normal numbers it is a division. */
FN struct value divided(struct value a, struct divisor d)
{
    struct value v;
    bool near = d.is_near;
    if (d.is_power) {
        EVERY(LANES) v.w[k] = bits_f32(f32_bits(a.w[k]) * d.inverse);
        return v;
    }
    EVERY(LANES) near &= is_near_one(a.w[k]);
    if (near)
        EVERY(LANES)
        {
            float x = f32_bits(a.w[k]), q = x * d.inverse;
            q = __builtin_fmaf(__builtin_fmaf(-d.b, q, x), d.inverse, q);
            q = __builtin_fmaf(__builtin_fmaf(-d.b, q, x), d.inverse, q);
            v.w[k] = bits_f32(q);
        }
    else
        EVERY(LANES) v.w[k] = bits_f32(f32_bits(a.w[k]) / d.b);
    return v;
}

/* ---- the text */

#define PROGRAM                                                                      \
    BOUNDED_KERNEL(cu_specialized, struct fused_args, FUSED_THREADS, BLOCKS)         \
    {                                                                                \
        const int64_t begin = (int64_t)blockIdx.x * (FUSED_THREADS * LANES * UNITS); \
        const int64_t mine = begin + (int)threadIdx.x * LANES;                       \
        const bool full = begin + FUSED_THREADS * LANES * UNITS <= a.n;
#define UNIT_AT(u) (mine + (u) * (FUSED_THREADS * LANES))
#define SINGLE(x, type) const struct value o##x = one_value(&a, x, DT_##type);
#define OPERAND(x) struct raw r##x[UNITS];
#define IF_ALL if (full) {
#define IF_SOME \
    }           \
    else        \
    {
#define END_IF }
#define READ(x, type, lies) \
    UNROLLED for (int u = 0; u < UNITS; u++) r##x[u] = raw_of(&a, x, DT_##type, FUSED_##lies, UNIT_AT(u), true);
#define READ_SOME(x, type, lies) \
    UNROLLED for (int u = 0; u < UNITS; u++) r##x[u] = raw_of(&a, x, DT_##type, FUSED_##lies, UNIT_AT(u), false);
#define EACH_UNIT                            \
    UNROLLED for (int u = 0; u < UNITS; u++) \
    {
#define TAKE(n, type) const struct value x##n = value_of(r##n[u], DT_##type);
#define ONE(y, f, a, type)                 \
    struct value y;                        \
    EVERY(LANES) y.w[k] = one_##f(a.w[k]); \
    y = rounded(y, DT_##type);
#define TWO(y, f, a, b, type)                      \
    struct value y;                                \
    EVERY(LANES) y.w[k] = two_##f(a.w[k], b.w[k]); \
    y = rounded(y, DT_##type);
#define DIVISOR(x) const struct divisor d##x = divisor_of(o##x);
#define DIVIDE(y, a, x, type) const struct value y = rounded(divided(a, d##x), DT_##type);
#define PAIRS(y, f, a, b, type)                  \
    struct value y;                              \
    EVERY(LANES / 2) y.p[k] = f(a.p[k], b.p[k]); \
    y = value_of_pairs(y.p, DT_##type);
#define CHOOSE(y, a, b, c, type)                    \
    struct value y;                                 \
    EVERY(LANES) y.w[k] = a.w[k] ? b.w[k] : c.w[k]; \
    y = rounded(y, DT_##type);
#define WRITE(y, v, type) write_value(&a, y, DT_##type, UNIT_AT(u), v, full);
#define END \
    }       \
    }

#endif
