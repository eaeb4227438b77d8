/* cudnn.c: cuDNN, opened once for each GPU, where it convolves ones and twos first: if that fails, it is left alone. */
#include "cuda/cudnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cudnn_conv_graph.h"
#include "cuda/gpu.h"
#include "cuda/libraries.h"

struct cudnn dnn;
LOCK(using, LOCK_DEVICE); /* of plans and handles, each of which is one thread's at a time */

static struct cudnn_on {
    void *handle;
    bool tried, works;
} on[MAX_GPUS];

static const struct cuda_function functions[] = {
#define DNN(returned, name, symbol, args) { symbol, (void **)&dnn.name, false },
#include "cuda/cudnn.def"
};
static struct cuda_functions library = { CUDA_cudnn, functions, sizeof functions / sizeof *functions, CUDA_UNKNOWN };

/* Some of its engines are cuBLASLt's, of the same CUDA: where it does not find that, it ends the process. */
static bool finds_blas(void)
{
    const struct cuda_library *l = cuda_library(CUDA_cublasLt);
    return l && (size_t)atoi(l->version) == dnn.cuda_version() / 1000;
}

/* An image of ones of 4 by 4, four channels, and weights of twos, 3 by 3: whoever is at an edge sees less. */
enum { SIDE = 4, CHANNELS = 4, TAPS = 3, PIXELS = SIDE * SIDE, ALL = PIXELS * CHANNELS, WEIGHTS = 9 * 16 };

static int convolve_ones(const struct cudnn_on *s, int gpu, void *stream, uint64_t memory, float result[ALL])
{
    struct dnn_conv c;
    float ones[ALL + WEIGHTS], *at = (float *)memory;
    uint64_t workspace = 0;
    for (int i = 0; i < ALL + WEIGHTS; i++) ones[i] = i < ALL ? 1 : 2;
    memset(&c, 0, sizeof c);
    c.gpu = gpu;
    c.type = CUDNN_FLOAT;
    c.kind = FORWARD;
    c.axes = 2;
    for (int i = 0; i < 2; i++) c.stride[i] = c.dilation[i] = c.before[i] = c.behind[i] = 1;
    for (int i = 0; i < PARTS; i++)
        c.part[i] = (struct dnn_part){ { i == W ? CHANNELS : 1, CHANNELS, i == W ? TAPS : SIDE, i == W ? TAPS : SIDE },
                                       { 0 },
                                       16 };
    dnn_set_steps(&c);
    struct dnn_plan *p = dnn_plan_of(&dnn_convs, &c, s->handle);
    int64_t bytes = 0;
    if (!p || !dnn_does(p, &bytes) || (bytes && cu.memory_alloc(&workspace, (size_t)bytes)) ||
        cu.copy_to_device(memory, ones, sizeof ones, stream)) {
        if (p)
            dnn_release(p);
        return DNN_UNUSED;
    }
    void *const parts[PARTS] = { [X] = at, [W] = at + ALL, [Y] = at + ALL + WEIGHTS };
    int e = dnn_queue(p, s->handle, stream, PARTS, dnn_conv_ids, parts, (void *)workspace);
    if (!e && cu.copy_to_host(result, memory + sizeof ones, ALL * sizeof *result, stream))
        e = DNN_UNUSED;
    if (cu.stream_wait(stream) && !e)
        e = DNN_UNUSED;
    if (workspace)
        cu.memory_free(workspace);
    dnn_release(p);
    return e;
}

static bool is_right(const float result[ALL])
{
    for (int i = 0; i < ALL; i++) {
        int row = i / CHANNELS / SIDE, column = i / CHANNELS % SIDE;
        int rows = row % (SIDE - 1) ? TAPS : TAPS - 1, columns = column % (SIDE - 1) ? TAPS : TAPS - 1;
        float want = (float)(2 * CHANNELS * rows * columns);
        if (!(fabsf(result[i] - want) < 1e-4f * want))
            return false;
    }
    return true;
}

/* NULL: this version of it works with this driver. */
static const char *trial(struct cudnn_on *s, int gpu, bool blas)
{
    void *stream = NULL;
    uint64_t memory = 0;
    float result[ALL] = { 0 };
    if (!blas)
        return "there is no cuBLASLt of the CUDA that it is for";
    int e = dnn.create(&s->handle);
    if (e)
        return dnn.status_text(e);
    e = DNN_UNUSED;
    if (!cu.stream_create(&stream, CUDA_STREAM_NON_BLOCKING) &&
        !cu.memory_alloc(&memory, (2 * ALL + WEIGHTS) * sizeof *result))
        e = convolve_ones(s, gpu, stream, memory, result);
    if (memory)
        cu.memory_free(memory);
    if (stream)
        cu.stream_destroy(stream);
    if (e)
        return e == DNN_UNUSED ? "no convolution" : dnn.status_text(e);
    return is_right(result) ? NULL : "a wrong convolution";
}

bool cudnn_works(int gpu)
{
    struct cudnn_on *s = &on[gpu];
    if (!cuda_find(&library))
        return false;
    bool blas = finds_blas();
    lock_take(&using);
    if (!s->tried) {
        s->works = cuda_tried(CUDA_cudnn, NULL, gpu, trial(s, gpu, blas));
        s->tried = true;
    }
    lock_give(&using);
    return s->works;
}

void *cudnn_take(int gpu)
{
    lock_take(&using);
    return on[gpu].handle;
}

void cudnn_give(void) { lock_give(&using); }

int cudnn_type_of(enum dtype t)
{
    switch (t) {
    case DT_float32: return CUDNN_FLOAT;
    case DT_float16: return CUDNN_HALF;
    case DT_bfloat16: return CUDNN_BFLOAT16;
    default: return -1;
    }
}

const char *cudnn_type_name(int type)
{
    return type == CUDNN_HALF ? "float16" : type == CUDNN_BFLOAT16 ? "bfloat16" : "float32";
}
