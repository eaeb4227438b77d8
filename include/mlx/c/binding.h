/* binding.h: what the bindings of other languages need beyond the operations.
 *
 * Why the last call failed, dtypes that meet, scalars of a dtype, indexing as NumPy does it.
 * Functions return 0 for success; ownership, results and errors as in array.h. */
#ifndef MLX_C_BINDING_H
#define MLX_C_BINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/device.h"
#include "mlx/c/fft.h"
#include "mlx/c/io_types.h"
#include "mlx/c/map.h"
#include "mlx/c/optional.h"
#include "mlx/c/stream.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors */

/* What kind of failure an error was, for languages that have classes of them. */
typedef enum mlx_error_kind_ {
    MLX_ERROR_NONE,        /* there was none */
    MLX_ERROR_VALUE,       /* a bad argument: shape, dtype, range of a value */
    MLX_ERROR_INDEX,       /* an index outside its axis */
    MLX_ERROR_AXIS,        /* an axis outside the array: a bad value and a bad index */
    MLX_ERROR_TYPE,        /* an argument of the wrong kind */
    MLX_ERROR_MEMORY,      /* no memory for the result */
    MLX_ERROR_NO_FILE,     /* a file, or the folder of a new one, that is not there */
    MLX_ERROR_RUNTIME,     /* everything else: no kernel, a failing file or device */
    MLX_ERROR_INTERRUPTED, /* an evaluation given up because of mlx_stop_when */
    MLX_ERROR_USER,        /* a callback failed, and told about it itself */
} mlx_error_kind;

/* The kind of the last error that was reported on this thread, and its message in `message` (if
 * that is not NULL), which is good until the next error. */
MLX_API mlx_error_kind mlx_last_error(const char **message);

/* Is it about the arguments of a call, whose message a language may begin with its own name for the
 * function?  Else it is about computing something, or about memory. */
MLX_API bool mlx_last_error_of_call(void);

/* The default device of the calling thread alone, which other threads do not see: for languages in which a block of a
 * program has one.  An empty handle stands for none; while there is one, mlx_set_default_device changes it. */
MLX_API int mlx_get_thread_device(mlx_device *res);
MLX_API int mlx_set_thread_device(const mlx_device dev);

/* The next index out of range is warned about again: for languages in which a warning may end as an error. */
MLX_API void mlx_index_warn_again(void);

/* Evaluations of this thread ask `stop` every 50 ms or so, between two operations and while they wait
 * for other threads, and give up with an error of kind MLX_ERROR_INTERRUPTED where it answers true:
 * for languages that take Ctrl-C themselves.  Nothing is lost; arrays that have no value yet get it
 * from a later evaluation.  `stop` cannot evaluate itself, nor wait for another thread that does, whose
 * turn comes after this evaluation's; it may let go of any handle, what is waited for included, and
 * take itself off.  It is asked on this thread alone, so never again once a call that replaced it has
 * returned.  NULL: never asked, as at the start. */
MLX_API int mlx_stop_when(bool (*stop)(void));

/* For languages in which one thread at a time has the right to touch objects.  An evaluation of this thread calls
 * `leave` before it waits for another thread, or works for longer than others need to notice that they may go on:
 * once, and then it is NULL again, as at the start.  Most evaluations of small arrays do not, so they need not give
 * the right away and get it back.  `leave` does not call the library. */
MLX_API int mlx_leave_with(void (*leave)(void *payload), void *payload);

/* Coroutines of one thread may be inside traced functions in turns, and what one of them does is then noted with the
 * trace of another: the graphs of all of them serve only the shapes they were traced with, and they cannot be exported
 * for any.  `inside`, of a language with coroutines, is asked where a trace begins.  It gives in `*site` where the
 * caller is, which stays alive until the trace ends, and tells whether that is inside the call at `outer`, the site of
 * the trace around this one; NULL is around everything.  NULL: not asked, as at the start. */
MLX_API int mlx_traces_take_turns_by(bool (*inside)(void *outer, void **site));

/* Dtypes */

/* The name of a dtype, "float32". */
MLX_API const char *mlx_dtype_name(mlx_dtype dtype);

/* The dtype that operands of two dtypes meet in; 0, which is bool, where one is none. */
MLX_API mlx_dtype mlx_dtype_promote(mlx_dtype a, mlx_dtype b);

/* The dtype that an operand of dtype `a` and a number of the host language meet in, which is of
 * kind 'b'ool, 'i'nteger, 'f'loat or 'c'omplex. */
