"""custom_function and checkpoint, alone and under every other transform."""

import gc
import weakref

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.nn.utils import checkpoint

X, Y = mx.array([0.5, -1.0, 2.0]), mx.array([3.0, 0.25, -1.0])


def close(a, b):
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-5, atol=1e-6)


def doubling(*rules):
    """sin(x) * y, whose rules give twice the derivatives, told apart by what they were called with."""

    @mx.custom_function
    def f(x, y):
        return mx.sin(x) * y

    seen = []
    if "vjp" in rules:

        @f.vjp
        def f_vjp(primals, cotangents, outputs):
            seen.append("vjp")
            x, y = primals
            return 2 * cotangents * mx.cos(x) * y, 2 * cotangents * outputs / y

    if "jvp" in rules:

        @f.jvp
        def f_jvp(primals, tangents):
            seen.append("jvp")
            (x, y), (dx, dy) = primals, tangents
            total = mx.zeros_like(x)
            if dx is not None:
                total = total + 2 * dx * mx.cos(x) * y
            return total if dy is None else total + 2 * dy * mx.sin(x)

    if "vmap" in rules:

        @f.vmap
        def f_vmap(inputs, axes):
            seen.append(axes)
            x, y = (mx.moveaxis(a, i, 0) if i is not None else a for a, i in zip(inputs, axes))
            return mx.sin(x) * y, 0

    return f, seen


def total(f):
    return lambda x, y: f(x, y).sum()


RULES = [(), ("vjp",), ("jvp",), ("vmap",), ("vjp", "jvp"), ("vjp", "vmap"), ("jvp", "vmap"), ("vjp", "jvp", "vmap")]


@pytest.mark.parametrize("rules", RULES)
def test_each_rule_stands_for_its_transform_alone(rules):
    f, seen = doubling(*rules)
    close(f(X, Y), mx.sin(X) * Y)
    v, j = 2 if "vjp" in rules else 1, 2 if "jvp" in rules else 1
    gx, gy = mx.grad(total(f), (0, 1))(X, Y)
    close(gx, v * mx.cos(X) * Y)
    close(gy, v * mx.sin(X))
    close(mx.jvp(f, (X, Y), (Y, X))[1][0], j * (mx.cos(X) * Y * Y + mx.sin(X) * X))
    close(mx.jvp(lambda x: f(x, Y), (X,), (Y,))[1][0], j * mx.cos(X) * Y * Y)
    close(mx.vmap(f)(X, Y), mx.sin(X) * Y)
    assert ("vjp" in seen, "jvp" in seen, (0, 0) in seen) == tuple(r in rules for r in ("vjp", "jvp", "vmap"))


@pytest.mark.parametrize("rules", RULES)
def test_rules_survive_vmap(rules):
    f, _ = doubling(*rules)
    v, j = 2 if "vjp" in rules else 1, 2 if "jvp" in rules else 1
    m = mx.stack([X, Y, X + Y])  # mapped along axis 1
    for in_axes in ((0, 1), (1, None), (None, 0)):
        a, b = (m if i is not None else X for i in in_axes)
        mapped = mx.vmap(f, in_axes=in_axes)
        one = [a if in_axes[0] is None else a[k] if in_axes[0] == 0 else a[:, k] for k in range(3)]
        two = [b if in_axes[1] is None else b[k] if in_axes[1] == 0 else b[:, k] for k in range(3)]
        one = [X if in_axes[0] is None else o for o in one]
        two = [X if in_axes[1] is None else o for o in two]
        close(mapped(a, b), mx.stack([mx.sin(o) * t for o, t in zip(one, two)]))
        ga, gb = mx.grad(total(mapped), (0, 1))(a, b)
        wa, wb = ([v * mx.cos(o) * t for o, t in zip(one, two)], [v * mx.sin(o) for o in one])
        close(ga, sum(wa) if in_axes[0] is None else mx.stack(wa, in_axes[0]))
        close(gb, sum(wb) if in_axes[1] is None else mx.stack(wb, in_axes[1]))
        d = mx.jvp(mapped, (a, b), (mx.ones_like(a), mx.ones_like(b)))[1][0]
        close(d, mx.stack([j * (mx.cos(o) * t + mx.sin(o)) for o, t in zip(one, two)]))
        per_sample = mx.vmap(mx.grad(total(f)), in_axes=in_axes)(a, b)
        close(per_sample, mx.stack(wa))


