/* Loops and branches: their rules, each allocation failing in turn, giving up, and the C functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/outside.h"
#include "core/scope.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "run/steps.h"
#include "run/stop.h"
#include "support/heard.h"
#include "support/rules.h"
#include "support/sample.h"
#include "transform/control.h"

#define COUNT(v) (sizeof(v) / sizeof *(v))

/* ---- functions of arrays */

struct with {
    struct closure closure;
    mx w;
};

#define CLOSURE(name, ...)                                                          \
    static int name(struct closure *self, int n, const mx x[], struct mx_list *out) \
    {                                                                               \
        MX_SCOPE(NULL);                                                             \
        mx w = ((struct with *)self)->w, y[] = { __VA_ARGS__ };                     \
        (void)n, (void)w, (void)x;                                                  \
        for (size_t k = 0; k < COUNT(y); k++)                                       \
            if (list_push(out, y[k]))                                               \
                return 1;                                                           \
        return 0;                                                                   \
    }
#define AS(f, w) (&(struct with){ { { .refs = 1 }, f }, w }.closure)

static mx half(mx x) { return mx_scalar_like(0.5, x); }

/* (c, x) -> (tanh(c w + x), sin(c) x) */
CLOSURE(step, mx_tanh(mx_add(mx_multiply(x[0], w), x[1])), mx_multiply(mx_sin(x[0]), x[1]))
/* (a, b, x) -> (b, a b + x), the second of them also a result */
CLOSURE(swap, x[1], mx_add(mx_multiply(x[0], x[1]), x[2]))
CLOSURE(above, mx_greater(mx_sum(mx_abs(x[0]), NULL, 0, false), half(x[0])))
CLOSURE(shrink, mx_multiply(mx_multiply(x[0], half(x[0])), w))
CLOSURE(sine, mx_sin(mx_multiply(x[0], w)))
CLOSURE(square_of, mx_square(x[0]))
CLOSURE(forever, mx_greater(mx_abs(x[0]), mx_scalar_like(-1, x[0])))
CLOSURE(next, mx_sin(x[0]))
CLOSURE(gathers, mx_take(w, x[0], 0))

CLOSURE(two_of, mx_tanh(mx_multiply(x[0], x[1])), mx_add(mx_sin(x[1]), mx_square(x[0])))

static int results(struct mx_list *l, int failed, mx y[])
{
    int n = failed ? 1 : l->n;
    for (int k = 0; k < n; k++) {
        y[k] = failed ? MX_NIL : l->v[k].it;
        if (!failed) {
            mx_retain(y[k]);
            scope_lend(y[k]);
        }
    }
    list_clear(l);
    return n;
}

static int scanned(const mx x[], mx y[])
{
    struct mx_list out = { 0 };
    return results(&out, mx_scan_loop(AS(step, x[2]), 1, x, 1, x + 1, -1, false, &out), y);
}

static int scanned_back(const mx x[], mx y[])
{
    struct mx_list out = { 0 };
    return results(&out, mx_scan_loop(AS(step, x[2]), 1, x, 1, x + 1, -1, true, &out), y);
}

static int swapped(const mx x[], mx y[])
{
    struct mx_list out = { 0 };
    return results(&out, mx_scan_loop(AS(swap, NULL), 2, x, 1, x + 2, -1, false, &out), y);
}

static int shrunk(const mx x[], mx y[])
{
    struct mx_list out = { 0 };
    return results(&out, mx_while_loop(AS(above, NULL), AS(shrink, x[1]), 1, x, &out), y);
}

static int chosen(bool yes, const mx x[], mx y[])
{
    struct mx_list out = { 0 };
    return results(&out, mx_cond(array_of_int(yes, DT_bool_), AS(sine, x[1]), AS(square_of, NULL), 1, x, &out), y);
}
static int chosen_yes(const mx x[], mx y[]) { return chosen(true, x, y); }
static int chosen_no(const mx x[], mx y[]) { return chosen(false, x, y); }

static int chosen_by(const mx x[], mx y[])
{
    struct mx_list out = { 0 };
    mx p = mx_greater(x[1], mx_scalar_like(0, x[1]));
    return results(&out, mx_cond(p, AS(sine, x[1]), AS(square_of, NULL), 1, x, &out), y);
}

/* a loop in a loop */
CLOSURE(inner, mx_add(mx_multiply(x[0], w), x[1]))
static int outer(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct with *f = (struct with *)self;
    (void)n;
    return mx_scan_loop(AS(inner, x[1]), 1, x, 1, &f->w, -1, false, out);
}

static int nested(const mx x[], mx y[])
{
    struct mx_list out = { 0 };
    return results(&out, mx_scan_loop(AS(outer, x[1]), 1, x, 1, x + 1, -1, false, &out), y);
}

/* what compile makes of small functions */
static int as_one(const mx x[], mx y[])
{
    struct graph *g = graph_trace(AS(two_of, NULL), 2, x, NULL);
    y[0] = y[1] = MX_NIL;
    if (!g)
        return 1;
    mx_infer_n(&op_compiled, &(struct compiled_args){ &g->object }, 2, x, 2, y);
    object_release(&g->object);
    return 2;
}

