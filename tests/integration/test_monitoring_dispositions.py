"""What settles, is waived, was accepted, looks suspicious: through real runs and a real store (semantics 3.1, 4, 5)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdtrue.model import AlertState, FailureReason, Mark, Outcome, Settle, Waiver
from scenes.monitored import EVERY, RULE, MonitoredFile

SETTLING = replace(
    RULE,
    definition="d2",
    sql="SELECT dispute_id, max(at) AS at FROM refunds GROUP BY dispute_id HAVING count(*) > 1",
    settle=Settle("at", timedelta(minutes=20), timedelta(minutes=60)),
)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[MonitoredFile]:
    house = MonitoredFile(tmp_path)
    yield house
    house.close()


def settle(house: MonitoredFile, dispute: str, age: timedelta = timedelta(minutes=1)) -> None:
    """Two refunds of a dispute, so old by the database's clock."""
    at = (datetime.now(UTC) - age).isoformat()
    with sqlite3.connect(house.file) as connection:
        connection.executemany("INSERT INTO refunds (dispute_id, at) VALUES (?, ?)", [(dispute, at)] * 2)
    connection.close()


def test_settling_rows_neither_open_nor_keep_an_alert_and_are_always_said(house: MonitoredFile) -> None:
    """Semantics 5.1, 6: held, "holds · 1 settling"; one that goes by itself has healed, with its age."""
    house.install(SETTLING)
    settle(house, "dsp_1", timedelta(minutes=3))
    run = house.look_later()
    assert (run.outcome, run.returned, run.counted, run.settling, run.new) == (Outcome.HELD, 1, 0, 1, 0)
    assert house.store.alerts.find_open(RULE.name) == ()
    standing = house.store.alerts.situation(RULE.name, "payments").standing
    assert standing.good_settling == 1
    house.execute("DELETE FROM refunds")
    gone = house.look_later()
    assert (gone.outcome, gone.healed, gone.fixed) == (Outcome.HELD, 1, 0)
    (age,) = house.store.reads.healed(RULE.name, "payments")
    assert age >= timedelta(0)
    assert house.store.reads.key_counts(RULE.name, "payments") == {}


def test_a_row_that_stays_counts_once_it_is_older(house: MonitoredFile) -> None:
    """Semantics 5.1: and once it has counted in the open episode it never settles again, however young it makes itself."""
    house.install(SETTLING)
    settle(house, "dsp_1")
    assert house.look_later().settling == 1
    house.execute("UPDATE refunds SET at = '2020-01-01 00:00:00'")
    counted = house.look_later()
    assert (counted.outcome, counted.new) == (Outcome.VIOLATED, 1)
    house.execute(f"UPDATE refunds SET at = '{datetime.now(UTC).isoformat()}'")
    again = house.look_later()
    assert (again.outcome, again.counted, again.settling) == (Outcome.VIOLATED, 1, 0)
    (episode,) = house.store.alerts.find_open(RULE.name)
    assert episode.state is AlertState.FIRING


def test_keys_that_a_run_saw_and_the_ledger_could_not_keep_do_not_settle_later(house: MonitoredFile) -> None:
    """Semantics 4.3, 5.1: the ledger kept the smallest keys of it, and of the others nobody can say that they did not count."""
    rule = replace(SETTLING, sql="SELECT dispute_id, at FROM refunds ORDER BY id", count_limit=10_050)
    house.install(rule)
    with sqlite3.connect(house.file) as connection:
        rows = [(f"dsp_{number}", "2020-01-01 00:00:00") for number in range(10_100)]
        connection.executemany("INSERT INTO refunds (dispute_id, at) VALUES (?, ?)", rows)
    connection.close()
    cut = house.look_later()
    assert (cut.outcome, cut.counted, cut.complete) == (Outcome.VIOLATED, 10_050, False)
    house.execute(f"UPDATE refunds SET at = '{datetime.now(UTC).isoformat()}'")
    house.install(replace(rule, count_limit=None))
    whole = house.look_later()
    # Of the 50 that nobody saw before, those settle that the ledger would have kept.
    assert whole.counted >= 10_050


def test_a_row_that_keeps_itself_young_counts_after_at_most(house: MonitoredFile) -> None:
    """Semantics 5.1: since it was first seen, by the store's clock."""
    house.install(SETTLING)
    outcomes = []
    settle(house, "dsp_1")
    for _ in range(6):
        house.execute(f"UPDATE refunds SET at = '{datetime.now(UTC).isoformat()}'")
        outcomes.append(house.look_later().outcome)
    assert outcomes == [Outcome.HELD] * 4 + [Outcome.VIOLATED] * 2


