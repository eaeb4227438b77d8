/* Closures of all six kinds, and the transforms that C programs reach them through. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <ucontext.h>

#include "core/scope.h"
#include "support/heard.h"

static mlx_stream cpu(void) { return mlx_default_cpu_stream_new(); }

static float value_of(mlx_array a)
{
    float v = NAN;
    OK(mlx_array_item_float32(&v, a));
    return v;
}

static float at(mlx_vector_array vec, size_t i)
{
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, vec, i));
    float v = value_of(a);
    mlx_array_free(a);
    return v;
}

static mlx_vector_array vector_of(int n, const float *v)
{
    mlx_vector_array vec = mlx_vector_array_new();
    for (int i = 0; i < n; i++) {
        mlx_array a = mlx_array_new_float(v[i]);
        OK(mlx_vector_array_append_value(vec, a));
        mlx_array_free(a);
    }
    return vec;
}

/* (x y, x + y) */
static int product_and_sum(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new(), z = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1) || mlx_multiply(&z, x, y, cpu()) ||
                 mlx_vector_array_append_value(*res, z) || mlx_add(&z, x, y, cpu()) ||
                 mlx_vector_array_append_value(*res, z);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(z);
    return failed;
}

/* The same, into a handle of its own in place of the one it was given. */
static int replacing(mlx_vector_array *res, const mlx_vector_array in)
{
    *res = mlx_vector_array_new();
    return product_and_sum(res, in);
}

/* The same, after freeing that one. */
static int freeing(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_vector_array_free(*res);
    return replacing(res, in);
}

/* Leaves nothing, and its arguments as they are. */
static int emptying(mlx_vector_array *res, const mlx_vector_array in)
{
    (void)in;
    mlx_vector_array_free(*res);
    res->ctx = NULL;
    return 0;
}
static int passing_on(mlx_vector_array *res, const mlx_vector_array in)
{
    *res = in;
    return 0;
}
static int same_handle(mlx_array *res, const mlx_array x)
{
    *res = x;
    return 0;
}

static int square(mlx_array *res, const mlx_array x) { return mlx_multiply(res, x, x, cpu()); }

/* The payload times the argument. */
static int scaled(mlx_vector_array *res, const mlx_vector_array in, void *payload)
{
    mlx_array x = mlx_array_new(), k = mlx_array_new_float(*(float *)payload);
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_multiply(&x, x, k, cpu()) || mlx_vector_array_set_value(res, x);
    mlx_array_free(x);
    mlx_array_free(k);
    return failed;
}

static int freed;
static void count_free(void *payload)
{
    freed++;
    free(payload);
}

static int says_no(mlx_vector_array *res, const mlx_vector_array in)
{
    (void)res;
    (void)in;
    return 17;
}

static int reports(mlx_vector_array *res, const mlx_vector_array in)
{
    (void)in;
    return mlx_vector_array_append_value(*res, mlx_array_empty);
}

static int forgets(mlx_array *res, const mlx_array x)
{
    (void)res;
    (void)x;
    return 0;
}

static void plain(void **state)
{
    (void)state;
    const float v[] = { 3, 4 };
    mlx_vector_array in = vector_of(2, v), out = { NULL }, none = { NULL };
    mlx_closure f = mlx_closure_new_func(product_and_sum), g = mlx_closure_new();
    OK(mlx_closure_apply(&out, f, in));
    assert_int_equal(mlx_vector_array_size(out), 2);
    assert_true(at(out, 0) == 12 && at(out, 1) == 7);
    FAILS(mlx_closure_apply(&out, g, in), "expected a closure for `cls`, got an empty handle");
    FAILS(mlx_closure_apply(&out, f, none), "`input`");
    FAILS(mlx_closure_apply(NULL, f, in), "place for the result");
    FAILS(mlx_closure_set(&f, g), "`src`");
    FAILS(mlx_closure_new_func(NULL).ctx == NULL, "a function");

    /* A copy of the handle sees what is set through the other. */
    mlx_closure copy = f, unary = mlx_closure_new_unary(square);
    OK(mlx_closure_set(&f, unary));
    FAILS(mlx_closure_apply(&out, copy, in), "one array for a function of one, got 2");
    assert_true(at(out, 0) == 12);
    mlx_vector_array one = vector_of(1, v);
    OK(mlx_closure_apply(&out, copy, one));
    assert_true(mlx_vector_array_size(out) == 1 && at(out, 0) == 9);

    mlx_closure r = mlx_closure_new_func(replacing);
    OK(mlx_closure_apply(&out, r, in));
    assert_true(mlx_vector_array_size(out) == 2 && at(out, 1) == 7);

    OK(mlx_closure_free(f));
    OK(mlx_closure_free(g));
    mlx_closure_free(unary);
    mlx_closure_free(r);
    mlx_vector_array_free(in);
    mlx_vector_array_free(one);
    mlx_vector_array_free(out);
}

static void payloads(void **state)
{
    (void)state;
    const float v[] = { 3 };
    float *k = malloc(sizeof *k);
    *k = 5;
    mlx_vector_array in = vector_of(1, v), out = { NULL };
    mlx_closure f = mlx_closure_new_func_payload(scaled, k, count_free), g = mlx_closure_new();
    OK(mlx_closure_set(&g, f));
    mlx_closure_free(f);
    assert_int_equal(freed, 0);
    OK(mlx_closure_apply(&out, g, in));
    assert_true(at(out, 0) == 15);
    mlx_closure_free(g);
    assert_int_equal(freed, 1);
    float mine = 2;
    f = mlx_closure_new_func_payload(scaled, &mine, NULL);
    OK(mlx_closure_apply(&out, f, in));
    assert_true(at(out, 0) == 6);
    mlx_closure_free(f);
    FAILS(mlx_closure_new_func_payload(NULL, &mine, count_free).ctx == NULL, "a function");
    assert_int_equal(freed, 1);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
}

