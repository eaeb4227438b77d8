/* cudnn_conv.c: convolutions by cuDNN.
 *
 * One whose input is dilated is the derivative by the input of another, which is ours turned round: our result is its
 * input, our input its result, and of its weights the channels are exchanged and the taps count from the other end.
 * Our own derivatives by the input are made of weights that lie so: they are read where they are, but those of float32
 * with all its bits and of two axes without strides are convolutions there too, for which there are faster engines.
 *
 * cuDNN takes long to open and to ask, and small convolutions gain nothing: they stay with our kernels, and so does
 * what it does not do, or fails at. */
#include "cuda/cudnn_conv.h"

#include <string.h>

#include "core/shape.h"
#include "core/sizes.h"
#include "cuda/cudnn_conv_graph.h"
#include "plan/conv.h"

/* Multiply-adds from which on it is used.  Our kernels do fewer in some 10 us of float32, half types in less, which is
 * what waiting for any operation takes (docs/cuda.md): there is not enough to gain for opening it.  Tests have less. */
#ifndef CUDNN_LEAST_WORK
#define CUDNN_LEAST_WORK (1 << 27)
#endif
enum { MOST_ELEMENTS = INT32_MAX }; /* of a tensor: not all engines count in 64 bits */

enum weights { AS_THEY_ARE, IN_ROWS, TURNED }; /* of an operand: copied so; of a result: copied from there */
struct dnn_work {
    struct dnn_conv conv;
    struct conv_plan plan;
    enum weights weights;
    void *at[PARTS];
};

/* Is it one that our kernels are faster at?  Measured on an H100 (`table.py --device gpu --peers kernels
 * convolutions`), our time over that of cuDNN 9.19, of float32: 9 taps of one axis 0.83, by the input 0.76; 3 x 3 x 3
 * by the weights 0.51, 7 x 7 of three channels 0.62 (on an H200); groups of few channels took 0.08 to 1.4 of
 * PyTorch's.  Half types were slower in all. */
static bool is_ours(const struct conv_plan *p, enum dtype t, int axes, bool of_weights)
{
    enum { FEW = 256, FEW_CHANNELS = 4 }; /* FEW: weights of a tap of a group */
    bool few = p->groups > 1 ? p->in * p->out <= FEW : of_weights && p->in <= FEW_CHANNELS && !gpu_tf32();
    return !dtype_is_half(t) && (few || axes == 1 || (axes == 3 && of_weights));
}

/* How far an axis is padded behind its end for so many positions: as before it, if that will do, for which there are
 * more engines.  Negative: not at all. */
static int64_t pad_behind(int64_t in, int64_t before, int64_t seen, int64_t stride, int64_t out)
{
    int64_t fewest = (out - 1) * stride + seen - in - before, most = fewest + stride - 1;
    return before >= fewest && before <= most ? before : most < 0 ? -1 : greatest(fewest, 0);
}

static bool describe_axes(struct dnn_conv *c, const struct conv_plan *p, bool turned)
{
    for (int i = 0; i < c->axes; i++) {
        const struct conv_whole *a = &p->axis[MOST_AXES - c->axes + i];
        int64_t in = turned ? a->out : a->in, out = turned ? a->in : a->out;
        int64_t seen = (a->taps - 1) * a->dilation + 1;
        if ((turned ? a->stride : a->spread) != 1 || seen > MOST_ELEMENTS)
            return false;
        c->stride[i] = turned ? a->spread : a->stride;
        c->dilation[i] = a->dilation;
        c->before[i] = turned ? seen - 1 - a->low : a->low;
        c->behind[i] = pad_behind(in, c->before[i], seen, c->stride[i], out);
        if (c->before[i] < 0 || c->behind[i] < 0)
            return false;
        c->part[X].size[FIRST_AXIS + i] = in;
        c->part[W].size[FIRST_AXIS + i] = a->taps;
        c->part[Y].size[FIRST_AXIS + i] = out;
    }
    return true;
}

static bool describe_parts(struct dnn_conv *c, const struct conv_plan *p, bool turned)
{
    int64_t in = turned ? p->out : p->in, out = turned ? p->in : p->out, work;
    c->part[X].size[0] = c->part[Y].size[0] = p->images;
    c->part[X].size[1] = in * p->groups;
    c->part[Y].size[1] = c->part[W].size[0] = out * p->groups;
    c->part[W].size[1] = in;
    if (!describe_axes(c, p, turned))
        return false;
    dnn_set_steps(c);
    for (int i = 0; i < PARTS; i++)
        if (c->part[i].step[0] > MOST_ELEMENTS / c->part[i].size[0])
            return false;
    work = c->part[Y].size[0] * c->part[Y].step[0] * c->part[W].step[0];
    return work >= CUDNN_LEAST_WORK;
}

/* Do the weights lie as those of the convolution that this one is the derivative of?  Then `at` becomes their first. */
static bool lie_turned(const struct conv_plan *p, mx w, uint64_t *at)
{
    int64_t strides[5], step = p->out, offset = 0;
    conv_strides(w, strides);
    bool yes = p->groups == 1 && (p->out == 1 || strides[0] == 1);
    for (int i = 2; i >= 0; i--) {
        yes = yes && (p->axis[i].taps == 1 || strides[1 + i] == -step);
        offset += (p->axis[i].taps - 1) * strides[1 + i];
        step *= p->axis[i].taps;
    }
    yes = yes && (p->in == 1 || strides[4] == step);
    *at += yes ? (uint64_t)offset * itemsize(w) : 0;
    return yes;
}