MLX_API mlx_dtype mlx_dtype_promote_scalar(mlx_dtype a, char kind);

/* 0-d arrays of any dtype.  The value is converted: rounded to nearest, integers wrapped. */

/* From an integer. */
MLX_API int mlx_scalar_int(mlx_array *res, int64_t val, mlx_dtype dtype);

/* From a number. */
MLX_API int mlx_scalar_double(mlx_array *res, double val, mlx_dtype dtype);

/* From a complex number. */
MLX_API int mlx_scalar_complex(mlx_array *res, double real_val, double imag_val, mlx_dtype dtype);

/* Operations that only Python has names for */

/* logsumexp(logits) - logits[target] over the last axis, in float32. */
MLX_API int mlx_fast_cross_entropy(mlx_array *res, const mlx_array logits, const mlx_array targets, const mlx_stream s);

/* The largest of real numbers along the axes, all for NULL, as a number that nothing is differentiated through, and
 * how far logsumexp is above it; in float32 for half types.  Logits of 1e20 differ from their logsumexp by what its
 * rounding swallows, and from the largest of them exactly. */
MLX_API int mlx_logsumexp_parts(mlx_vector_array *res, const mlx_array a, const int *axes, size_t axes_num,
                                bool keepdims, const mlx_stream s);

/* (x - mean) / sqrt(var + eps) * weight + bias for x (items, ..., channels), and the mean and var of each of so many
 * groups of channels in each item, or in all of them (`whole`), of shape (items or 1, groups), in float32 for half
 * types.  Channel c is in group c mod groups, of `neighbours` in group c div (channels / groups); of 0 groups each
 * channel is one.  Null arrays: no weight, no bias. */
MLX_API int mlx_group_norm(mlx_vector_array *res, const mlx_array x, const mlx_array weight, const mlx_array bias,
                           int groups, bool neighbours, bool whole, double eps, const mlx_stream s);

/* A recurrent layer of a kind "rnn", "gru" or "lstm", one step after the other: x (..., steps, gates * units) is what
 * inputs and biases come to, for which h (..., units) @ weights^T is added at each step, weights being (gates * units,
 * units), with 1, 3 and 4 gates: r, z, n and i, f, g, o.  bias (units), of "gru" alone, is added to the third of these
 * products.  The first states, of a "lstm" two, are `hidden` and `cell`, (..., units), or 0 where they are null arrays.
 * Results: the states (..., steps, units), and of a "lstm" the cells. */
MLX_API int mlx_recurrent(mlx_vector_array *res, const char *kind, const mlx_array x, const mlx_array weights,
                          const mlx_array bias, const mlx_array hidden, const mlx_array cell, const mlx_stream s);

/* log(softmax(a)) along the axes, all for NULL. */
MLX_API int mlx_log_softmax(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s);

/* a, an error if it has not the shape of `like`, or not that size along the axis.  A function compiled for any shape
 * asks this in each call, where one that looks at a shape is traced again for every other. */
MLX_API int mlx_alike(mlx_array *res, const mlx_array a, const mlx_array like, const mlx_stream s);
MLX_API int mlx_of_size(mlx_array *res, const mlx_array a, int axis, int size, const mlx_stream s);

/* The parts of a along an axis, without it: a view of each.  A trace for any shape serves as many alone. */
MLX_API int mlx_unstack(mlx_vector_array *res, const mlx_array a, int axis, const mlx_stream s);

/* Whether a function is traced for any shape, and `a` is what another call may give another shape. */
MLX_API bool mlx_of_any_size(const mlx_array a);

/* What is traced serves the shapes at hand alone, because of `why`: a compiled function is traced again for others,
 * and not exported for any shape. */
MLX_API void mlx_sizes_matter(const char *why);

/* The linear attention of gated delta networks: for each step t of q, k (B, T, H, D) and v (B, T, N,
 * E), with N a multiple of H, the state S (B, N, E, D) becomes S' = gamma S, then
 * S' + beta (v - S' k) k^T, and the output is S q.  gamma is (B, T, N) or (B, T, N, D), beta (B, T,
 * N).  `initial_state` and `mask` (B, T), which leaves steps out, may be empty.  Results: the
 * outputs (B, T, N, E) and the last state. */
MLX_API int mlx_fast_gated_delta_update(mlx_vector_array *res, const mlx_array q, const mlx_array k, const mlx_array v,
                                        const mlx_array gamma, const mlx_array beta, const mlx_array initial_state,
                                        const mlx_array mask, const mlx_stream s);

