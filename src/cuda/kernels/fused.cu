/* fused.cu: element-wise operations run as one: a program that every thread goes through with a few elements.
 *
 * Its steps are the same for all threads, so that no branch divides a warp, and cost what it takes to find out what
 * they are, which many elements share.  What the last step made stays in registers; operands, all asked for before
 * the first is used, and what is needed later are in shared memory, where each thread reads what it has put there.
 * The formulas are those of single operations, and half types are rounded after each of them, so results are the same
 * bits.  Of small groups, for which there are more threads than that leaves work for, each thread has FEW elements. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/formulas.h"
#include "cuda/kernels/fused.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"

/* How many elements' formulas are in the kernel side by side, through which the others go in turn: all of short ones,
 * some of those that neural networks are made of, few of others, which may be functions apart (formulas.h). */
#define SHORT ~, 16, FN
#define LONGER ~, 8, FN
#define SIZE_abs SHORT
#define SIZE_negative SHORT
#define SIZE_square SHORT
#define SIZE_floor SHORT
#define SIZE_add SHORT
#define SIZE_subtract SHORT
#define SIZE_multiply SHORT
#define SIZE_maximum SHORT
#define SIZE_minimum SHORT
#define SIZE_equal SHORT
#define SIZE_not_equal SHORT
#define SIZE_less SHORT
#define SIZE_less_equal SHORT
#define SIZE_greater SHORT
#define SIZE_greater_equal SHORT
#define SIZE_logical_not SHORT
#define SIZE_logical_and SHORT
#define SIZE_logical_or SHORT
#define SIZE_divide LONGER
#define SIZE_sqrt LONGER
#define SIZE_rsqrt LONGER
#define SIZE_exp LONGER
#define SIZE_log LONGER
#define SIZE_log1p LONGER
#define SIZE_tanh LONGER
#define SIZE_erf LONGER
#define SIZE_sigmoid LONGER
#define SIZE_sigmoid_slope LONGER
#define SIZE_silu LONGER
#define SIZE_silu_slope LONGER
#define SECOND_(x, second, ...) second
#define THIRD_(x, y, third, ...) third
#define SECOND(...) SECOND_(__VA_ARGS__)
#define THIRD(...) THIRD_(__VA_ARGS__)
#define SIDE_BY_SIDE(name) SECOND(SIZE_##name, 4, )
#define DECLARED(name, set) THIRD(SIZE_##name, 4, FN_##set, )

#include "cuda/kernels/fused_values.h"
#include "cuda/kernels/warp.h"

/* HELD: elements of a thread. */
#ifdef FEW
enum { HELD = FUSED_FEW, SLOT = FUSED_FEW_SLOT_BYTES * FUSED_THREADS };
#define FUSED_KERNEL cu_fused_few
#else
enum { HELD = FUSED_EACH, SLOT = FUSED_SLOT_BYTES * FUSED_THREADS };
#define FUSED_KERNEL cu_fused
#endif

enum {
    QUADS = HELD / FUSED_LANES,
    UNIT = 16 * FUSED_THREADS, /* bytes from a thread's unit to the next */
};

/* How far the first element of quad q is behind the first of the thread. */
FN int quad_at(int lanes, int q)
{
    return lanes == FUSED_LANES ? q * FUSED_LANES * FUSED_THREADS
                                : q / 2 * 2 * FUSED_LANES * FUSED_THREADS + q % 2 * FUSED_LANES;
}

FN int kept_as(int type) { return type == DT_bfloat16 ? FUSED_KEPT_BF16 : type == DT_float16 ? FUSED_KEPT_F16 : 0; }

/* ---- halves, packed: element k is in word k / 2 */

/* In place. */
FN void pack(uint32_t v[HELD], int kept)
{
    if (kept == FUSED_KEPT_BF16) {
        UNROLLED
        for (int k = 0; k < HELD / 2; k++) v[k] = pack_pair(v + 2 * k, true);
    } else {
        UNROLLED
        for (int k = 0; k < HELD / 2; k++) v[k] = pack_pair(v + 2 * k, false);
    }
}

