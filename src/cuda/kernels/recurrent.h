/* recurrent.h: the arguments of recurrent.cu. */
#ifndef MX_CUDA_KERNELS_RECURRENT_H
#define MX_CUDA_KERNELS_RECURRENT_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* A block has so many rows of weights and sequences, which its warps go through by so many columns at once, RECURRENT_
 * PIECE bytes of each, or where devices have less memory for a block, SMALL_PIECE. */
enum {
    RECURRENT_THREADS = 256,
    RECURRENT_WARPS = RECURRENT_THREADS / 32,
    RECURRENT_ROWS = 16,
    RECURRENT_SEQUENCES = 32,
    RECURRENT_PIECE = 2048,
    RECURRENT_SMALL_PIECE = 512,
};
/* In shared memory: columns, of which rows begin 4 banks apart; then the sums of each warp. */
#define RECURRENT_COLUMN_BYTES(piece) ((RECURRENT_ROWS + RECURRENT_SEQUENCES) * ((piece) + 16))
#define RECURRENT_SUM_BYTES(size) (RECURRENT_WARPS * RECURRENT_ROWS * (RECURRENT_SEQUENCES + 1) * (size))

enum recurrent_step { RECURRENT_STEP_TANH, RECURRENT_STEP_GRU, RECURRENT_STEP_LSTM, RECURRENT_STEP_BACK };

/* One step of so many sequences: rows of weights times what was before, and functions of the sums.  Everything is
 * without gaps: (sequences, steps, width) or a multiple of the width. */
struct recurrent_call {
    const void *w;        /* rows for each group of outputs, `inputs` long */
    const void *before;   /* what they are multiplied with, sequences `apart`; NULL: nothing, it is 0 */
    const void *x, *bias; /* of the gates; back: slopes */
    const void *cell;     /* before the step, sequences cell_apart; NULL: 0 */
    const void *ct, *ct_cell, *seen, *keep;
    void *y[2], *pre; /* pre: what the gates take, of the type computed in; NULL: it is not asked for */
    int64_t apart, cell_apart;
    int64_t sequences, steps, t;
    int32_t kind;                         /* enum recurrent_step */
    int32_t width, inputs, groups, gates; /* units, columns of weights, rows of them and gates that a unit has */
    int32_t units, unit_blocks;           /* of a block, and how many blocks share the units of a sequence */
    int32_t piece;                        /* columns at once */
    int32_t whole;                        /* rows are aligned to 16 bytes */
};

#endif