@pytest.mark.parametrize("rules", RULES)
def test_second_derivatives(rules):
    f, _ = doubling(*rules)
    v, j = 2 if "vjp" in rules else 1, 2 if "jvp" in rules else 1
    close(mx.grad(lambda x: mx.grad(total(f))(x, Y).sum())(X), -v * mx.sin(X) * Y)
    close(mx.jvp(lambda x: mx.grad(total(f))(x, Y), (X,), (mx.ones(3),))[1][0], -v * mx.sin(X) * Y)
    close(mx.grad(lambda x: mx.jvp(lambda x: f(x, Y), (x,), (mx.ones(3),))[1][0].sum())(X), -j * mx.sin(X) * Y)


def test_twice_mapped():
    f, seen = doubling("vjp", "jvp", "vmap")
    table = mx.vmap(mx.vmap(f, (None, 0)), (0, None))
    close(table(X, Y), mx.sin(X)[:, None] * Y)
    gx, gy = mx.grad(total(table), (0, 1))(X, Y)
    close(gx, 2 * mx.cos(X) * Y.sum())
    close(gy, mx.full((3,), 2 * mx.sin(X).sum()))


def test_results_that_do_not_depend_on_the_batch():
    @mx.custom_function
    def f(x, w):
        return w * 2

    @f.vjp
    def f_vjp(primals, cotangent, output):
        x, w = primals
        return mx.zeros_like(x), cotangent * x

    close(mx.grad(lambda w: mx.vmap(f, (0, None))(X, w).sum())(mx.array(1.0)), X.sum())


def test_inside_one_another():
    @mx.custom_function
    def inner(x):
        return x * x

    inner.vjp(lambda x, ct, y: ct * 10)

    @mx.custom_function
    def outer(x):
        return inner(x) + x

    close(mx.grad(outer)(mx.array(2.0)), 11)
    outer.vjp(lambda x, ct, y: mx.grad(inner)(x) * ct * 7)
    close(mx.grad(outer)(mx.array(2.0)), 70)
    inner.jvp(lambda x, t: pytest.fail("an inner rule is not asked"))
    outer.jvp(lambda x, t: 5 * t)
    close(mx.jvp(outer, (mx.array(2.0),), (mx.array(1.0),))[1][0], 5)


def test_what_rules_are_given():
    @mx.custom_function
    def f(tree, n, *, scale=None):
        return {"a": tree["x"] * n, "rest": [tree["y"][0] + 1, "text"]}

    seen = {}

    @f.vjp
    def f_vjp(primals, cotangents, outputs, *, scale=None):
        seen["vjp"] = primals, cotangents, outputs, scale
        tree, n = primals
        # another order of keys, and None for what is no array
        return {"y": [cotangents["rest"][0] * 5], "x": cotangents["a"] * n}, None

    @f.jvp
    def f_jvp(primals, tangents):
        seen["jvp"] = primals, tangents
        return {"rest": [None, "text"], "a": tangents[0]["x"] * 9}

    @f.vmap
    def f_vmap(inputs, axes):
        seen["vmap"] = inputs, axes
        tree, n = inputs
        return {"rest": [tree["y"][0] + 1, "text"], "a": tree["x"].T * n}, {"a": -1, "rest": [None, None]}

    tree = {"x": X, "y": (mx.array(4.0),)}

    def loss(tree):
        out = f(tree, 3, scale="s")
        assert out["rest"][1] == "text"
        return out["a"].sum() + out["rest"][0]

    grads = mx.grad(loss)(tree)
    close(grads["x"], mx.full((3,), 3.0))
    close(grads["y"][0], 5)
    (primals, n), cotangents, outputs, scale = seen["vjp"]
    assert n == 3 and scale == "s" and type(primals["y"]) is tuple and cotangents["rest"][1] == "text"
    close(cotangents["a"], mx.ones(3))
    close(outputs["rest"][0], 5)

    out = mx.jvp(lambda x: f({"x": x, "y": tree["y"]}, 3)["a"], (X,), (Y,))
    close(out[1][0], 9 * Y)
    (primals, n), (tangents, nothing) = seen["jvp"]
    assert n == 3 and nothing is None and tangents["y"] == (None,)

    batch = {"x": mx.arange(6.0).reshape(2, 3), "y": (mx.array(1.0),)}
    mapped = mx.vmap(lambda t: f(t, 2), in_axes=({"x": 0, "y": None},), out_axes={"a": 0, "rest": None})(batch)
    close(mapped["a"], 2 * batch["x"])
    close(mapped["rest"][0], 2)
    assert seen["vmap"][1] == ({"x": 0, "y": (None,)}, None)


