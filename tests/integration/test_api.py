"""The JSON API below /api/v1, over a real store."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from holdtrue.errors import CatalogRefused, NotTried, PromotionRefused
from holdtrue.model import Delivered, Place, Problem
from holdtrue.scaffolding import Extra
from scenes import EVERY, Found, Scene, catalog_of, invariant
from scenes.refunds import REFUNDS, REFUNDS_SQL, refunds_world
from scenes.seeing import OURS
from scenes.serving import DRAFT, FILES, Calls, client_of, web_service

DOCS = Path(__file__).parents[2] / "docs" / "api.md"


def firing(scene: Scene) -> int:
    """The number of the alert that fires."""
    return scene.store.alerts.find_open(REFUNDS)[0].id


def test_the_overview_is_worst_first_and_says_what_it_comes_to(client: TestClient) -> None:
    """semantics 6."""
    body = client.get("/api/v1/overview").json()
    assert [one["verdict"]["word"] for one in body["entries"]] == [
        "violated",
        "violated",
        "unknown",
        "unknown",
        "holds",
        "holds",
    ]
    assert body["entries"][0]["invariant"] == REFUNDS
    assert body["entries"][0]["verdict"]["firing"] is True
    assert body["exit_code"] == 1
    assert body["total"] == 6
    assert body["next"] is None


def test_the_overview_comes_in_pages_when_asked_to(client: TestClient) -> None:
    everything = client.get("/api/v1/overview").json()["entries"]
    first = client.get("/api/v1/overview", params={"limit": 4}).json()
    second = client.get("/api/v1/overview", params={"limit": 4, "first": first["next"]}).json()
    assert first["entries"] + second["entries"] == everything
    assert (first["next"], second["next"]) == (4, None)


def test_an_invariant_is_shown_with_its_text_byte_for_byte(client: TestClient) -> None:
    body = client.get(f"/api/v1/invariants/{REFUNDS}").json()
    assert body["sql"] == REFUNDS_SQL
    assert body["interval_seconds"] == 900
    assert body["fresh_seconds"] == 1810
    assert [one["database"] for one in body["entries"]] == ["payments"]
    assert REFUNDS in [one["name"] for one in client.get("/api/v1/invariants").json()["invariants"]]


def test_runs_come_newest_first_and_page_by_page(client: TestClient) -> None:
    first = client.get(f"/api/v1/invariants/{REFUNDS}/runs", params={"limit": 40}).json()
    second = client.get(f"/api/v1/invariants/{REFUNDS}/runs", params={"limit": 40, "before": first["next"]}).json()
    due = [one["due_at"] for one in first["runs"] + second["runs"]]
    assert len(due) == 58
    assert due == sorted(due, reverse=True)
    assert second["next"] is None
    assert first["runs"][0]["position"]["replica"] == "r1"
    assert first["runs"][0]["counted"] == 3


def test_a_run_that_could_not_look_gives_our_own_reason(client: TestClient) -> None:
    """semantics 3.5."""
    run = client.get("/api/v1/invariants/no_job_left_in_progress/runs").json()["runs"][0]
    assert run["outcome"] == "errored"
    assert run["failure"]["reason"] == "lagging"


def test_counts_are_spans_with_the_time_for_which_they_are_known(client: TestClient, scene: Scene) -> None:
    body = client.get(f"/api/v1/invariants/{REFUNDS}/counts", params={"database": "payments"}).json()
    assert [one["counted"] for one in body["spans"]] == [0, 1, 0, 1, 3]
    assert body["fresh_seconds"] == 1810
    recent = {"since": (scene.clock() - timedelta(hours=1)).isoformat()}
    assert [
        one["counted"] for one in client.get(f"/api/v1/invariants/{REFUNDS}/counts", params=recent).json()["spans"]
    ] == [3]


def test_history_is_what_the_command_reads(client: TestClient) -> None:
    body = client.get(
        f"/api/v1/invariants/{REFUNDS}/databases/payments/history", params={"runs": 3, "since": "2026-11-29T00:00:00Z"}
    ).json()
    assert len(body["runs"]) == 3
    assert len(body["spans"]) == 5


def test_keys_come_masked_and_page_by_page(client: TestClient) -> None:
    first = client.get(f"/api/v1/invariants/{REFUNDS}/keys", params={"limit": 2}).json()
    second = client.get(f"/api/v1/invariants/{REFUNDS}/keys", params={"limit": 2, "after": first["next"]}).json()
    assert [one["shown"] for one in first["keys"] + second["keys"]] == ["dsp_9", "dsp_14", "dsp_77"]
    new = client.get(f"/api/v1/invariants/{REFUNDS}/keys", params={"novelty": "new"}).json()["keys"]
    assert [one["shown"] for one in new] == ["dsp_77"]


def test_one_of_several_databases_must_be_named(client: TestClient) -> None:
    path = "/api/v1/invariants/every_receipt_has_an_invoice_row/counts"
    unnamed = client.get(path)
    assert unnamed.status_code == 422
    assert "database" in unnamed.json()["remedy"]
    assert client.get(path, params={"database": "archive"}).status_code == 200
    assert client.get(path, params={"database": "elsewhere"}).status_code == 404


def test_alerts_are_listed_and_shown_with_masked_rows(client: TestClient, scene: Scene) -> None:
    listed = client.get("/api/v1/alerts").json()["alerts"]
    assert {one["state"] for one in listed} == {"firing", "pending"}
    everything = client.get("/api/v1/alerts", params={"state": "all"}).json()["alerts"]
    assert len(everything) == 6
    one = client.get(f"/api/v1/alerts/{firing(scene)}").json()
    assert one["last_run"]["sample"]["masked"] == ["customer"]
    assert next(event["name"] for event in one["events"]) in ("fired", "opened")
    assert one["messages"][0]["state"] == "sent"
    assert one["evidence"][0]["rows"] == 3


def test_alerts_come_page_by_page(client: TestClient) -> None:
    seen, before = [], None
    while True:
        params = {"state": "all", "limit": 4, **({"before": before} if before else {})}
        body = client.get("/api/v1/alerts", params=params).json()
        seen += [one["id"] for one in body["alerts"]]
        before = body["next"]
        if before is None:
            break
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == 6


def test_runs_of_one_moment_across_the_border_of_two_pages_are_each_told_once(tmp_path: Path) -> None:
    """On several databases, and within one millisecond: what a page says of the next one is exact."""
    scene = Scene(tmp_path)
    databases = ("a", "b", "c")
    scene.install(catalog_of([invariant("refunds", databases=databases)], databases=databases))
    for length in (timedelta(microseconds=100), EVERY, EVERY):
        scene.pass_time(length)
        scene.look({})
    client = client_of(web_service(scene))
    found, before = [], None
    while True:
        given = {"limit": 1} if before is None else {"limit": 1, "before": before}
        page = client.get("/api/v1/invariants/refunds/runs", params=given).json()
        found += [(one["due_at"], one["database"]) for one in page["runs"]]
        before = page["next"]
        if before is None:
            break
    every = client.get("/api/v1/invariants/refunds/runs").json()["runs"]
    assert found == [(one["due_at"], one["database"]) for one in every]
    assert len(set(found)) == len(found) == len(scene.store.reads.runs("refunds")) >= 6
    newest = every[0]["due_at"]
    older = client.get("/api/v1/invariants/refunds/runs", params={"before": newest}).json()["runs"]
    assert newest not in [one["due_at"] for one in older]
    assert client.get("/api/v1/invariants/refunds/runs", params={"before": "yesterday"}).status_code == 422


def test_a_run_is_asked_for_through_the_claim(tmp_path: Path) -> None:
    """semantics 11.1: the web asks no replica; whoever claims next makes the run."""
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("refunds")]))
    scene.look({})
    scene.pass_time(timedelta(seconds=30))
    calls = Calls()
    answer = client_of(web_service(scene, calls)).post("/api/v1/runs", json={"invariant": "refunds"}, headers=OURS)
    assert answer.status_code == 202
    assert calls.runs == [("refunds", "payments", "loopback")]
    saved = scene.look({("refunds", "payments"): Found((("1",),))})
    assert len(saved) == 1
    due = datetime.fromisoformat(answer.json()["due_at"])
    assert abs(due - scene.clock()) < timedelta(milliseconds=1)
    assert scene.store.reads.runs("refunds")[0].kind.value == "asked"


def test_promoting_gives_the_files_and_a_preview_says_that_it_is_one(
    client: TestClient, calls: Calls, scene: Scene
) -> None:
    number = firing(scene)
    preview = client.post(f"/api/v1/alerts/{number}/promote", json={"preview": True}, headers=OURS)
    assert preview.json()["draft"] == DRAFT
    real = client.post(f"/api/v1/alerts/{number}/promote", json={"draft": DRAFT}, headers=OURS)
    assert calls.drafts == ["", DRAFT]
    assert preview.json()["files"] == dict(FILES)
    assert real.status_code == 200
    assert calls.promotions == [(number, "loopback", True), (number, "loopback", False)]


def test_a_refused_promotion_says_what_to_add(client: TestClient, calls: Calls, scene: Scene) -> None:
    """semantics 4.4."""
    calls.refusal = PromotionRefused(
        "refunds.state is compared with a constant", remedy="columns: {refunds.state: safe}"
    )
    answer = client.post(f"/api/v1/alerts/{firing(scene)}/promote", headers=OURS)
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["remedy"] == "columns: {refunds.state: safe}"
    assert answer.json()["detail"] == "refunds.state is compared with a constant"


def test_what_nobody_could_try_is_refused_by_a_reason_that_a_program_knows_and_given_if_asked_for_untried(
    client: TestClient, calls: Calls, scene: Scene
) -> None:
    """semantics 9.2."""
    path = f"/api/v1/alerts/{firing(scene)}/promote"
    calls.refusal = PromotionRefused("what was kept makes no test")
    assert "reason" not in client.post(path, headers=OURS).json()
    assert client.post(path, json={"untried": True}, headers=OURS).status_code == 409
    calls.refusal = NotTried("nobody could try it", remedy="set HOLDTRUE_SCRATCH_URL")
    refused = client.post(path, json={"preview": True}, headers=OURS)
    assert refused.status_code == 409
    assert refused.json() == {
        "type": "about:blank",
        "title": "This alert cannot be promoted as it is",
        "status": 409,
        "detail": "nobody could try it",
        "remedy": "set HOLDTRUE_SCRATCH_URL",
        "reason": "not tried",
    }
    given = client.post(path, json={"untried": True}, headers=OURS)
    assert given.status_code == 200
    assert given.json()["rehearsed"]["result"] == "not looked"
    assert client.post(path, json={"tried": {"no checksum": "breaks"}}, headers=OURS).status_code == 422
    assert client.post(path, json={"tried": {"0" * 64: "fine"}}, headers=OURS).status_code == 422


def test_a_refused_reload_lists_every_problem_and_what_stays(client: TestClient, calls: Calls) -> None:
    """semantics 1.3: all or nothing."""
    calls.reload_problems = ("invariants/a.yaml:3:5: error: unknown key", "invariants/b.yaml:1:1: error: empty")
    answer = client.post("/-/reload", headers=OURS)
    assert answer.status_code == 422
    assert answer.json()["problems"] == list(calls.reload_problems)
    assert answer.json()["generation"] == 1


def test_databases_never_say_how_they_are_reached(client: TestClient) -> None:
    answer = client.get("/api/v1/databases")
    assert [one["name"] for one in answer.json()["databases"]] == ["payments", "archive"]
    assert "secret" not in answer.text
    assert "postgresql://" not in answer.text


def test_the_inventory_tells_instances_catalog_and_deliveries(client: TestClient) -> None:
    assert client.get("/api/v1/instances").json()["instances"][0]["instance"] == "here:4711"
    catalog = client.get("/api/v1/catalog").json()
    assert (catalog["generation"], catalog["entries"]) == (1, 6)
    deliveries = client.get("/api/v1/deliveries", params={"limit": 2}).json()
    assert len(deliveries["deliveries"]) == 2
    assert "cannot edit the former ones" in deliveries["limits"]["oncall"]
    older = client.get("/api/v1/deliveries", params={"limit": 200, "before": deliveries["next"]}).json()
    assert older["next"] is None
    assert client.get("/api/v1/deliveries", params={"state": "failed"}).json()["deliveries"] == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/nothing", 404),
        ("/api/v1/invariants/nothing", 404),
        ("/api/v1/alerts/999999", 404),
        ("/api/v1/alerts/none", 422),
        ("/api/v1/alerts?limit=0", 422),
        (f"/api/v1/invariants/{REFUNDS}/runs?before=yesterday", 422),
        (f"/api/v1/invariants/{REFUNDS}/counts?since=2026-11-29T00:00:00", 422),
        ("/api/v1/runs", 405),
    ],
)
def test_an_error_is_a_problem_document(client: TestClient, path: str, status: int) -> None:
    """RFC 9457."""
    answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["title"]


def test_a_wrong_value_is_not_sent_back(client: TestClient) -> None:
    """It may be a secret in the wrong field."""
    answer = client.post("/api/v1/runs", json={"invariant": REFUNDS, "password": "hunter2"}, headers=OURS)
    assert answer.status_code == 422
    assert "hunter2" not in answer.text
    assert "password" in answer.text


def test_a_refused_catalog_is_told_problem_by_problem(client: TestClient, shared: tuple[Scene, Calls, FastAPI]) -> None:
    def refuse(_who: str) -> None:
        raise CatalogRefused([Problem(Place("a.yaml", 3, 5), "unknown key", "intervall", "interval")])

    service = web_service(shared[0], reload=refuse)
    answer = client_of(service).post("/-/reload", headers=OURS)
    assert answer.status_code == 422
    assert "did you mean 'interval'" in answer.json()["problems"][0]


def test_times_are_iso_in_utc(client: TestClient, scene: Scene) -> None:
    def times(value: object) -> list[str]:
        if isinstance(value, dict):
            return [found for key, one in value.items() for found in (times(one) if not is_time(key, one) else [one])]
        if isinstance(value, list):
            return [found for one in value for found in times(one)]
        return []

    def is_time(key: str, one: object) -> bool:
        return isinstance(one, str) and (key.endswith(("_at", "_seen")) or key in ("at", "now", "next_due", "moment"))

    found = [
        one
        for path in ("overview", "alerts", f"alerts/{firing(scene)}", "instances", "catalog", "deliveries")
        for one in times(client.get(f"/api/v1/{path}").json())
    ]
    assert len(found) > 40
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one) for one in found)


def test_files_beside_the_test_are_asked_for_by_their_kind(client: TestClient, scene: Scene, calls: Calls) -> None:
    path = f"/api/v1/alerts/{firing(scene)}/promote"
    assert client.post(path, json={"also": ["spec", "csv"]}, headers=OURS).status_code == 200
    assert client.post(path, json={"also": ["pdf"]}, headers=OURS).status_code == 422
    assert calls.also == [(Extra.SPEC, Extra.CSV)]


def test_every_endpoint_is_in_the_openapi_document_and_in_the_docs(client: TestClient) -> None:
    """Everything a user meets is documented."""
    listed = client.get("/api/v1/openapi.json").json()["paths"]
    endpoints = {f"{method.upper()} {path}" for path, methods in listed.items() for method in methods}
    wanted = {
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
        "POST /-/reload",
        "GET /api/v1/overview",
        "GET /api/v1/invariants",
        "GET /api/v1/invariants/{name}",
        "GET /api/v1/invariants/{name}/runs",
        "GET /api/v1/invariants/{name}/counts",
        "GET /api/v1/invariants/{name}/keys",
        "GET /api/v1/invariants/{name}/costs",
        "GET /api/v1/invariants/{name}/databases/{database}/history",
        "GET /api/v1/alerts",
        "GET /api/v1/alerts/{number}",
        "POST /api/v1/alerts/{number}/promote",
        "POST /api/v1/alerts/accept",
        "POST /api/v1/accepts/{number}/end",
        "GET /api/v1/waivers",
        "POST /api/v1/alerts/{number}/acknowledge",
        "POST /api/v1/alerts/{number}/unacknowledge",
        "GET /api/v1/silences",
        "GET /api/v1/silences/preview",
        "GET /api/v1/silences/{number}",
        "POST /api/v1/silences",
        "POST /api/v1/silences/{number}/end",
        "GET /api/v1/deploys",
        "POST /api/v1/deploys",
        "GET /api/v1/databases",
        "POST /api/v1/databases/{name}/accept",
        "POST /api/v1/runs",
        "GET /api/v1/instances",
        "GET /api/v1/catalog",
        "GET /api/v1/deliveries",
    }
    assert endpoints == wanted
    documented = set(re.findall(r"^#+ `((?:GET|POST) [^`]+)`$", DOCS.read_text(), re.MULTILINE))
    assert documented == endpoints


def test_every_parameter_is_in_the_docs(client: TestClient) -> None:
    sections = re.split(r"^#+ `((?:GET|POST) [^`]+)`$", DOCS.read_text(), flags=re.MULTILINE)
    texts = dict(zip(sections[1::2], sections[2::2], strict=True))
    for path, methods in client.get("/api/v1/openapi.json").json()["paths"].items():
        for method, about in methods.items():
            for parameter in about.get("parameters", ()):
                if parameter["in"] == "query":
                    assert f"`{parameter['name']}`" in texts[f"{method.upper()} {path}"], (path, parameter["name"])


def test_answers_carry_no_masked_value(tmp_path: Path) -> None:
    """semantics 4.4: what was hashed before the store is nowhere in clear."""
    scene = refunds_world(tmp_path)
    scene.deliver(Delivered())
    client = client_of(web_service(scene))
    assert "h:5d41402abc" in client.get(f"/api/v1/alerts/{firing(scene)}").text
    assert "amount_eur" not in client.get(f"/api/v1/alerts/{firing(scene)}").text
