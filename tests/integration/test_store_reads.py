from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from holdtrue.errors import NotFound
from holdtrue.model import (
    AlertState,
    Change,
    Decision,
    Delivered,
    Disposition,
    Episode,
    KeyState,
    MessageState,
    Novelty,
    Outcome,
    Reason,
    Sample,
    Situation,
    Subject,
    Ticket,
)
from holdtrue.model.paging import Place
from stores import DATABASE, EVERY, NOON, TTL, House, entry, statements, told
from stores import event as step


def unchecked(situation: Situation, now: datetime) -> Decision | None:
    """A health episode, as the watch opens one."""
    if situation.unchecked is not None:
        return None
    standing = situation.standing
    opened = Episode(
        standing.invariant, standing.database, Subject.HEALTH, AlertState.FIRING, now, "d1", "warning", "payments-oncall",
        fired_at=now, events=1,
    )  # fmt: skip
    return Decision(standing, (Change(opened, (step(1, "unchecked", now, Reason.UNCHECKED),)),))


def test_the_overview_has_every_entry_with_its_open_episodes(house: House) -> None:
    house.install(entry("b"), entry("a"), entry("c", first_due=NOON + EVERY))
    for claim in house.claim():
        outcome = Outcome.VIOLATED if claim.invariant == "a" else Outcome.HELD
        house.save(house.finished(claim, outcome))
    house.store.alerts.review("b", DATABASE, unchecked, ["oncall"])
    rows = house.store.reads.overview()
    assert [row.standing.invariant for row in rows] == ["a", "b", "c"]
    assert [(row.alert is not None, row.unchecked is not None) for row in rows] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert [row.next_due for row in rows] == [NOON + EVERY] * 3
    assert {(one.standing, one.alert, one.unchecked) for one in house.store.alerts.situations()} == {
        (row.standing, row.alert, row.unchecked) for row in rows
    }


def test_a_read_sends_few_statements_however_many_entries_there_are(house: House) -> None:
    """No statement per entry: 10,000 of them are one page."""
    counts = []
    for many in (3, 60):
        house.install(*(entry(f"rule_{n}") for n in range(many)))
        for claim in house.claim():
            house.save(house.finished(claim, Outcome.VIOLATED))
        house.clock.forward(EVERY)
        (alert, *_) = house.store.alerts.list(limit=1)
        counts.append(
            [
                statements(house.store, read)
                for read in (
                    house.store.reads.overview,
                    house.store.alerts.situations,
                    house.store.alerts.list,
                    house.store.reads.deliveries,
                    house.store.reads.counts_by_alert_state,
                    house.store.reads.message_totals,
                    house.store.reads.catalog_status,
                    house.outbox,
                    lambda alert=alert: house.store.alerts.get(alert.id),  # type: ignore[misc]
                )
            ]
        )
    assert counts[0] == counts[1]
    assert max(counts[1]) <= 13


def test_runs_are_read_page_by_page(house: House) -> None:
    house.install(entry(), entry("rule_on_ledger", "ledger", first_due=NOON + timedelta(days=9)))
    for _ in range(5):
        house.due(Outcome.HELD)
    first = house.store.reads.runs("rule", DATABASE, limit=2)
    second = house.store.reads.runs("rule", DATABASE, limit=9, before=Place(first[-1].due_at, first[-1].id))
    assert [run.due_at for run in (*first, *second)] == [NOON + n * EVERY for n in (4, 3, 2, 1, 0)]
    assert house.store.reads.runs("rule", "ledger") == ()
    assert house.store.reads.runs("no_such") == ()
    assert house.store.reads.run(99) is None
    assert house.store.reads.run_at("rule", DATABASE, NOON + timedelta(seconds=1)) is None


def test_spans_are_those_that_touch_the_range(house: House) -> None:
    house.install(entry())
    for outcome in (Outcome.HELD, Outcome.VIOLATED, Outcome.VIOLATED, Outcome.HELD):
        house.due(outcome)
    spans = house.store.reads.spans("rule", DATABASE, NOON + 2 * EVERY, NOON + 2 * EVERY)
    assert [(one.outcome, one.first_at) for one in spans] == [(Outcome.VIOLATED, NOON + EVERY)]
    whole = house.store.reads.spans("rule", DATABASE, NOON, NOON + 9 * EVERY, limit=2)
    assert [one.outcome for one in whole] == [Outcome.VIOLATED, Outcome.HELD]
    assert house.store.reads.spans("rule", DATABASE, NOON + 8 * EVERY, NOON + 9 * EVERY) == ()


