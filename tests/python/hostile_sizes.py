"""Calls every function and method of mlx.core that has an example with numbers at the ends of what an int holds, and
with empty arrays whose other axes are as long as they may be; then the same under grad and vmap.

    python hostile_sizes.py LOG PART PARTS [NAME...]

makes every PARTS-th call.  Any result and any exception but SystemError will do.  LOG has the last call: that which
ended the process, if one did."""

import ast
import doctest
import itertools
import os
import pathlib
import resource
import signal
import sys
import types

import mlx.core as mx
import numpy as np

MODULES = {"": mx, "random.": mx.random, "fast.": mx.fast, "fft.": mx.fft, "linalg.": mx.linalg}
LEFT_OUT = {"set_memory_limit", "set_default_device", "array.tolist"}
MOST = 2**31 - 1
INTS = [-(2**63), -(2**31) - 1, -(2**31), -MOST, MOST - 1, MOST, 2**31, 2**32, 2**63 - 1, 2**64]
EMPTY = [
    (0, MOST),
    (MOST, 0),
    (0, MOST, 1 << 12),
    (MOST, 0, 1 << 12),
    (MOST, 1 << 12, 0),
    (0, 0),
    (0,),
    (0, MOST, 9, 3),
]
DEEP = [(1,) * 64, (1,) * 61 + (2, 2, 2)]
LONG = [(MOST,), (MOST, 3), (3, MOST), (2, MOST, 5), (1 << 16, 1 << 16)]
INDICES = [(mx.int64, -(2**63)), (mx.int64, 2**63 - 1), (mx.int32, -(2**31)), (mx.int32, MOST), (mx.uint64, 2**64 - 1)]
INDICES += [(mx.uint32, 2**32 - 1), (mx.int8, -128), (mx.int64, 2**32)]
FLOATS = [float("nan"), float("-inf"), 3e38, 1e-45]
WAYS = ["itself", "its gradient", "a batch"]
EVALUATED = 1 << 14  # elements: what is larger stays lazy


def parameters():
    """By name of a function or method: parameters with what the stubs say they take, in order."""
    folder = pathlib.Path(mx.__file__).parent / "core"
    found = {}

    def add(name, f):
        a = f.args
        every = a.posonlyargs + a.args
        order = [(p.arg, i >= len(every)) for i, p in enumerate(every + a.kwonlyargs)]
        for p, keyword in zip(every + a.kwonlyargs, order):
            taken = found.setdefault(name, {}).setdefault(keyword, set())
            if p.annotation:
                taken.add(ast.unparse(p.annotation))

    for prefix in MODULES:
        tree = ast.parse((folder / f"{prefix[:-1] or '__init__'}.pyi").read_text())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                add(prefix + node.name, node)
            elif isinstance(node, ast.ClassDef) and node.name == "array":
                for method in node.body:
                    if isinstance(method, ast.FunctionDef):
                        add("array." + method.name, method)
    return found


