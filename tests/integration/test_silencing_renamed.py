"""A silence knows an alert by the name that it fired with and by the one that its invariant has now (semantics 7.5, 7.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue import alerting, quieting
from holdtrue.alerting import parse_matchers
from holdtrue.model import Labels, MessageState, Reason
from scenes.monitored import RULE, MonitoredFile

NAME = "refunds_single"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[MonitoredFile]:
    """An alert fires, and its invariant is renamed."""
    made = MonitoredFile(tmp_path)
    made.settle("a", 2)
    made.look_later()
    made.install(replace(RULE, name=NAME, renamed_from=RULE.name, definition="d1 renamed"))
    yield made
    made.close()


@pytest.mark.parametrize("matcher", [f"name={RULE.name}", f"name={NAME}", "name~*_once", "name~*_single"])
def test_either_name_withholds_is_previewed_and_is_shown(house: MonitoredFile, matcher: str) -> None:
    made = house.store.silences.create(
        parse_matchers([matcher]), "a migration", by="alice", who="alice", ends=timedelta(hours=1)
    )
    for dispute in ("b", "c"):
        house.settle(dispute, 2)
    house.look_later_at(NAME)
    (alert,) = house.store.alerts.firing()
    assert (alert.invariant, alert.fired_as, alert.count) == (NAME, RULE.name, 3)
    told = [(one.reason, one.state) for one in house.store.alerts.get(alert.id).messages]
    assert told[-1] == (Reason.WORSENED, MessageState.WITHHELD)
    silence = alerting.silence_of(alert, house.store.silences.list(), house.catalog, house.now)
    assert silence is not None
    assert silence.id == made.id
    (matched,) = quieting.preview(house.store, house.catalog, parse_matchers([matcher]))
    assert (matched.invariant, matched.alert) == (NAME, alert.id)


def test_a_route_knows_the_present_name_alone(house: MonitoredFile) -> None:
    """Semantics 7.4: the catalog's routes are checked against the catalog's names."""
    for dispute in ("b", "c"):
        house.settle(dispute, 2)
    asked: list[tuple[str, str]] = []

    def told(labels: Labels) -> tuple[str, ...]:
        asked.append((labels.name, labels.fired_as))
        return ("oncall",)

    house.notified = told
    house.look_later_at(NAME)
    assert asked == [(NAME, "")]
