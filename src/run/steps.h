/* steps.h: a graph run on the spot, over and over, by the thread that runs an operation.
 *
 * Every value has an array that nobody else sees and that lives as long as the steps do: a run only
 * gives it a buffer and takes it away after the last use.  How many look at an operand is known
 * beforehand, so reference counts are set rather than counted, and what an entry uses for the last
 * time is written over as in any evaluation: a loop runs in constant memory. */
#ifndef MX_RUN_STEPS_H
#define MX_RUN_STEPS_H

#include "run/backend.h"
#include "transform/graph.h"

struct steps {
    struct object object; /* of those that rest in a graph */
    const char *who;      /* for messages */
    struct stream *on;    /* where the bodies' operations run, whatever stream they were traced on */
    struct graph *g;      /* a reference */
    int n_in, n_out, n_values;
    mx *v; /* by value: arrays of our own */
    int n;
    struct step *steps;
    struct entry *entries, **members;
    struct ref_count *counts;
    mx *drops;
    struct feed *feeds;
    struct node *nodes;
    void *pieces; /* memory of the nodes' lists */
};

/* Prepares g for inputs of these shapes, to be run on `on`.  The first `carried` inputs change hands from
 * step to step; the others keep what they were given.  Non-zero after mx_fail; close it in any case. */
int steps_open(struct steps *s, const char *who, struct stream *on, struct graph *g, const struct dims in[],
               int carried);
void steps_close(struct steps *s);

/* The same of g for inputs of its own shapes, of which none is carried: what was left in it by who ran it last, or
 * opened anew.  NULL after mx_fail. */
struct steps *steps_wake(const char *who, struct stream *on, struct graph *g);
/* Lets go of the data, and leaves them in the graph for the next one, but where a run of them failed. */
void steps_rest(struct steps *s, bool failed);

/* Input i reads x's data from now on, or that of x[t]; or lets go of it. */
void steps_put(struct steps *s, int i, mx x);
void steps_take(struct steps *s, int i);
void steps_put_slice(struct steps *s, int i, mx x, int t);
/* Computes the results; non-zero after mx_fail. */
int steps_run(struct steps *s);
mx steps_result(const struct steps *s, int k);
bool steps_reads(const struct steps *s, int i); /* is input i looked at? */
/* The first n results become the first n inputs, and the other results are let go of. */
void steps_feed(struct steps *s, int n);
/* Lets go of the results. */
void steps_forget(struct steps *s);
/* y becomes another array on the data of x, which is of its shape. */
void steps_share(mx y, mx x);

#endif
