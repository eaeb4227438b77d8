/* Reductions against plain loops in long double, over random shapes, layouts, axes and types. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/pool.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/effort.h"
#include "transform/transform.h"

static uint64_t seed = 1;
static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* Values that every type holds exactly and that floats add exactly. */
static mx sample(enum dtype t, int ndim, const int *shape)
{
    int64_t size = shape_size("test", ndim, shape);
    double *v = malloc(((size_t)size + 1) * sizeof *v);
    for (int64_t i = 0; i < size; i++)
        v[i] = t == DT_bool_ ? draw(4) != 0 : dtype_kind(t) == 'u' ? draw(3) : (double)draw(5) - 2;
    mx x = mx_astype(array_of_data(DT_float64, ndim, shape, v), t);
    free(v);
    return x;
}

/* A random view: transposed, sliced with steps, or broadcast. */
static mx relaid(mx x)
{
    int start[8], stop[8], step[8], perm[8];
    for (int i = 0; i < x->ndim; i++) perm[i] = i;
    switch (draw(5)) {
    case 0:
        for (int i = x->ndim; i-- > 1;) {
            int j = (int)draw((uint32_t)i + 1), p = perm[i];
            perm[i] = perm[j];
            perm[j] = p;
        }
        return mx_transpose(x, perm, x->ndim);
    case 1:
        for (int i = 0; i < x->ndim; i++) {
            bool back = draw(3) == 0 && x->shape[i] > 0;
            start[i] = back ? x->shape[i] - 1 : 0;
            stop[i] = back ? -x->shape[i] - 1 : x->shape[i];
            step[i] = back ? -1 : 1 + (int)draw(2);
        }
        return mx_slice(x, start, stop, step);
    case 2: {
        int shape[9] = { 3 };
        memcpy(shape + 1, x->shape, (size_t)x->ndim * sizeof(int));
        return mx_broadcast_to(x, x->ndim + 1, shape);
    }
    default: return x;
    }
}

static double get(mx wide, const int *at)
{
    int64_t o = 0;
    for (int i = 0; i < wide->ndim; i++) o += at[i] * wide->strides[i];
    return ((double *)array_host(wide))[o];
}

static bool next(int ndim, const int *shape, int *at)
{
    for (int i = ndim; i-- > 0; at[i] = 0)
        if (++at[i] < shape[i])
            return true;
    return false;
}

static long double fold_one(enum fold f, long double a, long double b)
{
    switch (f) {
    case FOLD_SUM: return a + b;
    case FOLD_PROD: return a * b;
    case FOLD_MIN: return b < a ? b : a;
    case FOLD_MAX: return b > a ? b : a;
    case FOLD_ALL: return a != 0 && b != 0;
    default: return a != 0 || b != 0;
    }
}

static const long double first[] = { 0, 1, INFINITY, -INFINITY, 1, 0 };

static mx_own ready(mx x)
{
    mx_own hold = { 0 };
    mx_keep(&hold, x);
    if (mx_eval(1, &hold.it))
        fail_msg("%s", mx_error_message());
    return hold;
}

static void check_fold(mx x, enum fold f, const int *axes, int n)
{
    mx_own got = ready(mx_astype(mx_reduce(x, f, axes, n, true), DT_float64)), in = ready(mx_astype(x, DT_float64));
    bool folded[9] = { 0 };
    for (int i = 0; i < n; i++) folded[axes[i]] = true;
    int at[9] = { 0 };
    if (got.it->size)
        do {
            int from[9];
            memcpy(from, at, sizeof from);
            long double want = first[f];
            int span[9];
            for (int i = 0; i < x->ndim; i++) span[i] = folded[i] ? x->shape[i] : 1;
            int off[9] = { 0 };
            if (x->size)
                do {
                    int p[9];
                    for (int i = 0; i < x->ndim; i++) p[i] = at[i] + off[i];
                    want = fold_one(f, want, get(in.it, p));
                } while (next(x->ndim, span, off));
            double y = get(got.it, at);
            if (y != (double)want)
                fail_msg("fold %d of %s %s over %d axes: %g, expected %Lg", f, dtype_name(x->dtype), shape_of(x), n, y,
                         want);
        } while (next(x->ndim, got.it->shape, at));
    mx_drop(&got);
    mx_drop(&in);
}

