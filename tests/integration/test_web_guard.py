"""Who may ask the web faces, and what every answer carries."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from holdtrue.web import create_app, guard
from scenes import Scene, catalog_of, find_store, invariant, lose_store
from scenes.seeing import OURS
from scenes.serving import Calls, client_of, client_over, form_token_of, web_service

UNSAFE = [
    ("/-/reload", None),
    ("/api/v1/runs", {"invariant": "refunds"}),
    ("/api/v1/databases/payments/accept", None),
    ("/api/v1/alerts/1/promote", {"preview": True}),
    ("/api/v1/alerts/accept", {"invariant": "refunds", "reason": "why", "until": "14d"}),
    ("/api/v1/accepts/1/end", None),
    ("/alerts/1/promote", None),
    ("/alerts/1/accept", None),
    ("/accepts/1/end", None),
    ("/invariants/refunds/run", None),
    ("/catalog/reload", None),
    ("/sign-in", None),
    ("/sign-out", None),
]


def small(folder: Path) -> Scene:
    """One invariant, never looked at."""
    made = Scene(folder)
    made.install(catalog_of([invariant("refunds")]))
    return made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Calls, FastAPI]:
    """A service that the tests of this file only ask."""
    scene, calls = small(tmp_path_factory.mktemp("guard")), Calls()
    return scene, calls, create_app(web_service(scene, calls))


@pytest.fixture
def lone(tmp_path: Path) -> Scene:
    """A scene whose store this test takes away."""
    return small(tmp_path)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080", "LOCALHOST:80"]
)
def test_a_loopback_name_is_answered(scene: Scene, host: str) -> None:
    """semantics 11.2."""
    assert client_of(web_service(scene)).get("/api/v1/overview", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.nip.example",
        "127.0.0.2",
        "0.0.0.0",  # noqa: S104
        "10.1.2.3:8080",
        "localhost@evil.example",
        "[::1",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/overview", "/metrics", "/alerts/1/rows.csv", "/static/live.js"])
def test_a_name_that_was_pointed_at_us_is_refused(client: TestClient, host: str, path: str) -> None:
    """semantics 11.2: DNS rebinding. A page that the engineer visits is not the engineer."""
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"
    assert "refunds" not in answer.text


def test_declared_names_are_answered_too(scene: Scene) -> None:
    declared = client_of(web_service(scene, hosts=frozenset({"holdtrue.internal"})))
    assert declared.get("/", headers={"host": "holdtrue.internal:8080"}).status_code == 200
    assert declared.get("/", headers={"host": "evil.example"}).status_code == 421
    open_to_all = client_of(web_service(scene, hosts=frozenset({"*"})))
    assert open_to_all.get("/", headers={"host": "evil.example"}).status_code == 200


def test_probes_answer_under_any_name(client: TestClient) -> None:
    """A kubelet asks the pod's address; the probes tell nothing."""
    assert client.get("/healthz", headers={"host": "10.1.2.3:8080"}).status_code == 200
    assert client.get("/readyz", headers={"host": "10.1.2.3:8080"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:3000"},
        {"origin": "https://127.0.0.1:8443"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8080"},
        {"sec-fetch-site": "none"},
        {"authorization": "Bearer guessed"},
        {},
    ],
)
@pytest.mark.parametrize(("path", "body"), UNSAFE)
def test_an_unsafe_request_from_elsewhere_does_nothing(
    client: TestClient, calls: Calls, path: str, body: object, headers: dict[str, str]
) -> None:
    """semantics 11.2: same-origin, or a token."""
    answer = client.post(path, json=body, headers=headers)
    assert answer.status_code == 403
    assert (calls.reloads, calls.runs, calls.promotions) == ([], [], [])


@pytest.mark.parametrize("headers", [OURS, {"sec-fetch-site": "same-origin"}])
def test_an_unsafe_request_from_our_own_pages_is_done(
    client: TestClient, calls: Calls, headers: dict[str, str]
) -> None:
    """semantics 11.2."""
    assert client.post("/-/reload", headers=headers).status_code == 200
    assert calls.reloads == ["loopback"]


def test_a_form_needs_the_token_that_our_page_gave_it(client: TestClient, calls: Calls) -> None:
    page = client.get("/invariants/refunds")
    without = client.post("/invariants/refunds/run", data={"database": "payments"}, headers=OURS)
    wrong = client.post("/invariants/refunds/run", data={"database": "payments", "form_token": "0" * 64}, headers=OURS)
    assert (without.status_code, wrong.status_code, calls.runs) == (403, 403, [])
    right = {"database": "payments", "form_token": form_token_of(page.text)}
    done = client.post("/invariants/refunds/run", data=right, headers=OURS)
    assert done.status_code == 303
    assert calls.runs == [("refunds", "payments", "loopback")]


def test_the_form_cookie_is_out_of_reach_of_scripts_and_other_sites(client: TestClient) -> None:
    cookie = client.get("/").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/overview", "/healthz", "/metrics", "/nothing", "/api/v1/nothing", "/static/live.js"]
)
def test_every_answer_carries_strict_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert ("no-store" in headers["cache-control"]) != path.startswith("/static/")


def test_no_page_has_a_script_or_style_of_its_own(client: TestClient) -> None:
    """The policy would block it."""
    for path in ("/", "/alerts", "/invariants/refunds", "/catalog", "/databases", "/deliveries", "/nothing"):
        page = client.get(path, headers={"accept": "text/html"}).text
        assert "<style" not in page
        assert " style=" not in page
        assert " onclick=" not in page
        assert page.count("<script") == page.count('<script type="module" src="/static/live.js')


