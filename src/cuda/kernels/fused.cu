/* fused.cu: element-wise operations run as one: a program that every thread goes through with a few elements.
 *
 * Its steps are the same for all threads, so that no branch divides a warp.  What the last step made stays in
 * registers; operands, and what is needed later, are in local memory, which the nearest cache holds.  The formulas are
 * those of single operations, and half types are rounded after each of them, so results are the same bits. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/formulas.h"
#include "cuda/kernels/fused.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"

enum { STRETCHES = FUSED_EACH / FUSED_LANES };

/* Element k of a thread. */
FN int64_t element_of(int k)
{
    int64_t stretch = (int64_t)blockIdx.x * STRETCHES + k / FUSED_LANES;
    return (stretch * FUSED_THREADS + threadIdx.x) * FUSED_LANES + k % FUSED_LANES;
}

FN int64_t place_in(const struct fused_args *a, const struct fused_operand *o, int64_t i)
{
    int64_t at = 0;
    ROLLED
    for (int d = a->ndim; d-- > 0;) at += (d ? place_along(&i, a->shape[d], a->n) : i) * o->stride[d];
    return at;
}

/* Lanes of an element's size, at once. */
union stretch {
    uint8_t b[FUSED_LANES];
    uint16_t h[FUSED_LANES];
    uint32_t w[FUSED_LANES];
    struct words4 align;
};

FN uint32_t raw_at(const void *x, int size, int64_t i)
{
    return size == 4 ? ((const uint32_t *)x)[i] : size == 2 ? ((const uint16_t *)x)[i] : ((const uint8_t *)x)[i];
}

/* The bits of an operand's elements. */
FN void read(uint32_t v[FUSED_EACH], const struct fused_args *a, const struct fused_operand *o, bool full)
{
    int size = o->type == DT_float32 || o->type == DT_int32 || o->type == DT_uint32 ? 4
               : o->type == DT_bool_ || o->type == DT_uint8 || o->type == DT_int8   ? 1
                                                                                    : 2;
    if (o->lies == FUSED_ONE) {
        uint32_t one = raw_at(o->x, size, 0);
        for (int k = 0; k < FUSED_EACH; k++) v[k] = one;
        return;
    }
    for (int s = 0; s < STRETCHES; s++) {
        int64_t first = element_of(s * FUSED_LANES);
        uint32_t *to = v + s * FUSED_LANES;
        if (o->lies == FUSED_ROW && full) {
            union stretch u;
            if (size == 4) {
                u.align = ((const struct words4 *)o->x)[first / FUSED_LANES];
                for (int k = 0; k < FUSED_LANES; k++) to[k] = u.w[k];
            } else if (size == 2) {
                *(struct words2 *)u.h = ((const struct words2 *)o->x)[first / FUSED_LANES];
                for (int k = 0; k < FUSED_LANES; k++) to[k] = u.h[k];
            } else {
                *(uint32_t *)u.b = ((const uint32_t *)o->x)[first / FUSED_LANES];
                for (int k = 0; k < FUSED_LANES; k++) to[k] = u.b[k];
            }
        } else if (o->lies == FUSED_STRIDED && a->whole && full) {
            int64_t at = place_in(a, o, first), step = o->stride[a->ndim - 1];
            for (int k = 0; k < FUSED_LANES; k++) to[k] = raw_at(o->x, size, at + k * step);
        } else {
            for (int k = 0; k < FUSED_LANES; k++) {
                int64_t i = first + k;
                to[k] = i < a->n ? raw_at(o->x, size, o->lies == FUSED_ROW ? i : place_in(a, o, i)) : 0;
            }
        }
    }
}

/* Bits as values. */
FN void widen(uint32_t v[FUSED_EACH], int type)
{
    switch (type) {
    case DT_float16:
        for (int k = 0; k < FUSED_EACH; k++) v[k] = bits_f32(f32_from_f16((uint16_t)v[k]));
        break;
    case DT_bfloat16:
        for (int k = 0; k < FUSED_EACH; k++) v[k] <<= 16;
        break;
    case DT_int8:
        for (int k = 0; k < FUSED_EACH; k++) v[k] = (uint32_t)(int32_t)(int8_t)v[k];
        break;
    case DT_int16:
        for (int k = 0; k < FUSED_EACH; k++) v[k] = (uint32_t)(int32_t)(int16_t)v[k];
        break;
    }
}

