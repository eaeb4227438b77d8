/* ops.h: the graph builders.  They take and return borrowed arrays, so expressions read as maths.
 *
 * Every builder checks its arguments, fails as "[name] what was expected, what arrived", and gives
 * MX_NIL back when given it. */
#ifndef MX_OPS_OPS_H
#define MX_OPS_OPS_H

#include "core/array.h"

#define UNARY(name, ...) mx mx_##name(mx a);
#define BINARY(name, ...) mx mx_##name(mx a, mx b);
#include "ops/ops.def"

/* Element-wise (ops/elementwise.c) */
mx mx_astype(mx x, enum dtype t);
mx mx_where(mx condition, mx x, mx y);
mx mx_clip(mx x, mx low, mx high); /* NULL: no bound */
mx mx_round(mx x, int decimals);
mx mx_isnan(mx x);
mx mx_isinf(mx x);
mx mx_isfinite(mx x);
mx mx_isposinf(mx x);
mx mx_isneginf(mx x);
/* sqrt with the derivative 0 at 0, which for a norm is one of its subgradients. */
mx mx_root(mx x);
mx mx_reciprocal(mx x);
mx mx_degrees(mx x);
mx mx_radians(mx x);
mx mx_isclose(mx a, mx b, double rtol, double atol, bool equal_nan);
mx mx_allclose(mx a, mx b, double rtol, double atol, bool equal_nan);
mx mx_array_equal(mx a, mx b, bool equal_nan);
mx mx_stop_gradient(mx x);
mx mx_copy(mx x);
mx mx_contiguous(mx x, bool allow_col_major);
mx mx_duplicate(mx x); /* row-major, in memory of its own whoever else has x */
mx mx_nan_to_num(mx x, double nan, const double *posinf, const double *neginf);
void mx_divmod(mx a, mx b, mx out[2]);
/* 0-d constants of like's dtype */
mx mx_scalar_like(double v, mx like);

/* Sizes that a result is to have.  What a builder or rule takes from its operands' shapes goes into the
 * graph through these: while one for any shape is traced (op.h), such a size is that of an axis of an
 * array (`of`), whatever that is when the graph is called.  Elsewhere, and where it is known, of is NULL. */
struct size {
    mx of;
    int now, axis;
};
struct size size_is(int n);
struct size size_of(mx x, int axis);
int sizes_like(mx x, struct size out[]);                  /* of all axes; how many */
mx mx_reshape_by(mx x, int n, const struct size sizes[]); /* one may be -1 */
mx mx_reshape_like(mx x, mx like);
mx mx_unflatten_by(mx x, int axis, int n, const struct size sizes[]);
mx mx_broadcast_by(mx x, int n, const struct size sizes[]);
mx mx_broadcast_like(mx x, mx like);
/* x, of the shape of `like`: a graph for any shape does not serve operands for which it is another. */
mx mx_shape_checked(mx x, mx like);
/* The same with the sizes that x is to have. */
mx mx_sizes_checked(mx x, int n, const struct size sizes[]);
/* x; nor does it serve those of another size along the axis. */
mx mx_size_checked(mx x, int axis);

/* Shape (ops/shape.c) */
mx mx_broadcast_to(mx x, int ndim, const int *shape);
bool mx_broadcast(int n, mx x[]); /* all to their common shape, in place */
/* x[0] broadcast with the shapes of all n, but for `axes` (negative), where it keeps its own size.
 * While tracing, the result follows the shapes of later operands too. */
mx mx_broadcast_with(int n, const mx x[], const int *axes, int n_axes);
mx mx_reshape(mx x, int ndim, const int *shape); /* one size may be -1 */
bool sizes_were_given(const struct node *n);     /* is it a reshape to what the program said? */
bool is_matrix_transpose(mx x);                  /* do columns of its matrices lie as rows of another array? */
mx mx_flatten(mx x, int start, int end);
mx mx_unflatten(mx x, int axis, int ndim, const int *shape);
mx mx_transpose(mx x, const int *axes, int n); /* NULL: reversed */
mx mx_swapaxes(mx x, int a, int b);
mx mx_moveaxis(mx x, int from, int to);
mx mx_expand_dims(mx x, const int *axes, int n);
mx mx_squeeze(mx x, const int *axes, int n); /* NULL: every axis of size 1 */
mx mx_slice(mx x, const int *start, const int *stop,
            const int *step);                                    /* ndim each, NumPy's rules; steps may be negative */
