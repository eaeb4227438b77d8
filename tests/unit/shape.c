/* Shapes: every builder against plain loops over indices, on arrays of every type and layout, made
 * at once and through the graph; creation; errors; arrays past 2^31 elements. */
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
#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/sample.h"

enum { TRIALS = 400 };

/* Half of the trials go through nodes: inside a trace no view is made at once. */
#define TRIAL_OF(slot, expression) \
    do {                           \
        bool lazily = draw(2);     \
        if (lazily)                \
            trace_begin();         \
        KEEP(slot, expression);    \
        if (lazily)                \
            trace_end();           \
    } while (0)

static void shuffle(int n, int *v)
{
    for (int i = 0; i < n; i++) v[i] = i;
    for (int i = n; i-- > 1;) {
        int k = (int)draw(i + 1), t = v[i];
        v[i] = v[k];
        v[k] = t;
    }
}

/* One trial's operand: random in type, shape and layout, with its model. */
struct subject {
    mx_own x;
    struct model m;
};

static struct subject subject_of(int max_ndim, int most, bool empty_too)
{
    struct subject s = { 0 };
    int shape[MX_MAX_NDIM], ndim = draw_shape(max_ndim, most, empty_too, shape);
    KEEP(&s.x, sample(draw_dtype(), ndim, shape));
    s.m = model_of(s.x.it);
    return s;
}

static void subject_drop(struct subject *s)
{
    mx_drop(&s->x);
    model_drop(&s->m);
}

/* ---- views */

static void transposes(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct subject s = subject_of(5, 4, true);
        int n = s.m.ndim, axes[MX_MAX_NDIM], given[MX_MAX_NDIM], shape[MX_MAX_NDIM], kind = (int)draw(4);
        int a = (int)draw(n), b = (int)draw(n);
        mx_own y = { 0 };
        shuffle(n, axes);
        if (n == 0)
            kind = 1;
        if (kind == 1)
            for (int i = 0; i < n; i++) axes[i] = n - 1 - i;
        if (kind == 2) {
            for (int i = 0; i < n; i++) axes[i] = i;
            axes[a] = b;
            axes[b] = a;
        }
        if (kind == 3) /* what is left of the others, in order, with a put in at b */
            for (int i = 0, from = 0; i < n; i++) {
                from += from == a;
                axes[i] = i == b ? a : from++;
            }
        for (int i = 0; i < n; i++) {
            shape[i] = s.m.shape[axes[i]];
            given[i] = draw(2) ? axes[i] : axes[i] - n;
        }
        TRIAL_OF(&y, kind == 0   ? mx_transpose(s.x.it, given, n)
                     : kind == 1 ? mx_transpose(s.x.it, NULL, 0)
                     : kind == 2 ? mx_swapaxes(s.x.it, a, b - n)
                                 : mx_moveaxis(s.x.it, a - n, b));
        struct model want = model_new(n, shape);
        for (int64_t i = 0; i < want.size; i++) {
            int64_t at[MX_MAX_NDIM], from[MX_MAX_NDIM];
            place_of(&want, i, at);
            for (int k = 0; k < n; k++) from[axes[k]] = at[k];
            want.v[i] = s.m.v[number_of(&s.m, from)];
        }
        assert_holds(y.it, &want);
        assert_ptr_equal(y.it->buf, s.x.it->buf);
        model_drop(&want);
        mx_drop(&y);
        subject_drop(&s);
    }
}

static void reshapes(void **state)
{
    (void)state;
    for (int trial = 0; trial < 2 * TRIALS; trial++) {
        struct subject s = subject_of(5, 4, true);
        int shape[MX_MAX_NDIM], given[MX_MAX_NDIM], n = 0;
        int64_t left = s.m.size;
        mx_own y = { 0 };
        while (left != 1 || draw(3) == 0) { /* random factors */
            int64_t f = left ? 1 + draw(left > 12 ? 12 : left) : draw(3);
            while (left && left % f) f--;
            shape[n++] = (int)f;
            left = left ? left / f : f;
            if (left == 0 || n == 8)
                break;
        }
        if (s.m.size && left != 1)
            shape[n++] = (int)left;
        if (s.m.size == 0)
            shape[n++] = 0;
        memcpy(given, shape, sizeof given);
        if (s.m.size && n && draw(2))
            given[draw(n)] = -1;
        TRIAL_OF(&y, mx_reshape(s.x.it, n, given));
        struct model want = model_new(n, shape);
        memcpy(want.v, s.m.v, (size_t)want.size * sizeof *want.v);
        assert_holds(y.it, &want);
        if (s.x.it->row)
            assert_ptr_equal(y.it->buf, s.x.it->buf);
        model_drop(&want);
        mx_drop(&y);
        subject_drop(&s);
    }
}

/* Splitting an axis and merging what lies evenly never copy. */
static void reshapes_share(void **state)
{
    (void)state;
    mx_own x = { 0 }, t = { 0 }, y = { 0 };
    KEEP(&x, mx_arange(0, 2 * 3 * 4 * 5, 1, DT_int32));
    assert_int_equal(mx_eval(1, &x.it), 0);
    KEEP(&t, mx_transpose(mx_reshape(x.it, 3, (int[]){ 6, 4, 5 }), (int[]){ 1, 2, 0 }, 3));
    KEEP(&y, mx_reshape(t.it, 5, (int[]){ 2, 10, 1, 2, 3 })); /* (4,5) are even; 6 splits */
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_ptr_equal(y.it->buf, x.it->buf);
    KEEP(&y, mx_reshape(t.it, 2, (int[]){ 4, 30 })); /* 5 and 6 are not */
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_ptr_not_equal(y.it->buf, x.it->buf);
    mx_drop(&x);
    mx_drop(&t);
    mx_drop(&y);
}

static void flattens(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct subject s = subject_of(5, 4, true);
        int n = s.m.ndim, a = (int)draw(n), b = a + (int)draw(n - a), shape[MX_MAX_NDIM], m = 0;
        mx_own y = { 0 }, z = { 0 };
        for (int i = 0; i < n; i++)
            if (i > a && i <= b)
                shape[m - 1] *= s.m.shape[i];
            else
                shape[m++] = s.m.shape[i];
        if (n == 0)
            shape[m++] = 1;
        TRIAL_OF(&y, mx_flatten(s.x.it, draw(2) || n == 0 ? a : a - n, draw(2) || n == 0 ? b : b - n));
        struct model want = model_new(m, shape);
        memcpy(want.v, s.m.v, (size_t)want.size * sizeof *want.v);
        assert_holds(y.it, &want);
        if (n) {
            int parts[MX_MAX_NDIM];
            memcpy(parts, s.m.shape + a, (size_t)(b - a + 1) * sizeof *parts);
            int64_t known = 1, k = draw(b - a + 1);
            for (int i = 0; i < b - a + 1; i++) known *= i == k ? 1 : parts[i];
            if (known && draw(2))
                parts[k] = -1;
            TRIAL_OF(&z, mx_unflatten(y.it, a, b - a + 1, parts));
            assert_holds(z.it, &s.m);
        }
        model_drop(&want);
        mx_drop(&y);
        mx_drop(&z);
        subject_drop(&s);
    }
}

