/* fourier.c: Fourier transforms on a GPU.
 *
 * Rows that shared memory holds are one launch.  Longer ones of n = n1 n2 (or n1 n2 n3) elements are two (three): with
 * j = j1 n2 + j2 and k = k2 n1 + k1, columns of n1 are transformed, multiplied by e^(-2 pi i j2 k1 / n), then rows of
 * n2.  Lengths with a large prime are convolutions, as on the CPU (cpu/fft.c): two transforms, the first of which
 * multiplies by c on its way in and by the filter on its way out, the second by c on its way out.
 *
 * What cuFFT is faster with is its, where it is found and works (cufft.c): rows, and the last two axes at once, whose
 * nodes are members of a group (producer.c).
 *
 * Tables of factors are made on the device, in double, and kept for each stream. */
#include "cuda/kernels/fourier.h"

#include <string.h>

#include "cuda/cufft.h"
#include "cuda/gpu.h"
#include "cuda/producer.h"
#include "ops/fft.h"
#include "plan/fourier.h"

/* ---- tables */

/* The table of this key; NULL: there is none yet. */
static void *kept_table(const struct run *r, const int64_t key[4])
{
    struct gpu_stream *q = gpu_stream(r->stream);
    for (struct gpu_table *t = q->table; t < q->table + GPU_TABLES; t++)
        if (t->of && !memcmp(t->key, key, sizeof t->key)) {
            t->used = ++q->tables_used;
            return buffer_on(t->of, r->stream);
        }
    return NULL;
}

/* Takes b over, instead of the table that was not of use for longest: a transform uses a dozen at most. */
static void *keep_table(const struct run *r, struct buffer *b, const int64_t key[4])
{
    struct gpu_stream *q = gpu_stream(r->stream);
    struct gpu_table *t = q->table;
    for (int i = 1; i < GPU_TABLES; i++)
        if (q->table[i].used < t->used)
            t = &q->table[i];
    if (t->of)
        buffer_release(t->of);
    *t = (struct gpu_table){ .key = { key[0], key[1], key[2], key[3] }, .of = b, .used = ++q->tables_used };
    return buffer_on(b, r->stream);
}

/* Large ones go once their work is queued. */
static void drop_large_tables(const struct run *r)
{
    static const size_t LARGE = 4 << 20;
    struct gpu_stream *q = gpu_stream(r->stream);
    for (struct gpu_table *t = q->table; t < q->table + GPU_TABLES; t++)
        if (t->of && t->of->bytes > LARGE) {
            buffer_release(t->of);
            *t = (struct gpu_table){ .used = 0 };
        }
}

static int fill_table(const struct run *r, struct fourier_table_call *c)
{
    static struct gpu_found found;
    void *kernel = gpu_find(gpu_of(r), &found, "fourier", "fourier_table", DT_COUNT);
    return !kernel || gpu_launch(r->stream, "fft", kernel, ceil_div(c->count, FOURIER_TABLE_THREADS),
                                 FOURIER_TABLE_THREADS, (void *[]){ c });
}

/* NULL after mx_fail. */
static void *table_of(const struct run *r, struct fourier_table_call *c)
{
    int64_t key[4] = { c->kind, c->n, c->each, c->count };
    void *kept = kept_table(r, key);
    struct buffer *b = kept ? NULL : buffer_new_on(r->stream, (size_t)c->count * 8);
    if (!b)
        return kept;
    c->y = buffer_on(b, r->stream);
    if (fill_table(r, c)) {
        buffer_release(b);
        return NULL;
    }
    return keep_table(r, b, key);
}

static void *roots_table(const struct run *r, int64_t n, int64_t each, int64_t count)
{
    return table_of(r, &(struct fourier_table_call){ .kind = FOURIER_ROOTS, .n = n, .each = each, .count = count });
}

