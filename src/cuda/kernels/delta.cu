/* delta.cu: the linear attention of gated delta networks: cu_gated_delta_f32.  The build compiles it for each type.
 *
 * A row of the state changes by itself: it fades, what it reads with k makes place for v, and q reads the output from
 * it.  So a team of threads keeps one in registers through all steps, and its block has neighbours, of one head, whose
 * k and q are in shared memory: of some steps, while those of the next ones are on their way. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/delta.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/warp.h"

#define K(name) PASTE(name, SUFFIX)

enum { WIDTH = 16 / sizeof(S), VECTORS = DELTA_HELD / WIDTH };

union vector {
    S v[WIDTH];
    struct words4 align;
};

/* What a block works on. */
struct place {
    int64_t batch, head; /* head: with the batch, of all */
    int first;           /* row */
    int rows;            /* that there are */
    int lane;            /* of its team */
};

/* Operands of some steps. */
struct stage {
    S *k, *q, *gamma, *v, *beta, *fade;
    uint8_t *on;
};

/* `tile` steps of each, those of which vectors are read first. */
FN struct stage stage_at(const struct delta_call *a, unsigned char *room, int rows)
{
    struct stage s;
    s.k = (S *)room;
    s.q = s.k + a->tile * a->padded;
    s.gamma = s.q + a->tile * a->padded;
    s.v = s.gamma + (a->wide ? a->tile * a->padded : 0);
    s.beta = s.v + a->tile * rows;
    s.fade = s.beta + a->tile;
    s.on = (uint8_t *)(s.fade + a->tile);
    return s;
}

/* n steps of rows of `width` elements, `apart` in memory. */
FN void fetch_rows(S *to, int padded, const S *from, int64_t apart, int n, int width, int whole)
{
    int each = whole ? width / WIDTH : width;
    for (int i = (int)threadIdx.x; i < n * each; i += DELTA_THREADS) {
        int t = i / each, c = i % each;
        if (whole)
            copy_later_at(place_in_shared(to + t * padded + c * WIDTH), from + t * apart + c * WIDTH, 1);
        else
            to[t * padded + c] = from[t * apart + c];
    }
}

FN void fetch(const struct delta_call *a, const struct place *p, const struct stage *s, int t, int rows)
{
    int n = a->steps - t < a->tile ? a->steps - t : a->tile, keys = a->heads / a->shared;
    int64_t head = p->head - p->batch * a->heads, step = p->batch * a->steps + t, at = step * a->heads + head;
    int64_t key = (step * keys + head / a->shared) * a->d;
    fetch_rows(s->k, a->padded, (const S *)a->k + key, (int64_t)keys * a->d, n, a->d, a->whole);
    fetch_rows(s->q, a->padded, (const S *)a->q + key, (int64_t)keys * a->d, n, a->d, a->whole);
    if (a->wide)
        fetch_rows(s->gamma, a->padded, (const S *)a->gamma + at * a->d, (int64_t)a->heads * a->d, n, a->d, a->whole);
    fetch_rows(s->v, rows, (const S *)a->v + at * a->e + p->first, (int64_t)a->heads * a->e, n, p->rows, a->e_whole);
}

/* A step's own numbers, one of which each of some threads has until the steps before are done. */
struct own {
    S beta, fade;
    uint8_t on;
};
FN struct own own_of(const struct delta_call *a, const struct place *p, int t)
{
    struct own o = { 0, 0, 1 };
    t += (int)threadIdx.x;
    if ((int)threadIdx.x < a->tile && t < a->steps) {
        int64_t step = p->batch * a->steps + t, at = step * a->heads + p->head - p->batch * a->heads;
        o.beta = ((const S *)a->beta)[at];
        o.fade = a->wide ? 0 : ((const S *)a->gamma)[at];
        o.on = a->mask ? a->mask[step] != 0 : 1;
    }
    return o;
}
FN void put_own(const struct delta_call *a, const struct stage *s, struct own o)
{
    if ((int)threadIdx.x < a->tile) {
        s->beta[threadIdx.x] = o.beta;
        s->fade[threadIdx.x] = o.fade;
        s->on[threadIdx.x] = o.on;
    }
}

FN S team_total(S x, int team)
{
    for (int bits = team / 2; bits > 0; bits /= 2) x += SHUFFLE_XOR(x, bits);
    return x;
}

FN S total(const S *part)
{
    S sum = part[0];
    for (int i = 1; i < WIDTH; i++) sum += part[i];
    return sum;
}

/* One step of a row; returns what q reads. */
FN S step_row(S state[DELTA_HELD], const struct stage *s, int t, int row, int rows, int team, int padded, int lane,
              const int wide)
{
    const S *k = s->k + t * padded + lane * WIDTH, *q = s->q + t * padded + lane * WIDTH;
    const S *gamma = s->gamma + t * padded + lane * WIDTH;
    S read[WIDTH], fade = s->fade[t];
    for (int c = 0; c < WIDTH; c++) read[c] = 0;
    union vector kept[VECTORS];
    UNROLLED for (int j = 0; j < VECTORS; j++)
    {
        union vector g;
        kept[j].align = *(const struct words4 *)(k + j * team * WIDTH);
        if (wide)
            g.align = *(const struct words4 *)(gamma + j * team * WIDTH);
        UNROLLED for (int c = 0; c < WIDTH; c++)
        {
            S *x = &state[j * WIDTH + c];
            *x *= wide ? g.v[c] : fade;
            read[c] = K(m_fma)(kept[j].v[c], *x, read[c]);
        }
    }
    S d = (s->v[t * rows + row] - team_total(total(read), team)) * s->beta[t];
    for (int c = 0; c < WIDTH; c++) read[c] = 0;
    UNROLLED for (int j = 0; j < VECTORS; j++)
    {
        union vector of;
        of.align = *(const struct words4 *)(q + j * team * WIDTH);
        UNROLLED for (int c = 0; c < WIDTH; c++)
        {
            S *x = &state[j * WIDTH + c];
            *x = K(m_fma)(kept[j].v[c], d, *x);
            read[c] = K(m_fma)(of.v[c], *x, read[c]);
        }
    }
    return team_total(total(read), team);
}

