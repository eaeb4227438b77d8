/* ggml.h: the element types of gguf files, most of which are packed in blocks. */
#ifndef MX_IO_GGML_H
#define MX_IO_GGML_H

#include "io/source.h"

/* How the tensors of a type are handed out. */
enum ggml_form {
    GGML_PLAIN,  /* as they are */
    GGML_AFFINE, /* weight, scales and biases, in groups of 32, as mx_quantize packs them */
    GGML_MXFP4,  /* weight and scales, likewise */
    GGML_COARSE, /* as float16 */
};
enum ggml_part { GGML_WEIGHT, GGML_SCALES, GGML_BIASES, GGML_NUMBERS };

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a table is written in this order */
struct ggml_type {
    uint32_t number; /* in files */
    const char *name;
    enum ggml_form form;
    enum dtype dtype; /* of a plain one */
    int items, bytes; /* of a block */
    int bits;         /* of a weight that stays packed */
    void (*decode)(const uint8_t *block, float *y);
};

const struct ggml_type *ggml_type(uint32_t number);  /* NULL: not known, or not handled */
const char *ggml_name(uint32_t number);              /* of any type that there is, else NULL */
const struct ggml_type *ggml_of_dtype(enum dtype t); /* the plain one; NULL: none */

/* What a part holds for a row-major tensor at `offset` of a file, whose `items` are whole blocks, as a
 * source of its own; its size is *bytes.  NULL after mx_fail. */
struct source *ggml_unpacked(struct source *of, const char *name, uint64_t offset, uint64_t items,
                             const struct ggml_type *t, enum ggml_part part);

#endif
