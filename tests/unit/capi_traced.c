/* Functions that are differentiated may evaluate what they make, themselves or on another thread: the derivatives are
 * those of functions that do not. */
#include <math.h>
#include <pthread.h>

#include "support/heard.h"

static mlx_stream cpu(void) { return mlx_default_cpu_stream_new(); }

/* ---- results of which only one is held */

typedef int make_fn(mlx_array *y, mlx_array x);

static int attention(mlx_array *y, mlx_array x)
{
    mlx_array q = mlx_array_new();
    int failed = mlx_reshape(&q, x, (int[]){ 1, 1, 4, 3 }, 4, cpu()) ||
                 mlx_fast_scaled_dot_product_attention(y, q, q, q, .5f, "", mlx_array_empty, mlx_array_empty, cpu());
    mlx_array_free(q);
    return failed;
}

static int triangle_of_qr(mlx_array *y, mlx_array x)
{
    mlx_array q = mlx_array_new();
    int failed = mlx_linalg_qr(&q, y, x, cpu());
    mlx_array_free(q);
    return failed;
}

static int factor_of_lu(mlx_array *y, mlx_array x)
{
    mlx_array square = mlx_array_new();
    mlx_vector_array all = mlx_vector_array_new();
    int failed = mlx_slice(&square, x, (int[]){ 0, 0 }, 2, (int[]){ 3, 3 }, 2, (int[]){ 1, 1 }, 2, cpu()) ||
                 mlx_linalg_lu(&all, square, cpu()) || mlx_vector_array_get(y, all, 2);
    mlx_vector_array_free(all);
    mlx_array_free(square);
    return failed;
}

/* (c a, sin c) of (c, a) */
static int body(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array c = mlx_array_new(), a = mlx_array_new();
    int failed = mlx_vector_array_get(&c, in, 0) || mlx_vector_array_get(&a, in, 1) || mlx_multiply(&a, c, a, cpu()) ||
                 mlx_sin(&c, c, cpu()) || mlx_vector_array_append_value(*res, a) ||
                 mlx_vector_array_append_value(*res, c);
    mlx_array_free(c);
    mlx_array_free(a);
    return failed;
}

static int carry(mlx_array *y, mlx_array x)
{
    mlx_closure f = mlx_closure_new_func(body);
    mlx_array first = mlx_array_new();
    int failed = mlx_sum_axis(&first, x, 0, false, cpu());
    mlx_vector_array init = mlx_vector_array_new_value(first), xs = mlx_vector_array_new_value(x);
    mlx_vector_array carries = mlx_vector_array_new(), ys = mlx_vector_array_new();
    failed = failed || mlx_scan(&carries, &ys, f, init, xs, -1, false, cpu()) || mlx_vector_array_get(y, carries, 0);
    mlx_vector_array_free(init);
    mlx_vector_array_free(xs);
    mlx_vector_array_free(carries);
    mlx_vector_array_free(ys);
    mlx_array_free(first);
    mlx_closure_free(f);
    return failed;
}

