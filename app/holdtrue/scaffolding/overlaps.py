"""decides whether two writers are known to have run at once, and how that is known (pure)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from holdtrue.model import Traces
from holdtrue.model.traces import KEPT
from holdtrue.scaffolding.commits import commits_of, may_be_one
from holdtrue.scaffolding.contexts import Writer

NOT_PROVED = "not proved"


def prove_overlap(writers: Sequence[Writer], traces: Traces) -> str:
    """Whether two writers are known to have run at once: by commit order, by the log, or not proved, and then why.

    A younger id that committed first proves it: the older transaction had written before the younger one did, and committed
    after it. So does a first record that lies before the other's commit. The converse of either proves nothing: a
    transaction may have read long before it first wrote.
    """
    for one, other in permutations(writers, 2):
        found = _by_commit_order(one, other) or _by_log(one, other, traces)
        if found:
            return found
    known = [one for one in writers if one.xid is not None]
    commits = [one for one in commits_of(writers, traces) if one.xids]
    if len(commits) < 2:
        several = f": {commits[0].said}" if len(known) > 1 else ""
        return f"{NOT_PROVED}: {'one writer is known' if known else 'no writer is known'}{several}"
    return f"{NOT_PROVED}: {'; '.join(_why_not(known, traces))}"


def _by_commit_order(one: Writer, other: Writer) -> str:
    if one.xid is None or other.xid is None or one.committed_at is None or other.committed_at is None:
        return ""
    if one.xid < other.xid and one.committed_at > other.committed_at:
        return f"proved by commit order: {one.xid} began to write before {other.xid} and committed after it"
    return ""


def _by_log(one: Writer, other: Writer, traces: Traces) -> str:
    """``one`` first wrote before ``other`` committed, and committed after it."""
    mine, theirs = traces.of(one.xid), traces.of(other.xid)
    if mine is None or theirs is None or not mine.committed or not theirs.committed:
        return ""
    if _number(mine.committed) <= _number(theirs.committed):
        return ""
    # Without a record in what was read, it first wrote before that began, and so before anything that is in it.
    if mine.first and _number(mine.first) >= _number(theirs.committed):
        return ""
    where = f"at {mine.first}" if mine.first else f"before {traces.since}"
    return (
        f"proved by the log: {one.xid} first wrote {where} and committed at {mine.committed}, {other.xid} committed between,"
        f" at {theirs.committed}"
    )


def _why_not(writers: Sequence[Writer], traces: Traces) -> Iterator[str]:
    if any(one.committed_at is None for one in writers):
        unknown = traces.commit_times != KEPT
        yield f"commit times {traces.commit_times}" if unknown else "a commit is older than the server's commit times"
    else:
        yield "the commits are in the order of the ids, which proves nothing"
    found = [traces.of(one.xid) for one in writers]
    if any(one is None or not one.committed for one in found):
        yield f"log {traces.log}" if not traces.writers else "the log that was read lacks a commit"
    else:
        yield "in the log none wrote before another one committed"
    if may_be_one(writers, traces):
        yield "nor is it known that they are several: a savepoint has an id of its own"


def _number(position: str) -> int:
    high, _, low = position.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
