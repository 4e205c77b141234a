"""The cases from the field about configuration, through the product itself."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import casebook
from holdtrue.catalog import examine, load_catalog, read_texts
from holdtrue.errors import CatalogRefused
from holdtrue.model import Catalog, Interval, Severity


def _load(number: str, folder: Path) -> Catalog:
    return load_catalog(casebook.case(number).write_config(folder, casebook.sqlite_config()), environ={})


def _refusal(number: str, folder: Path) -> list[str]:
    assert casebook.case(number).expect["status"] == "config_error"
    with pytest.raises(CatalogRefused) as refusal:
        _load(number, folder)
    return [str(problem) for problem in refusal.value.problems]


def test_case_001_names_that_look_like_flags_are_kept_as_typed(tmp_path: Path) -> None:
    """Also accepted: the two names kept as the strings "on" and "no"."""
    catalog = _load("001", tmp_path)
    assert [one.name for one in catalog.invariants] == ["no", "on"]


def test_case_002_clock_like_intervals_are_all_refused_alike(tmp_path: Path) -> None:
    found = _refusal("002", tmp_path)
    assert [line.split(":")[1] for line in found] == ["3", "6", "9"]
    assert len({line.split("error: ")[1].rsplit(": ", 1)[0] for line in found}) == 1


def test_case_005_a_duplicate_key_is_told_with_both_lines(tmp_path: Path) -> None:
    (problem,) = _refusal("005", tmp_path)
    assert problem.startswith("invariants/refunds.yaml:5:5: ")
    assert "'sql': first on line 3, again on line 5" in problem


def test_case_006_merge_keys_survive(tmp_path: Path) -> None:
    (found,) = _load("006", tmp_path).invariants
    assert (found.name, found.severity) == ("seats_oversold", Severity.WARNING)
    assert found.schedule == Interval(timedelta(minutes=5))


def test_case_007_two_files_with_one_name_are_both_listed(tmp_path: Path) -> None:
    for problem in _refusal("007", tmp_path):
        if "two invariants have one name" in problem:
            assert "billing/ledger.yaml" in problem
            assert "audit/ledger.yaml" in problem
    assert any("two invariants have one name" in problem for problem in _refusal("007", tmp_path / "again"))


def test_case_009_every_misspelling_is_reported_in_one_go_with_the_nearest_word(tmp_path: Path) -> None:
    found = _refusal("009", tmp_path)
    assert any("parcels.yaml:4:5: " in one and "(did you mean 'severity'?)" in one for one in found)
    assert any("parcels.yaml:5:5: " in one and "'alert_chanel'" in one for one in found)
    assert any("parcels.yaml:6:14: " in one and "(did you mean 'rows'?)" in one for one in found)


def test_case_109_a_name_or_label_that_metrics_could_not_carry_is_refused(tmp_path: Path) -> None:
    found = _refusal("109", tmp_path)
    assert any("`name` must be a name" in one for one in found)
    assert any("`tags` must be a list" in one for one in found)


def test_case_123_the_length_of_a_name_is_checked_at_load(tmp_path: Path) -> None:
    found = [one for one in _refusal("123", tmp_path) if "`name`" in one]
    assert len(found) == 2
    assert all("at most 63 are allowed" in one for one in found)


def test_case_131_a_mounted_configmap_is_read_once(tmp_path: Path) -> None:
    assert [one.name for one in _load("131", tmp_path).invariants] == ["orders_negative"]


REFUSED_FOR_THEIR_TEXT = {"034", "037", "039", "085", "128"}
REFUSED_FOR_THEIR_NAME = {"114", "123"}


@pytest.mark.parametrize(
    "case", [one for one in casebook.all_cases() if "invariant" in one.raw], ids=lambda case: str(case.id)
)
def test_every_case_with_an_invariant_can_be_said_in_a_file(case: casebook.Case, tmp_path: Path) -> None:
    """What is refused here is refused for its text or its name, never for the casebook's own words."""
    dialect = "sqlite" if case.setup_sql("sqlite") else "postgresql"
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "a.yaml").write_text(case.invariants_file(dialect), encoding="utf-8")
    (tmp_path / "holdtrue.yaml").write_text(casebook.sqlite_config(), encoding="utf-8")
    answer = examine(read_texts(tmp_path / "holdtrue.yaml"), environ={})
    said = {problem.message.split("`")[1] for problem in answer.refusals}
    name = case.id in REFUSED_FOR_THEIR_NAME
    text = case.id in REFUSED_FOR_THEIR_TEXT or case.sql(dialect) == "SELECT 1 AS id"
    assert said == {word for word, refused in (("name", name), ("sql", text)) if refused}
    if answer.catalog is not None:
        assert answer.catalog.invariants[0].sql == case.sql(dialect)
