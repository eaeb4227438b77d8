/* new_file.c: files that take their place when they are complete.
 *
 * A file without a name can be given one that is free, not one that is taken: over an older file it gets a
 * name beside it first, for as long as it takes to rename it. */
#define _GNU_SOURCE
#include "io/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where a path leads to, through links, the last of which may lead to what is not there yet; to be
 * freed, NULL without memory or where links lead to each other: errno. */
static char *followed(const char *path)
{
    char *at = realpath(path, NULL), link[PATH_MAX];
    if (at || errno == ELOOP)
        return at;
    at = strdup(path);
    for (int i = 0; at && i < 40; i++) {
        ssize_t n = readlink(at, link, sizeof link - 1);
        if (n < 0)
            break;
        link[n] = 0;
        char *slash = strrchr(at, '/'), *next = NULL;
        int folder = slash && link[0] != '/' ? (int)(slash + 1 - at) : 0;
        if (asprintf(&next, "%.*s%s", folder, at, link) < 0)
            next = NULL;
        free(at);
        at = next;
    }
    return at;
}

/* -1 where the file system, or a system without /proc, cannot. */
static int open_nameless(const char *target)
{
    const char *slash = strrchr(target, '/');
    char *folder = slash ? strndup(target, (size_t)(slash + 1 - target)) : strdup(".");
    int fd = folder && !access("/proc/self/fd", X_OK) ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
    free(folder);
    return fd;
}

const char *new_file_open(struct new_file *f, const char *path)
{
    *f = (struct new_file){ .fd = -1, .target = followed(path) };
    if (!*path) {
        new_file_close(f);
        errno = ENOENT;
        return "the name is empty";
    }
    struct stat st;
    bool there = f->target && !stat(f->target, &st);
    if (there && !S_ISREG(st.st_mode)) {
        new_file_close(f);
        errno = EINVAL;
        return "not a regular file";
    }
    if (f->target)
        f->fd = open_nameless(f->target);
    if (f->target && f->fd < 0) {
        if (asprintf(&f->temporary, "%s.XXXXXX", f->target) < 0)
            f->temporary = NULL;
        else if ((f->fd = mkostemp(f->temporary, O_CLOEXEC)) < 0) {
            free(f->temporary); /* which is not there */
            f->temporary = NULL;
        } else {
            mode_t mask = umask(0); /* other threads see it for this moment, which O_TMPFILE spares them */
            umask(mask);
            fchmod(f->fd, 0666 & ~mask);
        }
    }
    if (f->fd < 0) {
        const char *why = strerror(errno);
        new_file_close(f);
        return why;
    }
    if (there)
        fchmod(f->fd, st.st_mode & 07777);
    return NULL;
}

/* Gives it a name beside the target. */
static bool name_it(struct new_file *f, const char *self)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t n = strlen(f->target);
    char *name = malloc(n + 8);
    bool named = false;
    for (int i = 0; name && i < 100 && !named; i++) {
        unsigned char random[6] = { 0 };
        if (getrandom(random, sizeof random, 0) < 0)
            break;
        memcpy(name, f->target, n);
        name[n] = '.';
        for (int k = 0; k < 6; k++) name[n + 1 + (size_t)k] = letters[random[k] % 36];
        name[n + 7] = 0;
        named = !linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
        if (!named && errno != EEXIST)
            break;
    }
    if (named)
        f->temporary = name;
    else
        free(name);
    return named;
}

bool new_file_place(struct new_file *f)
{
    if (f->placed)
        return true;
    if (!f->temporary) {
        char self[40];
        snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
        f->placed = !linkat(AT_FDCWD, self, AT_FDCWD, f->target, AT_SYMLINK_FOLLOW);
        if (f->placed)
            return true;
        if (errno != EEXIST || !name_it(f, self))
            return false;
    }
    f->placed = !rename(f->temporary, f->target);
    return f->placed;
}

bool new_file_close(struct new_file *f)
{
    bool ok = f->fd < 0 || !close(f->fd);
    int why = errno;
    if (f->temporary && !f->placed)
        unlink(f->temporary);
    free(f->temporary);
    free(f->target);
    *f = (struct new_file){ .fd = -1, .placed = f->placed };
    errno = why;
    return ok;
}
