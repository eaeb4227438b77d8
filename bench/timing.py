"""Times side by side: candidates take turns, the best of each counts, and only ratios are shown."""

import time


def best(functions, seconds=1.5, least=5, rest=0, turn=1):
    """The shortest time of each function, in seconds, from rounds in which all take a turn.

    A library whose threads go on spinning when it is done takes a processor from the next one: after
    a ``rest`` of that many seconds they sleep, and a ``turn`` of several calls wakes one's own.
    """
    for f in functions.values():
        f()
    times = dict.fromkeys(functions, float("inf"))
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < least or time.perf_counter() < end:
        for name, f in functions.items():
            time.sleep(rest)
            for _ in range(turn):
                start = time.perf_counter()
                f()
                times[name] = min(times[name], time.perf_counter() - start)
        rounds += 1
    return times


def calls(f, n):
    """f called n times in a loop, as one thing to time."""

    def run():
        for _ in range(n):
            f()

    return run


def row(what, ours, peers, unit=1e3, suffix="ms", goal=""):
    others = "   ".join(f"{name} {t * unit:.3g} {suffix} ({t / ours:.2f}x ours)" for name, t in peers.items())
    print(f"{what:<34} ours {ours * unit:.3g} {suffix}   {others}   {goal}")
