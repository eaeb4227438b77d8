"""What has no kernel on a GPU and runs on the CPU: these lists alone, which are to become shorter."""

import collections
import os
import re
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
# Decompositions, whose runners may take some sizes of matrices and leave others to LAPACK.
MATRICES = {"cofactor", "pinv", "qr", "svd", "eigh", "eig", "inverse", "solve", "det", "slogdet", "cholesky", "lu"}
# Operations without a runner there.
NONE = {
    "cpu_kernel": "a program's own text for the CPU",
    "group_norm": "builders for a GPU make it of others",
    "group_norm_vjp": "rules on a GPU make it of others",
    "norm_vjp": "rules on a GPU make it of others",
}
# Where runners decline, and what.
DECLINED = {
    "gpu_takes_attention": "2^31 rows of queries",
    "gpu_takes_conv": "2^30 positions",
    "gpu_takes_fft": "2^31 numbers, or lengths for which there is no plan",
    "gpu_takes_gathered": "float64, which builders refuse",
    "gpu_takes_load": "what is to be inflated from its beginning",
    "gpu_takes_gather": "more than 8 index arrays, or slices that lie in more than 8 pieces",
    "gpu_takes_gather_axis": "indices that are broadcast along every other one of more than 8 axes",
    "gpu_takes_lookup": "slices of more than 8 dimensions",
    "gpu_takes_nonzero": "2^32 elements",
    "gpu_takes_picked": "2^28 products",
    "gpu_takes_quantized": "float64, which builders refuse, and more than 8 dimensions of batches",
    "gpu_takes_reduce": "results of types that no function of the library asks for",
    "gpu_takes_scatter": "2^32 elements, and as gather",
    "gpu_takes_scatter_axis": "2^32 elements, and as gather_axis",
    "gpu_takes_slice_update": "sums into slices of more than 8 dimensions",
}


def rows_of(file, kind):
    for line in (SRC / file).read_text().splitlines():
        found = re.match(rf"{kind}\s*\(([^)]*)\)", line)
        if found:
            yield [word.strip() for word in found[1].split(",")]


def test_operations_without_a_runner():
    """Views are made by the host; loops and branches run where their bodies' operations do."""
    runners = {row[0] for row in rows_of("cuda/runners.def", "RUNNER")}
    others = [(row[0], row[2].split(" | ")) for row in rows_of("ops/ops.def", "OTHER")]
    assert len(others) > 80 and len(runners) > 60
    without = {name for name, traits in others if "VIEW" not in traits and name not in runners}
    assert without - MATRICES == set(NONE)


def test_runners_that_decline():
    takes = {row[2] for row in rows_of("cuda/runners.def", "RUNNER") if row[0] not in MATRICES}
    assert takes - {"gpu_takes_all"} == set(DECLINED)


@pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")
def test_no_function_falls_back():
    """Each function for each type, and those of test_any_shape.py, where falling back is an error."""
    env = {**os.environ, "MLX_FALLBACK": "error"}
    ran = subprocess.run([sys.executable, "gpu_fallbacks.py"], cwd=HERE, env=env, capture_output=True, text=True)
    *lines, last = ran.stdout.splitlines() or [""]
    assert last.startswith("done, of ") and int(last.split()[2]) > 3000, ran.stdout[-2000:] + ran.stderr[-2000:]
    found = collections.defaultdict(set)
    for line in lines:
        op, dtype, what = line.split(" ", 2)
        found[op].add(f"{what}, {dtype}")
    for op in MATRICES:
        found.pop(op, None)
    assert not found
