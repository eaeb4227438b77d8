"""What the public headers declare: functions with the types of their arguments, structs and enums."""

import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "include" / "mlx" / "c"
# mlx.extension's own; it needs Python.h.
LEFT_OUT = {"python.h"}


def split(text):
    """The parts between commas that no parenthesis encloses."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [" ".join(part.split()) for part in parts if part.strip()]


def argument(text):
    """(name, type) of an argument; ("", "fn") types are those of functions."""
    called = re.search(r"\(\s*\*\s*(?:const\s+)?(\w*)\s*\)\s*\(", text)
    if called:
        return called[1], "function"
    if text == "...":
        return text, text
    array = text.endswith("]")
    text = re.sub(r"\[\w*\]$", "", text)
    words = text.replace("*", " * ").split()
    name = words.pop() if len(words) > 1 and words[-1] != "*" else ""
    kind = " ".join(w for w in words if w not in ("struct", "enum")).replace(" *", "*")
    return name, kind + "*" if array else kind


def text_of(path):
    """A header without comments, directives, what is for C++ and what this machine has no types for."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)
    text = re.sub(r"#ifdef HAS_B?FLOAT16.*?#endif", " ", text, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", " ", text, flags=re.DOTALL)
    text = re.sub(r"^ *#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.MULTILINE)
    return re.sub(r"__attribute__\(\(.*?\)\)\)?|__extension__", " ", text)


class Headers:
    """functions: name -> (result, [(argument, type)]); structs: name -> [(field, type)]; enums: name ->
    [constant], in the order of their declarations."""

    def __init__(self):
        self.functions, self.structs, self.enums = {}, {}, {}
        for path in sorted(FOLDER.glob("*.h")):
            if path.name not in LEFT_OUT:
                self.read(text_of(path))

    def read(self, text):
        for body, name in re.findall(r"typedef\s+struct\s+\w*\s*\{(.*?)\}\s*(\w+)\s*;", text, re.DOTALL):
            fields = []
            for declaration in body.split(";"):
                if declaration.strip():
                    first, *more = split(declaration)
                    fields.append(argument(first))
                    fields += [(name_, fields[0][1]) for name_ in more]
            self.structs[name] = fields
        for body, name in re.findall(r"typedef\s+enum\s+\w*\s*\{(.*?)\}\s*(\w+)\s*;", text, re.DOTALL):
            self.enums[name] = [part.split("=")[0].strip() for part in split(body)]
        for declaration in re.findall(r"MLX_API\s([^;{]*);", text):
            found = re.match(r"\s*(.*?)(\w+)\s*\((.*)\)\s*$", " ".join(declaration.split()))
            result, name, arguments = found.groups()
            arguments = [] if arguments.strip() == "void" else [argument(a) for a in split(arguments)]
            self.functions[name] = (result.replace(" *", "*").strip(), arguments)
