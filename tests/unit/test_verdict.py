"""The table of semantics 6, line by line, with its sentences and exit codes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdtrue.alerting import verdict
from holdtrue.model import (
    AlertState,
    Episode,
    Interval,
    Invariant,
    Outcome,
    Policy,
    Standing,
    Subject,
    Verdict,
    Word,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
INVARIANT = Invariant("one_refund", "SELECT 1", ("payments",), Interval(timedelta(minutes=15)), "d1")
NEVER = Standing("one_refund", "payments", since=NOW - timedelta(days=1))
FRESH, STALE = timedelta(minutes=3), timedelta(hours=3)


def standing(outcome: Outcome, age: timedelta, count: int = 0) -> Standing:
    return replace(NEVER, good_run=1, good_at=NOW - age, good_outcome=outcome, good_count=count)


def alert(state: AlertState) -> Episode:
    return Episode("one_refund", "payments", Subject.VIOLATION, state, NOW - STALE, "d1", "critical", "", id=1)


FIRING, PENDING = alert(AlertState.FIRING), alert(AlertState.PENDING)


@pytest.mark.parametrize(
    ("known", "episode", "expected"),
    [
        (NEVER, None, Verdict(Word.UNKNOWN, "unknown: never looked", False, True, None, 3)),
        (standing(Outcome.HELD, FRESH), None, Verdict(Word.HOLDS, "holds, 3m ago", False, False, 0, 0)),
        (standing(Outcome.HELD, STALE), None, Verdict(Word.UNKNOWN, "unknown: last held 3h ago", False, True, None, 3)),
        (
            standing(Outcome.VIOLATED, FRESH, 7),
            PENDING,
            Verdict(Word.VIOLATED, "violated, pending, 3m ago", False, False, 7, 1),
        ),
        (standing(Outcome.VIOLATED, FRESH, 7), FIRING, Verdict(Word.VIOLATED, "violated, 3m ago", True, False, 7, 1)),
        (
            standing(Outcome.VIOLATED, STALE, 7),
            FIRING,
            Verdict(Word.VIOLATED, "violated, not seen since 3h ago", True, True, None, 1),
        ),
        (
            standing(Outcome.VIOLATED, STALE, 7),
            PENDING,
            Verdict(Word.VIOLATED, "violated, not seen since 3h ago", False, True, None, 1),
        ),
    ],
)
def test_the_table_of_verdicts(known: Standing, episode: Episode | None, expected: Verdict) -> None:
    """Semantics 6."""
    assert verdict(known, episode, INVARIANT, NOW) == expected


def failed(known: Standing, reason: str) -> Standing:
    return replace(known, errors_in_a_row=1, try_at=NOW, try_outcome=Outcome.ERRORED, try_reason=reason)


def test_a_failed_try_is_said_beside_a_fresh_answer() -> None:
    """Semantics 6: holds, also while the newest try errored."""
    judged = verdict(failed(standing(Outcome.HELD, FRESH), "timeout: no answer within 10s"), None, INVARIANT, NOW)
    assert judged.sentence == "holds, 3m ago · last try failed: timeout: no answer within 10s"
    assert (judged.word, judged.exit_code) == (Word.HOLDS, 0)


@pytest.mark.parametrize(
    ("known", "episode", "code"),
    [
        (standing(Outcome.HELD, FRESH), None, 3),
        (NEVER, None, 3),
        (standing(Outcome.VIOLATED, FRESH, 2), FIRING, 1),
    ],
)
def test_a_vacuous_try_never_counts_as_holding(known: Standing, episode: Episode | None, code: int) -> None:
    """Semantics 6: vacuous is as errored, and the overview ends with 3 unless something worse is known."""
    judged = verdict(failed(known, "vacuous: the population is empty"), episode, INVARIANT, NOW)
    assert judged.exit_code == code
    assert "vacuous" in judged.sentence


def test_rows_that_do_not_count_are_said_next_to_the_word() -> None:
    """Semantics 6, 5.1: held with tolerated, waived or settling rows always says so."""
    settling = replace(standing(Outcome.HELD, FRESH), good_settling=3)
    assert verdict(settling, None, INVARIANT, NOW).sentence == "holds · 3 settling, 3m ago"
    tolerated = replace(standing(Outcome.HELD, FRESH, 2), good_waived=1)
    judged = verdict(tolerated, None, replace(INVARIANT, policy=Policy(tolerate=5)), NOW)
    assert judged.sentence == "holds · 2 tolerated · 1 waived, 3m ago"
    assert judged.violations == 2


def test_an_alert_that_waits_for_more_good_runs_is_still_firing() -> None:
    """Semantics 0, 7.2: one good run of two takes nothing back yet."""
    waiting = replace(FIRING, held_in_a_row=1)
    rule = replace(INVARIANT, policy=Policy(resolve_after=2))
    judged = verdict(standing(Outcome.HELD, FRESH), waiting, rule, NOW)
    assert judged.sentence == "holds, 3m ago · still firing: held in 1 of 2 runs"
    assert (judged.firing, judged.exit_code) == (True, 1)


def test_an_age_is_no_finer_than_a_person_reads_it() -> None:
    """Semantics 0: every verdict has its age; milliseconds tell nobody more."""
    just = standing(Outcome.HELD, timedelta(milliseconds=614))
    assert verdict(just, None, INVARIANT, NOW).sentence == "holds, 0s ago"


def test_an_answer_of_unproven_freshness_says_so() -> None:
    """Semantics 2.1: freshness none is carried by every verdict."""
    known = replace(standing(Outcome.HELD, FRESH), freshness_proven=False)
    assert verdict(known, None, INVARIANT, NOW).sentence == "holds, 3m ago · freshness not proven"


def test_a_count_that_was_cut_short_says_at_least() -> None:
    """Semantics 3.4."""
    known = replace(standing(Outcome.VIOLATED, FRESH, 7), good_complete=False)
    assert verdict(known, FIRING, INVARIANT, NOW).sentence == "violated, 3m ago · at least 7"


def test_an_alert_outlives_a_lost_standing() -> None:
    """Semantics 0: bad news stays."""
    judged = verdict(NEVER, FIRING, INVARIANT, NOW)
    assert (judged.word, judged.firing, judged.exit_code) == (Word.VIOLATED, True, 1)


@pytest.mark.parametrize("ahead", [timedelta(minutes=2), timedelta(hours=1), timedelta(days=400)])
def test_an_answer_from_the_future_is_no_answer(ahead: timedelta) -> None:
    """Semantics 0, 8.3: the clock was set back; until it has caught up nothing is due, and nobody looks."""
    held = verdict(standing(Outcome.HELD, -ahead), None, INVARIANT, NOW)
    assert (held.word, held.unknown, held.violations, held.exit_code) == (Word.UNKNOWN, True, None, 3)
    assert "ahead of the store's clock" in held.sentence
    violated = verdict(standing(Outcome.VIOLATED, -ahead, 2), FIRING, INVARIANT, NOW)
    assert (violated.word, violated.firing, violated.unknown, violated.exit_code) == (Word.VIOLATED, True, True, 1)


def test_clocks_that_differ_a_little_make_nothing_unknown() -> None:
    """An instance carries the store's clock forward by itself between two readings."""
    assert verdict(standing(Outcome.HELD, -timedelta(seconds=5)), None, INVARIANT, NOW).sentence == "holds, 0s ago"


