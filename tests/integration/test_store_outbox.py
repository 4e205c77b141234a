from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdtrue.model import (
    Decision,
    Delivered,
    Labels,
    Mark,
    MessageState,
    Outcome,
    Reason,
    Sample,
    Situation,
    Thread,
    Undelivered,
)
from holdtrue.store import OwedMessage, open_store
from holdtrue.store import outbox as outbox_module
from holdtrue.store.overtaking import Turn, Waiting, next_turn
from holdtrue.store.records import GivenUp
from stores import DATABASE, EVERY, NOON, TTL, Clock, House, entry, told

DAY = timedelta(days=1)
LATER = timedelta(seconds=1)


def worsen(situation: Situation, now: datetime) -> Decision | None:
    assert situation.alert is not None
    return Decision(situation.standing, (told(situation.alert, now, Reason.WORSENED),))


def states(house: House) -> list[tuple[int, str, MessageState]]:
    found = [row.message for row in house.store.reads.deliveries()]
    return sorted((one.number, one.notifier, one.state) for one in found)


def test_a_claim_brings_all_that_the_message_may_say(house: House) -> None:
    """semantics 7.3: the state read at the moment of sending."""
    house.install(entry())
    sample = Sample(("id",), (("1",),))
    (claim,) = house.claim()
    run = house.run(claim, Outcome.VIOLATED, counted=2, sample=sample)
    (saved,) = house.save(house.finished(claim, run=run))
    house.clock.forward(LATER)
    (owed,) = house.outbox()
    assert (owed.message.reason, owed.message.attempts, owed.message.state) == (Reason.FIRED, 1, MessageState.PENDING)
    assert (owed.event.name, owed.event.run, owed.episode.count) == ("fired", saved.run_id, 2)
    assert (owed.sample, owed.thread, owed.standing.good_count) == (sample, None, 2)
    assert owed.message.marks == ()


def test_rows_of_a_later_run_are_not_called_known_in_a_message_about_an_earlier_one(house: House) -> None:
    """Semantics 7.3: it shows what is there now, and what was new when it fired was nothing known."""
    house.install(entry())
    for words in (("new", "settling"), ("known", "settling")):
        (claim,) = house.claim()
        sample = Sample(("id",), (("1",), ("2",)), keys=("k1", "k2"), novelties=words)
        house.save(house.finished(claim, run=house.run(claim, Outcome.VIOLATED, counted=1, sample=sample)))
        house.clock.forward(EVERY)
        if words[0] == "new":
            (owed,) = house.outbox()
            assert owed.sample == sample
            assert house.store.outbox.give_back(owed.message, "not sent", house.clock.now)
    (owed,) = house.outbox()
    assert owed.sample == replace(sample, novelties=("", "settling"))


def test_a_message_is_claimed_by_one_instance_and_marked_under_its_token(house: House) -> None:
    """semantics 7.3."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (owed,) = house.outbox(instance="one")
    assert house.outbox(instance="two") == ()
    stale = replace(owed.message, token=owed.message.token - 1)
    assert not house.store.outbox.mark(stale, Delivered())
    assert house.store.outbox.mark(owed.message, Delivered(Thread("C1", "171.2"), "edited"))
    assert not house.store.outbox.mark(owed.message, Undelivered("too late"))
    (row,) = house.store.reads.deliveries()
    assert (row.message.state, row.message.sent_at) == (MessageState.SENT, house.clock.now)
    assert (row.invariant, row.database) == ("rule", DATABASE)
    assert house.outbox() == ()


def test_what_is_being_sent_is_held_under_its_token_and_a_lost_claim_is_not(house: House) -> None:
    """semantics 7.3."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (owed,) = house.outbox(instance="one")
    stale = replace(owed.message, token=owed.message.token - 1)
    assert house.store.outbox.hold([stale], 2 * TTL) == set()
    assert house.store.outbox.hold([owed.message], 2 * TTL) == {owed.message.id}
    house.clock.forward(TTL + timedelta(seconds=1))
    assert house.outbox(instance="two") == ()
    house.clock.forward(TTL)
    (taken,) = house.outbox(instance="two")
    assert house.store.outbox.hold([owed.message], TTL) == set()
    assert house.store.outbox.mark(taken.message, Delivered())


