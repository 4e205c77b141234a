"""A frozen incident on the user's own schema: rows come back as they were, and the database is set back whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, event, text

from holdtrue.model import Incident, TableRows
from holdtrue.testing import BadSeed, BarrierDatabase, BarrierFailed, FrozenIncident, Limits, Verdict, WrongDatabase
from holdtrue.testing.added_columns import with_added_columns
from racy import duplicate, lost_update, schema
from servers.postgres import PostgresPrimary

ACCOUNTS = TableRows("accounts", ("id", "credit_balance_eur", "version"), (("acc_1", "0.00", "0"),))
DISPUTES = TableRows("disputes", ("id", "account_id", "amount_eur"), (("dsp_1", "acc_1", "40.00"),))
REFUND = ("id", "dispute_id", "amount_eur", "state")
REFUNDS = TableRows("refunds", REFUND, (("3", "dsp_1", "40.00", "settled"), ("4", "dsp_1", "40.00", "settled")))
INCIDENT = Incident(
    id="one_7",
    invariant="one_settled_refund_per_dispute",
    database="payments",
    engine="postgresql",
    sql=schema.ONE_SETTLED,
    returns="rows",
    seed=(DISPUTES, ACCOUNTS),  # children before parents: the server's foreign keys decide the order
    observed=(REFUNDS,),
)

Make = Callable[..., BarrierDatabase]


@pytest.fixture
def make(postgres_primary: PostgresPrimary) -> Iterator[Make]:
    """Databases with a schema given as SQL, on either engine."""
    made: list[BarrierDatabase] = []

    def one(*statements: str, engine: str = "postgresql") -> BarrierDatabase:
        def build(url: str) -> None:
            connected = create_engine(url)
            with connected.begin() as connection:
                for statement in ";".join(statements).split(";;"):
                    for part in statement.split(";") if "$$" not in statement else [statement]:
                        if part.strip():
                            connection.exec_driver_sql(part)
            connected.dispose()

        made.append(BarrierDatabase(engine, build, postgres_primary.url))
        return made[-1]

    yield one
    for database in made:
        database.close()


def check(incident: Incident, database: BarrierDatabase, code: Callable[..., None], **options: object) -> str:
    def run(db: BarrierDatabase) -> None:
        code(db.engine)

    return FrozenIncident(incident).check(run, run, database, **options).reason  # type: ignore[arg-type]


def test_a_right_fix_holds_and_says_how(make: Make) -> None:
    reason = check(INCIDENT, make(schema.POSTGRESQL), duplicate.right_lock_parent)
    assert "one party waited for the other in the database" in reason


def test_a_constraint_that_refuses_the_observed_rows_is_named_and_is_no_failure(make: Make) -> None:
    """semantics 9.4: else a unique-index fix would look like a broken test."""
    reason = check(INCIDENT, make(schema.POSTGRESQL, schema.UNIQUE), duplicate.right_unique_index)
    assert "constraint one_settled of refunds refuses a row" in reason


def test_a_row_that_no_longer_loads_is_schema_moved_on(make: Make) -> None:
    """semantics 9.4: not a verdict, and not a pass."""
    moved = make(schema.POSTGRESQL, "ALTER TABLE refunds ADD COLUMN tenant int NOT NULL")
    with pytest.raises(
        BarrierFailed,
        match=r'refunds\.tenant wants a value that the captured rows do not have .*added=\{"refunds\.tenant": …\}',
    ) as found:
        check(INCIDENT, moved, duplicate.buggy)
    assert found.value.verdict is Verdict.SCHEMA_MOVED_ON


@pytest.mark.parametrize("engine", ["postgresql", "sqlite"])
def test_a_column_that_a_fix_has_added_is_given_its_value_in_every_frozen_row(make: Make, engine: str) -> None:
    """semantics 9.4: a version column is a right fix, and some frameworks write its default in Python alone."""
    moved = make(
        "CREATE TABLE accounts (id text, credit_balance_eur float, version int, tenant int NOT NULL)", engine=engine
    )
    typed = replace(ACCOUNTS, rows=(*ACCOUNTS.rows, ("acc_2", "1.5", "3")), types=("text", "real", "integer"))
    frozen = with_added_columns(replace(INCIDENT, seed=(typed,), observed=(), engine=engine), {"accounts.tenant": 7})
    assert moved.control.put(frozen.seed) is None
    assert moved.control.ask("SELECT id, version, tenant FROM accounts ORDER BY id") == [
        ("acc_1", 0, 7),
        ("acc_2", 3, 7),
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "orders.tenant",
            "no row of orders was captured; name table.column, with a table of accounts, disputes, refunds",
        ),
        ("tenant", "no row of tenant was captured"),
        ("refunds.state", "refunds.state was captured, and frozen rows stay as they were"),
    ],
)
def test_what_was_captured_is_never_given_another_value(name: str, says: str) -> None:
    """semantics 9.6: the frozen block is not changed, not even in memory."""
    with pytest.raises(BadSeed, match=says):
        with_added_columns(INCIDENT, {name: 1})


def test_a_type_that_no_longer_reads_a_value_is_schema_moved_on_without_showing_the_value(make: Make) -> None:
    wrong = replace(INCIDENT, observed=(replace(REFUNDS, rows=(("3", "dsp_1", "secret-value", "settled"),)),))
    with pytest.raises(BarrierFailed) as found:
        check(wrong, make(schema.POSTGRESQL), duplicate.buggy)
    assert found.value.verdict is Verdict.SCHEMA_MOVED_ON
    assert "22P02" in str(found.value)
    assert "secret-value" not in str(found.value)


def test_a_seed_that_breaks_the_rule_alone_is_refused_with_its_guesses(make: Make) -> None:
    bad = replace(INCIDENT, seed=(DISPUTES, ACCOUNTS, REFUNDS), marked=("refunds.state: guessed",))
    with pytest.raises(BadSeed, match=r"guessed: refunds\.state: guessed"):
        check(bad, make(schema.POSTGRESQL), duplicate.right_lock_parent)


def test_rows_that_do_not_break_the_rule_here_are_refused(make: Make) -> None:
    harmless = replace(INCIDENT, observed=(replace(REFUNDS, rows=REFUNDS.rows[:1]),))
    with pytest.raises(BadSeed, match="do not break the rule"):
        check(harmless, make(schema.POSTGRESQL), duplicate.right_lock_parent)


def test_an_incident_is_replayed_on_its_own_engine_only(make: Make) -> None:
    with pytest.raises(WrongDatabase, match="from postgresql"):
        check(INCIDENT, make(schema.SQLITE, engine="sqlite"), duplicate.buggy)


def test_a_second_call_that_is_enough_claims_no_race(make: Make) -> None:
    """semantics 9.5: schedule 0 is serial."""

    def careless(engine: object) -> None:
        with engine.begin() as connection:  # type: ignore[attr-defined]
            connection.execute(text(duplicate.INSERT), duplicate.DISPUTE)

    with pytest.raises(BarrierFailed, match="no race is claimed") as found:
        check(INCIDENT, make(schema.POSTGRESQL), careless)
    assert found.value.verdict is Verdict.VIOLATED_IN_SERIES
    assert "schedule AB" in str(found.value)


def test_a_pre_image_that_no_database_keeps_can_be_corrected_outside_the_frozen_block(make: Make) -> None:
    log = TableRows("credit_log", ("id", "account_id", "amount_eur"), (("1", "acc_1", "50.00"),))
    drift = replace(
        INCIDENT,
        sql=schema.BALANCE,
        seed=(replace(ACCOUNTS, rows=(("acc_1", "7.00", "0"),)), log),
        observed=(
            replace(ACCOUNTS, rows=(("acc_1", "100.00", "0"),)),
            replace(log, rows=(("2", "acc_1", "50.00"), ("3", "acc_1", "50.00"))),
        ),
        marked=("accounts.credit_balance_eur: guessed",),
    )

    def pre_image(db: BarrierDatabase) -> None:
        with db.engine.begin() as connection:
            connection.execute(text("UPDATE accounts SET credit_balance_eur = 50"))

    database = make(schema.POSTGRESQL)
    with pytest.raises(BadSeed, match="guessed: accounts"):
        check(drift, database, lost_update.right_for_update)
    check(drift, database, lost_update.right_for_update, pre_image=pre_image)
    with pytest.raises(BarrierFailed, match="violated: "):
        check(drift, database, lost_update.buggy, pre_image=pre_image)


def test_everything_that_the_code_wrote_anywhere_is_set_back_for_each_schedule(make: Make) -> None:
    """A key kept in another table would make every later schedule a no-op, and the test green without testing."""
    database = make(
        schema.POSTGRESQL,
        "CREATE TABLE seen_keys (key text PRIMARY KEY)",
        "CREATE TABLE currencies (code text PRIMARY KEY, id integer GENERATED ALWAYS AS IDENTITY)",
        "INSERT INTO currencies (code) VALUES ('EUR'), ('SEK')",
        "CREATE TABLE rates (code text REFERENCES currencies, rate int); INSERT INTO rates VALUES ('EUR', 1)",
    )
    calls: list[tuple[int, int]] = []

    def idempotent(engine: object) -> None:
        with engine.begin() as connection:  # type: ignore[attr-defined]
            currencies = connection.execute(text("SELECT count(*) FROM currencies JOIN rates USING (code)")).scalar()
            keys = connection.execute(text("SELECT count(*) FROM seen_keys")).scalar()
            calls.append((currencies, keys))
            connection.execute(text("SELECT id FROM disputes WHERE id = 'dsp_1' FOR UPDATE"))
            if connection.execute(text("SELECT count(*) FROM seen_keys")).scalar() == 0:
                connection.execute(text("INSERT INTO seen_keys VALUES ('refund')"))
                connection.execute(text(duplicate.INSERT), duplicate.DISPUTE)

    check(INCIDENT, database, idempotent)
    assert {currencies for currencies, _ in calls} == {1}
    assert sum(1 for _, keys in calls if keys == 0) > len(calls) / 2
    assert database.control.ask("SELECT id FROM currencies ORDER BY id") == [(1,), (2,)]


def test_triggers_of_the_schema_do_not_change_the_frozen_rows(make: Make) -> None:
    database = make(
        schema.POSTGRESQL + ";;"
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.state := 'shouted'; RETURN NEW; END $$;;"
        "CREATE TRIGGER shout BEFORE INSERT ON refunds FOR EACH ROW EXECUTE FUNCTION shout()"
    )
    database.control.put((ACCOUNTS, DISPUTES, REFUNDS))
    assert database.control.ask("SELECT DISTINCT state FROM refunds") == [("settled",)]
    with database.engine.begin() as connection:
        connection.execute(text(duplicate.INSERT), duplicate.DISPUTE)
    assert ("shouted",) in database.control.ask("SELECT state FROM refunds")


VALUES = {
    "numeric": ["NaN", "Infinity", "0.00", "12345678901234567890.123456789"],
    "double precision": ["-0", "1e-300", "NaN", "0.1"],
    "timestamp with time zone": ["infinity", "0044-03-15 12:00:00+00 BC", "2026-11-29 13:54:45.123456+00"],
    "time without time zone": ["24:00:00"],
    "interval": ["1 mon -3 days +04:05:06.789"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "json": ['{"a" :  1, "a": 2}'],
    "jsonb": ['{"a": [1, null]}'],
    "bytea": ["\\x00ff27"],
    "text": ["", "'\"\\ %s :x $1 {} \u2028\u202e \U0001f600", "NULL", "a\nb\tc"],
    "text[]": ['{NULL,"NULL","a,b","\\"q\\""}', "{{a,b},{c,d}}"],
    "int4range": ["[1,10)", "empty"],
    "inet": ["10.0.0.1/8"],
    "bit varying(8)": ["0101"],
    "money": ["$1.50"],
    "tsvector": ["'cat':1A 'dog'"],
    "boolean": ["t", "f"],
}


def test_values_of_many_types_come_back_byte_for_byte(make: Make) -> None:
    """semantics 9.1: the server's own text out, an untyped parameter in."""
    names = [f'c%{number} "x' for number in range(len(VALUES))]
    kinds = list(VALUES)
    columns = ", ".join(
        '"{}" {}'.format(name.replace('"', '""'), kind) for name, kind in zip(names, kinds, strict=True)
    )
    database = make("CREATE TABLE other (id int)")
    control = database.control
    with database.engine.begin() as connection:
        made = (
            f'CREATE TABLE "odd %table" (id int PRIMARY KEY, {columns}, twice int GENERATED ALWAYS AS (id * 2) STORED)'
        )
        connection.exec_driver_sql(made.replace("%", "%%"))
    longest = max(map(len, VALUES.values()))
    rows = [
        (str(place), *(VALUES[kind][place] if place < len(VALUES[kind]) else None for kind in kinds))
        for place in range(longest)
    ]
    table = TableRows("odd %table", ("id", *names), tuple(rows))
    assert control.put((table,)) is None
    shown = ", ".join('"{}"::text'.format(name.replace('"', '""')) for name in ("id", *names))
    back = control.ask(f'SELECT {shown} FROM "odd %table" ORDER BY id')
    expected = [
        tuple(
            {"t": "true", "f": "false"}.get(one, one) if kind == "boolean" else one
            for kind, one in zip(("id", *kinds), row, strict=True)
        )
        for row in rows
    ]
    assert back == expected
    changed = replace(table, rows=(("0", *([None] * len(names))),))
    assert control.put((changed,)) is None, "a row whose primary key is there replaces it"
    assert control.ask('SELECT count(*) FROM "odd %table"') == [(longest,)]


