"""Every case of the book is played by a test that names it, through the one adapter ``casebook``."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import casebook

TESTS = Path(__file__).parents[1]
PENDING: dict[str, str] = {}
"""Cases that no test plays yet, by number, with the reason; only those whose area may wait."""

MAY_WAIT = frozenset({"alert", "slack", "scaffold", "dashboard", "ha", "deploy"})
NAMED = re.compile(r"""["'](\d{3})["']|[Cc]ases?[ _-](\d{3})(?:(?:,| and) (\d{3}))?""")


def _numbers(text: str) -> set[str]:
    return {number for found in NAMED.findall(text) for number in found if number}


def _texts(path: Path) -> dict[str, str]:
    """Each test of a file with its decorators, and with the lists of that file that its decorators name."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    lists = {
        target.id: ast.get_source_segment(source, node) or ""
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    texts = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        parts = [node.name, ast.get_source_segment(source, node) or ""]
        wanted = [name for one in node.decorator_list for name in ast.walk(one) if isinstance(name, ast.Name)]
        seen: set[str] = set()
        while wanted:
            name = wanted.pop().id
            if name in lists and name not in seen:
                seen.add(name)
                parts.append(lists[name])
                wanted += [one for one in ast.walk(ast.parse(lists[name])) if isinstance(one, ast.Name)]
        parts += [ast.get_source_segment(source, one) or "" for one in node.decorator_list]
        texts[f"{path.relative_to(TESTS)}::{node.name}"] = "\n".join(parts)
    return texts


@cache
def played() -> dict[str, tuple[str, ...]]:
    """The tests that name each case."""
    found: dict[str, list[str]] = {one.id: [] for one in casebook.all_cases()}
    for path in sorted(TESTS.glob("*/test_*.py")):
        source = path.read_text(encoding="utf-8")
        if path.parent.name == "structure" or "casebook" not in source:
            continue
        for test, text in _texts(path).items():
            for number in _numbers(text):
                if number in found:
                    found[number].append(test)
    return {number: tuple(tests) for number, tests in found.items()}


@pytest.mark.parametrize("case", list(casebook.all_cases()), ids=lambda case: f"{case.area}-{case.id}")
def test_a_case_is_played_by_a_test_or_pending_with_a_reason(case: casebook.Case) -> None:
    if case.id in PENDING:
        assert case.area in MAY_WAIT
        assert PENDING[case.id]
        assert not played()[case.id], "it is played now: take it off the list"
    else:
        assert played()[case.id], f"no test plays case {case.id}: {case.raw['title']}"


def test_every_case_file_is_in_the_book_under_its_own_number() -> None:
    assert {path.stem for path in casebook.FOLDER.glob("case-*.yaml")} == {
        f"case-{one.id}" for one in casebook.all_cases()
    }
