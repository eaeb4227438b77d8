/* solver.c: singular values and eigenvalues of matrices by cuSOLVER.
 *
 * Its matrices run along columns, ours along rows: it sees transposed ones.  A matrix of a batch follows the other.  It
 * is asked about a small matrix first, so that a version that does not suit the driver is left alone. */
#include "cuda/solver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"
#include "cuda/cusolver.h"
#include "cuda/kernels/panels.h"
#include "cuda/libraries.h"
#include "cuda/linalg.h"
#include "ops/linalg.h"

static struct cusolver solver;

static const char *status_text(int status)
{
    switch (status) {
#define X(name, number) \
    case number: return "CUSOLVER_STATUS_" #name;
        CUSOLVER_STATUSES(X)
#undef X
    }
    return "an error of unknown name";
}

/* ---- a matrix, as cuSOLVER has it */

struct problem {
    enum solver_kind kind;
    int type, real; /* of the matrix, and of what is real */
    int vectors;
    int triangle;              /* eigh */
    signed char job[2];        /* svd: of u, of vt */
    int64_t m, n;              /* eigh, eig: n alone */
    void *a, *values, *u, *vt; /* eig: u are the vectors */
    int64_t lda, ldu, ldvt;
    int *info; /* on the device: not 0 where it does not converge */
};

struct room {
    void *device, *host;
    size_t bytes, host_bytes;
};

static int values_type(const struct problem *p) { return p->real == CUSOLVER_R_32F ? CUSOLVER_C_32F : CUSOLVER_C_64F; }

static int ask_room(void *handle, void *params, const struct problem *p, struct room *o)
{
    switch (p->kind) {
    case SOLVER_EIGH:
        return solver.eigh_room(handle, params, p->vectors, p->triangle, p->n, p->type, p->a, p->lda, p->real,
                                p->values, p->type, &o->bytes, &o->host_bytes);
    case SOLVER_SVD:
        return solver.svd_room(handle, params, p->job[0], p->job[1], p->m, p->n, p->type, p->a, p->lda, p->real,
                               p->values, p->type, p->u, p->ldu, p->type, p->vt, p->ldvt, p->type, &o->bytes,
                               &o->host_bytes);
    default:
        return solver.eig_room(handle, params, 0, p->vectors, p->n, p->type, p->a, p->lda, values_type(p), p->values,
                               p->type, NULL, p->n, p->type, p->u, p->ldu, p->type, &o->bytes, &o->host_bytes);
    }
}

static int queue_problem(void *handle, void *params, const struct problem *p, const struct room *o)
{
    switch (p->kind) {
    case SOLVER_EIGH:
        return solver.eigh(handle, params, p->vectors, p->triangle, p->n, p->type, p->a, p->lda, p->real, p->values,
                           p->type, o->device, o->bytes, o->host, o->host_bytes, p->info);
    case SOLVER_SVD:
        return solver.svd(handle, params, p->job[0], p->job[1], p->m, p->n, p->type, p->a, p->lda, p->real, p->values,
                          p->type, p->u, p->ldu, p->type, p->vt, p->ldvt, p->type, o->device, o->bytes, o->host,
                          o->host_bytes, p->info);
    default:
        return solver.eig(handle, params, 0, p->vectors, p->n, p->type, p->a, p->lda, values_type(p), p->values,
                          p->type, NULL, p->n, p->type, p->u, p->ldu, p->type, o->device, o->bytes, o->host,
                          o->host_bytes, p->info);
    }
}

/* ---- opening, once for each GPU */

static struct solver_on {
    void *handle, *params;
    bool opened;
    int status; /* that opening it gave */
    bool tried[SOLVER_KINDS], works[SOLVER_KINDS];
} on[MAX_GPUS];
LOCK(solving, LOCK_DEVICE); /* a handle is one thread's */

static const struct cuda_function functions[] = {
#define SOLVER(name, symbol, args) { symbol, (void **)&solver.name, false },
#define SOLVER_LATER(name, symbol, args) { symbol, (void **)&solver.name, true },
#include "cuda/cusolver.def"
};
static struct cuda_functions library = { CUDA_cusolver, functions, sizeof functions / sizeof *functions, CUDA_UNKNOWN };

/* A matrix of 2 by 2 and the larger of its values, or of a pair the imaginary part of the first. */
static const struct trial {
    float a[4];
    int at;
    float value;
} trials[] = { [SOLVER_EIGH] = { { 2, 1, 1, 2 }, 1, 3 },
               [SOLVER_SVD] = { { 0, 3, 5, 0 }, 0, 5 },
               [SOLVER_EIG] = { { 0, 2, -2, 0 }, 1, 2 } };

