"""NVIDIA's libraries beside the driver: where they are looked for, products of matrices by cuBLASLt, singular values
and eigenvalues by cuSOLVER, Fourier transforms by cuFFT; skipped where there is no GPU. On the emulated driver a
library of the tests stands for all of them (tests/emulated/libraries.c, cufft.c)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import mlx
import mlx.core as mx
import pytest

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")
HERE = Path(__file__).parent
EMULATED = mx.is_available(mx.gpu) and mx.device_info(mx.gpu)["device_name"] == "emulated"
BESIDE = Path(os.environ.get("LD_LIBRARY_PATH", "").split(":")[0]).resolve()
FOLDER = BESIDE / "libraries"
OURS = Path(os.path.dirname(mlx.__file__), "lib").resolve()
FILE = "libcublasLt.so.12"
NAMES = ["cublasLt", "cudnn", "cufft", "cusolver", "nvrtc", "nccl"]
pretended = pytest.mark.skipif(not EMULATED, reason="the library is that of the emulated driver")


def run(code, **around):
    """What a program prints, as JSON; MLX_CUDA_LIBRARIES and the like are as said."""
    env = {k: v for k, v in os.environ.items() if k not in ("MLX_CUDA_LIBRARIES", "CUDA_HOME", "PRETEND")}
    env |= {"LD_LIBRARY_PATH": str(BESIDE)} if EMULATED else {}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env | {k: str(v) for k, v in around.items()},
        capture_output=True,
        text=True,
        cwd=HERE,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


LIBRARIES = "import json, mlx.core as mx; print(json.dumps(mx.cuda.libraries()))"


def test_none_is_needed():
    found, said = run(LIBRARIES, MLX_CUDA_LIBRARIES="0")
    assert found == dict.fromkeys(NAMES) and not said


def test_a_pipe_is_none(tmp_path):
    """The loader would wait for somebody to write."""
    os.mkfifo(tmp_path / FILE)
    found, _ = run(LIBRARIES, MLX_CUDA_LIBRARIES=str(tmp_path))
    assert not (found["cublasLt"] or {"path": ""})["path"].startswith(str(tmp_path))


@pretended
def test_none_is_used_without_a_device():
    found, said = run(LIBRARIES, MLX_CUDA_LIBRARIES=str(FOLDER), PRETEND_DEVICES="0")
    assert found["nvrtc"] and not any(facts and facts["used_for"] for facts in found.values()) and not said


@pretended
def test_what_is_told_of_those_that_are_found(tmp_path):
    versions = {
        "libcublasLt.so.12": "12.8.5",
        "libcudnn.so.9": "9.19.0",
        "libcufft.so.11": "11.3.3",
        "libcusolver.so.11": "11.7.3",
        "libnvrtc.so.12": "12.8",
        "libnccl.so.2": "2.27.3",
    }
    for file in versions:
        shutil.copy(FOLDER / FILE, tmp_path / file)
    found, said = run(LIBRARIES, MLX_CUDA_LIBRARIES=f"{tmp_path / 'nowhere'}:{tmp_path}")
    assert {facts["path"]: facts["version"] for facts in found.values()} == {
        str(tmp_path / file): version for file, version in versions.items()
    }
    used = {name: facts["used_for"] for name, facts in found.items()}
    assert used == dict.fromkeys(NAMES) | {
        "cublasLt": "matmul and addmm of float32, float16 and bfloat16",
        "cudnn": "convolutions, and attention of half types",
        "cufft": "Fourier transforms of rows and of two axes",
        "cusolver": "factors, singular values and eigenvalues of large matrices",
        "nvrtc": "kernels given as text, and of element-wise programs that run often",
    }
    assert not said
    told = run("import json, mlx.__main__ as m; print(json.dumps([*m.info()]))", MLX_CUDA_LIBRARIES=str(FOLDER))[0]
    assert "gpu 0: emulated, sm_90" in told and len(told) >= 3 + len(NAMES)
    assert f"cublasLt: 12.8.5, {FOLDER / FILE}; used for matmul and addmm of float32, float16 and bfloat16" in told


@pretended
@pytest.mark.parametrize("place", ["loader", "packages", "packages of 13", "toolkit"])
def test_where_it_is_looked_for(tmp_path, place):
    site = tmp_path / "site-packages"
    folder = {
        "loader": tmp_path,
        "packages": site / "nvidia" / "cublas" / "lib",
        "packages of 13": site / "nvidia" / "cu13" / "lib",
        "toolkit": tmp_path / "lib64",
    }[place]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).symlink_to(FOLDER / FILE)
    ours = site / "mlx" / "lib"  # as in a wheel
    ours.mkdir(parents=True)
    for file in (BESIDE / "libmlx.so.0", BESIDE / "libcuda.so.1", *OURS.glob("libscipy_openblas.so")):
        (ours / file.name).symlink_to(file)
    path = f"{ours}:{folder}" if place == "loader" else str(ours)
    found, _ = run(LIBRARIES, LD_LIBRARY_PATH=path, **({"CUDA_HOME": str(tmp_path)} if place == "toolkit" else {}))
    assert os.path.realpath(found["cublasLt"]["path"]) == os.path.realpath(FOLDER / FILE)
    assert found["cublasLt"]["path"] == str(folder / FILE)
    assert found["cublasLt"]["used_for"]


@pretended
def test_one_that_is_loaded_already_comes_first(tmp_path):
    (tmp_path / FILE).symlink_to("/dev/null")
    code = f"import ctypes; ctypes.CDLL({str(FOLDER / FILE)!r}); " + LIBRARIES
    found, _ = run(code, MLX_CUDA_LIBRARIES=str(tmp_path))
    assert found["cublasLt"]["path"] == str(FOLDER / FILE)


@pretended
def test_one_for_a_newer_driver_is_left(tmp_path):
    """The emulated driver is of CUDA 12."""
    (tmp_path / "libcublasLt.so.13").symlink_to(FOLDER / FILE)
    found, _ = run(LIBRARIES, MLX_CUDA_LIBRARIES=str(tmp_path))
    assert found["cublasLt"] is None or not found["cublasLt"]["path"].startswith(str(tmp_path))


# Products, each as text; whether cuBLASLt makes it, how many times it is called, and whether it adds a bias.
PRODUCTS = {
    "x(f32, 50, 60) @ x(f32, 60, 70)": (1, 0),
    "x(f16, 50, 60) @ x(f16, 60, 70)": (1, 0),
    "x(bf16, 50, 60) @ x(bf16, 60, 70)": (1, 0),
    "x(f64, 50, 60) @ x(f64, 60, 70)": (0, 0),
    "x(i32, 50, 60) @ x(i32, 60, 70)": (0, 0),
    "x(c64, 50, 60) @ x(c64, 60, 70)": (0, 0),
    "x(f32, 30, 40) @ x(f32, 40, 50)": (0, 0),  # small
    "x(f32, 500, 600) @ x(f32, 600)": (0, 0),
    "x(f32, 500) @ x(f32, 500, 600)": (0, 0),
    "x(f32, 60, 50).T @ x(f32, 70, 60).T": (1, 0),
    "x(f32, 50, 61)[:, 1:] @ x(f32, 61, 71)[1:, 1:]": (1, 0),
    "x(f32, 50, 120)[:, ::2] @ x(f32, 60, 70)": (0, 0),
    "x(f32, 50, 60)[::-1] @ x(f32, 60, 70)": (0, 0),
    "mx.broadcast_to(x(f32, 60), (50, 60)) @ x(f32, 60, 70)": (0, 0),
    "x(f32, 4, 50, 60) @ x(f32, 4, 60, 70)": (1, 0),
    "x(f32, 50, 60) @ x(f32, 4, 60, 70)": (1, 0),
    "x(f32, 4, 50, 60) @ x(f32, 60, 70)": (1, 0),
    "x(f16, 2, 20, 3, 32).swapaxes(1, 2) @ x(f16, 2, 24, 3, 32).swapaxes(1, 2).swapaxes(2, 3)": (2, 0),
    "x(f32, 2, 1, 30, 40) @ x(f32, 1, 3, 40, 50)": (2, 0),
    "x(f32, 4, 50, 60)[::-1] @ x(f32, 4, 60, 70)": (0, 0),
    "mx.addmm(x(f32, 70), x(f32, 50, 60), x(f32, 60, 70))": (1, 1),
    "mx.addmm(x(bf16, 70), x(bf16, 50, 60), x(bf16, 60, 70), 0.5)": (1, 1),
    "mx.addmm(x(f16, 70), x(f16, 4, 50, 60), x(f16, 60, 70))": (1, 1),
    "mx.addmm(x(f16, 70), x(f16, 50, 60), x(f16, 4, 60, 70))": (1, 1),
    "mx.addmm(x(f32, 71)[1:], x(f32, 50, 60), x(f32, 60, 70))": (1, 1),
    "mx.addmm(x(f32, 70), x(f32, 50, 60), x(f32, 60, 70), 1, 2)": (0, 0),
    "mx.addmm(x(f32, 50, 1), x(f32, 50, 60), x(f32, 60, 70))": (0, 0),
    "mx.addmm(x(f32, 50, 70), x(f32, 50, 60), x(f32, 60, 70), -1, 2)": (1, 0),
    "mx.addmm(x(f32, 50, 70), x(f32, 50, 60), x(f32, 60, 70), 1, 0)": (0, 0),
    "mx.addmm(x(bf16, 3, 50, 70), x(bf16, 1, 50, 60), x(bf16, 3, 60, 70), 2, 0.5)": (1, 0),
    "mx.addmm(x(f32, 50, 70), x(f32, 2, 1, 50, 60), x(f32, 3, 60, 70), 1, 3)": (2, 0),
}
CODE = """
import ctypes, json
import mlx.core as mx
import mlx.nn as nn
import numpy as np

