/* attention_parts.h: the order of rows, and sums that are no numbers, for attention_parts.inc.
 *
 * Include attention_at.h and warp.h before. */
#ifndef MX_CUDA_KERNELS_ATTENTION_PARTS_H
#define MX_CUDA_KERNELS_ATTENTION_PARTS_H

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