/* In place. */
FN void unpack(uint32_t v[HELD], int kept)
{
    if (kept == FUSED_KEPT_BF16) {
        UNROLLED
        for (int k = HELD / 2; k-- > 0;) unpack_pair(v + 2 * k, v[k], true);
    } else {
        UNROLLED
        for (int k = HELD / 2; k-- > 0;) unpack_pair(v + 2 * k, v[k], false);
    }
}

/* ---- slots */

FN void keep_words(shared_at slot, const uint32_t v[HELD])
{
    UNROLLED
    for (int q = 0; q < QUADS; q++) put_words4(slot + q * UNIT, v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]);
}

FN void keep_halves(shared_at slot, const uint32_t p[HELD / 2])
{
    if (QUADS == 1)
        put_words2(slot, p[0], p[1]);
    UNROLLED
    for (int j = 0; j < QUADS / 2; j++) put_words4(slot + j * UNIT, p[4 * j], p[4 * j + 1], p[4 * j + 2], p[4 * j + 3]);
}

FN void fetch_packed(uint32_t v[HELD], shared_at slot)
{
    if (QUADS == 1) {
        struct words2 w = words2_at(slot);
        v[0] = w.w[0];
        v[1] = w.w[1];
    }
    UNROLLED
    for (int j = 0; j < QUADS / 2; j++) {
        struct words4 w = words4_at(slot + j * UNIT);
        UNROLLED
        for (int k = 0; k < 4; k++) v[4 * j + k] = w.w[k];
    }
}

FN uint32_t pair_of_one(shared_at ones, int from, int half)
{
    float one = f32_bits(word_at(ones + 4 * (from - FUSED_ONES)));
    return half == FUSED_KEPT_BF16 ? pair_bf16(one, one) : pair_f16(one, one);
}

/* What a step reads, but for what the last one made. */
FN void fetch(uint32_t v[HELD], shared_at kept, shared_at ones, int from)
{
    shared_at slot = kept + (from & FUSED_SLOT) * SLOT;
    if (from >= FUSED_ONES) {
        uint32_t one = word_at(ones + 4 * (from - FUSED_ONES));
        UNROLLED
        for (int k = 0; k < HELD; k++) v[k] = one;
    } else if (from <= FUSED_SLOT) {
        UNROLLED
        for (int q = 0; q < QUADS; q++) {
            struct words4 w = words4_at(slot + q * UNIT);
            UNROLLED
            for (int k = 0; k < FUSED_LANES; k++) v[FUSED_LANES * q + k] = w.w[k];
        }
    } else {
        fetch_packed(v, slot);
        unpack(v, from & ~FUSED_SLOT);
    }
}

/* The same of halves, as pairs. */
FN void fetch_pairs(uint32_t v[HELD], shared_at kept, shared_at ones, int from, int half)
{
    if (from >= FUSED_ONES) {
        uint32_t one = pair_of_one(ones, from, half);
        UNROLLED
        for (int k = 0; k < HELD / 2; k++) v[k] = one;
    } else {
        fetch_packed(v, kept + (from & FUSED_SLOT) * SLOT);
    }
}

/* Its quad q alone. */
FN void fetch_quad(uint32_t v[FUSED_LANES], shared_at kept, shared_at ones, int from, int q)
{
    shared_at slot = kept + (from & FUSED_SLOT) * SLOT;
    if (from >= FUSED_ONES) {
        for (int k = 0; k < FUSED_LANES; k++) v[k] = word_at(ones + 4 * (from - FUSED_ONES));
    } else if (from <= FUSED_SLOT) {
        struct words4 w = words4_at(slot + q * UNIT);
        for (int k = 0; k < FUSED_LANES; k++) v[k] = w.w[k];
    } else {
        struct words2 w = words2_at(slot + q / 2 * UNIT + q % 2 * 8);
        bool is_bf16 = (from & ~FUSED_SLOT) == FUSED_KEPT_BF16;
        unpack_pair(v, w.w[0], is_bf16);
        unpack_pair(v + 2, w.w[1], is_bf16);
    }
}

/* ---- operands */