def test_arrays_known_from_elsewhere_get_no_derivative_through_rules():
    def outer(w):
        f = mx.custom_function(lambda x: x * w)
        f.vjp(lambda x, ct, y: 5 * ct)
        return f(X).sum()

    assert mx.grad(outer)(mx.array(2.0)).item() == 0


def test_a_cotangent_that_is_not_asked_for_may_be_left_out():
    f = mx.custom_function(lambda x, y: x * y)
    f.vjp(lambda primals, ct, out: ct)
    close(mx.grad(lambda x: f(x, Y).sum())(X), mx.ones(3))
    with pytest.raises(ValueError, match="expected 2 arrays from the vjp rule, one for each argument, got 1"):
        mx.grad(lambda x, y: f(x, y).sum(), (0, 1))(X, Y)


def test_exceptions_come_out_unchanged():
    class Mine(Exception):
        pass

    def raises(*args):
        raise Mine("here")

    def use(name, transform):
        f = mx.custom_function(lambda x: x * 2)
        getattr(f, name)(raises)
        with pytest.raises(Mine, match="here"):
            transform(f)

    use("vjp", lambda f: mx.grad(lambda x: f(x).sum())(X))
    use("vjp", lambda f: mx.vmap(mx.grad(f))(X))
    use("vjp", lambda f: mx.grad(lambda x: mx.vmap(f)(x).sum())(X))
    use("jvp", lambda f: mx.jvp(f, (X,), (X,)))
    use("jvp", lambda f: mx.jvp(mx.vmap(f), (X,), (X,)))
    use("vmap", lambda f: mx.vmap(f)(X))
    use("vmap", lambda f: mx.vmap(mx.vmap(f))(X[None]))
    with pytest.raises(Mine):
        mx.grad(mx.checkpoint(raises))(X)
    g = mx.custom_function(raises)
    with pytest.raises(Mine):
        g(X)
    g.vjp(raises)
    with pytest.raises(Mine):
        g(X)


@pytest.mark.parametrize(
    "rule, value, message",
    [
        ("vjp", None, "expected the vjp rule to return cotangents, got None"),
        ("vjp", (X, X), "expected 1 arrays from the vjp rule, one for each argument, got 2"),
        ("vjp", mx.ones(2), r"array 0 from the vjp rule: expected shape \(3,\), got \(2,\)"),
        ("jvp", [], "expected 1 arrays from the jvp rule, one for each result, got 0"),
        ("jvp", mx.ones((3, 1)), r"array 0 from the jvp rule: expected shape \(3,\), got \(3,1\)"),
        ("jvp", None, "expected the jvp rule to return tangents, got None"),
        ("vjp", 1, "expected the vjp rule to return arrays, got int"),
        ("jvp", 1.5, "expected the jvp rule to return arrays, got float"),
        ("vmap", (1, 0), "expected the vmap rule to return arrays, got int"),
        ("vmap", (None, 0), "expected the vmap rule to return arrays, got NoneType"),
        ("vmap", mx.ones((2, 3)), "a tuple of the outputs and their axes, got array"),
        ("vmap", (mx.ones((2, 3)), 2), "axis 2"),
        ("vmap", (mx.ones((2, 3)), 1), r"expected shape \(3,\) with a batch of 2, got \(2,3\)"),
        ("vmap", (mx.ones((2, 3)), (0, 1)), "axes"),
        ("vmap", ([], 0), "expected 1 axes from the vmap rule"),
        ("vjp", X * 1j, "array 0 from the vjp rule: expected dtype float32, got complex64"),
        ("jvp", X * 1j, "array 0 from the jvp rule: expected dtype float32, got complex64"),
        ("vmap", (mx.ones((2, 3)) * 1j, 0), "array 0 from the vmap rule: expected dtype float32, got complex64"),
    ],
)
def test_rules_that_return_something_else(rule, value, message):
    f = mx.custom_function(lambda x: x * 2)
    getattr(f, rule)(lambda *args: value)
    with pytest.raises(ValueError, match=message):
        if rule == "vjp":
            mx.grad(lambda x: f(x).sum())(X)
        elif rule == "jvp":
            mx.jvp(f, (X,), (X,))
        else:
            mx.vmap(f)(mx.ones((2, 3)))


