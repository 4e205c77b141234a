"""The dashboard's pages, over a real store."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from holdtrue.cli.overview import lines
from holdtrue.model import Failure, FailureReason, Policy, Undelivered
from scenes import COULD_NOT_LOOK, Found, Scene, catalog_of, invariant
from scenes.reading import Texts
from scenes.refunds import REFUNDS
from scenes.seeing import OURS, THREE, fresh, names, number_of_firing, see, tones
from scenes.serving import Calls, client_of, client_over, form_token_of, web_service


@pytest.fixture
def client(shared: tuple[Scene, Calls, FastAPI]) -> TestClient:
    return client_over(shared[2], accept="text/html")


class TestOverview:
    def test_the_worst_comes_first(self, client: TestClient) -> None:
        page = client.get("/").text
        assert tones(page) == ["firing", "pending", "unknown", "unknown", "holds"]
        assert names(page)[0] == REFUNDS
        assert "<h1>1 violated, 1 pending, 2 unknown</h1>" in page

    def test_every_verdict_shows_its_age(self, client: TestClient) -> None:
        """design 3.4."""
        rows = client.get("/").text.split('<tr role="row" class="')[1:]
        assert len(rows) == 5
        for row in rows:
            assert re.search(r"\d+[smhd][^<]* ago", row)

    @pytest.mark.parametrize(
        ("query", "wanted"),
        [
            ("state=firing", [REFUNDS]),
            ("state=unknown", ["no_job_left_in_progress", "every_receipt_has_an_invoice_row"]),
            ("q=refund", [REFUNDS]),
            ("q=PLATFORM+dead", ["no_job_left_in_progress"]),
            ("owner=platform&state=holds", ["every_receipt_has_an_invoice_row"]),
            ("severity=critical", [REFUNDS, "balance_equals_ledger"]),
            ("database=archive", ["every_receipt_has_an_invoice_row"]),
            ("tag=money", [REFUNDS]),
            ("q=nothing+like+it", []),
        ],
    )
    def test_filters_live_in_the_url(self, client: TestClient, query: str, wanted: list[str]) -> None:
        page = client.get(f"/?{query}").text
        assert names(page) == wanted
        assert ("No invariant matches" in page) == (not wanted)

    def test_the_headline_counts_all_whatever_is_filtered(self, client: TestClient) -> None:
        """A filter must not calm anybody."""
        assert "<h1>1 violated, 1 pending, 2 unknown</h1>" in client.get("/?state=holds").text

    def test_what_never_looked_is_unknown_and_not_green(self, tmp_path: Path) -> None:
        page = see(fresh(tmp_path))
        assert tones(page) == ["unknown"]
        assert "never looked" in page
        assert "Nothing is seen violated, but 1 unknown" in page

    def test_what_held_too_long_ago_is_unknown(self, tmp_path: Path) -> None:
        """semantics 0: good news expires."""
        scene = fresh(tmp_path)
        scene.look({})
        assert tones(see(scene)) == ["holds"]
        scene.pass_time(timedelta(hours=3))
        assert tones(see(scene)) == ["unknown"]

    def test_a_violation_out_of_sight_stays_red(self, tmp_path: Path) -> None:
        """semantics 6."""
        scene = fresh(tmp_path)
        scene.look({("refunds", "payments"): THREE})
        scene.pass_time(timedelta(hours=3))
        page = see(scene)
        assert tones(page) == ["firing"]
        assert "not seen since" in page

    def test_a_pending_violation_out_of_sight_becomes_red_too(self, tmp_path: Path) -> None:
        """semantics 6: stays red."""
        scene = fresh(tmp_path, policy=Policy(fire_after=3))
        scene.look({("refunds", "payments"): THREE})
        assert tones(see(scene)) == ["pending"]
        scene.pass_time(timedelta(hours=3))
        assert tones(see(scene)) == ["firing"]

    def test_an_alert_that_waits_for_more_good_runs_is_not_green(self, tmp_path: Path) -> None:
        """semantics 7.2."""
        scene = fresh(tmp_path, policy=Policy(resolve_after=3))
        scene.look({("refunds", "payments"): THREE})
        scene.pass_time()
        scene.look({})
        page = see(scene)
        assert tones(page) == ["firing"]
        assert "still firing" in page

    def test_what_holds_while_the_last_try_failed_says_so(self, tmp_path: Path) -> None:
        """semantics 6."""
        scene = fresh(tmp_path)
        scene.look({})
        scene.pass_time()
        scene.look({("refunds", "payments"): COULD_NOT_LOOK})
        page = see(scene)
        assert tones(page) == ["holds"]
        assert page.count("last try failed") == 1

    def test_tolerated_rows_stand_beside_the_word(self, tmp_path: Path) -> None:
        """semantics 6."""
        scene = fresh(tmp_path, policy=Policy(tolerate=5))
        scene.look({("refunds", "payments"): THREE})
        page = see(scene)
        assert tones(page) == ["holds"]
        assert "3 tolerated" in page

    def test_no_instance_running_is_the_monitors_own_bad_news(self, tmp_path: Path) -> None:
        scene = fresh(tmp_path)
        scene.look({})
        assert "none running" in see(scene)
        scene.beat()
        assert "1 running" in see(scene)
        scene.pass_time(timedelta(minutes=3))
        assert "none running" in see(scene)

    def test_a_refused_reload_and_overdue_work_are_on_the_same_screen(self, tmp_path: Path) -> None:
        """semantics 1.3."""
        scene = fresh(tmp_path)
        scene.pass_time(timedelta(minutes=5))
        scene.beat(problems=("invariants/a.yaml:3:5: error: unknown key",))
        page = see(scene)
        assert "reload refused" in page
        assert "1 overdue" in page
        assert "invariants/a.yaml:3:5: error: unknown key" in see(scene, "/catalog")

    def test_messages_that_do_not_arrive_are_on_the_same_screen(self, tmp_path: Path) -> None:
        scene = fresh(tmp_path)
        scene.look({("refunds", "payments"): THREE})
        scene.deliver(Undelivered("Slack answered 500"), retry_after=timedelta(minutes=1))
        scene.pass_time(timedelta(minutes=2))
        assert "1 not sent yet" in see(scene)
        assert "Slack answered 500" in see(scene, "/deliveries")
        assert "cannot edit the former ones" in see(scene, "/deliveries")
        scene.deliver(Undelivered("Slack says channel_not_found", permanent=True))
        assert "1 given up" in see(scene)

    def test_a_message_that_is_days_old_when_it_is_given_up_is_on_the_same_screen(self, tmp_path: Path) -> None:
        """Semantics 7.3: for a day from then on, with what it was and why."""
        scene = fresh(tmp_path)
        scene.look({("refunds", "payments"): THREE})
        scene.pass_time(timedelta(days=3))
        scene.deliver(Undelivered("Slack says invalid_auth"))
        scene.pass_time(timedelta(hours=23))
        page = see(scene)
        assert "1 given up" in page
        assert "fired of alert 1 to oncall: Slack says invalid_auth" in page
        api = client_of(web_service(scene), **OURS)
        (told,) = [api.get("/api/v1/overview").json()["given_up"]]
        assert (told["messages"], told["within_seconds"]) == (1, 86400)
        assert (told["newest"]["alert"], told["newest"]["notifier"], told["newest"]["reason"]) == (1, "oncall", "fired")
        (line,) = [one for one in lines(api.get("/api/v1/overview").json()) if one.startswith("messages: ")]
        assert line == f"messages: {told['sentence']}"
        assert told["sentence"] == (
            "1 given up in the last 1d, the newest 23h ago: fired of alert 1 to oncall: Slack says invalid_auth"
        )
        scene.pass_time(timedelta(hours=2))
        assert "given up" not in see(scene)
        assert api.get("/api/v1/overview").json()["given_up"]["messages"] == 0

    def test_a_long_list_comes_in_pages(self, tmp_path: Path) -> None:
        scene = Scene(tmp_path)
        scene.install(catalog_of([invariant(f"i_{number:03}") for number in range(130)]))
        first = see(scene)
        assert len(names(first)) == 100
        following = re.search(r'href="([^"]+)" rel="next"', first)
        assert following is not None
        second = see(scene, following.group(1))
        assert sorted(names(first) + names(second)) == [f"i_{number:03}" for number in range(130)]

    def test_an_empty_catalog_is_no_good_news(self, tmp_path: Path) -> None:
        scene = Scene(tmp_path)
        page = see(scene)
        assert "No invariant is being asked" in page
        assert "none in force" in page


class TestInvariant:
    def test_it_shows_text_chart_rows_and_runs(self, client: TestClient) -> None:
        page = client.get(f"/invariants/{REFUNDS}").text
        shown = Texts(page)
        assert "HAVING count(*) > 1" in shown.text
        assert "Assumed, not proven" in shown.text
        assert "0/3A000" in shown.text
        assert "r1 (standby)" in shown.text
        assert [tag for tag, _ in shown.tags].count("title") > 3
        assert 'fill="url(#hatch-unknown)"' in page

    def test_time_that_nobody_looked_at_has_no_height(self, client: TestClient) -> None:
        """design: gaps are drawn as gaps, never as 0."""
        page = client.get("/invariants/no_job_left_in_progress").text
        chart = page.split('class="plot"')[1].split("</svg>")[0]
        assert chart.count('class="unknown"') == 3
        assert chart.count('class="step"') == 2

    def test_the_chart_has_a_table_that_says_the_same(self, client: TestClient) -> None:
        page = client.get(f"/invariants/{REFUNDS}").text
        table = page.split('id="chart-table"')[1].split("</details>")[0]
        assert "unknown: nobody looked" in table
        assert table.count("<tr>") == 7

    @pytest.mark.parametrize("name", ["1h", "24h", "7d", "30d", "90d", "1y", "nonsense"])
    def test_every_range_can_be_asked(self, client: TestClient, name: str) -> None:
        assert client.get(f"/invariants/{REFUNDS}?range={name}").status_code == 200

    def test_a_run_that_could_not_look_shows_no_count(self, client: TestClient) -> None:
        runs = client.get("/invariants/no_job_left_in_progress").text.split('class="data runs"')[1]
        first = runs.split("<tbody>")[1].split("</tr>")[0]
        assert "errored" in first
        assert "4m behind" in first
        assert '<td class="num">—</td>' in first

    def test_older_runs_are_a_page_away(self, client: TestClient) -> None:
        page = client.get(f"/invariants/{REFUNDS}").text
        older = re.search(r'href="([^"]+)">Older runs', page)
        assert older is not None
        assert "03:15:00 UTC" not in page.split('id="runs"')[1]
        third = client.get(older.group(1).replace("&amp;", "&")).text
        assert "03:15:00 UTC" in third.split('id="runs"')[1]

    def test_each_database_has_its_own_page(self, client: TestClient) -> None:
        path = "/invariants/every_receipt_has_an_invoice_row?database="
        assert "head holds" in client.get(path + "payments").text
        assert "head unknown" in client.get(path + "archive").text
        assert client.get(path + "elsewhere").status_code == 404

    def test_looking_now_is_asked_of_the_claim(self, client: TestClient, tmp_path: Path) -> None:
        """semantics 11.1."""
        scene, calls = fresh(tmp_path), Calls()
        own = client_of(web_service(scene, calls), accept="text/html")
        token = form_token_of(own.get("/invariants/refunds").text)
        answer = own.post("/invariants/refunds/run", data={"database": "payments", "form_token": token}, headers=OURS)
        assert answer.status_code == 303
        assert "It is due now" in own.get(answer.headers["location"]).text
        assert calls.runs == [("refunds", "payments", "loopback")]

    def test_a_dangerous_runbook_is_no_link(self, tmp_path: Path) -> None:
        scene = fresh(tmp_path, runbook_url="javascript:alert(1)", links=(("board", "data:text/html,x"),))
        page = see(scene, "/invariants/refunds")
        assert "javascript:" not in page
        assert "data:text" not in page

    def test_rows_cut_short_say_at_least(self, tmp_path: Path) -> None:
        """semantics 3.4."""
        scene = fresh(tmp_path)
        cut = Found((("1",),), count=1000, complete=False, failure=Failure(FailureReason.TIMEOUT, "stopped after 10s"))
        scene.look({("refunds", "payments"): cut})
        page = see(scene, "/invariants/refunds")
        assert "at least 1000" in page
        assert "≥ 1\u202f000" in page
        assert "≥ 1\u202f000" in see(scene)


def test_no_page_and_no_endpoint_opens_a_connection_to_a_monitored_database(
    client: TestClient, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design 4: pages read the store alone. Every connection of this process is watched while all of them are asked."""
    opened: list[object] = []
    watching = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event in ("socket.connect", "socket.getaddrinfo", "sqlite3.connect"):
            opened.append(arguments[0] if event == "sqlite3.connect" else arguments[-1])

    sys.addaudithook(hook)
    try:
        number = number_of_firing(scene)
        for path in (
            "/",
            "/alerts",
            f"/alerts/{number}",
            f"/alerts/{number}/promote",
            f"/alerts/{number}/rows.csv",
            f"/invariants/{REFUNDS}",
            "/catalog",
            "/databases",
            "/deliveries",
            "/healthz",
            "/readyz",
            "/metrics",
            "/api/v1/overview",
            "/api/v1/invariants",
            f"/api/v1/invariants/{REFUNDS}",
            f"/api/v1/invariants/{REFUNDS}/runs",
            f"/api/v1/invariants/{REFUNDS}/counts",
            f"/api/v1/invariants/{REFUNDS}/keys",
            f"/api/v1/invariants/{REFUNDS}/databases/payments/history",
            "/api/v1/alerts",
            f"/api/v1/alerts/{number}",
            "/api/v1/databases",
            "/api/v1/instances",
            "/api/v1/catalog",
            "/api/v1/deliveries",
        ):
            assert client.get(path).status_code == 200, path
        assert client.post("/api/v1/runs", json={"invariant": REFUNDS}, headers=OURS).status_code == 202
    finally:
        watching = False
    assert [one for one in opened if not str(one).endswith("store.db")] == []


def test_the_web_imports_nothing_that_reaches_a_monitored_database() -> None:
    """design 4: web never imports databases, also not by way of another module."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, holdtrue.web; print([one for one in sys.modules if one.startswith('holdtrue.databases')])",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"
