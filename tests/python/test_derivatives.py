"""Values and derivatives of every function, element by element over the range of every floating dtype.

The tables are judge_core.py, judge_linalg.py and judge_nn.py, what they are judged by judge.py. `make test` looks at a
few points of each row, `make test-full` at all. The errors seen, as a table:
`python tests/python/test_derivatives.py [NAME...]`.
"""

import sys

import mlx.core as mx
import mlx.nn as nn
import pytest
from judge import KINDS, judge
from judge_core import ROWS as CORE
from judge_linalg import ROWS as LINALG
from judge_nn import ROWS as NN

ROWS = {row.name: row for row in CORE + LINALG} | {f"nn.{row.name}": row for row in NN}
FEW = 10  # points in `make test`


def complaints(row, most=None):
    with mx.stream(mx.cpu):
        return [str(c) for kind in row.kinds for c in judge(row, KINDS[kind], most).complaints]


@pytest.mark.parametrize("name", ROWS)
def test_some_points(name):
    wrong = complaints(ROWS[name], FEW)
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_every_point(name):
    wrong = complaints(ROWS[name])
    assert not wrong, "\n".join(wrong[:20])


# ---- what is judged: all, but for these


def words(text):
    return text.split()


# Other names of functions that are judged.
ALIASES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "concat": "concatenate",
    "cumulative_prod": "cumprod",
    "cumulative_sum": "cumsum",
    "matrix_norm": "linalg.norm",
    **{f"linalg.{n}": n for n in words("diagonal matmul matrix_transpose outer tensordot trace vecdot")},
    "linalg.matrix_norm": "linalg.norm",
    "linalg.svdvals": "linalg.svd",
    "permute_dims": "transpose",
    "pow": "power",
}

UNJUDGED = {
    "no derivative: integers, bool, or constant between jumps": words("""
        all allclose any argmax argmin argpartition argsort argwhere array_equal bitwise_and bitwise_invert
        bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil count_nonzero equal flatnonzero floor
        floor_divide greater greater_equal isclose isfinite isin isinf isnan isneginf isposinf left_shift less
        less_equal linalg.matrix_rank logical_and logical_not logical_or logical_xor nextafter nonzero not_equal
        right_shift round searchsorted sign signbit trunc unique unique_all unique_counts unique_inverse unique_values
        nn.step nn.Step stop_gradient divmod"""),
    "hands its operand on, or parts of it": words("""
        asarray conj conjugate real imag positive from_dlpack view depends nn.Dropout nn.Dropout2d nn.Dropout3d"""),
    "makes an array of nothing that it could be differentiated by": words("""
        arange bartlett blackman empty empty_like eye full full_like hamming hanning identity linspace ones ones_like
        tri zeros zeros_like fft.fftfreq fft.rfftfreq load"""),
    "of a key; what else they take is added or multiplied, as in random.uniform and random.normal": words("""
        random.bernoulli random.categorical random.gumbel random.key random.laplace random.multivariate_normal
        random.permutation random.randint random.seed random.split random.truncated_normal"""),
    "rounds to a format of few bits, which has no derivative; its layers are quantized_matmul and dequantize": words("""
        from_fp8 gather_qqmm qqmm quantize to_fp8 nn.QQLinear nn.QuantizedLinear nn.QuantizedEmbedding nn.quantize"""),
    "functions of functions, tests/python/test_transforms.py and test_control.py": words("""
        checkpoint compile cond export_function export_to_dot exporter grad hessian import_function inspect_function
        jacfwd jacrev jvp linearize pullback scan value_and_grad vjp vmap while_loop nn.value_and_grad"""),
    "devices, memory, settings, files, questions": words("""
        async_eval broadcast_shapes can_cast clear_cache clear_streams default_device default_stream device_count
        device_info disable_compile einsum_path enable_compile eval get_active_memory get_array_buffer_size
        get_cache_memory get_memory_limit get_peak_memory get_printoptions is_available isdtype issubdtype new_stream
        new_thread_local_stream new_thread_unsafe_stream printoptions reset_peak_memory result_type save save_gguf
        save_safetensors savez savez_compressed set_cache_limit set_checks set_default_device set_default_stream
        set_index_errors set_memory_limit set_printoptions set_wired_limit stream synchronize"""),
    "the rules are those of a user's text": words(
        "fast.cpu_kernel fast.cuda_kernel fast.metal_kernel fast.precompiled_cuda_kernel"
    ),
    "several processes, tests/python/test_distributed.py": words("""
        nn.AllToShardedLinear nn.FullyShardedModule nn.QuantizedAllToShardedLinear nn.QuantizedShardedToAllLinear
        nn.ShardedToAllLinear nn.average_gradients nn.fully_shard"""),
    "what layers are made of": words("nn.Module"),
}  # fmt: skip


