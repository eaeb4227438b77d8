"""An array framework for machine learning, written in C."""

import os
import sys


def _beside():
    """Folders elsewhere on the path that add to this package, as `mlx.data` does; ImportError for a whole other mlx.

    Other distributions have no __init__.py in theirs.  A `core` in one is that of a whole other mlx: either this
    package hides the rest of it, wherever it lies, or both share one folder and its core is loaded in place of ours.
    """
    here = os.path.realpath(os.path.dirname(__file__))
    beside = []
    for entry in sys.path:
        folder = os.path.join(entry or os.getcwd(), "mlx")
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        shared = os.path.realpath(folder) == here
        if "__init__.py" in names and not shared:
            continue  # another copy of this package, shadowed as modules are
        for name in names:
            is_core = name.startswith("core.") and name.endswith((".so", ".pyd"))
            if is_core and not (shared and name == "core.abi3.so"):
                raise ImportError(
                    "another distribution of `mlx` is installed beside this one "
                    f"({os.path.join(folder, name)}), and only one of them can be imported. Keep this one with\n"
                    "    pip uninstall mlx mlx-cpu mlx-metal mlx-cuda && "
                    "pip install --force-reinstall --no-deps cmlx\n"
                    "or the other one with\n"
                    "    pip uninstall cmlx && pip install --force-reinstall mlx"
                )
        if not shared:
            beside.append(folder)
    return beside


# pkgutil.extend_path would take other copies of this package too.
__path__ += _beside()
