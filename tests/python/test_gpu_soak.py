"""Random programs on the GPU and the CPU (soak.py), a few of them; `make soak` runs many."""

import re
import subprocess
import sys

import mlx.core as mx
import pytest
import soak

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")


def test_random_programs():
    asked = ["--seconds=8", "--seed=1", "--threads=2", "--size=small"]
    ran = subprocess.run([sys.executable, soak.__file__, *asked], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counts = re.search(r"^seed 1: (\d+) graphs, (\d+) operations, 0 differ$", ran.stdout, re.M)
    assert counts and int(counts[1]) > 0 and int(counts[2]) >= 40 * int(counts[1])


def test_a_program_is_the_same_each_time():
    first, again, other = (soak.make_program(5, n, "small", 30) for n in (3, 3, 4))
    assert [v.text for v in first] == [v.text for v in again] != [v.text for v in other]
    assert not any(soak.compare(v.x, w.x) for v, w in zip(first, again, strict=True))


@pytest.mark.parametrize("wrong", [mx.cpu, mx.gpu], ids=str)
def test_what_differs_is_told(wrong, monkeypatch, capsys):
    replay = soak.replay

    def replay_wrongly(values, streams, *how):
        results = replay(values, streams, *how)
        if mx.Device(wrong) in [s.device for s in streams]:
            results[-1] = mx.zeros((1, 2, 3, 4, 5))
        return results

    monkeypatch.setattr(soak, "replay", replay_wrongly)
    asked = soak.arguments(["--seconds=60", "--seed=5", "--only=4", "--size=small"])  # one without the CPU's streams
    found = soak.Soak(asked)
    found.work()
    told = capsys.readouterr().out
    last = len(soak.make_program(5, 4, "small", asked.steps)) - 1
    where = "of a graph on the CPU" if wrong == mx.cpu else "on the GPU"
    assert found.graphs == found.differ == 1
    assert f"\nseed 5, program 4: v{last} {where} is mlx.core.float32 (1, 2, 3, 4, 5), expected " in told
    assert f"\nv{last} = " in told
