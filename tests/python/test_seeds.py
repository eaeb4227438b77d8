"""tests/seeds.tsv says, for every line of the founding documents, what holds it."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LENGTHS = {"usage-guide": 448, "compile": 339, "export-import": 151, "extensions": 744}


def rows():
    with open(ROOT / "tests" / "seeds.tsv", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t"))


def test_every_line_is_covered_once():
    for document, length in LENGTHS.items():
        at = 1
        for row in (r for r in rows() if r["document"] == document):
            assert int(row["first"]) == at, row
            assert int(row["last"]) >= at, row
            at = int(row["last"]) + 1
        assert at == length + 1, document


def test_every_row_says_what_holds_it():
    for row in rows():
        held = row["held by"]
        assert held.startswith(("tests/", "later: ", "rule: ")), row
        for path, _, name in re.findall(r"(tests/[\w/]+\.py)(::(\w+))?", held):
            source = (ROOT / path).read_text()
            assert not name or f"def {name}(" in source, row