@pytest.mark.parametrize("held, given", [(mx.int32, mx.float32), (mx.bool_, mx.float16), (mx.bool_, mx.int8)])
def test_rules_whose_results_would_be_cut(held, given):
    f = mx.custom_function(lambda x: x.astype(held))
    f.jvp(lambda x, t: mx.zeros((3,), given))
    f.vmap(lambda x, axis: (mx.zeros((2, 3), given), 0))
    said = f" rule: expected dtype {str(held)[9:].strip('_')}, got {str(given)[9:]}"
    with pytest.raises(ValueError, match="jvp" + said):
        mx.jvp(f, (X,), (X,))
    with pytest.raises(ValueError, match="vmap" + said):
        mx.vmap(f)(mx.ones((2, 3)))


def test_results_of_rules_become_of_the_dtype_that_holds_them():
    f = mx.custom_function(lambda x: x.astype(mx.float16))
    f.vjp(lambda x, c, y: mx.array([1, 2, 3]))
    f.jvp(lambda x, t: mx.array([True, False, True]))
    f.vmap(lambda x, axis: (mx.ones((2, 3)), 0))
    (d,) = mx.vjp(f, (X,), (X,))[1]
    (t,) = mx.jvp(f, (X,), (X,))[1]
    assert (d.dtype, d.tolist()) == (mx.float32, [1, 2, 3])
    assert (t.dtype, t.tolist()) == (mx.float16, [1, 0, 1])
    assert mx.vmap(f)(mx.ones((2, 3))).dtype == mx.float16


def test_what_is_not_asked_for_may_be_of_any_dtype():
    f = mx.custom_function(lambda x, i: x[i])
    f.vjp(lambda x, c, y: (c, mx.zeros(x[1].shape)))
    i = mx.array([2, 0, 1])
    assert mx.grad(lambda x: f(x, i).sum())(X).tolist() == [1, 1, 1]


def test_one_of_several_that_is_no_array():
    f = mx.custom_function(lambda x, y: (x * y, x + y))
    f.vjp(lambda x, c, y: (c[0], "none"))
    f.jvp(lambda x, t: (t[0], 1))
    for rule, got, call in (
        ("vjp", "str", lambda: mx.vjp(f, (X, X), (X, X))),
        ("jvp", "int", lambda: mx.jvp(f, (X, X), (X, X))),
    ):
        with pytest.raises(mx.Error, match=f"expected the {rule} rule to return arrays, got {got}"):
            call()


def test_keyword_arguments_have_no_place_in_jvp_and_vmap_rules():
    f = mx.custom_function(lambda x, k=1: x * k)
    f.jvp(lambda x, t, **kwargs: t)
    f.vmap(lambda x, axis, **kwargs: (x, axis))
    close(mx.jvp(lambda x: f(x, k=Y), (X,), (X,))[1][0], X)
    with pytest.raises(ValueError, match="keyword argument varies"):
        mx.jvp(lambda x: f(X, k=x), (X,), (X,))
    with pytest.raises(ValueError, match="keyword argument is mapped"):
        mx.vmap(lambda x: f(x, k=x))(X)


def test_a_rule_that_computes():
    f = mx.custom_function(lambda x: x * 2)
    f.vjp(lambda x, ct, y: ct * float(x.sum().item()))
    close(mx.grad(lambda x: f(x).sum())(X), mx.full((3,), 1.5))


def test_what_is_not_callable_is_refused():
    for make in (mx.custom_function, mx.checkpoint, mx.custom_function(abs).vjp, mx.custom_function(abs).vmap):
        with pytest.raises(TypeError, match="callable"):
            make(3)


def test_rules_go_with_the_function():
    class Big:
        def __call__(self, x, ct, y):
            return ct

    def use():
        big = Big()
        f = mx.custom_function(lambda x: x * 2)
        f.vjp(big)
        mx.eval(mx.grad(lambda x: f(x).sum())(X))
        return weakref.ref(big)

    ref = use()
    gc.collect()
    mx.eval(mx.array(1.0) + 1)
    assert ref() is None


def test_names():
    def named(x):
        return x

    assert mx.custom_function(named).__name__ == mx.checkpoint(named).__name__ == "named"
    assert mx.checkpoint(named).__wrapped__ is named


# checkpoint


def layer(x, w):
    for _ in range(4):
        x = mx.tanh(x * w) + mx.sin(x) * x
    return x


