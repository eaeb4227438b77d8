"""The C API's headers as Doxygen reads them: `doc_comments.py HEADER` writes a header with its plain
comments turned into documentation, line by line.  Doxyfile names it as the filter of headers.  Of a page
(`doc_comments.py PAGE.md`) only the names of functions are made links.

What a comment is for follows from where it stands:

- the first one is about the header, which becomes a group;
- one with an empty line behind it opens a section: its title, and what holds for all that follows;
- one directly above a declaration is about this, and about those that follow without an empty line;
- a declaration with neither is what its section says.
"""

import re
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[1] / "include" / "mlx" / "c"
HANDLE = "void *ctx;"
HANDLE_TEXT = "What the handle holds; NULL in an empty one."


@dataclass
class Declaration:
    name: str
    first: int  # line numbers, from 0
    last: int
    text: str
    comment: str = ""  # its own, or that of its run
    at: tuple = None  # the lines of it
    leader: str = ""  # whose comment it shares
    section: str = ""
    members: list = field(default_factory=list)  # (line, name, whether it has a comment)


@dataclass
class Header:
    lines: list
    about: tuple = None  # (first, last) lines of a comment
    sections: list = field(default_factory=list)  # (first, last)
    declarations: list = field(default_factory=list)


def plain(lines):
    """The text of a comment."""
    text = "\n".join(lines).strip()
    assert text.startswith("/*") and text.endswith("*/"), text
    return re.sub(r"\n *\* ?", "\n", text[2:-2].removeprefix("*")).strip()


def name_of(text):
    """The name that a declaration declares."""
    if text.startswith("#define"):
        return re.match(r"#define (\w+)", text).group(1)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\{.*\}", "{}", text, flags=re.S)
    text = re.sub(r"__attribute__\(\(.*?\)\)\)*", "", text)
    if text.startswith("typedef"):
        pointer = re.search(r"\(\*(\w+)\)\(", text)
        return pointer.group(1) if pointer else re.search(r"(\w+);", text).group(1)
    if text.startswith("struct"):
        return re.match(r"struct (\w+)", text).group(1)
    called = re.search(r"(\w+)\s*\(", text)
    return called.group(1) if called else re.search(r"(\w+)(?: =.*)?;", text, re.S).group(1)


def end_of_statement(lines, i):
    """The line on which the declaration that begins on line i ends."""
    depth, end = 0, "}" if lines[i].startswith("static inline") else ";"
    while True:
        code = re.sub(r'/\*.*?\*/|"[^"]*"', "", lines[i])
        code = re.sub(r"/\*.*", "", code)
        if not re.match(r"\s*(#|\*|.*\*/$)", code):
            depth += sum(code.count(c) for c in "({") - sum(code.count(c) for c in ")}")
            if depth <= 0 and code.rstrip().endswith(end):
                return i
        i += 1


def members_of(lines, declaration):
    """The members of a struct, the constants of an enum: line, name, whether a comment describes it."""
    found, told, inside = [], False, False
    for i in range(declaration.first + 1, declaration.last):
        line = lines[i].strip()
        inside = inside or line.startswith("/*")
        if inside or not line:
            told = inside
            inside = inside and not line.endswith("*/")
            continue
        code = re.sub(r"/\*.*", "", line).strip()
        name = re.match(r".*?\(\*(\w+)\)", code) or re.match(r".*?(\w+)(?: = [-\w]+|\[\w+\])?[,;]?$", code)
        if code and name and re.match(r"[a-zA-Z]", code) and lines[i].startswith("    " + code[0]):
            found.append((i, name.group(1), told or "/*" in line or code == HANDLE))
            inside = "/*" in line and "*/" not in line
    return found


def parse(text):
    """A header taken apart."""
    lines = text.split("\n")
    header = Header(lines)
    section, comment, leader, at = "", "", "", None
    i = 0
    while i < len(lines):
        line = lines[i].strip()
        if line.startswith("/*"):
            first = i
            while not lines[i].rstrip().endswith("*/"):
                i += 1
            said = plain(lines[first : i + 1])
            if header.about is None:
                header.about = first, i
            elif i + 1 < len(lines) and not lines[i + 1].strip():
                header.sections.append((first, i))
                section, comment = said, ""
            else:
                comment, leader, at = said, "", (first, i)
        elif not line:
            comment, leader, at = "", "", None
        elif line.startswith("#ifdef __cplusplus"):
            while not lines[i].startswith("#endif"):
                i += 1
        elif line.startswith("#define") and not re.match(r"#define MLX_C_\w+_H$", line) or line[0] != "#":
            first = i
            if line[0] == "#":
                while lines[i].endswith("\\"):
                    i += 1
            else:
                i = end_of_statement(lines, i)
            said = "\n".join(lines[first : i + 1])
            one = Declaration(name_of(said.strip()), first, i, said, comment, at, leader, section)
            if re.match(r"(typedef )?(struct|enum)\b.*\{", said):
                one.members = members_of(lines, one)
            header.declarations.append(one)
            if comment and not leader:
                leader = one.name
        i += 1
    return header


