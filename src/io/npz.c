/* npz.c: zip archives of npy files (the format's APPNOTE 6.3, what of it archives of arrays use).
 *
 * The directory at the end says where entries are and how large; what the entries themselves say is
 * passed over.  A stored entry is a part of the file and lazy as that is.  A deflated one is inflated
 * from its start whenever something of it is read.  No two entries may share bytes and none may claim
 * more than deflate can pack into its bytes, so that a small file cannot pretend to be a large one, or
 * than there is memory. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "io/io.h"

enum { STORED = 0, DEFLATED = 8, MOST_RATIO = 1032 };
enum { END = 22, END64 = 56, LOCATOR = 20, CENTRAL = 46, LOCAL = 30 }; /* sizes of records */
enum { MOST_COMMENT = 65535 };

struct member {
    char *name;  /* without .npy */
    bool folder; /* "a/" of no bytes, which some programs that pack folders have in archives */
    int method;
    uint32_t crc;
    uint64_t at, packed, size; /* of its record in the directory; bytes in the file; bytes of the content */
    uint64_t local, data;      /* where the entry and where its bytes begin */
};

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

static bool bad_npz(struct source *s, uint64_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool bad_npz(struct source *s, uint64_t at, const char *fmt, ...)
{
    char what[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    mx_fail("[load] %s is not an npz archive: offset %llu: %s", s->label, (unsigned long long)at, what);
    return false;
}

/* ---- deflated entries as sources */

struct inflated {
    struct source source;
    struct source *of;
    uint64_t from, packed;
    uint32_t crc;
};

enum { CHUNK = 1 << 16 };

struct inflating {
    z_stream z;
    struct inflated *f;
    uint8_t *in; /* CHUNK */
    uint64_t read;
    uLong crc;
    bool ended;
};

static bool damaged(struct inflated *f, const char *why)
{
    mx_fail("[load] %s: damaged archive: offset %llu: %s", f->source.label, (unsigned long long)f->from, why);
    return false;
}

/* n more bytes of the content. */
static bool more(struct inflating *i, void *data, uint64_t n)
{
    for (uint8_t *to = data; n;) {
        if (i->ended)
            return damaged(i->f, "the content ends early");
        if (i->z.avail_in == 0 && i->read < i->f->packed) {
            uint64_t left = i->f->packed - i->read, chunk = left < CHUNK ? left : CHUNK;
            if (!source_read(i->f->of, i->in, chunk, i->f->from + i->read))
                return false;
            i->read += chunk;
            i->z.next_in = i->in;
            i->z.avail_in = (uInt)chunk;
        }
        uInt room = n < 1u << 30 ? (uInt)n : 1u << 30;
        i->z.next_out = to;
        i->z.avail_out = room;
        int status = inflate(&i->z, Z_NO_FLUSH);
        uint64_t got = room - i->z.avail_out;
        i->crc = crc32_z(i->crc, to, got);
        to += got;
        n -= got;
        i->ended = status == Z_STREAM_END;
        if (status == Z_MEM_ERROR)
            return mx_fail_memory(CHUNK), false;
        if (status != Z_OK && status != Z_STREAM_END && !(status == Z_BUF_ERROR && i->read < i->f->packed))
            return damaged(i->f, i->z.msg ? i->z.msg : "it is cut");
    }
    return true;
}

static bool inflated_read(struct source *self, void *data, uint64_t n, uint64_t offset)
{
    struct inflated *f = (struct inflated *)self;
    struct inflating i = { .f = f, .in = mx_malloc(2 * CHUNK), .crc = crc32_z(0, NULL, 0) };
    bool last = offset + n == self->size;
    if (!i.in)
        return false;
    if (inflateInit2(&i.z, -MAX_WBITS) != Z_OK) {
        free(i.in);
        mx_fail_memory(CHUNK);
        return false;
    }
    bool ok = true;
    while (offset && ok) { /* what comes before is thrown away */
        uint64_t skip = offset < CHUNK ? offset : CHUNK;
        ok = more(&i, i.in + CHUNK, skip);
        offset -= skip;
    }
    ok = ok && more(&i, data, n);
    if (ok && last && i.crc != f->crc)
        ok = damaged(f, "the sum of its bytes is not what the archive says");
    inflateEnd(&i.z);
    free(i.in);
    return ok;
}

static void inflated_destroy(struct object *self)
{
    struct inflated *f = (struct inflated *)self;
    source_release(f->of);
    free((char *)(uintptr_t)f->source.label);
    free(f);
}

static struct source *inflated_new(struct source *of, const struct member *e)
{
    char *label = source_label(of, e->name);
    struct inflated *f = label ? mx_malloc(sizeof *f) : NULL;
    if (!f) {
        free(label);
        return NULL;
    }
    object_retain(&of->object);
    *f = (struct inflated){
        { .object = { 1, inflated_destroy },
          .label = label,
          .size = e->size,
          .eager = of->eager,
          .read = inflated_read },
        of,
        e->data,
        e->packed,
        e->crc,
    };
    return &f->source;
}

/* ---- the directory */

struct directory {
    uint64_t n, at, size;
};

/* The 64-bit record, where there is one; what it says takes the place of what `d` has. */
static bool find_zip64(struct source *s, uint64_t end, struct directory *d)
{
    uint8_t b[END64];
    if (end < LOCATOR || !s->size)
        return true;
    if (!source_read(s, b, LOCATOR, end - LOCATOR))
        return false;
    if (memcmp(b, "PK\6\7", 4))
        return true;
    uint64_t at = u64(b + 8);
    if (at > end - LOCATOR || end - LOCATOR - at < END64)
        return bad_npz(s, end - LOCATOR, "the 64-bit directory would be at %llu", (unsigned long long)at);
    if (!source_read(s, b, END64, at))
        return false;
    if (memcmp(b, "PK\6\6", 4))
        return bad_npz(s, at, "expected the end of a 64-bit directory");
    *d = (struct directory){ u64(b + 32), u64(b + 48), u64(b + 40) };
    return true;
}

static bool find_directory(struct source *s, struct directory *d)
{
    uint64_t most = s->size < END + MOST_COMMENT ? s->size : END + MOST_COMMENT;
    if (s->size < END)
        return bad_npz(s, 0, "it has %llu bytes", (unsigned long long)s->size);
    uint8_t *tail = mx_malloc(most);
    if (!tail || !source_read(s, tail, most, s->size - most)) {
        free(tail);
        return false;
    }
    uint64_t i = most - END + 1;
    while (i-- > 0)
        if (!memcmp(tail + i, "PK\5\6", 4) && u16(tail + i + 20) <= most - END - i)
            break;
    bool found = i < most;
    if (found)
        *d = (struct directory){ u16(tail + i + 10), u32(tail + i + 16), u32(tail + i + 12) };
    free(tail);
    if (!found)
        return bad_npz(s, s->size - most, "no directory is at its end");
    uint64_t end = s->size - most + i;
    if (!find_zip64(s, end, d))
        return false;
    if (d->at > end || d->size > end - d->at || d->n > d->size / CENTRAL)
        return bad_npz(s, end, "the directory would have %llu entries in %llu bytes at %llu", (unsigned long long)d->n,
                       (unsigned long long)d->size, (unsigned long long)d->at);
    return true;
}

/* Sizes and place where 32 bits do not hold them. */
static bool parse_extra(struct source *s, struct member *e, const uint8_t *p, size_t n)
{
    while (n >= 4) {
        size_t size = u16(p + 2);
        if (size > n - 4)
            break;
        const uint8_t *v = p + 4, *end = v + size;
        uint64_t *wide[] = { &e->size, &e->packed, &e->local };
        for (int i = 0; u16(p) == 1 && i < 3; i++) {
            if (*wide[i] != UINT32_MAX)
                continue;
            if (end - v < 8)
                return bad_npz(s, e->at, "'%.80s' has a short 64-bit record", e->name);
            *wide[i] = u64(v);
            v += 8;
        }
        p += 4 + size;
        n -= 4 + size;
    }
    return true;
}

/* Where its bytes begin, behind a header with a name and an extra field of its own. */
static bool find_data(struct source *s, struct member *e, uint64_t limit)
{
    uint8_t b[LOCAL];
    if (e->local > limit || limit - e->local < LOCAL)
        return bad_npz(s, e->at, "'%.80s' would be at %llu", e->name, (unsigned long long)e->local);
    if (!source_read(s, b, LOCAL, e->local))
        return false;
    if (memcmp(b, "PK\3\4", 4))
        return bad_npz(s, e->local, "expected the beginning of '%.80s'", e->name);
    e->data = e->local + LOCAL + u16(b + 26) + u16(b + 28);
    if (e->data > limit || e->packed > limit - e->data)
        return bad_npz(s, e->at, "'%.80s' would have %llu bytes at %llu, the directory is at %llu", e->name,
                       (unsigned long long)e->packed, (unsigned long long)e->data, (unsigned long long)limit);
    return true;
}

static bool check_entry(struct source *s, const struct member *e, unsigned flags)
{
    if (flags & 1)
        return bad_npz(s, e->at, "'%.80s' is encrypted", e->name);
    if (e->method != STORED && e->method != DEFLATED)
        return bad_npz(s, e->at, "'%.80s' is packed by method %d, expected 0 (stored) or 8 (deflated)", e->name,
                       e->method);
    if (e->method == STORED && e->size != e->packed)
        return bad_npz(s, e->at, "'%.80s' is stored in %llu bytes but would have %llu", e->name,
                       (unsigned long long)e->packed, (unsigned long long)e->size);
    if (e->size / MOST_RATIO > e->packed)
        return bad_npz(s, e->at, "'%.80s' would have %llu bytes, more than %llu deflated ones can hold", e->name,
                       (unsigned long long)e->size, (unsigned long long)e->packed);
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (e->method == DEFLATED && e->size > memory)
        return bad_npz(s, e->at, "'%.80s' would have %llu bytes, more than there is memory", e->name,
                       (unsigned long long)e->size);
    return true;
}

/* The entry at p of the directory, of which `left` bytes are left; its length, or 0 after mx_fail. */
static size_t parse_entry(struct source *s, const uint8_t *p, uint64_t left, uint64_t limit, struct member *e)
{
    if (left < CENTRAL || memcmp(p, "PK\1\2", 4))
        return bad_npz(s, e->at, "expected an entry of the directory"), 0;
    size_t n = u16(p + 28), extra = u16(p + 30), whole = CENTRAL + n + extra + u16(p + 32);
    if (whole > left)
        return bad_npz(s, e->at, "an entry of the directory would have %zu bytes, %llu are left", whole,
                       (unsigned long long)left),
               0;
    if (!(e->name = mx_malloc(n + 1)))
        return 0;
    memcpy(e->name, p + CENTRAL, n);
    e->name[n] = 0;
    if (strlen(e->name) != n)
        return bad_npz(s, e->at, "a name has a null character"), 0;
    for (size_t i = 0, length; i < n; i += length)
        if (!(length = io_utf8(e->name + i, n - i)))
            return bad_npz(s, e->at, "the name '%.80s' is not UTF-8", e->name), 0;
    bool slash = n && e->name[n - 1] == '/';
    if (n >= 4 && !strcmp(e->name + n - 4, ".npy"))
        e->name[n - 4] = 0;
    e->method = u16(p + 10);
    e->crc = u32(p + 16);
    e->packed = u32(p + 20);
    e->size = u32(p + 24);
    e->local = u32(p + 42);
    bool ok = parse_extra(s, e, p + CENTRAL + n, extra) && check_entry(s, e, u16(p + 8)) && find_data(s, e, limit);
    e->folder = slash && e->size == 0;
    return ok ? whole : 0;
}

static int by_member_name(const void *a, const void *b)
{
    return strcmp((*(const struct member *const *)a)->name, (*(const struct member *const *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct member *s = *(const struct member *const *)a, *t = *(const struct member *const *)b;
    return (s->local > t->local) - (s->local < t->local);
}

static bool check_members(struct source *s, const struct member *e, uint64_t n)
{
    const struct member **v = mx_malloc((n + 1) * sizeof *v);
    bool ok = v != NULL;
    for (uint64_t i = 0; i < n && ok; i++) v[i] = &e[i];
    if (ok)
        qsort(v, n, sizeof *v, by_member_name);
    for (uint64_t i = 1; i < n && ok; i++)
        if (!strcmp(v[i - 1]->name, v[i]->name))
            ok = bad_npz(s, v[i]->at, "the name '%.80s' comes twice", v[i]->name);
    if (ok)
        qsort(v, n, sizeof *v, by_place);
    for (uint64_t i = 1; i < n && ok; i++)
        if (v[i - 1]->data + v[i - 1]->packed > v[i]->local)
            ok = bad_npz(s, v[i]->at, "'%.80s' and '%.80s' overlap", v[i - 1]->name, v[i]->name);
    free(v);
    return ok;
}

static bool load_entry(struct source *s, const struct member *e, struct archive *a)
{
    MX_SCOPE(NULL);
    struct source *part = e->method == STORED ? source_part(s, e->name, e->data, e->size) : inflated_new(s, e);
    bool ok = part && !archive_add(a, e->name, npy_load(part));
    source_release(part);
    return ok;
}

int npz_load(struct source *s, struct archive *a)
{
    struct directory d = { 0 };
    if (!find_directory(s, &d))
        return 1;
    uint8_t *text = mx_malloc(d.size);
    struct member *e = text ? mx_malloc((d.n + 1) * sizeof *e) : NULL;
    bool ok = e && (d.size == 0 || source_read(s, text, d.size, d.at));
    if (e)
        memset(e, 0, (d.n + 1) * sizeof *e);
    for (uint64_t i = 0, at = 0; i < d.n && ok; i++) {
        e[i].at = d.at + at;
        size_t whole = parse_entry(s, text + at, d.size - at, d.at, &e[i]);
        at += whole;
        ok = whole != 0;
    }
    ok = ok && check_members(s, e, d.n);
    for (uint64_t i = 0; i < d.n && ok; i++) ok = e[i].folder || load_entry(s, &e[i], a);
    for (uint64_t i = 0; e && i < d.n; i++) free(e[i].name);
    free(e);
    free(text);
    if (!ok)
        archive_free(a);
    return !ok;
}