static void expands_and_squeezes(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct subject s = subject_of(4, 3, true);
        int more = (int)draw(4), n = s.m.ndim + more, order[MX_MAX_NDIM], axes[MX_MAX_NDIM], shape[MX_MAX_NDIM];
        bool added[MX_MAX_NDIM] = { 0 };
        mx_own y = { 0 }, z = { 0 };
        shuffle(n, order);
        for (int i = 0; i < more; i++) {
            axes[i] = draw(2) ? order[i] : order[i] - n;
            added[order[i]] = true;
        }
        for (int i = 0, from = 0; i < n; i++) shape[i] = added[i] ? 1 : s.m.shape[from++];
        TRIAL_OF(&y, mx_expand_dims(s.x.it, axes, more));
        struct model want = model_new(n, shape);
        memcpy(want.v, s.m.v, (size_t)want.size * sizeof *want.v);
        assert_holds(y.it, &want);
        assert_ptr_equal(y.it->buf, s.x.it->buf);
        TRIAL_OF(&z, mx_squeeze(y.it, axes, more));
        assert_holds(z.it, &s.m);
        model_drop(&want);
        int m = 0;
        for (int i = 0; i < n; i++)
            if (shape[i] != 1)
                shape[m++] = shape[i];
        want = model_new(m, shape);
        memcpy(want.v, s.m.v, (size_t)want.size * sizeof *want.v);
        TRIAL_OF(&z, mx_squeeze(y.it, NULL, 0));
        assert_holds(z.it, &want);
        model_drop(&want);
        mx_drop(&y);
        mx_drop(&z);
        subject_drop(&s);
    }
}

static void broadcasts(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct subject s = subject_of(4, 3, true);
        int lead = (int)draw(3), n = s.m.ndim + lead, shape[MX_MAX_NDIM];
        mx_own y = { 0 };
        for (int i = 0; i < n; i++)
            shape[i] = i < lead || s.m.shape[i - lead] == 1 ? (int)draw(4) : s.m.shape[i - lead];
        TRIAL_OF(&y, mx_broadcast_to(s.x.it, n, shape));
        struct model want = model_new(n, shape);
        for (int64_t i = 0; i < want.size; i++) {
            int64_t at[MX_MAX_NDIM];
            place_of(&want, i, at);
            for (int k = lead; k < n; k++) at[k] = s.m.shape[k - lead] == 1 ? 0 : at[k];
            want.v[i] = s.m.v[number_of(&s.m, at + lead)];
        }
        assert_holds(y.it, &want);
        assert_ptr_equal(y.it->buf, s.x.it->buf);
        model_drop(&want);
        mx_drop(&y);
        subject_drop(&s);
    }
}

/* Bounds inside, outside, reversed, and with steps both ways. */
static void draw_slice(int n, const int *shape, int *start, int *stop, int *step)
{
    for (int i = 0; i < n; i++) {
        int most = shape[i] + 3;
        start[i] = (int)draw(2 * most) - most;
        stop[i] = (int)draw(2 * most) - most;
        step[i] = (int)draw(4) + 1;
        if (draw(3) == 0)
            step[i] = -step[i];
        if (draw(3) == 0) { /* all of it */
            start[i] = step[i] < 0 ? shape[i] - 1 : 0;
            stop[i] = step[i] < 0 ? -shape[i] - 1 : shape[i];
        }
    }
}

/* Python's way: walk from start while short of stop, once both are brought into the axis. */
static int chosen(int n, int start, int stop, int step, int64_t *at)
{
    int m = 0;
    start = start < 0 ? start + n : start;
    stop = stop < 0 ? stop + n : stop;
    if (step > 0)
        for (int i = start < 0 ? 0 : start; i < n && i < stop; i += step) at[m++] = i;
    else
        for (int i = start > n - 1 ? n - 1 : start; i >= 0 && i > stop; i += step) at[m++] = i;
    return m;
}

static void slices(void **state)
{
    (void)state;
    for (int trial = 0; trial < 3 * TRIALS; trial++) {
        struct subject s = subject_of(4, 6, true);
        int n = s.m.ndim, start[8], stop[8], step[8], shape[8];
        int64_t at[8][16];
        mx_own y = { 0 };
        draw_slice(n, s.m.shape, start, stop, step);
        for (int i = 0; i < n; i++) shape[i] = chosen(s.m.shape[i], start[i], stop[i], step[i], at[i]);
        TRIAL_OF(&y, mx_slice(s.x.it, start, stop, step));
        struct model want = model_new(n, shape);
        for (int64_t i = 0; i < want.size; i++) {
            int64_t p[MX_MAX_NDIM];
            place_of(&want, i, p);
            for (int k = 0; k < n; k++) p[k] = at[k][p[k]];
            want.v[i] = s.m.v[number_of(&s.m, p)];
        }
        assert_holds(y.it, &want);
        assert_ptr_equal(y.it->buf, s.x.it->buf);
        model_drop(&want);
        mx_drop(&y);
        subject_drop(&s);
    }
}

static double folded(enum scatter_fold f, double a, double b, enum dtype t)
{
    switch (f) {
    case SCATTER_SET: return b;
    case SCATTER_ADD: return t == DT_bool_ ? (a != 0 || b != 0) : a + b;
    case SCATTER_PROD: return a * b;
    case SCATTER_MAX: return a > b ? a : b;
    case SCATTER_MIN: return a < b ? a : b;
    }
    return 0;
}

static void slice_updates(void **state)
{
    (void)state;
    for (int trial = 0; trial < 3 * TRIALS; trial++) {
        /* Values that every type holds, products included. */
        int start[8], stop[8], step[8], shape[8], n;
        int64_t at[8][16];
        enum dtype t = draw_dtype();
        enum scatter_fold f = (enum scatter_fold)draw(5);
        mx_own x = { 0 }, u = { 0 }, y = { 0 };
        int whole[MX_MAX_NDIM];
        n = draw_shape(4, 6, true, whole);
        KEEP(&x, sample_between(t, n, whole, 0, t == DT_bool_ ? 2 : 10));
        struct model m = model_of(x.it);
        for (int64_t i = 0; i < m.size; i++) m.v[i] = trunc(m.v[i]);
        KEEP(&x, array_from(t, n, whole, m.v));
        draw_slice(n, m.shape, start, stop, step);
        for (int i = 0; i < n; i++) shape[i] = chosen(m.shape[i], start[i], stop[i], step[i], at[i]);
        /* Updates may broadcast. */
        int ushape[8];
        for (int i = 0; i < n; i++) ushape[i] = draw(4) ? shape[i] : 1;
        int drop = 0;
        while (drop < n && draw(4) == 0) drop++;
        KEEP(&u, sample_between(DT_int32, n - drop, ushape + drop, 0, t == DT_bool_ ? 2 : 10));
        struct model um = model_of(u.it), want = model_new(n, m.shape);
        memcpy(want.v, m.v, (size_t)m.size * sizeof *m.v);
        struct model box = model_new(n, shape);
        for (int64_t i = 0; i < box.size; i++) {
            int64_t p[MX_MAX_NDIM], q[MX_MAX_NDIM];
            place_of(&box, i, p);
            for (int k = 0; k < n; k++) {
                q[k] = k < drop || um.shape[k - drop] == 1 ? 0 : p[k];
                p[k] = at[k][p[k]];
            }
            double *d = &want.v[number_of(&m, p)];
            *d = folded(f, *d, um.v[number_of(&um, q + drop)], t);
        }
        TRIAL_OF(&y, mx_slice_update_fold(x.it, u.it, start, stop, step, f));
        assert_holds(y.it, &want);
        assert_holds(x.it, &m);
        model_drop(&m);
        model_drop(&um);
        model_drop(&box);
        model_drop(&want);
        mx_drop(&x);
        mx_drop(&u);
        mx_drop(&y);
    }
}