/* A callback's own report is the only one; one that keeps silent is spoken for. */
static void failing(void **state)
{
    (void)state;
    const float v[] = { 3 };
    const int first = 0;
    mlx_vector_array in = vector_of(1, v), out = vector_of(1, v), grads = { NULL };
    mlx_closure silent = mlx_closure_new_func(says_no), loud = mlx_closure_new_func(reports);
    mlx_closure empty = mlx_closure_new_unary(forgets);
    FAILS(mlx_closure_apply(&out, silent, in), "to return 0, got 17");
    FAILS(mlx_closure_apply(&out, loud, in), "[vector_array_append_value]");
    FAILS(mlx_closure_apply(&out, empty, in), "to set its result");
    assert_true(mlx_vector_array_size(out) == 1 && at(out, 0) == 3);
    mlx_closure_value_and_grad vg = mlx_closure_value_and_grad_new();
    OK(mlx_value_and_grad(&vg, loud, &first, 1));
    FAILS(mlx_closure_value_and_grad_apply(&out, &grads, vg, in), "[vector_array_append_value]");
    OK(mlx_value_and_grad(&vg, silent, &first, 1));
    FAILS(mlx_closure_value_and_grad_apply(&out, &grads, vg, in), "to return 0, got 17");
    assert_null(grads.ctx);
    FAILS(mlx_vjp(&out, &grads, loud, in, in), "[vector_array_append_value]");
    assert_true(at(out, 0) == 3);
    mlx_closure_free(silent);
    mlx_closure_free(loud);
    mlx_closure_free(empty);
    mlx_closure_value_and_grad_free(vg);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
}

static int with_names(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array names)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_map_string_to_array_get(&y, names, "y") ||
                 mlx_subtract(&x, x, y, cpu()) || mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

static int with_names_payload(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array names,
                              void *payload)
{
    ++*(int *)payload;
    return with_names(res, in, names);
}

static void kwargs(void **state)
{
    (void)state;
    const float v[] = { 3 };
    int calls = 0;
    mlx_vector_array in = vector_of(1, v), out = { NULL };
    mlx_map_string_to_array names = mlx_map_string_to_array_new(), no_map = { NULL };
    mlx_array y = mlx_array_new_float(10);
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(with_names), g = mlx_closure_kwargs_new();
    FAILS(mlx_closure_kwargs_apply(&out, f, in, names), "to return 0, got 1"); /* there is no y */
    OK(mlx_map_string_to_array_insert(names, "y", y));
    OK(mlx_closure_kwargs_apply(&out, f, in, names));
    assert_true(at(out, 0) == -7);
    FAILS(mlx_closure_kwargs_apply(&out, g, in, names), "a closure");
    FAILS(mlx_closure_kwargs_apply(&out, f, in, no_map), "a map");
    mlx_closure_kwargs p = mlx_closure_kwargs_new_func_payload(with_names_payload, &calls, NULL);
    OK(mlx_closure_kwargs_set(&g, p));
    OK(mlx_closure_kwargs_apply(&out, g, in, names));
    assert_int_equal(calls, 1);
    mlx_closure_kwargs_free(f);
    mlx_closure_kwargs_free(g);
    mlx_closure_kwargs_free(p);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_map_string_to_array_free(names);
    mlx_array_free(y);
}

/* f = x^2 y: its value and (2 x y, x^2), by hand. */
static int x2y(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new(), z = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1) || mlx_multiply(&z, x, x, cpu()) ||
                 mlx_multiply(&z, z, y, cpu()) || mlx_vector_array_append_value(*res, z) ||
                 mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(z);
    return failed;
}

static int by_hand(mlx_vector_array *values, mlx_vector_array *grads, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    int failed = x2y(values, in) || mlx_vector_array_get(&x, in, 0) || mlx_multiply(&x, x, x, cpu()) ||
                 mlx_vector_array_append_value(*grads, x);
    mlx_array_free(x);
    return failed;
}

static int by_hand_payload(mlx_vector_array *values, mlx_vector_array *grads, const mlx_vector_array in, void *payload)
{
    ++*(int *)payload;
    return by_hand(values, grads, in);
}

static void value_and_grad(void **state)
{
    (void)state;
    const float v[] = { 3, 5 };
    const int both[] = { 1, 0 }, outside = 2;
    mlx_vector_array in = vector_of(2, v), y = { NULL }, dx = { NULL };
    mlx_closure f = mlx_closure_new_func(x2y);
    mlx_closure_value_and_grad vg = mlx_closure_value_and_grad_new();
    OK(mlx_value_and_grad(&vg, f, both, 2));
    OK(mlx_closure_value_and_grad_apply(&y, &dx, vg, in));
    assert_true(mlx_vector_array_size(y) == 2 && at(y, 0) == 45 && at(y, 1) == 3);
    assert_true(mlx_vector_array_size(dx) == 2 && at(dx, 0) == 9 && at(dx, 1) == 30);
    FAILS(mlx_closure_value_and_grad_apply(&y, NULL, vg, in), "place for the result");
    OK(mlx_value_and_grad(&vg, f, &outside, 1));
    assert_true(mlx_closure_value_and_grad_apply(&y, &dx, vg, in));
    assert_int_equal(heard.n, 1);
    heard.n = 0;
    FAILS(mlx_value_and_grad(&vg, f, NULL, 1), "numbers of arguments");
    FAILS(mlx_value_and_grad(&vg, f, both, 0), "one argument at least");
    FAILS(mlx_value_and_grad(&vg, mlx_closure_new(), both, 1), "a closure");
    FAILS(mlx_value_and_grad(NULL, f, both, 1), "place for the result");

    int calls = 0;
    mlx_closure_value_and_grad own = mlx_closure_value_and_grad_new_func(by_hand);
    OK(mlx_closure_value_and_grad_set(&vg, own));
    OK(mlx_closure_value_and_grad_apply(&y, &dx, vg, in));
    assert_true(at(y, 0) == 45 && at(dx, 0) == 9);
    mlx_closure_value_and_grad p = mlx_closure_value_and_grad_new_func_payload(by_hand_payload, &calls, NULL);
    OK(mlx_closure_value_and_grad_apply(&y, &dx, p, in));
    assert_int_equal(calls, 1);
    mlx_closure_value_and_grad_free(vg);
    mlx_closure_value_and_grad_free(own);
    mlx_closure_value_and_grad_free(p);
    mlx_closure_free(f);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
}