static int run_trial(const struct solver_on *s, enum solver_kind kind, void *stream, uint64_t memory, float *value)
{
    enum { VALUES = 16, VECTORS = 32, INFO = 64, ALL = 80 };
    float at_first[ALL] = { 0 }, after[ALL];
    float *x = (float *)memory;
    struct room room = { 0 };
    uint64_t workspace = 0;
    memcpy(at_first, trials[kind].a, sizeof trials[kind].a);
    struct problem p = { .kind = kind, .type = CUSOLVER_R_32F, .real = CUSOLVER_R_32F, .vectors = 1, .m = 2, .n = 2 };
    p.job[0] = p.job[1] = 'A';
    p.a = x;
    p.values = x + VALUES;
    p.u = x + VECTORS;
    p.vt = x + VECTORS + 8;
    p.lda = p.ldu = p.ldvt = 2;
    p.info = (int *)(x + INFO);
    int e = solver.set_stream(s->handle, stream);
    if (!e && cu.copy_to_device(memory, at_first, sizeof at_first, stream))
        e = CUSOLVER_STATUS_MAPPING_ERROR;
    if (!e)
        e = ask_room(s->handle, s->params, &p, &room);
    room.host = mx_try_malloc(room.host_bytes + 1);
    if (!e && (!room.host || (room.bytes && cu.memory_alloc(&workspace, room.bytes))))
        e = CUSOLVER_STATUS_ALLOC_FAILED;
    room.device = (void *)workspace;
    if (!e)
        e = queue_problem(s->handle, s->params, &p, &room);
    if (!e && (cu.copy_to_host(after, memory, sizeof after, stream) || cu.stream_wait(stream)))
        e = CUSOLVER_STATUS_EXECUTION_FAILED;
    *value = e ? 0 : after[VALUES + trials[kind].at];
    if (workspace)
        cu.memory_free(workspace);
    free(room.host);
    return e;
}

/* NULL: it works. */
static const char *try_kind(struct solver_on *s, enum solver_kind kind)
{
    void *stream = NULL;
    uint64_t memory = 0;
    float value = 0;
    int e = CUSOLVER_STATUS_ALLOC_FAILED;
    if (kind == SOLVER_EIG && (!solver.eig || !solver.eig_room))
        return "no such function";
    if (!cu.stream_create(&stream, CUDA_STREAM_NON_BLOCKING) && !cu.memory_alloc(&memory, 512))
        e = run_trial(s, kind, stream, memory, &value);
    if (memory)
        cu.memory_free(memory);
    if (stream)
        cu.stream_destroy(stream);
    return e ? status_text(e) : fabsf(value - trials[kind].value) < 1e-4f ? NULL : "a wrong value";
}

bool solver_works(enum solver_kind kind, int gpu)
{
    static const char *const names[] = { [SOLVER_EIGH] = "eigh", [SOLVER_SVD] = "svd", [SOLVER_EIG] = "eig" };
    struct solver_on *s = &on[gpu];
    if (!cuda_find(&library))
        return false;
    lock_take(&solving);
    if (!s->tried[kind]) {
        s->tried[kind] = true;
        if (!s->opened) {
            s->opened = true;
            s->status = solver.create(&s->handle);
            s->status = s->status ? s->status : solver.params_create(&s->params);
            if (!s->status && solver.set_repeatable)
                s->status = solver.set_repeatable(s->handle, CUSOLVER_REPEATABLE);
        }
        const char *why = s->status ? status_text(s->status) : try_kind(s, kind);
        s->works[kind] = cuda_tried(CUDA_cusolver, names[kind], gpu, why);
    }
    lock_give(&solving);
    return s->works[kind];
}

/* ---- batches */

/* Those of a batch, one after the other, but for matrices in which something is not finite: each with its part of what
 * p has, so many bytes from one to the next. */
struct steps {
    int64_t a, values, u, vt;
};

static int *flags_on_host(const struct work *w)
{
    size_t bytes = (size_t)w->count * sizeof(int32_t);
    struct gpu_stream *q = gpu_stream(w->r->stream);
    int *flags = mx_malloc(bytes);
    if (!flags)
        return NULL;
    int e = cu.copy_to_host(flags, (uint64_t)w->odd, bytes, gpu_direct(q));
    if (!gpu_check(q->gpu, w->r->node->op->name, e ? e : cu.stream_wait(q->stream)))
        return flags;
    free(flags);
    return NULL;
}

static int solve_each(const struct work *w, struct problem p, const struct steps *by, const int *odd,
                      const struct room *room)
{
    struct gpu_stream *q = gpu_stream(w->r->stream);
    struct solver_on *s = &on[q->gpu->number];
    void *stream = gpu_direct(q);
    lock_take(&solving);
    int e = solver.set_stream(s->handle, stream);
    for (int64_t i = 0; i < w->count && !e; i++) {
        struct problem one = p;
        one.a = (char *)p.a + i * by->a;
        one.values = (char *)p.values + i * by->values;
        one.u = p.u ? (char *)p.u + i * by->u : NULL;
        one.vt = p.vt ? (char *)p.vt + i * by->vt : NULL;
        one.info = w->nan + i;
        if (!odd[i])
            e = queue_problem(s->handle, s->params, &one, room);
    }
    lock_give(&solving);
    return e;
}

