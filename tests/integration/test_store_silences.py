"""A silence withholds messages in the transaction that owes them, and loses nothing when it ends (semantics 7.5)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdtrue.alerting import acknowledge, lift, parse_matchers
from holdtrue.errors import NotFound, Refused
from holdtrue.model import (
    AlertState,
    Change,
    Delivered,
    Episode,
    MessageState,
    Outcome,
    Reason,
    Retention,
    Silence,
    Thread,
    Undelivered,
)
from holdtrue.store.retention import Pruning
from stores import House, entry

HOUR = timedelta(hours=1)
TWO = ("oncall", "backup")


@pytest.fixture
def broken(house: House) -> House:
    """One entry, about to be looked at."""
    house.install(entry("refund_once", tags=("money", "pci")))
    return house


def silence(house: House, *matchers: str, length: timedelta = HOUR) -> Silence:
    return house.store.silences.create(
        parse_matchers(matchers or ("name~refund_*",)), "a migration", by="alice (token)", who="token", ends=length
    )


def look(house: House, outcome: Outcome = Outcome.HELD) -> None:
    """One run, whose messages are owed to both notifiers."""
    house.due(outcome, notifiers=TWO)


def states(house: House) -> list[tuple[Reason, MessageState]]:
    """What became of each event's messages, the oldest first; they are equal for every notifier."""
    found = [(one.message.reason, one.message.state) for one in house.store.reads.deliveries()]
    assert found[::2] == found[1::2]
    return found[::-2]


def lifted(house: House) -> list[bool]:
    """What the watch's look at ended silences comes to."""
    return [house.store.silences.lift(number, lift, TWO) for number in house.store.silences.waiting()]


@pytest.mark.parametrize("matcher", ["name=refund_once", "owner=payments-oncall", "severity=critical", "tag~p*"])
def test_owed_messages_are_written_as_withheld_and_nobody_claims_them(broken: House, matcher: str) -> None:
    made = silence(broken, matcher)
    look(broken, Outcome.VIOLATED)
    assert states(broken) == [(Reason.FIRED, MessageState.WITHHELD)]
    assert {one.message.silence for one in broken.store.reads.deliveries()} == {made.id}
    assert broken.outbox(*TWO) == ()
    (alert,) = broken.store.alerts.find_open("refund_once")
    assert alert.state is AlertState.FIRING


@pytest.mark.parametrize("matcher", ["name=other", "tag=x", "database=elsewhere", "severity=info"])
def test_what_it_does_not_match_is_told(broken: House, matcher: str) -> None:
    silence(broken, matcher)
    look(broken, Outcome.VIOLATED)
    assert states(broken) == [(Reason.FIRED, MessageState.PENDING)]


def test_what_still_fires_at_its_end_is_told_once(broken: House) -> None:
    silence(broken)
    look(broken, Outcome.VIOLATED)
    assert lifted(broken) == []
    broken.clock.forward(HOUR)
    assert lifted(broken) == [True]
    assert states(broken) == [(Reason.FIRED, MessageState.WITHHELD), (Reason.FIRED, MessageState.PENDING)]
    assert "was silenced until" in broken.outbox(*TWO)[0].event.detail
    assert lifted(broken) == []


def test_what_opened_and_ended_under_it_is_listed_and_not_sent(broken: House) -> None:
    made = silence(broken)
    look(broken, Outcome.VIOLATED)
    look(broken)
    broken.clock.forward(HOUR)
    assert lifted(broken) == [False]
    assert broken.outbox(*TWO) == ()
    (only,) = broken.store.silences.get(made.id).withheld
    assert (only.episode.state, only.messages) == (AlertState.RESOLVED, 4)
    assert broken.store.silences.withheld_counts() == {made.id: 1}


def test_an_end_is_sent_to_those_who_were_told_of_the_beginning(broken: House) -> None:
    look(broken, Outcome.VIOLATED)
    silence(broken)
    look(broken)
    broken.clock.forward(HOUR)
    assert lifted(broken) == [True]
    assert states(broken) == [(Reason.FIRED, MessageState.PENDING), (Reason.RESOLVED, MessageState.PENDING)]
    assert {one.message.reason for one in broken.outbox(*TWO)} == {Reason.RESOLVED}


def test_a_silence_that_goes_on_takes_over_from_one_that_ends(broken: House) -> None:
    silence(broken, length=2 * HOUR)
    look(broken, Outcome.VIOLATED)
    first, second = broken.store.silences.list()[0], silence(broken, "tag=pci", length=3 * HOUR)
    broken.store.silences.end(first.id, by="alice", who="token")
    assert lifted(broken) == [False]
    assert {one.message.silence for one in broken.store.reads.deliveries()} == {second.id}
    broken.clock.forward(3 * HOUR)
    assert lifted(broken) == [True]


def test_one_ended_early_is_audited_and_cannot_be_ended_twice(broken: House) -> None:
    made = silence(broken)
    broken.clock.forward(timedelta(minutes=5))
    ended = broken.store.silences.end(made.id, by="bob (loopback)", who="loopback")
    assert (ended.ends_at, ended.ended_by) == (broken.clock.now, "bob (loopback)")
    with pytest.raises(Refused, match="has ended already"):
        broken.store.silences.end(made.id, by="bob", who="loopback")
    with pytest.raises(NotFound):
        broken.store.silences.end(999, by="bob", who="loopback")
    with pytest.raises(NotFound):
        broken.store.silences.get(999)
    assert broken.store.silences.list() == ()
    assert broken.store.silences.list(ended_too=True) == (ended,)
    lines = [(one.who, one.action, one.subject) for one in broken.store.reads.audit(2)]
    assert lines == [("loopback", "unsilence", f"silence {made.id}"), ("token", "silence", f"silence {made.id}")]