static void vjp_and_jvp(void **state)
{
    (void)state;
    const float v[] = { 3, 5 }, d[] = { 1, 10 };
    mlx_vector_array x = vector_of(2, v), t = vector_of(2, d), one = vector_of(1, d);
    mlx_vector_array y = { NULL }, dy = { NULL };
    mlx_closure f = mlx_closure_new_func(product_and_sum);
    OK(mlx_vjp(&y, &dy, f, x, t)); /* y = (15, 8); (1, 10) J = (y + 10, x + 10) */
    assert_true(at(y, 0) == 15 && at(y, 1) == 8 && at(dy, 0) == 15 && at(dy, 1) == 13);
    OK(mlx_jvp(&y, &dy, f, x, t)); /* J (1, 10) = (1 y + 10 x, 11) */
    assert_true(at(dy, 0) == 35 && at(dy, 1) == 11);
    assert_true(mlx_vjp(&y, &dy, f, x, one));
    assert_true(mlx_jvp(&y, &dy, f, x, one));
    assert_int_equal(heard.n, 2);
    heard.n = 0;
    assert_true(at(dy, 0) == 35);
    mlx_closure_free(f);
    mlx_vector_array_free(x);
    mlx_vector_array_free(t);
    mlx_vector_array_free(one);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dy);
}

/* A vjp that gives the operands, result and cotangent away: (x + y + out, 100 ct). */
static int odd_vjp(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array ct,
                   const mlx_vector_array out)
{
    mlx_array a = mlx_array_new(), b = mlx_array_new(), hundred = mlx_array_new_float(100);
    int failed = mlx_vector_array_size(x) != 2 || mlx_vector_array_size(ct) != 2 || mlx_vector_array_get(&a, x, 0) ||
                 mlx_vector_array_get(&b, x, 1) || mlx_add(&a, a, b, cpu()) || mlx_vector_array_get(&b, out, 0) ||
                 mlx_add(&a, a, b, cpu()) || mlx_vector_array_append_value(*res, a) ||
                 mlx_vector_array_get(&a, ct, 0) || mlx_multiply(&a, a, hundred, cpu()) ||
                 mlx_vector_array_append_value(*res, a);
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(hundred);
    return failed;
}

static int odd_vjp_payload(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array ct,
                           const mlx_vector_array out, void *payload)
{
    (void)payload;
    return odd_vjp(res, x, ct, out);
}

static void custom_vjp(void **state)
{
    (void)state;
    const float v[] = { 3, 5 }, c[] = { 1, 0 };
    mlx_vector_array x = vector_of(2, v), ct = vector_of(2, c), y = { NULL }, dx = { NULL };
    float *k = calloc(1, sizeof *k);
    freed = 0;
    mlx_closure f = mlx_closure_new_func(product_and_sum), g = mlx_closure_new();
    mlx_closure_custom rule = mlx_closure_custom_new_func_payload(odd_vjp_payload, k, count_free);
    mlx_closure_custom same = mlx_closure_custom_new_func(odd_vjp), copy = { NULL };
    OK(mlx_custom_vjp(&g, f, rule));
    mlx_closure_custom_free(rule);
    OK(mlx_closure_apply(&y, g, x));
    assert_true(at(y, 0) == 15 && at(y, 1) == 8);
    OK(mlx_vjp(&y, &dx, g, x, ct));
    assert_true(at(y, 0) == 15 && at(dx, 0) == 23 && at(dx, 1) == 100);
    assert_int_equal(freed, 0);
    OK(mlx_closure_custom_set(&copy, same));
    OK(mlx_closure_custom_apply(&dx, copy, x, ct, y));
    assert_true(at(dx, 0) == 23);
    FAILS(mlx_custom_vjp(&g, f, mlx_closure_custom_new()), "`fun_vjp`");
    mlx_closure_free(g);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    assert_int_equal(freed, 1);
    mlx_closure_custom_free(same);
    mlx_closure_custom_free(copy);
    mlx_closure_free(f);
    mlx_vector_array_free(x);
    mlx_vector_array_free(ct);
}

/* ---- coroutines: calls of one thread that end in the order they began in */

static ucontext_t hub, turns[2];
static int turn;
static float gradients[2];

/* The rule of product_and_sum above, which lets others run before it answers. */
static int odd_vjp_in_turns(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array ct,
                            const mlx_vector_array y)
{
    assert_int_equal(scope_depth(), 0);
    assert_int_equal(swapcontext(&turns[turn], &hub), 0);
    return odd_vjp(res, x, ct, y);
}

/* The first result of another function: the cotangent of the second is lent to the rule. */
static int first_of(mlx_vector_array *res, const mlx_vector_array in, void *payload)
{
    mlx_vector_array y = mlx_vector_array_new();
    mlx_array a = mlx_array_new();
    int failed = mlx_closure_apply(&y, *(mlx_closure *)payload, in) || mlx_vector_array_get(&a, y, 0) ||
                 mlx_vector_array_append_value(*res, a);
    mlx_array_free(a);
    mlx_vector_array_free(y);
    return failed;
}

