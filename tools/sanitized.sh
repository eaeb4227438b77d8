# What test-full.sh and sanitize.sh share: the Python tests on a sanitized module, of the preset asan.
# On the stacks that it fakes to find uses after a return, GCC 13 may align vectors of 64 bytes to 32 (its bug 110027),
# and code for AVX-512 dies.  Its predecessors do not fake them unless told to.
export ASAN_OPTIONS=detect_stack_use_after_return=0

# Whose values are compared with others' over many types and shapes: calls that other tests have too.
compared='answers any_shape any_shape_everywhere any_shape_transforms array_api array_api_users broadcast_arguments
    compile_everywhere composition conv custom_kernels dtypes_everywhere export_ops fast fft linalg norms ops rows'

# Python itself is not instrumented, so the runtimes are loaded before it, and what the interpreter
# keeps until it ends is no leak of ours.  Memory that is not there is NULL, as anywhere.  Reports go to
# files, so that one in a child fails the step as well, however its test takes the end of the child.
# Left out: what builds a library of its own or runs another, which is not sanitized, what looks at types and texts,
# training, models and differences for every derivative, which take minutes over what others call as well, kernels of
# other instruction sets, which the C tests have under the sanitizers, the names that the library shows, which sanitized
# has all of them for the C tests, and the files named.
sanitized_python() {
    local runtimes reports=$results/report status=0 file ignored=()
    for file in contributing install typing stubs readme train_examples nn_demo mlx_lm chat_c c_tutorial \
        extension gpu_emulated derivatives cuda_compiler "$@"; do
        ignored+=(--ignore "tests/python/test_$file.py")
    done
    runtimes="$(cc -print-file-name=libasan.so):$(cc -print-file-name=libubsan.so)"
    LD_PRELOAD=$runtimes PYTHONMALLOC=malloc PYTHONPATH=$PWD/build/asan/python \
        ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0:allocator_may_return_null=1:log_path=$reports \
        UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports \
        run_pytest asan -m 'not slow' -k 'not every_level and not what_the_library_shows' "${ignored[@]}" || status=1
    for file in "$reports".*; do
        # Sizes beyond any memory are asked for by tests; whoever does is told that there is none.
        if [ -e "$file" ] && grep -qv 'WARNING: AddressSanitizer failed to allocate' "$file"; then cat "$file"; status=1; fi
    done
    return $status
}
