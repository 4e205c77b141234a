"""says in our own words what a PostgreSQL error code means (pure)"""

from __future__ import annotations

from datetime import timedelta

from holdtrue.model import Failure, FailureReason, show_duration

_EXACT: dict[str, tuple[FailureReason, str]] = {
    "55P03": (FailureReason.LOCK_WAIT, "lock wait: another session holds a lock that this query needs"),
    "40001": (FailureReason.CONFLICT, "recovery conflict: replay on the replica cancelled the query"),
    "40P01": (FailureReason.CONFLICT, "recovery conflict: a deadlock with replay cancelled the query"),
    "25006": (FailureReason.WRITES, "the text tried to write; the transaction is read-only"),
    "25001": (FailureReason.WRITES, "the text tried to change its transaction; it is read-only"),
    "42501": (FailureReason.FORBIDDEN, "permission denied: the login may not read what the text names"),
    "42601": (FailureReason.QUERY, "the text has a syntax error, or more than one statement"),
    "42P01": (FailureReason.QUERY, "a table or view that the text names does not exist (relation does not exist)"),
    "42703": (FailureReason.QUERY, "a column that the text names does not exist"),
    "42883": (FailureReason.QUERY, "a function or operator of the text does not exist for these types"),
    "42804": (FailureReason.QUERY, "types in the text do not fit together"),
    "42702": (FailureReason.QUERY, "a column name in the text is ambiguous"),
    "42803": (FailureReason.QUERY, "the text groups wrongly: a column is neither grouped nor aggregated"),
    "3F000": (FailureReason.QUERY, "a schema that the text names does not exist"),
    "22012": (FailureReason.QUERY, "the text divided by zero"),
    "22P02": (FailureReason.QUERY, "a value could not be read as the type the text asks for"),
    "22003": (FailureReason.QUERY, "a number is out of range"),
    "22007": (FailureReason.QUERY, "a value is not a date or time"),
    "22008": (FailureReason.QUERY, "a date or time is out of range"),
    "21000": (FailureReason.QUERY, "a sub-query that must give one row gave several"),
    "22021": (FailureReason.QUERY, "a value cannot be converted to UTF-8"),
    "22P05": (FailureReason.QUERY, "a value cannot be converted to UTF-8"),
    "53100": (FailureReason.QUERY, "the server's disk is full"),
    "53200": (FailureReason.QUERY, "the server is out of memory"),
    "53400": (FailureReason.QUERY, "a limit that the server's operator set was exceeded"),
    "54001": (FailureReason.QUERY, "the text is too complex for the server (stack depth)"),
    "54000": (FailureReason.QUERY, "a limit of the server was exceeded"),
    "57P01": (FailureReason.LOST, "connection lost: the server ended this session"),
    "57P02": (FailureReason.LOST, "connection lost: a crash on the server ended this session"),
    "57P03": (FailureReason.REFUSED, "connection refused: the server is not accepting connections yet"),
    "57P04": (FailureReason.REFUSED, "connection refused: the database was dropped"),
    "57P05": (FailureReason.LOST, "connection lost: the server ended this idle session"),
    "25P03": (FailureReason.LOST, "connection lost: the session was idle in its transaction for too long"),
    "25P04": (FailureReason.LOST, "connection lost: the transaction took longer than the server allows"),
    "53300": (FailureReason.REFUSED, "connection refused: the server has no free connection slot"),
    "28P01": (FailureReason.REFUSED, "connection refused: wrong user or password"),
    "28000": (FailureReason.REFUSED, "connection refused: this login is not allowed"),
    "3D000": (FailureReason.REFUSED, "connection refused: there is no such database"),
}
_CLASSES: dict[str, tuple[FailureReason, str]] = {
    "08": (FailureReason.LOST, "connection lost"),
    "22": (FailureReason.QUERY, "the text failed on a value of the data"),
    "23": (FailureReason.WRITES, "the text tried to write"),
    "25": (FailureReason.QUERY, "the transaction does not allow what the text asks for"),
    "28": (FailureReason.REFUSED, "connection refused: this login is not allowed"),
    "42": (FailureReason.QUERY, "the text is not valid on this server"),
    "53": (FailureReason.QUERY, "the server is short of resources"),
    "57": (FailureReason.LOST, "connection lost: an operator of the server intervened"),
    "58": (FailureReason.QUERY, "the server failed to read its files"),
    "XX": (FailureReason.QUERY, "internal error of the server; its data may be damaged"),
}


