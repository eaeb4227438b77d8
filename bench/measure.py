"""The cases of one library, in a process of its own: `measure.py cpu|gpu LIBRARY SECONDS`, names of cases on standard
input, a line of JSON for each on standard output."""

import json
import statistics
import sys
import time

from cases import load
from peers import PEERS, written_as


def flat(x):
    """All arrays in lists, tuples and dictionaries of them."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        return [y for z in x for y in flat(z)]
    return [] if x is None else [x]


def arrays_of(case, peer, kept):
    """By name; kept are those of the case before, by what they were made of."""
    made = {(name, of, case.type): name for name, of in case.arrays.items()}
    for of in [of for of in kept if of not in made]:
        del kept[of]
    for of, name in made.items():
        if of not in kept:
            kept[of] = peer.array(case.numbers(name), case.type)
    return {name: kept[of] for of, name in made.items()}


def prepared(case, peer, library, kept):
    """The case as a function without arguments, which has what it computes started and returns it."""
    names = {**peer.names, **arrays_of(case, peer, kept)}
    names["bfloat16"] = peer.types.get("bfloat16")
    exec(case.before.get("all", ""), names)
    exec(case.before.get(library, ""), names)
    compute = compiled_by_jax(case, names) if library == "JAX" else eval(f"lambda: ({case.run[library]})", names)

    def run():
        result = compute()
        peer.start(result)
        return result

    return run


def compiled_by_jax(case, names):
    """With the arrays as arguments: others would be taken for constants."""
    of = list(case.arrays)
    f = names["jax"].jit(eval(f"lambda {', '.join(of)}: ({case.run['JAX']})", names))
    return lambda: f(*(names[name] for name in of))


SAMPLE = 1e-3  # seconds at least


def times_of(run, finish, seconds):
    """The median of samples of a millisecond at least, and half of how far the middle half of them is spread."""

    def sample(turns):
        finish()
        start = time.perf_counter()
        for _ in range(turns):
            run()
        finish()
        return (time.perf_counter() - start) / turns

    turns, samples = 1, []
    while sample(turns) < SAMPLE / turns:
        turns *= 2
    end = time.perf_counter() + seconds
    while len(samples) < 5 or (time.perf_counter() < end and len(samples) < 200):
        samples.append(sample(turns))
    low, middle, high = statistics.quantiles(samples, n=4)
    return middle, (high - low) / 2


def answer_of(case, peer, library, kept, seconds):
    run = prepared(case, peer, library, kept)
    # The sum of the results' sizes does not depend on how they are laid out.
    answer = {"name": case.name, "checksum": float(sum(map(peer.total, flat(run()))))}
    peer.settle(run, case.operations)
    answer["time"], answer["spread"] = times_of(run, peer.finish, seconds)
    return answer


def main():
    device, library, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    peer, cases, kept = PEERS[library](device), {c.name: c for c in load(device)}, {}
    for name in sys.stdin.read().splitlines():
        try:
            answer = answer_of(cases[name], peer, written_as(library), kept, seconds)
        except Exception as e:
            answer = {"name": name, "error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
