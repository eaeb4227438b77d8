"""Packed weights on a GPU: from how many rows on their numbers are worth writing out."""

import mlx.core as mx
from beside import begin
from beside import ours as best

SIDE, LAYERS = 4096, 32  # more than caches hold
WAYS = [32, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024]
FORMATS = {"4 bits": {"bits": 4}, "8 bits": {"bits": 8}, "mxfp4": {"mode": "mxfp4"}, "mxfp8": {"mode": "mxfp8"}}


def ours(x, layers, form):
    for w in layers:
        x = mx.quantized_matmul(x, *w, **form)
    return x


def by_numbers(x, layers, form):
    """What quantized_matmul does for many rows, whatever it does for these."""
    for w in layers:
        x = x @ mx.dequantize(*w, **form).T
    return x


def ways(name, form, layers):
    """Both ways to a product of some rows, by which src/cuda/quantize.c tells from where numbers are worth writing out:
    our kernel, which two matrices at once always run on, and a library's or our matmul of the numbers."""
    pairs = [[mx.stack(both) for both in zip(*layers[i : i + 2])] for i in range(0, LAYERS, 2)]
    mx.eval(pairs)
    for rows in WAYS:
        x = mx.random.normal((rows, SIDE)).astype(mx.bfloat16)
        two = mx.stack([x, x])
        mx.eval(x, two)
        packed = best(lambda two=two: ours(two, pairs, form)) / LAYERS
        numbers = best(lambda x=x: by_numbers(x, layers, form)) / LAYERS
        taken = best(lambda x=x: ours(x, layers, form)) / LAYERS
        print(
            f"{name}: {SIDE}^2, {rows:4} rows: packed {packed * 1e6:6.1f} us, by numbers {numbers * 1e6:6.1f} us"
            f" ({packed / numbers:.2f}x), quantized_matmul {taken * 1e6:6.1f} us",
            flush=True,
        )


def main():
    begin()
    for name, form in FORMATS.items():
        layers = [mx.quantize(mx.random.normal((SIDE, SIDE), mx.bfloat16) / SIDE**0.5, **form) for _ in range(LAYERS)]
        mx.eval(layers)
        ways(name, form, layers)


main()