def test_the_longest_pause_that_was_asked_for_counts_and_only_for_its_notifier(house: House) -> None:
    """semantics 7.3."""
    house.install(entry())
    house.due(Outcome.VIOLATED, notifiers=("oncall", "pager"))
    (owed,) = house.outbox("oncall")
    pause = Undelivered("a pause", retry_after=1)
    for seconds in (100, 10):
        until = house.clock.now + timedelta(seconds=seconds)
        house.store.outbox.mark(owed.message, pause, house.clock.now, paused_until=until)
    house.clock.forward(timedelta(seconds=50))
    assert house.outbox("oncall") == ()
    assert len(house.outbox("pager")) == 1
    house.clock.forward(timedelta(seconds=51))
    assert len(house.outbox("oncall")) == 1


def test_who_took_a_message_is_remembered_through_attempts_that_reached_nobody(house: House) -> None:
    """semantics 7.3."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    for result in (Undelivered("put off", took=("b@example.com",)), Undelivered("it did not answer")):
        (owed,) = house.outbox()
        house.store.outbox.mark(owed.message, result, house.clock.now)
        house.clock.forward(timedelta(seconds=1))
    (owed,) = house.outbox()
    assert owed.message.took == ("b@example.com",)


def test_the_thread_of_the_first_message_comes_with_the_next(house: House) -> None:
    house.install(entry())
    house.due(Outcome.VIOLATED, notifiers=("oncall", "desk"))
    for owed in house.outbox("oncall", "desk"):
        assert house.store.outbox.mark(owed.message, Delivered(Thread(f"C-{owed.message.notifier}", "171.2")))
    house.due(Outcome.HELD, notifiers=("oncall", "desk"))
    found = {owed.message.notifier: owed.thread for owed in house.outbox("oncall", "desk")}
    assert found == {"oncall": Thread("C-oncall", "171.2"), "desk": Thread("C-desk", "171.2")}


def test_an_unknown_outcome_is_sent_again_and_says_so(house: House) -> None:
    """semantics 7.3: after a crash between sending and marking."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (first,) = house.outbox(instance="one")
    house.clock.forward(TTL + LATER)
    (again,) = house.outbox(instance="two")
    assert again.message.marks == (Mark.MAY_BE_A_REPEAT,)
    assert (again.message.attempts, again.message.id) == (2, first.message.id)
    assert not house.store.outbox.mark(first.message, Delivered(Thread("C1", "late")))
    assert house.store.outbox.mark(again.message, Delivered(Thread("C1", "171.2")))
    house.due(Outcome.HELD)
    (resolved,) = house.outbox()
    assert (resolved.thread, resolved.message.marks) == (Thread("C1", "171.2"), ())


def test_a_known_failure_is_tried_again_at_its_time_and_is_no_repeat(house: House) -> None:
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (owed,) = house.outbox()
    assert house.store.outbox.mark(owed.message, Undelivered("it did not answer"), house.clock.now + LATER)
    assert not house.store.outbox.mark(owed.message, Delivered())
    assert house.outbox() == ()
    house.clock.forward(LATER)
    (again,) = house.outbox()
    assert (again.message.marks, again.message.problem, again.message.attempts) == ((), "it did not answer", 2)


def test_a_permanent_failure_stays_visible_and_does_not_hold_up_the_next(house: House) -> None:
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (owed,) = house.outbox()
    house.store.outbox.mark(owed.message, Undelivered("no such channel", permanent=True), house.clock.now + LATER)
    assert states(house) == [(1, "oncall", MessageState.FAILED)]
    assert house.store.reads.deliveries()[0].message.problem == "no such channel"
    house.due(Outcome.HELD)
    (resolved,) = house.outbox()
    assert resolved.message.reason is Reason.RESOLVED


def test_a_resolved_that_overtakes_fired_says_both(house: House) -> None:
    """semantics 7.3: the older is superseded, and people still hear of the episode."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    house.store.alerts.review("rule", DATABASE, worsen, ["oncall"])
    house.due(Outcome.HELD)
    (owed,) = house.outbox()
    assert owed.message.reason is Reason.RESOLVED
    assert owed.message.overtook == (Reason.FIRED, Reason.WORSENED)
    assert states(house) == [
        (1, "oncall", MessageState.SUPERSEDED),
        (2, "oncall", MessageState.SUPERSEDED),
        (3, "oncall", MessageState.PENDING),
    ]
    house.clock.forward(TTL + LATER)
    (again,) = house.outbox()
    assert again.message.overtook == owed.message.overtook


def test_a_newer_message_waits_for_the_one_on_its_way(house: House) -> None:
    """semantics 7.3: one claim at a time per (episode, notifier)."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (first,) = house.outbox()
    house.store.alerts.review("rule", DATABASE, worsen, ["oncall"])
    assert house.outbox() == ()
    house.store.outbox.mark(first.message, Delivered())
    (second,) = house.outbox()
    assert (second.message.number, second.message.overtook) == (2, ())