/* (sin x, cos x) */
static int circle(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_sin(&y, x, cpu()) || mlx_vector_array_append_value(*res, y) ||
                 mlx_cos(&y, x, cpu()) || mlx_vector_array_append_value(*res, y);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

/* Three times the derivative of the sine, in terms of the other result. */
static int by_cosine(mlx_vector_array *res, const mlx_vector_array in, const mlx_vector_array ct,
                     const mlx_vector_array out)
{
    (void)in;
    mlx_array c = mlx_array_new(), o = mlx_array_new(), three = mlx_array_new_float(3);
    int failed = mlx_vector_array_get(&c, ct, 0) || mlx_vector_array_get(&o, out, 1) || mlx_multiply(&c, c, o, cpu()) ||
                 mlx_multiply(&c, c, three, cpu()) || mlx_vector_array_append_value(*res, c);
    mlx_array_free(c);
    mlx_array_free(o);
    mlx_array_free(three);
    return failed;
}

static int of_own_rule(mlx_array *y, mlx_array x)
{
    mlx_closure f = mlx_closure_new_func(circle), g = mlx_closure_new();
    mlx_closure_custom rule = mlx_closure_custom_new_func(by_cosine);
    mlx_vector_array in = mlx_vector_array_new_value(x), both = mlx_vector_array_new();
    int failed = mlx_custom_vjp(&g, f, rule) || mlx_closure_apply(&both, g, in) || mlx_vector_array_get(y, both, 0);
    mlx_vector_array_free(in);
    mlx_vector_array_free(both);
    mlx_closure_custom_free(rule);
    mlx_closure_free(f);
    mlx_closure_free(g);
    return failed;
}

static int a_part(mlx_array *y, mlx_array x)
{
    mlx_vector_array parts = mlx_vector_array_new();
    int failed = mlx_split(&parts, x, 2, 0, cpu()) || mlx_vector_array_get(y, parts, 1);
    mlx_vector_array_free(parts);
    return failed;
}

static int plain_sine(mlx_array *y, mlx_array x) { return mlx_sin(y, x, cpu()); }

/* ---- looking at it */

enum look { NOT, EVALUATE, ASYNC, TWICE, N_LOOKS };

static int look_at(mlx_array y, enum look how)
{
    mlx_vector_array v = mlx_vector_array_new_value(y);
    int failed = how == NOT ? 0 : how == ASYNC ? mlx_async_eval(v) : mlx_array_eval(y);
    failed = failed || (how == TWICE && mlx_eval(v));
    mlx_vector_array_free(v);
    return failed;
}

static struct {
    make_fn *make;
    enum look how;
    mlx_array kept; /* y, where there is room for it */
} inside;

/* The sum of y * y. */
static int squared(mlx_array *res, const mlx_array x)
{
    mlx_array y = mlx_array_new();
    int failed = inside.make(&y, x) || look_at(y, inside.how) || (inside.kept.ctx && mlx_array_set(&inside.kept, y)) ||
                 mlx_square(&y, y, cpu()) || mlx_sum(res, y, false, cpu());
    mlx_array_free(y);
    return failed;
}

static mlx_array operand(void)
{
    float v[12];
    for (int i = 0; i < 12; i++) v[i] = sinf((float)(i * i + 1));
    return mlx_array_new_data(v, (int[]){ 4, 3 }, 2, MLX_FLOAT32);
}

enum { N = 12 };

static void gradient(float got[N])
{
    mlx_closure f = mlx_closure_new_unary(squared);
    mlx_array x = operand(), one = mlx_array_new_float(1), g = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(x), ct = mlx_vector_array_new_value(one);
    mlx_vector_array y = mlx_vector_array_new(), dx = mlx_vector_array_new();
    OK(mlx_vjp(&y, &dx, f, in, ct));
    OK(mlx_vector_array_get(&g, dx, 0));
    OK(mlx_array_eval(g));
    OK(mlx_contiguous(&g, g, false, cpu()));
    OK(mlx_array_eval(g));
    memcpy(got, mlx_array_data_float32(g), N * sizeof *got);
    OK(mlx_vector_array_get(&g, y, 0));
    OK(mlx_array_eval(g));
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    mlx_vector_array_free(in);
    mlx_vector_array_free(ct);
    mlx_array_free(x);
    mlx_array_free(one);
    mlx_array_free(g);
    mlx_closure_free(f);
}

static make_fn *const makers[] = { plain_sine, attention, triangle_of_qr, factor_of_lu, carry, of_own_rule, a_part };
enum { N_MAKERS = sizeof makers / sizeof *makers };

static void expect_same(const float got[N], const float want[N], int maker, int how)
{
    for (int i = 0; i < N; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i]))))
            fail_msg("function %d, looked at in way %d: element %d of the gradient is %g, not %g", maker, how, i,
                     (double)got[i], (double)want[i]);
}

static void some_results_evaluated(void **state)
{
    (void)state;
    for (int m = 0; m < N_MAKERS; m++) {
        float want[N], got[N];
        inside.make = makers[m];
        inside.how = NOT;
        gradient(want);
        for (int how = NOT + 1; how < N_LOOKS; how++) {
            inside.how = (enum look)how;
            gradient(got);
            expect_same(got, want, m, how);
        }
    }
}

