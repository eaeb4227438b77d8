/* node.h: nodes, and what an operation is to the rest of the system.
 *
 * A node is a promise: an operation, its arguments, its operands.  An operation is a `struct op`, rules
 * behind pointers, so that nothing here knows of any in particular.  Rules are written in builders, as if
 * nothing failed: a failed builder gives MX_NIL, and every builder given MX_NIL gives it back.
 *
 * The links from arrays to nodes, the marks of walks and the step away from LAZY are guarded by the graph lock.
 * Whoever walks takes what it needs as owned references and lets go of the lock before it runs rules or kernels; under
 * it, eval makes one small operation at most, which is READY at once. */
#ifndef MX_CORE_NODE_H
#define MX_CORE_NODE_H

#include <stddef.h>

#include "core/array.h"

struct closure;
struct stream;

/* Traits of a row. */
enum {
    FUSE = 1,       /* element by element: may run inside a fused chain */
    COMMUTES = 2,   /* f(a, b) = f(b, a) */
    GIVES_BOOL = 4, /* the result is bool whatever the operands are */
    GIVES_REAL = 8, /* complex operands give float32 */
    VIEW = 16,      /* shares the operand's buffer; run by eval, on any device */
    RANDOM = 32,
    FORWARDS = 128, /* VIEW of its last operands, one for each result */
    IN_PLACE = 64,  /* the kernel may write its output over a dead operand of the same size */
    LENDS = 256,    /* has SIZES; operands beyond `own` are there for their shapes alone */
};
enum { ALL_OWN = -1 };

/* Arguments.  A node keeps a copy of the op's argument struct; `fields` describes it, and copying,
 * equality, hashing, printing and export all read that description. */
struct ints {
    int n;
    const int64_t *v;
}; /* deep-copied into the node */
struct text {
    const char *s;
}; /* likewise, NUL-terminated */

/* Something an argument owns: a closure, a graph.  Reference counted through its class. */
struct object {
    atomic_int refs;
    void (*destroy)(struct object *self);
};
void object_retain(struct object *o);
void object_release(struct object *o);

/* Among the numbers of a field of SIZES stands for the size of axis i of operand k: in a graph for any
 * shape, where it is whatever the operand has when the graph is called. */
#define SIZE_OF(k, i) (-2 - ((k)*MX_MAX_NDIM + (i)))
static inline bool size_is_lent(int64_t v) { return v <= SIZE_OF(0, 0); }
static inline int size_lender(int64_t v) { return (int)((SIZE_OF(0, 0) - v) / MX_MAX_NDIM); }
static inline int size_axis(int64_t v) { return (int)((SIZE_OF(0, 0) - v) % MX_MAX_NDIM); }

enum field_kind { F_END, F_BOOL, F_INT, F_ENUM, F_I64, F_F64, F_INTS, F_TEXT, F_OBJECT, F_SIZES };
struct field {
    const char *name;
    uint16_t kind;
    uint16_t offset;
    uint16_t last; /* of an enum: its largest value */
};
#define FIELD(s, m)                                                                        \
    {                                                                                      \
#m,                                                                                      \
      _Generic(((struct s *)0)->m, bool: F_BOOL, int: F_INT, int64_t: F_I64,             \
               double: F_F64, struct ints: F_INTS, struct text: F_TEXT,                  \
               struct object *: F_OBJECT),                                               \
      offsetof(struct s, m), 0 \
    }

/* Of an unsigned that is an enum, or a dtype, up to `last`. */
#define ENUM(s, m, last)                                                                 \
    {                                                                                    \
#m, _Generic(((struct s *)0)->m, unsigned : F_ENUM), offsetof(struct s, m), last \
    }

#define SIZES(s, m)                           \
    {                                         \
#m, F_SIZES, offsetof(struct s, m), 0 \
    } /* of a struct ints */

struct op;

/* A node, and also what a rule is handed: the operands and results may be others than the node's
 * own (batched ones, placeholders). */
struct call {
    const struct op *op;
    const void *args;
    int nin, nout;
    const mx *x; /* operands */
    const mx *y; /* results; NULL in vmap and shapes */
};
/* The number that an entry of SIZES is or stands for. */
int64_t size_in(const struct call *c, int64_t v);

struct op {
    int id;            /* its row of ops.def; OP_PLUGIN for one registered at run time */
    const char *name;  /* "logaddexp" */
    const char *label; /* "LogAddExp": as printed, and in exported files unless the row says otherwise */
    enum dtype_set dtypes;
    uint32_t traits;
    size_t args_size;
    const struct field *fields; /* ends with { 0 }; NULL without arguments */
    int own;                    /* LENDS: how many operands it computes with; ALL_OWN: with all of them */

