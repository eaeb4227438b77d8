"""What threads gain on small work: the measurements that src/cpu/worth.h rests on.

For each of its rows: what a unit takes on one thread, how long a piece of so many units lasts, and how much faster
work of 1 to 64 pieces is on all threads (--threads 1,4,16: on so many). Above 1 from two pieces on says that a piece
is worth handing over; far above 1 at two that smaller ones would be, too.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import mlx.core as mx

PIECES = (1, 2, 4, 16, 64)
HEADER = Path(__file__).parents[1] / "src/cpu/worth.h"


def rows_of(n, width):
    return mx.random.uniform(shape=(max(1, n // width), width))


def well_conditioned(n):
    """Of 4 x 4, some 2 * 4^3 products each."""
    return mx.random.uniform(shape=(max(1, n // 128), 4, 4)) + 4 * mx.eye(4)


# By row of the header: what n units are made of, and the work.
WORK = {
    "MOVED": (lambda n: mx.random.uniform(shape=(n,)), lambda x: x + x),
    "COPIED": (lambda n: rows_of(n // 8, 256), lambda x: mx.concatenate([x, x], axis=1)),
    "COMPUTED": (lambda n: mx.random.uniform(shape=(n,)), mx.exp),
    "FOLDED": (lambda n: rows_of(n, 256), lambda x: x.sum(1)),
    "SCANNED": (lambda n: rows_of(n, 256), lambda x: mx.cumsum(x, 1)),
    "NORMED": (lambda n: rows_of(n, 256), lambda x: mx.fast.rms_norm(x, None, 1e-5)),
    "SORTED": (lambda n: rows_of(n, 256), lambda x: mx.sort(x, 1)),
    "SEARCHED": (lambda n: mx.random.uniform(shape=(n,)), lambda x: mx.searchsorted(SORTED, x)),
    "DRAWN": (lambda n: n, lambda n: mx.random.uniform(shape=(2 * n,))),
    "MULTIPLIED": (lambda n: rows_of(n // 64, 64), lambda x: x @ SQUARE),
    "FACTORED": (lambda n: mx.random.uniform(shape=(max(1, n // 32768), 32, 32)) + 32 * mx.eye(32), mx.linalg.inv),
    "SIDE_BY_SIDE": (well_conditioned, mx.linalg.inv),
    "TURNED": (lambda n: rows_of(2 * n, 2 * n), lambda x: mx.fft.rfft(x)),
}
SORTED = mx.sort(mx.random.uniform(shape=(4096,)))
SQUARE = mx.random.uniform(shape=(64, 64))


def worth():
    found = re.findall(r"WORTH_(\w+) = 1 << (\d+)", HEADER.read_text())
    return {name: 1 << int(bits) for name, bits in found}


def fastest(run, seconds=0.05):
    run()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def measure():
    """The seconds of each row and number of pieces, as a line of JSON."""
    times = {}
    with mx.stream(mx.cpu):
        mx.eval(SORTED, SQUARE)
        for name, units in worth().items():
            make, work = WORK[name]
            times[name] = []
            for pieces in PIECES:
                x = make(pieces * units)
                mx.eval(x)
                times[name].append(fastest(lambda work=work, x=x: mx.eval(work(x))))
    print(json.dumps(times))


def times_on(threads):
    env = {**os.environ, "MLX_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, __file__, "--measure"], env=env, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}")
    args, _ = parser.parse_known_args()
    if args.measure:
        measure()
        return
    single = times_on(1)
    many = {n: times_on(n) for n in map(int, args.threads.split(",")) if n > 1}
    for name, units in worth().items():
        t = single[name]
        unit = (t[-1] - t[0]) / (PIECES[-1] - PIECES[0]) / units
        gains = "   ".join(
            f"{n} threads " + " ".join(f"{a / b:5.2f}" for a, b in zip(t, times[name])) for n, times in many.items()
        )
        print(f"{name:<13} {units:>6} units of {unit * 1e9:7.3f} ns: {unit * units * 1e6:6.1f} us   {gains}")
    print(f"{'':<13} of {', '.join(map(str, PIECES))} pieces")


if __name__ == "__main__":
    main()