f16, bf16, f32, f64, i32, c64 = mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.int32, mx.complex64
def x(dtype, *shape):
    n = 0
    for s in shape:
        n = n * 31 + s
    y = np.random.default_rng(n).integers(-8, 9, shape)
    return mx.array(y.tolist(), mx.float32 if dtype == f64 else dtype).astype(dtype, stream=mx.cpu)
def count():
    return [*(ctypes.c_int * 6).in_dll(ctypes.CDLL(FILE), "emulated_products")] if FILE else [0] * 6
def made(text):
    before = count()
    try:
        with mx.stream(mx.gpu):
            here = eval(text)
            mx.eval(here)
        with mx.stream(mx.cpu):
            equal = mx.array_equal(here, eval(text)).item()
    except Exception as e:
        equal = str(e)
    return equal, [b - a for a, b in zip(before, count())]
"""


def products(texts, file=FOLDER / FILE, **around):
    """Of each: whether it is the CPU's to the bit, as sums of small integers are, or what was raised; the library's
    counts."""
    code = f"FILE = {str(file) if file else None!r}\n{CODE}\nprint(json.dumps([made(t) for t in {texts!r}]))"
    return run(code, **around)


@pretended
def test_which_products_it_makes():
    results, said = products([*PRODUCTS], MLX_CUDA_LIBRARIES=str(FOLDER))
    assert not said
    for text, (equal, n) in zip(PRODUCTS, results):
        first = text == next(iter(PRODUCTS))  # and a trial
        assert (text, equal, n[0] - first, n[1]) == (text, True, *PRODUCTS[text])


RELUS = {
    "x(f32, 50, 60) @ x(f32, 60, 70)": [1, 0, 0],
    "mx.maximum(x(f32, 50, 60) @ x(f32, 60, 70), 0)": [1, 0, 1],
    "nn.relu(mx.addmm(x(bf16, 70), x(bf16, 50, 60), x(bf16, 60, 70)))": [1, 1, 1],
    "nn.relu(mx.addmm(x(f16, 50, 70), x(f16, 50, 60), x(f16, 60, 70), 2, 0.5)) * 3 + 1": [1, 0, 1],
    "nn.relu(x(f32, 2, 50, 60) @ x(f32, 2, 60, 70)) - x(f32, 50, 60) @ x(f32, 60, 70)": [2, 0, 1],
    "(lambda y: nn.relu(y) - y)(x(f32, 50, 60) @ x(f32, 60, 70))": [1, 0, 0],
    "mx.maximum(0, x(f32, 50, 60) @ x(f32, 60, 70))": [1, 0, 1],
    "mx.maximum(x(f32, 50, 60) @ x(f32, 60, 70), -0.0)": [1, 0, 0],
    "mx.maximum(x(f32, 50, 60) @ x(f32, 60, 70), 1)": [1, 0, 0],
    "mx.maximum(x(f32, 50, 60) @ x(f32, 60, 70), x(f32, 70))": [1, 0, 0],
    "mx.maximum(x(f64, 50, 60) @ x(f64, 60, 70), 0)": [0, 0, 0],
    "mx.maximum(x(f32, 30, 40) @ x(f32, 40, 50), 0)": [0, 0, 0],  # small
    "nn.relu(nn.relu(x(f32, 50, 60) @ x(f32, 60, 70)) @ x(f32, 70, 60))": [2, 0, 2],
    "mx.stack([(y := x(f32, 50, 60) @ x(f32, 60, 70)), mx.maximum(y, 0)])": [1, 0, 0],
}


@pretended
@pytest.mark.parametrize("whole", [False, True], ids=["lazy", "compiled"])
def test_relu_is_made_with_the_product(whole):
    texts = [f"mx.compile(lambda: {t})()" if whole and ":=" not in t else t for t in RELUS]
    results, said = products(["mx.array(nn.relu(x(f32, 50, 60) @ x(f32, 60, 70)))", *texts], MLX_CUDA_LIBRARIES=FOLDER)
    assert not said
    for text, (equal, n) in zip(RELUS, results[1:]):
        assert (text, equal, [n[0], n[1], n[4]]) == (text, True, RELUS[text])


@pretended
@pytest.mark.parametrize("how", ["no_algorithm", "unsupported"])
def test_relu_is_made_without_the_library(how):
    """Which is known to multiply, but does not do this product."""
    texts = ["mx.maximum(x(f32, 50, 60) @ x(f32, 60, 70), 0) + 1"] * 2
    results, _ = products(texts, MLX_CUDA_LIBRARIES=FOLDER, PRETEND=how)
    assert [equal for equal, _ in results] == [True, True]


@pretended
def test_packed_weights_are_written_out_for_it():
    """Of fewer rows where there is the library: its products are worth that sooner."""
    text = "mx.quantized_matmul(x(bf16, {}, 128), *mx.quantize(x(bf16, 96, 128)))"
    for major, rows in (("8", (16, 159, 160, 1023, 1024)), ("9", (16, 1535, 1536, 1600, 2048))):
        texts = ["x(bf16, 64, 64) @ x(bf16, 64, 64)"] + [text.format(n) for n in rows]
        results, _ = products(texts, MLX_CUDA_LIBRARIES=str(FOLDER), PRETEND_MAJOR=major)
        assert [n[0] for _, n in results[1:]] == [0, 0, 1, 1, 1], major


@pretended
def test_what_is_known_to_be_aligned():
    """Axes of one matrix have any step, which says nothing of alignment: unaligned operands are read slowly."""
    texts = [
        "x(f16, 1, 48, 64) @ x(f16, 1, 64, 80)",
        "x(f16, 1, 1, 48, 64) @ x(f16, 1, 1, 80, 64).swapaxes(2, 3)",
        "x(f16, 3, 48, 64) @ x(f16, 64, 80)",
        "mx.quantized_matmul(x(f16, 1, 2048, 64), *mx.quantize(x(f16, 64, 64))) * 0",
    ]
    results, _ = products(["x(f16, 50, 60) @ x(f16, 60, 70)", *texts], MLX_CUDA_LIBRARIES=FOLDER)
    for text, (equal, n) in zip(texts, results[1:]):
        assert (text, equal, n[0], n[5]) == (text, True, 1, 1)


@pretended
def test_an_algorithm_is_asked_for_once():
    text = next(iter(PRODUCTS))
    other = "x(f32, 60, 50).T @ x(f32, 60, 70)"
    results, _ = products([text, text, other, text, other], MLX_CUDA_LIBRARIES=str(FOLDER))
    assert [n[3] for _, n in results] == [2, 0, 1, 0, 0]  # one of them for the trial


@pretended
@pytest.mark.parametrize("how", ["no_handle", "wrong", "no_algorithm", "unsupported"])
def test_what_it_cannot_do_our_kernels_do(how):
    texts = [t for t, n in PRODUCTS.items() if n[0]] * 2
    results, said = products(texts, MLX_CUDA_LIBRARIES=str(FOLDER), PRETEND=how, MLX_LOG="libraries")
    tries = {"no_handle": 0, "wrong": 1, "no_algorithm": 1, "unsupported": 1}[how]  # the trial
    assert [equal for equal, _ in results] == [True] * len(texts) and sum(n[0] for _, n in results) == tries
    assert said.strip() == {
        "no_handle": "mlx: cublasLt is not used on GPU 0: CUBLAS_STATUS_NOT_INITIALIZED",
        "wrong": "mlx: cublasLt is not used on GPU 0: a wrong product",
    }.get(how, "mlx: cublasLt is used on GPU 0")
    if how in ("no_handle", "wrong"):
        found, _ = run(LIBRARIES, MLX_CUDA_LIBRARIES=str(FOLDER), PRETEND=how)
        assert found["cublasLt"]["version"] == "12.8.5" and found["cublasLt"]["used_for"] is None


@pretended
def test_its_errors_are_named():
    texts = [t for t, n in PRODUCTS.items() if n[0]]
    results, _ = products(texts, MLX_CUDA_LIBRARIES=str(FOLDER), PRETEND="fails")
    for text, (error, _) in zip(texts, results):
        name = "addmm" if "addmm" in text else "matmul"
        assert error == f"[{name}] cuBLASLt failed with CUBLAS_STATUS_EXECUTION_FAILED; " + (
            "MLX_CUDA_LIBRARIES=0 in the environment does without it"
        )


@pretended
@pytest.mark.parametrize("tf32", [0, 1])
def test_tf32(tf32):
    texts = [t for t, n in PRODUCTS.items() if n[0]]
    results, _ = products(texts, MLX_CUDA_LIBRARIES=str(FOLDER), MLX_ENABLE_TF32=str(tf32))
    first = 1  # the trial
    for text, (equal, n) in zip(texts, results):
        assert (text, equal, n[2]) == (text, True, (n[0] - first) * tf32 * ("f32" in text))
        first = 0


SOLVED = """
import ctypes, json
import mlx.core as mx
import numpy as np