/* Where the quads of a thread whose first element is `mine` begin. */
FN void places_in_rows(int64_t at[QUADS], const struct fused_args *a, const struct fused_operand *o, int64_t mine)
{
    uint32_t i[QUADS], here[QUADS];
    if (!a->near) {
        UNROLLED
        for (int q = 0; q < QUADS; q++) at[q] = place_in(a, o, mine + quad_at(a->lanes, q));
        return;
    }
    UNROLLED
    for (int q = 0; q < QUADS; q++) {
        i[q] = (uint32_t)mine + (uint32_t)quad_at(a->lanes, q);
        here[q] = 0;
    }
    ROLLED
    for (int d = a->ndim; --d > 0;) {
        uint32_t shape = a->shape[d], factor = a->factor[d], shift = a->shift[d], stride = (uint32_t)o->stride[d];
        UNROLLED
        for (int q = 0; q < QUADS; q++) {
            uint32_t up = (uint32_t)((uint64_t)i[q] * factor >> shift);
            here[q] += (i[q] - up * shape) * stride;
            i[q] = up;
        }
    }
    UNROLLED
    for (int q = 0; q < QUADS; q++) at[q] = (int32_t)(here[q] + i[q] * (uint32_t)o->stride[0]);
}

/* Bits of integers and bools as values. */
FN void widen(uint32_t v[HELD], int type)
{
    if (type == DT_int8) {
        UNROLLED
        for (int k = 0; k < HELD; k++) v[k] = (uint32_t)(int32_t)(int8_t)v[k];
    } else if (type == DT_int16) {
        UNROLLED
        for (int k = 0; k < HELD; k++) v[k] = (uint32_t)(int32_t)(int16_t)v[k];
    }
}

/* The bits of elements, where quads begin at these places and elements are `step` apart; rows: a quad's are neighbours
 * at a multiple of their size. */
FN void read_quads(uint32_t v[HELD], const void *x, int size, const int64_t at[QUADS], int64_t step, bool rows)
{
    if (size == 1 && rows) {
        UNROLLED
        for (int q = 0; q < QUADS; q++) v[FUSED_LANES * q] = *(const uint32_t *)WIDE_AT((const uint8_t *)x + at[q], 4);
        UNROLLED
        for (int k = HELD; k-- > 0;) v[k] = v[k / FUSED_LANES * FUSED_LANES] >> k % FUSED_LANES * 8 & 0xff;
    } else if (step == 0) {
        UNROLLED
        for (int q = 0; q < QUADS; q++) v[FUSED_LANES * q] = raw_at(x, size, at[q]);
        UNROLLED
        for (int k = 0; k < HELD; k++) v[k] = v[k / FUSED_LANES * FUSED_LANES];
    } else {
        UNROLLED
        for (int k = 0; k < HELD; k++) v[k] = raw_at(x, size, at[k / FUSED_LANES] + k % FUSED_LANES * step);
    }
}

/* One by one, as far as there are any. */
FN void read_some(uint32_t v[HELD], const struct fused_args *a, const struct fused_operand *o, int64_t mine)
{
    int64_t left = a->n - mine;
    int size = size_of(o->type);
    UNROLLED
    for (int k = 0; k < HELD; k++) {
        int e = quad_at(a->lanes, k / FUSED_LANES) + k % FUSED_LANES;
        v[k] = e < left ? raw_at(o->x, size, o->lies == FUSED_ROW ? mine + e : place_in(a, o, mine + e)) : 0;
    }
}

/* Rows on their way to a slot: quads that begin at these places, or follow each other from `mine` on. */
FN int64_t quad_of(const int64_t *at, int64_t mine, int lanes, int q) { return at ? at[q] : mine + quad_at(lanes, q); }
FN void copy_rows(shared_at slot, const void *x, const int64_t *at, int64_t mine, int copies)
{
    if (copies == FUSED_WORDS) {
        UNROLLED
        for (int q = 0; q < QUADS; q++)
            copy_later_at(slot + q * UNIT, (const uint32_t *)x + quad_of(at, mine, FUSED_LANES, q), 1);
    } else if (copies == FUSED_EIGHTS) {
        UNROLLED
        for (int q = 0; q < QUADS; q += 2)
            copy_later_at(slot + q / 2 * UNIT, (const uint16_t *)x + quad_of(at, mine, 2 * FUSED_LANES, q), 1);
    } else {
        UNROLLED
        for (int q = 0; q < QUADS; q++)
            copy_few_later_at(slot + q / 2 * UNIT + q % 2 * 8, (const uint16_t *)x + quad_of(at, mine, FUSED_LANES, q));
    }
}

