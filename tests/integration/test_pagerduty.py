"""PagerDuty: an incident for each episode, opened and closed by events within every limit (the stub checks them)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from holdtrue.model import (
    AlertState,
    Delivered,
    Ending,
    Mark,
    Parcel,
    Reason,
    Sample,
    Subject,
    Thread,
    Undelivered,
)
from holdtrue.notifiers import Notifier, Outage, OutageTeller
from scenes.told import EPISODE, NOW, RESOLVED, UNCHECKED, notifier_at, parcel
from servers.hooks import PagerDutyStub, Reply


@pytest.fixture
def pager() -> Iterator[PagerDutyStub]:
    with PagerDutyStub() as stub:
        yield stub
        assert stub.problems == []


def pager_of(stub: PagerDutyStub) -> Notifier:
    return notifier_at("pagerduty", stub.server.server_address[1])


def told(notifier: Notifier, *steps: tuple[object, Reason]) -> None:
    """The events of one episode, each with the thread that the one before it gave."""
    thread = None
    for episode, reason in steps:
        result = notifier.deliver(parcel(episode, reason, thread=thread))  # type: ignore[arg-type]
        assert isinstance(result, Delivered)
        thread = result.thread


def test_an_episode_is_one_incident_from_its_trigger_to_its_resolve(pager: PagerDutyStub) -> None:
    acknowledged = replace(EPISODE, events=3, acknowledged_by="ada")
    told(
        pager_of(pager),
        (EPISODE, Reason.FIRED),
        (replace(EPISODE, count=10, events=2), Reason.WORSENED),
        (acknowledged, Reason.ACKNOWLEDGED),
        (replace(RESOLVED, events=4), Reason.RESOLVED),
    )
    [actions] = pager.incidents().values()
    assert actions == ["trigger", "trigger", "acknowledge", "resolve"]


@pytest.mark.parametrize(
    ("reason", "ending", "word"),
    [
        (Reason.WITHDRAWN, Ending.WITHDRAWN, "Withdrawn, which proves nothing"),
        (Reason.REDEFINED, Ending.REDEFINED, "Redefined, which proves nothing"),
    ],
)
def test_an_end_that_proves_nothing_resolves_and_says_so(
    pager: PagerDutyStub, reason: Reason, ending: Ending, word: str
) -> None:
    told(pager_of(pager), (EPISODE, Reason.FIRED), (replace(RESOLVED, ending=ending), reason))
    assert pager.posts[-1].body["event_action"] == "resolve"
    assert word in pager.posts[-1].body["payload"]["summary"]


def test_nobody_knowing_is_an_incident_of_its_own(pager: PagerDutyStub) -> None:
    """Semantics 6: an unchecked episode beside a violation; its end closes its own incident alone."""
    notifier = pager_of(pager)
    told(notifier, (EPISODE, Reason.FIRED))
    over = replace(UNCHECKED, state=AlertState.RESOLVED, ending=Ending.RECOVERED, ended_at=NOW, events=2)
    told(notifier, (UNCHECKED, Reason.UNCHECKED), (over, Reason.RECOVERED))
    assert list(pager.incidents().values()) == [["trigger"], ["trigger", "resolve"]]


def test_two_installations_and_two_episodes_share_no_incident(pager: PagerDutyStub) -> None:
    notifier = pager_of(pager)
    elsewhere = replace(EPISODE, opened_at=NOW + timedelta(microseconds=1))
    told(notifier, (EPISODE, Reason.FIRED))
    told(notifier, (elsewhere, Reason.FIRED))
    told(notifier, (replace(EPISODE, id=14), Reason.REOPENED))
    assert len(pager.incidents()) == 3


def test_a_notice_is_left_to_a_person(pager: PagerDutyStub) -> None:
    """A waiver that ends soon: the episode is over with its one message, and nothing would take it back."""
    notice = replace(RESOLVED, subject=Subject.WAIVER, ending=Ending.TOLD, events=1)
    told(pager_of(pager), (notice, Reason.EXPIRING))
    assert list(pager.incidents().values()) == [["trigger"]]


def test_what_ended_before_pagerduty_heard_of_it_pages_nobody_and_says_so(pager: PagerDutyStub) -> None:
    one = parcel(RESOLVED, Reason.RESOLVED)
    one = replace(one, message=replace(one.message, overtook=(Reason.FIRED,)))
    result = pager_of(pager).deliver(one)
    assert isinstance(result, Delivered)
    assert "nobody was paged" in result.note
    assert list(pager.incidents().values()) == [["resolve"]]


def test_a_late_trigger_is_resolved_again(pager: PagerDutyStub) -> None:
    """Semantics 7.3: an incident that a frozen instance opened anew must not page for ever; an open one is left alone."""
    notifier = pager_of(pager)
    first = notifier.deliver(parcel())
    assert isinstance(first, Delivered)
    assert notifier.redraw(parcel(thread=first.thread)) == Delivered(first.thread)
    assert isinstance(notifier.redraw(parcel(RESOLVED, Reason.RESOLVED, thread=first.thread)), Delivered)
    assert list(pager.incidents().values()) == [["trigger", "resolve"]]


@pytest.mark.parametrize(
    ("ours", "theirs"), [("critical", "critical"), ("warning", "warning"), ("info", "info"), ("odd", "error")]
)
def test_severities_are_theirs(pager: PagerDutyStub, ours: str, theirs: str) -> None:
    told(pager_of(pager), (replace(EPISODE, severity=ours), Reason.FIRED))
    assert pager.posts[0].body["payload"]["severity"] == theirs


def test_every_text_is_cut_to_its_limit_and_different_ones_stay_different(pager: PagerDutyStub) -> None:
    notifier = pager_of(pager)
    for tail in ("1", "2"):
        long = "\x1b" * 3_000 + "ä" * 3_000 + tail
        episode = replace(EPISODE, invariant=long, database=long, owner=long)
        sample = Sample((long, "b"), ((long, long),) * 20)
        one = parcel(episode, detail=long, description=long, health_sentence=long, sample=sample)
        assert isinstance(notifier.deliver(one), Delivered)
    first, second = (post.body["payload"] for post in pager.posts)
    for name in ("summary", "source", "component", "group"):
        assert first[name] != second[name]


def test_a_pause_is_kept_and_a_bad_event_fails_for_good(pager: PagerDutyStub) -> None:
    pager.answers.extend([Reply(429, {"Retry-After": "30"}), Reply(429), Reply(500), Reply(400)])
    results = [pager_of(pager).deliver(parcel()) for _ in range(4)]
    assert results == [
        Undelivered("PagerDuty asks for a pause (429)", retry_after=30),
        Undelivered("PagerDuty asks for a pause (429)", retry_after=1),
        Undelivered("PagerDuty answered 500"),
        Undelivered("PagerDuty refused it (400)", permanent=True),
    ]


def teller_of(stub: PagerDutyStub) -> OutageTeller:
    notifier = pager_of(stub)
    assert isinstance(notifier, OutageTeller)
    return notifier


def unseen(number: int, reason: Reason = Reason.UNCHECKED, **more: object) -> Parcel:
    over = {"state": AlertState.RESOLVED, "ending": Ending.RECOVERED, "ended_at": NOW}
    ended = over if reason is Reason.RECOVERED else {}
    episode = replace(UNCHECKED, id=number, invariant=f"rule_{number}", **{**ended, **more})
    return parcel(episode, reason, page_url=f"http://127.0.0.1:8080/alerts/{number}", detail="no good run for 31m")


def test_a_database_that_is_down_is_one_incident_until_all_of_it_was_looked_at(pager: PagerDutyStub) -> None:
    """Semantics 7.4: the end of one of them, and be it the first, resolves nothing; the last end does."""
    notifier = teller_of(pager)
    first = pager_of(pager).deliver(unseen(1))
    assert isinstance(first, Delivered)
    steps = [
        ((unseen(2), unseen(3)), (unseen(1),)),
        ((unseen(1, Reason.RECOVERED),), (unseen(2), unseen(3))),
        ((unseen(3, Reason.RECOVERED), unseen(2, Reason.RECOVERED)), (unseen(1, Reason.RECOVERED),)),
    ]
    for news, beside in steps:
        told = notifier.deliver_outage(Outage("payments", news, beside, first.thread, unreachable=True))
        assert told == Delivered(first.thread, "in the one incident about payments")
    [actions] = pager.incidents().values()
    assert actions == ["trigger", "trigger", "trigger", "resolve"]
    grown, less, over = (post.body["payload"] for post in pager.posts[1:])
    assert grown["summary"].startswith("[critical] payments: 3 unchecked: no replica of it can be asked, since 2026-")
    assert less["summary"].startswith("[critical] payments: 2 unchecked, 1 looked at again: ")
    assert over["summary"].startswith("[critical] payments: all 3 looked at again (recovered): ")
    assert grown["custom_details"]["alerts"][0].startswith("alert 1: rule_1 · unchecked: no good run for 31m")
    assert (grown["source"], grown["class"], over["class"]) == ("payments", "unchecked", "recovered")
    assert pager.posts[1].body["links"][0] == {"href": "http://127.0.0.1:8080/alerts/1", "text": "rule_1"}


def test_a_repeat_that_more_have_joined_meanwhile_is_of_the_same_incident(pager: PagerDutyStub) -> None:
    """Semantics 7.3: nothing was noted of the first telling."""
    notifier = teller_of(pager)
    again = replace(unseen(3), message=replace(unseen(3).message, marks=(Mark.MAY_BE_A_REPEAT,)))
    notifier.deliver_outage(Outage("payments", (unseen(2), unseen(3))))
    notifier.deliver_outage(Outage("payments", (unseen(4), again, unseen(2, Reason.RECOVERED))))
    assert list(pager.incidents().values()) == [["trigger", "trigger"]]
    assert "may be a repeat" in pager.posts[1].body["payload"]["custom_details"]["notes"]


def test_the_incident_is_acknowledged_when_somebody_has_each_that_is_unchecked(pager: PagerDutyStub) -> None:
    notifier = teller_of(pager)
    taken = unseen(1, Reason.ACKNOWLEDGED, acknowledged_by="ada"), unseen(2, Reason.ACKNOWLEDGED, acknowledged_by="bob")
    thread = Thread("PagerDuty", "k")
    for news, beside in (((taken[0],), (unseen(2),)), ((taken[1],), (taken[0], unseen(3, Reason.RECOVERED)))):
        assert isinstance(notifier.deliver_outage(Outage("payments", news, beside, thread)), Delivered)
    assert pager.incidents() == {"k": ["trigger", "acknowledge"]}


def test_an_incident_of_one_alert_that_may_be_put_aside_makes_room_for_one_about_the_database(
    pager: PagerDutyStub,
) -> None:
    """Semantics 7.4: PagerDuty calls nobody for an incident that it knows. Both events are sent again if one is refused."""
    notifier = teller_of(pager)
    old = pager_of(pager).deliver(unseen(1))
    assert isinstance(old, Delivered)
    outage = Outage("payments", (unseen(3), unseen(2)), (unseen(1),), old.thread, aloud=True, anew=True)
    pager.answers.extend([Reply(200), Reply(503)])
    assert isinstance(notifier.deliver_outage(outage), Undelivered)
    told = notifier.deliver_outage(outage)
    assert isinstance(told, Delivered)
    assert told.thread != old.thread
    former, about = pager.incidents().values()
    assert former == ["trigger", "resolve"]
    assert about == ["trigger"]
    assert "goes on in an incident about the database" in pager.posts[-1].body["payload"]["summary"]
    # What is refused for good of the former one keeps nobody from knowing of the new one.
    pager.answers.extend([Reply(202), Reply(400)])
    assert isinstance(notifier.deliver_outage(outage), Delivered)


def test_what_was_looked_at_again_before_pagerduty_heard_of_it_pages_nobody(pager: PagerDutyStub) -> None:
    ended = tuple(unseen(number, Reason.RECOVERED) for number in (1, 2))
    told = teller_of(pager).deliver_outage(Outage("payments", ended))
    assert isinstance(told, Delivered)
    assert "nobody was paged" in told.note
    assert list(pager.incidents().values()) == [["resolve"]]


def test_an_event_that_came_late_is_corrected_either_way(pager: PagerDutyStub) -> None:
    """Semantics 7.3: a late resolve must not hide what is unchecked, and a late trigger must not page for ever."""
    notifier, thread = teller_of(pager), Thread("PagerDuty", "k")
    notifier.redraw_outage(Outage("payments", (), (unseen(1, Reason.RECOVERED), unseen(2)), thread))
    notifier.redraw_outage(Outage("payments", (), (unseen(1, Reason.RECOVERED),), thread))
    assert notifier.redraw_outage(Outage("payments", (), (unseen(1),))) == Delivered()
    assert pager.incidents() == {"k": ["trigger", "resolve"]}
