/* Indices: gathering and scattering against plain loops, for every type, layout and way to fold;
 * duplicates in order on any number of threads; errors found before anything is written. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/outside.h"
#include "core/pool.h"
#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/sample.h"

enum { TRIALS = 600 };

static enum dtype index_type(int size)
{
    static const enum dtype types[] = {
        DT_int32, DT_int64, DT_uint32, DT_uint64, DT_int16, DT_uint16, DT_int8, DT_uint8
    };
    return types[draw(size <= 127 ? 8 : size < 32767 ? 6 : 4)];
}

/* Random indices for an axis of this size, some counting from the end. */
static mx indices_for(int size, int ndim, const int *shape)
{
    enum dtype t = index_type(size);
    return sample_between(t, ndim, shape, dtype_kind(t) == 'i' && draw(2) ? -size : 0, size);
}

static int64_t resolved(double i, int size) { return (int64_t)(i < 0 ? i + size : i); }

static void takes(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        int shape[8], ndim = 1 + draw_shape(3, 5, true, shape + 1), axis = (int)draw(ndim), ishape[8], m = 0;
        int indim = draw_shape(3, 4, true, ishape), whole[16];
        shape[0] = 1 + (int)draw(5);
        bool flat = draw(5) == 0;
        mx_own x = { 0 }, index = { 0 }, y = { 0 };
        KEEP(&x, sample(draw_dtype(), ndim, shape));
        int size = flat ? (int)x.it->size : shape[axis];
        if (size == 0)
            ishape[0] = 0, indim = indim ? indim : 1;
        KEEP(&index, indices_for(size, indim, ishape));
        if (flat)
            KEEP(&y, mx_take_flat(x.it, index.it));
        else
            KEEP(&y, mx_take(x.it, index.it, draw(2) ? axis : axis - ndim));
        struct model a = model_of(x.it), k = model_of(index.it);
        for (int i = 0; i < axis && !flat; i++) whole[m++] = shape[i];
        for (int i = 0; i < indim; i++) whole[m++] = ishape[i];
        for (int i = axis + 1; i < ndim && !flat; i++) whole[m++] = shape[i];
        struct model want = model_new(m, whole);
        for (int64_t i = 0; i < want.size; i++) {
            int64_t p[MX_MAX_NDIM], q[MX_MAX_NDIM];
            place_of(&want, i, p);
            if (flat) {
                want.v[i] = a.v[resolved(k.v[i], size)];
                continue;
            }
            for (int j = 0; j < ndim; j++)
                q[j] = j < axis ? p[j] : j == axis ? resolved(k.v[number_of(&k, p + axis)], size) : p[j - 1 + indim];
            want.v[i] = a.v[number_of(&a, q)];
        }
        assert_int_equal(y.it->dtype, x.it->dtype);
        assert_holds(y.it, &want);
        model_drop(&want);
        model_drop(&a);
        model_drop(&k);
        mx_drop(&x);
        mx_drop(&index);
        mx_drop(&y);
    }
}

static void takes_along_an_axis(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        int shape[8], ndim = 1 + draw_shape(3, 4, false, shape + 1), axis = (int)draw(ndim), ishape[8], whole[8];
        mx_own x = { 0 }, index = { 0 }, y = { 0 };
        shape[0] = 1 + (int)draw(4);
        for (int i = 0; i < ndim; i++) {
            ishape[i] = i == axis ? (int)draw(6) : shape[i] == 1 ? 1 + (int)draw(3) : draw(3) ? shape[i] : 1;
            whole[i] = i == axis || shape[i] == 1 ? ishape[i] : shape[i];
        }
        KEEP(&x, sample(draw_dtype(), ndim, shape));
        KEEP(&index, indices_for(shape[axis], ndim, ishape));
        KEEP(&y, mx_take_along_axis(x.it, index.it, draw(2) ? axis : axis - ndim));
        struct model a = model_of(x.it), k = model_of(index.it), want = model_new(ndim, whole);
        for (int64_t i = 0; i < want.size; i++) {
            int64_t p[MX_MAX_NDIM], q[MX_MAX_NDIM];
            place_of(&want, i, p);
            for (int j = 0; j < ndim; j++) q[j] = ishape[j] == 1 ? 0 : p[j];
            int64_t at = resolved(k.v[number_of(&k, q)], shape[axis]);
            for (int j = 0; j < ndim; j++) q[j] = j == axis ? at : shape[j] == 1 ? 0 : p[j];
            want.v[i] = a.v[number_of(&a, q)];
        }
        assert_holds(y.it, &want);
        model_drop(&want);
        model_drop(&a);
        model_drop(&k);
        mx_drop(&x);
        mx_drop(&index);
        mx_drop(&y);
    }
}