def test_a_text_that_was_never_run_does_not_hold_because_the_former_one_did() -> None:
    """Semantics 0, 1.1: what held is the definition that was run. Red stays red."""
    held = replace(standing(Outcome.HELD, FRESH), good_definition="d0")
    judged = verdict(held, None, INVARIANT, NOW)
    assert (judged.word, judged.unknown, judged.violations, judged.exit_code) == (Word.UNKNOWN, True, None, 3)
    assert judged.sentence == "unknown: not looked since the definition changed; the former one held 3m ago"
    assert verdict(replace(held, good_definition="d1"), None, INVARIANT, NOW).exit_code == 0
    firing = verdict(held, FIRING, INVARIANT, NOW)
    assert (firing.word, firing.firing, firing.exit_code) == (Word.UNKNOWN, True, 1)
    violated = verdict(replace(standing(Outcome.VIOLATED, FRESH, 7), good_definition="d0"), FIRING, INVARIANT, NOW)
    assert (violated.word, violated.firing, violated.violations, violated.exit_code) == (Word.VIOLATED, True, 7, 1)
    assert violated.sentence == "violated, 3m ago · under the former definition"


def test_the_last_moment_of_freshness_is_fresh() -> None:
    """Semantics 6: fresh_for is twice the interval, and the time limit."""
    limit = timedelta(minutes=30, seconds=10)
    assert verdict(standing(Outcome.HELD, limit), None, INVARIANT, NOW).word is Word.HOLDS
    assert verdict(standing(Outcome.HELD, limit + timedelta(seconds=1)), None, INVARIANT, NOW).word is Word.UNKNOWN