@cache
def functions():
    """The names of all public functions."""
    text = "".join(path.read_text() for path in HEADERS.glob("*.h"))
    return set(re.findall(r"^MLX_API[^;()]*?(\w+)\(", text, re.M))


def linked(text):
    """Names of functions become links; in calls, and where they stand in quotes, they stay as they are."""
    return re.sub(r"(?<![\w#`/])_?mlx_\w+(?![\w(`])", lambda name: "#" * (name[0] in functions()) + name[0], text)


def page(text):
    """A page in Markdown with links outside of its code."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`|\[.*?\]\(.*?\))", text, flags=re.S | re.M)
    parts[::2] = map(linked, parts[::2])
    return "".join(parts)


def escape(line):
    """A line of a comment so that Doxygen shows it as it is; what stands in `...` is code."""
    if line.startswith("    "):
        return line
    parts = re.split(r"(`[^`]*`)", line)
    parts[::2] = [linked(re.sub(r"::|--|[\\@<>#&%*]", r"\\\g<0>", part)) for part in parts[::2]]
    return re.sub(r"^( *\d+)\.", r"\1\\.", "".join(parts))


def documentation(lines, first, last):
    """The comment on these lines as one of documentation, in place."""
    for i in range(first, last + 1):
        start, text, end = re.match(r"(\s*/\*\s?|\s*\* ?|\s*)(.*?)(\s*\*/)?$", lines[i]).groups(default="")
        lines[i] = start.replace("/*", "/**") + escape(text) + end


def joined(text):
    return escape(" ".join(re.sub(r"^\w[^.;:]*$", r"\g<0>.", text, count=1).split()))


def titled(said):
    """What a section is called, and what else its comment says."""
    title, _, rest = re.match(r"(.*?)(\.\s+|\.$|; |: |\n|$)(.*)", said, re.S).groups()
    rest = " ".join(rest.split())
    return title.strip(), rest[:1].upper() + rest[1:]


def filtered(path):
    header = parse(Path(path).read_text())
    lines = list(header.lines)
    stem = Path(path).stem
    first, last = header.about
    title, rest = re.match(r"[\w.]+: (.*?)\.?(?:\n\n(.*))?$", plain(lines[first : last + 1]), re.S).groups()
    assert "\n" not in title, f"{path}: the first line should be the title alone"
    documentation(lines, first, last)
    lines[first] = f"/** @file {Path(path).name} @brief {escape(title)}. */ "
    lines[first] += f"/** @defgroup mlx_c_{stem} {Path(path).name}: {escape(title)}"
    lines[last] = lines[last].removesuffix("*/") + "@{ */" if rest else lines[last] + " */ /** @{ */"

    opened = False
    for first, last in header.sections:
        title, rest = titled(plain(header.lines[first : last + 1]))
        lines[first : last + 1] = [""] * (last + 1 - first)
        lines[first] = "/** @} */ " * opened + f"/** @name {escape(title)}"
        lines[last + 1] = f"{escape(rest)} */ /** @{{ */"
        opened = True
    for one in header.declarations:
        if one.comment and not one.leader:
            documentation(lines, *one.at)
        elif one.leader and one.leader != one.name:
            paragraphs = "\n\n" in one.comment
            said = f"@copydoc {one.leader}" if paragraphs else escape(" ".join(one.comment.split()))
            lines[one.first] = f"/** {said} */ " + lines[one.first]
        elif not one.leader and titled(one.section)[1]:
            lines[one.first] = f"/** {joined(one.section)} */ " + lines[one.first]
        inner(lines, one)
    end = max(i for i, line in enumerate(lines[:-1]) if not line)
    lines[end] = "/** @} */ " * (1 + opened)
    return "\n".join(lines)


def inner(lines, declaration):
    """The comments of members."""
    said = None
    for i in range(declaration.first + 1, declaration.last):
        line = lines[i].strip()
        if line.startswith("/*"):
            last = i
            while not lines[last].rstrip().endswith("*/"):
                last += 1
            said = joined(plain(lines[i : last + 1]))
            documentation(lines, i, last)
        elif line == HANDLE:
            lines[i] += f" /**< {HANDLE_TEXT} */"
        elif re.search(r"[,;] */\*", line):
            lines[i] = re.sub(r"/\*", "/**<", lines[i])
        elif not line:
            said = None
        elif said and i in {m[0] for m in declaration.members} and not lines[i - 1].rstrip().endswith("*/"):
            lines[i] = f"    /** {said} */ {line}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    sys.stdout.write(page(file.read_text()) if file.suffix == ".md" else filtered(file))