/* e^(-2 pi i e / n) for e < n as the product of two, coarse[e >> bits] fine[the rest]. */
struct two_tables {
    void *coarse, *fine;
    int bits;
};
static int two_tables(const struct run *r, struct two_tables *t, int64_t n)
{
    for (t->bits = 0; (int64_t)1 << 2 * t->bits < n; t->bits++) {}
    int64_t step = (int64_t)1 << t->bits;
    t->fine = roots_table(r, n, 1, step);
    t->coarse = t->fine ? roots_table(r, n, step, n / step + 1) : NULL;
    return !t->coarse;
}

/* ---- launches */

/* Rows that are one piece, whose numbers are read, or written, as they are. */
static bool is_flat(const struct fourier_side *s, const struct fourier_call *c, int64_t n)
{
    bool flat = n > 1 && s->how == FOURIER_COMPLEX && !s->factor && !s->limited && s->step == 1 && s->number_step == 1;
    int64_t next = n;
    for (int d = FOURIER_DIMS - 1; d >= 0; d--) {
        if (c->shape[d] == 1)
            continue;
        flat = flat && s->stride[d] == next && s->number[d] == 0;
        next *= c->shape[d];
    }
    return flat;
}

/* What follows of rows of n elements: is a thread's next row nearer than its next element, are there numbers beyond the
 * limit? */
static void set_row(struct fourier_side *s, const struct fourier_call *c, int64_t n)
{
    int64_t next = s->number_step * s->step, last = (n - 1) * s->number_step, nearest = 0;
    for (int d = 0; d < FOURIER_DIMS; d++) {
        last += (c->shape[d] - 1) * s->number[d];
        if (c->shape[d] > 1)
            nearest = s->stride[d] + s->number[d] * s->step;
    }
    s->across = c->rows > 1 && (nearest < 0 ? -nearest : nearest) < (next < 0 ? -next : next);
    s->limited = last >= s->limit;
    s->flat = is_flat(s, c, n);
}

static size_t shared_bytes(const struct run *r) { return gpu_of(r)->major < 8 ? 64 << 10 : FOURIER_BYTES; }

/* One launch, of rows whose sides are known. */
static int launch_rows(const struct run *r, struct fourier_call *c)
{
    enum { NEIGHBOURS = 16, ENOUGH = 256 };
#define MOST(radix, many) [radix] = (many),
    static const int most[FOURIER_RADIX + 1] = { FOURIER_RADICES(MOST) };
#undef MOST
    static struct gpu_found found[2];
    int radix[FOURIER_STAGES];
    bool power = c->n >= FOURIER_POWER && !(c->n & (c->n - 1));
    void *kernel = gpu_find(gpu_of(r), &found[power], "fourier", power ? "fourier_power" : "fourier_mixed", DT_COUNT);
    if (!kernel)
        return 1;
    struct fourier_table_call t = { .kind = FOURIER_STAGE_FACTORS, .n = c->n };
    t.stages = c->stages = fourier_radices(c->n, 8, FOURIER_RADIX, radix);
    c->team = power ? c->n / FOURIER_EIGHT : 1;
    for (int i = 0, left = c->n, before = 1; i < c->stages; i++) {
        t.radix[i] = c->radix[i] = radix[i];
        t.start[i] = c->start[i] = (int32_t)t.count;
        c->inverse[i] = before == 1 ? 0 : (uint32_t)((((uint64_t)1 << 32) + (uint64_t)before - 1) / (uint64_t)before);
        left /= radix[i];
        before *= radix[i];
        t.count += (int64_t)(radix[i] - 1) * left;
        if (!power)
            c->team = (int)greatest(c->team, ceil_div(c->n / radix[i], most[radix[i]]));
    }
    c->factors = c->stages > 1 ? table_of(r, &t) : NULL;
    if (c->stages > 1 && !c->factors)
        return 1;
    set_row(&c->in, c, c->n);
    set_row(&c->out, c, c->out.how == FOURIER_FOLDED ? c->n + 1 : c->n);
    c->out.flat = c->out.flat && !c->coarse;
    c->per_row = c->n > 1 ? (uint32_t)((((uint64_t)1 << 32) + (uint64_t)c->n - 1) / (uint64_t)c->n) : 0;
    /* Rows of a block: enough to be read together where they are neighbours, or for a block of some size. */
    int threads = power ? FOURIER_POWER_THREADS : FOURIER_THREADS;
    c->pitch = (c->n + c->n / 16) | 1;
    int64_t width = c->in.across || c->out.across ? NEIGHBOURS : 1;
    width = greatest(width, ENOUGH / c->team);
    width = least(width, threads / c->team);
    width = least(width, (int64_t)shared_bytes(r) / (8 * c->pitch));
    c->width = (int)least(width, c->rows);
    int32_t lanes = gpu_power_of_two(c->n, 32);
    c->lanes = lanes > c->team && lanes <= c->team * c->width ? lanes : c->team;
    return gpu_launch_shared(r->stream, "fft", kernel, ceil_div(c->rows, c->width), c->team * c->width,
                             8 * (size_t)c->pitch * (size_t)c->width, (void *[]){ c });
}

