/* jacobian.c: Jacobians, as the derivative at a point mapped over a basis.
 *
 * The derivative is a linear function (mx_linearize, mx_pullback).  Of all the numbers that go into it,
 * laid one behind the other, the unit vectors are a batch; what comes out is the batch of columns, or of
 * rows, of which each array has its part.  The function itself is called once. */
#include "transform/jacobian.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "transform/body.h"

struct jacobian {
    struct closure closure;
    struct closure *f;
    bool forward;
    int n;
    int argnums[];
};

/* f as a function of the operands that derivatives are asked for. */
struct chosen_arguments {
    struct closure closure;
    const struct jacobian *j;
    int n;
    const mx *x;
};

static int call_chosen(struct closure *self, int n, const mx chosen[], struct mx_list *out)
{
    const struct chosen_arguments *c = (struct chosen_arguments *)self;
    mx *x = mx_malloc(((size_t)c->n + 1) * sizeof *x);
    if (!x)
        return 1;
    if (c->n)
        memcpy(x, c->x, (size_t)c->n * sizeof *x);
    for (int i = 0; i < n; i++) x[c->j->argnums[i]] = chosen[i];
    int failed = c->j->f->call(c->j->f, c->n, x, out);
    free(x);
    return failed;
}

static const char *name_of(const struct jacobian *j) { return j->forward ? "jacfwd" : "jacrev"; }

/* How many numbers there are; -1 after a failure. */
static int count_elements(const struct jacobian *j, const struct mx_list *x, const char *what)
{
    int64_t total = 0;
    for (int i = 0; i < x->n; i++) {
        mx a = x->v[i].it;
        if (dtype_kind(a->dtype) != 'f') {
            mx_fail("[%s] expected %s of real floating-point numbers, got %s", name_of(j), what, dtype_name(a->dtype));
            return -1;
        }
        total += a->size;
    }
    if (total <= INT32_MAX)
        return (int)total;
    mx_fail("[%s] expected less than 2^31 numbers in the %s, got %lld", name_of(j), what, (long long)total);
    return -1;
}

/* Pushes for each array a batch of `total`: together the unit vectors. */
static int push_basis(const struct mx_list *x, int total, struct mx_list *out)
{
    int begin = 0, failed = 0;
    for (int i = 0; i < x->n && !failed; i++) {
        MX_SCOPE(NULL);
        mx a = x->v[i].it;
        int shape[MX_MAX_NDIM + 1] = { total }, size = (int)a->size;
        memcpy(shape + 1, a->shape, (size_t)a->ndim * sizeof *shape);
        failed = list_push(out, mx_reshape(mx_eye(total, size, -begin, a->dtype), a->ndim + 1, shape));
        begin += size;
    }
    return failed;
}

/* Elements begin... of the batch in front of `all`, in the shape of y followed by that of x. */
static mx jacobian_part(mx all, int begin, bool columns, mx y, mx x)
{
    int shape[2 * MX_MAX_NDIM];
    int ndim = y->ndim + x->ndim;
    if (ndim > MX_MAX_NDIM)
        return mx_fail("[jacobian] expected results and arguments of %d dimensions together, got %d and %d",
                       MX_MAX_NDIM, y->ndim, x->ndim);
    if (is_nil(all))
        return all;
    mx mine = mx_slice_axis(all, 0, begin, begin + (int)(columns ? x->size : y->size), 1);
    if (columns)
        mine = mx_moveaxis(mine, 0, -1);
    for (int d = 0; d < ndim; d++) shape[d] = d < y->ndim ? y->shape[d] : x->shape[d - y->ndim];
    return mx_reshape(mine, ndim, shape);
}

/* Pushes dy/dx for all y and x.  `batches` has the columns of each y, or the rows for each x. */
static int push_parts(const struct jacobian *j, const struct mx_list *x, const struct mx_list *y,
                      const struct mx_list *batches, struct mx_list *out)
{
    int failed = 0, row = 0;
    for (int k = 0; k < y->n && !failed; row += (int)y->v[k++].it->size)
        for (int i = 0, column = 0; i < x->n && !failed; column += (int)x->v[i++].it->size) {
            MX_SCOPE(NULL);
            mx all = batches->v[j->forward ? k : i].it;
            failed = list_push(out, jacobian_part(all, j->forward ? column : row, j->forward, y->v[k].it, x->v[i].it));
        }
    return failed;
}

static int call_jacobian(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct jacobian *j = (struct jacobian *)self;
    struct chosen_arguments f = { { .call = call_chosen }, j, n, x };
    struct mx_list by = { 0 }, y = { 0 }, basis = { 0 }, batches = { 0 };
    struct closure *derivative = NULL;
    int failed = 0, *axes = NULL;
    shapes_matter(name_of(j)); /* as many directions as elements */
    for (int i = 0; i < j->n && !failed; i++) {
        if ((failed = j->argnums[i] >= n))
            mx_fail("[%s] cannot differentiate by argument %d of a call with %d", name_of(j), j->argnums[i], n);
        else
            failed = list_push(&by, x[j->argnums[i]]);
    }
    if (!failed)
        derivative = (j->forward ? mx_linearize : mx_pullback)(&f.closure, by.n, (mx *)by.v, &y);
    int of_x = derivative ? count_elements(j, &by, "arguments") : -1,
        of_y = of_x < 0 ? -1 : count_elements(j, &y, "results");
    failed = of_y < 0 || (j->forward ? push_basis(&by, of_x, &basis) : push_basis(&y, of_y, &basis)) ||
             !(axes = mx_zeroed((size_t)basis.n + 1, sizeof *axes)) ||
             mx_vmap(derivative, basis.n, (mx *)basis.v, axes, &batches) || push_parts(j, &by, &y, &batches, out);
    if (derivative)
        object_release(&derivative->object);
    free(axes);
    list_clear(&by);
    list_clear(&y);
    list_clear(&basis);
    list_clear(&batches);
    return failed;
}

static void jacobian_destroy(struct object *o)
{
    object_release(&((struct jacobian *)o)->f->object);
    free(o);
}

static struct closure *jacobian_of(struct closure *f, bool forward, const int *argnums, int n)
{
    const char *name = forward ? "jacfwd" : "jacrev";
    if (n < 1)
        return mx_fail("[%s] expected the number of one argument at least, got %d", name, n), NULL;
    for (int i = 0; i < n; i++) {
        if (argnums[i] < 0)
            return mx_fail("[%s] expected numbers of arguments from 0 on, got %d", name, argnums[i]), NULL;
        for (int k = 0; k < i; k++)
            if (argnums[k] == argnums[i])
                return mx_fail("[%s] expected each argument once, got %d twice", name, argnums[i]), NULL;
    }
    struct jacobian *j = mx_malloc(sizeof *j + (size_t)n * sizeof *argnums);
    if (!j)
        return NULL;
    *j = (struct jacobian){ { { .refs = 1, .destroy = jacobian_destroy }, call_jacobian }, f, forward, n };
    memcpy(j->argnums, argnums, (size_t)n * sizeof *argnums);
    object_retain(&f->object);
    return &j->closure;
}

struct closure *mx_jacfwd(struct closure *f, const int *argnums, int n) { return jacobian_of(f, true, argnums, n); }
struct closure *mx_jacrev(struct closure *f, const int *argnums, int n) { return jacobian_of(f, false, argnums, n); }
