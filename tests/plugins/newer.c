/* A library compiled for an interface that is not there yet. */
#include "mlx/c/primitive.h"

extern __attribute__((visibility("default"))) const struct mlx_plugin mlx_plugin;
const struct mlx_plugin mlx_plugin = { sizeof mlx_plugin, MLX_PRIMITIVE_ABI + 1, "9.0", NULL };
