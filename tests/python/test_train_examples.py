"""examples/python/train: they learn, and a run that is stopped and resumed ends with the same bits."""

import pathlib
import re
import subprocess
import sys

import mlx.core as mx
import pytest

TRAIN = pathlib.Path(__file__).parents[2] / "examples" / "python" / "train"
PROGRAMS = [["digits.py", "mlp"], ["digits.py", "convolutional"], ["language.py", "--write", 5]]
NAMES = ["mlp", "convolutional", "language"]


def run(program, out, *options):
    command = [sys.executable, TRAIN / program[0], *program[1:], "--out", out, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_resume(program, tmp_path):
    """Dropout, the order of the rows, moments and the schedule go on as if nothing had happened."""
    run(program, tmp_path / "whole", "--steps", 9)
    run(program, tmp_path / "parts", "--steps", 9, "--stop", 4)
    assert len(mx.load(str(tmp_path / "parts" / "checkpoint.safetensors"))["losses"]) == 4
    run(program, tmp_path / "parts", "--steps", 9, "--resume")
    whole, parts = ((tmp_path / name / "checkpoint.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts
    other = tmp_path / "other"
    run(program, other, "--steps", 9, "--seed", 1)
    assert (other / "checkpoint.safetensors").read_bytes() != whole


@pytest.mark.parametrize("network", ["mlp", "convolutional"])
def test_digits(network, tmp_path):
    text = run(["digits.py", network], tmp_path, "--steps", 300)
    assert float(re.search(r"accuracy ([\d.]+)%", text)[1]) > 90
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_language(tmp_path):
    """Well below the 4.9 bits a byte that frequencies of letters give; it reaches 3.75."""
    text = run(["language.py"], tmp_path, "--steps", 400, "--write", 100)
    assert float(re.search(r"([\d.]+) bits", text)[1]) < 4.1
    assert "The library " in text
