#!/usr/bin/env bash
# The tests of `make test`, after a release build: C tests, C unit tests under the address and
# undefined-behaviour sanitizers, Python tests.  Runs all three whatever fails, then says so.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${CTEST_PARALLEL_LEVEL:-$(nproc)}
failed=()

step() { printf '\n== %s\n' "$1"; shift; "$@" || failed+=("$*"); }

sanitized_units() {
    cmake --preset asan &&
        cmake --build --preset asan -j "$jobs" --target unit_tests &&
        ctest --preset asan -L '^unit$'
}

step 'C tests' ctest --preset release
step 'C unit tests, sanitized' sanitized_units
step 'Python tests' .venv/bin/python -m pytest -q -n "$jobs" tests/python

printf '\n'
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
echo 'all tests passed'
