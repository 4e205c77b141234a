"""what is confidential in holdtrue.yaml: found before it is kept, resolved when it is used"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from holdtrue.catalog.shapes import REFERENCE
from holdtrue.errors import SettingsRefused
from holdtrue.model import Dialect, Secret

_SECRET_PARAMETERS: Final = re.compile(r"pass|pwd|secret|token", re.IGNORECASE)
_SCHEMES: Final = {
    "postgresql": Dialect.POSTGRESQL,
    "postgres": Dialect.POSTGRESQL,
    "sqlite": Dialect.SQLITE,
    "mysql": Dialect.MYSQL,
    "mariadb": Dialect.MYSQL,
}


def literal_password(url: str) -> str:
    """What is wrong with a URL that holds a password in plain text, or that is none; else nothing."""
    plain = REFERENCE.sub("", url)
    if not plain:
        return ""
    if "://" not in url and REFERENCE.match(url) is None:
        return "must be a URL such as postgresql://user@host/database or sqlite:///path"
    # A reference is hidden behind a mark, so that no part of it is taken for a part of the URL.
    try:
        parts = urlsplit(REFERENCE.sub("REFERENCE", url))
        if not parts.scheme.startswith("sqlite"):
            _ = parts.port if "REFERENCE" not in parts.netloc else None
    except ValueError:
        return (
            "must be a URL; percent-encode / ? # @ : in names, and give a password as `password: ${VARIABLE}` beside it"
        )
    user, _, _ = parts.netloc.rpartition("@")
    password = user.partition(":")[2]
    named = [value for name, value in parse_qsl(parts.query) if _SECRET_PARAMETERS.search(name)]
    if any(unquote(value).replace("REFERENCE", "") for value in (password, *named)):
        return (
            "holds a password in plain text, and this file is kept in the store and in git; "
            "write ${VARIABLE} in its place (beside a replica's URL, `password: ${VARIABLE}` takes it verbatim)"
        )
    return ""


def dialect_of(url: Secret, environ: Mapping[str, str]) -> Dialect | None:
    """The kind of database at a URL; None while the reference that it begins with is not set."""
    scheme = scheme_of(url, environ)
    return None if scheme is None else _SCHEMES.get(scheme.partition("+")[0], Dialect.OTHER)


def scheme_of(url: Secret, environ: Mapping[str, str]) -> str | None:
    """How a URL begins, in lower case (``mssql+pyodbc``); None while the reference that it begins with is not set."""
    text = url.template
    reference = REFERENCE.match(text)
    if reference is not None:
        try:
            text = resolve_secret(url, environ)
        except SettingsRefused:
            return None
    return text.partition("://")[0].lower()


def resolve_secret(secret: Secret, environ: Mapping[str, str]) -> str:
    """The text with every reference replaced, read now: passwords rotate (semantics 1.7).

    Raises:
        SettingsRefused: a variable is not set or a file cannot be read; it names them, never their values.
    """
    return REFERENCE.sub(lambda match: _read(match, environ), secret.template)


def missing_of(secret: Secret, environ: Mapping[str, str]) -> list[str]:
    """What of its references cannot be read now, each once; they are named, never their values."""
    found: list[str] = []
    for match in REFERENCE.finditer(secret.template):
        try:
            _read(match, environ)
        except SettingsRefused as refused:
            found.append(refused.message)
    return list(dict.fromkeys(found))


def _read(match: re.Match[str], environ: Mapping[str, str]) -> str:
    variable, path = match.groups()
    if variable is not None:
        value = environ.get(variable)
        if value is None:
            raise SettingsRefused(f"the environment variable {variable} is not set", remedy=f"set {variable}")
        return value
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as problem:
        # The cause is a path and an errno; a decoding error would carry the content, so it is not chained.
        cause = problem if isinstance(problem, OSError) else None
        raise SettingsRefused(f"the file {path} cannot be read", remedy="holdtrue.yaml names it") from cause
