"""What kind of process the tests run in, and others like it."""

import os
import subprocess
import sys
from pathlib import Path

SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")


def printed_by_threads(program):
    """All that a program prints in processes of one and of several threads."""
    return {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "MLX_NUM_THREADS": n}, capture_output=True, check=True
        ).stdout
        for n in ("1", "2", "3", "16")
    }


def passes_at_level(file, level):
    """A file of tests, with kernels for that level of instructions."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", Path(file).name],
        cwd=Path(file).parent,
        env={**os.environ, "MLX_CPU": level},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
