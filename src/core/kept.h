/* kept.h: what one process made and the next ones need not make again: files in a folder of the user's own.
 *
 * A file is named by the hash of a key, which says all that it depends on, and ends with the key and a sum over all of
 * it, which are looked at before it is used.  It comes to its place by one rename, so that nobody meets half of one.
 * Anybody may delete such files at any time. */
#ifndef MX_CORE_KEPT_H
#define MX_CORE_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kept_key {
    const void *bytes;
    size_t size;
};

/* The folder for things of a kind, $XDG_CACHE_HOME/mlx/<kind> or ~/.cache/mlx/<kind>, made if need be.  False: there is
 * none, others than the user could write to it, or MLX_KERNEL_CACHE=0. */
bool kept_folder(const char *kind, char *path, size_t size);
/* Where the file of a key is in that folder. */
bool kept_path(const char *folder, struct kept_key key, const char *suffix, char *path, size_t size);
/* What is in that file, of *n bytes, if it is whole and of this key; NULL for any other.  Free it. */
uint8_t *kept_read(const char *path, struct kept_key key, size_t *n);
/* Puts the key and the sum behind what is in a file, which is then renamed. */
bool kept_seal(const char *path, struct kept_key key);
/* Those bytes under that path, sealed. */
bool kept_write(const char *folder, const char *path, struct kept_key key, const void *data, size_t n);
/* Files that were used the longest ago go while the folder holds more than MLX_KERNEL_CACHE megabytes, or 256. */
void kept_trim(const char *folder);

#endif