/* Short-time Fourier transform of the last axis: (..., frequencies, frames).  `pad_mode` 0: with
 * zeros, 1: with the elements at the ends, 2: reflected.  `onesided` -1: where x is real. */
MLX_API int mlx_fft_stft(mlx_array *res, const mlx_array x, int n_fft, int hop_length, int win_length,
                         const mlx_array window, bool center, int pad_mode, mlx_fft_norm norm, int onesided,
                         const mlx_stream s);

/* Its inverse; `length` -1: what the frames cover. */
MLX_API int mlx_fft_istft(mlx_array *res, const mlx_array stft_matrix, int n_fft, int hop_length, int win_length,
                          const mlx_array window, bool center, mlx_fft_norm norm, bool onesided, int length,
                          const mlx_stream s);

/* Streams */

/* As mlx_stream_new_device, where a failure leaves the handle as it is. */
MLX_API int mlx_stream_make(mlx_stream *stream, mlx_device dev);

/* Waits for all streams and ends their workers, which come back when they are needed. Default
 * streams stay what they are. */
MLX_API int mlx_clear_streams(void);

/* Looking at arrays */

/* A number that tells the array in a handle from every other one that is alive; 0 for an empty handle.
 * After an update in place a handle holds another array. */
MLX_API uintptr_t mlx_array_id(const mlx_array arr);

/* As mlx_array_tostring, with `precision` digits after the point, of 1074 at most;
 * -1 for six significant digits. */
MLX_API int mlx_array_text(mlx_string *str, const mlx_array arr, int precision);

/* Whether whoever has the array's data pointer may write through it: the memory is the library's
 * own, and no two elements share a place.  Evaluates. */
MLX_API int mlx_array_is_writable(bool *res, const mlx_array arr);
/* Somebody may write through that pointer until mlx_array_take_back: meanwhile a device copies the bytes for every
 * operation that reads them.  Evaluates. */
MLX_API int mlx_array_lend(const mlx_array arr);
MLX_API int mlx_array_take_back(const mlx_array arr);

/* The number of the GPU that alone has an array's elements, which are evaluated; -1: the host has them. */
MLX_API int mlx_array_device(int *gpu, const mlx_array arr);

/* The address of the first element on that GPU, for work queued on `stream` from now on, as the driver names it (NULL:
 * the default one, -1: none); NULL where the host has the elements. Until mlx_array_take_back_on somebody may write
 * there, if `writable`, and the host copies the bytes for every reader. */
MLX_API int mlx_array_lend_on(void **address, int *gpu, int64_t *strides, bool *writable, const mlx_array arr,
                              void *stream);
MLX_API int mlx_array_take_back_on(const mlx_array arr);

/* The number of the GPU whose memory the address is of; -1 where it is none's that the driver knows. */
MLX_API int mlx_gpu_of_address(int *gpu, const void *address);

/* The driver's name of a GPU's stream; NULL for any other. */
MLX_API int mlx_stream_native(void **res, const mlx_stream stream);
/* What is queued on a GPU's stream from now on comes after what is queued on `theirs`, named as above. */
MLX_API int mlx_stream_follow(const mlx_stream stream, void *theirs);

/* An array in the memory of somebody else on the GPU of a stream, whose elements are there for work that is queued on
 * the stream from now on; as mlx_array_new_borrowed.  The owner may write there: the host keeps no copy of it, and
 * `dtor` is called once the work is done that uses it, by any later call that evaluates or waits. */
MLX_API mlx_array mlx_array_new_borrowed_on(const mlx_stream stream, const void *data, const int *shape,
                                            const int64_t *strides, int dim, mlx_dtype dtype, void *payload,
                                            void (*dtor)(void *));
/* A copy that shares memory with nobody, whoever writes where. */
MLX_API int mlx_array_duplicate(mlx_array *res, const mlx_array arr);

/* Indexing.  Between the brackets of a[i, 2:, None, ..., k] stands a list of items. */

/* What an item is. */
typedef enum mlx_index_kind_ {
    MLX_INDEX_INT,      /* `start`; negative ones count from the end */
    MLX_INDEX_SLICE,    /* start:stop:step, where has_start and has_stop say what is there */
    MLX_INDEX_NEWAXIS,  /* a new dimension of size 1 */
    MLX_INDEX_ELLIPSIS, /* all dimensions that the other items leave */
    MLX_INDEX_ARRAY,    /* an array of integers of any dtype, or of bool: its true elements */
} mlx_index_kind;

