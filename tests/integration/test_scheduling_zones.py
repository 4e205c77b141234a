"""A nightly line where clocks change, from YAML through claims to runs on the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import casebook
from holdtrue.catalog import build_catalog
from holdtrue.model import next_due
from holdtrue.scheduling import entries_of, settle_on_newest
from stores import House

QUARTER = timedelta(minutes=15)


@pytest.mark.parametrize(
    "start", [datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)], ids=["spring", "autumn"]
)
def test_case_086_a_nightly_invariant_is_run_once_on_each_calendar_day(house: House, start: datetime) -> None:
    """Semantics 2.5: the night without 02:30 and the night that has it twice, claimed as an instance claims."""
    case = casebook.case("086")
    texts = {
        "holdtrue.yaml": casebook.sqlite_config(freshness="none"),
        "invariants/case.yaml": case.invariants_file("sqlite"),
    }
    catalog = build_catalog(texts, environ={})
    (invariant,) = catalog.invariants
    house.clock.now = start
    # From the first night on: what was due before is not asked for.
    (entry,) = entries_of(catalog, start)
    generation = house.install(entry)
    free = {casebook.DATABASE: 1}
    runs: list[datetime] = []
    missed = 0
    while house.clock.now < start + timedelta(days=3):
        for claim in house.store.leases.acquire(instance="one", free=free, limit=1, ttl=QUARTER, generation=generation):
            settled = settle_on_newest(claim, invariant, house.clock.now)
            missed += settled.missed
            following = next_due(invariant.schedule, claim.invariant, claim.database, settled.due_at)
            house.save(house.finished(settled, next_due=following))
            runs.append(settled.due_at)
        house.clock.forward(QUARTER)
    days = [one.astimezone(ZoneInfo("Europe/Berlin")).date() for one in runs if one >= start]
    assert len(days) == 3
    assert len(set(days)) == 3
    assert missed == 0
