from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest

from holdtrue.errors import NotFound
from holdtrue.model import (
    AlertState,
    Change,
    Decision,
    Delivered,
    Disposition,
    Ending,
    Evidence,
    EvidenceRow,
    Failure,
    FailureReason,
    Health,
    KeyState,
    Novelty,
    Outcome,
    Reason,
    Sample,
    Situation,
)
from holdtrue.store import Finished, open_store
from stores import DATABASE, EVERY, NOON, TTL, Clock, House, entry, event, position, watchful


def key(name: str, novelty: Novelty = Novelty.NEW, disposition: Disposition = Disposition.COUNTED) -> KeyState:
    counted = NOON if disposition is Disposition.COUNTED else None
    return KeyState(name, disposition, novelty, NOON, NOON, counted, f"shown {name}")


def evidence_of(name: str) -> Evidence:
    row = EvidenceRow("refunds", ("id", "state"), ("7", None), ("integer", "text"), False, 745, NOON)
    return Evidence(
        name, ("id",), ("7",), (row,), position(NOON), "CREATE TABLE refunds ()", ("trigger t",), ("refunds.id",)
    )


def test_a_saved_run_comes_back_as_it_was(house: House) -> None:
    house.install(entry())
    (claim,) = house.claim()
    sample = Sample(
        ("id", "name"), (("1", None), ("2", 'ü "\u2028')), ("k1", "k2"), ("new", "known"), frozenset({"name"})
    )
    run = house.run(
        claim,
        Outcome.VIOLATED,
        returned=9,
        counted=5,
        settling=3,
        waived=1,
        new=2,
        known=2,
        came_back=1,
        fixed=4,
        complete=False,
        of_a_sample=True,
        failure=Failure(FailureReason.TIMEOUT, "the time limit of 10 s", "57014", 12, raw="never kept"),
        duration=timedelta(seconds=10, microseconds=1),
        sample=sample,
        instance="one",
        position=replace(position(NOON), in_progress=(3, 5), lag=None),
    )
    (saved,) = house.save(house.finished(claim, run=run))
    assert saved.run_id
    kept = house.store.reads.run(saved.run_id)
    assert kept == replace(run, id=saved.run_id, failure=replace(run.failure, raw=None) if run.failure else None)
    (without_sample,) = house.store.reads.runs("rule")
    assert without_sample == replace(kept, sample=None)


def test_each_run_of_a_batch_counts_under_its_own_token(house: House) -> None:
    """semantics 8.1: a lost token drops its run, not its neighbours, and leaves no trace."""
    house.install(entry("a"), entry("b"), entry("c"))
    one = {claim.invariant: claim for claim in house.claim("one")}
    house.clock.forward(timedelta(seconds=1))
    house.store.leases.release([one["b"]])
    (taken,) = house.claim("two")
    lost = house.finished(one["b"], Outcome.VIOLATED, key_changes=(key("k"),), evidence=(evidence_of("k"),))
    answers = house.save(house.finished(one["a"]), lost, house.finished(one["c"], Outcome.VIOLATED))
    assert [(answer.dropped, answer.run_id is None) for answer in answers] == [
        ("", False),
        ("lost lease", True),
        ("", False),
    ]
    assert house.store.reads.runs("b") == ()
    assert house.store.reads.keys("b", DATABASE) == ()
    assert [alert.invariant for alert in house.store.alerts.list()] == ["c"]
    (late,) = house.save(house.finished(taken))
    assert not late.dropped


def test_a_claim_saves_once_even_within_one_batch(house: House) -> None:
    house.install(entry())
    (claim,) = house.claim()
    answers = house.save(house.finished(claim), house.finished(claim))
    assert [answer.dropped for answer in answers] == ["", "lost lease"]
    (again,) = house.save(house.finished(claim))
    assert again.dropped == "lost lease"
    assert len(house.store.reads.runs("rule")) == 1