/* Sequences [outer][n][inner], from one side to another: what is known of them before they are cut into rows; the
 * strides of a side are those of outer and inner. */
struct transform {
    struct fourier_side in, out;
    int64_t outer, n, inner;
    float scale;
};

static struct fourier_side side_of(void *at, int64_t outer, int64_t step, int64_t inner, int how, int64_t length)
{
    return (struct fourier_side){ .at = at,
                                  .stride = { outer, 0, 0, inner },
                                  .step = step,
                                  .how = how,
                                  .length = length,
                                  .limit = length,
                                  .number_step = 1 };
}
static struct fourier_side row_major_side(void *at, int64_t n, int64_t inner)
{
    return side_of(at, n * inner, inner, 1, FOURIER_COMPLEX, n);
}

/* What one launch takes: rows of up to FOURIER_WHOLE, of powers of two up to twice that where the device has the
 * memory; less where rows are neighbours, several of which are to be read together. */
enum { FOURIER_WHOLE = 4096, FOURIER_STRIDED = 2048, FOURIER_ACROSS = 1024 };
static int64_t whole_length(const struct run *r, int64_t inner)
{
    if (inner > 1)
        return FOURIER_STRIDED;
    return shared_bytes(r) == FOURIER_BYTES ? 2 * FOURIER_WHOLE : FOURIER_WHOLE;
}

/* The lengths of the launches, where one takes `whole`; how many they are, 0 where there is no way. */
static int cut_length(int64_t n, int64_t whole, int64_t part[3])
{
    int radix[FOURIER_STAGES];
    part[0] = n;
    if (fourier_radices(n, 8, FOURIER_RADIX, radix) < 0)
        return 0;
    if (n <= whole && (n <= FOURIER_WHOLE || !(n & (n - 1))))
        return 1;
    part[1] = fourier_divisor(n, n);
    part[0] = n / part[1];
    if (part[0] <= FOURIER_ACROSS)
        return 2;
    int64_t cube = 1;
    while ((cube + 1) * (cube + 1) * (cube + 1) <= n) cube++;
    int64_t first = fourier_divisor(n, cube * cube), rest = n / first, last = fourier_divisor(rest, rest);
    if (rest / last <= FOURIER_WHOLE) {
        part[0] = first;
        part[1] = rest / last;
        part[2] = last;
        return 3;
    }
    return part[0] <= FOURIER_WHOLE ? 2 : 0;
}

