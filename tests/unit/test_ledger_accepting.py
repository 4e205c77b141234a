"""What an accept covers, what looks suspicious, and how long rows take to heal (semantics 4.2, 5.1, 5.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.ledger import KEY_LIMIT, Suspicion, covered, healing, suspicion, why_not
from holdtrue.model import Accept, AcceptedKeys, Outcome, Population, Returns, Standing, parse_end
from tallies import NOW, invariant

DAY = timedelta(days=1)
MADE = ("s1", ("id",), "UTC")
KNOWN = Standing("one_refund", "payments", since=NOW, good_at=NOW, good_definition="d1")


def accepted(*keys: str, until: timedelta = DAY, made: tuple[str, tuple[str, ...], str] = MADE) -> AcceptedKeys:
    accept = Accept(1, "one_refund", "payments", "why", "alice", NOW - DAY, NOW + until, len(keys), *made)
    return AcceptedKeys(accept, keys)


def rows(*accepts: AcceptedKeys) -> tuple[dict[str, int], int]:
    found = covered(accepts, now=NOW, secret_id="s1", key_columns=("id",), timezone="UTC")
    return found.rows, found.lost


def test_accepts_of_one_key_cover_the_rows_that_either_saw() -> None:
    """Semantics 5.4: no more rows than were there."""
    assert rows(accepted("a", "a#2"), accepted("a", "b")) == ({"a": 2, "b": 1}, 0)


def test_what_has_ended_covers_nothing() -> None:
    assert rows(accepted("a", until=timedelta(0))) == ({}, 0)


@pytest.mark.parametrize("made", [("s2", ("id",), "UTC"), ("s1", ("id", "leg"), "UTC"), ("s1", ("id",), "Europe/Rome")])
def test_hashes_made_otherwise_match_nothing_and_are_counted_as_lost(made: tuple[str, tuple[str, ...], str]) -> None:
    """Semantics 4.2: in doubt a row counts."""
    assert rows(accepted("a", "b", made=made), accepted("c")) == ({"c": 1}, 2)


def refusal(*, present: int = 1, of_a_sample: bool = False, until: timedelta = DAY, **of: object) -> str:
    standing = of.pop("standing", KNOWN)
    found = why_not(
        invariant(**of),  # type: ignore[arg-type]
        standing,  # type: ignore[arg-type]
        present=present,
        of_a_sample=of_a_sample,
        until=NOW + until,
        now=NOW,
    )
    assert found is None or found.remedy
    return "" if found is None else found.sentence


def test_rows_with_a_key_may_be_accepted() -> None:
    assert refusal() == ""


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ({"key": ()}, "declares no `key`"),
        ({"returns": Returns.COUNT}, "returns a count"),
        ({"until": timedelta(0)}, "lies in the past"),
        ({"present": 0}, "counts"),
        ({"of_a_sample": True}, "more rows than the ledger keeps"),
        ({"standing": replace(KNOWN, good_at=None)}, "not been looked at"),
        ({"standing": replace(KNOWN, good_definition="d0")}, "not been looked at"),
    ],
)
def test_what_cannot_be_accepted_is_refused_with_the_remedy(of: dict[str, object], says: str) -> None:
    """Semantics 4.2, 5.4."""
    assert says in refusal(**of)  # type: ignore[arg-type]


def suspected(counted: int, *, before: int | None = 0, limit: int | None = None, population: int | None = None) -> str:
    rule = replace(invariant(), count_limit=limit)
    answer = Population(NOW, "d1", population) if population is not None else None
    found = suspicion(rule, Outcome.VIOLATED, counted, counted_before=before, population=answer)
    return found.value if found is not None else ""


@pytest.mark.parametrize(
    ("count", "of", "says"),
    [
        (5, {"limit": 5}, Suspicion.FROM_NONE_TO_LIMIT),
        (4, {"limit": 5}, ""),
        (5, {"limit": 5, "before": 1}, ""),
        (5, {"limit": 5, "before": None}, ""),
        (KEY_LIMIT + 1, {}, Suspicion.FROM_NONE_TO_LIMIT),
        (KEY_LIMIT, {}, ""),
        (7, {"population": 7, "before": 3}, Suspicion.WHOLE_POPULATION),
        (8, {"population": 7}, Suspicion.WHOLE_POPULATION),
        (6, {"population": 7}, ""),
        (1, {"population": 0}, ""),
    ],
)
def test_a_count_is_suspicious_by_a_named_reason(count: int, of: dict[str, int], says: str) -> None:
    """From none to the limit, or as large as the population: it often speaks of the text, the schema or a load."""
    assert suspected(count, **of) == says  # type: ignore[arg-type]


def test_what_holds_is_never_suspicious() -> None:
    rule = replace(invariant(tolerate=9), count_limit=5)
    assert suspicion(rule, Outcome.HELD, 5, counted_before=0, population=Population(NOW, "d1", 5)) is None


def test_no_key_that_healed_gives_no_suggestion() -> None:
    assert healing(()) is None


@given(st.lists(st.timedeltas(timedelta(0), timedelta(hours=9)), min_size=1, max_size=300))
def test_ninety_nine_of_a_hundred_healed_within_the_suggested_time(ages: list[timedelta]) -> None:
    """Semantics 5.1: their p99 is the suggested ``after``, in whole seconds."""
    found = healing(ages)
    assert found is not None
    within = sum(age <= found.p99 for age in ages)
    assert within * 100 >= 99 * len(ages)
    assert found.p99 - max(ages) < timedelta(seconds=1)
    assert found.p99 % timedelta(seconds=1) == timedelta(0)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("14d", NOW + 14 * DAY),
        ("2h30m", NOW + timedelta(hours=2, minutes=30)),
        ("2026-11-29", NOW + DAY / 2),
        ("2026-12-01T01:00:00+01:00", NOW + 1.5 * DAY),
    ],
)
def test_an_end_is_a_duration_a_day_or_a_moment(text: str, end: object) -> None:
    assert parse_end(text, NOW) == end


@pytest.mark.parametrize("text", ["", "soon", "2026-12-01T01:00:00", "2026-02-30", "99999999999d", "-3d", "14"])
def test_what_is_no_end_is_none(text: str) -> None:
    assert parse_end(text, NOW) is None
