# What test.sh and test-full.sh share: steps that go on after a failure, and one count at the end.
. tools/environment.sh
jobs=${CTEST_PARALLEL_LEVEL:-$(nproc)}
export python=${PYTHON:-.venv/bin/python}
results=$PWD/build/results
failed=()
rm -rf "$results"
mkdir -p "$results"

step() {
    local title=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$title"
    "$@" || failed+=("$title")
    printf '== %s: %d s\n' "$title" $((SECONDS - start))
}

# build_preset PRESET TARGET...
build_preset() {
    cmake --preset "$1" >"$results/configure-$1.log" 2>&1 || { cat "$results/configure-$1.log"; return 1; }
    cmake --build --preset "$1" -j "$jobs" --target "${@:2}"
}

# run_ctest PRESET [ctest arguments]
run_ctest() {
    ctest --preset "$1" --no-tests=error --output-junit "$results/ctest-$1.xml" "${@:2}"
}

# run_pytest NAME [pytest arguments]; a worker for each processor, so that NumPy's products have one
run_pytest() {
    OPENBLAS_NUM_THREADS=1 $python -m pytest -q -n "$jobs" --dist worksteal --junitxml "$results/pytest-$1.xml" "${@:2}"
}

summary() {
    local title
    printf '\n'
    for title in "${failed[@]}"; do printf 'failed: %s\n' "$title"; done
    $python tools/count_tests.py "$results" && [ ${#failed[@]} -eq 0 ]
}
