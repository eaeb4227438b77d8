"""docs/differences.md, row by row: what each program gives here and, where it is at hand, in the mlx package."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
UPSTREAM = os.environ.get("MLX_UPSTREAM_PYTHON")

# Each program runs in a process of its own where it may die; runs alike here and there.
RUN = r"""
import ast, json, sys
import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim, numpy as np

def run(text):
    try:
        body = ast.parse(text).body
        names = {"mx": mx, "nn": nn, "optim": optim, "np": np}
        exec(compile(ast.Module(body[:-1], []), "row", "exec"), names)
        return [str(eval(compile(ast.Expression(body[-1].value), "row", "eval"), names))]
    except Exception as error:
        return [kind.__name__ for kind in type(error).__mro__]

print("\n" + json.dumps([run(text) for text in json.load(sys.stdin)]))
"""


def rows():
    """(program, here, there) of each row: code without its backticks, None for a remark."""

    def code(cell):
        return cell.strip("`").replace(r"\|", "|") if re.fullmatch("`.*`", cell) else None

    for line in PAGE.read_text().splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0].startswith("`"):
            yield tuple(code(c) for c in cells[:3])


ROWS = list(rows())


def outcomes(python, programs):
    """What each program gives: [text], the classes of its error, or ["dies"]."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", RUN], input=json.dumps(programs), capture_output=True, text=True
    )
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if len(programs) == 1:
        assert done.returncode < 0, done.stderr
        return [["dies"]]
    half = len(programs) // 2
    return outcomes(python, programs[:half]) + outcomes(python, programs[half:])


def differing(python, column):
    told = [row for row in ROWS if row[column] is not None]
    got = outcomes(python, [row[0] for row in told])
    return [(row[0], row[column], g) for row, g in zip(told, got) if row[column] not in g]


def test_every_table_row_is_read():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(ROWS) == len(lines) > 0 and all(here is not None for _, here, _ in ROWS)


def test_what_programs_give_here():
    assert differing(sys.executable, 1) == []


@pytest.mark.skipif(not UPSTREAM, reason="MLX_UPSTREAM_PYTHON names no Python with the mlx package")
def test_what_programs_give_there():
    assert differing(UPSTREAM, 2) == []