static double folded(enum scatter_fold f, double a, double b, enum dtype t)
{
    switch (f) {
    case SCATTER_SET: return b;
    case SCATTER_ADD: return t == DT_bool_ ? (a != 0 || b != 0) : t == DT_int8 ? (int8_t)(int)(a + b) : a + b;
    case SCATTER_PROD: return a * b;
    case SCATTER_MAX: return a > b ? a : b;
    case SCATTER_MIN: return a < b ? a : b;
    }
    return 0;
}

static void puts_along_an_axis(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        int shape[8], ndim = 1 + draw_shape(3, 4, false, shape + 1), axis = (int)draw(ndim), ishape[8], whole[8],
                      vshape[8];
        enum dtype t = draw_dtype();
        bool add = draw(2);
        mx_own x = { 0 }, index = { 0 }, v = { 0 }, y = { 0 };
        shape[0] = 1 + (int)draw(4);
        for (int i = 0; i < ndim; i++) {
            ishape[i] = i == axis ? (int)draw(9) : draw(3) ? shape[i] : 1;
            whole[i] = i == axis ? ishape[i] : shape[i];
            vshape[i] = draw(4) ? whole[i] : 1;
        }
        int drop = (int)draw(ndim + 1);
        drop = draw(3) ? 0 : drop;
        double most = t == DT_bool_ ? 2 : 9;
        KEEP(&x, sample_between(t, ndim, shape, 0, most));
        struct model want = model_of(x.it);
        for (int64_t i = 0; i < want.size; i++) want.v[i] = trunc(want.v[i]);
        KEEP(&x, array_from(t, ndim, shape, want.v));
        KEEP(&index, indices_for(shape[axis], ndim, ishape));
        KEEP(&v, sample_between(DT_int16, ndim - drop, vshape + drop, 0, most));
        if (add)
            KEEP(&y, mx_scatter_add_axis(x.it, index.it, v.it, axis));
        else
            KEEP(&y, mx_put_along_axis(x.it, index.it, v.it, axis));
        struct model k = model_of(index.it), vm = model_of(v.it), all = model_new(ndim, whole);
        for (int64_t i = 0; i < all.size; i++) {
            int64_t p[MX_MAX_NDIM], q[MX_MAX_NDIM];
            place_of(&all, i, p);
            for (int j = 0; j < ndim; j++) q[j] = ishape[j] == 1 ? 0 : p[j];
            int64_t at = resolved(k.v[number_of(&k, q)], shape[axis]);
            for (int j = 0; j < ndim; j++) q[j] = vshape[j] == 1 ? 0 : p[j];
            double u = vm.v[number_of(&vm, q + drop)];
            p[axis] = at;
            double *d = &want.v[number_of(&want, p)];
            *d = folded(add ? SCATTER_ADD : SCATTER_SET, *d, u, t);
        }
        assert_holds(y.it, &want);
        model_drop(&want);
        model_drop(&k);
        model_drop(&vm);
        model_drop(&all);
        mx_drop(&x);
        mx_drop(&index);
        mx_drop(&v);
        mx_drop(&y);
    }
}

/* Operands of one general gather or scatter: index arrays that broadcast, and slices that fit. */
struct places {
    int ndim, shape[8];       /* of the array */
    int n, axes[8], given[8]; /* indexed */
    int sizes[8];             /* of a slice */
    int gdim, grid[8];        /* of the indices together */
    mx_own index[8];
    struct model at[8];
};

