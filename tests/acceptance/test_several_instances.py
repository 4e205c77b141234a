"""Several real instances on one store: each due time is recorded once, and each message is sent once (semantics 8.1, 8.3).

Cases 124 and 125 are played here, on a PostgreSQL store and on one SQLite file.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from casebook import case
from holdtrue.store import Store, open_store
from servers.service import Serving, until
from servers.slack import TOKEN, SlackStub

_numbers = itertools.count(1)


@pytest.fixture(params=["postgresql", "sqlite"])
def store_url(request, postgres_primary, tmp_path):
    """An empty store of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    name = f"store_{next(_numbers)}_{tmp_path.name.lower().replace('-', '_')[:30]}"
    postgres_primary.create_database(name)
    yield postgres_primary.url(name)
    postgres_primary.drop_database(name)


@pytest.fixture
def slack():
    with SlackStub() as stub:
        yield stub


def a_folder(folder: Path, slack: SlackStub, *, sql: str, every: str) -> Path:
    """A catalog of one invariant on one replica."""
    (folder / "invariants").mkdir()
    (folder / "holdtrue.yaml").write_text(
        f"""version: 1
store: {{url: "${{STORE_URL}}"}}
databases:
  payments:
    dialect: postgresql
    replicas: [{{name: r1, url: "${{DATABASE_URL}}"}}]
notifiers:
  oncall: {{kind: slack, channel: "#on-call", token: "${{SLACK_TOKEN}}", api_url: "{slack.base_url}"}}
"""
    )
    (folder / "invariants" / "one.yaml").write_text(
        f"""version: 1
invariants:
  - name: once_only
    database: payments
    interval: {every}
    timeout: 20s
    key: [id]
    columns: {{id: safe}}
    sql: {sql}
"""
    )
    return folder


def an_environment(store_url: str, database_url: str, *, lease: str) -> dict[str, str]:
    """What the instances are told; they look often and hold leases briefly, so that the test need not wait long."""
    return {
        "STORE_URL": store_url,
        "DATABASE_URL": database_url,
        "SLACK_TOKEN": TOKEN,
        "HOLDTRUE_TICK": "200ms",
        "HOLDTRUE_LEASE_TTL": lease,
    }


def runs_of(store: Store) -> list:
    """Every recorded run, oldest first."""
    return sorted(store.reads.runs("once_only", "payments", limit=500), key=lambda one: one.due_at)


def samples(metrics: str) -> dict[str, float]:
    """The per-invariant series of one scrape."""
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.labels.get("invariant") == "once_only"
    }


def test_four_instances_make_one_run_of_each_due_time_and_send_one_message(
    store_url, postgres_database, slack, tmp_path
):
    """Cases 124 and 125; semantics 8.1, 10."""
    played, scraped = case("124"), case("125")
    assert (played.expect["count"], scraped.expect["count"]) == (1, 1)
    postgres_database.execute(played.setup_sql("postgresql"))
    folder = a_folder(tmp_path, slack, sql=played.sql("postgresql"), every="1s")
    env = an_environment(store_url, postgres_database.standby_url, lease="3s")
    with contextlib.ExitStack() as stack:
        instances = [stack.enter_context(Serving(folder, env)) for _ in range(4)]
        for one in instances:
            one.until_serving()
        store = stack.enter_context(contextlib.closing(open_store(store_url)))
        until(lambda: len(runs_of(store)) >= 5, "five runs")

        scrapes = [samples(instances[n % 4].get("/metrics").text) for n in range(20)]
        steady = [
            {name: value for name, value in one.items() if name != "holdtrue_last_good_run_timestamp_seconds"}
            for one in scrapes
        ]
        assert all(one["holdtrue_violations"] == 1 and one["holdtrue_firing"] == 1 for one in steady)
        assert all(one["holdtrue_unknown"] == 0 and one["holdtrue_interval_seconds"] == 1 for one in steady)

        busiest = Counter(run.instance for run in runs_of(store)).most_common(1)[0][0]
        active = next(one for one in instances if busiest in one.log)
        active.kill()
        killed_at = store.now()
        after = until(
            lambda: [one for one in runs_of(store) if one.started_at > killed_at and one.instance != busiest],
            "a standby has taken over",
        )
        assert (after[0].started_at - killed_at).total_seconds() < 10

        slack.wait_until(lambda stub: len(stub.conversation()) == 1)
        for one in instances:
            one.stop()
        recorded = runs_of(store)
        dues = [one.due_at for one in recorded]
        assert len(set(dues)) == len(dues)
        assert {one.counted for one in recorded if one.good} == {1}
        assert len(slack.conversation()) == 1


def test_an_instance_that_was_frozen_past_its_lease_changes_nothing_when_it_wakes(
    store_url, postgres_database, slack, tmp_path
):
    """Semantics 8.1: results count only under the current token. The run is under way on the server when it freezes."""
    postgres_database.execute(
        [
            "CREATE TABLE t(id int)",
            "INSERT INTO t VALUES (1)",
            "CREATE TABLE wait(seconds float)",
            "INSERT INTO wait VALUES (3)",
        ]
    )
    sql = "SELECT id FROM t, (SELECT pg_sleep((SELECT max(seconds) FROM wait))) AS slept"
    folder = a_folder(tmp_path, slack, sql=sql, every="2s")
    env = an_environment(store_url, postgres_database.standby_url, lease="2s")
    asking = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdtrue %' AND state = 'active'"
        " AND query LIKE '%pg_sleep%'"
    )
    with contextlib.ExitStack() as stack:
        frozen = stack.enter_context(Serving(folder, env)).until_serving()
        until(lambda: postgres_database.replica.value(asking) == 1, "the run is under way")
        frozen.pause()
        postgres_database.execute("UPDATE wait SET seconds = 0")
        store = stack.enter_context(contextlib.closing(open_store(store_url)))
        other = stack.enter_context(Serving(folder, env)).until_serving()
        until(lambda: len(runs_of(store)) >= 3, "the other instance has taken over")
        names = {one.instance for one in runs_of(store)}
        frozen.resume()
        dropped = frozen.wait_for_event("run_dropped")
        assert dropped["why"] == "lost lease"
        until(lambda: {one.instance for one in runs_of(store)} != names or len(runs_of(store)) >= 6, "life goes on")
        other.stop()
        frozen.stop()
        recorded = runs_of(store)
        dues = [one.due_at for one in recorded]
        assert len(set(dues)) == len(dues)
        assert slack.conversation()
        assert len(slack.conversation()) == 1
