"""speaks to a running service through /api/v1"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx2

from holdtrue import __version__
from holdtrue.errors import NotFound, NotTried, Refused, ServiceError
from holdtrue.model import show_duration
from holdtrue.settings import Settings

PATIENCE = timedelta(seconds=30)
"""How long the service may be silent."""
TIME_LIMIT = timedelta(minutes=3)
"""How long one answer may take in all, however steadily it trickles."""
SIZE_LIMIT = 64 * 1024 * 1024
"""The longest answer that is read, in bytes."""

_NO_ROUTE = (
    "There is no such page."  # what a Holdtrue of this version says of an address, never of a thing it does not know
)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Answered(dict[str, Any]):
    """A JSON object that a service answered with: what is not in it is said in plain words, whoever asks for it."""

    def __missing__(self, key: str) -> object:
        """The service is of another version: what it says nothing of is unknown, and never taken for nothing.

        Raises:
            ServiceError: always.
        """
        raise ServiceError(
            f"the service says nothing of {key!r}",
            remedy=f"it is of another version than this command ({__version__}): use the same on both sides",
        )


class ServiceClient:
    """Asks the service at one URL; a context manager, for it holds a connection.

    Every method gives the answer's JSON object and raises:
        NotFound: the service knows no such thing.
        Refused: it refused the request, in its own words.
        ServiceError: it did not answer, failed, or is no Holdtrue.
    """

    def __init__(self, url: str, token: str | None) -> None:
        """Speak to the service at ``url``, with a bearer token if there is one.

        Raises:
            Refused: it is no URL, or holds a password.
        """
        if "@" in _authority(url):
            # It would be sent instead of the token, and stand in every message of ours.
            raise Refused("HOLDTRUE_URL holds a user or a password", remedy="set HOLDTRUE_TOKEN instead")
        self._url = url
        headers = {
            "accept": "application/json",
            # What comes packed may unpack to any size.
            "accept-encoding": "identity",
            "user-agent": f"holdtrue/{__version__}",
            "origin": _origin(url),
        }
        if token:
            headers["authorization"] = f"Bearer {token}"
        try:
            self._http = httpx2.Client(
                base_url=f"{url}/api/v1/",
                headers=headers,
                timeout=PATIENCE.total_seconds(),
                # A proxy of the environment stands between us and the network, never between us and ourselves.
                trust_env=urlsplit(url).hostname not in _LOOPBACK,
            )
        except httpx2.InvalidURL as problem:
            raise Refused("HOLDTRUE_URL is not a URL") from problem

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._http.close()

    def get(self, *path: str, **query: str | int | Sequence[str] | None) -> dict[str, Any]:
        """Read; the parts of the path are quoted, None leaves a parameter out, and a sequence gives it several times."""
        wanted: dict[str, str | list[str]] = {
            name: str(value) if isinstance(value, str | int) else list(value)
            for name, value in query.items()
            if value is not None
        }
        return self._ask("GET", path, params=wanted)

    def post(self, *path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Ask for something to be done."""
        return self._ask("POST", path, json=dict(body or {}))

    def _ask(self, method: str, path: tuple[str, ...], **options: Any) -> dict[str, Any]:  # noqa: ANN401  httpx2's own
        try:
            with (
                self._in_time() as late,
                self._http.stream(method, "/".join(quote(part, safe="") for part in path), **options) as answer,
            ):
                content = self._read(answer)
        # A connection that was closed under it fails in ways of its own.
        except (httpx2.HTTPError, OSError, RuntimeError) as problem:
            why = f"took longer than {show_duration(TIME_LIMIT)}" if late.is_set() else type(problem).__name__
            raise ServiceError(
                f"the service at {self._url} did not answer: {why}",
                remedy="see HOLDTRUE_URL, and whether `holdtrue serve` runs there",
            ) from problem
        return self._judge(answer, content)

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[threading.Event]:
        """Within: an answer that takes too long is cut off; the event says so."""
        late = threading.Event()

        def cut() -> None:
            late.set()
            with contextlib.suppress(Exception):
                self._http.close()

        timer = threading.Timer(TIME_LIMIT.total_seconds(), cut)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def _read(self, answer: httpx2.Response) -> bytes:
        content = bytearray()
        for piece in answer.iter_raw():
            content += piece
            if len(content) > SIZE_LIMIT:
                raise ServiceError(
                    f"the service at {self._url} answered with more than {SIZE_LIMIT >> 20} MiB; the rest was not read"
                )
        return bytes(content)

    def _judge(self, answer: httpx2.Response, content: bytes) -> dict[str, Any]:
        body = _object(content)
        if answer.is_success:
            if body is None:
                raise ServiceError(
                    f"what answers at {self._url} is not Holdtrue", remedy="HOLDTRUE_URL is its root, without /api/v1"
                )
            return body
        said, remedy = _sentence(body), str((body or {}).get("remedy") or "")
        if answer.status_code in (401, 403):
            raise ServiceError(f"the service refused us: {said or answer.status_code}", remedy="set HOLDTRUE_TOKEN")
        if said == _NO_ROUTE:
            raise ServiceError(
                f"the service at {self._url} answered 404: {said}",
                remedy="HOLDTRUE_URL is its root, without /api/v1",
            )
        if answer.status_code == 404 and body is not None:
            raise NotFound(said or "the service knows no such thing", remedy=remedy)
        if answer.status_code == 409 and body is not None and body.get("reason") == "not tried":
            raise NotTried(said or "the service could not try the rows", remedy=remedy)
        if 400 <= answer.status_code < 500 and body is not None:
            raise Refused(said or f"the service refused the request ({answer.status_code})", remedy=remedy)
        raise ServiceError(f"the service at {self._url} answered {answer.status_code}{f': {said}' if said else ''}")


def service_client(settings: Settings) -> ServiceClient | None:
    """The client for HOLDTRUE_URL, or None when it is not set and the store is to be opened instead."""
    if not settings.url:
        return None
    return ServiceClient(settings.url, settings.token.get_secret_value() if settings.token else None)


def _authority(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError as problem:
        raise Refused("HOLDTRUE_URL is not a URL") from problem


def _origin(url: str) -> str:
    return f"{urlsplit(url).scheme}://{_authority(url)}"


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(content, object_hook=Answered)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _sentence(body: Mapping[str, Any] | None) -> str:
    """What the service says in a problem answer."""
    if body is None:
        return ""
    return str(body.get("detail") or body.get("title") or "")
