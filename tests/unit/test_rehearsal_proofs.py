"""What an example shows, and what the examples of an invariant prove: pure decisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.databases import Examined
from holdtrue.model import (
    Example,
    Failure,
    FailureReason,
    FromNow,
    Interval,
    Invariant,
    Outcome,
    Policy,
    Position,
    Sample,
    Tallied,
)
from holdtrue.rehearsal import Kind, Proven, Result, Trial
from holdtrue.rehearsal.proofs import judge_example, prove
from holdtrue.rehearsal.scratch import moment_text, sqlite_moment_text

NOW = datetime(2026, 11, 29, 13, 0, 0, tzinfo=UTC)
RULE = Invariant("rule", "SELECT 1", ("shop",), Interval(timedelta(minutes=15)), "d")


def examined(outcome: Outcome, counted: int = 0, failure: Failure | None = None, **tallied: int) -> Examined:
    numbers = {"returned": counted, "settling": 0, "waived": 0, **tallied}
    return Examined(
        outcome=outcome,
        tallied=Tallied(
            numbers["returned"], counted, numbers["settling"], numbers["waived"], {}, Sample((), ()), identified=True
        ),
        failure=failure,
        complete=True,
        statement=timedelta(0),
        position=Position(replica="scratch", moment=NOW),
    )


def trial(kind: Kind, result: Result) -> Trial:
    return Trial(kind, 1, Example(()), result)


@pytest.mark.parametrize(
    ("kind", "outcome", "result"),
    [
        (Kind.VIOLATING, Outcome.VIOLATED, Result.SHOWN),
        (Kind.VIOLATING, Outcome.HELD, Result.FAILED),
        (Kind.HEALTHY, Outcome.HELD, Result.SHOWN),
        (Kind.HEALTHY, Outcome.VIOLATED, Result.FAILED),
    ],
)
def test_an_example_shows_what_it_says_or_fails(kind: Kind, outcome: Outcome, result: Result) -> None:
    counted = 2 if outcome is Outcome.VIOLATED else 0
    assert judge_example(RULE, kind, examined(outcome, counted))[:2] == (result, counted)


def test_an_invariant_that_does_not_break_is_told_that_it_cannot_fail() -> None:
    _, _, sentence = judge_example(RULE, Kind.VIOLATING, examined(Outcome.HELD))
    assert sentence == "the invariant cannot fail as its examples show: it must break here, and counted 0 rows"


def test_rows_that_did_not_count_are_named() -> None:
    """A violating example that settles, is waived or is tolerated is not shown, and the sentence says why."""
    rule = replace(RULE, policy=Policy(tolerate=3))
    answer = examined(Outcome.HELD, 1, returned=4, settling=2, waived=1)
    assert judge_example(rule, Kind.VIOLATING, answer)[2].endswith("counted 1 row (3 tolerated, 2 settling, 1 waived)")


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("reason", FailureReason)
def test_not_having_looked_shows_nothing(kind: Kind, reason: FailureReason) -> None:
    """semantics 0: of an errored answer nothing follows; what the example's own rows led to is the example's failure."""
    failure = Failure(reason, "because")
    of_the_rows = {
        FailureReason.SHAPE,
        FailureReason.NULL_COUNT,
        FailureReason.POPULATION,
        FailureReason.VACUOUS,
        FailureReason.COUNT_LIMIT,
    }
    result, counted, sentence = judge_example(RULE, kind, examined(Outcome.ERRORED, failure=failure))
    assert (result, counted, sentence) == (
        Result.FAILED if reason in of_the_rows else Result.COULD_NOT_LOOK,
        None,
        "because",
    )
    assert judge_example(RULE, kind, failure) == (Result.COULD_NOT_LOOK, None, "because")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            Failure(FailureReason.QUERY, "no", "42P01", None, "ERROR: no table\nLINE 1"),
            "no (SQLSTATE 42P01): ERROR: no table",
        ),
        (Failure(FailureReason.QUERY, "no", None, None, "no such table: x"), "no: no such table: x"),
        (Failure(FailureReason.QUERY, "no", "22P02", None, "ERROR: invalid: private"), "no (SQLSTATE 22P02)"),
        (Failure(FailureReason.TIMEOUT, "no", "57014", None, "ERROR: private"), "no (SQLSTATE 57014)"),
    ],
)
def test_the_servers_words_are_repeated_only_where_they_are_names(failure: Failure, said: str) -> None:
    """semantics 3.5"""
    assert judge_example(RULE, Kind.HEALTHY, failure)[2] == said


_trials = st.lists(st.builds(trial, st.sampled_from(list(Kind)), st.sampled_from(list(Result))), max_size=6)


@given(_trials)
def test_an_invariant_is_proven_only_by_examples_that_all_show_it_and_one_that_breaks_it(trials: list[Trial]) -> None:
    proven, sentence = prove(trials)
    assert (proven is Proven.PROVEN) == (
        all(one.result is Result.SHOWN for one in trials) and any(one.kind is Kind.VIOLATING for one in trials)
    )
    assert (proven is Proven.FAILED) == any(one.result is Result.FAILED for one in trials)
    assert bool(sentence) == (proven is Proven.NOT_PROVEN)


@given(
    st.timedeltas(timedelta(days=-3000), timedelta(days=3000)),
    st.sampled_from(sorted(available_timezones())),
)
def test_a_moment_is_the_same_moment_in_every_zone(offset: timedelta, zone: str) -> None:
    text = moment_text(FromNow(offset), NOW, ZoneInfo(zone))
    assert datetime.fromisoformat(text) == NOW + offset


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (timedelta(0), "2026-11-29 13:00:00"),
        (timedelta(minutes=-5), "2026-11-29 12:55:00"),
        (timedelta(milliseconds=250), "2026-11-29 13:00:00.250"),
        (timedelta(days=-36_500), "1926-12-24 13:00:00"),
    ],
)
def test_sqlite_gets_a_moment_as_its_own_clock_writes_it(offset: timedelta, text: str) -> None:
    assert sqlite_moment_text(FromNow(offset), NOW) == text
