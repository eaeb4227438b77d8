"""vmap beside loops, and what derivatives cost beside the functions."""

import mlx.core as mx
from timing import best, row

xs, ys = mx.random.uniform(shape=(4096, 100)), mx.random.uniform(shape=(100, 4096))
vmap_add = mx.vmap(lambda x, y: x + y, in_axes=(1, 0))


def naive_add():
    return [xs[:, i] + ys[i] for i in range(xs.shape[1])]


t = best({"ours": lambda: mx.eval(vmap_add(xs, ys)), "a loop": lambda: mx.eval(naive_add())}, turn=10)
row("vmap of x + y, (4096, 100)", t.pop("ours"), t, goal="goal: more than 10x")

w, batch = mx.random.normal((64, 64)), mx.random.normal((500, 64))
grad = mx.grad(lambda w, x: mx.tanh(w @ x).square().sum())
each = mx.vmap(grad, in_axes=(None, 0))
t = best(
    {
        "ours": lambda: mx.eval(each(w, batch)),
        "a loop": lambda: mx.eval([grad(w, batch[i]) for i in range(batch.shape[0])]),
    }
)
row("gradients of 500 samples by vmap", t.pop("ours"), t)


def f(x):
    for _ in range(4):
        x = mx.tanh(w @ x)
    return x


x = batch[0]
t = best(
    {
        "ours": lambda: mx.eval(mx.jacrev(f)(x)),
        "row by row": lambda: mx.eval([mx.vjp(f, [x], [e])[1][0] for e in mx.eye(64)]),
        "jacfwd": lambda: mx.eval(mx.jacfwd(f)(x)),
    },
    turn=10,
)
row("Jacobian of 4 layers of 64", t.pop("ours"), t)


def deep(layer, x):
    def g(x):
        for _ in range(8):
            x = layer(x)
        return x.sum()

    return lambda: mx.eval(mx.grad(g)(x))


def layer(x):
    for _ in range(8):
        x = mx.sin(mx.exp(-x * x)) + x
    return x


def peak(f, x):
    mx.synchronize()
    mx.clear_cache()
    mx.reset_peak_memory()
    f()
    return mx.get_peak_memory() / x.nbytes


x = mx.random.normal((1 << 18,))
mx.eval(x)
plain, less = deep(layer, x), deep(mx.checkpoint(layer), x)
t = best({"ours": less, "without": plain})
row("gradient with checkpoint", t.pop("ours"), t)
print(f"{'  peak memory, in arguments':<34} {peak(less, x):.1f}   without {peak(plain, x):.1f}")
