/* attention_parts.h: numbers in two parts, and the order of rows, for attention_parts.inc.
 *
 * Include attention_at.h and warp.h before. */
#ifndef MX_CUDA_KERNELS_ATTENTION_PARTS_H
#define MX_CUDA_KERNELS_ATTENTION_PARTS_H

/* x as a number that has ten bits behind the point, and what is left.  ROUNDED it is the nearest one, which of the
 * largest numbers is an infinity, so that what is left is none; CUT it is less, and more is left.  Of what is not
 * finite, what is left is no number. */
enum { CUT = 0, ROUNDED = 0x1000 };
FN void split_in_parts(float x, uint32_t how, float *large, float *rest)
{
    *large = f32_bits((bits_f32(x) + how) & ~0x1fffu);
    *rest = x - *large;
}

/* Which of eight rows number n of a product is: 0, 2, 1, 3, 6, 4, 7, 5.  Of rows that begin eight banks apart, numbers
 * 2 i and 2 i + 1 are 16 banks apart, and those of even numbers begin in all four eights of them, as of odd ones. */
FN int in_eight(int n) { return (n >> 1 & 1) + ((n ^ n >> 2) & 1) * 2 + (n & 4); }

/* Is one of n sums, of every eighth row from `row` on, of those that are there, no number? */
FN int sums_are_odd(const float *sum, const int n, int64_t row, int64_t rows)
{
    int odd = 0;
    UNROLLED
    for (int r = 0; r < n; r++) odd |= row + 8 * r < rows && is_wild(sum[r]);
    return odd;
}

#endif
