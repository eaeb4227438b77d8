/* c_shapes.c: which functions build the same graph whatever the shapes of their operands.
 *
 * While a graph for any shape is traced (mlx_compile with `shapeless`) every function that gets a
 * placeholder is looked up here.  One that is not listed may let sizes decide what it builds, so the
 * graph will serve the traced shapes only: slower, never wrong.  A test calls each of them compiled
 * with other shapes than traced. */
#include <string.h>

#include "capi/capi.h"
#include "core/words.h"
#include "transform/graph.h"

/* Not even the number of dimensions matters. */
static const char *const any_rank[] = {
#define UNARY(name, ...) #name,
#define BINARY(name, ...) #name,
#include "ops/ops.def"
    "astype", "clip", "closure_apply", "compiled_apply", "copy", "degrees", "divmod", "floor_divide",
    "full_like", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "nan_to_num",
    "nan_to_num_double", "negative", "ones_like", "random_set_state", "radians", "reciprocal", "round",
    "stop_gradient", "where", "zeros_like",
};

/* The number of dimensions matters, as do axes, but not the sizes. */
static const char *const any_shape[] = {
    "addmm", "addmm_double", "all", "all_axes", "all_axis", "any", "any_axes", "any_axis", "argmax_axis",
    "argmin_axis", "argsort_axis", "broadcast_arrays", "broadcast_to", "concatenate_axis", "cummax", "cummin",
    "cumprod", "cumsum", "expand_dims", "expand_dims_axes", "fast_layer_norm", "fast_rms_norm", "flatten",
    "getitem", "imported_function_apply", "imported_function_apply_kwargs", "log_softmax", "logcumsumexp", "logsumexp_axes",
    "logsumexp_axis", "logsumexp_parts", "matmul", "max", "max_axes", "max_axis", "mean", "mean_axes", "mean_axis", "min",
    "min_axes", "min_axis", "moveaxis", "number_of_elements", "primitive_apply", "prod", "prod_axes", "prod_axis",
    "random_bernoulli", "random_bits", "random_normal", "random_split", "random_split_num", "random_uniform",
    "reshape", "softmax_axes", "softmax_axis", "sort_axis", "squeeze_axes", "squeeze_axis", "stack",
    "stack_axis", "std", "std_axes", "std_axis", "sum", "sum_axes", "sum_axis", "swapaxes", "take", "take_axis",
    "transpose", "transpose_axes", "unflatten", "var", "var_axes", "var_axis",
};

void capi_note(const char *func, mx x)
{
    const char *name = !strncmp(func, "mlx_", 4) ? func + 4 : func;
    if (!x->tracer || !strncmp(name, "vector_", 7) || !strncmp(name, "array_", 6) || AMONG(name, any_rank))
        return;
    ranks_matter();
    if (!strncmp(name, "closure_", 8) || !strncmp(name, "detail_", 7))
        shapes_matter("a transform inside");
    else if (!AMONG(name, any_shape))
        shapes_matter(name);
}
