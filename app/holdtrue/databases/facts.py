"""what a replica and its login tell of themselves, for a person who wants to know how well they are asked"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from holdtrue.databases.looks import DialectDriver, Limits
from holdtrue.model import DatabaseConfig, Failure, Position, ReplicaConfig


@dataclass(frozen=True, slots=True)
class Clocks:
    """The server's clock, read between two readings of ours."""

    before: datetime
    server: datetime
    after: datetime

    @property
    def ahead(self) -> timedelta:
        """How far the server's clock is ahead of ours at least; negative if it is behind, 0 if that cannot be told."""
        if self.server < self.before:
            return self.server - self.before
        return max(self.server - self.after, timedelta(0))


@dataclass(frozen=True, slots=True)
class Link:
    """How the server is reached.

    ``local`` says that the way never leaves this machine; ``pooled`` that another process answers than the one that was
    told at connecting, so that a pooler or proxy stands in between; ``encryption`` is empty where there is none, and
    ``verified`` says that the server's certificate was checked against an authority.
    """

    driver: str
    local: bool
    encryption: str = ""
    verified: bool = False
    pooled: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are, and the first few by name."""

    number: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PostgresFacts:
    """What PostgreSQL tells. ``sender`` is whom a standby follows, as ``host:port``, None where that may not be seen.

    ``roles`` are the predefined roles that the login is a member of; ``silence`` how long a sender may go unheard.
    """

    version: str
    clocks: Clocks
    link: Link
    login: str
    address: str = ""
    sender: str | None = None
    receiver_visible: bool = True
    attributes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    readable: int = 0
    writable: Count = Count()
    owned: Count = Count()
    creates_in: Count = Count()
    creates_schemas: bool = False
    functions: Count = Count()
    definers: Count = Count()
    commit_times: bool = False
    conflict_delay: str = ""
    silence: timedelta = timedelta(seconds=31)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MysqlFacts:
    """What MariaDB or MySQL tells. ``rights`` are the login's privileges by name, ``roles`` what it was granted beside."""

    flavour: str
    version: str
    clocks: Clocks
    link: Link
    login: str
    rights: frozenset[str] = frozenset()
    roles: tuple[str, ...] = ()
    status_visible: bool = True
    read_only: bool = False
    gtid: bool = False
    gtid_domain: str = ""
    binlog: str = ""
    silence: timedelta = timedelta(seconds=60)
    zone_known: bool = True
    other_engines: Count = Count()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SqliteFacts:
    """What a SQLite file and its folder tell. ``version`` is the library's."""

    version: str
    path: str
    size: int
    journal: str
    file_writable: bool
    folder_writable: bool
    shared_memory: bool


Facts = PostgresFacts | MysqlFacts | SqliteFacts


@runtime_checkable
class TellsFacts(Protocol):
    """A link that can tell; what cannot be had is left out and named, and never raised."""

    def facts(self, within: timedelta) -> Facts | Failure:
        """Asked inside an open transaction, or on a connection whose look was refused."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """One replica, asked for what it is.

    ``refused`` is why a run would not be made there now; ``reached`` that a server answered at all. ``position`` is where
    it stood.
    """

    database: str
    replica: str
    reached: bool
    refused: Failure | None = None
    position: Position | None = None
    facts: Facts | None = None
    untold: Failure | None = None


def ask_facts(
    driver: DialectDriver,
    config: DatabaseConfig,
    replica: ReplicaConfig,
    *,
    environ: Mapping[str, str],
    within: timedelta,
) -> Told:
    """Connect to one replica, open a look as a run would, and let it tell; blocks for a few times ``within`` at most."""
    link = driver.connect(config, replica, environ=environ, within=within)
    if isinstance(link, Failure):
        return Told(config.name, replica.name, reached=False, refused=link)
    try:
        refused = link.open(Limits.within(within, within), config, keep_raw=False)
        told = link.facts(within) if isinstance(link, TellsFacts) else None
        untold = told if isinstance(told, Failure) else None
        facts = None if isinstance(told, Failure) else told
        return Told(
            config.name,
            replica.name,
            reached=True,
            refused=refused,
            position=link.opened,
            facts=facts,
            untold=untold,
        )
    finally:
        link.end()
        link.close()


def read_clocks(read: Callable[[], datetime]) -> Clocks:
    """The server's clock between two readings of ours."""
    before = datetime.now(UTC)
    server = read()
    return Clocks(before, server, datetime.now(UTC))


def is_local(host: str) -> bool:
    """Whether this address never leaves the machine: a socket's folder, or loopback."""
    return not host or host.startswith(("/", "@", "127.")) or host in ("localhost", "::1")
