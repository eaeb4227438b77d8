/* mlxfn_compose.h: operations put in terms of others, for exported files. */
#ifndef MX_MLXFN_MLXFN_COMPOSE_H
#define MX_MLXFN_MLXFN_COMPOSE_H

#include "ops/fft.h"
#include "ops/op.h"
#include "ops/ops.h"

/* compose_<op> for the rows of forms.def that say so. */
#define SAME(op)
#define AS(op, form)
#define COMPOSED(op) void compose_##op(const struct call *c, mx y[]);
#define OR_COMPOSED(op, form) void compose_##op(const struct call *c, mx y[]);
#define OR_FOLLOWED(op, form) void compose_##op(const struct call *c, mx y[]);
#define OR_OURS(op, form)
#define CONSTANT(op)
#include "mlxfn/forms.def"

/* What a reduction gives by itself; one that gives another type is composed. */
enum dtype composed_reduce_dtype(const struct call *c);
/* Is the direction and scale that of a primitive? */
bool composed_fft_is_plain(const struct fft_args *a);
/* Has it groups in three dimensions, for which the mlx package has no kernel? */
bool composed_conv_by_group(const struct call *c);
/* Can a primitive on numbers of this type hold the scalar? */
bool composed_scalar_fits(double scalar, enum dtype t);
/* Do scales have the type of x, and batches of the packed matrix that of x? */
bool composed_packed_fits(const struct call *c);
/* The first of x along the axis, that many. */
mx composed_first(mx x, int axis, struct size n);
/* The diagonal of the last two axes, of any size, that begins so far down or to the right. */
mx composed_diagonal(mx x, int down, int right);

#endif