def by_syntax():
    """Function, arguments and keywords of what has no name of its own, by the name it has here."""
    x, i = mx.arange(24.0).reshape(4, 6), mx.array([1, 2])
    blocks = mx.ones((4, 4)), mx.ones((4, 4)), 2, mx.ones((2, 2)), mx.ones((2, 2)), mx.ones((2, 2))

    def set_to(x, i, v):
        y = x + 0
        y[i] = v
        return y

    yield "x[i]", lambda x, i: x[i], x, 1
    yield "x[..., i]", lambda x, i: x[..., i], x, 1
    yield "x[None, i]", lambda x, i: x[None, i], x, 1
    yield "x[i, j]", lambda x, i, j: x[i, j], x, 1, 2
    yield "x[i, :j]", lambda x, i, j: x[i, :j], x, i, 2
    yield "x[a:b:c]", lambda x, a, b, c: x[a:b:c], x, 0, 4, 2
    yield "x[a:b:-c]", lambda x, a, b, c: x[a:b:c], x, 3, 0, -2
    yield "x[:, a:b:c]", lambda x, a, b, c: x[:, a:b:c], x, 0, 4, 2
    yield "x[i] = 1", lambda x, i: set_to(x, i, 1), x, 1
    yield "x[a:b:c] = v", lambda x, a, b, c, v: set_to(x, slice(a, b, c), v), x, 0, 4, 2, 7.0
    yield "x.at[i].add", lambda x, i: x.at[i].add(1), x, i
    yield "x.at[a:b:c].add", lambda x, a, b, c: x.at[a:b:c].add(1), x, 0, 4, 2
    yield "x[x > 0]", lambda x: x[x > 0], x
    yield "blocks", mx.block_masked_mm, *blocks
    yield "x + n", lambda x, n: x + n, mx.array([1, 2]), 1
    yield "x << n", lambda x, n: x << n, mx.array([1, 2]), 1
    yield "x // n", lambda x, n: (x // n, x % n, divmod(x, n)), mx.array([-(2**31), 2]), -1
    yield "x ** n", lambda x, n: x**n, mx.array([1, 2]), 1
    yield "arrays of n", lambda n: (mx.array(n), mx.array([n, 0]), mx.array(n, mx.float32)), 1
    yield "istft", lambda x, n, hop, length: mx.fft.istft(x, n, hop, length=length), mx.ones((3, 5)), 4, 2, 6
    yield "window", lambda x, n, hop, length: mx.fft.stft(x, n, hop, length), mx.ones(20), 4, 2, 4
    yield "slice", lambda x, i, a, n: mx.slice(x, i, (0, 1), (a, n)), x, i, 2, 2


def documented():
    for prefix, module in MODULES.items():
        for name in sorted(vars(module)):
            f = vars(module)[name]
            if not name.startswith("_") and callable(f) and not isinstance(f, type):
                yield prefix + name, f.__doc__
    for name, f in sorted(vars(mx.array).items()):
        if isinstance(f, types.MethodDescriptorType):
            yield "array." + name, f.__doc__


def samples(name, doc):
    """Function, arguments and keywords of each call of it in its example."""
    given, method = {"mx": mx, "np": np}, name.startswith("array.")

    def value(node):
        return eval(ast.unparse(node), given)

    for example in doctest.DocTestParser().get_examples(doc or ""):
        for node in ast.walk(ast.parse(example.source)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called = ast.unparse(node.func)
            if called != f"mx.{name}" and not (method and node.func.attr == name[6:]):
                continue
            try:
                f = getattr(mx.array, node.func.attr) if method else value(node.func)
                args = [value(node.func.value)] * method
                for a in node.args:
                    args.extend(value(a.value) if isinstance(a, ast.Starred) else [value(a)])
                yield f, args, {k.arg: value(k.value) for k in node.keywords}
            except Exception:
                continue  # within a function, or of what is not there yet
        try:
            exec(example.source, given)
        except Exception:
            break


def wrong_numbers(now):
    """In place of a number or of a sequence of them."""
    yield from INTS
    if isinstance(now, (list, tuple)) and now and all(isinstance(v, int) for v in now):
        for i in range(len(now)):
            for h in INTS:
                yield type(now)(h if i == k else v for k, v in enumerate(now))
    else:
        for h in INTS:
            yield (h,)
            yield (h, h)


def wrong_arrays(now):
    for shape in EMPTY + DEEP:
        yield mx.zeros(shape, now.dtype)
    for shape in LONG:
        yield mx.broadcast_to(mx.zeros((), now.dtype), shape)


def wrong_values(now):
    if mx.issubdtype(now.dtype, mx.integer):
        for t, v in INDICES:
            yield mx.full(now.shape, v, t)
    elif mx.issubdtype(now.dtype, mx.floating):
        for v in FLOATS:
            yield mx.full(now.shape, v, now.dtype)


def arrays_of(v):
    """The arrays of an argument: itself, or the items of a list of them."""
    v = v if isinstance(v, (list, tuple)) else [v]
    return v if all(isinstance(a, mx.array) for a in v) else []


def like(v, w):
    return [w] * len(v) if isinstance(v, (list, tuple)) else w


def variants(args, kw, signature):
    """Arguments and keywords, with some of them replaced."""
    names = list(signature)
    given = {p: a for (p, keyword), a in zip(names, args) if not keyword} | kw
    rest = len(given) == len(args) + len(kw)  # else there are more than have a name

    def call(new):
        in_place = [new.pop(p) for p, keyword in names[: len(args)] if not keyword]
        while rest and len(in_place) < len(names) and not names[len(in_place)][1] and names[len(in_place)][0] in new:
            in_place.append(new.pop(names[len(in_place)][0]))
        return in_place, new

    arrays = {p: v for p, v in given.items() if arrays_of(v)}
    numbers = []
    for key in names:
        p = key[0]
        if p not in arrays and ("int" in (kind := " ".join(signature[key])) or "scalar" in kind):
            numbers.append(p)
    if not rest:
        for i in range(len(given) - len(kw), len(args)):
            for w in (wrong_arrays if isinstance(args[i], mx.array) else wrong_numbers)(args[i]):
                yield [*args[:i], w, *args[i + 1 :]], kw
        return
    for p, v in arrays.items():
        for w in wrong_values(arrays_of(v)[0]):
            yield call({**given, p: like(v, w)})
        for w in wrong_arrays(arrays_of(v)[0]):
            yield call({**given, p: like(v, w)})
            for axis in range(w.ndim) if "axis" in numbers else ():
                yield call({**given, p: like(v, w), "axis": axis})
    if len(arrays) > 1:  # all alike, or fit to be multiplied
        for i, _ in enumerate(EMPTY + DEEP + LONG):
            new = {p: list(wrong_arrays(arrays_of(v)[0]))[i] for p, v in arrays.items()}
            yield call({**given, **{p: like(v, new[p]) for p, v in arrays.items()}})
            turned = {p: w.swapaxes(-1, -2) if k and w.ndim > 1 else w for k, (p, w) in enumerate(new.items())}
            yield call({**given, **{p: like(v, turned[p]) for p, v in arrays.items()}})
    for p in numbers:
        for w in wrong_numbers(given.get(p)):
            yield call({**given, p: w})
        for q in numbers[: numbers.index(p)]:
            for one, other in itertools.product((-(2**31), MOST), repeat=2):
                yield call({**given, p: one, q: other})


def huge(x):
    return any(a.size > EVALUATED for a in arrays_of(x))


def small(x):
    if isinstance(x, mx.array):
        return x.size <= EVALUATED
    if isinstance(x, dict):
        return all(small(v) for v in x.values())
    return not isinstance(x, (list, tuple)) or len(x) <= 100 and all(small(v) for v in x)


def shown(a):
    return (
        f"zeros({a.shape})" if isinstance(a, mx.array) and (huge(a) or not a.size) else " ".join(repr(a)[:200].split())
    )


def float_places(args):
    return [i for i, a in enumerate(args) if isinstance(a, mx.array) and mx.issubdtype(a.dtype, mx.inexact)][:1]


def ways(f, args, kw):
    """The call, and what is computed of it."""
    yield lambda: f(*args, **kw)
    for i in float_places(args):

        def of_one(x, i=i):
            return f(*args[:i], x, *args[i + 1 :], **kw)

        def total(x):
            y = of_one(x)
            y = y[0] if isinstance(y, (list, tuple)) else y
            return mx.real(y).astype(mx.float32).sum() if y.size <= EVALUATED else mx.array(0.0)

        yield lambda i=i: mx.grad(total)(args[i])
        yield lambda i=i: mx.vmap(of_one)(mx.stack([args[i]] * 2))


def calls(only):
    """Name, function, arguments and keywords of every call to make."""
    signatures = parameters()
    for name, doc in documented():
        if name in signatures and name not in LEFT_OUT and (not only or name in only):
            for f, args, kw in samples(name, doc):
                for v_args, v_kw in variants(args, kw, signatures[name]):
                    yield name, f, v_args, v_kw
    for name, f, *args in by_syntax():
        if not only or name in only:
            for v_args, _ in variants(args, {}, {(f"p{i}", False): {"int"} for i in range(len(args))}):
                yield name, f, v_args, {}


def limit_memory():
    """To a gigabyte more than is mapped now."""
    mapped = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (1 << 30), resource.RLIM_INFINITY))


def main(log, part, parts, only):
    """Returns how many calls gave a result, and how many an exception."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    limit_memory()
    counts = [0, 0]
    for name, f, args, kw in itertools.islice(calls(only), part, None, parts):
        lazy = any(map(huge, [*args, *kw.values()]))
        for n, way in enumerate(ways(f, args, kw)):
            text = f"{name}({', '.join(map(shown, args))}, **{kw!r}), {WAYS[n]}\n".encode()
            os.pwrite(log, text[:4000].ljust(4000), 0)
            signal.alarm(20)
            try:
                y = way()
                if small(y) and not lazy:
                    mx.eval(y)
                counts[0] += 1
            except SystemError:
                raise
            except Exception:
                counts[1] += 1
            signal.alarm(0)
    return counts


if __name__ == "__main__":
    log = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
    print(*main(log, int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
