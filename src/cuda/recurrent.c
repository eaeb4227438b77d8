/* recurrent.c: recurrent layers on a GPU: a launch for each step, queued one after the other.
 *
 * Steps are short, so what counts is that the host builds nothing on the way: arguments change in the step's number and
 * in where the state before it is. */
#include "cuda/kernels/recurrent.h"

#include "core/scope.h"
#include "core/shape.h"
#include "cuda/gpu.h"
#include "ops/recurrent.h"

/* How many units a block has, and columns at once. */
static void lay_out(struct recurrent_call *c, const struct gpu *g, size_t size)
{
    bool large = g->major >= 8; /* 99 KiB for a block */
    uint64_t low = (uint64_t)c->w | (uint64_t)c->inputs * size;
    c->units = RECURRENT_ROWS / c->groups;
    c->unit_blocks = (int32_t)ceil_div(c->width, c->units);
    c->piece = (int32_t)((large ? RECURRENT_PIECE : RECURRENT_SMALL_PIECE) / size);
    c->whole = low % 16 == 0 && c->inputs % 4 == 0;
}

static int launch_step(const struct run *r, void *kernel, struct recurrent_call *c, size_t size)
{
    size_t columns = RECURRENT_COLUMN_BYTES((size_t)c->piece * size);
    size_t sums = RECURRENT_SUM_BYTES(size == 8 ? (size_t)8 : (size_t)4);
    int64_t blocks = c->unit_blocks * ceil_div(c->sequences, RECURRENT_SEQUENCES);
    return gpu_launch_shared(r->stream, r->node->op->name, kernel, blocks, RECURRENT_THREADS,
                             columns > sums ? columns : sums, (void *[]){ c });
}

static const void *further(const void *x, int64_t n, size_t size) { return (const char *)x + n * (int64_t)size; }

int gpu_run_recurrent(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    enum { OPERANDS = 4 };
    const struct recurrent_args *a = r->args;
    enum dtype t = (enum dtype)r->y[0]->dtype;
    struct gpu *g = gpu_of(r);
    size_t size = dtype_size(t);
    mx x[OPERANDS];
    mx_own hold[OPERANDS] = { 0 };
    void *kernel = gpu_find(g, &found[t], "recurrent", "recurrent", t);
    int states = r->nout - 1;
    bool wanted = !result_unwanted(r->node, r->keep, r->y[states]);
    if (!kernel || gpu_out_new(r, 0) || (states > 1 && gpu_out_new(r, 1)) || (wanted && gpu_out_new(r, states)))
        return 1;
    if (r->y[0]->size == 0)
        return 0;
    for (int i = 0; i < r->nin; i++) x[i] = r->x[i];
    bool failed = !gpu_all_row_major(r, r->nin, x, hold);
    if (!failed) {
        int hidden = 2 + a->bias, cell = hidden + a->hidden;
        struct recurrent_call c = { .kind = (int32_t)a->kind,
                                    .x = gpu_pointer(r, x[0]),
                                    .w = gpu_pointer(r, x[1]),
                                    .bias = a->bias ? gpu_pointer(r, x[2]) : NULL,
                                    .hidden = a->hidden ? gpu_pointer(r, x[hidden]) : NULL,
                                    .cell = a->cell ? gpu_pointer(r, x[cell]) : NULL,
                                    .sequences = dim(x[0], 0),
                                    .steps = dim(x[0], 1),
                                    .width = dim(x[1], 1),
                                    .inputs = dim(x[1], 1),
                                    .groups = recurrent_gates(a->kind),
                                    .gates = recurrent_gates(a->kind) };
        c.hidden_apart = c.cell_apart = c.width;
        for (int k = 0; k < states; k++) c.y[k] = gpu_pointer(r, r->y[k]);
        c.pre = wanted ? gpu_pointer(r, r->y[states]) : NULL;
        lay_out(&c, g, size);
        c.whole = c.whole && (uint64_t)c.hidden % 16 == 0 && (uint64_t)c.y[0] % 16 == 0;
        for (c.t = 0; c.t < c.steps && !failed; c.t++) {
            c.before = c.hidden;
            c.apart = c.hidden_apart;
            failed = launch_step(r, kernel, &c, size);
            c.hidden_apart = c.cell_apart = c.steps * c.width;
            c.hidden = further(c.y[0], c.t * c.width, size);
            c.cell = c.y[1] ? further(c.y[1], c.t * c.width, size) : NULL;
        }
    }
    gpu_drop(OPERANDS, hold);
    return failed;
}

int gpu_run_recurrent_back(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    enum { W, CT, SLOPE, MORE, SEEN, KEEP, OPERANDS };
    const struct recurrent_back_args *a = r->args;
    enum dtype t = (enum dtype)r->y[0]->dtype;
    struct gpu *g = gpu_of(r);
    size_t size = dtype_size(t);
    mx x[OPERANDS];
    mx_own hold[OPERANDS] = { 0 };
    void *kernel = gpu_find(g, &found[t], "recurrent", "recurrent", t);
    if (!kernel || gpu_out_new(r, 0) || (r->nout > 1 && gpu_out_new(r, 1)))
        return 1;
    if (r->y[0]->size == 0)
        return 0;
    MX_SCOPE(NULL);
    bool lstm = a->kind == RECURRENT_LSTM;
    for (int i = 0; i < r->nin; i++) x[i] = r->x[i];
    /* Columns of the weights are its rows here. */
    mx turned = x[W] = array_alias(r->x[W]);
    if (!is_nil(turned)) {
        int64_t stride = turned->strides[0];
        turned->strides[0] = turned->strides[1];
        turned->strides[1] = stride;
        turned->shape[0] = dim(r->x[W], 1);
        turned->shape[1] = dim(r->x[W], 0);
        array_note_layout(turned);
    }
    bool failed = is_nil(turned) || !gpu_all_row_major(r, r->nin, x, hold);
    if (!failed) {
        struct recurrent_call c = { .kind = RECURRENT_STEP_BACK,
                                    .gates = recurrent_gates(a->kind),
                                    .w = gpu_pointer(r, x[W]),
                                    .ct = gpu_pointer(r, x[CT]),
                                    .x = gpu_pointer(r, x[SLOPE]),
                                    .ct_cell = lstm ? gpu_pointer(r, x[MORE]) : NULL,
                                    .seen = lstm ? gpu_pointer(r, x[SEEN]) : NULL,
                                    .keep = a->kind ? gpu_pointer(r, x[lstm ? KEEP : MORE]) : NULL,
                                    .sequences = dim(x[CT], 0),
                                    .steps = dim(x[CT], 1),
                                    .width = dim(x[CT], 2),
                                    .inputs = dim(x[W], 1),
                                    .groups = 1 };
        for (int k = 0; k < r->nout; k++) c.y[k] = gpu_pointer(r, r->y[k]);
        c.apart = c.steps * c.inputs;
        lay_out(&c, g, size);
        c.whole = c.whole && (uint64_t)c.y[0] % 16 == 0;
        for (c.t = c.steps - 1; c.t >= 0 && !failed; c.t--) {
            failed = launch_step(r, kernel, &c, size);
            c.before = further(c.y[0], c.t * c.inputs, size);
        }
    }
    gpu_drop(OPERANDS, hold);
    return failed;
}
