"""puts each frozen row beside the transaction that wrote it (pure)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdtrue.model import Incident, Row
from holdtrue.scaffolding.contexts import TicketContext, Writer

SEED = "seed"
OBSERVED = "observed"


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A row of the frozen block: its part (``seed``, ``observed``), its place in its table there, and its writer if known."""

    part: str
    table: str
    place: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    values: Row
    writer: Writer | None = None


def placed_rows(incident: Incident, context: TicketContext) -> Iterator[PlacedRow]:
    """Every row in the order of the frozen block; writers name observed rows by table and place."""
    writers = {name: writer for writer in context.writers for name in writer.rows}
    for part, tables in ((SEED, incident.seed), (OBSERVED, incident.observed)):
        places: dict[str, int] = {}
        for table in tables:
            for values in table.rows:
                place = places[table.table] = places.get(table.table, 0) + 1
                writer = writers.get(f"{table.table} row {place}") if part == OBSERVED else None
                yield PlacedRow(part, table.table, place, table.columns, table.types, values, writer)
