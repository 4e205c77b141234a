"""what is wrong with the heartbeat of a database: absent where it decides, or no text that only reads one time"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdtrue.catalog.nodes import Scalar
from holdtrue.catalog.shapes import Fields
from holdtrue.catalog.sources import SqlSource, inline
from holdtrue.catalog.sql import inspect_sql
from holdtrue.model import Dialect, Freshness, Problem, ServiceConfig


def check_heartbeats(fields: Fields, config: ServiceConfig, lines: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    """The problems of every database's ``heartbeat``; a heartbeat has no ``inspected: true``, it is to be a plain text."""
    for database in config.databases:
        own = fields.get("databases")[database.name]
        decides = database.freshness is Freshness.HEARTBEAT
        if "heartbeat" not in own:
            if decides and "heartbeat" not in own.written:
                message = "`freshness: heartbeat` needs `heartbeat`: a SELECT of the time that the primary last wrote"
                yield Problem(own.written["freshness"][1].place, message, "heartbeat")
            continue
        key, node = own.written["heartbeat"]
        if not decides:
            message = "`heartbeat` decides nothing without `freshness: heartbeat`; say so, or take it out"
            yield Problem(key.place, message)
        if isinstance(node, Scalar):
            yield from _of_text(inline("heartbeat", node, own.get("heartbeat"), lines), database.dialect)


def _of_text(source: SqlSource, dialect: Dialect) -> Iterator[Problem]:
    folded = source.folded_comment()
    if folded is not None:
        yield folded
        return
    inspection = inspect_sql(source.sql, dialect)
    wrong = [one for one in inspection.problems if not one.one_row]
    for one in wrong:
        yield Problem(source.place(one.at), f"`heartbeat` {one.message}", one.offending)
    if not wrong and not inspection.parsed:
        message = (
            f"`heartbeat` could not be inspected: our parser does not understand it as {dialect}; write it plainer"
        )
        yield Problem(source.place(0), message)
    if not wrong and inspection.parsed and (inspection.shows_clock or not inspection.tables):
        message = (
            "`heartbeat` gives the asked server's own clock, or reads no table: that is fresh always, and proves nothing; "
            "select the time that the primary wrote"
        )
        yield Problem(source.place(0), message)
    if inspection.columns is not None and len(inspection.columns) != 1:
        yield Problem(
            source.place(0), f"`heartbeat` must give one time, and this gives {len(inspection.columns)} columns"
        )
