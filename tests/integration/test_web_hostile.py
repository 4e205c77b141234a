"""Text from outside that wants to be more than text (case 114)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from holdtrue.model import Settle, Undelivered
from scenes import EVERY, Found, Scene, catalog_of, invariant
from scenes.reading import Texts
from scenes.seeing import fresh, see
from scenes.serving import Calls, client_of, client_over, web_service

HOSTILE = (
    "<script>alert(1)</script>",
    '" onmouseover="alert(2)',
    "</script><img src=x onerror=alert(3)>",
    "{{ 7 * 7 }}{% raw %}",
    "pay\u202estnem",
    "&lt;already&gt;",
)


@pytest.fixture
def client(shared: tuple[Scene, Calls, FastAPI]) -> TestClient:
    return client_over(shared[2], accept="text/html")


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


@pytest.mark.parametrize(
    "path",
    [
        "/alerts/99999999999999999999999999",
        "/alerts/-1",
        "/alerts?before=99999999999999999999999999",
        "/deliveries?before=-99999999999999999999999999",
        "/?first=99999999999999999999",
        "/invariants/%00%F0%9F%94%A5",
        "/invariants/refunds?before=yesterday",
        "/invariants/refunds?database=%00",
        f"/?q={'a' * 1000}",
        "/api/v1/alerts/99999999999999999999999999",
        "/api/v1/alerts?before=99999999999999999999999999",
        "/api/v1/invariants/%00/runs",
        "/api/v1/invariants/refunds/counts?since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59Z",
    ],
)
def test_nonsense_in_an_address_is_refused_and_breaks_nothing(tmp_path: Path, path: str) -> None:
    """The client raises what an endpoint raises: there must be no such thing."""
    answer = client_of(web_service(fresh(tmp_path)), accept="text/html").get(path)
    assert answer.status_code in (200, 404, 422)


def test_a_body_that_is_no_text_is_refused(tmp_path: Path) -> None:
    client = client_of(web_service(fresh(tmp_path)))
    body = b'{"invariant": "\\ud800"}'
    headers = {"origin": "http://127.0.0.1:8080", "content-type": "application/json"}
    assert client.post("/api/v1/runs", content=body, headers=headers).status_code in (404, 422)
