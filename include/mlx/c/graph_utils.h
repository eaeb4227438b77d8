/* graph_utils.h: graphs of arrays that are not computed yet, as text.
 *
 * A namer is a handle that keeps names of arrays, and references to those arrays.  Whoever makes one
 * frees it; copies of the struct are the same namer.  Functions return 0 for success; errors as in
 * array.h. */
#ifndef MLX_C_GRAPH_UTILS_H
#define MLX_C_GRAPH_UTILS_H

#include <stdio.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names of arrays. */
typedef struct mlx_node_namer_ {
    void *ctx;
} mlx_node_namer;

/* A namer without names. */
MLX_API mlx_node_namer mlx_node_namer_new(void);

/* Releases the handle, the names and the arrays kept. */
MLX_API int mlx_node_namer_free(mlx_node_namer namer);

/* Calls an array by a copy of `name`, in place of what it was called. */
MLX_API int mlx_node_namer_set_name(mlx_node_namer namer, const mlx_array arr, const char *name);

/* What an array is called: if it has no name yet, the next of A, B, ..., Z, AA, AB and so on.  Good
 * until the name is changed or the namer freed. */
MLX_API int mlx_node_namer_get_name(const char **name, mlx_node_namer namer, const mlx_array arr);

/* Writes the graph that leads to the outputs in the language of Graphviz.  Arrays that the namer,
 * which may be an empty handle, does not know are called A, B and so on. */
MLX_API int mlx_export_to_dot(FILE *os, const mlx_node_namer namer, const mlx_vector_array outputs);

/* The same for people to read: inputs, operations in order with their operands and results, outputs. */
MLX_API int mlx_print_graph(FILE *os, const mlx_node_namer namer, const mlx_vector_array outputs);

#ifdef __cplusplus
}
#endif

#endif
