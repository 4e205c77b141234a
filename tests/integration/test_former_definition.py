"""An alert that only another text no longer finds: the former one is asked once more (semantics 1.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtrue.catalog import build_catalog
from holdtrue.model import AlertState, Ending, Episode, Outcome, Retention
from scenes.monitored import MonitoredFile
from stores import House, entry

NAME = "refunds_once"
TWICE = "SELECT dispute_id FROM refunds WHERE state = 'settled' GROUP BY dispute_id HAVING count(*) > 1"
NEVER = "SELECT dispute_id FROM refunds WHERE state = 'no such state' GROUP BY dispute_id HAVING count(*) > 1"


class Changing:
    """A monitored file whose invariant's text changes."""

    def __init__(self, house: MonitoredFile) -> None:
        self.house = house

    def put(self, sql: str, *, name: str = NAME, config: str = "", **keys: object) -> None:
        """Put a catalog with this text in force."""
        more = "".join(f", {key}: {value}" for key, value in keys.items())
        texts = {
            "holdtrue.yaml": (
                f"databases: {{payments: {{replicas: [{{name: file, url: 'sqlite:///{self.house.file}'}}],"
                f" allow_primary: true, freshness: none}}}}\n{config}"
            ),
            "invariants/a.yaml": (
                f'invariants:\n  - {{name: {name}, database: payments, interval: 15m, key: [dispute_id], sql: "{sql}"{more}}}\n'
            ),
        }
        catalog = build_catalog(texts, environ={"SECRET": "xoxb-1"})
        self.house.put_in_force(catalog)

    def look(self, name: str = NAME) -> tuple[Episode, str, tuple[Outcome, int]]:
        """Look; the newest alert, its last event's detail, and what the run came to."""
        run = self.house.look_later_at(name)
        (alert, *_) = self.house.store.alerts.list()
        return alert, self.house.store.alerts.get(alert.id).events[-1].detail, (run.outcome, run.counted)


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Changing]:
    house = MonitoredFile(tmp_path)
    try:
        yield Changing(house)
    finally:
        house.close()


def test_a_text_that_finds_less_never_resolves_what_the_former_still_counts(changing: Changing) -> None:
    """Semantics 1.2, 0: both counts, and the catalog that did it; the run itself holds."""
    changing.put(TWICE)
    changing.house.settle("a", 2)
    changing.house.settle("b", 2)
    assert changing.look()[0].state is AlertState.FIRING
    changing.put(NEVER)
    alert, detail, run = changing.look()
    assert (alert.ending, run) == (Ending.REDEFINED, (Outcome.HELD, 0))
    assert "the former text still counts 2, the new one 0" in detail
    current = changing.house.store.catalogs.current()
    assert current is not None
    assert f"generation {current.number} ({current.content_hash[:12]})" in detail


def test_a_text_that_changed_while_the_rows_were_repaired_resolves(changing: Changing) -> None:
    """Semantics 1.2: the former definition holds too."""
    changing.put(TWICE)
    changing.house.settle("a", 2)
    changing.look()
    changing.house.execute("DELETE FROM refunds WHERE id = 1")
    changing.put(NEVER)
    alert, detail, _ = changing.look()
    assert alert.ending is Ending.RESOLVED
    assert detail.endswith("the former text holds too")


def test_the_former_tolerance_is_the_former_definitions(changing: Changing) -> None:
    """Semantics 1.1, 1.2: tolerate decides what counts, so that a greater one resolves nothing either."""
    changing.put(TWICE)
    changing.house.settle("a", 2)
    changing.look()
    changing.put(TWICE, policy="{tolerate: 5}")
    alert, detail, run = changing.look()
    assert (alert.ending, run) == (Ending.REDEFINED, (Outcome.HELD, 1))
    assert "the former text still counts 1, the new one 1" in detail


def test_a_former_text_that_fails_now_is_said_to_have_failed(changing: Changing) -> None:
    """Semantics 1.2: what could not be asked is no resolution, and the new text's run stays good."""
    changing.put(TWICE)
    changing.house.settle("a", 2)
    changing.look()
    changing.house.execute("ALTER TABLE refunds RENAME COLUMN state TO status")
    changing.put("SELECT dispute_id FROM refunds WHERE status = 'no such state'")
    alert, detail, run = changing.look()
    assert (alert.ending, run) == (Ending.REDEFINED, (Outcome.HELD, 0))
    assert "1 counted under the former one, 0 under the new one; the former text could not be asked: " in detail


def test_a_renamed_rule_is_asked_by_its_former_name(changing: Changing) -> None:
    """Semantics 1.2: `renamed_from` carries the episode over, and with it what it was opened by."""
    changing.put(TWICE)
    changing.house.settle("a", 2)
    changing.look()
    changing.put(NEVER, name="one_refund", renamed_from=NAME)
    alert, detail, _ = changing.look("one_refund")
    assert alert.ending is Ending.REDEFINED
    assert "the former text still counts 1" in detail


def test_texts_that_are_no_longer_kept_cannot_be_asked(changing: Changing) -> None:
    """Semantics 1.2: and the message says so."""
    changing.put(TWICE)
    changing.house.settle("a", 2)
    changing.look()
    changing.put(NEVER)
    changing.house.store.prune(Retention(generations=1))
    alert, detail, _ = changing.look()
    assert alert.ending is Ending.REDEFINED
    assert detail.endswith("the former text could not be asked: its catalog is no longer kept")


def test_a_former_catalog_whose_secret_is_gone_is_read_beside_todays_configuration(changing: Changing) -> None:
    """Semantics 1.2, 1.7: a notifier that left says nothing of the text."""
    changing.put(TWICE, config="notifiers: {n: {kind: slack, channel: '#a', token: '${SECRET}'}}\n")
    changing.house.settle("a", 2)
    changing.look()
    changing.put(NEVER)
    alert, detail, _ = changing.look()
    assert alert.ending is Ending.REDEFINED
    assert "the former text still counts 1" in detail


def test_the_store_knows_under_which_catalog_a_definition_was_last_run(house: House) -> None:
    """Semantics 1.2, 1.3: on both stores."""
    house.install(entry())
    house.due()
    house.install(entry(), entry("other"))
    assert house.store.catalogs.under("rule", "payments", "d9") is None
    found = house.store.catalogs.under("rule", "payments", "d1")
    assert found is not None
    assert found.number == 1
    assert found.texts
