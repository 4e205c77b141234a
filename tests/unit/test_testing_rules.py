"""How a barrier test's invariant is found by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalogs import SQLITE, item
from holdtrue.errors import CatalogRefused, NotFound
from holdtrue.testing.rules import Rule, find_rule


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "a.yaml").write_text(
        item("sql: SELECT id FROM orders\nkey: [id]\npolicy: {tolerate: 2}")
    )
    path = tmp_path / "holdtrue.yaml"
    path.write_text(SQLITE)
    return path


def test_a_text_is_the_rule_itself() -> None:
    assert find_rule("SELECT 1") == Rule("the invariant", "SELECT 1")


def test_a_name_brings_the_text_and_what_is_tolerated(config: Path) -> None:
    assert find_rule("rule", config=config) == Rule("rule", "SELECT id FROM orders", "rows", 2)


def test_a_name_that_is_nearly_right_is_told(config: Path) -> None:
    with pytest.raises(NotFound, match=r"no invariant 'rulle'.*did you mean 'rule'\?"):
        find_rule("rulle", config=config)


def test_where_there_is_no_catalog_a_name_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="'rule' would be an invariant's name, and there is no") as found:
        find_rule("rule", config=tmp_path / "holdtrue.yaml")
    assert "give the SQL itself" in (found.value.remedy or "")


def test_the_problems_of_a_catalog_are_said_beside_its_refusal(config: Path) -> None:
    (config.parent / "invariants" / "a.yaml").write_text(item("sqll: SELECT id FROM orders"))
    with pytest.raises(CatalogRefused) as found:
        find_rule("rule", config=config)
    assert any("a.yaml:4" in note and "'sqll'" in note for note in found.value.__notes__)
