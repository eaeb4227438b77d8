"""A transformer as language models are, here (`ours`) and in PyTorch (`torchs`): one that writes words after a text,
reads one, and is trained."""

import os
from dataclasses import dataclass

WRITTEN = 32  # words


@dataclass
class Sizes:
    layers: int
    width: int
    heads: int
    hidden: int
    words: int = 32_000

    @property
    def head(self):
        return self.width // self.heads


BILLION = Sizes(16, 2048, 32, 8192)  # 1.14e9 parameters
SMALL = Sizes(4, 256, 8, 1024, 4096)
if os.environ.get("BENCH_FEW") == "1":  # as in cases
    BILLION = SMALL = Sizes(2, 64, 2, 128, 512)
