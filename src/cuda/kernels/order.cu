/* order.cu: updates in the order of where they go, those for one place in their own: a radix sort, four bits at a time.
 * A tile's keys are counted, digit by digit; the counts of all tiles become places; the tile is put in order, and each
 * digit's keys go there. */
#include "cuda/kernels/gpu.h"
#include "cuda/kernels/lookup_at.h"
#include "cuda/kernels/order.h"

KERNEL(cu_keys, struct keys_call)
{
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i = n, element = 0;
    if (n >= a.n)
        return;
    if (a.elements) {
        i = n / a.lookup.slice;
        element = n - i * a.lookup.slice;
    }
    struct lookup_at at = lookup_at(&a.lookup, i);
    if (a.elements)
        at.far += lookup_in_slice(&a.lookup, element).far;
    if (a.key)
        a.key[n] = at.outside && a.drops ? ORDER_NONE : (uint32_t)(at.far >> a.shift);
}

/* The place of each of few keys: how many come before it. */
KERNEL(cu_rank, struct order_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, before = 0;
    if (i >= a.n)
        return;
    uint32_t mine = a.key[i];
    for (int64_t j = 0; j < a.n; j++) {
        uint32_t other = a.key[j];
        before += other < mine || (other == mine && j < i);
    }
    a.to_key[before] = mine;
    a.to_number[before] = (uint32_t)i;
}

/* A number for each digit, sixteen bits of it. */
struct digits {
    uint64_t w[4];
};

FN void digits_count(struct digits *c, uint32_t digit)
{
    uint64_t one = (uint64_t)1 << (digit & 3) * 16;
    for (uint32_t k = 0; k < 4; k++) c->w[k] += digit >> 2 == k ? one : 0;
}

FN uint32_t digits_of(const struct digits *c, uint32_t digit)
{
    uint64_t low = digit & 4 ? c->w[1] : c->w[0], high = digit & 4 ? c->w[3] : c->w[2];
    return (uint32_t)((digit & 8 ? high : low) >> (digit & 3) * 16) & 0xffff;
}

FN uint32_t digit_at(uint32_t key, int32_t bit) { return key >> bit & (ORDER_DIGITS - 1); }

KERNEL(cu_count, struct order_call)
{
    enum { WARPS = ORDER_THREADS / 32 };
    SHARED struct digits part[WARPS];
    struct digits mine = { { 0 } };
    int64_t first = (int64_t)blockIdx.x * ORDER_TILE + threadIdx.x;
    for (int k = 0; k < ORDER_EACH; k++) {
        int64_t i = first + k * ORDER_THREADS;
        if (i < a.n)
            digits_count(&mine, digit_at(a.key[i], a.bit));
    }
    for (unsigned bits = 16; bits; bits /= 2)
        for (int k = 0; k < 4; k++) mine.w[k] += SHUFFLE_XOR(mine.w[k], bits);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = mine;
    BARRIER();
    if (threadIdx.x < ORDER_DIGITS) {
        uint32_t sum = 0;
        for (int w = 0; w < WARPS; w++) sum += digits_of(&part[w], threadIdx.x);
        a.counts[threadIdx.x * a.tiles + blockIdx.x] = sum;
    }
}

/* One block: counts become the sums of those before. */
KERNEL(cu_scan, struct order_call)
{
    SHARED uint32_t sums[ORDER_SCAN];
    int64_t all = ORDER_DIGITS * a.tiles, each = (all + ORDER_SCAN - 1) / ORDER_SCAN;
    int64_t first = threadIdx.x * each, end = first + each < all ? first + each : all;
    uint32_t sum = 0;
    for (int64_t i = first; i < end; i++) sum += a.counts[i];
    sums[threadIdx.x] = sum;
    for (unsigned apart = 1; apart < ORDER_SCAN; apart *= 2) {
        BARRIER();
        uint32_t more = threadIdx.x >= apart ? sums[threadIdx.x - apart] : 0;
        BARRIER();
        sums[threadIdx.x] += more;
    }
    uint32_t at = sums[threadIdx.x] - sum;
    for (int64_t i = first; i < end; i++) {
        uint32_t n = a.counts[i];
        a.counts[i] = at;
        at += n;
    }
}

/* Threads have neighbours each, which lie apart in memory so that they are not read from one bank. */
FN int spread(int i) { return i + i / ORDER_EACH; }

KERNEL(cu_deal, struct order_call)
{
    SHARED uint32_t keys[ORDER_TILE + ORDER_THREADS], numbers[ORDER_TILE + ORDER_THREADS];
    SHARED struct digits before[ORDER_THREADS];
    SHARED uint32_t begin[ORDER_DIGITS], to[ORDER_DIGITS];
    uint32_t key[ORDER_EACH], number[ORDER_EACH], place[ORDER_EACH];
    int64_t first = (int64_t)blockIdx.x * ORDER_TILE;
    int n = (int)(a.n - first < ORDER_TILE ? a.n - first : ORDER_TILE), me = (int)threadIdx.x;
    for (int i = me; i < n; i += ORDER_THREADS) {
        keys[spread(i)] = a.key[first + i];
        numbers[spread(i)] = a.number ? a.number[first + i] : (uint32_t)(first + i);
    }
    BARRIER();
    struct digits mine = { { 0 } };
    for (int k = 0; k < ORDER_EACH; k++) {
        int i = me * ORDER_EACH + k;
        key[k] = number[k] = 0;
        if (i < n) {
            key[k] = keys[spread(i)];
            number[k] = numbers[spread(i)];
            digits_count(&mine, digit_at(key[k], a.bit));
        }
    }
    before[me] = mine;
    for (int apart = 1; apart < ORDER_THREADS; apart *= 2) {
        BARRIER();
        struct digits more = { { 0 } };
        if (me >= apart)
            more = before[me - apart];
        BARRIER();
        for (int k = 0; k < 4; k++) before[me].w[k] += more.w[k];
    }
    BARRIER();
    if (me < ORDER_DIGITS) {
        uint32_t sum = 0;
        for (uint32_t d = 0; d < (uint32_t)me; d++) sum += digits_of(&before[ORDER_THREADS - 1], d);
        begin[me] = sum;
        to[me] = a.counts[me * a.tiles + blockIdx.x];
    }
    BARRIER();
    struct digits next = { { 0 } };
    if (me)
        next = before[me - 1];
    for (int k = 0; k < ORDER_EACH; k++) {
        uint32_t d = digit_at(key[k], a.bit);
        place[k] = begin[d] + digits_of(&next, d);
        digits_count(&next, d);
    }
    for (int k = 0; k < ORDER_EACH && me * ORDER_EACH + k < n; k++) {
        keys[spread((int)place[k])] = key[k];
        numbers[spread((int)place[k])] = number[k];
    }
    BARRIER();
    for (int i = me; i < n; i += ORDER_THREADS) {
        uint32_t one = keys[spread(i)], d = digit_at(one, a.bit), at = to[d] + ((uint32_t)i - begin[d]);
        a.to_key[at] = one;
        a.to_number[at] = numbers[spread(i)];
    }
}
