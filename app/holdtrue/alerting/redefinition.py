"""decides how an alert ends that only another text no longer finds"""

from __future__ import annotations

from holdtrue.model import AlertState, Ending, Episode, Former, Invariant, Reason, Run, Standing


def held_in_a_row(alert: Episode, before: Standing, definition: str) -> int:
    """How many good runs in a row will have held with this one; they count in a row under one definition only."""
    return (alert.held_in_a_row if before.good_definition == definition else 0) + 1


def wants_former(alert: Episode | None, before: Standing, invariant: Invariant) -> bool:
    """Whether the former definition is to be asked once more if this run holds: it would end the alert (semantics 1.2)."""
    if alert is None or alert.state is not AlertState.FIRING or alert.definition == invariant.definition:
        return False
    return held_in_a_row(alert, before, invariant.definition) >= invariant.policy.resolve_after


def end_of(run: Run, former: Former | None, counted_before: int) -> tuple[Ending, Reason, str]:
    """How the alert ends, and what is said of the change: resolved only if the former definition holds too."""
    if former is None:
        former = Former(revision=f"generation {run.generation}", problem="nobody asked it")
    changed = f"the definition changed with the catalog of {former.revision}"
    if former.problem:
        detail = (
            f"{changed}: {counted_before} counted under the former one, {run.counted} under the new one; "
            f"the former text could not be asked: {former.problem}"
        )
        return Ending.REDEFINED, Reason.REDEFINED, detail
    if former.violated:
        detail = (
            f"{changed}: asked once more in the same look, the former text still counts {former.show_count()}, "
            f"the new one {run.counted}"
        )
        return Ending.REDEFINED, Reason.REDEFINED, detail
    return Ending.RESOLVED, Reason.RESOLVED, f"{changed}; the former text holds too"
