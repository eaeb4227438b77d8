/* A library that loads another one, which loads this one. */
#include "mlx/c/mlx.h"

static int load(void) { return mlx_register_library(OTHER, OTHER); }
MLX_PLUGIN(load)