static int transform_rows(const struct run *r, const struct transform *t)
{
    int64_t part[3] = { 0 }, n = t->n, inner = t->inner;
    int parts = cut_length(n, whole_length(r, inner), part);
    struct fourier_call c = { .in = t->in, .out = t->out, .n = (int32_t)part[0], .scale = t->scale };
    if (t->in.how == FOURIER_UNFOLDED || t->out.how == FOURIER_FOLDED)
        if (!(c.roots = roots_table(r, 2 * n, 1, n + 1)))
            return 1;
    uint32_t shape[FOURIER_DIMS] = { (uint32_t)t->outer, 1, 1, (uint32_t)inner };
    memcpy(c.shape, shape, sizeof shape);
    c.rows = t->outer * inner;
    if (parts == 1)
        return launch_rows(r, &c);
    struct buffer *b = buffer_new_on(r->stream, (size_t)(t->outer * n * inner) * 8);
    struct two_tables w;
    int failed = !b || two_tables(r, &w, n);
    if (!failed) {
        /* Columns: numbers are j1 m + j, of m = n / n1 of these. */
        void *between = buffer_on(b, r->stream);
        int64_t m = n / part[0], last = part[parts - 1], middle = m / last;
        c.shape[2] = (uint32_t)m;
        c.rows = t->outer * m * inner;
        c.in.number[2] = 1;
        c.in.number_step = m;
        c.out = side_of(between, n * inner, m * inner, 1, FOURIER_COMPLEX, n);
        c.out.stride[2] = inner;
        c.coarse = w.coarse;
        c.fine = w.fine;
        c.fine_bits = w.bits;
        c.turn[2] = 1;
        c.scale = 1;
        failed = launch_rows(r, &c);
        if (!failed && parts == 3) { /* of each k1: the same once more, where they are */
            c.in = c.out = side_of(between, n * inner, last * inner, 1, FOURIER_COMPLEX, n);
            c.in.stride[1] = c.out.stride[1] = m * inner;
            c.in.stride[2] = c.out.stride[2] = inner;
            c.n = (int32_t)middle;
            c.shape[1] = (uint32_t)part[0];
            c.shape[2] = (uint32_t)last;
            c.rows = t->outer * part[0] * last * inner;
            c.turn[2] = part[0];
            failed = launch_rows(r, &c);
        }
        /* Rows of k1 and k2, whose number k3 becomes (k3 n2 + k2) n1 + k1. */
        c.in = side_of(between, n * inner, inner, 1, FOURIER_COMPLEX, n);
        c.in.stride[1] = last * inner;
        c.in.stride[2] = m * inner;
        c.out = t->out;
        c.out.number[1] = part[0];
        c.out.number[2] = 1;
        c.out.number_step = part[0] * middle;
        c.coarse = c.fine = NULL;
        c.n = (int32_t)last;
        c.shape[1] = (uint32_t)middle;
        c.shape[2] = (uint32_t)part[0];
        c.rows = t->outer * part[0] * middle * inner;
        c.scale = t->scale;
        failed = failed || launch_rows(r, &c);
    }
    if (b)
        buffer_release(b);
    return failed;
}

/* ---- convolutions */

/* The transform of conj(c) around a length m, over m. */
static void *filter_of(const struct run *r, int64_t n, int64_t m)
{
    int64_t key[4] = { FOURIER_FILTER, n, 0, m };
    void *kept = kept_table(r, key);
    struct buffer *b = kept ? NULL : buffer_new_on(r->stream, (size_t)m * 8);
    if (!b)
        return kept;
    void *at = buffer_on(b, r->stream);
    struct fourier_table_call t = { .y = at, .kind = FOURIER_FILTER, .n = n, .count = m };
    struct fourier_side side = row_major_side(at, m, 1);
    if (fill_table(r, &t) || transform_rows(r, &(struct transform){ side, side, 1, m, 1, 1 / (float)m })) {
        buffer_release(b);
        return NULL;
    }
    return keep_table(r, b, key);
}

static int transform_chirp(const struct run *r, const struct transform *t)
{
    int64_t n = t->n, m = fourier_length_above(2 * n - 1);
    void *filter = filter_of(r, n, m);
    void *chirp =
        !filter ? NULL : table_of(r, &(struct fourier_table_call){ .kind = FOURIER_CHIRP, .n = n, .count = n });
    struct buffer *b = chirp ? buffer_new_on(r->stream, (size_t)(t->outer * m * t->inner) * 8) : NULL;
    if (!b)
        return 1;
    /* Rows, wherever the numbers come from: columns of m are too long for a block to take many that are neighbours. */
    struct fourier_side between = side_of(buffer_on(b, r->stream), m * t->inner, 1, m, FOURIER_COMPLEX, m);
    struct transform to = { t->in, between, t->outer, m, t->inner, 1 },
                     back = { between, t->out, t->outer, m, t->inner, t->scale };
    to.in.factor = chirp;
    to.out.factor = filter;
    to.out.after = 1;
    back.out.before = 1;
    back.out.factor = chirp;
    int failed = transform_rows(r, &to) || transform_rows(r, &back);
    buffer_release(b);
    return failed;
}

