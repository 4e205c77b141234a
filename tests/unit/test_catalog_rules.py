"""What must fit together: keys with keys, keys with the text, an invariant with its database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from catalogs import MYSQL, POSTGRES, SQLITE, accepted, item, look, one, refused, the_refusal, warnings
from holdtrue.model import BaseRows, Dialect, Freshness, Returns, Settle, States

SQL = "sql: SELECT id, total FROM orders WHERE total < 0"
COUNT = "returns: count\nsql: SELECT count(*) FROM orders WHERE total < 0"


@pytest.mark.parametrize(
    ("keys", "key", "says"),
    [
        (f"{SQL}\nsettle: {{column: id, after: 5m}}", "settle", "needs `key`"),
        (f"{SQL}\nwaive: [{{key: {{id: 1}}, reason: x, until: 2027-01-01}}]", "waive", "needs `key`"),
        (f"{SQL}\nconfirm: 1m", "confirm", "needs `key`"),
        (f"{COUNT}\nsettle: {{column: id, after: 5m}}", "settle", "has none"),
        (f"{COUNT}\nwaive: [{{key: {{id: 1}}, reason: x, until: 2027-01-01}}]", "waive", "has none"),
        (f"{SQL}\nrows_sql: SELECT id FROM orders", "rows_sql", "belongs to `returns: count`"),
        (f"{SQL}\nsql_file: a.sql", "sql_file", "exclude each other"),
        (f"{SQL}\ndatabases: [shop]", "databases", "exclude each other"),
    ],
)
def test_keys_that_need_or_exclude_one_another(keys: str, key: str, says: str) -> None:
    """semantics 1.4"""
    text = item(keys)
    found = [problem for problem in refused(text) if says in problem.message]
    assert len(found) == 1
    assert text.split("\n")[found[0].place.line - 1].strip().startswith(f"{key}:")


def test_confirm_needs_no_key_under_count() -> None:
    """semantics 1.4"""
    assert one(f"{COUNT}\nconfirm: 1m").confirm == timedelta(minutes=1)


def test_everything_an_invariant_may_say_arrives_in_the_model() -> None:
    """design 5"""
    found = one(
        """
        description: No order below zero.
        severity: critical
        owner: finance
        tags: [money, orders]
        sql: SELECT id, total, created_at FROM orders WHERE total < 0
        key: [id]
        runbook_url: https://runbooks.example.com/orders
        links: {order: "https://admin.example.com/orders/{id}"}
        columns: {id: safe, total: hash, orders.total: safe}
        population: SELECT count(*) FROM orders
        settle: {column: created_at, after: 5m}
        confirm: 1m
        timeout: 3s
        count_limit: 1000
        policy: {fire_after: 2, resolve_after: 3, remind_every: 1h, worsen_every: 2h, reopen_within: 3h, tolerate: 4}
        assumes: Totals are in cents.
        base_rows: [{table: orders, where: {id: id}}]
        promote: {operation: "shop.orders:place", states: {orders.state: {new: [paid, void], paid: [sent]}}}
        renamed_from: old_rule
        """
    )
    assert found.columns == {"id", "orders.total"}
    assert found.settle == Settle("created_at", timedelta(minutes=5), timedelta(minutes=15))
    assert found.base_rows == (BaseRows("orders", (("id", "id"),)),)
    assert found.links == (("order", "https://admin.example.com/orders/{id}"),)
    assert found.states == (States("orders.state", (("new", "paid"), ("new", "void"), ("paid", "sent"))),)
    assert (found.operation, found.renamed_from, found.count_limit) == ("shop.orders:place", "old_rule", 1000)
    assert (found.policy.fire_after, found.policy.resolve_after, found.policy.tolerate) == (2, 3, 4)
    assert (found.tags, found.tables, found.returns) == (("money", "orders"), ("orders",), Returns.ROWS)
    assert found.place is not None
    assert str(found.place) == "invariants/a.yaml:2:11"


def test_settling_never_ends_before_the_next_run() -> None:
    """semantics 5.1: at_most is three times after, and never under one interval"""
    short = one(f"{SQL}\nkey: [id]\ninterval: 1h\nsettle: {{column: id, after: 5m}}").settle
    assert short is not None
    assert short.at_most == timedelta(hours=1)


@pytest.mark.parametrize(
    ("keys", "offending", "near"),
    [
        ("key: [idd]", "idd", "id"),
        ("key: [id]\nsettle: {column: totall, after: 5m}", "totall", "total"),
        ("base_rows: [{table: orders, where: {id: ident}}]", "ident", "id"),
    ],
)
def test_a_column_that_the_text_does_not_return_is_refused(keys: str, offending: str, near: str) -> None:
    problem = the_refusal(item(f"{SQL}\n{keys}"))
    assert "no output column" in problem.message
    assert problem.offending == offending
    assert problem.suggestion in (near, "")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM orders WHERE total < 0",
        "SELECT o.* FROM orders o WHERE x",
        "SELECT count(*), lower(a) FROM t GROUP BY a",
    ],
)
def test_columns_that_only_the_server_knows_are_not_doubted(sql: str) -> None:
    assert one(f"sql: {sql}\nkey: [whatever]")


def test_postgresql_folds_names_that_are_not_quoted() -> None:
    assert one("sql: SELECT Id FROM orders WHERE total < 0\nkey: [id]")
    assert one('sql: SELECT id AS "Id" FROM orders WHERE total < 0\nkey: [Id]')


def test_under_count_the_key_belongs_to_the_rows() -> None:
    rows = f"{COUNT}\nrows_sql: SELECT id FROM orders WHERE total < 0"
    assert one(f"{rows}\nkey: [id]")
    assert the_refusal(item(f"{rows}\nkey: [job]")).offending == "job"
    assert any("there is none" in word for word in warnings(item(f"{COUNT}\nkey: [id]")))


def test_a_link_to_a_column_that_is_not_safe_is_refused() -> None:
    """semantics 1.4"""
    text = f"{SQL}\ncolumns: {{total: safe, id: hash}}\nlinks: {{order: 'https://x/{{id}}'}}"
    problem = the_refusal(item(text))
    assert "not `safe`" in problem.message
    assert one(text.replace("id: hash", "id: safe")).links == (("order", "https://x/{id}"),)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "ftp://x/y", "https://x/ y", "//x"])
def test_a_link_is_a_web_address(url: str) -> None:
    assert "URL" in the_refusal(item(f"{SQL}\nlinks: {{a: '{url}'}}")).message
    assert "URL" in the_refusal(item(f"{SQL}\nrunbook_url: '{url}'")).message


def test_safe_columns_of_the_database_cap_what_is_called_safe() -> None:
    """semantics 4.4"""
    capped = SQLITE.replace("allow_primary", "safe_columns: [id, orders.*], allow_primary")
    assert one(f"{SQL}\ncolumns: {{id: safe, orders.total: safe, total: hash}}", capped)
    problem = the_refusal(item(f"{SQL}\ncolumns: {{id: safe, total: safe}}"), capped)
    assert problem.offending == "total"
    nothing = SQLITE.replace("allow_primary", "safe_columns: [], allow_primary")
    assert the_refusal(item(f"{SQL}\ncolumns: {{id: safe}}"), nothing).offending == "id"


def test_a_cap_reaches_columns_that_the_defaults_call_safe() -> None:
    """semantics 4.4"""
    capped = SQLITE.replace("allow_primary", "safe_columns: [id], allow_primary")
    text = "defaults: {database: shop, columns: {total: safe}}\ninvariants:\n"
    text += "  - {name: rule, sql: SELECT id FROM orders WHERE x}\n"
    assert the_refusal(text, capped).offending == "total"


def test_a_waiver_names_the_whole_key() -> None:
    waive = "waive: [{key: {total: 1}, reason: x, until: 2027-01-01}]"
    assert "every column of `key`" in the_refusal(item(f"{SQL}\nkey: [id, total]\n{waive}")).message


@pytest.mark.parametrize(
    "clock", ["now()", "CURRENT_TIMESTAMP", "current_date", "clock_timestamp()", "now() - interval '1 day'"]
)
def test_a_comparison_with_the_clock_wants_a_confirmation_longer_than_the_lag(clock: str) -> None:
    """semantics 5.3"""
    keys = f'sql: "SELECT id FROM jobs WHERE lease_until < {clock}"\nkey: [id]'
    assert any("compares with the clock" in word for word in warnings(item(keys)))
    assert any("compares with the clock" in word for word in warnings(item(f"{keys}\nconfirm: 30s")))
    assert not any("compares with the clock" in word for word in warnings(item(f"{keys}\nconfirm: 31s")))


def test_a_file_has_no_lag_and_a_returned_clock_is_not_compared() -> None:
    """semantics 5.3"""
    assert not warnings(item("sql: SELECT id FROM jobs WHERE lease_until < CURRENT_TIMESTAMP"), SQLITE)
    assert not warnings(item("sql: SELECT id, now() AS seen FROM jobs WHERE x"))


def test_a_sqlite_file_must_be_allowed_as_the_primary_that_it_is() -> None:
    """design 5"""
    problem = the_refusal(item(SQL), "databases: {shop: {replicas: [{name: f, url: 'sqlite:///x.db'}]}}\n")
    assert "allow_primary: true" in problem.message
    (config,) = accepted(item(SQL), SQLITE).config.databases
    assert (config.dialect, config.freshness) == (Dialect.SQLITE, Freshness.NONE)
    streaming = SQLITE.replace("allow_primary", "freshness: streaming, allow_primary")
    assert the_refusal(item(SQL), streaming).suggestion == "none"


def test_the_kind_of_database_comes_from_its_url_or_from_its_key() -> None:
    url = "databases: {shop: {replicas: [{name: r, url: '${SHOP}'}]}}\n"
    unknown = look(item(SQL), url)
    assert unknown.catalog is not None
    assert any("is not known" in problem.message for problem in unknown.problems)
    known = look(item(SQL), url, environ={"SHOP": "mysql://u@h/d"})
    assert known.catalog is not None
    assert known.catalog.config.databases[0].dialect is Dialect.MYSQL
    said = url.replace("{replicas", "{dialect: postgresql, replicas")
    assert not look(item(SQL), said).problems
    assert "the URL says mysql" in the_refusal(item(SQL), said, environ={"SHOP": "mysql://u@h/d"}).message


def beating(heartbeat: str, freshness: str = "heartbeat", base: str = MYSQL) -> str:
    return base.replace("replicas", f"freshness: {freshness}, {heartbeat}replicas")


PLAIN_POSTGRES = MYSQL.replace("mysql:", "postgresql:")
BEAT = "heartbeat: SELECT max(beat_at) FROM heartbeat, "


@pytest.mark.parametrize("base", [MYSQL, PLAIN_POSTGRES])
def test_a_heartbeat_comes_with_its_text(base: str) -> None:
    """Semantics 2.1."""
    found = accepted(item(SQL), beating(BEAT, base=base)).config.databases[0]
    assert (found.freshness, found.heartbeat) == (Freshness.HEARTBEAT, "SELECT max(beat_at) FROM heartbeat")
    assert not warnings(item(SQL), beating(BEAT, base=base))


@pytest.mark.parametrize(
    ("heartbeat", "freshness", "says"),
    [
        ("", "heartbeat", "needs `heartbeat`"),
        (BEAT, "streaming", "decides nothing"),
        (BEAT, "none", "decides nothing"),
        ("heartbeat: SELECT a. b FROM t; DELETE FROM t, ", "heartbeat", "`heartbeat` "),
        ("heartbeat: DELETE FROM heartbeat, ", "heartbeat", "`heartbeat` "),
        ('heartbeat: "UPDATE heartbeat SET beat_at = now()", ', "heartbeat", "`heartbeat` "),
        ('heartbeat: "SELECT beat_at FROM heartbeat FOR UPDATE", ', "heartbeat", "`heartbeat` "),
        ('heartbeat: "SELECT FROM WHERE )(", ', "heartbeat", "could not be inspected"),
        (
            'heartbeat: "SELECT name, beat_at FROM heartbeat", ',
            "heartbeat",
            "must give one time, and this gives 2 columns",
        ),
        ("heartbeat: SELECT now(), ", "heartbeat", "own clock"),
        ("heartbeat: SELECT 1764500000, ", "heartbeat", "own clock"),
        ('heartbeat: "SELECT coalesce(max(beat_at), now()) FROM heartbeat", ', "heartbeat", "own clock"),
        (
            'heartbeat: "SELECT max(t) FROM (SELECT current_timestamp AS t FROM heartbeat) AS h", ',
            "heartbeat",
            "own clock",
        ),
        ("heartbeat: SELECT unix_timestamp() FROM heartbeat, ", "heartbeat", "own clock"),
        ("heartbeat: '', ", "heartbeat", "must be one SELECT"),
        ("heartbeat: 3, ", "heartbeat", "must be one SELECT"),
    ],
)
@pytest.mark.parametrize("base", [MYSQL, PLAIN_POSTGRES])
def test_a_heartbeat_that_cannot_decide_is_refused(base: str, heartbeat: str, freshness: str, says: str) -> None:
    """Semantics 1.4 and 2.1: required where it decides, refused where it does not, inspected like any text."""
    found = [problem for problem in refused(item(SQL), beating(heartbeat, freshness, base)) if says in problem.message]
    assert len(found) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT max(beat_at) FROM heartbeat WHERE beat_at > now() - interval '1' day",
        "WITH b AS (SELECT max(beat_at) AS t FROM ops.heartbeat) SELECT unix_timestamp(t) FROM b",
    ],
)
def test_a_heartbeat_may_compare_with_the_clock_and_not_give_it(text: str) -> None:
    """Semantics 2.1: what it gives is what the primary wrote."""
    assert not warnings(item(SQL), beating(f'heartbeat: "{text}", '))


def test_a_file_has_no_heartbeat() -> None:
    assert any("freshness: none" in one.message for one in refused(item(SQL), beating(BEAT, base=SQLITE)))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("databases: {shop: {replicas: []}}", "at least 1 item"),
        ("databases: {shop: {}}", "has no `replicas`"),
        ("databases: {Shop: {replicas: [{name: r, url: 'postgresql://h/d'}]}}", "small letters"),
        ("databases: {shop: {replicas: [{name: r, url: nowhere}]}}", "must be a URL"),
        (
            "databases: {shop: {replicas: [{name: r, url: 'postgresql://h/d'}, {name: r, url: 'postgresql://i/d'}]}}",
            "two replicas",
        ),
        (
            "databases: {shop: {replicas: [{name: r, url: 'postgresql://h/d'}, {name: s, url: 'mysql://i/d'}]}}",
            "one kind",
        ),
        ("databases: {shop: {timezone: Mars/X, replicas: [{name: r, url: 'postgresql://h/d'}]}}", "no such time zone"),
        ("databases: {shop: {concurrency: 0, replicas: [{name: r, url: 'postgresql://h/d'}]}}", "between"),
        ("databases: {shop: {allow_primary: yes, replicas: [{name: r, url: 'postgresql://h/d'}]}}", "true or false"),
    ],
)
def test_a_database_that_cannot_be_asked_is_refused(config: str, says: str) -> None:
    assert any(says in problem.message for problem in refused(item(SQL), config + "\n"))


@pytest.mark.parametrize(
    ("notifier", "says"),
    [
        ("{kind: slack}", "needs `token` and `channel`"),
        ("{kind: slack, token: '${T}'}", "needs a `channel`"),
        ("{kind: slack, token: '${T}', webhook_url: '${W}', channel: x}", "exclude each other"),
        ("{kind: slack, webhook_url: '${W}', channel: x}", "its own channel"),
        ("{kind: pager, channel: x, token: '${T}'}", "must be one of slack"),
        ("{channel: x, token: '${T}'}", "has no `kind`"),
    ],
)
def test_a_notifier_that_could_not_send_is_refused(notifier: str, says: str) -> None:
    assert any(says in one.message for one in refused(item(SQL), POSTGRES + f"notifiers: {{oncall: {notifier}}}\n"))


def test_the_rest_of_the_configuration_arrives_in_the_model() -> None:
    config = accepted(
        item(SQL),
        POSTGRES
        + "notifiers: {oncall: {kind: slack, channel: '#shop', token: '${T}'}}\n"
        + "retention: {runs_kept_in_full: 50, evidence: 7d}\nexternal_url: https://holdtrue.example.com/\n"
        + "store: {url: 'postgresql://holdtrue:${P}@store/holdtrue'}\n",
    ).config
    assert config.notifiers[0].option("channel") == "#shop"
    assert (config.retention.runs_kept_in_full, config.retention.evidence) == (50, timedelta(days=7))
    assert config.external_url == "https://holdtrue.example.com"
    assert config.store.url.template.endswith("@store/holdtrue")


def test_a_broken_configuration_does_not_make_every_invariant_doubtful() -> None:
    found = refused(item(SQL), "databases: {shop: {replica: []}}\n")
    assert {problem.place.file for problem in found} == {"holdtrue.yaml"}


BASE = "base_rows: [{table: refunds, where: {id: id}}]"


def test_what_promote_would_refuse_is_warned_of_where_base_rows_are_declared() -> None:
    """semantics 4.4: declared after the incident, it comes too late for the rows that were kept."""
    text = "sql: SELECT id, max(created_at) AS at FROM refunds WHERE state = 'settled' GROUP BY id"
    (warning,) = warnings(item(f"{text}\ncolumns: {{refunds.state: safe}}\n{BASE}"))
    assert "columns: {refunds.created_at: safe}" in warning
    assert warnings(item(f"{text}\ncolumns: {{refunds.state: safe}}")) == []
    assert warnings(item(f"{text}\ncolumns: {{refunds.state: safe, refunds.created_at: safe}}\n{BASE}")) == []
    assert warnings(item(f"{text}\n{BASE}"), MYSQL) == [], "no barrier test is offered there"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('we"ird', '"we""ird"'),
        ('"we"ird"', '"we""ird"'),
        ('"open', '"""open"'),
        ('sales."a"b', None),
        ('"a".', None),
        ('Order Lines."x"', None),
    ],
)
def test_a_table_whose_quotes_sql_could_not_read_is_refused_at_its_line(written: str, meant: str | None) -> None:
    """semantics 9.1: it would be missed only when an incident is there already."""
    text = item(f"{SQL}\nbase_rows:\n  - {{table: '{written}', where: {{id: id}}}}")
    problem = the_refusal(text)
    assert "read as SQL reads it" in problem.message
    assert text.split("\n")[problem.place.line - 1].strip().startswith("- {table:")
    assert meant in (None, problem.suggestion)
    assert not refused_on_mysql(written)


