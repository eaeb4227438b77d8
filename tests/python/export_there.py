"""What test_export_ops.py has the `mlx` package do: run the functions of a folder, or write some into it.

python export_there.py run|write FOLDER
"""

import json
import pathlib
import sys

import mlx
import mlx.core as mx


def flat(y):
    return [b for a in y for b in flat(a)] if isinstance(y, (list, tuple)) else [y]


def save(path, arrays):
    mx.save_safetensors(path, {str(i): a for i, a in enumerate(arrays)})


def run(folder):
    for line in (folder / "cases.json").read_text().splitlines():
        case = json.loads(line)
        path = f"{folder}/{case['number']}"
        try:
            given = mx.load(path + ".in.safetensors")
            y = mx.import_function(path + ".mlxfn")(*[given[str(i)] for i in range(case["inputs"])])
            mx.eval(y)
            save(path + ".out.safetensors", y)
        except Exception as error:
            pathlib.Path(path + ".error").write_text(f"{type(error).__name__}: {error}")


class Found:
    """A module whose missing functions fail when they are called, not when they are looked up."""

    def __init__(self, of):
        self.of = of

    def __getattr__(self, name):
        return getattr(self.of, name, Found(None))


def samples():
    """The table of test_dtypes_everywhere.py, as far as this package has the functions."""
    for name in ("fft", "linalg", "fast", "random"):
        setattr(mx, name, Found(getattr(mx, name)))
    sys.modules["mlx.core"] = mlx.core = Found(mx)
    import test_dtypes_everywhere as table

    for name, (call, _, inputs) in table.SAMPLES.items():
        for t in table.DTYPES:
            if t != mx.float64 and not table.refusal(name, t):
                wide = [table.values(t, shape, i, sort) for i, (shape, sort) in enumerate(inputs)]
                xs = [mx.array(w.astype("complex64") if w.dtype.kind == "c" else w).astype(t) for w in wide]
                yield name, call, xs, xs, False


def write(folder):
    from any_shape_cases import WRONG_THERE, other_calls
    from export_cases import any_shape, more

    seen, number = set(), 0
    cases = [(name, call, xs, xs, False) for name, call, xs in more(mx)]
    cases += [(name + " ", *case, True) for name, *case in any_shape(mx)]
    cases += [(name, *case, True) for name, *case in other_calls(mx) if name.split(" #")[0] not in WRONG_THERE]
    with open(folder / "cases.json", "w") as out:
        for name, call, example, inputs, shapeless in [*cases, *samples()]:
            path, example = f"{folder}/{number}", [mx.array(x) for x in example]

            def f(*xs, call=call):
                return flat(call(*xs))

            try:
                y = f(*inputs)
                mx.eval(y)
                mx.export_function(path + ".mlxfn", f, *example, shapeless=shapeless)
                mx.export_function(lambda e: seen.add(e.get("name")), f, *example, shapeless=shapeless)
            except Exception as error:
                if " " in name:
                    print(f"there, {name}: {error}")
                continue
            save(path + ".in.safetensors", inputs)
            save(path + ".out.safetensors", y)
            case = {
                "number": number,
                "name": name,
                "dtype": str(inputs[0].dtype),
                "inputs": len(inputs),
                "outputs": len(y),
            }
            print(json.dumps(case), file=out)
            number += 1
    (folder / "seen.json").write_text(json.dumps(sorted(seen - {None})))


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    {"run": run, "write": write}[sys.argv[1]](pathlib.Path(sys.argv[2]))