static int transform_any(const struct run *r, const struct transform *t)
{
    int64_t part[3];
    return cut_length(t->n, whole_length(r, t->inner), part) ? transform_rows(r, t) : transform_chirp(r, t);
}

/* ---- cuFFT */

/* Measured on an H100 (`table.py --device gpu --peers kernels Fourier`): ours take, of rows of 8, 1.36 times as long
 * as cuFFT, of 64 0.96, of 1,024 1.09, of 1,000 1.77, of 1,009 1.55, of 16,384 2.1, and one of 2^24 1.53.  Columns are
 * ours, of 1,024 in 0.7 of its time.  A pass more is what it takes to scale the result, or to go back to real numbers,
 * whose transform it writes over and wants real at the ends.  With that ours take, of rows of 8, 0.71 times as long,
 * of 1,024 0.95, of 1,000 0.97, of 1,009 1.18, of 16,384 1.09: it is worth lengths that ours take several launches
 * for, and odd ones of real numbers.  Small ones are not worth a plan. */
enum { CUFFT_LEAST = 1 << 18 };
static bool suits_cufft(const struct run *r, const struct fft_args *a, int64_t rows, bool pass_more)
{
    int64_t n = a->n, part[3];
    bool halves = a->kind != FFT_COMPLEX && n % 2 == 0, whole = a->kind == FFT_COMPLEX || halves;
    bool alone = whole && cut_length(halves ? n / 2 : n, whole_length(r, 1), part) == 1; /* one launch of ours */
    if (n < 2 || rows * n < CUFFT_LEAST || (a->kind != FFT_COMPLEX && a->inverse != (a->kind == FFT_HERMITIAN)))
        return false;
    return !pass_more || !alone;
}

static int scale_rows(const struct run *r, struct fourier_scale_call *c)
{
    static struct gpu_found found;
    void *kernel = gpu_find(gpu_of(r), &found, "fourier", "fourier_scale", DT_COUNT);
    return !kernel || gpu_launch(r->stream, "fft", kernel, ceil_div(c->count, FOURIER_SCALED * FOURIER_TABLE_THREADS),
                                 FOURIER_TABLE_THREADS, (void *[]){ c });
}

enum outcome { DONE, FAILED, DECLINED };

/* x as rows, of such strides, in y.  Declined: it is not for cuFFT, and ours is to make all of y. */
static enum outcome by_cufft(const struct run *r, mx x, const int64_t stride[3], const int64_t size[3])
{
    const struct fft_args *a = r->args;
    mx y = r->y[0];
    int64_t n = a->n, rows = size[0], half = n / 2 + 1, length = a->kind == FFT_COMPLEX ? n : half;
    bool back = a->kind == FFT_HERMITIAN, scaled = (float)a->scale != 1;
    struct cufft_rows t = { .type = CUFFT_C2C, .lines = 1, .n = n, .rows = rows };
    t.x = gpu_pointer(r, x);
    t.y = gpu_pointer(r, y);
    struct fourier_scale_call c = { .x = t.x, .count = rows * length, .scale = (float)a->scale };
    struct buffer *copy = NULL;
    t.direction = a->inverse ? CUFFT_INVERSE : CUFFT_FORWARD;
    t.from = (struct cufft_side){ 1, x->shape[a->axis], rows > 1 ? stride[0] : x->shape[a->axis] };
    t.to = (struct cufft_side){ 1, y->shape[a->axis], y->shape[a->axis] };
    if (!suits_cufft(r, a, rows, scaled || back) || !cufft_works(gpu_of(r)->number))
        return DECLINED;
    if (!back && (stride[1] != 1 || t.from.row < n || (uint64_t)t.x % sizeof(complex64)))
        return DECLINED;
    if (back) {
        copy = buffer_new_on(r->stream, (size_t)c.count * sizeof(complex64));
        if (!copy) { /* ours takes less */
            mx_error_clear();
            return DECLINED;
        }
        c.y = buffer_on(copy, r->stream);
        c.row = stride[0];
        c.step = stride[1];
        c.length = (uint32_t)length;
        c.last = n % 2 == 0 ? (uint32_t)(n / 2) : 0;
        c.ends = true;
        t.type = CUFFT_C2R;
        t.from.row = length;
        t.x = c.y;
    } else if (a->kind == FFT_REAL) {
        t.type = CUFFT_R2C;
    }
    int failed = back && scale_rows(r, &c);
    bool done = !failed && cufft_transform(r, &t);
    if (done && scaled && !back) {
        c.x = c.y = t.y;
        failed = scale_rows(r, &c);
    }
    if (copy)
        buffer_release(copy);
    return failed ? FAILED : done ? DONE : DECLINED;
}