def test_sequences_go_on_behind_the_frozen_rows(make: Make) -> None:
    database = make(schema.POSTGRESQL)
    database.control.put((ACCOUNTS, DISPUTES, REFUNDS))
    with database.engine.begin() as connection:
        made = connection.execute(text(duplicate.INSERT + " RETURNING id"), duplicate.DISPUTE).scalar()
    assert made == 5


def test_a_sequence_that_no_column_owns_is_set_where_a_default_names_it(make: Make) -> None:
    """Else the code's first INSERT would meet a key that the loaded rows hold, and no race would be seen."""
    database = make(
        "CREATE SEQUENCE shared START 1",
        ";",
        "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT nextval('shared'), owned serial,"
        " identity int GENERATED ALWAYS AS IDENTITY)",
        ";",
        "CREATE TABLE other (id bigint PRIMARY KEY DEFAULT nextval('shared'))",
    )
    rows = TableRows("t", ("id", "owned", "identity"), (("41", "7", "9"),))
    assert database.control.put((rows,)) is None
    assert database.control.put((TableRows("t", ("id", "owned", "identity"), (("5", "2", "3"),)),)) is None
    assert database.control.put((TableRows("other", ("id",), (("7",),)),)) is None
    with database.engine.begin() as connection:
        made = connection.execute(text("INSERT INTO t DEFAULT VALUES RETURNING id, owned, identity")).one()
    assert tuple(made) == (42, 8, 10)


