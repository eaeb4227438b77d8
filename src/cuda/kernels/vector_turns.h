/* vector_turns.h: what a launch of a vector's products does with results that are heads of queries, keys and values
 * besides: it turns points of them by angles, as rope.cu does, and puts them where those of earlier tokens are. */
#ifndef MX_CUDA_KERNELS_VECTOR_TURNS_H
#define MX_CUDA_KERNELS_VECTOR_TURNS_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* Of matrices of one launch; pairs of numbers, which are points, of a head. */
enum { VECTOR_TURNED = 4, VECTOR_PAIRS = 64 };
struct vector_turns {
    void *y[VECTOR_TURNED];
    int64_t step[VECTOR_TURNED];  /* from a head to the next, in elements */
    int32_t width[VECTOR_TURNED]; /* numbers of a head; 0: results are one after the other */
    int32_t turned;               /* bits: are those of a matrix? */
    int32_t apart;                /* a point's numbers: half a head, or 1 */
    float cosine[VECTOR_PAIRS], sine[VECTOR_PAIRS];
};

#endif
