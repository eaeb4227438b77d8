#!/usr/bin/env bash
# The tests of GPU kernels under compute-sanitizer, of NVIDIA's toolkit: sanitize-gpu.sh [TOOL...], else all four.
# It cannot follow the workers of pytest-xdist, so each file has a process of its own.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh
. tools/gpu.sh

# Left out are files whose kernels are others', of libraries and users, and children made by fork().
files() {
    ls tests/python/test_gpu*.py | grep -v -E '_(cudnn|dlpack|emulated|extension|fork|kernels|libraries|nvtx)\.py$'
}

# How many items of each test function: they take a hundred times as long under the slow tools.  A process that exits
# while memory is pinned dies in the tool's own end, and a child made by fork() waits for it without end.  What the
# driver refuses is not a finding: that there is no such parameter is how a kernel's are counted.
sanitize_file() {
    local tool=$1 most=$2 file=$3 start=$SECONDS status name
    name=$results/$tool-$(basename "$file" .py)
    PYTHONPATH=$PWD/build/cuda/python MLX_CUDA_LIBRARIES=0 timeout 900 \
        compute-sanitizer --tool "$tool" --error-exitcode 99 --report-api-errors no --print-limit 10 \
        --log-file "$name.txt" \
        $python -m pytest -q -p no:xdist --most "$most" \
        --deselect tests/python/test_gpu_load.py::test_an_exit_meanwhile \
        --deselect tests/python/test_gpu_copies.py::test_a_fork_while_another_thread_copies \
        --deselect tests/python/test_gpu_copies.py::test_an_exit_while_another_thread_copies \
        --junitxml "$name.xml" "$file" >"$name.log" 2>&1
    status=$?
    [ $status = 0 ] || cat "$name.log" "$name.txt"
    echo "$tool $file: status $status, $((SECONDS - start)) s, $(tail -1 "$name.log")"
    return $status
}
export -f sanitize_file
export results

sanitize() {
    local tool=$1 most
    case $tool in
        memcheck) most=1000000 ;;
        initcheck | synccheck) most=20 ;;
        *) most=2 ;;
    esac
    files | xargs -P "$jobs" -I{} bash -c "sanitize_file $tool $most {}"
}

command -v compute-sanitizer >/dev/null || { echo 'sanitize-gpu: no compute-sanitizer in PATH' >&2; exit 1; }
step 'Build with CUDA' build_cuda
[ $# -gt 0 ] || set -- memcheck racecheck initcheck synccheck
for tool; do step "compute-sanitizer, $tool" sanitize "$tool"; done
summary
