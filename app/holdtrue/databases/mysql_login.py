"""reads a MariaDB or MySQL URL: where, as whom, and how sure of the server (pure)"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit


class TlsMode(StrEnum):
    """How sure a connection is of its server, as MySQL's own clients name it."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


@dataclass(frozen=True, slots=True)
class Tls:
    """The mode, and the files it needs."""

    mode: TlsMode = TlsMode.PREFERRED
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where and as whom to connect, as the driver's options; never printed."""

    options: dict[str, Any] = field(repr=False)
    tls: Tls = field(default_factory=Tls)


_FILES: Final = {"ssl_ca": "ca", "ssl_cert": "cert", "ssl_key": "key"}
_SWITCHES: Final = frozenset({"ssl_verify_cert", "ssl_verify_identity", "ssl_disabled"})
_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def read_address(url: str, password: str | None) -> Address | None:
    """Read ``mysql://user:password@host:3306/database?ssl_ca=/path``; None if it cannot be read.

    A password given apart is used verbatim; one in the URL is percent-encoded. An unknown parameter is refused, never
    ignored: a misspelt ``ssl_verify_identity`` must not quietly mean none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        return None
    if parts.scheme.partition("+")[0] not in ("mysql", "mariadb") or not parts.hostname or parts.fragment:
        return None
    said = dict(pairs)
    if len(said) < len(pairs):
        return None  # said twice: which one would it be?
    tls = _read_tls(said)
    said.pop("charset", None)  # always utf8mb4
    socket = said.pop("unix_socket", None)
    if tls is None or said:
        return None
    secret = password if password is not None else unquote(parts.password or "")
    options: dict[str, Any] = {
        "host": unquote(parts.hostname),
        "port": port,
        "user": unquote(parts.username or ""),
        # As bytes: the driver would encode a text as Latin-1.
        "password": secret.encode("utf-8", "surrogatepass"),
        "database": unquote(parts.path.removeprefix("/")) or None,
        "unix_socket": socket,
    }
    return Address(options, tls)


def _read_tls(said: dict[str, str]) -> Tls | None:
    """Take what is about TLS out of the parameters; None if it makes no sense."""
    files = {ours: said.pop(theirs) for theirs, ours in _FILES.items() if theirs in said}
    switches = {name: said.pop(name).lower() for name in _SWITCHES if name in said}
    if not all(files.values()) or not set(switches.values()) <= _YES | _NO:
        return None
    on = {name for name, value in switches.items() if value in _YES}
    # Whoever names an authority wants the certificate checked against it.
    mode = TlsMode.VERIFY_CA if "ca" in files else TlsMode.REQUIRED if files else TlsMode.PREFERRED
    if switches.get("ssl_verify_cert") in _NO:
        mode = TlsMode.REQUIRED
    if "ssl_verify_cert" in on:
        mode = TlsMode.VERIFY_CA
    if "ssl_verify_identity" in on:
        mode = TlsMode.VERIFY_IDENTITY
    if "ssl_disabled" in on:
        if len(on) > 1:
            return None
        mode = TlsMode.DISABLED
    if "ssl_mode" in said:
        word = said.pop("ssl_mode").lower()
        if word not in tuple(TlsMode) or switches:
            return None
        mode = TlsMode(word)
    if mode is TlsMode.DISABLED and files:
        return None
    return Tls(mode, **files)
