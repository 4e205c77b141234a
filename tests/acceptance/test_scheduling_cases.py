"""The field's cases about schedules, on a real `holdtrue serve`: late runs, long runs, runs that wait for a lock."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import casebook
from servers.postgres import FreshDatabase
from servers.service import Serving, until

CONFIG = {
    "version": 1,
    "store": {"url": "sqlite:///store.db"},
    "databases": {
        casebook.DATABASE: {
            "dialect": "postgresql",
            "replicas": [{"name": "r1", "url": "${DATABASE_URL}"}],
            "allow_primary": True,
            "concurrency": 1,
        }
    },
}


class Scene:
    """A folder with these invariants, and a service that asks them on one place."""

    def __init__(self, folder: Path, database: FreshDatabase) -> None:
        self.folder = folder
        self.env = {"DATABASE_URL": database.primary_url}
        (folder / "invariants").mkdir()
        (folder / "holdtrue.yaml").write_text(json.dumps(CONFIG))

    def serve(self, *invariants: dict[str, Any]) -> Serving:
        (self.folder / "invariants" / "all.yaml").write_text(json.dumps({"version": 1, "invariants": invariants}))
        return Serving(self.folder, self.env)


@pytest.fixture
def scene(tmp_path: Path, postgres_database: FreshDatabase) -> Scene:
    return Scene(tmp_path, postgres_database)


def runs(serving: Serving, name: str) -> list[dict[str, Any]]:
    """Its runs and skipped spans, the oldest first."""
    return list(reversed(serving.json(f"/api/v1/invariants/{name}/runs?limit=200")["runs"]))


def grid(found: list[dict[str, Any]], every: timedelta) -> tuple[int, int]:
    """How many due times lie between the first and the last run, and how many of them were run or are said to be missed."""
    times = [datetime.fromisoformat(one["due_at"]) for one in found]
    return round((max(times) - min(times)) / every) + 1, sum(one["missed"] or 1 for one in found)


def test_case_084_a_late_run_is_made_once_and_what_was_missed_is_recorded(
    scene: Scene, postgres_database: FreshDatabase
) -> None:
    """Semantics 2.5: every thread is taken for a while; no due time is lost without a word, none is run twice."""
    late = casebook.case("084").invariant(interval="1s", timeout="30s")
    blocker = {"name": "blocker", "database": casebook.DATABASE, "interval": "1h", "timeout": "30s"}
    blocker["sql"] = "SELECT 1 AS id FROM pg_sleep(5)"
    with scene.serve(late, blocker) as serving:
        serving.until_serving()
        until(lambda: runs(serving, "blocker"), "the blocker has ended")
        seen = until(
            lambda: (
                (found := runs(serving, "late"))
                and any(one["outcome"] == "skipped" for one in found)
                and found[-1]["outcome"] == "held"
                and found
            ),
            "the late one has run again, and says what it missed",
        )
        assert {one["outcome"] for one in seen} == {"held", "skipped"}
        assert {one["failure"]["reason"] for one in seen if one["outcome"] == "skipped"} == {"missed"}
        due, accounted = grid(seen, timedelta(seconds=1))
        assert due == accounted
        metrics = serving.get("/metrics").text
        assert 'outcome="skipped"' in metrics or "missed" in metrics


def test_case_085_a_run_that_takes_longer_than_its_interval_is_not_overtaken_and_its_age_grows(
    scene: Scene, postgres_database: FreshDatabase
) -> None:
    """Semantics 2.5 and 6: skipped slots are in the history, one session asks, and what is known gets older in sight."""
    slow = casebook.case("085").invariant(interval="1s", timeout="60s", sql="SELECT 1 AS id FROM pg_sleep(4)")
    asking = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdtrue%' AND query LIKE '%pg_sleep(4)%'"
    )
    asking += " AND state = 'active' AND datname = current_database()"
    most = 0
    with scene.serve(slow) as serving:
        serving.until_serving()

        def skipped() -> list[dict[str, Any]]:
            nonlocal most
            most = max(most, postgres_database.value(asking))
            found = runs(serving, "overlap")
            return found if sum(one["missed"] for one in found) >= 3 else []

        found = until(skipped, "three due times were skipped")
        assert most == 1
        assert {one["outcome"] for one in found} == {"violated", "skipped"}
        last_good = re.search(
            r"^holdtrue_last_good_run_timestamp_seconds\{[^}]*overlap[^}]*\} (\S+)$", serving.get("/metrics").text, re.M
        )
        assert last_good is not None
        entry = serving.json("/api/v1/overview")["entries"][0]
        assert entry["verdict"]["word"] == "violated"


def test_case_049_runs_do_not_pile_up_behind_a_lock(scene: Scene, postgres_database: FreshDatabase) -> None:
    """However long a migration holds its lock: at most one session of ours waits, and afterwards the next run holds."""
    case = casebook.case("049")
    postgres_database.execute(case.setup_sql("postgresql"))
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdtrue%' AND wait_event_type = 'Lock'"
    )
    waiting += " AND datname = current_database()"
    most = 0
    with scene.serve(case.invariant(interval="1s", timeout="2s", columns=None)) as serving:
        serving.until_serving()
        until(lambda: [one for one in runs(serving, "hot_rows") if one["outcome"] == "held"], "it holds")
        with postgres_database.connect(autocommit=False) as migration:
            migration.execute("LOCK TABLE hot IN ACCESS EXCLUSIVE MODE")

            def enough() -> bool:
                nonlocal most
                most = max(most, postgres_database.value(waiting))
                return sum(one["outcome"] == "errored" for one in runs(serving, "hot_rows")) >= 4

            until(enough, "four runs have waited for the lock")
            migration.rollback()
        until(lambda: runs(serving, "hot_rows")[-1]["outcome"] == "held", "the next run holds")
        errored = [one for one in runs(serving, "hot_rows") if one["outcome"] == "errored"]
        assert {one["failure"]["reason"] for one in errored} == {"lock wait"}
        assert most == 1
