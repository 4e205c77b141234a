from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from holdtrue.model import Decision, Disposition, Evidence, KeyState, Novelty, Outcome, Retention, Sample
from holdtrue.store.retention import Pruning
from stores import DATABASE, EVERY, NOON, House, entry, position

DAY = timedelta(days=1)
SMALL = Retention(runs_kept_in_full=3, bad_runs=2 * DAY, exact_counts=3 * DAY, samples=DAY, evidence=2 * DAY)


def go(house: House, *outcomes: tuple[Outcome, int], every: timedelta = EVERY) -> None:
    """One run of each outcome and count, one after the other."""
    for outcome, counted in outcomes:
        (claim,) = house.claim()
        run = house.run(claim, outcome, counted=counted, returned=counted)
        if counted:
            run = replace(run, sample=Sample(("n",), (("1",),)))
        house.save(house.finished(claim, run=run, next_due=claim.due_at + every))
        house.clock.now = max(house.clock.now, claim.due_at + every)


def dues(house: House) -> list[datetime]:
    return sorted(run.due_at for run in house.store.reads.runs("rule", limit=10_000))


def test_the_newest_runs_and_the_ends_of_every_span_are_kept(house: House) -> None:
    """semantics 8.2."""
    house.install(entry())
    go(house, *[(Outcome.HELD, 0)] * 10)
    assert house.store.prune(SMALL).runs == 6
    assert dues(house) == [NOON, NOON + 7 * EVERY, NOON + 8 * EVERY, NOON + 9 * EVERY]
    (span,) = house.store.reads.spans("rule", DATABASE, NOON, house.clock.now)
    assert (span.runs, span.first_at, span.last_at) == (10, NOON, NOON + 9 * EVERY)
    assert house.store.reads.run(span.first_run) is not None
    assert house.store.reads.run(span.last_run) is not None
    assert house.store.prune(SMALL).runs == 0


def test_a_run_that_did_not_hold_is_kept_for_its_days(house: House) -> None:
    """semantics 8.2: 30 days by default."""
    house.install(entry())
    go(house, *[(Outcome.ERRORED, 0)] * 4, *[(Outcome.HELD, 0)] * 6)
    assert house.store.prune(SMALL).runs == 2
    assert dues(house)[:4] == [NOON + n * EVERY for n in range(4)]
    house.clock.forward(3 * DAY)
    assert house.store.prune(SMALL).runs == 2
    assert dues(house)[:2] == [NOON, NOON + 3 * EVERY]


def test_the_run_that_opened_an_alert_is_kept_while_it_is_open(house: House) -> None:
    house.install(entry())
    go(house, *[(Outcome.VIOLATED, count) for count in (1, 2, 3, 4, 5, 6)], every=timedelta(minutes=1))
    go(house, *[(Outcome.VIOLATED, 6)] * 9)
    house.clock.forward(9 * DAY)
    house.store.prune(SMALL)
    (alert,) = house.store.alerts.find_open("rule")
    assert house.store.alerts.get(alert.id).first_run is not None


def test_the_run_that_opened_an_alert_in_the_middle_of_a_span_is_kept_too(house: House) -> None:
    """A policy may wait for several runs before an alert fires."""
    house.install(entry())
    (claim,) = house.claim()
    first = house.finished(claim, Outcome.VIOLATED, counted=5)
    house.store.runs.save([first], lambda _finished, situation, _now: Decision(situation.standing))
    house.clock.forward(EVERY)
    go(house, *[(Outcome.VIOLATED, 5)] * 9)
    house.clock.forward(9 * DAY)
    house.store.prune(SMALL)
    (alert,) = house.store.alerts.find_open("rule")
    detail = house.store.alerts.get(alert.id)
    assert detail.first_run is not None
    assert detail.first_run.due_at == NOON + EVERY
    assert len(dues(house)) == 5


def test_the_newest_span_is_left_as_it_is_however_old(house: House) -> None:
    """It may yet be lengthened, and by a save that is on its way."""
    house.install(entry())
    go(house, (Outcome.VIOLATED, 1), (Outcome.VIOLATED, 2))
    assert house.store.prune(SMALL, NOON + 9 * DAY).spans == 0