static void places_draw(struct places *p)
{
    *p = (struct places){ 0 };
    p->ndim = 1 + draw_shape(3, 5, false, p->shape + 1);
    p->shape[0] = 1 + (int)draw(5);
    p->n = 1 + (int)draw(p->ndim);
    p->gdim = draw_shape(3, 3, true, p->grid);
    bool single = draw(3);
    for (int i = 0; i < p->ndim; i++) p->sizes[i] = draw(2) ? p->shape[i] : (int)draw(p->shape[i] + 1);
    for (int k = 0; k < p->n; k++) {
        int a;
        bool taken;
        do {
            a = (int)draw(p->ndim);
            taken = false;
            for (int j = 0; j < k; j++) taken |= p->axes[j] == a;
        } while (taken);
        p->axes[k] = a;
        p->given[k] = draw(2) ? a : a - p->ndim;
        if (single)
            p->sizes[a] = 1;
        /* Its share of the grid: fewer axes in front, ones among them. */
        int drop = k ? (int)draw(p->gdim + 1) : 0, shape[8];
        for (int i = 0; i < p->gdim; i++) shape[i] = k && draw(3) == 0 ? 1 : p->grid[i];
        int room = p->shape[a] - p->sizes[a] + 1;
        enum dtype t = index_type(p->shape[a]);
        double from = 0;
        if (dtype_kind(t) == 'i' && draw(2))
            from = -p->shape[a];
        KEEP(&p->index[k], sample_between(t, p->gdim - drop, shape + drop, from, from + room));
        p->at[k] = model_of(p->index[k].it);
    }
}

static void places_drop(struct places *p)
{
    for (int k = 0; k < p->n; k++) {
        mx_drop(&p->index[k]);
        model_drop(&p->at[k]);
    }
}

/* Where in the array element `here` of grid and slice lies. */
static void place_in(const struct places *p, const int64_t *here, int64_t *out)
{
    for (int i = 0; i < p->ndim; i++) out[i] = here[p->gdim + i];
    for (int k = 0; k < p->n; k++) {
        const struct model *m = &p->at[k];
        int64_t q[MX_MAX_NDIM];
        int lead = p->gdim - m->ndim;
        for (int i = 0; i < m->ndim; i++) q[i] = m->shape[i] == 1 ? 0 : here[lead + i];
        out[p->axes[k]] += resolved(m->v[number_of(m, q)], p->shape[p->axes[k]]);
    }
}

static struct model grid_and_slice(const struct places *p)
{
    int shape[16];
    memcpy(shape, p->grid, (size_t)p->gdim * sizeof *shape);
    memcpy(shape + p->gdim, p->sizes, (size_t)p->ndim * sizeof *shape);
    return model_new(p->gdim + p->ndim, shape);
}

static void gathers(void **state)
{
    (void)state;
    for (int trial = 0; trial < 2 * TRIALS; trial++) {
        struct places p;
        mx_own x = { 0 }, y = { 0 };
        places_draw(&p);
        mx at[8];
        for (int k = 0; k < p.n; k++) at[k] = p.index[k].it;
        KEEP(&x, sample(draw_dtype(), p.ndim, p.shape));
        KEEP(&y, mx_gather(x.it, at, p.given, p.n, p.sizes));
        struct model a = model_of(x.it), want = grid_and_slice(&p);
        for (int64_t i = 0; i < want.size; i++) {
            int64_t here[MX_MAX_NDIM], there[MX_MAX_NDIM];
            place_of(&want, i, here);
            place_in(&p, here, there);
            want.v[i] = a.v[number_of(&a, there)];
        }
        assert_holds(y.it, &want);
        model_drop(&a);
        model_drop(&want);
        mx_drop(&x);
        mx_drop(&y);
        places_drop(&p);
    }
}

static void scatters(void **state)
{
    (void)state;
    for (int trial = 0; trial < 3 * TRIALS; trial++) {
        struct places p;
        enum dtype t = draw_dtype();
        enum scatter_fold f = (enum scatter_fold)draw(5);
        double most = t == DT_bool_ || f == SCATTER_PROD ? 2 : 9;
        mx_own x = { 0 }, u = { 0 }, y = { 0 };
        places_draw(&p);
        mx at[8];
        int ushape[16];
        for (int k = 0; k < p.n; k++) at[k] = p.index[k].it;
        for (int i = 0; i < p.gdim; i++) ushape[i] = draw(5) ? p.grid[i] : 1;
        memcpy(ushape + p.gdim, p.sizes, (size_t)p.ndim * sizeof *ushape);
        KEEP(&x, sample_between(t, p.ndim, p.shape, 0, most));
        struct model want = model_of(x.it);
        for (int64_t i = 0; i < want.size; i++) want.v[i] = trunc(want.v[i]);
        KEEP(&x, array_from(t, p.ndim, p.shape, want.v));
        KEEP(&u, sample_between(DT_uint8, p.gdim + p.ndim, ushape, 0, most));
        KEEP(&y, mx_scatter(x.it, at, p.given, p.n, u.it, f));
        struct model all = grid_and_slice(&p), um = model_of(u.it);
        for (int64_t i = 0; i < all.size; i++) {
            int64_t here[MX_MAX_NDIM], there[MX_MAX_NDIM];
            place_of(&all, i, here);
            place_in(&p, here, there);
            for (int k = 0; k < p.gdim; k++) here[k] = ushape[k] == 1 ? 0 : here[k];
            double *d = &want.v[number_of(&want, there)];
            *d = folded(f, *d, um.v[number_of(&um, here)], t);
        }
        assert_holds(y.it, &want);
        model_drop(&want);
        model_drop(&all);
        model_drop(&um);
        mx_drop(&x);
        mx_drop(&u);
        mx_drop(&y);
        places_drop(&p);
    }
}