/* An operand's elements, there or on their way to a slot. */
FN void read(shared_at slot, const struct fused_args *a, const struct fused_operand *o, int64_t mine, bool full,
             int copies)
{
    if (full && copies && o->lies == FUSED_ROW) {
        copy_rows(slot, o->x, 0, mine, copies);
        return;
    }
    int size = size_of(o->type), rows = o->lies == FUSED_ROW || o->lies == FUSED_ROWS;
    uint32_t v[HELD];
    if (full && (rows || a->whole)) {
        int64_t at[QUADS];
        if (o->lies == FUSED_ROW) {
            UNROLLED
            for (int q = 0; q < QUADS; q++) at[q] = mine + quad_at(a->lanes, q);
        } else {
            places_in_rows(at, a, o, mine);
        }
        if (copies) {
            copy_rows(slot, o->x, at, mine, copies);
            return;
        }
        read_quads(v, o->x, size, at, rows ? 1 : o->stride[a->ndim - 1], rows);
    } else {
        read_some(v, a, o, mine);
    }
    if (kept_as(o->type)) {
        UNROLLED
        for (int k = 0; k < HELD / 2; k++) v[k] = v[2 * k] | v[2 * k + 1] << 16;
        keep_halves(slot, v);
    } else {
        widen(v, o->type);
        keep_words(slot, v);
    }
}

/* ---- results */

/* Values as elements of a type would have them; none of those that need no change. */
FN void narrow(uint32_t v[HELD], int type)
{
    uint32_t bits = size_of(type) == 1 ? 0xff : size_of(type) == 2 ? 0xffff : 0xffffffff;
    UNROLLED
    for (int k = 0; k < HELD; k++) v[k] &= bits;
}

FN void write_words(uint32_t *to, int64_t mine, const uint32_t v[HELD])
{
    UNROLLED
    for (int q = 0; q < QUADS; q++) {
        struct words4 w = { { v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3] } };
        *(struct words4 *)(to + mine + quad_at(FUSED_LANES, q)) = w;
    }
}

/* p: halves, packed. */
FN void write_halves(uint16_t *to, int64_t mine, const uint32_t p[HELD / 2], int lanes)
{
    if (lanes == FUSED_LANES) {
        UNROLLED
        for (int q = 0; q < QUADS; q++) {
            struct words2 w = { { p[2 * q], p[2 * q + 1] } };
            *(struct words2 *)(to + mine + quad_at(FUSED_LANES, q)) = w;
        }
    } else {
        UNROLLED
        for (int j = 0; j < QUADS / 2; j++) {
            struct words4 w = { { p[4 * j], p[4 * j + 1], p[4 * j + 2], p[4 * j + 3] } };
            *(struct words4 *)(to + mine + quad_at(2 * FUSED_LANES, 2 * j)) = w;
        }
    }
}

FN void write_bytes(uint8_t *to, int64_t mine, const uint32_t v[HELD], int lanes)
{
    UNROLLED
    for (int q = 0; q < QUADS; q++)
        *(uint32_t *)(to + mine + quad_at(lanes, q)) =
            v[4 * q] | v[4 * q + 1] << 8 | v[4 * q + 2] << 16 | v[4 * q + 3] << 24;
}

