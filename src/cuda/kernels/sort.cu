/* sort.cu: rows in order.
 *
 * Elements become keys, integers that order alike; of equal keys the place decides, so the order is one and no step
 * depends on timing.  Steps of a bitonic network whose partners lie in one tile are made in shared memory. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/order_at.h"
#include "cuda/kernels/sort.h"

/* Every NaN has the largest key. */
FN uint64_t key_at(const struct sort_call *a, int64_t i)
{
    return (uint64_t)order_at(a->x, a->type, i, a->ranks) ^ (uint64_t)1 << 63;
}

/* Result i of a row is its element `place`. */
FN void put(const struct sort_call *a, int64_t row, int64_t i, uint32_t place)
{
    int64_t to = row * a->n + i, from = row * a->n + place;
    if (a->ranks) {
        ((uint32_t *)a->y)[to] = place;
        return;
    }
    switch (a->type) {
    case DT_bool_: ((uint8_t *)a->y)[to] = ((const uint8_t *)a->x)[from] != 0; break;
    case DT_uint8:
    case DT_int8: ((uint8_t *)a->y)[to] = ((const uint8_t *)a->x)[from]; break;
    case DT_uint16:
    case DT_int16:
    case DT_float16:
    case DT_bfloat16: ((uint16_t *)a->y)[to] = ((const uint16_t *)a->x)[from]; break;
    case DT_uint32:
    case DT_int32:
    case DT_float32: ((uint32_t *)a->y)[to] = ((const uint32_t *)a->x)[from]; break;
    default: ((uint64_t *)a->y)[to] = ((const uint64_t *)a->x)[from];
    }
}

/* Puts two in order, or in the opposite one where the stage wants that of place i of the row. */
FN void settle(const struct sort_call *a, int64_t stage, int64_t i, uint64_t *k, uint64_t *l, uint32_t *p, uint32_t *q)
{
    int up = (i & stage) == 0 || stage == a->width, above = *k > *l || (*k == *l && *p > *q);
    if (above == up) {
        uint64_t key = *k;
        uint32_t place = *p;
        *k = *l;
        *l = key;
        *p = *q;
        *q = place;
    }
}

KERNEL(cu_sort_tiles, struct sort_call)
{
    SHARED uint64_t key[SORT_TILE];
    SHARED uint32_t place[SORT_TILE];
    int64_t tiles = a.width / a.tile, row = blockIdx.x / tiles, first = blockIdx.x % tiles * a.tile;
    int64_t base = row * a.width + first;
    int tile = (int)a.tile, me = (int)threadIdx.x, threads = (int)blockDim.x;
    for (int i = me; i < tile; i += threads) {
        bool here = first + i < a.n;
        if (a.begins) {
            key[i] = here ? key_at(&a, row * a.n + first + i) : ~(uint64_t)0;
            place[i] = (uint32_t)(first + i);
        } else {
            key[i] = a.keys[base + i];
            place[i] = a.places[base + i];
        }
    }
    for (int64_t stage = a.begins ? 2 : a.stage; stage <= (a.begins ? a.tile : a.stage); stage *= 2)
        for (int apart = (int)(stage / 2 < a.tile / 2 ? stage / 2 : a.tile / 2); apart > 0; apart /= 2) {
            BARRIER();
            for (int k = me; k < tile / 2; k += threads) {
                int i = (k & -apart) * 2 + (k & (apart - 1)), j = i + apart;
                settle(&a, stage, first + i, &key[i], &key[j], &place[i], &place[j]);
            }
        }
    BARRIER();
    for (int i = me; i < tile; i += threads) {
        if (!a.ends) {
            a.keys[base + i] = key[i];
            a.places[base + i] = place[i];
        } else if (first + i < a.n) {
            put(&a, row, first + i, place[i]);
        }
    }
}

KERNEL(cu_sort_step, struct sort_call)
{
    int64_t pair = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, half = a.width / 2;
    if (pair >= a.rows * half)
        return;
    int64_t k = pair % half, i = (k & -a.apart) * 2 + (k & (a.apart - 1)), at = pair / half * a.width + i;
    settle(&a, a.stage, i, &a.keys[at], &a.keys[at + a.apart], &a.places[at], &a.places[at + a.apart]);
}
