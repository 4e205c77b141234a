"""routes: every key of one, and what of them can never be meant"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdtrue.catalog.groups import Group, Key
from holdtrue.catalog.notifiers import SHORT
from holdtrue.catalog.shapes import Choice, Fields, Flag, ListOf, nearest
from holdtrue.model import (
    Invariant,
    Labels,
    MatchedField,
    Matcher,
    Matching,
    Place,
    Problem,
    Route,
    ServiceConfig,
    Severity,
    matches,
)

_WILD: Final = frozenset("*?[")
_FIELDS: Final = tuple(one.value for one in MatchedField)

ROUTE: Final = Group(
    "a route",
    (
        Key("name", SHORT, "Of invariants with this name, or a pattern (`refund_*`)."),
        Key("owner", SHORT, "Of invariants with this owner, or a pattern."),
        Key("severity", Choice(tuple(one.value for one in Severity)), "Of alerts of this severity."),
        Key("database", SHORT, "On this database, or a pattern (`shard-*`)."),
        Key("tag", SHORT, "Of invariants with this tag, or a pattern."),
        Key(
            "notify",
            ListOf(SHORT, unique=True),
            "The notifiers that are told; an empty list: nobody.",
            required=True,
        ),
        Key("continue", Flag(), "Whether the routes after it are looked at too.", "`false`: the first one decides"),
    ),
    {
        "notifiers": "notify",
        "notifier": "notify",
        "receiver": "notify",
        "to": "notify",
        "tags": "tag",
        "invariant": "name",
        "team": "owner",
        "databases": "database",
    },
)


def routes_of(fields: Fields) -> tuple[Route, ...]:
    """The routes, as far as they could be read."""
    found: list[Route] = []
    for one in fields.get("routes", ()):
        conditions = tuple(_condition(key, one.get(key)) for key in _FIELDS if key in one)
        found.append(Route(conditions, tuple(one.get("notify", ())), one.get("continue", False), one.node.place.line))
    return tuple(found)


def _condition(key: str, value: str) -> Matcher:
    return Matcher(MatchedField(key), Matching.GLOB if _WILD & set(value) else Matching.EQUAL, value)


def check_routes(fields: Fields, config: ServiceConfig) -> Iterable[Problem]:
    """What is wrong with the routes whatever the invariants are: nobody of that name, and routes that nothing reaches."""
    messengers = [one.name for one in config.messengers]
    keepers = [one.name for one in config.state_keepers]
    for one in fields.get("routes", ()):
        if "notify" not in one:
            continue
        for name, node in zip(one.get("notify"), one.written["notify"][1].items, strict=True):
            if name in keepers:
                message = "an Alertmanager is told of everything, and has routes of its own; take it away here"
                yield Problem(node.place, message, name)
            elif name not in messengers:
                yield Problem(node.place, "there is no such notifier", name, nearest(name, messengers))
        if "database" in one and not _WILD & set(one.get("database")):
            databases = [each.name for each in config.databases]
            if one.get("database") not in databases:
                place, name = one.written["database"][1].place, one.get("database")
                yield Problem(place, "there is no such database", name, nearest(name, databases))
    if any(len(one.values) < len(one.node.entries) for one in fields.get("routes", ())):
        # A condition that could not be read is none, and would make its route match everything.
        return
    for at, (route, one) in enumerate(zip(config.routes, fields.get("routes", ()), strict=True)):
        before = next(
            (each for each in config.routes[:at] if not each.goes_on and set(each.conditions) <= set(route.conditions)),
            None,
        )
        if before is not None:
            message = (
                f"this route can never match: the one on line {before.line} takes all of it; "
                "put it before that one, or say `continue: true` there"
            )
            yield Problem(one.node.place, message)


def check_told(fields: Fields, config: ServiceConfig, invariants: Sequence[Invariant]) -> Iterable[Problem]:
    """What the invariants make of the routes: an invariant that nobody would be told of, and a route without any."""
    if not config.routes:
        return
    labelled = [
        (one, Labels(one.name, database, one.owner, one.severity.value, one.tags))
        for one in invariants
        for database in one.databases
    ]
    untold: dict[str, list[Labels]] = {}
    for invariant, labels in labelled:
        if not any(matches(route.conditions, labels) for route in config.routes):
            untold.setdefault(invariant.name, []).append(labels)
    for invariant in invariants:
        if invariant.name in untold:
            yield _untold(invariant, untold[invariant.name], config)
    for one, route in zip(fields.get("routes", ()), config.routes, strict=True):
        if not any(matches(route.conditions, labels) for _, labels in labelled):
            yield _unused(one, route, [labels for _, labels in labelled])


def _untold(invariant: Invariant, labels: Sequence[Labels], config: ServiceConfig) -> Problem:
    where = f" on {', '.join(one.database for one in labels)}" if len(invariant.databases) > 1 else ""
    message = (
        f"nobody would be told of it{where}: no route of holdtrue.yaml matches (owner {invariant.owner!r}, severity "
        f"{invariant.severity.value}); end `routes` with one that has nothing but `notify`"
    )
    # An Alertmanager is told of everything, so then it is not lost.
    fatal = not config.state_keepers
    return Problem(invariant.place or Place("holdtrue.yaml", 1, 1), message, invariant.name, fatal=fatal)


def _unused(fields: Fields, route: Route, labels: Sequence[Labels]) -> Problem:
    held: Mapping[MatchedField, set[str]] = {
        MatchedField.NAME: {one.name for one in labels},
        MatchedField.OWNER: {one.owner for one in labels if one.owner},
        MatchedField.SEVERITY: {one.severity for one in labels},
        MatchedField.DATABASE: {one.database for one in labels},
        MatchedField.TAG: {tag for one in labels for tag in one.tags},
    }
    for matcher in route.conditions:
        if not any(matches((matcher,), one) for one in labels):
            key, node = fields.written[matcher.field.value]
            message = f"no invariant has such a `{key.text}`, so this route matches nothing"
            near = nearest(matcher.value, sorted(held[matcher.field]))
            return Problem(node.place, message, matcher.value, near, fatal=False)
    return Problem(fields.node.place, "no invariant matches all of it, so this route tells of nothing", fatal=False)