def test_one_notifier_never_touches_another(house: House) -> None:
    """design 3.9."""
    house.install(*(entry(f"rule_{n}") for n in range(3)))
    for claim in house.claim():
        house.save(house.finished(claim, Outcome.VIOLATED, notifiers=("dead", "oncall")))
        house.clock.forward(LATER)
    for owed in house.outbox("dead"):
        house.store.outbox.mark(owed.message, Undelivered("refused"), house.clock.now + EVERY)
    found = house.outbox("dead", "oncall", limit=2)
    assert [(owed.message.notifier, owed.episode.invariant) for owed in found] == [
        ("oncall", "rule_0"),
        ("oncall", "rule_1"),
    ]
    assert house.store.outbox.claim(instance="one", limit=9, ttl=TTL, notifiers=()) == ()
    assert house.outbox("unknown") == ()


moves = st.lists(
    st.one_of(
        st.just(("violated",)),
        st.just(("held",)),
        st.just(("worsen",)),
        st.tuples(st.just("claim"), st.sampled_from(["one", "two"])),
        st.tuples(st.just("mark"), st.integers(0, 3), st.sampled_from(["sent", "later", "failed"])),
        st.just(("expire",)),
    ),
    max_size=25,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves)
def test_messages_arrive_in_order_and_the_newest_always_comes_through(  # noqa: PLR0912 - a move each
    sqlite_url: str, history: list[tuple[object, ...]]
) -> None:
    """semantics 7.3, over random histories: nothing owed is lost, nothing goes backwards, one claim at a time."""
    clock = Clock()
    house = House(open_store(sqlite_url, clock=clock), clock, sqlite_url)
    house.generation = house.store.catalogs.number()
    name = f"rule_{house.generation}"
    house.install(entry(name))
    sent: dict[int, list[int]] = {}
    claimed = []
    due = NOON
    try:
        for move in [*history, ("drain",)]:
            kind = move[0]
            if kind in ("violated", "held"):
                clock.now = max(clock.now, due)
                (claim,) = house.claim()
                outcome = Outcome.VIOLATED if kind == "violated" else Outcome.HELD
                house.save(house.finished(claim, outcome))
                due = claim.due_at + EVERY
            elif kind == "worsen" and house.store.alerts.find_open(name):
                house.store.alerts.review(name, DATABASE, worsen, ["oncall"])
            elif kind == "claim":
                fresh = house.outbox(instance=str(move[1]))
                assert len({owed.episode.id for owed in fresh}) == len(fresh)
                claimed += fresh
            elif kind == "mark" and claimed:
                owed = claimed[int(str(move[1])) % len(claimed)]
                if move[2] == "later":
                    house.store.outbox.mark(owed.message, Undelivered("later"), clock.now + LATER)
                elif house.store.outbox.mark(
                    owed.message, Delivered() if move[2] == "sent" else Undelivered("no", True)
                ):
                    sent.setdefault(owed.episode.id, []).append(owed.message.number)
            elif kind == "expire":
                clock.forward(TTL + LATER)
            elif kind == "drain":
                clock.forward(TTL + LATER)
                while fresh := house.outbox():
                    for owed in fresh:
                        assert house.store.outbox.mark(owed.message, Delivered())
                        sent.setdefault(owed.episode.id, []).append(owed.message.number)
        for episode in house.store.alerts.list(invariant=name, limit=1000):
            numbers = sent[episode.id]
            assert numbers == sorted(set(numbers))
            assert numbers[-1] == episode.events
            left = house.store.alerts.get(episode.id).messages
            assert MessageState.PENDING not in {one.state for one in left}
    finally:
        house.store.close()