/* ---- large enough for threads: every way to share the work out gives the bits of a plain loop */

struct large {
    int ndim, shape[3], axis, count;
    bool along, narrow;
};

/* The loop: one lookup after the other, in the arithmetic of the type. */
static void plain_scatter(mx y, mx index, mx u, enum scatter_fold f)
{
    float *d = array_host(y);
    const int32_t *k = array_host(index);
    const float *v = array_host(u);
    int64_t row = y->size / y->shape[0];
    for (int64_t i = 0; i < index->size; i++)
        for (int64_t j = 0; j < row; j++) {
            float *p = &d[k[i] * row + j], w = v[i * row + j];
            *p = f == SCATTER_SET    ? w
                 : f == SCATTER_ADD  ? *p + w
                 : f == SCATTER_PROD ? *p * w
                 : f == SCATTER_MAX  ? (*p > w ? *p : w)
                                     : (*p < w ? *p : w);
        }
}

static void scatters_on_threads(void **state)
{
    (void)state;
    /* Rows of the destination, elements of a row, updates. */
    static const int cases[][3] = { { 5000, 1, 200000 },  { 7, 1, 100000 }, { 3000, 3, 60000 }, { 300, 1024, 700 },
                                    { 40000, 16, 50000 }, { 1, 1, 70000 },  { 10, 70000, 5 } };
    int threads = pool_threads();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int f = 0; f < 5; f++) {
            int rows = cases[c][0], row = cases[c][1], count = cases[c][2];
            mx_own x = { 0 }, index = { 0 }, u = { 0 }, want = { 0 }, y = { 0 };
            int64_t n = (int64_t)count * row;
            {
                MX_SCOPE(NULL);
                double *v = malloc((size_t)(n + rows * row) * sizeof *v);
                for (int64_t i = 0; i < n + rows * row; i++) v[i] = draw_real(0.9, 1.1);
                mx_keep(&u, array_from(DT_float32, 2, (int[]){ count, row }, v));
                mx_keep(&x, array_from(DT_float32, 2, (int[]){ rows, row }, v + n));
                mx_keep(&want, array_from(DT_float32, 2, (int[]){ rows, row }, v + n));
                for (int i = 0; i < count; i++) v[i] = (double)draw(draw(2) ? rows : rows / 3 + 1);
                mx_keep(&index, array_from(DT_int32, 1, &count, v));
                free(v);
            }
            plain_scatter(want.it, index.it, u.it, (enum scatter_fold)f);
            for (int t = 1; t <= 9; t += 4) {
                pool_set_threads(t);
                KEEP(&y, mx_scatter(x.it, &index.it, (int[]){ 0 }, 1, mx_reshape(u.it, 3, (int[]){ count, 1, row }),
                                    (enum scatter_fold)f));
                assert_int_equal(mx_eval(1, &y.it), 0);
                if (memcmp(array_host(y.it), array_host(want.it), (size_t)nbytes(y.it)))
                    fail_msg("case %d, fold %d, %d threads", (int)c, f, t);
                /* The same along an axis: rows, then columns of the transposed. */
                if (f == SCATTER_ADD) {
                    KEEP(&y, mx_scatter_add_axis(x.it, mx_expand_dims(index.it, (int[]){ 1 }, 1), u.it, 0));
                    assert_int_equal(mx_eval(1, &y.it), 0);
                    assert_memory_equal(array_host(y.it), array_host(want.it), (size_t)nbytes(y.it));
                    KEEP(&y, mx_contiguous(mx_transpose(mx_scatter_add_axis(mx_transpose(x.it, NULL, 0),
                                                                            mx_expand_dims(index.it, (int[]){ 0 }, 1),
                                                                            mx_transpose(u.it, NULL, 0), 1),
                                                        NULL, 0),
                                           false));
                    assert_int_equal(mx_eval(1, &y.it), 0);
                    assert_memory_equal(array_host(y.it), array_host(want.it), (size_t)nbytes(y.it));
                }
                /* Reading back what was written. */
                KEEP(&y, mx_take(want.it, index.it, 0));
                assert_int_equal(mx_eval(1, &y.it), 0);
                const float *a = array_host(y.it), *b = array_host(want.it);
                const int32_t *k = array_host(index.it);
                for (int64_t i = 0; i < n; i++)
                    if (a[i] != b[k[i / row] * row + i % row])
                        fail_msg("take: element %lld", (long long)i);
            }
            mx_drop(&x);
            mx_drop(&index);
            mx_drop(&u);
            mx_drop(&want);
            mx_drop(&y);
        }
    pool_set_threads(threads);
}