linalg = mx.linalg
def wide(x):
    return np.array(x).astype(np.complex128)
def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))
def far(x, y, dtype):
    last = 2.0**-52 if dtype == "float64" else 2.0**-23
    return float(np.abs(x - y).max() / np.abs(y).max() / last)
def by_svd(a, x, dtype):
    k = min(x.shape[-2:])
    full, thin, values = linalg.svd(a), linalg.svd(a, full_matrices=False), linalg.svd(a, compute_uv=False)
    want = np.linalg.svd(wide(x), compute_uv=False)
    errors = [far(wide(values), want, dtype)]
    for u, s, vt in (full, thin):
        u, s, vt = wide(u), wide(s), wide(vt)
        errors += [far(u[..., :k] * s[..., None, :] @ vt[..., :k, :], wide(x), dtype), far(s, want, dtype)]
        errors += [far(adjoint(v) @ v, np.eye(v.shape[-1])[None], dtype) for v in (u, adjoint(vt))]
    return errors
def by_eigh(a, x, dtype):
    errors = []
    for part in "LU":
        other = (np.triu if part == "L" else np.tril)(np.full(x.shape, np.nan), 1 if part == "L" else -1)
        h = x + adjoint(x)
        read = mx.array(h + other, a.dtype)
        w, v = linalg.eigh(read, UPLO=part)
        errors.append(far(wide(v) * wide(w)[..., None, :] @ adjoint(wide(v)), wide(h), dtype))
        errors.append(far(wide(linalg.eigvalsh(read, UPLO=part)), np.linalg.eigvalsh(wide(h)), dtype))
    return errors