def test_keys_are_read_by_novelty_and_page_by_page(house: House) -> None:
    house.install(entry())
    states = [
        KeyState(f"k{n}", Disposition.COUNTED, novelty, NOON, NOON, NOON, f"shown {n}")
        for n, novelty in enumerate([Novelty.NEW, Novelty.KNOWN, Novelty.NEW, Novelty.FIXED])
    ]
    house.due(Outcome.VIOLATED, key_changes=tuple(states))
    keys = house.store.reads.keys
    assert [one.key for one in keys("rule", DATABASE, Novelty.NEW)] == ["k0", "k2"]
    assert [one.key for one in keys("rule", DATABASE, limit=2)] == ["k0", "k1"]
    assert [one.key for one in keys("rule", DATABASE, limit=2, after="k1")] == ["k2", "k3"]
    assert house.store.reads.key_counts("rule", DATABASE) == {Novelty.NEW: 2, Novelty.KNOWN: 1, Novelty.FIXED: 1}


def test_alerts_are_filtered_and_read_page_by_page(house: House) -> None:
    house.install(entry("a"), entry("b"), entry("c", owner="others"))
    for claim in house.claim():
        house.save(house.finished(claim, Outcome.VIOLATED))
    house.clock.forward(EVERY)
    (claim, *_) = house.claim(limit=1)
    house.save(house.finished(claim, Outcome.HELD))
    house.store.alerts.review("b", DATABASE, unchecked, ["oncall"])
    listed = house.store.alerts.list

    def names(**filters: Any) -> list[str]:
        return [one.invariant for one in listed(**filters)]

    assert names() == ["b", "c", "b", "a"]
    assert names(open_only=True) == ["b", "c", "b"]
    assert names(states=[AlertState.RESOLVED]) == ["a"]
    assert names(subject=Subject.HEALTH) == ["b"]
    assert names(invariant="b", subject=Subject.VIOLATION) == ["b"]
    assert names(database="ledger") == []
    assert names(severity="critical") == ["c", "b", "a"]
    assert names(owner="payments-oncall", severity="warning") == ["b"]
    first = listed(limit=2)
    assert [one.invariant for one in listed(limit=2, before=first[-1].id)] == ["b", "a"]
    assert [one.invariant for one in house.store.alerts.find_open("c")] == ["c"]
    assert house.store.alerts.find_open("a") == ()
    assert house.store.alerts.find_open("c", "ledger") == ()


def test_an_alerts_page_has_all_that_belongs_to_it(house: House) -> None:
    house.install(entry())
    held = house.due(Outcome.HELD)
    present = KeyState("there", Disposition.COUNTED, Novelty.NEW, NOON + EVERY, NOON + EVERY, NOON + EVERY, "dsp_1")
    leaving = replace(present, key="leaves")
    (claim,) = house.claim()
    run = replace(house.run(claim, Outcome.VIOLATED, counted=2), sample=Sample(("n",), (("1",),)))
    (fired,) = house.save(house.finished(claim, run=run, key_changes=(present, leaving)))
    house.clock.now = NOON + 2 * EVERY
    gone = replace(leaving, novelty=Novelty.FIXED, last_changed=house.clock.now)
    before = replace(present, key="long_gone", novelty=Novelty.FIXED, last_changed=NOON, first_counted=NOON)
    settling = replace(present, key="settling", disposition=Disposition.SETTLING, first_counted=None)
    last = house.due(Outcome.VIOLATED, counted=1, key_changes=(gone, before, settling))
    (alert,) = house.store.alerts.find_open("rule")
    house.store.tickets.add(
        Ticket("inc-1", alert.id, "rule", DATABASE, NOON, "somebody", (("test.py", "x"), ("a.sql", "é")))
    )
    detail = house.store.alerts.get(alert.id)
    assert detail.episode == alert
    assert [(one and one.id) for one in (detail.last_good_before, detail.first_run, detail.last_run)] == [
        held.run_id,
        fired.run_id,
        last.run_id,
    ]
    assert detail.first_run is not None
    assert detail.first_run.sample == run.sample
    assert {one.key: one.novelty for one in detail.keys} == {"there": Novelty.NEW, "leaves": Novelty.FIXED}
    assert detail.tickets == ("inc-1",)
    with pytest.raises(NotFound):
        house.store.alerts.get(99)


def test_a_review_decides_under_the_entrys_lock_and_only_once(house: House) -> None:
    """semantics 7.1."""
    house.install(entry())
    assert house.store.alerts.review("rule", DATABASE, unchecked, ["oncall", "desk"])
    assert not house.store.alerts.review("rule", DATABASE, unchecked, ["oncall", "desk"])
    (alert,) = house.store.alerts.list()
    assert (alert.subject, alert.events) == (Subject.HEALTH, 1)
    assert {one.notifier for one in house.store.alerts.get(alert.id).messages} == {"oncall", "desk"}
    with pytest.raises(NotFound):
        house.store.alerts.review("no_such", DATABASE, unchecked, [])
    house.install(entry("other"))
    assert not house.store.alerts.review("rule", DATABASE, unchecked, ["oncall"])


