"""The fields that describe an operation's arguments name each member of their struct: nodes that differ in one that has
no field would be taken for equal. (Small members cannot be told from padding by their sizes, so that
tests/unit/op_table.c does not see all of them.)"""

import re
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
# Members that are no arguments.
LEFT_OUT = {
    ("gather_axis_args", "given"): "for messages",
    ("scatter_axis_args", "given"): "for messages",
    ("part_args", "factor"): "Cholesky factors have it not, inverses do, in a table of their own",
}


def members(body):
    body = re.sub(r"{.*?}", "", body, flags=re.S)
    declared = [name.split()[-1] for line in body.split(";") if line.strip() for name in line.split(",")]
    return {name.strip("*") for name in declared}


def tables(text):
    return re.findall(r"^(?:static )?const struct field (\w+)_fields\[\] = {(.*?){ 0 }", text, flags=re.M | re.S)


def undescribed(text):
    """(struct, member) of tables of fields that lack a member."""
    bodies = dict(re.findall(r"^struct (\w+) {(.*?)^}", text, flags=re.M | re.S))
    for struct, table in tables(text):
        described = set(re.findall(rf"(?:FIELD|ENUM|SIZES)\({struct},\s*(\w+)", table))
        yield from ((struct, name) for name in sorted(members(bodies[struct]) - described))


def sources():
    text = "\n".join(p.read_text() for p in [*SRC.rglob("*.h"), *SRC.rglob("*.c")])
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def test_every_member_has_its_field():
    text = sources()
    assert set(undescribed(text)) == set(LEFT_OUT)
    described = {struct for struct, _ in tables(text)}
    assert set(re.findall(r"\bARGS\((\w+)\)", text)) - {"type"} <= described


def test_a_field_left_out_is_found():
    text = sources()
    forgotten = text.replace("FIELD(pad_args, high), ", "")
    assert forgotten != text
    assert ("pad_args", "high") in set(undescribed(forgotten))
