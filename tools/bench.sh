#!/usr/bin/env bash
# Run every program of bench/, one after the other, each in a process of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in bench/bench_*.py; do
    .venv/bin/python "$program" "$@"
done
