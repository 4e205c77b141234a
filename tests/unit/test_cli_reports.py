"""JUnit XML and GitHub's workflow commands hold whatever names and values hold."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.cli.annotations import annotation, shown_path
from holdtrue.cli.junit import Case, CaseResult, junit
from holdtrue.cli.terminal import visible
from holdtrue.model import Place

HOSTILE = "\x1b[2J\x00\x0b]]><!--&\"'\ud800\uffff\u202e::error::x%0A,\r\n"
_texts = st.one_of(st.text(max_size=30), st.just(HOSTILE))
_cases = st.builds(
    Case,
    suite=_texts,
    group=_texts,
    name=_texts,
    seconds=st.floats(0, 100),
    result=st.sampled_from(list(CaseResult)),
    kind=_texts,
    message=_texts,
    body=st.lists(_texts, max_size=3),
    file=_texts,
    line=st.integers(0, 9),
)


@given(st.lists(_cases, max_size=5))
def test_junit_is_well_formed_and_counts_its_cases_whatever_is_in_it(cases: list[Case]) -> None:
    text = junit("holdtrue run", cases)
    assert text.isascii()
    root = Xml.fromstring(text)  # noqa: S314 - our own
    found = root.findall("./testsuite/testcase")
    assert len(found) == len(cases) == int(root.attrib["tests"])
    for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        number = sum(one.result.value == element for one in cases)
        assert int(root.attrib[name]) == number == len(root.findall(f".//{element}"))
    assert sorted(one.attrib["name"] for one in found) == sorted(visible(one.name) for one in cases)


def test_what_xml_cannot_hold_is_written_out_and_not_dropped() -> None:
    case = Case("s", "g", HOSTILE, 0.0, CaseResult.FAILURE, "k", HOSTILE, [HOSTILE])
    root = Xml.fromstring(junit("n", [case]))  # noqa: S314 - our own
    (found,) = root.findall(".//testcase")
    (said,) = root.findall(".//failure")
    for text in (found.attrib["name"], said.attrib["message"], said.text or ""):
        assert "\\x1b[2J\\x00\\x0b]]><!--&\"'\\ud800\\uffff\\u202e" in text


@given(st.sampled_from(["error", "warning"]), _texts, _texts, _texts)
def test_an_annotation_is_one_line_and_one_command(level: str, message: str, title: str, file: str) -> None:
    line = annotation(level, message, config=Path("holdtrue.yaml"), place=Place(file, 3, 4), title=title)
    assert len(line.splitlines()) == 1
    found = re.fullmatch(rf"::{level} file=([^:,]*),line=3,col=4(?:,title=([^:,]+))?::(.*)", line)
    assert found is not None
    for escaped in found.groups(""):
        assert re.fullmatch(r"(?:[^%]|%25|%0D|%0A|%3A|%2C)*", escaped)
    assert _read(found[3]) == visible(message, keep_newlines=True)
    assert _read(found[2] or "") == visible(title)


def _read(escaped: str) -> str:
    """As GitHub's runner reads a command."""
    for code, letter in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        escaped = escaped.replace(code, letter)
    return escaped


@pytest.mark.parametrize(
    ("config", "name", "path"),
    [
        ("holdtrue.yaml", "invariants/a.yaml", "invariants/a.yaml"),
        ("ops/holdtrue.yaml", "invariants/a.yaml", "ops/invariants/a.yaml"),
        ("ops/h.yaml", "holdtrue.yaml", "ops/h.yaml"),
    ],
)
def test_a_file_is_shown_as_one_would_type_it_here(config: str, name: str, path: str) -> None:
    assert shown_path(Path(config), name) == path