def test_a_review_cannot_change_an_episode_that_it_was_not_shown(house: House) -> None:
    house.install(entry("a"), entry("b"))
    for claim in house.claim():
        house.save(house.finished(claim, Outcome.VIOLATED))
    (other,) = house.store.alerts.find_open("a")
    with pytest.raises(ValueError, match="none of its situation"):
        house.store.alerts.review(
            "b", DATABASE, lambda seen, now: Decision(seen.standing, (told(other, now, Reason.REMINDER),)), []
        )


def test_totals_for_metrics_come_from_the_store(house: House) -> None:
    """semantics 10."""
    assert house.store.reads.counts_by_alert_state() == {AlertState.PENDING: 0, AlertState.FIRING: 0}
    house.install(entry("a"), entry("b"))
    for claim in house.claim():
        house.save(house.finished(claim, Outcome.VIOLATED, notifiers=("oncall", "desk")))
    house.store.alerts.review("a", DATABASE, unchecked, [])
    (owed, *_) = house.outbox("desk", limit=1)
    house.store.outbox.mark(owed.message, Delivered())
    assert house.store.reads.counts_by_alert_state()[AlertState.FIRING] == 2
    assert house.store.reads.message_totals() == {
        ("desk", MessageState.SENT): 1,
        ("desk", MessageState.PENDING): 1,
        ("oncall", MessageState.PENDING): 2,
    }
    sent = house.store.reads.deliveries(states=(MessageState.SENT,))
    assert [(row.message.notifier, row.subject) for row in sent] == [("desk", Subject.VIOLATION)]
    newest = house.store.reads.deliveries(limit=1)
    assert len(house.store.reads.deliveries(before=newest[0].message.id)) == 3


def test_the_backlog_is_what_is_owed_and_not_yet_done(house: House) -> None:
    """semantics 7.7."""
    house.install(entry("a"), entry("b", first_due=NOON + EVERY))
    idle = house.store.reads.backlog()
    assert (idle.owed_since, idle.due_since, idle.pending) == (None, NOON, 0)
    (claim,) = house.claim()
    assert house.store.reads.backlog().due_since is None
    house.clock.forward(TTL + timedelta(seconds=1))
    assert house.store.reads.backlog().due_since == NOON
    (again,) = house.claim()
    assert again.token > claim.token
    house.save(house.finished(again, Outcome.VIOLATED))
    busy = house.store.reads.backlog()
    assert (busy.owed_since, busy.due_since, busy.pending) == (house.clock.now, None, 1)


def test_costs_are_read_by_entry_and_day(house: House) -> None:
    house.install(entry())
    house.due(Outcome.HELD)
    house.clock.now = NOON + timedelta(days=1)
    (claim,) = house.claim()
    house.save(house.finished(replace(claim, due_at=house.clock.now), next_due=house.clock.now + EVERY))
    assert [cost.day for cost in house.store.reads.costs("rule", DATABASE)] == [date(2026, 11, 29), date(2026, 11, 30)]
    assert [cost.day for cost in house.store.reads.costs(since=date(2026, 11, 30))] == [date(2026, 11, 30)]
    assert house.store.reads.costs("no_such") == ()


def test_tickets_and_accepted_servers_are_kept_with_an_audit_line(house: House) -> None:
    """semantics 2.3 and 11: who did what."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (alert,) = house.store.alerts.find_open("rule")
    ticket = Ticket("inc-1", alert.id, "rule", DATABASE, NOON, "somebody", (("a.sql", "é\n"), ("test.py", "x")))
    house.store.tickets.add(ticket)
    house.store.tickets.add(replace(ticket, created_by="another"))
    assert house.store.tickets.get("inc-1") == replace(ticket, created_by="another")
    assert house.store.tickets.list() == house.store.tickets.list(alert.id) == (replace(ticket, created_by="another"),)
    assert house.store.tickets.list(99) == ()
    for refused in (lambda: house.store.tickets.get("no"), lambda: house.store.tickets.add(replace(ticket, alert=99))):
        with pytest.raises(NotFound):
            refused()
    assert house.store.systems.accepted(DATABASE) is None
    house.store.systems.accept(DATABASE, "7312", "somebody")
    house.store.systems.accept(DATABASE, "7313", "somebody")
    assert house.store.systems.accepted(DATABASE) == "7313"
    assert house.store.runs.before("rule", DATABASE).accepted_system == "7313"
    house.store.audit.write("somebody", "note", "x", "detail")
    lines = house.store.reads.audit()
    assert [line.action for line in lines] == [
        "note",
        "database.accept",
        "database.accept",
        "alert.promote",
        "alert.promote",
        "catalog.install",
    ]
    assert (lines[0].who, lines[0].detail, lines[0].at) == ("somebody", "detail", house.clock.now)
    assert len(house.store.reads.audit(limit=2)) == 2
