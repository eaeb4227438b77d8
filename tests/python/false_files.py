"""Files that are valid in form and lie in meaning.

Exported functions and gguf files are taken apart into trees of fields, some fields get other values, and the
tree is written again, every length as it must be.  `python false_files.py FOLDER SEED COUNT` does that COUNT
times with the files of a folder, and imports, calls and evaluates what comes out: an error or numbers, never a
crash, a hang or memory that nobody wrote.  FOLDER/case is the file in hand.  `python false_files.py FOLDER`
gives every argument of every operation that is written by its arguments each of the EXTREMES instead.
"""

import contextlib
import math
import os
import pathlib
import pickle
import random
import re
import signal
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r'^P\((\w+),\s*-?\d+,\s*-?\d+,\s*"(\w*)"', re.M)
PRIMITIVES = dict(ROW.findall((ROOT / "src/mlxfn/primitives.def").read_text()))  # their states
TYPES = [
    "bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32",
    "float64", "bfloat16", "complex64",
]  # fmt: skip
SIZES = [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8]

# Bytes


class Bytes:
    """Reads the fields of `data`, or without data writes those it is given: one description serves both ways."""

    def __init__(self, data=None):
        self.data, self.at, self.out, self.known = data, 0, bytearray(), set()

    def number(self, code, v=None):
        form = struct.Struct("<" + code)
        if self.data is None:
            if code not in "fd":
                bits = 8 * form.size
                v = v % (1 << bits)
                v -= v >> bits - 1 << bits if code.islower() else 0
            self.out += form.pack(v)
        else:
            (v,) = form.unpack_from(self.data, self.at)
            self.at += form.size
        return v

    def raw(self, n, v):
        if self.data is None:
            self.out += v
        else:
            v = self.data[self.at : self.at + n]
            self.at += n
        return v

    def some(self, item, v):
        n = self.number("Q", len(v or ()))
        return [item(self, x) for x in (v if self.data is None else [None] * n)]

    def text(self, v=None):
        return self.raw(self.number("Q", len(v or ())), v)


class Fields:
    """The fields of a record in their order: `self.put(key, codec)` reads or writes one."""

    def __init__(self, f, old):
        self.f, self.old, self.all = f, old or {}, {}

    def put(self, key, codec):
        v = self.all[key] = codec(self.f, self.old.get(key))
        return v


def number(code):
    return lambda f, v: f.number(code, v)


def many(item):
    return lambda f, v: f.some(item, v)


text, i32, u64, flag = Bytes.text, number("i"), number("Q"), number("B")

# Exported functions, of version 0.32.4


def dtype(f, v):
    v = f.number("i", v)
    f.number("B", SIZES[v] if 0 <= v < len(SIZES) else 4)
    return v


def spec(f, v):
    r = Fields(f, v)
    r.put("shape", many(i32))
    r.put("type", dtype)
    return r.all


STATES = {
    "b": flag, "i": i32, "e": i32, "f": number("f"), "d": number("d"), "u": u64, "t": dtype, "s": text,
    "I": many(i32), "H": many(i32), "L": many(number("q")), "U": many(u64), "n": lambda f, v: None,
}  # fmt: skip
# Extensions say of each argument its name and kind; a body is a file of its own.
KINDS = {1: "b", 2: "i", 3: "e", 4: "q", 5: "d", 6: "L", 7: "s", 8: "F", 9: "L"}


def whole(f, v):
    inner = Bytes(text(f, None) if f.data is not None else None)
    v = function(inner, v)
    if f.data is None:
        text(f, inner.out)
    return v


def argument(f, v):
    r = Fields(f, v)
    r.put("name", text)
    kind = KINDS[r.put("kind", flag)]
    r.put(kind, {"q": number("q"), "F": whole}.get(kind) or STATES[kind])
    return r.all


