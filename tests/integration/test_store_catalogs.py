from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from holdtrue.model import AlertState, Ending, Health, Outcome, Reason, RunKind
from stores import DATABASE, EVERY, NOON, House, entry, withdrawing


def test_the_same_content_again_makes_no_generation(house: House) -> None:
    """semantics 1.3: loading other content makes the next generation."""
    assert house.store.catalogs.current() is None
    assert house.store.catalogs.number() == 0
    first = house.store.catalogs.install(
        {"b.yaml": "ü", "a.yaml": "1"}, "same", "one", [entry()], withdraw=withdrawing, notifiers=()
    )
    again = house.store.catalogs.install(
        (("a.yaml", "1"), ("b.yaml", "ü")), "same", "two", [], withdraw=withdrawing, notifiers=()
    )
    assert again == first == house.store.catalogs.current()
    assert (first.number, first.texts, first.loaded_by) == (1, (("a.yaml", "1"), ("b.yaml", "ü")), "one")
    assert len(house.store.reads.overview()) == 1
    other = house.store.catalogs.install((), "other", "two", [entry()], withdraw=withdrawing, notifiers=())
    assert (other.number, house.store.catalogs.number()) == (2, 2)


def test_a_former_content_again_is_a_new_generation(house: House) -> None:
    """semantics 1.3: going back to it is a change too."""
    for number, content in enumerate(("h1", "h2", "h1"), start=1):
        made = house.store.catalogs.install((), content, "one", [entry()], withdraw=withdrawing, notifiers=())
        assert made.number == number


def test_an_unchanged_schedule_keeps_its_due_time_through_a_reload(house: House) -> None:
    house.install(entry())
    house.due()
    house.install(entry(severity="critical", first_due=NOON, upcoming_due=NOON + 9 * EVERY))
    assert house.store.reads.overview()[0].next_due == NOON + EVERY


def test_a_changed_definition_is_looked_at_at_once_and_moves_no_due_time(house: House) -> None:
    """semantics 0, 6: a text that was never run is not known to hold, and nobody waits an interval to know."""
    house.install(entry())
    house.due()
    house.clock.now = NOON + timedelta(minutes=1)
    house.install(entry(definition="d2"))
    (claim,) = house.claim()
    assert (claim.definition, claim.kind, claim.due_at) == ("d2", RunKind.ASKED, house.clock.now)
    house.save(house.finished(claim))
    assert house.claim() == ()
    assert house.store.reads.overview()[0].next_due == NOON + EVERY


def test_a_changed_definition_that_is_due_anyway_is_looked_at_once(house: House) -> None:
    house.install(entry())
    house.install(entry(definition="d2"))
    (claim,) = house.claim()
    assert (claim.definition, claim.kind) == ("d2", RunKind.SCHEDULED)
    house.save(house.finished(claim))
    assert house.claim() == ()


def test_a_run_that_was_asked_for_stays_asked_for_when_the_definition_changes(house: House) -> None:
    """semantics 11.1: it is found under the moment at which it was asked for."""
    house.install(entry(first_due=NOON + EVERY))
    due = house.store.leases.ask("rule", DATABASE)
    house.clock.now = NOON + timedelta(minutes=1)
    house.install(entry(definition="d2", first_due=NOON + EVERY))
    (claim,) = house.claim()
    assert (claim.definition, claim.due_at) == ("d2", due)


def test_a_changed_schedule_takes_its_own_next_due_time(house: House) -> None:
    house.install(entry())
    house.due()
    house.clock.now = NOON + timedelta(minutes=1)
    house.install(entry(schedule_key="every 60s", upcoming_due=NOON + timedelta(minutes=2)))
    assert house.store.reads.overview()[0].next_due == NOON + timedelta(minutes=2)
    assert house.claim() == ()
    house.clock.now = NOON + timedelta(minutes=2)
    assert len(house.claim()) == 1


def test_a_changed_schedule_never_returns_to_a_finished_due_time(house: House) -> None:
    """semantics 8.1: a due time is single."""
    house.install(entry())
    house.due()
    house.clock.now = NOON + timedelta(minutes=1)
    house.install(entry(schedule_key="every 60s", upcoming_due=NOON))
    assert house.store.reads.overview()[0].next_due == NOON + EVERY


def test_a_due_time_that_is_owed_survives_a_change_of_its_schedule(house: House) -> None:
    """design 8: no due time is lost; the new schedule goes on from there."""
    house.install(entry())
    house.clock.forward(timedelta(minutes=1))
    upcoming = NOON + timedelta(minutes=2)
    house.install(entry(schedule_key="every 60s", upcoming_due=upcoming))
    (claim,) = house.claim()
    assert claim.due_at == NOON
    house.save(house.finished(claim, next_due=NOON + timedelta(minutes=1, seconds=1)))
    assert house.store.reads.overview()[0].next_due == NOON + timedelta(minutes=1, seconds=1)


def test_a_run_that_was_claimed_before_its_schedule_changed_goes_on_by_the_new_one(house: House) -> None:
    house.install(entry())
    (claim,) = house.claim()
    house.clock.forward(timedelta(minutes=1))
    upcoming = NOON + timedelta(minutes=2)
    house.install(entry(schedule_key="every 60s", upcoming_due=upcoming))
    (saved,) = house.save(house.finished(claim, next_due=NOON + EVERY))
    assert not saved.dropped
    assert house.store.reads.overview()[0].next_due == upcoming


