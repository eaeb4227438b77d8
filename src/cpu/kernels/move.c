/* move.c: strided moves and selection, which ask only for the width of an element. */
#include "cpu/kernels/level.h"

#define T uint8_t
#define BYTES 1
#include "cpu/kernels/move.inc"

#define T uint16_t
#define BYTES 2
#include "cpu/kernels/move.inc"

#define T uint32_t
#define BYTES 4
#include "cpu/kernels/move.inc"

#define T uint64_t
#define BYTES 8
#include "cpu/kernels/move.inc"
