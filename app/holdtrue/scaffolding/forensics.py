"""says in a ticket's header and record what is known of its window, and what is not known and why (pure)"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from holdtrue.model import Dialect, Incident, Position, Traces, show_duration, show_moment, utc
from holdtrue.model.traces import UNTRACED
from holdtrue.scaffolding.commits import Commit, commits_of
from holdtrue.scaffolding.contexts import TicketContext
from holdtrue.scaffolding.overlaps import prove_overlap

_SHOWN = 20
_LOG_WORDS = {"postgresql": "LSN", "mysql": "GTID"}
NOBODY_TOLD = "not known: nobody told of any (holdtrue deploys add)"


def facts(incident: Incident, context: TicketContext) -> Iterator[tuple[str, str]]:
    """The lines of the header: window, positions, writers and their overlap, what was in force, what went out before."""
    yield "window", _window(context)
    yield "first bad run", _stand(context.first_bad, incident.engine)
    yield "last good run", _stand(context.last_good, incident.engine) if context.last_good else "no run before it"
    for commit in commits_of(context.writers, context.traces):
        yield "writer", _writer(commit, context)
    yield "overlap", prove_overlap(context.writers, context.traces)
    traces = _traces(incident, context)
    yield "commit times", traces.commit_times
    yield "server's log", traces.log
    yield (
        "definition",
        f"{context.definition or 'not recorded'}, catalog generation {context.generation or 'not recorded'}",
    )
    if not context.deploys:
        told = "none was told of in the window or the day before it"
        yield "deploys", NOBODY_TOLD if context.deploys is None else told
    for deploy in context.deploys or ():
        yield "deploy", str(deploy)


def record(incident: Incident, context: TicketContext) -> dict[str, object]:
    """The same for ``ticket.json``; null is what is not known."""
    return {
        "window": {
            "last_good": show_moment(context.last_good_at) if context.last_good_at else None,
            "first_bad": show_moment(context.first_bad_at) if context.first_bad_at else None,
        },
        "positions": {
            "last_good": _position(context.last_good, incident.engine),
            "first_bad": _position(context.first_bad, incident.engine),
        },
        "writers": [
            {
                "transaction": one.xid,
                "committed_at": _exactly(one.committed_at),
                "rows": list(one.rows),
                "first_record": (trace.first or None) if (trace := context.traces.of(one.xid)) else None,
                "commit_record": (trace.committed or None) if trace else None,
            }
            for one in context.writers
        ],
        "commits": [
            {
                "transactions": list(one.xids),
                "committed_at": _exactly(one.committed_at),
                "rows": list(one.rows),
                "one_commit": one.known.value if one.known is not None else None,
            }
            for one in commits_of(context.writers, context.traces)
        ],
        "overlap": prove_overlap(context.writers, context.traces),
        "commit_times": _traces(incident, context).commit_times,
        "log": _traces(incident, context).log,
        "definition": context.definition or None,
        "generation": context.generation or None,
        "deploys": None
        if context.deploys is None
        else [
            {
                "service": one.deploy.service,
                "version": one.deploy.version,
                "at": show_moment(one.deploy.at),
                "by": one.deploy.by,
                "where": one.where,
            }
            for one in context.deploys
        ],
    }


def _traces(incident: Incident, context: TicketContext) -> Traces:
    """What was traced; a server that keeps no writers could not be asked."""
    if context.traces != UNTRACED or incident.engine == Dialect.POSTGRESQL.value:
        return context.traces
    return Traces(
        f"not kept: {incident.engine} tells of no row which transaction wrote it",
        "not read: only that of PostgreSQL is",
    )


def _window(context: TicketContext) -> str:
    if context.first_bad_at is None:
        return "not recorded"
    end = show_moment(context.first_bad_at)
    if context.last_good_at is None:
        return f"until {end}; no run before it says since when"
    return (
        f"{show_moment(context.last_good_at)} to {end} ({show_duration(context.first_bad_at - context.last_good_at)})"
    )


def _writer(commit: Commit, context: TicketContext) -> str:
    parts = [commit.said or "not known"]
    at = _exactly(commit.committed_at)
    parts.append(f"committed {at}" if at is not None else "commit time not known")
    traces = [trace for xid in commit.xids if (trace := context.traces.of(xid)) is not None and trace.committed]
    if traces:
        began = all(trace.first for trace in traces)
        first = f"first record {traces[0].first}" if began else f"first record before {context.traces.since}"
        parts.append(f"{first}, commit {traces[0].committed}")
    return f"{', '.join(parts)}: {', '.join(commit.rows)}"


def _exactly(moment: datetime | None) -> str | None:
    """To the microsecond: two of them are compared."""
    if moment is None:
        return None
    return utc(moment).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _stand(position: Position | None, engine: str) -> str:
    if position is None:
        return "not recorded"
    parts = [show_moment(position.moment), f"replica {position.replica}"]
    if position.log_position:
        parts.append(f"{_LOG_WORDS.get(engine, 'log position')} {position.log_position}")
    else:
        parts.append("log position not kept")
    if position.snapshot:
        parts.append(f"snapshot {position.snapshot}")
    if position.in_progress:
        more = f" and {len(position.in_progress) - _SHOWN} more" if len(position.in_progress) > _SHOWN else ""
        parts.append(f"in progress {', '.join(map(str, position.in_progress[:_SHOWN]))}{more}")
    return "  ".join(parts)


def _position(position: Position | None, engine: str) -> dict[str, object] | None:
    if position is None:
        return None
    return {
        "at": show_moment(position.moment),
        "replica": position.replica,
        "role": position.role or None,
        "system": position.system or None,
        "timeline": position.timeline or None,
        _LOG_WORDS.get(engine, "log_position").lower(): position.log_position or None,
        "snapshot": position.snapshot or None,
        "in_progress": None if position.in_progress is None else list(position.in_progress),
    }
