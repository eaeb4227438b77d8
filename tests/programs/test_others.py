"""Programs from PyPI that are written for the `mlx` package compute what they compute with it."""

import json
import pathlib

import numpy as np
import pytest
from others import PROGRAMS, numbers

THERE = json.loads(pathlib.Path(__file__).with_name("others_of_mlx.json").read_text())
# Relative to the largest number of a result. Wider where a program makes rounding larger: products in bfloat16, slopes
# of 25 at a threshold, hundreds of steps.
NEAR = {"mlx_lm": 1e-4, "mlx_optimizers": 1e-3, "mlx_snn": 1e-4, "mlx_audio": 1e-4, "mlx_vis": 1e-3}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_numbers(program):
    want = THERE[program.__name__]
    got = numbers(program)
    assert got.keys() == want.keys()
    for k, there in want.items():
        atol = NEAR.get(program.__name__, 2e-5) * np.abs(there).max()
        np.testing.assert_allclose(got[k], there, rtol=0, atol=atol, err_msg=k)


def test_all_were_run():
    assert {f.__name__ for f in PROGRAMS} == THERE.keys() and len(PROGRAMS) >= 10
