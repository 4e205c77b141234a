"""decides who is told of an alert"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdtrue.model import Invariant, Labels, Route, ServiceConfig, is_canary, matches


class WhyTold(StrEnum):
    """Why these are told."""

    NO_ROUTES = "there are no routes, so everybody is told"
    ROUTED = "routed"
    NOBODY = "its route names nobody"
    UNMATCHED = "no route matches, so everybody is told"
    CANARY = "the canary tells those whom it proves, and nobody else"


@dataclass(frozen=True, slots=True)
class Routed:
    """Who is told, why, and by the routes on which ``lines`` of ``holdtrue.yaml``."""

    why: WhyTold
    notifiers: tuple[str, ...]
    lines: tuple[int, ...] = ()

    @property
    def sentence(self) -> str:
        """For people: who is told, and by which route."""
        if self.why is WhyTold.NO_ROUTES:
            return ", ".join(self.notifiers) or "nobody: holdtrue.yaml has no notifier that messages are sent to"
        if self.why in (WhyTold.UNMATCHED, WhyTold.CANARY):
            return f"{', '.join(self.notifiers) or 'nobody'} ({self.why.value})"
        noun = "line" if len(self.lines) == 1 else "lines"
        where = f"by the route on {noun} {', '.join(map(str, self.lines))} of holdtrue.yaml"
        return f"{', '.join(self.notifiers) or 'nobody'} ({where})"


def labels_for(invariant: Invariant, database: str) -> Labels:
    """What routes and silences are held against, as the catalog says it."""
    return Labels(invariant.name, database, invariant.owner, invariant.severity.value, invariant.tags)


def routed(routes: Sequence[Route], everybody: Sequence[str], labels: Labels) -> Routed:
    """Who is told of what has these labels.

    The first route that matches decides, and goes on to the next one only if it says so. What no route matches has left the
    catalog or changed since (a catalog with an untold invariant is refused): telling everybody is the safe side.
    """
    if not routes:
        return Routed(WhyTold.NO_ROUTES, tuple(everybody))
    told: dict[str, None] = {}
    lines: list[int] = []
    for route in routes:
        if not matches(route.conditions, labels):
            continue
        lines.append(route.line)
        told.update(dict.fromkeys(route.notify))
        if not route.goes_on:
            break
    if not lines:
        return Routed(WhyTold.UNMATCHED, tuple(everybody))
    return Routed(WhyTold.ROUTED if told else WhyTold.NOBODY, tuple(told), tuple(lines))


def routed_by(config: ServiceConfig, labels: Labels) -> Routed:
    """Who is told by this configuration; the canary has a route of its own (semantics 7.7)."""
    if is_canary(labels.name, labels.owner):
        # One that has left the catalog tells nobody new: who was told of its episode hears of the end all the same.
        return Routed(WhyTold.CANARY, config.canary.notify if config.canary is not None else ())
    return routed(config.routes, [one.name for one in config.messengers], labels)


def recipients(config: ServiceConfig | None) -> Callable[[Labels], Sequence[str]]:
    """Who messages are owed to, by the labels of what they are about; without a configuration, nobody."""

    def told(labels: Labels) -> Sequence[str]:
        return routed_by(config, labels).notifiers if config is not None else ()

    return told