@pytest.mark.parametrize("wrap", [lambda f: f, mx.checkpoint, lambda f: mx.checkpoint(mx.checkpoint(f))])
def test_checkpoint_changes_no_derivative(wrap):
    w, m = mx.array(0.7), mx.stack([X, Y])

    def derivatives(g):
        def loss(x, w):
            return g(g(x, w), w).sum()

        def grad(x):
            return mx.grad(loss)(x, w)

        yield g(X, w)
        yield mx.grad(loss)(X, w)
        yield mx.grad(loss, 1)(X, w)
        yield from mx.grad(loss, (0, 1))(X, w)
        yield mx.grad(lambda x: grad(x).square().sum())(X)
        yield mx.jvp(grad, (X,), (Y,))[1][0]
        yield mx.jvp(g, (X, w), (Y, w))[1][0]
        yield mx.vmap(g, (1, None))(m.T, w)
        yield mx.vmap(grad)(m)
        yield mx.grad(lambda w: mx.vmap(g, (0, None))(m, w).sum())(w)
        yield mx.vmap(lambda x: mx.jvp(grad, (x,), (Y,))[1][0])(m)

    for got, want in zip(derivatives(wrap(layer)), derivatives(layer), strict=True):
        close(got, want)


def test_checkpoint_of_trees_keywords_and_closures():
    def f(p, *, scale, name):
        assert name == "n"
        return {"out": [mx.exp(p["a"]) * scale * W, "text"]}

    W = mx.array(3.0)
    g = mx.checkpoint(f)
    out = g({"a": X}, scale=Y, name="n")
    assert out["out"][1] == "text"
    grads = mx.grad(lambda p, scale: g(p, scale=scale, name="n")["out"][0].sum(), (0, 1))({"a": X}, Y)
    close(grads[0]["a"], mx.exp(X) * Y * 3)
    close(grads[1], mx.exp(X) * 3)

    def outer(w):
        return mx.checkpoint(lambda x: mx.sin(x) * (w * w))(X).sum()

    close(mx.grad(outer)(mx.array(2.0)), 4 * mx.sin(X).sum())
    close(mx.grad(lambda w: mx.checkpoint(lambda: mx.sin(w))())(mx.array(2.0)), mx.cos(mx.array(2.0)))


def test_checkpoint_is_called_once_and_draws_once():
    calls = []

    def f(x):
        calls.append(1)
        return x * mx.random.uniform(shape=x.shape)

    mx.random.seed(3)
    value, grad = mx.value_and_grad(lambda x: mx.checkpoint(f)(x).sum())(X)
    assert len(calls) == 1
    close((grad * X).sum(), value)


def test_checkpoint_of_a_function_that_looks_at_values():
    def f(x):
        return mx.sin(x) if x.sum().item() > 0 else mx.cos(x)

    close(mx.grad(lambda x: mx.checkpoint(f)(x).sum())(X), mx.cos(X))
    close(mx.grad(lambda x: mx.checkpoint(f)(x).sum())(-X), mx.sin(X))


def peak(f, x):
    mx.eval(x)
    mx.synchronize()
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(mx.grad(lambda x: f(x).sum())(x))
    return (mx.get_peak_memory() - before) / x.nbytes


def test_checkpoint_keeps_less():
    def deep(one):
        def f(x):
            for _ in range(8):
                x = one(x)
            return x

        return f

    def one(x):
        for _ in range(8):
            x = mx.sin(mx.exp(-x * x)) + x
        return x

    x = mx.random.normal((1 << 16,))
    plain, less = peak(deep(one), x), peak(deep(mx.checkpoint(one)), x)
    assert less < plain / 3, (plain, less)


@pytest.mark.parametrize("compiled", [False, True])
def test_checkpoint_keeps_less_of_steps_of_training(compiled):
    """Gradients of all layers, asked for from the first layer on."""

    def peak_of(wrap):
        def one(x, w):
            for _ in range(6):
                x = mx.sin(x @ w)
            return x

        def step(ws):
            def loss(ws):
                y = x
                for w in ws:
                    y = wrap(one)(y, w)
                return y.square().mean()

            return [w - 0.1 * g for w, g in zip(ws, mx.grad(loss)(ws))]

        ws = [mx.random.normal((32, 32)) for _ in range(12)]
        step = mx.compile(step) if compiled else step
        mx.eval(ws, step(ws))
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        mx.eval(step(ws))
        return (mx.get_peak_memory() - before) / x.nbytes

    x = mx.random.normal((2048, 32))
    mx.eval(x)
    plain, less = peak_of(lambda f: f), peak_of(mx.checkpoint)
    assert less < plain / 3, (plain, less)


