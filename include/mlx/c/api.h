/* api.h: which symbols the library shows.
 *
 * The library is built with hidden visibility; a function declared with MLX_API is public. */
#ifndef MLX_C_API_H
#define MLX_C_API_H

/* Put before what is public. */
#if defined(__GNUC__) || defined(__clang__)
#define MLX_API __attribute__((visibility("default")))
#else
#define MLX_API
#endif

#endif
