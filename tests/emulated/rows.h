/* rows.h: element-wise kernels of GPUs, compiled for the host: a table for each type. */
#ifndef TESTS_EMULATED_ROWS_H
#define TESTS_EMULATED_ROWS_H

#include <stdint.h>

#include "plan/walk.h"

struct emulated_row {
    const char *name; /* NULL ends the table */
    int operands;
    void (*run)(void *y, const void *a, const void *b, struct walk w, int rounds, int64_t blocks, int threads);
};

#endif
