"""What the commands make of a service's answers; the service is a real server that says what the test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from holdtrue.cli.client import ServiceClient
from holdtrue.errors import NotFound, Refused, ServiceError


@dataclass
class Answering:
    url: str = ""
    status: int = 200
    body: bytes = b"{}"
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def service() -> Iterator[Answering]:
    answering = Answering()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answering.requests.append((self.command, self.path, headers, self.rfile.read(length)))
            self.send_response(answering.status)
            self.send_header("content-length", str(len(answering.body)))
            self.end_headers()
            self.wfile.write(answering.body)

        do_GET = _answer  # noqa: N815  the server's names
        do_POST = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answering.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield answering
    server.shutdown()
    thread.join()
    server.server_close()


def test_names_travel_quoted_and_the_token_in_its_header(service: Answering) -> None:
    service.body = json.dumps({"fine": True}).encode()
    with ServiceClient(service.url, "the-token") as client:
        assert client.get("invariants", "../a b/ü", since="24h", runs=None) == {"fine": True}
    method, path, headers, _body = service.requests[0]
    assert (method, path) == ("GET", "/api/v1/invariants/..%2Fa%20b%2F%C3%BC?since=24h")
    assert headers["authorization"] == "Bearer the-token"


def test_an_unsafe_request_says_where_it_comes_from(service: Answering) -> None:
    """Semantics 11.2: an unsafe request is same-origin or carries a token; the command is the former without the latter."""
    with ServiceClient(service.url, None) as client:
        client.post("runs", body={"invariant": "x"})
    _method, _path, headers, body = service.requests[0]
    assert headers["origin"] == service.url
    assert "authorization" not in headers
    assert json.loads(body) == {"invariant": "x"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, ServiceError), (403, ServiceError), (404, NotFound), (409, Refused), (422, Refused), (500, ServiceError)],
)
def test_a_refusal_is_passed_on_in_the_services_words(
    service: Answering, status: int, expected: type[Exception]
) -> None:
    service.status = status
    service.body = json.dumps({"title": "No", "detail": "because of this", "remedy": "do that"}).encode()
    with ServiceClient(service.url, None) as client, pytest.raises(expected, match="because of this") as raised:
        client.get("overview")
    if status == 409:
        assert "do that" in str(raised.value)


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (200, b"[]"), (404, b"<html>"), (302, b"")])
def test_what_is_no_holdtrue_is_no_answer(service: Answering, status: int, body: bytes) -> None:
    service.status, service.body = status, body
    with ServiceClient(service.url, None) as client, pytest.raises(ServiceError):
        client.get("overview")


def test_a_url_that_leads_past_the_root_of_a_service_is_named_with_its_remedy(service: Answering) -> None:
    """Semantics 11.1: what the service says of an address is no word on an alert or an invariant."""
    service.status, service.body = 404, json.dumps({"status": 404, "detail": "There is no such page."}).encode()
    with (
        ServiceClient(f"{service.url}/somewhere", None) as client,
        pytest.raises(ServiceError, match=r"/somewhere answered 404: .*HOLDTRUE_URL is its root"),
    ):
        client.get("overview")


def test_a_service_that_is_not_there_is_an_error_of_the_service(service: Answering) -> None:
    with ServiceClient("http://127.0.0.1:1", None) as client, pytest.raises(ServiceError, match="did not answer"):
        client.get("overview")


def test_a_proxy_of_the_environment_never_stands_before_this_machine(
    service: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with ServiceClient(service.url, None) as client:
        assert client.get("overview") == {}


@pytest.mark.parametrize("url", ["http://[", "http://host:port", "http://\x00"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises((Refused, ServiceError)), ServiceClient(url, None) as client:
        client.get("overview")