mx mx_slice_axis(mx x, int axis, int start, int stop, int step); /* of one axis, which may count from the end */
enum { TO_END = INT32_MAX, TO_START = INT32_MIN }; /* as a stop, for a positive or a negative step: all there is */
bool mx_slice_sizes(mx x, const int *start, const int *stop, const int *step, struct size sizes[]);
mx mx_slice_update(mx x, mx update, const int *start, const int *stop, const int *step);
enum scatter_fold { SCATTER_SET, SCATTER_ADD, SCATTER_PROD, SCATTER_MAX, SCATTER_MIN };
mx mx_slice_update_fold(mx x, mx update, const int *start, const int *stop, const int *step, enum scatter_fold f);
mx mx_slice_dynamic(mx x, mx start, const int *axes, int n, const int *sizes); /* sizes: ndim */
mx mx_slice_update_dynamic(mx x, mx update, mx start, const int *axes, int n);
mx mx_concatenate(int n, const mx x[], int axis);
mx mx_stack(int n, const mx x[], int axis);
int mx_split_size(mx x, int sections, int axis); /* of each equal part; -1 after a failure */
/* Writes the parts to out and returns their number; sections: equal parts; -1 after a failure. */
int mx_split(mx x, int sections, int axis, mx *out);                 /* out: sections */
int mx_split_at(mx x, const int *indices, int n, int axis, mx *out); /* out: n + 1 */
enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC };
mx mx_pad(mx x, const int *axes, int n, const int *low, const int *high, mx value, enum pad_mode mode);
mx mx_view(mx x, enum dtype t);
mx mx_as_strided(mx x, int ndim, const int *shape, const int64_t *strides, int64_t offset);
/* y: the n arrays x, which are not computed before the n_on others are; false after a failure */
bool mx_depends(int n, const mx x[], int n_on, const mx on[], mx y[]);
mx mx_full(int ndim, const int *shape, mx value, enum dtype t);
mx mx_zeros(int ndim, const int *shape, enum dtype t);
mx mx_ones(int ndim, const int *shape, enum dtype t);
mx mx_full_like(mx x, mx value, enum dtype t);
mx mx_zeros_like(mx x);
mx mx_ones_like(mx x);
mx mx_arange(double start, double stop, double step, enum dtype t);
mx mx_arange_by(int n, const struct size sizes[], enum dtype t); /* 0, 1, ...: as many as their product */
mx mx_linspace(double start, double stop, int num, bool endpoint, enum dtype t);
mx mx_eye(int n, int m, int k, enum dtype t);
mx mx_tri(int n, int m, int k, enum dtype t);
mx mx_eye_by(struct size n, struct size m, int k, enum dtype t);
mx mx_tril(mx x, int k);
mx mx_triu(mx x, int k);
mx mx_number_of_elements(mx x, const int *axes, int n, bool inverted, enum dtype t);

/* Reductions (ops/reduce.c); axes NULL: all */
enum fold { FOLD_SUM, FOLD_PROD, FOLD_MIN, FOLD_MAX, FOLD_ALL, FOLD_ANY };
mx mx_reduce(mx x, enum fold f, const int *axes, int n, bool keepdims);
mx mx_sum(mx x, const int *axes, int n, bool keepdims);
mx mx_prod(mx x, const int *axes, int n, bool keepdims);
mx mx_min(mx x, const int *axes, int n, bool keepdims);
mx mx_max(mx x, const int *axes, int n, bool keepdims);
mx mx_all(mx x, const int *axes, int n, bool keepdims);
mx mx_any(mx x, const int *axes, int n, bool keepdims);
mx mx_mean(mx x, const int *axes, int n, bool keepdims);
mx mx_var(mx x, const int *axes, int n, bool keepdims, double ddof);
mx mx_std(mx x, const int *axes, int n, bool keepdims, double ddof);
mx mx_logsumexp(mx x, const int *axes, int n, bool keepdims);
/* The largest of real numbers along the axes, which nothing is differentiated through, and how far logsumexp is above
 * it: logsumexp itself, rounded, no longer says where the numbers are large.  In float32 for half types. */
void mx_logsumexp_parts(mx x, const int *axes, int n, bool keepdims, mx out[2]);
mx mx_log_softmax(mx x, const int *axes, int n);
mx mx_softmax(mx x, const int *axes, int n, bool precise);
enum arg_fold { ARG_MIN, ARG_MAX };
mx mx_arg_reduce(mx x, enum arg_fold f, int axis, bool keepdims); /* uint32 */
mx mx_arg_reduce_all(mx x, enum arg_fold f, bool keepdims);
/* Sums x over the axes that broadcasting to x's shape from that of `like` added or stretched. */
mx mx_sum_to_like(mx x, mx like);