/* Slices that overlap cannot be shared out: the order would not be kept. */
static void overlapping_slices_on_threads(void **state)
{
    (void)state;
    enum { N = 200000, SLICE = 150000, COUNT = 20 };
    int threads = pool_threads();
    mx_own x = { 0 }, index = { 0 }, u = { 0 }, y = { 0 };
    KEEP(&x, sample_between(DT_float32, 1, (int[]){ N }, -1, 1));
    KEEP(&index, sample_between(DT_int32, 1, (int[]){ COUNT }, 0, N - SLICE + 1));
    KEEP(&u, sample_between(DT_float32, 2, (int[]){ COUNT, SLICE }, -1, 1));
    for (int f = 0; f < 2; f++) {
        struct model want = model_of(x.it), k = model_of(index.it), um = model_of(u.it);
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < SLICE; j++) {
                double *d = &want.v[(int)k.v[i] + j], v = um.v[i * SLICE + j];
                *d = f ? (float)*d + (float)v : v;
            }
        for (int t = 1; t <= 4; t += 3) {
            pool_set_threads(t);
            KEEP(&y, mx_scatter(x.it, &index.it, (int[]){ 0 }, 1, u.it, f ? SCATTER_ADD : SCATTER_SET));
            assert_holds(y.it, &want);
        }
        model_drop(&want);
        model_drop(&k);
        model_drop(&um);
    }
    pool_set_threads(threads);
    mx_drop(&x);
    mx_drop(&index);
    mx_drop(&u);
    mx_drop(&y);
}

/* Half types add in float32 and round after each addition. */
static void halves_accumulate(void **state)
{
    (void)state;
    enum { N = 40000 };
    for (int narrow = 0; narrow < 2; narrow++) {
        enum dtype t = narrow ? DT_bfloat16 : DT_float16;
        for (int row = 1; row <= 20; row += 19) {
            mx_own y = { 0 };
            int limit = narrow ? 256 : 2048; /* from here on one more is half an ulp, and ties go to even */
            KEEP(&y, mx_scatter(mx_zeros(2, (int[]){ 2, row }, t),
                                (mx[]){ mx_full(1, (int[]){ N }, array_of_int(1, DT_uint8), DT_uint8) }, (int[]){ 0 },
                                1, mx_ones(3, (int[]){ N, 1, row }, t), SCATTER_ADD));
            struct model want = model_new(2, (int[]){ 2, row });
            for (int i = 0; i < row; i++) want.v[row + i] = limit;
            assert_holds(y.it, &want);
            model_drop(&want);
            mx_drop(&y);
        }
    }
}

static void scatters_in_place(void **state)
{
    (void)state;
    mx_own x = { 0 }, y = { 0 };
    KEEP(&x, mx_zeros(1, (int[]){ 100 }, DT_float32));
    assert_int_equal(mx_eval(1, &x.it), 0);
    struct buffer *b = x.it->buf;
    KEEP(&y, mx_put_along_axis(x.it, mx_arange(0, 100, 2, DT_int32), array_of_int(3, DT_int32), 0));
    mx_drop(&x);
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_ptr_equal(y.it->buf, b);
    for (int i = 0; i < 100; i++) assert_float_equal(((float *)array_host(y.it))[i], (i % 2 ? 0 : 3), 0);
    /* The updates are the operand itself. */
    KEEP(&x, mx_put_along_axis(y.it, mx_arange(99, -1, -1, DT_int32), y.it, 0));
    mx_drop(&y);
    assert_int_equal(mx_eval(1, &x.it), 0);
    for (int i = 0; i < 100; i++) assert_float_equal(((float *)array_host(x.it))[i], (i % 2 ? 3 : 0), 0);
    /* An index out of range that is an error: nothing was written over the operand, and it fails again. */
    outside_set_fails(true);
    b = x.it->buf;
    const float *data = array_host(x.it);
    KEEP(&y, mx_put_along_axis(x.it, mx_arange(1, 101, 1, DT_int32), array_of_int(9, DT_int32), 0));
    mx_drop(&x);
    for (int again = 0; again < 2; again++) {
        assert_fails(y.it, MX_INDEX,
                     "[put_along_axis] index 100 at position (99,) is out of range for axis 0 of size 100");
        for (int i = 0; i < 100; i++) assert_float_equal(data[i], (i % 2 ? 3 : 0), 0);
    }
    /* Else it is left out, and the others are written in place. */
    outside_set_fails(false);
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_ptr_equal(y.it->buf, b);
    for (int i = 0; i < 100; i++) assert_float_equal(data[i], (i ? 9 : 0), 0);
    mx_drop(&y);
}

