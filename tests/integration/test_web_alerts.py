"""The pages of alerts, promotion, and what there is, over a real store."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from holdtrue.errors import NotTried, PromotionRefused
from holdtrue.model import Delivered
from scenes import Found, Scene, catalog_of, invariant
from scenes.reading import Texts
from scenes.refunds import REFUNDS
from scenes.seeing import OURS, THREE, fresh, number_of_firing, see
from scenes.serving import DRAFT, FILES, Calls, client_of, client_over, form_token_of, web_service


@pytest.fixture
def client(shared: tuple[Scene, Calls, FastAPI]) -> TestClient:
    return client_over(shared[2], accept="text/html")


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
        assert "/invariants/refunds" not in page
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
        page = client.get(f"/alerts/{number}/promote").text
        draft = re.findall(r'name="draft" value="([^"]+)"', page)[0]
        answer = client.post(
            f"/alerts/{number}/promote", data={"form_token": form_token_of(page), "draft": draft}, headers=OURS
        )
        assert calls.drafts == ["", DRAFT], "the button makes exactly what the page shows"
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
        assert "untried" not in answer.text

    def test_only_what_nobody_could_try_has_a_second_way_and_says_so_all_along(
        self, client: TestClient, calls: Calls, scene: Scene
    ) -> None:
        """semantics 9.2."""
        number = number_of_firing(scene)
        path = f"/alerts/{number}/promote"
        assert "untried" not in client.get(path).text
        calls.refusal = NotTried("nobody could try whether it breaks", remedy="set HOLDTRUE_SCRATCH_URL\ntake <it>")
        refused = client.get(path)
        assert refused.status_code == 409
        for part in ("nobody could try whether it breaks", "set HOLDTRUE_SCRATCH_URL", "marked NOT LOOKED"):
            assert part in refused.text
        assert "<li>set HOLDTRUE_SCRATCH_URL</li><li>take &lt;it&gt;</li>" in refused.text
        assert "Make the ticket" not in refused.text
        shown = client.get(f"{path}?untried=yes").text
        assert "NOT LOOKED: there is no PostgreSQL." in shown
        assert f"holdtrue promote {number} --untried" in shown
        sent = {"form_token": form_token_of(shown), "draft": DRAFT}
        again = client.post(path, data=sent, headers=OURS)
        assert again.status_code == 409, "the form of a page that says nothing of it takes nothing untried"
        assert "marked NOT LOOKED" in again.text
        assert 'name="untried" value="yes"' in shown
        made = client.post(path, data={**sent, "untried": "yes"}, headers=OURS)
        assert made.headers["content-type"] == "application/zip"


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