static void derive_in_turns(void)
{
    int i = turn;
    const float v[] = { 3, 5 }, c[] = { (float)(i + 1) };
    mlx_vector_array x = vector_of(2, v), ct = vector_of(1, c), y = { NULL }, dx = { NULL };
    mlx_closure f = mlx_closure_new_func(product_and_sum), g = mlx_closure_new();
    mlx_closure first = mlx_closure_new_func_payload(first_of, &g, NULL);
    mlx_closure_custom rule = mlx_closure_custom_new_func(odd_vjp_in_turns);
    OK(mlx_custom_vjp(&g, f, rule));
    OK(mlx_vjp(&y, &dx, first, x, ct));
    gradients[i] = at(dx, 1);
    mlx_closure_custom_free(rule);
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_closure_free(first);
    mlx_vector_array_free(x);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
}

static void take_turns(void **state)
{
    (void)state;
    enum { STACK = 1 << 20 };
    char *stacks = malloc(2 * STACK);
    assert_non_null(stacks);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(getcontext(&turns[i]), 0);
        turns[i].uc_stack.ss_sp = stacks + i * STACK;
        turns[i].uc_stack.ss_size = STACK;
        turns[i].uc_link = &hub;
        makecontext(&turns[i], derive_in_turns, 0);
    }
    for (int k = 0; k < 4; k++) {
        turn = k % 2;
        assert_int_equal(swapcontext(&hub, &turns[turn]), 0);
    }
    free(stacks);
    assert_float_equal(gradients[0], 100, 0);
    assert_float_equal(gradients[1], 200, 0);
    assert_int_equal(scope_depth(), 0);
}

static int jvp_rule(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array t, const int *argnums,
                    size_t n)
{
    mlx_array a = mlx_array_new();
    int failed =
        mlx_vector_array_get(&a, n == 1 && argnums[0] == 1 ? t : x, 0) || mlx_vector_array_append_value(*res, a);
    mlx_array_free(a);
    return failed;
}

static int jvp_rule_payload(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array t,
                            const int *argnums, size_t n, void *payload)
{
    ++*(int *)payload;
    return jvp_rule(res, x, t, argnums, n);
}

static int vmap_rule(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array x, const int *in_axes,
                     size_t n)
{
    return mlx_vector_array_set(res, x) || mlx_vector_int_append_value(*axes, in_axes[n - 1]);
}

static int vmap_rule_payload(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array x, const int *in_axes,
                             size_t n, void *payload)
{
    ++*(int *)payload;
    return vmap_rule(res, axes, x, in_axes, n);
}

/* 5 t_1 and 5, where both inputs vary */
static int odd_jvp(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array t, const int *argnums,
                   size_t n)
{
    mlx_array a = mlx_array_new(), five = mlx_array_new_float(5);
    int failed = n != 2 || argnums[0] != 0 || argnums[1] != 1 || mlx_vector_array_get(&a, t, 1) ||
                 mlx_multiply(&a, a, five, mlx_stream_new()) || mlx_vector_array_append_value(*res, a) ||
                 mlx_vector_array_append_value(*res, five) || mlx_vector_array_size(x) != 2;
    mlx_array_free(a);
    mlx_array_free(five);
    return failed;
}

/* The inputs, the first of which is batched. */
static int odd_vmap(mlx_vector_array *res, mlx_vector_int *res_axes, const mlx_vector_array x, const int *axes,
                    size_t n)
{
    mlx_array a = mlx_array_new();
    int failed = n != 2 || axes[0] != 0 || axes[1] != -1 || mlx_vector_array_get(&a, x, 0) ||
                 mlx_vector_array_append_value(*res, a) || mlx_vector_int_append_value(*res_axes, 0) ||
                 mlx_vector_array_get(&a, x, 1) || mlx_vector_array_append_value(*res, a) ||
                 mlx_vector_int_append_value(*res_axes, -1);
    mlx_array_free(a);
    return failed;
}

static void directions_of_another_kind(void **state)
{
    (void)state;
    const float v[] = { 3, 5 };
    mlx_vector_array x = vector_of(2, v), t = vector_of(1, v), y = { NULL }, dx = { NULL };
    mlx_closure f = mlx_closure_new_func(product_and_sum);
    mlx_array i = mlx_array_new_complex(0, 1);
    OK(mlx_vector_array_append_value(t, i));
    FAILS(mlx_jvp(&y, &dx, f, x, t), "tangent 1: expected dtype float32 of the argument, got complex64");
    FAILS(mlx_vjp(&y, &dx, f, x, t), "cotangent 1: expected dtype float32 of the result, got complex64");
    OK(mlx_jvp(&y, &dx, f, t, x));
    mlx_array_free(i);
    mlx_closure_free(f);
    mlx_vector_array_free(x);
    mlx_vector_array_free(t);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
}

static int fails_quietly(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array t, const int *argnums,
                         size_t n)
{
    (void)res, (void)x, (void)t, (void)argnums, (void)n;
    return 7;
}

