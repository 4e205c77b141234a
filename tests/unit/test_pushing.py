"""What a member of an Alertmanager cluster is told, decided without a network (semantics 7.6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import AlertState, Ending, Episode, Subject
from holdtrue.notifiers import StateAlert, bodies, of_database, of_episode
from holdtrue.pushing import ENDS_KEPT, Board, Told, follow, note, owed_to, wait_after

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NAMES = ("a", "b", "c")


def alert(name: str, at: datetime = NOON) -> StateAlert:
    return StateAlert((("alertname", name),), (), at)


def episode(**fields: object) -> Episode:
    made = Episode("refunds", "payments", Subject.VIOLATION, AlertState.FIRING, NOON, "d1", "critical", "oncall")
    from dataclasses import replace

    return replace(made, **{"fired_at": NOON, "fired_as": "refunds", "count": 3, "id": 7, **fields})  # type: ignore[arg-type]


def pushed(one: Episode, **said: str) -> StateAlert:
    return of_episode(one, **{"description": "", "runbook_url": "", "page_url": "", **said})


def test_what_no_longer_fires_has_ended_as_the_store_says_or_now() -> None:
    board = follow(Board(), [alert("a"), alert("b")], [], NOON)
    later = NOON + MINUTE
    board = follow(board, [], [alert("a").end(NOON + timedelta(seconds=30))], later)
    assert {labels[0][1]: one.ended_at for labels, one in board.ends.items()} == {
        "a": NOON + timedelta(seconds=30),
        "b": later,
    }
    assert not follow(board, [], [], later + ENDS_KEPT).ends


def test_what_fires_again_has_not_ended() -> None:
    board = follow(follow(Board(), [alert("a")], [], NOON), [], [], NOON)
    again = follow(board, [alert("a", NOON + MINUTE)], [], NOON + MINUTE)
    assert not again.ends
    told = Told(ends={alert("a").identity}, firing=set(), in_full_at=0.0)
    assert owed_to(again, told, 1.0, MINUTE, blind=False).firing == (alert("a", NOON + MINUTE),)


def test_all_that_fires_is_told_again_when_the_time_has_come_and_only_the_new_before() -> None:
    board = follow(Board(), [alert("a"), alert("b")], [], NOON)
    told = Told(firing={alert("a").identity}, in_full_at=0.0)
    assert owed_to(board, told, 59.0, MINUTE, blind=False).firing == (alert("b"),)
    in_full = owed_to(board, told, 60.0, MINUTE, blind=False)
    assert in_full.firing == (alert("a"), alert("b"))
    note(told, in_full, board, 60.0)
    assert not owed_to(board, told, 61.0, MINUTE, blind=False).firing


def test_an_end_is_owed_until_it_is_taken_and_never_while_blind() -> None:
    board = follow(follow(Board(), [alert("a")], [], NOON), [], [], NOON)
    told = Told(firing={alert("a").identity}, in_full_at=0.0)
    for at in (1.0, 2.0, 3.0):
        assert owed_to(board, told, at, MINUTE, blind=True).ends == ()
        assert [one.ended_at for one in owed_to(board, told, at, MINUTE, blind=False).ends] == [NOON]
    note(told, owed_to(board, told, 3.0, MINUTE, blind=False), board, 3.0)
    assert owed_to(board, told, 200.0, MINUTE, blind=False).ends == ()
    assert not told.firing


@given(st.lists(st.tuples(st.sets(st.sampled_from(NAMES)), st.booleans(), st.booleans()), max_size=30))
def test_a_member_ends_up_with_exactly_what_fires_whatever_was_lost(rounds: list[tuple[set[str], bool, bool]]) -> None:
    """Over any history of firing, lost pushes and blindness: once a push gets through, the member agrees with the store."""
    board, told = Board(), Told()
    member: dict[object, StateAlert] = {}
    now, at = NOON, 0.0
    for firing, taken, blind in [*rounds, (rounds[-1][0] if rounds else set(), True, False)]:
        now, at = now + timedelta(seconds=7), at + 7
        if not blind:
            board = follow(board, [alert(one) for one in sorted(firing)], [], now)
        push = owed_to(board, told, at, MINUTE, blind=blind)
        if blind:
            assert not push.ends
        if taken:
            member |= {one.labels: one for one in (*push.firing, *push.ends)}
            note(told, push, board, at)
    assert {labels for labels, one in member.items() if one.ended_at is None} == set(board.firing)


def test_labels_are_those_of_the_firing_and_hold_no_count() -> None:
    """Semantics 7.6: fixed when it fires; a new name or another count changes none of them."""
    first = pushed(episode())
    later = pushed(episode(invariant="renamed", count=900, acknowledged_by="ana"))
    assert first.labels == later.labels
    assert dict(first.labels) == {
        "alertname": "HoldtrueViolated",
        "invariant": "refunds",
        "database": "payments",
        "severity": "critical",
        "owner": "oncall",
    }
    assert dict(later.annotations)["summary"] == "refunds is violated on payments: 900 counted"
    assert dict(later.annotations)["acknowledged_by"] == "ana"


def test_an_empty_label_is_left_out_as_alertmanager_would() -> None:
    assert "owner" not in dict(pushed(episode(owner="")).labels)


def test_an_alert_from_before_names_were_kept_has_its_entrys_name() -> None:
    assert dict(pushed(episode(fired_as="")).labels)["invariant"] == "refunds"


def test_health_has_its_own_names() -> None:
    """Semantics 7.6."""
    assert dict(pushed(episode(subject=Subject.HEALTH)).labels)["alertname"] == "HoldtrueUnchecked"
    assert dict(of_database("payments", NOON, page_url="").labels) == {
        "alertname": "HoldtrueDatabaseUnreachable",
        "database": "payments",
        "severity": "critical",
    }


def test_what_fires_ends_by_itself_only_after_it_is_kept_for_and_an_end_is_never_before_the_beginning() -> None:
    ended = pushed(episode(ended_at=NOON - MINUTE, state=AlertState.RESOLVED, ending=Ending.RESOLVED))
    firing, over = bodies([pushed(episode()), ended], NOON + MINUTE, timedelta(minutes=15))
    assert firing["startsAt"] == "2026-11-29T12:00:00.000+00:00"
    assert firing["endsAt"] == "2026-11-29T12:16:00.000+00:00"
    assert over["endsAt"] == over["startsAt"]


@pytest.mark.parametrize(
    "hostile",
    ["<!channel> look", "{{ .Labels }}", "a\nb\x00\u202ec", "@here", "x" * 100_000, "\ud800", "<https://evil|click>"],
)
def test_annotations_are_bounded_and_neither_format_nor_call_anybody(hostile: str) -> None:
    """Alertmanager puts them into Slack's markup and its users' templates unescaped."""
    made = pushed(episode(acknowledged_by=hostile), description=hostile, runbook_url=hostile, page_url=hostile)
    for name, value in made.annotations:
        assert len(value) <= 1010, name
        assert not set("<>{}\n\x00\u202e\ud800") & set(value)
        assert "@here" not in value
    assert {"runbook_url", "dashboard_url"}.isdisjoint(dict(made.annotations))
    assert "generatorURL" not in bodies([made], NOON, MINUTE)[0]


def test_a_member_that_does_not_take_it_is_tried_again_soon_and_never_later_than_the_re_sending() -> None:
    assert [wait_after(one, MINUTE) for one in (1, 2, 3, 7, 500)] == [1, 2, 4, 60, 60]