/* Elements one by one, as far as there are any. */
FN void write_some(void *to, const struct fused_args *a, int64_t mine, const uint32_t v[HELD], int size)
{
    int64_t left = a->n - mine;
    char *first = (char *)to + mine * size;
    UNROLLED
    for (int k = 0; k < HELD; k++) {
        int e = quad_at(a->lanes, k / FUSED_LANES) + k % FUSED_LANES;
        if (e >= left)
            continue;
        if (size == 4)
            ((uint32_t *)first)[e] = v[k];
        else if (size == 2)
            ((uint16_t *)first)[e] = (uint16_t)v[k];
        else
            ((uint8_t *)first)[e] = (uint8_t)v[k];
    }
}

FN void write_some_halves(uint16_t *to, const struct fused_args *a, int64_t mine, const uint32_t p[HELD / 2])
{
    uint32_t v[HELD];
    UNROLLED
    for (int k = 0; k < HELD; k++) v[k] = p[k / 2] >> k % 2 * 16;
    write_some(to, a, mine, v, 2);
}

/* Rounds v to a half type, if it is not yet, and puts it where it is to be kept or written. */
FN void finish_halves(uint32_t v[HELD], const struct fused_args *a, struct fused_step s, shared_at kept, int64_t mine,
                      bool full, int half)
{
    if (!(s.needs & FUSED_PAIRS))
        pack(v, half);
    if (s.to != FUSED_NOTHING)
        keep_halves(kept + (s.to & FUSED_SLOT) * SLOT, v);
    if (s.out != FUSED_NOTHING) {
        if (full)
            write_halves((uint16_t *)a->y[s.out], mine, v, a->lanes);
        else
            write_some_halves((uint16_t *)a->y[s.out], a, mine, v);
    }
    if (!(s.needs & FUSED_AS_PAIRS))
        unpack(v, half);
}

/* The same of float32 in a whole block. */
FN void finish_floats(const uint32_t v[HELD], const struct fused_args *a, struct fused_step s, shared_at kept,
                      int64_t mine)
{
    if (s.out != FUSED_NOTHING)
        write_words((uint32_t *)a->y[s.out], mine, v);
    if (s.to != FUSED_NOTHING)
        keep_words(kept + (s.to & FUSED_SLOT) * SLOT, v);
}

/* The same of other types: makes of v what elements of them are. */
FN void finish_words(uint32_t v[HELD], const struct fused_args *a, struct fused_step s, shared_at kept, int64_t mine,
                     bool full)
{
    int size = size_of(s.as);
    if (size < 4)
        narrow(v, s.as);
    if (s.out != FUSED_NOTHING && full && size == 4)
        write_words((uint32_t *)a->y[s.out], mine, v);
    else if (s.out != FUSED_NOTHING && full && size == 1)
        write_bytes((uint8_t *)a->y[s.out], mine, v, a->lanes);
    else if (s.out != FUSED_NOTHING)
        write_some(a->y[s.out], a, mine, v, size);
    if (size < 4) {
        UNROLLED
        for (int k = 0; k < HELD; k++) v[k] = widened(v[k], s.as);
    }
    if (s.to != FUSED_NOTHING)
        keep_words(kept + (s.to & FUSED_SLOT) * SLOT, v);
}

/* ---- operations */

/* Every element of u becomes `value`, of element k of u and of others: `side` at a time, while those behind move up,
 * since registers have no numbers. */
#define EACH(side, value, move_up)                                                   \
    {                                                                                \
        enum { AT_ONCE = (side) < HELD ? (side) : HELD };                            \
        ROLLED                                                                       \
        for (int done = 0; done < HELD; done += AT_ONCE) {                           \
            uint32_t r[AT_ONCE];                                                     \
            UNROLLED for (int k = 0; k < AT_ONCE; k++) r[k] = value;                 \
            UNROLLED for (int k = 0; k < HELD - AT_ONCE; k++) move_up(AT_ONCE);      \
            UNROLLED for (int k = 0; k < AT_ONCE; k++) u[HELD - AT_ONCE + k] = r[k]; \
        }                                                                            \
    }
