"""What leaves was tried on a scratch database first: the seed holds and seed + observed breaks, or it is said why not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from holdtrue import embedded
from holdtrue.errors import PromotionRefused
from holdtrue.model import BaseRows, DatabaseConfig, Dialect, Incident, TableRows
from holdtrue.promotion import Draft
from holdtrue.rehearsal import IncidentRehearsal, Rehearsed
from holdtrue.scaffolding import Finding
from holdtrue.store.engine import StoreEngine
from holdtrue.store.tables import deploys
from racy import schema
from scenes.promoting import CREDIT, DRIFT, DRIFTING, RULE, SETTLE, alert_of, catalog, opened_house, preview, promote
from servers.invariants import postgres_config, sqlite_config
from servers.postgres import PostgresPrimary
from stores import House

REFUND = ("id", "dispute_id", "amount_eur", "state")
ACCOUNTS = TableRows("accounts", ("id", "credit_balance_eur", "version"), (("acc_1", "0.00", "0"),))
DISPUTES = TableRows("disputes", ("id", "account_id", "amount_eur"), (("dsp_1", "acc_1", "40.00"),))
SETTLED = TableRows("refunds", REFUND, (("3", "dsp_1", "40.00", "settled"), ("4", "dsp_1", "40.00", "settled")))
INCIDENT = Incident(
    id="refunds_7",
    invariant="one_settled_refund_per_dispute",
    database="payments",
    engine="postgresql",
    sql=schema.ONE_SETTLED,
    returns="rows",
    seed=(ACCOUNTS, DISPUTES),
    observed=(SETTLED,),
)


@pytest.fixture
def tried(postgres_primary: PostgresPrimary) -> Iterator[Callable[..., Rehearsed]]:
    """Tries an incident on a schema, and looks afterwards that nothing was left on the server."""

    def left() -> list[Any]:
        with postgres_primary.connect() as connection:
            return connection.execute(
                "SELECT datname FROM pg_database WHERE datname LIKE 'holdtrue_scratch%'"
                " UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE 'holdtrue_scratch%'"
            ).fetchall()

    rehearsal = IncidentRehearsal({"HOLDTRUE_SCRATCH_URL": postgres_primary.url()})
    config = postgres_config("postgresql://nowhere")

    def look_at(
        incident: Incident = INCIDENT, ddl: str = schema.POSTGRESQL, config: DatabaseConfig = config
    ) -> Rehearsed:
        with rehearsal.begin() as rehearse:
            return rehearse(incident, ddl, config)

    yield look_at
    assert left() == []


def test_rows_that_break_the_rule_on_their_own_schema_are_said_to(tried: Callable[..., Rehearsed]) -> None:
    found = tried()
    assert found.finding is Finding.BREAKS
    assert found.sentence.startswith("on a scratch PostgreSQL ")
    assert "proved" not in found.sentence


@pytest.mark.parametrize(
    ("changes", "finding", "says"),
    [
        ({"seed": (ACCOUNTS, DISPUTES, SETTLED)}, Finding.SEED_BREAKS, "the seed alone breaks the rule"),
        ({"observed": (replace(SETTLED, rows=SETTLED.rows[:1]),)}, Finding.NOT_BROKEN, "the rule still holds"),
        (
            {"seed": (ACCOUNTS,)},
            Finding.OBSERVED_REFUSED,
            "constraint refunds_dispute_id_fkey of refunds refuses a row",
        ),
        ({"seed": (DISPUTES,)}, Finding.SEED_REFUSED, "constraint disputes_account_id_fkey of disputes refuses a row"),
        (
            {"observed": (replace(SETTLED, columns=("id", "dispute_id", "amount", "state")),)},
            Finding.OBSERVED_REFUSED,
            "refunds has no column amount",
        ),
        ({"sql": "SELECT 1 FROM elsewhere"}, Finding.NOT_LOOKED, "does not run on this schema (SQLSTATE 42P01)"),
    ],
)
def test_what_the_rows_do_not_do_is_said_precisely(
    changes: dict[str, Any], finding: Finding, says: str, tried: Callable[..., Rehearsed]
) -> None:
    """semantics 9.2, 9.4."""
    found = tried(replace(INCIDENT, **changes))
    assert (found.finding, says in found.sentence) == (finding, True), found
    assert "dsp_1" not in found.sentence


def test_a_schema_that_cannot_be_built_is_no_verdict_on_the_rows(tried: Callable[..., Rehearsed]) -> None:
    found = tried(ddl="CREATE TABLE refunds (id not_a_type)")
    assert found.finding is Finding.NOT_LOOKED
    assert 'type "not_a_type" does not exist' in found.sentence


def test_the_tables_are_found_by_the_search_path_that_production_has(tried: Callable[..., Rehearsed]) -> None:
    ddl = "CREATE SCHEMA pay; SET search_path = pay;" + schema.POSTGRESQL
    config = postgres_config("postgresql://nowhere", search_path="pay, public")
    assert tried(ddl=ddl, config=config).finding is Finding.BREAKS


@pytest.mark.parametrize(
    "expression",
    [
        "pg_read_file('PG_VERSION') <> ''",
        "set_config('role', 'postgres', false) <> '' AND pg_read_file('PG_VERSION') <> ''",
        "lo_export(lo_from_bytea(0, 'x'), '/tmp/holdtrue-scaffold-pwned') = 1",
    ],
)
def test_the_expressions_of_a_monitored_schema_may_do_nothing_on_the_scratch_server(
    expression: str, tried: Callable[..., Rehearsed]
) -> None:
    found = tried(ddl=schema.POSTGRESQL + f"ALTER TABLE accounts ADD CHECK ({expression});")
    assert found.finding is Finding.NOT_LOOKED
    assert "permission denied for function" in found.sentence
    assert not Path("/tmp/holdtrue-scaffold-pwned").exists()


def test_a_server_that_does_not_answer_is_not_having_looked() -> None:
    """semantics 0: not knowing is never good news."""
    with IncidentRehearsal({"HOLDTRUE_SCRATCH_URL": "postgresql://ana:secret@127.0.0.1:1/x"}).begin() as rehearse:
        found = rehearse(INCIDENT, schema.POSTGRESQL, postgres_config("postgresql://nowhere"))
    assert (found.finding, found.sentence) == (Finding.NOT_LOOKED, "the scratch server does not answer")
    assert found.remedy.startswith("name in HOLDTRUE_SCRATCH_URL a PostgreSQL that answers")
    assert not found.place


def test_no_server_binary_is_not_having_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.EmbeddedPostgres, "available", staticmethod(lambda: False))
    with IncidentRehearsal({}).begin() as rehearse:
        found = rehearse(INCIDENT, schema.POSTGRESQL, postgres_config("postgresql://nowhere"))
    assert found.finding is Finding.NOT_LOOKED
    assert found.sentence == "there is no PostgreSQL for a scratch database"
    assert found.remedy.startswith("set HOLDTRUE_SCRATCH_URL")
    assert "pip install 'holdtrue[postgres]'" in found.remedy


def test_no_mariadb_is_not_having_looked_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdtrue.rehearsal.mysql_server._BESIDE_THE_PATH", str(tmp_path))
    with IncidentRehearsal({"PATH": str(tmp_path)}).begin() as rehearse:
        found = rehearse(
            replace(INCIDENT, engine="mysql"), schema.MARIADB, replace(sqlite_config(tmp_path), dialect=Dialect.MYSQL)
        )
    assert (found.finding, found.place) == (Finding.NOT_LOOKED, False)
    assert "HOLDTRUE_SCRATCH_MYSQL_URL" in found.remedy
    assert "mariadbd is started when it is found on the PATH" in found.remedy


def test_what_was_found_is_remembered_and_what_was_not_looked_at_is_not(postgres_primary: PostgresPrimary) -> None:
    environ = {"HOLDTRUE_SCRATCH_URL": "postgresql://127.0.0.1:1/x"}
    rehearsal = IncidentRehearsal(environ)
    config = postgres_config("postgresql://nowhere")
    found = []
    for url in (environ["HOLDTRUE_SCRATCH_URL"], postgres_primary.url(), "postgresql://127.0.0.1:1/x"):
        environ["HOLDTRUE_SCRATCH_URL"] = url
        with rehearsal.begin() as rehearse:
            found.append(rehearse(INCIDENT, schema.POSTGRESQL, config).finding)
    assert found == [Finding.NOT_LOOKED, Finding.BREAKS, Finding.BREAKS]


def sqlite(incident: Incident, ddl: str, tmp_path: Path) -> Rehearsed:
    with IncidentRehearsal({}).begin() as rehearse:
        return rehearse(incident, ddl, sqlite_config(tmp_path / "nowhere.db"))


def typed(rows: TableRows, *classes: str) -> TableRows:
    return replace(rows, types=classes)


def test_a_parent_that_sqlite_does_not_miss_is_named_all_the_same(tmp_path: Path) -> None:
    disputes = typed(replace(DISPUTES, rows=(("dsp_1", "acc_1", "40"),)), "text", "text", "integer")
    settled = (("3", "dsp_1", "40", "settled"), ("4", "dsp_1", "40", "settled"))
    observed = typed(replace(SETTLED, rows=settled), "integer", "text", "integer", "text")
    incident = replace(INCIDENT, engine="sqlite", seed=(disputes,), observed=(observed,))
    found = sqlite(incident, schema.SQLITE, tmp_path)
    assert found.finding is Finding.BREAKS
    assert found.lost == (("disputes", "accounts"),)


def test_a_schema_of_sqlite_reaches_no_other_file(tmp_path: Path) -> None:
    ddl = f"CREATE TABLE t (id); ATTACH '{tmp_path}/other.db' AS o; CREATE TABLE o.t (id);"
    found = sqlite(replace(INCIDENT, engine="sqlite"), ddl, tmp_path)
    assert found.finding is Finding.NOT_LOOKED
    assert "SQLite refused incident_schema.sql" in found.sentence
    assert not (tmp_path / "other.db").exists()


@pytest.fixture
def house(sqlite_url: str) -> Iterator[House]:
    with opened_house(sqlite_url) as made:
        yield made


def test_more_rows_than_are_kept_are_no_test_and_nothing_is_recorded(tmp_path: Path, house: House) -> None:
    """semantics 9.1, 9.2: the cap is named."""
    rule = replace(RULE, sql=schema.ONE_SETTLED.replace("count(*) > 1", "count(*) > 250"))
    alert, config = alert_of(house, tmp_path / "a.db", rule, schema.ROWS, [SETTLE] * 260)
    with pytest.raises(
        PromotionRefused, match="the seed holds, and with the observed rows the rule still holds"
    ) as found:
        promote(house, catalog(rule, config), alert, by="ana")
    assert "more than 200 rows" in found.value.remedy
    assert house.store.tickets.list(alert) == ()


@pytest.mark.parametrize("right", [True, False])
def test_a_wrong_guess_is_found_before_it_leaves(right: bool, tmp_path: Path, house: House) -> None:
    """semantics 9.2: the balance of before is guessed; a rule that looks at more than the sum refuses the guess."""
    rule = replace(DRIFTING, sql=DRIFT if right else DRIFT + " OR l.total IS NULL")
    before = ["INSERT INTO accounts VALUES ('acc_1', 0, 0)"] if right else []
    after = [CREDIT, CREDIT, "UPDATE accounts SET credit_balance_eur = 40"]
    if not right:
        after.insert(0, "INSERT INTO accounts VALUES ('acc_1', 0, 0)")
    alert, config = alert_of(house, tmp_path / "a.db", rule, before, after)
    if right:
        files = dict(promote(house, catalog(rule, config), alert, by="ana").files)
        assert json.loads(files["incident.json"])["seed"][0]["rows"] == [["acc_1", "0", "0"]]
        assert json.loads(files["ticket.json"])["rehearsed"]["result"] == "breaks"
        return
    with pytest.raises(PromotionRefused, match="the seed alone breaks the rule already") as found:
        promote(house, catalog(rule, config), alert, by="ana")
    assert "a guess is wrong (accounts.credit_balance_eur: guessed as the sum" in found.value.remedy


def test_a_draft_makes_exactly_the_files_that_were_previewed(tmp_path: Path, house: House) -> None:
    """semantics 4.4: the salt of another export is another one."""
    alert, config = alert_of(house, tmp_path / "a.db", RULE, schema.ROWS, [SETTLE, SETTLE])
    shown = preview(house, catalog(config=config), alert, by="ana")
    house.clock.forward(timedelta(hours=1))
    made = promote(house, catalog(config=config), alert, by="ana", draft=shown.draft)
    assert made.files == shown.files
    kept = b"".join(one.read_bytes() for one in tmp_path.glob("store.db*"))
    salt = Draft.read(shown.draft, house.clock.now).salt
    assert made.id.encode() in kept
    assert [one for one in (shown.draft.encode(), salt, salt.hex().encode()) if one in kept] == [], "no draft is stored"
    assert not any(shown.draft in text for _, text in made.files)
    assert promote(house, catalog(config=config), alert, by="ana").files != shown.files
    house.clock.forward(timedelta(hours=24))
    for draft in (shown.draft, "no draft", "é", shown.draft[:-4], "A" * 44):
        with pytest.raises(PromotionRefused, match="no draft of a preview of the last 24 hours"):
            promote(house, catalog(config=config), alert, by="ana", draft=draft)


def told_of(files: Sequence[tuple[str, str]]) -> list[str] | None:
    """The versions that a ticket says went out beside its window; None if it says that nobody told of any."""
    found = json.loads(dict(files)["ticket.json"])["deploys"]
    return None if found is None else [one["version"] for one in found]


def test_a_deploy_beside_the_window_is_told_of_however_many_went_out_since(tmp_path: Path, house: House) -> None:
    alert, config = alert_of(house, tmp_path / "a.db", RULE, schema.ROWS, [SETTLE, SETTLE])
    closed = house.store.alerts.get(alert).window.closed
    house.store.deploys.add("payments", "1.4.2", at=closed - timedelta(minutes=2), by="ci", who="token")
    since = [
        {"service": "shop", "version": str(number), "at": closed + timedelta(minutes=1 + number), "by": "ci"}
        for number in range(1001)
    ]
    house.clock.forward(timedelta(days=2))
    engine = StoreEngine(house.url)
    with engine.write() as connection:
        connection.execute(insert(deploys), [{**one, "recorded_at": one["at"]} for one in since])
    engine.close()
    assert told_of(preview(house, catalog(config=config), alert, by="ana").files) == ["1.4.2"]


def test_a_draft_knows_of_no_deploy_that_was_told_of_after_it(tmp_path: Path, house: House) -> None:
    alert, config = alert_of(house, tmp_path / "a.db", RULE, schema.ROWS, [SETTLE, SETTLE])
    closed = house.store.alerts.get(alert).window.closed
    shown = preview(house, catalog(config=config), alert, by="ana")
    assert told_of(shown.files) is None
    house.clock.forward(timedelta(hours=1))
    house.store.deploys.add("payments", "1.4.2", at=closed - timedelta(minutes=2), by="ci", who="token")
    assert promote(house, catalog(config=config), alert, by="ana", draft=shown.draft).files == shown.files
    assert told_of(promote(house, catalog(config=config), alert, by="ana").files) == ["1.4.2"]


def test_a_ticket_says_where_the_salt_of_its_stand_ins_is(tmp_path: Path, house: House) -> None:
    """semantics 4.4: a draft makes the same stand-ins, so whoever has it can tell what a guessed value became."""
    alert, config = alert_of(house, tmp_path / "a.db", RULE, schema.ROWS, [SETTLE, SETTLE])
    shown = preview(house, catalog(config=config), alert, by="ana")
    manual = " ".join(dict(shown.files)["README.md"].split())
    assert "if these files came from a preview, its draft code holds it" in manual
    assert "treat that code as a secret" in manual
    assert all(shown.draft not in text for _, text in shown.files)
    made = promote(house, catalog(config=config), alert, by="ana", draft=shown.draft)
    assert (made.draft, made.files) == ("", shown.files)


STUCK = "SELECT id FROM jobs WHERE state = 'running' AND started < unixepoch() - 3600"
QUEUE = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, started INTEGER, due INTEGER, wait INTEGER)"


def test_an_incident_of_long_ago_is_as_old_as_it_was_though_its_times_are_numbers(tmp_path: Path) -> None:
    """semantics 9.4: else a job that had just been started would be stuck in the seed."""
    then = datetime(2020, 1, 1, tzinfo=UTC)
    moment = int(then.timestamp())
    kinds = ("integer", "text", "integer")
    fresh = TableRows("jobs", ("id", "state", "started"), (("1", "running", str(moment - 60)),), kinds)
    stuck = TableRows("jobs", ("id", "state", "started"), (("2", "running", str(moment - 7200)),), kinds)
    incident = replace(
        INCIDENT, engine="sqlite", sql=STUCK, seed=(fresh,), observed=(stuck,), incident_now=then.isoformat()
    )
    assert sqlite(incident, QUEUE, tmp_path).finding is Finding.BREAKS


def test_numbers_that_count_time_are_told_of_in_header_manual_and_record(tmp_path: Path, house: House) -> None:
    safe = ("id", "jobs.id", "jobs.state", "jobs.started", "jobs.due", "jobs.wait")
    rule = replace(
        RULE,
        sql=STUCK + " AND due + wait < unixepoch()",
        key=("id",),
        tables=("jobs",),
        columns=frozenset(safe),
        base_rows=(BaseRows("jobs", (("id", "id"),)),),
    )
    after = ["INSERT INTO jobs VALUES (1, 'running', unixepoch() - 7200, unixepoch() - 7200, 60)"]
    alert, config = alert_of(house, tmp_path / "a.db", rule, [QUEUE], after)
    files = dict(promote(house, catalog(rule, config), alert, by="ana").files)
    header = files[f"test_incident_{RULE.name}_{alert}.py"]
    assert "moved            with the clock, as numbers that count time: jobs.started" in header
    assert "not moved        jobs.due, a number that the text sets beside the clock" in header
    manual = files["README.md"].partition("## Times")[2].partition("##")[0]
    assert "- moved: `jobs.started`" in manual
    assert "- not moved, look at it: `jobs.due, a number" in manual
    assert json.loads(files["ticket.json"])["moved"] == ["jobs.started"]
