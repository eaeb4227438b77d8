#!/usr/bin/env bash
# Run every program of bench/, one after the other, each in a process of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python -m pip install -q --no-warn-conflicts -r tools/requirements-bench.txt ||
    echo 'bench: the peers of tools/requirements-bench.txt could not be installed; NumPy is the only one'
for program in bench/bench_*.py; do
    .venv/bin/python "$program" "$@"
done