def refused_on_mysql(written: str) -> bool:
    """There a double quote is a letter like others."""
    found = look(item(f"{SQL}\nbase_rows: [{{table: '{written}', where: {{id: id}}}}]"), MYSQL)
    return any("read as SQL reads it" in one.message for one in found.problems)


@pytest.mark.parametrize("written", ["refunds", "sales.refunds", "Order Lines", '"we""ird"', 'sales."a.b"', '"S"."t"'])
def test_a_table_that_sql_can_read_is_accepted(written: str) -> None:
    """semantics 9.1"""
    found = one(f"{SQL}\nbase_rows: [{{table: '{written}', where: {{id: id}}}}]")
    assert found.base_rows[0].table == written


def test_a_table_in_quotes_is_warned_of_like_any_other() -> None:
    """semantics 4.4"""
    text = 'sql: SELECT id, max("at") AS at FROM "odd ""t""" GROUP BY id'
    (warning,) = warnings(item(f'{text}\nbase_rows: [{{table: \'"odd ""t"""\', where: {{id: id}}}}]'))
    assert r'columns: {"odd \"t\".at": safe}' in warning


@pytest.mark.parametrize(
    "column",
    [
        "odd: {x}, [y]",
        "# no",
        'it\'s ""so""',
        "\\x41 \\",
        "null",
        "- a",
        "*a &b",
        "q}: safe",
        "ünï ☃ 💥",
        "no\u00a0break",
        "%s @x `y`",
    ],
)
def test_the_line_that_check_prints_can_be_pasted_whatever_the_columns_name(column: str) -> None:
    """semantics 4.4"""
    text = f'sql: |\n  SELECT id, max("{column}") AS at FROM refunds GROUP BY id\n{BASE}\n'
    (warning,) = warnings(item(text))
    line = "columns: {" + warning.partition("columns: {")[2]
    assert warnings(item(f"{text}{line}")) == []
    name = column.replace('""', '"')
    assert one(f"{text}{line}").columns == frozenset({f"refunds.{name}"})


