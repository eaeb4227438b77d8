#!/usr/bin/env bash
# All Python tests on a module under the address and undefined-behaviour sanitizers.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh
. tools/sanitized.sh
step 'Build, sanitized' build_preset asan core stubs
step 'Python tests, address and undefined behaviour' sanitized_python
summary
