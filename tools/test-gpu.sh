#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: every operation there beside the CPU, then the tests of the C API and the Python
# tests with the GPU as the default device.  test-gpu.sh [STEP...] runs some of: operations libraries c python.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh
. tools/gpu.sh

on_gpu() {
    PYTHONPATH=$PWD/build/cuda/python run_pytest "$@"
}

c_on_gpu() {
    { [ -n "${BUILT:-}" ] || cmake --build --preset cuda -j "$jobs" --target unit_tests; } && run_ctest cuda -L any_device
}

step 'Build with CUDA' build_cuda
[ $# -gt 0 ] || set -- operations libraries c python
for what; do
    case $what in
    operations) MLX_CUDA_LIBRARIES=0 step 'Operations, beside the CPU' on_gpu gpu tests/python/test_gpu*.py ;;
    libraries)
        step 'Libraries' on_gpu gpu-libraries tests/python/test_gpu_{libraries,cudnn,kernels,extension,dlpack}.py
        ;;
    c) step 'C API, the GPU by default' c_on_gpu ;;
    python)
        step 'Python tests, the GPU by default' on_gpu gpu-default -m 'not slow' \
            --ignore-glob "tests/python/test_gpu*.py" --ignore tests/python/test_contributing.py \
            --ignore tests/python/test_install.py
        ;;
    *) step "No step '$what': operations, libraries, c or python" false ;;
    esac
done
summary
