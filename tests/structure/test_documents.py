"""What a user meets is documented, both ways, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer

from holdtrue.cli.app import build_app
from holdtrue.cli.exits import INTERRUPTED, ExitCode
from holdtrue.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
TRACKED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
    "\0"
)
PAGES = [ROOT / name for name in TRACKED if name.endswith(".md") and (ROOT / name).exists()]

# Read by tools and tests around the service, not by the service.
NOT_SETTINGS = {
    "HOLDTRUE_DEBUG",
    "HOLDTRUE_BARRIER_URL",
    "HOLDTRUE_BARRIER_MYSQL_URL",
    "HOLDTRUE_SCRATCH_URL",
    "HOLDTRUE_SCRATCH_MYSQL_URL",
    "HOLDTRUE_TEST_PG_BIN",
    "HOLDTRUE_FETCH_SYSTEM_DEPS",
}


def commands() -> set[str]:
    """Every command that can be typed, as its words."""
    found = set()
    waiting = [("holdtrue", typer.main.get_command(build_app()))]
    while waiting:
        words, command = waiting.pop()
        below = getattr(command, "commands", None)
        if below is None:
            found.add(words)
        else:
            waiting.extend((f"{words} {name}", one) for name, one in below.items() if not one.hidden)
    return found


def anchors(text: str) -> set[str]:
    """The fragments that a page's headings make."""
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_table_of_commands_is_the_commands_there_are() -> None:
    assert set(re.findall(r"^\| `(holdtrue [a-z -]+)` \|", README, re.MULTILINE)) == commands()


def test_every_command_says_what_it_does() -> None:
    waiting = [("holdtrue", typer.main.get_command(build_app()))]
    silent = []
    while waiting:
        words, command = waiting.pop()
        if not command.help:
            silent.append(words)
        waiting.extend((f"{words} {name}", one) for name, one in getattr(command, "commands", {}).items())
    assert silent == []


@pytest.mark.parametrize("page", ["README.md", "docs/cli.md"])
def test_every_exit_code_has_its_row(page: str) -> None:
    tables = re.findall(r"^\| (?:exit )?code \|.*\n\|[-|]+\n((?:\|.*\n)+)", (ROOT / page).read_text(), re.MULTILINE)
    rows = {int(code) for table in tables for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert rows - {INTERRUPTED} == {int(code) for code in ExitCode}


def test_every_command_is_in_the_page_about_commands() -> None:
    text = (DOCS / "cli.md").read_text()
    missing = [words for words in commands() if f"`{words.removeprefix('holdtrue ')}" not in text]
    assert missing == []


@pytest.mark.parametrize("page", ["configuration", "metrics", "settings", "cli", "api"])
def test_a_page_of_reference_is_compared_with_the_code_by_a_test(page: str) -> None:
    """Each owner's test compares its page both ways; none may be lost."""
    tests = [ROOT / name for name in TRACKED if re.search(r"^tests/.*/test_\w+\.py$", name) and (ROOT / name).exists()]
    assert [path.name for path in tests if f'"{page}.md"' in path.read_text()]


def test_every_setting_has_its_row_and_every_row_its_setting() -> None:
    rows = re.findall(r"^\| `(HOLDTRUE_[A-Z_]+)`", (DOCS / "settings.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(set(rows))
    assert set(rows) - NOT_SETTINGS == {f"HOLDTRUE_{name.upper()}" for name in Settings.model_fields}


def test_every_setting_describes_itself() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_no_page_names_a_setting_that_there_is_not() -> None:
    known = {f"HOLDTRUE_{name.upper()}" for name in Settings.model_fields} | NOT_SETTINGS
    known |= {f"{name}_FILE" for name in known}
    named = {
        (str(page.relative_to(ROOT)), word)
        for page in PAGES
        for word in re.findall(r"\bHOLDTRUE_[A-Z_]*[A-Z]\b", page.read_text())
    }
    assert {(page, word) for page, word in named if word not in known} == set()


def test_the_index_lists_every_page_of_docs() -> None:
    listed = set(re.findall(r"\]\(([^)#]+\.md)", (DOCS / "README.md").read_text()))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}
    assert {name for name in listed if not name.startswith("../")} == there


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        where = (page.parent / path).resolve() if path else page
        if not where.exists() or (fragment and where.suffix == ".md" and fragment not in anchors(where.read_text())):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", ["semantics.md", "glossary.md", "architecture.md", "guarantees.md", "settings.md"])
def test_the_page_is_there(page: str) -> None:
    assert (DOCS / page).is_file()


def test_the_rules_keep_their_numbers() -> None:
    """Tests and decision records cite them."""
    text = (DOCS / "semantics.md").read_text()
    numbers = re.findall(r"^(\d+\.\d+) ", text, re.MULTILINE)
    assert numbers == sorted(set(numbers), key=lambda number: tuple(map(int, number.split("."))))
    sections = re.findall(r"^## (\d+)\. ", text, re.MULTILINE)
    assert [int(section) for section in sections] == list(range(len(sections)))


def test_every_rule_that_a_test_cites_exists() -> None:
    text = (DOCS / "semantics.md").read_text()
    rules = set(re.findall(r"^(\d+\.\d+) ", text, re.MULTILINE)) | set(re.findall(r"^## (\d+)\. ", text, re.MULTILINE))
    sources = [ROOT / name for name in TRACKED if name.endswith(".py") and (ROOT / name).exists()]
    cited = {
        (str(path.relative_to(ROOT)), rule)
        for path in sources
        for rule in re.findall(r"\b[Ss]emantics (\d+(?:\.\d+)?)\b", path.read_text())
    }
    assert {(path, rule) for path, rule in cited if rule not in rules} == set()


def test_every_test_that_the_guarantees_name_exists() -> None:
    named = re.findall(r"`(test_\w+)`", (DOCS / "guarantees.md").read_text())
    assert named
    sources = "\n".join(
        (ROOT / name).read_text() for name in TRACKED if name.startswith("tests/") and name.endswith(".py")
    )
    assert [name for name in named if f"def {name}(" not in sources] == []


def test_decision_records_are_numbered_without_gaps_and_have_their_parts() -> None:
    records = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        text = path.read_text()
        assert [part for part in ("## Context", "## Decision", "## What it costs") if part not in text] == [], path.name