static void custom_function(void **state)
{
    (void)state;
    const float v[] = { 3, 5 }, c[] = { 1, 0 }, d[] = { 0, 2 }, rows[] = { 1, 2, 3 };
    const int three = 3, axes[] = { 0, -1 }, out_axes[] = { 0, MLX_VMAP_NONE };
    mlx_vector_array x = vector_of(2, v), ct = vector_of(2, c), t = vector_of(2, d), y = { NULL }, dx = { NULL };
    mlx_closure f = mlx_closure_new_func(product_and_sum), g = mlx_closure_new(), h = mlx_closure_new();
    mlx_closure_custom vjp = mlx_closure_custom_new_func(odd_vjp);
    mlx_closure_custom_jvp jvp = mlx_closure_custom_jvp_new_func(odd_jvp);
    mlx_closure_custom_jvp bad = mlx_closure_custom_jvp_new_func(fails_quietly);
    mlx_closure_custom_vmap vmap = mlx_closure_custom_vmap_new_func(odd_vmap);
    OK(mlx_custom_function(&g, f, vjp, jvp, vmap));
    OK(mlx_vjp(&y, &dx, g, x, ct));
    assert_true(at(y, 0) == 15 && at(dx, 0) == 23 && at(dx, 1) == 100);

    OK(mlx_jvp(&y, &dx, g, x, t));
    assert_true(at(y, 1) == 8 && at(dx, 0) == 10 && at(dx, 1) == 5);

    mlx_vector_array batch = mlx_vector_array_new(), in = { NULL }, out = { NULL };
    mlx_array row = mlx_array_new_data(rows, &three, 1, MLX_FLOAT32), five = mlx_array_new_float(5);
    OK(mlx_vector_array_append_value(batch, row));
    OK(mlx_vector_array_append_value(batch, five));
    OK(mlx_detail_vmap_trace(&in, &out, g, batch, axes, 2));
    OK(mlx_detail_vmap_replace(&y, batch, in, out, axes, 2, out_axes, 2));
    assert_int_equal(mlx_vector_array_size(y), 2);
    assert_true(at(y, 1) == 5);

    /* empty handles stand for no rule */
    OK(mlx_custom_function(&h, f, mlx_closure_custom_new(), bad, mlx_closure_custom_vmap_new()));
    OK(mlx_vjp(&y, &dx, h, x, ct));
    assert_true(at(dx, 0) == 5 && at(dx, 1) == 3);
    FAILS(mlx_jvp(&y, &dx, h, x, t), "");
    FAILS(mlx_custom_function(&h, mlx_closure_new(), vjp, jvp, vmap), "a closure");
    mlx_closure_custom_free(vjp);
    mlx_closure_custom_jvp_free(jvp);
    mlx_closure_custom_jvp_free(bad);
    mlx_closure_custom_vmap_free(vmap);
    mlx_array_free(row);
    mlx_array_free(five);
    mlx_vector_array_free(batch);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_closure_free(h);
    mlx_vector_array_free(x);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(t);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
}

static int nothing(mlx_vector_array *res, const mlx_vector_array in)
{
    (void)res, (void)in;
    return 0;
}

static void checkpoint_without_results(void **state)
{
    (void)state;
    const float v[] = { 3, 5 };
    mlx_vector_array x = vector_of(2, v), none = mlx_vector_array_new(), y = { NULL }, dx = { NULL };
    mlx_closure f = mlx_closure_new_func(nothing), g = mlx_closure_new();
    OK(mlx_checkpoint(&g, f));
    OK(mlx_vjp(&y, &dx, g, x, none));
    assert_int_equal(mlx_vector_array_size(y), 0);
    assert_true(at(dx, 0) == 0 && at(dx, 1) == 0);
    mlx_vector_array_free(x);
    mlx_vector_array_free(none);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
    mlx_closure_free(f);
    mlx_closure_free(g);
}

static void checkpoint_and_derivatives_at_a_point(void **state)
{
    (void)state;
    const float v[] = { 3, 5 }, c[] = { 1, 0 }, d[] = { 1, 2 };
    mlx_vector_array x = vector_of(2, v), ct = vector_of(2, c), t = vector_of(2, d), y = { NULL }, dx = { NULL };
    mlx_closure f = mlx_closure_new_func(product_and_sum), g = mlx_closure_new(), push = mlx_closure_new(),
                pull = mlx_closure_new();
    OK(mlx_checkpoint(&g, f));
    OK(mlx_vjp(&y, &dx, g, x, ct));
    assert_true(at(y, 0) == 15 && at(dx, 0) == 5 && at(dx, 1) == 3);
    OK(mlx_linearize(&y, &push, g, x));
    assert_true(at(y, 0) == 15 && at(y, 1) == 8);
    OK(mlx_closure_apply(&dx, push, t));
    assert_true(at(dx, 0) == 11 && at(dx, 1) == 3);
    OK(mlx_pullback(&y, &pull, g, x));
    for (int i = 0; i < 2; i++) {
        OK(mlx_closure_apply(&dx, pull, ct));
        assert_true(at(dx, 0) == 5 && at(dx, 1) == 3);
    }
    mlx_vector_array empty = mlx_vector_array_new();
    FAILS(mlx_closure_apply(&dx, push, empty), "one tangent for each of the 2 arguments");
    FAILS(mlx_closure_apply(&dx, pull, empty), "one cotangent for each of the 2 results");
    FAILS(mlx_checkpoint(&g, mlx_closure_new()), "a closure");
    FAILS(mlx_linearize(&y, &push, mlx_closure_new(), x), "a closure");
    mlx_vector_array_free(empty);
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_closure_free(push);
    mlx_closure_free(pull);
    mlx_vector_array_free(x);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(t);
    mlx_vector_array_free(y);
    mlx_vector_array_free(dx);
}

static void rules(void **state)
{
    (void)state;
    const float v[] = { 3, 5 }, d[] = { 8 };
    const int argnums[] = { 1 };
    int calls = 0, axis;
    mlx_vector_array x = vector_of(2, v), t = vector_of(1, d), res = { NULL };
    mlx_vector_int axes = { NULL };
    mlx_closure_custom_jvp j = mlx_closure_custom_jvp_new_func(jvp_rule), j2 = { NULL };
    mlx_closure_custom_jvp j3 = mlx_closure_custom_jvp_new_func_payload(jvp_rule_payload, &calls, NULL);
    OK(mlx_closure_custom_jvp_set(&j2, j));
    OK(mlx_closure_custom_jvp_apply(&res, j2, x, t, argnums, 1));
    assert_true(at(res, 0) == 8);
    OK(mlx_closure_custom_jvp_apply(&res, j3, x, t, argnums, 0));
    assert_true(at(res, 0) == 3);
    mlx_closure_custom_vmap m = mlx_closure_custom_vmap_new_func(vmap_rule), m2 = { NULL };
    mlx_closure_custom_vmap m3 = mlx_closure_custom_vmap_new_func_payload(vmap_rule_payload, &calls, NULL);
    OK(mlx_closure_custom_vmap_set(&m2, m));
    OK(mlx_closure_custom_vmap_apply(&res, &axes, m2, x, argnums, 1));
    OK(mlx_closure_custom_vmap_apply(&res, &axes, m3, x, argnums, 1));
    assert_int_equal(calls, 2);
    assert_int_equal(mlx_vector_array_size(res), 2);
    OK(mlx_vector_int_get(&axis, axes, 0));
    assert_int_equal(axis, 1);
    FAILS(mlx_closure_custom_vmap_apply(&res, &axes, m2, x, NULL, 2), "`input_1`, got NULL");
    FAILS(mlx_closure_custom_vmap_apply(&res, &axes, mlx_closure_custom_vmap_new(), x, argnums, 1), "a closure");
    mlx_closure_custom_jvp_free(j);
    mlx_closure_custom_jvp_free(j2);
    mlx_closure_custom_jvp_free(j3);
    mlx_closure_custom_vmap_free(m);
    mlx_closure_custom_vmap_free(m2);
    mlx_closure_custom_vmap_free(m3);
    mlx_vector_array_free(x);
    mlx_vector_array_free(t);
    mlx_vector_array_free(res);
    mlx_vector_int_free(axes);
}

