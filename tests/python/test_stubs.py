"""The type stubs that come with the module name what the module has."""

import ast
import pathlib

import mlx
import mlx.core as mx
import pytest

FOLDER = pathlib.Path(mlx.__file__).parent / "core"


def names(path):
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield node.targets[0].id
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


@pytest.mark.parametrize("module, file", [(mx, "__init__"), (mx.random, "random")])
def test_every_name_is_in_the_stubs(module, file):
    there = set(names(FOLDER / f"{file}.pyi"))
    public = {name for name in dir(module) if not name.startswith("_")} - {"bool"}  # which annotations need
    assert public - there == set()


def test_every_method_is_in_the_stubs():
    tree = ast.parse((FOLDER / "__init__.pyi").read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for cls in [mx.array, mx.ArrayAt, mx.Device, mx.finfo, mx.iinfo]:
        there = {node.name for node in classes[cls.__name__].body if hasattr(node, "name")}
        public = {name for name in vars(cls) if not name.startswith("_")}
        assert public - there == set(), cls
