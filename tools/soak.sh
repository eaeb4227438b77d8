#!/usr/bin/env bash
# soak.sh SECONDS [SEED]: random programs on the GPU and the CPU for that long, their results compared
# (tests/python/soak.py). Without a GPU its kernels run on the host, one after the other (tests/emulated).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh
. tools/gpu.sh
python=${PYTHON:-.venv/bin/python}

asked=(--seconds "$1" ${2:+--seed "$2"})
if nvidia-smi >/dev/null 2>&1; then
    build_cuda
    PYTHONPATH=$PWD/build/cuda/python "$python" tests/python/soak.py "${asked[@]}"
else
    cmake --preset release >/dev/null
    cmake --build --preset release -j "$(nproc)" --target core mlx_emulated
    export LD_LIBRARY_PATH=$PWD/build/release/tests/emulated MLX_CPU=base # no fused multiply-add either
    PYTHONPATH=$PWD/build/release/python "$python" tests/python/soak.py "${asked[@]}" --size small
fi
