"""checks the parameters of a replica's URL: a misspelt demand for safety must not quietly mean none"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from holdtrue.catalog.shapes import REFERENCE, nearest
from holdtrue.model import Dialect

_WHERE: Final = {
    "host",
    "hostaddr",
    "port",
    "dbname",
    "service",
    "servicefile",
    "load_balance_hosts",
    "target_session_attrs",
}
_WHO: Final = {"user", "password", "passfile", "require_auth", "requirepeer", "scram_client_key", "scram_server_key"}
_KERBEROS: Final = {"gssencmode", "gssdelegation", "gsslib", "krbsrvname"}
_OAUTH: Final = {"oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope"}
_CERTIFICATES: Final = {"sslcert", "sslkey", "sslpassword", "sslcertmode", "sslrootcert", "sslcrl", "sslcrldir"}
_TLS: Final = {"ssl", "sslmode", "sslnegotiation", "sslsni", "sslcompression", "sslkeylogfile", "channel_binding"}
_VERSIONS: Final = {
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "min_protocol_version",
    "max_protocol_version",
}
_LIFE: Final = {"connect_timeout", "tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval"}
_SESSION: Final = {"options", "application_name", "fallback_application_name", "client_encoding", "keepalives_count"}
_POSTGRESQL: Final = frozenset(
    _WHERE | _WHO | _KERBEROS | _OAUTH | _CERTIFICATES | _TLS | _VERSIONS | _LIFE | _SESSION | {"replication"}
)
_MYSQL: Final = frozenset(
    {"ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "ssl_verify_cert", "ssl_verify_identity", "ssl_disabled"}
    | {"unix_socket", "charset"}
)
_SWITCH: Final = frozenset({"0", "1", "true", "false", "yes", "no", "on", "off"})
_VALUES: Final = {
    Dialect.POSTGRESQL: {
        "sslmode": frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}),
        "sslnegotiation": frozenset({"postgres", "direct"}),
        "channel_binding": frozenset({"disable", "prefer", "require"}),
        "gssencmode": frozenset({"disable", "prefer", "require"}),
        "target_session_attrs": frozenset({"any", "read-write", "read-only", "primary", "standby", "prefer-standby"}),
    },
    Dialect.MYSQL: {
        "ssl_mode": frozenset({"disabled", "preferred", "required", "verify_ca", "verify_identity"}),
        "ssl_disabled": _SWITCH,
        "ssl_verify_cert": _SWITCH,
        "ssl_verify_identity": _SWITCH,
    },
}
_KNOWN: Final = {Dialect.POSTGRESQL: _POSTGRESQL, Dialect.MYSQL: _MYSQL, Dialect.SQLITE: frozenset[str]()}
_HIDDEN: Final = "\x00"


@dataclass(frozen=True, slots=True)
class Misspelt:
    """What is wrong with a parameter, the word itself, and what was probably meant."""

    message: str
    word: str
    meant: str = ""


def misspelt_parameters(url: str, dialect: Dialect) -> tuple[Misspelt, ...]:
    """Every parameter that is not known for this dialect, or has a value that it cannot have; references are passed over.

    A URL that is wholly a reference is checked when it is used.
    """
    known = _KNOWN.get(dialect)
    if known is None:
        return ()
    query = REFERENCE.sub(_HIDDEN, url).partition("?")[2]
    found = []
    seen: set[str] = set()
    for name, value in parse_qsl(query, keep_blank_values=True):
        if _HIDDEN in name:
            continue
        if name in seen and name in known:
            # The driver takes the last one and says nothing.
            found.append(Misspelt("the URL says a parameter twice", name))
        seen.add(name)
        if name not in known:
            found.append(_unknown(name, known))
            continue
        allowed = _VALUES.get(dialect, {}).get(name)
        said = value.lower() if dialect is Dialect.MYSQL else value
        if allowed is not None and _HIDDEN not in value and said not in allowed:
            meant = nearest(value, allowed)
            choice = ", ".join(sorted(allowed))
            found.append(Misspelt(f"the URL's parameter `{name}` is one of {choice}", value, meant))
    return tuple(found)


def _unknown(name: str, known: frozenset[str]) -> Misspelt:
    if not known:
        return Misspelt("a SQLite URL has no parameters: the file is opened read-only always", name)
    return Misspelt("the URL has a parameter that the driver does not know", name, nearest(name, known))