FN void run_steps(const struct delta_call *a, const struct place *p, S state[DELTA_HELD], const struct stage *s, int t,
                  int rows, const int wide)
{
    int n = a->steps - t < a->tile ? a->steps - t : a->tile, row = (int)threadIdx.x / a->team;
    int64_t apart = (int64_t)a->heads * a->e;
    S *y = (S *)a->y + ((p->batch * a->steps + t) * a->heads + p->head - p->batch * a->heads) * a->e + p->first + row;
    ROLLED for (int i = 0; i < n; i++)
    {
        S read = 0;
        if (s->on[i])
            read = step_row(state, s, i, row, rows, a->team, a->padded, p->lane, wide);
        if (p->lane == 0 && row < p->rows)
            y[i * apart] = read;
    }
}

/* Element i of what a thread keeps of its row. */
FN int column(int i, int lane, int team) { return (i / WIDTH * team + lane) * WIDTH + i % WIDTH; }

BOUNDED_KERNEL(K(cu_gated_delta), struct delta_call, DELTA_THREADS, 4)
{
    SHARED ALIGNED(16) unsigned char room[2][DELTA_BYTES];
    int rows = DELTA_THREADS / a.team, row = (int)threadIdx.x / a.team;
    struct place p;
    p.head = blockIdx.x / a.row_blocks;
    p.batch = p.head / a.heads;
    p.first = (int)(blockIdx.x % a.row_blocks) * rows;
    p.rows = a.e - p.first < rows ? a.e - p.first : rows;
    p.lane = (int)threadIdx.x % a.team;
    S state[DELTA_HELD];
    const S *first = (const S *)a.state + p.batch * a.state_stride[0] +
                     (p.head - p.batch * a.heads) * a.state_stride[1] + (p.first + row) * a.state_stride[2];
    UNROLLED for (int i = 0; i < DELTA_HELD; i++)
    {
        int c = column(i, p.lane, a.team);
        state[i] = c < a.d && row < p.rows ? first[c * a.state_stride[3]] : (S)0;
    }
    struct stage now = stage_at(&a, room[0], rows);
    ROLLED for (int i = (int)threadIdx.x; i < DELTA_BYTES / 4; i += DELTA_THREADS)
    { /* what is behind rows and columns */
        ((uint32_t *)room[0])[i] = 0;
        ((uint32_t *)room[1])[i] = 0;
    }
    BARRIER();
    fetch(&a, &p, &now, 0, rows);
    close_group();
    put_own(&a, &now, own_of(&a, &p, 0));
    for (int t = 0, side = 1; t < a.steps; t += a.tile, side = !side) {
        struct stage next = stage_at(&a, room[side], rows);
        struct own o = own_of(&a, &p, t + a.tile);
        if (t + a.tile < a.steps)
            fetch(&a, &p, &next, t + a.tile, rows);
        close_group();
        WAIT_GROUPS(1);
        BARRIER();
        if (a.wide)
            run_steps(&a, &p, state, &now, t, rows, 1);
        else
            run_steps(&a, &p, state, &now, t, rows, 0);
        put_own(&a, &next, o);
        now = next;
        BARRIER();
    }
    S *last = (S *)a.last + (p.head * a.e + p.first + row) * a.d;
    UNROLLED for (int i = 0; i < DELTA_HELD; i++)
    {
        int c = column(i, p.lane, a.team);
        if (c < a.d && row < p.rows)
            last[c] = state[i];
    }
}

/* Rows that threads cannot hold: a warp has each in memory, that of the last state. */
KERNEL(K(cu_gated_delta_long), struct delta_call)
{
    int64_t at = (int64_t)blockIdx.x * (DELTA_THREADS / 32) + threadIdx.x / 32, head = at / a.e, row = at % a.e;
    int64_t batch = head / a.heads, n = head % a.heads, keys = a.heads / a.shared;
    int lane = (int)threadIdx.x % 32, is = batch < a.batch;
    if (!is)
        return;
    const S *first = (const S *)a.state + batch * a.state_stride[0] + n * a.state_stride[1] + row * a.state_stride[2];
    S *state = (S *)a.last + at * a.d;
    for (int c = lane; c < a.d; c += 32) state[c] = first[c * a.state_stride[3]];
    for (int t = 0; t < a.steps; t++) {
        int64_t step = batch * a.steps + t, mine = step * a.heads + n, key = (step * keys + n / a.shared) * a.d;
        const S *k = (const S *)a.k + key, *q = (const S *)a.q + key;
        const S *gamma = (const S *)a.gamma + (a.wide ? mine * a.d : mine);
        S read = 0;
        if (!a.mask || a.mask[step]) {
            for (int c = lane; c < a.d; c += 32) {
                state[c] *= gamma[a.wide ? c : 0];
                read = K(m_fma)(k[c], state[c], read);
            }
            S d = (((const S *)a.v)[mine * a.e + row] - team_total(read, 32)) * ((const S *)a.beta)[mine];
            read = 0;
            for (int c = lane; c < a.d; c += 32) {
                state[c] = K(m_fma)(k[c], d, state[c]);
                read = K(m_fma)(q[c], state[c], read);
            }
            read = team_total(read, 32);
        }
        if (lane == 0)
            ((S *)a.y)[mine * a.e + row] = read;
    }
}
