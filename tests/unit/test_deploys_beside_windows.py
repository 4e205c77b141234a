"""Where a deploy lies beside the window of a violation, and what is told of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model.deploys import LOOK_BACK, NEAR, Deploy, Window, near, problem_of_deploy, where
from holdtrue.model.paging import Place

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WINDOW = Window(NOON, NOON + 15 * MINUTE)


def deploy(at: datetime, version: str = "1.4.2") -> Deploy:
    return Deploy("payments", version, at, "ci (token)", at)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (NOON - 3 * MINUTE, "3m before the window"),
        (NOON - MINUTE / 120, "1s before the window"),
        (NOON, "in the window"),
        (NOON + 15 * MINUTE, "in the window"),
        (NOON + 17 * MINUTE, "2m after the window"),
    ],
)
def test_a_deploy_is_told_by_its_distance_from_the_window(at: datetime, said: str) -> None:
    assert where(deploy(at), WINDOW) == said


def test_without_a_run_before_it_the_distance_is_from_when_it_was_first_seen() -> None:
    assert where(deploy(NOON - MINUTE), Window(None, NOON)) == "1m before it was first seen"


def test_a_line_names_service_version_distance_moment_and_who() -> None:
    (one,) = near([deploy(NOON - 3 * MINUTE)], WINDOW)
    assert str(one) == "deployed payments 1.4.2, 3m before the window (2026-11-29T11:57:00Z, by ci (token))"


@given(st.lists(st.integers(-3000, 100)), st.booleans())
def test_near_are_the_latest_few_of_the_window_and_the_day_before_it(minutes: list[int], known: bool) -> None:
    window = WINDOW if known else Window(None, WINDOW.closed)
    told = [deploy(NOON + minute * MINUTE, str(minute)) for minute in minutes]
    found = [one.deploy.at for one in near(told, window)]
    opened = window.opened or window.closed
    inside = sorted((one.at for one in told if opened - LOOK_BACK <= one.at <= window.closed), reverse=True)
    assert found == inside[:NEAR]


@given(st.datetimes(timezones=st.just(UTC)), st.integers(0, 10**18 - 1))
def test_a_place_that_is_written_reads_as_the_same_place(at: datetime, number: int) -> None:
    assert Place.read(str(Place(at, number))) == Place(at, number)


@pytest.mark.parametrize(
    ("service", "version", "at", "problem"),
    [
        ("payments", "1.4.2", NOON, ""),
        ("", "1.4.2", NOON, "needs a service"),
        ("payments", "", NOON, "needs a version"),
        ("p" * 101, "1", NOON, "a service has at most 100"),
        ("payments", "1" * 201, NOON, "a version has at most 200"),
        ("payments", "1", NOON + timedelta(minutes=15), ""),
        ("payments", "1", NOON + timedelta(minutes=16), "in the future"),
        ("payments", "1", NOON - timedelta(days=91), "would not be kept"),
    ],
)
def test_what_cannot_be_kept_is_said_in_words(service: str, version: str, at: datetime, problem: str) -> None:
    said = problem_of_deploy(service, version, at, NOON, timedelta(days=90))
    assert problem in said
    assert bool(said) == bool(problem)
