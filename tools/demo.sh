#!/usr/bin/env bash
# The demo: train on scanned digits from Python, then let a C program that is linked to the installed
# library classify the same test images and agree on every one.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$PWD/build/prefix
out=${OUT:-$PWD/out}

mkdir -p "$out"
.venv/bin/python examples/python/digits.py --out "$out"

cmake --install build/release --prefix "$prefix" >build/demo.log
{
    cmake -S examples/c -B build/examples -G Ninja -DCMAKE_BUILD_TYPE=Release -DMLX_ROOT="$prefix"
    cmake --build build/examples
} >>build/demo.log 2>&1 || { cat build/demo.log; exit 1; }
build/examples/digits "$out"
