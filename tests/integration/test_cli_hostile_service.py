"""Whoever answers at HOLDTRUE_URL may be anybody: a command then writes nowhere else, gives nothing away, and ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from holdtrue import reports
from holdtrue.cli import client, run
from holdtrue.cli.client import ServiceClient
from holdtrue.errors import Refused, ServiceError
from holdtrue.model import AlertState, Episode, Subject

STEER = "\x1b[2J\x1b]0;taken\x07\u202e\x9b31m"
TOKEN = "the-token-of-this-test"

Answer = Callable[[BaseHTTPRequestHandler], None]


class Hostile:
    """A service that answers what a test wants; what it was sent is kept."""

    def __init__(self) -> None:
        self.answer: Answer = says({})
        self.requests: list[tuple[str, str | None]] = []
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.requests.append((self.path, self.headers.get("authorization")))
                try:
                    outer.answer(self)
                except OSError:
                    self.close_connection = True

            do_GET = _answer  # noqa: N815  the server's names
            do_POST = _answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def says(document: object, status: int = 200, **headers: str) -> Answer:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    service = Hostile()
    monkeypatch.setenv("HOLDTRUE_URL", service.url)
    monkeypatch.setenv("HOLDTRUE_TOKEN", TOKEN)
    thread = threading.Thread(target=service.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield service
    service.over.set()
    service.server.shutdown()
    thread.join()
    service.server.server_close()


@pytest.mark.parametrize(
    "name",
    [
        "../out",
        "/tmp/holdtrue-out",
        "a/b",
        "..",
        ".",
        "",
        "a\\b",
        "C:out",
        ".git",
        "~",
        "a\nb",
        "a\x00b",
        "a..b",
        STEER,
    ],
)
def test_no_file_of_a_service_lands_outside_of_the_tickets_folder(hostile: Hostile, tmp_path: Path, name: str) -> None:
    hostile.answer = says({"id": "inc-1", "files": {"README.md": "fine", name: "out"}})
    assert run(["promote", "1"]) == 4
    hostile.answer = says({"id": name or "..", "files": {"README.md": "out"}})
    assert run(["promote", "1"]) == 4
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"id": "inc-1"},
        {"id": 7, "files": {"a.py": "x"}},
        {"id": "inc-1", "files": ["a.py"]},
        {"id": "inc-1", "files": {}},
        {"id": "inc-1", "files": {"a.py": {"b": "c"}}},
        {"id": "inc-1", "files": {"a.py": "\ud800"}},
    ],
)
def test_what_is_no_ticket_is_refused_in_words(
    hostile: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str], document: object
) -> None:
    hostile.answer = says(document)
    assert run(["promote", "1"]) == 4
    assert "nothing was written" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "command", ["overview", "alerts list", "alerts show 1", "deliveries", "history x", "databases list"]
)
def test_what_a_service_of_another_version_does_not_say_is_named(
    hostile: Hostile, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """House: not knowing is never good news, and no traceback either."""
    hostile.answer = says({"alerts": [{"id": 1}], "invariants": [{"name": "x"}], "deliveries": [{"id": 1}]})
    assert run(command.split()) == 4
    said = capsys.readouterr()
    assert "the service says nothing of '" in said.err
    assert "use the same on both sides" in said.err
    assert "KeyError" not in said.err


def test_a_service_that_knows_no_silences_is_not_taken_for_one_that_has_none(
    hostile: Hostile, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    alert = reports.episode(
        Episode("x", "payments", Subject.VIOLATION, AlertState.FIRING, now, "d", "critical", "us", id=1, fired_at=now)
    )
    hostile.answer = says({"alerts": [alert]})
    assert run(["alerts", "list"]) == 0
    assert "silenced or not: this service is too old to say" in capsys.readouterr().out
    hostile.answer = says({"alerts": [{**alert, "silenced": None}]})
    assert run(["alerts", "list"]) == 0
    assert "silenced" not in capsys.readouterr().out


def test_nothing_that_a_service_says_steers_the_terminal(hostile: Hostile, capsys: pytest.CaptureFixture[str]) -> None:
    for answer in (
        says({"id": "inc-1", "files": {"a.py": STEER}}),
        says({"title": STEER, "detail": STEER, "remedy": STEER}, 409),
        says({"title": STEER}, 500),
        says(
            {
                "entries": [],
                "exit_code": 3,
                "canary": {"notifiers": [{"notifier": STEER, "sentence": STEER, "proven": False}]},
            }
        ),
    ):
        hostile.answer = answer
        for command in (["promote", "1", "--preview"], ["overview"], ["history", "x"], ["alerts", "list"]):
            run(command)
    said = capsys.readouterr()
    assert "taken" in said.out
    assert "taken" in said.err
    assert not set("\x1b\x07\u202e\x9b") & set(said.out + said.err)


def test_the_token_follows_no_redirect(hostile: Hostile) -> None:
    other = Hostile()
    try:
        for status in (301, 302, 303, 307, 308):
            hostile.answer = says({}, status, location=f"{other.url}/taken")
            assert run(["overview"]) == 4
        hostile.answer = says({}, 302, location="/api/v1/elsewhere")
        assert run(["overview"]) == 4
    finally:
        other.server.server_close()
    assert other.requests == []
    assert {path for path, _ in hostile.requests} == {"/api/v1/overview"}


def test_a_url_with_a_password_is_refused_and_not_shown(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be sent in place of the token, and be part of every message that names the service."""
    monkeypatch.setenv("HOLDTRUE_URL", hostile.url.replace("//", "//me:hunter2-secret@"))
    assert run(["overview"]) == 2
    assert "hunter2-secret" not in "".join(capsys.readouterr())
    assert hostile.requests == []
    with pytest.raises(Refused):
        ServiceClient("http://me@127.0.0.1:1", None)


def test_an_answer_that_never_ends_is_cut_off_by_size(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SIZE_LIMIT", 1_000_000)

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not hostile.over.is_set():
            handler.wfile.write(b" " * 65_536)

    hostile.answer = endless
    with ServiceClient(hostile.url, None) as ours, pytest.raises(ServiceError, match="more than"):
        ours.get("overview")


def test_an_answer_that_is_packed_is_not_unpacked(hostile: Hostile) -> None:
    import gzip

    hostile.answer = says(gzip.compress(b'{"a": 1}'), content_encoding="gzip")
    with ServiceClient(hostile.url, None) as ours, pytest.raises(ServiceError, match="not Holdtrue"):
        ours.get("overview")


@pytest.mark.parametrize("where", ["head", "body"])
def test_an_answer_that_trickles_is_cut_off_by_time(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Each byte is in time; all of them together never are."""
    monkeypatch.setattr(client, "TIME_LIMIT", timedelta(milliseconds=300))

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if where == "body":
            handler.send_header("content-length", "1000000")
            handler.end_headers()
        else:
            handler.flush_headers()
        while not hostile.over.wait(0.02):
            handler.wfile.write(b" " if where == "body" else b"x-more: 1\r\n")
            handler.wfile.flush()

    hostile.answer = trickle
    with ServiceClient(hostile.url, None) as ours, pytest.raises(ServiceError, match="took longer than"):
        ours.get("overview")


@pytest.mark.parametrize("body", [b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", b'{"a": ' + b"9" * 100_000 + b"}"])
def test_json_that_no_parser_takes_is_no_answer(hostile: Hostile, body: bytes) -> None:
    hostile.answer = says(body)
    with ServiceClient(hostile.url, None) as ours, pytest.raises(ServiceError, match="not Holdtrue"):
        ours.get("overview")
