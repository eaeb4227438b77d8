/* custom_kernel.h: from the text of a kernel for CUDA to an image: what the files that make it share.
 *
 * custom_text.c puts a program around the body, nvrtc.c has it compiled and keeps what came out, custom_kernel.c
 * launches it. */
#ifndef MX_CUDA_CUSTOM_KERNEL_H
#define MX_CUDA_CUSTOM_KERNEL_H

#include "cuda/gpu.h"
#include "ops/custom_kernel.h"

#define CUSTOM_ENTRY "custom_kernel_" /* in front of the kernel's name */

/* Of an input, the facts that its kernel asks about, in the order of its parameters. */
enum custom_fact { FACT_SHAPE, FACT_STRIDES, FACT_NDIM, FACTS };
bool custom_asks(const struct kernel *k, int input, enum custom_fact fact);

/* The program for inputs and outputs of these types and of no more than `dims` dimensions; NULL after mx_fail.  Free
 * it. */
char *custom_text(const struct kernel *k, const char *template, const enum dtype types[], int dims);
/* Small stand-ins for headers of CUDA, where it has none: n texts and their names. */
extern const char *const custom_headers[], *const custom_header_names[];
extern const int custom_n_headers, custom_of_cuda;

/* The program compiled for this device, or found where it was compiled before: an image of *size bytes and one more,
 * which is 0; NULL after mx_fail.  Free it.  With `cuda_headers` it includes those of CUDA, where they are.  `verbose`
 * says on stdout where it is. */
char *custom_image(const struct gpu *g, const char *op, const char *name, const char *text, bool cuda_headers,
                   bool verbose, size_t *size);
/* Modules that stay loaded while the process lives, by a key: the bytes of an image, or the name of a library, which is
 * another `variant`. */
enum { CUSTOM_LIBRARY = -1 };
void *custom_module(int gpu, int variant, const void *key, size_t size);
/* Two threads may both load one; either serves.  NULL with the driver's error, or after mx_fail with 0. */
void *custom_module_new(int gpu, int variant, const void *key, size_t size, const void *image, int *error);
/* Does a kernel take n arguments of these sizes, where they are known?  The driver reads as many as it takes, whatever
 * there is; those before 12.4 cannot say.  False after mx_fail. */
bool custom_takes(const char *op, const char *name, void *f, size_t n, const size_t *sizes);
/* Queues it.  What the driver refuses is an error, and no reason to give the device up. */
int custom_launch(struct stream *s, const char *op, const char *name, void *f, const unsigned blocks[3],
                  const unsigned threads[3], int shared_memory, void *args[]);

#endif
