/* solver.c: singular values and eigenvalues of matrices by cuSOLVER, and how it is called for factors
 * (solver_factors.c).
 *
 * Its matrices run along columns, ours along rows: it sees transposed ones.  A matrix of a batch follows the other.  It
 * is asked about a small matrix first, so that a version that does not suit the driver is left alone. */
#include "cuda/solver.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"
#include "cuda/kernels/panels.h"
#include "cuda/libraries.h"
#include "cuda/linalg.h"
#include "cuda/solver_problem.h"
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

static int values_type(const struct problem *p) { return p->real == CUSOLVER_R_32F ? CUSOLVER_C_32F : CUSOLVER_C_64F; }

/* Which of the functions of a type. */
static int place_of(const struct problem *p)
{
    return p->type == CUSOLVER_R_32F ? 0 : p->type == CUSOLVER_R_64F ? 1 : 2;
}
static size_t bytes_each(const struct problem *p) { return p->type == CUSOLVER_R_32F ? 4 : 8; }

static int ask_room(void *handle, void *params, const struct problem *p, struct room *o)
{
    int at = place_of(p), k = (int)least(p->m, p->n), e;
    switch (p->kind) {
    case SOLVER_EIGH:
        return solver.eigh_room(handle, params, p->vectors, p->triangle, p->n, p->type, p->a, p->lda, p->real,
                                p->values, p->type, &o->bytes, &o->host_bytes);
    case SOLVER_SVD:
        return solver.svd_room(handle, params, p->job[0], p->job[1], p->m, p->n, p->type, p->a, p->lda, p->real,
                               p->values, p->type, p->u, p->ldu, p->type, p->vt, p->ldvt, p->type, &o->bytes,
                               &o->host_bytes);
    case SOLVER_EIG:
        return solver.eig_room(handle, params, 0, p->vectors, p->n, p->type, p->a, p->lda, values_type(p), p->values,
                               p->type, NULL, p->n, p->type, p->u, p->ldu, p->type, &o->bytes, &o->host_bytes);
    case SOLVER_CHOLESKY:
        return solver.cholesky_room(handle, params, p->triangle, p->n, p->type, p->a, p->lda, p->type, &o->bytes,
                                    &o->host_bytes);
    case SOLVER_QR:
        e = solver.qr_room(handle, params, p->m, p->n, p->type, p->a, p->lda, p->type, p->values, p->type, &o->bytes,
                           &o->host_bytes);
        if (!e)
            e = solver.q_room[at](handle, (int)p->m, k, k, p->a, (int)p->lda, p->values, &o->elements);
        break;
    case SOLVER_JACOBI:
        e = solver.jacobi_room[at](handle, p->vectors, p->thin, (int)p->m, (int)p->n, p->a, (int)p->lda, p->values,
                                   p->u, (int)p->ldu, p->vt, (int)p->ldvt, &o->elements, o->jacobi);
        break;
    default: /* SOLVER_LU */ e = solver.lu_room[at](handle, (int)p->m, (int)p->n, p->a, (int)p->lda, &o->elements);
    }
    if (!e && o->bytes < (size_t)o->elements * bytes_each(p))
        o->bytes = (size_t)o->elements * bytes_each(p);
    return e;
}

static int queue_problem(void *handle, void *params, const struct problem *p, const struct room *o)
{
    int at = place_of(p), e;
    switch (p->kind) {
    case SOLVER_EIGH:
        return solver.eigh(handle, params, p->vectors, p->triangle, p->n, p->type, p->a, p->lda, p->real, p->values,
                           p->type, o->device, o->bytes, o->host, o->host_bytes, p->info);
    case SOLVER_SVD:
        return solver.svd(handle, params, p->job[0], p->job[1], p->m, p->n, p->type, p->a, p->lda, p->real, p->values,
                          p->type, p->u, p->ldu, p->type, p->vt, p->ldvt, p->type, o->device, o->bytes, o->host,
                          o->host_bytes, p->info);
    case SOLVER_EIG:
        return solver.eig(handle, params, 0, p->vectors, p->n, p->type, p->a, p->lda, values_type(p), p->values,
                          p->type, NULL, p->n, p->type, p->u, p->ldu, p->type, o->device, o->bytes, o->host,
                          o->host_bytes, p->info);
    case SOLVER_CHOLESKY:
        return solver.cholesky(handle, params, p->triangle, p->n, p->type, p->a, p->lda, p->type, o->device, o->bytes,
                               o->host, o->host_bytes, p->info);
    case SOLVER_QR:
        return solver.qr(handle, params, p->m, p->n, p->type, p->a, p->lda, p->type, p->values, p->type, o->device,
                         o->bytes, o->host, o->host_bytes, p->info);
    case SOLVER_Q:
        return solver.q[at](handle, (int)p->m, (int)p->n, (int)p->n, p->a, (int)p->lda, p->values, o->device,
                            o->elements, p->info);
    case SOLVER_JACOBI:
        return solver.jacobi[at](handle, p->vectors, p->thin, (int)p->m, (int)p->n, p->a, (int)p->lda, p->values, p->u,
                                 (int)p->ldu, p->vt, (int)p->ldvt, o->device, o->elements, p->info, o->jacobi);
    default: /* SOLVER_LU */
        e = solver.lu[at](handle, (int)p->m, (int)p->n, p->a, (int)p->lda, o->device, p->values, p->info);
        return e || !p->k ? e
                          : solver.by_lu[at](handle, CUSOLVER_AS_IT_IS, (int)p->n, (int)p->k, p->a, (int)p->lda,
                                             p->values, p->u, (int)p->ldu, p->other_info);
    }
}

