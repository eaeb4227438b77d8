#!/usr/bin/env bash
# Let .venv import the package `mlx` from a build tree (the first argument), in place.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$(cd "$1/python" && pwd)
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$tree" | cmp -s - "$site/mlx-build-tree.pth" ||
    printf '%s\n' "$tree" >"$site/mlx-build-tree.pth"
# What an installed package has as a command.
printf '#!%s\nimport sys\nfrom mlx._export import main\nsys.exit(main())\n' "$PWD/.venv/bin/python" >.venv/bin/mlx-inspect
chmod +x .venv/bin/mlx-inspect
