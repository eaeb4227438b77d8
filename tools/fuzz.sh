#!/usr/bin/env bash
# fuzz.sh SECONDS: damaged files of every format for that long each, under the address and undefined-behaviour
# sanitizers: by clang's libFuzzer, which follows what the readers do, or where there is none by our own driver.
# What is found goes on from build/fuzz/corpus the next time; a crash leaves build/fuzz/crash-FORMAT-*.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${CTEST_PARALLEL_LEVEL:-$(nproc)}
seconds=$1

preset=asan
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int LLVMFuzzerTestOneInput(const char *data, unsigned long n) { return data && n > 9e9; }' >"$work/t.c"
if clang -fsanitize=fuzzer,address "$work/t.c" -o "$work/t" 2>/dev/null; then
    preset=fuzz
else
    echo 'fuzz: no clang with libFuzzer (Debian: clang, libclang-rt-14-dev); using the driver of the tests'
fi
cmake --preset $preset >/dev/null
cmake --build --preset $preset -j "$jobs" --target fuzz_tests

for dictionary in tests/fuzz/*.dict; do
    format=$(basename "$dictionary" .dict)
    target=build/$preset/tests/fuzz/$format
    if [ $preset = asan ]; then
        "$target" "$seconds"
        continue
    fi
    corpus=build/fuzz/corpus/$format
    mkdir -p "$corpus"
    cp tests/fuzz/seeds/*."$format" "$corpus"
    "$target" -dict="$dictionary" -max_total_time="$seconds" -timeout=60 -reload=0 -print_final_stats=1 \
        -artifact_prefix=build/fuzz/crash-"$format"- "$corpus" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    printf '%s: %s executions, %s inputs that differ\n' "$format" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")" "$(find "$corpus" -type f | wc -l)"
done
