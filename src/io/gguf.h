/* gguf.h: named arrays, and named values about them, in one file (.gguf, versions 2 and 3). */
#ifndef MX_IO_GGUF_H
#define MX_IO_GGUF_H

#include "io/io.h"

enum gguf_kind { GGUF_ARRAY, GGUF_TEXT, GGUF_TEXTS };

/* A value: an array of none or one dimension, a text (texts[0]) or n of them. */
struct gguf_value {
    char *key;
    enum gguf_kind kind;
    mx_own array;
    int n, cap;
    char **texts;
};

struct gguf {
    struct archive tensors;
    int n, cap;
    struct gguf_value *values;
};

mx gguf_array(struct gguf *g, const char *name);                /* NULL: none */
struct gguf_value *gguf_value(struct gguf *g, const char *key); /* NULL: none */
/* What is there under the name is replaced.  Non-zero after mx_fail. */
int gguf_set_array(struct gguf *g, const char *name, mx x);
/* The same of a value that is complete, but for its key, and is taken over. */
int gguf_set_value(struct gguf *g, const char *key, struct gguf_value *v);
int gguf_add_text(struct gguf_value *v, const char *text, size_t n);
/* Into an empty one; non-zero after mx_fail, with nothing in it. */
int gguf_copy(struct gguf *to, const struct gguf *from);
void gguf_free(struct gguf *g);

/* Tensors of block types become quantized weights with scales and perhaps biases, or float16; those
 * that become float16 stay the bytes that they are with `packed`, a row of blocks to a row of bytes. */
int gguf_load(struct source *s, bool packed, struct gguf *g);
int gguf_save(struct writer *w, const struct gguf *g);
int gguf_load_file(const char *path, bool packed, struct gguf *g);
int gguf_save_file(const char *path, const struct gguf *g);

#endif
