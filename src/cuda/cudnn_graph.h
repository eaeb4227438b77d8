/* cudnn_graph.h: graphs of cuDNN's operations, and the plans that do them.
 *
 * Which engine does a graph is asked once for each of a kind, and kept.  All functions are for who has taken cuDNN
 * (cudnn_take), but for those at the end, which take it themselves. */
#ifndef MX_CUDA_CUDNN_GRAPH_H
#define MX_CUDA_CUDNN_GRAPH_H

#include <stdio.h>

#include "cuda/cudnn.h"

/* Descriptors, those that others are made of too; after the first failure nothing more is done. */
enum { DNN_DESCRIPTORS = 96, DNN_OPERATIONS = 24, DNN_DIMENSIONS = 5 };
struct dnn_made {
    void *it[DNN_DESCRIPTORS];
    int n, status;
};
void *dnn_begin(struct dnn_made *m, int kind);
void dnn_set(struct dnn_made *m, void *d, int what, int type, int64_t n, const void *v);
void dnn_set_number(struct dnn_made *m, void *d, int what, int64_t v);
void dnn_set_part(struct dnn_made *m, void *d, int what, void *part);
void dnn_finish(struct dnn_made *m, void *d);

/* A tensor of n dimensions.  Virtual: it is never in memory; by value: it is a number on the host. */
struct dnn_tensor {
    int64_t id, alignment;
    int type, n;
    bool is_virtual, by_value;
    int64_t size[DNN_DIMENSIONS], step[DNN_DIMENSIONS];
};
void *dnn_tensor(struct dnn_made *m, const struct dnn_tensor *t);

/* A kind of graphs.  Each is told by some bytes, which the choice of a plan depends on and on nothing else. */
struct dnn_kind {
    size_t bytes;
    /* Its operations, in order; how many there are. */
    int (*describe)(struct dnn_made *m, const void *of, void *operations[DNN_OPERATIONS]);
    /* Notes, a bit for each, of which an engine may have none. */
    uint32_t (*never)(const void *of);
    void (*name)(const void *of, FILE *to);
    /* How often our kernels do it before cuDNN is opened and an engine asked for; NULL: it is at once. */
    int64_t (*patience)(const void *of);
    /* Is the version that was opened known to do it wrongly?  NULL: none is. */
    bool (*is_wrong)(const void *of);
};

struct dnn_plan;

/* A user more of the plan; NULL: no memory. */
struct dnn_plan *dnn_plan_of(const struct dnn_kind *kind, const void *of, void *handle);
void dnn_release(struct dnn_plan *p);
/* Does cuDNN do it, and with how much memory besides? */
bool dnn_does(const struct dnn_plan *p, int64_t *workspace);
/* Queues it, with n tensors by their names.  A status, DNN_UNUSED where it does not do it. */
enum { DNN_UNUSED = -1, DNN_WRONG = -2 };
int dnn_queue(struct dnn_plan *p, void *handle, void *stream, int n, const int64_t ids[], void *const at[],
              void *workspace);

/* ---- for who has not taken cuDNN */

struct run;
/* The plan, if cuDNN is used on the device and does it; NULL: our kernels do. */
struct dnn_plan *dnn_plan_on(int gpu, const struct dnn_kind *kind, const void *of);
/* Queues it on the stream of the call.  A status, DNN_UNUSED without memory for it. */
int dnn_run(const struct run *r, struct dnn_plan *p, int n, const int64_t ids[], void *const at[]);
/* The end of its use; failed: it is not tried again. */
void dnn_let_go(int gpu, struct dnn_plan *p, bool failed);

#endif
