/* sort.cu: rows in order: cu_sort_row_4.  The build compiles it for each line of modules.def, with SIZE, the bytes of
 * an element, and UNIT, an unsigned type of that size, defined.
 *
 * Elements become keys of their size, unsigned integers that order alike; equal ones keep their order, so the result is
 * one and no step depends on timing.  Short rows are a warp's (sort_warp.inc), those of up to a tile a block's, longer
 * ones are put in order by one digit after the other (radix.inc), or split at an element (split.inc). */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/sort.h"
#include "shared/order.h"

#define K(name) PASTE(name, SIZE)
#define TOP ((UNIT)((UNIT)1 << (SIZE * 8 - 1)))
#define LAST ((UNIT) ~(UNIT)0) /* the key of what comes behind all others: what is not there, and NaN */

enum { EACH = SORT_EACH(SIZE), TILE = SORT_TILE(SIZE), WARPS = SORT_THREADS / 32 };

#define KEYS(kind, expression)                   \
    case kind:                                   \
        UNROLLED                                 \
        for (int k = 0; k < n; k++) {            \
            UNIT x = key[k];                     \
            key[k] = (UNIT)((expression) ^ TOP); \
        }                                        \
        break

/* Elements become keys: once all are there, so that none is waited for before the next is asked for. */
FN void make_keys(const struct sort_call *a, UNIT *key, const int n)
{
    switch (a->reads) {
        KEYS(SORT_SIGNED, x);
        KEYS(SORT_BOOL, (x != 0) ^ TOP);
#if SIZE == 2
        KEYS(SORT_FLOAT, order_f16((int16_t)x, a->ranks));
        KEYS(SORT_BFLOAT16, order_bf16((int16_t)x, a->ranks));
#elif SIZE == 4
        KEYS(SORT_FLOAT, (UNIT)order_f32((int32_t)x, a->ranks));
#elif SIZE == 8
        KEYS(SORT_FLOAT, (UNIT)order_f64((int64_t)x, a->ranks));
        KEYS(SORT_COMPLEX, (UNIT)order_c64((int32_t)x, (int32_t)(x >> 32)));
#endif
    default: break;
    }
}

/* What turns a key into the value that it tells, by its highest bit.  Of NaNs there is one. */
struct turned {
    UNIT low, high;
};
FN struct turned turned_as(int kind)
{
    struct turned t = { 0, 0 };
    if (kind == SORT_SIGNED || kind == SORT_FLOAT || kind == SORT_BFLOAT16) {
        t.low = kind == SORT_SIGNED ? TOP : LAST;
        t.high = TOP;
    }
    return t;
}
FN UNIT value_of(struct turned t, UNIT key) { return (UNIT)(key ^ (key & TOP ? t.high : t.low)); }

FN uint32_t digit_at(UNIT key, int bit) { return (uint32_t)(key >> bit) & (SORT_DIGITS - 1); }

#include "cuda/kernels/radix.inc"

#include "cuda/kernels/split.inc"

/* ---- rows in the threads of a warp: items, which compare as rows have them */

#if SIZE == 8
typedef uint64_t key_item;
typedef struct {
    uint64_t key;
    uint32_t place;
} placed_item;
FN placed_item made_placed(uint64_t key, uint32_t place)
{
    placed_item p;
    p.key = key;
    p.place = place;
    return p;
}
FN bool is_less_placed_item(placed_item p, placed_item q)
{
    return p.key < q.key || (p.key == q.key && p.place < q.place);
}
FN placed_item shuffled_placed_item(placed_item p, int bits)
{
    return made_placed(SHUFFLE_XOR(p.key, bits), SHUFFLE_XOR(p.place, bits));
}
FN uint32_t place_of_placed_item(placed_item p) { return p.place; }
#else
typedef uint32_t key_item;
typedef uint64_t placed_item;
FN placed_item made_placed(uint32_t key, uint32_t place) { return (uint64_t)key << 32 | place; }
FN bool is_less_placed_item(placed_item p, placed_item q) { return p < q; }
FN placed_item shuffled_placed_item(placed_item p, int bits) { return SHUFFLE_XOR(p, bits); }
FN uint32_t place_of_placed_item(placed_item p) { return (uint32_t)p; }
#endif
FN placed_item item_placed_item(UNIT key, uint32_t place) { return made_placed(key, place); }
FN placed_item no_placed_item(void) { return made_placed((key_item) ~(key_item)0, 0xffffffffu); }
FN bool is_less_key_item(key_item p, key_item q) { return p < q; }
FN key_item shuffled_key_item(key_item p, int bits) { return SHUFFLE_XOR(p, bits); }
FN key_item item_key_item(UNIT key, uint32_t place) { return (void)place, key; }
FN key_item no_key_item(void) { return (key_item) ~(key_item)0; }

#define PLACED 0
#define ITEMS 1
#include "cuda/kernels/sort_warp.inc"
#undef ITEMS
#define ITEMS 4
#include "cuda/kernels/sort_warp.inc"
#undef ITEMS
#define ITEMS 16
#include "cuda/kernels/sort_warp.inc"
#undef ITEMS
#undef PLACED
#define PLACED 1
#define ITEMS 1
#include "cuda/kernels/sort_warp.inc"
#undef ITEMS
#define ITEMS 4
#include "cuda/kernels/sort_warp.inc"
#undef ITEMS
#define ITEMS 16
#include "cuda/kernels/sort_warp.inc"
