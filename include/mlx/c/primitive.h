/* primitive.h: operations of one's own.
 *
 * A primitive is a class, which says how to compute and to transform, and a state, which holds the
 * parameters of one use of it. mlx_primitive_apply puts one into the graph, where it is an operation
 * as any other: computed when somebody looks, differentiated, mapped over batches, compiled, and
 * written into files of exported functions, as far as its class has the rules. A transform that needs
 * a rule which is not there fails and says so ("Axpby has no vmap rule"); nothing else does.
 *
 * Rules return 0 for success. They fail with any other number, after a call of the library that failed
 * or after mlx_error; rules of evaluation use mlx_run_error. Derivative and batch rules are written in
 * the operations of the library, which build graphs: these rules run on the thread of the caller, and
 * the operations they call belong on the stream `s`, that of the node. Evaluation runs on any thread,
 * also at the same time on several, so it changes nothing of the state. It computes with what mlx_run_*
 * gives: evaluating an array inside of it is an error.
 *
 * Functions that return int return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_PRIMITIVE_H
#define MLX_C_PRIMITIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of the binary interface of this header. What is compiled with one number runs with every
 * later version of the library that has the same one: structs grow at their ends only. */
#define MLX_PRIMITIVE_ABI 1

/* The most dimensions an array has. */
#define MLX_MAX_NDIM 64

/* What a result will be. */
typedef struct mlx_output_ {
    mlx_dtype dtype;         /* the type of its elements */
    int ndim;                /* the number of its dimensions */
    int shape[MLX_MAX_NDIM]; /* their sizes */
} mlx_output;

/* An operand or a result during evaluation. */
typedef struct mlx_run_array_ {
    void *data;             /* the first element; NULL for a result that has no memory yet, or without elements */
    mlx_dtype dtype;        /* the type of its elements */
    int ndim;               /* the number of its dimensions */
    const int *shape;       /* their sizes */
    const int64_t *strides; /* in elements; 0 along axes that are broadcast */
    int64_t size;           /* in elements */
    bool row_contiguous;    /* in row-major order, without gaps */
    bool col_contiguous;    /* in column-major order, without gaps */
} mlx_run_array;

/* One evaluation under way. */
typedef struct mlx_run_ *mlx_run;

/* What a primitive is. Everything but the first three members may be NULL. */
struct mlx_primitive_class {
    size_t struct_size; /* sizeof(struct mlx_primitive_class) */
    int abi;            /* MLX_PRIMITIVE_ABI */
    const char *name;   /* a C identifier; how it is printed, found, and written in files */

    /* Compute the results from operands that have their data where the device reads it. Results have
     * shape and dtype, and get memory by mlx_run_alloc and its relatives before anything is written.
     * On a GPU the pointers are those of the device, and work goes to the device's queue. */
    int (*eval_cpu)(const void *state, mlx_run run);
    int (*eval_gpu)(const void *state, mlx_run run);

    /* One array for each operand numbered in argnums: the sum over results of the cotangent times the
     * derivative, in the shape of the operand. Cotangents are given for all results. */
    int (*vjp)(mlx_vector_array *vjps, const void *state, const mlx_vector_array primals,
               const mlx_vector_array cotangents, const int *argnums, size_t argnums_num,
               const mlx_vector_array outputs, const mlx_stream s);

    /* One array for each result: its derivative along the tangents, which are given for the operands
     * numbered in argnums. The others do not vary. */
    int (*jvp)(mlx_vector_array *jvps, const void *state, const mlx_vector_array primals,
               const mlx_vector_array tangents, const int *argnums, size_t argnums_num, const mlx_stream s);

    /* The results for a batch that lies along axes[i] of operand i, or -1 where that is the same for
     * the whole batch; and along which axis of each result the batch lies, or -1. */
    int (*vmap)(mlx_vector_array *outputs, mlx_vector_int *output_axes, const void *state,
                const mlx_vector_array inputs, const int *axes, size_t axes_num, const mlx_stream s);

    /* Do two states compute the same? Without it no two do, unless they are one. */
    bool (*is_equivalent)(const void *state, const void *other);

    /* The parameters as text ("alpha=2, beta=1"), as snprintf writes it: returns its whole length. */
    int (*print)(const void *state, char *text, size_t size);

    /* The results for these operands; checks them. Without it mlx_primitive_apply has to be told, and
     * graphs that are compiled or exported for any shape serve the traced shapes only. */
    int (*output_shapes)(const void *state, const mlx_vector_array inputs, mlx_output *outputs, size_t outputs_num);

    /* The state as bytes, for files: writes no more than `size` of them, and returns how many there
     * are. A state that is NULL is written as none without being asked for; without this rule no other
     * can be. Files need output_shapes too. */
    size_t (*serialize)(const void *state, void *bytes, size_t size);

    /* A state from such bytes, which may come from anywhere and be anything, also none; NULL where they
     * are bad. Without it the state is NULL. */
    void *(*deserialize)(const void *bytes, size_t size);

    /* Frees a state; on any thread. */
    void (*destroy)(void *state);
};

/* Makes a class known by its name, so that files that use it can be read. A copy is made of it; its
 * functions must stay. Registering the same class again does nothing; another one of the same name is
 * an error. */
MLX_API int mlx_primitive_register(const struct mlx_primitive_class *cls);

