/* source.h: files and streams as sources of bytes.
 *
 * A file stays open until the last array that it has yet to give is evaluated or gone.  Each read or
 * mapping first looks whether the file is still what it was when it was opened.  MLX_MMAP=0 has it
 * read where it would be mapped. */
#ifndef MX_IO_SOURCE_H
#define MX_IO_SOURCE_H

#include "ops/load.h"

/* What MLX_MMAP says now. */
bool source_may_map(void);
/* A regular file, to be let go of with source_release; NULL after mx_fail. */
struct source *source_open(const char *path);
/* Bytes from..from + size of another source, which it keeps; its label is "outer: name". */
struct source *source_part(struct source *of, const char *name, uint64_t from, uint64_t size);
static inline void source_release(struct source *s) { object_release(s ? &s->object : NULL); }

/* "outer: name", to be freed; NULL after mx_fail. */
char *source_label(const struct source *of, const char *name);

#endif
