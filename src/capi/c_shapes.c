/* c_shapes.c: which functions build the same graph whatever the number of dimensions of their operands.
 *
 * While a graph for any shape is traced (mlx_compile with `shapeless`) every function that gets a
 * placeholder is looked up here.  If one is not listed, the graph will serve operands of the traced
 * numbers of dimensions only: slower, never wrong. */
#include <string.h>

#include "capi/capi.h"
#include "core/words.h"
#include "transform/graph.h"

static const char *const any_rank[] = {
#define UNARY(name, ...) #name,
#define BINARY(name, ...) #name,
#include "ops/ops.def"
    /* clang-format off */
    "astype", "clip", "closure_apply", "compiled_apply", "copy", "degrees", "divmod", "floor_divide",
    "full_like", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "nan_to_num",
    "nan_to_num_double", "negative", "ones_like", "random_set_state", "radians", "reciprocal", "round",
    "stop_gradient", "where", "zeros_like",
    /* clang-format on */
};

void capi_note(const char *func, mx x)
{
    const char *name = !strncmp(func, "mlx_", 4) ? func + 4 : func;
    if (!x->tracer || !strncmp(name, "vector_", 7) || !strncmp(name, "array_", 6) || AMONG(name, any_rank))
        return;
    ranks_matter();
}
