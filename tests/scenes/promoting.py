"""an alert of a real look, kept in a real store, and its way to a ticket"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from holdtrue import promotion
from holdtrue.databases import Databases, Examined
from holdtrue.model import (
    BaseRows,
    Catalog,
    DatabaseConfig,
    Invariant,
    KeyState,
    Novelty,
    ServiceConfig,
    Ticket,
)
from holdtrue.rehearsal import IncidentRehearsal
from holdtrue.scaffolding import Wanted
from holdtrue.store import open_store
from holdtrue.testing import load_incident
from racy import schema
from servers.invariants import ask, postgres_config, sqlite_config
from stores import DATABASE, Clock, House, entry, invariant

SCRATCH: dict[str, str] = {}
"""Where exports are tried: a test that needs PostgreSQL names its server here."""

SAFE = frozenset(
    {
        "dispute_id",
        "refunds",
        "refunds.state",
        "refunds.id",
        "refunds.amount_eur",
        "disputes.amount_eur",
        "accounts.version",
    }
)
RULE = replace(
    invariant("one_settled_refund_per_dispute"),
    sql=schema.ONE_SETTLED,
    key=("dispute_id",),
    columns=SAFE,
    base_rows=(BaseRows("refunds", (("dispute_id", "dispute_id"),)),),
    operation="payments.refunds:issue_refund",
)
SETTLE = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'settled')"
DRIFT = """
SELECT a.id FROM accounts a LEFT JOIN (SELECT account_id, sum(amount_eur) AS total FROM credit_log GROUP BY account_id) l
 ON l.account_id = a.id WHERE a.credit_balance_eur <> l.total
"""
CREDIT = "INSERT INTO credit_log (account_id, amount_eur) VALUES ('acc_1', 40)"
DRIFTING = replace(
    RULE,
    key=("id",),
    tables=("accounts", "credit_log"),
    columns=frozenset(
        {
            "id",
            "accounts.id",
            "accounts.credit_balance_eur",
            "accounts.version",
            "credit_log.id",
            "credit_log.account_id",
        }
        | {"credit_log.amount_eur"}
    ),
    base_rows=(BaseRows("accounts", (("id", "id"),)), BaseRows("credit_log", (("account_id", "id"),))),
)


def catalog(rule: Invariant = RULE, config: DatabaseConfig | None = None) -> Catalog:
    database = replace(config or postgres_config("postgresql://nowhere"), name=DATABASE)
    return Catalog((rule,), ServiceConfig(databases=(database,), external_url="https://holdtrue.example/"), (), "hash")


def look(databases: Databases, rule: Invariant = RULE) -> Examined:
    answer = ask(databases, rule, never_seen=lambda tallied, _complete: tuple(tallied.keys))
    assert isinstance(answer, Examined), answer
    return answer


def save(house: House, examined: Examined) -> int:
    """Keep the run as monitoring does; the open alert's number, or 0."""
    (claim,) = house.claim()
    counted = examined.tallied.counted
    run = house.run(claim, examined.outcome, counted=counted, returned=counted, position=examined.position)
    now = house.clock.now
    keys = tuple(
        KeyState(key, disposition, Novelty.NEW, now, now, now)
        for key, (disposition, _) in examined.tallied.keys.items()
    )
    (saved,) = house.save(house.finished(claim, run=run, evidence=examined.evidence, key_changes=keys))
    assert not saved.dropped
    house.clock.now = max(house.clock.now, claim.due_at) + (claim.lease_until - house.clock.now) * 60
    alerts = house.store.alerts.find_open(RULE.name)
    return alerts[0].id if alerts else 0


@contextmanager
def opened_house(url: str) -> Iterator[House]:
    """A store with one entry, that of the rule."""
    clock = Clock()
    store = open_store(url, clock=clock)
    made = House(store, clock, url)
    made.install(entry(RULE.name))
    yield made
    store.close()


def alert_of(
    house: House, path: Path, rule: Invariant, before: Sequence[str], after: Sequence[str]
) -> tuple[int, DatabaseConfig]:
    """The alert of a SQLite file that held after ``before`` and broke after ``after``."""
    engine = create_engine(f"sqlite:///{path}")
    databases = Databases(environ={})
    config = sqlite_config(path)
    databases.configure([config])
    try:
        for statements in ([*schema.SQLITE.split(";"), *before], after):
            with engine.begin() as connection:
                for statement in statements:
                    if statement.strip():
                        connection.exec_driver_sql(statement)
            alert = save(house, look(databases, rule))
    finally:
        databases.close()
        engine.dispose()
    return alert, config


def promote(house: House, catalog: Catalog, alert: int, *, by: str, **wanted: Any) -> Ticket:
    return promotion.promote(
        house.store,
        catalog,
        alert,
        by=by,
        now=house.clock.now,
        rehearsal=IncidentRehearsal(SCRATCH),
        wanted=Wanted(**wanted),
    )


def preview(house: House, catalog: Catalog, alert: int, *, by: str, **wanted: Any) -> Ticket:
    return promotion.preview(
        house.store,
        catalog,
        alert,
        by=by,
        now=house.clock.now,
        rehearsal=IncidentRehearsal(SCRATCH),
        wanted=Wanted(**wanted),
    )


def incident_of(ticket: Any, folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    for path, text in ticket.files:
        (folder / path).write_text(text, encoding="utf-8")
    checksum = json.loads(dict(ticket.files)["ticket.json"])["checksum"]
    return load_incident(folder / "incident.json", checksum=checksum)
