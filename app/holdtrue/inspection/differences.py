"""what two forms of an invariant find differently, and what else of it was changed (pure)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from holdtrue.databases import Examined
from holdtrue.ledger import rank
from holdtrue.model import (
    Cron,
    Disposition,
    Failure,
    Interval,
    Invariant,
    Outcome,
    Policy,
    Returns,
    Settle,
    show_duration,
)

_TEXTS: Final = ("sql", "population", "rows_sql")
_NOT_SHOWN: Final = frozenset(
    {"name", "definition", "meaning", "place", "tables", "databases", "examples", "inspected", "renamed_from"}
)
_DECIDES: Final = frozenset(
    {
        "sql",
        "returns",
        "key",
        "declared_databases",
        "settle",
        "confirm",
        "population",
        "waive",
        "count_limit",
        "tolerate",
    }
)
_NAMES: Final = {"declared_databases": "databases", "operation": "promote.operation", "states": "promote.states"}


class Answered(StrEnum):
    """What a comparison on one database came to."""

    SAME = "same"
    DIFFERENT = "different"
    COULD_NOT_LOOK = "could not look"


@dataclass(frozen=True, slots=True)
class Side:
    """One form of the invariant on one database, just asked; ``examined`` is None where there was no look at all."""

    invariant: Invariant
    examined: Examined | None
    failure: Failure | None

    @property
    def outcome(self) -> Outcome:
        """How it ended; a look that came to nothing is errored."""
        return self.examined.outcome if self.examined is not None else Outcome.ERRORED

    @property
    def good(self) -> bool:
        """Whether it was really looked at."""
        return self.outcome is not Outcome.ERRORED


@dataclass(frozen=True, slots=True)
class OnlyKey:
    """A key that one form counts and the other does not: its masked text, and what it is in the other if it is there."""

    key: str
    shown: str
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """What two forms find. Lists of keys are None where they cannot be told, and ``why`` says why."""

    answered: Answered
    only_former: tuple[OnlyKey, ...] | None = None
    only_edited: tuple[OnlyKey, ...] | None = None
    in_both: int | None = None
    of_a_sample: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """One key of the YAML that was changed; ``decides`` says that it is part of the definition."""

    name: str
    before: str
    after: str
    decides: bool


def difference(former: Side | None, edited: Side | None) -> Difference:
    """Compare what two forms found in one snapshot; a form that is not there finds nothing."""
    there = [one for one in (former, edited) if one is not None]
    if not there or not all(one.good for one in there):
        return Difference(Answered.COULD_NOT_LOOK)
    why = _why_not(former, edited)
    cut = any(not _complete(one) for one in there)
    if why:
        return Difference(_answered(different=_is_told_apart(former, edited), cut=cut), why=why)
    before, after, sampled = _compared(former, edited)
    only_former = _only(before, after) if edited is None or _complete(edited) else None
    only_edited = _only(after, before) if former is None or _complete(former) else None
    different = _is_told_apart(former, edited) or bool(only_former) or bool(only_edited)
    untold = only_former is None or only_edited is None
    return Difference(
        _answered(different=different, cut=untold),
        only_former,
        only_edited,
        len(_counted(before) & _counted(after)),
        of_a_sample=sampled,
        why="one of them was cut short: keys that only the other has cannot be told" if untold else "",
    )


def _answered(*, different: bool, cut: bool) -> Answered:
    return Answered.DIFFERENT if different else Answered.COULD_NOT_LOOK if cut else Answered.SAME


def _is_told_apart(former: Side | None, edited: Side | None) -> bool:
    """Whether outcome or number prove a difference: of one that was cut short only "at least" is known."""
    outcomes = {one.outcome if one is not None else Outcome.HELD for one in (former, edited)}
    before, after = _count(former), _count(edited)
    whole = former is None or _complete(former), edited is None or _complete(edited)
    return len(outcomes) > 1 or (whole[0] and after > before) or (whole[1] and before > after)


def changes(former: Invariant, edited: Invariant) -> tuple[Changed, ...]:
    """What was changed beside the name, by key of the YAML; texts are said to have changed and not shown."""
    return tuple(_changes(former, edited))


def _changes(former: Invariant, edited: Invariant) -> Iterator[Changed]:
    for field in fields(Invariant):
        name = field.name
        before, after = getattr(former, name), getattr(edited, name)
        if name in _NOT_SHOWN or before == after:
            continue
        if name == "policy":
            yield from _policy(before, after)
        elif name in _TEXTS:
            yield Changed(name, _length(before), _length(after), name in _DECIDES)
        else:
            yield Changed(_NAMES.get(name, name), _shown(before), _shown(after), name in _DECIDES)


def _policy(before: Policy, after: Policy) -> Iterator[Changed]:
    for field in fields(Policy):
        one, other = getattr(before, field.name), getattr(after, field.name)
        if one != other:
            never = "never" if field.name == "remind_every" else ""
            yield Changed(f"policy.{field.name}", _shown(one) or never, _shown(other) or never, field.name in _DECIDES)


def _length(text: str | None) -> str:
    return "none" if text is None else f"{len(text)} characters"


def _shown(value: Any) -> str:  # noqa: ANN401  any value of an invariant
    """A value as its YAML says it. Waivers hold values of rows: they are counted, not shown."""
    match value:
        case None | "" | ():
            return ""
        case timedelta():
            return show_duration(value)
        case Settle():
            return f"{value.column} after {show_duration(value.after)}, at most {show_duration(value.at_most)}"
        case Interval():
            return f"every {show_duration(value.every)}"
        case Cron():
            return f"{value.line} ({value.timezone})"
        case frozenset():
            return ", ".join(sorted(str(one) for one in value))
        case tuple() if all(isinstance(one, str) for one in value):
            return ", ".join(value)
        case tuple():
            return f"{len(value)} of them"
        case _:
            return str(value)


def _count(side: Side | None) -> int:
    return side.examined.tallied.counted if side is not None and side.examined is not None else 0


def _complete(side: Side) -> bool:
    return side.examined is not None and side.examined.complete


def _why_not(former: Side | None, edited: Side | None) -> str:
    """Why keys cannot be compared; empty if they can."""
    sides = [one for one in (former, edited) if one is not None]
    if any(one.invariant.returns is Returns.COUNT for one in sides):
        return "a number has no keys"
    if former is None or edited is None or former.examined is None or edited.examined is None:
        return ""
    before, after = former.examined.tallied.key_columns, edited.examined.tallied.key_columns
    if before == after:
        return ""
    if not former.invariant.key and not edited.invariant.key:
        return "without `key` whole rows are compared, and their columns were changed"
    return f"the key was changed, from {', '.join(before) or 'the whole row'} to {', '.join(after) or 'the whole row'}"


_Keys = Mapping[str, tuple[Disposition, str]]


def _compared(former: Side | None, edited: Side | None) -> tuple[_Keys, _Keys, bool]:
    """The keys of both that may be compared: of huge results each knows the smallest hashes alone (semantics 4.3)."""
    tallied = [
        one.examined.tallied if one is not None and one.examined is not None else None for one in (former, edited)
    ]
    horizons = [one.horizon for one in tallied if one is not None and one.horizon is not None]
    keys: list[_Keys] = [one.keys if one is not None else {} for one in tallied]
    if not horizons:
        return keys[0], keys[1], False
    until = min(rank(one) for one in horizons)
    before, after = ({key: found for key, found in one.items() if rank(key) <= until} for one in keys)
    return before, after, True


def _counted(keys: _Keys) -> set[str]:
    return {key for key, (disposition, _) in keys.items() if disposition is Disposition.COUNTED}


def _only(these: _Keys, others: _Keys) -> tuple[OnlyKey, ...]:
    counted = _counted(others)
    return tuple(
        OnlyKey(key, shown, others[key][0].value if key in others else "")
        for key, (disposition, shown) in these.items()
        if disposition is Disposition.COUNTED and key not in counted
    )
