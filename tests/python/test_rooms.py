"""The folders of src include each other as docs/architecture.md says, and the check of that can fail; memory is got in
one place."""

import importlib.util
import re
from pathlib import Path

TOP = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("check_rooms", TOP / "tools" / "check_rooms.py")
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)


def test_rooms_include_what_their_row_says():
    assert list(check.faults()) == []
    assert {"core", "ops", "run", "cpu"} <= set(check.rooms())


def test_an_edge_that_runs_up_is_found(tmp_path, monkeypatch):
    for room in ("core", "ops"):
        (tmp_path / "src" / room).mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "architecture.md"
    page.write_text("| `core` | | arrays |\n| `ops` | `core` | builders |\n")
    (tmp_path / "src" / "ops" / "op.h").write_text("")
    (tmp_path / "src" / "core" / "array.c").write_text('#include "ops/op.h"\n')
    monkeypatch.setattr(check, "TOP", tmp_path)
    assert list(check.faults()) == ["src/core/array.c: core may not include ops/op.h"]
    page.write_text("| `core` | `ops` | arrays |\n| `ops` | `core` | builders |\n")
    assert list(check.faults()) == ["the table of rooms: core includes ops, which stands below it"]
    page.write_text("| `core` | | arrays |\n")
    assert "src/ops: no row in the table of rooms" in list(check.faults())


def test_memory_is_got_where_tests_can_refuse_it():
    """Through core/memory.h: sweeps of failing allocations reach it there, and it is reported."""
    asks = re.compile(r"(?<![\w.>])(?:malloc|calloc|realloc|strn?dup|aligned_alloc|posix_memalign)\(")
    own = {"core/memory.c", "core/slab.c"}
    # They go on without what they do not get.
    own |= {"core/tally.c", "run/eval.c", "transform/compile.c", "transform/graph.c"}
    for path in sorted((TOP / "src").rglob("*.[ch]")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        if str(path.relative_to(TOP / "src")) not in own:
            assert asks.findall(text) == [], path
