"""says in the log what people were owed a message about, and which run could not look: names, codes and counts alone"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import structlog

from holdtrue.model import CANARY_NAME, Change, Outcome, Reason, Run

log = structlog.get_logger("holdtrue.monitoring")

_GOOD_NEWS = frozenset({Reason.RESOLVED, Reason.RECOVERED, Reason.REDEFINED})


def note_run(run: Run) -> None:
    """A line for a run that could not look; never the sentence or the server's text, which may hold values."""
    if run.outcome is not Outcome.ERRORED or run.database == CANARY_NAME:
        return
    failure = run.failure
    # Whoever saves must not end because nobody takes the log any more.
    with suppress(OSError, ValueError):
        log.warning(
            "run_errored",
            invariant=run.invariant,
            database=run.database,
            reason=failure.reason.value if failure is not None else "",
            sqlstate=(failure.sqlstate if failure is not None else None) or "",
            attempt=run.attempt,
        )


def note_changes(changes: Iterable[Change]) -> None:
    """A line for each step of an alert that people are told of; call it when the store has taken them."""
    for change in changes:
        episode = change.episode
        if episode.canary:
            continue
        for event in change.events:
            if event.reason is None:
                continue
            write = log.info if event.reason in _GOOD_NEWS else log.warning
            with suppress(OSError, ValueError):
                write(
                    f"alert_{event.reason.value}",
                    invariant=episode.invariant,
                    database=episode.database,
                    subject=episode.subject.value,
                    severity=episode.severity,
                    count=event.count,
                    run=event.run or 0,
                    alert=episode.id,
                )