def test_old_counts_become_hourly_and_lose_no_peak(house: House) -> None:
    """semantics 8.2: exact for a while, then lowest, highest and last of each hour."""
    house.install(entry())
    counts = [3, 9, 5, 5, 2, 7, 1, 4]
    go(house, *[(Outcome.VIOLATED, count) for count in counts])
    before = house.store.reads.spans("rule", DATABASE, NOON, house.clock.now)
    assert len(before) == 7
    assert house.store.prune(SMALL).spans == 0
    house.clock.forward(4 * DAY)
    go(house, (Outcome.HELD, 0))
    assert house.store.prune(SMALL).spans == 5
    spans = house.store.reads.spans("rule", DATABASE, NOON, NOON + timedelta(minutes=119))
    assert [(one.first_at, one.lowest, one.highest, one.counted, one.runs) for one in spans] == [
        (NOON, 3, 9, 5, 4),
        (NOON + 4 * EVERY, 1, 7, 4, 4),
    ]
    runs = {run.id for run in house.store.reads.runs("rule", limit=100)}
    assert {one.first_run for one in spans} | {one.last_run for one in spans} <= runs
    assert house.store.prune(SMALL).spans == 0


def test_thinning_goes_on_across_batches_and_stops_at_the_hour(house: House) -> None:
    house.install(entry())
    go(house, *[(Outcome.VIOLATED, count % 7 + 1) for count in range(30)], every=timedelta(minutes=4))
    house.clock.forward(4 * DAY)
    go(house, (Outcome.HELD, 0))
    pruning = Pruning(house.store._engine, batch=4)
    assert pruning.prune(SMALL, house.clock.now).spans == 28
    spans = house.store.reads.spans("rule", DATABASE, NOON, NOON + timedelta(minutes=119))
    assert [(one.first_at, one.runs) for one in spans] == [(NOON, 15), (NOON + timedelta(hours=1), 15)]


def test_samples_and_evidence_expire_whatever_they_belong_to(house: House) -> None:
    """semantics 9.1 and design 3.10: samples expire; evidence has a retention of its own."""
    house.install(entry())
    state = KeyState("k", Disposition.COUNTED, Novelty.NEW, NOON, NOON, NOON)
    taken = Evidence("k", ("id",), ("1",), (), position(NOON))
    (claim,) = house.claim()
    run = replace(house.run(claim, Outcome.VIOLATED, counted=1), sample=Sample(("n",), (("1",),)))
    (saved,) = house.save(house.finished(claim, run=run, key_changes=(state,), evidence=(taken,)))
    assert saved.run_id is not None
    (alert,) = house.store.alerts.find_open("rule")
    house.clock.forward(DAY + EVERY)
    done = house.store.prune(SMALL)
    assert (done.samples, done.evidence) == (1, 0)
    kept = house.store.reads.run(saved.run_id)
    assert kept is not None
    assert kept.sample is None
    assert len(house.store.alerts.get(alert.id).evidence) == 1
    house.clock.forward(DAY)
    assert house.store.prune(SMALL).evidence == 1
    assert house.store.alerts.get(alert.id).evidence == ()


def test_only_keys_that_have_gone_are_ever_forgotten(house: House) -> None:
    house.install(entry())
    states = [
        KeyState("gone", Disposition.COUNTED, Novelty.FIXED, NOON, NOON, NOON),
        KeyState("gone_lately", Disposition.COUNTED, Novelty.FIXED, NOON, NOON + 80 * DAY, NOON),
        KeyState("there", Disposition.COUNTED, Novelty.KNOWN, NOON, NOON, NOON),
        KeyState("settling", Disposition.SETTLING, Novelty.NEW, NOON, NOON),
    ]
    house.due(Outcome.VIOLATED, key_changes=tuple(states))
    assert house.store.prune(Retention(), NOON + 100 * DAY).keys == 1
    left = [one.key for one in house.store.reads.keys("rule", DATABASE)]
    assert left == ["gone_lately", "settling", "there"]


def test_old_generations_keep_their_hash_and_lose_their_texts(house: House) -> None:
    for number in range(4):
        house.install(entry(definition=f"d{number}"))
    assert house.store.prune(replace(Retention(), generations=3)).texts == 1
    current = house.store.catalogs.current()
    assert current is not None
    assert current.texts == (("holdtrue.yaml", "generation: 4"),)


def test_instances_that_were_not_seen_for_long_are_forgotten(house: House) -> None:
    house.store.instances.beat("gone")
    house.clock.forward(3 * DAY)
    house.store.instances.beat("here")
    assert house.store.prune(SMALL).instances == 1
    assert [one.instance for one in house.store.reads.instances()] == ["here"]