/* Columns of lengths that ours make convolutions of, as rows: turned into y, transformed from there, and turned back,
 * two copies more. */
static enum outcome columns_by_cufft(const struct run *r, mx x, const int64_t stride[3], const int64_t size[3])
{
    const struct fft_args *a = r->args;
    bool real = a->kind == FFT_REAL;
    int64_t n = a->n, length = real ? n / 2 + 1 : n, outer = size[0], inner = size[2], rows = outer * inner, part[3];
    if (a->kind == FFT_HERMITIAN || (real && a->inverse) || rows * n < CUFFT_LEAST ||
        cut_length(real && n % 2 == 0 ? n / 2 : n, whole_length(r, inner), part) || !cufft_works(gpu_of(r)->number))
        return DECLINED;
    struct buffer *b = buffer_new_on(r->stream, (size_t)(rows * length) * sizeof(complex64));
    if (!b) { /* ours takes less, or says so */
        mx_error_clear();
        return DECLINED;
    }
    struct cufft_rows t = { .type = real ? CUFFT_R2C : CUFFT_C2C,
                            .direction = a->inverse ? CUFFT_INVERSE : CUFFT_FORWARD,
                            .lines = 1,
                            .n = n,
                            .rows = rows,
                            .from = { 1, n, n },
                            .to = { 1, length, length },
                            .x = gpu_pointer(r, r->y[0]),
                            .y = buffer_on(b, r->stream) };
    struct fourier_scale_call c = { .x = t.y, .y = t.y, .count = rows * length, .scale = (float)a->scale };
    struct box in = box_of((size_t)itemsize(x), 3, (int[]){ (int)outer, (int)inner, (int)n },
                           (int64_t[]){ inner * n, n, 1 }, (int64_t[]){ stride[0], stride[2], stride[1] });
    struct box out = box_of(sizeof(complex64), 3, (int[]){ (int)outer, (int)length, (int)inner },
                            (int64_t[]){ length * inner, inner, 1 }, (int64_t[]){ length * inner, 1, length });
    int failed = gpu_copy_box(r, &in, (uint64_t)t.x, gpu_address(r, x));
    bool done = !failed && cufft_transform(r, &t);
    if (done)
        failed = (c.scale != 1 && scale_rows(r, &c)) || gpu_copy_box(r, &out, (uint64_t)t.x, (uint64_t)t.y);
    buffer_release(b);
    return failed ? FAILED : done ? DONE : DECLINED;
}

/* ---- two axes at once */

/* x as [outer][n][inner] with a stride for each; false where its layout has more. */
static bool three_strides(mx x, int axis, int64_t stride[3], int64_t size[3])
{
    stride[1] = x->strides[axis];
    for (int k = 0; k < 3; k += 2) {
        stride[k] = 0;
        size[k] = 1;
        for (int i = k ? x->ndim - 1 : axis - 1; i >= (k ? axis + 1 : 0); i--) {
            if (x->shape[i] == 1)
                continue;
            if (size[k] == 1)
                stride[k] = x->strides[i];
            else if (x->strides[i] != stride[k] * size[k])
                return false;
            size[k] *= x->shape[i];
        }
    }
    return true;
}