/* ---- opening, once for each GPU */

static struct solver_on {
    void *handle, *params;
    void *jacobi[2]; /* for float32, for float64 */
    bool opened;
    int status; /* that opening it gave */
    bool tried[SOLVER_KINDS], works[SOLVER_KINDS];
} on[MAX_GPUS];
LOCK(solving, LOCK_DEVICE); /* a handle is one thread's */

static const struct cuda_function functions[] = {
#define SOLVER(name, symbol, args) { symbol, (void **)&solver.name, false },
#define SOLVER_LATER(name, symbol, args) { symbol, (void **)&solver.name, true },
#define SOLVER_TYPES(name, of_float32, of_float64, of_complex64, args)                              \
    { of_float32, (void **)&solver.name[0], true }, { of_float64, (void **)&solver.name[1], true }, \
        { of_complex64, (void **)&solver.name[2], true },
#include "cuda/cusolver.def"
};
static struct cuda_functions library = { CUDA_cusolver, functions, sizeof functions / sizeof *functions, CUDA_UNKNOWN };

/* A matrix of 2 by 2, and a right side for LU; where a number is then, and which.  The larger of its values, or of a
 * pair the imaginary part of the first; a diagonal element; Q's first, which tells LAPACK's signs from others; a
 * solution. */
enum { TRIAL_VALUES = 16, TRIAL_VECTORS = 32, TRIAL_INFO = 64, TRIAL_ALL = 80 };
static const struct trial {
    float a[4], b[2];
    int at;
    float value;
} trials[] = { [SOLVER_EIGH] = { { 2, 1, 1, 2 }, { 0 }, TRIAL_VALUES + 1, 3 },
               [SOLVER_SVD] = { { 0, 3, 5, 0 }, { 0 }, TRIAL_VALUES, 5 },
               [SOLVER_EIG] = { { 0, 2, -2, 0 }, { 0 }, TRIAL_VALUES + 1, 2 },
               [SOLVER_CHOLESKY] = { { 4, 2, 2, 5 }, { 0 }, 3, 2 },
               [SOLVER_LU] = { { 0, 2, 4, 6 }, { 4, 14 }, TRIAL_VECTORS, 4 },
               [SOLVER_QR] = { { 3, 4, 0, 1 }, { 0 }, 0, -0.6f },
               [SOLVER_JACOBI] = { { 0, 3, 5, 0 }, { 0 }, TRIAL_VALUES, 5 } };

static int run_trial(const struct solver_on *s, enum solver_kind kind, void *stream, uint64_t memory, float *value)
{
    float at_first[TRIAL_ALL] = { 0 }, after[TRIAL_ALL];
    float *x = (float *)memory;
    struct room room = { .jacobi = s->jacobi[0] };
    uint64_t workspace = 0;
    memcpy(at_first, trials[kind].a, sizeof trials[kind].a);
    memcpy(at_first + TRIAL_VECTORS, trials[kind].b, sizeof trials[kind].b);
    struct problem p = { .kind = kind, .type = CUSOLVER_R_32F, .real = CUSOLVER_R_32F, .vectors = 1, .m = 2, .n = 2 };
    p.job[0] = p.job[1] = 'A';
    p.k = 1;
    p.a = x;
    p.values = x + TRIAL_VALUES;
    p.u = x + TRIAL_VECTORS;
    p.vt = x + TRIAL_VECTORS + 8;
    p.lda = p.ldu = p.ldvt = 2;
    p.info = (int *)(x + TRIAL_INFO);
    p.other_info = p.info + 1;
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
    if (!e && kind == SOLVER_QR) {
        p.kind = SOLVER_Q;
        e = queue_problem(s->handle, s->params, &p, &room);
    }
    if (!e && (cu.copy_to_host(after, memory, sizeof after, stream) || cu.stream_wait(stream)))
        e = CUSOLVER_STATUS_EXECUTION_FAILED;
    *value = e ? 0 : after[trials[kind].at];
    if (workspace)
        cu.memory_free(workspace);
    free(room.host);
    return e;
}

