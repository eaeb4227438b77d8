/* optional.h: numbers that may be left out.
 *
 * `value` counts only where `has_value` is true; { 0 } is "left out". */
#ifndef MLX_C_OPTIONAL_H
#define MLX_C_OPTIONAL_H

#include <stdbool.h>

#include "mlx/c/array.h"

/* An int or nothing. */
typedef struct mlx_optional_int_ {
    int value;      /* read where has_value */
    bool has_value; /* whether it is given */
} mlx_optional_int;

/* A float or nothing. */
typedef struct mlx_optional_float_ {
    float value;    /* read where has_value */
    bool has_value; /* whether it is given */
} mlx_optional_float;

/* A dtype or nothing. */
typedef struct mlx_optional_dtype_ {
    mlx_dtype value; /* read where has_value */
    bool has_value;  /* whether it is given */
} mlx_optional_dtype;

#endif