#define F(...)                         \
    {                                  \
        DT_float64, __VA_ARGS__, -1, 1 \
    }
static const struct rule_case cases[] = {
    { "scan", scanned, 3, { F(1, { 3 }), F(2, { 4, 3 }), F(1, { 3 }) } },
    { "scan back", scanned_back, 3, { F(1, { 3 }), F(2, { 4, 3 }), F(0, { 0 }) } },
    { "scan, swapping", swapped, 3, { F(0, { 0 }), F(0, { 0 }), F(1, { 5 }) } },
    { "cond, yes", chosen_yes, 2, { F(1, { 3 }), F(0, { 0 }) } },
    { "cond, no", chosen_no, 2, { F(1, { 3 }), F(0, { 0 }) } },
    { "nested", nested, 2, { F(1, { 2 }), F(2, { 3, 2 }) } },
    { "compiled", as_one, 2, { F(1, { 3 }), F(1, { 3 }) } },
};
static const struct rule_case forward[] = {
    { "while_loop", shrunk, 2, { F(1, { 3 }), F(0, { 0 }) } },
    { "cond by operand", chosen_by, 2, { F(1, { 3 }), F(0, { 0 }) } },
};

static void derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) check_derivatives(&cases[i]);
}

static void second_derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) check_second_derivatives(&cases[i]);
}

static void batches(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) check_batching(&cases[i]);
    for (size_t i = 0; i < COUNT(forward); i++) check_batching(&forward[i]);
}

static void allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) check_allocations(&cases[i]);
    for (size_t i = 0; i < COUNT(forward); i++) check_allocations(&forward[i]);
}

/* ---- giving up, failing, streams */

static bool at_once(void) { return true; }

static void an_endless_loop_is_given_up(void **state)
{
    struct mx_list y = { 0 };
    mx_own x = { 0 };
    (void)state;
    KEEP(&x, array_of_double(1, DT_float32));
    assert_int_equal(mx_while_loop(AS(forever, NULL), AS(next, NULL), 1, &x.it, &y), 0);
    mx_stop_when(at_once);
    assert_int_equal(mx_eval(1, (mx *)y.v), 1);
    assert_int_equal(mx_error_kind(), MX_INTERRUPTED);
    mx_error_clear();
    mx_stop_when(NULL);
    list_clear(&y);
    mx_drop(&x);
}

static void a_failing_step_says_which(void **state)
{
    struct mx_list y = { 0 };
    mx_own x = { 0 }, w = { 0 };
    (void)state;
    KEEP(&w, array_from(DT_int32, 1, (int[]){ 4 }, (double[]){ 1, 2, 9, 0 }));
    KEEP(&x, array_of_int(0, DT_int32));
    outside_set_fails(true);
    assert_int_equal(mx_scan_loop(AS(gathers, w.it), 1, &x.it, 0, NULL, 10, false, &y), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(mx_eval(1, (mx *)y.v), 1);
        assert_int_equal(mx_error_kind(), MX_INDEX);
        assert_non_null(strstr(mx_error_message(), "(in step 3 of scan)"));
        mx_error_clear();
    }
    list_clear(&y);
    mx_drop(&x);
    mx_drop(&w);
}

/* Every loop on a stream of its own, all at once: bodies belong to nobody. */
static void loops_on_workers(void **state)
{
    struct mx_list y = { 0 };
    mx_own x = { 0 };
    (void)state;
    KEEP(&x, array_of_double(1, DT_float64));
    for (int i = 0; i < 4; i++) {
        MX_SCOPE(stream_new((struct device){ DEVICE_CPU, 0 }));
        assert_int_equal(mx_scan_loop(AS(next, NULL), 1, &x.it, 0, NULL, 20000, false, &y), 0);
    }
    assert_int_equal(mx_async_eval(y.n, (mx *)y.v), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mx_wait_host(y.v[i].it), 0);
        assert_true(*(double *)array_host(y.v[i].it) == *(double *)array_host(y.v[0].it));
    }
    list_clear(&y);
    mx_drop(&x);
}

/* ---- the C functions */

static mlx_stream s;

static mlx_array at(mlx_vector_array vec, size_t i)
{
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, vec, i));
    return a;
}

static int pair(mlx_vector_array *res, mlx_array a, mlx_array b)
{
    mlx_array both[2] = { a, b };
    return mlx_vector_array_set_data(res, both, 2);
}

