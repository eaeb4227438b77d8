"""Compile the GPU kernels of src/cuda for the library, with NVRTC and without a GPU.

    python tools/cuda_kernels.py --out DIR --targets 80,90,ptx75 [--nvrtc libnvrtc.so.12]

Writes DIR/cuda_images.c and the compressed images that it includes.  An image is kept under the hash of all that
it is made of, so only what changed is compiled again; several are compiled at once.
"""

import argparse
import ctypes
import ctypes.util
import hashlib
import importlib.util
import lzma
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
EMULATED = "ptx0"  # as a target: nothing is compiled, tests/emulated/cuda.c has the kernels
SPECIALIZED = "cuda/kernels/specialized.h"  # what programs that are compiled at run time include (src/cuda/nvrtc.c)
# Bytes of images that are unpacked for one of them, of texts or not: drivers take longer to compile those.
MOST_TOGETHER = {True: 4 << 20, False: 2 << 20}
# What src/cuda/unpack.c takes: of texts, and of machine code, whose instructions have 16 bytes.
PACKED = {
    ptx: [{"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 24, **form}]
    for ptx, form in ((True, {"lc": 3, "lp": 0, "pb": 2}), (False, {"lc": 0, "lp": 4, "pb": 4}))
}
# One rounding: fused multiply-add only where it is written.
OPTIONS = ["-fmad=false", "--device-int128", "-default-device", "-std=c++17"]


def find_nvrtc():
    """libnvrtc of the package nvidia-cuda-nvrtc-cu12, or of a CUDA toolkit."""
    try:
        spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:  # nothing of nvidia's
        spec = None
    for place in spec.submodule_search_locations if spec else []:
        for path in sorted(Path(place, "lib").glob("libnvrtc.so.*")):
            return str(path)
    toolkits = [os.environ.get("CUDA_HOME", "/usr/local/cuda"), "/usr/local/cuda"]
    for place in [Path(t, part) for t in toolkits for part in ("lib64", "targets/x86_64-linux/lib")]:
        for path in sorted(place.glob("libnvrtc.so.*")):
            return str(path)
    if ctypes.util.find_library("nvrtc"):
        return ctypes.util.find_library("nvrtc")
    sys.exit(
        "cuda_kernels: no nvidia.cuda_nvrtc: pip install nvidia-cuda-nvrtc-cu12, or give --nvrtc (CMake: MLX_NVRTC);"
        " CMake's MLX_CUDA=OFF does without GPUs"
    )


def modules():
    """(name, file, definitions) of each line of modules.def."""
    for line in (SRC / "cuda" / "modules.def").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, file, *defined = line.split()
            yield name, file, defined


def included(path, seen):
    """The text of a file of src and of all that it includes, as one list."""
    if path in seen:
        return []
    seen.add(path)
    text = path.read_text()
    parts = [text]
    for name in re.findall(r'^\s*#\s*include "([^"]+)"', text, re.M):
        if (SRC / name).exists():
            parts += included(SRC / name, seen)
    return parts


def headers():
    """By their names the texts that such programs include, without comments."""
    texts, names = {}, [SPECIALIZED]
    for name in names:
        texts[name] = re.sub(r"/\*.*?\*/", " ", (SRC / name).read_text(), flags=re.S)
        found = re.findall(r'^\s*#\s*include "([^"]+)"', texts[name], re.M)
        names += [n for n in dict.fromkeys(found) if n not in names and (SRC / n).exists()]
    return {name: re.sub(r"[ \t]*\n\s*", "\n", text).strip() + "\n" for name, text in texts.items()}


def compile_image(nvrtc, name, file, defined, target):
    """Machine code for sm_<n>, the text of PTX for ptx<n>, or for the emulator (tests/emulated) the module's name."""
    if target == EMULATED:
        return name.encode()
    lib = ctypes.CDLL(nvrtc)
    ptx = target.startswith("ptx")
    arch = f"compute_{target[3:]}" if ptx else f"sm_{target}{'a' if for_one_device(file) else ''}"
    defined = [*defined, *["IN_TEXT"] * ptx]  # which a driver compiles at the module's first use
    text = "".join(f"#define {d.replace('=', ' ', 1)}\n" for d in defined) + f'#include "cuda/kernels/{file}"\n'
    options = [f"-arch={arch}", f"-I{SRC}", *OPTIONS]
    program = ctypes.c_void_p()
    lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None)
    given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    failed = lib.nvrtcCompileProgram(program, len(options), given)

    def get(what):
        size = ctypes.c_size_t()
        getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        getattr(lib, f"nvrtcGet{what}")(program, data)
        return data.raw

    if failed:
        raise RuntimeError(f"{name} for {arch}:\n{get('ProgramLog').decode()}")
    return get("PTX" if ptx else "CUBIN")


def for_one_device(file):
    """Does this file have what 9.0 has and later devices do not (warpgroup.h)?"""
    return any("MX_CUDA_KERNELS_WARPGROUP_H" in text for text in included(SRC / "cuda/kernels" / file, set()))


def wanted(target, targets, file):
    """Is there an image of this file for the target? Text for later devices only where it is another one than that for
    earlier ones, where it asks what a device has."""
    if for_one_device(file):
        return target in ("90", EMULATED)
    first = min((t for t in targets if t.startswith("ptx")), key=lambda t: int(t[3:]), default=None)
    asks = any("HAS_WARP_PRODUCTS" in text for text in included(SRC / "cuda/kernels" / file, set()))
    return not target.startswith("ptx") or target == first or asks


def kept(path, content):
    """The file, made of what content() gives where it is not there yet."""
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(content())
        part.rename(path)
    return path


def make(nvrtc, out, name, file, defined, target):
    """The path of one image in the folder, from its cache where nothing changed."""
    parts = [Path(nvrtc).name, name, target, *OPTIONS, *defined, *included(SRC / "cuda/kernels" / file, set())]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    path = out / f"{name}-{target}-{digest}.image"
    return kept(path, lambda: compile_image(nvrtc, name, file, defined, target))


def room(path):
    """Bytes of an image with a 0 behind it, which ends texts, so that the next is aligned."""
    return (path.stat().st_size // 16 + 1) * 16


def pack(out, target, paths):
    """The images in one stream: one that is like another before it takes little."""
    filters = PACKED[target.startswith("ptx")]
    digest = hashlib.sha256("\0".join([str(filters), *(p.name for p in paths)]).encode()).hexdigest()[:16]

    def content():
        code = b"".join(p.read_bytes().ljust(room(p), b"\0") for p in paths)
        return lzma.compress(code, format=lzma.FORMAT_RAW, filters=filters)

    return kept(out / f"{paths[0].stem.rsplit('-', 1)[0]}-{digest}.lzma", content)


def pack_headers(out):
    """Names and texts, each with a 0 behind it, in one stream: its path, what it unpacks to and how many there are."""
    texts = headers()
    data = "".join(f"{name}\0{text}\0" for name, text in texts.items()).encode()
    digest = hashlib.sha256(str(PACKED[True]).encode() + data).hexdigest()[:32]
    path = kept(out / f"headers-{digest}.lzma", lambda: lzma.compress(data, lzma.FORMAT_RAW, filters=PACKED[True]))
    return path, len(data), len(texts), digest


def streams(images):
    """Neighbours of the list that are of one file and target, as far as all of a stream, which is unpacked for each of
    them, is not long; those of the two half types in any case."""
    runs, together = [], 0
    for image in images:
        (name, file, _, target), path = image
        size = room(path)
        (before, same_file, _, same_target), _ = runs[-1][-1] if runs else ((None,) * 4, None)
        halves = before and name == before.removesuffix("f16") + "bf16"
        short = together + size <= MOST_TOGETHER[target.startswith("ptx")]
        if (file, target) == (same_file, same_target) and (halves or short):
            runs[-1].append(image)
            together += size
        else:
            runs.append([image])
            together = size
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--targets", required=True)
    parser.add_argument("--nvrtc")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="what the names of modules begin with")
    given = parser.parse_args()
    nvrtc = EMULATED if given.targets == EMULATED else given.nvrtc or find_nvrtc()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    targets = given.targets.split(",")
    asked = [
        (n, file, d, t)
        for t in targets
        for n, file, d in modules()
        if n.startswith(given.only) and wanted(t, targets, file)
    ]
    with ProcessPoolExecutor(given.jobs) as pool:
        paths = list(pool.map(make, *zip(*[(nvrtc, out, *a) for a in asked])))
        runs = streams(list(zip(asked, paths)))
        packed = list(pool.map(pack, [out] * len(runs), [r[0][0][3] for r in runs], [[p for _, p in r] for r in runs]))
    texts, texts_size, n_texts, digest = pack_headers(out)
    lines = ['#include "cuda/modules.h"', ""]
    for i, path in enumerate([*packed, texts]):
        lines.append(f'__asm__(".section .rodata\\n.balign 16\\nmx_image_{i}: .incbin \\"{path}\\"\\n.previous");')
        lines.append(f'extern const unsigned char mx_image_{i}[] __attribute__((visibility("hidden")));')
    lines += ["", "const struct gpu_image gpu_images[] = {"]
    for i, (run, path) in enumerate(zip(runs, packed)):
        size = sum(room(image) for _, image in run)
        at = 0
        for (name, file, _, target), image in run:
            ptx = target.startswith("ptx")
            number = 90 if target == EMULATED and for_one_device(file) else target.removeprefix("ptx")
            lines.append(
                f'    {{ "{name}", {number}, {int(ptx)}, mx_image_{i}, {path.stat().st_size}, {size}, {at} }},'
            )
            at += room(image)
    lines += ["};", f"const int gpu_n_images = {len(asked)};"]
    sizes = f"{texts.stat().st_size}, {texts_size}, {n_texts}"
    lines += [f'const struct gpu_headers gpu_headers = {{ mx_image_{len(packed)}, {sizes}, "{digest}" }};', ""]
    text, path = "\n".join(lines), out / "cuda_images.c"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    for old in [*out.glob("*.lzma"), *out.glob("*.image")]:
        if old not in {*paths, *packed, texts}:
            old.unlink()
    print(f"{len(asked)} images of kernels, {sum(p.stat().st_size for p in packed)} bytes")


if __name__ == "__main__":
    main()
