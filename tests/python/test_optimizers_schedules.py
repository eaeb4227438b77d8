"""Learning-rate schedules against their formulas."""

import math

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
import pytest


def check(schedule, want, steps=range(12)):
    for step in steps:
        for given in (step, mx.array(step), mx.array(step, mx.uint64)):
            got = schedule(given)
            got = got.item() if isinstance(got, mx.array) else got
            assert got == pytest.approx(want(step), rel=1e-5, abs=1e-7), (step, type(given))


def test_exponential_decay():
    check(optim.exponential_decay(0.1, 0.9), lambda t: 0.1 * 0.9**t)


def test_step_decay():
    check(optim.step_decay(0.1, 0.5, 3), lambda t: 0.1 * 0.5 ** (t // 3))


@pytest.mark.parametrize("end", [0.0, 0.02, 0.3])
def test_cosine_decay(end):
    def want(t):
        return end + (0.1 - end) * (1 + math.cos(math.pi * min(t, 8) / 8)) / 2

    check(optim.cosine_decay(0.1, 8, end), want)


@pytest.mark.parametrize("init, end", [(0.0, 0.1), (0.1, 0.02)])
def test_linear_schedule(init, end):
    check(optim.linear_schedule(init, end, 5), lambda t: init + (end - init) * min(t, 5) / 5)


def test_join_schedules():
    joined = optim.join_schedules(
        [
            optim.linear_schedule(0.0, 0.1, 3),
            optim.exponential_decay(0.1, 2.0),
            optim.cosine_decay(1.0, 4),
        ],
        [3, 7],
    )

    def want(t):
        if t < 3:
            return 0.1 * t / 3
        if t < 7:
            return 0.1 * 2 ** (t - 3)
        return (1 + math.cos(math.pi * min(t - 7, 4) / 4)) / 2

    check(joined, want, range(14))
    check(optim.join_schedules([lambda t: t * 2], []), lambda t: 2 * t)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: optim.cosine_decay(0.1, 0), r"\[cosine_decay\] expected decay_steps > 0, got 0"),
        (lambda: optim.linear_schedule(0, 1, 0), r"\[linear_schedule\] expected steps > 0, got 0"),
        (lambda: optim.step_decay(0.1, 0.9, 0), r"\[step_decay\] expected step_size > 0, got 0"),
        (lambda: optim.join_schedules([], []), "at least one schedule"),
        (lambda: optim.join_schedules([abs, abs], []), "expected 1 boundaries .* got 0"),
    ],
)
def test_limits(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("step", [64, mx.array(64, mx.uint64), mx.array(64, mx.int32), np.uint64(64)], ids=repr)
def test_powers_do_not_wrap(step):
    for init, rate in [(1, 2), (1.0, 2), (-1, 2), (3, -2), (1, mx.array(2))]:
        want = init * (2.0**64)
        assert float(optim.exponential_decay(init, rate)(step)) == want
        assert float(optim.step_decay(init, rate, 1)(step)) == want
    assert optim.exponential_decay(3, 2)(4) == 48


def test_an_optimizer_follows_its_schedule():
    schedule = optim.join_schedules([optim.linear_schedule(0.0, 1.0, 2), optim.cosine_decay(1.0, 4)], [2])
    optimizer = optim.SGD(schedule)
    w, steps = {"w": mx.array([0.0])}, []
    for _ in range(6):
        new = optimizer.apply_gradients({"w": mx.array([1.0])}, w)
        steps.append((w["w"] - new["w"]).item())
        w = new
    want = [0, 0.5] + [(1 + math.cos(math.pi * t / 4)) / 2 for t in range(4)]
    np.testing.assert_allclose(steps, want, atol=1e-6)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.Adafactor, optim.Muon])
def test_a_schedule_may_return_a_number(make):
    """Of Python or of NumPy, as one that returns arrays."""
    rates = [0.5, 0.25, 0.125]
    ways = [lambda t: rates[int(t)], lambda t: np.float64(rates[int(t)]), lambda t: mx.array(rates[int(t)])]
    found = []
    for way in ways:
        optimizer, w = make(learning_rate=way), {"w": mx.array([[1.0, 2.0], [3.0, 4.0]])}
        for i in range(3):
            w = optimizer.apply_gradients({"w": w["w"] * 0.5}, w)
            assert optimizer.learning_rate.item() == rates[i]
        found.append(w["w"].tolist())
    assert found[0] == found[1] == found[2] and np.isfinite(found[0]).all()


@pytest.mark.parametrize("value", [None, "0.1", [0.1]])
def test_a_schedule_that_returns_no_number(value):
    optimizer = optim.SGD(lambda step: 0.1 if step.item() == 0 else value)
    w = {"w": mx.ones(2)}
    optimizer.apply_gradients(w, w)
    with pytest.raises(mx.ConversionError, match=r"\[SGD\] expected a number for learning_rate, got"):
        optimizer.apply_gradients(w, w)
