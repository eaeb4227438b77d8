/* pretended.h: what NVIDIA's libraries of the emulated driver have in common. */
#ifndef MX_TESTS_EMULATED_PRETENDED_H
#define MX_TESTS_EMULATED_PRETENDED_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* Is that what PRETEND in the environment says? */
static inline bool pretends(const char *what)
{
    const char *asked = getenv("PRETEND");
    return asked && !strcmp(asked, what);
}

static inline void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "emulated library: expected %s\n", what);
    abort();
}

static inline void *of_driver(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *f = driver ? dlsym(driver, name) : NULL;
    expect(f, "the driver");
    dlclose(driver);
    return f;
}

/* The driver makes copies of pinned memory late. */
static inline void await_copies(void *stream)
{
    int (*wait)(void *) = (int (*)(void *))of_driver("emulated_call");
    expect(!wait(stream), "a stream");
}

#endif