/* Matrix products (ops/matmul.c) */
mx mx_matmul(mx a, mx b);
mx mx_addmm(mx c, mx a, mx b, double alpha, double beta);

/* Convolution (ops/conv.c); lists have one number for each of n spatial axes. */
struct conv {
    int n;
    const int *stride, *low, *high, *dilation, *input_dilation;
    int groups;
    bool flip;
};
mx mx_conv(const char *op, mx x, mx w, const struct conv *g); /* op: for messages */
/* high and input_dilation are not looked at */
mx mx_conv_transpose(const char *op, mx x, mx w, const struct conv *g, const int *output_padding);
enum conv_mode { CONV_FULL, CONV_SAME, CONV_VALID };
mx mx_convolve(mx a, mx v, enum conv_mode mode);
/* Products of some matrices (ops/special_products.c).  Indices are flat numbers of matrices in a
 * batch; NULL: all of them in order. */
mx mx_gather_mm(mx a, mx b, mx lhs, mx rhs);
/* y[rhs[p]] += a[la[p]]^T c[lc[p]], for a y of the batch of `like` */
mx mx_scatter_mm(mx a, mx c, mx la, mx lc, mx rhs, mx like);
mx mx_segmented_mm(mx a, mx b, mx segments);
mx mx_block_masked_mm(mx a, mx b, int size, mx out, mx lhs, mx rhs); /* masks may be NULL */
mx mx_hadamard_transform(mx x, const double *scale);                 /* NULL: 1 / sqrt(n) */
/* For rules of operations that gather matrices: 0, 1, ... in the shape of x's first n axes; the two arrays
 * of indices made ready; indices of a batch of examples, into the matrices of x, which has the
 * examples in front (NULL: x is not batched), with the examples in front; and what is the sum, at each
 * index, of the matrices of y, in the shape of `like`. */
mx mx_flat_places(mx x, int n);
bool mx_gather_indices(const char *op, mx a, mx b, mx *lhs, mx *rhs);
mx mx_batched_places(mx index, int axis, struct size n, mx x);
mx mx_add_matrices(mx y, mx index, mx like);

/* Packed weights (ops/quantize.c).  Biases belong to mode affine, a global scale to nvfp4; both may be
 * NULL.  quantize gives the number of its results, or -1 after a failure. */
enum { QUANT_USUAL = INT32_MIN }; /* as group_size or bits: what is usual in the mode */
int mx_quantize(mx w, int group_size, int bits, const char *mode, mx global, mx out[3]);
mx mx_dequantize(mx w, mx scales, mx biases, int group_size, int bits, const char *mode, mx global,
                 const enum dtype *t); /* NULL: that of the scales, else bfloat16 */
mx mx_quantized_matmul(mx x, mx w, mx scales, mx biases, bool transpose, int group_size, int bits, const char *mode);
mx mx_gather_qmm(mx x, mx w, mx scales, mx biases, mx lhs, mx rhs, bool transpose, int group_size, int bits,
                 const char *mode, mx global);
/* Both sides quantized; scales NULL: w is not packed. */
mx mx_qqmm(mx x, mx w, mx scales, int group_size, int bits, const char *mode, mx gx, mx gw);
mx mx_gather_qqmm(mx x, mx w, mx scales, mx lhs, mx rhs, int group_size, int bits, const char *mode, mx gx, mx gw);
mx mx_to_fp8(mx x); /* e4m3 */
mx mx_from_fp8(mx x, enum dtype t);

/* Indexing (ops/index.c).  Index arrays may be negative; what is out of range is known when they are evaluated. */
mx mx_take(mx x, mx indices, int axis);
mx mx_take_flat(mx x, mx indices);
mx mx_take_along_axis(mx x, mx indices, int axis);
mx mx_put_along_axis(mx x, mx indices, mx values, int axis);
mx mx_masked_scatter(mx x, mx mask, mx from);
/* Where the mask is true, how many places were before it along the axis; before the first one 0. */
mx mx_mask_order(mx mask, int axis);
/* x indexed at n axes by n index arrays that broadcast together; slice_sizes has x->ndim entries.
 * Result: shape of the indices, then slice_sizes. */
