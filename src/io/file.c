/* file.c: files as readers and writers, and lists of named arrays. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "io/gguf.h"
#include "io/new_file.h"
#include "ops/ops.h"
#include "run/eval.h"

/* ---- lists */

int archive_add(struct archive *a, const char *name, mx x)
{
    if (is_nil(x))
        return 1;
    struct named_array *more = mx_grown(a->arrays, a->n, &a->cap, sizeof *more);
    if (!more)
        return 1;
    a->arrays = more;
    struct named_array *e = &a->arrays[a->n];
    *e = (struct named_array){ .name = mx_strdup(name) };
    if (!e->name)
        return 1;
    mx_keep(&e->array, x);
    a->n++;
    return 0;
}

int archive_add_text(struct archive *a, const char *name, const char *text)
{
    struct named_text *more = mx_grown(a->meta, a->n_meta, &a->meta_cap, sizeof *more);
    if (!more)
        return 1;
    a->meta = more;
    struct named_text *e = &a->meta[a->n_meta];
    *e = (struct named_text){ mx_strdup(name), mx_strdup(text) };
    a->n_meta++;
    return !e->name || !e->text;
}

void archive_free(struct archive *a)
{
    for (int i = 0; i < a->n; i++) {
        free(a->arrays[i].name);
        mx_drop(&a->arrays[i].array);
    }
    for (int i = 0; i < a->n_meta; i++) {
        free(a->meta[i].name);
        free(a->meta[i].text);
    }
    free(a->arrays);
    free(a->meta);
    *a = (struct archive){ 0 };
}

/* ---- what formats share */

mx io_ready(mx x, mx_own *hold)
{
    {
        MX_SCOPE(NULL);
        mx_keep(hold, mx_contiguous(x, false));
    }
    return is_nil(hold->it) || mx_wait_host(hold->it) ? MX_NIL : hold->it;
}

size_t io_utf8(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (length == 0 || length > n)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

bool io_read(struct source *r, void *data, size_t n, uint64_t offset, const char *what)
{
    if (offset > r->size || n > r->size - offset) {
        mx_fail("[load] %s: %s needs %zu bytes at offset %llu, the file has %llu", r->label, what, n,
                (unsigned long long)offset, (unsigned long long)r->size);
        return false;
    }
    return n == 0 || source_read(r, data, n, offset);
}

bool io_write(struct writer *w, const void *data, size_t n)
{
    if (n == 0 || w->write(w, data, n))
        return true;
    if (!mx_failed())
        mx_fail_as(MX_RUNTIME, "[save] %s: could not write %zu bytes: %s", w->label, n, strerror(errno));
    return false;
}

/* ---- files */

struct file_writer {
    struct writer writer;
    struct new_file file;
    char *buffer; /* of BUFFER bytes */
    size_t used;
};
enum { BUFFER = 1 << 16, LARGE = 1 << 20 };

static bool write_to_file(int fd, const char *data, size_t n)
{
    while (n) {
        ssize_t put = write(fd, data, n > (1u << 30) ? 1u << 30 : n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        data += put;
        n -= (size_t)put;
    }
    return true;
}

static bool file_write(struct writer *self, const void *data, size_t n)
{
    struct file_writer *f = (struct file_writer *)self;
    if (f->used + n <= BUFFER) {
        memcpy(f->buffer + f->used, data, n);
        f->used += n;
        return true;
    }
    if (!write_to_file(f->file.fd, f->buffer, f->used))
        return false;
    f->used = 0;
    /* Blocks found at once cost less than one after the other; where they cannot be, writing says why. */
    if (n >= LARGE)
        (void)!fallocate(f->file.fd, FALLOC_FL_KEEP_SIZE, lseek(f->file.fd, 0, SEEK_CUR), (off_t)n);
    return write_to_file(f->file.fd, data, n);
}

static bool file_create(struct file_writer *f, const char *path)
{
    *f = (struct file_writer){ .writer = { file_write, path }, .buffer = mx_malloc(BUFFER) };
    if (!f->buffer)
        return false;
    const char *why = new_file_open(&f->file, path);
    if (!why)
        return true;
    mx_fail_as(mx_error_of_system(errno), "[save] could not create %s: %s", path, why);
    free(f->buffer);
    return false;
}

/* Puts the new file in the old one's place, or takes it away if anything failed. */
static int file_finish(struct file_writer *f, bool ok)
{
    const char *label = f->writer.label;
    if (ok && !write_to_file(f->file.fd, f->buffer, f->used)) {
        mx_fail_as(MX_RUNTIME, "[save] %s: could not write: %s", label, strerror(errno));
        ok = false;
    }
    if (ok && !new_file_place(&f->file)) {
        mx_fail_as(MX_RUNTIME, "[save] could not replace %s: %s", label, strerror(errno));
        ok = false;
    }
    if (!new_file_close(&f->file) && ok) {
        mx_fail_as(MX_RUNTIME, "[save] %s: could not close: %s", label, strerror(errno));
        ok = false;
    }
    free(f->buffer);
    return !ok;
}

mx npy_load_file(const char *path)
{
    struct source *f = source_open(path);
    mx x = f ? npy_load(f) : MX_NIL;
    source_release(f);
    return x;
}

int npz_load_file(const char *path, struct archive *a)
{
    struct source *f = source_open(path);
    int failed = !f || npz_load(f, a);
    source_release(f);
    return failed;
}

int safetensors_load_file(const char *path, struct archive *a)
{
    struct source *f = source_open(path);
    int failed = !f || safetensors_load(f, a);
    source_release(f);
    return failed;
}

int npy_save_file(const char *path, mx x)
{
    struct file_writer f;
    if (!file_create(&f, path))
        return 1;
    return file_finish(&f, !npy_save(&f.writer, x));
}

int safetensors_save_file(const char *path, const struct archive *a)
{
    struct file_writer f;
    if (!file_create(&f, path))
        return 1;
    return file_finish(&f, !safetensors_save(&f.writer, a));
}

int gguf_load_file(const char *path, bool packed, struct gguf *g)
{
    struct source *f = source_open(path);
    int failed = !f || gguf_load(f, packed, g);
    source_release(f);
    return failed;
}

int gguf_save_file(const char *path, const struct gguf *g)
{
    struct file_writer f;
    if (!file_create(&f, path))
        return 1;
    return file_finish(&f, !gguf_save(&f.writer, g));
}
