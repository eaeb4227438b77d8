"""The cases of one library, in a process of its own: `measure.py LIBRARY SECONDS`, names of cases on standard input,
a line of JSON for each on standard output."""

import json
import statistics
import sys
import time

import numpy as np
from cases import load
from peers import PEERS


def flat(x):
    """All arrays in lists, tuples and dictionaries of them."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        return [y for z in x for y in flat(z)]
    return [] if x is None else [x]


def checksum(peer, result):
    """The sum of the results' sizes, which does not depend on how they are laid out."""
    return float(sum(np.abs(np.asarray(peer.plain(x))).astype(np.float64).sum() for x in flat(result)))


def prepared(case, peer, library):
    """The case as a function without arguments, which waits for what it computes and returns it."""
    names = dict(peer.names)
    names.update({name: peer.array(x) for name, x in case.numbers().items()})
    names["bfloat16"] = peer.types.get("bfloat16")
    exec(case.before.get("all", ""), names)
    exec(case.before.get(library, ""), names)
    compute = compiled_by_jax(case, names) if library == "JAX" else eval(f"lambda: ({case.run[library]})", names)

    def run():
        result = compute()
        peer.wait(result)
        return result

    return run


def compiled_by_jax(case, names):
    """With the arrays as arguments: others would be taken for constants."""
    of = list(case.arrays)
    f = names["jax"].jit(eval(f"lambda {', '.join(of)}: ({case.run['JAX']})", names))
    return lambda: f(*(names[name] for name in of))


def times_of(run, seconds):
    """The median of samples of a millisecond at least, and half of how far the middle half of them is spread."""
    start = time.perf_counter()
    run()
    once = time.perf_counter() - start
    turns, samples = max(1, int(1e-3 / max(once, 1e-9))), []
    end = time.perf_counter() + seconds
    while len(samples) < 5 or (time.perf_counter() < end and len(samples) < 200):
        start = time.perf_counter()
        for _ in range(turns):
            run()
        samples.append((time.perf_counter() - start) / turns)
    low, middle, high = statistics.quantiles(samples, n=4)
    return middle, (high - low) / 2


def main():
    library, seconds = sys.argv[1], float(sys.argv[2])
    peer, cases = PEERS[library](), {c.name: c for c in load()}
    for name in sys.stdin.read().splitlines():
        case, answer = cases[name], {"name": name}
        try:
            run = prepared(case, peer, library)
            answer["checksum"] = checksum(peer, run())
            run()
            answer["time"], answer["spread"] = times_of(run, seconds)
        except Exception as e:
            answer["error"] = f"{type(e).__name__}: {e}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
