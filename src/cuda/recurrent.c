/* recurrent.c: recurrent layers on a GPU: a launch for each step, queued one after the other.
 *
 * Steps are short, so what counts is that the host builds nothing on the way: arguments change in the step's number and
 * in where the state before it is. */
#include "cuda/kernels/recurrent.h"

#include "core/scope.h"
#include "core/shape.h"
#include "cuda/gpu.h"
#include "ops/recurrent.h"

enum { OPERANDS = 6 };

/* How many units a block has, and columns at once. */
static void lay_out(struct recurrent_call *c, const struct gpu *g, size_t size)
{
    bool large = g->major >= 8; /* 99 KiB for a block */
    uint64_t low = (uint64_t)c->w | (uint64_t)c->before | (uint64_t)c->y[0] | (uint64_t)c->inputs * size;
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

/* All steps, each of what the one before it left in results 0 and 1. */
static int launch_steps(const struct run *r, void *kernel, struct recurrent_call *c, size_t size)
{
    int failed = 0;
    lay_out(c, gpu_of(r), size);
    for (int64_t i = 0; i < c->steps && !failed; i++) {
        c->t = c->kind == RECURRENT_STEP_BACK ? c->steps - 1 - i : i;
        failed = launch_step(r, kernel, c, size);
        c->before = further(c->y[0], c->t * c->inputs, size);
        c->apart = c->steps * c->inputs;
        c->cell = c->y[1] ? further(c->y[1], c->t * c->width, size) : NULL; /* which steps back do not read */
        c->cell_apart = c->steps * c->width;
    }
    return failed;
}

/* The first step of row-major operands, whose results are there, but for what launch_steps puts into it. */
typedef struct recurrent_call call_fn(const struct run *r, const mx x[], int results);

/* The first so many results of operands x, which become row-major ones. */
static int run_steps(const struct run *r, mx x[], int results, call_fn *call_of)
{
    static struct gpu_found found[DT_COUNT];
    enum dtype t = (enum dtype)r->y[0]->dtype;
    mx_own hold[OPERANDS] = { 0 };
    void *kernel = gpu_find(gpu_of(r), &found[t], "recurrent", "recurrent", t);
    if (!kernel)
        return 1;
    for (int k = 0; k < results; k++)
        if (gpu_out_new(r, k))
            return 1;
    if (r->y[0]->size == 0)
        return 0;
    int failed = !gpu_all_row_major(r, r->nin, x, hold);
    if (!failed) {
        struct recurrent_call c = call_of(r, x, results);
        failed = launch_steps(r, kernel, &c, dtype_size(t));
    }
    gpu_drop(OPERANDS, hold);
    return failed;
}

static struct recurrent_call call_of_steps(const struct run *r, const mx x[], int results)
{
    const struct recurrent_args *a = r->args;
    int hidden = 2 + a->bias, cell = hidden + a->hidden, states = r->nout - 1;
    return (struct recurrent_call){ .kind = (int32_t)a->kind,
                                    .x = gpu_pointer(r, x[0]),
                                    .w = gpu_pointer(r, x[1]),
                                    .bias = a->bias ? gpu_pointer(r, x[2]) : NULL,
                                    .before = a->hidden ? gpu_pointer(r, x[hidden]) : NULL,
                                    .cell = a->cell ? gpu_pointer(r, x[cell]) : NULL,
                                    .y = { gpu_pointer(r, r->y[0]), states > 1 ? gpu_pointer(r, r->y[1]) : NULL },
                                    .pre = results > states ? gpu_pointer(r, r->y[states]) : NULL,
                                    .apart = dim(x[1], 1),
                                    .cell_apart = dim(x[1], 1),
                                    .sequences = dim(x[0], 0),
                                    .steps = dim(x[0], 1),
                                    .width = dim(x[1], 1),
                                    .inputs = dim(x[1], 1),
                                    .groups = recurrent_gates(a->kind),
                                    .gates = recurrent_gates(a->kind) };
}

int gpu_run_recurrent(const struct run *r)
{
    mx x[OPERANDS];
    int states = r->nout - 1;
    bool wanted = !result_unwanted(r->node, r->keep, r->y[states]);
    for (int i = 0; i < r->nin; i++) x[i] = r->x[i];
    return run_steps(r, x, states + wanted, call_of_steps);
}

/* ---- back */

enum { W, CT, SLOPE, MORE, SEEN, KEEP };

static struct recurrent_call call_of_steps_back(const struct run *r, const mx x[], int results)
{
    const struct recurrent_back_args *a = r->args;
    bool lstm = a->kind == RECURRENT_LSTM;
    return (struct recurrent_call){ .kind = RECURRENT_STEP_BACK,
                                    .w = gpu_pointer(r, x[W]),
                                    .ct = gpu_pointer(r, x[CT]),
                                    .x = gpu_pointer(r, x[SLOPE]),
                                    .ct_cell = lstm ? gpu_pointer(r, x[MORE]) : NULL,
                                    .seen = lstm ? gpu_pointer(r, x[SEEN]) : NULL,
                                    .keep = a->kind ? gpu_pointer(r, x[lstm ? KEEP : MORE]) : NULL,
                                    .y = { gpu_pointer(r, r->y[0]), results > 1 ? gpu_pointer(r, r->y[1]) : NULL },
                                    .sequences = dim(x[CT], 0),
                                    .steps = dim(x[CT], 1),
                                    .width = dim(x[CT], 2),
                                    .inputs = dim(x[W], 1),
                                    .groups = 1,
                                    .gates = recurrent_gates(a->kind) };
}

/* Its columns as rows; MX_NIL after mx_fail. */
static mx turned(mx w)
{
    mx t = array_alias(w);
    if (is_nil(t))
        return t;
    for (int d = 0; d < 2; d++) {
        t->strides[d] = w->strides[1 - d];
        t->shape[d] = dim(w, 1 - d);
    }
    array_note_layout(t);
    return t;
}

int gpu_run_recurrent_back(const struct run *r)
{
    MX_SCOPE(NULL);
    mx x[OPERANDS] = { 0 };
    for (int i = 0; i < r->nin; i++) x[i] = i == W ? turned(r->x[W]) : r->x[i];
    return is_nil(x[W]) || run_steps(r, x, r->nout, call_of_steps_back);
}