def test_what_shares_nothing_is_made_in_its_order():
    """Results of an item that needs more than those of the next one do not keep what all items make."""
    all = []
    for i in range(24):
        h = mx.sort(mx.full((100_000,), float(i)))
        deep = h
        for _ in range(70):
            deep = mx.sort(deep)
        all += [mx.sum(h), mx.sum(deep), mx.max(h)]
    nbytes = h.nbytes
    del h, deep
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(all)
    assert [x.item() for x in all[::3]] == [100_000.0 * i for i in range(24)]
    assert mx.get_peak_memory() - before < 8 * nbytes


def test_checkpoint_of_a_module():
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    x = mx.random.normal((5, 3))
    want = nn.value_and_grad(model, lambda x: model(x).sum())(x)
    before = model.layers[0].weight
    got = nn.value_and_grad(model, lambda x: checkpoint(model)(x).sum())(x)
    assert model.layers[0].weight is before
    close(got[0], want[0])
    for path in (0, 2):
        for name in ("weight", "bias"):
            close(got[1]["layers"][path][name], want[1]["layers"][path][name])
    half = checkpoint(model, lambda x: 0.5 * model(x))
    close(half(x), 0.5 * model(x))
    with pytest.raises(TypeError, match="expected a module that can be called"):
        checkpoint(nn.Module(), 3)


# stop_gradient and depends under every transform


def test_stop_gradient_under_every_transform():
    def f(x):
        return (mx.stop_gradient(mx.sin(x)) * x).sum()

    close(mx.grad(f)(X), mx.sin(X))
    close(mx.jvp(f, (X,), (Y,))[1][0], (mx.sin(X) * Y).sum())
    close(mx.grad(lambda x: mx.grad(f)(x).sum())(X), mx.zeros(3))
    close(mx.jvp(mx.grad(f), (X,), (Y,))[1][0], mx.zeros(3))
    close(mx.vmap(f)(mx.stack([X, Y])), mx.stack([f(X), f(Y)]))
    close(mx.vmap(mx.grad(f))(mx.stack([X, Y])), mx.stack([mx.sin(X), mx.sin(Y)]))
    close(mx.grad(lambda m: mx.vmap(f, 1)(m).sum())(mx.stack([X, Y], 1)), mx.stack([mx.sin(X), mx.sin(Y)], 1))
    close(mx.grad(mx.checkpoint(f))(X), mx.sin(X))


def test_depends_under_every_transform():
    def f(x):
        a, b = mx.depends([x * x, 2 * x], [mx.exp(x)])
        return (a * b).sum()

    want = 6 * X * X
    close(mx.grad(f)(X), want)
    close(mx.jvp(f, (X,), (Y,))[1][0], (want * Y).sum())
    close(mx.grad(lambda x: mx.grad(f)(x).sum())(X), 12 * X)
    close(mx.jvp(mx.grad(f), (X,), (Y,))[1][0], 12 * X * Y)
    close(mx.vmap(f)(mx.stack([X, Y])), mx.stack([f(X), f(Y)]))
    close(mx.vmap(mx.grad(f), 1, 1)(mx.stack([X, Y], 1)), mx.stack([want, 6 * Y * Y], 1))
    close(mx.grad(lambda m: mx.vmap(f)(m).sum())(mx.stack([X, Y])), mx.stack([want, 6 * Y * Y]))
    close(mx.vmap(lambda x: mx.depends(Y, x), out_axes=0)(X), mx.stack([Y, Y, Y]))
    close(mx.grad(mx.checkpoint(f))(X), want)


def test_what_integers_are_given_back_does_not_matter():
    x = mx.array([1.0, 3.0])
    zero = mx.zeros(())
    assert mx.vjp(lambda v: (2 * v, mx.argmax(v)), [x], [mx.ones(2), zero])[1][0].tolist() == [2, 2]
    f = mx.custom_function(lambda v, i: v * i)
    f.vjp(lambda primals, c, _: (c * primals[1], mx.zeros(2)))
    assert mx.grad(lambda v: f(v, mx.floor(v).astype(mx.int32)).sum())(x).tolist() == [1, 3]