def test_settling_rows_do_not_keep_an_alert_open(house: MonitoredFile) -> None:
    """Semantics 5.1: and what is still there is said where the alert resolves."""
    house.install(SETTLING)
    settle(house, "dsp_1", timedelta(hours=1))
    house.look_later()
    house.execute("DELETE FROM refunds")
    settle(house, "dsp_2")
    assert house.look_later().outcome is Outcome.HELD
    (ended,) = house.store.alerts.list()
    assert house.store.alerts.get(ended.id).events[-1].detail.endswith("; still returned: 1 settling")


def test_a_changed_secret_never_lets_a_counted_row_settle(house: MonitoredFile) -> None:
    """Semantics 4.2, 5.1: which keys counted in the episode cannot be told any more, so that all of them count."""
    house.install(SETTLING)
    settle(house, "dsp_1", timedelta(hours=1))
    house.look_later()
    house.execute(f"UPDATE refunds SET at = '{datetime.now(UTC).isoformat()}'")
    house.hasher.__init__(b"another secret altogether")  # type: ignore[misc]
    run = house.look_later()
    assert (run.outcome, run.counted, run.settling, run.known) == (Outcome.VIOLATED, 1, 0, 1)
    assert run.rebaselined == "the ledger secret changed"
    assert house.look_later().outcome is Outcome.VIOLATED


def test_a_waived_row_counts_again_when_its_waiver_ends(house: MonitoredFile) -> None:
    """Semantics 4.1, 5.4: by the store's clock, in the run after its end."""
    waiver = Waiver((("dispute_id", "dsp_1"),), "agreed with finance", house.now + 2 * EVERY)
    house.install(replace(RULE, definition="d3", waive=(waiver,)))
    house.settle("dsp_1", 2)
    first = house.look_later()
    assert (first.outcome, first.counted, first.waived) == (Outcome.HELD, 0, 1)
    assert house.store.alerts.situation(RULE.name, "payments").standing.good_waived == 1
    over = house.look_later()
    assert (over.outcome, over.counted, over.waived, over.new) == (Outcome.VIOLATED, 1, 0, 1)


def test_population_is_asked_once_an_hour_and_its_answer_is_kept_in_the_store(house: MonitoredFile) -> None:
    """Semantics 3.1: an answer that found something is good for an hour, whoever asks; one that found nothing is not kept."""
    rule = replace(RULE, definition="d4", population="SELECT count(*) FROM refunds")
    house.install(rule)
    empty = house.look_later()
    assert (empty.outcome, empty.failure is not None and empty.failure.reason) == (
        Outcome.ERRORED,
        FailureReason.VACUOUS,
    )
    house.settle("dsp_1")
    assert house.look_later().outcome is Outcome.HELD
    kept = house.store.runs.before(RULE.name, "payments").population
    assert kept is not None
    assert (kept.at, kept.definition, kept.number) == (house.now, "d4", 1)
    # Were it asked again, it would say that there is nothing; the answer is good through restarts, for it is in the store.
    house.execute("DELETE FROM refunds")
    house.restart()
    outcomes = [house.look_later().outcome for _ in range(4)]
    assert outcomes == [Outcome.HELD] * 3 + [Outcome.ERRORED]
    # Another definition asks another question.
    house.settle("dsp_1")
    assert house.look_later().outcome is Outcome.HELD
    house.execute("DELETE FROM refunds")
    house.install(replace(rule, definition="d5"))
    assert house.look_later().outcome is Outcome.ERRORED


def test_a_count_that_goes_from_none_to_its_limit_is_marked_and_told(house: MonitoredFile) -> None:
    """Semantics 3.4; design: marked as suspicious on the run and in the message, never held back."""
    house.install(replace(RULE, definition="d6", count_limit=3))
    assert house.look_later().suspicious == ""
    for number in range(5):
        house.settle(f"dsp_{number}", 2)
    run = house.look_later()
    assert (run.outcome, run.complete, run.suspicious) == (Outcome.VIOLATED, False, "from none to the limit")
    (episode,) = house.store.alerts.find_open(RULE.name)
    (fired,) = [one for one in house.store.alerts.get(episode.id).events if one.reason is not None]
    assert fired.marks == (Mark.SUSPICIOUS,)
    assert fired.detail.endswith("suspicious: from none to the limit")
    assert house.look_later().suspicious == ""  # it was there before


def test_a_count_as_large_as_the_population_is_marked(house: MonitoredFile) -> None:
    """Design: every row there is breaks the rule: it may be the text, or a load, that is broken."""
    house.install(replace(RULE, definition="d7", population="SELECT count(DISTINCT dispute_id) FROM refunds"))
    house.settle("dsp_1")
    house.settle("dsp_2")
    assert house.look_later().suspicious == ""
    house.settle("dsp_1")
    assert house.look_later().suspicious == ""
    house.settle("dsp_2")
    assert house.look_later().suspicious == "the whole population"
