"""Goes through the functions of test_dtypes_everywhere.py and any_shape_cases.py on the GPU, for test_gpu_fallback.py.

With MLX_FALLBACK=error; a line for each that has no kernel there: the operation, the dtype and the function.
"""

import re

import any_shape_cases
import mlx.core as mx
import test_dtypes_everywhere as everywhere

ran = 0


def tell(what, dtype, f):
    global ran
    try:
        mx.eval(f())
        ran += 1
    except Exception as e:  # noqa: BLE001  what a type is refused for is the concern of others
        for op in re.findall(r"\[(\w+)\] has no kernel", str(e)):
            print(op, dtype, what)


def main():
    for name, (call, _, inputs) in everywhere.SAMPLES.items():
        for t in everywhere.DTYPES:
            wide = [everywhere.values(t, shape, i, sort) for i, (shape, sort) in enumerate(inputs)]
            x = [mx.array(a.tolist(), t).reshape(a.shape) for a in wide]
            tell(name, everywhere.short(t), lambda call=call, x=x: call(*x))
    for name, f, calls in any_shape_cases.functions(mx):
        tell(name, "float32", lambda f=f, calls=calls: [f(*x) for x in calls])
        g = mx.compile(f, shapeless=True)
        tell(f"{name}, compiled for any shape", "float32", lambda g=g, calls=calls: [g(*x) for x in calls])
    print("done, of", ran, "calls")


main()
