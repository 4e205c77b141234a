"""The field's cases about alerts, Slack, metrics and exports, played on one real `holdtrue serve`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from casebook import Case, case
from servers.place import CONFIG, Place, entries
from servers.postgres import FreshDatabase
from servers.service import Serving, until
from servers.slack import TOKEN, SlackStub


@pytest.fixture
def slack() -> Iterator[SlackStub]:
    with SlackStub() as stub:
        yield stub


@pytest.fixture
def place(tmp_path: Path, postgres_database: FreshDatabase, slack: SlackStub) -> Place:
    (tmp_path / "invariants").mkdir()
    (tmp_path / "holdtrue.yaml").write_text(CONFIG.format(store="sqlite:///store.db", slack=slack.base_url))
    return Place(tmp_path, {"DATABASE_URL": postgres_database.primary_url, "SLACK_TOKEN": TOKEN})


def write(place: Place, *invariants: dict[str, Any]) -> None:
    """Invariants asked once an hour: what follows is asked for."""
    said = [{**one, "database": "payments", "interval": "1h"} for one in invariants]
    (place.folder / "invariants" / "all.yaml").write_text(json.dumps({"version": 1, "invariants": said}))


def set_up(played: Case, database: FreshDatabase) -> None:
    database.execute(list(played.setup_sql("postgresql")))


def run_again(serving: Serving, name: str) -> dict[str, Any]:
    """Ask for one run and give it once it is recorded, the newest of the invariant."""
    before = len(runs(serving, name))
    answer = httpx2.post(
        serving.url + "/api/v1/runs",
        json={"invariant": name, "database": "payments"},
        headers={"Sec-Fetch-Site": "same-origin"},
        timeout=10,
    )
    assert answer.status_code == 202, answer.text
    return until(lambda: len(found := runs(serving, name)) > before and found, f"one more run of {name}")[0]


def runs(serving: Serving, name: str) -> list[dict[str, Any]]:
    return serving.json(f"/api/v1/invariants/{name}/runs")["runs"]


def test_case_092_an_error_between_two_violations_tells_nobody_that_it_is_over(
    place: Place, slack: SlackStub, postgres_database: FreshDatabase
) -> None:
    """Semantics 7.2: one alert, failing health at once, nothing resolved, no second first alert."""
    played = case("092")
    set_up(played, postgres_database)
    write(place, played.invariant())
    with place.serve() as serving:
        first = until(lambda: entries(serving)["gate_open"]["alert"], "the alert opens")
        slack.wait_until(lambda stub: len(stub.conversation()) == 1)
        postgres_database.execute(["ALTER TABLE gate RENAME TO gate_x"])
        assert run_again(serving, "gate_open")["outcome"] == "errored"
        line = entries(serving)["gate_open"]
        assert (line["health"], line["verdict"]["word"], line["verdict"]["firing"]) == ("failing", "violated", True)
        assert line["alert"] == first
        postgres_database.execute(["ALTER TABLE gate_x RENAME TO gate"])
        assert run_again(serving, "gate_open")["outcome"] == "violated"
        line = entries(serving)["gate_open"]
        assert (line["health"], line["alert"]) == ("ok", first)
        events = serving.json(f"/api/v1/alerts/{first}")["events"]
        assert [one["reason"] for one in events if one["reason"]] == ["fired"]
    assert len(slack.conversation()) == 1
    assert "resolved" not in slack.screen().lower()


def test_case_093_twenty_equal_runs_are_one_message(
    place: Place, slack: SlackStub, postgres_database: FreshDatabase
) -> None:
    """Semantics 7.2 and 7.4: told when it opens, when it grows, when it ends, and not once more."""
    played = case("093")
    set_up(played, postgres_database)
    write(place, played.invariant())
    with place.serve() as serving:
        number = until(lambda: entries(serving)["same_again"]["alert"], "the alert opens")
        for _ in range(20):
            assert run_again(serving, "same_again")["counted"] == 1
        postgres_database.execute(["INSERT INTO t SELECT generate_series(2, 101)"])
        assert run_again(serving, "same_again")["counted"] == 101
        slack.wait_until(lambda stub: len(stub.replies(stub.conversation()[0])) == 1)
        postgres_database.execute(["DELETE FROM t"])
        assert run_again(serving, "same_again")["outcome"] == "held"
        events = serving.json(f"/api/v1/alerts/{number}")["events"]
        assert [one["reason"] for one in events if one["reason"]] == ["fired", "worsened", "resolved"]
        slack.wait_until(lambda stub: "resolved" in stub.screen().lower())
    assert len(slack.conversation()) == 1
    assert len(slack.replies(slack.conversation()[0])) == 2


def test_case_113_an_invariant_that_cannot_look_has_no_value_and_says_so(
    place: Place, postgres_database: FreshDatabase
) -> None:
    """Semantics 10: absent, never 0; `unknown` tells which."""
    played = case("113")
    write(place, played.invariant())
    with place.serve() as serving:
        until(
            lambda: entries(serving)["first_run_error"]["health"] == "never" and runs(serving, "first_run_error"),
            "it fails",
        )
        ours = [line for line in serving.get("/metrics").text.splitlines() if 'invariant="first_run_error"' in line]
        named = {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in ours}
        assert "holdtrue_violations" not in named
        assert (named["holdtrue_unknown"], named["holdtrue_firing"]) == (1, 0)


def test_cases_114_and_115_hostile_values_are_text_on_the_page_and_in_the_export(
    place: Place, postgres_database: FreshDatabase
) -> None:
    """Escaped in HTML; in CSV nothing begins a formula, and negative numbers stay numbers."""
    markup, forms = case("114"), case("115")
    for one in (markup, forms):
        set_up(one, postgres_database)
    write(place, markup.invariant(name="markup"), forms.invariant())
    with place.serve() as serving:
        alerts = until(
            lambda: (found := entries(serving))["markup"]["alert"] and found["form_values"]["alert"] and found,
            "both alerts open",
        )
        page = serving.get(f"/alerts/{alerts['markup']['alert']}").text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<img src=x" not in page
        assert "<script>alert" not in page
        assert ' onmouseover="alert' not in page
        text = serving.get(f"/alerts/{alerts['form_values']['alert']}/rows.csv").text
        rows = list(csv.reader(io.StringIO(text)))[1:]
        assert len(rows) == 5
        assert not any(row[1].startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows)
        assert [row[2] for row in rows] == ["-5", "1", "2", "3", "4"]
