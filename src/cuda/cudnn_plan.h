/* cudnn_plan.h: a convolution, as cuDNN has it, and the plan that does it.
 *
 * Which engine does it is asked once for each convolution of a kind, and kept.  All functions are for who has taken
 * cuDNN (cudnn_take). */
#ifndef MX_CUDA_CUDNN_PLAN_H
#define MX_CUDA_CUDNN_PLAN_H

#include "cuda/cudnn.h"

enum { X, W, Y, PARTS };
enum { MOST_AXES = 3, FIRST_AXIS = 2, DIMENSIONS = FIRST_AXIS + MOST_AXES }; /* images, channels, axes */
enum dnn_kind { FORWARD, BY_INPUT, BY_WEIGHTS };

/* All that the choice of a plan depends on: equal bytes are equal convolutions. */
struct dnn_conv {
    int gpu, type, kind, axes;
    int64_t stride[MOST_AXES], dilation[MOST_AXES], before[MOST_AXES], behind[MOST_AXES];
    struct dnn_part {
        int64_t size[DIMENSIONS], step[DIMENSIONS], alignment;
    } part[PARTS];
};

struct dnn_plan;

/* Where elements of channels, axes and images lie: channels are neighbours. */
void dnn_set_steps(struct dnn_conv *c);

/* A user more of the plan; NULL: no memory. */
struct dnn_plan *dnn_plan_of(const struct dnn_conv *c, void *handle);
void dnn_release(struct dnn_plan *p);
/* Does cuDNN do it, and with how much memory besides? */
bool dnn_does(const struct dnn_plan *p, int64_t *workspace);
/* It does not: it failed.  The plan goes with what it was made of. */
void dnn_give_up(struct dnn_plan *p);
/* A status, DNN_UNUSED where it does not do it. */
enum { DNN_UNUSED = -1 };
int dnn_queue(const struct dnn_plan *p, void *handle, void *stream, void *const at[PARTS], void *workspace);

#endif