def test_one_that_is_to_come_withholds_nothing_yet_and_may_be_called_off(broken: House) -> None:
    made = broken.store.silences.create(
        parse_matchers(["name~*"]),
        "tonight",
        by="alice",
        who="token",
        starts_at=broken.clock.now + HOUR,
        ends=HOUR,
    )
    assert made.ends_at == broken.clock.now + 2 * HOUR
    look(broken, Outcome.VIOLATED)
    assert states(broken) == [(Reason.FIRED, MessageState.PENDING)]
    called_off = broken.store.silences.end(made.id, by="alice", who="token")
    assert called_off.starts_at == called_off.ends_at == broken.clock.now


def test_the_end_of_an_entry_under_a_silence_is_withheld_too(broken: House) -> None:
    """Semantics 1.2: its tags are known though the catalog has it no more."""
    look(broken, Outcome.VIOLATED)
    silence(broken, "tag=pci")
    broken.install(entry("others"), notifiers=TWO)
    assert states(broken)[-1] == (Reason.WITHDRAWN, MessageState.WITHHELD)
    broken.clock.forward(HOUR)
    assert lifted(broken) == [True]
    assert states(broken)[-1] == (Reason.WITHDRAWN, MessageState.PENDING)


def test_tags_that_a_store_never_learned_are_brought_by_the_same_catalog(broken: House) -> None:
    broken.generation -= 1
    broken.install(entry("refund_once", tags=("late",)))
    silence(broken, "tag=late")
    look(broken, Outcome.VIOLATED)
    assert states(broken) == [(Reason.FIRED, MessageState.WITHHELD)]


def have(alert: Episode, now: object) -> Change:
    return acknowledge(alert, "alice (token)", "mine", now)  # type: ignore[arg-type]


def test_who_has_an_alert_is_kept_told_and_audited_in_one_transaction(broken: House) -> None:
    """Semantics 7.4."""
    look(broken, Outcome.VIOLATED)
    number = broken.store.alerts.find_open("refund_once")[0].id
    with pytest.raises(NotFound):
        broken.store.alerts.step(999, have, TWO, "token", "acknowledge")
    after = broken.store.alerts.step(number, have, TWO, "token", "acknowledge")
    kept = broken.store.alerts.get(number)
    assert kept.episode == after
    assert (after.acknowledged_by, after.note) == ("alice (token)", "mine")
    assert kept.events[-1].detail == "by alice (token): mine"
    assert states(broken)[-1] == (Reason.ACKNOWLEDGED, MessageState.PENDING)
    (line,) = broken.store.reads.audit(1)
    assert (line.who, line.action, line.subject) == ("token", "acknowledge", f"alert {number}")
    look(broken)
    with pytest.raises(Refused, match="has ended"):
        broken.store.alerts.step(number, have, TWO, "token", "acknowledge")
    assert broken.store.reads.audit(1) == (line,)


def test_ended_silences_and_what_became_of_messages_are_forgotten_and_nothing_that_is_owed(broken: House) -> None:
    """Semantics 8.2: 90 days after the alert's end, in small transactions; who silenced what stays in the audit."""
    silence(broken)
    look(broken, Outcome.VIOLATED)
    look(broken)
    broken.clock.forward(HOUR)
    pruning = Pruning(broken.store._engine, batch=2)
    long = timedelta(days=200)
    # Nobody has seen yet to what it withheld.
    assert pruning.prune(Retention(), broken.clock.now + long).messages == 0
    assert lifted(broken) == [False]
    look(broken, Outcome.VIOLATED)
    (told, owed) = broken.outbox(*TWO)
    broken.store.outbox.mark(told.message, Delivered(Thread("C1", "17.1")))
    broken.store.outbox.mark(owed.message, Undelivered("refused"), broken.clock.now + HOUR)
    pruned = pruning.prune(Retention(), broken.clock.now + long)
    assert (pruned.messages, pruned.silences) == (4, 1)
    assert broken.store.silences.list(ended_too=True) == ()
    # An alert that is open keeps all of its messages, however old they are.
    assert len(broken.store.reads.deliveries()) == 2
    look(broken)
    ended = broken.clock.now
    assert pruning.prune(Retention(), ended + timedelta(days=89)).messages == 0
    assert pruning.prune(Retention(), ended + long).messages == 1
    left = [one.message for one in broken.store.reads.deliveries()]
    assert {one.state for one in left} == {MessageState.PENDING}
    assert len(left) == 3
    # Where its message stands is known while something is owed that would edit it.
    broken.clock.forward(HOUR)
    assert {one.thread for one in broken.outbox(*TWO)} == {None, Thread("C1", "17.1")}
    (first, second) = (one.id for one in broken.store.alerts.list())
    assert [event.name for event in broken.store.alerts.get(min(first, second)).events][-1] == "resolved"
    assert "silence" in {line.action for line in broken.store.reads.audit(99)}
