"""speaks to every member of an Alertmanager cluster: what fires, what has ended, silences"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from holdtrue.catalog import resolve_secret
from holdtrue.errors import SettingsRefused
from holdtrue.model import NotifierConfig, Secret
from holdtrue.notifiers.posting import Posting, Unanswered

TIME_LIMIT = 10.0
SIZE_LIMIT = 64 * 1024 * 1024
"""The longest answer that is read, in bytes: a list of all that fires."""
AT_ONCE = 500
"""How many alerts one request carries."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A member did not take it, or did not answer; our own words, never an address, a secret or a body.

    ``answered`` is whether it said so itself: then another request may fare better.
    """

    sentence: str
    answered: bool = False


class Member:
    """One Alertmanager of a cluster. Calls block, at most for the time limit, and never raise."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        headers: Callable[[], Mapping[str, str]],
        tls: Callable[[], ssl.SSLContext] | None,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        """Speak to the one at ``url``, called ``name`` in logs and metrics.

        Secrets and certificates are read at each call, since they rotate.
        """
        self._url = url.rstrip("/")
        self._headers = headers
        self._posting = Posting(
            time_limit=time_limit, size_limit=SIZE_LIMIT, tls=tls if tls is not None else ssl.create_default_context
        )
        self.name = name

    def push(self, alerts: Sequence[Mapping[str, Any]]) -> Problem | None:
        """Tell it these alerts, in its own form; None once it has taken all of them.

        What it refuses of them keeps nothing else from it.
        """
        refused: Problem | None = None
        for start in range(0, max(1, len(alerts)), AT_ONCE):
            answer = self.ask("POST", "/api/v2/alerts", alerts[start : start + AT_ONCE])
            if isinstance(answer, Problem):
                if not answer.answered:
                    return answer
                refused = refused or answer
        return refused

    def active(self) -> frozenset[tuple[tuple[str, str], ...]] | Problem:
        """The labels of what fires there, silenced or not, sorted by name."""
        answer = self.ask("GET", "/api/v2/alerts")
        if isinstance(answer, Problem):
            return answer
        if not isinstance(answer, list):
            return Problem("it is no Alertmanager: it lists no alerts")
        labels = [one.get("labels") for one in answer if isinstance(one, dict)]
        return frozenset(
            tuple(sorted((str(name), str(value)) for name, value in one.items()))
            for one in labels
            if isinstance(one, dict)
        )

    def up_for(self, now: datetime) -> float | None:
        """Seconds since it began, or None if it does not say."""
        answer = self.ask("GET", "/api/v2/status")
        try:
            return (now - datetime.fromisoformat(answer["uptime"])).total_seconds()
        except (TypeError, KeyError, ValueError):
            return None

    def ask(self, method: Literal["GET", "POST", "DELETE"], path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        """One request; what the answer's JSON holds (None if it holds none), or the problem."""
        try:
            content = None if body is None else json.dumps(body, ensure_ascii=True).encode("ascii")
            sent = {"content-type": "application/json"} if content is not None else {}
            answer = self._posting.ask(method, self._url + path, content, {**sent, **self._headers()})
            if isinstance(answer, Unanswered):
                return Problem(answer.sentence)
            if answer.status // 100 != 2:
                return Problem(f"it answered {answer.status}", answered=True)
            return json.loads(answer.content) if answer.content.strip() else None
        except SettingsRefused as problem:
            return Problem(f"the secret cannot be read: {problem.message}")
        except Exception as problem:  # noqa: BLE001 - what it answered is no JSON, for one; a library's text may hold the address
            return Problem(f"it did not answer ({type(problem).__name__})")


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """A configured cluster: its members and how often, and for how long, they are told."""

    name: str
    members: tuple[Member, ...]
    resend_every: timedelta
    keep_for: timedelta

    kind = "alertmanager"


def build_alertmanager(config: NotifierConfig, environ: Mapping[str, str]) -> Alertmanager:
    """The cluster that ``config`` describes; its secrets are read from ``environ`` now, and again at each use.

    Raises:
        SettingsRefused: a secret or a file cannot be read, or an address is none.
    """
    token, password = _secret(config, "token", environ), _secret(config, "password", environ)
    username = str(config.option("username") or "")
    tls = _tls_of(config)
    urls = config.option("urls")
    addresses = (
        [_address(config.name, one, environ) for one in urls if isinstance(one, Secret)]
        if isinstance(urls, tuple)
        else []
    )
    if not addresses:
        raise SettingsRefused(f"notifier {config.name!r} names no member", remedy="urls: [http://alertmanager:9093]")

    def headers() -> Mapping[str, str]:
        if token is not None:
            return {"authorization": f"Bearer {token()}"}
        if password is not None:
            login = f"{username}:{password()}".encode()
            return {"authorization": f"Basic {base64.b64encode(login).decode('ascii')}"}
        return {}

    members = tuple(
        Member(
            url,
            name,
            headers=headers,
            tls=tls,
        )
        for name, url in _named(addresses).items()
    )
    return Alertmanager(
        config.name,
        members,
        _duration(config, "resend_every", timedelta(minutes=1)),
        _duration(config, "keep_for", timedelta(minutes=15)),
    )


def _named(addresses: Iterable[str]) -> dict[str, str]:
    """Each address under its host and port; a path may be secret, so those that differ by it alone are numbered."""
    named: dict[str, str] = {}
    for address in dict.fromkeys(addresses):
        place = urlsplit(address).netloc
        again = sum(1 for one in named if one.partition("#")[0] == place)
        named[f"{place}#{again + 1}" if again else place] = address
    return named


def _secret(config: NotifierConfig, key: str, environ: Mapping[str, str]) -> Callable[[], str] | None:
    option = config.option(key)
    if not isinstance(option, Secret):
        return None
    resolve_secret(option, environ)
    return lambda: resolve_secret(option, environ)


def _address(name: str, url: Secret, environ: Mapping[str, str]) -> str:
    address = resolve_secret(url, environ)
    if not address.startswith(("http://", "https://")) or "@" in urlsplit(address).netloc:
        # Said without the address: it may hold a password.
        raise SettingsRefused(
            f"notifier {name!r} has a member that is no plain http address",
            remedy="write https://alertmanager-1:9093, and `username:` and `password:` beside `urls`",
        )
    return address


def _duration(config: NotifierConfig, key: str, default: timedelta) -> timedelta:
    option = config.option(key)
    return option if isinstance(option, timedelta) else default


def _tls_of(config: NotifierConfig) -> Callable[[], ssl.SSLContext] | None:
    ca, cert, key = (str(config.option(one) or "") or None for one in ("ca_file", "cert_file", "key_file"))
    if ca is None and cert is None:
        return None

    def context() -> ssl.SSLContext:
        try:
            made = ssl.create_default_context(cafile=ca)
            if cert is not None:
                made.load_cert_chain(cert, key)
        except (OSError, ValueError) as problem:
            raise SettingsRefused(
                f"notifier {config.name!r} names a certificate, key or authority that cannot be read",
                remedy="ca_file, cert_file and key_file are files in PEM form",
            ) from problem
        return made

    context()
    return context