static void folds(void **state)
{
    (void)state;
    for (int round = 0; round < times(1500); round++) {
        MX_SCOPE(NULL);
        enum dtype t = (enum dtype)draw(DT_COUNT);
        enum fold f = (enum fold)draw(6);
        if (dtype_is_complex(t))
            continue;
        int ndim = 1 + (int)draw(4), shape[8], axes[8], n = 0;
        for (int i = 0; i < ndim; i++)
            shape[i] = draw(12) == 0 ? (f == FOLD_MIN || f == FOLD_MAX)
                                     : (int)draw(ndim < 3 ? 70 : 9) + (f != FOLD_SUM ? 1 : 0);
        if (f == FOLD_PROD) /* stay within what the narrow types hold */
            for (int i = 0; i < ndim; i++) shape[i] = shape[i] % 4 + 1;
        mx x = relaid(sample(t, ndim, shape));
        if (x->size == 0 && (f == FOLD_MIN || f == FOLD_MAX))
            continue;
        for (int i = 0; i < x->ndim; i++)
            if (draw(2))
                axes[n++] = i;
        if (f == FOLD_PROD && x->size > 12 && dtype_size(t) < 8)
            continue;
        if (f == FOLD_SUM && dtype_is_half(t) && x->size > 100)
            continue;
        check_fold(x, f, axes, n);
    }
}

/* Long rows and columns, where work is split. */
static void long_ones(void **state)
{
    (void)state;
    const int shapes[][2] = { { 3, 300000 }, { 300000, 3 }, { 1, 200001 }, { 9000, 300 }, { 70, 70000 } };
    for (int i = 0; i < times(5); i++)
        for (int axis = 0; axis < 2; axis++) {
            MX_SCOPE(NULL);
            mx x = sample(i % 2 ? DT_float32 : DT_int16, 2, shapes[i]);
            check_fold(x, FOLD_SUM, &axis, 1);
            check_fold(x, FOLD_MAX, &axis, 1);
        }
}

static void exact_and_steady(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    const int n = 100000000;
    mx_own y = ready(mx_sum(mx_full(1, &n, array_of_double(1, DT_float32), DT_float32), NULL, 0, false));
    assert_float_equal(*(float *)array_host(y.it), 1e8, 0);
    mx_drop(&y);
    /* The same bits on any number of threads. */
    const int m = 1 << 20;
    mx x = mx_random_normal(1, &m, DT_float32, NULL, NULL, mx_random_key(0));
    int threads = pool_threads();
    mx_own two = ready(mx_sum(x, NULL, 0, false));
    pool_set_threads(1);
    mx_own one = ready(mx_sum(x, NULL, 0, false));
    pool_set_threads(threads);
    assert_memory_equal(array_host(one.it), array_host(two.it), 4);
    mx_drop(&one);
    mx_drop(&two);
}

static void nan_and_infinity(void **state)
{
    (void)state;
    for (int n = 1; n < 200; n += 13)
        for (int at = 0; at < n; at += 7) {
            MX_SCOPE(NULL);
            float v[200];
            for (int i = 0; i < n; i++) v[i] = (float)(i * 37 % 101);
            v[at] = NAN;
            mx x = array_of_data(DT_float32, 1, &n, v);
            mx_own y = ready(mx_max(x, NULL, 0, false)), z = ready(mx_min(x, NULL, 0, false)),
                   a = ready(mx_arg_reduce(x, ARG_MAX, 0, false));
            assert_true(isnan(*(float *)array_host(y.it)) && isnan(*(float *)array_host(z.it)));
            assert_int_equal(*(uint32_t *)array_host(a.it), at);
            v[at] = INFINITY;
            mx_drop(&a);
            a = ready(mx_arg_reduce(array_of_data(DT_float32, 1, &n, v), ARG_MAX, 0, false));
            assert_int_equal(*(uint32_t *)array_host(a.it), at);
            mx_drop(&y);
            mx_drop(&z);
            mx_drop(&a);
        }
    MX_SCOPE(NULL);
    assert_true(is_nil(mx_max(sample(DT_float32, 2, (int[]){ 3, 0 }), NULL, 0, false)));
    assert_non_null(strstr(mx_error_message(), "[max] expected at least one element along axis 1"));
    mx_error_clear();
    assert_true(is_nil(mx_sum(sample(DT_float32, 1, (int[]){ 3 }), (int[]){ 1 }, 1, false)));
    assert_int_equal(mx_error_kind(), MX_AXIS);
    mx_error_clear();
}

