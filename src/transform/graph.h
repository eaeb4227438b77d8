/* graph.h: functions of arrays as graphs that can be called again.
 *
 * A graph is what a function did with placeholders, once: entries whose operands come before them,
 * with the values numbered, inputs first.  `numbers` says which values an entry reads and makes, not
 * the operands of its node: simplifying redirects the former alone.  Values that are neither inputs
 * nor made by an entry are constants.  Compiling, loops, checkpoints and exported functions share
 * this form. */
#ifndef MX_TRANSFORM_GRAPH_H
#define MX_TRANSFORM_GRAPH_H

#include "transform/transform.h"
#include "transform/walk.h"

enum { LOOPS_MOST = 500 }; /* in each other: where they run each takes some 1 KB of stack, more in derivatives */
struct graph {
    struct object object;
    struct recording r; /* value i is input i; r.roots are the values of n_out results, n_read and n_check more */
    int n_in, n_out;
    int loops; /* how many loops and branches are in each other */
    /* Of a graph for any shape: the values whose shapes the function looked at. */
    bool any_shape;
    int n_read;
    int n_check;       /* what must be possible to make, needed or not (shapeless_check) */
    const char *fixed; /* why it serves the traced shapes only, or NULL */
    bool any_rank;
    bool open;                      /* a constant is a placeholder of a transform around the trace: not to outlive it */
    bool *copied;                   /* by result: a copy is handed out (graph_hand_out); or NULL */
    struct object *_Atomic resting; /* what who ran it last left for the next one (run/steps.h); NULL: nothing */
};

/* How many roots it has: values that stay in it. */
static inline int graph_roots(const struct graph *g) { return g->n_out + g->n_read + g->n_check; }

/* Calls f on placeholders of the shapes and dtypes of `like` and keeps the graph between them and the
 * results.  What does not depend on them is a constant if it is small; what is large f's graph makes in each call, as
 * f would, so that the graph holds nothing of the size of its operands.  Messages call f `name`, which may be NULL.
 * NULL after mx_fail; the caller gets the only reference (object_release(&g->object)). */
struct graph *graph_trace(struct closure *f, int n, const mx like[], const char *name);
/* The same for operands of any shape: f is traced in such a way, and what it reads of shapes is noted. */
struct graph *graph_trace_shapeless(struct closure *f, int n, const mx like[], const char *name);
/* The same of results that were made from `in`, placeholders (LAZY, without a node, marked as tracers). */
struct graph *graph_of(int n, const mx in[], int n_out, const mx out[]);
/* The same with everything made since node_clock said `clock`, dependent or not. */
struct graph *graph_since(uint32_t clock, int n, const mx in[], int n_out, const mx out[]);
/* A LAZY array without a node, for an input of a trace. */
mx graph_placeholder(enum dtype t, int ndim, const int *shape);
/* Pushes one like each of n arrays; 0, or non-zero after mx_fail. */
int graph_placeholders(int n, const mx like[], struct mx_list *in);
/* The trace whose placeholder it is is over: what the function has stored of it elsewhere stands for nothing. */
void graph_forget(mx placeholder);

/* What the function would give for x: new nodes, on the streams of the traced ones.  Where the shapes
 * are not those of the placeholders, each shape is inferred anew.  Pushes n_out arrays; 0, or non-zero
 * after mx_fail. */
int graph_call(const struct graph *g, int n, const mx x[], struct mx_list *y);

/* The same of a graph for any shape, for operands that may not suit it: *fits says whether they do.
 * They do not where another shape was looked at than they give, where their shapes or ranks matter, or
 * where an operation does not take them.  Only a reshape to sizes that do not suit them fails. */
int graph_call_fitting(const struct graph *g, int n, const mx x[], struct mx_list *y, bool *fits);

/* g for inputs of these shapes: itself, with another reference, or a new graph.  NULL after mx_fail. */
struct dims {
    int ndim;
    const int *shape;
};
struct graph *graph_at(struct graph *g, const struct dims in[]);

/* The graph that an argument of a node is; NULL: it is something else. */
struct graph *graph_of_object(struct object *o);

/* Merges equal scalar constants and equal entries on the same operands, drops copies and what no result
 * needs.  How many entries went. */
int graph_simplify(struct graph *g);

/* From now on a call gives a copy of what is a constant or a view of one, as a call of the function would make it anew:
 * whoever gets it may write to it through the memory that an array shares with others.  Non-zero after mx_fail. */
int graph_hand_out(struct graph *g);

/* The values entry i reads and makes. */
static inline const int *graph_reads(const struct graph *g, int i) { return g->r.numbers + g->r.entries[i].at; }
static inline const int *graph_makes(const struct graph *g, int i)
{
    return graph_reads(g, i) + g->r.entries[i].node->nin;
}

#endif
