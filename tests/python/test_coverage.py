"""Every function and every method of arrays in the table of the API has a test of its values.

Which names are tested is read off the tests: a name counts where a test file that imports NumPy uses
it outside of pytest.raises, as `mx.name`, as `fft.name` where the file says `fft = mx.fft`, or as a
string in a file that says `getattr(mx, ...)`; a method as a string in one with `getattr(mx.array(...), ...)`.
"""

import ast
import fnmatch
import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parents[1]
HERE = {pathlib.Path(__file__).name, "test_docstrings.py"}


def table():
    later = [line for line in (TESTS / "api" / "later.txt").read_text().split("\n") if line[:1] not in ("", "#")]
    for line in (TESTS / "api" / "python.tsv").read_text().split("\n")[1:-1]:
        name, kind, _ = line.split("\t")
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in later):
            yield name, kind


class Uses(ast.NodeVisitor):
    """The names that a file of tests uses, by what they are looked up in."""

    def __init__(self, tree):
        self.modules = {"mx": "mlx.core"}
        self.names, self.asked, self.strings = set(), set(), set()
        self.visit(tree)
        self.names |= {f"{owner}.{string}" for owner in self.asked for string in self.strings}

    def owner(self, node):
        """mlx.core for the node `mx`, mlx.core.array for `mx.array(...)`."""
        if isinstance(node, ast.Call):
            called = self.owner(node.func)
            return called if called == "mlx.core.array" else None
        if isinstance(node, ast.Attribute):
            inside = self.owner(node.value)
            return inside and f"{inside}.{node.attr}"
        return self.modules.get(getattr(node, "id", None))

    def visit_Assign(self, node):
        owner, target = self.owner(node.value), node.targets[0]
        if owner in ("mlx.core.fft", "mlx.core.linalg", "mlx.core.random", "mlx.core.fast"):
            self.modules[target.id] = owner
        self.generic_visit(node)

    def visit_With(self, node):
        if not any("raises" in ast.unparse(item.context_expr) for item in node.items):
            self.generic_visit(node)

    def visit_Attribute(self, node):
        self.names.add(self.owner(node))
        self.generic_visit(node)

    def visit_Call(self, node):
        if getattr(node.func, "id", None) == "getattr":
            self.asked.add(self.owner(node.args[0]))
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, str) and re.fullmatch(r"\w+", node.value):
            self.strings.add(node.value)


def used():
    for path in sorted((TESTS / "python").glob("test_*.py")):
        text = path.read_text()
        if "import numpy" in text and path.name not in HERE:
            yield from Uses(ast.parse(text)).names


def test_every_function_and_method_has_a_test_of_values():
    asked = [
        name
        for name, kind in table()
        if name.startswith("mlx.core.") and (kind == "function" or name.startswith("mlx.core.array."))
    ]
    assert len(asked) > 400
    without = sorted(set(asked) - set(used()))
    assert not without, without
