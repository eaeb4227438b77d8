/* cufft.c: Fourier transforms by cuFFT.
 *
 * A plan is made for a type, lengths, a number of rows and where their elements are, and kept with those that were of
 * use last.  Whoever uses a plan has it for itself, since stream and work area are set in it.  What cuFFT gives an
 * error for is not asked of it again: our kernels do it.  It transforms a few numbers first, so that a version that
 * does not suit the driver is left alone. */
#include "cuda/cufft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"
#include "cuda/gpu.h"
#include "cuda/libraries.h"

static struct cufft fft;
LOCK(calling, LOCK_DEVICE); /* one thread at a time */

static const char *status_text(int status)
{
    switch (status) {
#define X(name, number) \
    case number: return "CUFFT_" #name;
        CUFFT_STATUSES(X)
#undef X
    }
    return "an error of unknown name";
}

/* ---- plans */

struct plan {
    struct plan_of {
        int gpu, type;
        int64_t lines, n, rows;
        struct cufft_side from, to;
    } of; /* equal bytes are equal plans */
    int number;
    bool made;    /* else there is none of that number */
    int status;   /* not 0: cuFFT does not do it */
    size_t bytes; /* of its work area */
    uint64_t used;
};

/* Where the work of all plans of a GPU ends, under the lock: what one queues comes after what others have queued, on
 * whatever stream, so that a plan goes when nothing is under way.  What plans have in common the library does not say:
 * when one went while another's kernels ran, the device was lost by a read from where nothing is. */
static struct cuda_work work[MAX_GPUS];

static void drop_plan(struct plan *p)
{
    if (p->made) {
        cuda_work_await(&work[p->of.gpu]);
        fft.destroy(p->number);
    }
    p->made = false;
}

/* The work area is to be ours: of memory that is kept for what comes next. */
static void make_plan(struct plan *p)
{
    const struct plan_of *of = &p->of;
    int alone = of->lines == 1; /* the last axis */
    long long n[] = { of->lines, of->n }, x[] = { of->lines, of->from.line }, y[] = { of->lines, of->to.line };
    int e = fft.create(&p->number);
    p->made = !e;
    if (!e)
        e = fft.allocates(p->number, 0);
    if (!e)
        e = fft.make(p->number, 2 - alone, n + alone, x + alone, of->from.apart, of->from.row, y + alone, of->to.apart,
                     of->to.row, of->type, of->rows, &p->bytes);
    p->status = e;
    if (e)
        drop_plan(p);
}

static int queue_plan(const struct plan *p, const struct cufft_rows *t, void *area, void *stream)
{
    int e = fft.set_stream(p->number, stream);
    if (!e)
        e = fft.set_area(p->number, area);
    if (e)
        return e;
    switch (t->type) {
    case CUFFT_R2C: return fft.from_real(p->number, t->x, t->y);
    case CUFFT_C2R: return fft.to_real(p->number, t->x, t->y);
    default: return fft.complex(p->number, t->x, t->y, t->direction);
    }
}

static void tell_failure(const struct plan *p)
{
    char lines[24] = "";
    if (p->of.lines > 1)
        snprintf(lines, sizeof lines, "%lld x ", (long long)p->of.lines);
    if (p->status && is_logged(LOG_LIBRARIES))
        fprintf(stderr, "mlx: cufft gave %s on GPU %d for %lld rows of %s%lld\n", status_text(p->status), p->of.gpu,
                (long long)p->of.rows, lines, (long long)p->of.n);
}

/* Those that nobody uses at the moment; an empty one has no type.  Each has tables on the device. */
enum { PLANS = 32 };
static struct plan plans[PLANS];
static uint64_t plans_used;

static struct plan plan_for(int gpu, const struct cufft_rows *t)
{
    return (struct plan){ .of = { gpu, t->type, t->lines, t->n, t->rows, t->from, t->to } };
}

static struct plan take_plan(int gpu, const struct cufft_rows *t)
{
    struct plan p = plan_for(gpu, t);
    lock_take(&calling);
    struct plan *kept = plans;
    while (kept < plans + PLANS && memcmp(&kept->of, &p.of, sizeof p.of)) kept++;
    if (kept < plans + PLANS) {
        p = *kept;
        *kept = (struct plan){ .used = 0 };
    } else {
        make_plan(&p);
        tell_failure(&p);
    }
    lock_give(&calling);
    return p;
}

/* Instead of the one that was not of use for longest.  There may be memory the next time. */
static void keep_plan(struct plan *p)
{
    lock_take(&calling);
    struct plan *place = plans;
    for (int i = 1; i < PLANS; i++)
        if (plans[i].used < place->used)
            place = &plans[i];
    if (p->status)
        drop_plan(p);
    if (p->status != CUFFT_ALLOC_FAILED) {
        drop_plan(place);
        *place = *p;
        place->used = ++plans_used;
    }
    lock_give(&calling);
}

/* ---- opening, once for each GPU */

static const struct cuda_function functions[] = {
#define FFT(name, symbol, args) { symbol, (void **)&fft.name, false },
#include "cuda/cufft.def"
};
static struct cuda_functions library = { CUDA_cufft, functions, sizeof functions / sizeof *functions, CUDA_UNKNOWN };

