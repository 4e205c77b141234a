"""Our silences as matchers of an Alertmanager (semantics 7.5, 7.6)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.alerting import parse_matchers
from holdtrue.bootstrap.mirroring import label_matches, mirrors_of, pattern_of
from holdtrue.errors import StoreError
from holdtrue.model import AlertState, Episode, Silence, Subject
from holdtrue.notifiers import LabelMatch
from scenes import catalog_of, invariant
from servers.alertmanager import cluster_of

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


def fired(invariant: str, fired_as: str) -> Episode:
    moment = datetime(2026, 11, 29, 12, tzinfo=UTC)
    return Episode(
        invariant, "payments", Subject.VIOLATION, AlertState.FIRING, moment, "d1", "critical", "me", fired_as=fired_as
    )


def test_what_fires_under_a_former_name_is_silenced_under_it() -> None:
    """Semantics 7.5, 7.6: it matches ours by its present name; the cluster knows it by the one that it fired with."""
    renamed = (fired("refunds", "re.fund"), fired("ledger", "books"), fired("c", "c"), fired("c", ""))

    def matches(*matchers: str) -> tuple[LabelMatch, ...] | None:
        return label_matches(parse_matchers(matchers), CATALOG, renamed)

    assert matches("name=refunds") == (LabelMatch("invariant", r"refunds|re\.fund", regex=True),)
    assert matches("name~l*", "owner=me") == (
        LabelMatch("invariant", "(?s:l.*)|books", regex=True),
        LabelMatch("owner", "me"),
    )
    assert matches("name=books") == (LabelMatch("invariant", "books"),)
    assert matches("tag=money") == (LabelMatch("invariant", r"ledger|refunds|books|re\.fund", regex=True),)
    assert matches("name=c") == (LabelMatch("invariant", "c"),)


def test_a_silence_whose_names_cannot_be_read_is_said_not_to_be_there() -> None:
    """Semantics 7.6: one of half of the names would be called the same."""

    def unread() -> tuple[Episode, ...]:
        raise StoreError("the store is away", remedy="")

    moment = datetime(2026, 11, 29, 12, tzinfo=UTC)
    made = Silence(1, parse_matchers(["name=refunds"]), "why", "alice", moment, moment, moment + timedelta(hours=1))
    (mirror,) = mirrors_of([cluster_of("http://127.0.0.1:9")], lambda: CATALOG, unread)
    assert "could not be read" in mirror.silence(made)


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
