/* conv.h: the arguments of conv.cu. */
#ifndef MX_CUDA_KERNELS_CONV_H
#define MX_CUDA_KERNELS_CONV_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

enum { CONV_PHASES = 16 };
/* Without tiles a thread makes so many neighbours, from so many taps at once; or weights, from so many positions. */
enum { CONV_SOME = 8, CONV_TAPS = 4, CONV_STRETCH = 64, CONV_THREADS = 256 };

/* Positions of an axis that see the same taps (struct conv_axis of plan/conv.h): `out` of them, from `first` on, which
 * meet `taps` of the weights, from `tap` on; the first meets with the first what is at `at`. */
struct conv_phase {
    int32_t out, first, taps, tap, at;
};

struct conv_along {
    int32_t in, stride, dilation; /* of the input */
    int32_t step, apart;          /* from a position to the next of a phase, and from a tap */
    int32_t phases;
    int64_t x, y, w; /* strides: of the input, of the result, of the weights */
    struct conv_phase phase[CONV_PHASES];
};

/* Of a convolution, or of what makes weights of its input and of what it gives (`of_weights`).  Channels have stride 1
 * everywhere. */
struct conv_call {
    const void *x;
    const void *other; /* weights; or what a convolution gives */
    void *result, *partial;
    int64_t x_image, y_image, w_line;
    struct conv_along axis[3];
    int32_t images, in, out, groups; /* in, out: channels of a group */
    int32_t vectors;                 /* LANES neighbours are read at once, of both */
    int32_t plain;                   /* sums are results, four of them next to each other */
    int32_t direct;                  /* without tiles; groups are one then */
    int32_t slides;                  /* then: neighbours see neighbours, and so do neighbouring taps */
    int32_t channels;                /* of the result, in all groups */
    int32_t down, across, pieces;    /* tiles of a group and phase, and pieces of what is summed up, of `piece` each */
    int32_t piece;
    int64_t size; /* size: of the result */
    int32_t team; /* of the merging of pieces: threads that have an element, a power of two */
};

/* Few output channels (conv_cells.inc): a thread makes so many neighbouring cells of so many numbers each, from so many
 * taps at once; what a block reads is in shared memory, CONV_CELL_DEPTH channels at most of each place. */
enum { CONV_CELLS = 8, CONV_CELL = 6, CONV_CELL_TAPS = 4, CONV_CELL_THREADS = 128, CONV_CELL_DEPTH = 8 };
/* So much that four blocks are on a multiprocessor of devices of 9.0. */
enum { CONV_CELL_BYTES = 55 << 10 };
enum { CONV_CELL_WEIGHTS = CONV_CELL_TAPS * 4 * 8 }; /* numbers: of four channels and taps, eight for a cell's six */

/* A cell is one position of each phase of the last axis: they are neighbours, and see `window` places of the input
 * between them, of which those of the first cell begin at `low`. */
struct conv_cells {
    struct conv_call of; /* its tiles: `down` and `across` of a phase of the other axes, `pieces` of a cell's numbers */
    const void *weights; /* as blocks read them */
    int64_t w[5];        /* strides of those that are given */
    int32_t cells, width, low, window;
    int32_t tall, wide; /* threads of a tile */
    int32_t line;       /* fours of channels from a row to the next in shared memory */
    int32_t fours;      /* of channels that are there at once, 1 or 2 */
    int32_t steps;      /* so often, for all channels */
    int32_t taps[2];    /* of the first axes, of any phase at most */
    int64_t size;       /* of the weights as blocks read them */
};

/* Gradients by few weights (conv_thin.inc), of images whose neighbours meet neighbours: taps of both axes and channels
 * of the result at most; a block has so many channels of the input and columns at most.  From so many rows of blocks
 * on, which is several for each of a device's, and so many channels, a quarter of a block's. */
enum { CONV_THIN_TAPS = 3, CONV_THIN_OUT = 4, CONV_THIN_CHANNELS = 64, CONV_THIN_TILE = 64, CONV_THIN_THREADS = 128 };
enum { CONV_THIN_LEAST_CHANNELS = 16 };

struct conv_thin {
    const void *x, *y;
    void *partial;                     /* sums of each piece, one after another */
    int32_t images, rows, columns;     /* of the input, those with padding that the result meets */
    int32_t x_rows, x_columns, in;     /* and without */
    int32_t y_rows, y_columns, out;    /* of the result */
    int32_t taps[2], low[2];           /* low: places before the first */
    int32_t tile, tiles, chunks, each; /* columns of a block; tiles of a row; of channels; rows of a block */
    int64_t size;                      /* of the weights */
};

#endif