/* Two rows of 1, 2, 3, 4, as real and as complex numbers, and what they become; from half of that back. */
enum { TRIAL = 4, TRIAL_ROWS = 2, TRIAL_MOST = 2 * TRIAL };
static const struct trial {
    int type, x_floats, y_floats;
    float x[TRIAL_MOST], y[TRIAL_MOST];
} trials[] = {
    { CUFFT_C2C, 8, 8, { 1, 0, 2, 0, 3, 0, 4, 0 }, { 10, 0, -2, 2, -2, 0, -2, -2 } },
    { CUFFT_R2C, 4, 6, { 1, 2, 3, 4 }, { 10, 0, -2, 2, -2, 0 } },
    { CUFFT_C2R, 6, 4, { 10, 0, -2, 2, -2, 0 }, { 4, 8, 12, 16 } },
};

static int run_trial(const struct trial *t, const struct cufft_rows *rows, const struct plan *p, void *stream, float *y)
{
    float x[TRIAL_ROWS * TRIAL_MOST];
    uint64_t area = 0;
    int e = p->status;
    for (int i = 0; i < TRIAL_ROWS; i++) memcpy(x + i * t->x_floats, t->x, (size_t)t->x_floats * sizeof *x);
    if (!e && cu.copy_to_device((uint64_t)rows->x, x, sizeof x, stream))
        e = CUFFT_SETUP_FAILED;
    if (!e && p->bytes && cu.memory_alloc(&area, p->bytes))
        e = CUFFT_ALLOC_FAILED;
    if (!e)
        e = queue_plan(p, rows, (void *)area, stream);
    if (!e && (cu.copy_to_host(y, (uint64_t)rows->y, sizeof x, stream) || cu.stream_wait(stream)))
        e = CUFFT_EXEC_FAILED;
    if (area)
        cu.memory_free(area);
    return e;
}

static const char *try_type(const struct trial *t, int gpu, void *stream, uint64_t memory)
{
    float y[TRIAL_ROWS * TRIAL_MOST] = { 0 };
    int64_t half = TRIAL / 2 + 1, x_length = t->type == CUFFT_C2R ? half : TRIAL,
            y_length = t->type == CUFFT_R2C ? half : TRIAL;
    struct cufft_rows rows = { .type = t->type,
                               .direction = CUFFT_FORWARD,
                               .lines = 1,
                               .n = TRIAL,
                               .rows = TRIAL_ROWS,
                               .from = { 1, x_length, x_length },
                               .to = { 1, y_length, y_length },
                               .x = (float *)memory,
                               .y = (float *)memory + TRIAL_ROWS * TRIAL_MOST };
    struct plan p = plan_for(gpu, &rows);
    make_plan(&p);
    int e = run_trial(t, &rows, &p, stream, y);
    drop_plan(&p);
    if (e)
        return status_text(e);
    for (int i = 0; i < TRIAL_ROWS * t->y_floats; i++)
        if (!(fabsf(y[i] - t->y[i % t->y_floats]) < 1e-4f))
            return "a wrong transform";
    return NULL;
}

/* NULL: it works. */
static const char *try_all(int gpu)
{
    void *stream = NULL;
    uint64_t memory = 0;
    const char *why = status_text(CUFFT_ALLOC_FAILED);
    if (!cu.stream_create(&stream, CUDA_STREAM_NON_BLOCKING) &&
        !cu.memory_alloc(&memory, 2 * TRIAL_ROWS * TRIAL_MOST * sizeof(float))) {
        why = NULL;
        for (size_t i = 0; i < sizeof trials / sizeof *trials && !why; i++)
            why = try_type(&trials[i], gpu, stream, memory);
    }
    if (memory)
        cu.memory_free(memory);
    if (stream)
        cu.stream_destroy(stream);
    return why;
}

bool cufft_works(int gpu)
{
    static struct {
        bool tried, works;
    } on[MAX_GPUS];
    if (!cuda_find(&library))
        return false;
    lock_take(&calling);
    if (!on[gpu].tried) {
        on[gpu].works = cuda_tried(CUDA_cufft, NULL, gpu, try_all(gpu));
        on[gpu].tried = true;
    }
    lock_give(&calling);
    return on[gpu].works;
}

/* ---- transforms */

bool cufft_transform(const struct run *r, const struct cufft_rows *t)
{
    struct gpu_stream *q = gpu_stream(r->stream);
    struct buffer *area = NULL;
    if (!cufft_works(q->gpu->number))
        return false;
    struct plan p = take_plan(q->gpu->number, t);
    bool ready = !p.status;
    if (ready && p.bytes) {
        ready = (area = buffer_new_on(r->stream, p.bytes));
        if (!ready)
            mx_error_clear();
    }
    if (ready) {
        void *stream = gpu_direct(q);
        lock_take(&calling);
        p.status = cuda_work_goes_on(&work[q->gpu->number], stream) ? CUFFT_EXEC_FAILED : 0;
        if (!p.status)
            p.status = queue_plan(&p, t, area ? buffer_on(area, r->stream) : NULL, stream);
        if (cuda_work_ends(&work[q->gpu->number]) && !p.status)
            p.status = CUFFT_EXEC_FAILED;
        lock_give(&calling);
        tell_failure(&p);
    }
    bool done = ready && !p.status;
    keep_plan(&p);
    if (area)
        buffer_release(area);
    return done;
}