/* A dead operand is written over; one that is read again as the update is not. */
static void updates_in_place(void **state)
{
    (void)state;
    enum { N = 1000 };
    mx_own x = { 0 }, y = { 0 };
    KEEP(&x, mx_arange(0, N, 1, DT_float32));
    assert_int_equal(mx_eval(1, &x.it), 0);
    struct buffer *b = x.it->buf;
    KEEP(&y, mx_slice_update(x.it, array_of_int(7, DT_int32), (int[]){ 10 }, (int[]){ 20 }, NULL));
    mx_drop(&x);
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_ptr_equal(y.it->buf, b);
    float *v = array_host(y.it);
    for (int i = 0; i < N; i++) assert_float_equal(v[i], i >= 10 && i < 20 ? 7 : i, 0);

    KEEP(&x, mx_slice_update_fold(y.it, y.it, (int[]){ N - 1 }, (int[]){ -N - 1 }, (int[]){ -1 }, SCATTER_ADD));
    mx_drop(&y);
    assert_int_equal(mx_eval(1, &x.it), 0);
    v = array_host(x.it);
    for (int i = 0; i < N; i++)
        assert_float_equal(v[i], (i >= 10 && i < 20 ? 7 : i) + (N - 1 - i >= 10 && N - 1 - i < 20 ? 7 : N - 1 - i), 0);
    mx_drop(&x);
}

static void dynamic_slices(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct subject s = subject_of(4, 6, false);
        int n = s.m.ndim, order[8], m = (int)draw(n + 1), sizes[8], from[8] = { 0 };
        double corner[8];
        mx_own start = { 0 }, y = { 0 }, u = { 0 }, z = { 0 };
        static const enum dtype types[] = { DT_int8, DT_int32, DT_int64, DT_uint32, DT_uint64 };
        enum dtype t = types[draw(5)];
        shuffle(n, order);
        for (int i = 0; i < n; i++) sizes[i] = (int)draw(s.m.shape[i] + 1);
        for (int i = 0; i < m; i++) {
            int a = order[i];
            from[a] = (int)draw(s.m.shape[a] - sizes[a] + 1);
            corner[i] = from[a];
            if (dtype_kind(t) == 'i' && draw(2))
                corner[i] -= from[a] < s.m.shape[a] ? s.m.shape[a] : 0;
        }
        KEEP(&start, array_from(t, 1, &m, corner));
        TRIAL_OF(&y, mx_slice_dynamic(s.x.it, start.it, order, m, sizes));
        struct model want = model_new(n, sizes), whole = model_new(n, s.m.shape);
        memcpy(whole.v, s.m.v, (size_t)s.m.size * sizeof *s.m.v);
        KEEP(&u, sample(s.x.it->dtype, n, sizes));
        struct model um = model_of(u.it);
        for (int64_t i = 0; i < want.size; i++) {
            int64_t at[MX_MAX_NDIM];
            place_of(&want, i, at);
            for (int k = 0; k < n; k++) at[k] += from[k];
            want.v[i] = s.m.v[number_of(&s.m, at)];
            whole.v[number_of(&s.m, at)] = um.v[i];
        }
        assert_holds(y.it, &want);
        TRIAL_OF(&z, mx_slice_update_dynamic(s.x.it, u.it, start.it, order, m));
        assert_holds(z.it, &whole);
        model_drop(&want);
        model_drop(&whole);
        model_drop(&um);
        mx_drop(&start);
        mx_drop(&y);
        mx_drop(&u);
        mx_drop(&z);
        subject_drop(&s);
    }
}

static void views_as_other_types(void **state)
{
    (void)state;
    for (int trial = 0; trial < 2 * TRIALS; trial++) {
        struct subject s = subject_of(4, 8, true);
        enum dtype to = draw_dtype();
        mx_own y = { 0 };
        size_t a = itemsize(s.x.it), b = dtype_size(to);
        int n = s.m.ndim;
        if (a == b || (n && s.m.shape[n - 1] * a % b == 0)) {
            TRIAL_OF(&y, mx_view(s.x.it, to));
            assert_int_equal(mx_eval(1, &y.it), 0);
            assert_int_equal(y.it->dtype, to);
            assert_int_equal(nbytes(y.it), nbytes(s.x.it));
            /* Byte by byte, each row of the last axis being one row of bytes. */
            struct model bytes = model_new(n, s.m.shape);
            for (int64_t i = 0; i < nbytes(y.it); i++) {
                unsigned char got, want;
                mx arrays[2] = { s.x.it, y.it };
                unsigned char *out[2] = { &want, &got };
                for (int k = 0; k < 2; k++) {
                    mx x = arrays[k];
                    struct model m = { .ndim = x->ndim, .size = x->size };
                    memcpy(m.shape, x->shape, (size_t)x->ndim * sizeof(int));
                    int64_t at[MX_MAX_NDIM], offset = x->offset;
                    place_of(&m, i / (int64_t)itemsize(x), at);
                    for (int j = 0; j < x->ndim; j++) offset += at[j] * x->strides[j];
                    *out[k] = ((unsigned char *)x->buf->host)[offset * (int64_t)itemsize(x) + i % (int64_t)itemsize(x)];
                }
                assert_int_equal(got, want);
            }
            model_drop(&bytes);
        } else {
            MX_SCOPE(NULL);
            assert_fails(mx_view(s.x.it, to), MX_VALUE, "[view]");
        }
        mx_drop(&y);
        subject_drop(&s);
    }
}