/* Values as elements of a type would have them. */
FN void narrow(uint32_t v[FUSED_EACH], int type)
{
    switch (type) {
    case DT_float16:
        for (int k = 0; k < FUSED_EACH; k++) v[k] = f16_from_f32(f32_bits(v[k]));
        break;
    case DT_bfloat16:
        for (int k = 0; k < FUSED_EACH; k++) v[k] = bf16_from_f32(f32_bits(v[k]));
        break;
    case DT_bool_:
    case DT_uint8:
    case DT_int8:
        for (int k = 0; k < FUSED_EACH; k++) v[k] &= 0xff;
        break;
    case DT_uint16:
    case DT_int16:
        for (int k = 0; k < FUSED_EACH; k++) v[k] &= 0xffff;
        break;
    }
}

/* What a step reads goes to v; nothing of it where that is not asked for. */
FN void fetch(uint32_t v[FUSED_EACH], uint32_t (*slot)[FUSED_EACH], const uint32_t last[FUSED_EACH], int from)
{
    if (from < FUSED_SLOTS) {
        for (int k = 0; k < FUSED_EACH; k++) v[k] = slot[from][k];
    } else if (from == FUSED_LAST) {
        for (int k = 0; k < FUSED_EACH; k++) v[k] = last[k];
    }
}

/* Narrowed values of a type. */
FN void write(void *to, const struct fused_args *a, const uint32_t v[FUSED_EACH], int size, bool full)
{
    for (int s = 0; s < STRETCHES; s++) {
        int64_t first = element_of(s * FUSED_LANES);
        const uint32_t *from = v + s * FUSED_LANES;
        union stretch u;
        if (size == 4) {
            for (int k = 0; k < FUSED_LANES; k++) u.w[k] = from[k];
            if (full)
                ((struct words4 *)to)[first / FUSED_LANES] = u.align;
            for (int k = 0; k < FUSED_LANES && !full; k++)
                if (first + k < a->n)
                    ((uint32_t *)to)[first + k] = u.w[k];
        } else if (size == 2) {
            for (int k = 0; k < FUSED_LANES; k++) u.h[k] = (uint16_t)from[k];
            if (full)
                ((struct words2 *)to)[first / FUSED_LANES] = *(struct words2 *)u.h;
            for (int k = 0; k < FUSED_LANES && !full; k++)
                if (first + k < a->n)
                    ((uint16_t *)to)[first + k] = u.h[k];
        } else {
            for (int k = 0; k < FUSED_LANES; k++) u.b[k] = (uint8_t)from[k];
            if (full)
                ((uint32_t *)to)[first / FUSED_LANES] = *(uint32_t *)u.b;
            for (int k = 0; k < FUSED_LANES && !full; k++)
                if (first + k < a->n)
                    ((uint8_t *)to)[first + k] = u.b[k];
        }
    }
}

/* ---- operations */

#define OF_F(x) f32_bits(x)
#define OF_I(x) ((int32_t)(x))
#define OF_U(x) (x)
#define OF_B(x) ((uint8_t)(x))
#ifdef __cplusplus
FN uint32_t as_bits(float x) { return bits_f32(x); }
FN uint32_t as_bits(int32_t x) { return (uint32_t)x; }
FN uint32_t as_bits(uint32_t x) { return x; }
FN uint32_t as_bits(uint8_t x) { return x; }
#else
FN uint32_t whole_bits(uint32_t x) { return x; }
#define as_bits(x) _Generic((x), float : bits_f32, default : whole_bits)(x)
#endif

#define ONE(name, set, suffix, class) \
    FN_##set uint32_t one_##name##_##suffix(uint32_t x) { return as_bits(name##_##suffix(OF_##class(x))); }