/* Said once, to whoever comes for it, until it is asked for again. */
static void messages(void **state)
{
    (void)state;
    char text[1024];
    mx_own y = { 0 };
    outside_set_fails(false);
    outside_take(text, sizeof text); /* of other tests */
    outside_again();
    for (int again = 0; again < 3; again++) {
        KEEP(&y, mx_take(mx_arange(0, 5, 1, DT_int32), mx_arange(3, 9, 1, DT_int32), 0));
        assert_true(outside_counts() == (again != 1));
        assert_int_equal(mx_eval(1, &y.it), 0);
        for (int i = 0; i < 6; i++) assert_int_equal(((int32_t *)array_host(y.it))[i], i < 2 ? 3 + i : 4);
        mx_drop(&y);
        assert_true(atomic_load(&outside_kept) == (again != 1));
        if (again != 1) {
            assert_true(outside_take(text, sizeof text));
            assert_non_null(strstr(text, "[take] index 5 at position (2,) is out of range for axis 0 of size 5; the "
                                         "nearest element is read."));
        }
        assert_false(outside_take(text, sizeof text));
        if (again == 1)
            outside_again();
    }
}

static mx int_array(enum dtype t, int ndim, const int *shape, const double *v) { return array_from(t, ndim, shape, v); }

static void errors(void **state)
{
    (void)state;
    mx_own y = { 0 };
    outside_set_fails(true);
#define FAILS(expression, kind, part)   \
    do {                                \
        KEEP(&y, expression);           \
        assert_fails(y.it, kind, part); \
        mx_drop(&y);                    \
    } while (0)
    mx_own x = { 0 }, e = { 0 };
    KEEP(&x, mx_zeros(2, (int[]){ 3, 5 }, DT_float32));
    KEEP(&e, mx_zeros(2, (int[]){ 3, 0 }, DT_float32));
    mx at;
    FAILS(mx_gather(x.it, (at = int_array(DT_int32, 2, (int[]){ 1, 3 }, (double[]){ 0, -5, 7 }), &at), (int[]){ 1 }, 1,
                    (int[]){ 3, 1 }),
          MX_INDEX, "[gather] index 7 at position (2,) is out of range for axis 1 of size 5");
    FAILS(mx_gather(x.it, (at = int_array(DT_int64, 2, (int[]){ 2, 2 }, (double[]){ 0, 1, -6, 2 }), &at), (int[]){ 1 },
                    1, (int[]){ 3, 1 }),
          MX_INDEX, "[gather] index -6 at position (1, 0) is out of range for axis 1 of size 5");
    FAILS(mx_gather(x.it, (at = int_array(DT_int64, 1, (int[]){ 2 }, (double[]){ 3, 4 }), &at), (int[]){ 1 }, 1,
                    (int[]){ 3, 2 }),
          MX_INDEX, "[gather] a slice of 2 from index 4 at position (1,) is out of range for axis 1 of size 5");
    FAILS(mx_take(x.it, int_array(DT_uint64, 1, (int[]){ 1 }, (double[]){ 18446744073709549568. }), 0), MX_INDEX,
          "index 18446744073709549568 at position");
    FAILS(mx_take(x.it, int_array(DT_uint8, 2, (int[]){ 2, 2 }, (double[]){ 0, 1, 2, 3 }), 0), MX_INDEX,
          "index 3 at position (1, 1)");
    FAILS(mx_take(e.it, int_array(DT_int32, 0, NULL, (double[]){ 0 }), 1), MX_INDEX,
          "out of range for axis 1 of size 0");
    FAILS(mx_take_flat(x.it, int_array(DT_int8, 0, NULL, (double[]){ -16 })), MX_INDEX, "index -16");
    FAILS(mx_take_along_axis(x.it, int_array(DT_int32, 2, (int[]){ 1, 1 }, (double[]){ 5 }), 1), MX_INDEX,
          "[take_along_axis] index 5 at position (0, 0) is out of range for axis 1 of size 5");
    FAILS(mx_scatter(x.it, (at = int_array(DT_int32, 1, (int[]){ 2 }, (double[]){ 1, 3 }), &at), (int[]){ 0 }, 1,
                     mx_ones(3, (int[]){ 2, 1, 5 }, DT_float32), SCATTER_ADD),
          MX_INDEX, "[scatter] index 3 at position (1,) is out of range for axis 0 of size 3");
    FAILS(mx_scatter(x.it, (at = int_array(DT_int32, 1, (int[]){ 2 }, (double[]){ 1, 2 }), &at), (int[]){ 0 }, 1,
                     mx_ones(3, (int[]){ 2, 2, 5 }, DT_float32), SCATTER_SET),
          MX_INDEX, "[scatter] a slice of 2 from index 2 at position (1,)");
    FAILS(mx_scatter_add_axis(x.it, int_array(DT_uint64, 2, (int[]){ 1, 1 }, (double[]){ 18446744073709549568. }),
                              array_of_int(1, DT_int32), 0),
          MX_INDEX, "[scatter_add_axis] index 18446744073709549568 at position (0, 0)");
    FAILS(mx_scatter_add_axis(x.it, int_array(DT_int32, 2, (int[]){ 2, 1 }, (double[]){ -3, -4 }),
                              array_of_int(1, DT_int32), 0),
          MX_INDEX, "[scatter_add_axis] index -4 at position (1, 0)");
    {
        MX_SCOPE(NULL);
        mx i = array_of_int(0, DT_int32), i2 = mx_zeros(2, (int[]){ 1, 1 }, DT_int32), one[2] = { i, i };
        assert_fails(mx_take(x.it, array_of_int(0, DT_bool_), 0), MX_TYPE,
                     "[take] expected integer indices, got bool; where()");
        assert_fails(mx_take(x.it, array_of_int(0, DT_float32), 0), MX_TYPE,
                     "[take] expected integer indices, got float32");
        assert_fails(mx_take(x.it, i, 2), MX_AXIS, "[take] axis 2");
        assert_fails(mx_take(i, i, 0), MX_AXIS, "[take] axis 0");
        assert_fails(mx_take_flat(x.it, array_of_int(0, DT_complex64)), MX_TYPE, "complex64");
        assert_fails(mx_take_along_axis(x.it, i, 0), MX_VALUE,
                     "[take_along_axis] expected indices with as many dimensions");
        assert_fails(mx_take_along_axis(x.it, mx_zeros(2, (int[]){ 2, 4 }, DT_int32), 0), MX_VALUE,
                     "[take_along_axis]");
        assert_fails(mx_take_along_axis(x.it, i2, -3), MX_AXIS, "[take_along_axis] axis -3");
        assert_fails(mx_put_along_axis(x.it, i2, mx_zeros(1, (int[]){ 2 }, DT_int32), 0), MX_VALUE,
                     "[put_along_axis] expected values that broadcast to shape (1,5), got (2,)");
        assert_fails(mx_put_along_axis(x.it, array_of_int(0, DT_bool_), i, 0), MX_TYPE, "[put_along_axis]");
        assert_fails(mx_scatter_add_axis(x.it, mx_zeros(2, (int[]){ 2, 2 }, DT_int32), i, 0), MX_VALUE,
                     "[scatter_add_axis]");
        assert_fails(mx_gather(x.it, one, (int[]){ 1, -1 }, 2, (int[]){ 1, 1 }), MX_VALUE,
                     "[gather] expected distinct axes, got axis -1 twice");
        assert_fails(mx_gather(x.it, one, (int[]){ 1, 5 }, 2, (int[]){ 1, 1 }), MX_AXIS, "[gather] axis 5");
        assert_fails(mx_gather(x.it, one, (int[]){ 1 }, 1, (int[]){ 4, 1 }), MX_VALUE,
                     "[gather] expected a slice size from 0 to 3 for axis 0, got 4");
        assert_fails(mx_gather(x.it, (mx[]){ mx_zeros(1, (int[]){ 2 }, DT_int8), mx_zeros(1, (int[]){ 3 }, DT_int8) },
                               (int[]){ 0, 1 }, 2, (int[]){ 1, 1 }),
                     MX_VALUE, "(2,) and (3,)");
        assert_fails(mx_scatter(x.it, one, (int[]){ 0 }, 1, i, SCATTER_SET), MX_VALUE,
                     "[scatter] expected updates with 2 dimensions");
        assert_fails(mx_scatter(x.it, one, (int[]){ 0 }, 1, mx_zeros(2, (int[]){ 4, 1 }, DT_float32), SCATTER_SET),
                     MX_VALUE, "[scatter] expected updates of the shape");
        assert_ptr_equal(mx_take(MX_NIL, i, 0), MX_NIL);
        assert_ptr_equal(mx_take(x.it, MX_NIL, 0), MX_NIL);
        assert_ptr_equal(mx_scatter(x.it, one, (int[]){ 0 }, 1, MX_NIL, SCATTER_SET), MX_NIL);
        assert_ptr_equal(mx_put_along_axis(x.it, MX_NIL, i, 0), MX_NIL);
        mx_error_clear();
    }
    mx_drop(&x);
    mx_drop(&e);
}

