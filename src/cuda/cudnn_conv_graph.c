/* cudnn_conv_graph.c: see cudnn_conv_graph.h.  A convolution is a graph of one operation: itself, or its derivative by
 * the input or by the weights. */
#include "cuda/cudnn_conv_graph.h"

#include "cuda/gpu.h"

void dnn_set_steps(struct dnn_conv *c)
{
    for (int i = 0; i < PARTS; i++) {
        struct dnn_part *p = &c->part[i];
        int64_t step = p->size[1];
        p->step[1] = 1;
        for (int k = FIRST_AXIS + c->axes - 1; k >= FIRST_AXIS; step *= p->size[k--]) p->step[k] = step;
        p->step[0] = step;
    }
}

const int64_t dnn_conv_ids[PARTS] = { X + 1, W + 1, Y + 1 };

static void *describe_part(struct dnn_made *m, const struct dnn_conv *c, int part)
{
    const struct dnn_part *p = &c->part[part];
    struct dnn_tensor t = {
        dnn_conv_ids[part], p->alignment, c->type, FIRST_AXIS + c->axes, false, false, { 0 }, { 0 }
    };
    for (int i = 0; i < t.n; i++) {
        t.size[i] = p->size[i];
        t.step[i] = p->step[i];
    }
    return dnn_tensor(m, &t);
}

static void *describe_geometry(struct dnn_made *m, const struct dnn_conv *c)
{
    const int mode = CUDNN_CROSS_CORRELATION, sums = CUDNN_FLOAT;
    void *d = dnn_begin(m, CUDNN_CONV);
    dnn_set_number(m, d, CUDNN_CONV_AXES, c->axes);
    dnn_set(m, d, CUDNN_CONV_TYPE, CUDNN_IS_TYPE, 1, &sums);
    dnn_set(m, d, CUDNN_CONV_MODE, CUDNN_IS_CONV_MODE, 1, &mode);
    dnn_set(m, d, CUDNN_CONV_DILATIONS, CUDNN_IS_INT64, c->axes, c->dilation);
    dnn_set(m, d, CUDNN_CONV_STRIDES, CUDNN_IS_INT64, c->axes, c->stride);
    dnn_set(m, d, CUDNN_CONV_BEFORE, CUDNN_IS_INT64, c->axes, c->before);
    dnn_set(m, d, CUDNN_CONV_BEHIND, CUDNN_IS_INT64, c->axes, c->behind);
    dnn_finish(m, d);
    return d;
}

static int describe(struct dnn_made *m, const void *of, void *operations[DNN_OPERATIONS])
{
    static const int kinds[] = { CUDNN_FORWARD, CUDNN_BY_INPUT, CUDNN_BY_WEIGHTS };
    static const int first[] = { CUDNN_OF_FORWARD, CUDNN_OF_BY_INPUT, CUDNN_OF_BY_WEIGHTS };
    static const int which[PARTS] = { [X] = CUDNN_X, [W] = CUDNN_W, [Y] = CUDNN_Y };
    const struct dnn_conv *c = of;
    const float one = 1, zero = 0;
    int at = first[c->kind];
    void *parts[PARTS], *geometry = describe_geometry(m, c);
    for (int i = 0; i < PARTS; i++) parts[i] = describe_part(m, c, i);
    void *d = dnn_begin(m, kinds[c->kind]);
    dnn_set_part(m, d, at + CUDNN_GEOMETRY, geometry);
    for (int i = 0; i < PARTS; i++) dnn_set_part(m, d, at + which[i], parts[i]);
    dnn_set(m, d, at + CUDNN_ALPHA, CUDNN_IS_FLOAT, 1, &one);
    dnn_set(m, d, at + CUDNN_BETA, CUDNN_IS_FLOAT, 1, &zero);
    dnn_finish(m, d);
    operations[0] = d;
    return 1;
}

/* The same bits each time; sums of half types in float32; of float32 all bits, unless it is said that they need not
 * be; and products as they are: what transforms tiles, as Winograd's algorithm does, has ten times the error, and makes
 * neighbours of what is not finite NaN. */
static uint32_t never(const void *of)
{
    const uint32_t rounded = 1 << CUDNN_NOTE_TENSOR_CORE | 1 << CUDNN_NOTE_DOWN_CONVERTED;
    const uint32_t all = 1 << CUDNN_NOTE_NONDETERMINISTIC | 1 << CUDNN_NOTE_REDUCED_SUMS | CUDNN_NOTES_OF_TRANSFORMS;
    return ((const struct dnn_conv *)of)->type == CUDNN_FLOAT && !gpu_tf32() ? all | rounded : all;
}

static void name(const void *of, FILE *to)
{
    static const char *const kinds[] = { "a convolution", "one's derivative by the input",
                                         "one's derivative by the weights" };
    const struct dnn_conv *c = of;
    fprintf(to, "%s of %s", kinds[c->kind], cudnn_type_name(c->type));
    for (int i = 0; i < 2; i++) {
        fputs(i ? " and (" : ", (", to);
        for (int k = 0; k < FIRST_AXIS + c->axes; k++)
            fprintf(to, "%s%lld", k ? ", " : "", (long long)c->part[i].size[k]);
        fputc(')', to);
    }
}

const struct dnn_kind dnn_convs = { sizeof(struct dnn_conv), describe, never, name, NULL, NULL };
