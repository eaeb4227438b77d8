/* pending.c: weak stand-ins for operations that are not written yet; a real definition wins. */
#include "cpu/run.h"
#include "ops/ops.h"

#define WEAK __attribute__((weak))

#define OTHER(id_, ...) WEAK int run_##id_(const struct run *r) { mx_fail("[%s] has no kernel yet", r->node->op->name); return 1; }
#include "ops/ops.def"

WEAK const struct op op_broadcast = { .id = OP_broadcast, .name = "broadcast", .label = "Broadcast", .traits = VIEW };
WEAK const struct op op_reshape = { .id = OP_reshape, .name = "reshape", .label = "Reshape", .traits = VIEW };
WEAK const struct op op_transpose = { .id = OP_transpose, .name = "transpose", .label = "Transpose", .traits = VIEW };
WEAK const struct op op_expand_dims = { .id = OP_expand_dims, .name = "expand_dims", .label = "ExpandDims", .traits = VIEW };
WEAK const struct op op_squeeze = { .id = OP_squeeze, .name = "squeeze", .label = "Squeeze", .traits = VIEW };
WEAK const struct op op_slice = { .id = OP_slice, .name = "slice", .label = "Slice", .traits = VIEW };
WEAK const struct op op_view = { .id = OP_view, .name = "view", .label = "View", .traits = VIEW };
WEAK const struct op op_as_strided = { .id = OP_as_strided, .name = "as_strided", .label = "AsStrided", .traits = VIEW };
WEAK const struct op op_split = { .id = OP_split, .name = "split", .label = "Split", .traits = VIEW };
WEAK const struct op op_concatenate = { .id = OP_concatenate, .name = "concatenate", .label = "Concatenate", .traits = 0 };
WEAK const struct op op_pad = { .id = OP_pad, .name = "pad", .label = "Pad", .traits = 0 };
WEAK const struct op op_slice_update = { .id = OP_slice_update, .name = "slice_update", .label = "SliceUpdate", .traits = IN_PLACE };
WEAK const struct op op_arange = { .id = OP_arange, .name = "arange", .label = "Arange", .traits = 0 };
WEAK const struct op op_linspace = { .id = OP_linspace, .name = "linspace", .label = "Linspace", .traits = 0 };
WEAK const struct op op_eye = { .id = OP_eye, .name = "eye", .label = "Eye", .traits = 0 };
WEAK const struct op op_number_of_elements = { .id = OP_number_of_elements, .name = "number_of_elements", .label = "NumberOfElements", .traits = 0 };
WEAK const struct op op_gather = { .id = OP_gather, .name = "gather", .label = "Gather", .traits = 0 };
WEAK const struct op op_gather_axis = { .id = OP_gather_axis, .name = "gather_axis", .label = "GatherAxis", .traits = 0 };
WEAK const struct op op_scatter = { .id = OP_scatter, .name = "scatter", .label = "Scatter", .traits = IN_PLACE };
WEAK const struct op op_scatter_axis = { .id = OP_scatter_axis, .name = "scatter_axis", .label = "ScatterAxis", .traits = IN_PLACE };
WEAK const struct op op_dynamic_slice = { .id = OP_dynamic_slice, .name = "dynamic_slice", .label = "DynamicSlice", .traits = 0 };
WEAK const struct op op_dynamic_slice_update = { .id = OP_dynamic_slice_update, .name = "dynamic_slice_update", .label = "DynamicSliceUpdate", .traits = IN_PLACE };
WEAK const struct op op_reduce = { .id = OP_reduce, .name = "reduce", .label = "Reduce", .traits = 0 };
WEAK const struct op op_arg_reduce = { .id = OP_arg_reduce, .name = "arg_reduce", .label = "ArgReduce", .traits = 0 };
WEAK const struct op op_softmax = { .id = OP_softmax, .name = "softmax", .label = "Softmax", .traits = IN_PLACE };
WEAK const struct op op_logsumexp = { .id = OP_logsumexp, .name = "logsumexp", .label = "LogSumExp", .traits = 0 };
WEAK const struct op op_matmul = { .id = OP_matmul, .name = "matmul", .label = "Matmul", .traits = 0 };
WEAK const struct op op_addmm = { .id = OP_addmm, .name = "addmm", .label = "AddMM", .traits = 0 };
WEAK const struct op op_random_bits = { .id = OP_random_bits, .name = "random_bits", .label = "RandomBits", .traits = RANDOM };
#pragma GCC diagnostic ignored "-Wunused-parameter"
WEAK mx mx_broadcast_to(mx x, int ndim, const int *shape) { return mx_fail("[mx_broadcast_to] is not there yet"); }
WEAK bool mx_broadcast(int n, mx x[]) { mx_fail("[mx_broadcast] is not there yet"); return false; }
WEAK mx mx_reshape(mx x, int ndim, const int *shape) { return mx_fail("[mx_reshape] is not there yet"); }
WEAK mx mx_flatten(mx x, int start, int end) { return mx_fail("[mx_flatten] is not there yet"); }
WEAK mx mx_unflatten(mx x, int axis, int ndim, const int *shape) { return mx_fail("[mx_unflatten] is not there yet"); }
WEAK mx mx_transpose(mx x, const int *axes, int n) { return mx_fail("[mx_transpose] is not there yet"); }
WEAK mx mx_swapaxes(mx x, int a, int b) { return mx_fail("[mx_swapaxes] is not there yet"); }
WEAK mx mx_moveaxis(mx x, int from, int to) { return mx_fail("[mx_moveaxis] is not there yet"); }
WEAK mx mx_expand_dims(mx x, const int *axes, int n) { return mx_fail("[mx_expand_dims] is not there yet"); }
WEAK mx mx_squeeze(mx x, const int *axes, int n) { return mx_fail("[mx_squeeze] is not there yet"); }
WEAK mx mx_slice(mx x, const int *start, const int *stop, const int *step) { return mx_fail("[mx_slice] is not there yet"); }
WEAK mx mx_slice_update(mx x, mx update, const int *start, const int *stop, const int *step) { return mx_fail("[mx_slice_update] is not there yet"); }
WEAK mx mx_slice_update_fold(mx x, mx update, const int *start, const int *stop, const int *step, enum scatter_fold f) { return mx_fail("[mx_slice_update_fold] is not there yet"); }
WEAK mx mx_slice_dynamic(mx x, mx start, const int *axes, int n, const int *sizes) { return mx_fail("[mx_slice_dynamic] is not there yet"); }
WEAK mx mx_slice_update_dynamic(mx x, mx update, mx start, const int *axes, int n) { return mx_fail("[mx_slice_update_dynamic] is not there yet"); }
WEAK mx mx_concatenate(int n, const mx x[], int axis) { return mx_fail("[mx_concatenate] is not there yet"); }
WEAK mx mx_stack(int n, const mx x[], int axis) { return mx_fail("[mx_stack] is not there yet"); }
WEAK int mx_split(mx x, int sections, int axis, mx *out) { mx_fail("[mx_split] is not there yet"); return -1; }
WEAK int mx_split_at(mx x, const int *indices, int n, int axis, mx *out) { mx_fail("[mx_split_at] is not there yet"); return -1; }
WEAK mx mx_pad(mx x, const int *axes, int n, const int *low, const int *high, mx value, enum pad_mode mode) { return mx_fail("[mx_pad] is not there yet"); }
WEAK mx mx_view(mx x, enum dtype t) { return mx_fail("[mx_view] is not there yet"); }
WEAK mx mx_as_strided(mx x, int ndim, const int *shape, const int64_t *strides, int64_t offset) { return mx_fail("[mx_as_strided] is not there yet"); }
WEAK mx mx_full(int ndim, const int *shape, mx value, enum dtype t) { return mx_fail("[mx_full] is not there yet"); }
WEAK mx mx_zeros(int ndim, const int *shape, enum dtype t) { return mx_fail("[mx_zeros] is not there yet"); }
WEAK mx mx_ones(int ndim, const int *shape, enum dtype t) { return mx_fail("[mx_ones] is not there yet"); }
WEAK mx mx_zeros_like(mx x) { return mx_fail("[mx_zeros_like] is not there yet"); }
WEAK mx mx_ones_like(mx x) { return mx_fail("[mx_ones_like] is not there yet"); }
WEAK mx mx_arange(double start, double stop, double step, enum dtype t) { return mx_fail("[mx_arange] is not there yet"); }
WEAK mx mx_linspace(double start, double stop, int num, bool endpoint, enum dtype t) { return mx_fail("[mx_linspace] is not there yet"); }
WEAK mx mx_eye(int n, int m, int k, enum dtype t) { return mx_fail("[mx_eye] is not there yet"); }
WEAK mx mx_tri(int n, int m, int k, enum dtype t) { return mx_fail("[mx_tri] is not there yet"); }
WEAK mx mx_tril(mx x, int k) { return mx_fail("[mx_tril] is not there yet"); }
WEAK mx mx_triu(mx x, int k) { return mx_fail("[mx_triu] is not there yet"); }
WEAK mx mx_number_of_elements(mx x, const int *axes, int n, bool inverted, enum dtype t) { return mx_fail("[mx_number_of_elements] is not there yet"); }
WEAK mx mx_reduce(mx x, enum fold f, const int *axes, int n, bool keepdims) { return mx_fail("[mx_reduce] is not there yet"); }
WEAK mx mx_sum(mx x, const int *axes, int n, bool keepdims) { return mx_fail("[mx_sum] is not there yet"); }
WEAK mx mx_prod(mx x, const int *axes, int n, bool keepdims) { return mx_fail("[mx_prod] is not there yet"); }
WEAK mx mx_min(mx x, const int *axes, int n, bool keepdims) { return mx_fail("[mx_min] is not there yet"); }
WEAK mx mx_max(mx x, const int *axes, int n, bool keepdims) { return mx_fail("[mx_max] is not there yet"); }
WEAK mx mx_all(mx x, const int *axes, int n, bool keepdims) { return mx_fail("[mx_all] is not there yet"); }
WEAK mx mx_any(mx x, const int *axes, int n, bool keepdims) { return mx_fail("[mx_any] is not there yet"); }
WEAK mx mx_mean(mx x, const int *axes, int n, bool keepdims) { return mx_fail("[mx_mean] is not there yet"); }
WEAK mx mx_var(mx x, const int *axes, int n, bool keepdims, int ddof) { return mx_fail("[mx_var] is not there yet"); }
WEAK mx mx_std(mx x, const int *axes, int n, bool keepdims, int ddof) { return mx_fail("[mx_std] is not there yet"); }
WEAK mx mx_logsumexp(mx x, const int *axes, int n, bool keepdims) { return mx_fail("[mx_logsumexp] is not there yet"); }
WEAK mx mx_softmax(mx x, const int *axes, int n, bool precise) { return mx_fail("[mx_softmax] is not there yet"); }
WEAK mx mx_arg_reduce(mx x, enum arg_fold f, int axis, bool keepdims) { return mx_fail("[mx_arg_reduce] is not there yet"); }
WEAK mx mx_arg_reduce_all(mx x, enum arg_fold f, bool keepdims) { return mx_fail("[mx_arg_reduce_all] is not there yet"); }
WEAK mx mx_sum_to(mx x, int ndim, const int *shape) { return mx_fail("[mx_sum_to] is not there yet"); }
WEAK mx mx_matmul(mx a, mx b) { return mx_fail("[mx_matmul] is not there yet"); }
WEAK mx mx_addmm(mx c, mx a, mx b, double alpha, double beta) { return mx_fail("[mx_addmm] is not there yet"); }
WEAK mx mx_take(mx x, mx indices, int axis) { return mx_fail("[mx_take] is not there yet"); }
WEAK mx mx_take_flat(mx x, mx indices) { return mx_fail("[mx_take_flat] is not there yet"); }
WEAK mx mx_take_along_axis(mx x, mx indices, int axis) { return mx_fail("[mx_take_along_axis] is not there yet"); }
WEAK mx mx_put_along_axis(mx x, mx indices, mx values, int axis) { return mx_fail("[mx_put_along_axis] is not there yet"); }
WEAK mx mx_gather(mx x, const mx indices[], const int *axes, int n, const int *slice_sizes) { return mx_fail("[mx_gather] is not there yet"); }
WEAK mx mx_scatter(mx x, const mx indices[], const int *axes, int n, mx updates, enum scatter_fold f) { return mx_fail("[mx_scatter] is not there yet"); }
WEAK mx mx_scatter_add_axis(mx x, mx indices, mx values, int axis) { return mx_fail("[mx_scatter_add_axis] is not there yet"); }
WEAK mx mx_random_key(uint64_t seed) { return mx_fail("[mx_random_key] is not there yet"); }
WEAK void mx_random_seed(uint64_t seed) {  }
WEAK mx mx_random_split(mx key, int num) { return mx_fail("[mx_random_split] is not there yet"); }
WEAK mx mx_random_bits(int ndim, const int *shape, int width, mx key) { return mx_fail("[mx_random_bits] is not there yet"); }
WEAK mx mx_random_uniform(mx low, mx high, int ndim, const int *shape, enum dtype t, mx key) { return mx_fail("[mx_random_uniform] is not there yet"); }
WEAK mx mx_random_normal(int ndim, const int *shape, enum dtype t, mx loc, mx scale, mx key) { return mx_fail("[mx_random_normal] is not there yet"); }
WEAK mx mx_random_bernoulli(mx p, int ndim, const int *shape, mx key) { return mx_fail("[mx_random_bernoulli] is not there yet"); }
WEAK mx mx_random_randint(mx low, mx high, int ndim, const int *shape, enum dtype t, mx key) { return mx_fail("[mx_random_randint] is not there yet"); }
WEAK mx mx_random_truncated_normal(mx lower, mx upper, int ndim, const int *shape, enum dtype t, mx key) { return mx_fail("[mx_random_truncated_normal] is not there yet"); }
WEAK mx mx_random_gumbel(int ndim, const int *shape, enum dtype t, mx key) { return mx_fail("[mx_random_gumbel] is not there yet"); }
WEAK mx mx_random_categorical(mx logits, int axis, int ndim, const int *shape, mx key) { return mx_fail("[mx_random_categorical] is not there yet"); }
WEAK mx mx_random_categorical_n(mx logits, int axis, int num_samples, mx key) { return mx_fail("[mx_random_categorical_n] is not there yet"); }
WEAK mx mx_random_laplace(int ndim, const int *shape, enum dtype t, double loc, double scale, mx key) { return mx_fail("[mx_random_laplace] is not there yet"); }
