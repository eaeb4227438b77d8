/* cudnn_conv_graph.h: a convolution, as cuDNN has it. */
#ifndef MX_CUDA_CUDNN_CONV_GRAPH_H
#define MX_CUDA_CUDNN_CONV_GRAPH_H

#include "cuda/cudnn_graph.h"

enum { X, W, Y, PARTS };
enum { MOST_AXES = 3, FIRST_AXIS = 2, DIMENSIONS = FIRST_AXIS + MOST_AXES }; /* images, channels, axes */
enum dnn_conv_kind { FORWARD, BY_INPUT, BY_WEIGHTS };

/* All that the choice of a plan depends on: equal bytes are equal convolutions. */
struct dnn_conv {
    int gpu, type, kind, axes;
    int64_t stride[MOST_AXES], dilation[MOST_AXES], before[MOST_AXES], behind[MOST_AXES];
    struct dnn_part {
        int64_t size[DIMENSIONS], step[DIMENSIONS], alignment;
    } part[PARTS];
};

/* Where elements of channels, axes and images lie: channels are neighbours. */
void dnn_set_steps(struct dnn_conv *c);

/* Convolutions as a kind of graphs, and the names of their parts. */
extern const struct dnn_kind dnn_convs;
extern const int64_t dnn_conv_ids[PARTS];

#endif
