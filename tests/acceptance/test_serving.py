"""One real `holdtrue serve` process: it reloads all or nothing, stops within its grace, and answers its probes honestly."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from casebook import case
from servers.place import CONFIG, Place, entries
from servers.postgres import FreshDatabase, PostgresPrimary, started
from servers.service import Serving, holdtrue, until
from servers.slack import TOKEN, SlackStub


@pytest.fixture
def slack() -> Iterator[SlackStub]:
    with SlackStub() as stub:
        yield stub


@pytest.fixture
def place(tmp_path: Path, postgres_database: FreshDatabase, slack: SlackStub) -> Place:
    """One database with one row, a SQLite store, and Slack's stand-in."""
    postgres_database.execute(["CREATE TABLE t(id int)", "INSERT INTO t VALUES (1)"])
    (tmp_path / "invariants").mkdir()
    (tmp_path / "holdtrue.yaml").write_text(CONFIG.format(store="sqlite:///store.db", slack=slack.base_url))
    return Place(
        tmp_path, {"DATABASE_URL": postgres_database.primary_url, "SLACK_TOKEN": TOKEN, "HOLDTRUE_GRACE": "6s"}
    )


def test_a_reload_is_all_or_nothing_and_a_refused_one_is_visible(place: Place, slack: SlackStub) -> None:
    """Semantics 1.2, 1.3 and 10; case 108: what has left has no series, and its alert is withdrawn, never resolved."""
    assert case("108").expect["count"] == 1
    place.write(short_lived="SELECT id FROM t", lasting="SELECT id FROM t WHERE id < 0")
    with place.serve() as serving:
        until(lambda: entries(serving)["short_lived"]["alert"], "the alert opens")
        slack.wait_until(lambda stub: len(stub.conversation()) == 1)

        place.write(lasting="SELECT id FROM t WHERE id < 0; DELETE FROM t")
        os.kill(serving.process.pid, signal.SIGHUP)
        refused = serving.wait_for_event("catalog_refused")
        assert refused["at"].startswith("invariants/all.yaml:")
        assert set(entries(serving)) == {"short_lived", "lasting"}
        assert "holdtrue_catalog_last_reload_successful 0.0" in serving.get("/metrics").text
        page = serving.get("/catalog").text
        assert "all.yaml" in page
        assert "refused" in page.lower()

        place.write(lasting="SELECT id FROM t WHERE id < 0", fresh="SELECT id FROM t WHERE id < 0")
        answer = httpx2.post(serving.url + "/-/reload", headers={"Sec-Fetch-Site": "same-origin"}, timeout=10)
        assert answer.status_code == 200, answer.text
        assert set(entries(serving)) == {"lasting", "fresh"}
        metrics = serving.get("/metrics").text
        assert "holdtrue_catalog_last_reload_successful 1.0" in metrics
        assert 'invariant="short_lived"' not in metrics
        slack.wait_until(lambda stub: "withdrawn, not resolved" in stub.conversation()[0].seen.lower())
        until(lambda: entries(serving)["fresh"]["verdict"]["word"] == "holds", "the new one is looked at")


def test_a_refused_catalog_at_start_leaves_the_stored_generation_in_force(place: Place) -> None:
    """Semantics 1.3: visible and alerting; with none stored, exit 2."""
    place.write(broken="SELEC id FROM t")
    done = holdtrue("serve", "--listen", "127.0.0.1:0", cwd=place.folder, env=place.env)
    assert done.returncode == 2
    assert "all.yaml:3" in done.stderr
    place.write(lasting="SELECT id FROM t WHERE id < 0")
    with place.serve() as serving:
        until(lambda: entries(serving)["lasting"]["verdict"]["word"] == "holds", "it is looked at")
    place.write(lasting="SELECT id FROM t WHERE id < 0; DELETE FROM t")
    with place.serve() as serving:
        assert set(entries(serving)) == {"lasting"}
        assert "holdtrue_catalog_last_reload_successful 0.0" in serving.get("/metrics").text


def test_a_stop_cancels_the_statement_on_the_server_and_records_the_run_as_interrupted(
    place: Place, postgres_database: FreshDatabase
) -> None:
    """Case 128: gone within the grace, no backend left, and no good news."""
    assert case("128").expect["status"] == "error"
    place.write(long_one="SELECT 1 AS id FROM pg_sleep(300)")
    ours = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdtrue%' AND datname = current_database()"
    )
    with place.serve() as serving:
        until(lambda: postgres_database.value(ours + " AND state = 'active'") == 1, "the statement runs")
        assert serving.stop(timeout=20) == 0
    until(lambda: postgres_database.value(ours) == 0, "no backend is left", timeout=5)
    place.write(long_one="SELECT 1 AS id FROM pg_sleep(300)")
    done = holdtrue("history", "long_one", "--format", "json", cwd=place.folder, env=place.env)
    assert '"errored"' in done.stdout
    assert "interrupted" in done.stdout


def test_run_now_goes_through_the_claim_and_is_told_apart(place: Place) -> None:
    """Semantics 11.1: run-now is POST /api/v1/runs."""
    place.write(lasting="SELECT id FROM t WHERE id < 0")
    with place.serve() as serving:
        until(lambda: entries(serving)["lasting"]["verdict"]["word"] == "holds", "it is looked at")
        answer = httpx2.post(
            serving.url + "/api/v1/runs",
            json={"invariant": "lasting", "database": "payments"},
            headers={"Sec-Fetch-Site": "same-origin"},
            timeout=10,
        )
        assert answer.status_code == 202, answer.text
        kinds = until(
            lambda: (
                (found := [one["kind"] for one in serving.json("/api/v1/invariants/lasting/runs")["runs"]])
                and len(found) == 2
                and found
            ),
            "a second run",
        )
        assert sorted(kinds) == ["asked", "scheduled"]


def test_liveness_is_the_process_alone_and_readiness_the_store_alone(
    place: Place, postgres_database: FreshDatabase, slack: SlackStub
) -> None:
    """Case 129: a monitored database that is gone restarts nobody; a store that is gone makes us unready."""
    assert case("129").expect["status"] == "ok"
    with started() as own, started() as monitored:
        own.create_database("store")
        place.env["STORE_URL"] = own.url("store")
        place.env["DATABASE_URL"] = monitored.url()
        (place.folder / "holdtrue.yaml").write_text(CONFIG.format(store="${STORE_URL}", slack=slack.base_url))
        place.write(probe="SELECT 1 AS id FROM pg_class WHERE false")
        with place.serve() as serving:
            until(lambda: entries(serving)["probe"]["verdict"]["word"] == "holds", "it is looked at")
            monitored.stop()
            assert (serving.get("/healthz").status_code, serving.get("/readyz").status_code) == (200, 200)
            _without_its_store(own, serving)


def _without_its_store(own: PostgresPrimary, serving: Serving) -> None:
    own.stop()
    until(lambda: serving.get("/readyz").status_code == 503, "it is unready")
    assert serving.get("/healthz").status_code == 200
    metrics = serving.get("/metrics").text
    assert "holdtrue_store_up 0.0" in metrics
    assert 'holdtrue_firing{database="payments",invariant="probe"' not in metrics
    own.start()
    until(lambda: serving.get("/readyz").status_code == 200, "it is ready again")
    assert "holdtrue_store_up 1.0" in serving.get("/metrics").text
