"""JUnit XML, well formed whatever names and values hold"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree as Xml

from holdtrue.cli.terminal import visible


class CaseResult(StrEnum):
    """What became of a case, by the names of JUnit's elements; a case that passed has none."""

    PASSED = ""
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One case. ``kind`` is a word for the result's type, ``message`` one line, ``body`` what to read on."""

    suite: str
    group: str
    name: str
    seconds: float
    result: CaseResult = CaseResult.PASSED
    kind: str = ""
    message: str = ""
    body: Sequence[str] = ()
    file: str = ""
    line: int = 0


def junit(name: str, cases: Sequence[Case]) -> str:
    """The document, in ASCII. Control and invisible characters, many of which XML cannot hold, are written out."""
    root = Xml.Element("testsuites", {"name": visible(name), **_counts(cases)})
    suites: dict[str, list[Case]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    for suite, its in suites.items():
        element = Xml.SubElement(root, "testsuite", {"name": visible(suite), **_counts(its)})
        for case in its:
            _add(element, case)
    Xml.indent(root)
    return str(Xml.tostring(root, encoding="us-ascii", xml_declaration=True), "ascii")


def _add(suite: Xml.Element, case: Case) -> None:
    attributes = {"classname": visible(case.group), "name": visible(case.name), "time": f"{case.seconds:.3f}"}
    if case.file:
        attributes |= {"file": visible(case.file), "line": str(case.line)}
    element = Xml.SubElement(suite, "testcase", attributes)
    if case.result is CaseResult.PASSED:
        return
    inner = {"message": visible(case.message)}
    if case.kind and case.result is not CaseResult.SKIPPED:
        inner["type"] = visible(case.kind)
    said = Xml.SubElement(element, case.result.value, inner)
    if case.body:
        said.text = "\n" + "\n".join(visible(line) for line in case.body) + "\n"


def _counts(cases: Iterable[Case]) -> dict[str, str]:
    its = list(cases)
    return {
        "tests": str(len(its)),
        "failures": str(sum(one.result is CaseResult.FAILURE for one in its)),
        "errors": str(sum(one.result is CaseResult.ERROR for one in its)),
        "skipped": str(sum(one.result is CaseResult.SKIPPED for one in its)),
        "time": f"{sum(one.seconds for one in its):.3f}",
    }
