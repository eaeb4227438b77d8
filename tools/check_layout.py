"""What must be true of every C file besides the form that .clang-format gives it: prints what is not."""

import re
import subprocess
import sys
from pathlib import Path

WIDTH = 120
LENGTH = 1500


def faults(path):
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    lines = text.split("\n")
    if lines.pop():
        yield len(lines) + 1, "the last line has no end"
    if len(lines) > LENGTH:
        yield LENGTH, f"{len(lines)} lines; does the file still have one subject?"
    for number, line in enumerate(lines, 1):
        if len(line) > WIDTH:
            yield number, f"{len(line)} columns, {WIDTH} is the width"
        if "\t" in line or "\r" in line:
            yield number, "a tab or carriage return"
        if line != line.rstrip():
            yield number, "blanks at the end"
        if not line and number > 1 and not lines[number - 2]:
            yield number, "a second blank line"


# Errors of the library have classes of their own, in py.h; TypeError is for calls that Python itself would refuse.
PYTHONS = re.compile(r"PyErr_\w+\((\n *)?PyExc_(Value|Runtime|Index|Overflow)Error")


def classes(path):
    text = Path(path).read_text() if path.startswith("python/src/") else ""
    for match in PYTHONS.finditer(text):
        if "ExceptionMatches" not in match[0]:
            yield text.count("\n", 0, match.start()) + 1, "raises a class of Python's, not one of ours (py.h)"


def main():
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.cu", "*.inc", ":!third_party"]
    paths = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    found = [f"{path}:{number}: {what}" for path in paths for number, what in (*faults(path), *classes(path))]
    print("\n".join(found) or f"{len(paths)} C files are laid out well")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