static void arg_first(void **state)
{
    (void)state;
    for (int round = 0; round < times(600); round++) {
        MX_SCOPE(NULL);
        enum dtype t = (enum dtype)draw(DT_COUNT);
        if (dtype_is_complex(t))
            continue;
        int ndim = 1 + (int)draw(3), shape[8];
        for (int i = 0; i < ndim; i++) shape[i] = 1 + (int)draw(20);
        mx x = relaid(sample(t, ndim, shape));
        int axis = (int)draw((uint32_t)x->ndim), at[9] = { 0 };
        enum arg_fold f = draw(2) ? ARG_MAX : ARG_MIN;
        mx_own got = ready(mx_astype(mx_arg_reduce(x, f, axis, true), DT_float64)),
               in = ready(mx_astype(x, DT_float64));
        do {
            int best = 0, p[9];
            memcpy(p, at, sizeof p);
            for (int i = 0; i < x->shape[axis]; i++) {
                p[axis] = i;
                double v = get(in.it, p);
                p[axis] = best;
                double w = get(in.it, p);
                best = (f == ARG_MAX ? v > w : v < w) ? i : best;
            }
            assert_int_equal((int)get(got.it, at), best);
        } while (next(x->ndim, got.it->shape, at));
        mx_drop(&got);
        mx_drop(&in);
    }
}

static void softmax_rows(void **state)
{
    (void)state;
    const enum dtype types[] = { DT_float16, DT_bfloat16, DT_float32, DT_float64 };
    /* x - max is rounded once, so exp of it is off by |x - max| half steps. */
    const double tolerance[] = { 1e-3, 8e-3, 6e-6, 2e-14 };
    for (int round = 0; round < times(200); round++) {
        MX_SCOPE(NULL);
        int k = (int)draw(4), shape[3] = { 1 + (int)draw(4), 1 + (int)draw(40), 1 + (int)draw(3000) },
            axis = (int)draw(3);
        mx x = mx_astype(mx_multiply(mx_random_normal(3, shape, DT_float32, NULL, NULL, mx_random_key((uint64_t)round)),
                                     array_of_double(10, DT_float32)),
                         types[k]);
        mx_own in = ready(mx_astype(x, DT_float64)), y = ready(mx_astype(mx_softmax(x, &axis, 1, true), DT_float64)),
               l = ready(mx_astype(mx_logsumexp(x, &axis, 1, true), DT_float64));
        int at[3] = { 0 };
        do {
            long double most = -INFINITY, sum = 0;
            int p[3];
            memcpy(p, at, sizeof p);
            for (p[axis] = 0; p[axis] < shape[axis]; p[axis]++) most = fmaxl(most, get(in.it, p));
            for (p[axis] = 0; p[axis] < shape[axis]; p[axis]++) sum += expl((long double)get(in.it, p) - most);
            for (p[axis] = 0; p[axis] < shape[axis]; p[axis]++) {
                long double want = expl((long double)get(in.it, p) - most) / sum;
                if (fabsl((long double)get(y.it, p) - want) > (long double)tolerance[k] * (want + 1e-4L))
                    fail_msg("softmax of %s: %g, expected %Lg", dtype_name(types[k]), get(y.it, p), want);
            }
            long double lse = most + logl(sum);
            assert_true(fabsl((long double)get(l.it, at) - lse) <= (long double)tolerance[k] * (fabsl(lse) + 1));
        } while (next(3, l.it->shape, at));
        mx_drop(&in);
        mx_drop(&y);
        mx_drop(&l);
    }
}