/* What is evaluated stays where it is, and as it is, when its operation runs again for the others. */
static void held_data_stays(void **state)
{
    (void)state;
    for (int m = 0; m < N_MAKERS; m++) {
        float got[N], before[N];
        inside.make = makers[m];
        inside.how = EVALUATE;
        inside.kept = mlx_array_new_float(0);
        mlx_closure f = mlx_closure_new_unary(squared);
        mlx_array x = operand(), one = mlx_array_new_float(1), g = mlx_array_new();
        mlx_vector_array in = mlx_vector_array_new_value(x), ct = mlx_vector_array_new_value(one);
        mlx_vector_array y = mlx_vector_array_new(), dx = mlx_vector_array_new();
        OK(mlx_vjp(&y, &dx, f, in, ct));
        const float *data = mlx_array_data_float32(inside.kept);
        size_t n = mlx_array_size(inside.kept);
        bool available = false;
        memcpy(before, data, n * sizeof *before);
        OK(mlx_vector_array_get(&g, dx, 0));
        OK(mlx_array_eval(g));
        OK(_mlx_array_is_available(&available, inside.kept));
        assert_true(available);
        assert_ptr_equal(mlx_array_data_float32(inside.kept), data);
        assert_memory_equal(before, data, n * sizeof *before);
        mlx_vector_array_free(y);
        mlx_vector_array_free(dx);
        mlx_vector_array_free(in);
        mlx_vector_array_free(ct);
        mlx_array_free(x);
        mlx_array_free(one);
        mlx_array_free(g);
        mlx_closure_free(f);
        mlx_array_free(inside.kept);
        inside.kept = (mlx_array){ 0 };
        gradient(got);
    }
}

/* ---- other threads */

struct job {
    int (*work)(mlx_array *y, mlx_array x);
    mlx_array *y, x;
    int failed;
};

static void *do_job(void *arg)
{
    struct job *j = arg;
    j->failed = j->work(j->y, j->x);
    return NULL;
}

static int on_another_thread(make_fn *work, mlx_array *y, mlx_array x)
{
    struct job j = { work, y, x, 1 };
    pthread_t t;
    if (pthread_create(&t, NULL, do_job, &j))
        return 1;
    pthread_join(t, NULL);
    return j.failed;
}

static int evaluates(mlx_array *y, mlx_array x)
{
    (void)y;
    return mlx_array_eval(x);
}

static int evaluates_more(mlx_array *y, mlx_array x)
{
    (void)y;
    mlx_array z = mlx_array_new();
    int failed = mlx_negative(&z, x, cpu()) || mlx_array_eval(z);
    mlx_array_free(z);
    return failed;
}

static int prints(mlx_array *y, mlx_array x)
{
    (void)y;
    mlx_string s = mlx_string_new();
    int failed = mlx_array_tostring(&s, x);
    mlx_string_free(s);
    return failed;
}

/* It has traces of its own, one after the other. */
static int differentiates(mlx_array *y, mlx_array x)
{
    (void)y;
    mlx_closure f = mlx_closure_new_func(circle);
    mlx_array a = operand();
    mlx_vector_array in = mlx_vector_array_new_value(a), ct = mlx_vector_array_new_value(a);
    mlx_vector_array out = mlx_vector_array_new(), dx = mlx_vector_array_new();
    int failed = mlx_vector_array_append_value(ct, a);
    for (int i = 0; i < 2; i++) failed = failed || mlx_vjp(&out, &dx, f, in, ct) || mlx_eval(dx) || mlx_array_eval(x);
    mlx_vector_array_free(in);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(out);
    mlx_vector_array_free(dx);
    mlx_array_free(a);
    mlx_closure_free(f);
    return failed;
}

static make_fn *const lookers[] = { evaluates, evaluates_more, prints, differentiates };

static make_fn *looked_at, *looker;
static int seen_elsewhere(mlx_array *y, mlx_array x) { return looked_at(y, x) || on_another_thread(looker, NULL, *y); }

static void evaluated_by_another_thread(void **state)
{
    (void)state;
    for (int m = 0; m < N_MAKERS; m++) {
        float want[N], got[N];
        inside.how = NOT;
        inside.make = looked_at = makers[m];
        gradient(want);
        inside.make = seen_elsewhere;
        for (int k = 0; k < (int)(sizeof lookers / sizeof *lookers); k++) {
            looker = lookers[k];
            gradient(got);
            expect_same(got, want, m, k);
        }
    }
}

static int views(mlx_array *y, mlx_array x)
{
    return mlx_reshape(y, x, (int[]){ 2, 6 }, 2, cpu()) || mlx_transpose(y, *y, cpu()) ||
           mlx_broadcast_to(y, *y, (int[]){ 2, 6, 2 }, 3, cpu());
}

