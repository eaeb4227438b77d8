/* attention_parts.h: the order of rows, and sums that are no numbers, for attention_parts.inc.
 *
 * Include attention_at.h and warp.h before. */
#ifndef MX_CUDA_KERNELS_ATTENTION_PARTS_H
#define MX_CUDA_KERNELS_ATTENTION_PARTS_H

/* Is there as much shared memory as blocks for heads of 256 take? Not before devices of 9.0, nor from 12.0 on, and
 * texts are for all of them. */
#if !defined __CUDACC__ || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200 && !defined IN_TEXT)
#define HAS_LARGE_PARTS 1
#else
#define HAS_LARGE_PARTS 0
#endif

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
