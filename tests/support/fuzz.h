/* fuzz.h: what the targets of tests/fuzz share.
 *
 * A target is one function over bytes that may be anything, LLVMFuzzerTestOneInput: it may fail, and then
 * says why, but not crash, leak or leave an array behind.  Beside clang's libFuzzer (MLX_FUZZER, the preset
 * `fuzz`) the driver of fuzz_driver.c runs it, which any compiler builds. */
#ifndef MX_TESTS_SUPPORT_FUZZ_H
#define MX_TESTS_SUPPORT_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "io/gguf.h"
#include "io/io.h"
#include "run/eval.h"

extern const char fuzz_format[]; /* the suffix of its seeds and the name of its dictionary */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

extern int fuzz_way;                     /* how to read: 0 to 7, or -1: as the length says */
extern long fuzz_loaded, fuzz_evaluated; /* files that were not refused; those of them that were computed */

/* Runs a reader of files of arrays, and evaluates what it gives where that is not much. */
int fuzz_archive(const uint8_t *data, size_t n, int (*read)(struct source *s, int way, struct archive *a));

#endif
