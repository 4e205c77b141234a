"""who may ask: Host, origin, tokens, form tokens, and the headers that every answer carries"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdtrue.bootstrap.faces import WebService
from holdtrue.web.problems import problem

FORM_COOKIE = "holdtrue_form"
SESSION_COOKIE = "holdtrue_session"
SESSION_LIFE = timedelta(hours=12)

BODY_LIMIT = 64 * 1024
"""The longest body that is read, in bytes: many times the longest form or request that we have."""

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?", re.ASCII)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_PROBES = frozenset({"/healthz", "/readyz"})
_OPEN = frozenset({"/healthz", "/readyz", "/sign-in"})

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further."""

    status: int
    title: str
    detail: str


def judge_host(host: str | None, service: WebService) -> Refusal | None:
    """Without access configured, ``Host`` must be a loopback name or a declared one (semantics 11.2).

    A page that an engineer visits can point its own name at 127.0.0.1 and read us with the engineer's browser; it cannot
    change what the browser then writes in ``Host``.
    """
    if service.token is not None or "*" in service.hosts:
        return None
    name = host_name(host or "")
    if name in _LOOPBACK or name in service.hosts:
        return None
    return Refusal(
        421,
        "Misdirected request",
        "This name is not one that Holdtrue is served under. Ask localhost or 127.0.0.1, or configure a token.",
    )


def judge_origin(headers: Headers, *, bearer: bool) -> Refusal | None:
    """An unsafe request must come from our own pages or carry a token (semantics 11.2).

    ``Sec-Fetch-Site`` is the browser's own word, which no page can forge, so it decides where it is sent. A request with
    neither it nor ``Origin`` proves nothing, and is refused: a program sends its token, or the ``Origin`` it asks.
    """
    if bearer:
        return None
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if site == "same-origin":
        return None
    if site is None and origin is not None and _same_origin(origin, headers.get("host", "")):
        return None
    if site is None and origin is None:
        return Refusal(403, "Not proven to be from here", "Send a bearer token, or the Origin of this service.")
    return Refusal(403, "Not from here", "This request came from another site.")


def host_name(host: str) -> str:
    """The name in a Host header, without port and brackets, lower case; empty if there is more to it than a name and a port."""
    found = _HOST.fullmatch(host)
    return (found.group(1) or found.group(2)).lower() if found else ""


def bearer_of(headers: Headers) -> str | None:
    """The bearer token that the request carries, or None."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" and value.strip() else None


def same_secret(given: str | None, wanted: str) -> bool:
    """Whether the two are equal, compared in constant time."""
    return given is not None and hmac.compare_digest(given.encode(), wanted.encode())


def new_session(token: str, now: datetime) -> str:
    """A session's cookie: when it ends, signed with the token. Every instance that has the token accepts it."""
    until = str(int((now + SESSION_LIFE).timestamp()))
    return f"{until}.{_sign(token, until)}"


def session_holds(cookie: str | None, token: str, now: datetime) -> bool:
    """Whether the cookie is one of ours and has not ended."""
    until, _, signature = (cookie or "").partition(".")
    if not until.isascii() or not until.isdigit() or not same_secret(signature, _sign(token, until)):
        return False
    return int(until) > now.timestamp()


def form_token(request: Request) -> str:
    """The token that this browser's forms must carry: the cookie's value, or a new one that the answer will set."""
    known = request.cookies.get(FORM_COOKIE)
    if known and known.isalnum() and len(known) == 64:
        return known
    if not hasattr(request.state, "form_token"):
        request.state.form_token = secrets.token_hex(32)
    return str(request.state.form_token)


def form_holds(request: Request, given: str) -> bool:
    """Whether the form's token is the cookie's."""
    known = request.cookies.get(FORM_COOKIE)
    return bool(known) and same_secret(given, known or "")


class FormRefused(Exception):
    """A form came without the token that our page gave it."""


def check_form(request: Request, given: str) -> None:
    """Go on only with the form's token.

    Raises:
        FormRefused: it is not the cookie's.
    """
    if not form_holds(request, given):
        raise FormRefused


