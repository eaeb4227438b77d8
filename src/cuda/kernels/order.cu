/* order.cu: updates in the order of where they go, those for one place in their own: a radix sort, eight bits at a
 * time.  A tile's keys are counted, digit by digit; the counts of all tiles become places; the tile is put in order, by
 * halves of the digit, and each digit's keys go there. */
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

FN uint32_t digit_at(uint32_t key, int32_t bit) { return key >> bit & (ORDER_DIGITS - 1); }

/* A thread of the block has a digit. */
KERNEL(cu_count, struct order_call)
{
    SHARED uint32_t counts[ORDER_DIGITS];
    int64_t first = (int64_t)blockIdx.x * ORDER_TILE + threadIdx.x;
    counts[threadIdx.x] = 0;
    BARRIER();
    for (int k = 0; k < ORDER_EACH; k++) {
        int64_t i = first + k * ORDER_THREADS;
        if (i < a.n)
            ATOMIC_ADD(&counts[digit_at(a.key[i], a.bit)], 1u);
    }
    BARRIER();
    a.counts[(int64_t)blockIdx.x * ORDER_DIGITS + threadIdx.x] = counts[threadIdx.x];
}

/* How many there are of the thread's digit in tiles first, first + 1, ... below end. */
FN uint32_t counted(const struct order_call *a, int64_t first, int64_t end)
{
    uint32_t sum = 0;
    FOURS
    for (int64_t t = first; t < end; t++) sum += a->counts[t * ORDER_DIGITS + threadIdx.x];
    return sum;
}

KERNEL(cu_sums, struct order_call)
{
    int64_t first = (int64_t)blockIdx.x * ORDER_CHUNK;
    int64_t end = first + ORDER_CHUNK < a.tiles ? first + ORDER_CHUNK : a.tiles;
    a.sums[(int64_t)blockIdx.x * ORDER_DIGITS + threadIdx.x] = counted(&a, first, end);
}

/* One block: sums become those of all keys before. */
KERNEL(cu_scan, struct order_call)
{
    SHARED uint32_t totals[ORDER_DIGITS];
    int64_t chunks = (a.tiles + ORDER_CHUNK - 1) / ORDER_CHUNK;
    uint32_t sum = 0, at = 0;
    FOURS
    for (int64_t c = 0; c < chunks; c++) sum += a.sums[c * ORDER_DIGITS + threadIdx.x];
    totals[threadIdx.x] = sum;
    BARRIER();
    for (unsigned d = 0; d < threadIdx.x; d++) at += totals[d];
    FOURS
    for (int64_t c = 0; c < chunks; c++) {
        uint32_t *sums = a.sums + c * ORDER_DIGITS + threadIdx.x, n = *sums;
        *sums = at;
        at += n;
    }
}

/* A number for each half digit, sixteen bits of it. */
enum { HALF_BITS = ORDER_BITS / 2, HALF_DIGITS = 1 << HALF_BITS };
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

FN uint32_t half_at(uint32_t key, int32_t bit) { return key >> bit & (HALF_DIGITS - 1); }

/* Threads have neighbours each, which lie apart in memory so that they are not read from one bank. */
FN int spread(int i) { return i + i / ORDER_EACH; }

/* Puts a tile of n in order by the half digit at a bit; equal ones keep theirs. */
FN void sort_tile(uint32_t *keys, uint32_t *numbers, int n, int32_t bit)
{
    SHARED struct digits before[ORDER_THREADS];
    SHARED uint32_t begin[HALF_DIGITS];
    uint32_t key[ORDER_EACH], number[ORDER_EACH];
    struct digits mine = { { 0 } };
    int me = (int)threadIdx.x;
    BARRIER();
    for (int k = 0; k < ORDER_EACH; k++) {
        int i = me * ORDER_EACH + k;
        key[k] = number[k] = 0;
        if (i < n) {
            key[k] = keys[spread(i)];
            number[k] = numbers[spread(i)];
            digits_count(&mine, half_at(key[k], bit));
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
    if (me < HALF_DIGITS) {
        uint32_t sum = 0;
        for (uint32_t d = 0; d < (uint32_t)me; d++) sum += digits_of(&before[ORDER_THREADS - 1], d);
        begin[me] = sum;
    }
    BARRIER();
    struct digits next = { { 0 } };
    if (me)
        next = before[me - 1];
    for (int k = 0; k < ORDER_EACH && me * ORDER_EACH + k < n; k++) {
        uint32_t d = half_at(key[k], bit);
        int place = spread((int)(begin[d] + digits_of(&next, d)));
        digits_count(&next, d);
        keys[place] = key[k];
        numbers[place] = number[k];
    }
    BARRIER();
}

KERNEL(cu_deal, struct order_call)
{
    SHARED uint32_t keys[ORDER_TILE + ORDER_THREADS], numbers[ORDER_TILE + ORDER_THREADS];
    SHARED uint32_t to[ORDER_DIGITS];
    int64_t first = (int64_t)blockIdx.x * ORDER_TILE, chunk = blockIdx.x / ORDER_CHUNK;
    int n = (int)(a.n - first < ORDER_TILE ? a.n - first : ORDER_TILE), me = (int)threadIdx.x;
    for (int i = me; i < n; i += ORDER_THREADS) {
        keys[spread(i)] = a.key[first + i];
        numbers[spread(i)] = a.number ? a.number[first + i] : (uint32_t)(first + i);
    }
    to[me] = a.sums[chunk * ORDER_DIGITS + me] + counted(&a, chunk * ORDER_CHUNK, blockIdx.x);
    sort_tile(keys, numbers, n, a.bit);
    sort_tile(keys, numbers, n, a.bit + HALF_BITS);
    /* Where the first of a digit goes, less where it is. */
    for (int i = me; i < n; i += ORDER_THREADS) {
        uint32_t d = digit_at(keys[spread(i)], a.bit);
        if (i == 0 || digit_at(keys[spread(i - 1)], a.bit) != d)
            to[d] -= (uint32_t)i;
    }
    BARRIER();
    for (int i = me; i < n; i += ORDER_THREADS) {
        uint32_t one = keys[spread(i)], at = to[digit_at(one, a.bit)] + (uint32_t)i;
        a.to_key[at] = one;
        a.to_number[at] = numbers[spread(i)];
    }
}