def test_a_clock_that_steps_back_moves_no_due_time_back(house: House) -> None:
    """semantics 8.1 and 8.3: a run claimed before the step does not undo what the new schedule says."""
    house.install(entry())
    (claim,) = house.claim()
    house.clock.now = NOON - EVERY
    house.install(entry(schedule_key="every 3600s", upcoming_due=NOON + 4 * EVERY))
    (saved,) = house.save(house.finished(claim, next_due=NOON + EVERY))
    assert not saved.dropped
    assert house.store.reads.overview()[0].next_due == NOON + 4 * EVERY


def test_what_leaves_the_catalog_is_withdrawn_with_a_message_and_an_audit_line(house: House) -> None:
    """semantics 1.2: its episode ends as withdrawn, never resolved."""
    house.install(entry(), entry("stays", first_due=NOON + EVERY))
    saved = house.due(Outcome.VIOLATED)
    house.install(entry("stays"), notifiers=("oncall", "desk"))
    (alert,) = house.store.alerts.list()
    assert (alert.state, alert.ending, alert.last_run) == (AlertState.RESOLVED, Ending.WITHDRAWN, saved.run_id)
    owed = [(one.number, one.notifier, one.reason) for one in house.store.alerts.get(alert.id).messages]
    assert owed == [(1, "oncall", Reason.FIRED), (2, "desk", Reason.WITHDRAWN), (2, "oncall", Reason.WITHDRAWN)]
    lines = [(line.action, line.subject, line.who) for line in house.store.reads.audit()]
    assert ("entry.withdraw", f"rule@{DATABASE}", "somebody") in lines
    assert [row.standing.invariant for row in house.store.reads.overview()] == ["stays"]
    status = house.store.reads.catalog_status()
    assert [(one.invariant, one.database) for one in status.withdrawn] == [("rule", DATABASE)]
    assert (status.entries, status.generation and status.generation.number) == (1, 2)
    house.clock.forward(10 * EVERY)
    assert [claim.invariant for claim in house.claim()] == ["stays"]


def test_what_comes_back_has_never_looked_in_this_catalog_but_keeps_its_ledger(house: House) -> None:
    """semantics 0: absence never turns into green; 4.2: the ledger is kept."""
    house.install(entry())
    house.due(Outcome.HELD, secret_id="s1", key_columns=("id",))
    house.install(entry("other"))
    house.clock.forward(EVERY)
    house.install(entry(first_due=NOON, upcoming_due=NOON + 3 * EVERY))
    (row,) = house.store.reads.overview()
    assert row.standing.health is Health.NEVER
    assert (row.standing.good_at, row.standing.since) == (None, house.clock.now)
    assert row.next_due == NOON + 3 * EVERY
    before = house.store.runs.before("rule", DATABASE)
    assert before.ledger.looked_before
    assert before.newest_good is not None
    house.clock.now = NOON + 3 * EVERY
    assert not house.due(Outcome.HELD).dropped
    assert len(house.store.reads.spans("rule", DATABASE, NOON, house.clock.now)) == 2


def test_a_renamed_entry_goes_on_with_its_history_its_ledger_and_its_episode(house: House) -> None:
    """semantics 1.2: renamed_from carries history, ledger and episode over."""
    house.install(entry("before"))
    house.due(Outcome.VIOLATED, secret_id="s1")
    (running,) = house.claim()
    house.install(entry("after", renamed_from="before"))
    (alert,) = house.store.alerts.find_open("after")
    assert alert.state is AlertState.FIRING
    assert house.store.alerts.list(invariant="before") == ()
    assert len(house.store.reads.runs("after")) == 1
    assert house.store.runs.before("after", DATABASE).ledger.looked_before
    assert house.store.reads.catalog_status().withdrawn == ()
    assert "entry.rename" in [line.action for line in house.store.reads.audit()]
    (late,) = house.save(house.finished(running))
    assert late.dropped == "left the catalog"
    (anew,) = house.claim()
    assert (anew.invariant, anew.due_at) == ("after", running.due_at)
    house.save(house.finished(anew, Outcome.HELD))
    assert house.store.alerts.find_open("after") == ()


def test_a_name_that_was_in_use_already_is_not_taken_over(house: House) -> None:
    house.install(entry("a"), entry("b"))
    house.install(entry("b", renamed_from="a"))
    assert [row.standing.invariant for row in house.store.reads.overview()] == ["b"]
    assert [one.invariant for one in house.store.reads.catalog_status().withdrawn] == ["a"]


def test_two_entries_may_exchange_their_names_for_new_ones(house: House) -> None:
    house.install(entry("a"), entry("b", owner="others"))
    house.install(entry("c", renamed_from="a"), entry("d", renamed_from="b"))
    assert [row.standing.invariant for row in house.store.reads.overview()] == ["c", "d"]
    assert len(house.claim()) == 2


def test_a_refused_withdrawal_leaves_the_former_catalog_in_force(house: House) -> None:
    """semantics 1.3: all or nothing."""
    house.install(entry())
    house.due(Outcome.VIOLATED)

    def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    try:
        house.store.catalogs.install((), "other", "one", [], withdraw=broken, notifiers=())
    except RuntimeError:
        pass
    else:
        raise AssertionError("the mistake was swallowed")
    assert house.store.catalogs.number() == 1
    assert len(house.store.alerts.list(open_only=True)) == 1


def test_a_catalog_of_ten_thousand_entries_is_installed_whole(house: House) -> None:
    many = [entry(f"rule_{number}", f"db_{number % 7}") for number in range(10_000)]
    house.install(*many)
    house.install(*(replace(one, definition="d2") for one in many[:-1]))
    rows = house.store.reads.overview()
    assert len(rows) == 9_999
    assert {row.generation for row in rows} == {2}
    free = {f"db_{number}": 2 for number in range(7)}
    claims = house.store.leases.acquire(instance="one", free=free, limit=100, ttl=EVERY, generation=2)
    assert len(claims) == 14