def arguments(f, v):
    """The state of an extension: a text, whose last byte is 0."""
    inner, read = Bytes(text(f, None) if f.data is not None else None), []
    if f.data is None:
        read = [argument(inner, x) for x in v]
        text(f, inner.out + b"\0")
    while f.data is not None and inner.at + 1 < len(inner.data):
        read.append(argument(inner, None))
    return read


def state(f, v, letters):
    return [{k: STATES[k](f, old and old.get(k))} for k, old in zip(letters, v or [None] * len(letters))]


def entry(f, v):
    r = Fields(f, v)
    r.put("id", u64)
    if r.put("primitive", flag):
        r.put("operands", many(u64))
        r.put("stream", lambda f, v: [i32(f, x) for x in v or [None] * 3])
        name = bytes(r.put("name", text)).decode(errors="replace")
        if name.startswith("mlx.c:"):
            r.put("arguments", arguments)
        else:
            r.put("state", lambda f, v: state(f, v, PRIMITIVES[name]))
        several = r.put("several", u64)
        if several:
            r.put("results", many(u64))
            r.put("shapes", many(many(i32)))
            r.put("types", many(dtype))
        else:
            r.put("spec", spec)
    elif r.put("constant", flag) and r.all["id"] not in f.known:
        f.known.add(r.all["id"])
        s = r.put("spec", spec)
        n = max(SIZES[s["type"] % 14] * math.prod(s["shape"]), 0)
        zeros = bytes(n) if f.data is None and n < 1 << 16 else b""
        r.put("data", lambda f, v: f.raw(n, f.data is None and ((v or b"") + zeros)[:n]))
    return r.all


def trace(f, v):
    r = Fields(f, v)
    r.put("keys", many(text))
    r.put("inputs", many(u64))
    r.put("specs", many(spec))
    r.put("outputs", many(u64))
    r.put("tape", many(entry))
    return r.all


def function(f, v):
    r = Fields(f, v)
    r.put("version", text)
    n = f.number("i", len(v["traces"]) if v else 0)
    r.put("shapeless", flag)
    r.put("metadata", text)
    r.all["traces"] = [trace(f, x) for x in (v["traces"] if v else [None] * n)]
    return r.all


# gguf

VALUES = ["B", "b", "H", "h", "I", "i", "f", "B", None, None, "Q", "q", "d"]
BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 20: (32, 18), 24: (1, 1),
    25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2), 39: (32, 17),
}  # fmt: skip


def value(f, v):
    r = Fields(f, v)
    r.put("key", text)
    kind = r.put("kind", number("I"))
    if kind == 9:
        kind = r.put("items", number("I"))
        r.put("list", many(text if kind == 8 else number(VALUES[kind])))
    else:
        r.put("value", text if kind == 8 else number(VALUES[kind]))
    return r.all


def tensor(f, v):
    r = Fields(f, v)
    r.put("name", text)
    n = f.number("I", len(v["shape"]) if v else 0)
    r.put("shape", lambda f, v: [u64(f, x) for x in v or [None] * n])
    r.put("block", number("I"))
    r.put("offset", u64)
    return r.all


def gguf(f, v):
    r = Fields(f, v)
    r.put("magic", lambda f, v: f.raw(4, v))
    r.put("version", number("I"))
    counts = [u64(f, len(v[key]) if v else 0) for key in ("tensors", "values")]
    for key, item, n in (("values", value, counts[1]), ("tensors", tensor, counts[0])):
        r.all[key] = [item(f, x) for x in (v[key] if v else [None] * n)]
    if f.data is None:
        f.out += bytes(-len(f.out) % 4096)
        f.out += v["data"]
    else:
        r.all["data"] = f.data[f.at + -f.at % 32 :]
    return r.all


