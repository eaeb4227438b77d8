"""A manual page for each declaration of the C API: `man_pages.py FOLDER VERSION`.

Doxygen writes a page for each header and has the names in it refer there.  These pages take the place
of such references: what one function is, and what its section and its header say of all.
"""

import re
import sys
from pathlib import Path

from doc_comments import HEADERS, parse, plain, titled


def roff(line):
    line = line.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    line = re.sub(r"`([^`]*)`", r"\\fI\1\\fR", line)
    return "\\&" + line if line[:1] in (".", "'") else line


def paragraphs(text):
    """A comment in roff: lines that are set in stay as they are."""
    for part in re.split(r"\n\s*\n", text):
        if part.startswith("    "):
            yield ".PP\n.nf\n" + "\n".join(map(roff, part.split("\n"))) + "\n.fi"
        else:
            yield ".PP\n" + "\n".join(roff(line.strip()) for line in part.split("\n"))


def brief(comment):
    """The first sentence, on one line, as `whatis` has it."""
    return re.split(r"(?<=[^.])\.\s|\.$", " ".join(comment.replace("`", "").split()), maxsplit=1)[0]


def synopsis(one):
    """The declaration without what only compilers want to know."""
    text = re.sub(r"^__\w+.*\n#endif\s*", "", one.text)
    if text.startswith("MLX_API"):
        text = re.sub(r"^MLX_API\s", "", text).replace("\n" + " " * 8, "\n")
    if text.startswith("static inline"):
        text = re.sub(r"\s*\{.*", ";", text.removeprefix("static inline "), flags=re.S)
    return re.sub(r"\n#if.*?#endif\s*", "", text, flags=re.S)


def page(header, file, run, version):
    comment = run[0].comment or run[0].section
    names = list(dict.fromkeys(one.name for one in run))
    title, rest = titled(run[0].section) if run[0].comment and run[0].section else ("", "")
    about = plain(header.lines[header.about[0] : header.about[1] + 1]).partition("\n\n")[2]
    return "\n".join(
        [
            f'.TH {names[0]} 3 "" "MLX in C {version}" "The C API"',
            ".SH NAME",
            f"{', '.join(names)} \\- {roff(brief(comment))}",
            ".SH SYNOPSIS",
            ".nf",
            f'#include "mlx/c/{file}"\n',
            "\n".join(map(roff, "\n".join(map(synopsis, run)).split("\n"))),
            ".fi",
            ".SH DESCRIPTION",
            *paragraphs(comment),
            *([f".SH {roff(title.upper())}", *paragraphs(rest)] if rest else []),
            *([f".SH ABOUT {file}", *paragraphs(about)] if about else []),
            ".SH SEE ALSO",
            f".BR mlx_c_{Path(file).stem} (3)",
            "",
        ]
    )


def runs_of(header):
    """Declarations that share a comment or, without one, what their section says."""
    runs = {}
    for one in header.declarations:
        runs.setdefault((one.leader or one.name) if one.comment else one.section, []).append(one)
    return runs.values()


def main(folder, version):
    for path in sorted(HEADERS.glob("*.h")):
        header = parse(path.read_text())
        for run in runs_of(header):
            (folder / f"{run[0].name}.3").write_text(page(header, path.name, run, version))
            for one in run[1:]:
                if one.name != run[0].name:
                    (folder / f"{one.name}.3").write_text(f".so man3/{run[0].name}.3\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