/* Index types narrower than the axis they index, and axes too long for them. */
static void narrow_indices(void **state)
{
    (void)state;
    mx_own x = { 0 }, y = { 0 };
    KEEP(&x, mx_arange(0, 1000, 1, DT_int32));
    KEEP(&y, mx_take(x.it, int_array(DT_int8, 1, (int[]){ 4 }, (double[]){ -128, -1, 0, 127 }), 0));
    struct model want = model_new(1, (int[]){ 4 });
    memcpy(want.v, (double[]){ 872, 999, 0, 127 }, 4 * sizeof(double));
    assert_holds(y.it, &want);
    KEEP(&y, mx_take(x.it, int_array(DT_uint8, 1, (int[]){ 4 }, (double[]){ 255, 1, 0, 128 }), 0));
    memcpy(want.v, (double[]){ 255, 1, 0, 128 }, 4 * sizeof(double));
    assert_holds(y.it, &want);
    KEEP(&y, mx_scatter_add_axis(mx_zeros(1, (int[]){ 130 }, DT_int32),
                                 int_array(DT_int8, 1, (int[]){ 2 }, (double[]){ -128, -1 }), array_of_int(1, DT_int32),
                                 0));
    model_drop(&want);
    want = model_new(1, (int[]){ 130 });
    want.v[2] = want.v[129] = 1;
    assert_holds(y.it, &want);
    model_drop(&want);
    mx_drop(&x);
    mx_drop(&y);
}

