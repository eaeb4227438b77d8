#!/usr/bin/env bash
# The table of bench/cases/gpu on a machine with an NVIDIA GPU, then every program of bench/gpu.  WORDS="attention one"
# chooses lines of the table, and runs nothing else.  Beside are PyTorch where PYTHON, or else this environment, has it,
# and the mlx package of the Python that MLX_UPSTREAM_PYTHON names.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/gpu.sh
build_cuda >/dev/null
export PYTHONPATH=$PWD/build/cuda/python
python=${PYTHON:-.venv/bin/python}
mkdir -p build/bench
read -ra words <<<"${WORDS:-}"
"$python" bench/table.py "${words[@]}" --device gpu --seconds 0.2 --markdown build/bench/table-gpu.md
[ -n "${WORDS:-}" ] && exit
for program in bench/gpu/bench_*.py; do "$python" "$program" "$@"; done