/* One item, of which the members count that its kind names. */
typedef struct mlx_index_ {
    mlx_index_kind kind; /* what it is */
    bool has_start;      /* whether a slice says where it begins */
    bool has_stop;       /* whether it says where it ends */
    int64_t start;       /* the index, or where the slice begins */
    int64_t stop;        /* the index behind its last */
    int64_t step;        /* its step */
    mlx_array array;     /* the array, which stays the caller's */
} mlx_index;

/* What happens to the element that is there when another one is written to its place. */
typedef enum mlx_fold_ {
    MLX_FOLD_SET,  /* it is replaced */
    MLX_FOLD_ADD,  /* the sum stays */
    MLX_FOLD_PROD, /* the product */
    MLX_FOLD_MAX,  /* the larger */
    MLX_FOLD_MIN,  /* the smaller */
} mlx_fold;

/* a[items], by NumPy's rules.  Arrays of bool are evaluated. */
MLX_API int mlx_getitem(mlx_array *res, const mlx_array a, const mlx_index *items, size_t items_num,
                        const mlx_stream s);

/* a as it is after a[items] = value, or after folding the value into what is there; the value
 * broadcasts to the indexed part and takes a's dtype.  Where an array of bool is the only item its
 * true places take the value's rows in order, of which there may be more; nothing is evaluated if the value is one
 * for all of them, or the array an argument of a function that is being transformed or compiled. */
MLX_API int mlx_setitem(mlx_array *res, const mlx_array a, const mlx_index *items, size_t items_num,
                        const mlx_array value, mlx_fold fold, const mlx_stream s);

/* Variants of operations */

/* As mlx_gather_qmm, with a global scale (mode "nvfp4") for all matrices of w or one for each. */
MLX_API int mlx_gather_qmm_scaled(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array scales,
                                  const mlx_array biases, const mlx_array lhs_indices, const mlx_array rhs_indices,
                                  bool transpose, mlx_optional_int group_size, mlx_optional_int bits, const char *mode,
                                  const mlx_array global_scale, bool sorted_indices, const mlx_stream s);

/* As mlx_qqmm, of the pairs of matrices that indices say, as in mlx_gather_mm. */
MLX_API int mlx_gather_qqmm(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array w_scales,
                            const mlx_array lhs_indices, const mlx_array rhs_indices, mlx_optional_int group_size,
                            mlx_optional_int bits, const char *mode, const mlx_array global_scale_x,
                            const mlx_array global_scale_w, bool sorted_indices, const mlx_stream s);

/* As mlx_linspace; without `endpoint` the numbers are those before the last of num + 1. */
MLX_API int mlx_linspace_endpoint(mlx_array *res, double start, double stop, int num, bool endpoint, mlx_dtype dtype,
                                  const mlx_stream s);

/* As mlx_std and mlx_var along the axes, all for NULL, with a ddof that need not be whole. */
MLX_API int mlx_std_double(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                           double ddof, const mlx_stream s);
MLX_API int mlx_var_double(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                           double ddof, const mlx_stream s);

/* As mlx_fft_fftfreq and mlx_fft_rfftfreq, in any dtype. */
MLX_API int mlx_fft_fftfreq_dtype(mlx_array *res, int n, double d, mlx_dtype dtype, const mlx_stream s);
MLX_API int mlx_fft_rfftfreq_dtype(mlx_array *res, int n, double d, mlx_dtype dtype, const mlx_stream s);

/* As mlx_linalg_svd, without the columns of u and v that belong to no singular value: (..., M, K), (..., K) and
 * (..., K, N), where K is the smaller of M and N. */
MLX_API int mlx_linalg_svd_thin(mlx_vector_array *res, const mlx_array a, const mlx_stream s);

/* As mlx_addmm, with numbers in double precision. */
MLX_API int mlx_addmm_double(mlx_array *res, const mlx_array c, const mlx_array a, const mlx_array b, double alpha,
                             double beta, const mlx_stream s);

/* As the functions of fast.h, with numbers in double precision; NULL for no base. */
MLX_API int mlx_fast_layer_norm_double(mlx_array *res, const mlx_array x, const mlx_array weight, const mlx_array bias,
                                       double eps, const mlx_stream s);
MLX_API int mlx_fast_rms_norm_double(mlx_array *res, const mlx_array x, const mlx_array weight, double eps,
                                     const mlx_stream s);
MLX_API int mlx_fast_rope_double(mlx_array *res, const mlx_array x, int dims, bool traditional, const double *base,
                                 double scale, const mlx_array offset, const mlx_array freqs, const mlx_stream s);
