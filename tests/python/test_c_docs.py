"""Every declaration of the C API says what it is, and Doxygen has nothing to complain about."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import doc_comments  # noqa: E402

HEADERS = sorted((ROOT / "include" / "mlx" / "c").glob("*.h"))


def undocumented(text):
    for one in doc_comments.parse(text).declarations:
        if not one.comment and not doc_comments.titled(one.section)[1]:
            yield one.name
        for _, name, told in one.members:
            if not told:
                yield f"{one.name}.{name}"


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_every_declaration_has_a_comment(header):
    assert list(undocumented(header.read_text())) == []


def test_a_declaration_without_a_comment_is_found():
    text = (ROOT / "include" / "mlx" / "c" / "ops.h").read_text()
    without = text.replace("/* a * b. */\n", "")
    assert without != text and list(undocumented(without)) == ["mlx_multiply"]
    kinds = "/* x.h: x. */\n\n/* Kinds. */\ntypedef enum k_ {\n    A, /* a */\n    B,\n} k;\n\nint f(k);\n"
    assert list(undocumented(kinds)) == ["k.B", "f"]


def test_the_parser_sees_every_function():
    for header in HEADERS:
        text = header.read_text()
        found = [one.name for one in doc_comments.parse(text).declarations]
        assert set(re.findall(r"^MLX_API[^;()]*?(\w+)\(", text, re.M)) <= set(found), header.name


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_documentation_stands_where_the_comments_do(header):
    text = doc_comments.filtered(header)
    assert text.count("\n") == header.read_text().count("\n")
    assert text.count("@{") == text.count("@}")


def test_the_first_page_names_every_header():
    page = (ROOT / "docs" / "c_api.md").read_text()
    assert [header.name for header in HEADERS if not re.search(rf"\b{header.name}\b", page)] == []


@pytest.mark.skipif(not shutil.which("doxygen"), reason="needs Doxygen")
def test_doxygen_has_nothing_to_complain_about(tmp_path):
    run = subprocess.run([ROOT / "tools" / "docs.sh", tmp_path], capture_output=True, text=True)
    assert run.returncode == 0 and not run.stderr, run.stderr
    page = (tmp_path / "html" / "group__mlx__c__ops.html").read_text()
    assert "log(e^a + e^b) without overflow." in page
    first = (tmp_path / "html" / "index.html").read_text()
    assert all(f'href="{page}.html"' in first for page in ("md_c_tutorial", "md_extensions"))
    assert not any(str(ROOT) in page.read_text() for page in (tmp_path / "html").glob("*.html"))
    manual = tmp_path / "man" / "man3"
    assert (manual / "mlx_c_ops.3").exists() and not (manual / "free.3").exists()
    assert (manual / "mlx_sum_axis.3").read_text() == ".so man3/mlx_sum.3\n"
    page = (manual / "mlx_sum.3").read_text()
    assert "mlx_sum, mlx_sum_axis, mlx_sum_axes \\- The sum; bool and small integers give 32 bits" in page
    assert "int mlx_sum(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s);" in page
