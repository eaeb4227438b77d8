#!/usr/bin/env bash
# The programs of bench/gpu on a machine with an NVIDIA GPU, beside PyTorch where it can be imported.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/gpu.sh
build_cuda >/dev/null
for program in bench/gpu/bench_*.py; do
    PYTHONPATH=$PWD/build/cuda/python "${PYTHON:-.venv/bin/python}" "$program" "$@"
done