static void as_strideds(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct subject s = subject_of(3, 5, false);
        int n = (int)draw(4), shape[4];
        int64_t strides[4], low = 0, high = 0;
        mx_own y = { 0 };
        for (int i = 0; i < n; i++) {
            shape[i] = 1 + (int)draw(4);
            strides[i] = draw(7) - 2;
            *(strides[i] < 0 ? &low : &high) += strides[i] * (shape[i] - 1);
        }
        int64_t offset = draw(3) - low;
        if (offset + high < s.m.size) {
            TRIAL_OF(&y, mx_as_strided(s.x.it, n, shape, strides, offset));
            struct model want = model_new(n, shape);
            for (int64_t i = 0; i < want.size; i++) {
                int64_t at[MX_MAX_NDIM], k = offset;
                place_of(&want, i, at);
                for (int j = 0; j < n; j++) k += at[j] * strides[j];
                want.v[i] = s.m.v[k];
            }
            assert_holds(y.it, &want);
            model_drop(&want);
        } else {
            MX_SCOPE(NULL);
            assert_fails(mx_as_strided(s.x.it, n, shape, strides, offset), MX_INDEX, "[as_strided]");
        }
        mx_drop(&y);
        subject_drop(&s);
    }
}

/* ---- joining and cutting */

static void concatenates(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        int n = 1 + (int)draw(4), ndim = 1 + (int)draw(4), axis = (int)draw(ndim), shape[MX_MAX_NDIM], total = 0;
        bool stack = draw(3) == 0;
        enum dtype t = draw_dtype();
        mx_own x[4] = { { 0 } }, y = { 0 };
        struct model m[4];
        mx in[4];
        for (int i = 0; i < ndim; i++) shape[i] = 1 + (int)draw(4);
        for (int k = 0; k < n; k++) {
            if (!stack)
                shape[axis] = (int)draw(4);
            total += shape[axis];
            KEEP(&x[k], sample(t, ndim, shape));
            m[k] = model_of(x[k].it);
            in[k] = x[k].it;
        }
        struct model want;
        if (stack) {
            int at = (int)draw(ndim + 1), whole[MX_MAX_NDIM];
            for (int i = 0; i <= ndim; i++) whole[i] = i == at ? n : shape[i - (i > at)];
            want = model_new(ndim + 1, whole);
            TRIAL_OF(&y, mx_stack(n, in, draw(2) ? at : at - ndim - 1));
            for (int64_t i = 0; i < want.size; i++) {
                int64_t p[MX_MAX_NDIM], q[MX_MAX_NDIM];
                place_of(&want, i, p);
                for (int k = 0; k < ndim; k++) q[k] = p[k + (k >= at)];
                want.v[i] = m[p[at]].v[number_of(&m[p[at]], q)];
            }
        } else {
            shape[axis] = total;
            want = model_new(ndim, shape);
            TRIAL_OF(&y, mx_concatenate(n, in, draw(2) ? axis : axis - ndim));
            for (int64_t i = 0; i < want.size; i++) {
                int64_t p[MX_MAX_NDIM];
                int k = 0;
                place_of(&want, i, p);
                while (p[axis] >= m[k].shape[axis]) p[axis] -= m[k++].shape[axis];
                want.v[i] = m[k].v[number_of(&m[k], p)];
            }
        }
        assert_holds(y.it, &want);
        model_drop(&want);
        for (int k = 0; k < n; k++) {
            mx_drop(&x[k]);
            model_drop(&m[k]);
        }
        mx_drop(&y);
    }
}

static void concatenates_types(void **state)
{
    (void)state;
    mx_own y = { 0 };
    KEEP(&y, mx_concatenate(2, (mx[]){ mx_arange(0, 2, 1, DT_int16), mx_arange(0, 1, 0.5, DT_float16) }, 0));
    struct model want = model_new(1, (int[]){ 4 });
    memcpy(want.v, (double[]){ 0, 1, 0, 0.5 }, 4 * sizeof(double));
    assert_int_equal(y.it->dtype, DT_float16);
    assert_holds(y.it, &want);
    model_drop(&want);
    mx_drop(&y);
}

static void splits(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct subject s = subject_of(4, 7, true);
        int n = s.m.ndim, axis = (int)draw(n), cuts[4], k = (int)draw(4), parts;
        mx_own part[8] = { { 0 } };
        if (n == 0) {
            subject_drop(&s);
            continue;
        }
        int size = s.m.shape[axis], bounds[9];
        bool lazily = draw(2);
        if (lazily)
            trace_begin();
        {
            MX_SCOPE(NULL);
            mx out[8];
            if (draw(2)) {
                for (int i = 0; i < k; i++) cuts[i] = (int)draw(2 * size + 4) - size - 2;
                parts = mx_split_at(s.x.it, cuts, k, draw(2) ? axis : axis - n, out);
                assert_int_equal(parts, k + 1);
                for (int i = 0; i <= k; i++) {
                    int c = i ? cuts[i - 1] : 0;
                    c = c < 0 ? c + size : c;
                    bounds[i] = c < 0 ? 0 : c > size ? size : c;
                }
                bounds[k + 1] = size;
            } else {
                int sections = 1 + (int)draw(size < 8 ? size + 1 : 8);
                while (size % sections) sections--;
                parts = mx_split(s.x.it, sections, axis, out);
                assert_int_equal(parts, sections);
                for (int i = 0; i <= sections; i++) bounds[i] = size / sections * i;
            }
            for (int i = 0; i < parts; i++) mx_keep(&part[i], out[i]);
        }
        if (lazily)
            trace_end();
        if (parts > 2 && draw(2))
            mx_drop(&part[1]); /* nobody wants this one */
        for (int i = 0; i < parts; i++) {
            int shape[MX_MAX_NDIM];
            if (!part[i].it)
                continue;
            memcpy(shape, s.m.shape, (size_t)n * sizeof *shape);
            shape[axis] = bounds[i + 1] > bounds[i] ? bounds[i + 1] - bounds[i] : 0;
            struct model want = model_new(n, shape);
            for (int64_t j = 0; j < want.size; j++) {
                int64_t at[MX_MAX_NDIM];
                place_of(&want, j, at);
                at[axis] += bounds[i];
                want.v[j] = s.m.v[number_of(&s.m, at)];
            }
            assert_holds(part[i].it, &want);
            assert_ptr_equal(part[i].it->buf, s.x.it->buf);
            model_drop(&want);
        }
        for (int i = 0; i < parts; i++) mx_drop(&part[i]);
        subject_drop(&s);
    }
}

/* Walking off the end: the last stays, or one turns round, on the element or behind it. */
static int64_t bounced(enum pad_mode mode, int64_t i, int64_t n)
{
    while (i < 0 || i >= n) {
        if (mode == PAD_EDGE || n == 1)
            i = i < 0 ? 0 : n - 1;
        else if (i < 0)
            i = mode == PAD_REFLECT ? -i : -i - 1;
        else
            i = mode == PAD_REFLECT ? 2 * (n - 1) - i : 2 * n - 1 - i;
    }
    return i;
}