/* Solves them all; what does not converge is an error, which says what was asked for. */
static int solve(struct work *w, struct problem p, const struct steps *by, const char *asker)
{
    struct gpu_stream *q = gpu_stream(w->r->stream);
    struct solver_on *s = &on[q->gpu->number];
    struct room room = { 0 };
    mx x = w->r->x[0];
    int *odd = flags_on_host(w);
    if (!odd)
        return 1;
    lock_take(&solving);
    int e = ask_room(s->handle, s->params, &p, &room);
    lock_give(&solving);
    room.host = mx_malloc(room.host_bytes + 1);
    room.device = e ? NULL : work_hold(w, (int64_t)room.bytes + 1);
    int failed = !e && (!room.host || !room.device);
    if (!failed && !e)
        e = solve_each(w, p, by, odd, &room);
    if (!failed && !e) {
        int wait = cu.copy_to_host(odd, (uint64_t)w->nan, (size_t)w->count * sizeof *odd, gpu_direct(q));
        failed = gpu_check(q->gpu, w->r->node->op->name, wait ? wait : cu.stream_wait(q->stream));
    }
    for (int64_t i = 0; i < w->count && !failed && !e; i++)
        if (odd[i])
            failed = factor_report(asker, FACTOR_SLOW, x->ndim - 2, x->shape, i);
    if (e) {
        mx_fail_as(MX_RUNTIME,
                   "[linalg.%s] cuSOLVER failed with %s; MLX_CUDA_LIBRARIES=0 in the environment does without it",
                   asker, status_text(e));
        failed = 1;
    }
    free(room.host);
    free(odd);
    return failed;
}

static void set_types(struct problem *p, enum dtype t)
{
    p->type = t == DT_float32 ? CUSOLVER_R_32F : t == DT_float64 ? CUSOLVER_R_64F : CUSOLVER_C_32F;
    p->real = t == DT_float64 ? CUSOLVER_R_64F : CUSOLVER_R_32F;
}

/* NaN for the values of matrices in which something is not finite: n for each. */
static int mark_values(const struct work *w, void *values, int n)
{
    struct work real = *w;
    real.t = linalg_real(w->t);
    real.size = (int64_t)dtype_size(real.t);
    struct part_call c = { .y = values, .x = values, .y_matrix = n, .x_matrix = n, .nan = w->odd, .rows = 1 };
    c.columns = n;
    return work_copy(&real, c);
}

int solver_eigh(const struct run *r, mx x, void *const y[3])
{
    struct work w;
    const struct eigh_args *g = r->args;
    int n = dim(x, -1);
    int64_t each = (int64_t)n * n;
    struct problem p = { .kind = SOLVER_EIGH, .vectors = g->vectors, .n = n, .lda = n, .values = y[0] };
    p.triangle = g->part == PART_LOWER ? CUSOLVER_UPPER : CUSOLVER_LOWER;
    int failed = work_begin(&w, r, x, true);
    struct part_call in = { .x = gpu_pointer(r, x), .rows = n, .columns = n, .part = (int32_t)g->part, .odd = w.odd };
    in.y = p.a = failed ? NULL : work_hold(&w, w.count * each * w.size);
    in.y_row = in.x_row = n;
    in.y_matrix = in.x_matrix = each;
    set_types(&p, w.t);
    struct steps by = { .a = each * w.size, .values = n * (int64_t)dtype_size(linalg_real(w.t)) };
    failed = !p.a || work_copy(&w, in) || solve(&w, p, &by, g->vectors ? "eigh" : "eigvalsh") ||
             mark_values(&w, p.values, n);
    if (!failed && g->vectors) { /* those of the conjugate, as rows */
        struct part_call out = in;
        out.x = p.a;
        out.y = y[1];
        out.part = LINALG_ALL;
        out.turned = PART_ADJOINT;
        out.odd = NULL;
        out.nan = w.odd;
        failed = work_copy(&w, out);
    }
    return work_end(&w, failed);
}

/* A's transpose, which is what it sees of rows, is U' s V'^H, and A the transpose of V'^H times s times that of U': so
 * where it takes it, which has to be tall, the results are in their places.  Else all is turned. */
