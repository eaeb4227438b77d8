/* fourier.c: see fourier.h. */
#include "plan/fourier.h"

#include <math.h>
#include <stdbool.h>

/* 16 = 4 4, 32 = 8 4, 64 = 8 8. */
static bool uneven(int64_t n, int r)
{
    int64_t two = n & -n;
    return (r == 8 && n == 16) || (r == 16 && (two == 32 || two == 64));
}

int fourier_radices(int64_t n, int power, int most, int radix[FOURIER_STAGES])
{
    static const int first[] = { 16, 8, 4, 2, 3, 5 };
    int stages = 0;
    for (int i = power < 16 ? 1 : 0, r = 0; n > 1; i++) {
        r = i < 6 ? first[i] : r + 1;
        if (r > most)
            return -1;
        while (n % r == 0 && !uneven(n, r)) {
            radix[stages++] = r;
            n /= r;
        }
    }
    return stages;
}

int64_t fourier_divisor(int64_t n, int64_t square)
{
    int64_t d = (int64_t)sqrt((double)square) + 1;
    while (d * d > square || n % d) d--;
    return d;
}

int64_t fourier_length_above(int64_t n)
{
    int64_t best = 1;
    while (best < n) best *= 2;
    for (int64_t odd = 3; odd <= 15; odd += 2) {
        int64_t m = odd;
        if (odd == 7 || odd == 11 || odd == 13)
            continue;
        while (m < n) m *= 2;
        best = m < best ? m : best;
    }
    return best;
}
