"""The dashboard's pages, over a real store."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
import zipfile
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from holdtrue.errors import PromotionRefused
from holdtrue.model import Delivered, Failure, FailureReason, Policy, Settle, Undelivered
from holdtrue.web import create_app
from scenes import (
    COULD_NOT_LOOK,
    EVERY,
    REFUNDS,
    Found,
    Scene,
    catalog_of,
    invariant,
    refunds_world,
)
from scenes.serving import FILES, Calls, client_of, client_over, form_token_of, web_service

OURS = {"origin": "http://127.0.0.1:8080"}
THREE = Found((("1",), ("2",), ("3",)), new=2, known=1)

HOSTILE = (
    "<script>alert(1)</script>",
    '" onmouseover="alert(2)',
    "</script><img src=x onerror=alert(3)>",
    "{{ 7 * 7 }}{% raw %}",
    "pay\u202estnem",
    "&lt;already&gt;",
)


class Texts(HTMLParser):
    """What a page shows, and every tag with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.tags = "", []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Calls, FastAPI]:
    """The refunds service on a bad morning; only looked at."""
    scene, calls = refunds_world(tmp_path_factory.mktemp("world")), Calls()
    return scene, calls, create_app(web_service(scene, calls))


@pytest.fixture
def scene(shared: tuple[Scene, Calls, FastAPI]) -> Scene:
    return shared[0]


@pytest.fixture
def calls(shared: tuple[Scene, Calls, FastAPI]) -> Calls:
    shared[1].forget()
    return shared[1]


@pytest.fixture
def client(shared: tuple[Scene, Calls, FastAPI]) -> TestClient:
    return client_over(shared[2], accept="text/html")


def fresh(tmp_path: Path, **more: object) -> Scene:
    """One invariant, never looked at."""
    made = Scene(tmp_path)
    made.install(catalog_of([invariant("refunds", **more)]))
    return made


def see(scene: Scene, path: str = "/") -> str:
    """A page of a scene as HTML."""
    answer = client_of(web_service(scene), accept="text/html").get(path)
    assert answer.status_code == 200
    return answer.text


def tones(page: str) -> list[str]:
    """The tone of each line of the overview, from above."""
    return re.findall(r'<tr role="row" class="(\w+)">', page)


def names(page: str) -> list[str]:
    return re.findall(r'<a class="name" href="[^"]*">(\w+)</a>', page)


def number_of_firing(scene: Scene) -> int:
    return scene.store.alerts.find_open(REFUNDS)[0].id


class TestOverview:
    def test_the_worst_comes_first(self, client: TestClient) -> None:
        page = client.get("/").text
        assert tones(page) == ["firing", "pending", "unknown", "unknown", "holds", "holds"]
        assert names(page)[0] == REFUNDS
        assert "<h1>1 violated, 1 pending, 2 unknown</h1>" in page

    def test_every_verdict_shows_its_age(self, client: TestClient) -> None:
        """design 3.4."""
        rows = client.get("/").text.split('<tr role="row" class="')[1:]
        assert len(rows) == 6
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
        scene.deliver(Undelivered("Slack says channel_not_found", permanent=True))
        assert "1 given up" in see(scene)

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

    @pytest.mark.parametrize("name", ["24h", "7d", "30d", "90d", "1y", "nonsense"])
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


class TestAlerts:
    def test_open_ones_come_first_and_violations_before_silence(self, client: TestClient) -> None:
        page = client.get("/alerts").text
        open_, ended = page.split('id="ended"')
        assert re.findall(r"<span>(firing|pending|unchecked)</span>", open_) == [
            "firing",
            "pending",
            "unchecked",
            "unchecked",
        ]
        assert re.findall(r"<span>(recovered|resolved)</span>", ended) == ["recovered", "resolved"]

    def test_filters_live_in_the_url(self, client: TestClient) -> None:
        page = client.get("/alerts?q=refund&owner=payments-oncall").text
        assert "balance_equals_ledger" not in page
        assert REFUNDS in page

    def test_one_shows_rows_timeline_evidence_and_the_way_to_promote(self, client: TestClient, scene: Scene) -> None:
        number = number_of_firing(scene)
        shown = Texts(client.get(f"/alerts/{number}").text).text
        for wanted in (
            "dsp_77",
            "h:098f6bcd46",
            "worsened",
            "from 1 to 3",
            "oncall: sent",
            "transaction 815, committed 11:12:02.000",
            "not there at 2026-11-29 11:00:00 UTC",
            f"holdtrue promote {number}",
        ):
            assert wanted in shown

    def test_a_health_alert_is_purple_and_cannot_be_promoted(self, client: TestClient, scene: Scene) -> None:
        """It is about our not knowing, not about rows."""
        number = next(one.id for one in scene.store.alerts.list(open_only=True) if one.subject.value == "health")
        page = client.get(f"/alerts/{number}").text
        assert "head unknown" in page
        assert "Promote" not in page

    def test_an_end_that_is_no_fix_is_not_green(self, tmp_path: Path) -> None:
        """semantics 1.2."""
        scene = fresh(tmp_path)
        scene.look({("refunds", "payments"): THREE})
        number = scene.store.alerts.find_open("refunds")[0].id
        scene.install(catalog_of([invariant("others")]))
        page = see(scene, f"/alerts/{number}")
        assert "withdrawn" in page
        assert "head unknown" in page
        assert "This is not a fix" in page
        assert f"/alerts/{number}" in see(scene, "/catalog").split('id="withdrawn"')[1]

    def test_there_is_no_such_alert(self, client: TestClient) -> None:
        answer = client.get("/alerts/999999")
        assert answer.status_code == 404
        assert "text/html" in answer.headers["content-type"]