#define TWO(name, set, suffix, class)                                  \
    FN_##set uint32_t two_##name##_##suffix(uint32_t x, uint32_t y)    \
    {                                                                  \
        return as_bits(name##_##suffix(OF_##class(x), OF_##class(y))); \
    }
#define CASE_ONE(name, suffix, class)                                               \
    case FUSED_##name##_##class:                                                    \
        for (int k = 0; k < FUSED_EACH; k++) last[k] = one_##name##_##suffix(u[k]); \
        break;
#define CASE_TWO(name, suffix, class)                                                     \
    case FUSED_##name##_##class:                                                          \
        for (int k = 0; k < FUSED_EACH; k++) last[k] = two_##name##_##suffix(u[k], v[k]); \
        break;

#define KIND f
#define UNARY(name, label, set, ...) ROW(set, ONE(name, set, f32, F))
#define BINARY(name, label, set, ...) ROW(set, TWO(name, set, f32, F))
#include "ops/ops.def"
#undef KIND
#define KIND i
#define UNARY(name, label, set, ...) ROW(set, ONE(name, set, i32, I) ONE(name, set, u32, U))
#define BINARY(name, label, set, ...) ROW(set, TWO(name, set, i32, I) TWO(name, set, u32, U))
#include "ops/ops.def"
#undef KIND
#define KIND b
#define UNARY(name, label, set, ...) ROW(set, ONE(name, set, b8, B))
#define BINARY(name, label, set, ...) ROW(set, TWO(name, set, b8, B))
#include "ops/ops.def"
#undef KIND

#define CASE_MOVE(name, value)                                \
    case FUSED_##name:                                        \
        for (int k = 0; k < FUSED_EACH; k++) last[k] = value; \
        break;

/* Loaded as one. */
FN struct fused_step step_at(const struct fused_args *a, int i)
{
    union {
        uint64_t all;
        struct fused_step s;
    } u;
    u.all = ((const uint64_t *)a->step)[i];
    return u.s;
}

BOUNDED_KERNEL(cu_fused, struct fused_args, FUSED_THREADS, 4)
{
    uint32_t last[FUSED_EACH], u[FUSED_EACH], v[FUSED_EACH];
    ALIGNED(16) uint32_t slot[FUSED_SLOTS][FUSED_EACH];
    bool full = ((int64_t)blockIdx.x + 1) * FUSED_THREADS * FUSED_EACH <= a.n;
    for (int k = 0; k < FUSED_EACH; k++) last[k] = u[k] = v[k] = 0;
    ROLLED
    for (int i = 0; i < a.steps; i++) {
        const struct fused_step s = step_at(&a, i);
        if (s.op == FUSED_READ) {
            const struct fused_operand *o = &a.x[s.x[0]];
            read(u, &a, o, full);
            widen(u, o->type);
            for (int k = 0; k < FUSED_EACH; k++) slot[s.to][k] = u[k];
            continue;
        }
        fetch(u, slot, last, s.x[0]);
        fetch(v, slot, last, s.x[1]);
        if (s.x[2] < FUSED_SLOTS)
            fetch(last, slot, last, s.x[2]);
        switch ((int)s.op) {
#define KIND f
#define UNARY(name, label, set, ...) ROW(set, CASE_ONE(name, f32, F))
#define BINARY(name, label, set, ...) ROW(set, CASE_TWO(name, f32, F))
#include "ops/ops.def"
#undef KIND
#define KIND i
#define UNARY(name, label, set, ...) ROW(set, CASE_ONE(name, i32, I) CASE_ONE(name, u32, U))
#define BINARY(name, label, set, ...) ROW(set, CASE_TWO(name, i32, I) CASE_TWO(name, u32, U))
#include "ops/ops.def"
#undef KIND
#define KIND b
#define UNARY(name, label, set, ...) ROW(set, CASE_ONE(name, b8, B))
#define BINARY(name, label, set, ...) ROW(set, CASE_TWO(name, b8, B))
#include "ops/ops.def"
#undef KIND
            CASE_MOVE(COPY, u[k])
            CASE_MOVE(SELECT, u[k] ? v[k] : last[k])
            CASE_MOVE(I_OF_F, (uint32_t)i32_from_f32(f32_bits(u[k])))
            CASE_MOVE(U_OF_F, u32_from_f32(f32_bits(u[k])))
            CASE_MOVE(B_OF_F, (uint32_t)(f32_bits(u[k]) != 0))
            CASE_MOVE(B_OF_I, (uint32_t)(u[k] != 0))
            CASE_MOVE(F_OF_I, bits_f32((float)(int32_t)u[k]))
            CASE_MOVE(F_OF_U, bits_f32((float)u[k]))
            CASE_MOVE(F_OF_B, bits_f32((float)(u[k] != 0)))
            CASE_MOVE(ODD_OF_I, bits_f32(f32_odd_from_f64((double)(int32_t)u[k])))
            CASE_MOVE(ODD_OF_U, bits_f32(f32_odd_from_f64((double)u[k])))
        }
        int type = s.as;
        if (type != DT_float32 && type != DT_int32 && type != DT_uint32)
            narrow(last, type);
        if (s.out != FUSED_NOTHING) {
            int size = type == DT_float32 || type == DT_int32 || type == DT_uint32 ? 4
                       : type == DT_bool_ || type == DT_uint8 || type == DT_int8   ? 1
                                                                                   : 2;
            write(a.y[s.out], &a, last, size, full);
        }
        widen(last, type);
        if (s.to != FUSED_NOTHING)
            for (int k = 0; k < FUSED_EACH; k++) slot[s.to][k] = last[k];
    }
}
