"""Schedules: functions of the step number, to be given to an optimizer as its learning rate.

    optimizer = optim.SGD(learning_rate=optim.cosine_decay(0.1, 1000))

The optimizer calls them with its step, an array, before each update; the first step is 0. Plain
numbers work too.
"""

import math
from collections.abc import Callable

import mlx.core as mx


def _power(decay_rate, step):
    """decay_rate^step, in floats where one of them has a dtype: powers in its integers would wrap."""
    plain = isinstance(step, (int, float)) and isinstance(decay_rate, (int, float))
    return (decay_rate if plain else decay_rate * 1.0) ** step


def exponential_decay(init: float, decay_rate: float) -> Callable:
    """init * decay_rate^step"""

    def schedule(step):
        return init * _power(decay_rate, step)

    return schedule


def step_decay(init: float, decay_rate: float, step_size: int) -> Callable:
    """init * decay_rate^floor(step / step_size)"""
    if step_size <= 0:
        raise mx.Error(f"[step_decay] expected step_size > 0, got {step_size}")

    def schedule(step):
        return init * _power(decay_rate, step // step_size)

    return schedule


def cosine_decay(init: float, decay_steps: int, end: float = 0.0) -> Callable:
    """Half a cosine wave from init down to end in decay_steps steps, and end from then on:

        end + (init - end) * (1 + cos(pi * step / decay_steps)) / 2

    (Loshchilov & Hutter, "SGDR", 2016).
    """
    if decay_steps <= 0:
        raise mx.Error(f"[cosine_decay] expected decay_steps > 0, got {decay_steps}")

    def schedule(step):
        s = mx.minimum(step, decay_steps)
        return mx.add(end, mx.multiply((init - end) * 0.5, 1 + mx.cos(s * (math.pi / decay_steps))))

    return schedule


def linear_schedule(init: float, end: float, steps: int) -> Callable:
    """A straight line from init to end in `steps` steps, and end from then on: a warm-up, say."""
    if steps <= 0:
        raise mx.Error(f"[linear_schedule] expected steps > 0, got {steps}")

    def schedule(step):
        return mx.add(init, mx.multiply(mx.minimum(step, steps), (end - init) / steps))

    return schedule


def join_schedules(schedules: list[Callable], boundaries: list[int]) -> Callable:
    """One schedule after the other: schedule i + 1 takes over at step boundaries[i].

    Each counts its steps from its own start. There is one boundary less than schedules.
    """
    if len(schedules) == 0:
        raise mx.Error("[join_schedules] expected at least one schedule, got none")
    if len(boundaries) != len(schedules) - 1:
        raise mx.Error(
            f"[join_schedules] expected {len(schedules) - 1} boundaries for {len(schedules)} "
            f"schedules, got {len(boundaries)}"
        )

    def schedule(step):
        value = schedules[0](step)
        for start, following in zip(boundaries, schedules[1:]):
            # Steps are unsigned, so the difference must not fall below 0.
            elapsed = mx.maximum(step, start) - start
            value = mx.where(step < start, value, following(elapsed))
        return value

    return schedule
