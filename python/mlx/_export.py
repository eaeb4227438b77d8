"""Exported functions, told: what the extension module hands over as JSON, and the command mlx-inspect."""

import argparse
import json
import sys

import mlx.core as mx


def _dtype(name):
    return mx.bool_ if name == "bool" else getattr(mx, name)


def _value(item):
    name, shape, dtype = item
    return name, tuple(shape), _dtype(dtype)


def _argument(a):
    if isinstance(a, dict):
        return _dtype(a["dtype"]) if "dtype" in a else tuple(a["tuple"])
    return a


def event(text, arrays):
    """The dict that a callback of export_function gets."""
    told = json.loads(text)
    for key in ("inputs", "outputs"):
        if key in told:
            told[key] = [_value(item) for item in told[key]]
    if "keywords" in told:
        told["keywords"] = [tuple(item) for item in told["keywords"]]
    if "constants" in told:
        told["constants"] = list(zip(told["constants"], arrays, strict=True))
    if "arguments" in told:
        told["arguments"] = [_argument(a) for a in told["arguments"]]
    return told


def _spec(spec):
    return spec and {**spec, "shape": tuple(spec["shape"]), "dtype": _dtype(spec["dtype"])}


def inspected(text):
    """What inspect_function returns."""
    told = json.loads(text)
    for trace in told["traces"]:
        trace["inputs"] = [_spec(s) for s in trace["inputs"]]
        trace["outputs"] = [_spec(s) for s in trace["outputs"]]
        trace["keywords"] = {name: _spec(s) for name, s in trace["keywords"].items()}
    told["constants"] = [_spec(s) for s in told["constants"]]
    return told


def _text(spec):
    return f"{str(spec['dtype']).removeprefix('mlx.core.')}{list(spec['shape'])}" if spec else "?"


def _size(n):
    for unit in ("bytes", "KB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:,.{0 if unit == 'bytes' else 1}f} {unit}"
        n /= 1000
    return ""


def describe(path, constants=False):
    """The lines that mlx-inspect prints."""
    told = mx.inspect_function(path)
    held = sum(c["bytes"] for c in told["constants"])
    yield f"{path}: version {told['version']}, {_size(told['bytes'])}" + (", any shapes" if told["shapeless"] else "")
    if told["metadata"]:
        yield f"  metadata: {told['metadata']}"
    yield f"  {len(told['constants'])} constants of {_size(held)}"
    for c in told["constants"] if constants else ():
        yield f"    {_text(c)} at byte {c['offset']}"
    for i, trace in enumerate(told["traces"], 1):
        inputs = [_text(s) for s in trace["inputs"]] + [f"{k}={_text(s)}" for k, s in trace["keywords"].items()]
        outputs = ", ".join(_text(s) for s in trace["outputs"])
        yield f"  trace {i}: ({', '.join(inputs)}) -> ({outputs})"
        counts = sorted(trace["operations"].items(), key=lambda item: (-item[1], item[0]))
        yield f"    {sum(n for _, n in counts)} operations: " + ", ".join(f"{n} {name}" for name, n in counts)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="mlx-inspect", description="Tell what is in exported functions (.mlxfn).")
    parser.add_argument("file", nargs="+")
    parser.add_argument("--constants", action="store_true", help="list every constant")
    parser.add_argument("--json", action="store_true", help="print all there is to know as JSON")
    args = parser.parse_args(argv)
    failed = 0
    for path in args.file:
        try:
            if args.json:
                told = mx.inspect_function(path)
                print(json.dumps(told, default=lambda dtype: str(dtype).removeprefix("mlx.core."), indent=1))
            else:
                print("\n".join(describe(path, args.constants)))
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            print(f"mlx-inspect: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
