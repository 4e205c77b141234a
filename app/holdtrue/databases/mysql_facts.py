"""asks MariaDB or MySQL what it is and what the login may do"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from holdtrue.databases.facts import Count, Link, MysqlFacts, read_clocks
from holdtrue.databases.mysql_opening import Flavour, read_moment, status_statement
from holdtrue.databases.mysql_wire import Stopped

_SHOWN: Final = 3
_GRANT: Final = re.compile(
    r"^GRANT (?P<what>.+?) ON (?:FUNCTION |PROCEDURE |PACKAGE (?:BODY )?)?\S", re.IGNORECASE | re.DOTALL
)
_ROLE: Final = re.compile(r"^GRANT (?P<what>.+?) TO ", re.IGNORECASE | re.DOTALL)
_COLUMNS: Final = re.compile(r"\([^()]*\)")
_OTHER_ENGINES: Final = (
    "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
    " AND TABLE_TYPE = 'BASE TABLE' AND ENGINE <> 'InnoDB' ORDER BY TABLE_NAME"
)

Rows = list[dict[str, str | None]]
Ask = Callable[[str], Rows]
"""Runs one statement of ours; raises ``Stopped``."""


def read_mysql_facts(ask: Ask, flavour: Flavour, link: Link, *, thread: int, zone: str) -> MysqlFacts:
    """Each question apart: what the login or the server does not allow is left out and named.

    ``thread`` is the session's number as it was told at connecting, ``zone`` the session's time zone.

    Raises:
        Stopped: not even the first was answered.
    """
    missing: list[str] = []

    def rows(what: str, sql: str) -> Rows:
        try:
            return ask(sql)
        except Stopped:
            missing.append(what)
            return []

    silence = "replica" if not flavour.is_mariadb and flavour.version >= (8, 0, 26) else "slave"
    first = ask(
        "SELECT @@version AS version, CURRENT_USER() AS login, CONNECTION_ID() AS thread, @@global.read_only AS read_only,"
        f" @@global.log_bin AS log_bin, @@global.binlog_format AS format, @@global.{silence}_net_timeout AS silence"
    )[0]
    clocks = read_clocks(lambda: read_moment(ask("SELECT UNIX_TIMESTAMP(SYSDATE(6)) AS now")[0]["now"]))
    status_visible = True
    try:
        ask(status_statement(flavour))
    except Stopped:
        status_visible = False
    if flavour.is_mariadb:
        positions = "SELECT @@global.gtid_current_pos AS position, @@global.gtid_domain_id AS domain"
    else:
        positions = "SELECT @@global.gtid_executed AS position, '' AS domain"
    position = _first(rows("its GTID position", positions))
    encryption = {
        (row.get("Variable_name") or "").lower(): row.get("Value") or ""
        for row in rows("the connection's encryption", "SHOW SESSION STATUS LIKE 'Ssl%'")
    }
    how = " ".join(filter(None, (encryption.get("ssl_version"), encryption.get("ssl_cipher"))))
    grants = [value or "" for row in rows("the login's rights", "SHOW GRANTS") for value in row.values()]
    rights, roles = read_grants(grants)
    others = rows("the tables' engines", _OTHER_ENGINES)
    known = _first(rows("its time zones", f"SELECT CONVERT_TZ('2024-01-01 00:00:00', '+00:00', '{zone}') AS there"))
    log = first["format"] if first["log_bin"] == "1" else None
    return MysqlFacts(
        flavour="MariaDB" if flavour.is_mariadb else "MySQL",
        version=first["version"] or "",
        clocks=clocks,
        link=replace(link, encryption=how or link.encryption, pooled=first["thread"] != str(thread)),
        login=first["login"] or "",
        rights=rights,
        roles=roles,
        status_visible=status_visible,
        read_only=first["read_only"] == "1",
        gtid=bool(position.get("position")),
        gtid_domain=position.get("domain") or "",
        binlog=log or "",
        silence=timedelta(seconds=int(first["silence"] or 0)),
        zone_known=known.get("there") is not None,
        other_engines=Count(len(others), tuple(row["TABLE_NAME"] or "" for row in others[:_SHOWN])),
        missing=tuple(missing),
    )


def read_grants(lines: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The privileges of SHOW GRANTS, whatever they are on, and the roles; a password's hash in it goes nowhere."""
    rights: set[str] = set()
    roles: list[str] = []
    for line in lines:
        found = _GRANT.match(line)
        if found is not None:
            rights |= {" ".join(one.split()).upper() for one in _COLUMNS.sub("", found["what"]).split(",")}
            if line.rstrip().upper().endswith("WITH GRANT OPTION"):
                rights.add("GRANT OPTION")
        elif (role := _ROLE.match(line)) is not None:
            roles += [one.strip(" `'\"") for one in role["what"].split(",")]
    return frozenset(rights), tuple(roles)


def _first(rows: Rows) -> Mapping[str, str | None]:
    return rows[0] if rows else {}