mx mx_gather(mx x, const mx indices[], const int *axes, int n, const int *slice_sizes);
/* The reverse: updates has the shape of the indices, then a slice of x. */
mx mx_scatter(mx x, const mx indices[], const int *axes, int n, mx updates, enum scatter_fold f);
mx mx_scatter_add_axis(mx x, mx indices, mx values, int axis);
/* a + b, of one shape and type, for derivatives: without the zeros that what was read at some places comes with. */
mx mx_add_cotangents(mx a, mx b);

/* Orders (ops/sort.c): stable, NaN last.  _flat: of all elements. */
mx mx_sort(mx x, int axis);
mx mx_sort_flat(mx x);
mx mx_argsort(mx x, int axis); /* uint32 */
mx mx_argsort_flat(mx x);
mx mx_partition(mx x, int kth, int axis);
mx mx_partition_flat(mx x, int kth);
mx mx_argpartition(mx x, int kth, int axis); /* uint32 */
mx mx_argpartition_flat(mx x, int kth);
mx mx_topk(mx x, int k, int axis); /* ascending */
mx mx_topk_flat(mx x, int k);
mx mx_median(mx x, const int *axes, int n, bool keepdims);
mx mx_searchsorted(mx sorted, mx values, bool right); /* uint32 */
/* The distinct elements of x, the first index of each, for every element of x which of them it is
 * (uint32 both), and how often each comes up (int32); cut off or filled up to `size` with `fill`
 * (NULL: with the smallest). */
void mx_unique(mx x, int size, mx fill, mx out[4]);
mx mx_unique_count(mx x);
/* (ndim, count) int32: where the elements are that are not zero, of which there are `count`. */
mx mx_nonzero(mx x, int64_t count);

/* Running folds (ops/scan.c) */
enum scan_fold { SCAN_SUM, SCAN_PROD, SCAN_MIN, SCAN_MAX, SCAN_LOGSUMEXP };
mx mx_scan(mx x, enum scan_fold f, int axis, bool reverse, bool inclusive);
mx mx_cumsum(mx x, int axis, bool reverse, bool inclusive);

/* Made of others (ops/compose.c) */
mx mx_tensordot(mx a, mx b, const int *axes_a, int n_a, const int *axes_b, int n_b);
mx mx_tensordot_axis(mx a, mx b, int n);                   /* the last n axes of a with the first n of b */
mx mx_einsum(const char *subscripts, int n, const mx x[]); /* ops/einsum.c */
mx mx_inner(mx a, mx b);
mx mx_outer(mx a, mx b);
mx mx_kron(mx a, mx b);
mx mx_vecdot(mx a, mx b, int axis);
mx mx_repeat(mx x, int repeats, int axis);
mx mx_repeat_flat(mx x, int repeats);
mx mx_tile(mx x, const int *reps, int n);
mx mx_roll(mx x, const int *shift, int n_shift, const int *axes, int n); /* axes NULL: flattened */
mx mx_roll_by(mx x, mx by, int axis);                                    /* by a number in an array */
bool mx_meshgrid(int n, const mx x[], bool sparse, bool xy, mx y[]);
mx mx_diagonal(mx x, int offset, int axis1, int axis2);
mx mx_diag(mx x, int k);
mx mx_trace(mx x, int offset, int axis1, int axis2, enum dtype t);
mx mx_diff(mx x, int n, int axis);
mx mx_bartlett(int n);
mx mx_hanning(int n);
mx mx_hamming(int n);
mx mx_blackman(int n);

/* Linear algebra (ops/linalg*.c), of the last two axes */
enum svd_mode { SVD_VALUES, SVD_THIN, SVD_FULL };                    /* out: s alone, or u, s and the adjoint of v */
mx mx_norm(mx x, double ord, const int *axes, int n, bool keepdims); /* axes NULL: all, one or two */
mx mx_norm_l2(mx x, const int *axes, int n, bool keepdims);          /* axes NULL: all */
mx mx_norm_named(mx x, const char *ord, const int *axes, int n, bool keepdims); /* "fro", "nuc" */
mx mx_cross(mx a, mx b, int axis);
mx mx_inv(mx x);
mx mx_tri_inv(mx x, bool upper);
mx mx_cholesky(mx x, bool upper);
mx mx_cholesky_inv(mx x, bool upper); /* of the matrix whose factor x is */
mx mx_pinv(mx x);
mx mx_solve(mx a, mx b);
mx mx_solve_triangular(mx a, mx b, bool upper);
mx mx_det(mx x);
void mx_slogdet(mx x, mx out[2]);   /* sign, log of the modulus */
void mx_qr(mx x, mx out[2]);        /* the reduced form */
void mx_lu(mx x, mx out[3]);        /* p, l, u with x = l[p] u */
void mx_lu_factor(mx x, mx out[2]); /* both factors in one matrix, exchanges of rows */
void mx_svd(mx x, enum svd_mode mode, mx out[3]);
void mx_eigh(mx x, const char *uplo, mx out[2]); /* ascending values, vectors */
mx mx_eigvalsh(mx x, const char *uplo);
void mx_eig(mx x, mx out[2]);
mx mx_eigvals(mx x);

