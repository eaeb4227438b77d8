#!/usr/bin/env bash
# The C API as HTML and man pages, from the comments in its headers, in build/docs/html and
# build/docs/man, or in html and man of the folder named.  Any warning of Doxygen, such as one about a
# function without a comment, is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/docs}

if ! command -v doxygen >/dev/null; then
    echo "docs: Doxygen is not installed; \`make docs\` does that, or: apt-get install doxygen" >&2
    exit 1
fi
python=.venv/bin/python
[ -x "$python" ] || python=python3

rm -rf "$out/html" "$out/man"
mkdir -p "$out"
version=$(sed -n 's/^project(MLX VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
MLX_VERSION=$version MLX_PYTHON=$python MLX_DOCS=$out doxygen docs/Doxyfile

# Names such as read and free are members of structs, not functions to have pages for, and those of
# headers have the pages of their groups (mlx_c_ops for ops.h).  Where Doxygen would refer from a function
# to the page of its header, it gets one of its own.
find "$out/man/man3" -type f ! -name 'mlx_*' ! -name '_mlx_*' ! -name 'MLX_*' -delete
$python tools/man_pages.py "$out/man/man3" "$version"
echo "docs: $out/html/index.html, $(find "$out/man" -type f | wc -l) pages in $out/man (man -M $out/man mlx_add)"