    /* Shapes and dtypes of the results.  Non-zero after mx_fail. */
    int (*shapes)(const struct call *c, struct spec out[]);
    /* VIEW: strides and offset of y[0] over x[0]'s buffer; true if it can be done without a copy.
     * A view that needs a copy falls through to the backend's kernel. */
    bool (*view)(const struct call *c, mx y);
    /* What it comes to once the operands' shapes are settled, where that is less than a node.  NULL: a node in
     * which all sizes are numbers. */
    mx (*settled)(const struct call *c);
    /* The derivatives: every op has both, or no_vjp and no_jvp where it has none by nature.
     * dx[i] for every i with want[i]; ct[k] is NULL where no cotangent arrived; a dx left NULL is zero. */
    void (*vjp)(const struct call *c, const mx ct[], const bool want[], mx dx[]);
    /* dy[k]; t[i] is NULL where the operand does not vary; a dy left NULL is zero. */
    void (*jvp)(const struct call *c, const mx t[], mx dy[]);
    /* c->x are batched along axis[i] (-1: not batched).  Sets y[k] and its batch axis yaxis[k]. */
    void (*vmap)(const struct call *c, const int axis[], mx y[], int yaxis[]);
    /* Elementwise ops: dy/dx_i times t. */
    mx (*partial)(int i, const mx x[], mx y, mx t);
    /* Sets y[k] to the same results of simpler operations, which exported files are written in; NULL:
     * there is no need, or src/mlxfn/mlxfn_compose.c knows how. */
    void (*compose)(const struct call *c, mx y[]);
    /* Arguments that say themselves whether they are equal, and what they are, as snprintf does; NULL:
     * their fields do. */
    bool (*args_equal)(const struct op *op, const void *a, const void *b);
    int (*args_text)(const struct op *op, const void *args, char *out, size_t size);
    /* Do arguments and operands that no builder has looked at, those of a file, go together wherever rules and
     * kernels rely on it: in how many operands and results there are, their types and ranks, numbers in range?
     * Enums are in range, and what `shapes` refuses need not be seen here.  False, after mx_fail or not.  NULL:
     * no file says it by its arguments. */
    bool (*fits)(const struct call *c);
    /* Of an operation whose arguments hold graphs: pushes the results of a call whose arguments lack them, made anew
     * of functions of the graphs' inputs, in the order of the fields.  Non-zero after mx_fail. */
    int (*rebuild)(const struct call *c, struct closure *const of[], struct mx_list *out);
};

struct node {
    atomic_int refs;
    int nin, nout;
    uint32_t born; /* what node_clock said */
    const struct op *op;
    struct stream *stream;
    const void *args;
    mx *in;             /* strong */
    mx *out;            /* weak; NULL entries: outputs nobody holds any more */
    struct spec *specs; /* of all outputs where nout > 1, else NULL */
};

/* Of a VIEW: the number of the operand whose buffer output k has. */
static inline int node_viewed(const struct node *n, int k)
{
    return n->op->traits & FORWARDS ? n->nin - n->nout + k : 0;
}

/* New node with one output or several; args is copied as its fields say.  Returns borrowed arrays.
 * If any operand is MX_NIL the result is. */
mx mx_node(const struct op *op, const void *args, int nin, const mx x[], int ndim, const int *shape, enum dtype t);
void mx_nodes(const struct op *op, const void *args, int nin, const mx x[], int nout, const struct spec out[], mx y[]);
/* As mx_node, with shape and dtype from the op's own shape rule. */
mx mx_infer(const struct op *op, const void *args, int nin, const mx x[]);
void mx_infer_n(const struct op *op, const void *args, int nin, const mx x[], int nout, mx y[]);
/* The same where the operands' shapes are what they are: those that only lend theirs are let go of. */
void mx_settle_n(const struct op *op, const void *args, int nin, const mx x[], int nout, mx y[]);

/* Turns the clock and returns what it says: nodes made from now on are not older. */
uint32_t node_clock(void);
static inline bool node_since(const struct node *n, uint32_t clock) { return (int32_t)(n->born - clock) >= 0; }
void node_release(struct node *n);
/* Before y leaves the node: n->out names only arrays that have n, so that it names none that are gone. */
void node_forget_output(struct node *n, mx y);
void node_remember_output(struct node *n, mx y); /* one that has it again */
/* Output k as an owned reference: the array somebody holds, or a new one in its place. */
mx node_output(struct node *n, int k);
static inline void node_retain(struct node *n) { atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed); }
/* Same op, equal arguments. */
bool node_equivalent(const struct node *a, const struct node *b);
uint64_t node_hash(const struct node *n);
/* Has it arguments that are lists with something in them? */
bool node_has_lists(const struct node *n);
/* "axis=1, keepdims=True" */
void node_args_text(const struct node *n, char *out, size_t size);

/* Is this thread inside a transform's call of the user's function? */
static inline bool tracing(void) { return this_thread()->traces > 0; }
void trace_begin(void);
void trace_end(void);
/* Those of a thread that are one inside the other have one number, which is the `tracer` of whatever depends on their
 * arguments, on whichever thread it is built or looked at. */
enum { TRACE_ANY = -1 };                        /* as a number: of several, over when nobody traces */
uint32_t trace_number(void);                    /* this thread's; TRACE_ANY outside of all */
uint32_t trace_of_both(uint32_t a, uint32_t b); /* of what depends on arguments of both */
bool trace_is_open(uint32_t number);
bool trace_any_open(void);
/* May x be followed back to arguments of a trace still?  A thread that traces may have begun with what a trace left
 * that is over: files are written of such. */
static inline bool is_traced(mx x)
{
    uint32_t number = atomic_load_explicit(&x->tracer, memory_order_relaxed);
    return number && (tracing() || trace_is_open(number));
}
static inline bool any_traced(int n, const mx x[])
{
    bool any = false;
    for (int i = 0; i < n; i++) any |= is_traced(x[i]);
    return any;
}

void graph_lock(void);
bool graph_try_lock(void); /* false, and nothing happens: another thread has it */
void graph_unlock(void);
/* A number that no array is marked with yet; under the lock. */
uint32_t walk_begin(void);

#endif