static void pads(void **state)
{
    (void)state;
    for (int trial = 0; trial < 2 * TRIALS; trial++) {
        struct subject s = subject_of(4, 4, false);
        enum pad_mode mode = (enum pad_mode)draw(4);
        int n = s.m.ndim, order[8], m = (int)draw(n + 1), low[8], high[8], axes[8], lo[8] = { 0 }, shape[8];
        mx_own y = { 0 };
        memcpy(shape, s.m.shape, (size_t)n * sizeof *shape);
        shuffle(n, order);
        for (int i = 0; i < m; i++) {
            axes[i] = draw(2) ? order[i] : order[i] - n;
            low[i] = (int)draw(6);
            high[i] = (int)draw(6);
            lo[order[i]] = low[i];
            shape[order[i]] += low[i] + high[i];
        }
        bool with_value = draw(2);
        TRIAL_OF(&y, mx_pad(s.x.it, axes, m, low, high, with_value ? array_of_int(1, DT_int64) : NULL, mode));
        struct model want = model_new(n, shape);
        for (int64_t i = 0; i < want.size; i++) {
            int64_t at[MX_MAX_NDIM];
            bool inside = true;
            place_of(&want, i, at);
            for (int k = 0; k < n; k++) {
                at[k] -= lo[k];
                if (mode != PAD_CONSTANT)
                    at[k] = bounced(mode, at[k], s.m.shape[k]);
                inside &= at[k] >= 0 && at[k] < s.m.shape[k];
            }
            want.v[i] = inside ? s.m.v[number_of(&s.m, at)] : with_value;
        }
        assert_int_equal(y.it->dtype, s.x.it->dtype);
        assert_holds(y.it, &want);
        model_drop(&want);
        mx_drop(&y);
        subject_drop(&s);
    }
}

/* ---- creation */

static void check_series(mx_own *y, enum dtype t, int n, const double *v, double tolerance)
{
    struct model want = model_new(1, &n);
    if (v)
        memcpy(want.v, v, (size_t)n * sizeof *v);
    assert_int_equal(y->it->dtype, t);
    assert_close(y->it, &want, tolerance);
    model_drop(&want);
    mx_drop(y);
}

static void aranges(void **state)
{
    (void)state;
    mx_own y = { 0 };
    for (int t = 1; t < DT_COUNT; t++) {
        double v[40], small = 0.25;
        KEEP(&y, mx_arange(3, 40, 4, (enum dtype)t));
        for (int i = 0; i < 10; i++) v[i] = 3 + 4 * i;
        check_series(&y, (enum dtype)t, 10, v, 0);
        if (dtype_kind((enum dtype)t) != 'u') {
            KEEP(&y, mx_arange(5, -6, -2, (enum dtype)t));
            for (int i = 0; i < 6; i++) v[i] = 5 - 2 * i;
            check_series(&y, (enum dtype)t, 6, v, 0);
        }
        if (dtype_is_inexact((enum dtype)t)) {
            KEEP(&y, mx_arange(-1, 1, small, (enum dtype)t));
            for (int i = 0; i < 8; i++) v[i] = -1 + small * i;
            check_series(&y, (enum dtype)t, 8, v, 0);
        } else { /* the first two values, as integers, give the step */
            KEEP(&y, mx_arange(0.5, 3, 0.5, (enum dtype)t));
            for (int i = 0; i < 5; i++) v[i] = i;
            check_series(&y, (enum dtype)t, 5, v, 0);
        }
        KEEP(&y, mx_arange(5, 0, 1, (enum dtype)t));
        check_series(&y, (enum dtype)t, 0, v, 0);
    }
    /* Wide integers wrap and large ones are exact. */
    KEEP(&y, mx_arange(250, 260, 1, DT_uint8));
    check_series(&y, DT_uint8, 10, (double[]){ 250, 251, 252, 253, 254, 255, 0, 1, 2, 3 }, 0);
    KEEP(&y, mx_arange(9007199254740000., 9007199254740003., 1, DT_int64));
    check_series(&y, DT_int64, 3, (double[]){ 9007199254740000., 9007199254740001., 9007199254740002. }, 0);
    /* float32, in float32: start + i * step, every operation rounded. */
    KEEP(&y, mx_arange(0.1, 1000, 0.1, DT_float32));
    double *v = malloc(9999 * sizeof *v);
    float first = 0.1f, step = (float)(0.1 + 0.1) - first;
    for (int i = 0; i < 9999; i++) v[i] = first + (float)i * step;
    check_series(&y, DT_float32, 9999, v, 0);
    free(v);
    /* Steps, and multiples of them, that are no numbers of the type. */
    const double big = 1e39;
    for (int t = 1; t < DT_COUNT; t++) {
        KEEP(&y, mx_arange(5, 0, -1.5e308, (enum dtype)t));
        check_series(&y, (enum dtype)t, 1, (double[]){ 5 }, 0);
    }
    KEEP(&y, mx_arange(1.5e308, 1.7e308, 1e308, DT_float64));
    check_series(&y, DT_float64, 1, (double[]){ 1.5e308 }, 0);
    KEEP(&y, mx_arange(0, big, big / 2, DT_float32));
    check_series(&y, DT_float32, 2, (double[]){ 0, INFINITY }, 0);
    KEEP(&y, mx_arange(-big, big, big, DT_float32));
    check_series(&y, DT_float32, 2, (double[]){ -INFINITY, 0 }, 0);
    KEEP(&y, mx_arange(0x1p127, -0x1p127, -0x1p126, DT_float32));
    check_series(&y, DT_float32, 4, (double[]){ 0x1p127, 0x1p126, 0, -0x1p126 }, 0);
    KEEP(&y, mx_arange(-80000, 40000, 40000, DT_float16));
    check_series(&y, DT_float16, 3, (double[]){ -INFINITY, -40000, 0 }, 0);
    /* Threads and tiles. */
    KEEP(&y, mx_arange(0, 300001, 1, DT_int32));
    assert_int_equal(mx_eval(1, &y.it), 0);
    for (int i = 0; i < 300001; i++) assert_int_equal(((int32_t *)array_host(y.it))[i], i);
    mx_drop(&y);
}

static void linspaces(void **state)
{
    (void)state;
    mx_own y = { 0 };
    KEEP(&y, mx_linspace(0, 10, 5, true, DT_int32));
    check_series(&y, DT_int32, 5, (double[]){ 0, 2, 5, 7, 10 }, 0);
    KEEP(&y, mx_linspace(0, 1, 4, false, DT_float64));
    check_series(&y, DT_float64, 4, (double[]){ 0, 0.25, 0.5, 0.75 }, 0);
    KEEP(&y, mx_linspace(2, 7, 1, true, DT_float32));
    check_series(&y, DT_float32, 1, (double[]){ 2 }, 0);
    KEEP(&y, mx_linspace(2, 7, 0, true, DT_float32));
    check_series(&y, DT_float32, 0, (double[]){ 0 }, 0);
    double v[1001];
    for (int i = 0; i < 1001; i++) v[i] = i == 1000 ? 0.3 : -0.7 + i * (1.0 / 1000);
    KEEP(&y, mx_linspace(-0.7, 0.3, 1001, true, DT_float64));
    check_series(&y, DT_float64, 1001, v, 1e-16);
    for (int i = 0; i < 1001; i++) v[i] = (float)v[i];
    KEEP(&y, mx_linspace(-0.7, 0.3, 1001, true, DT_float32));
    check_series(&y, DT_float32, 1001, v, 0);
}

