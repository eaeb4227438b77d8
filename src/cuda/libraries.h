/* libraries.h: NVIDIA's libraries beside the driver, opened where they are found. */
#ifndef MX_CUDA_LIBRARIES_H
#define MX_CUDA_LIBRARIES_H

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
/* For struct device_class: add(ctx, name, path, version, used_for), the last three NULL where there is none. */
void cuda_tell_libraries(void (*add)(void *, const char *, const char *, const char *, const char *), void *ctx);

#endif