static void evaluation(void **state)
{
    (void)state;
    mlx_array a = mlx_array_new_float(2), b = mlx_array_new();
    bool yes = true;
    OK(mlx_exp(&b, a, cpu()));
    OK(_mlx_array_is_available(&yes, b));
    assert_false(yes);
    mlx_vector_array both = mlx_vector_array_new_value(a), none = { NULL };
    OK(mlx_vector_array_append_value(both, b));
    OK(mlx_async_eval(both));
    OK(_mlx_array_wait(b));
    OK(_mlx_array_is_available(&yes, b));
    assert_true(yes);
    OK(mlx_eval(both));
    assert_true(fabsf(value_of(b) - 7.3890561f) < 1e-5f);
    FAILS(mlx_eval(none), "`outputs`");
    FAILS(mlx_async_eval(none), "`outputs`");
    OK(mlx_exp(&b, b, mlx_stream_new()));
    OK(mlx_array_eval(b));
    mlx_vector_array_free(both);
    mlx_array_free(a);
    mlx_array_free(b);
}

static void callbacks_may_free_results(void **state)
{
    (void)state;
    mlx_vector_array in = vector_of(2, (float[]){ 3, 4 }), one = vector_of(1, (float[]){ 3 });
    mlx_vector_array out = mlx_vector_array_new();
    mlx_closure frees = mlx_closure_new_func(freeing), empty = mlx_closure_new_func(emptying);
    mlx_closure passes = mlx_closure_new_func(passing_on), same = mlx_closure_new_unary(same_handle);
    OK(mlx_closure_apply(&out, frees, in));
    assert_float_equal(at(out, 0), 12, 0);
    FAILS(mlx_closure_apply(&out, empty, in), "expected the function to leave a vector in its result");
    OK(mlx_closure_apply(&out, passes, in));
    assert_float_equal(at(out, 1), 4, 0);
    FAILS(mlx_closure_apply(&out, same, one), "got the handle of its argument");
    mlx_closure_free(frees);
    mlx_closure_free(empty);
    mlx_closure_free(passes);
    mlx_closure_free(same);
    mlx_vector_array_free(in);
    mlx_vector_array_free(one);
    mlx_vector_array_free(out);
}

/* Functions that let go of their own handle and of what they are given, and pass on what they were given. */
static struct {
    mlx_closure_kwargs named;
    mlx_closure_custom vjp;
    mlx_closure_custom_jvp jvp;
    mlx_closure_custom_vmap vmap;
} own;
static int let_go;
static void note_that(void *payload) { *(int *)payload += 1; }

static int end_of(mlx_vector_array *res, mlx_vector_array in)
{
    assert_int_equal(let_go, 0);
    return mlx_vector_array_set(res, in) || mlx_vector_array_free(in);
}

static int named_ends(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array named, void *p)
{
    (void)p;
    mlx_closure_kwargs_free(own.named);
    mlx_map_string_to_array_free(named);
    return end_of(res, in);
}

static int vjp_ends(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array ct,
                    const mlx_vector_array y, void *p)
{
    (void)p;
    mlx_closure_custom_free(own.vjp);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(y);
    return end_of(res, x);
}

static int jvp_ends(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array t, const int *numbers,
                    size_t n, void *p)
{
    (void)numbers, (void)n, (void)p;
    mlx_closure_custom_jvp_free(own.jvp);
    mlx_vector_array_free(t);
    return end_of(res, x);
}

static int vmap_ends(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array x, const int *in, size_t n,
                     void *p)
{
    (void)in, (void)n, (void)p;
    mlx_closure_custom_vmap_free(own.vmap);
    *res = x;
    return mlx_vector_int_append_value(*axes, 0);
}

static void functions_may_let_go_of_themselves(void **state)
{
    (void)state;
    mlx_vector_array x = vector_of(1, (float[]){ 3 }), out = mlx_vector_array_new();
    mlx_map_string_to_array named = mlx_map_string_to_array_new();
    mlx_vector_int axes = mlx_vector_int_new();
    own.named = mlx_closure_kwargs_new_func_payload(named_ends, &let_go, note_that);
    own.vjp = mlx_closure_custom_new_func_payload(vjp_ends, &let_go, note_that);
    own.jvp = mlx_closure_custom_jvp_new_func_payload(jvp_ends, &let_go, note_that);
    own.vmap = mlx_closure_custom_vmap_new_func_payload(vmap_ends, &let_go, note_that);
    for (int way = 0; way < 4; way++) {
        let_go = 0;
        switch (way) {
        case 0: OK(mlx_closure_kwargs_apply(&out, own.named, x, named)); break;
        case 1: OK(mlx_closure_custom_apply(&out, own.vjp, x, x, x)); break;
        case 2: OK(mlx_closure_custom_jvp_apply(&out, own.jvp, x, x, (int[]){ 0 }, 1)); break;
        case 3: OK(mlx_closure_custom_vmap_apply(&out, &axes, own.vmap, x, (int[]){ 0 }, 1)); break;
        }
        assert_int_equal(let_go, 1);
        assert_float_equal(at(out, 0), 3, 0);
        assert_float_equal(at(x, 0), 3, 0);
    }
    mlx_vector_array_free(x);
    mlx_vector_array_free(out);
    mlx_vector_int_free(axes);
    mlx_map_string_to_array_free(named);
}

