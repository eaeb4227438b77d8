/* op.h: the operations: one row of ops.def each, and what their rules share.
 *
 * An op is one row of ops.def plus the rules in its family's file. */
#ifndef MX_OPS_OP_H
#define MX_OPS_OP_H

#include "core/node.h"

/* Identity of an op: the order of ops.def. */
enum op_id {
#define UNARY(name, ...) OP_##name,
#define BINARY(name, ...) OP_##name,
#define OTHER(name, ...) OP_##name,
#include "ops/ops.def"
    OP_COUNT,
    OP_PLUGIN = OP_COUNT, /* registered at run time */
};

/* For ops that are constant between jumps, or whose results are not numbers to differentiate. */
void no_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[]);
void no_jvp(const struct call *c, const mx t[], mx dy[]);

#define UNARY(name, ...) extern const struct op op_##name;
#define BINARY(name, ...) extern const struct op op_##name;
#define OTHER(name, ...) extern const struct op op_##name;
#include "ops/ops.def"
extern const struct op *const op_table[OP_COUNT];
/* What programs call what the node does, where that says more than its operation: "cumsum". */
const char *op_called(const struct node *n);

/* The type an op computes in when given t; fails as [op] and gives t where it takes no such type. */
enum dtype op_compute_dtype(const struct op *op, enum dtype t);
enum dtype op_result_dtype(const struct op *op, enum dtype computed);

/* Is the graph that this thread traces meant for operands of any shape?  Then what is built must follow
 * from ranks and arguments alone, with nodes that follow the shapes (mx_broadcast_like,
 * mx_number_of_elements) in place of sizes; a builder that cannot says that shapes matter, and why (a
 * string that stays), and the graph will serve the traced shapes only. */
static inline bool shapeless(void);
void shapes_matter(const char *why);
/* Not the sizes, but how many there are. */
void ranks_matter(void);
/* The function that is traced looks at the sizes of x, which may go into anything. */
void sizes_are_read(mx x);
/* Has it looked at an array of this shape? */
bool shape_was_read(int ndim, const int *shape);
/* y, which cannot be made for sizes that the graph does not serve: it stays in the graph whether results need it or
 * not, since what was built after it may not follow from it. */
mx shapeless_check(mx y);
/* What stays in the graph being traced so; NULL in a trace for one shape. */
struct mx_list *shapeless_checks(void);

/* What is said of a trace while a function of the caller's runs. */
struct shapeless_trace {
    bool any; /* meant for any shape; else for those at hand, and nothing is noted */
    bool ranks;
    const char *why;
    struct mx_list checks, reads;
    const char *name; /* of what is compiled, NULL for none */
    void *site;
    struct shapeless_trace *outer;
};
static inline bool shapeless(void)
{
    const struct shapeless_trace *t = this_thread()->innermost;
    return t && t->any;
}
/* Begins a trace inside those of this thread; NULL after mx_fail.  Ended, it no longer hears of anything. */
struct shapeless_trace *shapeless_begin(bool any);
void shapeless_end(struct shapeless_trace *t);
void shapeless_free(struct shapeless_trace *t); /* ends it, too */
/* The name of the innermost trace of this thread that has one. */
const char *traced_name(void);

/* Coroutines of one thread may trace in turns, and what one does is then said of the trace of another: all of these
 * serve the traced shapes alone.  `inside`, of a language with coroutines, gives in *site where the caller is, which
 * stays so until the trace ends, and tells whether that is in a call from `outer`, the site of the trace around. */
void traces_take_turns_by(bool (*inside)(void *outer, void **site));

#endif
