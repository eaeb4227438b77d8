"""Which folders of src include headers of which others: as the table of rooms in docs/architecture.md says."""

import re
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]


def rooms():
    """Room: those whose headers it may include, in the order of the table."""
    table = {}
    for line in (TOP / "docs" / "architecture.md").read_text().splitlines():
        row = re.fullmatch(r"\| `(\w+)` \|([` \w]*)\|.*\|", line)
        if row and (TOP / "src" / row[1]).is_dir():
            table[row[1]] = re.findall(r"\w+", row[2])
    return table


def edges():
    """(file, room, header, its room) of every #include across rooms."""
    for path in sorted((TOP / "src").rglob("*.*")):
        if path.suffix in {".c", ".h", ".inc", ".def", ".cu"}:
            room = path.relative_to(TOP / "src").parts[0]
            for header in re.findall(r'^\s*#\s*include "([^"]+)"', path.read_text(), re.M):
                to = header.split("/")[0]
                if to != room and "/" in header and (TOP / "src" / header).exists():
                    yield path.relative_to(TOP), room, header, to


def faults():
    table = rooms()
    names = list(table)
    for folder in sorted(p.name for p in (TOP / "src").iterdir() if p.is_dir()):
        if folder not in table:
            yield f"src/{folder}: no row in the table of rooms"
    for room, below in table.items():
        for other in below:
            if names.index(other) >= names.index(room):
                yield f"the table of rooms: {room} includes {other}, which stands below it"
    for path, room, header, to in edges():
        if to not in table.get(room, []):
            yield f"{path}: {room} may not include {header}"


if __name__ == "__main__":
    found = list(faults())
    print("\n".join(found) or f"{len(rooms())} rooms include each other as the table says")
    sys.exit(1 if found else 0)
