/* primitive_run.h: evaluations of primitives, between a backend and the class's rule. */
#ifndef MX_CAPI_PRIMITIVE_RUN_H
#define MX_CAPI_PRIMITIVE_RUN_H

#include "mlx/c/primitive.h"
#include "ops/plugin.h"

struct mlx_run_ {
    const char *name; /* of the class */
    const struct plugin_run *r;
    mlx_run_array *x, *y;
};

int run_open(struct mlx_run_ *run, const char *name, const struct plugin_run *r);
/* The rule returned `status`: 0 if all results have memory, else non-zero after mx_fail. */
int run_close(struct mlx_run_ *run, int status);

/* A registered library, as mlx_library_contents has it; false where there is none. */
bool library_find(const char *name, mlx_library_kind *kind, const void **bytes, size_t *size);

#endif
