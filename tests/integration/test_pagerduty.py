"""PagerDuty: an incident for each episode, opened and closed by events within every limit (the stub checks them)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from holdtrue.model import AlertState, Delivered, Ending, Reason, Sample, Subject, Undelivered
from holdtrue.notifiers import Notifier
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