/* ---- vmap of functions with a vmap rule whose arguments are not mapped */

static int sine(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_sin(&x, x, cpu()) || mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    return failed;
}

static int asked;
static int sine_rule(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array in, const int *axis, size_t n)
{
    (void)n;
    asked++;
    return mlx_vector_int_append_value(*axes, axis[0]) || sine(res, in);
}

/* The way to h(x) of x, which is not mapped, and y, which is. */
enum { BY_CHECKPOINT, BY_DEPENDS, BY_SIZE, TWICE, OF_Y, WAYS };
static struct {
    mlx_closure h, first;
    int way;
} ruled;

static int takes_first(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    return failed;
}

static int through_rule(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    mlx_vector_array v = mlx_vector_array_new(), a, b;
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1);
    a = mlx_vector_array_new_value(x);
    b = mlx_vector_array_new_value(y);
    if (ruled.way == BY_CHECKPOINT || ruled.way == TWICE)
        failed = failed || mlx_closure_apply(&v, ruled.first, in);
    else if (ruled.way == BY_DEPENDS)
        failed = failed || mlx_depends(&v, a, b);
    else if (ruled.way == BY_SIZE)
        failed = failed || mlx_number_of_elements(&y, y, (int[]){ 0 }, 1, false, MLX_FLOAT32, cpu()) ||
                 mlx_vector_array_append_value(v, y);
    else
        failed = failed || mlx_vector_array_append_value(v, y);
    failed = failed || (ruled.way == TWICE && mlx_closure_apply(&v, ruled.h, v)) || mlx_closure_apply(res, ruled.h, v);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_vector_array_free(v);
    mlx_vector_array_free(a);
    mlx_vector_array_free(b);
    return failed;
}

static void rules_not_asked(void **state)
{
    (void)state;
    const float rows[] = { 1, 2, 3, 4 };
    mlx_array x = mlx_array_new_data(rows, (int[]){ 2 }, 1, MLX_FLOAT32);
    mlx_array y = mlx_array_new_data(rows, (int[]){ 2, 2 }, 2, MLX_FLOAT32), r = mlx_array_new();
    mlx_array both[] = { x, y };
    mlx_vector_array in = mlx_vector_array_new_data(both, 2), out = mlx_vector_array_new();
    mlx_closure f = mlx_closure_new_func(through_rule), g = mlx_closure_new();
    mlx_closure of_sine = mlx_closure_new_func(sine), first = mlx_closure_new_func(takes_first);
    mlx_closure_custom_vmap rule = mlx_closure_custom_vmap_new_func(sine_rule);
    ruled.h = mlx_closure_new();
    ruled.first = mlx_closure_new();
    OK(mlx_checkpoint(&ruled.first, first));
    OK(mlx_custom_function(&ruled.h, of_sine, mlx_closure_custom_new(), mlx_closure_custom_jvp_new(), rule));
    OK(mlx_vmap(&g, f, (int[]){ -1, 0 }, 2, NULL, 0));
    for (ruled.way = 0; ruled.way < WAYS; ruled.way++) {
        static const char *const expected[] = {
            "[[0.841471, 0.909297],\n       [0.841471, 0.909297]], dtype=float32",
            "[[0.841471, 0.909297],\n       [0.841471, 0.909297]], dtype=float32",
            "[0.909297, 0.909297], dtype=float32",
            "[[0.745624, 0.789072],\n       [0.745624, 0.789072]], dtype=float32",
            "[[0.841471, 0.909297],\n       [0.14112, -0.756802]], dtype=float32",
        };
        asked = 0;
        OK(mlx_closure_apply(&out, g, in));
        OK(mlx_vector_array_get(&r, out, 0));
        expect_array(r, expected[ruled.way]);
        assert_int_equal(asked, ruled.way == OF_Y);
    }
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(r);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_closure_free(of_sine);
    mlx_closure_free(first);
    mlx_closure_free(ruled.h);
    mlx_closure_free(ruled.first);
    mlx_closure_custom_vmap_free(rule);
}

static void replaced_by_what_was_traced(void **state)
{
    (void)state;
    const float rows[] = { 1, 2, 3, 4 };
    mlx_array x = mlx_array_new_data(rows, (int[]){ 2, 2 }, 2, MLX_FLOAT32), other = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(x), s_in = { NULL }, s_out = { NULL }, y = { NULL };
    mlx_closure f = mlx_closure_new_func(sine);
    const int zero = 0, one = 1;
    OK(mlx_detail_vmap_trace(&s_in, &s_out, f, in, &zero, 1));
    OK(mlx_detail_vmap_replace(&y, in, s_in, s_out, &one, 1, &zero, 1));
    for (int way = 0; way < 3; way++) {
        if (way == 0)
            OK(mlx_astype(&other, x, MLX_FLOAT16, cpu()));
        else if (way == 1)
            OK(mlx_reshape(&other, x, (int[]){ 1, 4 }, 2, cpu()));
        else
            OK(mlx_reshape(&other, x, (int[]){ 2, 2, 1 }, 3, cpu()));
        OK(mlx_vector_array_set_value(&in, other));
        FAILS(mlx_detail_vmap_replace(&y, in, s_in, s_out, &zero, 1, &zero, 1), "expected input 0 as it was traced");
    }
    mlx_array_free(x);
    mlx_array_free(other);
    mlx_vector_array_free(in);
    mlx_vector_array_free(s_in);
    mlx_vector_array_free(s_out);
    mlx_vector_array_free(y);
    mlx_closure_free(f);
}