def test_a_later_message_is_owed_from_its_own_moment(house: House) -> None:
    """semantics 7.7, 8.1: how long it waits is not how long its episode is open."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    now = house.clock.forward(timedelta(hours=3))
    assert house.store.alerts.review("rule", DATABASE, worsen, ("oncall",))
    newest = max((row.message for row in house.store.reads.deliveries()), key=lambda one: one.number)
    assert (newest.reason, newest.owed_at) == (Reason.WORSENED, now)


def test_two_instances_that_claim_at_once_do_not_claim_the_same_message(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """semantics 7.3: one claim at a time; the other passes over what is being claimed, and does not wait for it."""
    clock = Clock()
    stores = [open_store(postgres_url, clock=clock) for _ in range(2)]
    here, there = (House(store, clock, postgres_url) for store in stores)
    meanwhile: list[tuple[OwedMessage, ...]] = []

    def the_other_first(waiting: Sequence[Waiting], now: datetime) -> Turn:
        if not meanwhile:
            meanwhile.append(())
            meanwhile[0] = there.outbox(instance="two")
        return next_turn(waiting, now)

    try:
        here.install(entry())
        here.due(Outcome.VIOLATED)
        monkeypatch.setattr(outbox_module, "next_turn", the_other_first)
        assert len(here.outbox(instance="one")) == 1
        assert meanwhile == [()]
    finally:
        for store in stores:
            store.close()


def test_who_is_told_is_asked_by_labels_in_the_transaction_that_owes(house: House) -> None:
    """Semantics 7.4: a route sees what the alert fired with, and who was told before is told of the end too."""
    house.install(entry("refund_once", tags=("money", "pci")))
    asked = []

    def routes(*names: str):
        def told(labels):
            asked.append(labels)
            return names

        return told

    house.due(Outcome.VIOLATED, notifiers=routes("oncall"))
    house.due(Outcome.HELD, notifiers=routes("desk"))
    assert states(house) == [
        (1, "oncall", MessageState.PENDING),
        (2, "desk", MessageState.PENDING),
        (2, "oncall", MessageState.PENDING),
    ]
    labels = Labels("refund_once", DATABASE, "payments-oncall", "critical", ("money", "pci"))
    assert asked == [labels, labels]


def test_what_is_owed_to_a_notifier_that_left_ends_visibly(house: House) -> None:
    """Semantics 7.3: nothing stays pending for ever, nothing goes unseen, and a message on its way is left alone."""
    house.install(entry())
    house.due(Outcome.VIOLATED, notifiers=("oncall", "gone"))
    (owed,) = house.outbox("gone")
    assert house.store.outbox.give_up(["oncall"]) == {}
    assert house.store.outbox.mark(owed.message, Undelivered("it did not answer"), house.clock.now + LATER)
    assert house.store.outbox.give_up(["oncall"]) == {"gone": 1}
    assert house.store.outbox.give_up(["oncall"]) == {}
    found = {one.message.notifier: one.message for one in house.store.reads.deliveries()}
    assert (found["gone"].state, found["gone"].problem) == (MessageState.FAILED, "the notifier left the catalog")
    assert found["oncall"].state is MessageState.PENDING


def test_what_was_given_up_is_known_from_then_on_and_not_from_when_it_was_owed(house: House) -> None:
    """Semantics 0, 7.3: a login that is refused for days ends a message that is days old; that is news of today."""
    house.install(entry())
    house.due(Outcome.VIOLATED, notifiers=("oncall", "gone"))
    assert house.store.reads.given_up(DAY) == GivenUp()
    house.clock.forward(3 * DAY)
    (owed,) = house.outbox("oncall")
    assert house.store.outbox.mark(owed.message, Undelivered("the login was refused"))
    given_up_at = house.clock.now
    found = house.store.reads.given_up(DAY)
    assert found.newest is not None
    newest = found.newest.message
    assert (found.messages, newest.notifier, newest.failed_at, newest.next_try_at) == (1, "oncall", given_up_at, None)
    house.clock.forward(timedelta(minutes=1))
    assert house.store.outbox.give_up(["oncall"]) == {"gone": 1}
    found = house.store.reads.given_up(DAY)
    assert found.newest is not None
    assert (found.messages, found.newest.message.notifier) == (2, "gone")
    house.clock.forward(DAY)
    assert house.store.reads.given_up(DAY) == GivenUp()