static bool is_fft(const struct node *n) { return n->op->id == OP_fft && n->nin == 1 && gpu_takes_fft(n); }

/* The last axis comes first, or of complex numbers the one before it, as in derivatives.  What it says has nothing to
 * do with whether cuFFT is there, which is found out in the meantime: the same transform is the same bits each
 * time. */
bool gpu_begins_fft2(const struct node *first)
{
    if (!is_fft(first) || first->in[0]->ndim < 2)
        return false;
    const struct fft_args *a = first->args;
    mx x = first->in[0];
    int last = x->ndim - 1;
    bool real = a->kind == FFT_REAL && !a->inverse && a->axis == last;
    bool suits = real || (a->kind == FFT_COMPLEX && a->axis >= last - 1);
    return suits && a->scale == 1 && x->size >= CUFFT_LEAST && x->shape[last] > 1 && x->shape[last - 1] > 1;
}

bool gpu_ends_fft2(const struct node *n, const struct node *first)
{
    if (!is_fft(n) || !gpu_begins_fft2(first))
        return false;
    const struct fft_args *a = n->args, *f = first->args;
    return a->kind == FFT_COMPLEX && a->inverse == f->inverse && a->axis == 2 * n->in[0]->ndim - 3 - f->axis;
}

/* r is of the second node. */
static enum outcome both_by_cufft(const struct run *r, const struct node *first)
{
    const struct fft_args *a = r->args, *f = first->args;
    mx x = first->in[0], y = r->y[0];
    int last = x->ndim - 1;
    bool real = f->kind == FFT_REAL;
    int64_t stride[3], size[3], lines = x->shape[last - 1], n = x->shape[last], length = y->shape[last];
    if (!three_strides(x, last - 1, stride, size) || !cufft_works(gpu_of(r)->number))
        return DECLINED;
    struct cufft_rows t = { .type = real ? CUFFT_R2C : CUFFT_C2C,
                            .direction = a->inverse ? CUFFT_INVERSE : CUFFT_FORWARD,
                            .lines = lines,
                            .n = n,
                            .rows = size[0],
                            .from = { 1, stride[1], size[0] > 1 ? stride[0] : lines * stride[1] },
                            .to = { 1, length, lines * length },
                            .x = gpu_pointer(r, x) };
    if (stride[2] != 1 || t.from.line < n || t.from.row < lines * t.from.line || (uint64_t)t.x % sizeof(complex64))
        return DECLINED;
    if (gpu_out_new(r, 0))
        return FAILED;
    t.y = gpu_pointer(r, y);
    if (!cufft_transform(r, &t)) {
        buffer_release(y->buf);
        y->buf = NULL;
        return DECLINED;
    }
    struct fourier_scale_call c = { .x = t.y, .y = t.y, .count = y->size, .scale = (float)a->scale };
    return c.scale != 1 && scale_rows(r, &c) ? FAILED : DONE;
}

int gpu_produce_fft(struct stream *s, int n, struct entry *const m[], const bool wanted[], int first,
                    struct produced *b)
{
    bool both = !wanted[first] && m[n - 1]->node->nin == 1 && m[n - 1]->from[0] == first &&
                gpu_ends_fft2(m[n - 1]->node, m[first]->node);
    for (int i = first + 1; i < n - 1; i++)
        for (int k = 0; k < m[i]->node->nin; k++) both = both && m[i]->from[k] != first;
    b->made = 1u << first;
    b->members = 1u << first;
    if (both) {
        struct run r = run_of(s, m[n - 1]);
        enum outcome outcome = both_by_cufft(&r, m[first]->node);
        if (outcome != DECLINED) {
            b->made = 1u << (n - 1);
            b->members = 1u << first | 1u << (n - 1);
            return outcome == FAILED;
        }
    }
    return cuda_backend.run(s, m[first]);
}

/* ---- nodes */