def lay_out(g, rng):
    """Tensors one after the other, each of the bytes that its sizes ask for, so far as they are not absurd."""
    for v in g["values"]:
        if v["key"] == b"general.alignment":
            v.update(kind=4, value=4096)
    at = 0
    for t in g["tensors"]:
        items, size = BLOCKS.get(t["block"], (1, 1))
        t["offset"] = at
        at += -(-min(math.prod(t["shape"]) * size // items, 1 << 20) // 4096) * 4096
    g["data"] = rng.randbytes(8) * (at // 8 + 1)


def apart(data):
    f = Bytes(data)
    return gguf(f, None) if data[:4] == b"GGUF" else function(f, None)


def together(tree):
    f = Bytes()
    (gguf if "magic" in tree else function)(f, tree)
    return bytes(f.out)


# Lies

NUMBERS = [
    0, 1, -1, -2, -66, 2, 3, 7, 31, 32, 33, 64, 128, 255, 1000,
    2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63),
]  # fmt: skip
REALS = [0.0, -0.0, 1.0, -1.0, 1e-30, 1e38, -1e38, float("inf"), float("nan")]


FIXED = {
    "version", "magic", "metadata", "primitive", "constant", "stream", "several", "kind", "items", "id", "results",
}  # fmt: skip


def spots(tree, kind=""):
    """Every field that may be changed: what holds it, its key there, what it is called."""
    for key, v in list(tree.items()) if isinstance(tree, dict) else enumerate(tree):
        if key in FIXED:
            continue
        called = kind if isinstance(tree, list) else key
        yield tree, key, called
        if isinstance(v, (dict, list)):
            yield from spots(v, called)


def of_kind(tree, kinds):
    return [held[key] for held, key, kind in spots(tree) if kind in kinds and not isinstance(held[key], (dict, list))]


def another(v, kind, tree, rng):
    """Another value for a field."""
    near = [v - 1, v + 1, 2 * v, -v, v // 2] if isinstance(v, int) else []
    if kind in ("operands", "inputs", "outputs"):
        known = [i for t in traces(tree) for i in t["inputs"]] + [i for e in entries(tree) for i in specs_of(e)]
        return rng.choice(known + [12345])
    if kind in ("shape", "shapes"):
        return max(0, rng.choice(near + of_kind(tree, ("shape", "shapes")) + NUMBERS[:16]))
    if kind in ("type", "types", "t"):
        return rng.randrange(14)
    if kind == "block":
        return rng.choice(list(BLOCKS))
    if kind in ("f", "d"):
        return rng.choice(REALS + [v * 2])
    if kind in ("b", "shapeless"):
        return 1 - v
    if kind == "e":
        return rng.choice([*range(6), -1])
    if kind == "offset":
        return rng.choice(near + of_kind(tree, ("offset",)))
    if kind == "name" and bytes(v).decode(errors="replace") in PRIMITIVES:
        same = [k for k, letters in PRIMITIVES.items() if letters == PRIMITIVES[bytes(v).decode()]]
        return rng.choice(same).encode()
    if isinstance(v, (bytes, bytearray)):
        return rng.choice([v[:-1], v + v, v[::-1], rng.randbytes(len(v)), b"\xff" * len(v), b"\0" * len(v)])
    return rng.choice(near + NUMBERS + of_kind(tree, (kind,)))


def rearrange(items, tree, kind, rng):
    """One item more or less, twice or elsewhere."""
    a, b = rng.randrange(len(items) + 1), rng.randrange(len(items) + 1)
    what = rng.randrange(4)
    if what == 0 and items:
        del items[a % len(items)]
    elif what == 1 and items:
        items.insert(a, items[b % len(items)])
    elif items:
        a, b = a % len(items), b % len(items)
        items[a], items[b] = items[b], items[a]
    elif kind in ("operands", "outputs", "shape", "I", "H", "L", "U"):
        items.append(another(1, kind, tree, rng))


def traces(f):
    """Of a function and of the bodies in it."""
    for t in f["traces"]:
        yield t
        for e in t["tape"]:
            for a in e.get("arguments", []):
                if "F" in a:
                    yield from traces(a["F"])


def entries(f):
    return [e for t in traces(f) for e in t["tape"]]


def specs_of(e):
    """Shapes and types of what an entry gives, by id."""
    if "spec" in e:
        return {e["id"]: e["spec"]}
    return {
        i: {"shape": shape, "type": t}
        for i, shape, t in zip(e.get("results", []), e.get("shapes", []), e.get("types", []))
    }


def stranger(tree, rng):
    """Gives an operation a constant for an operand, which is nearly as the operand was."""
    t = rng.choice([t for t in traces(tree) if any(e.get("operands") for e in t["tape"])] or [None])
    if not t:
        return
    named = by(lambda i: bytes(t["tape"][i]["name"]), [i for i, e in enumerate(t["tape"]) if e.get("operands")])
    at = rng.choice(named[rng.choice(list(named))])
    operands = t["tape"][at]["operands"]
    known = dict(zip(t["inputs"], t["specs"]))
    for e in t["tape"][:at]:
        known |= specs_of(e)
    k = rng.randrange(len(operands))
    old = known.get(operands[k], {"shape": [2, 3], "type": 10})
    shape, kind = list(old["shape"]), old["type"]
    for _ in range(rng.choice([1, 1, 2])):
        axis = rng.randrange(len(shape) + 1)
        what = rng.randrange(5)
        if what == 0:
            kind = rng.randrange(14)
        elif what == 1:
            shape.insert(axis, rng.choice([1, 1, 2, 0]))
        elif axis < len(shape) and what == 2:
            del shape[axis]
        elif axis < len(shape):
            n = shape[axis]
            shape[axis] = rng.choice([0, 1, max(n - 1, 0), n + 1, 2 * n, n // 2, 2**31 - 1 if 0 in shape else 0])
    operands[k] = rng.getrandbits(62) | 1
    n = min(math.prod(shape), 1 << 16) * SIZES[kind]
    data = rng.choice([rng.randbytes(n), b"\xff" * n, bytes(n), b"\1\0\0\0\0\0\0\0" * n])
    constant = {"primitive": 0, "constant": 1, "id": operands[k], "spec": {"shape": shape, "type": kind}, "data": data}
    t["tape"].insert(at, constant)


def by(key, items):
    groups = {}
    for x in items:
        groups.setdefault(key(x), []).append(x)
    return groups


def lie(tree, rng):
    """Changes one field, mostly of an entry.  Operations, and fields of one name, are as likely as others, however
    many there are of each."""
    part, way = tree, rng.random()
    if "traces" in tree and way < 0.4:
        stranger(tree, rng)
        return
    if "traces" in tree and way < 0.8:
        named = by(lambda e: bytes(e.get("name", b"")), entries(tree))
        part = rng.choice(named[rng.choice(list(named))]) if named else tree
    fields = by(lambda spot: spot[2], spots(part))
    held, key, kind = rng.choice(fields[rng.choice(list(fields))])
    v = held[key]
    if isinstance(v, list):
        rearrange(v, tree, kind, rng)
    elif kind == "F" and rng.random() < 0.5:  # a body that is the whole
        held[key] = apart(together(tree))
    elif not isinstance(v, dict) and v is not None:
        held[key] = another(v, kind, tree, rng)


def lie_better(tree, found):
    """Declares the shape that was asked for, where a lie was found out by another one; is there such a place?"""
    match = re.search(r"(\S+): the file declares the shape (\S+), and the operands give (\S+)$", found)
    changed = False
    if match and "traces" in tree:
        name, *shapes = match.groups()
        declared, given = ([int(x) for x in re.findall(r"\d+", shape)] for shape in shapes)
        for e in entries(tree):
            for s in specs_of(e).values() if bytes(e.get("name", b"")).decode(errors="replace") == name else []:
                if s["shape"] == declared:
                    s["shape"][:], changed = given, True
    return changed


# What is done with them

MOST = 1 << 20  # elements that are worth computing


def work(f):
    """About how many elements a function computes, where that is known: a loop may go on for ever."""
    n = 0
    for t in f["traces"]:
        for e in t["tape"]:
            n += sum(math.prod(s["shape"]) for s in specs_of(e).values())
            told = {bytes(a["name"]): a for a in e.get("arguments", [])}
            inner = sum(work(a["F"]) for a in told.values() if "F" in a)
            if b"test" in told:
                return MOST
            n += inner * (max(told[b"length"]["i"], 1) if b"length" in told else 1)
    return n


def spoil(mx, byte):
    """Fills the memory that the allocator will hand out next."""
    for k in range(4, 17):
        for quarters in range(4, 8):
            mx.eval(mx.full((quarters << k - 2,), byte, mx.uint8))


def bits(mx, np, y):
    """Which NaN is left open: the second time, when kernels run as groups, it may be another operand's."""
    y = [mx.where(a == a, a, mx.array(np.nan, a.dtype)) if mx.issubdtype(a.dtype, mx.floating) else a for a in y]
    mx.eval(y)
    return [np.array(mx.view(mx.flatten(a), mx.uint8)).tobytes() for a in y]


def inputs_of(trace, more, mx, np, rng):
    """Arrays that the trace takes, `more` larger along each axis; None: they would be too large."""
    inputs = []
    for s in trace["specs"]:
        shape = [x + more for x in s["shape"]]
        if math.prod(shape) > MOST:
            return None
        x = np.resize(rng.choice([[0, 1], [3, -1, 2**31], [np.inf, np.nan, 1], [0.5, 2, -3]]), math.prod(shape))
        inputs.append(mx.array(x.astype(np.float32)).reshape(shape).astype(getattr(mx, TYPES[s["type"]])))
    return inputs


def use_function(path, tree, mx, np, rng):
    mx.inspect_function(path)
    f = mx.import_function(path)
    for t in tree["traces"]:
        for more in (0, 1) if tree["shapeless"] else (0,):
            inputs = inputs_of(t, more, mx, np, rng)
            if inputs is None:
                continue
            n = len(inputs) - len(t["keys"])
            keys = dict(zip([bytes(k).decode() for k in t["keys"]], inputs[n:]))
            y = f(*inputs[:n], **keys)
            if work(tree) >= MOST:
                continue
            first = bits(mx, np, y)
            for byte in (0xFF, 0x3C):
                spoil(mx, byte)
                assert bits(mx, np, f(*inputs[:n], **keys)) == first, "memory that nobody wrote"
            if rng.random() < 0.2:
                again = path + ".again"
                mx.export_function(again, f, *inputs[:n], portable=False, **keys)
                mx.import_function(again)
            if rng.random() < 0.2 and not keys and inputs:
                mx.eval(mx.vmap(f)(*[mx.stack([x, x]) for x in inputs]))
            floats = [i for i, s in enumerate(t["specs"]) if s["type"] in (9, 10, 11, 12)]
            if rng.random() < 0.2 and not keys and floats:
                g = mx.grad(lambda *xs, f=f: sum(mx.abs(y).sum().astype(mx.float32) for y in f(*xs)), tuple(floats))
                mx.eval(g(*inputs))


def use_gguf(path, tree, mx, np, rng):
    for form in ("gguf", "gguf-packed"):
        a, _ = mx.load(path, format=form, return_metadata=True)
        if sum(x.size for x in a.values()) > MOST:
            return
        first = {name: bits(mx, np, [x])[0] for name, x in a.items()}
        spoil(mx, 0x3C)
        for name, x in mx.load(path, format=form).items():
            rows = x[-1:] if x.ndim else x
            mx.eval(rows)
            assert bits(mx, np, [x])[0] == first[name], "memory that nobody wrote"
            scales = a.get(name.removesuffix(".weight") + ".scales")
            if name.endswith(".weight") and x.dtype == mx.uint32 and scales is not None:
                biases = a.get(name.removesuffix(".weight") + ".biases")
                mode = "affine" if biases is not None else "mxfp4"
                how = {"group_size": 32, "bits": rng.choice([4, 8]), "mode": mode}
                with contextlib.suppress(ValueError):  # what belongs together may lie in another tensor
                    mx.eval(mx.dequantize(x, scales, biases, **how))
                    y = mx.ones((2, x.shape[-1] * 32 // how["bits"]))
                    mx.eval(mx.quantized_matmul(y, x, scales, biases, **how))


ERRORS = (ValueError, RuntimeError, IndexError, MemoryError, TypeError)


def use(path, tree, *rest):
    """The lies of an exported function are made to fit where they do not."""
    for _ in range(8):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # which may be in use, mapped
        with open(path, "wb") as f:
            f.write(together(tree))
        try:
            (use_gguf if "magic" in tree else use_function)(path, tree, *rest)
            return True
        except ERRORS as error:
            assert str(error), "an error without a message"
            if not lie_better(tree, str(error)):
                break
    return False


EXTREMES = {
    "i": [-1, 0, 2**31 - 1, -(2**31)],
    "q": [-1, 0, 2**31 - 1, 2**62, -(2**63)],
    "e": [-1, *range(16), 2**31 - 1],
    "d": REALS,
    "b": [0, 1],
}


def arguments_of(trees):
    """Every argument of every operation, and each length below 3 of those that are lists, in the smallest of the trees:
    the tree, the operation, the argument."""
    best = {}
    for tree in sorted(trees, key=lambda tree: len(together(tree))):
        for e in entries(tree):
            for a in e.get("arguments", []):
                key = bytes(e["name"]), bytes(a["name"]), min(len(a.get("L", ())), 2)
                best.setdefault(key, (tree, key[0], a))
    return best.values()


def extremes(a):
    """Gives the argument one value after the other, and what it had at the end."""
    ((kind, v),) = [(k, v) for k, v in a.items() if k not in ("name", "kind")]
    if kind == "L":
        for i, old in enumerate(v):
            for x in EXTREMES["q"]:
                v[i] = x
                yield
            v[i] = old
        for other in (v[:-1], v + v[-1:], v + [0], [0] * 70):
            a["L"] = other
            yield
    for x in EXTREMES.get(kind, ()):
        a[kind] = x
        yield
    a[kind] = v


def every(folder):
    import mlx.core as mx
    import numpy as np

    trees = [apart(path.read_bytes()) for path in sorted(pathlib.Path(folder).glob("*.file"))]
    path, made, good, names = os.path.join(folder, "case"), 0, 0, set()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends a hang
    mx.set_cache_limit(1 << 24)
    mx.set_memory_limit(1 << 32)  # on any machine: what is larger takes too long to fill
    for tree, name, a in arguments_of(trees):
        names.add(name)
        for _ in extremes(a):
            signal.alarm(60)
            made += 1
            good += use(path, pickle.loads(pickle.dumps(tree)), mx, np, random.Random(made))
    print(f"{made} files, {good} of them good, of {len(names)} operations")


def main(folder, seed, count):
    import mlx.core as mx
    import numpy as np

    files = [path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*.file"))]
    trees = [apart(data) for data in files]
    for data, tree in zip(files, trees):
        if "magic" not in tree:
            assert together(tree) == data  # what was taken apart is put together as it was
    trees = [pickle.dumps(tree) for tree in trees]
    path, made, good = os.path.join(folder, "case"), 0, 0
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends a hang
    mx.set_cache_limit(1 << 24)
    mx.set_memory_limit(1 << 32)  # on any machine: what is larger takes too long to fill
    for k in range(count):
        rng = random.Random(f"{seed} {k}")
        tree = pickle.loads(trees[k % len(trees)])
        try:
            for _ in range(rng.choice([1, 1, 2, 3])):
                lie(tree, rng)
            if "magic" in tree and rng.random() < 0.9:
                lay_out(tree, rng)
            together(tree)
        except (KeyError, IndexError, struct.error, AttributeError, TypeError, OverflowError):
            continue  # a field that belongs to another state
        signal.alarm(60)
        made += 1
        good += use(path, tree, mx, np, rng)
    print(f"{made} files, {good} of them good")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        every(sys.argv[1])
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
