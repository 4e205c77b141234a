"""Our silences as matchers of an Alertmanager (semantics 7.5, 7.6)."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.alerting import parse_matchers
from holdtrue.bootstrap.mirroring import label_matches, pattern_of
from holdtrue.notifiers import LabelMatch
from scenes import catalog_of, invariant

CATALOG = catalog_of(
    [invariant("refunds", tags=("money", "pci")), invariant("ledger", tags=("money",)), invariant("c")]
)


def test_fields_become_labels_and_a_tag_the_invariants_that_have_it() -> None:
    wanted = parse_matchers(["name=refunds", "owner~pay*", "severity=critical", "database~shard-?", "tag=money"])
    assert label_matches(wanted, CATALOG) == (
        LabelMatch("invariant", "refunds"),
        LabelMatch("owner", "(?s:pay.*)", regex=True),
        LabelMatch("severity", "critical"),
        LabelMatch("database", r"(?s:shard\-.)", regex=True),
        LabelMatch("invariant", "ledger|refunds", regex=True),
    )
    assert label_matches(parse_matchers(["tag~p*"]), CATALOG) == (LabelMatch("invariant", "refunds", regex=True),)


@pytest.mark.parametrize("catalog", [CATALOG, None])
def test_a_tag_that_nothing_has_is_not_taken_for_everything(catalog: object) -> None:
    assert label_matches(parse_matchers(["name~*", "tag=other"]), catalog) is None  # type: ignore[arg-type]


@given(st.text("ab.*?[]!^-|(\\", max_size=8), st.text("ab.^!-|(\\[]", max_size=5))
def test_a_pattern_matches_what_its_glob_matches(glob: str, value: str) -> None:
    try:
        pattern = re.compile(pattern_of(glob))
    except re.error:
        # A range that runs backwards, as in [b-a]: the cluster refuses it, and the answer says so.
        return
    assert bool(pattern.fullmatch(value)) == fnmatchcase(value, glob)