# What is not judged in every floating dtype, and why.
LAPACK = words(
    "inv det slogdet solve solve_triangular tri_inv cholesky cholesky_inv pinv qr lu lu_factor svd eigvalsh eigh"
)
FEWER = {
    "matrices of half types are refused": [f"linalg.{name}" for name in LAPACK],
    "complex64, whatever the operand is of": words("""
        linalg.eig linalg.eigvals fft.fft fft.fft2 fft.fftn fft.ifft fft.ifft2 fft.ifftn fft.rfft fft.rfft2 fft.rfftn
        fft.irfft fft.irfft2 fft.irfftn fft.hfft fft.ihfft fft.stft fft.istft"""),
    "float64 is refused, or becomes float32": words("""
        fast.gated_delta_update quantized_matmul gather_qmm fast.cross_entropy"""),
    "each dtype has random numbers of its own, to which the same rule applies": words("random.uniform random.normal"),
    "its frequencies are float32": words("nn.SinusoidalPositionalEncoding"),
    "float16 has no room for the cotangents": ["nn.gelu in its tail", "nn.gelu_approx in its tail"],
}


def public():
    modules = {"": mx, "linalg.": mx.linalg, "fft.": mx.fft, "fast.": mx.fast, "random.": mx.random}
    for prefix, module in (modules | {"nn.": nn, "nn.losses.": nn.losses}).items():
        for name, value in vars(module).items():
            if name.startswith("_") or not callable(value):
                continue
            layer = prefix == "nn." and isinstance(value, type)
            foreign = prefix.startswith("nn.") and not value.__module__.startswith("mlx")
            if (layer or not isinstance(value, type)) and not foreign:
                yield prefix + name


def test_every_function_is_judged_or_has_a_reason():
    """A new function is in a table here, or says why it is in none."""
    judged = {name.split()[0] for name in ROWS}
    reasons = {name for names in UNJUDGED.values() for name in names}
    names = set(public())
    assert names - judged - reasons - set(ALIASES) == set()
    assert reasons & judged == set() and reasons - names == set() and set(ALIASES) - names == set()
    assert set(ALIASES.values()) - judged == set()


def test_all_dtypes_are_judged_or_there_is_a_reason():
    assert {name for name, row in ROWS.items() if set(row.kinds) != set(KINDS)} == {
        n for ns in FEWER.values() for n in ns
    }


if __name__ == "__main__":
    for row in [ROWS[name] for name in sys.argv[1:] or ROWS]:
        for kind in row.kinds:
            verdict = judge(row, KINDS[kind])
            worst = ", ".join(f"{what} {error:.3g}" for what, (error, _) in verdict.worst.items())
            print(f"{row.name} {kind}: {worst}", *verdict.complaints[:12], sep="\n    ")


INTEGERS = [mx.bool_, mx.uint8, mx.int8, mx.int16, mx.int32, mx.int64]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("fold", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_derivatives_of_updates_of_integers_are_integers(fold, dtype):
    """Rules that divide, and write what they divided through indices."""
    i = mx.array([3, 1, 1, 2])

    def scattered(x):
        return getattr(x.at[i], fold)(x[i])

    def sliced(x):
        return getattr(x.at[1:5], fold)(x[:4])

    for f in (scattered, sliced):
        x, real = mx.arange(1, 34).astype(dtype), mx.arange(1.0, 34.0)
        for derive in (lambda f, x: mx.vjp(f, [x], [mx.ones_like(x)]), lambda f, x: mx.jvp(f, [x], [mx.ones_like(x)])):
            d = derive(f, x)[1][0]
            assert d.dtype == dtype
            if fold == "multiply" and dtype != mx.bool_:
                assert d.tolist() == derive(f, real)[1][0].astype(dtype).tolist()
            elif dtype != mx.bool_:  # at most a number for each update
                assert all(abs(v) <= 3 or v == 255 for v in d.tolist())


def test_integers_between_functions_of_real_numbers():
    def f(x):
        k = x.astype(mx.int32)
        return k.at[mx.array([0, 0])].multiply(k[:2]).astype(mx.float32)

    assert mx.jvp(f, [mx.arange(1, 4)], [mx.ones(3, mx.int32)])[1][0].tolist() == [5.0, 1.0, 1.0]
    assert mx.jvp(f, [mx.arange(1.0, 4.0)], [mx.ones(3)])[1][0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("integer", [mx.int32, mx.uint8, mx.int64, mx.bool_], ids=str)
@pytest.mark.parametrize("real", [mx.float32, mx.float16, mx.float64], ids=str)
def test_integers_made_of_real_numbers_have_no_slope(real, integer):
    with mx.stream(mx.cpu):
        x = mx.array([1.2, 3.0], real)
        for w in (0.7, 1.0, 3.7):
            f = lambda x, w=w: x.astype(integer).astype(real) * w  # noqa: E731
            assert mx.vjp(f, [x], [mx.ones(2, real)])[1][0].tolist() == [0, 0]
            assert mx.jvp(f, [x], [mx.ones(2, real)])[1][0].tolist() == [0, 0]
            through = lambda x, w=w: x + mx.stop_gradient(x.astype(integer).astype(real) * w - x)  # noqa: E731
            assert mx.vjp(through, [x], [mx.ones(2, real)])[1][0].tolist() == [1, 1]
        assert mx.vjp(lambda k: k.astype(mx.int64) * 3, [mx.arange(2)], [mx.ones(2, mx.int64)])[1][0].tolist() == [3, 3]