static void matrices(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        int n = (int)draw(6), m = (int)draw(6), k = (int)draw(13) - 6;
        enum dtype t = draw_dtype();
        mx_own y[4] = { { 0 } }, x = { 0 };
        KEEP(&y[0], mx_eye(n, m, k, t));
        KEEP(&y[1], mx_tri(n, m, k, t));
        KEEP(&x, sample(t, 3, (int[]){ 2, n, m }));
        KEEP(&y[2], mx_tril(x.it, k));
        KEEP(&y[3], mx_triu(x.it, k));
        struct model xm = model_of(x.it), want[4];
        for (int w = 0; w < 4; w++) {
            want[w] = w < 2 ? model_new(2, (int[]){ n, m }) : model_new(3, (int[]){ 2, n, m });
            for (int64_t i = 0; i < want[w].size; i++) {
                int64_t at[3], *p = at + (w >= 2);
                place_of(&want[w], i, at);
                want[w].v[i] = w == 0   ? p[1] == p[0] + k
                               : w == 1 ? p[1] <= p[0] + k
                               : w == 2 ? (p[1] <= p[0] + k ? xm.v[i] : 0)
                                        : (p[1] >= p[0] + k ? xm.v[i] : 0);
            }
            assert_int_equal(y[w].it->dtype, t);
            assert_holds(y[w].it, &want[w]);
            model_drop(&want[w]);
            mx_drop(&y[w]);
        }
        model_drop(&xm);
        mx_drop(&x);
    }
}

static void constants(void **state)
{
    (void)state;
    for (int t = 0; t < DT_COUNT; t++) {
        mx_own y = { 0 }, x = { 0 };
        int shape[] = { 3, 2 };
        struct model want = model_new(2, shape);
        KEEP(&y, mx_zeros(2, shape, (enum dtype)t));
        assert_holds(y.it, &want);
        assert_true(y.it->row && y.it->buf->bytes >= (size_t)nbytes(y.it)); /* memory of its own */
        for (int i = 0; i < 6; i++) want.v[i] = 1;
        KEEP(&x, mx_ones_like(y.it));
        assert_holds(x.it, &want);
        KEEP(&x, mx_full(2, shape, array_of_int(1, DT_float32), (enum dtype)t));
        assert_int_equal(x.it->dtype, t);
        assert_holds(x.it, &want);
        for (int i = 0; i < 6; i++) want.v[i] = i % 2;
        KEEP(&x, mx_full(2, shape, mx_arange(0, 2, 1, DT_int32), (enum dtype)t));
        assert_holds(x.it, &want);
        KEEP(&x, mx_ones(0, NULL, (enum dtype)t));
        assert_int_equal(x.it->size, 1);
        assert_int_equal(mx_eval(1, &x.it), 0);
        model_drop(&want);
        mx_drop(&x);
        mx_drop(&y);
    }
}

static void numbers_of_elements(void **state)
{
    (void)state;
    for (int lazily = 0; lazily < 2; lazily++) {
        mx_own x = { 0 }, y = { 0 };
        struct model want = model_new(0, NULL);
        KEEP(&x, mx_zeros(3, (int[]){ 2, 3, 5 }, DT_float32));
        assert_int_equal(mx_eval(1, &x.it), 0);
        if (lazily) {
            trace_begin();
            x.it->tracer = trace_number();
        }
        *want.v = 10;
        KEEP(&y, mx_number_of_elements(x.it, (int[]){ -1, 0 }, 2, false, DT_int32));
        assert_int_equal(y.it->node != NULL, lazily);
        assert_holds(y.it, &want);
        *want.v = 0.2;
        KEEP(&y, mx_number_of_elements(x.it, (int[]){ 2 }, 1, true, DT_float64));
        assert_holds(y.it, &want);
        *want.v = 30;
        KEEP(&y, mx_number_of_elements(x.it, NULL, 0, false, DT_bfloat16));
        assert_holds(y.it, &want);
        if (lazily)
            trace_end();
        model_drop(&want);
        mx_drop(&x);
        mx_drop(&y);
    }
}

/* ---- builders that have nothing to do, and errors */

static void no_ops(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx x = mx_zeros(3, (int[]){ 2, 1, 3 }, DT_float32), part[1];
    assert_ptr_equal(x, mx_reshape(x, 3, (int[]){ 2, -1, 3 }));
    assert_ptr_equal(x, mx_broadcast_to(x, 3, x->shape));
    assert_ptr_equal(x, mx_transpose(x, (int[]){ 0, -2, 2 }, 3));
    assert_ptr_equal(x, mx_moveaxis(x, 1, 1));
    assert_ptr_equal(x, mx_swapaxes(x, 2, -1));
    assert_ptr_equal(x, mx_slice(x, (int[]){ 0, 0, -3 }, (int[]){ 2, 1, 100 }, NULL));
    assert_ptr_equal(x, mx_expand_dims(x, NULL, 0));
    assert_ptr_equal(x, mx_squeeze(x, (int[]){ 0 }, 0));
    assert_ptr_equal(x, mx_view(x, DT_float32));
    assert_ptr_equal(x, mx_flatten(x, 1, 1));
    assert_ptr_equal(x, mx_concatenate(1, &x, 2));
    assert_ptr_equal(x, mx_pad(x, (int[]){ 1 }, 1, (int[]){ 0 }, (int[]){ 0 }, NULL, PAD_CONSTANT));
    assert_int_equal(mx_split(x, 1, 0, part), 1);
    assert_ptr_equal(x, part[0]);
    assert_ptr_equal(x, mx_slice_update(x, x, (int[]){ 0, 0, 0 }, x->shape, NULL));
}

