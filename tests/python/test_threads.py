"""Several threads at once."""

import subprocess
import sys
import threading

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from process import SANITIZED

# In a process of its own: what goes wrong here hangs or ends it.
CLEARED = """
import threading, time
import mlx.core as mx

end = time.monotonic() + 1.5
x = mx.arange(5000, dtype=mx.float32)
mx.eval(x)
done, wrong = [0] * 4, []

def compute(i):
    streams = [mx.new_stream(mx.cpu), mx.default_stream(mx.cpu)]
    while time.monotonic() < end or not done[i]:
        y = [mx.sqrt(mx.add(x, k, stream=streams[k % 2])) for k in range(6)]
        mx.async_eval(y)
        with mx.stream(streams[i % 2]):
            total = mx.stack(y, stream=streams[0])[:, i].tolist()
        if any(abs(t - (i + k) ** 0.5) > 1e-5 for k, t in enumerate(total)):
            wrong.append(total)
        done[i] += 1

def clear():
    while time.monotonic() < end:
        mx.clear_streams()

def synchronize():
    while time.monotonic() < end:
        mx.synchronize()

threads = [threading.Thread(target=compute, args=(i,)) for i in range(4)]
threads += [threading.Thread(target=f) for f in (clear, clear, synchronize)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not wrong, wrong
mx.synchronize()
"""


