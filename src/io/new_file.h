/* new_file.h: files that take their place when they are complete.
 *
 * Until then the file has no name, where the file system can do that: a process that ends early leaves
 * nothing behind.  Elsewhere it has the target's name and six characters more. */
#ifndef MX_IO_NEW_FILE_H
#define MX_IO_NEW_FILE_H

#include <stdbool.h>

struct new_file {
    int fd;          /* for reading and writing; -1: closed */
    int folder;      /* that of what the path led to, through links, when it was opened; -1: closed */
    char *name;      /* in it */
    char *temporary; /* its name there until it is placed; NULL: none */
    bool placed;
};

/* One that is not open; zeros would be somebody else's descriptor. */
static inline struct new_file new_file_closed(void) { return (struct new_file){ .fd = -1, .folder = -1 }; }

/* In the folder of what `path` leads to now, with the mode that this has.  NULL, or why not. */
const char *new_file_open(struct new_file *f, const char *path);
/* Puts it where the target is; once is enough.  false: errno says why not. */
bool new_file_place(struct new_file *f);
/* The same where nothing is in the way: what is there stays until new_file_place. */
void new_file_offer(struct new_file *f);
/* Has it lost its place since, to another file or to none? */
bool new_file_lost(const struct new_file *f);
/* Closes it, and takes it away unless it was placed; may be called again.  false: errno says why not. */
bool new_file_close(struct new_file *f);

#endif
