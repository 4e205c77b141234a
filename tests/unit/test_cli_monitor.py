"""``holdtrue overview`` says above all verdicts that nobody asks, and that the files are not in force."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdtrue import reports
from holdtrue.cli.overview import lines
from holdtrue.store.records import InstanceRow, ReloadStatus

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def printed(*instances: InstanceRow) -> list[str]:
    return lines(reports.overview(None, 1, (), NOW, over_budget={}, instances=instances))


def seen(ago: timedelta, reload: ReloadStatus | None = None) -> InstanceRow:
    return InstanceRow("here:1", NOW - timedelta(days=1), NOW - ago, "1", reload)


def test_an_overview_says_first_that_no_instance_is_running_and_since_when() -> None:
    """semantics 6: a verdict ages, and until it is too old it says nothing of who asks."""
    assert printed(seen(timedelta(seconds=75)))[0].startswith(
        "monitor: no instance is running (the last one was seen 1m15s"
    )
    assert printed()[0].startswith("monitor: no instance is running (it was stopped, or never began)")
    assert not any("monitor" in one for one in printed(seen(timedelta(seconds=20)), seen(timedelta(hours=2))))


def test_an_overview_says_first_that_a_reload_was_refused_and_why() -> None:
    """semantics 1.3."""
    problems = tuple(f"invariants/a.yaml:{line}:5: error: unknown key \x1b[2J" for line in range(7))
    refused = ReloadStatus(NOW - timedelta(minutes=3), successful=False, problems=problems, generation=4)
    said = printed(seen(timedelta(seconds=5), refused))
    assert said[0] == "monitor: reload refused 3m ago: 7 problems; generation 4 stays in force"
    assert said[1] == "    invariants/a.yaml:0:5: error: unknown key \\x1b[2J"
    assert said[6] == "    … and 2 more"
    assert not any("reload" in one for one in printed(seen(timedelta(0)), seen(timedelta(hours=2), refused)))


def test_an_overview_of_an_older_service_says_nothing_of_instances() -> None:
    report = reports.overview(None, 1, (), NOW, over_budget={}, instances=())
    del report["monitor"]
    assert lines(report) == ["unknown: no invariant is in force, so nothing was looked at"]
