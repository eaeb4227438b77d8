"""One operation, and several as one, on numbers in the cache and in memory."""

from .. import family, integers, positive

case = family("element-wise")

MILLION, MANY = 1 << 20, 1 << 24
for n in (MILLION, MANY):
    of = f"2^{n.bit_length() - 1} floats"
    case(f"add, {of}", {"x": (n,), "y": (n,)}, "x + y", moved=12 * n)
    for name in ("exp", "tanh", "sin"):
        case(f"{name}, {of}", {"x": (n,)}, f"xp.{name}(x)", moved=8 * n)
    case(f"sigmoid, {of}", {"x": (n,)}, ours="mx.sigmoid(x)", torch="torch.sigmoid(x)", jax="jax.nn.sigmoid(x)",
         numpy="1 / (1 + np.exp(-x))", moved=8 * n)  # fmt: skip
    case(f"erf, {of}", {"x": (n,)}, ours="mx.erf(x)", torch="torch.erf(x)", jax="jax.lax.erf(x)", numpy=None,
         moved=8 * n)  # fmt: skip
    case(f"log, {of}", {"x": positive(n)}, "xp.log(x)", moved=8 * n)
    case(f"power, {of}", {"x": positive(n), "y": (n,)}, "x**y", moved=12 * n)
    case(f"where x > 0, {of}", {"x": (n,), "y": (n,)}, "xp.where(x > 0, x, y)", moved=12 * n)
    case(f"gelu, {of}", {"x": (n,)}, ours="gelu(x)", torch="F.gelu(x)", jax="jax.nn.gelu(x, approximate=False)",
         numpy=None, before={"ours": "gelu = mx.compile(nn.gelu)"}, moved=8 * n)  # fmt: skip
case("8 operations on 5 arrays of 2^22", dict.fromkeys("abcde", (1 << 22,)),
     "xp.maximum((a * b + c) * d - e, a) * b + c * d", moved=24 << 22)  # fmt: skip
case("quotient of int32, 2^22", {"x": integers(1 << 30, 1 << 22), "y": integers(1000, 1 << 22)},
     "x // (y + 1)", moved=12 << 22)  # fmt: skip
case("float32 to bfloat16, 2^24", {"x": (MANY,)}, ours="x.astype(bfloat16)", torch="x.to(bfloat16)",
     jax="x.astype(bfloat16)", numpy=None, moved=6 * MANY)  # fmt: skip
case("add of bfloat16, 2^24", {"x": (MANY,)}, "h + h", numpy=None, moved=4 * MANY,
     before={"ours": "h = x.astype(bfloat16); mx.eval(h)", "PyTorch": "h = x.to(bfloat16)"}, jax=None)  # fmt: skip
case("add of 4 floats", {"x": (4,)}, "x + x")
CHAIN = """
def chain(x):
    y = x
    for _ in range(500):
        y = y * x + x
    return y
"""
case("1,000 operations on 64 floats", {"x": (64,)}, ours="chain(x)", torch="chain(x)", jax=None, numpy="chain(x)",
     before={"all": CHAIN}, tolerance=None)  # fmt: skip
case("1,000 operations on 64 floats, compiled", {"x": (64,)}, ours="run(x)", torch=None, jax="chain(x)", numpy=None,
     before={"ours": CHAIN + "run = mx.compile(chain)", "JAX": CHAIN}, tolerance=None)  # fmt: skip
