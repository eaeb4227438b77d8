/* kept.c: see kept.h. */
#define _GNU_SOURCE /* secure_getenv */
#include "core/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/settings.h"

static const uint64_t another_start = 0x9ae16a3b2f90404fu;

/* ---- the folder */

/* How many bytes it may hold. */
static size_t most_kept(void)
{
    enum { MEGABYTES = 256 };
    bool asked = secure_getenv("MLX_KERNEL_CACHE");
    return (size_t)(asked ? setting_number("MLX_KERNEL_CACHE", 0, SIZE_MAX >> 20, MEGABYTES) : MEGABYTES) << 20;
}

static bool is_private(const char *folder)
{
    struct stat s;
    return lstat(folder, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 077) == 0 &&
           access(folder, W_OK | X_OK) == 0;
}

bool kept_folder(const char *kind, char *path, size_t size)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    struct passwd entry, *user = NULL;
    char buf[4096];
    if (!most_kept())
        return false;
    if (!home || *home != '/') {
        getpwuid_r(geteuid(), &entry, buf, sizeof buf, &user);
        home = user ? user->pw_dir : NULL;
    }
    int n = cache && *cache == '/' ? snprintf(path, size, "%s/mlx/%s", cache, kind)
            : home && *home == '/' ? snprintf(path, size, "%s/.cache/mlx/%s", home, kind)
                                   : -1;
    if (n < 0 || (size_t)n >= size)
        return false;
    bool there = false;
    for (char *end = path;;) {
        end = strchr(end + 1, '/');
        if (end)
            *end = 0;
        there = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (!end || !there)
            break;
        *end = '/';
    }
    return there && is_private(path); /* and not a folder above it, which is not ours to trim */
}

bool kept_path(const char *folder, struct kept_key key, const char *suffix, char *path, size_t size)
{
    int n = snprintf(path, size, "%s/%016llx%016llx%s", folder,
                     (unsigned long long)hash_bytes(HASH_START, key.bytes, key.size),
                     (unsigned long long)hash_bytes(another_start, key.bytes, key.size), suffix);
    return n > 0 && (size_t)n < size;
}

struct kept_file {
    char name[64];
    size_t size;
    struct timespec used;
};

static int used_before(const void *a, const void *b)
{
    const struct kept_file *p = a, *q = b;
    if (p->used.tv_sec != q->used.tv_sec)
        return p->used.tv_sec < q->used.tv_sec ? -1 : 1;
    return (p->used.tv_nsec > q->used.tv_nsec) - (p->used.tv_nsec < q->used.tv_nsec);
}

/* The files there, to be freed, and what they come to. */
static struct kept_file *files_in(DIR *d, size_t *n, size_t *total)
{
    struct kept_file *all = NULL;
    size_t cap = 0;
    *n = *total = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat s;
        if (strlen(e->d_name) >= sizeof all->name || fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(s.st_mode))
            continue;
        if (*n == cap) {
            struct kept_file *more = mx_try_realloc(all, (cap = cap ? 2 * cap : 64) * sizeof *all);
            if (!more)
                break;
            all = more;
        }
        struct kept_file *f = &all[(*n)++];
        *f = (struct kept_file){ .size = (size_t)s.st_size, .used = s.st_mtim };
        strcpy(f->name, e->d_name);
        *total += f->size;
    }
    return all;
}

void kept_trim(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n, total, most = most_kept();
    struct kept_file *all = d ? files_in(d, &n, &total) : NULL;
    if (all && total > most) {
        qsort(all, n, sizeof *all, used_before);
        for (size_t i = 0; i + 1 < n && total > most; i++) {
            unlinkat(dirfd(d), all[i].name, 0);
            total -= all[i].size;
        }
    }
    free(all);
    if (d)
        closedir(d);
}

/* ---- files */

/* What is behind the contents of a file: the key, and this. */
struct trailer {
    char word[8];
    uint64_t key_size, sum; /* of all before the sum */
};
static const char trailer_word[8] = "mlxckrn1";

static bool read_fd(int fd, void *data, size_t n)
{
    for (char *p = data; n;) {
        ssize_t got = read(fd, p, n);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        p += got > 0 ? got : 0;
        n -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool write_fd(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno != EINTR)
            return false;
        p += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* The bytes of a file of the user's that nobody else could write to; NULL for any other. */
static uint8_t *file_bytes(int fd, size_t *n)
{
    enum { MOST = 1 << 28 };
    struct stat s;
    if (fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 022) || s.st_size > MOST)
        return NULL;
    *n = (size_t)s.st_size;
    uint8_t *data = mx_try_malloc(*n + 1);
    if (data && read_fd(fd, data, *n))
        return data;
    free(data);
    return NULL;
}

uint8_t *kept_read(const char *path, struct kept_key key, size_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe without a writer would keep us */
    size_t all = 0;
    uint8_t *data = fd >= 0 ? file_bytes(fd, &all) : NULL;
    struct trailer t;
    bool good = data && all > key.size + sizeof t;
    if (good) {
        memcpy(&t, data + all - sizeof t, sizeof t);
        *n = all - sizeof t - key.size;
        good = !memcmp(t.word, trailer_word, sizeof t.word) && t.key_size == key.size &&
               !memcmp(data + *n, key.bytes, key.size) && t.sum == hash_bytes(HASH_START, data, all - sizeof t.sum);
    }
    if (good)
        futimens(fd, NULL); /* what is used stays longest */
    else
        free(data);
    if (fd >= 0)
        close(fd);
    return good ? data : NULL;
}

bool kept_seal(const char *path, struct kept_key key)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    size_t n = 0;
    uint8_t *data = fd >= 0 && fchmod(fd, 0700) == 0 ? file_bytes(fd, &n) : NULL;
    struct trailer t = { .key_size = key.size };
    memcpy(t.word, trailer_word, sizeof t.word);
    if (data) {
        uint64_t h = hash_bytes(HASH_START, data, n);
        h = hash_bytes(h, key.bytes, key.size);
        t.sum = hash_bytes(h, &t, offsetof(struct trailer, sum));
    }
    bool good = data && write_fd(fd, key.bytes, key.size) && write_fd(fd, &t, sizeof t) && fsync(fd) == 0;
    free(data);
    if (fd >= 0)
        close(fd);
    return good;
}

bool kept_write(const char *folder, const char *path, struct kept_key key, const void *data, size_t n)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s/new-XXXXXX", folder) >= (int)sizeof part)
        return false;
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = write_fd(fd, data, n);
    good = close(fd) == 0 && good && kept_seal(part, key) && rename(part, path) == 0;
    if (good)
        kept_trim(folder);
    else
        unlink(part);
    return good;
}
