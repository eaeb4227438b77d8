"""The demo's first half, for a few epochs: it trains, and its files hold what they should."""

import pathlib
import subprocess
import sys

import mlx.core as mx
import pytest

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/python/digits.py"


def run(folder, *options):
    return subprocess.run(
        [sys.executable, DIGITS, "--out", folder, *options],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    done = run(folder, "--epochs", "3", "--at-least", "0.85")
    assert done.returncode == 0, done.stderr
    assert "Test accuracy" in done.stdout and "training: 100%" in done.stderr
    return folder


def test_picture(out):
    assert (out / "digits.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_answers_follow_from_the_weights(out):
    weights = mx.load(str(out / "digits-weights.safetensors"))
    test = mx.load(str(out / "digits-test.safetensors"))
    assert set(weights) == {f"layers.{i}.{name}" for i in range(3) for name in ("weight", "bias")}
    x = test["images"]
    assert x.shape == (360, 64) and mx.min(x).item() >= 0 and mx.max(x).item() == 1
    for i in range(3):
        x = x @ weights[f"layers.{i}.weight"].T + weights[f"layers.{i}.bias"]
        x = mx.maximum(x, 0) if i < 2 else x
    assert mx.array_equal(mx.argmax(x, axis=-1), test["answers"]).item()
    assert mx.mean(test["answers"] == test["labels"]).item() >= 0.85


def test_low_accuracy_is_an_error(tmp_path):
    done = run(tmp_path, "--epochs", "1", "--at-least", "1.01")
    assert done.returncode == 1 and "the test accuracy is below" in done.stderr
    done = run(tmp_path, "--epochs", "0")
    assert done.returncode == 2 and "--epochs" in done.stderr