def by_pinv(a, x, dtype):
    return [far(wide(linalg.pinv(a)), np.linalg.pinv(wide(x)), dtype) / np.linalg.cond(wide(x)).max()]
def by_cofactors(a, x, dtype):
    got = wide(mx.grad(lambda a: mx.real(linalg.det(a / 4)))(a))
    want = np.linalg.det(wide(x) / 4) * np.swapaxes(np.linalg.inv(wide(x)), -1, -2)
    return [far(got, np.conj(want), dtype)]
def by_eig(a, x, dtype):
    w, v = [wide(y) for y in linalg.eig(a)]
    same = np.array_equal(wide(linalg.eigvals(a)), w)
    return [far(wide(x) @ v, v * w[..., None, :], "float32"), 0 if same else 1e9]
def made(kind, dtype, shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    x = (x + 1j * rng.normal(size=shape) if dtype == "complex64" else x).astype(dtype)
    try:
        with mx.stream(mx.gpu):
            return max(kind(mx.array(x, getattr(mx, dtype)), x, dtype))
    except Exception as e:
        return str(e)
def count():
    return [*(ctypes.c_int * 7).in_dll(ctypes.CDLL(FILE), "emulated_solved")]
"""


@pytest.fixture
def solver(tmp_path):
    (tmp_path / "libcusolver.so.11").symlink_to(FOLDER / FILE)
    return tmp_path


def solved(calls, folder, **around):
    """What each of the calls gives, and how many matrices of each kind cuSOLVER has been given in the end."""
    code = f"FILE = {str(folder / 'libcusolver.so.11')!r}\n{SOLVED}\nresults = [{', '.join(calls)}]\n"
    return run(code + "print(json.dumps([results, count()]))", MLX_CUDA_LIBRARIES=str(folder), **around)


@pretended
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_large_matrices_are_solved(solver, dtype):
    shapes = {"by_svd": [(65, 65), (2, 70, 6), (2, 5, 70)], "by_eigh": [(2, 65, 65)], "by_eig": [(2, 65, 65)]}
    shapes |= {"by_pinv": [(70, 66), (2, 6, 70)], "by_cofactors": [(65, 65)]}
    calls = [f"made({kind}, '{dtype}', {shape})" for kind, all_shapes in shapes.items() for shape in all_shapes]
    (results, counts), said = solved(calls, solver, MLX_FALLBACK="error")
    assert max(results) < 300 and not said
    n = 3 * 5 + 3 + 1  # of singular values; a trial for each kind besides
    iterated, rotated = (1 + n, 0) if dtype == "complex64" else (1, 1 + n)
    assert counts[:3] == [1 + 4 * 2, iterated, 1 + 2 * 2] and counts[6] == rotated


@pretended
def test_values_that_rotations_do_not_find(solver):
    """The other way does; of larger ones it is the first to values alone."""
    calls = [f"made(by_svd, 'float32', {shape})" for shape in [(2, 70, 6), (2, 5, 70)]]
    (results, counts), _ = solved(calls, solver, PRETEND="no_rotations")
    assert max(results) < 300 and counts[1] == 1 + 12 and counts[6] == 1 + 12
    values = "float(np.array(linalg.svd(mx.ones((2050, 5)), compute_uv=False)).max()) * 0"
    (results, counts), _ = solved([values], solver)
    assert counts[1] == 2 and counts[6] == 0


FACTORED = """
def by_lu(a, x, dtype):
    places, lower, upper = [np.array(y) for y in linalg.lu(a)]
    with mx.stream(mx.cpu):
        there = np.array(linalg.lu_factor(mx.array(x, a.dtype))[1])
    same = np.array_equal(np.array(linalg.lu_factor(a)[1]), there)
    got = np.take_along_axis(wide(lower) @ wide(upper), places.astype(int)[..., None], -2)
    return [far(got, wide(x), dtype), 0 if same else 1e9]
def by_det(a, x, dtype):
    sign, size = [wide(y) for y in linalg.slogdet(a)]
    want = np.linalg.slogdet(wide(x))
    return [far(sign, want[0], dtype), far(size, want[1], dtype)]
def by_solve(a, x, dtype):
    errors = []
    for k in (1, 3):
        b = np.random.default_rng(k).normal(size=(*x.shape[:-1], k)).astype(x.dtype)
        got = wide(linalg.solve(a, mx.array(b, a.dtype)))
        errors.append(far(wide(x) @ got, wide(b), dtype) / np.linalg.cond(wide(x)).max())
    return errors
def by_inv(a, x, dtype):
    return [far(wide(linalg.inv(a)), np.linalg.inv(wide(x)), dtype) / np.linalg.cond(wide(x)).max()]
def by_cholesky(a, x, dtype):
    h = (wide(x) @ adjoint(wide(x)) + x.shape[-1] * np.eye(x.shape[-1])).astype(x.dtype)
    want, nan = np.linalg.cholesky(wide(h)), np.triu(np.full(x.shape, np.nan), 1)
    lower = wide(linalg.cholesky(mx.array(h + nan, a.dtype)))
    upper = wide(linalg.cholesky(mx.array(h + nan.swapaxes(-1, -2), a.dtype), upper=True))
    zeros = not np.triu(lower, 1).any() and not np.tril(upper, -1).any()
    return [far(lower, want, dtype), far(adjoint(upper), want, dtype), 0 if zeros else 1e9]
def by_qr(a, x, dtype):
    q, r = [wide(y) for y in linalg.qr(a)]
    want = np.linalg.qr(wide(x))
    return [far(q @ r, wide(x), dtype), far(adjoint(q) @ q, np.eye(q.shape[-1])[None], dtype),
            far(r, want[1], dtype) / 100, 0 if not np.tril(r, -1).any() else 1e9]
"""
# Each with sizes, and how many matrices cuSOLVER gets, of the kind with this place among its counts.
FACTORS = {
    ("by_cholesky", (4, 65, 65)): (3, 8),
    ("by_cholesky", (5, 65, 65)): (3, 0),  # too many
    ("by_cholesky", (200, 200)): (3, 2),
    ("by_lu", (65, 65)): (4, 2),
    ("by_lu", (2, 70, 30)): (4, 4),
    ("by_lu", (2, 30, 70)): (4, 4),
    ("by_lu", (8200, 5)): (4, 2),  # more rows than shared memory has an order of
    ("by_lu", (3, 65, 65)): (4, 0),
    ("by_lu", (64, 64)): (4, 0),
    ("by_det", (2, 70, 70)): (4, 2),
    ("by_solve", (2, 70, 70)): (4, 4),
    ("by_solve", (130, 130)): (4, 2),
    ("by_inv", (2, 70, 70)): (4, 2),
    ("by_inv", (130, 130)): (4, 1),
    ("by_qr", (70, 70)): (5, 1),
    ("by_qr", (2, 80, 30)): (5, 2),
    ("by_qr", (2, 30, 80)): (5, 2),
    ("by_qr", (3, 80, 30)): (5, 0),
}


def around_with(solver):
    """The environment in which cuSOLVER is found: the pretended one, or where the GPU is that of the machine."""
    return {"MLX_CUDA_LIBRARIES": str(solver)} if EMULATED else {}


def factored(calls, **around):
    code = f"{SOLVED}\n{FACTORED}\nprint(json.dumps([{', '.join(calls)}]))"
    return run(code, MLX_FALLBACK="error", **around)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_large_factors(solver, dtype):
    """By cuSOLVER, where it is found, and by our kernels."""
    calls = [f"made({kind}, '{dtype}', {shape})" for kind, shape in FACTORS]
    calls += [f"made({kind}, '{dtype}', (600, 600))" for kind in ("by_lu", "by_solve", "by_qr") if not EMULATED]
    for env in (around_with(solver), {"MLX_CUDA_LIBRARIES": "0"}):
        results, _ = factored(calls, **env)
        assert max(results) < 100, dict(zip(calls, results))


@pretended
def test_which_factors_cusolver_makes(solver):
    results, said = run(
        f"FILE = {str(solver / 'libcusolver.so.11')!r}\n{SOLVED}\n{FACTORED}\ncounts = [count()]\n"
        f"for kind, shape in {[*FACTORS]!r}:\n    made(eval(kind), 'float32', shape)\n    counts.append(count())\n"
        "print(json.dumps(counts))",
        MLX_CUDA_LIBRARIES=str(solver),
    )
    tried = set()
    for ((kind, shape), (at, n)), before, after in zip(FACTORS.items(), results, results[1:]):
        first = at not in tried and n > 0
        tried |= {at} if n else set()
        assert (kind, shape, after[at] - before[at] - first) == (kind, shape, n)


HARD = """
q, p = (np.linalg.qr(np.random.default_rng(k).standard_normal((145, 145)))[0] for k in (1, 2))
a = (q * np.logspace(0, -5, 145) @ p).astype(np.float32)
y = wide(linalg.inv(mx.array(a)))
print(json.dumps(np.linalg.norm(wide(a) @ y - np.eye(145)) / np.linalg.norm(a) / np.linalg.norm(y)))
"""


def test_an_inverse_of_a_hard_matrix(solver):
    """What has to be small is the matrix times its inverse, less 1, and not the other way around."""
    far, _ = run(f"{SOLVED}\n{HARD}", **around_with(solver))
    assert far < 2**-24


@pretended
@pytest.mark.parametrize("how", ["no_handle", "fails"])
def test_factors_that_cusolver_cannot_do(solver, how):
    calls = [f"made({kind}, 'float32', (70, 70))" for kind in ("by_cholesky", "by_lu", "by_inv", "by_solve", "by_qr")]
    results, said = factored(calls, MLX_CUDA_LIBRARIES=str(solver), PRETEND=how, MLX_LOG="libraries")
    if how == "no_handle":
        assert max(results) < 100
        for name in ("cholesky", "lu", "qr"):
            assert f"cusolver is not used for {name} on GPU 0: CUSOLVER_STATUS_NOT_INITIALIZED" in said
        return
    for name, result in zip(("cholesky", "lu", "inv", "solve", "qr"), results):
        assert result == f"[linalg.{name}] cuSOLVER failed with CUSOLVER_STATUS_EXECUTION_FAILED; " + (
            "MLX_CUDA_LIBRARIES=0 in the environment does without it"
        )


WRONG = """
def said(f, x):
    try:
        with mx.stream(mx.gpu):
            y = f(mx.array(x))
            y = list(y) if isinstance(y, (tuple, list)) else [y]
            mx.eval(y)
        return [np.isnan(np.array(v)).any(axis=tuple(range(1, v.ndim))).tolist() for v in y[:1]]
    except ValueError as e:
        return str(e)
x = np.broadcast_to(np.eye(70, dtype=np.float32) * 2, (2, 70, 70)).copy()
calls = (linalg.cholesky, linalg.inv, lambda x: linalg.solve(x, x), linalg.lu_factor, linalg.det, linalg.qr)
results = []
x[1, 5] = 0
results.append([said(f, x) for f in calls[:3]] + [said(linalg.cholesky, x[1]), float(linalg.det(mx.array(x))[1])])
x[1, 5, 5] = np.nan
x[1, 6] = 0
results.append([said(f, x) for f in calls])
print(json.dumps(results))
"""


def test_large_matrices_without_factors(solver):
    """Errors, and what becomes of numbers that are not finite, are the same by cuSOLVER and by our kernels."""
    by_library, by_us = [run(SOLVED + WRONG, **env)[0] for env in (around_with(solver), {"MLX_CUDA_LIBRARIES": "0"})]
    assert by_library == by_us
    wrong, odd = by_us
    assert wrong[0].endswith("matrix 1 of the batch is not positive definite")
    assert wrong[1].endswith("matrix 1 of the batch is singular") and wrong[2].endswith(
        "matrix 1 of the batch is singular"
    )
    assert wrong[3].endswith("got: matrix is not positive definite") and wrong[4] == 0
    assert odd == [[[False, True]]] * 6


@pretended
@pytest.mark.parametrize("how", ["", "no_handle", "wrong", "no_eig", "fails", "slow"])
def test_what_cusolver_cannot_do(solver, how):
    calls = [f"made({kind}, 'float32', (2, 65, 65))" for kind in ("by_eigh", "by_svd", "by_eig")]
    (results, _), said = solved(calls, solver, PRETEND=how, MLX_LOG="libraries,fallback")
    names = {"by_eigh": "eigh", "by_svd": "svd", "by_eig": "eig"}
    if how in ("fails", "slow"):
        error = {
            "fails": "cuSOLVER failed with CUSOLVER_STATUS_EXECUTION_FAILED; "
            "MLX_CUDA_LIBRARIES=0 in the environment does without it",
            "slow": "expected a matrix whose factors can be found by iteration, "
            "got: matrix 0 of the batch does not converge",
        }[how]
        assert results == [f"[linalg.{name}] {error}" for name in names.values()]
        return
    assert max(results) < 300
    why = {
        "no_handle": dict.fromkeys(names, "CUSOLVER_STATUS_NOT_INITIALIZED"),
        "wrong": {"by_eigh": "a wrong value"},
        "no_eig": {"by_eig": "CUSOLVER_STATUS_NOT_SUPPORTED"},
    }.get(how, {})
    for kind, name in names.items():
        told = f"mlx: cusolver is not used for {name} on GPU 0: {why[kind]}" if kind in why else ""
        assert (told or f"mlx: cusolver is used for {name} on GPU 0") in said.splitlines()
        assert (kind in why) == any(line.startswith(f"mlx: {name} has") for line in fallbacks(said))


def fallbacks(said):
    return [line for line in said.splitlines() if "has no kernel" in line]


@pretended
def test_without_cusolver_the_cpu_solves():
    code = f"FILE = ''\n{SOLVED}\nprint(json.dumps(made(by_svd, 'float32', (65, 65))))"
    result, said = run(code, MLX_CUDA_LIBRARIES="0", MLX_LOG="fallback")
    assert result < 300 and len(fallbacks(said)) == 1  # said once


@pretended
def test_what_is_not_finite_is_not_solved(solver):
    code = """
x = np.random.default_rng(0).normal(size=(3, 70, 66)).astype(np.float32)
x[1, 3, 2] = np.nan
with mx.stream(mx.gpu):
    a = mx.array(x)
    b = a[:, :66] + mx.eye(66)
    y = [*linalg.svd(a), linalg.svd(a, compute_uv=False), *linalg.eigh(b), *linalg.eig(b)]
    mx.eval(y)
print(json.dumps([[np.isnan(np.array(v)[i]).all().item() for i in range(3)] for v in y]))
"""
    results, _ = run(SOLVED + code, MLX_CUDA_LIBRARIES=str(solver), MLX_FALLBACK="error")
    assert results == [[False, True, False]] * 8


# Transforms, each as text, and how many of complex numbers, of real ones and back to real ones cuFFT makes.
TRANSFORMS = {
    "fft.fft(c(257, 1024))": (1, 0, 0),
    "fft.fft(c(255, 1024))": (0, 0, 0),  # few
    "fft.fft(c(32773, 8))": (1, 0, 0),
    "fft.fft(c(4100, 64))": (1, 0, 0),
    "fft.fft(c(2, 131, 1009))": (1, 0, 0),
    "fft.fft(c(2**18 + 6))": (1, 0, 0),
    "fft.fft(c(2**18, 1))": (0, 0, 0),
    "fft.fft(c(0, 1024))": (0, 0, 0),
    "fft.ifft(c(257, 1024))": (0, 0, 0),  # scaled
    "fft.ifft(c(257, 1024), norm='forward')": (1, 0, 0),
    "fft.fft(c(257, 1024), norm='ortho')": (0, 0, 0),
    "fft.ifft(c(32773, 8))": (0, 0, 0),
    "fft.ifft(c(300, 1000), norm='ortho')": (0, 0, 0),
    "fft.ifft(c(260, 1009), norm='ortho')": (1, 0, 0),
    "fft.ifft(c(2**18))": (1, 0, 0),
    "fft.fft(c(257, 1025)[:, 1:])": (1, 0, 0),
    "fft.fft(c(514, 1024)[::2])": (1, 0, 0),
    "fft.fft(c(257, 2048)[:, ::2])": (0, 0, 0),
    "fft.fft(c(257, 1024)[::-1])": (0, 0, 0),
    "fft.fft(c(3, 90, 1024)[:, 1:])": (1, 0, 0),  # a copy is made
    "fft.fft(c(1024, 257).T)": (0, 0, 0),
    "fft.fft(np.broadcast_to(c(1024), (257, 1024)))": (0, 0, 0),
    "fft.fft(c(1024, 257), axis=0)": (0, 0, 0),
    "fft.fft(c(2, 1009, 150), axis=1)": (1, 0, 0),  # columns, turned
    "fft.ifft(c(3, 17, 6000), axis=-2)": (1, 0, 0),
    "fft.fft(c(150, 2, 1009).T, axis=0)": (1, 0, 0),
    "fft.fft(c(3, 1009, 180)[:, ::-1, 30:], axis=1, norm='ortho')": (1, 0, 0),
    "fft.fft(c(1009, 250), axis=0)": (0, 0, 0),  # few
    "fft.rfft(f(1009, 270), axis=0)": (0, 1, 0),
    "fft.rfft(f(2, 2018, 70), axis=1, norm='ortho')": (0, 1, 0),
    "fft.rfft(f(2, 1001, 150), axis=1)": (0, 0, 0),
    "fft.irfft(c(505, 1000), n=1009, axis=0)": (0, 0, 0),
    "fft.fft2(c(2, 512, 512))": (1, 0, 0),
    "fft.ifft2(c(512, 600))": (1, 0, 0),  # both axes at once
    "fft.rfft(f(257, 1024))": (0, 1, 0),
    "fft.rfft(f(263, 999))": (0, 1, 0),
    "fft.rfft(f(300, 1000), norm='ortho')": (0, 0, 0),
    "fft.rfft(f(300, 999), norm='ortho')": (0, 1, 0),
    "fft.rfft(f(257, 1025)[:, 1:])": (0, 0, 0),  # not where a complex number may be
    "fft.rfft(f(257, 1026)[:, 2:])": (0, 1, 0),
    "fft.rfft2(f(2, 300, 500))": (0, 1, 0),
    "fft.irfft(c(520, 513))": (0, 0, 0),
    "fft.irfft(c(600, 501))": (0, 0, 0),
    "fft.irfft(c(140, 1010))": (0, 0, 1),
    "fft.irfft(c(600, 501), n=999)": (0, 0, 1),
    "fft.irfft(c(140, 1010), norm='forward')": (0, 0, 1),
    "fft.irfft(c(140, 2020)[:, ::2])": (0, 0, 1),
    "fft.irfft(c(1010, 140).T)": (0, 0, 1),
    "fft.irfft(c(33000, 5))": (0, 0, 0),
    "fft.irfft2(c(2, 300, 251))": (0, 0, 0),
}
TRANSFORMED = """
import ctypes, json, threading
import mlx.core as mx
import numpy as np

kind = np.array
def f(*shape):
    return kind(np.random.default_rng(0).normal(size=shape).astype(np.float32))
def c(*shape):
    rng = np.random.default_rng(0)
    return kind((rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64))
def count():
    return [*(ctypes.c_int * 5).in_dll(ctypes.CDLL(FILE), "emulated_transforms")] if FILE else [0] * 5
def evaluated(text, device):
    global kind
    if device is None:
        kind = lambda x: x.astype(np.complex128 if x.dtype == np.complex64 else np.float64)
        return eval(text, {**globals(), "fft": np.fft})
    kind = mx.array
    with mx.stream(device):
        y = eval(text.replace("np.broadcast_to", "mx.broadcast_to"), {**globals(), "fft": mx.fft})
        mx.eval(y)
    return np.array(y)
def error(y, want):
    if y.shape != want.shape or y.dtype != (np.complex64 if np.iscomplexobj(want) else np.float32):
        return 1e9
    return float(np.sqrt(np.mean(np.abs(y - want) ** 2) / np.mean(np.abs(want) ** 2)) / 2.0**-23) if want.size else 0
def made(text):
    before = count()
    e = error(evaluated(text, mx.gpu), evaluated(text, None))
    return e, [b - a for a, b in zip(before, count())]
"""


@pytest.fixture
def cufft(tmp_path):
    (tmp_path / "libcufft.so.11").symlink_to(FOLDER / FILE)
    return tmp_path


def transformed(code, folder, **around):
    begin = f"FILE = {str(folder / 'libcufft.so.11')!r}\n{TRANSFORMED}\n"
    return run(begin + code, MLX_CUDA_LIBRARIES=str(folder), MLX_FALLBACK="error", **around)


def all_made(texts):
    return f"print(json.dumps([made(t) for t in {[*texts]!r}]))"


@pretended
def test_which_transforms_it_makes(cufft):
    results, said = transformed(all_made(TRANSFORMS), cufft)
    assert not said
    first = 1  # the trial
    for text, (error, n) in zip(TRANSFORMS, results):
        assert (text, [k - first for k in n[:3]]) == (text, [*TRANSFORMS[text]])
        assert error < 4, text
        first = 0


# Both axes at once, or not.
TWO_AXES = {
    "fft.fft2(c(2, 512, 512))": 1,
    "fft.fft2(c(5, 64, 1000))": 1,
    "fft.fft2(c(300, 1031))": 1,
    "fft.fft2(c(3, 300, 601)[:, :, 1:])": 1,
    "fft.fft2(c(3, 301, 600)[:, 1:])": 1,
    "fft.fft2(c(6, 300, 310)[::2])": 1,
    "fft.ifft2(c(512, 600))": 1,
    "fft.ifft2(c(512, 600), norm='ortho')": 1,
    "fft.ifft2(fft.fft2(c(512, 600)))": 2,
    "fft.fftn(c(8, 180, 190))": 1,
    "fft.fft2(c(600, 512), axes=(1, 0))": 1,
    "fft.rfft2(f(2, 300, 500))": 1,
    "fft.rfft2(f(300, 500), axes=(1, 0))": 0,
    "fft.rfft2(f(2, 300, 501), norm='ortho')": 1,
    "fft.fft2(c(255, 1024))": 0,  # few
    "fft.fft2(c(600, 512).T)": 0,
    "fft.fft2(c(300, 1200)[:, ::2])": 0,
    "fft.fft2(c(600, 600)[::-1])": 0,
    "fft.fftn(c(300, 10, 100), axes=(0, 2))": 0,
    "fft.ifft(fft.fft(c(512, 600), axis=0))": 0,
    "fft.irfft2(c(512, 600))": 0,
}


@pretended
def test_which_transforms_of_two_axes_it_makes(cufft):
    results, said = transformed(all_made(TWO_AXES), cufft)
    assert not said
    for text, (error, n) in zip(TWO_AXES, results):
        assert (text, n[4]) == (text, TWO_AXES[text])
        assert error < 4, text


@pretended
@pytest.mark.parametrize("call", ["MakePlanMany64", "ExecC2C"])
def test_two_axes_that_cufft_gives_an_error_for(cufft, call):
    results, said = transformed(all_made(["fft.fft2(c(512, 520))"]), cufft, PRETEND=f"cufft{call}", MLX_LOG="libraries")
    assert results[0][0] < 4 and results[0][1][4] == 0
    assert " for 1 rows of 512 x 520" in said and " for 512 rows of 520" in said


@pretended
def test_first_axes_that_somebody_looks_at(cufft):
    code = """
x = c(512, 520)
with mx.stream(mx.gpu):
    y = mx.fft.fft(mx.array(x), axis=0)
    z = mx.fft.fft(y)
    mx.eval(z)
    n = count()[4]
    mx.eval(mx.fft.fft2(mx.array(x)))
want = x.astype(np.complex128)
print(json.dumps([error(np.array(y), np.fft.fft(want, axis=0)), error(np.array(z), np.fft.fft2(want)), n, count()[4]]))
"""
    (first, both, before, after), _ = transformed("kind = np.array\n" + code, cufft)
    assert max(first, both) < 4 and (before, after) == (0, 1)


CALLS = ["Create", "SetAutoAllocation", "MakePlanMany64", "SetStream", "SetWorkArea", "ExecC2C", "ExecR2C", "ExecC2R"]


@pretended
@pytest.mark.parametrize("call", CALLS)
def test_what_cufft_gives_an_error_for_our_kernels_do(cufft, call):
    texts = ["fft.ifft(c(260, 1009))", "fft.rfft(f(263, 999))", "fft.irfft(c(140, 1010))"]
    results, said = transformed(all_made(texts * 2), cufft, PRETEND=f"cufft{call}", MLX_LOG="libraries")
    assert max(error for error, _ in results) < 4
    fails = [call[:4] != "Exec" or call == exec for exec in ("ExecC2C", "ExecR2C", "ExecC2R")]
    rows = ["260 rows of 1009", "263 rows of 999", "140 rows of 2018"]
    error = "CUFFT_EXEC_FAILED" if call[:4] == "Exec" else "CUFFT_INTERNAL_ERROR"
    assert said.splitlines() == ["mlx: cufft is used on GPU 0"] + [
        f"mlx: cufft gave {error} on GPU 0 for {row}" for row, failed in zip(rows, fails) if failed
    ]
    for i in range(3):
        assert sum(n[i] for _, n in results) == 1 + 2 * (not fails[i])  # and a trial
    assert sum(n[3] for _, n in results) == fails.count(False)  # plans that fail are closed


@pretended
@pytest.mark.parametrize("how", ["no_handle", "wrong_transform"])
def test_cufft_is_tried_first(cufft, how):
    results, said = transformed(all_made(["fft.fft(c(300, 1000))"]), cufft, PRETEND=how, MLX_LOG="libraries")
    why = {"no_handle": "CUFFT_INTERNAL_ERROR", "wrong_transform": "a wrong transform"}[how]
    assert said.strip() == f"mlx: cufft is not used on GPU 0: {why}"
    assert results[0][0] < 4 and results[0][1] == [how != "no_handle", 0, 0, 0, 0]
    found, _ = run(LIBRARIES, MLX_CUDA_LIBRARIES=str(cufft), PRETEND=how)
    assert found["cufft"]["version"] == "11.3.3" and found["cufft"]["used_for"] is None


@pretended
def test_plans_are_bounded(cufft):
    texts = [f"fft.fft(c({2**18 // n + 1}, {n}))" for n in range(100, 140)]
    results, _ = transformed(all_made(texts + texts[-3:]), cufft)
    assert max(error for error, _ in results) < 4
    assert sum(n[3] for _, n in results) == 32 and [n[3] for _, n in results[-3:]] == [0] * 3


@pretended
def test_threads_have_plans_of_their_own(cufft):
    code = """
text = "fft.ifft(c(260, 1009))"
x, want, errors = mx.array(c(260, 1009)), evaluated(text, None), []
def work():
    with mx.stream(mx.new_stream(mx.gpu)):
        for _ in range(3):
            errors.append(error(np.array(mx.fft.ifft(x)), want))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps([errors, count()[0]]))