def test_of_more_columns_than_fit_whole_names_are_printed_and_how_many_more() -> None:
    """semantics 4.4: a line that was cut in the middle cannot be pasted."""
    names = [f"a_rather_long_name_of_a_column_{number}" for number in range(40)]
    text = (
        f"sql: SELECT id, {', '.join(f'max({name}) AS m{name}' for name in names)} FROM refunds GROUP BY id\n{BASE}\n"
    )
    (warning,) = warnings(item(text))
    line, _, more = ("columns: {" + warning.partition("columns: {")[2]).partition(", and ")
    shown = one(f"{text}{line}").columns
    assert 1 < len(shown) < 40
    assert more == f"{40 - len(shown)} more"


def test_a_column_that_may_be_another_tables_or_is_not_taken_along_is_not_warned_of() -> None:
    """semantics 4.4: a warning that no declaration could answer teaches to look away."""
    joined = "sql: SELECT r.id FROM refunds r JOIN disputes d ON d.id = r.dispute_id WHERE"
    assert warnings(item(f"{joined} state = 'settled'\n{BASE}")) == []
    assert warnings(item(f"{joined} d.state = 'open'\n{BASE}")) == []
    assert len(warnings(item(f"{joined} r.state = 'settled'\n{BASE}"))) == 1


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ("{state: {a: [b]}}", "written table.column"),
        ("{t.state: {}}", "must not be empty"),
        ("{t.state: {a: b}}", "must be a list"),
    ],
)
def test_states_are_declared_by_table_and_column_with_what_follows(states: str, says: str) -> None:
    """semantics 9.2"""
    assert any(says in problem.message for problem in refused(item(f"{SQL}\npromote: {{states: {states}}}")))


def test_a_timeout_longer_than_the_interval_is_named_with_its_value_also_where_none_is_written() -> None:
    (unwritten,) = warnings(item(f"{SQL}\ninterval: 5s"))
    assert unwritten.startswith("`timeout` (10s), the default, is longer than the interval (5s)")
    (written,) = warnings(item(f"{SQL}\ninterval: 5s\ntimeout: 20s"))
    assert written.startswith("`timeout` (20s) is longer than the interval (5s)")
