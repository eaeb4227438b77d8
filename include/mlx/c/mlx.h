/* mlx.h: the whole C interface.
 *
 * It includes every other header of the folder. */
#ifndef MLX_C_MLX_H
#define MLX_C_MLX_H

/* Programs that include this header alone use these as well. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlx/c/array.h"
#include "mlx/c/binding.h"
#include "mlx/c/borrow.h"
#include "mlx/c/closure.h"
#include "mlx/c/compile.h"
#include "mlx/c/control.h"
#include "mlx/c/cuda.h"
#include "mlx/c/cuda_libraries.h"
#include "mlx/c/device.h"
#include "mlx/c/distributed.h"
#include "mlx/c/distributed_group.h"
#include "mlx/c/error.h"
#include "mlx/c/export.h"
#include "mlx/c/fast.h"
#include "mlx/c/fft.h"
#include "mlx/c/graph_utils.h"
#include "mlx/c/half.h"
#include "mlx/c/handles.h"
#include "mlx/c/io.h"
#include "mlx/c/io_types.h"
#include "mlx/c/jacobian.h"
#include "mlx/c/linalg.h"
#include "mlx/c/map.h"
#include "mlx/c/memory.h"
#include "mlx/c/metal.h"
#include "mlx/c/ops.h"
#include "mlx/c/optional.h"
#include "mlx/c/primitive.h"
#include "mlx/c/random.h"
#include "mlx/c/scope.h"
#include "mlx/c/stream.h"
#include "mlx/c/string.h"
#include "mlx/c/transforms.h"
#include "mlx/c/transforms_impl.h"
#include "mlx/c/vector.h"
#include "mlx/c/version.h"

#endif
