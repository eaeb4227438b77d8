/* random.c: random words for many counters at a time.
 *
 * Each step of the cipher needs the one before, so several registers of counters go through it together: of one after
 * the other processors look too few steps ahead to find enough that they can do at once. */
#include "cpu/kernels/random.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/level.h"

typedef uint32_t words __attribute__((vector_size(4 * REGISTER)));
#define WORDS words
#include "shared/threefry.h"

static void random_words(uint32_t *a, uint32_t *b, uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1, size_t n)
{
    enum { N = sizeof(words) / sizeof *a };
    words number, x, y;
    for (uint32_t k = 0; k < N; k++) number[k] = k;
    for (size_t i = 0; i < n; i += N) {
        uint32_t at = (uint32_t)i;
        threefry(&x, &y, number + (c0 + at), number + (c1 + at), k0, k1);
        if (n - i >= N) {
            memcpy(a + i, &x, sizeof x);
            memcpy(b + i, &y, sizeof y);
        } else {
            memcpy(a + i, &x, (n - i) * sizeof *a);
            memcpy(b + i, &y, (n - i) * sizeof *b);
        }
    }
}

extern const struct random_kernels LEVEL(random_kernels);
const struct random_kernels LEVEL(random_kernels) = { random_words };
