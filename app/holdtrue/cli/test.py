"""test: proves on scratch databases that invariants can fail, by their own examples"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from holdtrue.catalog import load_catalog
from holdtrue.cli.annotations import annotation, shown_path
from holdtrue.cli.exits import ExitCode, worst
from holdtrue.cli.junit import Case, CaseResult, junit
from holdtrue.cli.options import ConfigOption, ReportFormat, ReportFormatOption, SelectOption
from holdtrue.cli.progress import progress
from holdtrue.cli.quiet import no_log
from holdtrue.cli.signals import ended_like_ctrl_c
from holdtrue.cli.terminal import paint, say, say_json, visible
from holdtrue.inspection import choose
from holdtrue.model import Place, show_duration
from holdtrue.rehearsal import Kind, Proof, Proven, Result, Trial, rehearse
from holdtrue.settings import environment, load_settings

_EXITS = {
    Proven.PROVEN: ExitCode.HOLDS,
    Proven.NOT_PROVEN: ExitCode.HOLDS,
    Proven.FAILED: ExitCode.VIOLATED,
    Proven.COULD_NOT_LOOK: ExitCode.COULD_NOT_LOOK,
    Proven.REFUSED: ExitCode.REFUSED,
}
_COLOURS = {
    Proven.PROVEN: "green",
    Proven.NOT_PROVEN: "yellow",
    Proven.FAILED: "red",
    Proven.COULD_NOT_LOOK: "yellow",
    Proven.REFUSED: "red",
}
_NO_TIME = timedelta(0)
_ORDER = (Proven.REFUSED, Proven.FAILED, Proven.COULD_NOT_LOOK, Proven.NOT_PROVEN, Proven.PROVEN)


def register(app: typer.Typer) -> None:
    """Add ``holdtrue test``."""
    app.command("test")(prove)


def prove(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Invariants; all if none.")] = None,
    select: SelectOption = None,
    format: ReportFormatOption = ReportFormat.TEXT,
    require_examples: Annotated[
        bool, typer.Option("--require-examples", help="An invariant that no violating example proves is a failure.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Prove that invariants can fail: try their examples on scratch databases made from each database's schema_file.

    Asks no database of holdtrue.yaml. Ends with 0 if every example shows what it says, 1 if one does not, 2 if the
    catalog, the arguments or a schema file are refused, 3 if a scratch database could not be made or asked.
    """
    settings = load_settings(config, os.environ)
    environ = environment(settings.config, os.environ)
    catalog = load_catalog(settings.config, environ=environ)
    chosen = choose(catalog, names or (), select or ())
    total = len({one.name for one, _ in chosen})
    # A pipeline that is called off must leave no database behind on the server that it was lent.
    with no_log(), ended_like_ctrl_c(signal.SIGTERM):
        proofs = rehearse(
            catalog, chosen, environ=environ, folder=settings.config.parent, on_done=progress(total, "tested")
        )
    code = worst(_exit(one, require_examples=require_examples) for one in proofs)
    match format:
        case ReportFormat.JSON:
            say_json({"exit_code": int(code), "tested": [_as_data(one, settings.config) for one in proofs]})
        case ReportFormat.JUNIT:
            cases = [case for one in proofs for case in _cases(one, settings.config, required=require_examples)]
            say(junit("holdtrue test", cases))
        case ReportFormat.GITHUB:
            for one in proofs:
                _annotate(one, settings.config, required=require_examples)
            say(_summary(proofs))
        case _:
            for one in proofs:
                _say(one, settings.config)
            say(_summary(proofs))
    raise typer.Exit(code)


def _exit(proof: Proof, *, require_examples: bool) -> ExitCode:
    if proof.proven is Proven.NOT_PROVEN and require_examples:
        return ExitCode.VIOLATED
    return _EXITS[proof.proven]


def _where(proof: Proof) -> str:
    shown = ", ".join(proof.databases[:3])
    return shown if len(proof.databases) <= 3 else f"{shown} and {len(proof.databases) - 3} more"


