"""reads from PostgreSQL's own log where the writers of an incident began to write, and where they committed"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from holdtrue.databases.freshness import read_lsn
from holdtrue.databases.postgresql_evidence import Asking, has_commit_times
from holdtrue.databases.postgresql_wire import Stopped
from holdtrue.model import Position
from holdtrue.model.traces import KEPT, Traces, WriterTrace

SECONDS_LIMIT: Final = 3.0
_ENOUGH: Final = 2.0
BYTES_LIMIT: Final = 64 * 1024 * 1024
_CHUNK: Final = 8 * 1024 * 1024
_WRITERS_LIMIT: Final = 50
_ANY: Final = 1000

# The extension's own function and no other of that name; whoever may call it was given it by name, or reads server files.
_FUNCTION: Final = """SELECT format('%I.%I', n.nspname, p.proname), has_function_privilege(p.oid, 'EXECUTE')::text
 FROM pg_extension AS e JOIN pg_depend AS d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
 AND d.classid = 'pg_proc'::regclass JOIN pg_proc AS p ON p.oid = d.objid JOIN pg_namespace AS n ON n.oid = p.pronamespace
 WHERE e.extname = 'pg_walinspect' AND p.proname = 'pg_get_wal_records_info'"""

# A transaction that wrote within a savepoint commits under the id of the whole one, whose record lists it.
_RECORDS: Final = """WITH r AS MATERIALIZED (SELECT * FROM {function}($1::pg_lsn, $2::pg_lsn))
SELECT 'end', max(end_lsn)::text, NULL, NULL FROM r
UNION ALL
SELECT xid::text, min(start_lsn) FILTER (WHERE NOT c)::text, min(start_lsn) FILTER (WHERE c)::text, NULL
 FROM (SELECT xid, start_lsn, resource_manager = 'Transaction' AND record_type LIKE 'COMMIT%' AS c FROM r
  WHERE xid::text = ANY ($3::text[]) AND NOT (resource_manager = 'Transaction' AND record_type LIKE 'ABORT%')) AS w
 GROUP BY xid::text
UNION ALL
SELECT 'within', NULL, start_lsn::text, substring(description FROM 'subxacts:[^;]*') FROM r
 WHERE resource_manager = 'Transaction' AND record_type LIKE 'COMMIT%' AND description ~ $4"""


def trace_writers(asking: Asking, xids: Iterable[int], since: Position | None) -> Traces:
    """What is still known of these transactions; whatever fails is said in it, and changes nothing else (semantics 9.1)."""
    until = time.monotonic() + SECONDS_LIMIT
    commit_times = "not known: the server did not say"
    wanted = sorted(set(xids))[-_WRITERS_LIMIT:]
    try:
        with asking.savepoint(timedelta(seconds=SECONDS_LIMIT)):
            kept = has_commit_times(asking, _left(until))
            commit_times = KEPT if kept else "not kept: track_commit_timestamp is off"
            function = _function(asking, until)
            refusal = _why_not(asking.position, since, function) if wanted else "not read: no writer is known"
            if refusal or since is None:
                return Traces(commit_times, refusal)
            writers, reached = _read(asking, function[0], wanted, since.log_position, until)
            over = "" if reached == asking.position.log_position else ", then the time was over"
            return Traces(
                commit_times, f"read from {since.log_position} to {reached}{over}", since.log_position, writers
            )
    except Stopped as stopped:
        return Traces(commit_times, f"not read: {_sentence(stopped)}")


def _left(until: float) -> timedelta:
    return timedelta(seconds=max(0.05, until - time.monotonic()))


def _function(asking: Asking, until: float) -> tuple[str, str]:
    cache: dict[Any, Any] = asking.schema_cache
    if "log" not in cache:
        found = asking.query(_FUNCTION, [], limit=2, within=_left(until))
        cache["log"] = (str(found[0][0]), str(found[0][1])) if found else ("", "")
    function: tuple[str, str] = cache["log"]
    return function


def _why_not(here: Position, since: Position | None, function: tuple[str, str]) -> str:
    """Why the log of the window is not read; empty if it can be."""
    name, may = function
    if not name:
        return "not read: the extension pg_walinspect is not installed"
    if may != "true":
        return f"not read: the login may not execute {name}(pg_lsn, pg_lsn)"
    if since is None:
        return "not read: no run before it says where to begin"
    if (
        (since.system, since.timeline) != (here.system, here.timeline)
        or not here.log_position
        or not since.log_position
    ):
        return "not read: the run before it looked at another server or timeline"
    length = read_lsn(here.log_position) - read_lsn(since.log_position)
    if length <= 0:
        return "not read: nothing was logged since the run before it"
    if length > BYTES_LIMIT:
        return f"not read: the window has {length >> 20} MiB of log, and at most {BYTES_LIMIT >> 20} MiB are read"
    return ""


def _read(
    asking: Asking, function: str, xids: list[int], start: str, until: float
) -> tuple[tuple[WriterTrace, ...], str]:
    """Chunk by chunk, each from where the last whole record ended: the server keeps a chunk in memory. And how far."""
    short = {str(xid & 0xFFFFFFFF): xid for xid in xids}
    text = _RECORDS.format(function=function)
    listed = "|".join(short)
    first: dict[int, str] = {}
    committed: dict[int, str] = {}
    here, last = read_lsn(start), read_lsn(asking.position.log_position)
    enough = until - SECONDS_LIMIT + _ENOUGH
    while here < last and time.monotonic() < enough:
        end = min(here + _CHUNK, last)
        parameters = [_lsn(here), _lsn(end), "{" + ",".join(short) + "}", rf"subxacts:[^;]*\m({listed})\M"]
        rows = asking.query(text, parameters, limit=_ANY, within=_left(until))
        for who, began, ended, within in rows:
            if who == "within":
                for one in re.findall(r"\d+", within or ""):
                    if one in short and ended:
                        committed.setdefault(short[one], ended)
            elif who in short:
                if began:
                    first.setdefault(short[who], began)
                if ended:
                    committed.setdefault(short[who], ended)
        reached = next((began for who, began, _, _ in rows if who == "end" and began), None)
        # A chunk without a whole record is the end of what was written.
        here = max(here, read_lsn(reached)) if reached is not None and end < last else end
    return tuple(WriterTrace(xid, first.get(xid, ""), committed.get(xid, "")) for xid in xids), _lsn(here)


def _lsn(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def _sentence(stopped: Stopped) -> str:
    # The file of a segment that was removed.
    if stopped.failure.sqlstate == "58P01":
        return "the log of the window is not there any more"
    return stopped.failure.sentence
