"""Values and derivatives of every function, element by element over the range of every floating dtype.

The tables are judge_core.py and judge_nn.py, what they are judged by judge.py. `make test` looks at a few points of
each row, `make test-full` at all. The errors seen, as a table: `python tests/python/test_derivatives.py [NAME...]`.
"""

import sys

import pytest
from judge import KINDS, judge
from judge_core import ROWS as CORE

ROWS = {row.name: row for row in CORE}
FEW = 10  # points in `make test`


def complaints(row, most=None):
    return [str(c) for kind in KINDS.values() for c in judge(row, kind, most).complaints]


@pytest.mark.parametrize("name", ROWS)
def test_some_points(name):
    wrong = complaints(ROWS[name], FEW)
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_every_point(name):
    wrong = complaints(ROWS[name])
    assert not wrong, "\n".join(wrong[:20])


if __name__ == "__main__":
    for row in [ROWS[name] for name in sys.argv[1:] or ROWS]:
        for kind in KINDS.values():
            verdict = judge(row, kind)
            worst = ", ".join(f"{what} {error:.3g}" for what, (error, _) in verdict.worst.items())
            print(f"{row.name} {kind.name}: {worst}", *verdict.complaints[:12], sep="\n    ")
