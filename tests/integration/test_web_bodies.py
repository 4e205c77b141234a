"""No request takes more memory than an honest one needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtrue.web.guard import BODY_LIMIT
from scenes import Scene, catalog_of, invariant
from scenes.serving import client_of, web_service

TOKEN = "a token of this test"
OURS = {"origin": "http://127.0.0.1:8080"}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    made.install(catalog_of([invariant("refunds")]))
    return made


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/sign-in", "application/x-www-form-urlencoded"),
        ("/sign-in", "multipart/form-data; boundary=x"),
        ("/sign-out", "application/x-www-form-urlencoded"),
        ("/api/v1/runs", "application/json"),
    ],
)
@pytest.mark.parametrize("declared", [True, False])
def test_a_body_longer_than_any_form_is_not_read(scene: Scene, path: str, content_type: str, declared: bool) -> None:
    """Design 7: whoever has no token yet may send a form to /sign-in, and so could fill the memory of the instance."""
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 65_536
            yield b"a" * 65_536

    client = client_of(web_service(scene, token=TOKEN))
    headers = {**OURS, "content-type": content_type, "authorization": f"Bearer {TOKEN}"}
    body = b"a" * (BODY_LIMIT + 1) if declared else endless()
    answer = client.post(path, content=body, headers=headers)
    assert answer.status_code == 413
    assert "frame-ancestors" in answer.headers["content-security-policy"]


def test_a_length_that_is_no_number_is_refused(scene: Scene) -> None:
    client = client_of(web_service(scene))
    for length in ("-1", "1e9", "x", "9" * 5000):
        headers = {**OURS, "content-type": "application/json", "content-length": length}
        assert client.post("/api/v1/runs", content=b"{}", headers=headers).status_code in (400, 413)


def test_a_body_within_the_limit_is_read(scene: Scene) -> None:
    client = client_of(web_service(scene))
    body = b'{"invariant": "refunds"' + b" " * (BODY_LIMIT - 24) + b"}"
    headers = {**OURS, "content-type": "application/json"}
    assert client.post("/api/v1/runs", content=body, headers=headers).status_code == 202
