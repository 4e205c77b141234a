"""Keys of a domain leave as stand-ins of the type that it stands on; what then refuses them is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import psycopg
import pytest

from holdtrue.databases import Databases
from holdtrue.errors import PromotionRefused
from holdtrue.model import Evidence, TableRows, Ticket
from holdtrue.testing import BarrierDatabase
from scenes.promoting import RULE, SCRATCH, catalog, look, opened_house, promote, save
from servers.invariants import postgres_config
from servers.postgres import FreshDatabase, PostgresPrimary
from stores import House

SECRET = "Ada.Secret@example.test"
RULED = replace(
    RULE,
    sql="SELECT dispute_id, count(*) AS n FROM refunds WHERE state = 'settled' GROUP BY 1 HAVING count(*) > 1",
    columns=frozenset({"dispute_id", "n", "refunds.id", "refunds.dispute_id", "refunds.state", "disputes.id"}),
)


@pytest.fixture
def house(sqlite_url: str) -> Iterator[House]:
    with opened_house(sqlite_url) as made:
        yield made


@pytest.fixture
def place(postgres_database: FreshDatabase, postgres_primary: PostgresPrimary) -> FreshDatabase:
    SCRATCH["HOLDTRUE_SCRATCH_URL"] = postgres_primary.url()
    return postgres_database


def broken(house: House, place: FreshDatabase, kind: str, types: Sequence[str]) -> tuple[int, Evidence]:
    """An alert over refunds of a dispute of a customer, whose key is of ``kind``."""
    value = "{" + SECRET + "}" if "[]" in types[0] else SECRET
    place.execute(
        [
            *types,
            f"CREATE TABLE customers (mail {kind} PRIMARY KEY)",
            f"CREATE TABLE disputes (id int PRIMARY KEY, customer {kind} NOT NULL REFERENCES customers)",
            "CREATE TABLE refunds (id int PRIMARY KEY, dispute_id int NOT NULL REFERENCES disputes, state text)",
            f"INSERT INTO customers VALUES ('{value}')",
            f"INSERT INTO disputes VALUES (1, '{value}')",
        ]
    )
    with closing(Databases(environ={})) as databases:
        databases.configure([postgres_config(place.standby_url)])
        save(house, look(databases, RULED))
        place.execute("INSERT INTO refunds VALUES (1, 1, 'settled'), (2, 1, 'settled')")
        alert = save(house, look(databases, RULED))
    (kept,) = house.store.alerts.get(alert).evidence
    return alert, kept.evidence


def promoted(house: House, alert: int) -> Ticket:
    return promote(house, catalog(RULED), alert, by="ana")


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("mail", ["CREATE DOMAIN mail AS text CHECK (VALUE <> '')"]),
        ("mail", ["CREATE DOMAIN address AS varchar(40)", "CREATE DOMAIN mail AS address NOT NULL"]),
        ("away.citext", ["CREATE SCHEMA away", "CREATE EXTENSION citext SCHEMA away"]),
        ("mail", ["CREATE SCHEMA away", "CREATE EXTENSION citext SCHEMA away", "CREATE DOMAIN mail AS away.citext"]),
    ],
    ids=["domain", "domain over a domain", "citext elsewhere", "domain over citext"],
)
def test_a_key_of_a_domain_leaves_as_a_stand_in_of_its_base_type(
    house: House, place: FreshDatabase, kind: str, types: Sequence[str]
) -> None:
    """semantics 4.4."""
    alert, evidence = broken(house, place, kind, types)
    assert evidence.incomplete == ""
    assert evidence.pseudonymised == ("customers.mail", "disputes.customer")
    files = dict(promoted(house, alert).files)
    assert '"result": "breaks"' in files["ticket.json"]
    assert SECRET.lower() not in "".join(files.values()).lower()


def test_a_domains_check_that_refuses_a_stand_in_is_told_with_the_column(house: House, place: FreshDatabase) -> None:
    """semantics 9.2: the type alone says nothing of where to look."""
    alert, _ = broken(house, place, "mail", ["CREATE DOMAIN mail AS text CONSTRAINT looks_like CHECK (VALUE ~ '@')"])
    with pytest.raises(PromotionRefused) as refused:
        promoted(house, alert)
    said = str(refused.value)
    assert "constraint looks_like of the type mail refuses a value of customers.mail" in said
    assert (
        "stand-ins may be what is refused (customers.mail, disputes.customer): declare safe what holds nothing" in said
    )


@pytest.mark.parametrize(
    ("types", "refusal"),
    [
        ([f"CREATE TYPE mail AS ENUM ('{SECRET}')"], "customers.mail refuses NULL"),
        (
            ["CREATE DOMAIN many AS text[]", "CREATE DOMAIN mail AS many NOT NULL"],
            "NOT NULL of the type mail refuses a value of customers.mail",
        ),
    ],
    ids=["enum", "domain over an array"],
)
def test_what_has_no_stand_in_is_named_in_a_whole_sentence(
    house: House, place: FreshDatabase, types: Sequence[str], refusal: str
) -> None:
    alert, _ = broken(house, place, "mail", types)
    with pytest.raises(PromotionRefused) as refused:
        promoted(house, alert)
    said = str(refused.value)
    assert refusal in said
    for name in ("customers.mail", "disputes.customer"):
        assert f"{name} is withheld (its type has no stand-in: declare it safe)" in said


def test_times_of_a_domain_over_a_domain_move_with_the_clock(postgres_primary: PostgresPrimary) -> None:
    """semantics 9.4."""

    def build(url: str) -> None:
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(
                "CREATE DOMAIN moment AS timestamptz; CREATE DOMAIN lease AS moment NOT NULL; CREATE DOMAIN day AS date;"
                "CREATE TABLE jobs (id int PRIMARY KEY, at lease, due day)"
            )

    long_ago = datetime(2020, 1, 1, 12, tzinfo=UTC).isoformat()
    rows = TableRows("jobs", ("id", "at", "due"), (("1", long_ago, "2020-01-01"),))
    with closing(BarrierDatabase("postgresql", build, postgres_primary.url)) as database:
        assert database.control.put((rows,), shift_from=long_ago) is None
        moved = database.control.ask("SELECT at > now() - interval '1 hour', due > current_date - 2 FROM jobs")
    assert moved == [(True, True)]
