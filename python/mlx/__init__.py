"""An array framework for machine learning, written in C."""

import os
import sys


def _foreign_core():
    """Path of a `core` module that another distribution put into a package named mlx, or None.

    Other distributions of that name have no __init__.py.  So either this package hides the rest of
    theirs, wherever it lies, or both share one folder and their core is loaded in place of ours.
    """
    here = os.path.realpath(os.path.dirname(__file__))
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
                return os.path.join(folder, name)
    return None


_other = _foreign_core()
if _other is not None:
    raise ImportError(
        f"another distribution of `mlx` is installed beside this one ({_other}), and only one of "
        "them can be imported. Keep this one with\n"
        "    pip uninstall mlx mlx-cpu mlx-metal mlx-cuda && "
        "pip install --force-reinstall --no-deps cmlx\n"
        "or the other one with\n"
        "    pip uninstall cmlx && pip install --force-reinstall mlx"
    )
del _other
