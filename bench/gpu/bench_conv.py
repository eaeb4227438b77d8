"""Convolutions on a GPU, beside PyTorch in the same run where it can be imported (channels last, as ours; its choice of
an algorithm after trying; float32 with all bits): with cuDNN where it is used, and by our kernels alone.

    python bench/gpu/bench_conv.py [what the names of layers have in them]..."""

import json
import os
import subprocess
import sys

import mlx.core as mx
from beside import begin, ours, theirs, torch

# name: input, weights, what both are told
LAYERS = {
    "7x7, stride 2, 3 to 64": ((32, 224, 224, 3), (64, 7, 7, 3), {"stride": 2, "padding": 3}),
    "3x3, 64 to 3": ((32, 112, 112, 64), (3, 3, 3, 64), {"padding": 1}),
    "3x3, 64 to 64": ((32, 56, 56, 64), (64, 3, 3, 64), {"padding": 1}),
    "3x3, 256 to 256": ((32, 28, 28, 256), (256, 3, 3, 256), {"padding": 1}),
    "3x3, 512 to 512": ((32, 7, 7, 512), (512, 3, 3, 512), {"padding": 1}),
    "3x3, 512 to 512, one image": ((1, 14, 14, 512), (512, 3, 3, 512), {"padding": 1}),
    "1x1, 256 to 1024": ((32, 14, 14, 256), (1024, 1, 1, 256), {}),
    "3x3, stride 2, 256 to 256": ((32, 28, 28, 256), (256, 3, 3, 256), {"stride": 2, "padding": 1}),
    "9, 1 axis, 256 to 256": ((16, 4096, 256), (256, 9, 256), {"padding": 4}),
    "3x3x3, 64 to 64": ((4, 32, 32, 32, 64), (64, 3, 3, 3, 64), {"padding": 1}),
    "7x7, each channel, 384": ((32, 28, 28, 384), (384, 7, 7, 1), {"padding": 3, "groups": 384}),
    "3x3, 32 groups, 256": ((32, 28, 28, 256), (256, 3, 3, 8), {"padding": 1, "groups": 32}),
}


def torchs(x, w, stride=1, padding=0, groups=1):
    f = [torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d][x.ndim - 3]
    return f(x.movedim(-1, 1), w.movedim(-1, 1), stride=stride, padding=padding, groups=groups)


def gradients(x, w, y, **how):
    """By the input and by the weights, where y is that by the result: what, ours, what PyTorch is asked for."""
    conv = lambda x, w: mx.conv_general(x, w, **how)  # noqa: E731
    yield "input", lambda: mx.vjp(lambda x: conv(x, w), [x], [y])[1][0], (True, False, False)
    yield "weights", lambda: mx.vjp(lambda w: conv(x, w), [w], [y])[1][0], (False, True, False)


def torchs_gradient(x, w, y, mask, stride=1, padding=0, groups=1):
    n = x.ndim - 2
    x, w, y = (a.movedim(-1, 1) for a in (x, w, y))
    numbers = [stride] * n, [padding] * n, [1] * n, False, [0] * n, groups
    return torch.ops.aten.convolution_backward(y, x, w, None, *numbers, mask)


def on_torch(shape, dtype):
    return torch.randn(shape, device="cuda").to(getattr(torch, dtype))


def by_our_kernels():
    """Seconds of each, in the order of main, by a process that looks for no libraries."""
    env = os.environ | {"MLX_CUDA_LIBRARIES": "0"}
    done = subprocess.run(
        [sys.executable, __file__, "--times", *sys.argv[1:]], env=env, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def report(name, dtype, operations, t, without, theirs_=None):
    line = f"{name:<30} {dtype:<9} ours {t * 1e3:.3f} ms {operations / t / 1e12:.1f} TFLOP/s"
    if without:
        line += f"   our kernels {without * 1e3:.3f} ms"
    if torch:
        u = theirs(theirs_)
        line += f"   PyTorch {u * 1e3:.3f} ms ({u / t:.2f}x{f', our kernels {u / without:.2f}x' if without else ''})"
    print(line, flush=True)


def measure(show):
    """show(name, dtype, operations, ours, what PyTorch is asked for) for each that is asked for."""
    asked = [word for word in sys.argv[1:] if word != "--times"]
    for name, (x_shape, w_shape, how) in LAYERS.items():
        if asked and not any(word in name for word in asked):
            continue
        for dtype in ("float32", "bfloat16"):
            x, w = (mx.random.normal(s).astype(getattr(mx, dtype)) for s in (x_shape, w_shape))
            y = mx.random.normal(mx.conv_general(x, w, **how).shape).astype(x.dtype)
            mx.eval(x, w, y)
            operations = 2 * y.size * w.size // w.shape[0]
            a, b, c = (on_torch(s, dtype) if torch else None for s in (x_shape, w_shape, y.shape))
            t = ours(lambda x=x, w=w, how=how: mx.conv_general(x, w, **how))
            show(name, dtype, operations, t, lambda a=a, b=b, how=how: torchs(a, b, **how))
            for by, f, mask in gradients(x, w, y, **how):
                t = ours(f)
                g = lambda a=a, b=b, c=c, m=mask, how=how: torchs_gradient(a, b, c, m, **how)  # noqa: E731
                show(f"    by the {by}", dtype, operations, t, g)
            del x, y, a, c


def main():
    if "--times" in sys.argv:
        times = []
        measure(lambda name, dtype, operations, t, theirs_: times.append(t))
        print(json.dumps(times))
        return
    begin()
    if torch:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False
    library = mx.cuda.libraries()["cudnn"]
    used = library and library["used_for"]
    print("cudnn", library["version"] if used else "not used")
    without = iter(by_our_kernels() if used else [])
    measure(lambda name, dtype, operations, t, g: report(name, dtype, operations, t, next(without, None), g))


main()