/* (c, x) -> (c + x, c) */
static int c_step(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array c = at(in, 0), x = at(in, 1), y = mlx_array_new();
    int failed = mlx_add(&y, c, x, s) || pair(res, y, c);
    mlx_array_free(c);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

/* whether c < 100 */
static int c_test(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array c = at(in, 0), most = mlx_array_new_float(100), y = mlx_array_new();
    int failed = mlx_less(&y, c, most, s) || mlx_vector_array_set_value(res, y);
    mlx_array_free(c);
    mlx_array_free(most);
    mlx_array_free(y);
    return failed;
}

static int c_double(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array c = at(in, 0), y = mlx_array_new();
    int failed = mlx_add(&y, c, c, s) || mlx_vector_array_set_value(res, y);
    mlx_array_free(c);
    mlx_array_free(y);
    return failed;
}

static int c_nothing(mlx_vector_array *res, const mlx_vector_array in)
{
    (void)res, (void)in;
    return 0;
}

static int c_fails(mlx_vector_array *res, const mlx_vector_array in)
{
    (void)res, (void)in;
    return 1;
}

static float number(mlx_vector_array vec, size_t i, int k)
{
    mlx_array a = at(vec, i);
    OK(mlx_array_eval(a));
    float v = mlx_array_data_float32(a)[k];
    mlx_array_free(a);
    return v;
}

static void in_c(void **state)
{
    (void)state;
    s = mlx_default_cpu_stream_new();
    float row[3] = { 1, 2, 3 };
    int three = 3;
    mlx_array one = mlx_array_new_float(1), xs = mlx_array_new_data(row, &three, 1, MLX_FLOAT32);
    mlx_array yes = mlx_array_new_bool(true), no = mlx_array_new_bool(false);
    mlx_vector_array init = mlx_vector_array_new_value(one), x = mlx_vector_array_new_value(xs),
                     none = mlx_vector_array_new(), y = mlx_vector_array_new(), ys = mlx_vector_array_new();
    mlx_closure step = mlx_closure_new_func(c_step), test = mlx_closure_new_func(c_test),
                twice = mlx_closure_new_func(c_double), nothing = mlx_closure_new_func(c_nothing),
                fails = mlx_closure_new_func(c_fails), empty = mlx_closure_new();
    OK(mlx_scan(&y, &ys, step, init, x, -1, false, s));
    assert_true(number(y, 0, 0) == 7 && number(ys, 0, 0) == 1 && number(ys, 0, 2) == 4);
    OK(mlx_scan(&y, &ys, step, init, x, 3, true, s));
    assert_true(number(y, 0, 0) == 7 && number(ys, 0, 0) == 6 && number(ys, 0, 2) == 1);
    OK(mlx_scan(&y, &ys, twice, init, none, 5, false, s));
    assert_true(number(y, 0, 0) == 32);
    assert_int_equal(mlx_vector_array_size(ys), 0);
    OK(mlx_while_loop(&y, test, twice, init, s));
    assert_true(number(y, 0, 0) == 128);
    FAILS(mlx_cond(&y, yes, twice, test, init, s), "expected branches with results alike, got float32");
    OK(mlx_cond(&y, no, twice, twice, init, s));
    assert_true(number(y, 0, 0) == 2);
    FAILS(mlx_scan(&y, &ys, empty, init, x, -1, false, s), "`fun`");
    FAILS(mlx_scan(&y, &ys, step, init, x, 4, false, s), "of the length given, 4, got 3");
    FAILS(mlx_scan(&y, &ys, step, init, none, -1, false, s), "expected xs or a length");
    FAILS(mlx_scan(&y, &ys, nothing, init, x, -1, false, s), "the 1 arrays of the carry first, got 0");
    FAILS(mlx_scan(&y, &ys, test, init, none, 2, false, s), "expected carry 0 to stay float32");
    FAILS(mlx_scan(&y, &ys, fails, init, none, 2, false, s), "closure");
    FAILS(mlx_while_loop(&y, nothing, twice, init, s), "expected the condition to return one scalar");
    FAILS(mlx_while_loop(&y, test, test, init, s), "expected carry 0 to stay float32");
    FAILS(mlx_while_loop(&y, test, nothing, init, s), "got 0");
    FAILS(mlx_cond(&y, xs, twice, twice, init, s), "expected a scalar predicate, got an array of shape (3,)");
    FAILS(mlx_cond(&y, yes, twice, nothing, init, s), "got 1 and 0 arrays");
    FAILS(mlx_cond(&y, yes, twice, empty, init, s), "`false_fun`");
    mlx_array_free(one);
    mlx_array_free(xs);
    mlx_array_free(yes);
    mlx_array_free(no);
    mlx_vector_array_free(init);
    mlx_vector_array_free(x);
    mlx_vector_array_free(none);
    mlx_vector_array_free(y);
    mlx_vector_array_free(ys);
    mlx_closure all[] = { step, test, twice, nothing, fails, empty };
    for (size_t i = 0; i < COUNT(all); i++) mlx_closure_free(all[i]);
    mlx_stream_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives),
        cmocka_unit_test(second_derivatives),
        cmocka_unit_test(batches),
        cmocka_unit_test(allocations),
        cmocka_unit_test(an_endless_loop_is_given_up),
        cmocka_unit_test(a_failing_step_says_which),
        cmocka_unit_test(loops_on_workers),
        cmocka_unit_test(in_c),
    };
    return cmocka_run_group_tests(tests, start_listening, all_gone);
}