/* Random (ops/random.c); key: two uint32 or NULL for the global state */
mx mx_random_key(uint64_t seed);
void mx_random_seed(uint64_t seed);
mx mx_random_split(mx key, int num);           /* (num, 2) after the batch axes of the key */
void mx_random_split_pair(mx key, mx pair[2]); /* each of the key's shape */
mx mx_random_bits(int ndim, const int *shape, int width, mx key);
mx mx_random_uniform(mx low, mx high, int ndim, const int *shape, enum dtype t, mx key);
mx mx_random_normal(int ndim, const int *shape, enum dtype t, mx loc, mx scale, mx key); /* loc, scale may be NULL */
mx mx_random_bernoulli(mx p, int ndim, const int *shape, mx key);                        /* ndim -1: p's shape */
mx mx_random_randint(mx low, mx high, int ndim, const int *shape, enum dtype t, mx key);
mx mx_random_truncated_normal(mx lower, mx upper, int ndim, const int *shape, enum dtype t, mx key);
mx mx_random_gumbel(int ndim, const int *shape, enum dtype t, mx key);
mx mx_random_categorical(mx logits, int axis, int ndim, const int *shape, mx key); /* ndim -1: one draw a row */
mx mx_random_categorical_n(mx logits, int axis, int num_samples, mx key);
mx mx_random_multivariate_normal(mx mean, mx cov, int ndim, const int *shape, enum dtype t, mx key);
mx mx_random_permutation_arange(int n, mx key); /* uint32 */
mx mx_random_permutation(mx x, int axis, mx key);
mx mx_random_laplace(int ndim, const int *shape, enum dtype t, double loc, double scale, mx key);

/* Normalization and rotation of rows (ops/fast.c); weight, bias, freqs may be NULL */
mx mx_rms_norm(mx x, mx weight, double eps);
mx mx_layer_norm(mx x, mx weight, mx bias, double eps);
/* Of (items, ..., channels), channels in groups: y, and means and variances of shape (items or 1, groups)
 * (ops/group_norm.c). */
void mx_group_norm(mx x, mx weight, mx bias, int groups, bool neighbours, bool whole, double eps, mx y[3]);
mx mx_rope(mx x, int dims, bool traditional, const double *base, double scale, mx offset, mx freqs);
mx mx_cross_entropy(mx logits, mx targets);
/* ops/delta.c; state and mask may be NULL; y: outputs and the last state */
void mx_gated_delta(mx q, mx k, mx v, mx gamma, mx beta, mx state, mx mask, mx y[2]);
/* Recurrent layers, kind "rnn", "gru" or "lstm" (ops/recurrent.c); bias, hidden and cell may be NULL; y: all hidden
 * states, and the cells of a LSTM */
void mx_recurrent(const char *kind, mx x, mx w, mx bias, mx hidden, mx cell, mx y[2]);
/* softmax(scale q k^T + mask) v (ops/attention.c); mask and sinks may be NULL */
mx mx_attention(mx q, mx k, mx v, double scale, bool causal, mx mask, mx sinks);

/* Fourier transforms (ops/fft.c); sizes, axes and window may be NULL */
enum fft_kind { FFT_COMPLEX, FFT_REAL, FFT_HERMITIAN };
enum fft_norm { FFT_BACKWARD, FFT_ORTHO, FFT_FORWARD };
mx mx_fftn(mx x, enum fft_kind kind, bool inverse, const int *sizes, int n_sizes, const int *axes, int n_axes,
           enum fft_norm norm);
mx mx_fftshift(mx x, const int *axes, int n, bool back);
mx mx_fftfreq(int n, double d, bool half, enum dtype t);
mx mx_stft(mx x, int n_fft, int hop, int win_length, mx window, bool center, enum pad_mode mode, enum fft_norm norm,
           int onesided); /* onesided -1: where x is real */
mx mx_istft(mx x, int n_fft, int hop, int win_length, mx window, bool center, enum fft_norm norm, bool onesided,
            int length); /* length -1: what the frames cover */

#endif