int solver_svd(const struct run *r, mx x, enum svd_mode mode, void *const y[3], const char *asker)
{
    struct work w;
    int m = dim(x, -2), n = dim(x, -1), tall = (int)greatest(m, n), k = (int)least(m, n);
    int columns = mode == SVD_FULL ? tall : k;
    bool vectors = mode != SVD_VALUES, turned = m > n;
    int64_t each = (int64_t)m * n;
    struct problem p = { .kind = SOLVER_SVD, .m = tall, .n = k, .lda = tall, .ldu = tall, .ldvt = k };
    p.job[0] = vectors ? mode == SVD_FULL ? 'A' : 'S' : 'N';
    p.job[1] = vectors ? 'A' : 'N';
    int failed = work_begin(&w, r, x, true);
    struct part_call in = { .x = gpu_pointer(r, x), .odd = w.odd, .rows = k, .columns = tall };
    in.turned = turned ? PART_TRANSPOSED : PART_AS_IT_IS;
    in.y = p.a = failed ? NULL : work_hold(&w, w.count * each * w.size);
    in.y_row = tall;
    in.x_row = n;
    in.y_matrix = in.x_matrix = each;
    p.values = y[vectors];
    set_types(&p, w.t);
    struct steps by = { .a = each * w.size, .values = k * (int64_t)dtype_size(linalg_real(w.t)) };
    by.u = (int64_t)tall * columns * w.size;
    by.vt = (int64_t)k * k * w.size;
    if (vectors && p.a) {
        p.u = turned ? work_hold(&w, w.count * by.u) : y[2];
        p.vt = turned ? work_hold(&w, w.count * by.vt) : y[0];
    }
    failed = !p.a || (vectors && (!p.u || !p.vt)) || work_copy(&w, in) || solve(&w, p, &by, asker) ||
             mark_values(&w, p.values, k);
    if (!failed && vectors) {
        struct part_call left = { .y = turned ? y[0] : p.u, .x = p.u, .nan = w.odd, .rows = columns, .columns = tall };
        struct part_call right = { .y = turned ? y[2] : p.vt, .x = p.vt, .nan = w.odd, .rows = k, .columns = k };
        if (turned) {
            left.rows = tall;
            left.columns = columns;
            left.turned = right.turned = PART_TRANSPOSED;
        }
        left.x_row = tall;
        left.y_row = left.columns;
        right.x_row = right.y_row = k;
        left.x_matrix = left.y_matrix = (int64_t)tall * columns;
        right.x_matrix = right.y_matrix = (int64_t)k * k;
        failed = work_copy(&w, left) || work_copy(&w, right);
    }
    return work_end(&w, failed);
}

/* Of small matrices one after the other takes longer than the CPU. */
bool gpu_takes_eig(const struct node *n)
{
    return gpu_takes_matrices(n) && !gpu_takes_small_matrices(n) && solver_works(SOLVER_EIG, n->stream->device.index);
}

int gpu_run_eig(const struct run *r)
{
    struct work w;
    bool vectors = ((const struct eig_args *)r->args)->vectors;
    mx x = r->x[0];
    mx_own hold[1] = { 0 };
    int n = dim(x, -1);
    int64_t each = (int64_t)n * n;
    struct problem p = { .kind = SOLVER_EIG, .vectors = vectors, .n = n, .lda = n, .ldu = n };
    for (int i = 0; i < r->nout; i++)
        if (gpu_out_new(r, i))
            return 1;
    if (r->y[0]->size == 0)
        return 0;
    int failed = !gpu_all_row_major(r, 1, &x, hold) || work_begin(&w, r, x, true);
    if (failed) {
        gpu_drop(1, hold);
        return 1;
    }
    set_types(&p, w.t);
    struct steps by = { .a = each * w.size, .values = 2 * n * (int64_t)dtype_size(linalg_real(w.t)) };
    by.u = vectors ? by.a : 0;
    struct part_call in = { .x = gpu_pointer(r, x), .odd = w.odd, .rows = n, .columns = n, .turned = PART_TRANSPOSED };
    in.y = p.a = work_hold(&w, w.count * by.a);
    in.y_row = in.x_row = n;
    in.y_matrix = in.x_matrix = each;
    p.values = work_hold(&w, w.count * by.values);
    p.u = vectors ? work_hold(&w, w.count * by.u) : NULL;
    struct eigen_call values = { .y = gpu_pointer(r, r->y[0]), .values = p.values, .nan = w.odd, .n = n };
    struct eigen_call columns = values;
    columns.y = vectors ? gpu_pointer(r, r->y[1]) : NULL;
    columns.vectors = p.u;
    failed = !p.a || !p.values || (vectors && !p.u) || work_copy(&w, in) ||
             solve(&w, p, &by, vectors ? "eig" : "eigvals") || work_eigen(&w, values) ||
             (vectors && work_eigen(&w, columns));
    gpu_drop(1, hold);
    return work_end(&w, failed);
}