static void errors(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx x = mx_zeros(2, (int[]){ 2, 3 }, DT_float32), s = array_of_int(1, DT_int32), out[8];
    assert_fails(mx_reshape(x, 2, (int[]){ 4, 2 }), MX_VALUE, "[reshape] expected a shape for the 6 elements");
    assert_fails(mx_reshape(x, 2, (int[]){ -1, -1 }), MX_VALUE, "at most one size of -1");
    assert_fails(mx_reshape(x, 2, (int[]){ -2, 3 }), MX_VALUE, "expected sizes of 0 or more, or -1, got -2");
    assert_fails(mx_reshape(mx_zeros(2, (int[]){ 0, 3 }, DT_int8), 2, (int[]){ -1, 0 }), MX_VALUE,
                 "other sizes than 0 beside -1");
    assert_fails(mx_broadcast_to(x, 2, (int[]){ 3, 3 }), MX_VALUE, "[broadcast_to] expected a shape that (2,3)");
    assert_fails(mx_broadcast_to(x, 1, (int[]){ 3 }), MX_VALUE, "[broadcast_to]");
    assert_fails(mx_broadcast_to(x, 3, (int[]){ -1, 2, 3 }), MX_VALUE, "expected sizes of 0 or more, got -1");
    assert_fails(mx_transpose(x, (int[]){ 0, 0 }, 2), MX_VALUE, "twice");
    assert_fails(mx_transpose(x, (int[]){ 0 }, 1), MX_VALUE, "[transpose] expected 2 axes");
    assert_fails(mx_transpose(x, (int[]){ 0, 2 }, 2), MX_AXIS, "axis 2 is out of range");
    assert_fails(mx_moveaxis(x, 3, 0), MX_AXIS, "[moveaxis] axis 3");
    assert_fails(mx_swapaxes(x, 0, -3), MX_AXIS, "[swapaxes] axis -3");
    assert_fails(mx_expand_dims(x, (int[]){ 0, -4 }, 2), MX_VALUE, "twice");
    assert_fails(mx_expand_dims(x, (int[]){ 3 }, 1), MX_AXIS, "[expand_dims]");
    assert_fails(mx_squeeze(x, (int[]){ 1 }, 1), MX_VALUE, "[squeeze] expected an axis of size 1");
    assert_fails(mx_flatten(x, 1, 0), MX_VALUE, "[flatten]");
    assert_fails(mx_unflatten(x, 1, 2, (int[]){ 2, -1 }), MX_VALUE, "[unflatten]");
    assert_fails(mx_unflatten(x, 1, 0, NULL), MX_VALUE, "[unflatten] expected at least one size");
    assert_fails(mx_slice(x, (int[]){ 0, 0 }, (int[]){ 1, 1 }, (int[]){ 1, 0 }), MX_VALUE, "step of axis 1 is zero");
    assert_fails(mx_slice_update(x, mx_zeros(1, (int[]){ 5 }, DT_float32), (int[]){ 0, 0 }, (int[]){ 2, 3 }, NULL),
                 MX_VALUE, "(5,)");
    outside_set_fails(true);
    assert_fails(mx_slice_dynamic(x, array_of_int(3, DT_int32), (int[]){ 1 }, 1, (int[]){ 2, 1 }), MX_INDEX,
                 "[slice] start 3 is out of range for a slice of 1 along axis 1 of size 3");
    assert_fails(mx_slice_dynamic(x, array_of_int(-4, DT_int32), (int[]){ 1 }, 1, (int[]){ 2, 1 }), MX_INDEX,
                 "start -4");
    assert_fails(mx_slice_dynamic(x, array_of_double(0, DT_float32), (int[]){ 1 }, 1, (int[]){ 2, 1 }), MX_VALUE,
                 "[slice] expected an integer start, got float32");
    assert_fails(mx_slice_dynamic(x, s, (int[]){ 1 }, 1, (int[]){ 3, 1 }), MX_VALUE,
                 "size from 0 to 2 for axis 0, got 3");
    assert_fails(mx_slice_update_dynamic(x, mx_zeros(1, (int[]){ 3 }, DT_float32), s, (int[]){ 1 }, 1), MX_INDEX,
                 "[slice_update] start 1");
    assert_fails(mx_concatenate(0, NULL, 0), MX_VALUE, "at least one array");
    assert_fails(mx_concatenate(2, (mx[]){ x, s }, 0), MX_VALUE, "[concatenate]");
    assert_fails(mx_concatenate(2, (mx[]){ x, mx_zeros(2, (int[]){ 2, 4 }, DT_int8) }, 0), MX_VALUE, "(2,3) and (2,4)");
    assert_fails(mx_concatenate(2, (mx[]){ s, s }, 0), MX_AXIS, "axis 0");
    assert_fails(mx_stack(2, (mx[]){ x, s }, 0), MX_VALUE, "[stack]");
    assert_int_equal(mx_split(x, 2, 1, out), -1);
    assert_fails(out[0], MX_VALUE, "[split] expected a number of parts that divides axis 1 of shape (2,3), got 2");
    assert_int_equal(mx_split(x, 0, 1, out), -1);
    assert_fails(MX_NIL, MX_VALUE, "[split] expected a positive number");
    assert_fails(mx_pad(x, (int[]){ 0 }, 1, (int[]){ -1 }, (int[]){ 0 }, NULL, PAD_CONSTANT), MX_VALUE, "[pad]");
    assert_fails(mx_pad(mx_zeros(1, (int[]){ 0 }, DT_int8), NULL, 1, (int[]){ 1 }, (int[]){ 0 }, NULL, PAD_EDGE),
                 MX_VALUE, "with a constant only");
    assert_fails(mx_arange(0, 1, 0, DT_int32), MX_VALUE, "[arange] expected a step other than 0");
    assert_fails(mx_arange(0, NAN, 1, DT_float32), MX_VALUE, "[arange] expected finite");
    assert_fails(mx_arange(0, 1e10, 1, DT_int64), MX_VALUE, "2147483647");
    assert_fails(mx_arange(-1e300, 1e300, 1e-10, DT_int64), MX_VALUE, "[arange]");
    assert_fails(mx_linspace(0, 1, -1, true, DT_float32), MX_VALUE, "[linspace]");
    assert_fails(mx_eye(-1, 1, 0, DT_float32), MX_VALUE, "[eye]");
    assert_fails(mx_tril(s, 0), MX_VALUE, "[tril] expected an array of at least two dimensions");
    assert_fails(mx_full(1, (int[]){ -1 }, s, DT_int32), MX_VALUE, "[full] expected sizes of 0 or more");
    assert_fails(mx_full(1, (int[]){ 2 }, x, DT_int32), MX_VALUE, "[broadcast_to]");
    assert_fails(mx_as_strided(x, 1, (int[]){ 2 }, (int64_t[]){ INT64_MAX }, 0), MX_INDEX, "[as_strided]");
    /* Too many dimensions. */
    int many[70];
    for (int i = 0; i < 70; i++) many[i] = 1;
    assert_fails(mx_reshape(s, 65, many), MX_VALUE, "64 dimensions");
    assert_fails(mx_broadcast_to(s, 65, many), MX_VALUE, "64 dimensions");
    mx deep = mx_reshape(s, 64, many);
    assert_false(is_nil(deep));
    assert_fails(mx_expand_dims(deep, (int[]){ 0 }, 1), MX_VALUE, "64 dimensions");
    /* A dimension that an int does not hold. */
    mx wide = mx_broadcast_to(array_of_int(1, DT_int8), 2, (int[]){ 1 << 16, 1 << 16 });
    assert_fails(mx_flatten(wide, 0, -1), MX_VALUE,
                 "[reshape] expected dimensions up to 2147483647 of the result, got 4294967296");
    assert_fails(mx_reshape(wide, 1, (int[]){ -1 }), MX_VALUE, "4294967296");
    mx long_ = mx_broadcast_to(array_of_int(1, DT_int8), 1, (int[]){ INT32_MAX });
    assert_fails(mx_concatenate(2, (mx[]){ long_, long_ }, 0), MX_VALUE, "[concatenate] expected dimensions up to");
    assert_fails(mx_pad(long_, NULL, 1, (int[]){ 1 }, (int[]){ 0 }, NULL, PAD_CONSTANT), MX_VALUE,
                 "[pad] expected dimensions up to");
    assert_fails(mx_pad(long_, NULL, 1, (int[]){ 1 }, (int[]){ 0 }, NULL, PAD_EDGE), MX_VALUE,
                 "[pad] expected dimensions up to");
    assert_fails(mx_view(mx_broadcast_to(array_of_int(1, DT_int64), 1, (int[]){ INT32_MAX }), DT_int8), MX_VALUE,
                 "[view] expected dimensions up to");
    int huge[4] = { INT32_MAX, INT32_MAX, INT32_MAX, 2 };
    assert_fails(mx_broadcast_to(s, 4, huge), MX_VALUE, "expected sizes whose product fits");
    assert_fails(mx_zeros(4, huge, DT_int8), MX_VALUE, "expected sizes whose product fits");
    /* Failed arrays go through. */
    assert_ptr_equal(mx_reshape(MX_NIL, 1, (int[]){ 5 }), MX_NIL);
    assert_ptr_equal(mx_slice(MX_NIL, NULL, NULL, NULL), MX_NIL);
    assert_ptr_equal(mx_concatenate(2, (mx[]){ x, MX_NIL }, 0), MX_NIL);
    assert_ptr_equal(mx_stack(2, (mx[]){ MX_NIL, x }, 0), MX_NIL);
    assert_int_equal(mx_split(MX_NIL, 2, 0, out), -1);
    assert_ptr_equal(mx_pad(MX_NIL, NULL, 1, (int[]){ 1 }, (int[]){ 1 }, NULL, PAD_EDGE), MX_NIL);
    assert_ptr_equal(mx_tril(MX_NIL, 0), MX_NIL);
    assert_ptr_equal(mx_zeros_like(MX_NIL), MX_NIL);
    mx_error_clear();
}

