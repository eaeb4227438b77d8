/* fourier.h: how the length of a Fourier transform is taken apart. */
#ifndef MX_PLAN_FOURIER_H
#define MX_PLAN_FOURIER_H

#include <stdint.h>

enum { FOURIER_STAGES = 64 };

/* n as a product of powers of two up to `power`, which is 8 or 16, and odd primes up to `most`; how many they are, or
 * -1 where it is none. */
int fourier_radices(int64_t n, int power, int most, int radix[FOURIER_STAGES]);
/* The largest divisor of n whose square is not above `square`. */
int64_t fourier_divisor(int64_t n, int64_t square);
/* A length not below n, a power of two times 1, 3, 5, 9 or 15, for convolutions. */
int64_t fourier_length_above(int64_t n);

#endif
