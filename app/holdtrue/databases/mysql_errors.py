"""says in our own words what an error number of MariaDB or MySQL means (pure)"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from holdtrue.databases.sqlstates import timeout
from holdtrue.model import Failure, FailureReason

_TIME_IS_UP: Final = frozenset({1028, 1907, 1969, 3024})
KILLED: Final = frozenset({1317, 1968, 1885})
"""A statement that was ended by KILL QUERY."""

_KNOWN: Final[dict[int, tuple[FailureReason, str]]] = {
    1205: (FailureReason.LOCK_WAIT, "lock wait: another session holds a lock that this query needs"),
    3572: (FailureReason.LOCK_WAIT, "lock wait: another session holds a lock that this query needs"),
    1213: (FailureReason.CONFLICT, "a deadlock with another session cancelled the query"),
    1412: (FailureReason.CONFLICT, "a table was changed after the snapshot was taken: it cannot be read in it"),
    1792: (FailureReason.WRITES, "the text tried to write; the transaction is read-only"),
    1290: (FailureReason.WRITES, "the text asks for what this server's options forbid (it is read-only)"),
    1836: (FailureReason.WRITES, "the text tried to write; the server is read-only"),
    1568: (FailureReason.WRITES, "the text tried to change its transaction; it is read-only"),
    1044: (FailureReason.FORBIDDEN, "permission denied: the login may not use this database"),
    1045: (FailureReason.FORBIDDEN, "permission denied: the text needs a right that the login lacks"),
    1142: (FailureReason.FORBIDDEN, "permission denied: the login may not read what the text names"),
    1143: (FailureReason.FORBIDDEN, "permission denied: the login may not read a column that the text names"),
    1227: (FailureReason.FORBIDDEN, "permission denied: the text needs a right that the login lacks"),
    1345: (FailureReason.FORBIDDEN, "permission denied: the login may not read what lies under a view"),
    1356: (FailureReason.FORBIDDEN, "a view that the text names refers to what is absent or forbidden"),
    1370: (FailureReason.FORBIDDEN, "permission denied: the login may not call a function that the text names"),
    1449: (FailureReason.FORBIDDEN, "the owner of a view or function that the text names does not exist"),
    1046: (FailureReason.QUERY, "no database is chosen: the replica's URL must name one"),
    1049: (FailureReason.QUERY, "a database that the text names does not exist"),
    1052: (FailureReason.QUERY, "a column name in the text is ambiguous"),
    1054: (FailureReason.QUERY, "a column that the text names does not exist"),
    1055: (FailureReason.QUERY, "the text groups wrongly: a column is neither grouped nor aggregated"),
    1060: (FailureReason.QUERY, "a column name is there twice in a sub-query of the text"),
    1064: (FailureReason.QUERY, "the text has a syntax error, or more than one statement"),
    1065: (FailureReason.QUERY, "the text holds no statement"),
    1104: (FailureReason.QUERY, "the text would examine more rows than the server allows (max_join_size)"),
    1109: (FailureReason.QUERY, "a table that the text names does not exist"),
    1111: (FailureReason.QUERY, "the text uses an aggregate where none may be"),
    1140: (FailureReason.QUERY, "the text groups wrongly: a column is neither grouped nor aggregated"),
    1146: (FailureReason.QUERY, "a table or view that the text names does not exist"),
    1153: (FailureReason.QUERY, "the text is longer than the server takes (max_allowed_packet)"),
    1222: (FailureReason.QUERY, "the parts of a UNION have different numbers of columns"),
    1241: (FailureReason.QUERY, "a comparison in the text has different numbers of columns"),
    1242: (FailureReason.QUERY, "a sub-query that must give one row gave several"),
    1267: (FailureReason.QUERY, "texts of different collations are compared"),
    1270: (FailureReason.QUERY, "texts of different collations are compared"),
    1271: (FailureReason.QUERY, "texts of different collations are compared"),
    1292: (FailureReason.QUERY, "a value could not be read as the type the text asks for"),
    1298: (FailureReason.QUERY, "the server does not know the time zone of this database: load its time zone tables"),
    1305: (FailureReason.QUERY, "a function of the text does not exist"),
    1365: (FailureReason.QUERY, "the text divided by zero"),
    1366: (FailureReason.QUERY, "a value could not be read as the type the text asks for"),
    1411: (FailureReason.QUERY, "a value is not a date or time"),
    1436: (FailureReason.QUERY, "the text is too complex for the server (thread stack)"),
    1582: (FailureReason.QUERY, "a function of the text is called with the wrong number of values"),
    1630: (FailureReason.QUERY, "a function of the text does not exist"),
    1690: (FailureReason.QUERY, "a number is out of range"),
    1021: (FailureReason.QUERY, "the server's disk is full"),
    1114: (FailureReason.QUERY, "the server ran out of room for a temporary table"),
    1037: (FailureReason.QUERY, "the server is out of memory"),
    1038: (FailureReason.QUERY, "the server is out of memory for sorting"),
    1041: (FailureReason.QUERY, "the server is out of memory"),
    1034: (FailureReason.QUERY, "a table is damaged on this server"),
    1194: (FailureReason.QUERY, "a table is damaged on this server"),
    1195: (FailureReason.QUERY, "a table is damaged on this server"),
    1030: (FailureReason.QUERY, "the storage engine of the server failed"),
    1040: (FailureReason.REFUSED, "connection refused: the server has no free connection slot"),
    1203: (FailureReason.REFUSED, "connection refused: the login has no free connection slot"),
    1226: (FailureReason.REFUSED, "connection refused: the login has used up what it is allowed"),
    1053: (FailureReason.LOST, "connection lost: the server is shutting down"),
    1077: (FailureReason.LOST, "connection lost: the server is shutting down"),
    1079: (FailureReason.LOST, "connection lost: the server is shutting down"),
    1152: (FailureReason.LOST, "connection lost: the server ended this session"),
    1184: (FailureReason.LOST, "connection lost: the server ended this session"),
    1927: (FailureReason.LOST, "connection lost: an operator of the server ended this session"),
    3169: (FailureReason.LOST, "connection lost: an operator of the server ended this session"),
    4031: (FailureReason.LOST, "connection lost: the server ended this idle session"),
    2006: (FailureReason.LOST, "connection lost: the server has gone away"),
    2013: (FailureReason.LOST, "connection lost while the server was asked"),
    2014: (FailureReason.LOST, "connection lost: the server's answers are out of order"),
    2055: (FailureReason.LOST, "connection lost while the server was asked"),
}
_LOST: Final = (FailureReason.LOST, "connection lost while the server was asked")
INTERRUPTED: Final = Failure(FailureReason.INTERRUPTED, "interrupted: Holdtrue is stopping")


def explain(
    number: int | None,
    *,
    limit: timedelta,
    interrupted: bool,
    overdue: bool,
    sqlstate: str | None = None,
    raw: str | None = None,
) -> Failure:
    """The failure for an error number; the server's message quotes values of rows and is left out (semantics 3.5).

    ``interrupted`` and ``overdue`` say that we ended the statement ourselves, and why. No number means that the connection
    ended.
    """
    ended = number is None or number in KILLED or number in (2006, 2013, 2055)
    if interrupted and ended:
        return Failure(FailureReason.INTERRUPTED, INTERRUPTED.sentence, sqlstate, raw=raw)
    if number in _TIME_IS_UP or (overdue and ended):
        return Failure(FailureReason.TIMEOUT, timeout(limit).sentence, sqlstate, raw=raw)
    if number in KILLED:
        return Failure(
            FailureReason.QUERY, "an operator of the server ended the statement (KILL QUERY)", sqlstate, raw=raw
        )
    if number is None:
        return Failure(*_LOST, raw=raw)
    reason, sentence = _KNOWN.get(number) or (
        FailureReason.QUERY,
        f"the server refused the text (its error {number})",
    )
    return Failure(reason, sentence, sqlstate, raw=raw)


_REFUSALS: Final[dict[int, str]] = {
    1040: "the server has no free connection slot",
    1203: "the login has no free connection slot",
    1226: "the login has used up what it is allowed",
    1044: "this login may not use this database",
    1045: "wrong user or password",
    1698: "this login is not allowed from here",
    1049: "there is no such database",
    1053: "the server is shutting down",
    1129: "the server blocks this host after many failed connections",
    1130: "the server does not allow this login from here",
    1251: "the server wants a way to log in that is not supported",
    1524: "the server wants a way to log in that is not supported",
    1820: "the login's password has expired",
    1862: "the login's password has expired",
    2059: "the server wants a way to log in that is not supported",
    3118: "the login is locked",
    3159: "the server wants an encrypted connection",
    4151: "the login is locked",
    2006: "the server closed the connection",
    2013: "the server closed the connection",
}
_PHRASES: Final = (
    ("connection refused", "nobody listens at this address"),
    ("timed out", "no answer in time"),
    ("name or service not known", "the host name is unknown"),
    ("name resolution", "the host name is unknown"),
    ("nodename nor servname", "the host name is unknown"),
    ("no route to host", "there is no route to the host"),
    ("network is unreachable", "the network is unreachable"),
    ("no such file", "a file that the URL names is not there"),
    ("alert unknown ca", "the server did not accept the client certificate"),
    ("alert bad certificate", "the server did not accept the client certificate"),
    ("alert certificate", "the server did not accept the client certificate"),
    ("certificate", "the server's certificate was not accepted"),
    ("ssl", "no encrypted connection could be agreed on"),
    ("cryptography", "this way to log in needs an encrypted connection (ssl_ca, ssl_verify_identity)"),
)


def explain_refusal(number: int | None, message: str) -> Failure:
    """Why no connection came about, in our own words: the driver's message may hold the URL's parts."""
    why = _REFUSALS.get(number) if number is not None else None
    text = message.lower()
    found = next((ours for theirs, ours in _PHRASES if theirs in text), None)
    if number is None or number in (2003, 2006, 2013, 2026):
        why = found or why
    sentence = f"connection refused: {why}" if why else "connection refused"
    return Failure(FailureReason.REFUSED, sentence)
