/* move.c: moves, transpositions and selection, which ask only for the width of an element. */
#include "cpu/kernels/level.h"

#define T uint8_t
#define BYTES 1
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#include "cpu/kernels/move.inc"

#define T uint16_t
#define BYTES 2
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#include "cpu/kernels/move.inc"

#define T uint32_t
#define BYTES 4
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#include "cpu/kernels/move.inc"

#define T uint64_t
#define BYTES 8
#define LOW 0, 2
#define HIGH 1, 3
#include "cpu/kernels/move.inc"
