"""What the compiler cannot be asked about the kernels' sources."""

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
KERNELS = SOURCES / "cpu" / "kernels"
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


ATOMIC = re.compile(r"\b(?:(?:ATOMIC|atomic)\w*\(|(?:atom|red)\.)[^;\n]*")
ADD = re.compile(r"ATOMIC_ADD\(&?((?:\w+(?:\.|->))*(\w+))[,[]")
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def kernels_for_gpus():
    """Their texts without comments, by the names of the files."""
    return {f.name: COMMENT.sub("", f.read_text()) for f in sorted((SOURCES / "cuda" / "kernels").iterdir())}


def types_of(name, texts):
    """Of what is declared as that anywhere."""
    found = [m[1] for text in texts for m in re.finditer(rf"\b([A-Za-z_]\w*) +\**{name}\b(?! *\()", text)]
    return {*found} - {"return", "else"}


def adds_whole(call, texts):
    """Adds to an uint32_t, without a cast: the sum is the same in any order."""
    m = ADD.match(call)
    return bool(m) and types_of(m[2], texts) == {"uint32_t"}


def test_kernels_for_gpus_add_no_floats_in_the_order_they_come():
    """What docs/cuda.md says of the same bits each time: atomic operations count, and find the least or the last of
    integers; updates that are added up without an order are the exception that it names."""
    found, texts = {}, kernels_for_gpus()
    for name, text in texts.items():
        for m in ATOMIC.finditer(text):
            if name == "gpu.h" or not adds_whole(m[0], texts.values()):
                found.setdefault(name, []).append(m[0])
    definitions = found.pop("gpu.h")
    assert [d.split("(")[0] for d in definitions] == ["ATOMIC_MIN", "ATOMIC_MAX", "ATOMIC_ADD", "ATOMIC_SUM"] * 2
    adds = [d for d in definitions if d.startswith("ATOMIC_ADD")]
    assert all(d.startswith("ATOMIC_ADD(uint32_t *p, uint32_t v)") for d in adds)
    assert found == {
        "note.h": [found["note.h"][0]],
        "order.cu": ["ATOMIC_MAX(&a.last[at.far >> a.shift], (uint32_t)n + 1)", "ATOMIC_MAX(&last[place], at + 1)"],
        "scatter.cu": ["ATOMIC_SUM(&a.sums[at.far >> a.shift], T(f32_from)(u))"],
    }
    assert texts["scatter.cu"].count("SUM(") == 2  # and SUM of the module, in the same kernel
    assert "uint64_t first[" in texts["note.h"]
    for text in ["atomicAdd(p, x)", 'asm("red.global.add.f32 [%0], %1;"']:
        assert ATOMIC.search(text) and not adds_whole(ATOMIC.search(text)[0], texts.values())
    declared = "uint32_t n, *p; float x; T y;\nuint32_t counts[2];"
    for call, whole in {
        "ATOMIC_ADD(&counts[i], 1u)": True,
        "ATOMIC_ADD(&a.n, 1u)": True,
        "ATOMIC_ADD(&x, 1u)": False,
        "ATOMIC_ADD(&y, v)": False,
        "ATOMIC_ADD((uint32_t *)&x, 1u)": False,
        "ATOMIC_ADD(&unknown, 1u)": False,
    }.items():
        assert adds_whole(call, [declared]) == whole, call


UNORDERED = re.compile(r"\bld\.global\.(?:[\w:]+\.)*nc\b|\b__ldg\(")


def test_kernels_for_gpus_read_nothing_ahead_of_the_wait():
    """Reads of what is said to be constant may be moved ahead of AFTER_LAUNCH by the compiler, where the kernel ahead
    still writes it."""
    found = {name: UNORDERED.findall(text) for name, text in kernels_for_gpus().items()}
    assert {name: v for name, v in found.items() if v} == {}
    for text in ['asm("ld.global.nc.v4.u32 {%0}', 'asm("ld.global.L1::no_allocate.nc.v4', "__ldg(p)"]:
        assert UNORDERED.search(text)
