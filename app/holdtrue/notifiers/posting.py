"""one bounded HTTP request: no redirect, a whole answer within the time, failures as data in our own words"""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import httpcore2
import httpx2

from holdtrue import __version__
from holdtrue.errors import SettingsRefused
from holdtrue.model import Undelivered
from holdtrue.notifiers.connecting import InternalAddress, Line, Resolve, resolve
from holdtrue.notifiers.notifier import MAY_HAVE_ARRIVED

TIME_LIMIT = 10.0
SIZE_LIMIT = 64 * 1024
"""How much of an answer is read, in bytes; 0 reads nothing but the head."""

Method = Literal["GET", "POST", "DELETE"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; header names are in small letters, and ``content`` is cut at the size limit."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nothing came back, in our own words: never an address, a header or a library's text.

    ``perhaps_taken``: it had been sent, so nobody knows.
    """

    sentence: str
    perhaps_taken: bool = False


@dataclass(frozen=True, slots=True)
class Posting:
    """How requests are made. A guarded one connects to no internal address, and therefore goes through no proxy.

    ``tls`` is asked at each request to an ``https`` address.
    """

    time_limit: float = TIME_LIMIT
    size_limit: int = SIZE_LIMIT
    guarded: bool = False
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    resolving: Resolve = field(default=resolve, repr=False)

    def post(self, url: str, content: bytes, headers: Mapping[str, str]) -> Answer | Unanswered:
        """Send JSON; never raises."""
        return self.ask("POST", url, content, {"content-type": "application/json; charset=utf-8", **headers})

    def ask(
        self, method: Method, url: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer | Unanswered:
        """Make one request; never raises."""
        try:
            return self._ask(method, url, content, headers or {})
        except InternalAddress:
            return Unanswered("its address is internal, and `allow_internal` is not set")
        except SettingsRefused as problem:
            return Unanswered(problem.message)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as problem:
            # Nothing was sent yet: before a request there is a connection, and TLS.
            return Unanswered(f"it did not answer ({_cause_of(problem)})")
        except (httpx2.InvalidURL, ValueError):
            return Unanswered("its address, or a secret, is none that could be sent")
        except Exception as problem:  # noqa: BLE001 - whatever the network does; the library's text may hold the address
            return Unanswered(f"it did not answer ({type(problem).__name__})", perhaps_taken=True)

    def _ask(self, method: Method, url: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        parts = httpx2.URL(url)
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ValueError
        sent = {
            "host": parts.netloc.decode("ascii"),
            "user-agent": f"holdtrue/{__version__}",
            # What comes packed may unpack to any size.
            "accept-encoding": "identity",
            "connection": "close",
            **headers,
        }
        target = httpcore2.URL(
            scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path or b"/"
        )
        with (
            Line(self.time_limit, guarded=self.guarded, resolving=self.resolving) as line,
            self._pool(parts, _Backend(line)) as pool,
            pool.stream(
                method,
                target,
                headers=[(name.encode("ascii"), value.encode("ascii")) for name, value in sent.items()],
                content=content,
                extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), self.time_limit)},
            ) as answer,
        ):
            return Answer(
                answer.status,
                {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers},
                _cut(answer.iter_stream(), self.size_limit),
            )

    def _pool(self, url: httpx2.URL, backend: httpcore2.NetworkBackend) -> httpcore2.ConnectionPool:
        # Reading every authority of this machine takes time, and a plain address needs none.
        context = self.tls() if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        proxy = None if self.guarded else _proxy_for(url)
        if proxy is None:
            return httpcore2.ConnectionPool(ssl_context=context, network_backend=backend, max_connections=1)
        if proxy.scheme not in ("http", "https"):
            raise SettingsRefused("the environment's proxy is no http one")
        return httpcore2.HTTPProxy(
            httpcore2.URL(scheme=proxy.raw_scheme, host=proxy.raw_host, port=proxy.port, target=b"/"),
            proxy_auth=(proxy.username, proxy.password) if proxy.username else None,
            ssl_context=context,
            network_backend=backend,
            max_connections=1,
        )


class _Backend(httpcore2.SyncBackend):
    """Connects by a line: to the addresses that it has checked, and for as long as it lets us."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the line knows how long
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """A connection to the name's first address that answers."""
        connect = super().connect_tcp

        def connecting(address: str, seconds: float) -> httpcore2.NetworkStream:
            return connect(address, port, seconds, local_address, socket_options)

        try:
            stream: httpcore2.NetworkStream = self._line.connect(host, port, connecting)
        except OSError as problem:
            raise httpcore2.ConnectError from problem
        self._line.hold(stream.get_extra_info("socket"))
        return stream


def as_refusal(who: str, answer: Answer) -> Undelivered:
    """An answer that is no good one, by what can be done about it; nothing of its content is repeated."""
    status, pause = answer.status, retry_after(answer.headers)
    if status == 429:
        return Undelivered(f"{who} asks for a pause (429)", retry_after=pause or 1.0)
    if status >= 500 or status in (408, 425):
        return Undelivered(f"{who} answered {status}", retry_after=pause)
    if status // 100 == 3:
        return Undelivered(f"{who} redirects ({status}), and redirects are never followed", permanent=True)
    if status in (401, 403):
        return Undelivered(f"{who} refused the login ({status})", login=True)
    return Undelivered(f"{who} refused it ({status})", permanent=True)


def as_silence(who: str, unanswered: Unanswered) -> Undelivered:
    """No answer at all: a retry may mend it, and is marked if the message may have arrived."""
    unclear = f"; {MAY_HAVE_ARRIVED}" if unanswered.perhaps_taken else ""
    return Undelivered(f"{who}: {unanswered.sentence}{unclear}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The pause that an answer asks for, in seconds; it is written as seconds or as a date."""
    text = headers.get("retry-after", "").strip()
    try:
        if text.isascii() and text.replace(".", "", 1).isdigit():
            return float(text)
        until = parsedate_to_datetime(text)
        return max(0.0, ((until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None


def _proxy_for(url: httpx2.URL) -> httpx2.URL | None:
    """The environment's proxy (HTTPS_PROXY, NO_PROXY …) towards this address."""
    if urllib.request.proxy_bypass(url.host):
        return None
    found = urllib.request.getproxies()
    proxy = found.get(url.scheme) or found.get("all")
    return httpx2.URL(proxy if "://" in proxy else f"http://{proxy}") if proxy else None


def _cut(pieces: Iterable[bytes], limit: int) -> bytes:
    content = bytearray()
    if limit:
        for piece in pieces:
            content += piece
            if len(content) >= limit:
                break
    return bytes(content[:limit])


def _cause_of(problem: BaseException) -> str:
    """The innermost name of what went wrong: a certificate that is not trusted, a connection refused …"""
    while (inner := problem.__cause__ or problem.__context__) is not None and isinstance(inner, OSError):
        problem = inner
    return type(problem).__name__
