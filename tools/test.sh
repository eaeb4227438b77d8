#!/usr/bin/env bash
# The tests of `make test`, on a release build: C tests, C unit tests under the address and
# undefined-behaviour sanitizers, Python tests.  All three run whatever fails; the last line counts.
# With DEVICE=loopback in the environment: the Python tests on two devices that are threads of this machine, whose
# memory nobody else can touch, as the GPUs (tests/support/loopback.h).
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

sanitized_units() {
    build_preset asan unit_tests && run_ctest asan -L '^unit$'
}

# Left out: what builds or installs a library of its own, what says that there is no GPU or that it is NVIDIA's, and
# what measures memory that here is freed a moment later.
on_loopback() {
    local left_out='contributing install c_tutorial leaks' file ignored=()
    for file in $left_out; do ignored+=(--ignore "tests/python/test_$file.py"); done
    build_preset release mlx_loopback &&
        LD_LIBRARY_PATH=$PWD/build/release/tests/loopback run_pytest loopback -m 'not slow' "${ignored[@]}" \
            --deselect tests/python/test_gpu.py::test_it_is_there \
            --deselect tests/python/test_custom.py::test_checkpoint_keeps_less
}

if [ "${DEVICE:-}" = loopback ]; then
    step 'Python tests, loopback devices' on_loopback
    summary
    exit
fi
step 'C tests' run_ctest release
step 'C unit tests, sanitized' sanitized_units
step 'Python tests' run_pytest quick -m 'not slow'
summary