#define MOVE_ONE(side) u[k] = u[k + (side)]
#define MOVE_TWO(side) u[k] = u[k + (side)], v[k] = v[k + (side)]
#define CASE_ONE(name, suffix, class)                                   \
    case FUSED_##name##_##class:                                        \
        EACH(SIDE_BY_SIDE(name), one_##name##_##suffix(u[k]), MOVE_ONE) \
        break;
#define CASE_WITH_ONE(name)                                             \
    case FUSED_##name##_ONE: {                                          \
        const uint32_t one = word_at(ones + 4 * (s.x[2] - FUSED_ONES)); \
        EACH(SIDE_BY_SIDE(name), two_##name##_f32(u[k], one), MOVE_ONE) \
        break;                                                          \
    }
#define CASE_PAIRS(name, suffix, type)                                                       \
    case FUSED_##name##_##type:                                                              \
        UNROLLED for (int k = 0; k < HELD / 2; k++) u[k] = name##_pair_##suffix(u[k], v[k]); \
        break;                                                                               \
    case FUSED_##name##_##type##_ONE: {                                                      \
        const uint32_t one = pair_of_one(ones, s.x[2], FUSED_KEPT_##type);                   \
        UNROLLED for (int k = 0; k < HELD / 2; k++) u[k] = name##_pair_##suffix(u[k], one);  \
        break;                                                                               \
    }
#define CASE_TWO(name, suffix, class)                                         \
    case FUSED_##name##_##class:                                              \
        EACH(SIDE_BY_SIDE(name), two_##name##_##suffix(u[k], v[k]), MOVE_TWO) \
        break;
#define CASE_MOVE(name, value) \
    case FUSED_##name: EACH(4, value, MOVE_ONE) break;

/* Loaded as one. */
FN uint64_t step_at(const struct fused_args *a, int i) { return ((const uint64_t *)a->step)[i]; }
FN struct fused_step step_of(uint64_t all)
{
    uint32_t low = (uint32_t)all, high = (uint32_t)(all >> 32);
    struct fused_step s = {
        (uint8_t)low,         (uint8_t)(low >> 8),   { (uint8_t)(low >> 16), (uint8_t)(low >> 24), (uint8_t)high },
        (uint8_t)(high >> 8), (uint8_t)(high >> 16), (uint8_t)(high >> 24)
    };
    return s;
}
/* Asks for a bit of s.needs. */
FN bool needs(uint64_t all, uint32_t what) { return (uint32_t)all & what << 8; }

/* A place that stays in a register, rather than be found out at each use, which takes longer.  Its own is what a thread
 * asks another for. */
#ifdef __CUDACC__
#define KNOWN(place) __shfl_sync(0xffffffffu, place, (int)(threadIdx.x % 32))
#else
#define KNOWN(place) (place)
#endif

/* A register of which nobody needs the value, so that no earlier one is kept for it, and a copy made where it is said,
 * not before a branch to elsewhere. */
#ifdef __CUDACC__
#define ANYTHING(x) asm("" : "=r"(x))
#define COPIED(to, from) asm volatile("mov.b32 %0, %1;" : "=r"(to) : "r"(from))
#else
#define ANYTHING(x) (x) = 0
#define COPIED(to, from) (to) = (from)
#endif

BOUNDED_KERNEL(FUSED_KERNEL, struct fused_args, FUSED_THREADS, 7)
{
    SHARED_BYTES(shared, FUSED_BEFORE + FUSED_UNITS / 2 * SLOT);
    shared_at ones = KNOWN(place_in_shared(shared)), kept = KNOWN(ones + FUSED_BEFORE + 16 * threadIdx.x);
    int64_t first = (int64_t)blockIdx.x * FUSED_THREADS * HELD, mine = first + (int64_t)threadIdx.x * a.lanes;
    bool full = first + FUSED_THREADS * HELD <= a.n;
    if ((int)threadIdx.x < a.operands && a.x[threadIdx.x].lies == FUSED_ONE) {
        const struct fused_operand *o = &a.x[threadIdx.x];
        ((uint32_t *)shared)[threadIdx.x] = widened(raw_at(o->x, size_of(o->type), 0), o->type);
    }
    uint32_t u[HELD];
    UNROLLED
    for (int k = 0; k < HELD; k++) ANYTHING(u[k]);
    uint64_t next = step_at(&a, 0);
    ROLLED
    for (int i = 1; i <= a.steps; i++) {
        const uint64_t now = next;
        const struct fused_step s = step_of(now);
        uint32_t v[HELD];
        next = step_at(&a, i);
        UNROLLED
        for (int k = 0; k < HELD; k++) ANYTHING(v[k]);
        if (needs(now, FUSED_OPERAND)) {
            bool pairs = needs(now, FUSED_PAIRS);
            int half = kept_as(s.as);
            if (needs(now, FUSED_AWAIT)) {
                close_group();
                WAIT_GROUPS(0);
                BARRIER();
            }
            if (s.x[1] == FUSED_LAST) {
                UNROLLED
                for (int k = 0; k < HELD; k++) COPIED(v[k], u[k]);
            } else if (s.x[1] != FUSED_NOTHING) {
                if (pairs)
                    fetch_pairs(v, kept, ones, s.x[1], half);
                else
                    fetch(v, kept, ones, s.x[1]);
            }
            if (s.x[0] != FUSED_LAST) {
                if (pairs)
                    fetch_pairs(u, kept, ones, s.x[0], half);
                else
                    fetch(u, kept, ones, s.x[0]);
            }
        }
        if (s.op < FUSED_UNARY)
            switch ((int)s.op) {
#define X(name) CASE_WITH_ONE(name)
                FUSED_WITH_ONE(X)
#undef X
#define X(name) CASE_PAIRS(name, bf16, BF16) CASE_PAIRS(name, f16, F16)
                FUSED_ON_PAIRS(X)
#undef X
            }
        else if (s.op < FUSED_BINARY)
            switch ((int)s.op) {
#define KIND f
#define UNARY(name, label, set, ...) ROW(set, CASE_ONE(name, f32, F))
#include "ops/ops.def"
#undef KIND
#define KIND i
#define UNARY(name, label, set, ...) ROW(set, CASE_ONE(name, i32, I) CASE_ONE(name, u32, U))
#include "ops/ops.def"
#undef KIND
#define KIND b
#define UNARY(name, label, set, ...) ROW(set, CASE_ONE(name, b8, B))
#include "ops/ops.def"
#undef KIND
#define X(name) CASE_ONE(name, half, H)
                FUSED_OF_HALF(X)
#undef X
#define X(name) CASE_MOVE(name, one_##name(u[k]))
                FUSED_CASTS(X)
#undef X
            case FUSED_READ: read(kept + (s.to & FUSED_SLOT) * SLOT, &a, &a.x[s.x[1]], mine, full, s.x[2]); break;
            }
        else
            switch ((int)s.op) {
#define KIND f
#define BINARY(name, label, set, ...) ROW(set, CASE_TWO(name, f32, F))
#include "ops/ops.def"
#undef KIND
#define KIND i
#define BINARY(name, label, set, ...) ROW(set, CASE_TWO(name, i32, I) CASE_TWO(name, u32, U))
#include "ops/ops.def"
#undef KIND
#define KIND b
#define BINARY(name, label, set, ...) ROW(set, CASE_TWO(name, b8, B))
#include "ops/ops.def"
#undef KIND
#define X(name) CASE_TWO(name, half, H)
                FUSED_OF_HALVES(X)
#undef X
            case FUSED_SELECT:
                UNROLLED
                for (int q = 0; q < QUADS; q++) {
                    uint32_t w[FUSED_LANES];
                    fetch_quad(w, kept, ones, s.x[2], q);
                    for (int k = 0; k < FUSED_LANES; k++) {
                        int e = FUSED_LANES * q + k;
                        u[e] = u[e] ? v[e] : w[k];
                    }
                }
                break;
            }
        if (!needs(now, FUSED_END))
            continue;
        if (s.as == DT_bfloat16)
            finish_halves(u, &a, s, kept, mine, full, FUSED_KEPT_BF16);
        else if (s.as == DT_float16)
            finish_halves(u, &a, s, kept, mine, full, FUSED_KEPT_F16);
        else if (s.as == DT_float32 && full)
            finish_floats(u, &a, s, kept, mine);
        else
            finish_words(u, &a, s, kept, mine, full);
    }
}
