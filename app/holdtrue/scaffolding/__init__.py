"""renders a ticket's files as {path: text} (pure)"""

from holdtrue.scaffolding.assembly import NO_RUN_BEFORE, Assembled, assemble
from holdtrue.scaffolding.commits import commits_of, writers_of
from holdtrue.scaffolding.contexts import TicketContext, Writer
from holdtrue.scaffolding.extras import Extra, render_extras
from holdtrue.scaffolding.folder import render
from holdtrue.scaffolding.naming import ticket_id
from holdtrue.scaffolding.patterns import Pattern, recognise
from holdtrue.scaffolding.sides import Side, side_of
from holdtrue.scaffolding.wanted import PLAIN, Finding, Wanted

__all__ = [
    "NO_RUN_BEFORE",
    "PLAIN",
    "Assembled",
    "Extra",
    "Finding",
    "Pattern",
    "Side",
    "TicketContext",
    "Wanted",
    "Writer",
    "assemble",
    "commits_of",
    "recognise",
    "render",
    "render_extras",
    "side_of",
    "ticket_id",
    "writers_of",
]
