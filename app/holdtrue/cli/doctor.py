"""doctor: says how well the replicas can be asked, and what their logins may do"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated

import typer

from holdtrue.catalog import load_catalog
from holdtrue.cli.exits import ExitCode, worst
from holdtrue.cli.options import ConfigOption, Format, FormatOption
from holdtrue.cli.progress import progress
from holdtrue.cli.quiet import no_log
from holdtrue.cli.terminal import paint, say, say_json, visible
from holdtrue.inspection import Diagnosis, Finding, Weight, connected, diagnose
from holdtrue.settings import environment, load_settings

_COLOURS = {Weight.FINE: "green", Weight.WARNING: "yellow", Weight.PROBLEM: "red"}


def register(app: typer.Typer) -> None:
    """Add ``holdtrue doctor``."""
    app.command("doctor")(doctor)


def doctor(
    databases: Annotated[
        list[str] | None, typer.Argument(metavar="[DATABASE]...", help="Databases of holdtrue.yaml; all if none.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A warning ends with 1.")] = False,
    format_: FormatOption = Format.TEXT,
    config: ConfigOption = None,
) -> None:
    """Say of every replica whether runs are made there, how fresh and how safe they are, and what to do about it.

    Asks with the logins of holdtrue.yaml, reads no rows and changes nothing. Ends with 0 if every replica can be asked,
    3 if one cannot, 2 if the catalog or a name is refused, 1 under --strict if there is a warning (1 wins over 3).
    """
    settings = load_settings(config, os.environ)
    environ = environment(settings.config, os.environ)
    catalog = load_catalog(settings.config, environ=environ, allow_empty=True)
    count = sum(len(one.replicas) for one in catalog.config.databases if not databases or one.name in databases)
    with no_log(), connected(catalog, environ, settings.config.parent) as asked:
        found = diagnose(asked, catalog, databases or (), on_done=progress(count, "looked at"))
    code = _code(found, strict=strict)
    if format_ is Format.JSON:
        say_json({"exit_code": int(code), "replicas": [_as_data(one) for one in found]})
    else:
        for name, replicas in groupby(found, key=lambda one: one.config.name):
            _say(name, tuple(replicas))
        say(_summary(found))
    raise typer.Exit(code)


def _code(found: Iterable[Diagnosis], *, strict: bool) -> ExitCode:
    weights = {finding.weight for one in found for finding in one.findings}
    codes = [ExitCode.COULD_NOT_LOOK] if Weight.PROBLEM in weights else []
    codes += [ExitCode.VIOLATED] if strict and Weight.WARNING in weights else []
    return worst(codes)


def _say(name: str, replicas: Sequence[Diagnosis]) -> None:
    say(f"{paint(visible(name), 'bold')} ({replicas[0].config.dialect.value})")
    for one in replicas:
        say(f"  {visible(one.told.replica)}")
        for finding in one.findings:
            say(f"    {paint(finding.weight.value.ljust(7), _COLOURS[finding.weight])}  {visible(finding.sentence)}")
            if finding.remedy:
                say(f"             {paint('→', 'dim')} {visible(finding.remedy)}")
    say()


def _summary(found: Sequence[Diagnosis]) -> str:
    weights = [finding.weight for one in found for finding in one.findings]
    said = [f"{len(found)} replica{'' if len(found) == 1 else 's'} looked at"]
    for weight in (Weight.PROBLEM, Weight.WARNING):
        number = weights.count(weight)
        said.append(f"{number or 'no'} {weight.value}{'' if number == 1 else 's'}")
    return ", ".join(said)


def _as_data(one: Diagnosis) -> dict[str, object]:
    position = one.told.position
    lag = position.lag if position is not None else None
    return {
        "database": one.config.name,
        "dialect": one.config.dialect.value,
        "replica": one.told.replica,
        "reached": one.told.reached,
        "role": position.role if position is not None else "",
        "lag_seconds": round(lag.total_seconds(), 6) if lag is not None else None,
        "freshness_proven": position.freshness_proven if position is not None else False,
        "findings": [_finding_as_data(finding) for finding in one.findings],
    }


def _finding_as_data(finding: Finding) -> dict[str, str]:
    return {
        "severity": finding.weight.value,
        "name": finding.name,
        "sentence": finding.sentence,
        "remedy": finding.remedy,
    }
