/* axpby.h: an operation of our own. */
#ifndef AXPBY_H
#define AXPBY_H

#include <mlx/c/mlx.h>

/* z = alpha x + beta y, element by element.  x and y are broadcast; what is not floating point becomes so. */
MLX_API int axpby(mlx_array *z, const mlx_array x, const mlx_array y, float alpha, float beta, const mlx_stream s);

/* Makes the operation known to those who read files of exported functions. */
MLX_API int axpby_register(void);

#endif
