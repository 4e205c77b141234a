"""the canary: its keys, the rule and database of our own that it becomes, and the names that are kept for it"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from holdtrue.catalog.definitions import definition_hash
from holdtrue.catalog.groups import Group, Key
from holdtrue.catalog.notifiers import SHORT
from holdtrue.catalog.secrets import dialect_of
from holdtrue.catalog.shapes import Duration, Fields, ListOf, nearest
from holdtrue.model import (
    CANARY_NAME,
    CANARY_OWNER,
    Canary,
    DatabaseConfig,
    Dialect,
    Freshness,
    Interval,
    Invariant,
    Policy,
    Problem,
    ReplicaConfig,
    ServiceConfig,
    Severity,
)

CANARY: Final = Group(
    "canary",
    (
        Key("notify", ListOf(SHORT, 1, unique=True), "The notifiers that it proves, and nobody else.", required=True),
        Key(
            "every",
            Duration(timedelta(seconds=30), timedelta(days=30)),
            "How often each of them is sent a `fired` and its `resolved`.",
            "1d",
        ),
    ),
    {"interval": "every", "schedule": "every", "notifiers": "notify", "notifier": "notify", "to": "notify"},
)

SQL: Final = "SELECT round FROM canary_rounds WHERE mended_at IS NULL"
"""A round that is begun and not mended is the violation."""

_DESCRIPTION: Final = (
    "Holdtrue breaks this rule by itself and mends it again, to prove that messages arrive here. "
    "Nothing of yours is violated, and nothing is to be done."
)


def canary_of(fields: Fields) -> Canary | None:
    """What is declared, as far as it could be read."""
    declared = fields.get("canary")
    if declared is None or "notify" not in declared:
        return None
    return Canary(**declared.values)


def check_canary(fields: Fields, config: ServiceConfig) -> Iterable[Problem]:
    """Notifiers that are not there, or that are owed no messages; and a database that has the canary's name."""
    declared = fields.get("canary")
    if declared is not None and "notify" in declared:
        messengers = [one.name for one in config.messengers]
        keepers = [one.name for one in config.state_keepers]
        for name, node in zip(declared.get("notify"), declared.written["notify"][1].items, strict=True):
            if name in keepers:
                message = (
                    "an Alertmanager is told of the canary never: what it takes is seen at each push; take it away"
                )
                yield Problem(node.place, message, name)
            elif name not in messengers:
                yield Problem(node.place, "there is no such notifier", name, nearest(name, messengers))
    databases = fields.get("databases", {})
    if CANARY_NAME in databases:
        yield Problem(databases[CANARY_NAME].node.place, "this name is kept for the canary's own database", CANARY_NAME)


def check_kept(own: Fields, defaults: Fields | None) -> Iterable[Problem]:
    """An invariant that would pass for the canary: whatever has its owner is left out of every count."""
    if own.get("name") == CANARY_NAME:
        yield Problem(own.written["name"][1].place, "this name is kept for the canary (`canary:` of holdtrue.yaml)")
    if own.get("renamed_from") == CANARY_NAME:
        yield Problem(
            own.written["renamed_from"][1].place, "the canary's history is its own, and goes over to no other"
        )
    has = own if "owner" in own else defaults
    if has is not None and has.get("owner") == CANARY_OWNER:
        message = "the owner `holdtrue` is kept for the canary, which is left out of every count; name who answers for this one"
        yield Problem(has.written["owner"][1].place, message, CANARY_OWNER)


def the_canary(
    config: ServiceConfig, environ: Mapping[str, str]
) -> tuple[Invariant, DatabaseConfig] | tuple[None, None]:
    """The rule and the database that a declared canary becomes: a table beside the store's, asked like any other."""
    if config.canary is None:
        return None, None
    database = DatabaseConfig(
        name=CANARY_NAME,
        dialect=dialect_of(config.store.url, environ) or Dialect.POSTGRESQL,
        replicas=(ReplicaConfig("store", config.store.url),),
        freshness=Freshness.NONE,
        allow_primary=True,
        concurrency=1,
    )
    asked, key = (CANARY_NAME,), ("round",)
    invariant = Invariant(
        name=CANARY_NAME,
        sql=SQL,
        databases=asked,
        declared_databases=asked,
        schedule=Interval(config.canary.interval),
        definition=definition_hash(sql=SQL, key=key, databases=asked),
        description=_DESCRIPTION,
        severity=Severity.INFO,
        owner=CANARY_OWNER,
        key=key,
        columns=frozenset(key),
        # Each round is an episode of its own, told once at its beginning and once at its end.
        policy=Policy(remind_every=None, reopen_within=timedelta(0)),
        tables=("canary_rounds",),
    )
    return invariant, database
