"""decides which of the ids that wrote rows are one commit: each savepoint has an id of its own (pure)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import combinations

from holdtrue.model import EvidenceRow, Traces
from holdtrue.scaffolding.contexts import Writer


class OneCommit(StrEnum):
    """How it is known that several ids are one commit."""

    PROVED = "proved by the log"
    LIKELY = "most likely, by the same microsecond"


_WORDS = {
    OneCommit.PROVED: "one commit by the log, so one transaction with savepoints",
    OneCommit.LIKELY: "one commit, most likely one transaction with savepoints",
}


@dataclass(frozen=True, slots=True)
class Commit:
    """What was committed at once, as far as is known; ``known`` is None where one id alone wrote it."""

    writers: tuple[Writer, ...]
    known: OneCommit | None = None
    alone: bool = False

    @property
    def xids(self) -> tuple[int, ...]:
        """The ids that are known, the oldest first."""
        return tuple(sorted(one.xid for one in self.writers if one.xid is not None))

    @property
    def rows(self) -> tuple[str, ...]:
        """What all of them wrote."""
        return tuple(row for one in self.writers for row in one.rows)

    @property
    def behind(self) -> frozenset[str]:
        """The tables of the rows behind the violation that any of them wrote."""
        return frozenset(table for one in self.writers for table in one.behind)

    @property
    def committed_at(self) -> datetime | None:
        """The time of the commit, where it is known."""
        return next((one.committed_at for one in self.writers if one.committed_at is not None), None)

    @property
    def said(self) -> str:
        """The ids in words; empty if none is known. One commit and no other may be no race at all."""
        if not self.xids:
            return ""
        if self.known is None:
            return f"transaction {self.xids[0]}"
        race = "; perhaps no race" if self.alone else ""
        return f"{', '.join(map(str, self.xids))}: {_WORDS[self.known]}{race}"


def commits_of(writers: Sequence[Writer], traces: Traces) -> tuple[Commit, ...]:
    """The writers by commit, in their order.

    A commit record of the log that lists both proves it; the same microsecond is a strong sign and no proof.
    """
    groups: list[list[Writer]] = []
    for writer in writers:
        own = next((group for group in groups if any(_are_one(one, writer, traces) for one in group)), None)
        if own is None:
            groups.append([writer])
        else:
            own.append(writer)
    return tuple(Commit(tuple(group), _known(group, traces), alone=len(groups) == 1) for group in groups)


def may_be_one(writers: Sequence[Writer], traces: Traces) -> bool:
    """Whether nothing tells two of the known ids apart, nor that they are one."""
    known = [one for one in writers if one.xid is not None]
    return any(
        _are_one(one, other, traces) is None and not _differ(one, other, traces)
        for one, other in combinations(known, 2)
    )


def writers_of(written: Sequence[EvidenceRow]) -> tuple[Writer, ...]:
    """Who wrote the observed rows, in the order in which they began; rows are named by table and place in ``observed``."""
    places: dict[str, int] = {}
    rows: dict[int | None, list[str]] = {}
    when: dict[int | None, datetime | None] = {}
    behind: dict[int | None, set[str]] = {}
    for row in written:
        place = places[row.table] = places.get(row.table, 0) + 1
        rows.setdefault(row.xid, []).append(f"{row.table} row {place}")
        when[row.xid] = row.committed_at
        behind.setdefault(row.xid, set()).update([] if row.is_parent else [row.table])
    if set(rows) == {None}:
        return tuple(
            Writer(None, None, (name,), frozenset() if row.is_parent else frozenset({row.table}))
            for row, name in zip(written, rows[None], strict=True)
        )
    ordered = sorted(rows, key=lambda xid: -1 if xid is None else xid)
    return tuple(Writer(xid, when[xid], tuple(rows[xid]), frozenset(behind[xid])) for xid in ordered)


def _known(group: Sequence[Writer], traces: Traces) -> OneCommit | None:
    if len(group) < 2:
        return None
    found = {_are_one(one, other, traces) for one, other in combinations(group, 2)}
    return OneCommit.PROVED if found == {OneCommit.PROVED} else OneCommit.LIKELY


def _are_one(one: Writer, other: Writer, traces: Traces) -> OneCommit | None:
    if one.xid is None or other.xid is None or _differ(one, other, traces):
        return None
    if _by_log(one, other, traces) is not None:
        return OneCommit.PROVED
    return OneCommit.LIKELY if one.committed_at is not None and one.committed_at == other.committed_at else None


def _differ(one: Writer, other: Writer, traces: Traces) -> bool:
    by_log = _by_log(one, other, traces)
    if by_log is not None:
        return not by_log
    return one.committed_at is not None and other.committed_at is not None and one.committed_at != other.committed_at


def _by_log(one: Writer, other: Writer, traces: Traces) -> bool | None:
    """Whether both are in one commit record; None where the log does not have the commit of both."""
    mine, theirs = traces.of(one.xid), traces.of(other.xid)
    if mine is None or theirs is None or not mine.committed or not theirs.committed:
        return None
    return mine.committed == theirs.committed