def test_a_rule_that_looks_at_the_clock_sees_times_shifted_by_what_has_passed(make: Make) -> None:
    """Else the seed would be wrong tomorrow."""
    long_ago = datetime(2020, 1, 1, 12, tzinfo=UTC)
    lease = (long_ago + timedelta(minutes=5)).isoformat()
    rows = TableRows("jobs", ("id", "lease_until"), (("1", lease),))
    database = make("CREATE TABLE jobs (id int PRIMARY KEY, lease_until timestamptz)")
    assert database.control.put((rows,), shift_from=long_ago.isoformat()) is None
    assert database.control.ask("SELECT lease_until BETWEEN now() AND now() + interval '5 min' FROM jobs") == [(True,)]


def test_times_of_sqlite_move_with_the_clock_too(make: Make) -> None:
    rows = TableRows("jobs", ("id", "at"), (("1", "2020-01-01 12:05:00"),), ("integer", "text"))
    database = make("CREATE TABLE jobs (id integer PRIMARY KEY, at)", engine="sqlite")
    assert database.control.put((rows,), shift_from=datetime(2020, 1, 1, 12, tzinfo=UTC).isoformat()) is None
    assert database.control.ask("SELECT at BETWEEN datetime('now') AND datetime('now', '+5 minutes') FROM jobs") == [
        (1,)
    ]