/* ---- derivatives against central differences in float64 */

struct fn {
    struct closure closure;
    int which;
};
static mx apply(int which, mx x)
{
    const int one[] = { 1 };
    switch (which) {
    case 0: return mx_prod(x, one, 1, false);
    case 1: return mx_max(x, one, 1, false);
    case 2: return mx_logsumexp(x, NULL, 0, false);
    case 3: return mx_softmax(x, (int[]){ 0 }, 1, true);
    case 4: return mx_var(x, one, 1, false, 1);
    case 5: return mx_std(x, NULL, 0, true, 0);
    case 6: return mx_mean(x, one, 1, true);
    case 7: return mx_log_softmax(x, one, 1);
    case 8: return mx_log_softmax(x, (int[]){ 1, 0 }, 2);
    default: return mx_softmax(x, (int[]){ 0, 1 }, 2, true);
    }
}
enum { CASES = 10 };

static mx weighted(int which, mx x)
{
    mx y = apply(which, x);
    return mx_sum(mx_multiply(y, mx_random_normal(y->ndim, y->shape, DT_float64, NULL, NULL, mx_random_key(5))), NULL,
                  0, false);
}

static int call(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(NULL);
    (void)n;
    return list_push(out, weighted(((struct fn *)self)->which, x[0]));
}

static double value(int which, const double *v)
{
    MX_SCOPE(NULL);
    mx_own y = ready(weighted(which, array_of_data(DT_float64, 2, (int[]){ 3, 4 }, v)));
    double r = *(double *)array_host(y.it);
    mx_drop(&y);
    return r;
}

static void derivatives(void **state)
{
    (void)state;
    for (int which = 0; which < CASES; which++)
        for (int zero = 0; zero < 2; zero++) {
            MX_SCOPE(NULL);
            double v[12];
            for (int i = 0; i < 12; i++) v[i] = sin(i * 1.7 + 0.3) + 0.01 * i;
            if (zero)
                v[5] = 0;
            struct fn f = { { { .refs = 1 }, call }, which };
            mx x = array_of_data(DT_float64, 2, (int[]){ 3, 4 }, v);
            struct mx_list y = { 0 }, dx = { 0 }, ty = { 0 }, dy = { 0 };
            assert_int_equal(mx_value_and_grad(&f.closure, 1, &x, (int[]){ 0 }, 1, &y, &dx), 0);
            mx_own g = ready(mx_contiguous(dx.v[0].it, false));
            double directional = 0, t[12];
            for (int i = 0; i < 12; i++) {
                double h = 1e-5, keep = v[i];
                v[i] = keep + h;
                double up = value(which, v);
                v[i] = keep - h;
                double down = value(which, v);
                v[i] = keep;
                double want = (up - down) / (2 * h), got = ((double *)array_host(g.it))[i];
                if (fabs(want - got) > 1e-8 * (1 + fabs(want)))
                    fail_msg("case %d, element %d: %.12g, expected %.12g", which, i, got, want);
                t[i] = cos(i * 2.3);
                directional += t[i] * got;
            }
            mx tangent = array_of_data(DT_float64, 2, (int[]){ 3, 4 }, t);
            assert_int_equal(mx_jvp(&f.closure, 1, &x, 1, &tangent, &ty, &dy), 0);
            mx_own j = ready(dy.v[0].it);
            assert_true(fabs(*(double *)array_host(j.it) - directional) < 1e-10 * (1 + fabs(directional)));
            mx_drop(&g);
            mx_drop(&j);
            list_clear(&y);
            list_clear(&dx);
            list_clear(&ty);
            list_clear(&dy);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds),
        cmocka_unit_test(long_ones),
        cmocka_unit_test(exact_and_steady),
        cmocka_unit_test(nan_and_infinity),
        cmocka_unit_test(arg_first),
        cmocka_unit_test(softmax_rows),
        cmocka_unit_test(derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
