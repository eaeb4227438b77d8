/* kernel_writer.h: a program is written around the body of a kernel, whatever its language. */
#ifndef MX_OPS_KERNEL_WRITER_H
#define MX_OPS_KERNEL_WRITER_H

#include <stdio.h>

#include "ops/custom_kernel.h"

struct kernel_writer {
    const struct kernel *k;
    FILE *f;
    char *text;
    size_t size;
    int lines; /* ended, for #line */
    bool failed;
};

/* 0, or 1 after mx_fail. */
int kernel_writer_open(struct kernel_writer *w, const struct kernel *k);
void kernel_put(struct kernel_writer *w, const char *fmt, ...) MX_PRINTF(2, 3);
/* Text of the user's, "header" or "source", whose lines are numbered as theirs. */
void kernel_put_theirs(struct kernel_writer *w, const char *what, const char *text);
/* All of it, to be freed; NULL after mx_fail. */
char *kernel_writer_close(struct kernel_writer *w);

#endif