def explain(
    sqlstate: str | None,
    *,
    limit: timedelta,
    interrupted: bool,
    position: int | None = None,
    raw: str | None = None,
) -> Failure:
    """The failure for an error code; the server's message, detail and hint carry row values and are left out (3.5).

    A statement timeout and a cancelled statement share their code: ``interrupted`` tells them apart. No code at all means
    that the connection ended.
    """
    if sqlstate == "57014":
        if interrupted:
            return Failure(FailureReason.INTERRUPTED, "interrupted: Holdtrue is stopping", sqlstate, position, raw)
        return Failure(FailureReason.TIMEOUT, timeout(limit).sentence, sqlstate, position, raw)
    if sqlstate is None:
        if interrupted:
            return Failure(FailureReason.INTERRUPTED, "interrupted: Holdtrue is stopping", None, None, raw)
        return Failure(FailureReason.LOST, "connection lost while the server was asked", None, None, raw)
    reason, sentence = (
        _EXACT.get(sqlstate) or _CLASSES.get(sqlstate[:2]) or (FailureReason.QUERY, "the server refused the text")
    )
    return Failure(reason, sentence, sqlstate, position, raw)


_POOLERS = (
    (
        "statement pooling mode",
        "connection refused: the pooler is in statement mode, which allows no transaction; make it transaction mode",
    ),
    ("query_wait_timeout", "connection refused: the pooler had no free connection to its server in time"),
)


def explain_pooler(message: str) -> Failure | None:
    """The failure if it was a pooler that ended the connection, by its own message; None if nothing is known of it."""
    text = message.lower()
    ours = next((ours for theirs, ours in _POOLERS if theirs in text), None)
    return None if ours is None else Failure(FailureReason.REFUSED, ours, "08P01")


def timeout(limit: timedelta) -> Failure:
    """The failure of a text that used up its time limit."""
    return Failure(FailureReason.TIMEOUT, f"timeout after {_exact(limit)}")


def _exact(limit: timedelta) -> str:
    """``1 s``, ``0.25 s``: the limit as it was set, so that 1500 ms does not read as 2 s."""
    if limit >= timedelta(minutes=1):
        return show_duration(limit)
    return f"{limit.total_seconds():.3f}".rstrip("0").rstrip(".") + " s"


_PHRASES = (
    ("password authentication failed", "wrong user or password"),
    ("no password supplied", "the server wants a password and none is configured"),
    ("pg_hba.conf", "the server does not allow this login from here"),
    ("remaining connection slots", "the server has no free connection slot"),
    ("too many clients", "the server has no free connection slot"),
    ("too many connections", "the server has no free connection slot"),
    ("starting up", "the server is starting up"),
    ("shutting down", "the server is shutting down"),
    ("not yet accepting", "the server is not accepting connections yet"),
    ("in recovery mode", "the server is recovering from a crash"),
    ("is not permitted to log in", "this login is not allowed"),
    ("permission denied for database", "this login may not connect to this database"),
    ("timeout expired", "no answer in time"),
    ("connection refused", "nobody listens at this address"),
    ("could not translate host name", "the host name is unknown"),
    ("resolve host", "the host name is unknown"),
    ("name or service not known", "the host name is unknown"),
    ("unsupported startup parameter", "the pooler does not take a parameter of this URL"),
    ("no such user", "wrong user or password"),
    ("no such database", "there is no such database"),
    ("no more connections allowed", "the pooler has no free connection slot"),
    ("server login", "the pooler could not log in to its server"),
    ("no route to host", "there is no route to the host"),
    ("network is unreachable", "the network is unreachable"),
    ("valid client certificate", "the server wants a client certificate (sslcert, sslkey)"),
    ("certificate authentication failed", "the server did not accept the client certificate"),
    ("alert unknown ca", "the server did not accept the client certificate"),
    ("alert bad certificate", "the server did not accept the client certificate"),
    ("alert certificate", "the server did not accept the client certificate"),
    ("certificate", "the server's certificate was not accepted"),
    ("ssl", "no encrypted connection could be agreed on"),
    ("server closed the connection", "the server closed the connection"),
)


def explain_refusal(message: str, sqlstate: str | None, *, raw: bool = False) -> Failure:
    """Why no connection came about, in our own words: the driver's message may hold the URL's parts."""
    text = message.lower()
    why = next((ours for theirs, ours in _PHRASES if theirs in text), None)
    if why is None and "does not exist" in text:
        why = "there is no such database" if "database" in text else "wrong user or password"
    sentence = f"connection refused: {why}" if why else "connection refused"
    return Failure(FailureReason.REFUSED, sentence, sqlstate, raw=message.strip() if raw else None)