"""
    (errors, n), _ = transformed(code, cufft)
    assert len(errors) == 12 and max(errors) < 4 and n == 1 + 12


def test_plans_go_while_others_work(cufft):
    """More than are kept, on several streams at a time; only a GPU can fail it: the emulated library works at once."""
    code = """
rows, errors = [2**18 // n + 1 for n in range(100, 148)], []
x = [mx.array(c(rows[i], 100 + i)) for i in range(48)]
def work(k):
    with mx.stream(mx.new_stream(mx.gpu)):
        made = [mx.fft.fft(x[i]) for i in range(k, 48, 4)]
        mx.eval(made)
        for y, i in zip(made, range(k, 48, 4)):
            a, b = np.array(y)[-1], np.fft.fft(np.array(x[i])[-1].astype(np.complex128))
            errors.append(float(np.abs(a - b).max() / np.abs(b).max()))
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps([errors, []]))
"""
    (errors, _), _ = transformed(code, cufft)
    assert len(errors) == 48 and max(errors) < 1e-5


@pytest.mark.parametrize("name", ["products", "fft"])
def test_all_that_our_kernels_do(name, cufft):
    """Their tests, with the library that is found."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"test_gpu_{name}.py"]
    here = {"LD_LIBRARY_PATH": str(BESIDE), "MLX_CUDA_LIBRARIES": f"{FOLDER}:{cufft}"}
    env = os.environ | (here if EMULATED else {})
    done = subprocess.run(command, cwd=HERE, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
