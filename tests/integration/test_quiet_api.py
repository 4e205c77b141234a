"""Silencing and acknowledging through /api/v1, over a real store (semantics 7.4, 7.5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from scenes import Scene, catalog_of, invariant
from scenes.refunds import REFUNDS, refunds_world
from scenes.seeing import OURS, THREE, fresh, number_of_firing
from scenes.serving import Elsewhere, client_of, web_service

HOUR = 3600


@pytest.fixture
def world(tmp_path: Path) -> Scene:
    """The refunds service on a bad morning, of this test alone."""
    return refunds_world(tmp_path)


@pytest.fixture
def api(world: Scene) -> TestClient:
    return client_of(web_service(world), **OURS)


def make(api: TestClient, *matchers: str, **more: object) -> dict[str, object]:
    body = {"matchers": matchers or ["name~*"], "comment": "migration 41", "for_seconds": HOUR, "by": "alice", **more}
    answer = api.post("/api/v1/silences", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_silence_is_previewed_made_listed_shown_and_ended(api: TestClient, world: Scene) -> None:
    number = number_of_firing(world)
    preview = api.get("/api/v1/silences/preview", params={"matcher": [f"name={REFUNDS}", "severity=critical"]}).json()
    assert preview["matchers"] == [f"name={REFUNDS}", "severity=critical"]
    (matched,) = preview["matched"]
    assert (matched["invariant"], matched["database"], matched["alert"]) == (REFUNDS, "payments", number)
    made = make(api, f"name={REFUNDS}")
    assert made["state"] == "in force"
    assert made["created_by"] == "alice (loopback)"
    assert made["elsewhere"] == []
    (listed,) = api.get("/api/v1/silences").json()["silences"]
    assert (listed["id"], listed["episodes"], listed["comment"]) == (made["id"], 0, "migration 41")
    ended = api.post(f"/api/v1/silences/{made['id']}/end", json={"by": "bob"}).json()
    assert (ended["state"], ended["ended_by"]) == ("ended", "bob (loopback)")
    assert api.get("/api/v1/silences").json()["silences"] == []
    assert len(api.get("/api/v1/silences", params={"ended": True}).json()["silences"]) == 1
    assert api.post(f"/api/v1/silences/{made['id']}/end").status_code == 422
    assert [one.action for one in world.store.reads.audit(2)] == ["unsilence", "silence"]


def test_a_preview_puts_what_is_open_first_and_knows_health_alerts(api: TestClient) -> None:
    """Semantics 7.5: silences match health alerts too."""
    matched = api.get("/api/v1/silences/preview", params={"matcher": "name~*"}).json()["matched"]
    assert len(matched) == 6
    open_ = [one["alert"] is not None or one["unchecked"] is not None for one in matched]
    assert open_ == sorted(open_, reverse=True)
    assert any(one["unchecked"] for one in matched)


def test_tags_and_owners_are_matched(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("a", tags=("money",)), invariant("b", owner="Team A"), invariant("c")]))
    api = client_of(web_service(scene))

    def names(matcher: str) -> list[str]:
        found = api.get("/api/v1/silences/preview", params={"matcher": matcher}).json()["matched"]
        return [one["invariant"] for one in found]

    assert names("tag=money") == ["a"]
    assert names("owner=Team A") == ["b"]
    assert names("owner~payments*") == ["a", "c"]


def test_it_shows_what_it_withheld(tmp_path: Path) -> None:
    scene = fresh(tmp_path)
    api = client_of(web_service(scene), **OURS)
    made = make(api, "database=payments")
    scene.look({("refunds", "payments"): THREE})
    shown = api.get(f"/api/v1/silences/{made['id']}").json()
    (withheld,) = shown["withheld"]
    assert (withheld["invariant"], withheld["state"], withheld["messages"]) == ("refunds", "firing", 1)
    (owed,) = api.get("/api/v1/deliveries", params={"state": "withheld"}).json()["deliveries"]
    assert owed["silence"] == made["id"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"matchers": []}, "at least one matcher"),
        ({"matchers": ["refunds"]}, "FIELD=VALUE"),
        ({"comment": " "}, "comment"),
        ({"for_seconds": None}, "needs an end"),
        ({"ends_at": "2026-11-29T10:00:00Z"}, "either ends_at or for_seconds"),
        ({"for_seconds": None, "ends_at": "2020-01-01T00:00:00Z"}, "before it begins"),
        ({"for_seconds": None, "ends_at": "2030-01-01T00:00:00"}, "timezone"),
        ({"for_seconds": -1}, "greater than 0"),
        ({"until": "tomorrow"}, "Extra inputs"),
        ({"by": "x" * 101}, "at most 100"),
    ],
)
def test_a_silence_that_cannot_be_is_refused_with_the_reason(
    api: TestClient, world: Scene, body: dict[str, object], said: str
) -> None:
    given = {"matchers": ["name~*"], "comment": "why", "for_seconds": 60, **body}
    answer = api.post("/api/v1/silences", json=given)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.text
    assert world.store.silences.list(ended_too=True) == ()


def test_an_alert_is_acknowledged_and_given_back(api: TestClient, world: Scene) -> None:
    number = number_of_firing(world)
    answer = api.post(f"/api/v1/alerts/{number}/acknowledge", json={"by": "alice", "note": "a bad deploy"})
    assert answer.status_code == 200
    assert answer.json()["acknowledged_by"] == "alice (loopback)"
    shown = api.get(f"/api/v1/alerts/{number}").json()
    assert shown["note"] == "a bad deploy"
    assert shown["events"][-1]["detail"] == "by alice (loopback): a bad deploy"
    assert shown["messages"][-1]["reason"] == "acknowledged"
    assert api.post(f"/api/v1/alerts/{number}/unacknowledge").json()["acknowledged_by"] is None
    again = api.post(f"/api/v1/alerts/{number}/unacknowledge")
    assert (again.status_code, again.json()["detail"]) == (422, f"nobody has acknowledged alert {number}")


def test_an_ended_alert_is_refused_in_words(api: TestClient, world: Scene) -> None:
    ended = next(one for one in world.store.alerts.list() if not one.open)
    answer = api.post(f"/api/v1/alerts/{ended.id}/acknowledge")
    assert answer.status_code == 422
    assert "has ended" in answer.json()["detail"]
    assert api.post("/api/v1/alerts/99999/acknowledge").status_code == 404


@pytest.mark.parametrize("path", ["silences", "silences/1/end", "alerts/1/acknowledge", "alerts/1/unacknowledge"])
def test_another_site_can_do_none_of_it(world: Scene, path: str) -> None:
    """Semantics 11.2."""
    make(client_of(web_service(world), **OURS))
    stranger = client_of(web_service(world), origin="http://evil.example")
    body = {"matchers": ["name~*"], "comment": "why", "for_seconds": 60} if path == "silences" else None
    assert stranger.post(f"/api/v1/{path}", json=body).status_code == 403
    tokened = client_of(replace(web_service(world), token="secret"))
    assert tokened.post(f"/api/v1/{path}", json=body).status_code in {401, 403}
    assert len(world.store.silences.list()) == 1


def test_the_same_silence_is_made_where_state_is_carried_and_a_failure_is_said(world: Scene) -> None:
    """Semantics 7.6."""
    mirrors = (Elsewhere("am-1"), Elsewhere("am-2", "it did not answer"))
    api = client_of(web_service(world, mirrors=lambda: mirrors), **OURS)
    made = make(api)
    said = f"it did not answer of {made['id']}"
    expected = [{"name": "am-1", "problem": None}, {"name": "am-2", "problem": said}]
    assert made["elsewhere"] == expected
    assert api.post(f"/api/v1/silences/{made['id']}/end").json()["elsewhere"] == expected


def test_deliveries_are_filtered_and_counted(api: TestClient, world: Scene) -> None:
    number = number_of_firing(world)
    of_one = api.get("/api/v1/deliveries", params={"alert": number}).json()
    assert {one["alert"] for one in of_one["deliveries"]} == {number}
    assert of_one["totals"]["oncall"]["sent"] >= len(of_one["deliveries"])
    of_rule = api.get("/api/v1/deliveries", params={"invariant": REFUNDS}).json()["deliveries"]
    assert {one["invariant"] for one in of_rule} == {REFUNDS}
    assert api.get("/api/v1/deliveries", params={"notifier": "nobody"}).json()["deliveries"] == []
