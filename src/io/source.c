/* source.c: files and streams as sources of bytes. */
#define _GNU_SOURCE
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/settings.h"

enum {
    MAP_LEAST = 128 << 10, /* reading less than that costs less than mapping it */
};

struct file_source {
    struct source source;
    int fd;
    struct stat at_open;
};

/* ---- is it still the file that was opened? */

static bool unchanged(struct file_source *f)
{
    struct stat now;
    if (fstat(f->fd, &now)) {
        mx_fail_as(MX_RUNTIME, "[load] %s: could not look at the file: %s", f->source.label, strerror(errno));
        return false;
    }
    const struct stat *was = &f->at_open;
    bool same_time = now.st_mtim.tv_sec == was->st_mtim.tv_sec && now.st_mtim.tv_nsec == was->st_mtim.tv_nsec;
    if (now.st_size == was->st_size && now.st_ino == was->st_ino && now.st_dev == was->st_dev && same_time)
        return true;
    mx_fail_as(MX_RUNTIME, "[load] %s was changed after it was opened: it had %lld bytes, it has %lld", f->source.label,
               (long long)was->st_size, (long long)now.st_size);
    return false;
}

/* ---- reading and mapping */

static bool file_source_read(struct source *self, void *data, uint64_t n, uint64_t offset)
{
    struct file_source *f = (struct file_source *)self;
    if (!unchanged(f))
        return false;
    while (n) {
        ssize_t got = pread(f->fd, data, n < 1u << 30 ? n : 1u << 30, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            mx_fail_as(MX_RUNTIME, "[load] %s: could not read %llu bytes at offset %llu: %s", self->label,
                       (unsigned long long)n, (unsigned long long)offset, got ? strerror(errno) : "the file ended");
            return false;
        }
        data = (char *)data + got;
        n -= (uint64_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

struct mapping {
    void *start;
    size_t bytes;
};

static void unmap(void *payload)
{
    struct mapping *m = payload;
    munmap(m->start, m->bytes);
    free(m);
}

static struct buffer *file_map(struct source *self, uint64_t offset, uint64_t n)
{
    struct file_source *f = (struct file_source *)self;
    if (n < MAP_LEAST || !unchanged(f))
        return NULL;
    uint64_t slack = offset % (uint64_t)sysconf(_SC_PAGESIZE);
    struct mapping *m = mx_malloc(sizeof *m);
    if (!m)
        return NULL;
    /* Private: what is written to the array stays in this process. */
    *m = (struct mapping){ .bytes = n + slack };
    m->start =
        mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, f->fd, (off_t)(offset - slack));
    if (m->start == MAP_FAILED) { /* too many of them, perhaps: then it is read */
        free(m);
        return NULL;
    }
    struct buffer *b = buffer_wrap((char *)m->start + slack, n, true, unmap, m);
    if (!b) {
        unmap(m);
        return NULL;
    }
    b->mapped = true;
    return b;
}

/* ---- files */

static void file_source_destroy(struct object *self)
{
    struct file_source *f = (struct file_source *)self;
    close(f->fd);
    free((char *)(uintptr_t)f->source.label);
    free(f);
}

bool source_may_map(void) { return setting_switch("MLX_MMAP", true); }

struct source *source_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer would keep us */
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        mx_fail_as(mx_error_of_system(errno), "[load] could not open %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    if (!S_ISREG(st.st_mode)) {
        mx_fail_as(MX_RUNTIME, "[load] %s is not a regular file", path);
        close(fd);
        return NULL;
    }
    struct file_source *f = mx_malloc(sizeof *f);
    char *label = f ? mx_strdup(path) : NULL;
    if (!label) {
        free(f);
        close(fd);
        return NULL;
    }
    *f = (struct file_source){
        .source = { .object = { 1, file_source_destroy },
                    .label = label,
                    .size = (uint64_t)st.st_size,
                    .in_parts = true,
                    .read = file_source_read,
                    .map = source_may_map() ? file_map : NULL },
        .fd = fd,
        .at_open = st,
    };
    return &f->source;
}

/* ---- parts of other sources */

struct source_part {
    struct source source;
    struct source *of;
    uint64_t from;
};

static bool part_read(struct source *self, void *data, uint64_t n, uint64_t offset)
{
    struct source_part *p = (struct source_part *)self;
    return source_read(p->of, data, n, p->from + offset);
}

static struct buffer *part_map(struct source *self, uint64_t offset, uint64_t n)
{
    struct source_part *p = (struct source_part *)self;
    return p->of->map(p->of, p->from + offset, n);
}

static void part_destroy(struct object *self)
{
    struct source_part *p = (struct source_part *)self;
    source_release(p->of);
    free((char *)(uintptr_t)p->source.label);
    free(p);
}

/* "outer: inner", or NULL after mx_fail. */
char *source_label(const struct source *of, const char *name)
{
    size_t n = strlen(of->label) + strlen(name) + 3;
    char *label = mx_malloc(n);
    if (label)
        snprintf(label, n, "%s: %s", of->label, name);
    return label;
}

struct source *source_part(struct source *of, const char *name, uint64_t from, uint64_t size)
{
    char *label = source_label(of, name);
    struct source_part *p = label ? mx_malloc(sizeof *p) : NULL;
    if (!p) {
        free(label);
        return NULL;
    }
    object_retain(&of->object);
    *p = (struct source_part){ { .object = { 1, part_destroy },
                                 .label = label,
                                 .size = size,
                                 .in_parts = of->in_parts,
                                 .eager = of->eager,
                                 .read = part_read,
                                 .map = of->map ? part_map : NULL,
                                 .base = of->base + from },
                               of,
                               from };
    return &p->source;
}
