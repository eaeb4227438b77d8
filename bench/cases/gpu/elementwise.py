"""Element-wise operations on arrays that no cache holds, alone and as one kernel; small ones; arrays that are made."""

from .. import family, large, positive
from . import SIZE, TYPES, typed

case = family("element-wise")

N, SIDE, WIDTH = large(1 << 28), large(1 << 14), large(1024)

# PyTorch's is compiled where it has no function of its own for it.
COMPILED = {
    "gelu": ("nn.gelu(x)", "F.gelu(x)", False),
    "bias and relu": ("nn.relu(r + r[0])", "torch.relu(r + r[0])", True),
    "16 additions and products": ("chain(x)", "chain(x)", True),
    "gated by its sigmoid": ("h[0] * mx.sigmoid(h[0]) * h[1]", "F.silu(h[0]) * h[1]", True),
}
CHAIN = """
def chain(x):
    for i in range(8):
        x = (x + 0.5) * (1 - i / 8)
    return x
"""
SHAPED = f"r, h = x.reshape(-1, {WIDTH}), x.reshape(2, -1)\n"
for dtype in TYPES:
    size = SIZE[dtype]
    for name, code in {"exp": "xp.exp(x)", "tanh": "xp.tanh(x)", "times a number": "x * 0.5"}.items():
        case(typed(f"{name}, 2^28", dtype), {"x": (N,)}, code, moved=2 * N * size, type=dtype)
    both = {"x": positive(N), "y": positive(N)}
    case(typed("add, 2^28", dtype), both, "xp.add(x, y)", moved=3 * N * size, type=dtype)
    case(typed("power, 2^28", dtype), both, ours="mx.power(x, y)", torch="torch.pow(x, y)", moved=3 * N * size,
         type=dtype)  # fmt: skip
    case(typed("transposed copy, 16384^2", dtype), {"x": (SIDE, SIDE)}, ours="mx.contiguous(x.T)",
         torch="x.T.contiguous()", moved=2 * SIDE**2 * size, type=dtype)  # fmt: skip
    for name, (ours, torch, compiled) in COMPILED.items():
        before = {"all": CHAIN + SHAPED, "ours": f"run = mx.compile(lambda x, r, h: {ours})"}
        if compiled:
            before["PyTorch"] = f"run = torch.compile(lambda x, r, h: {torch})"
        case(typed(f"{name}, compiled, 2^28", dtype), {"x": (N,)}, ours="run(x, r, h)",
             torch="run(x, r, h)" if compiled else torch, before=before, type=dtype, tolerance=1e-2,
             moved=(1.5 if "gated" in name else 2) * N * size)  # fmt: skip

MANY = """
def many(x):
    for _ in range(1000):
        x = x + 1
    return x
"""
case("1,000 additions of 16 numbers", {"x": (16,)}, "many(x)", before={"all": MANY})
case("addition of 16 numbers, waited for", {"x": (16,)}, ours="mx.eval(x + 1)",
     torch="(x + 1, torch.cuda.synchronize())[0]", tolerance=None)  # fmt: skip

case = family("creation")

for dtype in TYPES:
    of = {"ours": f"dtype = mx.{dtype or 'float32'}", "PyTorch": f"dtype = torch.{dtype or 'float32'}"}
    rest = {"before": of, "moved": N * SIZE[dtype], "tolerance": None}
    case(typed("arange, 2^28", dtype), {}, ours=f"mx.arange({N}, dtype=dtype)",
         torch=f"torch.arange({N}, dtype=dtype, device=device)", **rest)  # fmt: skip
    case(typed("eye, 16384", dtype), {}, ours=f"mx.eye({SIDE}, dtype=dtype)",
         torch=f"torch.eye({SIDE}, dtype=dtype, device=device)", **rest)  # fmt: skip
    case(typed("uniform, 2^28", dtype), {}, ours=f"mx.random.uniform(shape=({N},), dtype=dtype)",
         torch=f"torch.rand({N}, dtype=dtype, device=device)", **rest)  # fmt: skip
    case(typed("normal, 2^28", dtype), {}, ours=f"mx.random.normal(({N},), dtype)",
         torch=f"torch.randn({N}, dtype=dtype, device=device)", **rest)  # fmt: skip
