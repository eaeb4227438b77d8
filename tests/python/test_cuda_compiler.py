"""The text around kernels for CUDA, compiled by NVIDIA's own compiler where there is one, without a GPU: the driver is
the emulated one, which cannot load what comes out."""

import glob
import json
import os
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest
from cuda_bodies import BODIES

HERE = Path(__file__).parent
EMULATED = HERE.parents[1] / "build" / "release" / "tests" / "emulated"
PLACES = ["/usr/local/cuda*/lib64", *(f"{p}/nvidia/cuda_nvrtc/lib" for p in sys.path), *os.get_exec_path()]
FOUND = {
    number: [
        folder for place in PLACES for folder in glob.glob(place) if Path(folder, f"libnvrtc.so.{number}").exists()
    ]
    for number in (12, 13)
}
CODE = """
import json, sys
import mlx.core as mx
from cuda_bodies import call
said = {}
for name in sys.argv[1:]:
    try:
        said[name] = mx.eval(call(name)) or "runs"
    except RuntimeError as e:
        said[name] = str(e)
print(json.dumps(said))
"""


def has_headers(number):
    """Those of CUDA, which one of the kernels needs."""
    cuda = Path("/usr/local/cuda/include/cuda.h")
    return cuda.exists() and f"#define CUDA_VERSION {number}0" in cuda.read_text()


def compiled(number, tmp_path, program, *names, **around):
    """A process on the emulated driver, for which that NVRTC compiles, and the images that it leaves."""
    if not FOUND[number]:
        pytest.skip(f"no NVRTC of CUDA {number}")
    env = os.environ | {
        "LD_LIBRARY_PATH": str(EMULATED),
        "MLX_CUDA_LIBRARIES": FOUND[number][0],
        "PRETEND_DRIVER": f"{number}000",
        "XDG_CACHE_HOME": str(tmp_path),
        **around,
    }
    done = subprocess.run([sys.executable, "-c", program, *names], cwd=HERE, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done, [p.read_bytes() for p in (tmp_path / "mlx" / "cuda_kernels").iterdir()]


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="runs them on the GPU that is there")
@pytest.mark.skipif(not (EMULATED / "libmlx.so").exists(), reason="no build with the emulated driver")
@pytest.mark.parametrize("number", [12, 13])
def test_real_compiler_takes_the_text(number, tmp_path):
    names = [n for n in BODIES if n != "headers" or has_headers(number)]
    done, images = compiled(number, tmp_path, CODE, *names, MLX_DEFAULT_DEVICE="cpu")
    for name, said in json.loads(done.stdout.splitlines()[-1]).items():
        assert said.startswith(f"[cuda_kernel] the driver cannot load {name}: "), said
    assert len(images) == len(names)
    assert all(i[:4] == b"\x7fELF" and int.from_bytes(i[18:20], "little") == 190 for i in images)  # EM_CUDA


SPECIALIZED = """
import mlx.core as mx
import mlx.nn as nn
x = mx.arange(20_000.0).reshape(100, 200) / 5000 - 2
y = x[0]
for t in (mx.float32, mx.bfloat16, mx.float16, mx.int32):
    a, b = x.astype(t, stream=mx.cpu), y.astype(t, stream=mx.cpu)
    mx.eval(a, b)
    mx.eval(mx.maximum(a + b, a) * b, nn.gelu(a) / 3, mx.where(a > b, a.T.reshape(100, 200), b) == b)
facts = mx.device_info(mx.gpu)
print(facts["specialized_kernels"], facts["kernels_to_specialize"])
"""


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="runs them on the GPU that is there")
@pytest.mark.skipif(not (EMULATED / "libmlx.so").exists(), reason="no build with the emulated driver")
@pytest.mark.parametrize("number", [12, 13])
def test_real_compiler_takes_element_wise_programs(number, tmp_path):
    around = {"MLX_DEFAULT_DEVICE": "gpu", "MLX_SPECIALIZE": "now", "MLX_LOG": "libraries"}
    done, images = compiled(number, tmp_path, SPECIALIZED, **around)
    assert done.stdout.split() == ["0", "0"]  # the emulated driver loads none of them
    assert "[cuda] " in done.stderr and "refused" not in done.stderr
    assert len(images) >= 10
    assert all(i[:4] == b"\x7fELF" and int.from_bytes(i[18:20], "little") == 190 for i in images)  # EM_CUDA
