"""Several threads at once."""

import subprocess
import sys

import mlx.core as mx
import numpy as np

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
    while time.monotonic() < end:
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
assert not wrong and all(done), (wrong, done)
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
