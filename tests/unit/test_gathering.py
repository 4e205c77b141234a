"""Which owed messages share one message, and what Slack is told then (semantics 7.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import AlertState, Episode, Event, Mark, Message, MessageState, Parcel, Reason, Subject
from holdtrue.notifiers.slack_digest import digest
from holdtrue.store.gathering import ALONE, MOST, WINDOW, Opening, gather
from servers.slack import problems_of

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def opening(number: int, seconds: float = 0, subject: Subject = Subject.VIOLATION, database: str = "shop") -> Opening:
    return Opening(number, NOW + timedelta(seconds=seconds), subject, database)


def test_a_few_go_alone_and_more_share_one_message() -> None:
    assert gather([opening(one) for one in range(ALONE)], 0) == ()
    assert gather([opening(one) for one in range(ALONE + 1)], 0) == tuple(range(ALONE + 1))


def test_those_told_lately_count_too_and_one_alone_is_never_a_group() -> None:
    assert gather([opening(7), opening(8)], ALONE - 2) == ()
    assert gather([opening(7), opening(8)], ALONE - 1) == (7, 8)
    assert gather([opening(7)], 100) == ()


def test_several_unchecked_of_one_database_are_one_message_beside_violations_that_go_alone() -> None:
    found = [
        opening(1),
        opening(2, 1, Subject.HEALTH),
        opening(3, 2, Subject.HEALTH, "other"),
        opening(4, 3, Subject.HEALTH),
    ]
    assert gather(found, 0) == (2, 4)


@given(
    st.lists(st.tuples(st.floats(0, 90), st.sampled_from(Subject), st.sampled_from(["a", "b"])), max_size=120),
    st.integers(0, 9),
)
def test_a_group_is_a_part_of_what_is_owed_within_the_window(
    given_: list[tuple[float, Subject, str]], lately: int
) -> None:
    openings = [opening(number, *one) for number, one in enumerate(given_)]
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
