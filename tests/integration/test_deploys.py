"""Deploys: kept, bounded and pruned in the store; told and shown through API, pages and commands."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient

from holdtrue.cli import run as command
from holdtrue.errors import Refused
from holdtrue.model import Retention, Window
from holdtrue.store import open_store
from holdtrue.store.deploys import Deploys
from holdtrue.store.engine import StoreEngine
from scenes import Scene
from scenes.reading import Texts
from scenes.refunds import REFUNDS, refunds_world
from scenes.seeing import OURS, number_of_firing, see
from scenes.serving import client_of, served, web_service
from servers.postgres import PostgresPrimary, wait_until
from stores import NOON, Clock, House

MINUTE = timedelta(minutes=1)
HOSTILE = "<script>alert(1)</script>\u202e \x1b[31m"


def add(house: House, version: str = "1.4.2", minutes: float = 0) -> int:
    made = house.store.deploys.add("payments", version, at=NOON + minutes * MINUTE, by="ci (token)", who="token")
    return made.id


def test_a_deploy_is_kept_once_and_audited(house: House) -> None:
    assert add(house) == add(house)
    assert add(house, "1.4.3") != add(house)
    found = house.store.deploys.list()
    assert [(one.service, one.version, one.at, one.by) for one in found] == [
        ("payments", "1.4.3", NOON, "ci (token)"),
        ("payments", "1.4.2", NOON, "ci (token)"),
    ]
    (latest, first) = house.store.reads.audit(5)
    assert (first.who, first.action, first.subject) == ("token", "deploy", "payments 1.4.2")
    assert latest.subject == "payments 1.4.3"


def test_a_deploy_that_two_tell_at_once_is_one(
    postgres_primary: PostgresPrimary, postgres_store: str, postgres_url: str
) -> None:
    """On a PostgreSQL store: what the other one has not committed yet is seen by nobody, and must be waited for."""
    told = "INSERT INTO deploys (service, version, at, by, recorded_at) VALUES ('payments', '1.4.2', %s, 'cd', %s)"
    waits = "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
    store = open_store(postgres_url, clock=Clock())
    try:
        with (
            ThreadPoolExecutor(1) as pool,
            postgres_primary.connect(postgres_store, autocommit=False) as other,
            postgres_primary.connect() as seen,
        ):
            number = other.execute(f"{told} RETURNING id".encode(), (NOON, NOON)).fetchone()
            adding = pool.submit(store.deploys.add, "payments", "1.4.2", by="ci", who="token", at=NOON)
            try:
                wait_until(lambda: seen.execute(waits.encode(), (postgres_store,)).fetchone(), "the second one waits")
            finally:
                other.commit()
            made = adding.result(20)
        assert ((made.id,), made.by) == (number, "cd")
        assert store.deploys.list() == (made,)
        assert store.reads.audit(5) == ()
    finally:
        store.close()


def test_a_deploy_that_is_forgotten_while_it_is_told_again_is_kept_anew(
    postgres_primary: PostgresPrimary, postgres_store: str, postgres_url: str
) -> None:
    """On a PostgreSQL store: another transaction prunes what the insert met, before it is read."""
    store = open_store(postgres_url, clock=Clock())
    forgotten: list[str] = []
    try:
        first = store.deploys.add("payments", "1.4.2", by="cd", who="token", at=NOON)
        with postgres_primary.connect(postgres_store) as other:

            def forget(_connection: object, _cursor: object, statement: str, *_: object) -> None:
                if statement.startswith("SELECT deploys.") and not forgotten:
                    forgotten.append(statement)
                    other.execute(b"DELETE FROM deploys")

            event.listen(store._engine._engine, "before_cursor_execute", forget)
            again = store.deploys.add("payments", "1.4.2", by="ci", who="token", at=NOON)
        assert len(forgotten) == 1
        assert (again.by, again.id > first.id) == ("ci", True)
        assert store.deploys.list() == (again,)
        assert len(store.reads.audit(5)) == 2
    finally:
        store.close()


def test_a_deploy_without_a_moment_is_of_now(house: House) -> None:
    assert house.store.deploys.add("  payments ", "1.4.2\n", by="ci", who="token").at == house.clock.now
    assert [(one.service, one.version) for one in house.store.deploys.list()] == [("payments", "1.4.2")]


def test_what_cannot_be_kept_is_refused_and_leaves_no_trace(house: House) -> None:
    with pytest.raises(Refused, match="in the future"):
        add(house, minutes=16)
    assert house.store.deploys.list() == ()
    assert house.store.reads.audit(1) == ()


def test_only_the_latest_are_kept_whatever_a_pipeline_sends(house: House) -> None:
    engine = StoreEngine(house.url, house.clock)
    few = Deploys(engine, most=3)
    for minute in range(5):
        few.add("payments", str(minute), at=NOON - minute * MINUTE, by="ci", who="token")
    assert [one.version for one in few.list()] == ["0", "1", "2"]
    engine.close()


def test_old_ones_are_pruned_like_exact_counts(house: House) -> None:
    add(house, minutes=-60)
    add(house, "1.4.3")
    pruned = house.store.prune(replace(Retention(), exact_counts=30 * MINUTE), NOON)
    assert pruned.deploys == 1
    assert [one.version for one in house.store.deploys.list()] == ["1.4.3"]


def test_none_beside_a_window_is_told_from_nobody_ever_told(house: House) -> None:
    window = Window(NOON - 10 * MINUTE, NOON)
    assert house.store.deploys.beside(window) is None
    add(house, "1.4.1", minutes=-3000)
    assert house.store.deploys.beside(window) == ()
    add(house, "1.4.2", minutes=-13)
    (one,) = house.store.deploys.beside(window) or ()
    assert (one.deploy.version, one.where) == ("1.4.2", "3m before the window")


@pytest.fixture
def world(tmp_path: Path) -> Scene:
    """The refunds service on a bad morning, of this test alone."""
    return refunds_world(tmp_path)


@pytest.fixture
def api(world: Scene) -> TestClient:
    return client_of(web_service(world), **OURS)


def window_of(world: Scene) -> Window:
    return world.store.alerts.get(number_of_firing(world)).window


def test_a_pipeline_tells_and_the_alert_says_what_went_out_before_it(api: TestClient, world: Scene) -> None:
    number = number_of_firing(world)
    assert api.get(f"/api/v1/alerts/{number}").json()["deploys"] is None
    opened = window_of(world).opened
    assert opened is not None
    body = {"service": "payments", "version": "1.4.2", "at": (opened - 3 * MINUTE).isoformat(), "by": "ci"}
    answer = api.post("/api/v1/deploys", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["by"] == "ci (loopback)"
    assert api.post("/api/v1/deploys", json=body).json()["id"] == answer.json()["id"]
    (told,) = api.get(f"/api/v1/alerts/{number}").json()["deploys"]
    assert (told["service"], told["where"]) == ("payments", "3m before the window")
    listed = api.get("/api/v1/deploys", params={"service": "payments", "limit": 1}).json()
    assert [one["version"] for one in listed["deploys"]] == ["1.4.2"]
    older = api.get("/api/v1/deploys", params={"before": listed["next"]}).json()
    assert older == {"deploys": [], "next": None}
    history = api.get(f"/api/v1/invariants/{REFUNDS}/databases/payments/history").json()
    assert [one["version"] for one in history["deploys"]] == ["1.4.2"]


@pytest.mark.parametrize("apart", [timedelta(0), timedelta(microseconds=1)])
def test_pages_show_each_deploy_once_though_a_pipeline_told_many_at_one_moment(
    api: TestClient, world: Scene, apart: timedelta
) -> None:
    start = window_of(world).closed
    for number in range(5):
        world.store.deploys.add("payments", str(number), at=start + number * apart, by="ci", who="token")
    asked: dict[str, object] = {"service": "payments", "limit": 2}
    pages: list[list[str]] = []
    while len(pages) < 9:
        page = api.get("/api/v1/deploys", params=asked).json()
        pages.append([one["version"] for one in page["deploys"]])
        if page["next"] is None:
            break
        asked["before"] = page["next"]
    assert pages == [["4", "3"], ["2", "1"], ["0"]]


def test_before_is_also_a_moment_and_what_is_neither_is_422(api: TestClient, world: Scene) -> None:
    at = window_of(world).closed
    world.store.deploys.add("payments", "1.4.2", at=at, by="ci", who="token")

    def listed(before: str) -> list[str]:
        return [one["version"] for one in api.get("/api/v1/deploys", params={"before": before}).json()["deploys"]]

    assert listed(at.isoformat()) == []
    assert listed((at + MINUTE).isoformat()) == ["1.4.2"]
    for bad in ("", "17", "yesterday", "2026-11-29T12:00:00", "2026-11-29T12:00:00Z,", "2026-11-29T12:00:00Z,x"):
        assert api.get("/api/v1/deploys", params={"before": bad}).status_code == 422, bad


@pytest.mark.parametrize(
    "body",
    [
        {"service": "payments"},
        {"service": "", "version": "1"},
        {"service": " ", "version": "1"},
        {"service": "payments", "version": "1", "at": "2026-11-29T12:00:00"},
        {"service": "payments", "version": "1", "at": "2036-11-29T12:00:00Z"},
        {"service": "payments", "version": "1", "by": "b" * 101},
        {"service": "payments", "version": "1", "status": "ok"},
    ],
)
def test_a_request_that_cannot_be_kept_is_422(api: TestClient, body: dict[str, str]) -> None:
    assert api.post("/api/v1/deploys", json=body).status_code == 422
    assert api.get("/api/v1/deploys").json()["deploys"] == []


def test_telling_needs_the_token_or_our_own_pages(world: Scene) -> None:
    body = {"service": "payments", "version": "1"}
    assert client_of(web_service(world)).post("/api/v1/deploys", json=body).status_code == 403
    guarded = web_service(world, token="s3cret")
    assert client_of(guarded, **OURS).post("/api/v1/deploys", json=body).status_code == 401
    answer = client_of(guarded, authorization="Bearer s3cret").post("/api/v1/deploys", json=body)
    assert (answer.status_code, answer.json()["by"]) == (201, "token")


def test_the_pages_show_deploys_as_text(world: Scene) -> None:
    page = f"/alerts/{number_of_firing(world)}"
    assert "Not known: nobody has told of a deploy yet." in Texts(see(world, page)).text
    window = window_of(world)
    world.store.deploys.add(HOSTILE, "1.4.2", at=window.closed, by="ci", who="token")
    assert "<script>alert" not in see(world, page)
    assert "1.4.2, in the window" in Texts(see(world, page)).text
    history = see(world, f"/invariants/{REFUNDS}?range=24h")
    assert "<script>alert" not in history
    assert 'class="deploy"' in history
    assert "Deploys in this range" in Texts(history).text


def test_the_commands_tell_and_list_through_a_service(
    world: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(web_service(world)) as url:
        monkeypatch.setenv("HOLDTRUE_URL", url)
        at = (window_of(world).closed - MINUTE).isoformat()
        assert command(["deploys", "add", "payments", "1.4.2", "--at", at, "--by", "ci"]) == 0
        assert "deployed payments 1.4.2 at " in capsys.readouterr().out
        assert command(["deploys", "list", "--since", "2020-01-01T00:00:00Z", "--format", "json"]) == 0
        (one,) = json.loads(capsys.readouterr().out)["deploys"]
        assert (one["version"], one["by"]) == ("1.4.2", "ci (loopback)")
        assert command(["alerts", "show", str(number_of_firing(world))]) == 0
        assert "payments 1.4.2, in the window" in capsys.readouterr().out
        assert command(["deploys", "add", "payments", "1", "--at", "yesterday"]) == 2
