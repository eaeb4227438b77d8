"""mlx-lm's own tests, as they come with its source: what passes with the `mlx` package passes here."""

import os
import pathlib
import re
import subprocess
import sys

import mlx.core as mx
import pytest

pytest.importorskip("mlx_lm")

from hub import write_hub  # noqa: E402

SOURCE = os.environ.get("MLX_LM_SOURCE")  # the folder of mlx-lm's source, with its tests
METAL = {
    *(f"test_losses.py::TestLosses::test_{name}" for name in ("js_div_loss", "js_div_loss_vjp")),
    *(f"test_losses.py::TestLosses::test_{name}" for name in ("kl_div_loss", "kl_div_loss_vjp")),
    *(f"test_models.py::TestModels::test_{name}" for name in ("bitnet", "gated_delta", "gated_delta_masked")),
    *(f"test_muse_spark.py::TestMuseSpark::test_{name}" for name in ("cached_matches_forward", "forward")),
    *(f"test_muse_spark.py::TestMuseSpark::test_{name}" for name in ("left_padding", "prefill_input_embeddings")),
}
# Asked for where the default device is a GPU, of whatever kind.
METAL_IF_GPU = {
    f"test_gated_delta.py::TestGatedDelta::test_{name}"
    for name in (
        "explicit_tree_matches_simd_sum_kernel",
        "kill_switch_restores_original_kernel",
        "masked_generic_matches_ops_reference",
        "packed_matches_ops_reference",
        "packed_matches_unpacked",
        "small_head_dim_generic_matches_ops_reference",
        "unsupported_shapes_fall_back",
        "vector_gate_generic_matches_ops_reference",
    )
}
# Tokenizers, texts that only a trained model says, and data from Hugging Face.
HUGGING_FACE = {
    "test_datsets.py::TestDatasets::test_hf",
    "test_generate.py::TestGenerate::test_stream_generate_input_embeddings",
    "test_generate.py::TestGenerate::test_stream_generate_input_embeddings_prefill",
    "test_tokenizers.py::TestTokenizers::test_detokenizers_are_independent",
    "test_tokenizers.py::TestTokenizers::test_naive_detokenizer_holds_back_partial_characters",
    "test_tokenizers.py::TestTokenizers::test_special_tokens",
    "test_tokenizers.py::TestTokenizers::test_thinking",
    "test_tokenizers.py::TestTokenizers::test_tokenizers",
    "test_tokenizers.py::TestTokenizers::test_tool_calling",
    "test_utils.py::TestUtils::test_convert",
}


@pytest.mark.timeout(900)
@pytest.mark.skipif(not SOURCE, reason="MLX_LM_SOURCE names no folder")
def test_its_own_tests(tmp_path):
    write_hub(tmp_path / "hub")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "hub")}
    # test_evaluate.py asks for lm_eval, which brings PyTorch.
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "--tb=line", "--timeout", "200"]
    done = subprocess.run(
        [*command, "--ignore", "test_evaluate.py", "."],
        cwd=pathlib.Path(SOURCE) / "tests",
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    failed = set(re.findall(r"^(?:FAILED|ERROR|SUBFAILED\(.*\)) (\S+)", done.stdout, re.M))
    gpu = mx.default_device() == mx.gpu
    assert failed == METAL | HUGGING_FACE | (METAL_IF_GPU if gpu else set()), done.stdout[-5000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 319 - gpu * len(METAL_IF_GPU)
