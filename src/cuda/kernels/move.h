/* move.h: the arguments of move.cu, for the kernels and for who launches them. */
#ifndef MX_CUDA_KERNELS_MOVE_H
#define MX_CUDA_KERNELS_MOVE_H

#include "plan/walk.h"

enum {
    MOVE_THREADS = 256,
    MOVE_EACH = 4,
    MOVE_DIMS = 16,
    TURN_SIDE = 32,
    TURN_ROWS = 8,
    TURN_TALL = 8,
    TURN_WIDE = 32,
    MOVE_BOXES = 2
};

/* Elements of `size` bytes that cu_turn_pieces reads and writes at once: each thread turns a square of so many. */
#define TURN_PIECE(size) ((size) == 1 ? 8 : 16 / (int)(size))

/* A shape, with strides in elements on either side: `to` first. */
struct move_walk {
    int32_t ndim;
    uint32_t shape[MOVE_DIMS];
    int64_t stride[2][MOVE_DIMS];
};

/* to[place] = from[place], n elements, by blocks `begin` and up; two where two copies are one launch. */
struct move_box {
    void *to;
    const void *from;
    int64_t n, begin;
    struct move_walk w;
};
struct move_args {
    struct move_box of[MOVE_BOXES];
    int32_t boxes;
};

/* Bytes of the host's, which come with the launch. */
enum { SENT_BYTES = 64 };
struct sent_args {
    void *to;
    int64_t n;
    uint8_t bytes[SENT_BYTES];
};

/* to[0..n) = *from */
struct fill_args {
    void *to;
    const void *from;
    int64_t n;
};

/* Elements whose neighbours in `from` lie along rows and in `to` along columns, in squares of TURN_SIDE, or of
 * TURN_TALL by TURN_WIDE threads with a square each; the other dimensions are walked by blocks. */
struct turn_args {
    void *to;
    const void *from;
    int64_t rows, columns; /* sizes; in `from` a row steps by 1, in `to` a column does */
    int64_t to_row, from_column;
    uint32_t tall, wide; /* squares along rows and columns */
    struct move_walk w;
};

/* y = c ? p : q */
struct select_args {
    void *y;
    const uint8_t *c;
    const void *p, *q;
    struct walk w;
};

#endif
