#!/usr/bin/env bash
# The tests of `make test`, on a release build: C tests, C unit tests under the address and
# undefined-behaviour sanitizers, Python tests.  All three run whatever fails; the last line counts.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

sanitized_units() {
    build_preset asan unit_tests && run_ctest asan -L '^unit$'
}

step 'C tests' run_ctest release
step 'C unit tests, sanitized' sanitized_units
step 'Python tests' run_pytest quick -m 'not slow'
summary
