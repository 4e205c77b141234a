"""Which owed messages share one message, and what Slack is told then (semantics 7.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import AlertState, Episode, Event, Mark, Message, MessageState, Parcel, Reason, Subject, Thread
from holdtrue.notifiers.slack_digest import digest
from holdtrue.store.gathering import ALONE, LULL, MOST, UPDATE_EVERY, WINDOW, Due, Opening, Unseen, due_of, gather
from servers.slack import problems_of

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def opening(number: int, seconds: float = 0) -> Opening:
    return Opening(number, NOW + timedelta(seconds=seconds))


def test_a_few_go_alone_and_more_share_one_message() -> None:
    assert gather([opening(one) for one in range(ALONE)], 0) == ()
    assert gather([opening(one) for one in range(ALONE + 1)], 0) == tuple(range(ALONE + 1))


def test_those_told_lately_count_too_and_one_alone_is_never_a_group() -> None:
    assert gather([opening(7), opening(8)], ALONE - 2) == ()
    assert gather([opening(7), opening(8)], ALONE - 1) == (7, 8)
    assert gather([opening(7)], 100) == ()


THREAD = Thread("C1", "17.1")


def unseen(number: int, *, told: float | None = None, waiting: Reason | None = None, **more: Any) -> Unseen:
    told_at = None if told is None else NOW - timedelta(seconds=told)
    joined_at = more.pop("joined_at", told_at)
    return Unseen(
        number,
        **{"entry": number, "open": True, **more},
        told_at=told_at,
        joined_at=joined_at,
        waiting=frozenset([waiting] if waiting else []),
    )


def claims(members: list[Unseen], *, edits: bool) -> list[tuple[int, ...]]:
    return [one.claims for one in due_of(members, edits=edits, now=NOW)]


@pytest.mark.parametrize("edits", [True, False])
def test_all_that_is_unchecked_of_a_database_is_told_at_once_and_together(edits: bool) -> None:
    found = [unseen(one, waiting=Reason.UNCHECKED) for one in range(60)]
    [due] = due_of(found, edits=edits, now=NOW)
    assert due == Due(tuple(range(60)), (), None, first=True)


def test_who_joins_later_stands_in_the_message_of_those_that_are_open() -> None:
    found = [
        unseen(1, told=1, thread=THREAD, open=False),
        unseen(2, told=1, thread=THREAD),
        unseen(3, waiting=Reason.UNCHECKED),
    ]
    assert due_of(found, edits=True, now=NOW) == (Due((3,), (1, 2), THREAD, first=False, aloud=False),)
    over = [unseen(1, told=1, thread=THREAD, open=False), unseen(3, waiting=Reason.UNCHECKED)]
    # An outage that is over is not written on.
    assert due_of(over, edits=True, now=NOW) == (Due((3,), (), None, first=True),)


def test_a_rule_that_flaps_stands_in_the_message_once() -> None:
    """Semantics 7.4: what waits to be told is told all the same; the oldest stays the lock of all."""
    flapping = [unseen(number, entry=1, open=False, told=60, thread=THREAD) for number in range(1, 9)]
    other = unseen(9, told=60, thread=THREAD)
    again = unseen(10, entry=1, waiting=Reason.UNCHECKED)
    [due] = due_of([*flapping, other, again], edits=True, now=NOW)
    assert (due.claims, due.beside, due.earlier) == ((10,), (9,), tuple(range(1, 9)))
    assert min(due.all) == 1
    ends = replace(flapping[0], waiting=frozenset([Reason.RECOVERED]))
    [due] = due_of([ends, *flapping[1:], other], edits=True, now=NOW)
    assert (due.claims, due.beside) == ((1,), (8, 9))


def test_who_joins_is_told_aloud_when_it_makes_many_of_one_or_comes_after_a_lull() -> None:
    """One query's own trouble may have come before, and this is the database's: an old message that is edited calls nobody."""
    joins = unseen(9, waiting=Reason.UNCHECKED)

    def aloud(*members: Unseen) -> bool:
        [due] = due_of(members, edits=True, now=NOW)
        return due.aloud

    lull = LULL.total_seconds()
    assert aloud(unseen(1, told=1, thread=THREAD), joins)
    assert not aloud(unseen(1, told=1, thread=THREAD), unseen(2, told=1, thread=THREAD), joins)
    assert aloud(unseen(1, told=lull, thread=THREAD), unseen(2, told=lull, thread=THREAD), joins)
    assert not aloud(unseen(1, told=lull, thread=THREAD), unseen(2, told=lull - 1, thread=THREAD), joins)
    ends = unseen(2, told=1, thread=THREAD, open=False, waiting=Reason.RECOVERED)
    assert not aloud(unseen(1, told=lull, thread=THREAD), ends)
    # The first telling is a message of its own already.
    assert not aloud(joins, unseen(8, waiting=Reason.UNCHECKED))


def test_one_that_stood_alone_for_a_while_is_left_for_the_database_s_own_trouble() -> None:
    """Semantics 7.4: it may be of days ago, and where nobody is called again it would hide that the database is down."""
    lull = LULL.total_seconds()
    joins = unseen(9, waiting=Reason.UNCHECKED)

    def anew(*ones: Unseen) -> bool:
        [due] = due_of([*ones, joins], edits=True, now=NOW)
        return due.anew

    alone = unseen(1, told=lull, thread=THREAD)
    assert anew(alone)
    assert anew(alone, unseen(2, told=lull * 2, thread=THREAD, open=False))
    assert not anew(unseen(1, told=lull - 1, thread=THREAD))
    # It is about a database already.
    assert not anew(alone, unseen(2, told=lull, thread=THREAD))
    assert not anew(alone, unseen(2, told=lull - 1, thread=THREAD, open=False))
    assert not anew()


@pytest.mark.parametrize("reason", [Reason.UNCHECKED, Reason.RECOVERED])
def test_where_nothing_can_be_edited_what_joins_and_what_ends_is_gathered(reason: Reason) -> None:
    told = UPDATE_EVERY.total_seconds()
    waiting = unseen(2, told=9 if reason is Reason.RECOVERED else None, waiting=reason, open=reason is Reason.UNCHECKED)
    assert claims([unseen(1, told=told - 1), waiting], edits=True) == [(2,)]
    assert claims([unseen(1, told=told - 1), waiting], edits=False) == []
    assert claims([unseen(1, told=told), replace(waiting, told_at=None)], edits=False) == [(2,)]


@pytest.mark.parametrize("edits", [True, False])
def test_the_last_end_and_what_somebody_did_are_told_at_once_and_reminders_together(edits: bool) -> None:
    assert claims([unseen(1, told=1, waiting=Reason.RECOVERED, open=False)], edits=edits) == [(1,)]
    assert claims([unseen(1, told=1), unseen(2, told=1, waiting=Reason.ACKNOWLEDGED)], edits=edits) == [(2,)]
    assert claims([unseen(1, told=1), unseen(2, told=86_400, waiting=Reason.REMINDER)], edits=edits) == []
    assert claims([unseen(1, told=999), unseen(2, told=86_400, waiting=Reason.REMINDER)], edits=edits) == [(2,)]


def test_while_something_of_it_is_on_its_way_nothing_else_of_it_goes() -> None:
    held = replace(unseen(1, waiting=Reason.UNCHECKED), held=True)
    assert claims([held, unseen(2, waiting=Reason.UNCHECKED)], edits=True) == []


@given(
    st.lists(
        st.builds(
            Unseen,
            st.integers(1, 99),
            st.booleans(),
            st.sampled_from([None, THREAD, Thread("C1", "17.2")]),
            st.none() | st.integers(0, 900).map(lambda one: NOW - timedelta(seconds=one)),
            st.frozensets(st.sampled_from(Reason), max_size=2),
        ),
        max_size=9,
        unique_by=lambda one: one.episode,
    ),
    st.booleans(),
)
def test_nothing_of_a_database_waits_for_ever_and_nothing_is_told_twice(members: list[Unseen], edits: bool) -> None:
    now = [number for due in due_of(members, edits=edits, now=NOW) for number in due.claims]
    later = [number for due in due_of(members, edits=edits, now=NOW + UPDATE_EVERY) for number in due.claims]
    waiting = sorted(one.episode for one in members if one.waiting)
    assert len(set(now)) == len(now)
    assert set(now) <= set(waiting)
    assert sorted(later) == waiting


@given(st.lists(st.floats(0, 90), max_size=120), st.integers(0, 9))
def test_a_group_is_a_part_of_what_is_owed_within_the_window(given_: list[float], lately: int) -> None:
    openings = [opening(number, one) for number, one in enumerate(given_)]
    found = gather(openings, lately)
    at = {one.episode: one.owed_at for one in openings}
    assert len(set(found)) == len(found) <= MOST
    assert set(found) <= set(at)
    assert len(found) != 1
    if found:
        times = [at[one] for one in found]
        assert max(times) - min(times) <= WINDOW


_text = st.text(max_size=400)


def parcel(
    name: str, database: str, detail: str, severity: str, subject: Subject, *, open_: bool = True, number: int = 1
) -> Parcel:
    episode = Episode(
        name, database, subject, AlertState.FIRING if open_ else AlertState.RESOLVED, NOW, "d1", severity, "", id=number
    )
    return Parcel(
        message=Message(number, number, 1, "oncall", Reason.FIRED, MessageState.PENDING, NOW),
        event=Event(1, "fired", NOW, Reason.FIRED, detail=detail),
        episode=episode,
        description="",
        sample=None,
        runbook_url="",
        links=(),
        page_url=f"https://holdtrue.example.test/alerts/{number}",
        now=NOW,
    )


_parcels = st.lists(
    st.builds(
        lambda *of, open_: parcel(*of, open_=open_),
        _text,
        _text,
        _text,
        st.sampled_from(["critical", "info", "<!here>"]),
        st.sampled_from([Subject.VIOLATION, Subject.HEALTH]),
        open_=st.booleans(),
    ),
    min_size=2,
    max_size=MOST,
)


@given(_parcels)
def test_every_alert_of_a_group_is_in_its_message_and_slack_would_take_it(found: list[Parcel]) -> None:
    numbered = [
        replace(one, episode=replace(one.episode, id=number), page_url=f"https://x.test/alerts/{number}")
        for number, one in enumerate(found, 1)
    ]
    content = digest(numbered, {"shop"})
    assert problems_of({"text": content.text, "blocks": list(content.blocks)}) == []
    shown = str(content.blocks)
    assert all(f"/alerts/{number}|" in shown for number in range(1, len(found) + 1))
    assert problems_of({"text": content.alone}) == []


def test_what_is_violated_comes_before_a_database_that_is_down_and_a_repeat_says_so() -> None:
    blind = [parcel(f"rule_{one}", "shop", "refused", "info", Subject.HEALTH, number=one) for one in range(40)]
    broken = parcel("refund_once", "shop", "1 counted", "critical", Subject.VIOLATION, number=99)
    broken = replace(broken, message=replace(broken.message, marks=(Mark.MAY_BE_A_REPEAT,)))
    content = digest([*blind, broken], {"shop"})
    assert content.text.startswith("🔴 1 violated, 40 unchecked: ")
    assert "no replica of it can be asked; 40 unchecked" in content.alone
    assert content.alone.index("refund_once") < content.alone.index("rule_0")
    assert "may be a repeat" in str(content.blocks)