class TestPromoting:
    def test_the_preview_shows_exactly_the_files_and_records_nothing(
        self, client: TestClient, calls: Calls, scene: Scene
    ) -> None:
        """semantics 9.1."""
        number = number_of_firing(scene)
        shown = Texts(client.get(f"/alerts/{number}/promote").text)
        for path, text in FILES:
            assert path in shown.text
            assert text in shown.text
        assert calls.promotions == [(number, "loopback", True)]

    def test_the_button_makes_the_ticket_and_gives_its_files(
        self, client: TestClient, calls: Calls, scene: Scene
    ) -> None:
        number = number_of_firing(scene)
        token = form_token_of(client.get(f"/alerts/{number}/promote").text)
        answer = client.post(f"/alerts/{number}/promote", data={"form_token": token}, headers=OURS)
        assert answer.headers["content-type"] == "application/zip"
        assert calls.promotions[-1] == (number, "loopback", False)
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            found = {name: archive.read(name).decode() for name in archive.namelist()}
        assert found == {f"inc-{number}/{path}": text for path, text in FILES}

    def test_a_refusal_says_what_to_add(self, client: TestClient, calls: Calls, scene: Scene) -> None:
        """semantics 4.4."""
        calls.refusal = PromotionRefused("refunds.state must be safe", remedy="columns: {refunds.state: safe}")
        answer = client.get(f"/alerts/{number_of_firing(scene)}/promote")
        assert answer.status_code == 409
        assert "columns: {refunds.state: safe}" in answer.text
        assert "Make the ticket" not in answer.text