def _say(proof: Proof, config: Path) -> None:
    parts = [paint(proof.proven.value, _COLOURS[proof.proven]), f"{proof.invariant.name} @ {visible(_where(proof))}"]
    if proof.trials:
        kinds = [one.kind for one in proof.trials]
        parts.append(", ".join(f"{kinds.count(kind)} {kind}" for kind in Kind if kind in kinds))
        parts.append(f"in {show_duration(sum((one.duration for one in proof.trials), start=_NO_TIME))}")
    say("  ".join(parts))
    if proof.sentence:
        say(f"    {visible(proof.sentence)}")
    for trial in proof.trials:
        if trial.result is not Result.SHOWN:
            say(f"    {paint(trial.result.value, 'red')}  {visible(trial.label)}: {visible(trial.sentence)}")
            place = trial.place
            if place is not None:
                say(f"        at {visible(shown_path(config, place.file))}:{place.line}:{place.column}")
    for note in dict.fromkeys(note for trial in proof.trials for note in trial.notes):
        say(f"    note: {visible(note)}")


def _summary(proofs: Sequence[Proof]) -> str:
    counts = {proven: sum(one.proven is proven for one in proofs) for proven in _ORDER}
    said = ", ".join(f"{count} {proven}" for proven, count in counts.items() if count)
    return f"{len(proofs)} tested: {said}"


def _as_data(proof: Proof, config: Path) -> dict[str, object]:
    return {
        "invariant": proof.invariant.name,
        "databases": list(proof.databases),
        "result": proof.proven.value,
        "sentence": proof.sentence,
        **_place_as_data(proof.invariant.place, config),
        "examples": [
            {
                "kind": one.kind.value,
                "number": one.number,
                "name": one.example.name,
                "description": one.example.description,
                "result": one.result.value,
                "counted": one.counted,
                "sentence": one.sentence,
                "notes": list(one.notes),
                **_place_as_data(one.place, config),
                "duration_seconds": round(one.duration.total_seconds(), 6),
            }
            for one in proof.trials
        ],
    }


def _place_as_data(place: Place | None, config: Path) -> dict[str, object]:
    if place is None:
        return {"file": None, "line": None, "column": None}
    return {"file": shown_path(config, place.file), "line": place.line, "column": place.column}


def _cases(proof: Proof, config: Path, *, required: bool) -> list[Case]:
    """One case an example; an invariant whose examples were not tried, or prove nothing, has one of its own."""
    cases = [_case(proof, trial, config) for trial in proof.trials]
    if proof.sentence:
        result = {Proven.NOT_PROVEN: CaseResult.FAILURE if required else CaseResult.SKIPPED}.get(
            proof.proven, CaseResult.ERROR
        )
        place = proof.invariant.place
        cases.append(
            Case(
                suite=_where(proof),
                group=proof.invariant.name,
                name="is proven",
                seconds=0.0,
                result=result,
                kind=proof.proven.value,
                message=proof.sentence,
                file=shown_path(config, place.file) if place else "",
                line=place.line if place else 0,
            )
        )
    return cases


def _case(proof: Proof, trial: Trial, config: Path) -> Case:
    results = {Result.SHOWN: CaseResult.PASSED, Result.FAILED: CaseResult.FAILURE}
    return Case(
        suite=_where(proof),
        group=proof.invariant.name,
        name=trial.label,
        seconds=trial.duration.total_seconds(),
        result=results.get(trial.result, CaseResult.ERROR),
        kind=trial.result.value,
        message=trial.sentence,
        body=trial.notes,
        file=shown_path(config, trial.place.file) if trial.place else "",
        line=trial.place.line if trial.place else 0,
    )


def _annotate(proof: Proof, config: Path, *, required: bool) -> None:
    title = f"{proof.invariant.name} @ {_where(proof)}: {proof.proven}"
    if proof.sentence:
        level = "warning" if proof.proven is Proven.NOT_PROVEN and not required else "error"
        say(annotation(level, proof.sentence, config=config, place=proof.invariant.place, title=title))
    for trial in proof.trials:
        if trial.result is not Result.SHOWN:
            message = "\n".join([f"{trial.label}: {trial.sentence}", *trial.notes])
            say(annotation("error", message, config=config, place=trial.place, title=title))