MLX_API int mlx_fast_scaled_dot_product_attention_double(mlx_array *res, const mlx_array queries, const mlx_array keys,
                                                         const mlx_array values, double scale, const char *mask_mode,
                                                         const mlx_array mask_arr, const mlx_array sinks,
                                                         const mlx_stream s);

/* As mlx_nan_to_num, with numbers in double precision; NULL leaves one out. */
MLX_API int mlx_nan_to_num_double(mlx_array *res, const mlx_array a, double nan, const double *posinf,
                                  const double *neginf, const mlx_stream s);

/* Which positions of a convolution there are. */
typedef enum mlx_convolve_mode_ {
    MLX_CONVOLVE_FULL,  /* all where the vectors overlap */
    MLX_CONVOLVE_SAME,  /* as many as the longer has elements */
    MLX_CONVOLVE_VALID, /* those where the shorter fits */
} mlx_convolve_mode;

/* The convolution of two vectors, of which the shorter one is moved over the other. */
MLX_API int mlx_convolve(mlx_array *res, const mlx_array a, const mlx_array v, mlx_convolve_mode mode,
                         const mlx_stream s);

/* Random numbers */

/* The key that the calling thread's next draw without a key splits. */
MLX_API int mlx_random_state(mlx_array *res);

/* Sets it, as to go on from a saved one. */
MLX_API int mlx_random_set_state(const mlx_array key);

/* Products, differences, determinants */

/* The sum over an axis of conj(a) * b. */
MLX_API int mlx_vecdot(mlx_array *res, const mlx_array a, const mlx_array b, int axis, const mlx_stream s);

/* Differences of neighbours along an axis, n times. */
MLX_API int mlx_diff(mlx_array *res, const mlx_array a, int n, int axis, const mlx_stream s);

/* How mlx_einsum goes about it: pairs of places in the list of operands, whose product goes to its
 * end (one place alone where there is one operand); and a text about what that saves. */
MLX_API int mlx_einsum_path(mlx_vector_int *res_0, mlx_string *res_1, const char *subscripts,
                            const mlx_vector_array operands);

/* Determinants of the square matrices in the last two axes. */
MLX_API int mlx_linalg_det(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Their signs (complex: numbers of modulus 1) in `res_0` and the logarithms of their moduli in `res_1`; 0
 * and -infinity for a singular matrix. */
MLX_API int mlx_linalg_slogdet(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s);

/* Order */

/* Where in a sorted vector each value goes so that it stays sorted, before its equals or after, as
 * uint32. */
MLX_API int mlx_searchsorted(mlx_array *res, const mlx_array a, const mlx_array v, bool right, const mlx_stream s);

/* Results whose shape depends on elements.  These evaluate, and fail inside a transform. */

/* The indices of the elements that are not zero: a row for each axis, as int32. */
MLX_API int mlx_nonzero(mlx_array *res, const mlx_array a, const mlx_stream s);

/* Four vectors: the distinct elements in ascending order, the first index of each, for every element
 * of `a` which of them it is, and how often each comes up.  With a size they are cut off or filled up
 * to it, with `fill_value` or else the smallest, and nothing is evaluated. */
MLX_API int mlx_unique(mlx_vector_array *res, const mlx_array a, mlx_optional_int size, const mlx_array fill_value,
                       const mlx_stream s);

/* Files */

/* Reads an archive of npy files, by the names of its entries. */
MLX_API int mlx_load_npz(mlx_map_string_to_array *res, const char *file, const mlx_stream s);

/* The same from a reader. */
MLX_API int mlx_load_npz_reader(mlx_map_string_to_array *res, mlx_io_reader in_stream, const mlx_stream s);

/* The keys of the values of a gguf file, in the order of the file. */
MLX_API int mlx_io_gguf_get_metadata_keys(mlx_vector_string *keys, mlx_io_gguf io);

/* mlx_load_gguf, where `packed` keeps what would become float16 as the bytes that it is, a row of blocks
 * as a row of uint8. */
MLX_API int mlx_load_gguf_as(mlx_io_gguf *gguf, const char *file, bool packed, const mlx_stream s);

/* The same from a reader. */
MLX_API int mlx_load_gguf_reader(mlx_io_gguf *gguf, mlx_io_reader in_stream, bool packed, const mlx_stream s);

/* mlx_save_gguf to a writer. */
MLX_API int mlx_save_gguf_writer(mlx_io_writer out_stream, mlx_io_gguf gguf);

#ifdef __cplusplus
}
#endif

#endif