/* Offsets past 2^31 in a view, of which only two rows are in memory. */
static void large_offsets(void **state)
{
    (void)state;
    enum { N = 1 << 15, M = 1 << 18 };
    mx_own x = { 0 }, y = { 0 };
    KEEP(&x, mx_broadcast_to(mx_reshape(mx_arange(0, M, 1, DT_uint8), 2, (int[]){ 1, M }), 2, (int[]){ N, M }));
    KEEP(&y, mx_take_flat(mx_slice(x.it, (int[]){ 0, 0 }, (int[]){ 5, M }, NULL), array_of_int(-1, DT_int32)));
    struct model want = model_new(0, NULL);
    *want.v = (uint8_t)(M - 1);
    assert_holds(y.it, &want);
    KEEP(&y, mx_take(mx_reshape(x.it, 3, (int[]){ N, M / 4, 4 }), array_of_int(N - 1, DT_int64), 0));
    KEEP(&y, mx_take(mx_take(y.it, array_of_int(-1, DT_int32), 0), array_of_int(3, DT_int32), 0));
    assert_holds(y.it, &want);
    model_drop(&want);
    mx_drop(&x);
    mx_drop(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes),
        cmocka_unit_test(takes_along_an_axis),
        cmocka_unit_test(puts_along_an_axis),
        cmocka_unit_test(gathers),
        cmocka_unit_test(scatters),
        cmocka_unit_test(scatters_on_threads),
        cmocka_unit_test(overlapping_slices_on_threads),
        cmocka_unit_test(halves_accumulate),
        cmocka_unit_test(scatters_in_place),
        cmocka_unit_test(errors),
        cmocka_unit_test(narrow_indices),
        cmocka_unit_test(large_offsets),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