/* Whether a class of this name is registered. */
MLX_API int mlx_primitive_is_registered(bool *res, const char *name);

/* The results of a new primitive on these inputs, on a stream (empty: the default one). `outputs` says
 * what they are; NULL: the class's output_shapes does. The state is taken over, also where the call
 * fails (unless the class is for another interface), and destroyed with the last graph that uses it.
 * Registers the class. */
MLX_API int mlx_primitive_apply(mlx_vector_array *res, const struct mlx_primitive_class *cls, void *state,
                                const mlx_vector_array inputs, const mlx_output *outputs, size_t outputs_num,
                                const mlx_stream s);

/* Evaluation: what eval_cpu and eval_gpu may call. Pointers are good until the rule returns. */

/* How many operands and results there are. */
MLX_API size_t mlx_run_num_inputs(const mlx_run run);
MLX_API size_t mlx_run_num_outputs(const mlx_run run);

/* Operand i and result k; NULL past the last. */
MLX_API const mlx_run_array *mlx_run_input(const mlx_run run, size_t i);
MLX_API const mlx_run_array *mlx_run_output(const mlx_run run, size_t k);

/* Gives result k memory: row-major. Its contents are undefined. */
MLX_API int mlx_run_alloc(mlx_run run, size_t k);

/* The same, laid out as operand i, which must have its shape and be contiguous in row-major or
 * column-major order. */
MLX_API int mlx_run_alloc_like(mlx_run run, size_t k, size_t i);

/* The memory of operand i, if nobody else will look at it again and it is row-major, whole, and of as
 * many bytes in as many elements as the result; else new memory. Row-major either way. A rule that fails
 * after this has lost the operand: its results cannot be computed again, and whoever asks for them hears
 * of that failure. Check before. */
MLX_API int mlx_run_alloc_over(mlx_run run, size_t k, size_t i);

/* The stream it runs on, borrowed. */
MLX_API mlx_stream mlx_run_stream(const mlx_run run);

/* Keeps an error, formatted as by printf, for whoever waits for the results. Returns 1. */
MLX_API int mlx_run_error(mlx_run run, const char *format, ...)
#if defined(__GNUC__) || defined(__clang__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* On a GPU: puts the kernel of that name, of a registered library of device code, into the device's queue,
 * over blocks[0] x blocks[1] x blocks[2] blocks of threads[0] x threads[1] x threads[2] threads.  args[i]
 * points at argument i, which is copied.  It runs after the rule has returned. */
MLX_API int mlx_run_launch(mlx_run run, const char *library, const char *kernel, const int blocks[3],
                           const int threads[3], const void *const *args, size_t args_num);

/* Calls fn(ctx, begin, end) over disjoint ranges that cover 0..n, on the threads that the library
 * computes with where n is at least two grains, and returns when all are done. Ranges begin at
 * multiples of `grain`, so that how work is split does not depend on the number of threads. */
MLX_API void mlx_parallel_for(size_t n, size_t grain, void (*fn)(void *ctx, size_t begin, size_t end), void *ctx);

/* Libraries */

/* What a shared library of primitives shows, as the symbol mlx_plugin. */
struct mlx_plugin {
    size_t struct_size;  /* sizeof(struct mlx_plugin) */
    int abi;             /* MLX_PRIMITIVE_ABI */
    const char *version; /* of the library it was compiled with */
    int (*load)(void);   /* registers its classes: 0, or another number after a failure */
};

/* Written once in a shared library: MLX_PLUGIN(load) with int load(void). */
#define MLX_PLUGIN(load)                                                              \
    extern __attribute__((visibility("default"))) const struct mlx_plugin mlx_plugin; \
    const struct mlx_plugin mlx_plugin = { sizeof(struct mlx_plugin), MLX_PRIMITIVE_ABI, MLX_PLUGIN_VERSION, load };

/* The version of this header's library. */
#define MLX_PLUGIN_VERSION "0.32.4"

/* Loads a library, by what its file is: a shared library, whose `load` is called; or the source (.cu) or
 * machine code (.ptx, .cubin, .fatbin) of kernels for CUDA devices, which are kept under `name`. With
 * `path` NULL, lib<name>.so in the folders of the system's loader. The same file may be loaded again
 * under its name; another one of the name is an error. Libraries stay until the process ends. */
MLX_API int mlx_register_library(const char *name, const char *path);

/* What a registered library is. */
typedef enum mlx_library_kind_ {
    MLX_LIBRARY_SHARED,      /* a shared library of primitives */
    MLX_LIBRARY_CUDA_SOURCE, /* .cu: compiled when a device needs it */
    MLX_LIBRARY_CUDA_PTX,    /* .ptx: instructions of a virtual machine, as text */
    MLX_LIBRARY_CUDA_CUBIN,  /* .cubin: machine code for one architecture */
    MLX_LIBRARY_CUDA_FATBIN, /* .fatbin: machine code for several */
} mlx_library_kind;

/* The kind of the library `name` and, for CUDA's, the bytes of its file (followed by a 0, which is not
 * counted; NULL for a shared library); good as long as the process. */
MLX_API int mlx_library_contents(mlx_library_kind *kind, const void **bytes, size_t *size, const char *name);

#ifdef __cplusplus
}
#endif

#endif
