#!/usr/bin/env bash
# Check the format of C and Python, and look for mistakes; with --fix, apply the format instead.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
mapfile -t sources < <(git ls-files '*.c' '*.h')
failed=0

if [ "${1:-}" = --fix ]; then
    "$bin/clang-format" -i "${sources[@]}"
    "$bin/ruff" format
    "$bin/ruff" check --fix
    exit
fi

"$bin/clang-format" --dry-run -Werror "${sources[@]}" || failed=1
"$bin/ruff" format --check || failed=1
"$bin/ruff" check || failed=1
if command -v clang-tidy >/dev/null; then
    mapfile -t units < <(git ls-files 'src/*.c' 'python/src/*.c')
    printf '%s\n' "${units[@]}" |
        xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/release --warnings-as-errors='*' || failed=1
else
    echo 'clang-tidy is not installed; its checks were left out'
fi
exit $failed
