/* rules.h: small things that the rules of several families of operations share. */
#ifndef MX_OPS_RULES_H
#define MX_OPS_RULES_H

#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"

/* The columns of ops.def that an OTHER row puts into its struct op:
 *     const struct op op_pad = { OP_ROW(pad), ARGS(pad_args), .shapes = pad_shapes, ... }; */
#define OTHER(name, label, traits)        \
    enum { traits_of_##name = (traits) }; \
    static const char label_of_##name[] = label;
#include "ops/ops.def"
#define OP_ROW(word) .id = OP_##word, .name = #word, .label = label_of_##word, .dtypes = ANY, .traits = traits_of_##word
#define ARGS(type) .args_size = sizeof(struct type), .fields = type##_fields

/* return failed(mx_fail(...)); in functions that return non-zero after a failure */
static inline int failed(mx nil)
{
    (void)nil;
    return 1;
}

/* int as the int64_t that arguments keep; `out` holds n of them. */
struct ints ints_of(int n, const int *v, int64_t *out);

/* The sizes as arguments keep them; arrays that lend some follow the m operands in x, of which there is
 * room for one more for each size.  How many operands there are now. */
int size_operands(int m, mx x[], int n, const struct size sizes[], int64_t *out);

/* vmap: sizes of a result that has its batch in front where operand 0, `own` and batched, has it: behind
 * `front` axes follow its own then.  Operands that lend are as they come. */
struct ints sizes_batched(struct ints v, int own, const int axis[], int front, int64_t *out);

/* For .fits: so many operands and results? */
static inline bool call_has(const struct call *c, int nin, int nout) { return c->nin == nin && c->nout == nout; }
/* The first n operands, of one type? */
bool one_dtype(const struct call *c, int n);
/* n numbers from low to high?  Different axes of x?  Sizes: numbers from `least` on, or lent by operands there are? */
bool numbers_within(struct ints v, int n, int64_t low, int64_t high);
bool numbers_are_axes(struct ints v, mx x);
bool numbers_are_sizes(struct ints v, int least, const struct call *c);
/* n arrays of integers, of one shape? */
bool are_indices(int n, const mx x[]);

/* A dimension computed in 64 bits; fails as [op] and returns -1 where an int does not hold it. */
int dim_of(const char *op, int64_t size);

/* The result has x's dtype and this shape; returns 0, as shape rules do. */
int spec_set(struct spec *out, enum dtype t, int ndim, const int *shape);
int spec_like(struct spec *out, mx x);

/* Zero or one in x's shape and dtype, as broadcast scalars: rules need no memory for them. */
mx zeros_of(mx x);
mx ones_of(mx x);
mx zeros_shaped(enum dtype t, int ndim, const int *shape);
/* t, or zeros like x where t is NULL. */
mx or_zeros(mx t, mx x);
/* The number of elements along n axes from `first` on. */
mx mx_count(mx x, int first, int n, enum dtype t);
/* Complex conjugate; x itself where it is real. */
mx conjugated(mx x);

/* vmap: how many in the batch; x with its batch axis first (as it is where it has none); x with a
 * batch axis first in any case, by broadcasting if need be. */
struct size batch_size(const struct call *c, const int axis[]);
mx batch_first(mx x, int axis);
mx batch_all(mx x, int axis, struct size n);

#endif