static int checkpointed(mlx_array *y, mlx_array x)
{
    mlx_closure f = mlx_closure_new_func(circle), g = mlx_closure_new();
    mlx_vector_array in = mlx_vector_array_new_value(x), both = mlx_vector_array_new();
    int failed = mlx_checkpoint(&g, f) || mlx_closure_apply(&both, g, in) || mlx_vector_array_get(y, both, 1);
    mlx_vector_array_free(in);
    mlx_vector_array_free(both);
    mlx_closure_free(f);
    mlx_closure_free(g);
    return failed;
}

/* The derivative of the sum of sin^2, taken where no other trace is. */
static int derived(mlx_array *y, mlx_array x)
{
    mlx_closure f = mlx_closure_new_func(circle);
    mlx_array one = mlx_array_new();
    int failed = mlx_ones_like(&one, x, cpu());
    mlx_vector_array in = mlx_vector_array_new_value(x), ct = mlx_vector_array_new_value(one);
    mlx_vector_array out = mlx_vector_array_new(), dx = mlx_vector_array_new();
    failed = failed || mlx_vector_array_append_value(ct, one) || mlx_vjp(&out, &dx, f, in, ct) ||
             mlx_vector_array_get(y, dx, 0);
    mlx_vector_array_free(in);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(out);
    mlx_vector_array_free(dx);
    mlx_array_free(one);
    mlx_closure_free(f);
    return failed;
}

static int evaluated_views(mlx_array *y, mlx_array x) { return mlx_array_eval(x) || views(y, x); }

static make_fn *const builders[] = { plain_sine, attention,    carry,           of_own_rule, a_part,
                                     views,      checkpointed, evaluated_views, derived };

static make_fn *builder;
static int built_elsewhere(mlx_array *y, mlx_array x) { return on_another_thread(builder, y, x); }

static void built_by_another_thread(void **state)
{
    (void)state;
    for (int m = 0; m < (int)(sizeof builders / sizeof *builders); m++)
        for (int how = NOT; how < N_LOOKS; how++) {
            float want[N], got[N];
            inside.how = NOT;
            inside.make = builder = builders[m];
            gradient(want);
            inside.how = (enum look)how;
            inside.make = built_elsewhere;
            gradient(got);
            expect_same(got, want, m, how);
        }
}

/* Which threads trace meanwhile is nothing to arrays whose own trace is over: they let go of what they come from. */
static int step(mlx_array *w)
{
    mlx_closure f = mlx_closure_new_unary(squared);
    mlx_array one = mlx_array_new_float(1), g = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(*w), ct = mlx_vector_array_new_value(one);
    mlx_vector_array y = mlx_vector_array_new(), dx = mlx_vector_array_new();
    int failed = mlx_vjp(&y, &dx, f, in, ct) || mlx_vector_array_get(&g, dx, 0) || mlx_multiply(&g, g, one, cpu()) ||
                 mlx_subtract(w, *w, g, cpu()) || mlx_array_eval(*w);
    mlx_vector_array_free(in);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    mlx_array_free(one);
    mlx_array_free(g);
    mlx_closure_free(f);
    return failed;
}

static int steps(mlx_array *y, mlx_array x)
{
    mlx_array w = operand();
    int failed = 0;
    long few = 0;
    for (int i = 0; i < 20 && !failed; i++) {
        failed = step(&w);
        if (i == 2)
            few = array_live_count();
    }
    failed = failed || array_live_count() > few;
    mlx_array_free(w);
    return failed || mlx_sin(y, x, cpu());
}

static int others_train(mlx_array *y, mlx_array x)
{
    inside.make = plain_sine;
    return on_another_thread(steps, y, x);
}

static void graphs_do_not_grow(void **state)
{
    (void)state;
    float got[N];
    inside.how = NOT;
    inside.make = others_train;
    gradient(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_results_evaluated),      cmocka_unit_test(held_data_stays),
        cmocka_unit_test(evaluated_by_another_thread), cmocka_unit_test(built_by_another_thread),
        cmocka_unit_test(graphs_do_not_grow),
    };
    return cmocka_run_group_tests_name("C API: evaluation inside of functions", tests, start_listening, all_gone);
}