def test_a_run_whose_definition_changed_since_its_claim_is_discarded_and_its_due_time_run_anew(house: House) -> None:
    """semantics 1.3."""
    house.install(entry())
    (claim,) = house.claim()
    house.install(entry(definition="d2"))
    (saved,) = house.save(house.finished(claim, Outcome.VIOLATED))
    assert saved.dropped == "definition changed"
    assert house.store.alerts.list() == ()
    (anew,) = house.claim("two")
    assert (anew.due_at, anew.definition) == (claim.due_at, "d2")


def test_a_run_that_was_made_with_another_text_than_claimed_is_discarded(house: House) -> None:
    """semantics 1.3: its definition is not the store's."""
    house.install(entry())
    (claim,) = house.claim()
    (saved,) = house.save(house.finished(claim, run=house.run(claim, definition="d0")))
    assert saved.dropped == "definition changed"


def test_a_run_of_an_entry_that_left_the_catalog_is_discarded(house: House) -> None:
    """semantics 1.2."""
    house.install(entry(), entry("other"))
    claims = {claim.invariant: claim for claim in house.claim()}
    house.install(entry("other"))
    (saved,) = house.save(house.finished(claims["rule"], Outcome.VIOLATED))
    assert saved.dropped == "left the catalog"


def test_a_due_time_only_moves_forward(house: House) -> None:
    """semantics 8.1."""
    house.install(entry())
    (claim,) = house.claim()
    with pytest.raises(ValueError, match="cannot be"):
        house.save(house.finished(claim, next_due=NOON))
    (saved,) = house.save(house.finished(claim, next_due=NOON + EVERY))
    assert not saved.dropped
    (row,) = house.store.reads.overview()
    assert row.next_due == NOON + EVERY


def test_a_run_of_an_older_due_time_moves_none_back(house: House) -> None:
    """semantics 8.1: whatever a run says is next, what the store has is never left behind."""
    house.install(entry())
    (claim,) = house.claim()
    older = replace(house.run(claim), due_at=NOON - EVERY)
    (saved,) = house.save(house.finished(claim, run=older, next_due=NOON - EVERY / 2))
    assert not saved.dropped
    (row,) = house.store.reads.overview()
    assert row.next_due == NOON


def test_a_decision_that_raises_leaves_the_whole_batch_unwritten(house: House) -> None:
    """semantics 8.1: a store transaction is whole."""
    house.install(entry("a"), entry("b"))
    batch = [house.finished(claim, Outcome.VIOLATED) for claim in house.claim()]

    def broken(finished: Finished, situation: object, now: object) -> Decision:
        if finished.run.invariant == "b":
            raise RuntimeError("a mistake of ours")
        return watchful(finished, situation, now)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError):
        house.store.runs.save(batch, broken)
    assert house.store.reads.runs("a") == ()
    assert house.store.alerts.list() == ()
    assert [saved.dropped for saved in house.save(*batch)] == ["", ""]


@pytest.mark.parametrize(("number", "events"), [(3, 3), (3, 2), (1, 2), (2, 3)])
def test_a_decision_that_skips_an_events_number_is_refused(house: House, number: int, events: int) -> None:
    """semantics 7.3: an episode numbers its events."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (claim,) = house.claim()

    def skipping(finished: Finished, situation: Situation, now: datetime) -> Decision:
        assert situation.alert is not None
        episode = replace(situation.alert, events=events)
        return Decision(situation.standing, (Change(episode, (event(number, "worsened", now, Reason.WORSENED),)),))

    with pytest.raises(ValueError, match="do not follow"):
        house.store.runs.save([house.finished(claim, Outcome.VIOLATED)], skipping)


def test_rows_open_an_episode_with_numbered_events_and_one_message_for_each_notifier(house: House) -> None:
    """semantics 7.3: a message's key is (episode, number, notifier), owed in the transaction that changed the state."""
    house.install(entry())
    saved = house.due(Outcome.VIOLATED, counted=2, notifiers=("oncall", "desk", "oncall"))
    house.due(Outcome.HELD, notifiers=("desk",))
    (alert,) = house.store.alerts.list()
    assert (alert.state, alert.ending, alert.first_run) == (AlertState.RESOLVED, Ending.RESOLVED, saved.run_id)
    detail = house.store.alerts.get(alert.id)
    assert [(one.number, one.name, one.episode) for one in detail.events] == [
        (1, "fired", alert.id),
        (2, "resolved", alert.id),
    ]
    owed = [(one.number, one.notifier, one.reason) for one in detail.messages]
    assert owed == [(1, "desk", Reason.FIRED), (1, "oncall", Reason.FIRED), (2, "desk", Reason.RESOLVED)]