def test_a_date_moves_by_the_days_that_have_passed(make: Make) -> None:
    rows = TableRows("jobs", ("id", "due", "never"), (("1", "2020-01-02", "infinity"),))
    database = make("CREATE TABLE jobs (id int PRIMARY KEY, due date, never date)")
    assert database.control.put((rows,), shift_from=datetime(2020, 1, 1, 12, tzinfo=UTC).isoformat()) is None
    assert database.control.ask("SELECT due - current_date, never::text FROM jobs") in (
        [(1, "infinity")],
        [(0, "infinity")],
    )


ORPHANS = "SELECT r.id FROM receipts r WHERE NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = r.batch_id)"
ORPHAN = replace(
    INCIDENT,
    invariant="no_receipt_without_its_batch",
    sql=ORPHANS,
    seed=(),
    observed=(TableRows("receipts", ("id", "batch_id"), (("7", "1"),)),),
    marked=("what the rule misses may have been there before",),
)
BATCHES = "CREATE TABLE batches (id int PRIMARY KEY)"
RECEIPTS = "CREATE TABLE receipts (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, batch_id int NOT NULL"


@pytest.mark.parametrize(
    ("lock", "key", "fixed"), [("", "", False), (" FOR UPDATE", "", True), ("", " REFERENCES batches", True)]
)
def test_a_row_that_is_gone_is_put_back_by_pre_image_and_the_race_for_it_is_played(
    lock: str, key: str, fixed: bool, make: Make
) -> None:
    """semantics 9.2: the observed rows cannot show what was deleted; they break the rule without it."""

    def put_back(db: BarrierDatabase) -> None:
        with db.engine.begin() as connection:
            connection.execute(text("INSERT INTO batches VALUES (1)"))

    def close(db: BarrierDatabase) -> None:
        with db.engine.begin() as connection:
            connection.execute(text(f"SELECT 1 FROM batches WHERE id = 1{lock}"))
            if not connection.execute(text("SELECT 1 FROM receipts WHERE batch_id = 1")).first():
                connection.execute(text("DELETE FROM batches WHERE id = 1"))

    def receive(db: BarrierDatabase) -> None:
        with db.engine.begin() as connection:
            if connection.execute(text(f"SELECT 1 FROM batches WHERE id = 1{lock}")).first():
                connection.execute(text("INSERT INTO receipts (batch_id) VALUES (1)"))

    database = make(BATCHES, ";", RECEIPTS + key + ")")
    if fixed:
        assert FrozenIncident(ORPHAN).check(close, receive, database, pre_image=put_back).verdict is Verdict.HELD
        return
    with pytest.raises(BarrierFailed, match="violated: no_receipt_without_its_batch"):
        FrozenIncident(ORPHAN).check(close, receive, database, pre_image=put_back)