class TestWithAToken:
    """Access is configured: everything needs it, under any name."""

    TOKEN = "tok-en-of-the-team"

    @pytest.fixture
    def client(self, scene: Scene, calls: Calls) -> TestClient:
        return client_over(self.app(scene, calls), host="holdtrue.example")

    @staticmethod
    @lru_cache(maxsize=1)
    def app(scene: Scene, calls: Calls) -> FastAPI:
        return create_app(web_service(scene, calls, token=TestWithAToken.TOKEN))

    @pytest.mark.parametrize("path", ["/api/v1/overview", "/api/v1/openapi.json", "/-/reload"])
    @pytest.mark.parametrize("given", [None, "Bearer wrong", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
    def test_the_api_refuses_without_it(self, client: TestClient, path: str, given: str | None) -> None:
        answer = client.get(path, headers={"authorization": given} if given else {})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"

    def test_the_api_answers_with_it(self, client: TestClient, calls: Calls) -> None:
        bearer = {"authorization": f"Bearer {self.TOKEN}"}
        assert client.get("/api/v1/overview", headers=bearer).status_code == 200
        assert client.post("/-/reload", headers=bearer).status_code == 200
        assert calls.reloads == ["token"]

    def test_metrics_and_probes_need_none_unless_they_have_their_own(self, client: TestClient, scene: Scene) -> None:
        """semantics 11.2: /metrics needs a token only if one is set."""
        assert client.get("/metrics").status_code == 200
        assert client.get("/healthz").status_code == 200
        own = client_of(web_service(scene, metrics_token="scraper"))
        assert own.get("/metrics").status_code == 401
        assert own.get("/metrics", headers={"authorization": "Bearer scraper"}).status_code == 200

    def test_a_page_leads_to_the_sign_in_and_from_there_back(self, client: TestClient) -> None:
        origin = {"origin": "http://holdtrue.example"}
        away = client.get("/alerts")
        assert (away.status_code, away.headers["location"]) == (303, "/sign-in")
        asking = client.get("/sign-in")
        wrong = {"token": "guess", "form_token": form_token_of(asking.text)}
        assert client.post("/sign-in", data=wrong, headers=origin).status_code == 403
        assert client.get("/alerts").status_code == 303
        right = {"token": self.TOKEN, "form_token": form_token_of(asking.text)}
        signed = client.post("/sign-in", data=right, headers=origin)
        assert signed.status_code == 303
        assert "httponly" in signed.headers["set-cookie"].lower()
        assert self.TOKEN not in signed.headers["set-cookie"]
        page = client.get("/alerts")
        assert page.status_code == 200
        out = client.post("/sign-out", data={"form_token": form_token_of(page.text)}, headers=origin)
        assert out.status_code == 303
        assert client.get("/alerts").status_code == 303

    def test_a_signed_in_browser_is_still_held_to_the_same_origin(
        self, client: TestClient, calls: Calls, scene: Scene
    ) -> None:
        client.cookies.set(guard.SESSION_COOKIE, guard.new_session(self.TOKEN, scene.clock() + timedelta(days=3650)))
        assert client.get("/alerts").status_code == 200
        assert client.post("/-/reload", headers={"origin": "http://evil.example"}).status_code == 403
        assert calls.reloads == []

    def test_a_session_ends_and_belongs_to_its_token(self, scene: Scene) -> None:
        now = scene.clock()
        session = guard.new_session(self.TOKEN, now)
        assert guard.session_holds(session, self.TOKEN, now + timedelta(hours=11))
        assert not guard.session_holds(session, self.TOKEN, now + timedelta(hours=13))
        assert not guard.session_holds(session, "another", now)
        until, _, signature = session.partition(".")
        assert not guard.session_holds(f"{int(until) + 9999}.{signature}", self.TOKEN, now)
        for broken in (None, "", ".", "x.y", f"{until}.", f"{until}.é", "٣." + signature):
            assert not guard.session_holds(broken, self.TOKEN, now)


class TestProbes:
    """case 129: liveness is the process, readiness the store, and neither is a monitored database."""

    def test_the_process_lives_while_the_store_does_not(self, lone: Scene) -> None:
        client = client_of(web_service(lone))
        assert client.get("/readyz").status_code == 200
        lose_store(lone)
        assert client.get("/healthz").status_code == 200
        not_ready = client.get("/readyz")
        assert not_ready.status_code == 503
        assert not_ready.headers["content-type"] == "application/problem+json"
        find_store(lone)
        assert client.get("/readyz").status_code == 200

    def test_pages_and_api_say_that_nothing_is_known_while_the_store_is_away(self, lone: Scene) -> None:
        """Not knowing is never good news."""
        client = client_of(web_service(lone))
        lone.look({})
        lose_store(lone)
        for path in ("/", "/alerts", "/invariants/refunds", "/catalog", "/databases", "/deliveries"):
            page = client.get(path, headers={"accept": "text/html"})
            assert page.status_code == 503
            assert "nothing here is known" in page.text
            assert "holds" not in page.text
        api = client.get("/api/v1/overview")
        assert api.status_code == 503
        assert api.headers["content-type"] == "application/problem+json"

    def test_metrics_answer_while_the_store_does_not(self, lone: Scene) -> None:
        client = client_of(web_service(lone))
        lose_store(lone)
        answer = client.get("/metrics")
        assert answer.status_code == 200
        assert "holdtrue_store_up 0.0" in answer.text
