#!/usr/bin/env bash
# Let .venv import the package `mlx` from a build tree (the first argument), in place.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$(cd "$1/python" && pwd)
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$tree" | cmp -s - "$site/mlx-build-tree.pth" ||
    printf '%s\n' "$tree" >"$site/mlx-build-tree.pth"
# What an installed package has as commands: those of pyproject.toml.
command_of() {
    printf '#!%s\nimport sys\nfrom %s import %s\nsys.exit(%s())\n' "$PWD/.venv/bin/python" "$2" "$3" "$3" >".venv/bin/$1"
    chmod +x ".venv/bin/$1"
}
command_of mlx-inspect mlx._export main
command_of mlx.launch mlx._distributed_utils.launch main
command_of mlx.distributed_config mlx._distributed_utils.config main
