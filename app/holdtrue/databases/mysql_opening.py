"""the statements that open a look on MariaDB or MySQL, and what they answer (pure)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdtrue.databases.looks import Limits
from holdtrue.model import DatabaseConfig

_IDLE_SECONDS: Final = 60
_DENIED: Final = frozenset({1227, 1044, 1045, 1142})


@dataclass(frozen=True, slots=True)
class Flavour:
    """Which of the two a server is, and its version."""

    name: str
    version: tuple[int, int, int]

    @property
    def is_mariadb(self) -> bool:
        """Whether it is MariaDB, whose settings and positions have other names."""
        return self.name == "mariadb"


def read_flavour(version: str) -> Flavour:
    """From what the server says at its door: ``5.5.5-10.11.6-MariaDB-log``, ``8.0.36``."""
    maria = "mariadb" in version.lower()
    numbers: list[int] = []
    for part in version.removeprefix("5.5.5-").split("-")[0].split(".")[:3]:
        digits = "".join(letter for letter in part if letter.isdigit())
        numbers.append(int(digits or 0))
    numbers += [0] * (3 - len(numbers))
    return Flavour("mariadb" if maria else "mysql", (numbers[0], numbers[1], numbers[2]))


OLDEST: Final = {"mariadb": (10, 3, 0), "mysql": (5, 7, 8)}
"""The first with COM_RESET_CONNECTION, a session's time limit and read-only transactions."""

READ_ONLY: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""For the session, not for one transaction: what commits implicitly would begin the next one writable."""

BEGIN: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"


def settings_statement(flavour: Flavour, config: DatabaseConfig, limits: Limits) -> str:
    """Every limit and everything that decides how values read; the session forgets it when the look ends."""
    lock_wait = max(1, math.floor(limits.lock_wait.total_seconds()))
    return (
        f"SET NAMES utf8mb4, SESSION time_zone = {quote_text(session_zone(config.timezone))}, "
        f"{_limit(flavour, limits.statement)}, "
        f"SESSION lock_wait_timeout = {lock_wait}, SESSION innodb_lock_wait_timeout = {lock_wait}, "
        f"SESSION wait_timeout = {math.ceil(limits.statement.total_seconds()) + _IDLE_SECONDS}"
    )


def limit_statement(flavour: Flavour, limit: timedelta) -> str:
    """The session's time limit for each statement from now on; a setting, never a prefix to a text (semantics 3.3)."""
    return f"SET {_limit(flavour, limit)}"


def _limit(flavour: Flavour, limit: timedelta) -> str:
    milliseconds = max(1, math.ceil(limit / timedelta(milliseconds=1)))
    if flavour.is_mariadb:
        return f"SESSION max_statement_time = {milliseconds / 1000:.3f}"
    return f"SESSION max_execution_time = {milliseconds}"


def session_zone(name: str) -> str:
    """UTC as an offset, which every server knows; other zones need the server's time zone tables."""
    return "+00:00" if name in ("UTC", "Etc/UTC") else name


def status_statement(flavour: Flavour) -> str:
    """What asks a replica for all its channels."""
    if flavour.is_mariadb:
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if flavour.version >= (8, 0, 22) else "SHOW SLAVE STATUS"


def standing_statement(flavour: Flavour) -> str:
    """Where the server stands before the snapshot: position, whether it is read-only, which server it is."""
    if flavour.is_mariadb:
        position, silence = "@@global.gtid_current_pos", "@@global.slave_net_timeout"
    else:
        position = "@@global.gtid_executed"
        silence = "@@global." + ("replica" if flavour.version >= (8, 0, 26) else "slave") + "_net_timeout"
    return f"SELECT {position}, @@global.read_only, {silence}, @@session.sql_mode, {IDENTITY}"


IDENTITY: Final = "CONCAT_WS('/', @@hostname, @@port, @@server_id)"
"""Tells one server of a replication family from another: a thread's number means something on its own server alone."""


def snapshot_statement(flavour: Flavour) -> str:
    """What the snapshot may have seen at most, and the server's clock."""
    position = "@@global.gtid_current_pos" if flavour.is_mariadb else "@@global.gtid_executed"
    return f"SELECT {position}, UNIX_TIMESTAMP(NOW(6))"


@dataclass(frozen=True, slots=True)
class Facts:
    """The answer of :func:`standing_statement`."""

    gtid: str
    read_only: bool
    silence: timedelta
    escapes: bool
    identity: str


def read_facts(row: Sequence[str | None]) -> Facts:
    """Read it; ``escapes`` says that a backslash escapes within quotes (no NO_BACKSLASH_ESCAPES)."""
    gtid, read_only, silence, mode, identity = row
    return Facts(
        gtid="".join((gtid or "").split()),
        read_only=read_only not in (None, "0", "OFF"),
        silence=timedelta(seconds=int(silence or 0)),
        escapes="NO_BACKSLASH_ESCAPES" not in (mode or ""),
        identity=identity or "",
    )


def read_moment(epoch: str | None) -> datetime:
    """Seconds since 1970 with six decimals."""
    return datetime.fromtimestamp(float(epoch or 0), UTC)


def may_not_see(number: int | None) -> bool:
    """Whether an error number says that the login may not read the replica's status."""
    return number in _DENIED


def quote_text(text: str) -> str:
    """A text of ours as a literal, whatever the session's sql_mode: there is no backslash and no quote in it.

    Raises:
        ValueError: there is one.
    """
    if "'" in text or "\\" in text:
        raise ValueError("not a plain text")
    return f"'{text}'"
