"""writes the files of a ticket's folder: the test, its frozen block, the schema for the reader, the record, the manual"""

from __future__ import annotations

import json

from holdtrue.model import Incident, show_moment
from holdtrue.scaffolding import forensics
from holdtrue.scaffolding.assembly import BY_TRANSACTION
from holdtrue.scaffolding.commits import Commit, commits_of
from holdtrue.scaffolding.contexts import TicketContext
from holdtrue.scaffolding.pairs import pair_of
from holdtrue.scaffolding.texts import fenced, in_docstring, in_markdown, in_sql_comment, is_dotted

_TEST = '''"""Barrier test for incident {id}.

{header}

Wire it in this one place: give run_a and run_b one call each into your real code; db.url is the database to use.
The test fails until you do. It asserts the invariant's own text, never the absence of an exception.
"""

from pathlib import Path

from holdtrue.testing import NotWired, load_incident

# The frozen block: promote the alert again instead of editing it. Its checksum is verified here.
INCIDENT = load_incident(
    Path(__file__).with_name("incident.json"),
    checksum="{checksum}",
)


def run_a(db):
{suggestion}    raise NotWired({wrote_a})


def run_b(db):
{suggestion}    raise NotWired({wrote_b})
{pre_image}

def test_incident_{id}(barrier_db):
    INCIDENT.check(run_a, run_b, barrier_db{argument})
'''
_PRE_IMAGE = '''

def pre_image(db):
    """Correct here, with statements of your own, what no database could tell of the rows before the race.

{marks}
    """
'''


def render(incident: Incident, context: TicketContext) -> dict[str, str]:
    """The files of the ticket's folder by relative path. Pure; what came from a database stays data.

    Values are in ``incident.json`` alone, as ASCII JSON; the test file holds their checksum and never a value.
    """
    return {
        f"test_incident_{incident.id}.py": _test(incident, context),
        "incident.json": json.dumps(incident.as_data(), ensure_ascii=True, indent=1) + "\n",
        "incident_schema.sql": _schema(incident, context),
        "ticket.json": _ticket(incident, context),
        "README.md": _readme(incident, context),
    }


def _test(incident: Incident, context: TicketContext) -> str:
    commits = commits_of(context.writers, context.traces)
    wrote = [_wrote(one) for one in pair_of(commits, context.traces)] or ["the rows in observed"]
    suggestion = ""
    if is_dotted(context.operation):
        module, _, function = context.operation.partition(":")
        suggestion = f"    # for example: from {module} import {function}\n"
    marks = "\n".join(f"    PRE-IMAGE {in_docstring(mark)}" for mark in incident.marked)
    return _TEST.format(
        id=incident.id,
        header="\n".join(f"{name:<16} {in_docstring(value)}" for name, value in _facts(incident, context)),
        checksum=incident.checksum,
        suggestion=suggestion,
        wrote_a=ascii(f"wire run_a to the code that wrote {wrote[0]}"),
        wrote_b=ascii(f"wire run_b to the code that wrote {wrote[1] if len(wrote) > 1 else wrote[0]}"),
        pre_image=_PRE_IMAGE.format(marks=marks) if incident.marked else "",
        argument=", pre_image=pre_image" if incident.marked else "",
    )


def _facts(incident: Incident, context: TicketContext) -> list[tuple[str, str]]:
    facts = [
        ("invariant", f"{incident.invariant} on {incident.database} ({incident.engine})"),
        ("alert", f"{context.alert}, promoted {show_moment(context.created_at)} by {context.created_by}"),
        ("rows split", context.split),
        ("pattern", incident.pattern),
        *forensics.facts(incident, context),
    ]
    facts.append(("at export", at_export(context)))
    facts.extend(("lost", _lost(child, parent)) for child, parent in context.lost)
    facts.append(("stand-ins", ", ".join(context.masked) or "none: every captured column is declared safe"))
    if context.moves:
        facts.append(("moved", f"with the clock, as numbers that count time: {', '.join(context.moves)}"))
    facts.extend(("not moved", f"{one}: look at it") for one in context.stays)
    facts.extend(("guessed", mark) for mark in incident.marked)
    if context.keys > 1:
        facts.append(("violations", f"this is one of {context.keys} whose rows were kept"))
    if context.incomplete:
        facts.append(("incomplete", context.incomplete))
    if context.assumes:
        facts.append(("assumed", context.assumes))
    return facts


def at_export(context: TicketContext) -> str:
    """What is known of the rows before any code was wired; not having looked is said, and is no good news."""
    if context.rehearsed == "breaks":
        return context.rehearsed_how
    return f"NOT LOOKED: {context.rehearsed_how}; nobody knows yet whether these rows break the rule"


def _times(context: TicketContext) -> str:
    """What is said of numbers that count time; nothing where there are none."""
    moved = "".join(f"- moved: {in_markdown(one)}\n" for one in context.moves)
    stays = "".join(f"- not moved, look at it: {in_markdown(one)}\n" for one in context.stays)
    if not moved and not stays:
        return ""
    said = "The rule looks at the clock, so the rows' times move with it whenever the test runs. Of numbers that count time:"
    why = (
        "\nWhat is not moved is as old as the incident: look whether the rule still means the same of it.\n"
        if stays
        else ""
    )
    return f"## Times\n\n{said}\n\n{moved}{stays}{why}\n"


def _lost(child: str, parent: str) -> str:
    return f"a row of {child} refers to a row of {parent} that was not there any more"


def _wrote(commit: Commit) -> str:
    rows = ", ".join(commit.rows)
    return f"{rows} ({commit.said})" if commit.said else rows


