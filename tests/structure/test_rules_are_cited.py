"""Every rule of docs/semantics.md that is in force names at least one test that holds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULE = re.compile(r"^(\d+\.\d+) ", re.MULTILINE)
CITED = re.compile(r"[Ss]emantics ((?:\d+(?:\.\d+)?(?:(?:,| and| to|;) )?)+)")
LATER = {
    "9.6": "the gate",
}
"""Rules whose capability is not offered yet; docs say so. A rule leaves this list with its capability."""

RULES = RULE.findall((ROOT / "docs" / "semantics.md").read_text(encoding="utf-8"))


def cited() -> set[str]:
    """The numbers that tests name, ranges written out."""
    numbers: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for found in CITED.findall(path.read_text(encoding="utf-8")):
            numbers |= set(re.findall(r"\d+(?:\.\d+)?", found))
            for first, last in re.findall(r"(\d+\.\d+) to (\d+\.\d+)", found):
                chapter, low = first.split(".")
                numbers |= {f"{chapter}.{one}" for one in range(int(low), int(last.split(".")[1]) + 1)}
    return numbers


def test_the_rules_are_found() -> None:
    assert len(RULES) > 30
    assert set(LATER) <= set(RULES)


@pytest.mark.parametrize("rule", [one for one in RULES if one not in LATER])
def test_a_rule_in_force_is_cited_by_a_test(rule: str) -> None:
    assert rule in cited()


@pytest.mark.parametrize("chapter", ["0", "6", "10"])
def test_a_chapter_without_numbered_rules_is_cited_by_a_test(chapter: str) -> None:
    assert chapter in cited()
