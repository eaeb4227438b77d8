"""Every architecture of mlx-lm, small and with random weights, gives the numbers that it gives with the `mlx`
package: logits of a prompt, of a batch, tokens with a cache, the gradient of a loss, half types, quantized."""

import json
import os
import pathlib

import numpy as np
import pytest

pytest.importorskip("mlx_lm")

from architectures import MODELS, all_models, architectures, made, study  # noqa: E402

THERE = json.loads(pathlib.Path(__file__).with_name("architectures_of_mlx.json").read_text())
SOURCE = os.environ.get("MLX_LM_SOURCE")  # the folder of mlx-lm's source, with its tests
NEAR = {"logits": 2e-5, "batch": 2e-5, "cache": 2e-5, "gradient": 2e-3, "quantized": 1e-4}


def compare(got, there):
    """What the package cannot do (half types in products with gathered matrices on a CPU) may be done here."""
    for name, want in there.items():
        if want == "fails":
            continue
        assert got[name] != "fails", name
        if name in NEAR:
            atol = NEAR[name] * np.abs(want, where=np.isfinite(want), out=np.zeros(len(want))).max()
            np.testing.assert_allclose(got[name], want, rtol=0, atol=atol, err_msg=name)
        else:
            assert got[name][0] == want[0], name
            np.testing.assert_allclose(got[name][1], want[1], rtol=0.03, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    compare(study(made(name)), THERE[f"{name} 1"])


@pytest.mark.timeout(900)
@pytest.mark.skipif(not SOURCE, reason="MLX_LM_SOURCE names no folder")
def test_models_of_its_tests():
    wrong, seen = [], set()
    for key, model in all_models(pathlib.Path(SOURCE) / "tests"):
        seen.add(key)
        if key.split()[0] not in MODELS or not key.endswith(" 1"):
            try:
                compare(study(model), THERE[key])
            except AssertionError as e:
                wrong.append(f"{key}: {e}")
    assert not wrong, "\n".join(wrong)
    assert seen == THERE.keys()
    # What these two need is not there: Metal, and a package beside mlx-lm.
    assert architectures() - {key.split()[0] for key in seen} == {"muse_spark", "olmo"}
