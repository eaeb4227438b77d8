/* tape.h: launches that the driver has not been told of yet, with copies of their arguments. */
#ifndef MX_CUDA_TAPE_H
#define MX_CUDA_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu;

enum { TAPE_MOST = 128, TAPE_ARGUMENTS = 8 };

/* Puts what a library is to do on the driver's stream; the driver's error. */
typedef int gpu_library_fn(struct gpu *g, const void *what, void *stream);

struct tape_entry {
    void *kernel; /* NULL: of a library */
    gpu_library_fn *library;
    unsigned blocks, threads, shared;
    size_t at, bytes; /* of its arguments, in the tape's */
    int n;            /* arguments of a kernel, each at a multiple of 16 bytes, and their sizes */
    uint16_t size[TAPE_ARGUMENTS];
};

struct tape {
    int n, libraries; /* entries, and those of libraries among them */
    struct tape_entry *entry;
    char *bytes;
    size_t used, cap;
};

/* false: there is no memory, or the driver does not know what the kernel gets. */
bool tape_add_kernel(struct tape *t, void *kernel, unsigned blocks, unsigned threads, unsigned shared, void *args[]);
bool tape_add_library(struct tape *t, gpu_library_fn *f, const void *what, size_t bytes);
/* Where those of entry i, a kernel, are. */
void tape_arguments(const struct tape *t, int i, void *args[TAPE_ARGUMENTS]);
void tape_clear(struct tape *t);
void tape_close(struct tape *t);
/* `to` gets room of its own, and what `from` has. */
bool tape_copy(struct tape *to, const struct tape *from);

/* Equal for tapes of the same kernels in the same order, whatever their arguments and numbers of blocks, and of
 * libraries that do the same with the same addresses. */
uint64_t tape_key(const struct tape *t);
bool tape_alike(const struct tape *a, const struct tape *b);
/* Is entry i, of alike ones, launched as it is in the other with the same arguments? */
bool tape_same(const struct tape *a, const struct tape *b, int i);
/* Entry i of `to` becomes that of `from`, which it is alike. */
void tape_update(struct tape *to, const struct tape *from, int i);
/* Puts entry i on the driver's stream; the driver's error. */
int tape_put(struct gpu *g, const struct tape *t, int i, void *stream);

#endif
