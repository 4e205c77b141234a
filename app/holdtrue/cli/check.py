"""check: judges the catalog's files, offline, and says every problem at once"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from holdtrue.catalog import CONFIG, Examination, ended_waivers, examine_files
from holdtrue.cli.annotations import annotation, shown_path
from holdtrue.cli.exits import ExitCode
from holdtrue.cli.terminal import paint, say, say_json, visible
from holdtrue.model import Problem
from holdtrue.settings import environment


class CheckFormat(StrEnum):
    """How the answer is written."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def register(app: typer.Typer) -> None:
    """Add ``holdtrue check``."""
    app.command("check")(check)


def check(
    config: Annotated[
        Path, typer.Option("--config", "-c", envvar="HOLDTRUE_CONFIG", help="The holdtrue.yaml to check.")
    ] = Path(CONFIG),
    format: Annotated[
        CheckFormat, typer.Option("--format", help="Text for people, JSON, or GitHub's annotations.")
    ] = CheckFormat.TEXT,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="A catalog without invariants is meant.")] = False,
) -> None:
    """Check holdtrue.yaml and every invariant; asks no database.

    Ends with 0 if the catalog can be used (warnings may be there), and with 2 if it is refused.
    """
    answer = examine_files(config, environ=environment(config, os.environ), allow_empty=allow_empty)
    if answer.catalog is not None:
        ended = ended_waivers(answer.catalog, datetime.now(UTC))
        answer = replace(answer, problems=tuple(sorted((*answer.problems, *ended), key=lambda one: one.place)))
    problems = [(shown_path(config, one.place.file), one) for one in answer.problems]
    if format is CheckFormat.JSON:
        say_json(_as_data(answer, problems))
    else:
        for path, problem in problems:
            say(_annotation(config, problem) if format is CheckFormat.GITHUB else _line(path, problem))
        say(_summary(answer))
    raise typer.Exit(ExitCode.HOLDS if answer.catalog is not None else ExitCode.REFUSED)


def _line(path: str, problem: Problem) -> str:
    word = paint("error", "red") if problem.fatal else paint("warning", "yellow")
    place = f"{visible(path)}:{problem.place.line}:{problem.place.column}"
    return f"{place}: {word}: {_sentence(problem)}"


def _sentence(problem: Problem) -> str:
    quoted = f": '{visible(problem.offending)}'" if problem.offending else ""
    hint = f" (did you mean '{visible(problem.suggestion)}'?)" if problem.suggestion else ""
    return f"{visible(problem.message)}{quoted}{hint}"


def _annotation(config: Path, problem: Problem) -> str:
    level = "error" if problem.fatal else "warning"
    return annotation(level, _sentence(problem), config=config, place=problem.place)


def _summary(answer: Examination) -> str:
    errors = len(answer.refusals)
    warnings = len(answer.problems) - errors
    counted = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
    if answer.catalog is None:
        return f"refused: {counted}"
    invariants = _count(len(answer.catalog.invariants), "invariant")
    databases = _count(len(answer.catalog.config.databases), "database")
    canary = answer.catalog.config.canary
    proves = f", a canary for {', '.join(map(visible, canary.notify))}" if canary is not None else ""
    return f"in order: {invariants}, {databases}{proves}; {counted}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _as_data(answer: Examination, problems: list[tuple[str, Problem]]) -> dict[str, object]:
    return {
        "in_order": answer.catalog is not None,
        "invariants": len(answer.catalog.invariants) if answer.catalog else None,
        "databases": len(answer.catalog.config.databases) if answer.catalog else None,
        "canary": list(answer.catalog.config.canary.notify) if answer.catalog and answer.catalog.config.canary else [],
        "problems": [
            {
                "file": path,
                "line": one.place.line,
                "column": one.place.column,
                "level": "error" if one.fatal else "warning",
                "message": one.message,
                "offending": one.offending,
                "suggestion": one.suggestion,
            }
            for path, one in problems
        ],
    }