class TestOtherPages:
    def test_databases_never_say_how_they_are_reached(self, client: TestClient) -> None:
        page = client.get("/databases").text
        assert "archive" in page
        assert "secret" not in page
        assert "postgresql://" not in page

    def test_deliveries_list_what_was_owed(self, client: TestClient) -> None:
        page = client.get("/deliveries").text
        assert "worsened" in page
        assert page.count("<span>sent</span>") == 9

    def test_the_catalog_page_reloads_through_the_service(self, client: TestClient, calls: Calls) -> None:
        token = form_token_of(client.get("/catalog").text)
        assert "Loaded. Generation 1" in client.post("/catalog/reload", data={"form_token": token}, headers=OURS).text
        calls.reload_problems = ("invariants/a.yaml:3:5: error: unknown key",)
        refused = client.post("/catalog/reload", data={"form_token": token}, headers=OURS)
        assert refused.status_code == 422
        assert "Refused. Generation 1 stays in force" in refused.text
        assert "invariants/a.yaml:3:5" in refused.text
        assert calls.reloads == ["loopback", "loopback"]

    def test_every_time_is_machine_readable(self, client: TestClient, scene: Scene) -> None:
        for path in ("/", "/alerts", f"/alerts/{number_of_firing(scene)}", f"/invariants/{REFUNDS}", "/catalog"):
            times = [attributes for tag, attributes in Texts(client.get(path).text).tags if tag == "time"]
            assert times
            assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(one["datetime"])) for one in times)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Everything that comes from outside says something hostile."""
    text = " ".join(HOSTILE)
    scene = Scene(tmp_path_factory.mktemp("hostile"))
    scene.install(
        catalog_of(
            [
                invariant(
                    "hostile_values",
                    description=text,
                    owner=text,
                    tags=HOSTILE,
                    assumes=text,
                    sql=f'SELECT id, "<b>col</b>" FROM bio ORDER BY id /* {text} */',
                    rows_sql=text,
                    population=text,
                    tables=HOSTILE,
                    key=(HOSTILE[0],),
                    settle=Settle("<i>at</i>", EVERY, EVERY),
                    databases=("<u>db</u>",),
                )
            ],
            databases=("<u>db</u>",),
            notifiers=("<s>oncall</s>",),
        )
    )
    rows = tuple((str(index), value) for index, value in enumerate(HOSTILE))
    scene.look(
        {
            ("hostile_values", "<u>db</u>"): Found(
                rows, ("id", "<b>col</b>"), ("new",) * len(rows), frozenset({"<b>col</b>"}), new=len(rows)
            )
        }
    )
    scene.deliver(Undelivered(text, permanent=True))
    scene.store.audit.write(text, text, text, text)
    scene.beat(problems=HOSTILE)
    return scene


class TestHostileText:
    """case 114: everything is escaped, and what hides is made visible."""

    PATHS = (
        "/",
        "/alerts",
        "/alerts/1",
        "/alerts/1/promote",
        "/invariants/hostile_values",
        "/catalog",
        "/databases",
        "/deliveries",
        "/?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E&owner=%22%20onmouseover%3D%22alert(2)&state=%3Cimg%20src%3Dx%3E",
        "/alerts?q=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/invariants/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/%3Cimg%20src=x%20onerror=alert(4)%3E",
    )

    @pytest.mark.parametrize("path", PATHS)
    def test_nothing_hostile_becomes_a_tag_or_an_attribute(self, hostile: Scene, path: str) -> None:
        page = client_of(web_service(hostile), accept="text/html").get(path).text
        assert "<script>alert" not in page
        assert "<img" not in page
        shown = Texts(page)
        allowed_scripts = [attributes for tag, attributes in shown.tags if tag == "script"]
        assert all(str(one.get("src", "")).startswith("/static/live.js") for one in allowed_scripts)
        assert not {"img", "b", "u", "i", "s"} & {tag for tag, attributes in shown.tags if not attributes} - {"b", "i"}
        assert not [name for _, attributes in shown.tags for name in attributes if name.startswith("on")]
        assert "49" not in re.findall(r"\b49\b", shown.text)

    @pytest.mark.parametrize("path", ["/", "/invariants/hostile_values", "/alerts/1", "/deliveries", "/catalog"])
    def test_it_is_shown_as_it_is_written(self, hostile: Scene, path: str) -> None:
        shown = Texts(see(hostile, path)).text
        assert "<script>alert(1)</script>" in shown
        assert "{{ 7 * 7 }}" in shown
        assert "&lt;already&gt;" in shown

    @pytest.mark.parametrize("path", PATHS)
    def test_bidirectional_controls_are_visible_and_never_raw(self, hostile: Scene, path: str) -> None:
        page = client_of(web_service(hostile), accept="text/html").get(path).text
        assert "\u202e" not in page
        if path == "/alerts/1":
            assert "pay[U+202E]stnem" in page

    def test_json_is_never_taken_for_html(self, hostile: Scene) -> None:
        for path in ("/api/v1/overview", "/api/v1/alerts/1", "/api/v1/invariants/hostile_values", "/api/v1/nothing"):
            answer = client_of(web_service(hostile)).get(path, headers={"accept": "text/html"})
            assert answer.headers["content-type"].split(";")[0] in ("application/json", "application/problem+json")
            assert answer.headers["x-content-type-options"] == "nosniff"


class TestCsv:
    """case 115."""

    ROWS = (
        ("1", '=HYPERLINK("http://x.example")', "-5"),
        ("2", "+1+1", "1"),
        ("3", "@SUM(A1)", "2"),
        ("4", "\t=1", "3"),
        ("5", "-2+3", None),
    )

    def test_formulas_are_neutralised_and_negative_numbers_stay_numbers(self, tmp_path: Path) -> None:
        scene = fresh(tmp_path)
        scene.look({("refunds", "payments"): Found(self.ROWS, ("id", "=v", "amount"))})
        number = scene.store.alerts.find_open("refunds")[0].id
        answer = client_of(web_service(scene)).get(f"/alerts/{number}/rows.csv")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == f'attachment; filename="alert-{number}-rows.csv"'
        read = list(csv.reader(io.StringIO(answer.text, newline="")))
        assert read == [
            ["id", "'=v", "amount"],
            ["1", '\'=HYPERLINK("http://x.example")', "-5"],
            ["2", "'+1+1", "1"],
            ["3", "'@SUM(A1)", "2"],
            ["4", "'\t=1", "3"],
            ["5", "'-2+3", ""],
        ]

    def test_an_alert_without_rows_has_no_file(self, tmp_path: Path) -> None:
        scene = fresh(tmp_path)
        scene.look({})
        scene.pass_time(timedelta(hours=3))
        scene.watch()
        scene.deliver(Delivered())
        assert client_of(web_service(scene)).get("/alerts/1/rows.csv").status_code == 404


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
