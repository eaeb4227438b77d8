/* vector_results.h: what becomes of a vector's products with lines of matrices.
 *
 * Include cuda/kernels/gpu.h before, with S, IN and OUT, and HALF for half types; sums are float32. */
#ifndef MX_CUDA_KERNELS_VECTOR_RESULTS_H
#define MX_CUDA_KERNELS_VECTOR_RESULTS_H

#include "cuda/kernels/halves.h"
#include "cuda/kernels/vector_turns.h"

/* Of one of four lines, which threads count over and over, the sum of what so many warps have of it, in their order. */
FN float sum_of_warps(float of_warp[][4], int warps, int i)
{
    float sum = of_warp[0][i % 4];
    for (int w = 1; w < warps; w++) sum += of_warp[w][i % 4];
    return sum;
}

/* As it is, or with what c points at added to it when it is rounded. */
FN S added_result(float sum, const S *c) { return c ? OUT(IN(OUT(sum)) + IN(*c)) : OUT(sum); }

/* silu of one, rounded before and after, times the other. */
FN S gated_result(float gate, float sum)
{
#ifdef HALF
    return OUT(IN(OUT(silu_half(IN(OUT(gate))))) * IN(OUT(sum)));
#else
    return OUT(silu_f32(gate) * sum);
#endif
}

/* Which lines of a matrix four are, counted from the first: 0, 1, apart and apart + 1.  Neighbours have 2 for `apart`;
 * points of a head whose numbers are half a head apart have that, so that the second numbers are two lines on here. */
FN int line_after(int i, int apart) { return i < 2 ? i : apart + i - 2; }

/* The number of the first of four lines; in apart: what line_after gets. */
FN int64_t first_line(const struct vector_turns *t, int number, int64_t four, int *apart)
{
    *apart = 2;
    if (!t || !(t->turned >> number & 1) || t->apart == 1)
        return four * 4;
    const int64_t fours = t->width[number] / 4, head = four / fours;
    *apart = t->apart;
    return head * t->width[number] + (four - head * fours) * 2;
}

/* By all threads of a warp, the first four of which have the results of four lines, so many of which `there` are. */
FN void put_turned(const struct vector_turns *t, int number, int64_t first, int apart, S result, int there)
{
    const int i = (int)threadIdx.x % 32, width = t->width[number], beside = t->apart == 1;
    float mine = IN(result), other = SHUFFLE_XOR(mine, beside ? 1 : 2);
    if (i >= there)
        return;
    const int64_t line = first + line_after(i, apart), head = width ? line / width : 0;
    const int at = (int)(line - head * width);
    if (t->turned >> number & 1) {
        const int pair = beside ? at / 2 : at % t->apart, second = beside ? i & 1 : i >> 1;
        const float c = t->cosine[pair], s = t->sine[pair];
        result = OUT(second ? other * s + mine * c : mine * c - other * s);
    }
    ((S *)t->y[number])[head * t->step[number] + line - head * width] = result;
}

#endif