static int64_t alignment_of(const void *p, size_t item) { return (uintptr_t)p % 16 ? (int64_t)item : 16; }

static bool plan_work(struct dnn_work *k, const struct run *r, mx x, mx w, mx y, bool of_weights)
{
    struct dnn_conv *c = &k->conv;
    const struct conv_plan *p = &k->plan;
    enum dtype t = (enum dtype)x->dtype;
    int type = cudnn_type_of(t);
    uint64_t weights = gpu_address(r, w);
    memset(k, 0, sizeof *k);
    conv_plan_of(&k->plan, r->args, x, w, y);
    bool dilated = false, strides = false;
    for (int i = 0; i < MOST_AXES; i++) {
        dilated |= p->axis[i].spread != 1;
        strides |= p->axis[i].stride != 1;
    }
    bool lies = !of_weights && !w->row && !strides && lie_turned(p, w, &weights), turned = dilated || lies;
    if (type < 0 || is_ours(p, t, x->ndim - 2, of_weights))
        return false;
    c->gpu = gpu_of(r)->number;
    c->type = type;
    c->axes = (int)greatest(x->ndim - 2, 2);
    if (turned && !dilated && t == DT_float32 && c->axes == 2 && !gpu_tf32()) {
        struct dnn_conv plain = *c; /* where its padding allows that */
        turned = !describe_parts(&plain, p, false);
    }
    c->kind = of_weights ? BY_WEIGHTS : turned ? BY_INPUT : FORWARD;
    k->weights = turned ? lies ? AS_THEY_ARE : TURNED : of_weights || w->row ? AS_THEY_ARE : IN_ROWS;
    k->at[X] = gpu_pointer(r, turned ? y : x);
    k->at[Y] = gpu_pointer(r, turned ? x : y);
    k->at[W] = k->weights == AS_THEY_ARE ? (void *)weights : NULL;
    for (int i = 0; i < PARTS; i++) c->part[i].alignment = alignment_of(k->at[i], dtype_size(t));
    return describe_parts(c, p, turned);
}

/* Between our weights, w, and those of the convolution turned round: to the latter, or back. */
static int copy_turned(const struct run *r, const struct conv_plan *p, mx w, uint64_t turned, bool back)
{
    int64_t ours[5], taps[3] = { p->axis[0].taps, p->axis[1].taps, p->axis[2].taps };
    int64_t line = p->out * taps[2], plane = line * taps[1], channel = plane * taps[0];
    const int shape[] = { (int)p->groups, (int)p->out, (int)taps[0], (int)taps[1], (int)taps[2], (int)p->in };
    enum { N = sizeof shape / sizeof *shape, FIRST_TAP = 2 };
    conv_strides(w, ours);
    int64_t here[N] = { p->out * ours[0], ours[0], ours[1], ours[2], ours[3], ours[4] };
    int64_t there[N] = { p->in * channel, 1, plane, line, p->out, channel };
    int64_t *from = back ? there : here, offset = 0; /* which is read from the last tap on */
    for (int i = 0; i < 3; i++) {
        offset += (taps[i] - 1) * from[FIRST_TAP + i];
        from[FIRST_TAP + i] = -from[FIRST_TAP + i];
    }
    uint64_t weights = gpu_address(r, w), bytes = (uint64_t)offset * itemsize(w);
    struct box b = box_of(itemsize(w), N, shape, back ? here : there, from);
    return gpu_copy_box(r, &b, back ? weights : turned, (back ? turned : weights) + bytes);
}

/* In a copy of the weights where they need one. */
static bool queue_work(const struct run *r, struct dnn_plan *p, struct dnn_work *k, mx w, bool of_weights, int *e)
{
    struct buffer *copy = NULL;
    bool fine = true;
    if (k->weights != AS_THEY_ARE) {
        fine = (copy = buffer_new_on(r->stream, (size_t)w->size * itemsize(w)));
        k->at[W] = fine ? buffer_on(copy, r->stream) : NULL;
    }
    uint64_t weights = (uint64_t)k->at[W];
    if (fine && k->weights == IN_ROWS)
        fine = !gpu_copy_to(r, weights, w);
    if (fine && k->weights == TURNED && !of_weights)
        fine = !copy_turned(r, &k->plan, w, weights, false);
    if (fine)
        fine = !(*e = dnn_run(r, p, PARTS, dnn_conv_ids, k->at));
    if (fine && k->weights == TURNED && of_weights)
        fine = !copy_turned(r, &k->plan, w, weights, true);
    if (copy)
        buffer_release(copy);
    return fine;
}

bool gpu_cudnn_conv(const struct run *r, mx x, mx w, mx y, bool of_weights)
{
    struct dnn_work k;
    int gpu = gpu_of(r)->number, e = 0;
    struct dnn_plan *p = plan_work(&k, r, x, w, y, of_weights) ? dnn_plan_on(gpu, &dnn_convs, &k.conv) : NULL;
    if (!p)
        return false;
    bool done = queue_work(r, p, &k, w, of_weights, &e);
    dnn_let_go(gpu, p, e > 0);
    if (!done)
        mx_error_clear();
    return done;
}
