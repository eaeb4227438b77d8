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

#include "core/memory.h"

/* Where a path leads to, through links, the last of which may lead to what is not there yet; to be
 * freed, NULL without memory or where links lead to each other: errno. */
static char *followed(const char *path)
{
    char *at = realpath(path, NULL), link[PATH_MAX];
    if (at || errno == ELOOP)
        return at;
    at = mx_try_strdup(path);
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

/* A name that nobody has, most likely: the target's, as far as there is room, and six characters more. */
static bool name_beside(const struct new_file *f, char name[NAME_MAX + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char random[6];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    int n = snprintf(name, NAME_MAX + 1 - 6, "%.*s.", NAME_MAX - 7, f->name);
    for (int k = 0; k < 6; k++) name[n + k] = letters[random[k] % 36];
    name[n + 6] = 0;
    return true;
}

enum { TRIES = 100 };

/* Where the file system, or a system without /proc, cannot have a file without a name. */
static void open_named(struct new_file *f)
{
    char name[NAME_MAX + 1];
    for (int i = 0; i < TRIES && f->fd < 0 && name_beside(f, name); i++) {
        f->fd = openat(f->folder, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST)
            break;
    }
    if (f->fd >= 0 && !(f->temporary = mx_try_strdup(name))) {
        unlinkat(f->folder, name, 0);
        close(f->fd);
        f->fd = -1;
        errno = ENOMEM;
    }
}

/* The folder as it is now, whatever the current one is and folders are called later; false: errno says why not. */
static bool settle_target(struct new_file *f, const char *path)
{
    char *target = followed(path);
    char *slash = target ? strrchr(target, '/') : NULL;
    f->name = target ? mx_try_strdup(slash ? slash + 1 : target) : NULL;
    if (slash)
        slash[1] = 0;
    if (f->name)
        f->folder = open(slash ? target : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int why = errno;
    free(target);
    errno = why;
    return f->folder >= 0;
}

const char *new_file_open(struct new_file *f, const char *path)
{
    *f = new_file_closed();
    if (!*path) {
        errno = ENOENT;
        return "the name is empty";
    }
    struct stat st;
    bool settled = settle_target(f, path), there = settled && !fstatat(f->folder, *f->name ? f->name : ".", &st, 0);
    if (there && !S_ISREG(st.st_mode)) {
        new_file_close(f);
        errno = EINVAL;
        return "not a regular file";
    }
    if (settled && !access("/proc/self/fd", X_OK))
        f->fd = openat(f->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (settled && f->fd < 0)
        open_named(f);
    if (f->fd < 0) {
        const char *why = strerror(errno);
        new_file_close(f);
        return why;
    }
    if (there)
        fchmod(f->fd, st.st_mode & 07777);
    return NULL;
}

enum { SELF = 40 };

/* The path of a file that has no name. */
static const char *path_of_open(const struct new_file *f, char path[SELF])
{
    snprintf(path, SELF, "/proc/self/fd/%d", f->fd);
    return path;
}

/* Gives it a name beside the target. */
static bool name_it(struct new_file *f, const char *self)
{
    char name[NAME_MAX + 1];
    for (int i = 0; i < TRIES && name_beside(f, name); i++) {
        if (!linkat(AT_FDCWD, self, f->folder, name, AT_SYMLINK_FOLLOW)) {
            f->temporary = mx_try_strdup(name);
            if (!f->temporary) {
                unlinkat(f->folder, name, 0);
                errno = ENOMEM;
            }
            return f->temporary;
        }
        if (errno != EEXIST)
            break;
    }
    return false;
}

void new_file_offer(struct new_file *f)
{
    if (f->placed)
        return;
    if (f->temporary) {
        f->placed = !linkat(f->folder, f->temporary, f->folder, f->name, 0);
        if (f->placed)
            unlinkat(f->folder, f->temporary, 0);
        return;
    }
    char self[SELF];
    f->placed = !linkat(AT_FDCWD, path_of_open(f, self), f->folder, f->name, AT_SYMLINK_FOLLOW);
}

bool new_file_place(struct new_file *f)
{
    new_file_offer(f);
    char self[SELF];
    if (!f->placed && !f->temporary && (errno != EEXIST || !name_it(f, path_of_open(f, self))))
        return false;
    if (!f->placed) {
        f->placed = !renameat(f->folder, f->temporary, f->folder, f->name);
        if (f->placed) /* which does nothing where both names are of this file already */
            unlinkat(f->folder, f->temporary, 0);
    }
    return f->placed;
}

/* Moved elsewhere it is still there for somebody. */
bool new_file_lost(const struct new_file *f)
{
    struct stat own, there;
    if (!f->placed || f->fd < 0 || f->folder < 0 || fstat(f->fd, &own) || own.st_nlink)
        return false;
    return fstatat(f->folder, f->name, &there, 0) || there.st_ino != own.st_ino || there.st_dev != own.st_dev;
}

bool new_file_close(struct new_file *f)
{
    bool ok = f->fd < 0 || !close(f->fd);
    int why = errno;
    if (f->temporary && !f->placed)
        unlinkat(f->folder, f->temporary, 0);
    if (f->folder >= 0)
        close(f->folder);
    free(f->temporary);
    free(f->name);
    bool placed = f->placed;
    *f = new_file_closed();
    f->placed = placed;
    errno = why;
    return ok;
}
