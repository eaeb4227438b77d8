/* pending.c: weak stand-ins for operations that are not written yet; a real definition wins. */
#include "cpu/run.h"
#include "ops/ops.h"

#define WEAK __attribute__((weak))

#define OTHER(id_, ...) WEAK int run_##id_(const struct run *r) { mx_fail("[%s] has no kernel yet", r->node->op->name); return 1; }
#include "ops/ops.def"

WEAK const struct op op_reduce = { .id = OP_reduce, .name = "reduce", .label = "Reduce", .traits = 0 };
WEAK const struct op op_arg_reduce = { .id = OP_arg_reduce, .name = "arg_reduce", .label = "ArgReduce", .traits = 0 };
WEAK const struct op op_softmax = { .id = OP_softmax, .name = "softmax", .label = "Softmax", .traits = IN_PLACE };
WEAK const struct op op_logsumexp = { .id = OP_logsumexp, .name = "logsumexp", .label = "LogSumExp", .traits = 0 };
WEAK const struct op op_matmul = { .id = OP_matmul, .name = "matmul", .label = "Matmul", .traits = 0 };
WEAK const struct op op_addmm = { .id = OP_addmm, .name = "addmm", .label = "AddMM", .traits = 0 };
WEAK const struct op op_random_bits = { .id = OP_random_bits, .name = "random_bits", .label = "RandomBits", .traits = RANDOM };
#pragma GCC diagnostic ignored "-Wunused-parameter"
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