def test_a_new_episode_is_decided_with_the_former_ones_end_in_view(house: House) -> None:
    """semantics 7.2: the state depends on the end of the previous episode."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    house.due(Outcome.HELD)
    house.due(Outcome.VIOLATED)
    newest, former = house.store.alerts.list()
    assert newest.follows == former.id
    situation = house.store.alerts.situation("rule", DATABASE)
    assert (situation.alert, situation.previous) == (newest, former)


def test_an_errored_run_moves_health_and_no_episode(house: House) -> None:
    """semantics 7.2."""
    house.install(entry())
    house.due(Outcome.VIOLATED)
    (before,) = house.store.alerts.list()
    house.due(Outcome.ERRORED)
    (row,) = house.store.reads.overview()
    assert row.standing.health is Health.FAILING
    assert (row.alert, row.standing.good_outcome) == (before, Outcome.VIOLATED)


def test_equal_neighbours_share_a_span_and_each_difference_begins_one(house: House) -> None:
    """semantics 8.2: equal in outcome, counted, definition and completeness."""
    house.install(entry())
    for outcome, counted, complete in [
        (Outcome.HELD, 0, True),
        (Outcome.HELD, 0, True),
        (Outcome.VIOLATED, 2, True),
        (Outcome.VIOLATED, 2, False),
        (Outcome.VIOLATED, 3, False),
        (Outcome.VIOLATED, 3, False),
        (Outcome.ERRORED, 0, True),
    ]:
        (claim,) = house.claim()
        house.save(house.finished(claim, run=house.run(claim, outcome, counted=counted, complete=complete)))
        house.clock.forward(EVERY)
    house.install(entry(definition="d2"))
    house.due(Outcome.ERRORED)
    spans = house.store.reads.spans("rule", DATABASE, NOON, NOON + 10 * EVERY)
    assert [(one.outcome, one.counted, one.complete, one.runs) for one in spans] == [
        (Outcome.HELD, 0, True, 2),
        (Outcome.VIOLATED, 2, True, 1),
        (Outcome.VIOLATED, 2, False, 1),
        (Outcome.VIOLATED, 3, False, 2),
        (Outcome.ERRORED, 0, True, 1),
        (Outcome.ERRORED, 0, True, 1),
    ]
    assert [(one.first_at, one.last_at) for one in spans[:2]] == [
        (NOON, NOON + EVERY),
        (NOON + 2 * EVERY, NOON + 2 * EVERY),
    ]
    runs = {run.id: run for run in house.store.reads.runs("rule")}
    assert [(runs[one.first_run].due_at, runs[one.last_run].due_at) for one in spans] == [
        (one.first_at, one.last_at) for one in spans
    ]


def test_due_times_nobody_was_there_for_are_one_skipped_span(house: House) -> None:
    """semantics 2.5: the newest missed one runs once, the others are one skipped span."""
    house.install(entry())
    house.due(Outcome.HELD)
    house.clock.now = NOON + 5 * EVERY
    (claim,) = house.claim()
    newest = replace(claim, due_at=NOON + 5 * EVERY, missed=4, missed_from=claim.due_at)
    skipped = house.run(claim, Outcome.SKIPPED, missed=4, failure=Failure(FailureReason.MISSED, "nobody was there"))
    (saved,) = house.save(house.finished(newest, Outcome.HELD, skipped=skipped))
    assert not saved.dropped
    spans = house.store.reads.spans("rule", DATABASE, NOON, NOON + 9 * EVERY)
    assert [(one.outcome, one.runs, one.first_at) for one in spans] == [
        (Outcome.HELD, 1, NOON),
        (Outcome.SKIPPED, 4, NOON + EVERY),
        (Outcome.HELD, 1, NOON + 5 * EVERY),
    ]
    assert spans[1].last_at < spans[2].first_at
    assert [(run.outcome, run.missed) for run in house.store.reads.runs("rule")] == [
        (Outcome.HELD, 0),
        (Outcome.SKIPPED, 4),
        (Outcome.HELD, 0),
    ]
    assert house.store.reads.overview()[0].next_due == NOON + 6 * EVERY


def test_a_span_begins_where_its_run_looked_and_not_where_it_was_due(house: House) -> None:
    """semantics 0, 8.2: a daily rule that came into the catalog at 13:06 held nothing at noon."""
    house.install(entry())
    house.clock.now = NOON + timedelta(minutes=66)
    house.due(Outcome.HELD)
    (span,) = house.store.reads.spans("rule", DATABASE, NOON, NOON + 9 * EVERY)
    assert (span.first_at, span.last_at) == (house.clock.now, house.clock.now)
    (run,) = house.store.reads.runs("rule")
    assert (run.due_at, run.started_at, run.looked_at) == (NOON, house.clock.now, house.clock.now)
    house.clock.forward(EVERY)
    house.due(Outcome.HELD)
    (longer,) = house.store.reads.spans("rule", DATABASE, NOON, NOON + 9 * EVERY)
    assert (longer.runs, longer.first_at, longer.last_at) == (2, span.first_at, house.clock.now)


def test_a_run_that_came_when_the_one_before_it_was_no_longer_fresh_begins_a_span(house: House) -> None:
    """semantics 0, 6, 8.2: one due time, made much too late, is no missed one, and nobody looked all the same."""
    house.install(entry())
    house.due(Outcome.HELD)
    house.clock.now = NOON + 3 * EVERY
    house.due(Outcome.HELD)
    spans = house.store.reads.spans("rule", DATABASE, NOON, NOON + 9 * EVERY)
    assert [(one.outcome, one.runs, one.first_at, one.last_at) for one in spans] == [
        (Outcome.HELD, 1, NOON, NOON),
        (Outcome.HELD, 1, NOON + 3 * EVERY, NOON + 3 * EVERY),
    ]


def test_what_was_caught_up_is_known_from_its_look_and_what_was_missed_ends_before_its_due_time(house: House) -> None:
    """semantics 2.5, 8.2: between the due time that was run late and its look nobody looked."""
    house.install(entry())
    house.due(Outcome.HELD)
    house.clock.now = NOON + 5 * EVERY + timedelta(minutes=9)
    (claim,) = house.claim()
    newest = replace(claim, due_at=NOON + 5 * EVERY, missed=4, missed_from=claim.due_at)
    skipped = house.run(claim, Outcome.SKIPPED, missed=4)
    house.save(house.finished(newest, Outcome.HELD, skipped=skipped))
    _, missed, caught_up = house.store.reads.spans("rule", DATABASE, NOON, NOON + 9 * EVERY)
    assert (missed.outcome, missed.first_at) == (Outcome.SKIPPED, NOON + EVERY)
    assert missed.last_at < NOON + 5 * EVERY
    assert caught_up.first_at == house.clock.now


def test_an_outage_that_ends_in_an_error_is_recorded_once(house: House) -> None:
    """semantics 2.4 and 2.5: the retry of the newest due time does not record the missed ones again."""
    house.install(entry())
    house.clock.now = NOON + 3 * EVERY
    (claim,) = house.claim()
    newest = replace(claim, due_at=NOON + 3 * EVERY, missed=3)
    skipped = house.run(claim, Outcome.SKIPPED, missed=3)
    house.save(
        house.finished(newest, Outcome.ERRORED, skipped=skipped, retry_at=house.clock.now + timedelta(minutes=1))
    )
    house.clock.forward(timedelta(minutes=1))
    (again,) = house.claim()
    assert (again.due_at, again.attempt) == (NOON + 3 * EVERY, 2)
    (saved,) = house.save(house.finished(again, Outcome.HELD))
    assert not saved.dropped
    spans = house.store.reads.spans("rule", DATABASE, NOON, NOON + 9 * EVERY)
    assert [(one.outcome, one.runs) for one in spans] == [(Outcome.SKIPPED, 3), (Outcome.HELD, 1)]


def test_the_newest_good_position_is_what_the_next_run_must_not_fall_behind(house: House) -> None:
    """semantics 2.3."""
    house.install(entry())
    assert house.store.runs.before("rule", DATABASE).newest_good is None
    house.due(Outcome.HELD)
    good = house.store.runs.before("rule", DATABASE).newest_good
    assert good == position(NOON)
    house.due(Outcome.ERRORED)
    assert house.store.runs.before("rule", DATABASE).newest_good == good
    with pytest.raises(NotFound):
        house.store.runs.before("no_such", DATABASE)


def test_a_days_cost_adds_up_and_keeps_the_slowest(house: House) -> None:
    """semantics 8.2."""
    house.install(entry())
    for outcome, milliseconds in ((Outcome.HELD, 5), (Outcome.ERRORED, 40), (Outcome.HELD, 7)):
        (claim,) = house.claim()
        house.save(house.finished(claim, run=house.run(claim, outcome, statement=timedelta(milliseconds=milliseconds))))
        house.clock.forward(EVERY)
    (cost,) = house.store.reads.costs("rule", DATABASE)
    assert (cost.day, cost.runs, cost.errors) == (date(2026, 11, 29), 3, 1)
    assert (cost.statement, cost.slowest) == (timedelta(milliseconds=52), timedelta(milliseconds=40))


def test_no_character_of_a_value_can_fail_a_save(house: House) -> None:
    """Values are untrusted everywhere: NUL and halves of surrogate pairs are kept as the replacement character."""
    bad = "a\0b\ud800c\U0001f600"
    house.install(entry())
    (claim,) = house.claim()
    run = house.run(
        claim,
        Outcome.VIOLATED,
        counted=1,
        sample=Sample(("n",), ((bad,),), ("k",), ("new",)),
        failure=Failure(FailureReason.QUERY, bad),
    )
    state = replace(key("k"), shown=bad)
    (saved,) = house.save(house.finished(claim, run=run, key_changes=(state,)))
    assert saved.run_id is not None
    kept = house.store.reads.run(saved.run_id)
    assert kept is not None
    assert kept.sample is not None
    assert kept.sample.rows == ((bad,),)
    assert kept.failure is not None
    assert kept.failure.sentence == "a\ufffdb\ufffdc\U0001f600"
    assert house.store.reads.keys("rule", DATABASE)[0].shown == "a\ufffdb\ufffdc\U0001f600"


def test_hold_points_stand_before_and_after_each_operation(store_url: str) -> None:
    """design 8: the fault suite stops an instance at any of them."""

    seen: list[tuple[str, str]] = []
    clock = Clock()
    store = open_store(store_url, clock=clock, hold=lambda operation, moment: seen.append((operation, moment)))
    house = House(store, clock, store_url)
    house.install(entry())
    (claim,) = house.claim()
    store.leases.renew([claim], TTL)
    house.save(house.finished(claim, Outcome.VIOLATED))
    (owed,) = house.outbox()

    store.outbox.mark(owed.message, Delivered())
    store.close()
    assert seen == [
        ("lease.acquire", "before"),
        ("lease.acquire", "after"),
        ("lease.renew", "before"),
        ("lease.renew", "after"),
        ("run.save", "before"),
        ("lease.finish", "before"),
        ("lease.finish", "after"),
        ("run.save", "after"),
        ("outbox.claim", "before"),
        ("outbox.claim", "after"),
        ("outbox.mark", "before"),
        ("outbox.mark", "after"),
    ]
