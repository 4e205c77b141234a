"""describes MariaDB and MySQL tables with their parents, in the server's own words"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from holdtrue.databases.describing import Described
from holdtrue.databases.mysql_evidence import Asking, literal, quote, without_counter
from holdtrue.model import Row

_MANY: Final = 10_000
# A login sees its own rights here, and those of everybody, which the server may not count (databases called test_…).
_ME: Final = (
    "grantee = CONCAT('''', SUBSTRING_INDEX(CURRENT_USER(), '@', 1), '''@''',"
    " SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')"
)
_SEES_TRIGGERS: Final = (
    f"SELECT 1 FROM information_schema.user_privileges WHERE privilege_type = 'TRIGGER' AND {_ME} UNION"
    f" SELECT 1 FROM information_schema.schema_privileges WHERE privilege_type = 'TRIGGER' AND {_ME}"
    " AND {home} LIKE table_schema"
)


def describe_with_parents(asking: Asking, written: Sequence[str], within: timedelta) -> Described:
    """The DDL of the tables that a catalog wrote and of all that they refer to, parents first.

    Only tables of the URL's own database: a scratch database has no other. Views and triggers are left out and named; a
    foreign key into another database stays in the DDL and is named too.
    """

    def ask(sql: str) -> list[Row]:
        return asking.query(sql, limit=_MANY, within=within)

    home = ask("SELECT DATABASE()")[0][0] or ""
    listed = f"SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = {literal(home)}"
    there = {str(name): str(kind) for name, kind in ask(listed)}
    missing: list[str] = []
    left_out: list[str] = []
    found: dict[str, str] = {}
    waiting: list[str] = []
    for name in written:
        real = _real(name, home, there)
        if real is None:
            missing.append(name)
        elif there[real] == "VIEW":
            left_out.append(f"view {real}, and the tables that it alone reads")
        else:
            waiting.append(real)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        made = ask(f"SHOW CREATE TABLE {quote(home)}.{quote(name)}")[0][1]
        found[name] = without_counter(str(made)) + ";"
        for schema, parent in ask(
            "SELECT DISTINCT referenced_table_schema, referenced_table_name FROM information_schema.key_column_usage"
            f" WHERE table_schema = {literal(home)} AND table_name = {literal(name)} AND referenced_table_name IS NOT NULL"
            " ORDER BY 1, 2"
        ):
            if schema == home and parent in there:
                waiting.append(str(parent))
            else:
                left_out.append(f"table {schema}.{parent}, to which {name} refers")
        left_out += [
            f"trigger {trigger} on {name}"
            for (trigger,) in ask(
                f"SELECT trigger_name FROM information_schema.triggers WHERE event_object_schema = {literal(home)}"
                f" AND event_object_table = {literal(name)} ORDER BY 1"
            )
        ]
    if found and not ask(_SEES_TRIGGERS.format(home=literal(home))):
        left_out.append("triggers: this login may not see whether there are any (that takes the right TRIGGER)")
    ddl = "\n".join(reversed(found.values())) + "\n" if found else ""
    if found:
        # Tables may refer to each other in a circle, and no order would do.
        ddl = f"SET FOREIGN_KEY_CHECKS = 0;\n{ddl}SET FOREIGN_KEY_CHECKS = 1;\n"
    return Described(ddl, tuple(sorted(found)), tuple(dict.fromkeys(left_out)), tuple(missing))


def _real(written: str, home: str, there: dict[str, str]) -> str | None:
    """The table's name as the server has it; whether case matters is its file system's choice."""
    schema, _, name = written.replace("`", "").rpartition(".")
    if schema and schema.lower() != home.lower():
        return None
    if name in there:
        return name
    folded = sorted(one for one in there if one.lower() == name.lower())
    return folded[0] if folded else None
