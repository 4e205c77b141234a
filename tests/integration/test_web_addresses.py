"""No answer believes what a request says about where we are."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenes import Scene, catalog_of, invariant
from scenes.serving import client_of, web_service


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    made.install(catalog_of([invariant("refunds")]))
    return made


@pytest.mark.parametrize(
    "host",
    [
        "evil.example@localhost",
        "localhost/evil.example",
        "localhost?evil.example",
        "localhost#evil.example",
        "localhost:8080:9090",
        "localhost:",
        "localhost:x",
        "local host",
        "localhost,evil.example",
        "[::1",
        "::1",
        "[::1]evil.example",
        "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3",
    ],
)
def test_a_host_that_is_more_than_a_loopback_name_and_a_port_is_misdirected(scene: Scene, host: str) -> None:
    """semantics 11.2: a header that two parsers may read in two ways is no proof."""
    answer = client_of(web_service(scene)).get("/api/v1/overview", headers={"host": host.encode()})
    assert answer.status_code == 421


@pytest.mark.parametrize(
    "path", ["/alerts/", "/invariants/refunds/", "/api/v1/overview/", "//evil.example/alerts/", "/sign-in/"]
)
def test_nobody_is_sent_where_the_request_says_that_we_are(scene: Scene, path: str) -> None:
    service = web_service(scene, token="a token of this test")
    headers = {"host": "evil.example", "authorization": "Bearer a token of this test"}
    answer = client_of(service).get(path, headers=headers)
    assert answer.status_code == 404
    assert "location" not in answer.headers