/* Are its functions there?  Jacobi's parameters are made with the first use. */
static bool has_functions(struct solver_on *s, enum solver_kind kind)
{
    bool all = true;
    switch (kind) {
    case SOLVER_EIG: return solver.eig && solver.eig_room;
    case SOLVER_CHOLESKY: return solver.cholesky && solver.cholesky_room;
    case SOLVER_LU:
        for (int i = 0; i < 3; i++) all = all && solver.lu[i] && solver.lu_room[i] && solver.by_lu[i];
        return all;
    case SOLVER_QR:
        for (int i = 0; i < 3; i++) all = all && solver.q[i] && solver.q_room[i];
        return all && solver.qr && solver.qr_room;
    case SOLVER_JACOBI:
        for (int i = 0; i < 3; i++) all = all && solver.jacobi[i] && solver.jacobi_room[i];
        all = all && solver.jacobi_create && solver.jacobi_tolerance;
        for (int i = 0; i < 2; i++)
            all = all && !solver.jacobi_create(&s->jacobi[i]) &&
                  !solver.jacobi_tolerance(s->jacobi[i], i ? DBL_EPSILON : FLT_EPSILON);
        return all;
    default: return true;
    }
}

/* NULL: it works. */
static const char *try_kind(struct solver_on *s, enum solver_kind kind)
{
    void *stream = NULL;
    uint64_t memory = 0;
    float value = 0;
    int e = CUSOLVER_STATUS_ALLOC_FAILED;
    if (!has_functions(s, kind))
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
    static const char *const names[] = { [SOLVER_EIGH] = "eigh",
                                         [SOLVER_SVD] = "svd",
                                         [SOLVER_EIG] = "eig",
                                         [SOLVER_CHOLESKY] = "cholesky",
                                         [SOLVER_LU] = "lu",
                                         [SOLVER_QR] = "qr",
                                         [SOLVER_JACOBI] = "svd by rotations" };
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

int *solver_flags(const struct work *w, const int32_t *from, int64_t n)
{
    size_t bytes = (size_t)n * sizeof(int32_t);
    struct gpu_stream *q = gpu_stream(w->r->stream);
    int *flags = mx_malloc(bytes);
    if (!flags)
        return NULL;
    int e = cu.copy_to_host(flags, (uint64_t)from, bytes, gpu_direct(q));
    if (!gpu_check(q->gpu, w->r->node->op->name, e ? e : cu.stream_wait(q->stream)))
        return flags;
    free(flags);
    return NULL;
}

static int report(const char *asker, int e)
{
    if (e)
        mx_fail_as(MX_RUNTIME,
                   "[linalg.%s] cuSOLVER failed with %s; MLX_CUDA_LIBRARIES=0 in the environment does without it",
                   asker, status_text(e));
    return e != 0;
}

int solver_enter(struct work *w, const struct problem *p, struct room *o, const char *asker)
{
    struct solver_on *s = &on[gpu_of(w->r)->number];
    void *stream = gpu_direct(gpu_stream(w->r->stream));
    *o = (struct room){ .jacobi = s->jacobi[w->t == DT_float64] };
    lock_take(&solving);
    int e = solver.set_stream(s->handle, stream); /* geev asks it, and that of the last call may be gone */
    if (!e)
        e = ask_room(s->handle, s->params, p, o);
    lock_give(&solving);
    if (e)
        return report(asker, e);
    o->host = mx_malloc(o->host_bytes + 1);
    o->device = work_hold(w, (int64_t)o->bytes + 1);
    return !o->host || !o->device;
}

void solver_leave(struct room *o)
{
    free(o->host);
    o->host = NULL;
}

int solver_queue(const struct work *w, struct problem p, const struct steps *by, const int *odd, const struct room *o,
                 const char *asker)
{
    struct gpu_stream *q = gpu_stream(w->r->stream);
    struct solver_on *s = &on[q->gpu->number];
    void *stream = gpu_direct(q);
    lock_take(&solving);
    int e = solver.set_stream(s->handle, stream);
    for (int64_t i = 0; i < w->count && !e; i++) {
        struct problem one = p;
        one.a = (char *)p.a + i * by->a;
        one.values = p.values ? (char *)p.values + i * by->values : NULL;
        one.u = p.u ? (char *)p.u + i * by->u : NULL;
        one.vt = p.vt ? (char *)p.vt + i * by->vt : NULL;
        one.info = w->nan + i;
        one.other_info = w->odd + i;
        if (!odd || !odd[i])
            e = queue_problem(s->handle, s->params, &one, o);
    }
    lock_give(&solving);
    if (e)
        cu.stream_wait(stream); /* those that are queued use the workspaces still */
    return report(asker, e);
}

/* Solves them all; what does not converge is an error, which says what was asked for, or where `slow` is asked for that
 * is told instead. */
static int solve(struct work *w, struct problem p, const struct steps *by, const char *asker, bool *slow)
{
    struct room room = { 0 };
    mx x = w->r->x[0];
    int *odd = solver_flags(w, w->odd, w->count), *info = NULL;
    int failed = !odd || solver_enter(w, &p, &room, asker) || solver_queue(w, p, by, odd, &room, asker);
    if (!failed)
        failed = !(info = solver_flags(w, w->nan, w->count));
    for (int64_t i = 0; i < w->count && !failed; i++)
        if (info[i] && slow)
            *slow = true;
        else if (info[i])
            failed = factor_report(asker, FACTOR_SLOW, x->ndim - 2, x->shape, i);
    solver_leave(&room);
    free(info);
    free(odd);
    return failed;
}

void solver_types(struct problem *p, enum dtype t)
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
    solver_types(&p, w.t);
    struct steps by = { .a = each * w.size, .values = n * (int64_t)dtype_size(linalg_real(w.t)) };
    failed = !p.a || work_copy(&w, in) || solve(&w, p, &by, g->vectors ? "eigh" : "eigvalsh", NULL) ||
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

/* Rotations are the faster way to singular vectors; to values alone, of matrices of up to so many rows.  They may not
 * converge, where the other way does, and of complex numbers cuSOLVER's lose ten bits. */
enum { ROTATED_VALUES = 2048 };
static bool rotates(const struct work *w, int tall, int k, bool vectors)
{
    return w->t != DT_complex64 && (vectors || tall <= ROTATED_VALUES) &&
           (int64_t)tall * (vectors ? tall : k) <= INT32_MAX && solver_works(SOLVER_JACOBI, gpu_of(w->r)->number);
}

/* A's transpose, which is what it sees of rows, is U' s V'^H, and A the transpose of V'^H times s times that of U': so
 * where it takes it, which has to be tall, the results are in their places.  Else all is turned.  Rotations give V'
 * itself. */
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
    p.vectors = vectors;
    p.thin = mode != SVD_FULL;
    int failed = work_begin(&w, r, x, true);
    bool rotated = !failed && rotates(&w, tall, k, vectors), slow = false;
    struct part_call in = { .x = gpu_pointer(r, x), .odd = w.odd, .rows = k, .columns = tall };
    in.turned = turned ? PART_TRANSPOSED : PART_AS_IT_IS;
    in.y = p.a = failed ? NULL : work_hold(&w, w.count * each * w.size);
    in.y_row = tall;
    in.x_row = n;
    in.y_matrix = in.x_matrix = each;
    p.values = y[vectors];
    solver_types(&p, w.t);
    struct steps by = { .a = each * w.size, .values = k * (int64_t)dtype_size(linalg_real(w.t)) };
    by.u = (int64_t)tall * columns * w.size;
    by.vt = (int64_t)k * k * w.size;
    if (vectors && p.a) {
        p.u = turned ? work_hold(&w, w.count * by.u) : y[2];
        p.vt = turned || rotated ? work_hold(&w, w.count * by.vt) : y[0];
    }
    if (rotated && !vectors && p.a) { /* unlike what its manual says it writes to them, of m > n at least */
        p.u = work_hold(&w, (int64_t)tall * tall * w.size);
        p.vt = work_hold(&w, (int64_t)k * k * w.size);
        by.u = by.vt = 0;
    }
    failed = !p.a || ((vectors || rotated) && (!p.u || !p.vt)) || work_copy(&w, in);
    if (!failed && rotated) {
        p.kind = SOLVER_JACOBI;
        failed = solve(&w, p, &by, asker, &slow);
        p.kind = SOLVER_SVD;
        rotated = !slow;
    }
    if (!failed && !rotated)
        failed = (slow && work_copy(&w, in)) || solve(&w, p, &by, asker, NULL);
    failed = failed || mark_values(&w, p.values, k);
    if (!failed && vectors) {
        struct part_call left = { .y = turned ? y[0] : p.u, .x = p.u, .nan = w.odd, .rows = columns, .columns = tall };
        struct part_call right = { .y = turned ? y[2] : y[0], .x = p.vt, .nan = w.odd, .rows = k, .columns = k };
        if (turned) {
            left.rows = tall;
            left.columns = columns;
            left.turned = PART_TRANSPOSED;
        }
        right.turned = turned ? rotated ? PART_CONJUGATE : PART_TRANSPOSED : rotated ? PART_ADJOINT : PART_AS_IT_IS;
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
    solver_types(&p, w.t);
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
             solve(&w, p, &by, vectors ? "eig" : "eigvals", NULL) || work_eigen(&w, values) ||
             (vectors && work_eigen(&w, columns));
    gpu_drop(1, hold);
    return work_end(&w, failed);
}
