/* libraries.h: NVIDIA's libraries beside the driver, opened where they are found. */
#ifndef MX_CUDA_LIBRARIES_H
#define MX_CUDA_LIBRARIES_H

#include <stdatomic.h>
#include <stdbool.h>

enum cuda_library_name {
#define LIBRARY(name, ...) CUDA_##name,
#include "cuda/libraries.def"
    CUDA_LIBRARIES
};

struct cuda_library {
    void *handle; /* for dlsym */
    const char *path;
    char version[32];
};

/* Looked for when it is first asked for, and then kept; NULL: not found. */
const struct cuda_library *cuda_library(enum cuda_library_name which);

/* A function of a library that is called, and where its address goes; one that only later versions have is NULL in
 * others. */
struct cuda_function {
    const char *symbol;
    void **at;
    bool later;
};
enum cuda_functions_state { CUDA_UNKNOWN, CUDA_FOUND, CUDA_MISSING };
struct cuda_functions {
    enum cuda_library_name of;
    const struct cuda_function *all;
    int n;
    _Atomic(enum cuda_functions_state) state;
};
/* Are they there?  Looked for the first time. */
bool cuda_find(struct cuda_functions *f);
/* Tells what came of a first use on a GPU, of all or `what` of the library, where MLX_LOG lists libraries: it works, or
 * why it is not used.  Returns which. */
bool cuda_tried(enum cuda_library_name which, const char *what, int gpu, const char *why);

/* Where what a library has queued ends, whose kernels keep something in common that is not a stream's: work on one
 * stream comes after that on another.  Zeros: nothing is queued.  Both under a lock of the caller's. */
struct cuda_work {
    void *event, *stream;
    bool several; /* streams so far: each call's end has an event then, which would keep the next kernel back for one */
};
/* What is queued on the stream until the end belongs to it.  The driver's error. */
int cuda_work_goes_on(struct cuda_work *w, void *stream);
int cuda_work_ends(struct cuda_work *w);
/* Waits for all of it. */
void cuda_work_await(struct cuda_work *w);
void cuda_work_close(struct cuda_work *w);

/* For struct device_class: add(ctx, name, path, version, used_for), the last three NULL where there is none. */
void cuda_tell_libraries(void (*add)(void *, const char *, const char *, const char *, const char *), void *ctx);

#endif
