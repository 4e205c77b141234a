"""the one message that opens a look on PostgreSQL, and what it answers (pure)"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache

from holdtrue.databases.freshness import Signs, read_lsn
from holdtrue.databases.looks import Limits
from holdtrue.model import DatabaseConfig

_IDLE_LIMIT_MS = 60_000
_STEP_MS = 20

# The band: a standby's snapshot lists nothing in progress, so each id in [xmin, xmax) is asked for (semantics 3.2). All in
# one SELECT over one snapshot; CASE keeps functions of the other role from being called, and sub-selects from running.
_FULL = """b.s::text,
 extract(epoch FROM now())::text,
 b.r::text,
 (CASE WHEN b.r THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)::text,
 pg_last_wal_receive_lsn()::text,
 extract(epoch FROM pg_last_xact_replay_timestamp())::text,
 (CASE WHEN b.r THEN pg_is_wal_replay_paused() ELSE false END)::text,
 w.pid::text, w.status, extract(epoch FROM w.last_msg_receipt_time)::text,
 current_setting('wal_receiver_timeout'),
 (CASE WHEN NOT b.r THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
  ELSE coalesce(w.received_tli, (SELECT timeline_id FROM pg_control_checkpoint())) END)::text,
 (CASE WHEN extract(epoch FROM pg_postmaster_start_time())::text IS DISTINCT FROM {known}
  THEN (SELECT system_identifier FROM pg_control_system()) END)::text,
 extract(epoch FROM pg_postmaster_start_time())::text,
 (CASE WHEN b.x - b.n <= 50000 THEN ARRAY(SELECT i FROM generate_series(b.n, b.x - 1) AS i
  WHERE pg_xact_status(i::text::xid8) = 'in progress') END)::text,
 pg_backend_pid()::text
 FROM (SELECT c.s, pg_is_in_recovery() AS r, pg_snapshot_xmin(c.s)::text::bigint AS n, pg_snapshot_xmax(c.s)::text::bigint AS x
  FROM (SELECT pg_current_snapshot() AS s OFFSET 0) AS c OFFSET 0) AS b
 LEFT JOIN pg_stat_get_wal_receiver() AS w ON true"""

# For servers that speak PostgreSQL without its replication functions: nothing of lag or position can be known there.
_BARE = """pg_current_snapshot()::text, extract(epoch FROM now())::text, pg_is_in_recovery()::text,
 NULL, NULL, NULL, 'false', NULL, NULL, NULL, '1min', NULL, NULL, NULL, NULL, NULL"""

BARE_STATES = frozenset({"0A000", "42883", "42501", "42703", "55000"})
"""Error codes of the full message after which the bare one is tried."""

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Opened:
    """The opening message's answer: the signs of freshness and the pieces of the position.

    ``started`` is the server's start time; ``system`` is empty where it was said to be known; ``backend`` is the process that
    answered, 0 where the server does not tell.
    """

    signs: Signs
    snapshot: str
    log_position: str
    timeline: int
    system: str
    started: str
    in_progress: tuple[int, ...] | None
    backend: int = 0


# What the server must find to be true of itself before it goes on to a text that was sent along: it is the one that was
# asked last, in the same role, and would not be refused. Otherwise this fails, and with it all that came in the message.
# It names a value of the row, so that no planner computes it beforehand.
_GUARD = """CASE WHEN {role} IS NOT NULL AND NOT coalesce(
 b.r::text = {role} AND extract(epoch FROM pg_postmaster_start_time())::text = {known}
 AND ({least} IS NULL OR (CASE WHEN b.r THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END) >= {least}::pg_lsn)
 AND CASE WHEN b.r THEN NOT pg_is_wal_replay_paused() AND ({silence} IS NULL OR (
  w.status = 'streaming' AND w.received_tli::text = {timeline}
  AND extract(epoch FROM now() - w.last_msg_receipt_time) <= {silence}::numeric
  AND (pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn()
   OR extract(epoch FROM now() - pg_last_xact_replay_timestamp()) <= {lag}::numeric))) ELSE true END, false)
 THEN ('holdtrue asks this server in two messages, at snapshot ' || b.s::text)::int END"""
_GUARDED_BY = ("role", "least", "timeline", "lag", "silence")

# What is set: local to the transaction, as columns of the same question, so that one statement does all of it. What differs
# from look to look comes first, in the order of the prepared statement's parameters.
_VARYING = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "TimeZone", "search_path")
_FIXED = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
}


def _question(values: Sequence[str], encoding: str, asked: str, guard: str = "NULL") -> str:
    *settings, known = values
    pairs = [*zip(_VARYING, settings, strict=True), *((name, f"'{value}'") for name, value in _FIXED.items())]
    pairs.append(("client_encoding", f"'{encoding}'"))
    # Only what differs is set: a changed search_path alone makes the server plan again.
    columns = [
        f"CASE WHEN {value} <> current_setting('{name}') THEN set_config('{name}', {value}, true) END"
        for name, value in pairs
    ]
    return f"SELECT concat({', '.join(columns)}, {guard}), " + asked.replace("{known}", known)


def _prepared_question(any_bytes: bool) -> str:
    count = len(_VARYING) + 1
    places = [f"${number}" for number in range(1, count + 1)]
    guarded_by = {name: f"${number}" for number, name in enumerate(_GUARDED_BY, count + 1)}
    return _question(places, _encoding(any_bytes), _FULL, _GUARD.format(known=places[-1], **guarded_by))


def prepare_message(*, any_bytes: bool = False) -> bytes:
    """Prepares the question: planning it costs the server more than answering it, so a connection does it once.

    The name carries the question's checksum: whoever prepared it in this session prepared the same.
    """
    types = ", ".join(["text"] * (len(_VARYING) + 1 + len(_GUARDED_BY)))
    return f"PREPARE {_name(any_bytes=any_bytes)}({types}) AS {_prepared_question(any_bytes)}".encode()


def _encoding(any_bytes: bool) -> str:
    return "SQL_ASCII" if any_bytes else "UTF8"


@cache
def _name(*, any_bytes: bool) -> str:
    return f"holdtrue_{zlib.crc32(_prepared_question(any_bytes).encode()):08x}"


BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
NOT_PREPARED = "26000"


def opening_message(
    config: DatabaseConfig,
    limits: Limits,
    *,
    bare: bool = False,
    prepared: bool = False,
    any_bytes: bool = False,
    known: str = "",
) -> bytes:
    """Begin, set every limit and everything that decides how values read, and ask where the server stands.

    All of it is local to the transaction: nothing leaks to another client of a transaction pooler. ``any_bytes``: a database
    without encoding (SQL_ASCII) holds bytes that are no UTF-8; asked for UTF-8 the server would refuse the whole row. ``known``
    is the start time of a server whose system identifier is known: for the same one it is not read from disk again.
    """
    return _message(_values(config, limits, known), bare, prepared, any_bytes)


def guarded_question(
    config: DatabaseConfig, limits: Limits, vouched: Sequence[str | None], *, any_bytes: bool, known: str
) -> bytes:
    """The prepared question of an opening that a text follows in the same message, with what the server must vouch for.

    It stands in the text of a statement: a pooler that keeps account of the protocol's own prepared statements does not
    know those of SQL.
    """
    guards = ",".join(["NULL" if value is None else quote_literal(value) for value in vouched])
    return f"{_executed(_values(config, limits, known), any_bytes)},{guards})".encode()


@lru_cache(maxsize=512)
def _executed(values: tuple[str | None, ...], any_bytes: bool) -> str:
    shown = ["NULL" if value is None else quote_literal(value) for value in values]
    return f"EXECUTE {_name(any_bytes=any_bytes)}({', '.join(shown)}"


def _values(config: DatabaseConfig, limits: Limits, known: str) -> tuple[str | None, ...]:
    # Most looks of a connection say the same: what is left of a time limit is rounded up so that they do.
    statement = -(-milliseconds(limits.statement) // _STEP_MS) * _STEP_MS
    lock_wait = -(-milliseconds(limits.lock_wait) // _STEP_MS) * _STEP_MS
    # The search path as a value, not as identifiers: it is written as postgresql.conf would have it ("tools, public").
    path = config.search_path
    return (str(statement), str(lock_wait), str(statement + _IDLE_LIMIT_MS), config.timezone, path, known or None)


@lru_cache(maxsize=512)
def _message(values: tuple[str | None, ...], bare: bool, prepared: bool, any_bytes: bool) -> bytes:
    if prepared:
        question = f"{_executed(values, any_bytes)}{', NULL' * len(_GUARDED_BY)})"
    else:
        shown = ["NULL" if value is None else quote_literal(value) for value in values]
        question = _question(shown, _encoding(any_bytes), _BARE if bare else _FULL)
    return f"{BEGIN};{question}".encode()


def read_opening(row: Sequence[str | None]) -> Opened:
    """Read the answer of the opening message's last statement."""
    snapshot, now, recovery, position, received, last_commit, paused, pid, status, heard, timeout, *rest = row[1:]
    timeline, system, started, band, backend = rest
    in_recovery = recovery == "true"
    visible = status is not None or pid is None
    signs = Signs(
        now=_moment(now) or datetime.fromtimestamp(0, UTC),
        in_recovery=in_recovery,
        received=read_lsn(received) if received else None,
        replayed=read_lsn(position) if in_recovery and position else None,
        paused=paused == "true",
        # A receiver that waits for its sender is none: only `streaming` proves the link. Its pid is all that may be seen
        # without pg_monitor.
        receiver_lives=pid is not None and status in (None, "streaming"),
        receiver_visible=visible,
        last_message=_moment(heard),
        last_commit=_moment(last_commit),
        receiver_timeout=read_setting(timeout or "1min"),
    )
    return Opened(
        signs=signs,
        snapshot=snapshot or "",
        log_position=position or "",
        timeline=int(timeline) if timeline else 0,
        system=system or "",
        started=started or "",
        in_progress=_band(band),
        backend=int(backend) if backend else 0,
    )


def milliseconds(duration: timedelta) -> int:
    """Whole milliseconds, at least 1: 0 would mean no limit at all."""
    return max(1, round(duration / timedelta(milliseconds=1)))


def quote_literal(text: str) -> str:
    """A text as a literal, whatever ``standard_conforming_strings`` says."""
    doubled = text.replace("'", "''")
    if "\\" in doubled:
        return " E'" + doubled.replace("\\", "\\\\") + "'"
    return f"'{doubled}'"


@lru_cache(maxsize=64)
def read_setting(text: str) -> timedelta:
    """A server setting with its unit: ``1min``, ``30s``, ``500ms``; without unit it is milliseconds."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip() or "ms"
    try:
        return timedelta(seconds=float(digits) * _UNITS[unit])
    except (ValueError, KeyError):
        return timedelta(0)


def _moment(epoch: str | None) -> datetime | None:
    """Seconds since 1970; a double still tells microseconds apart for some centuries."""
    return datetime.fromtimestamp(float(epoch), UTC) if epoch else None


def _band(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if text == "{}":
        return ()
    return tuple(int(one) for one in text.strip("{}").split(",") if one)
