#!/usr/bin/env bash
# Check the layout of C and Python, and look for mistakes.  With --fix, apply the format instead: to
# all Python files, and to the C files among those named after it.  With --changed REV, clang-format and clang-tidy look
# only at the C files that differ from that revision: for all of them clang-tidy takes up to an hour of one core.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin

if [ "${1:-}" = --fix ]; then
    shift
    for file; do
        case $file in *.c | *.h | *.inc | *.cu) "$bin/clang-format" -i "$file" ;; esac
    done
    "$bin/ruff" format && "$bin/ruff" check --fix
    exit
fi

files() { git ls-files -co --exclude-standard "$@"; }
if [ "${1:-}" = --changed ]; then
    rev=$2
    files() {
        git diff --name-only --relative --diff-filter=d "$rev" -- "$@" && git ls-files -o --exclude-standard "$@"
    }
fi

failed=0
files '*.c' '*.h' '*.inc' '*.cu' ':!third_party' |
    xargs -r -P "$(nproc)" -n 16 "$bin/clang-format" --dry-run --Werror || failed=1
"$bin/python" tools/check_layout.py || failed=1
"$bin/python" tools/check_rooms.py || failed=1
"$bin/ruff" format --check || failed=1
"$bin/ruff" check || failed=1
if command -v clang-tidy >/dev/null; then
    # Built with GCC, whose own options Clang does not know.
    mkdir -p build/lint
    sed 's/ -fno-thread-jumps//' build/release/compile_commands.json > build/lint/compile_commands.json
    files 'src/*.c' 'python/src/*.c' |
        xargs -r -P "$(nproc)" -n 4 clang-tidy --quiet -p build/lint --warnings-as-errors='*' \
            2>/dev/null || failed=1
else
    echo 'clang-tidy is not installed; its checks were left out'
fi
exit $failed