bool gpu_takes_fft(const struct node *n)
{
    const struct fft_args *a = n->args;
    mx x = n->in[0];
    int64_t part[3], rows = x->size / greatest(dim(x, a->axis), 1);
    return rows * a->n <= INT32_MAX && (cut_length(a->n, FOURIER_WHOLE, part) ||
                                        cut_length(fourier_length_above(2 * (int64_t)a->n - 1), FOURIER_WHOLE, part));
}

int gpu_run_fft(const struct run *r)
{
    const struct fft_args *a = r->args;
    mx x = r->x[0], y = r->y[0];
    mx_own hold = { 0 };
    int64_t stride[3], size[3], part[3], n = a->n, m = n / 2;
    if (gpu_out_new(r, 0))
        return 1;
    if (y->size == 0)
        return 0;
    if (!three_strides(x, a->axis, stride, size)) {
        if (is_nil(x = gpu_row_major(r, x, &hold)))
            return 1;
        three_strides(x, a->axis, stride, size);
    }
    enum outcome outcome = size[2] > 1 ? columns_by_cufft(r, x, stride, size) : by_cufft(r, x, stride, size);
    if (outcome != DECLINED) {
        mx_drop(&hold);
        return outcome == FAILED;
    }
    int64_t outer = size[0], inner = size[2];
    void *from = gpu_pointer(r, x), *to = gpu_pointer(r, y);
    struct fourier_side in = side_of(from, stride[0], stride[1], stride[2], FOURIER_COMPLEX, n);
    struct fourier_side out = row_major_side(to, a->kind == FFT_REAL ? m + 1 : n, inner);
    bool halves = a->kind != FFT_COMPLEX && n % 2 == 0 && cut_length(m, whole_length(r, inner), part);
    struct buffer *folded = NULL;
    int failed = 0;
    if (a->kind == FFT_REAL) {
        in.how = halves ? FOURIER_PAIRS : FOURIER_REAL;
        if (halves && stride[1] == 1 && (uint64_t)from % 8 == 0 && stride[0] % 2 == 0 && stride[2] % 2 == 0)
            in = side_of(from, stride[0] / 2, 1, stride[2] / 2, FOURIER_COMPLEX, m);
        in.limit = in.length = halves ? m : n;
        if (halves && part[0] == m) {
            out.how = FOURIER_FOLDED;
        } else if (halves) {
            failed = !(folded = buffer_new_on(r->stream, (size_t)(outer * m * inner) * 8));
            out = failed ? out : row_major_side(buffer_on(folded, r->stream), m, inner);
        }
    } else if (a->kind == FFT_HERMITIAN) {
        in.how = halves ? FOURIER_UNFOLDED : FOURIER_HALF;
        in.limit = in.length = halves ? m : n;
        out = side_of(to, n * inner, inner, 1, halves ? FOURIER_PAIRS : FOURIER_REAL, halves ? m : n);
        if (halves && inner == 1)
            out = row_major_side(to, m, 1);
    }
    in.before = out.after = a->inverse;
    if (!failed)
        failed = transform_any(r, &(struct transform){ in, out, outer, halves ? m : n, inner, (float)a->scale });
    if (!failed && folded) {
        static struct gpu_found found;
        void *kernel = gpu_find(gpu_of(r), &found, "fourier", "fourier_fold", DT_COUNT);
        struct two_tables w;
        failed = !kernel || two_tables(r, &w, n);
        struct fourier_fold_call c = {
            .y = to, .x = buffer_on(folded, r->stream), .outer = outer, .half = m, .inner = inner
        };
        if (!failed) {
            c.coarse = w.coarse;
            c.fine = w.fine;
            c.fine_bits = w.bits;
            failed = gpu_launch(r->stream, "fft", kernel, ceil_div(y->size, FOURIER_TABLE_THREADS),
                                FOURIER_TABLE_THREADS, (void *[]){ &c });
        }
    }
    if (folded)
        buffer_release(folded);
    drop_large_tables(r);
    mx_drop(&hold);
    return failed;
}
