"""The tests of GPU kernels where there is no GPU: the same text, compiled for the host (tests/emulated)."""

import os
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

HERE = Path(__file__).parent
EMULATED = HERE.parents[1] / "build" / "release" / "tests" / "emulated"


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="runs them on the GPU that is there")
@pytest.mark.skipif(not (EMULATED / "libmlx.so").exists(), reason="no build with the emulated driver")
@pytest.mark.parametrize("name", sorted(p.name for p in HERE.glob("test_gpu_*.py") if p != Path(__file__)))
def test_on_the_emulated_driver(name):
    passes(name, PRETEND_DEVICES="2" if name == "test_gpu_several.py" else "1")


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="runs them on the GPU that is there")
@pytest.mark.skipif(not (EMULATED / "libmlx.so").exists(), reason="no build with the emulated driver")
def test_attention_of_other_devices():
    """By warps, where there are no products of four warps together; 12.0 has as little shared memory as 8.6."""
    names = "float16 and not derivatives and (heads or lengths or infinities_in_what)"
    passes("test_gpu_attention.py", "-k", names, PRETEND_MAJOR="8")
    passes("test_gpu_attention.py", "-k", "merged_by_the_last_block or groups", PRETEND_MAJOR="12")


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="runs them on the GPU that is there")
@pytest.mark.skipif(not (EMULATED / "libmlx.so").exists(), reason="no build with the emulated driver")
def test_packed_products_of_earlier_devices():
    passes("test_gpu_quantize.py", "-k", "tiles and bfloat16", PRETEND_MAJOR="8")


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="runs them on the GPU that is there")
@pytest.mark.skipif(not (EMULATED / "libmlx.so").exists(), reason="no build with the emulated driver")
def test_products_of_earlier_devices():
    passes("test_gpu_picks.py", "-k", "many_rows", PRETEND_MAJOR="8")
    passes("test_gpu_products.py", "-k", "tall_tiles or many_tiles", PRETEND_MAJOR="8")
    passes("test_gpu_conv.py", "-k", "many_tiles", PRETEND_MAJOR="8")


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="runs them on the GPU that is there")
@pytest.mark.skipif(not (EMULATED / "libmlx.so").exists(), reason="no build with the emulated driver")
def test_blocks_in_another_order():
    """What a block reads and another one writes would be seen."""
    products = "norm_before or gated or several_matrices"
    passes("test_gpu_products.py", "-k", products, PRETEND_LAST_FIRST="1")
    passes("test_gpu_attention.py", "-k", "merged or masks", PRETEND_LAST_FIRST="1")
    passes("test_gpu_quantize.py", "-k", "several_matrices or norm_before", PRETEND_LAST_FIRST="1")
    passes("test_gpu_rope.py", "-k", "heads", PRETEND_LAST_FIRST="1")


def passes(*arguments, **variables):
    env = {**os.environ, "LD_LIBRARY_PATH": str(EMULATED), "MLX_CPU": "base"}  # no fused multiply-add either
    env |= variables
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments],
        cwd=HERE,
        env=env,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout and "skipped" not in ran.stdout
