"""Calls every function of the C API with each of its arguments replaced by hostile ones: arrays of many, no or endless
axes, numbers at the ends of their types, enums that are none.

    python hostile_calls.py libmlx.so PART PARTS [FUNCTION...]

makes every PARTS-th call, and prints on stderr what is called; a crash stands after the last line."""

import ctypes
import itertools
import signal
import sys

from hostile_sizes import limit_memory
from null_calls import ITEMS, Calls

MOST = 2**31 - 1
INTS = {
    "int": [-(2**31), 1 - 2**31, -1, 0, 2, 3, 64, MOST - 1, MOST],
    "size_t": [0, 3, 65],  # as a number of items or bytes in the caller's memory it has to be right: up to ITEMS
    "int64_t": [-(2**63), -1, 0, 2**63 - 1],
    "uint64_t": [0, 2**64 - 1],
    "double": [float("nan"), float("inf"), -1e300],
    "float": [float("nan"), float("inf"), -1e38],
}
SHAPES = [
    (),
    (0,),
    (1,) * 64,
    (1,) * 63,
    (2, 1, 3, 2),
    (2, 2, 2, 2),
    (0, 2),
    (2, 0),
    (0, MOST),
    (MOST, 0),
    (5, 0, MOST),
]
ENDLESS = [(MOST,), (3, MOST), (1 << 16, 1 << 16)]  # views of one number
NUMBERS = ["MLX_FLOAT32", "MLX_UINT32", "MLX_INT64", "MLX_COMPLEX64", "MLX_BOOL"]
# What waits, or evaluates what it is given whatever its size.
LEFT_OUT = ("mlx_array_item", "mlx_array_tostring", "mlx_array_eval", "mlx_eval", "mlx_async_eval", "mlx_array_data")
LEFT_OUT += (
    "mlx_array_new_data",
    "mlx_array_set_data",
    "mlx_save",
    "mlx_print",
    "mlx_array_text",
    "mlx_array_host",
    "_mlx_array",
    "mlx_export",
    "mlx_run",
)
EVALUATED = 4096


class Hostile(Calls):
    def prepare(self):
        super().prepare()
        stream, self.arrays, self.endless = self.values["mlx_stream"], [], set()
        dtypes = self.headers.enums["mlx_dtype"]
        for shape, dtype in itertools.product(SHAPES + ENDLESS, NUMBERS):
            array, sizes = self.types["mlx_array"](), (ctypes.c_int * len(shape))(*shape)
            if shape in ENDLESS:
                one = self.types["mlx_array"]()
                self.make("mlx_ones", ctypes.byref(one), sizes, 0, dtypes.index(dtype), stream)
                self.make("mlx_broadcast_to", ctypes.byref(array), one, sizes, len(shape), stream)
            else:
                self.make("mlx_ones", ctypes.byref(array), sizes, len(shape), dtypes.index(dtype), stream)
            self.arrays.append((f"{dtype} of shape {shape}", array))

    def others(self, name, kind):
        """What replaces an argument: text and value."""
        plain = kind.removeprefix("const ")
        if plain == "mlx_array":
            yield from self.arrays
        elif plain == "mlx_vector_array":
            for (text, a), (_, b) in zip(self.arrays, self.arrays[1:]):
                for second in (a, b):
                    both = self.make("mlx_vector_array_new_value", a)
                    self.make("mlx_vector_array_append_value", both, second)
                    yield f"two of {text}", both
        elif plain in self.headers.enums:
            yield from ((str(v), v) for v in (-1, 1, 99))
        elif plain == "int*" and kind.startswith("const "):
            for v in (-(2**31), -1, 0, 2, MOST):
                yield f"{v}...", self.ints([v] * ITEMS)
            yield "1, 2...", self.ints(range(ITEMS))
        elif plain == "int64_t*" and kind.startswith("const "):
            for v in (-(2**63), -1, 2**63 - 1):
                numbers = (ctypes.c_int64 * ITEMS)(*[v] * ITEMS)
                self.keep.append(numbers)
                yield f"{v}...", ctypes.cast(numbers, ctypes.c_void_p)
        elif plain.startswith("mlx_optional_int"):
            yield from ((str(v), self.types[plain](v, True)) for v in INTS["int"])
        elif plain in INTS:
            yield from ((str(v), v) for v in INTS[plain])

    def ints(self, values):
        numbers = (ctypes.c_int * ITEMS)(*values)
        self.keep.append(numbers)
        return ctypes.cast(numbers, ctypes.c_void_p)

    def small(self, array):
        n = self.lib.mlx_array_ndim(array)
        size = 1
        for i in range(n):
            size *= self.lib.mlx_array_dim(array, i)
        return size <= EVALUATED

    def evaluate(self, arguments):
        """Results that are arrays, where none of the operands is endless."""
        for a in arguments:
            array = a.contents if isinstance(a, ctypes._Pointer) else None
            if type(array).__name__ == "mlx_array" and array.ctx and self.small(array):
                self.call("mlx_array_eval", [array])

    def calls(self, only):
        for name, declared in self.functions():
            if name.startswith(LEFT_OUT) or name.endswith("_free") or (only and name not in only):
                continue
            for i, (argument, kind) in enumerate(declared):
                for text, value in self.others(argument, kind):
                    yield name, declared, f"{argument} = {text}", {i: value}
            arrays = [i for i, (_, kind) in enumerate(declared) if kind.removeprefix("const ") == "mlx_array"]
            if len(arrays) > 1:
                for text, value in self.arrays:
                    yield name, declared, f"all arrays {text}", dict.fromkeys(arrays, value)


def main(library, part, parts, only):
    it = Hostile(library)
    it.prepare()
    it.lib.mlx_array_ndim.restype = ctypes.c_size_t
    made = failed = 0
    limit_memory()
    for name, declared, text, replaced in itertools.islice(it.calls(only), part, None, parts):
        print(f"{name}: {text}", file=sys.stderr, flush=True)
        arguments = [it.given(name, *each)[0] for each in declared]
        for i, value in replaced.items():
            arguments[i] = value
        made += 1
        signal.alarm(20)
        failed += bool(it.call(name, arguments))
        if not any(t in text for t in map(str, ENDLESS)):
            it.evaluate(arguments)
        signal.alarm(0)
    print(made, failed)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
