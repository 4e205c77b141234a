"""docs/architecture.md lists what is below app/holdtrue, each with its docstring's first line, and both ways."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "app" / "holdtrue"
LINE = re.compile(r"^ (?P<layer>\d) (?P<name>[a-z_]+)(?P<suffix>/|\.py) +(?P<sentence>\S.*)$", re.MULTILINE)

LISTED = {match["name"]: match for match in LINE.finditer((ROOT / "docs" / "architecture.md").read_text())}
LAYERS = next(
    one["layers"]
    for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if one["id"] == "layers"
)
TRACKED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
    "\0"
)
SOURCES = sorted(ROOT / name for name in TRACKED if name.endswith(".py"))


def first_line(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def modules() -> dict[str, Path]:
    """Name to source file of each module and folder directly below the package."""
    files = {path.stem: path for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    folders = {path.parent.name: path for path in PACKAGE.glob("*/__init__.py")}
    return files | folders


def test_the_tree_lists_every_module_and_no_other() -> None:
    assert set(LISTED) == set(modules())


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_modules_line_is_its_docstrings_first_line(name: str) -> None:
    assert name in LISTED, "not in the tree of docs/architecture.md"
    assert LISTED[name]["sentence"] == first_line(modules()[name])
    assert (LISTED[name]["suffix"] == "/") == (modules()[name].name == "__init__.py")


def test_the_numbers_of_the_tree_are_the_layers_of_the_contract() -> None:
    floors = [[word.strip(" ()") for word in layer.split("|")] for layer in LAYERS]
    numbers = [{int(LISTED[name]["layer"]) for name in floor if name in LISTED} for floor in floors]
    assert all(len(floor) <= 1 for floor in numbers), numbers
    order = [floor.pop() for floor in numbers if floor]
    assert order == sorted(order, reverse=True)
    assert set(LISTED) <= {name for floor in floors for name in floor}


NAMES = {"Slack", "Prometheus", "Alembic"}


def is_a_line_of_the_layout(line: str) -> bool:
    """Lower case, unless it begins with a name or an abbreviation, and no full stop."""
    word = line.partition(" ")[0]
    sentence = word[:1].isupper() and word[1:].islower() and word not in NAMES
    return bool(line) and not line.endswith(".") and not sentence


def test_every_module_begins_with_its_line_in_lower_case_without_a_full_stop() -> None:
    lines = {
        str(path.relative_to(ROOT)): first_line(path)
        for path in PACKAGE.rglob("*.py")
        if "versions" not in path.parts and path != PACKAGE / "__init__.py"
    }
    assert {name: line for name, line in lines.items() if not is_a_line_of_the_layout(line)} == {}


def test_a_sentence_is_told_from_a_line_of_the_layout() -> None:
    assert [
        is_a_line_of_the_layout(line) for line in ("", "Reads it", "reads it.", "reads it", "PostgreSQL's word")
    ] == [
        False,
        False,
        False,
        True,
        True,
    ]


def test_no_module_outgrows_its_noun() -> None:
    long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES if path.exists()}
    assert {name: lines for name, lines in long.items() if lines >= 450} == {}


def test_no_module_is_named_after_what_it_is_not() -> None:
    vague = re.compile(r"util[s]?|helpe[r]s?|common|manager|core|misc|base")
    assert [str(path) for path in PACKAGE.rglob("*.py") if vague.fullmatch(path.stem)] == []


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in SOURCES if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))