def is_secure(request: Request) -> bool:
    """Whether the browser came over TLS, so that cookies may be held to it."""
    return request.url.scheme == "https"


def judge_length(headers: Headers) -> Response | None:
    """Refuse a body that says itself that it is too long; one that says nothing is counted as it comes."""
    length = headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= BODY_LIMIT:
        return None
    return problem(413, "The body is too long", f"At most {BODY_LIMIT >> 10} KiB are read.")


class Guard:
    """Refuses what must not pass, before any endpoint runs, and puts our headers on every answer."""

    def __init__(self, app: ASGIApp, service: WebService) -> None:
        """Stand before ``app``."""
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path: str = scope["path"]
        bearer = bearer_of(headers)
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        # No clock of the store here: the probe of the process must answer while the store does not.
        state["who"] = self._identity(headers, bearer)
        answer = judge_length(headers) or self._judge(scope["method"], path, headers, bearer)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    out.setdefault(name, value)
                out.setdefault("cache-control", "no-store")
            await send(message)

        left = BODY_LIMIT

        async def receive_bounded() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                # FastAPI's own: any other exception would come out as a body that cannot be parsed.
                raise HTTPException(413, "The body is too long")
            return message

        await (answer or self._app)(scope, receive_bounded, send_guarded)

    def _identity(self, headers: Headers, bearer: str | None) -> str:
        """What the audit trail calls whoever asks."""
        if self._knows(bearer):
            return "token"
        return "session" if self._has_session(headers) else "loopback"

    def _has_session(self, headers: Headers) -> bool:
        token = self._service.token
        return token is not None and session_holds(_cookie(headers, SESSION_COOKIE), token, datetime.now(UTC))

    def _knows(self, bearer: str | None) -> bool:
        return self._service.token is not None and same_secret(bearer, self._service.token)

    def _judge(self, method: str, path: str, headers: Headers, bearer: str | None) -> Response | None:
        if path in _PROBES:
            return None
        if path == "/metrics":
            return self._judge_metrics(headers, bearer)
        if (refusal := judge_host(headers.get("host"), self._service)) is not None:
            return problem(refusal.status, refusal.title, refusal.detail)
        known = self._knows(bearer)
        if method not in _SAFE and (refusal := judge_origin(headers, bearer=known)) is not None:
            return problem(refusal.status, refusal.title, refusal.detail)
        token = self._service.token
        if token is None or known or path in _OPEN or path.startswith("/static/"):
            return None
        if self._has_session(headers):
            return None
        if path.startswith(("/api/", "/-/")) or method not in _SAFE:
            return problem(
                401, "Token needed", "Send `Authorization: Bearer …`.", headers={"www-authenticate": "Bearer"}
            )
        return RedirectResponse("/sign-in", status_code=303)

    def _judge_metrics(self, headers: Headers, bearer: str | None) -> Response | None:
        wanted = self._service.metrics_token
        if wanted is not None:
            if same_secret(bearer, wanted) or self._knows(bearer):
                return None
            return problem(
                401, "Token needed", "Send `Authorization: Bearer …`.", headers={"www-authenticate": "Bearer"}
            )
        if (refusal := judge_host(headers.get("host"), self._service)) is not None:
            return problem(refusal.status, refusal.title, refusal.detail)
        return None


def _sign(token: str, until: str) -> str:
    return hmac.new(token.encode(), f"holdtrue session {until}".encode(), hashlib.sha256).hexdigest()


def _same_origin(origin: str, host: str) -> bool:
    try:
        there, here = urlsplit(origin), urlsplit(f"//{host}")
        return bool(there.hostname) and (there.hostname, _port(there.scheme, there.port)) == (
            here.hostname,
            _port(there.scheme, here.port),
        )
    except ValueError:
        return False


def _port(scheme: str, port: int | None) -> int | None:
    return port if port is not None else {"http": 80, "https": 443}.get(scheme)


def _cookie(headers: Headers, name: str) -> str | None:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(headers.get("cookie", ""))
    except CookieError:
        return None
    return jar[name].value if name in jar else None