def serialize_on_begin(database: BarrierDatabase) -> None:
    """What SQLAlchemy's documentation gives for SQLite: a transaction that begins, and takes the lock at once."""

    @event.listens_for(database.engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(database.engine, "begin")
    def _begin(connection: object) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # type: ignore[attr-defined]


SQLITE = replace(
    INCIDENT,
    engine="sqlite",
    seed=(
        replace(ACCOUNTS, rows=(("acc_1", "0", "0"),), types=("text", "integer", "integer")),
        replace(DISPUTES, rows=(("dsp_1", "acc_1", "40"),), types=("text", "text", "integer")),
    ),
    observed=(
        replace(REFUNDS, rows=(("3", "dsp_1", "40", "settled"),), types=("integer", "text", "integer", "text")),
        replace(REFUNDS, rows=(("4", "dsp_1", "x'00ff'", "settled"),), types=("integer", "text", "blob", "text")),
    ),
)


def test_a_sqlite_incident_fails_on_the_bug_and_holds_where_the_lock_is_taken_first(make: Make) -> None:
    with pytest.raises(BarrierFailed) as found:
        check(SQLITE, make(schema.SQLITE, engine="sqlite"), duplicate.buggy)
    assert found.value.verdict is Verdict.VIOLATED
    fixed = make(schema.SQLITE, engine="sqlite")
    serialize_on_begin(fixed)
    reason = check(SQLITE, fixed, duplicate.buggy, limits=Limits(deadline=10))
    assert "held in" in reason


def test_a_run_on_a_row_that_the_seed_lacks_is_no_pass_where_the_engine_lets_it_through(make: Make) -> None:
    """semantics 9: SQLite checks no foreign key by itself, so the racy code would find nothing to break."""
    without = replace(SQLITE, seed=tuple(one for one in SQLITE.seed if one.table == "accounts"))
    with pytest.raises(BadSeed, match=r"run_a alone .* \(refunds to disputes\): .*pre_image"):
        check(without, make(schema.SQLITE, engine="sqlite"), duplicate.buggy)

    def insert_dispute(db: BarrierDatabase) -> None:
        with db.engine.begin() as connection:
            connection.exec_driver_sql(schema.ROWS[1])

    with pytest.raises(BarrierFailed) as found:
        check(without, make(schema.SQLITE, engine="sqlite"), duplicate.buggy, pre_image=insert_dispute)
    assert found.value.verdict is Verdict.VIOLATED


def test_sqlite_cells_keep_their_storage_class(make: Make) -> None:
    database = make(schema.SQLITE, engine="sqlite")
    assert database.control.put((*SQLITE.seed, *SQLITE.observed)) is None
    assert database.control.ask("SELECT typeof(amount_eur) FROM refunds ORDER BY id") == [("integer",), ("blob",)]


def test_a_sqlite_constraint_that_refuses_the_rows_is_named(make: Make) -> None:
    database = make(schema.SQLITE, schema.UNIQUE, engine="sqlite")
    assert database.control.put(SQLITE.seed) is None
    refusal = database.control.put(SQLITE.observed)
    assert refusal is not None
    assert "refunds.dispute_id" in refusal.constraint
    assert database.control.ask("SELECT count(*) FROM refunds") == [(0,)]
