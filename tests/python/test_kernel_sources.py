"""What the compiler cannot be asked about the kernels' sources."""

import re
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "src" / "cpu" / "kernels"
LOOSE = re.compile(r"^ *typedef [\w ]+? (?:K\((\w+)\)|(\w+)) __attribute__\(\(vector_size\([^;]*\baligned\(", re.M)


def variables_of_loose_types(text):
    for match in LOOSE.finditer(text):
        name = rf"\bK\({match[1]}\)" if match[1] else rf"\b{match[2]}\b"
        yield from (m[0] for m in re.finditer(rf"{name} \w+(?: =|[,;[])[^\n]*", text))


def test_vectors_of_no_alignment_are_in_memory_alone():
    """A variable of such a type has a place in the stack that vector instructions may refuse; a load or a store through
    a pointer to it is what the type is for."""
    found = {file.name: list(variables_of_loose_types(file.read_text())) for file in KERNELS.iterdir()}
    assert {name: v for name, v in found.items() if v} == {}
    text = "typedef T K(vec) __attribute__((vector_size(64), aligned(4)));\n K(vec) a = *(const K(vec) *)p;"
    assert list(variables_of_loose_types(text)) == ["K(vec) a = *(const K(vec) *)p;"]
