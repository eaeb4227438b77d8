"""The folders of src include each other as docs/architecture.md says, and the check of that can fail."""

import importlib.util
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
