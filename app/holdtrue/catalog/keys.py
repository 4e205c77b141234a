"""every key of the two kinds of file, declared as data"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from holdtrue.catalog.canary import CANARY
from holdtrue.catalog.examples import ExampleShape
from holdtrue.catalog.groups import Group, Key
from holdtrue.catalog.notifiers import NOTIFIER, SHORT, URL
from holdtrue.catalog.routes import ROUTE
from holdtrue.catalog.secrets import literal_password
from holdtrue.catalog.shapes import (
    Anything,
    Choice,
    Confidential,
    Duration,
    Flag,
    ListOf,
    MapOf,
    Moment,
    Text,
    Whole,
)
from holdtrue.model import NAME_LIMIT, NAME_PATTERN, Dialect, Freshness, Returns, Severity

_NAME_MEANING = "a name of small letters, digits and _ that begins with a letter"
NAME: Final = Text(NAME_PATTERN, _NAME_MEANING, NAME_LIMIT)
PLACE_NAME: Final = r"^[a-z][a-z0-9_-]{0,62}$"
PLACE_MEANING: Final = "a name here is made of small letters, digits, _ and -, begins with a letter, at most 63 long"
_GLOB = Text(r"^[a-z*?\[][a-z0-9_*?\[\]!-]*$", "a database's name, or a pattern such as shard-*", 100, lines=False)
_WORD = Text(r"^[A-Za-z0-9][A-Za-z0-9_.:/-]*$", "a word of letters, digits and _ . : / -", 63, lines=False)
_COLUMN = Text(meaning="a column's name", limit=200, lines=False)
_TABLE = Text(meaning="a table's name", limit=200, lines=False)
_STATE = Text(meaning="a state", limit=200, lines=False)
_SQL = Text(meaning="one SELECT", limit=1_000_000)
_LONG = Text(meaning="a text", limit=10_000)

POLICY: Final = Group(
    "policy",
    (
        Key("fire_after", Whole(1, 1000), "Scheduled runs in a row that must be violated before the alert fires.", "1"),
        Key("resolve_after", Whole(1, 1000), "Complete good runs in a row that must hold before it resolves.", "1"),
        Key("remind_every", Duration(timedelta(minutes=1), never=True), "How often a firing alert is repeated.", "24h"),
        Key("worsen_every", Duration(timedelta(seconds=1)), "New keys are told at most this often.", "1h"),
        Key(
            "reopen_within",
            Duration(timedelta(0)),
            "A new episode this soon after the last one is the old one reopened.",
            "1h",
        ),
        Key("tolerate", Whole(), "How many counted rows still hold.", "0"),
    ),
    {"fire": "fire_after", "resolve": "resolve_after", "remind": "remind_every", "threshold": "tolerate"},
)

SETTLE: Final = Group(
    "settle",
    (
        Key(
            "column", _COLUMN, "An output column with a time; younger rows settle and do not count yet.", required=True
        ),
        Key("after", Duration(), "How old a row must be to count.", required=True),
        Key("at_most", Duration(), "How long a key may settle since it was first seen.", "three times `after`"),
    ),
)

WAIVER: Final = Group(
    "a waiver",
    (
        Key("key", MapOf(Anything(), least=1), "The key columns of the violation and their values.", required=True),
        Key("reason", SHORT, "Why it is accepted.", required=True),
        Key("until", Moment(), "When it ends: a day (to its end, in UTC) or a moment with a zone.", required=True),
    ),
)

BASE_ROWS: Final = Group(
    "base_rows",
    (
        Key(
            "table",
            _TABLE,
            "The table that holds the rows behind a violation; a name with a double quote in it as SQL quotes it.",
            required=True,
        ),
        Key(
            "where",
            MapOf(_COLUMN, least=1),
            "Column of the table: column of the violation that it equals.",
            required=True,
        ),
        Key(
            "written_at",
            _COLUMN,
            "On MariaDB and MySQL, which tell no writer: the column with the time at which a row was last written.",
        ),
    ),
)

EXAMPLES: Final = Group(
    "examples",
    (
        Key(
            "violating", ListOf(ExampleShape()), "Rows by table, each item a state that the invariant must find broken."
        ),
        Key("healthy", ListOf(ExampleShape()), "Rows by table, each item a state that it must find in order."),
    ),
)

PROMOTE: Final = Group(
    "promote",
    (
        Key(
            "operation",
            Text(
                r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$",
                "a Python function, written package.module:function",
                200,
                lines=False,
            ),
            "The function that the barrier test calls: `package.module:function`.",
        ),
        Key(
            "states",
            MapOf(
                MapOf(ListOf(_STATE, least=1), least=1),
                r"^[^.]+(\.[^.]+){1,2}$",
                "a state's column is written table.column",
                least=1,
            ),
            "By state column (`jobs.state`), each state with those that may follow it: how a row may have been before.",
        ),
    ),
)

OPERATION: Final = Group(
    "an operation",
    (
        Key("mutates", ListOf(_TABLE), "The tables that it changes."),
        Key("conflict_key", ListOf(_COLUMN), "What two calls must share to be in each other's way."),
        Key("safe_to_repeat", Flag(), "Whether calling it twice with the same arguments does no harm."),
        Key("shares", ListOf(SHORT), "What else its calls share: a bucket, a cache, a folder."),
    ),
)

_SHARED: Final = (
    Key("database", Text(PLACE_NAME, "a database's name", 63, lines=False), "The database it is asked of."),
    Key("databases", ListOf(_GLOB, 1, unique=True), "Several databases, or patterns of names (`shard-*`)."),
    Key("interval", Duration(), "How often it is asked.", "15m"),
    Key("schedule", SHORT, "A cron line of five fields, in quotes, instead of `interval`."),
    Key("timezone", Text(meaning="a time zone", limit=64, lines=False), "The zone of `schedule`.", "UTC"),
    Key("owner", _WORD, "Who answers for it; a label of its metrics."),
    Key(
        "severity",
        Choice(tuple(Severity), {"page": "critical", "high": "critical", "error": "critical", "ticket": "warning"}),
        "How bad a violation is for the business.",
        "warning",
    ),
    Key("tags", ListOf(_WORD, unique=True), "Words to select it by."),
    Key("timeout", Duration(timedelta(milliseconds=100), timedelta(hours=1)), "The time limit of one run.", "10s"),
    Key(
        "budget",
        Duration(timedelta(milliseconds=1), timedelta(days=1)),
        "Statement time that it may cost one database in a day (UTC); more is shown, and nothing else happens.",
    ),
    Key("count_limit", Whole(1), "Counting stops here and says “at least”.", "none: the time limit bounds it"),
    Key(
        "confirm",
        Duration(),
        "A second run this long after the first, before anyone is told.",
        "no second run",
    ),
    Key("policy", POLICY, "When people are told."),
    Key(
        "columns",
        MapOf(Choice(("safe", "hash"), {"hashed": "hash", "mask": "hash", "show": "safe", "true": "safe"})),
        "Result columns (`dispute_id`) and table columns (`refunds.state`): `safe` to show, or `hash`.",
        "`hash`",
    ),
    Key("runbook_url", URL, "Where the on-call reads on."),
)
DEFAULTS: Final = Group("defaults", _SHARED, {"every": "interval", "cron": "schedule", "labels": "tags"})

INVARIANT: Final = Group(
    "an invariant",
    (
        Key("name", NAME, "Its name, for ever: history, metrics and alerts carry it.", required=True),
        Key("description", _LONG, "The rule in words; the first thing an alert says."),
        Key("sql", _SQL, "One SELECT that returns the rows which break the rule. No rows: it holds."),
        Key("sql_file", SHORT, "A `.sql` file with the text instead, relative to this file, below the folder."),
        Key("returns", Choice(tuple(Returns), {"row": "rows", "number": "count"}), "Rows, or one number.", "rows"),
        Key("key", ListOf(_COLUMN, 1, unique=True), "The columns that identify a violation.", "the whole row"),
        *_SHARED,
        Key("rows_sql", _SQL, "Under `returns: count`, a SELECT of the rows that were counted."),
        Key("population", _SQL, "A SELECT of one number, or of rows: nothing there means unknown, never held."),
        Key("settle", SETTLE, "Young rows do not count yet."),
        Key("waive", ListOf(WAIVER), "Accepted violations, reviewed in git, each with an end."),
        Key("assumes", _LONG, "What the invariant takes for granted: shown, not proven."),
        Key("links", MapOf(URL), "Labels and URLs; `{column}` stands for a safe column of the violation."),
        Key("examples", EXAMPLES, "Rows that prove that the invariant can fail, and can hold: `holdtrue test`."),
        Key("base_rows", ListOf(BASE_ROWS), "The rows behind a violation, which an aggregate hides."),
        Key("promote", PROMOTE, "What the barrier test of a ticket calls."),
        Key("renamed_from", NAME, "Its former name: history, ledger and a firing alert come along."),
        Key("inspected", Flag(), "A person has read the text where the parser could not.", "false"),
    ),
    {
        "every": "interval",
        "cron": "schedule",
        "query": "sql",
        "mode": "returns",
        "type": "returns",
        "labels": "tags",
        "title": "description",
        "doc": "description",
        "mask": "columns",
        "safe_columns": "columns",
        "runbook": "runbook_url",
        "threshold": "policy",
        "tolerate": "policy",
        "fire_after": "policy",
        "resolve_after": "policy",
        "remind_every": "policy",
        "primary_key": "key",
        "keys": "key",
    },
    (("sql", "sql_file"),),
)

_VERSION: Final = Key("version", Whole(1, 1), "The form of this file.", "1")
INVARIANTS_FILE: Final = Group(
    "an invariants file",
    (
        _VERSION,
        Key("defaults", DEFAULTS, "What every invariant of this file has unless it says otherwise."),
        Key("invariants", ListOf(INVARIANT), "The invariants."),
        Key("operations", MapOf(OPERATION), "What the system's operations do; feeds the coverage page.", later=True),
    ),
    {"invariant": "invariants", "checks": "invariants", "rules": "invariants", "default": "defaults"},
)

REPLICA: Final = Group(
    "a replica",
    (
        Key("name", Text(PLACE_NAME, PLACE_MEANING, 63, lines=False), "Its name within the database.", required=True),
        Key(
            "url",
            Confidential(whole=False, check=literal_password),
            "Where it is: `postgresql://user@host/db`, `mysql://user@host/db`, `sqlite:///path`; no password in plain text.",
            required=True,
        ),
        Key("password", Confidential(), "The password, used verbatim: `${VARIABLE}` or `${file:/path}`."),
        Key(
            "password_command",
            ListOf(Text(meaning="a word of the command"), 1),
            "A program and its arguments that print the password; run for each new connection.",
        ),
    ),
    {"host": "url", "dsn": "url", "uri": "url"},
)

DATABASE: Final = Group(
    "a database",
    (
        Key("replicas", ListOf(REPLICA, 1), "Its read-only endpoints.", required=True),
        Key("dialect", Choice(tuple(Dialect), {"postgres": "postgresql", "mariadb": "mysql"}), "Its kind.", "by URL"),
        Key(
            "freshness",
            Choice(tuple(Freshness)),
            "How a replica proves that it is near its primary.",
            "`streaming`; `none` for a SQLite file",
        ),
        Key("heartbeat", _SQL, "Under `freshness: heartbeat`, a SELECT of one time: when the primary last wrote it."),
        Key("max_lag", Duration(timedelta(milliseconds=1)), "A replica further behind is not asked.", "30s"),
        Key("allow_primary", Flag(), "Must be true for a primary, and for a SQLite file.", "false"),
        Key("timezone", Text(meaning="a time zone", limit=64, lines=False), "The session's time zone.", "UTC"),
        Key("search_path", SHORT, "The session's search path.", "the role's own"),
        Key("concurrency", Whole(1, 256), "How many runs ask each replica at once.", "4"),
        Key(
            "safe_columns",
            ListOf(_COLUMN, unique=True),
            "The only columns that an invariant may call safe; patterns are allowed (`refunds.*`).",
            "no cap",
        ),
        Key("schema_file", SHORT, "The DDL of its tables, relative to this file: `holdtrue test` builds on it."),
    ),
    {"ddl": "schema_file", "url": "replicas", "max_replica_lag": "max_lag", "lag": "max_lag", "schema": "search_path"},
)

STORE: Final = Group(
    "store",
    (
        Key(
            "url",
            Confidential(whole=False, check=literal_password),
            "Our own database: `sqlite:///path`, or `postgresql://…` for several instances.",
            "`sqlite:///holdtrue.db`",
        ),
    ),
)

RETENTION: Final = Group(
    "retention",
    (
        Key("runs_kept_in_full", Whole(1, 100_000), "The newest runs kept in full, per invariant and database.", "200"),
        Key("bad_runs", Duration(timedelta(hours=1), timedelta(days=3650)), "Runs that did not hold.", "30d"),
        Key(
            "exact_counts",
            Duration(timedelta(hours=1), timedelta(days=3650)),
            "Counts of every run, and deploys.",
            "90d",
        ),
        Key("evidence", Duration(timedelta(hours=1), timedelta(days=3650)), "Rows taken for a ticket.", "30d"),
        Key("samples", Duration(timedelta(hours=1), timedelta(days=3650)), "Rows shown on pages.", "30d"),
        Key(
            "fixed_keys",
            Duration(timedelta(hours=1), timedelta(days=3650)),
            "Keys that have gone; later they are new.",
            "90d",
        ),
        Key("generations", Whole(1, 10_000), "Of how many catalogs the texts are kept.", "20"),
        Key(
            "messages",
            Duration(timedelta(days=1), timedelta(days=3650)),
            "Messages of alerts that have ended, and silences that have.",
            "90d",
        ),
    ),
)

DEADMAN: Final = Group(
    "deadman",
    (
        Key("url", Confidential(), "Where it is pinged, as a reference: whoever knows it can ping.", required=True),
        Key("every", Duration(timedelta(seconds=15), timedelta(hours=1)), "How often it is pinged.", "1m"),
    ),
    {"interval": "every", "ping_url": "url"},
)

CONFIG_FILE: Final = Group(
    "holdtrue.yaml",
    (
        _VERSION,
        Key("store", STORE, "Where Holdtrue keeps what it knows."),
        Key("databases", MapOf(DATABASE, PLACE_NAME, PLACE_MEANING), "The databases that invariants are asked of."),
        Key("notifiers", MapOf(NOTIFIER, PLACE_NAME, PLACE_MEANING), "Who is told, and how."),
        Key(
            "routes",
            ListOf(ROUTE, 1),
            "Who is told of what; the first that matches decides.",
            "everybody, of all",
        ),
        Key("deadman", DEADMAN, "A dead-man's switch outside, pinged while Holdtrue does its work."),
        Key("canary", CANARY, "A rule that Holdtrue breaks and mends by itself, to prove that notifiers deliver."),
        Key("retention", RETENTION, "How long things are kept."),
        Key("external_url", URL, "The dashboard's address as people open it; links in messages begin with it."),
        Key("invariants_folder", SHORT, "The folder of the invariants, relative to this file.", "`invariants`"),
    ),
    {
        "database": "databases",
        "sources": "databases",
        "notifier": "notifiers",
        "channels": "notifiers",
        "route": "routes",
    },
)
