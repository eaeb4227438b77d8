"""Prints characters.h: the letters and numbers of Unicode, as this Python knows them."""

import sys
import unicodedata


def ranges(kind):
    """First and last of each run of characters whose category begins so."""
    found = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] == kind:
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return found


def table(name, kind):
    yield "/* clang-format off */"
    yield f"static const uint32_t {name}[][2] = {{"
    line = "   "
    for first, last in ranges(kind):
        item = f" {{ 0x{first:X}, 0x{last:X} }},"
        if len(line + item) > 120:
            yield line
            line = "   "
        line += item
    yield line
    yield "};"
    yield "/* clang-format on */"


print(f"""\
/* characters.h: letters and numbers (categories L and N) of Unicode {unicodedata.unidata_version}, first and last of
 * each run.  Written by make_characters.py. */
#include <stdint.h>
""")
print(*table("letters", "L"), "", *table("numbers", "N"), sep="\n")