def test_streams_are_cleared_while_others_compute():
    done = subprocess.run([sys.executable, "-c", CLEARED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_what_was_given_to_streams_is_done_when_they_are_clear():
    x = mx.arange(1000)
    y = [mx.add(x, k, stream=mx.new_stream(mx.cpu)) for k in range(3)]
    mx.async_eval(y)
    mx.clear_streams()
    for k in range(3):
        np.testing.assert_array_equal(y[k], np.arange(1000) + k)


def test_threads_leave_their_streams_to_others():
    """As many of a thread-local stream as there are threads at once, not one for each that ever was."""
    device = mx.default_device()
    one, other = mx.new_thread_local_stream(device), mx.new_thread_local_stream(device)
    before = int(str(mx.new_stream(device)).rsplit(" ")[-1][:-1])
    met = threading.Barrier(2)
    together = []

    def alone():
        with mx.stream(one):
            assert mx.sum(mx.ones(10), stream=other).item() == 10
            assert mx.default_stream(device) != here

    def beside():
        with mx.stream(one):
            together.append(mx.default_stream(device))
            met.wait()

    with mx.stream(one):
        here = mx.default_stream(device)
    for _ in range(20):
        joined(threading.Thread(target=alone))
    threads = [threading.Thread(target=beside) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert together[0] != together[1]
    with mx.stream(one):
        assert mx.default_stream(device) == here and here not in together
    # Three, and one for each thread that began before Python had taken the last one apart.
    assert int(str(mx.new_stream(device)).rsplit(" ")[-1][:-1]) - before < 15


def test_default_streams_stay_when_all_are_cleared():
    """Those of this thread, by a choice or for a block, whoever clears."""
    device, first, other = mx.default_device(), mx.default_stream(mx.default_device()), mx.new_stream(mx.cpu)
    second = mx.new_stream(device)
    for clear in (mx.clear_streams, lambda: joined(threading.Thread(target=mx.clear_streams))):
        with mx.stream(other):
            clear()
            assert mx.default_stream(mx.cpu) == other
            assert (mx.ones(2) + 1).tolist() == [2, 2]
        assert mx.default_stream(device) == first
        mx.set_default_stream(second)
        try:
            clear()
            assert mx.default_stream(device) == second
        finally:
            mx.set_default_stream(first)


def joined(thread):
    thread.start()
    thread.join()


# A fork while another thread differentiates: the child has that thread's places in lists and dicts, not the thread.
FORKED = """
import os, signal, threading
import mlx.core as mx

inside, go = threading.Event(), threading.Event()
tree = {"w": mx.array(1.0), "deep": [mx.array(5.0)]}

def slow(d):
    inside.set()
    go.wait()
    return d["w"] * 2 + d["deep"][0]

threading.Thread(target=lambda: mx.grad(slow)(tree), daemon=True).start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    assert tree["w"].item() == 1 and tree["deep"][0].item() == 5
    found = []
    for _ in range(3):
        threads = [threading.Thread(target=lambda: found.append(mx.grad(lambda d: d["w"] * 3)(tree))) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    os._exit(0 if [g["w"].item() for g in found] == [3.0] * 9 and tree["w"].item() == 1 else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
go.set()
assert status == 0, status
"""


def test_a_fork_while_another_thread_differentiates():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)


# Calls of one thread that end in the order they began in, on the same dict and list.
switches = pytest.mark.skipif(
    SANITIZED,
    reason="greenlet copies stacks, which the address sanitizer takes for a fault",
)

GREENLETS = """
import greenlet
import mlx.core as mx

hub = greenlet.getcurrent()
tree = {"w": mx.arange(4.0), "deep": [mx.array(2.0)]}
found = {}

def f(d):
    y = mx.sin(d["w"])
    hub.switch()
    return (y * d["w"]).sum() + d["deep"][0]

@mx.custom_function
def g(x):
    return mx.sin(x)

@g.vjp
def of_g(x, dy, y):
    hub.switch()
    return dy * mx.cos(x)

calls = [
    lambda: mx.grad(f)(tree)["w"],
    lambda: mx.grad(lambda x: (g(x) * x).sum())(mx.arange(4.0)),
    lambda: mx.vmap(lambda x: (hub.switch(), mx.sin(x))[1])(mx.arange(4.0)),
    lambda: mx.compile(lambda x: (hub.switch(), mx.sin(x) * 2)[1])(mx.arange(4.0)),
]
alone = [mx.sin(tree["w"]) + tree["w"] * mx.cos(tree["w"])] * 2 + [mx.sin(tree["w"]), mx.sin(tree["w"]) * 2]
for one in range(4):
    for other in range(4):
        order = [greenlet.greenlet(calls[k]) for k in (one, other)]
        for each in order:
            each.switch()
        for each, k in zip(order, (one, other)):
            assert mx.allclose(each.switch(), alone[k]), (one, other)
        assert tree["w"].tolist() == [0, 1, 2, 3] and tree["deep"][0].item() == 2, (one, other)
"""


@switches
def test_greenlets_take_turns_inside_transforms():
    done = subprocess.run([sys.executable, "-c", GREENLETS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)


# Each order in which two traces may begin, go on and end, one of them at least for any shape.
ANY_SHAPE = """
import itertools
import greenlet
import mlx.core as mx

hub = greenlet.getcurrent()

def f(x):
    y = mx.ones(4)
    hub.switch()
    y = x - x.mean(axis=0, keepdims=True) + x.shape[-1]
    hub.switch()
    return mx.concatenate([y.reshape(-1), x.flatten()]) * x.size

def nested(x):
    return mx.compile(f)(x) + 0

calls = [None] * 3 + [mx.grad(lambda x: f(x).sum())]
small, large = mx.arange(6.0).reshape(2, 3), mx.arange(20.0).reshape(4, 5)
hub_of = lambda k, x: greenlet.greenlet(lambda: calls[k](x))

def drained(g):
    got = g.switch()
    while not g.dead:
        got = g.switch()
    return got

def direct(k, x):
    return drained(greenlet.greenlet(lambda: mx.grad(lambda x: f(x).sum())(x) if k == 3 else f(x)))

want = {(k, x.shape): direct(k, x).tolist() for k in range(4) for x in (small, large)}
for one, other in itertools.product(range(4), range(4)):
    for order in sorted(set(itertools.permutations([0, 0, 0, 1, 1, 1]))):
        calls = [mx.compile(f, shapeless=True), mx.compile(f), mx.compile(nested, shapeless=True), calls[3]]
        ks, got = (one, other), [(), ()]
        turns = [hub_of(one, small), hub_of(other, small)]
        for i in order:
            got[i] = turns[i].switch()
            mx.eval(mx.ones((3, 3)).sum(axis=0) + mx.ones(3))
        for k, y in zip(ks, got):
            assert y == () or y.tolist() == want[k, small.shape], (one, other, order)
        for g in turns:
            while not g.dead:
                g.switch()
        for k in ks:
            for x in (large, small):
                assert drained(hub_of(k, x)).tolist() == want[k, x.shape], (one, other, order, x.shape)
"""


@switches
def test_greenlets_take_turns_inside_traces_for_any_shape():
    done = subprocess.run([sys.executable, "-c", ANY_SHAPE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)


# Exports: right, or refused.
ANY_SHAPE_EXPORT = """
import itertools, warnings
import greenlet
import mlx.core as mx

warnings.simplefilter("ignore")
hub = greenlet.getcurrent()
x = mx.arange(20.0).reshape(4, 5)

def f(x):
    hub.switch()
    y = x - x.mean(axis=0)
    hub.switch()
    return y.reshape(-1)

def exporting(path, any_shape):
    return greenlet.greenlet(lambda: mx.export_function(path, f, mx.ones((2, 3)), shapeless=any_shape))

refused = 0
for order in sorted(set(itertools.permutations([0, 0, 0, 1, 1, 1]))):
    for other in (True, False):
        turns, failed = [exporting("one.mlxfn", True), exporting("other.mlxfn", other)], [False, False]
        for i in order:
            try:
                turns[i].switch()
            except ValueError as e:
                assert "took turns" in str(e), e
                failed[i] = True
        refused += any(failed)
        for path, k in (("one.mlxfn", 0), ("other.mlxfn", 1)):
            if not failed[k] and (other or k == 0):
                got = mx.import_function(path)(x)[0]
                assert mx.allclose(got, (x - x.mean(axis=0)).reshape(-1)), (order, other, path)
assert refused
"""


@switches
def test_greenlets_take_turns_inside_exports_for_any_shape(tmp_path):
    command = [sys.executable, "-c", ANY_SHAPE_EXPORT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, (done.returncode, done.stderr)


SIGNALS = """
import os
import re

import mlx.core as mx

x = mx.eye(16) + mx.random.uniform(shape=(1 << 9, 16, 16))
with mx.stream(mx.cpu):
    mx.eval(mx.linalg.inv(x), mx.sort(mx.random.normal((1 << 16,))))
    y = mx.sort(x, axis=0)
    mx.async_eval(y)  # by the stream's own thread
    mx.eval(y)
for task in os.listdir("/proc/self/task"):
    if int(task) != os.getpid():
        with open(f"/proc/self/task/{task}/status") as status:
            name, blocked = re.search("Name:\\t(.*)\\n(?:.*\\n)*SigBlk:\\t(.*)\\n", status.read()).groups()
        for signal in 1, 2, 10, 12, 14, 15, 17:
            assert int(blocked, 16) >> (signal - 1) & 1, f"the thread {name} takes signal {signal}"
print("left to the program", len(os.listdir("/proc/self/task")) > 1 or os.cpu_count() == 1)
"""


def test_threads_of_the_library_leave_signals_to_those_of_the_program():
    done = subprocess.run([sys.executable, "-c", SIGNALS], capture_output=True, text=True, timeout=60)
    assert done.stdout == "left to the program True\n", done.stderr


def together(count, f):
    """f(0), f(1), ... in threads that begin at once; returns what went wrong."""
    begin, errors = threading.Barrier(count), []

    def run(i):
        begin.wait()
        try:
            f(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return errors


@pytest.fixture
def often():
    """Threads take turns at nearly every instruction."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("shared", [True, False], ids=["one function", "a function each"])
def test_first_calls_of_functions_that_capture_one_state(often, shared):
    for _ in range(10):
        model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])
        mx.eval(model.parameters())
        f = [mx.compile(lambda x: model(x), inputs=model.state)] * 3  # noqa: B023
        if not shared:
            f = [mx.compile(lambda x: model(x), inputs=model.state) for _ in f]  # noqa: B023
        want = [model(mx.ones((n + 1, 4))) for n in range(3)]
        mx.eval(want)

        def call(n):
            assert mx.allclose(f[n](mx.ones((n + 1, 4))), want[n], atol=1e-6).item()  # noqa: B023

        assert not together(3, call)
        assert all(mx.isfinite(w).all().item() for _, w in tree_flatten(model.parameters()))


def test_calls_that_replace_one_state(often):
    state = {"n": mx.array(0)}
    mx.eval(state)

    def step(x):
        state["n"] = state["n"] + x
        return state["n"]

    f = mx.compile(step, inputs=state, outputs=state)

    def call(i):
        for _ in range(50):
            f(mx.array(1))

    assert not together(3, call)
    assert state["n"].item() == 150


def test_each_thread_draws_from_a_state_of_its_own(often):
    mx.random.seed(3)
    alone = [mx.random.uniform().item() for _ in range(5)]
    mx.random.seed(3)
    fresh, seeded = [], []

    def draw(i):
        if i == 0:
            fresh.append(mx.random.uniform(shape=(4,)).tolist())
        mx.random.seed(i)
        seeded.append((i, mx.random.uniform().item()))

    assert not together(4, lambda _: fresh.append(mx.random.uniform(shape=(4,)).tolist()))
    assert not together(3, draw)
    assert [mx.random.uniform().item() for _ in range(5)] == alone
    assert len({str(x) for x in fresh}) == len(fresh) == 5
    for i, x in seeded:
        mx.random.seed(i)
        assert mx.random.uniform().item() == x


def test_draws_beside_a_trace_that_captures_the_state(often):
    def step(x):
        for _ in range(40):
            x = x + mx.random.uniform(shape=(2,))
        return x

    def work(i):
        if i:
            for _ in range(100):
                mx.eval(mx.random.normal((2,)))
        else:
            for n in range(1, 6):
                mx.eval(mx.compile(step, inputs=mx.random.state, outputs=mx.random.state)(mx.ones((n, 2))))

    assert not together(3, work)
    mx.eval(mx.random.normal((2,)))


@pytest.mark.parametrize("streams", [1, 2])
def test_a_loop_that_waits_for_nothing_does_not_run_ahead_without_end(streams):
    s = [mx.new_stream(mx.cpu) for _ in range(streams)]
    with mx.stream(mx.cpu):
        w = mx.ones((256, 256)) / 256
        mx.eval(w)
    before = mx.set_memory_limit(mx.get_active_memory() + (48 << 20))
    try:
        x = w
        for i in range(200):
            batch = mx.array(np.ones((512, 512), np.float32))  # a MB, as long as the step has not run
            with mx.stream(s[i % streams]):
                for _ in range(4):
                    x = w @ x
                x = x + batch[:256, :256] * 0
                mx.async_eval(x)
        mx.eval(x)
    finally:
        mx.set_memory_limit(before)
    assert mx.allclose(x, w).item()


def test_all_who_wait_for_an_array_hear_why_there_is_none(often, index_errors):
    heard = []
    for _ in range(300):
        x = mx.arange(10.0)[mx.array([3, 20]) + 0] + 1

        def work(_, x=x):
            with pytest.raises(IndexError, match="index 20 at position") as error:
                mx.eval(x)
            heard.append((error.type, str(error.value)))

        assert not together(2, work)
    assert len(heard) == 600 and len(set(heard)) == 1