/* ---- more than 2^31 elements */

/* Views of 2^33 elements, none of them in memory but one row. */
static void large_views(void **state)
{
    (void)state;
    enum { N = 1 << 16, M = 1 << 17 };
    mx_own row = { 0 }, y = { 0 };
    KEEP(&row, mx_astype(mx_arange(0, M, 1, DT_int32), DT_int8));
    assert_int_equal(mx_eval(1, &row.it), 0);
    for (int lazily = 0; lazily < 2; lazily++) {
        if (lazily)
            trace_begin();
        {
            MX_SCOPE(NULL);
            mx all = mx_broadcast_to(row.it, 2, (int[]){ N, M });
            assert_int_equal(all->size, (int64_t)N * M);
            mx folded = mx_reshape(all, 3, (int[]){ N / 4, 4, M });
            mx part = mx_slice(folded, (int[]){ N / 4 - 1, 3, M - 1 }, (int[]){ N / 4, -5, -M - 1 },
                               (int[]){ 1, -1, -(M / 8) });
            mx_keep(&y, mx_contiguous(part, false));
        }
        if (lazily)
            trace_end();
        struct model want = model_new(3, (int[]){ 1, 4, 8 });
        for (int i = 0; i < 32; i++) want.v[i] = (int8_t)(M - 1 - i % 8 * (M / 8));
        assert_holds(y.it, &want);
        model_drop(&want);
    }
    mx_drop(&row);
    mx_drop(&y);
}

/* MLX_TEST_SLOW=1: arrays that really have more than 2^31 elements. */
static void large_arrays(void **state)
{
    (void)state;
    const char *slow = getenv("MLX_TEST_SLOW");
    if (!slow || !*slow || *slow == '0')
        skip();
    enum { ROWS = 9, COLUMNS = (1 << 28) + 1 };
    int64_t size = (int64_t)ROWS * COLUMNS;
    mx_own x = { 0 }, y = { 0 };
    KEEP(&x, mx_zeros(2, (int[]){ ROWS, COLUMNS }, DT_int8));
    KEEP(&y, mx_slice_update(x.it, mx_astype(mx_expand_dims(mx_arange(0, ROWS, 1, DT_int32), (int[]){ 1 }, 1), DT_int8),
                             (int[]){ 0, COLUMNS - 3 }, (int[]){ ROWS, COLUMNS }, NULL));
    mx_drop(&x);
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_int_equal(y.it->size, size);
    const int8_t *v = array_host(y.it);
    for (int64_t i = 0; i < size; i++)
        if (v[i] != (i % COLUMNS >= COLUMNS - 3 ? i / COLUMNS : 0))
            fail_msg("element %lld is %d", (long long)i, v[i]);
    /* Row-major copies of a transposition, and a concatenation: the offsets are past 2^31 too. */
    KEEP(&x, mx_concatenate(2,
                            (mx[]){ mx_slice(y.it, (int[]){ 0, 0 }, (int[]){ ROWS, COLUMNS - 1 }, NULL),
                                    mx_slice(y.it, (int[]){ 0, 0 }, (int[]){ ROWS, 1 }, NULL) },
                            1));
    mx_drop(&y);
    assert_int_equal(mx_eval(1, &x.it), 0);
    v = array_host(x.it);
    for (int64_t i = 0; i < size; i++)
        if (v[i] != (i % COLUMNS >= COLUMNS - 3 && i % COLUMNS < COLUMNS - 1 ? i / COLUMNS : 0))
            fail_msg("element %lld is %d", (long long)i, v[i]);
    KEEP(&y, mx_take(mx_transpose(x.it, NULL, 0), array_of_int(-2, DT_int64), 0));
    struct model want = model_new(1, (int[]){ ROWS });
    for (int i = 0; i < ROWS; i++) want.v[i] = i;
    assert_holds(y.it, &want);
    model_drop(&want);
    mx_drop(&x);
    mx_drop(&y);
    memory_clear_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes),
        cmocka_unit_test(reshapes),
        cmocka_unit_test(reshapes_share),
        cmocka_unit_test(flattens),
        cmocka_unit_test(expands_and_squeezes),
        cmocka_unit_test(broadcasts),
        cmocka_unit_test(slices),
        cmocka_unit_test(slice_updates),
        cmocka_unit_test(updates_in_place),
        cmocka_unit_test(dynamic_slices),
        cmocka_unit_test(views_as_other_types),
        cmocka_unit_test(as_strideds),
        cmocka_unit_test(concatenates),
        cmocka_unit_test(concatenates_types),
        cmocka_unit_test(splits),
        cmocka_unit_test(pads),
        cmocka_unit_test(aranges),
        cmocka_unit_test(linspaces),
        cmocka_unit_test(matrices),
        cmocka_unit_test(constants),
        cmocka_unit_test(numbers_of_elements),
        cmocka_unit_test(no_ops),
        cmocka_unit_test(errors),
        cmocka_unit_test(large_views),
        cmocka_unit_test(large_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
