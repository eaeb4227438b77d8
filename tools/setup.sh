#!/usr/bin/env bash
# Install what the project needs and this machine lacks: Debian packages, and .venv with the pinned
# Python packages of tools/requirements{,-mlx-lm}.txt.  Does nothing, quickly, when all is there.
#
#   tools/setup.sh [docs | bare]      with one of these also what `make docs` or `make test-bare` needs
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$@" >&2; exit 1; }

CC=${CC:-cc}
wanted=${1:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

has_tool()   { command -v "$1" >/dev/null; }
compiles()   { printf '%s\nint main(void) { return 0; }\n' "$1" >"$work/t.c" &&
               $CC $2 "$work/t.c" -o "$work/t" 2>/dev/null; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# A Python fit for .venv: 3.11 or later, able to make environments, with its C headers.
fit_python() {
    new_enough "$1" && "$1" - 2>/dev/null <<'PY'
import ensurepip, os, sys, sysconfig, venv
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
PY
}
find_python() {
    for python in ${PYTHON:-} python3 /usr/bin/python3 python3.11 python3.12 python3.13 python3.14; do
        if has_tool "$python" && fit_python "$python"; then command -v "$python"; return; fi
    done
    return 1
}

# Names of the Debian packages that would supply what is missing.
missing() {
    if ! has_tool "${CC%% *}"; then echo gcc libc6-dev
    elif ! compiles '#include <stdio.h>' ''; then echo libc6-dev
    fi
    has_tool make || echo make
    has_tool ninja || echo ninja-build
    has_tool pkg-config || echo pkg-config
    if ! has_tool cmake || ! cmake -P tools/cmake-version.cmake 2>/dev/null; then echo cmake; fi
    compiles '#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>' -lcmocka || echo libcmocka-dev
    [ "$wanted" != docs ] || has_tool doxygen || echo doxygen
    [ "$wanted" != bare ] || has_tool mmdebstrap || echo mmdebstrap
    find_python >/dev/null || echo python3 python3-venv python3-dev
}

packages=$(missing | tr '\n' ' ')
if [ -n "${packages// /}" ]; then
    say "missing here: $packages"
    if ! has_tool apt-get; then
        die "this is no Debian system, so nothing was installed." \
            "Install what those Debian packages hold with your own package manager, then run this again."
    fi
    if [ "$(id -u)" = 0 ]; then as_root=()
    elif has_tool sudo; then as_root=(sudo)
    else die "neither root nor sudo here. As root, run:" "    apt-get install $packages"
    fi
    "${as_root[@]}" apt-get -qq update || say "apt-get update failed; trying with the lists that are here"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y --no-install-recommends install $packages >"$work/apt.log" 2>&1 ||
        { cat "$work/apt.log" >&2; die "apt-get could not install: $packages"; }
    left=$(missing | tr '\n' ' ')
    if [ -n "${left// /}" ]; then
        die "installed, but not usable or too old: $left" \
            "The project needs CMake 3.25, Python 3.11 and the headers of cmocka."
    fi
fi

# .venv is made again when its Python is gone, and filled again when a list changes.
if ! .venv/bin/python -c '' 2>/dev/null || ! new_enough .venv/bin/python; then
    python=$(find_python)
    say "making .venv with $("$python" --version) ($python)"
    rm -rf .venv
    "$python" -m venv .venv
fi
# fill LIST [pip arguments]
fill() {
    local list=tools/$1 stamp=.venv/${1%.txt}.installed
    cmp -s "$list" "$stamp" && return
    say "installing the Python packages of $list into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "${@:2}" -r "$list" ||
        die "pip could not install the packages above; is a package index within reach?"
    cp "$list" "$stamp"
}
fill requirements.txt
fill requirements-mlx-lm.txt --no-deps
say "all there"