def _writers(context: TicketContext) -> str:
    """All of them, where the two runs cannot stand for each; nothing where they do."""
    commits = commits_of(context.writers, context.traces)
    if len(commits) <= 2 or not any(one.xids for one in commits):
        return ""
    pair = pair_of(commits, context.traces)
    lines = "".join(
        f"- {in_markdown(_wrote(one))}{': `run_' + 'ab'[pair.index(one)] + '`' if one in pair else ''}\n"
        for one in commits
    )
    return (
        f"## Writers\n\n{len(commits)} transactions wrote in the window. Which two raced is a guess: those that wrote rows"
        f" behind the violation, of one table if two did. Wire others if you know better:\n\n{lines}\n"
    )


def _savepoints(context: TicketContext) -> str:
    """What is said of ids that are one commit; nothing where there are none."""
    told = [one for one in commits_of(context.writers, context.traces) if one.known is not None]
    if not told:
        return ""
    lines = "".join(f"- {one.said}\n" for one in told)
    alone = (
        "\nNo other writer of the rows is known, so `run_a` and `run_b` name the same code. If one call of it writes all of"
        " the rows, no race was needed: look there first.\n"
        if told[0].alone
        else ""
    )
    return f"## Savepoints\n\nEach savepoint (a nested block) has an id of its own:\n\n{lines}{alone}\n"


def _schema(incident: Incident, context: TicketContext) -> str:
    lines = [
        f"-- The tables of incident {incident.id} as they were in production. For the reader: the test runs on the schema",
        "-- that your own migrations build, else a constraint that mends the bug could never be there.",
        *(f"-- left out: {in_sql_comment(one)}" for one in context.left_out),
    ]
    return "\n".join(lines) + "\n\n" + context.schema_sql.rstrip() + "\n"


def _ticket(incident: Incident, context: TicketContext) -> str:
    record = {
        "ticket": incident.id,
        "tier": "exported",
        "alert": context.alert,
        "invariant": incident.invariant,
        "database": incident.database,
        "severity": context.severity,
        "owner": context.owner,
        "page": context.page_url,
        "created_at": show_moment(context.created_at),
        "created_by": context.created_by,
        "checksum": incident.checksum,
        "pattern": incident.pattern,
        "split": context.split,
        **forensics.record(incident, context),
        "timezone": context.timezone,
        "search_path": context.search_path,
        "rehearsed": {"result": context.rehearsed, "sentence": context.rehearsed_how},
        "lost_parents": [list(one) for one in context.lost],
        "moved": list(context.moves),
        "not_moved": list(context.stays),
        "stand_ins": list(context.masked),
        "guessed": list(incident.marked),
    }
    return json.dumps(record, ensure_ascii=True, indent=1) + "\n"


def _readme(incident: Incident, context: TicketContext) -> str:
    unsure = (context.split,) if context.split and context.split != BY_TRANSACTION else ()
    guesses = "".join(f"- {in_markdown(mark)}\n" for mark in (*unsure, *incident.marked))
    sure = "every row of the seed was there before the window" if incident.seed else "the seed is empty"
    masked = "".join(f"- {in_markdown(name)}\n" for name in context.masked)
    about = in_markdown(context.description) + "\n\n" if context.description else ""
    return f"""# Incident {incident.id}

{about}Rule {in_markdown(incident.invariant)}, database {in_markdown(incident.database)}:

{fenced(incident.sql, "sql")}

## Wire it

1. Once for all incidents, in `tests/conftest.py`: a fixture `barrier_schema` that says how your migrations build a database.
   Have you incidents of several databases? Then it looks at `request.module.INCIDENT.database`, or each database has a folder
   with a `conftest.py` of its own.

   ```python
   import pytest
   from holdtrue.testing import schema_from_alembic


   @pytest.fixture
   def barrier_schema():
       return schema_from_alembic("alembic.ini")  # or schema_from_sql_file("schema.sql"), or a function of the URL
   ```

2. In `test_incident_{incident.id}.py`: `run_a` and `run_b` each get one call into the code that wrote the rows. Both are
   given `db`; `db.url` is the SQLAlchemy URL to use, `db.engine` an engine for it.
   Both may be coroutine functions, for which there is `db.async_engine`.
3. `python -m pytest {"tests/incidents/" + incident.id}`, at the root of your repository. It must fail before the fix and
   pass after it. `pytest` alone finds no code that is not installed, unless its settings say `pythonpath = .`.

A PostgreSQL server comes from `HOLDTRUE_BARRIER_URL` (a login that may create databases), else one is started from
`holdtrue[postgres]`. An incident from {incident.engine} is replayed on {incident.engine} only.

## At export

{in_markdown(at_export(context))}

{_writers(context)}{_savepoints(context)}{_times(context)}## Guesses

{guesses or f"None: {sure}." + chr(10)}
## Stand-ins

{masked or "None: every captured column is declared safe." + chr(10)}
Equal values have equal stand-ins across tables, made with a salt of this export that Holdtrue does not keep. One case
apart: if these files came from a preview, its draft code holds it. So they did if the page gave them, which shows each
ticket first, or if the command was run with `--preview`. Whoever has that code, and the service or its ledger secret, can
try what a value became: treat that code as a secret.

## Files

- `test_incident_{incident.id}.py`: the test, and the only file to edit.
- `incident.json`: the frozen block, under a checksum. Promote again instead of editing it.
- `incident_schema.sql`: the tables as they were, for the reader.
- `ticket.json`: who, when, which window, which writers.
"""
