/* io.h: arrays in files.
 *
 * Formats read from a `struct source` and write to a `struct writer`, which stand for files or for
 * callbacks of the user's.  Of a file only the header is read: arrays are read or mapped when they are
 * evaluated.  Every number of a file is checked against the size of the file before
 * it is used; what is wrong is reported with the file's label, the field and its offset. */
#ifndef MX_IO_IO_H
#define MX_IO_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/array.h"
#include "io/source.h"

struct writer {
    bool (*write)(struct writer *self, const void *data, size_t n); /* all of it, or false */
    const char *label;
};

/* Names to arrays and names to texts, in the order of the file. */
struct named_array {
    char *name;
    mx_own array;
};
struct named_text {
    char *name, *text;
};
struct archive {
    int n, cap;
    struct named_array *arrays;
    int n_meta, meta_cap;
    struct named_text *meta;
};
int archive_add(struct archive *a, const char *name, mx x);
int archive_add_text(struct archive *a, const char *name, const char *text);
void archive_free(struct archive *a);

/* .npy, versions 1 to 3, both byte orders, Fortran order as a transposed view. */
mx npy_load(struct source *r);
int npy_save(struct writer *w, mx x);

/* .npz: archives of the above. */
int npz_load(struct source *s, struct archive *a);
int npz_load_file(const char *path, struct archive *a);

/* .safetensors */
int safetensors_load(struct source *r, struct archive *a);
int safetensors_save(struct writer *w, const struct archive *a);

/* Files.  Saving writes a temporary file beside the target and renames it when all is well, so an
 * interrupted save leaves the old file whole; links are followed and the mode is kept. */
mx npy_load_file(const char *path);
int npy_save_file(const char *path, mx x);
int safetensors_load_file(const char *path, struct archive *a);
int safetensors_save_file(const char *path, const struct archive *a);

/* x evaluated, row-major and on the host; `hold` owns it. */
mx io_ready(mx x, mx_own *hold);
/* How many of n > 0 bytes make the character of UTF-8 that they begin with; 0: they begin with none. */
size_t io_utf8(const char *text, size_t n);
/* Reads n bytes or fails naming the label. */
bool io_read(struct source *r, void *data, size_t n, uint64_t offset, const char *what);
bool io_write(struct writer *w, const void *data, size_t n);

#endif