/* One function around the other, more of them than a stack has room for. */
static int one_more(mlx_closure *f, int way)
{
    static const int zero = 0;
    switch (way) {
    case 0: return mlx_compile(f, *f, false);
    case 1: return mlx_checkpoint(f, *f);
    case 2: return mlx_jacrev(f, *f, &zero, 1);
    default:
        return mlx_custom_function(f, *f, (mlx_closure_custom){ NULL }, (mlx_closure_custom_jvp){ NULL },
                                   (mlx_closure_custom_vmap){ NULL });
    }
}

static int sine_of_one(mlx_array *res, const mlx_array x) { return mlx_sin(res, x, cpu()); }

static void *nests(void *unused)
{
    (void)unused;
    mlx_array x = mlx_array_new_float(1);
    mlx_vector_array in = mlx_vector_array_new_value(x), y = mlx_vector_array_new();
    for (int way = 0; way < 4; way++) {
        mlx_closure f = mlx_closure_new_unary(sine_of_one);
        for (int i = 0; i < 100000; i++)
            if (one_more(&f, way))
                fail_msg("could not nest %d functions", i);
        mlx_vector_array_free(y);
        y = mlx_vector_array_new();
        if (way % 2 == 0) /* the others are calls in place of calls */
            FAILS(mlx_closure_apply(&y, f, in), "[closure] expected functions inside functions that the stack of");
        else if (mlx_closure_apply(&y, f, in))
            expect_heard(1, "[closure] expected functions inside functions that the stack of");
        mlx_closure_free(f);
    }
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_array_free(x);
    return NULL;
}

static int applies_itself(mlx_vector_array *res, const mlx_vector_array in, void *self)
{
    return mlx_closure_apply(res, *(mlx_closure *)self, in);
}

static void *endless(void *unused)
{
    (void)unused;
    mlx_array x = mlx_array_new_float(1);
    mlx_vector_array in = mlx_vector_array_new_value(x), y = mlx_vector_array_new();
    mlx_closure f = mlx_closure_new_func_payload(applies_itself, &f, NULL);
    FAILS(mlx_closure_apply(&y, f, in), "[closure_apply] expected functions inside functions that the stack of");
    mlx_closure_free(f);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_array_free(x);
    return NULL;
}

static void deep(void **state)
{
    (void)state;
    pthread_attr_t small;
    pthread_attr_init(&small);
#ifdef __SANITIZE_THREAD__ /* it has some of a stack for itself, and dies of more than 65,536 calls inside calls */
    enum { STACK = 2 << 20, MAIN = 0 };
#else
    enum { STACK = 512 << 10, MAIN = 1 };
#endif
    assert_int_equal(pthread_attr_setstacksize(&small, STACK), 0);
    void *(*const both[])(void *) = { nests, endless };
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        if (MAIN)
            both[i](NULL);
        assert_int_equal(pthread_create(&thread, &small, both[i], NULL), 0);
        pthread_join(thread, NULL);
    }
    pthread_attr_destroy(&small);
}

static mlx_array kept; /* of a trace that is over */
static bool others;
static void puts_another(void *data)
{
    free(data);
    if (others)
        OK(mlx_array_set_float(&kept, 5));
}

static int keeps_a_part(mlx_vector_array *res, const mlx_vector_array in)
{
    static const int shape[] = { 2 };
    float *data = calloc(2, sizeof *data);
    mlx_array c = mlx_array_new_data_managed_payload(data, shape, 1, MLX_FLOAT32, data, puts_another);
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    mlx_stream s = cpu();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_multiply(&y, x, c, s) || mlx_array_set(&kept, y) ||
                 mlx_array_eval(kept) || mlx_sum(&y, y, false, s) || mlx_vector_array_append_value(*res, y);
    mlx_array_free(c);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_stream_free(s);
    return failed;
}

/* What an array was made of goes when it is evaluated, once nobody traces it; the program may then put something else
 * into its handle. */
static void handles_set_while_they_are_evaluated(void **state)
{
    (void)state;
    const float v[] = { 3 };
    const int first = 0;
    mlx_vector_array in = vector_of(1, v), out = { NULL }, grads = { NULL };
    mlx_closure f = mlx_closure_new_func(keeps_a_part);
    mlx_closure_value_and_grad vg = mlx_closure_value_and_grad_new();
    kept = mlx_array_new();
    OK(mlx_value_and_grad(&vg, f, &first, 1));
    OK(mlx_closure_value_and_grad_apply(&out, &grads, vg, in));
    mlx_vector_array_free(out);
    mlx_vector_array_free(grads);
    others = true;
    OK(mlx_array_eval(kept));
    others = false;
    assert_true(value_of(kept) == 5);
    mlx_array_free(kept);
    mlx_closure_value_and_grad_free(vg);
    mlx_closure_free(f);
    mlx_vector_array_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_may_free_results),
        cmocka_unit_test(functions_may_let_go_of_themselves),
        cmocka_unit_test(plain),
        cmocka_unit_test(payloads),
        cmocka_unit_test(failing),
        cmocka_unit_test(kwargs),
        cmocka_unit_test(value_and_grad),
        cmocka_unit_test(vjp_and_jvp),
        cmocka_unit_test(directions_of_another_kind),
        cmocka_unit_test(custom_function),
        cmocka_unit_test(checkpoint_and_derivatives_at_a_point),
        cmocka_unit_test(checkpoint_without_results),
        cmocka_unit_test(custom_vjp),
        cmocka_unit_test(rules),
        cmocka_unit_test(evaluation),
        cmocka_unit_test(take_turns),
        cmocka_unit_test(rules_not_asked),
        cmocka_unit_test(replaced_by_what_was_traced),
        cmocka_unit_test(deep),
        cmocka_unit_test(handles_set_while_they_are_evaluated),
    };
    return cmocka_run_group_tests_name("C API: closures", tests, start_listening, all_gone);
}
